"""Real ranks: the same function runs on the ranks of a job, with MPI (mpi4py).

job = submit(on_real_ranks, ring_allreduce, x, ranks_per_node=4, controller="mpi")
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Placeholder
from .errors import NotSeveralRanks
from .real_rank import RealRank, Receive

# A rank started by Open MPI's mpirun, srun with PMIx, or MPICH has one of these variables.
STARTED = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}
PATIENCE = 200  # polls, of about 1 µs each, before another process may have the core


def on_real_ranks(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call `function(comm, *args)` on this rank of a job; return its value.

    Ranks that wait for each other do so until the job's time limit. `simulate` reports at once which ranks
    wait for each other, so run it first. Raises NotSeveralRanks in a process that MPI did not start.
    """
    comm = world()
    returned = function(comm, *args, **keywords)
    comm.wait_for_all()
    return returned


def world() -> MPICommunicator:
    """Return the communicator of all ranks of this job; raises NotSeveralRanks if MPI did not start them."""
    # importing mpi4py would initialise MPI in this process, and disturb processes started from it
    if not STARTED & set(os.environ):
        raise NotSeveralRanks(
            "MPI has not started this process as a rank of a job\n"
            '→ submit(on_real_ranks, function, ranks_per_node=4, controller="mpi"), or `simulate` here.'
        )
    try:
        from mpi4py import MPI
    except ImportError as e:
        raise NotSeveralRanks(
            "mpi4py is not installed\n→ If there is an MPI, `make setup` installs it."
        ) from e
    return MPICommunicator(MPI.COMM_WORLD)


class MPICommunicator(RealRank):
    """One rank's view of MPI's network.

    comm: a communicator of mpi4py. A message is the pickled array with its shape and type, which is copied on
    both sides and adds about 150 bytes.
    """

    def __init__(self, comm: Any):
        super().__init__(comm.Get_rank(), comm.Get_size())
        self._comm = comm
        self._expected: list[Receive] = []  # in the order they were requested
        self._sending: list[_Send] = []  # MPI reads from these copies, even if nothing waits for them
        self._looked = 0

    def isend(self, x: Any, dest: int) -> _Send:
        array = x if isinstance(x, (np.ndarray, Placeholder)) else np.array(x)
        sent = _Send(self, self._comm.isend(array, dest=self._check(dest)))
        self._sending = [one for one in self._sending if not one.done()] + [sent]
        return sent

    def wait_for_all(self) -> None:
        """Wait until all ranks are here and outside MPI, because Horovod ends MPI on all ranks once one ends.

        MPI's barrier does not show whether others have left it, so the first to leave could end while another
        still polls. All ranks therefore wait again, for Horovod, which calls MPI in a separate thread.
        """
        from mpi4py import MPI

        request = self._comm.Ibarrier()
        while not MPI.Is_finalized() and not request.Test():  # finalized early: a rank has failed
            self._progress()
            time.sleep(0.001)  # leave the core to ranks that still compute
        hvd = sys.modules.get("horovod.tensorflow")
        if hvd and hvd.is_initialized() and not MPI.Is_finalized():
            hvd.allreduce(np.ones(1), op=hvd.Sum, name="all_ranks_have_left_mpi")

    def _expect(self, request: Receive) -> None:
        self._expected.append(request)

    def _look(self, source: int) -> None:
        self._progress()

    def _progress(self) -> None:
        """Receive arrived messages, each source's oldest request first, and yield the core now and then."""
        passed: set[int] = set()  # sources whose oldest request is still waiting
        for request in [*self._expected]:
            if request.source not in passed and (message := self._comm.improbe(source=request.source)):
                self._expected.remove(request)
                request.message, request.there = message.recv(), True
            else:
                passed.add(request.source)
        self._looked += 1
        if self._looked % PATIENCE == 0:
            os.sched_yield()


class _Send:
    """A message that this rank sends."""

    def __init__(self, comm: MPICommunicator, request: Any):
        self._comm, self._request = comm, request

    def wait(self) -> None:
        """Wait until MPI has taken the message; receive others meanwhile, or two senders might hang."""
        while not self.done():
            self._comm._progress()

    def done(self) -> bool:
        """Return whether MPI has taken the message."""
        return self._request.test()[0]
