"""Train the matched variants of lecture 08 and record them: python lectures/runs/08_large_batches.py

The base script is 08_large_batches/train.py. Each variant in VARIANTS differs from its parent in one line,
and is trained with five seeds. SWEEP lists those of the curves of error against learning rate. The runs are a
sweep of jobs, one at a time, each with one thread. Runs in the run log are not repeated, so this script can
be interrupted.

The record, 08_large_batches.json, contains for each run its key (the hash of code, arguments and resources),
the hash of its script, versions with the commit, machine, date, the losses of its updates and its test
errors. 08_large_batches.npz contains the trained weights of some runs, as float16. Both files are replaced
atomically at the end. With --only, the other runs are kept if their scripts have not changed.
"""

import argparse
import json
import pathlib
import tempfile

import numpy as np

from cluster import jobs
from cluster.jobs.run import provenance

HERE = pathlib.Path(__file__).parent
SCRIPT = HERE / "08_large_batches" / "train.py"
GRADUAL = "return B + (B * k - B) * min(1, t / W)  # <-"
VARIANTS = {  # name: parent, a line of it, the replacement
    "plain": (None, "", ""),
    "linear": ("plain", "return B  # <-", "return B * k  # <-"),
    "sqrt": ("plain", "return B  # <-", "return B * k**0.5  # <-"),
    "constant": ("linear", "return B * k  # <-", "return B if t < W else B * k  # <-"),
    "gradual": ("linear", "return B * k  # <-", GRADUAL),
    "LARS": (
        "gradual",
        "return g  # <-",
        "return g if len(w.shape) == 1 else 0.001 * tf.norm(w) / tf.norm(g) * g  # <-",
    ),
    "gamma 0": ("gradual", "GAMMA = 1.0  # <-", "GAMMA = 0.0  # <-"),
    "uncorrected": ("gradual", "momentum = 0.9 * eta / last  # <-", "momentum = 0.9  # <-"),
    "shuffles": (
        "gradual",
        "order = rng.permutation(N)  # <-",
        "order = np.concatenate([rng.permutation(N)[: N // k] for _ in range(k)])  # <-",
    ),
    "sqrt, gradual": ("gradual", GRADUAL, GRADUAL.replace("B * k ", "B * k**0.5 ")),
}
FACTORS = {f"reach {f}": f for f in (2, 4, 8, 16, 32, 64)}  # variant: learning rate after warmup / B
VARIANTS |= {v: ("gradual", GRADUAL, GRADUAL.replace("B * k ", f"B * {f} ")) for v, f in FACTORS.items()}
PARTS = {f"rate 1/{d}": 1 / d for d in (2, 4, 8)}  # learning rates below B need no warmup
VARIANTS |= {v: ("plain", "return B  # <-", f"return B * {f}  # <-") for v, f in PARTS.items()}
LARGE = ("plain", "linear", "sqrt", "constant", "gradual", "LARS", "gamma 0", "uncorrected", "shuffles")
RUNS = [  # variant, ranks; five seeds each
    ("plain", 1),
    *((name, 32) for name in LARGE),
    ("gradual", 8),
    ("gradual", 128),
    ("plain", 8),
    ("sqrt, gradual", 32),
    ("sqrt", 8),
    ("linear", 8),
]
RATES = {1: "plain"} | {f: name for name, f in (PARTS | FACTORS).items()}
SWEEP = {  # ranks: {maximum learning rate / B: variant}, seven of each
    1: {f: RATES[f] for f in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)},
    8: {f: RATES[f] for f in (1 / 2, 1, 2, 4, 16, 32)} | {8: "gradual"},
    32: {f: RATES[f] for f in (1, 2, 4, 8, 16)} | {32**0.5: "sqrt, gradual", 32: "gradual"},
    128: {f: RATES[f] for f in (2, 4, 8, 16, 32, 64)} | {128: "gradual"},
}
RUNS += [(name, k) for k, rates in SWEEP.items() for name in rates.values() if (name, k) not in RUNS]
SEEDS = [0, 1, 2, 3, 4]
KEPT = {("plain", 1), ("plain", 32), ("linear", 32), ("gradual", 32)}  # runs whose weights are recorded


def script(name):
    """Return the source of a variant: its parent's with one line replaced."""
    parent, old, new = VARIANTS[name]
    if parent is None:
        return SCRIPT.read_text()
    text = script(parent)
    if text.count(old) != 1:
        raise ValueError(f"variant {name!r}: the line {old!r} is {text.count(old)} times in {parent!r}")
    return text.replace(old, new)


def load(variant, k=1, seed=0):
    """Return the names defined by a variant's script, outside a job; calling its main() trains."""
    import linecache
    import sys

    text, file = script(variant), f"train.py of {variant}, k = {k}, seed {seed}"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # where TensorFlow reads it
    sys.argv = ["train.py", str(k), str(seed)]
    names = {"__name__": "train"}
    exec(compile(text, file, "exec"), names)
    names["log"] = lambda **numbers: None
    return names


def reader(record):
    """Return a function of column, variant and k that returns the values of five recorded runs, (5, ...)."""
    runs = sorted(record["runs"], key=lambda run: run["seed"])

    def results(column, variant, k):
        some = [run[column] for run in runs if (run["variant"], run["k"]) == (variant, k)]
        return np.array(some, float)

    machines = sorted({run["machine"]["cpu"] for run in runs})
    days = sorted({run["submitted"][:10] for run in runs})
    print(f"RECORDED RUNS: {len(runs)} jobs of {' and '.join(days)} on {' and '.join(machines)};")
    print("`make experiments RUN=08` repeats them")
    return results


def experiment(item):
    """Make one run: the item's script with its k and seed."""
    import sys

    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    sys.argv = ["train.py", str(item["k"]), str(item["seed"])]
    names = {"__name__": "train"}
    exec(compile(item["script"], "train.py", "exec"), names)
    losses, errors, weights = names["main"]()
    whole = max(1, len(losses) // 120)  # at most 120 numbers: means over equally many updates
    losses = np.reshape(losses, (-1, whole)).mean(1)
    return {
        "updates": len(losses) * whole,
        "losses": [round(float(v), 5) if np.isfinite(v) else None for v in losses],
        "errors": errors,  # test errors after each epoch, in percent
        "weights": {str(i): w.astype("float16") for i, w in enumerate(weights)},
    }


def write(path, save):
    """Replace a file atomically; `save` writes to the open temporary file."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        save(file)
    pathlib.Path(file.name).chmod(0o644)
    pathlib.Path(file.name).rename(path)


def key_of(run):
    """Return what identifies a run: its variant, ranks and seed."""
    return run["variant"], run["k"], run["seed"]


def recorded(out, wanted):
    """Return runs and weights of the record at `out` that are in `wanted` (key: item), with equal scripts."""
    runs = {key_of(run): run for run in json.loads(out.read_text())["runs"]}
    for key, run in runs.items():
        if key in wanted and run["script"] != provenance.code_digest(wanted[key]["script"]):
            raise ValueError(f"{out}: run {key} is of another script; make it again: leave out --only")
    with np.load(out.with_suffix(".npz")) as file:
        weights = {name: file[name] for name in file.files}
    return {key: run for key, run in runs.items() if key in wanted}, weights


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--only", nargs="+", default=[], help='make these, as "plain 1"; keep the others')
    parser.add_argument("--parallel", type=int, default=1, help="jobs at the same time (default 1)")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "08_large_batches.json")
    arguments = parser.parse_args()
    wanted = {
        (name, k, seed): {"variant": name, "k": k, "seed": seed, "script": script(name)}
        for name, k in RUNS
        for seed in SEEDS
    }
    runs, weights = recorded(arguments.out, wanted) if arguments.only else ({}, {})
    items = [
        item for (name, k, _), item in wanted.items() if not arguments.only or f"{name} {k}" in arguments.only
    ]
    options = {"backend": "local", "time": "00:20:00", "memory": "3G", "name": "08-large-batches"}
    sweep = jobs.map(experiment, items, max_parallel=arguments.parallel, **options)
    for item, job, result in zip(items, sweep, sweep.results(), strict=True):
        key = key_of(item)
        run = dict(zip(("variant", "k", "seed"), key, strict=True)) | {
            "script": provenance.code_digest(item["script"])
        }
        run |= {name: result[name] for name in ("updates", "losses", "errors")}
        runs[key] = run | {name: job.spec[name] for name in ("key", "submitted", "versions", "machine")}
        if key[:2] in KEPT:
            prefix = " ".join(map(str, key))
            weights |= {f"{prefix} {i}": w for i, w in result["weights"].items()}
    command = "python lectures/runs/08_large_batches.py"
    record = {"seeds": SEEDS, "command": command, "runs": [runs[key] for key in wanted]}
    write(arguments.out.with_suffix(".npz"), lambda f: np.savez_compressed(f, **weights))
    write(arguments.out, lambda f: f.write((json.dumps(record, indent=1) + "\n").encode()))
    print(f"{arguments.out}: {len(items)} runs made, {len(wanted) - len(items)} kept")


if __name__ == "__main__":
    main()
