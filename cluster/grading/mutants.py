"""Wrong solutions that the checks must catch: tests/mutants/NN/misunderstanding.py, run through the engine.

A mutant is a Python file of three names, or four:

    MISUNDERSTANDING = "Padding goes on one side only."     what its author believes
    FAILS = {"im2col-stride-padding", …}                    the checks that it loses, all of them and no other
    MAY_FAIL = {"recorded-run"}                             those that it loses by luck, now and then
    REPLACE = {"im2col": '''padded = …'''}                  solution cell: what stands in its hole

Stub, solution and mutants are prepared and graded as students' work is, as many at a time as there are cores.
The table says what each lost. A defect of the checks (a stub with points, a solution without full marks, a
mutant that keeps what it should lose, or loses what it should keep) makes the exit status non-zero. What the
checks that fail together say about a student, the feedback and the report read from the same files.
"""

import os
import runpy
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from cluster.grading.course import Course, CourseError, alone, assignments, say
from cluster.grading.release import generate

STUB, SOLUTION = "stub", "solution"
SHOWN = {"lost": "✗", "unexpected": "!", "kept": "KEPT", "passed": "·"}
TRIES = 3  # gradings of one submission where the machine, not the submission, is at fault


class MutantError(Exception):
    """A mutant file that is not one: the message names the file, the value and what is allowed."""


@dataclass
class Mutant:
    """One submission of the table: what it replaces, and which checks it must lose."""

    name: str
    misunderstanding: str = ""
    fails: set = field(default_factory=set)
    replace: dict = field(default_factory=dict)
    may_fail: set = field(default_factory=set)


def load(path, notebook):
    """The mutant of a file, examined against the notebook (of solutions/) whose holes it fills."""
    named = runpy.run_path(str(path))
    found = {name for name in named if name.isupper()}
    needed = {"MISUNDERSTANDING", "FAILS", "REPLACE"}
    if found - {"MAY_FAIL"} != needed:
        raise MutantError(f"{path} defines {sorted(found)}; a mutant defines {sorted(needed)}")
    holes, checks = cells_of(notebook, "solution"), cells_of(notebook, "grade")
    luck = set(named.get("MAY_FAIL", ()))
    for what, given, known in [
        ("REPLACE", named["REPLACE"], holes),
        ("FAILS", named["FAILS"], checks),
        ("MAY_FAIL", luck, checks),
    ]:
        if not given and what != "MAY_FAIL":
            raise MutantError(f"{path}: {what} is empty")
        if unknown := sorted(set(given) - set(known)):
            raise MutantError(f"{path}: {what} names {unknown}; the notebook has {sorted(known)}")
    return Mutant(path.stem, named["MISUNDERSTANDING"], set(named["FAILS"]), dict(named["REPLACE"]), luck)


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


def submissions(root, assignment, place):
    """Generate the release and fill it in as the solution and as each mutant, prepared as students' work is.

    Returns {name: Mutant}, stub and solution first, {name: prepared notebook} and the points of each check.
    """
    import nbformat

    from cluster.grading.prepare import Sanitiser, Source

    release = generate(root, assignment, place / "release", place / "private")
    paths = sorted(release.glob("*.ipynb"))
    if len(paths) != 1:
        raise MutantError(f"{assignment} has {len(paths)} notebooks; mutants need exactly one")
    source = nbformat.read(root / "solutions" / assignment / paths[0].name, as_version=4)
    worth = points(source)
    table = [Mutant(STUB, fails=set(worth)), Mutant(SOLUTION), *load_all(root, assignment, source)]
    course = Course(root, place / "private", release_directory=place / "release")
    sanitise = Sanitiser(course.config, Source.of(course.coursedir, assignment))
    books = {}
    for mutant in table:
        book = nbformat.read(paths[0], as_version=4)
        if mutant.name != STUB:
            book = fill(book, source, mutant.replace)
        books[mutant.name] = sanitise(book)
    return {mutant.name: mutant for mutant in table}, books, worth


def verdict(mutant, scores, worth):
    """{check: "lost" | "unexpected" | "kept" | "passed"} of one graded submission, in order."""
    outcome = {}
    for check in worth:
        got = scores.get(check, (0, 0))[0] or 0
        if check in mutant.fails:
            outcome[check] = "lost" if got == 0 else "kept"
        else:
            lucky = got == worth[check] or check in mutant.may_fail
            outcome[check] = "passed" if lucky else "unexpected"
    return outcome


def defects(mutant, outcome):
    """What is wrong with the grading of this submission, in words; empty when it is as it should be."""
    kept = [check for check, what in outcome.items() if what == "kept"]
    lost = [check for check, what in outcome.items() if what == "unexpected"]
    whose = f"the {mutant.name}" if mutant.name in (STUB, SOLUTION) else f"mutant {mutant.name}"
    found = [f"{whose} keeps the points of {', '.join(kept)}"] if kept else []
    return found + ([f"{whose} loses {', '.join(lost)}"] if lost else [])


def run(root, wanted=None, only=None, workers=None):
    """Grade stub, solution and mutants of each assignment; print the tables; return the defects found."""
    found = []
    for assignment in assignments(root, wanted):
        with alone(root / ".grading" / "mutants" / assignment) as place:
            before = os.environ.get("CLUSTER_RUNS")
            # What the reference runs while the release is made, a mutant with the same code replays.
            os.environ["CLUSTER_RUNS"] = str(place / "files" / "runs")
            try:
                found += run_one(root, assignment, place, only, workers)
            finally:
                os.environ.pop("CLUSTER_RUNS") if before is None else os.environ.update(CLUSTER_RUNS=before)
    return found


def run_one(root, assignment, place, only=None, workers=None):
    """As `run`, for one assignment in the empty folder `place`."""
    start = time.monotonic()
    say(f"\n{assignment}: generating the release, which runs the solution …")
    table, books, worth = submissions(root, assignment, place)
    if only:
        if unknown := sorted(set(only) - set(table)):
            raise MutantError(f"{assignment} has no mutant {unknown}; there are {sorted(table)}")
        table = {name: mutant for name, mutant in table.items() if name in only}
    say(f"{assignment}: {len(table)} submissions, {sum(worth.values())} points in {len(worth)} checks")
    scores = grade_all(place, {name: books[name] for name in table}, workers)
    outcomes = {name: verdict(mutant, scores[name], worth) for name, mutant in table.items()}
    say(show(table, outcomes, scores, worth))
    say(f"{time.monotonic() - start:.0f} s; the graded notebooks lie in {place}")
    return [f"{assignment}: {d}" for name in table for d in defects(table[name], outcomes[name])]


def grade_all(place, books, workers=None):
    """{name: {check: (points got, points to get)}} of all, `workers` at a time (default: one a core)."""
    from cluster.grading.engine import Engine

    scores = {}
    workers = workers or len(os.sched_getaffinity(0))
    with Engine(workers) as engine, ThreadPoolExecutor(workers) as pool:
        jobs = {pool.submit(grade, engine, place, name, book): name for name, book in books.items()}
        for done in as_completed(jobs):
            scores[jobs[done]] = done.result()
            say(f"  graded {len(scores):2} of {len(books)}: {jobs[done]}")
    return scores


def grade(engine, place, name, book):
    """Grade one submission with the reference's runs, and write its notebook into `place`."""
    import nbformat

    for _ in range(TRIES):
        verdict = engine.grade(book, place / "files")
        if verdict.outcome == "graded":
            nbformat.write(verdict.notebook, place / f"{name}.ipynb")
            return {check: (result.score, result.max_score) for check, result in verdict.checks.items()}
    raise CourseError(f"{name} could not be graded: {verdict.why}")


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
    legend = "✗ lost as it should be   · kept as it should be   ! lost and should not be   K kept wrongly"
    return "\n".join([*lines, "", f"  {legend}"])
