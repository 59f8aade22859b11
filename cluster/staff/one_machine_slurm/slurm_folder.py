"""The state folder: its contents, its permissions, and the lock that admits one command at a time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cluster.slurm import client
from cluster.system import files, processes

from ..services import HubError, process_ledger
from . import machine, slurm_conf
from .description import Cluster, as_values, from_values
from .machine import Machine

RECORD = "started.json"  # the description, and the machine's properties
FILES = ("slurm.conf", RECORD, "processes.json", "lock")
FOLDERS = ("etc", "run", "logs", "controller", "nodes", "gpus", "database", "database.new")
MODES = {"etc/slurmdbd.conf": 0o600, "etc/epilog": 0o755}  # all other files have mode 0644


def record(state: Path) -> dict | None:
    """Return {cluster, memory, why, host} as last started, or None."""
    return files.read_json(state / RECORD)


def refuse_foreign(state: Path) -> None:
    """Raise HubError if the folder of another course runs its Slurm in `state`."""
    running = [r for n, r in process_ledger(state).all().items() if processes.alive(r) and n != "munged"]
    if running and (course := client.foreign(record(state))):
        raise HubError(
            f"The Slurm in {state} is run by {course}, and its jobs would end with it. Start and stop it "
            f"there, or run another one: --state FOLDER, with another port in its --description."
        )


def described(state: Path) -> Cluster:
    """Return the description of the last start, or the default one."""
    last = record(state)
    return from_values(last["cluster"]) if last else Cluster()


def configure(cluster: Cluster, here: Machine) -> None:
    """Write folders and files. Raises HubError if daemons are running with a different configuration."""
    new = slurm_conf.files(cluster, here)
    running = [n for n, r in process_ledger(here.state).all().items() if processes.alive(r) and n != "munged"]
    for name, text in new.items():
        old = here.state / name
        if running and name != "etc/hosts" and old.exists() and old.read_text() != text:
            raise HubError(
                f"{', '.join(running)} run with another configuration: {name} would change. Stop first: "
                f"python -m cluster.staff.one_machine_slurm stop --state {here.state}"
            )
    _folders(cluster, here)
    for name, text in new.items():
        files.write(here.state / name, text, mode=MODES.get(name, 0o644))
    shutil.chown(here.state / "etc/slurmdbd.conf", "slurm", "slurm")  # otherwise slurmdbd refuses the file
    facts = {"cluster": as_values(cluster), "memory": here.memory, "why": here.why, "host": here.host}
    facts["course"] = str(client.COURSE)
    files.write_json(here.state / RECORD, facts, mode=0o644)


def remove(state: Path) -> None:
    """Delete the files of this package in the state folder, and the folder if nothing else is in it."""
    for name in FOLDERS:
        shutil.rmtree(state / name, ignore_errors=True)
    for name in FILES:
        (state / name).unlink(missing_ok=True)
    if any(state.iterdir()):
        raise HubError(f"{state} contains more than this command wrote; the other files were kept.")
    state.rmdir()


def _folders(cluster: Cluster, here: Machine) -> None:
    owner, state = machine.user("slurm"), here.state
    for name in ("etc", "nodes", "gpus", "run", "controller", "logs"):
        (state / name).mkdir(mode=0o755, exist_ok=True)
    for name, mode in (("run", 0o755), ("controller", 0o700)):
        os.chown(state / name, owner.pw_uid, owner.pw_gid)
        (state / name).chmod(mode)
    for node in cluster.node_names:
        (state / "nodes" / node / "spool").mkdir(parents=True, exist_ok=True)
        (state / "nodes" / node / "tmp").mkdir(exist_ok=True)
        (state / "nodes" / node / "tmp").chmod(0o1777)
    for i in range(cluster.gpus):
        if not (state / f"gpus/gpu{i}").is_symlink():
            (state / f"gpus/gpu{i}").symlink_to("/dev/null")
