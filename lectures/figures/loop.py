"""Draw loop.svg: the path of one exercise from the lecture to the grade and back.

python lectures/figures/loop.py
"""

from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

INK, STUDENT, CLUSTER, GRADER = "#22262b", "#dbe9f6", "#fde6c8", "#dcefd9"
BOXES = {  # {name: (x, y, title, text, colour)}
    "lecture": (0.0, 2.0, "Lecture", "question, prediction,\nmeasurement, figure", STUDENT),
    "exercise": (3.0, 2.0, "Assignment", "blanks to fill in,\nchecks to run", STUDENT),
    "submit": (6.0, 2.0, "submit(train,\nranks_per_node=2)", "from the notebook", CLUSTER),
    "ranks": (9.0, 2.0, "Horovod ranks", "on Slurm, or\non this machine", CLUSTER),
    "run": (9.0, 0.0, "Recorded run", "code, versions, logs,\nmetrics, result", CLUSTER),
    "result": (6.0, 0.0, "job.result()", "curves, weights, times\nback in the notebook", STUDENT),
    "grade": (3.0, 0.0, "nbgrader", "replays the run,\nruns the checks", GRADER),
    "feedback": (0.0, 0.0, "Feedback", "names the\nmisconception", GRADER),
}
WAY = ["lecture", "exercise", "submit", "ranks", "run", "result", "grade", "feedback", "lecture"]
WIDTH, HEIGHT = 2.45, 1.3


def side(start, end):
    """Return the points at which an arrow from box `start` to box `end` leaves and arrives."""
    (x0, y0), (x1, y1) = BOXES[start][:2], BOXES[end][:2]
    dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    return (x0 + dx * WIDTH / 2, y0 + dy * HEIGHT / 2), (x1 - dx * WIDTH / 2, y1 - dy * HEIGHT / 2)


def main():
    plt.rcParams["svg.hashsalt"] = "loop"  # makes the file reproducible
    figure, axes = plt.subplots(figsize=(11, 4.1))
    for x, y, title, text, colour in BOXES.values():
        corner = (x - WIDTH / 2, y - HEIGHT / 2)
        axes.add_patch(
            FancyBboxPatch(
                corner, WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.12", fc=colour, ec=INK
            )
        )
        code = "(" in title
        lines = title.count("\n")
        axes.text(
            x, y + 0.30 - 0.05 * lines, title, ha="center", va="center", weight="bold", color=INK,
            size=10 if code else 12.5, family="monospace" if code else "sans-serif",
        )  # fmt: skip
        axes.text(x, y - 0.27 - 0.1 * lines, text, ha="center", va="center", color=INK, size=9.5)
    for start, end in pairwise(WAY):
        tail, head = side(start, end)
        axes.annotate("", head, tail, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.6})
    axes.set(xlim=(-1.4, 10.4), ylim=(-0.8, 2.8), aspect="equal")
    axes.axis("off")
    figure.savefig(Path(__file__).with_suffix(".svg"), bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
