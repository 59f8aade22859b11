"""Find the names that a cell needs and defines, from its compiled code and without running it."""

from __future__ import annotations

import ast
import builtins
import dis
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

# Marks a read-only cell whose functions use objects of the notebook's process, such as a job.
IN_NOTEBOOK = "# Runs in the notebook's process"
PROVIDED, BLANK, SCRATCH = "provided", "blank", "scratch"  # kinds of cells
PYTHONS = frozenset(vars(builtins)) | {"__name__", "__class__"}
PARSING = threading.Lock()


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a cell; only one thread parses at a time. Raises SyntaxError.

    Python counts the depth of trees for all threads together, so parsing in two at once raises SystemError.
    """
    with PARSING:
        return ast.parse(text)


def compiled(text: str, name: str) -> CodeType:
    """Compile a cell. Raises SyntaxError."""
    return compile(text, f"<{name}>", "exec")


def used(code: CodeType) -> set[str]:
    """Return the global names that the code, or a function in it, looks up."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_NAME", "LOAD_GLOBAL")}
    return names.union(*(used(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def defined(code: CodeType, top: bool = True) -> set[str]:
    """Return the global names that the code binds."""
    kinds = ("STORE_NAME", "STORE_GLOBAL") if top else ("STORE_GLOBAL",)
    names = {i.argval for i in dis.get_instructions(code) if i.opname in kinds}
    return names.union(*(defined(c, False) for c in code.co_consts if isinstance(c, CodeType)))


def bound_by(text: str) -> set[str]:
    """Return the names of the imports, functions and classes of a provided cell; none if it has magics."""
    try:
        tree = parsed(text)
    except SyntaxError:
        return set()
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    tree.body = [node for node in tree.body if isinstance(node, kinds)]
    return defined(compile(tree, "<given>", "exec"))


def of_cells(cells: Iterable[str]) -> list[tuple[list[str], list[str]]]:
    """Return [(names it needs, names it defines)] of all cells.

    A cell that is not plain Python may need and define every word in it; a magic's words can be code. Call
    this only in a sandbox: a cell can make its compilation slow and memory-hungry.
    """
    pairs = []
    for text in cells:
        try:
            code = compiled(text, "cell")
            pairs.append((missing(code, ()), sorted(defined(code))))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            words = sorted(set(re.findall(r"\w+", text)))
            pairs.append((words, words))
    return pairs


def missing(code: CodeType, known: Iterable[str]) -> list[str]:
    """Return the names that must come from elsewhere: not known, not defined by the code, not built-in."""
    return sorted(used(code) - set(known) - defined(code) - PYTHONS)


def independent(cells: Iterable[Sequence[str]]) -> list[CodeType]:
    """Return the statements of provided cells [(name, source)] that do not depend on student code, in order.

    A statement that uses an undefined name is left out, as are all other statements that bind the same name.
    """
    return apart(cells)[0]


def provided(cells: Iterable[Sequence[str]]) -> set[str]:
    """Return the names of provided cells that depend on student code, except in cells marked IN_NOTEBOOK."""
    cells = list(cells)
    marked = [cell for cell in cells if IN_NOTEBOOK in cell[1]]
    excluded = set().union(*(binds or () for cell in marked for _, _, binds, _ in statements(0, cell[1])))
    return apart(cells)[1] - excluded


def apart(cells: Iterable[Sequence[str]]) -> tuple[list[CodeType], set[str]]:
    """Return (statements that need only each other, names bound by others) of cells [(name, source)]."""
    rows = [row for number, (_, text) in enumerate(cells) for row in statements(number, text)]
    of_cell: defaultdict[int, set[str]] = defaultdict(set)
    for number, _, binds, _ in rows:
        of_cell[number] |= binds or set()
    dependent: set[str] = set()
    before = -1
    while len(dependent) != before:
        before, known, chosen = len(dependent), set(PYTHONS), []
        for number, code, binds, uses in rows:
            if binds is None or binds & dependent or uses - known - (of_cell[number] - dependent):
                dependent |= binds or set()
            else:
                chosen.append(code)
                known |= binds
    return chosen, dependent


def needed_by(wanted: Iterable[str], cells: Sequence[Sequence[Any]]) -> list[tuple[int, CodeType]]:
    """Return [(cell number, code)] of the statements that bind the names `wanted`, and of all statements they
    depend on.

    cells: [(text, kind)] in order. All statements that bind a name are included, not only the last. A cell
    that only computes or shows something, or is not Python, has no such statements. Scratch cells are used
    only for names that are bound nowhere else, so if all blanks are unsolved, no student code runs.
    """
    rows = [row for number, (text, _) in enumerate(cells) for row in statements(number, text)]
    elsewhere = PYTHONS.union(*(binds or () for n, _, binds, _ in rows if cells[n][1] != SCRATCH))
    needed, before = set(wanted), -1
    chosen: set[int] = set()
    while len(chosen) != before:
        before = len(chosen)
        for i, (number, _, binds, uses) in enumerate(rows):
            wanting = needed - elsewhere if cells[number][1] == SCRATCH else needed
            if i not in chosen and (wanting if binds is None else binds & wanting):
                chosen.add(i)
                needed |= uses
    return [rows[i][:2] for i in sorted(chosen)]


def bound_again(wanted: Iterable[str], cells: Sequence[Sequence[Any]]) -> list[str]:
    """Return the names of blanks needed by `wanted` that a scratch cell binds, too; cells: [(text, kind)]."""
    chosen = [code for number, code in needed_by(wanted, cells) if cells[number][1] == BLANK]
    scratch = [text for text, kind in cells if kind == SCRATCH]
    again = set().union(*(binds or () for text in scratch for _, _, binds, _ in statements(0, text)))
    return sorted(again & set().union(*map(defined, chosen)))


def statements(number: int, text: str) -> Iterator[tuple[int, CodeType, set[str] | None, set[str]]]:
    """Yield (number, code, names it binds or None for any, names it uses) for each statement of a cell."""
    lines = ["pass" if line.startswith(("%", "!")) else line for line in text.splitlines()]
    try:
        for node in parsed("\n".join(lines)).body:
            code = compile(ast.Module([node], []), file_of(number), "exec")
            star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
            yield number, code, None if star else defined(code), used(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def file_of(number: int) -> str:
    """Return the file name for the code of a cell."""
    return f"<cell {number}>"
