"""The students' release: generated completely in a private place, verified, then moved to exercises/."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.jobs.backends import forked_ranks
from cluster.system import files

from ..course import Course, CourseError, assignments, say
from ..hidden import BEGIN, END, as_released, between
from .twins import notebook, write_notebook

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

REGIONS = (("BEGIN SOLUTION", "END SOLUTION"), (BEGIN, END))
MARKS = (
    "BEGIN SOLUTION",
    "END SOLUTION",
    "BEGIN HIDDEN TESTS",
    "END HIDDEN TESTS",
    "# AUTOTEST",
    "HASHED AUTOTEST",
)
# the values that checks compare with, in a notebook's JSON
STORED = re.compile(r'(?<=\.matches\(\\")[^"\\]+')
CHECKSUM = re.compile(r'(?<="checksum": ")[0-9a-f]+')  # nbgrader's checksum of the cell's source
DIRECTIVE = re.compile(r"\s*# (fmt: skip|noqa\b.*|type: ignore\b.*)$")
SUBMITS = re.compile(r"^[^#\"']*(?<![\w.])(?:cluster\.|jobs\.)*submit\(", re.MULTILINE)
TRIVIAL = 12  # minimum characters; shorter lines (`return x`, `else:`) reveal nothing


def generate(
    root: Path,
    assignment: str,
    into: Path,
    private: Path | None = None,
    whole: bool = True,
    add: bool = False,
) -> Path:
    """Generate one assignment's release into the folder `into`/`assignment`; return that folder.

    The notebook in solutions/ is first regenerated from its paired script. `private` contains nbgrader's
    database (default: the instructor's own, which then contains the release for `nbgrader autograde`).
    `whole`: execute the solution to its end, jobs included, not only as far as the release depends on it.
    `add`: cells may be added although the assignment has been graded.
    """
    twins = sorted((root / "solutions" / assignment).glob("*.py"))
    for twin in twins:
        write_notebook(twin)
    with offered_ranks("".join(twin.read_text() for twin in twins)):
        Course(root, private, release_directory=into).generate(assignment, whole, add)
    return Path(into) / assignment


def offered_ranks(text: str) -> contextlib.AbstractContextManager[object]:
    """Return a context manager that offers forked ranks if the code `text` submits jobs that use Horovod."""
    needed = "submit(" in text and "horovod" in text and forked_ranks.VARIABLE not in os.environ
    return forked_ranks.offered(forked_ranks.LIBRARIES) if needed else contextlib.nullcontext()


def release(
    root: Path,
    wanted: str | None = None,
    target: Path | str | None = None,
    private: Path | None = None,
    whole: bool | None = True,
    faults: Callable[[Path, str, Path, Path | None], list[str]] | None = None,
    add: bool = False,
) -> None:
    """Generate the release of all assignments, or of `wanted`, into `target` (default: exercises/).

    An assignment replaces the old release only when it is complete and contains nothing secret. `whole` and
    `add` are as in `generate`; if `whole` is None, only if the release differs from the existing one. faults:
    a function of root, assignment, its new folder and `private` that returns why a release is refused.
    """
    target = Path(target or root / "exercises")
    target.mkdir(parents=True, exist_ok=True)
    for assignment in assignments(root, wanted):
        # Next to the target, on the same disk, so that the replacement is a rename.
        with tempfile.TemporaryDirectory(prefix=".release-", dir=target) as scratch:
            old, new = target / assignment, Path(scratch) / "new" / assignment
            generate(root, assignment, new.parent, private, bool(whole), add)
            if whole is None and not same_files(old, new):
                generate(root, assignment, new.parent, private)
            leaks = find_leaks(new, secrets(root, assignment)) + not_one(new) + submits(root, assignment)
            leaks += not_hidden_in_feedback(Course(root, private).coursedir, assignment, new)
            if not leaks and faults:
                leaks = faults(root, assignment, new, private)
            if leaks:
                raise CourseError(
                    f"the release of {assignment} is refused:\n  " + "\n  ".join(shorten(leaks))
                )
            if same_files(old, new):
                say(f"{assignment}: unchanged")
                continue
            files.replace_folder(new, old)
            say(f"{assignment}: released to {old}")


def check(root: Path, wanted: str | None = None, target: Path | str | None = None) -> list[str]:
    """Compare the committed release with a newly generated one; return differences and leaks, line by line.

    Expected numbers may differ by a hundredth of the check's tolerance, nothing else: see `same_release`. The
    solution runs as far as the release depends on it; `mutants` tests whether it passes its checks.
    """
    target = Path(target or root / "exercises")
    wrong = []
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        temporary = Path(scratch)
        for assignment in assignments(root, wanted):
            committed = target / assignment
            new = generate(root, assignment, temporary / "new", temporary / "private", whole=False)
            if not same_release(committed, new):
                wrong.append(
                    f"{committed} is not what solutions/{assignment} generates: run `make exercises`"
                )
            wrong += shorten(find_leaks(committed, secrets(root, assignment)))
            wrong += not_hidden_in_feedback(Course(root, temporary / "private").coursedir, assignment, new)
        known = set(assignments(root))
        wrong += [
            f"{p} has no solution"
            for p in sorted(target.glob("[!.]*"))  # a release that was killed leaves a hidden folder
            if p.is_dir() and p.name not in known
        ]
    return wrong


def secrets(root: Path, assignment: str) -> set[str]:
    """Return every line of a solution or hidden test of `assignment` that students see nowhere else."""
    hidden: set[str] = set()
    shown: set[str] = set()
    for twin in sorted((root / "solutions" / assignment).glob("*.py")):
        lines = [bare(line) for line in twin.read_text().splitlines()]
        regions = [between(lines, begin, end) for begin, end in REGIONS]
        for line, *inside in zip(lines, *regions, strict=True):
            if not any(mark in line for pair in REGIONS for mark in pair):
                (hidden if any(inside) else shown).add(line)
    return {line for line in hidden - shown if len(line) >= TRIVIAL}


def bare(line: str) -> str:
    """Return a line without indentation, the mark of a text, and a directive for a formatter or linter."""
    return DIRECTIVE.sub("", line.strip().removeprefix("# "))


def not_one(folder: Path) -> list[str]:
    """Return a message if a release has several notebooks, because a submission is one graded notebook."""
    names = sorted(path.name for path in folder.glob("*.ipynb"))
    if len(names) == 1:
        return []
    return [
        f"it has {len(names)} notebooks, {', '.join(names)}, but an assignment has one: give each a folder of"
        " its own in solutions/"
    ]


def submits(root: Path, assignment: str) -> list[str]:
    """Return a message about each check that submits a job, whose process would lack the student's code."""
    found = []
    for twin in sorted((root / "solutions" / assignment).glob("*.py")):
        for cell in notebook(twin).cells:
            role = cell.metadata.get("nbgrader", {})
            if role.get("grade") and not role.get("solution") and SUBMITS.search(cell.source):
                name = role["grade_id"]
                found.append(
                    f"check {name!r} submits a job, but checks run without the students' code: let a function"
                    " of a read-only cell submit it and return its result (solutions/README.md)"
                )
    return found


def not_hidden_in_feedback(coursedir: CourseDirectory, assignment: str, folder: Path) -> list[str]:
    """Return a message about each check of a release whose hidden lines the feedback would show.

    The feedback hides lines by nbgrader's own delimiters. If other lines were removed from a check in the
    release (by configured delimiters, or a mark scheme), the feedback would show them.
    """
    import nbformat
    from nbgrader.api import Gradebook, MissingEntry

    graded: dict[tuple[str, str], str] = {}
    with Gradebook(coursedir.db_url, coursedir.course_id) as book, contextlib.suppress(MissingEntry):
        for notebook in book.find_assignment(assignment).notebooks:
            graded |= {(notebook.name, cell.name): cell.source for cell in notebook.source_cells}
    result = []
    for path in sorted(Path(folder).glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            role = cell.metadata.get("nbgrader", {})
            source = graded.get((path.stem, role.get("grade_id")))
            if role.get("locked") and source is not None and as_released(source) != cell.source:
                result.append(
                    f"{path}: {role['grade_id']!r} lacks lines other than those between {BEGIN!r} and "
                    f"{END!r}, which the feedback would show"
                )
    return result


def find_leaks(folder: Path, secret_lines: Collection[str], marks: Collection[str] = MARKS) -> list[str]:
    """Return what students must not see in `folder`: delimiters, secret lines, paired scripts, outputs."""
    import nbformat

    result = []
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        if path.suffix == ".ipynb":
            cells = nbformat.read(path, as_version=4).cells
            lines = [line for cell in cells for line in cell.source.splitlines()]
            result += [f"{path}: cell {cell.id} has outputs" for cell in cells if cell.get("outputs")]
        else:
            lines = path.read_text(errors="replace").splitlines()
            if path.suffix == ".py" and any(line.startswith("# %%") for line in lines):
                result.append(f"{path}: a paired script, which contains the solution")
        for line in lines:
            if any(mark in line for mark in marks):
                result.append(f"{path}: nbgrader's mark {line.strip()!r}")
            if bare(line) in secret_lines:
                result.append(f"{path}: the secret line {line.strip()!r}")
    return result


def shorten(lines: list[str], most: int = 10) -> list[str]:
    """Return the first lines, and how many more there are."""
    return lines if len(lines) <= most else [*lines[:most], f"and {len(lines) - most} more"]


def same_files(a: Path, b: Path) -> bool:
    """Return whether two folders contain the same files with the same bytes."""
    return same_release(a, b, lambda one, other: one.read_bytes() == other.read_bytes())


def same_release(a: Path, b: Path, same: Callable[[Path, Path], bool] | None = None) -> bool:
    """Return whether two folders contain the same files, except for the last bits of expected numbers in
    checks.

    These depend on the processor, for which oneDNN chooses instructions and thus a sum's order
    (ONEDNN_MAX_CPU_ISA=AVX2 reproduces this on one machine). `same` compares two files in another way.
    """
    first, second = ({p.relative_to(f): p for p in Path(f).rglob("*") if p.is_file()} for f in (a, b))
    same = same or _same_but_for_last_bits
    return first.keys() == second.keys() and all(same(path, second[name]) for name, path in first.items())


def _same_but_for_last_bits(a: Path, b: Path) -> bool:
    if a.read_bytes() == b.read_bytes() or a.suffix != ".ipynb":
        return a.read_bytes() == b.read_bytes()
    texts = [path.read_text(encoding="utf-8") for path in (a, b)]
    first, second = (CHECKSUM.sub("", STORED.sub("", text)) for text in texts)
    return first == second and all(map(_same_number, *map(STORED.findall, texts)))


def _same_number(a: str, b: str) -> bool:
    """Return whether two texts of `autotest` have the same tolerance, and values within a hundredth of it.

    If they contain no tolerance, the values must be equal as the check defines it.
    """
    from cluster.checks import compare

    try:
        (got, *tolerance), (want, rtol, atol) = (json.loads(base64.b64decode(text)) for text in (a, b))
    except ValueError:  # a hash of an exact value
        return a == b
    near = (rtol and rtol / 100, atol and atol / 100)
    return tolerance == [rtol, atol] and not compare.compare(got, want, *near)
