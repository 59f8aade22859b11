"""The learning rate compared with arithmetic by hand, and the models compared with their published shapes and
counts."""

import json

import numpy as np
import pytest

keras = pytest.importorskip("keras")
from cluster.training import models, optimizers, schedules  # noqa: E402


def rates(schedule, steps):
    return [round(float(schedule(step)), 6) for step in steps]


@pytest.mark.parametrize(
    "ranks, warmup, kind, steps, expected",
    [
        (4, 4, "gradual", range(7), [0.1, 0.175, 0.25, 0.325, 0.4, 0.4, 0.4]),  # (0.4 - 0.1) / 4 = 0.075
        (4, 3, "constant", range(5), [0.1, 0.1, 0.1, 0.4, 0.4]),
        (4, 3, "none", [0, 9], [0.4, 0.4]),
        (4, 0, "gradual", [0, 9], [0.4, 0.4]),
        (1, 7, "gradual", range(10), [0.1] * 10),
        (32, 5 * 157, "gradual", [0, 785, 10_000], [0.1, 3.2, 3.2]),  # arXiv:1706.02677: 8,192 images
    ],
)
def test_warmup_by_hand(ranks, warmup, kind, steps, expected):
    """Starting at η = 0.1, does the learning rate follow each kind of warmup to kη?"""
    assert rates(schedules.LinearWarmup(0.1, ranks, warmup, kind), steps) == expected


def decay():
    """Return a schedule of 0.6 up to step 5, then 0.06, and 0.006 from step 9 of the training run."""
    return keras.optimizers.schedules.PiecewiseConstantDecay([5, 8], [0.6, 0.06, 0.006])


def test_warmup_ends_where_the_schedule_after_it_is():
    """With η = 0.2, 4 warmup steps and a schedule that is 0.6 at step 4, does a gradual warmup take steps of
    0.1? Does every kind of warmup then follow the schedule?"""
    after = [0.6, 0.6, 0.06, 0.06, 0.06, 0.006]
    for kind, first in [
        ("gradual", [0.2, 0.3, 0.4, 0.5]), ("constant", [0.2] * 4), ("none", [0.6] * 4),
    ]:  # fmt: skip
        schedule = schedules.LinearWarmup(0.2, ranks=2, warmup_steps=4, kind=kind, after=decay())
        assert rates(schedule, range(10)) == first + after
    assert rates(schedules.LinearWarmup(0.2, 2, 0, after=decay()), [0, 5, 6]) == [0.6, 0.6, 0.06]


def test_the_schedule_after_counts_from_the_start():
    """If a schedule falls linearly from 1.6 at step 0 to 0 at step 16, does the warmup end at step 4 with
    1.2?"""
    line = keras.optimizers.schedules.PolynomialDecay(1.6, 16, 0.0)
    schedule = schedules.LinearWarmup(0.4, ranks=4, warmup_steps=4, after=line)
    assert rates(schedule, [0, 1, 2, 3, 4, 5, 8, 16]) == [0.4, 0.6, 0.8, 1.0, 1.2, 1.1, 0.8, 0.0]


@pytest.mark.parametrize(
    "wrong", [{"base": 0.0}, {"ranks": 0}, {"warmup_steps": -1}, {"kind": "linear"}, {"after": 0.8}]
)
def test_no_schedule_from_wrong_values(wrong):
    """Does the error for an invalid argument contain its value? (A number as `after` could not be saved.)"""
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        schedules.LinearWarmup(**{"base": 0.1, "ranks": 2, "warmup_steps": 5, **wrong})


def test_a_schedule_survives_saving_with_what_follows_it():
    """Does a schedule with `after` survive saving, and can a schedule be loaded that was saved before `after`
    existed?"""
    schedule = schedules.LinearWarmup(0.2, ranks=2, warmup_steps=4, after=decay())
    config = json.loads(json.dumps(keras.optimizers.SGD(schedule).get_config()))
    again = keras.optimizers.SGD.from_config(config)._learning_rate
    assert rates(again, range(10)) == rates(schedule, range(10))
    assert again.get_config() == schedule.get_config()
    old = {"base": 0.1, "ranks": 4, "warmup_steps": 4, "kind": "gradual"}
    assert rates(schedules.LinearWarmup.from_config(old), [0, 4]) == [0.1, 0.4]


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_by_hand(nesterov):
    """With gradients of 1, m = 0.5 and learning rates 1, 1, 4, 1, is u equal to 1, 1.5, 1.75, 1.875, and is
    each step multiplied by its own learning rate?

    Nesterov's step is m u + g: 1.5, 1.75, 1.875, 1.9375.
    """
    u = [1.5, 1.75, 1.875, 1.9375] if nesterov else [1, 1.5, 1.75, 1.875]
    optimizer = optimizers.CorrectedSGD(1.0, momentum=0.5, nesterov=nesterov)
    weight, steps = keras.Variable(0.0), []
    for rate in (1.0, 1.0, 4.0, 1.0):
        before, optimizer.learning_rate = float(weight.numpy()), rate
        optimizer.apply([np.float32(1)], [weight])
        steps.append(before - float(weight.numpy()))
    assert steps == pytest.approx([u[0], u[1], 4 * u[2], u[3]])


def test_at_one_rate_both_forms_are_the_same():
    """With a constant learning rate, or without momentum, does the optimizer equal Keras' SGD, including
    weight decay and clipping?"""
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(20, 5)).astype(np.float32)
    for options in ({"momentum": 0.9, "weight_decay": 0.1, "clipnorm": 0.5}, {"momentum": 0.0}):
        results = []
        for kind in (optimizers.CorrectedSGD, keras.optimizers.SGD):
            optimizer, weight = kind(0.1, **options), keras.Variable(np.ones(5, np.float32))
            for g in gradients:
                optimizer.apply([keras.ops.convert_to_tensor(g)], [weight])
            results.append(weight.numpy())
        assert results[0] == pytest.approx(results[1], rel=1e-4)


def test_an_optimizer_survives_saving():
    """Can a saved optimizer be loaded under its registered name, with its momentum?"""
    optimizer = optimizers.CorrectedSGD(0.1, momentum=0.9, nesterov=True)
    saved = keras.saving.serialize_keras_object(optimizer)
    assert saved["registered_name"] == "cluster>CorrectedSGD"
    again = keras.saving.deserialize_keras_object(saved)
    assert isinstance(again, optimizers.CorrectedSGD) and again.get_config() == optimizer.get_config()


def test_lenet5_by_hand():
    """Does LeNet-5 have the number of parameters computed by hand from its layers' shapes?"""
    by_hand = (25 + 1) * 6 + (25 * 6 + 1) * 16 + (400 + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10
    net = models.lenet5()
    assert net.count_params() == by_hand == 61_706
    assert [layer.output.shape[1:] for layer in net.layers[1:6]] == [
        (28, 28, 6), (14, 14, 6), (10, 10, 16), (5, 5, 16), (400,)
    ]  # fmt: skip


@pytest.mark.parametrize("blocks, published", [(3, 0.27), (5, 0.46), (9, 0.85)])
def test_small_resnet_is_that_of_the_paper(blocks, published):
    """Do small ResNets of 20, 32 and 56 layers have the numbers of trainable parameters in Table 6 of
    arXiv:1512.03385?

    The paper's images have three colours instead of one, and its shortcuts have no parameters.
    """
    net = models.small_resnet(blocks=blocks)
    trainable = sum(int(np.prod(v.shape)) for v in net.trainable_variables)
    colours, shortcuts = 2 * 9 * 16, (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64)
    assert round((trainable + colours - shortcuts) / 1e6, 2) == published


def test_small_resnet_by_hand():
    """Does the small ResNet have the number of parameters computed by hand, with four per feature map for
    batch normalisation?"""

    def conv(k, maps_in, maps):
        return k * k * maps_in * maps + 4 * maps

    stages = [conv(3, a, b) + conv(3, b, b) + (conv(1, a, b) if a != b else 0) for a, b in
              [(16, 16), (16, 32), (32, 64)]]  # fmt: skip
    assert models.small_resnet().count_params() == conv(3, 1, 16) + sum(stages) + 65 * 10 == 78_426
    assert models.small_resnet()(np.zeros((2, 28, 28, 1), np.float32)).shape == (2, 10)


@pytest.mark.parametrize("model", [models.lenet5, models.small_resnet])
def test_the_seed_decides_the_weights(model):
    """Does the same seed give the same weights, and another seed other weights? Do all layers differ?"""
    first, again, other = (model(seed).get_weights() for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    kernels = [w.ravel()[:5].tolist() for w in first + other if w.ndim > 1]
    assert len({tuple(k) for k in kernels}) == len(kernels)
