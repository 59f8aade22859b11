"""The course on a JupyterHub on this machine: students, instructors, the exchange, Formgrader.

`python -m cluster.staff.hub --help` lists the commands; README.md is for the administrator.
"""

from __future__ import annotations

from pathlib import Path

from cluster.system.settings import text as setting

COURSE = "convolution-to-cluster"  # nbgrader's course_id; Formgrader's service must have the same name
STUDENTS = f"nbgrader-{COURSE}"  # the hub's groups, named as nbgrader expects
INSTRUCTORS = f"formgrade-{COURSE}"
GRADERS = f"graders-{COURSE}"
GROUPS = {"student": STUDENTS, "grader": GRADERS, "instructor": INSTRUCTORS}  # {role in the roster: group}

__all__ = ["COURSE", "GRADERS", "GROUPS", "INSTRUCTORS", "STUDENTS", "default_state"]


def default_state() -> Path:
    """Return the hub's state folder, `$CLUSTER_STATE/hub`, in a place that students can access."""
    return Path(setting("CLUSTER_STATE")) / "hub"
