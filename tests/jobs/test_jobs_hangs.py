"""Does a job whose ranks part say which rank waits where, and for which?"""

import time

import pytest

from cluster.jobs import errors, submit
from cluster.jobs.rank import stacks
from cluster.jobs.state import endings, status
from cluster.system import files
from cluster.training import checkpoint

from . import hangs, texts

pytestmark = pytest.mark.ranks


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)
    return found


def test_ranks_that_wait_for_each_other_are_named_while_they_run_and_at_the_limit(runs, monkeypatch):
    """Does the job say where each rank stands, and not ask for more time?"""
    monkeypatch.setattr("cluster.jobs.state.waiting.SHOWN_AFTER", 10.0)
    job = submit(hangs.one_sleeps, ranks_per_node=2, time="00:01:20")
    what = wait_until(lambda: job.status.what if "No progress of ranks 0, 1" in job.status.what else "")
    assert "in one_sleeps" in what and "allreduce" in what
    assert "No progress of ranks 0, 1" in job._repr_html_()
    text = job.stacks()
    assert "--- rank 0" in text and "one_sleeps" in text and "_reduce" in text
    error = job.wait().error()
    assert isinstance(error, errors.OutOfTime)
    assert "No rank was computing" in error.what and "Rank 1 waited for" in error.what
    assert "allreduce" in error.what and "More time would not help" in error.next_step
    assert "one_sleeps" in job.stacks(0)


def test_a_rank_that_returned_before_the_others_is_named(runs):
    """Does the error of the ranks that still wait say that another one has returned?"""
    error = submit(hangs.one_returns, ranks_per_node=2, time="00:02:00").wait().error()
    assert isinstance(error, errors.RankFailed)
    assert "Rank 0 returned after" in error.what and "rank 1 still called a collective" in error.what
    assert "same number of batches" in error.next_step


def test_a_job_that_computes_is_told_to_ask_for_more_time():
    """Is more time the advice where ranks were computing, and where one rank has nobody to wait for?"""
    records = [{"rank": r, "started": 0.0, "exit_code": None} for r in range(2)]
    run = texts.run() | {"options": {"time": 60, "memory": 1}}
    end = endings.decide(run, records, {}, stopped="OutOfTime")
    assert "Ask for more" in end["next_step"] and "waited" not in end["what"]


@pytest.mark.parametrize(
    "frames, text",
    [
        ([("{tf}/execute.py", 5, "execute"), ("{keras}/trainer.py", 9, "fit"), ("/a/b.py", 14, "train")],
         "`fit` (line 14 of your cell, in train)"),
        ([("/a/ipykernel_7/1.py", 3, "main")], "line 3 of your cell, in main"),
        ([("{tf}/execute.py", 53, "quick_execute")], "code of a library"),
    ],
)  # fmt: skip
def test_where_a_rank_stands(frames, text):
    """Is a stack summed up by the student's own line, and the call it makes there?"""
    import keras
    import tensorflow as tf

    places = {"tf": tf.__path__[0], "keras": keras.__path__[0]}
    lines = [f'  File "{file.format(**places)}", line {n} in {name}' for file, n, name in frames]
    dump = 'Thread 0x2 (most recent call first):\n  File "x", line 1 in other\n\n'
    assert stacks.summary(dump + "Current thread 0x1 (most recent call first):\n" + "\n".join(lines)) == text


@pytest.mark.parametrize(("requeue", "step"), [(True, "Submit the same call again"), (False, "requeue=True")])
def test_a_job_that_timed_out_after_a_checkpoint_says_where_it_resumes(tmp_path, requeue, step):
    """Does the next step name the epoch at which the run would continue?"""
    run = texts.run(ranks=1) | {"options": {"time": 60, "memory": 1, "requeue": requeue}}
    files.write_json(tmp_path / "run.json", run)
    files.write_json(tmp_path / "rank-0.json", {"rank": 0, "started": 0.0})
    checkpoint.write_checkpoint(tmp_path / "model.state.npz", {"epoch": 6, "done": 0})
    end = status.write_end(tmp_path, "OutOfTime")
    assert step in end["next_step"] and end["next_step"].endswith("it resumes at epoch 7.")
