"""Workers on this machine: processes, which end when this one ends, for whatever reason, or a thread."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import cluster

from . import worker
from .driver import Backend, Dispatch

if TYPE_CHECKING:
    from ..engine import Engine

THREADS = 4  # maximum number of submissions that one worker process grades at a time


class Local(Backend):
    """Grade `jobs` submissions at a time (default: one per core) on this machine.

    engine: a running autograder to use in this process, instead of separate processes with one each.
    """

    kind, pause, settle, largest = "local", 0.1, 0.0, 10**6

    def __init__(self, jobs: int | None = None, engine: Engine | None = None):
        jobs = jobs or len(os.sched_getaffinity(0))
        self.engine = engine
        self.workers = jobs if engine else min(jobs, THREADS)
        self.slots = max(1, jobs // self.workers)
        self.pool: ThreadPoolExecutor | None = None
        self.parts: list[Future[None]] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, dispatch: Dispatch) -> None:
        """Start as many parts as fit; the others follow."""
        self.pool = ThreadPoolExecutor(self.slots)
        numbers = range(len(dispatch.parts))
        self.parts = [self.pool.submit(self.work, dispatch.folder, number) for number in numbers]

    def work(self, dispatch: Path, number: int) -> None:
        """Grade one part of a dispatch."""
        if self.engine:
            worker.work(dispatch, number, self.engine)
            return
        # -P: no module is imported from the current directory, which may be a student's.
        command = [sys.executable, "-P", "-m", worker.__name__, str(dispatch), str(number), "--lifeline"]
        package = str(Path(cluster.__file__).parents[1])
        env = os.environ | {"PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
        with open(dispatch / f"part-{number}.log", "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=env)
        self.processes.append(process)
        process.wait()

    def running(self, dispatch: Dispatch) -> set[int]:
        """Return the parts of the dispatch that are running or waiting."""
        return {number for number, part in enumerate(self.parts) if not part.done()}

    def end(self) -> None:
        """End the remaining parts."""
        if self.pool:
            self.pool.shutdown(wait=False, cancel_futures=True)
        for process in self.processes:
            if process.stdin:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
