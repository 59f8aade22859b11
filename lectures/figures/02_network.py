"""Draw 02_network.svg, two layers forward and backward: python lectures/figures/02_network.py"""

import pathlib

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

HERE = pathlib.Path(__file__).parent
FORWARD, BACKWARD = "#0072B2", "#D55E00"
STEP, WIDTH, HEIGHT = 2.75, 1.85, 1.0  # distance between two boxes, and size of a box


def box(ax, x, y, text, face="white", width=WIDTH):
    """Draw a box centred at (x, y)."""
    corner = (x - width / 2, y - HEIGHT / 2)
    look = {"facecolor": face, "edgecolor": "0.25"}
    ax.add_patch(FancyBboxPatch(corner, width, HEIGHT, "round,pad=0.02", **look))
    ax.text(x, y, text, ha="center", va="center", fontsize=11)


def arrow(ax, start, end, color, text="", above=True, dashed=False):
    """Draw an arrow with text at its middle."""
    style = {"arrowstyle": "-|>", "color": color, "lw": 1.6, "shrinkA": 1, "shrinkB": 1}
    ax.annotate("", end, start, arrowprops=style | {"ls": "--" if dashed else "-"})
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    if start[0] == end[0]:
        ax.text(x + 0.12, y, text, ha="left", va="center", fontsize=11, color=color)
    else:
        at = {"ha": "center", "va": "bottom" if above else "top"}
        ax.text(x, y + (0.08 if above else -0.08), text, fontsize=11, color=color, **at)


def main():
    plt.style.use("cluster.course")
    fig, ax = plt.subplots(figsize=(9.6, 3.9))
    texts = ["images\n$x$", "$s = x w_1 + b_1$", "$a = \\max(0, s)$", "$z = a w_2 + b_2$", "loss $L$"]
    faces = ["#E6E6E6", "#A6CEE3", "#E2F0D9", "#A6CEE3", "#FDD0A2"]
    for i, (text, face) in enumerate(zip(texts, faces, strict=True)):
        box(ax, i * STEP, 0, text, face, WIDTH if i in (0, 4) else 2.1)
    for i, name in enumerate(["$x$", "$s$", "$a$", "$z$"]):
        left = i * STEP + (WIDTH / 2 if i == 0 else 1.05)
        right = (i + 1) * STEP - (WIDTH / 2 if i == 3 else 1.05)
        arrow(ax, (left, 0.25), (right, 0.25), FORWARD, name)
        if i:
            gradient = f"$\\mathrm{{d}}{name[1:]}"
            arrow(ax, (right, -0.25), (left, -0.25), BACKWARD, gradient, above=False, dashed=True)
    for i, layer in ((1, "1"), (3, "2")):
        x = i * STEP
        box(ax, x, 1.9, f"$w_{layer}$, $b_{layer}$")
        arrow(ax, (x, 1.38), (x, 0.54), FORWARD)
        box(ax, x, -2.1, f"$\\mathrm{{d}}w_{layer}$, $\\mathrm{{d}}b_{layer}$")
        arrow(ax, (x, -0.54), (x, -1.58), BACKWARD, dashed=True)
    box(ax, 4 * STEP, 1.9, "labels $y$", "#E6E6E6")
    arrow(ax, (4 * STEP, 1.38), (4 * STEP, 0.54), FORWARD)
    arrow(ax, (-0.9, -1.8), (0.0, -1.8), FORWARD)
    ax.text(0.12, -1.8, "forward", va="center", fontsize=11, color=FORWARD)
    arrow(ax, (0.0, -2.4), (-0.9, -2.4), BACKWARD, dashed=True)
    ax.text(0.12, -2.4, "backward", va="center", fontsize=11, color=BACKWARD)
    ax.set(xlim=(-1.2, 4 * STEP + 1.2), ylim=(-2.8, 2.6), aspect="equal")
    ax.axis("off")
    fig.savefig(HERE / "02_network.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
