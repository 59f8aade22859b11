# %% [markdown]
# # 11 · When the model does not fit
#
# **A model needs 16 bytes per parameter to be trained. Seventy billion parameters are 1.1 TB. Where are
# they?**
#
# Data parallelism (lecture 07) copies the whole model to every rank. This ends when one copy does not fit
# into the memory of one GPU. Then ranks share the *state* of training, the *layers* or the *stages* of a
# network, and each of these needs other messages. In this lecture you will
#
# 1. **count** the memory of training before you measure it;
# 2. see that sharded data parallelism (**ZeRO**, **FSDP**) is the all-reduce of lecture 06 in two halves, and
#    ends with the same bits;
# 3. find out when **gathering weights** costs nothing;
# 4. cut a pair of layers (**tensor parallelism**) and an image, and count what is sent;
# 5. derive the **bubble** of a pipeline, and run two schedules;
# 6. **choose a split** for three models, and compare the choice with published ones.
#
# Notation: $\Psi$ parameters; $p$ ranks, data-parallel ones unless stated otherwise; $m$ micro-batches.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(threads=1, tensorflow=False)

# %%
import dataclasses
import hashlib
import itertools
import os
import tracemalloc

os.environ.setdefault("CLUSTER_RUNS", "../runs")  # jobs of this lecture

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display

from cluster import submit
from cluster.network import Network, Placeholder, Switch, draw, on_real_ranks
from cluster.network import resnet50, simulate

# %% [markdown]
# ## 11.1 Memory, counted before it is measured
#
# A training step keeps four things. The **weights**, their **gradients** and the **optimizer's state** need
# a fixed number of bytes per parameter: with Adam two moments, with momentum one velocity. In mixed precision
# the network computes with 2-byte weights and gradients, and the optimizer keeps 4-byte copies of weights and
# moments. The **activations**, which the backward pass needs, grow with the batch. **Guess** how many
# gigabytes the first three are for 7 billion parameters in mixed precision with Adam.

# %%
guess("weights, gradients and Adam of 7 billion parameters", unit=" GB")
STATE = {  # bytes per parameter: weight, gradient, optimizer
    "SGD, float32": (4, 4, 0),
    "SGD with momentum, float32": (4, 4, 4),
    "Adam, float32": (4, 4, 8),
    "Adam, mixed precision": (2, 2, 12),
}
counted = pd.DataFrame({"bytes per parameter": {k: sum(v) for k, v in STATE.items()}})
for name, size in {"ResNet-50": 25.6e6, "7 billion": 7e9, "70 billion": 70e9}.items():
    counted[f"{name}, GB"] = counted["bytes per parameter"] * size / 1e9
display(counted)
compare("weights, gradients and Adam of 7 billion parameters", counted.iloc[3, 2])
claim("7 billion parameters already exceed a GPU of 80 GB", counted.iloc[3, 2] > 80)

# %% [markdown]
# So 7 billion parameters already exceed a GPU of 80 GB, before the first image or token. (With gradients
# accumulated in float32 it is 18 or 20 bytes per parameter.) What of the activations? The backward pass of a
# convolution needs the layer's input, that of a batch normalisation its input, that of a ReLU its output. In
# the ResNet of 20 layers of lecture 03 the inputs of convolutions are outputs of ReLUs, so there are two
# tensors to keep per convolution: its output and the ReLU's. We add them up from the shapes. Then two ranks
# take one training step each, with 64 and with 256 images, and read the *peak* of their resident memory from
# `/proc/self/status`. The difference of the two leaves out Python and TensorFlow. **Guess** the megabytes per
# image.


# %% tags=["measured"]
def peak_of_a_step(comm, sizes=(64, 256)):
    """Bytes: peak memory of this rank in a step, stored activations per image, state."""
    import keras

    from cluster.training import models

    model = models.small_resnet(blocks=3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    images = np.zeros((sizes[comm.rank], 28, 28, 1), np.float32)
    model.train_on_batch(images, np.zeros(len(images), int))
    stored = [layer for layer in model.layers if "conv" in layer.name or "relu" in layer.name]
    per_image = sum(4 * np.prod(layer.output.shape[1:]) for layer in stored)
    lines = open("/proc/self/status").read().splitlines()
    [peak] = (1024 * int(line.split()[1]) for line in lines if "VmHWM" in line)
    return peak, per_image, 16 * model.count_params()


# %% tags=["measured"]
guess("activations of an image, ResNet-20", unit=" MB")
job = submit(on_real_ranks, peak_of_a_step, ranks_per_node=2, controller="mpi", memory="3G")
(small, stored, state), (large, _, _) = job.results(progress=False)
per_image = (large - small) / (256 - 64)
compare("activations of an image, ResNet-20", per_image / 1e6)
print(f"counted {stored / 1e6:.2f} MB per image; the state is {state / 1e6:.1f} MB")
claim("the count is within a fifth of the measurement", abs(per_image / stored - 1) < 0.2)
claim("more than 50 times as much as the state", 256 * stored > 50 * state)

# %% [markdown]
# The count is within a fifth of the measurement; what is missing are buffers in which a layer works. For 256
# images the activations take more than 50 times as much as the state. In a small convolutional network,
# activations are the problem, and a smaller batch solves it. In a network with billions of parameters the
# state is the problem, and no batch size helps.
#
# ## 11.2 ZeRO: keep a part, gather the rest
#
# In data parallelism all ranks keep the same weights and the same moments: $p$ copies. Rajbhandari et al.
# (2020) remove the copies in three stages. Each rank keeps only its $p$-th part of
#
# 1. the **optimizer's state** (stage 1),
# 2. and the **gradients** (stage 2),
# 3. and the **weights** (stage 3; in PyTorch *fully sharded data parallel*, FSDP).
#
# What has to be sent? The all-reduce of lecture 06 had two halves. The **reduce-scatter** leaves on each rank
# the sum of its own chunk; the **all-gather** collects the chunks. Each half sends
# $\frac{p-1}p\Psi$ numbers.


# %%
def reduce_scatter(comm, x):
    """The sum over all ranks of chunk `rank` of x; p divides len(x)."""
    rank, p = comm.rank, comm.size
    chunks = np.split(x.copy(), p)
    for step in range(p - 1):
        gone, here = (rank - step - 1) % p, (rank - step - 2) % p
        sum_so_far = comm.sendreceive(chunks[gone], (rank + 1) % p, (rank - 1) % p)
        comm.add(chunks[here], sum_so_far)
    return chunks[rank].copy()


def all_gather(comm, chunk):
    """The chunks of all ranks, one after the other."""
    rank, p = comm.rank, comm.size
    chunks = {rank: chunk}
    for step in range(p - 1):
        gone, here = (rank - step) % p, (rank - step - 1) % p
        received = comm.sendreceive(chunks[gone], (rank + 1) % p, (rank - 1) % p)
        chunks[here] = received
    return np.concatenate([chunks[r] for r in range(p)])


# %% [markdown]
# Adam changes each weight by itself, so a chunk of the gradient, of the moments and of the weights is enough
# to update this chunk. Stage 1 and 2 therefore reduce-scatter the gradients, update a chunk, and all-gather
# the *weights* instead of the gradients. Stage 3 keeps the chunk, and gathers each layer's weights before its
# forward pass and again before its backward pass. In units of $\frac{p-1}p\Psi$ numbers per step this is
# $1 + 1$ for data parallelism and stages 1 and 2, and $1 + 1 + 1$ for stage 3.
#
# Is it the same training run? Our network has three layers of 512 × 512 weights, tanh, and a squared error.


# %%
WIDTH, LAYERS, IMAGES = 512, 3, 16
PSI = LAYERS * WIDTH**2


def initial_weights():
    rng = np.random.default_rng(11)
    drawn = [rng.standard_normal(WIDTH**2) / WIDTH**0.5 for _ in range(LAYERS)]
    return [w.astype(np.float32) for w in drawn]


def gradients(x, y, weights_of):
    """(layer, gradient) of each layer, the last one first; weights_of(layer): its weights."""
    values = [x]
    for layer in range(LAYERS):
        values.append(np.tanh(values[-1] @ weights_of(layer).reshape(WIDTH, -1)))
    d = values[-1] - y
    for layer in reversed(range(LAYERS)):
        d = d * (1 - values[layer + 1] ** 2)
        yield layer, (values[layer].T @ d).ravel() / IMAGES
        d = d @ weights_of(layer).reshape(WIDTH, -1).T


# %%
def adam(w, g, m, v, t):
    """A step of Adam, in place, for any part of the parameters."""
    m += 0.1 * (g - m)
    v += 0.001 * (g * g - v)
    w -= 1e-3 * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def prepare(comm, stage):
    """What a rank keeps, and its weights for a step, in a stage of ZeRO (0: data parallel)."""
    weights = initial_weights()
    if stage == 3:
        weights = [np.split(w, comm.size)[comm.rank].copy() for w in weights]
        return weights, weights, lambda layer: all_gather(comm, weights[layer])
    parts = weights  # what this rank updates: views
    if stage:
        parts = [np.split(w, comm.size)[comm.rank] for w in weights]
    return weights, parts, lambda layer: weights[layer]


# %%
def train(comm, stage, steps=3):
    """Train; return the weights that this rank keeps, and the bytes it held at most."""
    weights, parts, weights_of = prepare(comm, stage)
    moments = [(np.zeros_like(part), np.zeros_like(part)) for part in parts]
    held = 0
    for t in range(1, steps + 1):
        batch = np.random.default_rng(t).standard_normal((2, IMAGES, WIDTH), np.float32)
        x, y = np.split(batch, comm.size, axis=1)[comm.rank]
        kept = {}
        for layer, g in gradients(x, np.tanh(y), weights_of):
            kept[layer] = reduce_scatter(comm, g) if stage >= 2 else g
        g = None
        held = max(held, tracemalloc.get_traced_memory()[0])
        for layer, part in enumerate(parts):
            g = kept.pop(layer) if stage >= 2 else reduce_scatter(comm, kept.pop(layer))
            adam(part, g if stage else all_gather(comm, g), *moments[layer], t)
            if 1 <= stage <= 2:
                weights[layer][:] = all_gather(comm, part)
    return weights, held


# %% [markdown]
# We train for three steps on four ranks in virtual time, in all four stages, and once on one rank with the
# same global batch. **Guess** how many *bits* of the weights differ between stage 3 and data parallelism.

# %%
guess("bits that differ between stage 3 and data parallelism")
NETWORK, P = Network(1e-6, 1e-9), 4
runs = {stage: simulate(train, stage, ranks=P, network=NETWORK) for stage in range(4)}
final = {stage: run.results[0][0] for stage, run in runs.items()}
shards = [weights for weights, _ in runs[3].results]
final[3] = [np.concatenate(parts) for parts in zip(*shards, strict=True)]
[(alone, _)] = simulate(train, 0, ranks=1, network=NETWORK).results
bits = {s: np.concatenate(w).view(np.uint32) ^ np.concatenate(final[0]).view(np.uint32)
        for s, w in final.items()}  # fmt: skip
table = pd.DataFrame(index=range(4)).rename_axis("stage")
table["bits that differ"] = {s: np.unpackbits(b.view(np.uint8)).sum() for s, b in bits.items()}
sent = {s: run.counts[0].bytes_sent / 3 for s, run in runs.items()}
table["(p−1)/p·Ψ numbers sent"] = pd.Series(sent) / (4 * PSI * (P - 1) / P)
display(table)
compare("bits that differ between stage 3 and data parallelism", table.iloc[3, 0])

# %%
away = max(np.abs(a - b).max() for a, b in zip(alone, final[0], strict=True))
largest = max(np.abs(a).max() for a in alone)
print(f"from one process: {away:.1e}; the largest weight is {largest:.2f}")
claim("All stages end with the same bits", not table.iloc[:, 0].any())
claim("from one process they differ by rounding", 0 < away < 1e-6)
claim("stage 3 sends half as much again", table.iloc[3, 1] == 1.5 * table.iloc[0, 1])

# %% [markdown]
# All stages end with the same bits, because each number is added up on the same rank in the same order, and
# the optimizer treats each number by itself; from one process they differ by rounding (the second test of
# lecture 07). **Stage 3 sends half as much again** as data parallelism, stages 1 and 2 send the same. (This
# holds for one micro-batch per step. An optimizer that needs a norm over all parameters, as LARS or gradient
# clipping do, needs one more small all-reduce.)
#
# What is gained? With $K$ bytes of optimizer state per parameter, and 2 for weight and gradient each, a rank
# keeps $(4 + K)\Psi$, $(4 + K/p)\Psi$, $(2 + (2 + K)/p)\Psi$ or $(4 + K)\Psi/p$ bytes. In our float32
# network it is $4 + 4 + 8$. A real job of four processes counts what NumPy has allocated when the backward
# pass ends.


# %%
def held_bytes(comm):
    """Bytes that this rank holds after the backward pass, and a hash of its weights, by stage."""
    found = []
    for stage in range(4):
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        weights, held = train(comm, stage)
        tracemalloc.stop()
        if stage == 3:
            weights = [all_gather(comm, w) for w in weights]
        sha = hashlib.sha256(np.concatenate(weights).tobytes()).hexdigest()
        found.append((held - before, sha[:8]))
    return found


job = submit(on_real_ranks, held_bytes, ranks_per_node=P, controller="mpi")
by_rank = job.results(progress=False)
parameter = np.array([16, 8 + 8 / P, 4 + 12 / P, 16 / P])  # bytes
real = pd.DataFrame(by_rank[0], columns=["MB held", "hash"]).rename_axis("stage")
real["MB held"] /= 1e6
real.insert(0, "MB predicted", parameter * PSI / 1e6)
display(real.drop(columns="hash").round(2))
claim("within 5% of what the process holds",
      np.allclose(real["MB held"], real["MB predicted"], rtol=0.05))  # fmt: skip
claim("four real processes end with one set of weights",
      len({sha for rank in by_rank for _, sha in rank}) == 1)  # fmt: skip

# %% [markdown]
# The prediction is within 5% of what the process holds, and in every stage four real processes end with one
# set of weights. During a layer's pass, stage 3 also holds this layer's gathered weights and gradient:
# layers, not the model, have to fit.

# %%
fig, ax = plt.subplots(figsize=(7.2, 3.6))
n, ranks, left = 7.5e9, 64, np.zeros(4)
kinds = {"weights": (2, 3), "gradients": (2, 2), "optimizer": (12, 1)}
for (kind, (b, since)), color, hatch in zip(kinds.items(), palette, ("", "//", ".."), strict=False):
    part = np.array([b * n / (ranks if stage >= since else 1) / 1e9 for stage in range(4)])
    ax.barh(range(4), part, left=left, color=color, hatch=hatch, edgecolor="w", label=kind)
    left += part
for stage, total in enumerate(left):
    ax.text(total + 1, stage, f"{total:.1f} GB", va="center")
names = ["data parallel", "stage 1", "stage 2", "stage 3"]
ax.set(yticks=range(4), yticklabels=names, xlim=(0, 140), xlabel="GB on each of 64 ranks")
ax.invert_yaxis()
ax.legend(loc="lower right")
plt.show()
paper = [120, 31.4, 16.6, 1.9]
claim("the four numbers of Rajbhandari et al.", np.allclose(left, paper, atol=0.05))

# %% [markdown]
# *(Figure: four horizontal bars, for 7.5 billion parameters on 64 ranks, divided into weights, gradients and
# optimizer. Data parallel 120.0 GB, of which the optimizer is three quarters; stage 1 31.4 GB; stage 2 16.6
# GB, mostly weights; stage 3 1.9 GB.)*
#
# These are the four numbers of Rajbhandari et al. (figure 1), recomputed. In stage 3 seventy billion
# parameters are 1.1 TB *together*: 2.2 GB on each of 512 GPUs. That is one answer to our question. What does
# it cost?
#
# ## 11.3 When is gathering free?
#
# Stage 3 waits for weights before each layer. FSDP therefore **prefetches**: while a layer computes, the next
# one's weights are on their way; likewise the reduce-scatter of a gradient runs while the next layer
# computes. We write this with non-blocking messages: a rank sends its chunk to all others at once, and waits
# only when it needs the result.


# %%
def exchange(comm, chunk):
    """Begin to send a chunk to each other rank, and to receive one from each."""
    others = [(comm.rank + d) % comm.size for d in range(1, comm.size)]
    return [comm.isend(chunk, r) for r in others] + [comm.ireceive(r) for r in others]


def wait_for(requests):
    for request in requests:
        request.wait()


def fsdp_step(comm, layers, chunk, seconds, prefetch):
    """One step; a layer computes for `seconds` forward, and for twice that backward."""
    gathers, reductions = [exchange(comm, chunk)], []
    for i in range(2 * layers):  # the layers forward, then backward
        wait_for(gathers[i])
        if prefetch and i + 1 < 2 * layers:
            gathers.append(exchange(comm, chunk))
        comm.compute(seconds if i < layers else 2 * seconds)
        if i >= layers:
            reductions += exchange(comm, chunk)
        if not prefetch:
            wait_for(reductions)
            gathers += [exchange(comm, chunk)] if i + 1 < 2 * layers else []
    wait_for(reductions)


# %%
fig, axes = plt.subplots(2, 1, figsize=(7.6, 4.6), sharex=True)
slow, chunk = Switch(20e-6, 1 / 50e9), Placeholder(50e6, np.uint8)  # half of a layer
for ax, prefetch in zip(axes, (False, True), strict=True):
    steps = simulate(fsdp_step, 3, chunk, 1.2e-3, prefetch, ranks=2, network=slow)
    draw.space_time(steps, ax)
    ax.set_title("with prefetch" if prefetch else "without", loc="right")
    print(f"prefetch {prefetch}: {steps.time * 1e3:.2f} ms, {steps.counts[0].bytes_sent:,} bytes")
axes[0].set_xlabel("")
axes[1].get_legend().remove()
axes[0].set_xlim(0, 20)
plt.show()

# %% [markdown]
# *(Figure: two space-time diagrams of two ranks; boxes are computing, arrows between the lines are chunks.
# Without prefetch arrows and boxes alternate: three short boxes, forward, then three long ones, backward.
# With prefetch the arrows of the next gather start together with a box, the boxes follow each other closely,
# and only the first gather and the last reduce-scatter stand alone.)*
#
# With prefetch a layer takes the *longer* of computing and communicating. A layer of $\Psi_l$ parameters
# computes $2\Psi_l N$ FLOP forward for $N$ tokens (a multiply-add per parameter and token; for a convolution,
# positions of the output take the place of tokens), at $F$ FLOP/s. Its gather brings $2\Psi_l\frac{p-1}p$
# bytes. Backward it is twice the FLOPs, and a gather and a reduce-scatter. So both are hidden if
#
# $$\frac{2\Psi_l N}{F} \;\ge\; \alpha + 2\Psi_l\,\frac{p-1}p\,\beta, \qquad\text{for large layers}\quad
# N \;\ge\; \frac{p-1}p\,F\beta .$$
#
# The size of a large layer does not matter, only the tokens *per GPU*. Take an H100 that reaches 60% of its
# 989 TFLOP/s (our assumption), and 400 Gbit/s of InfiniBand per GPU. **Guess** this $N$.


# %%
guess("tokens per GPU from which gathering over InfiniBand is free")
F, ALPHA = 0.6 * 989e12, 20e-6
LINKS = {"InfiniBand": 50e9, "NVLink": 450e9}  # bytes/s of a GPU, per direction


def gather_seconds(size, p, rate):
    """Of the 2-byte weights of a layer of `size` parameters."""
    return ALPHA + 2 * size * (p - 1) / p / rate


def step_seconds(layers, computing, gather):
    """Of an FSDP step with prefetch; a layer computes for `computing` seconds forward."""
    forward = gather + layers * max(computing, gather)
    middle = (layers - 2) * max(2 * computing, 2 * gather)
    return forward + 2 * max(2 * computing, gather) + middle + gather


free = {name: F * (1 - 1 / 64) / rate for name, rate in LINKS.items()}
print({name: f"{n:,.0f} tokens" for name, n in free.items()})
compare("tokens per GPU from which gathering over InfiniBand is free", free["InfiniBand"])

# %%
fig, ax = plt.subplots(figsize=(7.2, 3.6))
tokens, ratios = np.geomspace(500, 64_000, 29), []
for (name, rate), color in zip(LINKS.items(), palette, strict=False):
    for size, style in ((200e6, "-"), (0.5e6, "--")):
        gather, computing = gather_seconds(size, 8, rate), 2 * size * tokens / F
        times = np.array([step_seconds(32, c, gather) for c in computing])
        label = f"{name}, layers of {size / 1e6:g} million"
        ax.plot(tokens, 96 * computing / times, style, marker="", color=color, label=label)
        if size > 1e6:
            chunk, net = Placeholder(2 * size / 8, np.uint8), Switch(ALPHA, 1 / rate)
            for c, time in list(zip(computing, times, strict=True))[::7]:
                run = simulate(fsdp_step, 32, chunk, c, True, ranks=8, network=net, record=False)
                ax.plot(c * F / 2 / size, 96 * c / run.time, "o", color=color, mfc="w")
                ratios.append(run.time / time)
ax.set(xscale="log", xlabel="tokens per GPU", ylabel="computing / step", ylim=(0, 1.02))
ax.legend(fontsize=9, title="lines: formula, circles: virtual time")
plt.show()
claim("virtual time agrees to within 1%", np.allclose(ratios, 1, atol=0.01))

# %% [markdown]
# *(Figure: fraction of a step that computes, over tokens per GPU, for InfiniBand and NVLink, and for layers of
# 200 million and of half a million parameters. The curves rise in proportion and then bend to almost 1: with
# NVLink and large layers near 1,300 tokens, with InfiniBand near 11,000. With small layers they bend later,
# most of all with NVLink. Circles lie on the curves of large layers.)*
#
# For large layers virtual time agrees to within 1% with this count. Small layers pay the latency of each
# gather, which is why FSDP gathers whole blocks. If the global batch is fixed, more GPUs mean fewer tokens on
# each: **sharded data parallelism ends where tokens per GPU fall below $F\beta$**. Then the model itself must
# be cut.
#
# ## 11.4 Tensor parallelism: cut the layers
#
# Take two layers, $y = f(x A)\,B$. Shoeybi et al. (2019) cut $A$ by *columns*: each rank computes its share of
# $h = f(xA)$ without a message, since $f$ acts on each number by itself. They cut $B$ by *rows*, which need
# only this share. The products are parts of a *sum*: one all-reduce forward gives $y$, and one backward gives
# the gradient of $x$. Lecture 05 cuts each layer alone: then inputs are gathered and their gradients
# reduce-scattered, layer by layer. For a transformer's pair of layers, $a \to 4a \to a$, **guess** how many
# times as many bytes that sends.


# %%
guess("bytes: each layer alone over the pair", unit="×")


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x))


def as_a_pair(comm, x, w1, w2, g):
    """relu(x w1) w2 and dL/dx; x (N, a) and g = dL/dy are on all ranks."""
    a, b = np.split(w1, comm.size, 1)[comm.rank], np.split(w2, comm.size)[comm.rank]
    h = x @ a  # a share of the hidden values
    y = all_reduce(comm, np.maximum(h, 0) @ b)
    return y, all_reduce(comm, (g @ b.T * (h > 0)) @ a.T)


def each_alone(comm, x, w1, w2, g):
    """The same; every rank has a share of x, y and their gradients, by columns."""
    x, g, a, b = (np.split(z, comm.size, 1)[comm.rank] for z in (x, g, w1, w2))
    h = all_gather(comm, x.T).T @ a
    y = all_gather(comm, np.maximum(h, 0).T).T @ b
    dh = reduce_scatter(comm, (g @ b.T).T).T * (h > 0)
    return y, reduce_scatter(comm, (dh @ a.T).T).T


# %%
rng = np.random.default_rng(11)
shapes = (16, 64), (64, 256), (256, 64), (16, 64)  # N = 16 tokens, a = 64
x, w1, w2, g = map(rng.standard_normal, shapes)
pair, alone = (simulate(f, x, w1, w2, g, ranks=4, network=NETWORK) for f in (as_a_pair, each_alone))
y, dx = np.maximum(x @ w1, 0) @ w2, (g @ w2.T * (x @ w1 > 0)) @ w1.T
shares = [np.hstack(parts) for parts in zip(*alone.results, strict=True)]
same = [np.allclose(a, b) for a, b in zip(pair.results[0] + tuple(shares), (y, dx) * 2, strict=True)]
factor = alone.counts[0].bytes_sent / pair.counts[0].bytes_sent
compare("bytes: each layer alone over the pair", factor)
claim("Both compute the right result", all(same))
claim("2.5 times as many", factor == 2.5)

# %% [markdown]
# Both compute the right result, and cutting each layer alone sends 2.5 times as many bytes: $a + 4a$ against
# $2a$ numbers per token, because the wide hidden layer never travels. A transformer's layer has two such pairs
# (attention is cut by heads), so four all-reduces of $N a$ numbers per layer and step. They come between two
# products that need each other, so they are hard to hide.
#
# **A convolution** has two more directions. Cut by *channels*, it is such a pair: filters of the first layer,
# input channels of the second. Cut by *height*, each rank has some rows of each image and all weights; a 3 ×
# 3 filter needs one row from either neighbour, the *halo*.


# %%
def with_halo(comm, rows):
    """This rank's rows (N, h, W, C) with one more above and below; zeros at the edges."""
    above = below = np.zeros_like(rows[:, :1])
    if comm.rank > 0:
        above = comm.sendreceive(rows[:, :1], comm.rank - 1, comm.rank - 1)
    if comm.rank < comm.size - 1:
        below = comm.sendreceive(rows[:, -1:], comm.rank + 1, comm.rank + 1)
    return np.concatenate([above, rows, below], axis=1)


def conv(x, w):
    """3 × 3, x (N, H + 2, W, C) with its halo -> (N, H, W, K)."""
    x = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])
    n, h, wide, _ = x.shape
    windows = ((i, j, x[:, i : h - 2 + i, j : wide - 2 + j]) for i in range(3) for j in range(3))
    return sum(part @ w[i, j] for i, j, part in windows)


def by_height(comm, x, w):
    return conv(with_halo(comm, np.split(x, comm.size, 1)[comm.rank]), w)


images, filters = rng.standard_normal((2, 16, 16, 8)), rng.standard_normal((3, 3, 8, 8))
cut = simulate(by_height, images, filters, ranks=4, network=NETWORK)
whole = conv(np.pad(images, [(0, 0), (1, 1), (0, 0), (0, 0)]), filters)
claim("the parts are the convolution of the whole image",
      np.allclose(np.concatenate(cut.results, 1), whole))  # fmt: skip
claim("an inner rank sends two rows", cut.counts[1].bytes_sent == 2 * 2 * 16 * 8 * 8)

# %%
fig, ax = plt.subplots(figsize=(7.2, 3.6))
sides, channels, images = np.array([56, 28, 14, 7]), 64 * 2 ** np.arange(4), 32
sizes = {
    "data parallel": 2 * 3 / 4 * 9 * channels**2,
    "by channels": 4 * 3 / 4 * images * sides**2 * channels,
    "by height": 2 * 3 / 4 * 9 * channels**2 + 4 * images * sides * channels,
}
bars = pd.DataFrame(sizes, index=[f"{s} × {s}, {c}" for s, c in zip(sides, channels, strict=True)])
(4e-6 * bars).plot.bar(ax=ax, logy=True, rot=0, color="white")
for group, hatch, color in zip(ax.containers, ("", "//", ".."), palette, strict=False):
    plt.setp(group, hatch=hatch, edgecolor=color)
ax.set(xlabel="3 × 3 convolutions of ResNet-50: pixels, channels", ylabel="MB per rank and step")
ax.legend()
plt.show()
claim("By height sends less than by channels in the first three",
      (bars["by height"] < bars["by channels"])[:3].all())  # fmt: skip
claim("data parallelism sends least everywhere", (bars.idxmin(axis=1) == "data parallel").all())

# %% [markdown]
# *(Figure: for each of the four sizes of 3 × 3 convolutions of ResNet-50, megabytes that each of 4 ranks sends
# per step for 32 images, on a logarithmic axis. Data parallel rises from 0.2 to 14 MB; by channels it falls
# from 39 to 5 MB; by height it is above data parallel by a few megabytes at first and almost equal at last.)*
#
# The parts are the convolution of the whole image, and an inner rank sends two rows. By height sends less than
# by channels in the first three sizes of layers, but data parallelism sends least everywhere in this
# comparison at 56 × 56 to 14 × 14, since halos come on top of the gradients. The cut by height is for images
# whose activations do not fit: volumes in medicine, simulations.
#
# ## 11.5 Pipelines: cut between the layers
#
# In a *pipeline* each of $p$ ranks has a **stage**, some whole layers, and sends one stage's outputs to the
# next. With one batch only one rank works at a time. So the batch is cut into $m$ **micro-batches**. A stage
# needs $t_f$ for the forward pass of one and $t_b$ for its backward pass; it works for $m(t_f + t_b)$. The
# last stage starts $(p-1)\,t_f$ late, and the first one ends $(p-1)\,t_b$ after the last one:
#
# $$T = (m + p - 1)(t_f + t_b), \qquad \text{bubble} = \frac{p-1}{m + p - 1}.$$
#
# *GPipe* (Huang et al. 2019) runs all forward passes, then all backward passes. *1F1B* (Narayanan et al.
# 2021) alternates as early as possible. Activations of a micro-batch are stored from its forward to its
# backward pass. **Guess**, for 4 stages and 8 micro-batches, the bubble and how many micro-batches the first
# stage stores at most in 1F1B.


# %%
guess("bubble, 4 stages, 8 micro-batches", unit="%")
guess("micro-batches stored by the first stage in 1F1B")


def gpipe(stage, p, m):
    """The order in which a stage works: [("F" or "B", micro-batch)]."""
    return [("F", i) for i in range(m)] + [("B", i) for i in range(m)]


def one_f_one_b(stage, p, m):
    """As many forward passes as there are later stages, then one of each in turn."""
    early = min(m, p - 1 - stage)
    order = [("F", i) for i in range(early)]
    for i in range(m - early):
        order += [("F", early + i), ("B", i)]
    return order + [("B", i) for i in range(m - early, m)]


# %%
def pipeline(comm, schedule, batches, seconds):
    """Stage `rank`, a layer tanh(x w): its gradient, and the most micro-batches stored."""
    rank, last = comm.rank, comm.rank == comm.size - 1
    w = np.random.default_rng(rank).standard_normal((32, 32)) / 6
    gradient, stored, most, sent = np.zeros_like(w), {}, 0, []
    for what, i in schedule(rank, comm.size, len(batches)):
        if what == "F":
            x = comm.receive(rank - 1) if rank else batches[i]
            comm.compute(seconds)
            stored[i] = x, np.tanh(x @ w)
            sent += [] if last else [comm.isend(stored[i][1], rank + 1)]
        else:
            d = stored[i][1] if last else comm.receive(rank + 1)  # the loss is |y|²/2
            comm.compute(2 * seconds)
            x, y = stored.pop(i)
            d = d * (1 - y**2)
            gradient += x.T @ d
            sent += [comm.isend(d @ w.T, rank - 1)] if rank else []
        most = max(most, len(stored))
    wait_for(sent)
    return gradient, most


# %%
fig, axes = plt.subplots(2, 1, figsize=(8.4, 4.4), sharex=True)
micro = list(np.random.default_rng(0).standard_normal((8, 4, 32)))
instant, runs = Network(0, 0), {}
for ax, schedule in zip(axes, (gpipe, one_f_one_b), strict=True):
    run = runs[schedule] = simulate(pipeline, schedule, micro, 1.0, ranks=4, network=instant)
    for stage in range(4):
        spans = [span for span in run.spans if span.rank == stage]
        for (what, i), span in zip(schedule(stage, 4, 8), spans, strict=True):
            look = {"F": {"color": palette[0]}, "B": {"color": palette[1], "hatch": "//"}}[what]
            label = {"F": "forward", "B": "backward"}[what] if stage + i == 0 else None
            ax.barh(stage, span.end - span.start, left=span.start, ec="w", label=label, **look)
            at = (span.start + span.end) / 2
            ax.text(at, stage, i, ha="center", va="center", fontsize=9)
    ax.set(yticks=range(4), ylabel="stage", title=schedule.__name__)
    ax.invert_yaxis()
axes[1].set_xlabel("time of a forward pass")
axes[0].legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
plt.show()

# %%
most = {f.__name__: [stored for _, stored in run.results] for f, run in runs.items()}
display(pd.DataFrame(most).rename_axis("stage").T.rename_axis("micro-batches stored"))
bubbles = [1 - run.counts[0].computing / run.time for run in runs.values()]
compare("bubble, 4 stages, 8 micro-batches", 100 * bubbles[0])
compare("micro-batches stored by the first stage in 1F1B", most["one_f_one_b"][0])
job = submit(on_real_ranks, pipeline, one_f_one_b, micro, 0.0, ranks_per_node=4, controller="mpi")
results = [*job.results(progress=False), *runs[one_f_one_b].results]
expected = [run[0] for run in runs[gpipe].results] * 2
equal = [np.array_equal(g, e) for (g, _), e in zip(results, expected, strict=True)]
claim("Both have the bubble of the formula", np.allclose(bubbles, 3 / 11))
claim("at most 4 instead of 8", max(most["one_f_one_b"]) == 4 and min(most["gpipe"]) == 8)
claim("four real ranks compute the same gradients, bit for bit", all(equal))

# %% [markdown]
# *(Figure: two charts of four stages over time, with a numbered box per micro-batch. Above, GPipe: eight
# forward boxes, shifted by one per stage, then eight backward boxes, twice as long. Below, 1F1B: after the
# first forward boxes, forward and backward boxes alternate. Both end at time 33.)*
#
# Both have the bubble of the formula, 27%, but 1F1B stores activations of at most 4 instead of 8
# micro-batches: as many as there are stages left, however large $m$ is. That permits large $m$, and so small
# bubbles. The order of additions is the same, so that four real ranks compute the same gradients, bit for
# bit. A pipeline sends one layer's activations per cut, the least of all; it pays by waiting.
#
# ## 11.6 Compute it again
#
# Activations need not be stored: keep every $k$-th layer's output, and compute the others again when the
# backward pass needs them (Chen et al. 2016). Of $L$ layers, $L/k + k$ outputs are stored at most. **Guess**
# the additional arithmetic.


# %%
guess("additional matrix products by recomputation", unit="%")


def backward(x, weights, every):
    """The gradients, products of matrices, and most outputs stored; every: layers kept."""
    products, most, kept = 0, 0, {0: x}
    for layer, w in enumerate(weights):
        x, products = np.tanh(x @ w), products + 1
        if (layer + 1) % every == 0:
            kept[layer + 1] = x
    d, found = x, []
    for start in range(len(weights) - every, -1, -every):
        for layer in range(start, start + every if every > 1 else start):
            kept[layer + 1], products = np.tanh(kept[layer] @ weights[layer]), products + 1
        most = max(most, len(kept) - 1)
        for layer in reversed(range(start, start + every)):
            d = d * (1 - kept.pop(layer + 1) ** 2)
            found.append(kept[layer].T @ d)
            d, products = d @ weights[layer].T, products + 2
    return found, products, most


# %%
deep = list(rng.standard_normal((16, 64, 64)) / 8)
found = {k: backward(rng.standard_normal((32, 64)) * 0 + 1, deep, k) for k in (1, 2, 4, 8)}
rows = {k: {"products": n, "outputs stored": most} for k, (_, n, most) in found.items()}
display(pd.DataFrame(rows).T.rename_axis("every"))
more = 100 * (found[4][1] / found[1][1] - 1)
compare("additional matrix products by recomputation", more)
claim("a third more products", round(more, 1) == 33.3)
claim("half as many outputs", 2 * found[4][2] == found[1][2])
claim("the same gradients", np.array_equal(found[4][0], found[1][0]))

# %% [markdown]
# Recomputation needs a third more products, because it runs a second forward pass, one of three parts; it
# stores half as many outputs here, and finds the same gradients. For 100 layers $2\sqrt{L}$ is a fifth.
#
# ## 11.7 Which one?
#
# Now put it together. A cluster of H100s has nodes of 8 with 80 GB each, NVLink inside and InfiniBand
# between, as in 11.3. A transformer of $L$ layers of width $a$ processes sequences of $s$ tokens. It is split
# over $d \cdot t \cdot q$ GPUs: data, tensor, pipeline. The model uses what this lecture has derived, and is
# not fitted to any measurement. It assumes 34 bytes of activations per token and unit of width in each layer,
# divided by $t$ (Korthikanti et al. 2022), or 2 with recomputation; that tensor-parallel all-reduces are not
# hidden; and that gradients hide behind one backward pass.


# %%
@dataclasses.dataclass
class Cluster:
    peak: float  # FLOP/s of a GPU; we assume that products reach 60% of it
    link: float  # bytes/s inside a node of 8
    cable: float  # bytes/s of a GPU between nodes

    def seconds(self, size, n, stride):
        """A reduce-scatter or all-gather of `size` bytes on n GPUs, `stride` apart."""
        return (n - 1) / n * size / (self.link if n * stride <= 8 else self.cable)


@dataclasses.dataclass
class Transformer:
    parameters: float
    layers: int
    width: int
    tokens: int  # of a sequence

    def flops(self):
        """Of a sequence, forward and backward, without recomputation."""
        attention = self.layers * self.width * self.tokens
        return 6 * self.tokens * (self.parameters + attention)


# %%
def cost(net, hard, batch, split, stage, again, b=1):
    """(GB on a GPU, seconds of a step): b sequences a micro-batch, ZeRO's stage."""
    d, t, q = split
    m, layers, weights = batch / d / b, net.layers / q, net.parameters / t / q
    values = b * net.tokens * net.width / t  # of a layer's output, on one GPU
    stored = 2 * layers * min(m, q) + 34 if again else 34 * layers * min(m, q)
    state = {0: 16, 1: 4 + 12 / d, 3: 16 / d + 4 / layers}[stage] * weights
    computing = b * net.flops() * (4 / 3 if again else 1) / t / q / (0.6 * hard.peak)
    reduces = layers * (6 if again else 4) * 2 * hard.seconds(2 * t * values, t, 1)
    micro = computing + reduces + (4 * values / hard.cable if q > 1 else 0)
    gather = hard.seconds(2 * weights, d, t)
    if stage == 3:
        micro, late = max(micro, 3 * gather), 0
    else:
        late = max(0, 2 * gather - 2 / 3 * computing)
    return (state + stored * values) / 1e9, (m + q - 1) * micro + late


def search(net, hard, gpus, batch, limit=72):
    """The splits whose memory fits, the fastest first."""
    found, powers = [], [1, 2, 4, 8, 16, 32, 64]
    for t, q, stage, again, b in itertools.product(powers, powers, (0, 1, 3), (False, True), powers):
        d = gpus // (t * q)
        if d and batch % (d * b) == 0 and q <= net.layers and (stage < 3 or q == 1):
            gb, seconds = cost(net, hard, batch, (d, t, q), stage, again, b)
            mfu = 100 * net.flops() * batch / gpus / hard.peak / seconds
            found.append((d, t, q, stage, again, b, gb, mfu))
    columns = ["data", "tensor", "pipeline", "ZeRO", "recompute", "b", "GB", "MFU, %"]
    table = pd.DataFrame(found, columns=columns)
    return table[table["GB"] < limit].sort_values("MFU, %", ascending=False)
