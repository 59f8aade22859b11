"""The table of jobs: filters, order, damaged folders, and a low cost for a thousand ended runs."""

import datetime
import json
import os
import time

import pytest

import cluster
from cluster.__main__ import main
from cluster.jobs import errors, job_table, submit
from cluster.jobs.run import status
from cluster.slurm import client
from cluster.system import files

from . import programs

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
    assert [int(j.id[-12:], 16) for j in cluster.jobs(**chosen)] == expected


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"state": "finished"}, "States are pending, running, done, failed"),
        ({"backend": "lsf"}, "'local' or 'slurm'"),
        ({"since": "yesterday"}, "'30 min'"),
        ({"limit": 0}, "1 or more"),
    ],
)
def test_a_filter_that_is_none_is_refused(several, chosen, says):
    with pytest.raises(errors.OptionValueError, match=repr(*chosen.values())) as caught:
        cluster.jobs(**chosen)
    assert says in caught.value.next_step


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
    assert "done    █████░░░░░  50 %  30 of 60" in rows[0] and "2.5 s" in rows[0]
    assert rows[2].endswith("RankFailed was it.") and count == "3 jobs: 2 done, 1 failed."
    assert "width:50%" in cluster.jobs()._repr_html_()


def test_damaged_folders_are_named_and_hurt_nobody(several):
    damage = {
        "a": ("run.json", "{", "damaged"),
        "b": ("run.json", "[]", "unexpected contents"),
        "c": ("run.json", '{"name": "c"}', "submitted"),
        "d": ("end.json", "\x00", "damaged"),
        "e": ("end.json", "{}", "unexpected contents"),
        "f": ("code.py", "", "it is incomplete"),
    }
    for i, (name, (file, content, _)) in enumerate(damage.items()):
        folder = recorded(several, 0xF0 + i, name=name)
        (folder / file).write_text(content)
        if name == "f":
            (folder / "run.json").unlink()
    (several / "data").mkdir()
    (several / "notes.txt").write_text("no folder")
    (several / f"g-{7:012x}").mkdir()
    (several / f"g-{7:012x}/run.json").symlink_to("/etc/hostname")
    jobs = cluster.jobs()
    assert len(jobs) == 4 and [j.status for j in jobs] == ["done", "done", "failed", "out of time"]
    why = dict(jobs.unreadable)
    assert {n[0] for n in why} == {*damage, "g"}
    for name, (_, _, words) in damage.items():
        assert words in next(text for n, text in why.items() if n[0] == name)
    assert "Not readable: a-" in repr(jobs) and "Not readable: a-" in jobs._repr_html_()


def test_another_users_folder_is_named(several, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    if (several / "..").stat().st_uid == 0:  # folders of root are accepted
        os.chown(several / f"train-{3:012x}", 12345, -1)
    jobs = cluster.jobs()
    assert all("belongs to user" in why for _, why in jobs.unreadable) and jobs.unreadable


def test_a_thousand_ended_runs_are_read_once_and_slurm_is_not_asked(runs, monkeypatch):
    """For a thousand ended runs, does the table open at most two files per run, without asking Slurm?"""
    for i in range(1000):
        recorded(runs, i, backend="slurm" if i % 2 else "local")
    monkeypatch.setattr(client, "ask", lambda *command, **options: pytest.fail("Slurm was asked"))
    monkeypatch.setattr(job_table, "status_of", lambda folder: pytest.fail("an ended run was looked into"))
    opened, real = [], os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: (opened.append(a[0]), real(*a, **k))[1])
    text = repr(cluster.jobs())
    assert len(opened) <= 2000 and len(text.splitlines()) == job_table.SHOWN + 2
    assert text.endswith("The newest 50 are shown; jobs(limit=1000) shows all.")
    opened.clear()
    assert len(repr(cluster.jobs(limit=3)).splitlines()) == 5


def test_a_job_that_waits_says_why_and_for_how_long(runs, monkeypatch):
    folder = recorded(runs, 0, hours=0.5)
    (folder / "end.json").unlink()
    waits = status.Status("pending", "It waits for free nodes.")
    monkeypatch.setattr(job_table, "status_of", lambda folder: waits)
    submitted = job_table.seconds(files.read_json(folder / "run.json")["submitted"])
    monkeypatch.setattr(job_table.time, "time", lambda: submitted + 1800)
    assert repr(cluster.jobs(active=True)).splitlines()[1].endswith("30.0 min: It waits for free nodes.")


def test_a_running_job_is_active_until_it_ends(runs):
    job = submit(programs.sleeps, 60)
    deadline = time.monotonic() + 30
    while "asleep" not in job.logs(0) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [j.id for j in cluster.jobs(state="running")] == [job.id]
    job.cancel()
    assert [j.id for j in cluster.jobs(active=False, state="cancelled")] == [job.id]
