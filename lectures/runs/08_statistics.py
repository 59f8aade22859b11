"""Separate the effects of batch norm's statistics and the learning rate: python
lectures/runs/08_statistics.py

With 128 ranks training has only 30 updates, and the moving averages of batch normalisation lag behind the
weights. This script retrains one variant of 08_large_batches.py for 128 ranks, with five seeds: that with 16
times B, at which the test errors rise steeply. It measures the errors of each network twice: with its moving
averages, and with statistics re-estimated from training images at the final weights. Errors are measured on
the test images and on held-out training images.

Each run is a job with one thread, and takes half a minute on one core. Jobs in the run log are not repeated,
so an interrupted call resumes. --only runs one of the learning rates, without a record.
"""

import argparse
import json
import pathlib
import runpy

from cluster import jobs
from cluster.jobs.run import provenance

HERE = pathlib.Path(__file__).parent
LARGE = runpy.run_path(str(HERE / "08_large_batches.py"))
K, FACTORS, SEEDS = 128, (16,), range(5)  # ranks; maximum learning rates / B
HELD_OUT, ESTIMATED = 10_000, 4_096  # numbers of held-out images, and of those for the estimates


def experiment(item):
    """Train one network; return its losses and its errors in % with both kinds of statistics."""
    import sys

    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    sys.argv = ["train.py", str(item["k"]), str(item["seed"])]
    names = {"__name__": "train"}
    exec(compile(item["script"], "train.py", "exec"), names)
    losses, _, weights = names["main"]()

    N, n, model = names["N"], names["n"], names["network"]()
    model.set_weights(weights)
    x, y = names["images"]("train", N + item["held out"])
    sets = {"held out": (x[N:], y[N:]), "test": names["images"]("test")}

    infer, look = (tf.function(lambda some, t=t: model(some, training=t)) for t in (False, True))

    def errors():
        found = {}
        for name, (images, labels) in sets.items():
            logits = np.concatenate([infer(images[i : i + 1000]) for i in range(0, len(images), 1000)])
            right = (logits.argmax(1) == labels) & np.isfinite(logits).all(1)
            found[name] = 100 * (1 - float(right.mean()))
        return found

    moving = errors()
    norms = [layer for layer in model.layers if isinstance(layer, names["RankBatchNorm"])]
    groups = []  # mean and mean square before each normalisation, for each group of n images
    for i in range(0, item["estimated"], n):
        for norm in norms:
            norm.mean.assign(0 * norm.mean)
            norm.variance.assign(0 * norm.variance)
        look(x[i : i + n])  # the moving averages are now a tenth of this group's statistics
        found = [(10 * norm.mean.numpy(), 10 * norm.variance.numpy()) for norm in norms]
        groups.append([(mean, variance + mean**2) for mean, variance in found])
    for norm, parts in zip(norms, zip(*groups, strict=True), strict=True):
        mean, square = np.mean(parts, axis=0)
        norm.mean.assign(mean)
        norm.variance.assign(square - mean**2)
    return {"losses": [round(float(v), 5) for v in losses], "moving": moving, "again": errors()}


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--only", type=int, choices=FACTORS, help="make one learning rate, without a record")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "08_statistics.json")
    arguments = parser.parse_args()
    options = {"backend": "local", "time": "00:20:00", "memory": "3G", "name": "08-statistics"}
    sizes = {"held out": HELD_OUT, "estimated": ESTIMATED}
    runs = []
    for factor in [arguments.only] if arguments.only else FACTORS:
        text = LARGE["script"](LARGE["SWEEP"][K][factor])
        items = [{"script": text, "k": K, "seed": seed} | sizes for seed in SEEDS]
        sweep = jobs.map(experiment, items, max_parallel=1, **options)
        for item, job, result in zip(items, sweep, sweep.results(), strict=True):
            run = {
                "factor": factor,
                "seed": item["seed"],
                "script": provenance.code_digest(text),
            }
            run |= {name: job.spec[name] for name in ("key", "submitted", "versions", "machine")}
            runs.append(run | result)
    if arguments.only:
        return
    script = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record = {"command": "python lectures/runs/08_statistics.py", "script": script, "ranks": K} | sizes
    beside = arguments.out.with_suffix(".tmp")
    beside.write_text(json.dumps(record | {"runs": runs}, indent=1) + "\n", encoding="utf-8")
    beside.rename(arguments.out)


if __name__ == "__main__":
    main()
