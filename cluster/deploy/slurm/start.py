"""Start what does not run, mend what is broken, and wait until each daemon answers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import accounts, daemons, machine, processes
from . import state as states
from .daemons import Daemon
from .description import Cluster, Trouble

Say = Callable[[str], None]


def start(cluster: Cluster, state: Path, say: Say = print, teacher: str | None = None) -> None:
    """Bring the whole cluster up in `state`. Starting twice is harmless.

    teacher: a Unix user who gets an account without a GPU limit.
    Raises Trouble, with the end of its log, for the daemon that failed.
    """
    if why := machine.missing():
        raise Trouble(f"Slurm cannot be started here: {why}.")
    here = machine.look(cluster, state)
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    with states.locked(state):
        states.configure(cluster, here)
        munged, mariadbd, slurmdbd, slurmctld, *nodes = daemons.all_of(cluster, here)
        if not munged.answers():
            daemons.prepare_munge()
        run([munged], state, say)
        if not (state / "database").exists():
            with step("an empty database", say):
                daemons.prepare_database(here)
        run([mariadbd], state, say)
        run([slurmdbd], state, say)
        accounts.register(cluster, state)
        run([slurmctld], state, say)
        with step("accounts", say) as note:
            note(accounts.apply(cluster, state, teacher))
        run(nodes, state, say)


def run(group: list[Daemon], state: Path, say: Say) -> None:
    """Start those of the group that are dead, then wait until all of it answers."""
    title = group[0].name if len(group) == 1 else f"{group[0].name} … {group[-1].name}"
    ledger, fresh = states.ledger(state), []
    records = ledger.all()
    if group[0].name == "munged" and group[0].answers() and not processes.alive(records.get("munged")):
        say(f"  ✓ {title}: one answers on this machine; it is used")
        return
    with step(title, say) as note:
        for d in group:
            if not processes.alive(records.get(d.name)):
                _free(d)
                records[d.name] = processes.spawn(d.argv, d.env, d.log)
                ledger.put(d.name, records[d.name])
                fresh.append(d.name)
        for d in group:
            _await(d, records[d.name])
        partly = 0 < len(fresh) < len(group)
        note(f"started {', '.join(fresh)}" if partly else "" if fresh else "runs already")


@contextlib.contextmanager
def step(title: str, say: Say) -> Iterator[Callable[[str], None]]:
    """One line of progress, with the seconds it took; the body may `note` what is to be said."""
    began, notes = time.monotonic(), []
    yield notes.append
    said = f": {notes[-1]}" if notes and notes[-1] else ""
    say(f"  ✓ {title}{said} ({time.monotonic() - began:.1f} s)")


def _free(d: Daemon) -> None:
    if d.port and daemons.taken(d.port):
        raise Trouble(
            f"{d.name} cannot listen on 127.0.0.1:{d.port}: another process does "
            f"(`ss -ltnp sport = :{d.port}` names it). End that, or set another `port`."
        )


def _await(d: Daemon, record: processes.Record) -> None:
    deadline = time.monotonic() + d.patience
    while not d.answers():
        dead = not processes.alive(record)
        if dead or time.monotonic() > deadline:
            what = "ended" if dead else f"did not answer within {d.patience:.0f} s"
            raise Trouble(f"{d.name} {what}. The end of {d.log}:\n{tail(d.log)}")
        time.sleep(0.1)


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log, indented."""
    text = path.read_text(errors="replace").splitlines() if path.exists() else []
    return "\n".join(f"    {line}" for line in text[-lines:]) or "    (empty)"
