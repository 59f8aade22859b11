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
# # Assignment 11: shard it
#
# In data-parallel training, every rank holds all weights, all gradients and the whole state of the optimizer.
# A model with 7 billion parameters, trained with Adam in mixed precision, needs 16 bytes for each of them:
# 112 GB, more than an H100 has. **Which of these bytes does a rank need all the time, and which can it get
# from the other ranks when it needs them?**
#
# | section | what you write | points | minutes |
# |---|---|---|---|
# | 1 | `held_bytes`, `sent_bytes`: memory and messages of ZeRO's stages | 4 | 40 |
# | 2 | `momentum_step`, `adam_step`: optimizers with a sharded state | 6 | 70 |
# | 3 | `layer_by_layer`: weights that are gathered, used and freed | 3 | 40 |
# | 4 | `tensor_forward`, `tensor_backward`: two dense layers cut by columns and rows | 5 | 60 |
# | 5 | `one_forward_one_backward`, `bubble_and_peak`: a pipeline | 5 | 70 |
# | 6 | `choose_split`: data, tensor and pipeline parallelism for a given cluster | 2 | 40 |
# | 7 | a written answer about your splits | 2 | 20 |
#
# There are ten blanks (`YOUR CODE HERE`), one written answer and 27 points. Autograder tests award 25 points
# in 21 checks; the written answer is graded manually. The whole assignment takes 5 to 7 hours. This is an
# estimate: the minutes above add up to nearly six hours.
#
# The background is in lecture 11; the collectives are those of lecture 06. Fill in a blank, run the scratch
# cell below it, then run the checks. A check that fails tells you what it observed. Most checks also have
# hidden tests, with other sizes. All code is NumPy and runs in about a minute on two cores.
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | p | number of ranks, or of pipeline stages | n | number of parameters |
# | r | a rank, from 0 to p − 1 | n_r | number of parameters in chunk r |
# | m | number of micro-batches | N | number of examples in a batch |

# %% given="setup"
import functools
import itertools
import os

import matplotlib.pyplot as plt
import numpy as np

from cluster.checks import expect
from cluster.network import Network, simulate
from cluster.network.chunks import bounds
from cluster.network.recorded import recorded_on_ranks

plt.style.use("cluster.course")
NETWORK = Network(latency=20e-6, time_per_byte=0.8e-9)  # 10 Gbit/s
SECRET = int.from_bytes(os.urandom(8), "little")  # a seed that is not known in advance

# %% [markdown]
# ## The collectives
#
# Rank r owns chunk r of a vector with n elements. `bounds(n, p)` returns the p + 1 cuts. If p does not divide
# n, the first chunks are longer by one element. Use the following functions, or your own of assignment 06.


# %% given="collectives"
def reduce_scatter(comm, x):
    """The sum of all ranks' vectors x (n,), of which rank r gets chunk r: a new array; x is unchanged.

    A rank sends each other rank that rank's chunk: n − n_r elements in p − 1 messages.
    """
    cuts, others = bounds(len(x), comm.size), [r for r in range(comm.size) if r != comm.rank]
    sent = [comm.isend(x[cuts[r] : cuts[r + 1]], r) for r in others]
    parts = {r: comm.receive(r) for r in others}
    parts[comm.rank] = x[cuts[comm.rank] : cuts[comm.rank + 1]]
    total = parts[0].copy()
    for r in range(1, comm.size):
        comm.add(total, parts[r])
    for request in sent:
        request.wait()
    return total


def all_gather(comm, own):
    """The chunks of all ranks, one after another: (n,). own: this rank's chunk (n_r,), which is unchanged.

    A rank sends its own chunk to each other rank: (p − 1) n_r elements in p − 1 messages.
    """
    others = [r for r in range(comm.size) if r != comm.rank]
    sent = [comm.isend(own, r) for r in others]
    parts = {r: comm.receive(r) for r in others} | {comm.rank: own}
    for request in sent:
        request.wait()
    return np.concatenate([parts[r] for r in range(comm.size)])


def all_reduce(comm, x):
    """The sum of all ranks' arrays x, of any shape, on all ranks: a reduce-scatter and an all-gather."""
    return all_gather(comm, reduce_scatter(comm, x.ravel())).reshape(x.shape)


# %%
run = simulate(lambda comm: reduce_scatter(comm, np.arange(7.0) * (comm.rank + 1)), ranks=3, network=NETWORK)
print(bounds(7, 3), [part.tolist() for part in run.results], [counts.bytes_sent for counts in run.counts])

# %% [markdown]
# ## 1. The bytes that a rank holds and sends
#
# ZeRO shards in stages. *Sharded* means that rank r keeps only chunk r.
#
# | stage | sharded | a step consists of |
# |---|---|---|
# | 0 | nothing | an all-reduce of the gradients |
# | 1 | the state of the optimizer | a reduce-scatter of the gradients, an all-gather of the weights |
# | 2 | the state and the gradients | the same |
# | 3 | the state, the gradients and the weights | the same, and one more all-gather of the weights |
#
# In stage 3, the weights are gathered for the forward pass and again for the backward pass. In mixed
# precision with Adam, weights and gradients have 2 bytes each. The state has 12: a weight in float32, the
# *master weight*, and two moments in float32. Count what stays on a rank between two steps; gradients that
# are not sharded count as n, and what a rank holds only for a moment does not count.
#
# **Predict**: with 4 ranks and Adam in mixed precision, which stage saves most of the 16 bytes per parameter?

# %%
my_stage_that_saves_most = None  # 1, 2 or 3


# %% solution="held-bytes"
def held_bytes(n, p, stage, weight=2, gradient=2, state=12):
    """The bytes that each of p ranks holds for n parameters: a list of p integers.

    stage                    ZeRO's stage, 0 to 3
    weight, gradient, state  bytes per parameter
    """
    cuts = bounds(n, p)
    ### BEGIN SOLUTION
    held = []
    for rank in range(p):
        own = cuts[rank + 1] - cuts[rank]
        parts = [(weight, 3), (gradient, 2), (state, 1)]  # and from which stage on each is sharded
        held.append(sum(size * (own if stage >= first else n) for size, first in parts))
    ### END SOLUTION
    return held


# %%
for stage in range(4):
    print(f"stage {stage}: 7 parameters on 3 ranks: {held_bytes(7, 3, stage)} bytes")


# %% given="judge-of-bytes"
def bytes_agree(function, cases, wanted, hints):
    """Assert that function(*case) returns the integers wanted(*case).

    hints: {a misconception: the function that returns what it leads to}.
    """
    for n, p, stage, *sizes in cases:
        found = function(n, p, stage, *sizes)
        wrong = {text: other(n, p, stage, *sizes) for text, other in hints.items()}
        name = f"the bytes of {n} parameters on {p} ranks in stage {stage}, {sizes} bytes per parameter,"
        expect(np.asarray(found).tolist(), wanted(n, p, stage, *sizes), wrong, name)


def held_by(n, p, stage, weight, gradient, state, shard=None, first=(3, 2, 1)):
    """The bytes held per rank. shard: the sizes of the chunks; first: the stages that shard each part."""
    shard = np.diff(bounds(n, p)).tolist() if shard is None else shard
    parts = list(zip((weight, gradient, state), first, strict=True))
    return [sum(size * (own if stage >= at else n) for size, at in parts) for own in shard]


HELD_HINTS = {
    "the elements left over by n // p are on no rank.": lambda n, p, *rest: held_by(
        n, p, *rest, shard=[n // p] * p
    ),
    "all elements left over by n // p are on the last rank; `bounds` cuts otherwise.": (
        lambda n, p, *rest: held_by(n, p, *rest, shard=[n // p] * (p - 1) + [n - n // p * (p - 1)])
    ),
    "stage 1 shards the state, stage 2 the gradients as well: not the other way round.": (
        lambda *case: held_by(*case, first=(3, 1, 2))
    ),
    "stage 1 shards the state only, stage 2 the state and the gradients.": (
        lambda *case: held_by(*case, first=(3, 1, 1))
    ),
    "stage 3 shards the weights, too.": lambda *case: held_by(*case, first=(4, 2, 1)),
}


# %% check="held-bytes-of-stages" points=2 see="11.2"
"""A rank holds its chunk of what the stage shards, and all of the rest, for uneven chunks, too (2 points)."""
cases = [(n, p, stage, 2, 2, 12) for n, p in ((12, 3), (7, 3), (10, 4)) for stage in range(4)]
bytes_agree(held_bytes, cases + [(7, 3, stage, 4, 4, 4) for stage in range(4)], held_by, HELD_HINTS)
### BEGIN HIDDEN TESTS
cases = [(n, p, stage, 2, 4, 12) for n, p in ((101, 8), (3, 5), (9, 1)) for stage in range(4)]
bytes_agree(held_bytes, cases + [(1_000_003, 64, stage, 4, 2, 8) for stage in range(4)], held_by, {})
### END HIDDEN TESTS

# %% [markdown]
# And how many bytes does a rank send in one step with the collectives above? Ranks with a longer chunk send
# less in a reduce-scatter, and more in an all-gather.


# %% solution="sent-bytes"
def sent_bytes(n, p, stage, weight=2, gradient=2):
    """The bytes that each of p ranks sends in one step of a ZeRO stage, 0 to 3: a list of p integers.

    weight, gradient: bytes per parameter. The collectives are `reduce_scatter`, `all_gather`, `all_reduce`.
    """
    cuts = bounds(n, p)
    ### BEGIN SOLUTION
    sent = []
    for rank in range(p):
        own = cuts[rank + 1] - cuts[rank]
        gathered = {0: gradient, 1: weight, 2: weight, 3: 2 * weight}[stage]  # bytes per parameter
        sent.append(gradient * (n - own) + gathered * (p - 1) * own)
    ### END SOLUTION
    return sent


# %%
def first_stage(comm):
    """Stage 1 with gradients of 4 bytes and weights of 2 bytes."""
    own = reduce_scatter(comm, np.ones(7, np.float32))
    return all_gather(comm, own.astype(np.float16))


counted = [counts.bytes_sent for counts in simulate(first_stage, ranks=4, network=NETWORK).counts]
print("counted:", counted, " sent_bytes:", sent_bytes(7, 4, 1, weight=2, gradient=4))


# %% given="bytes-sent"
def sent_by(n, p, stage, weight, gradient, shard=None, gathers=(0, 1, 1, 2), reduced=1):
    """The bytes sent per rank. gathers: all-gathers of the weights per stage; reduced: of the gradients."""
    shard = np.diff(bounds(n, p)).tolist() if shard is None else shard
    again = gradient if stage == 0 or reduced == 2 else 0  # the second half of an all-reduce
    return [
        gradient * (n - own) + again * (p - 1) * own + gathers[stage] * weight * (p - 1) * own
        for own in shard
    ]


SENT_HINTS = {
    "the elements left over by n // p are sent by no rank.": lambda n, p, *rest: sent_by(
        n, p, *rest, shard=[n // p] * p
    ),
    "the gradients are all-reduced in all stages; from stage 1 on, a reduce-scatter suffices.": (
        lambda *case: sent_by(*case, reduced=2)
    ),
    "in stage 3, the weights are gathered for the forward pass and again for the backward pass.": (
        lambda *case: sent_by(*case, gathers=(0, 1, 1, 1))
    ),
    "the weights are gathered in three passes, not in two.": (
        lambda *case: sent_by(*case, gathers=(0, 1, 1, 3))
    ),
    "the bytes of a weight and of a gradient are exchanged.": (
        lambda n, p, stage, weight, gradient: sent_by(n, p, stage, gradient, weight)
    ),
}


# %% check="sent-bytes-of-stages" points=2 see="11.2"
"""A rank sends n − n_r gradients and its chunk to p − 1 ranks, in stage 3 twice (2 points)."""
sizes = [(12, 3, 2, 4), (7, 3, 4, 2), (10, 4, 2, 4)]  # n, p, bytes of a weight and of a gradient
cases = [(n, p, stage, *rest) for n, p, *rest in sizes for stage in range(4)]
bytes_agree(sent_bytes, cases, sent_by, SENT_HINTS)
### BEGIN HIDDEN TESTS
cases = [(n, p, stage, 1, 4) for n, p in ((101, 8), (3, 5), (9, 1)) for stage in range(4)]
bytes_agree(sent_bytes, cases + [(1_000_003, 64, stage, 4, 2) for stage in range(4)], sent_by, {})
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Optimizers with a sharded state
#
# Each rank has all weights w, its own gradient from its own examples, and **only chunk r of the velocity v**.
# A step of SGD with momentum μ and learning rate η is, with g the mean of the ranks' gradients,
#
# v ← μ v + g,  w ← w − η v.
#
# Which elements of g does rank r need? And how does it get the weights that it has not updated itself?


# %% solution="momentum-step"
def momentum_step(comm, w, v, gradient, rate, momentum):
    """One step of SGD with momentum on this rank, with a sharded velocity.

    w         (n,): all weights, the same on all ranks
    v         (n_r,): this rank's chunk of the velocity
    gradient  (n,): the gradient of this rank's examples

    Returns the new w (n,), the same on all ranks, and the new v (n_r,): new arrays of the dtype of w. The
    arguments are unchanged. All ranks together send 2 (p − 1) n elements.
    """
    rank, p = comm.rank, comm.size
    cuts = bounds(len(w), p)
    mine = slice(cuts[rank], cuts[rank + 1])
    assert v.shape == w[mine].shape, f"v has shape {v.shape}, chunk {rank} has {w[mine].shape}"
    ### BEGIN SOLUTION
    mean = reduce_scatter(comm, gradient) / p
    new_v = momentum * v + mean
    new_w = all_gather(comm, w[mine] - rate * new_v)
    ### END SOLUTION
    return new_w, new_v


# %% [markdown]
# Below, rank r's gradient is r + 1 everywhere, and the mean of three ranks is 2. After one step from w = 1
# and v = 0 with η = 0.1, all weights should be 0.8. Each rank should print the length of its own chunk of
# v.


# %%
def first_step(comm):
    own = np.diff(bounds(7, comm.size))[comm.rank]
    return momentum_step(comm, np.ones(7), np.zeros(own), np.full(7, comm.rank + 1.0), 0.1, 0.9)


for w, v in simulate(first_step, ranks=3, network=NETWORK).results:
    print(w, len(v))


# %% given="trials-of-optimizers"
def try_momentum(comm, steps, w, v, gradients, rate, momentum):
    """Several of your steps: [(w, v) after each]. gradients (2, n): of this rank, used in turn."""
    found = []
    for step in range(steps):
        w, v = momentum_step(comm, w, v, gradients[step % 2], rate, momentum)
        found.append((w, v))
    return found


def try_adam(comm, steps, master, m, v, gradients, rate):
    """Several of your steps: [(weights, master, m, v) after each]. gradients (2, n): as above."""
    found = []
    for step in range(1, steps + 1):
        weights, master, m, v = adam_step(comm, master, m, v, gradients[step % 2], step, rate)
        found.append((weights, master, m, v))
    return found


# %% given="judge-of-steps"
STEPS = 4


def pieces(x, p):
    """The p chunks of x."""
    return np.split(x, bounds(len(x), p)[1:-1])


def drawn(case, seed):
    """Random values of a case (p, n, dtype): w, two states (n,), and gradients (p, 2, n)."""
    p, n, dtype = case
    rng = np.random.default_rng([seed, p, n])
    w, first, second = rng.standard_normal((3, n)).astype(dtype)
    return w, first, second**2, (rng.standard_normal((p, 2, n)) + np.arange(p)[:, None, None]).astype(dtype)


def on_real_ranks(function, calls):
    """The Recording of each call, whose list has the arguments of each rank. AssertionError for an error."""
    made, _ = recorded_on_ranks(function, calls)
    for call, recording in zip(calls, made, strict=True):
        assert not recording.error, f"{len(call)} ranks: {recording.error}"
    return made


def tolerance(dtype):
    """How far results may be from the expected ones, relative and absolute."""
    return {"float64": (1e-9, 1e-11), "float32": (2e-5, 1e-6), "float16": (2e-3, 1e-5)}[np.dtype(dtype).name]


def equal(found, want):
    """Return whether an array has the shape, the dtype and, within rounding, the values of another."""
    if not isinstance(found, np.ndarray) or found.shape != want.shape or found.dtype != want.dtype:
        return False
    rtol, atol = tolerance(want.dtype)
    return bool(np.allclose(found, want, rtol=rtol, atol=atol))


def described(value):
    """An array in a few words, for messages."""
    if isinstance(value, np.ndarray):
        return f"{np.array2string(value, precision=5, threshold=6)} {value.shape} {value.dtype}"
    return f"a {type(value).__name__}"


def trajectories_agree(case, found, wanted, names, hints):
    """Assert that each rank's values after each step are those that wanted() returns.

    found: per rank [(values) per step]; wanted() and the hints' functions return the same form.
    """
    p, n, dtype = case
    want = wanted()
    for rank, steps in enumerate(found):
        for step, values in enumerate(steps):
            values = values if isinstance(values, tuple | list) else [values]
            assert len(values) == len(names), f"{len(values)} values are returned, not {len(names)}: {names}"
            for name, value, right in zip(names, values, want[rank][step], strict=True):
                if equal(value, right):
                    continue
                for text, wrong in hints.items():
                    if same(found, wrong()):
                        raise AssertionError(f"{p} ranks, {n} parameters: {text}")
                raise AssertionError(
                    f"{p} ranks, {n} parameters of {dtype}: after step {step + 1}, rank {rank} has {name} = "
                    f"{described(value)}; one process has {described(right)}"
                )


def same(found, want):
    """Return whether all ranks' values after all steps are equal to others."""
    try:
        return all(
            equal(a, b)
            for one, other in zip(found, want, strict=True)
            for x, y in zip(one, other, strict=True)
            for a, b in zip(x, y, strict=True)
        )
    except (TypeError, ValueError):
        return False


def traffic(call, most_bytes, most_messages, what):
    """Assert that all ranks together sent at most so many bytes and messages, which pass in virtual time."""
    try:
        counts = call.replay(NETWORK).counts
    except RuntimeError as error:
        raise AssertionError(
            f"{what}: in virtual time, the messages lead to {type(error).__name__}"
        ) from error
    sent, messages = sum(one.bytes_sent for one in counts), sum(one.messages_sent for one in counts)
    assert sent <= most_bytes, f"{what}: the ranks send {sent} bytes; {most_bytes} suffice"
    assert messages <= most_messages, f"{what}: the ranks send {messages} messages; {most_messages} suffice"


# %% given="judge-of-momentum"
RATE, MOMENTUM = 0.3, 0.8


def momentum_calls(cases, seed):
    """Per case the arguments of try_momentum on each rank."""
    calls = []
    for case in cases:
        w, v, _, gradients = drawn(case, seed)
        calls.append(
            [[STEPS, w, own, gradients[rank], RATE, MOMENTUM] for rank, own in enumerate(pieces(v, case[0]))]
        )
    return calls


def momentum_alone(case, seed, scale=1.0, order="new", gathered=True, last=False):
    """The steps of one process, in the form of try_momentum's values on p ranks.

    scale: of the mean gradient; order: which velocity moves the weights; gathered: are the other ranks'
    chunks of w up to date; last: has each step the arrays of the last one.
    """
    p, n, dtype = case
    w, v, _, gradients = drawn(case, seed)
    chunks = np.repeat(np.arange(p), np.diff(bounds(n, p)))
    steps, start = [], w
    for step in range(STEPS):
        g = (scale * gradients[:, step % 2].astype(np.float64).mean(axis=0)).astype(dtype)
        before, v = v, MOMENTUM * v + g
        w = w - RATE * (v if order == "new" else before)
        steps.append((w, v))
    steps = [steps[-1]] * STEPS if last else steps
    return [
        [(w if gathered else np.where(chunks == r, w, start), pieces(v, p)[r]) for w, v in steps]
        for r in range(p)
    ]


def momentum_agrees(try_momentum, cases, seed, hinted=True):
    """Assert that your steps on real ranks lead where the steps of one process lead."""
    calls = on_real_ranks(try_momentum, momentum_calls(cases, seed))
    for case, call in zip(cases, calls, strict=True):
        p = case[0]
        wrong = {
            "the gradients are added, not averaged.": {"scale": p},
            "the gradients are divided by p twice.": {"scale": 1 / p},
            "the weights move with the old velocity, not with the new one.": {"order": "old"},
            "each rank updates its own chunk of w, and does not get the others' chunks.": {"gathered": False},
            "an argument is changed: return new arrays.": {"last": True},
        }
        alone = functools.partial(momentum_alone, case, seed)
        hints = {text: functools.partial(alone, **options) for text, options in wrong.items()}
        trajectories_agree(case, call.values, alone, ["w", "v"], hints if hinted else {})


def momentum_traffic(try_momentum, cases, seed):
    """Assert that the ranks send what a step needs, and that what they return needs it.

    A wrong factor of the gradient, or the old velocity, is a matter of the check before.
    """
    variants = [{}, {"scale": "p"}, {"scale": "1/p"}, {"order": "old"}]
    for case, call in zip(cases, on_real_ranks(try_momentum, momentum_calls(cases, seed)), strict=True):
        p, n, dtype = case
        name, size = f"{p} ranks, {n} parameters, {STEPS} steps", np.dtype(dtype).itemsize
        factors = {"p": p, "1/p": 1 / p}
        options = [{key: factors.get(value, value) for key, value in one.items()} for one in variants]
        assert any(same(call.values, momentum_alone(case, seed, **one)) for one in options), (
            f"{name}: w or v are not those of one process"
        )
        traffic(call, STEPS * 2 * (p - 1) * n * size, STEPS * 2 * p * (p - 1), name)


# %% check="momentum-trajectory" points=2 see="11.2"
"""On 2, 3 and 4 real ranks, four steps are those of one process, with uneven chunks (2 points)."""
momentum_agrees(try_momentum, [(2, 7, "float64"), (3, 10, "float64"), (4, 6, "float64")], 0)
### BEGIN HIDDEN TESTS
momentum_agrees(
    try_momentum, [(4, 9, "float32"), (3, 2, "float64"), (1, 5, "float64"), (5, 13, "float64")], SECRET, False
)
### END HIDDEN TESTS

# %% check="momentum-traffic" points=1 see="11.2"
"""All ranks together send 2 (p − 1) n elements per step, which reaches every rank (1 point)."""
momentum_traffic(try_momentum, [(2, 7, "float64"), (3, 10, "float64"), (4, 6, "float64")], 0)
### BEGIN HIDDEN TESTS
momentum_traffic(
    try_momentum, [(4, 9, "float32"), (3, 2, "float64"), (1, 5, "float64"), (5, 13, "float64")], SECRET
)
### END HIDDEN TESTS

# %% [markdown]
# **Adam in mixed precision.** The forward and the backward pass use weights in float16. The optimizer keeps
# master weights in float32, because an update of less than 1/4,096 of a weight is lost in float16. With
# the mean gradient g and the number t of the step, from 1,
#
# m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  w ← w − η · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε).
#
# A rank holds its chunk of m, v and the master weights. Gradients are added in float32. Which dtype do the
# weights have on their way to the other ranks?


# %% solution="adam-step"
def adam_step(comm, master, m, v, gradient, step, rate, beta1=0.9, beta2=0.99, eps=1e-8):
    """One step of Adam on this rank, with a sharded state.

    master, m, v  (n_r,) float32: this rank's chunk of the master weights and of both moments
    gradient      (n,) float32: the gradient of this rank's examples
    step          t: 1, 2, …

    Returns the weights (n,) float16, the same on all ranks, and the new master, m and v (n_r,) float32. The
    arguments are unchanged. All ranks together send (p − 1) n gradients of 4 and weights of 2 bytes.
    """
    p = comm.size
    ### BEGIN SOLUTION
    mean = reduce_scatter(comm, gradient) / p
    m = beta1 * m + (1 - beta1) * mean
    v = beta2 * v + (1 - beta2) * mean**2
    update = m / (1 - beta1**step) / (np.sqrt(v / (1 - beta2**step)) + eps)
    master = master - rate * update
    weights = all_gather(comm, master.astype(np.float16))
    ### END SOLUTION
    return weights, master, m, v


# %%
def first_adam(comm):
    ones = np.ones(np.diff(bounds(7, comm.size))[comm.rank], np.float32)
    return adam_step(comm, ones, 0 * ones, 0 * ones, np.full(7, comm.rank + 1, np.float32), 1, 1e-4)


run = simulate(first_adam, ranks=3, network=NETWORK)
for weights, master, _, _ in run.results:  # the first update of Adam is about the learning rate
    print(weights.dtype, weights[0], 1 - master[0])


# %% given="judge-of-adam"
ADAM_RATE, BETA1, BETA2 = 2e-3, 0.9, 0.99


def adam_calls(cases, seed):
    """Per case the arguments of try_adam on each rank."""
    calls = []
    for case in cases:
        w, m, v, gradients = drawn(case, seed)
        parts = zip(*(pieces(x, case[0]) for x in (w, m, v)), strict=True)
        calls.append([[STEPS, *own, gradients[rank], ADAM_RATE] for rank, own in enumerate(parts)])
    return calls


def adam_alone(case, seed, scale=1.0, corrected=True, squares="of the mean", start=0, kept=np.float32):
    """The steps of one process, in the form of try_adam's values on p ranks.

    scale: of the mean gradient; corrected: with the factors 1 − βᵗ; start: the number before the first
    step; kept: the dtype of the master weights.
    """
    p = case[0]
    w, m, v, gradients = drawn(case, seed)
    steps = []
    for step in range(1, STEPS + 1):
        own = gradients[:, step % 2].astype(np.float64)
        g = scale * own.mean(axis=0)
        square = g**2 if squares == "of the mean" else (own**2).mean(axis=0)
        m = (BETA1 * m + (1 - BETA1) * g).astype(np.float32)
        v = (BETA2 * v + (1 - BETA2) * square).astype(np.float32)
        t = step + start
        one, two = (1 - BETA1**t, 1 - BETA2**t) if corrected else (1, 1)
        w = (w - ADAM_RATE * (m / one) / (np.sqrt(v / two) + 1e-8)).astype(kept).astype(np.float32)
        steps.append((w, m, v))
    return [
        [(w.astype(np.float16), *(pieces(x, p)[r] for x in (w, m, v))) for w, m, v in steps] for r in range(p)
    ]


def adam_agrees(try_adam, cases, seed, hinted=True):
    """Assert that your steps on real ranks lead where the steps of one process lead."""
    calls = on_real_ranks(try_adam, adam_calls(cases, seed))
    for case, call in zip(cases, calls, strict=True):
        p = case[0]
        wrong = {
            "the gradients are added, not averaged.": {"scale": p},
            "the gradients are divided by p twice.": {"scale": 1 / p},
            "the moments are not divided by 1 − βᵗ.": {"corrected": False},
            "v is made of the mean of the ranks' squares; it is the square of the mean.": {"squares": "all"},
            "the corrections are those of the next step: t is 1 in the first one.": {"start": 1},
            "the master weights are rounded to float16 in each step.": {"kept": np.float16},
        }
        alone = functools.partial(adam_alone, case, seed)
        hints = {text: functools.partial(alone, **options) for text, options in wrong.items()}
        names = ["weights", "master", "m", "v"]
        trajectories_agree(case, call.values, alone, names, hints if hinted else {})


def adam_traffic(try_adam, cases, seed):
    """As momentum_traffic: 4 bytes per gradient and 2 per weight."""
    for case, call in zip(cases, on_real_ranks(try_adam, adam_calls(cases, seed)), strict=True):
        p, n, _ = case
        name = f"{p} ranks, {n} parameters, {STEPS} steps"
        options = [
            {},
            {"scale": p},
            {"scale": 1 / p},
            {"corrected": False},
            {"start": 1},
            {"kept": np.float16},
        ]
        assert any(same(call.values, adam_alone(case, seed, **one)) for one in options), (
            f"{name}: the weights or the state are not those of one process"
        )
        traffic(call, STEPS * 6 * (p - 1) * n, STEPS * 2 * p * (p - 1), name)


# %% check="adam-trajectory" points=2 see="11.2"
"""On 2, 3 and 4 real ranks, four steps of Adam are those of one process (2 points)."""
adam_agrees(try_adam, [(2, 7, "float32"), (3, 10, "float32"), (4, 6, "float32")], 0)
### BEGIN HIDDEN TESTS
adam_agrees(
    try_adam, [(4, 9, "float32"), (3, 2, "float32"), (1, 5, "float32"), (5, 13, "float32")], SECRET, False
)
### END HIDDEN TESTS

# %% check="adam-traffic" points=1 see="11.2"
"""A gradient takes 4 bytes, a weight 2: 6 (p − 1) n bytes per step, which reach every rank (1 point)."""
adam_traffic(try_adam, [(2, 7, "float32"), (3, 10, "float32"), (4, 6, "float32")], 0)
### BEGIN HIDDEN TESTS
adam_traffic(try_adam, [(4, 9, "float32"), (3, 2, "float32"), (1, 5, "float32"), (5, 13, "float32")], SECRET)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Stage 3: weights that are there only while they are used
#
# A network has L dense layers without biases: h ← tanh(h Wᵢ), i = 0, …, L − 1, and h is x at first. The
# loss is half the sum of the squares of h − target. A rank holds chunks of the Wᵢ. Before it uses a layer,
# it calls `gather(i)`, which returns Wᵢ; after that it calls `free(i)`. From then on it must not use that
# array. In the backward pass it hands the gradient of each Wᵢ over by `scatter(i, gradient)`.
#
# The check provides these three functions and counts the bytes that are gathered at the same time. In one of
# the checks, the second `gather(i)` returns *other* weights than the first. A backward pass that uses the
# weights gathered for it returns other gradients then, and one that has kept the old arrays does not.


# %% solution="layer-by-layer"
def layer_by_layer(x, target, layers, gather, free, scatter):
    """The forward and the backward pass with the weights of one layer in memory at a time.

    x, target  (N, d_0) and (N, d_L); layers: L
    gather(i)  returns the weights (d_i, d_{i+1}) of layer i, which take memory until free(i)
    scatter(i, gradient)  takes the gradient of the loss with respect to the weights of layer i, once

    Returns the loss, a float. No layer is gathered more than twice.
    """
    ### BEGIN SOLUTION
    stored = [x]
    for i in range(layers):
        w = gather(i)
        stored.append(np.tanh(stored[-1] @ w))
        free(i)
    slope = stored[-1] - target
    loss = 0.5 * float((slope**2).sum())
    for i in reversed(range(layers)):
        before = slope * (1 - stored[i + 1] ** 2)
        w = gather(i)
        scatter(i, stored[i].T @ before)
        slope = before @ w.T
        free(i)
    ### END SOLUTION
    return loss


# %% given="memory"
class Memory:
    """Hands out weights layer by layer and counts: `peak` bytes at the same time, how often each layer.

    again: the weights that are returned when a layer is gathered after the first time; the same by default.
    """

    def __init__(self, weights, again=None):
        self.weights, self.again = weights, again or weights
        self.there, self.peak = {}, 0
        self.gathered, self.gradients = [0] * len(weights), [[] for _ in weights]

    def gather(self, i):
        """The weights of layer i."""
        self.there[i] = self.weights[i].nbytes
        self.peak = max(self.peak, sum(self.there.values()))
        self.gathered[i] += 1
        return (self.weights if self.gathered[i] == 1 else self.again)[i].copy()

    def free(self, i):
        """The weights of layer i take no memory any more."""
        self.there.pop(i, None)

    def scatter(self, i, gradient):
        """Take the gradient of layer i."""
        self.gradients[i].append(np.array(gradient))


def dense_network(widths, examples, seed):
    """Random x (N, d_0), target (N, d_L), weights, and other weights of the same shapes."""
    rng = np.random.default_rng([seed, *widths])
    shapes = list(itertools.pairwise(widths))
    weights, others = ([rng.standard_normal(shape) * 0.7 for shape in shapes] for _ in range(2))
    return (
        rng.standard_normal((examples, widths[0])),
        rng.standard_normal((examples, widths[-1])),
        weights,
        others,
    )


def gradients_by(x, target, weights, backward):
    """The loss, and its gradients with `backward`, the weights that the backward pass multiplies by."""
    stored = [x]
    for w in weights:
        stored.append(np.tanh(stored[-1] @ w))
    slope, gradients = stored[-1] - target, []
    loss = 0.5 * float((slope**2).sum())
    for i in reversed(range(len(weights))):
        slope = slope * (1 - stored[i + 1] ** 2)
        gradients.insert(0, stored[i].T @ slope)
        slope = slope @ backward[i].T
    return loss, gradients


# %%
x, target, weights, _ = dense_network([3, 5, 4, 2], 6, seed=1)
memory = Memory(weights)
loss = layer_by_layer(x, target, 3, memory.gather, memory.free, memory.scatter)
largest, whole = max(w.nbytes for w in weights), sum(w.nbytes for w in weights)
print(f"loss {loss:.4f} ({gradients_by(x, target, weights, weights)[0]:.4f} in one process)")
print(
    f"peak {memory.peak} bytes; the largest layer has {largest}, the network {whole}; "
    f"gathered {memory.gathered} times"
)


# %% given="judge-of-layers"
NETWORKS = [([3, 5, 4, 2], 6), ([6, 2, 7], 3)]  # widths, examples
HIDDEN_NETWORKS = [([2, 9, 3, 8, 1], 4), ([5, 4], 7), ([4, 4, 3, 11], 2)]


def trained_by(layer_by_layer, network, seed, changed):
    """Run it with a new Memory; changed: later gathers return other weights. Returns memory, loss, x, …."""
    x, target, weights, others = dense_network(*network, seed)
    memory = Memory(weights, others if changed else None)
    loss = layer_by_layer(x, target, len(weights), memory.gather, memory.free, memory.scatter)
    return memory, loss, x, target, weights, others


def gradients_agree(layer_by_layer, networks, seed, changed=False):
    """Assert that the loss is right and each gradient is handed over once; return the Memory objects."""
    made = []
    for network in networks:
        memory, loss, x, target, weights, others = trained_by(layer_by_layer, network, seed, changed)
        used = [
            o if changed and g > 1 else w for w, o, g in zip(weights, others, memory.gathered, strict=True)
        ]
        want, gradients = gradients_by(x, target, weights, used)
        name = f"widths {network[0]}"
        expect(loss, want, name=f"{name}: the loss")
        for i, (found, right) in enumerate(zip(memory.gradients, gradients, strict=True)):
            assert len(found) == 1, (
                f"{name}: the gradient of layer {i} is handed over {len(found)} times, not once"
            )
            hints = {}
            if changed:
                text = "the backward pass uses weights that were freed after the forward pass."
                hints[text] = gradients_by(x, target, weights, weights)[1][i]
            expect(found[0], right, hints, f"{name}: the gradient of layer {i}")
        made.append(memory)
    return made


# %% check="layers-gradients" points=1 see="11.2"
"""The loss and the gradients of all layers are those of one process (1 point)."""
gradients_agree(layer_by_layer, NETWORKS, 0)
### BEGIN HIDDEN TESTS
gradients_agree(layer_by_layer, HIDDEN_NETWORKS, SECRET)
### END HIDDEN TESTS

# %% check="layers-peak" points=1 see="11.2"
"""At no time is more than the largest layer gathered, and in the end nothing (1 point)."""
for network in NETWORKS:
    memory, loss, x, target, weights, _ = trained_by(layer_by_layer, network, 0, False)
    expect(loss, gradients_by(x, target, weights, weights)[0], name=f"widths {network[0]}: the loss")
    largest = max(w.nbytes for w in weights)
    assert memory.peak <= largest, (
        f"widths {network[0]}: {memory.peak} bytes are gathered at the same time; "
        f"the largest layer has {largest}"
    )
    assert not memory.there, f"widths {network[0]}: layers {sorted(memory.there)} are not freed at the end"
### BEGIN HIDDEN TESTS
for network in HIDDEN_NETWORKS:
    memory, loss, x, target, weights, _ = trained_by(layer_by_layer, network, SECRET, False)
    expect(loss, gradients_by(x, target, weights, weights)[0])
    assert memory.peak <= max(w.nbytes for w in weights) and not memory.there, "too much memory"
### END HIDDEN TESTS

# %% check="layers-gathered-again" points=1 see="11.2"
"""The backward pass uses the weights gathered for it, and no layer is gathered three times (1 point)."""
for network, memory in zip(NETWORKS, gradients_agree(layer_by_layer, NETWORKS, 0, changed=True), strict=True):
    assert max(memory.gathered) <= 2, f"widths {network[0]}: the layers are gathered {memory.gathered} times"
### BEGIN HIDDEN TESTS
for memory in gradients_agree(layer_by_layer, HIDDEN_NETWORKS, SECRET, changed=True):
    assert max(memory.gathered) <= 2, "a layer is gathered three times"
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Two dense layers, cut by columns and rows
#
# Two layers compute y = relu(x A + a) B + b. With *tensor parallelism*, rank r holds some columns of A, the
# same elements of a, and the rows of B that belong to them. All ranks have x and b. Then a rank computes
# its columns of the hidden layer alone. Its product with its rows of B has the shape of y already, but is
# only a part of the sum.


# %% solution="tensor-forward"
def tensor_forward(comm, x, a, a_bias, b, b_bias):
    """The output of two dense layers, with one all-reduce.

    x          (N, d), the same on all ranks
    a, a_bias  (d, h_r), (h_r,): this rank's columns
    b          (h_r, k): this rank's rows;  b_bias  (k,), the same on all ranks

    Returns y (N, k), the same on all ranks, and this rank's part (N, h_r) of the hidden layer, after relu.
    """
    ### BEGIN SOLUTION
    hidden = np.maximum(x @ a + a_bias, 0)
    y = all_reduce(comm, hidden @ b) + b_bias
    ### END SOLUTION
    return y, hidden


# %% [markdown]
# In the backward pass, all ranks have dy, the gradient of the loss with respect to y. Which of the gradients
# does a rank compute alone? Which one is a sum over the ranks?


# %% solution="tensor-backward"
def tensor_backward(comm, x, a, b, hidden, dy):
    """The gradients of two dense layers, with one all-reduce.

    x, a, b  as in tensor_forward;  hidden  (N, h_r), as it was returned
    dy       (N, k), the gradient with respect to y, the same on all ranks

    Returns dx (N, d), the same on all ranks, da (d, h_r), da_bias (h_r,), db (h_r, k), and db_bias (k,).
    """
    ### BEGIN SOLUTION
    db, db_bias = hidden.T @ dy, dy.sum(axis=0)
    slope = (dy @ b.T) * (hidden > 0)
    da, da_bias = x.T @ slope, slope.sum(axis=0)
    dx = all_reduce(comm, slope @ a.T)
    ### END SOLUTION
    return dx, da, da_bias, db, db_bias


# %%
def both_ways(comm):
    """Two layers with h = 5 on p ranks: y and dx, which do not depend on p."""
    rng = np.random.default_rng(2)
    x, dy = rng.standard_normal((2, 3)), rng.standard_normal((2, 2))
    a, a_bias, b, b_bias = (rng.standard_normal(shape) for shape in ((3, 5), 5, (5, 2), 2))
    cuts = bounds(5, comm.size)
    own = slice(cuts[comm.rank], cuts[comm.rank + 1])
    y, hidden = tensor_forward(comm, x, a[:, own], a_bias[own], b[own], b_bias)
    return y[0], tensor_backward(comm, x, a[:, own], b[own], hidden, dy)[0][0]


for p in (1, 2, 3):
    run = simulate(both_ways, ranks=p, network=NETWORK)
    print(f"p = {p}: y[0], dx[0] on the last rank: {run.results[-1]}; {run.bytes_sent} bytes")


# %% given="judge-of-layers-on-ranks"
LAYERS = [(2, (3, 4, 7, 2)), (3, (5, 3, 13, 4)), (4, (2, 6, 10, 3))]  # p, (N, d, h, k)
# The first of these has a rank without columns.
HIDDEN_LAYERS = [(4, (3, 2, 3, 5)), (1, (2, 3, 4, 2)), (5, (4, 7, 11, 2)), (3, (4, 5, 8, 6), "float32")]
OUTPUTS = {"forward": ["y", "hidden"], "backward": ["dx", "da", "da_bias", "db", "db_bias"]}


def two_layers(case, seed):
    """Random arguments of a case: {name: array}, with the hidden layer and all results of one process."""
    p, (examples, d, h, k), dtype = *case[:2], (*case, "float64")[2]
    rng = np.random.default_rng([seed, p, h])
    shapes = {"x": (examples, d), "a": (d, h), "a_bias": h, "b": (h, k), "b_bias": k, "dy": (examples, k)}
    at = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    at["hidden"] = np.maximum(at["x"] @ at["a"] + at["a_bias"], 0)
    at["y"] = at["hidden"] @ at["b"] + at["b_bias"]
    slope = (at["dy"] @ at["b"].T) * (at["hidden"] > 0)
    at |= {"dx": slope @ at["a"].T, "da": at["x"].T @ slope, "da_bias": slope.sum(axis=0)}
    return at | {"db": at["hidden"].T @ at["dy"], "db_bias": at["dy"].sum(axis=0)}


def part_of(name, value, p, rank):
    """Rank r's part of an array of two_layers."""
    columns = name in ("a", "da", "hidden")
    cuts = bounds(value.shape[1] if columns else len(value), p)
    own = slice(cuts[rank], cuts[rank + 1])
    if columns:
        return value[:, own]
    return value[own] if name in ("a_bias", "da_bias", "b", "db") else value


def layers_on_ranks(function, way, cases, seed):
    """[(case, arrays of one process, the Recording)] of tensor_forward or tensor_backward on real ranks."""
    names = ("x", "a", "a_bias", "b", "b_bias") if way == "forward" else ("x", "a", "b", "hidden", "dy")
    arrays = [two_layers(case, seed) for case in cases]
    calls = [
        [[np.array(part_of(name, at[name], p, rank)) for name in names] for rank in range(p)]
        for (p, *_), at in zip(cases, arrays, strict=True)
    ]
    return list(zip(cases, arrays, on_real_ranks(function, calls), strict=True))


def layers_agree(found, way, only, hints=None):
    """Assert that the ranks' results are the parts of those of one process. only: the names to compare.

    hints: {a misconception: {name: what(arrays, p, rank)}}.
    """
    for (p, sizes, *_), at, call in found:
        for rank, values in enumerate(call.values):
            names = OUTPUTS[way]
            count = len(values) if isinstance(values, tuple | list) else 1
            assert count == len(names), f"rank {rank} returns {count} values, not {len(names)}: {names}"
            for name, value in zip(names, values, strict=True):
                want = part_of(name, at[name], p, rank)
                if name not in only or equal(value, want):
                    continue
                for text, wrong in (hints or {}).items():
                    if name in wrong and equal(value, wrong[name](at, p, rank)):
                        raise AssertionError(f"{p} ranks, (N, d, h, k) = {sizes}, {name}: {text}")
                raise AssertionError(
                    f"{p} ranks, (N, d, h, k) = {sizes}: rank {rank} returns {name} = {described(value)}, "
                    f"and not {described(want)}"
                )


def slope_of(at):
    """The gradient with respect to the hidden layer before relu."""
    return (at["dy"] @ at["b"].T) * (at["hidden"] > 0)


FORWARD_HINTS = {
    "the bias b is added on each rank before the sum, so p times.": {
        "y": lambda at, p, rank: at["y"] + (p - 1) * at["b_bias"]
    },
    "it is this rank's part of the sum: add the parts of all ranks.": {
        "y": lambda at, p, rank: (
            part_of("hidden", at["hidden"], p, rank) @ part_of("b", at["b"], p, rank) + at["b_bias"]
        )
    },
    "the sum is divided by p.": {"y": lambda at, p, rank: (at["y"] - at["b_bias"]) / p + at["b_bias"]},
    "the hidden layer is the one before relu.": {
        "hidden": lambda at, p, rank: part_of("hidden", at["x"] @ at["a"] + at["a_bias"], p, rank)
    },
}
BACKWARD_HINTS = {
    "it is this rank's part of the sum: add the parts of all ranks.": {
        "dx": lambda at, p, rank: part_of("hidden", slope_of(at), p, rank) @ part_of("a", at["a"], p, rank).T
    },
    "the sum is divided by p.": {"dx": lambda at, p, rank: at["dx"] / p},
    "all ranks have the same db_bias already, and it is added up once more.": {
        "db_bias": lambda at, p, rank: p * at["db_bias"]
    },
    "relu passes a gradient only where the hidden layer is positive.": {
        "da": lambda at, p, rank: part_of("da", at["x"].T @ (at["dy"] @ at["b"].T), p, rank),
        "dx": lambda at, p, rank: at["dy"] @ at["b"].T @ at["a"].T,
    },
}


def one_all_reduce(found, name, elements, factors):
    """Assert that the ranks send what one all-reduce of elements(N, d, h, k) sends, and no more.

    The result of that name needs it: it is the right one, or, as other checks say, one of the FACTORS.
    """
    for (p, sizes, *_), at, call in found:
        number = list(OUTPUTS["forward" if name == "y" else "backward"]).index(name)
        wrong = [at[name], *(factor(at, p, 0) for factor in factors)]
        text = f"{p} ranks, (N, d, h, k) = {sizes}"
        assert any(all(equal(values[number], want) for values in call.values) for want in wrong), (
            f"{text}: {name} is not the same sum on all ranks"
        )
        size = at[name].itemsize
        traffic(
            call, 2 * (p - 1) * elements(*sizes) * size, 2 * p * (p - 1), f"{text}: one all-reduce is enough"
        )


FORWARD_FACTORS = [FORWARD_HINTS[text]["y"] for text in list(FORWARD_HINTS)[::2]]
BACKWARD_FACTORS = [one["dx"] for one in list(BACKWARD_HINTS.values())[1:] if "dx" in one]


# %% check="tensor-forward-values" points=1 see="11.3"
"""All ranks return y, and each its part of the hidden layer, for uneven parts, too (1 point)."""
layers_agree(
    layers_on_ranks(tensor_forward, "forward", LAYERS, 0), "forward", OUTPUTS["forward"], FORWARD_HINTS
)
### BEGIN HIDDEN TESTS
found = layers_on_ranks(tensor_forward, "forward", HIDDEN_LAYERS, SECRET)
layers_agree(found, "forward", OUTPUTS["forward"])
### END HIDDEN TESTS

# %% check="tensor-forward-traffic" points=1 see="11.3"
"""y takes one all-reduce of N · k elements (1 point)."""
found = layers_on_ranks(tensor_forward, "forward", LAYERS, 0)
one_all_reduce(found, "y", lambda examples, d, h, k: examples * k, FORWARD_FACTORS)
### BEGIN HIDDEN TESTS
found = layers_on_ranks(tensor_forward, "forward", HIDDEN_LAYERS, SECRET)
one_all_reduce(found, "y", lambda examples, d, h, k: examples * k, FORWARD_FACTORS)
### END HIDDEN TESTS

# %% check="tensor-backward-weights" points=1 see="11.3"
"""Each rank returns the gradients of its own columns, rows and biases (1 point)."""
own = ["da", "da_bias", "db", "db_bias"]
layers_agree(layers_on_ranks(tensor_backward, "backward", LAYERS, 0), "backward", own, BACKWARD_HINTS)
### BEGIN HIDDEN TESTS
layers_agree(layers_on_ranks(tensor_backward, "backward", HIDDEN_LAYERS, SECRET), "backward", own)
### END HIDDEN TESTS

# %% check="tensor-backward-input" points=1 see="11.3"
"""All ranks return dx, the gradient that the layers before need (1 point)."""
layers_agree(layers_on_ranks(tensor_backward, "backward", LAYERS, 0), "backward", ["dx"], BACKWARD_HINTS)
### BEGIN HIDDEN TESTS
layers_agree(layers_on_ranks(tensor_backward, "backward", HIDDEN_LAYERS, SECRET), "backward", ["dx"])
### END HIDDEN TESTS

# %% check="tensor-backward-traffic" points=1 see="11.3"
"""dx takes one all-reduce of N · d elements, and nothing else is sent (1 point)."""
found = layers_on_ranks(tensor_backward, "backward", LAYERS, 0)
one_all_reduce(found, "dx", lambda examples, d, h, k: examples * d, BACKWARD_FACTORS)
### BEGIN HIDDEN TESTS
found = layers_on_ranks(tensor_backward, "backward", HIDDEN_LAYERS, SECRET)
one_all_reduce(found, "dx", lambda examples, d, h, k: examples * d, BACKWARD_FACTORS)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A pipeline
#
# The layers are divided into p *stages*, one per rank, and the batch into m *micro-batches*. Stage s can
# start the forward pass of micro-batch i when stage s − 1 has ended its forward pass of i. It can start the
# backward pass when the next stage has ended its backward pass; the last stage needs its own forward pass. A
# stage does one thing at a time. From the start of a forward pass to the end of the backward pass, a stage
# stores the activations of that micro-batch.
#
# *GPipe* does all forward passes, then all backward passes. Each stage then stores m micro-batches. *1F1B*
# (one forward, one backward) starts with p − 1 − s forward passes on stage s, at most m. Then each stage
# alternates: one forward pass, one backward pass. The remaining backward passes come at the end. Each pass
# starts as soon as the order of its stage and the passes that it needs allow. Draw p = 3 and m = 4 with a
# pencil first. The scratch cell below the blank draws your schedule: a row per stage, with light forward and
# dark backward passes.
#
# **Predict**: which fraction of the time are the stages idle, if p = 4 and m = 8?

# %%
my_idle_fraction = None


# %% solution="one-forward-one-backward"
def one_forward_one_backward(stages, batches, forward, backward):
    """The 1F1B schedule: a list of (start, stage, micro-batch, "F" or "B"), in any order.

    stages, batches    p and m, each 1 or more
    forward, backward  duration of a forward and of a backward pass of one stage and one micro-batch

    Stages and micro-batches are numbered from 0. The first pass starts at 0.
    """
    ### BEGIN SOLUTION
    waiting = []  # of each stage, the passes in their order
    for stage in range(stages):
        first = min(stages - 1 - stage, batches)
        order = [(i, "F") for i in range(first)]
        for i in range(batches - first):
            order += [(first + i, "F"), (i, "B")]
        waiting.append(order + [(i, "B") for i in range(batches - first, batches)])
    ends, free, schedule = {}, [0] * stages, []
    while any(waiting):
        for stage in range(stages):
            while waiting[stage]:
                batch, kind = waiting[stage][0]
                if kind == "F":
                    needed = (stage - 1, batch, "F") if stage else None
                else:
                    needed = (stage + 1, batch, "B") if stage < stages - 1 else (stage, batch, "F")
                if needed and needed not in ends:
                    break
                start = max(free[stage], ends.get(needed, 0))
                free[stage] = ends[stage, batch, kind] = start + (forward if kind == "F" else backward)
                schedule.append((start, stage, batch, kind))
                waiting[stage].pop(0)
    ### END SOLUTION
    return schedule


# %% given="drawing"
def draw_schedule(schedule, forward, backward):
    """A row per stage; forward passes are light, backward passes dark, each with its micro-batch."""
    _, ax = plt.subplots(figsize=(9, 2.5))
    for start, stage, batch, kind in schedule:
        length, color = (forward, "lightsteelblue") if kind == "F" else (backward, "steelblue")
        ax.barh(stage, length, left=start, color=color, edgecolor="black", height=0.9)
        ax.text(start + length / 2, stage, str(batch), ha="center", va="center", fontsize=8)
    ax.set(xlabel="time", ylabel="stage", yticks=range(1 + max(stage for _, stage, _, _ in schedule)))
    ax.invert_yaxis()
    plt.show()


# %%
draw_schedule(one_forward_one_backward(4, 8, 1, 2), 1, 2)


# %% given="simulator"
def run_through(schedule, stages, batches, forward, backward):
    """Assert that a schedule can be executed. Returns its end, and the peak of micro-batches per stage."""
    name = f"p = {stages}, m = {batches}, passes of {forward} and {backward}"
    passes = [tuple(one) for one in schedule]
    assert all(len(one) == 4 for one in passes), f"{name}: an entry is not (start, stage, micro-batch, kind)"
    all_passes = {(s, i, kind) for s in range(stages) for i in range(batches) for kind in "FB"}
    named = [(stage, batch, kind) for _, stage, batch, kind in passes]
    missing, unknown = sorted(all_passes - set(named)), sorted(set(named) - all_passes, key=str)
    assert not unknown, f"{name}: there is no pass (stage, micro-batch, kind) = {unknown[0]}"
    assert not missing, f"{name}: {len(missing)} passes are missing, such as {missing[0]}"
    assert len(named) == len(all_passes), f"{name}: {len(named) - len(all_passes)} passes occur twice"
    length = {"F": forward, "B": backward}
    end = {tuple(rest): start + length[rest[2]] for start, *rest in passes}
    tiny = 1e-9 * (forward + backward)
    assert min(start for start, *_ in passes) >= -tiny, f"{name}: a pass starts before time 0"
    for start, stage, batch, kind in passes:
        if kind == "F":
            needed = (stage - 1, batch, "F") if stage else None
        else:
            needed = (stage + 1, batch, "B") if stage < stages - 1 else (stage, batch, "F")
        assert needed is None or start >= end[needed] - tiny, (
            f"{name}: pass {kind} of micro-batch {batch} starts on stage {stage} at {start}, and what it "
            f"needs, {needed}, ends at {end[needed]}"
        )
        own = (stage, batch, "F")
        assert kind == "F" or start >= end[own] - tiny, f"{name}: B before F on stage {stage}"
    peaks = []
    for stage in range(stages):
        own = sorted((start, kind, batch) for start, s, batch, kind in passes if s == stage)
        for before, after in itertools.pairwise(own):
            assert after[0] >= before[0] + length[before[1]] - tiny, (
                f"{name}: stage {stage} is not done with micro-batch {before[2]} when the next pass starts "
                f"at {after[0]}"
            )
        stored, peak = 0, 0
        for _, kind, _ in own:
            stored += 1 if kind == "F" else -1
            peak = max(peak, stored)
        peaks.append(peak)
    return max(end.values()), peaks


PIPELINES = [(2, 3, 1, 2), (4, 8, 1, 2), (3, 7, 2, 3), (1, 4, 1, 1)]  # p, m, forward, backward
HIDDEN_PIPELINES = [(5, 3, 1, 2), (6, 13, 3, 4), (4, 4, 1.5, 1), (3, 1, 1, 2), (8, 21, 0.25, 0.5)]


def scheduled(function, case):
    """Your schedule of a case."""
    return run_through(function(*case), *case)


# %% check="schedule-possible" points=1 see="11.4"
"""Each pass occurs once, after what it needs, and a stage does one thing at a time (1 point)."""
for case in PIPELINES:
    scheduled(one_forward_one_backward, case)
### BEGIN HIDDEN TESTS
for case in HIDDEN_PIPELINES:
    scheduled(one_forward_one_backward, case)
### END HIDDEN TESTS

# %% check="schedule-bubble" points=1 see="11.4"
"""The schedule ends after (m + p − 1) forward and backward passes (1 point)."""
for case in PIPELINES:
    p, m, forward, backward = case
    end, _ = scheduled(one_forward_one_backward, case)
    want = (m + p - 1) * (forward + backward)
    assert end <= want * (1 + 1e-9), f"p = {p}, m = {m}: it ends at {end:g}, and {want:g} is possible"
### BEGIN HIDDEN TESTS
for case in HIDDEN_PIPELINES:
    end, _ = scheduled(one_forward_one_backward, case)
    assert end <= (case[1] + case[0] - 1) * (case[2] + case[3]) * (1 + 1e-9), "it takes longer than possible"
### END HIDDEN TESTS

# %% check="schedule-memory" points=1 see="11.4"
"""Stage s stores at most p − s micro-batches at a time (1 point)."""
for case in PIPELINES:
    p, m, *_ = case
    _, peaks = scheduled(one_forward_one_backward, case)
    want = [min(p - s, m) for s in range(p)]
    gpipe = " That is GPipe's memory." if peaks == [m] * p else ""
    assert all(peak <= most for peak, most in zip(peaks, want, strict=True)), (
        f"p = {p}, m = {m}: the stages store {peaks} micro-batches; {want} are enough.{gpipe}"
    )
### BEGIN HIDDEN TESTS
for case in HIDDEN_PIPELINES:
    _, peaks = scheduled(one_forward_one_backward, case)
    assert all(peak <= min(case[0] - s, case[1]) for s, peak in enumerate(peaks)), "too much is stored"
### END HIDDEN TESTS

# %% [markdown]
# Now measure *any* schedule, such as GPipe's or one from another program. The *bubble* is the fraction of
# the time, from the first start to the last end, in which the stages are idle, on average over all stages.


# %% solution="bubble-and-peak"
def bubble_and_peak(schedule, stages, forward, backward):
    """The bubble, a fraction, and the peak of stored micro-batches per stage, a list of integers.

    schedule: [(start, stage, micro-batch, "F" or "B")] in any order. The first start need not be 0.
    """
    ### BEGIN SOLUTION
    length = {"F": forward, "B": backward}
    begin = min(start for start, *_ in schedule)
    end = max(start + length[kind] for start, _, _, kind in schedule)
    busy = sum(length[kind] for *_, kind in schedule)
    bubble = 1 - busy / (stages * (end - begin))
    peaks, stored = [0] * stages, [0] * stages
    for _, stage, _, kind in sorted(schedule, key=lambda one: one[0]):
        stored[stage] += 1 if kind == "F" else -1
        peaks[stage] = max(peaks[stage], stored[stage])
    ### END SOLUTION
    return bubble, peaks


# %%
bubble, peaks = bubble_and_peak(one_forward_one_backward(4, 8, 1, 2), 4, 1, 2)
print(f"1F1B: bubble {bubble:.3f}; (p − 1)/(m + p − 1) = {3 / 11:.3f}; peaks {peaks}")


# %% given="schedules"
def gpipe(stages, batches, forward, backward, start=0.0):
    """GPipe's schedule: all forward passes, then all backward passes."""
    turn = start + (batches + stages - 1) * forward
    passes = [(start + (s + i) * forward, s, i, "F") for s in range(stages) for i in range(batches)]
    late = [(stages - 1 - s, s, i) for s in range(stages) for i in range(batches)]
    return passes + [(turn + (wait + i) * backward, s, i, "B") for wait, s, i in late]


def one_at_a_time(stages, batches, forward, backward, start=0.0):
    """Each micro-batch goes through all stages and back before the next one starts."""
    whole, there = stages * (forward + backward), stages * forward
    passes = [(start + i * whole + s * forward, s, i, "F") for s in range(stages) for i in range(batches)]
    return passes + [
        (start + i * whole + there + (stages - 1 - s) * backward, s, i, "B")
        for s in range(stages)
        for i in range(batches)
    ]


def two_rounds(stages, batches, forward, backward, start=0.0):
    """GPipe twice, with half the micro-batches each."""
    half = (batches + 1) // 2
    first = gpipe(stages, half, forward, backward, start)
    again = start + (half + stages - 1) * (forward + backward)
    second = gpipe(stages, batches - half, forward, backward, again)
    return first + [(at, stage, batch + half, kind) for at, stage, batch, kind in second]


def last_stage_first(stages, batches, forward, backward, start=0.0):
    """All forward passes first, except on the last stage, which alternates; the other stages wait long."""
    passes = [(start + (s + i) * forward, s, i, "F") for s in range(stages - 1) for i in range(batches)]
    for i in range(batches):
        at = start + (stages - 1) * forward + i * (forward + backward)
        passes += [(at, stages - 1, i, "F"), (at + forward, stages - 1, i, "B")]
        late = at + batches * forward + forward + backward
        passes += [(late + (stages - 2 - s) * backward, s, i, "B") for s in range(stages - 1)]
    return passes


def shuffled(schedule, seed):
    """The same schedule in another order."""
    return [schedule[i] for i in np.random.default_rng(seed).permutation(len(schedule))]


def measured_cases(seed, sizes):
    """[(schedule, p, forward, backward, bubble, peaks)]."""
    cases = []
    for number, (p, m, forward, backward) in enumerate(sizes):
        for make in (gpipe, one_at_a_time, two_rounds, last_stage_first):
            schedule = shuffled(make(p, m, forward, backward, 10.0 * number), [seed, number])
            end, peaks = run_through(
                [(start - 10.0 * number, *rest) for start, *rest in schedule], p, m, forward, backward
            )
            cases.append((schedule, p, forward, backward, 1 - m * (forward + backward) / end, peaks))
    return cases


SIZES = [(2, 4, 1, 2), (3, 5, 2, 3)]
HIDDEN_SIZES = [(4, 7, 1, 1), (5, 6, 0.5, 1.25), (2, 9, 3, 1)]

# %% check="bubble-of-schedules" points=1 see="11.4"
"""The bubble of other schedules, in any order and from any start (1 point)."""
for number, (schedule, p, forward, backward, want, _) in enumerate(measured_cases(0, SIZES)):
    found = bubble_and_peak(schedule, p, forward, backward)[0]
    busy_over_end = {
        "it is idle time over busy time; divide by the whole time.": want / (1 - want),
        "it is the busy fraction, not the idle one.": 1 - want,
        "it is the idle time of one stage's share: divide by the time of all stages.": want * p,
    }
    expect(float(found), want, busy_over_end, f"the bubble of schedule {number} with {p} stages")
### BEGIN HIDDEN TESTS
for schedule, p, forward, backward, want, _ in measured_cases(1, HIDDEN_SIZES):
    expect(float(bubble_and_peak(schedule, p, forward, backward)[0]), want)
### END HIDDEN TESTS

# %% check="peak-of-schedules" points=1 see="11.4"
"""The largest number of micro-batches that each stage stores at the same time (1 point)."""
for number, (schedule, p, forward, backward, _, want) in enumerate(measured_cases(0, SIZES)):
    found = bubble_and_peak(schedule, p, forward, backward)[1]
    hints = {"it is the number of all forward passes.": [len(schedule) // (2 * p)] * p}
    expect(np.asarray(found).tolist(), want, hints, f"the peaks of schedule {number} with {p} stages")
### BEGIN HIDDEN TESTS
for schedule, p, forward, backward, _, want in measured_cases(1, HIDDEN_SIZES):
    expect(np.asarray(bubble_and_peak(schedule, p, forward, backward)[1]).tolist(), want)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Which split?
#
# A cluster has nodes of 8 GPUs, with fast links inside a node and slower ones between nodes. A transformer
# is trained with `data` × `tensor` × `pipeline` GPUs. Each of the `data` copies of the model takes an equal
# share of the sequences of a batch, and a micro-batch is one sequence. The state of the optimizer is
# sharded over the copies (ZeRO stage 1). The following model of memory and time is a simplification:
# compute and communication do not overlap, all stages take the same time, and a matrix product runs at the
# same speed for each split. Read it before you use it: which term grows with
# which of the three numbers?


# %% given="cost-model"
def parameters(model):
    """Number of parameters: 12 width² per layer, and the table of the words."""
    return 12 * model["layers"] * model["width"] ** 2 + model["words"] * model["width"]


def memory_bytes(model, machine, sequences, split):
    """Bytes on a GPU of the first stage. split: (data, tensor, pipeline)."""
    data, tensor, pipeline = split
    own = parameters(model) / (tensor * pipeline)
    stored = min(pipeline, sequences // data)  # micro-batches, with 1F1B
    activations = 34 * model["sequence"] * model["width"] * model["layers"] / pipeline / tensor
    return own * (4 + 12 / data) + stored * activations


def step_seconds(model, machine, sequences, split):
    """Seconds of one step with `sequences` sequences. split: (data, tensor, pipeline)."""
    data, tensor, pipeline = split
    batches, rows = sequences // data, model["sequence"]
    own = parameters(model) / (tensor * pipeline)
    inside = machine["inside"] if tensor <= machine["node"] else machine["between"]  # bytes per second
    message = 2 * rows * model["width"]  # bytes of the activations of a sequence, in 2 bytes each
    compute = 6 * own * rows / machine["flops"]
    reduced = 4 * model["layers"] / pipeline * 2 * (tensor - 1) / tensor * message / inside
    passed = 2 * message / tensor / machine["between"] if pipeline > 1 else 0.0
    one = compute + reduced + passed  # a micro-batch on a stage, both ways
    return one * (batches + pipeline - 1) + 2 * (data - 1) / data * 2 * own / machine["between"]


MODELS = {  # by `parameters`, 6.6 and 64.7 billion
    "7B": {"layers": 32, "width": 4_096, "heads": 32, "sequence": 4_096, "words": 32_000},
    "70B": {"layers": 80, "width": 8_192, "heads": 64, "sequence": 4_096, "words": 32_000},
}
CLUSTER = {"gpus": 64, "node": 8, "memory": 80e9, "flops": 400e12, "inside": 450e9, "between": 50e9}

# %% [markdown]
# `machine` has the number of `gpus`, how many are in a `node`, `memory` per GPU in bytes, `flops` per
# second, and the bandwidth per GPU `inside` a node and `between` nodes in bytes per second. A split is
# allowed if
#
# - data × tensor × pipeline is the number of GPUs,
# - `tensor` divides the number of heads, `pipeline` the number of layers, and `data` the number of sequences,
# - `memory_bytes` does not exceed the memory of a GPU.


# %% solution="choose-split"
def choose_split(model, machine, sequences):
    """The allowed split (data, tensor, pipeline) with the shortest step, or None if no split is allowed.

    The check accepts a split whose step is at most 5% longer than the shortest one.
    """
    gpus = machine["gpus"]
    ### BEGIN SOLUTION
    allowed = []
    for tensor in range(1, gpus + 1):
        for pipeline in range(1, gpus // tensor + 1):
            split = (gpus // (tensor * pipeline), tensor, pipeline)
            if gpus % (tensor * pipeline) or sequences % split[0]:
                continue
            if model["heads"] % tensor or model["layers"] % pipeline:
                continue
            if memory_bytes(model, machine, sequences, split) <= machine["memory"]:
                allowed.append(split)
    best = min(allowed, key=lambda split: step_seconds(model, machine, sequences, split), default=None)
    ### END SOLUTION
    return best


# %%
SLOW = CLUSTER | {"between": 5e9}
SMALL = CLUSTER | {"memory": 40e9}
for name, model in MODELS.items():
    for label, machine in {"CLUSTER": CLUSTER, "SLOW": SLOW, "SMALL": SMALL}.items():
        split = choose_split(model, machine, 256)
        if split:
            gigabytes = memory_bytes(model, machine, 256, split) / 1e9
            seconds = step_seconds(model, machine, 256, split)
            print(f"{name:>3} on {label:7}: {split}, {gigabytes:5.1f} GB, {seconds:6.2f} s")
        else:
            print(f"{name:>3} on {label:7}: {split}")


# %% given="judge-of-splits"
THIRTEEN = {"layers": 40, "width": 5_120, "heads": 40, "sequence": 2_048, "words": 50_000}
TWELVE_NODES = {"gpus": 96, "node": 8, "memory": 40e9, "flops": 150e12, "inside": 300e9, "between": 12e9}
SPLITS = [
    (MODELS["7B"], CLUSTER, 256),
    (MODELS["70B"], CLUSTER, 256),
    (MODELS["70B"], CLUSTER | {"memory": 40e9}, 256),
    (MODELS["70B"], CLUSTER | {"between": 5e9}, 64),
    (THIRTEEN, TWELVE_NODES, 192),
    (MODELS["70B"], CLUSTER | {"gpus": 8}, 256),
]


def splits_of(model, machine, sequences):
    """All allowed splits with the seconds of a step: {split: seconds}."""
    gpus, found = machine["gpus"], {}
    for data in (d for d in range(1, gpus + 1) if gpus % d == 0 and sequences % d == 0):
        for tensor in (t for t in range(1, gpus // data + 1) if gpus // data % t == 0):
            split = (data, tensor, gpus // data // tensor)
            fits = memory_bytes(model, machine, sequences, split) <= machine["memory"]
            if fits and model["heads"] % tensor == 0 and model["layers"] % split[2] == 0:
                found[split] = step_seconds(model, machine, sequences, split)
    return found


def split_found(choose_split, case):
    """(your split as a tuple or None, all allowed splits, the case in words)."""
    model, machine, sequences = case
    found = choose_split(dict(model), dict(machine), sequences)
    name = f"{parameters(model) / 1e9:.0f} billion parameters, {machine['gpus']} GPUs, {sequences} sequences"
    return None if found is None else tuple(np.asarray(found).tolist()), splits_of(*case), name


def split_is_allowed(choose_split, case):
    """Assert that a split is allowed, and None only if there is none."""
    found, allowed, name = split_found(choose_split, case)
    if not allowed:
        assert found is None, f"{name}: {found} is not allowed, and no other split is: return None"
        return
    assert found is not None, f"{name}: {len(allowed)} splits are allowed, and None is returned"
    assert len(found) == 3, f"{name}: {found} is not (data, tensor, pipeline)"
    machine = case[1]
    if found not in allowed and np.prod(found) == machine["gpus"] and min(found) >= 1:
        held = memory_bytes(*case, found) / 1e9
        assert held <= machine["memory"] / 1e9, f"{name}: {found} needs {held:.0f} GB on a GPU"
    assert found in allowed, f"{name}: {found} is not allowed"


def split_is_fast(choose_split, case):
    """Assert that a step with a split takes at most 5% longer than with the best allowed one."""
    found, allowed, name = split_found(choose_split, case)
    if allowed:
        assert found in allowed, f"{name}: {found} is not an allowed split"
        longer = allowed[found] / min(allowed.values()) - 1
        assert longer <= 0.05, (
            f"{name}: a step with {found} takes {longer:.0%} longer than with the best split"
        )


# %% check="split-allowed" points=1 see="11.5"
"""The split obeys all rules and fits into memory; None if no split does (1 point)."""
for case in SPLITS:
    split_is_allowed(choose_split, case)
### BEGIN HIDDEN TESTS
MORE = [
    (MODELS["70B"], CLUSTER | {"gpus": 512, "memory": 40e9}, 1_024),
    (THIRTEEN, TWELVE_NODES | {"gpus": 48, "memory": 24e9}, 96),
    (MODELS["7B"], CLUSTER | {"gpus": 24, "between": 2e9, "memory": 20e9}, 48),
    (MODELS["7B"], CLUSTER | {"gpus": 7}, 256),
    (MODELS["7B"] | {"heads": 12, "layers": 30}, CLUSTER | {"gpus": 40}, 100),
]
for case in MORE:
    split_is_allowed(choose_split, case)
### END HIDDEN TESTS

# %% check="split-fast" points=1 see="11.5"
"""A step with the split takes at most 5% longer than with the best one (1 point)."""
for case in SPLITS:
    split_is_fast(choose_split, case)
### BEGIN HIDDEN TESTS
MORE = [
    (MODELS["70B"], CLUSTER | {"gpus": 512, "memory": 40e9}, 1_024),
    (THIRTEEN, TWELVE_NODES | {"gpus": 48, "memory": 24e9}, 96),
    (MODELS["7B"], CLUSTER | {"gpus": 24, "between": 2e9, "memory": 20e9}, 48),
    (MODELS["7B"] | {"heads": 12, "layers": 30}, CLUSTER | {"gpus": 40}, 100),
]
for case in MORE:
    split_is_fast(choose_split, case)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. In your own words
#
# The cell after `choose_split` prints your splits. **Explain in about four sentences, with numbers from
# your output or computed with `memory_bytes` and `step_seconds`: (a) why your split of the 70B model on
# SLOW differs from the one on CLUSTER, (b) why the split of CLUSTER is not used on SMALL, and what your
# split there costs, (c) one thing that your `one_forward_one_backward` does and this cost model leaves out,
# or the other way round.** If two of your splits are the same, explain why they are.

# %% [markdown] explain="which-split" points=2
# ### BEGIN SOLUTION
# **Rubric.** Language and length are not graded. The numbers are those of the student's own splits; a split
# that is not the best one can earn all points if the explanation fits it.
#
# - *(a)*, one point: ten times less bandwidth between nodes makes the reduce-scatter and all-gather of the
#   gradients and weights expensive, so there are fewer copies and more stages (half a point), with a number
#   (half a point). Example: (4, 4, 4) sends 2 · 3/4 · 2 bytes · 4.0 billion per GPU, which is 0.24 s on
#   CLUSTER and 2.4 s on SLOW; with (2, 4, 8) it is 0.8 s, and the bubble grows from 3/67 to 7/135 only.
# - *(b)*, half a point: (4, 4, 4) needs 51.1 GB and SMALL has 40; (1, 4, 16) needs 39.0 GB, and its step
#   takes 18.22 s instead of 18.13 s.
# - *(c)*, half a point for one true difference. Examples: the model counts forward and backward passes as
#   one piece, and the schedule has them apart; the schedule has no time for messages between stages; the
#   model counts the memory of the first stage only, and later stages store less; the model's stages are
#   perfectly balanced, though the table of words is on one of them; all-reduces that overlap with compute
#   cost less.
#
# **Two points.** "On SLOW the gradients of (4, 4, 4) would take 2.4 s per step instead of 0.24 s. (2, 4, 8)
# has half as many parameters per GPU and one exchange less, so 0.8 s. On SMALL (4, 4, 4) does not fit, 51
# GB of 40, so I get (1, 4, 16) with 39 GB, 0.5% slower because of the bubble. My schedule assumes that
# activations reach the next stage at once, the model charges `passed` for them."
#
# **One point.** "On SLOW more pipeline stages are better because only small messages go between the nodes.
# On SMALL the model needs more GPUs per copy because of memory." (No numbers, no (c).)
#
# **No point.** "70B is larger than 7B, so it needs more GPUs."
# ### END SOLUTION

# %% [markdown]
# ## What you have learned
#
# - Adam in mixed precision needs 16 bytes per parameter, and 12 of them are needed only where a weight is
#   updated. Sharding them sends no more bytes than data-parallel training does.
# - A sharded optimizer follows the trajectory of one process: a reduce-scatter brings each rank the part of
#   the gradient that it needs, an all-gather brings the weights that it did not update.
# - Stage 3 exchanges memory for one more all-gather. What is freed has to be gathered again.
# - A column cut followed by a row cut needs one all-reduce each way, because the layer between them stays
#   where it is.
# - GPipe and 1F1B have the same bubble, (p − 1)/(m + p − 1). 1F1B stores at most p − s micro-batches on
#   stage s.
#
# Open questions:
#
# 1. FSDP gathers layer i + 1 while layer i computes. What would that cost in `peak`, and for which sizes is
#    the message free?
# 2. Which of the three ways to cut would you use inside a node, and what would change with 72 GPUs per node?
# 3. Recomputing activations in the backward pass costs a third more FLOPs. Which of your splits would change?
