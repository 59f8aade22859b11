"""The autograder's errors: one class for each reason that stops the grading of a submission.

They are in `inside`, because processes in the sandboxes raise some of them.
"""

from __future__ import annotations

from cluster.system.errors import ClusterError


class EngineError(ClusterError):
    """Base of the autograder's errors; the verdict contains the text."""


# Another process fails or does not answer.
class ChannelError(EngineError):
    """The process at the other end of a channel did not answer."""


class ProcessLostError(ChannelError):
    """The other process has ended, or sent an invalid message."""


class AnswerTimeoutError(ChannelError):
    """The other process did not answer in time."""


# The submission itself stops its grading.
class NotebookEndedError(EngineError):
    """No check can run: the student process ended or did not react, or the submitted files are too large."""


# The machine stops the grading.
class InfrastructureError(EngineError):
    """The machine failed, so nothing is known about the submission, and it is graded again."""


class StarvedError(InfrastructureError):
    """A limit was reached because the machine was busy with other processes; it is graded again, alone."""


class CheckHeldUpError(EngineError):
    """A check reached its limit because the machine was busy, so it gets more wall-clock time."""


class CheckStopped(BaseException):
    """Base of the errors that end a running check; not an Exception, because a check must not catch it."""


class NoAnswerError(CheckStopped):
    """The student process or the ranks' process no longer answers."""


class CheckTimeoutError(CheckStopped):
    """A check has reached its time limit."""


class RanksNotMetError(CheckStopped):
    """The ranks could not be started, so nothing is known about the submission."""
