"""Misconceptions behind failed checks, and the sections to read again.

A wrong diagnosis is worse than none. A misconception is therefore named only if the check has recognised it
by a value ("Likely: …"), which means that the result *equals* the one that the misconception produces
(values.expect). Which checks fail together proves nothing, because many mistakes fail the same checks.

Feedback and class report use `find`. The sections are the assignment's and the lecture's in a check's `see`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from .. import failures

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from ..release.wrong_solutions import Mutant

MARKS = "?/:@!$&'()*+,;="  # characters that nbconvert leaves unchanged in the id of a heading
LIKELY = re.compile(r" Likely: (.+)", re.DOTALL)  # as written by values.expect


@dataclass(frozen=True)
class Failure:
    """A failed check: its error ("Name: text"), its kind (failures.py), and whether a hidden test failed."""

    error: str
    kind: str
    hidden: bool = False

    @classmethod
    def from_error(cls, error: str, kind: str = "", hidden: bool = False) -> Failure:
        """Return the failure with the kind derived from the error, if none was recorded."""
        return cls(error, kind or failures.kind(error), hidden)

    @property
    def likely(self) -> str:
        """Return the misconception that the check has recognised, or "" (always for hidden tests)."""
        match = LIKELY.search(self.error) if self.kind in (failures.VALUE, failures.FORM) else None
        return match[1].rstrip(".") if match and not self.hidden else ""


@dataclass(frozen=True)
class Misconception:
    """A misconception that a check recognises, and the failed checks that some mutant fails with it."""

    words: str
    checks: frozenset[str]


def find(failed: dict[str, Failure], mutants: Iterable[Mutant]) -> list[Misconception]:
    """Return the misconceptions recognised by the failed checks {name: Failure}, in notebook order.

    mutants: groups of checks that fail together, so failures in the same group need no further explanation.
    """
    mutants, result = tuple(mutants), []
    for group in groups(failed, mutants):
        likely = {failed[name].likely: None for name in failed if name in group and failed[name].likely}
        result += [Misconception(sentence, group) for sentence in likely]
    return result


def groups(failed: dict[str, Failure], mutants: Iterable[Mutant]) -> list[frozenset[str]]:
    """Group the failed checks, without empty blanks: checks that some mutant fails together are joined."""
    result: list[frozenset[str]] = []
    for name in (name for name, failure in failed.items() if failure.kind != failures.EMPTY):
        related = set().union(*(m.fails | m.may_fail for m in mutants if name in m.fails | m.may_fail))
        joined = [group for group in result if group & related]
        result = [group for group in result if group not in joined]
        result.append(frozenset({name}).union(*joined))
    return result


def explain(root: Path, assignment: str, check: str, failed: dict[str, Failure]) -> str:
    """Explain a failed check, one of `failed`, to the student, as Markdown; "" if there is no explanation."""
    lines, failure = [], failed[check]
    if failure.error.startswith("NotGraded"):
        return ""
    if failure.kind == failures.EMPTY:
        lines.append("**The blank is still empty**, or it calls a function whose blank is still empty.")
    if passages := where(root, assignment, check):
        lines.append(f"**Read again:** {passages}.")
    return "\n\n".join(lines)


@cache
def mutants_of(root: Path, assignment: str) -> tuple[Mutant, ...]:
    from ..release.wrong_solutions import load_all

    notebook = source_of(root, assignment)
    return tuple(load_all(root, assignment, notebook)) if notebook else ()


@cache
def source_of(root: Path, assignment: str) -> NotebookNode | None:
    """Return the instructor's notebook of an assignment, or None."""
    import nbformat

    paths = sorted((root / "solutions" / assignment).glob("*.ipynb"))
    return nbformat.read(paths[0], as_version=4) if len(paths) == 1 else None


@cache
def where(root: Path, assignment: str, check: str) -> str:
    """Describe the sections to read again, or return "" if there are none."""
    notebook, heading = source_of(root, assignment), ""
    for cell in notebook.cells if notebook else ():
        if cell.cell_type == "markdown":
            heading = next(iter(re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)[-1:]), heading)
        elif cell.metadata.get("nbgrader", {}).get("grade_id") == check:
            section = lecture_section(root, assignment, cell.metadata.get("see"))
            return ", and ".join(filter(None, [heading and above(heading), section]))
    return ""


def above(heading: str) -> str:
    """Link to a heading by nbconvert's id, or return only its text if it contains formulas or code."""
    place = f"“{heading}” above"
    if re.search(r"[`$*_<>&\[\]]", heading):
        return place
    return f"[{place}](<#{quote(heading.replace(' ', '-'), safe=MARKS)}>)"


def lecture_section(root: Path, assignment: str, see: str | None) -> str:
    """Describe the lecture's section named by see="1.3"; return "" if `see` is empty. Raises ValueError."""
    import nbformat

    if not see:
        return ""
    number = f"{int(see.split('.')[0]):02}"
    for path in sorted((root / "lectures").glob(f"{number}_*.ipynb")):
        text = "\n".join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown")
        if match := re.search(rf"^#+ ({re.escape(see)}(?:\s|:).*)$", text, re.MULTILINE):
            return f"lecture {number}, section “{match.group(1).strip()}”"
    raise ValueError(f"see={see!r} of {assignment} is not a section of lectures/{number}_*.ipynb")
