"""The state folder: what lies in it, what was started, and the processes that belong to this hub."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path

from cluster.deploy.slurm import processes
from cluster.deploy.slurm.state import ledger, locked, write

from . import environment, texts, users
from .settings import Settings, Trouble, make, plain

RECORD = "started.json"
BACKED_UP = "backed-up.json"  # the newest backup: where, and when
LONGEST = 70  # characters: sockets lie under it, and 107 is all a socket gets

__all__ = ["accounts", "backed_up", "begin", "configure", "end_users"]
__all__ += ["ledger", "locked", "mine", "record", "settings"]


def record(state: Path) -> dict | None:
    """{settings, root} as last started, or None."""
    path = state / RECORD
    return json.loads(path.read_text()) if path.exists() else None


def settings(state: Path) -> Settings:
    """The settings that the hub was last started with, or the default ones."""
    last = record(state)
    return make(last["settings"]) if last else Settings()


def backed_up(state: Path) -> dict | None:
    """{file, time} of the newest backup, or None."""
    path = state / BACKED_UP
    return json.loads(path.read_text()) if path.exists() else None


def accounts(state: Path, chosen: Settings) -> users.Accounts:
    return users.Accounts(state, Path(chosen.homes) if chosen.homes else state / "home")


def begin(state: Path) -> None:
    """Make the folder. Raises Trouble for one that cannot serve."""
    if not re.fullmatch(r"/[/A-Za-z0-9._-]*", str(state)) or len(str(state)) > LONGEST:
        raise Trouble(
            f"The state folder {str(state)!r} has to be a full path of letters, digits, '.', '_' and '-', "
            f"at most {LONGEST} characters long."
        )
    if state.is_relative_to("/tmp"):
        raise Trouble(
            f"The state folder {state} lies under /tmp, and the sandboxes that grade have a /tmp of their "
            f"own: name another with --state, for make STATE= (/var/tmp would do for a trial)."
        )
    for folder in state.parents:
        if folder.exists() and not folder.stat().st_mode & 0o001:
            raise Trouble(
                f"The state folder {state} lies under {folder}, which students cannot enter "
                f"(mode {folder.stat().st_mode & 0o777:04o}); name another with --state, for make STATE=."
            )
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name, mode in (("hub", 0o700), ("logs", 0o700), ("home", 0o755), ("etc", 0o755)):
        (state / name).mkdir(exist_ok=True)
        (state / name).chmod(mode)


def configure(state: Path, chosen: Settings, root: Path) -> set[str]:
    """Write the generated files; returns the names of those that have changed."""
    panel = (state / "course/cluster/panel/__init__.py").exists()
    new = texts.files(chosen, state, environment.python(state), panel)
    changed = {n for n, text in new.items() if not (state / n).exists() or (state / n).read_text() != text}
    for name, text in new.items():
        (state / name).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write(state / name, text)
    write(state / RECORD, json.dumps({"settings": plain(chosen), "root": str(root)}, indent=1) + "\n", 0o600)
    return changed


def mine(state: Path, numbers: set[int]) -> list[processes.Record]:
    """What was started through this hub: processes with its mark, and all of the users that were made for it.

    Jobs of Slurm are left to Slurm.
    """
    mark, found = f"CLUSTER_HUB={state}".encode(), []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            entries = (folder / "environ").read_bytes().split(b"\0")
            job = any(e.startswith(b"SLURM_JOB_ID=") for e in entries)
            if not job and (mark in entries or folder.stat().st_uid in numbers):
                found.append(processes.identify(int(folder.name)))
    return [r for r in found if r]


def end_users(state: Path, names: list[str], patience: float = 3.0) -> int:
    """End all processes of users that were made here; returns how many there were."""
    numbers = {there.pw_uid for name in names if (there := users.find(name))}
    found = [r for r in mine(state, numbers) if _owner(r) in numbers]
    processes.end(found, patience)
    return len(found)


def end_all(state: Path, numbers: set[int], patience: float = 5.0) -> int:
    """End everything that runs through this hub, also what starts meanwhile; returns how many there were."""
    count, deadline = 0, time.monotonic() + 30
    while (found := mine(state, numbers)) and time.monotonic() < deadline:
        processes.end(found, patience)
        count += len(found)
    return count


def _owner(record: processes.Record) -> int | None:
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{record['pid']}").st_uid
    return None
