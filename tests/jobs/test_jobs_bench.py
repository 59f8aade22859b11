"""The benchmark of jobs: counting the calls of Slurm's commands, and a small run on a real Slurm."""

import argparse
import subprocess
import threading

import pytest

from cluster.slurm import client
from tests.bench import jobs as part
from tests.bench import rivals, traffic


def test_calls_are_counted_one_by_one_and_those_at_one_time(tmp_path, monkeypatch):
    """Are two overlapping commands and a later one counted correctly, with a maximum of two at the same
    time?"""
    (tmp_path / "real").mkdir()
    for name, other in (("squeue", "sinfo"), ("sinfo", "squeue"), ("sacct", "")):
        wait = f"until [ -e '{tmp_path}/{other}' ]; do sleep 0.01; done\n" if other else ""
        (tmp_path / "real" / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/{name}'\n{wait}exit 3\n")
        (tmp_path / "real" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'real'}:/usr/bin:/bin")
    log = tmp_path / "log"
    with traffic._counted(tmp_path, log):
        both = [threading.Thread(target=subprocess.run, args=([name],)) for name in ("squeue", "sinfo")]
        for t in both:
            t.start()
        for t in both:
            t.join()
        assert subprocess.run(["sacct"]).returncode == 3
    counted = traffic.evaluate(log.read_text(), 30)
    assert (counted.a_minute, counted.at_once) == (6, 2)
    assert counted.by_command == {"squeue": 1, "sinfo": 1, "sacct": 1}


def test_the_table_of_many_runs_is_measured(tmp_path, monkeypatch):
    result = part.table(argparse.Namespace(records=5, repeats=2))
    assert [r.what for r in result.rows] == ["jobs()", "print(jobs())"] and len(result.rows[0].values) == 2
    assert "5 recorded runs" in result.aims[0][0]


@pytest.mark.slurm
def test_each_side_brings_its_result_and_is_watched(cluster, tmp_path, monkeypatch):
    cluster.enter(monkeypatch)
    monkeypatch.setattr(client, "_answers", {})
    inside, made = [], rivals._times
    monkeypatch.setattr(rivals, "_times", lambda at, sub, of: inside.append(of) or made(at, sub, of))
    sides = (rivals.ours(tmp_path, "slurm"), rivals.plain(tmp_path), rivals.submitit(tmp_path))
    for times, (began, ended) in zip(sides, inside, strict=True):
        assert set(times) == {
            "call that submits", "submission to start", "end to result", "submission to result",
        } and min(times.values()) > 0  # fmt: skip
        whole = times["submission to start"] + (ended - began) + times["end to result"]
        assert whole == pytest.approx(times["submission to result"], abs=1e-3)
    for name, side in traffic.MANY.items():
        before = client.calls["squeue"]
        counted = traffic.count(side, 2, window=1.0, folder=tmp_path, settle=0.5)
        if name.startswith(part.OURS):
            assert counted.at_once <= 1 and client.calls["squeue"] > before
    while cluster.ask("squeue", "--me", "--noheader"):
        pass
