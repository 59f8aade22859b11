"""Control groups of one sandbox, which limit the memory and number of all its processes together."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..verdict import Limits

CGROUPS = Path("/sys/fs/cgroup")


class Group:
    """The folders of one control group, one per hierarchy; without any, its methods have no effect."""

    def __init__(self, folders: list[Path]):
        self.folders = folders

    @classmethod
    def make(cls, limits: Limits) -> Group:
        """Create a group if this process may: as root, or in a delegated part of the tree.

        Otherwise the group is empty, and only the limits per process apply.
        """
        name = f"grading-{os.getpid()}-{time.monotonic_ns()}"
        new = {"memory.max": limits.memory + 2 * limits.disk, "pids.max": limits.processes}
        old = {"memory.limit_in_bytes": new["memory.max"], "pids.max": limits.processes}
        unified = (CGROUPS / "cgroup.controllers").exists()
        wanted = {CGROUPS: new} if unified else {CGROUPS / "pids": old, CGROUPS / "memory": old}
        group = cls([])
        for parent, values in wanted.items():
            if not os.access(parent, os.W_OK):
                continue
            folder = parent / name
            try:
                folder.mkdir()
                group.folders.append(folder)
                for file, value in values.items():
                    if (folder / file).exists():
                        (folder / file).write_text(str(value))
            except OSError:
                continue
        return group

    def words(self) -> list[str]:
        """Return a command prefix that joins the group and then executes the rest of the command."""
        joins = " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in self.folders)
        return ["/bin/sh", "-c", f'{joins} && exec "$@"', "sh"] if joins else []

    def add(self, pid: int) -> None:
        """Move a process, which must not have children yet, into the group. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Return whether the kernel killed a process of this group for lack of memory."""
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
        """Wait until the last process has ended, then remove the folders."""
        end = time.monotonic() + 10
        for folder in self.folders:
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > end:
                        break
                    time.sleep(0.01)
