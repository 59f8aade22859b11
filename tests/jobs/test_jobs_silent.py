"""A Slurm that does not answer, simulated by scripts that print Slurm's own messages."""

import os
import time

import pytest

from cluster.jobs import errors, submit
from cluster.slurm import client
from cluster.system import files

from . import programs

UNREACHABLE = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
UNKNOWN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
MUNGE = "echo 'Munge encode failed: munge.socket.2: No such file or directory' >&2; exit 1"
DISABLED = "echo 'Slurm accounting storage is disabled' >&2; exit 1"


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """A function commands(squeue="exit 0", ...) that replaces Slurm's commands with these shell scripts. Each
    script adds its name to the file `calls`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(client, "_answers", {})

    def play(**texts):
        client._answers.clear()
        for name, text in texts.items():
            path = tmp_path / "bin" / name
            path.write_text(f"#!/bin/sh\necho {name} >> '{tmp_path / 'calls'}'\n{text}\n")
            path.chmod(0o755)

    play(
        sbatch="echo 7", squeue="exit 0", scancel="exit 0", scontrol="echo 'Slurmctld(primary) is UP'",
        sacct=DISABLED, sinfo="exit 0",
    )  # fmt: skip
    return play


@pytest.fixture
def job(commands):
    """A job of one rank that was submitted a minute ago and is running."""
    job = submit(programs.sleeps, 60, backend="slurm")
    backend = files.read_json(job.folder / "backend.json")
    files.write_json(job.folder / "backend.json", backend | {"submitted": time.time() - 60})
    files.write_json(job.folder / "rank-0.json", {"rank": 0, "started": time.time() - 50})
    return job


@pytest.mark.parametrize(
    "message",
    [
        "echo 'sbatch: error: Submission failed: Socket timed out on send/recv operation' >&2; exit 1",
        "echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller' >&2; exit 1",
        "kill -9 $$",
    ],
)
def test_a_submission_without_an_answer_is_kept_and_found(commands, capsys, message):
    commands(sbatch=message)
    job = submit(programs.sleeps, 1, backend="slurm")
    assert job.id in capsys.readouterr().out and job.status == "pending"
    created = time.time() - 60
    os.utime(job.folder / "run.json", (created, created))
    commands(squeue=UNREACHABLE)
    assert job.status == "pending" and job.status.source == "slurm"
    commands(squeue=f"echo '8|RUNNING|None|short|{job.folder}'")
    assert job.status == "running" and files.read_json(job.folder / "backend.json")["job_id"] == "8"


def test_a_submission_that_slurm_does_not_have_is_lost(commands):
    commands(sbatch="echo 'Socket timed out' >&2; exit 1")
    job = submit(programs.sleeps, 1, backend="slurm")
    created = time.time() - 60
    os.utime(job.folder / "run.json", (created, created))
    assert job.status == "lost"


def test_a_refusal_leaves_nothing(commands, tmp_path):
    commands(sbatch="echo 'Batch job submission failed: Invalid account: contact the help desk' >&2; exit 1")
    with pytest.raises(errors.Refused, match="Invalid account"):
        submit(programs.sleeps, 1, backend="slurm")
    assert not list((tmp_path / "runs").glob("[!.]*"))


@pytest.mark.parametrize(
    ("scontrol", "sacct", "now"),
    [
        (UNREACHABLE, UNREACHABLE, "running"),
        (UNKNOWN, UNREACHABLE, "running"),
        (UNREACHABLE, "exit 0", "running"),
        (MUNGE, MUNGE, "running"),
        (UNKNOWN, DISABLED, "lost"),
        (UNKNOWN, "exit 0", "lost"),
        (UNKNOWN, "echo '7|CANCELLED by 1000'", "cancelled"),
    ],
)
def test_only_an_answer_ends_a_job(job, commands, scontrol, sacct, now):
    commands(scontrol=scontrol, sacct=sacct)
    assert job.status == now


def test_waiting_asks_once_a_second(job, commands, tmp_path):
    commands(scontrol="echo JobId=7 JobState=COMPLETED")
    (tmp_path / "calls").unlink()
    with pytest.raises(errors.NotFinished):
        job.wait(timeout=2, progress=False)
    assert (tmp_path / "calls").read_text().split().count("scontrol") <= 3


def test_a_cancellation_that_failed_leaves_no_trace(job, commands):
    commands(scancel=UNREACHABLE, scontrol="echo JobId=7 JobState=RUNNING")
    with pytest.raises(errors.BackendError, match="connect failure"):
        job.cancel()
    assert not (job.folder / "cancel.json").exists() and job.status == "running"
    commands(scancel="exit 0", scontrol="echo JobId=7 JobState=CANCELLED")
    assert job.cancel().status == "cancelled"


def test_the_first_call_cancels_a_submission_that_was_cut_off(job, commands, tmp_path):
    (job.folder / "backend.json").unlink()
    created = time.time() - 60
    os.utime(job.folder / "run.json", (created, created))
    commands(squeue=UNREACHABLE)
    with pytest.raises(errors.BackendError, match=job.id):
        job.cancel()
    commands(squeue=f"echo '8|RUNNING|None|short|{job.folder}'")
    job.cancel(wait=False)
    assert "scancel" in (tmp_path / "calls").read_text() and (job.folder / "cancel.json").exists()


def test_a_slow_controller_is_a_controller(commands, monkeypatch):
    """Is a controller that takes seconds to answer accepted? If it exceeds the time limit for answers, does
    the message state this limit?"""
    commands(scontrol="sleep 4; echo 'Slurmctld(primary) is UP'")
    assert client.no_slurm(remembered=False) is None
    monkeypatch.setattr(client, "ANSWER", 0.5)
    assert " 0.5 s" in client.no_slurm(remembered=False)


def test_what_scontrol_prints_stands_in_no_job_name(commands):
    """Is the reason, which is printed with each local job, one line, whatever scontrol prints?"""
    commands(scontrol="echo 'error: one' >&2; echo 'error: two' >&2; exit 1")
    reason = client.no_slurm(remembered=False)
    assert reason and "error" not in reason and "\n" not in reason


def test_the_controller_is_pinged_once_for_half_a_minute(commands, tmp_path, monkeypatch):
    """Is the controller's answer reused for half a minute, unless `remembered=False` requests a new one?"""
    assert [client.no_slurm(), client.no_slurm()] == [None, None]
    assert (tmp_path / "calls").read_text() == "scontrol\n"
    assert client.no_slurm(remembered=False) is None
    assert (tmp_path / "calls").read_text() == "scontrol\n" * 2
    now = client.time.monotonic()
    monkeypatch.setattr(client.time, "monotonic", lambda: now + 31)
    assert client.no_slurm() is None
    assert (tmp_path / "calls").read_text() == "scontrol\n" * 3
