# %% [markdown]
# # 1 · Convolution as GEMM
#
# **Why did GPUs make convolutional networks possible?**
#
# In 2006 Chellapilla, Puri and Simard unrolled the convolutions of a handwriting recogniser into matrix
# products. With a BLAS library on the CPU their network ran 2.4 to 3.0 times faster; on a GPU, 3.1 to 4.1
# times [1, abstract]. Six years later AlexNet was trained on two gaming cards [2], and a lecture of
# SURFsara's in the PRACE programme [3] calls the matrix form of convolution a "very important factor
# motivating early GPU usage". But in 2006 the CPU, too, had most of that gain. So what did the GPU bring?
#
# You will
#
# 1. write the convolution of a layer as *one matrix product* (GEMM, *general matrix multiply*, as the BLAS,
#    the *basic linear algebra subprograms*, call it) in two ways, and its backward pass as two more;
# 2. predict FLOPs, bytes and time from the shapes, before anything runs;
# 3. measure this machine's roofline, place every version of the code on it, and look inside the GEMM for
#    what is left;
# 4. answer the question with a processor and a graphics card of the same years.
#
# Notation: $N$ images, $C$ channels, $H \times W$ pixels, $K$ filters of $k \times k \times C$ weights,
# stride $s$, padding $p$. A multiply-add is **two** FLOPs.

# %%
import json
import os
import pathlib
import platform
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # read when TensorFlow is imported
os.environ["OPENBLAS_THREAD_TIMEOUT"] = "20"  # read when NumPy is imported; section 1.6 says why

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from IPython.display import display
from matplotlib import cbook
from numpy.lib.stride_tricks import sliding_window_view
from threadpoolctl import ThreadpoolController

from cluster.lecture import compare, guess

plt.style.use("cluster.course")
palette, rng = plt.rcParams["axes.prop_cycle"].by_key()["color"], np.random.default_rng(seed=1)

# %% [markdown]
# *On what* do we measure? NumPy hands its matrix products to a BLAS library, TensorFlow brings its own; both
# get two threads, where there are two cores.

# %% tags=["measured"]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
THREADS = min(2, CORES)
tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(1)
blas = ThreadpoolController().select(user_api="blas")
blas.limit(limits=THREADS)  # holds until something sets it again
pool = ThreadPoolExecutor(THREADS)

cpuinfo = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
facts = dict(re.findall(r"^(.+?)\s*: (.*)$", cpuinfo, re.MULTILINE))  # of the last core
CPU = facts.get("model name", platform.processor() or platform.machine())
CLOCK = 1e6 * float(facts.get("cpu MHz", 3000))  # Hz; where the system does not say: look yours up
clock = f"{CLOCK / 1e9:.2f} GHz" + ("" if "cpu MHz" in facts else " (assumed)")
libraries = [f"{b['internal_api']} {b['version']} ({b.get('architecture')})" for b in blas.info()]
print(f"CPU         {CPU} at {clock}, {CORES} cores; this lecture uses {THREADS} threads")
print(f"NumPy       {np.__version__} with {', '.join(libraries) or 'a BLAS whose threads cannot be set'}")
print(f"TensorFlow  {tf.__version__}, Python {platform.python_version()}, {platform.system()}")
if hasattr(os, "getloadavg"):
    load = os.getloadavg()[0]
    print(f"load        {load:.1f} programs wanted a core during the last minute")
    if load > CORES / 2:
        print("WARNING: the machine is busy. Come back when it is quiet.")

# %% [markdown]
# A load near zero is what you want.
#
# Before each measurement you are asked for a **guess**. Write a number into `guess`, or into the field below
# it; the cell that measures prints it beside the result.


# %%
def seconds(call):
    """Wall-clock seconds of one call, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


# %% [markdown]
# ## 1.1 One filter, one photograph
#
# Rear Admiral Grace Hopper, who wrote one of the first compilers, comes with matplotlib. In grey, she is a
# matrix of $H \times W$ numbers.

# %%
with cbook.get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file)  # (H, W, 3), 0 to 255
grey = (photo @ [0.299, 0.587, 0.114] / 255).astype(np.float32)  # luma weights of ITU-R BT.601
sobel_x = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=np.float32)
sobel_y = sobel_x.T
print(f"photo {photo.shape}, grey {grey.shape}, filter {sobel_x.shape}")

# %% [markdown]
# A **convolution** slides a small matrix of weights over the image. At every position it multiplies the
# weights with the pixels beneath and adds up:
#
# $$y_{h,w} = \sum_{i=0}^{k-1} \sum_{j=0}^{k-1} x_{h+i,\;w+j}\; w_{i,j}$$
#
# (Mathematicians flip the weights first, and call this one *cross-correlation*.) With Sobel's weights the sum
# is large where the image gets brighter from left to right. The definition in Python, and the same with the
# loops swapped: the two short ones outside, the two long ones as *one* operation on whole shifted images, in
# NumPy's compiled code.


# %%
def filter_loops(x, w):
    """x (H, W), w (k, k) -> (H-k+1, W-k+1)"""
    H, W, k = *x.shape, len(w)
    y = np.zeros((H - k + 1, W - k + 1), np.float32)
    for h in range(H - k + 1):
        for v in range(W - k + 1):
            for i in range(k):
                for j in range(k):
                    y[h, v] += x[h + i, v + j] * w[i, j]
    return y


def filter_vectorised(x, w):
    """The same sum: k² multiply-adds of whole, shifted images."""
    H, W, k = *x.shape, len(w)
    y = np.zeros((H - k + 1, W - k + 1), np.float32)
    for i in range(k):
        for j in range(k):
            y += x[i : i + H - k + 1, j : j + W - k + 1] * w[i, j]
    return y


# %% [markdown]
# **Guess:** how many times faster is `filter_vectorised`?

# %%
guess("vectorised over loops", unit="×")

# %% tags=["measured"]
slow, gx = seconds(lambda: filter_loops(grey, sobel_x))
fast, gx_fast = min((seconds(lambda: filter_vectorised(grey, sobel_x)) for _ in range(5)), key=lambda t: t[0])
assert np.allclose(gx, gx_fast, atol=1e-5)
adds = gx.size * sobel_x.size
for name, t in {"loops": slow, "vectorised": fast}.items():
    print(f"{name:10} {1e3 * t:8.1f} ms = {1e9 * t / adds:7.2f} ns for each multiply-add")
compare("vectorised over loops", slow / fast)

# %% [markdown]
# The arithmetic is the same. In the loops nearly all of each multiply-add is Python: looking up names,
# checking types, wrapping each pixel into an object. This *bookkeeping* comes back twice today.

# %%
gy = filter_vectorised(grey, sobel_y)
panels = {"x, the photograph": grey, "Sobel in x": gx, "Sobel in y": gy, "magnitude": np.hypot(gx, gy)}
fig, axes = plt.subplots(1, 4, figsize=(9.5, 3.1))
for ax, (title, image) in zip(axes, panels.items(), strict=True):
    edge = 0 if image.min() >= 0 else -2
    ax.imshow(image, cmap="gray", vmin=edge, vmax=1 if image is grey else 2)
    ax.set_title(title)
    ax.axis("off")

# %% [markdown]
# *(Figure: the photograph in grey, and three edge images of it. Sobel in x draws vertical edges, light on one
# side and dark on the other, such as the stripes of the hanging flag; Sobel in y horizontal ones, such as the
# brim of the cap; the magnitude draws both as a white outline of face, cap and uniform on black.)*
#
# Two hand-made filters make two feature maps. AlexNet's first layer has 96, on three channels, and learns
# them from a million photographs, seen ninety times each.
#
# ### A window is only a view
#
# NumPy's **strides** say how many bytes lie between neighbours along each axis. Two axes may use the same
# stride, so the array of *all windows* can be had without copying a pixel:

# %%
windows = sliding_window_view(grey, (3, 3))
print(f"image   {grey.shape!s:22} strides {grey.strides}")
print(f"windows {windows.shape!s:22} strides {windows.strides}")
print(f"the same memory: {np.shares_memory(grey, windows)};", end=" ")
print(f"{grey.nbytes / 1e6:.1f} MB pose as {windows.nbytes / 1e6:.1f} MB")
assert np.allclose(np.einsum("hvij,ij->hv", windows, sobel_x), gx, atol=1e-5)

# %% [markdown]
# ## 1.2 A layer
#
# A layer has $C$ channels in and $K$ filters out, and works on $N$ images at once:
#
# $$y_{n,h,w,f} = \sum_{i,j,c} x_{n,\;sh+i,\;sw+j,\;c}\; w_{i,j,c,f}, \qquad
#   H_o = \left\lfloor\frac{H + 2p - k}{s}\right\rfloor + 1$$
#
# Images are stored as `(N, H, W, C)`, channels last, weights as `(k, k, C, K)`, as in TensorFlow. Every
# output needs $k^2C$ multiply-adds, so before we have run anything we know
#
# $$\mathrm{FLOPs} = 2 \cdot N H_o W_o K \cdot k^2 C .$$


# %%
@dataclass(frozen=True)
class Layer:
    """A convolution layer: C channels of H x W pixels in, K filters of k x k, stride and padding."""

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
        return tuple((n + 2 * self.pad - self.k) // self.stride + 1 for n in (self.H, self.W))

    def flops(self, N):
        return 2 * N * self.out[0] * self.out[1] * self.K * self.k**2 * self.C


# %% [markdown]
# Five layers go with us, chosen to differ: AlexNet's first (few channels, a large kernel, stride 4) and
# second (which its authors split over their two GPUs; ours is whole); the 3×3 convolutions of a ResNet's
# second and fourth stages (many pixels and few channels, then the reverse); and the 1×1 of a bottleneck.

# %%
LAYERS = [
    Layer("AlexNet conv1", C=3, H=227, W=227, K=96, k=11, stride=4, pad=0),
    Layer("AlexNet conv2", C=96, H=27, W=27, K=256, k=5, stride=1, pad=2),
    Layer("ResNet 3x3, 56", C=64, H=56, W=56, K=64, k=3, stride=1, pad=1),
    Layer("ResNet 3x3, 14", C=256, H=14, W=14, K=256, k=3, stride=1, pad=1),
    Layer("ResNet 1x1, 56", C=256, H=56, W=56, K=64, k=1, stride=1, pad=0),
]
LAYER_NAMES = [layer.name for layer in LAYERS]
N = 8  # images; enough to fill two threads, few enough to wait for
table = pd.DataFrame(LAYERS).set_index("name")
table["output"] = [f"{layer.out[0]}×{layer.out[1]}×{layer.K}" for layer in LAYERS]
table["MFLOP an image"] = [round(layer.flops(1) / 1e6) for layer in LAYERS]
display(table)

# %% [markdown]
# ### Rung 0: seven loops


# %%
def tensors(layer, N, dtype=np.float32):
    """Random images (N, H, W, C) and weights (k, k, C, K), scaled so that outputs are near 1."""
    x = rng.standard_normal((N, layer.H, layer.W, layer.C)).astype(dtype)
    w = rng.standard_normal((layer.k, layer.k, layer.C, layer.K)) / np.sqrt(layer.k**2 * layer.C)
    return x, w.astype(dtype)


def pad_images(x, pad):
    """x (N, H, W, C) -> (N, H+2*pad, W+2*pad, C), zeros around"""
    return np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))) if pad else x


def conv_loops(x, w, stride, pad):
    """x (N, H, W, C), w (k, k, C, K) -> (N, Ho, Wo, K), by the definition; ndindex is four of the loops"""
    x, (k, _, C, K) = pad_images(x, pad), w.shape
    N, H, W, _ = x.shape
    y = np.zeros((N, (H - k) // stride + 1, (W - k) // stride + 1, K), x.dtype)
    for n, h, v, f in np.ndindex(y.shape):
        for i in range(k):
            for j in range(k):
                for c in range(C):
                    y[n, h, v, f] += x[n, stride * h + i, stride * v + j, c] * w[i, j, c, f]
    return y


# %% [markdown]
# Is it right? We ask TensorFlow, on a small layer with everything that can go wrong in it: a stride, padding,
# and an image that is not square.

# %% tags=["measured"]
odd = Layer("odd", C=3, H=7, W=9, K=4, k=3, stride=2, pad=1)
x_odd, w_odd = tensors(odd, 2)


def conv_tensorflow(x, w, stride, pad):
    """TensorFlow's own, on the same layout."""
    return tf.nn.conv2d(x, w, stride, [[0, 0], [pad, pad], [pad, pad], [0, 0]]).numpy()


def check(conv):
    """Compare with TensorFlow on the odd layer; print the largest difference in units of float32's ε."""
    error = np.abs(conv(x_odd, w_odd, 2, 1) - conv_tensorflow(x_odd, w_odd, 2, 1)).max()
    assert error < 1e-5, f"{conv.__name__} differs from TensorFlow by {error:.1e}"
    print(f"{conv.__name__}: largest difference {error / np.finfo(np.float32).eps:.1f} ε")


check(conv_loops)

# %% [markdown]
# **Predict** how long the loops take for eight images: FLOPs divided by the rate we saw on the photograph.
# Section 1.9 compares.

# %% tags=["measured"]
loop_rate = 2 * adds / slow  # FLOP/s of the Sobel loops
predicted_minutes = {layer.name: layer.flops(N) / loop_rate / 60 for layer in LAYERS}
for name, minutes in predicted_minutes.items():
    print(f"{name:15} {minutes:6.1f} minutes")

# %% [markdown]
# ### Rungs 1 and 2: a window at a time, all windows at once
#
# The three inner loops are a sum over the $k^2C$ numbers of one window, for every filter: a row vector times
# a matrix, $(k^2C) \times (k^2C \times K)$. One NumPy call does that, and the loop over output pixels remains
# in Python. Or `einsum` sums over three axes of the *view* of all windows, with no loop in sight.


# %% tags=["measured"]
def conv_pixels(x, w, stride, pad):
    """Rung 1: one vector-matrix product for each output pixel."""
    x, (k, _, _, K) = pad_images(x, pad), w.shape
    N, H, W, _ = x.shape
    y = np.empty((N, (H - k) // stride + 1, (W - k) // stride + 1, K), x.dtype)
    for n, h, v in np.ndindex(y.shape[:3]):
        window = x[n, stride * h : stride * h + k, stride * v : stride * v + k]  # (k, k, C)
        y[n, h, v] = window.reshape(-1) @ w.reshape(-1, K)
    return y


def conv_windows(x, w, stride, pad):
    """Rung 2: one einsum over the strided view of all windows."""
    k = w.shape[0]
    windows = sliding_window_view(pad_images(x, pad), (k, k), axis=(1, 2))
    return np.einsum("nhvcij,ijcf->nhvf", windows[:, ::stride, ::stride], w)  # (N, Ho, Wo, C, k, k)


check(conv_pixels)
check(conv_windows)

# %% [markdown]
# ## 1.3 im2col: spend memory to buy a GEMM
#
# Write every window out as a row. All rows make a matrix of $N H_o W_o \times k^2 C$ numbers, the *columns*
# (the name comes from MATLAB, whose `im2col` makes them columns). The weights are a matrix of $k^2 C \times
# K$ already. Then the whole layer, all images and all filters, is **one matrix product**.
#
# ![im2col for N = 2 images of 4 × 4 pixels and C = 2 channels, k = 3. Each image is drawn as two sheets, one
# for each channel, and holds four overlapping windows, outlined in different colour and dash. An arrow leads
# to the columns, a matrix of eight rows, N times the four windows of an image, and eighteen columns, k² times
# C: the two channels of a pixel are neighbours. The pixel f, in yellow, lies in all four windows and appears
# in four rows, on a diagonal. The columns times a matrix of eighteen by K = 3 weights, one column for each
# filter, are the output of eight rows and three columns.](figures/01_im2col.svg)


# %% tags=["measured"]
def im2col(x, k, stride, pad):
    """x (N, H, W, C) -> (N*Ho*Wo, k*k*C): every window a row"""
    windows = sliding_window_view(pad_images(x, pad), (k, k), axis=(1, 2))[:, ::stride, ::stride]
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[-1])  # a copy, unless k = 1


def output_shape(x, w, stride, pad):
    """(N, Ho, Wo, K)"""
    N, H, W, _ = x.shape
    return N, *((n + 2 * pad - w.shape[0]) // stride + 1 for n in (H, W)), w.shape[-1]


def conv_im2col(x, w, stride, pad):
    """Rung 3: one GEMM on the written-out windows."""
    columns = im2col(x, w.shape[0], stride, pad)
    return (columns @ w.reshape(-1, w.shape[-1])).reshape(output_shape(x, w, stride, pad))


check(conv_im2col)
columns = im2col(x_odd, 3, 2, 1)
print(f"{x_odd.shape} -> columns {columns.shape} @ weights {w_odd.reshape(-1, 4).shape}")

# %% [markdown]
# **Question.** How often does a pixel in the middle of the image appear in the columns? How much more memory
# do the columns of each layer need than the images? Which layer is hit hardest, which not at all?


# %%
def megabytes(layer, N):
    """Sizes of images, weights, output and columns in MB (10⁶ bytes of float32)."""
    pixels = N * layer.out[0] * layer.out[1]
    sizes = {
        "x": N * layer.H * layer.W * layer.C,
        "w": layer.k**2 * layer.C * layer.K,
        "y": pixels * layer.K,
        "columns": pixels * layer.k**2 * layer.C,
    }
    return {name: 4e-6 * size for name, size in sizes.items()}


memory = pd.DataFrame({layer.name: megabytes(layer, N) for layer in LAYERS}).T
memory["columns / x"] = memory["columns"] / memory["x"]
memory["(k/stride)²"] = [(layer.k / layer.stride) ** 2 for layer in LAYERS]
display(memory.round(1))  # MB, and two ratios
print(f"columns of AlexNet conv2 at batch 256: {megabytes(LAYERS[1], 256)['columns'] / 1e3:.1f} GB")

# %% [markdown]
# <details><summary>Answer</summary>
#
# With stride $s$ a pixel lies in about $(k/s)^2$ windows: the last two columns agree up to the borders.
# Conv2, with 5×5 and stride 1, is hit hardest. A 1×1 convolution needs no im2col at all: its images *are* the
# matrix.
# </details>
#
# The GTX 580, on which AlexNet was trained, came with 1.5 or 3 GB, for all layers together. One way out is to
# unfold a piece at a time (1.8). Another unfolds nothing.

# %% [markdown]
# ## 1.4 The same GEMMs with no im2col
#
# For each of the $k^2$ positions $(i, j)$ in the kernel, take the whole image
# *shifted* by $(i, j)$, multiply its $C$ channels by the $C \times K$ matrix $w_{ij}$, and add up.
#
# ![Shifted views: the same 4 × 4 image four times. In each, a 2 × 2 box of the size of the output is shaded:
# at the top left for shift (0, 0), one to the right for shift (0, 1), at the top right for (0, 2), and at the
# bottom right for (2, 2). Each box is multiplied by one weight, and the products are
# added.](figures/01_shifted.svg)


# %% tags=["measured"]
def conv_shifted(x, w, stride, pad):
    """Rung 4: k² accumulated GEMMs of inner dimension C, no columns."""
    x, (k, _, C, K) = pad_images(x, pad), w.shape
    N, H, W, _ = x.shape
    Ho, Wo = (H - k) // stride + 1, (W - k) // stride + 1
    y = np.zeros((N * Ho * Wo, K), x.dtype)
    for i in range(k):
        for j in range(k):
            shifted = x[:, i : i + stride * Ho : stride, j : j + stride * Wo : stride]  # (N, Ho, Wo, C)
            y += shifted.reshape(-1, C) @ w[i, j]
    return y.reshape(N, Ho, Wo, K)


check(conv_shifted)

# %% [markdown]
# Same FLOPs, little extra memory. But the one GEMM of inner dimension $k^2C$ has become $k^2$ GEMMs of inner
# dimension $C$, each adding to all of $y$. **Question:** for which of our five layers must this be bad?
#
# <details><summary>Answer</summary>
#
# AlexNet's conv1: $C = 3$, and $k^2 = 121$. Each GEMM does three multiply-adds for each number of $y$ that it
# loads and stores, 121 times over.
# </details>

# %% [markdown]
# ## 1.5 Backward: two more GEMMs
#
# Training needs the gradients of a loss $L$ with respect to weights and images. With the columns $\mathbf{X}$
# the layer is $\mathbf{Y} = \mathbf{X} \mathbf{W}$, and the rules of the matrix product do the rest:
#
# $$\frac{\partial L}{\partial \mathbf{W}} = \mathbf{X}^{\mathsf T}\, \frac{\partial L}{\partial \mathbf{Y}},
# \qquad
# \frac{\partial L}{\partial \mathbf{X}} = \frac{\partial L}{\partial \mathbf{Y}}\, \mathbf{W}^{\mathsf T}.$$
#
# Each has exactly the FLOPs of the forward product. One step is left: $\partial L/\partial\mathbf{X}$ is the
# gradient of the *columns*, and a pixel appears in many of them. Its gradient is the **sum** over all its
# copies. Putting the copies back and adding is `col2im`:


# %%
def col2im(columns, shape, k, stride, pad):
    """columns (N*Ho*Wo, k*k*C) -> images of `shape` (N, H, W, C); copies of a pixel are added up"""
    N, H, W, C = shape
    Ho, Wo = ((n + 2 * pad - k) // stride + 1 for n in (H, W))
    x = np.zeros((N, H + 2 * pad, W + 2 * pad, C), columns.dtype)
    taps = columns.reshape(N, Ho, Wo, k, k, C)
    for i in range(k):
        for j in range(k):
            x[:, i : i + stride * Ho : stride, j : j + stride * Wo : stride] += taps[:, :, :, i, j]
    return x[:, pad : pad + H, pad : pad + W]


def conv_backward(dy, x, w, stride, pad):
    """dy (N, Ho, Wo, K) -> dx like x, dw like w"""
    rows, W = dy.reshape(-1, dy.shape[-1]), w.reshape(-1, w.shape[-1])
    dw = im2col(x, w.shape[0], stride, pad).T @ rows
    return col2im(rows @ W.T, x.shape, w.shape[0], stride, pad), dw.reshape(w.shape)


# %% [markdown]
# Two tests. `col2im` is the *transpose* of `im2col` as a linear map, and a transpose
# $A^{\mathsf T}$ is known by one property: $\langle A x, c \rangle = \langle x, A^{\mathsf T} c \rangle$ for
# all $x$ and $c$. And TensorFlow has a derivative of its own, here of $L = \sum r \sin y$ with random $r$.

# %% tags=["measured"]
x64, w64 = tensors(odd, 2, np.float64)
c64 = rng.standard_normal(im2col(x64, 3, 2, 1).shape)
left, right = np.vdot(im2col(x64, 3, 2, 1), c64), np.vdot(x64, col2im(c64, x64.shape, 3, 2, 1))
print(f"<im2col x, c> = {left:.12f}\n<x, col2im c> = {right:.12f}")
assert np.isclose(left, right, rtol=1e-12)

y = conv_im2col(x64, w64, 2, 1)
r = rng.standard_normal(y.shape)
dx, dw = conv_backward(r * np.cos(y), x64, w64, 2, 1)
with tf.GradientTape() as tape:
    variables = tf.Variable(x64), tf.Variable(w64)
    output = tf.nn.conv2d(*variables, 2, [[0, 0], [1, 1], [1, 1], [0, 0]])
    loss = tf.reduce_sum(r * tf.sin(output))
for name, ours, theirs in zip(("dX", "dW"), (dx, dw), tape.gradient(loss, variables), strict=True):
    print(f"{name} {ours.shape!s:16} largest difference from TensorFlow: {np.abs(ours - theirs).max():.1e}")
    assert np.allclose(ours, theirs, atol=1e-12)

# %% [markdown]
# So a training step is three GEMMs of equal FLOPs, one forward and two backward: the **factor 3** that turns
# the FLOPs of a forward pass into those of training.

# %% [markdown]
# ## 1.6 Two numbers that describe a machine
#
# A processor computes and it fetches. For its **peak** we take the best large matrix product we can find, for
# its **bandwidth** a copy much larger than any cache. From here on every measurement is repeated, and the
# contestants take turns, so that a ratio can be taken *within* a repeat, under nearly equal conditions. We
# print minimum and quartiles, and a warning where the median is far above the minimum: then something else
# was using the machine.


# %%
def race(calls, repeats=9, pause=0.02):
    """{name: call} -> seconds: a row for each repeat, a column for each call, rested and warm."""
    rows = []
    for _ in range(repeats):
        row = {}
        for name, call in calls.items():
            if pause:
                time.sleep(pause)
                call()
            row[name] = seconds(call)[0]
        rows.append(row)
    return pd.DataFrame(rows)


def quartiles(values):
    """Minimum, lower quartile, median and upper quartile of each column, as rows."""
    return values.quantile([0, 0.25, 0.5, 0.75]).T.set_axis(["min", "25%", "median", "75%"], axis=1)


def warn(times, limit=1.5):
    """Print each column's median over its minimum; warn above `limit` (one core in place of two makes 2)."""
    ratios = times.median() / times.min()
    print("median over best:", ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items()))
    for name in ratios.index[ratios > limit]:
        print(f"WARNING: {name}: the median is {ratios[name]:.1f} times the best. Repeat on a quiet machine.")


# %% tags=["measured"]
n = 2048
a, c = rng.standard_normal((2, n, n), dtype=np.float32)
out, ta, tc = [np.empty_like(a) for _ in range(THREADS)], tf.constant(a), tf.constant(c)


def gemm_per_thread():
    """THREADS independent products, one BLAS thread each."""
    with blas.limit(limits=1):
        list(pool.map(lambda o: np.matmul(a, c, out=o), out))


layer_1x1 = tf.reshape(ta, (1, 32, n // 32, n)), tf.reshape(tc, (1, 1, n, n))  # its GEMM is this one
gemms = race(
    {
        "NumPy, threads share one GEMM": lambda: np.matmul(a, c, out=out[0]),
        "NumPy, a GEMM for each thread": gemm_per_thread,
        "TensorFlow's matmul": lambda: tf.matmul(ta, tc).numpy(),
        "TensorFlow's 1x1 convolution": lambda: tf.nn.conv2d(*layer_1x1, 1, "VALID").numpy(),
    }
)
gemms["NumPy, a GEMM for each thread"] /= THREADS  # seconds for one product
warn(gemms)
display((2 * n**3 / 1e9 / quartiles(gemms)).round(1).set_axis(["best", "75%", "median", "25%"], axis=1))
BLAS_PEAK = 2 * n**3 / gemms.iloc[:, :2].min().min()  # FLOP/s of NumPy's BLAS
PEAK = 2 * n**3 / gemms.min().min()  # a limit is what the machine can do when nothing is in its way

# %% [markdown]
# (GFLOP/s.) The threads of OpenBLAS *spin* when their GEMM is done, by default for about a tenth of a second
# [8], and whoever is measured next would share a core with them. The first cell's `OPENBLAS_THREAD_TIMEOUT`
# makes that less than a millisecond, and `race` pauses for longer.
#
# Does the peak make sense? A core of today issues two multiply-add instructions a cycle (it has two *FMA
# units*), and each works on a whole vector register of 4, 8 or 16 numbers (*SIMD lanes*). So
#
# $$\text{peak} = \text{cores} \times \text{GHz} \times \text{FMA units} \times \text{lanes} \times 2 .$$
#
# **Predict** the peak from the clock and from what you know of your processor. Which rows fit?

# %% tags=["measured"]
UNITS = 2  # FMA units of a core: most desktop and server cores since 2013; look yours up
widths = pd.DataFrame(index=["1 (scalar)", "4 (128 bits)", "8 (256 bits, AVX2)", "16 (512 bits, AVX-512)"])
widths.index.name = "lanes"
cycle = THREADS * UNITS * 2 * np.array([1, 4, 8, 16])  # FLOPs in a cycle
widths[f"GFLOP/s at {CLOCK / 1e9:.2f} GHz"] = cycle * CLOCK / 1e9
widths["GHz that NumPy's best would take"] = BLAS_PEAK / cycle / 1e9
widths["GHz that the best would take"] = PEAK / cycle / 1e9
display(widths.round(1))
print(f"measured: NumPy's BLAS {BLAS_PEAK / 1e9:.0f} GFLOP/s, the best {PEAK / 1e9:.0f} GFLOP/s")

# %% [markdown]
# The system often knows the base clock only, and busy cores may run above it. So look in each column for the
# row whose clock your processor can have, and at the architecture that NumPy's line above names for its BLAS:
# *Haswell* and *Zen* stand for kernels of 256 bits, *SkylakeX* and *Cooperlake* for 512. (A core that does a
# 512-bit instruction in two halves, such as AMD's Zen 4, belongs in the row of 256.)
#
# Now the bandwidth. A copy of $n$ bytes reads $n$ and writes $n$, so it moves at least $2n$. (Many processors
# also *read* the target before they overwrite it, which one does not see from here.)


# %% tags=["measured"]
def race_copies(size=2**26):
    """Seconds of copying `size` float32, 268 MB of them to as many, with one thread and with all."""
    source, target = np.ones(size, np.float32), np.zeros(size, np.float32)
    parts = list(zip(np.array_split(target, THREADS), np.array_split(source, THREADS), strict=True))
    calls = {
        "1 thread": lambda: np.copyto(target, source),
        "all threads": lambda: list(pool.map(lambda pair: np.copyto(*pair), parts)),
    }
    return race(calls, repeats=5)


copies = race_copies()
warn(copies)
display((8 * 2**26 / 1e9 / quartiles(copies)).round(1).set_axis(["best", "75%", "median", "25%"], axis=1))
BANDWIDTH = 8 * 2**26 / copies.min().min()  # bytes/s
RIDGE = PEAK / BANDWIDTH
print(f"peak {PEAK / 1e9:.0f} GFLOP/s, bandwidth {BANDWIDTH / 1e9:.0f} GB/s, ridge {RIDGE:.1f} FLOP per byte")
print(f"In the time of fetching one float32 from memory this machine does {4 * RIDGE:.0f} FLOPs.")

# %% [markdown]
# (GB/s.) One divided by the other is the **ridge**: how many FLOPs the machine can do in the time it takes to
# move one byte.

# %% [markdown]
# ## 1.7 Predict
#
# The **arithmetic intensity** of a program is its FLOPs divided by the bytes it must move to or from memory.
# The **roofline** [4] says: no program is faster than
#
# $$P = \min(\text{peak},\ \text{intensity} \times \text{bandwidth}).$$
#
# What must be moved? At the least, the images and weights in and the output out. im2col also writes the
# columns and reads them back. The shifted GEMMs move, for each of the $k^2$ taps, a view (read, write its
# copy, read that) and the output (write the product, read it, read and write $y$).


# %%
def traffic(layer, rung, N):
    """Bytes to and from memory, if nothing stays in a cache from one array operation to the next."""
    x, w, y, columns = (1e6 * size for size in megabytes(layer, N).values())
    view = layer.k == layer.stride == 1 and layer.pad == 0  # the images are the matrix: nothing is copied
    if rung == "im2col":
        return x + w + y + (0 if view else 2 * columns)
    if rung == "shifted":
        views = columns if view else 3 * columns  # the k² views together are as large as the columns
        return w + views + 4 * layer.k**2 * y
    return x + w + y


def intensities(rung):
    """FLOP per byte of each layer."""
    return np.array([layer.flops(N) / traffic(layer, rung, N) for layer in LAYERS])


def roofline(intensity, peak=None, bandwidth=None):
    """Attainable FLOP/s at an intensity in FLOP per byte; of this machine, if none is given."""
    return np.minimum(peak or PEAK, intensity * (bandwidth or BANDWIDTH))


# %% tags=["measured"]
prediction = pd.DataFrame(index=LAYER_NAMES)
work = np.array([layer.flops(N) for layer in LAYERS])
for rung in ("least", "im2col", "shifted"):
    prediction[f"{rung}: FLOP/B"] = intensities(rung)
for rung in ("least", "im2col", "shifted"):
    prediction[f"{rung}: ms"] = 1e3 * work / roofline(intensities(rung))
prediction["least / im2col"] = intensities("least") / intensities("im2col")
prediction["1 + 2 columns / x"] = 1 + 2 * memory["columns / x"]
display(prediction.round(1))
hit = [name for name in LAYER_NAMES if prediction.loc[name, "im2col: FLOP/B"] < RIDGE]
print(f"left of the ridge, {RIDGE:.1f} FLOP per byte, lies the im2col of: {', '.join(hit) or 'no layer'}")

# %% [markdown]
# What does im2col cost in intensity? The images alone would be moved $1 + 2k^2$ times instead of once at
# stride 1, since the columns are written *and* read: the last column. The column before it is smaller, since
# weights and output do not grow. And where a layer's im2col still lies right of the ridge, the model says
# that it costs **no time** here.
#
# **Guess:** im2col in NumPy reaches which fraction of the speed of TensorFlow's own convolution (oneDNN, on
# most CPUs), at the same number of threads? And the best NumPy you can imagine?

# %%
guess("im2col / TensorFlow")
guess("best NumPy / TensorFlow")

# %% [markdown]
# ## 1.8 Measure, and be surprised
#
# One layer first, the ResNet's 3×3 on 56×56 pixels. Where does im2col's time go: into writing the columns, or
# into the GEMM? The columns are written twice: as `im2col` does it, into an array of its own, and into memory
# that has been used before.

# %% tags=["measured"]
layer = LAYERS[2]
k, stride, pad = layer.k, layer.stride, layer.pad
x, w = tensors(layer, N)
columns, weights = im2col(x, k, stride, pad), w.reshape(-1, layer.K)
y = np.empty((len(columns), layer.K), np.float32)
view = sliding_window_view(pad_images(x, pad), (k, k), axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)
inside = race(
    {
        "columns, as im2col writes them": lambda: im2col(x, k, stride, pad),
        "columns, into used memory": lambda: np.copyto(columns.reshape(view.shape), view),
        "the GEMM": lambda: np.matmul(columns, weights, out=y),
    }
)
warn(inside)
parts = 1e3 * quartiles(inside)
parts["predicted"] = 1e3 * np.array([columns.nbytes / BANDWIDTH] * 2 + [layer.flops(N) / BLAS_PEAK])
display(parts.round(1))  # milliseconds
fresh, used, gemm = inside.median()
print(f"im2col spends {fresh / (fresh + gemm):.0%} of its time on writing the columns;")
print(f"into memory used before, the same copy takes {used / fresh:.0%} as long.")
print(f"The GEMM runs at {layer.flops(N) / gemm / BLAS_PEAK:.0%} of the peak of NumPy's BLAS.")

# %% [markdown]
# The model does not know that
#
# - the columns are *new memory* every time: the operating system must find and clear each page before its
#   first byte can be written (bookkeeping again);
# - **one** thread writes the columns, while the others wait for the GEMM;
# - the copy comes *first* and the GEMM after it: the model does count the columns' way into memory and
#   back, but the minimum in $P$ supposes that bytes move *while* FLOPs are done.
#
# On the next rung **every thread takes images of its own**, and unfolds only **a few output rows at a time**,
# into a small buffer that is used over and over and stays in the cache.


# %%
def block_rows(Ho, row_bytes, block_bytes=2 * 2**20):
    """How many of Ho output rows to unfold at a time, so that their columns fill about a block."""
    blocks = min(Ho, -(-Ho * row_bytes // block_bytes))
    return -(-Ho // blocks)


# %%
def conv_blocked(x, w, stride, pad, block_bytes=2 * 2**20):
    """Rung 5: im2col for a few output rows at a time in cache, each thread with images of its own."""
    (N, H, W, C), k, weights = x.shape, w.shape[0], w.reshape(-1, w.shape[-1])
    _, Ho, Wo, K = shape = output_shape(x, w, stride, pad)
    y, height = np.empty(shape, x.dtype), block_rows(Ho, Wo * k * k * C * x.itemsize, block_bytes)

    def work(images):
        padded = np.zeros((H + 2 * pad, W + 2 * pad, C), x.dtype)
        buffer = np.empty((height, Wo, k, k, C), x.dtype)
        windows = sliding_window_view(padded, (k, k), axis=(0, 1))[::stride, ::stride]
        windows = windows.transpose(0, 1, 3, 4, 2)  # (Ho, Wo, k, k, C), a view: it follows `padded`
        for n in images:
            padded[pad : pad + H, pad : pad + W] = x[n]
            for top in range(0, Ho, height):
                block = y[n, top : top + height]
                columns = buffer[: len(block)]
                np.copyto(columns, windows[top : top + len(block)])
                np.matmul(columns.reshape(-1, k * k * C), weights, out=block.reshape(-1, K))

    with blas.limit(limits=1):
        list(pool.map(work, np.array_split(np.arange(N), THREADS)))
    return y


# %% [markdown]
# How large should a block be? Small for the cache, large for the BLAS, which rearranges *all the weights* at
# each call. 1.13 measures it; we stay with 2 MiB.
#
# ## 1.9 The ladder
#
# All rungs, all five layers, TensorFlow beside them, in one run. One contestant is no convolution: *GEMMs
# alone* does the products of the blocked rung, block for block, on columns that lie ready. The three slow
# rungs run on a part, and their time is scaled up by FLOPs: the loops on four output pixels of two filters,
# the others on one image.


# %%
RUNGS = {
    "loops": conv_loops,
    "pixels": conv_pixels,
    "windows": conv_windows,
    "im2col": conv_im2col,
    "shifted": conv_shifted,
    "blocked": conv_blocked,
    "TensorFlow": conv_tensorflow,
}


def part(rung, layer, x, w):
    """What is measured of a slow rung: (x, w, pad) and its share of the layer's FLOPs."""
    if rung == "loops":
        side = layer.k + layer.stride  # four output pixels
        return (x[:1, :side, :side], w[..., :2], 0), 4 * 2 / (N * layer.out[0] * layer.out[1] * layer.K)
    if rung in ("pixels", "windows"):
        return (x[:1], w, layer.pad), 1 / N
    return (x, w, layer.pad), 1


# %%
def gemms_alone(layer):
    """A function that does the GEMMs of conv_blocked on N images, with the same blocks and threads."""
    (Ho, Wo), depth = layer.out, layer.k**2 * layer.C
    height = block_rows(Ho, Wo * depth * 4)
    columns = rng.standard_normal((THREADS, height * Wo, depth), dtype=np.float32)
    weights = rng.standard_normal((depth, layer.K), dtype=np.float32)
    y = np.empty((N, Ho, Wo, layer.K), np.float32)

    def work(thread, images):
        for n in images:
            for top in range(0, Ho, height):
                block = y[n, top : top + height].reshape(-1, layer.K)
                np.matmul(columns[thread, : len(block)], weights, out=block)

    def run():
        with blas.limit(limits=1):
            list(pool.map(work, range(THREADS), np.array_split(np.arange(N), THREADS)))

    return run


# %% tags=["measured"]
check(conv_blocked)
measured = {}  # name of a layer -> seconds for the whole layer, a row for each repeat, a column for each rung
for layer in LAYERS:
    x, w = tensors(layer, N)
    exact = conv_tensorflow(x.astype(np.float64), w.astype(np.float64), layer.stride, layer.pad)
    allowed = 10 * np.finfo(np.float32).eps * np.sqrt(layer.k**2 * layer.C)  # grows like a random walk
    calls, shares = {"GEMMs alone": gemms_alone(layer)}, {"GEMMs alone": 1}
    for rung, conv in RUNGS.items():
        (px, pw, pad), shares[rung] = part(rung, layer, x, w)
        if rung in ("im2col", "shifted", "blocked", "TensorFlow"):  # still the same convolution?
            assert np.abs(conv(px, pw, layer.stride, pad) - exact).max() < allowed, (layer.name, rung)
        if rung == "TensorFlow":
            px, pw = tf.constant(px), tf.constant(pw)
        calls[rung] = lambda conv=conv, a=px, b=pw, s=layer.stride, p=pad: conv(a, b, s, p)
    slow = {rung: calls.pop(rung) for rung in ("loops", "pixels", "windows")}
    times = race(slow, repeats=3).join(race(calls, repeats=15), how="outer")
    print(f"{layer.name:15} measured; im2col, shifted, blocked and TensorFlow agree with float64")
    warn(times)
    measured[layer.name] = (times / pd.Series(shares))[[*RUNGS, "GEMMs alone"]]

# %% tags=["measured"]
median = pd.DataFrame({layer.name: measured[layer.name].median() for layer in LAYERS})  # seconds
rates = np.array([layer.flops(N) for layer in LAYERS]) / median / 1e9  # GFLOP/s, rungs by layers
print("GFLOP/s, from the medians:")
display(rates.map("{:.3g}".format))
if rates.max(axis=None) > 1.3 * PEAK / 1e9:
    print("WARNING: far above the measured peak. The machine was busy while 1.6 measured it: run all again.")


def share(rungs):
    """Of TensorFlow's speed, in each repeat: the geometric mean over {layer: rung}."""
    logs = [np.log(measured[name]["TensorFlow"] / measured[name][rung]) for name, rung in rungs.items()]
    return np.exp(sum(logs) / len(logs))


best = median.drop(["TensorFlow", "GEMMs alone"]).idxmin()
of_tensorflow = pd.DataFrame(
    {rung: share(dict.fromkeys(LAYER_NAMES, rung)) for rung in ("im2col", "blocked")}
)
of_tensorflow["best NumPy"] = share(best)
print("share of TensorFlow's speed, paired within each repeat:")
display(quartiles(of_tensorflow).assign(max=of_tensorflow.max()).round(2))
compare("im2col / TensorFlow", round(of_tensorflow["im2col"].median(), 1))
compare("best NumPy / TensorFlow", round(of_tensorflow["best NumPy"].median(), 1))

# %% [markdown]
# The quartiles tell how well the repeats of *one* run agree. Run the lecture again and the share moves by
# more than that: memory is laid out anew each time, and the clock follows the temperature. (Executions on
# two-core machines so far gave 0.7 to 1.0 for the best NumPy, which these same medians choose for each layer:
# that flatters it a little.) It moves further between machines: where 1.6 finds TensorFlow with wider
# registers than the BLAS, expect about the ratio of their peaks less. Say one digit, and on which machine.

# %%
LOOKS = list(zip(palette[:5], "os^Dv", strict=True))  # colour and marker of each layer
fig, ax = plt.subplots(figsize=(8.2, 4.2))
for i, rung in enumerate(RUNGS):
    for offset, layer, (colour, marker) in zip(np.linspace(-0.24, 0.24, 5), LAYERS, LOOKS, strict=True):
        low, middle, high = layer.flops(N) / measured[layer.name][rung].quantile([0.75, 0.5, 0.25]) / 1e9
        style = {"color": colour, "marker": marker, "ms": 6, "ls": "", "capsize": 2}
        label = layer.name if i == 0 else None
        ax.errorbar(middle, i + offset, xerr=[[middle - low], [high - middle]], label=label, **style)
    mean = np.exp(np.log(rates.loc[rung]).mean())
    ax.plot([mean, mean], [i - 0.38, i + 0.38], color="0.2", ls="-", marker="", lw=1.5)
ax.axvline(PEAK / 1e9, color="0.2", ls=":", label="peak")
ax.set_yticks(range(len(RUNGS)), RUNGS)
ax.set(xscale="log", xlabel="GFLOP/s (stroke: geometric mean of the five layers)")
ax.set_title("Seven ways to the same numbers")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: GFLOP/s on a logarithmic axis, a row of five markers for each rung from loops up to TensorFlow.
# Loops lie orders of magnitude to the left; windows lies left of pixels; im2col, shifted and blocked stand
# closer to the dotted line of the peak, and TensorFlow closest. Shifted is scattered widely, with conv1 far
# behind.)*

# %% tags=["measured"]
heights = np.exp(np.log(rates).mean(axis=1))
print(f"from the loops to the blocked rung: a factor of {heights['blocked'] / heights['loops']:,.0f}")
minutes = median.loc["loops"] / 60 / pd.Series(predicted_minutes)
print(f"loops: {minutes.min():.1f} to {minutes.max():.1f} times the minutes that the photograph predicted")
gain = rates.loc["im2col"] / rates.loc["windows"]
print(f"im2col and GEMM over einsum's compiled loops: {gain.min():.0f}× to {gain.max():.0f}×")
ratio = rates.loc["pixels"] / rates.loc["windows"]
print(f"Python's loop over pixels over einsum with no loop: {ratio.min():.1f}× to {ratio.max():.1f}×")

# %% [markdown]
# Three jumps. **Out of the interpreter**, from the loops to any compiled call. (A multiply-add in Python
# costs much the same in any loop, so the photograph predicts their minutes within a factor of about two.)
# **Into the GEMM**, from windows to im2col. And, where there are columns to save, **into the cache, on all
# threads**, from im2col to blocked: look at which layers it helps.
#
# - The second jump is of the kind that the 2006 paper made, but the numbers cannot be compared: theirs is a
#   whole network against C loops.
# - A Python loop over every pixel can beat *no loop in sight*, because BLAS does its inner product.
# - Shifted GEMMs on conv1 are as bad as one had to fear: the *inner dimension* decides.
#
# ## 1.10 On the roofline, and inside the GEMM

# %%
fig, ax = plt.subplots(figsize=(8.6, 4.9))
reach = np.logspace(-0.6, 3.1, 200)
ax.loglog(reach, roofline(reach) / 1e9, color="black", marker="", ls="-")
ax.loglog(reach, roofline(reach, BLAS_PEAK) / 1e9, color="0.5", marker="", ls="--", label="NumPy's BLAS")
ax.axvline(RIDGE, color="0.5", ls=":", marker="")
ax.text(RIDGE, PEAK / 700e9, f" ridge\n {RIDGE:.1f} FLOP/B", color="0.3", fontsize=9)
shown = {"shifted": "v", "im2col": "s", "blocked": "o", "TensorFlow": "*"}
places = np.array([intensities(rung) for rung in shown])  # rungs by layers
for i, (name, colour) in enumerate(zip(LAYER_NAMES, palette, strict=False)):
    ax.plot(places[:3, i], rates.loc[[*shown][:3], name], color=colour, ls="-", marker="", lw=1)
    for rung, at in zip(shown, places[:, i], strict=True):
        face = "white" if rung in ("shifted", "im2col") else colour
        style = {"marker": shown[rung], "ms": 11 if rung == "TensorFlow" else 7, "mfc": face, "color": colour}
        label = rung if i == 0 else None
        ax.plot(at, rates.loc[rung, name], ls="", label=label, **style)
    turned = {"rotation": 90, "ha": "right" if "conv1" in name else "left", "va": "bottom"}
    ax.text(places[-1, i], 1.3 * PEAK / 1e9, name.split(" ", 1)[1], color=colour, fontsize=9.5, **turned)
ax.set(xlabel="arithmetic intensity / FLOP per byte", ylabel="GFLOP/s", ylim=(PEAK / 1e12, 6 * PEAK / 1e9))
ax.set_title(f"Five layers under one roof ({THREADS} threads)")
ax.legend(loc="lower right")
plt.show()

# %% [markdown]
# *(Figure: roofline, GFLOP/s against FLOP per byte, both logarithmic: a slanted line up to the ridge, then
# a flat roof; dashed and no higher, that of NumPy's BLAS. Each layer has a colour and its name above the
# roof. Thin lines lead from blocked, near the flat roof, to im2col, further left, and to the shifted GEMMs,
# further left still; those of conv1 lie by far the lowest, at the slanted part.)*
#
# - The loops have the intensity of blocked, and lie orders of magnitude below the frame: the roofline says
#   how fast a program *may* be.
# - im2col and the shifted GEMMs move to the left. On the flat part it is not the memory that holds them, but
#   copies on one thread, additions and narrow GEMMs.
# - A dot above the roof breaks no law. Above the slanted part, more stayed in the caches than our formula
#   allows; above the flat part, a kernel is better than the best GEMM we measured.
#
# ### From the cache to the registers
#
# Why does a GEMM come near the peak, and why do ours not? Think of the innermost loop. It holds a *tile* of
# $Y$ in registers, of $m$ rows and $v$ vectors. In each step it loads $v$ vectors of weights and $m$ numbers
# of the columns, and does $m v$ vector multiply-adds. A core can do two loads and two multiply-adds a cycle,
# and a sum is ready for its next term after four cycles. **Which tile is the best with 16 registers?**


# %%
def tile(m, v, registers=16, latency=4):
    """Share of the peak that an m x v tile of vector sums allows; 2 loads, 2 FMAs a cycle."""
    if m * v + v + 1 > registers:  # the sums, the weights, one number of the columns
        return np.nan
    cycles = max(m * v / 2, (m + v) / 2, latency)  # a step: FMAs, loads, and waiting for the sums
    return m * v / 2 / cycles


tiles = pd.DataFrame({f"{v} vectors": {f"{m} rows": tile(m, v) for m in (1, 2, 4, 6, 8)} for v in (1, 2, 3)})
display(tiles.map(lambda share: "too large" if np.isnan(share) else f"{share:.0%}"))

# %% [markdown]
# A single sum, the definition's way, waits for itself most of the time. The tile must be large enough to hide
# the waiting and small enough for the registers: kernels for AVX2 use tiles such as 6×2 and 4×3 vectors.
#
# Around this kernel a GEMM blocks for the caches and **packs**: it copies both operands, block by block, into
# the order in which the kernel reads them [5]. That is bookkeeping again. A number of the columns is read and
# written once for it, 8 bytes, and then serves $K$ multiply-adds. So
#
# $$t \approx \frac{2 M D K}{\text{peak}} + \frac{8 M D}{\text{bandwidth}}$$
#
# for $M \times D$ columns: copying takes as long as multiplying at $K = 4 \cdot \text{ridge}$. Peak and
# ridge are here those of *NumPy's BLAS*: take its peak from 1.6 and divide by the bandwidth. **Guess** from
# that ridge: which share of the peak is left at $K = 64$?

# %% tags=["measured"]
M, D, Ks = 16384, 9 * 64, 2 ** np.arange(0, 11)
A = rng.standard_normal((M, D), dtype=np.float32)
right = {K: rng.standard_normal((D, K), dtype=np.float32) for K in Ks}
products = {K: np.empty((M, K), np.float32) for K in Ks}
times = race({K: lambda K=K: np.matmul(A, right[K], out=products[K]) for K in Ks}, repeats=7)
low, middle, high = (2 * M * D * Ks / times.quantile(q) / 1e9 for q in (0.75, 0.5, 0.25))
packing = 2 * Ks / (2 * Ks / BLAS_PEAK + 8 / BANDWIDTH) / 1e9

fig, ax = plt.subplots(figsize=(8.2, 3.9))
ax.errorbar(Ks, middle, yerr=[middle - low, high - middle], ls="", marker="o", label="measured")
ax.plot(Ks, packing, marker="", ls="--", label="predicted: FLOPs at peak, and packing")
ax.axhline(BLAS_PEAK / 1e9, color="0.2", ls=":", marker="", label="peak of NumPy's BLAS")
ax.axvline(4 * BLAS_PEAK / BANDWIDTH, color="0.5", ls="-.", marker="", lw=1, label="K = 4 × its ridge")
for K, names in {64: "both 56s", 256: "conv2\n3x3, 14"}.items():
    ax.annotate(names, (K, 0), (K, PEAK / 12e9), ha="center", fontsize=9, arrowprops={"arrowstyle": "->"})
ax.set_xscale("log", base=2)
ax.set(xlabel="columns of the right matrix, K", ylabel="GFLOP/s", ylim=(0, None))
ax.set_title(f"A wider and wider GEMM: {M} × {D} by {D} × K")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
shares = middle[64] / BLAS_PEAK * 1e9, packing[6] / BLAS_PEAK * 1e9
print(f"K = 64: {shares[0]:.0%} of the peak of NumPy's BLAS, predicted {shares[1]:.0%}")

# %% [markdown]
# *(Figure: GFLOP/s of a GEMM against its width K from 1 to 1024. The dashed prediction rises slowly, passes
# half the peak at K = 4 times the ridge, and comes near the peak at the right end; the measured points rise
# with it and lie below it nearly everywhere, most in the middle. Arrows mark the K of our layers, 64 and
# 256.)*
#
# The model gives the shape and flatters: the points stay below it, most where a GEMM is a few vectors wide.
# Packing is not all that a narrow GEMM pays; tiles at the edge and the loading of $Y$ come on top. Our layers
# stand where this still costs.

# %%
looks = {"im2col": "s", "blocked": "o", "GEMMs alone": "D", "TensorFlow": "*"}
fig, ax = plt.subplots(figsize=(8.2, 3.7))
for i, (name, marker) in enumerate(looks.items()):
    for j, layer in enumerate(LAYERS):
        low, middle, high = measured[layer.name][name].quantile([0.25, 0.5, 0.75]) * PEAK / layer.flops(N)
        style = {"color": palette[i], "marker": marker, "ms": 10 if marker == "*" else 7, "ls": ""}
        label = name if j == 0 else None
        ax.errorbar(
            j + 0.16 * (i - 1.5), middle, yerr=[[middle - low], [high - middle]], label=label, **style
        )
ax.axhline(PEAK / BLAS_PEAK, color="0.5", ls="--", marker="", label="at the peak of NumPy's BLAS")
ax.axhline(1, color="black", ls=":", marker="", label="all FLOPs at peak")
ax.set_xticks(range(5), [layer.name.replace(" ", "\n", 1) for layer in LAYERS])
ax.set(
    ylabel="time / (FLOPs / peak)", ylim=(0, None), title="Where the rest goes (1 = perfect, lower is better)"
)
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: for each layer four markers of time, in units of the time that its FLOPs take at peak. im2col is
# the highest for conv1 and for the 3×3 at 56 pixels; for the others it and the blocked rung lie close, and
# for the 1×1 blocked may be the higher, for there im2col copies nothing. The GEMMs alone lie below blocked
# or, within the bars, at its height, and TensorFlow lowest or near it. A dashed line marks the peak of
# NumPy's BLAS, a dotted one at 1 the machine's.)*
#
# Read this figure by its bars, from quartile to quartile, above all where 1.9 printed a warning. Between
# im2col and blocked: copies through memory, on one thread. Between blocked and its GEMMs alone: the copies
# that are left. From there to the dashed line: **inside the BLAS**, packing and narrow tiles. And where the
# dashed line lies above the dotted one, registers that the BLAS does not use. A library for convolutions
# (oneDNN, which TensorFlow uses on most CPUs) generates a kernel for *this* layer and *this* processor, packs
# the weights once, and reads the windows straight from the image: there are no columns at all. NVIDIA's cuDNN
# has the same idea for GPUs, the *implicit* GEMM [6].
#
# ## 1.11 The same GEMM on a GPU
#
# Back to the question. AlexNet's card, the GTX 580 of 2010, has 512 cores at 1.544 GHz, each with one
# multiply-add a cycle, and 192.4 GB/s [9]. Set it beside a processor of its own years: the Core i7-960 of
# 2009, four cores at 3.2 GHz, each with one multiplication and one addition of four lanes a cycle, and 32
# GB/s; Lee et al. [7, table 2] compared it with the GTX 280 of 2008.
#
# **Guess:** how many times the FLOP/s, how many times the bandwidth? What does that do to the ridge?

# %%
guess("FLOP/s of the GTX 580 over the i7-960", unit="×")
guess("bandwidth of the GTX 580 over the i7-960", unit="×")

# %% tags=["measured"]
OF_THE_TIME = {  # peak in FLOP/s and bandwidth in bytes/s, by data sheet
    "Core i7-960, 2009": (4 * 3.2e9 * 4 * 2, 32e9),
    "GTX 580, 2010": (512 * 1.544e9 * 2, 192.4e9),
}
training = 3 * 2 * 19.6e9 * 1.28e6 * 50  # FLOPs: forward, dW and dX; VGG-19's multiply-adds, images, epochs
machines = pd.DataFrame(OF_THE_TIME | {f"this CPU, {THREADS} threads, measured": (PEAK, BANDWIDTH)}).T
machines.columns = ["GFLOP/s", "GB/s"]
machines["ridge / FLOP per B"] = machines["GFLOP/s"] / machines["GB/s"]
machines["days for VGG"] = training / machines["GFLOP/s"] / 86400
alexnet = 3 * 2 * 0.724e9 * 1.2e6 * 90  # the same of AlexNet; lecture 03 counts its multiply-adds
machines["days for AlexNet"] = alexnet / machines["GFLOP/s"] / 86400
machines[["GFLOP/s", "GB/s"]] /= 1e9
display(machines.round(1))
(cpu, cpu_bytes), (gpu, gpu_bytes) = OF_THE_TIME.values()
compare("FLOP/s of the GTX 580 over the i7-960", gpu / cpu)
compare("bandwidth of the GTX 580 over the i7-960", gpu_bytes / cpu_bytes)
print(f"VGG for 50 epochs: {training / 6:.2e} multiply-adds forward, {training:.2e} FLOPs for the training")
on_two = alexnet / (2 * gpu) / 86400
print(f"AlexNet: {on_two:.1f} days at the peak of two cards, {on_two / 5.5:.0%} of five and a half days")

# %% [markdown]
# A data sheet's numbers are limits that no program reaches: after tuning *both*, Lee et al.
# found the GTX 280 2.5 times faster on average over fourteen kernels. The last columns are what a peak buys.
# A slide of SURFsara's says that training VGG for 50 epochs on ImageNet takes "more than 1 ExaFlop", with
# 19.6 GFLOP an image. But 19.6 billion is what He et al. [10] give for VGG-19, in *multiply-adds*, and the
# slide counts the forward pass only.

# %%
fig, ax = plt.subplots(figsize=(8.6, 4.4))
reach = np.logspace(-0.5, 3.2, 200)
for (name, (peak, bandwidth)), style in zip(OF_THE_TIME.items(), ("-", "--"), strict=True):
    ax.loglog(reach, roofline(reach, peak, bandwidth) / 1e9, ls=style, marker="", label=name)
for name, at in zip(LAYER_NAMES, intensities("least"), strict=True):
    roofs = [roofline(at, *machine) / 1e9 for machine in OF_THE_TIME.values()]
    ax.plot([at, at], roofs, color="0.4", ls=":", marker="o", mfc="white", ms=7)
    side = "right" if "conv1" in name else "left"
    ax.text(at, roofs[0] / 1.3, name, rotation=90, fontsize=9, va="top", ha=side)
for at, ratio in ((0.6, gpu_bytes / cpu_bytes), (1100, gpu / cpu)):
    low, high = (roofline(at, *machine) / 1e9 for machine in OF_THE_TIME.values())
    ax.annotate("", (at, high), (at, low), arrowprops={"arrowstyle": "<->"})
    ax.text(at * 1.08, np.sqrt(low * high), f"{ratio:.1f}×", fontsize=13)
ax.set(xlabel="arithmetic intensity / FLOP per byte", ylabel="attainable GFLOP/s", ylim=(8, 3000))
ax.set_title("Two roofs of the same years")
ax.legend(loc="upper left")
plt.show()

# %% [markdown]
# *(Figure: the rooflines of the Core i7-960 and of the GTX 580, each slanted and then flat; the card's lies
# above on both parts, by the ratio of the bandwidths and by that of the peaks, and its ridge further right.
# Dotted lines lift each of the five layers from the lower flat roof to the upper one: all lie to the right of
# both ridges.)*
#
# So, **why did GPUs make convolutional networks possible?** Not because they convolve well. A convolution,
# written out, *is* a matrix product: many FLOPs for each byte. Our layers, even unfolded (1.7), lie to the
# right of both ridges, so what counts is the flat roof, and there the card is ahead by more than in
# bandwidth. The matrix form came first and helped the CPU just as well; what the GPU added is the height of
# its roof, to a program that had already been brought beneath it. This answer rests on data sheets: no card
# of those years ran here. But one training did: AlexNet's 90 epochs took five to six days on two cards [2],
# and the line below the table says which share of their roof that is. The i7-960 would have needed the days
# of its row *at* its peak. (AlexNet's program, cuda-convnet, did not unfold but convolved directly. The many
# FLOPs for each byte are the convolution's, in whichever form.) Where the GEMM gets narrow or the batch
# small, the ridge takes the gain back: the subject of lecture 04.
#
# ## What was learned
#
# 1. A convolution layer is one GEMM of $(N H_o W_o) \times (k^2 C)$ by $(k^2 C) \times K$ (im2col), or $k^2$
#    accumulated GEMMs of inner dimension $C$ (shifted views).
# 2. Its backward pass is two GEMMs of the same FLOPs; `col2im` *adds*.
# 3. FLOPs and bytes follow from the shapes. im2col divides the intensity by less than $1 + 2k^2$, since
#    weights and output do not grow.
# 4. Peak and bandwidth give the roofline. What lies far below it pays for interpreter, new pages, packing.
# 5. Peak is cores × clock × FMA units × lanes × 2. A GEMM reaches it with tiles in registers, and only where
#    it is wide enough to pay for its packing.
#
# **Open questions.** (a) With Winograd's algorithm a 3×3 convolution needs 2.25 to 4 times fewer
# multiplications. Can it lie above the roof? (b) What should a chip for CNNs have more of, FLOP/s or
# bandwidth? (c) At batch 1 our blocked rung leaves all threads but one idle. How would you share out one
# image?
#
# Next: **02, networks that learn**, builds a network from such layers. **03, from LeNet to ResNet**, asks
# which layers. Assignment 01, *Convolution as GEMM*, belongs to this lecture.

# %% [markdown]
# ## Further
#
# ### 1.12 How large may the error of a gradient check be?
#
# "Compare with finite differences, the error should be small." *How* small? Take the loss $L = \sum r \sin y$
# of 1.5, go a step $h$ in a random direction $v$ of the images, forward and back:
#
# $$D(h) = \frac{L(x + hv) - L(x - hv)}{2h} = \langle \nabla L, v\rangle +
# \underbrace{\tfrac{h^2}{6} L'''}_{\text{truncation}} +
# \underbrace{\mathcal{O}\!\left(\tfrac{\varepsilon |L|}{h}\right)}_{\text{rounding}}$$
#
# The convolution is linear, so along $v$ the output is $y + h\,y_v$ with $y_v = \mathrm{conv}(v)$, and even
# $L'''$ can be written down: $-\sum r \cos(y)\, y_v^3$. So we can *draw the error before we measure it*.
# **Guess:** at which step $h$ is the check sharpest, and how sharp?

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

# %% [markdown]
# And a gradient that is *wrong* in the most popular way: `col2im` that assigns the copies in place of adding
# them.


# %% tags=["measured"]
def difference(h):
    """The central difference of L along v."""
    ahead, back = (np.sum(r * np.sin(conv_im2col(x64 + t * v, w64, 2, 1))) for t in (h, -h))
    return (ahead - back) / (2 * h)


taps = ((r * np.cos(y)).reshape(-1, odd.K) @ w64.reshape(-1, odd.K).T).reshape(*y.shape[:3], 3, 3, odd.C)
wrong = np.zeros((2, odd.H + 2, odd.W + 2, odd.C))
for i in range(3):
    for j in range(3):
        wrong[:, i : i + 2 * y.shape[1] : 2, j : j + 2 * y.shape[2] : 2] = taps[:, :, :, i, j]  # should be +=
wrong = wrong[:, 1:-1, 1:-1]

found = np.array([difference(h) for h in steps])
errors = {name: np.abs(found - np.vdot(g, v)) / scale for name, g in {"right": dx, "wrong": wrong}.items()}
compare("best step h", steps[errors["right"].argmin()])

# %%
fig, ax = plt.subplots(figsize=(9, 3.8))
ax.loglog(steps, errors["right"], ls="", label="measured: our dX")
ax.loglog(steps, errors["wrong"], ls="", label="measured: col2im assigns, does not add")
ax.loglog(steps, truncation, marker="", label="predicted truncation, $h^2 L'''/6$")
ax.loglog(steps, rounding, marker="", label=r"predicted rounding (bound), $\varepsilon \sum |L_i| / h$")
ax.set(
    xlabel="step h",
    ylabel="relative error of the check",
    ylim=(1e-15, 10),
    title="What a gradient check can see",
)
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: relative error against the step, both logarithmic. The right gradient's points form a V: they fall
# along the predicted rounding line from the left, and rise along the predicted truncation line to the right,
# with the tip between. The wrong gradient's points lie on a horizontal line far above.)*
#
# The error of a *right* gradient is predictable: on the right branch theory and measurement agree to the
# thickness of the marker, on the left one the bound holds. A *wrong* gradient does not care about $h$: a
# horizontal line is the signature of a bug. In float32 the V would be so shallow (its $\varepsilon$ is
# $2^{29}$ times larger) that small bugs drown: **check gradients in float64**, with a step near
# $\varepsilon^{1/3}$.
#
# <details><summary>What would the plot look like for the loss L = ⟨r, y⟩, without the sine?</summary>
#
# That loss is linear in the images, so there is no truncation at all: the right branch disappears, and the
# best step is the largest. People who check their convolution with a linear loss and a tiny $h$ measure their
# rounding error.
# </details>
#
# ### 1.13 How much to unfold at a time
#
# The cache says: small blocks. The BLAS, which packs all the weights at each call, says: large ones.
# **Predict** where the best size lies (look up your processor's L2 cache), then look:

# %%
sizes = 2.0 ** np.arange(-3, 6)  # MiB
contest = {}
for layer in (LAYERS[2], LAYERS[3]):
    x, w = tensors(layer, N)
    calls = {
        mib: lambda x=x, w=w, s=layer.stride, p=layer.pad, b=int(mib * 2**20): conv_blocked(x, w, s, p, b)
        for mib in sizes
    }
    contest[layer.name] = race(calls, repeats=7)

# %%
fig, ax = plt.subplots()
for layer in (LAYERS[2], LAYERS[3]):
    low, middle, high = (layer.flops(N) / contest[layer.name].quantile(q) / 1e9 for q in (0.75, 0.5, 0.25))
    ax.errorbar(sizes, middle, yerr=[middle - low, high - middle], label=layer.name)
ax.axhline(BLAS_PEAK / 1e9, color="0.3", ls=":", marker="", label="peak of NumPy's BLAS")
ax.set_xscale("log", base=2)
ax.set(
    xlabel="size of a block of columns / MiB",
    ylabel="GFLOP/s",
    ylim=(0, None),
    title="How much to unfold at a time",
)
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: GFLOP/s against the size of a block, for two layers. Both curves rise from the small blocks on the
# left; from one or two MiB on they change by little more than their bars are long, below the dotted line of
# the peak.)*
#
# One expects a hump: small enough for the cache, large enough for the BLAS. Look at its two sides. Calling
# the BLAS too often costs much. Leaving the second-level cache costs less where a large third-level cache
# catches what falls out: is the fall on the right longer than the bars?
#
# ### 1.14 A recorded run on a GPU of today
#
# If this lecture holds a recorded run of the same five layers on a GPU, it is replayed here. "float32" below
# is arithmetic like this CPU's; TF32 and bfloat16 are products of *shorter* numbers on units of their own,
# the Tensor Cores of lecture 04.

# %%
record = pathlib.Path("runs/01_conv_on_gpu.json")
run = json.loads(record.read_text()) if record.exists() else None
if run:
    assert run["layers"] == [asdict(layer) for layer in LAYERS], "recorded for other layers: record it again"
    m = run["machine"]
    print(f"RECORDED RUN of {run['date'][:10]} on one {m['gpu']} ({m['memory_GiB']:.0f} GiB)")
    print(f"PyTorch {m['torch']}, CUDA {m['cuda']}, cuDNN {m['cudnn']}, driver {m['driver']}")
    print(f"{run['command']}\ncode {run['code_sha256'][:12]}, {run['arguments']['repeats']} repeats")
    for precision, gemm in run["limits"]["gemm"].items():
        print(f"{precision}: GEMM {gemm['flop_per_s'] / 1e12:.1f} TFLOP/s")
    print(f"copy: {run['limits']['copy']['bytes_per_s'] / 1e9:.0f} GB/s")
else:
    print("No recorded run. On a machine with a GPU and PyTorch, in the folder lectures/:")
    print(f"  python3 runs/01_conv_on_gpu.py --out {record}")

# %%
if run:
    gpu_rate = {
        (r["layer"], r["batch"], r["method"], r["precision"]): r["flops"] / r["median_s"] / 1e9
        for r in run["rows"]
    }
    times_faster = pd.DataFrame(index=LAYER_NAMES)
    for batch in (min(run["arguments"]["batches"]), max(run["arguments"]["batches"])):
        for method in ("im2col", "shifted", "cudnn"):
            gpu = [gpu_rate[name, batch, method, "fp32"] for name in LAYER_NAMES]
            times_faster[f"{method}, N={batch}"] = gpu / rates.loc["TensorFlow"]
    print(f"float32, {m['gpu']}: times the FLOP/s of TensorFlow on this CPU, {THREADS} threads, N={N}")
    display(times_faster.round(1))

# %% [markdown]
# ### 1.15 Could the BLAS read the overlapping windows directly?
#
# Nearly. For one kernel row the windows are rows of $kC$ numbers that start $C$ apart (at stride 1): a matrix
# whose *leading dimension* is smaller than its number of columns. BLAS forbids that, and NumPy falls back to
# a slow loop of its own. But every $k$-th window alone is a legal matrix, since these do not overlap. So
# there is a convolution of $k \cdot k$ GEMMs of inner dimension $kC$ that copies nothing. Its products must
# be *added* to $y$, though, which BLAS can do ($\beta = 1$) and NumPy's interface to it cannot (exercise 5).

# %% tags=["measured"]
line = rng.standard_normal(3002 * 64, dtype=np.float32)  # a row of 3002 pixels, C = 64
overlapping = sliding_window_view(line, 3 * 64)[::64]  # (3000, 192): windows of three pixels
filters = rng.standard_normal((192, 64), dtype=np.float32)
matrices = {"overlapping": overlapping, "copied": overlapping.copy(), "every third": overlapping[::3]}
times = race({name: lambda m=m: m @ filters for name, m in matrices.items()})
for name, m in matrices.items():
    speed = 2 * m.size * filters.shape[1] / times[name].median() / 1e9
    print(f"{name:12} {m.shape!s:12} strides {m.strides!s:10} {speed:6.1f} GFLOP/s")

# %% [markdown]
# ### Exercises
#
# 1. Which of the five layers would suffer most from a ridge ten times as high? Predict it from the table in
#    1.7.
# 2. Measure the backward pass. Is it twice the forward pass, as the FLOPs say? Where does `col2im` lie on the
#    roofline?
# 3. Change `THREADS` and run everything again. Which rungs scale, which do not, and where does the ridge go?
# 4. Store the images as `(N, C, H, W)` and write `conv_blocked` for that layout. How long are the runs now?
# 5. Find `cblas_sgemm` in NumPy's own BLAS with `ctypes`, and write the convolution of 1.15 that copies
#    nothing. When does it win against `conv_blocked`?
# 6. Take the line with `OPENBLAS_THREAD_TIMEOUT` out, set `pause=0`, restart and run all. Which contestants
#    suffer, which *seem* to win, and does the warning notice?
# 7. Redo the table of tiles for the 32 registers of AVX-512 and of Arm's 64-bit processors.
#
# ### Sources
#
# 1. K. Chellapilla, S. Puri, P. Simard, *High performance convolutional neural networks for document
#    processing*, 2006, [HAL inria-00112631](https://hal.inria.fr/inria-00112631).
# 2. A. Krizhevsky, I. Sutskever, G. Hinton, *ImageNet classification with deep convolutional neural
#    networks*, NeurIPS 2012: AlexNet, its layers and its two cards.
# 3. V. Codreanu, *Deep learning* (SURFsara, PRACE): the slides whose claims are checked here
#    ([ledger](CLAIMS.md)).
# 4. S. Williams, A. Waterman, D. Patterson, *Roofline: an insightful visual performance model for multicore
#    architectures*, Communications of the ACM 52 (4), 2009.
# 5. K. Goto, R. van de Geijn, *Anatomy of high-performance matrix multiplication*, ACM Transactions on
#    Mathematical Software 34 (3), 2008,
# [doi:10.1145/1356052.1356053](https://doi.org/10.1145/1356052.1356053).
# 6. S. Chetlur et al., *cuDNN: efficient primitives for deep learning*,
#    [arXiv:1410.0759](https://arxiv.org/abs/1410.0759), 2014.
# 7. V. W. Lee et al., *Debunking the 100X GPU vs. CPU myth*, ISCA 2010,
#    [doi:10.1145/1816038.1816021](https://doi.org/10.1145/1816038.1816021). Its table 2 is also figure 4.27
#    of Hennessy and Patterson, *Computer Architecture*, 5th edition, which notes that these bandwidths are
#    those of the pins.
# 8. OpenBLAS, [driver/others/blas_server.c](https://github.com/OpenMathLib/OpenBLAS/blob/develop/driver/others/blas_server.c):
#    `THREAD_TIMEOUT`, the logarithm of the ticks.
# 9. NVIDIA, *GeForce GTX 580*, specifications, 2010.
# 10. K. He, X. Zhang, S. Ren, J. Sun, *Deep residual learning for image recognition*, CVPR 2016,
#     [arXiv:1512.03385](https://arxiv.org/abs/1512.03385).
