"""Wrong solutions that the checks must catch: tests/mutants/NN/misunderstanding.py, run through nbgrader.

A mutant is a Python file of three names:

    MISUNDERSTANDING = "Padding goes on one side only."     what its author believes
    FAILS = {"im2col-stride-padding", …}                    the checks that must lose all their points
    REPLACE = {"im2col": '''padded = …'''}                  solution cell: what stands in its hole

Stub, solution and mutants are handed in like students' work and graded by nbgrader, each with a gradebook of
its own, as many at a time as there are cores. The table says what each lost. A defect of the checks (a stub
with points, a solution without full marks, a mutant that keeps what it should lose) makes the exit status
non-zero.
"""

import os
import runpy
import shutil
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context

from cluster.grading.course import Course, alone, assignments, say
from cluster.grading.release import generate

STUB, SOLUTION = "stub", "solution"
SHOWN = {"lost": "✗", "unexpected": "!", "kept": "KEPT", "passed": "·"}


class MutantError(Exception):
    """A mutant file that is not one: the message names the file, the value and what is allowed."""


@dataclass
class Mutant:
    """One submission of the table: what it replaces, and which checks it must lose."""

    name: str
    misunderstanding: str = ""
    fails: set = field(default_factory=set)
    replace: dict = field(default_factory=dict)


def load(path, notebook):
    """The mutant of a file, examined against the notebook (of solutions/) whose holes it fills."""
    named = runpy.run_path(str(path))
    found = {name for name in named if name.isupper()}
    needed = {"MISUNDERSTANDING", "FAILS", "REPLACE"}
    if found != needed:
        raise MutantError(f"{path} defines {sorted(found)}; a mutant defines {sorted(needed)}")
    holes, checks = cells_of(notebook, "solution"), cells_of(notebook, "grade")
    for what, given, known in [("REPLACE", named["REPLACE"], holes), ("FAILS", named["FAILS"], checks)]:
        if not given:
            raise MutantError(f"{path}: {what} is empty")
        if unknown := sorted(set(given) - set(known)):
            raise MutantError(f"{path}: {what} names {unknown}; the notebook has {sorted(known)}")
    return Mutant(path.stem, named["MISUNDERSTANDING"], set(named["FAILS"]), dict(named["REPLACE"]))


def load_all(root, assignment, notebook):
    """All mutants of an assignment, sorted by name; their folder is named by the assignment's number."""
    folder = root / "tests" / "mutants" / assignment[:2]
    return [load(path, notebook) for path in sorted(folder.glob("*.py"))]


def cells_of(notebook, role):
    """{slug: cell} of the notebook's cells of a role of nbgrader's ("solution", "grade")."""
    found = {}
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if metadata.get(role):
            found[metadata["grade_id"]] = cell
    return found


def points(notebook):
    """{check: points} of a notebook."""
    return {name: cell.metadata.nbgrader.points for name, cell in cells_of(notebook, "grade").items()}


def fill(release, source, replace=None):
    """The release with its holes filled: as in the `source` notebook, unless `replace` says otherwise."""
    answers = cells_of(source, "solution")
    for name, cell in cells_of(release, "solution").items():
        cell.source = refill(answers[name].source, (replace or {}).get(name))
    return release


def refill(source, text=None):
    """A solution cell without its marks; with `text`, that stands where the solution stood."""
    lines, inside = [], False
    for line in source.splitlines():
        if "### BEGIN SOLUTION" in line:
            inside = True
            if text is not None:
                indent = line[: len(line) - len(line.lstrip())]
                lines += textwrap.indent(textwrap.dedent(text).strip("\n"), indent).splitlines()
        elif "### END SOLUTION" in line:
            inside = False
        elif not inside or text is None:
            lines.append(line)
    return "\n".join(lines)


def grade(root, private, assignment, name):
    """Autograde one submission that lies in `private`/submitted; runs in a process of its own."""
    course = Course(root, private)
    course.autograde(assignment, name)
    return course.scores(assignment, name)


def submissions(root, assignment, place):
    """Write stub, solution and mutants as submissions under `place`, each with a copy of the gradebook.

    Returns {name: Mutant}, stub and solution first, and the points of each check.
    """
    import nbformat

    release = generate(root, assignment, place / "release", place / "private")
    paths = sorted(release.glob("*.ipynb"))
    if len(paths) != 1:
        raise MutantError(f"{assignment} has {len(paths)} notebooks; mutants need exactly one")
    source = nbformat.read(root / "solutions" / assignment / paths[0].name, as_version=4)
    worth = points(source)
    table = [Mutant(STUB, fails=set(worth)), Mutant(SOLUTION), *load_all(root, assignment, source)]
    for mutant in table:
        private = place / mutant.name
        folder = private / "submitted" / mutant.name / assignment
        shutil.copytree(release, folder)
        shutil.copy(place / "private" / "gradebook.db", private / "gradebook.db")
        if mutant.name != STUB:
            book = fill(nbformat.read(paths[0], as_version=4), source, mutant.replace)
            nbformat.write(book, folder / paths[0].name)
    return {mutant.name: mutant for mutant in table}, worth


def verdict(mutant, scores, worth):
    """{check: "lost" | "unexpected" | "kept" | "passed"} of one graded submission, in order."""
    outcome = {}
    for check in worth:
        got = scores.get(check, (0, 0))[0] or 0
        if check in mutant.fails:
            outcome[check] = "lost" if got == 0 else "kept"
        else:
            outcome[check] = "passed" if got == worth[check] else "unexpected"
    return outcome


def defects(mutant, outcome):
    """What is wrong with the grading of this submission, in words; empty when it is as it should be."""
    kept = [check for check, what in outcome.items() if what == "kept"]
    lost = [check for check, what in outcome.items() if what == "unexpected"]
    if mutant.name == SOLUTION and lost:
        return [f"the solution loses {', '.join(lost)}"]
    if kept:
        whose = "the stub" if mutant.name == STUB else f"mutant {mutant.name}"
        return [f"{whose} keeps the points of {', '.join(kept)}"]
    return []


def run(root, wanted=None, only=None, workers=None):
    """Grade stub, solution and mutants of each assignment; print the tables; return the defects found."""
    found = []
    for assignment in assignments(root, wanted):
        with alone(root / ".grading" / "mutants" / assignment) as place:
            before = os.environ.get("CLUSTER_RUNS")
            # One folder of runs for all: what the reference ran, a mutant with the same code replays.
            os.environ["CLUSTER_RUNS"] = str(place / "runs")
            try:
                found += run_one(root, assignment, place, only, workers)
            finally:
                os.environ.pop("CLUSTER_RUNS") if before is None else os.environ.update(CLUSTER_RUNS=before)
    return found


def run_one(root, assignment, place, only=None, workers=None):
    """As `run`, for one assignment in the empty folder `place`."""
    start = time.monotonic()
    say(f"\n{assignment}: generating the release, which runs the solution …")
    table, worth = submissions(root, assignment, place)
    if only:
        if unknown := sorted(set(only) - set(table)):
            raise MutantError(f"{assignment} has no mutant {unknown}; there are {sorted(table)}")
        table = {name: mutant for name, mutant in table.items() if name in only}
    say(f"{assignment}: {len(table)} submissions, {sum(worth.values())} points in {len(worth)} checks")
    scores = grade_all(root, place, assignment, list(table), workers)
    outcomes = {name: verdict(mutant, scores[name], worth) for name, mutant in table.items()}
    say(show(table, outcomes, scores, worth))
    say(f"{time.monotonic() - start:.0f} s; the graded notebooks lie in {place}")
    return [f"{assignment}: {d}" for name in table for d in defects(table[name], outcomes[name])]


def grade_all(root, place, assignment, names, workers=None):
    """{name: scores}: all submissions, in `workers` processes (default: one a core)."""
    scores = {}
    workers = workers or len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(grade, root, place / name, assignment, name): name for name in names}
        for done in as_completed(jobs):
            scores[jobs[done]] = done.result()
            say(f"  graded {len(scores):2} of {len(names)}: {jobs[done]}")
    return scores


def show(table, outcomes, scores, worth):
    """The table of submissions against checks, as text."""
    checks = list(worth)
    legend = "checks: " + ", ".join(f"{i + 1} {c} ({worth[c]:g})" for i, c in enumerate(checks))
    lines = ["", *textwrap.wrap(legend, 110, initial_indent="  ", subsequent_indent="          ")]
    width = max(len(name) for name in table)
    lines += ["", "  " + " " * width + "   points " + "".join(f"{i + 1:>3}" for i in range(len(checks)))]
    for name, mutant in table.items():
        outcome, got = outcomes[name], sum(score or 0 for score, _ in scores[name].values())
        marks = "".join(f"{SHOWN[outcome[check]][0]:>3}" for check in checks)
        beyond = [check for check in checks if outcome[check] == "unexpected"]
        note = "" if not beyond else "  also loses " + ", ".join(beyond)
        bad = "  NOT AS IT SHOULD BE" if defects(mutant, outcome) else ""
        lines.append(f"  {name:{width}}   {got:>2g} / {sum(worth.values()):<3g}{marks}{bad}{note}")
    legend = "✗ lost as it should be   · kept as it should be   ! lost beyond what it must   K kept wrongly"
    return "\n".join([*lines, "", f"  {legend}"])
