"""What Python source and notebooks name, read from their text: modules, members of modules, strings.

Nothing is imported or executed. What of this is a file of the course, `keys` finds out.
"""

from __future__ import annotations

import ast
import contextlib
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass
class Names:
    """What a file or a cell names: modules, members of modules (`from m import n`), strings."""

    modules: set[str] = field(default_factory=set)
    tops: set[str] = field(default_factory=set)  # `import a.b` binds a, with a.b and all else in it
    members: set[tuple[str, str]] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)  # by -m
    bound: set[str] = field(default_factory=set)  # the file's own names at its top level
    lazy: Names | None = None  # of the file's __getattr__


class _Reader(ast.NodeVisitor):
    """Collects the Names of a syntax tree; `package` is what a relative import starts from."""

    def __init__(self, package: list[str]):
        self.package, self.names = package, Names()

    def visit_Import(self, node: ast.Import) -> None:
        self.names.modules |= {alias.name for alias in node.names}
        self.names.tops |= {alias.name.partition(".")[0] for alias in node.names if not alias.asname}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        above = self.package[: len(self.package) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        self.names.members |= {(module, alias.name) for alias in node.names}

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring runs nothing
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0] if node.args else None
        if function in ("import_module", "__import__", "run_module") and _text(first):
            self.names.modules.add(_text(first))
            node.args, arguments = node.args[1:], node.args
            self.generic_visit(node)
            node.args = arguments
            return
        self._started(node.args)
        if function in ("Path", "glob", "iglob", "join", "listdir", "rglob", "scandir", "walk"):
            self._folders(node.args)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Div):
            self._folders([node.left, node.right])
        self.generic_visit(node)

    def visit_List(self, node: ast.List | ast.Tuple) -> None:
        self._started(node.elts)
        self.generic_visit(node)

    visit_Tuple = visit_List

    def _started(self, words: list[ast.expr]) -> None:
        for option, module in pairwise(words):
            if _text(option) == "-m" and _text(module):
                self.names.started.add(_text(module))

    def _folders(self, words: list[ast.expr]) -> None:
        """Words that stand where a path is made may be folders: as a string that ends with /."""
        self.names.strings |= {f"{_text(word).rstrip('/')}/" for word in words if _text(word)}

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.names.strings.add("".join(_text(value) or "_" for value in node.values))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.names.strings.add(node.value)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def names_in(source: str, package: Iterable[str] = (), where: str = "the code") -> Names:
    """The Names of Python source. Raises ValueError, with `where`, if it is none."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"{where} is not Python, so nobody knows what it imports: {error}") from None
    package = list(package)
    reader = _Reader(package)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            later = _Reader(package)
            later.visit(node)
            reader.names.lazy = later.names
            continue
        reader.visit(node)
        for part in ast.walk(node) if not isinstance(node, _SCOPES) else [node]:
            if isinstance(part, _SCOPES):
                reader.names.bound.add(part.name)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                reader.names.bound.add(part.id)
            elif isinstance(part, ast.alias) and not _only_for_types(node):
                reader.names.bound.add((part.asname or part.name).partition(".")[0])
    return reader.names


def imports_of(names: Names) -> Names:
    """The imports among Names, also those in strings that are code."""
    found = Names(set(names.modules), set(names.tops), set(names.members))
    for text in names.strings:
        if "import" in text:
            with contextlib.suppress(ValueError):
                inside = imports_of(names_in(textwrap.dedent(text)))
                found.modules |= inside.modules
                found.tops |= inside.tops
                found.members |= inside.members
    return found


def _only_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def code_cells(text: Path) -> list[str]:
    """The code cells of a text in jupytext's percent format, each with its header in the first line."""
    cells, header, lines = [], "", []

    def end() -> None:
        body = "\n".join(lines).strip("\n")
        if not re.match(r"# %%.*\[(markdown|md|raw)\]", header) and (header or body):
            cells.append(f"{header}\n{body}")

    for line in text.read_text(encoding="utf-8").splitlines():
        if re.match(r"# %%(\s|$)", line):
            end()
            header, lines = line.rstrip(), []
        else:
            lines.append(line)
    end()
    return cells


def python_of(cell: str) -> str:
    """A cell's Python: IPython's own lines (%magic, !command, ?help) become comments."""
    return re.sub(r"(?m)^(\s*)([%!?].*)$", r"\1pass  # \2", cell)
