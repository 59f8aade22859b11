"""Do counts come out otherwise on a busy machine? Solution, stub and wrong solutions of an assignment are
graded again and again, several at a time on each core; a check that loses or keeps its points when its table
says otherwise has *flipped*.

Starting the processes of a grading takes longer than its checks. So one grading judges a submission several
times (`--rounds`): the checks stand in it so often, and what they keep of an earlier round is forgotten.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import tempfile
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import track

from cluster.staff.classes import prove_checks
from cluster.staff.course import assignments
from cluster.staff.engine import Engine
from cluster.staff.engine.verdict import Verdict

from .measure import Found, Row

if TYPE_CHECKING:
    from nbformat import NotebookNode

ABOUT = "how often a check of an assignment judges otherwise, on a machine with four times the load"
ROOT = Path(__file__).parents[2]
JUDGED = 200  # times that each submission is judged, unless --repeats or --minutes say less
FORGET = {"04": "NOTES.clear()\n"}  # in an assignment whose checks keep answers for one another
HIDDEN = "### BEGIN HIDDEN TESTS\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--assignment", default="04", metavar="NN", help="the assignment (04)")
    parser.add_argument("--minutes", type=float, default=15.0, metavar="M", help="at most so long (15)")
    parser.add_argument(
        "--load", type=int, default=4, metavar="K", help="gradings at a time on each core (4)"
    )
    parser.add_argument("--rounds", type=int, default=10, metavar="R", help="of all checks in a grading (10)")
    parser.add_argument("--holes", nargs="+", metavar="HOLE", help="only what fills one of these otherwise")
    parser.add_argument(
        "--checks", nargs="+", metavar="CHECK", help="only these checks (those that threads could change)"
    )


def with_checks(book: NotebookNode, checks: Collection[str]) -> NotebookNode:
    """A copy of a prepared notebook without other checks, and without cells that only look."""
    book = copy.deepcopy(book)
    of = [cell.metadata.get("nbgrader", {}) for cell in book.cells]
    book.cells = [
        cell
        for cell, own in zip(book.cells, of, strict=True)
        if own and (not own["grade"] or own["solution"] or own["grade_id"] in checks)
    ]
    return book


def named(check: str, number: int) -> str:
    """What a check is called in a round."""
    return check if number == 1 else f"{check} {number}"


def in_rounds(book: NotebookNode, rounds: int, forget: str) -> NotebookNode:
    """A copy of a prepared notebook with each check so many times: `CHECK`, `CHECK 2`, `CHECK 3`, …

    forget: what has the first check of a round forget the rounds before, in its shown and its hidden part.
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


def counts(options: argparse.Namespace) -> Found:
    """Flips of each check, over all rounds of all gradings."""
    [assignment] = assignments(ROOT, options.assignment)
    cores, loads, words = len(os.sched_getaffinity(0)), [], []
    rounds, forget = range(1, options.rounds + 1), FORGET.get(assignment[:2], "")
    with tempfile.TemporaryDirectory(prefix="flips-") as folder:
        table, books, worth = prove_checks.submissions(ROOT, assignment, Path(folder))
        if options.holes:
            table = {name: m for name, m in table.items() if not m.replace or {*m.replace} & {*options.holes}}
        if options.checks:
            if unknown := {*options.checks} - {*worth}:
                raise SystemExit(f"{assignment} has no check {', '.join(sorted(unknown))}")
            worth = {check: worth[check] for check in options.checks}
        books = {name: in_rounds(with_checks(books[name], worth), len(rounds), forget) for name in table}
        done, flips, again = dict.fromkeys(table, 0), dict.fromkeys(worth, 0), 0
        end, workers = time.monotonic() + 60 * options.minutes, options.load * cores
        with Engine(workers) as engine, ThreadPoolExecutor(workers) as pool:

            def one(name: str) -> tuple[str, Verdict | None]:
                if time.monotonic() >= end:
                    return name, None
                verdict = engine.grade(books[name])
                loads.append(os.getloadavg()[0])
                return name, verdict

            todo = [*table] * -(-(options.repeats or JUDGED) // len(rounds))
            for name, verdict in track(pool.map(one, todo), "graded side by side", len(todo)):
                if verdict is None or verdict.outcome != "graded":
                    again += verdict is not None
                    continue
                for number in rounds:
                    got = {check: verdict.checks[named(check, number)] for check in worth}
                    scores = {check: (c.score, c.max_score) for check, c in got.items()}
                    done[name] += 1
                    for check, what in prove_checks.verdict(table[name], scores, worth).items():
                        if what in ("kept", "unexpected"):
                            flips[check] += 1
                            words.append(f"{name}: {check} {what}")
    total = sum(done.values())
    found = Found([Row(check, f"judged {total} times", "flips", [float(n)]) for check, n in flips.items()])
    found.aims = [("no check has judged otherwise than its table says", not words)]
    found.remarks = [
        f"Assignment {assignment[:2]}: {len(table)} submissions, each judged {min(done.values())} to "
        f"{max(done.values())} times by each check, {len(rounds)} times in a grading; {workers} gradings "
        f"side by side on {cores} cores, median load {statistics.median(loads):.1f}; {again} more gradings "
        "had no outcome, as the machine was too busy for them.",
        *words[:20],
    ]
    if total and not words:
        found.remarks.append(
            f"No flip in {total} rounds: the rate is below {300 / total:.2g}% (95%, all together); of a "
            f"single submission it is known to be below {300 / min(done.values()):.2g}%."
            if min(done.values())
            else f"No flip in {total} rounds."
        )
    return found


SECTIONS = {"counts": counts}
