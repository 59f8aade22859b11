"""The doctor's report without Slurm, with fake Slurm commands (one broken at a time), and on a real Slurm."""

import shutil
import sys

import pytest

import cluster
from cluster.doctor import checkup, findings, trial
from cluster.doctor import slurm_checks as slurm
from cluster.doctor.findings import Report
from cluster.slurm import client
from tests import ALL, fakes

CONFIG = """\
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = accounting_storage/slurmdbd
SelectTypeParameters    = CR_CORE_MEMORY
SLURM_VERSION           = 22.05.8
TaskPlugin              = task/cgroup
ConstrainRAMSpace       = yes
"""
SINFO = """\
case "$*" in *-N*) echo 'short*|n1|gpu:a:4(S:0-1)'; echo 'long|n1|gpu:a:4(S:0-1)'; echo 'short*|n2|(null)';;
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
    "nvidia_smi": "exit 9",
}


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """A function commands(munge="exit 1", ...) that creates fake Slurm commands, with the given scripts
    instead of working ones, and returns the doctor's report. PATH has these, `cat` and `stat` only."""
    (tmp_path / "bin").mkdir()
    for name in ("cat", "stat"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    (tmp_path / "slurm.conf").touch()
    for name, value in (("PATH", "bin"), ("SLURM_CONF", "slurm.conf"), ("CLUSTER_RUNS", "runs")):
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setattr(client, "_answers", {})
    monkeypatch.setattr(client, "PLACES", ())
    monkeypatch.setattr(findings, "built", lambda: (True, True, 0))

    def play(**scripts):
        fakes.commands(tmp_path / "bin", **(WELL | scripts))
        return cluster.doctor()

    return play


def marked(report, mark):
    return {i.subject for i in report.items if i.mark == mark}


def test_all_is_well(commands):
    report = commands()
    assert (
        report.ok and marked(report, "bad") == set() and marked(report, "warn") == {"mpirun", "runs", "jobs"}
    )
    values = {
        "GPUs": "4", "partition long": "2 of 4", "accounting": "gres/gpu=4", "PMIx": "pmix_v4",
        "controller": "22.05.8",
    }  # fmt: skip
    assert all(value in report.item(subject).finding for subject, value in values.items())


def config(old, new):
    return WELL["scontrol"].replace(old, new)


SMALL = "echo 'a*|up|1:00|0/1/0/1|(null)'"
BROKEN = {  # {what: (scripts, subject of the finding, its mark, a value in it)}
    "not all commands": ({"srun": None}, "Slurm", "bad", "srun"),
    "a module that does not fit": ({"sbatch": "echo 'GLIBC not found' >&2; exit 1"}, "Slurm", "bad", "GLIBC"),
    "a silent controller": ({"scontrol": "exit 1"}, "controller", "bad", ""),
    "munged is dead": ({"munge": "echo 'no socket' >&2; exit 1"}, "munge", "bad", "no socket"),
    "another key": ({"unmunge": "echo 'STATUS: Invalid (15)'; exit 15"}, "munge", "bad", "STATUS: Invalid"),
    "no munge": ({"munge": None}, "munge", "warn", ""),
    "slurmdbd is dead": ({"sacctmgr": "echo refused >&2; exit 1"}, "accounting", "bad", "refused"),
    "no account": ({"sacctmgr": "exit 0"}, "accounting", "bad", ""),
    "no accounting": ({"scontrol": config("accounting_storage/slurmdbd", "accounting_storage/none")},
                      "accounting", "warn", ""),
    "no partition": ({"sinfo": "exit 0"}, "partitions", "bad", ""),
    "all nodes down": ({"sinfo": "echo 'short*|up|30:00|0/0/4/4|(null)'"}, "partition short*", "bad", "0 of"),
    "a partition down": ({"sinfo": f"{SMALL}; echo 'b|down|1:00|0/1/0/1|(null)'"},
                         "partition b", "warn", "down"),
    "no default": ({"sinfo": "echo 'short|up|30:00|0/4/0/4|(null)'"}, "partitions", "warn", ""),
    "no GPU in Slurm": ({"sinfo": SMALL, "nvidia_smi": "echo GPU 0: A100"}, "GPUs", "warn", " 1 "),
    "no GPU at all": ({"sinfo": SMALL}, "GPUs", "warn", ""),
    "no PMIx": ({"srun": "echo pmi2 >&2"}, "PMIx", "warn", "controller='mpi'"),
    "memory not allocated": ({"scontrol": config("CR_CORE_MEMORY", "CR_CORE")}, "memory", "warn", ""),
    "memory not limited": ({"scontrol": config("= yes", "= no")}, "memory", "warn", ""),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_each_part_that_is_broken_is_named_with_what_to_do(commands, what):
    """Does the doctor name each broken part, with solutions for students and for administrators? Does it
    report no other part as bad?"""
    scripts, subject, mark, value = BROKEN[what]
    report = commands(**scripts)
    item = report.item(subject)
    assert item.mark == mark and value in item.finding and report.ok == (mark != "bad")
    assert item.student and item.administrator
    assert item.student in repr(report) and item.administrator in repr(report)
    assert marked(report, "bad") <= {subject, "sbatch"}


def test_slurm_conf_that_is_not_there(commands, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    item = commands().item("slurm.conf")
    assert item.mark == "bad" and "/nowhere/slurm.conf" in item.finding


def test_a_laptop_without_slurm_is_no_fault(commands, monkeypatch):
    """Does the doctor accept a laptop without Slurm, and one that has Slurm's commands but no configured
    cluster?"""
    report = commands(**dict.fromkeys(WELL))
    assert report.ok and report.item("Slurm").mark == "warn"
    monkeypatch.delenv("SLURM_CONF")
    report = commands(**dict.fromkeys(WELL, "exit 1"))
    assert report.ok and report.item("slurm.conf").mark == "warn"
    assert "controller" not in marked(report, "bad")


def test_a_folder_that_cannot_be_written_and_packages_that_are_not_there(commands, monkeypatch):
    monkeypatch.setattr(checkup.os, "access", lambda path, mode: False)
    monkeypatch.setattr(checkup.provenance, "versions", lambda: {"python": "3.11"})
    assert marked(commands(), "bad") == {"runs", "tensorflow", "horovod"}


def seen(**more):
    """Return the reports of two ranks on two nodes; `more` replaces entries in the second one."""
    now = {"clock": (99.9, 100.0), "here": (99.0, 101.0), "sees": True, "kind": "nfs", "limit": 2 * 2**30}
    first = now | {"host": "n1", "python": sys.executable, "versions": trial.packages()}
    return [first, first | {"host": "n2"} | more]


@pytest.mark.parametrize(
    ("more", "subject", "value"),
    [
        ({}, None, ""),
        ({"sees": False}, "shared folder", "n2"),
        ({"versions": {"numpy": "1.0"}}, "environment", "n2 has numpy 1.0"),
        ({"clock": (160.0, 160.1)}, "clocks", "60.0 s"),
        ({"clock": (40.0, 40.1)}, "clocks", "59.8 s"),
        ({"clock": (99.9, 130.0)}, None, ""),  # read late, but the clock may be correct
        ({"limit": None}, None, ""),  # a limit on one node is enough
    ],
)
def test_what_the_ranks_tell_of_their_nodes(more, subject, value):
    report = Report()
    trial._nodes(report, seen(**more))
    assert marked(report, "bad") == ({subject} if subject else set()) and marked(report, "warn") == set()
    assert subject is None or value in report.item(subject).finding


@pytest.mark.parametrize(
    ("base", "line", "name", "none"),
    [
        # Version 1 of cgroups has a folder for each controller, and a huge number for "no limit".
        ("memory", "4:memory:/job_1/step_0", "memory.limit_in_bytes", str(2**63 - 4096)),
        ("", "0::/job_1/step_0", "memory.max", "max"),
    ],
)
def test_the_limit_of_a_cgroup_is_the_least_on_the_way_up(tmp_path, base, line, name, none):
    """Is a rank's memory limit the lowest limit of its cgroup and all cgroups above it?"""
    step = tmp_path / "mounted" / base / "job_1" / "step_0"
    step.mkdir(parents=True)
    (step / name).write_text(none)
    mine = tmp_path / "mine"
    assert trial.memory_limit(mine, tmp_path / "mounted") is None
    mine.write_text(f"1:cpu:/x\n{line}\n")
    assert trial.memory_limit(mine, tmp_path / "mounted") is None
    (step.parent / name).write_text(f"{300 * 2**20}\n")
    assert trial.memory_limit(mine, tmp_path / "mounted") == 300 * 2**20


@pytest.mark.skipif(not ALL, reason="half a minute (CLUSTER_TEST_ALL=1)")
@pytest.mark.ranks
def test_two_ranks_here_prove_the_world_size(tmp_path, monkeypatch, warm_ranks):
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(slurm.shutil, "which", lambda name: None)
    report = cluster.doctor(run=True)
    assert report.ok and "[2, 2]" in report.item("two ranks, gloo").finding


WELL_ON_SLURM = {"munge", "accounting", "GPUs", "two ranks, gloo", "shared folder", "environment", "clocks"}
MEMORY, ON_A_GPU = {"memory in a job", "memory"}, "GPU in a job"


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
    assert report.ok and marked(report, "ok") >= WELL_ON_SLURM, report
    if cluster.own:
        assert marked(report, "warn") <= MEMORY and marked(report, "ok") >= {ON_A_GPU}, report
    assert not list((tmp_path / "runs").glob(".doctor"))
