"""Checkpoints of a loop of your own: what it needs to go on where it was interrupted. Any framework will do.

    from cluster.training import checkpoint

    def train(steps):
        state = checkpoint.load() or {"step": 0, "w": np.zeros(10)}
        for step in range(state["step"], steps):
            state["w"] = ...
            if step % 100 == 99:
                checkpoint.save(step=step + 1, w=state["w"])

    submit(train, 1000, requeue=True)

A checkpoint is one file, written beside its place and renamed: after a kill at any moment the one before is
whole. The course's own training has its checkpoints in `Ranks` (cluster.training.distributed).
"""

import json
import os
from pathlib import Path

import numpy as np

from ..jobs.metrics import run_folder
from ..jobs.results import pack, unpack


def save(name="checkpoint", /, **state):
    """Rank 0 writes `state` into the job's folder; on other ranks, and outside a job, nothing happens.

    The values are numbers, texts, arrays, and lists and dictionaries of these, also the state of a generator
    of random numbers, `rng.bit_generator.state`. Raises ResultError, which says where another value is.
    """
    if os.environ.get("CLUSTER_JOB") and os.environ.get("CLUSTER_RANK") == "0":
        write(run_folder() / f"{name}.npz", state)


def load(name="checkpoint", /):
    """What this run last saved, in this attempt or an earlier one, as a dictionary; None where there is none.

    All ranks read what rank 0 wrote. Outside a job it is None: a function that is tried out begins anew.
    """
    return read(run_folder() / f"{name}.npz") if os.environ.get("CLUSTER_JOB") else None


def write(path, state):
    """Write a dictionary of plain values and arrays to a file (.npz), all of it or nothing."""
    path, arrays = Path(path), {}
    text = json.dumps(pack(state, "the checkpoint", arrays))
    beside = path.with_name(f".{path.name}")
    with open(beside, "wb") as f:
        np.savez(f, json=np.frombuffer(text.encode(), np.uint8), **arrays)
        f.flush()
        os.fsync(f.fileno())  # or a machine that fails could keep the new name and lose what it names
    beside.replace(path)


def read(path):
    """The dictionary that `write` wrote, or None where there is no such file."""
    try:
        with np.load(path, allow_pickle=False) as z:
            arrays = {k: z[k] for k in z.files}
    except FileNotFoundError:
        return None
    return unpack(json.loads(arrays.pop("json").tobytes()), arrays)
