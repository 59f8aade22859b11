"""Converter of assignments, which are written as text (jupytext percent), to notebooks with nbgrader's
metadata.

A cell's role is in its header, with a permanent slug:

    # %% solution="im2col"                 students fill in the blank between BEGIN and END SOLUTION
    # %% check="im2col-by-hand" points=2   graded, read-only
    # %% given="setup"                     read-only, not graded
    # %% [markdown] explain="cost" points=2   a written answer, which a person grades in Formgrader

Grading notes for a written answer (a rubric, sample answers) are between BEGIN SOLUTION and END SOLUTION.

Everything else in a header (tags, and even explicit nbgrader metadata) is copied unchanged. Cell ids are the
slugs, or a hash of the cell's text, so generating twice gives the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..course import CourseError

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROLES = ("solution", "check", "given", "explain")
GRADED = ("check", "explain")
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def notebook(text_file: Path | str) -> NotebookNode:
    """Return the notebook (NotebookNode) that the percent script `text_file` describes, without outputs."""
    import jupytext
    import nbformat

    source = jupytext.read(text_file, fmt="py:percent")
    seen: dict[str, int] = {}
    cells = []
    for cell in source.cells:
        cell.metadata = role(dict(cell.metadata), cell.cell_type, text_file)
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell["id"] = name or hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[cell["id"]] = seen.get(cell["id"], 0) + 1
        if seen[cell["id"]] > 1:
            if name:
                raise CourseError(f"{text_file}: two cells are called {name!r}, but names must be unique")
            cell["id"] += f"-{seen[cell['id']]}"
        cells.append(cell)
    node = nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    node.nbformat_minor = 5
    nbformat.validate(node)
    return node


def role(metadata: dict[str, Any], cell_type: str, text_file: Path | str) -> dict[str, Any]:
    """Return a cell's metadata with the course's shorthand replaced by nbgrader's."""
    roles = [r for r in ROLES if r in metadata]
    if not roles:
        if "points" in metadata:
            raise CourseError(
                f'{text_file}: a cell has points={metadata["points"]} but no check="name" or explain="name"'
            )
        return metadata
    if len(roles) > 1:
        raise CourseError(f"{text_file}: one cell is {' and '.join(roles)}, but it can have only one role")
    [kind] = roles
    name, points = metadata.pop(kind), metadata.pop("points", None)
    if (kind in GRADED) != (points is not None):
        raise CourseError(
            f'{text_file}: cell {name!r}: check="…" and explain="…" cells need points; others must have none'
        )
    if (kind == "explain") != (cell_type == "markdown"):
        raise CourseError(
            f"{text_file}: cell {name!r} is {kind}, in a {cell_type} cell, but explain belongs to "
            "[markdown] cells, which have no other role"
        )
    grade, solution = kind in GRADED, kind in ("solution", "explain")
    flags = {
        "grade": grade,
        "grade_id": name,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
    }
    metadata["nbgrader"] = flags | {"task": False} | ({"points": points} if grade else {})
    return metadata


def write_notebook(text_file: Path | str, target: Path | str | None = None) -> Path:
    """Write the notebook next to its paired script (or to `target`) unless up to date; return its path."""
    import nbformat

    target = Path(target or Path(text_file).with_suffix(".ipynb"))
    text = nbformat.writes(notebook(text_file)) + "\n"
    if not target.exists() or target.read_text() != text:
        temp = target.with_suffix(".ipynb.tmp")
        temp.write_text(text)
        os.replace(temp, target)
    return target


def write_notebooks(root: Path) -> None:
    """Write the notebooks in solutions/ that are missing, or older than their scripts or this converter."""
    converter = Path(__file__).stat().st_mtime
    for text_file in sorted(root.glob("solutions/*/*.py")):
        target = text_file.with_suffix(".ipynb")
        made = target.stat().st_mtime if target.exists() else 0
        if made < max(converter, text_file.stat().st_mtime):
            write_notebook(text_file, target)
            with contextlib.suppress(PermissionError):  # unchanged, and written by root for `make hub`
                os.utime(target)


if __name__ == "__main__":
    write_notebooks(Path(__file__).resolve().parents[3])
