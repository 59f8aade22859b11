"""Real ranks, started by MPI, return the same as ranks in virtual time."""

import os
import pickle
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from cluster import submit
from cluster.jobs.errors import RankFailed
from cluster.network import Network, on_real_ranks, real, simulate
from cluster.network.errors import NotSeveralRanks

from .. import ALL, ROOT
from . import programs

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
NETWORK = Network(1e-6, 1e-9)


@pytest.fixture(scope="module", params=[2, 4] if ALL else [4])
def returned(request, tmp_path_factory):
    """Return (the value from each real rank, the value from each virtual rank). This takes ten seconds on a
    busy machine."""
    ranks, folder = request.param, tmp_path_factory.mktemp("ranks")
    if not shutil.which("mpirun"):
        pytest.skip("there is no mpirun: apt-get install openmpi-bin")
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    command = ["mpirun", *root, "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
    command += [sys.executable, "-m", "tests.network.programs", str(folder)]
    env = os.environ | ONE_THREAD | {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    results = [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(ranks)]
    return results, simulate(programs.every, ranks=ranks, network=NETWORK).results


def same(a, b):
    """Return whether two nested lists, tuples and arrays are equal, including the arrays' types."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return a == b


@pytest.mark.ranks
@pytest.mark.parametrize("name", [program.__name__ for program in programs.ALL])
def test_real_ranks_do_what_virtual_ones_do(returned, name):
    """Does each real rank, of 4, and in `make test-all` of 2, return the same as in virtual time, to the last
    bit?"""
    for real_rank, virtual_rank in zip(*returned, strict=True):
        assert same(real_rank[name], virtual_rank[name]), (real_rank[name], virtual_rank[name])


def on_two_ranks(function, folder):
    """Submit a job of two ranks that MPI starts on this machine."""
    return submit(
        on_real_ranks,
        function,
        ranks_per_node=2,
        controller="mpi",
        backend="local",
        folder=folder,
        env=ONE_THREAD,
    )


def one_ends_early(comm):
    """Begin to send two messages on rank 1, one of them large, and return; receive them on rank 0 later."""
    if comm.rank == 1:
        comm.isend(np.arange(programs.LARGE), 0)
        comm.isend(np.arange(3), 0)
        return None
    time.sleep(2)
    return [comm.receive(1)[-1] for _ in range(2)]


@pytest.mark.ranks
def test_a_rank_may_end_before_the_others(tmp_path):
    """If one rank ends early, can the others still send and receive? (Horovod ends MPI in all ranks as soon
    as one of them ends.)"""
    job = on_two_ranks(one_ends_early, tmp_path)
    assert job.results() == [[programs.LARGE - 1, 2], None]


def one_is_held_up(comm):
    """On rank 1, wait two seconds between the check that MPI may still be called and the call, as on a busy
    core."""
    if comm.rank == 1:
        from mpi4py import MPI

        look = MPI.Is_finalized

        def look_and_be_held_up():
            result = look()
            time.sleep(2)
            return result

        MPI.Is_finalized = look_and_be_held_up
    return comm.rank


@pytest.mark.ranks
def test_no_rank_ends_while_another_still_calls_mpi(tmp_path):
    """Does a rank that has left MPI's final barrier wait for one that has not yet noticed the end of the
    barrier?"""
    job = on_two_ranks(one_is_held_up, tmp_path)
    assert job.results() == [0, 1]


def fails_while_another_waits(comm):
    """Raise an error on rank 1, while rank 0 waits for its message."""
    if comm.rank == 1:
        raise ValueError("no message today")
    return comm.receive(1)


@pytest.mark.ranks
def test_the_rank_that_raises_is_the_one_that_is_named(tmp_path):
    """If one rank raises an error and MPI ends while the other waits, does the job raise the first rank's
    error?"""
    job = on_two_ranks(fails_while_another_waits, tmp_path)
    with pytest.raises(RankFailed, match="ValueError on rank 1: no message today"):
        job.results()


def test_a_process_without_mpi_is_told(monkeypatch):
    """If MPI has not started a process, does the error name the missing option, without initialising MPI?"""
    for name in real.STARTED:
        monkeypatch.delenv(name, raising=False)
    before = "mpi4py.MPI" in sys.modules
    with pytest.raises(NotSeveralRanks, match='controller="mpi"'):
        on_real_ranks(programs.sums)
    assert ("mpi4py.MPI" in sys.modules) == before
