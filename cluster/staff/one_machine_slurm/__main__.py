"""The commands: start, stop, status, config, guide."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from cluster.slurm.client import one_machine_state

from ..command_table import Command, option, run, say
from . import description, machine, slurm_conf, slurm_folder
from .description import Cluster
from .operate import export, report, start_slurm, stop_slurm

DESCRIPTION = option(
    "--description",
    type=Path,
    metavar="FILE",
    help="TOML file of the cluster (default: the last one started, or four nodes of two GPUs)",
)


def _start(args: argparse.Namespace, state: Path) -> int:
    cluster = _cluster(args, state)
    say(f"Slurm on this machine: {cluster}")
    start_slurm(cluster, state, say, os.environ.get("SUDO_USER"))
    last = slurm_folder.record(state) or {"memory": "no record", "why": "", "host": False}
    say(f"Memory limits by {last['memory']}" + (f": {last['why']}" if last["why"] else "") + ".")
    if last["host"]:
        say("Without namespaces, the daemons listen on all addresses of this machine (protected by munge).")
    say("Slurm is running, and the course's jobs find it. In a shell, Slurm's own commands need")
    say(export(state))
    return 0


def _stop(args: argparse.Namespace, state: Path) -> int:
    stop_slurm(state, say, args.purge)
    return 0


def _status(args: argparse.Namespace, state: Path) -> int:
    code, text = report(state)
    print(text)
    return code


def _config(args: argparse.Namespace, state: Path) -> int:
    cluster = _cluster(args, state)
    if os.getuid():
        print("Not root: whether root can use cgroups and namespaces is unknown.", file=sys.stderr)
    for name, text in slurm_conf.files(cluster, machine.look(cluster, state)).items():
        print(f"### {state / name}\n{text}")
    return 0


def _guide(args: argparse.Namespace, state: Path) -> int:
    print((Path(__file__).parent / "GUIDE.md").read_text(encoding="utf-8"), end="")
    return 0


def _cluster(args: argparse.Namespace, state: Path) -> Cluster:
    return description.from_toml(args.description) if args.description else slurm_folder.described(state)


COMMANDS = (
    Command(
        "start",
        _start,
        "start Slurm, or restart the daemons that have died",
        (DESCRIPTION,),
    ),
    Command(
        "stop",
        _stop,
        "stop exactly what start has started; keep the database and the queue",
        (option("--purge", action="store_true", help="also remove the state folder"),),
    ),
    Command(
        "status",
        _status,
        "show which daemons are running (exit status: 0 running, 1 a daemon is dead, 3 stopped)",
    ),
    Command(
        "config",
        _config,
        "print the configuration that start writes",
        (DESCRIPTION,),
    ),
    Command(
        "guide",
        _guide,
        "print the settings for a real GPU cluster (GUIDE.md)",
    ),
)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 for an error, or the one of `status`."""
    return run("python -m cluster.staff.one_machine_slurm", __doc__, one_machine_state(), COMMANDS, argv)


if __name__ == "__main__":
    sys.exit(main())
