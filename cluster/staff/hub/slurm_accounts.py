"""Slurm accounts of the people on the roster, in the single-host Slurm or a site's Slurm."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from functools import partial
from pathlib import Path

from cluster.system import processes

from .. import services
from ..one_machine_slurm import slurm_folder
from ..one_machine_slurm.accounts import sacctmgr
from ..services import Say
from .hub_settings import Settings
from .roster import Person


def slurm_state(state: Path) -> Path:
    """Return the folder of this hub's single-host Slurm, next to the state folder, where jobs look for it."""
    return state.parent / "slurm"


def start_for(state: Path, settings: Settings, people: list[Person], say: Say) -> None:
    """Start the single-host Slurm, or update its students according to the roster."""
    from ..one_machine_slurm.operate import start_slurm

    where = slurm_state(state)
    students = tuple(p.user for p in people if p.role == "student")
    cluster = dataclasses.replace(slurm_folder.described(where), students=students, account=settings.account)
    start_slurm(cluster, where, say, settings.grader)


def apply_roster(state: Path, settings: Settings, people: list[Person]) -> list[str]:
    """Add all people on the roster, and the grader, to the account; remove all others.

    Further rights (QOS, GPU limits) are left to the cluster's administrator.
    """
    ask = partial(sacctmgr, _environment(state, settings))
    wanted = {p.user for p in people} | {settings.grader}
    there = set(ask("show", "assoc", f"account={settings.account}", "format=user").split())
    if settings.account not in ask("show", "account", "format=account").split():
        about = f"Description={settings.account}"
        ask("add", "account", settings.account, about, "Organization=course")
    if new := sorted(wanted - there):
        ask("add", "user", ",".join(new), f"account={settings.account}")
    if gone := sorted(there - wanted - {"root"}):
        for user in gone:
            subprocess.run(
                ["scancel", f"--user={user}", f"--account={settings.account}"],
                env=_environment(state, settings),
                capture_output=True,
            )
        ask("delete", "user", ",".join(gone), f"account={settings.account}")
    changes = [f"{user}: added to Slurm's account {settings.account}" for user in new]
    return changes + [f"{user}: removed from Slurm's account {settings.account}" for user in gone]


def slurm_runs(state: Path) -> bool:
    """Return whether the controller of this hub's single-host Slurm is running."""
    return processes.alive(services.process_ledger(slurm_state(state)).all().get("slurmctld"))


def _environment(state: Path, settings: Settings) -> dict[str, str]:
    env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    own = {"SLURM_CONF": f"{slurm_state(state)}/slurm.conf"}
    return env | (
        own if settings.slurm == "machine" else {k: v for k, v in os.environ.items() if k == "SLURM_CONF"}
    )
