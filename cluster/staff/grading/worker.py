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
import queue
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from cluster.system import files

from ..course import CourseError
from ..release.student_files import package
from ..submissions import grading_folder

if TYPE_CHECKING:
    from ..engine import Engine
    from .dispatch import Plan


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster.staff.grading.worker", description=__doc__)
    parser.add_argument("dispatch", type=Path, help="folder of the dispatch")
    parser.add_argument("part", type=int, help="number of the part of the plan to grade")
    parser.add_argument("--lifeline", action="store_true", help="exit when standard input is closed")
    options = parser.parse_args(argv)
    if options.lifeline:
        threading.Thread(target=watch, args=(sys.stdin,), daemon=True).start()
    try:
        return work(options.dispatch, options.part)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1


def watch(stream: TextIO) -> None:
    """End this process when the coordinator has ended, which closes its end of the pipe in any case."""
    while stream.read(4096):
        pass
    os._exit(3)


def work(dispatch: Path, part: int) -> int:
    """Grade the items of a part; return 0 when each has a verdict or the dispatch was cancelled."""
    plan: Plan | None = grading_folder.load(dispatch / "plan.json")
    if plan is None:
        return 0
    items, began = dispatch.parent.parent / "items", time.time()
    waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for student, key in plan["parts"][part]:
        if not (items / student / key / "verdict.json").exists():
            waiting.put(items / student / key)
    workers = max(1, min(plan["workers"], waiting.qsize()))
    if waiting.empty():
        return ended(dispatch, part, began, 0)
    with make_engine(plan["engine"], workers, plan["limits"]) as engine:
        now = [dispatch / f"now-{part}-{n}.json" for n in range(workers)]
        threads = [threading.Thread(target=drain, args=(engine, waiting, dispatch, path)) for path in now]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return ended(dispatch, part, began, plan["workers"])


def ended(dispatch: Path, part: int, began: float, cores: int) -> int:
    """Record that the part has finished, and its resource usage; return the exit status, 0."""
    facts = {"part": part, "began": began, "ended": time.time(), "cores": cores, "host": os.uname().nodename}
    if (dispatch / "plan.json").exists():
        grading_folder.write(dispatch / f"ended-{part}.json", json.dumps(facts))
    return 0


def make_engine(name: str, workers: int, limits: dict[str, float] | None) -> Engine:
    """Create the autograder `module:Class`; `limits`: {name: value} for its module's Limits, or None."""
    where, _, kind = name.partition(":")
    module = importlib.import_module(where)
    more = {"limits": module.Limits(**limits)} if limits else {}
    return getattr(module, kind)(package(), workers=workers, **more)


def drain(engine: Engine, waiting: queue.SimpleQueue[Path], dispatch: Path, now: Path) -> None:
    """Grade items until none is left. now: the file that names the running cell or check."""
    while (dispatch / "plan.json").exists():
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return
        if not (item / "verdict.json").exists():
            grade(engine, item, now)


def grade(engine: Engine, item: Path, now: Path | None = None) -> None:
    """Write the verdict of one item. An error here is a fault of the infrastructure, so the item is graded
    again.

    now: the file that names the running cell or check, or None.
    """
    import nbformat

    began = time.time()

    def step(what: str, limit: float, budget: float) -> None:
        if now is None:
            return
        facts = {"student": item.parent.name, "what": what, "since": time.time(), "limit": limit}
        with contextlib.suppress(OSError):  # the dispatch was cancelled, or the disk is full
            files.write_json(now, facts | {"began": began, "budget": budget}, mode=0o600)

    try:
        notebook = nbformat.read(item / "prepared.ipynb", as_version=4)
        verdict = engine.grade(notebook, item / "files", on_step=step).to_json()
        verdict = json.loads(verdict) if isinstance(verdict, str) else verdict
        text = json.dumps({"key": item.name, "verdict": verdict})
    except Exception as error:
        text = json.dumps({"key": item.name, "verdict": again(f"{type(error).__name__}: {error}")})
    try:
        grading_folder.write(item / "verdict.json", text)
    except OSError as error:  # a full disk: without a verdict, the coordinator dispatches the item again
        print(f"{item}: {error}", file=sys.stderr)


def again(why: str) -> dict[str, Any]:
    """Return the verdict for an item that must be graded again."""
    return {"outcome": "again", "why": why, "checks": {}, "notebook": None, "seconds": 0.0}


if __name__ == "__main__":
    sys.exit(main())
