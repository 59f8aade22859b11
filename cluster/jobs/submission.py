"""`submit`: from a function to a job, by way of the folder that records it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path
from typing import Any

from . import attempts, backends, ledger, record, state
from .errors import Refused, StillRunning
from .job import Job, say
from .plan import Plan, plan


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
        requeue (False): a run that was interrupted, not ended by an error of its own, goes on as its next
            attempt in the same folder, from what it has saved there (see `cluster.training.checkpoint`).
            Slurm puts a job back into its queue by itself when it was preempted or a node failed. What
            nobody starts again (this machine was switched off, the launcher was killed, the time was up, the
            job was cancelled) goes on when the same run is submitted once more. rerun=True starts anew.
        timeline (False): record what Horovod does, for `job.timeline()`. It takes a core of its own and makes
            steps slower; a recorded result serves with or without it.
        max_output ("50M"): the most that is kept of what a rank prints, the beginning and the end, and of
            what it logs. $CLUSTER_MAX_OUTPUT changes the default.
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
    asked = plan(target, args, keywords)
    found = recorded(asked)
    if found:
        return found
    backend, why = backends.choose(asked.options.backend)
    run = asked.run(backend)
    backends.get(backend).check(run)
    job, held = make(asked, run)
    if held:
        with held:
            try:
                env = record.environment(asked.options)
                note = backends.get(backend).start(job.folder, env, held)
            except Refused:
                if job.spec["attempt"] == 1:  # else what earlier attempts left stays
                    discard(job.folder)
                raise
        p = job.ranks
        say(f"{job.id}: {p} rank{'s' * (p > 1)} on the {backend} backend{why}{note or ''}")
    return job


def make(asked: Plan, run: dict[str, Any]) -> tuple[Job, BufferedWriter | None]:
    """(job, lock): the folder of a run that is to be started by the one who holds the lock, and by no other.

    Where another process has made it in the meantime, the lock is None and the job is that one's.
    """
    backend = backends.get(run["backend"])
    with ledger.lock(asked.runs, asked.key):
        found = recorded(asked)  # by another process, just now
        if found:
            return found, None
        ledger.sweep(asked.runs)
        former = ledger.find(asked.runs, asked.key)
        if former and asked.options.requeue and not asked.options.rerun and attempts.goes_on(former):
            run = attempts.following(former, run)
            held = attempts.resume(former, asked.files(run, former, backend))
            say(f"{former.name} was interrupted: it goes on from its checkpoints (attempt {run['attempt']}).")
            return Job(former), held
        if former:
            _set_aside(former)
        files = asked.files(run, asked.runs / ledger.name(run["name"], asked.key), backend)
        folder, held = ledger.create(asked.runs, run["name"], asked.key, files)
        return Job(folder), held


def recorded(asked: Plan) -> Job | None:
    """The job that runs or ran with this key, if it serves."""
    folder = ledger.find(asked.runs, asked.key)
    if folder is None:
        return None
    job = Job(folder)
    now = state.decided(job.folder)
    if not now.ended:
        if asked.options.rerun:
            raise StillRunning(
                f"{job.id} is {now}; it cannot be run again yet.", "Wait for it, or job.cancel() it."
            )
        say(f"{job.id} is {now}: this is that job.")
        return job
    if now == "done" and not asked.options.rerun:
        say(f"{job.id}: recorded on {job.spec['submitted'][:10]}, not run again (rerun=True runs it).")
        return job
    return None


def _set_aside(folder: Path) -> None:
    """Make room for a new run, where one with this key has ended."""
    now = Job(folder).status
    aside, why = ledger.set_aside(folder), "was recorded" if now == "done" else f"ended as {now}"
    say(f"{folder.name} {why}: it runs again, and what it left is kept as {aside.name}.")


def discard(folder: Path) -> None:
    """Remove a folder at once for all who look, however long the removal takes."""
    gone = tempfile.mkdtemp(prefix=".new-", dir=folder.parent)
    os.rename(folder, gone)
    shutil.rmtree(gone)
