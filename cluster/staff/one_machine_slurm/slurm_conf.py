"""The configuration files, as text. Pure: the same description and machine always give the same files."""

from __future__ import annotations

from .description import Cluster, clock, span
from .machine import Machine

PRIVATE = "accounts,jobs,reservations,usage,users"  # Slurm's PrivateData: records that only their owners see


def files(cluster: Cluster, machine: Machine) -> dict[str, str]:
    """Return {path under the state folder: text}. `slurm.conf` is for users, `etc/` for the daemons."""
    return {
        "slurm.conf": slurm(cluster, machine),
        "etc/slurm.conf": daemons(machine),
        "etc/gres.conf": gres(cluster, machine),
        "etc/cgroup.conf": cgroup(machine),
        "etc/mpi.conf": mpi(),
        "etc/slurmdbd.conf": slurmdbd(cluster, machine),
        "etc/hosts": hosts(cluster, machine),
        "etc/epilog": epilog(machine),
    }


def slurm(cluster: Cluster, machine: Machine) -> str:
    """Return slurm.conf for users' commands."""
    state = machine.state
    return f"""\
# Single-host Slurm. Generated from one description of the cluster; do not edit it, but start it again.
ClusterName={cluster.name}
SlurmctldHost={machine.host or "localhost"}(127.0.0.1)
SlurmctldPort={cluster.port}
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
# Users see only their own jobs, accounts and usage; root, Slurm's user and operators see all.
PrivateData={PRIVATE}
# A requeued job waits as long as a credential lives, since none may be used twice; 120 s by default.
AuthInfo=cred_expire=15
StateSaveLocation={state}/controller
SlurmctldPidFile={state}/run/slurmctld.pid
SlurmdPidFile={state}/run/%n.pid
SlurmdLogFile={state}/logs/%n.log
SlurmdSpoolDir={state}/nodes/%n/spool
# PMIx keeps its sockets here. Without a folder for each node, the steps of two nodes on one host collide.
TmpFS={state}/nodes/%n/tmp
MpiDefault=pmix

# The nodes are virtual, with the described CPUs instead of the machine's.
SlurmdParameters=config_overrides
SlurmdTimeout={cluster.node_timeout}
ReturnToService=2
Epilog={state}/etc/epilog
KillWait=10
# A step that ends while slurmctld is down retries only after 60 s. The default, 60 s as well, would take
# it for a step that cannot be killed, and drain its node.
UnkillableStepTimeout=180
{_processes(machine)}
# Scheduling: quick answers on a small cluster; memory and CPUs are both allocated.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU={cluster.memory // cluster.cpus}
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=2,batch_sched_delay=0
# A job of a higher tier requeues jobs of a lower one. No GraceTime: a job whose steps end
# within it counts as ended and is not requeued. It has KillWait seconds between SIGTERM and SIGKILL.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1

# Accounting, and limits that are enforced.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={cluster.database_port}
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos

GresTypes=gpu
{_nodes(cluster, machine)}
{partitions(cluster)}"""


def partitions(cluster: Cluster) -> str:
    """Return the lines for the partitions, which are the same on a real cluster."""
    highest = max(p.tier for p in cluster.partitions)
    lines = []
    for i, p in enumerate(cluster.partitions):
        mode = "REQUEUE" if p.tier < highest else "OFF"
        default = " Default=YES" if i == 0 else ""
        lines.append(
            f"PartitionName={p.name} Nodes={cluster.node_list}{default} MaxTime={clock(p.minutes)} "
            f"PriorityTier={p.tier} PreemptMode={mode} State=UP\n"
        )
    return "".join(lines)


def _nodes(cluster: Cluster, machine: Machine) -> str:
    host = f" NodeHostname={machine.host}" if machine.host else ""
    ports = cluster.node_ports
    gpus = f" Gres=gpu:{cluster.gpus}" if cluster.gpus else ""
    return (
        f"NodeName={cluster.node_list}{host} NodeAddr=127.0.0.1 Port={span(ports[0], ports[-1])} "
        f"CPUs={cluster.cpus} RealMemory={cluster.memory}{gpus} State=UNKNOWN"
    )


def _processes(machine: Machine) -> str:
    if machine.memory == "polling":
        return """\
# No cgroups: processes are found by their parents, and memory is checked once per second.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
"""
    return """\
# Memory limits by cgroup: the kernel kills a task that exceeds its limit (see cgroup.conf).
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=5
"""


def daemons(machine: Machine) -> str:
    """Return slurm.conf for daemons and jobs: the users' version, with the daemons restricted to loopback."""
    loopback = "" if machine.host else "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n"
    return f"Include {machine.state}/slurm.conf\n{loopback}"


def epilog(machine: Machine) -> str:
    """Return a node's epilog, run after each job. It never fails, because that would drain the node."""
    # Slurm searches by parent process, and misses processes whose slurmstepd was killed. The searching shell
    # has none of the job's environment, otherwise it would find itself.
    return f"""\
#!/bin/sh
# Kills the remaining processes of a job that has ended on a node.
[ -n "$SLURM_JOB_ID" ] && [ -n "$SLURMD_NODENAME" ] || exit 0
exec env -i job="$SLURM_JOB_ID" node="$SLURMD_NODENAME" PATH=/usr/bin:/bin sh -c '
  for found in $(grep -lzx "SLURM_JOB_ID=$job" /proc/[0-9]*/environ 2>/dev/null); do
    grep -qzx "SLURMD_NODENAME=$node" "$found" 2>/dev/null || continue
    grep -qzx "SLURM_CONF={machine.state}/etc/slurm.conf" "$found" 2>/dev/null || continue
    pid=${{found#/proc/}}
    kill -KILL "${{pid%/environ}}" 2>/dev/null
  done
  exit 0
'
"""


def gres(cluster: Cluster, machine: Machine) -> str:
    """Return gres.conf. Slurm sets CUDA_VISIBLE_DEVICES only for devices, so GPUs are links to /dev/null."""
    if not cluster.gpus:
        return "# No GPUs.\n"
    which = span(0, cluster.gpus - 1)
    return f"NodeName={cluster.node_list} Name=gpu File={machine.state}/gpus/gpu{which}\n"


def cgroup(machine: Machine) -> str:
    """Return cgroup.conf. CPUs and devices are not separated, because four virtual nodes share them."""
    if machine.memory == "polling":
        return "# Not used: no cgroups on this machine.\n"
    swap = "ConstrainSwapSpace=yes\nAllowedSwapSpace=0\n" if machine.swap else "ConstrainSwapSpace=no\n"
    alone = "IgnoreSystemd=yes\n" if machine.memory == "cgroup v2" and not machine.systemd else ""
    return (
        f"CgroupPlugin=cgroup/{machine.memory[-2:]}\nCgroupAutomount=no\n{alone}ConstrainCores=no\n"
        f"ConstrainDevices=no\nConstrainRAMSpace=yes\n{swap}"
    )


def mpi() -> str:
    """Return mpi.conf, which sets the barrier at the end of MPI_Init."""
    return """\
# Slurm's default barrier is a tree, which does not wait in a step of fewer nodes than TreeWidth (50). A rank
# then leaves MPI_Init while another is still in it, and its first message can crash that one (SIGSEGV).
PMIxCollFence=ring
"""


def slurmdbd(cluster: Cluster, machine: Machine) -> str:
    """Return slurmdbd.conf, without a password: MariaDB identifies the user slurm by the socket."""
    loopback = "" if machine.host else "CommunicationParameters=NoInAddrAny\n"
    return f"""\
AuthType=auth/munge
DbdHost=localhost
DbdPort={cluster.database_port}
SlurmUser=slurm
PidFile={machine.state}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
PrivateData={PRIVATE}
{loopback}"""


def hosts(cluster: Cluster, machine: Machine) -> str:
    """Return /etc/hosts for daemons and jobs: the nodes' names, then this machine's own file."""
    return f"127.0.0.1 localhost {' '.join(cluster.node_names)}\n{machine.hosts}"
