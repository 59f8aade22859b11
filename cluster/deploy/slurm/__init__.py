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
    """What SLURM_CONF has to be for the one-machine Slurm of this machine, or None where none was started."""
    path = default_state() / "slurm.conf"
    return path if path.exists() else None
