"""Each of Slurm's states and reasons for pending, produced on a real Slurm, and described as text.

The jobs of a module's fixture run concurrently, so the tests take as long as the slowest job.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.jobs import attach, errors, submit
from cluster.slurm import client, limits, states
from cluster.system import files

from . import programs, sweeps

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def here(cluster, tmp_path_factory):
    """The tests' own Slurm as this process's backend, with an empty folder of runs."""
    if not cluster.own:
        pytest.skip("stops daemons and changes limits: not on a cluster that is not the tests' own")
    with pytest.MonkeyPatch.context() as patch:
        cluster.enter(patch)
        patch.setenv("CLUSTER_RUNS", str(tmp_path_factory.mktemp("runs")))
        patch.setenv("CLUSTER_BACKEND", "slurm")
        patch.setattr(client, "_answers", {})
        patch.setattr(client, "FRESH", 0.1)
        cluster.ask("scancel", "--user=root")  # jobs left by earlier tests; all three nodes are needed
        empty(cluster)
        yield cluster


def number(job):
    return files.read_json(job.folder / "backend.json")["job_id"]


def until(what, true, seconds=150):
    deadline = time.monotonic() + seconds
    while not (result := true()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.1)
    return result


def empty(cluster):
    """Wait until no job is left; otherwise fail and list the jobs."""
    try:
        until("an empty queue", lambda: not cluster.ask("squeue", "-h"))
    except AssertionError:
        pytest.fail("jobs stay in the queue:\n" + cluster.ask("scontrol", "show", "job"))


def sleeper(seconds, **options):
    """Submit a job with a unique cache key."""
    sleeper.made = getattr(sleeper, "made", 0) + 1
    return submit(programs.sleeps, seconds + sleeper.made / 1000, memory="100M", **options)


@pytest.fixture(scope="class")
def waiting(here):
    """Yield {reason: a job that is pending for it}, while one job uses all 12 CPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "check", lambda options, partitions: None)  # so that Slurm itself refuses
        failed = submit(programs.exits, memory="100M")
        failed.wait()
        # The three ranks connect through Horovod. Each imports TensorFlow, and the page cache of its files is
        # charged to the first rank that reads them.
        full = [submit(programs.sleeps, 300, nodes=3, memory="1500M", sbatch={"exclusive": True})]
        until("a full cluster", lambda: full[0].status == "running")
        jobs = {
            "JobHeldUser": sleeper(1, sbatch={"hold": True}),
            "Dependency": sleeper(1, sbatch={"dependency": f"afterok:{number(full[0])}"}),
            "DependencyNeverSatisfied": sleeper(1, sbatch={"dependency": f"afterok:{number(failed)}"}),
            "BeginTime": sleeper(1, sbatch={"begin": "now+1hour"}),
            "PartitionTimeLimit": sleeper(1, time="05:00:00"),
            "PartitionConfig": sleeper(1, nodes=40),
            "AssocMaxWallDurationPerJobLimit": sleeper(1, time="00:20:00", sbatch={"account": "limited"}),
            "AssocGrpGRES": sleeper(1, time="00:01:00", gpus_per_rank=2, sbatch={"account": "limited"}),
            "Resources": sleeper(1, sbatch={"exclusive": True}),
            "Priority": sleeper(2, sbatch={"exclusive": True, "nice": 100}),
            "JobHeldAdmin": sleeper(3),
        }
    here.ask("scontrol", "hold", number(jobs["JobHeldAdmin"]))
    yield jobs
    for job in (*jobs.values(), *full):
        job.cancel(wait=False)
    empty(here)


class TestWaiting:
    """Jobs that wait behind one that uses the whole cluster until the end of this class."""

    @pytest.mark.parametrize(
        "reason",
        [
            "Resources", "Priority", "Dependency", "DependencyNeverSatisfied", "BeginTime", "JobHeldUser",
            "JobHeldAdmin", "PartitionTimeLimit", "PartitionConfig", "AssocMaxWallDurationPerJobLimit",
            "AssocGrpGRES",
        ],
    )  # fmt: skip
    def test_the_reason_in_words(self, waiting, reason):
        """Does the status of a pending job give the reason, who can act on it, and whether the job can ever
        run?"""
        job, row = waiting[reason], states.reason(reason)
        seen = []
        until(f"reason {reason}", lambda: seen.append(job.status) or reason in seen[-1].slurm)
        now = seen[-1]
        assert now == "pending" and now.what == row.what and now.row is row and row.shown
        assert now.never == ("never" in row.what or reason == "DependencyNeverSatisfied")
        if now.never:
            with pytest.raises(errors.CanNeverRun, match=reason):
                job.wait(30)
            assert job.status == "pending"  # wait() does not cancel a job that can never run


def test_a_partition_that_is_switched_off(here):
    """If a partition is down or inactive, does a job in its queue report this, and run once the partition is
    up?"""
    try:
        here.ask("scontrol", "update", "PartitionName=long", "State=DOWN")
        job = sleeper(1, partition="long")
        for value, reason in (("DOWN", "PartitionDown"), ("INACTIVE", "PartitionInactive")):
            here.ask("scontrol", "update", "PartitionName=long", f"State={value}")
            until(reason, lambda reason=reason: reason in job.status.slurm)
            assert job.status.what == states.reason(reason).what
    finally:
        here.ask("scontrol", "update", "PartitionName=long", "State=UP")
    assert job.wait(60).status == "done"


def test_a_drained_node_is_waited_for(here):
    node = here.nodes[2]
    here.ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    try:
        job = sleeper(1, sbatch={"nodelist": node})
        until("ReqNodeNotAvail", lambda: "ReqNodeNotAvail" in job.status.slurm)
        assert job.status.row.whose == states.CLUSTER and not job.status.never
    finally:
        here.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert job.wait(60).status == "done"


def test_a_maintenance_is_named(here):
    """If a job's time limit reaches into a maintenance window, does the job report this, and is it considered
    able to run?"""
    options = ("ReservationName=maintenance", "Flags=maint,ignore_jobs", "Users=root", "Nodes=ALL")
    here.ask("scontrol", "create", *options, "StartTime=now+10minutes", "Duration=10")
    try:
        job = sleeper(1, time="00:20:00")
        until("the maintenance", lambda: "maintenance" in job.status.slurm)
        assert "maintenance" in job.status.what and not job.status.never
        job.cancel(wait=False)
    finally:
        here.ask("scontrol", "delete", "ReservationName=maintenance")


def test_a_reservation_is_waited_for(here):
    """Does a job wait for its reservation to begin, and report this?"""
    options = ("ReservationName=class", "Users=root", f"Nodes={here.nodes[0]}")
    here.ask("scontrol", "create", "reservation", *options, "StartTime=now+1hour", "Duration=10")
    job = sleeper(1, time="00:05:00", sbatch={"reservation": "class"})
    try:
        until("Reservation", lambda: "Reservation" in job.status.slurm)
        assert not job.status.never and "to begin" in job.status.what
    finally:
        job.cancel()  # a reservation with pending jobs cannot be deleted
        until("an unused reservation", lambda: not here.ask("squeue", "-h", "-j", number(job), "-t", "PD"))
        here.ask("scontrol", "delete", "ReservationName=class")


def test_a_job_in_two_partitions_is_not_given_up_for_one(here):
    """If one partition's time limit is too short and the other partition is down, is the job still considered
    able to run?"""
    try:
        here.ask("scontrol", "update", "PartitionName=long", "State=DOWN")
        job = sleeper(1, partition="short,long", time="01:00:00")
        until("a reason", lambda: "Partition" in job.status.slurm)
        assert not job.status.never
    finally:
        here.ask("scontrol", "update", "PartitionName=long", "State=UP")
    assert job.wait(60).status == "done"


def test_a_job_runs_and_is_done(here, tmp_path):
    job, seen = submit(sweeps.waits, 1, place=str(tmp_path), memory="100M"), []
    until("RUNNING", lambda: seen.append(job.status) or seen[-1].slurm == "RUNNING")
    assert seen[-1].what == states.state("RUNNING").what
    (tmp_path / "go").touch()
    assert job.wait().status == "done" and job.error() is None


def test_a_suspended_job_is_not_over(here):
    job = sleeper(300)
    until("its start", lambda: "asleep" in job.logs(0) and job.status.slurm == "RUNNING")
    here.ask("scontrol", "suspend", number(job))
    until("SUSPENDED", lambda: job.status.slurm == "SUSPENDED")
    assert job.status == "running" and "is suspended" in job.status.what
    here.ask("scontrol", "resume", number(job))
    assert job.cancel().wait().status == "cancelled"


@pytest.fixture(scope="module")
def ended(here):
    """Yield {state: a job that ended in this state}; the jobs run concurrently on the three nodes."""
    first, second, third = here.nodes
    jobs = {
        "NODE_FAIL": sleeper(300, sbatch={"nodelist": third}),
        "PREEMPTED": sleeper(300, partition="long", sbatch={"nodelist": second, "exclusive": True}),
        "CANCELLED": sleeper(300, sbatch={"nodelist": first}),
        "OUT_OF_MEMORY": submit(programs.takes, 400, memory="100M", sbatch={"nodelist": first}),
        "FAILED": submit(programs.exits, memory="200M"),
    }
    for name in ("NODE_FAIL", "PREEMPTED", "CANCELLED"):
        until(f"the start of {name}", lambda job=jobs[name]: "asleep" in job.logs(0))
    here.kill(third)
    here.ask("scancel", number(jobs["CANCELLED"]))
    first_in_line = sleeper(1, partition="short", sbatch={"nodelist": second, "exclusive": True})
    yield jobs
    first_in_line.wait(60)
    here.start()  # repairs the node


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ("FAILED", errors.RankFailed, "SystemExit on rank 0: 7"),
        ("CANCELLED", errors.Cancelled, "was cancelled"),
        ("OUT_OF_MEMORY", errors.OutOfMemory, "more than the 100 MiB it had"),
        ("PREEMPTED", errors.Preempted, "was preempted"),
        ("NODE_FAIL", errors.NodeFailed, "node of the job failed"),
    ],
)
def test_the_ending_in_words(ended, here, state, error, message):
    """Does `result()` raise the error of the job's ending? Does Slurm's accounting contain the expected
    state?"""
    job = ended[state]
    with pytest.raises(error, match=message):
        job.wait(90).result()
    assert type(job.error()) is error and job.status.next_step
    fields = ("sacct", "-n", "-P", "-D", "-j", number(job), "--format=State")  # the job and its steps
    until("the accounting", lambda: state in re.split(r"\W+", here.ask(*fields)))


def test_another_process_takes_the_job_up(here, tmp_path):
    """Can another process attach to a job, as after a kernel's restart, and wait for it to be done?"""
    job = sleeper(3)
    code = f"from cluster import attach; j = attach({job.id!r}); print(j.wait(60, progress=False).status)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=90
    )
    assert output.stdout.strip() == "done", output.stderr
    assert attach(job.id).status == "done"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "05:00:00"}, r"time='05:00:00', but partition 'short' allows 00:30:00"),
        ({"nodes": 40}, r"nodes=40, but partition 'short' has 3"),
        ({"cpus_per_rank": 3, "ranks_per_node": 2}, r"cpus_per_rank=3 for 2 ranks per node needs 6 .* 4"),
        ({"memory": "99G"}, r"needs 101376 MiB of memory on a node, and partition 'short' has at most 8192"),
        ({"gpus_per_rank": 5}, r"gpus_per_rank=5 needs 5 GPUs on a node, .* at most 2"),
    ],
)
def test_what_can_never_run_is_found_before_submission(here, options, message):
    queued = ("squeue", "-h", "-t", "PENDING", "-o", "%i")
    before = here.ask(*queued)
    with pytest.raises(errors.CanNeverRun, match=message) as caught:
        submit(programs.sleeps, 1, **options)
    assert here.ask(*queued) == before
    if "time" in options:
        assert "partition='long'" in caught.value.next_step


def test_one_question_at_a_time_however_many_are_watched(here, monkeypatch):
    """If twenty jobs are queried repeatedly, is Slurm asked at most once per second, as for a single job?"""
    jobs = [sleeper(300, sbatch={"hold": True}) for _ in range(20)]
    try:
        monkeypatch.setattr(client, "FRESH", 1.0)
        for watched in (jobs[:1], jobs):
            client._answers.clear()
            before, start = client.calls.total(), time.monotonic()
            while client.calls.total() - before < 3:
                assert all(job.status == "pending" for job in watched)
            assert client.calls.total() - before <= 1 + (time.monotonic() - start) / client.FRESH
    finally:
        for job in jobs:
            job.cancel(wait=False)


def test_every_row_is_shown_or_says_why_not():
    """Does each of Slurm's states and reasons in the table name an existing test, or say why there is none?
    Does STATES.md equal the table?"""
    folder = Path(__file__).parent
    for row in states.STATES + states.REASONS:
        file, _, name = row.shown.rpartition("::")
        assert bool(row.shown) != bool(row.unseen), f"{row.name}: shown or unseen, one of them"
        if row.shown:
            text = (folder / (file or "test_jobs_states.py")).read_text()
            assert f"def {name}(" in text, f"{row.name} points to {row.shown}, which is not there"
    assert Path(states.__file__).with_name("STATES.md").read_text() == states.markdown()
