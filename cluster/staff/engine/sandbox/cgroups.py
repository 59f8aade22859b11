"""Control groups of one sandbox: memory and processes of all that runs in it together."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..verdict import Limits

CGROUPS = Path("/sys/fs/cgroup")


class Group:
    """The folders of one group, one for each hierarchy; without any it does nothing."""

    def __init__(self, folders: list[Path]):
        self.folders = folders

    @classmethod
    def make(cls, limits: Limits) -> Group:
        """A group where this process may make one: as root, or where it was given a part of the tree.

        Elsewhere it is empty, and only the limits of each process hold.
        """
        name = f"grading-{os.getpid()}-{time.monotonic_ns()}"
        new = {"memory.max": limits.memory + 2 * limits.disk, "pids.max": limits.processes}
        old = {"memory.limit_in_bytes": new["memory.max"], "pids.max": limits.processes}
        unified = (CGROUPS / "cgroup.controllers").exists()
        wanted = {CGROUPS: new} if unified else {CGROUPS / "pids": old, CGROUPS / "memory": old}
        made = cls([])
        for parent, values in wanted.items():
            if not os.access(parent, os.W_OK):
                continue
            folder = parent / name
            try:
                folder.mkdir()
                made.folders.append(folder)
                for file, value in values.items():
                    if (folder / file).exists():
                        (folder / file).write_text(str(value))
            except OSError:
                continue
        return made

    def words(self) -> list[str]:
        """The beginning of a command that joins the group and becomes the rest of the command."""
        joins = " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in self.folders)
        return ["/bin/sh", "-c", f'{joins} && exec "$@"', "sh"] if joins else []

    def add(self, pid: int) -> None:
        """Put a process, which has no children yet, into the group. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Did the kernel end a process of this group because its memory was used up?"""
        for folder in self.folders:
            for file in ("memory.events", "memory.oom_control"):
                try:
                    events = dict(line.split() for line in (folder / file).read_text().splitlines())
                except (OSError, ValueError):
                    continue
                if int(events.get("oom_kill", 0)):
                    return True
        return False

    def remove(self) -> None:
        """Wait until the last process has gone, then remove the folders."""
        end = time.monotonic() + 10
        for folder in self.folders:
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > end:
                        break
                    time.sleep(0.01)
