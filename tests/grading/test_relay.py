"""Messages between ranks pass through a process that records them. No other data can pass between ranks."""

import nbformat
import pytest

from cluster.staff.engine import Limits

from .sandboxes import Engine, cell, need

pytestmark = pytest.mark.ranks
SETUP = """
import numpy as np
from cluster.network import Network
from cluster.network.recorded import recorded_on_ranks

CASES = [[[np.array([10.0 * p + r])] for r in range(p)] for p in (1, 2, 3, 5)]
SUMS = [float(sum(10.0 * p + r for r in range(p))) for p in (1, 2, 3, 5)]
"""
RIGHT = """
def total(comm, x):
    others = [other for other in range(comm.size) if other != comm.rank]
    sent = [comm.isend(x, other) for other in others]
    total = x + sum(comm.receive(other) for other in others)
    for request in sent:
        request.wait()
    return total
"""
CHECK = """
calls, files = recorded_on_ranks(total, CASES)
for call, case, want in zip(calls, CASES, SUMS):
    assert not call.error, call.error
    assert all(np.array_equal(value, [want]) for value in call.values), call.values
    sent = [array for of_rank in call.sent() for _, array in of_rank]
    assert len(sent) == len(case) * (len(case) - 1), f"{len(sent)} messages on {len(case)} ranks"
    assert call.replay(Network(1.0, 0.0)).time >= min(len(case) - 1, 1)
assert files == [[]] * 5, files
"""


@pytest.fixture(scope="module")
def engine():
    need()
    with Engine(workers=1, limits=Limits()) as engine:
        yield engine


def check(engine, answer, text=CHECK):
    cells = [cell(SETUP, "setup", locked=True), cell(answer, "total", solution=True)]
    cells += [cell(text, "check", locked=True, grade=True, points=2)]
    verdict = engine.grade(nbformat.v4.new_notebook(cells=cells))
    assert verdict.outcome == "graded", verdict.why
    return verdict.checks["check"]


def test_messages_pass_and_are_written_down(engine):
    """Are the ranks' results correct, and are all their messages recorded?"""
    result = check(engine, RIGHT)
    assert (result.score, result.error) == (2, "")


def test_messages_pass_without_the_fork_server():
    """Are messages also relayed without the fork server, if ranks cannot have their own namespaces?"""
    need()
    with Engine(workers=1, limits=Limits(), warm=False) as cold:
        result = check(cold, RIGHT)
    assert (result.score, result.error) == (2, "")


WAIT = "    deadline = time.monotonic() + 3\n    while time.monotonic() < deadline:\n"
BEHIND = {
    "a file beside": """
import os, time
from pathlib import Path
def put(rank, x): Path(f"here-{rank}").write_text(str(x[0])), Path(f"../here-{rank}").write_text(str(x[0]))
def get(rank):
    for path in Path("..").rglob(f"here-{rank}"):
        return float(path.read_text())
""",
    "the folder of another rank": """
import os, time
from pathlib import Path
def put(rank, x): Path("kept").write_text(str(x[0]))
def get(rank):
    for path in (Path(f"../rank-{rank}/kept"), *Path("/tmp").glob(f"*/rank-{rank}/kept")):
        if path.exists():
            return float(path.read_text())
""",
    "memory of all": """
import os, time
from pathlib import Path
def put(rank, x): Path(f"/dev/shm/here-{rank}").write_text(str(x[0]))
def get(rank):
    path = Path(f"/dev/shm/here-{rank}")
    return float(path.read_text()) if path.exists() else None
""",
    "a global name": """
import time
kept = {}
def put(rank, x): kept[rank] = x[0]
def get(rank): return kept.get(rank)
""",
    "a connection": """
import socket, threading, time
def put(rank, x):
    server = socket.create_server(("127.0.0.1", 4000 + rank))
    def serve():
        while True:
            server.accept()[0].sendall(str(x[0]).encode())
    threading.Thread(target=serve, daemon=True).start()
def get(rank):
    try:
        return float(socket.create_connection(("127.0.0.1", 4000 + rank), 1).recv(100))
    except OSError:
        return None
""",
    "an abstract socket": """
import socket, threading, time
def put(rank, x):
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"\\0here-{rank}")
    server.listen(8)
    def serve():
        while True:
            server.accept()[0].sendall(str(x[0]).encode())
    threading.Thread(target=serve, daemon=True).start()
def get(rank):
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"\\0here-{rank}")
            return float(client.recv(100))
    except OSError:
        return None
""",
    "System V": """
import ctypes, time
def at(rank):
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    return libc.shmat(libc.shmget(7000 + rank, 8, 0o1666), None, 0)
def put(rank, x): ctypes.c_double.from_address(at(rank)).value = x[0]
def get(rank): return ctypes.c_double.from_address(at(rank)).value or None
""",
    "the name of a process": """
import ctypes, os, time
def put(rank, x): ctypes.CDLL(None).prctl(15, f"r{rank}:{x[0]}".encode(), 0, 0, 0)
def get(rank):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        name = open(f"/proc/{pid}/comm").read()
        if name.startswith(f"r{rank}:"):
            return float(name[3:])
""",
    "the folder of the notebook": """
import time
def put(rank, x):
    with open(f"/submission/here-{rank}", "w") as file: file.write(str(x[0]))
def get(rank):
    try:
        with open(f"/submission/here-{rank}") as file: return float(file.read())
    except (OSError, ValueError):
        return None
""",
    "free space": """
import os, time
def put(rank, x):
    if rank == 1:
        with open("filled", "wb") as file: file.write(bytes(int(x[0]) * 2**20))
def get(rank):
    if rank == 0:
        return 0.0
    disk = os.statvfs(".")
    used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    return used // 2**20 or None
""",
    "keys": """
import ctypes, time
libc = ctypes.CDLL(None)
def put(rank, x):
    text = str(x[0]).encode()
    for ring in (-3, -4, -5):
        libc.syscall(248, b"user", f"here-{rank}".encode(), text, len(text), ring)
def get(rank):
    for ring in (-3, -4, -5):
        key = libc.syscall(250, 10, ring, b"user", f"here-{rank}".encode(), 0)
        made = ctypes.create_string_buffer(100)
        if key > 0 and libc.syscall(250, 11, key, made, 100, 0) > 0:
            return float(made.value)
""",
    "a terminal": """
import glob, os, time, tty
found = {}
def put(rank, x):
    try:
        master, slave = os.openpty()
    except OSError:
        return
    tty.setraw(slave)
    os.write(master, f"{rank}:{x[0]};".encode() * 20)
def get(rank):
    for path in glob.glob("/dev/pts/[0-9]*"):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            parts = [part.split(":") for part in os.read(fd, 30).decode().split(";")]
            found.update((int(p[0]), float(p[1])) for p in parts if len(p) == 2 and "." in p[1])
        except (OSError, ValueError):
            pass
    return found.get(rank)
""",
    "numbers of signals": """
import ctypes, os, signal, time
libc, found = ctypes.CDLL(None), {}
def put(rank, x):
    signal.pthread_sigmask(signal.SIG_BLOCK, [40])
    time.sleep(0.5)
    own = {os.getpid(), os.getppid(), *map(int, os.listdir("/proc/self/task"))}
    for pid in range(os.getpid() - 3, os.getpid() + 4):
        if pid > 1 and pid not in own:
            libc.sigqueue(pid, 40, ctypes.c_void_p(rank * 1000 + int(x[0])))
def get(rank):
    info, mask, now = (ctypes.c_int * 32)(), (ctypes.c_ulong * 16)(1 << 39), (ctypes.c_long * 2)(0, 0)
    while libc.sigtimedwait(mask, info, now) == 40:
        found[info[6] // 1000] = float(info[6] % 1000)
    return found.get(rank)
""",
    "limits of a process": """
import resource, time
RT = resource.RLIMIT_RTTIME
def put(rank, x): resource.setrlimit(RT, (10**6 + rank * 1000 + int(x[0]), resource.getrlimit(RT)[1]))
def get(rank):
    for pid in range(1, 400):
        try:
            kept = resource.prlimit(pid, RT)[0] - 10**6 - rank * 1000
        except OSError:
            continue
        if 0 <= kept < 1000:
            return float(kept)
""",
    "locks on a file that all read": """
import fcntl, os, struct, time
fds = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(2)]
def put(rank, x): lock(fds[0], 37, fcntl.F_RDLCK, 10_000 * (rank + 1) + int(x[0]), 1)
def get(rank):
    found = lock(fds[1], 36, fcntl.F_WRLCK, 10_000 * (rank + 1), 9_999)
    return float(found[2] % 10_000) if found[0] != fcntl.F_UNLCK else None
def lock(fd, how, kind, start, size):
    try:
        made = fcntl.fcntl(fd, how, struct.pack("hhqqi4x", kind, 0, start, size, 0))
    except OSError:
        return [fcntl.F_UNLCK, 0, 0]
    return struct.unpack("hhqqi4x", made)
""",
}


@pytest.mark.parametrize("what", BEHIND)
def test_nothing_else_arrives(engine, what):
    """Is every other way to pass data between ranks blocked, such as files, shared memory, sockets or
    signals?"""
    answer = BEHIND[what] + "\ndef total(comm, x):\n    put(comm.rank, x)\n" + WAIT
    answer += "        found = [x[0] if r == comm.rank else get(r) for r in range(comm.size)]\n"
    answer += "        if None not in found:\n            break\n        time.sleep(0.2)\n"
    answer += "    return np.array([sum(value or 0.0 for value in found)])"
    text = "calls, _ = recorded_on_ranks(total, [[[np.array([3.0])], [np.array([4.0])]]])\n"
    result = check(
        engine, answer, text + "assert not calls[0].error, calls[0].error\nassert 0, calls[0].values"
    )
    assert "3." in result.error and "4." in result.error and "7." not in result.error


def test_a_rank_keeps_a_database(engine):
    """Does sqlite3 work in a rank's own folder, although file locks have no effect there?"""
    keeps = RIGHT.replace(
        "    total = x",
        """    import fcntl, os, sqlite3
    for value in (1.0, 2.0):
        with sqlite3.connect("kept.db") as base:
            base.execute("CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY, w)")
            base.execute("REPLACE INTO state VALUES (1, ?)", (value,))
        base.close()
    base = sqlite3.connect("kept.db")
    assert base.execute("SELECT w FROM state").fetchall() == [(2.0,)]
    with open("kept.db") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    os.remove("kept.db")
    total = x""",
    )
    result = check(engine, keeps)
    assert (result.score, result.error) == (2, "")


def test_own_notes_count_for_nothing(engine):
    """Does a rank gain nothing by changing its own record of messages, or by reporting messages that it never
    sent?"""
    lies = RIGHT.replace("    return total", "    comm.notes = comm._comm = []\n    return total")
    assert check(engine, lies).score == 2
    empty = "def total(comm, x):\n    comm._tell('wait', 0)\n    return x"
    assert check(engine, empty).score == 0


def test_a_message_that_is_not_taken_cannot_be_passed_on(engine):
    """Is a message kept from a rank until the rank requests it?"""
    early = """
import select, time
def total(comm, x):
    if comm.rank:
        return comm.sendreceive(x, 0, 0)
    time.sleep(1)
    ready = select.select([comm._channel.source], [], [], 0)[0]
    comm.sendreceive(x, 1, 1)
    return np.array([float(len(ready))])
"""
    text = "calls, _ = recorded_on_ranks(total, [[[np.array([3.0])], [np.array([4.0])]]])\n"
    text += "assert not calls[0].error, calls[0].error\nassert calls[0].values[0] == 0, calls[0].values"
    assert check(engine, early, text).score == 2


def test_a_call_that_fails_leaves_the_next_ones_alone(engine):
    """Do an error, a missing message, a cycle and an ended process each affect only the call in which they
    occur?"""
    fails = """
import os
def total(comm, x):
    if comm.size == 2 and comm.rank == 1:
        raise ValueError("of rank 1")
    if comm.size == 3:
        return comm.receive((comm.rank + 1) % comm.size)
    if comm.size == 5 and comm.rank == 4:
        os._exit(0)
""" + RIGHT.replace("def total(comm, x):\n", "")
    text = "calls, _ = recorded_on_ranks(total, CASES)\nassert 0, [call.error for call in calls]"
    error = check(engine, fails, text).error
    assert "['', 'rank 1: ValueError in total(): of rank 1'" in error
    assert "Deadlock" in error
    assert "rank 4: RankEnded" in error
