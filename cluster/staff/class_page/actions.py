"""Actions of the buttons: each runs one `grade` command in a separate process whose output goes to a log.

    .grading/actions/<assignment>/action.json    what was begun, by whom, when
                                  log, exit      what it printed; its exit status, once it has ended
                                  lock           held by the command as long as it lives

An action therefore outlives the page and the server, and an assignment has one action at a time.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cluster.system import files
from cluster.system.errors import ClusterError

from ..grading import grading_progress
from ..submissions import grading_folder

TAIL = 30_000  # number of bytes shown from the end of a log
COUNTED = re.compile(r"\b(\d+)/(\d+) \[")  # (done, total) in a line written by Progress
# $0 is the file of the exit status, "$@" the command; both hold the lock.
RUN = 's=0; "$@" || s=$?; echo $s > "$0.new" && mv "$0.new" "$0"'


class ActionError(ClusterError):
    """An action cannot start. status: HTTP's 400 for an invalid form, 409 while another action is running."""

    def __init__(self, what: str, status: int = 400):
        super().__init__(what)
        self.status = status


@dataclass
class Action:
    """The last action of an assignment. status: None while it runs, -1 if it was killed. ended: its end time;
    None while it is running, or if unknown."""

    name: str
    by: str
    began: float
    status: int | None
    log: str
    ended: float | None = None
    stopped_by: str = ""  # the user who asked for the stop

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        return self.status is None

    @property
    def took(self) -> str:
        """Return how long it has been running, or ran: '3 min 20 s', or "" if unknown."""
        end = time.time() if self.running else self.ended
        if end is None:
            return ""
        return duration(end - self.began)

    @property
    def progress(self) -> tuple[int, int] | None:
        """(done, total) from the last log line with such numbers, or None if there is none."""
        counts = COUNTED.findall(self.log)
        done, total = map(int, counts[-1]) if counts else (0, 0)
        return (done, total) if 0 <= done <= total and total else None


class Actions:
    """The actions of the course at `root`. Not thread-safe."""

    def __init__(self, root: Path):
        self.root, self.folder = root, root / ".grading" / "actions"
        self._children: list[subprocess.Popen] = []
        self._seen: set[str] = set()  # assignments with an action that was seen running

    def start(self, assignment: str, name: str, words: list[str], by: str) -> None:
        """Start `python -m cluster grade WORDS`. Raises ActionError."""
        folder = self.folder / assignment
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock(folder) as lock:
            if lock is None:
                last = self.last(assignment)
                name = last.name if last else "An action"
                raise ActionError(f"{name} is still running; wait until it has ended.", status=409)
            (folder / "exit").unlink(missing_ok=True)
            begun = {"name": name, "by": by, "began": time.time()}
            files.write_json(folder / "action.json", begun, mode=0o600)
            command = [sys.executable, "-P", "-m", "cluster", "grade", *words]
            with open(folder / "log", "wb", opener=lambda p, f: os.open(p, f, 0o600)) as log:
                child = subprocess.Popen(
                    ["/bin/sh", "-c", RUN, str(folder / "exit"), *command], cwd=self.root, env=environment(),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    pass_fds=(lock.fileno(),),
                )  # fmt: skip
            self._children.append(child)

    def last(self, assignment: str) -> Action | None:
        """Return the newest action of an assignment, or None."""
        self._children = [child for child in self._children if child.poll() is None]
        folder = self.folder / assignment
        if not (begun := grading_folder.load(folder / "action.json")):
            return None
        with self._lock(folder) as lock:
            status = None if lock is None else grading_folder.load(folder / "exit")
            ended = -1 if status is None and lock is not None else status
        if ended is None:
            self._seen.add(assignment)
        over = (folder / "exit").stat().st_mtime if status is not None else None
        about = begun["name"], begun["by"], begun["began"], ended
        return Action(*about, tail(folder / "log"), over, begun.get("stopped_by", ""))

    def stop(self, assignment: str, by: str) -> None:
        """Ask an assignment's grading to stop, even one started in a terminal. Raises ActionError."""
        if not grading_progress.stop(self.root / ".grading" / "runs" / assignment / "progress.json"):
            raise ActionError("There is nothing to stop: no submission is being graded.", status=409)
        folder = self.folder / assignment
        if not (begun := grading_folder.load(folder / "action.json")):  # it was started in a terminal
            return
        with self._lock(folder) as lock:
            if lock is None:
                files.write_json(folder / "action.json", begun | {"stopped_by": by}, mode=0o600)

    def ended(self) -> bool:
        """Return whether an action has ended since the last call, which may outdate cached facts."""
        over = {name for name in self._seen if not ((last := self.last(name)) and last.running)}
        self._seen -= over
        return bool(over)

    def _lock(self, folder: Path) -> contextlib.AbstractContextManager[BinaryIO | None]:
        """Return the lock of an assignment's actions; None if an action holds it."""
        return files.lock_file(folder / "lock", wait=False, mode=0o600)


def duration(seconds: float) -> str:
    """Format seconds as '12 s', '3 min 20 s' or '3 min'."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return " ".join([f"{minutes} min"] * bool(minutes) + [f"{rest} s"] * bool(rest or not minutes))


def environment() -> dict[str, str]:
    """Return this server's environment without its token for the hub."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "CONFIGPROXY"))
    }


def tail(path: Path) -> str:
    """Return the end of a log, in complete lines."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= TAIL else text.partition("\n")[2]
