"""What this machine supports: packages, cgroups for memory limits, host names for the nodes."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..services import HubError, check_folder
from .description import Cluster

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
CGROUPS = Path("/sys/fs/cgroup")
NEEDED = {  # Debian's packages, each with a program that it contains
    "slurm-wlm": ("slurmctld", "slurmd", "srun"),
    "slurmdbd": ("slurmdbd",),
    "mariadb-server-core": ("mariadbd", "mariadb-install-db"),
    "mariadb-client-core": ("my_print_defaults",),  # used by mariadb-install-db
    "munge": ("munged", "munge"),
    "util-linux": ("setpriv", "unshare"),
}
APART = ["unshare", "--uts", "--mount", "--propagation", "slave", "sh", "-c"]
LONGEST = 60  # maximum length of the state folder's path: Slurm and PMIx create sockets under it


@dataclass(frozen=True)
class Machine:
    """The part of the configuration that depends on the machine instead of the description."""

    state: Path
    host: str | None  # None: each daemon gets a separate host name, so nothing listens outside loopback
    memory: str  # "cgroup v1", "cgroup v2" or "polling"
    why: str = ""  # explanation of `memory`
    swap: bool = False  # whether the kernel can limit swap per cgroup
    systemd: bool = False
    hosts: str = ""  # contents of the machine's own /etc/hosts

    @property
    def etc(self) -> Path:
        """The folder of the daemons' own files; users have `state / "slurm.conf"`."""
        return self.state / "etc"


def missing() -> str | None:
    """Return why Slurm cannot be started here, or None."""
    absent = [p for p, programs in NEEDED.items() if not all(shutil.which(x, path=PATH) for x in programs)]
    if absent:
        return f"not installed: apt-get install --no-install-recommends {' '.join(absent)}"
    return None if os.getuid() == 0 else "only root can start slurmd (sudo)"


def look(cluster: Cluster, state: Path) -> Machine:
    """Examine this machine. Raises HubError if the state folder is unsuitable."""
    check_folder(state, LONGEST)
    kind, swap, why = memory(cluster.memory_limit)
    host = None if _namespaces() else socket.gethostname().split(".")[0]
    hosts = Path("/etc/hosts").read_text() if Path("/etc/hosts").exists() else ""
    return Machine(state, host, kind, why, swap, Path("/run/systemd/system").is_dir(), hosts)


def _namespaces() -> bool:
    """Return whether a process can get a separate host name and /etc/hosts."""
    result = subprocess.run([*APART, "mount --bind /etc/hosts /etc/hosts"], capture_output=True)
    return result.returncode == 0


def memory(wanted: str) -> tuple[str, bool, str]:
    """Return (how memory is limited, whether swap can be limited, why) for 'auto', 'cgroup' or 'polling'."""
    if wanted == "polling":
        return "polling", False, "requested in the description"
    kind, swap, why = _cgroups()
    if kind == "polling" and wanted == "cgroup":
        raise HubError(f"memory_limit = 'cgroup' is not possible here: {why}.")
    return kind, swap, why


def _cgroups() -> tuple[str, bool, str]:
    if (CGROUPS / "cgroup.controllers").exists():
        if "memory" not in (CGROUPS / "cgroup.controllers").read_text().split():
            return "polling", False, "cgroup v2 has no memory controller on this machine"
        kind, folders = "cgroup v2", [CGROUPS]
    else:
        kind, folders = "cgroup v1", [CGROUPS / "memory", CGROUPS / "freezer"]
    swap = False
    for folder in folders:
        if not folder.is_dir():
            return "polling", False, f"{folder} does not exist"
        probe = folder / f"probe_{os.getpid()}"
        try:
            probe.mkdir()
        except OSError as e:
            return "polling", False, f"no cgroup can be made in {folder} ({str(e.strerror).lower()})"
        swap |= any((probe / name).exists() for name in ("memory.memsw.limit_in_bytes", "memory.swap.max"))
        probe.rmdir()
    return kind, swap, ""


def user(name: str) -> pwd.struct_passwd:
    """Return the Unix user that Debian's package created."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise HubError(f"There is no Unix user {name!r}; Debian's packages create it.") from None
