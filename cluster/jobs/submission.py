"""`submit`: turns a function into a job by means of the folder that records it."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import secrets
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import BufferedWriter
from pathlib import Path
from typing import Any

from cluster.slurm import site
from cluster.slurm.words import clock

from . import backends
from .code import fingerprint, program, reads
from .code.program import LARGE, Program
from .errors import OptionError, OptionValueError, Refused, StillRunning
from .job import Job, say
from .options import Options, read_call
from .run import attempts, layout, provenance
from .run.run_folder import CALL, CODE, RUN_JSON, SCRIPT, Run, RunRecord
from .run.status import Status

FORMAT = 1  # format version of the job folder
UNCOMPARED = (
    "Not compared: versions of packages, the network, files that no argument or variable names, and "
    "environment variables that the code does not name."
)
_said: set[str] = set()  # what this process says only once


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
    return launch(plan(target, args, keywords))


@dataclass(frozen=True)
class Made:
    """What a request has put on disk.

    run: the job, or the round of a sweep, to be started; None if nothing is left to run. held: the lock; None
    if another process was first. new: what to remove if the backend refuses it. described: what is said to
    run. program: what is sent, if anything runs. items: for a sweep, how many items run.
    """

    handle: Any
    run: Run | None
    held: BufferedWriter | None
    new: Path | None = None
    described: str = ""
    program: Program | None = None
    items: int = 0


def launch(requested: Plan) -> Any:
    """Return the recorded job or sweep of a request; otherwise make its folder, start it and return it."""
    for note in dict.fromkeys(requested.notes):
        say(note)
    if existing := requested.recorded():
        return existing
    for note in provenance.not_passed_on(requested.options):
        say_once(note)
    name, why = backends.choose(requested.options.backend)
    backend, record = backends.get(name), requested.run_json(name)
    requested.check(backend, record)
    with layout.lock(requested.runs, requested.key):
        if existing := requested.recorded():  # another process has just made it
            return existing
        layout.remove_half_made(requested.runs)
        made = requested.make(backend, record)
    note = ""
    if made.held is None:
        return made.handle
    with made.held:
        try:
            if made.run:
                note = backend.start(made.run, provenance.environment(requested.options), made.held)
        except Refused:
            if made.new:
                layout.discard(made.new)
            raise
    say(f"{made.handle.id}: {made.described} on the {name} backend{why}{note}")
    if made.program:
        say_large(made.program, made.items)
    return made.handle


def reused(handle: Any, now: Status, rerun: bool, counts: str = "", changed: list[str] | None = None) -> Any:
    """Return a job or sweep if it is running, or is done and need not be rerun, and say so; otherwise None.

    counts: text about the items of a sweep. changed: files that changed before it started, so that its result
    is not the requested one. Raises StillRunning.
    """
    if not now.ended and rerun:
        raise StillRunning(f"{handle.id} is {now}; it cannot be rerun yet.", "Wait for it, or call cancel().")
    if not now.ended:
        say(f"{handle.id} is {now}{counts}, so it was not submitted again.")
        return handle
    if now == "done" and not rerun and changed:
        say(f"{handle.id}: {', '.join(changed)} changed between its submission and its start.")
    elif now == "done" and not rerun:
        first = "" if UNCOMPARED in _said else f" {UNCOMPARED}"
        _said.add(UNCOMPARED)
        recorded = f"recorded on {handle.spec['submitted'][:10]}"
        say(f"{handle.id}: {recorded}, not run again (rerun=True runs it).{first}")
        return handle
    return None


def say_once(note: str) -> None:
    """Print a line, unless this process has printed it before."""
    if note not in _said:
        _said.add(note)
        say(note)


def say_large(sent: Program, items: int = 0) -> None:
    """Report the large values that are sent with a job or a sweep's items, and suggest what to do."""
    for name, (size, inside) in sent.large.items():
        where = "the sweep's folder once for all items" if items else "the job's folder"
        if items > 1 and (inside >= LARGE or name == f"argument `{next(iter(sent.arguments))}`"):
            where = f"the sweep's folder for each of {items} items, {items * size / 1e6:.0f} MB in all"
        say(
            f"The {name} ({size / 1e6:.0f} MB) is stored in {where}. Load such data inside "
            f"{sent.name}(), for example with np.load(path), and pass the path."
        )


@dataclass(frozen=True)
class Plan:
    """A requested run: the call, its options, and its cache key. `SweepPlan` extends it for `map`.

    base: the key without files. files: {path: state} of what its values name. environment: the variables that
    it reads. notes: what the user should know about the key.
    """

    options: Options
    program: Program
    runs: Path
    key: str
    base: str
    files: dict[str, reads.State]
    environment: dict[str, str]
    notes: list[str]

    def recorded(self) -> Any:
        """Return the job if it is running, or is done and need not be rerun; otherwise None."""
        folder = layout.find(self.runs, self.key)
        if folder is None:
            return None
        run = Run(folder)
        return reused(
            Job(folder), backends.settled_status(run), self.options.rerun, changed=reads.changed(run)
        )

    def run_json(self, backend: str, item: int | None = None) -> RunRecord:
        """Return the run's run.json on a backend. item: the run's index in a sweep."""
        options, sent = asdict(self.options) | {"env": None}, self.program
        record: RunRecord = {
            "format": FORMAT,
            "key": self.key,
            "own": secrets.token_hex(8),
            "name": self.options.name or sent.name,
            "target": sent.name,
            "arguments": {k: provenance.short(v) for k, v in sent.arguments.items()},
            "command": provenance.command(sent.name, sent.arguments, options),
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
        if self.files:
            record["files"], record["base"] = self.files, self.base
        if backend == "slurm":
            record["site"] = _site(self.options)
        if item is not None:
            record["item"] = item
        return record

    def contents(self, backend: backends.Backend, record: RunRecord, folder: Path) -> dict[str, str | bytes]:
        """Return the contents of the job folder before the job starts."""
        call = self.program.call | {"cwd": os.getcwd(), "path": [p or os.getcwd() for p in sys.path]}
        call |= {"files": self.files, "environment": self.environment}
        return {
            RUN_JSON: json.dumps(record, indent=1) + "\n",
            CODE: self.program.code,
            CALL: pickle.dumps(call),
            SCRIPT: backend.script(record, folder),
        }

    def check(self, backend: backends.Backend, record: RunRecord) -> None:
        """Raise a JobError if it could never run on the backend."""
        backend.check(record)

    def make(self, backend: backends.Backend, record: RunRecord) -> Made:
        """Make the folder, all of it or nothing; the caller holds the lock of the key."""
        folder, new = layout.find(self.runs, self.key), None
        held: BufferedWriter | None
        if folder and self.resumes(Run(folder)):
            record = attempts.following(Run(folder), record)
            held = attempts.resume(Run(folder), self.contents(backend, record, folder))
            again = f"it resumes from its checkpoints (attempt {record['attempt']})"
            say(f"{folder.name} was interrupted: {again}.")
        else:
            if folder:  # an earlier run has ended
                ended, aside = backends.status_of(Run(folder)), layout.set_aside(folder)
                why = "was recorded" if ended == "done" else f"ended as {ended}"
                say(f"{folder.name} {why}: it runs again, and its earlier files are kept as {aside.name}.")
            new = self.runs / layout.name(record["name"], self.key)
            contents = self.contents(backend, record, new)
            folder, held = layout.create(self.runs, record["name"], self.key, contents)
        p = record["ranks"]
        return Made(Job(folder), Run(folder), held, new, f"{p} rank{'s' * (p > 1)}", self.program)

    def resumes(self, former: Run) -> bool:
        """Return whether a former run goes on from its checkpoints, instead of running again."""
        return self.options.requeue and not self.options.rerun and attempts.goes_on(former)


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
    index: dict[str, Any] | None = None,
) -> Plan:
    """Return the run requested by `submit(target, *args, **keywords)`, without writing anything.

    caller: the name of the call, used in messages. own: additional options of that call.
    index: what `reads.recorded` returns, if it is known.
    """
    if not callable(target) and not isinstance(target, (str, os.PathLike)):
        raise OptionError(
            f"{caller}() takes a function or the path of a script, not {target!r}.", f"{caller}(train, ...)"
        )
    target = target if callable(target) else os.fspath(target)
    options, given, arguments = read_call(target, args, keywords, caller, own)
    if callable(target):
        sent = program.of_function(target, args, given, arguments, apart=caller == "map")
    else:
        sent = program.of_script(target, args)
    runs = layout.root(options.folder)
    files, notes = reads.files(sent.paths, str(runs))
    environment = reads.variables(sent.strings, provenance.environment(options))
    form = [FORMAT, sent.form, options.resources(), *([environment] if environment else [])]
    base = fingerprint.digest(form)
    for where, why in sent.unstable.items():
        notes.append(
            f"{sent.name}() refers to {where}, which cannot be compared by value ({why}). "
            f"So this run is never replayed: {caller}() runs it each time."
        )
        form.append(secrets.token_hex())
    key = fingerprint.digest([*form, reads.form(files)] if files else form)
    if files and not sent.unstable:
        index = reads.recorded(runs) if index is None else index
        key, files = _of_recorded(index, base, key, files, notes)
    return Plan(options, sent, runs, key, base, files, environment, notes)


def _of_recorded(
    index: dict[str, list[reads.Recorded]],
    base: str,
    key: str,
    files: dict[str, reads.State],
    notes: list[str],
) -> tuple[str, dict[str, reads.State]]:
    """Return (key, files) of the recorded run whose files differ only by what it wrote, or those given."""
    found = index.get(base, [])
    for former in [] if key in {one.key for one in found} else found:
        outputs = reads.written(files, former, index)
        if outputs is not None:
            more = f" and {len(outputs) - 3} others" if len(outputs) > 3 else ""
            notes.append(
                f"{', '.join(outputs[:3])}{more} changed while {former.target} ran: taken as its output."
            )
            return former.key, former.files
    return key, files
