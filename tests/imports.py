"""Imports between modules of `cluster`, read from the source files, including imports inside functions and
imports that only type annotations need.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = "cluster"
Arrow = tuple[str, str]  # (importing module, imported module), both by their full names


def modules(root: Path) -> dict[str, Path]:
    """Return {full name: file} of the package's modules; a package is represented by its `__init__`."""
    results = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        results[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return results


def arrows(root: Path) -> set[Arrow]:
    """Return all imports between modules of the package. `from package import module` counts as an import of
    the module."""
    known = modules(root)
    return {
        (name, target)
        for name, path in known.items()
        for target in imported(ast.parse(path.read_text(encoding="utf-8")), package_of(name, path), known)
        if target != name
    }


def package_of(name: str, path: Path) -> str:
    """Return the package that a module's relative imports start from."""
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def imported(tree: ast.AST, package: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the modules among `known` that code imports, even by `import_module` or `from . import x`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            targets = [full if (full := f"{base}.{alias.name}") in known else base for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "import_module",
            "__import__",
        ):
            targets = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
        else:
            continue
        yield from (target for target in targets if target in known)


def circles(arrows: set[Arrow]) -> list[list[str]]:
    """Return the import cycles, each as a sorted list of modules that import each other directly or
    indirectly.
    """
    targets: dict[str, set[str]] = {}
    for a, b in arrows:
        targets.setdefault(a, set()).add(b)

    def reached(start: str) -> set[str]:
        seen, todo = set(), [start]
        while todo:
            new = targets.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    ahead = {name: reached(name) for name in targets}
    together = {
        frozenset({a} | {b for b in ahead[a] if a in ahead.get(b, ())}) for a in ahead if a in ahead[a]
    }
    return sorted(sorted(circle) for circle in together)


def order(text: str) -> dict[str, list[list[str]]]:
    """Return {package: its layers, the highest first} from the block ```order of a README."""
    block = re.search(r"^```order\n(.*?)^```", text, re.M | re.S)
    if not block:
        raise ValueError("there is no block ```order in the README")
    lines = re.sub(r"\n\s+", " ", block[1]).strip().splitlines()
    return {line.split()[0]: [floor.split() for floor in line.partition(" ")[2].split(">")] for line in lines}


def upwards(arrows: set[Arrow], package: str, floors: list[list[str]]) -> list[str]:
    """Return messages about imports between parts of a package that do not point to a lower layer, and about
    parts that no layer contains.
    """
    level = {name: number for number, names in enumerate(floors) for name in names}
    wrong = set()
    for a, b in arrows:
        inside = [x.removeprefix(package).lstrip(".").partition(".")[0] or "__init__" for x in (a, b)]
        if not all(x == package or x.startswith(f"{package}.") for x in (a, b)) or inside[0] == inside[1]:
            continue
        lacking = [f"{package}.{x} has no floor in the README" for x in inside if x not in level]
        wrong |= set(lacking)
        if not lacking and level[inside[0]] >= level[inside[1]]:
            wrong.add(f"{a} imports {b}, which is not below it")
    return sorted(wrong)
