# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Assignment 09: predict before you run
#
# A run on 64 ranks costs money, and whoever asks for it is asked: how long will it take? After the run
# everybody has a model that explains it. **Can you say it before, with an interval that deserves its 80%,
# in a record that shows that you did not look?**
#
# You will
#
# - write a clock for workers of which none may run far ahead, and let their stale gradients train,
# - say exactly, without random numbers, what an iteration with backup workers takes on average,
# - build a model of an iteration from ranks, images and buckets, and fit it to fourteen runs,
# - predict runs of up to 64 ranks with 80% intervals, and be judged on machines that you have never seen,
# - seal predictions in a record, and find the records that cheat,
# - choose ranks and batch for the least time to a goal, with a budget that should hold.
#
# The background is lecture 09. Its server lets everybody run freely, its backup workers are simulated, its
# model knows neither nodes nor a slowest rank, and its intervals are equally wide everywhere. There are 30
# points: 28 in 24 checks, and 2 for an answer in your own words. Fill the eleven holes marked `YOUR CODE
# HERE`, run the free cell below each, then the checks; a check that fails says what it saw. Some checks
# also try cases that are not shown.
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | p | ranks, or workers | α | latency of a message in seconds |
# | n | images of a rank in an iteration | β | seconds a byte |
# | s | staleness | η | learning rate |

# %% given="setup"
import hashlib
import itertools
import json
import math

import matplotlib.pyplot as plt
import numpy as np

from cluster.checks import unchanged, watched
from cluster.network import Hierarchy, Placeholder, resnet50, simulate

plt.style.use("cluster.course")


def close_to(found, want, what, rtol=1e-6, hints=None):
    """Assert that numbers are those wanted; hints: {what was misunderstood: the numbers that it gives}."""
    found, want = np.asarray(found, float), np.asarray(want, float)
    assert found.shape == want.shape, f"{what}: {found.shape} numbers, not {want.shape}"
    if np.allclose(found, want, rtol=rtol, atol=1e-12):
        return
    likely = [
        words
        for words, wrong in (hints or {}).items()
        if np.shape(wrong) == found.shape and np.allclose(found, wrong, rtol=rtol, atol=1e-12)
    ]
    i = np.flatnonzero(~np.isclose(found, want, rtol=rtol, atol=1e-12))[0]
    at = f" (number {i + 1} of {found.size})" if found.size > 1 else ""
    raise AssertionError(
        f"{what}: {found.ravel()[i]:.7g}, not {want.ravel()[i]:.7g}{at}"
        + "".join(f". Likely: {words}" for words in likely[:1])
    )


# %% [markdown]
# ## 1. Not too far ahead
#
# With the lecture's parameter server nobody waits for anybody, and the gradients of two slow workers are up
# to dozens of updates old. *Stale synchronous parallel* (Ho et al. 2013) bounds how far workers drift
# apart: a worker may **begin** a gradient only if it has handed in at most k more than the worker that has
# handed in the fewest. Else it waits until this holds, and reads after the update that lets it go.
#
# - The server takes no time: an update happens when its gradient is handed in.
# - A worker reads the weights at the moment at which it begins.
# - Each worker has m gradients to compute, and the run ends when all p · m are handed in.
# - *Staleness* is the number of updates between reading and applying, as in the lecture.
#
# **Predict** for two workers, one of which takes 1 s a gradient and the other 2.5 s, with three gradients
# each and k = 1: when does the fast one wait, and how stale are the six gradients?


# %% solution="bounded"
def bounded_staleness(seconds, bound):
    """Asynchronous updates of workers of which none runs more than `bound` gradients ahead.

    seconds  (p, m): what gradient j of worker w takes
    bound    k, an int from 0 on: a worker may begin if it has handed in at most k more than the slowest

    Returns all p · m updates in their order, each a tuple (s at which it happens, worker, staleness).
    """
    p, m = np.shape(seconds)
    ### BEGIN SOLUTION
    now, done, read = 0.0, [0] * p, [0] * p
    busy = {worker: float(seconds[worker][0]) for worker in range(p)}  # until when
    waiting, updates = set(), []
    while busy:
        worker = min(busy, key=busy.get)
        now = busy.pop(worker)
        updates.append((now, worker, len(updates) - read[worker]))
        done[worker] += 1
        if done[worker] < m:
            waiting.add(worker)
        for other in [w for w in waiting if done[w] <= min(done) + bound]:
            waiting.remove(other)
            read[other] = len(updates)
            busy[other] = now + float(seconds[other][done[other]])
    ### END SOLUTION
    return updates


# %%
for time, worker, staleness in bounded_staleness(np.array([[1.0, 1.0, 1.0], [2.5, 2.5, 2.5]]), 1):
    print(f"{time:4.1f} s: worker {worker}, staleness {staleness}")

# %% [markdown]
# Eight workers, two of which are three times as slow, as in the lecture. What does the bound cost, and what
# does it bring? Predict both ends of the figure before you run the cell.

# %%
rng = np.random.default_rng(9)
drawn = 0.060 * np.exp(0.3 * rng.standard_normal((8, 60))) * np.where(np.arange(8) < 2, 3.0, 1.0)[:, None]
bounds = [0, 1, 2, 4, 8, 16, 32, 64]
found = [np.array(bounded_staleness(drawn, k)) for k in bounds]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
at = range(len(bounds))
axes[0].plot(at, [360 / rows[rows[:, 1] >= 2][-1, 0] for rows in found], "o-")
axes[0].set(ylabel="gradients a second\nof the fast workers", ylim=(0, None))
axes[1].plot(at, [rows[:, 2].max() for rows in found], "o-", label="largest")
axes[1].plot(at, [rows[:, 2].mean() for rows in found], "s--", label="mean")
axes[1].set(ylabel="staleness (updates)")
axes[1].legend()
for ax in axes:
    ax.set_xlabel("bound k")
    ax.set_xticks(at, bounds)
plt.show()

# %% [markdown]
# *The figure:* over the bound, to the left the gradients a second of the six fast workers: few more up to k
# = 16, then steeply more. To the right the largest and the mean staleness; both grow, and the largest ends
# level at 42.
#
# With 60 gradients each, the fast workers get about 40 ahead, so of these bounds only k = 64 binds nobody.
# In a longer run it would: whoever is k ahead goes at the pace of the slowest from there on. A bound
# helps against workers that are slow *now and then*.

# %% check="bounded-by-hand" points=1 see="9.2"
"""Two workers, three gradients each, a bound of 1 (1 point)."""


def updates_are(found, want, what):
    """Assert that rows (s, worker, staleness) are those wanted."""
    rows = [tuple(row) for row in found]
    assert len(rows) == len(want), f"{what}: {len(rows)} updates, not {len(want)}"
    for i, (row, right) in enumerate(zip(rows, want, strict=True)):
        assert len(row) == 3, f"{what}: update {i + 1} is {row}, not (s, worker, staleness)"
        assert math.isclose(row[0], right[0], rel_tol=1e-9) and row[1] == right[1], (
            f"{what}: update {i + 1} is worker {row[1]}'s at {row[0]:.6g} s, "
            f"not worker {right[1]}'s at {right[0]:.6g}"
        )
        assert row[2] == right[2], (
            f"{what}: update {i + 1}, worker {row[1]}: staleness {row[2]}, not {right[2]}"
        )


want = [(1.0, 0, 0), (2.0, 0, 0), (2.5, 1, 2), (3.5, 0, 0), (5.0, 1, 1), (7.5, 1, 0)]
updates_are(bounded_staleness(np.array([[1.0] * 3, [2.5] * 3]), 1), want, "1 s and 2.5 s, k = 1")
### BEGIN HIDDEN TESTS
want = [
    (1.0, 1, 0),
    (2.0, 1, 0),
    (3.0, 1, 0),
    (3.5, 0, 3),
    (4.5, 1, 0),
    (7.0, 0, 1),
    (10.5, 0, 0),
    (14.0, 0, 0),
]
updates_are(bounded_staleness(np.array([[3.5] * 4, [1.0] * 4]), 2), want, "3.5 s and 1 s, k = 2")
### END HIDDEN TESTS


# %% given="clocks"
def draws(p, m, seed, slow=0, factor=1.0):
    """Seconds of m gradients of p workers, of which the first `slow` take `factor` times as long: (p, m)."""
    random = np.random.default_rng([seed, p, m])
    return np.exp(0.4 * random.standard_normal((p, m))) * np.where(np.arange(p) < slow, factor, 1.0)[:, None]


def rounds(seconds):
    """The times of updates where all wait for all after each gradient, sorted: (p · m,)."""
    return np.sort((np.concatenate([[0.0], seconds.max(0).cumsum()[:-1]]) + seconds).ravel())


# %% check="bounded-ends" points=1 see="9.2"
"""With k = 0 all wait for all after each gradient; with a large k nobody ever waits (1 point)."""
for p, m, seed in [(3, 5, 1), (5, 4, 2)]:
    seconds = draws(p, m, seed)
    rows = np.array([tuple(row) for row in bounded_staleness(seconds, 0)], float)
    assert rows.shape == (p * m, 3), f"{p} workers with {m} gradients: {len(rows)} updates"
    close_to(rows[:, 0], rounds(seconds), f"{p} workers, k = 0, all wait for all: s of the updates")
    want = np.tile(np.arange(p), m)
    assert np.array_equal(rows[:, 2], want), (
        f"{p} workers, k = 0: in each round staleness is 0 to {p - 1}, not {rows[:p, 2]}"
    )
    rows = np.array([tuple(row) for row in bounded_staleness(seconds, m)], float)
    close_to(
        rows[:, 0],
        np.sort(seconds.cumsum(1).ravel()),
        f"{p} workers, k = {m}, nobody waits: s of the updates",
    )
### BEGIN HIDDEN TESTS
for p, m, seed in [(1, 4, 3), (2, 1, 4), (7, 30, 5)]:
    seconds = draws(p, m, seed, 2, 3.0)
    rows = np.array([tuple(row) for row in bounded_staleness(seconds, 0)], float)
    close_to(rows[:, 0], rounds(seconds), "k = 0")
    assert np.array_equal(rows[:, 2], np.tile(np.arange(p), m)), "k = 0"
    rows = np.array([tuple(row) for row in bounded_staleness(seconds, 100)], float)
    close_to(rows[:, 0], np.sort(seconds.cumsum(1).ravel()), "k = 100")
    ends = seconds.cumsum(1)
    begins, order = np.hstack([np.zeros((p, 1)), ends[:, :-1]]), np.sort(ends.ravel())
    want = np.searchsorted(order, ends) - np.searchsorted(order, begins, side="right")
    assert np.array_equal(np.sort(rows[:, 2]), np.sort(want.ravel())), "k = 100"
### END HIDDEN TESTS

# %% check="bounded-distribution" points=1 see="9.2"
"""The distribution of the staleness and the time of the run are those of the bound (1 point)."""
seconds = draws(4, 12, 7, 1, 3.0)
rows = np.array([tuple(row) for row in bounded_staleness(seconds, 2)], float)
counts = np.bincount(rows[:, 2].astype(int), minlength=10).tolist()
assert counts == [9, 13, 14, 8, 2, 1, 0, 0, 1, 0], f"staleness 0, 1, 2, … occurs {counts} times"
### BEGIN HIDDEN TESTS
for p, m, slow, factor, k in [
    (8, 60, 2, 3.0, 1),
    (8, 60, 2, 3.0, 4),
    (6, 40, 0, 1.0, 1),
    (12, 25, 3, 2.0, 7),
]:
    seconds = draws(p, m, 11, slow, factor)
    ends, begins = np.zeros((p, m)), np.zeros((p, m))
    for j in range(m):
        if j:
            begins[:, j] = ends[:, j - 1]
        if j > k:
            begins[:, j] = np.maximum(begins[:, j], ends[:, j - k - 1].max())
        ends[:, j] = begins[:, j] + seconds[:, j]
    order = np.sort(ends.ravel())
    stale = np.searchsorted(order, ends) - np.searchsorted(order, begins, side="right")
    rows = np.array([tuple(row) for row in bounded_staleness(seconds, k)], float)
    close_to(rows[:, 0], order, "times")
    assert np.array_equal(rows[:, 2], stale.ravel()[ends.ravel().argsort()]), "staleness"
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Training with what is stale
#
# The other half of the lecture's update: given a staleness for each update, train.
#
# $$W(t+1) = W(t) - \eta_t \, \nabla J\big(W(t - s_t)\big),$$
#
# with $\eta_t = \eta$, or, *staleness-aware*, with $\eta_t = \eta / \max(1, s_t)$. Before the first update
# the weights have always been $W(0)$, so an $s_t$ above $t$ reads these.


# %% solution="stale-sgd"
def stale_sgd(gradient, w, rate, staleness, aware=False):
    """Weights of SGD whose gradient of update t is that of the weights staleness[t] updates before.

    gradient   a function of weights (d,) that returns (d,); it is called once an update
    w          (d,) float64: the first weights
    rate       η;  staleness  T whole numbers
    aware      divide the rate of each update by its staleness, where that is above 1

    Returns (T + 1, d) float64: W(0), …, W(T).
    """
    ### BEGIN SOLUTION
    weights = [np.array(w, float)]
    for t, s in enumerate(staleness):
        eta = rate / max(1, s) if aware else rate
        weights.append(weights[t] - eta * np.asarray(gradient(weights[max(0, t - s)].copy())))
    weights = np.array(weights)
    ### END SOLUTION
    return weights


# %%
def slope(w):
    """The gradient of a valley, steep in one direction and shallow in the other."""
    return np.array([1.0, 0.05]) * w


updates = bounded_staleness(drawn, 64)
late = [staleness for _, _, staleness in updates[:360]]  # while fast workers run
fig, ax = plt.subplots(figsize=(6, 3.2))
for name, s, aware, style in [
    ("fresh", [0] * 360, False, "-"),
    ("stale", late, False, ":"),
    ("aware", late, True, "--"),
]:
    path = stale_sgd(slope, np.array([1.0, 1.0]), 0.5, s, aware)
    loss = (path**2 @ np.array([1.0, 0.05])) / 2
    ax.plot(loss, style, marker="", label=name)
ax.set(xlabel="update", ylabel="loss", yscale="log", ylim=(1e-10, 1e6))
ax.legend()
plt.show()

# %% [markdown]
# *The figure:* the loss over 360 updates, logarithmic. With fresh gradients it falls steeply; with stale
# ones and the same rate it rises and leaves the picture at the top; staleness-aware it falls, more slowly.

# %% check="stale-by-hand" points=1 see="9.5"
"""Three updates of w² / 2 with gradients 0, 1 and 2 updates old; with none, it is SGD (1 point)."""
seen = []


def watched_slope(w):
    """Of w² / 2; remembers where it was asked."""
    seen.append(np.array(w, float).tolist())
    return np.array(w, float)


found = stale_sgd(watched_slope, np.array([8.0]), 0.5, [0, 1, 2])
hints = {"the newest weights are used, however old the gradient.": [[8], [4], [2], [1]]}
close_to(found, [[8.0], [4.0], [0.0], [-4.0]], "8, then 8 - 8/2, 4 - 8/2, 0 - 8/2", hints=hints)
assert seen == [[8.0], [8.0], [8.0]], f"the gradient was asked for at {seen}, not three times at 8"
found = stale_sgd(watched_slope, np.array([8.0, -2.0]), 0.25, [0] * 4)
close_to(found, np.array([[8.0, -2.0]]) * 0.75 ** np.arange(5)[:, None], "with s = 0 in each update, SGD")
### BEGIN HIDDEN TESTS
for seed in range(3):
    random = np.random.default_rng([9, seed])
    matrix, w = random.normal(0, 0.4, (3, 3)), random.normal(0, 1, 3)
    stale = [int(random.integers(0, t + 1)) for t in range(25)]
    asked, want = [], [w]
    for t, s in enumerate(stale):
        want.append(want[t] - 0.2 * (matrix @ want[t - s] + 1))

    def affine(x, matrix=matrix, asked=asked):
        asked.append(x)
        return matrix @ x + 1

    close_to(stale_sgd(affine, w, 0.2, stale), want, "other gradients")
    assert len(asked) == 25, "a gradient an update"
### END HIDDEN TESTS

# %% check="stale-aware" points=1 see="9.5"
"""The rate is divided by the staleness of the update, and never by 0 (1 point)."""
found = stale_sgd(lambda w: w, np.array([8.0]), 0.5, [0, 1, 2, 0], aware=True)
hints = {"the rate is divided by s + 1.": [[8], [4], [2], [2 / 3], [1 / 3]]}
hints |= {"the rate is not divided.": [[8], [4], [0], [-4], [-2]]}
close_to(found, [[8.0], [4.0], [0.0], [-2.0], [-1.0]], "with rates 0.5, 0.5, 0.25, 0.5", hints=hints)
### BEGIN HIDDEN TESTS
random = np.random.default_rng(10)
matrix, w, stale = random.normal(0, 0.4, (2, 2)), random.normal(0, 1, 2), random.integers(0, 9, 40)
want = [w]
for t, s in enumerate(stale):
    want.append(want[t] - (0.6 if s == 0 else 0.6 / s) * (matrix @ want[max(0, t - s)]))
close_to(stale_sgd(lambda x: matrix @ x, w, 0.6, stale.tolist(), True), want, "other staleness")
### END HIDDEN TESTS

# %% check="stale-history" points=1 see="9.5"
"""Before the first update the weights are W(0); what is returned is a path, and w is as it was (1 point)."""
w = np.array([1.0, 2.0])
with unchanged(w=w):
    found = stale_sgd(lambda w: np.array([1.0, 10.0]) * w, w, 0.1, [3, 3, 0])
close_to(
    found, [[1, 2], [0.9, 0], [0.8, -2], [0.72, 0]], "s = 3, 3, 0: the first two gradients are those of W(0)"
)
### BEGIN HIDDEN TESTS
found = stale_sgd(lambda w: 2.0 * w, np.array([1.0]), 0.1, [9, 0, 7, 2, 5])
want = [1.0]
for t, s in enumerate([9, 0, 7, 2, 5]):
    want.append(want[t] - 0.2 * want[max(0, t - s)])
close_to(found, np.array(want)[:, None], "other paths")
close_to(stale_sgd(lambda w: w, np.array([3.0]), 0.1, []), [[3.0]], "no update")
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Backup workers, exactly
#
# The lecture simulates backup workers. Where the workers that come too late *stop at once*, and all begin
# the next update together, no simulation is needed: an update that waits for N of p workers takes the N-th
# smallest of p independent times, their *order statistic*. Let the times be drawn, with replacement, from m
# measured ones, x₁ ≤ x₂ ≤ … ≤ x_m. A worker has ended by xᵢ with probability i/m. With which probability
# have at least N of p ended by then? And what is then the mean of the N-th?
#
# **Predict**: of 100 workers, how many of the slowest should one not wait for, so that the most gradients a
# second are used, if one gradient in twenty takes four times as long?


# %% solution="expected-seconds"
def expected_seconds(samples, workers, needed):
    """The mean time until `needed` of `workers` gradients are there, in seconds: exact, up to rounding.

    samples   m measured times of a gradient, in any order; each worker draws one of them, with replacement
    workers   p, up to 200;  needed  N from 1 to p

    Returns a float.
    """
    assert 1 <= needed <= workers, f"{needed} of {workers} workers"
    ### BEGIN SOLUTION
    x = np.sort(np.asarray(samples, float))
    share = np.arange(1, len(x) + 1) / len(x)
    there = sum(
        math.comb(workers, j) * share**j * (1 - share) ** (workers - j) for j in range(needed, workers + 1)
    )
    seconds = float(x @ np.diff(there, prepend=0.0))
    ### END SOLUTION
    return seconds


# %% solution="best-needed"
def best_needed(samples, workers):
    """For how many of the workers to wait, so that the most gradients a second are used: an int.

    Uses expected_seconds.
    """
    ### BEGIN SOLUTION
    best = max(range(1, workers + 1), key=lambda n: n / expected_seconds(samples, workers, n))
    ### END SOLUTION
    return best


# %%
rng = np.random.default_rng(1)
times = 0.060 * np.exp(0.3 * rng.standard_normal(400)) * np.where(rng.random(400) < 0.05, 4.0, 1.0)
for workers in (8, 100):
    n = best_needed(times, workers)
    all_of, some = expected_seconds(times, workers, workers), expected_seconds(times, workers, n)
    print(f"{workers} workers: all {1e3 * all_of:.0f} ms, best {n} in {1e3 * some:.0f} ms")

# %% check="backup-by-hand" points=1 see="9.6"
"""Two workers that take 1 s or 3 s; a third; a single sample (1 point)."""
hints = {
    "each time is drawn with replacement; here every worker has another one.": 1.0,
    "the mean of all times is not that of the first of two.": 2.0,
}
close_to(expected_seconds([3.0, 1.0], 2, 1), 1.5, "the first of two: 1, 1, 1 or 3 s", hints=hints)
close_to(
    expected_seconds([3.0, 1.0], 2, 2),
    2.5,
    "both of two: 1, 3, 3 or 3 s",
    hints=hints | {"each time is drawn with replacement; here every worker has another one.": 3.0},
)
close_to(expected_seconds([1.0, 3.0], 3, 2), 2.0, "two of three")
close_to(expected_seconds([0.5], 5, 3), 0.5, "where all times are the same")
### BEGIN HIDDEN TESTS
for samples, workers in [([2.0, 5.0, 1.0], 4), ([1.0, 1.0, 4.0, 7.0], 3), ([6.0, 2.0], 6)]:
    every = np.sort(np.array(list(itertools.product(samples, repeat=workers))), 1).mean(0)
    found = [expected_seconds(samples, workers, n) for n in range(1, workers + 1)]
    close_to(found, every, "all that can be drawn")
### END HIDDEN TESTS

# %% check="backup-exact" points=1 see="9.6"
"""Of many workers and many times, without random numbers (1 point)."""
samples = np.random.default_rng(5).gamma(4.0, 0.015, 300)
x, share = np.sort(samples), np.arange(301) / 300
close_to(expected_seconds(samples, 100, 100), x @ np.diff(share**100), "the last of 100")
close_to(expected_seconds(samples, 100, 1), x @ -np.diff((1 - share) ** 100), "the first of 100")
### BEGIN HIDDEN TESTS
for workers in (60, 200):
    found = sum(expected_seconds(samples, workers, n) for n in (1, workers // 2, workers))
    n, want = workers // 2, 0.0
    pmf = np.array(
        [[math.comb(workers, j) * f**j * (1 - f) ** (workers - j) for j in range(workers + 1)] for f in share]
    )
    want = sum(float(x @ -np.diff(pmf[:, :k].sum(1))) for k in (1, n, workers))
    close_to(found, want, "others")
### END HIDDEN TESTS

# %% check="best-number" points=1 see="9.6"
"""The number with the most gradients a second is found (1 point)."""
with watched(
    "expected_seconds", lambda samples, workers, needed: [9.0, 1.0, 2.0, 2.9, 3.0, 6.0, 8.0, 9.0][needed % 8]
):
    found = best_needed([0.1, 0.2], 7)
hints = {1: "the shortest update has the fewest gradients", 7: "to wait for all is not always best"}
assert found == 4, f"1, 2, … 7 gradients in 1, 2, 2.9, 3, 6, 8, 9 s: {found}, not 4" + "".join(
    f": {words}" for n, words in hints.items() if n == found
)
### BEGIN HIDDEN TESTS
for p, seed in [(6, 1), (17, 2), (40, 3), (3, 4)]:
    taken = np.sort(np.random.default_rng([p, seed]).uniform(1, 5, p))
    with watched("expected_seconds", lambda samples, workers, needed, taken=taken: float(taken[needed - 1])):
        found = best_needed([0.1], p)
    assert found == 1 + np.argmax(np.arange(1, p + 1) / taken), "other times"
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A model of an iteration
#
# The machine: nodes of 4 ranks. ResNet-50's gradients, a layer's together, become ready while the backward
# pass goes on, the last layer's first. They are put into **buckets**, in this order, of at most so many
# bytes; what is larger goes alone. A bucket is ready when its last gradient is. One bucket after another is
# reduced by a ring, each as soon as it is ready and the one before is done. The iteration ends when the
# passes have ended and the last bucket is reduced.
#
# | | |
# |---|---|
# | passes of a rank | `fixed` + `image` · n seconds on average; a third of it is the forward pass |
# | … of the slowest of p | `1 + spread · SLOWEST[p]` times as long, and all wait for it |
# | a ring of p ranks | 2(p − 1) steps, in each of which every rank sends a p-th of the bucket to the next |
# | a message inside a node | α + β · its bytes, with `INSIDE`: α and β of its data sheet |
# | … between nodes | the same with `latency` (α) and `time_per_byte` (β) |
#
# A rank's passes vary from one iteration to the next, by a relative standard deviation `spread`;
# `SLOWEST[p]` is the mean of the largest of p standard normal numbers. A step of a ring waits for its
# slowest message: with more than 4 ranks one between nodes. (Take that one also where a check sets α and β
# between nodes to 0.) Ranks 0 to 3 are on the first node, 4 to 7 on the second. One rank alone exchanges
# nothing.
#
# A *configuration* is (p, n, bytes of a bucket). Five numbers are unknown, in this order: `fixed`, `image`,
# `spread`, `latency`, `time_per_byte`.

# %% given="machine"
NODE = 4  # ranks
INSIDE = (5e-6, 0.02e-9)  # seconds, seconds a byte: 50 GB/s
MIB = 1 << 20
TWO = [(8_000_000, 0.5), (8_000_000, 1.0)]  # gradients to work with by hand
RANKS = [1, 2, 3, 4, 8, 12, 16, 24, 32, 64]


def layers():
    """ResNet-50's gradients in the order of the backward pass: [(bytes, share until they are there)]."""
    sizes = {}
    for buffer in resnet50.buffers(1.0):
        sizes[buffer.ready] = sizes.get(buffer.ready, 0) + buffer.size
    return [(size, share) for share, size in sizes.items()]


def network_of(p, latency, time_per_byte):
    """The network of p ranks: messages under a clock, for `simulate`."""
    inside = {"inside_latency": INSIDE[0], "inside_time_per_byte": INSIDE[1]}
    return Hierarchy(latency, time_per_byte, ranks_per_node=min(p, NODE), **inside)


def slowest(p):
    """The mean of the largest of p standard normal numbers: the integral of (x > 0) - F(x)**p over all x."""
    x = np.linspace(-9, 9, 18_001)
    below = np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in x]) ** p
    return float(np.trapezoid(np.heaviside(x, 0.5) - below, x))


GRADIENTS = layers()
SLOWEST = {p: slowest(p) if p > 1 else 0.0 for p in RANKS}
print(f"{len(GRADIENTS)} gradients, {sum(size for size, _ in GRADIENTS) / 1e6:.1f} MB; the last to be ready:")
print(GRADIENTS[-2:])
print("slowest of p:", ", ".join(f"{p}: {value + 0.0:.2f}" for p, value in SLOWEST.items()))


# %% solution="iteration"
def iteration_seconds(theta, configuration, gradients=GRADIENTS):
    """Seconds of an iteration.

    theta          fixed (s), image (s an image), spread, latency (s), time_per_byte (s a byte) between nodes
    configuration  (p, n, bytes of a bucket), p one of RANKS
    gradients      [(bytes, share of the backward pass after which they are there)], in this order

    Returns a float.
    """
    fixed, image, spread, latency, time_per_byte = theta
    p, n, bucket = configuration
    ### BEGIN SOLUTION
    passes = (fixed + image * n) * (1 + spread * SLOWEST[p])
    alpha, beta = INSIDE if p <= NODE else (latency, time_per_byte)
    buckets = []
    for size, share in gradients:
        if buckets and buckets[-1][0] + size <= bucket:
            buckets[-1] = (buckets[-1][0] + size, share)
        else:
            buckets.append((size, share))
    end = 0.0
    for size, share in buckets if p > 1 else []:
        end = max(end, passes * (1 + 2 * share) / 3) + 2 * (p - 1) * (alpha + beta * size / p)
    seconds = max(end, passes)
    ### END SOLUTION
    return float(seconds)


# %% [markdown]
# By hand: two gradients of 8 MB are ready after a half and after all of the backward pass. On 8 ranks,
# passes take 30 ms, α is 0.1 ms and β 1 ns a byte. When does the iteration end with two buckets, and with
# one?
#
# And the ring: is its formula right where a node ends? `simulate` sends the messages one by one.

# %%
for bucket in (8_000_000, 16_000_000):
    seconds = iteration_seconds((0.030, 0.0, 0.0, 1e-4, 1e-9), (8, 16, bucket), TWO)
    print(f"buckets of {bucket / 1e6:g} MB: {1e3 * seconds:.2f} ms")


def ring(comm, x):
    """All messages of a ring, of a vector that divides into p equal parts."""
    for _ in range(2 * (comm.size - 1)):
        comm.sendreceive(
            Placeholder(len(x) // comm.size), (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        )


for p in (2, 4, 8, 16):
    run = simulate(ring, Placeholder(2_000_000), ranks=p, network=network_of(p, 1e-4, 1e-9), record=False)
    mine = iteration_seconds((0.0, 0.0, 0.0, 1e-4, 1e-9), (p, 1, 8_000_000), [(8_000_000, 1.0)])
    print(f"{p:2} ranks: {1e3 * run.time:.4f} ms message by message, {1e3 * mine:.4f} ms by your formula")

# %% given="by-definition"
ONE = [(6_000_000, 1.0)]  # one gradient, ready at the end


# %% check="iteration-passes" points=1 see="9.8"
"""One rank alone, and what the slowest of several adds (1 point)."""
theta = (0.010, 0.002, 0.05, 0.0, 0.0)
close_to(
    iteration_seconds(theta, (1, 20, MIB), ONE),
    0.050,
    "one rank, 10 ms and 20 images of 2 ms",
    hints={"one rank exchanges nothing, and waits for nobody.": 0.050 * (1 + 0.05 * SLOWEST[2])},
)
found = iteration_seconds(theta, (8, 20, MIB), ONE)
hints = {
    "the slowest of p is not the mean.": 0.050,
    "the spread is relative to all of the passes.": 0.010 * (1 + 0.05 * SLOWEST[8]) + 0.04,
}
close_to(
    found, 0.050 * (1 + 0.05 * SLOWEST[8]), "8 ranks, spread 0.05, a network that takes no time", hints=hints
)
### BEGIN HIDDEN TESTS
for p, n, spread in [(1, 7, 0.3), (16, 3, 0.02), (64, 50, 0.1), (12, 8, 0.0)]:
    want = (0.003 + 0.004 * n) * (1 + spread * SLOWEST[p])
    close_to(iteration_seconds((0.003, 0.004, spread, 0.0, 0.0), (p, n, 5 * MIB)), want, "other passes")
### END HIDDEN TESTS

# %% check="iteration-overlap" points=1 see="9.8"
"""Buckets are filled in order, begin when ready and when the one before is done (1 point)."""
theta = (0.030, 0.0, 0.0, 1e-4, 1e-9)
step = 14 * (1e-4 + 1e-9 * 1_000_000)  # seconds of 8 MB on 8 ranks
hints = {
    "nothing overlaps: all begins when the passes end.": [0.030 + 2 * step, 0.030 + 28 * 1e-3 + 14 * 1e-4],
    "the forward pass is forgotten: gradients come during the last two thirds.": [
        max(0.015 + step, 0.030) + step,
        0.030 + 28 * 1e-3 + 14 * 1e-4,
    ],
    "a bucket waits only for its gradients, not for the bucket before.": [
        0.030 + step,
        0.030 + 28e-3 + 14e-4,
    ],
}
found = [iteration_seconds(theta, (8, 16, size), TWO) for size in (8_000_000, 16_000_000)]
close_to(
    found,
    [max(0.020 + step, 0.030) + step, 0.030 + 28e-3 + 14e-4],
    "8 + 8 MB, in two buckets and in one",
    hints=hints,
)
three = [(3_000_000, 0.25), (5_000_000, 0.5), (2_000_000, 0.75), (9_000_000, 0.9), (1_000_000, 1.0)]
end = 0.0
for size, share in [(8e6, 0.5), (2e6, 0.75), (9e6, 0.9), (1e6, 1.0)]:
    end = max(end, 0.010 + 0.020 * share) + 14 * (1e-4 + 1e-9 * size / 8)
close_to(
    iteration_seconds(theta, (8, 16, 8_000_000), three),
    end,
    "3, 5, 2, 9 and 1 MB in buckets of at most 8 MB: 3 + 5, 2, 9, 1",
)
close_to(
    iteration_seconds(theta, (8, 16, 8_000_000), [(8_000_000, 0.1)]),
    0.030,
    "8 MB that are reduced while the passes still go on",
    hints={"the iteration does not end before the passes.": 0.012 + step},
)
### BEGIN HIDDEN TESTS
for seed in range(6):
    random = np.random.default_rng([9, seed])
    sizes, shares = random.integers(1, 30, 25) * 400_000, np.sort(random.uniform(0, 1, 25))
    passes, alpha, beta = (
        random.uniform(0.02, 0.2),
        10 ** random.uniform(-5, -3.5),
        10 ** random.uniform(-10, -9),
    )
    for p, limit in [(8, 5 * MIB), (16, 20 * MIB), (32, 0)]:
        groups, end = [[0, 0.0]], 0.0
        for size, share in zip(sizes.tolist(), shares.tolist(), strict=True):
            if groups[-1][0] + size > limit:
                groups.append([0, 0.0])
            groups[-1] = [groups[-1][0] + size, share]
        for size, share in groups:
            if size:
                end = max(end, passes / 3 + 2 * passes / 3 * share) + 2 * (p - 1) * (alpha + beta * size / p)
        given = list(zip(sizes.tolist(), shares.tolist(), strict=True))
        found = iteration_seconds((passes, 0.0, 0.0, alpha, beta), (p, 4, limit), given)
        close_to(found, max(end, passes), "other gradients")
### END HIDDEN TESTS

# %% check="iteration-nodes" points=1 see="9.8"
"""Inside a node the ring is fast; from the first rank on another node on, all steps are slow (1 point)."""
theta = (0.0, 0.0, 0.0, 1e-4, 1e-9)
for p in (2, 4, 8, 12):

    def steps(comm, x):
        for _ in range(2 * (comm.size - 1)):
            comm.sendreceive(x, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)

    want = simulate(
        steps, Placeholder(1_500_000 // p), ranks=p, network=network_of(p, 1e-4, 1e-9), record=False
    ).time
    hints = {"inside a node its own links are used.": 2 * (p - 1) * (1e-4 + 6e-3 / p)} if p <= 4 else {}
    close_to(
        iteration_seconds(theta, (p, 1, 64 * MIB), ONE), want, f"6 MB on {p} ranks in nodes of 4", hints=hints
    )
### BEGIN HIDDEN TESTS
for p in (2, 3, 4, 16, 24):
    a, b = INSIDE if p <= 4 else (3e-5, 0.4e-9)
    want = 2 * (p - 1) * (2 * a + b * 6_500_000 / p)
    given = [(6_000_000, 0.0), (500_000, 1.0)]
    close_to(iteration_seconds((0.0, 0.0, 0.0, 3e-5, 0.4e-9), (p, 3, 0), given), want, "other nodes")
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Fourteen runs
#
# Somebody has made fourteen runs on up to 16 ranks, each of 50 iterations; what is noted is the mean of
# these. The machine is shared, so a run that is made again has not the same seconds. **What will the runs
# of `ASKED` take?** Half of them are on 24 to 64 ranks, where nobody has been.
#
# Two baselines need no model. *Perfect scaling*: an iteration takes as long as on one rank with as many
# images. *The last run*: for each image of a rank as many seconds as in the last of the runs. How much
# better a prediction is than a baseline is its **skill**, 1 − E / E₀, where E is the median of
# |log(predicted / measured)|, and E₀ that of the baseline: 1 is perfect, 0 is no better.
#
# An 80% interval, its ends included, should hold 80% of the runs; the share that it holds is its
# **coverage**. But whoever makes eight intervals endless and two empty has 80% as well. So intervals have a
# score, too, the smaller the better: its width, and ten times what the run is outside,
#
# $$\log\frac{u}{l} + 10 \max\Big(0, \log\frac{l}{y}\Big) + 10 \max\Big(0, \log\frac{y}{u}\Big),$$
#
# for a run of y seconds and an interval from l to u. (Gneiting and Raftery 2007, the *interval score*; 10
# is 2/0.2, for an interval that misses 20%. On average nothing has a lower one than the true 10% and 90%
# quantiles.)

# %% given="runs"
# Recorded on a virtual machine whose five numbers you are not told. (p, n, bytes of a bucket): seconds
RUNS = [
    ((1, 16, 64 * MIB), 0.06502),
    ((1, 64, 64 * MIB), 0.247),
    ((4, 16, 16 * MIB), 0.06931),
    ((4, 64, 64 * MIB), 0.2508),
    ((8, 8, 1 * MIB), 0.08545),
    ((8, 16, 64 * MIB), 0.09353),
    ((8, 32, 16 * MIB), 0.1419),
    ((12, 8, 16 * MIB), 0.08294),
    ((12, 8, 64 * MIB), 0.08346),
    ((12, 16, 1 * MIB), 0.1068),
    ((16, 8, 1 * MIB), 0.1082),
    ((16, 16, 4 * MIB), 0.1016),
    ((16, 16, 64 * MIB), 0.1028),
    ((16, 64, 1 * MIB), 0.2648),
]
ASKED = [
    (2, 8, 16 * MIB),
    (2, 32, 1 * MIB),
    (2, 32, 64 * MIB),
    (2, 64, 1 * MIB),
    (8, 8, 4 * MIB),
    (16, 8, 4 * MIB),
    (24, 32, 16 * MIB),
    (32, 32, 1 * MIB),
    (32, 32, 4 * MIB),
    (64, 8, 64 * MIB),
    (64, 32, 16 * MIB),
    (64, 64, 16 * MIB),
]


def perfect_scaling(runs, configurations):
    """Seconds of one rank with as many images, on a line through the runs of one rank: (m,)."""
    alone = [(n, seconds) for (p, n, _), seconds in runs if p == 1]
    slope, start = np.polyfit(*zip(*alone, strict=True), 1)
    return np.array([start + slope * n for _, n, _ in configurations])


def last_run(runs, configurations):
    """Seconds of the last run, for each image of a rank: (m,)."""
    (_, images, _), seconds = runs[-1]
    return np.array([seconds / images * n for _, n, _ in configurations])


# %% solution="score"
def score(predictions, measured, baseline):
    """How good predictions are: (skill, coverage, mean interval score).

    predictions  (m, 3): low, middle, high of each run, in seconds
    measured     (m,) seconds;  baseline  (m,) seconds that a baseline predicts
    """
    low, middle, high = np.asarray(predictions, float).T
    measured, baseline = np.asarray(measured, float), np.asarray(baseline, float)
    ### BEGIN SOLUTION
    off, off_baseline = (np.median(np.abs(np.log(guess / measured))) for guess in (middle, baseline))
    skill = 1 - off / off_baseline
    coverage = np.mean((low <= measured) & (measured <= high))
    outside = np.maximum(0, np.log(low / measured)) + np.maximum(0, np.log(measured / high))
    interval = np.mean(np.log(high / low) + 10 * outside)
    ### END SOLUTION
    return float(skill), float(coverage), float(interval)


# %%
measured = np.array([1.0, 2.0, 4.0, 8.0])
for width in (1.01, 1.1, 2.0):
    guess = measured * np.array([1.05, 0.95, 1.0, 1.05])
    predictions = np.stack([guess / width, guess, guess * width], 1)
    skill, coverage, interval = score(predictions, measured, measured * 1.5)
    print(
        f"intervals of ×/÷ {width}: skill {skill:.2f}, coverage {coverage:.0%}, interval score {interval:.2f}"
    )

# %% check="score-skill" points=1 see="9.8"
"""Skill by ratios: twice and half as long are equally wrong; it may be below 0 (1 point)."""
wide = np.array([[0.1, 2.0, 99.0], [0.1, 0.5, 99.0], [0.1, 1.0, 99.0]])
found = score(wide, np.ones(3), np.array([8.0, 0.125, 8.0]))
hints = {"errors are ratios: twice and half as long are equally wrong.": [1 - 0.5 / 7]}
hints |= {
    "the median of the errors is meant, not their mean.": [7 / 9],
    "E / E₀ is not yet the skill.": [1 / 3],
}
words = "predicted 2, 1/2 and 1 s, the baseline 8, 1/8 and 8 s, measured 1 s: skill"
close_to([found[0]], [2 / 3], words, hints=hints)
found = score(wide, np.ones(3), np.array([1.1, 1.0, 1 / 1.1]))
close_to([found[0]], [1 - math.log(2) / math.log(1.1)], "a baseline that is better: skill")
### BEGIN HIDDEN TESTS
random = np.random.default_rng(4)
for m in (5, 8):
    middle, measured, baseline = np.exp(random.normal(0, 1, (3, m)))
    found = score(np.stack([middle / 2, middle, middle * 2], 1), measured, baseline)[0]
    errors = [
        sorted(abs(math.log(a / b)) for a, b in zip(x, measured, strict=True)) for x in (middle, baseline)
    ]
    want = 1 - (errors[0][m // 2] + errors[0][(m - 1) // 2]) / (errors[1][m // 2] + errors[1][(m - 1) // 2])
    close_to([found], [want], "other errors")
### END HIDDEN TESTS

# %% check="score-intervals" points=1 see="9.8"
"""Coverage counts both ends; what is outside costs ten times its distance (1 point)."""
e = math.e
found = score(np.array([[1.0, 1.5, e]] * 4), np.array([1.0, 2.0, e**2, e**-3]), np.ones(4) * 5)
close_to([found[1]], [0.5], "of 1, 2, e² and e⁻³ s two are within 1 to e s: coverage")
hints = {
    "what is below the interval costs as much as what is above it.": [3.5],
    "all widths count, also of those that miss.": [10.5],
}
close_to(
    [found[2]],
    [1 + 10 * (1 + 3) / 4],
    "the same: a width of 1 each, and 10 and 30 for two: interval score",
    hints=hints,
)
### BEGIN HIDDEN TESTS
random = np.random.default_rng(6)
ends, measured = np.sort(np.exp(random.normal(0, 1, (9, 3))), 1), np.exp(random.normal(0, 1, 9))
found, inside, want = score(ends, measured, measured * 2), 0, 0.0
for (low, _, high), y in zip(ends, measured, strict=True):
    inside += low <= y <= high
    want += math.log(high / low) + 10 * max(0.0, math.log(low / y), math.log(y / high))
close_to(found[1:], [inside / 9, want / 9], "other intervals")
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Fit and predict
#
# `fit` makes of runs whatever your `predict` needs, `predict` gives low, middle and high. How, is left to
# you. You may want these:
#
# - `least_squares(residuals, theta)` finds *positive* numbers theta with the least sum of squares; it works
#   in their logarithms.
# - `slopes(function, theta)` says how much each value of a function changes with the logarithm of each
#   number.
# - `T90[f]`: 90% of Student's t with f degrees of freedom are below it.
#
# Three things decide. Residuals of *logarithms*, for the noise is a percentage. The noise is estimated from
# residuals of runs to which five numbers were **fitted**, so they are smaller than it is. And these numbers
# are not known exactly: with S the slopes of the logarithm that is asked for (a row of five), J those at
# the runs (a row for each), and σ² the variance of the noise, a prediction has the variance
#
# $$\sigma^2 \big(1 + S (J^\top J)^{-1} S^\top\big),$$
#
# of which the second part is large where a prediction hangs on numbers, or on a mixture of them, about which
# the runs say little.

# %% given="tools"
STUDENT = [3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356, 1.350, 1.345]
T90 = dict(enumerate([*STUDENT, 1.341, 1.337, 1.333, 1.330, 1.328, 1.325], start=1))


def slopes(function, theta):
    """The derivatives of function(theta), (m,), by the logarithms of theta, (k,): an array (m, k)."""
    theta = np.asarray(theta, float)
    here = np.asarray(function(theta))
    steps = 1e-4 * np.eye(len(theta))
    return np.stack([(np.asarray(function(theta * np.exp(step))) - here) / 1e-4 for step in steps], 1)


def least_squares(residuals, theta):
    """The positive theta (k,) with the least sum of squares of residuals(theta), (m,), and these residuals.

    theta  numbers to begin with: some of the right order of magnitude. Levenberg-Marquardt.
    """
    theta, damping = np.array(theta, float), 1e-3
    r = np.asarray(residuals(theta))
    for _ in range(60):
        slope = slopes(residuals, theta)
        change = np.linalg.solve(slope.T @ slope + damping * np.eye(len(theta)), -slope.T @ r)
        other = theta * np.exp(np.clip(change, -1, 1))
        new = np.asarray(residuals(other))
        if new @ new < r @ r:
            small = r @ r - new @ new < 1e-7 * (r @ r)
            theta, r, damping = other, new, damping / 3
            if small or r @ r < 1e-20:
                break
        else:
            damping *= 4
            if damping > 1e6:
                break
    return theta, r


# %% solution="fit"
def fit(runs):
    """What `predict` needs, made of runs [((p, n, bytes of a bucket), seconds)], 10 to 20 of them.

    Returns anything.
    """
    ### BEGIN SOLUTION
    configurations = [configuration for configuration, _ in runs]
    logs = np.log([seconds for _, seconds in runs])

    def residuals(theta):
        return np.log([iteration_seconds(theta, c) for c in configurations]) - logs

    theta, r = least_squares(residuals, [5e-3, 3e-3, 0.03, 5e-5, 4e-10])
    freedom = len(runs) - len(theta)
    slope = slopes(residuals, theta)
    fitted = {
        "theta": theta,
        "half": T90[freedom] * math.sqrt(r @ r / freedom),
        "inverse": np.linalg.pinv(slope.T @ slope, rcond=1e-8),
    }
    ### END SOLUTION
    return fitted


# %% solution="predict"
def predict(fitted, configurations):
    """Low, middle and high of an 80% interval for the run of each configuration: (m, 3) seconds.

    fitted  what `fit` has returned
    """

    ### BEGIN SOLUTION
    def logs(theta):
        return np.log([iteration_seconds(theta, c) for c in configurations])

    slope = slopes(logs, fitted["theta"])
    uncertain = np.sum(slope @ fitted["inverse"] * slope, 1)
    half = fitted["half"] * np.sqrt(1 + uncertain)
    predictions = np.exp(logs(fitted["theta"])[:, None] + half[:, None] * np.array([-1, 0, 1]))
    ### END SOLUTION
    return predictions


# %%
fitted = fit(RUNS)
predictions = predict(fitted, ASKED)
print("(p, n, MiB)       low  middle    high / ms   perfect scaling   last run")
for (p, n, bucket), row, *others in zip(
    ASKED, predictions, perfect_scaling(RUNS, ASKED), last_run(RUNS, ASKED), strict=True
):
    print(
        f"({p:2}, {n:2}, {bucket // MIB:2})  {1e3 * row[0]:8.1f}{1e3 * row[1]:8.1f}{1e3 * row[2]:8.1f}",
        end="",
    )
    print("".join(f"{1e3 * other:15.1f}" for other in others))

# %% check="fit-exact" points=1 see="9.8"
"""From runs without any noise, made by your own model, others follow to 1% (1 point)."""
theta = (0.008, 0.003, 0.03, 4e-5, 3e-10)
made = [(c, iteration_seconds(theta, c)) for c, _ in RUNS]
want = np.array([iteration_seconds(theta, c) for c in ASKED])


def follows(fitted, words=""):
    """Assert that the predictions of ASKED are those of the model."""
    low, middle, high = np.asarray(predict(fitted, ASKED), float).T
    assert middle.shape == (len(ASKED),), f"{len(ASKED)} configurations, {middle.shape} predictions"
    off = np.abs(middle / want - 1)
    i = int(off.argmax())
    assert np.isfinite(middle).all() and off[i] < 0.01, (
        f"{ASKED[i]}: {middle[i]:.4g} s, where your model has {want[i]:.4g} s{words}"
    )
    assert (low <= middle).all() and (middle <= high).all(), "an interval goes from low over middle to high"


kept = fit(made)
follows(kept)
one = np.shape(predict(kept, ASKED[:1]))
assert one == (1, 3), f"of one configuration, the predictions have shape {one}, not (1, 3)"
fit(RUNS)
follows(kept, ". Another fit was made meanwhile: predict has to use the one that it is given")


### BEGIN HIDDEN TESTS
def iteration_of(theta, configuration, late):
    """Seconds of an iteration whose slowest rank takes `late` times the mean; or of many, for an array."""
    (fixed, image, _, latency, time_per_byte), (p, n, most) = theta, configuration
    passes = (fixed + image * n) * late
    alpha, beta = INSIDE if p <= NODE else (latency, time_per_byte)
    end, size, share = 0.0 * passes, 0, 0.0
    for more, at in [*GRADIENTS, (math.inf, 1.0)]:
        if size and size + more > most:
            end = np.maximum(end, passes * (1 + 2 * share) / 3) + 2 * (p - 1) * (alpha + size / p * beta)
            size = 0
        size, share = size + more, at
    return np.maximum(end, passes) if p > 1 else passes


ALWAYS = [
    (1, 16, 64 * MIB),
    (1, 64, 64 * MIB),
    (8, 8, MIB),
    (12, 8, 16 * MIB),
    (16, 8, MIB),
    (16, 16, 64 * MIB),
]


def machine_of(seed):
    """A machine drawn by chance: (theta, noise, configurations to fit, others, random numbers to go on)."""
    random = np.random.default_rng([9, *seed])
    low, high = np.log([(2e-3, 15e-3), (1.5e-3, 6e-3), (0.01, 0.06), (1e-5, 1.5e-4), (0.2e-9, 1e-9)]).T
    theta, noise = np.exp(random.uniform(low, high)), float(random.uniform(0.01, 0.03))
    near, far = ([(p, n, b * MIB) for p in some for n in (8, 16, 32, 64) for b in (1, 4, 16, 64)]
                 for some in ((2, 4, 8, 12, 16), (24, 32, 64)))  # fmt: skip
    near = [near[i] for i in random.permutation(len(near)) if near[i] not in ALWAYS]
    to_fit = sorted([*ALWAYS, *near[:8]])
    return theta, noise, to_fit, near[8:14] + [far[i] for i in random.permutation(len(far))[:6]], random


later = []
for seed, count in enumerate((14, 10, 14, 20)):
    theta, _, to_fit, asked, _ = machine_of([1, seed])
    to_fit = sorted([*ALWAYS, *(c for c in [*to_fit, *asked[:6]] if c not in ALWAYS)][:count])
    asked = asked[6:] + [c for c in asked[:6] if c not in to_fit]
    exact = [iteration_of(theta, c, 1 + theta[2] * SLOWEST[c[0]]) for c in to_fit + asked]
    later.append((fit(list(zip(to_fit, exact[:count], strict=True))), asked, exact[count:]))
for kept, asked, exact in later:
    middle = np.asarray(predict(kept, asked), float)[:, 1]
    assert np.abs(middle / exact - 1).max() < 0.01, "another machine, without noise"
### END HIDDEN TESTS


# %% [markdown]
# The checks that follow ask on the machine of `RUNS`; their hidden parts on **machines that you have never
# seen**, other configurations each, runs that are made after `predict` has answered.

# %% given="made-later"
# What the runs of ASKED take without the noise of this machine; a run that is made has some, from its seal.
MEANS = [
    0.035449,
    0.12766,
    0.12837,
    0.25089,
    0.081606,
    0.093168,
    0.14594,
    0.17133,
    0.14208,
    0.092188,
    0.14948,
    0.28183,
]
NOISE = 0.0208  # the standard deviation of the logarithm


def measure(configurations, seal):
    """Make the runs of ASKED: seconds of each configuration, a list.

    seal  the hash (SHA-256, 64 hexadecimal digits) of the predictions. What the noise is depends on it: who
          predicts otherwise has other runs.
    """
    if not (isinstance(seal, str) and len(seal) == 64 and set(seal) <= set("0123456789abcdef")):
        raise ValueError(
            f"the seal is {seal!r}: it must be the hash of the predictions, 64 hexadecimal digits"
        )
    known = dict(zip(ASKED, MEANS, strict=True))
    wanted = [tuple(c) for c in configurations]
    if unknown := [c for c in wanted if c not in known]:
        raise ValueError(f"{unknown[0]} is none of the configurations in ASKED")
    noise = np.random.default_rng(int(seal, 16)).standard_normal(len(wanted))
    return [float(known[c] * math.exp(NOISE * z)) for c, z in zip(wanted, noise, strict=True)]


def logs_off(guess, measured):
    """|log(guess / measured)| of each run."""
    return np.abs(np.log(np.asarray(guess, float) / measured))


# %% check="skill" points=2 see="9.8"
"""At most half as wrong as perfect scaling, and as the last run (2 points)."""
middle, made = np.asarray(predict(fit(RUNS), ASKED), float)[:, 1], np.array(measure(ASKED, "0" * 64))
for name, baseline in [("perfect scaling", perfect_scaling), ("the last run", last_run)]:
    off, off_baseline = (np.median(logs_off(guess, made)) for guess in (middle, baseline(RUNS, ASKED)))
    assert off <= off_baseline / 2, (
        f"the median error is {off:.1%}, that of {name} {off_baseline:.1%}: "
        f"a skill of {1 - off / off_baseline:.2f}"
    )


### BEGIN HIDDEN TESTS
def iteration_of(theta, configuration, late):
    """Seconds of an iteration whose slowest rank takes `late` times the mean; or of many, for an array."""
    (fixed, image, _, latency, time_per_byte), (p, n, most) = theta, configuration
    passes = (fixed + image * n) * late
    alpha, beta = INSIDE if p <= NODE else (latency, time_per_byte)
    end, size, share = 0.0 * passes, 0, 0.0
    for more, at in [*GRADIENTS, (math.inf, 1.0)]:
        if size and size + more > most:
            end = np.maximum(end, passes * (1 + 2 * share) / 3) + 2 * (p - 1) * (alpha + size / p * beta)
            size = 0
        size, share = size + more, at
    return np.maximum(end, passes) if p > 1 else passes


ALWAYS = [
    (1, 16, 64 * MIB),
    (1, 64, 64 * MIB),
    (8, 8, MIB),
    (12, 8, 16 * MIB),
    (16, 8, MIB),
    (16, 16, 64 * MIB),
]


def machine_of(seed):
    """A machine drawn by chance: (theta, noise, configurations to fit, others, random numbers to go on)."""
    random = np.random.default_rng([9, *seed])
    low, high = np.log([(2e-3, 15e-3), (1.5e-3, 6e-3), (0.01, 0.06), (1e-5, 1.5e-4), (0.2e-9, 1e-9)]).T
    theta, noise = np.exp(random.uniform(low, high)), float(random.uniform(0.01, 0.03))
    near, far = ([(p, n, b * MIB) for p in some for n in (8, 16, 32, 64) for b in (1, 4, 16, 64)]
                 for some in ((2, 4, 8, 12, 16), (24, 32, 64)))  # fmt: skip
    near = [near[i] for i in random.permutation(len(near)) if near[i] not in ALWAYS]
    to_fit = sorted([*ALWAYS, *near[:8]])
    return theta, noise, to_fit, near[8:14] + [far[i] for i in random.permutation(len(far))[:6]], random


def hidden_machine(seed):
    """(runs to fit, configurations to predict, make(), which makes their runs): 50 iterations, and noise."""
    theta, noise, to_fit, asked, random = machine_of(seed)

    def made(configurations):
        noted = []
        for c in configurations:
            late = random.normal(1.0, theta[2], (50, c[0])).max(1)
            noted.append(
                float(iteration_of(theta, c, late).mean() * math.exp(noise * random.standard_normal()))
            )
        return noted

    return list(zip(to_fit, made(to_fit), strict=True)), asked, lambda: np.array(made(asked))


errors = {"predicted": [], perfect_scaling: [], last_run: []}
for seed in range(6):
    runs, asked, make = hidden_machine([2, seed])
    middle = np.asarray(predict(fit(runs), asked), float)[:, 1]
    made = make()
    errors["predicted"] += logs_off(middle, made).tolist()
    for baseline in (perfect_scaling, last_run):
        errors[baseline] += logs_off(baseline(runs, asked), made).tolist()
off, *others = (np.median(values) for values in errors.values())
assert len(errors["predicted"]) == 72 and off <= min(others) / 2, "machines that you have not seen"
### END HIDDEN TESTS

# %% check="near-the-repeat-error" points=2 see="9.8"
"""The median error is at most twice that of a run made again: 24 to 64 ranks as well (2 points)."""
middle = np.asarray(predict(fit(RUNS), ASKED), float)[:, 1]
made, again = (np.array(measure(ASKED, digit * 64)) for digit in "12")
repeat = 0.954 * NOISE  # the median of |log| of two runs of a configuration: 0.6745 · √2 of the noise
off = np.median(logs_off(middle, made))
assert off <= 2 * repeat, f"the median error is {off:.1%}; a run made again is {repeat:.1%} off"


### BEGIN HIDDEN TESTS
def iteration_of(theta, configuration, late):
    """Seconds of an iteration whose slowest rank takes `late` times the mean; or of many, for an array."""
    (fixed, image, _, latency, time_per_byte), (p, n, most) = theta, configuration
    passes = (fixed + image * n) * late
    alpha, beta = INSIDE if p <= NODE else (latency, time_per_byte)
    end, size, share = 0.0 * passes, 0, 0.0
    for more, at in [*GRADIENTS, (math.inf, 1.0)]:
        if size and size + more > most:
            end = np.maximum(end, passes * (1 + 2 * share) / 3) + 2 * (p - 1) * (alpha + size / p * beta)
            size = 0
        size, share = size + more, at
    return np.maximum(end, passes) if p > 1 else passes


ALWAYS = [
    (1, 16, 64 * MIB),
    (1, 64, 64 * MIB),
    (8, 8, MIB),
    (12, 8, 16 * MIB),
    (16, 8, MIB),
    (16, 16, 64 * MIB),
]


def machine_of(seed):
    """A machine drawn by chance: (theta, noise, configurations to fit, others, random numbers to go on)."""
    random = np.random.default_rng([9, *seed])
    low, high = np.log([(2e-3, 15e-3), (1.5e-3, 6e-3), (0.01, 0.06), (1e-5, 1.5e-4), (0.2e-9, 1e-9)]).T
    theta, noise = np.exp(random.uniform(low, high)), float(random.uniform(0.01, 0.03))
    near, far = ([(p, n, b * MIB) for p in some for n in (8, 16, 32, 64) for b in (1, 4, 16, 64)]
                 for some in ((2, 4, 8, 12, 16), (24, 32, 64)))  # fmt: skip
    near = [near[i] for i in random.permutation(len(near)) if near[i] not in ALWAYS]
    to_fit = sorted([*ALWAYS, *near[:8]])
    return theta, noise, to_fit, near[8:14] + [far[i] for i in random.permutation(len(far))[:6]], random


def hidden_machine(seed):
    """(runs to fit, configurations to predict, make(), which makes their runs): 50 iterations, and noise."""
    theta, noise, to_fit, asked, random = machine_of(seed)

    def made(configurations):
        noted = []
        for c in configurations:
            late = random.normal(1.0, theta[2], (50, c[0])).max(1)
            noted.append(
                float(iteration_of(theta, c, late).mean() * math.exp(noise * random.standard_normal()))
            )
        return noted

    return list(zip(to_fit, made(to_fit), strict=True)), asked, lambda: np.array(made(asked))


near, far, repeats = [], [], []
for seed in range(8):
    runs, asked, make = hidden_machine([3, seed])
    middle = np.asarray(predict(fit(runs), asked), float)[:, 1]
    made, again = make(), make()
    off = logs_off(middle, made)
    near += [e for e, c in zip(off, asked, strict=True) if c[0] <= 16]
    far += [e for e, c in zip(off, asked, strict=True) if c[0] > 16]
    repeats += logs_off(again, made).tolist()
limit = 2 * np.median(repeats)
assert len(near + far) == 96 and np.median(near) <= limit and np.median(far) <= limit, "other machines"
### END HIDDEN TESTS

# %% check="calibrated" points=2 see="9.8"
"""80% intervals hold 72 to 88% of the runs of many machines, of predictions that have skill (2 points)."""
low, middle, high = np.asarray(predict(fit(RUNS), ASKED), float).T
made = np.array([measure(ASKED, f"{seed:064x}") for seed in range(20)])
off, *others = (
    np.median(logs_off(guess, made))
    for guess in (middle, perfect_scaling(RUNS, ASKED), last_run(RUNS, ASKED))
)
assert off <= min(others) / 2, "intervals count where the predictions are twice as good as a baseline"
covered = np.mean((low <= made) & (made <= high))
assert 0.3 <= covered < 1, (
    f"of 20 times the runs of ASKED {covered:.0%} are inside"
)  # one fit: it may be a bad draw


### BEGIN HIDDEN TESTS
def iteration_of(theta, configuration, late):
    """Seconds of an iteration whose slowest rank takes `late` times the mean; or of many, for an array."""
    (fixed, image, _, latency, time_per_byte), (p, n, most) = theta, configuration
    passes = (fixed + image * n) * late
    alpha, beta = INSIDE if p <= NODE else (latency, time_per_byte)
    end, size, share = 0.0 * passes, 0, 0.0
    for more, at in [*GRADIENTS, (math.inf, 1.0)]:
        if size and size + more > most:
            end = np.maximum(end, passes * (1 + 2 * share) / 3) + 2 * (p - 1) * (alpha + size / p * beta)
            size = 0
        size, share = size + more, at
    return np.maximum(end, passes) if p > 1 else passes


ALWAYS = [
    (1, 16, 64 * MIB),
    (1, 64, 64 * MIB),
    (8, 8, MIB),
    (12, 8, 16 * MIB),
    (16, 8, MIB),
    (16, 16, 64 * MIB),
]


def machine_of(seed):
    """A machine drawn by chance: (theta, noise, configurations to fit, others, random numbers to go on)."""
    random = np.random.default_rng([9, *seed])
    low, high = np.log([(2e-3, 15e-3), (1.5e-3, 6e-3), (0.01, 0.06), (1e-5, 1.5e-4), (0.2e-9, 1e-9)]).T
    theta, noise = np.exp(random.uniform(low, high)), float(random.uniform(0.01, 0.03))
    near, far = ([(p, n, b * MIB) for p in some for n in (8, 16, 32, 64) for b in (1, 4, 16, 64)]
                 for some in ((2, 4, 8, 12, 16), (24, 32, 64)))  # fmt: skip
    near = [near[i] for i in random.permutation(len(near)) if near[i] not in ALWAYS]
    to_fit = sorted([*ALWAYS, *near[:8]])
    return theta, noise, to_fit, near[8:14] + [far[i] for i in random.permutation(len(far))[:6]], random


def hidden_machine(seed):
    """(runs to fit, configurations to predict, make(), which makes their runs): 50 iterations, and noise."""
    theta, noise, to_fit, asked, random = machine_of(seed)

    def made(configurations):
        noted = []
        for c in configurations:
            late = random.normal(1.0, theta[2], (50, c[0])).max(1)
            noted.append(
                float(iteration_of(theta, c, late).mean() * math.exp(noise * random.standard_normal()))
            )
        return noted

    return list(zip(to_fit, made(to_fit), strict=True)), asked, lambda: np.array(made(asked))


inside, off, off_baseline = [], [], []
for seed in range(24):
    runs, asked, make = hidden_machine([6, seed])
    low, middle, high = np.asarray(predict(fit(runs), asked), float).T
    made = make()
    inside += ((low <= made) & (made <= high)).tolist()
    off += logs_off(middle, made).tolist()
    off_baseline += logs_off(last_run(runs, asked), made).tolist()
assert len(inside) == 288 and np.median(off) <= np.median(off_baseline) / 2, "no skill"
assert 0.72 <= np.mean(inside) <= 0.88, "the intervals of 24 machines"
### END HIDDEN TESTS

# %% check="sharp" points=1 see="9.8"
"""The interval score is near the best: wide where little is known, and narrow elsewhere (1 point)."""
low, middle, high = np.asarray(predict(fit(RUNS), ASKED), float).T
made = np.array([measure(ASKED, f"{seed:064x}") for seed in range(20)])
scores = np.log(high / low) + 10 * np.maximum(0, np.log(low / made)) + 10 * np.maximum(0, np.log(made / high))
best = 3.51 * NOISE  # with quantiles and noise known: 2 φ(1.2816) / 0.1 of it
assert scores.mean() <= 3 * best, (
    f"an interval score of {scores.mean():.3f}; who knows the machine has {best:.3f}"
)


### BEGIN HIDDEN TESTS
def iteration_of(theta, configuration, late):
    """Seconds of an iteration whose slowest rank takes `late` times the mean; or of many, for an array."""
    (fixed, image, _, latency, time_per_byte), (p, n, most) = theta, configuration
    passes = (fixed + image * n) * late
    alpha, beta = INSIDE if p <= NODE else (latency, time_per_byte)
    end, size, share = 0.0 * passes, 0, 0.0
    for more, at in [*GRADIENTS, (math.inf, 1.0)]:
        if size and size + more > most:
            end = np.maximum(end, passes * (1 + 2 * share) / 3) + 2 * (p - 1) * (alpha + size / p * beta)
            size = 0
        size, share = size + more, at
    return np.maximum(end, passes) if p > 1 else passes


ALWAYS = [
    (1, 16, 64 * MIB),
    (1, 64, 64 * MIB),
    (8, 8, MIB),
    (12, 8, 16 * MIB),
    (16, 8, MIB),
    (16, 16, 64 * MIB),
]


def machine_of(seed):
    """A machine drawn by chance: (theta, noise, configurations to fit, others, random numbers to go on)."""
    random = np.random.default_rng([9, *seed])
    low, high = np.log([(2e-3, 15e-3), (1.5e-3, 6e-3), (0.01, 0.06), (1e-5, 1.5e-4), (0.2e-9, 1e-9)]).T
    theta, noise = np.exp(random.uniform(low, high)), float(random.uniform(0.01, 0.03))
    near, far = ([(p, n, b * MIB) for p in some for n in (8, 16, 32, 64) for b in (1, 4, 16, 64)]
                 for some in ((2, 4, 8, 12, 16), (24, 32, 64)))  # fmt: skip
    near = [near[i] for i in random.permutation(len(near)) if near[i] not in ALWAYS]
    to_fit = sorted([*ALWAYS, *near[:8]])
    return theta, noise, to_fit, near[8:14] + [far[i] for i in random.permutation(len(far))[:6]], random


def hidden_machine(seed):
    """(runs to fit, configurations to predict, make(), which makes their runs): 50 iterations, and noise."""
    theta, noise, to_fit, asked, random = machine_of(seed)

    def made(configurations):
        noted = []
        for c in configurations:
            late = random.normal(1.0, theta[2], (50, c[0])).max(1)
            noted.append(
                float(iteration_of(theta, c, late).mean() * math.exp(noise * random.standard_normal()))
            )
        return noted

    return list(zip(to_fit, made(to_fit), strict=True)), asked, lambda: np.array(made(asked))


ratios = []
for seed in range(16):
    runs, asked, make = hidden_machine([6, seed])
    low, middle, high = np.asarray(predict(fit(runs), asked), float).T
    made, noise = make(), machine_of([6, seed])[1]
    outside = np.maximum(0, np.log(low / made)) + np.maximum(0, np.log(made / high))
    ratios.append(np.mean(np.log(high / low) + 10 * outside) / (3.51 * noise))
assert np.mean(ratios) <= 1.6, "the intervals of 16 machines"
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Seal, then run
#
# A prediction that is written down after the run is none, and nobody can see the difference, unless the
# order is in the record. Each entry of a record has a hash of itself and of the hash before it: who changes
# one entry later has to change all that follow. And the run is *told* the hash of the prediction (its
# seal), so it cannot have been made before it.
#
# - A `"prediction"` has as content `{"configurations": [[p, n, bytes], …], "seconds": [[low, middle, high],
#   …]}`.
# - A `"run"` has `{"configurations": …, "seconds": [s, …]}`: the same configurations, what `measure` has
#   returned.


# %% given="record"
def digest(previous, kind, content):
    """The hash of an entry: 64 hexadecimal digits. previous: that of the entry before, "" for the first."""
    text = json.dumps([previous, kind, content], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def entered(record, kind, content):
    """A new record with one more entry; tuples and arrays in the content become lists."""
    content = json.loads(json.dumps(content, default=lambda value: np.asarray(value).tolist()))
    previous = record[-1]["hash"] if record else ""
    entry = {"kind": kind, "content": content, "previous": previous, "hash": digest(previous, kind, content)}
    return [*record, entry]


# %% solution="predict-first"
def predict_before_running(record, fitted, configurations, measure):
    """The record with two more entries: predictions of the configurations, sealed, and the run of them.

    record   a list of entries, which stays as it is
    fitted   what `fit` has returned, for `predict`
    measure  measure(configurations, seal) makes the runs and returns their seconds; it is called once. seal:
             the hash of the entry of the predictions.
    """
    ### BEGIN SOLUTION
    predictions = np.asarray(predict(fitted, configurations), float)
    record = entered(record, "prediction", {"configurations": configurations, "seconds": predictions})
    seconds = measure(configurations, record[-1]["hash"])
    record = entered(record, "run", {"configurations": configurations, "seconds": seconds})
    ### END SOLUTION
    return record


# %% [markdown]
# Whoever reads a record asks: which entry is the first that I cannot trust? One whose hash, or whose link
# to the entry before, is not right; a run of which a configuration has not been predicted *before*; a
# prediction of a configuration whose run is in the record already.


# %% solution="first-broken"
def first_broken(record):
    """The index of the first entry that cannot be trusted, or None.

    record  a list of entries {"kind", "content", "previous", "hash"}. Trusted is an entry whose hash is its
            digest, whose "previous" is the hash of the entry before ("" for the first), and which is
            - a "run" whose configurations have all been predicted in entries before it, or
            - a "prediction" of configurations none of which has been run in entries before it.
    """
    ### BEGIN SOLUTION
    previous, predicted, run = "", set(), set()
    for i, entry in enumerate(record):
        right = digest(entry["previous"], entry["kind"], entry["content"])
        if entry["previous"] != previous or entry["hash"] != right:
            return i
        configurations = set(map(tuple, entry["content"]["configurations"]))
        if entry["kind"] == "run":
            if configurations - predicted:
                return i
            run |= configurations
        else:
            if configurations & run:
                return i
            predicted |= configurations
        previous = entry["hash"]
    ### END SOLUTION
    return None


# %% [markdown]
# Now it counts. This cell predicts the runs of `ASKED`, seals, and makes them. Change your model after
# that, and the seal is another one, and so is the noise: to have seen it does not help. (Here one could
# look up `MEANS`, or try many seals; on the hidden machines of the checks nobody can.)

# %%
record = predict_before_running([], fitted, ASKED, measure)
print("seal", record[0]["hash"][:16], "…; first entry that cannot be trusted:", first_broken(record))
sealed, made = np.array(record[0]["content"]["seconds"]), np.array(record[1]["content"]["seconds"])
for name, baseline in [("perfect scaling", perfect_scaling), ("the last run", last_run)]:
    skill, coverage, interval = score(sealed, made, baseline(RUNS, ASKED))
    print(f"skill against {name}: {skill:.2f}")
print(f"{coverage:.0%} of {len(made)} runs inside the intervals; interval score {interval:.3f}")
fig, ax = plt.subplots(figsize=(8, 3.6))
order = np.argsort([p for p, _, _ in ASKED], kind="stable")
at = np.arange(len(order))
low, middle, high = 100 * (sealed[order] / made[order, None]).T
ax.errorbar(
    at, middle, yerr=[middle - low, high - middle], fmt="o", capsize=3, label="your model, 80% intervals"
)
for (name, baseline), marker in zip(
    [("perfect scaling", perfect_scaling), ("last run", last_run)], "s^", strict=True
):
    ax.plot(at, 100 * (baseline(RUNS, ASKED) / made)[order], marker, ls="", mfc="none", label=name)
ax.axhline(100, color="0.4", ls="-", marker="", lw=0.9)
ax.set_xticks(at, [f"{ASKED[i][0]}\n{ASKED[i][1]}\n{ASKED[i][2] // MIB}" for i in order])
ax.set(xlabel="ranks, images of a rank, MiB of a bucket", ylabel="predicted / measured (%)")
ax.legend(fontsize=8)
plt.show()

# %% [markdown]
# *The figure:* predicted over measured seconds of twelve runs, from 2 ranks to 64. The model's points lie
# near the line of 100%. The baselines' do so on two ranks, and far below wherever the exchange takes most
# of the time.


# %% given="sealed"
def stands_in(fitted, configurations):
    """Stands for predict: numbers that follow from the configurations."""
    middle = np.array([fitted + p / 100 + n / 1000 for p, n, _ in configurations])
    return np.stack([middle * 0.9, middle, middle * 1.1], 1)


class Clock:
    """Makes runs whose seconds follow from the seal, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, configurations, seal):
        self.asked.append(([list(map(int, c)) for c in configurations], seal))
        random = np.random.default_rng(int(hashlib.sha256(str(seal).encode()).hexdigest(), 16))
        return random.uniform(0.1, 0.9, len(self.asked[-1][0])).tolist()


def changed(record, i, again=False, **parts):
    """A record whose entry i has other parts; again: all hashes from there on are made anew."""
    entries = [dict(entry) for entry in record]
    entries[i] |= parts
    for j in range(i, len(entries)) if again else ():
        entries[j]["previous"] = entries[j - 1]["hash"] if j else ""
        entries[j]["hash"] = digest(entries[j]["previous"], entries[j]["kind"], entries[j]["content"])
    return entries


def two_of(kind, *configurations):
    """(kind, content) of an entry with made-up seconds."""
    one = [0.1, 0.2, 0.3] if kind == "prediction" else 0.2
    return kind, {"configurations": [list(c) for c in configurations], "seconds": [one] * len(configurations)}


def record_of(*entries):
    """A record of entries (kind, content)."""
    record = []
    for kind, content in entries:
        record = entered(record, kind, content)
    return record


# %% given="and-what-was-before"
def and_what_was_before(record, fitted, configurations, measure):
    """What `predict_before_running` returns, and the record that it was given, as it has left it."""
    return predict_before_running(record, fitted, configurations, measure), record


# %% check="sealed-first" points=2 see="9.8"
"""Predictions are entered before the run is made; the run is told their hash, once (2 points)."""


def runs_sealed(before, fitted, configurations):
    """Assert that two entries are added, in the right order, and that the run has their seal."""
    clock, kept = Clock(), json.dumps(before)
    with watched("predict", stands_in):
        record, left = and_what_was_before(before, fitted, configurations, clock)
    assert json.dumps(left) == kept, "the record that was given has changed: return a new list"
    assert json.dumps(record[: len(before)]) == kept, "what was in the record has changed"
    assert len(clock.asked) == 1, f"measure was called {len(clock.asked)} times: a run is made once"
    kinds = [entry["kind"] for entry in record[len(before) :]]
    assert kinds == ["prediction", "run"], f"the new entries are {kinds}, not a prediction and a run"
    listed = [list(c) for c in configurations]
    want = entered(
        before, "prediction", {"configurations": listed, "seconds": stands_in(fitted, configurations)}
    )
    sealed, run = record[-2:]
    assert sealed["content"]["configurations"] == run["content"]["configurations"] == listed, (
        "other configurations"
    )
    close_to(sealed["content"]["seconds"], want[-1]["content"]["seconds"], "the predictions in the record")
    right = digest(want[-1]["previous"], "prediction", sealed["content"])
    assert sealed["previous"] == want[-1]["previous"] and sealed["hash"] == right, (
        "the hash of the predictions"
    )
    assert clock.asked[0][0] == listed, "measure was asked for other configurations"
    assert clock.asked[0][1] == right, (
        f"the run was told the seal {clock.asked[0][1]!r}: the hash of the predictions is {right[:16]}…"
    )
    assert run["content"]["seconds"] == Clock()(listed, right), (
        "the seconds of the run are not those that measure returned"
    )
    assert run["previous"] == right and run["hash"] == digest(right, "run", run["content"]), (
        "the hash of the run"
    )


runs_sealed([], 1.0, [(8, 16, MIB), (2, 32, 4 * MIB)])
runs_sealed(record_of(two_of("prediction", (4, 8, MIB)), two_of("run", (4, 8, MIB))), 0.5, [(16, 8, MIB)])
### BEGIN HIDDEN TESTS
for seed in range(4):
    random = np.random.default_rng([8, seed])
    asked = [tuple(int(v) for v in random.integers(1, 99, 3)) for _ in range(3 + seed)]
    before = record_of(two_of("prediction", (100 + seed, 8, MIB))) if seed % 2 else []
    runs_sealed(before, float(random.uniform(0.1, 2)), asked)
### END HIDDEN TESTS

# %% check="broken-links" points=1 see="9.8"
"""A record that was changed later is found out: a content, a hash, a link, an entry gone (1 point)."""
good = record_of(
    two_of("prediction", (2, 8, MIB), (4, 8, MIB)),
    two_of("run", (4, 8, MIB)),
    two_of("prediction", (8, 8, MIB)),
    two_of("run", (2, 8, MIB), (8, 8, MIB)),
)
better = {"configurations": [[2, 8, MIB], [4, 8, MIB]], "seconds": [[0.19, 0.2, 0.21]] * 2}
for record, want, what in [
    (good, None, "a record in order"),
    ([], None, "an empty record"),
    (changed(good, 0, content=better), 0, "predictions that were bettered later"),
    (
        changed(good, 0, content=better, hash=digest("", "prediction", better)),
        1,
        "the same, with a new hash: the next entry has the old one",
    ),
    (changed(good, 3, hash="0" * 64), 3, "a hash that is none"),
    (good[2:], 0, "a record whose first two entries are gone"),
    (good[:2] + good[3:], 2, "a record in which an entry is missing"),
    (changed(good, 2, kind="run"), 2, "an entry of another kind"),
]:
    found = first_broken(record)
    assert found == want and not isinstance(found, bool), (
        f"{what}: the first that cannot be trusted is {want}, not {found}"
    )
### BEGIN HIDDEN TESTS
other = changed(good, 1, again=True, content={"configurations": [[2, 8, MIB]], "seconds": [0.5]})
for record, want in [
    (other, None),
    (good[:1] + other[1:3] + good[3:], 3),
    (changed(good, 1, previous=""), 1),
    (changed(good, 1, previous="", hash=digest("", "run", good[1]["content"])), 1),
    ([good[0], good[2], good[1], good[3]], 1),
    (good[:3], None),
    (changed(good, 2, hash=good[2]["hash"].upper()), 2),
]:
    assert first_broken(record) == want, "other changes"
### END HIDDEN TESTS

# %% check="broken-order" points=1 see="9.8"
"""So is a run that nobody predicted before, and a prediction of what has been run (1 point)."""
a, b, c = (2, 8, MIB), (4, 8, MIB), (4, 16, MIB)
for record, want, what in [
    (
        record_of(two_of("prediction", a, b), two_of("run", b), two_of("run", a)),
        None,
        "two runs of what was predicted",
    ),
    (record_of(two_of("run", a), two_of("prediction", a)), 0, "a run, and its prediction after it"),
    (
        record_of(two_of("prediction", a), two_of("run", a, b)),
        1,
        "a run of two configurations, one of them predicted",
    ),
    (
        record_of(two_of("prediction", a), two_of("run", a), two_of("prediction", b, a)),
        2,
        "a prediction of what was run",
    ),
    (
        record_of(two_of("prediction", a), two_of("prediction", a), two_of("run", a)),
        None,
        "a prediction that is made anew before the run",
    ),
    (record_of(two_of("prediction", b), two_of("run", c)), 1, "a run with other images than predicted"),
]:
    found = first_broken(record)
    assert found == want and not isinstance(found, bool), (
        f"{what}: the first that cannot be trusted is {want}, not {found}"
    )
### BEGIN HIDDEN TESTS
d = (4, 8, 4 * MIB)
for entries, want in [
    ([("prediction", a), ("run", a), ("prediction", b), ("run", b)], None),
    ([("prediction", a, b), ("run", a), ("run", a, b)], None),
    ([("prediction", a), ("prediction", b), ("run", b), ("run", d)], 3),
    ([("prediction", a, b, c), ("run", b), ("prediction", d, b)], 2),
    ([("prediction", a, b), ("run", a), ("run", c), ("prediction", c)], 2),
]:
    assert first_broken(record_of(*(two_of(*entry) for entry in entries))) == want, "another order"
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Ranks, batch and a budget
#
# A *plan* is a configuration; its batch is p · n images. How many updates a batch needs to the goal has
# been measured for a few batches; between two of them the logarithm of the updates is a straight line over
# the logarithm of the batch, and outside nobody knows. The time is updates × seconds of an iteration. A
# budget is in *rank-seconds*, p × time. **A plan is allowed if it stays within the budget with a
# probability of nine in ten.** Which end of an 80% interval says that?


# %% solution="best-plan"
def best_plan(plans, predictions, needs, budget):
    """The index of the plan that is expected first at the goal, of those within the budget in 9 of 10 cases.

    plans        [(p, n, bytes of a bucket)]
    predictions  (m, 3): low, middle, high of an iteration of each plan, in seconds
    needs        {batch: updates to the goal}, at least two; updates in between need not be whole
    budget       rank-seconds

    Plans whose batch is smaller or larger than all in needs are not considered. Returns None if none is left.
    """
    ### BEGIN SOLUTION
    batches = sorted(needs)
    x, y = np.log(batches), np.log([needs[batch] for batch in batches])
    times = {}
    for i, ((p, n, _), (_, middle, high)) in enumerate(zip(plans, predictions, strict=True)):
        if batches[0] <= p * n <= batches[-1]:
            updates = math.exp(np.interp(math.log(p * n), x, y))
            if p * updates * high <= budget:
                times[i] = updates * middle
    best = min(times, key=times.get, default=None)
    ### END SOLUTION
    return best


# %%
NEEDS = {64: 60_000, 256: 16_000, 1024: 5_600, 4096: 3_300}
PLANS = [(p, n, size * MIB) for p in RANKS if p != 3 for n in (8, 16, 32, 64) for size in (1, 4, 16, 64)]
forecast = np.asarray(predict(fitted, PLANS))
for budget in (15e3, 20e3, 25e3, 30e3, 40e3):
    i = best_plan(PLANS, forecast, NEEDS, budget)
    p, n, size = PLANS[i] if i is not None else (0, 0, 0)
    print(
        f"{budget / 3600:5.1f} rank-hours: "
        + (f"{p} ranks, {n} images each, buckets of {size // MIB} MiB" if p else "none")
    )

# %% check="plan-time" points=1 see="9.8"
"""Updates × seconds decide, on a line in the logarithms; outside it nobody knows (1 point)."""
needs = {16: 1000, 64: 250, 256: 200}
plans = [(2, 8, MIB), (4, 8, MIB), (4, 16, MIB), (8, 16, MIB), (16, 32, MIB), (1, 8, MIB)]
seconds = np.array([1.0, 1.3, 2.4, 2.9, 0.1, 0.1])  # 1000, 650, 600, 648.5 s; the last two are outside
predictions = np.stack([seconds * 0.9, seconds, seconds * 1.1], 1)
words = {
    0: "the most updates",
    1: "updates times seconds are the least for plan 2",
    3: "a hundred updates fewer do not outweigh 0.5 s more in each",
    4: "its batch of 512 is larger than any measured",
    5: "its batch of 8 is smaller than any measured",
}
found = best_plan(plans, predictions, needs, 1e9)
assert found == 2, f"plan {found}, not 2" + (f": {words[found]}" if found in words else "")
found = best_plan(plans, predictions * np.array([1.0, 1.0, 1.15, 1.0, 1.0, 1.0])[:, None], needs, 1e9)
assert found == 3, f"where plan 2 takes 690 s, plan 3 with √(250 · 200) = 223.6 updates is first, not {found}"
assert best_plan(plans[4:], predictions[4:], needs, 1e9) is None, "where no plan is left: None"
for plan in [(2, 8, MIB), (16, 16, MIB)]:
    found = best_plan([plan], predictions[:1], needs, 1e9)
    assert found == 0, f"a batch of {plan[0] * plan[1]} is in needs, no smaller or larger one: {found}, not 0"
for middle, want in [(1.0, 0), (1.05, 1)]:  # 2.83 or 2.97 s with a batch of 4, 2.9 s with one of 8
    predicted = np.array([[middle], [1.45]]) * [0.9, 1.0, 1.1]
    found = best_plan([(1, 4, MIB), (1, 8, MIB)], predicted, {2: 4, 8: 2}, 1e9)
    assert found == want, (
        f"where batches of 2 and 8 need 4 and 2 updates, one of 4 needs √8 = 2.83: with {middle} s for each, "
        f"and 1.45 s with a batch of 8, plan {want} is first, not {found}"
    )
### BEGIN HIDDEN TESTS
for seed in range(6):
    random = np.random.default_rng([12, seed])
    needs = {
        b: float(u) for b, u in zip([32, 100, 700], np.sort(random.uniform(100, 5000, 3))[::-1], strict=True)
    }
    plans = [
        (int(p), int(n), MIB)
        for p, n in zip(random.integers(1, 20, 30), random.integers(4, 60, 30), strict=True)
    ]
    predictions = np.sort(random.uniform(0.1, 0.2, (30, 1)) * random.uniform(0.8, 1.2, (30, 3)), 1)
    times = {}
    for i, (p, n, _) in enumerate(plans):
        for (b0, u0), (b1, u1) in zip(list(needs.items())[:-1], list(needs.items())[1:], strict=True):
            if b0 <= p * n <= b1:
                times[i] = predictions[i, 1] * u0 * (p * n / b0) ** (math.log(u1 / u0) / math.log(b1 / b0))
    order = dict(random.permutation(np.array(list(needs.items()), dtype=object)).tolist())
    order = {int(b): float(u) for b, u in order.items()}
    assert best_plan(plans, predictions, order, 1e12) == min(times, key=times.get), "other plans"
### END HIDDEN TESTS

# %% check="plan-budget" points=1 see="9.8"
"""Within the budget in nine of ten cases: ranks × updates × the upper end (1 point)."""
needs = {10: 100, 1000: 100}
plans = [(8, 10, MIB), (4, 10, MIB), (2, 10, MIB)]
predictions = np.array(
    [[0.9, 1.0, 1.3], [1.6, 2.0, 2.6], [3.5, 4.2, 4.5]]
)  # 100, 200, 420 s; at most 1040, 1040, 900
for budget, want, what in [
    (1040.5, 0, "1,040.5 rank-seconds are just enough for the first"),
    (1039.5, 2, "with 1,039.5 rank-seconds only the third stays within them in nine of ten cases"),
    (899, None, "for 899 rank-seconds there is no plan"),
]:
    found = best_plan(plans, predictions, needs, budget)
    assert found == want, f"{what}; the answer is {want}, not {found}"
### BEGIN HIDDEN TESTS
predictions = np.array([[0.5, 3.0, 9.0], [0.9, 1.1, 1.2], [2.0, 2.1, 2.2]])
for budget, want in [(7200.5, 1), (480.5, 1), (479.5, 2), (441, 2), (439, None)]:
    assert best_plan(plans, predictions, needs, budget) == want, "other budgets"
### END HIDDEN TESTS

# %% [markdown]
# ## 9. In your own words
#
# A colleague reads your figure of section 7: "So many of twelve inside, so the intervals are calibrated;
# and for 64 ranks I would simply take intervals of the same ± percentage as for 8." **What can twelve runs
# say about 80%, and why do the checks need many hidden machines? And is the colleague right about the 64
# ranks?** Explain in about three sentences, with numbers of yours: the cell below prints what you need.

# %%
# as if the twelve were independent
for inside in (6, 8, 10, 12):
    odds = sum(math.comb(12, k) * 0.8**k * 0.2 ** (12 - k) for k in range(inside + 1))
    print(f"intervals that hold 80%: at most {inside} of 12 inside in {odds:.0%} of all cases")
CASES = [(8, 16, 16 * MIB), (8, 64, 16 * MIB), (64, 16, MIB), (64, 16, 16 * MIB), (64, 64, 16 * MIB)]
for (p, n, bucket), (_, middle, high) in zip(CASES, np.asarray(predict(fitted, CASES)), strict=True):
    print(f"{p:2} ranks, {n} images, {bucket // MIB:2} MiB: {1e3 * middle:6.1f} ms,", end=" ")
    print(f"up to {high / middle - 1:+.1%}")

# %% [markdown] explain="how-sure" points=2
# ### BEGIN SOLUTION
# **Rubric.** One point for the twelve runs, one for the 64 ranks. The numbers are those of the student's
# own record (each seal has other runs) and table. Language and length cost nothing.
#
# - *Twelve runs*: right intervals have at most 8 of 12 inside in 21% of all cases and at most 10 in 73%, so
#   8 and 12 are both no surprise, and twelve runs tell 80% from 65% or 90% hardly (half a point). All
#   twelve hang on one fit: if its noise or its α came out too small, all intervals are too narrow together.
#   It takes many machines, and runs that are made after the prediction, so that nobody can have widened the
#   intervals to fit (half a point; either of the two reasons is enough).
# - *64 ranks*: the colleague is wrong, or right by luck: not the ranks decide, but how much a prediction
#   hangs on what the runs hardly show. 8 ranks with buckets of 16 MiB have +3.0%, 64 ranks +2.9%, and with
#   buckets of 1 MiB +6.0% (half a point). There 2 · 63 latencies for each of many buckets are most of the
#   time, and α is the number that is known least (half a point). An answer that speaks of the second part
#   of the variance, S (JᵀJ)⁻¹ Sᵀ, and says that it is large where S looks into a direction in which there
#   were no runs, has this half point, too.
#
# **Two points.** "I had 8 of 12 inside. With intervals that are right one has at most 8 in a fifth of all
# cases, so this does not tell 80% from 70%, and since all twelve come from one fit they are not even twelve
# independent cases; the checks need many machines for that. For 64 ranks the same percentage is wrong with
# small buckets, +6.0% against +3.0%, since there the time is latencies, and α is hardly known from my
# fourteen runs; with 16 MiB it would have been all right."
#
# **One point.** "12 runs are too few, 10 of 12 would be 83% and 9 of 12 75%, you need hundreds of them from
# other machines. For 64 ranks the interval must be wider because that is further away." (No number for the
# second, and with 16 MiB it is not so.)
#
# **No point.** "67% is less than 80%, so my intervals are too narrow and I should have multiplied them by
# 1.2."
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - A bound on how far workers drift apart trades waiting for staleness; with k = 0 it is synchronous
#   training, without a bound the parameter server.
# - What backup workers save is an order statistic: exact, for any measured distribution of times.
# - A model of five numbers, fitted to fourteen small runs, predicts runs of 64 ranks; neither baseline
#   comes near.
# - Residuals of fitted runs are smaller than the noise, and an interval grows where a prediction hangs on
#   what the runs hardly show.
# - A hash makes "before" a property of a record, for anybody to check who has kept its last hash.
# - Decisions are made with the end of the interval that they depend on.
#
# Open questions, to take along:
#
# 1. Your noise is a percentage, the same for all runs. What would you look at to find out that on a real
#    machine it is not?
# 2. A seal proves that a prediction was made before *this* run. What stops somebody from sealing a hundred
#    of them, and showing the best? (`first_broken` allows a prediction that is made anew.)
# 3. *Hardware.* The next machine has nodes of 8 ranks and a faster network. Which of the five numbers would
#    you take over, and which runs would you ask for first?
