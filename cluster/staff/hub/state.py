"""The state folder: its contents, the record of started parts, and the processes that belong to this hub."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.system import files, processes
from cluster.system.settings import given

from ..services import check_folder
from ..services import locked as locked
from . import config_files, environment, users
from .hub_settings import HubError, Settings, as_values, from_values

if TYPE_CHECKING:
    import psutil

RECORD = "started.json"
ROSTER = "roster.csv"  # the most recently read roster
BACKED_UP = "backed-up.json"  # the newest backup: path and time
LONGEST = 70  # maximum length of the folder's path


def record(state: Path) -> dict | None:
    """Return the last start's {settings, root}, `stopped` after a deliberate stop; None if never started."""
    return files.read_json(state / RECORD)


def stopped(state: Path) -> float | None:
    """Return when the hub was stopped on purpose; None if it should run, so missing parts have died."""
    return (record(state) or {}).get("stopped")


def wanted(state: Path) -> None:
    """Record that this hub should be running."""
    if stopped(state):
        files.write_json(state / RECORD, (record(state) or {}) | {"stopped": None}, mode=0o600)


def unwanted(state: Path) -> None:
    """Record that the hub was stopped on purpose, now."""
    files.write_json(state / RECORD, (record(state) or {}) | {"stopped": time.time()}, mode=0o600)


def settings(state: Path) -> Settings:
    """Return the settings that the hub was last started with, or the default ones."""
    last = record(state)
    return from_values(last["settings"]) if last else Settings()


def backed_up(state: Path) -> dict | None:
    """Return {file, time} of the newest backup, or None."""
    return files.read_json(state / BACKED_UP)


def accounts(state: Path, chosen: Settings) -> users.Accounts:
    """Return the Unix users that were created for this hub."""
    return users.Accounts(state, Path(chosen.homes) if chosen.homes else state / "home")


def check(state: Path) -> None:
    """Raise HubError for an unsuitable state folder, whether it exists or not."""
    check_folder(state, LONGEST)
    if state.is_relative_to("/tmp"):
        raise HubError(
            f"The state folder {state} is in /tmp, but the grading sandboxes have a separate /tmp. Name "
            "another with --state, or STATE= of make (for a trial, /var/tmp is suitable)."
        )


def other_hub(link: Path, state: Path) -> Path | None:
    """Return the state folder of another hub to whose course a link in a home leads, or None."""
    other = Path(os.readlink(link)).parent if link.is_symlink() else state
    return other if other != state and (other / RECORD).exists() else None


def begin(state: Path) -> None:
    """Create the folder. Raises HubError if it is unsuitable."""
    check(state)
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name, mode in (("hub", 0o700), ("logs", 0o700), ("home", 0o755), ("etc", 0o755)):
        (state / name).mkdir(exist_ok=True)
        (state / name).chmod(mode)


def configure(
    state: Path, chosen: Settings, root: Path, groups: dict[str, list[str]] | None = None
) -> set[str]:
    """Write the generated files; return the names of changed ones. groups: as for `config_files.files`."""
    new = config_files.files(chosen, state, environment.python(state), groups)
    changed = {n for n, text in new.items() if not (state / n).exists() or (state / n).read_text() != text}
    for name, text in new.items():
        (state / name).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        files.write(state / name, text, mode=0o644)
    files.write_json(state / RECORD, {"settings": as_values(chosen), "root": str(root)}, mode=0o600)
    return changed


def mine(state: Path, numbers: set[int]) -> list[processes.Record]:
    """Return the processes of this hub: those with its CLUSTER_HUB, and all of users created for it.

    Slurm's jobs are left to Slurm.
    """
    return processes.with_environment(lambda process, env: _belongs(process, env, numbers, str(state)))


def end_users(names: list[str], patience: float = 3.0) -> int:
    """End all processes of users created here; return how many there were."""
    numbers = {there.pw_uid for name in names if (there := users.unix_user(name))}
    processes_of_users = processes.with_environment(lambda process, env: _belongs(process, env, numbers))
    processes.end(processes_of_users, patience)
    return len(processes_of_users)


def end_all(state: Path, numbers: set[int], patience: float = 5.0) -> int:
    """End all processes started through this hub, even those started meanwhile; return their number."""
    count, deadline = 0, time.monotonic() + 30
    while (running := mine(state, numbers)) and time.monotonic() < deadline:
        processes.end(running, patience)
        count += len(running)
    return count


def _belongs(process: psutil.Process, env: dict[str, str], numbers: set[int], hub: str | None = None) -> bool:
    """Return whether a process runs as one of these users or has this hub's mark, except Slurm jobs."""
    marked = hub is not None and given("CLUSTER_HUB", env) == hub
    return "SLURM_JOB_ID" not in env and (marked or process.uids().effective in numbers)
