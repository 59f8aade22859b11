"""The report as one HTML file, which loads nothing and contains no scripts."""

from __future__ import annotations

import base64
import html
import io
import secrets
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .class_report import GroupFacts, ReportFacts

PLACES = {"local": "this machine", "slurm": "Slurm"}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.25rem 0.6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; } code { font-size: 0.9em; } pre { white-space: pre-wrap; }
"""


def page(found: ReportFacts) -> str:
    """Return the HTML for `report.facts`."""
    students, took = found["students"], found["time"]
    looks = [row["name"] for row in students if row["look"]]
    hours = ", ".join(f"{n:.3g} core hours on {PLACES[kind]}" for kind, n in took["core hours"].items())
    parts = [
        f"<h1>{html.escape(found['title'])}</h1>",
        f"<p>{len(students)} students, {found['of']:g} points. Execution took {took['seconds']:g} s in total"
        + (f", {took['median']:g} s per student, {took['longest']:g} s at most" if took["median"] else "")
        + (f"; workers used {hours}" if hours else "")
        + (f" ({took['note']})" if took["note"] else "")
        + ".</p>",
        f"<p><b>To grade manually</b>, in Formgrader › Manual Grading: {html.escape(', '.join(looks))}</p>"
        if looks
        else "",
        picture(distribution(found), "Histogram of the students' points before late penalties"),
        "<h2>Checks</h2>",
        picture(failures(found), "Fraction of students who lose points in each check"),
        table(
            ["check", "points", "mean", "lost by", "rate", "s", "most frequent error"],
            [
                [
                    r["check"],
                    r["points"],
                    r["mean"],
                    r["failed"] if r["mean"] is not None else None,
                    f"{r['rate']:.0%}" if r["mean"] is not None else "",
                    r["seconds"],
                    r["error"],
                ]
                for r in found["checks"]
            ],
        ),
        "<h2>Misunderstandings</h2>",
        "<p>Inferred from checks that failed together, using the assignment's incorrect solutions. A student"
        " may show more than one.</p>",
        table(["misunderstanding", "students"], found["misunderstandings"]),
        *same_failures(found),
        "<h2>Students</h2>",
        table(
            ["student", "account", "points", "late days", "penalty", "final", "s", "shows"],
            [
                [
                    *(
                        r[n]
                        for n in ("name", "student", "points", "late days", "penalty", "final", "seconds")
                    ),
                    "; ".join(r["shows"]),
                ]
                for r in students
            ],
        ),
    ]
    return head(found["title"]) + "\n".join(parts) + "</html>\n"


def head(title: str, style: str = "") -> str:
    """Return the beginning of a page, with a policy: only its own style and its pictures are shown."""
    nonce = secrets.token_urlsafe(18)
    policy = f"default-src 'none'; img-src data:; style-src 'nonce-{nonce}'; base-uri 'none'"
    return (
        f'<!doctype html><html lang="en"><head><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<style nonce="{nonce}">{STYLE}{style}</style></head>'
    )


def same_failures(found: ReportFacts) -> list[str]:
    """Show groups of students with the same failed checks, and how to regrade a corrected check."""
    if not found["groups"]:
        return []
    rows: list[list[str | float | None]] = [
        [
            ", ".join(group["checks"]),
            len(group["students"]),
            ", ".join(group["names"]),
            group["error"],
            "; ".join(group["shows"]),
        ]
        for group in found["groups"]
    ]
    number = html.escape(found["assignment"][:2])
    return [
        "<h2>Same failed checks</h2>",
        "<p>One comment suits all students in a row. If a check is wrong, correct it, release the "
        "assignment, and regrade that check for all students: <code>python -m cluster grade regrade "
        f"{number} --check NAME</code>.</p>",
        table(["failed checks", "number", "students", "most frequent error", "shows"], rows),
        "<details><summary>Commands that regrade one row; all other students keep their points until the next"
        " <i>Grade</i></summary>",
        *(f"<pre>{html.escape(command(found, group))}</pre>" for group in found["groups"]),
        "</details>",
    ]


def command(found: ReportFacts, group: GroupFacts) -> str:
    """Return the commands that regrade the failed checks of a group, for its students only."""
    students = " ".join(f"--student {shlex.quote(student)}" for student in group["students"])
    start = f"python -m cluster grade regrade {found['assignment'][:2]}"
    return "\n".join(f"{start} --check {shlex.quote(check)} {students}" for check in group["checks"])


def table(columns: list[str], rows: Sequence[Sequence[str | float | None]]) -> str:
    """Return an HTML table; numbers and the headings of their columns are right-aligned."""

    def is_number(value: object) -> bool:
        return isinstance(value, int | float) or str(value).endswith("%")

    def cell(kind: str, value: str | float | None, number: bool) -> str:
        shown = "" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)
        return f"<{kind}{' class=n' if number else ''}>{html.escape(shown)}</{kind}>"

    right = [any(is_number(row[i]) for row in rows) for i in range(len(columns))]
    lines = ["".join(cell("th", name, right[i]) for i, name in enumerate(columns))]
    lines += ["".join(cell("td", value, is_number(value)) for value in row) for row in rows]
    return "<table>" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def picture(figure: Figure, words: str) -> str:
    """Return a figure as an embedded image."""
    data = io.BytesIO()
    figure.savefig(data, format="svg", metadata={"Date": None})
    text = base64.b64encode(data.getvalue()).decode()
    return f'<img alt="{html.escape(words)}" src="data:image/svg+xml;base64,{text}">'


def drawing(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure and its axes in the course's style, without a display."""
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style.context("cluster.course"):
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        return figure, figure.add_subplot()


def distribution(found: ReportFacts) -> Figure:
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


def failures(found: ReportFacts) -> Figure:
    """Return a chart of the fraction of students who lose points in each check, in notebook order."""
    checks = found["checks"]
    figure, axes = drawing(7.2, 0.8 + 0.26 * len(checks))
    names = [f"{row['check']} ({row['points']:g})" for row in checks]
    axes.barh(names, [100 * row["rate"] for row in checks], color="#0072B2")
    axes.invert_yaxis()
    axes.set(xlabel="students who lose points here (%)", xlim=(0, 100))
    axes.grid(axis="y", visible=False)
    return figure
