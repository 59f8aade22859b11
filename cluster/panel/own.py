"""The folder that the course and one user share: <people>/<user>/, which nobody else can enter.

notice.json comes from the course: until when, what it has received. progress.json goes to the course, where
it has asked for that: how many cells of each assignment are filled, and nothing else.
"""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

from .receipts import load

NOTICE, PROGRESS = "notice.json", "progress.json"


def folder(people: str) -> Path | None:
    """The folder of the user whom this process runs as, None where the course has none."""
    return Path(people, user()) if people else None


def user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def person() -> str:
    """The user with the name that the machine knows: 'Ada Example (ada)'."""
    name = pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0].strip()
    return f"{name} ({user()})" if name and name != user() else user()


def notice(own: Path | None) -> dict[str, dict[str, Any]]:
    """{assignment: what the course says of it to this user}."""
    found = load(own / NOTICE) if own else {}
    known = found.items() if isinstance(found, dict) else ()
    return {name: said for name, said in known if isinstance(said, dict)}


def tell(own: Path | None, assignments: list) -> None:
    """Write the progress of assignments that are here, where it has changed; who cannot is not disturbed."""
    now = {one.name: [one.filled, one.cells] for one in assignments if one.path}
    if own is None or load(own / PROGRESS) == now:
        return
    beside = own / f".{PROGRESS}.{os.getpid()}"
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "w") as f:
            os.fchmod(f.fileno(), 0o640)
            json.dump(now, f)
        beside.replace(own / PROGRESS)
    except OSError:
        beside.unlink(missing_ok=True)
