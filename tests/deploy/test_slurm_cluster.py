"""Test a real single-host Slurm: the limits that it enforces, how it is repaired, and what remains after a
stop.

The tests share one cluster and run in order. Its names and ports differ from the defaults, so the tests do
not affect a cluster that is running on this machine.
"""

import contextlib
import ctypes.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from cluster.staff.one_machine_slurm import machine

from .. import ports

pytestmark = pytest.mark.slurm

STUDENT, STRANGER = "nobody", "games"  # Unix users that exist in every Debian
TRIAL = """
name = "trial"
node = "trial"
nodes = 2
port = {port}
students = ["{student}"]
gpus_per_student = 2
"""

# A PMIx rank without MPI. It enters and leaves a barrier and prints the time of both; the second rank enters
# one second late.
LATE = """
import ctypes, os, time
pmix, me = ctypes.CDLL("libpmix.so.2"), ctypes.create_string_buffer(256 + 4)  # namespace, rank
assert pmix.PMIx_Init(me, None, ctypes.c_size_t(0)) == 0
rank = int.from_bytes(me[256:], "little")
while rank and not os.path.exists("came"):
    time.sleep(0.01)
time.sleep(rank)
came = time.monotonic()
if not rank:
    open("came", "w").close()
assert pmix.PMIx_Fence(None, ctypes.c_size_t(0), None, ctypes.c_size_t(0)) == 0
print(came, time.monotonic())
pmix.PMIx_Finalize(None, ctypes.c_size_t(0))
"""


class Trial:
    """The cluster under test, used as an administrator and as a student would."""

    def __init__(self, folder: Path):
        self.folder, self.state, self.port = folder, folder / "state", ports.free(4)
        self.text = TRIAL.format(port=self.port, student=STUDENT)
        (folder / "trial.toml").write_text(self.text)

    def do(self, command, *more):
        argv = [
            sys.executable,
            "-m",
            "cluster.staff.one_machine_slurm",
            command,
            "--state",
            self.state,
            *more,
        ]
        return subprocess.run(argv, capture_output=True, text=True, timeout=600)

    def start(self):
        result = self.do("start", "--description", self.folder / "trial.toml")
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def ask(self, *command, user=None, check=True):
        env = {"PATH": os.environ["PATH"], "SLURM_CONF": f"{self.state}/slurm.conf"}
        command = (
            ["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", *command] if user else command
        )
        result = subprocess.run(
            command, env=env, cwd=self.folder, capture_output=True, text=True, timeout=240
        )
        assert result.returncode == 0 or not check, result.stderr
        return result.stdout.strip() if check else result

    def batch(self, wrap, *options, user=None):
        options = ["--parsable", "--output=/dev/null", *options, f"--wrap={wrap}"]
        return self.ask("sbatch", *options, user=user)

    def pids(self):
        return {n: r["pid"] for n, r in json.loads((self.state / "processes.json").read_text()).items()}

    def accounted(self, job, field="State"):
        return self.ask("sacct", "-n", "-P", "-X", "-D", "-j", job, f"--format={field}").split("\n")


def wait(what, true, seconds=240):
    """Wait until `true()` is true; return its value."""
    deadline = time.monotonic() + seconds
    while not (result := true()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.2)
    return result


def left(state):
    """Return the command lines of the cluster's running processes, found by command line, environment or
    cgroup."""
    results = []
    for p in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            env = Path(f"/proc/{p.pid}/environ").read_bytes()
            groups = Path(f"/proc/{p.pid}/cgroup").read_text()
            line = " ".join(p.cmdline())
            marks = (str(state) in line, f"SLURM_CONF={state}/etc".encode() in env)
            if p.pid != os.getpid() and (any(marks) or "/slurm_trial" in groups):
                results.append(line)
    return results


@pytest.fixture(scope="module")
def trial():
    """Yield a trial cluster, which test_start starts. If Slurm cannot be started here, skip the tests; in CI
    as root, fail."""
    why = machine.missing()
    if why and os.environ.get("CI") == "true" and os.getuid() == 0:
        pytest.fail(f"the one-machine Slurm is part of CI: {why}")
    if why:
        pytest.skip(f"the one-machine Slurm cannot be started: {why}")
    folder = Path(tempfile.mkdtemp(prefix="trial"))
    folder.chmod(0o755)
    cluster = Trial(folder)
    try:
        yield cluster
    finally:
        cluster.do("stop", "--purge")
        shutil.rmtree(folder)


def test_a_port_in_use_is_named(trial):
    """If a port is in use, does `start` name the daemon and the port?"""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", trial.port))
        s.listen()
        result = trial.do("start", "--description", trial.folder / "trial.toml")
    assert result.returncode == 1
    assert re.search(rf"slurmctld .*:{trial.port}\b", result.stderr) and "Traceback" not in result.stderr


def test_start(trial):
    """Does `start` start a Slurm with two idle nodes, and print the `export` command that a shell needs?"""
    assert trial.start().splitlines()[-1] == f"export SLURM_CONF={trial.state}/slurm.conf"
    assert trial.ask("sinfo", "-h", "-N", "-p", "short", "-o", "%N %T").split("\n") == [
        "trial1 idle",
        "trial2 idle",
    ]
    assert trial.do("status").returncode == 0


def test_two_ranks_on_two_nodes(trial):
    """Do two tasks start on two nodes, each with a GPU assigned by Slurm?"""
    result = trial.ask(
        "srun", "-N2", "-n2", "--gpus-per-node=1", "sh", "-c", "echo $(hostname) $CUDA_VISIBLE_DEVICES"
    )
    nodes = ["trial1", "trial2"] if machine._namespaces() else [socket.gethostname()] * 2
    assert sorted(result.split("\n")) == [f"{n} 0" for n in nodes]


def test_no_rank_leaves_a_barrier_before_all_arrive(trial):
    """Does PMIx's barrier, which MPI_Init uses, wait for a rank that is late?"""
    if not ctypes.util.find_library("pmix"):
        pytest.skip("no libpmix here")
    (trial.folder / "late.py").write_text(LATE)
    lines = trial.ask("srun", "--mpi=pmix", "-N2", "-n2", sys.executable, "-S", "late.py").split("\n")
    came, left = zip(*(map(float, line.split()) for line in lines), strict=True)
    assert max(came) - min(came) > 0.5 and min(left) >= max(came)


def test_nothing_listens_outside_loopback(trial):
    """Do all daemons listen only on loopback sockets?"""
    if not machine._namespaces():
        pytest.skip("no namespaces here: the daemons listen on all addresses, and say so")
    pids = {n: p for n, p in trial.pids().items() if n != "munged"}
    open_at = {
        n: [c.laddr for c in psutil.Process(p).net_connections() if c.status == "LISTEN"]
        for n, p in pids.items()
    }
    assert {ip for sockets in open_at.values() for ip, _ in sockets} == {"127.0.0.1"}
    assert open_at["mariadbd"] == [] and len(open_at["slurmctld"]) == 1


def test_a_students_gpus_are_limited(trial):
    """Does a job over the GPU limit stay in the queue for that reason, and does one within the limit run? Is
    a user without an account refused?"""
    job = trial.batch("true", "-N2", "--gpus=3", user=STUDENT)
    wait(
        "AssocGrpGRES", lambda: trial.ask("squeue", "-h", "-j", job, "-o", "%T %r") == "PENDING AssocGrpGRES"
    )
    assert trial.ask("srun", "-N2", "--gpus-per-node=1", "id", "-un", user=STUDENT).split() == [STUDENT] * 2
    assert trial.ask("squeue", "-h", "-j", job, "-o", "%T") == "PENDING"
    trial.ask("scancel", job)
    refused = trial.ask("srun", "true", user=STRANGER, check=False)
    assert refused.returncode and "Invalid account" in refused.stderr


def test_memory_is_a_limit(trial):
    """If a task uses more memory than its job requested, is it killed, and does the accounting show the
    reason?"""
    if machine.memory("auto")[0] == "polling":
        pytest.skip("no cgroups here: memory is polled, and such a job ends as FAILED")
    take = f"{sys.executable} -S -c 'bytearray(300 << 20)'"
    small, large = trial.batch(take, "--mem=400M"), trial.batch(take, "--mem=100M")
    wait(
        "the end of both",
        lambda: trial.accounted(small) + trial.accounted(large) == ["COMPLETED", "OUT_OF_MEMORY"],
    )


def test_accounting(trial):
    """Does sacct list a job's user, command, number of GPUs and exit code?"""
    job = trial.batch("exit 3", "--gpus=1", user=STUDENT)
    wait("its end", lambda: trial.accounted(job) == ["FAILED"])
    fields = trial.accounted(job, "User,Account,ExitCode,AllocTRES")[0].split("|")
    trial.ended = job
    assert fields[:3] == [STUDENT, "course", "3:0"] and "gres/gpu=1" in fields[3]


def test_short_preempts_long_which_comes_back(trial):
    """Does a job in `short` start at once by preempting one in `long`, which runs again later?"""
    marks = trial.folder / "marks"
    wrap = f"echo ${{SLURM_RESTART_COUNT:-0}} >>{marks}; sleep 600"
    job = trial.batch(wrap, "-p", "long", "-N2", "--exclusive")
    wait("its start", marks.exists)
    assert trial.ask("srun", "-p", "short", "-N2", "echo", "ran").split() == ["ran", "ran"]
    again = (["PREEMPTED", "PENDING"], ["PREEMPTED", "RUNNING"])
    wait("both its runs in the accounting", lambda: trial.accounted(job) in again)
    wait("a second start", lambda: marks.read_text() == "0\n1\n")
    trial.ask("scancel", job)


def test_starting_twice_changes_nothing(trial):
    """Does a second start leave all processes unchanged?"""
    before = trial.pids()  # without munged, if the machine already runs one
    steps = 5 if "munged" in before else 4
    assert trial.start().count("runs already") == steps
    assert trial.pids() == before


def test_students_are_added_while_it_runs_and_other_changes_refused(trial):
    """Can a student be added while Slurm runs? Is a changed number of nodes refused, with the advice to stop
    Slurm first?"""
    other = trial.folder / "other.toml"
    other.write_text(trial.text.replace('"]', f'", "{STRANGER}"]'))
    assert trial.do("start", "--description", other).returncode == 0
    assert trial.ask("srun", "id", "-un", user=STRANGER) == STRANGER
    other.write_text(trial.text.replace("nodes = 2", "nodes = 3"))
    result = trial.do("start", "--description", other)
    assert result.returncode == 1 and "Stop first" in result.stderr


def test_a_crash_is_repaired(trial):
    """If three daemons are killed with SIGKILL, does `status` name them, does `start` restart them, and does
    a running job survive?"""
    job, before = trial.batch("sleep 300", "-w", "trial1"), trial.pids()
    wait("its start", lambda: trial.ask("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING")
    # slurmctld saves a job some seconds after its submission; a crash loses jobs that are not yet saved. No
    # other job may be recorded as running: if it ended meanwhile, it would keep its resources for minutes.
    other, saved = trial.batch("true"), trial.state / "controller/job_state"
    wait("the end of the other", lambda: trial.accounted(other) == ["COMPLETED"])
    wait(
        "it to be over",
        lambda: trial.ask("squeue", "-h", "-t", "all", "-j", other, "-o", "%T") == "COMPLETED",
    )
    seen = time.time()
    # slurmctld saves only changes
    trial.ask("scontrol", "update", f"JobId={job}", "Comment=news")
    wait("slurmctld to write it down", lambda: saved.exists() and saved.stat().st_mtime > seen)
    for name in ("slurmctld", "mariadbd", "trial2"):
        os.kill(before[name], 9)
    report = trial.do("status")
    assert report.returncode == 1
    for name in ("slurmctld", "mariadbd", "trial2"):
        assert f"dead (was process {before[name]})" in report.stdout
    trial.start()
    after = trial.pids()
    assert {n for n in after if after[n] != before[n]} == {"slurmctld", "mariadbd", "trial2"}
    assert trial.ask("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"
    assert trial.ask("srun", "-N2", "echo", "again").split() == ["again"] * 2


def test_stop_leaves_no_process_even_without_slurmctld(trial):
    """Does `stop` end jobs, slurmstepd and a task that left its session, even if slurmctld was killed?"""
    job = trial.batch("setsid sleep 300 & srun sleep 300", "-N2")
    wait("its steps", lambda: len(trial.ask("squeue", "-h", "-s", "-j", job).split("\n")) >= 2)
    wait("its tasks", lambda: "sleep 300" in left(trial.state))
    os.kill(trial.pids()["slurmctld"], 9)
    assert trial.do("stop").returncode == 0
    wait("the end of all", lambda: not left(trial.state), 60)  # the commands themselves would take 300 s
    assert trial.do("status").returncode == 3
    assert trial.do("stop").returncode == 0  # stopping twice is harmless


def test_a_daemon_that_fails_shows_its_log(trial):
    """If slurmctld fails to start, does the error message contain its log?"""
    name = trial.state / "controller/clustername"
    true = name.read_text()
    name.write_text("another")
    result = trial.do("start")
    name.write_text(true)
    assert (
        result.returncode == 1
        and "slurmctld ended" in result.stderr
        and "CLUSTER NAME MISMATCH" in result.stderr
    )


def test_the_state_is_kept_and_purged_when_asked(trial):
    """After a stop and a start, do job numbers continue, and does the accounting still list earlier jobs?
    Does `stop --purge` remove everything?"""
    trial.start()
    job = trial.batch("sleep 300")
    wait("its start", lambda: trial.ask("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING")
    assert trial.do("stop").returncode == 0
    trial.start()
    assert int(trial.batch("true")) > int(job)
    wait("the cancelled job in the accounting", lambda: trial.accounted(job)[-1].startswith("CANCELLED"))
    assert trial.accounted(trial.ended) == ["FAILED"]
    assert trial.do("stop", "--purge").returncode == 0
    assert not trial.state.exists()
    wait("the end of all", lambda: not left(trial.state), 60)
    assert [*machine.CGROUPS.glob("*/slurm_trial*"), *machine.CGROUPS.glob("system.slice/trial*")] == []
