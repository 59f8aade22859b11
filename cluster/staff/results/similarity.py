"""Pairs of submissions with more similarity than provided code and common solutions explain.

A student's code is converted to a sequence of tokens. Names of variables, comments, docstrings, strings,
blanks, brackets of calls and commas are ignored; names after a dot, keywords, operators and numbers count.
Sequences of K tokens are fingerprinted, as in MOSS (Schleimer, Wilkerson, Aiken, 2003), but all of them are
compared, because one student's code is short. A fingerprint of the release or of the solution is ignored, as
is one that more students share than COMMON allows. Nothing is executed, and the order of the cells does not
matter.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.system.text import printable

from .. import limited
from ..course import Course, CourseError, SubmissionError
from ..submissions import notebook_file

if TYPE_CHECKING:
    from nbformat import NotebookNode

K = 12  # tokens per fingerprint
# minimum number of common tokens to show a pair, and minimum fraction of one student's own tokens
TOKENS, SHARE = 40, 0.5
COMMON = (5, 0.1)  # a fingerprint shared by more than 5 students, and by more than a tenth of them, is common
LONGEST = 100_000  # maximum characters of a student's own code, ten times what an assignment needs
DROPPED = frozenset("(),;")
ANY_NAME = ("self", "cls")


@dataclass(frozen=True)
class Cell:
    """A student's cell: its source, its tokens and the line (from 0) of each."""

    name: str
    source: str
    tokens: tuple[str, ...]
    lines: tuple[int, ...]


@dataclass
class Work:
    """The code written by one student."""

    student: str
    cells: list[Cell]
    places: dict[int, list[int]] = field(default_factory=dict)  # {fingerprint: its positions}
    own: dict[int, list[int]] = field(default_factory=dict)  # the subset of these that is not common

    @cached_property
    def positions(self) -> list[tuple[int, int]]:
        """(cell, line) of each token."""
        return [(number, line) for number, cell in enumerate(self.cells) for line in cell.lines]

    def covered(self, fingerprints: Iterable[int]) -> set[int]:
        """Return the positions of the tokens in these fingerprints."""
        return {at + i for item in fingerprints for at in self.own.get(item, ()) for i in range(K)}


@dataclass(frozen=True)
class Pair:
    """Two students, the tokens that they share, and these as a fraction of each student's own tokens."""

    one: Work
    other: Work
    tokens: int
    shares: tuple[float, float]
    places: tuple[frozenset[int], frozenset[int]]

    @property
    def share(self) -> float:
        return max(self.shares)

    def marked(self, side: int) -> list[tuple[Cell, set[int]]]:
        """Return [(cell, its lines that the other side shares)] of one side, in order."""
        work, lines = (self.one, self.other)[side], defaultdict(set)
        for number, line in (work.positions[i] for i in self.places[side]):
            lines[number].add(line)
        return [(work.cells[number], lines[number]) for number in sorted(lines)]


@dataclass
class Comparison:
    """The result: pairs, the most similar first; students with too little code; unreadable submissions."""

    students: int
    pairs: list[Pair]
    without: list[str]
    unreadable: dict[str, str]
    most: int  # maximum number of students that may share a fingerprint before it is common


def cell(name: str, source: str) -> Cell:
    """Return a cell with this name and source."""
    return Cell(name, source, *tokens_of(source))


def tokens_of_each(sources: list[str]) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Return `tokens_of` for several sources; students' sources are processed in a process with limits."""
    return [tokens_of(source) for source in sources]


def tokens_of(source: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return (tokens, the line of each); invalid Python is tokenised as far as possible."""
    from pygments.lexers import PythonLexer
    from pygments.token import Comment, Keyword, Name, Number, String, Whitespace

    tokens: list[str] = []
    lines: list[int] = []
    line, before, in_text = 0, "", False
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    for kind, text in lexer.get_tokens(source):
        here = line
        line += text.count("\n")
        if kind in Comment or kind in Whitespace or kind in String.Doc or not text.strip():
            continue
        if kind in String and kind not in String.Interpol:
            word = "" if in_text else "text"
            in_text = True
        else:
            in_text = False
            if kind in Number:
                word = number(text)
            elif (
                kind in Keyword
                or before == "."
                or kind in Name.Namespace
                or (kind in Name.Builtin and text not in ANY_NAME)
            ):
                word = text
            else:
                word = "name" if kind in Name else text
        before = text
        if word and word not in DROPPED:
            tokens.append(word)
            lines.append(here)
    return tuple(tokens), tuple(lines)


def number(text: str) -> str:
    """Return a number by value: 1e-3 becomes 0.001."""
    try:
        return repr(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def cells_of(notebook: NotebookNode) -> list[Cell]:
    """Return the code cells of one of the course's notebooks."""
    return [cell(name, source) for name, source in sources_of(notebook)]


def cells_of_student(notebook: NotebookNode, release: NotebookNode) -> list[Cell]:
    """Return the code cells of a submission that are neither locked nor released. Raises SubmissionError."""
    sources = sources_of(notebook, release)
    if (size := sum(len(source) for _, source in sources)) > LONGEST:
        raise SubmissionError(f"has {size:,} characters of code; at most {LONGEST:,} are compared")
    rows = limited.call(tokens_of_each, [source for _, source in sources])
    return [
        Cell(name, source, tuple(tokens), tuple(lines))
        for (name, source), (tokens, lines) in zip(sources, rows, strict=True)
    ]


def sources_of(notebook: NotebookNode, given: NotebookNode | None = None) -> list[tuple[str, str]]:
    """Return (name, source) of the code cells that are neither locked nor contained in `given`."""
    roles = [role_of(c) for c in given.cells] if given else []
    locked = {role["grade_id"] for role in roles if role and not role.get("solution")}
    unchanged = {c.source for c in given.cells} if given else set()
    result = []
    for i, c in enumerate(notebook.cells, 1):
        name = role_of(c).get("grade_id", "")
        if c.cell_type == "code" and name not in locked and c.source not in unchanged:
            result.append((name or f"cell {i}", c.source))
    return result


def role_of(cell: NotebookNode) -> dict[str, Any]:
    return cell.metadata.get("nbgrader", {})


def compare(
    works: list[Work],
    known: Iterable[list[Cell]],
    *,
    tokens: int = TOKENS,
    share: float = SHARE,
    common: int | None = None,
) -> tuple[list[Pair], list[str]]:
    """Return (similar pairs, students without individual code). known: cells to ignore.

    common: maximum number of students who share a fingerprint that counts (default: COMMON).
    """
    known = list(known)
    same = {cell.tokens for cells in known for cell in cells}
    for work in works:
        work.cells = [cell for cell in work.cells if cell.tokens not in same]
        work.places = fingerprints(work.cells)
    free = {item for cells in known for item in fingerprints(cells)}
    counts = Counter(item for work in works for item in work.places)
    limit = most(len(works)) if common is None else common
    for work in works:
        work.own = {o: at for o, at in work.places.items() if o not in free and counts[o] <= limit}
    size = {id(work): len(work.covered(work.own)) for work in works}
    pairs = []
    for one, other in itertools.combinations(works, 2):
        both = one.own.keys() & other.own.keys()
        if not both:
            continue
        places = one.covered(both), other.covered(both)
        count = min(map(len, places))
        shares = len(places[0]) / size[id(one)], len(places[1]) / size[id(other)]
        if count >= tokens and max(shares) >= share:
            pairs.append(Pair(one, other, count, shares, (frozenset(places[0]), frozenset(places[1]))))
    pairs.sort(key=lambda pair: (-pair.tokens * pair.share, pair.one.student, pair.other.student))
    return pairs, [work.student for work in works if size[id(work)] < tokens]


def most(students: int) -> int:
    """Return the maximum number of students who may share a fingerprint that counts, for this class size."""
    least, part = COMMON
    return max(least, int(part * students))


def fingerprints(cells: list[Cell]) -> dict[int, list[int]]:
    """Return {fingerprint: the positions where it begins}: each cell's sequences of K tokens, hashed."""
    found, start = defaultdict(list), 0
    for cell in cells:
        for at in range(len(cell.tokens) - K + 1):
            found[hash(cell.tokens[at : at + K])].append(start + at)
        start += len(cell.tokens)
    return found


def of_class(root: Path, course: Course, assignment: str, common: int | None = None) -> Comparison:
    """Compare the collected submissions of an assignment. Unreadable ones are reported and skipped."""
    release, _ = read(root / "exercises" / assignment)
    solution, _ = read(root / "solutions" / assignment)
    if release is None or solution is None:
        raise CourseError(f"{assignment}: its release or its solution cannot be read; run make exercises")
    known = [cells_of(release), cells_of(solution)]
    folders = sorted(course.folder("submitted", "*", assignment).parents[1].glob(f"*/{assignment}"))
    if not folders:
        raise CourseError(f"{assignment}: no submissions collected yet; run grade collect {assignment[:2]}")
    works, unreadable = [], {}
    limited.preload(__name__, "pygments.lexers.python")
    for folder in folders:
        student = folder.parent.name
        notebook, why = read(folder)
        if notebook is None:
            unreadable[student] = why
            continue
        try:
            works.append(Work(student, cells_of_student(notebook, release)))
        except SubmissionError as why:
            unreadable[student] = printable(str(why))
    pairs, without = compare(works, known, common=common)
    limit = most(len(works)) if common is None else common
    return Comparison(len(works), pairs, without, unreadable, limit)


def read(folder: Path) -> tuple[NotebookNode | None, str]:
    """Return (the largest notebook in a folder, "") or (None, why there is none)."""
    try:
        paths = [p for p in folder.glob("*.ipynb") if p.is_file() and not p.is_symlink()]
        paths.sort(key=lambda path: path.stat().st_size, reverse=True)
        if not paths:
            return None, "its folder contains no notebook"
        return notebook_file.read(paths[0])[0], ""
    except SubmissionError as error:
        return None, f"{printable(paths[0].name)} {error}"
    except OSError as error:
        return None, printable(str(error))
