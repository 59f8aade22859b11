"""The part of an epoch that each of p ranks sees (assignment 07; reasons in section 7.3 of lecture 07)."""

import numpy as np


def shard(n: int, rank: int, size: int, epoch: int = 0, seed: int = 0) -> np.ndarray:
    """Return which of n examples this rank sees in this epoch, int64 (n // size,), in the order of steps.

    One shuffle per epoch, drawn from (seed, epoch), is the same on all ranks; each rank takes every size-th
    index of it, starting at its own rank. The shards are therefore disjoint, and the batches of b that the
    ranks see at step t together form the batch of size * b that one process would have seen.

    All shards are equally long, so no rank waits for a step that another does not have. The n % size examples
    at the end of the shuffle are left out: fewer than one per rank, and others in the next epoch.

    One shuffle, sharded, follows Goyal et al. (arXiv 1706.02677, section 3). Raises ValueError for a rank
    outside 0 ... size - 1, and for fewer examples than ranks.
    """
    if not 0 <= rank < size:
        raise ValueError(f"rank={rank} with size={size}: ranks count from 0 to size - 1")
    if n < size:
        raise ValueError(f"{n} examples are too few for {size} ranks: use fewer ranks")
    order = np.random.default_rng([seed, epoch]).permutation(n)  # (n,)
    return order[: n - n % size][rank::size]
