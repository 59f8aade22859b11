"""Wrong solutions (mutants): what each replaces in the solution, and which checks it must fail."""

from __future__ import annotations

import runpy
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

STUB, SOLUTION = "stub", "solution"


class MutantError(Exception):
    """A mutant file that is not one: the message names the file, the value and what is allowed."""


@dataclass
class Mutant:
    """One submission of the table: what it replaces, and which checks it must lose."""

    name: str
    misunderstanding: str = ""
    fails: set[str] = field(default_factory=set)
    replace: dict[str, str] = field(default_factory=dict)
    may_fail: set[str] = field(default_factory=set)


def load(path: Path, notebook: NotebookNode) -> Mutant:
    """The mutant of a file, examined against the notebook (of solutions/) whose holes it fills."""
    named = runpy.run_path(str(path))
    found = {name for name in named if name.isupper()}
    needed = {"MISUNDERSTANDING", "FAILS", "REPLACE"}
    if found - {"MAY_FAIL"} != needed:
        raise MutantError(f"{path} defines {sorted(found)}; a mutant defines {sorted(needed)}")
    holes, checks = cells_of(notebook, "solution"), cells_of(notebook, "grade")
    luck = set(named.get("MAY_FAIL", ()))
    for what, given, known in [
        ("REPLACE", named["REPLACE"], holes),
        ("FAILS", named["FAILS"], checks),
        ("MAY_FAIL", luck, checks),
    ]:
        if not given and what != "MAY_FAIL":
            raise MutantError(f"{path}: {what} is empty")
        if unknown := sorted(set(given) - set(known)):
            raise MutantError(f"{path}: {what} names {unknown}; the notebook has {sorted(known)}")
    return Mutant(path.stem, named["MISUNDERSTANDING"], set(named["FAILS"]), dict(named["REPLACE"]), luck)


def load_all(root: Path, assignment: str, notebook: NotebookNode) -> list[Mutant]:
    """All mutants of an assignment, sorted by name; their folder is named by the assignment's number."""
    folder = root / "tests" / "mutants" / assignment[:2]
    return [load(path, notebook) for path in sorted(folder.glob("*.py"))]


def cells_of(notebook: NotebookNode, role: str) -> dict[str, NotebookNode]:
    """{slug: cell} of the notebook's cells of a role of nbgrader's ("solution", "grade")."""
    found = {}
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if metadata.get(role):
            found[metadata["grade_id"]] = cell
    return found


def points(notebook: NotebookNode) -> dict[str, float]:
    """{check: points} of a notebook."""
    return {name: cell.metadata.nbgrader.points for name, cell in cells_of(notebook, "grade").items()}


def fill(release: NotebookNode, source: NotebookNode, replace: dict[str, str] | None = None) -> NotebookNode:
    """The release with its holes filled: as in the `source` notebook, unless `replace` says otherwise."""
    answers = cells_of(source, "solution")
    for name, cell in cells_of(release, "solution").items():
        cell.source = refill(answers[name].source, (replace or {}).get(name))
    return release


def refill(source: str, text: str | None = None) -> str:
    """A solution cell without its marks; with `text`, that stands where the solution stood."""
    lines, inside = [], False
    for line in source.splitlines():
        if "BEGIN SOLUTION" in line:
            inside = True
            if text is not None:
                indent = line[: len(line) - len(line.lstrip())]
                lines += textwrap.indent(textwrap.dedent(text).strip("\n"), indent).splitlines()
        elif "END SOLUTION" in line:
            inside = False
        elif not inside or text is None:
            lines.append(line)
    return "\n".join(lines)
