"""Errors between ranks. A notebook shows the message alone."""

from __future__ import annotations

from cluster.system.errors import ClusterError


class NetworkError(ClusterError):
    """Base of the errors of `cluster.network`."""


class Deadlock(NetworkError, RuntimeError):
    """Ranks wait for each other, or for one that has ended: each with its line."""


class Unmatched(NetworkError, RuntimeError):
    """All ranks have ended, and a message was not received, or one that was expected was not sent."""


class SizeMismatch(NetworkError, ValueError):
    """A message, or what is added to it, has another shape than the place it is for."""


class NoSuchRank(NetworkError, ValueError):
    """A message to or from a rank that there is not."""


class WrongSum(NetworkError, AssertionError):
    """An all-reduce that lacks some rank's part in some elements, or has it more than once."""


class NotSeveralRanks(NetworkError, RuntimeError):
    """This process was not started by MPI as one of several ranks."""
