"""If a job's ranks diverge, the job reports each waiting rank, its location and the rank it waits for."""

import html
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from cluster import jobs
from cluster.jobs import errors, submit
from cluster.jobs.backends import forked_ranks
from cluster.jobs.rank import main as rank_main
from cluster.jobs.rank import stacks
from cluster.jobs.run import endings, status, waiting
from cluster.jobs.run.run_folder import Run
from cluster.system import files
from cluster.training import checkpoint

from .. import ALL
from . import hangs, texts, until

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Fork ranks from a process that has already imported TensorFlow, which saves time for each rank."""
    with forked_ranks.offered(forked_ranks.LIBRARIES):
        yield


# Rank 1 waits for rank 0, which is idle in its own code.
SLEEPS = re.compile(
    r"Rank 1 .* \d+ s .* rank 0 in `allreduce`.* Rank 0 .* idle .* \d+ s at line \d+ of hangs.py, in one_sl"
)


def stuck(job, monkeypatch, table=False):
    """Wait until the job's status names both ranks, then cancel the job. Return the status's text, the job's
    error, and the error that the job would have at its time limit.

    table: whether the table of `jobs()` must show the text, too.
    """
    monkeypatch.setattr("cluster.jobs.run.waiting.SHOWN_AFTER", 0.0)
    what = until(lambda: s.what if (s := job.status).what.count("has ") == 2 or s.ended else "")
    waits = re.compile(re.sub(r"\d+\\ s", r"\\d+ s", re.escape(what)))
    card = html.unescape(job._repr_html_())
    assert waits.search(card) and "job.stacks()" in card and "validation_data" in card
    assert not table or waits.search(html.unescape(jobs(active=True)._repr_html_()))
    job.cancel()
    cancelled = job.wait().error()
    late = Path(shutil.copytree(job.folder, job.folder.with_name("late")))
    (late / "end.json").unlink()
    (late / "cancel.json").unlink()
    return what, cancelled, endings.error_of(status.write_end(Run(late), "OutOfTime"))


def test_unequal_numbers_of_batches(runs, monkeypatch):
    """If ranks have different numbers of batches, does each message name both ranks, their lines and the
    ranks they wait for, and not suggest requesting more time?"""
    job = submit(hangs.unequal_batches, ranks_per_node=2)
    for text in stuck(job, monkeypatch):
        text = str(text)
        assert re.search(r"Rank 0 .* \d+ s .* rank 1 .*`fit` \(line \d+ of hangs.py", text)
        assert re.search(r"Rank 1 .* \d+ s .* rank 0 .*`allreduce` \(line \d+ of hangs.py", text)
        assert "Request more" not in text
    assert "validation_data" in text  # in the next step


def test_a_rank_that_sleeps_is_waited_for(runs, monkeypatch):
    """If one rank sleeps, is it reported as the rank that the other one waits for?"""
    job = submit(hangs.one_sleeps, ranks_per_node=2)
    text = until(lambda: job.stacks() if "one_sleeps" in job.stacks(0) else "")
    assert "--- rank 0" in text and "--- rank 1" in text
    what, *ended = stuck(job, monkeypatch)
    assert SLEEPS.search(what) and all(SLEEPS.search(e.what) for e in ended)
    assert [type(e) for e in ended] == [errors.Cancelled, errors.OutOfTime]
    assert "one_sleeps" in job.stacks(0)


def test_ranks_outside_collectives_are_not_told_to_call_them(runs, monkeypatch):
    """If both ranks wait for a queue, do the messages name the line, and not collectives, as the cause?"""
    monkeypatch.setattr("cluster.jobs.run.waiting.SHOWN_AFTER", 0.0)
    job = submit(hangs.queue_without_its_thread, ranks_per_node=2)
    now = until(lambda: s if "Ranks 0 and 1" in (s := job.status).what or s.ended else None)
    assert re.search(r"Ranks 0 and 1 .* line \d+ of hangs.py, in queue_without_its_thread", now.what)
    error = job.cancel().wait().error()
    for step in (now.next_step, error.next_step):
        assert waiting.OWN_CODE in step and waiting.UNEQUAL not in step


def test_a_blocked_generator_is_named_and_a_stopped_rank_does_not_answer(runs, monkeypatch):
    """If a rank is blocked in a generator that `fit` reads, is the generator's line named? Is a process that
    a signal has stopped reported as stopped, by `stacks()` too?"""
    monkeypatch.setattr("cluster.jobs.run.waiting.SHOWN_AFTER", 0.0)
    monkeypatch.setattr("cluster.jobs.job.STACKS", 3.0)
    job = submit(hangs.generator_and_stopped, ranks_per_node=2)
    now = until(lambda: s if {"idle", "stopped"} <= {*(s := job.status).what.split()} or s.ended else None)
    assert re.search(r"Rank 0 .* idle .* line \d+ of hangs.py, in batches", now.what)
    pid = files.read_json(job.folder / "location-1.json")["stopped"]
    assert f"kill -CONT {pid}" in now.next_step and waiting.UNEQUAL not in now.next_step
    text = job.stacks()
    assert f"{pid} is stopped" in text.partition("--- rank 1")[2] and "in batches" in text
    assert "cluster/jobs/" not in text and "runpy" not in text
    job.cancel()


@pytest.mark.parametrize(
    ("places", "advice"),
    [
        ({0: "waits", 1: "waits"}, [waiting.UNEQUAL]),
        ({0: "waits", 1: "idle"}, [waiting.OWN_CODE, waiting.UNEQUAL]),
        ({0: "idle", 1: "idle"}, [waiting.OWN_CODE]),
        ({0: "idle"}, [waiting.OWN_CODE]),
        ({0: "waits", 1: "stopped"}, ["kill -CONT 7"]),
        ({0: "old", 1: "idle"}, [waiting.OWN_CODE, waiting.UNEQUAL]),
    ],
)
def test_the_advice_fits_where_the_ranks_are(places, advice):
    known = {
        "waits": {"collective": True},
        "idle": {"collective": False},
        "old": {},
        "stopped": {"stopped": 7},
    }
    found = {
        r: {"since": 0.0, "where": "line 1 of a.py, in f", "calls": ["fit"], "computing": False} | known[how]
        for r, how in places.items()
    }
    text = waiting.advice([{"rank": 0}, {"rank": 1}], found)
    everything = (waiting.UNEQUAL, waiting.OWN_CODE, "kill -CONT 7")
    assert [step for step in everything if step in text] == sorted(advice, key=everything.index)


def test_a_thread_that_provides_data_is_found():
    """Is a generator's line named only if the thread that runs it provides data for TensorFlow or Keras?"""
    library = sysconfig.get_path("purelib")
    main = [(f"{library}/tensorflow/python/eager/execute.py", 5, "quick_execute"), ("/a/b.py", 14, "train")]
    source = [("/a/c.py", 3, "batches"), (f"{library}/keras/src/trainers/data_adapters/x.py", 5, "next")]
    logger = [("/a/log.py", 3, "write"), ("/usr/lib/python3/threading.py", 9, "run")]
    named = stacks.location(main, 0.0, others=[logger, source])
    assert "line 3 of" in named["where"] and "batches" in named["where"] and not named["collective"]
    other = stacks.location(main, 0.0, others=[logger])
    assert "line 14 of" in other["where"] and other["collective"]
    reduced = [(f"{library}/horovod/tensorflow/mpi_ops.py", 5, "_allreduce"), *main]
    assert stacks.location(reduced, 0.0, others=[source])["collective"]


SPINS = """
import pathlib, sys, sysconfig
from cluster.jobs.rank import stacks
from cluster.jobs.run.run_folder import Run

def compiled(file, text):
    names = {}
    exec(compile(text.replace("STATEMENT", sys.argv[2]), file, "exec"), names)
    return names["allreduce"]

folder = pathlib.Path(sys.argv[1])
stacks.register(Run(folder), 0)
text = "def allreduce(left):\\n    import time\\n    while not left.exists(): STATEMENT"
compiled(sysconfig.get_path("purelib") + "/horovod/tensorflow/mpi_ops.py", text)(folder / "left")
while True: pass
"""


@pytest.fixture(params=["pass"])
def spinning(tmp_path, monkeypatch, request):
    """Yield the folder of a rank that polls in a collective, and a function that returns the rank's location.

    request.param: the statement that the rank executes after each poll.
    """
    monkeypatch.setattr(stacks, "QUIET", 0.4)
    monkeypatch.setattr(stacks, "WINDOW", 0.2)
    files.write_json(tmp_path / "ready-0.json", {"time": 0.0})
    command = [sys.executable, "-c", SPINS, str(tmp_path), request.param]
    with subprocess.Popen(command, start_new_session=True) as rank:
        until((tmp_path / "stacks-0.txt").exists)
        watch = stacks.Watch(Run(tmp_path), 0, 2, rank.pid, lambda: 0)

        def look():
            watch.look()
            return files.read_json(tmp_path / "location-0.json")

        yield tmp_path, look
        rank.kill()


def test_a_rank_in_a_collective_waits_whatever_its_processor_time(spinning):
    """Is a rank in `allreduce` reported as waiting there until it leaves, although it uses a whole core?"""
    folder, look = spinning
    first = until(look)
    assert first["calls"] == ["allreduce"] and not first["computing"]
    for _ in range(15):
        time.sleep(0.1)
        assert look() == first
    (folder / "left").touch()
    until(lambda: not look())


@pytest.mark.parametrize("spinning", ["time.sleep(0.001)"], indirect=True)
def test_a_rank_that_communicates_again_and_again_makes_progress(spinning, monkeypatch):
    """Is a rank with many short messages considered running, rather than waiting, although it computes
    little?"""
    monkeypatch.setattr(stacks, "SWITCHES", 2)
    _, look = spinning
    for _ in range(25):
        time.sleep(0.1)
        assert not look()


def test_a_rank_computes_until_it_joins_the_others_in_a_collective(spinning):
    """Is a rank reported as computing only while it is outside any collective and another rank waits?"""
    folder, look = spinning
    others = {"since": 0.0, "where": "line 9 of a.py, in f", "calls": ["allreduce"], "computing": False}
    files.write_json(folder / "location-1.json", others)
    assert not until(look)["computing"]
    (folder / "left").touch()
    until(lambda: (found := look()) and found["computing"])
    (folder / "location-1.json").unlink()
    until(lambda: not look())


@pytest.mark.slurm
@pytest.mark.parametrize("controller", ["gloo", "mpi"] if ALL else ["gloo"])
def test_on_slurm_card_and_table_name_the_rank_that_is_waited_for(cluster, tmp_path, monkeypatch, controller):
    """On Slurm, do the job's card, the table and the error name the waiting ranks, although Horovod's threads
    use a core?
    """
    cluster.enter(monkeypatch)
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    job = submit(hangs.one_sleeps, ranks_per_node=2, backend="slurm", controller=controller)
    what, *ended = stuck(job, monkeypatch, table=True)
    assert SLEEPS.search(what) and all(SLEEPS.search(e.what) for e in ended)
    assert [type(e) for e in ended] == [errors.Cancelled, errors.OutOfTime]
    assert not any("computing" in e.what for e in ended)


@pytest.mark.parametrize(
    ("function", "gone", "left", "where"),
    [
        (hangs.early_stopping, 0, 1, r"`fit` \(line \d+ of hangs.py, in early_stopping\)"),
        (
            hangs.evaluation,
            1,
            0,
            r"`allreduce`, called by `evaluate` \(line \d+ of hangs.py, in evaluation\)",
        ),
    ],
)
def test_a_rank_that_returned_before_the_others_is_named(runs, function, gone, left, where):
    """If a rank returns before the others, does the error name the rank, the time, and the place where
    another rank still waits for it?"""
    error = submit(function, ranks_per_node=2).wait().error()
    assert isinstance(error, errors.RankFailed)
    message = rf"Rank {gone} .* \d+ s, .*rank {left} .* rank {gone} in {where}\."
    assert re.fullmatch(message, error.what) and "Horovod" not in str(error)
    assert "evaluate()" in error.next_step


def test_ranks_in_different_collectives_are_named(runs):
    """If ranks wait in different collectives, does the error name the location of each?"""
    error = submit(hangs.evaluation_then_more, ranks_per_node=2).wait().error()
    assert "rank 0 in `allreduce`, called by `evaluate`" in error.what
    assert re.search(r"rank 1 in `allreduce` \(line \d+ of hangs.py, in _mean\)", error.what)


def test_validation_data_on_one_rank_alone_is_refused(runs):
    """If only one rank has validation data, does training stop with an error before the first step, rather
    than hang?"""
    error = submit(hangs.validation, ranks_per_node=2).wait().error()
    assert "differ in validation: yes on rank 0; no on rank 1" in error.what
    assert "validation_data" in error.what


def test_a_message_of_tensorflow_is_cut_to_what_a_student_wrote():
    """Does a shortened TensorFlow message omit frames of libraries and node names, and keep the student's own
    lines?"""
    message = (
        "Graph execution error:\n\nDetected at node a/b/MatMul_0 defined at (most recent call last):\n"
        f'  File "{stacks.__file__}", line 9, in run\n\n  File "/home/me/net.py", line 3, in step\n\n'
        "Shapes differ: 2 and 3\n\t [[{{node a/b/MatMul_0}}]] [Op:__inference_f_212]"
    )
    text = rank_main.plain(message)
    assert 'File "/home/me/net.py", line 3, in step' in text and text.endswith("Shapes differ: 2 and 3")
    assert "in run" not in text and "[[" not in text


def test_a_job_that_computes_is_told_to_ask_for_more_time():
    """If no rank was waiting for another at the time limit, does the error suggest requesting more time?"""
    records = [{"rank": r, "started": 0.0, "exit_code": None} for r in range(2)]
    run = texts.run() | {"options": {"time": 60, "memory": 1}}
    end = endings.decide(run, records, {}, stopped="OutOfTime")
    assert "Request more" in end["next_step"] and "waited" not in end["what"]


def test_more_time_helps_only_if_a_rank_that_computes_joins_the_others():
    """If one rank was computing while another waited for it, does the message name both locations, and say
    when more time helps?"""
    records = [{"rank": r, "started": 0.0, "ended": 60.0, "exit_code": -9} for r in range(2)]
    run = texts.run() | {"options": {"time": 60, "memory": 1}}
    locations = {
        0: {"since": 50.0, "where": "line 14 of a.py, in f", "calls": ["evaluate"], "computing": True},
        1: {"since": 30.0, "where": "line 9 of a.py, in f", "calls": ["allreduce"], "computing": False},
    }
    end = endings.decide(run, records, {}, stopped="OutOfTime", locations=locations)
    waits, computes = "`allreduce` (line 9 of a.py, in f).", "`evaluate` (line 14 of a.py, in f)."
    assert re.search(rf"Rank 1 .* 30 s .*{re.escape(waits)} Rank 0 .*{re.escape(computes)}$", end["what"])
    assert "Request more" in end["next_step"] and "rank 0" in end["next_step"]


@pytest.mark.parametrize(
    "frames, text",
    [
        ([("{tf}/execute.py", 5, "execute"), ("{keras}/trainer.py", 9, "fit"), ("/a/b.py", 14, "train")],
         "in `fit` (line 14 of your cell, in train)"),
        ([("/a/ipykernel_7/1.py", 3, "main")], "at line 3 of your cell, in main"),
        ([("{tf}/execute.py", 53, "quick_execute")], "in code of a library"),
    ],
)  # fmt: skip
def test_where_a_rank_stands(frames, text):
    """Is a stack summarised by the student's own line and the call made there?"""
    import keras
    import tensorflow as tf

    locations = {"tf": tf.__path__[0], "keras": keras.__path__[0]}
    lines = [f'  File "{file.format(**locations)}", line {n} in {name}' for file, n, name in frames]
    dump = 'Thread 0x2 (most recent call first):\n  File "x", line 1 in other\n\n'
    result = stacks.frames_of(dump + "Current thread 0x1 (most recent call first):\n" + "\n".join(lines))
    assert waiting.at_location(stacks.location(result, since=0.0)) == text


@pytest.mark.parametrize(("requeue", "step"), [(True, "Submit the same call again"), (False, "requeue=True")])
def test_a_job_that_timed_out_after_a_checkpoint_says_where_it_resumes(tmp_path, requeue, step):
    """If a job timed out after a checkpoint, does the next step name the epoch where it resumes?"""
    run = texts.run(ranks=1) | {"options": {"time": 60, "memory": 1, "requeue": requeue}}
    files.write_json(tmp_path / "run.json", run)
    files.write_json(tmp_path / "rank-0.json", {"rank": 0, "started": 0.0})
    checkpoint.write_checkpoint(tmp_path / "model.state.npz", {"epoch": 6, "done": 0})
    end = status.write_end(Run(tmp_path), "OutOfTime")
    assert step in end["next_step"] and end["next_step"].endswith("it resumes at epoch 7.")
