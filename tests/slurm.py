"""A real Slurm on this machine for tests: munge, slurmctld and two slurmd, each virtual node with four CPUs.

It is generated into a folder of its own and listens on 127.0.0.1 only; nothing is written to /etc/slurm.
Munge's socket has to be the default one, so a munged that answers there is used, and left running.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import psutil

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={state}/state
SlurmdSpoolDir={state}/spool/%n
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd-%n.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdLogFile={state}/slurmd-%n.log
SlurmctldPort={port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
# PMIx keeps its sockets under TmpFS: without one for each node, steps of two nodes on one host collide.
TmpFS={state}/tmp/%n
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port1} CPUs=4 RealMemory=8000 State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port2} CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=debug Nodes=node[1-2] Default=YES MaxTime=01:00:00 State=UP OverSubscribe=NO
"""


def missing() -> str | None:
    """Why no Slurm can be started here, or None."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [n for n in ("slurmctld", "slurmd", "sbatch", "munged") if not shutil.which(n, path=path)]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian: apt-get install slurm-wlm munge)"
    return None if os.getuid() == 0 else "only root can start slurmd"


class Slurm:
    """Start with `start()`, stop with `stop()`: exactly what was started is stopped."""

    def __init__(self, state: Path):
        self.state, self.conf = state, state / "slurm.conf"
        self.processes: list[subprocess.Popen] = []

    def start(self) -> None:
        """Write the configuration, start the daemons, wait until both nodes are idle (at most 40 s)."""
        ports = _free_ports(3)
        for name in ("state", "spool/node1", "spool/node2", "tmp/node1", "tmp/node2"):
            (self.state / name).mkdir(parents=True)
        names = dict(zip(("port", "port1", "port2"), ports, strict=True))
        self.conf.write_text(CONF.format(host=socket.gethostname().split(".")[0], state=self.state, **names))
        if not _munge_answers():
            self._start_munge()
        self.start_controller()
        for node in ("node1", "node2"):
            self.spawn(node, "/usr/sbin/slurmd", "-D", "-N", node, "-f", str(self.conf))
        self._wait(
            "both nodes idle", lambda: self.ask("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * 2
        )

    def stop_controller(self) -> None:
        """Stop slurmctld, as for a test of what happens without it."""
        daemon = next(p for p in self.processes if "slurmctld" in p.args[0])
        daemon.terminate()
        daemon.wait(20)
        self.processes.remove(daemon)

    def start_controller(self) -> None:
        """Start slurmctld again, after a test has stopped it, and wait until it answers."""
        self.spawn("slurmctld", "/usr/sbin/slurmctld", "-D", "-f", str(self.conf))
        self._wait("controller", lambda: self.ask("squeue", "-h") is not None)

    def stop(self) -> None:
        """Cancel what is left and end the daemons, the last first."""
        with contextlib.suppress(subprocess.SubprocessError, RuntimeError):
            self.ask("scancel", "--user=root")
            self._wait("an empty queue", lambda: not self.ask("squeue", "-h"), 10)
        for p in reversed(self.processes):
            p.terminate()
        for p in psutil.process_iter(["name"]):  # a step whose end no controller has heard of goes on trying
            with contextlib.suppress(psutil.Error):
                if p.info["name"] == "slurmstepd" and p.environ().get("SLURM_CONF") == str(self.conf):
                    p.kill()
        for p in self.processes:
            try:
                p.wait(15)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()

    def ask(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        env = os.environ | {"SLURM_CONF": str(self.conf)}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=20, check=True).stdout

    def spawn(self, name: str, *command: str) -> subprocess.Popen:
        """Start a daemon in the foreground, its output in a file beside the configuration."""
        with open(self.state / f"{name}.out", "ab") as log:
            p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(p)
        return p

    def _start_munge(self) -> None:
        for folder, mode in [("/run/munge", 0o755), ("/var/lib/munge", 0o711), ("/var/log/munge", 0o700)]:
            os.makedirs(folder, exist_ok=True)
            shutil.chown(folder, "munge", "munge")
            os.chmod(folder, mode)
        if not Path("/etc/munge/munge.key").exists():
            subprocess.run(["/usr/sbin/mungekey"], check=True)
            shutil.chown("/etc/munge/munge.key", "munge", "munge")
        self.spawn(
            "munged", "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground"
        )
        self._wait("munge", _munge_answers, 10)

    def _wait(self, what: str, ready, seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.SubprocessError):
                if ready():
                    return
            time.sleep(0.2)
        logs = "\n".join(
            f"== {p.name}\n{p.read_text()[-1500:]}" for p in sorted(self.state.glob("*.[ol][ou][tg]"))
        )
        raise RuntimeError(f"Slurm: no {what} after {seconds} s\n{logs}")


def _munge_answers() -> bool:
    return subprocess.run(["munge", "-n"], capture_output=True).returncode == 0


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
