"""Real ranks without MPI: threads in a few processes, with a connection between each pair of processes.

`cluster.checks.on_ranks` provides no MPI, and Horovod cannot send messages between two ranks. Rank r runs in
process r % processes, so neighbours in a ring are in different processes and share no memory.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np

from .errors import Deadlock
from .real_rank import RealRank, Receive

HERE = "127.0.0.1"
END = "end"  # sent instead of a message by a rank that has ended
BEFORE_RANKS = -1  # the rank number of messages between processes, which no rank has


def connections() -> tuple[int, dict[int, Connection]]:
    """Return this process's index in Horovod, and a connection to each of the job's other processes."""
    import horovod.tensorflow as hvd

    hvd.init()
    process, to = hvd.rank(), {}
    key = hvd.broadcast_object(os.urandom(32), name="key")  # prevents connections from other programs
    with Listener((HERE, 0), backlog=hvd.size(), authkey=key) as listener:
        addresses = hvd.allgather_object(listener.address, name="addresses")
        for other in range(process):
            to[other] = Client(tuple(addresses[other]), authkey=key)
            to[other].send(process)
        for _ in range(process + 1, hvd.size()):
            connection = listener.accept()
            to[connection.recv()] = connection
    return process, to


class Sockets:
    """This process and its connections to all others.

    patience: seconds to wait for a message before a deadlock is reported; halved, then quartered, after one.
    """

    def __init__(self, process: int, to: Mapping[int, Connection], patience: float = 8.0):
        self.process, self.processes = process, len(to) + 1
        self.patience, self.least = patience, patience / 4
        self.arrived = threading.Condition()
        self.messages: defaultdict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        self._to, self._sends = to, threading.Lock()
        for connection in to.values():
            threading.Thread(target=self._listen, args=(connection,), daemon=True).start()

    def put(self, call: int, source: int, dest: int, x: Any) -> None:
        """Send x, an array or END, from one rank to another."""
        if dest % self.processes == self.process:
            self._arrive((call, source, dest), x)
        else:
            with self._sends:
                self._to[dest % self.processes].send(((call, source, dest), x))

    def meet(self, call: int, seconds: float) -> None:
        """Wait until all processes have reached this call, but no longer than `seconds`."""
        keys = [(call, BEFORE_RANKS - process, BEFORE_RANKS) for process in self._to]
        with self._sends:
            for connection in self._to.values():
                connection.send(((call, BEFORE_RANKS - self.process, BEFORE_RANKS), END))
        with self.arrived:
            self.arrived.wait_for(lambda: all(self.messages[key] for key in keys), seconds)

    def _arrive(self, key: tuple[int, int, int], x: Any) -> None:
        with self.arrived:
            self.messages[key].append(x)
            self.arrived.notify_all()

    def _listen(self, connection: Connection) -> None:
        """Receive whatever arrives, so that no rank waits for a receiver that is computing."""
        try:
            while True:
                self._arrive(*connection.recv())
        except (EOFError, OSError):  # that process has ended
            return


class SocketCommunicator(RealRank):
    """One rank's view of the network; sending never waits. refused: the text of its last Deadlock."""

    def __init__(self, sockets: Sockets, call: int, rank: int, size: int):
        super().__init__(rank, size)
        self._sockets, self._call, self.refused = sockets, call, ""
        self._expected: defaultdict[int, deque[Receive]] = defaultdict(deque)  # in order of the requests

    def isend(self, x: Any, dest: int) -> _Sent:
        self._sockets.put(self._call, self.rank, self._check(dest), np.array(x))
        return _Sent()

    def end(self) -> None:
        """Inform ranks that still wait for this one that its function has ended."""
        for other in range(self.size):
            self._sockets.put(self._call, self.rank, other, END)

    def _expect(self, request: Receive) -> None:
        self._expected[request.source].append(request)

    def _withdraw(self, request: Receive) -> None:
        self._expected[request.source].remove(request)

    def _look(self, source: int) -> None:
        """Pass the next message of a rank to the oldest request for it; raises Deadlock if none arrives."""
        sockets = self._sockets
        with sockets.arrived:
            queue = sockets.messages[self._call, source, self.rank]
            why = "has ended"
            if not sockets.arrived.wait_for(lambda: queue, sockets.patience):
                sockets.patience, why = max(sockets.patience / 2, sockets.least), "sends none"
            if not queue or isinstance(queue[0], str):
                self.refused = f"rank {self.rank} waits for a message from rank {source}, which {why}"
                raise Deadlock(self.refused)
            message = queue.popleft()
        request = self._expected[source].popleft()
        request.message, request.there = message, True


class _Sent:
    """A message that has been sent."""

    def wait(self) -> None:
        """Return at once."""
