"""Draw 07_ranks.svg, the path of one shuffle through two ranks: python lectures/figures/07_ranks.py"""

import pathlib

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyBboxPatch

HERE = pathlib.Path(__file__).parent
FACES = ["#A6CEE3", "#FDD0A2"]  # colours of ranks 0 and 1
HATCHES = ["", "////"]
SIDE = 0.45  # side length of an image


def box(ax, x, y, text, width, face="white", height=0.7):
    """Draw a box centred at (x, y)."""
    corner = (x - width / 2, y - height / 2)
    ax.add_patch(FancyBboxPatch(corner, width, height, "round,pad=0.02", facecolor=face, edgecolor="0.25"))
    ax.text(x, y, text, ha="center", va="center", fontsize=9.5)


def arrow(ax, start, end):
    style = {"arrowstyle": "-|>", "color": "0.2", "lw": 1.3, "shrinkA": 1, "shrinkB": 1}
    ax.annotate("", end, start, arrowprops=style)


def shuffle(ax, left, y):
    """Draw twelve images in three steps of four, half of each for one rank; return the middle of the last
    step."""
    order = np.random.default_rng(3).permutation(12)
    for i, image in enumerate(order):
        step, rank = i // 4, i % 4 // 2
        x = left + i * SIDE + step * 0.3
        look = {"fc": FACES[rank], "ec": "0.25", "hatch": HATCHES[rank], "lw": 0.8}
        ax.add_patch(plt.Rectangle((x, y), SIDE, SIDE, **look))
        label = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        ax.text(x + SIDE / 2, y + SIDE / 2, image, ha="center", va="center", fontsize=8, bbox=label)
        if i % 4 == 0:
            ax.text(x + 2 * SIDE, y + SIDE + 0.1, f"step {step}", ha="center", va="bottom", fontsize=9)
    ax.text(left - 0.2, y + SIDE / 2, "one shuffle\nfor all", ha="right", va="center", fontsize=9.5)
    return left + 10 * SIDE + 0.6


def rank(ax, r, y, start):
    """Draw one rank's line from left to right, with its images from `start`."""
    middle = 2.0 + 0.45 * (1 - 2 * r)  # height at which the rank's gradient enters the all-reduce
    ax.text(0.0, y, f"rank {r}", ha="right", va="center", fontsize=11, weight="bold")
    box(ax, 1.2, y, "weights $w$", 1.8)
    box(ax, 4.5, y, "gradient of its\nown $n$ images", 2.5, FACES[r], 0.95)
    box(ax, 11.0, y, "$w - \\eta\\,$mean", 1.9)
    arrow(ax, (2.1, y), (3.25, y))
    arrow(ax, start, (start[0], y + 0.5 * (2 * r - 1)))
    arrow(ax, (5.75, y), (6.6, middle))
    arrow(ax, (9.0, middle), (10.05, y))


def main():
    plt.style.use("cluster.course")
    fig, ax = plt.subplots(figsize=(9.4, 3.6))
    middle = shuffle(ax, 0.3, 1.75)
    rank(ax, 0, 3.7, (middle - SIDE, 2.55))
    rank(ax, 1, 0.3, (middle + SIDE, 1.75))
    box(ax, 7.8, 2.0, "all-reduce:\nthe mean of\n$p$ gradients", 2.4, "#E6E6E6", 1.7)
    italic = {"ha": "center", "va": "center", "fontsize": 9, "style": "italic"}
    ax.text(1.2, 3.05, "equal: a broadcast at the start", **italic)
    ax.text(11.0, 2.0, "equal again,\nto the last bit", **italic)
    ax.set(xlim=(-1.6, 12.1), ylim=(-0.3, 4.3), aspect="equal")
    ax.axis("off")
    fig.savefig(HERE / "07_ranks.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
