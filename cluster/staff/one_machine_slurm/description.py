"""The cluster, described once: all generated files, started daemons and explanations derive from it."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.slurm import words

from .. import declared
from ..declared import one_of, setting, table, text, whole

NAMED = "[a-z_][a-z0-9_.-]{0,31}"
NAME = text(NAMED, "a name of lower-case letters, digits, '_', '-' and '.'")
NAMES = (
    lambda v: isinstance(v, list | tuple) and all(isinstance(x, str) and re.fullmatch(NAMED, x) for x in v),
    "a list of Unix users' names",
)


@dataclass(frozen=True)
class Partition:
    """A queue. A higher tier preempts jobs of a lower one, which are requeued."""

    name: str = setting(NAME)
    minutes: int = setting(whole(1, 10**6))  # maximum time that a job may request
    tier: int = setting(whole(1, 65533))


@dataclass(frozen=True)
class Cluster:
    """Nodes are identical and named `<node>1`, `<node>2`, …; the first partition is the default."""

    name: str = setting(NAME, "course")
    node: str = setting(text("([a-z0-9_.-]{0,30}[a-z_.-])", "a name that does not end in a digit"), "node")
    nodes: int = setting(whole(1, 1000), 4)
    cpus: int = setting(whole(1, 10**4), 4)  # per node; simulated, because assignment 05 requests 4
    memory: int = setting(whole(256, 10**9), 8192)  # MiB per node
    gpus: int = setting(whole(0, 1000), 2)  # per node
    partitions: tuple[Partition, ...] = table(
        Partition, (Partition("short", 30, 2), Partition("long", 24 * 60, 1)), several=True
    )
    account: str = setting(NAME, "course")
    students: tuple[str, ...] = setting(NAMES, ())  # names of Unix users
    gpus_per_student: int = setting(whole(0, 10**5), 4)  # at one time, over all jobs of a student
    port: int = setting(whole(1024, 65535), 26810)  # slurmctld's; then slurmdbd's and the nodes'
    node_timeout: int = setting(whole(5, 10**4), 20)  # seconds after which a silent node is down
    memory_limit: str = setting(one_of("auto", "cgroup", "polling"), "auto")

    def conflicts(self) -> list[str]:
        """Describe values that are valid alone and not together."""
        result = []
        if len({p.name for p in self.partitions}) < len(self.partitions):
            result.append("partitions: each must have a unique name.")
        if self.port > 65535 - self.nodes - 2:
            result.append(f"port = {self.port}: it and the next {self.nodes + 1} must be at most 65535.")
        return result

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
    """Create a cluster from plain values, as in TOML and JSON. Raises HubError, which names all faults."""
    return declared.made(Cluster, values, "the description")


def from_toml(path: Path) -> Cluster:
    """Return a cluster from a TOML file; missing keys keep their defaults."""
    return declared.from_toml(Cluster, path)


def as_values(cluster: Cluster) -> dict[str, Any]:
    """Convert a cluster to plain values, the inverse of `from_values`."""
    return dataclasses.asdict(cluster)
