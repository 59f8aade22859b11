"""Record what Horovod Elastic does when a worker dies and another comes: python lectures/runs/10_elastic.py

Horovod sees one machine under three names (localhost, 127.0.0.1, its host name) as three hosts with one slot
each. Two workers start, and one is killed. Later, the third host appears. Each worker records the time of
each step, the number of workers, and a weight. 10_elastic.json contains {"notes", "killed", "added", "code":
None if it did not end} for two kinds of state, Horovod's `TensorFlowState` and its `ObjectState` around an
array. It also contains the error of Horovod's state for Keras models with Keras 3, the SHA-256 of this
script, the command, date, versions and machine. The script takes three minutes. `horovodrun` starts the
workers, without a job of the course.
"""

import argparse
import datetime
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

from cluster.jobs.run import provenance
from cluster.system import files

HERE = pathlib.Path(__file__).parent
STEPS, EACH, COMMIT = 120, 0.25, 5  # steps, seconds of each, steps between commits
KILL_AT, ADD_AT = 20, 50  # the step at which a worker is killed, and at which a host is added
QUIET = (
    75  # seconds without a note after which a trial is abandoned; a new worker may need half of it to start
)


def work(kind, folder):
    """Run one worker. The gradients are known, so the weights show which of them were summed."""
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf
    from horovod.common.elastic import ObjectState
    from horovod.tensorflow.functions import broadcast_object

    def note(**values):
        line = {"time": time.time(), "pid": os.getpid(), "rank": hvd.rank(), "size": hvd.size()}
        with open(folder / "notes.jsonl", "a") as f:
            f.write(json.dumps(line | values) + "\n")

    hvd.init()
    note(event="begins")
    w = tf.Variable(np.zeros(4))
    if kind == "TensorFlowState":
        state = hvd.elastic.TensorFlowState(variables=[w], step=0)
    else:
        state = ObjectState(broadcast_object, hvd.rank, step=0, w=np.zeros(4))
    note(event="has its state")

    @hvd.elastic.run
    def train(state):
        if kind != "TensorFlowState":
            w.assign(state.w)
        while state.step < STEPS:
            total = hvd.allreduce(tf.ones(4, tf.float64), op=hvd.Sum, name="gradient")
            w.assign_add(total / hvd.size())  # the mean is 1 per step for any number of workers
            state.step += 1
            if kind != "TensorFlowState":
                state.w = w.numpy()
            note(step=state.step, w=float(w[0]))
            time.sleep(EACH)
            if state.step % COMMIT == 0:
                state.commit()

    train(state)


def notes(folder):
    """Return the notes that the workers have written so far."""
    path = folder / "notes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def trial(kind, root):
    """Run two workers, kill one of them, and add a third."""
    folder = root / kind
    folder.mkdir()
    hosts, script = folder / "hosts", folder / "discover.sh"
    hosts.write_text("localhost:1\n127.0.0.1:1\n")
    script.write_text(f"#!/bin/sh\ncat {hosts}\n")
    script.chmod(0o755)
    command = ["horovodrun", "-np", "2", "--min-np", "1", "--max-np", "2", "--gloo"]
    command += ["--host-discovery-script", str(script), sys.executable, __file__, "work", kind, str(folder)]
    with open(folder / "log", "w") as log:
        run = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    found, begin = {"killed": None, "added": None}, time.time()
    while run.poll() is None:
        lines = notes(folder)
        if time.time() > max([begin, *(line["time"] for line in lines)]) + QUIET:
            break
        step = max((line.get("step", 0) for line in lines), default=0)
        if step >= KILL_AT and not found["killed"]:
            victim = next(line for line in reversed(lines) if line["rank"] == 1)
            os.kill(victim["pid"], signal.SIGKILL)
            found["killed"] = time.time()
        if step >= ADD_AT and not found["added"]:
            hosts.write_text(f"localhost:1\n127.0.0.1:1\n{socket.gethostname()}:1\n")
            found["added"] = time.time()
        time.sleep(0.1)
    found["code"] = run.poll()
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGTERM)
        run.wait(20)
    lines = notes(folder)
    zero = next(line["time"] for line in lines if "step" in line)
    pids = sorted(
        {line["pid"] for line in lines}, key=lambda p: min(x["time"] for x in lines if x["pid"] == p)
    )
    for line in lines:
        line["worker"] = pids.index(line.pop("pid"))
        line["time"] = round(line["time"] - zero, 3)
    found = {k: round(v - zero, 3) if k != "code" and v else v for k, v in found.items()}
    return found | {"notes": lines}


def keras_state():
    """Return the error of Horovod's state for Keras models, in one process."""
    code = """
import horovod.tensorflow as hvd, keras
hvd.init()
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1))
try:
    hvd.elastic.TensorFlowKerasState(model, step=0)
    print("no error")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    return done.stdout.strip().splitlines()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "10_elastic.json")
    out = parser.parse_args().out
    record = {"settings": {"steps": STEPS, "commit": COMMIT, "kill at": KILL_AT, "add at": ADD_AT}}
    with tempfile.TemporaryDirectory(prefix="elastic-") as root:
        for kind in ("TensorFlowState", "ObjectState"):
            record[kind] = trial(kind, pathlib.Path(root))
            print(kind, record[kind]["code"], len(record[kind]["notes"]), "notes", flush=True)
    record["TensorFlowKerasState"] = keras_state()
    record["versions"] = provenance.versions()
    record["machine"] = provenance.machine()
    record["sha256"] = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record["command"] = "python lectures/runs/10_elastic.py"
    record["date"] = datetime.date.today().isoformat()
    files.write(out, json.dumps(record) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], pathlib.Path(sys.argv[3]))
    else:
        main()
