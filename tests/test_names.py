"""What the Makefile starts and what lectures and solutions import exists. (For the names that the package and
the tests use, mypy looks.)
"""

import ast
import importlib
import re

import pytest

from . import ROOT, percent

TEXTS = [*(ROOT / "lectures" / "text").glob("*.py"), *(ROOT / "solutions").glob("*/*.py")]


def test_what_the_makefile_starts_is_there():
    """Do all modules and scripts exist that the Makefile starts?"""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    modules = re.findall(r"-m ((?:cluster|tests)[\w.]*)", text)
    scripts = re.findall(r"\s((?:cluster|tests|lectures)/[\w/]+\.\w+)", text)
    assert modules and scripts
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []
    assert [name for name in scripts if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_what_a_text_imports_is_there(text):
    """Does each name exist that a lecture or a solution imports from our package?"""
    for node in ast.walk(ast.parse("\n".join(percent.code_of(text)))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "cluster":
            module = importlib.import_module(node.module)
            for alias in node.names:
                there = hasattr(module, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}")
                assert there, f"{node.module}.{alias.name}"
