"""Slurm's states of a job and its reasons for waiting, with their meaning, in one table.

The reasons are from Slurm's manual (https://slurm.schedmd.com/job_reason_codes.html), from its source between
20.11 and 26.11 (src/common/job_state_reason.c), and from the messages that slurmctld prints instead of some
reasons. Whether a reason is final was determined from src/slurmctld: a job that `job_independent` skips is
held until a user or administrator acts, and acct_policy.c distinguishes limits of one job from limits that
jobs share. `python -m cluster states` prints the table, and cluster/slurm/STATES.md is generated from it.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace

YOURS, CLUSTER, QUEUE = "you", "the cluster", "the queue"


@dataclass(frozen=True)
class Row:
    """One state, or one reason for waiting.

    name: Slurm's name; in a reason `*` matches any text, and the first matching row counts. what: what
    happened. step: what to do next. whose: who can act on it. ending: the class of errors for a failed
    state ("" if the ranks' own records explain it). never: the job will not start unless it is changed.
    """

    name: str
    what: str
    step: str = ""
    whose: str = QUEUE
    ending: str | None = None
    never: bool = False

    @property
    def error(self) -> str:
        """The class of errors that a job in this state raises, or ""."""
        return self.ending or ("CanNeverRun" if self.never else "")


STATES = [
    Row("PENDING", "The job is pending; see its reason."),
    Row("CONFIGURING", "Its nodes are being prepared.", whose=CLUSTER),
    Row("RUNNING", "Its ranks are running.", whose=YOURS),
    Row("SUSPENDED", "The job is suspended, and keeps its memory.", "Wait until it is resumed.", CLUSTER),
    Row("STOPPED", "The job is stopped.", "Wait.", CLUSTER),
    Row("COMPLETING", "Its ranks have ended, and Slurm cleans up.", whose=CLUSTER),
    Row("COMPLETED", "It ended.", whose=YOURS, ending=""),
    Row("FAILED", "A rank ended with an error.", whose=YOURS, ending=""),
    Row("TIMEOUT", "The job reached its time limit.", "Request more time, time='...', or compute less.",
        YOURS, "OutOfTime"),
    Row("DEADLINE", "The job's deadline came before its end.", "Set a later deadline, or submit earlier.",
        YOURS, "OutOfTime"),
    Row("OUT_OF_MEMORY", "A rank used more memory than the job had.",
        "Request more memory, memory='...', or use smaller batches.", YOURS, "OutOfMemory"),
    Row("CANCELLED", "The job was cancelled.", "Submit it again to run it.", YOURS, "Cancelled"),
    Row("REVOKED", "Another cluster of a federation runs it.", "Ask the administrator.", CLUSTER,
        "Cancelled"),
    Row("NODE_FAIL", "A node of the job failed.", "Submit it again; the failure was not caused by your code.",
        CLUSTER, "NodeFailed"),
    Row("BOOT_FAIL", "A node did not start for the job.",
        "Submit it again; the failure was not caused by your code.", CLUSTER, "NodeFailed"),
    Row("PREEMPTED", "The job was preempted by a job with higher priority.",
        "Submit it again, or to a partition that is not preempted.", CLUSTER, "Preempted"),
    Row("REQUEUED", "It was requeued.", "Wait.", CLUSTER),
    Row("REQUEUE_HOLD", "It was requeued and is held.", "Release it with scontrol release <job id>.",
        CLUSTER),
    Row("SPECIAL_EXIT", "It was requeued and is held.", "Ask the administrator.", CLUSTER),
]  # fmt: skip

_WAIT = "It starts when enough nodes are free. To start sooner, request fewer resources or less time."
_LESS = "Cancel it and request less; doctor() lists the limits of the partitions."
_SHARED = "If no such job is running, this job alone exceeds the limit, so request less."
_ADMIN = "Ask the administrator."

REASONS = [
    Row("None", "Slurm has not considered it yet."),
    Row("Nodes required for job are DOWN*",
        "Too many of its partition's nodes are down, drained or reserved for higher-priority partitions.",
        f"Wait, since they may come back. If it lasts, {_ADMIN.lower()}", CLUSTER),
    Row("Resources", "It is the next to start once nodes are free.", _WAIT),
    Row("Priority", "Other jobs are before it in the queue.", _WAIT),
    Row("Dependency", "It waits for another job of yours.", "", YOURS),
    Row("DependencyNeverSatisfied", "It depends on a job that did not end as required.",
        "Cancel it and submit it again without that dependency.", YOURS, never=True),
    Row("BeginTime", "Its start time has not been reached: you set one, or it was just requeued.", "", YOURS),
    Row("JobHeldUser", "You hold it.", "Release it with scontrol release <job id>.", YOURS),
    Row("job requeued in *", "It was requeued and is held.", "Release it with scontrol release <job id>.",
        YOURS),
    Row("*failed requeued held", "A node could not start it, so it was requeued and is held.",
        f"Release it with scontrol release <job id>. If it happens again, {_ADMIN.lower()}", CLUSTER),
    Row("*failure limit exceeded requeued held", "It was requeued as often as this Slurm allows and is held.",
        _ADMIN, CLUSTER),
    Row("JobHoldMaxRequeue", "It was requeued as often as this Slurm allows and is held.",
        "Ask the administrator, since only operators can release it, or cancel it and submit it again.",
        CLUSTER),
    Row("JobHeldAdmin", "The administrator holds it.", _ADMIN, CLUSTER),
    Row("License request*no longer valid*", "The administrator changed its licence, so it is held.", _ADMIN,
        CLUSTER),
    Row("JobArrayTaskLimit", "Its array runs as many tasks at once as you allowed.", "", YOURS),
    Row("PartitionTimeLimit", "It can never run: its time exceeds its partition's limit.", _LESS, YOURS,
        never=True),
    Row("PartitionNodeLimit", "It requests more nodes than its partition has, or some are down or drained.",
        "Request fewer nodes, or wait for the nodes; doctor() lists the partitions.", CLUSTER),
    Row("PartitionConfig", "It can never run: its partition does not satisfy its request.", _LESS, YOURS,
        never=True),
    Row("BadConstraints", "It can never run: no node satisfies its request.", _LESS, YOURS, never=True),
    Row("Constraints", "No node meets its constraint at this time.",
        "Wait, or cancel it and use another constraint.", CLUSTER),
    Row("PartitionDown", "Its partition is disabled.", "Wait, or choose another; doctor() lists them.",
        CLUSTER),
    Row("PartitionInactive", "Its partition starts no jobs now.",
        "Wait, or choose another; doctor() lists them.", CLUSTER),
    Row("ReqNodeNotAvail*Reserved for maintenance", "The nodes are reserved for maintenance.",
        "It starts after the maintenance, or before it if its time limit is short enough.", CLUSTER),
    Row("ReqNodeNotAvail", "Nodes it needs are down, drained or reserved.",
        "Wait, since they may come back. If it lasts, ask the administrator.", CLUSTER),
    Row("NodeDown", "A node it needs is down.", "Wait, since it may come back.", CLUSTER),
    Row("FrontEndDown", "No front-end node is up.", _ADMIN, CLUSTER),
    Row("Reservation", "It waits for its reservation to begin, or for nodes in it.", "", CLUSTER),
    Row("ReservationDeleted", "Its reservation was deleted.",
        "Cancel it and submit it without a reservation.", CLUSTER, never=True),
    Row("Reservation * was deleted", "Its reservation was deleted.",
        "Cancel it and submit it without a reservation.", CLUSTER, never=True),
    Row("ReservationInvalid", "Its reservation is no longer valid.",
        "Cancel it and submit it without a reservation.", CLUSTER, never=True),
    Row("Reservation * is invalid", "Its reservation is no longer valid.",
        "Cancel it and submit it without a reservation.", CLUSTER, never=True),
    Row("Licenses", "It waits for a licence.", "", QUEUE),
    Row("InvalidAccount", "It can never run: its account is unknown.",
        "Cancel it. Request an account, or set yours with sbatch={'account': '...'}.", YOURS, never=True),
    Row("InvalidQOS", "It can never run: its QOS is unknown.", "Cancel it and submit it without a QOS.",
        YOURS, never=True),
    Row("AccountNotAllowed", "It can never run: its partition does not accept its account.",
        "Cancel it and use another partition or account.", YOURS, never=True),
    Row("*account not permitted to use this partition*",
        "It can never run: its partition does not accept its account.",
        "Cancel it and use another partition or account.", YOURS, never=True),
    Row("*not in group permitted to use this partition*",
        "It can never run: its partition does not accept your group.",
        "Cancel it and use another partition, or ask the administrator.", YOURS, never=True),
    Row("QOSNotAllowed", "It can never run: its partition or account does not accept its QOS.",
        "Cancel it and use another QOS.", YOURS, never=True),
    Row("*QOS not *use this partition*", "It can never run: its partition does not accept its QOS.",
        "Cancel it and use another QOS.", YOURS, never=True),
    Row("QOSUsageThreshold", "Your recent usage is so high that your QOS gives others priority.",
        "Wait, since your share recovers with time, or use another QOS.", QUEUE),
    Row("*Grp*RunMinutes*", "Running jobs have reserved all the time available to your account or QOS.",
        "It starts when some of them have ended.", QUEUE),
    Row("Max*RunMinsPer*", "Running jobs have reserved all the time available to you or your account.",
        "It starts when some of them have ended.", YOURS),
    Row("*Grp*Minutes*", "Your account or QOS has used up its computing time.",
        "Ask the administrator, or the head of your project, for more.", CLUSTER),
    Row("*GrpWallLimit", "Your account or QOS has used up its computing time.",
        "Ask the administrator, or the head of your project, for more.", CLUSTER),
    Row("AssocGrp*", "Your account has reached its limit on resources in use.",
        f"It starts when other jobs of your account have ended. {_SHARED}", YOURS),
    Row("AssocMaxJobsLimit", "You have reached your limit on running jobs.",
        "It starts when one of them has ended.", YOURS),
    Row("AssocMax*PerJob*", "It can never run: it exceeds your account's limit per job.", _LESS, YOURS,
        never=True),
    Row("AssocMax*PerNode*", "It can never run: it exceeds your account's limit per node.", _LESS, YOURS,
        never=True),
    Row("AssocMax*", "You have reached your account's limit on resources in use.",
        f"It starts when some of your jobs have ended. {_SHARED}", YOURS),
    Row("QOSGrp*", "Your QOS has reached its limit on resources in use.",
        f"It starts when other jobs have ended. {_SHARED}", QUEUE),
    Row("QOSMax*PerJob*", "It can never run: it exceeds its QOS's limit per job.", _LESS, YOURS, never=True),
    Row("QOSMax*PerNode*", "It can never run: it exceeds its QOS's limit per node.", _LESS, YOURS,
        never=True),
    Row("QOSMin*", "It can never run: it requests less than its QOS requires.",
        "Cancel it and request more, or use another QOS.", YOURS, never=True),
    Row("QOSMax*", "You or your account have reached your QOS's limit on resources in use.",
        f"It starts when some of these jobs have ended. {_SHARED}", YOURS),
    Row("MaxMemPerLimit", "It can never run: it requests more memory per CPU or node than is allowed.", _LESS,
        YOURS, never=True),
    Row("Max*PerAccount", "Your account has reached its QOS's limit on resources in use.",
        f"It starts when other jobs of your account have ended. {_SHARED}", YOURS),
    Row("Assoc*Limit", "Your account has reached its limit on resources in use.",
        f"It starts when other jobs of your account have ended. {_SHARED}", YOURS),
    Row("QOS*Limit", "Your QOS has reached its limit on resources in use.",
        f"It starts when other jobs have ended. {_SHARED}", QUEUE),
    Row("AccountingPolicy", "Your account or QOS has reached one of its limits.",
        "It starts when other jobs of yours have ended. If it lasts, ask the administrator.", QUEUE),
    Row("BurstBufferOperation", "Its burst buffer could not be set up.",
        "Cancel it and correct its sbatch option, or ask the administrator.", YOURS, never=True),
    Row("BurstBuffer*", "It waits for its burst buffer.", "", QUEUE),
    Row("Prolog", "Its nodes are being prepared.", "", CLUSTER),
    Row("Cleaning", "Slurm is still cleaning up its previous attempt.", "", CLUSTER),
    Row("FedJobLock", "Another cluster of the federation may start it.", "", CLUSTER),
    Row("MaxPoweredUpNodes", "The site has reached its limit on powered-up nodes.",
        "It starts when other users' jobs have ended.", QUEUE),
    Row("Power*", "The site has reached its power limit.", "It starts when other users' jobs have ended.",
        QUEUE),
    Row("MpiPortsBusy", "Its nodes have no free ports for MPI.", "It starts when jobs on them have ended.",
        QUEUE),
    Row("NvidiaImexChannels", "All channels between its GPUs (IMEX) are in use.",
        "It starts when jobs on these nodes have ended.", QUEUE),
    Row("Block*", "Its block of nodes is in error, or is being freed.", _ADMIN, CLUSTER),
    Row("SystemFailure", "Slurm itself, the network or a file system failed.", _ADMIN, CLUSTER),
    Row("JobLaunchFailure", "Slurm could not start it, and tries again.",
        "If it lasts, ask the administrator.", CLUSTER),
]  # fmt: skip

TABLES = {"States": STATES, "Reasons for pending": REASONS}


def state(name: str) -> Row:
    """Return the row of a state, or a generic one for unknown names."""
    unknown = Row(name, f"Slurm reports the state {name}.", whose=CLUSTER)
    return next((row for row in STATES if row.name == name), unknown)


def reason(name: str, partitions: str = "") -> Row:
    """Return the row of a reason for pending, as printed by `squeue`.

    name: a reason, possibly with nodes (`ReqNodeNotAvail, ...`), or a message that Slurm prints instead.
    partitions: the job's partitions. If there are several ("short,long"), one partition's limit is not final.
    """
    word = name.split(",")[0].split("(")[0].strip() or "None"
    for row in REASONS:
        if fnmatch.fnmatchcase(name.strip(), row.name) or fnmatch.fnmatchcase(word, row.name):
            if row.never and word.startswith("Partition") and "," in partitions:
                return replace(row, what=_ONE_OF.format(word), step=_WAIT, never=False)
            return row
    return Row(word, f"It is pending. Slurm's reason is {name.strip()}.")


_ONE_OF = "One of its partitions does not accept it ({}), so it waits for another."


def markdown() -> str:
    """Return both tables as Markdown, for STATES.md."""
    parts = [
        "# Slurm's job states and their meaning",
        "",
        "`python -m cluster states --write` generates this page from [states.py](states.py). In the",
        "messages, *it* is the job.",
        "",
    ]
    for title, rows in TABLES.items():
        head = "| Slurm's name | what happened | what to do | acts next | error |"
        parts += [f"## {title}", "", head, "|---|---|---|---|---|"]
        for r in rows:
            error = f"`{r.error}`" if r.error else ""
            parts.append(f"| `{r.name}` | {r.what} | {r.step} | {r.whose} | {error} |")
        parts.append("")
    return "\n".join(parts)


def text() -> str:
    """Return both tables for a terminal."""
    lines = []
    for title, rows in TABLES.items():
        lines += [title, ""]
        for r in rows:
            lines.append(f"  {r.name:26} {r.what}" + (f"  [{r.error}]" if r.error else ""))
            lines += [f"  {'':26} → {r.step}"] if r.step else []
        lines.append("")
    return "\n".join(lines).rstrip()
