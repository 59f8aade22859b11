"""Lecture 04: its counters are correct, labels stay with their images, and the record supports the text."""

import ast

import numpy as np
import pandas as pd
import pytest

from cluster.training.profiling import (
    KINDS,
    in_turns,
    ladder,
    layer_of,
    multiply_adds,
    operations,
    phase,
    stored_activations,
)

from ..modules import module_of
from ..percent import code_of
from . import test_lecture_03
from .definitions import LECTURES, defined

SETTINGS = {"PLAIN", "IMAGES", "ORDERS", "N", "network", "train_step", "step", "READS", "SHARDS"}
lecture_03 = test_lecture_03.lecture  # a fixture


@pytest.fixture(scope="module")
def lecture(tmp_path_factory):
    """What the lecture defines, with small files of its own; nothing is measured or drawn."""
    names = defined("04", SETTINGS)
    rng, N = np.random.default_rng(4), names["IMAGES"]
    names["WAIT"] = 0
    pixels = rng.integers(0, 256, (N, names["SIDE"], names["SIDE"], 1), np.uint8)
    encode = names["tf"].io.encode_jpeg
    names["files"] = [encode(image, quality=95).numpy() for image in pixels]
    names["y"] = np.arange(N) % 256  # the label of an image is its number modulo 256
    names["folder"] = str(tmp_path_factory.mktemp("shards"))
    exec(shards_of_the_lecture(), names)
    return names


def shards_of_the_lecture():
    """Return the lecture's loop that writes the TFRecord files, compiled."""
    [text] = (LECTURES / "text").glob("04_*.py")
    nodes = [node for source in code_of(text) for node in ast.parse(source).body]
    [loop] = [n for n in nodes if isinstance(n, ast.For) and "TFRecordWriter" in ast.unparse(n)]
    return compile(ast.Module([loop], []), str(text), "exec")


@pytest.fixture(scope="module")
def experiment():
    return module_of("lectures/runs/04_transfer.py")


def graph_of(lecture, function, *shapes):
    """Return the graph of a function. The result is assigned to a variable, so that the operations are not
    removed as unused.
    """
    tf = lecture["tf"]
    kept = tf.Variable(0.0)

    @tf.function
    def run(*arguments):
        kept.assign(tf.reduce_sum(function(*arguments)))

    return run.get_concrete_function(*(tf.TensorSpec(shape) for shape in shapes)).graph


def test_bytes_and_flops_of_operations_by_hand(lecture):
    """Does a sum of two arrays of 6 numbers count as reading 12 and writing 6 numbers? Are unused operations
    ignored?"""
    tf = lecture["tf"]

    def add(a, b):
        tf.exp(a)  # unused
        return tf.add(a, b, name="both")

    result = operations(graph_of(lecture, add, (2, 3), (2, 3)), lecture["network"], 64)
    assert result.loc["both", ["flops", "bytes"]].tolist() == [6, 4 * 18]
    assert not [name for name in result.index if "Exp" in name or "Reshape" in name]


def test_products_of_the_step_are_those_of_lecture_03(lecture):
    """In the graph of a training step, does each layer with products have one forward and two backward
    products, or only one backward product if it is the first layer?
    """
    network, tf, N = lecture["network"], lecture["tf"], 8
    images = tf.TensorSpec((N, 28, 28, 1)), tf.TensorSpec((N,), tf.int64)
    graph = lecture["step"].get_concrete_function(*images).graph
    counted = operations(graph, network, N)
    others = {layer.name: multiply_adds(layer) for layer in network.layers}
    for name, products in others.items():
        if products:
            rows = counted[
                (counted["layer"] == name) & counted.index.str.contains("Conv2D|MatMul|convolution$")
            ]
            assert rows["flops"].sum() == (2 if name == "conv1" else 3) * 2 * N * products, name
    assert set(counted["part"]) == {"forward", "backward", "update"}
    assert set(counted["kind"]) == {*KINDS.values(), "loss, update"}


def test_counters_are_lecture_03s(lecture, lecture_03):
    """Do multiply-adds and stored activations of every layer agree with lecture 03's counter, which two
    independent counts have verified?"""
    table = lecture_03["count"](lecture["network"])
    counts = [multiply_adds(v) for v in lecture["network"].layers if isinstance(v, lecture_03["KEPT"])]
    assert counts == table["multiply-adds"].tolist()
    assert stored_activations(lecture["network"]) == table["kept"].sum()


def test_bytes_of_shorter_numbers_are_fewer(lecture):
    """Does a sum of two arrays of 6 bfloat16 numbers move two bytes per number?"""
    tf = lecture["tf"]

    def add(a, b):
        return tf.cast(tf.add(tf.cast(a, tf.bfloat16), tf.cast(b, tf.bfloat16), name="both"), tf.float32)

    result = operations(graph_of(lecture, add, (2, 3), (2, 3)), lecture["network"], 64)
    assert result.loc["both", "bytes"] == 2 * 18


def test_calls_take_turns_on_the_clock_that_is_given():
    """After a warm-up round, do two calls take turns for two rounds, timed with the given clock? (A counting
    clock measures 1 for each call.)
    """
    called, ticks = [], iter(range(100))
    result = in_turns({n: lambda n=n: called.append(n) for n in "ab"}, 2, lambda: next(ticks))
    assert called == list("ababab") and result.to_numpy().tolist() == [[1, 1], [1, 1]]


def test_ladder_compares_within_a_round():
    """Are speed-ups computed within each round? (Rounds of 4 and 2 s, and of 6 and 2 s, give factors of 2 and
    3.)"""
    times = pd.DataFrame({"slow": [4.0, 6.0], "fast": [2.0, 2.0]})
    result = ladder(pd.Series({"slow": 5.0, "fast": 1.0}), times).loc["fast"]
    assert result.tolist() == [1000, 2000, 2, 2.5, 2, 3]


def test_an_image_keeps_its_label(lecture):
    """Does each image keep its label? The image must consist of every fourth pixel of a crop of the file with
    this number, possibly mirrored and with its brightness changed.
    """
    tf, SIDE = lecture["tf"], lecture["SIDE"]
    orders = ("shuffle read decode augment batch", "read decode cache shuffle batch augment")
    for order in (*orders, "records decode cache shuffle batch augment"):
        [(images, labels)] = lecture["pipeline"](order, calls=4).take(1)
        for image, label in zip(images.numpy()[:8, ..., 0], labels.numpy()[:8], strict=True):
            parts = []
            for number in (label, label + 256):  # a label in a TFRecord is one byte
                whole = tf.io.decode_jpeg(lecture["files"][number]).numpy()[..., 0].astype(np.float32)
                at = range(SIDE - 112)
                parts += [whole[i : i + 112 : 4, j : j + 112 : 4] for i in at for j in at]
            parts = np.array(parts + [part[:, ::-1] for part in parts]) / 255
            factors = (parts * image).sum((1, 2)) / (parts**2).sum((1, 2))
            off = np.abs(parts * factors[:, None, None] - image).max((1, 2))
            assert off.min() < 1e-4 and 0.8 <= factors[off.argmin()] <= 1.2


def test_every_image_once_an_epoch(lecture):
    for order in lecture["ORDERS"].values():
        labels = [
            label for _, some in lecture["pipeline"](order, calls=4).as_numpy_iterator() for label in some
        ]
        assert sorted(labels) == sorted(lecture["y"]), order


def test_calls_of_augment_are_counted_right(lecture, monkeypatch):
    """Is the table's number of calls of `augment` the number of times that it is called?"""
    tf, called, augment = lecture["tf"], [], lecture["augment"]

    def counting(images, labels):
        if images.shape.rank == 4 and images.shape[0] == 1:  # called directly, for one image
            return augment(images, labels)
        marked = tf.numpy_function(lambda v: called.append(1) or v, [labels], tf.int64)
        return augment(images, tf.ensure_shape(marked, labels.shape))

    monkeypatch.setitem(lecture, "augment", counting)
    for name in ("cache after shuffle", "cache, shuffle, batch, augment"):
        called.clear()
        list(lecture["pipeline"](lecture["ORDERS"][name]))
        assert len(called) == lecture["census"](lecture["ORDERS"][name])["calls of augment"]
        called.clear()


def test_a_batch_mixes_the_shards(lecture):
    """Does the first batch contain images from each of the eight files?"""
    [(_, labels)] = lecture["pipeline"]("records decode batch").take(1)
    assert set(labels.numpy() % lecture["SHARDS"]) == set(range(lecture["SHARDS"]))


def test_prediction_by_hand(lecture):
    """Are the predicted times as computed by hand, for exercise 1 of the lecture: 8 ms of waiting (16 at
    once), 2 ms of decoding on one of 4 cores, and a step of 3 ms?
    """
    result = lecture["predicted"](w=8, d=2, a=0, s=3, c=0, k=16, p=4)
    assert list(result.values()) == [13, 3.5, 3, 3]


def test_levers_are_the_pipelines_that_were_predicted(lecture, monkeypatch):
    """Does seconds(), given a list of optimisations, return the time that predicted() gives for the same
    pipeline, if a step's wall-clock and CPU times are equal?
    """
    known = {"w": 8.0, "d": 2.0, "a": 1.0, "k": 16, "p": 2, "N": 64}
    ways = pd.DataFrame({"eager": [64 * 5.0], "graph": [64 * 3.0]})
    for name, value in (known | {"ways": ways}).items():
        monkeypatch.setitem(lecture, name, value)
    pipelines = [[], ["parallel map"], ["parallel map", "prefetch"], ["parallel map", "prefetch", "cache"]]
    for step, first in ((5.0, []), (3.0, ["graph"])):
        results = [lecture["seconds"](first + levers) for levers in pipelines]
        assert results == list(lecture["predicted"](8.0, 2.0, 1.0, step, step, 16, 2).values())
    assert lecture["seconds"](["cache"]) == 1 + 5 and lecture["seconds"](["prefetch"]) == 11


def test_phases_and_layers_of_names():
    name = "gradient_tape/forward/small_resnet_1/norm3_1/moments/Tile"
    assert phase(name) == "backward" and phase("disk/PyFunc") == "disk"
    assert layer_of(name) == "norm3"
    assert (
        layer_of("gradient_tape/forward/small_resnet_1/conv1_2/convolution/Conv2DBackpropFilter") == "conv1"
    )
    assert layer_of("update/sgd/Mul_3") is None and layer_of("backward/AddN_3") is None


def test_random_numbers_of_five_classes(experiment):
    """Are the two sets of five classes disjoint, and are equally many images of each class chosen? Do the
    numbers of times that images are used differ by at most 1?
    """
    for seed in experiment.SEEDS:
        old, new = experiment.classes_of(seed)
        assert sorted(old + new) == list(range(10)) and len(old) == len(new) == 5
    y = np.random.default_rng(0).integers(0, 5, 1000)
    some = experiment.chosen(y, range(5), 30, np.random.default_rng(1))
    assert len(set(some)) == 30 and (np.bincount(y[some]) == 6).all()
    order = experiment.order_of(30, 10, np.random.default_rng(1))
    often = np.bincount(order.ravel(), minlength=30)
    assert order.shape == (10, experiment.BATCH) and often.max() - often.min() <= 1
