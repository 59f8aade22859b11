"""Grading with nbgrader: the comparison behind AUTOTEST, the release, the mutants and the demo.

The checks that a student's notebook runs need what is named here and nothing else, so the rest
(`python -m cluster.staff --help`) is imported only when it is asked for.
"""

from .calls import forbidden, in_place, unchanged, watched
from .compare import autotest, close, expect
from .ranks import has_failed, on_ranks
from .variant import variant

__all__ = [
    "autotest",
    "close",
    "expect",
    "forbidden",
    "has_failed",
    "in_place",
    "on_ranks",
    "unchanged",
    "variant",
    "watched",
]
