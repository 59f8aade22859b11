"""The doctor's queries to Slurm: configuration, munge, accounting, partitions, GPUs, memory."""

from __future__ import annotations

import getpass
import os
import re
import shutil
from pathlib import Path

from cluster.slurm import client
from cluster.slurm.words import gpus as gpus_in

from .findings import ADMINISTRATOR, Report, ask, built, slurm_missing

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo", "sacct")


def look(report: Report) -> bool:
    """Add the findings about Slurm and return whether jobs can be submitted to it."""
    if not _commands(report) or not _configuration(report):
        return False
    _munge(report)
    missing = slurm_missing()
    if missing:
        student = "Until it answers, jobs run on this machine with the local backend."
        administrator = "Check that slurmctld runs and is reachable. For single-host Slurm, run make slurm."
        report.add("bad", "controller", missing, student, administrator)
        return False
    facts = _facts()
    report.add("ok", "controller", f"answers; Slurm {facts.get('SLURM_VERSION', '?')}")
    _accounting(report, facts)
    gpus = _partitions(report)
    _gpus(report, gpus)
    _meeting(report)
    _memory(report, facts)
    return True


def _commands(report: Report) -> bool:
    absent = [c for c in COMMANDS if not shutil.which(c)]
    if "sbatch" in absent:
        student = (
            "Jobs run on this machine with the local backend. To use a cluster, log in to its login node."
        )
        administrator = "Install Slurm's client commands here. For single-host Slurm, run sudo make slurm."
        report.add("warn", "Slurm", "no sbatch on PATH", student, administrator)
        return False
    if absent:
        student = "Load Slurm's module, if there is one: module avail slurm."
        administrator = "Install all of Slurm's client commands."
        report.add("bad", "Slurm", f"not on PATH: {', '.join(absent)}", student, administrator)
        return "scontrol" not in absent
    if not client.conf():
        report.add("ok", "Slurm", f"{shutil.which('sbatch')}")
        return True  # without a configuration, Slurm does not even report its version
    good, version = ask("sbatch", "--version")
    if not good:
        student = "The loaded module may be for another kind of machine."
        report.add("bad", "Slurm", f"sbatch does not run: {version}", student, "Reinstall slurm-client.")
        return False
    report.add("ok", "Slurm", f"{version.strip()}, {shutil.which('sbatch')}")
    return True


def _configuration(report: Report) -> bool:
    """Return whether a cluster is configured. If so, a controller that does not answer is a fault."""
    path = client.conf()
    if path and not Path(path).is_file():
        student = "Unset SLURM_CONF, or set it to the path of the cluster's slurm.conf."
        report.add("bad", "slurm.conf", f"SLURM_CONF={path} does not exist", student, _WHERE)
    elif path:
        report.add("ok", "slurm.conf", path + _whose(path))
    elif slurm_missing():
        student = (
            "Jobs run on this machine with the local backend. SLURM_CONF can name a cluster's slurm.conf."
        )
        report.add("warn", "slurm.conf", "not in the usual places; SLURM_CONF is not set", student, _WHERE)
        return False
    else:
        report.add("ok", "slurm.conf", "Slurm finds it by itself")
    return True


def _whose(found: str) -> str:
    if os.environ.get("SLURM_CONF"):
        return ", set by SLURM_CONF"
    return ", of the Slurm that `make slurm` started here" if found == str(client.one_machine_conf()) else ""


_WHERE = "Put slurm.conf where Slurm looks for it, or run configless (slurmd --conf-server, DNS SRV)."


def _munge(report: Report) -> None:
    if not shutil.which("munge"):
        report.add(
            "warn", "munge", "not installed here", "Ignore it if jobs are accepted.", "apt-get install munge"
        )
        return
    good, credential = ask("munge", "-n")
    step = "Start munged here, with the same /etc/munge/munge.key as on the controller and the nodes."
    if not good:
        report.add("bad", "munge", f"cannot create a credential: {credential}", ADMINISTRATOR, step)
        return
    good, answer = ask("unmunge", text=credential)
    if not good or "Success" not in answer:
        why = next((x for x in answer.splitlines() if x.startswith("STATUS")), answer)
        report.add(
            "bad", "munge", f"cannot read its own credential: {why}", ADMINISTRATOR, f"{step} Set the clocks."
        )
        return
    report.add("ok", "munge", "creates and reads a credential")


def _facts() -> dict[str, str]:
    """Return the output of `scontrol show config` as a dictionary."""
    _, answer = ask("scontrol", "show", "config")
    return {k.strip(): v.strip() for k, _, v in (x.partition("=") for x in answer.splitlines()) if v}


def _accounting(report: Report, facts: dict[str, str]) -> None:
    kind = facts.get("AccountingStorageType", "")
    if not kind or "none" in kind:
        student = (
            "Slurm accepts any account or QOS, and soon forgets ended jobs. Job folders keep their records."
        )
        administrator = "Run slurmdbd, and set AccountingStorageType=accounting_storage/slurmdbd."
        report.add("warn", "accounting", "not kept", student, administrator)
        return
    who = getpass.getuser()
    fields = "format=account,partition,qos,grptres,maxtres"
    good, answer = ask("sacctmgr", "-n", "-P", "show", "assoc", f"user={who}", fields)
    if not good:
        administrator = "Check slurmdbd and its database: systemctl status slurmdbd"
        report.add("bad", "accounting", f"slurmdbd does not answer: {answer}", ADMINISTRATOR, administrator)
        return
    accounts = sorted({row.split("|")[0] for row in answer.splitlines() if row.strip()})
    if accounts:
        limits = sorted({x for row in answer.splitlines() for x in row.split("|")[3:] if x})
        finding = f", limits: {'; '.join(limits)}" if limits else ""
        report.add("ok", "accounting", f"kept; you ({who}) may use {', '.join(accounts)}{finding}")
        return
    enforced = "associations" in facts.get("AccountingStorageEnforce", "")
    step = f"sacctmgr add user {who} account=<account>"
    finding = f"kept, but you ({who}) have no account" + ("; jobs are refused" if enforced else "")
    report.add("bad" if enforced else "warn", "accounting", finding, ADMINISTRATOR, step)


def _partitions(report: Report) -> dict[str, int]:
    """Add an item per partition and return {node: number of its GPUs}."""
    good, answer = ask("sinfo", "-h", "-o", "%P|%a|%l|%F|%G")
    rows = [r.split("|") for r in answer.splitlines() if r.count("|") == 4] if good else []
    if not rows:
        text = "none that you may use" if good else answer
        report.add("bad", "partitions", text, ADMINISTRATOR, "Define one that the students' account may use.")
        return {}
    for name, state, limit, nodes, gres in rows:
        busy, idle, _, total = (int(n) for n in nodes.split("/"))
        up = busy + idle
        each = "" if gres == "(null)" else f", {gres} each"
        finding = f"{state}, {up} of {total} nodes up ({idle} idle), time limit {limit}{each}"
        if state == "up" and up:
            report.add("ok", f"partition {name}", finding)
            continue
        student = "Choose another partition: submit(..., partition=...)."
        administrator = "sinfo --list-reasons says why; then scontrol update ... State=RESUME (or State=UP)."
        mark = "bad" if name.endswith("*") else "warn"
        report.add(mark, f"partition {name}", finding, student, administrator)
    if not any(r[0].endswith("*") for r in rows):
        student = f"Name a partition in each job: submit(..., partition={rows[0][0]!r})."
        step = "Set Default=YES for one, or name one in a site file: python -m cluster doctor --site."
        report.add("warn", "partitions", "none is the default", student, step)
    _, answer = ask("sinfo", "-h", "-N", "-o", "%N|%G")
    pairs = (r.split("|") for r in answer.splitlines() if r.count("|") == 1)
    return {node: gpus_in(gres) for node, gres in pairs}


def _gpus(report: Report, gpus: dict[str, int]) -> None:
    known, nodes = sum(gpus.values()), sum(n > 0 for n in gpus.values())
    good, answer = ask("nvidia-smi", "-L")
    here = len([x for x in answer.splitlines() if x.startswith("GPU ")]) if good else 0
    visible = f"this machine shows {here or 'no'} CUDA device{'s' * (here != 1)}"
    if known:
        report.add("ok", "GPUs", f"{known} known to Slurm, on {nodes} nodes; {visible}")
    elif here:
        student = "gpus_per_rank=1 will be rejected, and Slurm does not track which jobs use a GPU."
        administrator = "Set GresTypes=gpu, Gres=gpu:N in slurm.conf; AutoDetect=nvml or File= in gres.conf."
        report.add("warn", "GPUs", f"none known to Slurm, though {visible}", student, administrator)
    else:
        student = "Use gpus_per_rank=0: jobs compute on CPUs."
        report.add(
            "warn", "GPUs", f"none known to Slurm; {visible}", student, "If nodes have GPUs, edit gres.conf."
        )


def _meeting(report: Report) -> None:
    """Check how ranks find each other: PMIx for MPI, or Gloo, which needs nothing from Slurm."""
    good, answer = ask("srun", "--mpi=list", stderr=True)
    gloo, mpi = built()
    if good and "pmix" in answer:
        version = re.search(r"pmix_v\d+", answer)
        report.add("ok", "PMIx", f"available{f' ({version[0]})' if version else ''}, for controller='mpi'")
    else:
        student = "Use controller='gloo', the default." if gloo else ADMINISTRATOR
        administrator = "Build Slurm with Open MPI's version of PMIx; Debian's packages match."
        mark = "warn" if gloo or not mpi else "bad"
        report.add(mark, "PMIx", "missing: controller='mpi' will not work", student, administrator)


def _memory(report: Report, facts: dict[str, str]) -> None:
    cgroup = "cgroup" in facts.get("TaskPlugin", "") and facts.get("ConstrainRAMSpace", "").lower() == "yes"
    polled = "OverMemoryKill" in facts.get("JobAcctGatherParams", "")
    counted = "memory" in facts.get("SelectTypeParameters", "").lower()
    administrator = "Set TaskPlugin=task/cgroup, and ConstrainRAMSpace=yes in cgroup.conf."
    if not counted:
        student = "Slurm does not allocate memory=: jobs on one node can use each other's memory."
        step = "Set SelectTypeParameters=CR_Core_Memory to make memory a consumable resource."
        report.add("warn", "memory", "not allocated to jobs", student, step)
    elif cgroup:
        report.add(
            "ok",
            "memory",
            ("allocated, and limited by cgroup: the kernel kills processes that exceed the limit"),
        )
    elif polled:
        student = "A task over its limit is killed seconds later, as FAILED instead of OUT_OF_MEMORY."
        report.add("warn", "memory", "allocated; checked periodically", student, administrator)
    else:
        student = "A job that uses too much memory can take its node down: request what you use."
        report.add("warn", "memory", "allocated, but not limited", student, administrator)
