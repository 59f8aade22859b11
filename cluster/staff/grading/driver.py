"""Have staged submissions graded: send them to workers, follow these, and repeat failed gradings.

Grading a class, nbgrader's Autograde, the official check and the proof of the checks all call `drive`. The
workers are processes or threads of this machine (`on_this_machine.Local`) or the tasks of a Slurm array
(`on_slurm.Array`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypedDict

from cluster.jobs.run.layout import slug

from ..course import CourseError, say
from ..submissions import grading_folder
from ..submissions.grading_folder import GradingFolder, Item
from .grading_progress import Progress

ENGINE = "cluster.staff.engine:Engine"
ATTEMPTS = 3  # maximum gradings of one submission if the infrastructure, not the submission, is at fault
LAST_WORD = 3.0  # seconds for a worker to report its resource usage after its last verdict


class Plan(TypedDict):
    """The contents of plan.json: the tasks of a dispatch's workers."""

    job: str  # name of the array in Slurm
    kind: str  # kind of the backend
    sent: float  # time of the dispatch, in Unix seconds
    parts: list[list[list[str]]]  # [student, key] of each item in each part
    workers: int  # number of submissions that a part grades at a time
    engine: str
    limits: dict[str, float] | None


class Backend:
    """The backend of a dispatch's parts: `on_this_machine.Local` or `on_slurm.Array`."""

    kind: str  # "local" or "slurm"
    pause: float  # seconds between two looks at the verdicts
    settle: float  # seconds after a worker's end during which its verdict may still appear
    slots: int  # number of parts that run at a time
    workers: int  # number of submissions that a part grades at a time
    largest: int  # maximum number of submissions per part

    def fit(self) -> None:
        """Reduce the request to the available resources. Raises CourseError if it could never run."""

    def start(self, dispatch: Dispatch) -> None:
        """Start the parts of a dispatch. Raises CourseError if no part has started and none ever will."""
        raise NotImplementedError

    def running(self, dispatch: Dispatch) -> set[int] | None:
        """Return the parts that are pending or running, or None if unknown."""
        raise NotImplementedError

    def end(self) -> None:
        """End the parts that are still running, unless they notice by themselves that their plan is gone."""

    def status(self) -> str:
        """Describe the workers that are waiting, or return ""."""
        return ""


def drive(
    where: GradingFolder,
    backend: Backend,
    items: Iterable[Item],
    done: Callable[[Item, dict[str, Any]], None],
    engine: str,
    limits: dict[str, float] | None = None,
    progress: Progress | None = None,
) -> None:
    """Grade staged items, and call done(item, verdict) for each as soon as its verdict is known.

    If the infrastructure has failed an item ATTEMPTS times, its verdict has the outcome "again" and the
    reason `why`. Each attempt sends all items that have no verdict, as one dispatch. Before the first, the
    array of a killed process is followed to its end. An interrupt or an error of `done` ends workers on this
    machine, but not an array, which the next call follows. If a stop is requested (see `Progress`), the items
    that are left get no verdict.
    """
    left, starved, attempt = set(items), set[Item](), 0
    earlier, dispatch = taken_over(where, backend), None
    try:
        while left or earlier:
            if earlier:
                dispatch = earlier.pop()
            else:
                attempt += 1
                backend.fit()
                parts = divided(left, starved, attempt, backend)
                dispatch = Dispatch.send(where, backend, parts, engine, limits)
            if not follow(dispatch, left, done, progress):
                dispatch.close()
                return
            for item in sorted(left):
                if (where.verdict(*item) or {}).get("alone"):
                    starved.add(item)
                why = where.again(*item) or dispatch.why(item)
                if attempt == ATTEMPTS:
                    left.remove(item)
                    done(item, failed(why))
            dispatch.close()
            if progress and attempt:
                progress.again += len(left)
    except BaseException:
        if dispatch and backend.kind == "local":
            dispatch.close()
        raise


def drive_one(where: GradingFolder, backend: Backend, item: Item, engine: str) -> dict[str, Any]:
    """Do what `drive` does for a single item, and return its verdict."""
    found = {}

    def done(item: Item, verdict: dict[str, Any]) -> None:
        found[item] = verdict

    drive(where, backend, [item], done, engine)
    return found[item]


def follow(
    dispatch: Dispatch,
    left: set[Item],
    done: Callable[[Item, dict[str, Any]], None],
    progress: Progress | None,
) -> bool:
    """Report verdicts and remove their items from `left` until no more can follow, and return True.

    If a stop is requested, return False.
    """
    while True:
        over = dispatch.over(left)  # determined first, so that no verdict follows the last look
        for item in sorted(left):
            verdict = dispatch.where.verdict(*item)
            if verdict and verdict["outcome"] == "graded":
                left.remove(item)
                done(item, verdict)
        if progress:
            progress.done = progress.total - len(left)
            progress.show(dispatch.backend.status(), dispatch.steps(left))
            if progress.to_stop():
                return False
        if over:
            return True
        time.sleep(dispatch.backend.pause)


def divided(
    left: Collection[Item], starved: Collection[Item], attempt: int, backend: Backend
) -> list[list[Item]]:
    """Divide items among the workers; after failures the parts become smaller, down to one item each.

    A submission that crashes its worker is therefore finally graded alone and does not affect others. An item
    that other processes starved is graded alone at once.
    """
    together = sorted(set(left) - set(starved))
    size = max(1, min(backend.largest, -(-len(together) // backend.slots)))
    size = {1: size, 2: max(1, size // 4)}.get(attempt, 1)
    parts = [together[i : i + size] for i in range(0, len(together), size)]
    return parts + [[item] for item in sorted(starved) if item in left]


def failed(why: str) -> dict[str, Any]:
    """Return the verdict for an item that must be graded again."""
    return {"outcome": "again", "why": why, "checks": {}, "notebook": None, "seconds": 0.0}


def taken_over(where: GradingFolder, backend: Backend) -> list[Dispatch]:
    """Return the arrays of a killed process, which may still run; cancel its other dispatches."""
    found = []
    for folder in sorted(where.dispatches.iterdir()):
        plan = grading_folder.load(folder / "plan.json")
        if not plan:
            shutil.rmtree(folder, ignore_errors=True)
        elif plan["kind"] == "slurm" and backend.kind == "slurm":
            say(f"  following the array {plan['job']} of an earlier run")
            found.append(Dispatch(where, folder.name, plan, backend))
        else:
            Dispatch(where, folder.name, plan, backend).close()
    return found


class Dispatch:
    """One attempt: a folder with plan.json, whose parts run on `backend`. Without it, a worker stops."""

    def __init__(self, where: GradingFolder, name: str, plan: Plan, backend: Backend):
        self.where, self.folder, self.plan, self.backend = where, where.dispatches / name, plan, backend
        self.parts = [[(student, key) for student, key in part] for part in plan["parts"]]
        self.quiet = 0.0  # since when no part with open items is known to run

    @classmethod
    def send(
        cls,
        where: GradingFolder,
        backend: Backend,
        parts: list[list[Item]],
        engine: str,
        limits: dict[str, float] | None,
    ) -> Dispatch:
        """Write the plan and start its parts. Raises CourseError if they can never run."""
        name = uuid.uuid4().hex[:12]
        plan: Plan = {
            "job": slug(f"grade-{name}-{where.folder.name}"),
            "kind": backend.kind,
            "sent": time.time(),
            "parts": [[list(item) for item in part] for part in parts],
            "workers": backend.workers,
            "engine": engine,
            "limits": limits,
        }
        dispatch = cls(where, name, plan, backend)
        dispatch.folder.mkdir(mode=0o700)
        grading_folder.write(dispatch.folder / "plan.json", json.dumps(plan))
        try:
            backend.start(dispatch)
        except CourseError:
            shutil.rmtree(dispatch.folder, ignore_errors=True)  # no part of it has run
            raise
        return dispatch

    def over(self, left: set[Item]) -> bool:
        """Return whether no verdict on items in `left` can follow, and the parts have had time to report."""
        running = self.backend.running(self)
        if running is None:  # Slurm did not answer
            return False
        silent = {n for n in range(len(self.parts)) if not (self.folder / f"ended-{n}.json").exists()}
        waiting = {n for n in silent if not left.isdisjoint(self.parts[n])}
        if running & waiting:
            self.quiet = 0.0
            return False
        self.quiet = self.quiet or time.monotonic()
        patience = 0.0
        if waiting:
            patience = self.backend.settle
        elif running & silent:
            patience = LAST_WORD
        return time.monotonic() - self.quiet >= patience

    def why(self, item: Item) -> str:
        """Return the last output of the worker that was to grade an item."""
        lines = ["its worker ended without output"]
        for number, part in enumerate(self.parts):
            if item in part:
                with contextlib.suppress(OSError):
                    log = self.folder / f"part-{number}.log"
                    lines += log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300]

    def steps(self, left: Collection[Item]) -> list[dict[str, Any]]:
        """Return the last steps that its workers reported for items in `left`."""
        students = {student for student, _ in left}
        steps = [grading_folder.load(path) for path in self.folder.glob("now-*.json")]
        return [facts for facts in steps if facts and facts["student"] in students]

    def close(self) -> None:
        """Remove the plan, so that late workers stop, and write the time used by the parts to the journal."""
        reports = [grading_folder.load(path) for path in sorted(self.folder.glob("ended-*.json"))]
        for facts in filter(None, reports):
            self.where.journal(facts | {"kind": self.plan["kind"]})
        about = {"job": self.plan["job"], "kind": self.plan["kind"], "sent": self.plan["sent"]}
        self.where.journal(about | {"parts": len(self.parts), "told": len(reports)})
        (self.folder / "plan.json").unlink(missing_ok=True)
        self.backend.end()
        shutil.rmtree(self.folder, ignore_errors=True)
