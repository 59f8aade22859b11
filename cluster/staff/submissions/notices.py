"""The course's private notice to each student: the due date with an extension, what was received, and
released feedback.

    <folder>/<student>/notice.json    {assignment: {"due", "extended_from", "received", "given_back", "zone"}}

Times are in ISO format, UTC. zone is the time zone of the due date, such as Europe/Berlin; given_back is the
time since when feedback can be fetched.

`c.Notices.folder` names the folder (in nbgrader_site.py; the hub sets it). In it, the site creates one folder
per student, which other users cannot enter. Students without a folder get no notice.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import due_dates, exchange, grading_folder

if TYPE_CHECKING:
    from nbgrader.api import Gradebook

    from ..course import Course

NAME = "notice.json"


def folder(course: Course) -> Path | None:
    """Return the folder with the students' folders, or None if the course has none."""
    named = course.config.get("Notices", {}).get("folder")
    return Path(named) if named else None


def tell(course: Course, book: Gradebook) -> dict[str, str]:
    """Rewrite all students' notices and return {student: reason} for failures."""
    failed: dict[str, str] = {}
    root = folder(course)
    if root is None:
        return failed
    for student, notice in notices(course, book).items():
        if (own := root / student).is_dir():
            try:
                put(own, json.dumps(notice, indent=1) + "\n")
            except OSError as error:
                failed[student] = f"the notice in {own} could not be written: {error.strerror}"
    return failed


def notices(course: Course, book: Gradebook) -> dict[str, dict[str, dict[str, Any]]]:
    """Return {student: notice} for all students in the gradebook."""
    result: dict[str, dict[str, dict[str, Any]]] = {student.id: {} for student in book.students}
    zones = due_dates.zones(course.coursedir)
    for assignment in book.assignments:
        until = due_dates.deadlines(book, course, assignment.name)
        notebooks = [notebook.name for notebook in assignment.notebooks]
        for student, notice in result.items():
            due = until(student)
            facts = {"due": due, "extended_from": assignment.duedate if due != assignment.duedate else None}
            facts = {name: iso(when) for name, when in facts.items() if when}
            if due and (zone := zones.get(assignment.name)):
                facts["zone"] = zone
            if when := received(course, student, assignment.name):
                facts["received"] = when
            if since := exchange.given_back_at(course, student, assignment.name, notebooks):
                facts["given_back"] = since.isoformat()
            if facts:
                notice[assignment.name] = facts
    return result


def received(course: Course, student: str, assignment: str) -> str | None:
    """Return the newest collected submission's arrival time on the server's clock (ISO format), or None."""
    facts = grading_folder.load(course.folder("submitted", student, assignment) / "received.json")
    return facts.get("received") if facts else None


def put(own: Path, text: str, name: str = NAME) -> None:
    """Write a file in a folder that the student can write to, without opening links or existing files."""
    temp = own / f".{name}.{secrets.token_hex(8)}"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            os.fchmod(fd, 0o644)  # the folder itself is closed to others
            file.write(text)
        os.replace(temp, own / name)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink()
        raise


def iso(when: datetime.datetime) -> str:
    """Convert nbgrader's naive UTC time to ISO format."""
    return when.replace(tzinfo=datetime.UTC).isoformat()
