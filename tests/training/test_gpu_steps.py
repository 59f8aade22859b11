"""The training steps of `doctor --gpu`: the job itself, run here on CPUs, and the findings on its results."""

import copy
import os

import pytest

from cluster.doctor import gpu_steps
from cluster.doctor.findings import Report
from cluster.jobs import submit


def seen(xla=True, factor=1.0, **settings):
    """Return the results of two ranks. `factor`: the seconds of Horovod's steps divided by the seconds of
    Keras alone.
    """
    settings = {
        "TF32": True,
        "compute capability": [9, 0],
        "NCCL": 22105,
        "batch": 100,
        "device": "GPU",
    } | settings
    steps = [
        {"network": network, "way": way, "seconds": 0.01 * (factor if way != gpu_steps.ALONE else 1),
         "xla": xla and way == gpu_steps.ALONE, "device": "GPU", "finite": True}
        for network in gpu_steps.NETWORKS
        for way in (gpu_steps.TAPE, gpu_steps.ALONE, gpu_steps.PARALLEL)
    ]  # fmt: skip
    return [{"settings": settings, "steps": copy.deepcopy(steps)} for _ in range(2)]


@pytest.mark.parametrize(
    ("found", "subject", "mark", "message"),
    [
        (seen(), "training step", "ok", "ran on the GPU"),
        (seen(), "XLA", "ok", "1.0 times as long"),
        (seen(factor=1.5), "XLA", "warn", "1.5 times as long"),
        (seen(xla=False), "XLA", "warn", "Keras does not use it"),
        (seen(), "TF32", "ok", "used"),
        (seen(TF32=False), "TF32", "warn", "turned off"),
        (seen(**{"compute capability": [7, 0]}), "TF32", "warn", "has no TF32"),
        (seen(NCCL=0), "gradients", "warn", "no NCCL"),
        (seen(device="TPU"), "training step", "bad", "not on the TPU"),
    ],
)
def test_what_is_said_of_the_steps(found, subject, mark, message):
    """Does the report have the expected finding for each result? Unless all is well, does it name a solution
    for both the student and the administrator?"""
    report = Report()
    gpu_steps.judge(report, found)
    item = report.item(subject)
    assert item.mark == mark and message in item.finding
    assert bool(item.student) == bool(item.administrator) == (mark != "ok")


def test_a_loss_that_is_not_finite_is_a_fault():
    """Is a loss that is not finite reported as a fault, on any rank?"""
    found, report = seen(), Report()
    found[1]["steps"][0]["finite"] = False
    gpu_steps.judge(report, found)
    assert not report.ok and "not finite" in report.item("training step").finding


def test_the_table_counts_the_images_of_all_ranks():
    """Does the table count the images of all ranks: with 100 per rank in 10 ms, 20,000 images/s on two ranks
    and 10,000 on one?"""
    rows = [line.split() for line in gpu_steps.table(seen()).splitlines()]
    assert [row[-1] for row in rows[1:4]] == ["20,000", "10,000", "20,000"]


@pytest.mark.ranks
def test_the_job_itself_on_cpus(tmp_path, monkeypatch):
    """Do two ranks run all kinds of steps on CPUs, with finite losses, without seeing a GPU?"""
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path))

    def steps():
        return gpu_steps.measure(8, 2, device="CPU") | {"visible": os.environ["CUDA_VISIBLE_DEVICES"]}

    ranks = submit(steps, ranks_per_node=2, backend="local").results()
    assert len(ranks) == 2
    for rank in ranks:
        assert rank["visible"] == "-1"  # the job requested none
        assert len(rank["steps"]) == 6 and all(0 < step["seconds"] < 60 for step in rank["steps"])
        assert {step["device"] for step in rank["steps"]} == {"CPU"}
        assert all(step["finite"] for step in rank["steps"])
    assert gpu_steps.table(ranks).count("\n") == 6
