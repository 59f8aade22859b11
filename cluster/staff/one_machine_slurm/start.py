"""Start what does not run, mend what is broken, and wait until each daemon answers."""

from __future__ import annotations

from pathlib import Path

from .. import services
from ..services import Say, Trouble, start_group, step
from . import accounts, daemons, machine
from . import state as states
from .description import Cluster


def start_slurm(cluster: Cluster, state: Path, say: Say = print, teacher: str | None = None) -> None:
    """Bring the whole cluster up in `state`. Starting twice is harmless.

    teacher: a Unix user who gets an account without a GPU limit.
    Raises Trouble, with the end of its log, for the daemon that failed.
    """
    if why := machine.missing():
        raise Trouble(f"Slurm cannot be started here: {why}.")
    here = machine.look(cluster, state)
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    with services.locked(state, say):
        states.configure(cluster, here)
        munged, mariadbd, slurmdbd, slurmctld, *nodes = every = daemons.all_daemons(cluster, here)
        services.await_ports(every, state)
        if not munged.answers():
            daemons.prepare_munge()
        start_group([munged], state, say)
        if not (state / "database").exists():
            with step("an empty database", say):
                daemons.prepare_database(here)
        start_group([mariadbd], state, say)
        start_group([slurmdbd], state, say)
        accounts.register(cluster, state)
        start_group([slurmctld], state, say)
        with step("accounts", say) as note:
            note(accounts.apply(cluster, state, teacher))
        start_group(nodes, state, say)
