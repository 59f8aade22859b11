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
UNREADABLE = ("/proc/keys", "/proc/key-users")
STUDENT = 65534  # user and group in a sandbox
# flags: mount, uts, ipc, user, pid, net
NEW = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
PART = 0x00020000 | 0x08000000 | 0x40000000  # flags: mount, ipc, net
MOUNTS, PROCESS_IDS = 0x00020000, 0x20000000
NO_SUID, NO_DEV, NO_EXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18  # flags of mount(2)
DEATH_SIGNAL, DUMPABLE, NO_NEW_PRIVS, DROP_BOUND = 1, 4, 38, 24  # options of prctl(2)
CAPABILITIES = 64
UP = 0x1  # IFF_UP
SET_FLAGS = 0x8914  # SIOCSIFFLAGS
SET_SECCOMP, SECCOMP, FILTER = 22, 22, 2  # PR_SET_SECCOMP, to deny and to use, and its mode
ALLOW = 0x7FFF0000  # answers of a filter, seccomp(2): run the call
SKIP, DENY, ABSENT = 0x00050000, 0x00050001, 0x00050026  # succeed without effect, EPERM, ENOSYS
LOAD, EQUAL, ABOVE, END = 0x20, 0x15, 0x35, 0x06  # instructions of a filter
ARGUMENTS = 16  # offset of a call's arguments in the kernel's struct seccomp_data, eight bytes each
Instruction = tuple[int, int, int, int]  # instruction, jumps if true and if false, value
LOCKS = (6, 7, 37, 38)  # fcntl(2) commands that set a lock; querying is allowed, as none can be set
LEASES = (1024, 1026)  # fcntl(2) commands for leases and watches
PAGE_OUT = (20, 21)  # advice of madvise(2) that takes pages out of the machine's cache
FAMILIES = dict.fromkeys((1, 2, 10, 16), ALLOW)  # of socket(2): unix, inet, inet6, netlink
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # in the order of the numbers below
NEWEST = 450  # the last system call that was reviewed for this table; Linux has one table since 424
# Calls that no notebook needs, and whose objects belong to a user or to the machine, not to one sandbox.
MISSING = {
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282), "syslog": (103, 116),
    # calls that a filter does not see, and a number that the machine counts
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "mq_open": (240, 180),
    # what others read and open
    "mincore": (27, 232), "preadv2": (327, 286), "pwritev2": (328, 287),
    "inotify_init": (253, 253), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
}  # fmt: skip
NUMBERS = MISSING | {
    "fadvise64": (221, 223), "readahead": (187, 213), "madvise": (28, 233), "socket": (41, 198),
    "fcntl": (72, 25), "flock": (73, 32), "seccomp": (317, 277), "prctl": (157, 167),
    "setrlimit": (160, 164), "prlimit": (302, 261),
}  # fmt: skip
# Limits whose sum over all sandboxes Linux compares with the limit of the account that started them.
SMALL = {resource.RLIMIT_SIGPENDING: 1024, resource.RLIMIT_MEMLOCK: 2**16}
libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: int | bytes | ctypes.c_char_p | None) -> None:
    """Call a function of libc. Raises OSError."""
    if getattr(libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def leave(own: int | None) -> None:
    """Enter new namespaces (for process IDs, the next child does). The process must have only one thread.

    own: the user and group to become first, or None to remain the fork server's.
    """
    if own is not None:
        os.setgroups([])
        os.setresgid(own, own, own)
        os.setresuid(own, own, own)
        call("prctl", DUMPABLE, 1, 0, 0, 0)  # the new user's files in /proc are otherwise root's
    user, group = os.getuid(), os.getgid()
    call("unshare", NEW)
    for name, text in [
        ("setgroups", "deny"),
        ("uid_map", f"{STUDENT} {user} 1"),
        ("gid_map", f"{STUDENT} {group} 1"),
    ]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def enter(disk: int, rights: bool = False) -> None:
    """Isolate process 1 of the new namespaces: private folders and terminals, no capabilities, no keys.

    disk: bytes of each of the WRITABLE folders, which become empty.
    rights: keep the capabilities that `part` needs, in a process that never runs student code.
    """
    call("prctl", DEATH_SIGNAL, 9, 0, 0, 0)
    call("mount", None, b"/", None, RECURSIVE | PRIVATE, None)
    empty(disk, WRITABLE)
    terminals = b"newinstance,ptmxmode=0666,mode=0600,max=256"
    call("mount", b"devpts", b"/dev/pts", b"devpts", NO_SUID | NO_EXEC, terminals)
    show_processes()
    raise_loopback()
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")  # no nested namespaces, because they expose much more of the kernel's code
    os.setsid()
    confine()
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
        show_processes(b"hidepid=ptraceable")
    raise_loopback()


def show_processes(options: bytes | None = None) -> None:
    """Mount a /proc of this process's namespaces, in which the machine's keys cannot be read."""
    call("mount", b"proc", b"/proc", b"proc", NO_SUID | NO_DEV | NO_EXEC, options)
    for path in filter(os.path.exists, UNREADABLE):
        call("mount", b"/dev/null", path.encode(), None, BIND, None)


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


def drop() -> None:
    """Drop all capabilities permanently."""
    for capability in range(CAPABILITIES):
        libc.prctl(DROP_BOUND, capability, 0, 0, 0)  # fails beyond this kernel's last capability
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    call("capset", header, none)


def confine() -> None:
    """Deny this process and its children the calls that reach beyond a sandbox, in every ABI.

    These concern keys, other processes, watches and caches of files, and sockets that a network namespace
    does not isolate, such as those to a virtual machine's host. Calls newer than the table are denied.
    """
    for kind, most in SMALL.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most, most) if hard == resource.RLIM_INFINITY else (min(hard, most),) * 2)
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    deny(
        [(ABOVE, 0, 1, NEWEST + 1), (END, 0, 0, ABSENT)],
        *(rule(name, ABSENT) for name in MISSING),
        *(rule(name, SKIP) for name in ("fadvise64", "readahead")),
        rule("madvise", ALLOW, 2, dict.fromkeys(PAGE_OUT, SKIP)),
        rule("fcntl", ALLOW, 1, dict.fromkeys(LEASES, DENY)),
        rule("socket", DENY, 0, FAMILIES),
    )


def deny_own_kill() -> None:
    """Deny this process and its children all calls that could make the kernel kill it.

    These are strict seccomp and lowering its own limit of CPU time (`confine` denies tracers). A SIGKILL of
    process 1 of a sandbox therefore always comes from outside.
    """
    cpu = resource.RLIMIT_CPU
    deny(
        *(rule("seccomp"), rule("setrlimit", ALLOW, 0, {cpu: DENY})),
        [
            *((EQUAL, 0, 8, number("prlimit")), (LOAD, 0, 0, ARGUMENTS + 8), (EQUAL, 0, 5, cpu)),
            *((LOAD, 0, 0, ARGUMENTS + 16), (EQUAL, 0, 2, 0)),
            *((LOAD, 0, 0, ARGUMENTS + 20), (EQUAL, 1, 0, 0)),
            *((END, 0, 0, DENY), (END, 0, 0, ALLOW)),
        ],
        rule("prctl", ALLOW, 0, {SET_SECCOMP: DENY}),
    )


def deny_meeting() -> None:
    """Let a rank's file locks succeed without effect, because others would see those on read-only files.

    The rank's own files are private, and sqlite3 requires locks.
    """
    deny(rule("flock", SKIP), rule("fcntl", ALLOW, 1, dict.fromkeys(LOCKS, SKIP)))


def number(name: str) -> int:
    """Return the number of a system call on this machine."""
    return NUMBERS[name][[*ARCHITECTURES].index(os.uname().machine)]


def rule(
    name: str, otherwise: int = DENY, argument: int = 0, answers: dict[int, int] | None = None
) -> list[Instruction]:
    """Return instructions that end a system call with answers[its argument], or else with `otherwise`."""
    compared = [
        line for value, end in (answers or {}).items() for line in ((EQUAL, 0, 1, value), (END, 0, 0, end))
    ]
    body = [(LOAD, 0, 0, ARGUMENTS + 8 * argument), *compared, (END, 0, 0, otherwise)]
    return [(EQUAL, 0, len(body), number(name)), *body]


def deny(*rules: list[Instruction]) -> None:
    """Install a filter of system calls for this process and its children; calls of another ABI fail."""
    offset, arch = 0, 4  # of the number and the architecture in the kernel's struct seccomp_data
    instructions = [
        *((LOAD, 0, 0, arch), (EQUAL, 1, 0, ARCHITECTURES[os.uname().machine]), (END, 0, 0, DENY)),
        *((LOAD, 0, 0, offset), (ABOVE, 0, 1, 0x40000000), (END, 0, 0, DENY)),  # x32
        *(instruction for rule in rules for instruction in rule),
        (END, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in instructions))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    call("prctl", SECCOMP, FILTER, ctypes.c_char_p(program), 0, 0)
