"""A real Slurm on one machine, generated from one description of a cluster.

`python -m cluster.deploy.slurm --help` lists the commands; README.md is for the administrator.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["conf", "default_state"]


def default_state() -> Path:
    """The folder that holds everything of the one-machine Slurm: `$CLUSTER_STATE/slurm`.

    It has to be a place that the user `slurm` and the students can enter, so it is not in root's home.
    """
    return Path(os.environ.get("CLUSTER_STATE") or "/var/lib/convolution-to-cluster") / "slurm"


def conf() -> Path | None:
    """What SLURM_CONF has to be for the one-machine Slurm of this machine, or None where none runs.

    A state folder that belongs neither to root nor to this user, or that others can write to, is no one's:
    its slurm.conf can name plugins, which every command of Slurm's loads.
    """
    from . import processes

    state = default_state()
    path = state / "slurm.conf"
    try:
        seen = [os.stat(p) for p in (state, path, state / "processes.json")]
        if any(s.st_uid not in (0, os.getuid()) or s.st_mode & 0o022 for s in seen):
            return None
        controller = processes.Ledger(state / "processes.json").all().get("slurmctld")
    except (OSError, ValueError):
        return None
    return path if processes.alive(controller) else None
