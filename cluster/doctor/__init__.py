"""Report what is available to run jobs, and what is missing: `doctor()`.

The package can be called, as `jobs` can. It is imported on first use.
"""

import sys
import types
from typing import Any


class _Doctor(types.ModuleType):
    def __call__(self, run: bool = False) -> Any:
        """Return a report of this machine; see `cluster.doctor.checkup.doctor`."""
        from .checkup import doctor

        return doctor(run)


sys.modules[__name__].__class__ = _Doctor
