"""From what `submit` and `map` were given to a run that can be looked up, composed and started."""

from __future__ import annotations

import datetime
import functools
import json
import os
import pickle
import secrets
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from . import fingerprint, ledger, record, spec
from .errors import NotPicklable, OptionError

FORMAT = 1  # of the job folder


@dataclass(frozen=True)
class Plan:
    """A run that was asked for: what it calls, with what options, and the key by which it is known."""

    options: spec.Options
    runs: Path
    key: str
    call: dict[str, Any]
    code: str
    arguments: dict[str, Any]
    name: str

    def run(self, backend: str, **more: Any) -> dict[str, Any]:
        """Its run.json on a backend."""
        asked = asdict(self.options) | {"env": None}
        return {
            "format": FORMAT,
            "key": self.key,
            "own": secrets.token_hex(8),  # tells this run from others with the same key
            "name": self.options.name or self.name,
            "target": self.name,
            "arguments": {k: record.short(v) for k, v in self.arguments.items()},
            "command": record.command(self.name, self.arguments, asked),
            "options": asked,
            "env": sorted(self.options.env or {}),
            "ranks": self.options.ranks,
            "backend": backend,
            "controller": "gloo" if self.options.controller == "auto" else self.options.controller,
            "submitted": now(),
            "attempt": 1,
            "versions": record.versions(),
            "machine": record.machine(),
        } | more

    def files(self, run: dict[str, Any], folder: Path, backend: ModuleType) -> dict[str, str | bytes]:
        """What the job folder holds before the job starts."""
        call = self.call | {"cwd": os.getcwd(), "path": [p or os.getcwd() for p in sys.path]}
        return {
            "run.json": json.dumps(run, indent=1) + "\n",
            "code.py": self.code,
            "call.pkl": pickle.dumps(call),
            "job.sh": backend.script(run, folder),
        }


def now() -> str:
    """The time, as run.json has it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def plan(
    target: Callable | str | os.PathLike,
    args: tuple,
    keywords: dict[str, Any],
    caller: str = "submit",
    own: tuple[str, ...] = (),
) -> Plan:
    """The run that `submit(target, *args, **keywords)` asks for; nothing is written.

    caller: the name of the call, for messages; own: options of that call's own.
    """
    if not callable(target) and not isinstance(target, (str, os.PathLike)):
        raise OptionError(
            f"{caller}() takes a function or the path of a script, not {target!r}.", f"{caller}(train, ...)"
        )
    target = target if callable(target) else os.fspath(target)
    given, arguments = spec.split(target, keywords, caller, own)
    options = spec.check(given)
    if callable(target):
        call, form, code, arguments, name = _function(target, args, arguments, caller)
    else:
        call, form, code, arguments, name = _script(target, args)
    key = fingerprint.digest([FORMAT, form, options.resources()])
    return Plan(options, ledger.root(options.folder), key, call, code, arguments, name)


def _function(target: Callable, args: tuple, kwargs: dict[str, Any], caller: str) -> tuple:
    import cloudpickle

    arguments = spec.bind(target, args, kwargs, caller)
    closure = fingerprint.Closure(target, arguments)
    modules = [sys.modules[m] for m in sorted(closure.modules - closure.texts.keys()) if m in sys.modules]
    before = cloudpickle.list_registry_pickle_by_value()
    try:
        for m in modules:  # a student's own modules travel with the job: a later edit must not change it
            cloudpickle.register_pickle_by_value(m)
        try:
            function = cloudpickle.dumps((target, args, kwargs))
        except Exception as e:
            raise _culprit(target, arguments, e) from None
    finally:
        for m in modules:
            if m.__name__ not in before:
                cloudpickle.unregister_pickle_by_value(m)
    constants = [f"{k} = {record.short(v)}\n" for k, v in closure.constants.items()]
    code = "".join(constants) + "".join(f"\n\n{s.rstrip()}\n" for s in reversed(closure.sources))
    call = {"script": None, "function": function, "cells": closure.cells, "modules": closure.texts}
    return call, closure.form, code, arguments, _name(target)


def _script(target: str, args: tuple) -> tuple:
    path = Path(target).expanduser().absolute()
    if not path.is_file() or path.suffix != ".py":
        raise OptionError(f"{target!r} is no Python script (a file that ends in .py).", "Check the path.")
    argv, text = [str(a) for a in args], path.read_text()
    form, texts = fingerprint.script_form(path)
    call = {"script": str(path), "text": text, "argv": argv, "cells": {}, "modules": texts}
    return call, [form, argv], text, dict(enumerate(argv)), path.stem


def _name(target: Callable) -> str:
    while isinstance(target, functools.partial):
        target = target.func
    return getattr(target, "__name__", type(target).__name__).replace("<lambda>", "lambda")


def _culprit(target: Callable, arguments: dict[str, Any], error: Exception) -> NotPicklable:
    """Which variable it is that cannot be sent."""
    import cloudpickle

    name, f = _name(target), getattr(target, "__wrapped__", target)
    code, suspects = getattr(f, "__code__", None), [(f"its argument {k!r}", v) for k, v in arguments.items()]
    if code is not None:
        names = sorted(fingerprint.global_names(code))
        suspects += [(f"the variable {n!r}", f.__globals__[n]) for n in names if n in f.__globals__]
        cells = zip(code.co_freevars, f.__closure__ or (), strict=True)
        suspects += [(f"the variable {n!r}", c.cell_contents) for n, c in cells]
    for where, value in suspects:
        try:
            cloudpickle.dumps(value)
        except Exception as e:
            if isinstance(value, type(target)) and value is not target:
                return _culprit(value, {}, e)
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            return NotPicklable(
                f"{name}() refers to {where}, a {kind}, which cannot be sent to the ranks ({e}).",
                f"Make it inside {name}(), so that each rank has its own.",
            )
    return NotPicklable(f"{name}() cannot be sent to the ranks: {error}.", "Use a plain function.")
