"""What Slurm says of a job, and what it means: one table of its states and of its reasons for waiting.

The reasons are those of Slurm's manual (https://slurm.schedmd.com/job_reason_codes.html) and of its source
from 20.11 to 26.11 (src/common/job_state_reason.c), and the sentences that slurmctld prints instead of some.
Whether a reason is final was read in src/slurmctld: a job that `job_independent` skips is held until somebody
acts, and acct_policy.c distinguishes limits of one job from limits that jobs share.
`python -m cluster states` prints it, cluster/slurm/STATES.md is generated from it, and each row names the
test that brought it about on a real Slurm, or says why none did.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace

YOURS, CLUSTER, QUEUE = "yours", "the cluster's", "the queue's"


@dataclass(frozen=True)
class Row:
    """One state, or one reason for waiting.

    name: Slurm's; in a reason `*` stands for any text, and the first row that fits counts. what: what
    happened; step: what to do next; whose: whose doing it is. ending: the class of errors, of a state in
    which a job has ended badly ("" where the ranks' own records say how). never: the job will not start
    unless it is changed. shown: the test that saw it; unseen: why there is none.
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
    Row("PENDING", "It waits; its reason says for what.", shown="test_the_reason_in_words"),
    Row("CONFIGURING", "Its nodes are being made ready.", whose=CLUSTER, unseen="takes no time here"),
    Row("RUNNING", "Its ranks are at work.", whose=YOURS, shown="test_a_job_runs_and_is_done"),
    Row(
        "SUSPENDED",
        "It stands still, and keeps its memory.",
        "Wait: whoever suspended it lets it go on.",
        CLUSTER,
        shown="test_a_suspended_job_is_not_over",
    ),
    Row("STOPPED", "It stands still.", "Wait.", CLUSTER, unseen="needs a signal of slurmctld's own"),
    Row("COMPLETING", "Its ranks have ended; Slurm tidies up.", whose=CLUSTER, unseen="lasts a moment"),
    Row("COMPLETED", "It ended.", whose=YOURS, ending="", shown="test_a_job_runs_and_is_done"),
    Row("FAILED", "A rank ended with an error.", whose=YOURS, ending="", shown="test_the_ending_in_words"),
    Row(
        "TIMEOUT",
        "The job reached its time limit.",
        "Ask for more, time='...', or do less.",
        YOURS,
        "OutOfTime",
        shown="test_jobs_contract.py::test_a_job_out_of_time_says_so",
    ),
    Row(
        "DEADLINE",
        "The deadline it was given came before its end.",
        "Give a later one, or submit earlier.",
        YOURS,
        "OutOfTime",
        unseen="only with sbatch's --deadline, which cancels the waiting job at a minute's grain",
    ),
    Row(
        "OUT_OF_MEMORY",
        "A rank used more memory than the job had.",
        "Ask for more, memory='...', or use smaller batches.",
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
        "A node went down under the job.",
        "Submit it again: not your doing.",
        CLUSTER,
        "NodeFailed",
        shown="test_the_ending_in_words",
    ),
    Row(
        "BOOT_FAIL",
        "A node did not start for the job.",
        "Submit it again: not your doing.",
        CLUSTER,
        "NodeFailed",
        unseen="needs nodes that Slurm itself boots",
    ),
    Row(
        "PREEMPTED",
        "The job had to make room for one that goes first.",
        "Submit it again, or in a partition that is not preempted.",
        CLUSTER,
        "Preempted",
        shown="test_the_ending_in_words",
    ),
    Row("REQUEUED", "It is back in the queue.", "Wait.", CLUSTER, unseen="lasts a moment: then PENDING"),
    Row(
        "REQUEUE_HOLD",
        "It is back in the queue, and held.",
        "Release it: scontrol release <its number>.",
        CLUSTER,
        unseen="set by `scontrol requeuehold`, for a job that may be requeued",
    ),
    Row("SPECIAL_EXIT", "It is back in the queue, and held.", "Ask the administrator.", CLUSTER,
        unseen="set by a site's own scripts"),
]  # fmt: skip

_WAIT = "It starts as soon as there is room. To start sooner: ask for less, or for less time."
_NO_LIMITS = "the tests have one QOS, without limits"
_OTHER = "needs a site with that feature"
_LESS = "Cancel it, and ask for less; doctor() lists what the partitions allow."
_SHARED = "If no such job runs, it alone asks for more than is allowed: ask for less."
_ADMIN = "Ask the administrator."

REASONS = [
    Row("None", "Slurm has not looked at it yet.", unseen="lasts a moment"),
    Row("Nodes required for job are DOWN*",
        "Too many of its partition's nodes are down, drained or reserved for partitions that go first.",
        f"Wait: they may come back. If it lasts: {_ADMIN.lower()}", CLUSTER,
        unseen="Slurm says it of a partition in which too few nodes are up"),
    Row("Resources", "It is the next to start, as soon as nodes are free.", _WAIT,
        shown="test_the_reason_in_words"),
    Row("Priority", "Others are before it in the queue.", _WAIT, shown="test_the_reason_in_words"),
    Row("Dependency", "It waits for another job of yours.", "", YOURS, shown="test_the_reason_in_words"),
    Row("DependencyNeverSatisfied", "It waits for a job that has not ended as it had to.",
        "Cancel it, and submit it again without that dependency.", YOURS, never=True,
        shown="test_the_reason_in_words"),
    Row("BeginTime", "Its time to begin has not come: you gave one, or it was just put back into the queue.",
        "", YOURS, shown="test_the_reason_in_words"),
    Row("JobHeldUser", "You hold it back.", "Release it: scontrol release <its number>.", YOURS,
        shown="test_the_reason_in_words"),
    Row("job requeued in *", "It was requeued, and is held.", "Release it: scontrol release <its number>.",
        YOURS, unseen="set by `scontrol requeuehold` or by a site's own scripts"),
    Row("*failed requeued held", "A node could not start it, so it was requeued, and is held.",
        f"Release it: scontrol release <its number>. If it happens again: {_ADMIN.lower()}", CLUSTER,
        unseen="needs a node that breaks during a start"),
    Row("*failure limit exceeded requeued held",
        "It was requeued as often as this Slurm allows, and is held.", _ADMIN, CLUSTER,
        unseen="the same as JobHoldMaxRequeue"),
    Row("JobHoldMaxRequeue", "It was requeued as often as this Slurm allows, and is held.",
        "Ask the administrator: only operators can release it. Or cancel it, and submit it again.", CLUSTER,
        unseen="needs MAX_BATCH_REQUEUE requeues"),
    Row("JobHeldAdmin", "The administrator holds it back.", _ADMIN, CLUSTER,
        shown="test_the_reason_in_words"),
    Row("License request*no longer valid*", "The administrator changed the licence it asks for; it is held.",
        _ADMIN, CLUSTER, unseen="the tests have no licences"),
    Row("JobArrayTaskLimit", "Its array runs as many tasks at once as you allowed.", "", YOURS,
        shown="test_jobs_map.py::test_items_that_wait_for_their_turn_say_so_and_cost_one_question"),
    Row("PartitionTimeLimit", "It can never run: its time is over its partition's limit.", _LESS, YOURS,
        never=True, shown="test_the_reason_in_words"),
    Row("PartitionNodeLimit", "It asks for more nodes than its partition has, or some are down or drained.",
        "Ask for fewer nodes, or wait for the nodes; doctor() lists the partitions.", CLUSTER,
        unseen="Slurm 22.05 says PartitionConfig; found before submission"),
    Row("PartitionConfig", "It can never run: its partition does not offer what it asks for.", _LESS, YOURS,
        never=True, shown="test_the_reason_in_words"),
    Row("BadConstraints", "It can never run: no node has what it asks for.", _LESS, YOURS, never=True,
        unseen="Slurm refuses it at submission, unless the nodes changed afterwards"),
    Row("Constraints", "No node meets its constraint at this time.",
        "Wait, or cancel it and choose another constraint.", CLUSTER, unseen=_OTHER),
    Row("PartitionDown", "Its partition is switched off.", "Wait, or choose another: doctor() lists them.",
        CLUSTER, shown="test_a_partition_that_is_switched_off"),
    Row("PartitionInactive", "Its partition starts no jobs now.",
        "Wait, or choose another: doctor() lists them.", CLUSTER,
        shown="test_a_partition_that_is_switched_off"),
    Row("ReqNodeNotAvail*Reserved for maintenance", "The nodes are reserved for maintenance.",
        "It starts after the maintenance, or before it if it asks for little enough time.",
        CLUSTER, shown="test_a_maintenance_is_named"),
    Row("ReqNodeNotAvail", "Nodes it needs are down, drained or reserved.",
        "Wait: they may come back. If it lasts, ask the administrator.", CLUSTER,
        shown="test_a_drained_node_is_waited_for"),
    Row("NodeDown", "A node it needs is down.", "Wait: it may come back.", CLUSTER,
        unseen="Slurm 22.05 says ReqNodeNotAvail"),
    Row("FrontEndDown", "No front-end node is up.", _ADMIN, CLUSTER, unseen="older Slurm, Cray"),
    Row("Reservation", "It waits for its reservation to begin, or for nodes in it.", "", CLUSTER,
        shown="test_a_reservation_is_waited_for"),
    Row("ReservationDeleted", "Its reservation is gone.", "Cancel it, and submit it without.", CLUSTER,
        never=True, unseen="squeue prints the sentence below"),
    Row("Reservation * was deleted", "Its reservation is gone.", "Cancel it, and submit it without.", CLUSTER,
        never=True, unseen="needs a reservation that ends while a job waits for it"),
    Row("ReservationInvalid", "Its reservation is no longer valid.", "Cancel it, and submit it without.",
        CLUSTER, never=True, unseen="newer Slurm"),
    Row("Reservation * is invalid", "Its reservation is no longer valid.",
        "Cancel it, and submit it without.", CLUSTER, never=True, unseen="newer Slurm"),
    Row("Licenses", "It waits for a licence.", "", QUEUE, unseen="the tests have no licences"),
    Row("InvalidAccount", "It can never run: its account is not known.",
        "Cancel it; ask for an account, or give yours: sbatch={'account': '...'}.", YOURS, never=True,
        unseen="Slurm refuses it at submission"),
    Row("InvalidQOS", "It can never run: its QOS is not known.", "Cancel it, and submit it without.", YOURS,
        never=True, unseen="Slurm refuses it at submission"),
    Row("AccountNotAllowed", "It can never run: its partition does not take its account.",
        "Cancel it, and choose another partition or account.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("*account not permitted to use this partition*",
        "It can never run: its partition does not take its account.",
        "Cancel it, and choose another partition or account.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("*not in group permitted to use this partition*",
        "It can never run: its partition does not take your group.",
        "Cancel it, and choose another partition, or ask the administrator.", YOURS, never=True,
        unseen=_NO_LIMITS),
    Row("QOSNotAllowed", "It can never run: its partition or account does not take its QOS.",
        "Cancel it, and choose another QOS.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("*QOS not *use this partition*", "It can never run: its partition does not take its QOS.",
        "Cancel it, and choose another QOS.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("QOSUsageThreshold", "You used so much lately that your QOS lets others go first.",
        "Wait: the share recovers with time. Or choose another QOS.", QUEUE, unseen=_NO_LIMITS),
    Row("*Grp*RunMinutes*", "Running jobs have reserved all the time that your account or QOS may use.",
        "It starts when some of them have ended.", QUEUE, unseen=_NO_LIMITS),
    Row("Max*RunMinsPer*", "Running jobs have reserved all the time that you or your account may use.",
        "It starts when some of them have ended.", YOURS, unseen=_NO_LIMITS),
    Row("*Grp*Minutes*", "Your account or QOS has used up its computing time.",
        "Ask the administrator, or your project's head, for more.", CLUSTER, unseen=_NO_LIMITS),
    Row("*GrpWallLimit", "Your account or QOS has used up its computing time.",
        "Ask the administrator, or your project's head, for more.", CLUSTER, unseen=_NO_LIMITS),
    Row("AssocGrp*", "Your account uses all it may use at one time.",
        f"It starts when others of your account's jobs have ended. {_SHARED}", YOURS,
        shown="test_the_reason_in_words"),
    Row("AssocMaxJobsLimit", "You run as many jobs as you may.", "It starts when one of them has ended.",
        YOURS, unseen="the same rule as AssocGrp*"),
    Row("AssocMax*PerJob*", "It can never run: it asks for more than your account allows one job.", _LESS,
        YOURS, never=True, shown="test_the_reason_in_words"),
    Row("AssocMax*PerNode*", "It can never run: it asks for more per node than your account allows.", _LESS,
        YOURS, never=True, unseen=_NO_LIMITS),
    Row("AssocMax*", "You use all that your account allows you at one time.",
        f"It starts when some of your jobs have ended. {_SHARED}", YOURS, unseen=_NO_LIMITS),
    Row("QOSGrp*", "Your QOS uses all it may use at one time.",
        f"It starts when others have ended. {_SHARED}", QUEUE, unseen=_NO_LIMITS),
    Row("QOSMax*PerJob*", "It can never run: it asks for more than its QOS allows one job.", _LESS, YOURS,
        never=True, unseen=_NO_LIMITS),
    Row("QOSMax*PerNode*", "It can never run: it asks for more per node than its QOS allows.", _LESS, YOURS,
        never=True, unseen=_NO_LIMITS),
    Row("QOSMin*", "It can never run: it asks for less than its QOS demands.",
        "Cancel it, and ask for more, or choose another QOS.", YOURS, never=True, unseen=_NO_LIMITS),
    Row("QOSMax*", "You, or your account, use all that your QOS allows at one time.",
        f"It starts when some of these jobs have ended. {_SHARED}", YOURS, unseen=_NO_LIMITS),
    Row("MaxMemPerLimit", "It can never run: it asks for more memory per CPU or node than is allowed.", _LESS,
        YOURS, never=True, unseen="found before submission"),
    Row("Max*PerAccount", "Your account uses all that its QOS allows at one time.",
        f"It starts when others of your account's jobs have ended. {_SHARED}", YOURS, unseen=_NO_LIMITS),
    Row("Assoc*Limit", "Your account uses all it may use at one time.",
        f"It starts when others of your account's jobs have ended. {_SHARED}", YOURS, unseen="older Slurm"),
    Row("QOS*Limit", "Your QOS uses all it may use at one time.",
        f"It starts when others have ended. {_SHARED}", QUEUE, unseen="older Slurm"),
    Row("AccountingPolicy", "A limit of your account or QOS is reached.",
        "It starts when others of your jobs have ended. If it lasts, ask the administrator.", QUEUE,
        unseen=_NO_LIMITS),
    Row("BurstBufferOperation", "Its burst buffer could not be set up.",
        "Cancel it; correct sbatch's option for it, or ask the administrator.", YOURS, never=True,
        unseen=_OTHER),
    Row("BurstBuffer*", "It waits for its burst buffer.", "", QUEUE, unseen=_OTHER),
    Row("Prolog", "Its nodes are being prepared.", "", CLUSTER, unseen="takes no time here"),
    Row("Cleaning", "Slurm still tidies up its previous attempt.", "", CLUSTER, unseen="lasts a moment"),
    Row("FedJobLock", "Another cluster of the federation may start it.", "", CLUSTER, unseen=_OTHER),
    Row("MaxPoweredUpNodes", "As many nodes are switched on as the site allows.",
        "It starts when jobs of others have ended.", QUEUE, unseen=_OTHER),
    Row("Power*", "The site has no electrical power left for it now.",
        "It starts when jobs of others have ended.", QUEUE, unseen="older Slurm"),
    Row("MpiPortsBusy", "Its nodes have no free ports for MPI.", "It starts when jobs there have ended.",
        QUEUE, unseen=_OTHER),
    Row("NvidiaImexChannels", "All channels between its GPUs (IMEX) are in use.",
        "It starts when jobs there have ended.", QUEUE, unseen=_OTHER),
    Row("Block*", "Its block of nodes is in error, or is being freed.", _ADMIN, CLUSTER,
        unseen="older Slurm, Blue Gene"),
    Row("SystemFailure", "Slurm itself, the network or a file system failed.", _ADMIN, CLUSTER,
        unseen="needs a failure of slurmctld"),
    Row("JobLaunchFailure", "Slurm could not start it, and tries again.",
        "If it lasts, ask the administrator.", CLUSTER, unseen="needs a node that breaks during a start"),
]  # fmt: skip

_STATES = {row.name: row for row in STATES}


def state(name: str) -> Row:
    """The row of a state; one for names that this table does not know."""
    return _STATES.get(name) or Row(name, f"Slurm calls it {name}.", whose=CLUSTER)


def reason(name: str, partitions: str = "") -> Row:
    """The row of a reason for waiting, as `squeue` prints it.

    name: a reason, perhaps with nodes (`ReqNodeNotAvail, ...`), or a sentence that Slurm prints instead.
    partitions: of the job. If there are several ("short,long"), a limit of one of them is not final.
    """
    word = name.split(",")[0].split("(")[0].strip() or "None"
    for row in REASONS:
        if fnmatch.fnmatchcase(name.strip(), row.name) or fnmatch.fnmatchcase(word, row.name):
            if row.never and word.startswith("Partition") and "," in partitions:
                return replace(row, what=_ONE_OF.format(word), step=_WAIT, never=False)
            return row
    return Row(word, f"It waits; Slurm's reason: {name.strip()}.")


_ONE_OF = "One of its partitions does not take it ({}); it waits for another."


def markdown() -> str:
    """Both tables as Markdown, for STATES.md."""
    parts = [
        "# What Slurm says of a job, and what it means",
        "",
        "Generated from [states.py](states.py) by `python -m cluster states --write`; the last column names",
        "the test that brings the state about on a real Slurm.",
        "",
    ]
    for title, rows in (("States", STATES), ("Reasons for waiting", REASONS)):
        head = "| Slurm says | what happened | what to do | whose doing | error | shown by |"
        parts += [f"## {title}", "", head, "|---|---|---|---|---|---|"]
        for r in rows:
            error = f"`{r.ending}`" if r.ending else "`CanNeverRun`" if r.never else ""
            by = f"`{r.shown.rpartition('::')[2]}`" if r.shown else f"not shown: {r.unseen}"
            parts.append(f"| `{r.name}` | {r.what} | {r.step} | {r.whose} | {error} | {by} |")
        parts.append("")
    return "\n".join(parts)


def text() -> str:
    """Both tables for a terminal."""
    lines = []
    for title, rows in (("States", STATES), ("Reasons for waiting", REASONS)):
        lines += [title, ""]
        for r in rows:
            mark = f"  [{r.ending}]" if r.ending else "  [CanNeverRun]" if r.never else ""
            lines += [f"  {r.name:26} {r.what}{mark}"]
            lines += [f"  {'':26} → {r.step}"] if r.step else []
        lines.append("")
    return "\n".join(lines).rstrip()
