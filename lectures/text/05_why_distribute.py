# %% [markdown]
# # 5 · Why distribute, and the first job
#
# **On sixteen GPUs the training is 15.9 times as fast, and the forecast still takes 45% of the time.
# Why?**
#
# A team at Cray forecasts rain from radar images (Rigazzi 2018). On sixteen GPUs its training has an
# efficiency of 99.4%. Yet the time from the first byte of data to the first forecast is still 45% of what
# it was on one GPU.
#
# Why does AI need high-performance computing at all? Samples, data sets and networks grow, and the time
# of one training run decides how often you can retrain (Rigazzi 2018). What makes it hard is that
# training "has strict synchronisation requirements" and is "not embarrassingly parallel" (Codreanu
# 2018): ten runs with ten learning rates need not exchange anything, but *one* run on ten GPUs must
# combine ten gradients in every step. You will
#
# 1. express the cost of a training run in **GPU-hours** and in FLOPs;
# 2. ask two questions before you use **Amdahl's** or **Gustafson's** law: what grows, and what is
#    counted?
# 3. **measure** strong and weak scaling on this machine, and split the efficiency into factors;
# 4. compare **data, tensor and pipeline parallelism** by bytes sent and by memory, and see which
#    interconnects are fast enough;
# 5. submit a first job and a sweep, and read **why a job does not start**.
#
# Notation: $p$ ranks (processes, one per GPU or core); $n$ images per rank and step, $N = pn$ of all
# ranks (the *global batch size*); $T_p$ the time on $p$ ranks, *speed-up* $S = T_1/T_p$, *efficiency*
# $E = S/p$.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(tensorflow=False)

# %%
import json
import os
import pathlib
import sys
import time

os.environ["CLUSTER_RUNS"] = os.environ.get("CLUSTER_RUNS", "../runs")  # jobs, here

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display

from cluster import doctor, jobs, submit
from cluster.lecture import cores
from cluster.network import Network, resnet50, simulate

# %% [markdown]
# ## 5.1 What does one training run cost?
#
# One GPU used for one hour costs one **GPU-hour**. MLPerf's reference times of 2018 are for one P100
# (Uenishi 2019); Codreanu (2018) gives days on a server with eight M40 GPUs. Llama 3.1 8B took 1.46
# million H100-hours, and 405B 30.84 million (model card). **Guess**: how often can one P100 train
# ResNet-50 in a year?

# %%
guess("training runs of ResNet-50 in a year")
P100_MINUTES = {"ResNet-50": 8831.3, "SSD": 827.7, "Mask R-CNN": 4999.5, "NCF": 46.7}
P100_MINUTES |= {"GNMT": 1134.5, "Transformer": 1869.8, "MiniGo": 4388.7}
M40_DAYS = {"ResNet-50": 2, "ResNet-101": 4, "ResNeXt-101": 7, "IN5k-ResNeXt-101": 14}
H100_HOURS = {"Llama 3.1 8B": 1.46e6, "Llama 3.1 405B": 30.84e6}
hours = {"P100": pd.Series(P100_MINUTES) / 60, "M40": 8 * 24 * pd.Series(M40_DAYS)}
costs = pd.concat(hours | {"H100": pd.Series(H100_HOURS)}).sort_values()
YEAR = 365 * 24  # hours
compare("training runs of ResNet-50 in a year", YEAR / costs["P100", "ResNet-50"])
years = costs["H100", "Llama 3.1 405B"] / YEAR
print(f"Llama 3.1 405B on one H100: {years:,.0f} years")

# %%
fig, ax = plt.subplots(figsize=(8.2, 4.3))
names = np.array([f"{name} ({gpu})" for gpu, name in costs.index])
ax.barh(names, costs, color="white")  # fixes their order
for i, (gpu, hatch) in enumerate({"P100": "", "M40": "//", "H100": ".."}.items()):
    here = costs.index.get_level_values(0) == gpu
    look = {"color": "white", "ec": palette[i], "hatch": hatch}
    ax.barh(names[here], costs[here], label=gpu, **look)
ax.set(xscale="log", xlim=(0.3, 1e8), xlabel="GPU-hours of one training run")
ax.legend(loc="lower right", title="GPU")
plt.show()
claim("more than seven decades", costs.iloc[-1] / costs.iloc[0] > 1e7)
months = 50 * costs["P100", "ResNet-50"] / (YEAR / 12)
claim("ten months", 9.5 < months < 10.5)
claim("3,500 years on a single GPU", 3450 < years < 3550)

# %% [markdown]
# *(Figure: thirteen bars of GPU-hours on a logarithmic axis, by GPU. NCF on a P100 takes less than one
# GPU-hour, ResNet-50 on a P100 147, the largest ResNeXt on M40 GPUs 2,700, Llama 3.1 405B on H100 GPUs
# 31 million.)*
#
# The bars span more than seven decades. One P100 trains ResNet-50 in six days, but fifty such runs (ten
# learning rates, five seeds) take ten months. The largest run would take 3,500 years on a single GPU.
# Hours of different GPUs are different units; FLOPs are not. Is the slide's time plausible? A backward
# pass costs about two forward passes. The slide gives no number of epochs; we assume 90.

# %%
IMAGES, EPOCHS = 1_281_167, 90  # of ImageNet; epochs: our assumption
M40_PEAK, M40_WATT = 6.84e12, 250  # 3,072 cores × 1.114 GHz × 2 FLOPs
RESNET = {"weights": sum(t.parameters for t in resnet50.tensors())}
RESNET["multiply-adds"] = sum(t.multiply_adds for t in resnet50.tensors())  # forward
training = 2 * 3 * RESNET["multiply-adds"] * IMAGES * EPOCHS  # FLOPs
mfu = training / (8 * M40_PEAK * M40_DAYS["ResNet-50"] * 86400)
llama = 3.8e25 / 989e12 / 3600 / H100_HOURS["Llama 3.1 405B"]  # FLOPs, FLOP/s
print(f"{training:.2e} FLOPs; MFU: eight M40 {mfu:.0%}, Llama 3.1 405B {llama:.0%}")
claim("plausible fractions of the peak", 0.1 < mfu < 0.6 and 0.1 < llama < 0.6)

# %% [markdown]
# These are plausible fractions of the peak, called **model FLOPs utilisation** (MFU). For running steps
# Llama's paper reports 38% to 43%; the GPU-hours may include more.
#
# ## 5.2 Amdahl: what does not shrink?
#
# Let $s$ be the fraction of $T_1$ that stays as it is on $p$ ranks. **Amdahl's law** (1967) says
#
# $$S(p) = \frac{T_1}{T_p} = \frac{1}{s + (1-s)/p} \;<\; \frac1s .$$
#
# Rigazzi's pipeline on one GPU: 13 hours of download, 4 of preparation with Spark, 24 of training and 10
# seconds of inference. **Guess** the speed-up of the whole pipeline with any number of GPUs.

# %%
guess("the whole pipeline, any number of GPUs", unit="×")
PIPELINE = {"download": 13, "Spark": 4, "training": 24, "inference": 10 / 3600}  # hours
RATES = {1: 25.8, 2: 51.6, 4: 102.7, 8: 205.4, 16: 410.5}  # samples/s on p GPUs
whole = sum(PIPELINE.values())
serial = whole - PIPELINE["training"]
columns = {p: PIPELINE | {"training": 24 * RATES[1] / r} for p, r in RATES.items()}
pipeline = pd.DataFrame(columns | {"∞": PIPELINE | {"training": 0}})
table = pd.DataFrame({"hours": pipeline.sum(), "speed-up": whole / pipeline.sum()})
display(table.round(2).rename_axis("GPUs"))
compare("the whole pipeline, any number of GPUs", table.loc["∞", "speed-up"])

# %%
look = {"stacked": True, "rot": 0, "color": "white", "figsize": (7.4, 3.8)}
ax = pipeline.drop("inference").T.plot.bar(**look)
for bars, hatch, color in zip(ax.containers, ("", "//", ".."), palette, strict=False):
    plt.setp(bars, hatch=hatch, edgecolor=color)
ax.bar_label(ax.containers[-1], [f"{speed:.2f}×" for speed in table["speed-up"]])
ax.set(xlabel="GPUs", ylabel="hours", ylim=(0, 46))
ax.legend(loc="upper right")
plt.show()
left = serial / pipeline[16].sum()
claim("nine tenths of what is left on sixteen GPUs", 0.88 < left < 0.93)
gained = pipeline[16].sum() - pipeline["∞"].sum()
claim("more than any further GPUs", PIPELINE["download"] / 2 > gained)

# %% [markdown]
# *(Figure: six stacked bars of hours on 1, 2, 4, 8, 16 and infinitely many GPUs. Download and Spark, 17
# hours, are the same in all; training shrinks from 24 hours to one and a half on sixteen, and to nothing.
# The speed-up above the bars rises from 1 to 2.22 on sixteen, and ends at 2.41.)*
#
# This answers our question: download and Spark are nine tenths of what is left on sixteen GPUs. The law
# also tells what to improve next: halving the download saves more than any further GPUs, and so does
# downloading the next day's data *while* this day's is used.
#
# **A rate is not a result.** The slide counts samples per second. With 4 samples per GPU, sixteen GPUs
# update the weights after every 64 samples. If such a run needs more epochs for the same accuracy, its
# *time to accuracy* gains less than 15.9×; how much less depends on the workload (Shallue et al. 2019).
# Lecture 08 measures it.
#
# ## 5.3 Gustafson: what grows?
#
# Often more GPUs are bought to do *more*: more data, larger networks. Let the parallel part grow
# $p$-fold, and let $s'$ be the serial fraction of the time on $p$ ranks. One rank would take $S$ times
# as long (**Gustafson's law**, 1988):
#
# $$S(p) = s' + (1 - s')\,p .$$
#
# This has no limit. Take sixteen times the rain data on sixteen GPUs. **Guess** the speed-up over one
# GPU with the same data if the 17 hours of download and Spark (a) stay the same, (b) grow with the
# data.

# %%
guess("16 times the data, the 17 hours stay", unit="×")
guess("16 times the data, everything grows", unit="×")
trained = 24 * 16 * RATES[1] / RATES[16]  # hours on 16 GPUs, 16 times the data
stay = (serial + 24 * 16) / (serial + trained)
grow = 16 * whole / (16 * serial + trained)
compare("16 times the data, the 17 hours stay", stay)
compare("16 times the data, everything grows", grow)
claim("the second answer is Amdahl's again", np.isclose(grow, table.iloc[4, 1]))

# %% [markdown]
# The second answer is Amdahl's again, to the last digit. The laws do not contradict each other:
# Gustafson's holds if whatever enlarges the parallel part does not enlarge the serial part. A start-up
# time stays the same; a download grows.

# %%
fig, ax = plt.subplots(figsize=(6.8, 4.2))
p, s, ticks = np.geomspace(1, 64, 200), serial / whole, [1, 2, 4, 8, 16, 32, 64]
ax.plot(p, p, "-", color="0.6", marker="", label="ideal, $S = p$")
ax.plot(p, (serial + 24 * p) / whole, "-", marker="", label="17 h stay (Gustafson)")
amdahl = 1 / (s + (1 - s) / p)
ax.plot(p, amdahl, "--", marker="", label="the same data (Amdahl)")
ax.plot(list(RATES), table["speed-up"][:-1].astype(float), "o", label="slide's rates")
ax.set(xscale="log", yscale="log", xlabel="GPUs $p$", ylabel="speed-up $S$")
ax.set_xticks(ticks, ticks), ax.set_yticks(ticks, ticks), ax.minorticks_off()
ax.legend(loc="upper left")
plt.show()

# %% [markdown]
# *(Figure: speed-up of the rain forecast over GPUs, both axes logarithmic. Gustafson's curve becomes
# parallel to the diagonal; Amdahl's bends and stays below 2.41, with the slide's rates on it.)*
#
# What is serial may depend on what you **count**. KittiBox detects cars (Rigazzi 2018). On one GPU,
# 140,000 steps of 5 images take 24.5 h, and 3 h more go into a validation after every 2,000 steps. On $p$
# GPUs a step processes $p$ times as many images, so there are $p$ times fewer steps. Validation stays on
# one GPU, either after every 2,000 *steps* or after as many *images* as before. **Guess** the second
# speed-up on 16 GPUs.

# %%
guess("KittiBox on 16 GPUs, validated by images", unit="×")
KITTI = {1: (140_000, 24.5), 8: (17_500, 3.2), 16: (8_750, 1.62)}  # steps, hours
each = 3 / (KITTI[1][0] // 2000)  # hours of one validation
numbers = {"by steps": [steps // 2000 for steps, _ in KITTI.values()]}
numbers["by images"] = 3 * [70]
kitti = {}
for name, n in numbers.items():
    spent = [h + k * each for (_, h), k in zip(KITTI.values(), n, strict=True)]
    kitti[name] = dict(zip(KITTI, 27.5 / np.array(spent), strict=True))
display(pd.DataFrame(kitti).round(2).rename_axis("GPUs"))
compare("KittiBox on 16 GPUs, validated by images", kitti["by images"][16])
twice = kitti["by steps"][16] > 2 * kitti["by images"][16]
claim("more than twice the speed-up of the other", twice)

# %% [markdown]
# Counting by steps gives more than twice the speed-up of the other count. Nothing became faster:
# validation is done less often.
#
# ## 5.4 What does a second rank gain, here?
#
# **Strong scaling**: all ranks share the same $N$ images per step. **Weak scaling**: each rank has $n$,
# all have $pn$. We measure both for LeNet-5 (lecture 03), and time the sum of two long vectors, which
# needs only memory bandwidth. Horovod averages the gradients of the ranks by an *all-reduce*: each rank
# contributes its gradient and receives the mean (lectures 06 and 07).


# %%
def training_step(n, exchange):
    """A step of LeNet-5 with n images; with or without the all-reduce of gradients."""
    import horovod.tensorflow as hvd
    import keras
    import tensorflow as tf

    from cluster.training import data, models

    x, y = map(tf.constant, data.fashion_mnist("train", n))
    net, optimizer = models.lenet5(activation="relu"), keras.optimizers.SGD(0.01)
    weights = net.trainable_variables
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(weights)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(x))
        gradients = tape.gradient(loss, [v.value for v in weights])
        if exchange:
            gradients = hvd.grouped_allreduce(gradients)
        optimizer.apply(gradients, weights)

    return step


# %% [markdown]
# Each turn times every operation in three ways: rank 0 **alone** while the others wait; all ranks
# **apart**, without communication; all **together**, with the all-reduce. Comparing within a turn cancels
# slow changes of the machine.

# %%
WEAK, STRONG, TURNS, CALLS = 64, 256, 9, 3  # WEAK images per rank, STRONG of all
HOW, QUARTERS = ("alone", "apart", "together"), (0.25, 0.5, 0.75)


def plan(p):
    """[(what, how, call)]: what each of p ranks times in a turn."""
    x, y, z = np.ones((3, 8_000_000), "f4")
    calls = [("memory", how, lambda: np.add(x, y, out=z)) for how in ("alone", "apart")]
    for n in sorted({WEAK, STRONG // p, STRONG}):
        silent = training_step(n, exchange=False)
        calls.append((n, "alone", silent))
        if n in (WEAK, STRONG // p):
            calls.append((n, "apart", silent))
            calls.append((n, "together", training_step(n, exchange=True)))
    return calls


# %%
def measure(p):
    """On each of p ranks: {"what", "how", "turn", "ms"} of each call, as a list."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    calls, rows = plan(p), []
    for turn in range(TURNS + 1):
        for what, how, call in calls:
            hvd.allreduce(tf.constant(0.0), name="meet")  # all ranks are here
            start, mine = time.perf_counter(), how != "alone" or hvd.rank() == 0
            for _ in range(CALLS * mine):
                call()
            if turn and mine:  # the first turn compiles
                ms = 1000 * (time.perf_counter() - start) / CALLS
                rows.append({"what": what, "how": how, "turn": turn, "ms": ms})
    return rows


# %% [markdown]
# `submit` starts the function on $p$ ranks (5.8). **Guess** the efficiency of 2 ranks in weak scaling
# and of 4 ranks in strong scaling on this machine.

# %% tags=["measured"]
guess("efficiency of 2 ranks, weak", unit="%")
guess("efficiency of 4 ranks, strong", unit="%")
measured = {}
for p in (1, 2, 4):
    job = submit(measure, p, ranks_per_node=p, name=f"scaling-{p}", time="00:30:00")
    measured[p] = pd.concat(map(pd.DataFrame, job.results(progress=False)))


# %%
def factors(rows, p):
    """Efficiencies of each turn: {name: Series over turns}; the slowest rank counts."""
    ms = rows.groupby(["what", "how", "turn"])["ms"].max().unstack("turn")
    n = STRONG // p
    memory = ms.loc["memory"]
    found = {"memory": memory.loc["alone"] / memory.loc["apart"]}
    batch = ms.loc[STRONG, "alone"] / (p * ms.loc[n, "alone"])
    found["strong: a smaller batch"] = batch
    for name, size, first in (("weak", WEAK, 1), ("strong", n, batch)):
        alone, apart, together = (ms.loc[size, how] for how in HOW)
        found[f"{name}: one machine"] = alone / apart
        found[f"{name}: exchange"] = apart / together
        found[f"{name}: all factors"] = first * alone / together
    return found


def loses(name, p):
    """Is a factor below 100% in at least eight of nine turns (by chance: 1 in 51)?"""
    return (found[p][name] < 1).sum() >= 8


# %% tags=["measured"]
found = {p: factors(rows, p) for p, rows in measured.items()}
medians = {p: {k: 100 * v.median() for k, v in f.items()} for p, f in found.items()}
efficiency = pd.DataFrame(medians)
display(efficiency.round(0).rename_axis("efficiency, %; ranks:"))
compare("efficiency of 2 ranks, weak", efficiency.loc["weak: all factors", 2])
compare("efficiency of 4 ranks, strong", efficiency.loc["strong: all factors", 4])
claim("two ranks share memory bandwidth", loses("memory", 2))
claim("four ranks lose by sharing the machine", loses("weak: one machine", 4))
claim("and by the exchange", loses("weak: exchange", 4))


# %% tags=["measured"]
def draw_efficiency(ax, kind, names):
    """Bars of the medians of each factor and of all; lines: half of the turns."""
    for i, name in enumerate([*names, "all factors"], 3 - len(names)):
        turns = [f[f"{kind}: {name}"].quantile(QUARTERS) for f in found.values()]
        low, middle, high = 100 * np.transpose(turns)
        look = {"ec": palette[i], "hatch": ["", "//", "..", "xx"][i], "color": "white"}
        bars, error = np.arange(3) + 0.2 * (i - 1.5), (middle - low, high - middle)
        ax.bar(bars, middle, 0.18, yerr=error, label=name, **look)
    most = [100 * min(1, cores() / p) for p in found]
    ax.hlines(most, [-0.4, 0.6, 1.6], [0.4, 1.4, 2.4], "black", label="cores / ranks")
    ax.set_xticks(range(3), [f"{p} rank{'s' * (p > 1)}" for p in found])
    ax.set(title=f"{kind} scaling", ylim=(0, 150), ylabel="efficiency, %")
    ax.legend(loc="upper right", ncols=2, fontsize=9)


fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
draw_efficiency(axes[0], "weak", ["one machine", "exchange"])
draw_efficiency(axes[1], "strong", ["a smaller batch", "one machine", "exchange"])
plt.show()

# %% [markdown]
# *(Figure: bars of efficiency for 1, 2 and 4 ranks, with lines over the middle half of the turns. Left,
# weak scaling: the factors "one machine" and "exchange", and their product. Right, strong scaling, with a
# third factor, "a smaller batch". Short black lines mark cores divided by ranks: 100% up to as many ranks
# as there are cores, less beyond.)*
#
# In each turn the efficiency is the *product* of its factors, each with its own cause:
#
# - **One machine** (alone / apart): nothing is sent, yet four ranks lose by sharing the machine. Two
#   ranks share memory bandwidth. With more ranks than cores they share cores, too; then the black line
#   limits this factor and the product.
# - **A smaller batch** (strong scaling only): starting operations takes as long for few images as for
#   many. But few may fit into a cache.
# - **The exchange** (apart / together): four ranks lose by waiting for the slowest rank and by the
#   exchange itself. One rank sends nothing, but still asks Horovod's thread, which looks for work once
#   per millisecond.
#
# How many bytes does the exchange send?

# %% tags=["measured"]
for p in (2, 4):
    rows = measured[p].groupby(["what", "how"])["ms"].median()
    sent_bytes = 2 * (p - 1) / p * 4 * 61_706  # LeNet-5's weights
    extra = max(rows[WEAK, "together"] - rows[WEAK, "apart"], 1e-3)  # ms
    memory = 3 * 4 * 8e6 / 1e6 / rows["memory", "apart"]
    speed = sent_bytes / 1e6 / extra  # GB/s
    print(f"{p} ranks: {sent_bytes / 1e3:.0f} kB sent by each,", end=" ")
    print(f"in {extra:.1f} ms: {speed:.2f} GB/s; memory: {memory:.1f} GB/s")
claim("less than a tenth of what memory carries", speed < memory / 10)

# %% [markdown]
# If all the extra time were spent on sending these bytes, they would move at less than a tenth of what
# memory carries. So bandwidth is not the cause. Most of it is a cost per exchange: agreeing on what is
# ready, waiting, copying, and sharing cores (lecture 06).
#
# On a GPU cluster ranks do not share a GPU, but those of one node share host cores (which decode the
# images), host memory, PCIe, the network adapter and the file system.
#
# ## 5.5 Three ways to divide a network
#
# ![Three drawings of four layers and four ranks. Data parallel: each rank has all four layers and its own
# images; arrows up and down between the ranks carry gradients of all weights. Model parallel: each layer
# is cut into four shares, one for each rank, and between the layers arrows carry activations from all to
# all. Pipeline: each rank has one whole layer, and arrows from rank to rank carry the activations at the
# cuts.](figures/05_parallelism.svg)
#
# What does each rank send in a step, in float32 (4 bytes)?
#
# - **Data parallel**: an all-reduce of the gradients. With a ring (lecture 06) a layer of $W$ weights
#   costs $2\frac{p-1}{p}\cdot 4W$ bytes, whatever $N$ is.
# - **Tensor parallel**: each rank has a share of a layer's outputs and processes all $N$ images. It
#   needs all $a$ inputs of each image. This takes an *all-gather* forward (each rank gets all parts)
#   and a *reduce-scatter* of gradients backward (each gets a part of the sum), together
#   $2\frac{p-1}{p}\cdot 4Na$.
# - **Pipeline**: each rank has whole layers and sends what crosses its cuts: activations forward, their
#   gradients backward.
#
# Two layers can be divided as a pair (Shoeybi et al. 2019, *Megatron-LM*). The first is divided by
# columns, so each rank has a share of the hidden values; the second by rows, and needs only that share.
# Nothing is sent between them. The forward pass ends with one all-reduce of the outputs, the backward
# pass with one of the inputs' gradients.


# %%
def allreduce(comm, x):
    """The sum of x over all ranks: a reduce-scatter of its rows, then an all-gather."""
    p, own = comm.size, comm.rank
    rows = np.split(x, p)
    others = [((own + d) % p, (own - d) % p) for d in range(1, p)]
    total = rows[own].copy()
    for dest, source in others:
        comm.add(total, comm.sendreceive(rows[dest], dest, source))
    sums = {own: total}
    for dest, source in others:
        sums[source] = comm.sendreceive(total, dest, source)
    return np.vstack([sums[rank] for rank in range(p)])


def split_pair(comm, x, w1, w2, g):
    """One rank of y = relu(x w1) w2, with g = dL/dy: y and dL/dx, complete."""
    columns = np.split(w1, comm.size, axis=1)[comm.rank]
    rows = np.split(w2, comm.size)[comm.rank]
    h = x @ columns  # a share of the hidden values
    y = allreduce(comm, np.maximum(h, 0) @ rows)
    return y, allreduce(comm, (g @ rows.T * (h > 0)) @ columns.T)


# %%
rng = np.random.default_rng(5)
shapes = (8, 32), (32, 64), (64, 16), (8, 16)  # N = 8, a = 32, 64 hidden, b = 16
x, w1, w2, g = map(rng.standard_normal, shapes)
run = simulate(split_pair, x, w1, w2, g, ranks=4, network=Network(1e-6, 1e-9))
hidden = x @ w1
for y, dx in run.results:
    assert np.allclose(y, np.maximum(hidden, 0) @ w2)
    assert np.allclose(dx, (g @ w2.T * (hidden > 0)) @ w1.T)
by_hand = 2 * (4 - 1) / 4 * 8 * (32 + 16) * 8  # 8 images, 8 bytes per number
print(f"rank 0 sent {run.counts[0].bytes_sent} bytes, by hand {by_hand:.0f}")
claim("the bytes are those of the formula", run.counts[0].bytes_sent == by_hand)

# %% [markdown]
# All four ranks have the complete result, and the bytes are those of the formula: $2(p-1)/p$ times the
# bytes of inputs and outputs, however wide the hidden layer is.
#
# When does dividing a layer send less than copying it? If $Na < W$; in a fully connected layer, if
# there are fewer images than outputs. **Guess** this $N$ for AlexNet's largest layer, fc6.

# %%
guess("images below which dividing fc6 sends less")
ALEXNET = pd.DataFrame(  # one GPU; weights without biases; inputs after pooling
    {
        "conv1": (11 * 11 * 3 * 96, 227 * 227 * 3, 55 * 55),
        "conv2": (5 * 5 * 96 * 256, 27 * 27 * 96, 27 * 27),
        "conv3": (3 * 3 * 256 * 384, 13 * 13 * 256, 13 * 13),
        "conv4": (3 * 3 * 384 * 384, 13 * 13 * 384, 13 * 13),
        "conv5": (3 * 3 * 384 * 256, 13 * 13 * 384, 13 * 13),
        "fc6": (9216 * 4096, 9216, 1),
        "fc7": (4096 * 4096, 4096, 1),
        "fc8": (4096 * 1000, 4096, 1),
    },
    index=["weights", "inputs", "uses"],
).T
ALEXNET["cut if N <"] = ALEXNET["weights"] / ALEXNET["inputs"]
compare("images below which dividing fc6 sends less", ALEXNET.loc["fc6", "cut if N <"])


# %%
def sent(p, N, cut):
    """Bytes sent by each rank per step, by layer; images are read, not sent."""
    inputs = (N * ALEXNET["inputs"]).where(ALEXNET.index != "conv1", 0)
    floats = ALEXNET["weights"].where(~ALEXNET.index.isin(cut), inputs)
    return 2 * (p - 1) / p * 4 * floats


P, BATCH = 4, 4 * 128
dense = list(ALEXNET.index[5:])
ways = {"data": [], "tensor": list(ALEXNET.index), "data, fc tensor": dense}
bytes_sent = pd.DataFrame({name: sent(P, BATCH, cut) for name, cut in ways.items()})
table = pd.DataFrame({"MB per step": bytes_sent.sum() / 1e6})
display(table.round(0).rename_axis(f"AlexNet, p = {P}, N = {BATCH}"))

# %%
look = {"logy": True, "rot": 0, "color": "white", "figsize": (7.6, 3.8)}
ax = (bytes_sent[["data", "tensor"]] / 1e6).plot.bar(**look)
for bars, hatch, color in zip(ax.containers, ("", "//"), palette, strict=False):
    plt.setp(bars, hatch=hatch, edgecolor=color)
ax.set(xlabel="", ylabel="MB sent by each rank per step", ylim=(0.1, 1000))
ax.legend(loc="upper left", title="parallel by")
plt.show()
data, tensor, mixed = table["MB per step"]
less = bytes_sent["data"] < bytes_sent["tensor"]
claim("data parallelism sends less in the other four convolutions", less[1:5].all())
claim("more in the fully connected layers", not less[5:].any())
claim("a fifth of what data parallelism sends", 0.18 < mixed / data < 0.22)

# %% [markdown]
# *(Figure: two bars per layer of AlexNet, MB on a logarithmic axis. For conv1 tensor parallelism sends
# nothing. For conv2 to conv5 data parallelism sends a few megabytes, tensor parallelism 100 to 220. For
# fc6, fc7 and fc8 the order is reversed.)*
#
# The first convolution reads images. Data parallelism sends less in the other four convolutions, and
# more in the fully connected layers. Using the cheaper of the two in each part (Krizhevsky 2014) sends
# a fifth of what data parallelism sends. A pipeline sends less still where few values cross its cuts,
# but it waits: with $m$ parts of a batch (*micro-batches*) on $p$ stages, each stage is idle for a
# fraction $(p-1)/(m+p-1)$ of the time while the pipe fills and drains (Huang et al. 2019).
#
# **Today memory decides.** In mixed precision with Adam a parameter needs 16 bytes: 2 for the weight, 2
# for its gradient, 12 for a float32 copy and two moments (Rajbhandari et al. 2020). Activations need
# additional memory. **Guess** the gigabytes for 8 billion parameters.

# %%
guess("weights, gradients and Adam of Llama 3.1 8B", unit=" GB")
PARAMETERS = {"ResNet-50": RESNET["weights"], "Llama 3.1 8B": 8.03e9}
PARAMETERS["Llama 3.1 405B"] = 405e9
state = pd.DataFrame({"GB on one GPU": 16 * pd.Series(PARAMETERS) / 1e9})
for p in (8, 1024):
    state[f"sharded on {p:,}"] = state["GB on one GPU"] / p
display(state.round(2))
compare("weights, gradients and Adam of Llama 3.1 8B", state.iloc[1, 0])
claim("does not fit on an H100 with 80 GB", state.iloc[1, 0] > 80)
small, large = state["sharded on 8"][1:]
claim("sharded over eight GPUs it fits, 405B does not", small < 80 < large)

# %% [markdown]
# Llama 3.1 8B does not fit on an H100 with 80 GB. **ZeRO** and PyTorch's **FSDP** stay data parallel,
# but *shard* weights, gradients and moments over the ranks; sharded over eight GPUs it fits, 405B does
# not. Weights are gathered just before each use, forward and backward, which costs 1.5 times the bytes
# of data parallelism. Meta combined all three for 405B: tensor parallelism on the 8 GPUs of a node, a
# pipeline of 16 stages, and sharded data parallelism. ResNet-50's 0.4 GB fit anywhere, so in the next
# lectures each GPU has a copy.
#
# ## 5.6 The machines of the slides, and one of today
#
# Is the interconnect fast enough? A node first adds its GPUs' gradients, then sends about $2bW$ bytes
# per step ($b$ bytes per gradient value). Its GPUs compute for at least $6Mn/P$ seconds ($M$
# multiply-adds per image, $P$ the FLOP/s of one GPU at its peak). If sending and computing overlap
# completely, the network needs a bandwidth of
#
# $$B \ge \frac{2bW}{6Mn/P} \quad\text{bytes per second.}$$
#
# Gradients have the precision of the peak: $b$ = 4 in single, 2 in half and mixed precision. **Guess**
# for AlexNet with $n$ = 32: what percentage of their peak can the eight V100 GPUs of an MN-1b node
# reach?

# %%
guess("of MN-1b's peak, AlexNet can keep", unit="%")
NODES = pd.DataFrame(  # TFLOP/s of a GPU, b: bytes of a gradient, Gbit/s of a node
    {
        "Cartesius, K40m": (2, 4.29, 4, 56),
        "TSUBAME 2.5, K20X": (3, 3.95, 4, 80),
        "Piz Daint, P100": (1, 18.7, 2, 8 * 16 * 128 / 130),
        "MN-1a, P100": (8, 18.7, 2, 2 * 56),
        "MN-1b, V100": (8, 112, 2, 2 * 100),
        "MN-2, V100": (8, 125, 2, 4 * 100),
        "MN-3": (4, 524, 2, 2 * 112),
        "DGX H100": (8, 989, 2, 8 * 400),
    },
    index=["GPUs", "TFLOP/s", "b", "Gbit/s"],
).T

# %%
ALEX = {"weights": ALEXNET["weights"].sum()}
ALEX["multiply-adds"] = (ALEXNET["weights"] * ALEXNET["uses"]).sum()
n = 32  # images per GPU and step
for name, net in {"ResNet-50": RESNET, "AlexNet": ALEX}.items():
    seconds = 6 * net["multiply-adds"] * n / (1e12 * NODES["TFLOP/s"])
    NODES[name] = 8 * 2 * NODES["b"] * net["weights"] / seconds / 1e9  # Gbit/s
display(NODES.round(0))
kept = 100 * NODES["Gbit/s"] / NODES["AlexNet"]
compare("of MN-1b's peak, AlexNet can keep", kept["MN-1b, V100"])

# %%
fig, ax = plt.subplots(figsize=(8.4, 4))
at = np.arange(len(NODES))[::-1]
ax.hlines(at, NODES["ResNet-50"], NODES["AlexNet"], color="0.7", lw=1)
marks = {"Gbit/s": "s", "ResNet-50": "o", "AlexNet": "^"}
for i, (name, mark) in enumerate(marks.items()):
    label = f"needed for {name}, {n} images per GPU" if i else "the node's network"
    ax.plot(NODES[name], at, mark, mfc="white" if i else None, mew=2, ms=9, label=label)
ax.set_yticks(at, NODES.index)
ax.set(xscale="log", xlabel="Gbit/s of a node", xlim=(5, 2e4))
fig.legend(loc="outside upper center", ncols=3, fontsize=9)
plt.show()
slow = list(NODES.index[NODES["Gbit/s"] < NODES["ResNet-50"]])
fast = list(NODES.index[NODES["Gbit/s"] > NODES["AlexNet"]])
claim("every network but MN-3's is fast enough for ResNet-50", slow == ["MN-3"])
claim("only TSUBAME's for AlexNet", fast == ["TSUBAME 2.5, K20X"])
grown = NODES.loc["MN-2, V100"] / NODES.loc["Cartesius, K40m"]
claim("more than a hundred times faster", grown["GPUs"] * grown["TFLOP/s"] > 100)
claim("its network seven times", 6.5 < grown["Gbit/s"] < 7.5)

# %% [markdown]
# *(Figure: for each of eight machines a row with a square, the Gbit/s of a node's network, and the Gbit/s
# needed for ResNet-50 (circle) and for AlexNet (triangle), on a logarithmic axis. Triangles lie a factor
# of eight to the right of circles. Squares lie between the two, except for TSUBAME, just right of its
# triangle, and MN-3, left of its circle.)*
#
# At peak and with perfect overlap, every network but MN-3's is fast enough for ResNet-50, but only
# TSUBAME's for AlexNet. From Cartesius to MN-2 a node's peak became more than a hundred times faster
# (then single, now mixed precision), but its network seven times. A network that scaled on an old
# machine need not scale on a new one. Real steps (28% and about 40% of the peak in 5.1) need
# proportionally less bandwidth; fewer images per GPU need more.
#
# ## 5.7 A tour of Slurm
#
# **Slurm** knows a cluster's nodes and *partitions* (groups of nodes with limits) and keeps a queue. We
# recorded a real Slurm with four small nodes on one machine; its GPUs are fake
# (`runs/05_slurm_tour.py`).

# %%
tour = json.loads(pathlib.Path("runs/05_slurm_tour.json").read_text())


def show(name):
    """Print a recorded command and Slurm's answer."""
    answer = tour["answers"][name]
    print(f"$ {answer['command']}\n{answer['output']}\n")


print(f"RECORDED on {tour['date']}, Slurm {tour['versions']['slurm']}\n")
show("sinfo")

# %% [markdown]
# A job requests nodes, tasks (our ranks), cores, GPUs, memory, and a time limit after which Slurm cancels
# it. Until enough is free, the job waits, with a *reason*. Two jobs fill this cluster, three more are
# submitted. **Predict** which of the three starts first, and why each waits.

# %%
show("squeue, full")

# %% [markdown]
# `R` means running, `PD` pending. *Resources*: this job starts next, as soon as enough is free.
# *Priority*: others come first. *Dependency*: it waits for another job.
#
# How much should you request? **Measured use plus a margin**: run a small case, read the peak memory and
# the time from its record, and add (in assignment 05) a quarter to the memory and half to the time. With
# too little, the job is killed; with too much, it waits longer, because a short job can fill a gap before
# a long one starts (*backfill*, lecture 10).
#
# Here is a complete, handwritten script for GPUs, with its output. **Predict** which nodes and GPUs the
# four ranks get.

# %%
print(f"{tour['gpu']['script']}\n$ {tour['gpu']['command']}\n{tour['gpu']['output']}\n")
show("sacct, GPUs")

# %% [markdown]
# The lines with `#SBATCH` are the request. The rest runs on the first node; only `srun` starts the
# ranks, one per GPU. `CUDA_VISIBLE_DEVICES` numbers the GPUs of each node from 0. Account, partition,
# GPU type (`--gpus-per-task=a100:1`) and modules are your site's; the course reads them from a *site
# file*.
#
# ## 5.8 The first job, and a sweep
#
# What did `submit` do in 5.4? It stored the function and its arguments in a folder, the *job*, and
# started ranks that read it. On Slurm it gives this script to `sbatch`:

# %%
text = job.script(backend="slurm")
print(text.replace(str(job.folder), "JOB").replace(sys.prefix, "VENV"))

print(tour["first"]["command"])
display(pd.DataFrame(tour["first"]["results"]))

# %% [markdown]
# `--kill-on-bad-exit` kills the other ranks when one fails; otherwise they would wait for it in an
# all-reduce until the time limit. Memory is per *node*, so `submit` multiplies its `memory` per rank.
#
# The table shows what the first recorded job returned: each rank may use *both* cores of its node. This
# Slurm counts cores but does not bind ranks to them. (Other installations do, with
# `TaskPlugin=task/affinity` or cgroups.) So the script limits the threads: otherwise two ranks with two
# threads each would compete for two cores. But exceeding the requested memory kills a job almost
# everywhere.
#
# To try five learning rates, submit one job with five *items*, a **sweep**. Each trains LeNet-5 for 60
# steps and evaluates it on held-out images. **Guess** the best learning rate.


# %%
def accuracy(rate, steps=60, batch=64):
    """Accuracy of LeNet-5 on 2,000 held-out images after some steps of SGD."""
    import keras

    from cluster.training import data, models

    keras.utils.set_random_seed(5)
    x, y = data.fashion_mnist("train", steps * batch + 2000)
    net = models.lenet5(activation="relu")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.SGD(rate), loss, metrics=["accuracy"])
    net.fit(x[:-2000], y[:-2000], batch, verbose=0)
    value, fraction = net.evaluate(x[-2000:], y[-2000:], verbose=0)
    if not np.isfinite(value):
        raise FloatingPointError(f"rate {rate}: the loss is {value}")
    return {"accuracy": fraction, "loss": value}


# %% tags=["measured"]
guess("best learning rate")
sweep = jobs.map(accuracy, [0.001, 0.01, 0.1, 1.0, 10.0])
sweep.wait(progress=False)
rates = sweep.table()[["rate", "status", "accuracy", "error"]]
display(rates)
compare("best learning rate", rates.loc[rates["accuracy"].idxmax(), "rate"])
chance = (rates["status"] == "done") & (rates["accuracy"] < 0.2)
claim("done does not mean that it learned", chance.any())

# %% [markdown]
# With ten classes an accuracy of 0.1 is chance: *done* does not mean that it learned, only that the
# function returned. A failing item does not affect the others, and calling the same line again reruns
# only the failed ones. On Slurm the five become one **job array**. In the record, at most two of its
# tasks run at a time:

# %%
show("squeue, array")

# %% [markdown]
# Waiting tasks share a line. Their reason, *JobArrayTaskLimit*, is the limit of two tasks, `%2`. For
# many runs, an array is best: it is embarrassingly parallel. Distribute *one* run only if you cannot
# wait for it, or if it does not fit.
#
# ## 5.9 A job that can never run
#
# The recorded nodes have two GPUs and 8 GiB each, and the default partition has four nodes and a limit
# of half an hour. Four requests exceed that: 99 GB, 5 GPUs per node, 5 nodes, 5 hours. **Guess**: how
# many of the four does Slurm reject immediately?

# %%
guess("impossible requests rejected, of 4")
requests = [name for name in tour["answers"] if name.startswith("sbatch")]
for name in requests:
    show(name)
accepted = ["Submitted" in tour["answers"][name]["output"] for name in requests]
compare("impossible requests rejected, of 4", 4 - sum(accepted))

# %% [markdown]
# A request that no *node* can satisfy is rejected. One that exceeds the *partition* is accepted here,
# because this Slurm has the default `EnforcePartLimits=NO`: a limit may be raised, or a node repaired.
# With `ALL` or `ANY`, which many sites set, it is rejected, too. Once accepted, it looks like any other
# job:

# %%
show("squeue, never")
show("scontrol, never")
for when in ("before", "after"):
    answer = tour["never"][when]
    print(f"{answer['command']}\nCanNeverRun: {answer['error']}\n")

# %% [markdown]
# It waits until it is cancelled. The state, `PENDING`, does not show this; the **reason** does:
#
# | reason | will it start? |
# |---|---|
# | Resources, Priority, Dependency, JobArrayTaskLimit | yes, wait |
# | AssocMaxJobsLimit, QOSMaxJobsPerUserLimit | yes, when one of your jobs ends |
# | PartitionNodeLimit | maybe: too many nodes, or some are down |
# | PartitionTimeLimit, PartitionConfig, AssocMaxCpuPerJobLimit | no: change the request |
# | DependencyNeverSatisfied | no: submit it again without the dependency |
#
# `python -m cluster states` lists all reasons. Compare the request (`NumNodes`, `TimeLimit`) with its
# partition's line of `sinfo`. The course's `submit` does so before it submits, and `result` reports a
# reason that Slurm gives later. (Slurm can give two reasons for one request, so check what you
# *requested*.)
#
# ## What was learned
#
# 1. A training run costs from less than one GPU-hour to tens of millions. MFU tells you if a time is
#    plausible.
# 2. The part that is not distributed sets the limit (Amdahl), unless it stays the same while the work
#    grows (Gustafson). Ask first what grows, and what is counted.
# 3. An efficiency is a product: smaller batch, shared machine, exchange. Measure each factor against
#    its own baseline, within the same turn.
# 4. Data parallelism sends gradients, tensor parallelism activations, and a pipeline the activations at
#    its cuts. Today memory decides which of them you need.
# 5. A job is a request. Its reason tells you whether waiting helps.
#
# **Today.** `torchrun` starts PyTorch's ranks as `srun` does. DDP is this lecture's data parallelism,
# FSDP2 (`fully_shard`) its sharded form; JAX expresses all of it as shardings of arrays. The GPUs of a
# node, or the 72 of an NVL72 rack, form an NVLink domain: tensor parallelism stays inside, data and
# pipeline parallelism cross the slower network. In MLPerf 5.1 (2025) more than 5,000 GPUs trained a
# benchmark with 405 billion parameters in ten minutes. What carries over: the two laws, the bytes, and
# the questions *what grows?* and *what is counted?*
#
# **Next.** Assignment 05 computes requests, runs a sweep, reads from records how six jobs ended, and fits
# Amdahl's law to measurements. Then **[06, all-reduce](06_all_reduce.ipynb)** and **[07, data-parallel
# training](07_data_parallel_training.ipynb)**. Before: **[03](03_from_lenet_to_resnet.ipynb)** (networks)
# and **[01](01_convolution_as_gemm.ipynb)** (the roofline).
#
# ## Further
#
# Nothing in the course requires this section.
#
# ### Exercises
#
# 1. Download and training of the rain forecast are overlapped: while day $d$ is trained on $p$ GPUs, day
#    $d+1$ is downloaded and prepared (17 h). How many GPUs are useful, and how many data sets are
#    finished per week?
#
# <details><summary>Answer</summary>
#
# A day's data takes the longer of 17 h and $24/p$ h of training. Two GPUs train in 12 h < 17 h, so a
# second GPU is useful and a third is not. One data set is finished every 17 h instead of every 24 h (one
# GPU) or 41 h (not overlapped): 168/17 = 9.9 per week.
#
# </details>
#
# 2. On 8 GPUs a program achieves a speed-up of 6. What serial fraction does Amdahl's law give, and what
#    speed-up on 64 GPUs? What if the loss came from an all-reduce that takes the same time for any
#    $p > 1$?
#
# <details><summary>Answer</summary>
#
# $1/6 = s + (1-s)/8$ gives $s$ = 1/21 = 4.8%, so $S(64) = 1/(1/21 + 20/(21\cdot64))$ = 16. A constant
# all-reduce of $c$ per step in strong scaling behaves like a serial part that one rank does not have:
# $1/6 = 1/8 + c$, $c = 1/24$, $S(64) = 1/(1/64 + 1/24)$ = 17.5. In *weak* scaling the efficiency would
# stay at its value for any $p$: the same measurement, different extrapolations.
#
# </details>
#
# 3. A model with 70 billion parameters is trained in mixed precision with Adam on GPUs of 80 GB, half of
#    which is kept free for activations. How many GPUs does FSDP need at least? How many bytes does each
#    GPU send per step, compared with plain data parallelism?
#
# <details><summary>Answer</summary>
#
# 16 × 70 = 1,120 GB, divided by 40 GB: 28 GPUs. FSDP sends $3\frac{p-1}{p}\cdot 2W$ = 405 GB: two
# all-gathers of the weights and a reduce-scatter of the gradients. Data parallelism, if it fit, would
# send two thirds of that, 270 GB. At 50 GB/s FSDP's transfers take 8 s, which must overlap with the
# computation.
#
# </details>
#
# ### Energy
#
# **1.05 TFLOPS/W.** MN-Core's 524 TFLOP/s at 500 W (Uenishi 2019) are 1.05 TFLOP per joule. How much
# energy would training ResNet-50 need?

# %%
CHIPS = {"M40, measured days at 250 W": training / (8 * M40_WATT * 2 * 86400)}
CHIPS |= {"P100, peak": 18.7e12 / 250, "V100, peak": 112e12 / 250}
CHIPS |= {"MN-Core, peak": 524e12 / 500, "H100, peak": 989e12 / 700}
for name, each_joule in CHIPS.items():
    kwh = training / each_joule / 3.6e6
    print(f"{name:28} {each_joule / 1e12:6.3f} TFLOP/J, {kwh:6.2f} kWh")

# %% [markdown]
# Only the first line is a run that took place (at the data sheet's power); the others are peaks, which
# no training run reaches, and omit host, network and cooling. The FLOPs differ, too: single precision
# in the first line, half and mixed in the others.
#
# ### What became of the recorded jobs, and what is here

# %%
show("sacct")

# %% [markdown]
# `sacct` lists the jobs that have ended. The first two are the rejected requests, which received a job
# number nevertheless. Each task of the array has its own. A job that is cancelled before it starts has
# an elapsed time of zero. The next cell shows what is available on *your* machine:

# %% tags=["measured"]
print(doctor())

# %% [markdown]
# ### Terms
#
# **Embarrassingly parallel**: divided into parts that exchange nothing. **GPU-hour**: one GPU for one
# hour. **Job array**: one script, many tasks. **MFU**: model FLOPs utilisation, the model's FLOPs divided
# by peak times duration. **Partition**: nodes with common limits. **Sharding**: dividing an array over
# ranks. **Speed-up** and **efficiency**: $T_1/T_p$, and that divided by $p$. **Strong, weak scaling**: a
# fixed amount of work for all ranks together, or for each rank.
#
# ### Sources
#
# - Amdahl 1967, *Validity of the single processor approach to achieving large scale computing
#   capabilities*; Gustafson 1988, *Reevaluating Amdahl's law*: the laws of 5.2 and 5.3, quoted from
#   secondary texts
# - Rigazzi 2018, *HPC and AI convergence* (Cray; slides): 5.2, 5.3, Piz Daint · Uenishi 2019, *A few ways
#   to accelerate deep learning* (slides): MLPerf v0.5, MN-1 to MN-3 · Codreanu 2018, *Introduction to
#   high-performance machine learning* (slides): "not embarrassingly parallel", eight M40, Cartesius ·
#   Sato 2017, *A study of parallel computation for deep learning on TSUBAME* (slides): TSUBAME
# - Llama team 2024, *The Llama 3 herd of models*, [2407.21783](https://arxiv.org/abs/2407.21783):
#   FLOPs, MFU and the parallelism of 405B; GPU-hours from the model card of Llama 3.1; all read in
#   secondary texts: 5.1, 5.5
# - Krizhevsky 2014, [One weird trick](https://arxiv.org/abs/1404.5997) (abstract); Shoeybi et al. 2019,
#   [Megatron-LM](https://arxiv.org/abs/1909.08053), read in the documentation of Colossal-AI; Huang et
#   al. 2019, [GPipe](https://arxiv.org/abs/1811.06965); Rajbhandari et al. 2020, *ZeRO*,
#   [1910.02054](https://arxiv.org/abs/1910.02054), read in DeepSpeed's documentation: 5.5
# - Networks that are not on the slides: TSUBAME, two QDR links; Piz Daint, the 16 lanes of PCIe 3 before
#   Aries (an upper bound); MN-3, PFN's web page *Computing infrastructure*, 2 × 112 Gbit/s; NVIDIA, *DGX
#   H100 user guide*: eight 400 Gbit/s ports; peaks of K40m, K20X, M40 and H100 from data sheets: 5.1, 5.6
# - PyTorch, [Getting started with
#   FSDP2](https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html) (how it works); MLPerf
#   Training 5.1 and NVL72, read in news of November 2025: *Today*
# - Shallue et al. 2019, *Measuring the effects of data parallelism on neural network training*, JMLR 20
#   (abstract): why a rate is not a result
# - Slurm, [job reasons](https://slurm.schedmd.com/job_reason_codes.html) and
#   [slurm.conf](https://slurm.schedmd.com/slurm.conf.html) (`EnforcePartLimits`): 5.7 to 5.9
