"""Behaviour specific to Slurm: refused, pending and unknown jobs, and a controller that does not answer."""

import time

import pytest

from cluster.jobs import attach, errors, submit
from cluster.jobs.backends import slurm
from cluster.slurm import client
from cluster.system import files

from . import programs, sweeps

pytestmark = pytest.mark.slurm


@pytest.fixture
def here(cluster, tmp_path, monkeypatch):
    cluster.enter(monkeypatch)
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("CLUSTER_BACKEND", raising=False)
    monkeypatch.setattr(client, "_answers", {})
    monkeypatch.setattr(client, "FRESH", 0.1)
    return cluster


def test_a_controller_that_answers_is_chosen(here, tmp_path, capsys):
    job = submit(programs.counts_calls, str(tmp_path / "calls"))
    assert job.backend == "slurm" and "on the slurm backend" in capsys.readouterr().out
    assert job.result() == 1


def test_a_refusal_holds_slurms_words_and_the_partitions(here, tmp_path):
    with pytest.raises(errors.Refused, match="invalid partition") as caught:
        submit(programs.sleeps, 1, partition="gpu")
    default = next(n for n in here.ask("sinfo", "-h", "-o", "%P").split() if n.endswith("*"))
    assert default in caught.value.next_step
    assert not list((tmp_path / "runs").glob("[!.]*"))


def test_a_job_cancelled_from_outside_is_cancelled(here):
    job = submit(programs.sleeps, 60)
    while "asleep" not in job.logs(0):
        time.sleep(0.1)
    number = job.folder / "backend.json"
    here.ask("scancel", files.read_json(number)["job_id"])
    assert job.wait().status == "cancelled"
    assert attach(files.read_json(number)["job_id"]).id == job.id


def test_a_submission_cut_off_before_its_number_was_kept_is_found_again(here, tmp_path):
    job = submit(sweeps.waits, 1, place=str(tmp_path))
    (job.folder / "backend.json").unlink()
    while not (job.folder / "backend.json").exists():
        assert job.status in ("pending", "running")
    (tmp_path / "go").touch()
    job.wait()
    assert job.status == "done"


def test_a_job_nobody_knows_is_lost(here, monkeypatch):
    job = submit(programs.sleeps, 60)
    while "asleep" not in job.logs(0):
        time.sleep(0.1)
    monkeypatch.setattr(slurm, "_squeue", dict)
    monkeypatch.setattr(slurm, "_forgotten", lambda job_id: "")
    monkeypatch.setattr(slurm, "SETTLE", 3600)
    assert job.status == "pending"  # the job may be too new to be listed
    monkeypatch.setattr(slurm, "SETTLE", 0)
    assert job.status == "lost"
    number = files.read_json(job.folder / "backend.json")["job_id"]
    here.ask("scancel", number)
    while here.ask(
        "squeue", "-h", "-j", number
    ):  # without waiting, slurmctld would learn only a minute later that the step has ended
        time.sleep(0.1)


def test_a_controller_that_stops_answering_changes_no_state(here, own, tmp_path, monkeypatch):
    """If the controller stops and restarts, is a running job shown as running meanwhile, and as done at its
    end?"""
    job = submit(sweeps.waits, 1, place=str(tmp_path))
    while not (tmp_path / "began-1").exists() or job.status != "running":
        time.sleep(0.1)
    own.stop_controller()
    try:
        time.sleep(0.3)
        with monkeypatch.context() as short:
            short.setattr(client, "ANSWER", 1)
            now = job.status
        assert (now, now.source) == ("running", "last seen")
    finally:
        own.start_controller()
    (tmp_path / "go").touch()
    assert job.wait().status == "done"


def test_the_end_is_known_without_the_controller(here, tmp_path, monkeypatch):
    """Do the ranks' own records show how a job ended, without asking Slurm?"""
    job = submit(programs.counts_calls, str(tmp_path / "calls"))
    monkeypatch.setattr(client, "ask", lambda *command, **options: pytest.fail("Slurm was asked"))
    monkeypatch.setattr(slurm, "_squeue", lambda: None)
    assert job.wait().result() == 1
