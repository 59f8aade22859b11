"""Students' regrade requests: copied into the course, shown to graders, and answered.

    .grading/requests/<student>.json    {key: {"reason", "at"}}, with "answer", "by", "answered" once answered

A request is copied here when a class page first sees it. From then on the student cannot change it, and
backups contain it. `cluster.pages.regrade_form` describes the files shared by course and student.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.pages.regrade_form import ANSWERS, LONGEST, REQUESTS
from cluster.system import files

from ..submissions import notices
from .actions import ActionError
from .sheets import students_file

LARGEST = 2**20  # maximum bytes of a student's file
MOST = 20  # open requests per student; further ones are accepted after these are answered
NAMES = 300  # maximum characters of a key


@dataclass
class Request:
    """A request as the class page shows it. at, answered: Unix seconds."""

    student: str
    key: str
    reason: str
    at: float
    answer: str = ""
    by: str = ""
    answered: float = 0.0

    @property
    def assignment(self) -> str:
        """The assignment's name."""
        return self.key.split("+", 2)[0]

    @property
    def check(self) -> str:
        """The name of the check or written answer."""
        return self.key.split("+", 2)[2]


class Requests:
    """The requests of the course at `root`. people: the folder of the students' folders, or None."""

    def __init__(self, root: Path, people: Path | None):
        self.folder, self.people = root / ".grading" / "requests", people

    def take(self, students: Iterable[str]) -> None:
        """Copy the new requests of these students into the course."""
        if self.people is None:
            return
        for student in students:
            given = students_file(self.people / student / REQUESTS, student, LARGEST)
            if not isinstance(given, dict):
                continue
            kept = self._kept(student)
            new = {key: fitting(key, one) for key, one in given.items() if key not in kept}
            room = MOST - sum("answer" not in item for item in kept.values())
            taken = [(key, one) for key, one in new.items() if one][: max(0, room)]
            if taken:
                self._keep(student, kept | dict(taken))

    def all(self) -> list[Request]:
        """Return all copied requests, open ones first, then the newest first."""
        result = [
            Request(path.stem, key, **one)
            for path in sorted(self.folder.glob("*.json"))
            for key, one in self._kept(path.stem).items()
        ]
        return sorted(result, key=lambda one: (bool(one.answer), -one.at))

    def answer(self, student: str, key: str, text: str, by: str) -> None:
        """Answer a request, first in the course, then in the student's file. Raises ActionError."""
        kept, text = self._kept(student), text.strip().replace("\r\n", "\n")
        if key not in kept:
            raise ActionError(f"{student} has not made this request.", status=404)
        if known := kept[key].get("answer"):
            raise ActionError(f"{kept[key]['by']} has answered it already: {known}", status=409)
        if not text or len(text) > LONGEST:
            raise ActionError(f"Write an answer of at most {LONGEST:,} characters; yours has {len(text):,}.")
        kept[key] |= {"answer": text, "by": by, "answered": time.time()}
        self._keep(student, kept)
        self.deliver(student)

    def deliver(self, student: str) -> None:
        """Write the answers for a student to the file that the student reads. Raises ActionError."""
        if not self.people or not (own := self.people / student).is_dir():
            return
        answers = {
            key: {"answer": one["answer"], "by": one["by"], "at": one["answered"]}
            for key, one in self._kept(student).items()
            if "answer" in one
        }
        try:
            notices.put(own, json.dumps(answers), ANSWERS)
        except OSError as error:
            raise ActionError(
                f"The answer is saved, but {student} cannot read it yet: {own} could not be written"
                f" ({error.strerror}). The server tries again when it is restarted.",
                status=500,
            ) from None

    def deliver_all(self) -> None:
        """Write all students' answers again, for example after a restore."""
        for path in self.folder.glob("*.json"):
            self.deliver(path.stem)

    def _kept(self, student: str) -> dict[str, dict[str, Any]]:
        return files.read_json(self.folder / f"{student}.json") or {}

    def _keep(self, student: str, requests: dict[str, dict[str, Any]]) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write_json(self.folder / f"{student}.json", requests, mode=0o600, sync=True)


def fitting(key: str, one: Any) -> dict[str, Any] | None:
    """Return the valid parts of a student's entry, or None if it is not a valid request."""
    reason = one.get("reason") if isinstance(one, dict) else None
    if not isinstance(reason, str) or not 0 < len(reason) <= LONGEST:
        return None
    if key.count("+") < 2 or len(key) > NAMES or not key.isprintable():
        return None
    at, now = one.get("at"), time.time()
    return {"reason": reason, "at": at if isinstance(at, float) and 0 < at < now else now}
