"""The Slurm to measure on: a running one, or the benchmark's own, which runs only while measuring."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from cluster.jobs.errors import BackendError
from cluster.slurm import client
from cluster.staff.one_machine_slurm import machine
from cluster.staff.one_machine_slurm.description import Cluster
from cluster.staff.one_machine_slurm.operate import start_slurm, stop_slurm

PORT = 27110  # the first of the benchmark's ports, which differ from the ports of `make slurm`


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Yield a description of the Slurm to measure on. Inside the block, SLURM_CONF selects it for Slurm's
    commands.
    """
    before = os.environ.get("SLURM_CONF")
    with contextlib.ExitStack() as stack:
        if client.no_slurm() is None:
            conf, words = client.conf(), "the Slurm that answers here"
        else:
            conf, words = stack.enter_context(_own()), "a separate single-host Slurm"
        if conf:
            os.environ["SLURM_CONF"] = str(conf)
        try:
            versions()
            yield words
        finally:
            os.environ.pop("SLURM_CONF", None)
            os.environ.update({"SLURM_CONF": before} if before else {})


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of submitit and of Slurm, which reports its version only with a configuration."""
    fields = subprocess.run(["sbatch", "--version"], capture_output=True, text=True).stdout.split()
    return {"slurm": fields[-1], "submitit": metadata.version("submitit")} if fields else {}


@contextlib.contextmanager
def _own() -> Iterator[Path]:
    if why := machine.missing():
        raise BackendError(f"There is no Slurm to measure on: {why}.", "Start one: make slurm.")
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))  # short, because it contains sockets
    folder.chmod(0o755)
    state = folder / "slurm"
    try:
        start_slurm(Cluster(name="bench", node="bench", port=PORT), state, lambda line: None)
        yield state / "slurm.conf"
    finally:
        stop_slurm(state, lambda line: None, purge=True)
        shutil.rmtree(folder)
