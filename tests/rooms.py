"""`python -m tests.rooms` draws cluster/rooms.svg: the packages and the imports between them."""

from __future__ import annotations

import sys
import tomllib
from itertools import combinations, pairwise
from statistics import fmean

import grimp

from . import ROOT

PICTURE = ROOT / "cluster" / "rooms.svg"
TITLES = {"cluster": "the package", "cluster.jobs": "jobs", "cluster.staff": "staff"}

# (package, layer): on the package's own layer, its box; on other layers, the point that arrows to it pass
Stop = tuple[str, int]
Link = tuple[Stop, Stop]
Arrow = tuple[str, str]  # (importing part, imported part)


def layers() -> dict[str, list[list[str]]]:
    """Return {package: its layers, the highest first} from import-linter's contracts in pyproject.toml."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {
        each["name"]: [layer.split(" | ") for layer in each["layers"]]
        for each in contracts
        if each["type"] == "layers"
    }


def between(package: str) -> set[Arrow]:
    """Return the imports between different parts of a package."""
    graph = grimp.build_graph("cluster", cache_dir=None)
    parts = sorted(graph.find_children(package))
    for part in parts:
        graph.squash_module(part)
    return {
        (a.rpartition(".")[2], b.rpartition(".")[2])
        for a in parts
        for b in graph.find_modules_directly_imported_by(a) - {a}
        if b in parts
    }


def needed(arrows: set[Arrow]) -> set[Arrow]:
    """Return the arrows not implied by others (the transitive reduction). There must be no cycle."""
    targets = {a: {b for x, b in arrows if x == a} for a, _ in arrows}

    def reached(start: str) -> set[str]:
        return set().union(*({b} | reached(b) for b in targets.get(start, ())), set())

    return {(a, b) for a, b in arrows if not any(b in reached(c) for c in targets[a] - {b})}


def text() -> str:
    """Return the figure's content as lines of text; if they differ, the figure is out of date."""
    lines = []
    for package, floors in layers().items():
        lines += [f"{package}: " + " > ".join(" ".join(floor) for floor in floors)]
        lines += [f"{package}: {a} -> {b}" for a, b in sorted(needed(between(package)))]
    return "\n".join(lines)


def layered(floors: list[list[str]], arrows: set[Arrow]) -> tuple[list[list[Stop]], set[Link]]:
    """Return the stops of each layer, and the links between neighbouring layers that make up the arrows.

    An arrow across several layers passes a stop without a box on each layer in between. The arrows to one
    package share their stops, so they merge on their way.
    """
    level = {name: number for number, names in enumerate(floors) for name in names}
    rows = [[(name, number) for name in names] for number, names in enumerate(floors)]
    links = set()
    for a, b in sorted(arrows):
        way = [(a, level[a]), *((b, number) for number in range(level[a] + 1, level[b] + 1))]
        links |= set(pairwise(way))
        for stop in way[1:-1]:
            if stop not in rows[stop[1]]:
                rows[stop[1]].append(stop)
    return rows, links


def crossings(rows: list[list[Stop]], links: set[Link]) -> int:
    """Count the pairs of links that cross each other."""
    at = {stop: i for row in rows for i, stop in enumerate(row)}
    pairs = combinations(sorted((a[1], at[a], at[b]) for a, b in links), 2)
    return sum(a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) < 0 for a, b in pairs)


def untangled(rows: list[list[Stop]], links: set[Link]) -> list[list[Stop]]:
    """Return the layers with fewer crossings: stops are sorted by the mean of their neighbours' positions,
    from above and from below in turn.
    """
    best = rows
    for sweep in range(12):
        rows = [list(row) for row in rows]
        for row in rows[1:] if sweep % 2 else rows[-2::-1]:
            at = {stop: i / len(each) for each in rows for i, stop in enumerate(each)}
            ends = {stop: [at[a] for a, b in links if b == stop] for stop in row}
            if not sweep % 2:
                ends = {stop: [at[b] for a, b in links if a == stop] for stop in row}
            middle = {stop: fmean(ends[stop] or [at[stop]]) for stop in row}
            row.sort(key=lambda stop, middle=middle: (middle[stop], stop))
        best = min(best, rows, key=lambda each: crossings(each, links))
    return best


def width(stop: Stop, floors: list[list[str]]) -> float:
    """Return the width of a stop in its layer, in letters."""
    name, number = stop
    return len(name) + 4 if name in floors[number] else 2.5


def spread(wanted: list[float], widths: list[float]) -> list[float]:
    """Place objects of these widths in their order without overlap, as near as possible to their desired
    positions.

    The sum of squared distances is minimal: objects that would overlap are placed together, around their
    mean.
    """
    left = [sum(widths[:i]) + width / 2 for i, width in enumerate(widths)]
    groups: list[list[float]] = []
    for x, offset in zip(wanted, left, strict=True):
        groups.append([x - offset])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    starts = [fmean(group) for group in groups for _ in group]
    return [start + offset for start, offset in zip(starts, left, strict=True)]


def positions(rows: list[list[Stop]], links: set[Link], floors: list[list[str]]) -> dict[Stop, float]:
    """Return the horizontal position of each stop, in letters.

    Each stop is placed near its neighbours. Arrows that only pass a layer are kept straighter. All stops are
    moved a little towards the middle.
    """
    at = {stop: 0.0 for row in rows for stop in row}
    for _ in range(100):
        for row in rows:
            wanted = []
            for stop in row:
                near = [
                    at[b] if a == stop else at[a]
                    for a, b in sorted(links)
                    for _ in range(6 if a[0] == b[0] else 1)
                    if stop in (a, b)
                ]
                wanted.append((at[stop] + 3 * fmean([0.0, *near])) / 4)
            at |= zip(row, spread(wanted, [width(stop, floors) for stop in row]), strict=True)
    return at


def draw() -> None:
    """Draw the figure. Lines stay in the space between boxes, so that each clearly belongs to the boxes that
    it touches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, PathPatch
    from matplotlib.path import Path

    mpl.rcParams |= {"svg.hashsalt": "rooms", "svg.fonttype": "path", "font.size": 9}
    packages = layers()
    tallest = max(map(len, packages.values()))
    drawn = {}
    for package, floors in packages.items():
        rows, links = layered(floors, needed(between(package)))
        rows = untangled(rows, links)
        drawn[package] = floors, links, positions(rows, links, floors)
    sides = {
        package: (
            min(x - width(stop, floors) / 2 for stop, x in at.items()),
            max(x + width(stop, floors) / 2 for stop, x in at.items()),
        )
        for package, (floors, _, at) in drawn.items()
    }
    widths = [right - left for left, right in sides.values()]
    figure = Figure(figsize=(16, 0.62 * tallest + 0.6), layout="constrained")
    panels = figure.subplots(1, len(packages), width_ratios=widths)
    for axes, (package, (floors, links, at)) in zip(panels, drawn.items(), strict=True):
        axes.set_title(TITLES[package], fontweight="bold")
        axes.set_axis_off()
        step = (tallest - 1) / (len(floors) - 1)
        for a, b in sorted(links):
            (x0, y0), (x1, y1) = (at[a], -a[1] * step), (at[b], -b[1] * step)
            top, bottom = y0 - (0.2 if a[0] in floors[a[1]] else -0.2), y1 + 0.2
            middle = (y0 + y1) / 2
            curve = Path(
                [(x0, top), (x0, y0 - 0.2), (x0, middle), (x1, middle), (x1, bottom)],
                [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
            )
            line = {"color": "#555555", "lw": 0.9, "zorder": 1}
            if b[0] in floors[b[1]]:
                axes.add_patch(
                    FancyArrowPatch(path=curve, arrowstyle="-|>", mutation_scale=8, shrinkB=0, **line)
                )
            else:
                axes.add_patch(PathPatch(curve, fill=False, **line))
        for stop, x in at.items():
            if stop[0] in floors[stop[1]]:
                axes.text(
                    x, -stop[1] * step, stop[0], ha="center", va="center", zorder=2, fontsize=8.5,
                    bbox={"boxstyle": "round,pad=0.35", "facecolor": "#E8F1FA", "edgecolor": "#0072B2"},
                )  # fmt: skip
        axes.set_xlim(*sides[package])
        axes.set_ylim(-(tallest - 1) - 0.5, 0.5)
    figure.savefig(PICTURE, metadata={"Date": None, "Description": text()})


if __name__ == "__main__":
    sys.exit(draw())
