"""Detection of assignments that were corrected after a student had fetched them, and fetching them again with
the answers kept.

The release that a student fetched is identified by the checksums that nbgrader writes into the course's
cells, and by the copy of the release that the start page stores in the user's data when fetching.
"""

from __future__ import annotations

import copy
import datetime
import shutil
from functools import lru_cache
from pathlib import Path

import nbformat
from jupyter_core.paths import jupyter_data_dir
from nbformat import NotebookNode

from cluster import pasted_cells
from cluster.system import files

BEFORE = "before the correction"  # the folder for the notebook as it was before the correction


def kept_release(assignment: str) -> Path:
    """Return the folder that keeps the release fetched by this user."""
    return Path(jupyter_data_dir(), "course_fetched", f"{assignment}.ipynb")


def keep_release(released: Path, assignment: str) -> None:
    """Keep the release that is being fetched."""
    target = kept_release(assignment)
    target.parent.mkdir(parents=True, exist_ok=True)
    files.write(target, released.read_bytes())


def corrected(notebook: Path, released: Path | None, assignment: str) -> datetime.datetime | None:
    """Return when the assignment was corrected if this notebook lacks the correction, otherwise None."""
    if released is None:
        return None
    kept = kept_release(assignment)
    try:
        texts, checksums = course_cells(released)
        if kept.is_file():
            same = texts == course_cells(kept)[0]
        else:
            mine = course_cells(notebook)[1]
            same = all(mine.get(name, checksum) == checksum for name, checksum in checksums.items())
        return None if same else datetime.datetime.fromtimestamp(released.stat().st_mtime, datetime.UTC)
    except Exception:  # the notebook is unreadable; Validate and Submit report it
        return None


def course_cells(path: Path) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return ([(name, source)] of a notebook's cells, {name: checksum} of the course's cells as released)."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(64)
def _read(path: Path, _changed: int) -> tuple[list[tuple[str, str]], dict[str, str]]:
    cells = nbformat.read(path, as_version=4).cells
    roles = [cell.metadata["nbgrader"] for cell in cells if pasted_cells.name_of(cell)]
    checksums = {role["grade_id"]: role["checksum"] for role in roles if role.get("checksum")}
    return [(pasted_cells.name_of(cell), cell.source) for cell in cells], checksums


def fetch_again(notebook: Path, released: Path, assignment: str) -> Path:
    """Update a notebook to the corrected release, with the student's answers and own cells; return it.

    The original notebook is kept in the folder BEFORE next to it. Other files of the release are written if
    they are missing or have changed; the student's runs and files are kept.
    """
    folder, kept = notebook.parent, kept_release(assignment)
    mine, new = nbformat.read(notebook, as_version=4), nbformat.read(released, as_version=4)
    old = nbformat.read(kept, as_version=4) if kept.is_file() else None
    old_copy = folder / BEFORE / f"{datetime.datetime.now():%Y-%m-%d %H.%M.%S}" / notebook.name
    old_copy.parent.mkdir(parents=True)
    shutil.copy2(notebook, old_copy)
    merged = merge(mine, new, old)
    for path in sorted(released.parent.rglob("*")):
        target = folder / path.relative_to(released.parent)
        if path.is_file() and path != released:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_file() or target.read_bytes() != path.read_bytes():
                files.write(target, path.read_bytes())
    files.write(folder / released.name, nbformat.writes(merged).encode())
    keep_release(released, assignment)
    return folder / released.name


def merge(mine: NotebookNode, new: NotebookNode, old: NotebookNode | None) -> NotebookNode:
    """Return the release `new` with the answers and own cells of `mine`.

    old: the release from which `mine` was made, or None if unknown. A cell without a name belongs to the
    student if its text is in neither release. It stays after the cell that preceded it.
    """
    merged, course = copy.deepcopy(new), [cell for cell in new.cells if pasted_cells.name_of(cell)]
    mine = copy.deepcopy(mine)
    unnamed = {cell.source.strip() for cell in new.cells if not pasted_cells.name_of(cell)}
    pasted_cells.restore_names(mine, course, unnamed)
    cells = {pasted_cells.name_of(cell): cell for cell in merged.cells if pasted_cells.name_of(cell)}
    given = {cell.source.strip() for release in (new, old) if release for cell in release.cells}
    behind = merged.cells[0] if merged.cells else None
    for cell in mine.cells:
        there = cells.get(pasted_cells.name_of(cell))
        if there is not None:
            behind = there
            if there.metadata["nbgrader"].get("solution"):
                there.source = cell.source
        elif cell.source.strip() not in given:
            cell.metadata.pop("nbgrader", None)
            at = next((i + 1 for i, one in enumerate(merged.cells) if one is behind), 0)
            merged.cells.insert(at, cell)
            behind = cell
        else:
            same = [one for one in merged.cells if one.source.strip() == cell.source.strip()]
            behind = same[0] if same else behind
    seen: set[str] = set()
    for cell in merged.cells:
        if cell.get("id") in seen:
            cell["id"] = nbformat.v4.new_code_cell().id
        seen.add(cell.get("id", ""))
    return merged
