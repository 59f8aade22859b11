"""What the code cells of a lecture define, for tests that run the lecture's own code."""

import ast
import contextlib
import json
from collections.abc import Iterable
from typing import Any

from .. import ROOT, percent

LECTURES = ROOT / "lectures"
RUNS = LECTURES / "runs"
DEFINING = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef


def defined(number: str, settings: Iterable[str] = (), once: Iterable[str] = (), **known: Any) -> dict:
    """Return the names after a lecture's imports, functions, classes and some assignments, in their order.

    Nothing else is run, so no job is submitted and nothing is drawn. Functions are defined without their
    decorators, and `texts` contains their sources.

    settings: names whose assignments are run. once: those of which only the first is. known: other names
    that these lines use.
    """
    [text] = (LECTURES / "text").glob(f"{number}_*.py")
    names: dict[str, Any] = {"__name__": f"lecture_{number}", "texts": {}} | known
    with contextlib.chdir(LECTURES):
        for source in percent.code_of(text):
            for node in ast.parse(source).body:
                wanted = {*settings, *(name for name in once if name not in names)}
                if isinstance(node, DEFINING) or set(assigned(node)) & wanted:
                    if isinstance(node, ast.FunctionDef):
                        names["texts"][node.name] = ast.get_source_segment(source, node)
                        node.decorator_list = []
                    exec(compile(ast.Module([node], []), str(text), "exec"), names)
    return names


def assigned(node: ast.stmt) -> Iterable[str]:
    """Yield the variables that a statement assigns, or whose elements it assigns."""
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    for target in [part for each in targets for part in getattr(each, "elts", [each])]:
        base = target.value if isinstance(target, ast.Subscript | ast.Attribute) else target
        if isinstance(base, ast.Name) and not isinstance(node, ast.For):
            yield base.id


def recorded(name: str) -> Any:
    """Return the content of lectures/runs/{name}.json."""
    return json.loads((RUNS / f"{name}.json").read_text())
