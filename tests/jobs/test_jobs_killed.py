"""If the submitting process, the launcher, the queue, a rank or its supervisor is killed at any time, the
same call still gives the result.

A first run, which is not killed, records each step that changes a file or starts a process. In each further
run, the process is killed right before one of these steps, half-way through a write, or right after it has
started another process.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster import attach, jobs, submit
from cluster.jobs import backends, errors
from cluster.jobs.submission import plan
from cluster.slurm import client

from .. import ROOT
from .killing import killable, sitecustomize

KILLING = Path(__file__).parent / "killing"
PATHS = os.pathsep.join([str(KILLING), str(ROOT)])  # so that Python imports sitecustomize.py at startup
STATES = {"pending", "running", "done", "failed", "cancelled", "lost"}


@pytest.fixture(params=["local", "slurm"])
def backend(request, tmp_path, monkeypatch):
    """The local backend, or a fake Slurm that accepts each job and runs it at once."""
    monkeypatch.setenv("CLUSTER_BACKEND", request.param)
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))  # killable.ask sets it in this process, too
    monkeypatch.setenv("CALLED", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", PATHS)
    monkeypatch.setattr(backends, "CUT_OFF", 0.2)
    monkeypatch.setattr(client, "FRESH", 0.3)
    monkeypatch.setattr(client, "_answers", {})
    for name in ("sbatch", "srun", "squeue", "scontrol", "sacct", "scancel", "sinfo"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!{sys.executable}\n{(KILLING / 'standin.py').read_text()}")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("STANDIN", str(tmp_path))
    return request.param


def settle(folder, at_work=False):
    """Wait until all jobs in a folder have ended (with `at_work`: or are running), and return them.

    Fails if a job cannot be read.
    """
    deadline = time.monotonic() + 60
    while True:
        result = jobs(folder=folder)
        assert not result.unreadable, result.unreadable
        assert {str(job.status) for job in result} <= STATES
        working = at_work and calls(folder.parent)
        if all(job.status.ended or (working and job.status == "running") for job in result):
            return result
        assert time.monotonic() < deadline, repr(result)
        time.sleep(0.05)


def calls(folder):
    path = folder / "calls"
    return sorted(path.read_text().split()) if path.exists() else []


def look(folder):
    """Return the visible contents of a folder of runs."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("[!.]*") if "/." not in str(p))


def submitted(kind, place, *which):
    """Kill a submission at each step and verify its files and states; yield one folder per distinct
    outcome."""
    command = [sys.executable, "-m", "tests.jobs.killing.submitter", kind, str(place), *which]
    output = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert output.returncode == 0, output.stderr
    names = [n for n in output.stdout.split() if (place / n).is_dir()]
    assert len(names) >= 4 + 6 * (not which) and {n.partition("-")[2] for n in names} == {
        "before",
        "half",
        "after",
    }
    seen = set()
    for folder in (place / n for n in names):
        result = settle(folder / "runs", at_work=True)
        assert calls(folder) == ["7"] * any(job.status == "running" for job in result), folder.name
        for job in result:
            assert attach(job.id, folder / "runs").status == job.status
        shape = (*look(folder / "runs"), *(str(job.status) for job in result))
        if shape not in seen:
            seen.add(shape)
            yield folder
        (folder / "wait").unlink(missing_ok=True)
        settle(folder / "runs")
    # not created (only without `made`); created but not started; running
    assert len(seen) >= 2 + (not which), seen


def again(kind, folder):
    """Repeat the call; verify that the function has run exactly once and that its result is right."""
    job = killable.ask(kind, folder)
    (folder / "wait").unlink()
    assert killable.result(kind, job) == [70], folder.name
    assert calls(folder) == ["7"], folder.name
    assert [job.status for job in jobs(state="done")] == ["done"]


@pytest.mark.parametrize("kind", ["submit", "map"])
def test_a_submission_that_is_killed_at_any_step(backend, tmp_path, kind):
    """If a submission is killed at any step, does repeating the call give the result after exactly one run?

    Both backends do the same until the job's folder exists, so these steps are tested with only one of them.
    """
    for folder in submitted(kind, tmp_path, *(["made"] if backend == "slurm" else [])):
        again(kind, folder)


@pytest.mark.parametrize("backend", ["local"], indirect=True)
@pytest.mark.parametrize("kind", ["submit-failed", "submit-cancelled", "map-failed", "map-cancelled"])
def test_a_submission_that_runs_again_is_killed_at_any_step(backend, tmp_path, kind):
    """If a call reruns a failed or cancelled run and is killed at any step, does repeating it give the
    result?"""
    for folder in submitted(kind, tmp_path):
        again(kind, folder)


WHO = {  # process to kill: (kind of submission, possible final states)
    "cluster.jobs.backends.local_launcher forked": ("submit", {"lost", "done"}),
    "cluster.jobs.backends.local_queue forked": ("map of two", {"lost", "done"}),
    "cluster.jobs.rank.main first": ("submit", {"failed"}),
    "cluster.jobs.rank.main forked": ("submit", {"failed"}),
}


@pytest.mark.parametrize("backend", ["local"], indirect=True)
@pytest.mark.parametrize("who", WHO)
def test_a_process_of_a_job_that_is_killed_at_any_step(backend, tmp_path, monkeypatch, who):
    """If the launcher, the queue, a rank's supervisor or the rank itself is killed at any step, does the job
    reach a final state? Does repeating the call give the result?"""
    kind, states = WHO[who]
    expected = [70, 80] if kind == "map of two" else [70]
    monkeypatch.setenv("KILL_WHO", who)
    monkeypatch.setenv("KILL_LOG", str(tmp_path / "steps"))

    def start(name):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("KILL_FOLDER", str(tmp_path / name / "runs"))
        try:
            killable.ask(kind, tmp_path / name)
        except errors.BackendError as e:
            assert e.next_step
        return tmp_path / name

    settle(start("dry") / "runs")
    steps = (tmp_path / "steps").read_text().splitlines()
    monkeypatch.setenv("KILL_LOG", "")
    folders = []
    for at, how in sitecustomize.ways(steps):
        monkeypatch.setenv("KILL_AT", f"{at} {how}")
        folders.append(start(f"{at}-{how}"))
    monkeypatch.delenv("KILL_WHO")
    seen = set()
    for folder in folders:
        result = settle(folder / "runs")
        assert len(result) == 1, folder.name
        shape = (str(result[0].status), *sorted({p.name for p in (folder / "runs").rglob("[!.]*")}))
        if shape not in seen:
            seen.add(shape)
            assert killable.result(kind, killable.ask(kind, folder)) == expected, folder.name
    assert len(steps) > 3 and {shape[0] for shape in seen} == states, (steps, seen)


@pytest.mark.parametrize("backend", ["slurm"], indirect=True)
def test_what_was_never_submitted_is_not_taken_for_what_runs(backend, tmp_path, monkeypatch):
    """If a submission was interrupted and Slurm might still list its job, does repeating the call wait until
    this is ruled out, and then submit a new job?"""
    monkeypatch.setattr(backends, "CUT_OFF", 3600.0)
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("CALLED", str(tmp_path))
    planned = plan(killable.called, (7,), {})
    planned.make(backends.get("slurm"), planned.run_json("slurm")).held.close()
    assert jobs()[0].status.source == "cut off"
    monkeypatch.setattr(backends, "CUT_OFF", 1.0)
    assert submit(killable.called, 7).result() == 70
    assert [str(job.status) for job in jobs()] == ["done", "lost"]


@pytest.mark.slurm
@pytest.mark.parametrize("kind", ["submit", "map"])
def test_a_submission_to_slurm_that_is_killed_is_found_there(cluster, tmp_path, monkeypatch, kind):
    """If a submission to a real Slurm is killed before, during or after `sbatch`, does repeating the call
    find the job if Slurm has accepted it, and does the function run only once?"""
    cluster.enter(monkeypatch)
    for name in ("CLUSTER_RUNS", "CALLED"):
        monkeypatch.setenv(name, str(tmp_path))  # killable.ask sets it in this process, too
    monkeypatch.setenv("CLUSTER_BACKEND", "slurm")
    monkeypatch.setenv("PYTHONPATH", PATHS)
    monkeypatch.setattr(backends, "CUT_OFF", 5.0)
    monkeypatch.setattr(client, "FRESH", 0.3)
    monkeypatch.setattr(client, "_answers", {})
    for folder in submitted(kind, tmp_path, "made"):
        again(kind, folder)
