"""What failed checks say about their author: the misconception behind them, and where to read again.

A wrong accusation is worse than none. So a misconception is named only if the check has recognised it by a
value ("Likely: …"): a result *is* the one that it leads to (values.expect). Which checks fail together proves
nothing, because many mistakes fail the same checks.

Feedback and class report both ask `find`. Places to read are the
section of the assignment, and the section of the lecture that the check's `see` names.
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

MARKS = "?/:@!$&'()*+,;="  # that nbconvert leaves as they are in the id of a heading
LIKELY = re.compile(r" Likely: (.+)", re.DOTALL)  # as values.expect says it


@dataclass(frozen=True)
class Failure:
    """A check that failed: its error ("Name: text"), how (failures.py), and whether in its hidden part."""

    error: str
    kind: str
    hidden: bool = False

    @classmethod
    def from_error(cls, error: str, kind: str = "", hidden: bool = False) -> Failure:
        """With the kind read from the error, where none was recorded."""
        return cls(error, kind or failures.kind(error), hidden)

    @property
    def likely(self) -> str:
        """What the check itself has recognised, or "". A hidden check's words stay hidden."""
        found = LIKELY.search(self.error) if self.kind in (failures.VALUE, failures.FORM) else None
        return found[1].rstrip(".") if found and not self.hidden else ""


@dataclass(frozen=True)
class Misconception:
    """What a check has recognised, and the failed checks that some mutant fails together with it."""

    words: str
    checks: frozenset[str]


def find(failed: dict[str, Failure], mutants: Iterable[Mutant]) -> list[Misconception]:
    """What the failed checks {name: Failure} have recognised, in their order.

    mutants: their checks, if they fail together, are a group, whose other failures need no explanation.
    """
    mutants, found = tuple(mutants), []
    for group in groups(failed, mutants):
        likely = {failed[name].likely: None for name in failed if name in group and failed[name].likely}
        found += [Misconception(words, group) for words in likely]
    return found


def groups(failed: dict[str, Failure], mutants: Iterable[Mutant]) -> list[frozenset[str]]:
    """The failed checks, those with empty holes left out, joined where some mutant loses both."""
    found: list[frozenset[str]] = []
    for name in (name for name, failure in failed.items() if failure.kind != failures.EMPTY):
        related = set().union(*(m.fails | m.may_fail for m in mutants if name in m.fails | m.may_fail))
        joined = [group for group in found if group & related]
        found = [group for group in found if group not in joined]
        found.append(frozenset({name}).union(*joined))
    return found


def explain(root: Path, assignment: str, check: str, failed: dict[str, Failure]) -> str:
    """What a student is told below a failed check, as Markdown; "" where there is nothing to say.

    failed: all checks that failed.
    """
    lines, failure = [], failed[check]
    if failure.error.startswith("NotGraded"):
        return ""
    if failure.kind == failures.EMPTY:
        lines.append("**The hole is still empty**, or calls a function whose hole is.")
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
    """The instructor's notebook of an assignment, or None."""
    import nbformat

    paths = sorted((root / "solutions" / assignment).glob("*.ipynb"))
    return nbformat.read(paths[0], as_version=4) if len(paths) == 1 else None


@cache
def where(root: Path, assignment: str, check: str) -> str:
    """The places to read again, in words, or ""."""
    notebook, heading = source_of(root, assignment), ""
    for cell in notebook.cells if notebook else ():
        if cell.cell_type == "markdown":
            heading = next(iter(re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)[-1:]), heading)
        elif cell.metadata.get("nbgrader", {}).get("grade_id") == check:
            section = lecture_section(root, assignment, cell.metadata.get("see"))
            return ", and ".join(filter(None, [heading and above(heading), section]))
    return ""


def above(heading: str) -> str:
    """A link to a heading of the page, by nbconvert's id for it; only words where it has formulas or code."""
    words = f"“{heading}” above"
    if re.search(r"[`$*_<>&\[\]]", heading):
        return words
    return f"[{words}](<#{quote(heading.replace(' ', '-'), safe=MARKS)}>)"


def lecture_section(root: Path, assignment: str, see: str | None) -> str:
    """The section of the lecture that see="1.3" names, in words; "" without one. Raises ValueError."""
    import nbformat

    if not see:
        return ""
    number = f"{int(see.split('.')[0]):02}"
    for path in sorted((root / "lectures").glob(f"{number}_*.ipynb")):
        text = "\n".join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown")
        if found := re.search(rf"^#+ ({re.escape(see)}(?:\s|:).*)$", text, re.MULTILINE):
            return f"lecture {number}, section “{found.group(1).strip()}”"
    raise ValueError(f"see={see!r} of {assignment} names no section of lectures/{number}_*.ipynb")
