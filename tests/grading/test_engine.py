"""The autograder gives honest submissions the right points, and attacks none. All are small notebooks."""

import ast
import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

import nbformat
import psutil
import pytest

from cluster.staff.course import CourseError
from cluster.staff.engine import Limits
from cluster.staff.engine.sandbox import bubblewrap, fork_client, leftovers, unprivileged
from cluster.staff.engine.submission import GradedNotebook

from .. import ALL, ROOT
from .sandboxes import STUB, Engine, PatientEngine, assignment, cell, filled, hidden, need, patiently, tiny

CANARY = "canary-8c1f"
RIGHT = "def double(x):\n    return 2 * x"
WRONG = "def double(x):\n    return x"
LIMITS = Limits(cell=20, check=20, total=240, processes=64, memory=2**30, output=500_000, disk=2**25)


@pytest.fixture(scope="module")
def engine():
    need()
    os.environ["COURSE_TOKEN"] = CANARY
    with PatientEngine(workers=2, limits=LIMITS) as engine:
        engine.grade(tiny(RIGHT))  # start the fork server before the tests
        yield engine
    del os.environ["COURSE_TOKEN"]


@pytest.fixture(scope="module")
def cold():
    """An autograder without the fork server, as on a machine that does not allow nested namespaces."""
    need()
    with PatientEngine(workers=2, limits=LIMITS, warm=False) as engine:
        yield engine


@pytest.fixture(scope="module")
def hurried():
    need()
    with Engine(workers=2, limits=Limits(cell=2, check=2, total=240, processes=64)) as engine:
        engine.grade(tiny(RIGHT))
        yield engine


def outcome(verdict, name="check"):
    assert verdict.outcome == "graded", verdict.why
    return verdict.checks[name]


def shown(verdict):
    """Return all text of a verdict."""
    return str(verdict.to_json())


# --- honest work --------------------------------------------------------------------------------------


def test_one_fork_server_serves_notebooks_of_one_kind(monkeypatch):
    """If all notebooks need the heavy libraries, is only the fork server with these libraries started?"""
    need()
    monkeypatch.setattr(fork_client, "HEAVY", ("wave",))
    monkeypatch.setattr(fork_client, "NEED_HEAVY", ("wave",))
    with Engine(workers=2, limits=LIMITS) as engine:
        for _ in range(2):
            assert outcome(engine.grade(tiny(f"import wave\n{RIGHT}"))).score == 2
        assert engine.cold == "" and [*engine.servers.running] == [(*fork_client.LIGHT, "wave")]


def test_a_machine_too_busy_to_start_the_server_is_not_one_without(monkeypatch):
    """If the fork server once starts too late, is the submission marked for grading again? Is the fork server
    used the next time?"""
    need()
    with Engine(workers=2, limits=LIMITS) as engine:
        monkeypatch.setattr(fork_client, "STARTING", 0.001)
        late = engine.grade(tiny(RIGHT))
        assert late.outcome == "again" and "0.001" in late.why
        monkeypatch.undo()
        assert outcome(engine.grade(tiny(RIGHT))).score == 2 and engine.cold == ""


def test_assignment_solution_and_unsolved_version(engine):
    """Does the solution of assignment 01 get full points and keep its outputs? Does the unsolved version get
    no points?"""
    solution = assignment()
    verdict = engine.grade(filled(solution))
    assert {n: c.error for n, c in verdict.checks.items() if c.score != c.max_score} == {}
    assert sum(c.score for c in verdict.checks.values()) == 18  # two more points are for a written answer
    json.dumps(verdict.to_json())
    assert "image/png" in shown(verdict) and "[[1. 2. 3.]" in shown(verdict)
    stub = engine.grade(filled(solution, text=STUB))
    assert stub.outcome == "graded" and [c.score for c in stub.checks.values()] == [0] * 15


# Expressions printed by lecture 01, with the names of assignment 01.
LECTURE = {
    "im2col": """
padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), axis=(1, 2))[:, ::stride, ::stride]
columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[-1])
""",
    "forward": """
columns = im2col(x, k, stride, padding)
y = (columns @ w.reshape(-1, K)).reshape(N, H_out, W_out, K) + b
""",
    "filter_gradient": """
rows = dy.reshape(-1, K)
dw = (im2col(x, k, stride, padding).T @ rows).reshape(k, k, C, K)
db = rows.sum(axis=0)
""",
    "input_gradient": """
columns = dy.reshape(-1, K) @ w.reshape(-1, K).T
padded = np.zeros((N, H + 2 * padding, W + 2 * padding, C), dy.dtype)
taps = columns.reshape(N, H_out, W_out, k, k, C)
for i in range(k):
    for j in range(k):
        padded[:, i : i + stride * H_out : stride, j : j + stride * W_out : stride] += taps[:, :, :, i, j]
dx = padded[:, padding : padding + H, padding : padding + W]
""",
    "layer_flops": """
flops = 2 * N * H_out * W_out * K * k**2 * C
""",
    "layer_bytes": """
x, w, y, columns = N * H * W * C, k * k * C * K, N * H_out * W_out * K, N * H_out * W_out * k * k * C
moved = itemsize * (x + w + K + y + (2 * columns if with_im2col else 0))
""",
}


@pytest.mark.skipif(not ALL, reason="judges the assignment's text, not the autograder: make test-all")
def test_the_code_of_the_lecture_is_not_the_assignment(engine):
    """Does a student who copies the lecture's code get at most 7 of assignment 01's 20 points?"""
    solution = assignment()
    verdict = engine.grade(filled(solution, LECTURE))
    assert 0 < sum(check.score for check in verdict.checks.values()) <= 7


def test_errors_are_reported_and_hidden_ones_marked(engine):
    """Does a verdict contain the assertion's message, and state whether a visible or a hidden line failed?"""
    secret = hidden("assert double(2) == 4, 'secret'")
    check = f"assert double(1) == 2, 'shown'\n{secret}\nassert double(3) == 6"
    for answer, score, error, in_hidden in [
        (RIGHT, 2, "", False),
        ("double = {1: 2, 3: 6}.get", 0, "AssertionError: secret", True),
        ("double = {1: 2, 2: 4}.get", 0, "AssertionError: ", False),
        (WRONG, 0, "AssertionError: shown", False),
    ]:
        found = outcome(engine.grade(tiny(answer, check)))
        assert (found.score, found.error, found.hidden) == (score, error, in_hidden)


@pytest.mark.parametrize(
    ("answer", "kind", "in_hidden"),
    [
        ("def double(x):\n    return 3 * x", "value", False),
        ("def double(x):\n    return 2.0 * x", "form", False),
        ("def double(x):\n    return 2 * x if x < 9 else 0", "value", True),
        ("def double(x):\n    return 2 * x if x < 9 else 0.5", "form", True),
        ("def double(x):\n    raise AssertionError('is 3, which is not the expected value')", "crash", False),
        ("def double(x):\n    return 2 * x if x < 9 else 1 / 0", "crash", True),
        ("def double(x):\n    raise NotImplementedError", "empty", False),
        ("import os\ndef double(x):\n    os._exit(3)", "limit", False),
    ],
)
def test_how_a_check_failed_is_in_the_verdict(engine, answer, kind, in_hidden):
    """Does a verdict distinguish wrong values, wrong types, unsolved blanks, crashes and exceeded limits,
    even if the student's code raises an AssertionError?"""
    check = f"expect(double(2), 4)\n{hidden('expect(double(17), 34)')}"
    verdict = engine.grade(tiny(answer, check))
    assert (outcome(verdict).kind, outcome(verdict).hidden) == (kind, in_hidden)
    assert verdict.notebook.cells[-1].metadata.failure == {"kind": kind, "called": True}


def test_a_check_of_an_answer_calls_nothing(engine):
    """Does the graded notebook record whether a failed check has called a function?"""
    check = "assert double['a']\n" + hidden("assert double == {'a': 'B'}")
    verdict = engine.grade(tiny("double = {'a': 'C'}", check))
    assert outcome(verdict).hidden
    assert verdict.notebook.cells[-1].metadata.failure == {"kind": "value", "called": False}


def test_what_a_hidden_part_prints_stays_with_it(engine):
    """Is the output of visible tests kept, and the output of hidden tests shown nowhere?"""
    check = "print('shown', double(1))\n" + hidden("print(double(4711))")
    printed = str(engine.grade(tiny(RIGHT, check)).notebook.cells[-1].outputs)
    assert "shown 2" in printed and "9422" not in printed


def test_no_points_before_the_hidden_part_has_passed():
    """Does a check get no points if time runs out between its visible and its hidden tests?"""
    check = "assert double(1) == 2\n" + hidden("assert double(2) == 4")
    work = GradedNotebook(tiny(RIGHT, check), LIMITS)
    reply = {"error": "", "students": False, "called": True, "seconds": 0.1, "printed": ""}
    reply |= {"about": [], "judged": []}

    class Tests:
        def send(self, message):
            """Accept any message."""

        def receive(self, seconds, more=None):
            return reply | {"gone": False, "lost": False, "asked": True}

    work.judge_visible(Tests(), "check")
    work.why = "late"
    work.finish()
    assert (work.checks["check"].score, work.checks["check"].error) == (0, "late")


def test_a_cell_that_fails_does_not_stop_the_notebook(engine):
    """Do the cells after a failing cell run, and is the error kept as an output?"""
    verdict = engine.grade(tiny(RIGHT, before="print('before'); 1 / 0"))
    assert outcome(verdict).score == 2
    kinds = [output.output_type for output in verdict.notebook.cells[1].outputs]
    assert kinds == ["stream", "error"]


def test_what_goes_between_the_two_processes(engine):
    """Do objects, attributes, items, exceptions and functions that pass between student and test process
    behave as in a single process? Are changes to arguments detected?"""
    answer = """
class Model:
    layers = [1, 2]
    def __getitem__(self, key): return key
    def fit(self, x, f): return {"loss": [f(x), np.float32(1)], "t": (1, None, 2j, b"x", {3})}
model = Model()
def fill(a): a[0] = 7
def reshape(a): a.shape = (1, *a.shape)
def fail(x): raise KeyError("no such thing")
def same(x): return x
"""
    check = """
got = model.fit(np.arange(3), lambda x: int(x.sum()))
assert got["loss"] == [3, 1] and type(got["loss"][1]) is np.float32 and got["t"] == (1, None, 2j, b"x", {3})
assert model.layers == [1, 2] and model[1:2, ...] == (slice(1, 2), ...) and same(model).layers == [1, 2]
a = np.zeros(2, ">i2")
for change in (fill, reshape):
    try:
        change(a)
    except AssertionError as error:
        assert "argument a" in str(error) and error.args
    else:
        raise AssertionError
assert a.tolist() == [0, 0]
with in_place():
    fill(a)
assert a.tolist() == [7, 0]
for dtype in ("float16", "int8", "bool", "complex64", "U3"):
    x = np.ones((2, 0, 3), dtype), np.ones(3, dtype)[::-1]
    assert [(b.dtype, b.shape) for b in same(x)] == [(b.dtype, b.shape) for b in x]
assert same(np.array(2.5)).shape == () and same(float("inf")) > 0 and same("ü\\ud800") == "ü\\ud800"
try:
    fail(1)
except KeyError as error:
    assert "no such thing" in str(error)
else:
    raise AssertionError
try:
    model.other
except AttributeError:
    pass
try:
    model == model
except TypeError as error:
    assert "plain data" in str(error)
"""
    given = "import numpy as np\nfrom cluster.checks import in_place"
    assert outcome(engine.grade(tiny(answer, check, given=given))).error == ""


LOOPS = "def double(x):\n    return np.array([n + n for n in x])"
PRODUCT = "def double(x):\n    return gemm(x, 2)"
WATCHING = "import numpy as np\nfrom cluster.checks import watched\ndef gemm(a, b): return a * b"
CALLED = """
with watched("gemm") as calls:
    double(np.arange(3))
assert calls.count == 1, f"gemm was called {calls.count} times"
"""
USED = """
with watched("gemm", lambda a, b: 3 * a * b):
    got = double(np.arange(3))
assert got.tolist() == [0, 6, 12], "the result does not come from gemm"
"""
# Patches the student process from inside: it claims that calls were made, and keeps the check's replacement
# of a function.
PATCHES = """
import sys
side = next(module for name, module in sys.modules.items() if name.endswith("inside.student") or
            (name == "__main__" and hasattr(module, "Server")))
honest = side.Server.replace
def replace(self, request):
    if "function" in str(request["value"]):
        self.unpack(request["value"])(1, 1)
        return self.value(None)
    return honest(self, request)
side.Server.replace = replace
side.Server.signature = side.Server.fetch = lambda self, request: {"value": 1}
side.Server.fetch = lambda self, request: self.value(self.names[request["name"]])
"""


def test_calls_are_counted_where_the_student_cannot_reach(engine):
    """Are calls counted in the test process, not in the student process? Does a check notice that the result
    does not come from its replacement of a function?"""
    for answer, count, used in [(PRODUCT, "", ""), (LOOPS, "called 0 times", "does not come from gemm")]:
        assert count in (found := outcome(engine.grade(tiny(answer, CALLED, given=WATCHING))).error)
        assert bool(found) == bool(count), found
        assert used in (found := outcome(engine.grade(tiny(answer, USED, given=WATCHING))).error)
        assert bool(found) == bool(used), found
    patched = outcome(engine.grade(tiny(PATCHES + LOOPS, USED, given=WATCHING)))
    assert "does not come from gemm" in patched.error


def test_a_name_is_put_back_after_a_check_that_took_too_long(hurried):
    """If a check runs out of time while it replaces a function, does the next check use the student's own
    function?"""
    slow = 'with watched("gemm", lambda a, b: a):\n    double(np.arange(3))\n    while True: pass'
    notebook = tiny(PRODUCT, slow, given=WATCHING)
    notebook.cells.append(cell("assert double(3) == 6", "after", locked=True, grade=True, points=1))
    verdict = patiently(hurried, notebook)
    assert verdict.checks["check"].error.startswith("TimeLimit")
    assert verdict.checks["after"].error == ""


def test_files_are_there_and_links_are_not(engine, tmp_path):
    """Does the notebook find the submitted files in its folder, but no links or pipes?"""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.txt").write_text("21")
    (tmp_path / "secret").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "fifo")
    answer = "import os\ndef double(x): return [open('runs/a.txt').read(), sorted(os.listdir())]"
    verdict = engine.grade(tiny(answer, "assert double(1) == ['21', ['runs']], double(1)"), tmp_path)
    assert outcome(verdict).error == ""


# --- what a student's code can reach, and what it may use (tests/exploits/ has the attacks) ---------------

BARRIERS = """
import ctypes, os, resource, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
seen = {"status": dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())}
seen["namespaces"] = [libc.unshare(flag) for flag in (0x10000000, 0x00020000, 0x40000000)]
seen["mount"] = libc.mount(b"tmpfs", b"/usr", b"tmpfs", 0, None)
seen["chroot"] = libc.chroot(b"/tmp")
seen["processes"] = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
seen["interfaces"] = [name for _, name in socket.if_nameindex()]
seen["environment"] = sorted(os.environ)
links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
seen["descriptors"] = sorted(os.readlink(link).split(":")[0] for link in links if os.path.lexists(link))
writable = []
libraries = [os.path.dirname(module.__file__) for module in (os, np)]
others = ["/", "/usr", "/etc", "/course", "/course/cluster", "/proc", "/sys", "/var", "/run", "/home", "/dev"]
for folder in others + libraries:
    try:
        open(folder + "/mine", "w")
        writable.append(folder)
    except OSError: pass
seen["writable"] = writable
try:
    with open("large", "wb") as file: file.truncate(2**33)
    seen["large"] = "written"
except OSError as error: seen["large"] = type(error).__name__
disks = [os.statvfs(folder) for folder in ("/submission", "/tmp", "/dev/shm")]
seen["disks"] = [disk.f_blocks * disk.f_frsize for disk in disks]
for name in ("DATA", "NPROC", "FSIZE", "CPU", "CORE"):
    seen[name] = resource.getrlimit(getattr(resource, "RLIMIT_" + name))
print(repr(seen))
"""


@pytest.mark.parametrize("how", ["warm", "cold"])
def test_the_isolation_of_a_sandbox(engine, cold, how):
    """Does a sandbox lack all privileges, and all access to other processes and namespaces? Can it write only
    to its own folders, and do all limits apply?"""
    verdict = (engine if how == "warm" else cold).grade(tiny(RIGHT, before=BARRIERS))
    assert outcome(verdict).score == 2
    seen = ast.literal_eval(verdict.notebook.cells[1].outputs[0]["text"])
    assert set(seen["status"]["CapEff"] + seen["status"]["CapPrm"]) == {"0"}
    assert seen["status"]["NoNewPrivs"] == "1" and seen["mount"] == seen["chroot"] == -1
    assert len(seen["processes"]) <= 2 and seen["interfaces"] == ["lo"] and seen["writable"] == []
    assert seen["namespaces"] == [-1, -1, -1] and set(seen["status"]["CapBnd"]) == {"0"}
    if unprivileged.droppable():
        assert seen["status"]["Uid"].split() == ["65534"] * 4
    assert not [name for name in seen["environment"] if "TOKEN" in name or "JUPYTER" in name]
    assert {d.split("/")[1] for d in seen["descriptors"] if d.startswith("/")} <= {"dev", "memfd", "proc"}
    assert seen["large"] == "OSError"
    assert seen["disks"] == [LIMITS.disk] * 3
    data = {"DATA": LIMITS.memory, "NPROC": LIMITS.processes, "FSIZE": LIMITS.disk, "CORE": 0}
    data["CPU"] = 4 * LIMITS.total
    assert {name: seen[name] for name in data} == {name: (most, most) for name, most in data.items()}


def test_the_default_limits_are_the_stated_ones():
    """Do the sandbox's default limits equal those in the README? The test above shows that limits apply.

    A new default changes what the submissions of every course may use. Change it in this test and in the
    README, too.
    """
    MIB = 2**20
    stated = {"cell": 60, "check": 180, "total": 300, "processes": 1024, "memory": 4096 * MIB}
    stated |= {"disk": 256 * MIB, "files": 200 * MIB, "output": 2 * MIB}
    assert dataclasses.asdict(Limits()) == stated and Limits().of_process()["cpu"] == 1200
    readme = (ROOT / "cluster" / "staff" / "engine" / "README.md").read_text(encoding="utf-8")
    for row in (
        "| `memory` | 4 GiB |", "| `processes` | 1,024 |", "| `disk` | 256 MiB |", "| `output` | 2 MiB |",
        "| `cell`, `check`, `total` | 60 s, 180 s, 300 s |", "| `files` | 200 MiB |",
    ):  # fmt: skip
        assert row in readme, row


TRACES = """
import builtins, ctypes, gc, os, sys
libc = ctypes.CDLL(None)
places = [f"{folder}/left-behind" for folder in ("/tmp", "/dev/shm", "/submission", "/var/tmp", ".")]
key = (b"user", b"left-behind")
found = [place for place in places if os.path.exists(place)]
found += ["a name"] * (hasattr(builtins, "left_behind") or hasattr(np, "left_behind"))
found += ["a variable"] * ("left_behind" in os.environ)
found += ["a key"] * (libc.syscall(249, key[0], key[1], None, -3) > 0)
found += ["shared memory"] * (libc.shmget(4711, 0, 0o600) >= 0)
found += ["another's process"] * (len([p for p in os.listdir("/proc") if p.isdigit()]) > 2)
print("found", found, np.random.rand())
for place in places:
    try: open(place, "w").write("x")
    except OSError: pass
builtins.left_behind = np.left_behind = 1
os.environ["left_behind"] = "1"
libc.syscall(248, key[0], key[1], b"x", 1, -3)
libc.shmget(4711, 4096, 0o1600)
for parent in (os.getppid(), 1):
    try: os.kill(parent, 19)
    except OSError: pass
"""


def test_submissions_do_not_affect_each_other(engine):
    """Are one submission's files, changes to libraries, environment variables, keys, shared memory, processes
    and random state gone when the next one is graded?"""
    printed = [
        str(engine.grade(tiny(RIGHT, before=TRACES)).notebook.cells[1].outputs[0]["text"]) for _ in range(3)
    ]
    assert all(text.startswith("found [] ") for text in printed), printed
    assert len(set(printed)) == 3, "all children draw the same random numbers"


def test_provided_names_are_the_instructors(engine):
    """Does a check use the provided function, even if a student's cell has bound the function's name to
    something else?"""
    given = "import numpy as np\nfrom cluster.checks import expect\ndef of_yours(x):\n    return double(x)"
    answer = WRONG + "\ndef of_yours(x):\n    return 2 * x"
    assert outcome(engine.grade(tiny(answer, "assert of_yours(21) == 42", given=given))).score == 0
    assert outcome(engine.grade(tiny(RIGHT, "assert of_yours(21) == 42", given=given))).score == 2


@pytest.mark.parametrize(
    "last", ["double = 1.5", "del double", "helper = None", "import gc; del helper, expect"]
)
def test_a_cell_below_a_check_does_not_change_it(engine, last):
    """Does a check see only what is defined above it, also in the functions that it calls?"""
    answer = "def helper(x):\n    return 2 * x\n\ndef double(x):\n    return helper(x)"
    notebook = tiny(answer, "assert double(21) == 42\n" + hidden("assert double(4) == 8"))
    notebook.cells.append(cell(last))
    assert outcome(engine.grade(notebook)).score == 2
    notebook.cells.insert(3, cell(last.replace(", expect", "")))
    assert outcome(engine.grade(notebook)).score == 0


def test_two_checks_see_a_name_as_it_stands_at_each(engine):
    """If a name is bound again between two checks, does each check see the value above it?"""
    notebook = tiny(RIGHT, "assert double(2) == 4\n" + hidden("assert double(4) == 8"))
    later = "assert double(2) == 2\n" + hidden("assert double(4) == 4")
    notebook.cells += [cell(WRONG), cell(later, "later", locked=True, grade=True, points=1)]
    verdict = engine.grade(notebook)
    assert (outcome(verdict).error, outcome(verdict, "later").error) == ("", "")


def test_only_the_checks_draw_from_the_submissions_seed(engine):
    """Does a check draw the same inputs whenever the seed is the same? Do the notebook's process and provided
    code that uses the student's functions draw others, whatever names the notebook binds?"""
    draw = "fresh_rng(1).integers(2**62)"
    given = f"from cluster.checks import fresh_rng\n\n\ndef of_trial():\n    return double({draw}) // 2"
    answer = f"{RIGHT}\n\nclass Mine:\n    seed = 9\n\n__student__ = Mine()\nmine = {draw}"
    check = f"print(*({draw} for _ in range(2)), of_trial(), mine)"
    cells = [
        cell(given, "given", locked=True),
        cell(answer, "double", solution=True),
        cell(check, "check", locked=True, grade=True, points=1),
    ]

    def drawn(seed):
        verdict = engine.grade(nbformat.v4.new_notebook(cells=cells), seed=seed)
        assert outcome(verdict).score == 1, outcome(verdict).error
        assert verdict.seed == seed
        return verdict.notebook.cells[-1].outputs[0].text.split()

    first, again, trial, mine = drawn(7)
    other = drawn(8)
    assert drawn(7)[0] == first == again and len({first, trial, mine, other[0]}) == 4
    assert other[2:] == [trial, mine]


def test_hidden_values_are_used_last(engine):
    """Are hidden tests run last, so that their values cannot occur in the error of any check's visible
    tests?"""
    answer = "seen = []\ndef double(x):\n    seen.append(x)\n    return 2 * x if x != 3 else str(seen)"
    notebook = tiny(answer, "assert double(1) == 2\n" + hidden("assert double(4711) == 9422"))
    notebook.cells.append(
        cell("assert double(3) == 6, double(3)", "other", locked=True, grade=True, points=1)
    )
    verdict = engine.grade(notebook)
    assert outcome(verdict).score == 2 and "4711" not in outcome(verdict, "other").error
    assert "[1, 3" in outcome(verdict, "other").error


@pytest.mark.parametrize("where", ["cell", "call"])
def test_an_endless_loop_that_ignores_signals(hurried, where):
    """Is an endless loop that ignores signals killed, with a message that explains this?"""
    loop = "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass"
    answer = loop if where == "cell" else "def double(x):\n" + "\n".join("    " + s for s in loop.split("\n"))
    result = outcome(patiently(hurried, tiny(answer)))
    assert (result.score, result.kind) == (0, "limit") and result.error


def test_an_honest_endless_loop_costs_its_own_points_only(hurried):
    """Is an endless loop stopped at its limit, and do later cells and checks still run?"""
    notebook = tiny("def double(x):\n    while x == 21: pass\n    return 2 * x", before="while True: pass")
    notebook.cells.append(cell("assert double(2) == 4", "other", locked=True, grade=True, points=1))
    verdict = patiently(hurried, notebook)
    assert outcome(verdict).error.startswith("TimeLimit") and "2 s" in outcome(verdict).error
    assert outcome(verdict, "other").score == 1


def test_an_output_bomb_is_cut(engine):
    """Is excessive output truncated, with a message and without a loss of points?"""
    bomb = "for _ in range(300): print('x' * 10_000)\nfrom IPython.display import HTML, display\n"
    verdict = engine.grade(tiny(RIGHT, before=bomb + "display(HTML('y' * 10**7))"))
    assert outcome(verdict).score == 2 and verdict.output_cut
    assert len(shown(verdict)) < 4 * LIMITS.output and "output truncated" in shown(verdict)


def test_nothing_of_the_grader_can_be_read(engine, tmp_path):
    """Are the grader's files, environment variables, processes, network and hidden tests inaccessible to a
    submission?"""
    (tmp_path / "canary").write_text(CANARY)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    look = f"""
import os, socket, subprocess
import cluster
seen = [str(dict(os.environ)), str(os.listdir("/proc/1/fd"))]
try: seen.append(open({str(tmp_path / "canary")!r}).read())
except OSError: pass
for folder, folders, files in os.walk(os.path.dirname({str(bubblewrap.__file__)!r})): seen += files
for pid in filter(str.isdigit, os.listdir("/proc")):
    for file in ("environ", "cmdline"):
        try: seen.append(open(f"/proc/{{pid}}/{{file}}").read())
        except OSError: pass
package = os.path.dirname(cluster.__file__)
for folder, folders, files in os.walk(package): seen += [os.path.join(folder, f) for f in files]
for place in ("/etc/shadow", "/course/solutions", "/course/.grading", "/course/tests", "/var"):
    if os.path.exists(place): seen.append("REACHED")
try:
    socket.create_connection(("127.0.0.1", {port}), 2)
    seen.append("REACHED")
except OSError: pass
try:
    open("/course/cluster/x", "w")
    seen.append("REACHED")
except OSError: pass
print(seen)
"""
    verdict = engine.grade(tiny(RIGHT, "hidden_name = 4\nassert double(2) == hidden_name", before=look))
    server.close()
    printed = str(verdict.notebook.cells[1].outputs)
    assert outcome(verdict).score == 2 and "compare.py" in printed
    for word in (CANARY, "REACHED", "hidden_name", "mutants.py", "grader.py", "prepare.py", "Traceback"):
        assert word not in printed


def test_nothing_outlives_the_grading(engine):
    """Have all processes that a submission detached ended when its verdict is returned?"""
    marker = f"sleep 98{os.getpid() % 1000:03}"
    start = f"import subprocess\nsubprocess.Popen(['setsid', *'{marker}'.split()])"
    assert outcome(engine.grade(tiny(RIGHT, before=start))).score == 2
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert marker not in listed.splitlines()


# --- what is not the student's fault ---------------------------------------------------------------------


def bound(pid):
    """Return whether Python already runs below the bubblewrap process `pid`, so that it ends with this
    process."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return any(p.name().startswith("python") for p in psutil.Process(pid).children(recursive=True))
    return False


@pytest.mark.parametrize("whom", ["cold", "child", "server"])
def test_killed_from_outside_is_again(engine, cold, monkeypatch, whom):
    """If a sandbox or the fork server is killed from outside, is the submission regraded rather than scored
    zero? Does grading continue?"""
    engine, started, verdicts = cold if whom == "cold" else engine, [], []
    begin = engine._start
    monkeypatch.setattr(engine, "_start", lambda *a, **k: started.append(begin(*a, **k)) or started[-1])
    slow = tiny(RIGHT, before="import time; time.sleep(15)")
    thread = threading.Thread(target=lambda: verdicts.append(engine.grade(slow)))
    thread.start()
    until = time.monotonic() + 60
    while not started or (whom == "cold" and not bound(started[0].pid)):
        assert time.monotonic() < until, "the sandbox never ran"
        time.sleep(0.01)
    pid = engine.servers.server_for("").process.pid if whom == "server" else started[0].pid
    os.kill(pid, signal.SIGKILL)
    thread.join()
    assert verdicts[0].outcome == "again" and verdicts[0].why
    assert outcome(engine.grade(tiny(RIGHT))).score == 2


def test_starting_a_sandbox_uses_none_of_a_submissions_time(engine, monkeypatch):
    """If a sandbox takes longer to start than the submission's total limit, is the submission still graded as
    usual?"""
    begin, now = engine._start, time.monotonic

    def late(stack, module, *more):
        child = begin(stack, module, *more)
        if module == "student":
            monkeypatch.setattr(time, "monotonic", lambda: now() + 2 * LIMITS.total)
        return child

    monkeypatch.setattr(engine, "_start", late)
    assert outcome(engine.grade(tiny(RIGHT, before="import time; time.sleep(1)"))).score == 2


def test_a_sandbox_that_does_not_start_is_again(cold, monkeypatch):
    """If a sandbox does not start, is the submission marked for grading again, with bubblewrap's own message
    as the reason?"""
    monkeypatch.setattr(bubblewrap, "SYSTEM", [*bubblewrap.SYSTEM, "--ro-bind", "/nowhere", "/nowhere"])
    verdict = cold.grade(tiny(RIGHT))
    assert verdict.outcome == "again" and "nowhere" in verdict.why


def test_what_a_killed_engine_left_is_removed(tmp_path, monkeypatch):
    """Does an autograder remove the folders that killed autograders left, but not those of running ones?"""
    monkeypatch.setattr(leftovers.tempfile, "tempdir", str(tmp_path))
    for name in ("dead", "alive"):
        (tmp_path / f"grading-{name}").mkdir()
    leftovers.claim(tmp_path / "grading-dead").close()
    with leftovers.claim(tmp_path / "grading-alive"):
        leftovers.sweep()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["grading-alive"]


def test_without_bubblewrap_nothing_is_graded(monkeypatch):
    """If bubblewrap is missing, does the autograder refuse to start, with the command that installs it?"""
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    with pytest.raises(CourseError, match="apt-get"):
        Engine().__enter__()


def test_files_that_are_too_large(tmp_path):
    """Does a submission with too much data fail with the reason, before any of its code runs?"""
    need()
    (tmp_path / "large").write_bytes(bytes(2**20 + 1))
    with Engine(limits=Limits(files=2**20)) as engine:
        assert "more than 1 MiB" in outcome(engine.grade(tiny(RIGHT), tmp_path)).error


# --- where Python may be installed -----------------------------------------------------------------------


PLACES, NAMES = ["/tmp", "/dev/shm", "/var/tmp"], ["a blank", "a ' quote", "Ünï", "linked", "plain"]
PYTHONS = [(where, name) for where in PLACES for name in NAMES if ALL or where == "/tmp" or name == "linked"]


@pytest.mark.parametrize(("where", "name"), PYTHONS)
def test_python_may_lie_where_the_sandbox_has_folders_of_its_own(monkeypatch, where, name):
    """If Python is installed below /tmp or a similar folder, can the sandbox read but not write it?"""
    need()
    with tempfile.TemporaryDirectory(dir=where) as top:
        os.chmod(top, 0o755)
        python = os.path.join(top, name)
        os.mkdir(real := os.path.join(top, "real") if name == "linked" else python, 0o755)
        if name == "linked":
            os.symlink(real, python)
        with open(os.path.join(real, "library"), "w") as file:
            file.write("42")
        prefixes = unprivileged.prefixes()
        monkeypatch.setattr(unprivileged, "prefixes", lambda: [*prefixes, python])
        answer = f"""
def double(x):
    try:
        open({python!r} + "/mine", "w")
    except OSError:
        return int(open({python!r} + "/library").read())
"""
        with Engine(workers=1, limits=LIMITS) as engine:
            assert outcome(engine.grade(tiny(answer))).error == ""
            assert bool(engine.cold) == (where != "/var/tmp")


def test_python_in_a_folder_that_a_sandbox_has_itself_is_refused(monkeypatch):
    """If Python is installed in a folder that the sandbox replaces, does the autograder refuse to start, with
    Python's path and advice?"""
    need()
    monkeypatch.setattr(unprivileged, "prefixes", lambda: ["/etc/course/.venv"])
    with pytest.raises(CourseError, match=r"/etc/course/\.venv(.|\n)*another folder"):
        Engine().__enter__()
