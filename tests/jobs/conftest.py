"""Backends for the tests of jobs: the local one, and a real Slurm if there is one (see tests/slurm.py)."""

import pytest

from cluster.jobs import submit
from cluster.slurm import client

from . import programs


@pytest.fixture(scope="module", params=["local", pytest.param("slurm", marks=pytest.mark.slurm)])
def backend(request, tmp_path_factory):
    """Each backend in turn, with an empty folder of runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_RUNS", str(tmp_path_factory.mktemp("a folder of runs")))
        patch.setenv("CLUSTER_BACKEND", request.param)
        client.forget()
        if request.param == "slurm":
            request.getfixturevalue("cluster").enter(patch)
            request.getfixturevalue("overdue")
        yield request.param
    client.forget()


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """An empty folder of runs, on the local backend."""
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("CLUSTER_BACKEND", "local")
    return tmp_path / "runs"


@pytest.fixture
def here(cluster, runs, monkeypatch):
    """The tests' Slurm, with an empty folder of runs."""
    cluster.enter(monkeypatch)
    monkeypatch.setenv("CLUSTER_BACKEND", "slurm")
    monkeypatch.setattr(client, "_answers", {})
    monkeypatch.setattr(client, "FRESH", 0.1)
    return cluster


@pytest.fixture(scope="session")
def overdue(cluster, tmp_path_factory):
    """The folder of a job on Slurm that will exceed its time limit of one minute, the shortest that Slurm
    allows."""
    with pytest.MonkeyPatch.context() as patch:
        cluster.enter(patch)
        folder = tmp_path_factory.mktemp("overdue")
        return submit(programs.sleeps, 300, time="00:01:00", backend="slurm", folder=folder).folder
