"""`submit`: turns a function into a job by means of the folder that records it."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import pickle
import secrets
import shutil
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import BufferedWriter
from pathlib import Path
from typing import Any

from cluster.slurm import site
from cluster.slurm.words import clock

from . import backends
from .code import fingerprint
from .errors import NotPicklable, OptionError, OptionValueError, Refused, StillRunning
from .job import Job, say
from .options import Options, bind_arguments, check_options, split_keywords
from .run import attempts, layout, provenance, shared
from .run.run_folder import CALL, CODE, RUN_JSON, SCRIPT, RunRecord
from .run.status import settled_status

FORMAT = 1  # format version of the job folder
LARGE = 10_000_000  # bytes of the smallest value whose name is reported when sent with a job


def submit(target: Callable | str | os.PathLike, *args: Any, **keywords: Any) -> Job:
    """Run a function, or a Python script, on one or more ranks, and return a `Job` at once.

    target: a function, possibly from a notebook cell, with the functions and constants it refers to, called
    on every rank with these arguments. Alternatively the path of a .py script; `args` are its argv.

    Options (all keywords):
        nodes, ranks_per_node (1, 1): number of nodes and of ranks per node, p = nodes * ranks_per_node.
        cpus_per_rank, gpus_per_rank (1, 0).
        memory ("2G"): memory per rank, in GiB or MiB.
        time ("00:10:00"): the time limit, as hours:minutes:seconds.
        name: name of the job, by default the function's name.
        controller ("auto"): Horovod's controller, "gloo", which needs nothing else, or "mpi". "auto" is Gloo
            on every backend.
        backend ("auto"): "slurm" if its controller answers, else "local". $CLUSTER_BACKEND changes "auto".
        rerun (False): run again even if the same run is recorded.
        requeue (False): resume a run that was interrupted, rather than stopped by its own error, as the next
            attempt in the same folder, from its checkpoint there (see `cluster.training.checkpoint`). Slurm
            requeues a job by itself when it was preempted or a node failed. After other interruptions (this
            machine was switched off, the launcher was killed, the job timed out or was cancelled) submit the
            same run again to resume it. rerun=True starts from the beginning.
        timeline (False): record Horovod's operations for `job.timeline()`. Recording takes a separate core
            and makes steps slower. A recorded result is reused with or without it.
        max_output ("50M"): how much of a rank's output (its beginning and end), and of its metrics, is kept.
            $CLUSTER_MAX_OUTPUT changes the default.
        env: dictionary of additional environment variables of the ranks.
        folder: parent of the job folders, if not `runs` here or $CLUSTER_RUNS.
        partition, sbatch: Slurm's partition, and a dictionary of other sbatch options.
    Any other keyword is an argument of the function.

    The same code with the same arguments and resources is the same run. While it runs you get the running
    job, and once it is done you get its recorded result.

    Raises a JobError if the job cannot be submitted: OptionError, OptionValueError, TooManyRanks,
    NotPicklable, BackendError, Refused.

    >>> job = submit(train, epochs=2, nodes=2)                                      # doctest: +SKIP
    >>> job.result()                                                                # doctest: +SKIP
    """
    requested = plan(target, args, keywords)
    existing = recorded(requested)
    if existing:
        return existing
    backend, why = backends.choose(requested.options.backend)
    run = requested.run_json(backend)
    backends.get(backend).check(run)
    job, held = make(requested, run)
    if held:
        with held:
            try:
                env = provenance.environment(requested.options)
                note = backends.get(backend).start(job.folder, env, held)
            except Refused:
                if job.spec["attempt"] == 1:  # otherwise files of earlier attempts stay
                    discard(job.folder)
                raise
        p = job.ranks
        say(f"{job.id}: {p} rank{'s' * (p > 1)} on the {backend} backend{why}{note}")
        say_large(requested)
    return job


def make(requested: Plan, run: RunRecord) -> tuple[Job, BufferedWriter | None]:
    """Return (job, lock): the folder of a run, which only the holder of the lock may start.

    If another process has meanwhile created the folder, the lock is None and the job belongs to that process.
    """
    backend = backends.get(run["backend"])
    with layout.lock(requested.runs, requested.key):
        former = _former(requested)
        if former and _serves(former, requested.options):  # another process has just created it
            return former, None
        layout.remove_half_made(requested.runs)
        again = requested.options.requeue and not requested.options.rerun
        if former and again and attempts.goes_on(former.folder):
            run = attempts.following(former.folder, run)
            held = attempts.resume(former.folder, requested.files(run, former.folder, backend))
            say(f"{former.id} was interrupted: it resumes from its checkpoints (attempt {run['attempt']}).")
            return Job(former.folder), held
        if former:
            _set_aside(former)
        files = requested.files(run, requested.runs / layout.name(run["name"], requested.key), backend)
        folder, lock = layout.create(requested.runs, run["name"], requested.key, files)
        return Job(folder), lock


def recorded(requested: Plan) -> Job | None:
    """Return this run's job if it is running, or if it is done and need not be rerun; otherwise None."""
    former = _former(requested)
    return former if former and _serves(former, requested.options) else None


def _former(requested: Plan) -> Job | None:
    """Return the job with this cache key, whether it is running or has ended, or None."""
    folder = layout.find(requested.runs, requested.key)
    return Job(folder) if folder else None


def _serves(job: Job, options: Options) -> bool:
    """Return whether a job is running, or is done and need not be rerun, and say so. Raises StillRunning."""
    now = settled_status(job.folder)
    if not now.ended:
        if options.rerun:
            raise StillRunning(
                f"{job.id} is {now}; it cannot be rerun yet.", "Wait for it, or cancel it: job.cancel()."
            )
        say(f"{job.id} is {now}, so it was not submitted again.")
        return True
    if now == "done" and not options.rerun:
        say(f"{job.id}: recorded on {job.spec['submitted'][:10]}, not run again (rerun=True runs it).")
        return True
    return False


def _set_aside(job: Job) -> None:
    """Make room for a new run if an earlier one with this cache key has ended."""
    now, name = job.status, job.id
    aside, why = layout.set_aside(job.folder), "was recorded" if now == "done" else f"ended as {now}"
    say(f"{name} {why}: it runs again, and its earlier files are kept as {aside.name}.")


def discard(folder: Path) -> None:
    """Remove a folder so that it disappears for all readers at once, however long the removal takes."""
    gone = tempfile.mkdtemp(prefix=".new-", dir=folder.parent)
    os.rename(folder, gone)
    shutil.rmtree(gone)


@dataclass(frozen=True)
class Plan:
    """A requested run: the target, the options, and its cache key."""

    options: Options
    runs: Path
    key: str
    call: dict[str, Any]
    code: str
    arguments: dict[str, Any]
    name: str
    # {value: (total bytes, bytes in call.pkl)} for values of at least `LARGE` bytes
    large: dict[str, tuple[int, int]]
    arrays: list[memoryview]  # arrays stored separately, named by call["arrays"]

    def run_json(self, backend: str, item: int | None = None) -> RunRecord:
        """Return the run's run.json on a backend. item: the run's index in a sweep."""
        options = asdict(self.options) | {"env": None}
        record: RunRecord = {
            "format": FORMAT,
            "key": self.key,
            "own": secrets.token_hex(8),
            "name": self.options.name or self.name,
            "target": self.name,
            "arguments": {k: provenance.short(v) for k, v in self.arguments.items()},
            "command": provenance.command(self.name, self.arguments, options),
            "options": options,
            "env": sorted(self.options.env or {}),
            "ranks": self.options.ranks,
            "backend": backend,
            "controller": "gloo" if self.options.controller == "auto" else self.options.controller,
            "submitted": now(),
            "attempt": 1,
            "versions": provenance.versions(),
            "machine": provenance.machine(),
        }
        if backend == "slurm":
            record["site"] = _site(self.options)
        if item is not None:
            record["item"] = item
        return record

    def files(self, run: RunRecord, folder: Path, backend: backends.Backend) -> dict[str, str | bytes]:
        """Return the contents of the job folder before the job starts."""
        call = self.call | {"cwd": os.getcwd(), "path": [p or os.getcwd() for p in sys.path]}
        return {
            RUN_JSON: json.dumps(run, indent=1) + "\n",
            CODE: self.code,
            CALL: pickle.dumps(call),
            SCRIPT: backend.script(run, folder),
        }


def _site(options: Options) -> dict[str, Any]:
    """Return the site's requirements of a job. Raises OptionValueError for a wrong file or exceeded limit."""
    try:
        settings = site.load()
    except site.SiteError as e:
        raise OptionValueError(e.what, e.next_step) from None
    requested = {"nodes": options.nodes, "ranks": options.ranks, "time": int(options.time)}
    for name, most in settings.limits.items():
        if requested[name] > most:
            shown = clock if name == "time" else str
            raise OptionValueError(
                f"{name}: this site allows {shown(most)} for one job, not {shown(requested[name])}.",
                f"Request at most {shown(most)}.",
            )
    return settings.record()


def now() -> str:
    """Return the current time in the format of run.json."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def plan(
    target: Callable | str | os.PathLike,
    args: tuple,
    keywords: dict[str, Any],
    caller: str = "submit",
    own: tuple[str, ...] = (),
) -> Plan:
    """Return the run requested by `submit(target, *args, **keywords)`, without writing anything.

    caller: the name of the call, used in messages. own: additional options of that call.
    """
    if not callable(target) and not isinstance(target, (str, os.PathLike)):
        raise OptionError(
            f"{caller}() takes a function or the path of a script, not {target!r}.", f"{caller}(train, ...)"
        )
    target = target if callable(target) else os.fspath(target)
    given, arguments = split_keywords(target, keywords, caller, own)
    options = check_options(given)
    if callable(target):
        call, form, code, arguments, name, large, arrays = _function(target, args, arguments, caller)
    else:
        call, form, code, arguments, name, large, arrays = *_script(target, args), {}, []
    key = fingerprint.digest([FORMAT, form, options.resources()])
    return Plan(options, layout.root(options.folder), key, call, code, arguments, name, large, arrays)


def _function(target: Callable, args: tuple, kwargs: dict[str, Any], caller: str) -> tuple:
    import cloudpickle

    arguments = bind_arguments(target, args, kwargs, caller)
    closure = fingerprint.Closure(target, arguments)
    modules = [sys.modules[m] for m in sorted(closure.modules - closure.texts.keys()) if m in sys.modules]
    before = cloudpickle.list_registry_pickle_by_value()
    try:
        for m in modules:  # the student's own modules are sent with the job, so later edits do not change it
            cloudpickle.register_pickle_by_value(m)
        try:
            value = (target, args, kwargs)
            # The folder of a single run is self-contained, whereas the items of a sweep share one folder.
            function, arrays = shared.dumps(value) if caller == "map" else (cloudpickle.dumps(value), [])
        except Exception as e:
            raise _culprit(target, arguments, e) from None
    finally:
        for m in modules:
            if m.__name__ not in before:
                cloudpickle.unregister_pickle_by_value(m)
    constants = [f"{k} = {provenance.short(v)}\n" for k, v in closure.constants.items()]
    code = "".join(constants) + "".join(f"\n\n{s.rstrip()}\n" for s in reversed(closure.sources))
    call = {"script": None, "function": function, "cells": closure.cells, "modules": closure.texts}
    call["arrays"] = shared.described(arrays)
    values = {f"variable `{k}`": v for k, v in closure.constants.items()}
    values |= {f"argument `{k}`": v for k, v in arguments.items()}
    sent = len(function) + sum(array.nbytes for array in arrays)
    large = _large(values) if sent >= LARGE else {}
    return call, closure.form, code, arguments, _name(target), large, arrays


def _large(values: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return {name: (bytes, bytes outside of arrays)} for values that are large to send."""
    sizes = {}
    for name, value in values.items():
        with contextlib.suppress(Exception):
            inside, arrays = shared.dumps(value)
            sizes[name] = len(inside) + sum(array.nbytes for array in arrays), len(inside)
    return {name: size for name, size in sizes.items() if size[0] >= LARGE}


def say_large(requested: Plan, items: int = 0) -> None:
    """Report the large values that are sent with a job or a sweep's items, and suggest what to do."""
    for name, (size, inside) in requested.large.items():
        where = "the sweep's folder once for all items" if items else "the job's folder"
        if items > 1 and (inside >= LARGE or name == f"argument `{next(iter(requested.arguments))}`"):
            where = f"the sweep's folder for each of {items} items, {items * size / 1e6:.0f} MB in all"
        say(
            f"The {name} ({size / 1e6:.0f} MB) is stored in {where}. Load such data inside "
            f"{requested.name}(), for example with np.load(path), and pass the path."
        )


def _script(target: str, args: tuple) -> tuple:
    path = Path(target).expanduser().absolute()
    if not path.is_file() or path.suffix != ".py":
        raise OptionError(f"{target!r} is not a Python script (a file that ends in .py).", "Check the path.")
    argv, text = [str(a) for a in args], path.read_text()
    form, texts = fingerprint.script_form(path)
    call = {"script": str(path), "text": text, "argv": argv, "cells": {}, "modules": texts}
    return call, [form, argv], text, dict(enumerate(argv)), path.stem


def _name(target: Callable) -> str:
    while isinstance(target, functools.partial):
        target = target.func
    return getattr(target, "__name__", type(target).__name__).replace("<lambda>", "lambda")


def _culprit(
    target: Callable, arguments: dict[str, Any], error: Exception, searched: tuple[Any, ...] = ()
) -> NotPicklable:
    """Return an error that names the variable that cannot be sent; search each function only once."""
    import cloudpickle

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
            cloudpickle.dumps(value)
        except Exception as e:
            if isinstance(value, type(target)):
                return _culprit(value, {}, e, searched)
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            return NotPicklable(
                f"{name}() refers to {where}, a {kind}, which cannot be sent to the ranks ({e}).",
                f"Create it inside {name}(); each rank then has its own.",
            )
    return NotPicklable(f"{name}() cannot be sent to the ranks: {error}.", "Use a plain function.")
