"""The cost of grading a class: `grade run` compared with one or two simultaneous processes of stock `nbgrader
autograde`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .measure import Found, Row, interleaved, rows

ABOUT = "submissions per minute against stock nbgrader, and time per submission as the class grows"
ROOT = Path(__file__).parents[2]
NUMPY = "01_convolution_as_gemm"
TENSORFLOW = "98_small_network"
TIMES = {NUMPY: 10, TENSORFLOW: 15}  # targets: multiples of the stock command's submissions per minute

TWIN = '''# %% [markdown]
# # A small network

# %% given="setup"
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(0)

# %% solution="build"
def build(units):
    """A Keras model (N, 8) -> (N, 1) with one hidden layer of `units` neurons and ReLU."""
    ### BEGIN SOLUTION
    layers = [tf.keras.layers.Dense(units, activation="relu"), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input((8,)), *layers])
    ### END SOLUTION
    return model

# %% solution="train"
def train(model, x, y, steps):
    """Plain gradient descent on the mean squared error, η = 0.03; the loss before each step."""
    losses = []
    ### BEGIN SOLUTION
    optimizer = tf.keras.optimizers.SGD(0.03)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        losses.append(float(loss))
    ### END SOLUTION
    return losses

# %%
x = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)
losses = train(build(16), x, y, 20)

# %% check="parameters" points=1
"""8 · 5 + 5 + 5 + 1 parameters."""
assert build(5).count_params() == 51

# %% check="learns" points=2
"""The loss has one value a step and falls."""
assert len(losses) == 20 and losses[-1] < 0.9 * losses[0]

# %% check="a-step-by-hand" points=1
"""Another number of steps."""
### BEGIN HIDDEN TESTS
assert len(train(build(2), x, y, 3)) == 3
### END HIDDEN TESTS
'''
WRONG = {
    "one_layer": (
        "One layer is enough.",
        {"parameters"},
        {"build": "model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])"},
    ),
    "never_trains": (
        "The loss falls by itself.",
        {"learns"},
        {"train": "losses = [float(tf.reduce_mean((model(x) - y) ** 2)) for _ in range(steps)]"},
    ),
}
OURS = (
    "import sys; from pathlib import Path; from cluster.staff.grading import grade;"
    "found = grade.grade_class(Path(sys.argv[1]), sys.argv[2], private=Path(sys.argv[3]));"
    "sys.exit(str(found.ungraded) if found.ungraded else 0)"
)
STOCK = """
c = get_config()
c.CourseDirectory.root = {folder!r}
c.CourseDirectory.db_url = "sqlite:///{folder}/gradebook.db?timeout=60"
c.CourseDirectory.course_id = "convolution-to-cluster"
c.Execute.timeout = 300
c.IgnorePattern.enabled = True  # as in the course: what is on stderr costs nothing
c.IgnorePattern.pattern = "(?s).*"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--students", type=int, default=100, help="submissions of a class (100)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 300], help="classes of `growth`")


def numpy(options: argparse.Namespace) -> Found:
    """Measure a class for the NumPy assignment 01, with correct, incorrect and empty solutions in turn."""
    return compare(ROOT, NUMPY, options)


def tensorflow(options: argparse.Namespace) -> Found:
    """Measure a class for a small TensorFlow assignment, made for this benchmark, that builds and trains a
    network."""
    with tempfile.TemporaryDirectory() as name:
        return compare(course(Path(name)), TENSORFLOW, options)


def compare(root: Path, assignment: str, options: argparse.Namespace) -> Found:
    """Time how long each side takes to grade the same class, and verify that all sides give the same
    points.
    """
    n = options.students
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        submissions = handed_in(root, assignment, folder, n)
        marks: dict[str, dict] = {}
        sides = {
            "grade run": lambda: ours(root, assignment, submissions, folder / "ours", marks),
            "nbgrader autograde": lambda: stock(assignment, submissions, folder / "stock", 1, marks),
            "2 × nbgrader autograde": lambda: stock(assignment, submissions, folder / "two", 2, marks),
        }
        values = interleaved(
            sides, options.repeats or 1, warmup=0, say=lambda line: print("  " + line, flush=True)
        )
        seconds = verdict_seconds(folder / "ours", assignment)
    if any(result != marks["grade run"] for result in marks.values()):
        raise RuntimeError(f"the sides do not agree on the points of {assignment}: {differences(marks)}")
    whole = {side: statistics.median(v) for (what, side), v in values.items() if what == "the class"}
    measurements = rows(values)
    measurements += [Row("submissions per minute", side, "1/min", [60 * n / t]) for side, t in whole.items()]
    factor = {side: whole[side] / whole["grade run"] for side in whole}
    aim = TIMES[assignment]
    holds = factor["nbgrader autograde"] >= aim
    return Found(
        measurements,
        [(f"grade run grades {aim} times as many submissions per minute as nbgrader autograde", holds)],
        [
            f"{n} submissions of {assignment}. Each command was timed from start to end, and all gave the "
            "same points.",
            f"grade run is {factor['nbgrader autograde']:.2f} times as fast as nbgrader autograde and"
            f" {factor['2 × nbgrader autograde']:.2f} times as fast as two of these at a time.",
            f"The autograder takes {sum(seconds) / os.cpu_count():.1f} s of the {whole['grade run']:.1f} s"
            f" (median {statistics.median(seconds):.2f} s per submission, {os.cpu_count()} at a time). The"
            " rest is for reading, starting and writing.",
        ],
    )


def growth(options: argparse.Namespace) -> Found:
    """Measure how the time of `grade run` per submission changes as the class grows."""
    rows, each = [], {}
    for n in options.sizes:
        with tempfile.TemporaryDirectory() as name:
            submissions = handed_in(ROOT, NUMPY, Path(name), n)
            took = ours(ROOT, NUMPY, submissions, Path(name) / "ours", {})
        each[n] = took["the class"] / n
        rows += [Row(f"{what}, a submission", f"class of {n}", "s", [t / n]) for what, t in took.items()]
        print(f"  {n}: {each[n]:.3f} s a submission", flush=True)
    small, large = min(options.sizes), max(options.sizes)
    aim = f"a submission takes at most 1.1 times as long in a class of {large} as in one of {small}"
    return Found(
        rows, [(aim, each[large] <= 1.1 * each[small])], [f"Time of grade run for {NUMPY} on one machine."]
    )


SECTIONS = {"numpy": numpy, "tensorflow": tensorflow, "growth": growth}


def course(root: Path) -> Path:
    """Create in `root` a course with the small TensorFlow assignment, and return `root`."""
    folder, wrong = (
        root / "solutions" / TENSORFLOW,
        root / "tests" / "wrong_solutions" / f"{TENSORFLOW[:2]}.toml",
    )
    folder.mkdir(parents=True)
    wrong.parent.mkdir(parents=True)
    (folder / "small_network.py").write_text(TWIN)
    for name, (idea, fails, replace) in WRONG.items():
        with wrong.open("a") as file:
            file.write(f"[{name}]\nmisconception = {json.dumps(idea)}\nfails = {json.dumps(sorted(fails))}\n")
            file.writelines(f"cells.{cell} = {json.dumps(text)}\n" for cell, text in replace.items())
    for name in ("nbgrader_config.py", "autotests.yml"):
        shutil.copy(ROOT / name, root)
    return root


def handed_in(root: Path, assignment: str, folder: Path, students: int) -> Path:
    """Create a folder with the gradebook and the ungraded submissions of a class, and return it."""
    from tests.grading import sample_class

    target = folder / "made"
    target.mkdir()
    sample_class.make(root, assignment, target, students)
    return target


def ours(root: Path, assignment: str, submissions: Path, folder: Path, marks: dict) -> dict[str, float]:
    """Time `grade run` for a class, and once more without any changes."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(submissions, folder)
    command = [sys.executable, "-c", OURS, str(root), assignment, str(folder)]
    took = {"the class": timed([command], ROOT), "once more, nothing changed": timed([command], ROOT)}
    marks["grade run"] = points(folder, assignment)
    return took


def stock(assignment: str, submissions: Path, folder: Path, at_once: int, marks: dict) -> dict[str, float]:
    """Time `nbgrader autograde` with its own steps, as one process for all students or two for half of them
    each.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(submissions, folder, ignore=shutil.ignore_patterns("exercises", "runs"))
    (folder / "nbgrader_config.py").write_text(STOCK.format(folder=str(folder)))
    command = [sys.executable, "-m", "nbgrader", "autograde", assignment]
    halves = [[*command, "--student", f"student*[{digits}]"] for digits in ("02468", "13579")]
    took = timed([command] if at_once == 1 else halves, folder)
    marks[f"{'2 × ' if at_once == 2 else ''}nbgrader autograde"] = points(folder, assignment)
    return {"the class": took}


def timed(commands: list[list[str]], where: Path) -> float:
    """Return the seconds until all commands, started together, have ended. Raises RuntimeError if one
    fails."""
    bin_ = str(Path(sys.executable).parent)
    env = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        running = [subprocess.Popen(c, cwd=where, env=env, stdout=out, stderr=out) for c in commands]
        failed = [process.wait() for process in running]
        took = time.perf_counter() - begun
        if any(failed):
            out.seek(0)
            raise RuntimeError(f"{' '.join(commands[0][1:4])} failed: {out.read()[-2000:]}")
    return took


def points(folder: Path, assignment: str) -> dict[str, dict[str, float]]:
    """Return {student: {check: points}} from the gradebook in a folder."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{folder}/gradebook.db", "convolution-to-cluster") as book:
        return {
            row.student_id: {grade.name: grade.auto_score for work in row.notebooks for grade in work.grades}
            for row in book.assignment_submissions(assignment)
        }


def differences(marks: dict[str, dict]) -> list[str]:
    """Return up to three submissions whose points differ between `grade run` and another side, as text."""
    one = marks["grade run"]
    return [
        f"{side}, {student}: {theirs} and not {one.get(student)}"
        for side, points in marks.items()
        for student, theirs in points.items()
        if theirs != one.get(student)
    ][:3]


def verdict_seconds(folder: Path, assignment: str) -> list[float]:
    """Return the seconds that the autograder takes for each submission."""
    paths = (folder / "runs" / assignment / "items").glob("*/*/verdict.json")
    return [json.loads(path.read_text())["verdict"]["seconds"] for path in paths]


def versions() -> dict[str, str]:
    """Return the versions of the compared software."""
    from importlib.metadata import version

    return {"nbgrader": version("nbgrader")}
