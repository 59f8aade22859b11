"""The Slurm to measure on: a running one, or the tests' own, which runs only while measuring."""

from __future__ import annotations

import contextlib
import functools
import subprocess
from collections.abc import Iterator
from importlib import metadata

import pytest

from cluster.jobs.errors import BackendError
from cluster.slurm import client
from cluster.staff.one_machine_slurm import machine

from .. import slurm


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Yield a description of the Slurm to measure on. Inside the block, Slurm's commands use it."""
    with contextlib.ExitStack() as stack:
        words = "the Slurm that answers here"
        if client.no_slurm():
            if why := machine.missing():
                raise BackendError(f"There is no Slurm to measure on: {why}.", "Start one: make slurm.")
            own, words = slurm.Own(), "a separate single-host Slurm"
            stack.callback(own.stop)
            own.start()
            own.enter(stack.enter_context(pytest.MonkeyPatch.context()))
        versions()
        yield words


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of submitit and of Slurm, which reports its version only with a configuration."""
    fields = subprocess.run(["sbatch", "--version"], capture_output=True, text=True).stdout.split()
    return {"slurm": fields[-1], "submitit": metadata.version("submitit")} if fields else {}
