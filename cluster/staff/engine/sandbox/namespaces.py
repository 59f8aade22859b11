"""Turn a process of the fork server into a separate sandbox: namespaces, private folders, no capabilities.

Runs in the outer sandbox before any student code. Linux only, with direct libc calls that Python lacks.
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

WRITABLE = ("/dev/shm", "/tmp", "/submission")  # private folders of each sandbox, initially empty
# flags: mount, uts, ipc, user, pid, net
NEW = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
PART = 0x00020000 | 0x08000000 | 0x40000000  # flags: mount, ipc, net
MOUNTS, PROCESS_IDS = 0x00020000, 0x20000000
NO_SUID, NO_DEV, NO_EXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18  # flags of mount(2)
DEATH_SIGNAL, NO_NEW_PRIVS, DROP_BOUND = 1, 38, 24  # options of prctl(2)
CAPABILITIES = 64
UP = 0x1  # IFF_UP
SET_FLAGS = 0x8914  # SIOCSIFFLAGS
SET_SECCOMP, SECCOMP, FILTER = 22, 22, 2  # PR_SET_SECCOMP, to deny and to use, and its mode
ALLOW, DENY, SKIP = 0x7FFF0000, 0x00050001, 0x00050000  # seccomp(2): run, EPERM, succeed without effect
LOAD, EQUAL, ABOVE, END = 0x20, 0x15, 0x35, 0x06  # instructions of a filter
ARGUMENTS = 16  # offset of a call's arguments in the kernel's struct seccomp_data, eight bytes each
Instruction = tuple[int, int, int, int]  # instruction, jumps if true and if false, value
LOCKS = (6, 7, 37, 38)  # fcntl(2) commands that set a lock; querying is allowed, as none can be set
LEASES = (1024, 1026)  # fcntl(2) commands for leases and watches
FAMILIES = dict.fromkeys((1, 2, 10, 16), ALLOW)  # of socket(2): unix, inet, inet6, netlink
# {architecture: numbers of system calls}
CALLS = {
    "x86_64": {
        "architecture": 0xC000003E, "seccomp": 317, "ptrace": 101, "setrlimit": 160, "prlimit": 302,
        "prctl": 157, "socket": 41, "fcntl": 72, "flock": 73, "add_key": 248, "request_key": 249,
        "keyctl": 250, "inotify_add_watch": 254, "fanotify_init": 300,
    },
    "aarch64": {
        "architecture": 0xC00000B7, "seccomp": 277, "ptrace": 117, "setrlimit": 164, "prlimit": 261,
        "prctl": 167, "socket": 198, "fcntl": 25, "flock": 32, "add_key": 217, "request_key": 218,
        "keyctl": 219, "inotify_add_watch": 27, "fanotify_init": 262,
    },
}  # fmt: skip
libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: int | bytes | ctypes.c_char_p | None) -> None:
    """Call a function of libc. Raises OSError."""
    if getattr(libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def leave() -> None:
    """Enter new namespaces (for process IDs, the next child does). The process must have only one thread."""
    user, group = os.getuid(), os.getgid()
    call("unshare", NEW)
    for name, text in [
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def enter(disk: int, rights: bool = False) -> None:
    """Isolate process 1 of the new namespaces: private folders, no nested namespaces, no capabilities.

    disk: bytes of each of the WRITABLE folders, which become empty.
    rights: keep the capabilities that `part` needs, in a process that never runs student code.
    """
    call("prctl", DEATH_SIGNAL, 9, 0, 0, 0)
    call("mount", None, b"/", None, RECURSIVE | PRIVATE, None)
    empty(disk, WRITABLE)
    call("mount", b"proc", b"/proc", b"proc", NO_SUID | NO_DEV | NO_EXEC, None)
    raise_loopback()
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")  # no nested namespaces, because they expose much more of the kernel's code
    forget_keys()
    os.setsid()
    if not rights:
        drop()


def empty(disk: int, folders: Iterable[str]) -> None:
    """Mount an empty folder of `disk` bytes over each folder."""
    for folder in folders:
        options = f"size={disk},mode=0700,nr_inodes={max(1000, disk // 4096)}".encode()
        call("mount", b"tmpfs", folder.encode(), b"tmpfs", NO_SUID | NO_DEV, options)


def part(own: Path, disk: int) -> None:
    """Stop sharing network, files and objects in memory with other ranks.

    own: the folder in one of the WRITABLE ones that this process keeps. Raises PermissionError.
    """
    call("unshare", PART)
    here = os.open(own, os.O_PATH | os.O_DIRECTORY)
    empty(disk, (*WRITABLE, "/dev/pts"))
    os.makedirs(own)
    call("mount", f"/proc/self/fd/{here}".encode(), os.fsencode(own), None, BIND, None)
    os.close(here)
    with contextlib.suppress(OSError):  # fails before Linux 5.8
        call("mount", b"proc", b"/proc", b"proc", NO_SUID | NO_DEV | NO_EXEC, b"hidepid=ptraceable")
    raise_loopback()


def fork_apart() -> int:
    """Fork a process 1 of a new PID namespace. Raises PermissionError if capabilities are missing."""
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        call("unshare", PROCESS_IDS)
        pid = os.fork()
        if pid:
            call("setns", ours, PROCESS_IDS)
        return pid
    finally:
        os.close(ours)


def raise_loopback() -> None:
    """Enable 127.0.0.1, the only address, through which ranks connect."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))


def forget_keys() -> None:
    """Create a new session keyring, because a fork shares its parent's."""
    if calls := CALLS.get(os.uname().machine):
        libc.syscall(calls["keyctl"], 1, None)


def drop() -> None:
    """Drop all capabilities permanently."""
    for capability in range(CAPABILITIES):
        libc.prctl(DROP_BOUND, capability, 0, 0, 0)  # fails beyond this kernel's last capability
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    call("capset", header, none)
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)


def deny_own_kill() -> None:
    """Deny this process and its children all calls that could make the kernel kill it.

    These are strict seccomp, lowering its own limit of CPU time, and a tracer that kills on exit. A SIGKILL
    of process 1 of a sandbox therefore always comes from outside. The filter also denies sockets that a
    network namespace does not isolate, such as those to a virtual machine's host.
    """
    if calls := CALLS.get(os.uname().machine):
        cpu = resource.RLIMIT_CPU
        deny(
            calls,
            *(rule(calls["seccomp"]), rule(calls["ptrace"]), rule(calls["setrlimit"], ALLOW, 0, {cpu: DENY})),
            [
                *((EQUAL, 0, 8, calls["prlimit"]), (LOAD, 0, 0, ARGUMENTS + 8), (EQUAL, 0, 5, cpu)),
                *((LOAD, 0, 0, ARGUMENTS + 16), (EQUAL, 0, 2, 0)),
                *((LOAD, 0, 0, ARGUMENTS + 20), (EQUAL, 1, 0, 0)),
                *((END, 0, 0, DENY), (END, 0, 0, ALLOW)),
            ],
            rule(calls["prctl"], ALLOW, 0, {SET_SECCOMP: DENY}),
            rule(calls["socket"], DENY, 0, FAMILIES),
        )


def deny_meeting() -> None:
    """Deny a rank all calls that could send data to other ranks through the kernel or read-only files.

    These are keys, file locks, file watches, and sockets that a network namespace does not isolate. Locks
    succeed without effect, because a rank's files are private and sqlite3 requires locks.
    """
    if calls := CALLS.get(os.uname().machine):
        names = ("add_key", "request_key", "keyctl", "inotify_add_watch", "fanotify_init")
        locks = rule(calls["fcntl"], ALLOW, 1, dict.fromkeys(LOCKS, SKIP) | dict.fromkeys(LEASES, DENY))
        sockets = rule(calls["socket"], DENY, 0, FAMILIES)
        deny(calls, rule(calls["flock"], SKIP), locks, sockets, *(rule(calls[n]) for n in names))


def rule(
    number: int, otherwise: int = DENY, argument: int = 0, answers: dict[int, int] | None = None
) -> list[Instruction]:
    """Return instructions that end a system call with answers[its argument], or else with `otherwise`."""
    compared = [
        line for value, end in (answers or {}).items() for line in ((EQUAL, 0, 1, value), (END, 0, 0, end))
    ]
    body = [(LOAD, 0, 0, ARGUMENTS + 8 * argument), *compared, (END, 0, 0, otherwise)]
    return [(EQUAL, 0, len(body), number), *body]


def deny(calls: dict[str, int], *rules: list[Instruction]) -> None:
    """Install a filter of system calls for this process and its children."""
    number, arch = 0, 4  # offsets in the kernel's struct seccomp_data
    instructions = [
        *((LOAD, 0, 0, arch), (EQUAL, 1, 0, calls["architecture"]), (END, 0, 0, DENY)),
        *((LOAD, 0, 0, number), (ABOVE, 0, 1, 0x40000000), (END, 0, 0, DENY)),  # x32
        *(instruction for rule in rules for instruction in rule),
        (END, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in instructions))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    call("prctl", SECCOMP, FILTER, ctypes.c_char_p(program), 0, 0)
