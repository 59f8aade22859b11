"""The code cells of a text in jupytext's percent format."""

import re
from pathlib import Path

import jupytext

MAGIC = re.compile(r"(?m)^(\s*)([%!?].*)$")


def code_of(text: Path) -> list[str]:
    """Return the sources of the code cells as Python, with IPython's lines (%magic, !command, ?help) as
    comments."""
    cells = jupytext.read(text, fmt="py:percent").cells
    return [MAGIC.sub(r"\1pass  # \2", cell.source) for cell in cells if cell.cell_type == "code"]
