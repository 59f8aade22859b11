"""The student's own modules: found without importing them, sent as source, and served to the ranks.

A function may import a module only when it is called, on a rank, long after the submission. The source of all
reachable modules therefore travels with the job, and later edits do not change it.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import itertools
import linecache
import sysconfig
import tokenize
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from ..errors import OptionError

INSTALLED = tuple({str(Path(sysconfig.get_path(k)).resolve()) for k in ("stdlib", "purelib", "platlib")})
PACKAGE = str(Path(__file__).resolve().parents[2])

Texts = dict[str, tuple[str, str]]  # {full module name: (file, source)}


def installed(file: str) -> bool:
    """Return whether a file belongs to Python, to an installed package or to this one."""
    return str(Path(file).resolve()).startswith((*INSTALLED, PACKAGE))


def parse(text: str, file: str) -> ast.Module:
    """Parse Python source. Raises OptionError with the file's name and the line if the syntax is invalid."""
    try:
        return ast.parse(text)
    except SyntaxError as e:
        raise OptionError(f"{Path(file).name}, line {e.lineno}: {e.msg}.", f"Mend {file}.") from None
    except ValueError as e:  # a null byte
        raise OptionError(f"{Path(file).name}: {e}.", f"Mend {file}.") from None


def read(file: str | Path) -> str:
    """Return the text of a source file in its own encoding. Raises OptionError if Python cannot read it."""
    try:
        with tokenize.open(file) as f:
            return f.read()
    except (SyntaxError, UnicodeDecodeError) as e:
        raise OptionError(
            f"{Path(file).name} is not in the encoding that it declares: {e}.", f"Mend {file}."
        ) from None


def imports(tree: ast.AST, package: str) -> set[str]:
    """Return the full names of everything the code may import, anywhere in it; some may not be modules.

    >>> sorted(imports(ast.parse("def f():\\n    from .b import c"), "a"))
    ['a.b', 'a.b.c']
    """
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and (package or not node.level):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names |= {base, *(f"{base}.{a.name}" for a in node.names)}
    return names


def follow(found: Texts, tree: ast.AST, package: str, path: Sequence[str]) -> None:
    """Add to `found` the student's modules that the code imports, and the modules they import in turn."""
    for name in sorted(imports(tree, package)):
        places: Sequence[str] | None = path
        for stem in itertools.accumulate(name.split("."), "{}.{}".format):
            spec = PathFinder.find_spec(stem, places) if places else None
            if spec is None or (spec.origin and installed(spec.origin)):
                break
            places = spec.submodule_search_locations
            if spec.origin:
                add(found, stem, spec.origin, path)


def add(found: Texts, name: str, file: str, path: Sequence[str]) -> None:
    """Add a module and the modules it imports; modules not written in Python are left out."""
    if name not in found and file.endswith(".py"):
        found[name] = file, read(file)
        package = name if Path(file).name == "__init__.py" else name.rpartition(".")[0]
        follow(found, parse(found[name][1], file), package, path)


class Submitted(importlib.abc.ExecutionLoader):
    """Importer of modules as they were at submission; insert it at the front of sys.meta_path."""

    def __init__(self, texts: Texts):
        self._files = {name: file for name, (file, _) in texts.items()}
        self._texts = dict(texts.values())
        for file, text in self._texts.items():  # for tracebacks
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a module if it was sent with the job."""
        file = self._files.get(name)
        return file and importlib.util.spec_from_file_location(name, file, loader=self)

    def is_package(self, name: str) -> bool:
        """Return whether the module is a package."""
        return Path(self._files[name]).name == "__init__.py"

    def get_filename(self, name: str) -> str:
        """Return the path of the original file."""
        return self._files[name]

    def get_source(self, name: str) -> str:
        """Return the source."""
        return self._texts[self._files[name]]
