"""For all tests: a one-machine Slurm that somebody has started here is not theirs."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_slurm_but_the_tests_own(tmp_path_factory):
    """Jobs find the Slurm of `make slurm` in its state folder: the tests look in an empty one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_STATE", str(tmp_path_factory.mktemp("no state")))
        yield
