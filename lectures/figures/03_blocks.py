"""Draw 03_blocks.svg for lecture 03, four kinds of blocks: python lectures/figures/03_blocks.py"""

import itertools
import pathlib

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

HERE = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 1.5, 0.62  # of a box
FACES = {"1×1": "#F0E442", "3×3": "#A6CEE3", "5×5": "#CCE5D8", "pool": "#E6E6E6", "other": "white"}


def box(ax, x, y, text, kind="other", width=WIDTH):
    """A box centred at (x, y); y runs upwards, from the input to the output."""
    corner = (x - width / 2, y - HEIGHT / 2)
    ax.add_patch(
        FancyBboxPatch(corner, width, HEIGHT, "round,pad=0.02", facecolor=FACES[kind], edgecolor="0.25")
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=9.5)


def arrow(ax, *points, dashed=False):
    """A line through the points with a head at the last."""
    for start, end in itertools.pairwise(points[:-1]):
        ax.plot(*zip(start, end, strict=True), color="0.2", lw=1.4, ls="--" if dashed else "-", marker="")
    style = {"arrowstyle": "-|>", "color": "0.2", "lw": 1.4, "ls": "--" if dashed else "-", "shrinkA": 0}
    ax.annotate("", points[-1], points[-2], arrowprops=style | {"shrinkB": 0})


def chain(ax, x, bottom, top, boxes):
    """Boxes at the given heights in a column, joined by arrows from `bottom` to `top`."""
    at = bottom
    for y, text, kind in boxes:
        arrow(ax, (x, at), (x, y - HEIGHT / 2))
        box(ax, x, y, text, kind)
        at = y + HEIGHT / 2
    arrow(ax, (x, at), (x, top))


def inception(ax, centre):
    columns = [centre + 1.75 * (i - 1.5) for i in range(4)]
    upper = [("1×1", "1×1"), ("3×3", "3×3"), ("5×5", "5×5"), ("1×1", "1×1")]
    lower = [None, ("1×1, fewer", "1×1"), ("1×1, fewer", "1×1"), ("pool 3×3", "pool")]
    ax.plot([columns[0], columns[-1]], [0.45, 0.45], color="0.2", lw=1.4, ls="-", marker="")
    ax.plot([centre, centre], [0.0, 0.45], color="0.2", lw=1.4, ls="-", marker="")
    for x, first, second in zip(columns, lower, upper, strict=True):
        boxes = [(2.75, *second)] if first is None else [(1.35, *first), (2.75, *second)]
        chain(ax, x, 0.45, 3.85, boxes)
    box(ax, centre, 4.15, "concatenate", width=6.9)
    arrow(ax, (centre, 4.15 + HEIGHT / 2), (centre, 5.1))


def shortcut(ax, x, boxes):
    """A column whose input is added to its output, by a dashed arrow around it."""
    chain(ax, x, 0.0, 3.95, boxes)
    ax.text(x, 4.15, "+", ha="center", va="center", fontsize=15)
    ax.add_patch(plt.Circle((x, 4.15), 0.2, fill=False, edgecolor="0.25", lw=1.3))
    arrow(ax, (x, 0.3), (x + 1.25, 0.3), (x + 1.25, 4.15), (x + 0.2, 4.15), dashed=True)
    ax.text(x + 1.33, 2.2, "x", fontsize=11, style="italic", va="center")
    arrow(ax, (x, 4.35), (x, 5.1))


def main():
    plt.style.use("cluster.course")
    fig, ax = plt.subplots(figsize=(10, 4.3))
    chain(ax, 0.0, 0.0, 5.1, [(1.35, "3×3", "3×3"), (2.75, "3×3", "3×3")])
    inception(ax, 5.0)
    shortcut(ax, 10.4, [(1.35, "3×3", "3×3"), (2.75, "3×3", "3×3")])
    bottleneck = [(1.15, "1×1, fewer", "1×1"), (2.15, "3×3", "3×3"), (3.15, "1×1, more", "1×1")]
    shortcut(ax, 13.6, bottleneck)
    for x, name in [(0, "VGG"), (5, "inception"), (10.4, "residual"), (13.6, "bottleneck")]:
        ax.text(x, -0.45, name, ha="center", va="center", fontsize=11.5, weight="bold")
    ax.set(xlim=(-1.0, 15.3), ylim=(-0.8, 5.25), aspect="equal")
    ax.axis("off")
    fig.savefig(HERE / "03_blocks.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
