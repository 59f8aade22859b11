"""Record a tour of a real Slurm for lecture 05: python lectures/runs/05_slurm_tour.py  (root; two minutes)

The script starts a separate single-host Slurm, runs the lecture's queries and stops it. Like that of `make
slurm`, it has four nodes with 2 CPUs, 8 GiB and two simulated GPUs. Each answer in the record is a command
with its actual output. Paths of this machine become RUNS, VENV, SLURM.

05_slurm_tour.json: "answers" is {name: {"command", "output"}}. "first" contains what the job's ranks returned
and the script that Slurm got, "sweep" the same for an array, "gpu" a script for GPUs and its output, and
"never" the messages of the course's commands. The record also contains the SHA-256 of this script, the
command, date, versions and machine.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest.mock

from cluster import jobs, submit
from cluster.jobs.errors import CanNeverRun
from cluster.jobs.run import provenance
from cluster.slurm import limits
from cluster.staff.one_machine_slurm import machine
from cluster.staff.one_machine_slurm.description import Cluster
from cluster.staff.one_machine_slurm.start import start_slurm
from cluster.staff.one_machine_slurm.stop import stop_slurm
from cluster.system import files

HERE = pathlib.Path(__file__).parent
PORT = 27310  # the first port; `make slurm` and the tests use others
QUEUE = "squeue --sort=i --format='%.8i %.9j %.9P %.2t %.5D %.4C %R'"
PARTITIONS = "sinfo --format='%.10P %.11l %.6D %.5c %.8m %.7G %N'"
LINES = r"(?:JobState|Reason|TimeLimit|NumNodes|NumCPUs|TRES|Partition)="
NODES = {"PartitionNodeLimit", "PartitionConfig"}  # Slurm's possible reasons for more nodes than exist
RATES = [0.01, 0.03, 0.1, 0.3, 1.0]
GPU_SCRIPT = """\
#!/bin/bash
#SBATCH --account=course       # who pays
#SBATCH --partition=short
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2    # one rank per GPU
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=1      # threads of a rank, its input pipeline included
#SBATCH --mem=1000M            # per node
#SBATCH --time=00:10:00
command -v module > /dev/null && module load cuda  # libraries, if the site has modules
srun --kill-on-bad-exit=1 bash -c \\
    'echo rank $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME: GPU $CUDA_VISIBLE_DEVICES'
"""


def where(seconds=0.0):
    """Return this rank's node and the number of nodes, after some seconds."""
    import os
    import socket
    import time

    time.sleep(seconds)
    rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    return {"rank": rank, "of": size, "node": socket.gethostname(), "cores": len(os.sched_getaffinity(0))}


def descend(rate, steps=20, seconds=8.0):
    """Return the final loss of gradient descent on 5 w² from w = 1, slow enough to show the queue."""
    import time

    w = 1.0
    for _ in range(steps):
        w -= rate * 10 * w
        time.sleep(seconds / steps)
    return {"loss": 5 * w * w}


def ask(command):
    """Return {"command", "output"} of a shell command, including its errors, with any exit status."""
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60)
    return {"command": command, "output": (done.stdout + done.stderr).rstrip()}


def until(what, holds, seconds=200):
    """Wait until `holds()`. Raises TimeoutError, which names the condition."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not after {seconds} s.\n{ask(QUEUE)['output']}")
        time.sleep(1)


def reasons():
    """Return {job: reason} for pending jobs."""
    rows = ask("squeue --noheader --states=PENDING --format='%i|%r'")["output"].splitlines()
    return dict(row.split("|") for row in rows)


def partitions_and_first_job(answers):
    """Query the cluster and run four ranks on two nodes; return the ranks' results and the script."""
    answers["sinfo"] = ask(PARTITIONS)
    job = submit(where, nodes=2, ranks_per_node=2, memory="500M", time="00:10:00")
    found = {"results": job.results(progress=False), "script": job.script(), "id": backend_id(job)}
    return found | {"command": "submit(where, nodes=2, ranks_per_node=2, memory='500M', time='00:10:00')"}


def gpu_job(answers, folder):
    """Run a hand-written script for four ranks with one GPU each; return it and its output."""
    ask("sacctmgr --immediate add account course")
    ask("sacctmgr --immediate add user root account=course")
    script, log = folder / "gpu_job.sh", folder / "gpu_job.log"
    script.write_text(GPU_SCRIPT)
    submitted = ask(f"sbatch --wait --output={log} {script}")
    [number] = re.findall(r"Submitted batch job (\d+)", submitted["output"])
    columns = "--format=JobID,Account,NNodes,State,Timelimit,Elapsed,AllocTRES%48"
    answers["sacct, GPUs"] = ask(f"sacct --allocations --jobs={number} {columns}")
    lines = sorted(log.read_text().splitlines())  # of all ranks, in rank order
    return {"script": GPU_SCRIPT, "command": "sbatch --wait gpu_job.sh", "output": "\n".join(lines)}


def full_cluster(answers):
    """Fill all nodes with two jobs, and query why others are pending."""
    big = [submit(where, 60.0 + i, nodes=2, ranks_per_node=2, memory="500M", name="big") for i in range(2)]
    until("both run", lambda: all(job.status == "running" for job in big))
    small = [submit(where, float(i), nodes=1, ranks_per_node=2, memory="500M", name="small") for i in (1, 2)]
    after = f"afterok:{backend_id(big[0])}"
    small.append(submit(where, 3.0, memory="500M", name="evaluate", sbatch={"dependency": after}))
    until("a reason each", lambda: {"Resources", "Priority", "Dependency"} <= set(reasons().values()))
    answers["squeue, full"] = ask(QUEUE)
    for job in small + big:
        job.cancel()


def array(answers):
    """Run a sweep over learning rates, two tasks at a time; return its table and the array's script."""
    sweep = jobs.map(descend, RATES, max_parallel=2, memory="500M", time="00:10:00")
    until("two run, three wait", lambda: sweep.status.what.startswith("2 running"))
    answers["squeue, array"] = ask(QUEUE)
    sweep.wait(400, progress=False)
    columns = ["rate", "status", "loss"]
    return {"script": sweep.script(), "table": sweep.table()[columns].to_dict("list"), "items": RATES}


def never(answers):
    """Submit requests that cannot be satisfied: Slurm rejects some and keeps others pending indefinitely."""
    wrap = "--job-name=never --wrap=hostname"
    for name, request in {
        "memory": "--mem=99G", "GPUs": "--gres=gpu:5", "nodes": "--nodes=5", "time": "--time=05:00:00",
    }.items():  # fmt: skip
        answers[f"sbatch, {name}"] = ask(f"sbatch {request} {wrap}")
    accepted = [m[1] for v in answers.values() if (m := re.match(r"Submitted batch job (\d+)", v["output"]))]
    until(
        "a reason each",
        lambda: set(reasons().values()) & NODES and "PartitionTimeLimit" in reasons().values(),
    )
    answers["squeue, never"] = ask(QUEUE)
    shown = ask(f"scontrol show job {accepted[0]}")
    kept = [line.strip() for line in shown["output"].splitlines() if re.search(LINES, line)]
    answers["scontrol, never"] = shown | {"output": "\n".join(kept)}
    answers["scancel"] = ask(f"scancel {' '.join(accepted)}")
    found = {}
    try:
        submit(where, nodes=5, memory="500M")
    except CanNeverRun as error:  # rejected before submission
        found["before"] = {"command": "submit(where, nodes=5, memory='500M')", "error": str(error)}
    with unittest.mock.patch.object(limits, "check"):  # without the course's check, so that Slurm detects it
        job = submit(where, nodes=5, memory="500M", name="never")
    until("its reason", lambda: job.status.never)
    found["status"] = {"state": str(job.status), "what": job.status.what, "slurm": job.status.slurm}
    try:
        job.result(progress=False)
    except CanNeverRun as error:
        found["after"] = {"command": "job.result()", "error": str(error)}
    job.cancel()
    return found


def backend_id(job):
    """Return Slurm's job ID."""
    return json.loads((job.folder / "backend.json").read_text())["job_id"]


def tour(state):
    """Return the complete record, without its provenance."""
    answers = {}
    record = {"answers": answers, "never": never(answers), "first": partitions_and_first_job(answers)}
    record["sweep"] = array(answers)
    record["gpu"] = gpu_job(answers, state.parent)
    full_cluster(answers)
    answers["sacct"] = ask("sacct --allocations --format=JobID,JobName,NNodes,AllocCPUS,State,Elapsed")
    return record


def without_paths(text, runs, state):
    """Return the record's text without this machine's paths."""
    for path, name in ((runs, "RUNS"), (sys.prefix, "VENV"), (state, "SLURM")):
        text = text.replace(str(path), name)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "05_slurm_tour.json")
    out = parser.parse_args().out
    if why := machine.missing():
        sys.exit(f"No Slurm can be started here: {why}.")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tour-", dir="/tmp"))  # short, for the sockets in it
    folder.chmod(0o755)
    state, runs = folder / "slurm", folder / "runs"
    os.environ |= {"CLUSTER_RUNS": str(runs), "SLURM_CONF": str(state / "slurm.conf")}
    os.environ["CLUSTER_BACKEND"] = "slurm"
    try:
        start_slurm(Cluster(name="course", port=PORT, cpus=2), state, print)
        record = tour(state)
        version = ask("sbatch --version")["output"].split()[-1]
    finally:
        stop_slurm(state, print, purge=True)
        shutil.rmtree(folder)
    record["versions"] = provenance.versions() | {"slurm": version}
    record["machine"] = provenance.machine()
    record["script"] = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record["command"] = "python lectures/runs/05_slurm_tour.py"
    record["date"] = datetime.date.today().isoformat()
    files.write(out, without_paths(json.dumps(record, indent=1), runs, state) + "\n")
    print(f"{out}: {len(record['answers'])} answers of Slurm")


if __name__ == "__main__":
    main()
