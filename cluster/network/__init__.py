"""Messages between ranks under a clock: an algorithm runs in virtual time and on real ranks, unchanged.

    from cluster.network import Network, simulate
    run = simulate(ring_allreduce, x, ranks=4, network=Network(latency=5e-6, time_per_byte=0.8e-9))

`simulate` runs the ranks in virtual time (`virtual`), `on_real_ranks` is for the ranks of a job (`real`);
either gives the function a `Communicator`.

    topologies    what a message costs; links that messages share
    sums          whose parts are in a sum: `check_sum`, and `chunk_history` step by step
    bandwidth     all-reduces over the size of what they reduce
    fusion        an iteration with Horovod's cycle and tensor fusion; `resnet50` has the buffers
    draw          what happened, as pictures
    run           what `simulate` returns: messages and counts; `diagnosis`: what its errors say
    sockets       real ranks without MPI; `recorded`: their notes, replayed in virtual time on any network
    closed_forms  what the all-reduces of lecture 06 cost, as formulas
"""

from .arrays import Placeholder
from .communicator import Communicator, Group
from .real import on_real_ranks
from .run import Run
from .topologies import Hierarchy, Network, Switch, Torus, Tree
from .virtual import simulate

__all__ = [
    "Communicator", "Group", "Hierarchy", "Network", "Placeholder", "Run", "Switch", "Torus", "Tree",
    "on_real_ranks", "simulate",
]  # fmt: skip
