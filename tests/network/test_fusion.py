"""Horovod's cycle and fusion compared with arithmetic by hand; ResNet-50's buffers compared with Keras and
with the histogram in deck 004."""

import collections
import math

import pytest

from cluster.network import closed_forms, fusion, resnet50, topologies
from cluster.network.fusion import Buffer, fuse, predict


def buffers(*found):
    return [Buffer(str(i), size, ready) for i, (size, ready) in enumerate(found)]


def sizes(fused):
    return [[buffer.size for buffer in together] for together in fused]


@pytest.mark.parametrize(
    "threshold, expected",
    [
        (0, [[4], [4], [2], [9], [1]]),
        (8, [[4, 4], [2], [9], [1]]),  # 9 does not fit, and is sent alone; 1 must not overtake it
        (10, [[4, 4, 2], [9, 1]]),
        (100, [[4, 4, 2, 9, 1]]),
    ],
)
def test_fuse(threshold, expected):
    """Are buffers combined in order, up to the threshold and not beyond it?"""
    assert sizes(fuse(buffers(*((size, 0.0) for size in (4, 4, 2, 9, 1))), threshold)) == expected


def test_an_iteration_by_hand():
    """Is an iteration as computed by hand, with passes of 5 and 10 s, cycles of 4 s, and exchanges of 1 s
    plus 1/2 s per byte?

    From the start of the backward pass: the buffers of 2 bytes are ready at 1 and 3 s, and are exchanged
    together at 4 s, in 3 s. The buffer of 10 bytes is ready at 6 s, and is exchanged at 8 s, in 6 s. This
    ends at 14 s, 4 s after the backward pass.
    """
    prediction = predict(
        buffers((10, 6.0), (2, 1.0), (2, 3.0)), lambda n: 1 + n / 2, forward=5.0, backward=10.0, cycle=4.0
    )
    assert [(e.start, e.end, e.size) for e in prediction.exchanges] == [(9.0, 12.0, 4), (13.0, 19.0, 10)]
    assert (prediction.time, prediction.exposed, prediction.efficiency) == (19.0, 4.0, 15 / 19)


def test_a_busy_network_makes_larger_tensors():
    """If an exchange takes longer than the cycle time, does the next begin at once, with all buffers that are
    ready by then?"""
    prediction = predict(
        buffers((1, 0.0), (1, 1.0), (1, 2.0), (1, 9.0)), lambda n: 5.0, forward=0.0, backward=9.0, cycle=1.0
    )
    assert [(e.start, e.end, e.size) for e in prediction.exchanges] == [(0, 5, 1), (5, 10, 2), (10, 15, 1)]


def test_without_fusion_each_buffer_pays():
    """With a threshold of 0, does each buffer cost one latency?"""
    options = {"forward": 0.0, "backward": 1.0, "cycle": 1.0}
    ten = buffers(*[(1, 0.5)] * 10)
    assert predict(ten, lambda n: 2.0, threshold=0, **options).time == 1 + 10 * 2
    assert predict(ten, lambda n: 2.0, **options).time == 1 + 2


def test_all_buffers_are_exchanged_once():
    """Are all 214 buffers reduced once, none before it is ready, and one after another, for any threshold and
    cycle?"""
    backward = 0.120
    network = topologies.Network(20e-6, 0.16e-9)
    for threshold in (0, 1 << 20, fusion.THRESHOLD):
        for cycle in (0.3e-3, fusion.CYCLE, 5e-3, 1.0):
            prediction = predict(
                resnet50.buffers(backward), lambda n: closed_forms.ring(64, n, network),
                forward=0.06, backward=backward, threshold=threshold, cycle=cycle,
            )  # fmt: skip
            names = [b.name for e in prediction.exchanges for b in e.buffers]
            assert sorted(names) == sorted(t.name for t in resnet50.tensors())
            assert all(0.06 + b.ready <= e.start + 1e-12 for e in prediction.exchanges for b in e.buffers)
            pairs = zip(prediction.exchanges, prediction.exchanges[1:], strict=False)
            assert all(first.end <= second.start + 1e-12 for first, second in pairs)


def test_what_cannot_be():
    """Are a cycle time of 0, and a buffer that is ready after the backward pass, refused?"""
    with pytest.raises(ValueError, match=r"\b0\b"):
        predict([], lambda n: 1.0, forward=1.0, backward=1.0, cycle=0)
    with pytest.raises(ValueError, match=r"2\.0.*1\.0"):
        predict(buffers((1, 2.0)), lambda n: 1.0, forward=1.0, backward=1.0)


def test_resnet50_is_the_decks():
    """Does ResNet-50 have 214 tensors, with the histogram of ⌈log2 size⌉ that deck 004 prints?"""
    tensors = resnet50.tensors()
    assert len(tensors) == 214 and sum(t.parameters for t in tensors) == 25_583_592
    bins = collections.Counter(math.ceil(math.log2(t.parameters)) for t in tensors)
    deck = "21 24 48 33 22 12 1 7 1 10 2 15 2 11 2 3"  # the non-empty bins: 6 … 12 and 14 … 22
    assert sorted(bins) == [*range(6, 13), *range(14, 23)]
    assert [bins[k] for k in sorted(bins)] == [int(n) for n in deck.split()]


def test_resnet50_multiply_adds():
    """Does the first convolution have 112² · 7² · 3 · 64 multiply-adds, and the network between 3.8 and 3.9
    billion, as in the literature?"""
    first, *_, last, _ = resnet50.tensors()
    assert first.multiply_adds == 112**2 * 7**2 * 3 * 64 and last.multiply_adds == 2048 * 1000
    assert 3.8e9 < sum(t.multiply_adds for t in resnet50.tensors()) < 3.9e9


def test_buffers_are_ready_in_backward_order():
    """Is the last layer's gradient ready first, and the first layer's at the end of the backward pass?"""
    buffers = resnet50.buffers(0.120)
    assert [b.ready for b in buffers] == sorted(b.ready for b in buffers)
    assert buffers[0].name == "predictions/bias" and buffers[-1].name == "conv1_conv/kernel"
    assert buffers[-1].ready == pytest.approx(0.120) and buffers[-1].size == 4 * 9408


@pytest.mark.notebook
def test_the_table_is_keras_own():
    """Does the table of tensors contain what Keras' ResNet-50 has?"""
    import keras

    rows = []
    for layer in keras.applications.ResNet50(weights=None).layers:
        positions = math.prod(layer.output.shape[1:-1])  # in the output; 1 for a vector
        for i, weight in enumerate(layer.trainable_weights):
            # A kernel is used at each position of the output, as is γ of BatchNormalization.
            n = math.prod(weight.shape)
            rows.append((f"{layer.name}/{weight.name}", n, 0 if i else positions * n))
    assert resnet50.tensors() == rows
