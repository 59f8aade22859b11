"""Common code for ranks that are processes or threads, independent of the transport of messages."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .communicator import Communicator
from .errors import Deadlock, NoSuchRank, SizeMismatch


class RealRank(Communicator, ABC):
    """The part of a communicator that does not depend on the transport of messages."""

    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size
        self._begin = time.perf_counter()

    @abstractmethod
    def _expect(self, request: Receive) -> None:
        """Register a receive request; messages of a source are matched to its requests in order."""

    def _withdraw(self, request: Receive) -> None:
        """Forget a request that will not be waited for again, so that the next one gets its message."""

    @abstractmethod
    def _look(self, source: int) -> None:
        """Match arrived messages to their requests; called until the message of `source` has arrived."""

    def send(self, x: Any, dest: int) -> None:
        self.isend(x, dest).wait()

    def sendreceive(self, x: Any, dest: int, source: int, into: Any = None) -> Any:
        sent = self.isend(x, dest)
        taken = self.receive(source, into)
        sent.wait()
        return taken

    def receive(self, source: int, into: Any = None) -> Any:
        request = self.ireceive(source, into)
        try:
            return request.wait()
        except Deadlock:
            self._withdraw(request)
            raise

    def ireceive(self, source: int, into: Any = None) -> Receive:
        request = Receive(self, self._check(source), into)
        self._expect(request)
        return request

    def add(self, into: Any, x: Any) -> Any:
        if np.shape(into) != np.shape(x):
            raise SizeMismatch(
                f"rank {self.rank} adds an array of shape {np.shape(x)} to one of shape {np.shape(into)}\n"
                "→ Cut the array in the same way on all ranks: a message has the sender's size."
            )
        into += x
        return into

    def compute(self, seconds: float) -> None:
        time.sleep(seconds)

    def time(self) -> float:
        return time.perf_counter() - self._begin

    def _check(self, other: int) -> int:
        if not 0 <= other < self.size:
            raise NoSuchRank(
                f"rank {self.rank} has no rank {other} to talk to\n→ The ranks are 0 … {self.size - 1}."
            )
        return int(other)


class Receive:
    """A message that a rank expects."""

    def __init__(self, comm: RealRank, source: int, into: Any):
        self._comm, self.source, self._into = comm, source, into
        self.message: Any
        self.message, self.there = None, False

    def wait(self) -> Any:
        """Return the message once it has arrived."""
        while not self.there:
            self._comm._look(self.source)
        if self._into is None:
            return self.message
        if np.shape(self._into) != np.shape(self.message):
            raise SizeMismatch(
                f"rank {self.source} sends an array of shape {np.shape(self.message)}, and rank "
                f"{self._comm.rank} has room for one of shape {np.shape(self._into)}\n"
                "→ Cut the array in the same way on all ranks, also if p does not divide n."
            )
        self._into[...] = self.message
        return self._into
