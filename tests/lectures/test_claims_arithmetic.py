# ruff: noqa: SIM300 (computed == expected reads as the sentence it checks)
"""The numbers in the original slides that a calculation can confirm or refute. Rows of lectures/claims.toml
refer to these tests.

Each test computes the source's number from other numbers, and contains both if they differ.
"""

import math
from collections import Counter

import pytest


def test_fully_connected_layers_of_alexnet():
    """Do 6400 × 4096 and 4096 × 4096 weights take 164 MiB, which the slide calls MB, and 86 MFLOP instead of
    the slide's 81?
    """
    weights = 6400 * 4096 + 4096 * 4096
    assert weights == 42_991_616
    assert weights * 4 / 2**20 == pytest.approx(164, abs=0.5)  # MiB
    assert weights * 4 / 1e6 == pytest.approx(172, abs=0.5)  # MB
    assert 2 * weights / 1e6 == pytest.approx(86, abs=0.5)  # not 81


def test_vgg_takes_more_than_an_exaflop():
    """Do 50 epochs of 1.28 million images, with 19.6e9 multiply-adds each, take more than 10^18
    multiply-adds?
    """
    forward = 19.6e9 * 1.28e6 * 50
    assert 1e18 < forward < 1.3e18
    assert 2 * 3 * forward == pytest.approx(7.5e18, rel=0.01)  # in FLOPs, with the backward pass


def test_places_of_a_crop():
    assert 82_944 == (512 - 224) ** 2
    assert (512 - 224 + 1) ** 2 == 83_521


def test_mlperf_minutes_are_these_hours():
    minutes = [8831.3, 827.7, 4999.5, 1134.5, 1869.8, 46.7, 4388.7]
    hours = [147.2, 13.8, 83.3, 18.9, 31.2, 0.8, 73.2]
    off = [i for i, (m, h) in enumerate(zip(minutes, hours, strict=True)) if round(m / 60, 1) != h]
    assert off == [6] and 4388.7 / 60 == pytest.approx(73.145)


def test_buffers_of_resnet_50():
    """Does the slide's histogram contain the sizes of the trainable tensors of Keras' ResNet-50?"""
    import keras

    net = keras.applications.ResNet50(weights=None)
    sizes = [math.prod(v.shape) for v in net.trainable_variables]
    assert len(sizes) == 214 and sum(sizes) == 25_583_592
    bins = Counter(math.ceil(math.log2(n)) for n in sizes)
    printed = [21, 24, 48, 33, 22, 12, 1, 7, 1, 10, 2, 15, 2, 11, 2, 3]
    assert [bins[b] for b in sorted(bins)] == printed
    assert min(bins) == 6 and max(bins) == 22


def test_a_batch_of_8k():
    assert 256 * 32 == 8192


def test_tsubame_nodes():
    assert 1260 / 420 == 3
    assert 1146 / 1260 == pytest.approx(0.91, abs=0.005)


def test_kittibox_on_one_gpu():
    """Do 140,000 batches of 5 at 7.93 images/s take 24.5 hours in total and 0.63 s each?"""
    assert 7000 + 481 == 7481
    assert 140_000 * 5 / 7.93 / 3600 == pytest.approx(24.5, abs=0.05)
    assert 5 / 7.93 == pytest.approx(0.63, abs=0.005)
    assert 24.5 + 3 == 27.5


def test_kittibox_scales():
    rates = {5: {1: 7.93, 8: 60.8, 16: 122.24}, 16: {1: 8.28, 8: 64.64, 16: 129.28}}
    efficiency = [100 * r[p] / (p * r[1]) for r in rates.values() for p in (8, 16)]
    assert [round(e, 1) for e in efficiency] == [95.8, 96.3, 97.6, 97.6]
    assert 24.5 / 1.62 == pytest.approx(15.1, abs=0.05)
    assert (140_000 // 2_000, 8_750 // 2_000) == (70, 4)  # "includes evaluation every 2000 iterations"
    assert (24.5 + 3) / (1.62 + 3 * 4 / 70) == pytest.approx(15.35, abs=0.005)  # validation on one GPU
    assert (24.5 + 3) / (1.62 + 3) == pytest.approx(5.95, abs=0.005)  # with as many evaluations as on one GPU
    assert 140_000 * 5 == 43_750 * 16  # every run sees the same number of images


def test_nowcasting_proportions():
    hours = [13, 4, 24, 10 / 3600]
    parts = [100 * h / sum(hours) for h in hours]
    assert [round(p) for p in parts] == [32, 10, 59, 0]  # the slide: 32, 10, 58, 0


def test_nowcasting_scales():
    rates = {1: 25.8, 2: 51.6, 4: 102.7, 8: 205.4, 16: 410.5}
    assert [round(r / (p * 25.8), 3) for p, r in rates.items()] == [1.0, 1.0, 0.995, 0.995, 0.994]


def test_nowcasting_pipeline_is_bound_by_its_rest():
    """Does Amdahl's law give the slide's speed-ups from its rounded shares, and slightly higher ones from its
    hours?
    """
    left = 0.58 / (16 * 0.994) + 0.42
    assert round(100 * left, 2) == 45.65
    assert 1 / left == pytest.approx(2.19, abs=0.005) and 1 / 0.42 == pytest.approx(2.38, abs=0.005)
    hours = 17 + 24 / (16 * 0.994)
    assert hours / 41 == pytest.approx(0.451, abs=0.0005) and 41 / hours == pytest.approx(2.22, abs=0.005)
    assert 41 / 17 == pytest.approx(2.41, abs=0.005)


def test_horovod_on_128_gpus():
    """Do efficiencies of 88% and 50% on 128 GPUs correspond to 113 and 64 GPUs?"""
    assert round(0.88 * 128) == 113 and 128 / 2 == 64


def test_open_images_an_image():
    """Do 12 million boxes and 500 GB for 1.7 million images make 7 boxes and 294 kB per image?"""
    assert round(12e6 / 1.7e6) == 7
    assert 500e9 / 1.7e6 / 1000 == pytest.approx(294, abs=0.5)  # kB


def test_pfdet_lost_by_so_little():
    assert 0.58657 - 0.58634 == pytest.approx(0.00023)
    assert (0.58657 - 0.58634) / 0.58657 == pytest.approx(0.00039, abs=5e-6)


def test_pflops_of_mn_1b():
    """Do 112 and 125 TFLOPS per V100 explain the two decks' different totals for 512 V100s?"""
    assert 512 * 112 / 1000 == pytest.approx(57.3, abs=0.05)
    assert 512 * 125 / 1000 == 64


def test_cartesius():
    """Do the numbers of cores and GPUs explain Cartesius' totals? A K40m has 960 double-precision units with
    2 FLOPs per cycle at 0.875 GHz.
    """
    assert 1_327_000 / 40_960 == pytest.approx(32.4, abs=0.05)
    assert 210 / (64 * 2) == pytest.approx(1.64, abs=0.005)
    assert 960 * 2 * 0.875 / 1000 == pytest.approx(1.68)
    assert 2880 * 2 * 0.745 / 1000 == pytest.approx(4.29, abs=0.005)  # in single precision


def test_pflops_of_mn_1a_and_mn_2():
    assert 1024 * 18.7 / 1000 == pytest.approx(19.1, abs=0.1)
    assert 1024 * 9.3 / 1000 == pytest.approx(9.5, abs=0.05)  # deck 000 says 9.3
    assert 128 * 8 * 125 / 1000 == 128


def test_tensor_cores_of_a_v100():
    """Do 640 Tensor Cores with 4 × 4 × 4 multiply-adds per cycle make 125 TFLOPS at 1.53 GHz, and 5,120
    ordinary cores with one multiply-add per cycle 15.7?
    """
    assert 640 * 4**3 * 2 * 1.53e9 == pytest.approx(125e12, rel=0.01)
    assert 5120 * 2 * 1.53e9 == pytest.approx(15.7e12, rel=0.01)


def test_sizes_of_the_sets_in_deck_003():
    """Does the deck count MNIST's training images but all of CIFAR-10, and does its number for ILSVRC 2012
    match no combination of that set's parts?"""
    # all of CIFAR-10; MNIST has 60,000 images for training and 10,000 for testing
    assert 50_000 + 10_000 == 60_000
    parts = [1_281_167, 50_000, 100_000]  # for training, validation and testing
    sums = [sum(parts[:n]) for n in (1, 2, 3)]
    assert all(abs(n / 1.58e6 - 1) > 0.09 for n in sums)


def test_one_pair_of_the_fine_tuning_table_compares():
    """Do only two rows of the fine-tuning table (data, GPUs, accuracy in %, minutes) have the same data and
    number of GPUs? They differ in the model."""
    rows = [("CIFAR10", 4, 95.65, 51), ("CIFAR100", 2, 80.33, 124), ("Bangla", 2, 99.15, 29)]
    rows += [("Bangla", 2, 99.47, 7), ("Bangla-aug", 4, 99.73, 160), ("MNIST", 2, 99.44, 168)]
    rows += [("ICDAR", 2, 95.28, 2344)]
    same = {key: n for key, n in Counter(row[:2] for row in rows).items() if n > 1}
    assert same == {("Bangla", 2): 2}
    (small, slow), (large, fast) = [row[2:] for row in rows if row[:2] == ("Bangla", 2)]
    assert (100 - small) / (100 - large) == pytest.approx(1.6, abs=0.01) and slow / fast > 4


def test_augmentations_multiply():
    """Do all combinations of the six augmentations make about 10^17 images of one photograph?"""
    assert 68_920 * 1_960 * 260 * 20 * 2 * 289**2 == pytest.approx(1.2e17, rel=0.03)
