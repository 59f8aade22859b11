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

from cluster.staff.course import Course

from ..grading import sample_class
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
OURS, STOCK, TWO = "grade run", "nbgrader autograde", "2 × nbgrader autograde"
# {variant: why stock nbgrader, which runs the checks in the student's own process, gives other points}
CHANGES = "it does not detect or undo changes of a function's arguments"
TELLS_NOT = "it does not tell a check which others have failed"
APART = {
    "biases_reshaped_in_place": CHANGES,
    "image_reshaped_in_place": CHANGES,
    "dilation_not_passed_on": TELLS_NOT,
    "example_only": TELLS_NOT,
}
GRADE = (
    "import sys; from pathlib import Path; from cluster.staff.grading import grade;"
    "found = grade.grade_class(Path(sys.argv[1]), sys.argv[2], private=Path(sys.argv[3]));"
    "sys.exit(str(found.ungraded) if found.ungraded else 0)"
)
SETTINGS = """
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
    """Time how long each side takes to grade the same class, and verify that all sides give the same points,
    except for those in `APART`.
    """
    n = options.students
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        submissions, variants = handed_in(root, assignment, folder, n)
        marks: dict[str, dict[str, dict[str, float]]] = {}
        sides = {
            OURS: lambda: ours(root, assignment, submissions, folder / "ours", marks),
            STOCK: lambda: stock(assignment, submissions, folder / "stock", 1, marks),
            TWO: lambda: stock(assignment, submissions, folder / "two", 2, marks),
        }
        values = interleaved(
            sides, options.repeats or 1, warmup=0, say=lambda line: print("  " + line, flush=True)
        )
        seconds = verdict_seconds(folder / "ours", assignment)
    apart = [compared(marks[OURS], marks[side], variants) for side in (STOCK, TWO)]
    whole = {side: statistics.median(v) for (what, side), v in values.items() if what == "the class"}
    measurements = rows(values)
    measurements += [Row("submissions per minute", side, "1/min", [60 * n / t]) for side, t in whole.items()]
    factor = {side: whole[side] / whole[OURS] for side in whole}
    aim = TIMES[assignment]
    named = "; ".join(f"{variant}: {APART[variant]}" for variant in apart[0])
    return Found(
        measurements,
        [(f"{OURS} grades {aim} times as many submissions per minute as {STOCK}", factor[STOCK] >= aim)],
        [
            f"{n} submissions of {assignment}. Each command was timed from start to end, and all gave the "
            "same points" + (f", except for {named}." if named else "."),
            f"{OURS} is {factor[STOCK]:.2f} times as fast as {STOCK} and {factor[TWO]:.2f} times as fast as"
            " two of these at a time.",
            f"The autograder takes {sum(seconds) / os.cpu_count():.1f} s of the {whole[OURS]:.1f} s"
            f" (median {statistics.median(seconds):.2f} s per submission, {os.cpu_count()} at a time). The"
            " rest is for reading, starting and writing.",
        ],
    )


def compared(
    ours: dict[str, dict[str, float]], theirs: dict[str, dict[str, float]], variants: dict[str, str]
) -> list[str]:
    """Return the variants of `APART` whose points differ between two sides, {student: {check: points}}.

    Raises RuntimeError if the points of any others differ. variants: {student: name of the variant}.
    """
    differ = {variants[student]: student for student, points in theirs.items() if points != ours.get(student)}
    if unknown := sorted(differ.keys() - APART.keys()):
        first = differ[unknown[0]]
        raise RuntimeError(
            f"the sides do not agree on the points of {', '.join(unknown)}, such as {theirs[first]} instead "
            f"of {ours.get(first)}; if this is right, name the reason in APART"
        )
    return sorted(differ)


def growth(options: argparse.Namespace) -> Found:
    """Measure how the time of `grade run` per submission changes as the class grows."""
    rows, each = [], {}
    for n in options.sizes:
        with tempfile.TemporaryDirectory() as name:
            submissions, _ = handed_in(ROOT, NUMPY, Path(name), n)
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


def handed_in(root: Path, assignment: str, folder: Path, students: int) -> tuple[Path, dict[str, str]]:
    """Create a folder with the gradebook and the ungraded submissions of a class.

    Return it, and {student: name of the submitted variant}.
    """
    target = folder / "made"
    target.mkdir()
    _, variants = sample_class.make(root, assignment, target, students)
    return target, variants


def ours(root: Path, assignment: str, submissions: Path, folder: Path, marks: dict) -> dict[str, float]:
    """Time `grade run` for a class, and once more without any changes."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(submissions, folder)
    command = [sys.executable, "-c", GRADE, str(root), assignment, str(folder)]
    took = {"the class": timed([command], ROOT), "once more, nothing changed": timed([command], ROOT)}
    marks[OURS] = sample_class.points(Course(ROOT, folder), assignment)
    return took


def stock(assignment: str, submissions: Path, folder: Path, at_once: int, marks: dict) -> dict[str, float]:
    """Time `nbgrader autograde` with its own steps, as one process for all students or two for half of them
    each.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(submissions, folder, ignore=shutil.ignore_patterns("exercises", "runs"))
    (folder / "nbgrader_config.py").write_text(SETTINGS.format(folder=str(folder)))
    command = [sys.executable, "-m", "nbgrader", "autograde", assignment]
    halves = [[*command, "--student", f"student*[{digits}]"] for digits in ("02468", "13579")]
    took = timed([command] if at_once == 1 else halves, folder)
    marks[STOCK if at_once == 1 else TWO] = sample_class.points(Course(ROOT, folder), assignment)
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


def verdict_seconds(folder: Path, assignment: str) -> list[float]:
    """Return the seconds that the autograder takes for each submission."""
    paths = (folder / "runs" / assignment / "items").glob("*/*/verdict.json")
    return [json.loads(path.read_text())["verdict"]["seconds"] for path in paths]


def versions() -> dict[str, str]:
    """Return the versions of the compared software."""
    from importlib.metadata import version

    return {"nbgrader": version("nbgrader")}
