"""Ranks forked from a process that has imported the libraries: they behave like ranks started as new
processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cluster.jobs import errors, submit
from cluster.jobs.backends import forked_ranks

SERVER = """
import json, socket, sys
from cluster.jobs.backends import forked_ranks
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(8)
sys.modules["held"] = json  # what only a forked rank has
print("ready", flush=True)
forked_ranks.serve(listener)
"""


@pytest.fixture
def server(tmp_path, runs, monkeypatch):
    """A process that forks ranks for launchers. Only ranks forked from it have the module `held`."""
    place = str(tmp_path / "ranks")
    command = [sys.executable, "-c", SERVER, place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        monkeypatch.setenv(forked_ranks.VARIABLE, place)
        yield process
        process.kill()


def about():
    print("printed", os.environ["CLUSTER_LAUNCHER"])
    return "held" in sys.modules, os.getcwd(), os.environ.get("MINE"), sys.stdout.fileno()


def fails(how):
    os.kill(os.getpid(), signal.SIGSEGV) if how == "signal" else sys.exit(3)


def sleeps():
    time.sleep(600)


def test_a_forked_rank_is_a_rank(server):
    """Does a forked rank have the job's environment, working directory and log? Is each kind of ending
    reported?"""
    job = submit(about, env={"MINE": "1"})
    assert job.result() == (True, os.getcwd(), "1", 1) and "printed local" in job.logs(0)
    with pytest.raises(errors.RankKilled, match="SIGSEGV"):
        submit(fails, "signal").result()
    with pytest.raises(errors.RankFailed, match="3"):
        submit(fails, "exit").result()
    job = submit(sleeps, ranks_per_node=1)
    job.cancel()
    with pytest.raises(errors.Cancelled):
        job.result()


def test_a_rank_ends_with_its_launcher(server):
    job = submit(sleeps)
    while not (job.folder / "ready-0.json").exists():
        time.sleep(0.05)
    forked = psutil.Process(server.pid).children(recursive=True)  # the supervisor, the rank, and its child
    os.kill(json.loads((job.folder / "backend.json").read_text())["pid"], signal.SIGKILL)
    assert len(forked) == 3 and psutil.wait_procs(forked, 30)[1] == []
    with pytest.raises(errors.JobError):
        job.result()


def test_where_nobody_answers_ranks_are_started(server):
    server.kill()
    server.wait()
    assert submit(about).result()[0] is False


def holds(*names):
    return [name in sys.modules for name in names]


def test_ranks_are_forked_from_a_process_that_is_offered(runs, monkeypatch):
    """Within `offered`, are ranks forked from a process that has imported the given modules? Afterwards, has
    the process ended, and is the environment restored?"""
    monkeypatch.setenv(forked_ranks.VARIABLE, "elsewhere")
    with forked_ranks.offered(["wave", "no_such_module"]) as process:
        place = Path(os.environ[forked_ranks.VARIABLE])
        assert place.parent.stat().st_mode & 0o777 == 0o700  # the socket can be used to run code
        assert submit(holds, "wave", "tensorflow").result() == [True, False]
    assert (
        os.environ[forked_ranks.VARIABLE] == "elsewhere" and not place.exists() and process.poll() is not None
    )
    assert submit(holds, "wave").result() == [False]


def test_what_is_offered_ends_with_who_offers_it(tmp_path):
    """If the process that called `offered` is killed, does the process that forks the ranks end, too?"""
    code = (
        "from cluster.jobs.backends import forked_ranks\n"
        "with forked_ranks.offered([]) as process:\n    print(process.pid, flush=True)\n    input()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        server = psutil.Process(int(process.stdout.readline()))
        process.kill()
    assert psutil.wait_procs([server], 30)[1] == []
