"""Make an assignment of the course from a notebook of plain nbgrader, and say what is graded differently."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..course import CourseError, assignments
from .twins import GRADED, ROLES, notebook

if TYPE_CHECKING:
    from nbformat import NotebookNode

KINDS = dict(zip([(False, True), (True, False), (False, False), (True, True)], ROLES, strict=True))
SEES_CODE = re.compile(r"\b(getsource|__code__|get_ipython|globals|locals|In|Out)\b")


def adopt(root: Path, path: Path, name: str | None = None) -> tuple[Path, list[str]]:
    """Write the script of an assignment, and copy the other files of the notebook's folder. A notebook in
    solutions/ stays where it is. name: by default the first free number and the notebook's name.

    Returns (script, what differs from plain nbgrader). Raises CourseError.
    """
    import jupytext

    book = read(path)
    folder = path.absolute().parent
    if folder.parent != (root / "solutions").absolute():
        taken = {known[:2] for known in assignments(root)}
        free = next(number for n in itertools.count(1) if (number := f"{n:02}") not in taken)
        folder = root / "solutions" / (name or f"{free}_{slug(path.stem)}")
    script = folder / f"{slug(path.stem)}.py"
    others = [p for p in folder.glob("*.py") if p != script] if folder.exists() else []
    if script.exists() or others:
        there = (others or [script])[0]
        raise CourseError(f"{there} is a script in this folder already: choose another --name")
    notes = [note for cell in book.cells for note in shorten_role(cell)]
    book.metadata = {"jupytext": {"notebook_metadata_filter": "-all", "cell_metadata_filter": "all"}}
    folder.mkdir(parents=True, exist_ok=True)
    new = script.with_name(f".{script.name}")
    new.write_text(jupytext.writes(book, fmt="py:percent"), encoding="utf-8")
    try:
        notebook(new)
    except CourseError:
        new.unlink()
        raise
    for other in sorted(path.parent.iterdir()) if folder != path.absolute().parent else ():
        if other.suffix == ".py":
            notes.append(f"{other.name} is not copied, because a script next to a notebook is an assignment")
        elif other.suffix != ".ipynb" and not other.name.startswith((".", "__")):
            copy = shutil.copytree if other.is_dir() else shutil.copyfile
            copy(other, folder / other.name)
    new.rename(script)
    return script, [*notes, *differences(book)]


def read(path: Path) -> NotebookNode:
    """Return a notebook with nbgrader's current metadata. Raises CourseError."""
    import nbformat
    from nbgrader.nbgraderformat.v1 import MetadataValidatorV1
    from nbgrader.nbgraderformat.v2 import MetadataValidatorV2
    from nbgrader.nbgraderformat.v3 import MetadataValidatorV3

    try:
        book = nbformat.read(path, as_version=4)
    except Exception as error:  # whatever the file contains
        raise CourseError(f"{path} cannot be read as a notebook: {type(error).__name__}: {error}") from error
    for validator in (MetadataValidatorV1, MetadataValidatorV2, MetadataValidatorV3):
        book = validator().upgrade_notebook_metadata(book)
    return book


def slug(name: str) -> str:
    """Return a notebook's name in the form of the course's files."""
    return re.sub(r"\W+", "_", name.lower()).strip("_") or "notebook"


def shorten_role(cell: NotebookNode) -> list[str]:
    """Replace nbgrader's metadata of a cell by the course's shorthand, if it has one; return notes."""
    role: dict[str, Any] = cell.metadata.pop("nbgrader", {})
    cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
    name, flags = role.get("grade_id"), (bool(role.get("grade")), bool(role.get("solution")))
    if not name or not (any(flags) or role.get("locked") or role.get("task")):
        return []
    kind = KINDS[flags]
    if role.get("task") or (kind == "explain") != (cell.cell_type == "markdown"):
        cell.metadata["nbgrader"] = dict(role)  # which the shorthand does not have
    else:
        cell.metadata |= {kind: name} | ({"points": role["points"]} if kind in GRADED else {})
    by_hand = role.get("task") or kind == "explain"
    return [f"{name!r} is graded by hand, in Formgrader"] if by_hand else []


def differences(book: NotebookNode) -> list[str]:
    """Return sentences on checks that may be graded differently than by plain nbgrader."""
    found = []
    for cell in book.cells:
        name = cell.metadata.get("check")
        if cell.cell_type != "code" or not name:
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:
            found.append(f"check {name!r} is not plain Python (a magic?), and cannot be graded")
            continue
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        modules = {a.name for n in imports if isinstance(n, ast.Import) for a in n.names}
        modules |= {n.module for n in imports if isinstance(n, ast.ImportFrom) and n.module and not n.level}
        top = sorted({module.partition(".")[0] for module in modules})
        if missing := [module for module in top if importlib.util.find_spec(module) is None]:
            found.append(f"check {name!r} imports {', '.join(missing)}, which is not installed")
        if words := sorted(set(SEES_CODE.findall(cell.source))):
            found.append(
                f"check {name!r} uses {', '.join(words)}: checks run in another process than the student's"
                " cells, so they see values, and not the code"
            )
    return found
