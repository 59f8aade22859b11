"""What the buttons do: each is one `grade` command in a process of its own, whose output goes to a log.

    .grading/actions/<assignment>/action.json    what was begun, by whom, when
                                  log, exit      what it printed; its exit status, once it has ended
                                  lock           held by the command as long as it lives

So an action outlives the page and the server, and an assignment has one action at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.grading import store

TAIL = 30_000  # bytes of a log that are shown
# $0 is the file of the exit status, "$@" the command; both hold the lock.
RUN = 's=0; "$@" || s=$?; echo $s > "$0.new" && mv "$0.new" "$0"'


class Busy(Exception):
    """Another action of the assignment is at work; the message says which."""


@dataclass
class Action:
    """The last action of an assignment. status: None while it runs, -1 where it was killed."""

    name: str
    by: str
    began: float
    status: int | None
    log: str

    @property
    def running(self) -> bool:
        return self.status is None


class Actions:
    """The actions of the course at `root`. Not for several threads at a time."""

    def __init__(self, root: Path):
        self.root, self.folder = root, root / ".grading" / "actions"
        self._children: list[subprocess.Popen] = []
        self._seen: set[str] = set()  # assignments with an action that was seen at work

    def start(self, assignment: str, name: str, words: list[str], by: str) -> None:
        """Begin `python -m cluster grade WORDS`. Raises Busy."""
        place = self.folder / assignment
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held(place) as lock:
            if lock is None:
                raise Busy(f"{self.last(assignment).name} is still at work; wait until it has ended.")
            (place / "exit").unlink(missing_ok=True)
            store.write(place / "action.json", json.dumps({"name": name, "by": by, "began": time.time()}))
            command = [sys.executable, "-P", "-m", "cluster", "grade", *words]
            with open(place / "log", "wb", opener=lambda p, f: os.open(p, f, 0o600)) as log:
                child = subprocess.Popen(
                    ["/bin/sh", "-c", RUN, str(place / "exit"), *command], cwd=self.root, env=environment(),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    pass_fds=(lock,),
                )  # fmt: skip
            self._children.append(child)

    def last(self, assignment: str) -> Action | None:
        """The newest action of an assignment, or None."""
        self._children = [child for child in self._children if child.poll() is None]
        place = self.folder / assignment
        if not (begun := store.load(place / "action.json")):
            return None
        with held(place) as lock:
            status = None if lock is None else store.load(place / "exit")
            ended = -1 if status is None and lock is not None else status
        if ended is None:
            self._seen.add(assignment)
        return Action(begun["name"], begun["by"], begun["began"], ended, tail(place / "log"))

    def ended(self) -> bool:
        """Has an action that was at work ended since this was asked last? Then what was read may be old."""
        over = {name for name in self._seen if not self.last(name).running}
        self._seen -= over
        return bool(over)


@contextlib.contextmanager
def held(place: Path):
    """The lock of an assignment's actions, as a file's number; None where an action holds it."""
    with open(place / "lock", "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file.fileno()


def environment() -> dict[str, str]:
    """This server's, without its key to the hub."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "CONFIGPROXY"))
    }


def tail(path: Path) -> str:
    """The end of a log, in whole lines."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= TAIL else text.partition("\n")[2]
