"""Make the records of assignment 05 on a separate Slurm: `python -m tests.records`, as root, in five minutes.

This writes records.json next to this file, and then the records into the assignment's cells. With --write, it
does only the latter. Slurm's lines contain job numbers and times, so the records differ a little each time.
"""

import dataclasses
import datetime
import json
import os
import platform
import sys
import tempfile
import time

from cluster.jobs import submit
from cluster.jobs.run.run_folder import RunFolder
from cluster.slurm import client, limits
from cluster.staff.release import twins
from cluster.staff.release.wrong_solutions import cells_of
from cluster.system import files
from tests.slurm import Own

from . import programs, text

ALONE = {"HOROVOD_RANK": 0, "HOROVOD_SIZE": 1}  # the variables of a rank that does not know about the others
LOW = ("makes-room", "makes-room-together", "waits-to-go-on")
LITTLE, USUAL = "150M", "1500M"  # memory of a rank without Horovod, and with it


def until(what, true, seconds=900):
    """Wait until `true()` is true; raise AssertionError after this many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.5)


def runs(job):
    """Return whether all ranks of a job have called their function."""
    return all(RunFolder(job.folder).ready(rank).is_file() for rank in range(job.ranks))


def number(job):
    """Return Slurm's number of a job."""
    return files.read_json(RunFolder(job.folder).backend)["job_id"]


class Jobs(dict):
    """The submitted jobs {name: Job}, in order; `found` contains {name: result of `record_of`}."""

    def __init__(self):
        self.record_of, self.found = given("record-of"), {}

    def add(self, name, program, *args, memory=LITTLE, **options):
        """Submit a job under this name."""
        self[name] = submit(program, *args, memory=memory, name=name, **options)
        return self[name]

    def record(self, name, when, true):
        """Record a job once it is in the expected state."""
        until(f"{name}: {when}", lambda: true(self[name].status))
        self.found[name] = self.record_of(self[name])
        print(name, flush=True)

    def end(self, *names):
        """Wait until these jobs have ended, and record them."""
        for name in names:
            self.record(name, "its end", lambda status: status.ended)


def make(cluster):
    """Submit all jobs, a few at a time, and return {name: result of `record_of`}."""
    jobs = Jobs()
    two, three = {"nodes": 2, "memory": USUAL}, {"nodes": 3, "memory": USUAL}
    minute = {"time": "00:01:00"}
    jobs.add("a-minute", programs.waits, 300, **minute)
    jobs.add("takes", programs.takes, 600)
    jobs.add("more-than-its-share", programs.takes_together, 2000, 1, ranks_per_node=2, memory=USUAL)
    jobs.add("well", programs.waits, 0.5)
    jobs.end("takes", "more-than-its-share", "well")
    jobs.add("takes-on-rank-1", programs.takes_together, 2000, 1, **two)
    jobs.add("takes-on-rank-0", programs.takes_together, 2000, 0, **three)
    jobs.end("takes-on-rank-1", "takes-on-rank-0")
    jobs.add("a-minute-together", programs.waits_together, 300, **two, **minute)
    jobs.add("alone", programs.meet, env=ALONE, **two)
    jobs.add("alone-of-three", programs.meet, env=ALONE, **three)
    jobs.add("starts-anew", programs.starts_anew, **two)
    jobs.add("well-together", programs.meet, **two)
    jobs.end("alone", "alone-of-three", "starts-anew", "well-together")
    jobs.add("key-error", programs.raises, "KeyError", "conv2", 1, **two)
    jobs.add("segfault", programs.is_killed, "SIGSEGV", 1, **two)
    jobs.add("killed", programs.is_killed, "SIGKILL", 0, **three)
    jobs.end("key-error", "segfault", "killed")
    jobs.add("exit-code", programs.leaves, 7, 1, ranks_per_node=2, memory=USUAL)
    words = "cannot hold 3 batches: over the memory limit of the cache"
    jobs.add("says-memory", programs.raises, "RuntimeError", words, 0, **two)
    jobs.end("exit-code", "says-memory", "a-minute", "a-minute-together")
    preempt(cluster, jobs)
    queue(jobs)
    return jobs.found


def preempt(cluster, jobs):
    """Preempt three jobs of the partition `long` with a job of `short` on their nodes."""
    first, second, third = cluster.nodes
    low, together = {"partition": "long"}, {"nodelist": f"{second},{third}"}
    jobs.add("makes-room", programs.waits, 301, **low, sbatch={"nodelist": first, "exclusive": True})
    two = {"nodes": 2, "memory": USUAL, "sbatch": together}
    jobs.add("makes-room-together", programs.waits_together, 302, **low, **two)
    jobs.add("waits-to-go-on", programs.waits, 303, requeue=True, **low, sbatch={"nodelist": third})
    until("all three at work", lambda: all(runs(job) for name, job in jobs.items() if name in LOW))
    options = {"nodes": 3, "memory": USUAL, "partition": "short", "sbatch": {"exclusive": True}}
    urgent = jobs.add("urgent", programs.waits, 25, **options)
    jobs.end("makes-room", "makes-room-together")
    jobs.record("waits-to-go-on", "the queue", lambda status: status == "pending" and status.slurm)
    jobs["waits-to-go-on"].cancel()
    urgent.cancel()


def queue(jobs):
    """Submit jobs that wait, some of them for ever, behind a job that uses all nodes."""
    limits.check = lambda options, partitions: None  # so that Slurm itself refuses
    failed = jobs.add("fails", programs.leaves, 3, 0, memory=USUAL)
    jobs.end("fails")
    full = jobs.add("full", programs.waits, 304, nodes=3, memory=USUAL, sbatch={"exclusive": True})
    until("a full cluster", lambda: runs(full))
    reasons = {
        "forty-nodes": ("PartitionConfig", {"nodes": 40}),
        "five-hours": ("PartitionTimeLimit", {"time": "05:00:00"}),
        "over-the-account": ("AssocMaxWall", {"time": "00:20:00", "sbatch": {"account": "limited"}}),
        "after-a-failure": ("NeverSatisfied", {"sbatch": {"dependency": f"afterok:{number(failed)}"}}),
        "resources": ("Resources", {"sbatch": {"exclusive": True}}),
        "priority": ("Priority", {"sbatch": {"exclusive": True, "nice": 100}}),
        "dependency": ("Dependency", {"sbatch": {"dependency": f"afterok:{number(full)}"}}),
        "begin-time": ("BeginTime", {"sbatch": {"begin": "now+1hour"}}),
    }
    for i, (name, (_, options)) in enumerate(reasons.items()):
        jobs.add(name, programs.waits, 1 + i / 100, **options)
    for name, (reason, _) in reasons.items():
        jobs.record(name, reason, lambda status, reason=reason: reason in status.slurm)
    for name in (*reasons, "full"):
        jobs[name].cancel(wait=False)


def given(name):
    """Return the function that a provided cell of the assignment defines under the cell's name."""
    names = {"RunFolder": RunFolder, "files": files}
    exec(cells_of_twin()[name], names)
    return names[name.replace("-", "_")]


def cells_of_twin():
    """Return {slug: text} of the assignment's locked cells."""
    return {name: cell.source for name, cell in cells_of(twins.notebook(text.TWIN), "locked").items()}


def main(make_them):
    """Make the records, or use the existing ones, and write them into the assignment."""
    if make_them:
        own = Own()
        own.description = dataclasses.replace(own.description, name="course", node="node")
        own.nodes = own.description.node_names
        with tempfile.TemporaryDirectory(prefix="records-") as folder:
            variables = {"CLUSTER_RUNS": f"{folder}/runs", "CLUSTER_BACKEND": "slurm"}
            os.environ.update(variables, SLURM_CONF=str(own.conf))
            client.FRESH = 0.2
            try:
                own.start()
                own.limit()
                found = make(own)
                version = own.ask("sbatch", "--version").strip()
            finally:
                own.stop()
        made = {
            "command": "python -m tests.records",
            "sha256": text.digest(),
            "date": datetime.date.today().isoformat(),
            "slurm": version,
            "python": platform.python_version(),
        }
        text.RECORDS.write_text(json.dumps({"made": made, "records": found}, indent=1) + "\n")
    records = files.read_json(text.RECORDS)["records"]
    files.write(text.TWIN, text.filled(text.TWIN.read_text(), records))


if __name__ == "__main__":
    main(make_them="--write" not in sys.argv)
