"""A check's view of the submission: copies of plain data, and handles of all other objects.

A handle cannot be compared, has no truth value and supports no operators, so it decides nothing. The results
of its functions arrive as data, which the test process judges.
"""

from __future__ import annotations

import builtins
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from .channel import Channel
from .codec import Tree, arrays_in, pack, unpack
from .errors import AnswerTimeoutError, CheckStopped, CheckTimeoutError, NoAnswerError, ProcessLostError

LONGEST = 300  # maximum characters of a message about a student's names
GRACE = 5  # seconds after a limit for the student process to report it
# These would end a loop or a generator of the check early, as if all items had been processed.
NEVER = (StopIteration, StopAsyncIteration)


class Failed(set[str]):
    """The checks that have failed so far; `asked` are those that a check has asked about (`has_failed`)."""

    def __init__(self, checks: Iterable[str] = ()):
        super().__init__(checks)
        self.asked: set[str] = set()

    def __contains__(self, check: object) -> bool:
        self.asked.add(str(check))
        return super().__contains__(check)


class Student:
    """Requests to the student process over a channel. seed: of the hidden tests' inputs (checks/draws.py)."""

    def __init__(self, channel: Channel, seed: int = 0):
        self.channel, self.gone, self.end = channel, "", 0.0
        self.seed = seed
        self.functions: list[Callable] = []  # functions of the check, which the student's code may call
        self.in_place, self.calls, self.requests = False, 0, 0  # requests: of the running part of a check
        self.replaced: list[tuple[str, Any, Callable | None]] = []
        self.named: dict[int, str] = {}  # {number of a handle: name}
        self.pinned: dict[str, dict[str, Any]] = {}  # {name: {arguments: value}} (cluster.checks.once)
        self.judged: set[str] = set()  # those names that the running part of a check has asked for
        self.failed = Failed()
        self.ranks: Any = None  # an ask_ranks.Ranks
        self.trials: Trials | None = None

    def until(self, seconds: float) -> None:
        """Begin a part of a check with a time limit in seconds."""
        self.end, self.functions = time.monotonic() + seconds, []
        self.in_place, self.calls, self.judged = False, 0, set()
        with contextlib.suppress(CheckStopped, Exception):  # the check's next request raises the error again
            while self.replaced:  # left behind by a check that was stopped
                self.put_back()
        self.requests = 0
        if self.trials:
            self.trials.until(seconds)

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Return the reply to a request. Raises the student's exceptions again, by name."""
        self.requests += 1
        if self.gone:
            raise NoAnswerError(self.gone)
        rest = self.end - time.monotonic()
        if rest <= 0:
            raise CheckTimeoutError
        why, self.gone = "", "an earlier check was stopped while it was calling your code"
        try:
            self.channel.send({"do": do, "seconds": rest, **request})
            reply = self.channel.receive(rest + GRACE)
            while isinstance(reply, dict) and "back" in reply:
                if time.monotonic() >= self.end + GRACE:  # calling the check gains no time
                    raise AnswerTimeoutError("it only called functions of the check")
                self.channel.send(self.called_back(reply))
                reply = self.channel.receive(max(0, self.end + GRACE - time.monotonic()))
            if not isinstance(reply, dict) or not {"value", "error", "missing"} & set(reply):
                raise ProcessLostError("it sent an invalid answer")
        except AnswerTimeoutError:
            why = "your notebook's process did not answer in time and could not be interrupted"
        except ProcessLostError as error:
            why = f"your notebook's process no longer answers: {error}"
        self.gone = why
        if why:
            raise NoAnswerError(why)
        if "error" in reply:
            self.raise_as_named(reply["error"])
        return reply

    def raise_as_named(self, error: Any) -> NoReturn:
        name, text = map(str, error) if isinstance(error, list) and len(error) == 2 else ("?", "")
        if name == "TimeLimit":
            raise CheckTimeoutError
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, NEVER):
            try:
                raised = kind(text[:4000])
            except TypeError:  # UnicodeDecodeError and others need more arguments
                raised = RuntimeError(f"{name}: {text[:4000]}")
        else:
            raised = RuntimeError(f"{name}: {text[:4000]}")
        raised.students = True  # type: ignore[attr-defined]  # not raised by the check itself (failures.py)
        raise raised

    def called_back(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call a function that the check passed to student code, as that requests; return the reply."""
        try:
            number = request["back"]
            if not isinstance(number, int) or number < 0:
                raise LookupError("the check did not pass such a function")
            function = self.functions[number]
            args, kwargs = self.unpack(request["args"]), self.unpack(request["kwargs"])
            held, self.gone = self.gone, ""
            try:
                return {"result": self.pack(function(*args, **kwargs))}
            finally:
                self.gone = self.gone or held
        except Exception as error:
            return {"failed": f"{type(error).__name__}: {error}"[:4000]}

    def fetch(self, name: str) -> Any:
        """Return the value of a global name. Raises NameError."""
        reply = self.ask("fetch", name=name)
        if "missing" in reply:
            raise NameError(f"name {name!r} is not defined")
        value = self.value(reply)
        if isinstance(value, Remote):
            self.named[object.__getattribute__(value, "_number")] = name
        return value

    def name_of(self, function: Callable) -> str:
        """Return the notebook's name for a function that a check has, by which ranks find it."""
        if isinstance(function, Remote):
            return self.named.get(object.__getattribute__(function, "_number"), "")
        return getattr(function, "__name__", "")

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.calls += 1
        reply = self.ask("call", object=number, args=self.pack(args), kwargs=self.pack(kwargs))
        changed = reply.get("changed", [])
        if self.in_place:
            self.copy_back([args, kwargs], changed)
        elif changed:
            raise AssertionError(self.in_words(number, args, kwargs, changed))
        return self.value(reply)

    def in_words(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], changed: Any) -> str:
        """Return a message that names the argument that a student's function has changed."""
        name, parameters = "the function", []
        with contextlib.suppress(Exception):  # a callable without a signature
            name, parameters = self.value(self.ask("signature", object=number))
        try:
            owners = [key for key, value in [*enumerate(args), *kwargs.items()] for _ in arrays_in(value)]
            key = owners[changed[0][0]]
        except (TypeError, LookupError) as error:
            raise self.forged() from error
        if not isinstance(key, str):
            known = isinstance(parameters, list) and key < len(parameters)
            key = f"{parameters[key]}" if known else f"argument {key + 1}"
        return f"{name} has changed its argument {key}: work on a copy"[:LONGEST]

    def copy_back(self, given: list[Any], changed: Any) -> None:
        """Apply to the check's arrays the changes that the student's function made to its copies."""
        given = list(arrays_in(given))
        try:
            for i, tree in changed:
                new = self.unpack(tree)
                if isinstance(new, np.ndarray) and new.shape == given[i].shape and given[i].flags.writeable:
                    given[i][...] = new
        except (ValueError, TypeError, LookupError) as error:
            raise self.forged() from error

    def replace(self, name: str, function: Callable | None) -> Any:
        """Bind a global name of the notebook to a function of the check, or delete it, until `put_back`.

        The calls arrive here and can be counted. Returns the previous value. Raises NameError.
        """
        before = self.fetch(name)
        if function is None:
            self.ask("remove", name=name)
        else:
            self.ask("replace", name=name, value=self.pack(function))
        self.replaced.append((name, before, function))
        return before

    def put_back(self) -> None:
        """Undo the last `replace`."""
        name, before, _ = self.replaced[-1]
        self.ask("replace", name=name, value=self.pack(before))
        self.replaced.pop()

    def restore(self, name: str) -> None:
        """Undo the last `replace`, if it was of this name."""
        if self.replaced and self.replaced[-1][0] == name:
            self.put_back()

    def value(self, reply: dict[str, Any]) -> Any:
        try:
            return self.unpack(reply["value"])
        except (ValueError, LookupError) as error:
            raise self.forged() from error

    def forged(self) -> NoAnswerError:
        self.gone = "your notebook's process no longer answers: it sent an invalid value"
        return NoAnswerError(self.gone)

    def pack(self, value: Any) -> Tree:
        return pack(value, self.wrap)

    def unpack(self, tree: Tree) -> Any:
        return unpack(tree, self.unwrap)

    def wrap(self, value: Any) -> list[Any]:
        if isinstance(value, Remote) and object.__getattribute__(value, "_student") is self:
            return ["object", object.__getattribute__(value, "_number")]
        if callable(value):
            self.functions.append(value)
            return ["function", len(self.functions) - 1]
        raise TypeError(f"a {type(value).__name__} cannot be passed to student code: pass plain data")

    def unwrap(self, tree: list[Any]) -> Remote:
        kind, number, name, can_be_called = tree
        if kind != "object" or not isinstance(number, int) or not isinstance(name, str):
            raise ValueError("an invalid handle arrived")
        return (Function if can_be_called else Remote)(self, number, name[:100])


class Trials(Student):
    """Requests to the process of provided functions that depend on student code (inside/trials.py). notebook:
    the student process. provided: names of the functions."""

    def __init__(self, channel: Channel, notebook: Student, provided: Iterable[str]):
        super().__init__(channel)
        self.notebook, self.provided = notebook, set(provided)

    def run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a provided function by name; functions that the check watches are replaced here, too."""
        while self.replaced:
            self.put_back()
        for watched, _, function in self.notebook.replaced:
            with contextlib.suppress(NameError):  # the provided function does not use it
                self.replace(watched, function)
        provided = self.fetch(name)
        self.in_place, self.notebook.calls = self.notebook.in_place, self.notebook.calls + 1
        return provided(*args, **kwargs)


class Provided:
    """A provided function in a check. It is fetched when it is called, because ranks need only its name."""

    def __init__(self, trials: Trials, name: str):
        self._trials, self.__name__ = trials, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._trials.run(self.__name__, args, kwargs)


class Remote:
    """An object that stays in the student process."""

    __slots__ = ("_kind", "_number", "_student")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, student: Student, number: int, kind: str):
        for name, value in [("_student", student), ("_number", number), ("_kind", kind)]:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._student.value(self._student.ask("get", object=self._number, name=name))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise TypeError("a check cannot change a student's object")

    def __getitem__(self, key: Any) -> Any:
        student = self._student
        return student.value(student.ask("item", object=self._number, key=student.pack(key)))

    def __len__(self) -> int:
        size = self._student.value(self._student.ask("length", object=self._number))
        return size if isinstance(size, int) and size >= 0 else 0

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> NoReturn:
        raise TypeError(f"a student's {self._kind} has no truth value: request plain data")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError(f"a student's {self._kind} cannot be compared: compare plain data")

    __ne__ = __eq__

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"a student's {self._kind} is not an array")

    def __deepcopy__(self, memo: Any) -> Remote:
        return self

    def __repr__(self) -> str:
        return f"<{self._kind} of the notebook>"


class Function(Remote):
    """A callable Remote. Arguments and results are copied (unless `cluster.checks.in_place` is active)."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._student.call(self._number, args, kwargs)
