"""The cluster, described once: all generated files, started daemons and explanations derive from it."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.slurm import words

from ..services import HubError


@dataclass(frozen=True)
class Partition:
    """A queue. A higher tier preempts jobs of a lower one, which are requeued."""

    name: str
    minutes: int  # maximum time that a job may request
    tier: int


@dataclass(frozen=True)
class Cluster:
    """Nodes are identical and named `<node>1`, `<node>2`, …; the first partition is the default."""

    name: str = "course"
    node: str = "node"
    nodes: int = 4
    cpus: int = 4  # per node; simulated, because assignment 05 requests 4
    memory: int = 8192  # MiB per node
    gpus: int = 2  # per node
    partitions: tuple[Partition, ...] = (Partition("short", 30, 2), Partition("long", 24 * 60, 1))
    account: str = "course"
    students: tuple[str, ...] = field(default=())  # names of Unix users
    gpus_per_student: int = 4  # at one time, over all jobs of a student
    port: int = 26810  # slurmctld's port; the next is slurmdbd's, and the nodes' follow
    node_timeout: int = 20  # seconds after which a node that does not answer is down
    memory_limit: str = "auto"  # auto, cgroup or polling

    def __post_init__(self) -> None:
        names = [("name", self.name), ("node", self.node), ("account", self.account)]
        names += [("a partition's name", p.name) for p in self.partitions]
        for what, name in names + [("a student", s) for s in self.students]:
            if not isinstance(name, str) or not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", name):
                raise HubError(f"{what} = {name!r}: use only lower-case letters, digits, '_', '-' and '.'.")
        if self.node[-1:].isdigit():
            raise HubError(f"node = {self.node!r} must not end in a digit, as numbers are appended.")
        least = {"nodes": 1, "cpus": 1, "memory": 256, "gpus": 0, "gpus_per_student": 0, "node_timeout": 5}
        for key, low in least.items():
            value = getattr(self, key)
            if type(value) is not int or value < low:
                raise HubError(f"{key} = {value!r} must be a whole number of at least {low}.")
        for p in self.partitions:
            if any(type(v) is not int or v < 1 for v in (p.minutes, p.tier)):
                raise HubError(f"partition {p.name}: minutes and tier must be integers of at least 1.")
        if not self.partitions or len({p.name for p in self.partitions}) < len(self.partitions):
            raise HubError("partitions: there must be at least one, each with a unique name.")
        if type(self.port) is not int or not 1024 <= self.port <= 65535 - self.nodes - 2:
            raise HubError(f"port = {self.port!r}: it and the next {self.nodes + 1} must be in 1024…65535.")
        if self.memory_limit not in ("auto", "cgroup", "polling"):
            raise HubError(f"memory_limit = {self.memory_limit!r} must be 'auto', 'cgroup' or 'polling'.")

    @property
    def node_names(self) -> list[str]:
        """The nodes' names: node1, node2, …"""
        return [f"{self.node}{i}" for i in range(1, self.nodes + 1)]

    @property
    def node_list(self) -> str:
        """The names in Slurm's notation: node[1-4]."""
        return f"{self.node}{span(1, self.nodes)}"

    @property
    def database_port(self) -> int:
        """The port of slurmdbd."""
        return self.port + 1

    @property
    def node_ports(self) -> range:
        """The port of each node's slurmd."""
        return range(self.port + 2, self.port + 2 + self.nodes)

    def __str__(self) -> str:
        each = f"{self.cpus} CPUs, {self.memory} MiB, {self.gpus} GPUs"
        queues = ", ".join(f"{p.name} (time limit {clock(p.minutes)})" for p in self.partitions)
        return f"{self.nodes} nodes with {each} each; partitions {queues}"


def span(first: int, last: int) -> str:
    """Return numbers in Slurm's notation.

    >>> span(1, 4), span(0, 0)
    ('[1-4]', '0')
    """
    return f"[{first}-{last}]" if last > first else str(first)


def clock(minutes: int) -> str:
    """Return minutes in Slurm's notation for times.

    >>> clock(30), clock(1500)
    ('00:30:00', '1-01:00:00')
    """
    return words.clock(60 * minutes)


def from_values(values: dict[str, Any]) -> Cluster:
    """Create a cluster from plain values, as in TOML and JSON. Raises HubError for unknown keys."""
    values = dict(values)
    _known(values, Cluster, "the description")
    for key in ("students", "partitions"):
        if not isinstance(values.get(key, []), list | tuple):
            raise HubError(f"{key} = {values[key]!r} must be a list.")
    if "partitions" in values:
        for p in values["partitions"]:
            _known(p, Partition, "a partition", required=True)
        values["partitions"] = tuple(Partition(**p) for p in values["partitions"])
    if "students" in values:
        values["students"] = tuple(values["students"])
    return Cluster(**values)


def from_toml(path: Path) -> Cluster:
    """Return a cluster from a TOML file; missing keys keep their defaults."""
    try:
        return from_values(tomllib.loads(path.read_text()))
    except OSError as e:
        raise HubError(f"{path}: {e.strerror}.") from None
    except tomllib.TOMLDecodeError as e:
        raise HubError(f"{path} is not valid TOML: {e}.") from None


def as_values(cluster: Cluster) -> dict[str, Any]:
    """Convert a cluster to plain values, the inverse of `from_values`."""
    return dataclasses.asdict(cluster)


def _known(values: dict[str, Any], kind: type, where: str, required: bool = False) -> None:
    names = [f.name for f in dataclasses.fields(kind)]
    if odd := sorted(values.keys() - set(names)):
        raise HubError(f"{where} has unknown keys: {', '.join(odd)}. Known are: {', '.join(names)}.")
    if required and (absent := [n for n in names if n not in values]):
        raise HubError(f"{where} lacks {', '.join(absent)}.")
