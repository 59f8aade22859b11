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
# A model with 7 billion parameters, trained with Adam in mixed precision, needs 16 bytes per parameter:
# 112 GB, more than the 80 GB of an H100 GPU. **Which of these bytes does a rank need all the time, and which
# can it get from the other ranks when it needs them?**
#
# | section | what you write | points | minutes |
# |---|---|---|---|
# | 1 | `held_bytes`, `sent_bytes`: memory and messages of ZeRO's stages | 4 | 50 |
# | 2 | `momentum_step`, `adam_step`: optimizers with a sharded state | 6 | 90 |
# | 3 | `layer_by_layer`: weights that are gathered, used and freed | 3 | 45 |
# | 4 | `tensor_forward`, `tensor_backward`: two dense layers cut by columns and rows | 5 | 75 |
# | 5 | `one_forward_one_backward`, `bubble_and_peak`: a pipeline | 5 | 90 |
# | 6 | `choose_split`: data, tensor and pipeline parallelism for a given cluster | 2 | 45 |
# | 7 | a written answer about your splits | 2 | 25 |
#
# There are ten blanks (`YOUR CODE HERE`), one written answer and 27 points. Autograder tests award 25 points
# in 21 checks; the written answer is graded manually. The whole assignment takes 6 to 8 hours. This is an
# estimate: the minutes above add up to seven hours.
#
# The background is in lecture 11, and lecture 06 for the collective operations. A *check* is a cell of
# autograder tests. Fill in a blank, run the example below it, then its checks. A failed check states what it
# found. All checks also have hidden tests, with other sizes. All code is NumPy and runs in about a minute on
# two cores.
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | p | number of ranks, or of pipeline stages | n | number of parameters |
# | r | a rank, from 0 to p − 1 | n_r | number of parameters in chunk r |
# | m | number of micro-batches | N | number of examples in a batch |

# %% given="setup"
import functools
import itertools

import matplotlib.pyplot as plt
import numpy as np

from cluster.checks import expect, fresh_rng, once
from cluster.network import Network, simulate
from cluster.network.chunks import bounds
from cluster.network.recorded import recorded_on_ranks

plt.style.use("cluster.course")
NETWORK = Network(latency=20e-6, time_per_byte=0.8e-9)  # 10 Gbit/s
SECRET = int(fresh_rng(0).integers(2**62))  # of the hidden tests' arrays


def pinned(name, function):
    """Return `function`, with the same results in all hidden tests that use this name."""
    return lambda *args: once(name, function, *args)


# %% [markdown]
# ## The collectives
#
# Rank r owns chunk r of a vector with n elements. `bounds(n, p)` returns the p + 1 cuts. If p does not divide
# n, the first chunks are longer by one element. Use the following functions, or your own from assignment 06.


# %% given="collectives"
def reduce_scatter(comm, x):
    """Return chunk r of the sum of all ranks' vectors x (n,), as a new array; x is unchanged.

    A rank sends to each other rank the chunk that the receiver owns: n − n_r elements in p − 1 messages.
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
# ZeRO has four stages, and each one shards more of the arrays that training needs. If an array is *sharded*,
# rank r keeps only chunk r of it.
#
# | stage | sharded | communication in a step |
# |---|---|---|
# | 0 | nothing | an all-reduce of the gradients |
# | 1 | the state of the optimizer | a reduce-scatter of the gradients, an all-gather of the weights |
# | 2 | the state and the gradients | the same as in stage 1 |
# | 3 | the state, the gradients and the weights | the same, and one more all-gather of the weights |
#
# In stage 3, the weights are gathered for the forward pass, and again for the backward pass. In mixed
# precision with Adam, a weight takes 2 bytes and a gradient 2 bytes. The state of the optimizer takes 12
# bytes per parameter: a weight in float32, the *master weight*, and two moments in float32.
#
# Count the bytes that a rank holds between two steps. Include the gradients: if they are not sharded, a rank
# holds all n of them. Do not count arrays that exist only during a step.
#
# **Predict**: with 4 ranks and Adam in mixed precision, stage 0 takes 16 bytes per parameter. Which stage
# saves the most, compared with the stage before it?

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
        parts = [(weight, 3), (gradient, 2), (state, 1)]  # bytes, and the first stage that shards them
        held.append(sum(size * (own if stage >= first else n) for size, first in parts))
    ### END SOLUTION
    return held


# %%
for stage in range(4):
    print(f"stage {stage}: 7 parameters on 3 ranks: {held_bytes(7, 3, stage)} bytes")


# %% given="judge-of-bytes"
def bytes_agree(function, wanted, hints=None):
    """Assert that function(*case) returns the integers wanted[case].

    hints: {a misconception: the lists that it leads to, in the order of `wanted`, or None if the list is
    right}. A misconception is named only if it leads to all of the lists that are returned.
    """
    found = {case: np.asarray(function(*case)).tolist() for case in wanted}
    likely = {}
    for text, lists in (hints or {}).items():
        right = [one or want for one, want in zip(lists, wanted.values(), strict=True)]
        if right == list(found.values()):
            likely[text] = right
    for number, (case, want) in enumerate(wanted.items()):
        n, p, stage, *sizes = case
        name = f"the bytes of {n} parameters on {p} ranks in stage {stage}, {sizes} bytes per parameter,"
        expect(found[case], want, {text: right[number] for text, right in likely.items()}, name)


HELD = {  # (n, p, stage, weight, gradient, state): the bytes on each rank
    (7, 3, 0, 2, 4, 8): [98, 98, 98],
    (7, 3, 1, 2, 4, 8): [66, 58, 58],
    (7, 3, 2, 2, 4, 8): [50, 38, 38],
    (7, 3, 3, 2, 4, 8): [42, 28, 28],
    (10, 4, 0, 2, 2, 12): [160, 160, 160, 160],
    (10, 4, 1, 2, 2, 12): [76, 76, 64, 64],
    (10, 4, 2, 2, 2, 12): [62, 62, 48, 48],
    (10, 4, 3, 2, 2, 12): [48, 48, 32, 32],
}
HELD_HINTS = {
    "each chunk has n // p parameters, and the rest are on no rank.": [
        *(None, [58] * 3, [38] * 3, [28] * 3),
        *(None, [64] * 4, [48] * 4, [32] * 4),
    ],
    "the last rank has all parameters left over by n // p; with `bounds`, the first ranks have one more.": [
        *(None, [58, 58, 66], [38, 38, 50], [28, 28, 42]),
        *(None, [64, 64, 64, 88], [48, 48, 48, 76], [32, 32, 32, 64]),
    ],
    "stage 1 shards the gradients; it shards the state, and stage 2 shards the gradients as well.": [
        *(None, [82, 78, 78], None, None),
        *(None, [146, 146, 144, 144], None, None),
    ],
    "stage 1 shards the state and the gradients; it shards the state only.": [
        *(None, [50, 38, 38], None, None),
        *(None, [62, 62, 48, 48], None, None),
    ],
    "the weights are not sharded in stage 3.": [
        *(None, None, None, [50, 38, 38]),
        *(None, None, None, [62, 62, 48, 48]),
    ],
}


# %% check="held-bytes-of-stages" points=2 see="11.2"
"""A rank holds its chunk of the sharded arrays and all of the others, also with uneven chunks (2 points)."""
bytes_agree(held_bytes, HELD, HELD_HINTS)
### BEGIN HIDDEN TESTS
# Not seen: bytes that a rank holds only during a step. The text leaves them out; layers-peak counts them.


def held_by(n, p, stage, weight, gradient, state):
    sizes = [(weight, stage >= 3), (gradient, stage >= 2), (state, stage >= 1)]
    return [int(sum(size * (own if cut else n) for size, cut in sizes)) for own in np.diff(bounds(n, p))]


rng = fresh_rng(1)
sizes = [
    (7 * int(rng.integers(6, 20)) + int(rng.integers(1, 7)), 7),
    (3, 5),
    (9, 1),
]  # empty chunks, one rank
sizes += [(10**6 + int(rng.integers(10**6)), 64)]
cases = [(*size, stage, *rng.permutation([2, 4, 12]).tolist()) for size in sizes for stage in range(4)]
bytes_agree(held_bytes, {case: held_by(*case) for case in cases})
### END HIDDEN TESTS

# %% [markdown]
# How many bytes does a rank send in one step, with the collectives above? A rank with a longer chunk sends
# fewer bytes than the others in a reduce-scatter, and more in an all-gather.


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
SENT = {  # (n, p, stage, weight, gradient): the bytes that each rank sends
    (7, 3, 0, 4, 2): [20, 18, 18],
    (7, 3, 1, 4, 2): [32, 26, 26],
    (7, 3, 2, 4, 2): [32, 26, 26],
    (7, 3, 3, 4, 2): [56, 42, 42],
    (10, 4, 0, 1, 4): [64, 64, 56, 56],
    (10, 4, 1, 1, 4): [37, 37, 38, 38],
    (10, 4, 2, 1, 4): [37, 37, 38, 38],
    (10, 4, 3, 1, 4): [46, 46, 44, 44],
}
SENT_HINTS = {
    "each chunk has n // p parameters, and the rest are sent by no rank.": [
        *([18, 18, 18], [26, 26, 26], [26, 26, 26], [42, 42, 42]),
        *([56, 56, 56, 56], [38, 38, 38, 38], [38, 38, 38, 38], [44, 44, 44, 44]),
    ],
    "the gradients are all-reduced in all stages; from stage 1 on, a reduce-scatter suffices.": [
        *(None, [44, 34, 34], [44, 34, 34], [68, 50, 50]),
        *(None, [73, 73, 62, 62], [73, 73, 62, 62], [82, 82, 68, 68]),
    ],
    "in stage 3, the weights are gathered once; the backward pass gathers them again.": [
        *(None, None, None, [32, 26, 26]),
        *(None, None, None, [37, 37, 38, 38]),
    ],
    "in stage 3, the weights are gathered three times; there is one all-gather per pass, so two.": [
        *(None, None, None, [80, 58, 58]),
        *(None, None, None, [55, 55, 50, 50]),
    ],
    "the bytes of a weight and of a gradient are swapped.": [
        *([40, 36, 36], [28, 28, 28], [28, 28, 28], [40, 36, 36]),
        *([16, 16, 14, 14], [43, 43, 32, 32], [43, 43, 32, 32], [79, 79, 56, 56]),
    ],
    "in an all-gather, a rank sends its chunk once; it sends it to each of the p − 1 other ranks.": [
        *([14, 14, 14], [20, 18, 18], [20, 18, 18], [32, 26, 26]),
        *([40, 40, 40, 40], [31, 31, 34, 34], [31, 31, 34, 34], [34, 34, 36, 36]),
    ],
    "in a reduce-scatter, a rank sends all n elements; it keeps its own chunk.": [
        *([26, 22, 22], [38, 30, 30], [38, 30, 30], [62, 46, 46]),
        *([76, 76, 64, 64], [49, 49, 46, 46], [49, 49, 46, 46], [58, 58, 52, 52]),
    ],
}


# %% check="sent-bytes-of-stages" points=2 see="11.2"
"""The bytes that each rank sends per step, in each stage and with uneven chunks (2 points)."""
bytes_agree(sent_bytes, SENT, SENT_HINTS)
### BEGIN HIDDEN TESTS
# Not seen: whether the ranks send that much. The checks of section 2 count it, for stage 1.


def sent_by(n, p, stage, weight, gradient):
    gathered = (p - 1) * np.diff(bounds(n, p))  # elements that a rank sends in an all-gather
    again = [gradient, weight, weight, 2 * weight][stage]
    return (gradient * (n - np.diff(bounds(n, p))) + again * gathered).tolist()


rng = fresh_rng(2)
sizes = [
    (7 * int(rng.integers(6, 20)) + int(rng.integers(1, 7)), 7),
    (3, 5),
    (9, 1),
]  # empty chunks, one rank
sizes += [(10**6 + int(rng.integers(10**6)), 64)]
cases = [(*size, stage, *rng.permutation([1, 2, 4]).tolist()[:2]) for size in sizes for stage in range(4)]
bytes_agree(sent_bytes, {case: sent_by(*case) for case in cases})
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Optimizers with a sharded state
#
# Each rank has all weights w, its own gradient from its own examples, and **only chunk r of the velocity v**.
# A step of SGD with momentum μ and learning rate η is, with g the mean of the ranks' gradients,
#
# v ← μ v + g,  w ← w − η v.
#
# Which elements of g does rank r need? How does it get the weights that other ranks have updated?


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
# In the scratch cell, all elements of rank r's gradient are r + 1, so the mean over three ranks is 2. After
# one step from w = 1 and v = 0 with η = 0.1, all weights should be 0.8. Each rank should print the length of
# its own chunk of v.


# %%
def first_step(comm):
    own = np.diff(bounds(7, comm.size))[comm.rank]
    return momentum_step(comm, np.ones(7), np.zeros(own), np.full(7, comm.rank + 1.0), 0.1, 0.9)


for w, v in simulate(first_step, ranks=3, network=NETWORK).results:
    print(w, len(v))


# %% given="trials-of-optimizers"
def call_unchanged(arrays, step, comm, *more):
    """Call step(comm, *arrays, *more), and assert that it changes no array. arrays: {name: array}."""
    before = {name: np.array(array) for name, array in arrays.items()}
    found = step(comm, *arrays.values(), *more)
    for name, array in arrays.items():
        assert np.array_equal(array, before[name]), (
            f"the argument {name} is changed in place; return new arrays instead"
        )
    return found


def try_momentum(comm, steps, w, v, gradients, rate, momentum):
    """Run several steps; return [(w, v) after each]. gradients (2, n): this rank's, used alternately."""
    found = []
    for step in range(steps):
        arrays = {"w": w, "v": v, "gradient": gradients[step % 2]}
        w, v = call_unchanged(arrays, momentum_step, comm, rate, momentum)
        found.append((w, v))
    return found


def try_adam(comm, steps, master, m, v, gradients, rate, options):
    """Run several steps; return [(weights, master, m, v) after each]. gradients (2, n): as above.

    options: beta1, beta2 and eps, or an empty list for the defaults.
    """
    found = []
    for step in range(1, steps + 1):
        arrays = {"master": master, "m": m, "v": v, "gradient": gradients[step % 2]}
        weights, master, m, v = call_unchanged(arrays, adam_step, comm, step, rate, *options)
        found.append((weights, master, m, v))
    return found


# %% given="judge-of-steps"
STEPS = 4


def pieces(x, p):
    """The p chunks of x."""
    return np.split(x, bounds(len(x), p)[1:-1])


def drawn(case, seed):
    """Random values of a case (p, n, dtype, …): w, two states (n,), and gradients (p, 2, n)."""
    p, n, dtype = case[:3]
    rng = np.random.default_rng([seed, p, n])
    w, first, second = rng.standard_normal((3, n)).astype(dtype)
    return w, first, second**2, (rng.standard_normal((p, 2, n)) + np.arange(p)[:, None, None]).astype(dtype)


def on_real_ranks(function, calls):
    """Return the Recording of each call, a list of each rank's arguments; assert that no rank failed."""
    made, _ = recorded_on_ranks(function, calls)
    for call, recording in zip(calls, made, strict=True):
        assert not recording.error, f"{len(call)} ranks: {recording.error}"
    return made


def tolerance(dtype):
    """The relative and the absolute tolerance for results of this dtype."""
    return {"float64": (1e-9, 1e-11), "float32": (2e-5, 1e-6), "float16": (2e-3, 1e-5)}[np.dtype(dtype).name]


def equal(found, want):
    """Return whether an array has the shape, the dtype and, within rounding, the values of another."""
    if not isinstance(found, np.ndarray) or found.shape != want.shape or found.dtype != want.dtype:
        return False
    rtol, atol = tolerance(want.dtype)
    return bool(np.allclose(found, want, rtol=rtol, atol=atol))


def described(value):
    """A short description of an array, for messages."""
    if isinstance(value, np.ndarray):
        return f"{np.array2string(value, precision=5, threshold=6)} {value.shape} {value.dtype}"
    return f"a {type(value).__name__}"


def trajectories_agree(case, found, wanted, names, hints):
    """Assert that each rank's values after each step are those that wanted() returns.

    found: for each rank, a list with the values of each step; wanted() and the hints' functions return
    the same form.
    """
    p, n, dtype = case[:3]
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
    """Return whether the values of all ranks agree after all steps."""
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
    """Assert that all ranks together send at most these numbers of bytes and messages, without a deadlock."""
    try:
        counts = call.replay(NETWORK).counts
    except RuntimeError as error:
        raise AssertionError(
            f"{what}: repeating the messages in virtual time raises {type(error).__name__}"
        ) from error
    sent, messages = sum(one.bytes_sent for one in counts), sum(one.messages_sent for one in counts)
    assert sent <= most_bytes, f"{what}: the ranks send {sent} bytes; {most_bytes} suffice"
    assert messages <= most_messages, f"{what}: the ranks send {messages} messages; {most_messages} suffice"


# %% given="judge-of-momentum"
RATE, MOMENTUM = 0.3, 0.8


def momentum_calls(cases, seed):
    """Return, for each case, the arguments of try_momentum on each rank."""
    calls = []
    for case in cases:
        w, v, _, gradients = drawn(case, seed)
        calls.append(
            [[STEPS, w, own, gradients[rank], RATE, MOMENTUM] for rank, own in enumerate(pieces(v, case[0]))]
        )
    return calls


def momentum_alone(case, seed, scale=1.0, order="new", gathered=True):
    """The steps of one process, in the form of try_momentum's values on p ranks.

    scale: a factor of the mean gradient; order: which velocity updates the weights; gathered: whether the
    other ranks' chunks of w are up to date.
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
    return [
        [(w if gathered else np.where(chunks == r, w, start), pieces(v, p)[r]) for w, v in steps]
        for r in range(p)
    ]


def momentum_agrees(try_momentum, cases, seed, hinted=True):
    """Assert that your steps on real ranks give the values of the steps of one process."""
    calls = on_real_ranks(try_momentum, momentum_calls(cases, seed))
    for case, call in zip(cases, calls, strict=True):
        p = case[0]
        wrong = {
            "the gradients are added, not averaged.": {"scale": p},
            "the gradients are divided by p twice.": {"scale": 1 / p},
            "the weights move with the old velocity, not with the new one.": {"order": "old"},
            "each rank updates its own chunk of w, and does not get the others' chunks.": {"gathered": False},
        }
        alone = functools.partial(momentum_alone, case, seed)
        hints = {text: functools.partial(alone, **options) for text, options in wrong.items()}
        trajectories_agree(case, call.values, alone, ["w", "v"], hints if hinted else {})


def momentum_traffic(try_momentum, cases, seed):
    """Assert that the ranks send no more than a step needs, and return values that depend on all ranks.

    A wrong factor of the gradient or an old velocity fails the previous check only.
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
"""On 2, 3 and 4 real ranks, four steps give the values of one process, in float64 and float32 (2 points)."""
momentum_agrees(try_momentum, [(2, 7, "float64"), (3, 10, "float32"), (4, 6, "float64")], 0)
### BEGIN HIDDEN TESTS
# Not seen: how the ranks get the sum. momentum-traffic counts what they send.
few, many, alone = fresh_rng(3).integers([9, 13, 3], [13, 20, 9]).tolist()
MORE = [(4, few, "float32"), (3, 2, "float64"), (1, alone, "float64"), (4, many, "float64")]
momentum_agrees(try_momentum, MORE, SECRET, False)
### END HIDDEN TESTS

# %% check="momentum-traffic" points=1 see="11.2"
"""All ranks together send at most 2 (p − 1) n elements per step, and all have the result (1 point)."""
momentum_traffic(try_momentum, [(2, 7, "float64"), (3, 10, "float32"), (4, 6, "float64")], 0)
### BEGIN HIDDEN TESTS
# Not seen: all bytes on one link, or a rank that sends most of them; only the sum over the ranks is limited.
few, many, alone = fresh_rng(3).integers([9, 13, 3], [13, 20, 9]).tolist()
MORE = [(4, few, "float32"), (3, 2, "float64"), (1, alone, "float64"), (4, many, "float64")]
momentum_traffic(try_momentum, MORE, SECRET)
### END HIDDEN TESTS

# %% [markdown]
# **Adam in mixed precision.** The forward and the backward pass use weights in float16. The optimizer keeps
# master weights in float32, because an update of less than 1/4,096 of a weight is lost in float16. With
# the mean gradient g and the step number t, which starts at 1, a step is
#
# m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  w ← w − η · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε).
#
# A rank holds its chunk of m, v and the master weights. Gradients are added in float32. In which dtype are
# the updated weights sent to the other ranks?


# %% solution="adam-step"
def adam_step(comm, master, m, v, gradient, step, rate, beta1=0.9, beta2=0.99, eps=1e-8):
    """One step of Adam on this rank, with a sharded state.

    master, m, v  (n_r,) float32: this rank's chunk of the master weights and of both moments
    gradient      (n,) float32: the gradient of this rank's examples
    step          t: 1, 2, …

    Returns the weights (n,) float16, the same on all ranks, and the new master, m and v (n_r,) float32. The
    arguments are unchanged. All ranks together send (p − 1) n gradients of 4 bytes and (p − 1) n weights of
    2 bytes.
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
ADAM_RATE, DEFAULTS = 2e-3, (0.9, 0.99, 1e-8)
ADAM = [(2, 7, "float32"), (3, 10, "float32", 0.7, 0.9, 0.05), (4, 6, "float32", 0.8, 0.95, 1e-3)]
# A case is (p, n, dtype), with beta1, beta2 and eps if they are not the defaults.


def adam_calls(cases, seed):
    """Return, for each case, the arguments of try_adam on each rank."""
    calls = []
    for case in cases:
        w, m, v, gradients = drawn(case, seed)
        parts = zip(*(pieces(x, case[0]) for x in (w, m, v)), strict=True)
        calls.append(
            [[STEPS, *own, gradients[rank], ADAM_RATE, list(case[3:])] for rank, own in enumerate(parts)]
        )
    return calls


def adam_alone(
    case, seed, scale=1.0, corrected=True, squares="of the mean", start=0, kept=np.float32, eps_in_root=False
):
    """The steps of one process, in the form of try_adam's values on p ranks.

    scale: a factor of the mean gradient; corrected: whether the factors 1 − βᵗ are used; start: t before
    the first step; kept: the dtype of the master weights; eps_in_root: whether ε is added under the root.
    """
    p, (beta1, beta2, eps) = case[0], case[3:] or DEFAULTS
    w, m, v, gradients = drawn(case, seed)
    steps = []
    for step in range(1, STEPS + 1):
        own = gradients[:, step % 2].astype(np.float64)
        g = scale * own.mean(axis=0)
        square = g**2 if squares == "of the mean" else (own**2).mean(axis=0)
        m = (beta1 * m + (1 - beta1) * g).astype(np.float32)
        v = (beta2 * v + (1 - beta2) * square).astype(np.float32)
        t = step + start
        one, two = (1 - beta1**t, 1 - beta2**t) if corrected else (1, 1)
        root = np.sqrt(v / two + eps) if eps_in_root else np.sqrt(v / two) + eps
        w = (w - ADAM_RATE * (m / one) / root).astype(kept).astype(np.float32)
        steps.append((w, m, v))
    return [
        [(w.astype(np.float16), *(pieces(x, p)[r] for x in (w, m, v))) for w, m, v in steps] for r in range(p)
    ]


def adam_agrees(try_adam, cases, seed, hinted=True):
    """Assert that your steps on real ranks give the values of the steps of one process."""
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
            "ε is added to v before the root is taken; it is added to the root.": {"eps_in_root": True},
        }
        alone = functools.partial(adam_alone, case, seed)
        hints = {text: functools.partial(alone, **options) for text, options in wrong.items()}
        names = ["weights", "master", "m", "v"]
        trajectories_agree(case, call.values, alone, names, hints if hinted else {})


def adam_traffic(try_adam, cases, seed):
    """The same as momentum_traffic, with 4 bytes per gradient and 2 per weight."""
    for case, call in zip(cases, on_real_ranks(try_adam, adam_calls(cases, seed)), strict=True):
        p, n = case[:2]
        name = f"{p} ranks, {n} parameters, {STEPS} steps"
        options = [
            {},
            {"scale": p},
            {"scale": 1 / p},
            {"corrected": False},
            {"start": 1},
            {"kept": np.float16},
            {"eps_in_root": True},
        ]
        assert any(same(call.values, adam_alone(case, seed, **one)) for one in options), (
            f"{name}: the weights or the state are not those of one process"
        )
        traffic(call, STEPS * 6 * (p - 1) * n, STEPS * 2 * p * (p - 1), name)


# %% check="adam-trajectory" points=2 see="11.2"
"""On 2, 3 and 4 real ranks, four steps of Adam give the values of one process (2 points)."""
adam_agrees(try_adam, ADAM, 0)
### BEGIN HIDDEN TESTS
# Not seen: sums in float64 that are rounded at the end, which are equally good.
few, many, alone = fresh_rng(4).integers([9, 13, 3], [13, 20, 9]).tolist()
options = fresh_rng(5).uniform([0.5, 0.8, 0.05], [0.8, 0.95, 0.2]).round(3).tolist()
MORE = [(4, few, "float32", *options), (3, 2, "float32"), (1, alone, "float32"), (4, many, "float32")]
adam_agrees(try_adam, MORE, SECRET, False)
### END HIDDEN TESTS

# %% check="adam-traffic" points=1 see="11.2"
"""All ranks together send at most 6 (p − 1) n bytes per step, and all have the result (1 point)."""
adam_traffic(try_adam, ADAM, 0)
### BEGIN HIDDEN TESTS
# Not seen: gradients of 2 bytes and weights of 4, which add up to as much. adam-trajectory sees the rounding.
few, many, alone = fresh_rng(4).integers([9, 13, 3], [13, 20, 9]).tolist()
options = fresh_rng(5).uniform([0.5, 0.8, 0.05], [0.8, 0.95, 0.2]).round(3).tolist()
MORE = [(4, few, "float32", *options), (3, 2, "float32"), (1, alone, "float32"), (4, many, "float32")]
adam_traffic(try_adam, MORE, SECRET)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Stage 3: weights in memory only while they are used
#
# A network has L dense layers without biases. At first, h is x. Layer i computes h ← tanh(h Wᵢ), for i = 0,
# …, L − 1. The loss is half the sum of the squares of h − target. A rank stores only chunks of the weights.
# Three functions replace its communication with the other ranks:
#
# - `gather(i)` returns the array Wᵢ. Call it before you use layer i.
# - `free(i)` releases this array. All its elements become NaN, so do not use the array after that.
# - `scatter(i, gradient)` takes the gradient of the loss with respect to Wᵢ. Call it once per layer.
#
# The checks count the bytes that are gathered at the same time, and allow no more than
# the largest layer has. A copy of the weights would take memory, too, so do not make
# one. Free all layers at the end. All layers between the first and the last one must be
# gathered exactly twice, once per pass. In one check, the second `gather(i)` returns
# *different* weights from the first. The backward pass must use the weights of the
# second call.


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
    """Return weights layer by layer; count the `peak` of the bytes, and how often a layer is `gathered`.

    again: the weights that are returned if a layer is gathered again; by default, the same ones.
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
        """Release the weights of layer i."""
        self.there.pop(i, None)

    def scatter(self, i, gradient):
        """Take the gradient of layer i."""
        self.gradients[i].append(np.array(gradient))


def try_layers(x, target, layers, gather, free, scatter):
    """Call your layer_by_layer, with arrays whose elements become NaN when they are freed."""
    arrays = {}

    def gather_here(i):
        arrays.setdefault(i, []).append(np.array(gather(i)))
        return arrays[i][-1]

    def free_here(i):
        for array in arrays.pop(i, []):
            array.fill(np.nan)
        free(i)

    return layer_by_layer(x, target, layers, gather_here, free_here, scatter)


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


def activations(x, weights):
    """h after each layer, and x as the first."""
    h = [x]
    for w in weights:
        h.append(np.tanh(h[-1] @ w))
    return h


# %%
x, target, weights, _ = dense_network([3, 5, 4, 2], 6, seed=1)
memory = Memory(weights)
loss = try_layers(x, target, 3, memory.gather, memory.free, memory.scatter)
print(f"loss {loss:.4f}; in one process {0.5 * ((activations(x, weights)[-1] - target) ** 2).sum():.4f}")
largest, total = max(w.nbytes for w in weights), sum(w.nbytes for w in weights)
print(f"peak {memory.peak} bytes; the largest layer has {largest} bytes, all layers {total}")
print(f"number of gathers per layer: {memory.gathered}")


# %% given="judge-of-layers"
NETWORKS = [([3, 5, 4, 2], 6), ([6, 2, 7], 3)]  # widths, examples
FREED = "NaN. After free(i), all elements of the array are NaN. Do you use it after that?"


def effect(h, slope, backward, i, change, tanh=True):
    """The change of the loss, to first order, if `change` is added to the weights of layer i.

    h: `activations`; slope: h[-1] − target; backward: the weights of the layers after i; tanh: whether they
    have one.
    """
    change = h[i] @ change
    for j in range(i, len(h) - 1):
        change = (change if j == i else change @ backward[j]) * (1 - h[j + 1] ** 2 if tanh else 1)
    return float((slope * change).sum())


def trained_by(try_layers, network, seed, changed):
    """Run your function with a new Memory; changed: whether later gathers return other weights.

    Returns the Memory, x, target, weights and others. AssertionError if the loss is wrong. All hidden tests
    judge the same runs.
    """
    x, target, weights, others = dense_network(*network, seed)

    def run(*_):
        memory = Memory(weights, others if changed else None)
        return memory, try_layers(x, target, len(weights), memory.gather, memory.free, memory.scatter)

    memory, loss = once("layers", run, network, changed) if seed == SECRET else run()
    want = 0.5 * float(((activations(x, weights)[-1] - target) ** 2).sum())
    assert not (isinstance(loss, float) and np.isnan(loss)), f"widths {network[0]}: the loss is {FREED}"
    expect(loss, want, {"it is the mean; the loss is half the sum.": want / target.size}, "the loss")
    return memory, x, target, weights, others


def gradients_agree(try_layers, networks, seed, changed=False):
    """Assert that each gradient is passed to scatter() once, and is correct along random directions.

    Returns the Memory objects.
    """
    made = []
    for network in networks:
        memory, x, target, weights, others = trained_by(try_layers, network, seed, changed)
        h = activations(x, weights)
        slope = h[-1] - target
        used = [
            o if changed and g > 1 else w for w, o, g in zip(weights, others, memory.gathered, strict=True)
        ]
        for i, found in reversed(list(enumerate(memory.gradients))):
            name = f"widths {network[0]}: the gradient of layer {i}"
            assert len(found) == 1, f"{name} is passed to scatter() {len(found)} times, not once"
            assert found[0].shape == weights[i].shape, (
                f"{name} has shape {found[0].shape}, the weights have {weights[i].shape}"
            )
            assert not np.isnan(found[0]).any(), f"{name} contains {FREED}"
            for change in np.random.default_rng([seed, i]).standard_normal((2, *weights[i].shape)):
                hints = {
                    "the backward pass uses weights that were freed after the forward pass.": (
                        effect(h, slope, weights, i, change)
                    ),
                    "the derivative of tanh is missing.": effect(h, slope, used, i, change, tanh=False),
                }
                product, want = float((found[0] * change).sum()), effect(h, slope, used, i, change)
                expect(product, want, hints, f"{name}, added up with random factors,")
        made.append(memory)
    return made


def gathered_twice(networks, made):
    """Assert that layers are gathered at most twice, and those between the first and the last one twice."""
    for network, memory in zip(networks, made, strict=True):
        name = f"widths {network[0]}: the layers are gathered {memory.gathered} times"
        assert max(memory.gathered) <= 2, f"{name}; twice is enough"
        assert memory.gathered[1:-1] == [2] * (len(network[0]) - 3), (
            f"{name}; the layers between the first and the last one are needed in both passes, and their "
            "weights must be gathered again after free(i)"
        )


# %% check="layers-gradients" points=1 see="11.2"
"""The loss and the gradients of all layers are those of one process (1 point)."""
gradients_agree(try_layers, NETWORKS, 0)
### BEGIN HIDDEN TESTS
# Not seen: an error that is orthogonal to two random directions, which has probability 0.
*widths, a, b = fresh_rng(6).integers(2, 10, 6).tolist()
MORE = [([*widths, 1], 4), ([a, b], 7), ([b, b, a, 11], 2)]
gradients_agree(try_layers, MORE, SECRET)
### END HIDDEN TESTS

# %% check="layers-peak" points=1 see="11.2"
"""At any time, at most the bytes of the largest layer are gathered, and none at the end (1 point)."""


def little_memory(networks, seed):
    """Assert for each network that the peak is small, and that all layers are freed."""
    for network, changed in itertools.product(networks, (False, True)):
        memory, _, _, weights, _ = trained_by(try_layers, network, seed, changed)
        largest = max(w.nbytes for w in weights)
        assert memory.peak <= largest, (
            f"widths {network[0]}: {memory.peak} bytes are gathered at the same time; "
            f"the largest layer has {largest}"
        )
        assert not memory.there, (
            f"widths {network[0]}: layers {sorted(memory.there)} are not freed at the end"
        )


little_memory(NETWORKS, 0)
### BEGIN HIDDEN TESTS
# Not seen: copies of the weights, whose bytes are not counted. layers-gathered-again sees copies that the
# backward pass uses, except for the last layer, which it does not have to gather again.
*widths, a, b = fresh_rng(6).integers(2, 10, 6).tolist()
MORE = [([*widths, 1], 4), ([a, b], 7), ([b, b, a, 11], 2)]
little_memory(MORE, SECRET)
### END HIDDEN TESTS

# %% check="layers-gathered-again" points=1 see="11.2"
"""The backward pass uses the weights gathered for it; no layer is gathered more than twice (1 point)."""
gathered_twice(NETWORKS, gradients_agree(try_layers, NETWORKS, 0, changed=True))
### BEGIN HIDDEN TESTS
# Not seen: a copy of the last layer's weights that is used after free.
*widths, a, b = fresh_rng(6).integers(2, 10, 6).tolist()
MORE = [([*widths, 1], 4), ([a, b], 7), ([b, b, a, 11], 2)]
gathered_twice(MORE, gradients_agree(try_layers, MORE, SECRET, changed=True))
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Two dense layers, cut by columns and rows
#
# Two layers compute y = relu(x A + a) B + b. With *tensor parallelism*, rank r holds some columns of A, the
# same elements of a, and the corresponding rows of B. All ranks have x and the bias b. Each rank computes its
# columns of the hidden layer without communication. The product of these columns and its rows of B has the
# shape of y, but it is only one of p terms of a sum.


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
# In the backward pass, all ranks have dy, the gradient of the loss with respect to y. Which gradients does a
# rank compute without communication? Which one is a sum over the ranks?


# %% solution="tensor-backward"
def tensor_backward(comm, x, a, b, hidden, dy):
    """The gradients of two dense layers, with one all-reduce.

    x, a, b  as in tensor_forward;  hidden  (N, h_r), as tensor_forward returns it
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
LAYERS = [(2, (3, 4, 7, 2)), (3, (5, 3, 13, 4)), (4, (2, 6, 10, 3), "float32")]  # p, (N, d, h, k)
OUTPUTS = {"forward": ["y", "hidden"], "backward": ["dx", "da", "da_bias", "db", "db_bias"]}


def derivative(at, of, relu=True, columns=slice(None)):
    """The derivatives of the sum of dy · y with respect to the array named `of`, one element after another.

    at: {name: array}; relu: whether it is applied; columns: the columns of A that contribute to y.

    The function is linear between the kinks of relu, so a tiny imaginary step gives the exact derivative.
    """
    values = {name: at[name].astype(complex) for name in ("x", "a", "a_bias", "b", "b_bias")}
    array, slopes = values[of], np.empty(at[of].shape)
    for i in np.ndindex(array.shape):
        array[i] += 1e-30j
        before = values["x"] @ values["a"][:, columns] + values["a_bias"][columns]
        hidden = np.where(before.real > 0, before, 0) if relu else before
        slopes[i] = (at["dy"] * (hidden @ values["b"][columns] + values["b_bias"])).sum().imag / 1e-30
        array[i] -= 1e-30j
    return slopes.astype(at[of].dtype)


@functools.cache
def two_layers(case, seed):
    """Random arguments of a case: {name: array}, with the hidden layer and all results of one process."""
    p, (examples, d, h, k), dtype = *case[:2], (*case, "float64")[2]
    rng = np.random.default_rng([seed, p, h])
    shapes = {"x": (examples, d), "a": (d, h), "a_bias": h, "b": (h, k), "b_bias": k, "dy": (examples, k)}
    at = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    at["hidden"] = np.maximum(at["x"] @ at["a"] + at["a_bias"], 0)
    at["y"] = at["hidden"] @ at["b"] + at["b_bias"]
    return at | {f"d{name}": derivative(at, name) for name in ("x", "a", "a_bias", "b", "b_bias")}


def columns_of(at, p, rank):
    """Rank r's columns of A, a slice."""
    cuts = bounds(at["a"].shape[1], p)
    return slice(cuts[rank], cuts[rank + 1])


def part_of(name, value, p, rank):
    """Rank r's part of an array of two_layers."""
    columns = name in ("a", "da", "hidden")
    cuts = bounds(value.shape[1] if columns else len(value), p)
    own = slice(cuts[rank], cuts[rank + 1])
    if columns:
        return value[:, own]
    return value[own] if name in ("a_bias", "da_bias", "b", "db") else value


def layers_on_ranks(function, way, cases, seed):
    """Run tensor_forward or _backward on real ranks: [(case, arrays of one process, the Recording)]."""
    names = ("x", "a", "a_bias", "b", "b_bias") if way == "forward" else ("x", "a", "b", "hidden", "dy")
    arrays = [two_layers(case, seed) for case in cases]
    calls = [
        [[np.array(part_of(name, at[name], p, rank)) for name in names] for rank in range(p)]
        for (p, *_), at in zip(cases, arrays, strict=True)
    ]
    return list(zip(cases, arrays, on_real_ranks(function, calls), strict=True))


def layers_agree(found, way, only, hints=None):
    """Assert that the ranks' results are parts of one process's results. only: the names to compare.

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
                    f"instead of {described(want)}"
                )


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
        "dx": lambda at, p, rank: derivative(at, "x", columns=columns_of(at, p, rank))
    },
    "the sum is divided by p.": {"dx": lambda at, p, rank: at["dx"] / p},
    "all ranks have the same db_bias already, and it is added up once more.": {
        "db_bias": lambda at, p, rank: p * at["db_bias"]
    },
    "relu passes a gradient only where the hidden layer is positive.": {
        "da": lambda at, p, rank: part_of("da", derivative(at, "a", relu=False), p, rank),
        "dx": lambda at, p, rank: derivative(at, "x", relu=False),
    },
}


def one_all_reduce(found, name, elements, factors):
    """Assert that the ranks send what one all-reduce of elements(N, d, h, k) sends, and no more.

    All ranks must return the same result of that name. It must be the correct one, or that of a function in
    `factors`, which fails another check.
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
            call, 2 * (p - 1) * elements(*sizes) * size, 2 * p * (p - 1), f"{text}, {name} by one all-reduce"
        )


FORWARD_FACTORS = [FORWARD_HINTS[text]["y"] for text in list(FORWARD_HINTS)[::2]]
BACKWARD_FACTORS = [one["dx"] for one in list(BACKWARD_HINTS.values())[1:] if "dx" in one]


# %% check="tensor-forward-values" points=1 see="11.3"
"""All ranks return y, and each rank its part of the hidden layer, also with uneven parts (1 point)."""
layers_agree(
    layers_on_ranks(tensor_forward, "forward", LAYERS, 0), "forward", OUTPUTS["forward"], FORWARD_HINTS
)
### BEGIN HIDDEN TESTS
# Not seen: a hidden layer that is right because all ranks compute all columns. The FLOPs are not counted.
# The first case has a rank without columns.
sizes = fresh_rng(7).integers([1, 2, 9, 2], [6, 8, 13, 8], (3, 4)).tolist()
MORE = [(4, (3, 2, 3, 5)), *((p, (*size,)) for p, size in zip((1, 4), sizes, strict=False))]
MORE += [(3, tuple(sizes[2]), "float32")]
found = layers_on_ranks(tensor_forward, "forward", MORE, SECRET)
layers_agree(found, "forward", OUTPUTS["forward"])
### END HIDDEN TESTS

# %% check="tensor-forward-traffic" points=1 see="11.3"
"""The ranks send one all-reduce of N · k elements, and nothing else (1 point)."""
found = layers_on_ranks(tensor_forward, "forward", LAYERS, 0)
one_all_reduce(found, "y", lambda examples, d, h, k: examples * k, FORWARD_FACTORS)
### BEGIN HIDDEN TESTS
# Not seen: all bytes on one link, as with a sum on rank 0; only the sum over the ranks is limited.
sizes = fresh_rng(7).integers([1, 2, 9, 2], [6, 8, 13, 8], (3, 4)).tolist()
MORE = [(4, (3, 2, 3, 5)), *((p, (*size,)) for p, size in zip((1, 4), sizes, strict=False))]
MORE += [(3, tuple(sizes[2]), "float32")]
found = layers_on_ranks(tensor_forward, "forward", MORE, SECRET)
one_all_reduce(found, "y", lambda examples, d, h, k: examples * k, FORWARD_FACTORS)
### END HIDDEN TESTS

# %% check="tensor-backward-weights" points=1 see="11.3"
"""Each rank returns the gradients of its own columns, rows and biases (1 point)."""
own = ["da", "da_bias", "db", "db_bias"]
layers_agree(layers_on_ranks(tensor_backward, "backward", LAYERS, 0), "backward", own, BACKWARD_HINTS)
### BEGIN HIDDEN TESTS
# Not seen: gradients that are exchanged needlessly. tensor-backward-traffic sees it.
sizes = fresh_rng(7).integers([1, 2, 9, 2], [6, 8, 13, 8], (3, 4)).tolist()
MORE = [(4, (3, 2, 3, 5)), *((p, (*size,)) for p, size in zip((1, 4), sizes, strict=False))]
MORE += [(3, tuple(sizes[2]), "float32")]
layers_agree(layers_on_ranks(tensor_backward, "backward", MORE, SECRET), "backward", own)
### END HIDDEN TESTS

# %% check="tensor-backward-input" points=1 see="11.3"
"""All ranks return dx, the gradient that the preceding layers need (1 point)."""
layers_agree(layers_on_ranks(tensor_backward, "backward", LAYERS, 0), "backward", ["dx"], BACKWARD_HINTS)
### BEGIN HIDDEN TESTS
# Not seen: which array is added up; x is the same on all ranks, so only this sum gives dx.
sizes = fresh_rng(7).integers([1, 2, 9, 2], [6, 8, 13, 8], (3, 4)).tolist()
MORE = [(4, (3, 2, 3, 5)), *((p, (*size,)) for p, size in zip((1, 4), sizes, strict=False))]
MORE += [(3, tuple(sizes[2]), "float32")]
layers_agree(layers_on_ranks(tensor_backward, "backward", MORE, SECRET), "backward", ["dx"])
### END HIDDEN TESTS

# %% check="tensor-backward-traffic" points=1 see="11.3"
"""The ranks send one all-reduce of N · d elements, and nothing else (1 point)."""
found = layers_on_ranks(tensor_backward, "backward", LAYERS, 0)
one_all_reduce(found, "dx", lambda examples, d, h, k: examples * d, BACKWARD_FACTORS)
### BEGIN HIDDEN TESTS
# Not seen: an argument that is changed in place; the text does not forbid it.
sizes = fresh_rng(7).integers([1, 2, 9, 2], [6, 8, 13, 8], (3, 4)).tolist()
MORE = [(4, (3, 2, 3, 5)), *((p, (*size,)) for p, size in zip((1, 4), sizes, strict=False))]
MORE += [(3, tuple(sizes[2]), "float32")]
found = layers_on_ranks(tensor_backward, "backward", MORE, SECRET)
one_all_reduce(found, "dx", lambda examples, d, h, k: examples * d, BACKWARD_FACTORS)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A pipeline
#
# The layers are divided into p *stages*, one per rank, and the batch into m *micro-batches*.
#
# - A stage does one pass at a time.
# - The forward pass of micro-batch i on stage s starts after the forward pass of i on stage s − 1 has ended.
# - The backward pass of i on stage s starts after the backward pass of i on stage s + 1 has ended. On the
#   last stage, it starts after the forward pass of i has ended there.
# - A stage stores the activations of a micro-batch from the start of the forward pass to the end of the
#   backward pass.
#
# In *GPipe*, each stage does all forward passes, then all backward passes. So it stores m micro-batches. In
# *1F1B* (one forward, one backward), stage s starts with p − 1 − s forward passes, or with m if m is smaller.
# Then it alternates: one forward pass, one backward pass. After the last forward pass, it does the remaining
# backward passes. Each pass starts as early as this order and the rules above allow.
#
# First draw the 1F1B schedule for p = 3 and m = 4 on paper. The scratch cell below the blank draws your
# schedule: one row per stage, with light forward and dark backward passes.
#
# **Predict**: what fraction of the time is a stage idle, on average, if p = 4 and m = 8?

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
def assert_possible(schedule, stages, batches, forward, backward):
    """Assert that a schedule can be executed."""
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
            f"{name}: pass {kind} of micro-batch {batch} on stage {stage} starts at {start}, too early: "
            f"{needed} ends at {end[needed]}"
        )
        own = (stage, batch, "F")
        assert kind == "F" or start >= end[own] - tiny, (
            f"{name}: on stage {stage}, the backward pass of micro-batch {batch} starts before its forward "
            "pass has ended"
        )
    for stage in range(stages):
        own = sorted((start, kind, batch) for start, s, batch, kind in passes if s == stage)
        for before, after in itertools.pairwise(own):
            assert after[0] >= before[0] + length[before[1]] - tiny, (
                f"{name}: stage {stage} is not done with micro-batch {before[2]} when the next pass starts "
                f"at {after[0]}"
            )


def assert_little_stored(schedule, stages, batches, forward, backward):
    """Assert that stage s stores at most p − s micro-batches, in a schedule that can be executed."""
    starts, ends = [], []  # of the forward passes, and of the backward passes, of each stage
    for stage in range(stages):
        starts.append(sorted(start for start, s, _, kind in schedule if s == stage and kind == "F"))
        ends.append(sorted(start + backward for start, s, _, kind in schedule if s == stage and kind == "B"))
    forward_first = all(own[-1] < first for own, (first, *_) in zip(starts, ends, strict=True))
    gpipe = " As in GPipe, all forward passes come first." if forward_first else ""
    for stage in range(stages):
        most = stages - stage
        for number, (start, end) in enumerate(zip(starts[stage][most:], ends[stage], strict=False), most + 1):
            assert start >= end - 1e-9 * (forward + backward), (
                f"p = {stages}, m = {batches}: at {start:g}, stage {stage} stores {most + 1} micro-batches; "
                f"{most} are enough. Its forward pass number {number} starts before its backward pass number "
                f"{number - most} has ended.{gpipe}"
            )


# p, m, forward, backward
PIPELINES = [(2, 3, 1, 2), (4, 8, 1, 2), (3, 7, 2, 3), (1, 4, 1, 1), (4, 2, 1.5, 1)]


def other_pipelines():
    """Return the cases of the hidden tests."""
    rng = fresh_rng(8)
    stages, durations = rng.permutation([3, 4, 5, 6, 8]).tolist(), rng.choice(9, (5, 2)) / 4 + 0.25
    batches = [1, stages[1], stages[2] - 1, *(int(m * rng.uniform(1.5, 3)) + 1 for m in stages[3:])]
    return [(p, m, *pair) for p, m, pair in zip(stages, batches, durations.tolist(), strict=True)]


def scheduled(function, case):
    """Return your schedule of a case; assert that it can be executed."""
    schedule = [tuple(one) for one in function(*case)]
    assert_possible(schedule, *case)
    return schedule


# %% check="schedule-possible" points=1 see="11.4"
"""Each pass occurs once, after the passes that it needs; a stage does one pass at a time (1 point)."""
for case in PIPELINES:
    scheduled(one_forward_one_backward, case)
### BEGIN HIDDEN TESTS
# Not seen: a schedule that is not 1F1B, if it can be executed. The next two checks see it.
for case in other_pipelines():
    scheduled(pinned("schedules", one_forward_one_backward), case)
### END HIDDEN TESTS

# %% check="schedule-bubble" points=1 see="11.4"
"""The schedule ends as early as a 1F1B schedule can (1 point)."""


def ends_early(function, case):
    """Assert that your schedule of a case ends as early as possible."""
    p, m, forward, backward = case
    schedule = scheduled(function, case)
    end = max(start + (forward if kind == "F" else backward) for start, *_, kind in schedule)
    want = (m + p - 1) * (forward + backward)
    assert end <= want * (1 + 1e-9), (
        f"p = {p}, m = {m}, passes of {forward} and {backward}: it ends at {end:g}, but {want:g} is possible"
    )


for case in PIPELINES:
    ends_early(one_forward_one_backward, case)
### BEGIN HIDDEN TESTS
# Not seen: passes that start later than they can, if the last one does not end later.
for case in other_pipelines():
    ends_early(pinned("schedules", one_forward_one_backward), case)
### END HIDDEN TESTS

# %% check="schedule-memory" points=1 see="11.4"
"""Stage s stores at most p − s micro-batches at a time (1 point)."""
for case in PIPELINES:
    assert_little_stored(scheduled(one_forward_one_backward, case), *case)
### BEGIN HIDDEN TESTS
# Not seen: fewer stored micro-batches at the cost of time. schedule-bubble sees it.
for case in other_pipelines():
    assert_little_stored(scheduled(pinned("schedules", one_forward_one_backward), case), *case)
### END HIDDEN TESTS

# %% [markdown]
# Now write a function that measures *any* schedule, such as GPipe's. The *bubble* is the fraction of the time
# in which a stage is idle, averaged over all stages. The time runs from the first start to the last end.


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
p, m = 4, 8
bubble, peaks = bubble_and_peak(one_forward_one_backward(p, m, 1, 2), p, 1, 2)
print(f"1F1B: the bubble is {bubble:.3f}, and (p − 1)/(m + p − 1) is {(p - 1) / (m + p - 1):.3f}")
print(f"peaks {peaks}; p − s is {[p - s for s in range(p)]}")


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


SCHEDULES = [gpipe, one_at_a_time, two_rounds, last_stage_first]
MEASURED = {  # (p, m, forward, backward, first start): the bubbles of SCHEDULES, and their peaks
    (2, 4, 1, 2, 0.0): ([3 / 15, 12 / 24, 6 / 18, 7 / 19], [[4, 4], [1, 1], [2, 2], [4, 1]]),
    (3, 5, 2, 3, 10.0): (
        [10 / 35, 50 / 75, 20 / 45, 20 / 45],
        [[5, 5, 5], [1, 1, 1], [3, 3, 3], [5, 5, 1]],
    ),
}


def measured(bubble_and_peak, number, cases):
    """Result `number` (0: bubble, 1: peaks) of each of SCHEDULES with each of the sizes, in random order."""
    found = []
    for p, m, forward, backward, start in cases:
        for seed, make in enumerate(SCHEDULES):
            schedule = shuffled(make(p, m, forward, backward, start), [seed, p])
            found.append(bubble_and_peak(schedule, p, forward, backward)[number])
    return found


def results_agree(found, wanted, cases, what, hints):
    """Assert that the results of all schedules are right; name a misconception only if all agree with it."""
    names = [f"{what} of {make.__name__}{case}" for case in cases for make in SCHEDULES]
    for at, name in enumerate(names):
        likely = {}
        for text, other in hints.items():
            if all(
                np.shape(a) == np.shape(b) and np.allclose(a, b) for a, b in zip(found, other, strict=True)
            ):
                likely[text] = other[at]
        expect(found[at], wanted[at], likely, name)


# %% check="bubble-of-schedules" points=1 see="11.4"
"""The bubble of other schedules, in any order and from any start (1 point)."""
found = [float(one) for one in measured(bubble_and_peak, 0, MEASURED)]
wanted = [bubble for bubbles, _ in MEASURED.values() for bubble in bubbles]
sizes = [case for case in MEASURED for _ in SCHEDULES]
from_zero = []
for (_, m, forward, backward, start), want in zip(sizes, wanted, strict=True):
    busy = m * (forward + backward)
    from_zero.append(1 - busy / (busy / (1 - want) + start))
hints = {
    "it is the idle time divided by the busy time; divide by the whole time from first start to last end.": [
        want / (1 - want) for want in wanted
    ],
    "it is the busy fraction of the time, not the idle one.": [1 - want for want in wanted],
    "the idle times of all stages are added; it is their average over the stages.": [
        want * p for (p, *_), want in zip(sizes, wanted, strict=True)
    ],
    "the time before the first start counts as idle; measure from the first start.": from_zero,
    "it is (p − 1)/(m + p − 1), which GPipe and 1F1B have; other schedules have other bubbles.": [
        (p - 1) / (m + p - 1) for p, m, *_ in sizes
    ],
}
results_agree(found, wanted, MEASURED, "the bubble", hints)
### BEGIN HIDDEN TESTS
# Not seen: a bubble of stages that have different durations. All stages take the same time here.


def bubble_of(schedule, p, forward, backward):
    starts, kinds = [one[0] for one in schedule], [one[3] for one in schedule]
    lengths = np.where(np.array(kinds) == "F", forward, backward)
    return 1 - lengths.sum() / p / ((starts + lengths).max() - min(starts))


rng = fresh_rng(9)
MORE = [(int(p), *rng.integers(4, 10, 1).tolist(), *(rng.choice(9, 2) / 4 + 0.25), start) for p, start in
        zip(rng.permutation([2, 3, 4, 5])[:3], (0.0, *rng.uniform(3, 30, 2)), strict=True)]  # fmt: skip
want = [float(one) for one in measured(lambda *case: [bubble_of(*case)], 0, MORE)]
found = [float(one) for one in measured(pinned("measures", bubble_and_peak), 0, MORE)]
results_agree(found, want, MORE, "the bubble", {})
### END HIDDEN TESTS

# %% check="peak-of-schedules" points=1 see="11.4"
"""The largest number of micro-batches that each stage stores at the same time (1 point)."""
found = [np.asarray(one).tolist() for one in measured(bubble_and_peak, 1, MEASURED)]
wanted = [peaks for _, of_all in MEASURED.values() for peaks in of_all]
sizes = [case for case in MEASURED for _ in SCHEDULES]
hints = {
    "it is the number of all micro-batches.": [[m] * p for p, m, *_ in sizes],
    "all stages have the peak of the largest one; each stage has its own.": [
        [max(peaks)] * len(peaks) for peaks in wanted
    ],
    "the passes are counted in the order of the list; it is not sorted by time.": [
        *([3, 1], [0, 2], [2, 1], [2, 2]),
        *([1, 2, 1], [3, 1, 0], [3, 0, 1], [3, 1, 0]),
    ],
}
results_agree(found, wanted, MEASURED, "the peaks", hints)
### BEGIN HIDDEN TESTS
# Not seen: passes of length 0, and a stage that does two things at a time. No schedule has them.


def peaks_of(schedule, p, forward, backward):
    most = []
    for stage in range(p):
        own = sorted(one for one in schedule if one[1] == stage)
        most.append(int(np.cumsum([1 if one[3] == "F" else -1 for one in own]).max()))
    return most


rng = fresh_rng(9)
MORE = [(int(p), *rng.integers(4, 10, 1).tolist(), *(rng.choice(9, 2) / 4 + 0.25), start) for p, start in
        zip(rng.permutation([2, 3, 4, 5])[:3], (0.0, *rng.uniform(3, 30, 2)), strict=True)]  # fmt: skip
want = measured(lambda *case: [peaks_of(*case)], 0, MORE)
found = [np.asarray(one).tolist() for one in measured(pinned("measures", bubble_and_peak), 1, MORE)]
results_agree(found, want, MORE, "the peaks", {})
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Which split?
#
# A cluster has nodes of 8 GPUs. The links inside a node are fast, and those between nodes are slower. A
# transformer is trained on `data` × `tensor` × `pipeline` GPUs. There are `data` copies of the model. Each
# copy is divided into `pipeline` stages, and each layer of a stage is cut into `tensor` parts. Each copy
# takes an equal share of the sequences of a batch, and a micro-batch is one sequence. The state of the
# optimizer is sharded over the copies (ZeRO stage 1).
#
# The next cell has a model of memory and time. It makes three simplifications: compute and communication do
# not overlap, all stages take the same time, and a matrix product runs at the same speed for each split. Read
# the model before you use it. Which terms grow with `data`, which with `tensor`, and which with `pipeline`?


# %% given="cost-model"
def parameters(model):
    """Number of parameters: 12 width² per layer, and the embedding table of all words."""
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
# `machine` is a dictionary. `gpus` is the number of GPUs, and `node` the number of GPUs per node. `memory` is
# in bytes per GPU, and `flops` in FLOP/s per GPU. `inside` and `between` are the bandwidths per GPU inside a
# node and between nodes, in bytes per second. A split is allowed if
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
SPLITS = [  # (model, machine, sequences), and the allowed splits that the check accepts
    (
        (MODELS["7B"], CLUSTER, 256),
        [
            (8, 2, 4),
            (16, 2, 2),
            (32, 2, 1),
            (4, 2, 8),
            (16, 4, 1),
            (8, 4, 2),
            (4, 4, 4),
            (2, 2, 16),
            (2, 4, 8),
        ],
    ),
    ((MODELS["70B"], CLUSTER, 256), [(4, 4, 4), (2, 4, 8), (8, 4, 2), (1, 4, 16), (4, 2, 8), (2, 2, 16)]),
    ((MODELS["70B"], CLUSTER | {"memory": 40e9}, 256), [(1, 4, 16), (4, 8, 2), (2, 8, 4)]),
    ((MODELS["70B"], CLUSTER | {"between": 5e9}, 64), [(1, 8, 8)]),
    ((THIRTEEN, TWELVE_NODES, 192), [(3, 4, 8), (3, 8, 4), (6, 4, 4), (6, 8, 2)]),
    ((MODELS["70B"], CLUSTER | {"gpus": 8}, 256), []),
]


def other_clusters():
    """Return the cases of the hidden tests, each with whether any split is allowed."""
    rng = fresh_rng(10)
    between, *memory = rng.uniform([1e9, 1, 1, 1], [4e9, 1.2, 1.2, 1.2]).tolist()
    slow = CLUSTER | {"gpus": 24, "between": between, "memory": 20e9 * memory[2]}
    return [
        ((MODELS["70B"], CLUSTER | {"gpus": 512, "memory": 40e9 * memory[0]}, 1_024), True),
        ((THIRTEEN, TWELVE_NODES | {"gpus": 48, "memory": 24e9 * memory[1]}, 96), True),
        ((MODELS["7B"], slow, 48), True),
        ((MODELS["7B"] | {"heads": 12, "layers": 30}, CLUSTER | {"gpus": 40}, 100), True),
        ((MODELS["7B"], CLUSTER | {"gpus": int(rng.choice([7, 11, 13]))}, 256), False),
    ]


def split_found(choose_split, case):
    """Return your split, a tuple or None, and a description of the case."""
    model, machine, sequences = case
    found = choose_split(dict(model), dict(machine), sequences)
    name = f"{parameters(model) / 1e9:.0f} billion parameters, {machine['gpus']} GPUs, {sequences} sequences"
    return None if found is None else tuple(np.asarray(found).tolist()), name


def split_is_fast(choose_split, case, accepted):
    """Assert that your split is one of the allowed ones that take at most 5% longer than the best."""
    found, name = split_found(choose_split, case)
    if not accepted or found in accepted:
        return
    assert found is not None, f"{name}: choose_split() returned None, but a split is allowed"
    assert len(found) == 3, f"{name}: {found} is not (data, tensor, pipeline)"
    assert min(found) >= 1 and np.prod(found) == case[1]["gpus"], f"{name}: {found} is not allowed"
    longer = step_seconds(*case, found) / min(step_seconds(*case, one) for one in accepted) - 1
    assert longer > 0.05, f"{name}: {found} is not allowed"
    raise AssertionError(f"{name}: a step with {found} takes {longer:.0%} longer than with the best split")


# %% check="split-allowed" points=1 see="11.5"
"""The split obeys all rules and fits into memory; None if no split does (1 point)."""


def split_is_allowed(choose_split, case, possible):
    """Assert that your split is allowed. possible: whether any split is allowed."""
    found, name = split_found(choose_split, case)
    if not possible:
        assert found is None, f"{name}: neither {found} nor any other split is allowed: return None"
        return
    assert found is not None, f"{name}: choose_split() returned None, but a split is allowed"
    assert len(found) == 3, f"{name}: {found} is not (data, tensor, pipeline)"
    model, machine, sequences = case
    data, tensor, pipeline = found
    assert min(found) >= 1 and all(one == int(one) for one in found), (
        f"{name}: {found} should be three integers of at least 1"
    )
    assert data * tensor * pipeline == machine["gpus"], (
        f"{name}: {data} × {tensor} × {pipeline} is not the number of GPUs"
    )
    for what, number, by in (
        ("heads", model["heads"], tensor),
        ("layers", model["layers"], pipeline),
        ("sequences", sequences, data),
    ):
        assert number % by == 0, f"{name}: {found}: {by} does not divide the {number} {what}"
    held = memory_bytes(*case, found)
    assert held <= machine["memory"], (
        f"{name}: {found} needs {held / 1e9:.1f} GB per GPU; a GPU has {machine['memory'] / 1e9:.1f} GB"
    )


for case, accepted in SPLITS:
    split_is_allowed(choose_split, case, bool(accepted))
### BEGIN HIDDEN TESTS
# Not seen: a split that is allowed and slow. split-fast sees it.
for case, possible in other_clusters():
    split_is_allowed(pinned("splits", choose_split), case, possible)
### END HIDDEN TESTS

# %% check="split-fast" points=1 see="11.5"
"""A step with the split takes at most 5% longer than with the best one (1 point)."""
for case, accepted in SPLITS:
    split_is_fast(choose_split, case, accepted)
### BEGIN HIDDEN TESTS
# Not seen: a split that is up to 5% slower than the best one; the text allows it.


def accepted_of(model, machine, sequences):
    gpus, seconds = machine["gpus"], {}
    for data in (d for d in range(1, gpus + 1) if gpus % d == 0 and sequences % d == 0):
        for tensor in (t for t in range(1, gpus // data + 1) if gpus // data % t == 0):
            split = (data, tensor, gpus // data // tensor)
            fits = memory_bytes(model, machine, sequences, split) <= machine["memory"]
            if fits and model["heads"] % tensor == 0 and model["layers"] % split[2] == 0:
                seconds[split] = step_seconds(model, machine, sequences, split)
    return [split for split, one in seconds.items() if one <= 1.05 * min(seconds.values())]


for case, possible in other_clusters():
    split_is_fast(pinned("splits", choose_split), case, accepted_of(*case) if possible else [])
### END HIDDEN TESTS

# %% [markdown]
# ## 7. A written answer
#
# The cell after `choose_split` prints your splits. Answer these questions in about four sentences, with
# numbers from your output, or from `memory_bytes` and `step_seconds`:
#
# - **(a)** Why does your split of the 70B model on SLOW differ from its split on CLUSTER?
# - **(b)** Why can the 70B model's split on CLUSTER not be used on SMALL? How much longer does a step take
#   with your split on SMALL?
# - **(c)** Name one thing that your `one_forward_one_backward` includes and this cost model leaves out, or
#   the other way round.
#
# If the two splits in (a) or (b) are the same, explain why.

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
#   one piece, and the schedule separates them; the schedule has no time for messages between stages; the
#   model counts the memory of the first stage only, and later stages store less; the model's stages are
#   perfectly balanced, though the embedding table is on one of them; all-reduces that overlap with compute
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
# - Adam in mixed precision needs 16 bytes per parameter, but 12 of them are needed only
#   on the rank that updates the parameter. Sharding them sends no more bytes than
#   data-parallel training does.
# - A sharded optimizer follows the trajectory of one process. A reduce-scatter brings each rank the part of
#   the gradient that it needs, and an all-gather brings the weights that it did not update.
# - Stage 3 saves memory and costs one more all-gather, because freed weights have to be gathered again.
# - A column cut followed by a row cut needs one all-reduce per pass, because each rank uses only its own part
#   of the hidden layer.
# - GPipe and 1F1B have the same bubble, (p − 1)/(m + p − 1). 1F1B stores at most p − s micro-batches on
#   stage s.
#
# Open questions:
#
# 1. FSDP gathers layer i + 1 while layer i computes. What would that cost in `peak`, and for which sizes does
#    the gather take no extra time?
# 2. Which of the three ways to cut would you use inside a node, and what would change with 72 GPUs per node?
# 3. Recomputing activations in the backward pass costs a third more FLOPs. Which of your splits would change?
