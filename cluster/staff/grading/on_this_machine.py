"""Workers as processes of this machine. They end when the coordinator ends, for whatever reason."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import cluster

if TYPE_CHECKING:
    from .dispatch import Dispatch

THREADS = 4  # maximum number of submissions that one worker process grades at a time


class Local:
    """Grade `jobs` submissions at a time on this machine."""

    kind, settle, largest = "local", 0.0, 10**6

    def __init__(self, jobs: int | None = None):
        jobs = jobs or len(os.sched_getaffinity(0))
        self.workers = min(jobs, THREADS)
        self.slots = max(1, jobs // self.workers)
        self.waiting: list[tuple[Dispatch, int]] = []  # (dispatch, number of the part)
        self.live: list[tuple[Dispatch, int, subprocess.Popen[bytes]]] = []

    def fit(self) -> None:
        """Do nothing: this machine accepts any number of items."""

    def start(self, dispatch: Dispatch) -> None:
        self.waiting += [(dispatch, number) for number in range(len(dispatch.plan["parts"]))]
        self.fill()

    def fill(self) -> None:
        """Start as many parts as fit."""
        while self.waiting and len(self.live) < self.slots:
            dispatch, number = self.waiting.pop(0)
            # -P: no module is imported from the current directory, which may be a student's.
            command = [
                sys.executable,
                "-P",
                "-m",
                "cluster.staff.grading.worker",
                str(dispatch.folder),
                str(number),
            ]
            env = os.environ | {"PYTHONPATH": path()}
            with open(dispatch.folder / f"part-{number}.log", "ab") as log:
                process = subprocess.Popen(
                    [*command, "--lifeline"], stdin=subprocess.PIPE, stdout=log, stderr=log, env=env
                )
            self.live.append((dispatch, number, process))

    def running(self, dispatch: Dispatch) -> set[int]:
        """Return the parts of a dispatch that are running or waiting."""
        for entry in [entry for entry in self.live if entry[2].poll() is not None]:
            close_pipe(entry[2])
            self.live.remove(entry)
        self.fill()
        there = [*self.waiting, *((of, number) for of, number, _ in self.live)]
        return {number for of, number in there if of is dispatch}

    def end(self, dispatch: Dispatch) -> None:
        """End the remaining parts of a dispatch."""
        self.waiting = [entry for entry in self.waiting if entry[0] is not dispatch]
        for entry in [entry for entry in self.live if entry[0] is dispatch]:
            with contextlib.suppress(OSError):
                close_pipe(entry[2])
            try:
                entry[2].wait(10)
            except subprocess.TimeoutExpired:
                entry[2].kill()
                entry[2].wait()
            self.live.remove(entry)

    def status(self) -> str:
        """Describe the workers that have not finished."""
        return ""


def close_pipe(process: subprocess.Popen[bytes]) -> None:
    """Close the worker's standard input, which signals that this process has ended."""
    if process.stdin:
        process.stdin.close()


def path() -> str:
    """Return PYTHONPATH for a worker, with this package before all others."""
    here = str(Path(cluster.__file__).parents[1])
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
