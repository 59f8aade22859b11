"""Timelines: hand-made examples of Horovod's trace file, and a real job with a late rank."""

import json
import time

import numpy as np
import pytest

from cluster.jobs import log, submit
from cluster.jobs.backends.forked_ranks import VARIABLE as FORKED_RANKS
from cluster.jobs.rank import horovod_trace
from cluster.jobs.submission import plan
from cluster.system import files

START = 5_000_000_000  # µs since the epoch at the start of the file: 5000 s


def events(*rows):
    """Return the events of Horovod's trace file for these rows (ts in µs, tensor, phase, name)."""
    first = {"ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": START}}
    return [first, *({"ts": t, "pid": pid, "ph": ph, "name": name} for t, pid, ph, name in rows)]


def write(path, *rows):
    path.write_text(json.dumps(events(*rows)))
    return path


ONE = [
    (100, 1, "B", "NEGOTIATE_ALLREDUCE"),
    (100, 1, "X", "0"),
    (500, 1, "X", "1"),
    (500, 1, "E", ""),
    (520, 1, "B", "ALLREDUCE"),
    (530, 1, "B", "GLOO_ALLREDUCE"),
    (590, 1, "E", ""),
    (600, 1, "E", ""),
]


def of(exchange, rank):
    """Return a rank's phases in an exchange, in µs since the start of the file."""
    return [(what, *np.rint([(t - START / 1e6) * 1e6 for t in span])) for what, *span in exchange.spans(rank)]


def test_the_late_rank_does_not_wait(tmp_path):
    """If rank 0 is ready at 100 µs and rank 1 at 500 µs, does only rank 0 wait until 500 µs? (The operation
    lasts from 520 to 600 µs.)"""
    (x,), whole = horovod_trace.read_exchanges(write(tmp_path / "t", *ONE))
    assert whole and of(x, 0) == [("waiting", 100, 500), ("communicating", 500, 600)]
    assert of(x, 1) == [("communicating", 500, 600)] and x.hidden(0) == 0


def test_a_transfer_behind_computing_is_not_waited_for(tmp_path):
    """If a transfer is hidden behind computing, is it excluded from the waiting time?

    Tensor 1 is reduced from 200 to 300 µs. Rank 0 submits tensor 2 at 250 µs, rank 1 at 400 µs.
    """
    rows = [
        (100, 1, "B", "NEGOTIATE_ALLREDUCE"), (100, 1, "X", "0"), (150, 1, "X", "1"), (150, 1, "E", ""),
        (160, 2, "B", "NEGOTIATE_ALLREDUCE"), (200, 1, "B", "ALLREDUCE"),
        (250, 2, "X", "0"), (300, 1, "E", ""),
        (400, 2, "X", "1"), (400, 2, "E", ""), (410, 2, "B", "ALLREDUCE"), (500, 2, "E", ""),
    ]  # fmt: skip
    (x,), _ = horovod_trace.read_exchanges(write(tmp_path / "t", *rows))
    assert of(x, 0) == [("communicating", 250, 300), ("waiting", 300, 400), ("communicating", 400, 500)]
    assert of(x, 1) == [("communicating", 400, 500)]
    assert x.hidden(0) == pytest.approx(50e-6) and x.hidden(1) == pytest.approx(100e-6)


LATER = [(t + 1000, *rest) for t, *rest in ONE]


@pytest.mark.parametrize(
    ("cut", "starts"), [(None, [100, 1100]), (1, [100]), (60, [100]), (400, [100]), (0, [])]
)
def test_a_file_that_was_cut_off_gives_what_was_whole(tmp_path, cut, starts):
    """Are two exchanges of a tensor two exchanges, and without the file's last `cut` bytes one?"""
    text = json.dumps(events(*ONE, *LATER))
    (tmp_path / "t").write_text(text if cut is None else text[: len(text) - cut] if cut else "")
    found, _ = horovod_trace.read_exchanges(tmp_path / "t")
    assert [round((x.start - START / 1e6) * 1e6) for x in found] == starts
    assert horovod_trace.read_exchanges(tmp_path / "none") == ([], True)


def late(steps, seconds):
    """Take longer for each step on rank 1 than on rank 0; return when this rank was ready for each
    exchange."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    ready = []
    for step in range(1, steps + 1):
        time.sleep(seconds * (1 + 9 * hvd.rank()))
        ready.append(time.time())
        hvd.allreduce(tf.ones(1000), name="gradient")
        log(step=step, steps=steps)
    return ready


@pytest.fixture(scope="module")
def jobs(tmp_path_factory, forked_ranks):
    """Two runs of `late`, one with a timeline and one without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_RUNS", str(tmp_path_factory.mktemp("runs")))
        patch.setenv(FORKED_RANKS, forked_ranks)
        recorded = submit(late, 12, 0.03, nodes=2, backend="local", timeline=True).wait()
        yield recorded, submit(late, 12, 0.001, nodes=2, backend="local", name="plain").wait()


@pytest.mark.ranks
def test_the_rank_that_is_early_waits(jobs):
    """Does each rank become ready at the time that the program recorded, and does none continue before all
    are ready? Does the earlier rank wait for the later one?"""
    t, ready = jobs[0].timeline(), jobs[0].results()
    assert len(t.exchanges) == 13  # including the sum of ones when the ranks connect
    for step, exchange in enumerate(t.exchanges[1:]):
        for rank in (0, 1):
            assert ready[rank][step] - 1e-3 <= exchange.ready[rank] <= exchange.all_ready
            if step < 11:  # the rank slept in between
                assert exchange.all_ready <= ready[rank][step + 1] - 0.03 * (1 + 9 * rank) + 1e-3
    earlier = sum(exchange.ready[1] - exchange.ready[0] for exchange in t.exchanges[1:])
    assert t.table.waiting[0] - t.table.waiting[1] == pytest.approx(earlier, abs=1e-2)
    assert t.steps[t.steps["rank"] == 0].waiting.max() > 0.15


@pytest.mark.ranks
def test_spans_leave_no_gap_and_steps_add_up(jobs):
    t = jobs[0].timeline()
    for rank, spans in t.spans.groupby("rank"):
        np.testing.assert_allclose(spans.start.values[1:], spans.end.values[:-1], atol=1e-6)
        record = files.read_json(jobs[0].folder / f"rank-{rank}.json")
        assert spans.end.max() - spans.start.min() == pytest.approx(record["ended"] - t._zero, abs=0.01)
        assert list(spans.phase[:2]) == ["queued", "starting"] and spans.phase.iloc[-1] == "ending"
    steps = t.steps
    assert list(steps[steps["rank"] == 1].step) == list(range(2, 13))
    np.testing.assert_allclose(steps[["computing", "waiting", "communicating"]].sum(axis=1), steps.seconds)
    assert steps.groupby("step").waiting.min().median() < 0.01  # the last rank does not wait
    assert steps[steps["rank"] == 1].seconds.min() > 0.29  # it sleeps for this long


@pytest.mark.ranks
def test_it_shows_itself_and_does_not_guess_what_was_not_recorded(jobs):
    for job, panels in zip(jobs, (3, 1), strict=True):
        t = job.timeline()
        assert len(t.figure().axes) == panels and "rank 1: queued" in t.words()
        page = t._repr_html_()
        assert t.words() in page and "<script" not in page and "image/png" in page
        assert job.id in repr(t) and all(note in repr(t) for note in t.notes)
    assert set(t.spans.phase) == {"queued", "starting", "working", "ending"} and t.steps.empty
    assert any("timeline=True" in n for n in t.notes) and not (job.folder / "timeline.json").exists()


def test_recording_does_not_make_it_another_run(runs):
    """Does recording a timeline leave the run's cache key unchanged?"""
    assert plan(late, (1, 0.0), {}).key == plan(late, (1, 0.0), {"timeline": True}).key


@pytest.mark.ranks
def test_a_job_that_waits_has_a_timeline_too(runs, warm_ranks):
    job = submit(late, 1, 0.0).wait()
    (job.folder / "rank-0.json").unlink()
    t = job.timeline()
    assert t.spans.empty and len(t.notes) == 1 and t.notes[0] in repr(t) and t.notes[0] in t._repr_html_()
