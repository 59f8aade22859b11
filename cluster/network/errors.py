"""Errors of communication between ranks. A notebook shows only the message."""

from __future__ import annotations

from cluster.system.errors import ClusterError


class NetworkError(ClusterError):
    """Base class of the errors of `cluster.network`."""


class Deadlock(NetworkError, RuntimeError):
    """Ranks wait for each other, or for a rank that has ended; the message has each rank's line."""


class Unmatched(NetworkError, RuntimeError):
    """All ranks have ended, but a message was never received, or an expected one never sent."""


class SizeMismatch(NetworkError, ValueError):
    """A message, or an array to be added, has a different shape than its target."""


class NoSuchRank(NetworkError, ValueError):
    """A message to or from a rank that does not exist."""


class WrongSum(NetworkError, AssertionError):
    """An all-reduce whose elements lack a rank's contribution or contain it more than once."""


class NotSeveralRanks(NetworkError, RuntimeError):
    """This process was not started by MPI as one of several ranks."""
