"""Draw 01_im2col.svg and 01_shifted.svg for lecture 01: python lectures/figures/01_im2col.py"""

import pathlib

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

HERE = pathlib.Path(__file__).parent
SIDE, K = 4, 3  # a 4x4 image of one channel and a 3x3 filter: four windows
OUT = SIDE - K + 1
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
DASHES = ["-", "--", "-.", ":"]
CENTRE = (1, 1)  # a pixel that lies in all four windows


def name(row, column):
    """Pixels are named by letters, row by row."""
    return "abcdefghijklmnop"[row * SIDE + column]


def cell(ax, x, y, text, face="white", hatch=None, edge="0.35", weight="normal"):
    """One unit square with its top left corner at (x, y); y runs downwards."""
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor=edge, linewidth=0.8))
    if hatch:
        ax.add_patch(Rectangle((x, y), 1, 1, fill=False, hatch=hatch, edgecolor="0.55", linewidth=0))
    ax.text(x + 0.5, y + 0.54, text, ha="center", va="center", fontsize=11, weight=weight)


def finish(fig, ax, width, height, file):
    ax.set_xlim(-0.3, width)
    ax.set_ylim(height, -1.5)
    ax.set_aspect("equal")
    ax.axis("off")
    fig.savefig(HERE / file, metadata={"Date": None})
    plt.close(fig)


def draw_im2col():
    fig, ax = plt.subplots(figsize=(10, 3.4))
    top = 0.5
    for r in range(SIDE):
        for c in range(SIDE):
            shared = (r, c) == CENTRE
            cell(
                ax,
                c,
                top + r,
                name(r, c),
                "#F0E442" if shared else "white",
                weight="bold" if shared else "normal",
            )
    for index in range(OUT * OUT):
        r, c = divmod(index, OUT)
        inset = 0.07 + 0.06 * index
        ax.add_patch(
            Rectangle(
                (c + inset, top + r + inset),
                K - 2 * inset,
                K - 2 * inset,
                fill=False,
                edgecolor=COLOURS[index],
                linewidth=2.2,
                linestyle=DASHES[index],
            )
        )
    ax.text(SIDE / 2, -0.75, "image\n4 × 4", ha="center", va="center", fontsize=11)
    left = SIDE + 1.6
    ax.annotate(
        "", (left - 0.35, top + 2), (SIDE + 0.3, top + 2), arrowprops={"arrowstyle": "-|>", "lw": 1.6}
    )
    for index in range(OUT * OUT):
        r, c = divmod(index, OUT)
        ends = [left - 0.15, left - 0.15], [top + index + 0.1, top + index + 0.9]
        ax.plot(*ends, color=COLOURS[index], lw=3, ls=DASHES[index], marker="")
        for i in range(K):
            for j in range(K):
                shared = (r + i, c + j) == CENTRE
                face = "#F0E442" if shared else "white"
                weight = "bold" if shared else "normal"
                cell(ax, left + i * K + j, top + index, name(r + i, c + j), face, weight=weight)
    for i in (1, 2):
        ax.plot([left + i * K] * 2, [top, top + OUT * OUT], color="black", lw=2, ls="-", marker="")
    title = "columns: one row per output pixel\n4 × 9: each window, written out"
    ax.text(left + K * K / 2, -0.75, title, ha="center", va="center", fontsize=11)
    x = left + K * K + 0.5
    ax.text(x, top + 2, "×", fontsize=18, ha="center", va="center")
    x += 0.5
    for i in range(K * K):
        ax.add_patch(
            Rectangle((x, top - 0.25 + i * 0.5), 1, 0.5, facecolor="#D9D9D9", edgecolor="0.35", lw=0.8)
        )
        tap = f"$w_{{{i // K}{i % K}}}$"
        ax.text(x + 0.5, top - 0.02 + i * 0.5, tap, ha="center", va="center", fontsize=9)
    ax.text(x + 0.5, -0.75, "filter\n9 × 1", ha="center", va="center", fontsize=11)
    x += 1.5
    ax.text(x, top + 2, "=", fontsize=18, ha="center", va="center")
    x += 0.5
    for index in range(OUT * OUT):
        cell(
            ax,
            x,
            top + index,
            f"$y_{{{index // OUT}{index % OUT}}}$",
            edge=COLOURS[index],
        )
    ax.text(x + 0.5, -0.75, "output\n4 × 1", ha="center", va="center", fontsize=11)
    finish(fig, ax, x + 1.5, top + 4.5, "01_im2col.svg")


def draw_shifted():
    fig, ax = plt.subplots(figsize=(10, 2.9))
    for panel, (i, j) in enumerate([(0, 0), (0, 1), (0, 2), (2, 2)]):
        left = panel * (SIDE + 1.7) + (1.0 if panel == 3 else 0)
        for r in range(SIDE):
            for c in range(SIDE):
                inside = i <= r < i + OUT and j <= c < j + OUT
                cell(
                    ax, left + c, r, name(r, c), "#A6CEE3" if inside else "white", "////" if inside else None
                )
        box = Rectangle((left + j, i), OUT, OUT, fill=False, edgecolor="#0072B2", linewidth=2.6)
        ax.add_patch(box)
        ax.text(left + SIDE / 2, -0.7, f"shift ({i}, {j})", ha="center", va="center", fontsize=11)
        ax.text(
            left + SIDE / 2, SIDE + 0.65, f"$\\times\\ w_{{{i}{j}}}$", ha="center", va="center", fontsize=13
        )
        if panel < 3:
            sign = "+" if panel < 2 else "+ … +"
            ax.text(
                left + SIDE + (0.85 if panel < 2 else 1.35),
                SIDE / 2,
                sign,
                ha="center",
                va="center",
                fontsize=15,
            )
    finish(fig, ax, 4 * (SIDE + 1.7), SIDE + 1.3, "01_shifted.svg")


if __name__ == "__main__":
    plt.style.use("cluster.course")
    draw_im2col()
    draw_shifted()
