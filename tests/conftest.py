"""Configuration for all tests. Tests of the complete hub run only on request, and no test uses the Slurm of
`make slurm`.
"""

import os
import time

import psutil
import pytest

from cluster.jobs.backends.forked_ranks import LIBRARIES, offered
from cluster.jobs.backends.forked_ranks import VARIABLE as FORKED_RANKS
from cluster.staff.release import twins

from . import ROOT, marks, slurm, variables


def pytest_configure(config):
    """Before any worker starts, write the notebooks in solutions/ that are older than their scripts."""
    if not hasattr(config, "workerinput"):
        twins.write_notebooks(ROOT)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Skip tests marked `hub` unless requested; with several workers, assign tests to their groups."""
    if config.getoption("loadgroup", False):  # in a worker of pytest-xdist
        marks.divide(items)
    if os.environ.get("CLUSTER_TEST_HUB"):
        return
    for item in items:
        if item.get_closest_marker("hub"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: make test-hub"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Verify that a test starts ranks, a Slurm or a server only if it has the matching mark."""
    with marks.held_to_its_marks(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    """Store the environment before the first test of a module."""
    variables.begin(str(item.path))
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item, nextitem):
    """Verify after the last test of a module that the environment is unchanged."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        variables.end(str(item.path))
    return result


@pytest.fixture(autouse=True)
def environment(request):
    """Verify that a test and its function-scoped fixtures leave the environment unchanged."""
    with variables.kept(request.node.nodeid):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    """Report a test by the ID that pytest accepts, without the group that determines its worker."""
    if hasattr(report, "node"):  # in the process that controls the workers
        report.nodeid = marks.own_id(report.nodeid)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(tmp_path_factory):
    """Verify after all tests that no process is still running in the tests' folders."""
    yield
    base, own = f"{tmp_path_factory.getbasetemp()}/", psutil.Process()  # pytest-1 must not match pytest-12
    ours = {own, *own.parents()}  # --basetemp is an argument of this command, too

    def left():
        processes = [p for p in psutil.process_iter(["cmdline"]) if base in " ".join(p.info["cmdline"] or [])]
        return [p.info["cmdline"] for p in processes if p not in ours]

    deadline = time.monotonic() + 60
    while left() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left()


@pytest.fixture(scope="session", autouse=True)
def no_slurm_but_the_tests_own(tmp_path_factory):
    """Hide the Slurm of `make slurm` from the tests' jobs by setting an empty state folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_STATE", str(tmp_path_factory.mktemp("no state")))
        yield


@pytest.fixture(scope="session")
def cluster():
    """A running Slurm for all tests of the session: the project's own, or the cluster that CLUSTER_TEST_SLURM
    selects.
    """
    with slurm.running() as cluster:
        yield cluster


@pytest.fixture
def own(cluster):
    """The tests' own Slurm, for tests that stop its daemons, kill its nodes or change its accounts. If an
    external cluster is selected, these tests are skipped.
    """
    if not cluster.own:
        pytest.skip("stops daemons or changes limits: not on a cluster that is not the tests' own")
    return cluster


@pytest.fixture(scope="session")
def forked_ranks():
    """Yield a value of $CLUSTER_WARM that spares ranks on this machine the import of TensorFlow."""
    with offered((*LIBRARIES, "cluster.training.distributed", "cluster.training.models")):
        yield os.environ.pop(FORKED_RANKS)  # only tests that set it use these ranks


@pytest.fixture
def warm_ranks(forked_ranks, monkeypatch):
    """Set $CLUSTER_WARM for the jobs of one test."""
    monkeypatch.setenv(FORKED_RANKS, forked_ranks)
