"""The test process: runs the checks from the instructor's source, in a sandbox without student code.

It keeps names that a check or an independent provided cell defines, and requests all others (`remote`).
"""

from __future__ import annotations

import contextlib
import io
import resource
import signal
import time
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, NoReturn

from cluster.checks.calls import ENGINE

from . import names
from .ask_ranks import Ranks
from .channel import Channel, Message
from .errors import CheckTimeoutError, NoAnswerError, RanksNotMetError
from .remote import GRACE, Provided, Student, Trials

LONGEST = 4000  # characters of an error's text
PRINTED = 20_000  # characters that a check may print


def main(fds: list[int]) -> None:
    engine = Channel.of_this_process()
    engine.send({"hello": True})
    task = engine.receive()
    channels = [Channel(*fds[i : i + 2]) for i in range(0, len(fds), 2)]
    student = Student(channels.pop(0), task["seed"])
    if task["provided"]:
        student.trials = Trials(channels.pop(0), student, task["provided"])
    if channels:
        student.ranks = Ranks(channels.pop(0), student.name_of)
    resource.setrlimit(resource.RLIMIT_DATA, (task["memory"], task["memory"]))
    signal.signal(signal.SIGALRM, too_long)
    try:
        known = given(task["given"], student)
    except Exception as error:
        engine.send({"broken": f"a read-only cell raised {type(error).__name__}: {error}"})
        return
    failed = student.failed
    for name, text in task["shown"] + task["whole"]:
        if name in failed:
            continue
        try:
            student.begin_check(task["seconds"], task["before"][name])
            message = judge(name, text, known, student, task["seconds"])
        except RanksNotMetError as error:
            engine.send({"broken": str(error)})
            return
        if message["error"]:
            failed.add(name)
        engine.send(message)


def too_long(signum: int, frame: FrameType | None) -> NoReturn:
    raise CheckTimeoutError


def given(cells: Iterable[Sequence[str]], student: Student) -> dict[str, Any]:
    """Run the independent provided cells, and return the names that they define."""
    known = {"__name__": "__main__", ENGINE: student}
    with contextlib.redirect_stdout(io.StringIO()):
        for code in names.independent(cells):
            exec(code, known)
    return known


def judge(name: str, text: str, known: dict[str, Any], student: Student, seconds: float) -> Message:
    """Run one check, and return the message about it.

    students: the error was raised in the student process. gone: a process no longer answers.
    """
    printed, start, error, students = io.StringIO(), time.monotonic(), "", False
    # The check itself gets the grace period, too, so the limit of a call to student code is reached first.
    signal.setitimer(signal.ITIMER_REAL, seconds + 2 * GRACE)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            run(name, text, known, student)
    except CheckTimeoutError:
        error = f"TimeLimit: the check took longer than {seconds:g} s"
    except NoAnswerError as raised:
        error = f"NoAnswer: {raised}"
    except RanksNotMetError:
        raise
    except BaseException as raised:
        error = f"{type(raised).__name__}: {text_of(raised)}"[:LONGEST]
        students = getattr(raised, "students", False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {
        "check": name,
        "error": error,
        "students": students,
        "called": student.calls > 0,
        "seconds": time.monotonic() - start,
        "printed": printed.getvalue()[:PRINTED],
        "gone": any(side.gone for side in (student, student.trials, student.ranks) if side),
    }


def text_of(error: BaseException) -> str:
    """Return the text of an exception, or "" if its __str__ fails."""
    try:
        return str(error)
    except Exception:
        return ""


def run(name: str, text: str, known: dict[str, Any], student: Student) -> None:
    """Run a check's source with its own names, the names of the provided cells, and the student's."""
    code = names.compiled(text, name)
    own = dict(known)
    for needed in names.missing(code, own):
        if student.trials and needed in student.trials.provided:
            own[needed] = Provided(student.trials, needed)
            continue
        with contextlib.suppress(NameError):  # the check raises it if it uses the name
            own[needed] = student.fetch(needed)
    exec(code, own)
