"""The students' folder: lectures, exercises and the files they need to run, but never this repository."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import tomllib
from pathlib import Path

from cluster.system import files

from ..course import CourseError, assignments, say
from .release import find_leaks, secrets, shorten
from .student_files import SKIPPED, chosen
from .wrong_solutions import cells_of

MANIFEST = ".made-by-make-student.json"
RULES = "AGENTS.md"  # for AI assistants, by the name that they read
SIGN = "# From Convolution to Cluster: your folder"
README = f"""{SIGN}

    cluster/setup.sh           # once, on Linux (on Windows: WSL 2): builds the environment in .venv
    .venv/bin/jupyter lab      # then: opens the start page; begin with lecture 01

A course server has the environment already, and its start page fetches the assignments.

- `lectures/`: read them in order; every cell can be run. [GLOSSARY.md](lectures/GLOSSARY.md) explains the
  terms of the assignments, the course server and the jobs.
- `exercises/`: one folder per assignment. Fill in the blanks: cells marked `YOUR CODE HERE`. The cell below a
  blank lets you try your code, and the read-only cells after that are the checks. A failed check states what
  it found. Every check also has hidden tests.
- `runs/` appears next to a notebook that submits jobs, and contains the recorded runs. It is part of your
  submission, because grading replays these runs instead of computing them again.
- `cluster/`: the package that the notebooks import. You may read it, but changes to it are not submitted.
- [AGENTS.md](AGENTS.md): what an AI assistant may do in this course. Show it to yours.

## The assignments

@ASSIGNMENTS@

The hours are estimates for students who have read the lecture. They include the jobs, which take minutes on
two cores.

## Submitting

1. Choose *Kernel > Restart Kernel and Run All Cells…*, then save. You may submit even if the cells below an
   empty blank fail, because each check is graded by itself.
2. The button *Validate* above the notebook runs the visible tests, as often as you like. On a course server,
   *Check* grades your saved folder with the hidden tests, at most a few times per hour. It shows the points
   of each check, but submits nothing.
3. On a course server, press *Submit*. The start page keeps the receipt, with the server's time and the hash
   of each file, and later shows your feedback.
4. Without a course server, pack the assignment's whole folder, including `runs/`, under its own name, and
   send it as your instructors have explained:

       tar -czf 08_large_batches.tar.gz -C exercises 08_large_batches

Submit as often as you like until the due date; the last submission counts. Do not rename the notebook.
Changes to read-only cells have no effect, because grading replaces these cells.
"""


def make(root: Path, target: Path | str | None = None, after: str | None = None) -> list[str]:
    """Create or recreate the students' folder, and return what must not be in it, line by line. `after`:
    number of the last assignment whose answers the package may contain, such as "07" (default: none)."""
    if after is not None and after not in (known := [name[:2] for name in assignments(root)]):
        raise CourseError(
            f"--after {after!r} is not the number of an assignment; the numbers are {', '.join(known)}"
        )
    target = Path(target or root / "student").absolute()
    if target.exists():
        readme = target / "README.md"
        if not readme.is_file() or not readme.read_text().startswith(SIGN):
            raise CourseError(
                f"{target} exists and was not made by this command: remove it, or choose another with --to"
            )
        if work := changed(target):
            raise CourseError(
                f"{target} contains changed files: {', '.join(shorten(work, 3))}. Move them, or change --to"
            )
    missing = [name for name in assignments(root) if not list((root / "exercises" / name).glob("*.ipynb"))]
    if missing:
        raise CourseError(f"not released yet: {', '.join(missing)}. Run `make exercises` first")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".student-", dir=target.parent) as scratch:
        new = Path(scratch) / "new"
        for path in chosen(root, after):
            copy = new / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        (new / "README.md").write_text(README.replace("@ASSIGNMENTS@", table_of_assignments(root)))
        shutil.copy(Path(__file__).with_name(RULES), new)
        (new / MANIFEST).write_text(json.dumps(hashes(new), indent=1))
        wrong = leaks(root, new, after)
        if wrong:
            return shorten(wrong)
        files.replace_folder(new, target)
    say(f"{target}: {sum(path.is_file() for path in target.rglob('*'))} files for students")
    return []


def table_of_assignments(root: Path) -> str:
    """Return title, points and planned hours of each assignment, as a Markdown table."""
    import nbformat

    rows = ["| assignment | points | hours |", "|---|---|---|"]
    about = root / "lectures" / "units.toml"
    units = tomllib.loads(about.read_text(encoding="utf-8")) if about.exists() else {}
    for name in assignments(root):
        path = next((root / "exercises" / name).glob("*.ipynb"))
        book = nbformat.read(path, as_version=4)
        title = book.cells[0].source.splitlines()[0].lstrip("# ").removeprefix("Assignment ")
        link = path.relative_to(root).as_posix()
        points = sum(cell.metadata.nbgrader.points for cell in cells_of(book, "grade").values())
        rows.append(f"| [{title}]({link}) | {points:g} | {units.get(name[:2], {}).get('hours', '')} |")
    return "\n".join(rows)


def hashes(folder: Path) -> dict[str, str]:
    """Return {path: sha256} of the files in a folder, except those left behind by Python and Jupyter."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if not SKIPPED - {"README.md"} & set(path.parts)
    }


def changed(folder: Path) -> list[str]:
    """Return the files in a students' folder that this command did not write, or that have changed since."""
    manifest = folder / MANIFEST
    written = json.loads(manifest.read_text()) if manifest.exists() else {}
    return sorted(name for name, digest in hashes(folder).items() if written.get(name) != digest)


def leaks(root: Path, folder: Path, after: str | None = None) -> list[str]:
    """Return parts of solutions, hidden tests or mutants in `folder`.

    The exercises, and the package's training and network, are searched for secret lines of assignments later
    than `after`. Lectures teach the same content, so only nbgrader's delimiters are searched for there.
    """
    result = []
    for name in assignments(root):
        result += find_leaks(folder / "exercises" / name, secrets(root, name))
        if name[:2] > (after or ""):
            for room in ("training", "network"):
                result += find_leaks(folder / "cluster" / room, secrets(root, name), marks=())
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if inside.parts[0] in (
            "solutions",
            "tests",
            "nbgrader_config.py",
            "autotests.yml",
            ".grading",
            ".git",
        ):
            result.append(f"{inside}: this part of the repository is not for students")
        elif path.suffix == ".ipynb" and inside.parts[0] != "exercises":
            text = path.read_text()
            result += [
                f"{inside}: has {mark}" for mark in ("BEGIN SOLUTION", "BEGIN HIDDEN TESTS") if mark in text
            ]
    return result
