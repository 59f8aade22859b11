"""Measure all-reduces over slow cables and record them: python lectures/runs/06_slow_network.py, as root.

Each rank runs in a separate network namespace. Its only connection is a cable (veth) to a switch (bridge),
with 50 Mbit/s in each direction (tc tbf). There are two layouts. Either all ranks are on one switch, or half
of them are on each of two switches, joined by one such cable. For each size, these run in turn, 12 times:

    ping-pong   half the time of a message from rank 0 to rank 1 and back
    exchange    each rank sends to its neighbour rank ^ 1 and receives from it, all pairs at once
    all-reduces parameter_server, tree, ring, halving_doubling: from a common start to the last rank's end

Then, on one switch, Horovod's all-reduce (Gloo, one tensor at a time) is measured in the same way.

While a message is under way, its ranks sleep and poll every 100 µs, so two cores suffice for eight ranks.
Ranks run at real-time priority, so other programs do not delay them.

06_slow_network.json contains each job's seconds (null if a rank learned of the start too late), versions,
machine and date, and the SHA-256 of this script. It is written after each job, and recorded jobs are not
repeated. The network is removed at the end. The script takes ten minutes.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime

import numpy as np

HERE = pathlib.Path(__file__).parent
RATE, BURST = 50e6, 2048  # bit/s of a cable in each direction; bytes that may pass in a burst
SIZES = [2**k for k in range(7, 19)]  # bytes of a vector
REPEATS, LOOK = 12, 100e-6  # seconds between two polls of a waiting rank
HOROVOD_SIZES = [2**k for k in range(7, 23)]  # bytes of a tensor
PREFIX = "lecture06-"  # prefix of the names of namespaces, switches and cables
NETWORK = "10.206.0"


def parameter_server(comm, x):
    """Add up all vectors on rank 0 and send the sum to all ranks; x (n,) becomes the sum, in place."""
    if comm.rank == 0:
        for other in range(1, comm.size):
            comm.add(x, comm.receive(other))
        for other in range(1, comm.size):
            comm.send(x, other)
    else:
        comm.send(x, 0)
        comm.receive(0, into=x)
    return x


def tree(comm, x):
    """Add up pairs, then pairs of pairs, … and send the sum back; x (n,) becomes the sum, in place."""
    rank, p, d = comm.rank, comm.size, 1
    while d < p and rank % (2 * d) == 0:
        if rank + d < p:
            comm.add(x, comm.receive(rank + d))
        d *= 2
    if rank:
        comm.send(x, rank - d)
        comm.receive(rank - d, into=x)
    while d > 1:
        d //= 2
        if rank + d < p:
            comm.send(x, rank + d)
    return x


def ring(comm, x):
    """All-reduce x (n,) in place along a ring; p divides n."""
    rank, p = comm.rank, comm.size
    right, left = (rank + 1) % p, (rank - 1) % p
    chunks = np.split(x, p)  # views: p chunks of n/p elements
    for step in range(p - 1):  # reduce-scatter: partial sums grow along the ring
        received = comm.sendreceive(chunks[(rank - step) % p], right, left)
        comm.add(chunks[(rank - step - 1) % p], received)
    for step in range(p - 1):  # all-gather: the sums go round again
        into = chunks[(rank - step) % p]
        comm.sendreceive(chunks[(rank + 1 - step) % p], right, left, into=into)
    return x


def halving_doubling(comm, x):
    """All-reduce x (n,) in place by halving-doubling; p is a power of two and divides n."""
    part, way, d = x, [], 1
    while d < comm.size:
        partner = comm.rank ^ d  # at distance 1, 2, 4, …
        mine, other = np.split(part, 2)[:: -1 if comm.rank & d else 1]
        comm.add(mine, comm.sendreceive(other, partner, partner))
        way.append((partner, mine, other))
        part, d = mine, 2 * d
    for partner, mine, other in reversed(way):
        comm.sendreceive(mine, partner, partner, into=other)
    return x


ALGORITHMS = (parameter_server, tree, ring, halving_doubling)


def ping_pong(comm, x):
    """Send x from rank 0 to rank 1 and back."""
    for turn in (0, 1):
        if comm.rank == turn:
            comm.send(x, 1 - turn)
        elif comm.rank == 1 - turn:
            comm.receive(turn)


def exchange(comm, x):
    """Exchange x between neighbours, in both directions at once."""
    comm.sendreceive(x, comm.rank ^ 1, comm.rank ^ 1)


def measure_messages():
    """Measure messages on a rank started by mpirun; rank 0 prints the rows."""
    from mpi4py import MPI

    from cluster.network.real import MPICommunicator

    class Sleeping(MPICommunicator):
        """A communicator that sleeps between two polls instead of spinning as MPI does."""

        def _progress(self):
            super()._progress()
            time.sleep(LOOK)

    comm, rows = Sleeping(MPI.COMM_WORLD), []
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    for repeat in range(-1, REPEATS):  # the first round only opens the connections
        for size in SIZES:
            for program in (ping_pong, exchange, *ALGORITHMS):
                x = np.full(size // 4, comm.rank + 1, np.float32)
                start, late = common_start(comm)
                program(comm, x)
                seconds = time.perf_counter() - start
                if program in ALGORITHMS and not np.all(x == comm.size * (comm.size + 1) / 2):
                    raise ValueError(f"{program.__name__} of {size} bytes: a wrong sum on rank {comm.rank}")
                if repeat >= 0:
                    rows.append([program.__name__, size, math.nan if late else seconds])
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    found = MPI.COMM_WORLD.gather([row[2] for row in rows])
    if comm.rank == 0:
        print(json.dumps(last_of(rows, found)), flush=True)


def measure_horovod():
    """Measure Horovod on a rank in a namespace, with Horovod's variables; rank 0 prints the rows."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    rows = []
    for repeat in range(-1, REPEATS):  # the first round only opens the connections
        for size in HOROVOD_SIZES:
            x = tf.fill([size // 4], hvd.rank() + 1.0)
            start = float(hvd.broadcast(tf.constant(time.perf_counter() + 0.05, tf.float64), 0, name="start"))
            left = start - time.perf_counter()
            time.sleep(max(0.0, left))
            found = hvd.allreduce(x, op=hvd.Sum, name=f"x{size}").numpy()
            seconds = time.perf_counter() - start
            if not np.all(found == hvd.size() * (hvd.size() + 1) / 2):
                raise ValueError(f"all-reduce of {size} bytes: a wrong sum on rank {hvd.rank()}")
            if repeat >= 0:
                rows.append(["horovod", size, math.nan if left < 0 else seconds])
    spent = hvd.allgather(tf.constant([[row[2] for row in rows]], tf.float64), name="rows").numpy()
    if hvd.rank() == 0:
        print(json.dumps(last_of(rows, spent)), flush=True)


def last_of(rows, found):
    """Return the rows with the slowest rank's seconds; `found` has one row of seconds per rank."""
    for row, seconds in zip(rows, np.max(found, axis=0), strict=True):
        half = seconds / (2 if row[0] == "ping_pong" else 1)
        row[2] = None if np.isnan(half) else round(half, 7)  # nan if a rank learned of the start too late
    return rows


def common_start(comm):
    """Sleep until a time chosen by rank 0 once all ranks are ready; return (the time, whether it was past).

    All processes of a machine read the same clock.
    """
    if comm.rank == 0:
        for other in range(1, comm.size):
            comm.receive(other)
        start = time.perf_counter() + 0.02
        for other in range(1, comm.size):
            comm.send(np.array(start), other)
    else:
        comm.send(np.zeros(1), 0)
        start = float(comm.receive(0))
    left = start - time.perf_counter()
    time.sleep(max(0.0, left))
    return start, left < 0


def address(rank):
    """Return a rank's address in the network; 254 is this machine's."""
    return f"{NETWORK}.{rank + 1}"


def run(*command):
    """Run a command of iproute2; raise an error with its output if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


@contextlib.contextmanager
def slow_network(ranks, switches):
    """Create the namespaces lecture06-0, … on one or two switches, and remove them afterwards."""
    remove()
    try:
        for s in range(switches):
            run("ip", "link", "add", f"{PREFIX}s{s}", "type", "bridge")
            run("ip", "link", "set", f"{PREFIX}s{s}", "up")
        run("ip", "addr", "add", f"{NETWORK}.254/24", "dev", f"{PREFIX}s0")
        if switches == 2:
            run("ip", "link", "add", f"{PREFIX}t0", "type", "veth", "peer", "name", f"{PREFIX}t1")
            for s in range(2):
                plug(f"{PREFIX}t{s}", f"{PREFIX}s{s}")
        for rank in range(ranks):
            name, cable = f"{PREFIX}{rank}", f"{PREFIX}c{rank}"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            plug(cable, f"{PREFIX}s{rank * switches // ranks}")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "addr", "add", f"{address(rank)}/24", "dev", "eth0")
            slow("eth0", "-n", name)
        yield
    finally:
        remove()


def plug(cable, switch):
    """Connect this end of a cable to a switch, and limit what the switch sends through it."""
    run("ip", "link", "set", cable, "master", switch)
    run("ip", "link", "set", cable, "up")
    slow(cable)


def slow(cable, *where):
    """Limit what leaves through this end of the cable to RATE, with a token bucket."""
    limit = ("rate", f"{RATE:.0f}bit", "burst", BURST, "latency", "1s")
    run("tc", *where, "qdisc", "add", "dev", cable, "root", "tbf", *limit)


def remove():
    """Remove all namespaces, cables and switches of this script."""
    for name in pathlib.Path("/run/netns").glob(f"{PREFIX}*"):
        subprocess.run(["ip", "netns", "del", name.name], check=True)
    for _ in range(2):  # removing one end of a cable removes the other, too
        for link in pathlib.Path("/sys/class/net").glob(f"{PREFIX}*"):
            subprocess.run(["ip", "link", "del", link.name], capture_output=True)


def messages(ranks, folder):
    """Return the rows of ranks started by mpirun, with a namespace as host; an agent replaces ssh."""
    agent = pathlib.Path(folder, "agent")
    agent.write_text(
        '#!/bin/sh\nhost=$1; shift\nexec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"\n'
    )
    agent.chmod(0o700)
    options = {
        "plm_rsh_agent": agent, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": f"{NETWORK}.0/24",
        "oob_tcp_if_include": f"{NETWORK}.0/24",
        # Send each message eagerly in one piece, so no rank busy-waits for the rest of it.
        "btl_tcp_eager_limit": 1 << 23, "btl_tcp_rndv_eager_limit": 1 << 23, "btl_tcp_max_send_size": 1 << 23,
    }  # fmt: skip
    hosts = ",".join(f"{PREFIX}{rank}" for rank in range(ranks))
    command = ["mpirun", "--allow-run-as-root", "--host", hosts, "-n", str(ranks)]
    command += [str(word) for name, value in options.items() for word in ("--mca", name, value)]
    command += [sys.executable, "-m", "mpi4py", str(pathlib.Path(__file__).resolve()), "--rank"]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, timeout=1200)
    if done.returncode:
        raise RuntimeError(f"mpirun ended with {done.returncode}; what it said stands above.")
    return json.loads(done.stdout)


def horovod(ranks):
    """Return the rows of Horovod's ranks, one per namespace, connected through a store in this process."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    server = RendezvousHTTPServer((f"{NETWORK}.254", 0), RendezvousHandler, 0)
    server.init(get_host_assignments(parse_hosts(",".join(f"{PREFIX}{r}:1" for r in range(ranks))), ranks))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    everyone = {
        "CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo", "GLOO_IFACE": "eth0", "SIZE": ranks, "LOCAL_RANK": 0,
        "LOCAL_SIZE": 1, "CROSS_SIZE": ranks, "GLOO_RENDEZVOUS_ADDR": server.server_address[0],
        "GLOO_RENDEZVOUS_PORT": server.server_address[1],
    }  # fmt: skip
    processes = []
    try:
        for rank in range(ranks):
            values = everyone | {"RANK": rank, "CROSS_RANK": rank, "HOSTNAME": f"{PREFIX}{rank}"}
            env = environment() | {f"HOROVOD_{name}": str(value) for name, value in values.items()}
            name = f'hostname {address(rank)}; exec "$@"'  # Gloo listens on the address of the host's name
            command = ["ip", "netns", "exec", f"{PREFIX}{rank}", "unshare", "--uts", "sh", "-c", name, "sh"]
            command += [sys.executable, __file__, "--horovod"]
            processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        said = [process.communicate(timeout=1200)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
        server.shutdown()
        server.server_close()
    if any(process.returncode for process in processes):
        raise RuntimeError("a rank of Horovod failed; what it said stands above.")
    return json.loads(said[0])


def environment():
    """Return this process's environment, with one thread per rank and the course's package."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return os.environ | threads | {"PYTHONPATH": str(HERE.parents[1])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "06_slow_network.json")
    parser.add_argument("--rank", action="store_true", help="as a rank of mpirun")
    parser.add_argument("--horovod", action="store_true", help="as a rank of Horovod")
    arguments = parser.parse_args()
    if arguments.horovod:
        return measure_horovod()
    if arguments.rank:
        return measure_messages()
    lacking = [name for name in ("ip", "tc", "unshare", "mpirun") if not shutil.which(name)]
    if os.geteuid() or lacking:
        sys.exit(f"Run this as root (to make namespaces); not found: {', '.join(lacking) or 'nothing'}.")
    from cluster.jobs.run import provenance

    script = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    settings = {"rate": RATE, "burst": BURST, "sizes": SIZES, "repeats": REPEATS}
    record = {"command": "python lectures/runs/06_slow_network.py", "settings": settings}
    former = json.loads(arguments.out.read_text())["jobs"] if arguments.out.exists() else []
    record["jobs"] = [job for job in former if job["script"] == script]
    for ranks, switches in [(4, 1), (4, 2), (8, 1), (8, 2)]:
        job = {"ranks": ranks, "switches": switches, "script": script}
        if any(all(other[k] == v for k, v in job.items()) for other in record["jobs"]):
            continue
        job |= {"versions": provenance.versions(), "machine": provenance.machine()}
        job["started"] = datetime.now(UTC).isoformat(timespec="seconds")
        with tempfile.TemporaryDirectory() as folder, slow_network(ranks, switches):
            rows = messages(ranks, folder) + (horovod(ranks) if switches == 1 else [])
        times = {}
        for name, size, seconds in rows:
            times.setdefault(name, {}).setdefault(str(size), []).append(seconds)
        record["jobs"].append(job | {"seconds": times})
        beside = arguments.out.with_name(f".{arguments.out.name}.tmp")
        beside.write_text(json.dumps(record) + "\n", encoding="utf-8")
        beside.rename(arguments.out)
        late = sum(seconds is None for *_, seconds in rows)
        print(f"{ranks} ranks, switches: {switches}, {late} of {len(rows)} late", flush=True)


if __name__ == "__main__":
    main()
