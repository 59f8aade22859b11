"""Students' code never runs as root: an engine that root starts makes its sandboxes as `nobody`."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

NOBODY = 65534
TOOLS = ("unshare", "setpriv")  # util-linux


def prefixes() -> list[str]:
    """The folders of this Python that do not lie under /usr, also by the names that links lead to."""
    named = sys.prefix, sys.base_prefix
    found = dict.fromkeys((*named, *map(os.path.realpath, named)))
    return [path for path in found if not os.path.realpath(path).startswith("/usr/")]


@functools.cache
def droppable() -> bool:
    """Can this process, which is root, become another user and show it folders that only root reaches?"""
    if os.getuid() != 0 or not all(map(shutil.which, TOOLS)):
        return False
    words = [*become(), "true"]
    mount = ["unshare", "--mount", "--propagation", "private", "mount", "--bind", "/usr", "/mnt"]
    return all(subprocess.run(c, capture_output=True, check=False).returncode == 0 for c in (words, mount))


def become() -> list[str]:
    """The beginning of a command that runs the rest as nobody, for ever."""
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]


def words(folder: Path) -> tuple[list[str], dict[str, str]]:
    """(the beginning of a command, {path inside: path to mount}) for a sandbox made by this process.

    As root the Python's folders are first mounted below `folder`, in a mount namespace of the command's own:
    where they lie, as under /root, nobody may have no access.
    """
    if not droppable():
        return [], {path: path for path in prefixes()}
    shown = {path: str(folder / f"python-{i}") for i, path in enumerate(prefixes())}
    mounts = [f"mount --bind {shlex.quote(path)} {shlex.quote(target)}" for path, target in shown.items()]
    script = " && ".join([*mounts, 'exec "$@"'])
    start = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh"]
    return [*start, *become()], shown


def hand_over(folder: Path) -> None:
    """Give a folder and what is in it to the user that the sandboxes run as."""
    if not droppable():
        return
    for here, _, names in os.walk(folder):
        for path in (here, *(os.path.join(here, name) for name in names)):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
