"""End exactly what `start` started: jobs first, then the daemons in the reverse order."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from cluster.system import processes

from .. import services
from ..services import Say, Trouble, step
from . import daemons
from . import state as states
from .machine import CGROUPS

SERVICES = ("slurmctld", "slurmdbd", "mariadbd", "munged")  # in the order in which they end, after the nodes


def stop_slurm(state: Path, say: Say = print, purge: bool = False) -> None:
    """Stop the cluster in `state`. Kept are the database, the queue and the jobs' numbers, unless `purge`.

    Running jobs are cancelled; pending ones stay in the queue.
    """
    if os.getuid():
        raise Trouble("Only root can stop what root started (sudo).")
    if states.record(state) is None:
        say(f"No one-machine Slurm was started in {state}.")
        return
    with services.locked(state, say):
        ledger = services.process_ledger(state)
        nodes = [n for n in ledger.all() if n not in SERVICES]
        running = {n: r for n, r in ledger.all().items() if processes.alive(r)}
        if "slurmctld" in running:
            _cancel(state, say)
        for group in (nodes, *([s] for s in SERVICES)):
            mine = [n for n in group if n in running]
            if mine:
                with step(mine[0] if len(mine) == 1 else f"{mine[0]} … {mine[-1]}", say) as note:
                    note("ended")
                    processes.end([running[n] for n in mine])
            for name in group:
                ledger.drop(name)
        if left := processes.slurm_processes(state / "etc/slurm.conf"):
            processes.end(left, 1.0)
            say(f"  ✓ {len(left)} processes of jobs that were left: ended")
        _cgroups(nodes)
        if not running:
            say("Nothing was running.")
    if purge:
        states.remove(state)
        say(f"Removed {state}.")


def _cancel(state: Path, say: Say) -> None:
    """Cancel the running jobs: SIGKILL, and a few seconds for the nodes to say that they are gone."""
    states_of_running = "--states=RUNNING,COMPLETING,SUSPENDED,STOPPED"
    jobs = (daemons.ask(state, "squeue", "--noheader", states_of_running, "--format=%A") or "").split()
    if not jobs:
        return
    with step(f"{len(jobs)} running jobs", say) as note:
        daemons.ask(state, "scancel", "--full", "--signal=KILL", *jobs)
        daemons.ask(state, "scancel", *jobs)
        deadline = time.monotonic() + 5
        while daemons.ask(state, "squeue", "--noheader", states_of_running) and time.monotonic() < deadline:
            time.sleep(0.2)
        note("cancelled")


def _cgroups(nodes: list[str]) -> None:
    """Remove the nodes' empty cgroups; one that is in use cannot be removed, and is left."""
    for node in nodes:
        for top in [*CGROUPS.glob(f"*/slurm_{node}"), CGROUPS / f"system.slice/{node}_slurmstepd.scope"]:
            for folder in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            with contextlib.suppress(OSError):
                top.rmdir()
