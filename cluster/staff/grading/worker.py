"""A worker: grades the submissions of one part of a dispatch with one warm autograder, and writes verdicts.

It sees prepared notebooks and files, never the gradebook, and can be killed at any moment, because verdicts
are written atomically. It skips items that have a verdict, and stops when its dispatch is cancelled.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cluster.system import files

from ..course import CourseError
from ..release.student_files import package
from ..submissions import grading_folder
from .driver import Plan, failed

if TYPE_CHECKING:
    from ..engine import Engine


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    parser.add_argument("dispatch", type=Path, help="folder of the dispatch")
    parser.add_argument("part", type=int, help="number of the part of the plan to grade")
    parser.add_argument("--lifeline", action="store_true", help="exit when standard input is closed")
    options = parser.parse_args(argv)
    if options.lifeline:
        threading.Thread(target=watch, args=(sys.stdin,), daemon=True).start()
    try:
        work(options.dispatch, options.part)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def watch(stream: TextIO) -> None:
    """End this process when the coordinator has ended, which closes its end of the pipe in any case."""
    while stream.read(4096):
        pass
    os._exit(3)


def work(dispatch: Path, part: int, engine: Engine | None = None) -> None:
    """Grade the items of a part until each has a verdict or the dispatch is cancelled.

    Then report the resources used in ended-<part>.json. engine: a running autograder; by default, the plan's.
    """
    plan: Plan | None = grading_folder.load(dispatch / "plan.json")
    if plan is None:
        return
    began, cores = time.time(), 0
    folders = [dispatch.parent.parent / "items" / student / key for student, key in plan["parts"][part]]
    if items := [item for item in folders if not (item / "verdict.json").exists()]:
        cores = min(plan["workers"], len(items))
        running = contextlib.nullcontext(engine) if engine else make_engine(plan, cores)
        with running as engine, ThreadPoolExecutor(cores) as pool:
            for number, item in enumerate(items):
                pool.submit(grade, engine, item, dispatch, f"now-{part}-{number}.json")
        cores = plan["workers"]
    facts = {"part": part, "began": began, "ended": time.time(), "cores": cores, "host": os.uname().nodename}
    if (dispatch / "plan.json").exists():
        grading_folder.write(dispatch / f"ended-{part}.json", json.dumps(facts))


def make_engine(plan: Plan, workers: int) -> Engine:
    """Create the plan's autograder `module:Class`, with the plan's limits for that module's `Limits`."""
    where, _, kind = plan["engine"].partition(":")
    module = importlib.import_module(where)
    more = {"limits": module.Limits(**plan["limits"])} if plan["limits"] else {}
    return getattr(module, kind)(package(), workers=workers, **more)


def grade(engine: Engine, item: Path, dispatch: Path, now: str) -> None:
    """Write the verdict of one item, unless the dispatch is cancelled.

    An error here is a fault of the infrastructure, so the item is graded again. now: name of the file of the
    dispatch that states the running cell or check.
    """
    import nbformat

    began = time.time()

    def step(what: str, limit: float, budget: float) -> None:
        facts = {"student": item.parent.name, "what": what, "since": time.time(), "limit": limit}
        with contextlib.suppress(OSError):  # the dispatch was cancelled, or the disk is full
            files.write_json(dispatch / now, facts | {"began": began, "budget": budget}, mode=0o600)

    if not (dispatch / "plan.json").exists():
        return
    try:
        notebook = nbformat.read(item / "prepared.ipynb", as_version=4)
        seed = grading_folder.load(item / "item.json")["seed"]
        verdict = engine.grade(notebook, item / "files", on_step=step, seed=seed).to_json()
        text = json.dumps({"key": item.name, "verdict": verdict})
    except Exception as error:
        text = json.dumps({"key": item.name, "verdict": failed(f"{type(error).__name__}: {error}")})
    try:
        grading_folder.write(item / "verdict.json", text)
    except OSError as error:  # a full disk: without a verdict, the item is sent again
        print(f"{item}: {error}", file=sys.stderr)
    (dispatch / now).unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
