"""Record what real processes store and compute in lecture 11: python lectures/runs/11_sharding.py

There are three jobs, each of some seconds on an idle machine:

    memory    two processes take a training step of a ResNet of 20 layers with 64 and with 256 images, and
              read their peak of resident memory from /proc/self/status
    stages    four ranks train in each stage of ZeRO: bytes allocated by NumPy when the backward pass ends
              (tracemalloc), and a hash of all weights
    pipeline  four ranks run 1F1B; their gradients are compared bit for bit with those in virtual time

The last two use the functions of the lecture's text. The record contains the SHA-256 of this script and of
these functions. Jobs in the run log are not repeated, so an interrupted call resumes.
"""

import argparse
import ast
import datetime
import hashlib
import json
import pathlib
import tracemalloc

import jupytext
import numpy as np

from cluster import submit
from cluster.jobs.run import provenance
from cluster.network import Network, on_real_ranks, simulate

HERE = pathlib.Path(__file__).parent
TEXT = HERE.parent / "text" / "11_when_the_model_does_not_fit.py"
USED = (  # functions and settings of the lecture
    "WIDTH", "PSI", "all_gather", "reduce_scatter", "initial_weights", "gradients", "adam", "prepare",
    "train", "wait_for", "one_f_one_b", "pipeline",
)  # fmt: skip
IMAGES = (64, 256)
RANKS = 4
MPI = {"controller": "mpi", "memory": "3G"}


def used():
    """Return the source of the lecture's functions that are used here."""
    found = []
    for cell in jupytext.read(TEXT, fmt="py:percent").cells:
        for node in ast.parse(cell.source).body if cell.cell_type == "code" else ():
            targets = [
                n.id for t in getattr(node, "targets", ()) for n in ast.walk(t) if isinstance(n, ast.Name)
            ]
            if getattr(node, "name", None) in USED or set(targets) & set(USED):
                found.append(ast.unparse(node))
    return "\n\n".join(found)


def peak_of_a_step(comm, sizes):
    """Return this rank's peak in a step and stored activations per image, in bytes, and its parameters."""
    import keras

    from cluster.training import models

    model = models.small_resnet(blocks=3)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images = np.zeros((sizes[comm.rank], 28, 28, 1), np.float32)
    model.train_on_batch(images, np.zeros(len(images), int))
    kept = [layer for layer in model.layers if layer.name.startswith(("conv", "re_lu"))]
    per_image = sum(4 * int(np.prod(layer.output.shape[1:])) for layer in kept)
    status = pathlib.Path("/proc/self/status").read_text()
    kilobytes = int(status.partition("VmHWM:")[2].split()[0])
    return 1024 * kilobytes, per_image, model.count_params()


def held_in_stages(comm, train, all_gather):
    """Return, by stage, the bytes that this rank holds after the backward pass, and a hash of all weights."""
    found = []
    for stage in range(4):
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        weights, held = train(comm, stage)
        tracemalloc.stop()
        if stage == 3:
            weights = [all_gather(comm, w) for w in weights]
        found.append([held - before, hashlib.sha256(np.concatenate(weights).tobytes()).hexdigest()])
    return found


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "11_sharding.json")
    parser.add_argument("--only", choices=("memory", "stages", "pipeline"), help="one job, and no record")
    arguments = parser.parse_args()
    source, names = used(), {"__name__": "__main__", "np": np, "tracemalloc": tracemalloc}
    exec(source, names)
    batches = list(np.random.default_rng(0).standard_normal((8, 4, 32)))
    pipelined = (names["pipeline"], names["one_f_one_b"], batches, 0.0)
    jobs = {
        "memory": lambda: submit(on_real_ranks, peak_of_a_step, IMAGES, ranks_per_node=2, **MPI),
        "stages": lambda: submit(
            on_real_ranks, held_in_stages, names["train"], names["all_gather"], ranks_per_node=RANKS, **MPI
        ),
        "pipeline": lambda: submit(on_real_ranks, *pipelined, ranks_per_node=RANKS, **MPI),
    }
    if arguments.only:
        jobs[arguments.only]().results()
        return
    found = {name: job().results() for name, job in jobs.items()}
    virtual = simulate(*pipelined, ranks=RANKS, network=Network(0, 0)).results
    record = {
        "command": "python lectures/runs/11_sharding.py",
        "script": provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8")),
        "lecture": provenance.code_digest(source),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": provenance.machine(),
        "versions": provenance.versions(),
        "memory": [
            {"images": n, "peak": peak, "stored": stored, "parameters": parameters}
            for n, (peak, stored, parameters) in zip(IMAGES, found["memory"], strict=True)
        ],
        "stages": [[{"held": held, "hash": sha} for held, sha in rank] for rank in found["stages"]],
        "pipeline": [
            {"equal": bool(np.array_equal(real[0], v[0])), "stored": [real[1], v[1]]}
            for real, v in zip(found["pipeline"], virtual, strict=True)
        ],
    }
    beside = arguments.out.with_suffix(".tmp")
    beside.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    beside.rename(arguments.out)


if __name__ == "__main__":
    main()
