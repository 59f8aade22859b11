"""The names that our code uses from our own modules exist, even if they occur only in functions or skipped
tests.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from . import ROOT, percent

FOLDERS = ("cluster", "tests", "solutions", "lectures", "exercises")
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ELSEWHERE = ROOT / "tests" / "former"  # written by an earlier version; test_former uses it


@cache
def file_of(module):
    """Return the file of one of our modules, or None."""
    path = ROOT.joinpath(*module.split("."))
    results = [path / "__init__.py", path.with_suffix(".py")]
    return next((each for each in results if each.is_file()), path if path.is_dir() else None)


@cache
def names_of(module):
    """Return the names that a module defines or imports. If it has `__getattr__`, include all its string
    constants, which contain the names that it imports on access.
    """
    path = file_of(module)
    if path.is_dir():
        return set()
    results = {"__doc__", "__file__", "__name__", "__path__"}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, SCOPES):
            results.add(node.name)
        if getattr(node, "name", "") == "__getattr__":
            results |= {part.value for part in ast.walk(tree) if isinstance(part, ast.Constant)}
        for part in ast.walk(node) if not isinstance(node, SCOPES) else ():
            if isinstance(part, SCOPES):
                results.add(part.name)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                results.add(part.id)
            elif isinstance(part, ast.alias) and not only_for_types(node):
                results.add((part.asname or part.name).partition(".")[0])
    return results


def only_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def has(module, name):
    """Return whether one of our modules has this name, or a submodule of this name."""
    return name in names_of(module) or file_of(f"{module}.{name}") is not None


def ours(module):
    return module.partition(".")[0] in ("cluster", "tests") and file_of(module) is not None


def missing(text, package):
    """Return the missing names that Python source uses from our modules, as “line 1: module.name”.

    package: the source's package, as a sequence of names. A name counts as a module only if it is bound to
    that module and to nothing else.
    """
    tree, modules, lacking = ast.parse(text), {}, []
    others = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            others.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                if module.partition(".")[0] in ("cluster", "tests") and alias.name != "*":
                    if not ours(module) or not has(module, alias.name):
                        lacking.append((node.lineno, f"{module}.{alias.name}"))
                    full = f"{module}.{alias.name}"
                    if file_of(full) and alias.name not in names_of(module):
                        modules.setdefault(alias.asname or alias.name, set()).add(full)
                        continue
                others.add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in ("cluster", "tests") and not ours(alias.name):
                    lacking.append((node.lineno, alias.name))
                if alias.asname and ours(alias.name):
                    modules.setdefault(alias.asname, set()).add(alias.name)
                else:
                    others.add(alias.asname or alias.name.partition(".")[0])
    known = {name: min(lines) for name, lines in modules.items() if len(lines) == 1 and name not in others}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            module, name = known[node.value.id], node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("setattr", "delattr"):
            first, second = [*node.args, None, None][:2]
            if isinstance(first, ast.Constant) and str(first.value).startswith("cluster."):
                module, _, name = first.value.rpartition(".")
            elif getattr(first, "id", "") in known and isinstance(second, ast.Constant):
                module, name = known[first.id], second.value
            else:
                continue
        else:
            continue
        if not (file_of(module) and has(module, name)):
            lacking.append((node.lineno, f"{module}.{name}"))
    return [f"line {line}: {name}" for line, name in sorted(set(lacking))]


def sources():
    """Yield (name, package, text) for all Python code, for a notebook's paired script only its code cells."""
    for path in sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py")):
        if not path.is_relative_to(ELSEWHERE) and not {".venv", "runs"} & set(path.relative_to(ROOT).parts):
            text = path.read_text(encoding="utf-8")
            if path.relative_to(ROOT).parts[0] in ("solutions", "lectures") and "\n# %%" in f"\n{text}":
                text = "\n".join(percent.code_of(path))
            yield path.relative_to(ROOT).as_posix(), path.relative_to(ROOT).parts[:-1], text


def test_what_is_named_is_there():
    """Do all names exist that our code imports from our modules, accesses as their attributes, or patches in
    a test?
    """
    results = {name: lines for name, package, text in sources() if (lines := missing(text, package))}
    assert results == {}


def test_what_the_makefile_starts_is_there():
    """Do all modules and scripts exist that the Makefile starts?"""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    modules, scripts = (
        re.findall(r"-m ((?:cluster|tests)[\w.]*)", text),
        re.findall(r"\s((?:cluster|tests|lectures)/[\w/]+\.\w+)", text),
    )
    assert modules and scripts
    assert [name for name in modules if not file_of(name)] == []
    assert [name for name in scripts if not Path(ROOT, name).exists()] == []


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("from cluster.staff.hidden import nothing", ["line 1: cluster.staff.hidden.nothing"]),
        ("def f():\n    from . import lock", ["line 2: cluster.staff.lock"]),
        ("import cluster.nothing", ["line 1: cluster.nothing"]),
        ("from . import hidden\nhidden.nothing()", ["line 2: cluster.staff.hidden.nothing"]),
        (
            "from . import hidden\npatch.setattr(hidden, 'nothing', 1)",
            ["line 2: cluster.staff.hidden.nothing"],
        ),
        ("patch.setattr('cluster.staff.hidden.nothing', 1)", ["line 1: cluster.staff.hidden.nothing"]),
        (
            "from . import hidden\nhidden.END\nfrom cluster import submit, jobs\njobs.submit()",
            [],
        ),
        ("from . import hidden\ndef f(hidden):\n    hidden.anything()", []),
    ],
)
def test_what_is_missing_is_found(text, lacking):
    """Is a missing name found in imports, attributes and patches? Are existing names and local variables
    ignored?
    """
    assert missing(text, ["cluster", "staff"]) == lacking
