"""Pages for instructors, made of the templates in templates/reports: the report, and what all of them share.

They load nothing, contain no scripts, and escape every text. Only their own style and pictures are shown.
"""

from __future__ import annotations

import base64
import io
import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from cluster.system.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEMPLATES = Path(__file__).parent / "templates" / "reports"
PLACES = {"local": "this machine", "slurm": "Slurm"}


def render(template: str, **values: Any) -> str:
    """Return the HTML of one of TEMPLATES."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, undefined=StrictUndefined
    )
    environment.filters["printable"] = printable
    return environment.get_template(template).render(nonce=secrets.token_urlsafe(18), **values)


def page(found: dict[str, Any]) -> str:
    """Return the HTML for `class_report.facts`."""
    lost = [[r["failed"], f"{r['rate']:.0%}"] if r["mean"] is not None else ["", ""] for r in found["checks"]]
    names = ("name", "student", "points", "late days", "penalty", "final", "seconds")
    return render(
        "report.html",
        **found,
        places=PLACES,
        command=command,
        distribution=picture(distribution(found), "Histogram of the students' points before late penalties"),
        failures=picture(failures(found), "Fraction of students who lose points in each check"),
        check_rows=[
            [r["check"], r["points"], r["mean"], *more, r["seconds"], r["error"]]
            for r, more in zip(found["checks"], lost, strict=True)
        ],
        group_rows=[
            [
                ", ".join(g["checks"]),
                len(g["names"]),
                ", ".join(g["names"]),
                g["error"],
                "; ".join(g["shows"]),
            ]
            for g in found["groups"]
        ],
        student_rows=[[*(r[name] for name in names), "; ".join(r["shows"])] for r in found["students"]],
    )


def command(assignment: str, group: dict[str, Any]) -> str:
    """Return the commands that regrade the failed checks of a group, for its students only."""
    students = " ".join(f"--student {shlex.quote(student)}" for student in group["students"])
    start = f"python -m cluster grade regrade {assignment[:2]}"
    return "\n".join(f"{start} --check {shlex.quote(check)} {students}" for check in group["checks"])


def picture(figure: Figure, words: str) -> Markup:
    """Return a figure as an embedded image."""
    data = io.BytesIO()
    figure.savefig(data, format="svg", metadata={"Date": None})
    text = base64.b64encode(data.getvalue()).decode()
    return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(words, text)


def drawing(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure and its axes in the course's style, without a display."""
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style.context("cluster.course"):
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        return figure, figure.add_subplot()


def distribution(found: dict[str, Any]) -> Figure:
    """Return a histogram of the students' points."""
    import numpy as np

    figure, axes = drawing(7.2, 3.0)
    points = [row["points"] for row in found["students"]]
    most = max(found["of"], *points)
    width = max(1.0, round(most / 20))
    axes.hist(points, bins=np.arange(-width / 2, most + width, width).tolist(), rwidth=0.9, color="#0072B2")
    middle = float(np.median(points))
    axes.axvline(middle, color="#D55E00", linestyle="--", marker="")
    axes.annotate(
        f"median {middle:g}", (middle, 1), xycoords=("data", "axes fraction"), va="bottom", ha="center"
    )
    axes.set(xlabel=f"points (out of {found['of']:g})", ylabel="students")
    axes.yaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]  # of AutoLocator
    return figure


def failures(found: dict[str, Any]) -> Figure:
    """Return a chart of the fraction of students who lose points in each check, in notebook order."""
    checks = found["checks"]
    figure, axes = drawing(7.2, 0.8 + 0.26 * len(checks))
    names = [f"{row['check']} ({row['points']:g})" for row in checks]
    axes.barh(names, [100 * row["rate"] for row in checks], color="#0072B2")
    axes.invert_yaxis()
    axes.set(xlabel="students who lose points here (%)", xlim=(0, 100))
    axes.grid(axis="y", visible=False)
    return figure
