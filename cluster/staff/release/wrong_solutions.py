"""Wrong solutions (mutants): what each replaces in the solution, and which checks it must fail."""

from __future__ import annotations

import runpy
import textwrap
from dataclasses import dataclass, field

STUB, SOLUTION = "stub", "solution"


class MutantError(Exception):
    """A mutant file that is not one: the message names the file, the value and what is allowed."""


@dataclass
class Mutant:
    """One submission of the table: what it replaces, and which checks it must lose."""

    name: str
    misunderstanding: str = ""
    fails: set = field(default_factory=set)
    replace: dict = field(default_factory=dict)
    may_fail: set = field(default_factory=set)


def load(path, notebook):
    """The mutant of a file, examined against the notebook (of solutions/) whose holes it fills."""
    named = runpy.run_path(str(path))
    found = {name for name in named if name.isupper()}
    needed = {"MISUNDERSTANDING", "FAILS", "REPLACE"}
    if found - {"MAY_FAIL"} != needed:
        raise MutantError(f"{path} defines {sorted(found)}; a mutant defines {sorted(needed)}")
    holes, checks = set(cells_of(notebook, "solution")) - written(notebook), points(notebook)
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


def load_all(root, assignment, notebook):
    """All mutants of an assignment, sorted by name; their folder is named by the assignment's number."""
    folder = root / "tests" / "mutants" / assignment[:2]
    return [load(path, notebook) for path in sorted(folder.glob("*.py"))]


def cells_of(notebook, role):
    """{slug: cell} of the notebook's cells of a role of nbgrader's ("solution", "grade")."""
    found = {}
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if metadata.get(role):
            found[metadata["grade_id"]] = cell
    return found


def points(notebook):
    """{check: points} of a notebook, without the written answers."""
    answers = cells_of(notebook, "solution")
    graded = cells_of(notebook, "grade").items()
    return {name: cell.metadata.nbgrader.points for name, cell in graded if name not in answers}


def written(notebook):
    """The slugs of the answers in words, which a person grades."""
    return set(cells_of(notebook, "grade")) - set(points(notebook))


def fill(release, source, replace=None):
    """The release with its holes filled: as in the `source` notebook, unless `replace` says otherwise."""
    answers = cells_of(source, "solution")
    for name, cell in cells_of(release, "solution").items():
        cell.source = refill(answers[name].source, (replace or {}).get(name))
    return release


def refill(source, text=None):
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
