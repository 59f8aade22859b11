"""Messages between ranks pass through a process that records them. A rank is what it received: what it learns
in any other way is missing when it runs again, alone, so the call fails."""

import os
import random
import threading
import time

import nbformat
import numpy as np
import pytest

from cluster.network import Network
from cluster.network.errors import Deadlock
from cluster.network.recorded import recordings
from cluster.staff.engine import Limits
from cluster.staff.engine.inside import ask_ranks, relay
from cluster.staff.engine.inside.channel import Channel
from cluster.staff.engine.inside.codec import pack

from .. import ALL
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


def relayed(function, cases, kept=(), before=lambda: None):
    """Return the Recording of each case, a list of each rank's args. Each rank is a thread of this process.

    before: called before each rank runs again, and removes what other ranks have left here.
    """
    sizes = [len(case) for case in cases]
    calls = [
        [(c, len(x), x[rank]) for c, x in enumerate(cases) if rank < len(x)] for rank in range(max(sizes))
    ]

    def begin(rank):
        (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
        theirs = Channel(theirs_in, theirs_out)
        threading.Thread(
            target=relay.work_off, args=(theirs, function, rank, calls[rank], 5), daemon=True
        ).start()
        return Channel(ours_in, ours_out)

    packed = [[[pack(x, None) for x in of_rank] for of_rank in case] for case in kept]
    between = relay.Relay([begin(rank) for rank in range(max(sizes))], sizes, packed)
    between.run(time.monotonic() + 10)
    for rank in range(max(sizes)):
        before()
        between.again(begin(rank), rank, time.monotonic() + 10)
    found = [{r: ask_ranks.of_rank(between.found(c, r)) for r in range(p)} for c, p in enumerate(sizes)]
    return recordings([found])


@pytest.fixture
def in_threads(monkeypatch):
    monkeypatch.setattr(relay, "draw_alike", lambda seed: None)


def walk(comm, seed, behind=None):
    """Send and receive in a random order without a deadlock, and return a value that depends on all of it.

    behind: a dictionary of all ranks, in which each leaves a number for the others.
    """
    rng, x, waiting = random.Random(seed), np.full(3, comm.rank + 1.0), []
    for step in range(12):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        kind = rng.randrange(4)
        if kind == 0:
            x = x + comm.sendreceive(x, right, left)
        elif kind == 1:
            waiting += [comm.isend(np.full((step, 2), x[0]), right), comm.ireceive(left)]
        elif waiting:
            got = waiting.pop(rng.randrange(len(waiting))).wait()
            x = x if got is None else x + got.sum()
        else:
            comm.add(x, comm.ask(x))
        if behind is not None:
            behind[comm.rank] = float(x[0])
            x = x + behind.get(right, 0.0)
    for request in waiting:
        request.wait()
    return x


@pytest.mark.parametrize("seed", range(6))
def test_only_what_depends_on_messages_alone_can_be_repeated(in_threads, seed):
    """Is any program repeatable that depends on messages, but none that also reads another rank's number?"""
    p = 2 + seed % 3
    kept = [[[np.full(3, float(rank))] * 12 for rank in range(p)]]
    (call,) = relayed(lambda comm: walk(comm, seed), [[[] for _ in range(p)]], kept)
    assert call.error == "" and call.values[0].shape == (3,)
    behind = {}
    (call,) = relayed(lambda comm: walk(comm, seed, behind), [[[] for _ in range(p)]], kept, behind.clear)
    assert "NotRepeatable" in call.error


def test_after_a_deadlock_the_next_message_is_the_next_one(in_threads):
    """If a receive is refused and tried again, does it get the next message? Is the refusal an error?"""

    def stubborn(comm):
        other = 1 - comm.rank
        request = comm.ireceive(other)
        for refused in (
            request.wait,
            lambda: comm.receive(other),
            lambda: comm.sendreceive(0, comm.rank, other),
        ):
            with pytest.raises(Deadlock):
                refused()
        for value in (1, 2, 3):
            comm.send(value, other)
        return found.append([int(received) for received in (request.wait(), *map(comm.receive, [other] * 2))])

    found = []
    (call,) = relayed(stubborn, [[[], []]])
    assert found == [[1, 2, 3]] * 4  # both ranks, twice
    assert "Deadlock" in call.error


def test_a_value_of_the_check_is_paid_for(in_threads):
    """Does a rank get the check's values in turn, each after a recorded question, and no further ones?"""

    def asks(comm, x, times):
        return [comm.ask(x + i)[0] for i in range(times)]

    kept = [[[np.array([5.0 + 10 * rank + i]) for i in range(2)] for rank in range(2)]] * 2
    calls = relayed(asks, [[[np.zeros(2), 2]] * 2, [[np.zeros(2), 3]] * 2], kept)
    assert calls[0].error == "" and calls[0].values == [[5.0, 6.0], [15.0, 16.0]]
    asked = [[note[1][0] for note in notes if note[0] == "ask"] for notes in calls[0].notes]
    assert asked == [[0.0, 1.0]] * 2 and calls[0].replay(Network(1.0, 0.0)).time == 0
    assert calls[1].error


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_no_time_is_negative(in_threads, seconds):
    """Is a claim refused that a computation takes negative, infinite or undefined time?"""
    (call,) = relayed(lambda comm: comm.compute(seconds), [[[]]])
    assert call.error


WAIT = "    deadline = time.monotonic() + 1\n    while time.monotonic() < deadline:\n"
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


BEHIND |= {
    "aio-nr": """
import ctypes, time
libc, start = ctypes.CDLL(None), int(open("/proc/sys/fs/aio-nr").read())
def put(rank, x): libc.syscall(206, int(x[0]) * 16**rank, ctypes.byref(ctypes.c_ulong(0)))
def get(rank):
    n = int(open("/proc/sys/fs/aio-nr").read()) - start
    return float(n // 16**rank % 16) or None
""",
    "futex": """
import ctypes, mmap, threading, time
import numpy as np, sys
libc, file = ctypes.CDLL(None), open("/etc/ld.so.cache", "rb")
mapped = mmap.mmap(file.fileno(), 4096, mmap.MAP_SHARED, mmap.PROT_READ)
page = np.frombuffer(mapped, np.uint8).ctypes.data
def put(rank, x):
    at = page + 4 * (16 * rank + int(x[0]))
    def wait():
        while True:
            libc.syscall(202, ctypes.c_void_p(at), 0, ctypes.c_int.from_address(at).value, None, None, 0)
    threading.Thread(target=wait, daemon=True).start()
def get(rank):
    for value in range(16):
        if libc.syscall(202, ctypes.c_void_p(page + 4 * (16 * rank + value)), 1, 1, None, None, 0) > 0:
            return float(value)
""",
    "timers": """
import ctypes, time
libc = ctypes.CDLL(None)
def used():
    line = next(line for line in open("/proc/self/status") if line.startswith("SigQ"))
    return int(line.split()[1].split("/")[0])
start = used()
def put(rank, x):
    for _ in range(int(x[0]) * 16**rank):
        libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p(0)))
def get(rank):
    return float((used() - start) // 16**rank % 16) or None
""",
    "locked pages": """
import ctypes, time
libc = ctypes.CDLL(None)
def used(): return int(next(line for line in open("/proc/meminfo") if line.startswith("Mlocked")).split()[1])
start, kept = used(), []
def put(rank, x):
    n = int(x[0]) * 16**rank * 4096
    block = ctypes.create_string_buffer(n + 8192)
    at = (ctypes.addressof(block) + 4095) // 4096 * 4096
    libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(n))
    kept.append(block)
def get(rank):
    return float((used() - start) // 4 // 16**rank % 16) or None
""",
    "watches": """
import ctypes, os, time
libc = ctypes.CDLL(None)
def watch(name):
    fd = libc.inotify_init1(0o4000)
    libc.inotify_add_watch(fd, name, 0x20)
    return fd
fds = [watch(b"/etc/passwd"), watch(b"/etc/group")]
seen = [0, 0]
def put(rank, x):
    time.sleep(0.4)
    for _ in range(int(x[0])): open(("/etc/passwd", "/etc/group")[rank]).close(); time.sleep(0.01)
def get(rank):
    time.sleep(0.2)
    try:
        seen[rank] += len(os.read(fds[rank], 4096)) // 16
    except OSError: pass
    return float(seen[rank]) or None
""",
}
COUNTED = """
import array, ctypes, fcntl, os, socket, threading, time
libc = ctypes.CDLL(None)
class Attr(ctypes.Structure): _fields_ = [(n, ctypes.c_long) for n in ("flags", "most", "size", *"abcde")]
def total(comm, x):
    other = 1 - comm.rank
    before = fill(300)
    comm.sendreceive(np.zeros(1), other, other)
    if comm.rank:
        kept = take(int(x[0]) * STEP)
    comm.sendreceive(np.zeros(1), other, other)
    after = fill(300)
    comm.sendreceive(np.zeros(1), other, other)
    return x + (before - after) / STEP if comm.rank == 0 else np.array([before, after])
def fill(n):
    kept = take(n)
    count = len(kept)
    for give_back in kept: give_back()
    return count
"""
WHOLE = {
    "rights in flight": COUNTED
    + """
STEP = 2
def take(n):
    kept = []
    for _ in range(n):
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 50))])
        except OSError:
            break
        kept.append(lambda a=a, b=b: (a.close(), b.close()))
    return kept
""",
    "pipe pages": COUNTED
    + """
STEP = 3
def take(n):
    kept = []
    for _ in range(n):
        r, w = os.pipe()
        give = lambda r=r, w=w: (os.close(r), os.close(w))
        try:
            fcntl.fcntl(w, 1031, 2**20)
        except OSError:
            give()
            break
        kept.append(give)
    return kept
""",
    "queues": COUNTED
    + """
STEP = 1
def take(n):
    kept = []
    for number in range(n):
        name = f"/q{number}".encode()
        fd = libc.mq_open(name, 0o102, 0o600, ctypes.byref(Attr(0, 4, 8192)))
        if fd < 0:
            break
        kept.append(lambda fd=fd, name=name: (os.close(fd), libc.mq_unlink(name)))
    return kept
""",
    "instances": COUNTED
    + """
STEP = 10
def take(n):
    kept = []
    for number in range(n):
        fd = libc.inotify_init1(0)
        if fd < 0:
            break
        kept.append(lambda fd=fd: os.close(fd))
    return kept
""",
    "a late message": """
import time
def total(comm, x):
    other, began = 1 - comm.rank, None
    if comm.rank:
        comm.send(np.zeros(1), 0)
        time.sleep(x[0] / 4)
        comm.send(np.zeros(1), 0)
        return x
    comm.receive(1)
    began = time.perf_counter()
    comm.receive(1)
    return x + round(4 * (time.perf_counter() - began))
""",
}


SOME = ("a file beside", "aio-nr", "timers", "pipe pages", "a late message")


@pytest.mark.parametrize("what", [*BEHIND, *WHOLE] if ALL else SOME)
def test_nothing_else_arrives(engine, what):
    """Does a call fail, or lack the other rank's number, if that is passed on otherwise than by messages?

    Examples are files, shared memory, sockets, signals, what the kernel counts for a user, and delays.
    """
    answer = WHOLE.get(what) or BEHIND[what] + "\ndef total(comm, x):\n    put(comm.rank, x)\n" + WAIT
    if what in BEHIND:
        answer += "        found = [x[0] if r == comm.rank else get(r) for r in range(comm.size)]\n"
        answer += "        if None not in found:\n            time.sleep(0.3)\n            break\n"
        answer += "    return np.array([sum(value or 0.0 for value in found)])"
    text = "calls, _ = recorded_on_ranks(total, [[[np.array([3.0])], [np.array([4.0])]]])\n"
    text += "assert not calls[0].error, calls[0].error\nassert 0, calls[0].values"
    error = check(engine, answer, text).error
    assert "NotRepeatable" in error or ("[array([3.])" in error and "7." not in error), error


HONEST = """
import random, uuid
def total(comm, x):
    drawn = [np.random.default_rng().random(), np.random.rand(), random.random(), uuid.uuid4().hex]
    order = np.random.default_rng().permutation(comm.size)
    sent = [comm.isend(np.array([random.random()]), int(other)) for other in order]
    parts = [comm.receive(other)[0] for other in range(comm.size)]
    return [*drawn, *parts, {f"{n}" for n in range(50)}, float(np.sin(x @ x))]
"""


def test_random_numbers_without_a_seed_are_no_deception(engine):
    """Can a function draw random numbers without a seed, and do two ranks draw different ones?"""
    text = "calls, _ = recorded_on_ranks(total, [[[np.arange(99.0)], [np.arange(99.0)]]])\n"
    text += "assert not calls[0].error, calls[0].error\nassert calls[0].values[0][0] != calls[0].values[1][0]"
    result = check(engine, HONEST, text)
    assert (result.score, result.error) == (2, "")


def test_a_clock_is_told_as_such(engine):
    """If a result depends on the clock, does the feedback say what may differ, and accuse no person?"""
    result = check(
        engine,
        RIGHT.replace("return total", "return total + time.time()").replace("def", "import time\ndef", 1),
    )
    assert result.score == 0 and "clock" in result.error
    assert not any(word in result.error for word in ("cheat", "decei", "forge"))


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
