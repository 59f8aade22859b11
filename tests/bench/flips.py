"""Do results differ on a busy machine? The solution, the unsolved version and the mutants of an assignment
are graded repeatedly, several at a time on each core. A check that loses or keeps its points contrary to the
mutation results has *flipped*.

`right` counts flips of all checks on submissions that deserve full points, and `wrong` counts flips of the
checks that each mutant fails. With `--rounds`, a grading contains each check several times, and each round of
checks forgets the state of earlier ones.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import track

from cluster.staff.course import assignments
from cluster.staff.engine import Engine
from cluster.staff.engine.verdict import Verdict
from cluster.staff.grading import prove_checks
from cluster.staff.release.student_files import package

from .measure import Found, Row

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from cluster.staff.release.wrong_solutions import Mutant

ABOUT = "how often a check of an assignment judges otherwise, on a machine with several times the load"
ROOT = Path(__file__).parents[2]
JUDGED = 200  # default for --repeats: how often each submission is judged if --minutes are enough
FORGET = {"04": "NOTES.clear()\n"}  # {assignment: code that clears the results that its checks share}
HIDDEN = "### BEGIN HIDDEN TESTS\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--assignment", default="04", metavar="NN", help="the assignment (04)")
    parser.add_argument("--minutes", type=float, default=15.0, metavar="M", help="at most so long (15)")
    parser.add_argument(
        "--load", type=int, default=8, metavar="K", help="gradings at a time on each core (8)"
    )
    parser.add_argument("--rounds", type=int, default=10, metavar="R", help="of all checks in a grading (10)")
    parser.add_argument("--submissions", nargs="+", metavar="NAME", help="only these of its table")
    parser.add_argument(
        "--checks", nargs="+", metavar="CHECK", help="only these checks (those that threads could change)"
    )


def with_checks(book: NotebookNode, checks: Collection[str]) -> NotebookNode:
    """Return a copy of a prepared notebook with only these checks, and without cells that only display
    something.
    """
    book = copy.deepcopy(book)
    of = [cell.metadata.get("nbgrader", {}) for cell in book.cells]
    book.cells = [
        cell
        for cell, own in zip(book.cells, of, strict=True)
        if own and (not own["grade"] or own["solution"] or own["grade_id"] in checks)
    ]
    return book


def named(check: str, number: int) -> str:
    """Return the name that a check has in the round of this number."""
    return check if number == 1 else f"{check} {number}"


def in_rounds(book: NotebookNode, rounds: int, forget: str) -> NotebookNode:
    """Return a copy of a prepared notebook with each check this many times: `CHECK`, `CHECK 2`, `CHECK 3`, …

    forget: code that clears the state of earlier rounds. It is put before the visible and the hidden tests of
    each round's first check.
    """
    book = copy.deepcopy(book)
    checks = [c for c in book.cells if (own := c.metadata.get("nbgrader")) and own.grade and own.locked]
    book.cells = [cell for cell in book.cells if cell not in checks]
    for number in range(1, rounds + 1):
        for check in copy.deepcopy(checks):
            if check.metadata.nbgrader.grade_id == checks[0].metadata.nbgrader.grade_id:
                check.source = forget + check.source.replace(HIDDEN, HIDDEN + forget)
            check.metadata.nbgrader.grade_id = named(check.metadata.nbgrader.grade_id, number)
            book.cells.append(check)
    return book


def right(options: argparse.Namespace) -> Found:
    """Count flips of all checks on submissions that deserve full points."""
    return judged_again(options, lambda mutant, checks: [] if mutant.fails else [*checks])


def wrong(options: argparse.Namespace) -> Found:
    """Count flips of the checks that each mutant fails."""
    return judged_again(options, lambda mutant, checks: [check for check in checks if check in mutant.fails])


def judged_again(options: argparse.Namespace, judges: Callable[[Mutant, list[str]], list[str]]) -> Found:
    """Count how often each check flips. judges: a function that takes a submission and a list of checks, and
    returns those whose flips count.
    """
    [assignment] = assignments(ROOT, options.assignment)
    cores, loads, words = len(os.sched_getaffinity(0)), [], []
    rounds, forget = range(1, options.rounds + 1), FORGET.get(assignment[:2], "")
    with tempfile.TemporaryDirectory(prefix="flips-") as folder:
        table, books, worth = prove_checks.submissions(ROOT, assignment, Path(folder))
        checks, names = options.checks or [*worth], options.submissions or [*table]
        if unknown := sorted({*checks} - {*worth} | {*names} - {*table}):
            raise SystemExit(f"{assignment} has no {', '.join(unknown)}")
        by = {name: found for name in names if (found := judges(table[name], checks))}
        books = {name: in_rounds(with_checks(books[name], by[name]), len(rounds), forget) for name in by}
        done, flips, again = Counter(), dict.fromkeys(checks, 0), 0
        end, workers = time.monotonic() + 60 * options.minutes, options.load * cores
        with Engine(package(), workers) as engine, ThreadPoolExecutor(workers) as pool:

            def one(name: str) -> tuple[str, Verdict | None]:
                if time.monotonic() >= end:
                    return name, None
                verdict = engine.grade(books[name])
                loads.append(os.getloadavg()[0])
                return name, verdict

            todo = [*by] * -(-(options.repeats or JUDGED) // len(rounds))
            for name, verdict in track(pool.map(one, todo), "graded side by side", len(todo)):
                if verdict is None or verdict.outcome != "graded":
                    again += verdict is not None
                    continue
                done[name] += len(rounds)
                for check, number in itertools.product(by[name], rounds):
                    score = verdict.checks[named(check, number)].score
                    if score != (0 if check in table[name].fails else worth[check]):
                        flips[check] += 1
                        words.append(f"{name}: {check} has {score:g} of {worth[check]:g} points")
    judged = {check: sum(done[name] for name in by if check in by[name]) for check in checks}
    rows = [Row(check, f"judged {judged[check]} times", "flips", [float(n)]) for check, n in flips.items()]
    found, least = Found([row for row in rows if judged[row.what]]), min(done[name] for name in by)
    found.aims = [("no check has flipped", not words)]
    found.remarks = [
        f"Assignment {assignment[:2]} submissions: {len(by)}, each judged {least} to {max(done.values())} "
        f"times, {len(rounds)} times per grading, with {workers} gradings at a time on {cores} cores "
        f"(median load {statistics.median(loads):.1f}). Other gradings without an outcome: {again}.",
        *words[:20],
    ]
    if not words and least:
        found.remarks.append(
            f"There was no flip in {sum(judged.values())} judgements. With 95% confidence, each check flips "
            f"on a given submission in less than {300 / least:.2g}% of the judgements."
        )
    return found


SECTIONS = {"right": right, "wrong": wrong}
