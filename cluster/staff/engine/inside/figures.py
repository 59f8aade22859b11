"""Figures that need not be drawn in grading: the feedback shows them as they were handed in.

Drawing takes as long as most notebooks compute, and nothing is graded by it.
"""

from collections.abc import Callable
from typing import Any

NOT_DRAWN = "bm90IGRyYXdu"  # stands for a picture's base64


def leave_undrawn(is_undrawn: Callable[[], bool]) -> None:
    """Have Jupyter's inline figures be NOT_DRAWN while `is_undrawn()`, whatever format is asked for."""
    from IPython.core import pylabtools

    draw = pylabtools.print_figure

    def print_figure(figure: Any, *args: Any, **kwargs: Any) -> Any:
        return NOT_DRAWN if is_undrawn() else draw(figure, *args, **kwargs)

    pylabtools.print_figure = print_figure  # type: ignore[assignment]
