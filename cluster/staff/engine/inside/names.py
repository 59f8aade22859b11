"""Which names a cell needs and which it defines; from the compiled code, nothing is run."""

from __future__ import annotations

import ast
import builtins
import dis
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

# Stands in a given cell whose functions are about objects of the notebook's process, such as a job.
IN_NOTEBOOK = "# Runs in the notebook's process"
PROVIDED, BLANK, SCRATCH = "provided", "blank", "scratch"  # kinds of cells
PYTHONS = frozenset(vars(builtins)) | {"__name__", "__class__"}
PARSING = threading.Lock()


def parsed(text: str) -> ast.Module:
    """The syntax tree of a cell, one thread at a time. Raises SyntaxError.

    Python counts the depth of trees for all threads together: two that parse at once fail with SystemError.
    """
    with PARSING:
        return ast.parse(text)


def compiled(text: str, name: str) -> CodeType:
    """The code of a cell. Raises SyntaxError."""
    return compile(text, f"<{name}>", "exec")


def used(code: CodeType) -> set[str]:
    """Global names that the code, or a function in it, looks up."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_NAME", "LOAD_GLOBAL")}
    return found.union(*(used(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def defined(code: CodeType, top: bool = True) -> set[str]:
    """Global names that the code sets."""
    kinds = ("STORE_NAME", "STORE_GLOBAL") if top else ("STORE_GLOBAL",)
    found = {i.argval for i in dis.get_instructions(code) if i.opname in kinds}
    return found.union(*(defined(c, False) for c in code.co_consts if isinstance(c, CodeType)))


def of_cells(cells: Iterable[str]) -> list[tuple[list[str], list[str]]] | None:
    """[(names that it needs, names that it defines)] of each cell, or None where one is no Python.

    Only in a sandbox: who wrote a cell decides how long, and how much memory, compiling it takes.
    """
    found = []
    for text in cells:
        try:
            code = compiled(text, "cell")
            found.append((missing(code, ()), sorted(defined(code))))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return found


def missing(code: CodeType, known: Iterable[str]) -> list[str]:
    """Names that must come from elsewhere: neither known, nor defined by the code, nor Python's own."""
    return sorted(used(code) - set(known) - defined(code) - PYTHONS)


def independent(cells: Iterable[Sequence[str]]) -> list[CodeType]:
    """The statements of given cells that need nothing of the student's, in order; cells: [(name, text)].

    A statement that uses a name which none of them defines before is left out, and with it all other
    statements that bind the same name.
    """
    return apart(cells)[0]


def provided(cells: Iterable[Sequence[str]]) -> set[str]:
    """The names that given cells define with the help of the student's; not of cells marked IN_NOTEBOOK."""
    cells = list(cells)
    marked = [cell for cell in cells if IN_NOTEBOOK in cell[1]]
    kept = set().union(*(binds or () for cell in marked for _, _, binds, _ in statements(0, cell[1])))
    return apart(cells)[1] - kept


def apart(cells: Iterable[Sequence[str]]) -> tuple[list[CodeType], set[str]]:
    """The statements of cells [(name, text)] that need only each other, and the names that others bind."""
    found = [statement for number, (_, text) in enumerate(cells) for statement in statements(number, text)]
    of_cell: defaultdict[int, set[str]] = defaultdict(set)
    for number, _, binds, _ in found:
        of_cell[number] |= binds or set()
    left: set[str] = set()
    before = -1
    while len(left) != before:
        before, known, chosen = len(left), set(PYTHONS), []
        for number, code, binds, uses in found:
            if binds is None or binds & left or uses - known - (of_cell[number] - left):
                left |= binds or set()
            else:
                chosen.append(code)
                known |= binds
    return chosen, left


def needed_by(wanted: Iterable[str], cells: Sequence[Sequence[Any]]) -> list[tuple[int, CodeType]]:
    """[(number of the cell, code)] of the statements that bind the names `wanted`, and all that these need.

    cells: [(text, kind)] in order. A cell that merely computes or shows something has no such statement.
    Every statement that binds a name counts, not only the last; a cell that is no Python has none. A scratch
    cell counts only for names that are bound nowhere else: if all blanks are as they were released, nothing
    of the student's is run.
    """
    found = [statement for number, (text, _) in enumerate(cells) for statement in statements(number, text)]
    elsewhere = PYTHONS.union(*(binds or () for n, _, binds, _ in found if cells[n][1] != SCRATCH))
    needed, before = set(wanted), -1
    chosen: set[int] = set()
    while len(chosen) != before:
        before = len(chosen)
        for i, (number, _, binds, uses) in enumerate(found):
            wanting = needed - elsewhere if cells[number][1] == SCRATCH else needed
            if i not in chosen and (wanting if binds is None else binds & wanting):
                chosen.add(i)
                needed |= uses
    return [found[i][:2] for i in sorted(chosen)]


def bound_again(wanted: Iterable[str], cells: Sequence[Sequence[Any]]) -> list[str]:
    """The names of blanks that `wanted` need and that a scratch cell binds as well; cells: [(text, kind)]."""
    chosen = [code for number, code in needed_by(wanted, cells) if cells[number][1] == BLANK]
    scratch = [text for text, kind in cells if kind == SCRATCH]
    again = set().union(*(binds or () for text in scratch for _, _, binds, _ in statements(0, text)))
    return sorted(again & set().union(*map(defined, chosen)))


def statements(number: int, text: str) -> Iterator[tuple[int, CodeType, set[str] | None, set[str]]]:
    """(number, code, names that it binds or None for any, names that it uses) of a cell's statements."""
    lines = ["pass" if line.startswith(("%", "!")) else line for line in text.splitlines()]
    try:
        for node in parsed("\n".join(lines)).body:
            code = compile(ast.Module([node], []), file_of(number), "exec")
            star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
            yield number, code, None if star else defined(code), used(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def file_of(number: int) -> str:
    """What stands for the file's name in the code of a cell."""
    return f"<cell {number}>"
