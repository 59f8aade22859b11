"""Limits on the number of a student's official checks, and the record of all attempts.

    <checks>/default.json               the hub's limits, written when the service starts
    <checks>/<assignment>/limits.json   those that an instructor has set for this assignment
    <checks>/<assignment>/students/<student>.json   {tries: [{at, points, of}], answer, answered, key}

An attempt is recorded before it starts, and is never refunded. Otherwise a submission that crashes the
service, or overloads the machine, would be a free query.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from cluster.system import files
from cluster.system.errors import ClusterError

HOUR = 3600.0
MOST = 10_000  # maximum number of attempts that an instructor can allow


class Refused(ClusterError):
    """No attempt is available; the message says why."""


@dataclass(frozen=True)
class Limits:
    """Limits per student and assignment: attempts in any 60 minutes (0 means no checks), and in total."""

    an_hour: int = 3
    in_all: int = 30

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if type(value) is not int or not 0 <= value <= MOST:
                raise ValueError(f"{name} = {value!r}: must be a whole number from 0 to {MOST}")

    def left(self, tries: Sequence[float], now: float) -> int:
        """Return how many attempts are available now. tries: the times of past attempts, in seconds."""
        lately = sum(now - at < HOUR for at in tries)
        return max(0, min(self.an_hour - lately, self.in_all - len(tries)))

    def opens(self, tries: Sequence[float], now: float) -> float | None:
        """Return when the next attempt is available: `now` if one is, None if none will be."""
        if self.left(tries, now):
            return now
        if not self.an_hour or len(tries) >= self.in_all:
            return None
        return sorted(tries)[-self.an_hour] + HOUR


class Records:
    """An assignment's limits and attempts, in a folder of the grader, for any number of processes."""

    def __init__(self, checks: Path, assignment: str):
        self.checks, self.folder = checks, checks / assignment
        self.students = self.folder / "students"
        self.assignment = assignment

    @property
    def limits(self) -> Limits:
        """The limits of the assignment, or else the hub's, or else the course's own."""
        for path in (self.folder / "limits.json", self.checks / "default.json"):
            with contextlib.suppress(TypeError, ValueError):
                return Limits(**files.read_json(path))
        return Limits()

    def set_limits(self, limits: Limits) -> None:
        """Set the limits of this assignment."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write_json(self.folder / "limits.json", dataclasses.asdict(limits), mode=0o600)

    def of(self, student: str) -> dict[str, Any]:
        """Return a student's record: attempts, and the last answer if there is one."""
        data = files.read_json(self._path(student))
        return data if isinstance(data, dict) and isinstance(data.get("tries"), list) else {"tries": []}

    def standing(self, student: str, now: float) -> dict[str, Any]:
        """Return {an_hour, in_all, left, opens, answer, answered}, which the student's page shows."""
        limits, record = self.limits, self.of(student)
        tries = [attempt["at"] for attempt in record["tries"]]
        about = dataclasses.asdict(limits) | {"left": limits.left(tries, now)}
        about |= {"opens": limits.opens(tries, now), "tried": len(tries)}
        return about | {name: record.get(name) for name in ("answer", "answered")}

    def begin(self, student: str, now: float) -> None:
        """Record an attempt at the time of the student's request, because the time of its start would reveal
        when the previous one ended. Raises Refused if none is available."""
        with self._held(student):
            record, limits = self.of(student), self.limits
            tries = [attempt["at"] for attempt in record["tries"]]
            if not limits.left(tries, now):
                raise Refused(refusal(limits, limits.opens(tries, now)))
            record["tries"].append({"at": now})
            self._write(student, record)

    def end(self, student: str, key: str, answer: dict[str, Any], now: float) -> None:
        """Record the last answer. key: the submission's, to avoid grading it twice. now: when it is
        shown, not when it is ready, because the student's code influences the time of hidden tests."""
        with self._held(student):
            record = self.of(student)
            if record["tries"]:
                record["tries"][-1] |= {"points": answer["points"], "of": answer["of"]}
            self._write(student, record | {"answer": answer, "answered": now, "key": key})

    def all(self) -> dict[str, list[dict[str, Any]]]:
        """Return {student: attempts} for the class."""
        there = sorted(self.students.glob("*.json"))
        return {unquote(path.stem): self.of(unquote(path.stem))["tries"] for path in there}

    def _path(self, student: str) -> Path:
        return self.students / f"{quote(student, safe='')}.json"

    @contextlib.contextmanager
    def _held(self, student: str) -> Iterator[None]:
        self.students.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.lock(self._path(student).with_suffix(".lock")):
            yield

    def _write(self, student: str, record: dict[str, Any]) -> None:
        files.write_json(self._path(student), record, mode=0o600, sync=True)


def refusal(limits: Limits, opens: float | None) -> str:
    """Explain why no attempt is available."""
    if not limits.an_hour or not limits.in_all:
        return "Your instructor has switched off the official check of this assignment."
    if opens is None:
        return f"You have used all {limits.in_all} checks of this assignment. Submit when you are ready."
    return f"{limits.an_hour} check{'s' * (limits.an_hour != 1)} per hour; all are used."


def curve(
    tries: dict[str, list[dict[str, Any]]],
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return ([(hours, attempts)], [(hours, %)]) since the first attempt of a class: the number of attempts
    so far, and the median over their authors of the best fraction of the points so far."""
    done = [(item, student) for student, own in tries.items() for item in own]
    done.sort(key=lambda pair: pair[0]["at"])
    best: dict[str, float] = {}
    counted, shares = [], []
    for n, (one, student) in enumerate(done, 1):
        hours = (one["at"] - done[0][0]["at"]) / HOUR
        counted.append((hours, float(n)))
        if one.get("of"):
            best[student] = max(best.get(student, 0.0), one["points"] / one["of"])
            shares.append((hours, 100 * statistics.median(best.values())))
    return counted, shares
