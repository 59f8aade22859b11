"""The course's copy of the roster, people.json: the participants as of the hub's last sync.

A course without a hub has no such file, and all students in the gradebook are participants.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..course import Course
from . import grading_folder

if TYPE_CHECKING:
    from ..platforms import Entry

NAME = "people.json"


@dataclass(frozen=True)
class Member:
    """A person in the roster. platform: login on the learning platform, or "" if it is the same. section: a
    student's part of the class, or the part that a grader grades first; "" for none."""

    user: str
    role: str = "student"
    platform: str = ""
    section: str = ""
    first: str = ""
    last: str = ""


def write(course: Course, people: Iterable[dict[str, Any]]) -> None:
    """Write these people to the file; each has the keys of Member, and others are ignored."""
    keys = Member.__dataclass_fields__
    rows = [asdict(Member(**{key: item[key] for key in keys if key in item})) for item in people]
    grading_folder.write(course.private / NAME, json.dumps(rows, indent=1))


def read(course: Course) -> dict[str, Member] | None:
    """Return {user: Member}, or None if the course has no roster."""
    rows = grading_folder.load(course.private / NAME)
    return None if rows is None else {row["user"]: Member(**row) for row in rows}


def user_of(entry: Entry, people: dict[str, Member] | None) -> str:
    """Return the user for a row of the platform's table, by the roster's column `platform` or the login."""
    called = {item.platform.casefold(): item.user for item in (people or {}).values() if item.platform}
    return called.get(entry.login.casefold(), entry.user)
