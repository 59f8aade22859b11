"""A site's settings for each job: account, partition, form of memory and GPU requests, modules, launcher.

It is read from TOML files; if several set the same value, the last one wins:

    /etc/convolution-to-cluster/site.toml     of the machine
    site.toml in the course's folder          of the course
    the file that $CLUSTER_SITE names
    ~/.config/convolution-to-cluster/site.toml, the user's own
    SBATCH_ACCOUNT and the like (`VARIABLES`), as they are set at submission

The arguments of `submit` override all of these. cluster/staff/SITE.md explains each setting to
administrators. An example; every line is optional:

    memory = "mem-per-cpu"        # or "mem" (the default), or "none": the site assigns memory itself
    gpus = "gres"                 # or "gpus-per-task" (the default), "gpus-per-node", "none"
    gpu_type = "a100"             # gres=gpu:a100:2
    before = ["module load cuda"] # lines of bash before the ranks start
    launcher = "srun --mpi={mpi} --kill-on-bad-exit=1"
    [sbatch]                      # options of sbatch, without the dashes
    account = "course"
    [limits]                      # the maximum that one job may request
    nodes = 4
    ranks = 16
    time = "01:00:00"
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.system import settings
from cluster.system.errors import ClusterError

from . import words

NAME = "site.toml"
FORMS = {
    "memory": ("mem", "mem-per-cpu", "none"),
    "gpus": ("gpus-per-task", "gres", "gpus-per-node", "none"),
}
LAUNCHER = "srun --mpi={mpi} --kill-on-bad-exit=1"
LIMITS = ("nodes", "ranks", "time")
KEYS = (*FORMS, "gpu_type", "before", "launcher", "sbatch", "limits")

# Options of sbatch that request the same resource: a later one replaces an earlier one of its kind.
MEMORY = {"mem", "mem-per-cpu", "mem-per-gpu"}
GPUS = {"gpus", "gpus-per-task", "gpus-per-node", "gpus-per-socket", "gres"}
# Options that submit itself writes, from its own arguments.
OWN = {
    "job-name", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "time", "output", "error", "wrap",
    "array", "chdir", "requeue", "no-requeue", "parsable", "export",
}  # fmt: skip
VARIABLES = {
    f"SBATCH_{name.upper().replace('-', '_')}": name
    for name in (
        "account",
        "partition",
        "qos",
        "reservation",
        "constraint",
        "gres",
        "mem-per-cpu",
        "gpus-per-node",
    )
}


class SiteError(ClusterError, ValueError):
    """A site file cannot be read, or contains an invalid value."""


@dataclass
class Site:
    """The settings from the site files and variables; `origin` is the source of each value."""

    values: dict[str, Any] = field(default_factory=dict)
    sbatch: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return the parts that run.json records; a job's script depends on no other setting of the site."""
        return {**self.values, "sbatch": self.sbatch, "origin": self.origin}


def places(env: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the files in the order they are read; they need not exist."""
    course = Path(__file__).resolve().parents[2]
    named = settings.text("CLUSTER_SITE", env)
    own = Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    paths = [Path("/etc/convolution-to-cluster") / NAME, course / NAME]
    return [*paths, *([Path(named)] if named else []), own / "convolution-to-cluster" / NAME]


def load(env: Mapping[str, str] = os.environ) -> Site:
    """Return the site's settings. Raises SiteError, which names the file, the value and the expected form."""
    site, named = Site(), settings.text("CLUSTER_SITE", env)
    for path in places(env):
        if os.path.isfile(path):  # also False where this user may not look
            _add(site, path)
        elif named and path == Path(named):
            raise SiteError(
                f"CLUSTER_SITE={named!r} is not a file.", "Set it to the path of a TOML file, or unset it."
            )
    for variable, name in VARIABLES.items():
        if env.get(variable):
            put(site.sbatch, site.origin, name, env[variable], f"${variable}")
    return site


def about_gpus(name: str, value: Any) -> bool:
    """Return whether an option of sbatch is about GPUs, so that a job without GPUs does not use it.

    >>> about_gpus("mem-per-gpu", "16G"), about_gpus("gres", "gpu:a100:1"), about_gpus("gres", "scratch:1")
    (True, True, False)
    """
    return "gpu" in f"{name}={value}" if name in ("gres", "tres-per-task") else "gpu" in name


def put(lines: dict[str, Any], origin: dict[str, str], name: str, value: Any, where: str) -> None:
    """Set an option of sbatch, replacing others of its kind; False removes the option.

    >>> lines = {"mem": "4G"}
    >>> put(lines, {}, "mem-per-cpu", "2G", "submit")
    >>> lines
    {'mem-per-cpu': '2G'}
    """
    kind = next((k for k in (MEMORY, GPUS) if name in k), {name})
    if name == "gres" and "gpu" not in str(value):
        kind = {name}  # another resource, such as scratch space
    for other in kind & lines.keys():
        del lines[other]
    lines.pop(name, None)
    if value is not False:
        lines[name], origin[name] = (None if value is True else value), where


def _add(site: Site, path: Path) -> None:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        step = "Correct the file; the docstring of cluster/slurm/site.py has an example."
        raise SiteError(f"{path} cannot be read: {e}.", step) from None
    for key, value in given.items():
        if key not in KEYS:
            raise SiteError(f"{path}: {key!r} is not a site setting.", f"Use one of {', '.join(KEYS)}.")
        if key == "sbatch":
            for name, v in _table(path, key, value).items():
                put(site.sbatch, site.origin, *_option(path, name, v), str(path))
        elif key == "limits":
            site.limits |= {name: _limit(path, name, v) for name, v in _table(path, key, value).items()}
        else:
            site.values[key], site.origin[key] = _value(path, key, value), str(path)
    site.read.append(str(path))


def _table(path: Path, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SiteError(
            f"{path}: {key}={value!r} is not valid.", f"Write a table, [{key}], with one option per line."
        )
    return value


def _option(path: Path, name: str, value: Any) -> tuple[str, Any]:
    plain = isinstance(value, bool) or (isinstance(value, str | int) and _line(str(value)))
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name, re.A) or not plain:
        step = "Write long options without dashes, with a string on one line, a number, true or false."
        raise SiteError(f"{path}: sbatch option {name}={value!r} is not valid.", step)
    if name in OWN:
        step = "Remove the line: submit writes that option from its own arguments. [limits] can bound them."
        raise SiteError(f"{path}: sbatch option {name!r} cannot be set for a site.", step)
    return name, value


def _limit(path: Path, name: str, value: Any) -> int:
    number = words.unclock(value) if name == "time" and isinstance(value, str) else value
    if name not in LIMITS or isinstance(number, bool) or not isinstance(number, int) or number < 1:
        step = "Limits are nodes and ranks, whole numbers, and time, 'hours:minutes:seconds'."
        raise SiteError(f"{path}: limit {name}={value!r} is not valid.", step)
    return number


def _value(path: Path, key: str, value: Any) -> Any:
    if key in FORMS:
        good, form = value in FORMS[key], "one of " + ", ".join(map(repr, FORMS[key]))
    elif key == "before":
        good = isinstance(value, list) and all(isinstance(x, str) and _line(x) for x in value)
        form = "a list of lines of bash"
    else:
        good, form = isinstance(value, str) and _line(value), "a string on one line"
    if not good:
        raise SiteError(f"{path}: {key}={value!r} is not valid.", f"{key} must be {form}.")
    return value


def _line(text: str) -> bool:
    return 0 < len(text) <= 500 and text.isprintable()
