"""Inputs of hidden tests, different in every submission.

    image = fresh_rng(1).standard_normal((2, 5, 6, 3))
    fresh = fresh_rng(2)
    stride, padding = fresh.integers(2, 4), fresh.integers(3)

A hidden test with literal inputs is worthless as soon as one submission has seen them. In the autograder, the
inputs follow from a seed of the submission. A regrade has the same seed, and a change of the submission gives
another. In a notebook, the seed is `SEED`. The verdict of a submission contains its `seed`
(.grading/runs/ASSIGNMENT/items/STUDENT/…/verdict.json). To repeat its inputs, set it in the instructor's
notebook before the check runs:

    from cluster.checks import draws
    draws.SEED = 254781563801190872637428117234198162333

With every seed, the solution must pass and every wrong solution must fail. Draw only inputs that distinguish
the misconceptions, for example no stride of 1 in a check of strides.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .calls import ENGINE

if TYPE_CHECKING:
    import numpy as np

SEED = 0  # of every notebook, so that a release, Validate and the solution are the same in each run


def fresh_rng(*numbers: int) -> np.random.Generator:
    """Return a new generator for a hidden test's inputs: the same only for this submission and these numbers.

    numbers: non-negative integers that distinguish the generators of a notebook. In a notebook, every call
    with the same numbers returns the same values.
    """
    import numpy as np

    engine = sys._getframe(1).f_globals.get(ENGINE)
    seed = engine.seed if engine else SEED
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=numbers))
