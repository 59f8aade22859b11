"""The folder shared by the course and one user: <people>/<user>/, closed to all others.

The course writes notice.json, which includes the time until which submissions were received. progress.json is
for the course, if it uses it, and contains only how many cells of each assignment are filled in.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path
from typing import Any

from cluster.system import files

from .receipts import json_or_empty

NOTICE, PROGRESS = "notice.json", "progress.json"


def folder(people: str) -> Path | None:
    """Return the folder shared with this process's user, or None if the course does not use such folders."""
    return Path(people, user()) if people else None


def user() -> str:
    """Return the name of this process's Unix user."""
    return pwd.getpwuid(os.getuid()).pw_name


def person() -> str:
    """Return this process's user with the full name, if known: 'Ada Example (ada)'."""
    name = pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0].strip()
    return f"{name} ({user()})" if name and name != user() else user()


def read_notice(own: Path | None) -> dict[str, dict[str, Any]]:
    """Return {assignment: the course's notice to this user}."""
    notice = json_or_empty(own / NOTICE) if own else {}
    known = notice.items() if isinstance(notice, dict) else ()
    return {name: facts for name, facts in known if isinstance(facts, dict)}


def write_progress(own: Path | None, assignments: list) -> None:
    """Write the progress of the given assignments if it has changed, unless the folder is not writable."""
    now = {item.name: [item.filled, item.cells] for item in assignments if item.path}
    if own is None or json_or_empty(own / PROGRESS) == now:
        return
    with contextlib.suppress(OSError):
        files.write_json(own / PROGRESS, now, mode=0o640)
