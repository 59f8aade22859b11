"""Mutants of an assignment (incorrect solutions), valid alternatives, and forged submissions.

Each assignment has one file of each kind, which an instructor writes and reads from top to bottom. An entry
is a table with the name of the submission:

    # tests/wrong_solutions/01.toml
    [padding_on_one_side]
    misconception = "Padding goes on one side only."
    fails = ["im2col-stride-padding"]               the checks that it fails, all of them and no other
    may_fail = ["recorded-run"]                     those that it fails by luck, now and then
    cells.im2col = "columns = x"                    solution cell: the text that replaces its solution,
    cells.forward = ["(padding, padding)", "(0, 2 * padding)"]      or a patch: old text, new text, …

    # tests/alternative_solutions/01.toml           another algorithm, a class, TensorFlow instead of NumPy,
    [stride_tricks]                                 warnings: it must fail no check
    description = "Windows by stride tricks."
    cells.im2col = "windows = …"

    # tests/forgeries/01.toml                       an empty submission with `answer` as its last cell
    [known_by_heart]
    description = "Returns the values of the visible checks."
    answer = "def im2col(x): …"
    fair = 2                                        the points that it deserves, 0 if not given

Other cells keep the solution. Each old text of a patch must occur exactly once in the solution of the cell;
otherwise the file is refused, because the solution has changed. A text of several lines is dedented, and its
further lines are indented like the first line of the old text. A line that becomes empty is deleted.
"""

from __future__ import annotations

import itertools
import re
import textwrap
import tomllib
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

STUB, SOLUTION = "stub", "solution"
WRONG, ALTERNATIVE, FORGERIES = "wrong_solutions", "alternative_solutions", "forgeries"  # folders in tests/


class MutantError(Exception):
    """An error in a file of mutants; the message contains the file, the value and what is allowed."""


@dataclass
class Mutant:
    """A submission with known results: the solutions that it replaces, and the checks that it must fail."""

    name: str
    misunderstanding: str = ""
    fails: set[str] = field(default_factory=set)
    replace: dict[str, str] = field(default_factory=dict)
    may_fail: set[str] = field(default_factory=set)


@dataclass
class Forgery:
    """An otherwise empty submission with `answer` as its last cell, which deserves `fair` points."""

    name: str
    says: str
    answer: str
    fair: float = 0


def load_all(root: Path, assignment: str, notebook: NotebookNode) -> list[Mutant]:
    """Load all mutants of an assignment, sorted by name and validated against its notebook in solutions/."""
    mutants, known = [], set(points(notebook))
    for where, name, entry in _read(
        root, WRONG, assignment, {"misconception", "fails", "cells"}, {"may_fail"}
    ):
        if not entry["fails"]:
            raise MutantError(f"{where}: fails is empty; it must name the checks that the mutant fails")
        fails, may_fail = set(entry["fails"]), set(entry.get("may_fail", ()))
        for what, given in (("fails", fails), ("may_fail", may_fail)):
            if unknown := sorted(given - known):
                raise MutantError(f"{where}: {what} names {unknown}, but the checks are {sorted(known)}")
        texts = _texts(where, entry["cells"], notebook)
        mutants.append(Mutant(name, entry["misconception"], fails, texts, may_fail))
    return mutants


def load_all_unusual(root: Path, assignment: str, notebook: NotebookNode) -> list[Mutant]:
    """Return all alternative solutions of an assignment, sorted by name: Mutants that fail nothing."""
    entries = _read(root, ALTERNATIVE, assignment, {"description", "cells"})
    return [Mutant(name, replace=_texts(where, one["cells"], notebook)) for where, name, one in entries]


def load_forgeries(root: Path, assignment: str) -> list[Forgery]:
    """Return all forged submissions of an assignment, sorted by name."""
    entries = _read(root, FORGERIES, assignment, {"description", "answer"}, {"fair"})
    return [Forgery(name, one["description"], one["answer"], one.get("fair", 0)) for _, name, one in entries]


def file_of(root: Path, kind: str, assignment: str) -> Path:
    """Return the file of this kind (a folder in tests/) for an assignment, identified by its number."""
    return root / "tests" / kind / f"{assignment[:2]}.toml"


def _read(
    root: Path, kind: str, assignment: str, needed: Set[str], optional: Set[str] = frozenset()
) -> list[tuple[str, str, dict[str, Any]]]:
    """Read a file's entries, sorted by name, as (location for messages, name, entry); none without a file."""
    path = file_of(root, kind, assignment)
    if not path.exists():
        return []
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MutantError(f"{path}: {error}") from error
    for name, entry in entries.items():
        if not name.isidentifier() or not isinstance(entry, dict):
            raise MutantError(f"{path}: {name!r} is not a valid entry, such as [padding_on_one_side]")
        if set(entry) - optional != needed:
            raise MutantError(f"{path}: {name} has {sorted(entry)}, but an entry has {sorted(needed)}")
    return [(f"{path}: {name}", name, entry) for name, entry in sorted(entries.items())]


def _texts(where: str, cells: dict[str, str | list[str]], notebook: NotebookNode) -> dict[str, str]:
    """Return {cell: its new solution}. Raises MutantError for unknown cells and old texts."""
    solutions = cells_of(notebook, "solution")
    allowed = set(solutions) - written(notebook)
    if not cells:
        raise MutantError(f"{where}: cells is empty; it must name solution cells among {sorted(allowed)}")
    if unknown := sorted(set(cells) - allowed):
        raise MutantError(f"{where}: cells names {unknown}, but it must name cells among {sorted(allowed)}")
    texts = {}
    for cell, change in cells.items():
        if isinstance(change, list):
            change = patched(solution_of(solutions[cell].source), change, f"{where}: cells.{cell}")
        texts[cell] = change
    return texts


def patched(text: str, patch: Sequence[str], where: str) -> str:
    """Apply [old, new, old, new, …] to `text`. Raises MutantError unless each old text occurs once."""
    if not patch or len(patch) % 2:
        raise MutantError(f"{where} has {len(patch)} texts, but a patch has pairs: old text, new text, …")
    spans = []
    for old, new in zip(patch[::2], patch[1::2], strict=True):
        places = _places(text, textwrap.dedent(old).strip("\n"))
        if len(places) != 1:
            raise MutantError(
                f"{where}: the solution has changed: {old!r} occurs {len(places)} times in it, not once. "
                "Rewrite the patch for the current solution."
            )
        [(start, end, indent)] = places
        new = _hanging(textwrap.dedent(new).strip("\n"), indent)
        line_start, line_end = text.rfind("\n", 0, start) + 1, f"{text}\n".index("\n", end)
        if not new and not (text[line_start:start] + text[end:line_end]).strip():
            start, end = line_start, line_end + 1
        spans.append((start, end, new))
    spans.sort(reverse=True)
    if any(after[0] < before[1] for after, before in itertools.pairwise(spans)):
        raise MutantError(f"{where}: two patches overlap; combine them")
    for start, end, new in spans:
        text = text[:start] + new + text[end:]
    return text.strip("\n")


def _places(text: str, block: str) -> list[tuple[int, int, str]]:
    """Return (start, end, indentation) of each occurrence of a block, at the indentation of its line."""
    found = []
    for match in re.finditer(re.escape(block.partition("\n")[0]), text):
        start = match.start()
        line = text[text.rfind("\n", 0, start) + 1 :]
        indent = line[: len(line) - len(line.lstrip(" "))]
        whole = _hanging(block, indent)
        if text.startswith(whole, start):
            found.append((start, start + len(whole), indent))
    return found


def _hanging(block: str, indent: str) -> str:
    """Return the block with all lines after the first indented."""
    return textwrap.indent(block, indent).removeprefix(indent)


def cells_of(notebook: NotebookNode, role: str) -> dict[str, NotebookNode]:
    """Return {slug: cell} for the notebook's cells with a role in nbgrader ("solution", "grade")."""
    result = {}
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if metadata.get(role):
            result[metadata["grade_id"]] = cell
    return result


def points(notebook: NotebookNode) -> dict[str, float]:
    """Return {check: points} of a notebook, without the written answers."""
    answers = cells_of(notebook, "solution")
    graded = cells_of(notebook, "grade").items()
    return {name: cell.metadata.nbgrader.points for name, cell in graded if name not in answers}


def written(notebook: NotebookNode) -> set[str]:
    """Return the slugs of the written answers, which are graded manually."""
    return set(cells_of(notebook, "grade")) - set(points(notebook))


def fill(release: NotebookNode, source: NotebookNode, replace: dict[str, str] | None = None) -> NotebookNode:
    """Fill in the release's blanks from the notebook `source`, or from `replace`, {slug: text}; return it."""
    answers = cells_of(source, "solution")
    for name, cell in cells_of(release, "solution").items():
        cell.source = refill(answers[name].source, (replace or {}).get(name))
    return release


def refill(source: str, text: str | None = None) -> str:
    """Return a solution cell without its delimiters; `text` replaces the solution, if given."""
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


def solution_of(source: str) -> str:
    """Return the text between the delimiters of a solution cell, dedented."""
    lines = source.splitlines()
    [start] = [i for i, line in enumerate(lines) if "BEGIN SOLUTION" in line]
    [end] = [i for i, line in enumerate(lines) if "END SOLUTION" in line]
    return textwrap.dedent("\n".join(lines[start + 1 : end])).strip("\n")
