"""Find the names that a cell needs and defines, from its compiled code and without running it."""

from __future__ import annotations

import ast
import builtins
import contextlib
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


def read_first(code: CodeType) -> set[str]:
    """Return the names that the code itself reads or deletes above the statements that bind them."""
    first: dict[str, str] = {}
    for i in dis.get_instructions(code):
        if i.opname in ("LOAD_NAME", "STORE_NAME", "DELETE_NAME"):
            first.setdefault(i.argval, i.opname)
    return {name for name, what in first.items() if what != "STORE_NAME"}


def missing(code: CodeType, known: Iterable[str]) -> list[str]:
    """Return the names that must come from elsewhere: not known, not built-in, not bound before use."""
    return sorted((used(code) - defined(code) | read_first(code)) - set(known) - PYTHONS)


def borrows(checks: Sequence[tuple[str, str]]) -> bool:
    """Return whether a check [(name, source)] needs a name that a check above it binds."""
    bound: set[str] = set()
    for name, text in checks:
        with contextlib.suppress(SyntaxError):
            code = compiled(text, name)
            if not bound.isdisjoint(missing(code, ())):
                return True
            bound |= defined(code)
    return False


def borrowed(
    wanted: Iterable[str], above: Sequence[tuple[str, Iterable[str]]], known: Iterable[str]
) -> tuple[list[CodeType], set[str]]:
    """Return (statements of the checks above that bind or change the names `wanted`, in order, all names
    that are needed then).

    above: (source of a check, names that the student's cells bind between it and the next check). As in a
    notebook, the last cell that binds a name decides. Names in `known` are not looked for.
    """
    chosen: list[CodeType] = []
    everything, needed = set(wanted), set(wanted)
    for text, bound_below in reversed(above):
        needed -= set(bound_below)
        rows = list(changing(text))
        taken, before = set[int](), -1
        while len(taken) != before:
            before = len(taken)
            for i, (code, _, changes) in enumerate(rows):
                if i not in taken and changes & needed:
                    taken.add(i)
                    needed |= used(code) - set(known) - PYTHONS
        chosen = [rows[i][0] for i in sorted(taken)] + chosen
        everything |= needed
        needed -= set().union(*(rows[i][1] - used(rows[i][0]) for i in taken))
    return chosen, everything


def changing(text: str) -> Iterator[tuple[CodeType, set[str], set[str]]]:
    """Yield (code, names it binds, names whose value it binds or changes) for each statement of a check."""
    for node in parsed(text).body:
        code = compile(ast.Module([node], []), "<above>", "exec")
        targets = [n for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            targets.append(node.value.func)  # x.sort()
        yield code, defined(code), defined(code).union(*map(root, targets))


def root(node: ast.AST) -> set[str]:
    """Return the name of the object that an item or attribute is part of; nothing for a plain name."""
    inner = node
    while isinstance(inner, ast.Attribute | ast.Subscript):
        inner = inner.value
    return {inner.id} if isinstance(inner, ast.Name) and inner is not node else set()


def imported(texts: Iterable[str]) -> dict[str, str]:
    """Return {name: the import that binds it} of cells, except names that another statement binds."""
    found, others = dict[str, str](), set[str]()
    for text in texts:
        lines = ["pass" if line.startswith(("%", "!")) else line for line in text.splitlines()]
        with contextlib.suppress(SyntaxError):
            for node in parsed("\n".join(lines)).body:
                names = defined(compile(ast.Module([node], []), "<release>", "exec"))
                if isinstance(node, ast.Import | ast.ImportFrom):
                    found |= dict.fromkeys(names, ast.unparse(node))
                else:
                    others |= names
    return {name: found[name] for name in sorted(found.keys() - others)}


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
