"""From a process of the fork server to a sandbox of its own: namespaces, private folders, no rights.

Runs inside the outer sandbox, before any line of a student's. Linux only, by way of libc: Python has no names
for these calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

NEW = (
    0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
)  # mount uts ipc user pid net
PART = 0x00020000 | 0x08000000 | 0x40000000  # mount ipc net
NO_SUID, NO_DEV, NO_EXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18  # of mount(2)
DEATH_SIGNAL, NO_NEW_PRIVS, DROP_BOUND = 1, 38, 24  # of prctl(2)
CAPABILITIES = 64
KEYCTL = {"x86_64": 250, "aarch64": 219}
UP = 0x1  # IFF_UP
SET_FLAGS = 0x8914  # SIOCSIFFLAGS
SET_SECCOMP, SECCOMP, FILTER = 22, 22, 2  # of prctl(2)
ALLOW, DENY = 0x7FFF0000, 0x00050001  # of seccomp(2): all is well; EPERM
# By the name of an architecture: its number, and the numbers of seccomp, ptrace, setrlimit, prlimit64, prctl.
CALLS = {
    "x86_64": (0xC000003E, 317, 101, 160, 302, 157),
    "aarch64": (0xC00000B7, 277, 117, 164, 261, 167),
}
libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: int | bytes | ctypes.c_char_p | None) -> None:
    """A function of libc. Raises OSError."""
    if getattr(libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def leave() -> None:
    """Enter new namespaces, the process ids' with the next child. Only in a process of one thread."""
    user, group = os.getuid(), os.getgid()
    call("unshare", NEW)
    for name, text in [
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def enter(disk: int, folders: Iterable[str], rights: bool = False) -> None:
    """In the first process of the new namespaces: folders of its own, no way out, no rights.

    disk: bytes of each of the `folders`, which are empty then. rights: keep those that `part` needs, in a
    process that never runs a line of a student's.
    """
    call("prctl", DEATH_SIGNAL, 9, 0, 0, 0)
    call("mount", None, b"/", None, RECURSIVE | PRIVATE, None)
    empty(disk, folders)
    call("mount", b"proc", b"/proc", b"proc", NO_SUID | NO_DEV | NO_EXEC, None)
    raise_loopback()
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")  # no namespaces inside: most of the kernel's young code is reached through them
    forget_keys()
    os.setsid()
    if not rights:
        drop()


def empty(disk: int, folders: Iterable[str]) -> None:
    """Cover folders by empty ones of `disk` bytes each."""
    for folder in folders:
        options = f"size={disk},mode=0700,nr_inodes={max(1000, disk // 4096)}".encode()
        call("mount", b"tmpfs", folder.encode(), b"tmpfs", NO_SUID | NO_DEV, options)


def part(own: Path, disk: int, folders: Iterable[str]) -> None:
    """Share no network, no files and no objects in memory with other ranks; see no other process.

    own: the folder in one of `folders` that this process keeps. Raises PermissionError without the right.
    """
    call("unshare", PART)
    here = os.open(own, os.O_PATH | os.O_DIRECTORY)
    empty(disk, folders)
    os.makedirs(own)
    call("mount", f"/proc/self/fd/{here}".encode(), os.fsencode(own), None, BIND, None)
    os.close(here)
    with contextlib.suppress(OSError):  # Linux before 5.8
        call("mount", b"proc", b"/proc", b"proc", NO_SUID | NO_DEV | NO_EXEC, b"hidepid=ptraceable")
    raise_loopback()


def raise_loopback() -> None:
    """127.0.0.1, the only address there is, for ranks that have to meet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))


def forget_keys() -> None:
    """A session keyring of its own: the one that a fork inherits is shared."""
    number = KEYCTL.get(os.uname().machine)
    if number:
        libc.syscall(number, 1, None)


def drop() -> None:
    """Give up every capability, for ever."""
    for capability in range(CAPABILITIES):
        libc.prctl(DROP_BOUND, capability, 0, 0, 0)  # fails beyond the last that this kernel has
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    call("capset", header, none)
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)


def deny_own_kill() -> None:
    """Deny this process and its children the calls by which they could have the kernel kill it.

    These are strict seccomp, a limit of CPU time that it sets for itself, and a tracer that kills on exit.
    A SIGKILL of a sandbox's first process is then never its own doing. Architectures that CALLS lacks have
    no such filter.
    """
    if os.uname().machine not in CALLS:
        return
    machine, seccomp, ptrace, setrlimit, prlimit, prctl = CALLS[os.uname().machine]
    number, arch, first, second, third = 0, 4, 16, 24, 32  # offsets in the kernel's struct seccomp_data
    load, equal, above, end = 0x20, 0x15, 0x35, 0x06
    rules = [
        (load, 0, 0, arch), (equal, 1, 0, machine), (end, 0, 0, DENY),
        (load, 0, 0, number), (above, 0, 1, 0x40000000), (end, 0, 0, DENY),  # x32
        *((equal, 0, 1, seccomp), (end, 0, 0, DENY)),
        *((equal, 0, 1, ptrace), (end, 0, 0, DENY)),
        *((equal, 0, 4, setrlimit), (load, 0, 0, first), (equal, 0, 1, resource.RLIMIT_CPU)),
        *((end, 0, 0, DENY), (end, 0, 0, ALLOW)),
        *((equal, 0, 8, prlimit), (load, 0, 0, second), (equal, 0, 5, resource.RLIMIT_CPU)),
        *((load, 0, 0, third), (equal, 0, 2, 0), (load, 0, 0, third + 4), (equal, 1, 0, 0)),
        *((end, 0, 0, DENY), (end, 0, 0, ALLOW)),
        *((equal, 0, 3, prctl), (load, 0, 0, first), (equal, 0, 1, SET_SECCOMP), (end, 0, 0, DENY)),
        (end, 0, 0, ALLOW),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    program = struct.pack("@HP", len(rules), ctypes.addressof(code))
    call("prctl", SECCOMP, FILTER, ctypes.c_char_p(program), 0, 0)
