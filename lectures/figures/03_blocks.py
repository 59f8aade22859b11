"""Draw 03_blocks.svg for lecture 03, five kinds of blocks: python lectures/figures/03_blocks.py

A box is a convolution, labelled with its filter size and, after the comma, its number of output maps. The
strip on it shows the following layers: batch normalisation (BN), ReLU. The number at the lowest arrow is the
number of input maps of the block.
"""

import itertools
import pathlib

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

HERE = pathlib.Path(__file__).parent
WIDTH, HEIGHT, STRIP = 1.62, 0.5, 0.3  # size of a box, and height of the strip on it
FACES = {"1×1": "#F0E442", "3×3": "#A6CEE3", "5×5": "#CCE5D8", "pool": "#E6E6E6", "other": "white"}
TOP = 5.0  # height at which the branches of a block join


def box(ax, x, y, text, after="", width=WIDTH):
    """Draw a box centred at x, with its lower edge at y and a strip for the layers after it; return its upper
    edge."""
    face = FACES[next((kind for kind in FACES if text.startswith(kind)), "other")]
    ax.add_patch(Rectangle((x - width / 2, y), width, HEIGHT, facecolor=face, edgecolor="0.25"))
    ax.text(x, y + HEIGHT / 2, text, ha="center", va="center_baseline", fontsize=9)
    if not after:
        return y + HEIGHT
    ax.add_patch(Rectangle((x - width / 2, y + HEIGHT), width, STRIP, facecolor="white", edgecolor="0.25"))
    ax.text(x, y + HEIGHT + STRIP / 2, after, ha="center", va="center_baseline", fontsize=7.5)
    return y + HEIGHT + STRIP


def arrow(ax, *points, dashed=False):
    """Draw a line through the points with an arrowhead at the last."""
    for start, end in itertools.pairwise(points[:-1]):
        ax.plot(*zip(start, end, strict=True), color="0.2", lw=1.4, ls="--" if dashed else "-", marker="")
    style = {"arrowstyle": "-|>", "color": "0.2", "lw": 1.4, "ls": "--" if dashed else "-", "shrinkA": 0}
    ax.annotate("", points[-1], points[-2], arrowprops=style | {"shrinkB": 0})


def chain(ax, x, bottom, top, boxes):
    """Draw boxes (lower edge, text, following layers) in a column, joined by arrows from `bottom` to
    `top`."""
    at = bottom
    for y, text, after in boxes:
        arrow(ax, (x, at), (x, y))
        at = box(ax, x, y, text, after)
    arrow(ax, (x, at), (x, top))


def inception(ax, centre):
    columns = [centre + 1.8 * (i - 1.5) for i in range(4)]
    upper = ["1×1, 64", "3×3, 128", "5×5, 32", "1×1, 32"]
    lower = [None, ("1×1, 96", "ReLU"), ("1×1, 16", "ReLU"), ("pool 3×3", "")]
    ax.plot([columns[0], columns[-1]], [0.6, 0.6], color="0.2", lw=1.4, ls="-", marker="")
    ax.plot([centre, centre], [0.0, 0.6], color="0.2", lw=1.4, ls="-", marker="")
    for x, first, second in zip(columns, lower, upper, strict=True):
        boxes = [] if first is None else [(1.2, *first)]
        chain(ax, x, 0.6, TOP - HEIGHT / 2, [*boxes, (2.9, second, "ReLU")])
    end = box(ax, centre, TOP - HEIGHT / 2, "concatenate: 64 + 128 + 32 + 32 = 256", width=7.0)
    arrow(ax, (centre, end), (centre, 6.3))


def shortcut(ax, x, boxes):
    """Draw a column whose input is added to its output by a dashed arrow around it, followed by ReLU."""
    chain(ax, x, 0.0, TOP - 0.2, boxes)
    ax.text(x, TOP, "+", ha="center", va="center", fontsize=15)
    ax.add_patch(plt.Circle((x, TOP), 0.2, fill=False, edgecolor="0.25", lw=1.3))
    arrow(ax, (x, 0.25), (x + 1.2, 0.25), (x + 1.2, TOP), (x + 0.2, TOP), dashed=True)
    ax.text(x + 1.28, 2.6, "x", fontsize=11, style="italic", va="center")
    arrow(ax, (x, TOP + 0.2), (x, 5.5))
    ax.add_patch(Rectangle((x - WIDTH / 2, 5.5), WIDTH, STRIP, facecolor="white", edgecolor="0.25"))
    ax.text(x, 5.5 + STRIP / 2, "ReLU", ha="center", va="center_baseline", fontsize=7.5)
    arrow(ax, (x, 5.5 + STRIP), (x, 6.3))


def bottleneck(inside, middle):
    return [(0.7, f"1×1, {inside}", "BN, ReLU"), (2.1, middle, "BN, ReLU"), (3.5, "1×1, 256", "BN")]


def main():
    plt.style.use("cluster.course")
    fig, ax = plt.subplots(figsize=(11.4, 4.4))
    chain(ax, 0.0, 0.0, 6.3, [(1.2, "3×3, 256", "ReLU"), (2.9, "3×3, 256", "ReLU")])
    inception(ax, 5.1)
    shortcut(ax, 10.4, [(1.2, "3×3, 64", "BN, ReLU"), (2.9, "3×3, 64", "BN")])
    shortcut(ax, 13.4, bottleneck(64, "3×3, 64"))
    shortcut(ax, 16.6, bottleneck(128, "3×3, 128"))
    ax.text(16.5 - WIDTH / 2, 2.1 + HEIGHT / 2, "in 32\ngroups", ha="right", va="center", fontsize=8)
    names = [
        "VGG",
        "inception 3a\n(GoogLeNet)",
        "residual\n(ResNet-34)",
        "bottleneck\n(ResNet-50)",
        "ResNeXt-50",
    ]
    for x, name, maps in zip([0, 5.1, 10.4, 13.4, 16.6], names, [256, 192, 64, 256, 256], strict=True):
        ax.text(x, -0.45, name, ha="center", va="top", fontsize=10.5, weight="bold")
        ax.text(x - 0.12, 0.2, maps, ha="right", va="center", fontsize=8.5)
    ax.set(xlim=(-1.1, 18.2), ylim=(-1.4, 6.4), aspect="equal")
    ax.axis("off")
    fig.savefig(HERE / "03_blocks.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
