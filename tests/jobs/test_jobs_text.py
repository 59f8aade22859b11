"""Batch scripts compared with golden files, Slurm's notations, positions of ranks, and endings of jobs."""

import shlex
import signal
from pathlib import Path

import pytest

from cluster.jobs.backends import batch_script
from cluster.jobs.errors import ENDINGS
from cluster.jobs.rank import rendezvous
from cluster.jobs.run import endings
from cluster.slurm import states, words

from .texts import GOLDEN, run

CASES = {
    "one_rank": run(ranks=1),
    "requeue": run(ranks=1, requeue=True),
    "gloo_two_nodes": run(nodes=2, cpus_per_rank=4, partition="short", time=93784),
    "mpi_gpus": run(
        controller="mpi", nodes=2, ranks_per_node=2, gpus_per_rank=1, sbatch={"account": "course"}
    ),
    "hostile": run(
        name="a b; $(rm -rf ~)'\"",
        env=["SECRET", "OMP_NUM_THREADS"],
        partition="x' $(id)",
        sbatch={"comment": 'it\'s "q" $(id)', "exclusive": None},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_batch_script_is_the_golden_one(case):
    """Does the batch script equal its golden file? Such scripts run on clusters, so review any difference
    before updating the file."""
    folder = Path("/home/a student/runs/it's $(here)/train-0123456789ab")
    text = batch_script.script(CASES[case], folder, python="/opt/course env/bin/python")
    assert text == (GOLDEN / f"{case}.sh").read_text()


def test_every_line_of_a_hostile_script_is_quoted():
    """If a shell reads a script with hostile strings, is each string preserved as one word?"""
    folder = Path("/runs/it's $(here)/`x`")
    text = batch_script.script(CASES["hostile"], folder)
    tokens = shlex.split(text, comments=False)
    assert tokens.count(str(folder)) == 2
    assert "#SBATCH" in tokens and "--partition=x' $(id)" in tokens and '--comment=it\'s "q" $(id)' in tokens
    assert "--job-name=a-b-rm-rf" in tokens


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("0:30", 0.5), ("30:00", 30), ("02:00:00", 120), ("2-12", 3600), ("2-12:30", 3630),
     ("1-00:00:30", 1440.5), ("infinite", float("inf")), ("UNLIMITED", float("inf")), ("n/a", float("inf"))],
)  # fmt: skip
def test_a_time_limit_in_each_of_slurms_forms(text, minutes):
    """Are time limits read in each form that sbatch's manual lists for --time, and in those that sinfo
    prints?"""
    assert words.seconds(text) == 60 * minutes


@pytest.mark.parametrize("text", ["", "90", "1:30", "00:60:00", "1-12", "-1:00:00", "1:00:00h", "١:00:00"])
def test_a_job_gives_its_time_in_hours_minutes_and_seconds(text):
    assert words.unclock(text) == 0
    assert words.unclock(words.clock(93_784)) == 93_784 == ((26 * 60) + 3) * 60 + 4


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        *[(words.gpus, "gpu:2", 2), (words.gpus, "gpu:a100:4(S:0-1)", 4), (words.gpus, "gpu:a:1,gpu:b:2", 3)],
        *[(words.gpus, "(null)", 0), (words.gpus, "tmp:9", 0)],
        *[
            (words.expand, "2", (2,)),
            (words.expand, "2(x3),1", (2, 2, 2, 1)),
            (words.expand, "1,3(x2)", (1, 3, 3)),
        ],
    ],
)
def test_gpus_and_tasks_in_slurms_short_forms(read, text, value):
    assert read(text) == value


def test_places_on_an_uneven_layout():
    """With two ranks on node 0 and one on node 1, do Horovod's variables have the values computed by hand?"""
    places = [rendezvous.Position(r, (2, 1), "x").horovod() for r in range(3)]
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOSTNAME")
    assert [[p[f"HOROVOD_{n}"] for n in names] for p in places] == [
        ["0", "3", "0", "2", "0", "2", "node0"],
        ["1", "3", "1", "2", "0", "1", "node0"],
        ["2", "3", "0", "1", "1", "2", "node1"],
    ]


def test_the_place_comes_from_who_started_the_rank():
    of_slurm = dict(SLURM_PROCID="2", SLURM_STEP_TASKS_PER_NODE="2,1", SLURM_JOB_ID="7")
    assert rendezvous.position(of_slurm | {"CLUSTER_LAUNCHER": "slurm"}).node == 1
    mpi = dict(CLUSTER_LAUNCHER="mpirun", OMPI_COMM_WORLD_RANK="1", CLUSTER_LAYOUT="2")
    assert rendezvous.position(of_slurm | mpi).local_rank == 1  # variables of an outer Slurm job are ignored


def ended(rank, code, at=1.0):
    return {"rank": rank, "exit_code": code, "ended": at}


def raised(kind="ValueError", message="bad", at=1.0):
    return {"type": kind, "message": message, "traceback": "Traceback ...", "time": at}


def test_the_rank_that_failed_first_is_named_not_those_it_took_along():
    lost_peer = raised("HorovodInternalError", "Connection reset by peer", at=0.5)
    end = endings.decide(run(), [ended(0, 1), ended(1, 1)], {0: lost_peer, 1: raised(at=2.0)})
    assert (end["ending"], end["rank"]) == ("RankFailed", 1) and "bad" in end["what"]
    end = endings.decide(run(), [ended(0, -signal.SIGTERM), ended(1, -signal.SIGKILL, at=9.0)], {})
    assert end["ending"] == "RankKilled" and "Rank 1" in end["what"] and "SIGKILL" in end["what"]


@pytest.mark.parametrize(
    ("log", "ending"),
    [
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
            "OutOfTime",
        ),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0", "OutOfMemory"),
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
            "Preempted",
        ),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "Cancelled"),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "RankFailed"),
        ("", "RankFailed"),
    ],
)
def test_what_slurm_wrote_into_the_log_decides(log, ending):
    """Do Slurm's messages in the log decide how a job ended? Slurm also cancels a step if a rank fails, so
    only the cancellation of a whole job counts."""
    assert endings.decide(run(), [ended(0, -15), ended(1, 3)], {}, log=log)["ending"] == ending


@pytest.mark.parametrize(
    ("codes", "errors", "ending"),
    [
        ((1, -15), {0: raised(at=2.0)}, "RankFailed"),
        ((1, -15), {0: raised(at=4.0)}, "Cancelled"),
        ((1, -15), {0: raised("HorovodInternalError", at=2.0)}, "Cancelled"),
        ((0, 0), {}, "Done"),
    ],
)
def test_an_error_before_the_cancellation_at_3_s_is_the_ending(codes, errors, ending):
    """Does an error of a rank's own before the cancellation count, and is a job whose ranks are done done?"""
    ranks = [ended(rank, code) for rank, code in enumerate(codes)]
    end = endings.decide(run(), ranks, errors, stopped="Cancelled", cancelled_at=3.0)
    assert end["ending"] == ending


@pytest.mark.parametrize(
    ("ranks", "log", "value"),
    [
        ([], "srun: not found", "srun: not found"),
        ([ended(0, 0)], "", "Rank 1"),
        ([ended(0, 0), {"rank": 1}], "", "1"),
    ],
)
def test_no_rank_or_too_few_ranks_is_a_failed_launch(ranks, log, value):
    end = endings.decide(run(), ranks, {}, log=log)
    assert end["ending"] in ("LaunchFailed", "RankKilled") and value in end["what"]


@pytest.mark.parametrize("name", ENDINGS)
def test_every_ending_becomes_its_class(name):
    error = endings.error_of({"ending": name, "what": "w", "next_step": "n", "traceback": "t", "rank": 1})
    assert type(error) is ENDINGS[name] and str(error) == "w\nt\n→ n"


def test_every_ending_of_slurm_is_a_class_with_words():
    named = {row.ending for row in states.STATES if row.ending}
    assert named <= set(ENDINGS) and all(endings.words(name, run())[0] for name in named)
