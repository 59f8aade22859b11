"""The guesses of an executed lecture, from `guess` and `compare`, for its slides and for the book."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOUND = re.compile(r"^(?P<question>.*): (?P<value>[^:]*); you wrote down no guess$", re.MULTILINE)


def printed(cell: NotebookNode) -> str:
    """Return the printed output of a notebook's code cell."""
    return "".join(o.text for o in cell.get("outputs", ()) if o.output_type == "stream")


def answers(cells: list[NotebookNode]) -> dict[str, tuple[str, int]]:
    """Return {question: (the measured number with its unit, index of the cell that prints it)}."""
    return {
        match["question"]: (match["value"], index)
        for index, cell in enumerate(cells)
        for match in FOUND.finditer(printed(cell))
    }


def questions(source: str, answered: dict[str, tuple[str, int]]) -> list[str]:
    """Return the questions in a cell's `guess` that are answered somewhere, in order.

    A question that is assembled from pieces is identified by its answers. For a cell that is not plain Python
    (because of IPython's own syntax), the result is empty.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    result = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "guess" and node.args:
            asked = node.args[0]
            if isinstance(asked, ast.Constant):
                result.append(asked.value)
            elif isinstance(asked, ast.JoinedStr):
                parts = (
                    re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".+" for v in asked.values
                )
                pattern = re.compile("".join(parts))
                result += [question for question in answered if pattern.fullmatch(question)]
    return [question for question in dict.fromkeys(result) if question in answered]
