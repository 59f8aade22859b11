"""The partitions' limits, and whether a job exceeds them, checked before submission if possible.

Slurm accepts many jobs that can never run, and leaves them pending indefinitely.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from cluster.system.errors import ClusterError

from . import words
from .words import clock, seconds

FORMAT = "%P|%l|%s|%D|%c|%m|%G"  # for sinfo: partition, time, job size, nodes, CPUs, MiB and GRES per node


class TooMuch(ClusterError, ValueError):
    """No partition satisfies the request, so the job would stay pending indefinitely."""


@dataclass(frozen=True)
class Kind:
    """Nodes of one kind: how many there are, and what each has."""

    nodes: int
    cpus: int
    memory: int  # MiB
    gpus: int


@dataclass
class Partition:
    """A partition: the maximum time (s) and number of nodes per job, and its nodes by kind."""

    name: str
    default: bool
    time: float
    most: float
    kinds: list[Kind]


def read_partitions(rows: list[str]) -> list[Partition]:
    """Return the partitions in the output of `sinfo --format`; invalid lines are left out.

    >>> read_partitions(["short*|30:00|1-infinite|4|2|8192|gpu:2"])[0].kinds
    [Kind(nodes=4, cpus=2, memory=8192, gpus=2)]
    """
    partitions: dict[str, Partition] = {}
    for row in rows:
        parts = row.split("|")
        if len(parts) != 7 or not all(re.match(r"\d", x) for x in parts[3:6]):
            continue
        name, time, size, *_, gres = parts
        nodes, cpus, memory = (int(re.findall(r"\d+", x)[0]) for x in parts[3:6])
        most = size.rpartition("-")[2]
        limit = float(most) if most.isdigit() else math.inf
        p = Partition(name.rstrip("*"), name.endswith("*"), seconds(time), limit, [])
        kind = Kind(nodes, cpus, memory, words.gpus(gres))
        partitions.setdefault(p.name, p).kinds.append(kind)
    return list(partitions.values())


def check(options: dict[str, Any], partitions: list[Partition]) -> None:
    """Raise TooMuch unless one of the job's possible partitions can run it."""
    names = options["partition"].split(",") if options["partition"] else None
    chosen = [p for p in partitions if (p.name in names if names else p.default)]
    faults = [fault(options, p) for p in chosen]
    if faults and all(faults):
        others = [p.name for p in partitions if p not in chosen and not fault(options, p)]
        hints = [f"Or use another partition that offers it: partition={others[0]!r}."] if others else []
        if spread := spread_out(options, chosen):
            hints.insert(0, f"Or spread the ranks over more nodes: {spread}.")
        raise TooMuch(f"It could never run: {'; '.join(faults)}.", " ".join(["Request less.", *hints]))


def spread_out(options: dict[str, Any], partitions: list[Partition]) -> str:
    """Return 'nodes=2, ranks_per_node=2', the same ranks on as few more nodes as possible; "" if none can."""
    ranks = options["nodes"] * options["ranks_per_node"]
    for nodes in range(options["nodes"] + 1, ranks + 1):
        other = options | {"nodes": nodes, "ranks_per_node": ranks // nodes}
        if ranks % nodes == 0 and not all(fault(other, p) for p in partitions):
            return f"nodes={nodes}, ranks_per_node={ranks // nodes}"
    return ""


def check_array(items: range, config: str) -> None:
    """Raise TooMuch if an array of these tasks is larger than `scontrol show config` allows."""
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", config, re.M)
    if match and items[-1] >= int(match[1]):
        raise TooMuch(
            f"{items[-1] + 1} items are too many for one job array of this Slurm: it allows {match[1]} "
            "(MaxArraySize).",
            f"Give map() at most {match[1]} items at a time.",
        )


def fault(options: dict[str, Any], p: Partition) -> str:
    """Describe which request the partition cannot satisfy, with both values; "" if it can satisfy all."""
    o, n = options, options["ranks_per_node"]
    if o["time"] > p.time:
        return f"time={clock(o['time'])!r}, but partition {p.name!r} allows {clock(p.time)}"
    if o["nodes"] > p.most:
        return f"nodes={o['nodes']}, but partition {p.name!r} allows at most {p.most:.0f} per job"
    needed = {
        ("cpus", "CPUs", "cpus_per_rank"): n * o["cpus_per_rank"],
        ("memory", "MiB of memory", "memory"): n * (o["memory"] or 0),
        ("gpus", "GPUs", "gpus_per_rank"): n * o["gpus_per_rank"],
    }
    able = [k for k in p.kinds if all(getattr(k, what) >= v for (what, _, _), v in needed.items())]
    there = sum(k.nodes for k in able)
    if o["nodes"] <= there:
        return ""
    for (what, unit, name), number in needed.items():
        largest = max(getattr(k, what) for k in p.kinds)
        if number > largest:
            by = f"{name}={o[name]}" + (f" for {n} ranks per node" if n > 1 else "")
            return f"{by} needs {number} {unit} on a node, and partition {p.name!r} has at most {largest}"
    return f"nodes={o['nodes']}, but partition {p.name!r} has {there} that can run it"
