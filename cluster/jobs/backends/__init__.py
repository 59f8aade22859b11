"""Where jobs run: `local`, as processes on this machine, or `slurm`, behind one interface (`protocol`).

`choose` says which of the two runs a job, `status_of` how a job stands: by its folder, else by its backend.
"""

from __future__ import annotations

import time
from pathlib import Path

from cluster.slurm.client import no_slurm
from cluster.system import files, settings

from ..errors import BackendError
from ..folder import layout, sweeps
from ..folder.run_folder import RunFolder
from ..state.status import Status, ended, lost
from .protocol import Backend


def get(name: str) -> Backend:
    """The module of a backend, "local" or "slurm"."""
    from . import local, slurm

    return {"local": local, "slurm": slurm}[name]


def choose(requested: str) -> tuple[str, str]:
    """(backend, why, in words). $CLUSTER_BACKEND takes the place of "auto".

    Raises BackendError when Slurm is asked for and is not there.
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
        raise BackendError(
            f"There is no Slurm to submit to: {missing}.", "Use backend='local', or see doctor()."
        )
    if requested == "slurm":
        return "slurm", why
    return ("local", f" ({missing})") if missing else ("slurm", "")


CUT_OFF = 30.0  # seconds within which Slurm lists a job whose submission was cut off, if it has it


def status_of(folder: Path) -> Status:
    """The status of the job in a folder."""
    final = ended(folder)
    if final:
        return final
    backend = sweeps.backend(folder)
    if backend is None:
        run = files.read_json(RunFolder(folder).run_json)
        if layout.held(sweeps.sweep_of(folder)):  # between the folder's making and the launcher's first word
            return Status("pending", "It is being started.")
        found = get(run["backend"]).recover(folder.parent if sweeps.is_item(folder) else folder)
        backend = sweeps.backend(folder)
    if backend is None:
        if final := ended(folder):
            return final
        if found is None:
            what = "Its submission was cut off, and Slurm does not answer whether it has the job."
            return Status("pending", what, "Wait: the job itself may be running.", source="slurm")
        if run["backend"] == "slurm" and time.time() - RunFolder(folder).run_json.stat().st_mtime < CUT_OFF:
            what = "Its submission was cut off; Slurm may still be about to list it."
            return Status("pending", what, source="cut off")
        return lost(folder)
    return get(backend["backend"]).status(folder, backend)


def settled_status(folder: Path) -> Status:
    """As `status_of`, but waits until it is known whether a submission that was cut off reached Slurm."""
    while (now := status_of(folder)).source == "cut off":
        time.sleep(0.1)
    return now
