"""For all tests: what takes long is asked for, and a Slurm that somebody has started here is not theirs."""

import os

import pytest


def pytest_collection_modifyitems(items):
    """Tests marked `hub` run when they are asked for."""
    if os.environ.get("CLUSTER_TEST_HUB"):
        return
    for item in items:
        if item.get_closest_marker("hub"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: make test-hub"))


@pytest.fixture(scope="session", autouse=True)
def no_slurm_but_the_tests_own(tmp_path_factory):
    """Jobs find the Slurm of `make slurm` in its state folder: the tests look in an empty one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_STATE", str(tmp_path_factory.mktemp("no state")))
        yield
