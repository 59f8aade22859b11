"""Checkpoints for a student's own loop, in any framework: the state needed to resume after an interruption.

    from cluster.training import checkpoint

    def train(steps):
        state = checkpoint.load() or {"step": 0, "w": np.zeros(10)}
        for step in range(state["step"], steps):
            state["w"] = ...
            if step % 100 == 99:
                checkpoint.save(step=step + 1, w=state["w"])

    submit(train, 1000, requeue=True)

A checkpoint is one file, written under a temporary name and renamed. After a kill at any moment, the previous
one is therefore still complete. The course's own training saves its checkpoints in `Ranks`
(cluster.training.distributed).
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from cluster.jobs.metrics import run_folder
from cluster.jobs.run.encoding import pack, unpack
from cluster.system import files, settings


def save(name: str = "checkpoint", /, **state: Any) -> None:
    """Write `state` into the job's folder on rank 0; on other ranks, and outside a job, do nothing.

    The values are numbers, strings, arrays, containers of these, and the other kinds of a job's result (see
    `cluster.jobs.run.encoding`), including a random number generator's state, `rng.bit_generator.state`.
    Raises ResultError with the location of any other value.
    """
    if settings.text("CLUSTER_JOB") and settings.text("CLUSTER_RANK") == "0":
        write_checkpoint(run_folder() / f"{name}.npz", state)


def load(name: str = "checkpoint", /) -> dict[str, Any] | None:
    """Return what this run last saved, in this attempt or an earlier one, as a dictionary, or None.

    All ranks read what rank 0 wrote. Outside a job it returns None, so a function that is only tried out
    starts from the beginning. Raises numpy.load's errors (OSError, ValueError, zipfile.BadZipFile) for a file
    that was not written by `save`.
    """
    return read_checkpoint(run_folder() / f"{name}.npz") if settings.text("CLUSTER_JOB") else None


def write_checkpoint(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write a dictionary of plain values and arrays to a file (.npz) atomically.

    Raises ResultError for a value that `save` does not support, OSError if the file cannot be written.
    """
    arrays: dict[str, np.ndarray]
    path, arrays = Path(path), {}
    text = json.dumps(pack(state, "the checkpoint", arrays))
    with files.writing(path, sync=True) as f:
        np.savez(f, json=np.frombuffer(text.encode(), np.uint8), **arrays)


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the dictionary written by `write_checkpoint`, or None if there is no such file."""
    try:
        with np.load(path, allow_pickle=False) as z:
            arrays = {k: z[k] for k in z.files}
    except FileNotFoundError:
        return None
    return unpack(json.loads(arrays.pop("json").tobytes()), arrays)
