"""Sweeps: one function over many items, on this machine or as a Slurm array."""

import doctest
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cluster
from cluster.__main__ import main
from cluster.jobs import Sweep, attach, errors, mapping, submit
from cluster.jobs.backends import batch_script, slurm
from cluster.slurm import client, limits, states
from cluster.system import files

from .. import ROOT
from . import sweeps, until
from .texts import GOLDEN, run


def calls(folder):
    return sorted((folder / "calls").read_text().split())


@pytest.fixture(scope="module")
def mixed(backend):
    """Six items, at most two at a time. Two of them are equal, and one fails."""
    return cluster.map(sweeps.inverse, [1, 2, 4, 5, 2, 8], wrong=5, max_parallel=2).wait()


def test_one_result_for_each_item_in_order(mixed):
    expected = [{"inverse": 1 / x, "doubled": [x, x]} for x in (1, 2, 4, 5, 2, 8)]
    expected[3] = None
    assert mixed.results(failed=None) == expected
    assert mixed[-1].result() == {"inverse": 0.125, "doubled": [8, 8]}
    assert [j.id for j in mixed[1:3]] == [f"{mixed.id}/1", f"{mixed.id}/2"] and len(mixed) == 6


def test_the_failed_item_is_named_with_its_error_and_traceback(mixed):
    with pytest.raises(errors.SweepFailed, match="1 of the 6 items of inverse-") as caught:
        mixed.results()
    assert "items[3] = 5: RankFailed: ValueError on rank 0: 5 is the wrong one" in str(caught.value)
    assert 'raise ValueError(f"{x} is the wrong one")' in str(caught.value)
    assert list(mixed.failures) == list(caught.value.failures) == [3]
    assert mixed.status == "failed" and mixed.status.what == "5 done, 1 failed"
    with pytest.raises(errors.RankFailed):
        mixed[3].result()


def test_no_more_than_two_at_a_time_and_equal_items_once(mixed):
    ends = [files.read_json(job.folder / "end.json") for job in mixed]
    assert mixed[1].folder == mixed[4].folder
    spans = {(e["started"], e["ended"]) for e in ends}
    assert len(spans) == 5
    at_once = [sum(a < t < b for a, b in spans) for t in (e["started"] + 1e-6 for e in ends)]
    assert max(at_once) <= 2


def test_logs_metrics_and_the_table(mixed):
    assert mixed.logs(0) == "--- rank 0\nitem 1\n".rstrip() and "=== items[5] = 8\n" in mixed.logs()
    metrics = mixed.metrics()
    assert list(metrics.columns) == ["item", "rank", "time", "step", "steps", "loss"]
    assert metrics[metrics["item"] == 2].loss.tolist() == [0.5, 0.25]
    table = mixed.table()
    assert list(table.columns) == ["x", "status", "inverse", "loss", "seconds", "error"]
    assert table.x.tolist() == [1, 2, 4, 5, 2, 8] and table.index.tolist() == list(range(6))
    assert table.status.tolist() == ["done"] * 3 + ["failed", "done", "done"]
    assert table.loss.tolist() == [1.0, 0.5, 0.25, 0.4, 0.5, 0.125]
    assert table.error[3].startswith("RankFailed: ValueError") and pd.isna(table.error[0])


def test_the_sweep_is_one_row_and_can_be_taken_up_again(mixed, capsys):
    rows = [j for j in cluster.jobs() if isinstance(j, Sweep) and j.id == mixed.id]
    assert len(rows) == 1 and cluster.jobs(name="inverse", state="failed")[0].id == mixed.id
    assert " 6 of 6  6 x 1 " in repr(cluster.jobs(name="inverse"))
    again = attach(mixed.id[:12])
    assert again.failures.keys() == {3} and again.results(failed=0)[0]["inverse"] == 1.0
    assert attach(f"{mixed.id}/2").result()["inverse"] == 0.25
    assert main(["show", mixed.id]) == 1 and "map(inverse, [1, 2, 4, 5, 2, 8]" in capsys.readouterr().out
    assert main(["logs", mixed.id, "--follow"]) == 2 and f"{mixed.id}/0" in capsys.readouterr().err
    assert main(["logs", f"{mixed.id}/5"]) == 0 and capsys.readouterr().out == "--- rank 0\nitem 8\n"


def test_the_same_call_runs_only_those_again_that_failed(backend, tmp_path, capsys):
    def start(names, **options):
        return cluster.map(sweeps.counted, names, place=str(tmp_path), **options)

    first = start(["a", "fails", "b"]).wait(120)
    assert first.status.what == "2 done, 1 failed" and calls(tmp_path) == ["a", "b", "fails"]
    Path(f"{tmp_path}.mended").touch()
    second = start(["a", "fails", "b"])
    assert second.id == first.id and second.results() == ["A", "FAILS", "B"]
    assert calls(tmp_path) == ["a", "b", "fails", "fails"]
    assert "3 items (2 are recorded) on the" in capsys.readouterr().out
    assert first.status.what == "2 done, 1 failed"  # the handle keeps its own runs
    assert start(["a", "fails", "b"]).results() == ["A", "FAILS", "B"]
    assert f"{first.id}: recorded " in capsys.readouterr().out
    assert submit(sweeps.counted, "c", str(tmp_path)).result() == "C"
    grown = start(["b", "c", "a"])
    assert grown.id != first.id and grown.results() == ["B", "C", "A"]
    assert calls(tmp_path) == ["a", "b", "c", "fails", "fails"]
    assert start(["b", "c", "a"], rerun=True).results() == ["B", "C", "A"]
    assert calls(tmp_path) == ["a", "a", "b", "b", "c", "c", "fails", "fails"]


def test_a_file_that_all_items_write_is_their_output(backend, tmp_path):
    """If each item appends to an existing file, is none run again? And if the file was changed by others?"""
    notes = tmp_path / "notes"
    notes.write_text("")
    for _ in range(2):
        assert cluster.map(sweeps.noted, ["a", "b", "c"], notes=str(notes)).results() == ["A", "B", "C"]
        assert sorted(notes.read_text().split()) == ["a", "b", "c"]
    notes.write_text("other")
    cluster.map(sweeps.noted, ["a", "b", "c"], notes=str(notes)).results()
    assert len(notes.read_text().split()) == 3


@pytest.mark.ranks
def test_items_of_two_ranks(backend):
    """Do two ranks compute an item together? (The sum of rank + 1 over both ranks, times the item 10, is
    30.)"""
    sweep = cluster.map(sweeps.ranks, [10.0], ranks_per_node=2)
    assert sweep.results() == [30.0] == sweep.results(rank=1) and sweep.ranks == 2


def test_cancel_ends_what_runs_and_what_waits(backend, tmp_path):
    sweep = cluster.map(sweeps.waits, [1, 2, 3, 4], place=str(tmp_path), max_parallel=1)
    until((tmp_path / "began-1").exists)
    assert sweep.status == "running" and sweep[3].status == "pending"
    sweep[2].cancel()
    assert sweep[2].status == "cancelled" and not sweep.status.ended
    before = client.calls["scancel"]
    sweep.cancel().wait()
    assert [str(s) for s in sweep.statuses] == ["cancelled"] * 4 and sweep.status == "cancelled"
    assert client.calls["scancel"] - before <= 1
    assert not (tmp_path / "began-2").exists()
    with pytest.raises(errors.SweepFailed, match="4 of the 4 items"):
        sweep.results()


@pytest.mark.parametrize(
    ("items", "options", "message"),
    [
        ([], {}, r"items=\[\] is empty"),
        ("abc", {}, "a list of items, not a str"),
        ({"a": 1}, {}, r"a list of items, not a dict.\n.*list\(d.items\(\)\)"),
        ({1, 2}, {}, "a list of items, not a set"),
        (7, {}, "a list of items, not 7"),
        (iter([1]), {}, r"a list of items, not <list_iterator.*\n.*list\(...\) of it"),
        (pd.DataFrame({"x": [1]}), {}, r"not a DataFrame.\n.*to_dict\('records'\)"),
        ([1, threading.Lock()], {}, r"items\[1\]: inverse\(\) refers to its argument 'x', a _thread.lock"),
        ([1], {"max_parallel": 0}, "max_parallel=0 is not valid"),
        ([1], {"max_parallel": True}, "max_parallel=True is not valid"),
        ([1], {"max_paralel": 2}, r"map\(\) has no option 'max_paralel'.*\n.*Did you mean 'max_parallel'"),
        ([1], {"nodes": 0}, "nodes=0 is not valid"),
        ([1], {"nodes": 99}, "99 ranks are too many"),
    ],
)
def test_what_is_no_sweep_is_refused_and_nothing_is_written(runs, items, options, message):
    with pytest.raises(errors.JobError, match=message):
        cluster.map(sweeps.inverse, items, **options)
    assert not runs.exists()


def test_arrays_ranges_and_dictionaries_are_items(runs):
    """Can arrays, tuples and lists of dictionaries be swept over? Do the dictionaries' keys become columns,
    and is the first numeric one the figure's x-axis?"""
    rates = cluster.map(sweeps.inverse, np.array([0.5, 0.25]), seconds=0)
    assert rates.items == [0.5, 0.25] and [r["inverse"] for r in rates.results()] == [2.0, 4.0]
    assert rates.key == cluster.map(sweeps.inverse, tuple(np.array([0.5, 0.25])), seconds=0).key

    def product(settings):
        return {"product": settings["rate"] * settings["batch"]}

    grid = cluster.map(product, [{"rate": r, "batch": b} for r in (0.1, 1.0, 10.0) for b in range(1, 3)])
    table = grid.wait().table()
    assert list(table.columns) == ["rate", "batch", "status", "product", "seconds", "error"]
    assert (table["product"] == table.rate * table.batch).all()
    axes = grid.figure().axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("rate", "product", "log")
    text = r"y='loss'.*\n.*rate, batch, product, seconds"
    with pytest.raises(errors.OptionValueError, match=text):
        grid.figure("loss")


CELL = """
import os, signal, cluster
from tests.jobs import sweeps
sweep = cluster.map(sweeps.waits, [1, 2, 3], place={place!r}, max_parallel=1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_sweep_continues_without_the_notebook(runs, tmp_path):
    """If the notebook's kernel is killed while the first item runs, does the queue continue, and can another
    process attach?"""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    code = CELL.format(place=str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    (sweep,) = cluster.jobs(active=True)
    assert [str(s) for s in sweep.statuses][1:] == ["pending", "pending"] and "turn" in sweep[2].status.what
    (tmp_path / "go").touch()
    assert sweep.results() == [1, 2, 3]


def test_a_killed_queue_loses_what_had_not_begun_and_nothing_else(runs, tmp_path):
    sweep = cluster.map(sweeps.waits, [1, 2], place=str(tmp_path), max_parallel=1)
    until((tmp_path / "began-1").exists)
    os.kill(files.read_json(sweep.folder / "round-1/backend.json")["pid"], signal.SIGKILL)
    until(lambda: sweep[1].status == "lost")
    assert sweep[0].status == "running" and sweep.status == "running"
    (tmp_path / "go").touch()
    assert sweep.results(failed="lost") == [1, "lost"]
    assert cluster.map(sweeps.waits, [1, 2], place=str(tmp_path), max_parallel=1).results() == [1, 2]


def test_interrupted_items_resume(runs):
    """With requeue=True, does the same call resume an interrupted item from its folder, and reuse the other
    items' results?"""
    sweep = cluster.map(sweeps.goes_on, ["stops", "whole"], requeue=True, max_parallel=1)
    until(lambda: len(sweep[0].metrics()))
    sweep[0].cancel()
    assert sweep.results(failed=None) == [None, ["whole", 1]]
    again = cluster.map(sweeps.goes_on, ["stops", "whole"], requeue=True)
    assert again.results() == [["stops", 2], ["whole", 1]]
    assert again[0].metrics().step.tolist() == [1, 2, 3]
    assert (again[0].folder / "attempts/1/end.json").exists()


@pytest.mark.ranks
def test_the_example_finds_the_learning_rate(runs, warm_ranks):
    """Does the example in map's docstring run and find that, of three learning rates, the middle one has the
    lowest loss?"""
    names = {}
    for example in doctest.DocTestParser().get_examples(cluster.map.__doc__):
        exec(example.source, names)
    sweep, table = names["sweep"], names["table"]
    assert table.rate.tolist() == [0.001, 0.1, 10.0] and (table.status == "done").all()
    assert table.rate[table.loss.idxmin()] == 0.1 and names["best"]["loss"] == table.loss.min()
    axes = names["figure"].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("rate", "loss", "log")
    assert names["figure"]._repr_png_().startswith(b"\x89PNG")
    assert f"loss {table.loss[1]:.4g}" in sweep._repr_html_()


def test_pythons_own_map_stays():
    """Do star imports leave Python's `map` unchanged, and is `cluster.map` still available?"""
    names = {}
    exec("from cluster import *\nfrom cluster.jobs import *", names)
    assert "submit" in names and "map" not in names
    assert cluster.map is cluster.jobs.map and "map" in dir(cluster)


def train(batch, epochs, seed=1):
    """A function to sweep over, which is never called."""


@pytest.mark.parametrize(
    ("items", "limit", "keywords", "command"),
    [
        (
            [[1, 2], [3, 4]],
            2,
            {"epochs": 3},
            "map(train, [[1, 2], [3, 4]], max_parallel=2, epochs=3, seed=1)",
        ),
        ([(8, "a, b")], None, {"epochs": [1, 2]}, "map(train, [[8, 'a, b']], epochs=[1, 2], seed=1)"),
        ([1], None, {"epochs": 1, "memory": "1G"}, "map(train, [1], epochs=1, seed=1, memory='1024M')"),
    ],
)
def test_the_recorded_command_makes_the_sweep_again(runs, items, limit, keywords, command):
    """Does the recorded command equal the user's call, even if items and arguments contain commas?"""
    asked = mapping.survey(train, items, limit, keywords)
    assert asked.run_json("local")["command"] == command
    calls = []
    exec(command, {"map": lambda *a, **k: calls.append((a, k)), "train": train})
    [((target, given), options)] = calls
    assert target is train and options.pop("max_parallel", None) == limit
    assert mapping.survey(train, given, limit, options).run_json("local")["command"] == command


def test_the_array_is_the_golden_one():
    """Does the batch script of a job array equal its golden file? Such scripts run on clusters, so review any
    difference before updating the file."""
    folder = Path("/home/a student/runs/it's $(here)/train-0123456789ab/round-2")
    text = batch_script.array(run(nodes=2, cpus_per_rank=4, partition="short"), folder, [0, 1, 2, 5, 7, 8], 4)
    assert text == (GOLDEN / "array.sh").read_text()


def test_an_array_that_is_too_large_is_refused():
    config = "MaxArraySize            = 1001\nMaxJobCount             = 10000\n"
    limits.check_array(range(1001), config)
    with pytest.raises(limits.TooMuch, match=r"1002 items .* it allows 1001 \(MaxArraySize\)"):
        limits.check_array(range(1002), config)


@pytest.mark.slurm
def test_items_that_wait_for_their_turn_say_so_and_cost_one_question(here, tmp_path):
    """Do items that wait because of the array's limit report this reason? Are twenty items queried with at
    most one squeue per second, and cancelled with one scancel?"""
    sweep = cluster.map(sweeps.waits, list(range(20)), place=str(tmp_path), max_parallel=1, memory="100M")
    until((tmp_path / "began-0").exists)
    until(lambda: "JobArrayTaskLimit" in sweep[19].status.slurm)
    assert sweep[19].status.what == states.reason("JobArrayTaskLimit").what
    client._answers.clear()
    before, start = client.calls.total(), time.monotonic()
    while time.monotonic() < start + 2.5:
        assert sweep.status == "running"
    assert 1 <= client.calls.total() - before <= 1 + (time.monotonic() - start) / client.FRESH
    before, start = client.calls.copy(), time.monotonic()
    sweep.cancel().wait()
    assert [str(s) for s in sweep.statuses] == ["cancelled"] * 20
    made, most = client.calls - before, 1 + (time.monotonic() - start) / client.FRESH
    assert made["scancel"] == 1 and all(n <= most for n in made.values())  # not one for each item
    number = files.read_json(sweep.folder / "round-1/backend.json")["job_id"]
    assert attach(number).id == sweep.id and attach(f"{number}_3").id == f"{sweep.id}/3"
    with pytest.raises(errors.CanNeverRun, match="MaxArraySize"):
        slurm.Slurm().check_items(10**7)


@pytest.mark.slurm
def test_an_item_that_slurm_puts_back_into_the_queue_goes_on(here):
    sweep = cluster.map(sweeps.goes_on, ["whole", "stops"], requeue=True, memory="200M")
    until(lambda: len(sweep[1].metrics()))
    number = files.read_json(sweep.folder / "round-1/backend.json")["job_id"]
    here.ask("scontrol", "requeue", f"{number}_1")
    until(lambda: "attempt 2" in sweep[1].status.what)
    assert sweep.wait(150).results() == [["whole", 1], ["stops", 2]]
