"""Which slow results `make test` makes again: those whose key is another, and a sample of the others.

The sample is chosen by the hash of the commit: the same for all who test this commit, another for the next,
so that in time each result is made again although nothing says that it has to be. A change of what all
gradings share gives hundreds of them another key, an hour's work: of one table `make test` makes at most
MOST again, chosen in the same way, and says how many are due. `make test-all` makes all, and records those
whose key is another, where they are as they should be.
"""

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

from cluster.staff import keys

ROOT = Path(__file__).parents[1]
ALL = os.environ.get("CLUSTER_TEST_ALL", "") not in ("", "0")
SAMPLE, ALL_ARE = NOT_CHANGED = "sample", "all are"  # why what has today's key is made again
MOST = 10  # of one table
UNCHANGED = "the recorded result has today's key: make test-all makes it again"


@cache
def tree():
    """The course, read once."""
    return keys.Tree(ROOT)


@cache
def commit():
    """The hash of the commit that is checked out; "" where there is no git."""
    try:
        words = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        return subprocess.run(words, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def sample(names, one_in=10, seed=None):
    """One in so many names, and at least one, as the commit (or the seed) chooses."""
    order = in_order(names, seed)
    return set(order[: -(-len(order) // one_in)])


def in_order(names, seed=None):
    """The names in the order of the commit (or the seed)."""
    seed = commit() if seed is None else seed
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())


def to_redo(why, one_in=10, most=None):
    """{name: why it is made again} of `why`, {name: why its key is another, "" if it is not}.

    most: of those whose key is another, as many as the commit chooses; None: all.
    """
    if ALL:
        return {name: words or ALL_ARE for name, words in why.items()}
    other = [name for name, words in why.items() if words]
    if most is None or len(other) <= most:
        chosen = sample(why, one_in) | set(other)
    else:
        chosen = set(in_order(other)[:most])
    return {name: words or SAMPLE for name, words in why.items() if name in chosen}


def due(why, redo):
    """How many have another key, and are left to `make test-all`: in words, "" where none are."""
    left = sum(1 for name, words in why.items() if words and name not in redo)
    return f"{left} more have another key and are left to make test-all" if left else ""


def note(record_property, what, why):
    """Have pytest's summary say what was made again because of a change, and why."""
    if why and why not in NOT_CHANGED:
        record_property("another key", f"{what}: {why}")
