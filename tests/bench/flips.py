"""Do counts come out otherwise on a busy machine? Solution, stub and wrong solutions of an assignment are
graded again and again while other processes compute beside them; a check that loses or keeps its points when
its table says otherwise has *flipped*."""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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

ABOUT = "how often a check of an assignment judges otherwise, on a machine with three times the load"
ROOT = Path(__file__).parents[2]
ROUNDS = 200  # gradings of each submission, unless --repeats or --minutes say less


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--assignment", default="04", metavar="NN", help="the assignment (04)")
    parser.add_argument("--minutes", type=float, default=15.0, metavar="M", help="at most so long (15)")
    parser.add_argument(
        "--load", type=int, default=3, metavar="K", help="processes a core that compute beside it (3)"
    )
    parser.add_argument("--holes", nargs="+", metavar="HOLE", help="only what fills one of these otherwise")
    parser.add_argument(
        "--checks", nargs="+", metavar="CHECK", help="only these checks (those that threads could change)"
    )


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes compute meanwhile."""
    beside = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in beside:
            process.terminate()
            process.wait()


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


def counts(options: argparse.Namespace) -> Found:
    """Flips of each check, over all gradings."""
    [assignment] = assignments(ROOT, options.assignment)
    cores, loads, words = len(os.sched_getaffinity(0)), [], []
    with tempfile.TemporaryDirectory(prefix="flips-") as folder:
        table, books, worth = prove_checks.submissions(ROOT, assignment, Path(folder))
        if options.holes:
            table = {name: m for name, m in table.items() if not m.replace or {*m.replace} & {*options.holes}}
        if options.checks:
            if unknown := {*options.checks} - {*worth}:
                raise SystemExit(f"{assignment} has no check {', '.join(sorted(unknown))}")
            worth = {check: worth[check] for check in options.checks}
            books = {name: with_checks(books[name], worth) for name in table}
        done, flips, again = dict.fromkeys(table, 0), dict.fromkeys(worth, 0), 0
        end = time.monotonic() + 60 * options.minutes
        with busy(options.load * cores), Engine(cores) as engine, ThreadPoolExecutor(cores) as pool:

            def one(name: str) -> tuple[str, Verdict | None]:
                loads.append(os.getloadavg()[0])
                return name, engine.grade(books[name]) if time.monotonic() < end else None

            todo = [*table] * (options.repeats or ROUNDS)
            for name, verdict in track(pool.map(one, todo), "graded beside the load", len(todo)):
                if verdict is None or verdict.outcome != "graded":
                    again += verdict is not None
                    continue
                done[name] += 1
                scores = {check: (c.score, c.max_score) for check, c in verdict.checks.items()}
                for check, what in prove_checks.verdict(table[name], scores, worth).items():
                    if what in ("kept", "unexpected"):
                        flips[check] += 1
                        words.append(f"{name}: {check} {what}")
    total = sum(done.values())
    found = Found([Row(check, f"of {total} gradings", "flips", [float(n)]) for check, n in flips.items()])
    found.aims = [("no check has judged otherwise than its table says", not words)]
    found.remarks = [
        f"Assignment {assignment[:2]}: {len(table)} submissions, each graded {min(done.values())} to "
        f"{max(done.values())} times of the {ROUNDS} that the full measurement has; {options.load * cores} "
        f"processes computed beside them on {cores} cores, median load {statistics.median(loads):.1f}; "
        f"{again} more gradings had no outcome, as the machine was too busy for them.",
        *words[:20],
    ]
    if total and not words:
        found.remarks.append(
            f"No flip in {total} gradings: the rate is below {300 / total:.2g}% (95%, all together)."
        )
    return found


SECTIONS = {"counts": counts}
