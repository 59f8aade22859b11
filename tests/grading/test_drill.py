"""A class is graded correctly on a real Slurm, although a node and the coordinator are killed.

`make drill` does this with a hundred submissions of assignment 01 and records the result in drill.json.
"""

import contextlib
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cluster.jobs.run import provenance
from cluster.staff.course import CourseError
from cluster.staff.grading import grade, on_slurm
from cluster.staff.results import core_hours
from cluster.staff.submissions.grading_folder import GradingFolder, load, runs
from tests.grading import sample_class

from .. import ROOT, slurm
from . import sandboxes
from .classes import NAME

STUDENTS = int(os.environ.get("CLUSTER_DRILL", 0))
LIMITS = {"memory": 2**30, "total": 120.0}
RECORD = Path(__file__).with_name("drill.json")
NUMPY = "01_convolution_as_gemm"
GOLDEN = Path(__file__).with_name("array.sh")
HEAD = """
import json, sys
from pathlib import Path
from cluster.staff.grading import grade as head, on_slurm
root, private, name = sys.argv[1:4]
array = on_slurm.Array(cpus=2, tasks=4, memory=1024, seconds=120)
limits = json.loads(sys.argv[4])
result = head.grade_class(Path(root), name, private=Path(private), backend=array, limits=limits)
print(json.dumps(result.ungraded))
"""


@pytest.fixture
def here(own, monkeypatch):
    """Use the tests' Slurm in this process and its children. Restart killed parts of Slurm afterwards."""
    sandboxes.need()
    own.enter(monkeypatch)
    yield own
    own.start()


def queued(here, *states):
    """Return {task: [node]} of the grading arrays in the queue, which may also contain other jobs."""
    command = ["squeue", "--noheader", "--array", *states, "--format=%i %j %N"]
    rows = [line.split() for line in here.ask(*command).splitlines()]
    return {row[0]: row[2:] for row in rows if row[1].startswith("grade-")}


@pytest.fixture
def start():
    """Return a function that starts a coordinator. Kill the coordinators that are left at the end."""
    started = []

    def begin(root, private, name):
        command = [sys.executable, "-c", HEAD, str(root), str(private), name, json.dumps(LIMITS)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        with process:
            process.kill()


def wait(condition, seconds=900 if STUDENTS else 200):
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"nothing happened for {seconds} s"
        time.sleep(0.05)
    return result


def kill_node(here, node):
    """Kill a node as a power failure would: first Slurm's daemons, then all processes that they started.
    Return the number of the jobs' processes."""
    jobs = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SLURMD_NODENAME") == node:
                jobs.append(process)
    steps = {process.parent() for process in jobs} - {None}
    here.kill(node)
    for process in [*(step for step in steps if step.name() == "slurmstepd"), *jobs]:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return len(jobs)


def right(course, handed, name):
    """Return {student: {check: points}} from grading each variant once in this process, without failures."""
    import nbformat

    alone, chosen = {}, {variant: student for student, variant in handed.items()}
    this = grade.Coordinator(course, name, grade.Local(1))
    with sandboxes.Engine(workers=1) as engine:
        for variant, student in chosen.items():
            folder = course.folder("submitted", student, name)
            submission = grade.prepare.read_submission(student, folder, this.source, this.sanitiser)
            verdict = engine.grade(nbformat.from_dict(submission.notebook))
            alone[variant] = {check: result.score for check, result in verdict.checks.items()}
    worth = this.source.points
    assert alone[sample_class.RIGHT] == worth and not any(alone[sample_class.STUB].values())
    return {student: alone[variant] for student, variant in handed.items()}


@pytest.mark.slurm
@pytest.mark.timeout(3600)
def test_a_node_and_the_coordinator_are_killed(here, released, tmp_path, start):
    """After a node and the coordinator are killed, does each student have the right score? Are all verdicts
    from before the kill unchanged?"""
    root, name, students = (ROOT, NUMPY, STUDENTS) if STUDENTS else (released, NAME, 12)
    course, handed = sample_class.make(root, name, tmp_path, students)
    where, began = GradingFolder(runs(course.coursedir), name), time.time()

    def verdicts():
        """Return {path: when it was written} of the valid verdicts."""
        results = {path: load(path) for path in where.items.glob("*/*/verdict.json")}
        final = [
            path for path, verdict in results.items() if verdict and verdict["verdict"]["outcome"] == "graded"
        ]
        return {path: path.stat().st_mtime_ns for path in final}

    first = start(root, tmp_path, name)
    wait(lambda: len(verdicts()) >= max(2, students // 10))
    (node,), *_ = wait(lambda: queued(here, "--states=RUNNING")).values()
    killed = kill_node(here, node)
    assert killed, f"{node} was idle"
    wait(lambda: len(verdicts()) >= students // 3)
    first.kill()
    first.wait()
    before = verdicts()
    assert len(before) < students, "the class was through before the head was killed"
    second = start(root, tmp_path, name)
    output, _ = second.communicate(timeout=2400 if STUDENTS else 1200)
    took = time.time() - began
    assert second.returncode == 0 and json.loads(output.splitlines()[-1]) == {}, output
    after = verdicts()
    again = [path for path, at in before.items() if after[path] != at]
    got = sample_class.points(course, name)
    wanted = right(course, handed, name)
    wrong = [student for student in handed if got.get(student) != wanted[student]]
    assert wrong == [] and again == [] and len(after) == students
    facts = {
        "students": students, "assignment": name, "right scores": students - len(wrong),
        "verdicts before the head was killed": len(before), "of these graded again": len(again),
        "processes killed with the node": killed, "seconds": round(took, 1),
        "taken up": "following" in output, "machine": provenance.machine(),
        "versions": provenance.versions(),
        "date": datetime.date.today().isoformat(), "command": f"make drill STUDENTS={STUDENTS}",
    }  # fmt: skip
    assert facts["taken up"], output
    print(json.dumps(facts, indent=1))
    if STUDENTS:
        RECORD.write_text(json.dumps(facts, indent=1) + "\n")
    here.start()
    wait(lambda: core_hours.used(where.folder / "journal.jsonl")[1].startswith("by Slurm"))
    used, note = core_hours.used(where.folder / "journal.jsonl")
    assert used["slurm"] > 0 and "killed" in note, note  # on the killed node


@pytest.mark.slurm
def test_an_array_that_could_never_start_is_cancelled(here, released, tmp_path):
    """Are an array's tasks fitted to the time limit and the memory of their partition? Is an array that
    exceeds its account's limits cancelled?"""
    fitted = {}
    for partition in (None, "long"):
        fitted[partition] = array = on_slurm.Array(partition=partition, memory=1024, seconds=120)
        array.fit()
    assert fitted[None].largest == 24  # 12 rounds of 2 minutes plus 5 minutes fit within 30 minutes
    assert fitted["long"].largest == on_slurm.LARGEST
    wide = on_slurm.Array(cpus=4, memory=4096)
    wide.fit()
    assert wide.cpus == wide.workers == 1  # a node has 8 GiB
    with pytest.raises(CourseError, match=r"00:35:00.*'short'.*00:30:00"):
        on_slurm.Array(memory=1024, seconds=1800).fit()
    course, _ = sample_class.make(released, NAME, tmp_path, 2)
    array = on_slurm.Array(account=slurm.ACCOUNT, cpus=1, tasks=1, memory=64, seconds=60)
    with pytest.raises(CourseError, match="AssocMaxWallDurationPerJobLimit"):
        grade.Coordinator(course, NAME, array).grade()
    wait(lambda: not queued(here))
    assert list(GradingFolder(runs(course.coursedir), NAME).dispatches.glob("*/plan.json")) == []


def test_the_script_of_an_array():
    """Does an array's script request the given resources, export nothing from the environment, and quote its
    arguments?"""
    array = on_slurm.Array("grading", "short", cpus=2, tasks=8, memory=1024, seconds=60)
    text = on_slurm.script("grade-abc-01", [5, 1], Path("/srv/a 50%"), array, "/opt/a python")
    assert text.replace(str(ROOT), "ROOT") == GOLDEN.read_text()
