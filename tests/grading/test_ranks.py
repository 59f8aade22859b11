"""A notebook's functions run on ranks of the autograder, which the notebook's process cannot access."""

import nbformat
import numpy as np
import pytest

from cluster.checks import on_ranks, once
from cluster.staff.engine import Limits
from cluster.staff.engine.inside import ask_ranks

from .. import ALL
from .sandboxes import Engine, cell, hidden, need

pytestmark = pytest.mark.ranks
SETUP = """
import horovod.tensorflow as hvd
import tensorflow as tf
from pathlib import Path
from cluster.checks import has_failed, on_ranks
"""
TRIAL = '''
def try_sum(number):
    """The sum of the numbers that the ranks have."""
    return total(number)
'''
OWN = "\n\ndef try_own(number):\n    return number\n"
MEET = "\ndef meet():\n    hvd.allreduce(tf.constant(1.0), name='meet')\n"
RIGHT = "def total(number):\n    return float(hvd.allreduce(tf.constant(float(number)), op=hvd.Sum))"
CHECK = """
found = on_ranks(try_sum, [{"number": 3}, {"number": 4}], seconds=5)
assert [rank.value for rank in found] == [7.0, 7.0], found
"""
CHECK += hidden("""found = on_ranks(try_sum, [{"number": n} for n in (10, 5, 2)], seconds=5)
assert [rank.value for rank in found] == [17.0] * 3, found""")


@pytest.fixture(scope="module")
def engine():
    need()
    with Engine(workers=1, limits=Limits(cell=60, check=240, total=900)) as engine:
        yield engine


@pytest.fixture(scope="module")
def cold():
    need()
    with Engine(workers=1, limits=Limits(cell=60, check=240, total=900), warm=False) as engine:
        yield engine


def notebook(answer, check=CHECK, before="", trial=TRIAL, after="", second=""):
    """Return a notebook with a blank `total`, a provided function that calls it, and one or two checks."""
    cells = [cell(SETUP, "setup", locked=True), cell(before), cell(answer, "total", solution=True)]
    cells += [cell(trial, "trial", locked=True), cell(after)]
    cells += [cell(check, "check", locked=True, grade=True, points=2)]
    cells += [cell(second, "second", locked=True, grade=True, points=1)] if second else []
    return nbformat.v4.new_notebook(cells=cells)


def check(engine, *args, name="check", **others):
    verdict = engine.grade(notebook(*args, **others))
    assert verdict.outcome == "graded", verdict.why
    return verdict.checks[name]


def test_what_needs_all_inputs_comes_from_communication(engine):
    """Does a function that communicates get its points? Does one that does not communicate get none, even if
    it returns the memorised result of the visible tests?"""
    right = check(engine, RIGHT)
    assert (right.score, right.error) == (2, "")
    wrong = check(engine, "def total(number):\n    return 2.0 * number")
    assert wrong.score == 0 and "6.0" in wrong.error and not wrong.hidden
    by_heart = check(engine, "def total(number):\n    return 7.0")
    assert by_heart.score == 0 and by_heart.hidden


FORGERIES = {
    "the trial": "def try_sum(number):\n    return {3: 7.0, 4: 7.0}[number]",
    "the call": """
import cluster.checks.ranks as ranks
on_ranks = ranks.on_ranks = lambda *a, **k: [ranks.Outcome(7.0)] * 2
""",
    "the job": """
import cluster.jobs as jobs
jobs.submit = lambda *a, **k: None
jobs.Job.results = lambda *a: [7.0] * 2
""",
    "the engine": """
import sys
for name in [n for n in sys.modules if n.startswith("cluster.")]:
    for thing in ("on_ranks", "Ranks", "attempt", "Outcome", "has_failed"):
        if hasattr(sys.modules[name], thing):
            setattr(sys.modules[name], thing, lambda *a, **k: [type("O", (), {"value": 7.0})()] * 2)
""",
}


@pytest.mark.parametrize("what", FORGERIES)
def test_what_the_notebooks_process_replaces_counts_for_nothing(engine, what):
    """Does an empty blank get no points, whatever a cell replaces in the notebook's process?"""
    result = check(engine, "def total(number):\n    raise NotImplementedError", after=FORGERIES[what])
    assert result.score == 0 and "NotImplementedError in total()" in result.error


SPY = (
    MEET
    + """
import ctypes, os
from pathlib import Path
def total(number):
    kept = f"the number is {number + 1000}".encode()  # only this rank can know it
    meet()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) != os.getpid():
            for name in ("mem", "environ", "maps", "fd"):
                try:
                    path = f"/proc/{pid}/{name}"
                    os.listdir(path) if name == "fd" else open(path, "rb").read(1)
                    found.append(path)
                except OSError:
                    pass
            if ctypes.CDLL(None).ptrace(16, int(pid), 0, 0) == 0:
                found.append(f"traced {pid}")
    meet()
    raise RuntimeError(f"found {len(found)} of {len(os.listdir('/proc')) > 3}")
"""
)


@pytest.mark.parametrize("kind", ["engine", "cold"])
def test_no_rank_reads_anothers_memory(kind, request):
    """Are the memory, the environment and the open files of all other processes inaccessible to a rank? Do
    ranks also work without the fork server, for more than one call?"""
    second = "assert on_ranks(try_own, [{'number': 1}, {'number': 2}])[1].value == 2"
    verdict = request.getfixturevalue(kind).grade(notebook(SPY, trial=TRIAL + OWN, second=second))
    assert "found 0 of True" in verdict.checks["check"].error
    assert verdict.checks["second"].error == ""


SEARCH = """
import ctypes, re
def total(number):
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # or it could not even read its own
    own, found = [int(digit) for digit in str(number)], []
    for digits in (own, [9 - digit for digit in own]):  # a pattern that does not hold the number itself
        pattern = re.compile("".join(f"[{digit}]" for digit in digits).encode())
        found.append(0)
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
            for words in map(str.split, maps):
                start, end = (int(word, 16) for word in words[0].split("-"))
                if words[1].startswith("rw") and end - start < 2**29:
                    memory.seek(start)
                    found[-1] += len(pattern.findall(memory.read(end - start)))
    raise RuntimeError(f"own: {found[0] > 0}, the other's: {found[1]}")
"""


def test_a_rank_is_told_its_own_inputs_only(engine):
    """Does a rank's memory contain its own input, but not another rank's?"""
    text = "found = on_ranks(try_sum, [{'number': '3131157313'}, {'number': '6868842686'}])\nassert 0, found"
    error = check(engine, SEARCH, text).error
    assert error.count("own: True, the other's: 0") == 2, error


def test_a_hanging_rank_is_named_and_fails_only_its_own_check(engine):
    """If a rank hangs, does the error name the function that hangs? Can the next check still use ranks?"""
    leaves = "def total(number):\n    if hvd.rank() == 1:\n        return 7.0\n" + RIGHT.split("\n")[1]
    second = "assert [r.value for r in on_ranks(try_own, [{'number': 1}, {'number': 2}])] == [1, 2]"
    second += "\nassert has_failed('check') and not has_failed('second')"
    verdict = engine.grade(notebook(leaves, trial=TRIAL + OWN, second=second))
    first, second = verdict.checks["check"], verdict.checks["second"]
    assert "unfinished='total'" in first.error and "value=7.0" in first.error
    assert second.score == 1, second.error


CRASHES = {
    "a signal": "import os, signal\ndef total(number):\n    os.kill(os.getpid(), signal.SIGSEGV)",
    "the end": "import os\ndef total(number):\n    os._exit(0)",
    "everything killed": "import os, signal\ndef total(number):\n    os.kill(-1, signal.SIGKILL)",
    "the parents killed": "import os, signal\ndef total(number):\n    os.kill(os.getppid(), signal.SIGKILL)",
    "an object": "def total(number):\n    return hvd",
    "a large array": "import numpy as np\ndef total(number):\n    return np.zeros(20_000_000)",
    "arrays too large together": "import numpy as np\ndef total(number):\n    return np.zeros(4_000_000)",
    "its folder a link": """
import os
def total(number):
    here = os.getcwd()
    os.rmdir(here)
    os.symlink("/etc", here)
""",
    "its folder closed": "import os\ndef total(number):\n    os.chmod('.', 0), os.chmod('/tmp', 0)",
    "the disk filled": """
def total(number):
    with open("a", "wb") as file:
        while True:
            file.write(bytes(2**20))
""",
}


# Sandboxes with and without the fork server differ only in what happens if a rank kills its parents.
KILLS = [how for how in CRASHES if how.endswith("killed")]
KINDS = [("engine", how) for how in CRASHES] + [("cold", how) for how in (KILLS if ALL else KILLS[-1:])]


@pytest.mark.parametrize(("kind", "how"), KINDS)
def test_a_rank_that_ends_is_a_wrong_answer(kind, how, request):
    """If a rank ends early, damages its folder or returns an unusable value, does its check get no points?
    Can the next check still use ranks, unless the rank killed their supervisor?"""
    second = "assert on_ranks(try_own, [{'number': 1}])[0].value == 1"
    book = notebook(CRASHES[how], trial=TRIAL.replace("return ", "return 0, ") + OWN, second=second)
    verdict = request.getfixturevalue(kind).grade(book)
    result = verdict.checks["check"]
    assert verdict.outcome == "graded" and result.score == 0 and result.error and not result.hidden
    second = verdict.checks["second"]  # there are no more ranks after one has killed the supervisor
    assert second.score == (0 if how.endswith("killed") else 1), second.error


def test_files_are_seen_from_outside(engine):
    """Does the autograder report the sizes, hashes and inodes of a rank's files, and ignore symbolic links
    and pipes? Does each rank start in an empty folder?"""
    writes = """
import os
def total(number):
    assert os.listdir() == []
    Path("a").write_bytes(b"x" * number)
    os.link("a", "b")
    os.symlink("/etc/passwd", "c")
    os.mkfifo("d")
    return 7.0
"""
    text = """
import hashlib
found = on_ranks(try_sum, [{"number": 3}, {"number": 4}])
for number, rank in zip((3, 4), found):
    assert set(rank.files) == {"a", "b"} and rank.files["a"] == rank.files["b"], rank
    assert rank.files["a"][:2] == (number, hashlib.sha256(b"x" * number).hexdigest()), rank
"""
    assert check(engine, writes, text).error == ""


def test_nothing_of_a_call_is_left_for_the_next(engine):
    """Are processes and files that a rank leaves behind gone when the next call begins?"""
    leaves = f"""{MEET}
import os, subprocess
def total(number):
    left = len(os.listdir("/tmp")) - 1, os.path.exists("/dev/shm/left")
    names = [Path(f"/proc/{{pid}}/comm").read_text() for pid in filter(str.isdigit, os.listdir("/proc"))]
    alive = sum("sleep" in name for name in names)
    meet()
    subprocess.Popen(["setsid", "sleep", "600"])
    Path("/tmp/left").write_text("31"), Path("/dev/shm/left").write_text("31")
    return [*left, alive]
"""
    text = """
for again in range(3):
    found = on_ranks(try_sum, [{"number": 3}, {"number": 4}], again=again > 0)
    assert [r.value for r in found] == [[0, False, 0]] * 2, found
"""
    assert check(engine, leaves, text, trial=TRIAL.replace("return ", "return ")).error == ""


def test_the_notebooks_text_makes_the_function(engine):
    """Can a function on a rank use the notebook's helpers and imports? Do provided definitions replace a
    student's, and are cells that only compute skipped?"""
    before = "%matplotlib inline\nfrom math import fsum as add\nOFFSET = 0.0"
    answer = "class Adder:\n    def __call__(self, a):\n        return add(a) + OFFSET\n\n"
    answer += RIGHT.replace("float(hvd", "Adder()([float(hvd") + "])"
    after = "def try_sum(number):\n    return 1\n\nraise_something = 1 / 0\n"
    assert check(engine, answer, before=before, after=after).error == ""
    assert "NameError in total()" in check(engine, "def total(number):\n    return nothing").error
    assert "NameError" in check(engine, "def total(number)\n    return").error


def test_functions_may_be_inputs(engine):
    """If one of the student's functions is an input, do the ranks find it by its name?"""
    trial = "def try_sum(script, number):\n    return script(number)\n"
    text = "found = on_ranks(try_sum, [{'number': n, 'script': total} for n in (3, 4)])\n"
    assert (
        check(engine, RIGHT, text + "assert [r.value for r in found] == [7.0, 7.0], found", trial=trial).score
        == 2
    )


class Slow:
    """A channel to two ranks. In the first call, `unfinished` of them do not end."""

    def __init__(self, unfinished):
        self.calls, self.unfinished = 0, unfinished

    def send(self, message):
        self.calls += "function" in message

    def receive(self, seconds):
        ended = [{"value": 7, "files": {}}] * 2
        late = [{"unfinished": "total", "files": {}}] * self.unfinished
        return {"ranks": (late + ended)[:2] if self.calls == 1 else ended}


@pytest.mark.parametrize(("unfinished", "calls"), [(0, 1), (1, 1), (2, 2)])
def test_where_no_rank_ends_they_are_asked_once_more(unfinished, calls):
    """If no rank ends in time, is the call repeated once, in case the machine was busy for a moment?"""
    channel = Slow(unfinished)
    result = ask_ranks.Ranks(channel, lambda function: function.__name__)(
        swap, [{"number": 1}] * 2, 5, False, ""
    )
    assert channel.calls == calls
    assert [outcome.unfinished for outcome in result].count("total") == unfinished % 2


def swap(hold, number):
    return hold(number)


def hold(number):
    np.save("number.npy", number)
    return {"number": number, "array": np.arange(2)}


def stop(number):
    raise KeyError(number)


@pytest.mark.parametrize("ranks", [1, 2])
def test_in_a_notebook_ranks_are_a_job(ranks):
    """In a student's notebook, do ranks run as a job and return their values, errors and files? Is the result
    cached unless `again` is set?"""
    given = [{"hold": hold, "number": n} for n in range(ranks)]
    result = on_ranks(swap, given)
    assert [value.value["number"] for value in result] == list(range(ranks)), result
    assert all([*value.files] == ["number.npy"] for value in result)
    assert [value.files for value in on_ranks(swap, given)] == [value.files for value in result]
    assert [value.files for value in on_ranks(swap, given, again=True)] != [value.files for value in result]
    error = on_ranks(swap, [given[0] | {"hold": stop}])[0].error
    assert error.startswith("KeyError") and error.endswith(": 0")


CHANGES = """
calls = []
def recipe():
    calls.append(1)
    return {"steps": 100 // len(calls), "rates": [1.0]}
"""


def test_what_one_check_has_judged_is_what_the_others_use(engine):
    """If each call of a function has another answer, does every check get the first one?"""
    ask = "from cluster.checks import once\nfound = once('recipe', recipe)\n"
    ask += "assert found == {'steps': 100, 'rates': [1.0]}, found\n"
    ask += "found['rates'].append(2.0)"  # its own copy
    cells = [cell(CHANGES, "recipe", solution=True)]
    cells += [
        cell(f"{ask}\n{hidden(ask)}", name, locked=True, grade=True, points=1)
        for name in ("one", "two", "three")
    ]
    checks = engine.grade(nbformat.v4.new_notebook(cells=cells)).checks
    assert {name: (check.score, check.error) for name, check in checks.items()} == dict.fromkeys(
        checks, (1, "")
    )


def test_a_notebook_asks_again():
    """Does `once` see in a notebook what a student has changed since?"""
    values = iter([1, 2])
    assert [once("values", next, values) for _ in range(2)] == [1, 2]


def test_the_points_of_checks_that_judge_one_value_are_those_of_one_run(engine):
    """If a function has another answer in each process, does each set of points belong to a single answer?

    The hidden part of each check accepts other answers, and no answer passes more than one of them. So that
    the second run is needed, one more check passes only there.
    """
    answer = "import os\ndef recipe():\n    return int.from_bytes(os.urandom(8), 'big') % 3\n"
    answer += "state = [0]\ndef read():\n    return state[0]"
    ask = "from cluster.checks import once\nassert read() == 0\nfound = once('recipe', recipe)\n"
    cells = [cell(answer, "recipe", solution=True)]
    for wanted in range(3):
        check = "assert True\n" + hidden(f"{ask}assert found == {wanted}")
        cells.append(cell(check, f"check-{wanted}", locked=True, grade=True, points=1))
    cells.append(
        cell("assert True\n" + hidden("assert read() == 0"), "state", locked=True, grade=True, points=1)
    )
    for later, most in (("", 2), ("state[0] = 1", 2)):
        checks = engine.grade(nbformat.v4.new_notebook(cells=[*cells, cell(later)])).checks
        assert checks["state"].score == 1
        assert sum(check.score for check in checks.values()) == most
