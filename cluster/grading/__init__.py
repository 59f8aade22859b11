"""Grading with nbgrader: the comparison behind AUTOTEST, the release, the mutants and the demo.

The checks that a student's notebook runs need what is named here and nothing else, so the rest
(`python -m cluster.grading --help`) is imported only when it is asked for.
"""

from cluster.grading.values import autotest, close, expect
from cluster.grading.variant import variant
from cluster.grading.watch import forbidden, in_place, watched

__all__ = ["autotest", "close", "expect", "forbidden", "in_place", "variant", "watched"]
