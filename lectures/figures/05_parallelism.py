"""Draw 05_parallelism.svg, training divided in three ways: python lectures/figures/05_parallelism.py"""

import pathlib

import matplotlib.pyplot as plt

HERE = pathlib.Path(__file__).parent
FACES = ["#A6CEE3", "#FDD0A2", "#B2DFA6", "#E3C4E0"]  # colours of ranks 0 to 3
HATCHES = ["", "////", "....", "xx"]
LAYERS, RANKS = 4, 4
WIDTH, GAP, HEIGHT = 0.7, 0.55, 0.62  # width of a layer's box, gap between layers, height of a rank's part


def share(ax, x, y, rank, width=WIDTH, height=HEIGHT):
    """Draw one rank's part of a layer."""
    look = {"fc": FACES[rank], "ec": "0.25", "hatch": HATCHES[rank], "lw": 0.9}
    ax.add_patch(plt.Rectangle((x, y), width, height, **look))


def arrow(ax, start, end, both=True):
    style = {"arrowstyle": "<|-|>" if both else "-|>", "color": "0.15", "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=style)


def images(ax, y, height, text):
    """Draw the input of the first layer."""
    ax.text(-0.25, y + height / 2, text, ha="right", va="center", fontsize=8.5)


def left(layer):
    return layer * (WIDTH + GAP)


def data(ax):
    """Draw data parallelism: each rank has all layers and its own images; after the backward pass, all
    gradients are averaged."""
    for rank in range(RANKS):
        y = (RANKS - 1 - rank) * 1.0
        for layer in range(LAYERS):
            share(ax, left(layer), y, rank)
            if layer:
                arrow(ax, (left(layer) - GAP, y + HEIGHT / 2), (left(layer), y + HEIGHT / 2), both=False)
        images(ax, y, HEIGHT, f"$n$ images\nof rank {rank}")
    for layer in range(LAYERS):
        for rank in range(RANKS - 1):
            arrow(ax, (left(layer) + WIDTH / 2, rank + HEIGHT), (left(layer) + WIDTH / 2, rank + 1.0))


def model(ax):
    """Draw tensor parallelism: each rank has a quarter of every layer, and sees all images."""
    top = (RANKS - 1) * 1.0 + HEIGHT
    for layer in range(LAYERS):
        for rank in range(RANKS):
            share(ax, left(layer), (RANKS - 1 - rank) * top / RANKS, rank, height=top / RANKS)
        if layer:
            for rank in range(RANKS):
                y = (rank + 0.5) * top / RANKS
                arrow(ax, (left(layer) - GAP, y), (left(layer), y))
            ax.plot([left(layer) - GAP / 2] * 2, [0.2, top - 0.2], "-", color="0.15", lw=3, marker="")
    images(ax, 0, top, "all $4n$\nimages\non all\nranks")


def pipeline(ax):
    """Draw pipeline parallelism: each rank has a complete layer, and images pass through in micro-batches."""
    for layer in range(LAYERS):
        y = (RANKS - 1 - layer) * 1.0
        share(ax, left(layer), y, layer)
        if layer:
            arrow(ax, (left(layer) - GAP, y + 1 + HEIGHT / 2), (left(layer) + 0.1, y + HEIGHT))
    images(ax, RANKS - 1.0, HEIGHT, "all $4n$\nimages,\nin parts")


def main():
    plt.style.use("cluster.course")
    fig, axes = plt.subplots(1, 3, figsize=(10.4, 3.5))
    titles = {
        data: ("Data parallel", "up and down: gradients of all weights"),
        model: ("Model parallel (tensor)", "left and right: activations between layers, all to all"),
        pipeline: ("Pipeline", "from rank to rank: activations at the cuts"),
    }
    for ax, (draw, (title, sent)) in zip(axes, titles.items(), strict=True):
        draw(ax)
        ax.set_title(title)
        ax.text(left(LAYERS) / 2 - 0.5, -0.45, sent, ha="center", va="top", fontsize=9, style="italic")
        ax.set(xlim=(-1.6, left(LAYERS) - 0.3), ylim=(-0.9, RANKS - 0.2), aspect="equal")
        ax.axis("off")
    fig.savefig(HERE / "05_parallelism.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
