"""Which slow results `make test` makes again: those whose key is another, and a sample of the others.

The sample is chosen by the hash of the commit: the same for all who test this commit, another for the next,
so that in time each result is made again although nothing says that it has to be. `make test-all` makes all,
and records those whose key is another, where they are as they should be.
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
    seed = commit() if seed is None else seed
    order = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    return set(order[: -(-len(order) // one_in)])


def to_redo(why, one_in=10):
    """{name: why it is made again} of `why`, {name: why its key is another, "" if it is not}."""
    if ALL:
        return {name: words or ALL_ARE for name, words in why.items()}
    chosen = sample(why, one_in)
    return {name: words or SAMPLE for name, words in why.items() if words or name in chosen}


def note(record_property, what, why):
    """Have pytest's summary say what was made again because of a change, and why."""
    if why not in NOT_CHANGED:
        record_property("another key", f"{what}: {why}")
