# %% [markdown]
# # 11 · When the model does not fit
#
# **Training with Adam needs 16 bytes of memory per parameter, so a model of 70 billion parameters needs 1.1
# TB. Where are they stored?**
#
# Data parallelism (lecture 07) copies the whole model to every rank. It fails when one copy does not fit
# into the memory of one GPU. Then the ranks divide the *state* of training, the *layers* or the *stages* of
# a network, and each division needs different messages. In this lecture you will
#
# 1. **count** the memory of training before you measure it;
# 2. see that sharded data parallelism (**ZeRO**, **FSDP**) sends the all-reduce of lecture 06 in two
#    halves, and in our implementation ends with the same bits;
# 3. find out when **gathering weights** costs nothing;
# 4. cut a pair of layers (**tensor parallelism**) and an image, and count the bytes sent;
# 5. derive the **bubble** of a pipeline, and run two schedules;
# 6. **choose a split** for three networks, and compare a cost model with published runs.
#
# Notation: $\Psi$ parameters; $p$ ranks, data-parallel ones unless stated otherwise; $m$ micro-batches.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(threads=1, tensorflow=False)

# %%
import json
import pathlib
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display
from numpy.lib.stride_tricks import sliding_window_view

# %%
from cluster.network import (
    Network,
    Placeholder,
    Switch,
    charts,
    draw,
    simulate,
    splits,
)

record = json.loads(pathlib.Path("runs/11_sharding.json").read_text())
print(f"recorded on {record['date']}, {record['machine']['cpu']}")

# %% [markdown]
# ## 11.1 Memory, counted before it is measured
#
# A training step stores four things. The **weights**, their **gradients** and the **optimizer's state**
# (two moments with Adam, one velocity with momentum) need a fixed number of bytes per parameter. In mixed
# precision weights and gradients have 2 bytes, and the optimizer keeps a 4-byte copy of the weights and
# 4-byte moments. The **activations**, which the backward pass needs, grow with the batch. **Guess** how
# many gigabytes the first three need for 7 billion parameters in mixed precision with Adam.

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
# So 7 billion parameters already exceed a GPU of 80 GB. Of the activations, the backward passes of
# convolution and batch normalisation need the layer's input, and that of a ReLU its output. In the
# ResNet-20 of lecture 03 the inputs of convolutions are outputs of ReLUs, so two tensors must be stored per
# convolution: its output and the ReLU's. We compute their total size from the shapes. In a recorded run
# (`runs/11_sharding.py`) two processes took a step, one with 64 and one with 256 images, and read their
# *peak* resident memory from `/proc/self/status`. The difference of the two peaks does not include the
# memory of Python and TensorFlow. **Guess** the megabytes per image.

# %%
guess("activations of an image, ResNet-20", unit=" MB")
small, large = record["memory"]
per_image = (large["peak"] - small["peak"]) / (large["images"] - small["images"])
stored, state = small["stored"], 16 * small["parameters"]
compare("activations of an image, ResNet-20", per_image / 1e6)
print(f"counted {stored / 1e6:.2f} MB per image; the state is {state / 1e6:.1f} MB")
claim("the count is within a fifth of the measurement", 0.8 < per_image / stored < 1.2)
claim("more than 50 times as much as the state", 256 * stored > 50 * state)

# %% [markdown]
# The count is within a fifth of the measurement; the rest is probably temporary workspace. For 256 images
# the activations take more than 50 times as much as the state. In a small network the activations are the
# problem, and a smaller batch solves it. In a network with billions of parameters the state alone exceeds
# the memory of a GPU, and long sequences add tens of gigabytes of activations.
#
# ## 11.2 ZeRO: keep a part, gather the rest
#
# In data parallelism every rank keeps the same weights and the same moments, which makes $p$ copies.
# Rajbhandari et al. (2020) remove the copies in three stages. Each rank keeps only a $p$-th part of
#
# 1. the **optimizer's state** (stage 1),
# 2. and the **gradients** (stage 2),
# 3. and the **weights** (stage 3; in PyTorch *fully sharded data parallel*, FSDP).
#
# The all-reduce of lecture 06 has two halves. The **reduce-scatter** leaves the sum of one chunk on each
# rank; the **all-gather** collects the chunks. Each half sends $\frac{p-1}p\Psi$ numbers.


# %%
def reduce_scatter(comm, x):
    """The sum over all ranks of chunk `rank` of x; p divides len(x)."""
    rank, p = comm.rank, comm.size
    chunks = np.split(x.copy(), p)
    for step in range(p - 1):
        gone, here = (rank - step - 1) % p, (rank - step - 2) % p
        received = comm.sendreceive(chunks[gone], (rank + 1) % p, (rank - 1) % p)
        comm.add(chunks[here], received)
    return chunks[rank].copy()


def all_gather(comm, chunk):
    """The chunks of all ranks, one after the other."""
    rank, p = comm.rank, comm.size
    chunks = {rank: chunk}
    for step in range(p - 1):
        gone, here = chunks[(rank - step) % p], (rank - step - 1) % p
        chunks[here] = comm.sendreceive(gone, (rank + 1) % p, (rank - 1) % p)
    return np.concatenate([chunks[r] for r in range(p)])


# %% [markdown]
# Adam updates each weight independently, so a rank can update a chunk of the weights with the same chunk of
# the gradient and of the moments. Stages 1 and 2 therefore reduce-scatter the gradients, update a chunk,
# and all-gather the *weights* instead of the gradients. Stage 3 stores only the chunk, and gathers each
# layer's weights before its forward pass and again before its backward pass. In units of $\frac{p-1}p\Psi$
# numbers per step, data parallelism and stages 1 and 2 send $1 + 1$, and stage 3 sends $1 + 1 + 1$.
#
# Do all stages compute the same weights? Our network has three layers of 512 × 512 weights with tanh, and a
# squared error.


# %%
WIDTH, LAYERS, IMAGES = 512, 3, 16
PSI = LAYERS * WIDTH**2


def initial_weights():
    rng = np.random.default_rng(11)
    drawn = [rng.standard_normal(WIDTH**2) / WIDTH**0.5 for _ in range(LAYERS)]
    return [w.astype(np.float32) for w in drawn]


def gradients(x, y, weights_of):
    """(layer, gradient) of each layer, the last one first."""
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
    """What a rank keeps, updates and computes with; stage 0 is data parallelism."""
    weights = initial_weights()
    parts = [np.split(w, comm.size)[comm.rank] for w in weights]  # views
    if stage == 3:
        parts = [part.copy() for part in parts]
        return parts, parts, lambda layer: all_gather(comm, parts[layer])
    return weights, parts if stage else weights, lambda layer: weights[layer]


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
# We train for three steps on four ranks in virtual time, with data parallelism (stage 0) and in stages 1 to
# 3, and once on one rank with the same global batch. **Guess** how many *bits* of the weights differ
# between stage 3 and data parallelism.

# %%
guess("bits that differ between stage 3 and data parallelism")
NETWORK, P = Network(1e-6, 1e-9), 4
runs = {stage: simulate(train, stage, ranks=P, network=NETWORK) for stage in range(4)}
final = {stage: run.results[0][0] for stage, run in runs.items()}
shards = [weights for weights, _ in runs[3].results]
final[3] = [np.concatenate(parts) for parts in zip(*shards, strict=True)]
[(alone, _)] = simulate(train, 0, ranks=1, network=NETWORK).results
all_bits = np.array([np.concatenate(final[s]).view(np.uint8) for s in range(4)])
differ = np.unpackbits(all_bits ^ all_bits[0], axis=1).sum(1)
sent = np.array([run.counts[0].bytes_sent / 3 for run in runs.values()])
table = pd.DataFrame({"bits that differ": differ})
table["(p−1)/p·Ψ numbers sent"] = sent / (4 * PSI * (P - 1) / P)
display(table.rename_axis("stage"))
compare("bits that differ between stage 3 and data parallelism", table.iloc[3, 0])

# %% tags=["measured"]
away = np.abs(np.concatenate(alone) - np.concatenate(final[0]))
print(f"from one process: median {np.median(away):.0e}, largest {away.max():.0e}")
claim("All stages end with the same bits", not table.iloc[:, 0].any())
claim("all but one in a thousand weights agree to 1e-6", np.mean(away > 1e-6) < 1e-3)
claim("stage 3 sends half as much again", table.iloc[3, 1] == 1.5 * table.iloc[0, 1])

# %% [markdown]
# All stages end with the same bits, because each sum is computed on the same rank in the same order, and
# the optimizer updates each number independently. (PyTorch's FSDP agrees with its DDP only up to rounding.)
# One process adds in a different order: compared with it, all but one in a thousand weights agree to 1e-6.
# (Adam divides a gradient near zero by its own size, which magnifies its rounding error.) **Stage 3 sends
# half as much again** as data parallelism; stages 1 and 2 send the same amount. (With several micro-batches
# per step, stage 3 gathers, and stages 2 and 3 reduce-scatter, for each.)
#
# How much memory is saved? With $K$ bytes of optimizer state per parameter, and 2 bytes each for weight and
# gradient, a rank keeps $(4 + K)\Psi$, $(4 + K/p)\Psi$, $(2 + (2 + K)/p)\Psi$ or $(4 + K)\Psi/p$ bytes. Our
# float32 network needs $4 + 4 + 8$ bytes per parameter. In the recorded run four processes measure how much
# memory NumPy has allocated when the backward pass ends.

# %%
ranks = record["stages"]
real = pd.DataFrame({"MB held": [stage["held"] / 1e6 for stage in ranks[0]]})
real["MB predicted"] = np.array([16, 8 + 8 / P, 4 + 12 / P, 16 / P]) * PSI / 1e6
display(real.rename_axis("stage").round(2))
off = real["MB held"] / real["MB predicted"] - 1
claim("within 5% of what the process holds", off.abs().max() < 0.05)
hashes = {stage["hash"] for rank in ranks for stage in rank}
claim("four real processes end with one set of weights", len(hashes) == 1)

# %% [markdown]
# The prediction is within 5% of what the process holds, and in every stage four real processes end with one
# set of weights. During a layer's pass, stage 3 also holds this layer's gathered weights and gradient, so
# only one layer at a time has to fit.

# %%
stages = ["data parallel", "stage 1", "stage 2", "stage 3"]
parts = np.array([2, 2, 12]) / np.array([[1, 1, 1], [1, 1, 64], [1, 64, 64], [64] * 3])
gigabytes = pd.DataFrame(7.5 * parts, stages, ["weights", "gradients", "optimizer"])
total = gigabytes.sum(axis=1)
ax = gigabytes[::-1].plot.barh(stacked=True, width=0.7, figsize=(7.2, 3.4))
for bars, hatch in zip(ax.containers, ("", "//", ".."), strict=True):
    plt.setp(bars, hatch=hatch, edgecolor="w")
ax.bar_label(ax.containers[-1], [f" {value:.1f} GB" for value in total[::-1]])
ax.set(xlim=(0, 140), xlabel="GB on each of 64 ranks, 7.5 billion parameters")
plt.show()
claim("the four numbers of the paper", list(total.round(1)) == [120, 31.4, 16.6, 1.9])

# %% [markdown]
# *(Figure: four bars for 7.5 billion parameters on 64 ranks, divided into weights, gradients and optimizer
# state. Data parallelism needs 120.0 GB, three quarters of it for the optimizer, stage 1 31.4 GB, stage 2
# 16.6 GB, mostly for weights, and stage 3 1.9 GB.)*
#
# These are the four numbers of the paper (figure 1). In stage 3 the 1.1 TB of seventy billion parameters
# are stored only *once*, 2.2 GB on each of 512 GPUs.
#
# ### When is gathering free?
#
# Stage 3 waits for weights before each layer. FSDP therefore **prefetches**: while a layer computes, the
# next layer's weights are gathered, and the previous layer's gradient is reduce-scattered. Our messages are
# non-blocking: a rank sends its chunk to all others at once, and waits only when it needs the result.


# %%
def exchange(comm, chunk):
    """Begin to send a chunk to each other rank, and to receive one from each."""
    others = [(comm.rank + d) % comm.size for d in range(1, comm.size)]
    return [comm.isend(chunk, r) for r in others] + [comm.ireceive(r) for r in others]


def wait_for(requests):
    return [request.wait() for request in requests]


# %%
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
for ax, name in zip(axes, ("without", "with"), strict=True):
    steps = simulate(fsdp_step, 3, chunk, 1.2e-3, name == "with", ranks=2, network=slow)
    draw.space_time(steps, ax)
    ax.set_title(f"{name} prefetch: {steps.time * 1e3:.1f} ms", loc="right")
axes[1].get_legend().remove()
axes[0].set_xlim(0, 20)
plt.show()

# %% [markdown]
# *(Figure: two space-time diagrams of two ranks, with boxes for computing and arrows for chunks. Without
# prefetch, arrows alternate with boxes, three short ones (forward) and three long ones (backward). With
# prefetch the boxes follow each other without gaps, and only the first gather and the last reduce-scatter
# are not hidden.)*
#
# With prefetch a layer takes the *longer* of computing and communicating. The forward pass of a layer of
# $\Psi_l$ parameters computes $2\Psi_l N$ FLOP for $N$ tokens (a multiply-add per parameter and token; in a
# convolution, output positions replace tokens), at $F$ FLOP/s. Its gather receives $2\Psi_l\frac{p-1}p$
# bytes. The backward pass has twice the FLOPs, one gather and one reduce-scatter. So the communication of
# both passes is hidden if
#
# $$\frac{2\Psi_l N}{F} \;\ge\; \alpha + 2\Psi_l\,\frac{p-1}p\,\beta, \qquad\text{for large layers}\quad
# N \;\ge\; \frac{p-1}p\,F\beta .$$
#
# The size of a large layer does not matter, but only the number of tokens *per GPU*. Take an H100 that
# reaches 60% of its 989 TFLOP/s (our assumption), and 400 Gbit/s of InfiniBand per GPU. We first count *one
# cable* for each gather, as if each GPU of the group were in a separate node. A group that fills its nodes
# can receive the weights in each node once, through all eight cables, and share them over NVLink. **Guess**
# this $N$ for one cable and 64 ranks.


# %%
guess("tokens per GPU that make InfiniBand free")
F, ALPHA, LINKS = 0.6 * 989e12, 20e-6, {"InfiniBand": 50e9, "NVLink": 450e9}  # bytes/s


def gather_seconds(size, p, rate):
    """Of the 2-byte weights of a layer of `size` parameters."""
    return ALPHA + 2 * size * (p - 1) / p / rate


def step_seconds(layers, computing, gather):
    """Of a step with prefetch; a layer computes for `computing` seconds forward."""
    forward = gather + layers * max(computing, gather)
    middle = (layers - 2) * max(2 * computing, 2 * gather)
    return forward + 2 * max(2 * computing, gather) + middle + gather


free = {name: F * (1 - 1 / 64) / rate for name, rate in LINKS.items()}
free["eight cables"] = free["InfiniBand"] / 8
print({name: f"{n:,.0f} tokens" for name, n in free.items() if name != "NVLink"})
compare("tokens per GPU that make InfiniBand free", free["InfiniBand"])

# %%
fig, ax = plt.subplots(figsize=(9.2, 3.6))
tokens, ratios = np.geomspace(500, 64_000, 29), []
for (name, rate), color in zip(LINKS.items(), palette, strict=False):
    for size, style in ((200e6, "-"), (0.5e6, "--")):
        gather, computing = gather_seconds(size, 8, rate), 2 * size * tokens / F
        times = np.array([step_seconds(32, c, gather) for c in computing])
        look = {"color": color, "label": f"{name}, layers of {size / 1e6:g} million"}
        ax.plot(tokens, 96 * computing / times, style, marker="", **look)
    chunk, net = Placeholder(2 * 200e6 / 8, np.uint8), Switch(ALPHA, 1 / rate)
    for n in tokens[::7]:
        step = (fsdp_step, 32, chunk, c := 400e6 * n / F, True)
        run = simulate(*step, ranks=8, network=net, record=False)
        ax.plot(n, 96 * c / run.time, "o", color=color, mfc="w")
        ratios.append(run.time / step_seconds(32, c, gather_seconds(200e6, 8, rate)))
ax.set(xscale="log", xlabel="tokens per GPU", ylabel="computing / step", ylim=(0, 1.02))
ax.legend(title="circles: virtual time", bbox_to_anchor=(1, 1), loc="upper left")
plt.show()
claim("virtual time agrees to within 2%", np.allclose(ratios, 1, atol=0.02))

# %% [markdown]
# *(Figure: the fraction of a step spent computing, against tokens per GPU, for InfiniBand and NVLink and
# for layers of 200 million and of half a million parameters. Each curve rises in proportion to the tokens
# up to almost 1. For large layers it gets there at 1,200 tokens with NVLink and 11,000 with InfiniBand, and
# for small layers at over ten times and at twice as many. Circles lie on the curves of large layers.)*
#
# For large layers virtual time agrees to within 2% with the formula. Small layers pay the latency of each
# gather, which is why FSDP gathers whole blocks. If the global batch is fixed, more GPUs mean fewer tokens
# on each: **gathering stops being free when the tokens per GPU fall below $F\beta$**, with $\beta$ of all
# cables that the group uses in a node. There are three solutions: a larger batch; *hybrid sharding* (HSDP),
# which shards inside a node and copies between nodes, if the shards fit; or cutting the model itself.
#
# ## 11.3 Tensor parallelism: cut the layers
#
# Take two layers, $y = f(x A)\,B$. Shoeybi et al. (2019) cut $A$ by *columns*: each rank computes its share
# of $h = f(xA)$ without a message, since $f$ acts on each number by itself. They cut $B$ by *rows*, which
# need only this share. The partial products must be *added*: one all-reduce in the forward pass gives $y$,
# and one in the backward pass gives the gradient of $x$. If each layer is cut separately (lecture 05), the
# inputs of each are gathered and their gradients reduce-scattered. **Guess** how many times as many bytes
# this sends for a transformer's pair of layers, $a \to 4a \to a$.


# %%
guess("bytes: each layer alone over the pair", unit="×")


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x))


# %%
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
both = [(f, x, w1, w2, g) for f in (as_a_pair, each_alone)]
pair, alone = (simulate(*one, ranks=4, network=NETWORK) for one in both)
y, dx = np.maximum(x @ w1, 0) @ w2, (g @ w2.T * (x @ w1 > 0)) @ w1.T
found = [*pair.results[0], *(np.hstack(z) for z in zip(*alone.results, strict=True))]
same = [np.allclose(a, b) for a, b in zip(found, [y, dx, y, dx], strict=True)]
factor = alone.counts[0].bytes_sent / pair.counts[0].bytes_sent
compare("bytes: each layer alone over the pair", factor)
claim("Both compute the right result", all(same))
claim("2.5 times as many", factor == 2.5)

# %% [markdown]
# Both compute the right result, and cutting each layer alone sends 2.5 times as many bytes: $a + 4a$
# against $2a$ numbers per token, because the wide hidden layer is never sent. A transformer's layer has two
# such pairs (attention is cut by heads), so it needs four all-reduces of $N a$ numbers per micro-batch.
# Each precedes the next product, so they are hard to hide.
#
# **Convolutions** can be cut in two ways. By *channels*, two convolutions are such a pair: the first is cut
# by filters, the second by input channels. By *height*, each rank has some rows of each image and all
# weights; a 3 × 3 filter also needs one row from each neighbour, the *halo*.


# %%
def with_halo(comm, rows):
    """This rank's rows with one more above and below, zeros at the edges."""
    above = below = np.zeros_like(rows[:1])
    if comm.rank > 0:
        above = comm.sendreceive(rows[:1], comm.rank - 1, comm.rank - 1)
    if comm.rank < comm.size - 1:
        below = comm.sendreceive(rows[-1:], comm.rank + 1, comm.rank + 1)
    return np.concatenate([above, rows, below])


def conv(rows, w):
    """3 × 3 on rows (H + 2, W) that have their halo -> (H, W)."""
    rows = np.pad(rows, [(0, 0), (1, 1)])
    return np.einsum("ijkl,kl->ij", sliding_window_view(rows, (3, 3)), w)


def by_height(comm, image, w):
    return conv(with_halo(comm, np.split(image, comm.size)[comm.rank]), w)


# %%
image, w = rng.standard_normal((16, 16)), rng.standard_normal((3, 3))
run = simulate(by_height, image, w, ranks=4, network=NETWORK)
whole = conv(np.pad(image, [(1, 1), (0, 0)]), w)
same = np.array_equal(np.concatenate(run.results), whole)
claim("the parts are the convolution of the whole image", same)
claim("an inner rank sends two rows", run.counts[1].bytes_sent == 2 * image[0].nbytes)

# %%
sides, channels, N = np.array([56, 28, 14, 7]), 64 * 2 ** np.arange(4), 32
data = 2 * 3 / 4 * 9 * channels**2
sizes = {
    "data parallel": data,
    "by channels": 2 * 3 / 4 * N * sides**2 * channels,  # half of a pair
    "by height": data + 4 * N * sides * channels,
}
layers = [f"{s} × {s}, {c}" for s, c in zip(sides, channels, strict=True)]
megabytes = 4e-6 * pd.DataFrame(sizes, layers)
ax = megabytes.plot.bar(logy=True, rot=0, color="white", figsize=(7.2, 3.6))
for bars, hatch, color in zip(ax.containers, ("", "//", ".."), palette, strict=False):
    plt.setp(bars, hatch=hatch, edgecolor=color)
ax.set(xlabel="3 × 3 layers: pixels, channels", ylabel="MB per rank", ylim=(0.1, 200))
ax.legend()
plt.show()
lower = megabytes["by height"] < megabytes["by channels"]
claim("By height sends less than by channels in the first three", lower[:3].all())
least = megabytes.idxmin(axis=1)
in_three = list(least == "data parallel") == [True, True, True, False]
claim("data parallelism sends least, but in the last", in_three)

# %% [markdown]
# *(Figure: the megabytes that each of 4 ranks sends per step of 32 images, for the four sizes of 3 × 3
# convolutions in ResNet-50, on a logarithmic axis. Data parallelism rises from 0.2 to 14 MB. By channels
# (half of what a pair sends) it falls from 39 to 5 MB. By height it is 1.8 MB above data parallelism.)*
#
# Together, the parts are the convolution of the whole image, and an inner rank sends two rows. A layer cut
# by height sends less than by channels in the first three sizes. There data parallelism sends least, but in
# the last the cut by channels does. Halos are sent in addition to the gradients, so the cut by height never
# sends less than data parallelism. It is for images whose activations do not fit into memory, such as 3D
# scans.
#
# ## 11.4 Pipelines: cut between the layers
#
# In a *pipeline* each of $p$ ranks holds a **stage**, a few complete layers, and sends its outputs to the
# next rank. If a batch passes through as a whole, only one rank works at a time. So the batch is cut into
# $m$ **micro-batches**. A stage needs $t_f$ for a micro-batch's forward pass and $t_b$ for its backward
# pass, so it works for $m(t_f + t_b)$. The last stage starts $(p-1)\,t_f$ after the first, and the first
# ends $(p-1)\,t_b$ after the last:
#
# $$T = (m + p - 1)(t_f + t_b), \qquad \text{bubble} = \frac{p-1}{m + p - 1}.$$
#
# (Narayanan et al. divide by the working time, which gives $(p-1)/m$.)
#
# *GPipe* (Huang et al. 2019) runs all forward passes, then all backward passes (its recomputation is
# omitted here). *1F1B* (PipeDream, Narayanan et al. 2019; here with one update at the end of the step, as
# in Narayanan et al. 2021) alternates between forward and backward passes as early as possible. The
# activations of a micro-batch are stored from its forward to its backward pass. **Guess**, for 4 stages and
# 8 micro-batches, the bubble and how many micro-batches the first stage of 1F1B stores.


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
    """A stage is a layer tanh(x w): its gradient, and the most micro-batches stored."""
    rank, last = comm.rank, comm.rank == comm.size - 1
    w = np.random.default_rng(rank).standard_normal((32, 32)) / 6
    gradient, stored, most, sent = 0 * w, {}, 0, []
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
            gradient += x.T @ (d := d * (1 - y**2))
            sent += [comm.isend(d @ w.T, rank - 1)] if rank else []
        most = max(most, len(stored))
    wait_for(sent)
    return gradient, most


# %%
fig, axes = plt.subplots(2, 1, figsize=(8.4, 4.6), sharex=True)
micro, runs = list(np.random.default_rng(0).standard_normal((8, 4, 32))), {}
for ax, order in zip(axes, (gpipe, one_f_one_b), strict=True):
    runs[order] = simulate(pipeline, order, micro, 1.0, ranks=4, network=Network(0, 0))
    charts.schedule(runs[order], order, 8, ax)
plt.show()

# %%
most = {f.__name__: [stored for _, stored in run.results] for f, run in runs.items()}
display(pd.DataFrame(most).rename_axis("stage").T.rename_axis("micro-batches stored"))
bubbles = [1 - run.counts[0].computing / run.time for run in runs.values()]
compare("bubble, 4 stages, 8 micro-batches", 100 * bubbles[0])
compare("micro-batches stored by the first stage in 1F1B", most["one_f_one_b"][0])
results = zip(*(run.results for run in runs.values()), strict=True)
same = [np.array_equal(a, b) for (a, _), (b, _) in results]
same += [rank["equal"] for rank in record["pipeline"]]
claim("Both have the bubble of the formula", np.allclose(bubbles, 3 / 11))
claim("at most 4 instead of 8", [max(n) for n in most.values()] == [8, 4])
claim("so do four real ranks, bit for bit", all(same))

# %% [markdown]
# *(Figure: four stages over time, with a numbered box for each pass of a micro-batch. In GPipe, above, each
# stage has eight forward boxes and then eight backward boxes, twice as long. In 1F1B, below, they alternate
# after the first forward boxes. Both end at time 33.)*
#
# Both have the bubble of the formula, 27%, but 1F1B stores activations of at most 4 instead of 8
# micro-batches: a stage stores as many as there are stages from it to the end, however large $m$ is. So $m$
# can be as large as the batch allows, which keeps the bubble small. The order of additions is the same, so
# both compute the same gradients; in the recorded run of 1F1B so do four real ranks, bit for bit.
#
# ## 11.5 Which one?
#
# Our cluster has nodes of 8 H100s with 80 GB each, and one InfiniBand cable for each group, as in 11.2. A
# transformer of $L$ layers of width $a$ processes sequences of $s$ tokens. It is split over
# $d \cdot t \cdot q$ GPUs: $d$ data-parallel groups of $t$ tensor-parallel ranks in each of $q$ stages. The
# cost model, in `cluster/network/splits.py`, has these terms:
# - **Computing.** A micro-batch of $b$ sequences needs $6bs\,(\Psi + Las)$ FLOP, of which each GPU computes
#   its part at $F$. A step takes $m + q - 1$ micro-batches (11.4).
# - **Messages.** Each micro-batch waits for four all-reduces of $2bsa$ bytes per layer (11.3) and for two
#   messages, divided by $t$, between stages. The reduce-scatter of gradients and the all-gather of weights
#   are hidden for the duration of one backward pass. In stage 3 they are needed for each micro-batch, and
#   the longer of computing and communicating counts (11.2).
# - **Memory.** In addition to the state (11.2), a layer stores 34 bytes of activations per token and unit
#   of width, divided by $t$ (Korthikanti et al. 2022), but not the attention matrix. The division requires
#   *sequence parallelism*: between the pairs each rank keeps a part of the tokens, and each all-reduce
#   becomes its two halves. Activations are stored for $\min(m, q)$ micro-batches, or 2 with recomputation,
#   which costs a third more FLOPs and two more all-reduces (*Further*).
#
# Nothing is fitted, but 60% of the peak is our assumption, and it scales every prediction.

# %% [markdown]
# ResNet-50 needs 0.4 GB of state, so data parallelism suffices. For 7 billion parameters on 64 GPUs and 70
# billion on 512, a step has a million tokens in 256 sequences of 4,096, as in the benchmarks of the
# *ultra-scale playbook* (Tazi et al. 2025). **Guess** into how many parts the best split cuts the layers of
# the larger network.

# %%
guess("tensor-parallel ranks for 70 billion parameters, 512 GPUs")
H100 = splits.Cluster(989e12, link=450e9, cable=50e9)
SEVEN = splits.Transformer(7e9, layers=32, width=4096, tokens=4096)
SEVENTY = splits.Transformer(70e9, layers=80, width=8192, tokens=4096)
seven = splits.search(SEVEN, H100, gpus=64, batch=256)
seventy = splits.search(SEVENTY, H100, gpus=512, batch=256)
for name, table in (("7 billion, 64 GPUs", seven), ("70 billion, 512 GPUs", seventy)):
    display(table.head(3).round(1).rename_axis(name, axis=1))
alone = seven[(seven["tensor"] == 1) & (seven["pipeline"] == 1)]["MFU, %"].max()
print(f"7 billion, data parallel only: {alone:.1f}%")
best = seventy.head(3)["tensor"]
compare("tensor-parallel ranks for 70 billion parameters, 512 GPUs", best.iloc[0])
claim("data parallelism alone is within 5% of the best", alone > 0.95 * seven.iat[0, 7])
claim("best splits of the larger network cut layers 8 ways", (best == 8).all())

# %%
charts.splits(seventy)
plt.show()
EVERY = splits.Cluster(989e12, link=450e9, cable=50e9, all_cables=True)
both = {"one": seventy, "all": splits.search(SEVENTY, EVERY, gpus=512, batch=256)}
cables = pd.DataFrame({k: v.groupby("tensor")["MFU, %"].max() for k, v in both.items()})
display(cables.round().astype(int).T.rename_axis("cables of a node"))
one, every = cables["one"], cables["all"]
claim("from 8 to 16 ranks, MFU falls by more than half", one[16] < 0.5 * one[8])
claim("With all cables the best cut is 2 ways", every.idxmax() == 2)
claim("and 16 ways is a fifth slower than 8", 0.75 < every[16] / every[8] < 0.85)

# %% [markdown]
# *(Figure: a heat map of the best predicted MFU of 70 billion parameters on 512 GPUs, with tensor-parallel
# ranks downwards and pipeline stages to the right. The row of 8 ranks is brightest, with 49% at one stage,
# 40% at two stages and hardly less at more. From 16 ranks on the MFU is at most 11%. A dash means that no
# split fits the memory and the batch.)*
#
# For 7 billion parameters, data parallelism alone is within 5% of the best, with ZeRO-1; plain copies would
# not fit. (*MFU* is defined in lecture 10.) For 70 billion, 256 sequences are too few for 512 data-parallel
# ranks. With one cable per group, the best splits of the larger network cut layers 8 ways, inside a node:
# from 8 to 16 ranks, MFU falls by more than half, because the all-reduces leave the node.
#
# **One assumption decides this.** With all cables the best cut is 2 ways, and 16 ways is a fifth slower
# than 8. The playbook measured a loss of 43% from 8 to 16 with a network of 3 billion parameters. Its
# advice roughly agrees with the search: one technique suffices below 10 billion parameters, and up to 100
# billion, 8 tensor-parallel ranks with ZeRO-3 or with a pipeline, or ZeRO-3 alone on fewer than 512 GPUs.
# (The search keeps 8 GB free, and uses stage 3 only without a pipeline.)
#
# **A stricter test** compares the model with measurements: ten networks of Narayanan et al. (2021) on
# A100s, with their splits (table 1, with recomputation), another of their networks in five splits (figure
# 13), and Llama 3 with 405 billion parameters (2024, table 4, without recomputation).

# %%
A100 = splits.Cluster(312e12, link=300e9, cable=25e9)
published = splits.published(A100)
display(published.round({"billions": 1, "GB": 0, "TFLOP/s, model": 0}))
over = published["TFLOP/s, model"] / published["TFLOP/s, paper"]
claim("All ten splits fit", (published["GB"] < 80).all())
claim("the model is up to 30% too fast", 1.2 < over.max() < 1.3)
claim("within 10% of the paper from 145 billion on", (abs(over[6:] - 1) < 0.1).all())
trend = published[["TFLOP/s, model", "TFLOP/s, paper"]].corr().iat[0, 1]
claim("the model's speeds fall where the paper's rise", trend < 0)

# %%
wide = splits.Transformer(162.2e9, layers=32, width=20480, tokens=2048)
five = [splits.Split(1, t, 64 // t, recompute=True) for t in (2, 4, 8, 16, 32)]
fastest = min(five, key=lambda split: splits.cost(wide, A100, 32, split)[1])
llama = splits.Transformer(405e9, layers=126, width=16384, tokens=8192)
gb, seconds = splits.cost(llama, H100, 2048, splits.Split(64, 8, 16, zero=1))
mfu = 100 * llama.flops * 2048 / (8192 * H100.peak * seconds)
free = splits.search(llama, H100, 8192, 2048).iloc[0]
print(f"free choice: {free['data']} · {free['tensor']} · {free['pipeline']}")
print(f"Llama 3, 64 · 8 · 16: {gb:.0f} of 80 GB, MFU {mfu:.0f}%; published MFU 43%")
claim("the fastest of the five is the one the paper found", fastest.tensor == 8)
claim("Llama 3 should not fit, and be slower than it is", gb > 80 and mfu < 43)
claim("Its free choice has no pipeline", free["pipeline"] == 1)

# %% [markdown]
# **Hits.** With one cable, the fastest of the five is the one the paper found. All ten splits fit, but none
# comes near the limit. The model is within 10% of the paper from 145 billion on, but mostly because 60% of
# the peak happens to suit these networks.
#
# **Misses.** The trend is wrong: the model's speeds fall where the paper's rise. For small networks the
# model is up to 30% too fast: their matrices are small, and do not reach 60% of the peak. For large ones
# two errors cancel, because the paper *interleaves* several stages on one GPU, which makes the bubble
# smaller than ours. By our count, Llama 3 should not fit, and be slower than it is. It fits because its
# team frees tensors early, and it is faster because its schedule is interleaved, too, which stores more. We
# also let the search split this network. Its free choice has no pipeline, but 2,048 data-parallel groups,
# because the model ignores latency, and the lower bandwidth (a seventh) between groups of 3,072 GPUs.
#
# ## What was learned
#
# 1. Weights, gradients and Adam's state need 16 bytes per parameter; activations grow with the batch. Both
#    can be counted before a step is run.
# 2. ZeRO and FSDP keep a $p$-th of the state per rank, and send the all-reduce in halves: about $2\Psi$
#    numbers in stages 1 and 2, and $3\Psi$ in stage 3. The sums are the same, to the bit if added in the
#    same order.
# 3. Prefetching weights costs the memory of a second layer, and no time if each GPU has more than $F\beta$
#    tokens.
# 4. A pair of layers cut by columns and rows needs one all-reduce in each pass, which belongs on the
#    fastest links.
# 5. A pipeline sends little, but its stages wait: the bubble is $(p-1)/(m+p-1)$. 1F1B stores at most $p$
#    micro-batches instead of $m$.
# 6. A cost model shows which term limits a split. One assumption about the network can change its answer.
#
# So where are the 1.1 TB? The layers are cut 8 ways inside each node, and each part is sharded over the 64
# nodes; with faster links between nodes, fewer cuts suffice.
#
# **Today.** Llama 3 adds a fourth direction, *context parallelism*, for sequences of 128,000 tokens;
# mixture-of-experts networks distribute their experts, too. NVLink domains of 72 GPUs move the limit of
# 11.5 from 8 towards 72 ranks. The libraries of *Further* hide the messages, but the user still chooses the
# split.
#
# **Next.** Assignment 11 shards an optimizer, cuts two layers and schedules a pipeline. Before:
# **[05](05_why_distribute.ipynb)** (three ways to divide a network), **[06](06_all_reduce.ipynb)** (the
# two halves), **[07](07_data_parallel_training.ipynb)** (the trajectory test),
# **[10](10_running_at_scale.ipynb)** (checkpoints of sharded state).
#
# ## Further
#
# Nothing in the course requires this section.
#
# ### Exercises
#
# 1. A model of 13 billion parameters is trained in mixed precision with Adam on 16 GPUs of 40 GB. Which
#    stages of ZeRO leave 10 GB for activations?
#
# <details><summary>Answer</summary>
#
# The state needs $13 \cdot (4 + 12/16)$ = 61.8 GB in stage 1, $13 \cdot (2 + 14/16)$ = 37.4 GB in stage 2
# and $13 \cdot 16/16$ = 13 GB in stage 3, so only stage 3 leaves 10 GB.
#
# </details>
#
# 2. A pipeline has 8 stages and 32 micro-batches per step. What is its bubble? How many micro-batches
#    keep it below 5%, and what do GPipe and 1F1B then store on the first stage?
#
# <details><summary>Answer</summary>
#
# The bubble is 7/39 = 18%, and $7/(m + 7) < 0.05$ for $m > 133$. GPipe then stores all $m$ micro-batches,
# and 1F1B stores 8.
#
# </details>
#
# 3. GPUs reach 400 TFLOP/s and have links of 25 GB/s. A step has 4 million tokens. With how many GPUs is
#    gathering still free?
#
# <details><summary>Answer</summary>
#
# With $F\beta$ = 16,000 tokens per GPU, up to 250 GPUs.
#
# </details>
#
# ### Recomputation
#
# Not all activations must be stored: a step can keep every $k$-th layer's output, and compute the others
# again when the backward pass needs them (Chen et al. 2016). Of $L$ layers, $L/k + k - 1$ outputs are
# stored at most. **Guess** the additional arithmetic.


# %%
guess("additional matrix products by recomputation", unit="%")


def backward(x, weights, every):
    """The gradients, the products of matrices, and the most outputs stored."""
    products, most, kept = 0, 0, {0: x}
    for layer, w in enumerate(weights):
        x, products = np.tanh(x @ w), products + 1
        if (layer + 1) % every == 0:
            kept[layer + 1] = x
    d, found = x, []
    for start in range(len(weights) - every, -1, -every):
        for layer in range(start, start + every if every > 1 else start):
            kept[layer + 1] = np.tanh(kept[layer] @ weights[layer])
            products += 1
        most = max(most, len(kept) - 1)
        for layer in reversed(range(start, start + every)):
            d = d * (1 - kept.pop(layer + 1) ** 2)
            found.append(kept[layer].T @ d)
            d, products = d @ weights[layer].T, products + 2
    return found, products, most


# %%
deep = list(rng.standard_normal((16, 64, 64)) / 8)
found = {k: backward(np.ones((32, 64)), deep, k) for k in (1, 2, 4, 8)}
rows = {k: {"products": n, "outputs stored": most} for k, (_, n, most) in found.items()}
display(pd.DataFrame(rows).T.rename_axis("every"))
more = 100 * (found[4][1] / found[1][1] - 1)
compare("additional matrix products by recomputation", more)
claim("a third more products", round(more, 1) == 33.3)
claim("fewer than half as many outputs", 2 * found[4][2] < found[1][2])
claim("the same gradients", np.array_equal(found[4][0], found[1][0]))

# %% [markdown]
# Recomputation needs a third more products, because it repeats the forward pass, which is a third of the
# work. Here it stores fewer than half as many outputs, and finds the same gradients. For 100 layers, $k =
# 10$ stores a fifth of the outputs.
#
# ### In today's libraries
#
# | library | how to request it |
# |---|---|
# | PyTorch, FSDP2 | `fully_shard(module)`: each parameter becomes a `DTensor`, sharded along its first axis |
# | PyTorch, tensor parallel | `parallelize_module` with `ColwiseParallel`, `RowwiseParallel` |
# | DeepSpeed | `"zero_optimization": {"stage": 3}` in its configuration |
# | JAX, `jit` | arrays with a `NamedSharding`; the compiler inserts the messages |
# | JAX, `shard_map` | one program per device, with `lax.psum_scatter` and `lax.all_gather` |
# | Keras | `keras.distribution.ModelParallel` with a `LayoutMap` and a `DeviceMesh` |
# | TensorFlow, DTensor | `tf.experimental.dtensor`: `Mesh`, `Layout` |
#
# None of these was run for this lecture. In FSDP2, `reshard_after_forward=False` keeps the weights after
# the forward pass, which avoids the gather before the backward pass, as in Llama 3. In JAX, data
# parallelism, ZeRO-3 and tensor parallelism are one program with different shardings.
#
# ### Terms
#
# **1F1B**: schedule that alternates forward and backward passes. **Bubble**: time in which a pipeline's
# stage waits. **FSDP**: fully sharded data parallelism, ZeRO's stage 3. **Halo**: rows of a neighbour that
# a convolution needs. **Micro-batch**: part of a batch that passes through a pipeline at once. **MFU**:
# model FLOP utilisation. **HSDP**: sharding inside a node, and copies between nodes. **Interleaving**:
# several stages on one GPU. **Prefetch**: gathering the next layer's weights while a layer computes.
# **Recomputation** (activation checkpointing): running a forward pass again instead of storing its outputs.
# **Sequence parallelism**: cutting what lies between tensor-parallel pairs by tokens. **Stage**: layers of
# one rank of a pipeline; also a level of ZeRO. **Tensor parallelism**: cutting single layers.
#
# ### Sources
#
# - Rajbhandari et al. 2020, *ZeRO: memory optimizations toward training trillion parameter models*,
#   [1910.02054](https://arxiv.org/abs/1910.02054), section 7 and table 2; figure 1 from secondary texts:
#   11.1, 11.2
# - Zhao et al. 2023, *PyTorch FSDP: experiences on scaling fully sharded data parallel*,
#   [2304.11277](https://arxiv.org/abs/2304.11277), only the abstract; prefetch from [PyTorch's notes on
#   FSDP](https://docs.pytorch.org/docs/stable/notes/fsdp.html): 11.2
# - Shoeybi et al. 2019, *Megatron-LM*, [1909.08053](https://arxiv.org/abs/1909.08053),
#   abstract and excerpts of section 3: 11.3
# - Huang et al. 2019, *GPipe*, [1811.06965](https://arxiv.org/abs/1811.06965), from secondary texts;
#   Narayanan et al. 2021, *Efficient large-scale language model training on GPU clusters using
#   Megatron-LM*, [2104.04473](https://arxiv.org/abs/2104.04473), sections 2, 3 and 5; table 1, an image,
#   from three transcriptions that agree: 11.4, 11.5
# - Chen et al. 2016, *Training deep nets with sublinear memory cost*,
#   [1604.06174](https://arxiv.org/abs/1604.06174), and Korthikanti et al. 2022, *Reducing activation
#   recomputation in large transformer models*, [2205.05198](https://arxiv.org/abs/2205.05198), both from
#   secondary texts: 11.5, *Further*
# - Llama team 2024, *The Llama 3 herd of models*, [2407.21783](https://arxiv.org/abs/2407.21783),
#   sections 3.3.1 and 3.3.2, table 4: 11.5, *Today*
# - Tazi et al. 2025, *The ultra-scale playbook* (Hugging Face), "Finding the best training
#   configuration", read in a translation: 11.1, 11.5
# - Documentation of PyTorch, DeepSpeed (in Hugging Face's), JAX, Keras and TensorFlow: *Further*
