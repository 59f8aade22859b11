"""Grade mutants, which must fail the checks they name, and valid alternatives, which must fail none.

The format of their files is described in release/wrong_solutions.py. The unsolved assignment, the solution
and these are prepared and graded like students' submissions, with one process per core. The table shows the
points that each has lost. The exit status is non-zero if the checks have a defect: the unsolved assignment
gets points, the solution or an alternative loses any, or a mutant loses other points than it should.
"""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.system import settings

from ..course import Course, CourseError, alone, assignments, say
from ..release.release import generate
from ..release.wrong_solutions import (
    SOLUTION,
    STUB,
    Mutant,
    MutantError,
    fill,
    load_all,
    load_all_unusual,
    points,
)
from ..submissions.grading_folder import GradingFolder, Item
from ..work_files import work_files
from . import grading_limits
from .driver import ENGINE, Backend, drive
from .grade import source_files
from .on_this_machine import Local

if TYPE_CHECKING:
    from nbformat import NotebookNode

Scores = dict[str, tuple[float, float]]  # {check: (points obtained, maximum points)}

LOST, PASSED, UNEXPECTED, KEPT = "✗", "·", "!", "K"
KEY = "prepared"  # the only key of each submission in its grading folder


def submissions(
    root: Path, assignment: str, folder: Path
) -> tuple[dict[str, Mutant], dict[str, NotebookNode], dict[str, float]]:
    """Generate the release; prepare it like submissions, filled in as the solution and as each mutant.

    Returns {name: Mutant}, with unsolved and solution first and alternatives last, {name: prepared notebook},
    and the points of each check.
    """
    import nbformat

    from ..submissions.prepare import Sanitiser, Source

    release = generate(root, assignment, folder / "release", folder / "private")
    paths = sorted(release.glob("*.ipynb"))
    if len(paths) != 1:
        raise MutantError(f"{assignment} has {len(paths)} notebooks; mutants require exactly one")
    source = nbformat.read(root / "solutions" / assignment / paths[0].name, as_version=4)
    worth = points(source)
    table = [Mutant(STUB, fails=set(worth)), Mutant(SOLUTION), *load_all(root, assignment, source)]
    table += load_all_unusual(root, assignment, source)
    names = [mutant.name for mutant in table]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MutantError(f"{assignment} has two submissions called {', '.join(twice)}: rename one")
    course = Course(root, folder / "private", release_directory=folder / "release")
    sanitise = Sanitiser(course.config, Source.from_gradebook(course.coursedir, assignment))
    books = {}
    for mutant in table:
        book = nbformat.read(paths[0], as_version=4)
        if mutant.name != STUB:
            book = fill(book, source, mutant.replace)
        books[mutant.name] = sanitise(book)
    return {mutant.name: mutant for mutant in table}, books, worth


def verdict(mutant: Mutant, scores: Scores, worth: dict[str, float]) -> dict[str, str]:
    """Return {check: LOST, PASSED, UNEXPECTED (also lost) or KEPT} for one graded submission, in order."""
    outcome = {}
    for check, most in worth.items():
        got = scores.get(check, (0, 0))[0] or 0
        if check in mutant.fails:
            outcome[check] = KEPT if got else LOST
        else:
            outcome[check] = PASSED if got == most or check in mutant.may_fail else UNEXPECTED
    return outcome


def defects(mutant: Mutant, outcome: dict[str, str]) -> list[str]:
    """Describe the errors in the grading of this submission; return nothing if it is correct."""
    kept = [check for check, what in outcome.items() if what == KEPT]
    lost = [check for check, what in outcome.items() if what == UNEXPECTED]
    kind = "mutant" if mutant.fails else "alternative solution"
    whose = f"the {mutant.name}" if mutant.name in (STUB, SOLUTION) else f"{kind} {mutant.name}"
    result = [f"{whose} keeps the points of {', '.join(kept)}"] if kept else []
    return result + ([f"{whose} loses {', '.join(lost)}"] if lost else [])


def prove(
    root: Path,
    wanted: str | None = None,
    only: Collection[str] | None = None,
    backend: Backend | None = None,
) -> list[str]:
    """Grade the unsolved version, solution and mutants of each assignment, print tables, return the defects.

    only: names of submissions to grade (default: all). backend: Local() by default.
    """
    result = []
    for assignment in assignments(root, wanted):
        with alone(root / ".grading" / "mutants" / assignment) as folder:
            before = settings.given("CLUSTER_RUNS")
            # A mutant with the same code replays the runs that the solution recorded for the release.
            os.environ["CLUSTER_RUNS"] = str(folder / "files" / "runs")
            try:
                result += prove_one(root, assignment, folder, only, backend or Local())
            finally:
                os.environ.pop("CLUSTER_RUNS") if before is None else os.environ.update(CLUSTER_RUNS=before)
    return result


def prove_one(
    root: Path, assignment: str, folder: Path, only: Collection[str] | None, backend: Backend
) -> list[str]:
    """Do what `prove` does for one assignment, in the empty folder `folder`."""
    start = time.monotonic()
    say(f"\n{assignment}: generating the release, which runs the solution …")
    table, books, worth = submissions(root, assignment, folder)
    if only:
        if unknown := sorted(set(only) - set(table)):
            raise MutantError(f"{assignment} has no mutant {unknown}; its mutants are {sorted(table)}")
        table = {name: mutant for name, mutant in table.items() if name in only}
    say(f"{assignment}: {len(table)} submissions, {sum(worth.values())} points for {len(worth)} checks")
    course = Course(root)
    limits, data = grading_limits.of(course, assignment), source_files(course.coursedir, assignment)
    graded = grade_all(folder, {name: books[name] for name in table}, backend, limits, data)
    scores = {
        name: {check: (one["score"], one["max_score"]) for check, one in checks.items()}
        for name, checks in graded.items()
    }
    outcomes = {name: verdict(table[name], scores[name], worth) for name in table}
    say(show(table, outcomes, scores, worth))
    say(f"{time.monotonic() - start:.0f} s; the graded notebooks are in {folder}")
    return [f"{assignment}: {d}" for name in table for d in defects(table[name], outcomes[name])]


def grade_all(
    folder: Path,
    books: dict[str, NotebookNode],
    backend: Backend,
    limits: dict[str, float],
    data: dict[str, Path],
    say: Callable[[str], None] = say,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Grade notebooks with the solution's recorded runs and the assignment's files, and write them into
    `folder`. Returns {name: {check: its result, as in a verdict}}.
    """
    import nbformat

    from ..submissions.prepare import MEASURED, Submission

    where, found = GradingFolder(folder, "graded"), {}

    def done(item: Item, verdict: dict[str, Any]) -> None:
        name, _ = item
        if verdict["outcome"] != "graded":
            raise CourseError(f"{name} could not be graded: {verdict['why']}")
        nbformat.write(nbformat.from_dict(verdict["notebook"]), folder / f"{name}.ipynb")
        found[name] = verdict["checks"]
        say(f"  graded {len(found):2} of {len(books)}: {name}")

    (folder / "files").mkdir(exist_ok=True)
    files = work_files(folder / "files")
    for name, book in books.items():
        cells = [cell["id"] for cell in book.cells if MEASURED in cell.metadata.get("tags", ())]
        book.metadata["measured"] = cells  # as in a prepared submission
        where.stage(Submission(name, folder, name, book, files=files), KEY, data)
    drive(where, backend, [(name, KEY) for name in books], done, ENGINE, limits or None)
    return found


def show(
    table: dict[str, Mutant],
    outcomes: dict[str, dict[str, str]],
    scores: dict[str, Scores],
    worth: dict[str, float],
) -> str:
    """Return the table of submissions and checks, as text."""
    checks = list(worth)
    legend = "checks: " + ", ".join(f"{i + 1} {c} ({worth[c]:g})" for i, c in enumerate(checks))
    lines = ["", *textwrap.wrap(legend, 110, initial_indent="  ", subsequent_indent="          ")]
    width = max(len(name) for name in table)
    lines += ["", "  " + " " * width + "   points " + "".join(f"{i + 1:>3}" for i in range(len(checks)))]
    for name, mutant in table.items():
        outcome, got = outcomes[name], sum(score or 0 for score, _ in scores[name].values())
        marks = "".join(f"{outcome[check]:>3}" for check in checks)
        beyond = [check for check in checks if outcome[check] == UNEXPECTED]
        note = "" if not beyond else "  also loses " + ", ".join(beyond)
        bad = "  NOT AS IT SHOULD BE" if defects(mutant, outcome) else ""
        lines.append(f"  {name:{width}}   {got:>2g} / {sum(worth.values()):<3g}{marks}{bad}{note}")
    legend = "✗ lost as it should be   · kept as it should be   ! lost and should not be   K kept wrongly"
    return "\n".join([*lines, "", f"  {legend}"])
