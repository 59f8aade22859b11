"""Dispatched work: a plan on disk, its parts, which run somewhere, and their outcomes."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TypedDict

from ..course import CourseError
from ..submissions import grading_folder

ATTEMPTS = 3
LAST_WORD = 3.0  # seconds for a worker to report its resource usage after its last verdict


class Plan(TypedDict):
    """The contents of plan.json: the tasks of a dispatch's workers."""

    job: str  # name of the array in Slurm
    kind: str  # kind of the backend
    sent: float  # time of the dispatch, in Unix seconds
    parts: list[list[list[str]]]  # [student, key] of each item in each part
    attempts: list[int]  # attempt number of each part
    workers: int  # number of submissions that a part grades at a time
    engine: str
    limits: dict[str, float] | None


class Backend(Protocol):
    """The backend of a dispatch's parts: `on_this_machine.Local` or `on_slurm.Array`."""

    kind: str  # "local" or "slurm"
    settle: float  # seconds after a worker's end during which its verdict may still appear
    slots: int  # number of parts that run at a time
    workers: int  # number of submissions that a part grades at a time
    largest: int  # maximum number of submissions per part

    def fit(self) -> None:
        """Reduce the request to the available resources. Raises CourseError if it could never run."""

    def start(self, dispatch: Dispatch) -> None:
        """Start the parts of a dispatch. Raises CourseError if no part has started and none ever will."""

    def running(self, dispatch: Dispatch) -> set[int] | None:
        """Return the parts that are pending or running, or None if unknown."""

    def end(self, dispatch: Dispatch) -> None:
        """End the parts that are still running."""

    def status(self) -> str:
        """Describe the workers that have not finished, or return ""."""


def parts(items: list[list[str]], attempt: int, slots: int, largest: int) -> list[list[list[str]]]:
    """Divide items among `slots` workers; after failures the parts become smaller, down to one item each.

    A submission that crashes its worker is therefore finally graded alone and does not affect others.
    """
    size = max(1, min(largest, -(-len(items) // slots)))
    size = {1: size, 2: max(1, size // 4)}.get(attempt, 1)
    return [items[i : i + size] for i in range(0, len(items), size)]


class Dispatch:
    """A folder with plan.json. `backend` (see on_this_machine, on_slurm) runs its parts."""

    def __init__(self, folder: Path, plan: Plan, backend: Backend):
        self.folder, self.plan, self.backend = folder, plan, backend
        self.open = [{(student, key) for student, key in part} for part in plan["parts"]]
        self.empty = 0.0  # time when the last item was settled
        self.gone: dict[int, float] = {}  # {part: when it was first seen to have ended}

    @classmethod
    def send(
        cls,
        where: grading_folder.GradingFolder,
        backend: Backend,
        groups: Iterable[tuple[int, list[list[str]]]],
        engine: str,
        limits: dict[str, float] | None,
    ) -> Dispatch:
        """Write a plan for `groups`, [(attempt, items)], and start it as a Dispatch. Raises CourseError."""
        backend.fit()
        number = uuid.uuid4().hex[:12]
        folder = where.dispatches / number
        folder.mkdir(mode=0o700)
        divided = [
            (n, part) for n, items in groups for part in parts(items, n, backend.slots, backend.largest)
        ]
        plan: Plan = {
            "job": f"grade-{where.folder.name[:30]}-{number}",
            "kind": backend.kind,
            "sent": time.time(),
            "parts": [part for _, part in divided],
            "attempts": [n for n, _ in divided],
            "workers": backend.workers,
            "engine": engine,
            "limits": limits,
        }
        grading_folder.write(folder / "plan.json", json.dumps(plan))
        dispatch = cls(folder, plan, backend)
        try:
            backend.start(dispatch)
        except CourseError:
            (folder / "plan.json").unlink(missing_ok=True)  # no part of it has run
            dispatch.close(where)
            raise
        return dispatch

    def settle(self, item: grading_folder.Item) -> None:
        """Mark an item as finished in this dispatch."""
        for part in self.open:
            part.discard(item)

    def lost(self) -> dict[grading_folder.Item, str]:
        """Return {item: why} for items without a verdict whose part has ended. Read the verdicts first."""
        reasons: dict[grading_folder.Item, str] = {}
        running = self.backend.running(self)
        if running is None:  # Slurm did not answer
            return {}
        for number, part in enumerate(self.open):
            if not part or number in running:
                continue
            if number not in self.gone:  # a verdict may have been written since the verdicts were read
                self.gone[number] = time.monotonic()
                continue
            reported = (self.folder / f"ended-{number}.json").exists()
            if reported or time.monotonic() - self.gone[number] > self.backend.settle:
                reasons |= dict.fromkeys(part, self.why(number))
        for item in reasons:
            self.settle(item)
        return reasons

    def why(self, number: int) -> str:
        """Return the last output of a part's worker."""
        try:
            lines = (self.folder / f"part-{number}.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1][:300] if lines else "its worker ended without output"

    def steps(self) -> list[dict[str, Any]]:
        """Return the last steps that its workers reported for submissions without a verdict."""
        students = {student for part in self.open for student, _ in part}
        steps = [grading_folder.load(path) for path in self.folder.glob("now-*.json")]
        return [facts for facts in steps if facts and facts["student"] in students]

    def through(self) -> bool:
        """Return whether each item is settled, and each part has reported or has had time to."""
        if any(self.open):
            return False
        self.empty = self.empty or time.monotonic()
        reports = len(list(self.folder.glob("ended-*.json")))
        return reports == len(self.open) or time.monotonic() - self.empty > LAST_WORD

    def close(self, where: grading_folder.GradingFolder) -> None:
        """Remove the plan, so that late workers stop, and write the time used by the parts to the journal."""
        reports = [
            facts for path in sorted(self.folder.glob("ended-*.json")) if (facts := grading_folder.load(path))
        ]
        for facts in reports:
            where.journal(facts | {"kind": self.plan["kind"]})
        if (self.folder / "plan.json").exists():
            about = {"job": self.plan["job"], "kind": self.plan["kind"], "sent": self.plan["sent"]}
            where.journal(about | {"parts": len(self.open), "told": len(reports)})
        (self.folder / "plan.json").unlink(missing_ok=True)
        self.backend.end(self)
        shutil.rmtree(self.folder, ignore_errors=True)
