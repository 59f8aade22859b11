"""The table of jobs: filters, order, damaged folders, and a low cost for a thousand ended runs."""

import datetime
import json
import os
from pathlib import Path

import pytest

import cluster
from cluster.__main__ import main
from cluster.jobs import errors, job_table
from cluster.jobs.run import status
from cluster.slurm import client
from cluster.system import files

ENDED = {
    "ending": "Done",
    "what": "Done.",
    "next_step": "",
    "started": 10.0,
    "ended": 12.5,
    "ranks": [],
    "hashes": {},
}


def recorded(runs, i, ending="Done", backend="local", name="train", hours=0.0, **more):
    """Create the folder of a run that was submitted `hours` ago and has ended."""
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours, seconds=i)
    folder = runs / f"{name}-{i:012x}"
    folder.mkdir(parents=True)
    run = {"name": name, "backend": backend, "ranks": 2, "key": f"{i:064x}", "submitted": at.isoformat()}
    files.write_json(folder / "run.json", run | more)
    files.write_json(folder / "end.json", ENDED | {"ending": ending, "what": f"{ending} was it.\nmore"})
    return folder


@pytest.fixture
def several(runs):
    """Jobs from new to old: 0 and 1 are done, 2 failed on Slurm, and 3 timed out two days ago."""
    recorded(runs, 0)
    recorded(runs, 1, name="bert")
    recorded(runs, 2, "RankFailed", "slurm", hours=3)
    recorded(runs, 3, "OutOfTime", hours=48)
    return runs


def numbers(jobs):
    return [int(job.id[-12:], 16) for job in jobs]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"state": "done"}, [0, 1]),
        ({"state": ["failed", "out of time"]}, [2, 3]),
        ({"backend": "slurm"}, [2]),
        ({"name": "er"}, [1]),
        ({"limit": 2}, [0, 1]),
        ({"state": "out of time", "limit": 1}, [3]),
        ({"since": "2 h"}, [0, 1]),
        ({"since": "1.5 days"}, [0, 1, 2]),
        ({"since": datetime.timedelta(hours=4), "backend": "local"}, [0, 1]),
        ({"since": "2001-01-01"}, [0, 1, 2, 3]),
        ({"active": True}, []),
    ],
)
def test_filters_and_order(several, chosen, expected):
    assert numbers(cluster.jobs(**chosen)) == expected


@pytest.mark.parametrize(
    ("chosen", "valid"),
    [
        ({"state": "finished"}, "failed"),
        ({"backend": "lsf"}, "'slurm'"),
        ({"since": "yesterday"}, "'30 min'"),
        ({"limit": 0}, "1"),
    ],
)
def test_a_filter_that_is_none_is_refused(several, chosen, valid):
    with pytest.raises(errors.OptionValueError, match=repr(*chosen.values())) as caught:
        cluster.jobs(**chosen)
    assert valid in caught.value.next_step


def test_what_is_shown(several, capsys):
    """Does the table show each ending on one line, each progress with a bar, and the number of jobs per
    state?"""
    lines = [
        {"rank": 0, "time": 1.0, "step": 30, "steps": 60},
        {"rank": 0, "time": 2.0, "epoch": 1, "val": 0.5},
    ]
    metrics = several / f"train-{0:012x}/metrics-0.jsonl"
    metrics.write_text("".join(json.dumps(x) + "\n" for x in lines))
    assert main(["list", "--state", "done", "--state", "failed", "--since", "1 d"]) == 0
    head, *rows, count = capsys.readouterr().out.splitlines()
    assert head.split() == list(job_table.HEAD)
    assert "█████░░░░░  50 %  30 of 60" in rows[0] and "2.5 s" in rows[0] and "done" in rows[0]
    assert rows[2].endswith("RankFailed was it.") and "2 done, 1 failed" in count
    assert "width:50%" in cluster.jobs()._repr_html_()


DAMAGE = {  # {name: (file, its contents, what the reason names)}
    "a": ("run.json", "{", "Expecting"),
    "b": ("run.json", "[]", "list"),
    "d": ("end.json", "\x00", "Expecting"),
    "f": ("run.json", None, "run.json"),
    "g": ("run.json", Path("/etc/hostname"), "run.json"),
}


def test_damaged_folders_are_named_and_hurt_nobody(several):
    for i, (name, (file, content, _)) in enumerate(DAMAGE.items()):
        path = recorded(several, 0xF0 + i, name=name) / file
        path.unlink()
        if isinstance(content, Path):
            path.symlink_to(content)
        elif content is not None:
            path.write_text(content)
    (several / "data").mkdir()
    (several / "notes.txt").write_text("no folder")
    jobs = cluster.jobs()
    assert numbers(jobs) == [0, 1, 2, 3]
    why = {name[0]: text for name, text in jobs.unreadable}
    assert why.keys() == DAMAGE.keys()
    assert [name for name, (_, _, word) in DAMAGE.items() if word not in why[name]] == []
    recorded(several, 0xFC).joinpath("end.json").write_text("{}")
    recorded(several, 0xFD).joinpath("run.json").write_text('{"name": "other"}')
    assert {0xFC, 0xFD} < {*numbers(cluster.jobs())}  # these are shown as far as they go
    assert why["a"] in repr(jobs) and jobs.unreadable[0][0] in jobs._repr_html_()


def test_a_thousand_ended_runs_are_read_once_and_slurm_is_not_asked(runs, monkeypatch):
    """For a thousand ended runs, does the table open at most two files per run, without asking Slurm?"""
    for i in range(1000):
        recorded(runs, i, backend="slurm" if i % 2 else "local")
    monkeypatch.setattr(client, "ask", lambda *command, **options: pytest.fail("Slurm was asked"))
    monkeypatch.setattr(job_table, "status_of", lambda folder: pytest.fail(f"{folder}: it has ended"))
    opened, real = [], os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: (opened.append(a[0]), real(*a, **k))[1])
    text = repr(cluster.jobs())
    assert len(opened) <= 2000 and len(text.splitlines()) == job_table.SHOWN + 2
    assert "jobs(limit=1000)" in text and len(repr(cluster.jobs(limit=3)).splitlines()) == 5


def test_a_job_that_waits_says_why_and_for_how_long(runs, monkeypatch):
    folder = recorded(runs, 0, hours=0.5)
    (folder / "end.json").unlink()
    waits = status.Status("pending", "No node is free.")
    monkeypatch.setattr(job_table, "status_of", lambda folder: waits)
    submitted = job_table.seconds(files.read_json(folder / "run.json")["submitted"])
    monkeypatch.setattr(job_table.time, "time", lambda: submitted + 1800)
    assert repr(cluster.jobs(active=True)).splitlines()[1].endswith("30 min 00 s: No node is free.")
