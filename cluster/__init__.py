"""From Convolution to Cluster: the parts that talk to the cluster, and those that run on it.

`from cluster import submit` is all that most notebooks need. Heavy modules are imported only on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import doctor
    from .jobs import attach, submit, watch
    from .jobs import map as map

__all__ = ["attach", "doctor", "jobs", "submit", "watch"]
_NAMES = {*__all__, "map"}  # `from cluster import *` keeps Python's own map


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("jobs", "doctor"):  # packages that can be called: jobs() lists the jobs
        return import_module(f"cluster.{name}")
    return getattr(import_module("cluster.jobs"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
