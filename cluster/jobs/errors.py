"""Errors of jobs: one class for each way a job can be refused, and one for each way it can end.

`error.what` and `error.next_step` are the two halves of the message.
"""

from __future__ import annotations

from cluster.system.errors import ClusterError


class JobError(ClusterError):
    """Base of all errors of `cluster.jobs`: `what` happened, and the `next_step`."""


# Refused before anything ran.
class OptionError(JobError, TypeError):
    """A keyword that is neither an option of `submit` nor a parameter of the function, or both at once."""


class OptionValueError(JobError, ValueError):
    """An option has an invalid value, such as `memory="2GG"`."""


class TooManyRanks(OptionValueError):
    """The job has more ranks than the local backend allows on this machine."""


class NotPicklable(JobError, TypeError):
    """The function, or something it refers to, cannot be sent to the ranks."""


class BackendError(JobError):
    """The requested backend is not available, or a tool it needs is missing."""


class Refused(BackendError):
    """Slurm rejected the job; the message contains the output of `sbatch`."""


class CanNeverRun(Refused):
    """The job requests more than its partition or account offers and would stay pending indefinitely.

    `submit` raises it if the limits are already known. `wait` and `result` raise it if Slurm reports it
    later; the job then stays in the queue until it is cancelled.
    """


class StillRunning(JobError):
    """The same run is still pending or running, so it cannot be started again."""


class NoSuchJob(JobError, LookupError):
    """No job folder matches the given ID, name or path."""


class NotYours(JobError, PermissionError):
    """A job folder belongs to another user, so nothing in it is loaded."""


class NotFinished(JobError, TimeoutError):
    """`wait(timeout=...)` returned before the job ended. The job continues."""


# Failures of a job. `job.result()` raises them.
class JobFailed(JobError):
    """Base class of failed endings. `rank`: the first that failed (or None); `traceback`: its traceback."""

    rank: int | None = None
    traceback: str = ""

    def __str__(self) -> str:
        """Return what happened, the rank's own traceback if there is one, and the next step."""
        parts = [self.what, self.traceback.rstrip(), f"→ {self.next_step}" if self.next_step else ""]
        return "\n".join(p for p in parts if p)


class RankFailed(JobFailed):
    """The code raised an exception on a rank."""


class RankKilled(JobFailed):
    """A rank was killed by a signal, for example by a segmentation fault or from outside."""


class OutOfMemory(JobFailed):
    """A rank used more memory than the job had."""


class OutOfTime(JobFailed):
    """The job reached its time limit."""


class NodeFailed(JobFailed):
    """A node failed during the job, which is not the fault of the job's code."""


class Preempted(JobFailed):
    """The job was preempted by one with a higher priority, which is not the fault of the job's code."""


class Cancelled(JobFailed):
    """Someone cancelled the job."""


class Lost(JobFailed):
    """Neither the job's folder nor the backend knows how the job ended."""


class LaunchFailed(JobFailed):
    """The ranks could not be started. The reason is in the job's log."""


class WrongWorldSize(JobFailed):
    """Horovod's number of ranks differs from the job's, so nothing would be averaged."""


class ResultError(JobFailed, TypeError):
    """A part of the returned value has no encoding; the job is done, and the rest of the value is stored."""


class ResultTooLarge(JobFailed, ValueError):
    """The returned value is larger than the limit for results; the job is done, and what fits is stored."""


class Damaged(JobFailed):
    """A recorded file is missing, or was changed after the run ended."""


ENDINGS = {c.__name__: c for c in JobFailed.__subclasses__()}


class SweepFailed(JobFailed):
    """Items of a sweep failed. `failures` is {item: its error}, and the message contains all of them."""

    failures: dict[int, JobFailed]

    @classmethod
    def from_failures(cls, name: str, items: list, failures: dict[int, JobFailed]) -> SweepFailed:
        """Return the error for these failures: a line for each, a traceback for the first of each kind."""
        n, shown, seen = len(failures), [], set()
        for i, e in list(failures.items())[:10]:
            step = "" if e.traceback else f" → {e.next_step}"
            shown.append(f"items[{i}] = {items[i]!r}: {type(e).__name__}: {e.what}{step}")
            if e.traceback and e.traceback not in seen:
                shown.append(e.traceback.rstrip())
            seen.add(e.traceback)
        shown += [f"... and {n - 10} more: see sweep.failures."] if n > 10 else []
        error = cls(
            f"{n} of the {len(items)} items of {name} failed.",
            "sweep.results(failed=None) returns the others. Call map() again to rerun the failed items.",
        )
        error.failures, error.traceback = failures, "\n".join(shown)
        return error
