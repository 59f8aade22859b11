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
# A convolutional layer is written down as seven nested loops. The thing a processor does fastest is the
# product of two large matrices (GEMM, *general matrix multiply*). **How do you turn the first into the
# second, forwards and backwards, and what does it cost?**
#
# You will
#
# - lay the windows of an image out as the rows of a matrix (im2col),
# - compute the layer with one matrix product,
# - derive its three gradients and compute them with two more,
# - count the floating-point operations and the bytes, and say from these when the layer is bound by memory,
# - predict what the matrix product gains over the loops, and measure it.
#
# The background is lecture 01. There are 20 points in 14 checks. Each function has one hole, which sets the
# variable that the function returns. Fill the holes marked `YOUR CODE HERE`, run the free cell below each,
# then the checks; a check that fails says what it saw. Some checks also try cases that are not shown, so
# write what the definition says, not what the example needs.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | symbol | meaning |
# |---|---|---|---|
# | N | images in a batch | K | filters (channels out) |
# | H, W | height and width of an image | k | size of a filter, k × k |
# | C | channels in | H_out, W_out | height and width of the result |
#
# Arrays are stored as TensorFlow stores them, channels last: images x `(N, H, W, C)`, filters w `(k, k, C,
# K)`, biases b `(K,)`, result y `(N, H_out, W_out, K)`. A multiply-add counts as two FLOPs.

# %% given="setup"
import time

import matplotlib.pyplot as plt
import numpy as np

from cluster.checks import expect, forbidden, watched

plt.style.use("cluster.course")
rng = np.random.default_rng(1)


def integers(*shape):
    """Random whole numbers from -4 to 4 as float64: sums of them are exact, so they can be compared."""
    return rng.integers(-4, 5, shape).astype(np.float64)


def output_size(n, k, stride=1, padding=0):
    """How many windows of length k fit into n pixels with `padding` more at both ends, `stride` apart."""
    return (n + 2 * padding - k) // stride + 1


# %% [markdown]
# ## The definition
#
# Each value of the result is the sum of a window of the image, weighted by a filter. The window starts at
# row i·stride, column j·stride of the padded image; the filter is *not* turned round (mathematicians call
# this cross-correlation; deep learning calls it convolution). This is slow, and right: the checks compare
# with it.


# %% given="definition"
def convolve_loops(x, w, b, stride=1, padding=0):
    """A convolutional layer, straight from its definition. Shapes as in the table above."""
    N, H, W, _ = x.shape
    k, _, _, K = w.shape
    H_out, W_out = output_size(H, k, stride, padding), output_size(W, k, stride, padding)
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    y = np.empty((N, H_out, W_out, K), x.dtype)
    for n in range(N):
        for i in range(H_out):
            for j in range(W_out):
                window = padded[n, i * stride : i * stride + k, j * stride : j * stride + k]  # (k, k, C)
                for f in range(K):
                    y[n, i, j, f] = np.sum(window * w[:, :, :, f]) + b[f]
    return y


# %% [markdown]
# Take the smallest image worth looking at: 3 × 3 pixels, one channel. A 2 × 2 window fits into it four
# times.

# %% given="small-image"
small = np.arange(1.0, 10.0).reshape(1, 3, 3, 1)  # (N, H, W, C)
print(small[0, :, :, 0])

# %% [markdown]
# ## 1. Windows as rows: im2col
#
# Write the four windows of the image above as the four rows of a matrix, from left to right and then from
# top to bottom. Inside a row the window is read in the order (row of the window, column of the window,
# channel), the order in which a filter `(k, k, C)` lies in memory. Do it with a pencil first; it takes a
# minute.
#
# **Predict.** Neighbouring windows overlap, so pixels are copied. How many times larger than a large image
# is its matrix for k = 3 and stride 1? And for k = 3 and stride 3? Write your numbers down here; they are
# not graded.

# %%
predicted_stride_1 = None
predicted_stride_3 = None

# %% [markdown]
# Loops over N, H_out and W_out would be slow again. It can be done with k·k assignments of large slices:
# which pixels of the image land in *one column* of the matrix?


# %% solution="im2col"
def im2col(x, k, stride=1, padding=0):
    """Lay out the windows of images as the rows of a matrix.

    x        images (N, H, W, C), any dtype, which the result keeps
    k        size of the window in pixels
    stride   distance between neighbouring windows in pixels
    padding  rows and columns of zeros added on each of the four sides

    Returns the matrix (N * H_out * W_out, k * k * C). Its rows run over (n, i, j), j fastest; its columns
    over (row in the window, column in the window, channel), the channel fastest.
    """
    N, H, W, C = x.shape
    H_out, W_out = output_size(H, k, stride, padding), output_size(W, k, stride, padding)
    assert H_out > 0 and W_out > 0, f"a window of {k} does not fit into {H} × {W} with padding {padding}"
    ### BEGIN SOLUTION
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.empty((N, H_out, W_out, k, k, C), x.dtype)
    for i in range(k):
        for j in range(k):
            rows = slice(i, i + stride * H_out, stride)
            cols = slice(j, j + stride * W_out, stride)
            windows[:, :, :, i, j] = padded[:, rows, cols]
    columns = windows.reshape(N * H_out * W_out, k * k * C)
    ### END SOLUTION
    assert columns.shape == (N * H_out * W_out, k * k * C), f"the matrix has shape {columns.shape}"
    return columns


# %% [markdown]
# Look before you are graded: is this what your pencil found?

# %%
print(im2col(small, k=2))

# %% check="im2col-by-hand" points=2 see="1.3"
"""The four windows of the small image, and the order of channels inside a row (2 points)."""
by_hand = np.array([[1, 2, 4, 5], [2, 3, 5, 6], [4, 5, 7, 8], [5, 6, 8, 9]], float)
expect(
    im2col(small, k=2),
    by_hand,
    {
        "windows were written down column by column; go from left to right first.": by_hand[[0, 2, 1, 3]],
        "a window was read down its columns first; read along its rows.": by_hand[:, [0, 2, 1, 3]],
        "each window was turned by 180 degrees.": by_hand[:, ::-1],
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

# %% [markdown]
# A filter that is 1 at one place and 0 elsewhere *picks* one pixel of the window. With k·k·C such filters
# the definition itself produces im2col, slowly. That gives a check for every stride and padding.


# %% given="picking-filters"
def im2col_by_definition(x, k, stride=1, padding=0):
    """im2col as a convolution with filters that each pick one value of the window."""
    size = k * k * x.shape[3]
    pick = np.eye(size).reshape(k, k, x.shape[3], size)
    return convolve_loops(x, pick, np.zeros(size), stride, padding).reshape(-1, size)


# %% check="im2col-stride-padding" points=2 see="1.3"
"""Padding goes on all four sides, windows start `stride` apart, images need not be square (2 points)."""
x = integers(2, 5, 6, 2)  # five rows, six columns
one_side = np.pad(x, ((0, 0), (0, 2), (0, 2), (0, 0)))
expect(
    im2col(x, k=3, padding=1),
    im2col_by_definition(x, 3, padding=1),
    {"zeros were added on one side of each axis only; padding=1 adds a row on both.": im2col(one_side, k=3)},
    "im2col(x, k=3, padding=1)",
)
close_windows = im2col_by_definition(x, 2, 1).reshape(2, 4, 5, -1)[:, :2, :3].reshape(12, -1)
expect(
    im2col(x, k=2, stride=2),
    im2col_by_definition(x, 2, stride=2),
    {"neighbouring windows start 1 pixel apart; they should start `stride` apart.": close_windows},
    "im2col(x, k=2, stride=2)",
)
### BEGIN HIDDEN TESTS
for shape, k, stride, padding in [
    ((1, 7, 4, 3), 3, 2, 1),  # not square, one column of pixels left over
    ((2, 6, 9, 1), 3, 2, 0),
    ((3, 5, 4, 2), 1, 1, 0),  # a 1 × 1 convolution only reshapes
    ((1, 5, 6, 2), 1, 3, 0),
    ((1, 4, 4, 2), 4, 1, 0),  # one window
    ((2, 3, 5, 1), 3, 1, 2),
]:
    image = integers(*shape)
    expect(
        im2col(image, k, stride, padding),
        im2col_by_definition(image, k, stride, padding),
        name=f"im2col of {shape} with k={k}, stride={stride}, padding={padding}",
    )
### END HIDDEN TESTS

# %% [markdown]
# Now compare with your prediction.

# %%
large = np.zeros((1, 99, 99, 8), np.float32)
for stride, predicted in [(1, predicted_stride_1), (3, predicted_stride_3)]:
    ratio = im2col(large, 3, stride).nbytes / large.nbytes
    print(f"stride {stride}: the matrix is {ratio:.2f} times the image; predicted {predicted}")

# %% [markdown]
# ## 2. The layer as one matrix product
#
# Each row of the matrix meets each filter in one sum of products. Which shape must the filters be given so
# that this is one `@`? Think of the bias last: it belongs to a filter, not to a window.


# %% solution="forward"
def forward(x, w, b, stride=1, padding=0):
    """A convolutional layer by im2col and one matrix product.

    x (N, H, W, C), w (k, k, C, K), b (K,). Returns y (N, H_out, W_out, K).
    """
    N, H, W, C = x.shape
    k, k_other, C_w, K = w.shape
    assert k == k_other and C_w == C, f"filters {w.shape} do not fit images {x.shape}"
    H_out, W_out = output_size(H, k, stride, padding), output_size(W, k, stride, padding)
    ### BEGIN SOLUTION
    rows_of_y = im2col(x, k, stride, padding) @ w.reshape(k * k * C, K) + b
    y = rows_of_y.reshape(N, H_out, W_out, K)
    ### END SOLUTION
    assert y.shape == (N, H_out, W_out, K), f"the result has shape {y.shape}"
    return y


# %% [markdown]
# By hand: the first window of the small image meets this filter. What is the sum?

# %% given="small-filter"
small_filter = np.array([[1.0, 2.0], [3.0, 4.0]]).reshape(2, 2, 1, 1)  # (k, k, C, K)
print(small_filter[:, :, 0, 0])

# %%
print(forward(small, small_filter, b=np.zeros(1))[0, :, :, 0])

# %% check="forward-by-hand" points=1 see="1.2"
"""One filter on the small image; the bias is added once to each value (1 point)."""
by_hand = np.array([[37.0, 47.0], [67.0, 77.0]]).reshape(1, 2, 2, 1)
turned = convolve_loops(small, small_filter[::-1, ::-1], np.zeros(1))
expect(
    forward(small, small_filter, np.zeros(1)),
    by_hand,
    {"the filter was turned by 180 degrees; a convolutional layer uses it as it is.": turned},
    "forward(small, small_filter, 0)",
)
expect(
    forward(small, small_filter, np.array([100.0])),
    by_hand + 100,
    {
        "the bias is missing.": by_hand,
        "the bias was added to each of the k·k·C products; it is added once to their sum.": by_hand + 400,
    },
    "forward(small, small_filter, 100)",
)

# %% check="forward-equals-loops" points=2 see="1.3"
"""With several images, channels and filters the product gives what the loops give (2 points)."""
x, w, b = integers(2, 5, 5, 3), integers(3, 3, 3, 4), integers(4)
turned = convolve_loops(x, w[::-1, ::-1], b)
mixed = convolve_loops(x, w.transpose(3, 0, 1, 2).reshape(w.shape), b)
expect(
    forward(x, w, b),
    convolve_loops(x, w, b),
    {
        "the filters were turned by 180 degrees; a convolutional layer uses them as they are.": turned,
        "the filters' axes were mixed: (k, k, C, K) keeps K last, so no transpose is needed.": mixed,
    },
    "forward(x, w, b)",
)
### BEGIN HIDDEN TESTS
for shape, k, K, stride, padding in [
    ((2, 7, 4, 3), 3, 5, 2, 1),
    ((1, 6, 9, 2), 2, 3, 3, 0),
    ((3, 4, 5, 6), 1, 2, 1, 0),
    ((1, 5, 3, 1), 3, 1, 1, 2),
]:
    image, filters, bias = integers(*shape), integers(k, k, shape[3], K), integers(K)
    expect(
        forward(image, filters, bias, stride, padding),
        convolve_loops(image, filters, bias, stride, padding),
        name=f"forward of {shape} with k={k}, K={K}, stride={stride}, padding={padding}",
    )
### END HIDDEN TESTS
small32, filter32 = small.astype(np.float32), small_filter.astype(np.float32)
# AUTOTEST forward(small32, filter32, np.ones(1, np.float32), padding=1)

# %% check="forward-is-a-gemm" points=1 see="1.3"
"""forward() uses im2col: one matrix product for the whole batch, not the loops again (1 point)."""
two_images = np.concatenate([small, 2 * small])  # (2, 3, 3, 1)
loops = "forward() calls convolve_loops; its result should come from one matrix product"
with watched("im2col") as calls, forbidden("convolve_loops", loops):
    result = forward(two_images, small_filter, np.zeros(1))
assert calls.count == 1, f"forward() called im2col {calls.count} times; one call covers the whole batch"
expect(result, convolve_loops(two_images, small_filter, np.zeros(1)), name="forward of a batch of two")

# %% [markdown]
# ## 3. The gradient of the filters and of the bias
#
# Training needs the derivatives of a loss L. The layer above hands back dy = ∂L/∂y, one number for each
# value of y. As a matrix product the layer reads Y = X·W + b, with X the matrix of windows. What are ∂L/∂W
# and ∂L/∂b in terms of X and ∂L/∂Y? The shapes leave hardly a choice: ∂L/∂W has the shape of W.
#
# The loss sums over all windows of all images; whoever wants a mean over the batch divides in the loss,
# once.


# %% solution="filter_gradient"
def filter_gradient(dy, x, k, stride=1, padding=0):
    """Gradients of the loss with respect to the filters and the bias.

    dy (N, H_out, W_out, K) is ∂L/∂y; x (N, H, W, C) are the images that forward() saw.
    Returns dw (k, k, C, K) and db (K,).
    """
    N, H, W, C = x.shape
    K = dy.shape[3]
    expected = (N, output_size(H, k, stride, padding), output_size(W, k, stride, padding), K)
    assert dy.shape == expected, f"dy has shape {dy.shape}, the layer's result {expected}"
    ### BEGIN SOLUTION
    rows_of_dy = dy.reshape(-1, K)
    dw = (im2col(x, k, stride, padding).T @ rows_of_dy).reshape(k, k, C, K)
    db = rows_of_dy.sum(axis=0)
    ### END SOLUTION
    assert dw.shape == (k, k, C, K) and db.shape == (K,), f"dw has shape {dw.shape}, db {db.shape}"
    return dw, db


# %% [markdown]
# How do you check a gradient? Change one parameter by a step and see how the loss moves. For most functions
# the step must be small. This layer is *linear* in w, in b and in x, so any step is exact: we take 1, and L
# = Σ dy·y.


# %% given="differences"
def loss_differences(loss, parameters):
    """∂loss/∂parameters for a loss that is linear in them, one step of 1 at a time."""
    gradient, base = np.empty(parameters.shape), loss(parameters)
    for place in np.ndindex(parameters.shape):
        moved = parameters.copy()
        moved[place] += 1
        gradient[place] = loss(moved) - base
    return gradient


# %% [markdown]
# A free look: dy = 1 everywhere on the small image. Each weight of the filter then sees the sum of the four
# pixels that it meets. Which pixels does the upper left weight meet?

# %%
dw, db = filter_gradient(np.ones((1, 2, 2, 1)), small, k=2)
print(dw[:, :, 0, 0], db)

# %% check="filter-gradient" points=2 see="1.5"
"""dw is what one step in each weight does to the loss (2 points)."""
x, w, b, dy = integers(2, 4, 4, 2), integers(3, 3, 2, 3), integers(3), integers(2, 2, 2, 3)
by_steps = loss_differences(lambda w: np.sum(dy * convolve_loops(x, w, b)), w)
expect(
    filter_gradient(dy, x, k=3)[0],
    by_steps,
    {
        "dw was averaged over the batch; the loss is a sum.": by_steps / 2,
        "dw was averaged over all windows; the loss is a sum.": by_steps / 8,
        "dw was turned by 180 degrees.": by_steps[::-1, ::-1],
        "dw has the opposite sign: a gradient points uphill.": -by_steps,
    },
    "dw",
)
### BEGIN HIDDEN TESTS
for shape, k, K, stride, padding in [
    ((1, 5, 4, 2), 3, 2, 2, 1),
    ((3, 4, 6, 1), 1, 3, 1, 0),
    ((2, 6, 5, 2), 2, 1, 3, 0),
]:
    image, filters, bias = integers(*shape), integers(k, k, shape[3], K), integers(K)
    dy = integers(*convolve_loops(image, filters, bias, stride, padding).shape)

    def loss(filters, image=image, bias=bias, dy=dy, stride=stride, padding=padding):
        return np.sum(dy * convolve_loops(image, filters, bias, stride, padding))

    expect(
        filter_gradient(dy, image, k, stride, padding)[0],
        loss_differences(loss, filters),
        name=f"dw of {shape} with k={k}, K={K}, stride={stride}, padding={padding}",
    )
### END HIDDEN TESTS

# %% check="bias-gradient" points=1 see="1.5"
"""db is what one step in each bias does to the loss (1 point)."""
x, w, b, dy = integers(2, 4, 4, 2), integers(3, 3, 2, 3), integers(3), integers(2, 2, 2, 3)
by_steps = loss_differences(lambda b: np.sum(dy * convolve_loops(x, w, b)), b)
expect(
    filter_gradient(dy, x, k=3)[1],
    by_steps,
    {
        "db was averaged over the batch; the loss is a sum.": by_steps / 2,
        "db was averaged over all windows; the loss is a sum.": by_steps / 8,
    },
    "db",
)
### BEGIN HIDDEN TESTS
dy = integers(3, 4, 2, 5)
expect(
    filter_gradient(dy, integers(3, 4, 2, 1), k=1)[1], np.einsum("nijf->f", dy), name="db of a 1 × 1 layer"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Back to the image: col2im
#
# The gradient with respect to the matrix of windows, ∂L/∂X = ∂L/∂Y·Wᵀ, has one number for each *copy* of a
# pixel. Pixels that lie in several windows were copied several times, and a change of the pixel changes all
# its copies. So what happens to the copies' gradients on the way back to the pixel?
#
# That way back is col2im. It is not the inverse of im2col but its *adjoint*: ⟨im2col(x), c⟩ = ⟨x,
# col2im(c)⟩ for every image x and every matrix c.


# %% solution="col2im"
def col2im(columns, shape, k, stride=1, padding=0):
    """Bring a gradient with respect to windows back to the images: the adjoint of im2col.

    columns  matrix (N * H_out * W_out, k * k * C), ordered as im2col orders it
    shape    (N, H, W, C) of the images

    Returns (N, H, W, C), of the dtype of `columns`. What landed on the padding is dropped.
    """
    N, H, W, C = shape
    H_out, W_out = output_size(H, k, stride, padding), output_size(W, k, stride, padding)
    assert columns.shape == (N * H_out * W_out, k * k * C), (
        f"{columns.shape} does not belong to images {shape}"
    )
    ### BEGIN SOLUTION
    windows = columns.reshape(N, H_out, W_out, k, k, C)
    padded = np.zeros((N, H + 2 * padding, W + 2 * padding, C), columns.dtype)
    for i in range(k):
        for j in range(k):
            # Within one (i, j) no two windows meet the same pixel, so += on a slice adds every copy once.
            rows = slice(i, i + stride * H_out, stride)
            cols = slice(j, j + stride * W_out, stride)
            padded[:, rows, cols] += windows[:, :, :, i, j]
    x = padded[:, padding : padding + H, padding : padding + W]
    ### END SOLUTION
    assert x.shape == shape, f"the images have shape {x.shape}"
    return x


# %% [markdown]
# By hand: a matrix of ones counts in how many windows each pixel lies. What should the centre of the small
# image say, and what a corner?

# %%
print(col2im(np.ones((4, 4)), small.shape, k=2)[0, :, :, 0])

# %% check="col2im-by-hand" points=1 see="1.5"
"""In how many windows each pixel of the small image lies (1 point)."""
by_hand = np.array([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]]).reshape(1, 3, 3, 1)
expect(
    col2im(np.ones((4, 4)), small.shape, k=2),
    by_hand,
    {
        "a later window overwrote an earlier one; the gradients of all copies of a pixel add up.": by_hand**0,
        "the gradients were averaged; those of all copies of a pixel add up.": by_hand / 4,
    },
    "col2im of ones",
)

# %% check="col2im-adjoint" points=2 see="1.5"
"""⟨im2col(x), c⟩ = ⟨x, col2im(c)⟩, also with stride and padding (2 points)."""
for k, stride, padding in [(2, 1, 0), (3, 2, 0), (3, 1, 1)]:
    x = integers(2, 5, 5, 2)
    columns = im2col_by_definition(x, k, stride, padding)
    c = integers(*columns.shape)
    left, right = np.sum(columns * c), np.sum(x * col2im(c, x.shape, k, stride, padding))
    case = f"k={k}, stride={stride}, padding={padding}"
    assert left == right, f"{case}: ⟨im2col(x), c⟩ is {left:g}, but ⟨x, col2im(c)⟩ is {right:g}"
### BEGIN HIDDEN TESTS
for shape, k, stride, padding in [((1, 7, 4, 3), 3, 2, 1), ((2, 6, 9, 1), 3, 4, 0), ((2, 4, 3, 2), 1, 1, 0)]:
    pixels = integers(*shape)
    matrix = im2col_by_definition(pixels, k, stride, padding)
    for _ in range(3):
        c = integers(*matrix.shape)
        image = col2im(c, shape, k, stride, padding)
        expect(
            np.sum(pixels * image),
            np.sum(matrix * c),
            name=f"⟨x, col2im(c)⟩ for {shape}, k={k}, stride={stride}",
        )
### END HIDDEN TESTS
# AUTOTEST col2im(np.arange(16, dtype=np.float32).reshape(4, 4), (1, 3, 3, 1), 2)

# %% [markdown]
# ## 5. The gradient of the image
#
# A network of several layers needs it: dx of this layer is dy of the layer below. You have all the parts.


# %% solution="input_gradient"
def input_gradient(dy, w, shape, stride=1, padding=0):
    """Gradient of the loss with respect to the images.

    dy (N, H_out, W_out, K), w (k, k, C, K), shape = (N, H, W, C). Returns dx (N, H, W, C).
    """
    k, _, C, K = w.shape
    assert dy.shape[3] == K and shape[3] == C, (
        f"dy {dy.shape} and filters {w.shape} do not fit images {shape}"
    )
    ### BEGIN SOLUTION
    gradient_of_windows = dy.reshape(-1, K) @ w.reshape(k * k * C, K).T
    dx = col2im(gradient_of_windows, shape, k, stride, padding)
    ### END SOLUTION
    assert dx.shape == tuple(shape), f"dx has shape {dx.shape}"
    return dx


# %%
print(input_gradient(np.ones((1, 2, 2, 1)), small_filter, small.shape)[0, :, :, 0])

# %% check="input-gradient" points=2 see="1.5"
"""dx is what one step in each pixel does to the loss (2 points)."""
x, w, b, dy = integers(2, 4, 4, 2), integers(3, 3, 2, 3), integers(3), integers(2, 2, 2, 3)
by_steps = loss_differences(lambda x: np.sum(dy * convolve_loops(x, w, b)), x)
turned = loss_differences(lambda x: np.sum(dy * convolve_loops(x, w[::-1, ::-1], b)), x)
expect(
    input_gradient(dy, w, x.shape),
    by_steps,
    {
        "the filters were turned by 180 degrees; col2im already puts each product in its place.": turned,
        "dx was averaged over the batch; the loss is a sum.": by_steps / 2,
    },
    "dx",
)
### BEGIN HIDDEN TESTS
for shape, k, K, stride, padding in [
    ((1, 5, 4, 2), 3, 2, 2, 1),
    ((2, 3, 4, 1), 1, 3, 1, 0),
    ((1, 7, 5, 1), 2, 2, 3, 0),
]:
    image, filters, bias = integers(*shape), integers(k, k, shape[3], K), integers(K)
    dy = integers(*convolve_loops(image, filters, bias, stride, padding).shape)

    def loss(image, filters=filters, bias=bias, dy=dy, stride=stride, padding=padding):
        return np.sum(dy * convolve_loops(image, filters, bias, stride, padding))

    expect(
        input_gradient(dy, filters, shape, stride, padding),
        loss_differences(loss, image),
        name=f"dx of {shape} with k={k}, K={K}, stride={stride}, padding={padding}",
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 6. What it costs
#
# Three matrix products: you have now seen why a training step costs about three times a forward pass. How
# long that takes depends on two numbers of the layer and two of the machine. The layer's are the
# floating-point operations and the bytes that must move between memory and processor; their ratio is the
# *arithmetic intensity*, in FLOP per byte. A machine that can do P FLOP/s and move B byte/s needs an
# intensity of P/B to be kept busy.
#
# Count the matrix product of the forward pass only (not the bias). For the bytes, take the best case:
# images, filters and bias are each read once, the result is written once. With im2col the matrix of windows
# is written once and read once on top.


# %% solution="layer_flops"
def layer_flops(N, H, W, C, K, k, stride=1, padding=0):
    """FLOPs of the forward matrix product, as an int; a multiply-add is two FLOPs."""
    H_out, W_out = output_size(H, k, stride, padding), output_size(W, k, stride, padding)
    ### BEGIN SOLUTION
    multiply_adds = N * H_out * W_out * K * k * k * C
    flops = 2 * multiply_adds
    ### END SOLUTION
    return flops


# %% solution="layer_bytes"
def layer_bytes(N, H, W, C, K, k, stride=1, padding=0, itemsize=4, with_im2col=False):
    """Bytes that the forward pass must move at least, as an int.

    itemsize is the size of one number in bytes (float32: 4). The padding's zeros are not stored.
    """
    H_out, W_out = output_size(H, k, stride, padding), output_size(W, k, stride, padding)
    ### BEGIN SOLUTION
    images, filters, bias = N * H * W * C, k * k * C * K, K
    result = N * H_out * W_out * K
    windows = N * H_out * W_out * k * k * C
    numbers = images + filters + bias + result + (2 * windows if with_im2col else 0)
    moved = itemsize * numbers
    ### END SOLUTION
    return moved


# %% [markdown]
# By hand, for the small image and one 2 × 2 filter: how many windows, how many multiply-adds in each? How
# many numbers are read and written?

# %%
print(layer_flops(N=1, H=3, W=3, C=1, K=1, k=2), "FLOPs")
print(layer_bytes(N=1, H=3, W=3, C=1, K=1, k=2), "bytes")

# %% check="flops-by-hand" points=1 see="1.6"
"""4 windows of 4 multiply-adds each (1 point)."""
expect(
    layer_flops(N=1, H=3, W=3, C=1, K=1, k=2),
    32,
    {
        "each multiply-add was counted once; it is a multiplication and an addition.": 16,
        "every pixel was given a window; only H_out × W_out windows fit.": 72,
    },
    "layer_flops of the small image",
)

# %% check="flops-of-layers" points=1 see="1.6"
"""Layers of AlexNet and ResNet-50, with batches, strides and padding (1 point)."""
# HASHED AUTOTEST layer_flops(N=1, H=227, W=227, C=3, K=96, k=11, stride=4)
# HASHED AUTOTEST layer_flops(N=32, H=56, W=56, C=64, K=64, k=3, padding=1)
### BEGIN HIDDEN TESTS
expect(layer_flops(N=8, H=14, W=14, C=1024, K=256, k=1), 2 * 8 * 14 * 14 * 1024 * 256, name="a 1 × 1 layer")
expect(layer_flops(N=3, H=9, W=6, C=5, K=7, k=3, stride=2, padding=1), 28_350, name="stride 2, not square")
### END HIDDEN TESTS

# %% check="bytes-by-hand" points=1 see="1.6"
"""9 pixels, 4 weights, 1 bias, 4 results, of 4 bytes each; im2col writes and reads 16 more (1 point)."""
expect(
    layer_bytes(N=1, H=3, W=3, C=1, K=1, k=2),
    72,
    {
        "the result was forgotten; writing moves bytes as well.": 56,
        "numbers were counted, not bytes.": 18,
        "the numbers were taken as float64 (8 bytes); use itemsize.": 144,
        "the bias was forgotten.": 68,
    },
    "layer_bytes of the small image",
)
expect(
    layer_bytes(N=1, H=3, W=3, C=1, K=1, k=2, with_im2col=True),
    72 + 128,
    {
        "the matrix of windows was counted once; it is written and then read again.": 72 + 64,
        "the matrix of windows was counted instead of the images; they are read to make it.": 72 + 128 - 36,
    },
    "layer_bytes of the small image with im2col",
)
### BEGIN HIDDEN TESTS
expect(
    layer_bytes(N=2, H=9, W=6, C=5, K=7, k=3, stride=2, padding=1, itemsize=2),
    2 * (540 + 315 + 7 + 210),
    name="float16",
)
### END HIDDEN TESTS


# %% given="define-intensity"
def intensity(**layer):
    """Arithmetic intensity of a layer's forward pass in FLOP/byte."""
    sizes = {name: value for name, value in layer.items() if name not in ("itemsize", "with_im2col")}
    return layer_flops(**sizes) / layer_bytes(**layer)


# %% check="intensity" points=1 see="1.6"
"""Intensities in float32, with and without im2col (1 point)."""
resnet = dict(N=32, H=56, W=56, C=64, K=64, k=3, padding=1)
# AUTOTEST intensity(**resnet)
# AUTOTEST intensity(**resnet, with_im2col=True)
### BEGIN HIDDEN TESTS
expect(
    intensity(**resnet, itemsize=2), 2 * intensity(**resnet), name="intensity with numbers of half the size"
)
# AUTOTEST intensity(N=4, H=28, W=20, C=16, K=8, k=5, stride=2, padding=2, with_im2col=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Predict, then measure
#
# A layer with 16 × 16 pixels, 16 channels and 3 × 3 filters. The loops compute one value of the result at a
# time; your `forward` computes all of them in one product. For the same number of filters the two do the
# same FLOPs. **Predict**: how many times faster is the product with one filter? With 64? Write your numbers
# down here; they are not graded.

# %%
predicted_gain_1 = None
predicted_gain_64 = None

# %% [markdown]
# We compare the two in one run and take the median of several repetitions. What counts is the *ratio*:
# seconds depend on the machine.


# %%
def median_seconds(function, *args, repeat=5):
    """Median time of a call in seconds, after one call to warm up."""
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
# And what does im2col cost in intensity? The right-hand picture uses your counts for a layer with 56 × 56
# pixels and as many filters as channels.

# %%
channels = 2 ** np.arange(2, 10)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.loglog(filters, gain, "o-")
left.set(xlabel="filters K", ylabel="time of loops / time of GEMM", title="What one matrix product gains")
for with_im2col, style in [(False, "o-"), (True, "s--")]:
    values = [
        intensity(N=1, H=56, W=56, C=C, K=C, k=3, padding=1, with_im2col=with_im2col)
        for C in channels.tolist()
    ]
    right.loglog(channels, values, style, label="with im2col" if with_im2col else "best case")
right.set(xlabel="channels C = K", ylabel="intensity (FLOP/byte)", title="What im2col costs")
right.legend()
plt.show()

# %% [markdown]
# *Left: the factor by which the matrix product beats the loops, against the number of filters. Right: FLOP
# per byte of a 3 × 3 layer against its channels, in the best case and with the matrix of windows in
# memory.*
#
# The work a loop does for each value of the result is tiny, so Python's own time dominates it; the matrix
# product pays that price once. But the windows cost memory traffic, and the dashed line shows it: a layer
# that could be bound by arithmetic may be bound by memory because of im2col.
#
# ## What you have learned
#
# - im2col lays windows out as rows; a convolutional layer is then one matrix product.
# - Its gradients are two more, and col2im, the adjoint of im2col, *adds* the copies of a pixel.
# - A gradient of a linear layer can be checked exactly, with a step of any size.
# - FLOPs and bytes follow from the shapes, and their ratio tells what bounds the layer.
#
# ## Questions to take with you
#
# 1. Can you have the matrix product without the matrix? (Write the sum over k·k shifted images, and count
#    its bytes.)
# 2. A 1 × 1 layer needs no im2col at all. Why do ResNet-50's bottlenecks use so many of them, and what is
#    their intensity?
# 3. An accelerator with 100 TFLOP/s and 1 TB/s needs 100 FLOP per byte. Which of the layers in the picture
#    keep it busy, and what would float16 change?
