"""`submit`: from a function to a job, by way of the folder that records it."""

from __future__ import annotations

import datetime
import functools
import json
import os
import pickle
import secrets
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import backends, fingerprint, ledger, record, spec
from .errors import NotPicklable, OptionError, StillRunning
from .job import Job, say

FORMAT = 1  # of the job folder


def submit(target: Callable | str | os.PathLike, *args: Any, **keywords: Any) -> Job:
    """Run a function, or a Python script, on one or more ranks; returns at once with a `Job`.

    target: a function, also one from a notebook cell, with the functions and constants it refers to; it is
    called on every rank with the arguments given here. Or the path of a .py script; `args` are its argv.

    Options (all keywords):
        nodes, ranks_per_node (1, 1): there are p = nodes * ranks_per_node ranks.
        cpus_per_rank, gpus_per_rank (1, 0).
        memory ("2G"): of each rank, in GiB or MiB. time ("00:10:00"): the limit, hours:minutes:seconds.
        name: the job's; the function's name if not given.
        controller ("auto"): how Horovod's ranks meet: "gloo", which needs nothing else, or "mpi". "auto" is
            Gloo, on every backend.
        backend ("auto"): "slurm" where its controller answers, else "local"; $CLUSTER_BACKEND changes "auto".
        rerun (False): run again even if the same run is recorded.
        env: further environment variables of the ranks, a dictionary.
        folder: where job folders lie, if not in `runs` here or in $CLUSTER_RUNS.
        partition, sbatch: Slurm's partition, and a dictionary of other options of sbatch.
    Any other keyword is an argument of the function.

    The same code with the same arguments and resources is the same run: while it runs you get the running
    job, and once it is done you get its recorded result.

    Raises a JobError when the job cannot be submitted: OptionError, OptionValueError, TooManyRanks,
    NotPicklable, BackendError, Refused.

    >>> job = submit(train, epochs=2, nodes=2)                                      # doctest: +SKIP
    >>> job.result()                                                                # doctest: +SKIP
    """
    if not callable(target) and not isinstance(target, (str, os.PathLike)):
        raise OptionError(
            f"submit() takes a function or the path of a script, not {target!r}.", "submit(train, ...)"
        )
    given, arguments = spec.split(target if callable(target) else os.fspath(target), keywords)
    options = spec.check(given)
    build = _function if callable(target) else _script
    call, form, code, arguments, name = build(target, args, arguments)
    key = fingerprint.digest([FORMAT, form, options.resources()])
    runs = ledger.root(options.folder)
    found = _recorded(runs, key, options.rerun)
    if found:
        return found
    backend, why = backends.choose(options.backend)
    asked = asdict(options) | {"env": None}
    run = {
        "format": FORMAT,
        "key": key,
        "own": secrets.token_hex(8),  # tells this run from others with the same key
        "name": options.name or name,
        "target": name,
        "arguments": {k: record.short(v) for k, v in arguments.items()},
        "command": record.command(name, arguments, asked),
        "options": asked,
        "env": sorted(options.env or {}),
        "ranks": options.ranks,
        "backend": backend,
        "controller": "gloo" if options.controller == "auto" else options.controller,
        "submitted": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": record.versions(),
        "machine": record.machine(),
    }
    module = backends.get(backend)
    module.check(run)
    final = runs / f"{ledger.slug(run['name'])}-{key[:12]}"
    files = {
        "run.json": json.dumps(run, indent=1) + "\n",
        "code.py": code,
        "call.pkl": pickle.dumps(call | {"cwd": os.getcwd(), "path": [p or os.getcwd() for p in sys.path]}),
        "job.sh": module.script(run, final),
    }
    with ledger.lock(runs, key):
        found = _recorded(runs, key, options.rerun)  # by another process, just now
        if found:
            return found
        _set_aside(runs, key)
        folder, new = ledger.create(runs, run["name"], key, files)
    if not new:
        return Job(folder)
    note = module.start(folder, run, record.environment(options)) or ""
    p = options.ranks
    say(f"{folder.name}: {p} rank{'s' * (p > 1)} on the {backend} backend{why}{note}")
    return Job(folder)


def _recorded(runs: Path, key: str, rerun: bool) -> Job | None:
    """The job that runs or ran with this key, if it serves."""
    folder = ledger.find(runs, key)
    if folder is None:
        return None
    job = Job(folder)
    now = job.status
    if not now.ended:
        if rerun:
            raise StillRunning(
                f"{job.id} is {now}; it cannot be run again yet.", "Wait for it, or job.cancel() it."
            )
        say(f"{job.id} is {now}: this is that job.")
        return job
    if now == "done" and not rerun:
        say(f"{job.id}: recorded on {job.spec['submitted'][:10]}, not run again (rerun=True runs it).")
        return job
    return None


def _set_aside(runs: Path, key: str) -> None:
    """Make room for a new run, where one with this key has ended."""
    folder = ledger.find(runs, key)
    if folder:
        now = Job(folder).status
        aside, why = ledger.set_aside(folder), "was recorded" if now == "done" else f"ended as {now}"
        say(f"{folder.name} {why}: it runs again, and what it left is kept as {aside.name}.")


def _function(target: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple:
    import cloudpickle

    arguments = spec.bind(target, args, kwargs)
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


def _script(target: str | os.PathLike, args: tuple, kwargs: dict[str, Any]) -> tuple:
    path = Path(target).expanduser().absolute()
    if not path.is_file() or path.suffix != ".py":
        raise OptionError(
            f"{os.fspath(target)!r} is no Python script (a file that ends in .py).", "Check the path."
        )
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
