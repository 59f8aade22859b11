"""The students' release: generated whole in a private place, examined, and only then put into exercises/."""

import os
import tempfile
from pathlib import Path

from cluster.grading.course import Course, CourseError, assignments, say
from cluster.grading.twins import write_notebook

REGIONS = (("### BEGIN SOLUTION", "### END SOLUTION"), ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"))
MARKS = (
    "BEGIN SOLUTION",
    "END SOLUTION",
    "BEGIN HIDDEN TESTS",
    "END HIDDEN TESTS",
    "# AUTOTEST",
    "HASHED AUTOTEST",
)
TRIVIAL = 12  # characters: shorter lines (`return x`, `else:`) say nothing


def generate(root, assignment, into, private=None):
    """Generate one assignment's release into the folder `into`/`assignment`; return that folder.

    The notebook in solutions/ is written anew from its twin first. `private` holds nbgrader's database
    (default: the instructor's own, so that `nbgrader autograde` knows the release).
    """
    for twin in sorted((root / "solutions" / assignment).glob("*.py")):
        write_notebook(twin)
    Course(root, private, release_directory=into).generate(assignment)
    return Path(into) / assignment


def release(root, wanted=None, target=None, private=None):
    """Generate the release of all assignments, or of `wanted`, into `target` (default: exercises/).

    An assignment is swapped in when it is complete and holds nothing secret; until then the old one stays.
    """
    target = Path(target or root / "exercises")
    target.mkdir(parents=True, exist_ok=True)
    for assignment in assignments(root, wanted):
        # Beside the target, on the same disk, so that the swap is a rename.
        with tempfile.TemporaryDirectory(prefix=".release-", dir=target) as place:
            new = generate(root, assignment, Path(place) / "new", private)
            if leaks := find_leaks(new, secrets(root, assignment)):
                raise CourseError(
                    f"the release of {assignment} is refused:\n  " + "\n  ".join(shorten(leaks))
                )
            old = target / assignment
            if same_files(old, new):
                say(f"{assignment}: unchanged")
                continue
            if old.exists():
                os.rename(old, Path(place) / "old")
            os.rename(new, old)
            say(f"{assignment}: released to {old}")


def check(root, wanted=None, target=None):
    """Compare the committed release with one generated now; return what differs or leaks, line by line."""
    target = Path(target or root / "exercises")
    wrong = []
    with tempfile.TemporaryDirectory(prefix="release-") as place:
        place = Path(place)
        for assignment in assignments(root, wanted):
            committed = target / assignment
            new = generate(root, assignment, place / "new", place / "private")
            if not same_files(committed, new):
                wrong.append(
                    f"{committed} is not what solutions/{assignment} generates: run `make exercises`"
                )
            wrong += shorten(find_leaks(committed, secrets(root, assignment)))
        known = set(assignments(root))
        wrong += [
            f"{p} has no solution" for p in sorted(target.iterdir()) if p.is_dir() and p.name not in known
        ]
    return wrong


def secrets(root, assignment):
    """Every line of a solution or hidden test of `assignment` that students see nowhere else."""
    hidden, shown = set(), set()
    for twin in sorted((root / "solutions" / assignment).glob("*.py")):
        inside = None
        for line in twin.read_text().splitlines():
            line = line.strip().removeprefix("# ")
            starts = [end for begin, end in REGIONS if begin.removeprefix("### ") in line]
            if starts:
                inside = starts[0].removeprefix("### ")
            elif inside and inside in line:
                inside = None
            else:
                (hidden if inside else shown).add(line)
    return {line for line in hidden - shown if len(line) >= TRIVIAL}


def find_leaks(folder, secret_lines, marks=MARKS):
    """What in `folder` students must not see: nbgrader's marks, secret lines, text twins, outputs."""
    import nbformat

    found = []
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        if path.suffix == ".ipynb":
            cells = nbformat.read(path, as_version=4).cells
            lines = [line for cell in cells for line in cell.source.splitlines()]
            found += [f"{path}: cell {cell.id} has outputs" for cell in cells if cell.get("outputs")]
        else:
            lines = path.read_text(errors="replace").splitlines()
            if path.suffix == ".py" and any(line.startswith("# %%") for line in lines):
                found.append(f"{path}: a text twin, which holds the solution")
        for line in lines:
            if any(mark in line for mark in marks):
                found.append(f"{path}: nbgrader's mark {line.strip()!r}")
            if line.strip().removeprefix("# ") in secret_lines:
                found.append(f"{path}: the secret line {line.strip()!r}")
    return found


def shorten(lines, most=10):
    """The first lines, and how many more there are."""
    return lines if len(lines) <= most else [*lines[:most], f"and {len(lines) - most} more"]


def same_files(a, b):
    """Do two folders hold the same files with the same bytes?"""
    trees = [{p.relative_to(f): p.read_bytes() for p in Path(f).rglob("*") if p.is_file()} for f in (a, b)]
    return trees[0] == trees[1]
