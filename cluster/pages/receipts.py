"""Receipts of submissions for students: the time of receipt by the course's server, and each file's hash.

nbgrader keeps a copy of each submission in its user's cache. `submit` adds the data from the exchange.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.system.text import printable

NAME = "receipt.json"
NOT_WORK = {NAME, "timestamp.txt", "submission_secret.txt"}
COURSE_FULL = "The course's disk is full"  # reported by `nbgrader_submit`
STAMP = re.compile(r"\+(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)? UTC$")


@dataclass
class HandIn:
    """A submission. at: timezone-aware time of receipt. exact: it is the exchange's time, not nbgrader's."""

    folder: Path
    at: datetime.datetime
    exact: bool

    @property
    def key(self) -> str:
        """The name of the submission, unique within its assignment."""
        return self.folder.name.rpartition("+")[2]


def hand_ins(cache: Path, assignment: str) -> list[HandIn]:
    """Return all submissions of an assignment, oldest first."""
    submissions = [hand_in(folder) for folder in cache.glob(f"*/*+{assignment}+*")]
    return sorted((item for item in submissions if item), key=lambda one: one.at)


def hand_in(folder: Path) -> HandIn | None:
    """Return the submission in a folder, or None if it is not one of nbgrader's."""
    claimed = stamped(folder.name)
    facts = json_or_empty(folder / NAME)
    seen = moment(facts.get("received")) if isinstance(facts, dict) else None
    return HandIn(folder, seen or claimed, bool(seen)) if claimed else None


def files(one: HandIn) -> list[tuple[str, int, str]]:
    """Return (name, bytes, SHA-256) of each submitted file, notebooks first."""
    facts = json_or_empty(one.folder / NAME)
    listed = facts["files"] if one.exact else facts_of(one.folder)["files"]
    rows = [(printable(name), int(size), str(digest)) for name, (size, digest) in listed.items()]
    return sorted(rows, key=lambda row: (not row[0].endswith(".ipynb"), row[0]))


def facts_of(folder: Path) -> dict[str, Any]:
    """Return {received, files: {name: (bytes, SHA-256)}} of a folder in its current state. received: the file
    system's time of the last change, which `grade collect` uses, too. Users cannot set that time."""
    inside = [path for path in sorted(folder.rglob("*")) if not path.is_symlink()]
    last = max(path.lstat().st_ctime for path in [folder, *inside])
    work = [path for path in inside if path.is_file() and path.name not in NOT_WORK]
    return {
        "received": datetime.datetime.fromtimestamp(last, datetime.UTC).isoformat(),
        "files": {p.relative_to(folder).as_posix(): (p.stat().st_size, digest(p)) for p in work},
    }


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def moment(text: Any) -> datetime.datetime | None:
    """Return an ISO date with its zone; None for anything else."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None


def stamped(name: str) -> datetime.datetime | None:
    """Return the UTC time in nbgrader's folder name 'user+assignment+2026-11-21 20:04:10.123 UTC'."""
    match = STAMP.search(name)
    return moment(f"{match[1]}+00:00") if match else None


def json_or_empty(path: Path) -> Any:
    """Return the JSON of a file, or {} if it is missing or unreadable."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
