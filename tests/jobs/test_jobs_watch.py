"""Watching a job: curves of limited size, each form of display, and no effect on the job."""

import json
import math
import os
import re
import statistics
import sys
from unittest import mock
from xml.etree import ElementTree

import pytest

import cluster
from cluster.__main__ import main
from cluster.jobs import submit
from cluster.jobs.run.status import Status
from cluster.jobs.show import curves, picture, progress, render, watch

from . import programs


def filled(values):
    curve = curves.Curve()
    for x, y in enumerate(values):
        curve.add(x, y)
    return curve


def logged(folder, *rows):
    """Write these rows to rank 0's metrics, one per second, and return the folder's curves."""
    lines = [json.dumps({"rank": 0, "time": float(t), **row}) for t, row in enumerate(rows)]
    (folder / "metrics-0.jsonl").write_text("".join(f"{x}\n" for x in lines))
    result = curves.Curves(folder)
    assert result.update()
    return result


def test_a_hundred_thousand_steps_are_few_points_and_none_is_lost():
    """Are 100,000 steps merged into a few points, each the mean of `stride` steps, without changing the
    overall mean? (100,000 = 256 · 390 + 160, so the last point is the mean of 160 steps.)"""
    values = [math.sin(i / 9000) + i % 7 for i in range(100_000)]
    curve = filled(values)
    *whole, last = curve.points()
    assert len(whole) == 390 < curves.POINTS and curve.stride == 256
    assert whole[0] == pytest.approx((127.5, statistics.fmean(values[:256])))
    total = sum(y for _, y in whole) * 256 + last[1] * 160
    assert total / 100_000 == pytest.approx(statistics.fmean(values), rel=1e-9)


def test_merging_by_hand(monkeypatch):
    monkeypatch.setattr(curves, "POINTS", 4)
    assert filled([1.0, 3.0, 5.0, 9.0, 2.0]).points() == [(0.5, 2.0), (2.5, 7.0), (4.0, 2.0)]


def test_what_looks_like_a_curve(tmp_path):
    """Are values logged per epoch and per step separate curves? Are constants, booleans, strings and single
    values left out?"""
    rows = [{"step": s, "steps": 9, "loss": 1 / s, "batch": 64, "ok": True, "net": "A"} for s in (1, 2, 3)]
    rows += [{"epoch": 1, "val": 0.5}, {"epoch": 2, "val": 0.4}, {"free": 1.0}, {"free": 3.0}, {"once": 1.0}]
    result = logged(tmp_path, *rows)
    assert result.panels() == [("step", "loss"), ("epoch", "val"), ("line", "free")]
    assert result.lines("epoch", "val")[0].points() == [(1, 0.5), (2, 0.4)]


def test_a_loss_that_is_no_number_is_said_in_words(tmp_path):
    result = logged(tmp_path, *({"step": s, "loss": v} for s, v in enumerate([1.0, 2.0, math.inf, math.nan])))
    (warning,) = result.warnings()
    assert "loss" in warning and "step 2" in warning and "rank 0" in warning
    assert result.lines("step", "loss")[0].points() == [(0, 1.0), (1, 2.0)]


RESUMED = [{"step": s, "steps": 4, "loss": 1 / s} for s in (1, 2)]
RESUMED += [{"step": s, "steps": 4, "loss": 1 / s, "attempt": 2} for s in (2, 3)]
RESUMED += [{"step": 4, "steps": 4, "loss": 0.25, "attempt": 3}]


def test_a_run_that_went_on_shows_what_it_logged(runs, capsys, monkeypatch):
    """For a run that was interrupted and resumed, is the loss the only curve and the only current number,
    although the number of the attempt is logged, too? Does the progress bar show the same?"""
    job = submit(programs.counts_calls, os.devnull).wait()
    result = logged(job.folder, *RESUMED)
    assert result.panels() == [("step", "loss")] and result.ranks[0].numbers == {"loss": 0.25}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with progress.Progress(job, True) as bar:
        bar.show(Status("running", "It runs."))
    line = re.sub(r"\x1b\[\w", "", capsys.readouterr().out).strip().splitlines()[-1]
    assert line.startswith(f"{job.name}: running") and "4 of 4" in line and line.endswith("loss 0.25")


def test_rate_and_time_left_by_hand(tmp_path):
    """After 30 of 50 steps at ten steps per second, are two seconds left? If the steps start again, is the
    earlier rate discarded?"""
    result = logged(tmp_path, *({"step": s, "steps": 50, "loss": 0.1} for s in (10, 20, 30)))
    rank = result.ranks[0]
    assert (rank.rate, rank.left, rank.share) == (10.0, 2.0, 0.6)
    assert render.facts(rank) == ["30 of 50 steps", "10 steps/s", "2.0 s left", "loss 0.1"]
    rank.add({"time": 3.0, "step": 5})
    assert rank.rate is None


def test_only_what_is_new_is_read(tmp_path):
    result = logged(tmp_path, {"step": 1, "loss": 1.0})
    assert not result.update()
    with open(tmp_path / "metrics-0.jsonl", "a") as f:
        f.write('{"rank": 0, "time": 9.0, "step": 2, "loss": 0.5}\n{"rank": 0, "ti')
    assert result.update() and result.lines("step", "loss")[0].points() == [(1, 1.0), (2, 0.5)]


ROW = render.Row("rank 0", 0.25, ["5 of 20 steps", "", "x" * 90])
VIEW = render.View(
    "train-1", "running", ["2 ranks"], ["a reason"], rows=[ROW], log="\n<script>alert(1)</script>"
)


def test_the_text_keeps_to_the_terminals_columns():
    lines = render.text(VIEW, 40)
    assert lines[0] == "train-1: running, 2 ranks" and lines[1] == "a reason"
    assert lines[2].startswith("rank 0  ██░░░░░░░░  25 %  5 of") and lines[2].endswith("…")
    assert max(map(len, lines)) == 40


def test_of_many_ranks_the_slowest_are_shown():
    rows = [render.Row(f"rank {i}", i / 100) for i in range(100)]
    shown = render.slowest(render.View(rows=rows[::-1]))
    assert {r.label for r in shown.rows} == {
        f"rank {i}" for i in range(render.ROWS)
    } and "100" in shown.notes[0]


def test_the_page_is_whole_and_harmless(tmp_path):
    """Is the page of a view well-formed, without the scripts in its texts? Does the alternative text describe
    the first curve if there are more ranks than colours?"""
    curve = logged(tmp_path, *({"step": s, "loss": 4.0 / s} for s in (1, 2, 4))).lines("step", "loss")[0]
    lines = {f"rank {r}": curve for r in range(10)}
    text = render.page(VIEW, picture.image(*picture.panels([("step", "loss", lines)], True)))
    page = ElementTree.fromstring(text)
    assert page.find(".//script") is None and page.findtext("pre") == f"\n{VIEW.log}" and "width:25%" in text
    assert "loss by step: rank 0 from 4 at 1 to 1 at 4" in page.find("img").get("alt")


def test_the_command_watches_jobs(runs, capsys):
    """Does a pipe get a line for each change and, at the end, a row for each job? Of one job, does it get the
    output and the error?"""
    jobs = [submit(programs.logs_and_fails, n, name=f"n{n}") for n in (2, 4)]
    assert main(["watch", *(j.id for j in jobs)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(re.match(r"n2-\w+  failed .*2 of 2 steps.*ValueError on rank 0: no more", x) for x in lines)
    assert any(re.match(r"n4-\w+  failed .*4 of 4 steps", x) for x in lines)
    changes = [line for line in lines if line.startswith("2 jobs: running")]
    assert changes and len(changes) == len(set(changes))
    jobs[0].watch(logs=2)
    out = capsys.readouterr().out
    assert "2 of 2 steps" in out and "\nValueError: no more" in out and "RankFailed" in out
    watch.watch([])
    assert capsys.readouterr().out.count("\n") == 1


def test_an_interrupt_ends_the_watching_and_not_the_job(runs, capsys, monkeypatch):
    job = submit(programs.sleeps, 60)

    with monkeypatch.context() as patch:
        patch.setattr(watch.time, "sleep", mock.Mock(side_effect=KeyboardInterrupt))
        cluster.watch(job)
    assert job.status == "running" and not (job.folder / "cancel.json").exists()
    assert f"attach({job.id!r}).watch()" in capsys.readouterr().out.splitlines()[-1]
    assert job.cancel().status == "cancelled"
    job.watch()  # returns at once for a job that has ended
    assert "Cancelled" in capsys.readouterr().out


def test_a_terminal_is_drawn_over(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    screen = progress.screen()
    for _ in range(2):
        screen.show(VIEW, True, False)
    lines = len(render.text(VIEW))
    assert capsys.readouterr().out.count(f"\x1b[{lines}A\r\x1b[Ktrain-1") == 1


def test_a_job_that_waits_says_why_and_for_how_long(runs, monkeypatch):
    job = submit(programs.counts_calls, os.devnull).wait()
    source = watch.Source(job)
    source.status, source.submitted = Status("pending", "No node is free.", "Ask for less."), 0.0
    monkeypatch.setattr(curves.time, "time", lambda: 90.0)
    why, step = watch.view([source]).words
    assert "1 min 30 s" in why and "No node is free." in why and step == "→ Ask for less."
