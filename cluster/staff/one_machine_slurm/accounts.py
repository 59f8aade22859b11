"""Accounts and the students' limits, in Slurm's accounting. Repeating a call changes nothing."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from ..services import HubError
from . import slurm_daemons
from .description import Cluster


def register(cluster: Cluster, state: Path) -> None:
    """Register the cluster in the accounting before slurmctld asks for it."""
    if cluster.name not in _rows(state, "show", "cluster", "format=cluster"):
        _do(state, "add", "cluster", cluster.name)


def apply(cluster: Cluster, state: Path, teacher: str | None) -> str:
    """Create the account, its students with a GPU limit, and the instructor without one; return changes.

    Users removed from the list keep their account; the administrator may run `sacctmgr delete user NAME`.
    """
    _await_gpus(cluster, state)
    if cluster.account not in _rows(state, "show", "account", "format=account"):
        _do(state, "add", "account", cluster.account, f"Description={cluster.name}", "Organization=course")
    limit = f"gres/gpu={cluster.gpus_per_student}" if cluster.gpus else ""
    wanted = dict.fromkeys(cluster.students, limit)
    if teacher and teacher not in wanted and teacher != "root":
        wanted[teacher] = ""
    where = f"account={cluster.account}"
    rows = _rows(state, "show", "assoc", where, "format=user,grptres")
    there = dict(r.split("|") for r in rows if not r.startswith("|"))  # without the account's own row
    changed = []
    for allowed in sorted(set(wanted.values())):
        new = [u for u, a in wanted.items() if a == allowed and u not in there]
        old = [u for u, a in wanted.items() if a == allowed and there.get(u, a) != a]
        if new:
            _do(state, "add", "user", ",".join(new), where, *([f"GrpTRES={allowed}"] if allowed else []))
        if old:
            value = allowed or "gres/gpu=-1"
            _do(state, "modify", "user", ",".join(old), "where", where, "set", f"GrpTRES={value}")
        changed += new + old
    return f"changed: {', '.join(changed)}" if changed else f"{len(wanted)} besides root, unchanged"


def _await_gpus(cluster: Cluster, state: Path, seconds: float = 20) -> None:
    """Wait until slurmctld has registered GPUs in the accounting; their limit cannot be set earlier."""
    deadline = time.monotonic() + seconds
    while cluster.gpus and "gres|gpu" not in _rows(state, "show", "tres", "format=type,name"):
        if time.monotonic() > deadline:
            raise HubError(f"slurmctld did not report gres/gpu to the accounting within {seconds:.0f} s.")
        time.sleep(0.2)


def _rows(state: Path, *args: str) -> list[str]:
    return (slurm_daemons.ask(state, "sacctmgr", "--noheader", "--parsable2", *args) or "").split("\n")[:-1]


def _do(state: Path, *options: str) -> None:
    sacctmgr(slurm_daemons.environment(state / "slurm.conf"), *options)


def sacctmgr(env: dict[str, str], *options: str) -> str:
    """Return the rows that Slurm's accounting answers. To change nothing is no error; others are HubError."""
    command = ["sacctmgr", "--immediate", "--noheader", "--parsable2", *options]
    try:
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise HubError(f"{' '.join(command)}: {e}. Check that Slurm's accounting runs.") from None
    if result.returncode and "Nothing" not in result.stdout + result.stderr:
        raise HubError(f"{' '.join(command)}: {(result.stderr or result.stdout).strip()}")
    return result.stdout
