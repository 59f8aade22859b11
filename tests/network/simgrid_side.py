"""SimGrid's side of a case, for the system's Python: `python3 simgrid_side.py CASE` prints its times as JSON.

    python3 simgrid_side.py --halving-doubling RANKS BYTES      # behind a switch, for `make bench`

The programs are the same as in virtual time. Here, their communicator consists of SimGrid's actors and
mailboxes, and the platform of its links and routes. NumPy is not needed, because arrays are only sizes.
"""

import importlib.util
import json
import sys
import time
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ["network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0"]
FAST = 1e18  # bytes/s of a link that represents only latency


class Sizes:
    """An array of bytes that stores only its size."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, part):
        return Sizes(len(range(*part.indices(self.n))))


class Wait:
    """A request whose `wait` is SimGrid's."""

    def __init__(self, wait):
        self.wait = wait


class Communicator:
    """The interface of `cluster.network`, implemented with SimGrid's calls."""

    def __init__(self, simgrid, rank, size, network):
        self.simgrid, self.rank, self.size, self.network = simgrid, rank, size, network

    def isend(self, x, dest):
        self.compute(self.network.overhead)
        comm = self._mailbox(self.rank, dest).put_async(len(x), max(len(x), 1e-9))
        return Wait(comm.wait)

    def ireceive(self, source, into=None):
        request = self._mailbox(source, self.rank).get_async()
        comm, payload = (request[0], request[1]) if isinstance(request, tuple) else (request, request)

        def wait():
            comm.wait()
            self.compute(self.network.overhead)
            return Sizes(payload.get())

        return Wait(wait)

    def send(self, x, dest):
        self.isend(x, dest).wait()

    def receive(self, source, into=None):
        return self.ireceive(source).wait()

    def sendreceive(self, x, dest, source, into=None):
        sent, taken = self.isend(x, dest), self.ireceive(source)
        result = taken.wait()
        sent.wait()
        return result

    def add(self, into, x):
        assert len(into) == len(x)
        self.compute(self.network.reduction * len(x))
        return into

    def compute(self, seconds):
        if seconds:
            self.simgrid.this_actor.sleep_for(seconds)

    def time(self):
        return self.simgrid.Engine.clock

    def _mailbox(self, source, dest):
        return self.simgrid.Mailbox.by_name(f"{source} {dest}")


def platform(simgrid, ranks, network):
    """Create hosts, and the links of each pair's route; routes that share nothing have their own links."""
    zone = simgrid.NetZone.create_full_zone("all")
    hosts = [zone.create_host(f"rank {r}", 1e9) for r in range(ranks)]
    shared = {}
    for a in range(ranks):
        for b in range(ranks):
            if a == b:
                continue
            route = network.route(a, b)
            own = zone.create_link(f"{a} {b}", FAST if route.links else 1 / route.time_per_byte)
            links = [own.set_latency(route.latency).seal()]
            for key in route.links:
                if key not in shared:
                    speed = 1 / network.link_time_per_byte(key)
                    shared[key] = zone.create_link(f"shared {len(shared)}", speed).set_latency(0.0).seal()
                links.append(shared[key])
            zone.add_route(
                hosts[a].netpoint, hosts[b].netpoint, None, None,
                [simgrid.LinkInRoute(link) for link in links], False,
            )  # fmt: skip
    zone.seal()
    return hosts


def star(simgrid, ranks, network):
    """Create a switch with many ranks, using a cable per rank instead of a route per pair."""
    zone = simgrid.NetZone.create_star_zone("all")
    hosts = [zone.create_host(f"rank {r}", 1e9) for r in range(ranks)]
    for rank, host in enumerate(hosts):
        up, down = (
            zone.create_link(f"{way} {rank}", 1 / network.time_per_byte)
            .set_latency(network.latency / 2)
            .seal()
            for way in ("up", "down")
        )
        zone.add_route(host.netpoint, None, None, None, [simgrid.LinkInRoute(up)], False)
        zone.add_route(None, host.netpoint, None, None, [simgrid.LinkInRoute(down)], False)
    zone.seal()
    return hosts


def run(function, ranks, size, network, further=(), make=platform):
    """Return (seconds until the last actor has ended, CPU seconds of this machine after the set-up)."""
    import simgrid

    engine = simgrid.Engine(["side", *(f"--cfg={text}" for text in CONFIGURATION), "--log=root.thres:error"])
    hosts, ends = make(simgrid, ranks, network), []

    def actor(rank):
        function(Communicator(simgrid, rank, ranks, network), Sizes(size), *further)
        ends.append(engine.clock)

    for rank, host in enumerate(hosts):
        simgrid.Actor.create(f"rank {rank}", host, actor, rank)
    begin = time.process_time()
    engine.run()
    assert len(ends) == ranks, "some ranks did not end"
    return max(ends), time.process_time() - begin


def main(names):
    """Run one case and print its times; SimGrid allows only one platform per process."""
    package = types.ModuleType("cluster.network")  # without its __init__, which needs NumPy
    package.__path__ = [str(ROOT / "cluster" / "network")]
    sys.path.insert(0, str(ROOT))
    sys.modules["cluster.network"] = package
    spec = importlib.util.spec_from_file_location("cases", Path(__file__).with_name("cases.py"))
    cases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cases)
    if names[0] == "--halving-doubling":
        ranks, size = map(int, names[1:])
        network = cases.t.Switch(**cases.TEN_GBIT)
        seconds, busy = run(cases.function("halving_doubling"), ranks, size, network, make=star)
    else:
        name, ranks, size, network, further = cases.CASES[names[0]]
        seconds, busy = run(cases.function(name), ranks, size, network, further)
    print(json.dumps({"seconds": seconds, "busy": busy}))


if __name__ == "__main__":
    main(sys.argv[1:])
