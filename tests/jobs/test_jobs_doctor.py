"""The doctor's report without Slurm, with fake Slurm commands (one broken at a time), and on a real Slurm."""

import subprocess
import sys
from pathlib import Path

import pytest

import cluster
from cluster.doctor import checkup, trial
from cluster.doctor import slurm_checks as slurm
from cluster.doctor.findings import Report
from cluster.slurm import client

CONFIG = """\
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = accounting_storage/slurmdbd
SelectTypeParameters    = CR_CORE_MEMORY
SLURM_VERSION           = 22.05.8
TaskPlugin              = task/cgroup
ConstrainRAMSpace       = yes
"""
SINFO = """\
case "$*" in *-N*) echo 'n1|gpu:a100:4(S:0-1)'; echo 'n1|gpu:a100:4(S:0-1)'; echo 'n2|(null)';;
*) echo 'short*|up|30:00|1/3/0/4|gpu:2'; echo 'long|up|1-00:00:00|0/2/2/4|(null)';; esac"""
WELL = {
    "sbatch": "echo slurm 22.05.8",
    "srun": "echo 'MPI plugin types are...' >&2; echo pmix >&2; echo 'pmix versions: pmix_v4' >&2",
    "squeue": "exit 0",
    "scancel": "exit 0",
    "sacct": "exit 0",
    "scontrol": f"case $1 in ping) echo 'Slurmctld(primary) at n0 is UP';; *) cat <<'X'\n{CONFIG}X\n;; esac",
    "sinfo": SINFO,
    "sacctmgr": "echo 'course||normal|gres/gpu=4|'",
    "munge": "echo MUNGE:credential:",
    "unmunge": "read x; [ $x = MUNGE:credential: ] && echo 'STATUS: Success (0)'",
    "nvidia-smi": "exit 9",
}


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """A function commands(munge="exit 1", ...) that creates fake Slurm commands, with the given scripts
    instead of working ones, and returns the doctor's report. PATH has only these commands and `cat`, `stat`
    and `sh`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("cat", "stat", "sh"):
        (tmp_path / "bin" / name).symlink_to(
            f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}"
        )
    (tmp_path / "slurm.conf").touch()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(client, "_answers", {})
    monkeypatch.setattr(slurm, "built", lambda: (True, True))
    monkeypatch.setattr(checkup, "built", lambda: (True, True))
    monkeypatch.setattr(client, "PLACES", ())

    def play(**texts):
        for name, text in (WELL | texts).items():
            path = tmp_path / "bin" / name.replace("_", "-")
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(f"#!/bin/sh\n{text}\n")
                path.chmod(0o755)
        return cluster.doctor()

    return play


def test_the_function_stays_the_function():
    """Is `cluster.doctor` still callable after the package of that name has been imported?"""
    code = "import cluster; from cluster.doctor import checkup; import cluster.doctor.findings;"
    code += "print(callable(cluster.doctor), checkup.doctor.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "doctor"]


def test_all_is_well(commands):
    report = commands()
    assert report.ok and [i.subject for i in report.items if i.mark == "bad"] == []
    assert {i.subject for i in report.items if i.mark == "warn"} == {"mpirun", "runs", "jobs"}
    assert report.item("GPUs").finding.startswith("4 known to Slurm, on 1 nodes")
    assert report.item("partition long").finding == "up, 2 of 4 nodes up (2 idle), time limit 1-00:00:00"
    assert "course, limits: gres/gpu=4" in report.item("accounting").finding
    assert "pmix_v4" in report.item("PMIx").finding and "22.05.8" in report.item("controller").finding


def config(old, new):
    return WELL["scontrol"].replace(old, new)


BROKEN = {
    "not all commands": ({"srun": None}, "Slurm", "bad", "not on PATH: srun"),
    "a module that does not fit": ({"sbatch": "echo 'GLIBC not found' >&2; exit 1"}, "Slurm", "bad", "GLIBC"),
    "a silent controller": ({"scontrol": "exit 1"}, "controller", "bad", "no Slurm controller answers"),
    "munged is dead": ({"munge": "echo 'no socket' >&2; exit 1"}, "munge", "bad", "cannot create"),
    "another key": ({"unmunge": "echo 'STATUS: Invalid (15)'; exit 15"}, "munge", "bad", "STATUS: Invalid"),
    "no munge": ({"munge": None}, "munge", "warn", "not installed"),
    "slurmdbd is dead": ({"sacctmgr": "echo refused >&2; exit 1"}, "accounting", "bad", "answer: refused"),
    "no account": ({"sacctmgr": "exit 0"}, "accounting", "bad", "jobs are refused"),
    "no accounting": ({"scontrol": config("accounting_storage/slurmdbd", "accounting_storage/none")},
                      "accounting", "warn", "not kept"),
    "no partition": ({"sinfo": "exit 0"}, "partitions", "bad", "none that you may use"),
    "all nodes down": ({"sinfo": "echo 'short*|up|30:00|0/0/4/4|(null)'"}, "partition short*", "bad", "0 of"),
    "a partition down": ({"sinfo": "echo 'a*|up|1:00|0/1/0/1|(null)'; echo 'b|down|1:00|0/1/0/1|(null)'"},
                         "partition b", "warn", "down"),
    "no default": ({"sinfo": "echo 'short|up|30:00|0/4/0/4|(null)'"}, "partitions", "warn", "none is"),
    "no GPU in Slurm": ({"sinfo": "echo 'a*|up|1:00|0/1/0/1|(null)'", "nvidia_smi": "echo GPU 0: A100"},
                        "GPUs", "warn", "none known to Slurm, though this machine shows 1 CUDA device"),
    "no GPU at all": ({"sinfo": "echo 'a*|up|1:00|0/1/0/1|(null)'"}, "GPUs", "warn", "none known to Slurm"),
    "no PMIx": ({"srun": "echo pmi2 >&2"}, "PMIx", "warn", "controller='mpi' will not work"),
    "memory not allocated": ({"scontrol": config("CR_CORE_MEMORY", "CR_CORE")}, "memory", "warn", "not a"),
    "memory not limited": ({"scontrol": config("= yes", "= no")}, "memory", "warn", "not limited"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_each_part_that_is_broken_is_named_with_what_to_do(commands, what):
    """Does the doctor name each broken part, with solutions for students and for administrators? Does it
    report no other part as bad?"""
    texts, subject, mark, text = BROKEN[what]
    report = commands(**texts)
    item = report.item(subject)
    assert item.mark == mark and text in item.finding, item
    assert item.student and item.administrator
    assert report.ok == (mark != "bad")
    assert item.student in repr(report) and "administrator: " in repr(report)
    others = {"not all commands": {"sbatch"}, "no partition": {"GPUs"}}.get(what, set())
    bad = {i.subject for i in report.items if i.mark == "bad"} - {subject} - others
    assert not bad


def test_slurm_conf_that_is_not_there(commands, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    item = commands().item("slurm.conf")
    assert item.mark == "bad" and "/nowhere/slurm.conf" in item.finding


def test_a_laptop_without_slurm_is_no_fault(commands, monkeypatch):
    """Does the doctor accept a laptop without Slurm, and one that has Slurm's commands but no configured
    cluster?"""
    report = commands(**dict.fromkeys(WELL))
    assert report.ok and report.item("Slurm").finding == "no sbatch on PATH"
    monkeypatch.delenv("SLURM_CONF")
    fails = "echo 'sbatch: fatal: Could not establish a configuration source' >&2; exit 1"
    report = commands(**dict.fromkeys(WELL, fails))
    subjects = [i.subject for i in report.items]
    assert report.ok and report.item("slurm.conf").mark == "warn" and "controller" not in subjects


def test_a_folder_that_cannot_be_written_and_packages_that_are_not_there(commands, monkeypatch):
    monkeypatch.setattr(checkup.os, "access", lambda path, mode: False)
    monkeypatch.setattr(checkup.provenance, "versions", lambda: {"python": "3.11"})
    report = commands()
    assert [report.item(s).mark for s in ("runs", "tensorflow", "horovod")] == ["bad"] * 3


def seen(**more):
    """Return the reports of two ranks on two nodes; `more` replaces entries in the second one."""
    now = {"clock": (99.9, 100.0), "here": (99.0, 101.0), "sees": True, "kind": "nfs", "limit": 2 * 2**30}
    versions = {k: v for k, v in trial.provenance.versions().items() if k != "cluster"}
    first = now | {"host": "n1", "python": sys.executable, "versions": versions}
    return [first, first | {"host": "n2"} | more]


@pytest.mark.parametrize(
    ("more", "subject", "mark", "message"),
    [
        ({}, None, "", ""),
        ({"sees": False}, "shared folder", "bad", "n2 do not see"),
        ({"versions": {"numpy": "1.0"}}, "environment", "bad", "n2 has numpy 1.0, but this machine has"),
        ({"clock": (160.0, 160.1)}, "clocks", "bad", "differ by 60.0 s"),
        ({"clock": (40.0, 40.1)}, "clocks", "bad", "differ by 59.8 s"),
        ({"clock": (99.9, 130.0)}, None, "", ""),  # read late, but the clock may be correct
        ({"limit": None}, None, "", ""),  # a limit on one node is enough
    ],
)
def test_what_the_ranks_tell_of_their_nodes(commands, more, subject, mark, message):
    report = Report()
    trial._nodes(report, seen(**more))
    assert {i.subject for i in report.items if i.mark != "ok"} == ({subject} if subject else set())
    assert subject is None or (report.item(subject).mark == mark and message in report.item(subject).finding)


def test_the_limit_of_a_cgroup_is_the_least_on_the_way_up(tmp_path):
    """Is a rank's memory limit the lowest limit of its cgroup and all cgroups above it?

    In version 1 of cgroups, each controller has a folder, and a huge number means that there is no limit. In
    version 2, 'max' means this.
    """
    for base, line in [("memory", "4:memory:/job_1/step_0"), ("", "0::/job_1/step_0")]:
        mounted = tmp_path / (base or "v2")
        at = (mounted / base if base else mounted) / "job_1" / "step_0"
        at.mkdir(parents=True)
        name = "memory.limit_in_bytes" if base else "memory.max"
        (at / name).write_text(str(2**63 - 4096) if base else "max\n")
        (tmp_path / "mine").write_text(f"1:cpu:/x\n{line}\n")
        assert trial.memory_limit(tmp_path / "mine", mounted) is None
        (at.parent / name).write_text(f"{300 * 2**20}\n")
        assert trial.memory_limit(tmp_path / "mine", mounted) == 300 * 2**20
    assert trial.memory_limit(tmp_path / "none", tmp_path) is None


@pytest.mark.ranks
def test_two_ranks_here_prove_the_world_size(runs, monkeypatch, capsys):
    monkeypatch.setattr(slurm, "COMMANDS", ("sbatch-that-is-not-there", "sbatch"))
    monkeypatch.setattr(slurm.shutil, "which", lambda name: None if "sbatch" in name else f"/usr/bin/{name}")
    report = cluster.doctor(run=True)
    assert report.ok and "[2, 2]" in report.item("two ranks, gloo").finding


@pytest.mark.slurm
@pytest.mark.ranks
def test_a_real_slurm_is_well(cluster, tmp_path, monkeypatch):
    """On a real Slurm, does the doctor report munge, accounting, GPUs, a job of two ranks, and the ranks'
    shared folder, packages and clocks as ok? On the tests' own Slurm, can only memory limits cause a
    warning?"""
    from cluster import doctor

    cluster.enter(monkeypatch)
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    report = doctor(run=True)
    assert report.ok, report
    proved = {"munge", "accounting", "GPUs", "two ranks, gloo", "shared folder", "environment", "clocks"}
    assert {s: report.item(s).mark for s in proved} == dict.fromkeys(proved, "ok"), report
    if cluster.own:
        assert {i.subject for i in report.items if i.mark != "ok"} <= {"memory in a job", "memory"}, report
        assert "CUDA_VISIBLE_DEVICES=" in report.item("GPU in a job").finding
    assert not list((tmp_path / "runs").glob(".doctor"))
