"""Backends for jobs, `local` (processes on this machine) and `slurm`, and the state of a job from both.

`base` is their interface.
"""

from __future__ import annotations

import time

from cluster.slurm.client import no_slurm
from cluster.system import settings

from ..errors import BackendError
from ..run.run_folder import Run
from ..run.status import Status, ended, lost
from .base import Backend

CUT_OFF = 30.0  # seconds until Slurm lists an accepted job whose submission was interrupted


def get(name: str) -> Backend:
    """Return a backend, "local" or "slurm"."""
    from .local import Local
    from .slurm import Slurm

    return {"local": Local, "slurm": Slurm}[name]()


def choose(requested: str) -> tuple[str, str]:
    """Return (backend, reason as text). $CLUSTER_BACKEND replaces "auto".

    Raises BackendError if Slurm is requested and not available.
    """
    why = ""
    if requested == "auto" and (named := settings.text("CLUSTER_BACKEND")) != "auto":
        requested, why = named, ", set by CLUSTER_BACKEND"
        if requested not in ("local", "slurm"):
            raise BackendError(
                f"CLUSTER_BACKEND={requested!r} is not valid.", "Set it to 'auto', 'local' or 'slurm'."
            )
    if requested == "local":
        return "local", why
    missing = no_slurm()
    if requested == "slurm" and missing:
        raise BackendError(f"Slurm is not available: {missing}.", "Use backend='local', or see doctor().")
    if requested == "slurm":
        return "slurm", why
    return ("local", f" ({missing})") if missing else ("slurm", "")


def status_of(run: Run) -> Status:
    """Return the status of a job from its folder, or from the backend while no end is recorded there."""
    if final := ended(run):
        return final
    backend = run.backend_record()
    if backend is None:
        # the folder exists, but the launcher has not recorded itself in it yet
        if run.whole_sweep.is_held():
            return Status("pending", "It is being started.")
        submitted_with = Run(run.path.parent) if run.is_item else run
        recovered = get(run.record["backend"]).recover(submitted_with)
        backend = run.backend_record()
    if backend is not None:
        return get(backend["backend"]).status(run)
    if final := ended(run):
        return final
    if recovered is None:
        what = "Its submission was interrupted, and Slurm does not report whether it has the job."
        return Status("pending", what, "Wait: the job itself may be running.", source="slurm")
    if run.record["backend"] == "slurm" and time.time() - run.run_json.stat().st_mtime < CUT_OFF:
        what = "Its submission was interrupted; Slurm may list it soon."
        return Status("pending", what, source="cut off")
    return lost(run)


def settled_status(run: Run) -> Status:
    """Return `status_of` after waiting until it is known whether an interrupted submission reached Slurm."""
    while (now := status_of(run)).source == "cut off":
        time.sleep(0.1)
    return now
