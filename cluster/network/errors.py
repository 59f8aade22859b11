"""What goes wrong between ranks, said so that it can be mended. A notebook shows the message alone."""

from __future__ import annotations


class NetworkError(Exception):
    """Base of the errors of `cluster.network`."""

    def _render_traceback_(self) -> list[str]:
        """The lines IPython and Jupyter print in place of a traceback."""
        first, *rest = str(self).splitlines()
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {first}", *rest, *getattr(self, "__notes__", ())]


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
