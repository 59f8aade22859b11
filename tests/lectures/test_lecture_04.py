"""Lecture 04: do its counters count, do labels stay with their images, does the record carry the words?"""

import ast
import hashlib
import json
import math
import re

import jupytext
import numpy as np
import pytest

from .. import ROOT
from ..modules import module_of
from . import test_lecture_03

RUNS = ROOT / "lectures" / "runs"
TEXT = ROOT / "lectures" / "text" / "04_one_device_fast.py"
SETTINGS = {"KINDS", "MOVES", "PHASES", "IMAGES", "ORDERS", "SLIDE", "T", "N", "network", "optimizer", "step",
            "READS", "seen", "cross_entropy", "least"}  # fmt: skip
METHODS = ["scratch", "fine-tuned", "frozen"]
lecture_03 = test_lecture_03.lecture  # a fixture


@pytest.fixture(scope="module")
def lecture():
    """The imports, functions and settings of the lecture's code cells; nothing is measured or drawn."""
    wanted = []
    for cell in jupytext.read(TEXT, fmt="py:percent").cells:
        for node in ast.parse(cell.source).body if cell.cell_type == "code" else ():
            targets = {
                name.id
                for target in getattr(node, "targets", ())
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            }
            if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef) or targets & SETTINGS:
                wanted += [node] if "batch" not in targets else []
    for node in wanted:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
    names = {"__name__": "lecture_04"}
    exec(compile(ast.Module(wanted, []), str(TEXT), "exec"), names)
    rng, N = np.random.default_rng(4), names["IMAGES"]
    names["WAIT"], names["N"] = 0, 64
    pixels = rng.integers(0, 256, (N, names["SIDE"], names["SIDE"], 1), np.uint8)
    encode = names["tf"].io.encode_jpeg
    names["files"] = [encode(image, quality=95).numpy() for image in pixels]
    names["y"] = np.arange(N)  # the label of an image is its number
    return names


@pytest.fixture(scope="module")
def experiment():
    return module_of("lectures/runs/04_transfer.py")


@pytest.fixture(scope="module")
def record():
    return json.loads((RUNS / "04_transfer.json").read_text())


def graph_of(lecture, function, *shapes):
    """A function's graph, whose result is assigned to a variable so that it is executed."""
    tf = lecture["tf"]
    kept = tf.Variable(0.0)

    @tf.function
    def run(*arguments):
        kept.assign(tf.reduce_sum(function(*arguments)))

    return run.get_concrete_function(*(tf.TensorSpec(shape) for shape in shapes)).graph


def test_bytes_and_flops_of_operations_by_hand(lecture):
    """A sum of two arrays of 6 numbers reads 12 and writes 6; unused operations are not counted."""
    tf = lecture["tf"]

    def add(a, b):
        tf.exp(a)  # dead
        return tf.add(a, b, name="both")

    found = lecture["operations"](graph_of(lecture, add, (2, 3), (2, 3)), 64)
    assert found.loc["both"].tolist() == [6, 4 * 18]
    assert not [name for name in found.index if "Exp" in name or "Reshape" in name]


def test_products_of_the_step_are_those_of_lecture_03(lecture):
    """Each layer of products has one forward and two backward, the first one only one of these."""
    network, tf, N = lecture["network"], lecture["tf"], 8
    images = tf.TensorSpec((N, 28, 28, 1)), tf.TensorSpec((N,), tf.int64)
    counted = lecture["labelled"](
        lecture["operations"](lecture["step"].get_concrete_function(*images).graph, N)
    )
    others = {layer.name: lecture["multiply_adds"](layer) for layer in network.layers}
    for name, products in others.items():
        if products:
            rows = counted[
                (counted["layer"] == name) & counted.index.str.contains("Conv2D|MatMul|convolution$")
            ]
            assert rows["flops"].sum() == (2 if name == "conv1" else 3) * 2 * N * products, name
    assert set(counted["part"]) == {"forward", "backward", "update"}
    assert set(counted["kind"]) == {*lecture["seen"], "loss, update"}


def test_counters_are_lecture_03s(lecture, lecture_03):
    """Multiply-adds and numbers kept of every layer, by the counter that two witnesses have checked."""
    table = lecture_03["count"](lecture["network"])
    mine = [
        lecture["multiply_adds"](v) for v in lecture["network"].layers if isinstance(v, lecture_03["KEPT"])
    ]
    assert mine == table["multiply-adds"].tolist()
    assert lecture["kept"](lecture["network"]) == table["kept"].sum()


def test_an_image_keeps_its_label(lecture):
    """Is each picture every fourth pixel of the file whose number is its label, or their mirror?"""
    tf, SIDE = lecture["tf"], lecture["SIDE"]
    for order in ("shuffle read decode augment batch", "read decode cache shuffle batch augment"):
        [(images, labels)] = lecture["pipeline"](order, calls=4).take(1)
        for image, label in zip(images.numpy()[:8, ..., 0], labels.numpy()[:8], strict=True):
            whole = tf.io.decode_jpeg(lecture["files"][label]).numpy()[..., 0].astype(np.float32)
            at = range(SIDE - 112)
            parts = [whole[i : i + 112 : 4, j : j + 112 : 4] for i in at for j in at]
            parts = np.array(parts + [part[:, ::-1] for part in parts]) / 255
            factors = (parts * image).sum((1, 2)) / (parts**2).sum((1, 2))
            off = np.abs(parts * factors[:, None, None] - image).max((1, 2))
            assert off.min() < 1e-4 and 0.8 <= factors[off.argmin()] <= 1.2


def test_every_image_once_an_epoch(lecture):
    for order in lecture["ORDERS"].values():
        labels = [
            label for _, some in lecture["pipeline"](order, calls=4).as_numpy_iterator() for label in some
        ]
        assert sorted(labels) == list(range(lecture["IMAGES"])), order


def test_what_the_orders_count(lecture):
    """The conclusions on cache, shuffle, batch: counted again, with pictures of noise."""
    tf, census, IMAGES = lecture["tf"], lecture["census"], lecture["IMAGES"]
    found = {name: census(order, calls=4) for name, order in lecture["ORDERS"].items()}
    tf.random.set_seed(4)
    seeded = census("read decode cache augment batch")
    tf.random.set_seed(None)
    pictures = {name: row["different pictures"] for name, row in found.items()}
    assert pictures.pop("cache behind augment") == IMAGES == seeded["different pictures"]
    assert set(pictures.values()) == {2 * IMAGES}
    assert [name for name, row in found.items() if not row["new order in epoch 2"]] == [
        "cache behind shuffle"
    ]
    assert [row["files read"] // IMAGES for row in found.values()] == [2, 1, 1, 1, 1]
    assert [row["calls of augment, epoch 1"] for row in found.values()] == [IMAGES] * 4 + [IMAGES // 64]


def test_calls_of_augment_are_counted_right(lecture, monkeypatch):
    """The table takes them from the order; here they are really counted."""
    tf, called, augment = lecture["tf"], [], lecture["augment"]

    def counting(images, labels):
        if images.shape.rank == 4 and images.shape[0] == 1:  # called by itself, for one image
            return augment(images, labels)
        marked = tf.numpy_function(lambda v: called.append(1) or v, [labels], tf.int64)
        return augment(images, tf.ensure_shape(marked, labels.shape))

    monkeypatch.setitem(lecture, "augment", counting)
    for name in ("cache, shuffle, augment", "cache, shuffle, batch, augment"):
        called.clear()
        list(lecture["pipeline"](lecture["ORDERS"][name]))
        assert len(called) == lecture["census"](lecture["ORDERS"][name])["calls of augment, epoch 1"]
        called.clear()


def test_phases_and_layers_of_names(lecture):
    phase, layer_of = lecture["phase"], lecture["layer_of"]
    assert phase("gradient_tape/forward/small_resnet_1/norm3_1/moments/Tile:Tile") == "backward"
    assert phase("disk/PyFunc:PyFunc") == "disk" and phase("Iterator::Root") is None
    assert (
        layer_of("gradient_tape/forward/small_resnet_1/conv1_2/convolution/Conv2DBackpropFilter") == "conv1"
    )
    assert layer_of("update/sgd/Mul_3") is None and layer_of("backward/AddN_3") is None


def test_random_numbers_of_five_classes(experiment):
    """Are classes disjoint, with equally many images each, and is each image used equally often, except
    in the last round?"""
    for seed in experiment.SEEDS:
        old, new = experiment.classes_of(seed)
        assert sorted(old + new) == list(range(10)) and len(old) == len(new) == 5
    y = np.random.default_rng(0).integers(0, 5, 1000)
    some = experiment.chosen(y, range(5), 30, np.random.default_rng(1))
    assert len(set(some)) == 30 and (np.bincount(y[some]) == 6).all()
    order = experiment.order_of(30, 10, np.random.default_rng(1))
    often = np.bincount(order.ravel(), minlength=30)
    assert order.shape == (10, experiment.BATCH) and often.max() - often.min() <= 1


def test_record_is_of_this_script(experiment, record):
    """Five seeds, three methods at six sizes, and the script's hash."""
    assert record["script"] == hashlib.sha256((RUNS / "04_transfer.py").read_bytes()).hexdigest()
    assert re.fullmatch("[0-9a-f]{40}", record["commit"]) and record["checks"] == experiment.CHECKS
    assert [job["seed"] for job in record["jobs"]] == experiment.SEEDS
    everyone = {(size, method) for size in experiment.SIZES for method in METHODS}
    for job in record["jobs"]:
        assert job["first classes"] == experiment.classes_of(job["seed"])[0]
        assert {(row["images"], row["method"]) for row in job["rows"]} == everyone
        assert len(job["rows"]) == len(everyone) and {len(r["errors"]) for r in job["rows"]} == {3}
    assert sum(job["cpu_seconds"] for job in record["jobs"]) < 600


@pytest.fixture(scope="module")
def errors(record):
    """{(method, updates): (sizes, seeds)} of the recorded runs."""
    found = {}
    for method in METHODS:
        for i, updates in enumerate(record["checks"]):
            rows = [[r["errors"][i] for r in j["rows"] if r["method"] == method] for j in record["jobs"]]
            found[method, updates] = np.array(rows).T
    return found


def half(values):
    """Half of the 95% interval of a mean of five."""
    return 2.776 * np.std(values, ddof=1) / math.sqrt(5)


def test_fine_tuning_is_faster(errors):
    """After 20 updates: tens of points less at each size on average, and less in nearly every pair."""
    points = errors["fine-tuned", 20] - errors["scratch", 20]
    assert (points.mean(1) < -20).all() and (points < 0).mean() > 0.9


def test_fine_tuning_is_not_better_in_the_end(errors):
    """After 400 updates the confidence interval of the difference includes zero at each size."""
    for points in errors["fine-tuned", 400] - errors["scratch", 400]:
        assert abs(points.mean()) < half(points)


def test_frozen_features_cost(errors):
    """Frozen errs more than fine-tuned in the end, by more than the interval from 30 images on."""
    for points in (errors["frozen", 400] - errors["fine-tuned", 400])[1:]:
        assert points.mean() > half(points)


def test_only_runs_from_scratch_learn_nothing(errors):
    assert (errors["scratch", 400] > 70).any()
    assert all((errors[method, 400] < 70).all() for method in METHODS[1:])


def test_intervals_in_the_end_are_narrow_from_30_to_1000_images_only(errors):
    """A few points there; too wide at 10 and 10,000, where runs from scratch learned nothing."""
    widths = [half(points) for points in errors["fine-tuned", 400] - errors["scratch", 400]]
    assert max(widths[1:5]) < 4 and min(widths[0], widths[5]) > 20
    assert [bool((row > 70).any()) for row in errors["scratch", 400]] == [True] + 4 * [False] + [True]


def test_interval_by_hand(lecture):
    """1, 2, 3, 4, 5: a standard deviation of √2.5, and 2.776 √2.5 / √5 = 1.963."""
    assert lecture["interval"]([1, 2, 3, 4, 5]) == pytest.approx(1.963, abs=1e-3)


def test_cells_are_short():
    """The house rule: no code cell above 25 lines."""
    cells = jupytext.read(TEXT, fmt="py:percent").cells
    assert max(len(cell.source.splitlines()) for cell in cells if cell.cell_type == "code") <= 25
