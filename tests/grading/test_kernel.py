"""What all processes of a kernel share does not connect sandboxes: keys, users, caches, terminals, limits."""

import os
import subprocess
import sys
import threading
from collections import defaultdict

import nbformat
import pytest

from cluster.staff import engine as engines
from cluster.staff.engine import Limits
from cluster.staff.engine.inside import remote
from cluster.staff.engine.inside.channel import Channel
from cluster.staff.engine.inside.errors import AnswerTimeoutError, NoAnswerError
from cluster.staff.engine.pace import family
from cluster.staff.engine.sandbox import unprivileged

from .probes import FAMILIES, IN_TRANSIT
from .sandboxes import Engine, cell, need, tiny

LIMITS = Limits(cell=60, check=120, total=600, memory=3 * 2**30)
RIGHT = "def double(x):\n    return 2 * x"


@pytest.fixture(scope="module")
def engine():
    need()
    with Engine(workers=2, limits=LIMITS) as engine:
        yield engine


@pytest.fixture(scope="module")
def cold():
    need()
    with Engine(workers=1, limits=LIMITS, warm=False) as engine:
        yield engine


def of(how, request):
    return request.getfixturevalue({"forked": "engine", "cold": "cold"}[how])


def everywhere(code, name):
    """Return a notebook whose check fails with what `name`() of `code` returns in each kind of sandbox."""
    given = (
        f"from cluster.checks import on_ranks\nfrom cluster.network.recorded import recorded_on_ranks\n{code}"
    )
    of_student = f"{code}\ndef student(*_):\n    return {name}()"
    depends = "def trial():\n    return student()"
    check = f"""
found = {{"test process": {name}(), "student": student(), "trials": trial()}}
found |= {{"a rank": on_ranks(student, [{{}}, {{}}], seconds=20)[1]}}
calls, _ = recorded_on_ranks(student, [[[], []]], seconds=20)
found |= {{"a relayed rank": calls[0].values[0] if not calls[0].error else calls[0].error}}
found["a rank"] = found["a rank"].value if not found["a rank"].error else found["a rank"].error
assert not any(found.values()), found
"""
    cells = [cell(given, "given", locked=True), cell(of_student, "answer", solution=True)]
    cells += [cell(depends, "depends", locked=True), cell(check, "check", locked=True, grade=True, points=2)]
    return nbformat.v4.new_notebook(cells=cells)


STARTERS = ("sh", "unshare", "mount", "setpriv", "prlimit")  # start bubblewrap, in its place
STAYS = "\ndef stays():\n    import subprocess\n    subprocess.run(['sleep', '0.3'])\n    return families()"


class Watch:
    """All processes of all sandboxes that an engine starts, seen from outside until `stop`."""

    def __init__(self, engine, monkeypatch):
        self.started, self.seen, self.over = [], {}, threading.Event()
        begin = engine._start

        def start(stack, module, *more):
            child = begin(stack, module, *more)
            self.started.append((module, child, [*child.group.folders]))
            return child

        monkeypatch.setattr(engine, "_start", start)
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.over.wait(0.05):
            for module, child, folders in [*self.started]:
                for pid in family(child.pid) if child.pid else ():
                    try:
                        self.seen[pid] = (module, child, self.about(pid, folders))
                    except (OSError, LookupError):
                        continue  # it has just ended

    def about(self, pid, folders):
        with open(f"/proc/{pid}/limits") as file:
            limits = {line[:25].strip(): line[26:46].strip() for line in file}
        with open(f"/proc/{pid}/cgroup") as file:
            groups = file.read()
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        status["VmRSS"]  # a process that is ending has none, and has left its group
        return {
            "name": status["Name"],
            "filter": status["Seccomp"],
            "users": {*status["Uid"].split(), *status["Gid"].split(), *status["Groups"].split()},
            "data": limits["Max data size"],
            "signals": limits["Max pending signals"],
            "grouped": all(f"/{folder.name}\n" in groups for folder in folders),
        }

    def stop(self):
        self.over.set()
        self.thread.join()


@pytest.fixture(scope="module", params=["forked", "cold"])
def graded(request):
    """The kind of sandbox, its engine, a verdict, and what was seen from outside until then."""
    engine = of(request.param, request)
    with pytest.MonkeyPatch.context() as monkeypatch:
        watch = Watch(engine, monkeypatch)
        try:
            verdict = engine.grade(everywhere(FAMILIES + STAYS, "stays"))
        finally:
            watch.stop()
    return request.param, engine, verdict, watch


@pytest.mark.ranks
def test_no_sandbox_reaches_what_belongs_to_a_user_or_the_machine(graded):
    """Are keys, other processes, asynchronous calls, caches and watches of files denied in every kind of
    sandbox, to every process and thread in it, and in every ABI?"""
    _, _, verdict, _ = graded
    assert verdict.outcome == "graded", verdict.why
    assert verdict.checks["check"].error == ""


@pytest.mark.ranks
def test_every_process_of_every_sandbox_is_limited_and_has_its_sandboxs_user(graded):
    """Does every process, supervisors and ranks included, have a filter and a limit of memory, and count for
    its sandbox's control group? Does no other sandbox, and no process of the host, have its user?"""
    how, engine, _, watch = graded
    kinds = {module for module, *_ in watch.seen.values()}
    assert kinds == {"student", "trials", "rank_sandbox", "test_process"}
    ranks = [pid for pid, (module, *_) in watch.seen.items() if module == "rank_sandbox"]
    assert len(ranks) >= 7  # process 1, and for each call a supervisor and two ranks
    users = defaultdict(set)
    for pid, (module, child, about) in watch.seen.items():
        if about["name"] in STARTERS:
            continue
        assert about["grouped"] and about["data"] == str(LIMITS.memory), (pid, module, about)
        if about["name"] != "bwrap":
            assert about["signals"] == "1024", (pid, module, about)
            assert about["filter"] == "2", (pid, module, about)
            users[child] |= about["users"]
    assert len(engine.sandbox.users.taken) == 0
    if unprivileged.shared() or (how == "cold" and not unprivileged.droppable()):
        return
    found = [int(user) for own in users.values() for user in own]
    assert len({*found}) == len(found) == 4 and os.getuid() not in found, users
    assert not {*found} & {0, unprivileged.NOBODY}


def test_a_user_at_a_limit_is_alone():
    """If a submission has as many open files in transit and signals in queues as one user may have, can
    another sandbox still send one, and does grading continue?"""
    need()
    given = f"{IN_TRANSIT}\ndef trial():\n    return double(1), *send_one()"
    answer = f"{IN_TRANSIT}\nsent = fill()\ndef double(x):\n    return 2"
    check = "assert min(sent) > 500 and trial() == (2, 0, 0) and send_one() == (0, 0), (sent, trial())"
    if unprivileged.shared():
        pytest.skip(unprivileged.shared())
    with Engine(workers=1, limits=LIMITS) as engine:
        verdict = engine.grade(tiny(answer, check, given=given))
    assert verdict.outcome == "graded" and verdict.checks["check"].error == ""


@pytest.mark.parametrize("how", ["forked", "cold"])
def test_terminals_are_private(how, request):
    """Does a sandbox see no terminal that another one has opened, and can it open its own?"""
    answer = "import os\npair = os.openpty()\ndef double(x):\n    return os.ttyname(pair[1])"
    check = "import os\nassert double(1) == '/dev/pts/0' and os.listdir('/dev/pts') == ['ptmx']"
    verdict = of(how, request).grade(tiny(answer, check))
    assert verdict.checks["check"].error == "", verdict.notebook


# --- the users ----------------------------------------------------------------------------------------------


def test_no_two_running_sandboxes_have_one_user(monkeypatch):
    """Does `take` return each place of a range at most once, until it is free again?"""
    monkeypatch.setattr(unprivileged, "shared", lambda: "")
    monkeypatch.setattr(unprivileged, "ranges", lambda: [(10, 5), (100, 3)])
    users = unprivileged.Users()
    taken = [users.take() for _ in range(3)]
    assert {*taken} == {1, 2, 3}
    users.free(taken[1])
    users.free(None)
    assert users.take() == taken[1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("other:100000:65536\n", None),
        ("grader:100000:1\n", None),
        ("other:1:9\ngrader:165536:65536\n", (165536, unprivileged.MOST)),
        ("not a row\n1234:200000:2000\n", (200000, 2000)),
    ],
)
def test_the_range_of_an_account(monkeypatch, tmp_path, text, found):
    """Is the range found by the account's name or number? Is a missing or small one named, so that the site
    can add it?"""
    (tmp_path / "subuid").write_text(text)
    monkeypatch.setattr(unprivileged, "RANGES", [str(tmp_path / "subuid"), str(tmp_path / "subuid")])
    monkeypatch.setattr(unprivileged.os, "getuid", lambda: 1234)
    monkeypatch.setattr(unprivileged.getpass, "getuser", lambda: "grader")
    if found:
        assert unprivileged.ranges() == [found, found]
    else:
        with pytest.raises(LookupError, match=r"grader.*subuid"):
            unprivileged.ranges()


def test_without_a_range_sandboxes_still_start(monkeypatch):
    """If this account has no range of users, are submissions graded, and is the reason known?"""
    need()
    monkeypatch.setattr(unprivileged, "shared", lambda: "no range")
    with Engine(workers=1, limits=LIMITS) as engine:
        assert engine.grade(tiny(RIGHT)).checks["check"].score == 2 and engine.cold == ""


# --- limits of the autograder -------------------------------------------------------------------------------


def test_the_autograder_may_open_more_files_than_a_sandbox_has_in_transit():
    """Does the autograder raise its own limit to the hard one, or to 65,536?"""
    code = """
import resource
from cluster.staff.engine import engine
resource.setrlimit(resource.RLIMIT_NOFILE, (100, %d))
engine.raise_limits()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    for hard, soft in [(3000, 3000), (20000, 20000)]:
        done = subprocess.run([sys.executable, "-c", code % hard], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [str(soft), str(hard)]


def test_a_channel_has_descriptors_of_any_number():
    """Does a message arrive if many submissions have used the first thousand descriptors?"""
    engines.engine.raise_limits()
    source, target = os.pipe()
    os.dup2(source, 1500), os.dup2(target, 1501)
    channel = Channel(1500, 1501)
    try:
        channel.send({"answer": 42})
        assert channel.receive(1) == {"answer": 42}
        with pytest.raises(AnswerTimeoutError):
            channel.receive(0)
    finally:
        for fd in (source, target, 1500, 1501):
            os.close(fd)


# --- one clock per check ------------------------------------------------------------------------------------


class Caller:
    """A student process that answers each message by calling the check's function, `seconds` later."""

    def __init__(self, monkeypatch, seconds, most=10_000):
        self.now, self.seconds, self.most, self.calls = 0.0, seconds, most, 0
        monkeypatch.setattr(remote.time, "monotonic", lambda: self.now)

    def send(self, message):
        self.now += self.seconds / 2

    def receive(self, seconds):
        if self.seconds / 2 > seconds:
            self.now += seconds
            raise AnswerTimeoutError("no answer in time")
        self.now += self.seconds / 2
        self.calls += 1
        if self.calls == self.most:
            return {"value": 42}
        return {"back": 0, "args": [], "kwargs": {}}


@pytest.mark.parametrize("seconds", [0.1, 1.0, 2 * remote.GRACE - 0.1, 0.0])
def test_calls_of_a_checks_functions_do_not_extend_it(monkeypatch, seconds):
    """Does a check that student code calls without end stop at its limit, however often it calls?"""
    caller = Caller(monkeypatch, seconds)
    student = remote.Student(caller)
    student.until(8)
    if not seconds:  # a call takes no time, so only the end of the calls ends the check
        assert student.ask("call") == {"value": 42}
        return
    with pytest.raises(NoAnswerError):
        student.ask("call")
    assert caller.now <= 8 + remote.GRACE + seconds and caller.calls <= (8 + remote.GRACE) / seconds + 1


def test_time_of_the_test_process_counts_for_the_submission(engine, monkeypatch):
    """Does a submission's clock include the test process, which computes while student code calls it?"""
    watch = Watch(engine, monkeypatch)
    found = []
    listen = engines.engine.GradedNotebook.listen

    def listened(self, *args, **place):
        found.append([*self.pace.pids])
        return listen(self, *args, **place)

    monkeypatch.setattr(engines.engine.GradedNotebook, "listen", listened)
    try:
        assert engine.grade(tiny(RIGHT)).checks["check"].score == 2
    finally:
        watch.stop()
    assert found == [[child.pid for _, child, _ in watch.started]]
