"""Helpers for an assignment's cells: `compare` values, count `calls`, draw inputs, run functions on `ranks`.

Students get only this part of grading; the rest is in `cluster.staff`.
"""

from .calls import in_place, once, unchanged, watched
from .compare import autotest, close, expect
from .draws import fresh_rng
from .ranks import has_failed, on_ranks

__all__ = [
    "autotest",
    "close",
    "expect",
    "fresh_rng",
    "has_failed",
    "in_place",
    "on_ranks",
    "once",
    "unchanged",
    "watched",
]
