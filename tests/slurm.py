"""The Slurm of the tests: the project's single-host Slurm with a separate description, or a real cluster.

CLUSTER_TEST_SLURM selects an existing cluster for the tests: the path of its slurm.conf, or `site` for the
one that this machine's commands use anyway. On that cluster, nothing is started, stopped or changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from cluster.staff import services
from cluster.staff.one_machine_slurm import machine
from cluster.staff.one_machine_slurm.description import Cluster
from cluster.staff.one_machine_slurm.operate import start_slurm, stop_slurm
from cluster.system import processes

from . import ports

VARIABLE = "CLUSTER_TEST_SLURM"
ACCOUNT = "limited"  # an account with limits for all its jobs together and for each job: see Own.limit


class Site:
    """An external cluster. Tests only submit jobs to it, and change nothing else. `conf` is None for the one
    that this machine's commands use.
    """

    own = False

    def __init__(self, conf: str | None):
        self.conf = conf

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """Let this process's Slurm commands use the cluster."""
        if self.conf:
            patch.setenv("SLURM_CONF", str(self.conf))

    def ask(self, *command: str) -> str:
        """Return the output of a Slurm command."""
        env = os.environ | ({"SLURM_CONF": str(self.conf)} if self.conf else {})
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=True).stdout

    def stop(self) -> None:
        """Do nothing, because nothing was started."""


class Own(Site):
    """The tests' own Slurm, with three nodes, a partition `short` that preempts `long`, and an account with
    limits."""

    own = True

    def __init__(self):
        # short, because it contains sockets
        self.folder = Path(tempfile.mkdtemp(prefix="tests-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.state = self.folder / "slurm"
        super().__init__(self.state / "slurm.conf")
        self.description = Cluster(
            name="tests", node=f"t{os.getpid()}n", nodes=3, cpus=4, port=ports.free(5), node_timeout=10
        )
        self.nodes = self.description.node_names

    def start(self) -> None:
        """Start the parts that are not running, which may be all or those that a test has killed, and wait
        until Slurm answers."""
        start_slurm(self.description, self.state, lambda line: None)

    def limit(self) -> None:
        """Configure the account `limited`: its jobs share one GPU, and each may run for five minutes."""
        self.ask("sacctmgr", "-i", "add", "account", ACCOUNT, "GrpTRES=gres/gpu=1", "MaxWall=00:05:00")
        self.ask("sacctmgr", "-i", "add", "user", "root", f"account={ACCOUNT}")

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Kill slurmctld or a node's slurmd, and wait until it has ended. With SIGTERM, it ends normally."""
        record = services.process_ledger(self.state).all()[name]
        if number == signal.SIGKILL:
            os.kill(record["pid"], number)
        processes.end([record])

    def stop_controller(self) -> None:
        """Stop slurmctld normally, for tests that need a Slurm without it."""
        self.kill("slurmctld", signal.SIGTERM)

    def start_controller(self) -> None:
        """Start slurmctld again and wait until it answers."""
        self.start()

    def stop(self) -> None:
        """Cancel remaining jobs, end the daemons, and remove all files."""
        stop_slurm(self.state, lambda line: None, purge=True)
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def running():
    """Yield the cluster for the tests. If it cannot be started, skip the tests; in CI as root, fail."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if chosen != "site" and not Path(chosen).is_file():
            pytest.fail(f"{VARIABLE}={chosen!r} is neither 'site' nor the path of a slurm.conf.")
        yield Site(None if chosen == "site" else chosen)
        return
    why = machine.missing()
    if why and os.environ.get("CI") == "true" and os.getuid() == 0:
        pytest.fail(f"Slurm is part of CI: {why}")
    if why:
        pytest.skip(f"no Slurm for tests: {why}")
    site = Own()
    try:
        site.start()
        site.limit()
        yield site
    finally:
        site.stop()
