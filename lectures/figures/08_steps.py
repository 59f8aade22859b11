"""Draw 08_steps.svg for lecture 08, short steps and a long one: python lectures/figures/08_steps.py"""

import pathlib

import matplotlib.pyplot as plt
import numpy as np

HERE = pathlib.Path(__file__).parent
STEPS = 8


def wide(x, y):
    """Return the height of a straight, wide valley, whose gradient changes little along a step."""
    return 0.5 * (0.05 * (x - 6) ** 2 + 0.09 * (y - 2.4) ** 2)


def bent(x, y):
    """Return the height of a narrow valley along a quarter circle, which falls from left to bottom."""
    angle = np.arctan2(4.2 - y, 4.0 - x)
    return 1.2 * (np.hypot(x - 4.0, y - 4.2) - 3.3) ** 2 - 3.0 * angle


def gradient(f, at, h=1e-5):
    """Return central differences of f at (x, y)."""
    x, y = at
    return np.array([f(x + h, y) - f(x - h, y), f(x, y + h) - f(x, y - h)]) / (2 * h)


def draw(ax, f, start, eta, title):
    """Draw contours of f, STEPS steps of eta from the start, and one step of STEPS * eta."""
    x, y = np.meshgrid(np.linspace(-0.6, 6.4, 200), np.linspace(-1.0, 3.6, 160))
    z = f(x, y)
    levels = np.quantile(z, np.linspace(0.02, 0.92, 14))
    ax.contour(x, y, z, levels=levels, colors="0.75", linewidths=0.8, linestyles="-")
    path = [np.array(start, float)]
    for _ in range(STEPS):
        path.append(path[-1] - eta * gradient(f, path[-1]))
    path = np.array(path)
    end = path[0] - STEPS * eta * gradient(f, path[0])
    ax.plot(*path.T, color="#0072B2", marker="o", ms=5, lw=1.8, ls="-")
    arrow = {"arrowstyle": "-|>", "color": "#D55E00", "lw": 2.4, "ls": "-", "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, path[0], arrowprops=arrow)
    ax.plot(*start, color="black", marker="o", ms=8, ls="")
    ax.text(start[0] - 0.15, start[1], "start", ha="right", va="center", fontsize=11)
    ax.set(title=title, xlim=(-0.6, 6.4), ylim=(-1.0, 3.6), aspect="equal", xticks=[], yticks=[])
    return path[-1], end


def label(ax, at, away, text, colour, side="left"):
    ax.text(
        at[0] + away[0],
        at[1] + away[1],
        text,
        color=colour,
        fontsize=10.5,
        ha=side,
        va="center",
        weight="bold",
    )


def main():
    plt.style.use("cluster.course")
    fig, axes = plt.subplots(1, 2, figsize=(10, 3.7))
    short, end = draw(axes[0], wide, (0.3, 0.2), 1.1, "The gradient stays: they agree")
    label(axes[0], end, (-0.1, 0.25), f"one step of {STEPS}η", "#D55E00", "right")
    label(axes[0], short, (0.15, -0.3), f"{STEPS} steps of η", "#0072B2")
    short, end = draw(axes[1], bent, (0.9, 3.05), 0.42, "The valley bends: they part")
    label(axes[1], end, (0.15, 0.1), f"one step of {STEPS}η", "#D55E00")
    label(axes[1], short, (0.0, 0.4), f"{STEPS} steps of η", "#0072B2")
    fig.savefig(HERE / "08_steps.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
