"""What the cells of an assignment import: values compared (`compare`), calls counted (`calls`), functions on
ranks (`ranks`), numbers of one's own (`variant`).

Students have no more of grading than this; the rest is in `cluster.staff`.
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
