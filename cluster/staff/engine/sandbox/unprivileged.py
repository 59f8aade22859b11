"""The users of the sandboxes: never root, and each sandbox another one if this account has a range of users.

If the autograder runs as root, the range is FIRST…, and the fork server runs as `nobody`. For another
account, newuidmap maps the range in /etc/subuid and /etc/subgid.
"""

from __future__ import annotations

import functools
import getpass
import os
import random
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from .namespaces import STUDENT

NOBODY = 65534
FIRST = 0x70000000  # systemd reserves smaller numbers for containers, and none from here to 2**31
LEAST, MOST = 1000, 60_000  # users of a range, 1… in the fork server, which itself is STUDENT there
RANGES = ("/etc/subuid", "/etc/subgid")
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


def become(user: int = NOBODY) -> list[str]:
    """Return a command prefix that runs the rest as a user, permanently."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]


def words(folder: Path, user: int = NOBODY) -> tuple[list[str], dict[str, str]]:
    """Return (command prefix, {path inside: path to mount}) for a sandbox created by this process.

    As root, Python's folders are first mounted below `folder`, in a separate mount namespace, because
    `user` may not have access to their location, such as /root.
    """
    if not droppable():
        return [], {path: path for path in prefixes()}
    targets = {path: str(folder / f"python-{i}") for i, path in enumerate(prefixes())}
    mounts = [f"mount --bind {shlex.quote(path)} {shlex.quote(target)}" for path, target in targets.items()]
    script = " && ".join([*mounts, 'exec "$@"'])
    start = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh"]
    return [*start, *become(user)], targets


def hand_over(folder: Path) -> None:
    """Let the users of the sandboxes read a folder and its contents; as root, change the owner."""
    for here, _, names in os.walk(folder):
        for path in (here, *(os.path.join(here, name) for name in names)):
            os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)
            if droppable():
                os.chown(path, NOBODY, NOBODY)


class Users:
    """The range of users of an Engine's sandboxes. Each `take` returns a number that no running one has."""

    def __init__(self) -> None:
        self.lock, self.taken = threading.Lock(), set[int]()

    def take(self) -> int | None:
        """Return a user's place in the range, 1…, or None if all sandboxes have one user.

        It is random, since other engines on this machine take users from the same range.
        """
        if shared():
            return None
        count = min(count for _, count in ranges())
        with self.lock:
            while (place := random.randint(1, count)) in self.taken:
                pass
            self.taken.add(place)
            return place

    def free(self, place: int | None) -> None:
        with self.lock:
            self.taken -= {place}


def host(place: int | None) -> int:
    """Return the host's number of a user, for a sandbox that root starts."""
    return NOBODY if place is None else FIRST + place - 1


def ranges() -> list[tuple[int, int]]:
    """Return the (first, count) of this account's range of users and of groups. Raises LookupError."""
    if os.getuid() == 0:
        return [(FIRST, MOST)] * 2
    names = {getpass.getuser(), str(os.getuid())}
    found = []
    for file in RANGES:
        try:
            rows = [line.split(":") for line in Path(file).read_text().splitlines() if line.count(":") == 2]
        except OSError:
            rows = []
        own = [(int(first), min(int(count), MOST)) for name, first, count in rows if name in names]
        if not (own := [each for each in own if each[1] >= LEAST]):
            raise LookupError(f"{getpass.getuser()} has no range of {LEAST} numbers in {file} (man usermod)")
        found.append(own[0])
    return found


def give_range(pid: int) -> None:
    """Map the ranges into the user namespace of a process, and STUDENT to its own user. Raises OSError."""
    about = os.stat(f"/proc/{pid}")
    for kind, own, (first, count) in zip("ug", (about.st_uid, about.st_gid), ranges(), strict=True):
        lines = (STUDENT, own, 1), (1, first, count)
        if os.getuid() == 0:
            Path(f"/proc/{pid}/{kind}id_map").write_text(
                "".join("{} {} {}\n".format(*line) for line in lines)
            )
        else:
            command = [f"new{kind}idmap", str(pid), *(str(number) for line in lines for number in line)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise OSError(done.stderr.strip())


@functools.cache
def shared() -> str:
    """Return why all sandboxes have one user, or ""."""
    if private := [path for path in prefixes() if os.stat(path).st_mode & 5 != 5]:
        return f"other users cannot read Python in {private[0]} (chmod -R go+rX)"
    if os.getuid() != 0 and not shutil.which("newuidmap"):
        return "newuidmap is missing (Debian: apt-get install uidmap)"
    waits = ["unshare", "--user", "sh", "-c", "echo; read _"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as it:
        try:
            if it.stdout and it.stdout.read(1):
                give_range(it.pid)
        except (OSError, LookupError) as error:
            return str(error)
        finally:
            it.kill()
    return ""
