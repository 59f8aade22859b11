"""Lecture 01: its methods compute the convolution, and its counts are correct. The tests run the lecture's
own code cells.
"""

import ast
import re
import time
from dataclasses import asdict

import numpy as np
import pytest

from .definitions import LECTURES, RUNS, defined

HOSTILE = {  # N, C, H, W, K, k, stride, pad
    "plain": (2, 3, 6, 6, 4, 3, 1, 0),
    "stride 2 and padding, not square": (3, 2, 7, 10, 5, 3, 2, 1),
    "one image, one channel, one filter": (1, 1, 5, 5, 1, 3, 1, 1),
    "1x1": (2, 7, 4, 5, 3, 1, 1, 0),
    "1x1 with stride": (2, 3, 5, 6, 2, 1, 2, 0),
    "stride larger than the kernel": (1, 2, 9, 8, 3, 2, 3, 0),
    "rows left over by the stride": (2, 2, 8, 11, 3, 3, 2, 0),
    "kernel as large as the image": (2, 3, 4, 5, 6, 4, 1, 0),
    "even kernel, wide padding": (1, 2, 5, 4, 3, 4, 1, 3),
    "AlexNet conv1 in small": (1, 3, 23, 27, 4, 11, 4, 0),
}


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; nothing is measured."""
    return defined("01", {"THREADS", "blas", "pool", "rng", "LAYERS", "N", "SQUARE", "OF_THE_TIME"})


def case(name):
    """Return x (N, H, W, C), w (k, k, C, K) in float64, stride, padding."""
    N, C, H, W, K, k, stride, pad = HOSTILE[name]
    rng = np.random.default_rng(len(name))
    return rng.standard_normal((N, H, W, C)), rng.standard_normal((k, k, C, K)), stride, pad


def by_definition(x, w, stride, pad):
    """Convolve by the definition, independently of the lecture: each output is the sum of a window times a
    filter."""
    k, _, _, K = w.shape
    N, H, W, C = x.shape
    padded = np.zeros((N, H + 2 * pad, W + 2 * pad, C))
    padded[:, pad : pad + H, pad : pad + W] = x
    y = np.empty((N, (H + 2 * pad - k) // stride + 1, (W + 2 * pad - k) // stride + 1, K))
    for n, h, v, f in np.ndindex(y.shape):
        window = padded[n, h * stride : h * stride + k, v * stride : v * stride + k]
        y[n, h, v, f] = (window * w[..., f]).sum()
    return y


@pytest.mark.parametrize("shape", HOSTILE)
@pytest.mark.parametrize("name", ["conv_loops", "conv_einsum", "conv_im2col", "conv_shifted", "conv_blocked"])
def test_implementation_is_the_convolution(lecture, name, shape):
    x, w, stride, pad = case(shape)
    np.testing.assert_allclose(
        lecture[name](x, w, stride, pad), by_definition(x, w, stride, pad), rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("shape", HOSTILE)
def test_all_windows_are_a_view(lecture, shape):
    """Is each window as in the definition? Without padding, do the windows share the image's memory instead
    of copying it?
    """
    x, w, stride, pad = case(shape)
    k, windows = len(w), lecture["windows_of"](x, len(w), stride, pad)
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    for n, h, v in np.ndindex(windows.shape[:3]):
        expected = padded[n, h * stride : h * stride + k, v * stride : v * stride + k]
        np.testing.assert_array_equal(windows[n, h, v], expected)
    assert np.shares_memory(x, windows) == (pad == 0)


@pytest.mark.parametrize("block_bytes", [1, 1000, 5000, 2**30])
def test_size_of_a_block_does_not_change_the_result(lecture, block_bytes):
    x, w, stride, pad = case("stride 2 and padding, not square")
    result = lecture["conv_blocked"](x, w, stride, pad, block_bytes)
    np.testing.assert_allclose(result, by_definition(x, w, stride, pad), rtol=1e-11, atol=1e-11)


def test_blocked_version_gives_blas_its_threads_back(lecture):
    before = [library["num_threads"] for library in lecture["blas"].info()]
    lecture["conv_blocked"](*case("plain"))
    assert [library["num_threads"] for library in lecture["blas"].info()] == before


@pytest.mark.parametrize("shape", HOSTILE)
def test_backward_is_the_transpose_of_forward(lecture, shape):
    """Is the backward pass the transpose of the linear forward pass: <dy, conv(u, w)> = <dx, u> and <dy,
    conv(x, q)> = <dw, q>?"""
    x, w, stride, pad = case(shape)
    rng = np.random.default_rng(7)
    dy = rng.standard_normal(by_definition(x, w, stride, pad).shape)
    dx, dw = lecture["conv_backward"](dy, x, w, stride, pad)
    assert (dx.shape, dw.shape) == (x.shape, w.shape)
    for _ in range(3):
        u, q = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
        assert np.vdot(dx, u) == pytest.approx(
            np.vdot(dy, by_definition(u, w, stride, pad)), rel=1e-9, abs=1e-9
        )
        assert np.vdot(dw, q) == pytest.approx(
            np.vdot(dy, by_definition(x, q, stride, pad)), rel=1e-9, abs=1e-9
        )


def test_flops_are_two_for_each_multiply_add(lecture):
    """Do 2 images, 3 × 3 outputs, 4 filters and 2 × 2 × 5 weights need 2 · (2 · 9 · 4 · 20) FLOPs, as
    computed by hand?"""
    layer = lecture["Layer"]("hand", C=5, H=6, W=6, K=4, k=2, stride=2, pad=0)
    assert layer.out == (3, 3)
    assert layer.flops(2) == 2 * 1440


def test_bytes_are_those_of_the_arrays(lecture):
    layer = lecture["Layer"]("odd", C=3, H=7, W=9, K=4, k=3, stride=2, pad=1)
    x, w = lecture["tensors"](layer, 2)
    columns, y = lecture["im2col"](x, 3, 2, 1), lecture["conv_im2col"](x, w, 2, 1)
    arrays = {"x": x, "w": w, "y": y, "columns": columns}
    assert lecture["megabytes"](layer, 2) == pytest.approx({n: a.nbytes / 1e6 for n, a in arrays.items()})


def test_im2col_costs_less_than_writing_and_reading_the_columns(lecture):
    """Is the traffic of a small layer as computed by hand: 2048 B of input, 72 B of weights, 1024 B of
    output, and 18,432 B of columns, written and read? For each layer, does im2col increase the traffic by a
    factor below 1 + 2 · columns / images?
    """
    traffic, hand = lecture["traffic"], lecture["Layer"]("hand", C=2, H=8, W=8, K=1, k=3, stride=1, pad=1)
    assert traffic(hand, "least", 4) == pytest.approx(2048 + 72 + 1024)
    assert traffic(hand, "im2col", 4) == pytest.approx(2048 + 72 + 1024 + 2 * 18432)
    for layer in lecture["LAYERS"]:
        size = lecture["megabytes"](layer, 8)
        factor = traffic(layer, "im2col", 8) / traffic(layer, "least", 8)
        assert 1 <= factor < 1 + 2 * size["columns"] / size["x"], layer.name


def test_calls_take_turns(lecture, monkeypatch):
    """Do two timed calls take turns, each after an untimed call, with one row of times per repeat, so that
    ratios are paired?"""
    order = []
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setitem(lecture, "SQUARE", np.ones((2, 2)))
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    times = lecture["benchmark"](calls, repeats=2, limit=np.inf)
    assert "".join(order) == "aabbaabb"
    assert times.shape == (2, 2) and list(times) == ["a", "b"] and (times > 0).all(axis=None)


@pytest.mark.parametrize(
    ("controls", "kept", "warned"),
    [
        ([10, 11, 12], [0, 1], False),
        ([13, 10, 10, 10], [1, 2], False),
        ([10, 13, 10, 10, 10], [2, 3], False),  # disturbed during the first two repeats, or between them
        ([13, 13, 10, 10, 10], [2, 3], False),  # only the third control shows that the first two were slow
        ([10, 10, *3 * [13, 10], 13], [0], False),  # stops after eight repeats
        ([10, *4 * [13, 10]], [0, 1, 2, 3, 4, 5, 6, 7], True),  # too few would be left, so all are kept
    ],
)
def test_disturbed_repeats_are_left_out(lecture, monkeypatch, capsys, controls, kept, warned):
    """Is a repeat kept only if the controls before and after it took at most 1.25 times as long as the
    fastest control? If too few repeats would be kept, are all kept, with a warning?
    """
    clock = iter([controls[0], *(t for i, t in enumerate(controls[1:]) for t in (100 + i, t))])
    monkeypatch.setitem(lecture, "rested", lambda call: next(clock))
    times = lecture["benchmark"]({"a": None}, repeats=2)
    assert [t - 100 for t in times["a"]] == kept
    assert ("WARNING" in capsys.readouterr().out) == warned


@pytest.mark.parametrize(
    ("m", "v", "share"),
    [(1, 1, 1 / 8), (2, 1, 1 / 4), (4, 2, 1), (6, 2, 1), (4, 3, 1), (8, 1, 8 / 9)],
)
def test_share_of_the_peak_that_a_tile_allows(lecture, m, v, share):
    """Is a tile's share of the peak as computed by hand? A tile of m × v vectors needs m·v multiply-adds and
    m + v loads, two of each per cycle, and four cycles until a sum is available.
    """
    assert lecture["tile"](m, v) == pytest.approx(share)
    assert np.isnan(lecture["tile"](8, 2)) and lecture["tile"](8, 2, registers=32) == pytest.approx(1)


def test_peaks_of_the_time_are_those_of_the_sources(lecture):
    """Do the peaks equal the sources' numbers: 102.4 GFLOP/s and 32 GB/s (Lee et al. 2010, table 2), 1,581
    GFLOP/s and 192.4 GB/s (NVIDIA's GTX 580)?"""
    results = [round(1e-9 * number, 1) for machine in lecture["OF_THE_TIME"].values() for number in machine]
    assert results == [102.4, 32.0, 1581.1, 192.4]


def test_every_source_is_cited():
    """Does the text cite each source by author and year, in the form used at the start of its entry?"""
    text = (LECTURES / "text" / "01_convolution_as_gemm.py").read_text().replace("\n# ", "\n")
    prose, sources = text.split("### Sources")
    prose = re.sub(r"[\s()]+", " ", prose)
    listed = re.findall(r"(?:^- |· )([A-Z][^:*]* (?:19|20)\d\d):", sources, re.MULTILINE)
    assert len(listed) == 11
    assert [source for source in listed if source not in prose] == []


def test_gpu_script_measures_the_same_layers(lecture):
    source = ast.parse((RUNS / "01_conv_on_gpu.py").read_text())
    values = [n.value for n in source.body if isinstance(n, ast.Assign) and n.targets[0].id == "LAYERS"]
    assert ast.literal_eval(values[0]) == [asdict(layer) for layer in lecture["LAYERS"]]
