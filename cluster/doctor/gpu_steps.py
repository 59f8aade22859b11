"""The part of `python -m cluster doctor --gpu` that trains: steps like those in the jobs of units 07 and 08.

Unit 10's job computes with NumPy in virtual time, so it has no step for a GPU.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cluster.jobs.show.render import aligned

from .findings import Report

BATCH, REPEATS = 128, 20
WARM_UP = 3
NETWORKS = {"LeNet-5 (07)": "lenet5", "small ResNet (08)": "small_resnet"}
TAPE, PARALLEL, ALONE = "Horovod's tape", "DataParallel", "Keras on one rank"
GAIN = 1.2  # minimum ratio for the doctor to mention the time that XLA would save


def measure(batch: int = BATCH, repeats: int = REPEATS, device: str = "GPU") -> dict[str, Any]:
    """Take training steps of the course's networks on random images, on each rank.

    batch: images per rank and step. device: 'GPU' or 'CPU'. Returns {"settings": {name: value}, "steps":
    [{"network", "way", "seconds", "xla", "device", "finite"}]}; the ways are the loop of assignment 07, and
    Keras' `train_on_batch` with jit_compile="auto", of `DataParallel` (not in a student's copy before
    assignment 07 is over) and of a plain model. Raises RuntimeError if TensorFlow has no such device.
    """
    import horovod.tensorflow as hvd
    import keras
    import tensorflow as tf

    from cluster.training import models

    hvd.init()
    if not tf.config.list_logical_devices(device):
        raise RuntimeError(f"TensorFlow sees no {device}.")
    rng = np.random.default_rng(hvd.rank())
    x, y = rng.normal(size=(batch, 28, 28, 1)).astype(np.float32), rng.integers(0, 10, batch)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def by_tape(net: keras.Model) -> tuple[Callable[[], Any], bool]:
        optimizer = keras.optimizers.SGD(0.01)
        sources = [v.value for v in net.trainable_variables]

        @tf.function
        def update(images: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(labels, net(images, training=True))
            gradients = hvd.DistributedGradientTape(tape).gradient(loss, sources, use_generic_names=True)
            optimizer.apply(gradients, net.trainable_variables)
            return loss

        return lambda: float(update(x, y)), False

    def by_keras(model: keras.Model) -> tuple[Callable[[], Any], bool]:
        model.compile(keras.optimizers.SGD(0.01), loss_of)
        return lambda: float(model.train_on_batch(x, y)), bool(model.jit_compile)

    ways = {TAPE: by_tape, ALONE: by_keras}
    try:
        parallel = importlib.import_module("cluster.training.distributed").DataParallel
        ways[PARALLEL] = lambda net: by_keras(parallel(net.input, net.output))
    except ModuleNotFoundError:
        pass
    steps = []
    for network, name in NETWORKS.items():
        for way, prepare in ways.items():
            net = getattr(models, name)(seed=0)
            step, xla = prepare(net)
            losses = [step() for _ in range(WARM_UP)]  # the first one compiles
            seconds = []
            for _ in range(repeats):
                start = time.perf_counter()
                losses.append(step())
                seconds.append(time.perf_counter() - start)
            steps.append({
                "network": network, "way": way, "seconds": statistics.median(seconds), "xla": xla,
                "device": tf.DeviceSpec.from_string(net.trainable_variables[0].value.device).device_type,
                "finite": bool(np.isfinite(losses).all()),
            })  # fmt: skip
    capability = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
        for gpu in tf.config.get_visible_devices("GPU")
    ]
    settings = {
        "TF32": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
        "compute capability": list(capability[0]) if capability else [0, 0],
        "NCCL": int(hvd.nccl_built()),
        "batch": batch,
        "device": device,
    }
    return {"settings": settings, "steps": steps}


def table(seen: list[dict[str, Any]]) -> str:
    """Tabulate milliseconds per step, and images/s of all ranks together, for each network and way."""
    batch = seen[0]["settings"]["batch"]
    rows = [["network", "way", "XLA", "step", "images/s"]]
    for step, seconds in _slowest(seen):
        images = batch * (1 if step["way"] == ALONE else len(seen)) / seconds
        xla = "yes" if step["xla"] else "no"
        rows.append([step["network"], step["way"], xla, f"{1e3 * seconds:.2f} ms", f"{images:,.0f}"])
    return "\n".join(aligned(rows, right=True))


def _slowest(seen: list[dict[str, Any]]) -> list[tuple[dict[str, Any], float]]:
    """Return [(a step of rank 0, the seconds of the slowest rank)]."""
    of_ranks = zip(*(rank["steps"] for rank in seen), strict=True)
    return [(steps[0], max(step["seconds"] for step in steps)) for steps in of_ranks]


def judge(report: Report, seen: list[dict[str, Any]]) -> None:
    """Add the findings from the steps: whether they ran on the device, and what makes them slow."""
    settings, device = seen[0]["settings"], seen[0]["settings"]["device"]
    steps = [(f"{s['way']}, {s['network']}", s) for rank in seen for s in rank["steps"]]
    wrong = [name for name, s in steps if not s["finite"]]
    elsewhere = [f"{name}: {s['device']}" for name, s in steps if s["device"] != device]
    if wrong:
        step = "Test these GPUs: dcgmi diag -r 3."
        report.add("bad", "training step", f"the loss is not finite: {wrong[0]}", "", step)
    elif elsewhere:
        step = "Run nvidia-smi on the node. TF_CPP_MIN_LOG_LEVEL=0 shows which CUDA library is missing."
        report.add("bad", "training step", f"not on the {device}: {elsewhere[0]}", "", step)
    else:
        report.add("ok", "training step", f"{len(seen[0]['steps'])} kinds of steps ran on the {device}")
    if device != "GPU":
        return
    _judge_xla(report, seen)
    if tuple(settings["compute capability"]) < (8, 0):
        report.add("warn", "TF32", "this GPU has no TF32", "Try keras.mixed_precision: mixed_float16.",
                   "TF32 needs compute capability 8.0, an A100 or later.")  # fmt: skip
    elif not settings["TF32"]:
        report.add("warn", "TF32", "turned off: float32 products do not use Tensor Cores",
                   "tf.config.experimental.enable_tensor_float_32_execution(True)",
                   "NVIDIA_TF32_OVERRIDE=0 in the environment turns it off, too.")  # fmt: skip
    else:
        report.add("ok", "TF32", "used for float32 products and convolutions")
    if not settings["NCCL"]:
        report.add("warn", "gradients", "Horovod has no NCCL: gradients go through the host's memory", "",
                   "Run make setup GPU=1 (see cluster/staff/GPU.md).")  # fmt: skip


def _judge_xla(report: Report, seen: list[dict[str, Any]]) -> None:
    """Report the time saved by XLA, which Keras uses on a GPU for a plain model, never for DataParallel."""
    alone = {s["network"]: seconds for s, seconds in _slowest(seen) if s["way"] == ALONE and s["xla"]}
    parallel = {s["network"]: seconds for s, seconds in _slowest(seen) if s["way"] != ALONE}
    ratios = [(parallel[network] / alone[network], network) for network in alone if network in parallel]
    if not ratios:
        report.add("warn", "XLA", "Keras does not use it here", "jit_compile=True requests it.",
                   "Keras turns XLA on if TensorFlow lists a GPU, except under op determinism.")  # fmt: skip
        return
    ratio, network = max(ratios)
    finding = "not used for Horovod's steps, which it cannot compile; "
    finding += f"{network}: {ratio:.1f} times as long as on one rank"
    if ratio < GAIN:
        report.add("ok", "XLA", finding)
    else:
        report.add("warn", "XLA", finding, "The all-reduce is part of this time: a larger batch hides both.",
                   "This is expected, and not a fault of the site.")  # fmt: skip
