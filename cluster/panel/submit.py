"""The former name of `cluster.pages.nbgrader_submit`, which nbgrader's settings of a site may still name."""

from cluster.pages.nbgrader_submit import Submit  # noqa: F401
