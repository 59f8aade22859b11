"""Behaviour specific to Slurm: refused, pending and unknown jobs, and a controller that does not answer."""

import time

import pytest

from cluster.jobs import attach, errors, submit
from cluster.jobs.backends import slurm
from cluster.slurm import client
from cluster.system import files

from . import programs, sweeps

pytestmark = pytest.mark.slurm


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
