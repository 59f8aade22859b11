"""`python -m tests.attacks.among`: grade a class of 30 honest students and ten attackers, three times.

Print a table with each attack's points, the seconds until its verdict and what it gained, and what the honest
students lost. With --write, the table is written into the autograder's README.
"""

import argparse
import datetime
import statistics
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from cluster.staff.course import find_root, say

from . import corpus, ours
from .ours import RIGHT, Submission
from .report import machine

ATTACKERS = {  # attack: its kind
    "slow_to_compile": "parsers",
    "deep_expression": "parsers",
    "huge_notebook": "sizes",
    "outputs_of_many_parts": "sizes",
    "slow_to_render": "the feedback",
    "marks_as_html": "the feedback",
    "many_endless_cells": "time",
    "hangs_then_blames": "time",
    "strict_seccomp": "who killed it",
    "fork_bomb": "memory and processes",
}
MIB = 2**20
README = Path("cluster/staff/engine/README.md")
BEGIN, END = "<!-- the table of python -m tests.attacks.among -->", "<!-- its end -->"


def file_of(size):
    """Return a function that adds a file of `size` bytes to a folder."""
    return lambda folder: (folder / "data.bin").write_bytes(bytes(size))


def figures_of(count):
    """Return a function that adds a cell with `count` figures of 1 MiB to the folder's notebook, as in an
    executed notebook."""

    def add(folder):
        path = folder / "doubling.ipynb"
        notebook = nbformat.read(path, as_version=4)
        figure = "iVBORw0KGgo" + "A" * MIB
        cell = nbformat.v4.new_code_cell("x = 1")
        cell.outputs = [nbformat.v4.new_output("display_data", {"image/png": figure}) for _ in range(count)]
        notebook.cells.append(cell)
        nbformat.write(notebook, path)

    return add


def honest_students():
    """Return the submissions of 30 honest students as {name: Submission}. The answers are correct, partly
    correct or incorrect, and some submissions reach size limits."""
    half = "def double(x):\n    return 2 * x if x is not None and getattr(x, 'ndim', 0) == 0 else x"
    kinds = [
        *[Submission(RIGHT, 4)] * 15,
        *[Submission(corpus.WRONG, 0)] * 3,
        *[Submission(half, 2)] * 3,
        *[Submission(RIGHT, 4, file_of(size)) for size in (0, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1)],
        *[Submission(RIGHT, 4, figures_of(count)) for count in (1, 20)],
        Submission(f"# {'long ' * 100_000}\n{RIGHT}", 4),
        Submission(f"{RIGHT}\nprint('x' * 400_000)", 4),
        Submission(f"import time\ntime.sleep(3)\n{RIGHT}", 4),
    ]
    return {f"student{number:02}": kind for number, kind in enumerate(kinds)}


def grade_classes(root, times):
    """Grade `times` classes, each from scratch; return [{attack: Outcome}], one entry per class."""
    attacks = corpus.load_all(root / "tests" / "exploits")
    attacks = {name: attacks[name] for name in ATTACKERS}
    with tempfile.TemporaryDirectory(prefix="exploits-") as scratch:
        return [
            ours.grade_attacks(root, attacks, Path(scratch) / str(number), honest_students())
            for number in range(times)
        ]


def table(classes):
    """Return the outcomes of several classes, as Markdown."""
    lines = ["| attack | kind | points | seconds, median (range) | gains and losses |"]
    lines.append("|---|---|---|---|---|")
    for name, kind in ATTACKERS.items():
        results = [outcomes[name] for outcomes in classes]
        points = sorted({"not graded" if run.score is None else f"{run.score:g} of 4" for run in results})
        seconds = sorted(run.seconds for run in results)
        middle = f"{statistics.median(seconds):.0f} ({seconds[0]:.0f}–{seconds[-1]:.0f})"
        won = "; ".join(sorted({run.won for run in results} - {""})) or "nothing"
        lines.append(f"| `{name}` | {kind} | {', '.join(points)} | {middle} | {won} |")
    lost = sorted({outcomes["the class"].won for outcomes in classes if "the class" in outcomes})
    lines.append(f"| all together | | | | the 30 honest students: {'; '.join(lost) or 'nothing'} |")
    lines += ["", f"Classes graded: {len(classes)}, on {datetime.date.today():%d %B %Y}; {machine()}."]
    return "\n".join(lines)


def main(argv=None):
    """Grade the classes; return 1 if any student gained or lost points undeservedly."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.among", description=__doc__)
    parser.add_argument("--times", type=int, default=3, metavar="N", help="number of classes (default: 3)")
    parser.add_argument("--write", action="store_true", help=f"put the table into {README}")
    options, root = parser.parse_args(argv), find_root()
    began = time.monotonic()
    classes = grade_classes(root, options.times)
    made = table(classes)
    say(f"{made}\n{options.times} classes, {time.monotonic() - began:.0f} s")
    if options.write:
        text = (root / README).read_text(encoding="utf-8")
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        (root / README).write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
    return int(any(outcome.won for result in classes for outcome in result.values()))


if __name__ == "__main__":
    sys.exit(main())
