"""A function with its arguments, or a script, prepared for the ranks."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import NotPicklable, OptionError
from ..run.provenance import short
from . import fingerprint, modules, pickling, reads

LARGE = 10_000_000  # bytes of the smallest value whose name is reported when sent with a job


@dataclass(frozen=True)
class Program:
    """What runs on each rank.

    arguments: by name, with their defaults. form: what identifies it in the cache key. code: its source, for
    people. call: the contents of call.pkl. arrays: the arrays stored separately, named by call["arrays"].
    large: {value: (total bytes, bytes in call.pkl)} for values of at least `LARGE` bytes. unstable: {what it
    refers to: why that cannot be compared}. paths: texts that may name files. strings: texts that may name
    environment variables; none if it reads no variables.
    """

    name: str
    arguments: dict[Any, Any]
    form: Any
    code: str
    call: dict[str, Any]
    arrays: list[memoryview] = field(default_factory=list)
    large: dict[str, tuple[int, int]] = field(default_factory=dict)
    unstable: dict[str, str] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)


def of_script(target: str, args: tuple) -> Program:
    """Return the program of a script; `args` are its argv. Raises OptionError if there is none."""
    path = Path(target).expanduser().absolute()
    if not path.is_file() or path.suffix != ".py":
        raise OptionError(f"{target!r} is not a Python script (a file that ends in .py).", "Check the path.")
    argv, text = [str(a) for a in args], modules.read(path)
    form, texts = fingerprint.script_form(path)
    codes = [compile(t, path, "exec", dont_inherit=True) for t in (text, *(t for _, t in texts.values()))]
    strings = (
        {*argv, *itertools.chain(*map(reads.strings, codes))}
        if any(map(reads.asks_environment, codes))
        else set()
    )
    call = {"script": str(path), "text": text, "argv": argv, "cells": {}, "modules": texts}
    paths = {text for a in argv for text in (a, a.partition("=")[2]) if reads.is_name(text)}
    return Program(path.stem, dict(enumerate(argv)), [form, argv], text, call, paths=paths, strings=strings)


def of_function(
    target: Callable, args: tuple, kwargs: dict[str, Any], arguments: dict[str, Any], apart: bool
) -> Program:
    """Return the program of a call of a function. Raises NotPicklable, which names what cannot be sent.

    arguments: all of them by name. apart: store large arrays separately, because the items of a sweep share
    them, whereas the folder of a single run is self-contained.
    """
    import cloudpickle

    closure = fingerprint.Closure(target, arguments)
    own = [sys.modules[m] for m in sorted(closure.modules - closure.texts.keys()) if m in sys.modules]
    before = cloudpickle.list_registry_pickle_by_value()
    try:
        for m in own:  # the student's own modules are sent with the job, so later edits do not change it
            cloudpickle.register_pickle_by_value(m)
        try:
            function, arrays = pickling.dumps((target, args, kwargs), apart)
        except Exception as e:
            raise _culprit(target, arguments, e) from None
    finally:
        for m in own:
            if m.__name__ not in before:
                cloudpickle.unregister_pickle_by_value(m)
    constants = [f"{k} = {short(v)}\n" for k, v in closure.constants.items()]
    code = "".join(constants) + "".join(f"\n\n{s.rstrip()}\n" for s in reversed(closure.sources))
    call: dict[str, Any] = {
        "script": None,
        "function": function,
        "cells": closure.cells,
        "modules": closure.texts,
    }
    call["arrays"] = described(arrays)
    large = {}
    if len(function) + sum(array.nbytes for array in arrays) >= LARGE:
        large = _large(
            {f"variable `{k}`": v for k, v in closure.constants.items()}
            | {f"argument `{k}`": v for k, v in arguments.items()}
        )
    strings = closure.strings if closure.asks_environment else set()
    return Program(
        _name(target),
        arguments,
        closure.form,
        code,
        call,
        arrays,
        large,
        closure.unstable,
        closure.paths,
        strings,
    )


def described(arrays: list[memoryview]) -> list[tuple[str, int]]:
    """Return the names (SHA-256) and sizes of arrays."""
    return [(hashlib.sha256(array).hexdigest(), array.nbytes) for array in arrays]


def _large(values: dict[str, Any]) -> dict[str, tuple[int, int]]:
    sizes = {}
    for name, value in values.items():
        with contextlib.suppress(Exception):
            inside, arrays = pickling.dumps(value, apart=True)
            sizes[name] = len(inside) + sum(array.nbytes for array in arrays), len(inside)
    return {name: size for name, size in sizes.items() if size[0] >= LARGE}


def _name(target: Callable) -> str:
    while isinstance(target, functools.partial):
        target = target.func
    return getattr(target, "__name__", type(target).__name__).replace("<lambda>", "lambda")


def _culprit(
    target: Callable, arguments: dict[str, Any], error: Exception, searched: tuple[Any, ...] = ()
) -> NotPicklable:
    """Return an error that names the variable that cannot be sent; search each function only once."""
    name, f = _name(target), getattr(target, "__wrapped__", target)
    suspects = [(f"its argument {k!r}", v) for k, v in arguments.items()]
    if isinstance(f, types.FunctionType):
        names = sorted(fingerprint.global_names(f.__code__))
        suspects += [(f"the variable {n!r}", f.__globals__[n]) for n in names if n in f.__globals__]
        suspects += [(f"the variable {n!r}", v) for n, v in fingerprint.closed_over(f).items()]
    searched = (*searched, target)
    for where, value in suspects:
        if any(value is known for known in searched):
            continue
        try:
            pickling.dumps(value)
        except Exception as e:
            if isinstance(value, type(target)):
                return _culprit(value, {}, e, searched)
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            return NotPicklable(
                f"{name}() refers to {where}, a {kind}, which cannot be sent to the ranks ({e}).",
                f"Create it inside {name}(); each rank then has its own.",
            )
    return NotPicklable(f"{name}() cannot be sent to the ranks: {error}.", "Use a plain function.")
