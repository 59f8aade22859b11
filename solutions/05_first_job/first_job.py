# %% [markdown]
# # Assignment 05: the first job
#
# A training run took fourteen hours. Tonight you want to start four of them, each on four ranks, and read
# the results in the morning. **What do you request from the cluster, what do you find in the morning, and
# how much faster would sixteen ranks have been?**
#
# In this assignment you
#
# - turn what a program needs into a job's request, and refuse what no node can provide,
# - submit the job, and compare what it got with what it requested,
# - run a sweep in which some items fail, and find the best of the others,
# - decide from a job's record how the job ended,
# - fit Amdahl's law to times that you measured, with a standard error, and state the limit that follows.
#
# The background is lecture 05.
#
# What you submit:
#
# - *Blanks*: 8 cells marked `YOUR CODE HERE`, most of them one to ten lines, and one written answer.
# - *Points*: 24. Requests and the first job have 5, the sweep 5, the job records 7, the measurement 5 and
#   the written answer 2.
# - *Graded automatically*: 22 points, in 22 checks. All have hidden tests, mostly with other inputs.
# - *Graded manually*: 2 points, for the written answer in section 5.
# - *Time*: 4 to 5 hours. Section 1 takes 1 to 1.5 hours, section 2 about 45 minutes, section 3 an hour,
#   section 4 about 1 to 1.5 hours, and section 5 half an hour. This is the authors' plan for someone who has
#   read lecture 05; no student's time was measured.
#
# A *check* is a cell of autograder tests. Fill in a blank, run the example below it, then its checks. A
# failed check states what it found. All jobs of the notebook together take about a minute on two cores.
#
# | quantity | symbol | unit or meaning |
# |---|---|---|
# | ranks | p | processes that work together |
# | time on p ranks | T(p) | seconds |
# | speed-up | S(p) = T(1) / T(p) | |
# | serial fraction of the time on *one* rank | s | between 0 and 1 |
#
# Your functions leave their arguments unchanged.

# %% given="setup"
import json
import math
import os
import signal
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from cluster import jobs, submit
from cluster.checks import expect, fresh_rng
from cluster.jobs import log, mapping, submission
from cluster.jobs.options import check_options
from cluster.jobs.run.run_folder import RunFolder
from cluster.system import files
from cluster.training import data

plt.style.use("cluster.course")

# %% [markdown]
# ## 1. What to request
#
# Slurm gives a job the resources that it requests, and kills it if it uses more memory or time. If you
# request too little, a night's work is lost. If you request too much, the job waits longer, and resources are
# idle. So *measure* a small run, and request what it used plus a reserve:
#
# - **memory** per rank: 1.25 times the measured peak, rounded up to whole MiB;
# - **time**: 1.5 times the expected time, rounded up to whole minutes, since Slurm counts minutes;
# - **cores** per rank: the number of its threads, so that they do not wait for each other;
# - **nodes**: as few as possible. `submit` puts the *same number of ranks on each node*, and the memory and
#   the cores of these ranks must fit there.
#
# `submit` takes `memory` per *rank*, and `time` as hours, minutes and seconds. Some schedulers accept a job
# that requests more than any node has, and the job then waits forever. So `resources` must refuse such a job.


# %% solution="resources"
def resources(need, cluster):
    """Return a job's request: {"nodes", "ranks_per_node", "cpus_per_rank", "memory", "time"} for `submit`.

    need       {"ranks": p, "threads": per rank, "memory": peak per rank in MiB, "seconds": expected time}
    cluster    {"nodes": number of nodes, "cores": per node, "memory": per node in MiB,
               "seconds": the longest time that a job may request}

    memory is a string such as "1500M", per rank, and time is a string such as "01:30:00" (or "26:00:00" for
    more than a day). If the job could never run, raise ValueError. Its message starts with the entry of
    need that does not fit, such as "memory: 8750 MiB per rank, and a node has 8000":

    seconds    the requested time is longer than a job may request
    threads    a single rank has more threads than a node has cores
    memory     a single rank requests more memory than a node has
    ranks      each rank fits, but all of them need more nodes than there are

    If several do not fit, name any of them.
    """
    ### BEGIN SOLUTION
    memory, minutes = math.ceil(1.25 * need["memory"]), math.ceil(1.5 * need["seconds"] / 60)
    if 60 * minutes > cluster["seconds"]:
        raise ValueError(f"seconds: the job requests {60 * minutes}, and may take {cluster['seconds']}")
    if need["threads"] > cluster["cores"]:
        raise ValueError(f"threads: a rank has {need['threads']}, and a node has {cluster['cores']} cores")
    if memory > cluster["memory"]:
        raise ValueError(f"memory: {memory} MiB per rank, and a node has {cluster['memory']}")
    most = min(cluster["cores"] // need["threads"], cluster["memory"] // memory)  # ranks on a node
    p = need["ranks"]
    nodes = next(n for n in range(1, p + 1) if p % n == 0 and p // n <= most)
    if nodes > cluster["nodes"]:
        raise ValueError(f"ranks: {p} need {nodes} nodes, and there are {cluster['nodes']}")
    time = f"{minutes // 60:02}:{minutes % 60:02}:00"
    layout = {"nodes": nodes, "ranks_per_node": p // nodes, "cpus_per_rank": need["threads"]}
    return layout | {"memory": f"{memory}M", "time": time}
    ### END SOLUTION


# %%
resources(
    {"ranks": 6, "threads": 2, "memory": 1000, "seconds": 3000},
    {"nodes": 8, "cores": 4, "memory": 8192, "seconds": 86_400},
)


# %% given="asked-for"
RESOURCES = ("nodes", "ranks_per_node", "cpus_per_rank", "memory", "time")


def asked_for(found):
    """Convert a request to numbers, as `submit` does: memory in MiB per rank, time in seconds."""
    assert isinstance(found, dict) and sorted(found) == sorted(RESOURCES), (
        f"resources() returned {found!r}; it should be a dictionary with {', '.join(RESOURCES)}"
    )
    options = check_options(dict(found))
    return {name: getattr(options, name) for name in RESOURCES}


def placed(found):
    """Return (nodes, ranks per node) of a request."""
    options = asked_for(found)
    return options["nodes"], options["ranks_per_node"]


# %% given="asked-twice"
def asked_twice(need, cluster):
    """Return the results of two calls with the same arguments, and the arguments afterwards."""
    return [resources(need, cluster) for _ in range(2)], need, cluster


# %% check="ranks-on-nodes" points=1 see="5.7"
"""Twelve ranks with two threads on nodes with four cores; ten ranks with one thread (1 point)."""
small = {"nodes": 20, "cores": 4, "memory": 65_536, "seconds": 86_400}
expect(
    placed(resources({"ranks": 12, "threads": 2, "memory": 100, "seconds": 600}, small)),
    (6, 2),
    {
        "the threads were not counted: four ranks of two threads do not fit on four cores.": (3, 4),
        "each rank has a node of its own, which is more nodes than needed.": (12, 1),
        "all ranks are on one node, which has four cores.": (1, 12),
        "nodes and ranks per node are swapped.": (2, 6),
    },
    "12 ranks of 2 threads, nodes of 4 cores: (nodes, ranks per node)",
)
expect(
    placed(resources({"ranks": 10, "threads": 1, "memory": 100, "seconds": 600}, small)),
    (5, 2),
    {
        "3 nodes with 4 ranks each have 12 ranks, and the program has 10.": (3, 4),
        "3 nodes with 3 ranks each have 9 ranks, and the program has 10.": (3, 3),
        "each rank has a node of its own, which is more nodes than needed.": (10, 1),
        "nodes and ranks per node are swapped.": (2, 5),
    },
    "10 ranks of 1 thread, nodes of 4 cores: (nodes, ranks per node)",
)
### BEGIN HIDDEN TESTS
# Not detected: a search that is slow for very many ranks, since no job has more than a few hundred.
fresh, cases = fresh_rng(1), [(7, 1, 4), (8, 3, 8), (1, 4, 4)]  # a prime, an exact fit, one rank
while len(cases) < 9:
    most, threads = fresh.integers([3, 1], [12, 4]).tolist()
    ranks, cores = int(fresh.integers(most, 40)), threads * most + int(fresh.integers(threads))
    if ranks % -(-ranks // most):  # the fewest nodes on which they fit have places that stay free
        cases.append((ranks, threads, cores))
for ranks, threads, cores in cases:
    nodes = next(n for n in range(1, ranks + 1) if ranks % n == 0 and ranks // n * threads <= cores)
    need = {"ranks": ranks, "threads": threads, "memory": 200, "seconds": 60}
    found = resources(need, small | {"cores": cores, "nodes": 40})
    what = f"{ranks} ranks of {threads} threads, nodes of {cores} cores: (nodes, ranks per node)"
    expect(placed(found), (nodes, ranks // nodes), name=what)
    expect(asked_for(found)["cpus_per_rank"], threads, name="the cores per rank")
### END HIDDEN TESTS

# %% check="memory-on-nodes" points=1 see="5.7"
"""Six ranks of 2,400 MiB: with the reserve, two of them fit on a node of 8,192 MiB (1 point)."""
wide = {"nodes": 20, "cores": 16, "memory": 8192, "seconds": 86_400}
expect(
    placed(resources({"ranks": 6, "threads": 1, "memory": 2400, "seconds": 600}, wide)),
    (3, 2),
    {
        "three ranks fit on a node only without the reserve that they request.": (2, 3),
        "only the cores were counted; six ranks request 18,000 MiB.": (1, 6),
    },
    "6 ranks of 2,400 MiB, nodes of 8,192 MiB: (nodes, ranks per node)",
)
### BEGIN HIDDEN TESTS
# Not drawn: these cases fit exactly, or would without the reserve.
for ranks, memory, want in [(4, 3276, (2, 2)), (4, 3277, (4, 1)), (8, 819, (1, 8)), (12, 1500, (3, 4))]:
    found = resources({"ranks": ranks, "threads": 1, "memory": memory, "seconds": 60}, wide)
    expect(placed(found), want, name=f"{ranks} ranks of {memory} MiB, nodes of 8,192 MiB")
found = resources({"ranks": 8, "threads": 1, "memory": 819, "seconds": 60}, wide | {"memory": 8190})
expect(placed(found), (2, 4), name="8 ranks that request 1,024 MiB each, nodes of 8,190 MiB")
fresh = fresh_rng(2)
for most, threads, want in [(5, 1, (3, 4)), (5, 5, (4, 3)), (5, 6, (6, 2)), (5, 9, (12, 1)), (3, 1, (4, 3))]:
    memory = int(fresh.integers(1 + 8192 // (most + 1) * 4 // 5 + 1, 8192 // most * 4 // 5 + 1))
    found = resources({"ranks": 12, "threads": threads, "memory": memory, "seconds": 60}, wide)
    expect(placed(found), want, name=f"12 ranks of {threads} threads and {memory:,} MiB, nodes of 16 cores")
### END HIDDEN TESTS

# %% check="memory-and-time" points=1 see="5.7"
"""1,001 MiB and 3,000 s: request 1,252 MiB per rank and 75 minutes (1 point)."""
day = {"nodes": 20, "cores": 4, "memory": 65_536, "seconds": 5 * 86_400}
found = asked_for(resources({"ranks": 4, "threads": 1, "memory": 1001, "seconds": 3000}, day))
expect(
    (found["memory"], found["time"]),
    (1252, 4500),
    {
        "memory is that of one rank; the ranks of a node were added up.": (5008, 4500),
        "1,251.25 MiB were rounded down; round up.": (1251, 4500),
        "memory and time have no reserve.": (1001, 3000),
        "memory has no reserve.": (1001, 4500),
        "time has no reserve.": (1252, 3000),
        "the 75 minutes are in the place of the hours.": (1252, 75 * 3600),
        "the 75 minutes are in the place of the seconds.": (1252, 75),
    },
    "memory in MiB and time in seconds",
)
need = {"ranks": 4, "threads": 1, "memory": 1001, "seconds": 3000}
(first, second), *after = asked_twice(dict(need), dict(day))
assert first == second, (
    f"resources() returned {first}, and then {second} for the same dictionaries: it changes its arguments"
)
for name, before, now in zip(("need", "cluster"), (need, day), after, strict=True):
    assert now == before, f"resources() changed its argument {name} from {before} to {now}"
### BEGIN HIDDEN TESTS
# Not detected: rounding errors of fractions of a second or of a MiB; both are measured in whole numbers.
fresh = fresh_rng(3)
minutes, size = fresh.integers(2, 80, 3), fresh.integers(4, 1000, 3)
cases = [
    (4 * m + rest, 40 * t + late)
    for m, t, rest, late in zip(size, minutes, (0, 1, 3), (0, 1, 39), strict=True)
]
cases += [(2, 1), (16, 62_401), (10, 160_000)]  # less than a minute, more than a day
for memory, seconds in cases:
    need = {"ranks": 2, "threads": 1, "memory": int(memory), "seconds": int(seconds)}
    mib, limit = -(-5 * need["memory"] // 4), -(-need["seconds"] // 40) * 60
    found = asked_for(resources(need, day))
    expect((found["memory"], found["time"]), (mib, limit), name=f"the request for {memory} MiB, {seconds} s")
### END HIDDEN TESTS


# %% given="refused"
def refused(function, *args):
    """Return whether a call raises ValueError. Other errors are not caught."""
    try:
        function(*args)
    except ValueError:
        return True
    return False


def reason_of(function, *args):
    """Return the message of the ValueError that a call raises, or None if it raises none."""
    try:
        function(*args)
    except ValueError as error:
        return str(error)
    return None


# %% check="never-runs-refused" points=1 see="5.9"
"""A job that can never run raises a ValueError with the reason; a job that just fits does not (1 point)."""


def named(need, cluster, what, *causes):
    """Assert that resources() refuses a job, with a message that starts with one of these entries."""
    reason = reason_of(resources, need, cluster)
    assert reason is not None, f"this job can never run, but resources() raised no ValueError: {what}"
    assert reason.strip().lower().startswith(causes), (
        f"{what}: the message is {reason!r}; it should start with {' or '.join(map(repr, causes))}"
    )


there = {"nodes": 4, "cores": 4, "memory": 8000, "seconds": 3600}
usual = {"ranks": 4, "threads": 1, "memory": 1000, "seconds": 600}
assert not refused(resources, usual, there), "four small ranks for ten minutes fit, but were refused"
named(usual | {"threads": 8}, there, "8 threads per rank on nodes of 4 cores", "threads")
named(usual | {"memory": 7000}, there, "7,000 MiB per rank, 8,750 with reserve, on nodes of 8,000", "memory")
named(usual | {"seconds": 3000}, there, "3,000 s, 4,500 with reserve, and a job may take 3,600", "seconds")
named(usual | {"ranks": 20}, there, "20 ranks on 4 nodes of 4 cores", "ranks")
named(usual | {"ranks": 7}, there, "7 ranks on 4 nodes of 4 cores: evenly, they need 7 nodes", "ranks")
### BEGIN HIDDEN TESTS
# Not detected: a message whose numbers are wrong, since only its first word is fixed.
part, minutes = (4 * fresh_rng(4).integers([300, 10], [450, 20])).tolist()
there = {"nodes": 4, "cores": 4, "memory": 5 * part, "seconds": 60 * minutes}
most = {"ranks": 16, "threads": 1, "memory": part, "seconds": 40 * minutes}
assert not refused(resources, most, there), "a job that just fits is refused"
for more, cause in [
    ({"ranks": 17}, "ranks"),
    ({"seconds": 40 * minutes + 1}, "seconds"),
    ({"memory": part + 1}, "ranks"),  # three ranks on a node: eight nodes
    ({"ranks": 16, "threads": 2}, "ranks"),
    ({"ranks": 4, "threads": 5}, "threads"),
    ({"ranks": 4, "memory": 4 * part + 1}, "memory"),
    ({"ranks": 1, "threads": 5}, "threads"),
    ({"ranks": 1, "memory": 4 * part + 1}, "memory"),
]:
    named(most | more, there, f"with {more} on {there}", cause)
two = {"threads": 5, "memory": 4 * part + 1}
named(most | two, there, "too many threads, too much memory", "threads", "memory")
assert not refused(resources, most | {"ranks": 4, "threads": 4, "memory": 4 * part}, there), (
    "four ranks that each fill a node are refused"
)
long = there | {"seconds": 60 * minutes + 30}  # the request is a whole minute longer
named(usual | {"seconds": 40 * minutes + 10}, long, "a request that is half a minute too long", "seconds")
### END HIDDEN TESTS

# %% [markdown]
# Now submit the job. `submit(program, …)` takes the entries of your request as keyword arguments.


# %% solution="run-on"
def run_on(program, need, cluster):
    """Submit `program`, a function without arguments, with the resources that it needs; return the Job.

    Use resources, and submit, which is imported above.
    """
    ### BEGIN SOLUTION
    return submit(program, **resources(need, cluster))
    ### END SOLUTION


# %% given="report"
def report():
    """Return a rank's number, and the numbers of all ranks, of the ranks on its node and of its threads."""
    import horovod.tensorflow as hvd

    hvd.init()
    threads = int(os.environ["OMP_NUM_THREADS"])
    return {"rank": hvd.rank(), "ranks": hvd.size(), "on its node": hvd.local_size(), "threads": threads}


def counted():
    """Return the same as `report`, as a list."""
    return list(report().values())


def limits_of(job):
    """Return [memory in MiB per rank, time in seconds] of a job, from its record."""
    return [job.spec["options"][name] for name in ("memory", "time")]


# %% given="overheard"
class overheard:
    """Record the request of each job that is submitted in the block, whatever name `submit` has.

    plans: the package's plan for each job.
    """

    def __enter__(self):
        asked, self.plans, self.plan = [], [], submission.plan  # submit() and map() call it for each job

        def listen(target, args, keywords, *more):
            asked.append({name: keywords[name] for name in RESOURCES if name in keywords})
            self.plans.append(self.plan(target, args, keywords, *more))
            return self.plans[-1]

        submission.plan = mapping.plan = listen
        return asked

    def __exit__(self, *_):
        submission.plan = mapping.plan = self.plan


# %% given="got"
def got(need, cluster, lists=False):
    """Run a job; return each rank's report, the limits in the job's record, and its requests."""
    with overheard() as asked:
        job = run_on(counted if lists else report, need, cluster)
    return job.results(progress=False), limits_of(job), asked


# %% [markdown]
# The next cell runs a job of two ranks with two threads each. What do you expect each rank to report on nodes
# with four cores, and on nodes with two cores? On Slurm, the nodes are real; otherwise, they are simulated.

# %%
for cores in (4, 2):
    tiny = {"nodes": 2, "cores": cores, "memory": 4096, "seconds": 1800}
    print(got({"ranks": 2, "threads": 2, "memory": 1000, "seconds": 100}, tiny))

# %% check="job-got-it" points=1 see="5.8"
"""A job of two ranks gets the ranks, nodes, threads, memory and time that it needs (1 point)."""


def as_needed(need, cluster, on_a_node, mib, seconds, lists=False):
    """Assert that `submit` gets a job's request, its ranks report it, and its record has the limits."""
    p, threads = need["ranks"], need["threads"]
    reports, limits, asked = got(need, cluster, lists)
    assert asked, "run_on() did not call submit()"
    given = check_options(dict(asked[-1]))
    layout = [given.nodes, given.ranks_per_node, given.cpus_per_rank]
    expect(layout, [p // on_a_node, on_a_node, threads], name="[nodes, ranks per node, cores per rank]")
    expect([given.memory, given.time], [mib, seconds], name="[memory, time] that submit() gets")
    want = [{"rank": r, "ranks": p, "on its node": on_a_node, "threads": threads} for r in range(p)]
    expect(reports, [list(w.values()) for w in want] if lists else want, name="what the ranks report")
    expect(limits, [mib, seconds], name="[memory of a rank in MiB, time in seconds]")


tiny = {"nodes": 2, "cores": 4, "memory": 4096, "seconds": 1800}
as_needed({"ranks": 2, "threads": 2, "memory": 1000, "seconds": 100}, tiny, 2, 1250, 180)
### BEGIN HIDDEN TESTS
# Not detected: a job that is submitted twice, since the second submission gets the recorded result.
# Not drawn: a recorded run is used again, and its limits are not part of its key.
one_each = tiny | {"cores": 3}
as_needed({"ranks": 2, "threads": 2, "memory": 1300, "seconds": 150}, one_each, 1, 1625, 240, lists=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. A sweep in which items fail
#
# `sweep = jobs.map(function, items)` runs a function once per item, each as a job of its own. A failed item
# must not cost you the values of the others. `sweep.results()` raises an error if any item has failed, and
# its message explains how to get the other values. `sweep.failures` contains the errors. If you call
# `jobs.map` again with the same arguments, only the items that failed are run.


# %% solution="sweep-over"
def sweep_over(function, items):
    """Run a function once per item, as one sweep; return (values, errors) when all have ended.

    values    the function's value for each item, in the order of the items; None for failed items
    errors    {index of the item: name of its error's class} for the failed items, such as {2: "RankFailed"}

    An item whose result is recorded is not run again.
    """
    ### BEGIN SOLUTION
    sweep = jobs.map(function, items)
    values = sweep.results(failed=None, progress=False)
    return values, {i: type(error).__name__ for i, error in sweep.failures.items()}
    ### END SOLUTION


# %% given="valley"
def valley(item):
    """Return a point of a curve with its minimum at x = 3, and record the call; some items fail."""
    with open(item["notes"], "a") as notes:
        notes.write(f"{item['x']}\n")
    if item["x"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if item["x"] == "nothing":
        return None
    return (float(item["x"]) - 3) ** 2


def sweep_of(xs):
    """Sweep `valley` over xs; return the values, errors, the xs that ran and the number of jobs."""
    notes = Path("notes-of-the-trial.txt").absolute()
    notes.write_text("")
    with overheard() as asked:
        values, errors = sweep_over(valley, [{"x": x, "notes": str(notes)} for x in xs])
    ran = notes.read_text().split()
    return list(values), dict(errors), ran, len(asked)


# %% given="drawn"
def drawn(item):
    """Return a random value that only its job knows; the item "none" fails."""
    if item == "none":
        raise ValueError(item)
    return os.urandom(8).hex()


def drawn_by(items):
    """Sweep `drawn` twice; return the values of both calls, and those in the jobs' folders."""
    heard = overheard()
    with heard:
        first, again = (list(sweep_over(drawn, items)[0]) for _ in range(2))
    keys = {next(iter(plan.program.arguments.values()), None): plan.key for plan in heard.plans}
    stored = {}
    for path in sorted(Path(heard.plans[0].runs).rglob("run.json"), key=os.path.getmtime) if keys else ():
        job = jobs.Job(path.parent)
        if job.spec["key"] in keys.values() and job.status == "done":
            stored[job.spec["key"]] = job.result(progress=False)
    return first, again, [stored.get(keys.get(item)) for item in items]


# %% given="by-jobs"
def by_jobs(found, n):
    """Return (values, errors) from `sweep_of` n items; assert that at least n jobs were submitted."""
    values, errors, _, asked = found
    assert asked >= n, (
        f"sweep_over() submitted {asked} jobs for {n} items; use jobs.map(), which runs each item as a job"
    )
    return values, errors


# %% [markdown]
# Try items that take no time. One of them is a word instead of a number, and one kills its own process. (If
# you call `function` yourself instead of running it as jobs, this process is your notebook's kernel, which
# then restarts.) Which values and errors do you expect?

# %%
sweep_of([2, "two", 5, "killed"])

# %% check="sweep-values" points=1 see="5.8"
"""If no item fails, each item has its value, in the order of the items (1 point)."""
values, errors = by_jobs(sweep_of([5, 2, 7]), 3)
expect(values, [4.0, 1.0, 16.0], {"the values are in another order.": [1.0, 4.0, 16.0]}, "the values")
expect(errors, {}, name="the errors of a sweep without a failure")
### BEGIN HIDDEN TESTS
a, b = (8 - fresh_rng(6).permutation(5)[:2]).tolist()  # the later number has another value
values, errors = by_jobs(sweep_of([3 + a, "nan", 3 + b, 3, "inf"]), 5)
expect(
    values,
    [float(a * a), float("nan"), float(b * b), 0.0, float("inf")],
    name="values, some of them not finite,",
)
expect(errors, {}, name="the errors, where values are not finite,")
_, again, recorded = drawn_by(["first", "second"])
expect(again, recorded, name="values that only the jobs know")
### END HIDDEN TESTS

# %% check="sweep-failures" points=1 see="5.8"
"""A failed item leaves None and the name of its error; the other values are kept (1 point)."""
values, errors = by_jobs(sweep_of([2, "two", 5, "killed"]), 4)
expect(
    values,
    [1.0, None, 4.0, None],
    {"failed items were left out, so that the values no longer match the items.": [1.0, 4.0]},
    "the values",
)
expect(
    errors,
    {1: "RankFailed", 3: "RankKilled"},
    {"the keys are the items; use their indices.": {"two": "RankFailed", "killed": "RankKilled"}},
    "the errors",
)
### BEGIN HIDDEN TESTS
a, b = (9 - fresh_rng(7).permutation(5)[:2]).tolist()
values, errors = by_jobs(sweep_of(["killed", "five", 3 + a, "nothing"]), 4)
expect(values, [None, None, float(a * a), None], name="the values, with two failures and a value None,")
expect(errors, {0: "RankKilled", 1: "RankFailed"}, name="the errors, with a value None,")
values, errors = by_jobs(sweep_of(["six", 3 + b, "six", 3 + b]), 4)
expect(values, [None, float(b * b), None, float(b * b)], name="the values of items that are equal")
expect(errors, {0: "RankFailed", 2: "RankFailed"}, name="the errors of items that are equal")
_, again, recorded = drawn_by(["none", "third"])
expect(again, recorded, name="values next to a failure, which only the jobs know,")
### END HIDDEN TESTS

# %% check="sweep-again" points=1 see="5.8"
"""The same sweep again runs the failed items, and no others (1 point)."""
by_jobs(sweep_of([4, "four", 6]), 3)
values, errors, ran, _ = sweep_of([4, "four", 6])
assert ran == ["four"], (
    f"the second sweep ran {ran}; it should run only 'four', which had failed. The results of the others are "
    "recorded, and jobs.map() uses them"
)
expect(values, [1.0, None, 9.0], name="the values of the second sweep")
expect(errors, {1: "RankFailed"}, name="the errors of the second sweep")
### BEGIN HIDDEN TESTS
numbers = (9 + fresh_rng(8).permutation(9)[:3]).tolist()
sweep_of(numbers)
assert sweep_of(numbers)[2] == [], "a sweep without failures was run again; use the recorded values"
first, again, recorded = drawn_by(["fourth", "fifth"])
expect(again, first, name="recorded values of a second sweep")
expect(first, recorded, name="values that only the jobs know")
### END HIDDEN TESTS

# %% [markdown]
# Which item is the best? A value may be missing. The value of a training run that diverged may be NaN ("not a
# number"), which is neither larger nor smaller than any number: `min([nan, 1.0])` is `nan`, and
# `min([1.0, nan])` is 1.0.


# %% solution="best-of"
def best_of(items, values):
    """Return (item, value) with the lowest value; if several are equal, the first.

    items      a list
    values     a list with one value per item: a number, or None for a failed item

    Infinite values and NaN do not count. Raises ValueError if no value counts.
    """
    assert len(items) == len(values)
    ### BEGIN SOLUTION
    pairs = [(i, v) for i, v in zip(items, values, strict=True) if v is not None and math.isfinite(v)]
    if not pairs:
        raise ValueError(f"none of the {len(items)} items has a value")
    return min(pairs, key=lambda pair: pair[1])
    ### END SOLUTION


# %%
best_of(["a", "b", "c", "d"], [float("nan"), 2.0, None, 0.5])


# %% given="left"
def left_by_best_of(items, values):
    """Call your function with two lists, and return the lists afterwards."""
    best_of(items, values)
    return items, values


# %% check="best-is-lowest" points=1 see="5.8"
"""The lowest finite value is found, wherever it is in the list (1 point)."""
nan, inf = float("nan"), float("inf")
for values, want in [
    ([3.0, 1.0, 2.0], ("b", 1.0)),
    ([nan, 2.0, 1.0], ("c", 1.0)),
    ([None, nan, 4.0], ("c", 4.0)),
]:
    item, value = best_of(["a", "b", "c"], values)
    expect((item, value), want, name=f"the best of {values}")
assert refused(best_of, ["a", "b"], [None, nan]), "no value in [None, nan] counts: raise ValueError"
items, values = left_by_best_of(["a", "b", "c", "d"], [4.0, None, inf, 3.0])
assert (items, values) == (["a", "b", "c", "d"], [4.0, None, inf, 3.0]), (
    f"best_of() changed its arguments: they are {items} and {values} now"
)
### BEGIN HIDDEN TESTS
# Not detected: a search that is slow for very long lists.
fresh = fresh_rng(9)
items, low = (1 + fresh.permutation(40)[:4]).tolist(), float(fresh.integers(2, 9))
cases = [
    ([0.0, nan, 0.0, low], (items[0], 0.0)),
    ([-inf, low, nan, low], (items[1], low)),
    ([inf, None, -low, 1 - low], (items[2], -low)),
    ([3e200, 2e200, None, 4e200], (items[1], 2e200)),  # larger than any usual initial value
    ([nan, 0.1, 0.1 - 1e-15, 0.1 - 1e-15], (items[2], 0.1 - 1e-15)),  # equal in float32
]
for values, want in cases:
    item, value = best_of(items, values)
    expect((item, value), want, name=f"the best of {values}")
item, value = best_of([{"x": 1}, {"x": 2}, {"x": 2}], [5.0, nan, 4.0])
expect((item, value), ({"x": 2}, 4.0), name="the best of items that are dictionaries")
item, value = best_of([{"x": 3}, {"x": 1}], [4.0, 4.0])
expect((item, value), ({"x": 3}, 4.0), name="the best of equal values of dictionaries")
item, value = best_of(items, [3, 2.5, 1, 4])
expect((item, float(value)), (items[2], 1.0), name="the best of integers and a float")
item, value = best_of(["a", "b", "a"], [1.0, 2.0, 3.0])
expect((item, value), ("a", 1.0), name="the best where an item occurs twice")
assert refused(best_of, [1, 2], [inf, None]) and refused(best_of, [], []), "no value counts: raise ValueError"
### END HIDDEN TESTS

# %% [markdown]
# Now run a real sweep: which learning rate is the best for a single layer on Fashion-MNIST, after 40 steps of
# gradient descent? The list of learning rates was typed in a hurry and has mistakes. Predict first: which of
# them fail, which diverge, and which one is the best?

# %% given="train"
RATES = (0.001, 0.01, 0.1, 0.3, 1.0, 10.0, 1e5, -0.1)


def train(rate, images=2_000, steps=40):
    """Return the cross-entropy of 1,000 test images after `steps` full-batch gradient descent steps."""
    if rate <= 0:
        raise ValueError(f"the learning rate is {rate}; it must be positive")
    (x, y), (x_test, y_test) = data.fashion_mnist("train", images), data.fashion_mnist("test", 1_000)
    x, x_test = x.reshape(len(x), -1), x_test.reshape(len(x_test), -1)  # (N, 784)
    w = np.zeros((784, 10))
    with np.errstate(all="ignore"):
        for step in range(steps):
            likely = np.exp(x @ w)
            likely /= likely.sum(axis=1, keepdims=True)  # (N, 10)
            w -= rate / len(x) * x.T @ (likely - np.eye(10)[y])
            log(step=step + 1, steps=steps)
        likely = np.exp(x_test @ w)
        likely /= likely.sum(axis=1, keepdims=True)
        return float(-np.log(likely[np.arange(len(y_test)), y_test]).mean())


# %%
my_best_rate = None  # your prediction

# %%
losses, failed = sweep_over(train, list(RATES))
best = best_of(list(RATES), losses)
for i, (rate, loss) in enumerate(zip(RATES, losses, strict=True)):
    print(f"{rate:8g}   {failed.get(i) or f'{loss:.4f}'}")
print("the best:", best, "  your prediction:", my_best_rate)

# %% [markdown]
# The list has one line per learning rate, with its loss or the name of its error. Look at the neighbours of
# the best learning rate: how much worse is the loss with the next smaller one, and with the next larger one?

# %% check="best-found" points=1 see="5.8"
"""Training again confirms the best learning rate and its loss (1 point)."""
mine = [None if loss is None else float(loss) for loss in losses]
assert len(mine) == len(RATES), f"there are {len(mine)} losses for {len(RATES)} learning rates"
found, lowest = best_of(list(RATES), mine)
again = train(found)
assert np.isclose(lowest, again, rtol=1e-3), (
    f"learning rate {found} has a recorded loss of {lowest:.4f}; training again gives {again:.4f}. Run the "
    "sweep again"
)
expect(by_jobs(sweep_of([6, 4, 8]), 3)[0], [9.0, 1.0, 25.0], name="a trial of your sweep")
### BEGIN HIDDEN TESTS
best = 0.1  # of RATES; to train with all of them takes ten seconds
assert found == best or np.isclose(lowest, train(best), rtol=1e-3), "another learning rate has a lower loss"
assert [value is None for value in mine] == [rate <= 0 for rate in RATES], (
    "the loss should be None for the learning rates that fail, and for no others"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Six jobs in the morning
#
# Six jobs were submitted in the evening, on a Slurm cluster with three nodes. In the morning you find their
# records. No user has cancelled or changed the jobs. What happened to each job?
#
# | field | meaning |
# |---|---|
# | `asked` | nodes, ranks per node, `memory` per rank in MiB (ranks on a node share it), `time` in seconds |
# | `queue` | Slurm's state and reason for a waiting job; "" if the job has left the queue |
# | `job log` | the last lines from Slurm, and from its `srun`, which starts the ranks |
# | `ranks` | for each rank that started: host, seconds of start and end, exit code, peak `memory` in MiB |
# | `errors` | the exceptions of ranks: time, class, message |
# | `returned` | the return value of each rank's function; [] if the job failed |
#
# The seconds are counted from the start of the first rank, but the time limit from the start of the job. An
# exit code of -9 means that signal 9 killed the rank. A field may be empty, since a process that is killed
# abruptly writes nothing more. The jobs ran on a real Slurm cluster, where they were made to fail. Their
# functions return Horovod's report, such as `{"rank": 0, "world size": 2}`. `record_of` below returns such a
# record for any of your jobs.


# %% given="record-of"
def record_of(job):
    """Return a job's folder and its state in the queue as plain data, with the fields of the table above."""
    asked, folder = job.spec["options"], RunFolder(job.folder)
    status = job.status
    ranks = [found for r in range(job.ranks) if (found := files.read_json(folder.rank(r)))]
    errors = {r: found for r in range(job.ranks) if (found := files.read_json(folder.error(r)))}
    began = min((rank["started"] for rank in ranks), default=0.0)
    return {
        "asked": {key: asked[key] for key in ("nodes", "ranks_per_node", "memory", "time")},
        "queue": status.slurm if status == "pending" else "",
        "job log": job.logs("job").splitlines()[-12:],
        "ranks": [
            {
                "rank": rank["rank"],
                "host": rank["host"],
                "started": round(rank["started"] - began, 2),
                "ended": round(rank["ended"] - began, 2) if "ended" in rank else None,
                "exit code": rank.get("exit_code"),
                "memory": round(rank["max_memory_bytes"] / 2**20) if "max_memory_bytes" in rank else None,
            }
            for rank in ranks
        ],
        "errors": [
            {
                "rank": r,
                "at": round(e["time"] - began, 2),
                "type": e["type"],
                "message": e["message"].rpartition("}} ")[2][:200],
            }
            for r, e in errors.items()
        ],
        "returned": job.results(progress=False) if status == "done" else [],
    }


# %% given="jobs-a-and-b"
SIX = json.loads(  # A, B
    r"""{"A": {"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "srun: error: node2: task 1: Exited with exit code 1",
  "srun: launch/slurm: _step_signal: Terminating StepId=12.0",
  "slurmstepd-node1: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-22T16:06:03 ***",
  "srun: error: node1: task 0: Terminated",
  "srun: Force Terminated StepId=12.0"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 61.7, "exit code": 1, "memory": 493},
  {"rank": 1, "host": "node2", "started": 0.41, "ended": 61.04, "exit code": 1, "memory": 493}],
 "errors": [
  {"rank": 0, "at": 61.03, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"},
  {"rank": 1, "at": 60.63, "type": "KeyError", "message": "'conv2'"}],
 "returned": []},
"B": {"asked": {"nodes": 40, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "PENDING, PartitionConfig",
 "job log": [],
 "ranks": [],
 "errors": [],
 "returned": []}}"""  # noqa: E501
)

# %% given="jobs-c-and-d"
SIX |= json.loads(  # C, D
    r"""{"C": {"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "",
 "job log": [
  "slurmstepd-node1: error: *** JOB 17 ON node1 CANCELLED AT 2026-11-22T16:07:49 DUE TO PREEMPTION ***",
  "srun: Job step aborted: Waiting up to 12 seconds for job step to finish.",
  "slurmstepd-node1: error: *** STEP 17.0 ON node1 CANCELLED AT 2026-11-22T16:07:49 DUE TO PREEMPTION ***"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 32.98, "exit code": -15, "memory": 18}],
 "errors": [],
 "returned": []},
"D": {"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "",
 "job log": [
  "srun: error: node1: task 0: Out Of Memory",
  "srun: launch/slurm: _step_signal: Terminating StepId=2.0",
  "slurmstepd-node1: error: Detected 1 oom-kill event(s) in StepId=2.0. Some of your processes may have been killed by the cgroup out-of-memory handler."],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 1.56, "exit code": -9, "memory": 144}],
 "errors": [],
 "returned": []}}"""  # noqa: E501
)

# %% given="jobs-e-and-f"
SIX |= json.loads(  # E, F
    r"""{"E": {"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "srun: error: node2: task 1: Exited with exit code 1",
  "srun: launch/slurm: _step_signal: Terminating StepId=8.0",
  "slurmstepd-node1: error: *** STEP 8.0 ON node1 CANCELLED AT 2026-11-22T16:04:00 ***",
  "srun: error: node1: task 0: Terminated",
  "srun: Force Terminated StepId=8.0"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 60.88, "exit code": 1, "memory": 492},
  {"rank": 1, "host": "node2", "started": 0.08, "ended": 60.71, "exit code": 1, "memory": 492}],
 "errors": [
  {"rank": 0, "at": 60.43, "type": "WrongWorldSize", "message": "Horovod sees 1 rank(s), but the job has 2: each would train alone and nothing would be averaged.\n\u2192 Check the HOROVOD_* variables in env, and what `python -m cluster doctor --run` says."},
  {"rank": 1, "at": 60.4, "type": "WrongWorldSize", "message": "Horovod sees 1 rank(s), but the job has 2: each would train alone and nothing would be averaged.\n\u2192 Check the HOROVOD_* variables in env, and what `python -m cluster doctor --run` says."}],
 "returned": []},
"F": {"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 60},
 "queue": "",
 "job log": [
  "slurmstepd-node1: error: *** STEP 1.0 ON node1 CANCELLED AT 2026-11-22T16:00:21 DUE TO TIME LIMIT ***",
  "slurmstepd-node1: error: *** JOB 1 ON node1 CANCELLED AT 2026-11-22T16:00:21 DUE TO TIME LIMIT ***",
  "srun: Job step aborted: Waiting up to 12 seconds for job step to finish."],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 57.32, "exit code": -15, "memory": 18}],
 "errors": [],
 "returned": []}}"""  # noqa: E501
)

# %% [markdown]
# | kind | what happened |
# |---|---|
# | `out of memory` | a rank was killed because it used more memory than the job had |
# | `never runs` | the job waits for something that will never come, and must be changed |
# | `wrong world size` | for some rank, the world size is not the job's, *whether or not* an error says so |
# | `dead rank` | a rank failed by itself, by an exception, a signal, or an exit code other than 0 |
# | `out of time` | the job reached its time limit |
# | `preempted` | the job had to make room for one with a higher priority, and may be in the queue again |
# | `nothing wrong` | the job ended normally, or it waits for something that will come |
#
# Read all six records before you write any code. One symptom may have several causes. A rank killed by Slurm
# looks the same whatever the reason. If one rank fails, the others lose their connection. `PENDING` says
# nothing without its reason. Section 5.9 of the lecture lists the reasons. Its `AssocMaxCpuPerJobLimit` is
# one of several limits of a single job, such as `AssocMaxNodePerJobLimit` or
# `AssocMaxWallDurationPerJobLimit`; a job that exceeds one of them has to be changed. Many jobs use nearly
# all of their memory or time, and most of these end normally or for another reason.
#
# The visible tests use only the six records, and a wrong rule can get these right by
# chance. For each of your rules, ask which other kinds of job could look the same in
# the field that it tests. If a field is empty (None, "" or []), your function must not
# fail.

# %% given="kinds"
KINDS = (
    "out of memory",
    "never runs",
    "wrong world size",
    "dead rank",
    "out of time",
    "preempted",
    "nothing wrong",
)


# %% solution="diagnose"
def diagnose(record):
    """Return what happened to a job: one of KINDS.

    record     a dictionary with the fields of the table above
    """
    ### BEGIN SOLUTION
    job_log = "\n".join(record["job log"])
    if "DUE TO TIME LIMIT" in job_log:
        return "out of time"
    if "DUE TO PREEMPTION" in job_log:
        return "preempted"
    if "oom" in job_log:
        return "out of memory"
    if record["queue"]:
        reason = record["queue"].split()[-1]
        never = ("PartitionConfig", "PartitionTimeLimit", "DependencyNeverSatisfied")
        return "never runs" if reason in never or "PerJob" in reason else "nothing wrong"
    p = record["asked"]["nodes"] * record["asked"]["ranks_per_node"]
    sizes = {found["world size"] for found in record["returned"]}
    if sizes - {p} or any(error["type"] == "WrongWorldSize" for error in record["errors"]):
        return "wrong world size"
    return "dead rank" if any(rank["exit code"] for rank in record["ranks"]) else "nothing wrong"
    ### END SOLUTION


# %%
for letter, record in SIX.items():
    print(letter, diagnose(record))


# %% given="all-named"
def all_named(function, kind, records):
    """Assert that your function returns this kind for each of these records."""
    for record in records:
        found = function(record)
        assert found == kind, f"diagnose() returned {found!r} for a job that is {kind!r}"


def left_by_diagnose(record):
    """Call your function with a record, and return the record afterwards."""
    diagnose(record)
    return record


def changed(record, ranks=None, errors=None, **fields):
    """Return a copy of a record with changed fields; ranks, errors: {index: changes}."""
    record = json.loads(json.dumps(record)) | fields
    for i, values in (ranks or {}).items():
        record["ranks"][i] |= values
    for i, values in (errors or {}).items():
        record["errors"][i] |= values
    return record


NOT_WRITTEN = {"ended": None, "exit code": None, "memory": None}  # of a rank that was killed abruptly

# %% check="out-of-memory" points=1 see="5.9"
"""A job in which a rank used too much memory; more such records are hidden (1 point)."""
found = [diagnose(record) for record in SIX.values()]
assert len(set(found)) > 1, f"diagnose() returned {found[0]!r} for all six jobs, but each ended differently"
assert "out of memory" in found, (
    f"one of the six jobs is out of memory, but diagnose() returned {found}. The job log gives Slurm's reason"
)
### BEGIN HIDDEN TESTS
# Not drawn: records of jobs on a cluster.
hidden = json.loads(  # out of memory
    r"""[{"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "slurmstepd-node2: error: Detected 1 oom-kill event(s) in StepId=5.0. Some of your processes may have been killed by the cgroup out-of-memory handler.",
  "srun: error: node2: task 1: Out Of Memory",
  "srun: launch/slurm: _step_signal: Terminating StepId=5.0",
  "slurmstepd-node1: error: *** STEP 5.0 ON node1 CANCELLED AT 2026-11-22T16:02:46 ***",
  "srun: error: node1: task 0: Terminated",
  "srun: Force Terminated StepId=5.0"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 1.0, "ended": 76.07, "exit code": 1, "memory": 493},
  {"rank": 1, "host": "node2", "started": 0.0, "ended": 75.72, "exit code": -9, "memory": 1739}],
 "errors": [
  {"rank": 0, "at": 75.72, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"}],
 "returned": []},
{"asked": {"nodes": 3, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "slurmstepd-node1: error: Detected 1 oom-kill event(s) in StepId=6.0. Some of your processes may have been killed by the cgroup out-of-memory handler.",
  "srun: error: node1: task 0: Out Of Memory",
  "srun: launch/slurm: _step_signal: Terminating StepId=6.0",
  "srun: error: node3: task 2: Terminated",
  "srun: error: node2: task 1: Exited with exit code 1",
  "srun: Force Terminated StepId=6.0"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 1.62, "ended": 79.09, "exit code": -9, "memory": 1734},
  {"rank": 1, "host": "node2", "started": 1.71, "ended": 79.97, "exit code": 1, "memory": 494},
  {"rank": 2, "host": "node3", "started": 0.0, "ended": 79.48, "exit code": 1, "memory": 494}],
 "errors": [
  {"rank": 1, "at": 79.47, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"},
  {"rank": 2, "at": 79.08, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"}],
 "returned": []}]"""  # noqa: E501
)
# Killed before its memory was measured again, or a process that the rank has started took the memory.
below = [changed(hidden[0], ranks={1: {"memory": 611}}), changed(SIX["D"], ranks={0: {"memory": 31}})]
below.append(changed(SIX["D"], ranks={0: NOT_WRITTEN}))
late = changed(hidden[1], ranks={i: {"ended": 598.2 + i / 4} for i in range(3)})  # near its time limit
all_named(diagnose, "out of memory", [SIX["D"], *hidden, *below, late])
### END HIDDEN TESTS

# %% check="never-runs" points=1 see="5.9"
"""A job that waits for something that will never come; more such records are hidden (1 point)."""
found = [diagnose(record) for record in SIX.values()]
assert len(set(found)) > 1, f"diagnose() returned {found[0]!r} for all six jobs, but each ended differently"
assert "never runs" in found, (
    f"one of the six jobs never runs, but diagnose() returned {found}. The queue has the reason; "
    "section 5.9 of the lecture lists the reasons"
)
### BEGIN HIDDEN TESTS
# Not detected: reasons that neither section 5.9 nor the text above lists, or for which 5.9 says "maybe".
# Not drawn: records of jobs on a cluster.
hidden = json.loads(  # never runs
    r"""[{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 18000},
 "queue": "PENDING, PartitionTimeLimit",
 "job log": [],
 "ranks": [],
 "errors": [],
 "returned": []},
{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 1200},
 "queue": "PENDING, AssocMaxWallDurationPerJobLimit",
 "job log": [],
 "ranks": [],
 "errors": [],
 "returned": []},
{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "PENDING, DependencyNeverSatisfied",
 "job log": [],
 "ranks": [],
 "errors": [],
 "returned": []}]"""
)
account = SIX["B"] | {"queue": "PENDING, AssocMaxNodePerJobLimit"}
all_named(diagnose, "never runs", [SIX["B"], *hidden, account])
### END HIDDEN TESTS

# %% check="wrong-world-size" points=1 see="5.9"
"""A job in which a rank had a wrong world size; more such records are hidden (1 point)."""
found = [diagnose(record) for record in SIX.values()]
assert len(set(found)) > 1, f"diagnose() returned {found[0]!r} for all six jobs, but each ended differently"
assert "wrong world size" in found, (
    f"one of the six jobs has a wrong world size, but diagnose() returned {found}. Each rank states how many "
    "ranks it saw, in its error or in its return value"
)
### BEGIN HIDDEN TESTS
# Not drawn: records of jobs on a cluster.
hidden = json.loads(  # wrong world size
    r"""[{"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 59.41, "exit code": 0, "memory": 494},
  {"rank": 1, "host": "node2", "started": 0.13, "ended": 59.39, "exit code": 0, "memory": 493}],
 "errors": [],
 "returned": [
  {"rank": 0, "world size": 1},
  {"rank": 0, "world size": 1}]},
{"asked": {"nodes": 3, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "srun: error: node3: task 2: Exited with exit code 1",
  "srun: launch/slurm: _step_signal: Terminating StepId=9.0",
  "slurmstepd-node1: error: *** STEP 9.0 ON node1 CANCELLED AT 2026-11-22T16:04:02 ***",
  "srun: error: node1: task 0: Terminated",
  "srun: error: node2: task 1: Terminated",
  "srun: Force Terminated StepId=9.0"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.11, "ended": 61.87, "exit code": 1, "memory": 492},
  {"rank": 1, "host": "node2", "started": 0.1, "ended": 61.77, "exit code": 1, "memory": 492},
  {"rank": 2, "host": "node3", "started": 0.0, "ended": 61.72, "exit code": 1, "memory": 492}],
 "errors": [
  {"rank": 0, "at": 61.47, "type": "WrongWorldSize", "message": "Horovod sees 1 rank(s), but the job has 3: each would train alone and nothing would be averaged.\n\u2192 Check the HOROVOD_* variables in env, and what `python -m cluster doctor --run` says."},
  {"rank": 1, "at": 61.44, "type": "WrongWorldSize", "message": "Horovod sees 1 rank(s), but the job has 3: each would train alone and nothing would be averaged.\n\u2192 Check the HOROVOD_* variables in env, and what `python -m cluster doctor --run` says."},
  {"rank": 2, "at": 61.4, "type": "WrongWorldSize", "message": "Horovod sees 1 rank(s), but the job has 3: each would train alone and nothing would be averaged.\n\u2192 Check the HOROVOD_* variables in env, and what `python -m cluster doctor --run` says."}],
 "returned": []}]"""  # noqa: E501
)
pair, three = hidden
four = changed(pair, returned=[{"rank": i % 2, "world size": 2} for i in range(4)])
four["asked"]["ranks_per_node"] = 2  # two nodes with two ranks each, not connected
four["ranks"] = [old | {"rank": 2 * old["rank"] + i} for old in four["ranks"] for i in (0, 1)]
sizes = [(2, 1), (1, 2), (4, 4), (2, 3)]  # the first rank alone may be right; a size may be too large
differ = [changed(pair, returned=[{"rank": i, "world size": n} for i, n in enumerate(two)]) for two in sizes]
# Only one rank complains, after another one has lost its connection.
lost = {"type": "UnknownError", "message": "Horovod has been shut down."}
one = [changed(three, errors={i: lost for i in range(3) if i != rank}) for rank in (0, 1, 2)]
long = changed(pair, ranks={i: {"memory": 1498, "ended": 599.1} for i in (0, 1)})
seen = SIX["E"]["errors"][0]["message"].replace("1 rank(s), but", "2 rank(s), but").replace("has 2", "has 4")
groups = changed(SIX["E"], errors={i: {"message": seen} for i in (0, 1)})  # the nodes are not connected
groups["asked"]["ranks_per_node"] = 2
groups["ranks"] = [old | {"rank": 2 * old["rank"] + i} for old in groups["ranks"] for i in (0, 1)]
all_named(diagnose, "wrong world size", [SIX["E"], *hidden, four, *differ, *one, long, groups])
### END HIDDEN TESTS

# %% check="dead-rank" points=1 see="5.9"
"""A job in which a rank failed by itself; more such records are hidden (1 point)."""
found = [diagnose(record) for record in SIX.values()]
assert len(set(found)) > 1, f"diagnose() returned {found[0]!r} for all six jobs, but each ended differently"
assert "dead rank" in found, (
    f"one of the six jobs has a dead rank, but diagnose() returned {found}. Look at the fields of the first "
    "rank that failed"
)
### BEGIN HIDDEN TESTS
# Not drawn: records of jobs on a cluster.
hidden = json.loads(  # dead rank
    r"""[{"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "srun: error: node2: task 1: Exited with exit code 139",
  "srun: launch/slurm: _step_signal: Terminating StepId=13.0",
  "slurmstepd-node1: error: *** STEP 13.0 ON node1 CANCELLED AT 2026-11-22T16:06:06 ***",
  "srun: error: node1: task 0: Terminated",
  "srun: Force Terminated StepId=13.0"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 64.05, "exit code": 1, "memory": 494},
  {"rank": 1, "host": "node2", "started": 0.36, "ended": 63.67, "exit code": -11, "memory": 493}],
 "errors": [
  {"rank": 0, "at": 63.64, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"}],
 "returned": []},
{"asked": {"nodes": 3, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "srun: error: node2: task 1: Exited with exit code 1",
  "srun: launch/slurm: _step_signal: Terminating StepId=14.0",
  "srun: error: node1: task 0: Exited with exit code 137",
  "srun: error: node3: task 2: Exited with exit code 1"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.15, "ended": 61.52, "exit code": -9, "memory": 493},
  {"rank": 1, "host": "node2", "started": 0.0, "ended": 61.78, "exit code": 1, "memory": 494},
  {"rank": 2, "host": "node3", "started": 0.22, "ended": 62.16, "exit code": 1, "memory": 494}],
 "errors": [
  {"rank": 1, "at": 61.51, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"},
  {"rank": 2, "at": 61.54, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"}],
 "returned": []},
{"asked": {"nodes": 1, "ranks_per_node": 2, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "srun: error: node1: task 1: Exited with exit code 7",
  "srun: launch/slurm: _step_signal: Terminating StepId=15.0",
  "slurmstepd-node1: error: *** STEP 15.0 ON node1 CANCELLED AT 2026-11-22T16:07:12 ***",
  "srun: error: node1: task 0: Terminated",
  "srun: Force Terminated StepId=15.0"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.11, "ended": 59.05, "exit code": 1, "memory": 494},
  {"rank": 1, "host": "node1", "started": 0.0, "ended": 58.57, "exit code": 7, "memory": 493}],
 "errors": [
  {"rank": 0, "at": 58.58, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"},
  {"rank": 1, "at": 58.33, "type": "SystemExit", "message": "7"}],
 "returned": []},
{"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "srun: error: node1: task 0: Exited with exit code 1",
  "srun: launch/slurm: _step_signal: Terminating StepId=16.0",
  "srun: error: node2: task 1: Terminated",
  "srun: Force Terminated StepId=16.0"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 39.73, "exit code": 1, "memory": 493},
  {"rank": 1, "host": "node2", "started": 0.09, "ended": 39.95, "exit code": 1, "memory": 494}],
 "errors": [
  {"rank": 0, "at": 39.42, "type": "RuntimeError", "message": "cannot hold 3 batches: over the memory limit of the cache"},
  {"rank": 1, "at": 39.72, "type": "UnknownError", "message": "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown w"}],
 "returned": []}]"""  # noqa: E501
)
busy = changed(SIX["A"], ranks={0: {"exit code": -15}})  # rank 0 got a signal before it noticed the failure
busy["errors"] = busy["errors"][1:]
alone = changed(SIX["D"], ranks={0: {"exit code": 7}})  # one rank, which ended silently, by os._exit(7)
alone["job log"] = ["srun: error: node1: task 0: Exited with exit code 7"]
crashed = changed(SIX["D"], ranks={0: {"exit code": -11}})  # one rank, and no exit code above 0
crashed["job log"] = ["srun: error: node1: task 0: Exited with exit code 139"]
second = changed(SIX["A"], ranks={0: {"exit code": 0, "ended": 60.2}})  # rank 0 had ended normally
second |= {"errors": second["errors"][1:], "job log": second["job log"][:1]}
killed = changed(hidden[1], ranks={0: {"memory": 1497}})  # signal 9 near the memory limit, and no OOM
# Ranks of a node share its memory.
above = changed(hidden[2], ranks={1: {"exit code": -9, "memory": 2480}})
above |= {"errors": above["errors"][:1], "job log": ["srun: error: node1: task 1: Killed"]}
late = changed(
    SIX["A"], ranks={0: {"ended": 599.0}, 1: {"ended": 598.3}}, errors={0: {"at": 598.2}, 1: {"at": 597.8}}
)
over = changed(late, ranks={0: {"ended": 604.0}, 1: {"ended": 603.3}})  # Slurm kills only after a while
words = [
    ("ValueError", "the world size 2 does not divide 25 images"),
    ("TimeoutError", "the store was CANCELLED, over its time limit"),
    ("RuntimeError", "preempted: another process has the lock"),
    ("RuntimeError", "the store is out of memory: oom-kill of its server"),
]
texts = [changed(SIX["A"], errors={1: {"type": kind, "message": text}}) for kind, text in words]
all_named(diagnose, "dead rank", [SIX["A"], *hidden, busy, alone, crashed, second, killed, above, late, over])
all_named(diagnose, "dead rank", texts)
### END HIDDEN TESTS

# %% check="out-of-time" points=1 see="5.9"
"""A job that reached its time limit; more such records are hidden (1 point)."""
found = [diagnose(record) for record in SIX.values()]
assert len(set(found)) > 1, f"diagnose() returned {found[0]!r} for all six jobs, but each ended differently"
assert "out of time" in found, (
    f"one of the six jobs is out of time, but diagnose() returned {found}. The job log gives Slurm's reason"
)
### BEGIN HIDDEN TESTS
# Not drawn: records of jobs on a cluster.
hidden = json.loads(  # out of time
    r"""[{"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 60},
 "queue": "",
 "job log": [
  "slurmstepd-node1: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-11-22T16:04:21 DUE TO TIME LIMIT ***",
  "slurmstepd-node1: error: *** JOB 7 ON node1 CANCELLED AT 2026-11-22T16:04:21 DUE TO TIME LIMIT ***"],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 82.99, "exit code": -15, "memory": 493},
  {"rank": 1, "host": "node2", "started": 0.0, "ended": 83.08, "exit code": -15, "memory": 493}],
 "errors": [],
 "returned": []}]"""
)
early = changed(SIX["F"], ranks={0: {"ended": 21.4}})  # its rank started late
abrupt = changed(hidden[0], ranks={0: NOT_WRITTEN})
killed = changed(hidden[0], ranks={i: {"exit code": -9, "memory": 1499} for i in (0, 1)})
all_named(diagnose, "out of time", [SIX["F"], *hidden, early, abrupt, killed])
### END HIDDEN TESTS

# %% check="preempted" points=1 see="5.9"
"""A job that had to make room; more such records are hidden (1 point)."""
found = [diagnose(record) for record in SIX.values()]
assert len(set(found)) > 1, f"diagnose() returned {found[0]!r} for all six jobs, but each ended differently"
assert "preempted" in found, (
    f"one of the six jobs was preempted, but diagnose() returned {found}. The job log gives Slurm's reason"
)
### BEGIN HIDDEN TESTS
# Not drawn: records of jobs on a cluster.
hidden = json.loads(  # preempted
    r"""[{"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [
  "slurmstepd-node2: error: *** JOB 18 ON node2 CANCELLED AT 2026-11-22T16:07:49 DUE TO PREEMPTION ***",
  "srun: Job step aborted: Waiting up to 12 seconds for job step to finish.",
  "slurmstepd-node2: error: *** STEP 18.0 ON node2 CANCELLED AT 2026-11-22T16:07:49 DUE TO PREEMPTION ***"],
 "ranks": [
  {"rank": 0, "host": "node2", "started": 0.08, "ended": 33.19, "exit code": -15, "memory": 494},
  {"rank": 1, "host": "node3", "started": 0.0, "ended": 33.26, "exit code": -15, "memory": 493}],
 "errors": [],
 "returned": []},
{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "PENDING, BeginTime",
 "job log": [
  "slurmstepd-node3: error: *** JOB 19 ON node3 CANCELLED AT 2026-11-22T16:07:49 DUE TO PREEMPTION ***",
  "srun: Job step aborted: Waiting up to 12 seconds for job step to finish.",
  "slurmstepd-node3: error: *** STEP 19.0 ON node3 CANCELLED AT 2026-11-22T16:07:49 DUE TO PREEMPTION ***"],
 "ranks": [
  {"rank": 0, "host": "node3", "started": 0.0, "ended": 32.78, "exit code": -15, "memory": 18}],
 "errors": [],
 "returned": []}]"""
)
late = changed(SIX["C"], ranks={0: {"ended": 598.7, "memory": 149}})
killed = changed(hidden[0], ranks={i: {"exit code": -9} for i in (0, 1)})
abrupt = changed(SIX["C"], ranks={0: NOT_WRITTEN})
all_named(diagnose, "preempted", [SIX["C"], *hidden, late, killed, abrupt])
### END HIDDEN TESTS

# %% check="nothing-wrong" points=1 see="5.9"
"""Nothing is wrong with a job that ended normally, or waits for something that will come (1 point)."""
found = [diagnose(record) for record in SIX.values()]
assert len(set(found)) > 1, f"diagnose() returned {found[0]!r} for all six jobs, but each ended differently"
assert set(found) <= set(KINDS), f"diagnose() returned {set(found) - set(KINDS)}; the kinds are {KINDS}"
assert "nothing wrong" not in found, f"something is wrong with each job: diagnose() returned {found}"
for step in (1, -1):
    given = changed(SIX["A"])
    given |= {"ranks": given["ranks"][::step], "errors": given["errors"][::step]}
    left = left_by_diagnose(changed(given))
    assert left == given, "diagnose() changed its argument: it sorted, removed or added something; use a copy"
### BEGIN HIDDEN TESTS
# Not drawn: records of jobs on a cluster.
hidden = json.loads(  # nothing wrong
    r"""[{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "",
 "job log": [],
 "ranks": [
  {"rank": 0, "host": "node2", "started": 0.0, "ended": 1.3, "exit code": 0, "memory": 18}],
 "errors": [],
 "returned": [
  {"rank": 0, "world size": 1}]},
{"asked": {"nodes": 2, "ranks_per_node": 1, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.0, "ended": 52.23, "exit code": 0, "memory": 493},
  {"rank": 1, "host": "node2", "started": 0.02, "ended": 52.2, "exit code": 0, "memory": 494}],
 "errors": [],
 "returned": [
  {"rank": 0, "world size": 2},
  {"rank": 1, "world size": 2}]},
{"asked": {"nodes": 1, "ranks_per_node": 2, "memory": 1500, "time": 600},
 "queue": "",
 "job log": [],
 "ranks": [
  {"rank": 0, "host": "node1", "started": 0.16, "ended": 116.13, "exit code": 0, "memory": 494},
  {"rank": 1, "host": "node1", "started": 0.0, "ended": 116.12, "exit code": 0, "memory": 2494}],
 "errors": [],
 "returned": [
  {"rank": 0, "world size": 2},
  {"rank": 1, "world size": 2}]},
{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "PENDING, Resources",
 "job log": [],
 "ranks": [],
 "errors": [],
 "returned": []},
{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "PENDING, Priority",
 "job log": [],
 "ranks": [],
 "errors": [],
 "returned": []},
{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "PENDING, Dependency",
 "job log": [],
 "ranks": [],
 "errors": [],
 "returned": []},
{"asked": {"nodes": 1, "ranks_per_node": 1, "memory": 150, "time": 600},
 "queue": "PENDING, BeginTime",
 "job log": [],
 "ranks": [],
 "errors": [],
 "returned": []}]"""
)
# Items of a sweep that wait for their turn, and limits that other jobs of the same user use up.
passes = ("JobArrayTaskLimit", "AssocMaxJobsLimit", "QOSMaxJobsPerUserLimit")
waits = [hidden[3] | {"queue": f"PENDING, {reason}"} for reason in passes]
late = changed(hidden[1], ranks={i: {"ended": 599.4, "memory": 1499} for i in (0, 1)})
all_named(diagnose, "nothing wrong", [*hidden, *waits, late])
### END HIDDEN TESTS

# %% [markdown]
# ## 4. How much faster with sixteen ranks?
#
# A job first needs an index, which one rank reads. Then it fetches images from a store that is slow to
# answer; p ranks fetch p images at a time. A rank that waits for an answer needs no core, so four ranks on
# two cores behave here like four ranks on four cores. The cells below run a small version of this work on 1,
# 2 and 4 ranks, five times each. How many times faster are four ranks than one? Enter your prediction.

# %% given="collect"
PICTURES, ANSWER, INDEX = 100, 0.004, 0.08  # images to fetch; seconds per answer; seconds for the index
HERE = {"nodes": 4, "cores": 2, "memory": 8192, "seconds": 1800}


def collect():
    """Run the work five times, and return the seconds, with the rank and the world size."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    def meet():
        hvd.allreduce(tf.constant(0.0))  # no rank continues before all have arrived

    hvd.init()
    seconds = []
    for repeat in range(5):
        meet()
        begin = time.perf_counter()
        if hvd.rank() == 0:
            time.sleep(INDEX)
        meet()
        for _ in range(hvd.rank(), PICTURES, hvd.size()):
            time.sleep(ANSWER)
        meet()
        seconds.append(time.perf_counter() - begin)
        log(step=repeat + 1, steps=5, seconds=seconds[-1])
    return {"rank": hvd.rank(), "world size": hvd.size(), "seconds": seconds}


# %%
my_speedup = None  # your prediction: T(1) / T(4)

# %%
measured = {
    p: run_on(collect, {"ranks": p, "threads": 1, "memory": 1000, "seconds": 60}, HERE) for p in (1, 2, 4)
}
times = {p: job.result()["seconds"] for p, job in measured.items()}
p = np.array([p for p, found in times.items() for _ in found])  # (15,)
seconds = np.array([t for found in times.values() for t in found])  # (15,)
{p: [round(t, 3) for t in found] for p, found in times.items()}

# %% [markdown]
# The dictionary has five times for each number of ranks. Do the times differ more between the numbers of
# ranks than for the same number?
#
# In Amdahl's law, a fraction s of the time on one rank is serial and does not depend on p. The rest is
# divided among the ranks:
#
# $$ T(p) = T(1)\,\Bigl(s + \frac{1-s}{p}\Bigr) = a + \frac{b}{p}, \qquad
#    S(p) = \frac{1}{s + (1-s)/p} < \frac1s. $$
#
# Gustafson starts from the time on p ranks. A fraction s′ of *this* time is serial, so one rank would need
# s′ + (1 − s′)p times as long for the same work. Both laws describe the same run; s and s′ are fractions of
# different times. For a given s of Amdahl's law, what is s′ on p ranks?


# %% solution="scaled"
def scaled(p, s):
    """Return (s', speed-up by Gustafson's law) on p ranks, floats; s is the serial fraction on one rank."""
    ### BEGIN SOLUTION
    on_p = s / (s + (1 - s) / p)
    return on_p, on_p + (1 - on_p) * p
    ### END SOLUTION


# %%
scaled(4, 0.2)

# %% check="two-laws" points=1 see="5.3"
"""The serial fraction on p ranks, and a speed-up that is the same under both laws (1 point)."""
expect(
    tuple(round(float(value), 9) for value in scaled(4, 0.2)),
    (0.5, 2.5),
    {
        "s' is a fraction of the time on p ranks, and 0.2 one of the time on one rank.": (0.2, 3.4),
        "the speed-up is Amdahl's formula with s' in the place of s.": (0.5, 1.6),
        "the second number is Gustafson's formula with s' and 1 - s' swapped, or 1 / s'.": (0.5, 2.0),
    },
    "(s', speed-up) for s = 0.2 on 4 ranks",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(10)
more = zip(fresh.integers(2, 600, 4).tolist(), fresh.uniform(0.01, 0.9, 4).tolist(), strict=True)
for ranks, s in [(1, 0.3), (8, 0.0), (64, 1.0), *more]:  # the limits, and others
    speedup = 1 / (s + (1 - s) / ranks)
    found = tuple(float(value) for value in scaled(ranks, s))
    expect(found, (s * speedup, float(speedup)), name=f"(s', speed-up) for s = {s} on {ranks} ranks")
### END HIDDEN TESTS

# %% [markdown]
# With $x = 1/p$, the times $T = a + b\,x$ lie on a line, and s = a/(a + b) follows from the least-squares
# line. Every time has an error. All errors have the same standard deviation σ, so all times have the same
# weight. For m times,
#
# $$ \sigma^2 \approx \frac{1}{m-2}\sum_i (T_i - a - b\,x_i)^2, \qquad
#    \mathrm{cov}(a, b) = \sigma^2 (X^\top X)^{-1}, \quad X = (1, x). $$
#
# To first order, the variance of s is gᵀ cov g with the gradient $g = (\partial s/\partial a,\ \partial
# s/\partial b)$. The errors of a and b are *not* independent: if the line is too steep, its intercept is too
# low.


# %% solution="fit-serial"
def fit_serial(p, seconds):
    """Return the serial fraction of Amdahl's law and its standard error: (s, error), floats.

    p          (m,) the number of ranks of each measurement, in any order; 1 may be missing
    seconds    (m,) the measured times

    s belongs to the least-squares line, even if noise makes it negative. Raises ValueError if the times do
    not determine the line and its error: fewer than three times, or all with the same p.
    """
    p, seconds = np.asarray(p, float), np.asarray(seconds, float)
    assert p.shape == seconds.shape and p.ndim == 1, f"p has shape {p.shape}, seconds {seconds.shape}"
    ### BEGIN SOLUTION
    m = len(p)
    if m < 3 or len(np.unique(p)) < 2:
        raise ValueError(f"{m} times with p in {set(p.tolist())} do not determine the line and its error")
    x = np.stack([np.ones(m), 1 / p], axis=1)  # (m, 2)
    a, b = line = np.linalg.solve(x.T @ x, x.T @ seconds)
    covariance = np.sum((seconds - x @ line) ** 2) / (m - 2) * np.linalg.inv(x.T @ x)
    slopes = np.array([b, -a]) / (a + b) ** 2
    return float(a / (a + b)), float(np.sqrt(slopes @ covariance @ slopes))
    ### END SOLUTION


# %%
print(fit_serial([1, 2, 4], [8.0, 5.0, 3.5]), fit_serial([1, 1, 2, 2], [9.0, 7.0, 6.0, 4.0]))

# %% check="fit-fraction" points=1 see="5.4"
"""The times 2 + 6/p give s = 2/8, in any order (1 point)."""
misread = {
    "that is a, in seconds; s is the fraction a/(a + b).": 2.0,
    "that is the fraction b/(a + b), which is divided among the ranks.": 0.75,
    "that is a/b; s is a/(a + b).": round(2 / 6, 6),
}
for ranks in ([1, 2, 4], [8, 2, 1, 4], [4, 8, 16]):
    s, _ = fit_serial(np.array(ranks), 2 + 6 / np.array(ranks))
    expect(round(float(s), 6), 0.25, misread, f"s from the times 2 + 6/p for p = {ranks}")
ranks, given = np.array([4.0, 1.0, 2.0]), np.array([3.5, 8.0, 5.0])
fit_serial(ranks, given)
assert (ranks.tolist(), given.tolist()) == ([4, 1, 2], [3.5, 8, 5]), (
    f"fit_serial() changed its arguments: they are {ranks} and {given} now (np.asarray does not copy "
    "an array of floats)"
)
### BEGIN HIDDEN TESTS
rng = fresh_rng(11)
for ranks in ([1, 2, 4, 8], [2, 3, 5, 7, 11], [1, 1, 2, 2, 16], [64, 1, 8, 1, 4, 4]):
    ranks = np.array(ranks)
    noisy = 40 * (0.1 + 0.9 / ranks) + rng.normal(0, 1.5, len(ranks))
    slope, start = np.polyfit(1 / ranks, noisy, 1)
    s, _ = fit_serial(ranks, noisy)
    what = f"s from times with errors, for p = {ranks.tolist()}"
    expect(float(s), float(start / (start + slope)), name=what)
s, _ = fit_serial(np.array([1, 2, 4]), rng.uniform(1, 9) * np.array([8.0, 3.9, 1.9]))
assert float(s) < 0, f"s is {s}; with these times the least-squares line has a negative s"
s, _ = fit_serial(np.array([1, 2, 4]), rng.uniform(1, 9) * np.array([3.0, 4.1, 4.4]))
assert float(s) > 1, f"s is {s}; these times grow with p, so the least-squares line has an s above 1"
### END HIDDEN TESTS

# %% check="fit-error" points=1 see="5.4"
"""9 and 7 s on one rank, 6 and 4 s on two: σ² = 4/2, and s = 0.25 ± 0.295 (1 point)."""
_, error = fit_serial(np.array([1, 1, 2, 2]), np.array([9.0, 7.0, 6.0, 4.0]))
expect(
    round(float(error), 4),
    0.2948,
    {
        "the sum of squares was divided by m; the line has two parameters, so divide by m - 2.": 0.2085,
        "the sum of squares was divided by m - 1; the line has two parameters, so divide by m - 2.": 0.2407,
        "the errors of a and b were taken as independent, without their covariance.": 0.2275,
        "only the error of a was counted.": 0.2795,
        "the gradient and the covariance have a and b in different orders.": 0.3322,
        "that is σ; the error of s follows from it.": 1.4142,
        "that is the variance of s; the standard error is its square root.": 0.0869,
    },
    "the standard error of s",
)
### BEGIN HIDDEN TESTS
rng, ranks = fresh_rng(12), np.array([1, 2, 4, 8, 16, 32])
for few in (ranks, ranks[1:], ranks[[0, 0, 3]], ranks[[5, 1, 2, 2]]):
    noisy = 7 * (0.3 + 0.7 / few) + rng.normal(0, 0.2, len(few))
    (slope, start), covariance = np.polyfit(1 / few, noisy, 1, cov="unscaled")
    rest = np.sum((noisy - start - slope / few) ** 2) / (len(few) - 2)
    there = np.array([-start, slope]) / (start + slope) ** 2
    want = np.sqrt(rest * there @ covariance @ there)
    found = float(fit_serial(few, noisy)[1])
    assert np.isclose(found, want, rtol=1e-4), f"the error of s for p = {few.tolist()} is {found}, not {want}"
### END HIDDEN TESTS

# %% check="fit-refuses" points=1 see="5.4"
"""Two times, or times with the same p, do not determine the line and its error: ValueError (1 point)."""
assert refused(fit_serial, np.array([1, 2]), np.array([8.0, 5.0])), (
    "a line fits any two times exactly, so they do not determine the error: raise ValueError"
)
assert refused(fit_serial, np.array([4, 4, 4]), np.array([3.5, 3.6, 3.4])), (
    "if all times have the same p, many lines fit them: raise ValueError"
)
assert not refused(fit_serial, np.array([1, 2, 2]), np.array([8.0, 5.1, 4.9])), (
    "three times with two different p are enough, but were refused"
)
### BEGIN HIDDEN TESTS
# With [3] * 6 and [5] * 5, rounding errors make the matrix of the line invertible.
times = fresh_rng(13).uniform(2, 9, 6)
for ranks in ([], [1], [2, 8], [1] * 5, [3, 3], [3] * 6, [5] * 5):
    assert refused(fit_serial, np.array(ranks, float), times[: len(ranks)]), (
        f"times with p = {ranks} do not determine the line and its error: raise ValueError"
    )
for ranks in ([2, 1, 2], [1, 2, 4], [16, 16, 1, 16], [512, 511, 512]):
    assert not refused(fit_serial, np.array(ranks), 1 + 1 / np.array(ranks) + 0.01 * np.arange(len(ranks))), (
        f"times with p = {ranks} determine the line and its error, but were refused"
    )
### END HIDDEN TESTS

# %% [markdown]
# With Student's t for m − 2 degrees of freedom, the 95% confidence interval of s is s ±
# t·error. By Amdahl's law, the largest speed-up is 1/s. What does the interval of s say
# about *this limit*? (The interval of s may include 0.)

# %% given="student-t"
# Student's t for an interval of 95%, by the degrees of freedom m - 2.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}
T95 |= {11: 2.201, 12: 2.179, 13: 2.16, 14: 2.145, 15: 2.131, 16: 2.12, 17: 2.11, 18: 2.101, 19: 2.093}


# %% solution="limit-of"
def limit_of(s, error, t):
    """Return the interval (low, high) of the largest speed-up 1/s if s lies in s ± t·error: floats.

    high is math.inf if the interval of s reaches 0, since nothing limits the speed-up then. Neither low nor
    high is below 1.
    """
    ### BEGIN SOLUTION
    ends = [1 / end if end > 0 else math.inf for end in (s + t * error, s - t * error)]
    return max(1.0, ends[0]), max(1.0, ends[1])
    ### END SOLUTION


# %%
print(limit_of(0.25, 0.05, 3.0), limit_of(0.1, 0.05, 3.0))

# %% check="limit" points=1 see="5.2"
"""s in 0.1 to 0.4: the limit is 2.5 to 10. s in -0.05 to 0.25: 4 to infinity (1 point)."""
low, high = limit_of(0.25, 0.05, 3.0)
expect(
    (round(float(low), 6), round(float(high), 6)),
    (2.5, 10.0),
    {
        "low and high are swapped: the larger s has the lower limit.": (10.0, 2.5),
        "1/s is not linear in s: its interval is not symmetric around 1/s.": (1.6, 6.4),
        "t is missing.": (round(1 / 0.3, 6), 5.0),
        "that is the interval of s.": (0.1, 0.4),
    },
    "the interval of the limit for s = 0.25 ± 3 · 0.05",
)
low, high = limit_of(0.1, 0.05, 3.0)
assert round(float(low), 6) == 4.0, f"for s in -0.05 to 0.25, low is {low}; it should be 4"
assert high == math.inf, f"for s in -0.05 to 0.25, high is {high}; it should be inf, since s may be 0"
### BEGIN HIDDEN TESTS
# Not detected: an interval of s entirely below 0; the text does not define its low.
fresh = fresh_rng(14)
s, error, t = fresh.uniform([0.3, 0.01, 2], [0.6, 0.05, 4]).tolist()
cases = {  # Not drawn: intervals that reach 0, 1 or a single number.
    (s, error, t): (1 / (s + t * error), 1 / (s - t * error)),
    (error, s, t): (max(1.0, 1 / (error + t * s)), math.inf),
    (0.5, 0.2, 4.0): (1.0, math.inf),
    (0.9, 0.1, 2.0): (1.0, 1 / 0.7),
    (0.02, 0.001, 2.0): (1 / 0.022, 1 / 0.018),
    (0.3, 0.0, 2.0): (1 / 0.3, 1 / 0.3),
    (0.25, 0.125, 2.0): (2.0, math.inf),
    (1.4, 0.05, 2.0): (1.0, 1.0),
    (1.1, 0.1, 2.0): (1.0, 1 / 0.9),
    (1e-4, 1e-5, 2.145): (1 / 1.2145e-4, 1 / 0.7855e-4),
}
for given, want in cases.items():
    found = tuple(float(end) for end in limit_of(*given))
    assert all(np.isclose(f, w) if w < math.inf else f == w for f, w in zip(found, want, strict=True)), (
        f"the interval of the limit for (s, error, t) = {given} is {found}, not {want}"
    )
### END HIDDEN TESTS

# %% [markdown]
# What do your own times show? The figure extends the fit far beyond the four ranks that
# you measured.

# %%
s, error = fit_serial(p, seconds)
t = T95[len(p) - 2]
low, high = limit_of(s, error, t)
print(f"s = {s:.3f} ± {t * error:.3f} (95%), a limit of {low:.1f} to {high:.1f}")
ranks = np.geomspace(1, 64, 200)
speedup = [1 / (f + (1 - f) / ranks) for f in (s + t * error, s, s - t * error)]
plt.fill_between(ranks, speedup[0], speedup[2], alpha=0.2)
plt.plot(ranks, speedup[1], marker="", label="Amdahl's law, fitted")
plt.plot(p, np.mean(times[1]) / seconds, "o", fillstyle="none", linestyle="", label="measured")
plt.plot(ranks, ranks, linestyle=":", marker="", label="S = p")
plt.xscale("log", base=2)
plt.yscale("log", base=2)
plt.xlabel("ranks p")
plt.ylabel("speed-up S(p)")
plt.legend()
plt.show()

# %% [markdown]
# *The figure:* the fifteen measured speed-ups, on 1, 2 and 4 ranks, and the fitted curve with its 95% band.
# The curve leaves the dotted line S = p and bends towards its limit, while the band widens to the right.
# Compare the width of the band at 4 ranks with that at 64.
#
# ## 5. Written answer
#
# Fit your own times again without those on 4 ranks: run `fit_serial(p[p < 4], seconds[p < 4])`. Then answer
# in three to five sentences, with your numbers:
#
# 1. What speed-up do you expect on 16 ranks, and within which interval is the largest
#    speed-up that any number of ranks can reach?
# 2. How did s and its error change without the times on 4 ranks, and why?
# 3. What does the error not include? Name one thing that would have to stay the same up to 16 ranks for your
#    answer to hold.

# %% [markdown] explain="sixteen-ranks" points=2
# ### BEGIN SOLUTION
# **Rubric.** The numbers are those of the student's own run. Language and length are not graded.
#
# | points | for |
# |---|---|
# | ½ | 1: S(16) from the fitted s, and the limit as an interval, from the interval of s |
# | ½ | 2: both fits as numbers, of the student's own times |
# | ¼ | 2: the reason: fewer times, and values of 1/p that are closer together |
# | ¼ | 3: the error includes only the scatter of the times, and assumes Amdahl's law |
# | ½ | 3: one thing that would break it beyond 4 ranks |
#
# - *The second fit*: with equal scatter, the standard error without 4 ranks is 1.8 times as large, and the
#   half-width of the 95% interval 1.9 times; s moves by about as much as its error. There are 10 times
#   instead of 15, 8 degrees of freedom instead of 13, and 1/p ranges from ½ to 1 instead of from ¼ to 1, so
#   the intercept a is further from the measured points.
# - *What would break it*: a store that answers more slowly when 16 ranks ask, communication that grows with
#   p, ranks that compute but share a core, an index that grows with the images, more work with
#   more ranks. Three values of p cannot show whether the law holds up to 16.
#
# **Two points.** "I fitted s = 0.157 ± 0.002, so S(16) = 1/(0.157 + 0.843/16) = 4.8, and the limit is 6.3 to
# 6.5. Without 4 ranks I get 0.156 ± 0.004: there are fewer times, and they are closer together in 1/p, so the
# line can tilt more. The ± is only the scatter of my 15 times. If the store answers more slowly when 16 ranks
# ask at once, the part that I took as divided among the ranks grows."
#
# **One point.** "S(16) = 4.8 and the limit is 6.3 to 6.5. Without 4 ranks, s is 0.156 ± 0.004." (No reason,
# and no statement on what the error leaves out.)
#
# **No points.** "About 16 times, since the work can be divided well."
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - A job's request follows from a small run that was measured, plus a reserve, and from
#   the size of a node. The job's record shows what the job got.
# - A sweep needs a rule for failed items: a missing value is not a low value, and NaN is not a value.
# - A failed job has many symptoms, and the most visible one is rarely the cause. Ranks that lost their peers
#   and ranks that Slurm stopped look as dead as the rank that failed. A job that ended "normally" may have
#   trained on one rank only.
# - Amdahl's and Gustafson's laws describe the same run with two different fractions. A
#   fit gives the serial fraction with a standard error, which determines how well the
#   limit is known.
#
# Open questions:
#
# 1. You request 1.5 times the expected time. What does the scheduler do with the rest if the job ends early,
#    and who pays if you request a day "to be safe"?
# 2. On a node with two cores, which of your measurements in section 4 would change if the ranks computed
#    instead of waiting?
# 3. A sweep of 100 items of ten minutes and one job of 100 ranks for ten minutes request the same amount.
#    Which of the two gets through the queue sooner, and why?
