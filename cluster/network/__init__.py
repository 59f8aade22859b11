"""Messages between ranks with a clock: the same algorithm runs in virtual time and on real ranks.

    from cluster.network import Network, simulate
    run = simulate(ring_allreduce, x, ranks=4, network=Network(latency=5e-6, time_per_byte=0.8e-9))

`simulate` runs the ranks in virtual time (`virtual`), `on_real_ranks` is for the ranks of a job (`real`);
either gives the function a `Communicator`.

    topologies    the cost of a message; links that messages share
    sums          contributions to a sum: `check_sum`, and `chunk_history` step by step
    bandwidth     bandwidth of all-reduces as a function of size
    fusion        an iteration with Horovod's cycle and tensor fusion; `resnet50` has the buffers
    draw          figures of what happened
    run           the result of `simulate`: messages and counts; `diagnosis`: its error messages
    sockets       real ranks without MPI; `recorded`: their records, replayed in virtual time on any network
    closed_forms  the cost of the all-reduces of lecture 06, as formulas
    splits        the cost of a transformer that is split over GPUs; `charts`: figures of lecture 11
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
