"""The former name of `cluster.checks`, for notebooks that students fetched under it."""

from cluster.checks import *  # noqa: F403
