"""Lecture 05: its speed-up laws, bytes sent and efficiency factors are correct, and its tour of Slurm is the
recorded one.
"""

import re

import numpy as np
import pandas as pd
import pytest

from cluster.network import Network, simulate

from .definitions import RUNS, defined, recorded

SCRIPT = RUNS / "05_slurm_tour.py"
SETTINGS = {
    "P100_MINUTES", "M40_DAYS", "H100_HOURS", "hours", "costs", "IMAGES", "M40_PEAK", "RESNET", "training",
    "PIPELINE", "RATES", "whole", "serial", "KITTI", "each", "numbers", "WEAK", "HOW", "ALEXNET", "ALEX",
    "NODES", "n",
}  # fmt: skip


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; no jobs are run, and nothing is drawn."""
    return defined("05", SETTINGS, palette=[])


@pytest.fixture(scope="module")
def tour():
    return recorded("05_slurm_tour")


def test_the_rain_forecast(lecture):
    """With 13 + 4 hours of serial work, is the rain forecast's speed-up 2.22 on 16 GPUs and at most 2.41 on
    any number? Is it 9.75 on 16 GPUs with 16 times the data?
    """
    serial, whole = lecture["serial"], lecture["whole"]
    trained = 24 * lecture["RATES"][1] / lecture["RATES"][16]
    assert serial == pytest.approx(17, abs=0.01) and whole == pytest.approx(41, abs=0.01)
    assert whole / (serial + trained) == pytest.approx(2.22, abs=0.005)
    assert whole / serial == pytest.approx(2.41, abs=0.005)
    assert (17 + 24 * 16) / (17 + 16 * trained) == pytest.approx(9.75, abs=0.005)


def test_kittibox_is_counted_in_two_ways(lecture):
    """Is KittiBox's speed-up on 16 GPUs 15.35 if they run 4 validations instead of 70, and 5.95 if they run
    all 70?
    """
    assert lecture["numbers"] == {"by steps": [70, 8, 4], "by images": [70, 70, 70]}
    hours = {
        name: 1.62 + lecture["each"] * validations[-1] for name, validations in lecture["numbers"].items()
    }
    assert 27.5 / hours["by steps"] == pytest.approx(15.35, abs=0.005)
    assert 27.5 / hours["by images"] == pytest.approx(5.95, abs=0.005)


def test_gpu_hours(lecture):
    """Do eight GPUs for two days make 384 GPU-hours? Did Llama 3.1 405B take 17% more GPU-hours than its
    FLOPs need at 400 TFLOP/s per GPU?
    """
    costs = lecture["costs"]
    assert costs["M40", "ResNet-50"] == 384 and costs["P100", "ResNet-50"] == pytest.approx(147.2, abs=0.05)
    assert costs["H100", "Llama 3.1 405B"] * 3600 * 400e12 == pytest.approx(1.17 * 3.8e25, rel=0.002)
    assert costs.index[0] == ("P100", "NCF") and len(costs) == 13


def test_resnet_50_in_two_days(lecture):
    """Does training ResNet-50 for 90 epochs in two days use a quarter to a third of the peak of eight M40s? A
    forward pass has 3.9e9 multiply-adds per image (He et al. give 3.8e9), and training takes six FLOPs for
    each.
    """
    assert lecture["RESNET"]["weights"] == 25_583_592
    assert lecture["RESNET"]["multiply-adds"] == pytest.approx(3.9e9, rel=0.02)
    share = lecture["training"] / (8 * lecture["M40_PEAK"] * 2 * 86400)
    assert 0.25 < share < 0.33


@pytest.mark.parametrize("p", [2, 4, 8])
def test_a_pair_that_is_divided_is_the_whole_pair(lecture, p):
    """Does a pair of layers that is split over p ranks give the same outputs and input gradients? Does each
    rank send 2 (p - 1)/p times the bytes of both together?
    """
    rng = np.random.default_rng(p)
    x, w1, w2, g = (rng.standard_normal(shape) for shape in ((8, 6), (6, 24), (24, 10), (8, 10)))
    run = simulate(lecture["split_pair"], x, w1, w2, g, ranks=p, network=Network(1e-6, 1e-9))
    hidden = x @ w1
    for y, dx in run.results:
        assert np.allclose(y, np.maximum(hidden, 0) @ w2)
        assert np.allclose(dx, (g @ w2.T * (hidden > 0)) @ w1.T)
    assert {count.bytes_sent for count in run.counts} == {2 * (p - 1) * (x.nbytes + g.nbytes) // p}


def test_alexnet_by_hand(lecture):
    """Does AlexNet have 62.4 million weights? Is splitting worthwhile for fc6 below 4,096 images, and for
    conv5 below k²K/HW = 13.6 images?
    """
    table = lecture["ALEXNET"]
    # Krizhevsky's network on one GPU, without its biases
    assert table["weights"].sum() == 62_378_344 - 10_568
    assert table.loc["fc6", "cut if N <"] == 4096
    assert table.loc["conv5", "cut if N <"] == pytest.approx(9 * 256 / 13**2)
    assert lecture["ALEX"]["multiply-adds"] == pytest.approx(1.13e9, rel=0.01)


def test_what_a_step_sends(lecture):
    """On 2 ranks, does each send 4 bytes for each of fc8's 4,096,000 gradients, or 4 · 4096 bytes per image
    if fc8 is split?
    """
    sent = lecture["sent"]
    assert sent(2, 10, [])["fc8"] == 4 * 4096 * 1000
    assert sent(2, 10, ["fc8"])["fc8"] == 4 * 4096 * 10
    assert sent(2, 10, ["conv1"])["conv1"] == 0  # its inputs are images
    assert sent(1, 10, ["fc8"]).sum() == 0  # there is no other rank
    mixed = sent(4, 512, ["fc6", "fc7", "fc8"]).sum()
    assert sent(4, 512, []).sum() / mixed == pytest.approx(5, abs=0.1)  # the text's factor
    assert sent(4, 512, lecture["ALEXNET"].index).sum() / mixed == pytest.approx(10.5, abs=0.1)


def test_factors_by_hand(lecture):
    """For invented times of two ranks, do the factors use the slower rank's time, and is their product the
    efficiency?
    """
    strong, weak, base = lecture["STRONG"] // 2, lecture["WEAK"], lecture["STRONG"]
    times = {  # name: (alone, apart, together) of rank 0; rank 1 takes a quarter longer
        "memory": (2, 4),
        weak: (10, 12, 16), strong: (18, 20, 24), base: (32, 40, 48),
    }  # fmt: skip
    rows = [
        {"what": what, "how": how, "turn": 1, "ms": ms * factor}
        for what, values in times.items()
        for how, ms in zip(("alone", "apart", "together"), values, strict=False)
        for factor in ((1.0,) if how == "alone" else (1.0, 1.25))
    ]
    results = {name: float(v.iloc[0]) for name, v in lecture["factors"](pd.DataFrame(rows), 2).items()}
    assert results["memory"] == 2 / 5
    assert results["weak: all factors"] == 10 / 20 and results["strong: all factors"] == 32 / (2 * 30)
    product = results["weak: one machine"] * results["weak: exchange"]
    assert product == pytest.approx(results["weak: all factors"])
    parts = ("strong: a smaller batch", "strong: one machine", "strong: exchange")
    assert np.prod([results[name] for name in parts]) == pytest.approx(results["strong: all factors"])


def test_tour_shows_each_reason_that_the_lecture_explains(tour):
    outputs = {name: answer["output"] for name, answer in tour["answers"].items()}
    assert all(reason in outputs["squeue, full"] for reason in ("(Resources)", "(Priority)", "(Dependency)"))
    assert "(JobArrayTaskLimit)" in outputs["squeue, array"]
    assert re.search(r"\((PartitionConfig|PartitionNodeLimit)\)", outputs["squeue, never"])
    assert "(PartitionTimeLimit)" in outputs["squeue, never"]
    assert "NumNodes=5" in outputs["scontrol, never"] and "JobState=PENDING" in outputs["scontrol, never"]


def test_tour_two_requests_are_refused_and_two_wait_for_ever(tour):
    outputs = {
        name: answer["output"] for name, answer in tour["answers"].items() if name.startswith("sbatch")
    }
    accepted = {name for name, output in outputs.items() if output.startswith("Submitted batch job")}
    assert accepted == {"sbatch, nodes", "sbatch, time"} and len(outputs) == 4
    assert all("error" in outputs[name] for name in outputs.keys() - accepted)
    assert "nodes=5" in tour["never"]["before"]["error"] and "4" in tour["never"]["before"]["error"]
    assert re.search("PartitionConfig|PartitionNodeLimit", tour["never"]["after"]["error"])


def test_tour_the_first_job_had_what_it_was_given(tour):
    """Did the first job have four ranks on two nodes? Do the losses of the job array follow their formula?"""
    ranks = tour["first"]["results"]
    assert sorted(r["rank"] for r in ranks) == [0, 1, 2, 3] and {r["of"] for r in ranks} == {4}
    assert len({r["node"] for r in ranks}) == 2
    # one core was requested, but nothing pins the ranks, as the text explains
    assert {r["cores"] for r in ranks} == {2}
    table = tour["sweep"]["table"]
    expected = [5 * (1 - 10 * rate) ** 40 for rate in tour["sweep"]["items"]]
    assert table["loss"] == pytest.approx(expected) and set(table["status"]) == {"done"}


def test_tour_a_gpu_for_each_rank(tour):
    """Did four ranks on two nodes each report a GPU, and was the job completed?"""
    seen = re.findall(r"rank (\d) of 4 on (node\d): GPU (\d)", tour["gpu"]["output"])
    assert [rank for rank, _, _ in seen] == list("0123") and len({node for _, node, _ in seen}) == 2
    assert "COMPLETED" in tour["answers"]["sacct, GPUs"]["output"]
