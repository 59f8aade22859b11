"""The course on a JupyterHub of this machine: students, instructors, the exchange, Formgrader.

`python -m cluster.deploy.hub --help` lists the commands; README.md is for the administrator.
"""

from __future__ import annotations

import os
from pathlib import Path

COURSE = "convolution-to-cluster"  # nbgrader's course_id; Formgrader's service has to have the same name
STUDENTS, INSTRUCTORS = (
    f"nbgrader-{COURSE}",
    f"formgrade-{COURSE}",
)  # groups, as nbgrader names them

__all__ = ["COURSE", "INSTRUCTORS", "STUDENTS", "default_state"]


def default_state() -> Path:
    """The folder that holds everything of the hub: `$CLUSTER_STATE/hub`, a place that students can enter."""
    return Path(os.environ.get("CLUSTER_STATE") or "/var/lib/convolution-to-cluster") / "hub"
