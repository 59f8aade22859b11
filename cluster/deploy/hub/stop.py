"""End exactly what `start` started, and what people started through it."""

from __future__ import annotations

import os
from pathlib import Path

from cluster.deploy.slurm import processes
from cluster.deploy.slurm.start import Say, step

from . import accounts, environment, users
from . import state as states
from .settings import Trouble

ORDER = ("culler", "hub", "servers", "formgrader")  # then the servers, then the rest
LATER = ("proxy", "postgres")
FOLDERS = ("etc", "logs", "hub", "python", "python.new", "python.old", "course", "course.new", "course.old")
FOLDERS += ("exchange", "database", "database.new", "database.run", "home", "people")
FILES = ("started.json", "processes.json", "lock", "roster.csv", "accounts.json", "passwords.csv")


def stop(state: Path, say: Say = print, purge: bool = False) -> None:
    """Stop the hub in `state`. All that people have made is kept, unless `purge`.

    purge: remove the users that were made here, their homes, submissions, gradebook and all.
    """
    if os.getuid():
        raise Trouble("Only root can stop what root started (sudo).")
    if states.record(state) is None:
        say(f"No hub was started in {state}.")
        return
    settings = states.settings(state)
    with states.locked(state):
        _end(state, ORDER, say)
        made = states.accounts(state, settings).all()
        numbers = {there.pw_uid for user in made if (there := users.find(user))}
        with step("servers and kernels", say) as note:
            note(f"{states.end_all(state, numbers)} processes ended")
        _end(state, LATER, say)
        if settings.slurm == "machine" and accounts.running(state):
            from cluster.deploy.slurm.stop import stop as stop_slurm

            stop_slurm(accounts.state_of(state), say)
        if purge:
            gone = states.accounts(state, settings).remove()
            say(f"  ✓ users removed: {', '.join(gone) or 'none'}")
    if purge:
        _remove(state)
        say(f"Removed {state}.")


def _end(state: Path, names: tuple[str, ...], say: Say) -> None:
    ledger = states.ledger(state)
    for name in names:
        record = ledger.all().get(name)
        if processes.alive(record):
            with step(name, say) as note:
                note("ended")
                processes.end([record])
        if record:
            ledger.drop(name)


def _remove(state: Path) -> None:
    """Delete what this package put into the state folder, and the folder when nothing else is in it."""
    for name in FOLDERS:
        environment.remove(state / name)
    for name in FILES:
        (state / name).unlink(missing_ok=True)
    if any(state.iterdir()):
        raise Trouble(f"{state} holds more than this command put there; the rest is left.")
    state.rmdir()
