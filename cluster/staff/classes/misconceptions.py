"""What failed checks say about their author: the misconception behind them, and where to read again.

A wrong accusation is worse than none. So a misconception is named only

- in the check's own words ("Likely: …"), where a result *is* the one that it leads to (values.expect), or
- where at least two checks found wrong values, and the checks that failed are those of one mutant and of no
  other: each entry of tests/wrong_solutions/ names the checks that fail together with this misconception.

Nothing is concluded from an error, another shape or dtype, or a time limit, nor from checks that fail
together with one of these. Feedback and class report both ask `find`. Places to read are the
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
LEAST = 2  # wrong values of which the pattern says something: one has too many causes
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
    """What the author of these checks' failures thinks; `told`: a check has said so in its own message."""

    words: str
    checks: frozenset[str]
    told: bool


def find(failed: dict[str, Failure], mutants: Iterable[Mutant]) -> list[Misconception]:
    """What the failed checks {name: Failure} show, in their order; one of which nothing is known is in none.

    Checks that one mutant loses together are looked at together: where one of them has recognised a
    misconception, the mutants say nothing of the others.
    """
    mutants, found = tuple(mutants), []
    for group in groups(failed, mutants):
        told = {failed[name].likely: None for name in failed if name in group and failed[name].likely}
        if told:
            found += [Misconception(words, group, True) for words in told]
        elif (mutant := fitting(group, failed, mutants)) is not None:
            found.append(Misconception(mutant.misunderstanding.rstrip("."), group, False))
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


def fitting(group: frozenset[str], failed: dict[str, Failure], mutants: Iterable[Mutant]) -> Mutant | None:
    """The one mutant that loses all of this group of wrong values and nothing that was right; else None."""
    if len(group) < LEAST or any(failed[name].kind != failures.VALUE for name in group):
        return None
    empty = {name for name, failure in failed.items() if failure.kind == failures.EMPTY}
    fit = [m for m in mutants if m.fails <= group | empty and group <= m.fails | m.may_fail]
    return fit[0] if len(fit) == 1 else None


def explain(root: Path, assignment: str, check: str, failed: dict[str, Failure]) -> str:
    """What a student is told below a failed check, as Markdown; "" where there is nothing to say.

    failed: all checks that failed.
    """
    lines, failure = [], failed[check]
    if failure.error.startswith("NotGraded"):
        return ""
    if failure.kind == failures.EMPTY:
        lines.append("**The hole is still empty**, or calls a function whose hole is.")
    else:
        found = find(failed, mutants_of(root, assignment))
        words = [one.words for one in found if check in one.checks and not one.told]
        lines += [f"**Perhaps you think:** {belief}." for belief in words]
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
