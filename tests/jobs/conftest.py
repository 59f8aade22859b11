"""Backends for the contract suite: the local one always, and a real Slurm (see tests/slurm.py)."""

import sys
import time
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import slurm

from cluster.jobs import backends


@pytest.fixture(scope="session")
def cluster():
    """A running Slurm for all tests of the session: the project's own, or the one that was chosen."""
    with slurm.running() as cluster:
        yield cluster


@pytest.fixture
def own(cluster):
    """The same, for tests that stop its daemons, kill its nodes or change its accounts."""
    if not cluster.own:
        pytest.skip("stops daemons or changes limits: not on a cluster that is not the tests' own")
    return cluster


@pytest.fixture(scope="module", params=["local", pytest.param("slurm", marks=pytest.mark.slurm)])
def backend(request, tmp_path_factory):
    """Each backend in turn, with an empty folder of runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_RUNS", str(tmp_path_factory.mktemp("a folder of runs")))
        patch.setenv("CLUSTER_BACKEND", request.param)
        backends._seen.clear()
        if request.param == "slurm":
            request.getfixturevalue("cluster").enter(patch)
            request.getfixturevalue("overdue")
        yield request.param
    backends._seen.clear()


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """An empty folder of runs, on the local backend."""
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("CLUSTER_BACKEND", "local")
    return tmp_path / "runs"


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(tmp_path_factory):
    """After all tests no process works in their folders any more."""
    yield
    base, own = str(tmp_path_factory.getbasetemp()), psutil.Process()
    ours = {own, *own.parents()}  # --basetemp is a word of their own command

    def left():
        found = [p for p in psutil.process_iter(["cmdline"]) if base in " ".join(p.info["cmdline"] or [])]
        return [p.info["cmdline"] for p in found if p not in ours]

    deadline = time.monotonic() + 10
    while left() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left()


@pytest.fixture(scope="session")
def overdue(cluster, tmp_path_factory):
    """The folder of a job on Slurm that will reach its limit of a minute, Slurm's shortest."""
    import programs

    from cluster.jobs import submit

    with pytest.MonkeyPatch.context() as patch:
        cluster.enter(patch)
        folder = tmp_path_factory.mktemp("overdue")
        return submit(programs.sleeps, 300, time="00:01:00", backend="slurm", folder=folder).folder
