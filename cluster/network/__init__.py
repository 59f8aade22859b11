"""Messages between ranks under a clock: an algorithm runs in virtual time and on real ranks, unchanged.

    from cluster.network import Network, simulate
    run = simulate(ring_allreduce, x, ranks=4, network=Network(latency=5e-6, time_per_byte=0.8e-9))

`simulate` is the virtual one (`virtual`), `on_ranks` the real one (`real`); both give the function a
`Communicator`. `topologies` says what a message costs, `draw` shows what happened.
"""

from .arrays import Placeholder
from .communicator import Communicator, Group
from .real import on_ranks
from .topologies import Hierarchy, Network, Switch, Torus, Tree
from .virtual import Run, simulate

__all__ = [
    "Communicator", "Group", "Hierarchy", "Network", "Placeholder", "Run", "Switch", "Torus", "Tree",
    "on_ranks", "simulate",
]  # fmt: skip
