"""The learning rate against arithmetic by hand; the models against their published shapes and counts."""

import numpy as np
import pytest

keras = pytest.importorskip("keras")
from cluster.training import models, schedules  # noqa: E402


def rates(schedule, steps):
    return [round(float(schedule(step)), 6) for step in steps]


def test_gradual_warmup_by_hand():
    """η = 0.1, k = 4, 4 steps: does each step add (0.4 - 0.1) / 4 = 0.075, and 0.4 hold from then on?"""
    schedule = schedules.LinearWarmup(0.1, ranks=4, warmup_steps=4)
    assert rates(schedule, range(7)) == [0.1, 0.175, 0.25, 0.325, 0.4, 0.4, 0.4]


def test_goyals_numbers():
    """0.1 for 256 images, 8,192 in all: 0.1 at the start, 3.2 after the warmup, as in 1706.02677?"""
    schedule = schedules.LinearWarmup(0.1, ranks=32, warmup_steps=5 * 157)
    assert rates(schedule, [0, 785, 10_000]) == [0.1, 3.2, 3.2]


def test_constant_warmup_and_none():
    """Is it η until the last step of a constant warmup, and kη at once without one?"""
    constant = schedules.LinearWarmup(0.1, ranks=4, warmup_steps=3, kind="constant")
    assert rates(constant, range(5)) == [0.1, 0.1, 0.1, 0.4, 0.4]
    assert rates(schedules.LinearWarmup(0.1, ranks=4, warmup_steps=3, kind="none"), [0, 9]) == [0.4, 0.4]
    assert rates(schedules.LinearWarmup(0.1, ranks=4, warmup_steps=0), [0, 9]) == [0.4, 0.4]


def test_one_rank_changes_nothing():
    """Is the learning rate of one rank η at all times?"""
    assert rates(schedules.LinearWarmup(0.1, ranks=1, warmup_steps=7), range(10)) == [0.1] * 10


@pytest.mark.parametrize("wrong", [{"base": 0.0}, {"ranks": 0}, {"warmup_steps": -1}, {"kind": "linear"}])
def test_no_schedule_from_wrong_values(wrong):
    """Is the offending value named?"""
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        schedules.LinearWarmup(**{"base": 0.1, "ranks": 2, "warmup_steps": 5, **wrong})


def test_a_schedule_survives_saving():
    """Does an optimizer made again from its configuration follow the same schedule?"""
    schedule = schedules.LinearWarmup(0.1, ranks=3, warmup_steps=5, kind="constant")
    optimizer = keras.optimizers.SGD.from_config(keras.optimizers.SGD(schedule).get_config())
    assert optimizer._learning_rate.get_config() == schedule.get_config()


def test_lenet5_by_hand():
    """Are there as many parameters as the layers' shapes give?"""
    by_hand = (25 + 1) * 6 + (25 * 6 + 1) * 16 + (400 + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10
    net = models.lenet5()
    assert net.count_params() == by_hand == 61_706
    assert [layer.output.shape[1:] for layer in net.layers[1:6]] == [
        (28, 28, 6), (14, 14, 6), (10, 10, 16), (5, 5, 16), (400,)
    ]  # fmt: skip


@pytest.mark.parametrize("blocks, published", [(3, 0.27), (5, 0.46), (9, 0.85)])
def test_small_resnet_is_that_of_the_paper(blocks, published):
    """Has it as many trainable parameters (million) as Table 6 of 1512.03385 says for 20, 32 and 56 layers?

    The paper's pictures have three colours, not one, and its shortcuts have no parameters.
    """
    net = models.small_resnet(blocks=blocks)
    trainable = sum(int(np.prod(v.shape)) for v in net.trainable_variables)
    colours, shortcuts = 2 * 9 * 16, (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64)
    assert round((trainable + colours - shortcuts) / 1e6, 2) == published


def test_small_resnet_by_hand():
    """Are there as many parameters as the layers' shapes give, four for each map of a batch normalisation?"""

    def conv(k, maps_in, maps):
        return k * k * maps_in * maps + 4 * maps

    stages = [conv(3, a, b) + conv(3, b, b) + (conv(1, a, b) if a != b else 0) for a, b in
              [(16, 16), (16, 32), (32, 64)]]  # fmt: skip
    assert models.small_resnet().count_params() == conv(3, 1, 16) + sum(stages) + 65 * 10 == 78_426
    assert models.small_resnet()(np.zeros((2, 28, 28, 1), np.float32)).shape == (2, 10)


@pytest.mark.parametrize("model", [models.lenet5, models.small_resnet])
def test_the_seed_decides_the_weights(model):
    """Same seed, same weights; another seed, others; and no two layers alike?"""
    first, again, other = (model(seed).get_weights() for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    kernels = [w.ravel()[:5].tolist() for w in first + other if w.ndim > 1]
    assert len({tuple(k) for k in kernels}) == len(kernels)
