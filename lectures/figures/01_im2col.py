"""Draw 01_im2col.svg and 01_shifted.svg for lecture 01: python lectures/figures/01_im2col.py"""

import pathlib

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

HERE = pathlib.Path(__file__).parent
SIDE, K = 4, 3  # a 4x4 image and a 3x3 filter give four windows
N, C, FILTERS = 2, 2, 3  # images, channels and filters in the figure of im2col
FACES = ["#D9D9D9", "#A6CEE3", "#FDD0A2"]  # the filters' colours
OUT = SIDE - K + 1
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
DASHES = ["-", "--", "-.", ":"]
CENTRE = (1, 1)  # a pixel that is in all four windows


def name(row, column):
    """Return the letter that names a pixel, row by row."""
    return "abcdefghijklmnop"[row * SIDE + column]


def cell(ax, x, y, text, face="white", hatch=None, edge="0.35", weight="normal", size=11):
    """Draw one unit square with its top left corner at (x, y); y increases downwards."""
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor=edge, linewidth=0.8))
    if hatch:
        ax.add_patch(Rectangle((x, y), 1, 1, fill=False, hatch=hatch, edgecolor="0.55", linewidth=0))
    ax.text(x + 0.5, y + 0.54, text, ha="center", va="center", fontsize=size, weight=weight)


def finish(fig, ax, width, height, file, above=1.5):
    ax.set_xlim(-0.3, width)
    ax.set_ylim(height, -above)
    ax.set_aspect("equal")
    ax.axis("off")
    fig.savefig(HERE / file, metadata={"Date": None})
    plt.close(fig)


def sheets(ax, left, top, image):
    """Draw one image: channel 0, and channel 1 behind it, with windows outlined on the front."""
    ax.add_patch(Rectangle((left + 0.45, top - 0.45), SIDE, SIDE, facecolor="0.85", edgecolor="0.35", lw=0.8))
    for r in range(SIDE):
        for c in range(SIDE):
            shared = (image, r, c) == (0, *CENTRE)
            face, weight = ("#F0E442", "bold") if shared else ("white", "normal")
            cell(ax, left + c, top + r, name(r, c) + "'" * image, face, weight=weight)
    for index in range(OUT * OUT):
        (r, c), inset = divmod(index, OUT), 0.07 + 0.06 * index
        side, look = K - 2 * inset, {"edgecolor": COLOURS[index], "linestyle": DASHES[index]}
        ax.add_patch(Rectangle((left + c + inset, top + r + inset), side, side, fill=False, lw=1.8, **look))
    ax.text(left - 0.35, top + 2, f"n = {image}", ha="right", va="center", fontsize=9)


def matrix(ax, left, top, rows, columns, text, faces):
    """Draw a grid of cells; text(row, column) and faces(row, column) return each cell's text and colour."""
    for r in range(rows):
        for c in range(columns):
            cell(ax, left + c, top + r, text(r, c), faces(r, c), size=7.5)


def tap(row, column):
    """Return image, row, column and channel of the pixel in a cell of the columns."""
    image, window = divmod(row, OUT * OUT)
    (r, c), (position, channel) = divmod(window, OUT), divmod(column, C)
    i, j = divmod(position, K)
    return image, r + i, c + j, channel


def pixel(row, column):
    """Return a pixel's name: lower case for channel 0, upper case for channel 1, a prime for image 1."""
    image, r, c, channel = tap(row, column)
    return (name(r, c).upper() if channel else name(r, c)) + "'" * image


def shade(row, column):
    """Return the colour of a pixel: the centre of image 0 is yellow, channel 1 is grey."""
    image, r, c, channel = tap(row, column)
    return "#F0E442" if (image, r, c) == (0, *CENTRE) else "0.88" if channel else "white"


def draw_im2col():
    fig, ax = plt.subplots(figsize=(12, 4.1))
    for image in range(N):
        sheets(ax, 1.2, 5.1 * image, image)
    words = f"images (N, H, W, C) = ({N}, {SIDE}, {SIDE}, {C})\nA to P: channel 1, behind a to p"
    ax.text(3.4, -1.4, words, ha="center", va="center", fontsize=9.5)
    top, left, rows = 0.55, 8.2, N * OUT * OUT
    ax.annotate("", (left - 0.7, top + 4), (6.1, top + 4), arrowprops={"arrowstyle": "-|>", "lw": 1.6})
    matrix(ax, left, top, rows, K * K * C, pixel, shade)
    for row in range(rows):
        colour, dash = COLOURS[row % (OUT * OUT)], DASHES[row % (OUT * OUT)]
        ax.plot([left - 0.25] * 2, [top + row + 0.1, top + row + 0.9], color=colour, ls=dash, lw=3, marker="")
    for i in (1, 2):
        ax.plot([left + i * K * C] * 2, [top, top + rows], color="black", lw=2, ls="-", marker="")
    ax.plot([left, left + K * K * C], [top + OUT * OUT] * 2, color="black", lw=2, ls="-", marker="")
    right = left + K * K * C
    ax.text(
        left + K * K * C / 2,
        -0.75,
        f"columns: N·Ho·Wo × k²·C = {rows} × {K * K * C}",
        ha="center",
        fontsize=9.5,
    )
    ax.text(right + 0.7, top + 4, "×", fontsize=16, ha="center", va="center")
    for row in range(K * K * C):
        for f in range(FILTERS):
            box = Rectangle(
                (right + 1.4 + f, top + 0.45 * row), 1, 0.45, facecolor=FACES[f], edgecolor="0.35", lw=0.6
            )
            ax.add_patch(box)
    ax.text(
        right + 2.9,
        -0.75,
        f"weights: k²·C × K\n= {K * K * C} × {FILTERS}",
        ha="center",
        va="center",
        fontsize=9.5,
    )
    ax.text(right + 5.0, top + 4, "=", fontsize=16, ha="center", va="center")
    matrix(ax, right + 5.7, top, rows, FILTERS, lambda r, c: "", lambda r, c: FACES[c])
    ax.text(right + 7.2, -0.75, f"output\n{rows} × {FILTERS}", ha="center", va="center", fontsize=9.5)
    finish(fig, ax, right + 9.2, 9.4, "01_im2col.svg", above=2.3)


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
