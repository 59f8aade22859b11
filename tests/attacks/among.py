"""A class of 30 honest students and ten attackers, which is graded several times."""

import tempfile
from pathlib import Path

import nbformat

from . import corpus, ours
from .ours import RIGHT, Submission

ATTACKERS = (
    *("slow_to_compile", "deep_expression", "huge_notebook", "outputs_of_many_parts", "slow_to_render"),
    *("marks_as_html", "many_endless_cells", "hangs_then_blames", "strict_seccomp", "fork_bomb"),
)
MIB = 2**20


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
