# %% [markdown]
# # 1 · Convolution as GEMM
#
# **Why did GPUs make convolutional networks possible?**
#
# In 2006 Chellapilla, Puri and Simard turned the convolutions of a handwriting recogniser into matrix
# products. With a library for matrix products their network ran 2.4 to 3.0 times faster on a CPU, and 3.1
# to 4.1 times on a GPU (Chellapilla et al. 2006). Six years later AlexNet was trained on two GPUs
# (Krizhevsky et al. 2012), and Codreanu (2018) calls the matrix form of convolution a "very
# important factor motivating early GPU usage". But in 2006 the CPU had most of that gain, too. So what
# did the GPU add? In this lecture you will
#
# 1. write the convolution of a layer as *one matrix product*, and its backward pass as two more;
# 2. predict FLOPs, bytes and time from the shapes, before anything runs;
# 3. measure the two limits of this machine, compare six implementations with them, and find out where the
#    time goes;
# 4. answer the question with measurements on the hardware of that time.
#
# **GEMM** (*general matrix multiply*) is the name of the matrix product in the **BLAS** (*basic linear
# algebra subprograms*), the interface of libraries such as OpenBLAS, which NumPy calls.
#
# Notation: $N$ images, $C$ channels, $H \times W$ pixels, $K$ filters of $k \times k \times C$ weights,
# stride $s$, padding $p$. A multiply-add is **two** FLOPs.

# %% tags=["measured"]
from cluster.lecture import begin, claim, compare, guess

palette = begin(threads=2)

# %%
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import display
from matplotlib import cbook
from numpy.lib.stride_tricks import sliding_window_view
from threadpoolctl import ThreadpoolController

from cluster.lecture import cores

THREADS = min(2, cores())
blas = ThreadpoolController().select(user_api="blas")
pool, rng = ThreadPoolExecutor(THREADS), np.random.default_rng(seed=1)


# %% [markdown]
# Before each measurement you are asked for a **guess**. Write a number into `guess`, or into the field
# below it. The cell that measures prints your guess next to the result.
#
# ## 1.1 One filter, one photograph
#
# The photograph of Rear Admiral Grace Hopper, who wrote one of the first compilers, comes with matplotlib.
# In grey it is a matrix of $H \times W$ numbers. A **convolution** slides a small matrix of weights, the
# *filter*, over the image. At every position it multiplies the weights by the pixels below and adds up:
#
# $$y_{h,w} = \sum_{i=0}^{k-1} \sum_{j=0}^{k-1} x_{h+i,\;w+j}\; w_{i,j}$$
#
# (Mathematicians flip the weights first and call this one *cross-correlation*.) With Sobel's weights, the
# sum is large where the image gets brighter from left to right. **The first function is the definition;
# the second reorders its loops**: the two short ones are outside, and the two long ones become *one*
# operation on whole shifted images, in NumPy's compiled code.


# %%
def filter_loops(x, w):
    """x (H, W), w (k, k) -> (H-k+1, W-k+1)"""
    H, W, k = *x.shape, len(w)
    y = np.zeros((H - k + 1, W - k + 1), np.float32)
    for h, v in np.ndindex(y.shape):
        for i, j in np.ndindex(k, k):
            y[h, v] += x[h + i, v + j] * w[i, j]
    return y


def filter_vectorised(x, w):
    """The same sum: k² multiply-adds of whole, shifted images."""
    H, W, k = *x.shape, len(w)
    y = np.zeros((H - k + 1, W - k + 1), np.float32)
    for i, j in np.ndindex(k, k):
        y += x[i : i + H - k + 1, j : j + W - k + 1] * w[i, j]
    return y


# %% [markdown]
# **Guess:** how many times faster is `filter_vectorised`?

# %%
guess("vectorised over loops", unit="×")

with cbook.get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file)  # (H, W, 3), 0 to 255
grey = (photo @ [0.299, 0.587, 0.114] / 255).astype(np.float32)  # ITU-R BT.601
sobel_x = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)


def seconds(call):
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# %% tags=["measured"]
slow = seconds(lambda: filter_loops(grey, sobel_x))
fast = min(seconds(lambda: filter_vectorised(grey, sobel_x)) for _ in range(5))
gx, gy = filter_vectorised(grey, sobel_x), filter_vectorised(grey, sobel_x.T)
assert np.allclose(gx, filter_loops(grey, sobel_x), atol=1e-5)
adds = gx.size * sobel_x.size
for name, t in {"loops": slow, "vectorised": fast}.items():
    print(f"{name:10} {1e3 * t:8.1f} ms = {1e9 * t / adds:7.2f} ns per multiply-add")
compare("vectorised over loops", slow / fast)
claim("more than a hundred times faster", slow / fast > 100)

# %% [markdown]
# The vectorised function does the same arithmetic and is more than a hundred times faster. **In the loops,
# almost all of the time is Python's bookkeeping**: looking up names, checking types, wrapping each pixel
# into an object.

# %%
panels = {"x, the photograph": grey, "Sobel in x": gx, "Sobel in y": gy}
panels["magnitude"] = np.hypot(gx, gy)
fig, axes = plt.subplots(1, 4, figsize=(9.5, 3.1))
for ax, (title, image) in zip(axes, panels.items(), strict=True):
    ax.imshow(image, cmap="gray")
    ax.set(title=title, xticks=[], yticks=[])
plt.show()

# %% [markdown]
# *(Figure: the photograph in grey, and three images of its edges. Sobel in x shows vertical edges, light
# on one side and dark on the other, such as the stripes of the hanging flag; Sobel in y horizontal ones,
# such as the brim of the cap; the magnitude shows both as a white outline of face, cap and uniform on
# black.)*
#
# Two hand-made filters make two feature maps. AlexNet's first layer has 96 filters on three channels, and
# learns them from a million photographs.
#
# ## 1.2 A layer
#
# A layer has $C$ input channels and $K$ filters, and processes $N$ images at once:
#
# $$y_{n,h,w,f} = \sum_{i,j,c} x_{n,\;sh+i,\;sw+j,\;c}\; w_{i,j,c,f}, \qquad
#   H_o = \left\lfloor\frac{H + 2p - k}{s}\right\rfloor + 1$$
#
# Images are stored as `(N, H, W, C)`, channels last, and weights as `(k, k, C, K)`, as in TensorFlow.
# Every output needs $k^2C$ multiply-adds. So **the FLOPs follow from the shapes**, before anything runs:
#
# $$\mathrm{FLOPs} = 2 \cdot N H_o W_o K \cdot k^2 C .$$


# %%
@dataclass(frozen=True)
class Layer:
    """C channels of H x W pixels, K filters of k x k x C, stride and padding."""

    name: str
    C: int
    H: int
    W: int
    K: int
    k: int
    stride: int
    pad: int

    @property
    def out(self):
        size = self.H, self.W
        return tuple((n + 2 * self.pad - self.k) // self.stride + 1 for n in size)

    def flops(self, N):
        return 2 * N * self.out[0] * self.out[1] * self.K * self.k**2 * self.C


# %% [markdown]
# Our five layers are chosen to differ: AlexNet's first (few channels, a large kernel, stride 4) and second
# (split over two GPUs by its authors, not here), the 3×3 convolutions of a ResNet on 56×56 pixels (many
# pixels, few channels) and on 14×14 (the reverse), and a 1×1 convolution.

# %%
LAYERS = [
    Layer("AlexNet conv1", C=3, H=227, W=227, K=96, k=11, stride=4, pad=0),
    Layer("AlexNet conv2", C=96, H=27, W=27, K=256, k=5, stride=1, pad=2),
    Layer("ResNet 3x3, 56", C=64, H=56, W=56, K=64, k=3, stride=1, pad=1),
    Layer("ResNet 3x3, 14", C=256, H=14, W=14, K=256, k=3, stride=1, pad=1),
    Layer("ResNet 1x1, 56", C=256, H=56, W=56, K=64, k=1, stride=1, pad=0),
]
NAMES = [layer.name for layer in LAYERS]
N = 8  # images
table = pd.DataFrame(LAYERS).set_index("name")
table["MFLOP per image"] = [round(layer.flops(1) / 1e6) for layer in LAYERS]
display(table)


# %%
def tensors(layer, N, dtype=np.float32):
    """Random images (N, H, W, C) and weights (k, k, C, K); outputs are near 1."""
    x = rng.standard_normal((N, layer.H, layer.W, layer.C)).astype(dtype)
    w = rng.standard_normal((layer.k, layer.k, layer.C, layer.K))
    return x, (w / np.sqrt(layer.k**2 * layer.C)).astype(dtype)


def padded(x, pad):
    """x (N, H, W, C) -> (N, H+2*pad, W+2*pad, C), zeros around"""
    return np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))) if pad else x


def output_shape(x, w, stride, pad):
    """(N, Ho, Wo, K)"""
    N, H, W, _ = x.shape
    return N, *((n + 2 * pad - len(w)) // stride + 1 for n in (H, W)), w.shape[-1]


# %% tags=["measured"]
def conv_loops(x, w, stride, pad):
    """The definition. x (N, H, W, C), w (k, k, C, K) -> (N, Ho, Wo, K)"""
    y, x = np.zeros(output_shape(x, w, stride, pad), x.dtype), padded(x, pad)
    for n, h, v, f in np.ndindex(y.shape):
        for i, j, c in np.ndindex(w.shape[:3]):
            y[n, h, v, f] += x[n, stride * h + i, stride * v + j, c] * w[i, j, c, f]
    return y


minutes = [layer.flops(N) / 2 * slow / adds / 60 for layer in LAYERS]
print(f"predicted: {min(minutes):.0f} to {max(minutes):.0f} minutes for {N} images")
claim("minutes per layer", min(minutes) > 1)

# %% [markdown]
# **At the speed measured on the photograph, the loops take minutes per layer.** Are they correct? We
# compare them with TensorFlow on a small layer with a stride, padding, and an image that is not square.
# Errors are printed in units of $\varepsilon$, the spacing of float32 numbers at 1.

# %% tags=["measured"]
odd = Layer("odd", C=3, H=7, W=9, K=4, k=3, stride=2, pad=1)
x_odd, w_odd = tensors(odd, 2)


def conv_tensorflow(x, w, stride, pad):
    """TensorFlow's own convolution, with the same layout."""
    return tf.nn.conv2d(x, w, stride, [[0, 0], [pad, pad], [pad, pad], [0, 0]]).numpy()


def check(conv):
    """Compare an implementation with TensorFlow on the odd layer."""
    error = np.abs(conv(x_odd, w_odd, 2, 1) - conv_tensorflow(x_odd, w_odd, 2, 1)).max()
    assert error < 1e-5, f"{conv.__name__} differs from TensorFlow by {error:.1e}"
    print(f"{conv.__name__}: largest error {error / np.finfo(np.float32).eps:.1f} ε")


check(conv_loops)

# %% [markdown]
# What would compiled loops bring? **All windows are a view.** NumPy's *strides* state how many bytes lie
# between neighbours along each axis. Two axes may have the same stride, so an array of all windows exists
# without copying a pixel. `einsum` then computes the sum over the three inner axes in compiled loops.


# %% tags=["measured"]
def windows_of(x, k, stride, pad):
    """x (N, H, W, C) -> (N, Ho, Wo, k, k, C): all windows, a view of padded images"""
    view = sliding_window_view(padded(x, pad), (k, k), axis=(1, 2))
    return view[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)


def conv_einsum(x, w, stride, pad):
    """Compiled loops over the view of all windows."""
    return np.einsum("nhvijc,ijcf->nhvf", windows_of(x, len(w), stride, pad), w)


check(conv_einsum)

# %% [markdown]
# ## 1.3 im2col: spend memory to buy a GEMM
#
# Copy every window into a row. The rows form a matrix of $N H_o W_o \times k^2 C$ numbers, called the
# *columns* (the name comes from MATLAB, whose `im2col` makes them columns). The weights are already a
# matrix of $k^2 C \times K$. Then **the whole layer, all images and all filters, is one matrix product**.
#
# ![im2col for N = 2 images of 4 × 4 pixels and C = 2 channels, k = 3. Each image is drawn as two sheets,
# one for each channel, and holds four overlapping windows, outlined in different colour and dash. An arrow
# leads to the columns, a matrix of eight rows, N times the four windows of an image, and eighteen columns,
# k² times C: the two channels of a pixel are neighbours. The pixel f, in yellow, lies in all four windows
# and appears in four rows, on a diagonal. The columns times a matrix of eighteen by K = 3 weights, one
# column for each filter, are the output of eight rows and three columns.](figures/01_im2col.svg)


# %% tags=["measured"]
def im2col(x, k, stride, pad):
    """x (N, H, W, C) -> (N*Ho*Wo, k*k*C): every window a row; a copy, unless k = 1"""
    return windows_of(x, k, stride, pad).reshape(-1, k * k * x.shape[-1])


def conv_im2col(x, w, stride, pad):
    """One GEMM on the copied windows."""
    y = im2col(x, len(w), stride, pad) @ w.reshape(-1, w.shape[-1])
    return y.reshape(output_shape(x, w, stride, pad))


check(conv_im2col)

# %% [markdown]
# **Question.** How often does a pixel in the middle of an image appear in the columns? Which layer needs
# the most memory for them, compared with its images, and which needs no copy at all?


# %%
def megabytes(layer, N):
    """Sizes of images, weights, output and columns in MB (10⁶ bytes of float32)."""
    rows, row = N * layer.out[0] * layer.out[1], layer.k**2 * layer.C
    x = N * layer.H * layer.W * layer.C
    sizes = {"x": x, "w": row * layer.K, "y": rows * layer.K, "columns": rows * row}
    return {name: 4e-6 * size for name, size in sizes.items()}


memory = pd.DataFrame({layer.name: megabytes(layer, N) for layer in LAYERS}).T
memory["columns / x"] = memory["columns"] / memory["x"]
memory["(k/stride)²"] = [(layer.k / layer.stride) ** 2 for layer in LAYERS]
display(memory.round(1))  # MB, and two ratios
claim("conv2 needs the most", memory["columns / x"].idxmax() == "AlexNet conv2")
claim("0.9 GB", 0.85e3 < memory.loc["AlexNet conv2", "columns"] / N * 128 < 0.95e3)

# %% [markdown]
# <details><summary>Answer</summary>
#
# With stride $s$ a pixel lies in about $(k/s)^2$ windows: the last two columns agree except for the
# borders. Of our layers conv2 needs the most, with 5×5 and stride 1. A 1×1 convolution with stride 1 needs
# no copy: its images *are* the matrix.
# </details>
#
# For AlexNet's batch of 128 images the columns of conv2 alone would take 0.9 GB, and its two GPUs had 3 GB
# each for everything. So it pays to unfold only a part at a time (1.8), or nothing.
#
# ## 1.4 The same products without columns
#
# For each of the $k^2$ positions $(i, j)$ in the kernel, take the image *shifted* by $(i, j)$, multiply
# its $C$ channels by the $C \times K$ matrix $w_{ij}$, and add up.
#
# ![Shifted views: the same 4 × 4 image four times. In each, a 2 × 2 box of the size of the output is
# shaded: at the top left for shift (0, 0), one to the right for shift (0, 1), at the top right for (0, 2),
# and at the bottom right for (2, 2). Each box is multiplied by one weight, and the products are
# added.](figures/01_shifted.svg)


# %% tags=["measured"]
def conv_shifted(x, w, stride, pad):
    """k² GEMMs of inner dimension C, added up; no columns."""
    N, Ho, Wo, K = shape = output_shape(x, w, stride, pad)
    x, y = padded(x, pad), np.zeros((N * Ho * Wo, K), x.dtype)
    for i, j in np.ndindex(w.shape[:2]):
        view = x[:, i : i + stride * Ho : stride, j : j + stride * Wo : stride]
        y += view.reshape(-1, x.shape[-1]) @ w[i, j]
    return y.reshape(shape)


check(conv_shifted)

# %% [markdown]
# This takes the same FLOPs and little extra memory. But one GEMM of inner dimension $k^2C$ has become
# $k^2$ GEMMs of inner dimension $C$, each adding to all of $y$. **Question:** for which of our layers must
# this be slow?
#
# <details><summary>Answer</summary>
#
# For conv1: $C = 3$ and $k^2 = 121$. Each GEMM does three multiply-adds for each number of $y$ that it
# loads and stores, and there are 121 of them.
# </details>
#
# ## 1.5 Backward: two more GEMMs
#
# Training needs the gradients of a loss $L$ with respect to weights and images. With the columns
# $\mathbf{X}$ the layer is $\mathbf{Y} = \mathbf{X} \mathbf{W}$, and the rules of the matrix product give
#
# $$\frac{\partial L}{\partial \mathbf{W}} = \mathbf{X}^{\mathsf T}\, \frac{\partial L}{\partial \mathbf{Y}},
# \qquad
# \frac{\partial L}{\partial \mathbf{X}} = \frac{\partial L}{\partial \mathbf{Y}}\, \mathbf{W}^{\mathsf T}.$$
#
# Each has exactly the FLOPs of the forward product. One step is left: $\partial L/\partial\mathbf{X}$ is
# the gradient of the *columns*, and a pixel appears in many of them. **The gradient of a pixel is the sum
# over all its copies.** `col2im` puts the copies back and adds them:


# %%
def col2im(columns, shape, k, stride, pad):
    """columns (N*Ho*Wo, k*k*C) -> images of `shape`; copies of a pixel are added"""
    N, H, W, C = shape
    Ho, Wo = ((n + 2 * pad - k) // stride + 1 for n in (H, W))
    x = np.zeros((N, H + 2 * pad, W + 2 * pad, C), columns.dtype)
    taps = columns.reshape(N, Ho, Wo, k, k, C)
    for i, j in np.ndindex(k, k):
        view = x[:, i : i + stride * Ho : stride, j : j + stride * Wo : stride]
        view += taps[:, :, :, i, j]
    return x[:, pad : pad + H, pad : pad + W]


def conv_backward(dy, x, w, stride, pad):
    """dy (N, Ho, Wo, K) -> dx like x, dw like w"""
    rows, W = dy.reshape(-1, dy.shape[-1]), w.reshape(-1, w.shape[-1])
    dw = im2col(x, len(w), stride, pad).T @ rows
    return col2im(rows @ W.T, x.shape, len(w), stride, pad), dw.reshape(w.shape)


# %% [markdown]
# Is this the gradient? A convolution is linear in the images, and in the weights. So if the images change
# by $u$, the output changes by exactly $\mathrm{conv}(u, w)$, and the loss by $\langle \partial L/\partial
# y, \mathrm{conv}(u, w)\rangle$, which must equal $\langle \partial L/\partial x, u\rangle$. We test this
# with random numbers, and the same for a change $q$ of the weights.

# %%
x64, w64 = tensors(odd, 2, np.float64)
dy = rng.standard_normal(conv_im2col(x64, w64, 2, 1).shape)
dx, dw = conv_backward(dy, x64, w64, 2, 1)
u, q = tensors(odd, 2, np.float64)
changes = {"dX": (dx, u, conv_im2col(u, w64, 2, 1))}
changes["dW"] = dw, q, conv_im2col(x64, q, 2, 1)
for name, (gradient, direction, change) in changes.items():
    left, right = np.vdot(gradient, direction), np.vdot(dy, change)
    print(f"{name}: {left:.10f} and {right:.10f}")
    assert np.isclose(left, right, rtol=1e-10)

# %% [markdown]
# So **training takes three GEMMs with equally many FLOPs, one forward and two backward**: the *factor 3*
# between the FLOPs of inference and of training.
#
# ## 1.6 Two numbers that describe a machine
#
# A processor computes, and it moves data. As its **peak** we take the speed of the fastest large matrix
# product that we measure, as its **bandwidth** that of the fastest copy of arrays much larger than any
# cache.
#
# Other programs can disturb a measurement. `benchmark` therefore times a *control*, always the same
# product, before and after each repeat. A repeat counts only if both took at most 1.25 times as long as
# the fastest control. On a busy machine it makes up to four times as many repeats, until enough of them
# count. Within a repeat all calls take turns, so that their ratio is taken under nearly equal conditions.
# (It pauses because OpenBLAS's threads wait actively for about a tenth of a second after a product.)


# %%
SQUARE = rng.standard_normal((1024, 1024), dtype=np.float32)


def rested(call):
    """Seconds of a call, after a pause and a first call that is not timed."""
    time.sleep(0.15)
    call()
    return seconds(call)


def benchmark(calls, repeats=10, limit=1.25):
    """{name: call} -> seconds: a row per quiet repeat, a column per call."""
    rows, controls, quiet = [], [rested(lambda: SQUARE @ SQUARE)], np.array([False])
    while quiet.sum() < repeats and len(rows) < 4 * repeats:
        rows.append({name: rested(call) for name, call in calls.items()})
        controls.append(rested(lambda: SQUARE @ SQUARE))
        slower = np.array(controls) > limit * min(controls)
        quiet = ~(slower[:-1] | slower[1:])
    few = bool(quiet.sum() < repeats / 2)
    print("WARNING: busy. " * few + f"{quiet.sum()} of {len(rows)} repeats were quiet")
    return pd.DataFrame(rows)[quiet | few]


# %% [markdown]
# What should the peak be? A core of today can start two multiply-add instructions per cycle (it has two
# *FMA units*), and each works on a vector register of 4, 8 or 16 numbers (*SIMD lanes*):
#
# $$\text{peak} = \text{cores} \times \text{GHz} \times \text{FMA units} \times \text{lanes} \times 2 .$$
#
# **Guess** the peak of this machine, for the number of threads printed above.

# %% tags=["measured"]
guess("peak of this machine", unit=" GFLOP/s")
n = 2048
a, b = rng.standard_normal((2, n, n), dtype=np.float32)
out, ta, tb = np.empty_like(a), tf.constant(a), tf.constant(b)
products = {
    "NumPy": lambda: np.matmul(a, b, out=out),
    "TensorFlow": lambda: tf.matmul(ta, tb).numpy(),
}
gemms = benchmark(products)
display((2 * n**3 / 1e9 / gemms).describe()[3:].round(1))  # GFLOP/s
BLAS_PEAK = 2 * n**3 / gemms["NumPy"].min()  # FLOP/s of NumPy's library
PEAK = 2 * n**3 / gemms.min().min()  # the best
compare("peak of this machine", PEAK / 1e9)
for lanes in (4, 8, 16):
    clock = PEAK / (THREADS * 2 * lanes * 2)
    print(f"{lanes:2} lanes would take {clock / 1e9:.1f} GHz")
print("kernels of NumPy's BLAS:", [b.get("architecture") for b in blas.info()])

# %% [markdown]
# Which row matches your processor's clock under load, usually somewhat above its base clock? That row
# tells how many numbers a core multiplies per instruction. (Some processors, such as AMD's Zen 4, execute
# an instruction of 512 bits in two halves, and belong in the row of 8.)
#
# The last line names the kernels that NumPy's BLAS selected: *Haswell* and *Zen* stand for 256 bits,
# *SkylakeX* and *Cooperlake* for 512. As the machine's peak we take the faster of the two libraries.
#
# A copy of $n$ bytes reads $n$ and writes $n$, so it moves at least $2n$.


# %% tags=["measured"]
source, target = np.ones(2**25, np.float32), np.zeros(2**25, np.float32)
halves = [np.array_split(array, THREADS) for array in (target, source)]
copies = benchmark({"copy": lambda: list(pool.map(np.copyto, *halves))})
display((2 * source.nbytes / 1e9 / copies).describe()[3:].round(1))  # GB/s
BANDWIDTH = 2 * source.nbytes / copies.min().min()  # bytes/s
RIDGE = PEAK / BANDWIDTH
print(f"peak {PEAK / 1e9:.0f} GFLOP/s, bandwidth {BANDWIDTH / 1e9:.0f} GB/s, ", end="")
print(f"ridge {RIDGE:.1f} FLOP per byte")

# %% [markdown]
# The peak divided by the bandwidth is the **ridge**: the number of FLOPs that the machine can do while it
# moves one byte.
#
# ## 1.7 Predict
#
# The **arithmetic intensity** of a program is its FLOPs divided by the bytes that it must move to or from
# memory. The **roofline** (Williams et al. 2009) says that no program is faster than
#
# $$P = \min(\text{peak},\ \text{intensity} \times \text{bandwidth}).$$
#
# At least the images, the weights and the output must be moved. im2col also writes the columns and reads
# them back. The shifted products move, for each of the $k^2$ positions, a view (read it, write its copy,
# read the copy) and the output (write the product, read it, read and write $y$).


# %%
def traffic(layer, method, N):
    """Bytes to and from memory, if no array stays in a cache until it is used again."""
    x, w, y, columns = (1e6 * size for size in megabytes(layer, N).values())
    view = layer.k == layer.stride == 1 and layer.pad == 0  # nothing is copied
    if method == "im2col":
        return x + w + y + (0 if view else 2 * columns)
    if method == "shifted":  # the k² views together are as large as the columns
        return w + (columns if view else 3 * columns) + 4 * layer.k**2 * y
    return x + w + y


def intensities(method):
    """FLOP per byte of each layer."""
    return np.array([layer.flops(N) / traffic(layer, method, N) for layer in LAYERS])


def roofline(intensity, peak=None, bandwidth=None):
    """Attainable FLOP/s at an intensity in FLOP per byte; of this machine, or given."""
    return np.minimum(peak or PEAK, intensity * (bandwidth or BANDWIDTH))


# %% tags=["measured"]
prediction = pd.DataFrame(index=NAMES)
work = np.array([layer.flops(N) for layer in LAYERS])
for method in ("least", "im2col", "shifted"):
    prediction[f"{method}: FLOP/B"] = intensities(method)
    prediction[f"{method}: ms"] = 1e3 * work / roofline(intensities(method))
display(prediction.round(1))
claim("to the right of the ridge, for im2col, too", min(intensities("im2col")) > RIDGE)

# %% [markdown]
# All layers lie to the right of the ridge, for im2col, too. So **the roofline predicts that im2col costs
# no time**: its copies take less time than the FLOPs and could be made at the same time.
#
# **Guess:** what fraction of the speed of TensorFlow's own convolution does im2col in NumPy reach, with
# the same number of threads?
#
# ## 1.8 Where does the time of im2col go?
#
# One layer first, the 3×3 on 56×56 pixels. We time the whole function and its two parts. The columns are
# written twice: into new memory, as `im2col` does, and into memory that was used before. **Guess** what
# fraction of its time im2col spends writing the columns.

# %% tags=["measured"]
guess("im2col / TensorFlow")
guess("time for writing the columns", unit="%")
layer = LAYERS[2]
x, w = tensors(layer, N)
columns, weights = im2col(x, 3, 1, 1), w.reshape(-1, layer.K)
windows, y = windows_of(x, 3, 1, 1), np.empty((len(columns), layer.K), np.float32)
calls = {
    "conv_im2col": lambda: conv_im2col(x, w, 1, 1),
    "columns, new memory": lambda: im2col(x, 3, 1, 1),
    "columns, used memory": lambda: np.copyto(columns.reshape(windows.shape), windows),
    "GEMM": lambda: np.matmul(columns, weights, out=y),
}
inside = benchmark(calls)
table, limit = 1e3 * inside.describe()[3:].T, 1e3 * layer.flops(N) / PEAK
table["roofline"] = [limit, *[1e3 * columns.nbytes / BANDWIDTH] * 2, limit]
display(table.round(1))  # milliseconds

# %% tags=["measured"]
whole, new, used, gemm = table["50%"]
compare("time for writing the columns", 100 * new / (new + gemm))
claim("takes more than twice the time of the roofline", whole > 2 * limit)
claim("the two parts add up to the whole", abs((new + gemm) / whole - 1) < 0.25)
claim("takes at least 1.5 times as long as writing to used memory", new > 1.5 * used)
claim("reaches less than three quarters of the peak", limit / gemm < 0.75)

# %% [markdown]
# im2col takes more than twice the time of the roofline. What does the roofline leave out?
#
# - **Copy and product do not overlap**: the two parts add up to the whole, whereas the minimum in $P$
#   assumes that bytes move *while* FLOPs are done. Only one thread copies.
# - **New memory**: for every call the operating system must find and clear new pages. Writing to new
#   memory takes at least 1.5 times as long as writing to used memory.
# - **A narrow product**: the GEMM alone reaches less than three quarters of the peak. Its right matrix has
#   only 64 columns (*Further* shows why that is slow).
#
# The first two can be avoided. In the next version **every thread takes its own images** and unfolds only
# **a few output rows at a time**, into a small buffer that is used again and stays in the cache.


# %%
def conv_blocked(x, w, stride, pad, block_bytes=2**20):
    """im2col for a few output rows at a time; each thread has its own images."""
    N, Ho, Wo, K = shape = output_shape(x, w, stride, pad)
    y, weights = np.empty(shape, x.dtype), w.reshape(-1, K)
    rows = min(Ho, max(1, block_bytes // (Wo * len(weights) * x.itemsize)))

    def work(images):
        buffer = np.empty((rows * Wo, len(weights)), x.dtype)
        for n in images:
            windows = windows_of(x[n : n + 1], len(w), stride, pad)[0]
            for top in range(0, Ho, rows):
                block, out = windows[top : top + rows], y[n, top : top + rows]
                columns = buffer[: len(block) * Wo]
                np.copyto(columns.reshape(block.shape), block)
                np.matmul(columns, weights, out=out.reshape(-1, K))

    with blas.limit(limits=1):
        list(pool.map(work, np.array_split(np.arange(N), THREADS)))
    return y


# %% [markdown]
# ## 1.9 Six implementations, five layers
#
# The two slow ones process only part of a layer, and their time is scaled up by FLOPs: the loops on four
# output pixels of two filters, `einsum` on one image. **Predict**: which layers gain most from blocks?
# (Copying one number into the columns takes equally long in every layer. For how many FLOPs is it used?)


# %%
def implementations(layer, x, w):
    """{implementation: (call, its share of the layer's FLOPs)}"""
    s, p, side = layer.stride, layer.pad, layer.k + layer.stride
    few = 4 * 2 / (N * np.prod(layer.out) * layer.K)
    tx, tw = tf.constant(x), tf.constant(w)
    return {
        "loops": (lambda: conv_loops(x[:1, :side, :side], w[..., :2], s, 0), few),
        "einsum": (lambda: conv_einsum(x[:1], w, s, p), 1 / N),
        "im2col": (lambda: conv_im2col(x, w, s, p), 1),
        "shifted": (lambda: conv_shifted(x, w, s, p), 1),
        "blocked": (lambda: conv_blocked(x, w, s, p), 1),
        "TensorFlow": (lambda: conv_tensorflow(tx, tw, s, p), 1),
    }


# %% tags=["measured"]
check(conv_blocked)
measured = {}  # layer -> seconds: a row per repeat, a column per implementation
for layer in LAYERS:
    x, w = tensors(layer, N)
    calls = implementations(layer, x, w)
    print(f"{layer.name:15}", end=" ")
    times = benchmark({name: call for name, (call, _) in calls.items()})
    measured[layer.name] = times / [share for _, share in calls.values()]
median = pd.DataFrame({name: times.median() for name, times in measured.items()})
rates = work / median / 1e9
print("GFLOP/s, from the medians:")
display(rates.map("{:.3g}".format))

# %% tags=["measured"]
ratios = {n: t.rdiv(t["TensorFlow"], axis=0).median() for n, t in measured.items()}
table = pd.DataFrame(ratios).loc[["im2col", "shifted", "blocked"]]
table["geometric mean"] = np.exp(np.log(table).mean(axis=1))
gain = table.loc["blocked over im2col"] = table.loc["blocked"] / table.loc["im2col"]
print("fraction of TensorFlow's speed, median of the ratios within a repeat:")
display(table.round(2))
compare("im2col / TensorFlow", table.loc["im2col", "geometric mean"])
conv1, _, wide = gain.iloc[:3]
loops, einsum, columns = rates.loc[["loops", "einsum", "im2col"]].to_numpy()
claim("more than ten thousand times", min(rates.loc["blocked"] / loops) > 1e4)
claim("at least three times as fast per thread", min(columns / einsum) > 3 * THREADS)
claim("conv1 and the 3×3 on 56×56 pixels gain from blocks", min(conv1, wide) > 1)
claim("blocks change little on average", 0.8 < gain["geometric mean"] < 1.25)
slow = 1e9 * rates.loc["shifted", NAMES[0]] / roofline(intensities("shifted"))[0]
claim("within a factor of two of the prediction", 0.5 < slow < 2)

# %% [markdown]
# From the loops to blocks, every layer became faster by more than ten thousand times, in three stages:
#
# - **Out of the interpreter**: from the loops to any compiled code.
# - **Into the GEMM**: im2col is at least three times as fast per thread as compiled loops (`einsum`, which
#   uses one). This is the step of the paper of 2006. (Its 2.4 to 3.0 times are for a whole network.)
# - **Into the cache, on all threads**: conv1 and the 3×3 on 56×56 pixels gain from blocks, but blocks
#   change little on average. Each number of the columns is copied once and used for $2K$ FLOPs. With 256
#   filters copies matter less, and for the 1×1 layer im2col copies nothing. There blocks can even lose:
#   their products are smaller, and each thread has a fixed share of the images, so the slower thread
#   decides.
#
# As expected in 1.4, the shifted products are slow on conv1: **an inner dimension of 3 leaves too few
# FLOPs per byte**. Their time is within a factor of two of the prediction (1.7). The fractions of
# TensorFlow's speed hold for this machine; on other days they changed by a tenth or more.

# %%
fig, ax = plt.subplots(figsize=(8.6, 4.8))
reach = np.logspace(-0.6, 3.1, 200)
ax.loglog(reach, roofline(reach) / 1e9, "k-", marker="", label="roofline")
ax.axvline(RIDGE, color="0.5", ls=":", marker="", label=f"ridge, {RIDGE:.1f} FLOP/B")
marks = {"shifted": "v", "im2col": "s", "blocked": "o", "TensorFlow": "*"}
for method, mark in marks.items():
    ax.scatter(intensities(method), rates.loc[method], 80, palette[:5], marker=mark)
    ax.plot([], [], color="0.3", ls="", marker=mark, label=method)
for name, at, color in zip(NAMES, intensities("least"), palette, strict=False):
    side = {"rotation": 90, "ha": "right" if name == NAMES[0] else "left"}
    ax.text(at, 1.25 * PEAK / 1e9, name.split(" ", 1)[1], color=color, **side)
ax.set(xlabel="intensity / FLOP per byte", ylabel="GFLOP/s", ylim=(2, 6e-9 * PEAK))
ax.legend(loc="lower right")
plt.show()

# %% [markdown]
# *(Figure: the roofline, GFLOP/s against FLOP per byte, both logarithmic: it rises to the ridge, a dotted
# line, and is flat from there. Each layer has a colour, with its name above. Of each layer the shifted
# products are furthest left, then comes im2col, then (for the 1×1 layer at the same intensity) blocked and
# TensorFlow above each other. The lowest mark is that of conv1's shifted products.)*
#
# **The roofline states how fast a program may be, not how fast it is.** A mark may even lie a little above
# the line: peak and bandwidth are the best that *we measured*, and data that stay in a cache cost fewer
# bytes than 1.7 counts. For im2col, 1.8 found what it leaves out: copies on one thread before the product,
# new memory, a narrow product. A library for convolutions (oneDNN, which TensorFlow uses on most CPUs;
# cuDNN on GPUs) generates or selects code for *this* layer and *this* processor, and unfolds the windows
# only inside the cache or not at all (Chetlur et al. 2014: *implicit* GEMM).
#
# ## 1.10 The same GEMM on a GPU
#
# AlexNet's GPU, the GTX 580 of 2010, has 512 cores at 1.544 GHz, each with one multiply-add per cycle, and
# 192.4 GB/s (NVIDIA 2010). A processor of that time, the Core i7-960 of 2009, has four cores at 3.2 GHz,
# each with one multiplication and one addition of four lanes per cycle, and 32 GB/s.
#
# Data sheets state limits. Lee et al. (2010), at Intel, *measured* the i7-960 and NVIDIA's GTX 280 of 2008
# (622 GFLOP/s with one multiply-add per cycle, 141 GB/s), with code optimised for each. By its data sheet
# the GTX 280 has 6 times the i7-960's peak. **Guess** how many times as fast it was on a large GEMM.

# %%
guess("GEMM on the GTX 280 over the i7-960, measured", unit="×")
OF_THE_TIME = {  # peak in FLOP/s and bandwidth in bytes/s, by data sheet
    "Core i7-960, 2009": (4 * 3.2e9 * 4 * 2, 32e9),
    "GTX 580, 2010": (512 * 1.544e9 * 2, 192.4e9),
}
(cpu, cpu_bytes), (gpu, gpu_bytes) = OF_THE_TIME.values()
# Lee et al. (2010), table 3, as quoted by Hennessy and Patterson (2012), figure 4.30
LEE = {"GEMM": 3.9, "convolution of an image": 2.8, "bandwidth (SAXPY)": 5.3}
SHEETS = {"GTX 280, peak": 622e9 / cpu, "GTX 280, bandwidth": 141e9 / cpu_bytes}
SHEETS |= {"GTX 580, peak": gpu / cpu, "GTX 580, bandwidth": gpu_bytes / cpu_bytes}
# Lai and Seznec (2013): 90% of an upper bound of 82.5% of the GTX 580's peak
SGEMM = 0.9 * 0.825 * gpu

# %%
MEASURED = {f"GTX 280, {name}": times for name, times in LEE.items()}
MEASURED["GTX 580, GEMM, over the i7-960's peak"] = SGEMM / cpu
fig, ax = plt.subplots(figsize=(8.2, 3.9))
groups = ("data sheets", SHEETS, ""), ("measured", MEASURED, "//")
for (label, part, hatch), ec in zip(groups, palette, strict=False):
    look = {"color": "white", "ec": ec, "hatch": hatch, "label": label}
    drawn = ax.barh([*part], [*part.values()], **look)
    ax.bar_label(drawn, fmt="%.1f×", padding=3)
ax.invert_yaxis()
ax.set(xlabel="times the Core i7-960", xlim=(0, 18))
ax.legend(loc="center right")
plt.show()
compare("GEMM on the GTX 280 over the i7-960, measured", LEE["GEMM"])
claim("less than the data sheets promise", LEE["GEMM"] < SHEETS["GTX 280, peak"])
claim("bandwidth gained more than GEMM", LEE["bandwidth (SAXPY)"] > LEE["GEMM"])
claim("at least eleven times the GEMM", 11 < SGEMM / cpu < 12)

# %% [markdown]
# *(Figure: two groups of bars, times the Core i7-960. By data sheets the GTX 280 has 6.1 times the peak
# and 4.4 times the bandwidth, the GTX 580 15.4 and 6.0 times. Measured, hatched: on the GTX 280 GEMM 3.9,
# the convolution of an image 2.8, SAXPY 5.3; on the GTX 580 GEMM 11.5 times the peak of the i7-960.)*
#
# The GTX 280's measured GEMM is 3.9 times as fast, less than the data sheets promise, and its bandwidth
# gained more than GEMM. (Their convolution is one filter on one image, as in 1.1, not a layer.) Two years
# later the GTX 580 has at least eleven times the GEMM: Lai and Seznec (2013) measured its GEMM, and the
# i7-960 cannot exceed its own peak. What did this mean for training? (FLOPs: six per multiply-add of the
# forward pass.)

# %% tags=["measured"]
alexnet = 6 * 0.724e9 * 1.2e6 * 90  # FLOPs of 90 epochs
vgg = 6 * 19.6e9 * 1.28e6 * 50  # of 50
old, new = (alexnet / peak / 86400 for peak, _ in OF_THE_TIME.values())
print(f"AlexNet, days at the peak: i7-960 {old:.0f}, two GTX 580 {new / 2:.1f}")
print(f"VGG-19: {vgg / 6:.2e} multiply-adds forward, {vgg:.2e} FLOPs in all")
claim("at least nine times as long", old > 9 * 5.5)
claim("less than a third of their peak", new / 2 / 5.5 < 1 / 3)
both = max(peak / bandwidth for peak, bandwidth in OF_THE_TIME.values())
claim("to the right of both ridges", intensities("im2col").min() > both)
H100 = 989e12 / 3.35e12  # FLOP per byte; bfloat16 has half the bytes of float32
left = np.array(NAMES)[2 * intensities("least") < H100]
print(f"H100, ridge {H100:.0f} FLOP/B; to its left: {', '.join(left)}")
claim("three of our five layers lie to the left of its ridge", len(left) == 3)

# %% [markdown]
# **So why did GPUs make convolutional networks possible?** Not because they are made for convolutions.
# Written as a matrix product, a convolution has many FLOPs per byte: our layers, even with im2col, lie to
# the right of both ridges. So a good GEMM can reach a large fraction of the peak, on a CPU as well. **The
# matrix form came first and helped both; the GPU added a higher peak**, and a GEMM four (2008) to eleven
# (2010) times as fast. Two GTX 580 trained AlexNet in five to six days (Krizhevsky et al. 2012). One
# i7-960 would have needed at least nine times as long as the two, *at* its peak. (AlexNet's program did
# not use im2col, but its own convolution, which reached less than a third of their peak and needs no more
# bytes than im2col.)
#
# On a slide, training VGG for 50 epochs takes "more than 1 ExaFlop", with 19.6 GFLOP per image (Codreanu
# 2018). These 19.6 billion are *multiply-adds* of VGG-19 (He et al. 2016), and the slide counts the forward
# pass only: in FLOPs, with the backward pass, the number is six times as large.
#
# **Today** the ridge has moved. By its data sheet an H100 has 989 TFLOP/s in bfloat16 and 3.35 TB/s
# (NVIDIA 2023), and three of our five layers lie to the left of its ridge, even if nothing but images,
# weights and output is moved. There bandwidth limits their speed. So `torch.compile` and XLA fuse the
# operations between the products, and cuDNN does not write columns to memory. Transformers consist of the
# same GEMMs, without im2col.
#
# ## What was learned
#
# 1. A convolution layer is one GEMM of $(N H_o W_o) \times (k^2 C)$ by $(k^2 C) \times K$ (im2col), or
#    $k^2$ added GEMMs of inner dimension $C$ (shifted views).
# 2. Its backward pass is two GEMMs, each with as many FLOPs; `col2im` *adds* the copies.
# 3. FLOPs and bytes follow from the shapes. With peak and bandwidth they give the roofline: an upper limit.
# 4. Programs far below it lose time in the interpreter, in new memory, in copies that do not overlap with
#    the products, and in narrow products.
# 5. GPUs have a higher peak. Measure what fraction of it a program reaches.
#
# **Next.** Assignment 01, *Convolution as GEMM*, belongs to this lecture.
# **[02](02_networks_that_learn.ipynb)** trains a network of such layers,
# **[03](03_from_lenet_to_resnet.ipynb)** asks which layers a network needs, and
# **[04](04_one_device_fast.ipynb)** where the time of a training step goes.
#
# ## Further
#
# Nothing in the course requires this section.
#
# ### Exercises
#
# 1. A 3×3 convolution with stride 1 and padding has 256 channels and 256 filters, on 14×14 pixels. How
#    many FLOPs does it need for 8 images, and how many times larger than the images are its columns? What
#    changes for a *depthwise* 3×3 convolution, with one filter per channel?
#
# <details><summary>Answer</summary>
#
# 2 · 8 · 14² · 256 · 9 · 256 = 1.85 GFLOP; the columns are 9 times as large. Depthwise: each output needs 9
# multiply-adds instead of 2,304, so 7.2 MFLOP, for the same images and output: 3.2 MB, about 2.2 FLOP per
# byte. It lies to the left of the ridge of every machine in this lecture.
#
# </details>
#
# 2. im2col writes and reads the columns. For a stride of 1 and many channels and filters of equal number,
#    by what factor does it lower the arithmetic intensity at most? Why is the factor smaller for our
#    layers?
#
# <details><summary>Answer</summary>
#
# The images alone would be moved $1 + 2k^2$ times instead of once. With an output as large as the images
# the factor is at most $(2 + 2k^2)/2 = 1 + k^2$, 10 for a 3×3 convolution. It is smaller if the weights
# are a large part of the bytes, because im2col does not copy them.
#
# </details>
#
# 3. Winograd's algorithm needs 2.25 times fewer multiplications for a 3×3 convolution. We count the FLOPs
#    of the definition. Can its point lie above the roofline? Does that contradict the roofline?
#
# <details><summary>Answer</summary>
#
# Yes, it can, and no: the roofline limits the FLOPs that are *executed*. With the FLOPs of the definition
# the point can lie up to 2.25 times above the peak. So a speed in FLOP/s should say how the FLOPs were
# counted.
#
# </details>
#
# To try: measure the backward pass (is it twice the forward pass?); set `THREADS = 1` and run everything
# again (which implementations scale, and where does the ridge go?); on a machine with a GPU and PyTorch, run
# `python3 runs/01_conv_on_gpu.py --out gpu.json` in the folder `lectures/`. It measures these five layers.
# No run of it is recorded here.
#
# ### How large may the error of a gradient check be?
#
# "Compare with finite differences, the error should be small." *How* small? Take the loss $L = \sum r \sin
# y$ with random $r$, and take a step $h$ in a random direction $v$ of the images, forward and back:
#
# $$D(h) = \frac{L(x + hv) - L(x - hv)}{2h} = \langle \nabla L, v\rangle +
# \underbrace{\tfrac{h^2}{6} L'''}_{\text{truncation}} +
# \underbrace{\mathcal{O}\!\left(\tfrac{\varepsilon |L|}{h}\right)}_{\text{rounding}}$$
#
# The convolution is linear, so along $v$ the output is $y + h\,y_v$ with $y_v = \mathrm{conv}(v)$, and even
# $L'''$ can be written down: $-\sum r \cos(y)\, y_v^3$. So the error can be *predicted*, also for a
# gradient with the most common mistake: a `col2im` that assigns the copies instead of adding them.
# **Guess:** at which step $h$ is the check most accurate?

# %%
guess("best step h")
v = rng.standard_normal(x64.shape)
y, y_v = (conv_im2col(a, w64, 2, 1) for a in (x64, v))
r = rng.standard_normal(y.shape)
dx, dw = conv_backward(r * np.cos(y), x64, w64, 2, 1)
steps = np.logspace(-10, 0, 41)
scale = abs(np.vdot(dx, v))
truncation = steps**2 / 6 * abs(np.sum(r * np.cos(y) * y_v**3)) / scale
rounding = np.finfo(np.float64).eps * np.abs(r * np.sin(y)).sum() / steps / scale


def difference(h):
    """The central difference of L along v."""
    outputs = (conv_im2col(x64 + t * v, w64, 2, 1) for t in (h, -h))
    ahead, back = (np.sum(r * np.sin(y)) for y in outputs)
    return (ahead - back) / (2 * h)


# %% tags=["measured"]
taps = (r * np.cos(y)).reshape(-1, odd.K) @ w64.reshape(-1, odd.K).T
taps = taps.reshape(*y.shape[:3], 3, 3, odd.C)
wrong = np.zeros((2, odd.H + 2, odd.W + 2, odd.C))
for i in range(3):
    for j in range(3):  # should be +=
        rows = slice(i, i + 2 * y.shape[1], 2)
        wrong[:, rows, j : j + 2 * y.shape[2] : 2] = taps[:, :, :, i, j]
found = np.array([difference(h) for h in steps])
gradients = {"correct": dx, "wrong": wrong[:, 1:-1, 1:-1]}
errors = {name: np.abs(found - np.vdot(g, v)) / scale for name, g in gradients.items()}
compare("best step h", steps[errors["correct"].argmin()])
claim("the same error at every small step", np.ptp(errors["wrong"][steps < 1e-2]) < 0.01)
apart = errors["wrong"].min() / errors["correct"].min()
claim("more than a million times", apart > 1e6)

# %%
fig, ax = plt.subplots(figsize=(9, 3.8))
ax.loglog(steps, errors["correct"], ls="", label="measured: our dX")
ax.loglog(steps, errors["wrong"], ls="", label="measured: col2im assigns")
ax.loglog(steps, truncation, marker="", label="predicted truncation, $h^2 L'''/6$")
ax.loglog(steps, rounding, marker="", label=r"bound of rounding, $\varepsilon \sum |L_i| / h$")
ax.set(xlabel="step h", ylabel="relative error of the check", ylim=(1e-15, 10))
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: relative error against the step, both logarithmic. The correct gradient's points form a V: they
# fall below the bound of rounding on the left, and rise along the predicted truncation on the right. The
# wrong gradient's points lie on a horizontal line far above.)*
#
# The error of a *correct* gradient is predictable. A *wrong* gradient has the same error at every small
# step, here more than a million times the smallest error of the correct one. Check gradients in float64:
# in float32, whose $\varepsilon$ is $2^{29}$ times larger, small mistakes are hidden by rounding. If the
# loss is linear in the images, there is no truncation, and the largest step is the best.
#
# ### How much to unfold at a time
#
# Small blocks stay in the cache. Large ones need fewer calls of the BLAS, which rearranges *all the
# weights* in each call. Blocks are cut from one image, so the largest block is a whole image. **Guess**
# the best size for the 3×3 on 56×56 pixels. (How large is the second-level cache of a core?)

# %%
guess("best block for the 3x3 on 56 pixels", unit=" MiB")
speeds = {}
for layer in (LAYERS[2], LAYERS[3]):
    x, w = tensors(layer, N)
    row = 4 * layer.out[1] * layer.k**2 * layer.C  # bytes of one output row
    sizes = [rows * row for rows in (1, 2, 4, 7, 14, 28, 56) if rows <= layer.out[0]]
    convs = [lambda x=x, w=w, size=size: conv_blocked(x, w, 1, 1, size) for size in sizes]
    calls = {size / 2**20: conv for size, conv in zip(sizes, convs, strict=True)}
    print(f"{layer.name:15}", end=" ")
    speeds[layer.name] = layer.flops(N) / benchmark(calls) / 1e9

# %% tags=["measured"]
fig, ax = plt.subplots()
for name, speed in speeds.items():
    low, middle, high = (speed.quantile(q) for q in (0.25, 0.5, 0.75))
    spread = [middle - low, high - middle]
    ax.errorbar(speed.columns, middle, yerr=spread, capsize=3, label=name)
    best, last = middle.idxmax(), middle.iloc[-1]
    print(f"{name}: best with {best:.2f} MiB;", end=" ")
    print(f"a whole image, {speed.columns[-1]:.2f} MiB: {last / middle[best]:.0%} of that")
ax.axhline(BLAS_PEAK / 1e9, color="0.3", ls=":", marker="", label="peak of NumPy's BLAS")
ax.set_xscale("log", base=2)
ax.set(xlabel="columns in a block / MiB", ylabel="GFLOP/s", ylim=(0, None))
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
best = speeds["ResNet 3x3, 56"].median().idxmax()
compare("best block for the 3x3 on 56 pixels", best)
gains = {name: speed.iloc[:, 3] / speed.iloc[:, 0] for name, speed in speeds.items()}
for name, gain in gains.items():
    low, middle, high = gain.quantile([0.25, 0.5, 0.75])
    print(f"{name}: seven rows over one {middle:.2f}, quartiles {low:.2f} and {high:.2f}")
faster = all(gain.quantile(0.25) > 1 for gain in gains.values())
claim("blocks of seven rows are faster than blocks of one", faster)

# %% [markdown]
# *(Figure: GFLOP/s against the size of a block, for two layers, from one output row to a whole image,
# which is 7 MiB for the layer on 56×56 pixels and 1.7 MiB for the one on 14×14. Vertical bars extend over
# the middle half of the repeats. The printed lines state where each curve is highest. The dotted line is
# the peak of NumPy's BLAS.)*
#
# In both layers blocks of seven rows are faster than blocks of one, compared within each repeat: the
# weights, 0.1 and 2.4 MB, are rearranged for each call. The vertical bars show how well the other sizes
# can be distinguished.
#
# ### Why a narrow product does not reach the peak
#
# The innermost loop of a GEMM keeps a *tile* of $Y$ in registers, of $m$ rows and $v$ vectors. In each step
# it loads $v$ vectors of weights and $m$ numbers of the columns, and does $m v$ vector multiply-adds. A
# core can do two loads and two multiply-adds per cycle, and a sum is ready for its next term after four
# cycles. Which tile is the best with 16 registers?


# %%
def tile(m, v, registers=16, latency=4):
    """Fraction of the peak that an m x v tile allows; 2 loads, 2 FMAs per cycle."""
    if m * v + v + 1 > registers:  # the sums, the weights, one number of the columns
        return np.nan
    cycles = max(m * v / 2, (m + v) / 2, latency)  # FMAs, loads, waiting for the sums
    return m * v / 2 / cycles


tiles = pd.DataFrame({v: {m: tile(m, v) for m in (1, 2, 4, 6, 8)} for v in (1, 2, 3)})
tiles = tiles.rename_axis("rows").rename_axis("vectors", axis=1)
display(tiles.map(lambda part: "too large" if np.isnan(part) else f"{part:.0%}"))

# %% [markdown]
# A single sum waits for itself most of the time. The tile must be large enough to hide the waiting, and
# small enough for the registers. Around this kernel a GEMM cuts its operands into blocks for the caches
# and **packs** them: it copies both, block by block, into the order in which the kernel reads them (Goto
# and van de Geijn 2008). For that, each number of the columns is read and written once, 8 bytes, and then
# used for $K$ multiply-adds. So
#
# $$t \approx \frac{2 M D K}{\text{peak}} + \frac{8 M D}{\text{bandwidth}}$$
#
# for $M \times D$ columns: copying takes as long as multiplying at $K = 4 \cdot \text{ridge}$. **Guess**
# the fraction of the peak that is left at $K = 64$.

# %% tags=["measured"]
guess("of the peak of NumPy's BLAS, at K = 64", unit="%")
M, D, Ks = 16384, 9 * 64, 2 ** np.arange(0, 11)
A = rng.standard_normal((M, D), dtype=np.float32)
right = {K: rng.standard_normal((D, K), dtype=np.float32) for K in Ks}
outputs = {K: np.empty((M, K), np.float32) for K in Ks}
times = benchmark({K: lambda K=K: np.matmul(A, right[K], out=outputs[K]) for K in Ks}, repeats=7)
low, middle, high = (2 * M * D * Ks / times.quantile(q) / 1e9 for q in (0.75, 0.5, 0.25))
packing = 2 * Ks / (2 * Ks / BLAS_PEAK + 8 / BANDWIDTH) / 1e9
compare("of the peak of NumPy's BLAS, at K = 64", 100 * middle[64] / BLAS_PEAK * 1e9)
print(f"predicted at K = 64: {packing[6] / BLAS_PEAK * 1e9:.0%}")
claim("below the prediction for most widths", np.mean(middle < packing) > 0.5)
claim("at K = 1024 above three quarters of the peak", middle[1024] > 0.75e-9 * BLAS_PEAK)

# %%
fig, ax = plt.subplots(figsize=(8.2, 3.9))
ax.errorbar(Ks, middle, yerr=[middle - low, high - middle], ls="", marker="o", label="measured")
ax.plot(Ks, packing, marker="", ls="--", label="predicted: FLOPs at the peak, and packing")
ax.axhline(BLAS_PEAK / 1e9, color="0.2", ls=":", marker="", label="peak of NumPy's BLAS")
for K, names in {64: "both 56s", 256: "conv2\n3x3, 14"}.items():
    arrow = {"arrowprops": {"arrowstyle": "->"}, "ha": "center", "fontsize": 9}
    ax.annotate(names, (K, 0), (K, PEAK / 12e9), **arrow)
ax.set_xscale("log", base=2)
ax.set(xlabel="columns of the right matrix, K", ylabel="GFLOP/s", ylim=(0, None))
ax.set_title(f"{M} × {D} by {D} × K")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: GFLOP/s of a GEMM against its width K from 1 to 1024, with the dashed prediction and the dotted
# peak. Both rise with K. Arrows mark the K of our layers, 64 and 256.)*
#
# The model has the right shape but is too optimistic: the measured speed is below the prediction for most
# widths. Incomplete tiles and loading $Y$ cost time, too. Only wide products come near the peak: the speed
# is at K = 1024 above three quarters of the peak.
#
# ### Could the BLAS read the overlapping windows directly?
#
# Nearly. For one kernel row the windows are rows of $kC$ numbers that start $C$ apart (at stride 1): a
# matrix whose *leading dimension* is smaller than its number of columns. The BLAS does not allow that, and
# NumPy falls back to a slow loop of its own. But every $k$-th window, taken alone, forms a legal matrix,
# since these windows do not overlap. So a convolution can be computed without copies by $k \cdot k$ GEMMs
# of inner dimension $kC$.

# %% tags=["measured"]
line = rng.standard_normal(3002 * 64, dtype=np.float32)  # 3002 pixels, C = 64
overlapping = sliding_window_view(line, 3 * 64)[::64]  # windows of three pixels
filters = rng.standard_normal((192, 64), dtype=np.float32)
matrices = {"overlapping": overlapping, "copied": overlapping.copy()}
matrices["every third"] = overlapping[::3]
times = benchmark({name: lambda m=m: m @ filters for name, m in matrices.items()}, repeats=5)
speed = {name: 2 * m.size * 64 / times[name].median() / 1e9 for name, m in matrices.items()}
for name, m in matrices.items():
    print(f"{name:12} {m.shape!s:12} strides {m.strides!s:10} {speed[name]:6.1f} GFLOP/s")
claim("a slow loop of its own", speed["overlapping"] < 0.2 * speed["every third"])

# %% [markdown]
# ### Terms
#
# **Arithmetic intensity**: FLOPs per byte moved. **BLAS**: the interface of libraries for vectors and
# matrices. **FLOP**: one addition or multiplication of floating-point numbers; FLOP/s: their number per
# second. **FMA**: a multiplication and an addition in one instruction. **GEMM**: the product of two
# matrices. **im2col**: copying windows into the rows of a matrix. **Peak**, **bandwidth**, **ridge**: the
# highest FLOP/s and bytes/s, and their quotient. **SIMD lanes**: numbers that one instruction processes at
# once. **Stride**: pixels between neighbouring windows; in NumPy, bytes between neighbours in memory.
#
# ### Sources
#
# - Chellapilla et al. 2006: K. Chellapilla, S. Puri, P. Simard, *High performance convolutional neural
#   networks for document processing*, [HAL inria-00112631](https://hal.inria.fr/inria-00112631) (abstract):
#   the speed-ups of the introduction
# - Krizhevsky et al. 2012: A. Krizhevsky, I. Sutskever, G. Hinton, *ImageNet classification with deep
#   convolutional neural networks*, NeurIPS: AlexNet, its layers, two GTX 580, five to six days
# - Codreanu 2018: V. Codreanu, *Introduction to high-performance machine learning* (SURFsara, PRACE;
#   slides): the claims that are checked here ([claims table](CLAIMS.md))
# - Williams et al. 2009: S. Williams, A. Waterman, D. Patterson, *Roofline: an insightful visual
#   performance model for multicore architectures*, Communications of the ACM 52 (4): 1.7
# - Chetlur et al. 2014: S. Chetlur et al., *cuDNN: efficient primitives for deep learning*,
#   [arXiv:1410.0759](https://arxiv.org/abs/1410.0759): columns that are never written to memory, 1.9
# - Lee et al. 2010: V. W. Lee et al., *Debunking the 100X GPU vs. CPU myth*, ISCA,
#   [doi:10.1145/1816038.1816021](https://doi.org/10.1145/1816038.1816021): the i7-960 and the GTX 280, tables
#   2 and 3, read as quoted by Hennessy and Patterson 2012, *Computer Architecture*, 5th edition, figures 4.27
#   and 4.30: 1.10
# - Lai and Seznec 2013: J. Lai, A. Seznec, *Performance upper bound analysis and optimization of SGEMM on
#   Fermi and Kepler GPUs*, CGO, [hal-00789958](https://hal.inria.fr/hal-00789958) (abstract): GEMM on the GTX
#   580, 1.10
# - NVIDIA 2010: *GeForce GTX 580*, specifications · NVIDIA 2023: *H100 Tensor Core GPU*, data sheet (SXM;
#   bfloat16 without sparsity), read in secondary texts: 1.10
# - He et al. 2016: K. He, X. Zhang, S. Ren, J. Sun, *Deep residual learning for image recognition*, CVPR,
#   [arXiv:1512.03385](https://arxiv.org/abs/1512.03385): VGG-19's multiply-adds, 1.10
# - Goto and van de Geijn 2008: K. Goto, R. van de Geijn, *Anatomy of high-performance matrix
#   multiplication*, ACM Transactions on Mathematical Software 34 (3),
#   [doi:10.1145/1356052.1356053](https://doi.org/10.1145/1356052.1356053): packing, *Further*
# - OpenBLAS, [driver/others/blas_server.c](https://github.com/OpenMathLib/OpenBLAS/blob/develop/driver/others/blas_server.c):
#   `THREAD_TIMEOUT`, why `benchmark` pauses: 1.6
