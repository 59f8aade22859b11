"""The package follows the layout in cluster/README.md: no import cycles, downward imports only, and no
imports of staff from outside it.
"""

import ast
import html
import shutil
from itertools import pairwise

import pytest

from cluster.staff.release import student_files

from . import ROOT, imports, rooms

# The only import of staff from outside it: `python -m cluster grade`, which reports a missing staff package.
ENTRANCE = ("cluster.__main__", "cluster.staff.__main__")
README = (ROOT / "cluster" / "README.md").read_text(encoding="utf-8")


def faults(root):
    """Describe the faults in the imports of the package at `root`."""
    arrows = imports.arrows(root)
    wrong = [f"circle: {' , '.join(circle)}" for circle in imports.circles(arrows)]
    for package, floors in imports.order(README).items():
        wrong += imports.upwards(arrows, package, floors)
    wrong += [
        f"{a} imports {b}, which students do not have"
        for a, b in sorted(arrows - {ENTRANCE})
        if b.startswith("cluster.staff") and not a.startswith("cluster.staff")
    ]
    return wrong


def untyped(tree, prefix=""):
    """Yield the public functions and methods of a module that lack the type of a parameter or of the
    result."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If | ast.Try | ast.ExceptHandler):
            yield from untyped(node, prefix)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from untyped(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a, made = node.args, node.name == "__init__"
            named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
            lacking = [x for x in named if x.annotation is None and x.arg not in ("self", "cls")]
            if (made or not node.name.startswith("_")) and (lacking or not (made or node.returns)):
                yield f"{prefix}{node.name}"


def all_untyped(root):
    """Return the results of `untyped` for all modules of the package at `root`."""
    return [
        f"{module}.{name}"
        for module, path in imports.modules(root).items()
        for name in untyped(ast.parse(path.read_text(encoding="utf-8")))
    ]


def test_imports_run_downwards():
    """Is the package free of import cycles, upward imports, and imports of staff from outside it?"""
    assert faults(ROOT) == []


def test_every_package_has_a_layer():
    """Do the layers in the README contain exactly the existing parts of each package?"""
    known = imports.modules(ROOT)
    for package, floors in imports.order(README).items():
        there = {name.removeprefix(f"{package}.").partition(".")[0] for name in known if name != package}
        there = {name for name in there if f"{package}.{name}" in known} | {"__init__"}
        assert {name for floor in floors for name in floor} == there, package


@pytest.mark.parametrize(
    "module, line, message",
    [
        (
            "system/files.py",
            "from cluster.jobs import errors",
            "cluster.system.files imports cluster.jobs.errors",
        ),
        ("slurm/words.py", "def f():\n    from cluster.jobs import options", "cluster.slurm.words imports"),
        (
            "jobs/errors.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .job import Job",
            "circle: ",
        ),
        ("jobs/run/private.py", "from . import status", "circle: "),
        ("pages/next_step.py", "from cluster.staff import course", "which students do not have"),
        (
            "jobs/rank/main.py",
            "import importlib\nimportlib.import_module('cluster.staff.course')",
            "students",
        ),
        ("staff/hidden.py", "from .submissions import grading_folder", "cluster.staff.hidden imports"),
        ("jobs/new_room.py", "from . import errors", "cluster.jobs.new_room has no floor"),
    ],
)
def test_an_injected_fault_is_found(tmp_path, module, line, message):
    """Is an injected forbidden import found if it is in a function, serves only type annotations, names its
    module as a string, or belongs to a module without a layer?
    """
    shutil.copytree(ROOT / "cluster", tmp_path / "cluster", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "cluster" / module
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(f"{text}\n\n{line}\n", encoding="utf-8")
    assert any(message in fault for fault in faults(tmp_path)), faults(tmp_path)


def test_public_functions_have_types():
    """Do all parameters and results of public functions have types?"""
    assert all_untyped(ROOT) == []


@pytest.mark.parametrize(
    "text, name",
    [
        ("def f(x: int, y) -> int: ...", "f"),
        ("def f(x: int): ...", "f"),
        ("def f(*x, **y: int) -> None: ...", "f"),
        ("class A:\n    async def f(self, *, x=1) -> int: ...", "A.f"),
        ("class A:\n    def __init__(self, x): ...", "A.__init__"),
        ("try:\n    import a\nexcept ImportError:\n    def f(): ...", "f"),
        ("def _f(x): ...\nclass _A:\n    def f(self): ...", None),
        ("class A:\n    def __init__(self, x: int): ...\n    def f(self, x: int) -> int: ...", None),
    ],
)
def test_a_missing_type_is_found(text, name):
    """Is a public function found if one of its parameters or its result has no type? Are complete and private
    functions ignored, and methods treated in the same way?
    """
    assert list(untyped(ast.parse(text))) == ([name] if name else [])


def test_students_get_what_lies_outside_staff():
    """Does the students' folder contain every module of `cluster` outside staff, and no file of staff?"""
    files = {path.relative_to(ROOT).as_posix() for path in student_files.chosen(ROOT, after="10")}
    package = {name for name in files if name.startswith("cluster/")}
    assert not any(name.startswith("cluster/staff") for name in package)
    outside = {
        path.relative_to(ROOT).as_posix()
        for name, path in imports.modules(ROOT).items()
        if not name.startswith("cluster.staff")
    }
    assert outside <= package


def test_the_picture_is_of_today():
    """Do the packages and arrows in cluster/rooms.svg match the current imports (`python -m tests.rooms`)?"""
    assert html.escape(rooms.text(), quote=False) in rooms.PICTURE.read_text(encoding="utf-8")


def test_no_line_of_the_picture_passes_behind_a_box():
    """On each layer of the figure, does every line pass between the boxes, without touching one?"""
    arrows = imports.arrows(ROOT)
    for package, floors in imports.order(README).items():
        rows, links = rooms.layered(floors, rooms.needed(rooms.between(package, arrows)))
        at = rooms.positions(rooms.untangled(rows, links), links, floors)
        for row in rows:
            row.sort(key=at.get)
            for a, b in pairwise(row):
                least = (rooms.width(a, floors) + rooms.width(b, floors)) / 2
                assert at[b] - at[a] > least - 1e-9, (package, a, b)


def test_what_overlaps_is_spread():
    """Are two objects with the same desired position placed next to each other around it, and is an object
    that overlaps no other placed exactly where desired?
    """
    assert rooms.spread([0.0, 0.0, 10.0], [2.0, 4.0, 2.0]) == [-1.5, 1.5, 10.0]
