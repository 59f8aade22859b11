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
# # Assignment 01: convolution as GEMM
#
# A convolutional layer is defined by seven nested loops. Processors are fastest at multiplying two large
# matrices (GEMM, *general matrix multiply*). **How do you turn the loops into a matrix product, in the
# forward and in the backward pass, and what does it cost?**
#
# In this assignment you
#
# - arrange the windows of an image as the rows of a matrix (im2col), including windows with gaps
#   (*dilation*),
# - compute the layer with one matrix product, and a *grouped* layer with one product per group,
# - derive its gradients: the gradient of the filters is a matrix product, the gradient of the images is
#   *another convolution*,
# - count FLOPs and bytes, and decide from the counts whether memory limits the layer,
# - predict how much faster the matrix product is than the loops, and measure it.
#
# The background is lecture 01, which covers neither dilation nor groups and computes
# the gradient of the images differently.
#
# What you submit:
#
# - *Blanks*: 6 cells marked `YOUR CODE HERE`, most of them three to eight lines, and one written answer.
# - *Points*: 20. im2col has 3 points, the forward pass 6, the gradient of the filters and biases 3, the
#   gradient of the images 3, FLOPs and bytes 3, and the written answer 2.
# - *Graded automatically*: 18 points, in 15 checks. All have hidden tests, with inputs that are drawn
#   for each submission.
# - *Graded manually*: 2 points, for the written answer in section 5.
# - *Time*: 5 to 7 hours. Sections 1 and 2 take 1 to 1.5 hours each, section 3 about 1, section 4 about 1.5
#   to 2, and sections 5 and 6 together 1 to 1.5. This is an estimate for someone who has read lecture 01; no
#   class has been timed.
#
# A *check* is a cell of autograder tests. Fill in a blank, run the example below it, then its checks. A
# failed check states what it found. Implement the definition, not only the case in the example.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | N | images in a batch | K | number of filters (output channels) |
# | H, W | height and width of an image | k | size of a filter, k × k |
# | C | input channels | H_out, W_out | height and width of the result |
#
# Arrays have TensorFlow's order of axes, channels last: images x `(N, H, W, C)`, filters w `(k, k, C, K)`,
# biases b `(K,)`, result y `(N, H_out, W_out, K)`. A multiply-add counts as two FLOPs.
#
# Three rules hold for all your functions. They keep the precision of their arrays: float32 in, float32 out,
# and no intermediate result has a lower precision. They leave their arguments unchanged, including the
# shapes of arrays. And counts of FLOPs and bytes are exact and of type `int`.

# %% given="setup"
import time
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

from cluster.checks import expect, fresh_rng, has_failed, unchanged, watched

plt.style.use("cluster.course")
rng = np.random.default_rng(1)


def integers(*shape, rng=rng):
    """Return random integers from -4 to 4, as float64: their sums are exact."""
    return rng.integers(-4, 5, shape).astype(np.float64)


def output_size(n, k, stride=1, padding=0, dilation=1):
    """Return how many windows fit into n pixels with `padding` extra pixels at both ends.

    A window has k pixels that are `dilation` apart; neighbouring windows start `stride` apart.
    """
    length = dilation * (k - 1) + 1
    return (n + 2 * padding - length) // stride + 1


def gemm(A, B):
    """Return the product (m, p) of two matrices (m, n) and (n, p), by one call of a library."""
    assert A.ndim == B.ndim == 2, f"gemm multiplies two matrices, not arrays of shapes {A.shape}, {B.shape}"
    assert A.shape[1] == B.shape[0], (
        f"gemm got matrices of shapes {A.shape} and {B.shape}: the first must have as many columns as the "
        "second has rows"
    )
    return A @ B


# %% [markdown]
# ## The definition
#
# Each value of the result is the sum over a window of the image, weighted by a filter.
# The window starts at row i·stride, column j·stride of the padded image. The filter is
# *not* rotated by 180 degrees: mathematicians call this operation a cross-correlation,
# but in deep learning it is called a convolution. The definition is more general than
# the one in the lecture, in two ways:
#
# - **dilation**: a window contains every `dilation`-th pixel. With k = 3 and dilation 2 it has 3 × 3 pixels,
#   but spans 5 × 5. The layer therefore has a larger receptive field at the same cost.
# - **groups**: channels and filters are divided, in order, into `groups` parts of equal size, and the
#   filters of a part see only the channels of that part. A filter then has C / groups channels: w is `(k, k,
#   C / groups, K)`. With groups = C each channel has its own filters (a *depthwise* layer, as in MobileNet).
#
# The following function is the definition as code. It is correct, but slow. The checks compare your results
# with it.


# %% given="definition"
def convolve_loops(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    """Compute y (N, H_out, W_out, K) by definition; x (N, H, W, C), w (k, k, C / groups, K), b (K,)."""
    N, H, W, C = x.shape
    k, _, C_group, K = w.shape
    assert C_group * groups == C and K % groups == 0 and np.shape(b) == (K,), (
        f"a layer with {groups=} got images {x.shape}, filters {w.shape} and biases {np.shape(b)}; it needs "
        "(N, H, W, C), (k, k, C / groups, K) and (K,)"
    )
    H_out, W_out = (output_size(n, k, stride, padding, dilation) for n in (H, W))
    length = dilation * (k - 1) + 1
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    y = np.empty((N, H_out, W_out, K), x.dtype)
    for n in range(N):
        for i in range(H_out):
            for j in range(W_out):
                rows = slice(i * stride, i * stride + length, dilation)
                cols = slice(j * stride, j * stride + length, dilation)
                window = padded[n, rows, cols]  # (k, k, C)
                for f in range(K):
                    first = f // (K // groups) * C_group  # channel of this filter's group
                    y[n, i, j, f] = np.sum(window[:, :, first : first + C_group] * w[:, :, :, f]) + b[f]
    return y


# %% [markdown]
# The smallest useful example is an image of 3 × 3 pixels with one channel. A 2 × 2 window fits into it at
# four positions.

# %% given="small-image"
small = np.arange(1.0, 10.0).reshape(1, 3, 3, 1)  # (N, H, W, C)
print(small[0, :, :, 0])

# %% [markdown]
# ## 1. Windows as rows: im2col
#
# Write the four windows of the image above as the four rows of a matrix, from left to right and then from
# top to bottom. Within a row, read the window in the order (row of the window, column of the window,
# channel), which is the order in which a filter `(k, k, C)` is stored in memory. Do this on paper first; it
# takes a minute.
#
# **Predict.** Neighbouring windows overlap, so pixels are copied. How many times larger than a large image
# is its matrix for k = 3 and stride 1? And for k = 3 and stride 3? Enter your predictions; they are not
# graded.

# %%
predicted_stride_1 = None
predicted_stride_3 = None

# %% [markdown]
# Loops over N, H_out and W_out would be slow. k·k assignments of large slices are enough: which pixels of
# the image belong to *one column* of the matrix? (A view, as in the lecture, is also fine; only the matrix
# counts.) With a dilation, which slice changes, and how?


# %% solution="im2col"
def im2col(x, k, stride=1, padding=0, dilation=1):
    """Arrange the windows of images as the rows of a matrix.

    x         images (N, H, W, C), of any dtype; the result has the same dtype
    k         a window takes k × k pixels
    stride    distance between neighbouring windows in pixels
    padding   rows and columns of zeros added on each of the four sides
    dilation  distance between neighbouring pixels of a window

    Returns the matrix (N * H_out * W_out, k * k * C). Its rows run over (n, i, j), j fastest; its columns
    over (row in the window, column in the window, channel), the channel fastest.
    """
    N, H, W, C = x.shape
    H_out, W_out = (output_size(n, k, stride, padding, dilation) for n in (H, W))
    assert H_out > 0 and W_out > 0, f"a window of {k} does not fit into {H} × {W} with padding {padding}"
    ### BEGIN SOLUTION
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.empty((N, H_out, W_out, k, k, C), x.dtype)
    for i in range(k):
        for j in range(k):
            rows = slice(i * dilation, i * dilation + stride * H_out, stride)
            cols = slice(j * dilation, j * dilation + stride * W_out, stride)
            windows[:, :, :, i, j] = padded[:, rows, cols]
    columns = windows.reshape(N * H_out * W_out, k * k * C)
    ### END SOLUTION
    assert columns.shape == (N * H_out * W_out, k * k * C), (
        f"the matrix has shape {columns.shape}; it should have {(N * H_out * W_out, k * k * C)}"
    )
    return columns


# %% [markdown]
# Look at the example before you run the checks. Is this the matrix that you found on paper?

# %%
print(im2col(small, k=2))

# %% check="im2col-by-hand" points=1 see="1.3"
"""The four windows of the small image, and the order of channels within a row (1 point)."""
by_hand = np.array([[1, 2, 4, 5], [2, 3, 5, 6], [4, 5, 7, 8], [5, 6, 8, 9]], float)
expect(
    im2col(small, k=2),
    by_hand,
    {
        "the windows were read column by column; read from left to right first.": by_hand[[0, 2, 1, 3]],
        "each window was read down its columns first; read along its rows.": by_hand[:, [0, 2, 1, 3]],
        "each window was turned by 180 degrees; keep its order.": by_hand[:, ::-1],
    },
    "im2col(small, k=2)",
)
channel_slowest = np.array([1, 2, 4, 5, 10, 20, 40, 50], float)
two_channels = np.stack([small[..., 0], 10 * small[..., 0]], axis=-1)
expect(
    im2col(two_channels, k=2)[0],
    np.array([1, 10, 2, 20, 4, 40, 5, 50], float),
    {
        "the channel changes slowest in a row; in a filter (k, k, C) it changes fastest.": channel_slowest,
    },
    "the first row of a 3 × 3 image with two channels",
)
# AUTOTEST im2col(two_channels.astype(np.float32), 2)
### BEGIN HIDDEN TESTS
other = integers(1, 2, 3, 1, rng=fresh_rng(1))
a, b, c, d, e, f = other.ravel()
expect(im2col(other, k=2), np.array([[a, b, d, e], [b, c, e, f]]), name="im2col of another image")
### END HIDDEN TESTS

# %% [markdown]
# A filter that is 1 at one position and 0 elsewhere *picks* one pixel of the window.
# With k·k·C such filters, the definition itself computes im2col, although slowly. The
# checks compare your im2col with this result for various strides, paddings and
# dilations.


# %% given="picking-filters"
def im2col_by_definition(x, k, stride=1, padding=0, dilation=1):
    """Compute im2col as a convolution with filters that each pick one value of the window."""
    size = k * k * x.shape[3]
    pick = np.eye(size, dtype=x.dtype).reshape(k, k, x.shape[3], size)
    return convolve_loops(x, pick, np.zeros(size, x.dtype), stride, padding, dilation).reshape(-1, size)


# %% check="im2col-stride-padding" points=1 see="1.3"
"""Padding on all four sides, windows `stride` apart, images that are not square (1 point).

The hidden tests use other shapes, k = 1 to 4, strides and paddings, and other dtypes.
"""
x = integers(2, 5, 6, 2)  # five rows, six columns
one_side = np.pad(x, ((0, 0), (0, 2), (0, 2), (0, 0)))
with unchanged(x=x):
    columns = im2col(x, k=3, padding=1)
assert x.shape == (2, 5, 6, 2), f"im2col changed the shape of x from (2, 5, 6, 2) to {x.shape}"
expect(
    columns,
    im2col_by_definition(x, 3, padding=1),
    {
        "zeros were added on one side of each axis; padding=1 adds them on both.": lambda: im2col(
            one_side, k=3
        )
    },
    "im2col(x, k=3, padding=1)",
)
expect(
    im2col(x, k=2, stride=2),
    im2col_by_definition(x, 2, stride=2),
    {
        "neighbouring windows start 1 pixel apart; they should start `stride` pixels apart.": (
            lambda: im2col_by_definition(x, 2, 1).reshape(2, 4, 5, -1)[:, :2, :3].reshape(12, -1)
        ),
    },
    "im2col(x, k=2, stride=2)",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(2)


def windows(x, k, stride=1, padding=0, dilation=1):
    """Return the matrix of windows, from a view."""
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, [dilation * (k - 1) + 1] * 2, (1, 2))
    view = view[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return view.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[3])


for k, stride, padding in [
    (3, 2, 1),
    (3, 2, 0),
    (1, 1, 0),  # a 1 × 1 convolution only reshapes
    (1, 3, 0),
    (4, 1, 0),
    (3, 1, 2),
    (1, 2, 1),
]:
    height, width = k + stride + fresh.choice(5, 2, replace=False)  # not square, at least two windows each
    image = integers(fresh.integers(1, 4), height, width, fresh.integers(2, 4), rng=fresh)
    expect(
        im2col(image, k, stride, padding),
        windows(image, k, stride, padding),
        name=f"im2col of {image.shape} with k={k}, stride={stride}, padding={padding}",
    )
image = integers(*image.shape, rng=fresh)
expect(im2col(image, 1, 2, 1), windows(image, 1, 2, 1), name="im2col of other images of the same shape")
image = integers(1, 4, 4, 2, rng=fresh)
expect(im2col(image, 4), image.reshape(1, 32), name="im2col of a single window")
pixels = fresh.integers(0, 256, (2, 4, 5, 3)).astype(np.uint8)
assert im2col(pixels, 2).dtype == np.uint8, "im2col of a uint8 array should have dtype uint8"
expect(im2col(pixels, 2, 1, 1), windows(pixels, 2, 1, 1), name="im2col of uint8")
numbers = fresh.integers(2**60, 2**61, (1, 3, 4, 2))  # float64 cannot represent them
expect(im2col(numbers, 2), windows(numbers, 2), name="im2col of large int64")
halves = integers(1, 4, 4, 2, rng=fresh).astype(np.float16)
expect(im2col(halves, 3, 1, 1), windows(halves, 3, 1, 1), name="im2col of float16")
singles = (integers(1, 4, 5, 2, rng=fresh) + 2.0**16 + 1).astype(np.float32)  # more than half precision holds
expect(im2col(singles, 2, 2), windows(singles, 2, 2), name="im2col of float32")
### END HIDDEN TESTS

# %% check="im2col-dilation" points=1 see="1.3"
"""A window contains every `dilation`-th pixel, also with stride and padding (1 point).

The hidden tests use other shapes, strides, paddings and dilations.
"""
x = integers(2, 6, 7, 2)
expect(
    im2col(x, k=2, dilation=3),
    im2col_by_definition(x, 2, dilation=3),
    {
        "the windows have no gaps; neighbouring pixels of a window are `dilation` apart.": (
            lambda: im2col_by_definition(x, 2).reshape(2, 5, 6, -1)[:, :3, :4].reshape(24, -1)
        ),
    },
    "im2col(x, k=2, dilation=3)",
)
x = integers(2, 7, 11, 2)


def wider():
    """Return the matrix for a padding of 2."""
    windows = im2col_by_definition(x, 3, stride=3, padding=2, dilation=2)
    return windows.reshape(2, 3, 4, -1)[:, :2, :3].reshape(12, -1)


expect(
    im2col(x, k=3, stride=3, padding=1, dilation=2),
    im2col_by_definition(x, 3, stride=3, padding=1, dilation=2),
    {
        "padding was multiplied by the dilation; padding=1 adds one row of zeros on each side.": wider,
    },
    "im2col(x, k=3, stride=3, padding=1, dilation=2)",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(3)


def windows(x, k, stride=1, padding=0, dilation=1):
    """Return the matrix of windows, from a view."""
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, [dilation * (k - 1) + 1] * 2, (1, 2))
    view = view[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return view.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[3])


for k, stride, padding, dilation in [
    (3, 2, 1, 2),
    (2, 3, 0, 2),
    (3, 1, 3, 3),
    (1, 1, 0, 5),  # one pixel has no neighbour, so a dilation changes nothing
    (4, 1, 0, 3),
]:
    height, width = dilation * (k - 1) + 1 + stride + fresh.choice(4, 2, replace=False)
    image = integers(fresh.integers(1, 3), height, width, fresh.integers(1, 4), rng=fresh)
    expect(
        im2col(image, k, stride, padding, dilation),
        windows(image, k, stride, padding, dilation),
        name=f"im2col of {image.shape} with k={k}, stride={stride}, padding={padding}, dilation={dilation}",
    )
image = integers(*image.shape, rng=fresh)
expect(im2col(image, 4, 1, 0, 3), windows(image, 4, 1, 0, 3), name="im2col of other images of the same shape")
### END HIDDEN TESTS

# %% [markdown]
# Compare the result with your prediction.

# %%
large = np.zeros((1, 99, 99, 8), np.float32)
for stride, predicted in [(1, predicted_stride_1), (3, predicted_stride_3)]:
    ratio = im2col(large, 3, stride).nbytes / large.nbytes
    print(f"stride {stride}: the matrix is {ratio:.2f} times as large as the image; predicted {predicted}")

# %% [markdown]
# ## 2. The layer as one matrix product
#
# Each value of the result is the sum of products of one row of the matrix and one filter. Which shape must
# the filters have so that this is one matrix product? Add the biases after the product: each bias belongs to
# a filter, not to a window.
#
# In `forward`, compute every matrix product with the provided function `gemm`, so that the checks can count
# the calls. A layer needs **one** call, for all images and all filters. A layer with groups needs one per
# group. Together they need as many multiply-adds as the definition; one large product, with zeros for the
# other groups, needs more. Which columns of the matrix of windows, and which filters, does a group multiply?
# (The columns of a group's channels are not adjacent. A reshape to `(rows, k * k, groups, C / groups)` shows
# where they are.)


# %% solution="forward"
def forward(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    """Compute a convolutional layer by im2col and one call of gemm per group.

    x (N, H, W, C), w (k, k, C / groups, K), b (K,). Returns y (N, H_out, W_out, K).
    """
    N, H, W, C = x.shape
    k, k_other, C_group, K = w.shape
    assert k == k_other and C_group * groups == C, f"filters {w.shape} do not fit images {x.shape}"
    assert K % groups == 0, f"{K} filters cannot be divided into {groups} groups"
    H_out, W_out = (output_size(n, k, stride, padding, dilation) for n in (H, W))
    ### BEGIN SOLUTION
    windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
    filters = w.reshape(k * k, C_group, groups, K // groups)
    parts = [
        gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
        for g in range(groups)
    ]
    y = np.concatenate(parts, axis=1).reshape(N, H_out, W_out, K) + b
    ### END SOLUTION
    assert y.shape == (N, H_out, W_out, K), (
        f"the result has shape {y.shape}; it should have {(N, H_out, W_out, K)}"
    )
    return y


# %% [markdown]
# Compute an example by hand: multiply the first window of the small image by the following filter. What is
# the sum?

# %% given="small-filter"
small_filter = np.array([[1.0, 2.0], [3.0, 4.0]]).reshape(2, 2, 1, 1)  # (k, k, C, K)
print(small_filter[:, :, 0, 0])

# %%
print(forward(small, small_filter, b=np.zeros(1))[0, :, :, 0])

# %% [markdown]
# The checks of `forward` replace your `im2col` with the definition, so a mistake in `im2col` only costs
# points in the checks of `im2col`.

# %% check="forward-by-hand" points=1 see="1.2"
"""One filter on the small image; the bias is added once to each value (1 point)."""
by_hand = np.array([[37.0, 47.0], [67.0, 77.0]]).reshape(1, 2, 2, 1)
with watched("im2col", im2col_by_definition):
    without, with_bias = (forward(small, small_filter, np.array([bias])) for bias in (0.0, 100.0))
expect(
    without,
    by_hand,
    {
        "the filter was turned by 180 degrees; a convolutional layer does not turn it.": (
            lambda: convolve_loops(small, small_filter[::-1, ::-1], np.zeros(1))
        ),
    },
    "forward(small, small_filter, 0)",
)
expect(
    with_bias,
    by_hand + 100,
    {
        "the bias is missing.": by_hand,
        "the bias was added to each of the k·k·C products; add it once, to their sum.": by_hand + 400,
    },
    "forward(small, small_filter, 100)",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(4)
other, weights, bias = integers(1, 2, 3, 1, rng=fresh), integers(2, 2, 1, 1, rng=fresh), fresh.integers(5, 10)
with watched("im2col", im2col_by_definition):
    y = forward(other, weights, np.array([float(bias)]))
left, right = (np.sum(other[0, :, [j, j + 1], 0].T * weights[:, :, 0, 0]) + bias for j in (0, 1))
expect(y, np.array([left, right]).reshape(1, 1, 2, 1), name="forward of another image, with a bias,")
### END HIDDEN TESTS

# %% check="forward-equals-loops" points=2 see="1.3"
"""With several images, channels and filters the result equals the result of the loops (2 points).

The hidden tests use other shapes, strides, paddings and dilations, and values that need the full precision.
"""
x, w, b = integers(2, 5, 6, 2), integers(3, 3, 2, 4), integers(4)
with watched("im2col", im2col_by_definition), unchanged(x=x, w=w, b=b):
    y = forward(x, w, b)
for name, array, shape in [("x", x, (2, 5, 6, 2)), ("w", w, (3, 3, 2, 4)), ("b", b, (4,))]:
    assert array.shape == shape, f"forward changed the shape of {name} from {shape} to {array.shape}"
expect(
    y,
    convolve_loops(x, w, b),
    {
        "the filters were turned by 180 degrees; a convolutional layer does not turn them.": (
            lambda: convolve_loops(x, w[::-1, ::-1], b)
        ),
        "the axes of the filters were mixed: (k, k, C, K) has K last, so no transpose is needed.": (
            lambda: convolve_loops(x, w.transpose(3, 0, 1, 2).reshape(w.shape), b)
        ),
        "the filters were reshaped with K first; K is the last axis.": (
            lambda: convolve_loops(x, w.reshape(4, -1).T.reshape(w.shape), b)
        ),
    },
    "forward(x, w, b)",
)
x, w, b = integers(2, 7, 11, 2), integers(3, 3, 2, 5), integers(5)
sizes = dict(stride=3, padding=1, dilation=2)  # (2, 2, 3, 5)
with watched("im2col", im2col_by_definition):
    y = forward(x, w, b, **sizes)
expect(
    y,
    convolve_loops(x, w, b, **sizes),
    {
        "the stride was ignored; windows start `stride` pixels apart.": (
            lambda: convolve_loops(x, w, b, **sizes | {"stride": 1})[:, :2, :3]
        ),
        "the dilation was ignored; a window has gaps.": (
            lambda: convolve_loops(x, w, b, **sizes | {"dilation": 1})[:, :2, :3]
        ),
    },
    "forward(x, w, b, stride=3, padding=1, dilation=2)",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(5)


def windows(x, k, stride=1, padding=0, dilation=1):
    """Return the matrix of windows, from a view."""
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, [dilation * (k - 1) + 1] * 2, (1, 2))
    view = view[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return view.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[3])


def layer(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    """Return the layer's result, from these windows."""
    k, _, part, K = w.shape
    places = [output_size(n, k, stride, padding, dilation) for n in x.shape[1:3]]
    parts = windows(x, k, stride, padding, dilation).reshape(-1, k, k, groups, part)
    filters = w.reshape(k, k, part, groups, K // groups)
    return np.einsum("rabgc,abcgf->rgf", parts, filters).reshape(len(x), *places, K) + b


for k, K, stride, padding, dilation in [
    (3, 5, 2, 1, 1),
    (2, 3, 3, 0, 1),
    (1, 2, 1, 0, 1),
    (3, 1, 1, 2, 1),
    (3, 3, 2, 1, 2),
    (2, 2, 1, 0, 4),
]:
    height, width = dilation * (k - 1) + 1 + stride + fresh.choice(4, 2, replace=False)
    image = integers(fresh.integers(1, 4), height, width, fresh.integers(2, 7), rng=fresh)
    filters, bias = integers(k, k, image.shape[3], K, rng=fresh), integers(K, rng=fresh)
    with watched("im2col", windows):
        y = forward(image, filters, bias, stride, padding, dilation)
    expect(
        y,
        layer(image, filters, bias, stride, padding, dilation),
        name=f"forward of {image.shape} with {k=}, {K=}, {stride=}, {padding=}, {dilation=}",
    )
bright, filters = integers(1, 4, 5, 2, rng=fresh) + 2.0**30, integers(3, 3, 2, 2, rng=fresh)
filters[1, 1] -= filters.sum(axis=(0, 1))  # the brightness cancels if float64 is kept
with watched("im2col", windows):
    y = forward(bright, filters, np.zeros(2))
expect(y, layer(bright, filters, np.zeros(2)), name="forward of a bright image")
x, w, b = (integers(*shape, rng=fresh).astype(np.float32) for shape in [(1, 4, 5, 2), (3, 3, 2, 2), (2,)])
x += np.float32(2**16)  # sums are whole numbers of less than 24 bits
with watched("im2col", windows):
    y = forward(x, w, b)
expect(y, layer(x, w, b), name="forward of a bright image in float32")
### END HIDDEN TESTS
layer32 = small.astype(np.float32), small_filter.astype(np.float32), np.ones(1, np.float32)
with watched("im2col", im2col_by_definition):
    y = forward(*layer32, padding=1)
expect(y, convolve_loops(*layer32, padding=1), name="forward of float32")

# %% check="forward-groups" points=2 see="1.3"
"""The filters of a group see only the channels of their group (2 points).

The hidden tests use other shapes and numbers of groups, including depthwise layers.
"""
x, w, b = integers(2, 4, 5, 6), integers(2, 2, 3, 8), integers(8)
turns = [0, 2, 4, 6, 1, 3, 5, 7]
with watched("im2col", im2col_by_definition):
    y = forward(x, w, b, groups=2)
expect(
    y,
    convolve_loops(x, w, b, groups=2),
    {
        "a group got adjacent columns of the matrix; the columns of its channels are not adjacent.": (
            lambda: convolve_loops(
                im2col_by_definition(x, 2).reshape(2, 3, 4, 24), w.reshape(1, 1, 12, 8), b, groups=2
            )
        ),
        "every group got the first channels.": (
            lambda: convolve_loops(x[..., [0, 1, 2, 0, 1, 2]], w, b, groups=2)
        ),
        "the channels were assigned to the groups in turn; a group has adjacent channels.": (
            lambda: convolve_loops(x[..., [0, 2, 4, 1, 3, 5]], w, b, groups=2)
        ),
        "the filters were assigned to the groups in turn; a group has adjacent filters.": (
            lambda: convolve_loops(x, w[..., turns], b[turns], groups=2)[..., [0, 4, 1, 5, 2, 6, 3, 7]]
        ),
    },
    "forward of 6 channels and 8 filters in 2 groups",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(6)


def windows(x, k, stride=1, padding=0, dilation=1):
    """Return the matrix of windows, from a view."""
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, [dilation * (k - 1) + 1] * 2, (1, 2))
    view = view[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return view.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[3])


def layer(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    """Return the layer's result, from these windows."""
    k, _, part, K = w.shape
    places = [output_size(n, k, stride, padding, dilation) for n in x.shape[1:3]]
    parts = windows(x, k, stride, padding, dilation).reshape(-1, k, k, groups, part)
    filters = w.reshape(k, k, part, groups, K // groups)
    return np.einsum("rabgc,abcgf->rgf", parts, filters).reshape(len(x), *places, K) + b


for C, k, K, stride, padding, dilation, groups in [
    (6, 3, 3, 2, 1, 1, 3),
    (4, 2, 4, 1, 0, 2, 4),  # depthwise
    (3, 3, 6, 1, 2, 2, 3),  # depthwise, two filters per channel
    (8, 1, 4, 1, 0, 1, 2),
    (9, 3, 6, 3, 1, 1, 3),
]:
    height, width = dilation * (k - 1) + 1 + stride + fresh.choice(4, 2, replace=False)
    image = integers(fresh.integers(1, 3), height, width, C, rng=fresh)
    filters, bias = integers(k, k, C // groups, K, rng=fresh), integers(K, rng=fresh)
    with watched("im2col", windows):
        y = forward(image, filters, bias, stride, padding, dilation, groups)
    expect(
        y,
        layer(image, filters, bias, stride, padding, dilation, groups),
        name=f"forward of {image.shape} with {k=}, {K=}, {stride=}, {padding=}, {dilation=}, {groups=}",
    )
### END HIDDEN TESTS

# %% [markdown]
# Does `forward` compute *one* product, of the windows and the filters, and does the result come from this
# product? The next check replaces `gemm` with a function that records the matrices and returns three times
# their product.

# %% given="tripled"
products = []  # the matrices that were multiplied


def tripled(A, B):
    """Replace gemm: a result computed from the product becomes three times as large."""
    products.append((A, B))
    return 3 * (A @ B)


# %% check="forward-is-a-gemm" points=1 see="1.3"
"""The result comes from one matrix product for all images and filters, or from one per group (1 point).

The hidden tests use layers with groups, dilation, stride and 1 × 1 filters.
"""
two_images = np.concatenate([small, 2 * small])  # (2, 3, 3, 1)
three_filters = small_filter * np.array([1.0, 10.0, 100.0])  # (2, 2, 1, 3)
products.clear()
with watched("im2col", im2col_by_definition), watched("gemm", tripled) as calls:
    result = forward(two_images, three_filters, np.zeros(3))
assert calls.count == 1, (
    f"forward() called gemm {calls.count} times for two images and three filters; one product is enough"
)
[(A, B)] = products if products[0][0].shape == (8, 4) else [(B.T, A.T) for A, B in products]
assert A.shape == (8, 4) and B.shape == (4, 3), (
    f"gemm was called with matrices of shapes {products[0][0].shape} and {products[0][1].shape}; "
    "the windows are (8, 4), the filters (4, 3)"
)
plain = convolve_loops(two_images, three_filters, np.zeros(3))
windows = im2col_by_definition(two_images, 2)
expect(np.sort(A), np.sort(windows), name="the matrix of windows in the call of gemm, each row sorted,")
expect(A @ B, plain.reshape(8, 3), name="the product that gemm computed")
expect(result, 3 * plain, name="forward, with a gemm that returns three times the product,")
x, w, b = integers(2, 5, 4, 4), integers(3, 3, 2, 6), integers(6)  # 12 windows, 6 filters of 18 weights
products.clear()
with watched("im2col", im2col_by_definition), watched("gemm", tripled) as calls:
    forward(x, w, b, groups=2)
assert calls.count == 2, f"forward() called gemm {calls.count} times for two groups; call it once per group"
work = sum(A.size * B.shape[1] for A, B in products)
assert work == 12 * 6 * 18, (
    f"the products of forward() take {work:,} multiply-adds for a layer of {12 * 6 * 18:,}; multiply the "
    "filters of a group with the channels of this group only"
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(7)
x, w, b = integers(2, 5, 4, 4, rng=fresh), integers(3, 3, 2, 6, rng=fresh), integers(6, rng=fresh)
with watched("im2col", im2col_by_definition), watched("gemm", tripled) as calls:
    result = forward(x, w, b, 2, 1, 1, 2)
assert calls.count == 2, f"forward() called gemm {calls.count} times for two groups with stride 2"
expect(result, 3 * convolve_loops(x, w, 0 * b, 2, 1, 1, 2) + b, name="two groups with the tripled product")
for C, k, K, stride, padding, dilation, groups in [
    (2, 3, 3, 1, 2, 2, 1),
    (3, 1, 4, 1, 0, 1, 1),  # a 1 × 1 convolution
    (3, 2, 3, 2, 0, 1, 3),  # depthwise
]:
    if has_failed("forward-equals-loops") or has_failed("forward-groups"):
        break  # those checks describe what is wrong with these layers
    height, width = 5 + fresh.choice(3, 2, replace=False)
    image = integers(2, height, width, C, rng=fresh)
    filters, bias = integers(k, k, C // groups, K, rng=fresh), integers(K, rng=fresh)
    products.clear()
    with watched("im2col", im2col_by_definition), watched("gemm", tripled) as calls:
        result = forward(image, filters, bias, stride, padding, dilation, groups)
    assert calls.count == groups, f"forward() called gemm {calls.count} times for {groups} groups"
    work = sum(A.size * B.shape[1] for A, B in products)
    assert work == result.size * filters[..., 0].size, (
        f"{work:,} multiply-adds for a layer with {k=}, {groups=}"
    )
    plain = convolve_loops(image, filters, 0 * bias, stride, padding, dilation, groups)
    expect(result, 3 * plain + bias, name=f"forward of {image.shape} with the tripled product, {k=}")
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The gradient of the filters and of the biases
#
# Training needs the derivatives of a loss L. The layer above passes down dy = ∂L/∂y, one number for each
# value of y. As a matrix product, the layer is Y = X·W + b, where X is the matrix of windows. What are
# ∂L/∂W and ∂L/∂b in terms of X and ∂L/∂Y? The shapes are a strong hint: ∂L/∂W has the shape of W.
#
# The layer sums over all windows of all images. If the loss is a mean over the batch, the loss itself
# divides by the batch size. In `filter_gradient` you may use `gemm` or any other matrix product, because its
# checks compare only values.


# %% solution="filter_gradient"
def filter_gradient(dy, x, k, stride=1, padding=0, dilation=1, groups=1):
    """Return the gradients of the loss with respect to the filters and the biases.

    dy (N, H_out, W_out, K) is ∂L/∂y; x (N, H, W, C) are the images in the forward pass.
    Returns dw (k, k, C / groups, K) and db (K,).
    """
    N, H, W, C = x.shape
    K, C_group = dy.shape[3], C // groups
    expected = (N, *(output_size(n, k, stride, padding, dilation) for n in (H, W)), K)
    assert dy.shape == expected, f"dy has shape {dy.shape}; the layer's result has {expected}"
    ### BEGIN SOLUTION
    rows_of_dy = dy.reshape(-1, groups, K // groups)
    windows = im2col(x, k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
    parts = [gemm(windows[:, :, g].reshape(-1, k * k * C_group).T, rows_of_dy[:, g]) for g in range(groups)]
    dw = np.concatenate(parts, axis=1).reshape(k, k, C_group, K)
    db = dy.sum(axis=(0, 1, 2))
    ### END SOLUTION
    assert dw.shape == (k, k, C_group, K) and db.shape == (K,), (
        f"dw has shape {dw.shape} and db {db.shape}; they should have {(k, k, C_group, K)} and {(K,)}"
    )
    return dw, db


# %% [markdown]
# How do you check a gradient? Change one parameter by a step, and compute how much the loss changes. For
# most functions the step must be small. This layer is *linear* in w, in b and in x, so a step of any size
# gives the exact gradient. The checks use a step of 1 and L = Σ dy·y.


# %% given="differences"
def loss_differences(loss, parameters):
    """Return ∂loss/∂parameters for a loss that is linear in them, from one step of 1 per entry."""
    gradient, base = np.empty(parameters.shape), loss(parameters)
    for place in np.ndindex(parameters.shape):
        moved = parameters.copy()
        moved[place] += 1
        gradient[place] = loss(moved) - base
    return gradient


# %% [markdown]
# In this example, dy is 1 everywhere on the small image. The gradient of each weight is then the sum of the
# four pixels that the weight multiplies. Which pixels does the upper left weight multiply?

# %%
dw, db = filter_gradient(np.ones((1, 2, 2, 1)), small, k=2)
print(dw[:, :, 0, 0], db)

# %% check="filter-gradient" points=1 see="1.5"
"""dw is the change in the loss for a step of 1 in each weight (1 point).

The hidden tests use other shapes, strides, paddings and dilations, and values that need the full precision.
"""
x, w, b, dy = integers(3, 3, 4, 2), integers(2, 2, 2, 3), integers(3), integers(3, 2, 3, 3)
by_steps = loss_differences(lambda w: np.sum(dy * convolve_loops(x, w, b)), w)
with watched("im2col", im2col_by_definition), unchanged(dy=dy, x=x):
    dw, _ = filter_gradient(dy, x, k=2)
for name, array, shape in [("dy", dy, (3, 2, 3, 3)), ("x", x, (3, 3, 4, 2))]:
    assert array.shape == shape, f"filter_gradient changed the shape of {name} from {shape} to {array.shape}"
expect(
    dw,
    by_steps,
    {
        "dw was averaged over the batch; the loss is a sum.": by_steps / 3,
        "dw was averaged over all windows; the loss is a sum.": by_steps / 18,
        "dw was turned by 180 degrees.": by_steps[::-1, ::-1],
        "dw has the opposite sign; the gradient points to larger losses.": -by_steps,
    },
    "dw",
)
x, w, b, dy = integers(1, 7, 11, 2), integers(3, 3, 2, 3), integers(3), integers(1, 2, 3, 3)
sizes = dict(stride=3, padding=1, dilation=2)
by_steps = loss_differences(lambda w: np.sum(dy * convolve_loops(x, w, b, **sizes)), w)
with watched("im2col", im2col_by_definition):
    dw, _ = filter_gradient(dy, x, k=3, **sizes)
expect(dw, by_steps, name="dw with stride 3, padding 1 and dilation 2")
### BEGIN HIDDEN TESTS
fresh = fresh_rng(8)


def windows(x, k, stride=1, padding=0, dilation=1):
    """Return the matrix of windows, from a view."""
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, [dilation * (k - 1) + 1] * 2, (1, 2))
    view = view[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return view.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[3])


def products_of_windows(dy, x, k, stride=1, padding=0, dilation=1, groups=1):
    """Return dw, from these windows."""
    part, K = x.shape[3] // groups, dy.shape[3]
    parts = windows(x, k, stride, padding, dilation).reshape(-1, k, k, groups, part)
    return np.einsum("rabgc,rgf->abcgf", parts, dy.reshape(-1, groups, K // groups)).reshape(k, k, part, K)


for k, K, stride, padding, dilation in [
    (3, 2, 2, 1, 1),
    (1, 3, 1, 0, 1),
    (2, 1, 3, 0, 1),
    (3, 2, 1, 1, 2),
    (2, 2, 2, 0, 3),
]:
    height, width = dilation * (k - 1) + 1 + stride + fresh.choice(4, 2, replace=False)
    places = [output_size(n, k, stride, padding, dilation) for n in (height, width)]
    image = integers(fresh.integers(1, 4), height, width, fresh.integers(1, 4), rng=fresh)
    dy = integers(len(image), *places, K, rng=fresh)
    with watched("im2col", windows):
        dw, _ = filter_gradient(dy, image, k, stride, padding, dilation)
    expect(
        dw,
        products_of_windows(dy, image, k, stride, padding, dilation),
        name=f"dw of {image.shape} with {k=}, {K=}, {stride=}, {padding=}, {dilation=}",
    )
image, dy = integers(2, 3, 4, 1, rng=fresh), integers(2, 2, 3, 2, rng=fresh)
dy -= dy.mean(axis=(0, 1, 2))  # twelve values of each filter: their sum, and with it the brightness, vanishes
with watched("im2col", windows):
    dw, _ = filter_gradient(dy, image + 2.0**30, 2)
assert np.abs(dw - products_of_windows(dy, image, 2)).max() < 1e-3, "dw of a bright image"
x, dy = integers(2, 4, 3, 2, rng=fresh) + 4_099, integers(2, 3, 2, 3, rng=fresh)
with watched("im2col", windows):
    dw, _ = filter_gradient(dy.astype(np.float32), x.astype(np.float32), 2)  # sums have less than 24 bits
expect(dw, products_of_windows(dy, x, 2).astype(np.float32), name="dw of a bright image in float32")
### END HIDDEN TESTS
with watched("im2col", im2col_by_definition):
    dw, db = filter_gradient(np.ones((1, 2, 2, 1), np.float32), small.astype(np.float32), k=2)
expect(dw, np.array([[12, 16], [24, 28]], np.float32).reshape(2, 2, 1, 1), name="dw of float32")

# %% check="filter-gradient-groups" points=1 see="1.5"
"""The gradient of a weight depends on the windows and the dy of its group only (1 point).

The hidden tests use other shapes and numbers of groups, including depthwise layers.
"""
x, w, b, dy = integers(1, 3, 4, 4), integers(2, 2, 2, 6), integers(6), integers(1, 2, 3, 6)
by_steps = loss_differences(lambda w: np.sum(dy * convolve_loops(x, w, b, groups=2)), w)
with watched("im2col", im2col_by_definition):
    dw, _ = filter_gradient(dy, x, k=2, groups=2)


def adjacent():
    """Return dw if the groups consist of adjacent columns."""
    pixels = im2col_by_definition(x, 2).reshape(1, 2, 3, 16)
    steps = loss_differences(
        lambda w: np.sum(dy * convolve_loops(pixels, w, b, groups=2)), w.reshape(1, 1, 8, 6)
    )
    return steps.reshape(w.shape)


def first():
    """Return dw if every group gets the first channels."""
    return loss_differences(lambda w: np.sum(dy * convolve_loops(x[..., [0, 1, 0, 1]], w, b, groups=2)), w)


expect(
    dw,
    by_steps,
    {
        "a group got adjacent columns of the matrix; the columns of its channels are not adjacent.": adjacent,
        "every group got the first channels.": first,
    },
    "dw of 4 channels and 6 filters in 2 groups",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(9)


def windows(x, k, stride=1, padding=0, dilation=1):
    """Return the matrix of windows, from a view."""
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, [dilation * (k - 1) + 1] * 2, (1, 2))
    view = view[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return view.transpose(0, 1, 2, 4, 5, 3).reshape(-1, k * k * x.shape[3])


def products_of_windows(dy, x, k, stride=1, padding=0, dilation=1, groups=1):
    """Return dw, from these windows."""
    part, K = x.shape[3] // groups, dy.shape[3]
    parts = windows(x, k, stride, padding, dilation).reshape(-1, k, k, groups, part)
    return np.einsum("rabgc,rgf->abcgf", parts, dy.reshape(-1, groups, K // groups)).reshape(k, k, part, K)


for C, k, K, stride, padding, dilation, groups in [
    (6, 3, 3, 2, 1, 1, 3),
    (3, 2, 6, 1, 0, 2, 3),  # depthwise, two filters per channel
    (8, 1, 4, 1, 0, 1, 2),
]:
    height, width = dilation * (k - 1) + 1 + stride + fresh.choice(4, 2, replace=False)
    places = [output_size(n, k, stride, padding, dilation) for n in (height, width)]
    image = integers(fresh.integers(1, 4), height, width, C, rng=fresh)
    dy = integers(len(image), *places, K, rng=fresh)
    with watched("im2col", windows):
        dw, _ = filter_gradient(dy, image, k, stride, padding, dilation, groups)
    expect(
        dw,
        products_of_windows(dy, image, k, stride, padding, dilation, groups),
        name=f"dw of {image.shape} with {k=}, {K=}, {stride=}, {padding=}, {dilation=}, {groups=}",
    )
### END HIDDEN TESTS

# %% check="bias-gradient" points=1 see="1.5"
"""db is the change in the loss for a step of 1 in each bias (1 point).

The hidden tests use other shapes, groups, float32, and values that need the full precision.
"""
x, w, b, dy = integers(3, 3, 4, 2), integers(2, 2, 2, 4), integers(4), integers(3, 2, 3, 4)
by_steps = loss_differences(lambda b: np.sum(dy * convolve_loops(x, w, b)), b)
with watched("im2col", im2col_by_definition):
    _, db = filter_gradient(dy, x, k=2)
expect(
    db,
    by_steps,
    {
        "db was averaged over the batch; the loss is a sum.": by_steps / 3,
        "db was averaged over all windows; the loss is a sum.": by_steps / 18,
    },
    "db",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(10)
dy = integers(3, 4, 2, 5, rng=fresh)
with watched("im2col", im2col_by_definition):
    _, db = filter_gradient(dy, integers(3, 4, 2, 1, rng=fresh), k=1)
expect(db, np.einsum("nijf->f", dy), name="db of a 1 × 1 layer")
dy = integers(2, 2, 3, 4, rng=fresh)
with watched("im2col", im2col_by_definition):
    _, db = filter_gradient(dy, integers(2, 5, 7, 2, rng=fresh), 2, 2, 0, 2, 2)
expect(db, np.einsum("nijf->f", dy), name="db with stride, dilation and groups")
bright = dy + 2.0**30 * np.array([1, -1]).reshape(2, 1, 1, 1)  # cancels if float64 is kept
with watched("im2col", im2col_by_definition):
    _, db = filter_gradient(bright, integers(2, 5, 7, 2, rng=fresh), 2, 2, 0, 2, 2)
expect(db, np.einsum("nijf->f", dy), name="db of large values that cancel")
with watched("im2col", im2col_by_definition):
    _, db = filter_gradient(
        dy.astype(np.float32), integers(2, 5, 7, 2, rng=fresh).astype(np.float32), 2, 2, 0, 2, 2
    )
expect(db, np.einsum("nijf->f", dy).astype(np.float32), name="db of float32")
dy += 4_099  # more than half precision holds
with watched("im2col", im2col_by_definition):
    _, db = filter_gradient(
        dy.astype(np.float32), integers(2, 5, 7, 2, rng=fresh).astype(np.float32), 2, 2, 0, 2, 2
    )
expect(db, np.einsum("nijf->f", dy).astype(np.float32), name="db of large values in float32")
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The gradient of the images is a convolution
#
# A network of several layers needs the gradient of the images: dx of this layer is dy of the layer below.
# The lecture adds the gradient of the *windows* to the image in place (col2im). A second method needs no
# additions in place and reuses your `forward`: **dx is itself a convolution of dy.**
#
# Take one row of pixels, stride 1, no padding: y[i] = x[i]·w[0] + x[i+1]·w[1] + x[i+2]·w[2]. Which values of
# y depend on the pixel x[5], and which weight multiplies x[5] in each of them? Write dx[5] as a sum of three
# products. In which order do the weights multiply dy? Fewer values depend on pixels near the edge: which
# numbers must surround dy to account for this?
#
# After three steps you can call `forward` once, with stride 1, without padding, and with the dilation and the
# groups of the layer. Its biases are zeros of dy's dtype.
#
# 1. **Spread.** With a stride, neighbouring values of y belong to windows that are `stride` pixels apart.
#    Write dy into an array of zeros, `stride` apart.
# 2. **Surround.** `forward` with the dilation of the layer must find H × W windows in that array, so it has
#    H + dilation·(k − 1) rows. In which row does dy begin? (Pixel 0 of the image is row `padding` of the
#    padded image. Try k = 3 with padding 0, 1 and 2.) The rows after the last value remain zero, because
#    with a stride some pixels may not be in any window.
# 3. **Turn.** A filter's weights multiply dy in the opposite order, and channels and filters swap roles:
#    `(k, k, C / groups, K)` becomes `(k, k, K / groups, C)`, separately for each group.


# %% solution="input_gradient"
def input_gradient(dy, w, shape, stride=1, padding=0, dilation=1, groups=1):
    """Return the gradient of the loss with respect to the images: one convolution of dy by `forward`.

    dy (N, H_out, W_out, K), w (k, k, C / groups, K), shape = (N, H, W, C). Returns dx (N, H, W, C).
    The padding is at most dilation * (k - 1).
    """
    N, H, W, C = shape
    k, _, C_group, K = w.shape
    H_out, W_out = (output_size(n, k, stride, padding, dilation) for n in (H, W))
    assert dy.shape == (N, H_out, W_out, K) and C_group * groups == C, (
        f"dy {dy.shape} and filters {w.shape} do not fit images {shape}"
    )
    assert padding <= dilation * (k - 1), (
        f"padding is {padding}; it may be at most dilation * (k - 1) = {dilation * (k - 1)}"
    )
    ### BEGIN SOLUTION
    margin = dilation * (k - 1)
    spread = np.zeros((N, H + margin, W + margin, K), dy.dtype)
    first = margin - padding
    spread[:, first : first + stride * H_out : stride, first : first + stride * W_out : stride] = dy
    turned = w[::-1, ::-1].reshape(k, k, C_group, groups, K // groups).transpose(0, 1, 4, 3, 2)
    turned = turned.reshape(k, k, K // groups, C)
    dx = forward(spread, turned, np.zeros(C, dy.dtype), dilation=dilation, groups=groups)
    ### END SOLUTION
    assert dx.shape == tuple(shape), f"dx has shape {dx.shape}; it should have {tuple(shape)}"
    return dx


# %% [markdown]
# Compute an example by hand: with dy = 1 everywhere, the gradient of each pixel of the small image is the
# sum of the weights that multiply this pixel. What should the gradient be in the centre, and in each corner?

# %%
print(input_gradient(np.ones((1, 2, 2, 1)), small_filter, small.shape)[0, :, :, 0])

# %% check="input-gradient" points=2 see="1.5"
"""dx is the change in the loss for a step of 1 in each pixel (2 points).

The hidden tests use other shapes, strides, paddings, dilations and groups, and values that need the full
precision.
"""


def dx_by_steps(dy, w, shape, **sizes):
    """Return the gradient of the images from unit steps; dy is in the upper left of the result."""
    b = np.zeros(w.shape[3])
    larger = convolve_loops(np.zeros(shape), w, b, **sizes)
    larger[:, : dy.shape[1], : dy.shape[2]] = dy
    return loss_differences(lambda x: np.sum(larger * convolve_loops(x, w, b, **sizes)), np.zeros(shape))


w, dy = integers(2, 2, 2, 3), integers(2, 2, 3, 3)
by_steps = dx_by_steps(dy, w, (2, 3, 4, 2))
with watched("forward", convolve_loops), unchanged(dy=dy, w=w):
    dx = input_gradient(dy, w, (2, 3, 4, 2))
for name, array, shape in [("dy", dy, (2, 2, 3, 3)), ("w", w, (2, 2, 2, 3))]:
    assert array.shape == shape, f"input_gradient changed the shape of {name} from {shape} to {array.shape}"
expect(
    dx,
    by_steps,
    {
        "the filters were not turned; they meet dy in the opposite order, turned by 180 degrees.": (
            lambda: dx_by_steps(dy, w[::-1, ::-1], (2, 3, 4, 2))
        ),
        "dy begins in row 0 of the array, which is too early.": (
            lambda: dx_by_steps(dy, w, (2, 3, 4, 2), padding=1)
        ),
        "dx was averaged over the batch; the loss is a sum.": by_steps / 2,
    },
    "dx",
)


def layer_of_dtypes(x, w, b, *args, **sizes):
    """Replace forward: the result has the dtype of products and sums of these arrays."""
    return convolve_loops(x, w, b, *args, **sizes).astype(np.result_type(x, w, b))


with watched("forward", layer_of_dtypes):
    dx = input_gradient(np.ones((1, 2, 2, 1), np.float32), small_filter.astype(np.float32), (1, 3, 3, 1))
by_hand = np.array([[1, 3, 2], [4, 10, 6], [3, 7, 4]], np.float32).reshape(1, 3, 3, 1)
expect(dx, by_hand, name="dx of the small image in float32, with dy = 1,")

not_spread = {"dy was not spread; its values are `stride` apart.": dict(stride=1)}
too_early = {
    "dy begins in row 1 of the array, which is too early for this dilation.": dict(padding=3, dilation=2),
    "the dilation was ignored.": dict(padding=1),
}
for shape, k, K, sizes, mistakes in [
    ((1, 6, 7, 2), 2, 3, dict(stride=3), not_spread),
    ((1, 2, 3, 2), 3, 2, dict(padding=2), {}),
    ((1, 4, 5, 2), 3, 3, dict(padding=1, dilation=2), too_early),
    ((1, 2, 3, 4), 2, 6, dict(groups=2), {}),
]:
    w = integers(k, k, shape[3] // sizes.get("groups", 1), K)
    dy = integers(*convolve_loops(np.zeros(shape), w, np.zeros(K), **sizes).shape)
    hints = {message: partial(dx_by_steps, dy, w, shape, **other) for message, other in mistakes.items()}
    hints["the filters were not turned; they meet dy in the opposite order."] = partial(
        dx_by_steps, dy, w[::-1, ::-1], shape, **sizes
    )
    with watched("forward", convolve_loops):
        dx = input_gradient(dy, w, shape, **sizes)
    expect(dx, dx_by_steps(dy, w, shape, **sizes), hints, f"dx of images {shape} with {k=}, {K=}, {sizes}")
### BEGIN HIDDEN TESTS
fresh = fresh_rng(11)


def added(dy, w, shape, stride=1, padding=0, dilation=1, groups=1):
    """Return dx: the gradient of each window's pixels, added to the image."""
    k, (N, H, W, C) = len(w), shape
    dx = np.zeros((N, H + 2 * padding, W + 2 * padding, C))
    w, dy = w.reshape(k, k, -1, groups, w.shape[3] // groups), dy.reshape(*dy.shape[:3], groups, -1)
    for i, j in np.ndindex(k, k):
        rows, cols = (
            slice(p * dilation, p * dilation + stride * (n - 1) + 1, stride)
            for p, n in zip((i, j), dy.shape[1:3], strict=True)
        )
        dx[:, rows, cols] += np.einsum("nijgf,cgf->nijgc", dy, w[i, j]).reshape(*dy.shape[:3], C)
    return dx[:, padding : padding + H, padding : padding + W]


for C, k, K, stride, padding, dilation, groups in [
    (2, 3, 2, 2, 1, 1, 1),
    (1, 1, 3, 1, 0, 1, 1),
    (2, 1, 2, 2, 0, 1, 1),
    (1, 2, 2, 3, 0, 1, 1),
    (2, 3, 1, 1, 2, 1, 1),
    (2, 3, 2, 2, 1, 2, 1),
    (4, 2, 6, 1, 0, 1, 2),
    (3, 3, 6, 2, 2, 1, 3),  # depthwise, two filters per channel
]:
    height, width = dilation * (k - 1) + 1 + stride + fresh.permutation(2) + stride - 1
    places = [output_size(n, k, stride, padding, dilation) for n in (height, width)]
    shape = (int(fresh.integers(1, 3)), int(height), int(width), C)  # with a stride, pixels are left over
    filters, dy = integers(k, k, C // groups, K, rng=fresh), integers(shape[0], *places, K, rng=fresh)
    with watched("forward", convolve_loops):
        dx = input_gradient(dy, filters, shape, stride, padding, dilation, groups)
    expect(
        dx,
        added(dy, filters, shape, stride, padding, dilation, groups),
        name=f"dx of {shape} with {k=}, {K=}, {stride=}, {padding=}, {dilation=}, {groups=}",
    )
w, dy = integers(2, 2, 1, 2, rng=fresh), integers(1, 3, 4, 2, rng=fresh)
w[..., 1] = w[..., 0]  # so that large values with opposite signs cancel if float64 is kept
with watched("forward", convolve_loops):
    dx = input_gradient(dy + np.array([2.0**30, -(2.0**30)]), w, (1, 4, 5, 1))
expect(dx, added(dy, w, (1, 4, 5, 1)), name="dx of large values that cancel")
w, dy = integers(3, 3, 2, 3, rng=fresh), integers(2, 2, 3, 3, rng=fresh) + 4_099
with watched("forward", layer_of_dtypes):
    dx = input_gradient(dy.astype(np.float32), w.astype(np.float32), (2, 4, 5, 2))
expect(dx, added(dy, w, (2, 4, 5, 2)).astype(np.float32), name="dx of large values in float32")
### END HIDDEN TESTS

# %% check="input-gradient-is-a-convolution" points=1 see="1.5"
"""dx comes from one convolution of dy with rotated filters, without additions in place (1 point).

The hidden tests use other shapes, strides, dilations and groups.
"""
used = []


def tripled_layer(x, w, b, *args, **sizes):
    """Replace forward: a result computed from its output becomes three times as large."""
    y = convolve_loops(x, w, b, *args, **sizes)
    used.append((w.shape, y))
    return 3 * y


w, dy = integers(3, 3, 2, 4), integers(2, 4, 3, 4)  # the images are (2, 6, 5, 2)
with watched("forward", convolve_loops):
    dx = input_gradient(dy, w, (2, 6, 5, 2))
products.clear()
with watched("forward", tripled_layer) as layers, watched("gemm", tripled) as calls:
    result = input_gradient(dy, w, (2, 6, 5, 2))
assert layers.count + calls.count == 1, (
    f"input_gradient() called forward {layers.count} times and gemm itself {calls.count} times; "
    "a convolution is one call of forward"
)
for A, B in products:  # im2col and gemm, without forward, are a convolution, too
    assert {len(A), B.shape[1]} != {24, 18}, (
        "gemm returned one number per position of dy (24) and weight of a filter (18): the gradient of the "
        "windows. Adding it to the image in place, as the lecture does, is not a convolution of dy"
    )
    turned = {A.shape, B.shape} in ({(60, 36), (36, 2)}, {(2, 36), (36, 60)})
    y = A @ B if B.shape[1] == 2 else (A @ B).T
    used.append(((3, 3, 4, 2) if turned else (A.shape, B.shape), y))
[(shape, y)] = used
assert shape == (3, 3, 4, 2), (
    f"the filters in the call had the shape {shape}; w is (3, 3, 2, 4), and in the backward pass channels "
    "and filters swap roles"
)
expect(y.reshape(-1), dx.reshape(-1), name="what the layer computed")
expect(result, 3 * dx, name="dx, with a layer that returns three times the result,")
### BEGIN HIDDEN TESTS
fresh = fresh_rng(12)
for C, k, K, stride, padding, dilation, groups in [
    (3, 2, 2, 1, 0, 1, 1),
    (2, 3, 2, 2, 1, 1, 1),
    (2, 3, 3, 1, 1, 2, 1),
    (4, 3, 6, 1, 1, 1, 2),
]:
    height, width = 5 + fresh.choice(3, 2, replace=False)
    shape = (2, int(height), int(width), C)
    if has_failed("input-gradient") and (stride, dilation, groups) != (1, 1, 1):
        break  # those checks describe what is wrong with these layers
    sizes = stride, padding, dilation, groups
    w = integers(k, k, shape[3] // groups, K, rng=fresh)
    dy = integers(shape[0], *(output_size(n, k, stride, padding, dilation) for n in shape[1:3]), K, rng=fresh)
    with watched("forward", convolve_loops):
        dx = input_gradient(dy, w, shape, *sizes)
    products.clear()
    used.clear()
    with watched("forward", tripled_layer) as layers, watched("gemm", tripled) as calls:
        result = input_gradient(dy, w, shape, *sizes)
    assert np.any(dx), "dx is zero everywhere"
    assert 1 <= layers.count + calls.count <= groups, (
        f"input_gradient() called forward {layers.count} times and gemm {calls.count} times, {groups=}"
    )
    for A, _ in products:
        assert A.shape[1] >= k * k * K // groups, "the matrix product does not sum over the windows of dy"
    work = sum(int(np.prod(size)) for size, _ in used) * (dx.size // shape[3])
    work += sum(A.size * B.shape[1] for A, B in products)
    assert work == w.size * (dx.size // shape[3]), f"dx takes {work:,} multiply-adds, with {groups=}"
    expect(result, 3 * dx, name=f"dx of {shape} with a layer that returns three times the result, {sizes=},")
### END HIDDEN TESTS

# %% [markdown]
# ## 5. What it costs
#
# You have now seen three matrix products. This is why a training step costs about three times as much as a
# forward pass. The time that a layer takes depends on two numbers of the layer and two of the machine. The
# layer's numbers are its FLOPs and the bytes that must move between memory and processor. Their ratio is the
# *arithmetic intensity*, in FLOP per byte. A machine with P FLOP/s and B byte/s needs an intensity of at
# least P/B to use its full arithmetic speed.
#
# Count the matrix products of the forward pass only (not the bias). For the bytes, assume the best case:
# images, filters and biases are each read once, and the result is written once. With im2col, the matrix of
# windows is also written once and read once.
#
# **Predict.** A layer with C = K = 64 becomes depthwise (groups = 64). By what factor
# do its FLOPs decrease, and by what factor do its bytes decrease? Enter your
# predictions; they are not graded.

# %%
predicted_flops_factor = None
predicted_bytes_factor = None


# %% solution="layer_flops"
def layer_flops(N, H, W, C, K, k, stride=1, padding=0, dilation=1, groups=1):
    """Return the FLOPs of the forward matrix products, as an int; a multiply-add is two FLOPs.

    In the tests, C and K are at most 200,000 and all other sizes at most 1,000. The result can exceed 2⁵³,
    above which a float cannot represent every integer.
    """
    H_out, W_out = (output_size(n, k, stride, padding, dilation) for n in (H, W))
    ### BEGIN SOLUTION
    multiply_adds = N * H_out * W_out * K * k * k * (C // groups)
    flops = 2 * multiply_adds
    ### END SOLUTION
    return flops


# %% solution="layer_bytes"
def layer_bytes(N, H, W, C, K, k, stride=1, padding=0, dilation=1, groups=1, itemsize=4, with_im2col=False):
    """Return the smallest number of bytes that the forward pass must move, as an int.

    itemsize is the size in bytes of each number (float32: 4), also in the matrix of windows. The zeros of the
    padding are not stored with the images, but they are stored in the matrix of windows. In the tests, sizes
    and results are as large as those of layer_flops.
    """
    H_out, W_out = (output_size(n, k, stride, padding, dilation) for n in (H, W))
    ### BEGIN SOLUTION
    images, filters, bias = N * H * W * C, k * k * (C // groups) * K, K
    result = N * H_out * W_out * K
    windows = N * H_out * W_out * k * k * C
    numbers = images + filters + bias + result + (2 * windows if with_im2col else 0)
    moved = itemsize * numbers
    ### END SOLUTION
    return moved


# %% [markdown]
# Compute an example by hand, with the small image and one 2 × 2 filter: how many windows are there, and how
# many multiply-adds per window? How many numbers are read and written?

# %%
print(layer_flops(N=1, H=3, W=3, C=1, K=1, k=2), "FLOPs")
print(layer_bytes(N=1, H=3, W=3, C=1, K=1, k=2), "bytes")

# %% check="flops-by-hand" points=1 see="1.2"
"""4 windows of 4 multiply-adds each (1 point)."""
expect(
    layer_flops(N=1, H=3, W=3, C=1, K=1, k=2),
    32,
    {
        "each multiply-add was counted once; it is a multiplication and an addition.": 16,
        "a window was counted at every pixel; only H_out × W_out windows fit.": 72,
    },
    "layer_flops of the small image",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(13)
N, H, W, K = fresh.choice(np.arange(2, 9), 4, replace=False).tolist()
flops = 2 * N * (H - 1) * (W - 1) * K * 4
expect(layer_flops(N=N, H=H, W=W, C=1, K=K, k=2), flops, name=f"layer_flops of {N} images and {K} filters")
### END HIDDEN TESTS

# %% check="flops-of-layers" points=1 see="1.2"
"""Layers of AlexNet, ResNet-50 and MobileNet: batches, strides, padding, groups (1 point).

The hidden tests use images that are not square, dilation, and very large layers.
"""
# HASHED AUTOTEST layer_flops(N=1, H=227, W=227, C=3, K=96, k=11, stride=4)
# HASHED AUTOTEST layer_flops(N=32, H=56, W=56, C=64, K=64, k=3, padding=1)
# HASHED AUTOTEST layer_flops(N=1, H=112, W=112, C=64, K=64, k=3, stride=2, padding=1, groups=64)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(14)


def odd(low, high):
    """Return an odd number between two others."""
    return 2 * int(fresh.integers(low // 2, high // 2)) + 1


for about, k, stride, padding, dilation, groups in [
    ("a 1 × 1 layer", 1, 1, 0, 1, 1),
    ("stride 2, not square", 3, 2, 1, 1, 1),
    ("two groups", 5, 1, 2, 1, 2),
    ("dilation 3", 3, 2, 1, 3, 2),
]:
    H, W = (11 + fresh.choice(20, 2, replace=False)).tolist()
    N, C, K = (groups * fresh.choice(np.arange(2, 60), 3, replace=False)).tolist()
    places = [(n + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for n in (H, W)]
    expect(
        layer_flops(N, H, W, C, K, k, stride, padding, dilation, groups),
        2 * N * places[0] * places[1] * K * k * k * (C // groups),
        name=f"layer_flops with {about}",
    )
N, H, W, C, K = 3, odd(901, 999), odd(901, 999), odd(100_001, 199_999), odd(100_001, 199_999)
expect(
    layer_flops(N=N, H=H, W=W, C=C, K=K, k=1),
    2 * N * H * W * C * K,  # twice an odd number above 2⁵³
    name="layer_flops of a layer with more FLOPs than a float can represent",
)
### END HIDDEN TESTS

# %% check="bytes-by-hand" points=1 see="1.7"
"""9 pixels, 4 weights, 1 bias, 4 results, 4 bytes each; im2col writes and reads 16 more (1 point).

The hidden tests use other layers, dilation, other sizes of a number, and very large layers.
"""
expect(
    layer_bytes(N=1, H=3, W=3, C=1, K=1, k=2),
    72,
    {
        "the result is missing; writing it moves bytes, too.": 56,
        "numbers were counted, not bytes.": 18,
        "each number was counted with 8 bytes; use itemsize.": 144,
        "the biases are missing.": 68,
    },
    "layer_bytes of the small image",
)
expect(
    layer_bytes(N=1, H=3, W=3, C=1, K=1, k=2, with_im2col=True),
    72 + 128,
    {
        "the matrix of windows was counted once; it is written and then read.": 72 + 64,
        "the images are missing; they are read to build the matrix of windows.": 72 + 128 - 36,
    },
    "layer_bytes of the small image with im2col",
)
expect(
    layer_bytes(N=1, H=3, W=3, C=1, K=1, k=2, itemsize=2, with_im2col=True),
    36 + 64,
    {"the matrix of windows was counted in float32; its numbers also have `itemsize` bytes.": 36 + 128},
    "layer_bytes of the small image with im2col in float16",
)
layer = dict(N=5, H=7, W=6, C=6, K=9, k=3, stride=2, padding=1, groups=3)
expect(
    layer_bytes(**layer),
    7_884,
    {
        "the images were counted once; a batch has N of them.": 3_852,
        "the images were counted with the zeros of the padding.": 11_484,
        "the filters were counted with C channels; in a group they have C / groups.": 9_180,
        "filters and biases were counted once per image; all images share them.": 10_620,
        "the result was counted with H × W windows per image.": 13_284,
    },
    f"layer_bytes of {layer}",
)
expect(
    layer_bytes(**layer, with_im2col=True),
    33_804,
    {
        "the matrix of windows was counted once; it is written and then read.": 20_844,
        "the matrix of windows has all C channels, not those of one group.": 16_524,
        "the windows of one image were counted; a batch has N images.": 13_068,
        "the images are missing; they are read to build the matrix of windows.": 28_764,
    },
    f"layer_bytes with im2col of {layer}",
)
### BEGIN HIDDEN TESTS
fresh = fresh_rng(15)
for stride, padding, dilation, groups, itemsize in [(2, 1, 1, 1, 2), (2, 1, 3, 2, 8), (1, 0, 2, 3, 4)]:
    H, W = (11 + fresh.choice(20, 2, replace=False)).tolist()
    N, C, K = (groups * fresh.choice(np.arange(2, 9), 3, replace=False)).tolist()
    layer = dict(N=N, H=H, W=W, C=C, K=K, k=3, stride=stride, padding=padding, dilation=dilation)
    layer |= dict(groups=groups, itemsize=itemsize)
    rows, cols = ((n + 2 * padding - 2 * dilation - 1) // stride + 1 for n in (H, W))
    numbers = N * H * W * C + 9 * (C // groups) * K + K + N * rows * cols * K
    expect(layer_bytes(**layer), itemsize * numbers, name=f"layer_bytes of {layer}")
    numbers += 2 * N * rows * cols * 9 * C
    expect(layer_bytes(**layer, with_im2col=True), itemsize * numbers, name=f"with im2col, of {layer}")
N, C, K = 3, *(2 * fresh.integers(50_000, 100_000, 2) + 1).tolist()
expect(
    layer_bytes(N=N, H=999, W=998, C=C, K=K, k=998, itemsize=1),
    N * 999 * 998 * C + 998**2 * C * K + K + N * 2 * K,  # an odd number above 2⁵³
    name="layer_bytes of a layer with more bytes than a float can represent",
)
### END HIDDEN TESTS


# %% given="define-intensity"
def intensity(**layer):
    """Return the arithmetic intensity of a layer's forward pass, in FLOP/byte."""
    sizes = {name: value for name, value in layer.items() if name not in ("itemsize", "with_im2col")}
    return layer_flops(**sizes) / layer_bytes(**layer)


# %% [markdown]
# Compare the result with your prediction. If the FLOPs decrease much more than the bytes, the intensity
# decreases, too.

# %%
full = dict(N=32, H=56, W=56, C=64, K=64, k=3, padding=1)
depthwise = full | {"groups": 64}
by_flops = layer_flops(**full) / layer_flops(**depthwise)
by_bytes = layer_bytes(**full) / layer_bytes(**depthwise)
print(f"FLOPs decrease by a factor of {by_flops:.0f} (predicted {predicted_flops_factor}), ", end="")
print(f"bytes by {by_bytes:.2f} (predicted {predicted_bytes_factor})")
for name, layer in [("full", full), ("depthwise", depthwise)]:
    best, im2col_too = intensity(**layer), intensity(**layer, with_im2col=True)
    print(f"{name:9} {best:7.1f} FLOP/byte, with im2col {im2col_too:5.1f}")

# %% [markdown]
# ### Written answer (2 points, graded manually)
#
# An accelerator has 100 TFLOP/s and 1 TB/s. Someone replaces the full layer above with
# the depthwise one, and expects the time to decrease by the same factor as the FLOPs.
# **Is this right?** Answer in about five sentences, with the intensities that your cell
# above printed:
#
# 1. What limits the full layer, and what limits the depthwise layer?
# 2. About how many times faster does the layer become, in the best case without im2col?
# 3. Quote the line of *your* `layer_bytes` that counts the images. Why doesn't it depend on `groups`, and
#    what does that have to do with your answer to question 2?

# %% [markdown] explain="depthwise-in-time" points=2
# ### BEGIN SOLUTION
# **Rubric.** Language and length are not graded.
#
# | points | for |
# |---|---|
# | ½ | 1: arithmetic limits the full layer: its intensity of 144 exceeds 100 |
# | ½ | 1: memory limits the depthwise layer: its intensity of 2.2 is below 100 |
# | ½ | 2: a factor of about 1.4, or by sound reasoning from wrong intensities |
# | ½ | 3: the student's own line, and that images and result stay the same size, so the bytes hardly change |
#
# - *Limits*: the machine needs 100 FLOP per byte. The full layer has more (about 144 in float32), so
#   arithmetic limits it. The depthwise layer has far fewer (2.2), so memory limits it: moving its bytes
#   takes all the time.
# - *Factor*: the full layer takes its FLOPs / 100 TFLOP/s, the depthwise one its bytes / 1 TB/s: 74 µs and
#   51 µs, a factor of about 1.4, not 64.
# - *Line*: any line with N·H·W·C. Each group reads its own channels, so that all groups together read every
#   image once.
#
# **Two points.** "No. The full layer has 144 FLOP/byte, more than the 100 that the machine needs, so
# arithmetic limits it: 7.4 GFLOP take 74 µs. The depthwise layer has 2.2 FLOP/byte, so memory limits it: 51
# MB take 51 µs, and it is 1.4 times faster, not 64 times. My line is `images = N * H * W * C`. The groups
# share the channels, so the images are read once as before, and the bytes hardly decrease."
#
# **One point.** "No, memory limits the depthwise layer (2.2 FLOP/byte). In `pixels = N*H*W*C` there is no
# `groups`, because all channels are still read." (One of the two limits, and the line with its reason; no
# factor.)
#
# **No points.** "No, because im2col takes time as well." (Both layers use it, so it does not explain the
# factor.)
# ### END SOLUTION

# %% [markdown]
# ## 6. Predict, then measure
#
# A layer has 16 × 16 pixels, 16 channels and 3 × 3 filters. The loops compute one value of the result at a
# time; your `forward` computes all of them in one product. For the same number of filters, both execute the
# same number of FLOPs. **Predict**: how many times faster is the product with one filter? With 64? Enter
# your predictions; they are not graded.

# %%
predicted_gain_1 = None
predicted_gain_64 = None

# %% [markdown]
# We measure both in one run and take the median of several repetitions. Only the *ratio* matters: seconds
# depend on the machine.


# %% tags=["measured"]
def median_seconds(function, *args, repeat=5):
    """Return the median time of a call in seconds, after one warm-up call."""
    function(*args)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - start)
    return np.median(times)


filters = [1, 4, 16, 64]
gain = []
x = rng.standard_normal((1, 16, 16, 16), dtype=np.float32)
for K in filters:
    w, b = rng.standard_normal((3, 3, 16, K), dtype=np.float32), np.zeros(K, np.float32)
    gain.append(
        median_seconds(convolve_loops, x, w, b, repeat=3) / median_seconds(forward, x, w, b, repeat=9)
    )
    predicted = {1: f"; predicted {predicted_gain_1}", 64: f"; predicted {predicted_gain_64}"}.get(K, "")
    print(f"{K:2} filters: the matrix product is {gain[-1]:6.0f} times faster{predicted}")

# %% [markdown]
# How do im2col and groups affect the intensity? The right figure uses your counts for a layer with 56 × 56
# pixels and as many filters as channels.

# %% tags=["measured"]
channels = 2 ** np.arange(2, 10)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.loglog(filters, gain, "o-")
left.set(xlabel="filters K", ylabel="time of loops / time of GEMM", title="Speed-up of one matrix product")
kinds = [("best case", "o-", {}), ("with im2col", "s--", {"with_im2col": True}), ("depthwise", "^:", {})]
for name, style, extra in kinds:
    values = [
        intensity(N=1, H=56, W=56, C=C, K=C, k=3, padding=1, groups=C if name == "depthwise" else 1, **extra)
        for C in channels.tolist()
    ]
    right.loglog(channels, values, style, label=name)
right.set(xlabel="channels C = K", ylabel="intensity (FLOP/byte)", title="Effect of im2col and groups")
right.legend()
plt.show()

# %% [markdown]
# *Left: the time of the loops divided by the time of the matrix product, plotted against the number of
# filters. Right: the intensity of a 3 × 3 layer, plotted against its number of channels. In the best case,
# and also with the matrix of windows in memory, the intensity increases with the channels. For a depthwise
# layer it stays at about two.*
#
# Look at the left figure first: does the ratio depend on the number of filters as you
# predicted? The loops do little work per value, so Python's own overhead dominates; the
# matrix product has this overhead only once. However, the matrix of windows causes
# memory traffic, as the dashed line shows. With im2col, memory may therefore limit a
# layer that arithmetic would otherwise limit.
#
# ## What you have learned
#
# - im2col arranges windows as rows. A convolutional layer is then one matrix product, and a grouped layer
#   several smaller ones. A dilation only changes which pixels belong to a window.
# - The gradient of the filters is a product with the same windows. The gradient of the images is a
#   convolution of dy, spread by the stride, with rotated filters. The same GEMM serves the forward and the
#   backward pass.
# - The gradient of a linear layer can be checked exactly, with a step of any size.
# - FLOPs and bytes follow from the shapes, and their ratio determines what limits the layer.
#
# ## Open questions
#
# 1. Can you compute the matrix product without storing the matrix? (Write it as a sum over k·k shifted
#    images, and count its bytes.)
# 2. A 1 × 1 layer needs no im2col. Why do ResNet-50's bottlenecks use so many of them, and what is their
#    intensity?
# 3. With stride 2, three of four values of the spread dy are zero. What fraction of the multiply-adds of
#    `input_gradient` is wasted, and would col2im waste them, too?
# 4. An accelerator with 100 TFLOP/s and 1 TB/s needs 100 FLOP per byte. Which layers in the figure reach
#    this intensity, and what would change with float16?
