"""Interrupted runs that resume: what they keep, which results are equal, and which runs start from
scratch."""

import os
import signal
import subprocess

import numpy as np
import pytest

from cluster.jobs import attach, errors, metrics, submit
from cluster.jobs.rank import on_restart
from cluster.jobs.run import attempts
from cluster.jobs.run.run_folder import Run
from cluster.system import files

from . import interrupted, programs, until

STEPS, AT = 10, 5  # saved after step 3, so steps 4 and 5 are computed twice


def stopped(job):
    until(lambda: (job.folder / "stopped").exists())
    return job


def interrupt(job):
    """Interrupt a job from outside: kill its local launcher, or requeue it on Slurm."""
    backend = files.read_json(job.folder / "backend.json")
    if job.backend == "local":
        os.kill(backend["pid"], signal.SIGKILL)
        job.wait(30)
    else:
        subprocess.run(["scontrol", "requeue", backend["job_id"]], check=True)
        until(lambda: "attempt 2" in job.status.what)
        assert job.status == "pending"


def test_an_interrupted_run_resumes(backend):
    """If an interrupted run is submitted again, does it resume and give the same curve as an uninterrupted
    run?"""
    job = stopped(submit(interrupted.walks, STEPS, at=AT, requeue=True))
    interrupt(job)
    again = submit(interrupted.walks, STEPS, at=AT, requeue=True)
    assert again.folder == job.folder
    sums = [0.0, *np.cumsum(np.random.default_rng(1).random(STEPS))]
    assert again.wait().result() == sums == job.result()
    frame = again.metrics()
    assert frame.step.tolist() == list(range(1, STEPS + 1)) and frame.total.tolist() == sums[1:]
    assert frame.attempt.tolist() == [1] * 3 + [2] * 7
    assert again.metrics(superseded=True).step.tolist() == [1, 2, 3, 4, 5, *range(4, STEPS + 1)]
    assert frame.time.iloc[0] >= 0 and frame.time.is_monotonic_increasing
    assert "--- attempt 2 on " in again.logs(0)
    first, second = again.folder / "attempts/1/rank-0.json", again.folder / "rank-0.json"
    assert "attempt" not in files.read_json(first) and files.read_json(second)["attempt"] == 2
    assert submit(interrupted.walks, STEPS, at=AT).result() == sums  # requeue is not part of the cache key


def test_an_error_of_its_own_is_never_gone_on_from(backend, tmp_path):
    said = tmp_path / "said"
    for _ in range(2):
        job = submit(interrupted.raises_after, str(said), requeue=True)
        with pytest.raises(errors.RankFailed, match="of its own"):
            job.result()
    assert said.read_text() == "None\nNone\n"
    assert attach(f"{job.id}.1").status == "failed" and not (job.folder / "attempts").exists()


def test_a_cancelled_run_goes_on_or_begins_anew_as_asked(runs):
    job = stopped(submit(interrupted.walks, STEPS, at=AT))
    job.cancel()
    assert submit(interrupted.walks, STEPS, at=AT, requeue=True).wait().status == "done"
    # the handle refers to the resumed run
    assert job.status == "done" and (job.folder / "attempts/1/end.json").exists()
    other = stopped(submit(interrupted.walks, STEPS, at=AT + 1))
    other.cancel()
    anew = stopped(submit(interrupted.walks, STEPS, at=AT + 1, requeue=True, rerun=True))
    assert other.id == f"{anew.id}.1" and anew.spec["attempt"] == 1
    anew.cancel()


def test_superseded_ranks_end_and_stop_writing(runs):
    """If the next attempt has begun elsewhere, do the ranks of the previous attempt end without writing? This
    happens if Slurm restarts a job because it has lost contact with the job's node."""
    job = stopped(submit(interrupted.walks, STEPS, at=AT))
    attempts.keep(Run(job.folder), 1)
    job.wait(30)
    assert not (job.folder / "rank-0.json").exists()
    assert "ended" not in files.read_json(job.folder / "attempts/1/rank-0.json")


def test_clearing_for_the_next_attempt_keeps_everything(tmp_path):
    for name in ("rank-0.json", "error-1.json", "result-0.npz", "end.json", "model.keras", "out-0.log"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "metrics-0.jsonl").write_text('{"step": 1}\n{"ste')
    attempts.keep(Run(tmp_path), 1, tmp_path / "end.json")
    history = sorted(p.name for p in (tmp_path / "attempts/1").iterdir())
    assert history == ["end.json", "error-1.json", "rank-0.json", "result-0.npz"]
    assert (tmp_path / "metrics-0.jsonl").read_text() == '{"step": 1}\n'
    left = {"attempts", "job.log", "metrics-0.jsonl", "model.keras", "out-0.log"}
    assert {p.name for p in tmp_path.iterdir()} == left


def test_slurm_starts_a_job_a_limited_number_of_times(runs, monkeypatch, capsys):
    """Is a job that Slurm restarts stopped after a limited number of attempts, and at once if it was
    cancelled?"""
    job = submit(interrupted.walks, 1).wait()
    run = job.folder / "end.json"
    run.unlink()
    monkeypatch.setenv("CLUSTER_ATTEMPT", "2")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert on_restart.main(job.folder) == 0 and (job.folder / "attempts/1/rank-0.json").exists()
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(attempts.LIMIT))
    assert on_restart.main(job.folder) == 1 and str(attempts.LIMIT) in capsys.readouterr().out
    assert job.status.ended
    (job.folder / "cancel.json").write_text("{}")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert on_restart.main(job.folder) == 1


def row(time, attempt=1, rank=0, **values):
    return {"rank": rank, "time": time} | ({"attempt": attempt} if attempt > 1 else {}) | values


def test_rows_computed_again_are_left_out():
    """If a later attempt computed rows again, are the earlier rows omitted?

    In this example, rank 0 resumes at step 2 in the second attempt, but rank 1 does not log anything there.
    In the third attempt, rank 0 resumes at step 3 and rank 1 at step 2.
    """
    first = [row(1, step=1), row(2, step=2), row(3, epoch=1), row(4, rank=1, step=1), row(5, rank=1, step=2)]
    again = [row(6, 2, step=2), row(7, 2, step=3)]
    assert metrics.whole(first) == first
    assert [r["time"] for r in metrics.whole(first + again)] == [1, 4, 5, 6, 7]
    third = [row(8, 3, step=3), row(9, 3, rank=1, step=2)]
    assert [r["time"] for r in metrics.whole(first + again + third)] == [1, 4, 6, 8, 9]
    assert [r["time"] for r in metrics.whole([row(1, epoch=1), row(2, epoch=2), row(3, 2, epoch=2)])] == [
        1,
        3,
    ]
    assert [r["time"] for r in metrics.whole([row(1, loss=3.0), row(2, 2, loss=3.0)])] == [2]


CURVES = ["rank", "step", "loss", "accuracy", "epoch", "epoch_loss", "epoch_val_loss", "epoch_val_accuracy"]


def curves(job):
    """Return the rows of each rank separately, because two ranks may write them in any order."""
    frame = job.metrics()[CURVES]
    return [frame[frame["rank"] == r].reset_index(drop=True) for r in range(job.ranks)]


def assert_equal(interrupted_run, whole_run):
    """Verify that an interrupted run equals an uninterrupted one in weights, optimizer, history and metrics,
    to the last bit."""
    assert interrupted_run.results() == whole_run.results()
    assert files.read_json(interrupted_run.folder / "rank-0.json")["attempt"] == 2
    for got, expected in zip(curves(interrupted_run), curves(whole_run), strict=True):
        assert got.equals(expected) and len(got) == got.step.max() + interrupted.EPOCHS


@pytest.mark.ranks
def test_resumed_training_is_equal_to_the_last_bit(runs, warm_ranks):
    """If training is interrupted at step 4 of 10 of the second epoch, does the resumed run give the result of
    an uninterrupted run, to the last bit?"""
    whole = submit(interrupted.trains, ranks_per_node=2)
    job = stopped(submit(interrupted.trains, at=14, ranks_per_node=2, requeue=True))
    interrupt(job)
    again = submit(interrupted.trains, at=14, ranks_per_node=2, requeue=True)
    assert_equal(again.wait(), whole.wait())


@pytest.mark.ranks
@pytest.mark.slurm
def test_preempted_training_and_training_on_a_failed_node_resume_exactly(own, tmp_path, monkeypatch):
    """Do training runs resume exactly if a job in `short` preempts them or a node fails?

    Both runs repeat their second epoch, of 10 steps on the preempted nodes and 20 on the failed one.
    """
    own.enter(monkeypatch)
    first, second, _ = own.nodes
    options = {"folder": tmp_path / "runs", "backend": "slurm", "partition": "long", "requeue": True}
    nodes = {"nodelist": f"{first},{second}", "exclusive": True}  # so that the other job gets the third node
    two = submit(interrupted.trains, at=11, nodes=2, sbatch=nodes, **options)
    until(lambda: two.status == "running")
    one = submit(interrupted.trains, at=25, **options)
    whole = [submit(interrupted.trains, nodes=n, backend="local", folder=tmp_path / "whole") for n in (2, 1)]
    stopped(two), stopped(one)
    dead = files.read_json(one.folder / "rank-0.json")["host"]
    own.kill(dead)
    try:
        urgent = submit(
            programs.sleeps, 1, cpus_per_rank=4, partition="short", sbatch={"nodelist": first},
            backend="slurm", folder=tmp_path / "runs",
        )  # fmt: skip
        until(lambda: "preempted" in two.status.what)
        assert two.status == "pending" and "attempt 2" in two.status.what
        assert urgent.wait().status == "done"
        for job, expected in zip((two, one), whole, strict=True):
            assert_equal(job.wait(), expected)
        assert files.read_json(one.folder / "rank-0.json")["host"] != dead
    finally:
        own.start()
