"""Record Horovod's own timeline of ResNet-50 on two ranks: python lectures/runs/06_timeline.py

Two ranks on one machine compute gradients of Keras' ResNet-50 for a few small images, and reduce its 214
tensors with Horovod and Gloo. 06_timeline.json contains

    passes      for each rank, seconds of the forward pass, and of forward and backward, without all-reduces
    sizes       [bytes of a tensor, seconds of Horovod's all-reduce of it]
    steps       on rank 0, in seconds since the step began: {tensor: when it was submitted to Horovod}, and
                Horovod's all-reduces, [start, end, number of tensors, bytes]

and the job's key, command, versions, machine and date, with the SHA-256 of this script. A job in the run log
is not repeated. The script takes three minutes on two idle cores.
"""

import argparse
import json
import pathlib
import re
import time

import numpy as np

from cluster import submit
from cluster.jobs.run import provenance
from cluster.jobs.run.run_folder import RunFolder

HERE = pathlib.Path(__file__).parent
SIDE, IMAGES, STEPS = 64, 4, 24  # pixels, images per rank and step
SIZES = [2**k for k in range(10, 28, 2)]  # bytes; all gradients together are 102 MB
REPEATS = 7


def train():
    """Return on each rank: seconds of the passes and all-reduces, and start and end of each step."""
    import horovod.tensorflow as hvd
    import keras
    import tensorflow as tf

    hvd.init()
    model = keras.applications.ResNet50(weights=None, input_shape=(SIDE, SIDE, 3))
    values = [v.value for v in model.trainable_variables]
    x = tf.random.stateless_normal((IMAGES, SIDE, SIDE, 3), [6, hvd.rank()])
    y = tf.range(IMAGES)

    def loss():
        return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x, training=True)))

    def gradients():
        with tf.GradientTape() as tape:
            value = loss()
        return tape.gradient(value, values)

    def reduced():
        return [hvd.allreduce(g, op=hvd.Sum, name=f"g{i:03}") for i, g in enumerate(gradients())]

    found = {"passes": [], "sizes": [], "steps": []}
    calls = {f.__name__: tf.function(f) for f in (loss, gradients, reduced)}
    for turn in range(STEPS + 1):  # the first call compiles
        for name, call in calls.items():
            hvd.allreduce(tf.constant(0.0), name="meet")
            start = time.time()
            tf.nest.map_structure(lambda t: t.numpy(), call()[-1] if name != "loss" else call())
            end = time.time()
            if turn and name == "reduced":
                found["steps"].append([start, end])
            elif turn:
                found["passes"].append([name, end - start])
    for size in SIZES * REPEATS:
        tensor = tf.ones(size // 4)
        hvd.allreduce(tf.constant(0.0), name="meet")
        start = time.time()
        hvd.allreduce(tensor, op=hvd.Sum, name=f"s{size}").numpy()
        found["sizes"].append([size, time.time() - start])
    return found


def events(folder):
    """Return [(tensor, time of its submission, start and end of its exchange)], in Unix seconds."""
    text = RunFolder(folder).timeline.read_text()
    found, names, open_ = [], {}, {}
    for e in json.loads(text):
        if e.get("name") == "process_name" and "name" in e["args"]:
            names[e["pid"]] = e["args"]["name"]
        elif "start_time_since_epoch_in_micros" in e.get("args", {}):
            begin = e["args"]["start_time_since_epoch_in_micros"]
        tensor = re.search(r"\bg(\d{3})\b", names.get(e["pid"], ""))
        if not tensor or "ts" not in e:
            continue
        at, state = (begin + e["ts"]) / 1e6, open_.setdefault(e["pid"], {"depth": 0})
        if e["ph"] == "X" and e.get("name") == "0":  # rank 0 reported that it is ready
            state["ready"] = at
        elif e["ph"] == "B":
            if not e["name"].startswith("NEGOTIATE") and state["depth"] == 0:
                state["start"] = at
            state["depth"] += 1
        elif e["ph"] == "E":
            state["depth"] -= 1
            if state["depth"] == 0 and "start" in state:
                found.append((int(tensor[1]), state["ready"], state["start"], at))
                del open_[e["pid"]]
    return found


def exchanges(rows, sizes):
    """Return [[start, end, tensors, bytes]]; tensors whose operations overlap were fused."""
    together = []
    for tensor, _, start, end in sorted(rows, key=lambda row: row[2]):
        if together and start < together[-1][1]:
            last = together[-1]
            together[-1] = [last[0], max(last[1], end), last[2] + 1, last[3] + sizes[tensor]]
        else:
            together.append([start, end, 1, sizes[tensor]])
    return together


def main():
    from cluster.network import resnet50

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "06_timeline.json")
    out = parser.parse_args().out
    sizes = [resnet50.BYTES * t.parameters for t in resnet50.tensors()]
    job = submit(
        train,
        name="06-timeline",
        backend="local",
        ranks_per_node=2,
        time="00:30:00",
        memory="4G",
        timeline=True,
    )
    results, handed = job.results(progress=False), events(job.folder)
    record = {k: job.spec[k] for k in ("key", "command", "submitted", "versions", "machine")}
    record["script"] = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record["settings"] = {"side": SIDE, "images": IMAGES, "steps": STEPS}
    record["passes"] = [found["passes"] for found in results]
    record["sizes"] = np.max([found["sizes"] for found in results], axis=0).tolist()
    record["steps"] = []
    for start, end in results[0]["steps"]:
        rows = [row for row in handed if start <= row[1] <= end]
        ready = {row[0]: row[1] - start for row in rows}
        if len(ready) != len(rows) or ready.keys() != {row[0] for row in handed}:
            raise ValueError(f"{len(rows)} tensors in a step, other than in others: is the timeline whole?")
        groups = [[a - start, b - start, n, size] for a, b, n, size in exchanges(rows, sizes)]
        step = {"seconds": end - start, "ready": ready, "exchanges": groups}
        record["steps"].append(step)
    beside = out.with_name(f".{out.name}.tmp")
    beside.write_text(json.dumps(record) + "\n", encoding="utf-8")
    beside.rename(out)
    print(f"{out}: {len(record['steps'])} steps")


if __name__ == "__main__":
    main()
