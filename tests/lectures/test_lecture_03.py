"""Lecture 03: its counts are correct, and its networks are the recorded ones. The tests run the lecture's own
code cells.
"""

import math

import pytest

from ..modules import module_of
from .definitions import defined

SETTINGS = {"WEIGHTED", "COUNTED", "POOLING", "KEPT", "VGG", "RESNETS", "MODULES"}


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; nothing is trained or drawn."""
    return defined("03", SETTINGS, cross_entropy=None)


@pytest.fixture(scope="module")
def script():
    """The script that made the record."""
    return module_of("lectures/runs/03_small_networks.py")


# {network: (its function, arguments, trainable parameters and, if two sources agree, multiply-adds)}
PUBLISHED = {
    "LeNet-5": ("lenet5", {}, 61_706, 416_520),
    "AlexNet on two cards": ("alexnet", {}, 60_965_224, 724_406_816),
    "VGG-16": ("vgg", {"which": "D"}, 138_357_544, 15_470_264_320),
    "VGG-19": ("vgg", {"which": "E"}, 143_667_240, None),
    "GoogLeNet": ("googlenet", {}, 6_998_552, None),
    "ResNet-50": ("resnet", {"depth": 50}, 25_557_032, None),
    "ResNet-50 with biases": ("resnet", {"depth": 50, "bias": True}, 25_583_592, None),
    "ResNet-152": ("resnet", {"depth": 152}, 60_192_808, None),
    "ResNeXt-50": ("resnet", {"depth": 50, "late": True, "groups": 32}, 25_028_904, None),
    "ConvNeXt-T without LayerScale": ("convnext", {}, 28_589_128 - 6_624, None),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_network_has_its_published_size(lecture, name):
    """Do the lecture's counter and the model's Keras variables both give the published number of
    parameters?
    """
    build, options, parameters, multiply_adds = PUBLISHED[name]
    model = lecture["sketch"](lecture[build], **options)
    table = lecture["count"](model)
    assert sum(math.prod(v.shape) for v in model.trainable_variables) == parameters
    assert table["parameters"].sum() == parameters
    assert multiply_adds in (None, table["multiply-adds"].sum())


@pytest.mark.parametrize("name, parameters", [("MobileNetV2", 3_504_872), ("EfficientNetB0", 5_288_548)])
def test_counter_knows_the_layers_of_later_networks(lecture, name, parameters):
    """Does the counter handle the layers of later networks, such as depthwise convolutions and branches that
    weight maps? The expected sizes are torchvision's.
    """
    import keras

    model = lecture["sketch"](getattr(keras.applications, name), weights=None)
    assert lecture["count"](model)["parameters"].sum() == parameters


NAMED_BY_DEPTH = [("vgg", {"which": "D"}, 16), ("googlenet", {}, 22), ("resnet", {"depth": 50}, 50)]


@pytest.mark.parametrize("build, options, layers", NAMED_BY_DEPTH)
def test_depth_is_the_number_in_the_name(lecture, build, options, layers):
    """Is a network's depth the published number, which is usually in its name? The longest path must go
    through a block, not through the 1 × 1 convolution of its shortcut.
    """
    assert lecture["depth"](lecture["sketch"](lecture[build], **options)) == layers


def test_depth_leaves_out_branches_that_only_weight_maps(lecture):
    """Does the depth leave out branches that only weight maps? EfficientNet-B0 has a stem, 16 blocks of three
    layers (of two in the first), and two layers at the end.
    """
    import keras

    net = lecture["sketch"](keras.applications.EfficientNetB0, weights=None)
    assert lecture["depth"](net) == 1 + 16 * 3 - 1 + 2


def test_counter_by_hand(lecture):
    """Are the counts as computed by hand for 7 × 9 pixels with 4 channels, a convolution (6 filters of 3 × 3,
    stride 2, 2 groups), batch normalisation, and a dense layer of 5 units?
    """
    import keras

    image = keras.Input((7, 9, 4))
    x = keras.layers.Conv2D(6, 3, 2, groups=2)(image)  # (3, 4, 6): each sum has 3 · 3 · 2 products
    x = keras.layers.Flatten()(keras.layers.BatchNormalization()(x))
    table = lecture["count"](keras.Model(image, keras.layers.Dense(5, use_bias=False)(x)))
    assert table["parameters"].tolist() == [6 * 18 + 6, 2 * 6, 5 * 72]
    assert table["multiply-adds"].tolist() == [72 * 18, 0, 5 * 72]
    assert table["kept"].tolist() == [72, 72, 5]


def test_depthwise_by_hand(lecture):
    """Are the counts as computed by hand for 5 × 5 pixels with 4 channels, a depthwise 3 × 3 convolution with
    biases, and a layer normalisation?
    """
    import keras

    image = keras.Input((5, 5, 4))
    x = keras.layers.DepthwiseConv2D(3)(image)  # (3, 3, 4): each sum has 3 · 3 products
    table = lecture["count"](keras.Model(image, keras.layers.LayerNormalization()(x)))
    assert table["parameters"].tolist() == [4 * 9 + 4, 2 * 4]
    assert table["multiply-adds"].tolist() == [36 * 9, 0]
    assert table["kept"].tolist() == [36, 36]


def test_two_witnesses_find_a_wrong_count(lecture, monkeypatch):
    """Does check() pass for LeNet-5 with the right counters, and fail if one of them is wrong?"""
    lecture["tf"].get_logger().setLevel("ERROR")
    table = lecture["check"]("LeNet-5", lecture["lenet5"])
    small = 6_518 + 4 * (1_176 + 400)  # one addition per bias, four numbers per pooled one
    assert table["parameters"].sum() == 61_706
    assert math.isclose(table.attrs["rest"], small / (2 * 416_520 + small))  # a share of the forward pass
    right = lecture["multiply_adds"]
    for counter, wrong in [
        ("multiply_adds", lambda layer: right(layer) + 1),
        ("parameters", lambda layer: 1),
    ]:
        with monkeypatch.context() as patch, pytest.raises(AssertionError, match="counts"):
            patch.setitem(lecture, counter, wrong)
            lecture["check"]("LeNet-5", lecture["lenet5"])


def test_receptive_fields(lecture):
    """Is the receptive field 3 for one 3 × 3 layer, 5 for two, 7 for two if the first has stride 2, and 212
    for the last pooling layer of VGG-16?
    """
    see = lecture["receptive_field"]
    assert [see([]), see([(3, 1)]), see([(3, 1)] * 2), see([(3, 2), (3, 1)])] == [1, 3, 5, 7]
    chain = [step for n in lecture["VGG"]["D"] for step in [(3, 1)] * n + [(2, 2)]]
    assert see(chain) == 212


def settings(model):
    """Return each layer's kind, output shape and settings. Equal networks agree in them, but not in names and
    seeds.
    """
    keep = ("kernel_size", "strides", "padding", "use_bias", "activation", "momentum", "pool_size", "units")
    return [
        (type(layer).__name__, layer.output.shape, {k: layer.get_config().get(k) for k in keep})
        for layer in model.layers
    ]


@pytest.mark.parametrize("removed", ["none", "7", "6, 7", "3, 4", "3, 4, 6, 7"])
def test_mini_alexnet_is_the_one_that_was_trained(lecture, script, removed):
    skip = script.REMOVED[removed]
    ours, theirs = (lecture["sketch"](f, skip) for f in (lecture["mini_alexnet"], script.mini_alexnet))
    assert settings(ours) == settings(theirs)
    if removed == "none":
        assert ours.count_params() == 154_954


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_stack_is_the_one_that_was_trained(lecture, script, residual, norm):
    ours, theirs = (lecture["sketch"](f, 2, residual, norm=norm) for f in (lecture["stack"], script.stack))
    assert settings(ours) == settings(theirs)
