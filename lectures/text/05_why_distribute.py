# %% [markdown]
# # 5 · Why distribute, and the first job
#
# **Sixteen GPUs, and the science takes 45% of the time it took. Who ate the rest?**
#
# A team at Cray forecasts rain from radar pictures (Rigazzi, *HPC and AI convergence*). Sixteen GPUs train
# their network 15.9 times as fast as one: hardly anybody does better. And yet from the first byte to the
# first forecast it takes 45.65% of what it took before. We aim at
#
# 1. saying what one training costs, in hours, FLOPs and joules;
# 2. **Amdahl's** and **Gustafson's** law, and asking before either of them *what* grows with p, and what is
#    counted;
# 3. measuring strong and weak scaling, and taking the efficiency apart into what is shared;
# 4. counting the bytes that data, model and pipeline parallelism send, and what network they need;
# 5. a first job, a sweep, and reading why a job does not start.
#
# Notation: $p$ ranks (processes, one on each GPU or core), $n$ images of one rank in a step, $N = pn$ of all;
# $T_p$ the time on $p$ ranks, *speed-up* $S = T_1/T_p$, *efficiency* $E = S/p$. Guess before you look.

# %% tags=["measured"]
from cluster.lecture import begin, compare, guess

palette = begin(tensorflow=False)

# %%
import json
import os
import pathlib
import sys
import time

os.environ["CLUSTER_RUNS"] = os.environ.get("CLUSTER_RUNS", "../runs")  # jobs of this lecture

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display

from cluster import jobs, submit
from cluster.jobs.errors import JobError
from cluster.lecture import cores
from cluster.network import Network, resnet50, simulate

# %% [markdown]
# ## 5.1 What does one training cost?
#
# Two slide decks give times of a *single* training: MLPerf's references of 2018 on one P100 (Uenishi), and
# four networks on one server with eight M40 (Codreanu). **Guess:** how often can one P100 train MLPerf's
# ResNet-50 in a year?

# %%
guess("trainings of ResNet-50 in a year")

P100_MINUTES = {"ResNet-50": 8831.3, "SSD": 827.7, "Mask R-CNN": 4999.5, "GNMT": 1134.5}
P100_MINUTES |= {"Transformer": 1869.8, "NCF": 46.7, "MiniGo": 4388.7}
M40_DAYS = {"ResNet-50": 2, "ResNet-101": 4, "ResNeXt-101-32x4d": 7, "IN5k-ResNeXt-101-64x4d": 14}
hours = {f"{name}, 1 P100": minutes / 60 for name, minutes in P100_MINUTES.items()}
hours |= {f"{name}, 8 M40": 24 * days for name, days in M40_DAYS.items()}
compare("trainings of ResNet-50 in a year", 365 * 24 / hours["ResNet-50, 1 P100"])

# %%
costs = pd.Series(hours).sort_values()
fig, ax = plt.subplots(figsize=(7.6, 3.9))
colors = [palette[1] if name.endswith("M40") else palette[0] for name in costs.index]
ax.barh(costs.index, costs, color=colors, hatch=["//" if c == palette[1] else "" for c in colors], ec="white")
for name, h in {"a coffee": 0.25, "a night": 10, "a week": 168}.items():
    ax.axvline(h, color="0.3", lw=1, ls=":", marker="")
    ax.text(h, len(costs) - 0.3, name, ha="center", va="bottom", fontsize=9)
ax.set(xscale="log", xlim=(0.1, 1000), xlabel="hours of one training")
plt.show()

# %% [markdown]
# *(Figure: eleven bars on a logarithmic axis of hours, NCF the shortest at less than one, MiniGo, Mask R-CNN
# and ResNet-50 on one P100 and three networks on eight M40 between three days and two weeks. Dotted lines
# mark a coffee, a night, a week.)*
#
# One training is one *experiment*. A learning rate is found with ten, a claim with error bars needs five of
# each (lecture 08). Is the slide's time plausible? ResNet-50's multiply-adds can be counted; a backward pass
# costs about two forward passes. The slide does not give the number of epochs; we assume the usual 90.

# %%
IMAGES, EPOCHS = 1_281_167, 90  # of ImageNet; epochs: our assumption
M40_PEAK, M40_WATT = 6.84e12, 250  # FLOP/s in single precision: 3,072 cores, 1.114 GHz, 2 FLOP; data sheet
RESNET = {"weights": sum(t.parameters for t in resnet50.tensors())}
RESNET["multiply-adds"] = sum(t.multiply_adds for t in resnet50.tensors())  # of one image, forward
training = 2 * 3 * RESNET["multiply-adds"] * IMAGES * EPOCHS  # FLOPs
share = training / (8 * M40_PEAK * M40_DAYS["ResNet-50"] * 86400)
print(f"one training of ResNet-50: {training / 1e18:.2f} ExaFLOP, {training:.2e} operations")
print(f"in two days on 8 M40: {share:.0%} of their peak")

# %% [markdown]
# Above the peak it would be impossible, at one percent suspicious: plausible, no more. Nobody waits two weeks
# twice, so one distributes. What can be gained?
#
# ## 5.2 Amdahl: what stays?
#
# The pipeline of the rain forecast on one GPU, and the samples a second on more of them, from the slides:

# %%
PIPELINE = {"download": 13, "Spark": 4, "training": 24, "inference": 10 / 3600}  # hours on one GPU
RATES = {1: 25.8, 2: 51.6, 4: 102.7, 8: 205.4, 16: 410.5}  # samples/s in training
whole = sum(PIPELINE.values())
serial = whole - PIPELINE["training"]
pipeline = pd.DataFrame({p: PIPELINE | {"training": 24 * RATES[1] / r} for p, r in RATES.items()})
pipeline["∞"] = PIPELINE | {"training": 0}
table = pd.DataFrame({"hours": pipeline.sum(), "speed-up": whole / pipeline.sum()})
table["share of T₁ / %"] = 100 / table["speed-up"]
table["training's efficiency"] = pd.Series({p: r / RATES[1] / p for p, r in RATES.items()})

# %% [markdown]
# **Guess** the speed-up of the whole pipeline with as many GPUs as you like.

# %%
guess("the whole pipeline, any number of GPUs", unit="×")
display(table.round(3))
compare("the whole pipeline, any number of GPUs", table.loc["∞", "speed-up"])
for name, part in {"the slide's 58%": 0.58, "24 of 41 hours": PIPELINE["training"] / whole}.items():
    left = part / (16 * 0.994) + 1 - part
    print(f"{name:15}: {left:.2%} of the time is left, {1 / left:.2f}×, at most {1 / (1 - part):.2f}×")

# %%
fig, ax = plt.subplots(figsize=(7.4, 3.8))
below = np.zeros(len(pipeline.columns))
for (name, row), hatch in zip(pipeline.drop("inference").iterrows(), ("", "//", ".."), strict=True):
    color = palette[{"training": 2, "Spark": 1}.get(name, 0)]
    ax.bar(range(len(below)), row, bottom=below, label=name, color=color, hatch=hatch, ec="white")
    below += row.to_numpy(float)
for i in range(len(below)):
    ax.text(i, below[i] + 0.6, f"{whole / below[i]:.2f}×", ha="center")
ax.set_xticks(range(len(below)), [f"{p} GPU{'s' * (p != 1)}" for p in pipeline.columns])
ax.set(ylabel="hours", ylim=(0, 46), title="The pipeline of the rain forecast")
ax.legend(loc="upper right")
plt.show()

# %% [markdown]
# *(Figure: six stacked bars of hours. Download and Spark, 17 hours, are the same in all; the training above
# them shrinks from 24 hours on one GPU to one and a half on sixteen and nothing at infinitely many. The
# speed-ups above the bars rise from 1 to 2.2 on sixteen GPUs and no further than 2.4.)*
#
# Download and Spark ate it. GPUs shorten what runs on GPUs; the rest stays, and with sixteen of them it is
# nearly all there is. With $s$ the share of $T_1$ that does not shrink (**Amdahl's law**, 1967),
#
# $$S(p) = \frac{1}{s + (1-s)/p} \;<\; \frac1s .$$
#
# (The slide rounds 58.5% to 58, so that its column adds up; this moves the limit by one percent.) The law
# tells where to work next: to halve the download gains more than any number of further GPUs, and so does
# downloading the next day *while* Spark and the network work on this one.
#
# ## 5.3 Gustafson: what grows?
#
# Nobody buys sixteen GPUs to do the same thing in less time for ever. One takes more data, more images in a
# step, a larger network. If on $p$ ranks the parallel part has grown $p$-fold in the same time, and $s'$ is
# the share of *that* time which is serial, then one rank would have needed $S$ times as long (**Gustafson's
# law**, 1988),
#
# $$S(p) = s' + (1 - s')\,p .$$
#
# Linear, without a limit! Try it: sixteen times the rain data on sixteen GPUs. **Guess** the speed-up, over
# the same on one GPU, (a) if the 17 hours stay, (b) if download and Spark grow with the data.

# %%
guess("16 times the data, the 17 hours stay", unit="×")
guess("16 times the data, everything grows", unit="×")

trained = 24 * 16 * RATES[1] / RATES[16]  # hours of training on 16 GPUs, 16 times the data
compare("16 times the data, the 17 hours stay", (serial + 24 * 16) / (serial + trained))
compare("16 times the data, everything grows", 16 * whole / (16 * serial + trained))

# %% [markdown]
# (b) is Amdahl's number again, to the last digit. The laws do not contradict each other; they answer
# different questions. Gustafson's holds if the serial part is *not* made longer by what makes the parallel
# part longer. A start-up is like that. A download is not.
#
# What is serial, then? Sometimes it depends on what one **counts**. KittiBox finds cars in pictures of
# streets (the same slides): 140,000 steps of 5 pictures on one GPU take 24.5 h, and beside them 3 h of
# validation, an evaluation every 2,000 steps. On $p$ GPUs a step has $p$ times as many pictures, so there
# are $p$ times fewer *steps*. Let the evaluations stay on one GPU, one every 2,000 steps, or one after as
# many *pictures* as before. **Guess** both speed-ups on 16 GPUs.

# %%
guess("KittiBox on 16 GPUs, evaluated by steps", unit="×")
guess("KittiBox on 16 GPUs, evaluated by pictures", unit="×")

KITTI = {1: (140_000, 24.5), 8: (17_500, 3.2), 16: (8_750, 1.62)}  # GPUs: steps, hours of training
each = 3 / (KITTI[1][0] // 2000)  # hours of an evaluation
numbers = {"by steps": [steps // 2000 for steps, _ in KITTI.values()], "by pictures": 3 * [70]}
spent = {
    name: [h + k * each for (_, h), k in zip(KITTI.values(), n, strict=True)] for name, n in numbers.items()
}
kitti = {name: dict(zip(KITTI, 27.5 / np.array(h), strict=True)) for name, h in spent.items()}
compare("KittiBox on 16 GPUs, evaluated by steps", kitti["by steps"][16])
compare("KittiBox on 16 GPUs, evaluated by pictures", kitti["by pictures"][16])

# %%
p = np.geomspace(1, 64, 200)
fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.8), sharey=True)
s = serial / whole
for ax in axes:
    ax.plot(p, p, color="0.6", lw=1, ls="-", marker="", label="ideal, $S = p$")
axes[0].plot(p, (serial + 24 * p) / whole, marker="", color=palette[2], label="17 h stay (Gustafson)")
axes[0].plot(p, 1 / (s + (1 - s) / p), ls="--", marker="", color=palette[0], label="same data (Amdahl)")
axes[0].plot(list(RATES), table["speed-up"][:-1].astype(float), "o", label="with the slide's rates")
s = 3 / 27.5
axes[1].plot(p, 1 / (s + (1 - s) / p), ls="--", marker="", color=palette[0], label="Amdahl, $s$ = 3/27.5")
for (name, speed), mark in zip(kitti.items(), "sD", strict=True):
    axes[1].plot(*zip(*speed.items(), strict=True), mark, label=f"evaluated {name}", color=palette[3])
for ax, title in zip(axes, ("Rain forecast", "KittiBox with its validation"), strict=True):
    ax.set(xscale="log", yscale="log", xticks=[1, 2, 4, 8, 16, 32, 64], xlabel="GPUs p", title=title)
    ax.set_yticks([1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 8, 16, 32, 64])
    ax.set_xticklabels(ax.get_xticks())
    ax.minorticks_off()
    ax.legend(loc="upper left")
axes[0].set_ylabel("speed-up S")
plt.show()

# %% [markdown]
# *(Figure: speed-up over GPUs, both axes logarithmic, with the diagonal. Left, rain: Gustafson's line leaves
# the diagonal and becomes parallel to it; Amdahl's bends and stays below 2.4, the points of the slide upon
# it. Right, KittiBox: evaluated by steps the points stay at the diagonal up to 16 GPUs, evaluated by
# pictures they follow Amdahl's curve, far below.)*
#
# Counted by steps, the serial part itself shrinks with $p$, and Amdahl has nothing to hold on to; nobody has
# made it faster, it is *done* less often. Which is right depends on what an evaluation is for: to stop early,
# by pictures; to watch over a run, by steps. (Lecture 07 puts it on all ranks, where it belongs.)
#
# ## 5.4 What does the second rank bring, here?
#
# **Strong scaling**: all ranks together have the same $N$ images in a step, each $N/p$. **Weak scaling**:
# each has $n$, together $pn$. We measure both with LeNet-5 (lecture 03), and beside it two simple things,
# each of which needs one part of the machine and nothing else: matrix products that fit into the cache of a
# core, and a sum of vectors that fit into no cache and come from memory. Between the ranks Horovod makes the
# mean of the gradients, an *all-reduce* (lectures 06 and 07): each rank gives its own and gets the mean of
# all.


# %%
def training_step(n, exchange):
    """A step of LeNet-5 with n images: a call; with the mean of the gradients over the ranks, or without."""
    import horovod.tensorflow as hvd
    import keras
    import tensorflow as tf

    from cluster.training import data, models

    x, y = data.fashion_mnist("train", n)
    net, optimizer = models.lenet5(activation="relu"), keras.optimizers.SGD(0.01)
    optimizer.build(net.trainable_variables)
    values = [v.value for v in net.trainable_variables]
    x, y = tf.constant(x), tf.constant(y)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x)))
        gradients = tape.gradient(loss, values)
        optimizer.apply(hvd.grouped_allreduce(gradients) if exchange else gradients, net.trainable_variables)

    return step


# %% [markdown]
# Each rank times its calls in turns: rank 0 **alone** while the others wait; all of them **apart**, each for
# itself; all **together**, with the exchange of gradients. One after the other in each turn, so that what
# disturbs the machine disturbs all.

# %%
WEAK, STRONG = 64, 256  # images of each rank; images of all ranks together
TURNS, CALLS = 9, 3
PRODUCTS = 50  # in a call: it must last longer than the turns in which processes share a core, milliseconds


# %%
def measure(p):
    """On each of p ranks: [{"what", "how", "turn", "ms"}], the milliseconds of a call."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    a, (x, y, z) = np.ones((192, 192), np.float32), np.ones((3, 8_000_000), np.float32)
    both = {"product in the cache": lambda: [a @ a for _ in range(PRODUCTS)]}
    both["sum from memory"] = lambda: np.add(x, y, out=z)
    plan = [(w, how, call) for w, call in both.items() for how in ("alone", "apart")]
    for n in sorted({WEAK, STRONG // p, STRONG}):
        silent = training_step(n, exchange=False)
        plan.append((n, "alone", silent))
        if n in (WEAK, STRONG // p):
            plan += [(n, "apart", silent), (n, "together", training_step(n, exchange=True))]
    rows = []
    for turn in range(TURNS + 1):
        for what, how, call in plan:
            hvd.allreduce(tf.constant(0.0), name="meet")  # all are here
            start, mine = time.perf_counter(), how != "alone" or hvd.rank() == 0
            for _ in range(CALLS * mine):
                call()
            if turn and mine:  # the first compiles
                rows.append((what, how, turn, 1000 * (time.perf_counter() - start) / CALLS))
    return [dict(zip(("what", "how", "turn", "ms"), row, strict=True)) for row in rows]


# %% [markdown]
# `submit` starts the function on $p$ ranks, here or on a cluster; 5.8 looks into it. **Guess** the
# efficiency of training on 2 ranks of this machine in weak scaling, and on 4 ranks in strong scaling.

# %% tags=["measured"]
guess("efficiency of 2 ranks, weak", unit="%")
guess("efficiency of 4 ranks, strong", unit="%")

measured = {}
for p in (1, 2, 4):
    job = submit(measure, p, ranks_per_node=p, name=f"scaling-{p}", time="00:30:00")
    measured[p] = pd.concat([pd.DataFrame(rows) for rows in job.results(progress=False)])


# %%
def factors(rows, p):
    """Efficiencies in each turn: {name: Series over turns}; the slower rank counts."""
    ms = rows.groupby(["what", "how", "turn"])["ms"].max().unstack("turn")
    found = {w: ms.loc[w, "alone"] / ms.loc[w, "apart"] for w in ("product in the cache", "sum from memory")}
    n = STRONG // p
    found["a smaller batch"] = ms.loc[STRONG, "alone"] / (p * ms.loc[n, "alone"])
    for name, size in {"weak": WEAK, "strong": n}.items():
        found[f"{name}: one machine"] = ms.loc[size, "alone"] / ms.loc[size, "apart"]
        found[f"{name}: exchange"] = ms.loc[size, "apart"] / ms.loc[size, "together"]
    found["weak"] = ms.loc[WEAK, "alone"] / ms.loc[WEAK, "together"]
    found["strong"] = ms.loc[STRONG, "alone"] / (p * ms.loc[n, "together"])
    return found


# %% tags=["measured"]
found = {p: factors(rows, p) for p, rows in measured.items()}
efficiency = pd.DataFrame({p: {k: 100 * v.median() for k, v in f.items()} for p, f in found.items()})
display(efficiency.round(0).rename_axis("efficiency in %, medians over the turns; ranks:"))
compare("efficiency of 2 ranks, weak", efficiency.loc["weak", 2])
compare("efficiency of 4 ranks, strong", efficiency.loc["strong", 4])


# %%
def draw_efficiency(ax, kind, names):
    """Bars of the medians of each factor and of their product, error bars over half of the turns."""
    for i, name in enumerate([*names, kind]):
        key = name if name in found[1] else f"{kind}: {name}"
        low, middle, high = 100 * np.transpose(
            [np.quantile(f[key], (0.25, 0.5, 0.75)) for f in found.values()]
        )
        look = {"ec": palette[i], "hatch": ["", "//", "..", "xx"][i], "color": "white"}
        look |= {"color": palette[i], "label": "all of it"} if name == kind else {"label": name}
        ax.bar(np.arange(3) + 0.2 * (i - 1.5), middle, 0.18, yerr=(middle - low, high - middle), **look)
    most = [100 * min(1, cores() / p) for p in found]
    ax.hlines(most, np.arange(3) - 0.42, np.arange(3) + 0.42, color="black", label="cores / ranks")
    ax.axhline(100, color="0.4", lw=0.8, ls="-", marker="")
    ax.set_xticks(range(3), [f"{p} rank{'s' * (p > 1)}" for p in found])
    ax.set(title=f"{kind} scaling", ylim=(0, 150))
    ax.legend(loc="upper right", ncols=2)


# %% tags=["measured"]
fig, axes = plt.subplots(1, 2, figsize=(9.4, 3.8), sharey=True)
draw_efficiency(axes[0], "weak", ["one machine", "exchange"])
draw_efficiency(axes[1], "strong", ["a smaller batch", "one machine", "exchange"])
axes[0].set_ylabel("efficiency / %")
plt.show()

# %% [markdown]
# *(Figure: bars of efficiency with error bars over the middle half of the turns, for 1, 2 and 4 ranks. Left,
# weak scaling: what is left by sharing one machine, by the exchange, and by both. Right, strong scaling, with
# a third factor, the smaller batch. Short black lines mark cores over ranks: 100% up to as many ranks as
# there are cores, and less beyond. On one rank only the exchange costs something.)*
#
# The efficiency is a *product*, and each factor has its own cause. The slowest rank counts, also apart: in a
# training all wait for it. (All of this on a quiet machine: see the load in the first line. On a busy one,
# rank 0 alone shares its core with strangers, and so much is lost already that four ranks hardly lose more: a
# bad baseline makes a good efficiency.)
#
# - **One rank** shares nothing and has nobody to wait for. How far its first bars are off 100% is the noise
#   of this measurement: no smaller difference between others means anything. Its exchange sends no byte; what
#   it costs is to ask for one, since Horovod's thread looks for work once in a millisecond.
# - **One machine** (alone over apart: no byte is exchanged). Two ranks share memory and the last cache; more
#   ranks than cores share cores, too, and then the black line is the most that can be had. The two simple
#   calls tell which it is: the product needs a core alone, the sum memory alone. Where the training loses
#   more than both, something else is shared, such as the last cache, or the machine is with strangers. (If
#   the product loses much on *two* ranks, the "two cores" are two threads of one.)
# - **A smaller batch.** A step on $N/p$ images takes more than a $p$-th of that on $N$: starting operations
#   costs the same for few images. Weak scaling does not pay this.
# - **The exchange** (apart over together) holds the all-reduce *and* waiting for the slowest rank in every
#   step. How many bytes is it?

# %% tags=["measured"]
WEIGHTS = 61_706  # of LeNet-5
for p in (2, 4):
    rows = measured[p].groupby(["what", "how"])["ms"].median()
    sent = 2 * (p - 1) / p * 4 * WEIGHTS
    extra = rows[WEAK, "together"] - rows[WEAK, "apart"]
    memory = {how: 3 * 4 * 8e6 / 1e6 / rows["sum from memory", how] for how in ("alone", "apart")}
    print(f"{p} ranks: {min(1, cores() / p):.1f} cores for each rank;", end=" ")
    print(f"memory {memory['alone']:.1f} GB/s alone, {memory['apart']:.1f} for each of {p};")
    print(f"    {sent / 1e3:.0f} kB sent by each rank in a step, which gets {extra:.1f} ms longer", end=" ")
    print(f"= {sent / 1e6 / max(extra, 1e-3):.2f} GB/s, were it bandwidth")

# %% [markdown]
# Far below what memory carries: it is not bandwidth. It is *latency*, agreeing on what is ready, and
# waiting: for the slowest, and for a core where there are fewer than ranks. Lecture 06 takes that apart. A
# GPU cluster shares neither cores nor memory between ranks: its "one machine" is near 100%, and the exchange
# goes through a network.
#
# ## 5.5 Three ways to cut a network
#
# ![Three drawings of four layers and four ranks. Data parallel: each rank has all four layers and its own
# images; arrows up and down between the ranks carry gradients of all weights. Model parallel: each layer is
# cut into four shares, one for each rank, and between the layers arrows carry activations from all to all.
# Pipeline: each rank has one whole layer, and arrows from rank to rank carry the activations at the
# cuts.](figures/05_parallelism.svg)
#
# What does each send? A float has 4 bytes. **Data parallel**: an all-reduce of the gradient; a ring (lecture
# 06) makes each rank send $2\frac{p-1}{p}\cdot 4W$ for a layer of $W$ weights, whatever $N$. **Model
# parallel**: rank $r$ has a share of the layer's outputs, and needs *all* inputs, of all $N$ images; each
# rank has a share of these, from the layer before. So forward an all-gather of the inputs, backward a sum of
# what each rank contributes to their gradient: $2\frac{p-1}{p}\cdot 4Na$ for $a$ inputs. The same formula,
# with $Na$ for $W$. Believe it? Here is a layer, cut over 4 ranks, with its messages counted:


# %%
def split_layer(comm, x, w, g):
    """One rank of a layer y = x w with x (N, a), w (a, b), g = dL/dy (N, b): its parts of y and dL/dx."""
    p, own = comm.size, comm.rank
    inputs, columns = np.split(x, p, axis=1), np.split(w, p, axis=1)[own]
    others = [((own + d) % p, (own - d) % p) for d in range(1, p)]
    shares = {own: inputs[own]}  # what the layer before has left here
    for dest, source in others:
        shares[source] = comm.sendreceive(inputs[own], dest, source)
    y = np.hstack([shares[rank] for rank in range(p)]) @ columns  # (N, b/p)
    contributions = np.split(np.split(g, p, axis=1)[own] @ columns.T, p, axis=1)  # (N, a/p) for each rank
    dx = contributions[own].copy()
    for dest, source in others:
        comm.add(dx, comm.sendreceive(contributions[dest], dest, source))
    return y, dx


# %%
rng = np.random.default_rng(5)
x, w, g = (rng.standard_normal(shape) for shape in ((8, 32), (32, 16), (8, 16)))  # N = 8, a = 32, b = 16
network = Network(latency=1e-6, time_per_byte=1e-9)
run = simulate(split_layer, x, w, g, ranks=4, network=network)
assert np.allclose(np.hstack([y for y, _ in run.results]), x @ w)
assert np.allclose(np.hstack([dx for _, dx in run.results]), g @ w.T)
by_hand = 2 * (4 - 1) / 4 * x.nbytes  # 8 bytes a number here
print(f"equal to the whole layer; rank 0 sent {run.counts[0].bytes_sent} bytes, by hand {by_hand:.0f}")

# %% [markdown]
# So a layer sends less when it is cut (model) than when it is copied (data) if $Na < W$. A fully connected
# layer has $W = ab$ weights: as long as there are fewer images than *outputs*, $N < b$. A convolution has
# $W = k^2CK$ and $a = CHW$: $N < k^2K/HW$. **Guess** $N$ for AlexNet's largest layer (fc6, 4,096 outputs) and
# for its fifth convolution (3×3, 256 filters on 13×13 pixels).

# %%
guess("images below which cutting fc6 sends less")
guess("images below which cutting conv5 sends less")

ALEXNET = pd.DataFrame(  # not split over two GPUs; weights without biases; inputs after pooling
    [
        ("conv1", 11 * 11 * 3 * 96, 227 * 227 * 3, 55 * 55),
        ("conv2", 5 * 5 * 96 * 256, 27 * 27 * 96, 27 * 27),
        ("conv3", 3 * 3 * 256 * 384, 13 * 13 * 256, 13 * 13),
        ("conv4", 3 * 3 * 384 * 384, 13 * 13 * 384, 13 * 13),
        ("conv5", 3 * 3 * 384 * 256, 13 * 13 * 384, 13 * 13),
        ("fc6", 9216 * 4096, 9216, 1),
        ("fc7", 4096 * 4096, 4096, 1),
        ("fc8", 4096 * 1000, 4096, 1),
    ],
    columns=["layer", "weights", "inputs", "uses"],
).set_index("layer")
ALEXNET["cut if N <"] = ALEXNET["weights"] / ALEXNET["inputs"]
for layer in ("fc6", "conv5"):
    compare(f"images below which cutting {layer} sends less", ALEXNET.loc[layer, "cut if N <"])


# %%
def sent(p, N, cut):
    """Bytes that each rank sends in a step of AlexNet, layer by layer; `cut`: layers that are model parallel.

    The first layer's inputs are images: every rank can read them, and nobody needs their gradient.
    """
    inputs = (N * ALEXNET["inputs"]).where(ALEXNET.index != "conv1", 0)
    floats = ALEXNET["weights"].where(~ALEXNET.index.isin(cut), inputs)
    return 2 * (p - 1) / p * 4 * floats


P, BATCH = 4, 4 * 128
dense = ["fc6", "fc7", "fc8"]
ways = {"data": [], "model": list(ALEXNET.index), "data, fc cut": dense}
bytes_sent = pd.DataFrame({name: sent(P, BATCH, cut) for name, cut in ways.items()})
table = pd.DataFrame({"MB a step": bytes_sent.sum() / 1e6})
STAGES = ["conv2", "conv3", "conv5"]  # where ranks 1, 2, 3 of a pipeline begin: work as even as layers allow
at_cut = 4 * BATCH * ALEXNET.loc[STAGES, "inputs"].to_numpy()  # activations one way, their gradients back
table.loc["pipeline, its busiest rank"] = max(at_cut[:-1] + at_cut[1:]) / 1e6
for gbit in (10, 100):
    table[f"ms at {gbit} Gbit/s"] = 8 * table["MB a step"] / gbit
display(table.round(1).rename_axis(f"AlexNet, p = {P}, N = {BATCH}: sent by each rank"))

# %%
fig, ax = plt.subplots(figsize=(7.4, 3.7))
for i, (name, hatch) in enumerate({"data": "", "model": "//"}.items()):
    look = {"color": "white", "ec": palette[i], "hatch": hatch, "label": f"{name} parallel"}
    ax.bar(np.arange(8) + 0.4 * i - 0.2, bytes_sent[name] / 1e6, 0.36, **look)
ax.set_xticks(range(8), ALEXNET.index)
ax.set(yscale="log", ylabel="MB sent by each rank in a step", ylim=(0.1, 1000))
ax.set_title(f"AlexNet on {P} ranks, {BATCH} images")
ax.legend(loc="upper left")
plt.show()

# %% [markdown]
# *(Figure: for each of AlexNet's eight layers two bars, logarithmic. For the first layer cutting sends
# nothing. In the other four convolutions data parallelism sends less, a few megabytes, where cutting would
# send up to two hundred. In fc6 and fc7 it is the reverse, by a factor of eight, in fc8 of two.)*
#
# Convolutions have few weights that are used at many pixels: copy them. Fully connected layers have many
# weights that are used once: cut them. To do both (Krizhevsky, *One weird trick*, 2014) sends a fifth of
# what data parallelism sends. ResNets have hardly any fully connected layer, so data parallelism is all they
# need, unless the model does not fit into a GPU's memory. A **pipeline** sends only what crosses its cuts,
# but that for all $N$ images: here less than copies of everything, more than the two together. (At conv5 |
# fc6 little crosses, and nearly all the work would lie on one side.) And it waits: with $m$ micro-batches on
# $p$ stages, $(p-1)/(m+p-1)$ of the time a stage has nothing to do, while the pipe fills and drains, even
# where all stages have the same work.
#
# ## 5.6 The machines of the slides
#
# Lecture 01's roofline, with the network in the place of memory: FLOPs for each byte that a *node* sends.
# Between nodes a data-parallel step sends about $2\cdot4W$ bytes from each node, for $6Mng$ FLOPs ($M$
# multiply-adds an image, $g$ GPUs in the node). At best both happen at once, so a node makes at most
#
# $$\min\left(\text{peak},\; \frac{6Mng}{8W} \times \text{bytes/s of its network}\right).$$

# %%
NODES = pd.DataFrame(  # GPUs of a node, TFLOPS of each, in which precision, Gbit/s of a node's network
    [
        ("Cartesius (K40m)", 2, 4.29, "single", 56),
        ("TSUBAME 2.5 (K20X)", 3, 3.95, "single", 80),
        ("Piz Daint (P100)", 1, 18.7, "half", 8 * 16 * 128 / 130),
        ("MN-1a (P100)", 8, 18.7, "half", 2 * 56),
        ("MN-1b (V100)", 8, 112, "mixed", 2 * 100),
        ("MN-2 (V100)", 8, 125, "mixed", 4 * 100),
        ("MN-3 (MN-Core)", 4, 524, "half", np.nan),
    ],
    columns=["node", "GPUs", "TFLOPS", "precision", "Gbit/s"],
).set_index("node")
NODES["peak"] = NODES["GPUs"] * NODES["TFLOPS"]
NODES["FLOP/byte at the ridge"] = 1000 * NODES["peak"] / (NODES["Gbit/s"] / 8)

# %% [markdown]
# **Guess**, in percent: eight V100 of an MN-1b node train AlexNet with 32 images each. How much of their peak
# can they keep, if nothing but the network is in their way?

# %%
guess("of MN-1b's peak, AlexNet can keep", unit="%")

ALEX = {"weights": ALEXNET["weights"].sum(), "multiply-adds": (ALEXNET["weights"] * ALEXNET["uses"]).sum()}
n = 32  # images on each GPU in a step
for name, net in {"ResNet-50": RESNET, "AlexNet": ALEX}.items():
    NODES[name] = 6 * net["multiply-adds"] * n * NODES["GPUs"] / (8 * net["weights"])  # FLOP/byte
    NODES[f"{name} / %"] = (100 * NODES[name] / NODES["FLOP/byte at the ridge"]).clip(upper=100)
shown = NODES.drop(columns=["TFLOPS", "precision"])
display(shown.style.format("{:,.0f}", na_rep="?").format("{:.4g}", subset="peak"))
compare("of MN-1b's peak, AlexNet can keep", NODES.loc["MN-1b (V100)", "AlexNet / %"])

# %% [markdown]
# Peaks are in TFLOPS; the two columns in percent say the same for each machine. Rates of networks are as
# printed on the slides, those of signals; data gets a few percent less. TSUBAME's two QDR InfiniBand cards
# are not on the slides, and neither is Piz Daint's network: its Aries sits behind 16 lanes of PCIe 3,
# which is the bound used here. Peaks of K40m and K20X are from data sheets. MN-3's network is not on the
# slide.

# %%
x = np.geomspace(50, 1e5, 200)
fig, ax = plt.subplots(figsize=(8.6, 5))
for i, (name, row) in enumerate(NODES.iterrows()):
    look = {"color": palette[i], "ls": ["-", "--", "-.", ":", "-", "--", "-."][i], "lw": 1.6}
    slope = row["Gbit/s"] / 8 / 1000  # TFLOPS for each FLOP/byte
    known = np.isfinite(slope)
    label = name + ("" if known else ", network unknown")
    ax.plot(x, np.fmin(row["peak"], slope * x), marker="", label=label, **look)
    for net, mark in {"ResNet-50": "o", "AlexNet": "s"}.items():
        if known:
            ax.plot(row[net], min(row["peak"], slope * row[net]), mark, color=palette[i], mec="black", ms=8)
ax.plot([], [], "o", color="white", mec="black", label=f"ResNet-50, {n} images on a GPU")
ax.plot([], [], "s", color="white", mec="black", label=f"AlexNet, {n} images on a GPU")
ax.set(xscale="log", yscale="log", xlabel="FLOPs for each byte that a node sends", xlim=(50, 1e5))
ax.set(ylabel="TFLOPS of a node, at most", ylim=(0.5, 4000))
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: seven rooflines of nodes, TFLOPS over FLOPs for each byte sent, both logarithmic. The first three
# machines have their corner near a thousand FLOPs a byte, MN-1a at ten thousand, MN-2 and MN-1b at twenty and
# more. ResNet-50's circles lie on the flat part or near it, AlexNet's squares on the slopes, but for
# TSUBAME's at its corner; Piz Daint's, with one GPU in a node, furthest left.)*
#
# From K40m to V100 a node became over a hundred times faster (and less precise), and its network seven
# times: the corner moves to the right. A network that scaled on the old machine need not scale on the new
# one, and not because it became worse. One GPU in a node (Piz Daint) sends as much as eight.
#
# **1.05 TFLOPS/W.** A watt is a joule a second, so MN-Core's 524 TFLOPS at 500 W are TFLOPs for each joule:
# energy for *computing*, with no account of time. What would a training of ResNet-50 take?

# %%
CHIPS = {"M40 (8 for two days, 250 W)": training / (8 * M40_WATT * M40_DAYS["ResNet-50"] * 86400)}
CHIPS |= {"P100 (18.7 TFLOPS, 250 W)": 18.7e12 / 250, "V100 (112 TFLOPS, 250 W)": 112e12 / 250}
CHIPS |= {"MN-Core (524 TFLOPS, 500 W)": 524e12 / 500}
for name, each in CHIPS.items():
    print(f"{name:28} {each / 1e12:6.3f} TFLOP/J, {1e12 / each:6.1f} pJ a FLOP:", end=" ")
    print(f"{training / each / 3.6e6:6.2f} kWh")

# %% [markdown]
# Only the first line is a training that took place (at the data sheet's watts); the others are peaks, which
# nobody reaches, of a chip without its memory, host, network and cooling. Nor do they count the same FLOPs:
# single precision above, half and mixed below. A number with a slash asks: of what, at what, doing what?
#
# ## 5.7 A tour of Slurm
#
# A cluster is shared. **Slurm** knows its nodes and *partitions* (groups of nodes with limits), and keeps a
# queue. What is shown here was recorded on a real Slurm with four small nodes on one machine, whose GPUs are
# pretended (`lectures/runs/05_slurm_tour.py`; `make slurm` starts one like it). What there is where *you*
# are, says `doctor`:

# %% tags=["measured"]
print(jobs.doctor())

# %%
tour = json.loads(pathlib.Path("runs/05_slurm_tour.json").read_text())


def show(name):
    """A recorded answer of Slurm's."""
    answer = tour["answers"][name]
    print(f"$ {answer['command']}\n{answer['output']}\n")


print(f"RECORDED on {tour['date']}, Slurm {tour['versions']['slurm']}, {tour['machine']['cpu']}\n")
show("sinfo")

# %% [markdown]
# A job says what it needs: nodes, tasks (our ranks), cores and GPUs for each, memory, and a time limit after
# which it is ended. Slurm looks for a place; until there is one, the job waits, with a *reason*. Two jobs
# fill this cluster; three more were submitted. **Predict** before you read the last column: for what does
# each of them wait, and which will start first?

# %%
show("squeue, full")

# %% [markdown]
# `R` runs, `PD` (pending) waits. *Resources*: the next to start, as soon as there is room. *Priority*: others
# are before it. *Dependency*: it waits for another job of ours, to evaluate what that has trained. Ask for
# less than you think, above all for less *time*: a short job slips into a gap that would stay empty until a
# long one fits in (*backfill*). Asked for too little, it is ended.
#
# ## 5.8 The first job, and a sweep
#
# What did `submit` do in 5.4? It stored the function with its arguments in a folder, the job, and started
# ranks which read it there. On a Slurm, `sbatch` gets a script and puts the job into the queue:

# %%
text = job.script(backend="slurm")
print(text.replace(str(job.folder), "JOB").replace(sys.prefix, "VENV"))

# %% [markdown]
# Lines with `#SBATCH` are the request; what follows runs on the first of the nodes, when they are granted.
# Only `srun` starts the ranks, `nodes × ntasks-per-node` of them. `--kill-on-bad-exit` ends all when one
# dies, since the others would wait for it in an all-reduce for ever. Memory is for a *node* here, so
# `submit`'s `memory`, for each rank, is multiplied. And a job whose ranks must not fight over cores says so:
# `cpus-per-task`, and as many threads. **Predict** what the first job of the record reports: on how many
# nodes are its four ranks, and how many cores may each of them use?

# %%
print(tour["first"]["command"])
display(pd.DataFrame(tour["first"]["results"]))

# %% [markdown]
# Two nodes, as requested. But each rank may use *both* cores of its node: this Slurm counts cores, and nails
# nobody to them. Others do (`TaskPlugin=task/affinity`, or cgroups). So the lines with `THREADS` are no
# decoration: without them two ranks of two threads each would fight over two cores. A request for memory, in
# contrast, is a fence nearly everywhere, and who crosses it is ended.
#
# A job's folder keeps code, arguments, versions, machine, log and result; submitted again it is not run
# again, but its record is given back.
#
# Whoever wants one learning rate out of five submits one job with five *items*. We train LeNet-5 for sixty
# steps with each. **Guess** which one is best, and which learn nothing.

# %%
LEARNING_RATES = [0.003, 0.03, 0.3, 3.0, 30.0]


def accuracy(rate, steps=60, batch=64):
    """Of LeNet-5 on 2,000 test images, after some steps of SGD."""
    import keras

    from cluster.training import data, models

    (x, y), test = data.fashion_mnist("train", steps * batch), data.fashion_mnist("test", 2000)
    net = models.lenet5(activation="relu")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.SGD(rate), loss, metrics=["accuracy"])
    net.fit(x, y, batch, verbose=0)
    value, hits = net.evaluate(*test, verbose=0)
    if not np.isfinite(value):
        raise FloatingPointError(f"rate {rate}: the loss is {value}")
    return {"accuracy": hits, "loss": value}


# %% tags=["measured"]
guess("best learning rate")

sweep = jobs.map(accuracy, LEARNING_RATES)
sweep.wait(progress=False)
display(sweep.table()[["rate", "status", "accuracy", "loss", "error"]])
best = max((r for r in sweep.results(failed=None) if r), key=lambda r: r["accuracy"])
compare("best learning rate", LEARNING_RATES[sweep.results(failed=None).index(best)])

# %% [markdown]
# The largest rates have learnt nothing: with ten classes an accuracy of 0.1 is chance. And yet they are
# *done*, unless their loss was no number: *done* says that the function returned, not that it is any good.
# An item that fails costs the others nothing; the same call again runs only those that failed. On a Slurm
# the five are one **array**: one script, one entry in the queue, one number for each task. In the record,
# an array of five that may run two tasks at a time:

# %%
print("\n".join(line for line in tour["sweep"]["script"].splitlines() if "array" in line or "exec" in line))
show("squeue, array")

# %% [markdown]
# The tasks that wait stand in one line, with their own reason: *JobArrayTaskLimit*, our `%2`. Where the work
# is many trainings, an array is the best parallelism there is: no exchange, and nobody waits before the end.
# Distribute *one* training only if you cannot wait for it, or it does not fit.
#
# ## 5.9 A job that can never run
#
# The cluster of the record has four nodes with two GPUs and 8 GiB each, and half an hour in the partition
# that one gets unasked. Four requests ask for too much: 99 GB of memory, 5 GPUs on a node, 5 nodes, 5 hours.
# **Guess:** how many of the four does Slurm refuse at once?

# %%
guess("impossible requests refused at once, of 4")

requests = [name for name in tour["answers"] if name.startswith("sbatch")]
for name in requests:
    show(name)
refused = [name for name in requests if "Submitted" not in tour["answers"][name]["output"]]
compare("impossible requests refused at once, of 4", len(refused))

# %% [markdown]
# What no node has is refused. What the *partition* does not offer is accepted: an administrator might raise
# its limits, or add a node. So you get a number, and the job looks like any other:

# %%
show("squeue, never")
show("scontrol, never")

# %% [markdown]
# It will wait until somebody cancels it. State and time tell nothing: `PENDING`, as others. The **reason**
# does. *Resources*, *Priority* and *JobArrayTaskLimit* pass; *PartitionNodeLimit*, *PartitionConfig*,
# *PartitionTimeLimit*, *AssocMax…* and *DependencyNeverSatisfied* do not (`python -m cluster states` lists
# all, with what to do). To read one, compare what the job asks for (`NumNodes`, `TimeLimit`) with its
# partition's line of `sinfo`. The course's `submit` compares before it submits, and `result` says it if
# Slurm finds out later:

# %%
for when in ("before", "after"):
    print(f"{tour['never'][when]['command']}\nCanNeverRun: {tour['never'][when]['error']}\n")

# %% [markdown]
# (For the same request Slurm has two names: look for what you *asked*, not for one word.) And here, now,
# wherever this notebook runs:

# %% tags=["measured"]
try:
    submit(accuracy, 0.1, nodes=100_000)
except JobError as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown]
# ## What was learned
#
# 1. A training costs hours to weeks, ExaFLOPs and kilowatt-hours, and a result needs many.
# 2. What is not distributed decides (Amdahl), unless it stays while the work grows (Gustafson). First ask
#    what grows, and how often the serial part is done: the same validation gives 15 or 6.
# 3. An efficiency is a product: smaller batch, shared machine, exchange. Each is measured against its own
#    baseline, beside the noise.
# 4. Data parallelism sends gradients of all weights, model parallelism inputs of $N$ images, a pipeline what
#    crosses its cuts. Peaks grew faster than networks.
# 5. A job is a request. A reason says whether waiting helps.
#
# **Open questions.** (a) With download and training overlapped, what is Amdahl's limit of the rain forecast?
# (b) For which $n$ does AlexNet reach MN-2's peak, and what does lecture 08 say of such a batch? (c) Which of
# the three factors of 5.4 would a second *machine* change, and which not?
#
# Assignment 05 asks for the right resources, for a sweep, for what six jobs died of, and for Amdahl's law
# fitted to measurements. Next: **[06, all-reduce](06_all_reduce.ipynb)**, what it costs, and **[07,
# data-parallel training](07_data_parallel_training.ipynb)**. Before: **[03](03_from_lenet_to_resnet.ipynb)**
# on the networks, **[01](01_convolution_as_gemm.ipynb)** on the roofline.
#
# ## Further
#
# 1. How much of the 17 hours can be hidden behind the training on 16 GPUs, at most? To how many hours must
#    they be shortened, hidden or not, for a speed-up of 8?
# 2. Repeat 5.4 with `models.small_resnet()`: which factor gets better, and why?
# 3. Add *sequence*: cut the images themselves (rows of pixels) over the ranks. What does a convolution with
#    kernel $k$ have to send?
#
# ### What became of the jobs
#
# What became of all jobs of the tour says `sacct`, Slurm's book of jobs that have ended:

# %%
show("sacct")

# %% [markdown]
# The array's tasks have a number each. The first two are the requests that were refused: a number was spent
# on them, too. Who was cancelled before it began has an elapsed time of zero; job 16, whose dependency was
# never met, is not listed.
#
# ### Sources
#
# - Amdahl 1967, *Validity of the single processor approach*; Gustafson 1988, *Reevaluating Amdahl's law*
# - Rigazzi, *HPC and AI convergence* (Cray): rain forecast, KittiBox, Piz Daint · Uenishi 2019, *A few ways
#   to accelerate deep learning*: MLPerf, MN-1 to MN-3 · Codreanu, *Introduction to high-performance machine
#   learning* (SURFsara): eight M40, Cartesius · Sato 2017: TSUBAME
# - Krizhevsky 2014, [One weird trick for parallelizing convolutional neural
#   networks](https://arxiv.org/abs/1404.5997) · Huang et al. 2019, [GPipe](https://arxiv.org/abs/1811.06965):
#   micro-batches
# - [Slurm: sbatch](https://slurm.schedmd.com/sbatch.html), [job
#   reasons](https://slurm.schedmd.com/job_reason_codes.html) · Alverson et al. 2012, *Cray XC series network*
