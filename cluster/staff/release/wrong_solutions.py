"""Wrong solutions (mutants): what each replaces in the solution, and which checks it must fail. And right but
unusual ones, which must fail none."""

from __future__ import annotations

import runpy
import textwrap
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    named = read(path, {"MISUNDERSTANDING", "FAILS", "REPLACE"}, {"MAY_FAIL"})
    luck = set(named.get("MAY_FAIL", ()))
    examine(path, notebook, named["REPLACE"], FAILS=named["FAILS"], MAY_FAIL=luck)
    if not named["FAILS"]:
        raise MutantError(f"{path}: FAILS is empty")
    return Mutant(path.stem, named["MISUNDERSTANDING"], set(named["FAILS"]), dict(named["REPLACE"]), luck)


def load_unusual(path: Path, notebook: NotebookNode) -> Mutant:
    """The right but unusual solution of a file: a Mutant that fails nothing."""
    named = read(path, {"UNUSUAL", "REPLACE"})
    examine(path, notebook, named["REPLACE"])
    return Mutant(path.stem, replace=dict(named["REPLACE"]))


def read(path: Path, needed: set[str], optional: Set[str] = frozenset()) -> dict[str, Any]:
    """The names in capitals that a file defines; raises MutantError where they are not those."""
    named = {name: value for name, value in runpy.run_path(str(path)).items() if name.isupper()}
    if set(named) - optional != needed:
        what = "an unusual solution" if "UNUSUAL" in needed else "a mutant"
        raise MutantError(f"{path} defines {sorted(named)}; {what} defines {sorted(needed)}")
    return named


def examine(path: Path, notebook: NotebookNode, replace: dict[str, str], **checks: Set[str]) -> None:
    """Raise MutantError unless `replace` names holes of the notebook, and each of `checks` its checks."""
    if not replace:
        raise MutantError(f"{path}: REPLACE is empty")
    holes, known = set(cells_of(notebook, "solution")) - written(notebook), set(points(notebook))
    for what, given, allowed in [("REPLACE", replace, holes), *((n, c, known) for n, c in checks.items())]:
        if unknown := sorted(set(given) - allowed):
            raise MutantError(f"{path}: {what} names {unknown}; the notebook has {sorted(allowed)}")


def load_all(root: Path, assignment: str, notebook: NotebookNode) -> list[Mutant]:
    """All mutants of an assignment, sorted by name."""
    return [load(path, notebook) for path in files_of(root, "mutants", assignment)]


def load_all_unusual(root: Path, assignment: str, notebook: NotebookNode) -> list[Mutant]:
    """All right but unusual solutions of an assignment, sorted by name."""
    return [load_unusual(path, notebook) for path in files_of(root, "unusual", assignment)]


def files_of(root: Path, kind: str, assignment: str) -> list[Path]:
    """The files of a kind (a folder of tests/), sorted; an assignment's folder is named by its number."""
    return sorted((root / "tests" / kind / assignment[:2]).glob("*.py"))


def cells_of(notebook: NotebookNode, role: str) -> dict[str, NotebookNode]:
    """{slug: cell} of the notebook's cells of a role of nbgrader's ("solution", "grade")."""
    found = {}
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if metadata.get(role):
            found[metadata["grade_id"]] = cell
    return found


def points(notebook: NotebookNode) -> dict[str, float]:
    """{check: points} of a notebook, without the written answers."""
    answers = cells_of(notebook, "solution")
    graded = cells_of(notebook, "grade").items()
    return {name: cell.metadata.nbgrader.points for name, cell in graded if name not in answers}


def written(notebook: NotebookNode) -> set[str]:
    """The slugs of the answers in words, which a person grades."""
    return set(cells_of(notebook, "grade")) - set(points(notebook))


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
