# %% [markdown]
# # 10 · Running at scale
#
# **With 1,024 GPUs something breaks every few hours. How much of the machine's time remains for training?**
#
# The first nine lectures assumed machines that run without faults. Large machines do not: a GPU falls off
# its bus, a cable comes loose, an administrator needs a node, a more important job arrives. Synchronous
# training stops when *one* of its ranks stops. **Goodput** is the fraction of the wall-clock time spent
# on work that is not lost later. In this lecture you will
#
# 1. **derive** how often to save a checkpoint, and the goodput that results, from three numbers;
# 2. test the formula where it can fail: in **virtual time** with failures in bursts, and on a **real
#    Slurm** cluster that we break on purpose;
# 3. resume training so that the result is **bit-equal**, and resume it on another number of ranks;
# 4. read a schedule with backfill, preemption and co-scheduled jobs;
# 5. split the efficiency of **ImageNet in 15 minutes** into what is lost on one GPU, within a node and
#    between nodes.
#
# Notation: $M$ is the mean time between failures of the whole job, $C$ the seconds for which a checkpoint
# stops the work, $\tau$ the seconds of work between checkpoints, $R$ the seconds from a failure until work
# resumes, and $p$ the number of ranks.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

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

from cluster.network import Hierarchy, closed_forms
from cluster.training import shards

MINUTE, HOUR, DAY = 60, 3600, 24 * 3600  # s

# %% [markdown]
# ## 10.1 How often does it break?
#
# If each of $p$ GPUs fails independently once every $m$ hours on average, and does not age, the first of
# them fails after $m/p$ hours on average: the rates of $p$ exponential clocks add up. Meta has published
# four rates. The training of Llama 3 (2024) was interrupted unexpectedly 419 times in 54 days on 16,384
# GPUs. Kokolis et al. (2025) counted 6.50 failing nodes per 1,000 node-days on a cluster of 8-GPU nodes. On
# the same cluster, jobs on 8 GPUs ran for 47.7 days on average until a failure, and jobs on 1,024 GPUs for
# 7.9 hours. **Guess**: at Llama 3's rate, how many hours do 1,024 GPUs run until something fails?

# %%
guess("hours between failures of 1,024 GPUs, at Llama 3's rate", unit=" h")
DEVICE_HOURS = {  # of one GPU until something fails
    "Llama 3, unexpected interruptions": 54 * 24 * 16_384 / 419,
    "Kokolis et al., nodes": 1000 * 24 * 8 / 6.50,
    "Kokolis et al., jobs of 1,024 GPUs": 7.9 * 1_024,
    "Kokolis et al., jobs of 8 GPUs": 47.7 * 24 * 8,
}
rates = pd.DataFrame({"years of one GPU": DEVICE_HOURS}) / (24 * 365)
for p in (8, 1_024, 16_384):
    rates[f"hours of {p:,}"] = [hours / p for hours in DEVICE_HOURS.values()]
display(rates.round(2))
llama, nodes, large, small = rates["hours of 1,024"]
compare("hours between failures of 1,024 GPUs, at Llama 3's rate", llama)
claim("the times agree with m/p to within a fifth", large < small < 1.2 * large)
claim("the rows differ by a factor of six", 5.5 < llama / large < 6.5)

# %% [markdown]
# For jobs of 8 and 1,024 GPUs the times agree with $m/p$ to within a fifth. The *rates* do not agree: the
# rows differ by a factor of six, at one company. Failing nodes are not the only cause: software errors,
# file systems, networks and other users stop jobs, too. The "every few hours" of our question counts all
# failures of jobs; nodes alone fail every one or two days. A rate is meaningful only together with the
# failures that it counts. We continue with $M = 7.9$ hours, because it was *measured* on jobs of our size.
#
# Do we need checkpoints at all? A job survives $T$ hours with probability $e^{-T/M}$:

# %%
M = 7.9 * HOUR
for name, hours in {"15 minutes": 0.25, "one day": 24, "54 days": 54 * 24}.items():
    print(f"{name}: {math.exp(-hours * HOUR / M):.2g} finish without a failure")

# %% [markdown]
# A job of 15 minutes needs no checkpoint, because it can start again after a failure. A job of one day
# needs one.
#
# ## 10.2 How often to save
#
# Of $\tau + C$ seconds without a failure, $C$ are spent on the checkpoint. A failure costs $R$ and the work
# since the last checkpoint, half of $\tau$ on average. Failures occur at the rate $1/M$, so the fraction of
# time lost is about
#
# $$\ell(\tau) \approx \frac{C}{\tau} + \frac{\tau}{2M} + \frac RM, \qquad \ell' = 0 \;\text{ at }\;
# \tau_\text{Young} = \sqrt{2CM}.$$
#
# This is **Young's formula** (1974). At $\tau_\text{Young}$ the first two terms are equal, and the loss is
# $\sqrt{2C/M} + R/M$. The derivation assumes that $C$, $\tau$ and $R$ are small compared with $M$.
#
# For exponential failures there is an exact solution. Let $E(L)$ be the expected time until $L$ seconds
# have passed without a failure. Until the first failure or the end, $M(1 - e^{-L/M})$ seconds pass on
# average. With probability $1 - e^{-L/M}$ a failure ended it; then $R + L$ seconds must pass without
# another one:
#
# $$E(L) = (1 - e^{-L/M})\,\bigl(M + E'\bigr), \qquad E' = (1 - e^{-(R + L)/M})\,\bigl(M + E'\bigr).$$
#
# The second equation gives $E' = M(e^{(R+L)/M} - 1)$. With $L = \tau + C$ the first becomes
#
# $$E(\tau + C) = M\,e^{R/M}\left(e^{(\tau + C)/M} - 1\right), \qquad
# \text{goodput}(\tau) = \frac{\tau}{E(\tau + C)}.$$
#
# Daly (2006) derived this, with a higher-order formula for the best interval: $\tau_\text{Daly} =
# \sqrt{2CM}\left[1 + \tfrac13\sqrt{C/2M} + \tfrac19\,C/2M\right] - C$ if $C < 2M$, and $M$ otherwise.


# %%
def young(C, M):
    """Seconds of work between checkpoints, first order (Young 1974)."""
    return np.sqrt(2 * C * M)


def daly(C, M):
    """Seconds of work between checkpoints, higher order (Daly 2006)."""
    x = np.sqrt(C / (2 * M))
    return np.where(C < 2 * M, np.sqrt(2 * C * M) * (1 + x / 3 + x**2 / 9) - C, M)


def best(C, M):
    """The exact optimum: the fixed point of τ/M = 1 − exp(−(τ + C)/M), for any R."""
    tau = np.minimum(young(C, M), M)
    for _ in range(2000):
        tau = M * (1 - np.exp(-(tau + C) / M))
    return tau


# %%
def first_order(tau, C, M, R):
    """Goodput, if C, τ and R are small compared with M."""
    return 1 - C / tau - tau / (2 * M) - R / M


def exact(tau, C, M, R):
    """Goodput for exponential failures during work, checkpoints and restarts."""
    return tau / (M * np.exp(R / M) * np.expm1((tau + C) / M))


# %% [markdown]
# What are typical values of $C$ and $R$? A checkpoint of ResNet-50 has 0.2 GB and hardly stops the work.
# That of a model with 405 billion parameters has 12 bytes per parameter in single precision with the two
# moments of Adam: 4.9 TB. We assume $C$ = 2 minutes and $R$ = 10 minutes (to detect the failure, to queue,
# to start 1,024 processes, to load). **Guess** the best interval in minutes, and the goodput.

# %%
guess("best interval between checkpoints", unit=" min")
guess("goodput of 1,024 GPUs at best", unit="%")
C, R = 2 * MINUTE, 10 * MINUTE
intervals = {"Young": young(C, M), "Daly": daly(C, M), "exact": best(C, M)}
for name, tau in intervals.items():
    print(f"{name:6} {tau / MINUTE:5.1f} min, goodput {exact(tau, C, M, R):.2%}")
at_best = exact(intervals["exact"], C, M, R)
compare("best interval between checkpoints", intervals["exact"] / MINUTE)
compare("goodput of 1,024 GPUs at best", 100 * at_best)
claim("about nine tenths of the machine", 0.88 < at_best < 0.92)
at_young = exact(intervals["Young"], C, M, R)
claim("Young's interval is as good as the exact one", at_best - at_young < 1e-4)

# %% [markdown]
# Training keeps about nine tenths of the machine, which answers our question for these numbers. The optimum
# is flat, so Young's interval is as good as the exact one.
#
# **Does the formula describe a real machine?** Llama 3's team reports an effective training time of more
# than 90%. At their rate, with our $C$ and $R$, the formula gives

# %%
M_LLAMA = 54 * DAY / 419
ours = exact(best(C, M_LLAMA), C, M_LLAMA, R)
print(f"M = {M_LLAMA / HOUR:.1f} h, C = 2 min, R = 10 min: goodput {ours:.1%}")
fast_save = exact(best(10, M_LLAMA), 10, M_LLAMA, R)
fast_restart = exact(best(C, M_LLAMA), C, M_LLAMA, 0)
print(f"with C = 10 s {fast_save:.1%}, with R = 0 {fast_restart:.1%}")
claim("our C and R cannot be theirs", ours < 0.85)
claim("even an instant restart is not enough", fast_restart < 0.9 < fast_save)

# %% [markdown]
# As their goodput is higher, our $C$ and $R$ cannot be theirs. The formula shows which of the two matters
# more at this scale: with our $C$, even an instant restart is not enough; with our $R$, checkpoints that
# stop the work for only ten seconds are enough. This is why large training runs today copy the state to
# host memory within seconds and write it while training continues (*asynchronous checkpointing*).
#
# ## 10.3 A test in virtual time
#
# The formula assumes exponential failures. Real failures come in bursts: a repaired node fails again, or a
# bad switch affects many jobs. Is the formula still accurate? In virtual time, the next event of a job is
# the end of an interval or a failure, whichever comes first.


# %%
def run(work, tau, C, R, draw):
    """Wall-clock seconds and failures of a job that saves after every τ."""
    clock, failure, failures = 0.0, draw(), 0
    for _ in range(round(work / tau)):
        needs = tau + C
        while clock + needs > failure:
            clock, failures = failure, failures + 1
            failure = clock + draw()
            needs = R + tau + C  # the restart may fail, too
        clock += needs
    return clock, failures


# %%
def measured(tau, C, M, R, shape=1.0, jobs=64, work=400, seed=10):
    """Goodput of jobs of `work` intervals with Weibull failures of mean M: (jobs,)."""
    scale = M / math.gamma(1 + 1 / shape)  # shape 1: exponential; below 1: bursts
    clocks = [np.random.default_rng([seed, job]) for job in range(jobs)]
    draws = [lambda rng=rng: scale * rng.weibull(shape) for rng in clocks]
    seconds = [run(work * tau, tau, C, R, draw)[0] for draw in draws]
    return work * tau / np.array(seconds)


# %% [markdown]
# We compare three situations: ours, a machine that fails every quarter of an hour, and one on which a
# checkpoint takes half of the time between failures. The times between failures have the same mean $M$, and
# are either exponential (Weibull shape 1) or come in bursts (shape 0.5: many short gaps and a few very long
# ones). **Guess** the formula's error for bursts: is the true goodput higher or lower?

# %%
guess("bursts: true goodput against the formula's, at the best interval", unit="%")
SITUATIONS = {  # (C, M, R) in seconds
    "C = M/237: 2 min, 7.9 h": (C, M, R),
    "C = M/15: 1 min, 15 min": (MINUTE, 15 * MINUTE, MINUTE),
    "C = M/2: 5 min, 10 min": (5 * MINUTE, 10 * MINUTE, MINUTE),
}
virtual, errors = {}, {}
for name, (c, m, r) in SITUATIONS.items():
    taus = best(c, m) * np.geomspace(1 / 4, 4, 9)
    for shape in (1.0, 0.5):
        found = [1 / (1 / measured(tau, c, m, r, shape)).mean() for tau in taus]
        virtual[name, shape] = taus, np.array(found)
        errors[name, shape] = 100 * (found[4] / exact(taus[4], c, m, r) - 1)
table = pd.Series(errors).unstack().loc[list(SITUATIONS)]
display(table.rename_axis("error at the best τ, %", axis=0).round(1))
bursts = [errors[name, 0.5] for name in SITUATIONS]
compare("bursts: true goodput against the formula's, at the best interval", bursts[0])

# %%
fig, axes = plt.subplots(1, 3, figsize=(10.2, 3.7), sharey=True)
for ax, (name, (c, m, r)) in zip(axes, SITUATIONS.items(), strict=True):
    for shape, mark, label in ((1.0, "o", "exponential"), (0.5, "s", "bursts")):
        taus, found = virtual[name, shape]
        color = palette[2 if shape == 1 else 3]
        ax.plot(taus / best(c, m), found, mark, color=color, mfc="w", label=label)
    tau = np.geomspace(taus[0], taus[-1], 300)
    curves = {"exact formula": (exact, "-"), "first order": (first_order, "--")}
    for (label, (f, style)), color in zip(curves.items(), palette, strict=False):
        y = f(tau, c, m, r)
        ax.plot(tau / best(c, m), y, style, marker="", color=color, label=label)
    ax.set_xscale("log", base=2)
    ax.set(ylim=(0, 1), xlabel="τ / best τ", title=name)
axes[0].set_ylabel("goodput")
axes[0].legend(loc="lower left")
plt.show()

# %%
worst = max(abs(errors[name, 1.0]) for name in SITUATIONS)
claim("the exact formula is within 2% of virtual time in all three", worst < 2)
claim("the formula underestimates the goodput", min(bursts) > 0)
claim("in ours by less than 2%", bursts[0] < 2)
claim("in the last by more than a quarter", bursts[2] > 25)
c, m, r = SITUATIONS["C = M/2: 5 min, 10 min"]
lost = 1 - exact(young(c, m), c, m, r) / exact(best(c, m), c, m, r)
claim("that costs less than a tenth of the goodput", lost < 0.1)
claim("it predicts that nothing is left", first_order(young(c, m), c, m, r) < 0)

# %% [markdown]
# *(Figure: goodput against the interval between checkpoints, in units of the best interval, in three
# panels. In the first, both curves and the circles nearly coincide, at 0.8 to 0.9, and the squares of the
# bursts are a little higher at long intervals. In the second the first-order curve lies below the exact
# one, and the squares above it. In the third the first-order curve is below zero, outside the panel, and
# the squares are far higher, with a peak at longer intervals.)*
#
# For exponential failures the exact formula is within 2% of virtual time in all three situations. With
# bursts **the formula underestimates the goodput**: in ours by less than 2%, in the last by more than a
# quarter. With the same mean, bursts leave long quiet periods, and a second failure soon after the first
# destroys little work. For such bursts the formula is therefore a cautious estimate, as long as $M$ is
# known. (Simultaneous failures of several nodes were not simulated.)
#
# Young's *interval* is good in all three situations: even if a checkpoint takes half of $M$, that costs
# less than a tenth of the goodput. But the first-order *goodput* ignores further failures while an interval
# is repeated; in the third situation it predicts that nothing is left.
#
# ## 10.4 A test on a real Slurm cluster
#
# On a Slurm cluster with six small nodes on one machine, we recorded (`runs/10_failures.py`) a training job
# with `cluster.training.checkpoint` and four kinds of interruption. **Predict** which of the four jobs do
# *not* return to the queue automatically.

# %%
record = json.loads(pathlib.Path("runs/10_failures.json").read_text())
settings = record["settings"]
print(f"RECORDED on {record['date']}, Slurm {record['versions']['slurm']}")
NAMES = {"put back by": "requeued by", "goes on from step": "resumes from step"}
NAMES |= {"seconds until it went on": "seconds until it resumed"}
ways = pd.DataFrame(record["ways"]).set_index("interrupted").rename(columns=NAMES)
display(ways.round(1))
longest = ways["seconds until it resumed"].idxmax()
claim("a lost node takes longest", longest == "node lost")
claim("all four end bit-equal", ways["bit-equal"].all())

# %% [markdown]
# A rank that exits with an error may have a bug, and a job that is restarted with its bug would run
# forever. Slurm therefore marks it as failed, and its owner decides. After `scontrol requeue`, a preemption
# or a node failure, the job returns to the queue, and resumes after tens of seconds here. Of these, a lost
# node takes longest, because Slurm must first detect the failure. Compared with an uninterrupted run, all
# four end bit-equal.
#
# For this, a checkpoint must contain everything that the next step reads: weights, *momentum*, the state of
# the random number generator, and the position in the data. It is written to a temporary file, which is
# then renamed, so that a failure during the write leaves the previous checkpoint. The tests of this lecture
# kill such a job at 20 random moments, some during a write, and compare the bytes of the weights.
#
# Next we compare the goodput. For each of three intervals, 16 jobs of 30 s of work ran; each attempt was
# killed after a time drawn from an exponential distribution. A job waits in the queue for $D$ seconds,
# during which nothing can fail, and needs $S$ seconds to start. The exact formula becomes
#
# $$\text{goodput} = \frac{\tau}{(M + D)\,e^{S/M}\left(e^{(\tau + C)/M} - 1\right)} .$$
#
# $C$, $D$ and $S$ were measured beforehand, in jobs that failed once at a fixed moment. We chose $M$ = 25
# s, so short that $D$ is of the same order. **Guess** the goodput at the middle interval.

# %%
guess("goodput on the real Slurm, middle interval", unit="%")
mean = {name: found["mean"] for name, found in record["calibration"].items()}
print({name: round(seconds, 3) for name, seconds in mean.items()}, "s")


def with_queue(tau, C, M, D, S):
    """Goodput if a failure costs D seconds in a queue, and S to start again."""
    return tau / ((M + D) * np.exp(S / M) * np.expm1((tau + C) / M))


def together(jobs, times=4000, seed=10):
    """Goodput of equal jobs together, with its 95% bootstrap interval."""
    walls = np.array([job["end"][0] for job in jobs])
    draws = np.random.default_rng(seed).choice(walls, (times, len(walls))).sum(1)
    work = len(walls) * settings["steps"] * mean["step"]
    return work / walls.sum(), *np.percentile(work / draws, [2.5, 97.5])


# %%
rows, costs = {}, (mean["saving"], settings["mtbf"], mean["down"], mean["start"])
for key, jobs in record["runs"].items():
    tau, failures = int(key) * mean["step"], sum(len(job["failure"]) for job in jobs)
    predicted = with_queue(tau, *costs)
    goodput, low, high = together(jobs)
    rows[tau] = {"jobs": len(jobs), "failures": failures, "predicted": predicted}
    rows[tau] |= {"measured": goodput, "95% from": low, "to": high}
slurm = pd.DataFrame(rows).T.rename_axis("τ, s")
display(slurm.round(3))
compare("goodput on the real Slurm, middle interval", 100 * slurm["measured"].iloc[1])
inside = slurm["predicted"].between(slurm["95% from"], slurm["to"])
claim("all three predictions lie in the confidence intervals", inside.all())

# %% [markdown]
# All three predictions lie in the confidence intervals, but these are wide. A stronger test uses the
# moments at which the jobs were killed: given these, `run` must reproduce the wall-clock time of *each
# job*.


# %%
def replayed(job, tau):
    """Seconds of a job in virtual time, with failures when the real one was killed."""
    lives = [f - s for s, f in zip(job["start"], job["failure"], strict=False)]
    waits = iter([0.0] + [mean["down"]] * len(lives))
    draws = iter([*lives, np.inf])
    work = settings["steps"] * mean["step"]
    restart = mean["down"] + mean["start"]
    return run(work, tau, mean["saving"], restart, lambda: next(waits) + next(draws))[0]


taus = {key: int(key) * mean["step"] for key in record["runs"]}
pairs = np.array([
    (tau, job["end"][0], replayed(job, tau))
    for key, tau in taus.items() for job in record["runs"][key]
])  # fmt: skip
off = np.abs(pairs[:, 2] / pairs[:, 1] - 1)
print(f"{len(pairs)} jobs: median error {np.median(off):.1%},", end=" ")
print(f"nine of ten within {np.percentile(off, 90):.1%}")
claim("reproduces nine of ten jobs to within 2%", np.percentile(off, 90) < 0.02)

# %%
fig, ax = plt.subplots(figsize=(7, 3.8))
tau = np.geomspace(0.6, 25, 200)
ax.plot(tau, with_queue(tau, *costs), marker="", label="formula")
bars = [slurm["measured"] - slurm["95% from"], slurm["to"] - slurm["measured"]]
ax.errorbar(slurm.index, slurm["measured"], bars, fmt="s", label="real Slurm, 95%")
ax.set(xscale="log", ylim=(0, None), xlabel="interval τ (s)", ylabel="goodput")
ax.legend(loc="lower center")
plt.show()

# %% [markdown]
# *(Figure: goodput against the interval. The formula's curve has a maximum near τ = 6 s; the three measured
# values lie close to the curve, with wide confidence intervals.)*
#
# With the failures known, virtual time reproduces nine of ten jobs to within 2%: it is uncertain *when* a
# job fails, but hardly what a failure costs.
#
# ## 10.5 Resuming on another number of ranks
#
# One of four nodes is lost, or two more become free. Should the job wait for four nodes, or continue with
# the nodes it has? Continuing changes two things. **The shards**: an epoch of 1,200 images was divided
# among 4 ranks in batches of 10 and was interrupted after 12 steps. We count how often each image is seen
# in the epoch if 3 or 6 ranks resume it in three ways. **Guess** how many images are never seen if each of
# 6 ranks takes its *new* shard from step 12 on.

# %%
guess("images of 1,200 never seen by 6 ranks, new shards from step 12 on")
IMAGES, BATCH, DONE = 1_200, 10, 12
WAYS = "new shards from step 12 on", "the epoch again", "the rest, dealt again"


def seen(way, p):
    """How often each image is seen if p ranks resume the epoch of 4: (IMAGES,)."""
    parts = [shards.shard(IMAGES, r, 4)[: DONE * BATCH] for r in range(4)]
    if way == "the rest, dealt again":
        parts += [shards.shard(IMAGES, 0, 1)[4 * DONE * BATCH :]]
    else:
        first = DONE * BATCH if way == "new shards from step 12 on" else 0
        parts += [shards.shard(IMAGES, r, p)[first:] for r in range(p)]
    return np.bincount(np.concatenate(parts), minlength=IMAGES)


# %%
cases = [(way, p) for way in WAYS for p in (3, 6)]
rows = {case: np.bincount(seen(*case), minlength=3) for case in cases}
images = pd.DataFrame(rows, index=["never", "once", "twice"]).T
display(images.rename_axis(["way", "ranks"]))
never = rows[WAYS[0], 6][0]
compare("images of 1,200 never seen by 6 ranks, new shards from step 12 on", never)
whole = {way for way in WAYS if all(rows[way, p][1] == IMAGES for p in (3, 6))}
claim("only the third way is an epoch", whole == {"the rest, dealt again"})

# %% [markdown]
# Only the third way is an epoch: in 12 steps 6 ranks see more images than 4 ranks, and 3 ranks see fewer.
# The position in the data is therefore the number of images that all ranks have seen together, instead of a
# step count per rank. **The learning rate**: if the batch size per rank is kept, the global batch size
# changes, and by the linear rule the learning rate changes with it. A sudden increase needs a **warmup**
# (lecture 08), and the momentum needs its correction. Alternatively the *global* batch size is kept, with
# the same learning rate and warmup. The gradients are then equal up to rounding, but not bit-equal, because
# the order of the sums changes.
#
# Horovod Elastic, PyTorch's `torchrun` and others resume on another number of ranks without a new job;
# *Further* shows a recorded trial. Horovod's `ElasticSampler` for PyTorch also divides the rest of an epoch
# again; the learning rate is always left to the user.
#
# ## 10.6 Who runs when?
#
# A cluster has eight nodes and a queue. Jobs start in the order of their arrival. The first job that does
# not fit blocks all later ones, unless **backfill** starts those whose time limits end before the blocked
# job could start. **Preemption** takes nodes from jobs of a lower tier. These are requeued, and since they
# save checkpoints, only the rest of their work remains. Times are in minutes.


# %%
def schedule(jobs, backfill=False, preempt=False):
    """[(name, user, nodes, from, to)] of jobs, which are dictionaries: see QUEUE."""
    left, running, spans, t = [dict(job) for job in jobs], [], [], 0
    while left or running:
        for job in [job for job in running if job["from"] + job["minutes"] <= t]:
            stop(job, t, running, spans)
        blocked = None  # the minute at which the first that waits can start
        ready = [job for job in left if job["submit"] <= t]
        for job in sorted(ready, key=lambda job: (-job["tier"], job["submit"])):
            if preempt and blocked is None:
                make_room(job, t, running, left, spans)
            nodes = free(running)[: job["nodes"]]
            early = blocked is None or t + job["minutes"] <= blocked
            if len(nodes) == job["nodes"] and early:
                left.remove(job)
                running.append(job | {"places": nodes, "from": t})
            elif blocked is None:
                blocked = possible_start(job, running) if backfill else t
        t += 1
    return spans


# %%
def free(running, nodes=8):
    """The nodes that no running job has."""
    return sorted(set(range(nodes)) - {n for job in running for n in job["places"]})


def stop(job, t, running, spans):
    """End or interrupt a running job; the minutes that it still needs."""
    running.remove(job)
    spans.append((job["name"], job["user"], job["places"], job["from"], t))
    return job["from"] + job["minutes"] - t


# %%
def make_room(job, t, running, left, spans):
    """Requeue running jobs of lower tiers, if that gives `job` enough nodes."""
    lower = [other for other in running if other["tier"] < job["tier"]]
    if len(free(running)) + sum(other["nodes"] for other in lower) >= job["nodes"]:
        while len(free(running)) < job["nodes"]:
            victim = lower.pop()
            left.append(victim | {"minutes": stop(victim, t, running, spans)})


def possible_start(job, running):
    """The minute at which enough nodes are free for a job, by the others' limits."""
    nodes = len(free(running))
    for other in sorted(running, key=lambda other: other["from"] + other["minutes"]):
        nodes += other["nodes"]
        if nodes >= job["nodes"]:
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
    "backfill and preemption": schedule(jobs, backfill=True, preempt=True),
}

# %% [markdown]
# User A submits four jobs at once, one of them for the whole cluster. B submits three small ones minutes
# later, and C an urgent one after an hour. **Guess** what fraction of the node time is idle, first come,
# first served, and with backfill.

# %%
guess("idle, first come, first served", unit="%")
guess("idle, with backfill", unit="%")
WHITE = {"fc": "w", "ec": "none", "pad": 0.5}
STYLES = {"A": (palette[0], ""), "B": (palette[1], "//"), "C": (palette[2], "..")}
fig, axes = plt.subplots(3, 1, figsize=(8.4, 6.6), sharex=True)
for ax, (name, spans) in zip(axes.flat, plans.items(), strict=True):
    for job, user, places, start, end in spans:
        color, hatch = STYLES[user]
        ax.barh(places, end - start, 1, start, color=color, hatch=hatch, ec="white")
        for low in (n for n in places if n - 1 not in places):
            ax.text((start + end) / 2, low, job, ha="center", va="center", bbox=WHITE)
    ax.set(ylim=(-0.5, 7.5), title=name, ylabel="node")
axes[-1].set_xlabel("minutes")
plt.show()

# %%
rows, starts = {}, {}
for name, spans in plans.items():
    last = max(end for *_, end in spans)
    busy = sum(len(places) * (end - start) for _, _, places, start, end in spans)
    rows[name] = {"all done, min": last, "idle, %": 100 * (1 - busy / (8 * last))}
    rows[name]["urgent job done, min"] = max(s[4] for s in spans if s[0] == "c1") - 70
    starts[name] = {job: start for job, _, _, start, _ in reversed(spans)}
queue = pd.DataFrame(rows).T
display(queue.round(1))
first, filled, cut = plans
compare("idle, first come, first served", queue.loc[first, "idle, %"])
compare("idle, with backfill", queue.loc[filled, "idle, %"])
earlier = all(starts[filled][job] <= start for job, start in starts[first].items())
claim("no job starts later than without it", earlier)
claim("the urgent job starts at once", starts[cut]["c1"] == 70)

# %% [markdown]
# *(Figure: three schedules, nodes against minutes, with a box per job, or several if its nodes are not
# neighbours. Colours and hatching distinguish the users. First come, first served leaves nodes idle before
# the job that needs all eight. With backfill, B's small jobs fill this gap. With preemption C's job starts
# at minute 70, and the jobs that it interrupts continue later.)*
#
# In this queue backfill is free: no job starts later than without it. (Only the first blocked job has a
# reservation, so in other queues a later job can be delayed.) With preemption the urgent job starts at
# once. That is cheap only if preempted jobs save checkpoints: the lost work is that of 10.2, with an $M$
# that other users determine. Time limits matter for backfill: a job that requests more time than it needs
# does not fit into gaps. **Fair share** changes the order of the queue according to each user's past usage.
#
# Distributed training needs *all* its nodes at once: the job must be **co-scheduled**. If two jobs each
# request 6 of 8 nodes and a scheduler places one process at a time, both can end up with 4 nodes, and wait
# forever. Slurm allocates all nodes of a job at once. By default, Kubernetes places one pod at a time.
# Co-scheduling needs an add-on such as Kueue or the scheduler's own gang scheduling (KEP-4671; beta since
# 1.37). Kueue's "all or none" refers to quota and needs `waitForPodsReady` to exclude this deadlock.
# *Further* contains the job of lecture 05 as a Kubernetes manifest, and the placement of nodes in a
# network.
#
# ## 10.7 ImageNet in 15 minutes, on paper
#
# How efficient were the runs of Goyal (256 GPUs), Akiba (1,024), Mikami (1,088), PFDet (512) and Horovod
# (512)? One model predicts all of them: a single GPU processes $f$ images per second, *as published
# elsewhere*, and an all-reduce takes the time of lecture 06's formula for a hierarchy, with the paper's
# gradient size and network. The papers do not state how much of it overlaps with the backward pass. The
# prediction is therefore an *interval*, from no overlap to all that fits behind two thirds of the
# computation.
#
# **An efficiency is a ratio, so we need its baseline.** Goyal's 90% compares 256 GPUs with one server of
# 8. Akiba's 80% compares 1,024 GPUs with one node of 8, and 70% with one GPU (Tokui et al. 2019).
# Horovod's figures compare with one GPU. For Mikami and PFDet we assume one node. We divide by the
# model's own prediction for the paper's baseline.

# %%
# Images/s of one GPU in training; two for ResNet-50, P100 with batch 64 for the others.
ONE_GPU = {"P100, batch 32": 195, "V100": 2886.9 / 3.86}
ONE_GPU |= {"Inception V3": 142, "VGG-16": 154}
# ResNet-101: between ResNet-50 and ResNet-152, by their 10⁹ multiply-adds
ONE_GPU["ResNet-101"] = 1 / np.interp(7.6, [3.9, 11.3], [1 / 219, 1 / 91.8])
WEIGHTS = {"ResNet-50": 25_583_592, "Inception V3": 23_851_784}
WEIGHTS |= {"ResNet-101": 44_707_176, "VGG-16": 138_357_544}
# GPUs: all, of a node, of the baseline; images per GPU; bytes per weight; network card:
# GB/s, α in µs; GB/s inside a node; the paper's own efficiency
PAPERS = """
paper; p; q; base; batch; GPU; network; bytes; card; alpha; inside; own
Goyal, against a server; 256; 8; 8; 32; P100, batch 32; ResNet-50; 4; 6.25; 20; 20; 0.90
Akiba, against a node; 1024; 8; 8; 32; P100, batch 32; ResNet-50; 2; 14; 5; 10; 0.80
Akiba, against a GPU; 1024; 8; 1; 32; P100, batch 32; ResNet-50; 2; 14; 5; 10; 0.70
Mikami, against a node; 1088; 4; 4; 32; V100; ResNet-50; 2; 25; 5; 25; 0.9162
Horovod, Inception V3; 512; 4; 1; 64; Inception V3; Inception V3; 4; 3.125; 5; 10; 0.90
Horovod, ResNet-101; 512; 4; 1; 64; ResNet-101; ResNet-101; 4; 3.125; 5; 10; 0.90
Horovod, VGG-16; 512; 4; 1; 64; VGG-16; VGG-16; 4; 3.125; 5; 10; 0.68
"""
papers = pd.read_csv(io.StringIO(PAPERS), sep=r"\s*;\s*", engine="python", index_col=0)

# %% [markdown]
# Goyal and Akiba used a batch size of 32 per GPU, and Akiba sent gradients in half precision. For Mikami we
# assume both, and for all papers the latencies and the bandwidth inside a node. PFDet reports no
# throughput: from its 33 hours for 16 epochs of 1.7 million images with a global batch size of 512, and its
# efficiency, we get the seconds of a step; we assume a gradient of 100 million numbers. **Guess** the
# predicted efficiency of Akiba's 1,024 GPUs against one GPU without any overlap.

# %%
guess("Akiba against one GPU: efficiency without overlap", unit="%")


def allreduce(p, q, size, card, alpha, inside):
    """Seconds by lecture 06's formula: p GPUs, q per node, bytes; GB/s, µs, GB/s."""
    node = {"inside_latency": 2e-6, "inside_time_per_byte": 1e-9 / inside}
    network = Hierarchy(alpha * 1e-6, 1e-9 / card, ranks_per_node=q, **node)
    return closed_forms.hierarchical(p, size, network)


def efficiency(step, p, q, base, *link):
    """Against the baseline, without overlap and with the most that fits."""
    comm, own = (allreduce(n, min(q, n), *link) if n > 1 else 0.0 for n in (p, base))
    hidden = max(step, step / 3 + own) / max(step, step / 3 + comm)
    return {"no overlap": (step + own) / (step + comm), "overlap": hidden}


# %%
rows = {}
for name, x in papers.iterrows():
    link = x.bytes * WEIGHTS[x.network], x.card, x.alpha, x.inside
    rows[name] = efficiency(x.batch / ONE_GPU[x.GPU], x.p, x.q, x.base, *link)
pfdet = 33 * HOUR / (16 * 1.7e6 / 512)  # seconds of a step on 512 GPUs
rows["PFDet, against a node"] = efficiency(0.83 * pfdet, 512, 8, 8, 4e8, 25, 5, 10)
paper = pd.DataFrame(rows).T
paper["own"] = papers["own"].reindex(paper.index).fillna(0.83)
display(paper.round(2))
without = 100 * paper.loc["Akiba, against a GPU", "no overlap"]
compare("Akiba against one GPU: efficiency without overlap", without)

# %%
fig, ax = plt.subplots(figsize=(8.4, 4.2))
width = paper["overlap"] - paper["no overlap"]
bars = {"left": paper["no overlap"], "color": "0.85", "hatch": "//", "ec": "0.5"}
ax.barh(paper.index, width, 0.5, **bars, label="predicted: no overlap to full overlap")
ax.plot(paper["own"], paper.index, "o", color=palette[0], label="published")
ax.invert_yaxis()
ax.set(xlim=(0, 1.05), xlabel="efficiency against the baseline")
ax.legend(loc="lower left")
plt.show()
below = set(paper.index[paper["own"] < paper["no overlap"]])
hits = paper["own"].between(paper["no overlap"], paper["overlap"]).sum()
claim("five of the eight lie in the predicted intervals", hits == 5)
akiba_pfdet = {"Akiba, against a node", "Akiba, against a GPU", "PFDet, against a node"}
claim("Akiba's two and PFDet's lie below theirs", below == akiba_pfdet)

# %% [markdown]
# *(Figure: a row per published efficiency, with the predicted interval as a hatched bar and the published
# value as a dot. Five dots lie in their bars, the one of VGG-16 far to the left of the others. The dots of
# Akiba and PFDet lie 0.15 to 0.2 to the left of their bars.)*
#
# Five of the eight lie in the predicted intervals. For four of these the interval is wide, and a constant
# 0.9 would predict as well; VGG-16, whose gradient is the largest, is the real test. Akiba's two and
# PFDet's lie below theirs: even without any overlap the bandwidth model predicts more. What does the model
# miss? For Akiba, the two baselines give the speed of a GPU alone, in a node and among all. **Guess** how
# many images per second each of the 1,024 GPUs processed, if 195 are published for a single P100.

# %%
guess("images per second of each of Akiba's 1,024 GPUs")
TRAIN = 1_281_167  # images
rate = 90 * TRAIN / (15 * MINUTE) / 1024
steps = {"a P100, published": ONE_GPU["P100, batch 32"]}
steps["their P100 alone"] = rate / 0.70
steps["in a node of 8"] = rate / 0.80
steps["among 1,024"] = rate
compare("images per second of each of Akiba's 1,024 GPUs", rate)
fig, ax = plt.subplots(figsize=(8.4, 3.4))
ax.bar(steps.keys(), steps.values(), 0.6, color=[palette[1], *[palette[0]] * 3])
ax.bar_label(ax.containers[0], [f"{v:.0f}" for v in steps.values()])
ax.set(ylabel="images/s of one GPU", ylim=(0, 230))
plt.show()
published, alone, node, many = steps.values()
scaling = (alone - many) / (published - many)
network = 1 - paper.loc["Akiba, against a GPU", "no overlap"]
claim("three quarters of the missing third are lost to scaling", 0.7 < scaling < 0.8)
claim("the bandwidth model predicts at most a tenth", network < 0.1)

# %% [markdown]
# *(Figure: four bars of images per second of one GPU: 195 for a published P100, 179 for theirs alone, 156
# in a node of 8, and 125 among 1,024. The last is from the paper; the second and third are this value
# divided by the efficiencies 0.70 and 0.80.)*
#
# Each of the 1,024 GPUs processed two thirds of the published 195 images per second. A small part is lost
# on a single GPU; three quarters of the missing third are lost to scaling, inside the nodes and between
# them. Relative to one of their GPUs the loss is 30%; without any overlap the bandwidth model predicts at
# most a tenth.
#
# One loss that grows with $p$ is not in the model: a step ends with the *slowest* rank. How large would the
# differences between ranks have to be?

# %%
normal = np.random.default_rng(10).standard_normal
late = {p: normal((2000, p)).max(1).mean() for p in (8, 1024)}
more = paper["no overlap"].iloc[1] / 0.80  # (1 + late[1024] σ) / (1 + late[8] σ)
sigma = (more - 1) / (late[1024] - more * late[8])
print(f"steps take {more:.2f} times the prediction: a deviation of {sigma:.1%}")
claim("a standard deviation of more than a tenth of a step", 0.1 < sigma < 0.15)
flops = 3 * 2 * 3.9e9 * rate  # forward and backward
print(f"MFU of a P100 on PCIe (9.3 TFLOP/s): {flops / 9.3e12:.0%}")

# %% [markdown]
# A step of 1,024 ranks waits longer for its slowest rank than a step of 8, the baseline. To explain Akiba's
# loss between nodes, step times would need a standard deviation of more than a tenth of a step. This is
# large, and the paper does not report it, so it remains an estimate.
#
# The last line is the number that is compared today, the **model FLOP utilisation** (MFU): the arithmetic
# that the model needs, divided by the GPUs' peak. MFU shows how well a running job uses its GPUs; goodput
# shows how much of the time it does useful work. Their product is the fraction of the machine that is used.
#
# ## What was learned
#
# 1. Goodput follows from $C$, $M$ and $R$. $\sqrt{2CM}$ is almost always a good interval. The exact formula
#    is cautious if failures come in bursts.
# 2. For injected failures on a real Slurm cluster, virtual time reproduces the wall-clock times of nine of
#    ten jobs. $R$ includes the time to detect a failure and to requeue the job.
# 3. A checkpoint contains everything that the next step reads. On another number of ranks, the shards
#    change, and either the learning rate changes or the global batch size is kept.
# 4. Backfill fills gaps, fair share reorders the queue, and preemption interrupts jobs; distributed
#    training needs co-scheduling.
# 5. A bandwidth model explains why VGG-16 scales badly, and does not explain what the largest runs lost. An
#    efficiency means nothing without its baseline.
#
# **Today.** Large training runs detect hangs by timeouts of their collectives (NCCL's watchdog and flight
# recorder in PyTorch), run health checks before each start, keep spare nodes, and restart within minutes.
# Checkpoints are sharded, asynchronous, and kept in the memory of neighbouring nodes. MPI, and so Horovod
# without Elastic, still ends all ranks when one fails. Operators report goodput and MFU. The analysis by
# $C$, $M$ and $R$ carries over.
#
# **Next.** **[11](11_when_the_model_does_not_fit.ipynb)** trains models that do not fit into one GPU.
# Assignment 10, *Time to accuracy*, is the capstone: reach a given accuracy on a given machine at the
# lowest cost, and resume from a checkpoint after failures. It builds on **[05](05_why_distribute.ipynb)**
# (Slurm), **[06](06_all_reduce.ipynb)** (the formulas of 10.7), **[08](08_large_batches.ipynb)** (warmup)
# and **[09](09_asynchronous_sgd.ipynb)** (slow workers).
#
# ## Further
#
# Nothing in the course requires this section.
#
# ### Exercises
#
# 1. A training run has $M$ = 3 h and $R$ = 5 min. How small must $C$ be for a goodput of 95%? Use Young's
#    formula.
#
# <details><summary>Answer</summary>
#
# Restarts cost $R/M$ = 2.8%, so $\sqrt{2C/M} \le 2.2\%$, and $C \le 0.022^2 \cdot 10{,}800/2$ = 2.6 s.
#
# </details>
#
# 2. 100,000 GPUs at Llama 3's rate: what is $M$, and which of $C$ = 30 s and $R$ = 5 min would you halve?
#
# <details><summary>Answer</summary>
#
# $M$ = 50,677 h / 100,000 = 0.51 h = 30 min. $\sqrt{2C/M}$ = 18% and $R/M$ = 16%. Halving $C$ saves 5
# percentage points, halving $R$ saves 8, so halve the restart time.
#
# </details>
#
# 3. A paper reports 95% efficiency from 64 to 512 GPUs, another 85% from 1 to 512. Which system is better?
#
# <details><summary>Answer</summary>
#
# The two numbers do not show this. The first system may have lost 20% between 1 and 64 GPUs. Ask for the
# images per second of one GPU, and for MFU.
#
# </details>
#
# ### Elastic training
#
# **Horovod Elastic** (2020) promises to do all this without a restart: after a failure, the remaining
# workers return to the last `commit()` in memory, new workers receive the state, and all continue with a
# different `hvd.size()`. We recorded two workers. One is killed at step 20, and another host is added at
# step 50. Each step adds 1 to a weight, so the weight must equal the step.

# %%
elastic = json.loads(pathlib.Path("runs/10_elastic.json").read_text())
fig, axes = plt.subplots(2, 1, figsize=(8.4, 4.2), sharex=True)
for ax, kind in zip(axes, ("TensorFlowState", "ObjectState"), strict=True):
    trial, notes = elastic[kind], pd.DataFrame(elastic[kind]["notes"])
    steps = notes.dropna(subset="step")
    for size, color in {2: palette[0], 1: palette[1]}.items():
        some, label = steps[steps["size"] == size], f"a step with hvd.size() {size}"
        ax.plot(some["time"], some["worker"], "|", ms=14, color=color, label=label)
    starts = notes[notes["event"] == "begins"]
    x, y = starts["time"], starts["worker"]
    ax.plot(x, y, ">", color="0.3", mfc="w", label="worker starts")
    for event, style in (("killed", "-"), ("added", ":")):
        label = "worker killed" if event == "killed" else "host added"
        ax.axvline(trial[event], color="0.4", lw=1, ls=style, marker="", label=label)
    ax.set(yticks=[0, 1, 2], ylim=(-0.6, 2.6), ylabel="worker", title=kind)
    wrong = (steps["w"] != steps["step"]).sum()
    print(f"RECORDED: {kind}: last step {steps['step'].max():.0f} of 120, {wrong} wrong weights")
axes[1].set_xlabel("time (s)")
axes[0].legend(ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.15), fontsize=8)
plt.show()

# %%
claim("with `ObjectState` the training ends", elastic["ObjectState"]["code"] == 0)
waits = elastic["TensorFlowState"]["code"] is None
claim("with `TensorFlowState` all workers wait until the trial is stopped", waits)
print("with a Keras 3 model:", elastic["TensorFlowKerasState"])

# %% [markdown]
# *(Figure: two trials, with a row per worker over time and a tick per step. In both, two workers step
# together until one is killed; the other continues alone almost at once. Some time after a host is added,
# the steps stop and a third worker starts. Above, no step follows; below, two workers step together to the
# end.)*
#
# For the lost worker the promise holds: it costs seconds, and only uncommitted steps are repeated. For the
# new worker it depends on the kind of state: with `ObjectState` the training ends; with `TensorFlowState`
# all workers wait until the trial is stopped. `TensorFlowState` broadcasts its variables when it is
# *created*, and the old workers created theirs long before. (Horovod 0.28.1 with TensorFlow 2; its Keras
# state fails with Keras 3.)
#
# ### Feeding the GPUs
#
# An epoch of ImageNet is 1,281,167 files of about 110 kB. We take the epoch times of three papers, and a
# file system that delivers 10 GB/s and opens 50,000 files per second (both assumptions).

# %%
KB = 110e3  # bytes of an image, about
RUNS = {"Goyal: 256 GPUs, 1 h": 3600, "Akiba: 1,024, 15 min": 900}
RUNS["Mikami: 2,176, 224 s"] = 224
storage = pd.DataFrame({"images/s": {name: 90 * TRAIN / t for name, t in RUNS.items()}})
storage["of 10 GB/s"] = storage["images/s"] * KB / 10e9
storage["of 50,000 opens/s"] = storage["images/s"] / 50_000
display(storage.round(2))
once, sent = TRAIN * KB / 10e9, TRAIN * KB / 14e9  # s; 14 GB/s: Akiba's network
print(f"read once {once:.0f} s, pipelined broadcast {sent:.0f} s,", end=" ")
print(f"read by each of 128 nodes {128 * once / MINUTE:.0f} min")
above = (storage[["of 10 GB/s", "of 50,000 opens/s"]] > 1).to_numpy()
claim("the other two exceed both", above[1:].all() and not above[0].any())
claim("that takes longer than the training", 128 * once > 15 * MINUTE)

# %% [markdown]
# With these assumptions opening files is always the tighter limit, since 10 GB/s are 91,000 images per
# second. Goyal's run meets neither limit, the other two exceed both. Therefore images are packed into few
# large files and copied once to the nodes (*staging*). If each of 128 nodes reads everything itself, that
# takes longer than the training. If it is read once and passed on in a pipelined broadcast (lecture 06),
# seconds suffice. Alternatively each node holds a part, about a gigabyte. The shuffle (lecture 07) then
# mixes only within a node, and the parts must be redistributed from time to time.
#
# ### Where the nodes are
#
# The network of MN-1, Akiba's cluster, is a *thin* tree: there is more bandwidth within a group of nodes
# than between groups. Take 64 nodes in groups of 8, with uplinks only twice as fast as one node's link, and
# a ring all-reduce of 100 MB on 16 of them.


# %%
from cluster.network import Group, Placeholder, Tree, simulate


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
PLACES = {"two groups, in order": list(range(16))}
PLACES |= {"two groups, any order": rng.permutation(16).tolist()}
PLACES |= {"scattered, in order": scattered}
PLACES |= {"scattered, any order": rng.permutation(scattered).tolist()}
for name, places in PLACES.items():
    seconds = simulate(ring, 100e6, places, ranks=64, network=thin, record=False).time
    print(f"{name:22} {seconds * 1e3:5.1f} ms")

# %% [markdown]
# A ring in order crosses each group's border once, so even scattered nodes are as fast. In random order its
# messages compete for the uplinks. Slurm knows the tree (`topology.conf`) and prefers nodes with few
# switches between them; `--switches=1` makes a job wait for them, for five minutes by default. The
# communication library decides which ranks are neighbours.
#
# ### The job of lecture 05 on Kubernetes

# %%
print(pathlib.Path("runs/10_kubernetes.yaml").read_text().split("---\n")[1])
manifest = json.loads(pathlib.Path("runs/10_manifest.json").read_text())
verdicts = [v["error"] for v in manifest["verdicts"] if v["kind"] == "Job"]
print(f"schemas of Kubernetes {manifest['versions']['kubernetes']}:", end=" ")
print("accepted" if verdicts[0] is None else verdicts[0], end="; ")
print(f"{sum(e is not None for e in verdicts[1:])} of {len(verdicts) - 1} faulty variants rejected")

# %% [markdown]
# The manifest was checked against Kubernetes' schemas and **never run**. `suspend` and the label leave
# admission to Kueue. `podFailurePolicy` distinguishes an error from a preemption, as in 10.4. With Slurm,
# `srun` starts the ranks and lets them find each other; here `start_ranks.py` must do that. Restarting one
# pod while the others hang in an all-reduce is the open question "MPI with Kubernetes" of Asai and Fukuda;
# the usual answer is an operator that runs `mpirun` (MPIJob), or a framework with its own rendezvous.
#
# ### The same job in other frameworks
#
# | | ranks find each other | gradients are averaged | each rank's part of the data |
# |---|---|---|---|
# | Horovod | `hvd.init()` | `hvd.DistributedGradientTape(tape)` | by hand |
# | tf.distribute | `TF_CONFIG` | `MultiWorkerMirroredStrategy()` | `experimental_distribute_dataset` |
# | PyTorch DDP | `torchrun` | `DistributedDataParallel(model)` | `DistributedSampler` |
# | PyTorch FSDP | the same | `fully_shard(model)`: weights are sharded, too (lecture 11) | the same |
# | JAX | `jax.distributed.initialize()` | `jit` of arrays with a `NamedSharding` | by hand |
#
# All of them do what lecture 07 does: one program per rank, an all-reduce of the gradients, a shard per
# rank. They differ in what inserts the communication: a tape, a scope, hooks on the backward pass or a
# compiler.
#
# ### Terms
#
# **Backfill**: starting later jobs that end before the first blocked job can start. **Co-scheduling**:
# giving a job all its nodes at once. **Goodput**: fraction of the time spent on work that is not lost.
# **MFU**: model FLOP utilisation. **Preemption**: taking nodes from a running job. **Staging**: copying
# data to the nodes before a job.
#
# ### Sources
#
# - Young 1974, *A first order approximation to the optimum checkpoint interval*, CACM 17; Daly 2006, *A
#   higher order estimate of the optimum checkpoint interval for restart dumps*, FGCS 22 (equations and
#   figures 3 to 5): 10.2
# - Llama team 2024, *The Llama 3 herd of models*, arXiv 2407.21783, section 3.3; Kokolis et al. 2025,
#   *Revisiting reliability in large-scale machine learning research clusters*, arXiv 2410.21680; both read
#   in secondary texts: 10.1, 10.2
# - Horovod's documentation, *Elastic Horovod* and *Benchmarks*: 10.7, *Further*
# - Slurm's documentation on preemption, backfill and topology; Kubernetes' on indexed Jobs, pod failure
#   policies and gang scheduling (KEP-4671); Kueue's on `waitForPodsReady`: 10.6
# - Goyal et al. 2017, [1706.02677](https://arxiv.org/abs/1706.02677), sections 4 and 5; Akiba et al. 2017,
#   [1711.04325](https://arxiv.org/abs/1711.04325), abstract and section 4; Tokui et al. 2019, *Chainer: a
#   deep learning framework for accelerating the research cycle*,
#   [1908.00213](https://arxiv.org/abs/1908.00213), section 6.4; Mikami et al. 2018,
#   [1811.05233v1](https://arxiv.org/abs/1811.05233v1); Akiba et al. 2018, *PFDet*,
#   [1809.00778](https://arxiv.org/abs/1809.00778): 10.7, *Further*
# - TensorFlow, *Benchmarks* (May 2017); NVIDIA, *DeepLearningExamples*, ResNet-50 for PyTorch (June 2019):
#   single GPUs of 10.7
# - Asai and Fukuda (PFN), *Large scale deep learning in PFN: from 15-min ImageNet to PFDet*: the questions
#   of 10.4 to 10.6 and of *Further*
