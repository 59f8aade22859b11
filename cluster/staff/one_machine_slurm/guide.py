"""Instructions for a real GPU cluster's administrator, as a pure function of the same description."""

from __future__ import annotations

from .description import Cluster, span
from .slurm_conf import partitions


def text(cluster: Cluster) -> str:
    """Return the guide for a cluster of this description."""
    return "\n".join([_head(cluster), _slurm(cluster), _gpus(cluster), _accounts(cluster), _rest(cluster)])


def _head(c: Cluster) -> str:
    return f"""\
The cluster {c.name!r} on real machines
{"=" * (len(c.name) + 31)}
{c}.
Replace {c.node_list} by your own machines' names, with their true CPUs and memory (printed by `slurmd -C`).
The single-host Slurm has the same settings, but its nodes share one host, its GPUs are links to /dev/null,
a dead node is detected after {c.node_timeout} s, and all ports are on loopback.

1. On every machine
-------------------
- One munge key (/etc/munge/munge.key, owner munge, mode 0400), clocks within a few seconds of each
  other (NTP), and the same user and group numbers everywhere.
- One slurm.conf (or `--conf-server`, "configless"). Ports open between the machines: 6817 to slurmctld,
  6818 to the nodes, 6819 to slurmdbd, and between login and nodes the ranges you set as SrunPortRange
  (srun's own sockets) and net.ipv4.ip_local_port_range (the rendezvous, Gloo, MPI and NCCL take free
  ports from it).
- The nodes' network must be private: MPI, Gloo and NCCL do not authenticate.
"""


def _slurm(c: Cluster) -> str:
    gpus = f" Gres=gpu:{c.gpus}" if c.gpus else ""
    return f"""\
2. slurm.conf
-------------
ClusterName={c.name}
SlurmctldHost=CONTROLLER
SlurmUser=slurm
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
JobAcctGatherType=jobacct_gather/cgroup
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU={c.memory // c.cpus}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=DATABASE_HOST
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
GresTypes=gpu
SlurmdTimeout=300
ReturnToService=1
PropagateResourceLimitsExcept=MEMLOCK
NodeName={c.node_list} CPUs={c.cpus} RealMemory={c.memory}{gpus}
{partitions(c)}
- Omit the single-host Slurm's config_overrides and TmpFS=…/%n: each machine has its own /tmp. Leave a few
  GiB of each node's memory out of RealMemory, for the system.
- A preempted job has KillWait seconds (30 by default) between SIGTERM and SIGKILL: time for one
  checkpoint. A GraceTime on the partition does not help, because a job whose steps end within it is
  not requeued.
- Set UnkillableStepTimeout=180. A step that ends while slurmctld is down reports this 60 s later, so with
  the default of 60 s its node would be drained ("Kill task failed").
- A requeued job waits 120 s (AuthInfo=cred_expire) before it can start again.
- For RDMA, set LimitMEMLOCK=infinity in slurmd's systemd unit. Otherwise NCCL and MPI fall back to TCP.

3. Memory and devices: cgroup.conf
----------------------------------
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
ConstrainCores=yes
ConstrainDevices=yes
- Only ConstrainDevices prevents a job from using the GPUs of another; CUDA_VISIBLE_DEVICES is just a request.
- The kernel kills a task that exceeds its memory, and its job is OUT_OF_MEMORY, which the course
  explains.
"""


def _gpus(c: Cluster) -> str:
    which = span(0, c.gpus - 1)
    return f"""\
4. GPUs: gres.conf on each node
-------------------------------
AutoDetect=nvml
- This requires a Slurm built with NVML (Debian's free packages are not). Without it, name the devices:
NodeName={c.node_list} Name=gpu File=/dev/nvidia{which}
- nvidia-persistenced must run, and /dev/nvidia* exist before slurmd starts (run `nvidia-smi` once at boot).
- `srun --gpus-per-task=1 nvidia-smi -L` must list one GPU, and a different one on another node.
- Horovod on GPUs: `make setup GPU=1 VENV=FOLDER` (see 6) makes an environment with tensorflow[and-cuda]
  and a Horovod compiled with NCCL; it needs the nvcc of CUDA 12, once. cluster/staff/GPU.md has the rest.
  `python -m cluster doctor --gpu` then measures an all-reduce between two GPUs.
- If machines have several networks, set NCCL_SOCKET_IFNAME or NCCL_IB_HCA. NCCL_DEBUG=INFO in a job's env
  shows which network NCCL uses. NCCL carries the data. Gloo or MPI starts the ranks.
"""


def _accounts(c: Cluster) -> str:
    limit = f" GrpTRES=gres/gpu={c.gpus_per_student}" if c.gpus else ""
    names = ",".join(c.students) or "STUDENT1,STUDENT2"
    return f"""\
5. Accounts and limits
----------------------
sacctmgr -i add cluster {c.name}
sacctmgr -i add account {c.account} Description={c.name} Organization=course
sacctmgr -i add user {names} account={c.account}{limit}
- A student's jobs use at most {c.gpus_per_student} GPUs at one time. Further jobs wait as AssocGrpGRES.
- A job that exceeds the limit on its own stays pending indefinitely. To have it refused, give the
  students a QOS with Flags=DenyOnLimit and MaxTRESPerUser=gres/gpu={c.gpus_per_student}.
- Without AccountingStorageEnforce an unknown account or QOS is accepted, and limits have no effect.
- slurmdbd.conf must belong to slurm and have mode 0600. MariaDB needs innodb_buffer_pool_size of at least
  1 GiB, innodb_lock_wait_timeout=900 and backups.
"""


def _rest(c: Cluster) -> str:
    return f"""\
6. One environment, one place for runs
--------------------------------------
- The course's environment is built once, on a shared file system that login, nodes and hub mount at the
  same path (`make setup` there), readable by students, with its .pyc files compiled (python -m
  compileall): hundreds of ranks import it at the same moment.
- Folders of runs are next to the notebooks, so homes must be on a shared file system, too, or CLUSTER_RUNS
  must name a folder on one. They are private (0700). Attribute caching on NFS (`actimeo`) delays the view
  of a job's folder by seconds.
- SLURM_CONF need not be set if slurm.conf is in its usual place.

7. How the ranks find each other
--------------------------------
- controller="mpi": `srun --mpi=list` must name pmix, and Open MPI must have been built with the same
  major version of PMIx. Debian's packages match.
- PMIxCollFence=ring in mpi.conf, next to slurm.conf (from Slurm 22.05 on; in older versions
  SLURM_PMIX_FENCE=ring in the jobs' environment). By default a barrier without data is a tree, which
  does not wait in a step of fewer nodes than TreeWidth (50). A rank then leaves MPI_Init while another
  is still in it, and its first message can crash that one with SIGSEGV (8 of 1327 starts of two ranks
  on two busy cores, 0 of 870 with the ring). This was seen with Slurm 22.05.8. The cause is in all
  versions at least from 20.11 to 23.02 (reverse_tree_info, width > num_nodes).
- controller="gloo": no MPI is needed. Each rank listens on a free port of the address that its host's
  name resolves to there; HOROVOD_GLOO_IFACE has no effect (tried with Horovod 0.28.1). Every node must
  reach this address, so /etc/hosts must not map a node's own name to 127.0.1.1, as Debian's installer does.

8. Verify
---------
- `python -m cluster doctor --run` on the login machine, as a student, shows what is missing, and runs a job
  of two ranks that proves the world size.
- `scontrol show config | grep PMIxCollFence` must print ring.
- As a student, request {c.gpus_per_student + 1} GPUs; the job must be pending as AssocGrpGRES.
  A job that allocates more than --mem must end as OUT_OF_MEMORY.
- `sacct -X` afterwards names both jobs.
"""
