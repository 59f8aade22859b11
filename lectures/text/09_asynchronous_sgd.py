# %% [markdown]
# # 9 · Asynchronous SGD and performance models
#
# **If no rank waits for another, is training faster?**
#
# In lecture [07](07_data_parallel_training.ipynb) all ranks wait for the slowest one, in every step. The
# alternative is not to wait: each worker applies its gradient as soon as it is computed. DistBelief (Dean
# et al. 2012) and SPRINT on the supercomputer TSUBAME (Oyama et al. 2016) trained like this. SPRINT's
# authors also did something that is still rare: they *predicted* statistics of their runs, and published
# the errors. In this lecture you will
#
# 1. define **staleness**, and derive its mean and its distribution;
# 2. predict both for a run on real ranks with a short **discrete-event simulation**, and find where the
#    prediction fails;
# 3. measure what stale gradients cost, and what helps;
# 4. avoid stragglers without staleness, with **backup workers**;
# 5. compare the three ways in four scenarios, each at its own best learning rate;
# 6. fit a **performance model** to a few runs and test it on others.
#
# Notation: $p$ ranks or workers, $n$ images per worker, $\eta$ the learning rate, $\alpha$ and $\beta$ the
# seconds per message and per byte, $s$ the staleness.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(threads=1, tensorflow=False)

# %%
import heapq
import importlib.util
import json
import math
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display

# %% [markdown]
# ## 9.1 What waiting costs
#
# Suppose a gradient takes about 60 ms. The logarithm of the time has a standard deviation of 0.3, and one
# gradient in twenty is a **straggler** that takes four times as long (because of another job on the node, a
# slow disk, or a garbage collector). Even without communication, a synchronous step of $p$ workers takes
# the *largest* of $p$ such times. **Guess** what percentage of the time 8 workers wait.

# %%
MEDIAN, SPREAD = 0.060, 0.3  # s, and the standard deviation of its logarithm
EQUAL, STRAGGLERS = {}, {"odds": 0.05, "late": 4.0}


def seconds_of(scenario, seed=0):
    """draw(worker): how long its next gradient takes, in s."""
    rng = np.random.default_rng([9, seed])

    def draw(worker):
        slow = scenario["factor"] if worker < scenario.get("slow", 0) else 1
        late = scenario["late"] if rng.random() < scenario.get("odds", 0) else 1
        return MEDIAN * slow * late * math.exp(SPREAD * rng.standard_normal())

    return draw


# %%
guess("8 workers wait, of their time", None, "%")
waits, share = {}, {}
for name, scenario in {"equal": EQUAL, "stragglers": STRAGGLERS}.items():
    for p in (8, 100):
        draw = seconds_of(scenario)
        steps = np.array([[draw(w) for w in range(p)] for _ in range(1000)])  # s
        waits[name, p] = steps.max(1).mean() - steps.mean()  # s per step
        share[name, p] = 100 * waits[name, p] / steps.max(1).mean()
        print(f"{name}, {p} workers: waiting {share[name, p]:.0f}% of the time")
compare("8 workers wait, of their time", share["stragglers", 8])
claim("more than half of the time is spent waiting", share["stragglers", 8] > 50)
rest = waits["equal", 8] / waits["stragglers", 8]
claim("about two fifths of that waiting remains without stragglers", 0.35 < rest < 0.47)

# %% [markdown]
# With 8 workers more than half of the time is spent waiting, and about two fifths of that waiting remains
# without stragglers: the largest of eight ordinary times is long, too. Stragglers affect $1 - 0.95^8$ = 34%
# of the steps of 8 workers, and nearly every step of 100. This is the argument for asynchrony.
#
# ## 9.2 Staleness
#
# A *parameter server* holds the weights $W$. A worker reads them, computes a gradient, and sends it. The
# server applies it at once and returns the new weights, to this worker only. Meanwhile other workers have
# changed the weights. The gradient is therefore applied to weights other than those it was computed from:
#
# $$W(t+1) = W(t) - \eta \sum_n \frac{\partial J(x_n; W(t-s))}{\partial W} .$$
#
# This update is from Sato's slides (2017). The number of updates between reading and applying, $s$, is
# the **staleness** of the gradient; with $s = 0$ it is SGD. Updates come faster, but their gradients
# belong to older weights.
#
# A **discrete-event simulation** yields $s$. A queue contains the time at which each worker's gradient will
# be ready. In a loop, we take the earliest, count an update, and insert that worker's next time.


# %%
def parameter_server(draw, workers, updates, service=0.0):
    """Updates: rows (s, worker, staleness); draw(worker) and service in s."""
    read, free, rows = [0] * workers, 0.0, []
    queue = [(draw(worker), worker) for worker in range(workers)]
    heapq.heapify(queue)
    for version in range(updates):
        ready, worker = heapq.heappop(queue)
        free = max(free, ready) + service  # the server takes one after the other
        rows.append((free, worker, version - read[worker]))
        read[worker] = version + 1  # and sends the new weights back
        heapq.heappush(queue, (free + draw(worker), worker))
    return np.array(rows)


# %% [markdown]
# **Guess** the *mean* staleness of 8 equal workers and, if two of the eight are three times as slow, the
# mean over all gradients.

# %%
guess("mean staleness, 8 equal workers", None)
guess("mean staleness, 8 workers, 2 slow", None)
SLOW = {"slow": 2, "factor": 3.0}
rows = {"equal": parameter_server(seconds_of(EQUAL), 8, 20_000)}
rows["2 slow"] = parameter_server(seconds_of(SLOW), 8, 20_000)
of_slow = rows["2 slow"][rows["2 slow"][:, 1] < 2, 2].mean()
compare("mean staleness, 8 equal workers", rows["equal"][:, 2].mean())
compare("mean staleness, 8 workers, 2 slow", rows["2 slow"][:, 2].mean())
print(f"mean of the slow workers {of_slow:.1f}")
means = [found[:, 2].mean() for found in rows.values()]
claim("the mean is the same", abs(means[0] - means[1]) < 0.1)
claim("more than twice the mean", of_slow > 14)

# %% [markdown]
# The mean is the same, 7, for a simple reason. Between two of its own updates a worker sees $s$ updates of
# others. Its values of $s + 1$, summed over its gradients, are *all* updates of the run. Summing over the
# $p$ workers and dividing by the number of updates gives
#
# $$\bar s + 1 = p .$$
#
# **The mean staleness of a parameter server is $p - 1$**, whatever the speeds, if each worker reads the
# weights right after its update. Slow workers change the *distribution*: their gradients are rare, and have
# more than twice the mean staleness.
#
# ## 9.3 The simulation against real ranks
#
# A recorded run (`runs/09_asynchronous.py`) has a server and up to eight workers, as MPI processes that
# train a small network on Fashion-MNIST. Two cores cannot compute for eight workers at once. A worker
# therefore computes its real gradient in less than a millisecond, and then sleeps until the drawn time is
# over. Since the simulation draws from the same distribution, this tests the effects that it *leaves out*:
# messages, the queue at the server, and the operating system. In a fourth job the workers do not sleep. We
# compare distributions of staleness by the Kolmogorov–Smirnov (KS) distance, the largest vertical gap
# between two cumulative distributions (0: equal, 1: disjoint). **Predict** which of the four jobs the
# simulation gets wrong.

# %%
record = json.loads(pathlib.Path("runs/09_asynchronous.json").read_text())
jobs = {job["scenario"]["name"]: job for job in record["jobs"]}


def distance(a, b):
    """Kolmogorov–Smirnov: the largest gap of two samples' cumulative distributions."""
    at = np.union1d(a, b)
    a, b = (np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (a, b))
    return np.abs(a - b).max()


# %%
SERVED = ["4 workers", "8 workers", "8 workers, 2 slow", "8 workers that never wait"]
fig, axes = plt.subplots(1, 4, figsize=(11, 3), sharey=True)
gaps = []
for ax, name in zip(axes, SERVED, strict=True):
    scenario = jobs[name]["scenario"]
    real = np.array([row[2][0] for row in jobs[name]["rows"]])
    draw = seconds_of(scenario)
    simulated = parameter_server(draw, scenario["workers"], 20_000)[:, 2]
    wide = {"color": palette[0], "lw": 4, "alpha": 0.5, "ls": "-", "label": "recorded"}
    thin = {"color": "black", "lw": 1.2, "ls": "--", "label": "simulated"}
    for values, style in ((real, wide), (simulated, thin)):
        height = np.linspace(0, 1, len(values))
        ax.step(np.sort(values), height, where="post", marker="", **style)
    ax.set(xlabel="staleness (updates)", xlim=(-0.5, 30))
    ax.set_title(name, fontsize=9)
    gaps.append(distance(real, simulated))
axes[0].set_ylabel("fraction of gradients")
axes[0].legend(fontsize=8, loc="lower right")
plt.show()

# %%
ends = np.array([row[0] for row in jobs[SERVED[3]]["rows"]])
half = len(ends) // 2
service = (ends[half] - ends[0]) / half  # s per update, from the first half
short = seconds_of(EQUAL)  # of 0.3 ms instead of 60
queued = parameter_server(lambda w: short(w) / 200, 8, 5_000, service)[:, 2]
free = parameter_server(lambda w: short(w) / 200, 8, 5_000)[:, 2]
last, without = distance(real[half:], queued), distance(real[half:], free)
print("KS distances:", np.round(gaps, 3), f"no queue {without:.3f}, queue {last:.3f}")
claim("within 0.03 in the first three", max(gaps[:3]) < 0.03)
claim("wrong in the fourth, by more than 0.3", gaps[3] > 0.3)
claim("Without it the distance stays above 0.3", without > 0.3 > 0.05 > last)

# %% [markdown]
# *(Figure: four cumulative distributions of staleness, recorded as a broad line and simulated as a dashed
# line. In the first three the lines coincide: they are steep around 3 and around 7, and with two slow
# workers have a long tail to 30 and more. In the fourth the recorded line is a single step at 7.)*
#
# The simulation agrees to within 0.03 in the first three jobs: compared with 60 ms, messages hardly matter.
# It is wrong in the fourth, by more than 0.3. There a gradient takes a fraction of a millisecond, all
# workers wait in the *queue of the server*, and each sees exactly seven updates of others: the mean
# staleness is still 7, but it no longer varies. The simulation also assumed gradients of 60 ms. With random
# times around 0.3 ms, and a queue whose service time is measured in the first half of the record, it
# predicts the second half to within 0.05. Without it the distance stays above 0.3, so the cause is the
# queue, and not the speed of the gradients. (A server that is spread over many machines shortens the
# queue.)
#
# ## 9.4 SPRINT: asynchronous without a server
#
# SPRINT exchanges gradients by an asynchronous all-reduce. Sato's slides give no details, so we build the
# most direct form. Each rank adds its gradients to a buffer. At the same time, a thread of each rank
# empties the buffer, sums its content over all ranks with an **all-reduce**, updates the weights, and
# starts the next round. Three quantities are now random: the time of a pass through the data (a *sweep*),
# the *batch size* of an update, and the staleness. Let a round take $T$ seconds and a gradient $d$ on
# average.


# %%
def all_reduce_rounds(draw, workers, updates, period):
    """For each update, one per round of `period` s, the staleness of its gradients."""
    found = [[] for _ in range(updates)]
    for worker in range(workers):
        now = 0.0
        while True:
            read = int(now // period)  # updates made by now
            now += draw(worker)
            takes = math.ceil(now / period)  # the first round that begins after that
            if takes >= updates:
                break
            found[takes].append(takes - read)
    return found


# %% [markdown]
# In the recorded run a thread of each rank calls MPI's `Iallreduce` and waits another 20 ms per round, as
# on a slow network. We take the time of a round from the *first* 100 rounds and predict the others.
# **Guess** the mean staleness for $d = 2.8\,T$ on 8 ranks.

# %%
guess("mean staleness, all-reduce, 8 ranks", None)
rows = {}
for p in (4, 8):
    job = jobs[f"all-reduce, {p} ranks"]
    ends = np.array([row[0] for row in job["rows"]])
    period = (ends[100] - ends[0]) / 100
    real = [[s for of_rank in row[1] for s in of_rank] for row in job["rows"]][101:]
    simulated = all_reduce_rounds(seconds_of(EQUAL), p, 5_000, period)[20:]
    took = (ends[-1] - ends[100]) / len(real)
    for who, lists, t in (("recorded", real, took), ("simulated", simulated, period)):
        batch = np.mean([len(one) for one in lists])
        rows[p, who] = {"sweep / s": 12_288 / 32 / batch * t, "gradients": batch}
        rows[p, who]["staleness"] = np.mean([s for one in lists for s in one])
table = pd.DataFrame(rows).T.rename_axis(["ranks", ""])
display(table.round(2))
compare("mean staleness, all-reduce, 8 ranks", rows[8, "recorded"]["staleness"])
off = (table.xs("simulated", level=1) / table.xs("recorded", level=1) - 1).abs()
ratio = rows[8, "recorded"]["staleness"] / rows[4, "recorded"]["staleness"]
claim("does not grow with the number of ranks", ratio < 1.05)
claim("all three within 2%", off.to_numpy().max() < 0.02)

# %% [markdown]
# Here staleness does not grow with the number of ranks: a gradient starts at a random moment of a round, so
# its mean staleness is $d/T + 1$. The batch size grows instead. Asynchronous all-reduce turns more ranks
# into larger batches, the topic of lecture [08](08_large_batches.ipynb). And a faster network (smaller $T$)
# means *more* staleness.
#
# The simulation predicts all three within 2%. Oyama et al. report mean errors of 5% for the sweep, 9% for
# the batch size and 19% for the staleness. This does not make our model better: we knew how long a gradient
# takes because we drew it, and measured the round on the same machine seconds earlier. They predicted both,
# for up to thousands of GPUs.
#
# ## 9.5 What a stale gradient costs
#
# For a parabola of curvature $\lambda$, $w_{t+1} = w_t - \eta\lambda\, w_{t-s}$. This converges if all
# roots of $z^{s+1} - z^s + \eta\lambda$ are inside the unit circle, that is for
#
# $$\eta\lambda < 2 \sin\frac{\pi}{2(2s+1)} ,$$
#
# which is 2 without staleness, as in lecture 08, and about $\pi / (2s + 1)$ with it. **Guess** by what
# factor the largest learning rate shrinks at a staleness of 7.

# %%
guess("largest rate at s = 0 over that at s = 7", None)


def limit(s):
    """The largest ηλ at which a parabola with gradients s updates old converges."""
    return 2 * math.sin(math.pi / (2 * (2 * s + 1)))


for share in (0.99, 1.01):
    roots = np.roots([1, -1, *[0] * 6, share * limit(7)])
    assert (np.abs(roots).max() < 1) == (share < 1)
compare("largest rate at s = 0 over that at s = 7", limit(0) / limit(7))

# %% [markdown]
# A network is not a parabola. A recorded run (`runs/09_staleness.py`) trains a small network on 12,288
# images of Fashion-MNIST for four epochs of plain SGD with a batch size of 32, at eleven learning rates.
# Runs with the same seed start with the same weights and see the same batches. **Each arm's learning rate
# is chosen on eight seeds, by its error on held-out images; five other seeds are reported.** Without
# staleness the test error is near 19%. **Guess** the test error at $s = 7$ with SGD's best learning rate,
# and with its own.

# %%
guess("test error at s = 7, rate of s = 0", None, "%")
guess("test error at s = 7, its own best rate", None, "%")
stale = json.loads(pathlib.Path("runs/09_staleness.json").read_text())
rows = [row | {"seed": job["seed"]} for job in stale["jobs"] for row in job["rows"]]
runs = pd.DataFrame(rows).sort_values("seed")
reported = ~runs["seed"].isin(stale["tuning"])
print(f"RECORDED {stale['jobs'][0]['submitted'][:10]}: {len(runs)} runs")


def of(arm, rate, field="error"):
    """The values of the five reported seeds, in their order."""
    some = runs[reported & (runs["arm"] == arm) & (runs["rate"] == rate)]
    return some[field].to_numpy(float)


def tuned(arm, field="held out"):
    """The learning rate with the lowest median on the tuning seeds."""
    some = runs[~reported & (runs["arm"] == arm)].fillna({field: math.inf})
    return some.groupby("rate")[field].median().idxmin()


def interval(values):
    """Half of the 95% interval of the mean of five, by Student's t."""
    assert len(values) == 5
    return 2.776 * np.std(values, ddof=1) / math.sqrt(5)


# %%
FIXED, RATES = [0, 1, 3, 7, 15, 31, 63], sorted(runs["rate"].unique())
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8))
for i, s in enumerate(FIXED[::2]):
    found = [of(f"s = {s}", rate) for rate in RATES]
    means, bars = ([f(errors) for errors in found] for f in (np.mean, interval))
    style = {"color": palette[i], "marker": "os^D"[i], "ls": ["-", "--", "-.", ":"][i]}
    axes[0].errorbar(RATES, means, yerr=bars, label=f"s = {s}", capsize=2, **style)
x, rates = [2 * s + 1 for s in FIXED], [tuned(f"s = {s}") for s in FIXED]
axes[1].plot(x, rates, "o", color=palette[0], label="best of the eleven")
guide = [rates[0] * limit(s) / limit(0) for s in FIXED]
axes[1].plot(x, guide, "--", marker="", color="0.4", label="parabola, through s = 0")
axes[0].set(xscale="log", xlabel=r"learning rate $\eta$", ylabel="test error / %")
axes[1].set(xscale="log", yscale="log", xlabel="2s + 1", ylabel=r"best rate $\eta$")
for ax in axes:
    ax.legend(fontsize=8)
plt.show()

# %%
best = dict(zip(FIXED, rates, strict=True))
failed = of("s = 7", best[0]).mean()
compare("test error at s = 7, rate of s = 0", failed)
compare("test error at s = 7, its own best rate", of("s = 7", best[7]).mean())
costs = {}
for s in (1, 7, 63):
    gap = of(f"s = {s}", best[s]) - of("s = 0", best[0])
    costs[s] = gap.mean(), interval(gap)
    print(f"s = {s} minus s = 0, best rates: {gap.mean():+.2f} ± {interval(gap):.2f}")
off = [r / rates[0] * limit(0) / limit(s) for s, r in best.items()]
claim("within a factor of three of the parabola's", min(off) > 1 / 3 and max(off) < 3)
claim("at SGD's best rate it is no better than guessing", failed > 80)
claim("at s = 7 and more it costs accuracy", costs[7][0] > costs[7][1])
gap = of("s = 7", best[7]) - of("s = 0", best[7])
print(f"s = 7 minus s = 0, both at {best[7]}: {gap.mean():+.2f} ± {interval(gap):.2f}")
claim("even at the same small rate s = 7 is worse", gap.mean() > interval(gap))
claim("At s = 1 the interval includes zero", abs(costs[1][0]) < costs[1][1])

# %% [markdown]
# *(Figure: left, test error against the learning rate for staleness 0, 3, 15 and 63, with intervals. All
# curves start together at small rates. Each rises to 90%, the error of guessing, and with a larger
# staleness it rises at a smaller rate. Right, the best rate against 2s + 1 on logarithmic axes follows the
# dashed line of the parabola up to 15, lies above it at 31 and 63, and below it at 127.)*
#
# The best rate is within a factor of three of the parabola's, scaled to SGD's, over two orders of
# magnitude. (For $s = 63$ it is the smallest that was tried.) **What helps against staleness is a smaller
# learning rate.** With $s = 7$, at SGD's best rate it is no better than guessing. A smaller rate does not
# make stale gradients as good as fresh ones: with the same number of images, at $s = 7$ and more it costs
# accuracy. Smaller steps, with which training advances less, are only part of the reason: even at the same
# small rate $s = 7$ is worse. At $s = 1$ the interval includes zero.
#
# ### Should each gradient have its own rate?
#
# When staleness differs between gradients, one could divide each rate by its own staleness:
# *staleness-aware* SGD (Zhang et al. 2015). Since a smaller rate helps in any case, a fair comparison has
# two arms with the *same mean rate*: one rate for all gradients, and rates proportional to $1/s$. Both have
# the same drawn staleness (8 workers, 2 slow) and the same seeds.

# %%
differ = []
for rate in RATES[:8]:
    gap = of("by its own", rate) - of("server, 8, 2 slow", rate)
    differ.append(abs(gap.mean()) > interval(gap))
    print(f"mean rate {rate:5.3f}: {gap.mean():+6.2f} ± {interval(gap):.2f} points")
claim("at most one interval excludes zero", sum(differ) <= 1)

# %% [markdown]
# Of the eight mean rates up to 0.4, at most one interval excludes zero, which chance would explain. In this
# scenario we find no benefit beyond the smaller mean rate, but five seeds cannot detect effects below one
# to three percentage points. (Only one gradient in ten comes from a slow worker here. With many slow
# workers the result may differ.)
#
# ## 9.6 Stragglers and backup workers
#
# A third way lies between waiting for all workers and waiting for none. Chen et al. (2016) remain
# synchronous, start $b$ more workers than needed, and update as soon as the *first* $N$ gradients have
# arrived. Later ones are discarded, and their workers restart with the new weights. No gradient is stale.


# %%
def backup_workers(draw, workers, needed, updates):
    """Updates by the first `needed` gradients: (times in s, gradients dropped)."""
    queue = [(draw(worker), worker, 0) for worker in range(workers)]
    heapq.heapify(queue)
    ends, waiting, dropped = [], [], 0
    while len(ends) < updates:
        now, worker, version = heapq.heappop(queue)
        if version < len(ends):  # too late: it restarts with the current weights
            dropped += 1
            heapq.heappush(queue, (now + draw(worker), worker, len(ends)))
            continue
        waiting.append(worker)
        if len(waiting) == needed:
            ends.append(now)
            for other in waiting:
                heapq.heappush(queue, (now + draw(other), other, len(ends)))
            waiting = []
    return np.array(ends), dropped


# %% [markdown]
# With 8 workers and the stragglers of 9.1, how many should an update wait for? **Guess** the number $N$
# that uses the most gradients per second.

# %%
guess("N with the most gradients per second, of 8", None)
rows = {}
for needed in (8, 7, 6, 5, 4):
    job = jobs[f"{needed} of 8"]
    real = np.diff([0, *(row[0] for row in job["rows"])])[1:]
    ends, dropped = backup_workers(seconds_of(STRAGGLERS), 8, needed, 20_000)
    rows[needed] = {"recorded / ms": 1e3 * real.mean()}
    rows[needed]["±"] = 1e3 * 1.96 * real.std(ddof=1) / math.sqrt(len(real))
    rows[needed]["simulated / ms"] = 1e3 * ends[-1] / len(ends)
    rows[needed]["used per second"] = needed / real.mean()
    rows[needed]["dropped per update"] = dropped / len(ends)
table = pd.DataFrame(rows).T.rename_axis("waits for")
display(table.round(1))
compare("N with the most gradients per second, of 8", table["used per second"].idxmax())
shorter = 1 - table["recorded / ms"][7] / table["recorded / ms"][8]
claim("shortens an update by more than a quarter", shorter > 0.25)
most = set(table["used per second"].nlargest(2).index)
claim("seven and six use the most gradients per second", most == {6, 7})
misses = (table["simulated / ms"] - table["recorded / ms"]).abs() > table["±"]
claim("the simulation lies within the recorded confidence intervals", not misses.any())

# %% [markdown]
# Waiting for seven instead of eight shortens an update by more than a quarter. Of the five choices, seven
# and six use the most gradients per second; with fewer, the loss of discarded gradients exceeds the gain in
# time. The simulation lies within the recorded confidence intervals.
#
# ## 9.7 Is it faster?
#
# The updates per second and the progress per update determine the time to a training loss of 0.6. The
# seconds come from the simulations above; the updates come from the recorded training runs, in which each
# scenario has the staleness that its own simulation draws, and each way its own best learning rate (chosen
# on other seeds, by the batches to the goal). Backup workers wait for 6 of 8 or 60 of 64 gradients in every
# scenario; this number is not tuned, which is a disadvantage for them. One scenario has 64 workers.
# **Guess** the speed-up of 8 asynchronous workers with stragglers over one worker.

# %%
SCENARIOS = {"8 equal": (8, EQUAL), "8, 2 slow": (8, SLOW)}
SCENARIOS |= {"8, stragglers": (8, STRAGGLERS), "64, stragglers": (64, STRAGGLERS)}
WAYS = {"synchronous": {8: 8, 64: 64}, "backup workers": {8: 6, 64: 60}}


def batches(arm):
    """Of the five reported seeds, at the rate with the fewest on the tuning seeds."""
    return of(arm, tuned(arm, "goal"), "goal")


def ratio(a, b):
    """Geometric mean of the seeds' a / b, and its 95% interval, from the logarithms."""
    logs = np.log(a / b)
    return np.exp(logs.mean() + interval(logs) * np.array([0, -1, 1]))


# %%
def times(name, way):
    """Seconds to the goal of the five seeds."""
    workers, scenario = SCENARIOS[name]
    draw = seconds_of(scenario)
    if way == "one worker":
        return np.mean([draw(7) for _ in range(20_000)]) * batches("s = 0")
    if way == "asynchronous":
        ends = parameter_server(draw, workers, 20_000)[:, 0]
        return ends[-1] / len(ends) * batches(f"server, {name}")
    needed = WAYS[way][workers]
    ends, _ = backup_workers(draw, workers, needed, 3_000)
    return ends[-1] / len(ends) * batches(f"together, {needed}") / needed


# %%
guess("8 workers with stragglers, asynchronous, speed-up", None, "×")
speed, gain = {}, {}
for name in SCENARIOS:
    asynchronous, one = times(name, "asynchronous"), times(name, "one worker")
    speed[name, "asynchronous"] = ratio(one, asynchronous)
    for way in WAYS:
        speed[name, way] = ratio(one, times(name, way))
        gain[name, way] = ratio(times(name, way), asynchronous)
table = pd.DataFrame(gain, index=["time / asynchronous", "95% from", "to"]).T
display(table.round(2))
name = "8, stragglers"
found = speed[name, "asynchronous"][0]
compare("8 workers with stragglers, asynchronous, speed-up", found)

# %%
fig, ax = plt.subplots(figsize=(8.4, 4))
for i, way in enumerate(["synchronous", "backup workers", "asynchronous"]):
    y = np.arange(len(SCENARIOS))[::-1] + 0.2 - 0.2 * i
    middle, low, high = np.array([speed[name, way] for name in SCENARIOS]).T
    style = {"fmt": "os^"[i], "color": palette[i], "label": way, "capsize": 2}
    ax.errorbar(middle, y, xerr=[middle - low, high - middle], **style)
ax.axvline(1, color="0.4", lw=1, ls="--", marker="", label="one worker")
ax.set_yticks(np.arange(len(SCENARIOS))[::-1], SCENARIOS)
ax.set_xscale("log", base=2)
ax.set_xlabel("speed-up over one worker (geometric mean, 95%)")
ax.legend(fontsize=8)
plt.show()

# %%
equal, slow, late, many = SCENARIOS
versus = {way: [gain[name, way] for name in SCENARIOS] for way in WAYS}
faster = all(low > 1 for _, low, _ in versus["synchronous"])
claim("in all four scenarios asynchronous training is faster than synchronous", faster)
claim("64 synchronous workers are slower than one", speed[many, "synchronous"][2] < 1)
claim("so are eight of which two are slow", speed[slow, "synchronous"][2] < 1)
low, high = np.array(versus["backup workers"])[:, 1:].T
claim("with two slow workers and with 64 workers they are slower", low[1] > 1 < low[3])
unclear = max(low[[0, 2]]) < 1 < min(high[[0, 2]])
claim("in the other two scenarios the intervals include 1", unclear)
constant = ratio(batches("s = 7"), batches("server, 8 equal"))
print(f"batches at constant s = 7 over drawn s of mean 7: {constant.round(2)}")
claim("constant staleness costs more than drawn staleness", constant[1] > 1)
most = max(high for _, _, high in speed.values())
claim("even 64 workers are less than seven times as fast as one", most < 7)

# %% [markdown]
# *(Figure: speed-up over one worker in four scenarios, with intervals, for synchronous training, backup
# workers and asynchronous training. In each scenario synchronous training has the lowest speed-up and
# asynchronous training the highest. With two slow workers and with 64 workers the speed-up of synchronous
# training is below 1.)*
#
# **Yes, for this problem:** in all four scenarios asynchronous training is faster than synchronous.
# Backup workers come closer. With two slow workers and with 64 workers they are slower than asynchronous
# training: they discard the gradients of slow workers, and 60 gradients make a batch of 1,920 images that
# this problem cannot use. For the same reason 64 synchronous workers are slower than one; so are eight of
# which two are slow. In the other two scenarios the intervals include 1.
#
# Three warnings. First, even 64 workers are less than seven times as fast as one: the problem is small, and
# lecture 08 has shown that the benefit of larger batches ends early on it. Chen et al. find that backup
# workers "converge faster and to better test accuracies" than asynchronous training, on problems that
# benefit from large batches; this does not contradict our result. (The recorded loss of a stale gradient
# belongs to older weights, which slightly disadvantages asynchronous training.) Second, communication and
# the server cost nothing here. 64 workers send some 900 gradients per second, which would keep the server
# of 9.3 busy half of the time. Third, the distribution of staleness matters: constant staleness costs more
# than drawn staleness of the same mean. A comparison of one arm with constant $s$ and another with drawn
# $s$ therefore changes two things at once.
#
# ## 9.8 Predicting an iteration
#
# "How many nodes?" needs the time of an iteration *before* the nodes are bought. We build a model of
# synchronous training from lectures 06 and 07, fit it to **ten** recorded runs, and test it on **thirty**
# others with other ranks, images and bucket sizes. The runs (`runs/09_iterations.py`) exchange the
# gradients of lecture 08's network over slow cables (20 Mbit/s, as in lecture 06). A pass is replaced by a
# sleep of 1 ms per image. The last layer's gradient is ready first. As in PyTorch's DDP, gradients are
# collected in *buckets*, and a thread of each rank reduces a bucket by a ring while earlier layers still
# compute. With bucket $i$ of $n_i$ bytes ready at $r_i$ and reduced at $t_i$,
#
# $$t_i = \max(t_{i-1},\; r_i + o) + 2(p-1)\,\mu(n_i/p) ,$$
#
# where $o$ is an overhead and $\mu(n)$ the time of a message. In a textbook $\mu(n) = \alpha + n\beta$. But
# lecture 06 found that these cables let the first 2 KB pass at once (a *token bucket*, which refills while
# a rank waits). This matters for the small chunks of a ring, so a second model has
#
# $$\mu(n) = \max(n\beta,\; \alpha,\; \alpha + (n - 2048)\,\beta) .$$
#
# Eight ranks share two cores, so $\alpha = \alpha_0 + \alpha_1 p$ in both. Four numbers are fitted.

# %%
spec = importlib.util.spec_from_file_location("iterations", "runs/09_iterations.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)  # sizes of gradients, when each is ready, buckets
iterations = json.loads(pathlib.Path("runs/09_iterations.json").read_text())
timed = {}  # (ranks, images, bytes of a bucket): medians of the two runs, in s
for job in iterations["jobs"]:
    for configuration, seconds in job["rows"]:
        timed.setdefault(tuple(configuration), []).append(float(np.median(seconds)))
fitted = [tuple(c) for c in iterations["fitted"]]
held_out = [c for c in timed if c not in fitted]
print(f"RECORDED {iterations['jobs'][0]['started'][:10]}, two runs of each:", end=" ")
print(f"{len(fitted)} to fit, {len(held_out)} held out")


def textbook(n, alpha, beta):
    """Seconds of a message of n bytes."""
    return alpha + n * beta


def token_bucket(n, alpha, beta, free=2048):
    """The same if the first bytes pass at once, and a pause of α refills the bucket."""
    return max(n * beta, alpha, alpha + (n - free) * beta)


# %%
def predict(theta, configuration, message):
    """Seconds of an iteration; theta: overhead (s), α0, α1 (s), β (s per byte)."""
    (overhead, a0, a1, beta), (p, images, threshold) = theta, configuration
    end = 0.0
    for size, ready in script.buckets(script.ready_times(images), threshold):
        exchange = 2 * (p - 1) * message(size / p, a0 + a1 * p, beta)
        end = max(end, ready + overhead) + exchange
    return end


# %%
def fit(configurations, seconds, message):
    """Least squares of relative errors (Levenberg–Marquardt): (theta, residuals)."""
    theta, damping = np.array([1e-3, 5e-4, 1e-4, 4e-7]), 1e-3

    def residuals(theta):
        model = np.array([predict(theta, c, message) for c in configurations])
        return model / np.array(seconds) - 1

    r = residuals(theta)
    for _ in range(100):  # in the logarithms of theta, so that all four stay positive
        steps = [residuals(theta * np.exp(step)) - r for step in 1e-4 * np.eye(4)]
        slope = np.stack(steps, 1) / 1e-4
        change = np.linalg.solve(slope.T @ slope + damping * np.eye(4), -slope.T @ r)
        other = theta * np.exp(np.clip(change, -1, 1))
        improves = np.sum(residuals(other) ** 2) < r @ r
        theta, damping = (other, damping / 3) if improves else (theta, 4 * damping)
        r = residuals(theta)
    return theta, r


# %% [markdown]
# Both models were written down before any of the forty runs was made. Each run was repeated minutes later,
# which yields the **repeat error**. A perfect model would still miss a single run by $1/\sqrt2$ of this
# error, since two runs differ by the noise of both. A prediction also needs an interval:
# $\pm\,t_{0.9}\,\hat\sigma$ from the ten residuals (six degrees of freedom, $t_{0.9} = 1.44$) should cover
# 80% of the held-out runs. **Guess** the median errors.

# %%
guess("textbook, median error on held-out runs", None, "%")
guess("token bucket, median error on held-out runs", None, "%")
models, half, fits = {"textbook": textbook, "token bucket": token_bucket}, {}, {}
perfect = [script.PER_IMAGE * c[1] / timed[c][1] - 1 for c in held_out]
errors = {"perfect scaling": perfect}
for name, message in models.items():
    fits[name], residuals = fit(fitted, [timed[c][0] for c in fitted], message)
    half[name] = 1.44 * math.sqrt(residuals @ residuals / (len(fitted) - 4))
    found = [predict(fits[name], c, message) / timed[c][1] - 1 for c in held_out]
    errors[name] = np.array(found)
    print(f"{name}: 1/β = {8e-6 / fits[name][3]:.1f} of 20 Mbit/s,", end=" ")
    print(f"RMS error {np.sqrt(np.mean(residuals**2)):.1%} fitted,", end=" ")
    print(f"{np.sqrt(np.mean(errors[name] ** 2)):.1%} held out")
errors["the run repeated"] = [second / first - 1 for first, second in timed.values()]

# %%
rows = {}
for name, error in errors.items():
    rows[name] = {"median error / %": 100 * np.median(np.abs(error))}
    if name in half:
        rows[name]["80% interval, ± %"] = 100 * half[name]
        rows[name]["covers / %"] = 100 * np.mean(np.abs(error) < half[name])
table = pd.DataFrame(rows).T
display(table.round(1))
median, covers = table["median error / %"], table["covers / %"]
for name in models:
    compare(f"{name}, median error on held-out runs", median[name])
claim("within 5% for half of the runs", median["textbook"] < 5)
_, text, token, again = median
claim("the token bucket's error is less than half of that", token < text / 2)
claim("neither reaches the repeat error", token > again)
claim("both intervals cover more than 80%", covers.min() > 80)
claim("a bandwidth that the cable does not have", 8e-6 / fits["textbook"][3] > 25)

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
real = np.array([timed[c][1] for c in held_out])
for ax, (i, name) in zip(axes, enumerate(models), strict=True):
    ratio = 100 * (errors[name] + 1)
    style = {"ls": "", "marker": "os"[i], "color": palette[i], "ms": 5, "lw": 0.8}
    bars = 100 * half[name] * (errors[name] + 1)
    ax.errorbar(1e3 * real, ratio, yerr=bars, label="held out, 80% interval", **style)
    ax.axhline(100, color="0.4", lw=0.9, marker="", ls="-")
    ax.set(xlabel="recorded iteration (ms)", title=name)
    ax.legend(fontsize=8)
axes[0].set_ylabel("predicted / recorded (%)")
plt.show()

# %% [markdown]
# *(Figure: the ratio of predicted and recorded time of the thirty held-out runs against the recorded time,
# with 80% intervals. Left, the textbook's points lie up to ten percent above and below the line of 100%,
# with long intervals. Right, with the token bucket, nearly all points lie within five percent.)*
#
# The textbook model predicts runs with other ranks and buckets within 5% for half of the runs. But it does
# so with a bandwidth that the cable does not have: without the token bucket it can explain fast small
# messages only by a faster cable. Its parameters must not be used for another cable. With the right
# mechanism, the token bucket's error is less than half of that, and the fitted bandwidth is close to that
# of the cable. Still, neither reaches the repeat error: the models are *reproducibly* wrong, and their
# residuals would show where.
#
# Both intervals cover more than 80%. They were widened by $\sqrt{10/6}$ for noise that a fit absorbs, but
# here fitted and held-out errors are about equal, because they are errors of the model and not noise.
#
# One warning: our passes are sleeps, which are more predictable than any computation. On a GPU, clocks
# change and kernels compete, so the computation is the difficult part. Today's tools (dPRO 2022, SimAI
# 2025, ATLAHS 2025) combine measured or traced pieces by simulation, as we did, and report errors of a few
# percent in their abstracts.
#
# ## What was learned
#
# 1. **Staleness** is the number of updates between reading and applying. With a server its mean is $p - 1$,
#    by counting; with asynchronous all-reduce it is $d/T + 1$. A simulation of a dozen lines predicts the
#    distribution, if it includes what limits the system.
# 2. Stale gradients need a smaller learning rate, about as much smaller as for a parabola, and still cost
#    accuracy.
# 3. **Backup workers** avoid stragglers without staleness; of eight workers, waiting for one or two fewer
#    is enough.
# 4. On this small problem asynchronous training reaches a training loss first, if each way has its own
#    learning rate. With eight workers, backup workers come close unless some workers are always slow.
# 5. Judge **a performance model** by its predictions for unseen runs, compared with the repeat error. Good
#    predictions do not prove that its parameters are right.
#
# **Today.** Asynchronous SGD with a parameter server is rare in training today: synchronous collectives on
# reliable, equal GPUs are faster, and reproducible. Hogwild (Niu et al. 2011) remains in sparse
# recommendation models. Between *data centres*, local SGD and DiLoCo (Douillard et al. 2023) avoid waiting
# in another way: hundreds of local updates between two synchronous exchanges. Reinforcement learning from
# generated text trains on samples drawn from slightly older weights, and bounds the staleness. Three habits
# carry over: count staleness, compare arms at their own best rates, and simulate before you buy.
#
# **Next.** Assignment 09, *Predict before you run*, bounds the staleness, fits a model to fourteen runs,
# and commits to its predictions before the runs are made. In **[10, running at
# scale](10_running_at_scale.ipynb)**, workers fail instead of being late. Before:
# **[06](06_all_reduce.ipynb)** (the ring), **[08](08_large_batches.ipynb)** (steps to a target).
#
# ## Further
#
# Nothing later in the course requires this section.
#
# ### Exercises
#
# 1. A server has 16 workers, half of them twice as fast as the others. What is the mean staleness of the
#    fast ones, and of the slow ones?
#
# <details><summary>Answer</summary>
#
# In the time of one slow gradient there are 8 + 16 = 24 updates. A slow worker sees about 23 updates of
# others, a fast one 11. The mean over all updates is (8 · 23 + 16 · 11)/24 = 15 = $p - 1$.
#
# </details>
#
# 2. A round of the asynchronous all-reduce takes 30 ms and a gradient 60 ms. The network becomes three
#    times as fast. What happens to staleness and batch size on 8 ranks?
#
# <details><summary>Answer</summary>
#
# The staleness grows from 60/30 + 1 = 3 to 60/10 + 1 = 7. The batch of an update shrinks from 8 · 30/60 = 4
# gradients to 1.3.
#
# </details>
#
# 3. Two runs of one configuration differ by 2% in the median. What median error can a perfect model
#    reach, and what would a reported error of 1% mean?
#
# <details><summary>Answer</summary>
#
# It can reach about 2%/√2 = 1.4%. An error of 1% would mean that predictions were compared with an average
# of runs, or with the runs that were fitted.
#
# </details>
#
# ### How many ranks, and which batch size?
#
# Time to a target is the number of updates times the seconds per update. Lecture 08 measured the first for
# this network (training loss 0.6; 32, 256 and 1,024 images per update; we interpolate on logarithms). The
# model of 9.8 gives the second for up to eight ranks on these cables.

# %%
large = json.loads(pathlib.Path("runs/08_large_batches.json").read_text())
large = pd.DataFrame(large["runs"])
needs = {}
for ranks, some in large[large["k"].isin([1, 8, 32])].groupby("k"):
    medians = []
    for _, group in some.groupby("variant"):
        losses = np.array(group["losses"].tolist(), float)
        if len(losses) == 5 and (losses < 0.6).any(1).all():
            first = 1 + (losses < 0.6).argmax(1)
            medians.append(np.median(first) * max(1, 32 // ranks))
    needs[32 * ranks] = min(medians)
BATCHES, RANKS = [32, 64, 128, 256, 512, 1024], range(1, 9)
grid = pd.DataFrame(index=BATCHES, columns=RANKS, dtype=float)
known = np.log([list(needs), list(needs.values())])
for batch in BATCHES:
    updates = math.exp(np.interp(math.log(batch), *known))
    for p in RANKS:
        plans = [(p, batch / p, size) for size in script.THRESHOLDS]
        each = min(predict(fits["token bucket"], plan, token_bucket) for plan in plans)
        grid.loc[batch, p] = updates * (each if p > 1 else script.PER_IMAGE * batch)

# %%
fig, ax = plt.subplots(figsize=(7, 3.8))
for i, batch in enumerate((32, 128, 512, 1024)):
    style = {"color": palette[i], "marker": "os^D"[i], "label": f"batch size {batch:,}"}
    ax.plot(RANKS, grid.loc[batch], **style)
ax.set(xlabel="ranks", ylabel="s to a training loss of 0.6", ylim=(0, None))
ax.legend(fontsize=8)
plt.show()
batch, p = grid.stack().idxmin()
print(f"least: {grid.min().min():.1f} s with {p} ranks, batch size {batch};", end=" ")
print(f"one rank at its best: {grid[1].min():.1f} s")
slower = grid.loc[32].diff()[2:].min() > 0
claim("with a batch size of 32 every further rank makes it slower", slower)
gain = grid[1].min() / grid.min().min()
claim("less than half of the time of one rank", 2 < gain < 4)

# %% [markdown]
# *(Figure: seconds to the target against the number of ranks, with a line for each of four batch sizes. The
# line for 32 rises, the one for 128 falls up to three ranks and is then flat, and those for larger batches
# start higher and fall up to eight ranks.)*
#
# With a batch size of 32 every further rank makes it slower. Only ranks *and* batch size together help:
# eight ranks with large batches take less than half of the time of one rank at its best. That is a modest
# gain from eight times the machine. "The best resource usage" (Sato's slide) depends on the price: a user
# who pays per rank-second uses one rank.
#
# ### Two cases from the slides
#
# The model of 9.8 in its smallest form is $t = c_0 + c_1 n + x\,\frac{p-1}{p}$ for $n$ images per rank,
# where $x$ is the part of the exchange that is not hidden. We fit a few rows of Rigazzi's tables and
# predict the others, next to two baselines: perfect scaling, and carrying over the efficiency of the
# largest fitted row.

# %%
# Images or samples per second: {(GPUs, of each): rate}; Nowcasting has 4 samples per GPU
KNOWN = {"KittiBox": {(1, 5): 7.93, (1, 16): 8.28, (8, 5): 60.8}}
KNOWN["Nowcasting"] = {(1, 4): 25.8, (4, 4): 102.7}
ASKED = {"KittiBox": {(8, 16): 64.64, (16, 5): 122.24, (16, 16): 129.28}}
ASKED["Nowcasting"] = {(2, 4): 51.6, (8, 4): 205.4, (16, 4): 410.5}


def terms(rates):
    """n, (p - 1)/p and 1 of each row, (rows, 3), and the seconds of its steps, (rows,)."""
    p, n = np.array(list(rates), float).T
    return np.stack([n, (p - 1) / p, np.ones(len(p))], 1), p * n / np.array(list(rates.values()))


rows = {}
for name, known in KNOWN.items():
    some = [0, 1, 2] if name == "KittiBox" else [0, 1]  # one batch size cannot fit c0
    (x, t), (x_asked, _) = terms(known), terms(ASKED[name])
    model = x_asked[:, some] @ np.linalg.lstsq(x[:, some], t, rcond=None)[0]
    top, least = max(known), min(n for _, n in known)
    carried = known[top] / (top[0] * known[1, least])
    for ((p, n), rate), seconds in zip(ASKED[name].items(), model, strict=True):
        perfect = p * known[1, n]
        row = {"model": p * n / seconds, "perfect": perfect, "carried over": perfect * carried}
        rows[name, p, n] = {f"{k}, off by / %": 100 * (v / rate - 1) for k, v in row.items()}
table = pd.DataFrame(rows).T.rename_axis(["", "GPUs", "images"])
display(table.round(2))
largest = table.abs().groupby(level=0).max()
claim("about one percent, and about two", largest.iloc[0, 0] < 1.2 < largest.iloc[0, 2] < 2.2)
claim("perfect scaling is within 1%", largest.loc["Nowcasting"].iloc[1] < 1)

# %% [markdown]
# For KittiBox the largest errors of the model and of the carried-over efficiency are about one percent,
# and about two; perfect scaling is further off. For the rain forecast perfect scaling is within 1%, so a
# model can improve little. Judge a prediction by how much it reduces the error of a simple baseline.
#
# ### Asynchrony looks like momentum
#
# Mitliagkas et al. (2016) show that asynchronous SGD "can be viewed as adding a momentum-like term". If the
# times of a server's $p$ workers are exponential, staleness is geometric with mean $p - 1$; the *expected*
# update is then that of SGD with momentum $1 - 1/p$ and learning rate $\eta / p$. We check this on a
# parabola without noise.

# %%
p, eta, T = 4, 0.1, 80
paths = np.ones((2000, T + 1))
rng = np.random.default_rng(9)
for path in paths:
    for t, (_, _, s) in enumerate(parameter_server(lambda worker: rng.exponential(), p, T)):
        path[t + 1] = path[t] - eta * path[t - int(s)]
w, v, momentum = [1.0], -eta, 1 - 1 / p  # as if the weights had been 1 before
for _ in range(T):
    v = momentum * v - eta / p * w[-1]
    w.append(w[-1] + v)
sgd = [(1 - eta) ** t for t in range(T + 1)]
fig, ax = plt.subplots(figsize=(6.4, 3.2))
ax.plot(paths.mean(0), marker="", label=f"{p} asynchronous workers, mean of 2,000 runs")
ax.plot(w, marker="", ls="--", color="black", label=f"momentum {momentum}, rate η/{p}")
ax.plot(sgd, marker="", ls=":", color=palette[1], label="SGD")
ax.set(xlabel="update", ylabel="mean of w")
ax.legend(fontsize=8)
plt.show()
claim("the two coincide to within 0.02", np.abs(paths.mean(0) - w).max() < 0.02)

# %% [markdown]
# *(Figure: the mean of w against the updates. SGD falls smoothly to 0. The asynchronous mean and SGD with
# momentum fall faster and then return to 0 from slightly below; their curves coincide.)*
#
# On a parabola, for exponential times and the *mean* of many runs, the two coincide to within 0.02. A
# constant staleness, as in 9.5, is not equivalent to momentum.
#
# ### SPRINT among the alternatives
#
# Sato's slides arrange the choices in three rows; SPRINT's are in bold.
#
# | | | |
# |---|---|---|
# | who communicates | parameter server | **collective (MPI all-reduce)** |
# | when | synchronous | **asynchronous** |
# | what is divided | **data** | model |
#
# In TSUBAME's Grand Challenge of 2015 it ran on 420 nodes with 1,260 K20X GPUs for seven days: up to 96
# GPUs on one model, 1,146 in use at the peak. This lecture compares the columns of the second row.
#
# ### Terms
#
# **Asynchronous SGD**: each gradient is applied when it arrives. **Backup workers**: synchronous SGD that
# discards the last gradients. **Discrete-event simulation**: a clock that jumps from event to event.
# **Parameter server**: the process that holds the weights. **Repeat error**: difference between two runs of
# one configuration. **Staleness**: updates between reading the weights and applying the gradient.
#
# ### Sources
#
# - Sato 2017 (*Ikuro* Sato), *A study of parallel computation for deep learning on TSUBAME*: SPRINT, its
#   update and its model (9.2, 9.4, *Further*); Oyama et al. 2016, *Predicting statistics of asynchronous
#   SGD parameters for a large-scale distributed deep learning system on GPU supercomputers*, IEEE BigData
#   (abstract): 9.4
# - Dean et al. 2012, *Large scale distributed deep networks* (DistBelief); Niu et al. 2011, *Hogwild!*,
#   [1106.5730](https://arxiv.org/abs/1106.5730); Douillard et al. 2023, *DiLoCo*,
#   [2311.08105](https://arxiv.org/abs/2311.08105) (abstracts): opening, *Today*
# - Chen et al. 2016, [Revisiting distributed synchronous SGD](https://arxiv.org/abs/1604.00981) (abstract):
#   9.6, 9.7
# - Zhang et al. 2015, [Staleness-aware Async-SGD](https://arxiv.org/abs/1511.05950) (abstract; dividing by
#   $s$ is our reading of "modulated according to the gradient staleness"): 9.5; Mitliagkas et al. 2016,
#   [Asynchrony begets momentum](https://arxiv.org/abs/1605.09774) (abstract): *Further*
# - Hu et al. 2022, *dPRO*, MLSys; Wang et al. 2025, *SimAI*, NSDI; Shen et al. 2025,
#   [ATLAHS](https://arxiv.org/abs/2505.08936), SC (abstracts): 9.8
# - Rigazzi, *HPC and AI convergence* (Cray): rain forecast and KittiBox: *Further*
