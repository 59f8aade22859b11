"""Backends for jobs: `local`, as processes on this machine, or `slurm`, behind one interface (`protocol`)."""

from __future__ import annotations

from cluster.slurm.client import no_slurm
from cluster.system import settings

from ..errors import BackendError
from .protocol import Backend


def get(name: str) -> Backend:
    """Return the module of a backend, "local" or "slurm"."""
    from . import local, slurm

    return {"local": local, "slurm": slurm}[name]


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
