"""Other hubs of this machine, such as another course's or last term's: what they use, and their users.

Each hub has a state folder, a port, a grader and, if people are in several hubs, a folder in their homes. A
hub does not lock, log out or remove people on another hub's roster.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cluster.system import files, processes
from cluster.system.settings import text as setting

from .. import services
from . import roster
from . import state as states
from .hub_settings import HubError, Settings
from .roster import Person

PORTS = 5  # consecutive ports that a hub listens on


def note(state: Path) -> None:
    """Record that there is a hub in this state folder: in $CLUSTER_STATE/hubs, readable only by root."""
    _list().mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write(_entry(state), f"{state}\n", mode=0o600)


def forget(state: Path) -> None:
    """Remove the hub from the list."""
    _entry(state).unlink(missing_ok=True)


def others(state: Path) -> list[Path]:
    """Return the state folders of the other hubs, including stopped ones."""
    folders = [Path(path.read_text().strip()) for path in sorted(_list().glob("*.txt"))]
    return [other for other in folders if other != state and states.record(other)]


def started_from(root: Path) -> list[Path]:
    """Return the state folders of hubs started from this repository; for root, only root's."""
    if not os.access(_list(), os.R_OK):
        return []
    folders = [Path(path.read_text().strip()) for path in sorted(_list().glob("*.txt"))]
    return [state for state in folders if Path((states.record(state) or {}).get("root", "/")) == root]


def of_others(state: Path) -> dict[str, Path]:
    """Return {user: state folder} for all people on the roster of another hub."""
    return {user: other for other in others(state) for user in _people(other)}


def made_by_others(state: Path) -> dict[str, Path]:
    """Return {user: state folder} for the Unix users that another hub has created."""
    return {
        user: other
        for other in others(state)
        for user in states.accounts(other, states.settings(other)).all()
    }


def check(state: Path, settings: Settings, people: list[Person]) -> None:
    """Raise HubError if this hub and another one would use the same folders of a person.

    It is also raised if another running hub uses the same ports or Slurm.
    """
    for other in others(state):
        theirs = states.settings(other)
        both = sorted(_people(other) & {person.user for person in people})
        if both and theirs.folder == settings.folder:
            where = f"~/{settings.folder}" if settings.folder else "the home itself"
            raise HubError(
                f"{both[0]} is on the roster of the hub in {other}, too, and both put their course into "
                f"{where}. Set folder = '…' in the settings of this hub, such as 'hpdl-2027'."
            )
        if not runs(other):
            continue
        if abs(theirs.port - settings.port) < PORTS:
            raise HubError(
                f"port = {settings.port}: the hub in {other} has {theirs.port} and the next {PORTS - 1}. Set "
                f"another, such as port = {theirs.port + 10}."
            )
        if theirs.slurm == settings.slurm == "machine":
            raise HubError(
                "slurm = 'machine': the single-host Slurm has the roster of only one hub, that in "
                f"{other}. Set slurm = 'none' here, or use the site's Slurm (slurm = 'site') for both."
            )


def runs(state: Path) -> bool:
    """Return whether a part of the hub is running."""
    return any(map(processes.alive, services.process_ledger(state).all().values()))


def _people(state: Path) -> set[str]:
    kept = state / states.ROSTER
    return {person.user for person in roster.read_people(kept)} if kept.exists() else set()


def _list() -> Path:
    return Path(setting("CLUSTER_STATE")) / "hubs"


def _entry(state: Path) -> Path:
    return _list() / f"{hashlib.sha256(str(state).encode()).hexdigest()[:16]}.txt"
