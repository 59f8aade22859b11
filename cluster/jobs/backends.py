"""Which backend runs a job: what was asked for, or what is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from .errors import BackendError

PLACES = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")

_seen: dict[tuple[str, str | None], tuple[float, str | None]] = {}


def get(name: str) -> ModuleType:
    """The module of a backend: it has `start`, `status`, `cancel`."""
    from . import local, slurm

    return {"local": local, "slurm": slurm}[name]


def choose(asked: str) -> tuple[str, str]:
    """(backend, why, in words). $CLUSTER_BACKEND takes the place of "auto".

    Raises BackendError when Slurm is asked for and is not there.
    """
    why = ""
    if asked == "auto" and (os.environ.get("CLUSTER_BACKEND") or "auto") != "auto":
        asked, why = os.environ["CLUSTER_BACKEND"], ", set by CLUSTER_BACKEND"
        if asked not in ("local", "slurm"):
            raise BackendError(
                f"CLUSTER_BACKEND={asked!r} is not valid.", "Set it to 'auto', 'local' or 'slurm'."
            )
    if asked == "local":
        return "local", why
    missing = no_slurm()
    if asked == "slurm" and missing:
        raise BackendError(
            f"There is no Slurm to submit to: {missing}.", "Use backend='local', or see doctor()."
        )
    if asked == "slurm":
        return "slurm", why
    return ("local", f" ({missing})") if missing else ("slurm", "")


def no_slurm() -> str | None:
    """Why Slurm cannot be used here, in words, or None when its controller answers. Remembered for 30 s."""
    env = environment()
    key = shutil.which("sbatch") or "", env.get("SLURM_CONF")
    at, answer = _seen.get(key, (-1e9, None))
    if time.monotonic() - at > 30:
        answer = _ping(env) if key[0] else "no sbatch on PATH"
        _seen[key] = time.monotonic(), answer
    return answer


def environment(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for a command of Slurm's, with SLURM_CONF where the one-machine Slurm is meant."""
    one = None if env.get("SLURM_CONF") or _usual() else one_machine()
    return {**env, "SLURM_CONF": one} if one else dict(env)


def conf() -> str | None:
    """The slurm.conf that Slurm's commands use, as far as it is known here: a path, or None."""
    return os.environ.get("SLURM_CONF") or _usual() or one_machine()


def one_machine() -> str | None:
    """The slurm.conf of the Slurm that `make slurm` has started on this machine, while it runs."""
    from cluster.deploy import slurm

    found = slurm.conf()
    return str(found) if found else None


def _usual() -> str | None:
    return next((p for p in PLACES if Path(p).is_file()), None)


def _ping(env: dict[str, str]) -> str | None:
    try:
        said = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=3, env=env)
    except subprocess.TimeoutExpired:
        return "Slurm's controller did not answer within 3 s"
    except OSError:
        return "sbatch is here, but scontrol is not"
    return None if said.returncode == 0 and " UP" in said.stdout else "no Slurm controller answers"
