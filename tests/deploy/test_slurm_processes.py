"""Test how processes are identified and ended, and how the state folder is locked, written and purged. Slurm
is not needed."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cluster.staff import services
from cluster.staff.one_machine_slurm import machine, operate
from cluster.staff.one_machine_slurm.description import Cluster
from cluster.staff.one_machine_slurm.slurm_folder import remove
from cluster.staff.services import HubError, process_ledger, tail
from cluster.system import files, processes

from .. import ROOT

# The fixture `child` waits until the program prints `runs`: during exec, Linux shows no environment of a
# process for an instant.
SLEEP = [sys.executable, "-I", "-S", "-c", "import time; print('runs', flush=True); time.sleep(60)"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo runs; sleep 60"]


@pytest.fixture
def child():
    """Yield a function that starts a process and waits until it prints `runs`. The processes are killed after
    the test."""
    started = []

    def start(argv=SLEEP, **options):
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, **options))
        assert started[-1].stdout.readline() == b"runs\n"
        return started[-1]

    yield start
    for p in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        p.stdout.close()


def wait(true):
    """Wait until `true()` is true."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_reused_pid_is_not_ours(child):
    """Is a process left alone if it has the recorded ID but a different start time or boot ID?"""
    p = child()
    true = processes.identify(p.pid)
    for wrong in ({"start": true["start"] - 1}, {"boot": "another"}):
        assert not processes.alive(true | wrong)
        processes.end([true | wrong], 0.2)
        assert p.poll() is None
    processes.end([true], 5)
    assert p.wait(5) == -15


def test_a_zombie_is_dead(child):
    """Is a zombie, a process that ended but was not reaped, considered dead?"""
    p = child(["echo", "runs"])
    wait(lambda: psutil.Process(p.pid).status() == psutil.STATUS_ZOMBIE)
    assert processes.identify(p.pid) is None


def test_one_that_ignores_sigterm_is_killed(child):
    """Is a process that ignores SIGTERM killed after a finite time?"""
    p = child(STUBBORN)
    processes.end([processes.identify(p.pid)], 0.3)
    assert p.wait(5) == -9


def test_spawned_outlives_its_parent_and_logs(tmp_path):
    """Does a daemon outlive the process that started it, in its own session and with its output in its
    log?"""
    record = processes.spawn(["sh", "-c", "echo here; exec sleep 60"], {"PATH": "/bin"}, tmp_path / "log")
    try:
        wait(lambda: tail(tmp_path / "log") == "    here")
        assert processes.alive(record) and os.getsid(record["pid"]) == record["pid"]
    finally:
        processes.end([record], 5)
        os.waitpid(record["pid"], 0)
    assert not processes.alive(record)


def test_ledger(tmp_path):
    """Does the process list keep entries that were added and not dropped, and leave no partial file?"""
    ledger = processes.Ledger(tmp_path / "p.json")
    assert ledger.all() == {}
    ledger.put("a", {"pid": 1})
    ledger.put("b", {"pid": 2})
    ledger.drop("a")
    assert processes.Ledger(tmp_path / "p.json").all() == {"b": {"pid": 2}}
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def test_a_ledger_of_an_earlier_version_is_read(tmp_path, child):
    """If an older version recorded a process by ID, start time in clock ticks and boot ID, is the process
    recognised, first as alive and then as ended?"""
    p = child()
    ticks = Path(f"/proc/{p.pid}/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    text = f'{{\n "hub": {{\n  "pid": {p.pid},\n  "start": {ticks},\n  "boot": "{boot}"\n }}\n}}\n'
    (tmp_path / "processes.json").write_text(text)
    record = process_ledger(tmp_path).all()["hub"]
    assert processes.alive(record)
    processes.end([record], 5)
    assert p.wait(5) == -15 and not processes.alive(record)


def test_a_lock_goes_on_to_a_child(tmp_path):
    """If a child process inherits a lock's file, does it hold the lock until it ends?"""
    path = tmp_path / "lock"
    with files.lock_file(path, mode=0o600) as file:
        child = subprocess.Popen(["sleep", "60"], pass_fds=[file.fileno()])
    try:
        with files.lock(path, wait=False) as held:
            assert not held and path.stat().st_mode & 0o777 == 0o600
    finally:
        child.kill()
        child.wait()
    with files.lock(path, wait=False) as held:
        assert held


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_students_cannot_lock_a_state_folder(tmp_path):
    """Is a world-writable lock file of an earlier version replaced with one that students cannot open? Is
    waiting for the lock reported, and limited in time?"""
    state = tmp_path / "state"
    state.mkdir()
    for folder in (state, tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    lock, lines = state / "lock", []
    lock.touch()
    lock.chmod(0o666)
    theirs = subprocess.Popen(["flock", lock, "sleep", "60"], user="nobody")
    try:
        time.sleep(0.5)
        with services.locked(state, lines.append, 1.0):
            assert lines == [], "it waited for a student"
            refused = subprocess.run(["flock", "-n", lock, "true"], user="nobody", capture_output=True)
            assert refused.returncode != 0 and b"denied" in refused.stderr
            with (
                pytest.raises(HubError, match=rf"process {os.getpid()} \("),
                services.locked(state, lines.append, 1.0),
            ):
                pass
            assert len(lines) == 1 and f"process {os.getpid()}" in lines[0]
    finally:
        theirs.kill()
        theirs.wait()


BUSY = """
import pathlib, sys, time
while time.process_time() < 6: pass
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


def test_a_daemon_that_computes_is_waited_for(tmp_path, monkeypatch):
    """If a daemon is slow to answer but uses CPU time, does `start` wait longer than its limit and report
    this? Does `start` fail at the limit if the daemon is idle?"""
    monkeypatch.setattr(services, "SILENT", 1.0)
    ready, lines = tmp_path / "ready", []

    def daemon(name, code, patience=1.0):
        argv = [sys.executable, "-S", "-c", code, str(ready)]
        return services.Daemon(name, argv, {}, tmp_path / f"{name}.log", ready.exists, patience=patience)

    try:
        with pytest.raises(HubError, match=r"^idle .*\d+ s \(.* 0\.\d s\)"):
            services.start_group([daemon("idle", "import time; time.sleep(60)")], tmp_path, lines.append)
        services.start_group([daemon("busy", BUSY, 5.0)], tmp_path, lines.append)
        reports = [line for line in lines if "busy:" in line]
        assert re.search(r" \d+ s, .* [0-6]\.\d s ", reports[0]), lines
        with pytest.raises(HubError, match=r"^gone "):
            ready.unlink()
            services.start_group([daemon("gone", "")], tmp_path, lines.append)
    finally:
        processes.end([r for r in process_ledger(tmp_path).all().values() if processes.alive(r)])


def test_all_ports_that_are_taken_are_named(tmp_path, monkeypatch):
    """Are all ports that are in use reported at once, before any daemon starts? Are a running daemon's own
    ports ignored?"""
    monkeypatch.setattr(services, "CLOSING", 0.2)
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [one.getsockname()[1] for one in taken]
        group = [
            services.Daemon(f"part{n}", ["true"], {}, tmp_path / "log", lambda: True, port)
            for n, port in enumerate(ports)
        ]
        process_ledger(tmp_path).put("part1", processes.identify(os.getpid()))
        with pytest.raises(HubError) as caught:
            services.start_group(group, tmp_path, lambda line: None)
    text = str(caught.value)
    assert re.search(rf"part0 .*:{ports[0]}; part2 .*:{ports[2]}", text)
    assert f"`ss -ltnp sport = :{ports[0]} or sport = :{ports[2]}`" in text
    assert str(ports[1]) not in text and list(process_ledger(tmp_path).all()) == ["part1"]


def test_a_jobs_process_is_known_by_its_environment(tmp_path, child):
    """Is a job's process identified by its environment variables? Is a user's shell, which has only
    SLURM_CONF, left alone?"""
    conf = tmp_path / "slurm.conf"
    env = os.environ | {"SLURM_CONF": str(conf)}
    child(env=env)
    task = child(env=env | {"SLURM_JOB_ID": "7"})
    assert [r["pid"] for r in processes.slurm_processes(conf)] == [task.pid]


PROGRAMS = {  # written by hand, from Debian 12's packages
    "slurm-wlm": ["slurmctld", "slurmd", "srun"],
    "slurmdbd": ["slurmdbd"],
    "mariadb-server-core": ["mariadbd", "mariadb-install-db"],
    "mariadb-client-core": ["my_print_defaults"],
    "munge": ["munged", "munge"],
    "util-linux": ["setpriv", "unshare"],
}


@pytest.mark.parametrize("package", PROGRAMS)
def test_a_package_that_is_not_installed_is_named(package, tmp_path, monkeypatch):
    """If programs are missing, does the message name exactly the packages that contain them? Does the setup
    script install these packages?"""
    for other in PROGRAMS.keys() - {package}:
        for name in PROGRAMS[other]:
            (tmp_path / name).touch(0o755)
    monkeypatch.setattr(machine, "PATH", str(tmp_path))
    assert machine.missing().endswith(f"--no-install-recommends {package}")
    text = (ROOT / "cluster/setup.sh").read_text().replace('"', " ").split()
    assert package in text or package == "util-linux"  # util-linux is part of every Debian


RETITLED = """
import ctypes, time
first = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")[0]
ctypes.memset(first, 0, len(b"TITLE=slurmstepd"))
print("runs", flush=True)
time.sleep(60)
"""


def test_a_process_that_has_written_its_title_over_its_environment_is_found(tmp_path, child):
    """Is a process found if it has overwritten the start of its environment with its title, as slurmstepd
    does?"""
    conf = tmp_path / "slurm.conf"
    env = {"TITLE": "slurmstepd", "SLURM_CONF": str(conf), "SLURM_JOB_ID": "7"}
    step = child([sys.executable, "-I", "-c", RETITLED], env=env)
    assert Path(f"/proc/{step.pid}/environ").read_bytes().startswith(b"\0")
    assert [r["pid"] for r in processes.slurm_processes(conf)] == [step.pid]


@pytest.mark.parametrize("folder", ["relative", "/has space", "/x%n", "/" + "x" * 60, "/a,b"])
def test_state_folders_that_cannot_serve(folder):
    """Is a state folder refused if Slurm would misread its path, or if the path is too long for sockets?"""
    with pytest.raises(HubError, match="state folder"):
        machine.look(Cluster(), Path(folder))


def test_a_state_folder_that_users_cannot_enter():
    """Is a state folder inside a private folder refused, with the name of the private folder?"""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="private") as private, pytest.raises(HubError, match=private):
        machine.look(Cluster(), Path(private) / "slurm")


def test_nothing_else_is_purged(tmp_path):
    """Does a purge keep and report files that the single-host Slurm did not create?"""
    (tmp_path / "slurm.conf").touch()
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(HubError, match="more than"):
        remove(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_status_of_nothing(tmp_path):
    """For a folder without a cluster, does `status` say so and return 3?"""
    code, text = operate.report(tmp_path)
    assert code == 3 and str(tmp_path) in text
