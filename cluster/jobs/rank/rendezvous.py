"""The position of this rank among all ranks, and how Horovod's Gloo controller finds the others.

Gloo needs neither MPI nor ssh. While Horovod starts, rank 0 serves a small key-value store and writes its
address into the job's private folder, and every rank puts the address into its environment. Horovod's store
has no authentication, and Gloo's client cannot send any. It does request every path below the address that
it is given, so the address ends with a random secret, and the store refuses all other paths. It listens on
one address only and is stopped as soon as all ranks are connected.
"""

from __future__ import annotations

import contextlib
import ctypes
import hmac
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.slurm.words import expand
from cluster.system import files, settings

from ..errors import LaunchFailed, WrongWorldSize
from ..run.run_folder import Run

PATIENCE = 120  # seconds after which a rank gives up waiting for the others


@dataclass(frozen=True)
class Position:
    """A rank's position. `layout`: the number of ranks on each node; `attempt` distinguishes restarts."""

    rank: int
    layout: tuple[int, ...]
    attempt: str

    @property
    def size(self) -> int:
        return sum(self.layout)

    @property
    def node(self) -> int:
        return next(n for n in range(len(self.layout)) if self.rank < sum(self.layout[: n + 1]))

    @property
    def local_rank(self) -> int:
        return self.rank - sum(self.layout[: self.node])

    def horovod(self) -> dict[str, str]:
        """Return the environment variables for Horovod's Gloo controller."""
        peers = [n for n, tasks in enumerate(self.layout) if tasks > self.local_rank]
        values = {
            "RANK": self.rank,
            "SIZE": self.size,
            "LOCAL_RANK": self.local_rank,
            "LOCAL_SIZE": self.layout[self.node],
            "CROSS_RANK": peers.index(self.node),
            "CROSS_SIZE": len(peers),
            "HOSTNAME": f"node{self.node}",
        }
        return {f"HOROVOD_{k}": str(v) for k, v in values.items()}


def position(env: Mapping[str, str]) -> Position:
    """Return this rank's position, from the variables of its launcher (named by CLUSTER_LAUNCHER)."""
    launcher = settings.required("CLUSTER_LAUNCHER", env)
    if launcher == "slurm":
        layout = expand(env.get("SLURM_STEP_TASKS_PER_NODE") or env["SLURM_TASKS_PER_NODE"])
        attempt = f"{env['SLURM_JOB_ID']}.{env.get('SLURM_RESTART_COUNT', '0')}"
        return Position(int(env["SLURM_PROCID"]), layout, attempt)
    mpi = launcher == "mpirun"
    rank = env["OMPI_COMM_WORLD_RANK"] if mpi else settings.required("CLUSTER_RANK", env)
    layout = expand(settings.required("CLUSTER_LAYOUT", env))
    return Position(int(rank), layout, f"local.{settings.text('CLUSTER_ATTEMPT', env)}")


def meet(run: Run, here: Position, keep: set[str]) -> Callable[[], None]:
    """Set up Gloo's variables, except those in `keep`, and return a function that stops the store on rank 0.

    A single rank has no peers and needs no store. It does need the variables: if Horovod was built with MPI,
    too, it would start MPI on seeing Slurm's variables, and MPI aborts processes that it has not launched.
    """
    values = {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(PATIENCE),
    } | here.horovod()
    address, stop = "127.0.0.1", lambda: None
    if here.size > 1:
        file = run.rendezvous(here.attempt)
        stop = _serve(file, here) if here.rank == 0 else stop
        address, port, secret = _find(file, here.rank)
        # Gloo requests http://ADDR:PORT/scope/key, so what follows the first slash becomes part of the path.
        values["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = f"{address}:{port}/{secret}"
        values["HOROVOD_GLOO_RENDEZVOUS_PORT"] = str(port)
    values["HOROVOD_GLOO_IFACE"] = interface_to(address)
    os.environ.update({k: v for k, v in values.items() if k not in keep})
    return stop


def start_horovod(ranks: int) -> list[int]:
    """Initialise Horovod and verify that all ranks are connected; raises WrongWorldSize otherwise.

    Returns the kernel's thread IDs of the communication threads started by Horovod, Gloo and MPI.

    A rank that sees several GPUs selects its own before it computes. Otherwise all ranks of a node would use
    the first GPU, and TensorFlow would allocate the memory of all GPUs. Raises LaunchFailed if two ranks
    share a GPU and Horovod reduces by NCCL, which would fail with "invalid usage" or hang.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    before = _threads()
    hvd.init()
    started = sorted(_threads() - before)
    gpus = tf.config.list_physical_devices("GPU")
    mine = hvd.local_rank() % len(gpus) if gpus else 0
    if len(gpus) > 1:
        tf.config.set_visible_devices(gpus[mine], "GPU")
    if gpus and hvd.local_size() > 1:  # another rank may use the same GPU
        tf.config.experimental.set_memory_growth(gpus[mine], True)
    if hvd.size() != ranks:
        raise WrongWorldSize(
            f"Horovod sees {hvd.size()} rank(s), but the job has {ranks}: "
            "each would train alone and nothing would be averaged.",
            "Check the HOROVOD_* variables in env, and the output of `python -m cluster doctor --run`.",
        )
    if gpus and hvd.nccl_built():
        with tf.device("CPU"):  # so this exchange does not use NCCL
            _refuse_shared(hvd.allgather_object(gpu_id(mine)))
    met = int(hvd.allreduce(tf.constant(1), op=hvd.Sum))
    if met != ranks:
        raise WrongWorldSize(f"A sum of ones over {ranks} ranks gave {met}.", "Tell the administrator.")
    return started


def _threads() -> set[int]:
    task = Path("/proc/self/task")
    return {int(p.name) for p in task.iterdir()} if task.is_dir() else set()


def hide_gpus(options: Mapping[str, Any], given: Collection[str]) -> None:
    """Hide all GPUs from a rank whose job requested none, unless its `env` (`given`) or Slurm selects some.

    A machine's GPUs are visible to every process, so all ranks would compute on the first GPU.
    """
    names = "CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"
    if not options.get("gpus_per_rank") and names[0] not in given and not any(map(os.environ.get, names[1:])):
        os.environ[names[0]] = "-1"


def gpu_id(number: int) -> str:
    """Return the UUID of GPU `number`, in this process's CUDA order, in hexadecimal; '' if unknown."""
    uuid, device = (ctypes.c_ubyte * 16)(), ctypes.c_int()
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        failed = (
            cuda.cuInit(0)
            or cuda.cuDeviceGet(ctypes.byref(device), number)
            or cuda.cuDeviceGetUuid_v2(uuid, device)  # the UUID of the MIG instance, if there is one
        )
    except (OSError, AttributeError):  # no driver, or a driver older than CUDA 11.4
        return ""
    return "" if failed else bytes(uuid).hex()


def _refuse_shared(ids: Sequence[str]) -> None:
    """Raise LaunchFailed if two ranks use the same GPU. ids: the GPU of each rank, '' if unknown."""
    for gpu in dict.fromkeys(filter(None, ids)):
        ranks = [str(rank) for rank, other in enumerate(ids) if other == gpu]
        if len(ranks) > 1:
            raise LaunchFailed(
                f"Ranks {', '.join(ranks)} share one GPU ({gpu[:8]}…), but NCCL allows one rank per GPU.",
                "Use at most one rank per GPU: fewer ranks_per_node, or gpus_per_rank=1. "
                "For CPUs, use gpus_per_rank=0.",
            )


def _find(file: Path, rank: int) -> tuple[str, int, str]:
    """Return the address, port and secret of rank 0's store. Raises LaunchFailed after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while (record := files.read_json(file)) is None:
        if time.monotonic() > deadline:
            raise LaunchFailed(
                f"Rank {rank} waited {PATIENCE} s for rank 0, which did not write {file.name}.",
                "Look at job.logs(0); on a cluster, check that all nodes see the job's folder.",
            )
        time.sleep(0.05)
        os.listdir(file.parent)  # a network file system checks for new files only when the folder is listed
    return tuple(record)


def _serve(file: Path, here: Position) -> Callable[[], None]:
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    secret = secrets.token_hex(16)

    class Guarded(RendezvousHandler):
        """Horovod's handler, for requests of /SECRET:PORT/scope/key only."""

        path: str

        def parse_request(self) -> bool:
            """Remove the secret from the path, or refuse the request before its body is read."""
            if not super().parse_request():
                return False
            given, _, rest = self.path.removeprefix("/").partition("/")
            if hmac.compare_digest(given.partition(":")[0].encode(), secret.encode()):
                self.path = f"/{rest}"
                return True
            self.close_connection = True
            self.send_status_code(403)
            return False

    server = None
    for address in _addresses():
        with contextlib.suppress(OSError):
            server = RendezvousHTTPServer((address, 0), Guarded, 0)
            break
    if server is None:
        raise LaunchFailed(
            f"Rank 0 cannot listen on any of the addresses {_addresses()}.",
            "Set CLUSTER_ADDRESS to one of this node's addresses.",
        )
    server.daemon_threads = True
    hosts = ",".join(f"node{n}:{tasks}" for n, tasks in enumerate(here.layout))
    server.init(get_host_assignments(parse_hosts(hosts), here.size))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    files.write_json(file, [*server.server_address[:2], secret])

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return stop


def _addresses() -> list[str]:
    """Return the addresses of rank 0 that others may reach, best first."""
    if settings.text("CLUSTER_LAUNCHER") != "slurm":
        return ["127.0.0.1"]
    named = [settings.text("CLUSTER_ADDRESS"), os.environ.get("SLURM_LAUNCH_NODE_IPADDR")]
    with contextlib.suppress(OSError):
        named.append(socket.gethostbyname(socket.gethostname()))
    return [a for a in named if a]


def interface_to(address: str) -> str:
    """Return the name of the network interface through which this machine reaches an address.

    >>> interface_to("127.0.0.1")
    'lo'
    """
    import psutil

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((address, 9))  # sends no packet, but looks up the route
        mine = s.getsockname()[0]
    names = [n for n, addresses in psutil.net_if_addrs().items() if any(a.address == mine for a in addresses)]
    return names[0] if names else ""
