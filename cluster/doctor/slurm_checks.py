"""The doctor's queries to Slurm: configuration, munge, accounting, partitions, GPUs, memory."""

from __future__ import annotations

import getpass
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from cluster.slurm import client

from . import findings
from .findings import Report, ask

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo", "sacct")
LOCAL = "Jobs run on this machine with the local backend."
WHERE = "Put slurm.conf where Slurm looks for it, or run configless (slurmd --conf-server, DNS SRV)."
CGROUP = "Set TaskPlugin=task/cgroup, and ConstrainRAMSpace=yes in cgroup.conf."


@dataclass(frozen=True)
class Slurm:
    """A Slurm that accepts jobs: the nodes that are up in its default partition, and the GPUs it knows."""

    nodes: int
    gpus: int


def look(report: Report) -> Slurm | None:
    """Add the findings about Slurm and return it if jobs can be submitted to it."""
    if not _commands(report) or not _configuration(report):
        return None
    _munge(report)
    if missing := client.no_slurm(remembered=False):
        report.add(
            "bad", "controller", missing,
            "Until it answers, jobs run on this machine with the local backend.",
            "Check that slurmctld runs and is reachable. For single-host Slurm, run make slurm.",
        )  # fmt: skip
        return None
    facts = _facts()
    report.add("ok", "controller", f"answers; Slurm {facts.get('SLURM_VERSION', '?')}")
    _accounting(report, facts)
    slurm = Slurm(_partitions(report), _gpus(report))
    _meeting(report)
    _memory(report, facts)
    return slurm


def _commands(report: Report) -> bool:
    absent = [c for c in COMMANDS if not shutil.which(c)]
    if "sbatch" in absent:
        report.add(
            "warn", "Slurm", "no sbatch on PATH", f"{LOCAL} To use a cluster, log in to its login node.",
            "Install Slurm's client commands here. For single-host Slurm, run sudo make slurm.",
        )  # fmt: skip
        return False
    if absent:
        step = "Load Slurm's module, if there is one: module avail slurm."
        what = f"not on PATH: {', '.join(absent)}"
        report.add("bad", "Slurm", what, step, "Install all of Slurm's client commands.")
        return "scontrol" not in absent
    if not client.conf():  # without a configuration, Slurm does not even report its version
        report.add("ok", "Slurm", f"{shutil.which('sbatch')}")
        return True
    good, version = ask("sbatch", "--version")
    if not good:
        step = "The loaded module may be for another kind of machine."
        report.add("bad", "Slurm", f"sbatch does not run: {version}", step, "Reinstall slurm-client.")
        return False
    report.add("ok", "Slurm", f"{version.strip()}, {shutil.which('sbatch')}")
    return True


def _configuration(report: Report) -> bool:
    """Return whether a cluster is configured. If so, a controller that does not answer is a fault."""
    path = client.conf()
    if path and not Path(path).is_file():
        step = "Unset SLURM_CONF, or set it to the path of the cluster's slurm.conf."
        report.add("bad", "slurm.conf", f"SLURM_CONF={path} does not exist", step, WHERE)
    elif path:
        whose = ", set by SLURM_CONF" if os.environ.get("SLURM_CONF") else ""
        if not whose and path == str(client.one_machine_conf()):
            whose = ", of the Slurm that `make slurm` started here"
        report.add("ok", "slurm.conf", path + whose)
    elif client.no_slurm(remembered=False):
        step = f"{LOCAL} SLURM_CONF can name a cluster's slurm.conf."
        report.add("warn", "slurm.conf", "not in the usual places; SLURM_CONF is not set", step, WHERE)
        return False
    else:
        report.add("ok", "slurm.conf", "Slurm finds it by itself")
    return True


def _munge(report: Report) -> None:
    if not shutil.which("munge"):
        step = "Ignore it if jobs are accepted."
        report.add("warn", "munge", "not installed here", step, "apt-get install munge")
        return
    step = "Start munged here, with the same /etc/munge/munge.key as on the controller and the nodes."
    good, credential = ask("munge", "-n")
    if not good:
        report.add("bad", "munge", f"cannot create a credential: {credential}", "", step)
        return
    good, answer = ask("unmunge", text=credential)
    if not good or "Success" not in answer:
        why = next((x for x in answer.splitlines() if x.startswith("STATUS")), answer)
        report.add("bad", "munge", f"cannot read its own credential: {why}", "", f"{step} Set the clocks.")
        return
    report.add("ok", "munge", "creates and reads a credential")


def _facts() -> dict[str, str]:
    """Return the output of `scontrol show config` as a dictionary."""
    _, answer = ask("scontrol", "show", "config")
    return {k.strip(): v.strip() for k, _, v in (x.partition("=") for x in answer.splitlines()) if v}


def _accounting(report: Report, facts: dict[str, str]) -> None:
    kind = facts.get("AccountingStorageType", "")
    if not kind or "none" in kind:
        report.add(
            "warn", "accounting", "not kept",
            "Slurm accepts any account or QOS, and soon forgets ended jobs. Job folders keep their records.",
            "Run slurmdbd, and set AccountingStorageType=accounting_storage/slurmdbd.",
        )  # fmt: skip
        return
    who = getpass.getuser()
    fields = "format=account,partition,qos,grptres,maxtres"
    good, answer = ask("sacctmgr", "-n", "-P", "show", "assoc", f"user={who}", fields)
    if not good:
        step = "Check slurmdbd and its database: systemctl status slurmdbd"
        report.add("bad", "accounting", f"slurmdbd does not answer: {answer}", "", step)
        return
    rows = [row.split("|") for row in answer.splitlines() if row.strip()]
    if accounts := sorted({row[0] for row in rows}):
        limits = sorted({x for row in rows for x in row[3:] if x})
        finding = f", limits: {'; '.join(limits)}" if limits else ""
        report.add("ok", "accounting", f"kept; you ({who}) may use {', '.join(accounts)}{finding}")
        return
    enforced = "associations" in facts.get("AccountingStorageEnforce", "")
    finding = f"kept, but you ({who}) have no account" + ("; jobs are refused" if enforced else "")
    step = f"sacctmgr add user {who} account=<account>"
    report.add("bad" if enforced else "warn", "accounting", finding, "", step)


def _partitions(report: Report) -> int:
    """Add an item per partition and return the number of nodes that are up in the default partition."""
    good, answer = ask("sinfo", "-h", "-o", "%P|%a|%l|%F|%G")
    rows = [r.split("|") for r in answer.splitlines() if r.count("|") == 4] if good else []
    if not rows:
        finding = "none that you may use" if good else answer
        report.add("bad", "partitions", finding, "", "Define one that the students' account may use.")
    default = None
    for name, state, limit, nodes, gres in rows:
        busy, idle, _, total = (int(n) for n in nodes.split("/"))
        up = busy + idle
        default = up if name.endswith("*") else default
        each = "" if gres == "(null)" else f", {gres} each"
        finding = f"{state}, {up} of {total} nodes up ({idle} idle), time limit {limit}{each}"
        if state == "up" and up:
            report.add("ok", f"partition {name}", finding)
            continue
        report.add(
            "bad" if name.endswith("*") else "warn", f"partition {name}", finding,
            "Choose another partition: submit(..., partition=...).",
            "sinfo --list-reasons says why; then scontrol update ... State=RESUME (or State=UP).",
        )  # fmt: skip
    if rows and default is None:
        report.add(
            "warn", "partitions", "none is the default",
            f"Name a partition in each job: submit(..., partition={rows[0][0]!r}).",
            "Set Default=YES for one, or name one in a site file: python -m cluster doctor --site.",
        )  # fmt: skip
    return default or 0


def _gpus(report: Report) -> int:
    """Add an item about GPUs and return how many Slurm knows."""
    gpus = {node: count for _, node, count in findings.nodes_of_slurm()}
    known, nodes = sum(gpus.values()), sum(n > 0 for n in gpus.values())
    here, _ = findings.gpus_here()
    visible = f"this machine shows {here or 'no'} CUDA device{'s' * (here != 1)}"
    if known:
        report.add("ok", "GPUs", f"{known} known to Slurm, on {nodes} nodes; {visible}")
    elif here:
        report.add(
            "warn", "GPUs", f"none known to Slurm, though {visible}",
            "gpus_per_rank=1 will be rejected, and Slurm does not track which jobs use a GPU.",
            "Set GresTypes=gpu, Gres=gpu:N in slurm.conf; AutoDetect=nvml or File= in gres.conf.",
        )  # fmt: skip
    else:
        step = "Use gpus_per_rank=0: jobs compute on CPUs."
        finding = f"none known to Slurm; {visible}"
        report.add("warn", "GPUs", finding, step, "If nodes have GPUs, edit gres.conf.")
    return known


def _meeting(report: Report) -> None:
    """Check how ranks find each other: PMIx for MPI, or Gloo, which needs nothing from Slurm."""
    _, answer = ask("srun", "--mpi=list", stderr=True)
    versions = re.findall(r"pmix(?:_v\d+)?", answer)
    gloo, mpi, _ = findings.built()
    report.expect(
        "PMIx", f"available ({max(versions)}), for controller='mpi'" if versions else None,
        "missing: controller='mpi' will not work",
        "Use controller='gloo', the default." if gloo else "",
        "Build Slurm with Open MPI's version of PMIx; Debian's packages match.",
        mark="warn" if gloo or not mpi else "bad",
    )  # fmt: skip


def _memory(report: Report, facts: dict[str, str]) -> None:
    if "memory" not in facts.get("SelectTypeParameters", "").lower():
        report.add(
            "warn", "memory", "not allocated to jobs",
            "Slurm does not allocate memory=: jobs on one node can use each other's memory.",
            "Set SelectTypeParameters=CR_Core_Memory to make memory a consumable resource.",
        )  # fmt: skip
    elif "cgroup" in facts.get("TaskPlugin", "") and facts.get("ConstrainRAMSpace", "").lower() == "yes":
        finding = "allocated, and limited by cgroup: the kernel kills processes that exceed the limit"
        report.add("ok", "memory", finding)
    elif "OverMemoryKill" in facts.get("JobAcctGatherParams", ""):
        step = "A task over its limit is killed seconds later, as FAILED instead of OUT_OF_MEMORY."
        report.add("warn", "memory", "allocated; checked periodically", step, CGROUP)
    else:
        step = "A job that uses too much memory can take its node down: request what you use."
        report.add("warn", "memory", "allocated, but not limited", step, CGROUP)
