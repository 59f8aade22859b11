"""The base class of the errors that this package raises: what is wrong, and what to do about it."""

from __future__ import annotations


class ClusterError(Exception):
    """An error for users: `what` happened, and the `next_step`.

    A notebook shows these two instead of a traceback, since the frames of this package would hide them.
    Each part of the package derives its own errors from this class.
    """

    def __init__(self, what: str, next_step: str = ""):
        self.what, self.next_step = what, next_step
        super().__init__(what if not next_step else f"{what}\n→ {next_step}")

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython and Jupyter print instead of a traceback."""
        notes: list[str] = getattr(self, "__notes__", [])
        first, *rest = [*str(self).splitlines(), *notes]
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {first}", *rest]
