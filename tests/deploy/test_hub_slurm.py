"""Test a hub with Slurm: a daemon that is killed, and access to other users' jobs. `make test-hub` runs these
tests."""

import contextlib
import json
import os
import signal
import time

import psutil
import pytest

from cluster.staff.one_machine_slurm import machine
from cluster.system import processes
from tests.deploy.classroom import ASSIGNMENT, tiny

from .hub import PREFIX, opened, person, wait

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def with_slurm(course):
    with opened(course, machine.missing(), slurm="machine") as instance:
        yield instance


def slurm_of(hub):
    """Return (the state folder of the hub's Slurm, the environment that Slurm's commands need)."""
    slurm = hub.state.parent / "slurm"
    return slurm, {"CLUSTER_STATE": str(slurm.parent), "SLURM_CONF": f"{slurm}/slurm.conf"}


@pytest.mark.hub
def test_slurmctld_is_killed_while_a_job_runs(with_slurm):
    """If slurmctld is killed while a job runs, does the job survive, and does the notebook get its result?
    Can an assignment then be submitted and graded on Slurm?"""
    hub = with_slurm
    ada = person(hub, "ada").begin()
    ada.solve("return 2 * x")
    kernel, answer = ada.cell(SUBMIT)
    slurm, given = slurm_of(hub)
    begun, file = time.time(), slurm / "controller/job_state"
    wait("slurmctld's note of the job", lambda: file.exists() and file.stat().st_mtime > begun)
    pid = json.loads((slurm / "processes.json").read_text())["slurmctld"]["pid"]
    os.kill(pid, signal.SIGKILL)
    answer = hub.do("status", status=1)
    assert [line.split()[0] for line in answer.splitlines() if " dead " in line] == ["slurmctld"], answer
    hub.start()
    assert "dead" not in hub.do("status")
    assert ada.cell("print(job.wait(120, progress=False).result())", kernel)[1].strip() == "42"
    ada.assignment("submit", ASSIGNMENT)
    assert "1 collected" in hub.grade("collect", ASSIGNMENT)
    argv = ["python", "-m", "cluster", "grade", "run", ASSIGNMENT, "--backend", "slurm"]
    hub.run(hub.grader, *argv, **given)  # as the grader does in Formgrader's terminals
    assert hub.marks()[ada.user] == 3


@pytest.mark.hub
def test_jobs_of_others_are_private_and_ranks_end_with_slurmstepd(with_slurm):
    """Are a student's jobs and Slurm's lock inaccessible to another student? Does `scancel` end a job's ranks
    even if slurmstepd was killed?"""
    hub = with_slurm
    ada, (slurm, given) = person(hub, "ada").begin(), slurm_of(hub)
    ada.cell(SUBMIT.replace("30", "300"))
    listed = hub.run(ada.user, "squeue", "--noheader", "--format=%i %u", **given).stdout.split()
    assert listed[1::2] == [ada.user], listed
    for argv in (
        ["squeue", "--noheader"],
        ["sacct", "--noheader", "--allusers"],
        ["sacct", "-nj", listed[0]],
    ):
        seen = hub.run(f"{PREFIX}ben", *argv, check=False, **given)
        assert not seen.stdout.strip(), (argv, seen.stdout)
    seen = hub.run(f"{PREFIX}ben", "scontrol", "show", "job", listed[0], check=False, **given)
    assert ada.user not in seen.stdout, seen.stdout
    refused = hub.run(f"{PREFIX}ben", "flock", "-n", slurm / "lock", "true", check=False)
    assert refused.returncode and "ermission denied" in refused.stderr
    left = ranks(ada.user)
    assert left, "a rank runs"
    of_slurm = {process["pid"] for process in processes.slurm_processes(slurm / "etc/slurm.conf")}
    steps = [p for p in psutil.process_iter(["name"]) if p.pid in of_slurm and p.info["name"] == "slurmstepd"]
    assert steps
    for process in steps:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    assert ranks(ada.user), "Slurm's own search by parents would have found them"
    hub.run(ada.user, "scancel", listed[0], **given)
    wait("end of the ranks", lambda: not ranks(ada.user))


def ranks(user):
    """Return a user's rank processes."""
    procs = psutil.process_iter(["username", "cmdline", "status"])
    rows = [p.info for p in procs if p.info["username"] == user and p.info["status"] != psutil.STATUS_ZOMBIE]
    return [info for info in rows if "cluster.jobs.rank.main" in " ".join(info["cmdline"] or ())]


SUBMIT = """
import time
import cluster

def slow(seconds):
    time.sleep(seconds)
    return 42

job = cluster.submit(slow, 30)
while job.status != "running":
    time.sleep(0.5)
"""
