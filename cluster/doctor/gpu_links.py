"""The link between two GPUs, as nvidia-smi, Linux and NCCL report it, and its speed; pure functions of text.

Bandwidths are in bytes/s in one direction, without encoding overhead, and can be compared with a bus
bandwidth (`bandwidth.bus_bandwidth`). NVLink data sheets give the sum of both directions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# {compute capability: (generation, bytes/s of one link in one direction)}. NVIDIA's white papers: P100
# (WP-08019, 4 links, 160 GB/s in both directions), V100 (WP-08608, 6, 300), A100 (12, 600), H100 (18, 900),
# Blackwell (18, 1800); A40's data sheet (4 links, 112.5).
NVLINK = {
    "6.0": (1, 20e9), "7.0": (2, 25e9), "8.0": (3, 25e9), "8.6": (3, 14.0625e9), "9.0": (4, 25e9),
    "10.0": (5, 50e9),
}  # fmt: skip

# {generation: bytes/s per lane}: transfers per second, with 8 of 10 bits, 128 of 130, or 236 of a flit's 256
# bytes (PCI-SIG, PCI Express Base Specification 1.1 to 6.0).
PCIE = {
    1: 2.5e9 / 8 * 8 / 10, 2: 5e9 / 8 * 8 / 10, 3: 8e9 / 8 * 128 / 130, 4: 16e9 / 8 * 128 / 130,
    5: 32e9 / 8 * 128 / 130, 6: 64e9 / 8 * 236 / 256,
}  # fmt: skip

# The terms of `nvidia-smi topo -m` for a path over PCIe, from its legend.
PATHS = {
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the PCIe root complex",
    "NODE": "two PCIe root complexes of one NUMA node",
    "SYS": "the link between the processors",
}

# NVLink's protocol takes about 20%: NCCL reaches 370 of 450 GB/s (an author of NCCL in NVIDIA/nccl-tests,
# issue 212). Two A100 with 12 links reached 208 of 300 GB/s there (issue 178).
REACHED = 0.8

QUERY = "index,uuid,name,compute_cap,pcie.link.gen.max,pcie.link.width.max"  # for `nvidia-smi --query-gpu`
ADAPTER = re.compile(r"([\d.]+) Gb/sec")
TRANSPORT = re.compile(r"NCCL INFO Channel \d+(?:/\d+)? ?: .* via (\S+)")


@dataclass(frozen=True)
class Link:
    """words: description. rate: bytes/s in one direction, or None if unknown."""

    words: str
    rate: float | None = None

    def expected(self) -> float:
        """The bus bandwidth in bytes/s that NCCL should reach with large messages; 0 if unknown."""
        return REACHED * (self.rate or 0.0)


def gpus(answer: str) -> list[dict[str, str]]:
    """Return the GPUs from `nvidia-smi --query-gpu=QUERY --format=csv,noheader`, each {name in QUERY: value}.

    >>> gpus("0, GPU-5f, NVIDIA A40, 8.6, 4, 16")[0]["name"]
    'NVIDIA A40'
    """
    rows = [[word.strip() for word in line.split(",")] for line in answer.splitlines()]
    names = QUERY.split(",")
    return [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]


def chosen(found: list[dict[str, str]], visible: str | None, number: int) -> dict[str, str] | None:
    """Return the GPU among `gpus` with CUDA's `number` if CUDA_VISIBLE_DEVICES is `visible`, or None.

    CUDA_VISIBLE_DEVICES contains indices or prefixes of UUIDs. CUDA's order equals nvidia-smi's if
    CUDA_DEVICE_ORDER is PCI_BUS_ID.
    """
    names = [gpu["index"] for gpu in found]
    if visible is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
    if number >= len(names):
        return None
    name = names[number]
    return next((g for g in found if g["index"] == name or g["uuid"].startswith(name)), None)


def pair(topology: str, a: int, b: int) -> str | None:
    """Return the entry of `nvidia-smi topo -m` for GPUs a and b, such as 'NV12' or 'SYS', or None."""
    lines = [line.split() for line in re.sub(r"\x1b\[[\d;]*m", "", topology).splitlines()]
    head = next((words for words in lines if words[:1] and words[0].startswith("GPU")), [])
    row = next((words[1:] for words in lines if words[:2] and words != head and words[0] == f"GPU{a}"), [])
    cells = dict(zip(head, row, strict=False))  # the GPUs' columns come first
    return cells.get(f"GPU{b}") if a != b else None


def links(status: str) -> int:
    """Return the number of active links in the output of `nvidia-smi nvlink --status` for one GPU."""
    return len(re.findall(r"^\s*Link \d+: [\d.]+ GB/s", status, re.M))


def transports(log: str) -> list[str]:
    """Return the sorted transports that NCCL reports (NCCL_DEBUG=INFO), such as 'P2P/CUMEM' or 'NET/IB/0'."""
    return sorted(set(TRANSPORT.findall(log)))


def between(a: Mapping[str, Any], b: Mapping[str, Any], ways: list[str]) -> Link:
    """Return the link between the GPUs of two ranks, each described by `gpu_check.place`.

    ways: the result of `transports`. Between hosts, it is the fastest adapter of the kind that NCCL has
    chosen; NCCL may use several of them.
    """
    if a["host"] != b["host"]:
        return _network(a, b, ways)
    word = pair(a["topology"], int(a["index"]), int(b["index"]))
    count = int(word[2:]) if word and re.fullmatch(r"NV\d+", word) else 0
    if word is None and any(way.startswith("P2P") for way in ways):
        count = min(a["links"], b["links"])  # each rank sees only its own GPU, so all links may lead there
    if count:
        known = [NVLINK[gpu["compute_cap"]] for gpu in (a, b) if gpu["compute_cap"] in NVLINK]
        if len(known) < 2:
            return Link(f"NVLink of a generation not known here, {count} links")
        generation, rate = min(known, key=lambda one: one[1])
        return Link(f"NVLink {generation}, {count} link{'s' * (count > 1)}", count * rate)
    over = f" over {PATHS[word]}" if word in PATHS else ""
    try:
        lanes = [(int(gpu["pcie.link.gen.max"]), int(gpu["pcie.link.width.max"])) for gpu in (a, b)]
        generation, width = min(lanes, key=lambda one: PCIE[one[0]] * one[1])
    except (ValueError, KeyError):  # '[N/A]' in a virtual machine
        return Link(f"PCIe{over}, whose generation nvidia-smi does not report")
    return Link(f"PCIe {generation} x{width}{over}", PCIE[generation] * width)


def adapters(rates: Mapping[str, str]) -> dict[str, float]:
    """Return {adapter: bytes/s} from /sys: '200 Gb/sec (4X HDR)', or '25000' Mbit/s for an interface."""
    found = {}
    for name, text in rates.items():
        infiniband = ADAPTER.match(text)
        if infiniband:
            found[name] = float(infiniband[1]) * 1e9 / 8
        elif text.strip().isdigit():
            found[name] = int(text) * 1e6 / 8
    return found


def _network(a: Mapping[str, Any], b: Mapping[str, Any], ways: list[str]) -> Link:
    kind, words = "interfaces", "the network by TCP"
    if any(way.startswith("NET/IB") for way in ways):
        kind, words = "infiniband", "InfiniBand or RoCE"
    speeds = [adapters(host[kind]) for host in (a, b)]
    if not all(speeds):
        return Link(f"{words}, at a rate that Linux does not report")
    name, rate = min((max(rates.items(), key=lambda one: one[1]) for rates in speeds), key=lambda one: one[1])
    return Link(f"{words} ({name}, {8 * rate / 1e9:.0f} Gbit/s)", rate)
