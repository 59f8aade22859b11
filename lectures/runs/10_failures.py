"""Record injected failures on a real Slurm for lecture 10: python lectures/runs/10_failures.py  (as root)

The script starts a separate single-host Slurm. Small training runs are killed at random times, and resume
from checkpoints of `cluster.training.checkpoint`. This takes eight minutes. 10_failures.json contains

    ways         one job each, submitted with requeue=True, that loses its rank, is requeued, is preempted, or
                 loses its node: who requeued it, seconds and steps lost, and whether its weights equal those
                 of an uninterrupted run bit for bit
    calibration  seconds of a step, a checkpoint, a start, and from a failure to the next start, for jobs that
                 fail once at a set time, with as many jobs at a time as in the experiment
    runs         {steps between checkpoints: for each job, seconds from its first start to each start, failure
                 and end, and a digest of its weights}, for jobs with equal work, each attempt killed after an
                 exponentially distributed time
    script       the batch script that Slurm got

and the SHA-256 of this script, the command, date, versions and machine. Steps wait more than they compute,
because many jobs share two cores. The machine should be otherwise idle.
"""

import argparse
import datetime
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import psutil

from cluster import submit
from cluster.jobs.run import provenance
from cluster.staff import services
from cluster.staff.one_machine_slurm import machine
from cluster.staff.one_machine_slurm.description import Cluster
from cluster.staff.one_machine_slurm.start import start_slurm
from cluster.staff.one_machine_slurm.stop import stop_slurm
from cluster.system import files

HERE = pathlib.Path(__file__).parent
PORT = 27410
STEPS, STEP = 120, 0.25  # steps of a job, and seconds of each: 30 s of work
SAVING = 1.0  # seconds for which a checkpoint stops training, as with a slow file system
MTBF = 25.0  # mean running time of a job, in seconds, until it is killed
INTERVALS = [4, 20, 60]  # steps between checkpoints: 1, 5 and 15 s
JOBS = 16  # jobs per interval
CLASSES, PIXELS, BATCH = 10, 64, 32
SCRIPT = """#!/bin/bash
#SBATCH --job-name=fails --ntasks=1 --cpus-per-task=1 --mem=200M --time=20
#SBATCH --partition=long --requeue --open-mode=append --output={folder}/job.log
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
exec {python} -P {code} work {folder} {interval} {mtbf}
"""


def state_at_start():
    """Return the complete initial state: weights, momentum, random number generator, step."""
    rng = np.random.default_rng(10)
    x = rng.standard_normal((512, PIXELS))
    y = (x @ rng.standard_normal((PIXELS, CLASSES))).argmax(1)
    start = {"step": 0, "w": np.zeros((PIXELS, CLASSES)), "v": np.zeros((PIXELS, CLASSES))}
    return x, y, start | {"rng": rng.bit_generator.state}


def advance(state, x, y):
    """Make one step of softmax regression with momentum and dropout, in place."""
    rng = np.random.default_rng()
    rng.bit_generator.state = state["rng"]
    some = rng.integers(len(x), size=BATCH)
    inputs = x[some] * (rng.random((BATCH, PIXELS)) < 0.8)
    scores = inputs @ state["w"]
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(BATCH), y[some]] -= 1
    state["v"] = 0.9 * state["v"] - 0.1 * inputs.T @ p / BATCH
    state["w"] = state["w"] + state["v"]
    state["rng"], state["step"] = rng.bit_generator.state, state["step"] + 1


def digest(state):
    """Return the SHA-256 of the weights' bytes."""
    return hashlib.sha256(np.ascontiguousarray(state["w"]).tobytes()).hexdigest()


def note(folder, what, **values):
    """Append a line to a job's history immediately."""
    line = json.dumps({"what": what, "time": time.time()} | values) + "\n"
    with open(folder / "notes.jsonl", "a") as f:
        f.write(line)


def work(folder, interval, mtbf):
    """Run one attempt of a job from its checkpoint; a timer requeues it and then kills it."""
    from cluster.training.checkpoint import read_checkpoint, write_checkpoint

    attempt = int(os.environ.get("SLURM_RESTART_COUNT", 0))
    note(folder, "start", attempt=attempt)
    if mtbf > 0:  # draw the seconds until this attempt is killed
        life = np.random.default_rng([int(folder.name), interval, attempt]).exponential(mtbf)
    else:
        life = -mtbf if attempt == 0 else np.inf

    def fail():
        note(folder, "failure")
        subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True)
        os.kill(os.getpid(), signal.SIGKILL)

    if np.isfinite(life):
        timer = threading.Timer(life, fail)
        timer.daemon = True
        timer.start()
    x, y, state = state_at_start()
    state = read_checkpoint(folder / "state.npz") or state
    note(folder, "goes on", step=state["step"])
    while state["step"] < STEPS:
        begin = time.monotonic()
        advance(state, x, y)
        time.sleep(max(0.0, STEP - (time.monotonic() - begin)))
        if state["step"] % interval == 0:
            begin = time.monotonic()
            time.sleep(SAVING)
            write_checkpoint(folder / "state.npz", state)
            note(folder, "saved", seconds=time.monotonic() - begin)
    note(folder, "end", digest=digest(state))
    if np.isfinite(life):
        timer.cancel()


def history(folder):
    """Return the notes of a job."""
    return [json.loads(line) for line in (folder / "notes.jsonl").read_text().splitlines()]


def batch(root, jobs, seconds):
    """Submit jobs, each (number, interval, mtbf), wait until all have ended, and return their histories."""
    folders = []
    for number, interval, mtbf in jobs:
        folder = root / f"{interval}" / str(number)
        folder.mkdir(parents=True)
        code = pathlib.Path(__file__).resolve()
        text = SCRIPT.format(folder=folder, interval=interval, mtbf=mtbf, python=sys.executable, code=code)
        subprocess.run(["sbatch"], input=text, text=True, check=True, capture_output=True)
        folders.append(folder)
    until("all have ended", lambda: all(ended(f) for f in folders), seconds)
    return [history(f) for f in folders]


def ended(folder):
    """Return whether a job has ended."""
    return (folder / "notes.jsonl").exists() and '"end"' in (folder / "notes.jsonl").read_text()


def until(what, holds, seconds=200):
    """Wait until `holds()`. Raises TimeoutError, which names the condition."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            queue = subprocess.run(["squeue"], capture_output=True, text=True).stdout
            raise TimeoutError(f"{what}: not after {seconds} s.\n{queue}")
        time.sleep(0.2)


def trains(way, steps=STEPS, every=20):
    """Run the same training as a job of the course; return a digest of its weights."""
    from cluster.jobs import run_folder
    from cluster.jobs.run import attempts
    from cluster.training import checkpoint

    node = os.environ["SLURMD_NODENAME"]
    note(run_folder(), "start", attempt=attempts.current(), pid=os.getpid(), node=node)
    x, y, state = state_at_start()
    state = checkpoint.load() or state
    note(run_folder(), "goes on", step=state["step"])
    while state["step"] < steps:
        advance(state, x, y)
        time.sleep(0.1)
        note(run_folder(), "step", step=state["step"])
        if state["step"] % every == 0:
            checkpoint.save(**state)
    return digest(state)


def number_of(job):
    """Return Slurm's job ID."""
    return json.loads((job.folder / "backend.json").read_text())["job_id"]


def lose_rank(job, cluster, state):
    """Kill the process; Slurm considers the job failed, and the same call of submit resumes it."""
    os.kill(history(job.folder)[0]["pid"], signal.SIGKILL)
    job.wait(60, progress=False)
    return submit_way("rank killed")


def requeue(job, cluster, state):
    """Requeue the job as an administrator."""
    subprocess.run(["scontrol", "requeue", number_of(job)], check=True)
    return job


def preempt(job, cluster, state):
    """Preempt the job with one of a higher tier."""
    submit(time.sleep, 3.0, memory="7000M", name="urgent", partition="short", sbatch={"nodelist": "node3"})
    return job


def lose_node(job, cluster, state):
    """Kill slurmd and all its processes on the job's node at once, as in a power failure."""
    victim = history(job.folder)[0]
    os.kill(services.process_ledger(state).all()[victim["node"]]["pid"], signal.SIGKILL)
    rank = psutil.Process(victim["pid"])
    above = [p for p in rank.parents() if "slurmstepd" in p.name()]
    for p in above + [c for a in above for c in a.children(recursive=True)]:
        if p.is_running():
            p.kill()
    return job


WAYS = {
    "rank killed": ("node1", lose_rank, "us: submit(…, requeue=True) once more"),
    "requeued": ("node2", requeue, "scontrol requeue"),
    "preempted": ("node3", preempt, "Slurm"),
    "node lost": ("node[4-5]", lose_node, "Slurm, after SlurmdTimeout"),
}


def submit_way(way):
    """Submit the job to be interrupted; it requests so much memory that no other job fits on its node."""
    options = {"memory": "7000M", "time": "00:10:00", "name": way.replace(" ", "-")}
    nodes = {"nodelist": WAYS[way][0]} if "[" not in WAYS[way][0] else {"exclude": "node[1-3],node6"}
    return submit(trains, way, requeue=True, partition="long", sbatch=nodes, **options)


def ways(cluster, state):
    """Return one row per kind of interruption."""
    whole = submit(trains, "none", memory="500M", partition="long", sbatch={"nodelist": "node6"})
    rng, rows, jobs, at = np.random.default_rng(17), [], {}, {}
    for way in WAYS:
        jobs[way], at[way] = submit_way(way), int(rng.integers(25, 100))
    when, waiting = {}, set(WAYS)

    def reached(way):
        path = jobs[way].folder / "notes.jsonl"
        lines = history(jobs[way].folder) if path.exists() else []
        return bool(lines) and lines[-1].get("step", 0) >= at[way]

    while waiting:
        for way in sorted(waiting):
            if reached(way):
                when[way] = time.time()
                jobs[way] = WAYS[way][1](jobs[way], cluster, state)
                waiting.discard(way)
        time.sleep(0.05)
    expected = whole.result(progress=False)
    for way, job in jobs.items():
        found = job.wait(200, progress=False).result(progress=False)
        lines = history(job.folder)
        again = [line for line in lines if line["what"] == "goes on"][1]
        before = [line["step"] for line in lines if line["what"] == "step" and line["time"] < again["time"]]
        row = {"interrupted": way, "put back by": WAYS[way][2], "at step": max(before)}
        row |= {"goes on from step": again["step"], "seconds until it went on": again["time"] - when[way]}
        row |= {"starts": sum(x["what"] == "start" for x in lines), "bit-equal": found == expected}
        rows.append(row)
    return rows


def calibrate(root):
    """Measure the seconds of a step, a checkpoint, a start and a restart; each job fails once."""
    moments = np.linspace(3, 20, JOBS)
    histories = batch(root, [(i, k, -moments[i]) for k in INTERVALS for i in range(JOBS)], 300)
    found = {"step": [], "saving": [], "start": [], "down": []}
    for lines in histories:
        for a, b in itertools.pairwise(lines):
            seconds = b["time"] - a["time"]
            if (a["what"], b["what"]) == ("start", "goes on"):
                found["start"].append(seconds)
            elif (a["what"], b["what"]) == ("failure", "start"):
                found["down"].append(seconds)
            elif b["what"] == "saved":
                found["saving"].append(b["seconds"])
        saved = [line for line in lines if line["what"] == "saved"]
        if len(saved) > 6:  # a job with a checkpoint every fourth step
            pairs = [b["time"] - a["time"] - b["seconds"] for a, b in itertools.pairwise(saved)]
            found["step"].append(float(np.median(pairs)) / INTERVALS[0])
    return {
        name: {"mean": float(np.mean(v)), "sd": float(np.std(v)), "count": len(v)}
        for name, v in found.items()
    }


def summary(lines):
    """Return a job's summary: seconds from its first start to each start, failure and end."""
    zero = lines[0]["time"]
    times = {
        w: [round(x["time"] - zero, 3) for x in lines if x["what"] == w] for w in ("start", "failure", "end")
    }
    steps = [x["step"] for x in lines if x["what"] == "goes on"]
    return times | {"goes on": steps, "digest": lines[-1]["digest"]}


def experiment(root):
    """Return {interval: a summary of each job}, with all jobs running at the same time."""
    jobs = [(i, k, MTBF) for i in range(JOBS) for k in INTERVALS]
    histories = batch(root, jobs, 900)
    runs = {str(k): [] for k in INTERVALS}
    for (_, k, _), lines in zip(jobs, histories, strict=True):
        runs[str(k)].append(summary(lines))
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "10_failures.json")
    out = parser.parse_args().out
    if why := machine.missing():
        sys.exit(f"No Slurm can be started here: {why}.")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fails-", dir="/tmp"))  # short, for the sockets in it
    folder.chmod(0o755)
    state, runs = folder / "slurm", folder / "runs"
    os.environ |= {
        "CLUSTER_RUNS": str(runs),
        "SLURM_CONF": str(state / "slurm.conf"),
        "CLUSTER_BACKEND": "slurm",
    }
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    cluster = Cluster(name="fails", nodes=6, cpus=16, memory=8192, port=PORT, node_timeout=10)
    settings = {"steps": STEPS, "step": STEP, "saving": SAVING, "mtbf": MTBF}
    record = {"settings": settings | {"intervals": INTERVALS, "jobs": JOBS}}
    try:
        start_slurm(cluster, state, print)
        record["ways"] = ways(cluster, state)
        print(*record["ways"], sep="\n", flush=True)
        start_slurm(cluster, state, lambda line: None)  # restarts the failed node
        record["calibration"] = calibrate(folder / "calibration")
        print(record["calibration"], flush=True)
        record["runs"] = experiment(folder / "experiment")
        record["script"] = SCRIPT
        asked = subprocess.run(["sbatch", "--version"], capture_output=True, text=True)
        version = asked.stdout.split()[-1]
    finally:
        stop_slurm(state, print, purge=True)
        shutil.rmtree(folder)
    record["versions"] = provenance.versions() | {"slurm": version}
    record["machine"] = provenance.machine()
    record["sha256"] = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record["command"] = "python lectures/runs/10_failures.py"
    record["date"] = datetime.date.today().isoformat()
    files.write(out, json.dumps(record, indent=1) + "\n")
    print(f"{out}: {sum(len(r['failure']) for rows in record['runs'].values() for r in rows)} failures")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(pathlib.Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
