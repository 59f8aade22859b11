"""The official check shows a submission's score, and nothing hidden."""

import asyncio
import contextlib
import io
import json
import random
import re
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port

from cluster.pages import official_check as pages
from cluster.staff import engine, failures, hidden
from cluster.staff.course import SubmissionError, assignments
from cluster.staff.engine import Check, Verdict
from cluster.staff.hidden import as_released, has_hidden, hidden_lines
from cluster.staff.official_check import answers, fixed_time, service
from cluster.staff.official_check.attempt_limits import HOUR, Limits, Records, Refused, curve
from cluster.staff.official_check.checker import Attempt, Checker
from cluster.staff.release.wrong_solutions import fill
from cluster.staff.results import misconceptions
from cluster.staff.submissions import safe_zip
from cluster.staff.work_files import MOST

from .. import ALL, ROOT
from . import test_archives as archives
from .classes import NAME
from .courses import write_mutant

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
NOW = 1_800_000_000.0


def packed(files):
    """Return a ZIP archive of {name: text or bytes}."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def source_of(assignment):
    return misconceptions.source_of(ROOT, assignment)


def verdict_of(notebook, fails, rng):
    """Return a Verdict in which the checks named in `fails` have failed hidden tests, in a way that `rng`
    draws."""
    checks = {}
    for cell in notebook.cells:
        role = cell.metadata.get("nbgrader", {})
        if not role.get("grade") or cell.cell_type != "code" or role.get("solution"):
            continue
        most = float(role["points"])
        check = Check(most, most)
        if role["grade_id"] in fails:
            lines = zip(cell.source.split("\n"), hidden_lines(cell.source), strict=True)
            words = rng.choice([line for line, own in lines if own])
            error = f"{rng.choice(['AssertionError', 'ValueError', 'TimeLimit'])}: {words}"
            error += rng.choice(["", f" Likely: {words}", f" {rng.random()}"])
            kind = rng.choice([failures.VALUE, failures.FORM, failures.CRASH, failures.EMPTY, failures.LIMIT])
            check = Check(0.0, most, error, True, rng.random(), kind)
            if rng.random() < 0.2:  # the total time was over before this check
                check = Check(0.0, most, f"{hidden.LATE} than 120 s", kind=failures.LIMIT)
        checks[role["grade_id"]] = check
    return Verdict("graded", checks=checks, notebook=notebook)


def with_hidden(notebook):
    """Return the names of the checks with hidden tests."""
    graded = (cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade"))
    return [cell.metadata.nbgrader.grade_id for cell in graded if has_hidden(cell.source)]


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_nothing_of_a_hidden_part_is_revealed(assignment):
    """Does the answer depend only on which checks fail, and not on how their hidden tests fail? Is it free of
    lines and numbers that occur only in hidden tests?"""
    notebook, mutants = source_of(assignment), misconceptions.mutants_of(ROOT, assignment)
    names, rng = with_hidden(notebook), random.Random(assignment)
    assert names
    shown = "\n".join(as_released(cell.source) for cell in notebook.cells)
    shown += "\n".join(mutant.misunderstanding for mutant in mutants)
    lines, numbers = set(), set()
    for cell in notebook.cells:
        for line, own in zip(cell.source.split("\n"), hidden_lines(cell.source), strict=True):
            if own and len(line.strip()) > 8:
                lines.add(line.strip())
                numbers |= set(NUMBER.findall(line))
    points = {f"{float(cell.metadata.nbgrader.points):g}" for cell in notebook.cells
              if cell.metadata.get("nbgrader", {}).get("grade")}  # fmt: skip
    numbers -= set(NUMBER.findall(shown)) | points
    answers_of = {}
    for _ in range(100 if ALL else 25):
        fails = tuple(sorted(rng.sample(names, rng.randint(1, min(3, len(names))))))
        text = json.dumps(answers.answer(verdict_of(notebook, fails, rng), mutants))
        assert answers_of.setdefault(fails, text) == text
    for fails, text in answers_of.items():
        output = " ".join(
            f"{row['title']} {row['words']} {row['misunderstanding']}" for row in json.loads(text)["checks"]
        )
        assert not [line for line in lines if line in text]
        assert not numbers & set(NUMBER.findall(output))
        data = {row["name"]: row for row in json.loads(text)["checks"]}
        assert all(data[name]["points"] == 0 and data[name]["state"] == "hidden" for name in fails)


def test_a_misconception_is_one_of_the_written_ones():
    """Does the answer contain a misconception only if it is one of the checks' own sentences, rather than
    text from the student?"""
    assignment = assignments(ROOT)[0]
    notebook, mutants = source_of(assignment), misconceptions.mutants_of(ROOT, assignment)
    graded = verdict_of(notebook, (), random)
    text, one = sorted(answers.sentences(notebook, mutants))[0], next(iter(graded.checks))
    graded.checks[one] = Check(0.0, 1.0, f"AssertionError: x. Likely: {text}", False, 0, failures.VALUE)
    answer = answers.answer(graded, mutants)["checks"]
    assert [row["misunderstanding"] for row in answer if row["misunderstanding"]] == [text.rstrip(".")]
    graded.checks[one] = Check(
        0.0, 1.0, "AssertionError: x. Likely: the secret is 42", False, 0, failures.VALUE
    )
    assert "42" not in json.dumps(answers.answer(graded, mutants))


def test_a_crash_in_hidden_parts_is_not_diagnosed():
    """If checks fail as with a mutant, but only in hidden tests, does the answer omit this mutant's
    misconception?"""
    for assignment in assignments(ROOT):
        notebook, mutants = source_of(assignment), misconceptions.mutants_of(ROOT, assignment)
        names = set(with_hidden(notebook))
        for mutant in [mutant for mutant in mutants if mutant.fails <= names][:4]:
            answer = answers.answer(verdict_of(notebook, mutant.fails, random.Random(0)), mutants)
            assert not [check for check in answer["checks"] if check["misunderstanding"]]


def test_limits_per_hour_and_in_total():
    """Are three attempts possible at once, and a fourth one an hour after the first? Are no more attempts
    possible once the total limit is reached?"""
    limits = Limits(3, 5)
    tries = [NOW, NOW + 60, NOW + 120]
    assert limits.left([], NOW) == 3 and limits.opens([], NOW) == NOW
    assert limits.left(tries, NOW + 130) == 0
    assert limits.opens(tries, NOW + 130) == NOW + HOUR
    assert limits.left(tries, NOW + HOUR) == 1
    assert limits.left([*tries, NOW + HOUR], NOW + 9 * HOUR) == 1
    assert limits.opens([*tries, NOW + HOUR, NOW + HOUR], NOW + 99 * HOUR) is None
    assert Limits(0, 5).left([], NOW) == 0 and Limits(0, 5).opens([], NOW) is None
    with pytest.raises(ValueError, match="an_hour = -1"):
        Limits(-1, 5)


def test_a_thousand_attempts_are_limited_to_thirty(tmp_path):
    """Of 1,000 attempts in two weeks, do only the 30 permitted in total start? Of 40 simultaneous attempts,
    do only the 3 permitted per hour start?"""
    records, begun = Records(tmp_path, NAME), 0
    for n in range(1000):
        with contextlib.suppress(Refused):
            records.begin("eve", NOW + 1200 * n)
            begun += 1
    assert begun == 30 == len(records.of("eve")["tries"])
    again = Records(tmp_path, NAME)  # a restarted service
    with pytest.raises(Refused, match="30"):
        again.begin("eve", NOW + 10**9)
    with ThreadPoolExecutor(40) as pool:
        pressed = [pool.submit(Records(tmp_path, NAME).begin, "ada", NOW) for _ in range(40)]
    assert [press.exception() for press in pressed].count(None) == 3


def test_an_odd_name_is_a_file_of_its_own(tmp_path):
    """Does a student name with slashes, dots or punctuation get its own file inside the folder?"""
    records = Records(tmp_path, NAME)
    for name in ("../../ada", "ada", "..", "a/b", "Ä %2F"):
        records.begin(name, NOW)
    assert set(records.all()) == {"../../ada", "ada", "..", "a/b", "Ä %2F"}
    assert not [path for path in tmp_path.rglob("*.json") if path.parent != records.students]


def test_the_curve_of_a_class():
    """Does the curve of a class show the attempts so far and the median of the best scores, as computed by
    hand?"""
    tries = {
        "ada": [{"at": NOW, "points": 2.0, "of": 4.0}, {"at": NOW + 2 * HOUR, "points": 4.0, "of": 4.0}],
        "ben": [{"at": NOW + HOUR, "points": 1.0, "of": 4.0}, {"at": NOW + 3 * HOUR}],
    }
    counted, shares = curve(tries)
    assert counted == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert shares == [(0, 50), (1, 37.5), (2, 62.5)]
    assert curve({}) == ([], [])


def test_what_a_students_server_packs(tmp_path):
    """Does a student's server pack the regular files below the folder, but no links? Is a folder that is too
    large refused with a message?"""
    folder = tmp_path / "work"
    (folder / "runs").mkdir(parents=True)
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "old.ipynb").write_text("{}")
    (folder / "a.ipynb").write_text("{}")
    (folder / "runs" / "r.json").write_text("1")
    (folder / "link").symlink_to("/etc/passwd")
    (tmp_path / "sent.zip").write_bytes(pages.pack(folder))
    safe_zip.unpack(tmp_path / "sent.zip", tmp_path / "sent", largest=10**6, most=10)
    results = {str(p.relative_to(tmp_path / "sent")) for p in (tmp_path / "sent").rglob("*") if p.is_file()}
    assert results == {"a.ipynb", "runs/r.json"}
    with open(folder / "hole", "wb") as file:
        file.truncate(pages.LARGEST + 1)
    with pytest.raises(pages.FolderTooLarge, match="200 MiB"):
        pages.pack(folder)
    assert (service.SENT, engine.Limits().files, MOST) == (pages.SENT, pages.LARGEST, pages.MOST)


@pytest.fixture(scope="module")
def checker(released, tmp_path_factory):
    """A Checker for the tiny course with one mutant."""
    import shutil

    root = shutil.copytree(released, tmp_path_factory.mktemp("checked") / "course")
    write_mutant(root, "thrice", {"double-of-one", "double-of-others"}, "3 * x")
    instance = Checker(root, workers=2)
    yield instance
    instance.close()


def work(checker, answer):
    """Return an archive of the tiny assignment with this answer in its cell."""
    root = checker.root
    source = nbformat.read(root / "solutions" / NAME / "doubling.ipynb", as_version=4)
    released = nbformat.read(root / "exercises" / NAME / "doubling.ipynb", as_version=4)
    return packed({"doubling.ipynb": nbformat.writes(fill(released, source, {"double": answer}))})


ATTACKS = {
    "knows the shown values": "return {1: 2, 0.1 + 0.2: 0.2 + 0.4}.get(x, 0)",
    "says what it was given": """
        if x in (1, 0.1 + 0.2):
            return 2 * x
        print(x)
        raise ValueError(f"I was given {x!r}")
    """,
    "has another kind of result": "return 2 * x if x in (1, 0.1 + 0.2) else str(x)",
    "ends its process": "import os\nreturn 2 * x if x in (1, 0.1 + 0.2) else os._exit(3)",
    "says that the hole is empty": """
        if x in (1, 0.1 + 0.2):
            return 2 * x
        raise NotImplementedError(x)
    """,
    "sleeps for what it was given": """
        import time
        if x not in (1, 0.1 + 0.2):
            time.sleep(x / 10)
            return 0
        return 2 * x
    """,
}


def test_attacks_that_the_engine_answers(checker):
    """Do all attempts to reveal a hidden test's values get the same answer, and no points for that test?"""
    import textwrap

    right = checker.check("ada", NAME, work(checker, "return 2 * x"))
    assert (right["points"], right["of"]) == (3, 3)
    messages = set()
    for n, answer in enumerate(ATTACKS.values()):
        submission = checker.check(f"eve{n}", NAME, work(checker, textwrap.dedent(answer).strip()))
        (check,) = [check for check in submission["checks"] if check["name"] == "double-of-others"]
        assert (check["points"], check["state"]) == (0, "hidden"), submission
        assert submission["points"] == 1
        messages.add(json.dumps(submission))
    assert len(messages) == 1 and "17" not in (text := messages.pop()) and "34" not in text


def test_the_answer_is_that_of_grading(checker):
    """Do an incorrect, an unsolved and a crashing submission get the right points and states? Is the same
    submission graded only once?"""
    wrong = work(checker, "return 3 * x")
    answer = checker.check("ben", NAME, wrong)
    assert answer["points"] == 0
    assert {check["misunderstanding"] for check in answer["checks"]} == {""}  # no check recognised the value
    assert {check["state"] for check in answer["checks"]} == {"shown"}
    assert checker.check("ben", NAME, wrong) == answer
    records = Records(checker.checks, NAME)
    assert len(records.of("ben")["tries"]) == 1
    assert records.standing("ben", time.time())["left"] == 2
    assert not list(checker.checks.rglob("*.ipynb")), "nothing that a backup would meet half-made"
    empty = checker.check("ben", NAME, work(checker, "raise NotImplementedError"))
    assert {check["state"] for check in empty["checks"]} == {"to do"}
    ends = nbformat.read(checker.root / "exercises" / NAME / "doubling.ipynb", as_version=4)
    ends.cells[1].source = "import os\nos._exit(1)"
    ended = checker.check("ben", NAME, packed({"doubling.ipynb": nbformat.writes(ends)}))
    assert ended["points"] == 0 and ended["trouble"]
    with pytest.raises(Refused, match="3"):
        checker.check("ben", NAME, work(checker, "return 4 * x"))


@pytest.mark.parametrize(
    "files, message",
    [
        ({}, "No notebook"),
        ({"doubling.ipynb": ""}, "empty"),
        ({"doubling.ipynb": "{{{"}, "JSON"),
        ({"doubling.ipynb": "[" * 100_000}, "deep"),
        ({"doubling.ipynb": json.dumps({"nbformat": 4, "cells": [{"cell_type": "x"}]})}, "type"),
        ({"doubling.ipynb": b" " * (51 * 2**20)}, "at most 50"),
        ({"a.ipynb": "{}", "b.ipynb": "{}"}, "rename"),
        ({"../x": "1"}, "outside"),
        ({"a": "1", "a/b": "2"}, "a/b"),
        ({f"{n}": "" for n in range(MOST + 1)}, str(MOST)),
        ({"x": b"\0" * (engine.Limits().files + 1)}, "200 MiB"),
        (bytes(archives.BAD["damaged bzip2"]), r"one\.ipynb"),
        (bytes(archives.BAD["damaged lzma"]), r"one\.ipynb"),
        (b"", "archive"),
        (packed({"doubling.ipynb": "x" * 5000})[:40], "archive"),
        (packed({"doubling.ipynb": "x" * 5000}).replace(b"doub", b"Xoub", 1), "archive"),
    ],
    ids=range(16),  # an archive contains the time
)
def test_an_unreadable_submission_uses_no_attempt(checker, files, message):
    """Is an unreadable submission or archive refused with a message, without using up an attempt?"""
    with pytest.raises(SubmissionError, match=message):
        checker.check("kim", NAME, files if isinstance(files, bytes) else packed(files))
    assert Records(checker.checks, NAME).of("kim")["tries"] == []


class Hub:
    """A fake hub that knows tokens of students, of a user without the scope, and of a service."""

    def user_for_token(self, token):
        scopes = [] if token == "stranger" else [service.SCOPE]
        return (
            {"kind": "service" if token == "sync" else "user", "name": token, "scopes": scopes}
            if token
            else None
        )


class Slow:
    """A checker that counts how many checks run at the same time; answers are due after `holds` seconds."""

    workers = 2

    def __init__(self, folder, holds=0.2):
        self.holds = holds
        self.checks, self.now, self.most, self.order = folder, 0, 0, []
        self.lock, self.free = threading.Lock(), threading.Event()
        self.free.set()

    def known(self, assignment):
        return assignment == NAME

    def check(self, student, assignment, data, attempt):
        records = Records(self.checks, assignment)
        records.begin(student, attempt.asked)
        attempt.due = time.monotonic() + self.holds
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.order.append(student)
        time.sleep(0.05)
        self.free.wait(100)
        if data == b"broken":
            raise RuntimeError("secret 1234")
        with self.lock:
            self.now -= 1
        answer = {"points": 1.0, "of": 2.0, "checks": []}
        records.end(student, "key", answer, time.time() + attempt.wait())


@contextlib.contextmanager
def serving(checker):
    """Run the service in the current event loop; yield it and its port."""
    socket, port = bind_unused_port()
    made = service.Service(Hub(), checker)
    server = HTTPServer(made.application("/services/check/"))
    server.add_socket(socket)
    try:
        yield made, port
    finally:
        server.stop()


def asked(folder, questions, holds=0.2, refusals=0):
    """Return [(status, answer, seconds)] for requests (token, method, assignment, body), all sent at the same
    time.

    No check ends before this many requests have been refused.
    """
    checker, refused = Slow(folder, holds), []
    if refusals:
        checker.free.clear()

    async def run():
        client = AsyncHTTPClient(max_clients=100)

        async def one(port, token, method, assignment, body):
            began = time.monotonic()
            url = f"http://127.0.0.1:{port}/services/check/{assignment}"
            more = {"headers": {"Authorization": f"token {token}"} if token else {}, "method": method}
            answer = await client.fetch(url, body=body, raise_error=False, request_timeout=200, **more)
            if answer.code == 409:
                refused.append(token)
                if len(refused) == refusals:
                    checker.free.set()
            return answer.code, json.loads(answer.body or b"{}"), time.monotonic() - began

        with serving(checker) as (_, port):
            return await asyncio.gather(*(one(port, *question) for question in questions))

    return asyncio.run(run()), checker


def test_who_may_use_the_check(tmp_path):
    """Is a request refused with a message if its token is missing, lacks the scope or is a service's, if its
    assignment is unknown, or if its archive is too large?"""
    questions = [
        ("", "GET", NAME, None), ("stranger", "GET", NAME, None), ("sync", "GET", NAME, None),
        ("ada", "GET", "98_other", None), ("ada", "POST", NAME, b"x" * (service.SENT + 1)),
        ("ada", "GET", NAME, None), ("stranger", "POST", NAME, b"x"),
    ]  # fmt: skip
    found, checker = asked(tmp_path, questions)
    assert [status for status, _, _ in found][:4] == [403, 403, 403, 404]
    assert found[4][0] in (413, 400, 599)  # it may close while the request is still being sent
    assert found[5][0] == 200 and found[5][1]["left"] == 3 and found[6][0] == 403
    assert all(answer["words"] for _, answer, _ in found[:4]) and checker.order == []


def test_a_connection_that_ends_is_said_to_end(tmp_path):
    """If the server closes a connection, does it announce this? A proxy would otherwise reuse the
    connection."""

    async def one(port, token, path):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = f"GET /services/check/{path} HTTP/1.1", "Host: x", f"Authorization: token {token}", "", ""
        writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(re.search(r"content-length: (\d+)", head)[1]))
        try:
            # b"" means that the connection has ended
            kept = await asyncio.wait_for(reader.read(1), 1) != b""
        except TimeoutError:
            kept = True
        writer.close()
        return int(head.split()[1]), kept, "connection: close" in head

    async def run():
        with serving(Slow(tmp_path)) as (_, port):
            questions = ("", NAME), ("stranger", NAME), ("ada", "98_other"), ("ada", NAME)
            return [await one(port, *question) for question in questions]

    result = asyncio.run(run())
    assert [status for status, _, _ in result] == [403, 403, 404, 200]
    assert all(kept or ended for _, kept, ended in result), result


def test_thirty_at_once_wait_in_a_queue(tmp_path):
    """If 30 students check at once, are at most as many submissions graded at a time as there are workers?
    Are all answers sent only when they are due?"""
    names = [f"s{n:02}" for n in range(30)]
    found, checker = asked(tmp_path, [(name, "POST", NAME, b"x") for name in names], holds=3.0)
    assert {status for status, _, _ in found} == {200} and checker.most == 2
    assert sorted(checker.order) == names
    for _, answer, seconds in found:
        assert answer["answer"]["points"] == 1 and answer["left"] == 2
        assert seconds > 2.99  # although the first was graded after 0.05 s


def test_one_student_checks_one_at_a_time(tmp_path):
    """Of five simultaneous requests by one student, is one checked, and are the others told to wait? Are the
    details of an internal error hidden?"""
    questions = [("eve", "POST", NAME, b"x")] * 5 + [("ben", "POST", NAME, b"broken")]
    found, checker = asked(tmp_path, questions, refusals=4)
    assert sorted(status for status, _, _ in found[:5]) == [200, 409, 409, 409, 409]
    assert checker.order.count("eve") == 1
    status, answer, _ = found[5]
    assert status == 503 and answer["words"] and "1234" not in json.dumps(answer)


HIDDEN_ENDS = {
    "right": "return 2 * x",
    "wrong": "return 0",
    "raises": "raise ValueError(x)",
    "sleeps a little": "time.sleep(0.7)\nreturn 2 * x",
    "sleeps": "time.sleep(10 * x)\nreturn 2 * x",
    "computes": "while True: pass",
    "ends": "os._exit(3)",
    "kills": "os.kill(-1, 9)\nos.kill(os.getpid(), 9)",
}
MORE_ENDS = {
    "computes in many processes": "[os.fork() for _ in range(4)]\nwhile True: pass",
    "cannot be stopped": "[signal.signal(n, signal.SIG_IGN) for n in (2, 15)]\ntime.sleep(10 * x)",
    "fills the memory": "y = [bytearray(2**24) for _ in range(10**6)]",
    "stops": "os.kill(os.getpid(), signal.SIGSTOP)",
}


def test_no_moment_says_what_hidden_tests_did(checker, monkeypatch):
    """Whatever a student's code does with a hidden value, is the answer due the same time after the visible
    tests, and the same answer if the hidden test failed? Does no attempt take much longer than this time?"""
    begun, begin = [], fixed_time.begin

    def noted(work, began):
        begun.append(time.monotonic())
        return begin(work, began)

    monkeypatch.setattr(fixed_time, "begin", noted)
    monkeypatch.setattr(fixed_time, "TIMES", 0.0)
    monkeypatch.setattr(fixed_time, "MARGIN", 30.0)  # on a busy machine
    answered, ends = {}, HIDDEN_ENDS | (MORE_ENDS if ALL else {})
    for number, (name, does) in enumerate(ends.items()):
        lines = "\n    ".join(["import os, signal, time", "if x not in (1, 0.1 + 0.2):", *does.split("\n")])
        text = f"{lines.replace('    if', 'if')}\nreturn 2 * x"
        attempt = Attempt(asked=NOW)
        answer = checker.check(f"mallory{number}", NAME, work(checker, text), attempt)
        assert attempt.due - begun[number] == pytest.approx(fixed_time.LEAST + 30.0, abs=0.05), name
        assert attempt.wait() == pytest.approx(attempt.due - time.monotonic(), abs=0.1), f"{name}: too late"
        standing = Records(checker.checks, NAME).standing(f"mallory{number}", NOW)
        assert standing["answered"] == pytest.approx(time.time() + attempt.wait(), abs=0.1)
        assert (answer["points"] == 3) >= (name in ("right", "sleeps a little"))
        answered.setdefault(answer["points"], set()).add(json.dumps(answer))
    assert len(begun) == len(ends) and {k: len(v) for k, v in answered.items()} == {3: 1, 1: 1}


def test_hidden_tests_that_end_without_a_verdict_have_failed(checker, monkeypatch):
    """If grading ends without a verdict after its hidden tests have begun, have exactly these failed, and is
    it not repeated? If it ends before, is the student told to try again?"""
    real, calls = fixed_time.Engine._grade, []

    def interrupted(self, work, files):
        calls.append(files)
        tell = work.on_step

        def on_step(what, *more):
            tell(what, *more)
            if begun(self) or not late:
                raise fixed_time.InfrastructureError("the machine failed")

        work.on_step = on_step
        real(self, work, files)

    def begun(engine):
        return bool(engine.hidden)

    monkeypatch.setattr(fixed_time.Engine, "_grade", interrupted)
    late = True
    answer = checker.check("nina", NAME, work(checker, "y = x\nreturn 2 * y"))
    assert [row["state"] for row in answer["checks"]] == ["passed", "hidden"] and len(calls) == 1
    late = False
    with pytest.raises(SubmissionError, match="busy"):
        checker.check("nina", NAME, work(checker, "z = x\nreturn 2 * z"))


def test_answers_that_are_late_wait_for_the_next_step():
    """Is an answer shown when it is due, or a whole number of steps later? At once without hidden tests?"""
    assert [fixed_time.shown_at(10, now, 5) for now in (3, 10, 10.1, 15, 15.1)] == [10, 10, 15, 15, 20]
    assert Attempt().wait() == 0.0 < Attempt(due=time.monotonic() + 9).wait() <= 9


def test_nothing_is_seen_before_the_answer_is_due(tmp_path):
    """Until the answer is shown, do replies to other requests conceal whether grading has begun or ended?"""
    checker, seen, late = Slow(tmp_path, 3.0), [], []
    checker.free.clear()

    async def run():
        client, mine = AsyncHTTPClient(max_clients=100), {"Authorization": "token eve"}
        with serving(checker) as (made, port):
            url = f"http://127.0.0.1:{port}/services/check/{NAME}"
            asked = asyncio.ensure_future(client.fetch(url, method="POST", body=b"x", headers=mine))
            while not asked.done():
                await asyncio.sleep(0.1)
                if not made.busy:
                    continue
                for method, body in (("GET", None), ("POST", b"again")):
                    answer = await client.fetch(
                        url, method=method, body=body, headers=mine, raise_error=False
                    )
                    about = json.loads(answer.body)
                    # This request arrived after the answer, so it starts another check.
                    if method == "POST" and answer.code == 200:
                        late.append(about)
                    elif made.busy:  # still pending when the server read the request
                        seen.append((method, answer.code, about["tried"], about["left"], about["answer"]))
                    if len({method for method, *_ in seen}) == 2:
                        checker.free.set()  # the answer follows when it is due
            after = json.loads((await client.fetch(url, headers=mine)).body)
            return json.loads((await asked).body), after

    answer, after = asyncio.run(run())
    assert set(seen) == {("GET", 200, 0, 3, None), ("POST", 409, 0, 3, None)}
    assert answer["answer"]["points"] == 1 and answer["tried"] == 1
    last = late[-1] if late else answer
    assert after | {"opens": last["opens"]} == last
