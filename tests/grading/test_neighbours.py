"""Submissions do not affect each other: they are parsed in sandboxes, and sizes and times are limited."""

import gc
import os
import sys
import threading
import time

import nbformat
import pytest

from cluster.staff.engine import Limits
from cluster.staff.engine.inside import names
from cluster.staff.engine.inside.channel import Channel
from cluster.staff.engine.inside.errors import AnswerTimeoutError
from cluster.staff.engine.outputs import Outputs
from cluster.staff.grading import gradebook

from .sandboxes import Engine, PatientEngine, cell, need, patiently, tiny

RIGHT = "def double(x):\n    return 2 * x"
MARK = "of_a_student"  # a word that marks student code
COMPILED = []
WATCHING = [False]


def note(event, arguments):
    if WATCHING[0] and event == "compile":
        text = arguments[0]
        text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        if MARK in text or "<cell" in str(arguments[1]):
            COMPILED.append(text[:60])


sys.addaudithook(note)  # an audit hook cannot be removed while the process lives; `WATCHING` enables it


@pytest.fixture(scope="module")
def engine():
    need()
    with PatientEngine(workers=2, limits=Limits(cell=20, check=20, total=120, memory=2**31)) as engine:
        yield engine


def measured(text, answer=RIGHT):
    """Return a submission with a scratch cell that only measures, so grading must search for uses of its
    names."""
    notebook = tiny(answer)
    notebook.cells.insert(2, nbformat.v4.new_code_cell(text, id="own"))
    notebook.metadata["measured"] = ["own"]
    return notebook


def test_no_text_of_a_student_is_compiled_here(engine):
    """Is a cell compiled, parsed or disassembled only in its sandbox, where its limits apply?"""
    COMPILED.clear()
    WATCHING[0] = True
    try:
        verdict = engine.grade(measured(f"{MARK} = 1", f"{RIGHT}  # {MARK}"))
    finally:
        WATCHING[0] = False
    assert verdict.checks["check"].score == 2 and COMPILED == []


@pytest.mark.parametrize(
    "text",
    ["-" * 200_000 + "1", "(" * 5000 + ")" * 5000, "x = 1\0", "a" + ".a" * 100_000, "lambda: " * 3000 + "0"],
    ids=["signs", "brackets", "null", "attributes", "lambdas"],
)
def test_a_cell_that_no_compiler_takes_costs_nothing_else(engine, text):
    """If compiling one cell raises an error or even crashes Python, is the submission still graded?"""
    verdict = engine.grade(measured(text))
    assert verdict.outcome == "graded", verdict.why
    assert verdict.checks["check"].score in (0, 2)  # 0 if Python has crashed
    if text.startswith(("x", "(")):
        assert verdict.checks["check"].score == 2


def test_what_has_arrived_is_not_late():
    """If a message arrives before the deadline, can it still be read after the deadline?"""
    source, target = os.pipe()
    channel = Channel(source, target)
    channel.send({"answer": 42})
    assert channel.receive(0) == {"answer": 42}
    with pytest.raises(AnswerTimeoutError):
        channel.receive(0)


def test_a_message_that_trickles_is_late():
    """Does a reader with a partial message stop waiting at the deadline?"""
    source, target = os.pipe()
    os.write(target, (100).to_bytes(4, "big") + b"{")
    with pytest.raises(AnswerTimeoutError):
        Channel(source, target).receive(0.05)


# --- sizes: every limit, and what lies just below and above it ----------------------------------------------

MIB = 2**20
COUNT = """
import os
def double(x):
    found = {name: os.path.getsize(name) for name in os.listdir()}
    return 2 * x if found == %r else found
"""


@pytest.mark.parametrize("small", [False, True], ids=["usual output", "small output"])
def test_honest_files_of_any_size_are_graded(tmp_path, small):
    """Do files arrive complete if their sizes are at, just below or just above the limits of a part and of a
    message? Do they also arrive if the limit on output is small?"""
    need()
    sizes = [0, 1, 3 * MIB, 4 * MIB, 5 * MIB, 8 * MIB + 1]
    sizes = sorted({max(0, size + more) for size in sizes for more in (-1, 0, 1)})
    for size in sizes:
        (tmp_path / f"{size}.bin").write_bytes(bytes(size))
    limits = Limits(cell=60, check=60, total=240, **({"output": 100_000} if small else {}))
    with Engine(workers=1, limits=limits) as engine:
        verdict = engine.grade(tiny(COUNT % {f"{size}.bin": size for size in sizes}), tmp_path)
    assert verdict.outcome == "graded", verdict.why
    assert verdict.checks["check"].error == "" and verdict.checks["check"].score == 2


def test_long_cells_and_outputs_are_graded(engine):
    """Is a submission graded if a cell has the longest permitted text, in characters of four bytes, and
    another one prints almost as much as permitted?"""
    text = "# " + "\N{GRINNING FACE}" * (2 * MIB - 4)
    notebook = tiny(RIGHT, before=text)
    notebook.cells.insert(2, nbformat.v4.new_code_cell(f"print('x' * {2 * MIB - 200})"))
    verdict = engine.grade(notebook)
    assert verdict.outcome == "graded" and verdict.checks["check"].score == 2


SLIPS = {
    "a huge integer": "def odd(x):\n    return 10 ** 6000",
    "objects in a tensor": "class T:\n    shape = (1,)\n    def numpy(self): return np.array([{}], object)\n"
    "import tensorflow\ndef odd(x):\n    return T()",
    "too large for a message": "def odd(x):\n    return np.zeros(10 ** 7)",
    "a nested list": "def odd(x):\n    for _ in range(100): x = [x]\n    return x",
}


@pytest.mark.parametrize("slip", SLIPS)
def test_an_answer_that_cannot_be_sent_costs_one_check(engine, slip):
    """If a function's result cannot be sent to the test process, does only the check that called the function
    fail?"""
    notebook = tiny(SLIPS[slip] + "\n" + RIGHT, "assert odd(1) == 2")
    after = nbformat.v4.new_code_cell("assert double(2) == 4")
    after.metadata.nbgrader = {
        "grade_id": "after",
        "grade": True,
        "locked": True,
        "solution": False,
        "points": 1,
    }
    notebook.cells.append(after)
    verdict = engine.grade(notebook)
    assert verdict.checks["check"].score == 0 and verdict.checks["check"].kind == "crash"
    assert verdict.checks["after"].error == ""


def test_outputs_of_many_small_parts_are_dropped_soon():
    """Is an output with 300,000 keys dropped within seconds, rather than validated for minutes?"""
    many = {f"a{i}": "" for i in range(300_000)}
    message = {"outputs": [{"output_type": "display_data", "metadata": {}, "data": many}]}
    outputs = Outputs(2**24)
    began = time.process_time()
    assert outputs.take(message) == [] and outputs.cut
    assert time.process_time() - began < 10


# --- time: one budget per submission ------------------------------------------------------------------------

LOOP = "while True: pass"
DEAF = f"import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\n{LOOP}"


def loops(count, text=LOOP):
    notebook = tiny(RIGHT)
    notebook.cells += [nbformat.v4.new_code_cell(text) for _ in range(count)]
    return notebook


@pytest.fixture(scope="module")
def hurried():
    need()
    with Engine(workers=2, limits=Limits(cell=2, check=2, total=20, processes=64)) as engine:
        engine.grade(tiny(RIGHT))
        yield engine


def test_a_cell_that_met_its_limit_is_named(hurried):
    """Do the verdict and the feedback name a cell that reached its time limit? Are the points kept?"""
    verdict = patiently(hurried, loops(1))
    assert verdict.slow == ["code cell 4 reached its limit of 2 s"]
    assert verdict.checks["check"].score == 2
    assert "Code cell 4 reached its limit of 2 s." in gradebook.notes_to_student(verdict.to_json())


@pytest.mark.parametrize("text", [LOOP, DEAF], ids=["loops", "deaf loops"])
def test_a_submission_has_one_budget(hurried, text):
    """Is a submission with many endless cells stopped after its total time, with a message that names such
    cells? Does a check above them keep its points?"""
    notebook = loops(50, text)
    notebook.cells.append(cell("assert double(2) == 4", "below", locked=True, grade=True, points=1))
    verdict = patiently(hurried, notebook)
    assert verdict.outcome == "graded"
    assert [check.score for check in verdict.checks.values()] == [2, 0]
    assert "code cell 4" in verdict.checks["below"].error and "code cell 4" in verdict.slow[0]
    assert len(verdict.slow) < 50, "each of them met its limit"


def test_others_do_not_wait_for_a_submission_that_hangs():
    """Do all honest submissions get their verdicts while another submission is still using its total time?"""
    need()
    began, verdicts = threading.Event(), []
    with Engine(workers=2, limits=Limits(cell=3600, check=60, total=3600)) as engine:

        def hang():
            verdicts.append(engine.grade(loops(1), on_step=lambda *_: began.set()))

        hanging = threading.Thread(target=hang)
        hanging.start()
        assert began.wait(300)
        for _ in range(3):
            assert patiently(engine, tiny(RIGHT)).checks["check"].score == 2
        assert hanging.is_alive() and not verdicts
    hanging.join()  # its sandbox ended with the autograder
    assert verdicts[0].outcome == "again"


# --- killed sandboxes ---------------------------------------------------------------------------------------

KILLS = {
    "strict seccomp": "libc.prctl(22, 1, 0, 0, 0)",
    "strict seccomp, by its own call": "libc.syscall(317, 0, 0, None)",
    "a limit of CPU time": "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nfor _ in range(10**8): pass",
    "a limit of CPU time, by prlimit": "libc.syscall(160, 0, ctypes.byref((ctypes.c_ulong * 2)(1, 1)))\n"
    "for _ in range(10**8): pass",
    "a tracer": """
pid = os.getpid()
if os.fork() == 0:
    libc.ptrace(0x4206, pid, None, ctypes.c_void_p(0x100000))
    os._exit(0)
os.wait()
time.sleep(1)
""",
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are of x86_64")
@pytest.mark.parametrize("how", KILLS)
def test_no_submission_has_itself_killed_as_if_from_outside(engine, how):
    """If a submission makes the kernel kill its process, is it graded, rather than repeated as if the machine
    had failed?"""
    answer = f"import ctypes, os, resource, time\nlibc = ctypes.CDLL(None)\n{KILLS[how]}\n"
    verdict = engine.grade(tiny("def double(x): return x", before=answer))
    assert verdict.outcome == "graded", verdict.why
    assert verdict.checks["check"].score == 0


def test_a_submission_that_used_its_cpu_time_is_graded(monkeypatch):
    """If the kernel kills a process at its limit of CPU time, is the submission graded as if the process had
    ended by itself?"""
    need()
    limits = Limits(cell=60, check=60, total=120, processes=64)
    limits_of_process = limits.of_process() | {"cpu": 2}
    monkeypatch.setattr(Limits, "of_process", lambda self: limits_of_process)
    with Engine(workers=1, limits=limits) as engine:
        verdict = engine.grade(tiny(RIGHT, before=LOOP))
    assert verdict.outcome == "graded", verdict.why
    assert verdict.checks["check"].score == 0 and "code cell 2" in verdict.checks["check"].error


def test_what_honest_code_asks_of_its_limits_is_answered(engine):
    """Can a cell read its resource limits, set the limit of its stack, and start processes and threads?"""
    before = """
import resource, subprocess, sys, threading
resource.setrlimit(resource.RLIMIT_STACK, resource.getrlimit(resource.RLIMIT_STACK))
assert resource.getrlimit(resource.RLIMIT_CPU)[0] > 0
threading.Thread(target=print, args=("thread",)).start()
print(subprocess.run([sys.executable, "-c", "print('process')"], capture_output=True, text=True).stdout)
"""
    verdict = engine.grade(tiny(RIGHT, before=before))
    printed = str(verdict.notebook.cells[1].outputs)
    assert verdict.checks["check"].score == 2
    assert "process" in printed and "thread" in printed and "Error" not in printed


def test_two_threads_parse_cells_at_once():
    """Can several threads parse cells at the same time? Python raises a SystemError if one thread parses
    while the garbage collector runs in another thread's parse."""
    text = "\n".join(f"x{i} = [{i}, {{'a': {i} + 1}}]" for i in range(2000))
    trees = []

    def pause(phase, info):
        time.sleep(1e-4)  # let another thread run

    gc.callbacks.append(pause)
    try:
        threads = [threading.Thread(target=lambda: trees.append(names.parsed(text))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(pause)
    assert [len(tree.body) for tree in trees] == [2000] * 6
