# %% [markdown]
# # 10 · Running at scale
#
# **With 1,024 devices something breaks every few hours. How much of the machine do you get?**
#
# Nine lectures had machines that work. A large one hardly ever does, as a whole: a GPU falls off its bus, a
# cable loosens, an administrator needs the node, a more important job arrives. A synchronous training stops
# when *one* of its ranks stops. What is left of the machine, after all that is lost, is called **goodput**:
# the share of the time in which work was done that has not to be done again. We aim at
#
# 1. **deriving** how often to save, and what goodput that leaves, from three numbers;
# 2. finding where the famous formula fails, in **virtual time**, and whether the right one holds on a **real
#    Slurm** that we break on purpose;
# 3. resuming so that nobody can tell: **bit-equal**, and with another number of ranks;
# 4. reading a schedule: backfill, preemption, gangs, places;
# 5. predicting **ImageNet in 15 minutes** from published numbers, and explaining what does not fit.
#
# Notation: $M$ mean time between failures of the whole job, $C$ seconds that a checkpoint stops the work,
# $\tau$ seconds of work between checkpoints, $R$ seconds from a failure until work goes on; $p$ ranks.

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(threads=1, tensorflow=False)

# %%
import io
import json
import math
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display

from cluster.network import Group, Hierarchy, Placeholder, Switch, Tree, closed_forms, simulate
from cluster.training import shards

MINUTE, HOUR = 60, 3600  # s

# %% [markdown]
# ## 10.1 How often does it break?
#
# If each of $p$ devices fails once in $m$ hours, independently and without ageing, the first of them fails
# after $m/p$ on average: $p$ exponential clocks together are one that runs $p$ times as fast. Meta has
# published three rates. The training of Llama 3 (2024) was interrupted 419 times unexpectedly, in 54 days on
# 16,384 GPUs. Kokolis et al. (2025, arXiv 2410.21680) counted 6.50 failing nodes in 1,000 node-days on a
# cluster of A100 nodes with 8 GPUs; and jobs of 1,024 GPUs *there* lasted 7.9 hours until they failed.
# **Guess**: with the rate of Llama 3, how many hours last 1,024 GPUs?

# %%
guess("hours between failures of 1,024 GPUs, at Llama 3's rate", unit=" h")
DEVICE_HOURS = {  # of one GPU until something fails
    "Llama 3, unexpected interruptions": 54 * 24 * 16_384 / 419,
    "Kokolis et al., nodes": 1000 * 24 * 8 / 6.50,
    "Kokolis et al., jobs of 1,024 GPUs": 7.9 * 1_024,
}
rates = pd.DataFrame({"hours of one GPU": DEVICE_HOURS})
rates["years"] = rates["hours of one GPU"] / (24 * 365)
for p in (8, 1_024, 16_384):
    rates[f"hours of {p:,}"] = rates["hours of one GPU"] / p
display(rates.round(2))
compare(
    "hours between failures of 1,024 GPUs, at Llama 3's rate",
    rates["hours of 1,024"].iloc[0],
)

# %% [markdown]
# So "every few hours" is true of one of the rows and not of the others; they differ six-fold, for one
# company. Nodes that break are not all that stops a job: so do its own errors, file systems, networks, other
# people. And $m/p$ is itself a model: for 16,384 GPUs the same paper projects what the second row says, by
# its nodes, and not the half hour of the third. What ends smaller jobs so often does not grow with $p$. We
# go on with $M = 7.9$ hours, since it was *measured* on jobs of our size.
#
# Must one save at all? A training survives $T$ hours with probability $e^{-T/M}$:

# %%
M = 7.9 * HOUR
for name, hours in {"ImageNet in 15 minutes": 0.25, "one day": 24, "54 days": 54 * 24}.items():
    print(f"{name:23}: {math.exp(-hours * HOUR / M):.2g} of the trainings see the end without a failure")

# %% [markdown]
# The famous quarter of an hour needs no checkpoint; who fails, starts again. A day does.
#
# ## 10.2 How often to save: three lines
#
# Of $\tau + C$ seconds without a failure, $C$ are lost. A failure loses $R$, and what was done since the
# last checkpoint: half of $\tau$ on average. Failures come at a rate $1/M$, so the share that is lost is
# about
#
# $$\ell(\tau) \approx \frac{C}{\tau} + \frac{\tau}{2M} + \frac RM, \qquad \ell' = 0 \;\text{ at }\;
# \tau_\text{Young} = \sqrt{2CM},$$
#
# **Young's formula** (1974); at that point the first two terms are equal, and the least loss is
# $\sqrt{2C/M} + R/M$. All of it takes $C$, $\tau$ and $R$ for small against $M$.
#
# It can be done exactly for exponential failures. Let $E(L)$ be the expected seconds until $L$ seconds have
# passed without a failure. Until the first failure or the end, $M(1 - e^{-L/M})$ seconds pass on average; if
# it was a failure, with probability $1 - e^{-L/M}$, then $R + L$ seconds must pass without another:
#
# $$E(L) = (1 - e^{-L/M})\,\bigl(M + E'\bigr), \qquad E' = (1 - e^{-(R + L)/M})\,\bigl(M + E'\bigr).$$
#
# The second equation gives $E' = M(e^{(R+L)/M} - 1)$, the first then, for $L = \tau + C$,
#
# $$E(\tau + C) = M\,e^{R/M}\left(e^{(\tau + C)/M} - 1\right), \qquad
# \text{goodput}(\tau) = \frac{\tau}{E(\tau + C)},$$
#
# as Daly has it (2006), whose higher-order formula approximates the best $\tau$ of it: $\tau_\text{Daly} =
# \sqrt{2CM}\left[1 + \tfrac13\sqrt{C/2M} + \tfrac19\,C/2M\right] - C$ if $C < 2M$, and $M$ otherwise.


# %%
def young(C, M):
    """Seconds between checkpoints, first order (Young 1974)."""
    return np.sqrt(2 * C * M)


def daly(C, M):
    """Higher order (Daly 2006)."""
    x = np.sqrt(C / (2 * M))
    return np.where(C < 2 * M, np.sqrt(2 * C * M) * (1 + x / 3 + x**2 / 9) - C, M)


def best(C, M):
    """The exact optimum: the fixed point of τ/M = 1 − exp(−(τ + C)/M), which R does not move."""
    tau = np.minimum(young(C, M), M)
    for _ in range(2000):
        tau = M * (1 - np.exp(-(tau + C) / M))
    return tau


# %%
def first_order(tau, C, M, R):
    """Goodput, if all is small against M."""
    return 1 - C / tau - tau / (2 * M) - R / M


def exact(tau, C, M, R):
    """Goodput, for exponential failures that strike work, checkpoint and restart alike."""
    return tau / (M * np.exp(R / M) * np.expm1((tau + C) / M))


# %% [markdown]
# What are $C$ and $R$? A checkpoint of ResNet-50 is 0.2 GB and hardly stops anything. One with optimizer
# state of a model of 405 billion parameters is, at 16 bytes each, 6.5 TB, and stops the work until 1,024
# GPUs have written it. We take $C$ = 2 minutes and $R$ = 10 minutes (to notice, to queue, to start 1,024
# processes, to load): assumptions of the usual order. **Guess** the best interval in minutes, and the
# goodput.

# %%
guess("best interval between checkpoints", unit=" min")
guess("goodput of 1,024 GPUs at best", unit="%")
C, R = 2 * MINUTE, 10 * MINUTE
intervals = {"Young": young(C, M), "Daly": daly(C, M), "exact": best(C, M)}
for name, tau in intervals.items():
    print(f"{name:6} {tau / MINUTE:5.1f} min, goodput {exact(tau, C, M, R):.2%}")
compare("best interval between checkpoints", intervals["exact"] / MINUTE)
compare("goodput of 1,024 GPUs at best", 100 * exact(intervals["exact"], C, M, R))

# %% [markdown]
# Nine tenths: that is the answer to our question, for these numbers. The optimum is flat, so the formula for
# $\tau$ hardly matters. Is the formula for the goodput true?
#
# ## 10.3 The same in virtual time
#
# A job in virtual time knows two clocks: how much is done, and when the next failure strikes. What happens
# next is whichever comes first.


# %%
def attempt(clock, seconds, failure, draw, R):
    """Carry something through that takes `seconds`: (when it is done, next failure, failures on the way)."""
    failures, needs = 0, seconds
    while clock + needs > failure:
        clock, failures = failure, failures + 1
        failure = clock + draw()
        needs = R + seconds  # the restart may fail, too
    return clock + needs, failure, failures


def run(work, tau, C, R, draw):
    """Wall-clock seconds of a job that works for `work` seconds and saves after every τ; its failures."""
    clock, failure, failures = 0.0, draw(), 0
    for _ in range(round(work / tau)):
        clock, failure, n = attempt(clock, tau + C, failure, draw, R)
        failures += n
    return clock, failures


# %% [markdown]
# Three situations: ours; a machine that breaks every quarter of an hour; and one on which a checkpoint takes
# as long as half of the time between failures. In each, eleven intervals, and 64 jobs with seeds of their
# own, every one of them of 400 intervals. The goodput of equal jobs together is the harmonic mean of theirs.

# %%
SITUATIONS = {  # (C, M, R) in seconds
    "C = M/237: 2 min, 7.9 h": (C, M, R),
    "C = M/15: 1 min, 15 min": (MINUTE, 15 * MINUTE, MINUTE),
    "C = M/2: 5 min, 10 min": (5 * MINUTE, 10 * MINUTE, MINUTE),
}


def measured(tau, C, M, R, jobs=64, work=400, seed=10):
    """Goodput of each of some jobs of `work` intervals in virtual time: (jobs,)."""
    generators = [np.random.default_rng([seed, job]) for job in range(jobs)]
    seconds = [run(work * tau, tau, C, R, lambda rng=rng: rng.exponential(M))[0] for rng in generators]
    return work * tau / np.array(seconds)


virtual = {}
for name, (c, m, r) in SITUATIONS.items():
    taus = best(c, m) * np.geomspace(1 / 5, 4, 11)
    virtual[name] = taus, np.array([measured(tau, c, m, r) for tau in taus])

# %%
fig, axes = plt.subplots(1, 3, figsize=(10.2, 3.7), sharey=True)
for ax, (name, (c, m, r)) in zip(axes, SITUATIONS.items(), strict=True):
    taus, found = virtual[name]
    tau = np.geomspace(taus[0], taus[-1], 300)
    ax.plot(tau / MINUTE, exact(tau, c, m, r), marker="", color=palette[0], label="exact")
    ax.plot(
        tau / MINUTE, first_order(tau, c, m, r), ls="--", marker="", color=palette[1], label="first order"
    )
    together = 1 / (1 / found).mean(1)
    error = np.abs(np.percentile(found, [2.5, 97.5], axis=1) - together)  # of one job
    ax.errorbar(taus / MINUTE, together, error, fmt="o", ms=4, color="0.2", label="virtual time")
    for f, mark in {young: "v", daly: "^"}.items():
        ax.plot(f(c, m) / MINUTE, 0.02, mark, color=palette[2], clip_on=False, label=f.__name__.capitalize())
    ax.set(xscale="log", ylim=(0, 1), xlabel="interval τ (min)", title=name)
    ticks = [t for t in (1, 2, 5, 10, 20, 50, 100, 200) if taus[0] < t * MINUTE < taus[-1]]
    ax.set_xticks(ticks, ticks)
    ax.minorticks_off()
axes[0].set_ylabel("goodput")
axes[0].legend(loc="lower left", bbox_to_anchor=(0, 0.08))
plt.show()

# %% [markdown]
# *(Figure: goodput over the interval between checkpoints in three panels, from left to right at most 0.89,
# 0.64 and 0.27. In all of them the dots of virtual time lie on the exact curve. The first-order curve runs
# along it in the first and below it in the second; in the third it is below zero, out of the picture. The
# triangles of Young and Daly are close together in the first two; in the third Young's is to the right of
# the maximum, Daly's under it.)*

# %%
rows = {}
for name, (c, m, r) in SITUATIONS.items():
    taus, found = virtual[name]
    off = 1 / (1 / found).mean(1) / exact(taus, c, m, r) - 1
    at = {"Young": young(c, m), "Daly": daly(c, m), "exact": best(c, m)}
    rows[name] = {"largest error of the exact formula, %": 100 * np.abs(off).max()}
    rows[name] |= {f"τ {k}, min": v / MINUTE for k, v in at.items()}
    rows[name] |= {f"goodput at τ {k}": exact(v, c, m, r) for k, v in at.items()}
    rows[name]["goodput Young promises"] = first_order(at["Young"], c, m, r)
table = pd.DataFrame(rows).T
display(table.round(3).T)

# %% [markdown]
# The exact formula is within 2% of virtual time everywhere. **Where Young's fails:** not in $\tau$, which
# costs a few percent even where a checkpoint takes half of $M$, but in what it promises. It counts a lost
# interval and a checkpoint as if there were never two failures in a row, and where there are, it says that
# nothing is left while more than a quarter of the machine is. And no formula of this family knows that
# failures come in swarms: if they do, the exponential draw must be replaced, and the simulation stays.
#
# ## 10.4 On a real Slurm
#
# Now for real (recorded, `runs/10_failures.py`): a Slurm with six small nodes on one machine, a training
# with `cluster.training.checkpoint`, and four ways to interrupt it. **Guess** which of the four Slurm does
# *not* put back into the queue by itself.

# %%
record = json.loads(pathlib.Path("runs/10_failures.json").read_text())
settings = record["settings"]
print(f"RECORDED on {record['date']}, Slurm {record['versions']['slurm']}, {record['machine']['cpu']}")
display(pd.DataFrame(record["ways"]).set_index("interrupted").round(1))

# %% [markdown]
# A rank that dies by itself may have a bug, and a job that is started again with its bug runs for ever; so
# Slurm takes it for failed, and somebody has to look. Requeued, preempted and bereft of its node, a job
# comes back. That takes some 20 s here, since a requeued job waits for a credential to run out; a lost node
# must be *missed* first. (Where `scontrol` requeues, Slurm's own default wait is two minutes.)
#
# Now many: for each of three intervals, jobs of 30 s of work, each attempt ended after a time drawn from an
# exponential distribution. Each waits in the queue for $D$ seconds, in which nothing can fail, and needs $S$
# to start, so the exact formula becomes
#
# $$\text{goodput} = \frac{\tau}{(M + D)\,e^{S/M}\left(e^{(\tau + C)/M} - 1\right)} .$$
#
# $C$, $D$ and $S$ come from a first round in which each job failed once, at a moment that was set; $M$ is
# ours. **Guess** the goodput at the middle interval. ($M$ is hardly longer than $D$: no good machine.)

# %%
guess("goodput on the real Slurm, middle interval", unit="%")
mean = {name: found["mean"] for name, found in record["calibration"].items()}
print({name: round(seconds, 3) for name, seconds in mean.items()}, "s; M =", settings["mtbf"], "s")


def with_queue(tau, C, M, D, S):
    """Goodput if a failure costs D seconds in a queue, and S seconds of a start that may fail."""
    return tau / ((M + D) * np.exp(S / M) * np.expm1((tau + C) / M))


def together(jobs, times=4000, seed=10):
    """Goodput of jobs of equal work together, and its 95% interval by bootstrap over the jobs."""
    walls = np.array([job["end"][0] for job in jobs])
    draws = np.random.default_rng(seed).choice(walls, (times, len(walls))).sum(1)
    work = len(walls) * settings["steps"] * mean["step"]
    return work / walls.sum(), *np.percentile(work / draws, [2.5, 97.5])


# %%
rows = {}
for key, jobs in record["runs"].items():
    tau = int(key) * mean["step"]
    predicted = with_queue(tau, mean["saving"], settings["mtbf"], mean["down"], mean["start"])
    found, low, high = together(jobs)
    row = {"jobs": len(jobs), "failures": sum(len(job["failure"]) for job in jobs), "predicted": predicted}
    rows[tau] = row | {"measured": found, "95% from": low, "to": high, "inside": low <= predicted <= high}
slurm = pd.DataFrame(rows).T.rename_axis("τ, s")
display(slurm)
compare("goodput on the real Slurm, middle interval", 100 * slurm["measured"].iloc[1])

# %% [markdown]
# Means of few jobs are a weak test. A stronger one knows when each job was struck: `run` in virtual time,
# with the very lifetimes that were drawn, must give the wall-clock time of *each job*.


# %%
def replayed(job, tau):
    """Seconds of a job in virtual time, struck when the real one was struck."""
    lives = [f - s for s, f in zip(job["start"], job["failure"], strict=False)]
    waits = iter([0.0] + [mean["down"]] * len(lives))
    draws = iter([*lives, np.inf])
    work = settings["steps"] * mean["step"]
    restart = mean["down"] + mean["start"]
    return run(work, tau, mean["saving"], restart, lambda: next(waits) + next(draws))[0]


pairs = np.array([
    (int(key) * mean["step"], job["end"][0], replayed(job, int(key) * mean["step"]))
    for key, jobs in record["runs"].items() for job in jobs
])  # fmt: skip
errors = np.abs(pairs[:, 2] / pairs[:, 1] - 1)
print(f"{len(pairs)} jobs: median error {np.median(errors):.1%}, nine of ten within", end=" ")
print(f"{np.percentile(errors, 90):.1%}")
ends = {job["digest"] for jobs in record["runs"].values() for job in jobs}
struck = sum(len(job["failure"]) for jobs in record["runs"].values() for job in jobs)
print(f"{struck} failures at random moments, {len(ends)} different end(s) of {len(pairs)} trainings")

# %%
fig, axes = plt.subplots(1, 2, figsize=(9.4, 3.8))
tau = np.geomspace(0.6, 25, 200)
curve = with_queue(tau, mean["saving"], settings["mtbf"], mean["down"], mean["start"])
axes[0].plot(tau, curve, marker="", label="predicted")
bars = [slurm["measured"] - slurm["95% from"], slurm["to"] - slurm["measured"]]
axes[0].errorbar(slurm.index, slurm["measured"], bars, fmt="s", color=palette[1], label="real Slurm, 95%")
axes[0].set(xscale="log", ylim=(0, None), xlabel="interval τ (s)", ylabel="goodput", title="All jobs")
axes[0].set_xticks([1, 2, 5, 10, 20], [1, 2, 5, 10, 20])
axes[0].minorticks_off()
axes[0].legend(loc="lower center")
longest = pairs[:, 1:].max()
axes[1].plot([0, longest], [0, longest], color="0.6", lw=1, ls="-", marker="")
for tau, mark, color in zip(slurm.index, "os^", palette, strict=False):
    some = pairs[pairs[:, 0] == tau]
    axes[1].plot(some[:, 2], some[:, 1], mark, color=color, mfc="w", label=f"τ = {tau:.0f} s")
axes[1].set(xlabel="virtual time, same failures (s)", ylabel="real Slurm (s)", title="Each job")
axes[1].legend()
plt.show()

# %% [markdown]
# *(Figure: left, predicted goodput over the interval, a hill, and the three measured values with their
# intervals. Right, wall-clock time of each job on the real Slurm over that in virtual time with the same
# failures; the points lie along the diagonal.)*
#
# All three predictions lie in the intervals, which are wide; the second test is the sharper one, and virtual
# time tells single jobs to a few percent, on a machine that had other work as well.
#
# What is in a checkpoint that nobody can tell an interrupted training from a whole one? All that the next
# step reads: weights, *momentum*, the state of the generator of random numbers, the position in the data.
# The digests above are of the weights' bytes. The test of this lecture does it again, with 20 kills at
# random moments, some of them while a checkpoint is written; it is written beside its place and renamed.
#
# ## 10.5 On with another number of ranks
#
# Three of four nodes are left; or six are free. Wait for four, or go on with what there is? Then three
# things must change. **The shards**: an epoch of 1,200 images was dealt to 4 ranks in batches of 10, and
# broke off after 12 steps. We count how often each image is seen in the epoch, if 3 or 6 ranks go on in
# three ways. **Guess** how many are never seen if each of 6 takes its *new* shard from step 12 on.

# %%
guess("images of 1,200 never seen by 6 ranks, new shards from step 12 on")
IMAGES, BATCH, DONE = 1_200, 10, 12


def seen(way, p):
    """How often each image is seen in an epoch that 4 ranks begin and p ranks end: (IMAGES,)."""
    parts = [shards.shard(IMAGES, r, 4)[: DONE * BATCH] for r in range(4)]
    if way == "the rest of the shuffle, dealt anew":
        parts += [shards.shard(IMAGES, 0, 1)[4 * DONE * BATCH :]]  # of the one shuffle that all ranks share
    else:
        first = DONE * BATCH if way == "new shards from step 12 on" else 0
        parts += [shards.shard(IMAGES, r, p)[first:] for r in range(p)]
    return np.bincount(np.concatenate(parts), minlength=IMAGES)


# %%
WAYS = "new shards from step 12 on", "the epoch from its beginning", "the rest of the shuffle, dealt anew"
rows = {(way, p): np.bincount(seen(way, p), minlength=3) for way in WAYS for p in (3, 6)}
display(pd.DataFrame(rows, index=["never", "once", "twice"]).T.rename_axis(["way", "ranks"]))
compare("images of 1,200 never seen by 6 ranks, new shards from step 12 on", rows[WAYS[0], 6][0])

# %% [markdown]
# Only the third way is an epoch: 12 steps of 6 ranks are a longer way through the shuffle than 12 steps of
# 4, and 12 steps of 3 a shorter one. The state of data is therefore *one* number, the images that all ranks
# have seen, and not a step of each rank. **The rate**: with the batch of a *rank* kept, the global batch
# shrinks by a quarter, and with it, by the linear rule, the rate; the other way, up, a jump of the rate
# needs a **warmup** (lecture 08), and the momentum its correction. Or the *global* batch is kept, and
# nothing of that is needed:

# %% tags=["measured"]
rng = np.random.default_rng(10)
x, w = rng.standard_normal((120, 64)), rng.standard_normal(64)
y = rng.standard_normal(120)


def gradient(p):
    """Of the mean square error: the mean over p ranks of the means over their 120 / p examples."""
    means = [2 * a.T @ (a @ w - b) / len(a) for a, b in zip(np.split(x, p), np.split(y, p), strict=True)]
    return np.mean(means, axis=0)


four, three = gradient(4), gradient(3)
print(f"4 × 30 against 3 × 40 examples: {np.abs(four - three).max():.1g}; bit-equal: {(four == three).all()}")

# %% [markdown]
# Equal but for rounding; bit-equality is lost with the order of the sums.
#
# **Horovod Elastic** (2020) promises this without a restart: survivors of a failed worker go back to the
# last `commit()` in memory, new workers get the state, and all go on with another `hvd.size()`. Recorded
# here: two workers, of which one is killed at step 20; at step 50 another host appears. Each step adds 1 to
# a weight, so the weight must equal the step.

# %%
elastic = json.loads(pathlib.Path("runs/10_elastic.json").read_text())
fig, axes = plt.subplots(2, 1, figsize=(8.4, 3.8), sharex=True)
for ax, kind in zip(axes, ("TensorFlowState", "ObjectState"), strict=True):
    trial = elastic[kind]
    notes = pd.DataFrame(trial["notes"])
    steps = notes.dropna(subset="step")
    for size, color in {2: palette[0], 1: palette[1]}.items():
        some = steps[steps["size"] == size]
        ax.plot(some["time"], some["worker"], "|", ms=14, color=color, label=f"a step with hvd.size() {size}")
    begins = notes[notes["event"] == "begins"]
    ax.plot(begins["time"], begins["worker"], ">", color="0.3", mfc="w", label="worker begins")
    for what, style in {"killed": "-", "added": ":"}.items():
        ax.axvline(trial[what], color="0.4", lw=1, ls=style, marker="")
    ax.set(yticks=[0, 1, 2], ylim=(-0.6, 2.6), ylabel="worker", title=kind)
    ended = "did not end" if trial["code"] is None else f"ended with code {trial['code']}"
    print(f"RECORDED: {kind} {ended}, last step {steps['step'].max():.0f};", end=" ")
    print(f"{(steps['w'] != steps['step']).sum()} of {len(steps)} weights are not their step;", end=" ")
    print(f"worker 2: {', '.join(notes['event'][notes['worker'] == 2].dropna())}")
axes[0].legend(loc="upper right", fontsize=8)
axes[1].set_xlabel("time (s)")
plt.show()
print("with a Keras 3 model:", elastic["TensorFlowKerasState"])

# %% [markdown]
# *(Figure: two trials, a lane for each worker over time, a tick for each step. In both two workers step
# together until one ends at a solid line; the other goes on alone almost at once. Some time after the dotted
# line, where a host is added, it stops. A third worker begins; above nobody steps any more, below two step
# together to the end.)*
#
# The promise holds for the one that is lost: seconds, and nothing repeated but what was not committed. For
# the one that comes all wait until it has started, and then it holds with `ObjectState` only.
# `TensorFlowState` broadcasts its variables when it is *made*, and the old workers, which made theirs long
# ago, do not: the new worker waits for ever, and so do they. (In 0.28.1, with TensorFlow 2. Horovod's Keras
# state calls `optimizer.variables`, which in Keras 3 is a list.) And elastic does not mean right: shards and
# rate are still ours to change.
#
# ## 10.6 Who runs when, and where
#
# A cluster of eight nodes and a queue. `order` says who is next; the first that does not fit blocks all
# behind it, unless **backfill** lets those start that will have ended, by their own limit, before it could
# start anyway. **Preemption** takes nodes from jobs of a lower tier; they are requeued with the work that is
# left (they save). Time goes in minutes.


# %%
def schedule(jobs, nodes=8, order=lambda job, used: job["submit"], backfill=False, preempt=False):
    """[(name, user, nodes, from, to)] of jobs, which are dictionaries: see QUEUE."""
    left, running, spans, used, t = [dict(j) for j in jobs], [], [], {}, 0
    while left or running:
        for job in [j for j in running if j["from"] + j["minutes"] <= t]:
            running.remove(job)
            spans.append((job["name"], job["user"], job["places"], job["from"], t))
        waiting = sorted((j for j in left if j["submit"] <= t), key=lambda j: (-j["tier"], order(j, used)))
        blocked = None  # the minute at which the first that waits can start
        for job in waiting:
            free = sorted(set(range(nodes)) - {n for j in running for n in j["places"]})
            lower = [j for j in running if preempt and j["tier"] < job["tier"]]
            if blocked is None and job["nodes"] <= len(free) + sum(j["nodes"] for j in lower):
                while len(free) < job["nodes"]:
                    free = sorted(free + stop(lower.pop(), t, running, left, spans))
            if len(free) >= job["nodes"] and (blocked is None or t + job["minutes"] <= blocked):
                left.remove(job)
                running.append(job | {"places": free[: job["nodes"]], "from": t})
                used[job["user"]] = used.get(job["user"], 0) + job["nodes"] * job["minutes"]
            elif blocked is None:
                blocked = shadow(job, running, len(free)) if backfill else t
        t += 1
    return spans


# %%
def stop(victim, t, running, left, spans):
    """Put a running job back into the queue with the minutes that are left of it; the nodes it had."""
    running.remove(victim)
    spans.append((victim["name"], victim["user"], victim["places"], victim["from"], t))
    left.append(victim | {"minutes": victim["from"] + victim["minutes"] - t})
    return victim["places"]


def shadow(job, running, free):
    """The minute at which enough nodes will be free for a job, by the limits of those that run."""
    for other in sorted(running, key=lambda j: j["from"] + j["minutes"]):
        free += other["nodes"]
        if free >= job["nodes"]:
            return other["from"] + other["minutes"]


# %%
QUEUE = """
name user nodes minutes submit tier
a1   A    4     60      0      0
a2   A    3     90      1      0
a3   A    8     40      2      0
a4   A    6     60      3      0
b1   B    1     50      5      0
b2   B    2     30      6      0
b3   B    3     30      7      0
c1   C    6     20      70     1
"""
jobs = pd.read_csv(io.StringIO(QUEUE), sep=r"\s+").to_dict("records")
flat = [job | {"tier": 0} for job in jobs]
plans = {
    "first come, first served": schedule(flat),
    "with backfill": schedule(flat, backfill=True),
    "fair share and backfill": schedule(
        flat, order=lambda job, used: (used.get(job["user"], 0), job["submit"]), backfill=True
    ),
    "backfill and preemption": schedule(jobs, backfill=True, preempt=True),
}

# %% [markdown]
# User A has submitted four jobs at once, one of them for the whole machine; B comes minutes later with three
# small ones; C after an hour with an urgent one. **Guess**: which share of the nodes' time is idle, first
# come, first served, and with backfill?

# %%
guess("idle, first come, first served", unit="%")
guess("idle, with backfill", unit="%")
SHADES = dict(zip("ABC", ((palette[0], ""), (palette[1], "//"), (palette[2], "..")), strict=True))
fig, axes = plt.subplots(2, 2, figsize=(11, 5.6), sharex=True, sharey=True)
for ax, (name, spans) in zip(axes.flat, plans.items(), strict=True):
    for job, user, places, start, end in spans:
        color, hatch = SHADES[user]
        ax.bar([start] * len(places), 1, end - start, [p - 0.5 for p in places], align="edge", color=color,
               hatch=hatch, ec="white", lw=0.5)  # fmt: skip
        middle = (start + end) / 2, places[len(places) // 2]
        ax.text(
            *middle, job, ha="center", va="center", fontsize=11, bbox={"fc": "white", "ec": "none", "pad": 1}
        )
    ax.set(ylim=(-0.5, 7.5), title=name)
    ax.grid(False)
for ax in axes[:, 0]:
    ax.set_ylabel("node")
for ax in axes[1]:
    ax.set_xlabel("minutes")
plt.show()

# %%
rows = {}
for name, spans in plans.items():
    last = max(end for *_, end in spans)
    busy = sum(len(places) * (end - start) for _, _, places, start, end in spans)
    row = {"all done, min": last, "idle, %": 100 * (1 - busy / (8 * last))}
    for user in SHADES:
        submitted = min(job["submit"] for job in jobs if job["user"] == user)
        row[f"{user}'s last done after"] = max(e for _, u, *_, e in spans if u == user) - submitted
    rows[name] = row
queue = pd.DataFrame(rows).T
display(queue.round(1))
compare("idle, first come, first served", queue.loc["first come, first served", "idle, %"])
compare("idle, with backfill", queue.loc["with backfill", "idle, %"])

# %% [markdown]
# *(Figure: four schedules, nodes over minutes, jobs as boxes. First come, first served leaves nodes empty
# before the job that wants all eight; with backfill B's three small jobs lie in that gap; with fair share
# C's job comes before A's large one; with preemption it begins at minute 70, and three boxes are cut in
# two.)*
#
# Backfill costs nobody anything and ends all half an hour sooner. Fair share sorts by what a user has had so
# far, so B and C, who had nothing, pass A's large job; somebody waits longer, that is what fair means.
# Preemption gives C the nodes at once. It is cheap only because the jobs save: what it costs in work is 10.2
# again, with $M$ set by colleagues instead of cosmic rays. Limits are promises here. A job that asks for
# more time than it needs does not fit into gaps.
#
# A gang. A distributed training needs *all* its nodes or none. A scheduler that places process by process,
# as Kubernetes does unasked, can give two jobs half of what each needs, and both wait for ever:

# %%
for name, piece in {"process by process": 1, "as gangs": 6}.items():  # nodes that are given at once
    got = {"x": 0, "y": 0}  # each wants 6 of 8
    for turn in range(12 // piece):
        if sum(got.values()) + piece <= 8:
            got["xy"[turn % 2]] += piece
    running = [job for job, n in got.items() if n == 6]
    print(f"{name:18}: {got}, running: {running or 'none, for ever'}")

# %% [markdown]
# (Slurm allocates gangs anyway, and calls something else "gang scheduling": jobs that take turns on the same
# nodes.)
#
# **Places.** MN-1, of the quarter of an hour, is a *thin* tree: within 16 nodes there is more bandwidth than
# between the groups. Here 64 nodes in groups of 8, whose links upwards are only twice as fast as one node's;
# 16 nodes of them make a ring of lecture 06 for 100 MB. They are two whole groups, or scattered; the ring
# goes round in the order of the nodes, or in any. **Guess** how much longer the worst takes than the best.


# %%
def ring(comm, size, places):
    """The messages of a ring all-reduce of `size` bytes on some ranks, in the order given."""
    if comm.rank in places:
        group, p = Group(comm, places), len(places)
        chunk = Placeholder(round(size / p), np.uint8)
        for _ in range(2 * (p - 1)):
            group.sendreceive(chunk, (group.rank + 1) % p, (group.rank - 1) % p)


thin = Tree(latency=1e-6, time_per_byte=8 / 100e9, arity=8, growth=2)
rng = np.random.default_rng(10)
scattered = sorted(rng.choice(64, 16, replace=False).tolist())
PLACES = {"two groups, in order": list(range(16)), "two groups, any order": rng.permutation(16).tolist()}
PLACES |= {"scattered, in order": scattered, "scattered, any order": rng.permutation(scattered).tolist()}

# %%
guess("worst places against the best", unit="×")
seconds = {
    name: simulate(ring, 100e6, places, ranks=64, network=thin, record=False).time
    for name, places in PLACES.items()
}
for name, t in seconds.items():
    print(f"{name:22} {t * 1e3:5.1f} ms, {t / min(seconds.values()):.2f} × the best")
compare("worst places against the best", max(seconds.values()) / min(seconds.values()))

# %% [markdown]
# A ring in order crosses each border once and forgives even scattered nodes; in any order its messages meet
# at the borders. Slurm knows the tree (`topology.conf`) and prefers few switches; `--switches=1` insists,
# and waits. Which ranks are neighbours is then the library's part.
#
# **Kubernetes** grew up with services that live for ever, and Slurm with jobs that end. The job of lecture
# 05 as a manifest, beside what `sbatch` calls it:

# %%
print(pathlib.Path("runs/10_kubernetes.yaml").read_text().split("---\n")[1])
manifest = json.loads(pathlib.Path("runs/10_manifest.json").read_text())
verdicts = [v for v in manifest["verdicts"] if v["kind"] == "Job"]
print(f"schemas of Kubernetes {manifest['versions']['kubernetes']}:", end=" ")
print("accepted" if verdicts[0]["error"] is None else verdicts[0]["error"], end="; ")
print(f"{sum(v['error'] is not None for v in verdicts[1:])} of {len(verdicts) - 1} spoilt ones refused")

# %% [markdown]
# It was checked against Kubernetes' schemas and **never run**. `suspend` and the label leave it to an add-on
# (Kueue) to admit the gang; `podFailurePolicy` makes the difference of 10.4 between an error and a
# preemption. What `sbatch` does with four lines and `srun`, start ranks that find each other, is left to
# `start_ranks.py`: nobody here has MPI's launcher. That, and the restart of one pod while the others hang in
# an all-reduce, is Asai and Fukuda's "MPI with Kubernetes"; its usual answer is an operator that knows
# `mpirun` (MPIJob), or a framework with a rendezvous of its own.
#
# ## 10.7 Feeding it
#
# At scale the images must come from somewhere. An epoch of ImageNet is 1,281,167 files of about 110 kB. Here
# with the epoch times of three papers; a file system that delivers 10 GB/s and opens 50,000 files a second
# (a good one of those years; assumptions both). **Guess** how many images a second Akiba et al. read.

# %%
guess("images a second in the quarter of an hour")
TRAIN, KB = 1_281_167, 110e3  # images; bytes of one, about
RUNS = {"Goyal: 256 GPUs, 1 h": 3600, "Akiba: 1,024, 15 min": 900, "Mikami: 2,176, 224 s": 224}
storage = pd.DataFrame({"images/s": {name: 90 * TRAIN / t for name, t in RUNS.items()}})
storage["GB/s"] = storage["images/s"] * KB / 1e9
storage["of 10 GB/s"] = storage["GB/s"] / 10
storage["of 50,000 opens/s"] = storage["images/s"] / 50_000
display(storage.round(2))
compare("images a second in the quarter of an hour", storage["images/s"].iloc[1])
print(f"the whole set: {TRAIN * KB / 1e9:.0f} GB, a 128th of it {TRAIN * KB / 128 / 1e9:.1f} GB;", end=" ")
once = TRAIN * KB / 10e9  # s
print(f"read once at 10 GB/s: {once:.0f} s; by each of 128 nodes: {128 * once / MINUTE:.0f} min")

# %% [markdown]
# Bytes are the smaller trouble; *opens* are the larger one. So images are packed into few large files, and
# copied once to the nodes' own disks (*staging*), where each node reads its part or a cache keeps it in
# memory: a 128th of ImageNet is a gigabyte. But one shuffle over all images (lecture 07) then wants what
# lies elsewhere. Shuffle what is staged and redeal the parts now and then, or stage everything everywhere:
# that takes twice as long as the training. (PFDet's half a terabyte in small files makes the same sum.)

# %% [markdown]
# ## 10.8 ImageNet in 15 minutes, on paper
#
# What did Goyal (256 GPUs), Akiba (1,024), Mikami (2,176), PFDet (512) and Horovod (512) do, seen from a
# desk? One model for all of them: a GPU alone makes $f$ images a second, *as somebody else published it*
# (TensorFlow's benchmarks of 2017 for P100, NVIDIA's of 2019 for V100); an all-reduce takes what lecture
# 06's formula for a hierarchy says, with the gradient's bytes and the network cards of the paper. How much
# of it hides behind the backward pass is not known from outside, so the prediction is an *interval*: from
# nothing hidden to all that fits behind two thirds of the computation.

# %%
ONE_GPU = {"P100, batch 32": 195, "V100": 2886.9 / 3.86}  # images/s of ResNet-50 in training
ONE_GPU |= {"Inception V3": 142, "VGG-16": 154}  # P100, batch 64
# ResNet-101 between ResNet-50 and ResNet-152: by their 10⁹ multiply-adds, seconds of an image
ONE_GPU["ResNet-101"] = 1 / np.interp(7.6, [3.9, 11.3], [1 / 219, 1 / 91.8])
WEIGHTS = {"ResNet-50": 25_583_592, "Inception V3": 23_851_784, "ResNet-101": 44_707_176}  # of Keras
WEIGHTS |= {"VGG-16": 138_357_544}
# GPUs, GPUs of a node, images of a GPU; bytes of a weight; network card GB/s, its α in µs, GB/s inside a node
PAPERS = """
paper;                    p; q; batch; GPU;            network;      bytes;  card; alpha; inside
Goyal;                  256; 8;    32; P100, batch 32; ResNet-50;        4;  6.25;    20;     20
Akiba;                 1024; 8;    32; P100, batch 32; ResNet-50;        2;    14;     5;     10
Mikami;                2176; 4;    32; V100;           ResNet-50;        2;    25;     5;     25
Horovod, Inception V3;  512; 4;    64; Inception V3;   Inception V3;     4; 3.125;     5;     10
Horovod, ResNet-101;    512; 4;    64; ResNet-101;     ResNet-101;       4; 3.125;     5;     10
Horovod, VGG-16;        512; 4;    64; VGG-16;         VGG-16;           4; 3.125;     5;     10
"""
papers = pd.read_csv(io.StringIO(PAPERS), sep=r"\s*;\s*", engine="python", index_col="paper")

# %% [markdown]
# Batch 32 is the papers' for the first two, and Akiba sends gradients in half precision; for Mikami both are
# assumptions, as are all latencies and the bandwidth inside a node. PFDet has no published throughput: from
# its 33 hours for 16 epochs of 1.7 million images with 512 a step, and its efficiency, we have the seconds
# of a step; its gradient we take for 100 million numbers. **Guess** the efficiency of Akiba's 1,024 GPUs, if
# *nothing* is hidden.

# %%
guess("Akiba: efficiency with nothing hidden", unit="%")


def allreduce(p, q, size, card, alpha, inside):
    """Seconds by lecture 06's formula: p GPUs, q a node, bytes; GB/s, µs, GB/s."""
    node = {"ranks_per_node": q, "inside_latency": 2e-6, "inside_time_per_byte": 1e-9 / inside}
    return closed_forms.hierarchical(p, size, Hierarchy(alpha * 1e-6, 1e-9 / card, **node))


def efficiencies(step, comm):
    """With nothing of an all-reduce hidden, and with all that fits behind two thirds of a step."""
    found = {"one step, ms": step * 1e3, "all-reduce, ms": comm * 1e3, "nothing hidden": step / (step + comm)}
    return pd.Series(found | {"all hidden": step / max(step, step / 3 + comm)})


# %%
OWN = {"Goyal": 0.90, "Akiba": 0.80, "Mikami": 0.9162, "PFDet": 0.83}  # what the papers say of themselves
OWN |= {"Horovod, Inception V3": 0.90, "Horovod, ResNet-101": 0.90, "Horovod, VGG-16": 0.68}
MINUTES = {"Goyal": 60, "Akiba": 15, "Mikami": 224 / 60}
rows = {}
for name, x in papers.iterrows():
    comm = allreduce(x.p, x.q, x.bytes * WEIGHTS[x.network], x.card, x.alpha, x.inside)
    rows[name] = efficiencies(x.batch / ONE_GPU[x.GPU], comm)
pfdet = 33 * HOUR / (16 * 1.7e6 / 512)  # seconds of a step on 512 GPUs
rows["PFDet"] = efficiencies(OWN["PFDet"] * pfdet, allreduce(512, 8, 4e8, 25, 5, 10))
paper = pd.DataFrame(rows).T
paper["of itself"] = pd.Series(OWN)
paper["images/s of a GPU"] = pd.Series({k: 90 * TRAIN / (60 * m) / papers.p[k] for k, m in MINUTES.items()})
paper["of published GPU"] = paper["images/s of a GPU"] / papers.GPU.map(ONE_GPU)
display(paper.round(2))
compare("Akiba: efficiency with nothing hidden", 100 * paper.loc["Akiba", "nothing hidden"])

# %%
fig, ax = plt.subplots(figsize=(8.4, 4.2))
rows = np.arange(len(paper))[::-1]
width = paper["all hidden"] - paper["nothing hidden"]
ax.barh(rows, width, 0.5, paper["nothing hidden"], color="0.8", hatch="//", ec="0.5", label="predicted")
ax.plot(paper["of itself"], rows, "o", color=palette[0], label="the paper's own efficiency")
label = "its time, against the published GPU"
ax.plot(paper["of published GPU"], rows, "D", color=palette[1], mfc="w", label=label)
ax.set_yticks(rows, paper.index)
ax.set(xlim=(0, 1.05), xlabel="share of p times one GPU")
ax.legend(loc="lower left")
plt.show()

# %% [markdown]
# *(Figure: a row for each result, with the predicted interval as a hatched bar, mostly between 0.8 and 1,
# the paper's own efficiency as a dot and, for three of them, a diamond far to the left: 0.64, 0.64 and 0.32.
# Five dots lie in their bars; those of Akiba and PFDet are a tenth to the left of theirs.)*
#
# Five of seven lie inside, VGG-16 included, whose bar is far from the others: these are about the network.
# **The misses are not.** Akiba's and PFDet's efficiencies are lower than if nothing were hidden at all; and
# the diamonds are far off. Goyal and Akiba got the *same* 125 images a second from each GPU, four times as
# many GPUs in a quarter of the time; and that is two thirds of what somebody else got out of one P100. Their
# own efficiencies are of their own smaller runs, on frameworks of 2017, with real photographs to decode. An
# efficiency says nothing before it says *of what*. Mikami's diamond has a further reason: the published V100
# had batches made to fill it, theirs had few images, and a GPU that is not filled is slower for each
# (lecture 04).
#
# What else does the model leave out, that grows with $p$? A step ends with the *slowest* rank, and PFDet
# normalises over the nodes in every layer: many short messages, nothing to hide them behind. Both can be
# sized:

# %%
rng = np.random.default_rng(10)
for p in (8, 256, 1024):
    slowest = rng.standard_normal((2000, p)).max(1).mean()
    print(f"slowest of {p:5,} ranks: {slowest:.2f} σ behind the mean;", end=" ")
    print(f"10% lost if σ is {0.1 / slowest:.1%} of a step")
short = allreduce(512, 8, 4 * 2 * 256, 25, 5, 10)  # mean and variance of 256 channels
print(f"PFDet: 200 short all-reduces of {short * 1e3:.2f} ms are {200 * short / pfdet:.0%} of a step")
cards, size = Switch(5e-6, 1e-9 / 14), 2 * WEIGHTS["ResNet-50"]
seconds = simulate(ring, size, list(range(128)), ranks=128, network=cards, record=False).time
formula = closed_forms.ring(128, size, cards)
print(f"Akiba's 128 cards, a ring of {size / 1e6:.0f} MB: {seconds * 1e3:.2f} ms in virtual time,", end=" ")
print(f"{formula * 1e3:.2f} by formula")

# %% [markdown]
# A jitter of a few percent would do for Akiba, and two hundred short messages take PFDet about half of the
# way; neither is in the papers, so these are sizes, not explanations that were shown. What the model *can*
# say: with these cards the network takes at most a fifth from Goyal and a tenth from Akiba, and a third is
# missing. (Mikami's own efficiency, in its bar, is of 1,088 GPUs.)
#
# ## What was learned
#
# 1. Goodput follows from $C$, $M$ and $R$. $\sqrt{2CM}$ is a good interval nearly always; its promise of
#    goodput is wrong where a checkpoint is not small against $M$, and the exact formula is right there, too.
# 2. On a real Slurm, broken on purpose, the same formula and the same simulation tell each job's time; who
#    puts a job back, and after how long, is part of $R$.
# 3. A checkpoint holds all that the next step reads. Then nobody can tell. With another $p$, shards, rate
#    and warmup must change, or the global batch must not.
# 4. Backfill fills gaps, fair share turns the order, preemption cuts, and gangs and places are what
#    distributed training asks of a scheduler beyond that.
# 5. From published numbers the network of the quarter of an hour can be predicted; the machine's other third
#    cannot. An efficiency needs its reference.
#
# **Open questions.** (a) What would a checkpoint cost that is written while the training goes on, and what
# is $M$ then good for? (b) 100,000 GPUs: which of $C$, $R$ and $M$ would you pay to improve first? (c)
# Failures come in swarms, and old nodes fail again: should the scheduler, or the training, know it? (d) What
# would a switch have to tell a scheduler so that two jobs do not meet on one cable?
#
# **Your turn.** This is the last lecture. Assignment 10, *Time to accuracy*, is the capstone: a stated
# accuracy on a stated machine for the least cost, with a checkpoint that survives. Before:
# **[09, asynchronous SGD](09_asynchronous_sgd.ipynb)**, whose workers were only late,
# **[08](08_large_batches.ipynb)** for the warmup of 10.5 and of Goyal et al.,
# **[06](06_all_reduce.ipynb)** for the formulas of 10.8, **[05](05_why_distribute.ipynb)** for Slurm.
#
# ## Further
#
# Nothing in the course needs this.
#
# 1. Draw lifetimes from a Weibull distribution of shape 0.7 (failures come in swarms), with the same mean:
#    what becomes of the optimum in 10.3?
# 2. A checkpoint to a neighbour's memory takes 5 s and survives one node, one to disk 120 s and survives
#    all. How often which?
# 3. Give `schedule` estimates of the minutes that are twice too long, as users do: who gains from backfill?
#
# ### The same job, spelt differently
#
# | | ranks find each other | gradients are averaged | each rank's part of the data |
# |---|---|---|---|
# | Horovod | `hvd.init()` | `hvd.DistributedGradientTape(tape)` | by hand |
# | tf.distribute | `TF_CONFIG` | `MultiWorkerMirroredStrategy()` | `experimental_distribute_dataset` |
# | PyTorch DDP | `torchrun` | `DistributedDataParallel(model)` | `DistributedSampler` |
# | PyTorch FSDP | the same | `fully_shard(model)`: weights are sharded, too | the same |
# | JAX | `jax.distributed.initialize()` | `jit` of arrays with a `NamedSharding` | by hand |
# | Chainer | `chainermn.create_communicator()` | `create_multi_node_optimizer(…)` | `scatter_dataset` |
#
# All of them are lecture 07: one program on each rank, an all-reduce of gradients, a shard each; FSDP puts a
# reduce-scatter and all-gathers in its place (the two halves of lecture 06's ring). They differ in who
# inserts it: a tape, a scope, hooks on the backward pass, a compiler.
#
# Dates: Horovod's paper is of February 2018, its elastic mode of 0.20 (2020), its last release 0.28.1 of
# June 2023; it does not compile against TensorFlow 2.19 and later without changes. Chainer ended on 5
# December 2019, when Preferred Networks announced to move to PyTorch. PyTorch took elastic training into 1.9
# (2021); its documentation today begins with `fully_shard`, the second FSDP.
#
# ### Sources
#
# - Young 1974, *A first order approximation to the optimum checkpoint interval*, CACM 17 · Daly 2006, *A
#   higher order estimate of the optimum checkpoint interval for restart dumps*, FGCS 22
# - Llama team 2024, *The Llama 3 herd of models*, arXiv 2407.21783 · Kokolis et al. 2025, arXiv 2410.21680,
#   both through secondary texts
# - Goyal et al. 2017, [1706.02677](https://arxiv.org/abs/1706.02677) · Akiba et al. 2017,
#   [1711.04325](https://arxiv.org/abs/1711.04325); Tokui et al. 2019, *Chainer*, section 10.1, for the
#   system; PFN, *MN-1: a GPU cluster behind 15-min ImageNet* · Mikami et al. 2018,
#   [1811.05233](https://arxiv.org/abs/1811.05233) (its second version says 122 s) · Akiba et al. 2018,
#   PFDet, [1809.00778](https://arxiv.org/abs/1809.00778)
# - Horovod's documentation, *Benchmarks*, *Elastic Horovod* · TensorFlow, *Benchmarks* (May 2017) · NVIDIA,
#   *DeepLearningExamples*, ResNet-50 for PyTorch (June 2019)
# - Slurm's documentation on preemption, backfill, topology · Kubernetes' on indexed Jobs and pod failure
#   policies
# - Asai and Fukuda (PFN): fault tolerance, preemption and MPI with Kubernetes as open questions
