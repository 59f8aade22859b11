# %% [markdown]
# # 1 · Convolution as GEMM
#
# **Why did GPUs make convolutional networks possible?**
#
# In 2006, Chellapilla, Puri and Simard wrote the convolutions of a handwriting recogniser as matrix products.
# With a BLAS library on the *CPU* their network ran 2.4 to 3.0 times faster; on a GPU, 3.1 to 4.1 times ([HAL
# inria-00112631](https://hal.inria.fr/inria-00112631), abstract). Six years later AlexNet was trained on two
# gaming cards. A lecture of SURFsara's in the PRACE programme calls the matrix form of convolution a "very
# important factor motivating early GPU usage". Look at the two pairs of numbers again: on the *CPU*, the
# matrix form alone won most of the race. So what exactly did the GPU bring? At the end of this lecture we
# answer with the roofline measured here, with a data sheet and, where there is one, with a recorded run on a
# GPU.
#
# We aim at
#
# 1. defining the convolution of a layer, and writing it as **one matrix product** (GEMM, *general matrix
#    multiply*, as the BLAS, the *basic linear algebra subprograms*, call it) in two ways;
# 2. writing its **backward pass** as two more GEMMs, and knowing how small the error of a gradient check must
#    be;
# 3. **predicting** FLOPs, bytes and time from the shapes, before anything runs;
# 4. **measuring** this machine's roofline, and placing every version of the code on it;
# 5. coming from seven nested loops to the neighbourhood of a vendor's library, and saying what each step was
#    worth.
#
# Notation, here and in all ten lectures: $N$ images, $C$ channels, $H \times W$ pixels, $K$ filters of $k
# \times k \times C$ weights, stride $s$, padding $p$. A multiply-add is **two** FLOPs: numbers of FLOPs count
# it twice, numbers of multiply-adds once.

# %%
import json
import os
import pathlib
import platform
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

plt.style.use("cluster.course")
palette = plt.rcParams["axes.prop_cycle"].by_key()["color"]
rng = np.random.default_rng(seed=1)

# %% [markdown]
# Before we measure anything: *on what*? NumPy hands its matrix products to a BLAS library, TensorFlow brings
# its own. Both get the same number of threads, or the comparison would be worth nothing. Two are enough to
# see everything this lecture is about, and every laptop has them.

# %%
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
THREADS = min(2, CORES)
tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(1)
blas = ThreadpoolController().select(user_api="blas")
blas.limit(limits=THREADS)  # holds until something sets it again
pool = ThreadPoolExecutor(THREADS)

# %% tags=["measured"]
CPU = platform.processor() or platform.machine()
if os.path.exists("/proc/cpuinfo"):
    with open("/proc/cpuinfo") as lines:
        CPU = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), CPU)
libraries = [f"{b['internal_api']} {b['version']} ({b.get('architecture')})" for b in blas.info()]
print(f"CPU         {CPU}, {CORES} cores; this lecture uses {THREADS} threads")
print(f"NumPy       {np.__version__} with {', '.join(libraries) or 'a BLAS whose threads cannot be set'}")
print(f"TensorFlow  {tf.__version__}, Python {platform.python_version()}, {platform.system()}")
if hasattr(os, "getloadavg"):
    print(f"load        {os.getloadavg()[0]:.1f} programs wanted a core during the last minute")

# %% [markdown]
# A load near zero is what you want. Where other programs compete for the cores, the times below get longer
# and their spread wider, and the contestants suffer unequally: come back when the machine is quiet.
#
# You will be asked to **guess before you measure**. Write your guess into the cell (a number in place of
# `None`); the cell that measures will hold it against you. A prediction that turns out wrong teaches more
# than a measurement that nobody had an opinion on.

# %%
guesses = {}


def compare(question, measured, unit=""):
    """Print a measured number beside what was guessed for it."""
    guess = guesses.get(question)
    said = "you wrote down no guess" if guess is None else f"you guessed {guess:.3g}{unit}"
    print(f"{question}: measured {measured:.3g}{unit}; {said}")


# %% [markdown]
# ## 1.1 One filter, one photograph
#
# Rear Admiral Grace Hopper, who wrote one of the first compilers, comes with matplotlib. In grey, she is a
# matrix of $H \times W$ numbers.

# %%
with cbook.get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file)  # (H, W, 3), 0 to 255
grey = (photo @ [0.299, 0.587, 0.114] / 255).astype(np.float32)  # luma weights of ITU-R BT.601
print(f"photo {photo.shape}, grey {grey.shape}")

# %% [markdown]
# A **convolution** slides a small matrix of weights over the image. At every position it multiplies the
# weights with the pixels beneath and adds up:
#
# $$y_{h,w} = \sum_{i=0}^{k-1} \sum_{j=0}^{k-1} x_{h+i,\;w+j}\; w_{i,j}$$
#
# (Mathematicians flip the weights first and call this one *cross-correlation*. A network that learns its
# weights does not care, and in deep learning the unflipped sum has taken the name.) With Sobel's weights, the
# sum is large where the image gets brighter from left to right: it finds vertical edges. The definition, in
# Python:

# %%
sobel_x = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=np.float32)
sobel_y = sobel_x.T


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


# %% [markdown]
# Now swap the loops. The two short ones ($i, j$) go outside, and the two long ones become *one* operation on
# whole shifted images, done by NumPy's compiled code. Same multiplications, same additions.


# %%
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
guesses["vectorised over loops"] = None


def seconds(call):
    """Wall-clock seconds of one call, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


# %% tags=["measured"]
slow, gx = seconds(lambda: filter_loops(grey, sobel_x))
fast, gx_fast = min((seconds(lambda: filter_vectorised(grey, sobel_x)) for _ in range(5)), key=lambda t: t[0])
assert np.allclose(gx, gx_fast, atol=1e-5)
adds = gx.size * sobel_x.size
for name, t in {"loops": slow, "vectorised": fast}.items():
    print(f"{name:10} {1e3 * t:8.1f} ms = {1e9 * t / adds:7.2f} ns for each multiply-add")
compare("vectorised over loops", slow / fast, "×")

# %% [markdown]
# Nothing about the arithmetic changed. In the loops nearly all of each multiply-add is Python: looking up
# names, checking types, wrapping each pixel into an object. The arithmetic hides behind the *bookkeeping*:
# keep this in mind, because it comes back twice more today, each time in another disguise.
#
# And the picture:

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
# side and dark on the other; Sobel in y horizontal ones, such as the stripes of the flag; the magnitude draws
# both as a white outline of face, cap and uniform on black.)*
#
# Two hand-made filters make two feature maps. AlexNet's first layer has 96 filters, and it learns them: the
# first step from *computer vision by hand* to *deep learning* is to stop choosing the nine numbers. But 96
# filters on three channels, for a million photographs, ninety times over: now the nanoseconds count.
#
# ### A window is only a view
#
# There is a third way to write it, and it is the door to everything below. NumPy's **strides** say how many
# bytes lie between neighbours along each axis. An axis may use any stride, even one that another axis uses
# already. So the array of *all windows* can be had without copying a single pixel:

# %%
windows = sliding_window_view(grey, (3, 3))
print(f"image   {grey.shape!s:22} strides {grey.strides}")
print(f"windows {windows.shape!s:22} strides {windows.strides}")
print(f"the same memory: {np.shares_memory(grey, windows)};", end=" ")
print(f"{grey.nbytes / 1e6:.1f} MB pose as {windows.nbytes / 1e6:.1f} MB")
assert np.allclose(np.einsum("hvij,ij->hv", windows, sobel_x), gx, atol=1e-5)

# %% [markdown]
# The sum over a window is now an inner product of its last two axes with the weights. One `einsum`, no loop
# in sight.

# %% [markdown]
# ## 1.2 A layer
#
# A layer has $C$ channels in and $K$ filters out, and works on $N$ images at once:
#
# $$y_{n,h,w,f} = \sum_{i,j,c} x_{n,\;sh+i,\;sw+j,\;c}\; w_{i,j,c,f}, \qquad
#   H_o = \left\lfloor\frac{H + 2p - k}{s}\right\rfloor + 1$$
#
# Images are stored as `(N, H, W, C)`, channels last, weights as `(k, k, C, K)`: TensorFlow's layout, and we
# shall see that it is a lucky one. Every output needs $k^2C$ multiply-adds, so before we have run anything we
# know
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
# second; the 3×3 convolutions of a ResNet's second and fourth stages (many pixels and few channels, then the
# reverse); and the 1×1 of a bottleneck. AlexNet's authors split conv2 in two halves over their two GPUs; ours
# is whole.

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


# %%
def tensors(layer, N, dtype=np.float32):
    """Random images (N, H, W, C) and weights (k, k, C, K), scaled so that outputs are near 1."""
    x = rng.standard_normal((N, layer.H, layer.W, layer.C)).astype(dtype)
    w = rng.standard_normal((layer.k, layer.k, layer.C, layer.K)) / np.sqrt(layer.k**2 * layer.C)
    return x, w.astype(dtype)


def pad_images(x, pad):
    """x (N, H, W, C) -> (N, H+2*pad, W+2*pad, C), zeros around"""
    return np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))) if pad else x


# %% [markdown]
# ### Rung 0: seven loops


# %%
def conv_loops(x, w, stride, pad):
    """x (N, H, W, C), w (k, k, C, K) -> (N, Ho, Wo, K), by the definition"""
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
# (`np.ndindex` is four of the seven.) Is it right? We ask somebody else: TensorFlow, on a small layer with
# everything that can go wrong in it, a stride, padding, and an image that is not square.

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

# %% tags=["measured"]
loop_rate = 2 * adds / slow  # FLOP/s of the Sobel loops
for layer in LAYERS:
    work = layer.flops(N)
    print(f"{layer.name:15} {work / 1e9:5.2f} GFLOP   {work / loop_rate / 60:6.1f} minutes")

# %% [markdown]
# ### Rung 1: a vector at a time
#
# The three inner loops are a sum over the $k^2C$ numbers of one window, for every filter: a row vector times
# a matrix, $(k^2C) \times (k^2C \times K)$. NumPy can do that in one call, and only the loop over output
# pixels remains in Python.


# %% tags=["measured"]
def conv_pixels(x, w, stride, pad):
    """One vector-matrix product for each output pixel."""
    x, (k, _, _, K) = pad_images(x, pad), w.shape
    N, H, W, _ = x.shape
    y = np.empty((N, (H - k) // stride + 1, (W - k) // stride + 1, K), x.dtype)
    for n, h, v in np.ndindex(y.shape[:3]):
        window = x[n, stride * h : stride * h + k, stride * v : stride * v + k]  # (k, k, C)
        y[n, h, v] = window.reshape(-1) @ w.reshape(-1, K)
    return y


check(conv_pixels)

# %% [markdown]
# ### Rung 2: all windows at once, as a view
#
# The view of all windows of the whole batch has six axes, and no memory of its own. `einsum` sums over three
# of them, in compiled loops.


# %% tags=["measured"]
def conv_windows(x, w, stride, pad):
    """One einsum over the strided view of all windows."""
    k = w.shape[0]
    windows = sliding_window_view(pad_images(x, pad), (k, k), axis=(1, 2))
    return np.einsum("nhvcij,ijcf->nhvf", windows[:, ::stride, ::stride], w)  # (N, Ho, Wo, C, k, k)


check(conv_windows)

# %% [markdown]
# ## 1.3 im2col: spend memory to buy a GEMM
#
# Write every window out as a row. All rows make a matrix of $N H_o W_o \times k^2 C$ numbers, the *columns*
# (the name comes from MATLAB, whose `im2col` makes them columns). The weights are a matrix of $k^2 C \times
# K$ already. And then the whole layer, all images and all filters, is **one matrix product**.
#
# ![im2col: a 4 × 4 image with letters a to p and four overlapping 3 × 3 windows, drawn as outlines of
# different colour and dash. An arrow leads to a matrix of four rows and nine columns, one row for each
# window. Pixel f lies in all four windows and appears in all four rows, on a diagonal. The matrix times a
# filter of nine weights is the output of four numbers.](figures/01_im2col.svg)


# %%
def im2col(x, k, stride, pad):
    """x (N, H, W, C) -> (N*Ho*Wo, k*k*C): every window a row"""
    windows = sliding_window_view(pad_images(x, pad), (k, k), axis=(1, 2))[:, ::stride, ::stride]
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[-1])  # a copy, unless k = 1


def output_shape(x, w, stride, pad):
    """(N, Ho, Wo, K)"""
    N, H, W, _ = x.shape
    return N, *((n + 2 * pad - w.shape[0]) // stride + 1 for n in (H, W)), w.shape[-1]


# %% tags=["measured"]
def conv_im2col(x, w, stride, pad):
    """Rung 3: one GEMM on the written-out windows."""
    columns = im2col(x, w.shape[0], stride, pad)
    return (columns @ w.reshape(-1, w.shape[-1])).reshape(output_shape(x, w, stride, pad))


check(conv_im2col)
columns = im2col(x_odd, 3, 2, 1)
print(f"{x_odd.shape} -> columns {columns.shape} @ weights {w_odd.reshape(-1, 4).shape}")

# %% [markdown]
# **Question.** A pixel in the middle of the image appears how often in the columns? How much more memory do
# the columns of each layer need than the images? Which layer is hit hardest, which not at all?


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

# %% [markdown]
# <details><summary>Answer</summary>
#
# With stride $s$ a pixel lies in about $(k/s)^2$ windows, so the columns are about $(k/s)^2$ times as large
# as the images: the last two columns agree up to the borders. Conv2, with 5×5 and stride 1, is hit hardest. A
# 1×1 convolution needs no im2col at all: its images *are* the matrix. That is one reason why bottlenecks are
# cheap.
# </details>

# %%
print(f"columns of AlexNet conv2 at batch 256: {megabytes(LAYERS[1], 256)['columns'] / 1e3:.1f} GB")

# %% [markdown]
# NVIDIA's GTX 580, the type of card on which AlexNet was trained, came with 1.5 or 3 GB, for all layers
# together. One way out is to unfold a piece at a time: we come to it in 1.8. Another unfolds nothing.

# %% [markdown]
# ## 1.4 The same GEMMs with no im2col
#
# Swap the loops, as with Sobel: the two short ones outside. For each of the $k^2$ positions $(i, j)$ in the
# kernel, take the whole image *shifted* by $(i, j)$, multiply its $C$ channels by the $C \times K$ matrix
# $w_{ij}$, and add up.
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
# dimension $C$, each adding to all of $y$. **Question:** for which of our five layers must this be a
# catastrophe?
#
# <details><summary>Answer</summary>
#
# AlexNet's conv1: $C = 3$, and $k^2 = 121$. Each GEMM does three multiply-adds for each number of $y$ that it
# loads and stores, 121 times over. The measurement below will show how bad this is.
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
# `col2im` is the *transpose* of `im2col` as a linear map, and a transpose $A^{\mathsf T}$ is known by one
# property: $\langle A x, c \rangle = \langle x, A^{\mathsf T} c \rangle$ for all $x$ and $c$. That is a test
# in two lines, with no calculus in it:

# %%
x64, w64 = tensors(odd, 2, np.float64)
c64 = rng.standard_normal(im2col(x64, 3, 2, 1).shape)
left, right = np.vdot(im2col(x64, 3, 2, 1), c64), np.vdot(x64, col2im(c64, x64.shape, 3, 2, 1))
print(f"<im2col x, c> = {left:.12f}\n<x, col2im c> = {right:.12f}")
assert np.isclose(left, right, rtol=1e-12)

# %% [markdown]
# ### How large may the error of a gradient check be?
#
# "Compare with finite differences, the error should be small." *How* small? Take the loss $L = \sum r \sin y$
# with random $r$, go a step $h$ in a random direction $v$ of the images, forward and back:
#
# $$D(h) = \frac{L(x + hv) - L(x - hv)}{2h} = \langle \nabla L, v\rangle +
# \underbrace{\tfrac{h^2}{6} L'''}_{\text{truncation}} +
# \underbrace{\mathcal{O}\!\left(\tfrac{\varepsilon |L|}{h}\right)}_{\text{rounding}}$$
#
# The convolution is linear, so along $v$ the output is $y + h\,y_v$ with $y_v = \mathrm{conv}(v)$, and even
# $L'''$ can be written down: $-\sum r \cos(y)\, y_v^3$. So we can *draw the error before we measure it*.
# **Guess:** at which step $h$ is the check sharpest, and how sharp?

# %%
guesses["best step h"] = None
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


# %%
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
# Three lessons. The error of a *right* gradient is **predictable**: on the right branch theory and
# measurement agree to the thickness of the marker, on the left one the bound holds. A *wrong* gradient does
# not care about $h$: a horizontal line is the signature of a bug. And in float32 the V would be so shallow
# (its $\varepsilon$ is $2^{29}$ times larger) that small bugs drown: **check gradients in float64**, with a
# step near $\varepsilon^{1/3}$.
#
# <details><summary>What would the plot look like for the loss L = ⟨r, y⟩, without the sine?</summary>
#
# That loss is linear in the images, so there is no truncation at all: the right branch disappears, and the
# best step is the largest. People who check their convolution with a linear loss and a tiny $h$ measure their
# rounding error.
# </details>
#
# One witness is none, so here is a second, TensorFlow's own derivative:

# %% tags=["measured"]
with tf.GradientTape() as tape:
    variables = tf.Variable(x64), tf.Variable(w64)
    output = tf.nn.conv2d(*variables, 2, [[0, 0], [1, 1], [1, 1], [0, 0]])
    loss = tf.reduce_sum(r * tf.sin(output))
for name, ours, theirs in zip(("dX", "dW"), (dx, dw), tape.gradient(loss, variables), strict=True):
    print(f"{name} {ours.shape!s:16} largest difference from TensorFlow: {np.abs(ours - theirs).max():.1e}")
    assert np.allclose(ours, theirs, atol=1e-12)

# %% [markdown]
# So a training step is three GEMMs of equal FLOPs, one forward and two backward: the **factor 3** that turns
# the FLOPs of a forward pass into those of training, in this course and in the papers.

# %% [markdown]
# ## 1.6 Two numbers that describe a machine
#
# A processor does two things: it computes and it fetches. How fast can *this one* do either? For the **peak**
# we take the best large matrix product we can find, for the **bandwidth** a copy much larger than any cache.
# Every measurement from here on is repeated, contestants take turns (so that a disturbance hits all of them),
# and we report the median and the quartiles. Only for the roof itself the *best* repeat counts: a limit is
# what the machine can do when nothing is in its way.


# %%
def race(calls, repeats=9, pause=0.02):
    """{name: call} -> {name: seconds of each repeat}, in turns, each after a pause and an untimed call."""
    times = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            if pause:
                time.sleep(pause)
                call()
            times[name].append(seconds(call)[0])
    return {name: np.array(t) for name, t in times.items()}


def spread(t):
    """Median and quartiles."""
    return tuple(np.quantile(t, q) for q in (0.5, 0.25, 0.75))


# %%
n = 2048
a, c = rng.standard_normal((2, n, n), dtype=np.float32)
out = [np.empty_like(a) for _ in range(THREADS)]
ta, tc = tf.constant(a), tf.constant(c)


def gemm_per_thread():
    """THREADS independent products, one BLAS thread each."""
    with blas.limit(limits=1):
        list(pool.map(lambda o: np.matmul(a, c, out=o), out))


GEMMS = {
    "NumPy's BLAS, threads share one GEMM": lambda: np.matmul(a, c, out=out[0]),
    "NumPy's BLAS, a GEMM for each thread": gemm_per_thread,
    "TensorFlow's matmul": lambda: tf.matmul(ta, tc).numpy(),
}
gemms = race(GEMMS)

# %% tags=["measured"]
rates = {}  # FLOP/s of every repeat
for name, t in gemms.items():
    rates[name] = 2 * n**3 * (THREADS if "each" in name else 1) / t
    median, low, high = spread(rates[name] / 1e9)
    print(f"{name:38} {median:6.1f} GFLOP/s  [{low:.1f} to {high:.1f}]  best {rates[name].max() / 1e9:.1f}")
PEAK = max(r.max() for r in rates.values())

# %% [markdown]
# Why does `race` pause, and what is `OPENBLAS_THREAD_TIMEOUT` in the first cell? The threads of a BLAS do not
# go to sleep when their GEMM is done. They *spin*: they ask for more work as fast as they can, so as not to
# miss it, and whoever is measured next gets one core less. OpenBLAS does so for $2^{26}$ clock ticks or more,
# unless told otherwise; we say $2^{20}$, less than a millisecond. A benchmark in which contestants take turns
# *without* this can cost the next contestant most of a core, with a small spread, reproducibly. Exercise 6
# lets you see it. An honest comparison gives each contestant a machine at rest.
#
# Now the bandwidth. A copy of $n$ bytes reads $n$ and writes $n$, so it moves $2n$. (This is the honest
# minimum: many processors also *read* the target before they overwrite it, and one does not see that from
# here.) One thread or several, whichever is faster.


# %% tags=["measured"]
def race_copies(size=2**26):
    """Seconds of copying `size` float32, 268 MB of them to as many, with one thread and with all."""
    source, target = np.ones(size, np.float32), np.zeros(size, np.float32)
    parts = list(zip(np.array_split(target, THREADS), np.array_split(source, THREADS), strict=True))
    calls = {
        "1 thread": lambda: np.copyto(target, source),
        f"{THREADS} threads": lambda: list(pool.map(lambda pair: np.copyto(*pair), parts)),
    }
    return race(calls if THREADS > 1 else {"1 thread": calls["1 thread"]}, repeats=5)


copies = {name: 2 * 4 * 2**26 / t for name, t in race_copies().items()}  # bytes/s of every repeat
for name, speeds in copies.items():
    median, low, high = spread(speeds / 1e9)
    print(f"copy, {name}: {median:.1f} GB/s  [{low:.1f} to {high:.1f}]  best {speeds.max() / 1e9:.1f}")
BANDWIDTH = max(speeds.max() for speeds in copies.values())

# %% [markdown]
# Divide one by the other and you have the most useful number about a machine: how many FLOPs it can do in the
# time it takes to move one byte. That is the **ridge**.

# %% tags=["measured"]
RIDGE = PEAK / BANDWIDTH
print(f"peak {PEAK / 1e9:.0f} GFLOP/s, bandwidth {BANDWIDTH / 1e9:.0f} GB/s, ridge {RIDGE:.1f} FLOP per byte")
print(f"In the time of fetching one float32 from memory this machine does {4 * RIDGE:.0f} FLOPs.")

# %% [markdown]
# ## 1.7 Predict
#
# The **arithmetic intensity** of a program is its FLOPs divided by the bytes it must move to or from memory.
# The **roofline** (Williams, Waterman and Patterson, 2009) says: no program is faster than
#
# $$P = \min(\text{peak},\ \text{intensity} \times \text{bandwidth}).$$
#
# What must be moved? At the least, the images and weights in and the output out. im2col writes the columns
# and reads them back. The shifted GEMMs move, for each of the $k^2$ taps, a view (read, write its copy, read
# that) and the output (write the product, read it, read and write $y$).


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


def roofline(intensity, peak=None, bandwidth=None):
    """Attainable FLOP/s at an intensity in FLOP per byte; of this machine, if none is given."""
    return np.minimum(peak or PEAK, intensity * (bandwidth or BANDWIDTH))


# %% tags=["measured"]
prediction = pd.DataFrame(index=LAYER_NAMES)
for rung in ("least", "im2col", "shifted"):
    prediction[f"{rung}: FLOP/B"] = [layer.flops(N) / traffic(layer, rung, N) for layer in LAYERS]
for rung in ("least", "im2col", "shifted"):
    rates = roofline(prediction[f"{rung}: FLOP/B"])
    prediction[f"{rung}: ms"] = [1e3 * layer.flops(N) / f for layer, f in zip(LAYERS, rates, strict=True)]
prediction["k²"] = [layer.k**2 for layer in LAYERS]
prediction["least / im2col"] = prediction["least: FLOP/B"] / prediction["im2col: FLOP/B"]
display(prediction.round(1))

# %% tags=["measured"]
left = [name for name in prediction.index if prediction.loc[name, "im2col: FLOP/B"] < RIDGE]
print(f"ridge of this machine: {RIDGE:.1f} FLOP per byte")
print(f"layers whose im2col lies left of the ridge, where the memory decides: {', '.join(left) or 'none'}")

# %% [markdown]
# Two things to notice *before* measuring. It is often said that im2col costs a factor $k^2$ in intensity: the
# last two columns disagree. The $k^2$ is true of the images alone; weights and output are moved too, and they
# do not grow. And where does the ridge lie? If no layer's im2col lies left of it, this model says that
# **im2col costs nothing here**: the memory keeps up. Is that so?
#
# **Guess:** im2col + GEMM in NumPy reaches which fraction of the speed of TensorFlow's own convolution, which
# is oneDNN on most CPUs, at the same number of threads? And the best NumPy you can imagine?

# %%
guesses["im2col / TensorFlow"] = None
guesses["best NumPy / TensorFlow"] = None

# %% [markdown]
# ## 1.8 Measure, and be surprised
#
# One layer first, the ResNet's 3×3 on 56×56 pixels. Where does im2col's time go: into writing the columns, or
# into the GEMM? The columns are written twice: as `im2col` does it, into an array of its own, and the same
# into memory that has been used before.

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
for name, t in inside.items():
    print(f"{name:32} {1e3 * spread(t)[0]:6.1f} ms")
print(f"{'roofline: columns / bandwidth':32} {1e3 * columns.nbytes / BANDWIDTH:6.1f} ms")
print(f"{'roofline: FLOPs / peak':32} {1e3 * layer.flops(N) / PEAK:6.1f} ms")

# %% tags=["measured"]
fresh, used, gemm = (spread(t)[0] for t in inside.values())
print(f"im2col spends {fresh / (fresh + gemm):.0%} of its time on writing the columns.")
print(f"Into memory used before, the same copy is {fresh / used:.1f} times faster.")
print(f"The GEMM runs at {layer.flops(N) / gemm / PEAK:.0%} of the peak: it is a narrow one, K = {layer.K}.")

# %% [markdown]
# The model counted FLOPs and bytes at the machine's best rates. What it does not know of:
#
# - The columns are *new memory* every time. The operating system must find and clear each page before the
#   first byte of it can be written: bookkeeping, the second disguise.
# - **One** thread writes the columns, while the others wait for the GEMM.
# - The columns make a round trip: out of the cache into memory, and back for the GEMM.
#
# None of the three is a law of nature. So, the next rung. **Every thread takes images of its own**, and both
# writes their columns and multiplies them; and it unfolds only **a few rows of the output at a time**, into a
# small buffer that is used over and over and stays in the cache. The columns never see the memory. In place
# of one large GEMM for all threads there are many small ones for one thread each.
#
# And here the layout turns out to be lucky. With the channels last, the $k \cdot C$ numbers beneath one *row*
# of the kernel are neighbours in memory. A window is not $k^2C$ scattered numbers but $k$ runs of $kC$, and
# NumPy copies run by run.


# %%
def conv_blocked(x, w, stride, pad, block_bytes=2 * 2**20):
    """Rung 5: im2col for a few output rows at a time in cache, each thread with images of its own."""
    N, H, W, C = x.shape
    _, Ho, Wo, K = shape = output_shape(x, w, stride, pad)
    k, weights, y = w.shape[0], w.reshape(-1, K), np.empty(shape, x.dtype)
    blocks = -(-Ho * Wo * k * k * C * x.itemsize // block_bytes)
    height = -(-Ho // min(blocks, Ho))  # output rows in a block

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


# %% tags=["measured"]
check(conv_blocked)

# %% [markdown]
# How large should a block be? The cache says: small. But at each call, the BLAS rearranges ("packs") *all the
# weights* into an order of its own, which wants few calls: large. **Predict** where the best size lies (look
# up your processor's L2 cache), then look:

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
    t = np.array([spread(contest[layer.name][mib]) for mib in sizes]).T  # (3, sizes)
    rate = layer.flops(N) / t / 1e9
    ax.errorbar(sizes, rate[0], yerr=[rate[0] - rate[2], rate[1] - rate[0]], label=layer.name)
ax.axhline(PEAK / 1e9, color="0.3", ls=":", label="peak: large GEMM")
ax.set_xscale("log", base=2)
ax.set(
    xlabel="size of a block of columns / MiB",
    ylabel="GFLOP/s",
    ylim=(0, None),
    title="How much to unfold at a time",
)
ax.legend(loc="lower right")
plt.show()

# %% [markdown]
# *(Figure: GFLOP/s against the size of a block, for two layers. Both curves rise from the small blocks on the
# left, and are nearly flat from one or two MiB on, below the dotted line of the peak.)*
#
# One expects a hump: small enough for the cache, large enough for the BLAS. Look at its two sides. Calling
# the BLAS too often costs much. Leaving the second-level cache costs little where a large third-level cache
# catches what falls out. We stay with 2 MiB.
#
# ## 1.9 The ladder
#
# All rungs, all five layers, TensorFlow beside them, in one run. The three slow rungs run on a part, and
# their time is scaled up by FLOPs: the loops on four output pixels of two filters, the others on one image.

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


# %% tags=["measured"]
measured = {}  # (layer, rung) -> seconds of each repeat, for the whole layer
for layer in LAYERS:
    x, w = tensors(layer, N)
    calls, shares = {}, {}
    for rung, conv in RUNGS.items():
        (px, pw, pad), shares[rung] = part(rung, layer, x, w)
        if conv is conv_tensorflow:
            px, pw = tf.constant(px), tf.constant(pw)
        calls[rung] = lambda conv=conv, a=px, b=pw, s=layer.stride, p=pad: conv(a, b, s, p)
    slow = {rung: calls.pop(rung) for rung in ("loops", "pixels", "windows")}
    times = race(slow, repeats=3) | race(calls, repeats=15)
    measured |= {(layer.name, rung): t / shares[rung] for rung, t in times.items()}
    print(f"{layer.name:15} measured")

# %% [markdown]
# Are they still all the same convolution? At full size, too:

# %%
for layer in LAYERS:
    x, w = tensors(layer, 2)
    exact = conv_tensorflow(x.astype(np.float64), w.astype(np.float64), layer.stride, layer.pad)
    for conv in (conv_im2col, conv_shifted, conv_blocked, conv_tensorflow):
        error = np.abs(conv(x, w, layer.stride, layer.pad) - exact).max()
        allowed = 10 * np.finfo(np.float32).eps * np.sqrt(layer.k**2 * layer.C)  # grows like a random walk
        assert error < allowed, (layer.name, conv.__name__, error)
print("im2col, shifted, blocked and TensorFlow agree with float64 on all five layers")

# %% tags=["measured"]
rates = pd.DataFrame(
    {
        layer.name: {rung: layer.flops(N) / spread(measured[layer.name, rung])[0] / 1e9 for rung in RUNGS}
        for layer in LAYERS
    }
)  # GFLOP/s, rungs by layers
print("GFLOP/s:")
display(rates.map("{:.3g}".format))

# %% tags=["measured"]
fraction = rates / rates.loc["TensorFlow"]
mean = np.exp(np.log(fraction).mean(axis=1))  # geometric, over the layers
compare("im2col / TensorFlow", mean["im2col"])
best = fraction.drop("TensorFlow").max()  # of each layer's rungs
compare("best NumPy / TensorFlow", np.exp(np.log(best).mean()))
print("\nshare of TensorFlow's speed, at the same number of threads:")
display(fraction.loc[["im2col", "shifted", "blocked"]].round(2))

# %% tags=["measured"]
LOOKS = list(zip(palette[:5], "os^Dv", strict=True))  # colour and marker of each layer
fig, ax = plt.subplots(figsize=(8.2, 4.4))
heights = np.exp(np.log(rates).mean(axis=1))
bars = ax.barh(range(len(RUNGS)), heights, color=["0.85"] * 6 + ["white"], edgecolor="0.3", height=0.7)
bars[-1].set_hatch("//")
for i, rung in enumerate(RUNGS):
    for offset, layer, (colour, marker) in zip(np.linspace(-0.22, 0.22, 5), LAYERS, LOOKS, strict=True):
        t = (
            layer.flops(N) / np.array(spread(measured[layer.name, rung])) / 1e9
        )  # median, lower and upper time
        style = {"color": colour, "marker": marker, "ms": 5, "ls": "", "capsize": 2}
        label = layer.name if i == 0 else None
        ax.errorbar(t[0], i + offset, xerr=[[t[0] - t[2]], [t[1] - t[0]]], label=label, **style)
ax.axvline(PEAK / 1e9, color="0.2", ls=":", label="peak")
ax.set_yticks(range(len(RUNGS)), RUNGS)
ax.set(
    xscale="log",
    xlabel="GFLOP/s (bar: geometric mean of the five layers)",
    title="Seven ways to the same numbers",
)
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
print(f"From the loops to the blocked rung: a factor of {heights['blocked'] / heights['loops']:,.0f}.")

# %% [markdown]
# *(Figure: horizontal bars of GFLOP/s on a logarithmic axis, one for each rung from loops up to TensorFlow,
# with the five layers as markers. Loops lie orders of magnitude to the left; pixels, windows, im2col, shifted
# and blocked approach the dotted line of the peak; blocked and TensorFlow are close together. Shifted is
# scattered widely, with conv1 far behind.)*
#
# Read the picture in three jumps. **Out of the interpreter**, from the loops to any compiled call. **Into the
# GEMM**, from windows to im2col: the same FLOPs, first in plain compiled loops and then in a matrix product.
# And **into the cache, on all threads**, from im2col to blocked. The second jump is of the kind that the
# 2006 paper made. Here is ours:

# %% tags=["measured"]
gain = rates.loc["im2col"] / rates.loc["windows"]
print(f"im2col and GEMM over einsum's compiled loops: {gain.min():.0f}× to {gain.max():.0f}×")
ratio = rates.loc["pixels"] / rates.loc["windows"]
print(
    f"Python's loop over pixels against einsum with no loop: {ratio.min():.1f}× to {ratio.max():.1f}× as fast"
)
worst = fraction.loc["shifted"].idxmin()
print(f"shifted GEMMs do worst on {worst}: {fraction.loc['shifted', worst]:.2f} of TensorFlow's speed")

# %% [markdown]
# - The paper's 2.4 to 3.0 cannot be compared with this one by one: theirs is a whole network against a C loop
#   written by hand, ours one layer against einsum, which uses one thread. But the direction is no accident. A
#   processor of today has wide vector units, fused multiply-adds, several cores and deep caches; a plain loop
#   uses little of that, a GEMM nearly all. **Hardware and GEMM have grown towards each other.**
# - The rung with a Python loop over every pixel can beat the one with *no loop in sight*, because BLAS does
#   its inner product. "No loops" was never the aim. The aim is to spend one instruction of bookkeeping on as
#   many FLOPs as possible.
# - Shifted GEMMs on conv1 are as bad as one had to fear: $C = 3$ multiply-adds for each load and store of $y$
#   are no work for a GEMM. The *inner dimension* decides. (Compare with the prediction in 1.7: where the
#   measurement is the faster, part of $y$ has stayed in the cache, which the model does not know.)
#
# ## 1.10 On the roofline


# %%
def intensities(rung):
    """FLOP per byte of each layer"""
    return np.array([layer.flops(N) / traffic(layer, rung, N) for layer in LAYERS])


fig, ax = plt.subplots(figsize=(8.2, 4.8))
intensity = np.logspace(-0.5, 3, 200)
ax.loglog(intensity, roofline(intensity) / 1e9, color="black", marker="", ls="-")
ax.axvline(RIDGE, color="0.5", ls=":", marker="")
ax.text(RIDGE * 1.1, 2e-3, f"ridge\n{RIDGE:.1f} FLOP/B", color="0.3", fontsize=9)
for rung, marker, colour in zip(RUNGS, "XPvs^o*", palette, strict=True):
    at = intensities(rung)
    face = colour if rung in ("blocked", "TensorFlow") else "none"
    ax.plot(at, rates.loc[rung], ls="", marker=marker, ms=8, color=colour, markerfacecolor=face, label=rung)
ax.set(xlabel="arithmetic intensity / FLOP per byte", ylabel="GFLOP/s", ylim=(1e-3, 2 * PEAK / 1e9))
ax.set_title(f"Five layers, seven rungs, one roof ({THREADS} threads)")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()


# %% tags=["measured"]
under = pd.DataFrame({rung: 1e9 * rates.loc[rung] / roofline(intensities(rung)) for rung in RUNGS}).T
above = [f"{rung} on {name}" for rung in RUNGS for name in under if under.loc[rung, name] > 1]
print("share of what the roofline allows:")
display(under.loc[["loops", "im2col", "shifted", "blocked", "TensorFlow"]].map("{:.3g}".format))
print(f"above the roof: {', '.join(above) or 'nothing'}")
if rates.max().max() > 1.3 * PEAK / 1e9:
    print("WARNING: far above the measured peak. The machine was busy: run all again when it is idle.")

# %% [markdown]
# *(Figure: roofline, GFLOP/s against FLOP per byte, both logarithmic: a slanted line up to the ridge, then a
# flat roof. All layers lie to the right of the ridge or near it. The loops lie at the bottom, orders of
# magnitude below the roof; TensorFlow and blocked lie close to it; im2col and the shifted GEMMs lie to the
# left of blocked, and most of them lower.)*
#
# - The loops are *not* far left. Their intensity is that of the best rung, and the memory is idle. The
#   roofline says how fast a program **may** be; far below it, the problem is one that FLOPs and bytes cannot
#   see: instructions.
# - im2col and the shifted GEMMs move to the left, towards the ridge. Where the roof slants, the memory may be
#   what holds them; where they stay on the flat part, it is not, and copies on one thread, additions and
#   narrow GEMMs must answer for the distance to the roof. **The higher the ridge, the more dearly an extra
#   byte is paid.**
# - A dot above the roof breaks no law. Above the slanted part, more stayed in the caches than our formula
#   allows; a little above the flat part, a kernel is better than the best GEMM that we measured, which is not
#   the hardware's own limit. *Far* above it, something else used the machine while the roof was measured, and
#   the whole run is worth nothing: the last line above would say so.
#
# ### What is left between us and TensorFlow?
#
# Our blocked rung copies, multiplies, and nothing else. So measure GEMMs alone, one an image, on columns that
# lie ready, on as many threads. They are not block for block those of our rung, but what is missing from them
# to the peak is no copy of ours.


# %%
def gemm_alone(layer):
    """A function that does the layer's GEMMs, an image on each thread, on columns that lie ready."""
    pixels, depth = layer.out[0] * layer.out[1], layer.k**2 * layer.C
    columns = rng.standard_normal((THREADS, pixels, depth), dtype=np.float32)
    weights = rng.standard_normal((depth, layer.K), dtype=np.float32)
    y = np.empty((N, pixels, layer.K), np.float32)

    def work(thread):
        for n in range(thread, N, THREADS):
            np.matmul(columns[thread], weights, out=y[n])

    def run():
        with blas.limit(limits=1):
            list(pool.map(work, range(THREADS)))

    return run


# %%
def race_gap(layer):
    """Seconds of four contestants, once more in turns, so that a disturbance hits all of them."""
    x, w = tensors(layer, N)
    x_tf, w_tf, where = tf.constant(x), tf.constant(w), (layer.stride, layer.pad)
    calls = {
        "im2col": lambda: conv_im2col(x, w, *where),
        "blocked": lambda: conv_blocked(x, w, *where),
        "its GEMMs alone": gemm_alone(layer),
        "TensorFlow": lambda: conv_tensorflow(x_tf, w_tf, *where),
    }
    return {name: spread(t)[0] for name, t in race(calls).items()}


gap = pd.DataFrame({layer.name: race_gap(layer) for layer in LAYERS}).T

# %%
fig, ax = plt.subplots(figsize=(8.2, 3.6))
looks = [("0.9", ""), ("0.65", ""), ("0.65", "xx"), ("white", "//")]
for i, (name, (face, hatch)) in enumerate(zip(gap, looks, strict=True)):
    height = [gap.loc[layer.name, name] / (layer.flops(N) / PEAK) for layer in LAYERS]
    ax.bar(np.arange(5) + 0.2 * i - 0.3, height, 0.2, label=name, color=face, hatch=hatch, edgecolor="0.2")
ax.axhline(1, color="black", ls=":", marker="", label="all FLOPs at peak")
ax.set_xticks(range(5), [layer.name.replace(" ", "\n", 1) for layer in LAYERS])
ax.set(ylabel="time / (FLOPs / peak)", title="Where the rest goes (1 = perfect, lower is better)")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% tags=["measured"]
milliseconds = 1e3 * gap
milliseconds.insert(0, "FLOPs / peak", [1e3 * layer.flops(N) / PEAK for layer in LAYERS])
print("milliseconds:")
display(milliseconds.round(1))

# %% [markdown]
# *(Figure: for each layer four bars of time, in units of the time that its FLOPs take at peak. Those of
# im2col are the highest of most layers, those of the blocked rung and of its GEMMs alone are lower and much
# alike, and TensorFlow's are near one, or near two where one of its threads had to wait.)*
#
# First a word of doubt. Compare TensorFlow's column with the ladder above. Where it takes twice as long here
# as there, it had one core in place of two for most of its repeats: the median of disturbed repeats is a
# disturbed median, with a small spread. Two tables that should agree are the best check a measurement has.
#
# Where the second and the third bar are alike, what we could still gain by copying less is little: what is
# left of the distance to the peak lies **inside the BLAS**. A GEMM copies, too. It *packs* its operands,
# block by block, into an order that its innermost kernel likes: bookkeeping, the third disguise. In a large
# square product each packed number serves thousands of multiply-adds; here it serves $K$, and that is 64 for
# the ResNet's early layers. A library for convolutions (oneDNN, which TensorFlow uses on most CPUs) generates
# a kernel for the shape of *this* layer, packs the weights at most once a call, and reads the windows
# straight from the image: there are no columns at all. NVIDIA's library cuDNN has the same idea for GPUs, the
# *implicit* GEMM.
#
# <details><summary>Could the BLAS not read the overlapping windows directly, with no copy at all?</summary>
#
# Nearly. For one kernel row the windows are rows of $kC$ numbers that start $C$ apart (at stride 1): a matrix
# whose *leading dimension* is smaller than its number of columns. BLAS forbids that, and NumPy falls back to
# a slow loop of its own: the next cell shows it. But every $k$-th window alone is a legal matrix, since these
# do not overlap. So there is a convolution of $k \cdot k$ GEMMs of inner dimension $kC$ that copies nothing.
# Its products must be *added* to $y$, though, which BLAS can do ($\beta = 1$) and NumPy's interface to it
# cannot. Exercise 5.
# </details>

# %% tags=["measured"]
line = rng.standard_normal(3002 * 64, dtype=np.float32)  # a row of 3002 pixels, C = 64
overlapping = sliding_window_view(line, 3 * 64)[::64]  # (3000, 192): windows of three pixels
filters = rng.standard_normal((192, 64), dtype=np.float32)
matrices = {"overlapping": overlapping, "copied": overlapping.copy(), "every third": overlapping[::3]}
for name, t in race({name: lambda m=m: m @ filters for name, m in matrices.items()}).items():
    m = matrices[name]
    speed = 2 * m.size * filters.shape[1] / spread(t)[0] / 1e9
    print(f"{name:12} {m.shape!s:12} strides {m.strides!s:10} {speed:6.1f} GFLOP/s")

# %% [markdown]
# ## 1.11 The same GEMM on a GPU
#
# Back to the question. AlexNet was trained on two cards of the type GTX 580. Its data sheet: 512 cores at
# 1.544 GHz, each one multiply-add a cycle; 192.4 GB/s. And if this lecture holds a **recorded run** of the
# same five layers on a GPU of today, it is replayed here: measured with `runs/01_conv_on_gpu.py`, in the same
# way and for the same layers.

# %%
record = pathlib.Path("runs/01_conv_on_gpu.json")
run = json.loads(record.read_text()) if record.exists() else None
if run:
    assert run["layers"] == [asdict(layer) for layer in LAYERS], "recorded for other layers: record it again"
    m = run["machine"]
    print(f"RECORDED RUN of {run['date'][:10]} on one {m['gpu']} ({m['memory_GiB']:.0f} GiB)")
    print(f"PyTorch {m['torch']}, CUDA {m['cuda']}, cuDNN {m['cudnn']}, driver {m['driver']}")
    print(f"{run['command']}\ncode {run['code_sha256'][:12]}, {run['arguments']['repeats']} repeats")
else:
    print("No recorded run. On a machine with a GPU and PyTorch, in the folder lectures/:")
    print(f"  python3 runs/01_conv_on_gpu.py --out {record}")

# %% [markdown]
# **Guess:** the last GPU listed below against this CPU: how many times the FLOP/s, how many times the
# bandwidth? Which of the two ratios is larger, and what does that do to the ridge?

# %%
guesses["FLOP/s of the last GPU over this CPU"] = None
guesses["bandwidth of the last GPU over this CPU"] = None

# %% tags=["measured"]
MACHINES = {
    f"this CPU, {THREADS} threads": (PEAK, BANDWIDTH),
    "GTX 580, 2010 (data sheet)": (2 * 512 * 1.544e9, 192.4e9),
}
if run:
    copy = run["limits"]["copy"]["bytes_per_s"]
    gpu = {p: (run["limits"]["gemm"][p]["flop_per_s"], copy) for p in ("bf16", "tf32", "fp32")}
    MACHINES |= {f"{m['gpu']}, {p}": gpu[p] for p in gpu}
machines = pd.DataFrame(MACHINES, index=["peak", "bandwidth"]).T
machines["ridge / FLOP per B"] = machines["peak"] / machines["bandwidth"]
machines["peak / CPU"], machines["bandwidth / CPU"] = (
    machines["peak"] / PEAK,
    machines["bandwidth"] / BANDWIDTH,
)
display(machines.assign(peak=machines["peak"] / 1e9, bandwidth=machines["bandwidth"] / 1e9).round(1))
compare("FLOP/s of the last GPU over this CPU", machines["peak / CPU"].iloc[-1], "×")
compare("bandwidth of the last GPU over this CPU", machines["bandwidth / CPU"].iloc[-1], "×")

# %% [markdown]
# (Peak in GFLOP/s, bandwidth in GB/s; a data sheet's numbers are limits that no program reaches. The last row
# is float32 arithmetic like this CPU's. Where a recorded run adds TF32 and bfloat16, these are products of
# *shorter* numbers on units of their own, the Tensor Cores of lecture 04.)


# %%
def rate(row):
    """GFLOP/s of a row of the recorded run."""
    return row["flops"] / row["median_s"] / 1e9


def recorded_points(run):
    """Of the recorded run's largest batch: label, marker, intensities and GFLOP/s of the five layers."""
    N_gpu = max(row["batch"] for row in run["rows"])
    shown = {("im2col", "fp32"): "s", ("cudnn", "fp32"): "o", ("cudnn_nhwc", "bf16"): "D"}
    for (method, precision), marker in shown.items():
        key = (N_gpu, method, precision)
        rows = [row for row in run["rows"] if (row["batch"], row["method"], row["precision"]) == key]
        size = 2 if precision == "bf16" else 4  # bytes of a number
        moved = [traffic(layer, method, N_gpu) * size / 4 for layer in LAYERS]
        at = [row["flops"] / b for row, b in zip(rows, moved, strict=True)]
        yield f"recorded: {method}, {precision}, N={N_gpu}", marker, at, [rate(row) for row in rows]


# %%
fig, ax = plt.subplots(figsize=(8.6, 4.8))
reach = np.logspace(-1, 3.7, 200)
for i, (name, (peak, bandwidth)) in enumerate(MACHINES.items()):
    look = {"color": palette[i], "ls": ["-", "--", "-.", ":", (0, (5, 1))][i], "marker": ""}
    ax.loglog(reach, roofline(reach, peak, bandwidth) / 1e9, label=name, **look)
here = {"ls": "", "marker": "*", "ms": 9, "color": "black", "label": f"TensorFlow here, N={N}"}
ax.plot(intensities("TensorFlow"), rates.loc["TensorFlow"], **here)
for label, marker, at, points in recorded_points(run) if run else ():
    ax.plot(at, points, ls="", marker=marker, mfc="none", color="black", label=label)
ax.set(xlabel="arithmetic intensity / FLOP per byte", ylabel="GFLOP/s")
ax.set_title("Five layers and more than one roof")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *(Figure: rooflines of this CPU, of the GTX 580 and of every GPU recorded, each with a slanted and a flat
# part. The GPUs' roofs lie above the CPU's on both parts. Black markers show TensorFlow's five layers under
# this CPU's roof and, where there is a recorded run, the same layers under the GPU's.)*

# %%
if run:
    gpu_rate = {(r["layer"], r["batch"], r["method"], r["precision"]): rate(r) for r in run["rows"]}
    times_faster = pd.DataFrame(index=LAYER_NAMES)
    for batch in (min(run["arguments"]["batches"]), max(run["arguments"]["batches"])):
        for method in ("im2col", "shifted", "cudnn"):
            gpu = [gpu_rate[name, batch, method, "fp32"] for name in LAYER_NAMES]
            times_faster[f"{method}, N={batch}"] = gpu / rates.loc["TensorFlow"]
    print(f"float32, {m['gpu']}: times the FLOP/s of TensorFlow on this CPU, {THREADS} threads, N={N}")
    display(times_faster.round(1))

# %% [markdown]
# And what that buys. SURFsara's slide says that training VGG for 50 epochs on ImageNet takes "more than 1
# ExaFlop", and 19.6 GFLOP an image. Check the units: 19.6 billion is what He et al. give for VGG-19, in
# *multiply-adds*, and the slide's product counts the forward pass only.

# %% tags=["measured"]
images, epochs, multiply_adds = 1.28e6, 50, 19.6e9
training = 2 * 3 * multiply_adds * images * epochs  # two FLOPs each; forward, dW and dX
print(f"as on the slide: {multiply_adds * images * epochs:.2e};  FLOPs of the training: {training:.2e}")
for name, (peak, _) in MACHINES.items():
    print(f"{name:34} {training / peak / 86400:8.1f} days, if every FLOP ran at its peak")

# %% [markdown]
# So, **why did GPUs make convolutional networks possible?** Not because they convolve well. A convolution,
# written out, *is* a matrix product: many FLOPs for each byte. On the axis above our layers lie to the right
# of both ridges, so what counts is the flat roof, and the table says what a gaming card of 2010 had over the
# threads we use today. The matrix form came first, and it helped the CPU just as well: what the GPU added is
# the height of its roof, to a program that had already been brought to the right place below it. Where the
# GEMM gets narrow, or the batch small, or one byte too many is moved, the ridge takes it back. That is the
# subject of lecture 04; how many such machines work on *one* network is the subject of lectures 05 to 10.
#
# ## What was learned
#
# 1. A convolution layer is one GEMM of $(N H_o W_o) \times (k^2 C)$ by $(k^2 C) \times K$ (im2col), or $k^2$
#    accumulated GEMMs of inner dimension $C$ (shifted views).
# 2. Its backward pass is two GEMMs of the same FLOPs; `col2im` *adds*. The error of a gradient check can be
#    predicted: a V with slopes −1 and 2. A bug is a horizontal line.
# 3. FLOPs and bytes follow from the shapes. im2col costs less than a factor of $k^2$ in intensity, since
#    weights and output do not grow.
# 4. Peak and bandwidth give the roofline. It bounds from above; what lies far below it pays for
#    *bookkeeping*: the interpreter, new pages, packing.
# 5. From the loops to the neighbourhood of a vendor's library it took three jumps: out of the interpreter,
#    into the GEMM, into the cache and on all threads.
#
# **Open questions.** (a) With Winograd's algorithm a 3×3 convolution needs 2.25 to 4 times fewer
# multiplications. Where does it then lie on the roofline, and can it lie above the roof? (b) Which ridge
# would you *build*: what should a chip for CNNs have more of, FLOP/s or bandwidth, and does the answer change
# when networks turn to 1×1 and depthwise convolutions? (c) At batch 1 our blocked rung leaves all threads but
# one idle. How would you share out one image?
#
# **Exercises.** Assignment 01, *Convolution as GEMM*, asks for im2col, the forward and the backward pass, and
# for the count of FLOPs and bytes. Beyond it:
#
# 1. Which of the five layers would suffer most from a ridge ten times as high? Predict it from the table in
#    1.7.
# 2. Measure the backward pass. Is it twice the forward pass, as the FLOPs say? Where does `col2im` lie on the
#    roofline?
# 3. Change `THREADS` and run everything again. Which rungs scale, which do not, and where does the ridge go?
# 4. Store the images as `(N, C, H, W)` and write `conv_blocked` for that layout. How long are the runs now?
# 5. Find `cblas_sgemm` in NumPy's own BLAS with `ctypes`, and write the convolution that copies nothing (the
#    last self-check above). When does it win against `conv_blocked`?
# 6. Take the line with `OPENBLAS_THREAD_TIMEOUT` out, set `pause=0`, restart and run all. Which contestants
#    suffer, and which *seem* to win? What would you have believed, had you seen only that table?
#
# Next: **02, networks that learn**, builds a network from such layers. **03, from LeNet to ResNet**, asks
# which layers. **04, one device, fast**, comes back to roof and ridge.
