"""All code in the package is used."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED_BY_JUPYTER = {"_jupyter_server_extension_points", "_load_jupyter_server_extension"}


def texts():
    """Return {path: text} for all files of the repository that can refer to code."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git repository")
    kinds = {".py", ".ipynb", ".html", ".j2", ".json", ".sh", ".toml", ".yml", ""}
    paths = [Path(name) for name in listed.stdout.splitlines()]
    return {p: (ROOT / p).read_text() for p in paths if p.suffix in kinds and (ROOT / p).is_file()}


def defined(tree):
    """Yield the names of the functions, classes and variables at the top level of a module.

    Functions with the decorator `command(…)`, which registers them, are left out.
    """
    for node in tree.body:
        registers = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
        is_command = any(one.startswith("command(") for one in registers)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not is_command:
            yield node.name
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            for name in ast.walk(target) if target else ():
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield name.id


def unused(texts):
    """Yield module:name for everything that a module of the package defines and nothing refers to.

    A name counts as referred to if it occurs again in the module, in another file that also contains the
    module's name, or anywhere as an attribute.
    """
    tokens_of = {path: re.findall(r"\w+", text) for path, text in texts.items()}
    sets = {path: set(tokens) for path, tokens in tokens_of.items()}
    attributes = {name for text in texts.values() for name in re.findall(r"\.(\w+)", text)}
    for path, text in texts.items():
        if path.parts[0] != "cluster" or path.suffix != ".py":
            continue
        module = path.parent.name if path.stem == "__init__" else path.stem
        for name in set(defined(ast.parse(text))) - NAMED_BY_JUPYTER:
            if name.startswith("__") or name in attributes or tokens_of[path].count(name) > 1:
                continue
            if not any({module, name} <= sets[other] for other in texts if other != path):
                yield f"{path}:{name}"


def test_what_the_package_defines_is_used():
    """Is each function, class and constant referred to, in its module or in a file that names the module?"""
    assert sorted(unused(texts())) == []


def test_what_nobody_uses_is_found():
    """Are exactly the injected unused constant and function reported, but not the constant that another
    module imports and the function that its own module calls?
    """
    planted = {
        Path(
            "cluster/one.py"
        ): "USED, DEAD = 1, 2\n\n\ndef dead(): ...\n\n\ndef called(): ...\n\n\ncalled()\n",
        Path("cluster/two.py"): "from cluster.one import USED\n",
        Path("tests/three.py"): "DEAD = dead = 0\n",
    }
    assert sorted(unused(planted)) == ["cluster/one.py:DEAD", "cluster/one.py:dead"]
