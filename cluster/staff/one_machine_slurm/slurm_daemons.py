"""The daemons: how each is started, and how to test that it answers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from cluster.slurm import client

from ..services import Daemon, HubError
from .description import Cluster
from .machine import APART, PATH, Machine, user

MUNGE_KEY = Path("/etc/munge/munge.key")  # Debian's package requires this path
MUNGE_FOLDERS = (("/run/munge", 0o755), ("/var/lib/munge", 0o711), ("/var/log/munge", 0o700))
INITIAL = ("--auth-root-authentication-method=socket", "--skip-test-db", "--cross-bootstrap")
DOWN = ("down", "unknown", "future", "fail")  # states of a node that does not answer, in addition to a "*"


def all_daemons(cluster: Cluster, machine: Machine) -> list[Daemon]:
    """Return munged, mariadbd, slurmdbd, slurmctld and one slurmd per node, in starting order."""
    state, etc = machine.state, machine.etc

    def slurm(
        name: str, port: int, answers: Callable[[], bool], *argv: str, host: str = "localhost"
    ) -> Daemon:
        env = environment(etc / "slurm.conf")
        env |= {"MYSQL_UNIX_PORT": f"{state}/database/socket"} if name == "slurmdbd" else {}
        return Daemon(name, _apart(machine, host, argv), env, log(state, name), answers, port)

    def node(name: str, port: int) -> Daemon:
        answers = lambda: node_state(state, name) is not None  # noqa: E731
        return slurm(name, port, answers, "slurmd", "-D", "-N", name, host=name)

    return [
        munged(machine),
        mariadbd(machine),
        slurm("slurmdbd", cluster.database_port, lambda: accounting(state), "slurmdbd", "-D"),
        slurm("slurmctld", cluster.port, lambda: controller(state), "slurmctld", "-D"),
        *map(node, cluster.node_names, cluster.node_ports),
    ]


def munged(machine: Machine) -> Daemon:
    """Return munged with its default socket, which users' commands and slurmdbd expect."""
    argv = ["munged", "--foreground", "--num-threads=10"]
    return Daemon("munged", _as("munge", argv), environment(), log(machine.state, "munged"), munge)


def mariadbd(machine: Machine) -> Daemon:
    """Return MariaDB with a separate data folder, on a Unix socket only."""
    database = machine.state / "database"
    argv = [
        "mariadbd", "--no-defaults", f"--datadir={database}", f"--socket={database}/socket",
        "--skip-networking", f"--pid-file={database}/pid",
        "--innodb-buffer-pool-size=128M", "--innodb-lock-wait-timeout=900", "--performance-schema=off",
        "--skip-log-bin",
    ]  # fmt: skip
    out = log(machine.state, "mariadbd")
    ready = lambda: greets(database / "socket")  # noqa: E731
    return Daemon("mariadbd", _as("slurm", argv), environment(), out, ready, patience=60)


def log(state: Path, name: str) -> Path:
    """Return the path of a daemon's output. Next to it, nodes also write logs with their steps' messages."""
    return state / "logs" / f"{name}.out"


def environment(conf: Path | None = None) -> dict[str, str]:
    """Return a small environment, so that daemons and jobs get none of the administrator's variables."""
    return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/"} | ({"SLURM_CONF": str(conf)} if conf else {})


def ask(state: Path, *command: str, timeout: float = 15) -> str | None:
    """Return the output of a Slurm command, or None if it fails or does not answer."""
    try:
        return client.ask(*command, timeout=timeout, env=environment(state / "slurm.conf"))
    except client.SlurmError:
        return None


def munge() -> bool:
    """Return whether munged answers."""
    result = subprocess.run(["munge", "--no-input"], env=environment(), capture_output=True)
    return result.returncode == 0


def greets(path: Path) -> bool:
    """Return whether MariaDB answers on its socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        try:
            s.connect(str(path))
            return bool(s.recv(64))
        except OSError:
            return False


def accounting(state: Path) -> bool:
    """Return whether slurmdbd answers."""
    return ask(state, "sacctmgr", "--noheader", "show", "cluster") is not None


def controller(state: Path) -> bool:
    """Return whether slurmctld answers."""
    return " UP" in (ask(state, "scontrol", "ping") or "")


def node_state(state: Path, name: str) -> str | None:
    """Return a node's state in Slurm's terms, or None if it does not answer."""
    states = (ask(state, "sinfo", "--noheader", f"--nodes={name}", "--format=%T") or "").split()
    return states[0] if states and "*" not in states[0] and states[0] not in DOWN else None


def prepare_munge() -> None:
    """Create munge's folders, and a key if there is none: the only files outside the state folder."""
    owner = user("munge")
    for folder, mode in MUNGE_FOLDERS:
        if not os.path.isdir(folder):
            os.makedirs(folder)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            os.chmod(folder, mode)
    if not MUNGE_KEY.exists():
        subprocess.run(["mungekey"], env=environment(), check=True)
        os.chown(MUNGE_KEY, owner.pw_uid, owner.pw_gid)


def prepare_database(machine: Machine) -> None:
    """Create an empty MariaDB data folder, once and atomically, by renaming."""
    database, temp = machine.state / "database", machine.state / "database.new"
    if database.exists():
        return
    shutil.rmtree(temp, ignore_errors=True)
    where = [f"--datadir={temp}", "--user=slurm", "--auth-root-socket-user=slurm"]
    argv = ["mariadb-install-db", "--no-defaults", *where, *INITIAL]
    result = subprocess.run(argv, env=environment(), capture_output=True, text=True)
    if result.returncode:
        raise HubError(f"mariadb-install-db failed:\n{result.stdout[-1000:]}{result.stderr[-1000:]}")
    temp.chmod(0o700)
    temp.rename(database)


def _as(name: str, argv: list[str]) -> list[str]:
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups", *argv]


def _apart(machine: Machine, host: str, argv: tuple[str, ...]) -> list[str]:
    """Return the command with a host name that resolves to loopback: `hostname` on node1 prints node1."""
    if machine.host:
        return list(argv)
    enter = 'echo "$1" >/proc/sys/kernel/hostname && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'
    return [*APART, enter, "sh", host, str(machine.etc / "hosts"), *argv]
