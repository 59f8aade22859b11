# %% [markdown]
# # 6 · All-reduce
#
# **Adding up a gradient on 512 GPUs: why does it not take 512 times as long?**
#
# After each step of data-parallel training (lecture 07), p ranks hold p gradients, and every rank needs
# their sum. The operation is called *all-reduce*: before it, rank $r$ has a vector $x_r$; after it, each
# rank has $\sum_r x_r$. It runs some hundred thousand times in a training, and it is the part of a step that
# grows with p. We aim at
#
# 1. predicting what any exchange of messages costs, from two numbers that describe a network;
# 2. coding four all-reduces in a few lines each, seeing what they do step by step, and counting it;
# 3. knowing the bound that no algorithm beats, and holding a measurement against it;
# 4. testing the prediction on a real network, and finding where one algorithm overtakes another;
# 5. what Horovod makes of the 214 gradients of ResNet-50, and which part of it costs nothing.
#
# Notation: $p$ ranks, $n$ bytes on each of them, latency $\alpha$ in seconds, $\beta$ seconds for each
# byte, $\gamma$ seconds for adding a byte. Guess before you look: write your number into `guess`, or into
# the field below it.

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(threads=1, tensorflow=False)

# %%
import dataclasses
import json
import os
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display

# %%
from cluster import submit
from cluster.network import (
    Group,
    Hierarchy,
    Network,
    Placeholder,
    Switch,
    Torus,
    bandwidth,
    draw,
    fusion,
    on_real_ranks,
    resnet50,
    simulate,
    sums,
)

os.environ["CLUSTER_RUNS"] = os.environ.get("CLUSTER_RUNS", "../runs")  # jobs of this lecture

# %% [markdown]
# ## 6.1 What a message costs
#
# A message of $n$ bytes takes about $\alpha + n\beta$: a latency, whatever its size, and a time for each
# byte (Hockney's model). Rank 0 sends to rank 1, which sends back; half of that time is one message. The
# functions of this lecture get a *communicator*, `comm`, with `rank`, `size`, `send`, `receive`,
# `sendreceive` (both at once) and `add`. They run on real ranks, by MPI, and unchanged in *virtual time*,
# where a clock counts $\alpha$, $\beta$ and $\gamma$ and nothing is really sent.


# %%
def ping_pong(comm, sizes, repeats):
    """Seconds that a message of each of some sizes takes, one way: (len(sizes), repeats)."""
    found = np.empty((len(sizes), repeats))
    for i, j in np.ndindex(found.shape):
        x, start = np.zeros(sizes[i], np.uint8), comm.time()
        if comm.rank == 0:
            comm.send(x, 1)
            comm.receive(1)
        else:
            comm.receive(0)
            comm.send(x, 0)
        found[i, j] = (comm.time() - start) / 2
    return found


# %%
sizes = [4**k for k in range(3, 12)]  # bytes
virtual = simulate(ping_pong, sizes, 1, ranks=2, network=Network(latency=20e-6, time_per_byte=0.16e-9))
print(f"virtual time: {virtual.results[0][0, 0]:.4g} s for {sizes[0]} bytes, ", end="")
print(f"{virtual.results[0][-1, 0]:.4g} s for {sizes[-1]:,}")

job = submit(on_real_ranks, ping_pong, sizes, 25, ranks_per_node=2, controller="mpi", name="ping-pong")
here = job.results(progress=False)[0].min(axis=1)  # other programs can only make a message slower


# %% [markdown]
# We read $\alpha$ and $\beta$ off a straight line through the shortest and the longest message of *every
# second* size. The others are held out: how wrong is the line there? **Guess** the largest error, first
# here, where two processes of one machine pass messages through shared memory.


# %% tags=["measured"]
def line(sizes, seconds):
    """(α in s, β in s a byte) of the line through the first and the last of some messages."""
    beta = (seconds[-1] - seconds[0]) / (sizes[-1] - sizes[0])
    return seconds[0] - beta * sizes[0], beta


def held_out(sizes, seconds, alpha, beta):
    """Relative errors of α + nβ on every second size, which the fit was not given."""
    n, t = np.array(sizes[1::2]), np.array(seconds[1::2])
    return (alpha + beta * n) / t - 1


guess("largest error on sizes held out, shared memory", unit="%")
alpha, beta = line(sizes[::2], here[::2])
shared = beta
errors = held_out(sizes, here, alpha, beta)
print(f"shared memory: α = {alpha * 1e6:.1f} µs, 1/β = {1e-9 / beta:.2f} GB/s")
print("errors on held-out sizes, %:", *(f"{100 * e:+.0f}" for e in errors))
compare("largest error on sizes held out, shared memory", 100 * np.abs(errors).max())

# %% [markdown]
# Two numbers are a coarse description of shared memory: MPI hands short messages over in one way and long
# ones in another, the longest goes through pages that no cache holds, and here it alone sets $\beta$; and a
# busy machine (the load stands in the first line of output) disturbs even the fastest of 25 messages. As
# far as a network is a straight line (6.6 measures one), the two numbers are all we need. For the
# arithmetic of the next sections we take the servers of Goyal et al. (2017): 50 Gbit/s Ethernet, and a
# latency of 20 µs, which is our assumption. What does it take to add up the gradient of ResNet-50, in
# 32-bit numbers, on 512 such ranks? The simplest way, the *parameter server*: rank 0 receives all vectors,
# one after the other, adds them and sends the sum to all. **Guess** how long that takes, and how long the
# best algorithm takes.

# %%
ETHERNET = Network(latency=20e-6, time_per_byte=8 / 50e9)
GRADIENT = sum(resnet50.BYTES * tensor.parameters for tensor in resnet50.tensors())
guess("parameter server, 512 ranks", unit=" s")
guess("the best algorithm, 512 ranks", unit=" s")
once = ETHERNET.latency + GRADIENT * ETHERNET.time_per_byte
print(f"{GRADIENT / 1e6:.1f} MB; to send it once takes {once * 1e3:.1f} ms")

# %% [markdown]
# ## 6.2 One adds up, or a tree does


# %%
def parameter_server(comm, x):
    """Rank 0 adds up all vectors and sends the sum to all; x (n,) becomes the sum, in place."""
    if comm.rank == 0:
        for other in range(1, comm.size):
            comm.add(x, comm.receive(other))
        for other in range(1, comm.size):
            comm.send(x, other)
    else:
        comm.send(x, 0)
        comm.receive(0, into=x)
    return x


# %% [markdown]
# Rank 0 handles $2(p-1)$ vectors in turn while the others wait. A *binomial tree* shares the work: every
# second rank hands its vector to its neighbour, of the rest every second to the next one, and so on up to
# rank 0; the sum goes the same way back. `sums.check_sum` runs an all-reduce on numbers that remember which
# rank they come from, and raises where a part is missing or there twice.


# %%
def tree(comm, x):
    """Pairs, pairs of pairs, …: up to rank 0, and the same way down; x (n,) becomes the sum, in place."""
    rank, p, d = comm.rank, comm.size, 1
    while d < p and rank % (2 * d) == 0:
        if rank + d < p:
            comm.add(x, comm.receive(rank + d))
        d *= 2
    if rank:
        comm.send(x, rank - d)
        comm.receive(rank - d, into=x)
    while d > 1:
        d //= 2
        if rank + d < p:
            comm.send(x, rank + d)
    return x


for algorithm in (parameter_server, tree):
    sums.check_sum(algorithm, ranks=8, n=24)

# %%
fig, axes = plt.subplots(2, 1, figsize=(7.2, 6.2))
slow = Network(latency=20e-6, time_per_byte=0.8e-9, reduction=0.1e-9)
runs = [simulate(f, Placeholder(1 << 17), ranks=8, network=slow) for f in (parameter_server, tree)]
for ax, run, name in zip(axes, runs, ("parameter server", "tree"), strict=True):
    draw.space_time(run, ax)
    ax.set(xlim=(0, 1e3 * runs[0].time))
    ax.set_title(name, loc="right")
axes[1].get_legend().remove()
plt.show()

# %% [markdown]
# *(Figure: two space-time diagrams of 8 ranks, time to the right, each message an arrow from the sender's
# line to the receiver's. Above, the parameter server: seven arrows one after the other up to rank 0, each
# followed by a small box, the addition, then seven down from it. Below, the tree: three rounds up, in which
# 4, 2 and 1 arrows run at once, and three rounds down; it ends in less than half of the time.)*
#
# $p - 1$ became $\log_2 p$, and yet most ranks still idle, and every arrow carries the whole vector.
#
# ## 6.3 The ring
#
# Cut the vector into $p$ chunks, and let all ranks send at the same time, each to its right neighbour: in
# each step a rank passes on one chunk and adds the one that arrives to its own. After $p - 1$ steps each
# chunk has gone round and is complete on one rank (*reduce-scatter*). In another $p - 1$ steps the complete
# chunks go round (*all-gather*). Patarasuk and Yuan (2009) described it; Baidu and Horovod brought it to
# deep learning. Here $p$ divides $n$; assignment 06 does without that.


# %%
def ring(comm, x):
    """All-reduce of x (n,), in place; p divides n."""
    rank, p = comm.rank, comm.size
    right, left = (rank + 1) % p, (rank - 1) % p
    chunks = np.split(x, p)  # views: p chunks of n/p elements
    for step in range(p - 1):  # reduce-scatter: sums grow as they go round
        received = comm.sendreceive(chunks[(rank - step) % p], right, left)
        comm.add(chunks[(rank - step - 1) % p], received)
    for step in range(p - 1):  # all-gather: the sums go round once more
        into = chunks[(rank - step) % p]
        comm.sendreceive(chunks[(rank + 1 - step) % p], right, left, into=into)
    return x


sums.check_sum(ring, ranks=8, n=24)

# %%
history = sums.chunk_history(ring, 4)
draw.chunks(history)
plt.show()

# %% [markdown]
# *(Figure: seven tables of 4 ranks by 4 chunks; a cell names the ranks whose parts are in it. At first,
# each rank has only its own part. After step 1, in each row one cell holds two ranks' parts, after step 2
# one holds three, after step 3 one is complete: another chunk on each rank. A dashed frame marks what has
# just arrived, a solid orange one what has just become complete, a green one what was so before. In steps 4
# to 6 the complete cells spread along the rows, until all sixteen are complete.)*
#
# In JupyterLab, `draw.step_through(history)` shows the same with a slider. Now count: $2(p-1)$ steps of
# $n/p$ bytes, so
#
# $$T_\text{ring} = 2(p-1)\,\alpha + 2\,\frac{p-1}{p}\,n\beta + \frac{p-1}{p}\,n\gamma .$$
#
# The term with $\beta$ does *not* grow with $p$. It comes near $2n\beta$, twice the time of sending the
# vector once, and stays there. So much for the question of this lecture, and no algorithm can do better: a
# rank must receive what it lacks of the sum and give what the others lack. Patarasuk and Yuan prove that
# each rank has to send $2\frac{p-1}{p}n$ bytes if all of them send equally much.
#
# ## 6.4 Halving and doubling
#
# The price is $2(p-1)$ latencies. *Halving-doubling* (Rabenseifner; Thakur et al. 2005) pays only $2\log_2
# p$ of them, for the same bytes: exchange *half* of the vector with the rank at distance 1, a quarter with
# that at distance 2, an eighth at 4, …, and the same way back. Here $p$ is a power of two and divides $n$;
# again the assignment does without.


# %%
def halving_doubling(comm, x):
    """All-reduce of x (n,), in place; p is a power of two and divides n."""
    part, way, d = x, [], 1
    while d < comm.size:
        partner = comm.rank ^ d  # at distance 1, 2, 4, …
        mine, other = np.split(part, 2)[:: -1 if comm.rank & d else 1]
        comm.add(mine, comm.sendreceive(other, partner, partner))
        way.append((partner, mine, other))
        part, d = mine, 2 * d
    for partner, mine, other in reversed(way):
        comm.sendreceive(mine, partner, partner, into=other)
    return x


sums.check_sum(halving_doubling, ranks=8, n=24)
draw.chunks(sums.chunk_history(halving_doubling, 4))
plt.show()

# %% [markdown]
# *(Figure: five tables of 4 ranks by 4 chunks. After step 1 each rank has two ranks' parts in half of its
# chunks, after step 2 one complete chunk; after step 3 two, after step 4 all four.)*
#
# What each rank does, counted in virtual time, for 8 ranks and a vector of 1 MB:

# %%
ALGORITHMS = {f.__name__.replace("_", " "): f for f in (parameter_server, tree, ring, halving_doubling)}
rows = {}
for name, algorithm in ALGORITHMS.items():
    run = simulate(algorithm, Placeholder(250_000), ranks=8, network=ETHERNET)
    busiest = max(run.counts, key=lambda count: count.bytes_sent)
    rows[name] = {"messages, rank 0": run.counts[0].messages_sent, "messages, all": len(run.messages)}
    rows[name] |= {"MB sent, busiest rank": busiest.bytes_sent / 1e6, "MB sent, all": run.bytes_sent / 1e6}
    rows[name] |= {"time / µs": run.time * 1e6}
display(pd.DataFrame(rows).T.round(2))

# %% [markdown]
# All four send the same bytes in sum, $2(p-1)n$. They differ in *who* sends them, and how many at once. And
# with that, 512 ranks:

# %%
seconds = {
    name: bandwidth.allreduce_seconds(algorithm, GRADIENT // 2048 * 2048, 512, ETHERNET)
    for name, algorithm in ALGORITHMS.items()
}
for name, t in seconds.items():
    print(f"{name:17} {t:8.4f} s, {t / once:7.1f} times as long as sending the gradient once")
compare("parameter server, 512 ranks", seconds["parameter server"])
compare("the best algorithm, 512 ranks", min(seconds.values()))

# %% [markdown]
# The parameter server is slower in proportion to p. The gap between ring and halving-doubling is pure
# latency, $\alpha$ times the difference in the numbers of steps. For 100 MB it is small; for a vector of a
# few kilobytes it is all there is. Goyal et al. report halving-doubling to be 3 times faster than the ring
# on 32 servers there. Predict it:

# %%
guess("ring : halving-doubling, 32 servers, short vectors", unit="×")
ratio = [
    bandwidth.allreduce_seconds(ring, n, 32, ETHERNET)
    / bandwidth.allreduce_seconds(halving_doubling, n, 32, ETHERNET)
    for n in (1024, 1 << 20, 1 << 23)
]
for n, value in zip(("1 KiB", "1 MiB", "8 MiB"), ratio, strict=True):
    print(f"32 ranks, {n}: the ring takes {value:.2f} times as long as halving-doubling")
compare("ring : halving-doubling, 32 servers, short vectors", ratio[0])

# %% [markdown]
# The model's limit is $2(p-1) : 2\log_2 p$, twice what they saw. Between the extremes there is a size with
# exactly their factor; it is no contradiction, and no confirmation either: the paper does not give the
# size.
#
# ## 6.5 Bus bandwidth
#
# "1 MB in 1 ms" says little about an all-reduce: is that near the hardware's limit? NVIDIA's nccl-tests
# multiply $n/t$ by what each rank has to send at least, $2\frac{p-1}{p}$. This *bus bandwidth* can be held
# against the bandwidth of a link, for any $p$ and any algorithm.

# %%
vectors = [2**k for k in range(10, 31, 2)]  # bytes
switch = Switch(ETHERNET.latency, ETHERNET.time_per_byte)
curves = {name: bandwidth.over_size(f, vectors, 64, switch) for name, f in ALGORITHMS.items()}
draw.bus_bandwidth(curves, limit=1 / ETHERNET.time_per_byte)
plt.show()

# %% [markdown]
# *(Figure: bus bandwidth over the size of the vector, 1 KiB to 1 GiB, for 64 ranks. Ring and
# halving-doubling rise in an S from near zero to the dashed line of the link's own 6.25 GB/s;
# halving-doubling rises earlier, by a factor of about ten in size. Tree and parameter server stay below a
# sixth of it at any size.)*
#
# The left of the picture is bound by latency, the right by bandwidth: the S of a line $\alpha + n\beta$.
# Codreanu's slides (see *Sources*) have these two words over a histogram, to which 6.8 comes.
#
# ## 6.6 A real network, slowed down until we can watch
#
# Is any of this true? A recorded run (`runs/06_slow_network.py`): on one machine each rank lives in a
# network namespace of its own and reaches the others only by a virtual cable, which Linux's traffic control
# slows down to 50 Mbit/s in each direction. While the network carries, the two cores idle, so that they can
# be 8 ranks. First the ping-pong, and the line through every second size. **Guess** how far from it the sizes
# in between lie, at most:

# %%
record = json.loads(pathlib.Path("runs/06_slow_network.json").read_text())
jobs = {(job["ranks"], job["switches"]): job["seconds"] for job in record["jobs"]}


def medians(job, name):
    """(sizes in bytes, seconds) of a recorded job, and the quartiles of the seconds (2, len(sizes))."""
    found = jobs[job][name]
    times = np.array(list(found.values()), float)
    low, middle, high = np.nanquantile(times, [0.25, 0.5, 0.75], axis=1)
    return np.array([int(size) for size in found]), middle, (low, high)


guess("largest error on sizes held out, slow network", unit="%")
n, t, _ = medians((4, 1), "ping_pong")
alpha, beta = line(n[::2], t[::2])
errors = held_out(n, t, alpha, beta)
rate = record["settings"]["rate"]
print(f"RECORDED: α = {alpha * 1e6:.0f} µs, 1/β = {8e-6 / beta:.1f} of {rate / 1e6:.0f} Mbit/s")
print("errors on held-out sizes, %:", *(f"{100 * e:+.0f}" for e in errors))
compare("largest error on sizes held out, slow network", 100 * np.abs(errors).max())

# %% [markdown]
# The line is good but for messages of a few kilobytes, which are faster than it: the token bucket that
# slows a cable down lets the first 2 KB pass at once. With these two numbers, and nothing else, virtual
# time predicts the four all-reduces on 4 and 8 ranks. **Guess** how far the median prediction is off.


# %%
def predicted(algorithm, sizes, ranks, network):
    """Seconds of an all-reduce in virtual time, for some sizes in bytes."""
    return np.array([bandwidth.allreduce_seconds(algorithm, int(n), ranks, network) for n in sizes])


guess("median error of the prediction, all-reduces", unit="%")
off = []
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for ax, ranks in zip(axes, (4, 8), strict=True):
    for i, (name, algorithm) in enumerate(ALGORITHMS.items()):
        n, t, (low, high) = medians((ranks, 1), algorithm.__name__)
        model = predicted(algorithm, n, ranks, Switch(alpha, beta))
        off += [abs(100 * (model / t - 1))]
        ax.plot(n, model * 1e3, color=palette[i], marker="", lw=1.2)
        style = {"color": palette[i], "ls": "", "marker": "os^D"[i], "ms": 4, "label": name}
        ax.errorbar(n, t * 1e3, [(t - low) * 1e3, (high - t) * 1e3], **style)
    ax.set(xscale="log", yscale="log", title=f"{ranks} ranks", xlabel="size of the vector (bytes)")
axes[0].set_ylabel("time of an all-reduce (ms)")
axes[0].legend()
plt.show()
compare("median error of the prediction, all-reduces", np.median(off))

# %% [markdown]
# *(Figure: time over size, both logarithmic, for 4 ranks and for 8: lines are predictions, points with
# error bars recorded medians with their quartiles. All curves are flat for short vectors and rise in
# proportion for long ones, in the order of the prediction: parameter server, tree, and far below them ring
# and halving-doubling. Points lie near the lines, but for halving-doubling with 8 ranks, which lies above
# everywhere, the tree, above for long vectors, and the parameter server, which for short ones is faster than
# predicted.)*
#
# Over two powers of ten in time, the prediction says which algorithms are slow and about how slow. Which of
# the two fast ones is the faster for long vectors it does not: the record has the ring ahead. Where is it
# off? The recorded times in multiples of the predicted ones, with 8 ranks:

# %%
rows = {}
for name, algorithm in ALGORITHMS.items():
    ratio = medians((8, 1), algorithm.__name__)[1] / predicted(algorithm, n, 8, Switch(alpha, beta))
    rows[name] = {f"{size:,} bytes": x for size, x in zip(n, ratio, strict=True) if size in (128, *n[-5:])}
display(pd.DataFrame(rows).T.round(2))
for ranks in (4, 8):
    exchanged, alone = (medians((ranks, 1), name)[1] for name in ("exchange", "ping_pong"))
    print(f"{ranks} ranks: all pairs at once, both ways, take", end=" ")
    print(f"{exchanged[0] * 1e3:.1f} ms for {n[0]} bytes in place of {alone[0] * 1e3:.1f}")
    bus = bandwidth.bus_bandwidth(n[-1], medians((ranks, 1), "ring")[1][-1], ranks)
    print(f"  bus bandwidth of the ring, {n[-1]:,} bytes: {8 * bus / rate:.0%} of the cable's")
messages, single = medians((8, 1), "parameter_server")[1][0], medians((8, 1), "ping_pong")[1][0]
print(f"parameter server, 8 ranks, {n[0]} bytes: {messages / single:.1f} messages' time, not 14")

# %% [markdown]
# - *Short, ring and halving-doubling.* $\alpha$ is that of the job with 4 ranks. With 8 even the lone
#   ping-pong takes longer, as the last lines say: six idle ranks look for messages on the same two cores.
# - *Short, parameter server.* MPI here sends every message before anybody has asked for it, so the seven set
#   out together, and rank 0 does not wait seven times. In virtual time a message begins when both sides are
#   ready.
# - *Long.* The tree and halving-doubling, which keep several cables busy at once, are slower than their
#   lines, and the more so the longer the vector; the ring, with its short chunks, is least so. All that the
#   parameter server moves passes the one cable of rank 0, and it is on its line. It is not that cables carry
#   both directions: the tree's messages go one way. What it is, the record does not say, and no line fitted
#   to one message at a time could have told us.
#
# ### Where the ring overtakes
#
# In this model halving-doubling is never slower than the ring when $p$ is a power of two: fewer latencies,
# the same bytes. Then why does anybody use the ring? Because it talks to neighbours only. Put the ranks on
# *two* switches, $p/2$ on each, joined by one cable like all others. In a ring, one message at a time
# crosses it in each direction. In halving-doubling the exchange at distance $p/2$, of $n/p$ bytes, crosses
# it from all ranks at once: $p/2$ messages share the cable. There and back this costs $(1 -
# \frac2p)\,n\beta$ more, and the two take equally long for
#
# $$n^* = \frac{2\,(p - 1 - \log_2 p)}{1 - 2/p}\;\frac{\alpha}{\beta}\,.$$
#
# With 2 ranks the two algorithms are the same. **Guess** $n^*$ for 4 and for 8 ranks on our slow network.

# %%
for ranks in (4, 8):
    guess(f"size from which the ring is faster, {ranks} ranks", unit=" bytes")


def crossing(sizes, ratio):
    """The size at which a ratio falls below 1 for good, between two sizes on a straight line in log(size)."""
    last = np.flatnonzero(ratio > 1)[-1]
    share = (ratio[last] - 1) / (ratio[last] - ratio[last + 1])
    return sizes[last] * (sizes[last + 1] / sizes[last]) ** share


def pairs(job):
    """Ring : halving-doubling of a recorded job, each repeat for itself: (len(sizes), repeats)."""
    names = ("ring", "halving_doubling")
    return np.divide(*(np.array(list(jobs[job][name].values()), float) for name in names))


# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
for ax, ranks in zip(axes, (4, 8), strict=True):
    two = Hierarchy(alpha, beta, 0, 0, ranks // 2, alpha, beta)  # two "nodes", each with one cable
    kept = []
    for i, (switches, network) in enumerate({1: Switch(alpha, beta), 2: two}.items()):
        found = pairs((ranks, switches))
        low, middle, high = np.nanquantile(found, [0.25, 0.5, 0.75], axis=1)
        model = np.divide(*(predicted(f, n, ranks, network) for f in (ring, halving_doubling)))
        kept.append((middle, model))
        ax.plot(n, model, color=palette[i], marker="", ls=["--", "-"][i])
        style = {"ls": "", "marker": "os"[i], "color": palette[i], "label": ["one switch", "two switches"][i]}
        ax.errorbar(n, middle, [middle - low, high - middle], **style)
    ax.axhline(1, color="0.5", lw=0.8, marker="")
    ax.set(xscale="log", title=f"{ranks} ranks", xlabel="size of the vector (bytes)")
    exact = 2 * (ranks - 1 - np.log2(ranks)) / (1 - 2 / ranks) * alpha / beta
    print(f"{ranks} ranks: predicted {exact:,.0f} bytes; virtual time {crossing(n, model):,.0f}; ", end="")
    print(f"recorded {crossing(n, middle):,.0f}, quartiles {crossing(n, low):,.0f}", end=" ")
    print(f"to {crossing(n, high):,.0f}; recorded on one switch {crossing(n, kept[0][0]):,.0f}")
    apart = [one[-1] - two[-1] for one, two in zip(*kept, strict=True)]
    print("  two switches lower the last ratio by {:.2f}, predicted {:.2f}".format(*apart))
    compare(f"size from which the ring is faster, {ranks} ranks", crossing(n, middle))
axes[0].set_ylabel("time of ring : halving-doubling")
axes[0].legend()
plt.show()

# %% [markdown]
# *(Figure: the ratio of the times of ring and halving-doubling over the size, for 4 and for 8 ranks; points
# with quartiles are recorded, each ratio from one round, lines are predicted. All fall from left to right.
# The predicted line of two switches falls through 1, that of one switch towards 1. Recorded points lie
# below the lines on the right, and with 8 ranks on the left; those of two switches pass 1 within a factor
# of two of the prediction, those of one switch further to the right.)*
#
# On two switches the medians cross within a factor of two of the formula. But look at one switch: the model
# has no crossing there, and the record has one, at a longer vector. It comes from halving-doubling's being
# slower than its line, for which the model has no term. What the shared cable adds
# is the *distance* of the two sets of points, and it opens only about half as far as that of the lines. (In a
# former record, from another processor, it was nearly all with 4 ranks and a third with 8: that it opens is
# sure, how far is not.) So ask of a crossover that somebody measured what made it. Goyal et al. found
# halving-doubling better up to a million elements.
#
# ## 6.7 Nodes
#
# Machines are hierarchies: 8 GPUs in a server talk to each other some times faster than through its one
# network card. A ring of 128 ranks passes 254 latencies. Codreanu shows the classical remedy: *first inside
# a machine, then between machines*. One rank of each node, the *leader*, adds up what its node has; the
# leaders form a ring; the leader hands the sum out.


# %%
def leaders(comm, x, q):
    """All-reduce of x (n,) over the leaders of nodes of q ranks; the number of nodes divides n."""
    first = comm.rank // q * q
    node = Group(comm, range(first, first + q))
    if node.rank == 0:
        for other in range(1, q):
            comm.add(x, node.receive(other))
        ring(Group(comm, range(0, comm.size, q)), x)
        for other in range(1, q):
            node.send(x, other)
    else:
        node.send(x, 0)
        node.receive(0, into=x)
    return x


sums.check_sum(leaders, 8, 24, 4)

# %% [markdown]
# **Guess** how many times as fast as the ring of all ranks it is on 16 servers of 8 GPUs, for a short
# vector and for the whole gradient. Inside we take 20 GB/s and 5 µs (assumptions, of the order of one
# NVLink of a P100).

# %%
guess("ring : leaders, 64 KiB", unit="×")
guess("ring : leaders, gradient of ResNet-50", unit="×")
servers = Hierarchy(20e-6, 8 / 50e9, ranks_per_node=8, inside_latency=5e-6, inside_time_per_byte=1 / 20e9)
for words, size in {"64 KiB": 1 << 16, "gradient of ResNet-50": GRADIENT // 512 * 512}.items():
    flat = bandwidth.allreduce_seconds(ring, size, 128, servers)
    doubling = bandwidth.allreduce_seconds(halving_doubling, size, 128, servers)
    nodes = bandwidth.allreduce_seconds(leaders, size, 128, servers, 8)
    print(
        f"{words}: ring {flat * 1e3:.2f} ms, halving-doubling {doubling * 1e3:.2f}, leaders {nodes * 1e3:.2f}"
    )
    compare(f"ring : leaders, {words}", flat / nodes)

# %% [markdown]
# For short vectors the leaders save most of the latencies. For long ones they *lose*: the leader is a
# parameter server of its node, $2(q-1)$ whole vectors one after the other, while seven links idle and the
# network card waits:
#
# $$T_\text{leaders} = 2(q-1)\,(\alpha_\text{in} + n\beta_\text{in}) + T_\text{ring}(p/q,\, n).$$
#
# The ring was not hurt by the card: ranks in order, only one of eight sends out of the node. And
# halving-doubling is hierarchical by itself: its largest pieces go to distances 1, 2 and 4, inside the
# node, and it beats the leaders at both ends, as long as $p$ and $q$ are powers of two. How a hierarchy
# keeps all links busy for any number of nodes is the last part of assignment 06.
#
# ## 6.8 214 buffers
#
# A gradient is not one vector. Codreanu has a histogram of the buffers that must be added up for ResNet-50:
# 214 of them, "latency bound" written over the left, "bandwidth bound" over the right. We count them again,
# and ask where the *bytes* are.

# %%
parameters = np.array([tensor.parameters for tensor in resnet50.tensors()])
bins = np.ceil(np.log2(parameters)).astype(int)
edges = np.arange(bins.min(), bins.max() + 1)
number = np.array([np.sum(bins == k) for k in edges])
weight = np.array([parameters[bins == k].sum() for k in edges]) / parameters.sum()
half = 2 * 63 * ETHERNET.latency / (2 * 63 / 64 * ETHERNET.time_per_byte) / 4  # parameters
fig, axes = plt.subplots(2, 1, figsize=(7.2, 4.4), sharex=True)
axes[0].bar(edges, number, color=palette[0], edgecolor="black", lw=0.5)
axes[1].bar(edges, 100 * weight, color=palette[1], edgecolor="black", lw=0.5, hatch="///")
for ax in axes:
    ax.axvline(np.log2(half), color="black", ls="--", marker="", lw=1)
axes[0].set(ylabel="buffers")
axes[1].set(ylabel="share of bytes (%)", xlabel="⌈log₂ of the number of parameters⌉", xticks=edges[::2])
plt.show()
small = parameters < half
print(f"{len(parameters)} buffers; in a ring of 64 ranks latency costs more than bytes below {half:,.0f}")
print(f"parameters: for {small.sum()} of them, {parameters[small].sum() / parameters.sum():.0%} of the bytes")

# %% [markdown]
# *(Figure: two histograms over the logarithm of the size. Above, the number of buffers: most lie at the
# left, between 6 and 11. Below, their share of the bytes: nearly all at the right, from 18 on. A dashed
# line, where latency and bytes cost a ring of 64 ranks equally much, lies right of nearly all buffers.)*
#
# The dashed line is where both terms of the ring are equal, for 64 ranks on the network of 6.1. With so
# many ranks nearly every buffer is left of it, and so are half of the bytes: where "latency bound" ends is
# no property of a buffer, but of $p$, $\alpha$ and $\beta$. **Guess** which share of the time 64 servers
# still compute, if each buffer is reduced for itself when the backward pass has ended.

# %%
FORWARD, BACKWARD = 0.060, 0.120  # s; backward: Goyal et al., 32 images on a P100; forward: assumed
guess("efficiency, each buffer for itself, after the backward pass", unit="%")


def ring_seconds(n, p=64, network=ETHERNET):
    """The formula of 6.3, for n bytes."""
    return 2 * (p - 1) * network.latency + 2 * (p - 1) / p * n * network.time_per_byte


early = resnet50.buffers(BACKWARD)  # each with the moment at which it is ready
late = [dataclasses.replace(buffer, ready=BACKWARD) for buffer in early]
passes = {"forward": FORWARD, "backward": BACKWARD}
plans = {
    "each for itself, at the end": fusion.predict(late, ring_seconds, threshold=0, **passes),
    "fused, at the end": fusion.predict(late, ring_seconds, **passes),
    "each for itself, overlapping": fusion.predict(early, ring_seconds, threshold=0, **passes),
    "fused, overlapping": fusion.predict(early, ring_seconds, **passes),
}
for name, plan in plans.items():
    count = len(plan.exchanges)
    print(f"{name:29} {count:3} all-reduces, {plan.time * 1e3:4.0f} ms, efficiency {plan.efficiency:.0%}")
first = next(iter(plans.values()))
compare("efficiency, each buffer for itself, after the backward pass", 100 * first.efficiency)

# %% [markdown]
# *Fusion* puts buffers together into one vector; *overlap* begins with the gradients of the last layers
# while the backward pass still computes those of the first ones, as Gloo does in Codreanu's picture.
# Horovod does both: its thread wakes once a millisecond, takes all that is ready on all ranks, and fuses it
# up to 128 MiB.

# %%
fig, axes = plt.subplots(2, 1, figsize=(7.6, 5.4))
for ax, name in zip(axes, ("each for itself, overlapping", "fused, overlapping"), strict=True):
    draw.iteration(plans[name], ax)
    ax.set(xlim=(0, 1e3 * plans["each for itself, overlapping"].time))
    ax.annotate(name, (0.99, 0.5), xycoords="axes fraction", ha="right", va="center")
axes[1].get_legend().remove()
plt.show()

# %% [markdown]
# *(Figure: two iterations over time. In both, a rank's forward and backward pass are boxes, ticks show when
# gradients become ready. Above, the network's narrow boxes go on long after the backward pass; below, fewer
# boxes, the first of them wide, follow one another, and the last ends soon after it.)*
#
# What remains is the end: the gradients of the first layers are ready only when the backward pass is over,
# and nothing is left to hide them behind. (The model knows no stragglers, no input, no second GPU on the same
# network card: from 8 to 256 GPUs Goyal et al. measured about 90%.)
#
# ## 6.9 Horovod's own timeline
#
# A recorded run (`runs/06_timeline.py`): ResNet-50 on two ranks of one machine, and Horovod's timeline. We
# predict a step from measurements of the same job: the times of the forward and of the backward pass
# without any exchange, and a line through the times of Horovod's all-reduce of a short and of a long
# tensor. **Guess** how many all-reduces Horovod makes of the 214 buffers.

# %%
timeline = json.loads(pathlib.Path("runs/06_timeline.json").read_text())
guess("all-reduces in a step of Horovod")
lengths, spent = np.array(timeline["sizes"]).T
sizes = np.unique(lengths)
latency, per_byte = line(sizes, [np.median(spent[lengths == size]) for size in sizes])
loss, whole = (
    np.median([s for rank in timeline["passes"] for which, s in rank if which == name])
    for name in ("loss", "gradients")
)
model = fusion.predict(
    resnet50.buffers(whole - loss), lambda n: latency + n * per_byte, forward=loss, backward=whole - loss
)
steps = sorted(timeline["steps"], key=lambda step: step["seconds"])
median = steps[len(steps) // 2]
print(f"RECORDED: {[len(step['exchanges']) for step in steps]} all-reduces in", end=" ")
print(f"{[round(step['seconds'], 1) for step in steps]} s, median {median['seconds']:.2f} s")
print(f"predicted: {len(model.exchanges)} all-reduces, {model.time:.2f} s;", end=" ")
print(f"one all-reduce after the backward pass: {whole + latency + GRADIENT * per_byte:.2f} s")
compare("all-reduces in a step of Horovod", len(median["exchanges"]))

# %%
fig, ax = plt.subplots(figsize=(7.2, 4.2))
BYTES = [resnet50.BYTES * tensor.parameters for tensor in resnet50.tensors()]
recorded = sorted((at, BYTES[int(i)]) for i, at in median["ready"].items())
expected = [(model.forward + b.ready, b.size) for e in model.exchanges for b in e.buffers]
curves = {
    "seen by Horovod, recorded": (recorded, palette[0], "-"),
    "handed over, predicted": (expected, palette[0], ":"),
    "reduced, recorded": ([(end, size) for _, end, _, size in median["exchanges"]], palette[1], "-"),
    "reduced, predicted": ([(e.end, e.size) for e in model.exchanges], palette[1], ":"),
}
for label, (points, color, style) in curves.items():
    t, size = np.array([(0, 0), *points]).T
    ax.step(t, np.cumsum(size) / 1e6, where="post", color=color, ls=style, marker="", label=label)
ax.set(xlabel="time since the step began (s)", ylabel="gradients (MB)")
ax.legend()
plt.show()
absent = [tensor.name for i, tensor in enumerate(resnet50.tensors()) if str(i) not in median["ready"]]
print(f"{len(median['ready'])} tensors in the timeline; not in it: {', '.join(absent)}")

# %% [markdown]
# *(Figure: gradients in MB over the time of a step, four staircases. Predicted, the gradients are handed over
# in many small steps from the end of the forward pass on, steeply at first, for the large ones come early,
# and are reduced in a few large steps. Recorded, Horovod's thread sees them when most is predicted to be
# handed over, each time what has come during the exchange before, and the last exchange ends later.)*
#
# The order is as predicted, large gradients first, many small ones last, and what waits while the network
# is busy goes together. (When it was handed over is not in the timeline: the thread does not look while it
# exchanges.) How many all-reduces there are varies from step to step. The overlap is there, but in the
# median step it gains nothing: it takes as long as if the exchange began after the backward pass; some
# steps gain, and none is as short as predicted. Part of the loss comes before Horovod has anything to do:
# the passes alone vary by a factor of three in this job, two ranks on two cores, and an exchange waits for
# the slower rank. In the model the network works while the cores compute; here Horovod's threads and the
# backward pass want the same cores. On a GPU cluster these are different pieces of hardware, and that is
# what overlap lives on.
#
# Four buffers are missing. In the first block of each stage two batch normalisations feed one addition, so
# the gradients of their $\beta$ are equal, number for number; TensorFlow's graph optimiser noticed that two
# all-reduces have the same input, and dropped one of each pair. Nobody had told it, and it is right.
#
# How fast is Horovod itself? A test needs a wire whose speed is known: 6.6's cables, with nothing to compute.
# **Guess** the share of 50 Mbit/s that Horovod's bus bandwidth (6.5) reaches with 4 ranks and 4 MB, and how
# many times as long as our ring it takes for 128 bytes.

# %%
guess("Horovod's bus bandwidth over the cable's, 4 ranks, 4 MB", unit="%")
guess("Horovod over our ring, 4 ranks, 128 bytes", unit="×")
fig, ax = plt.subplots(figsize=(7.2, 3.6))
share, short = {}, {}
for i, ranks in enumerate((4, 8)):
    for name, style in (("ring", {"marker": "o", "ls": ":"}), ("horovod", {"marker": "s", "ls": "-"})):
        n, t, _ = medians((ranks, 1), name)
        bus = 8 * bandwidth.bus_bandwidth(n, t, ranks) / rate
        share[name, ranks], short[name, ranks] = bus[-1], t[0]
        label = f"{'our ring' if name == 'ring' else 'Horovod'}, {ranks} ranks"
        ax.plot(n, 100 * bus, color=palette[i], label=label, ms=5, **style)
ax.axhline(100, color="0.4", ls="--", marker="")
ax.set(xscale="log", xlabel="size of the vector (bytes)", ylabel="bus bandwidth, % of the cable's")
ax.legend()
plt.show()
for ranks in (4, 8):
    print(f"{ranks} ranks, 128 bytes: our ring {1e3 * short['ring', ranks]:.1f} ms,", end=" ")
    print(f"Horovod {1e3 * short['horovod', ranks]:.1f} ms")
compare("Horovod's bus bandwidth over the cable's, 4 ranks, 4 MB", 100 * share["horovod", 4])
compare("Horovod over our ring, 4 ranks, 128 bytes", short["horovod", 4] / short["ring", 4])

# %% [markdown]
# *(Figure: bus bandwidth in percent of the cable's over the size of the vector, four curves: our ring and
# Horovod, with 4 and with 8 ranks. All rise from nothing in an S; Horovod's rise later than the ring's, come
# near them at 256 KB, and end at some 85% for 4 MB, below the dashed line of 100%.)*
#
# For long vectors Horovod's Gloo *is* a ring, and near the bound of 6.3. (100% cannot be had: headers of
# Ethernet, IP and TCP take 4 to 5% of a cable.) For short ones it pays for agreement: in each cycle of its
# thread the ranks tell each other, by little all-reduces over the same cable, what is ready; and a tensor
# waits for the cycle under way. The record of our ring flatters it, too: its ranks ran at a real-time
# priority, Horovod's did not. 6.8 took no time for agreement. Fusion does not save it, as it is the same for
# one tensor and for fifty; fewer and longer cycles do.
#
# ## 6.10 Who coordinates, and who moves the data
#
# Before an all-reduce can begin, all ranks must agree on what is reduced next; TensorFlow runs operations
# in whatever order they become ready, on each rank in its own. These are messages of a few bytes. The
# gradients are messages of megabytes between the memories of GPUs. ChainerMN (Asai and Fukuda)
# starts its processes by MPI and gives the gradients to NCCL, which knows NVLink, PCIe and network cards and
# builds its rings and trees from what it finds. Horovod divides the work in the same way:
# `HOROVOD_CONTROLLER` coordinates, `HOROVOD_GPU_OPERATIONS` moves.
#
# With *RDMA* the network card reads and writes memory by itself, without the operating system. The Horovod
# paper (2018) measured what it brings over TCP, on 128 GPUs with 25 Gbit/s: 3 to 4% for Inception V3 and
# ResNet-101, 30% for VGG-16. Is it the latency or the bandwidth? Arithmetic on the ring's two terms. Let a
# step take as long as one exchange of all gradients, which makes the gain the largest. **Guess** by how
# much VGG-16 gains if RDMA turns 30 µs into 3 µs (assumptions of the usual order) and changes nothing else.

# %%
guess("gain of VGG-16 by latency alone, at most", unit="%")
PARAMETERS = {"Inception V3": 23_851_784, "ResNet-101": 44_707_176, "VGG-16": 138_357_544}  # of Keras
MULTIPLY_ADDS = {"Inception V3": 5.7e9, "ResNet-101": 7.6e9, "VGG-16": 15.3e9}  # of an image
rows = {}
for name, count in PARAMETERS.items():
    tcp, rdma = (ring_seconds(4 * count, 128, Network(a, 8 / 25e9)) for a in (30e-6, 3e-6))
    rows[name] = {"MB": 4 * count / 1e6, "bytes / 1000 multiply-adds": 4e3 * count / MULTIPLY_ADDS[name]}
    rows[name] |= {
        "ring, 30 µs / ms": tcp * 1e3,
        "ring, 3 µs / ms": rdma * 1e3,
        "gain / %": 100 * (tcp / rdma - 1),
    }
table = pd.DataFrame(rows).T
display(table.round(2))
compare("gain of VGG-16 by latency alone, at most", table.loc["VGG-16", "gain / %"])
needed = (0.30 * table.loc["VGG-16", "ring, 3 µs / ms"] * 1e-3) / (2 * 127)
print(f"30% by latency alone: {needed * 1e6:.0f} µs more for each message,", end=" ")
print(f"or {needed / 27e-6:.0f} exchanges in place of one")
print(f"30% by bandwidth alone: TCP at {1 / 1.3:.0%} of what RDMA carries")

# %% [markdown]
# For the two others the table allows what was measured. For VGG-16 latency does not explain it: one exchange
# has too few messages, and so have the four or five that a fusion buffer of 64 MB makes of its gradients,
# most of whose bytes are in two matrices. More likely TCP carried less than the cable can, 77% of what RDMA
# did if the exchange alone sets the time of a step, and less if computation has its share: each byte is
# copied by a CPU that also feeds four GPUs. The column of bytes for each multiply-add also says why VGG-16
# suffers first: Horovod's documentation reports 90% efficiency on 512 GPUs for the two others, 68% for
# VGG-16.
#
# ## What was learned
#
# 1. A message costs $\alpha + n\beta$. Two numbers, fitted on some sizes, predict others, and all-reduces
#    that nobody has timed; where they do not, the network has something that two numbers do not describe.
# 2. Adding up on 512 ranks does not take 512 times as long because all of them send at once, chunk by
#    chunk: each sends $2\frac{p-1}{p}n$ bytes, the least that is possible.
# 3. Halving-doubling has $2\log_2 p$ latencies in place of $2(p-1)$, and far partners: where cables are
#    shared, the ring overtakes, at a size that a formula gives within a factor of two.
# 4. Bus bandwidth holds any all-reduce against the cable.
# 5. With 64 ranks most buffers of ResNet-50, and more than half of its bytes, are bound by latency if each
#    goes alone. Fusion pays the latency once, overlap hides what comes early; the last exchange stays.
#
# **Open questions.** (a) A switch can add numbers itself (SHARP): how many bytes does a rank send then, and
# what becomes of the bound? (b) Which of our algorithms survives one rank that is 10% slower, and which one
# suffers most? (c) Would you rather buy half the latency or twice the bandwidth, for ResNet-50 and for a
# model of 10 billion parameters?
#
# Assignment 06, *All-reduce*, asks for the ring and for halving-doubling for any $p$ and $n$, for a
# hierarchy that loses nothing, a fit of $\alpha$ and $\beta$, and the best fusion threshold. Next: **[07,
# data-parallel training](07_data_parallel_training.ipynb)**, which uses what we built. Before:
# **[03](03_from_lenet_to_resnet.ipynb)** on the network whose buffers these are.
#
# ## Further
#
# Nothing later in the course needs this. First the exercises beyond assignment 06:
#
# 1. Give `Network` an overhead, seconds that a message takes of its sender and receiver (LogP's $o$). Which
#    formulas change, and which algorithm gains?
# 2. Start the tree on a vector that is cut in four pieces, each on its way as soon as the one before has
#    left (use `isend`). Does a pipelined tree reach the ring's bandwidth? NCCL's double binary trees do.
# 3. What is the smallest change of `parameter_server` that makes it as fast as the ring? (Many servers,
#    each for a part of the vector.) Count messages at each link.
#
# ### Places on a torus
#
# TSUBAME, Cray and TPU machines wire nodes to neighbours on a torus. Then distance costs latency, too, and
# partners at distance 2, 4, … share links. The ring of 16 ranks on a one-dimensional torus, on a 4 × 4
# torus, and behind a switch, against halving-doubling:

# %%
size, rows = 1 << 22, {}
for name, network in {
    "switch": switch,
    "torus of 16": Torus(ETHERNET.latency, ETHERNET.time_per_byte, shape=(16,)),
    "torus of 4 × 4": Torus(ETHERNET.latency, ETHERNET.time_per_byte, shape=(4, 4)),
}.items():
    rows[name] = {
        f.__name__: bandwidth.allreduce_seconds(f, size, 16, network) * 1e3 for f in (ring, halving_doubling)
    }
display(pd.DataFrame(rows).T.rename_axis("4 MiB, time / ms").round(2))

# %% [markdown]
# On the long torus neighbours in the ring are neighbours in the machine, and it costs what it costs behind
# a switch; halving-doubling pays twice, by longer ways and by sharing them. On 4 × 4 the ring pays, too:
# with the ranks in this order every fourth message goes round a corner. In the order of a snake it would
# not: the order of the ranks is part of the algorithm, and Asai and Fukuda's open question about
# placement that knows the topology begins here.
#
# ### Sources
#
# - Hockney 1994, *The communication challenge for MPP*, Parallel Computing 20: $\alpha$ and $\beta$ ·
#   Culler et al. 1993, *LogP*
# - Patarasuk and Yuan 2009, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, J.
#   Parallel Distrib. Comput. 69: the bound and the ring
# - Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005, *Optimization of collective communication
#   operations in MPICH*, Int. J. High Perform. Comput. Appl. 19: halving-doubling
# - Goyal et al. 2017, [Accurate, large minibatch SGD](https://arxiv.org/abs/1706.02677) · Sergeev and Del
#   Balso 2018, [Horovod](https://arxiv.org/abs/1802.05799), and its documentation on tensor fusion,
#   timeline and benchmarks
# - NVIDIA, [nccl-tests,
#   PERFORMANCE.md](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)
# - Asai and Fukuda (PFN) on ChainerMN · Codreanu (SURFsara), the buffers and Gloo · Uenishi, *A few ways to
#   accelerate deep learning*
