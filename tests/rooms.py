"""`python -m tests.rooms` draws cluster/rooms.svg: the rooms of the package and the imports between them."""

from __future__ import annotations

import sys

from . import ROOT, imports

PICTURE = ROOT / "cluster" / "rooms.svg"
TITLES = {"cluster": "the package", "cluster.jobs": "jobs", "cluster.staff": "staff"}


def between(package: str, found: set[imports.Arrow]) -> set[imports.Arrow]:
    """The imports between the parts of a package."""
    inside = {
        tuple(x.removeprefix(f"{package}.").partition(".")[0] if x != package else "__init__" for x in arrow)
        for arrow in found
        if all(x == package or x.startswith(f"{package}.") for x in arrow)
    }
    return {(a, b) for a, b in inside if a != b}


def needed(found: set[imports.Arrow]) -> set[imports.Arrow]:
    """The arrows that no way over others implies (the transitive reduction; there must be no circle)."""
    targets = {a: {b for x, b in found if x == a} for a, _ in found}

    def reached(start: str) -> set[str]:
        return set().union(*({b} | reached(b) for b in targets.get(start, ())), set())

    return {(a, b) for a, b in found if not any(b in reached(c) for c in targets[a] - {b})}


def text() -> str:
    """All that the picture shows, as lines of text: what decides whether it is of today."""
    floors, found = (
        imports.order((ROOT / "cluster/README.md").read_text(encoding="utf-8")),
        imports.arrows(ROOT),
    )
    lines = []
    for package, names in floors.items():
        lines += [f"{package}: " + " > ".join(" ".join(floor) for floor in names)]
        lines += [f"{package}: {a} -> {b}" for a, b in sorted(needed(between(package, found)))]
    return "\n".join(lines)


def draw() -> None:
    """Write the picture."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch

    mpl.rcParams |= {"svg.hashsalt": "rooms", "svg.fonttype": "path", "font.size": 9}
    floors, found = (
        imports.order((ROOT / "cluster/README.md").read_text(encoding="utf-8")),
        imports.arrows(ROOT),
    )
    tallest = max(map(len, floors.values()))
    figure = Figure(figsize=(16, 0.62 * tallest + 0.6), layout="constrained")
    widths = [2.5 + max(map(len, names)) for names in floors.values()]
    panels = figure.subplots(1, len(floors), width_ratios=widths)
    for axes, (package, names) in zip(panels, floors.items(), strict=True):
        axes.set_title(TITLES[package], fontweight="bold")
        axes.set_axis_off()
        widest = max(map(len, names))
        at = {}
        for down, floor in enumerate(names):
            y = -down * (tallest - 1) / (len(names) - 1)
            for i, name in enumerate(floor):
                shift = 0.22 * (down % 2) if len(floor) < widest else 0
                at[name] = ((i + 0.5 + shift) * widest / len(floor), y)
        for a, b in sorted(needed(between(package, found))):
            (x0, y0), (x1, y1) = at[a], at[b]
            bend = 0.0 if abs(y1 - y0) < 1.5 * (tallest - 1) / (len(names) - 1) else 0.18
            axes.add_patch(
                FancyArrowPatch(
                    (x0, y0 - 0.17), (x1, y1 + 0.2), arrowstyle="-|>", mutation_scale=8, lw=0.9,
                    color="#555555", connectionstyle=f"arc3,rad={bend}", zorder=1,
                )
            )  # fmt: skip
        for name, (x, y) in at.items():
            axes.text(
                x, y, name, ha="center", va="center", zorder=2, fontsize=8.5,
                bbox={"boxstyle": "round,pad=0.35", "facecolor": "#E8F1FA", "edgecolor": "#0072B2"},
            )  # fmt: skip
        axes.set_xlim(-0.1, widest + 0.1)
        axes.set_ylim(-(tallest - 1) - 0.5, 0.5)
    figure.savefig(PICTURE, metadata={"Date": None, "Description": text()})


if __name__ == "__main__":
    sys.exit(draw())
