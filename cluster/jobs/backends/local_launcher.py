"""The local backend's launcher: `python -m cluster.jobs.backends.local_launcher FOLDER`.

It starts the ranks and waits for them to end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster.system import files, settings
from cluster.system.processes import die_with_parent

from ..run import private, status
from ..run.layout import slug
from ..run.run_folder import Run
from . import forked_ranks, local

GRACE = 2.0  # seconds for the other ranks to exit by themselves after one has failed
PATIENCE = 3.0  # seconds between SIGTERM and SIGKILL


def main(folder: Path, lock: int) -> int:
    """Detach, run the ranks and record the end. `lock`: the lock's file descriptor, from the submission."""
    if (code := detach(folder, lock)) is not None:
        return code
    run = Run(folder)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    started = 1 if run.record["controller"] == "mpi" else run.ranks
    with contextlib.ExitStack() as kept:
        gpus = _take_gpus(local.gpus_wanted(run.record), kept)
        processes = [_start(run, rank, gpus) for rank in range(started)]
        status.write_end(run, _watch(run, processes, signals))
    return 0


def _take_gpus(wanted: int, kept: contextlib.ExitStack) -> list[str]:
    """Return so many GPUs, first those that no other job of this user has taken; `kept` gives them back."""
    if not wanted:
        return []
    folder = Path(tempfile.gettempdir()) / f"cluster-gpus-{os.getuid()}"
    free = dict.fromkeys(local.gpus(), False)
    with contextlib.suppress(OSError):  # the folder is another user's, so it is unknown which are taken
        folder.mkdir(mode=0o700, exist_ok=True)
        private.check_folder(folder)
        for gpu in free:
            if sum(free.values()) < wanted:
                free[gpu] = kept.enter_context(files.lock_file(folder / slug(gpu), wait=False)) is not None
    chosen = sorted(free, key=lambda gpu: not free[gpu])
    return [chosen[i % len(chosen)] for i in range(wanted)] if chosen else []


def detach(folder: Path, lock: int) -> int | None:
    """Continue in a new process, named in backend.json; return None there, but an exit code in this one."""
    ready, tell = os.pipe()
    if os.fork():  # the original exits once backend.json exists, so its caller has no child to reap
        os.close(tell)
        return 0 if os.read(ready, 1) else 1
    os.close(ready)
    os.set_inheritable(lock, False)  # the ranks must not inherit the lock
    here = {"backend": "local", "host": socket.gethostname(), "pid": os.getpid()}
    files.write_json(Run(folder).backend, here)
    os.write(tell, b"1")
    os.close(tell)
    return None


def _start(run: Run, rank: int, gpus: list[str]) -> subprocess.Popen | forked_ranks.Rank:
    record, options = run.record, run.record["options"]
    command = [sys.executable, "-P", "-u", "-m", "cluster.jobs.rank.main", str(run.path)]
    layout = ",".join([str(options["ranks_per_node"])] * options["nodes"])
    env = os.environ | {"CLUSTER_LAUNCHER": "local", "CLUSTER_RANK": str(rank), "CLUSTER_LAYOUT": layout}
    env["CLUSTER_ATTEMPT"] = str(record["attempt"])
    if gpus:
        each = (
            len(gpus) if record["controller"] == "mpi" else len(gpus) // run.ranks
        )  # mpirun starts all ranks
        env[local.GPUS] = ",".join(dict.fromkeys(gpus[rank * each : (rank + 1) * each]))
        env.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # other programs use this machine's GPUs, too
    if record["controller"] == "mpi":
        env["CLUSTER_LAUNCHER"] = "mpirun"
        env["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"  # many containers forbid the default, CMA
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        command = ["mpirun", *root, "-n", str(run.ranks), "--oversubscribe", "--bind-to", "none", *command]
    elif settings.text(forked_ranks.VARIABLE, env):
        with contextlib.suppress(OSError):
            return forked_ranks.Rank(run.path, env)
    return subprocess.Popen(
        command, env=env, cwd=run.path, stdin=subprocess.DEVNULL,
        start_new_session=True, preexec_fn=die_with_parent,  # safe, because this process has one thread
    )  # fmt: skip


def _watch(run: Run, processes: list[subprocess.Popen | forked_ranks.Rank], signals: list[int]) -> str | None:
    """Wait for all ranks; return the ending if the launcher itself caused it."""
    deadline = time.monotonic() + run.record["options"]["time"]
    failed_at = None
    while any(p.poll() is None for p in processes):
        cancelled = signals or run.cancel.exists()
        if cancelled or time.monotonic() > deadline:
            _kill(processes)
            return "Cancelled" if cancelled else "OutOfTime"
        if failed_at is None and any(p.poll() for p in processes):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > GRACE:
            _kill(processes)
        time.sleep(0.05)
    _kill(processes)  # processes that the ranks may have left behind
    return None


def _kill(processes: list[subprocess.Popen | forked_ranks.Rank]) -> None:
    for number, patience in [(signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)]:
        for p in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(p.pid, number)
        until = time.monotonic() + patience
        while any(p.poll() is None for p in processes) and time.monotonic() < until:
            time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
