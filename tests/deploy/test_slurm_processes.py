"""Processes by pid and start time; the state folder. No Slurm is needed."""

import os
import subprocess
import sys
import time

import pytest

from cluster.deploy.slurm import machine, processes, status
from cluster.deploy.slurm.description import Cluster, Trouble
from cluster.deploy.slurm.start import tail
from cluster.deploy.slurm.state import remove

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"]


@pytest.fixture
def child():
    """Start a process; it is gone after the test."""
    started = []

    def start(argv=SLEEP):
        started.append(subprocess.Popen(argv))
        time.sleep(0.2)
        return started[-1]

    yield start
    for p in started:
        p.kill()
        p.wait()


def test_a_reused_pid_is_not_ours(child):
    """Is a process with the recorded pid but another start time, or of another boot, left alone?"""
    p = child()
    true = processes.identify(p.pid)
    for wrong in ({"start": true["start"] - 1}, {"boot": "another"}):
        assert not processes.alive(true | wrong)
        processes.end([true | wrong], 0.2)
        assert p.poll() is None
    processes.end([true], 5)
    assert p.wait(5) == -15


def test_a_zombie_is_dead(child):
    """Is a process that ended, but was not waited for, dead?"""
    p = child([sys.executable, "-c", ""])
    time.sleep(0.3)
    assert processes.identify(p.pid) is None


def test_one_that_ignores_sigterm_is_killed(child):
    """Does patience end?"""
    p = child(STUBBORN)
    time.sleep(0.3)
    processes.end([processes.identify(p.pid)], 0.3)
    assert p.wait(5) == -9


def test_spawned_outlives_its_parent_and_logs(tmp_path):
    """Is a daemon in a session of its own, with its output in its log?"""
    record = processes.spawn(["sh", "-c", "echo here; exec sleep 60"], {"PATH": "/bin"}, tmp_path / "log")
    try:
        time.sleep(0.3)
        assert processes.alive(record) and os.getsid(record["pid"]) == record["pid"]
        assert tail(tmp_path / "log") == "    here"
    finally:
        processes.end([record], 5)
        os.waitpid(record["pid"], 0)
    assert not processes.alive(record)


def test_ledger(tmp_path):
    """Does the ledger keep what was put, and nothing that was dropped, with no half file beside it?"""
    ledger = processes.Ledger(tmp_path / "p.json")
    assert ledger.all() == {}
    ledger.put("a", {"pid": 1})
    ledger.put("b", {"pid": 2})
    ledger.drop("a")
    assert processes.Ledger(tmp_path / "p.json").all() == {"b": {"pid": 2}}
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def test_a_jobs_process_is_known_by_its_environment(tmp_path):
    """Is a process with SLURM_CONF alone (a user's shell) spared, and a job's found?"""
    conf = tmp_path / "slurm.conf"
    env = os.environ | {"SLURM_CONF": str(conf)}
    shell = subprocess.Popen(SLEEP, env=env)
    task = subprocess.Popen(SLEEP, env=env | {"SLURM_JOB_ID": "7"})
    try:
        time.sleep(0.3)
        assert [r["pid"] for r in processes.of_jobs(conf)] == [task.pid]
    finally:
        for p in (shell, task):
            p.kill()
            p.wait()


@pytest.mark.parametrize("folder", ["relative", "/has space", "/x%n", "/" + "x" * 60, "/a,b"])
def test_state_folders_that_cannot_serve(folder):
    """Is a path that Slurm would misread, or that is too long for sockets, refused by name?"""
    with pytest.raises(Trouble, match="state folder"):
        machine.look(Cluster(), machine.Path(folder))


def test_a_state_folder_nobody_can_enter():
    """Is a state folder under a private one refused, with the private one named?"""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="private") as private, pytest.raises(Trouble, match=private):
        machine.look(Cluster(), machine.Path(private) / "slurm")


def test_nothing_else_is_purged(tmp_path):
    """Does purging leave a file that was not put there, and say so?"""
    (tmp_path / "slurm.conf").touch()
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(Trouble, match="more than"):
        remove(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_status_of_nothing(tmp_path):
    """Does status of a folder without a cluster say so, with exit status 3?"""
    assert status.status(tmp_path) == (3, f"No one-machine Slurm was started in {tmp_path}.")
