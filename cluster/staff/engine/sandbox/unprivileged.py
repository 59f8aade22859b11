"""Create sandboxes as `nobody` if the autograder runs as root, so student code never runs as root."""

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
    """Return the folders of this Python that are not under /usr, also with links resolved."""
    folders = sys.prefix, sys.base_prefix
    unique = dict.fromkeys((*folders, *map(os.path.realpath, folders)))
    return [path for path in unique if not os.path.realpath(path).startswith("/usr/")]


@functools.cache
def droppable() -> bool:
    """Return whether this process is root, can become another user and can mount folders for that user."""
    if os.getuid() != 0 or not all(map(shutil.which, TOOLS)):
        return False
    switch = [*become(), "true"]
    mount = ["unshare", "--mount", "--propagation", "private", "mount", "--bind", "/usr", "/mnt"]
    return all(subprocess.run(c, capture_output=True, check=False).returncode == 0 for c in (switch, mount))


def become() -> list[str]:
    """Return a command prefix that runs the rest as `nobody`, permanently."""
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]


def words(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return (command prefix, {path inside: path to mount}) for a sandbox created by this process.

    As root, Python's folders are first mounted below `folder`, in a separate mount namespace, because
    `nobody` may not have access to their location, such as /root.
    """
    if not droppable():
        return [], {path: path for path in prefixes()}
    targets = {path: str(folder / f"python-{i}") for i, path in enumerate(prefixes())}
    mounts = [f"mount --bind {shlex.quote(path)} {shlex.quote(target)}" for path, target in targets.items()]
    script = " && ".join([*mounts, 'exec "$@"'])
    start = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh"]
    return [*start, *become()], targets


def hand_over(folder: Path) -> None:
    """Change the owner of a folder and its contents to the user of the sandboxes."""
    if not droppable():
        return
    for here, _, names in os.walk(folder):
        for path in (here, *(os.path.join(here, name) for name in names)):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
