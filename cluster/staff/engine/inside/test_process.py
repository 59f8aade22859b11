"""The test process: runs the checks from the instructor's source, in a sandbox without student code.

It keeps names that a check or an independent provided cell defines. A name that a check above or an import
of the release binds is bound again, by the same statements, in the check's own space. All other names are
requested (`remote`).
"""

from __future__ import annotations

import contextlib
import io
import resource
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Any, NoReturn

from cluster.checks.calls import ENGINE

from . import names
from .ask_ranks import Ranks
from .channel import Channel, Message
from .errors import CheckTimeoutError, NoAnswerError, RanksNotMetError
from .remote import GRACE, Failed, Function, Provided, Remote, Student, Trials

LONGEST = 4000  # characters of an error's text
PRINTED = 20_000  # characters that a check may print


def main(fds: list[int]) -> None:
    engine = Channel.of_this_process()
    engine.send({"hello": True})
    task = engine.receive_task()
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
    spaces: dict[str, Space] = {}  # {check whose hidden part is to come: its names}
    while True:
        part = engine.receive()
        name, student.failed = part["check"], Failed(part["failed"])
        own = spaces.pop(name) if part["continues"] else Space(known, student)
        own.above, own.imports = part["above"], task["imports"]
        try:
            student.until(task["seconds"])
            message = judge(name, part["text"], own, task["seconds"])
        except RanksNotMetError as error:
            engine.send({"broken": str(error)})
            return
        if part["goes_on"] and not message["error"]:
            spaces[name] = own
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


class Space(dict[str, Any]):
    """The names of a check. If the check deletes a function of the student's, or puts one of its own in its
    place, the notebook's process does the same until the part ends.

    above: the checks above (`names.borrowed`). imports: {name: the release's import}.
    """

    above: Sequence[tuple[str, list[str]]] = ()
    imports: Mapping[str, str] = MappingProxyType({})

    def __init__(self, known: dict[str, Any], student: Student):
        super().__init__(known)
        self.student, self.fetched = student, dict[str, Function]()

    def need(self, name: str) -> None:
        """Bind a name from elsewhere. Raises NameError if nothing binds it."""
        trials = self.student.trials
        if trials and name in trials.provided:
            self[name] = Provided(trials, name)
            return
        with contextlib.suppress(Exception):  # a module that is not here
            exec(self.imports[name], self)
            return
        value = self.student.fetch(name)
        super().__setitem__(name, value)
        if isinstance(value, Function):
            self.fetched[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        if name in self.fetched and callable(value):
            if value is self.fetched[name]:
                self.student.restore(name)
            elif not isinstance(value, Remote):
                self.student.replace(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if name in self.fetched:
            self.student.replace(name, None)


def judge(name: str, text: str, own: Space, seconds: float) -> Message:
    """Run a part of a check with its names, and return the message about it.

    students: the error was raised in the student process. gone: a process no longer answers. lost: the
    student process is one of them. asked: the part has used the student process. about: the checks whose
    failure it has asked for. judged: the names of the values that it shares with other checks (`once`).
    """
    student, printed, start = own.student, io.StringIO(), time.monotonic()
    error, students = "", False
    # The check itself gets the grace period, too, so the limit of a call to student code is reached first.
    signal.setitimer(signal.ITIMER_REAL, seconds + 2 * GRACE)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            run(name, text, own)
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
        "asked": student.requests > 0,
        "about": sorted(student.failed.asked),
        "judged": sorted(student.judged),
        "seconds": time.monotonic() - start,
        "printed": printed.getvalue()[:PRINTED],
        "gone": any(side.gone for side in (student, student.trials, student.ranks) if side),
        "lost": bool(student.gone),
    }


def text_of(error: BaseException) -> str:
    """Return the text of an exception, or "" if its __str__ fails."""
    try:
        return str(error)
    except Exception:
        return ""


def run(name: str, text: str, own: Space) -> None:
    """Run source of a check with its own names, the provided cells' names, those of checks above and of the
    release's imports, and the student's."""
    code = names.compiled(text, name)
    before, needed = names.borrowed(names.missing(code, own), own.above, own)
    for each in sorted(needed):
        with contextlib.suppress(NameError):  # the check raises it if it uses the name
            own.need(each)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for statement in before:
            with contextlib.suppress(Exception):  # it has failed in the check above, too
                exec(statement, own)
    exec(code, own)
