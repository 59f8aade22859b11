"""Figures that are not drawn during grading: the feedback shows them as they were submitted.

Drawing takes as long as the computation of most notebooks, and does not affect the grade.
"""

from collections.abc import Callable
from typing import Any

NOT_DRAWN = "bm90IGRyYXdu"  # placeholder for the base64 of an image


def leave_undrawn(is_undrawn: Callable[[], bool]) -> None:
    """Replace Jupyter's inline figures by NOT_DRAWN while `is_undrawn()`, in every format."""
    from IPython.core import pylabtools

    draw = pylabtools.print_figure

    def print_figure(figure: Any, *args: Any, **kwargs: Any) -> Any:
        return NOT_DRAWN if is_undrawn() else draw(figure, *args, **kwargs)

    pylabtools.print_figure = print_figure  # type: ignore[assignment]
