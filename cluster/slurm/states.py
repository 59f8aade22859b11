"""Slurm's states of a job and its reasons for waiting, with their meaning, in one table.

The reasons are from Slurm's manual (https://slurm.schedmd.com/job_reason_codes.html), from its source between
20.11 and 26.11 (src/common/job_state_reason.c), and from the messages that slurmctld prints instead of some
reasons. Whether a reason is final was determined from src/slurmctld: a job that `job_independent` skips is
held until a user or administrator acts, and acct_policy.c distinguishes limits of one job from limits that
jobs share. `python -m cluster states` prints the table, and cluster/slurm/STATES.md is generated from it.
Each row names the test that caused it on a real Slurm, or explains why there is none.
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
    shown: the test that observed it. unseen: why there is none.
    """

    name: str
    what: str
    step: str = ""
    whose: str = QUEUE
    ending: str | None = None
    never: bool = False
    shown: str = ""
    unseen: str = ""


STATES = [
    Row("PENDING", "The job is pending; see its reason.", shown="test_the_reason_in_words"),
    Row("CONFIGURING", "Its nodes are being prepared.", whose=CLUSTER, unseen="takes no time here"),
    Row("RUNNING", "Its ranks are running.", whose=YOURS, shown="test_a_job_runs_and_is_done"),
    Row(
        "SUSPENDED",
        "The job is suspended, and keeps its memory.",
        "Wait until it is resumed.",
        CLUSTER,
        shown="test_a_suspended_job_is_not_over",
    ),
    Row("STOPPED", "The job is stopped.", "Wait.", CLUSTER, unseen="only slurmctld itself stops a job"),
    Row("COMPLETING", "Its ranks have ended, and Slurm cleans up.", whose=CLUSTER, unseen="lasts a moment"),
    Row("COMPLETED", "It ended.", whose=YOURS, ending="", shown="test_a_job_runs_and_is_done"),
    Row("FAILED", "A rank ended with an error.", whose=YOURS, ending="", shown="test_the_ending_in_words"),
    Row(
        "TIMEOUT",
        "The job reached its time limit.",
        "Request more time, time='...', or compute less.",
        YOURS,
        "OutOfTime",
        shown="test_jobs_contract.py::test_a_job_that_timed_out_reports_it",
    ),
    Row(
        "DEADLINE",
        "The job's deadline came before its end.",
        "Set a later deadline, or submit earlier.",
        YOURS,
        "OutOfTime",
        unseen="needs sbatch's --deadline, which Slurm checks once per minute",
    ),
    Row(
        "OUT_OF_MEMORY",
        "A rank used more memory than the job had.",
        "Request more memory, memory='...', or use smaller batches.",
        YOURS,
        "OutOfMemory",
        shown="test_the_ending_in_words",
    ),
    Row(
        "CANCELLED",
        "The job was cancelled.",
        "Submit it again to run it.",
        YOURS,
        "Cancelled",
        shown="test_the_ending_in_words",
    ),
    Row(
        "REVOKED",
        "Another cluster of a federation runs it.",
        "Ask the administrator.",
        CLUSTER,
        "Cancelled",
        unseen="needs a federation of clusters",
    ),
    Row(
        "NODE_FAIL",
        "A node of the job failed.",
        "Submit it again; the failure was not caused by your code.",
        CLUSTER,
        "NodeFailed",
        shown="test_the_ending_in_words",
    ),
    Row(
        "BOOT_FAIL",
        "A node did not start for the job.",
        "Submit it again; the failure was not caused by your code.",
        CLUSTER,
        "NodeFailed",
        unseen="needs nodes that Slurm itself boots",
    ),
    Row(
        "PREEMPTED",
        "The job was preempted by a job with higher priority.",
        "Submit it again, or to a partition that is not preempted.",
        CLUSTER,
        "Preempted",
        shown="test_the_ending_in_words",
    ),
    Row("REQUEUED", "It was requeued.", "Wait.", CLUSTER, unseen="lasts a moment, until PENDING"),
    Row(
        "REQUEUE_HOLD",
        "It was requeued and is held.",
        "Release it with scontrol release <job id>.",
        CLUSTER,
        unseen="set by `scontrol requeuehold`, for a job that may be requeued",
    ),
    Row("SPECIAL_EXIT", "It was requeued and is held.", "Ask the administrator.", CLUSTER,
        unseen="set by a site's own scripts"),
]  # fmt: skip

_WAIT = "It starts when enough nodes are free. To start sooner, request fewer resources or less time."
_NO_LIMITS = "the tests have one QOS, without limits"
_OTHER = "needs a site with that feature"
_LESS = "Cancel it and request less; doctor() lists the limits of the partitions."
_SHARED = "If no such job is running, this job alone exceeds the limit, so request less."
_ADMIN = "Ask the administrator."

REASONS = [
    Row("None", "Slurm has not considered it yet.", unseen="lasts a moment"),
    Row("Nodes required for job are DOWN*",
        "Too many of its partition's nodes are down, drained or reserved for higher-priority partitions.",
        f"Wait, since they may come back. If it lasts, {_ADMIN.lower()}", CLUSTER,
        unseen="needs a partition with too few nodes up"),
    Row("Resources", "It is the next to start once nodes are free.", _WAIT,
        shown="test_the_reason_in_words"),
    Row("Priority", "Other jobs are before it in the queue.", _WAIT, shown="test_the_reason_in_words"),
    Row("Dependency", "It waits for another job of yours.", "", YOURS, shown="test_the_reason_in_words"),
    Row("DependencyNeverSatisfied", "It depends on a job that did not end as required.",
        "Cancel it and submit it again without that dependency.", YOURS, never=True,
        shown="test_the_reason_in_words"),
    Row("BeginTime", "Its start time has not been reached: you set one, or it was just requeued.",
        "", YOURS, shown="test_the_reason_in_words"),
    Row("JobHeldUser", "You hold it.", "Release it with scontrol release <job id>.", YOURS,
        shown="test_the_reason_in_words"),
    Row("job requeued in *", "It was requeued and is held.", "Release it with scontrol release <job id>.",
        YOURS, unseen="set by `scontrol requeuehold` or by a site's own scripts"),
    Row("*failed requeued held", "A node could not start it, so it was requeued and is held.",
        f"Release it with scontrol release <job id>. If it happens again, {_ADMIN.lower()}",
        CLUSTER, unseen="needs a node that breaks during a start"),
    Row("*failure limit exceeded requeued held",
        "It was requeued as often as this Slurm allows and is held.", _ADMIN, CLUSTER,
        unseen="the same as JobHoldMaxRequeue"),
    Row("JobHoldMaxRequeue", "It was requeued as often as this Slurm allows and is held.",
        "Ask the administrator, since only operators can release it, or cancel it and submit it again.",
        CLUSTER, unseen="needs MAX_BATCH_REQUEUE requeues"),
    Row("JobHeldAdmin", "The administrator holds it.", _ADMIN, CLUSTER,
        shown="test_the_reason_in_words"),
    Row("License request*no longer valid*", "The administrator changed its licence, so it is held.",
        _ADMIN, CLUSTER, unseen="the tests have no licences"),
    Row("JobArrayTaskLimit", "Its array runs as many tasks at once as you allowed.", "", YOURS,
        shown="test_jobs_map.py::test_items_that_wait_for_their_turn_say_so_and_cost_one_question"),
    Row("PartitionTimeLimit", "It can never run: its time exceeds its partition's limit.", _LESS, YOURS,
        never=True, shown="test_the_reason_in_words"),
    Row("PartitionNodeLimit", "It requests more nodes than its partition has, or some are down or drained.",
        "Request fewer nodes, or wait for the nodes; doctor() lists the partitions.", CLUSTER,
        unseen="Slurm 22.05 reports PartitionConfig"),
    Row("PartitionConfig", "It can never run: its partition does not satisfy its request.", _LESS, YOURS,
        never=True, shown="test_the_reason_in_words"),
    Row("BadConstraints", "It can never run: no node satisfies its request.", _LESS, YOURS, never=True,
        unseen="Slurm refuses it at submission, unless the nodes changed afterwards"),
    Row("Constraints", "No node meets its constraint at this time.",
        "Wait, or cancel it and use another constraint.", CLUSTER, unseen=_OTHER),
    Row("PartitionDown", "Its partition is disabled.", "Wait, or choose another; doctor() lists them.",
        CLUSTER, shown="test_a_partition_that_is_switched_off"),
    Row("PartitionInactive", "Its partition starts no jobs now.",
        "Wait, or choose another; doctor() lists them.", CLUSTER,
        shown="test_a_partition_that_is_switched_off"),
    Row("ReqNodeNotAvail*Reserved for maintenance", "The nodes are reserved for maintenance.",
        "It starts after the maintenance, or before it if its time limit is short enough.",
        CLUSTER, shown="test_a_maintenance_is_named"),
    Row("ReqNodeNotAvail", "Nodes it needs are down, drained or reserved.",
        "Wait, since they may come back. If it lasts, ask the administrator.", CLUSTER,
        shown="test_a_drained_node_is_waited_for"),
    Row("NodeDown", "A node it needs is down.", "Wait, since it may come back.", CLUSTER,
        unseen="Slurm 22.05 reports ReqNodeNotAvail"),
    Row("FrontEndDown", "No front-end node is up.", _ADMIN, CLUSTER, unseen="in older Slurm, on Cray"),
    Row("Reservation", "It waits for its reservation to begin, or for nodes in it.", "", CLUSTER,
        shown="test_a_reservation_is_waited_for"),
    Row("ReservationDeleted", "Its reservation was deleted.",
        "Cancel it and submit it without a reservation.", CLUSTER, never=True,
        unseen="squeue prints the text in the next row"),
    Row("Reservation * was deleted", "Its reservation was deleted.",
        "Cancel it and submit it without a reservation.", CLUSTER, never=True,
        unseen="needs a reservation that ends while a job waits for it"),
    Row("ReservationInvalid", "Its reservation is no longer valid.",
        "Cancel it and submit it without a reservation.", CLUSTER, never=True, unseen="in newer Slurm"),
    Row("Reservation * is invalid", "Its reservation is no longer valid.",
        "Cancel it and submit it without a reservation.", CLUSTER, never=True, unseen="in newer Slurm"),
    Row("Licenses", "It waits for a licence.", "", QUEUE, unseen="the tests have no licences"),
    Row("InvalidAccount", "It can never run: its account is unknown.",
        "Cancel it. Request an account, or set yours with sbatch={'account': '...'}.", YOURS, never=True,
        unseen="Slurm refuses it at submission"),
    Row("InvalidQOS", "It can never run: its QOS is unknown.", "Cancel it and submit it without a QOS.",
        YOURS, never=True, unseen="Slurm refuses it at submission"),
    Row("AccountNotAllowed", "It can never run: its partition does not accept its account.",
        "Cancel it and use another partition or account.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("*account not permitted to use this partition*",
        "It can never run: its partition does not accept its account.",
        "Cancel it and use another partition or account.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("*not in group permitted to use this partition*",
        "It can never run: its partition does not accept your group.",
        "Cancel it and use another partition, or ask the administrator.", YOURS, never=True,
        unseen=_NO_LIMITS),
    Row("QOSNotAllowed", "It can never run: its partition or account does not accept its QOS.",
        "Cancel it and use another QOS.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("*QOS not *use this partition*", "It can never run: its partition does not accept its QOS.",
        "Cancel it and use another QOS.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("QOSUsageThreshold", "Your recent usage is so high that your QOS gives others priority.",
        "Wait, since your share recovers with time, or use another QOS.", QUEUE, unseen=_NO_LIMITS),
    Row("*Grp*RunMinutes*", "Running jobs have reserved all the time available to your account or QOS.",
        "It starts when some of them have ended.", QUEUE, unseen=_NO_LIMITS),
    Row("Max*RunMinsPer*", "Running jobs have reserved all the time available to you or your account.",
        "It starts when some of them have ended.", YOURS, unseen=_NO_LIMITS),
    Row("*Grp*Minutes*", "Your account or QOS has used up its computing time.",
        "Ask the administrator, or the head of your project, for more.", CLUSTER, unseen=_NO_LIMITS),
    Row("*GrpWallLimit", "Your account or QOS has used up its computing time.",
        "Ask the administrator, or the head of your project, for more.", CLUSTER, unseen=_NO_LIMITS),
    Row("AssocGrp*", "Your account has reached its limit on resources in use.",
        f"It starts when other jobs of your account have ended. {_SHARED}", YOURS,
        shown="test_the_reason_in_words"),
    Row("AssocMaxJobsLimit", "You have reached your limit on running jobs.",
        "It starts when one of them has ended.", YOURS, unseen="the same rule as AssocGrp*"),
    Row("AssocMax*PerJob*", "It can never run: it exceeds your account's limit per job.", _LESS,
        YOURS, never=True, shown="test_the_reason_in_words"),
    Row("AssocMax*PerNode*", "It can never run: it exceeds your account's limit per node.", _LESS,
        YOURS, never=True, unseen=_NO_LIMITS),
    Row("AssocMax*", "You have reached your account's limit on resources in use.",
        f"It starts when some of your jobs have ended. {_SHARED}", YOURS, unseen=_NO_LIMITS),
    Row("QOSGrp*", "Your QOS has reached its limit on resources in use.",
        f"It starts when other jobs have ended. {_SHARED}", QUEUE, unseen=_NO_LIMITS),
    Row("QOSMax*PerJob*", "It can never run: it exceeds its QOS's limit per job.", _LESS, YOURS,
        never=True, unseen=_NO_LIMITS),
    Row("QOSMax*PerNode*", "It can never run: it exceeds its QOS's limit per node.", _LESS, YOURS,
        never=True, unseen=_NO_LIMITS),
    Row("QOSMin*", "It can never run: it requests less than its QOS requires.",
        "Cancel it and request more, or use another QOS.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("QOSMax*", "You or your account have reached your QOS's limit on resources in use.",
        f"It starts when some of these jobs have ended. {_SHARED}", YOURS, unseen=_NO_LIMITS),
    Row("MaxMemPerLimit", "It can never run: it requests more memory per CPU or node than is allowed.", _LESS,
        YOURS, never=True, unseen="rejected before submission"),
    Row("Max*PerAccount", "Your account has reached its QOS's limit on resources in use.",
        f"It starts when other jobs of your account have ended. {_SHARED}", YOURS, unseen=_NO_LIMITS),
    Row("Assoc*Limit", "Your account has reached its limit on resources in use.",
        f"It starts when other jobs of your account have ended. {_SHARED}", YOURS, unseen="in older Slurm"),
    Row("QOS*Limit", "Your QOS has reached its limit on resources in use.",
        f"It starts when other jobs have ended. {_SHARED}", QUEUE, unseen="in older Slurm"),
    Row("AccountingPolicy", "Your account or QOS has reached one of its limits.",
        "It starts when other jobs of yours have ended. If it lasts, ask the administrator.", QUEUE,
        unseen=_NO_LIMITS),
    Row("BurstBufferOperation", "Its burst buffer could not be set up.",
        "Cancel it and correct its sbatch option, or ask the administrator.", YOURS, never=True,
        unseen=_OTHER),
    Row("BurstBuffer*", "It waits for its burst buffer.", "", QUEUE, unseen=_OTHER),
    Row("Prolog", "Its nodes are being prepared.", "", CLUSTER, unseen="takes no time here"),
    Row("Cleaning", "Slurm is still cleaning up its previous attempt.", "", CLUSTER, unseen="lasts a moment"),
    Row("FedJobLock", "Another cluster of the federation may start it.", "", CLUSTER, unseen=_OTHER),
    Row("MaxPoweredUpNodes", "The site has reached its limit on powered-up nodes.",
        "It starts when other users' jobs have ended.", QUEUE, unseen=_OTHER),
    Row("Power*", "The site has reached its power limit.",
        "It starts when other users' jobs have ended.", QUEUE, unseen="in older Slurm"),
    Row("MpiPortsBusy", "Its nodes have no free ports for MPI.", "It starts when jobs on them have ended.",
        QUEUE, unseen=_OTHER),
    Row("NvidiaImexChannels", "All channels between its GPUs (IMEX) are in use.",
        "It starts when jobs on these nodes have ended.", QUEUE, unseen=_OTHER),
    Row("Block*", "Its block of nodes is in error, or is being freed.", _ADMIN, CLUSTER,
        unseen="in older Slurm, on Blue Gene"),
    Row("SystemFailure", "Slurm itself, the network or a file system failed.", _ADMIN, CLUSTER,
        unseen="needs a failure of slurmctld"),
    Row("JobLaunchFailure", "Slurm could not start it, and tries again.",
        "If it lasts, ask the administrator.", CLUSTER, unseen="needs a node that breaks during a start"),
]  # fmt: skip

_STATES = {row.name: row for row in STATES}


def state(name: str) -> Row:
    """Return the row of a state, or a generic one for unknown names."""
    return _STATES.get(name) or Row(name, f"Slurm reports the state {name}.", whose=CLUSTER)


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
        "messages, *it* is the job. The last column names the test that produces the state on a real Slurm.",
        "",
    ]
    for title, rows in (("States", STATES), ("Reasons for pending", REASONS)):
        head = "| Slurm's name | what happened | what to do | acts next | error | test |"
        parts += [f"## {title}", "", head, "|---|---|---|---|---|---|"]
        for r in rows:
            error = f"`{r.ending}`" if r.ending else "`CanNeverRun`" if r.never else ""
            by = f"`{r.shown.rpartition('::')[2]}`" if r.shown else f"no test: {r.unseen}"
            parts.append(f"| `{r.name}` | {r.what} | {r.step} | {r.whose} | {error} | {by} |")
        parts.append("")
    return "\n".join(parts)


def text() -> str:
    """Return both tables for a terminal."""
    lines = []
    for title, rows in (("States", STATES), ("Reasons for pending", REASONS)):
        lines += [title, ""]
        for r in rows:
            mark = f"  [{r.ending}]" if r.ending else "  [CanNeverRun]" if r.never else ""
            lines += [f"  {r.name:26} {r.what}{mark}"]
            lines += [f"  {'':26} → {r.step}"] if r.step else []
        lines.append("")
    return "\n".join(lines).rstrip()
