"""Each of Slurm's states and reasons for pending, produced on a real Slurm, and described as text.

The jobs of a module's fixture run concurrently, so the tests take as long as the slowest job.
"""

import contextlib
import itertools
import re
import time
from pathlib import Path

import pytest

from cluster.jobs import errors, submit
from cluster.slurm import client, limits, states
from cluster.system import files

from . import programs

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


NUMBERS = itertools.count()


def sleeper(seconds, **options):
    """Submit a job with a unique cache key."""
    return submit(programs.sleeps, seconds + next(NUMBERS) / 1000, memory="100M", **options)


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
        assert now == "pending" and now.what == row.what and now.row is row
        assert now.never == ("never" in row.what or reason == "DependencyNeverSatisfied")
        if now.never:
            with pytest.raises(errors.CanNeverRun, match=reason):
                job.wait(30)
            assert job.status == "pending"  # wait() does not cancel a job that can never run


def blocked(node):
    """Return {reason: (change of the cluster by scontrol, its reversal, options of a job that waits)}.

    A change after `;` is made after the submission, because sbatch refuses an inactive partition.
    """
    up, down, window = "update PartitionName=long State=UP", "update PartitionName=long State=", "Duration=10"
    maintenance = f"create ReservationName=a Flags=maint,ignore_jobs Users=root Nodes=ALL {window}"
    reservation = f"create reservation ReservationName=a Users=root Nodes={node} {window}"
    return {
        "PartitionDown": (f"{down}DOWN", up, {"partition": "long"}),
        "PartitionInactive": (f"{down}DOWN; {down}INACTIVE", up, {"partition": "long"}),
        "ReqNodeNotAvail": (f"update NodeName={node} State=DRAIN Reason=test",
            f"update NodeName={node} State=RESUME", {"sbatch": {"nodelist": node}}),
        "ReqNodeNotAvail*Reserved for maintenance": (f"{maintenance} StartTime=now+10minutes",
            "delete ReservationName=a", {"time": "00:20:00"}),
        "Reservation": (f"{reservation} StartTime=now+1hour",
            "delete ReservationName=a", {"time": "00:05:00", "sbatch": {"reservation": "a"}}),
    }  # fmt: skip


@pytest.mark.parametrize("name", blocked(""))
def test_what_may_pass_is_named_and_waited_for(here, name):
    """Does a job that waits for its partition, nodes or reservation report this, and is it considered able to
    run? If its time limit reaches into a maintenance, does it report that?"""
    change, undo, options = blocked(here.nodes[2])[name]
    change, _, later = change.partition("; ")
    row = next(row for row in states.REASONS if row.name == name)
    with contextlib.ExitStack() as cleanup:
        here.ask("scontrol", *change.split())
        cleanup.callback(here.ask, "scontrol", *undo.split())
        job = sleeper(1, **options)
        cleanup.callback(empty, here)  # a reservation with pending jobs cannot be deleted
        cleanup.callback(job.cancel)
        if later:
            here.ask("scontrol", *later.split())
        until(name, lambda: job.status.row is row)
        assert job.status == "pending" and job.status.what == row.what and not job.status.never


def test_a_job_in_two_partitions_is_not_given_up_for_one(here):
    """If one partition's time limit is too short and the other partition is down, is the job still considered
    able to run, and does it run once that partition is up?"""
    try:
        here.ask("scontrol", "update", "PartitionName=long", "State=DOWN")
        job = sleeper(1, partition="short,long", time="01:00:00")
        until("a reason", lambda: "Partition" in job.status.slurm)
        assert not job.status.never
    finally:
        here.ask("scontrol", "update", "PartitionName=long", "State=UP")
    assert job.wait(60).status == "done"


def test_a_suspended_job_is_not_over(here):
    job = sleeper(300)
    until("its start", lambda: "asleep" in job.logs(0) and job.status.slurm == "RUNNING")
    here.ask("scontrol", "suspend", number(job))
    until("SUSPENDED", lambda: job.status.slurm == "SUSPENDED")
    assert job.status == "running" and job.status.what == states.state("SUSPENDED").what
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
    ("state", "error", "value"),
    [
        ("FAILED", errors.RankFailed, "7"),
        ("CANCELLED", errors.Cancelled, None),
        ("OUT_OF_MEMORY", errors.OutOfMemory, "100 MiB"),
        ("PREEMPTED", errors.Preempted, None),
        ("NODE_FAIL", errors.NodeFailed, None),
    ],
)
def test_the_ending_in_words(ended, here, state, error, value):
    """Does `result()` raise the error of the job's ending? Does Slurm's accounting contain the expected
    state?"""
    job = ended[state]
    with pytest.raises(error, match=value):
        job.wait(90).result()
    assert type(job.error()) is error and job.status.next_step
    fields = ("sacct", "-n", "-P", "-D", "-j", number(job), "--format=State")  # the job and its steps
    until("the accounting", lambda: state in re.split(r"\W+", here.ask(*fields)))


@pytest.mark.parametrize(
    ("options", "requested", "there"),
    [
        ({"time": "05:00:00"}, "time='05:00:00'", "00:30:00"),
        ({"nodes": 40}, "nodes=40", "3"),
        ({"cpus_per_rank": 3, "ranks_per_node": 2}, "cpus_per_rank=3", "4"),
        ({"memory": "99G"}, "101376", "8192"),
        ({"gpus_per_rank": 5}, "gpus_per_rank=5", "2"),
    ],
)
def test_what_can_never_run_is_found_before_submission(here, options, requested, there):
    queued = ("squeue", "-h", "-t", "PENDING", "-o", "%i")
    before = here.ask(*queued)
    with pytest.raises(errors.CanNeverRun, match=rf"{requested}.*'short' .*\b{there}\b"):
        submit(programs.sleeps, 1, **options)
    assert here.ask(*queued) == before


def test_the_page_is_generated_from_the_table():
    assert Path(states.__file__).with_name("STATES.md").read_text() == states.markdown()
