"""All environment variables that this package reads or sets: `CLUSTER_...`, each with its meaning.

Other variables that it reads belong to the software in their names: Slurm, Horovod, Open MPI, Keras,
JupyterHub.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import ClusterError


@dataclass(frozen=True)
class Setting:
    """An environment variable. `default` applies if it is unset or empty, in `unit`; "" for none.

    read_by: the parts that read it. internal: one part of the package sets it for another.
    """

    name: str
    meaning: str
    read_by: str
    default: str = ""
    unit: str = ""
    internal: bool = False


_TABLE = [
    Setting(
        "CLUSTER_BACKEND", "the meaning of the backend 'auto': 'local' or 'slurm'", "submit, map", "auto"
    ),
    Setting(
        "CLUSTER_RUNS",
        "where runs are recorded; by default `runs` here, or in the home directory if that is not writable",
        "submit, map, attach, jobs, doctor, the jobs page, grading",
    ),
    Setting(
        "CLUSTER_MAX_RANKS",
        "maximum number of ranks of a job on this machine; by default its cores, but at least 4",
        "the local backend",
        unit="ranks",
    ),
    Setting(
        "CLUSTER_MAX_OUTPUT",
        "maximum bytes kept of a rank's output, and of its metrics; max_output=... sets it for a job",
        "submit, map; ranks",
        "50M",
        "bytes, with K, M or G",
    ),
    Setting(
        "CLUSTER_MAX_RESULT", "maximum size of a rank's result", "ranks; result", f"{256 * 2**20}", "bytes"
    ),
    Setting(
        "CLUSTER_ADDRESS",
        "the address of rank 0 for the other ranks; by default from Slurm, or the machine's name",
        "rank 0 of a job on Slurm",
    ),
    Setting(
        "CLUSTER_SITE",
        "a file with this site's settings for each job (see cluster/slurm/site.py)",
        "submit, map, doctor",
    ),
    Setting("CLUSTER_DATA", "the folder of Fashion-MNIST; if unset, the usual places", "training.data"),
    Setting(
        "CLUSTER_STATE",
        "the state folder of the single-host Slurm and the hub",
        "slurm.client; make slurm, make hub",
        "/var/lib/convolution-to-cluster",
    ),
    Setting("CLUSTER_JOB", "the job's folder", "log, run_folder, checkpoints", internal=True),
    Setting("CLUSTER_RANK", "the number of this rank, from 0", "ranks", internal=True),
    Setting("CLUSTER_LAUNCHER", "the launcher: 'local', 'mpirun' or 'slurm'", "ranks", internal=True),
    Setting(
        "CLUSTER_LAYOUT", "the ranks of each node, as Slurm writes them: 2(x3),1", "ranks", internal=True
    ),
    Setting("CLUSTER_ATTEMPT", "the number of this attempt of the run", "ranks", "1", internal=True),
    Setting("CLUSTER_WARM", "the socket of a process that forks ranks", "the local launcher", internal=True),
    Setting(
        "CLUSTER_HUB", ("the hub's folder, which identifies the hub's processes"), "the hub", internal=True
    ),
]
SETTINGS = {setting.name: setting for setting in _TABLE}


class SettingError(ClusterError, ValueError):
    """A variable is not set, or has an invalid value."""


def given(name: str, env: Mapping[str, str] = os.environ) -> str | None:
    """Return a variable as set, even if empty, or None if unset. Raises LookupError for a variable that is
    not listed."""
    if name not in SETTINGS:
        raise LookupError(f"{name!r} is not one of the settings {', '.join(SETTINGS)}.")
    return env.get(name)


def text(name: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the value of a variable; its default if it is unset or empty, "" if it has no default."""
    return given(name, env) or SETTINGS[name].default


def required(name: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the value of a required variable. Raises SettingError if it is not set."""
    if value := text(name, env):
        return value
    setting = SETTINGS[name]
    who = "normally, the launcher of the ranks does" if setting.internal else setting.meaning
    raise SettingError(f"{name} is not set.", f"Set it: {who}.")


def whole_number(name: str, least: int = 0, env: Mapping[str, str] = os.environ) -> int:
    """Return the value of a variable as a number; 0 if there is none.

    Raises SettingError, with the variable and its value, unless it is a whole number of at least `least`.
    """
    value = text(name, env)
    if not value:
        return 0
    if not value.strip().isdecimal() or int(value) < least:
        unit = f" ({SETTINGS[name].unit})" if SETTINGS[name].unit else ""
        raise SettingError(
            f"{name}={value!r} is not valid.",
            f"{name} must be a whole number, {least} or more{unit}, or unset.",
        )
    return int(value)
