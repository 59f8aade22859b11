"""End exactly the processes that `start` or users of the hub started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from cluster.system import processes

from .. import services
from ..services import Say, step
from . import COURSE, environment, slurm_accounts, users
from . import state as states
from .hub_settings import HubError, Settings

ORDER = ("hub", "servers")  # followed by users' servers, then the proxy
FOLDERS: tuple[str, ...] = (
    "etc",
    "logs",
    "hub",
    "python",
    "python.new",
    ".python.old",
    "course",
    "course.new",
    ".course.old",
)
FOLDERS += ("exchange", "database", "database.run", "home", "people", "lti")
FILES: tuple[str, ...] = (
    "started.json",
    "processes.json",
    "lock",
    "roster.csv",
    "accounts.json",
    "passwords.csv",
)
FILES += (states.BACKED_UP,)


def stop_hub(state: Path, say: Say = print, purge: bool = False) -> None:
    """Stop the hub in `state`. All files of users are kept, unless `purge`.

    purge: remove the users created here, with their homes and submissions, and the gradebook.
    """
    if os.getuid():
        raise HubError("Only root can stop what root started (sudo).")
    if states.record(state) is None:
        raise HubError(
            f"No hub was started in {state}; name the state folder with --state, or STATE= of make."
        )
    settings = states.settings(state)
    if purge:
        _used_elsewhere(state, settings)
    with states.locked(state, say):
        states.unwanted(state)  # recorded first, so that the stop does not look like a crash
        _end(state, ORDER, say)
        accounts = states.accounts(state, settings).all()
        numbers = {there.pw_uid for user in accounts if (there := users.unix_user(user))}
        with step("servers and kernels", say) as note:
            note(f"{states.end_all(state, numbers)} processes ended")
        _end(state, tuple(services.process_ledger(state).all()), say)
        if settings.slurm == "machine" and slurm_accounts.slurm_runs(state):
            from ..one_machine_slurm.operate import stop_slurm

            stop_slurm(slurm_accounts.slurm_state(state), say)
        if purge:
            gone = states.accounts(state, settings).remove()
            say(f"  ✓ users removed: {', '.join(gone) or 'none'}")
    if purge:
        _remove(state)
        say(f"Removed {state}.")


def _used_elsewhere(state: Path, settings: Settings) -> None:
    """Raise HubError if a purge would remove the home of a person who also has the course of another hub."""
    book = states.accounts(state, settings)
    for home in (book.homes / user for user in book.all()):
        for link in (home / "course", *home.glob("*/course")):
            if other := states.other_hub(link, state):
                raise HubError(
                    f"{home} would be removed, but {link} leads to the hub in {other}. Nothing was done. "
                    "Purge that hub first, or stop this one without --purge."
                )


def confirm_purge(state: Path) -> None:
    """Show what a purge would remove; raise HubError unless the folder's name is entered as confirmation."""
    if os.getuid() or states.record(state) is None:
        return  # `stop` reports this error
    print(losses(state), flush=True)
    if not sys.stdin.isatty():
        raise HubError(
            "Nothing was done, because there is no terminal to ask for confirmation. Use --yes to purge "
            "without one."
        )
    try:
        typed = input(f"To remove all of it, type {state}: ")
    except EOFError:
        typed = ""
    if typed.strip() != str(state):
        raise HubError("Nothing was done.")


def losses(state: Path) -> str:
    """Describe what a purge would remove."""
    settings = states.settings(state)
    accounts = states.accounts(state, settings).all()
    submitted, inbox = 0, len(list((state / "exchange" / COURSE / "inbound").glob("*+*")))
    if users.unix_user(settings.grader):
        submitted = len(list((users.course_root(settings.grader) / ".grading/submitted").glob("*/*")))
    last = states.backed_up(state)
    hours = (time.time() - last["time"]) / 3600 if last else 0
    age = f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"
    return "\n".join(
        [
            f"This removes {state}:",
            f"  {len(accounts)} users created here, with their homes",
            f"  {submitted} collected submissions with all scores, {inbox} not yet collected",
            f"  newest backup: {last['file']}, {age} old" if last else "  no backup has been made",
        ]
    )


def _end(state: Path, names: tuple[str, ...], say: Say) -> None:
    ledger = services.process_ledger(state)
    for name in names:
        record = ledger.all().get(name)
        if processes.alive(record):
            with step(name, say) as note:
                note("ended")
                processes.end([record])
        if record:
            ledger.drop(name)


def _remove(state: Path) -> None:
    """Delete the files of this package in the state folder, and the folder if nothing else is in it."""
    for name in FOLDERS:
        environment.remove(state / name)
    for name in FILES:
        (state / name).unlink(missing_ok=True)
    if any(state.iterdir()):
        raise HubError(f"{state} contains more than this command wrote; the other files were kept.")
    state.rmdir()
