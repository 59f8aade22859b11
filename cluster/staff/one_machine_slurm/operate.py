"""Start the missing daemons and wait for them, report their state, and stop exactly the started ones."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from cluster.system import processes

from .. import services
from ..services import HubError, Say, start_group, step
from . import accounts, machine, slurm_daemons, slurm_folder
from .description import Cluster, from_values
from .machine import CGROUPS, Machine

SERVICES = ("slurmctld", "slurmdbd", "mariadbd", "munged")  # in stopping order, after the nodes


def start_slurm(cluster: Cluster, state: Path, say: Say = print, teacher: str | None = None) -> None:
    """Start the whole cluster in `state`. Repeating it is harmless.

    teacher: a Unix user who gets an account without a GPU limit.
    Raises HubError, with the end of its log, for the daemon that failed.
    """
    if why := machine.missing():
        raise HubError(f"Slurm cannot be started here: {why}.")
    here = machine.look(cluster, state)
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    with services.locked(state, say):
        slurm_folder.refuse_foreign(state)
        slurm_folder.configure(cluster, here)
        munged, mariadbd, slurmdbd, slurmctld, *nodes = every = slurm_daemons.all_daemons(cluster, here)
        services.await_ports(every, state)
        if not munged.answers():
            slurm_daemons.prepare_munge()
        start_group([munged], state, say)
        if not (state / "database").exists():
            with step("an empty database", say):
                slurm_daemons.prepare_database(here)
        start_group([mariadbd], state, say)
        start_group([slurmdbd], state, say)
        accounts.register(cluster, state)
        start_group([slurmctld], state, say)
        with step("accounts", say) as note:
            note(accounts.apply(cluster, state, teacher))
        start_group(nodes, state, say)


def report(state: Path) -> tuple[int, str]:
    """Return (status, report); the exit status is 0 if all parts answer, 1 if one is dead, 3 if none runs."""
    last = slurm_folder.record(state)
    if last is None:
        return 3, f"No single-host Slurm was started in {state}."
    cluster = from_values(last["cluster"])
    records = services.process_ledger(state).all()
    rows, good, lives, ruled = [], 0, 0, False
    whole = slurm_daemons.all_daemons(cluster, Machine(state, last["host"], last["memory"]))
    for d in whole:
        record = records.get(d.name)
        here = processes.alive(record)
        # Only root can connect to MariaDB; for other users it is enough that its process exists.
        if d.name == "mariadbd" and os.getuid():
            answers = here
        else:
            answers = (ruled or d.name not in cluster.node_names) and d.answers()
        ruled |= d.name == "slurmctld" and answers  # a node's state is known only through slurmctld
        lives += here
        good += answers
        seen = slurm_daemons.node_state(state, d.name) if answers and d.name in cluster.node_names else None
        rows.append(f"  {d.name:10} {_words(record, here, answers)}" + (f", {seen}" if seen else ""))
    how = f"memory limits: {last['memory']}" + (f" ({last['why']})" if last["why"] else "")
    if last["memory"] == "polling":
        how += ", checked once per second; a task over its limit ends as FAILED, not OUT_OF_MEMORY"
    net = "" if last["host"] is None else "\nnetwork: the daemons listen on all addresses (no namespaces)"
    head = f"Single-host Slurm {cluster.name!r} in {state}: {cluster}"
    code = 0 if good == len(whole) else 1 if lives else 3
    hint = {0: "", 1: "\nStart it again to repair it.", 3: "\nIt is stopped."}[code]
    return code, "\n".join([head, *rows, how]) + net + hint + f"\n{export(state)}"


def export(state: Path) -> str:
    """Return the shell line that a user needs."""
    return f"export SLURM_CONF={state}/slurm.conf"


def _words(record: processes.Record | None, here: bool, answers: bool) -> str:
    number = f"process {record['pid']}" if record else ""
    if answers:
        return f"answers ({number})" if here else "answers (not started by this command, and left running)"
    if here:
        return f"is running, but does not answer or is not visible ({number})"
    return f"dead (was {number})" if record else "not started"


def stop_slurm(state: Path, say: Say = print, purge: bool = False) -> None:
    """Stop the cluster in `state`. The database, the queue and the job IDs are kept, unless `purge`.

    Running jobs are cancelled; pending ones stay in the queue.
    """
    if os.getuid():
        raise HubError("Only root can stop what root started (sudo).")
    if slurm_folder.record(state) is None:
        say(f"No single-host Slurm was started in {state}.")
        return
    slurm_folder.refuse_foreign(state)
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
            say(f"  ✓ ended {len(left)} leftover job processes")
        _cgroups(nodes)
        if not running:
            say("Nothing was running.")
    if purge:
        slurm_folder.remove(state)
        say(f"Removed {state}.")


def _cancel(state: Path, say: Say) -> None:
    """Cancel the running jobs with SIGKILL, and wait a few seconds for the nodes to confirm."""
    running = "--states=RUNNING,COMPLETING,SUSPENDED,STOPPED"
    jobs = (slurm_daemons.ask(state, "squeue", "--noheader", running, "--format=%A") or "").split()
    if not jobs:
        return
    with step(f"{len(jobs)} running jobs", say) as note:
        slurm_daemons.ask(state, "scancel", "--full", "--signal=KILL", *jobs)
        slurm_daemons.ask(state, "scancel", *jobs)
        deadline = time.monotonic() + 5
        while slurm_daemons.ask(state, "squeue", "--noheader", running) and time.monotonic() < deadline:
            time.sleep(0.2)
        note("cancelled")


def _cgroups(nodes: list[str]) -> None:
    """Remove the nodes' empty cgroups; those in use cannot be removed and stay."""
    for node in nodes:
        for top in [*CGROUPS.glob(f"*/slurm_{node}"), CGROUPS / f"system.slice/{node}_slurmstepd.scope"]:
            for folder in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            with contextlib.suppress(OSError):
                top.rmdir()
