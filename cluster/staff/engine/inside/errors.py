"""The engine's errors: one class for each way in which the grading of a submission stops.

They are inside, because the processes in the sandboxes raise some of them.
"""

from __future__ import annotations

from cluster.system.errors import ClusterError


class EngineError(ClusterError):
    """Base of the engine's errors: `what` happened, and the `next_step`."""


# One process waits for another.
class ChannelError(EngineError):
    """The process at the other end of a channel has not answered."""


class ProcessLostError(ChannelError):
    """The other process has ended, or what it sent is not a message."""


class AnswerTimeoutError(ChannelError):
    """The other process did not answer in time."""


# The submission itself stops its grading.
class NotebookEndedError(EngineError):
    """The student's process ended, or did not react: there is nothing to ask the checks about."""


class FilesTooLargeError(EngineError):
    """The submitted files are larger than allowed."""


# The machine stops it.
class InfrastructureError(EngineError):
    """The machine failed: nothing is known of the submission."""

    def __init__(self, what: str, next_step: str = "Grade the submission again."):
        super().__init__(what, next_step)


class StarvedError(InfrastructureError):
    """A limit was met because the machine was busy with others."""

    def __init__(self, what: str, next_step: str = "Grade the submission again, alone."):
        super().__init__(what, next_step)


class CheckHeldUpError(EngineError):
    """A check met its limit because the machine was busy: it may take longer by the clock."""


class CheckStopped(BaseException):
    """Base of what ends a running check. Not an Exception, so that no check can catch it."""


class NoAnswerError(CheckStopped):
    """The student's process, or that of the ranks, cannot be asked any more."""


class CheckTimeoutError(CheckStopped):
    """The time of this check is over."""


class RanksNotMetError(CheckStopped):
    """The ranks could not be started: nothing is known of the submission."""
