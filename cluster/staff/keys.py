"""The key of a slow result: a hash of all that executing a lecture, grading a mutant, a release or an attack
depends on. A committed result with today's key is today's result, and need not be made again to be believed.

A key is the hash of named parts, {part: hash}, and the parts are kept beside it, so that `changed` can say in
words why a key is another. The parts of a result:

    code cells       of its text: sources and headers; of a release the whole text, as it is given out
    files            every module of the package that the code reaches, read statically and never imported;
                     recorded runs, scripts, styles and templates that the code names; nbgrader's settings
    pins             what constraints.txt and pyproject.toml install to run it (no tools of TOOLS)
    data             Fashion-MNIST, where cluster.training.data is reached
    python, machine  minor version and architecture; no path, host or number of cores: a key holds in a clone

What code reaches is found by `reach`.

Source is hashed as it stands, comments and docstrings too: inspect, tracebacks and argparse read them, and of
54 commits to jobs, training and engine only 2 changed nothing else, so leaving them out would spare little.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import re
import sys
import tomllib
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from .reach import PACKAGE, Linker, Parts, Reach, Tree, digest
from .syntax import code_cells, imports_of, python_of

RELEASE, MUTANTS = (
    "cluster.staff.release.release",
    "cluster.staff.classes.prove_checks",
)  # what makes a release, grades a mutant
ATTACKS = "tests.attacks.ours"  # what grades the attacks
SETTINGS = ("nbgrader_config.py", "autotests.yml")
# Groups of dependencies that no lecture and no grading imports, or (gpu) that stand in for another.
TOOLS = ("book", "gpu", "hub", "lti", "similar", "test")


def key(parts: Parts) -> str:
    """The key of a result with these parts: 32 hex digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def changed(before: Parts, after: Parts) -> list[str]:
    """Why the key of `after` is not that of `before`: the parts that differ, each as words."""
    words = [f"{part} has changed" for part in after if part in before and before[part] != after[part]]
    words += [f"{part} is new" for part in after if part not in before]
    return words + [f"{part} is no longer read" for part in before if part not in after]


def lecture(tree: Tree, text: Path) -> Parts:
    """The parts of an executed lecture; `text` is its twin, such as lectures/text/01_topic.py."""
    folder = text.parent.parent
    code = code_cells(text)
    reached = Reach(tree)
    for number, cell in enumerate(code, 1):
        reached.code(python_of(cell), folder, f"{tree.name(text)}, code cell {number}")
    build = folder / "build.py"  # how it is executed; what it imports for other ends is nothing to a lecture
    parts = {"code cells": digest("\n\0".join(code)), tree.name(build): tree.hash(build)}
    return parts | reached.parts() | surroundings(tree, reached)


def release(tree: Tree, assignment: str) -> Parts:
    """The parts of an assignment's release."""
    reached = Reach(tree, RELEASE)
    parts = _assignment(tree, assignment, reached, lambda text: text.read_text(encoding="utf-8"))
    return parts | surroundings(tree, reached)


def mutants(tree: Tree, assignment: str) -> tuple[Parts, dict[str, Parts]]:
    """The parts that all gradings of an assignment share, and those of each: {stub, solution, mutant, unusual
    solution: …}."""
    reached = Reach(tree, MUTANTS)
    shared = _assignment(tree, assignment, reached, lambda text: "\n\0".join(code_cells(text)))
    shared |= surroundings(tree, reached)
    own = {name: {"submission": name} for name in ("stub", "solution")}
    folders = [tree.root / "tests" / kind / assignment[:2] for kind in ("mutants", "unusual")]
    for path in [path for folder in folders for path in sorted(folder.glob("*.py"))]:
        beyond = reached.copy().file(path).parts()
        own[path.stem] = {part: h for part, h in beyond.items() if part not in shared}
    return shared, own


def forgeries(tree: Tree, assignment: str) -> tuple[Parts, dict[str, Parts]]:
    """The parts that gradings of forgeries against an assignment share, and those of each: its file."""
    paths = sorted((tree.root / "tests" / "exploits" / assignment[:2]).glob("*.py"))
    return mutants(tree, assignment)[0], {path.stem: {tree.name(path): tree.hash(path)} for path in paths}


def attacks(tree: Tree) -> tuple[Parts, dict[str, Parts]]:
    """The parts that the gradings of all attacks share, and those of each attack: {attack: its own}."""
    reached = Reach(tree, ATTACKS)
    folder = tree.root / "tests" / "exploits"
    for path in [*(tree.root / name for name in SETTINGS), *tree.files(folder / "course")]:
        reached.file(path)  # the settings name plug-ins, which take part in grading a class
    own, files = {}, {tree.name(path): path for path in sorted(folder.glob("*.py"))}
    forgeries = {tree.name(path) for path in tree.files(folder) if path.parent.name.isdigit()}  # not attacks
    shared = {part: h for part, h in reached.parts().items() if part not in files and part not in forgeries}
    shared |= surroundings(tree, reached)
    for path in files.values():
        # What an attack says beside its imports are paths and names of the place that it attacks.
        own[path.stem] = {tree.name(path): tree.hash(path)}
        beyond = reached.copy().add(Linker(tree, imports_of(tree.names(path)), folder).links)
        own[path.stem] |= {p: h for p, h in beyond.parts().items() if p not in shared and p not in files}
    return shared, own


def _assignment(tree: Tree, assignment: str, reached: Reach, text_of: Callable[[Path], str]) -> Parts:
    """The parts of an assignment's source. Of nbgrader_config.py its text counts, not the plug-ins that it
    names: generating a release and grading with the engine use none of them."""
    folder, parts = tree.root / "solutions" / assignment, {}
    for path in tree.files(folder):
        if path.suffix == ".py":
            parts[tree.name(path)] = digest(text_of(path))
            for number, cell in enumerate(code_cells(path), 1):
                reached.code(python_of(cell), folder, f"{tree.name(path)}, code cell {number}")
        elif path.suffix != ".ipynb":  # made of its text
            parts[tree.name(path)] = tree.hash(path)
    parts |= {name: tree.hash(tree.root / name) for name in SETTINGS}
    return reached.parts() | parts


def surroundings(tree: Tree, reached: Reach) -> Parts:
    """The parts that are no files of the course."""
    parts = {"pins": pins(tree.root), "python": "{}.{}".format(*sys.version_info)}
    parts["machine"] = platform.machine()
    if tree.root / PACKAGE / "training" / "data.py" in reached.files:
        parts["data: Fashion-MNIST"] = fashion_mnist()
    return parts


def pins(root: Path) -> str:
    """The hash of the pinned versions, without those of tools that only the groups of TOOLS ask for."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = dict(project.get("optional-dependencies", {}))
    tools = [pin for group in TOOLS for pin in groups.pop(group, [])]
    used = [*project["dependencies"], *(pin for group in groups.values() for pin in group)]
    only = {_package(pin) for pin in tools} - {_package(pin) for pin in used}
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    lines = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return digest("\n".join(sorted([*used, *(line for line in lines if _package(line) not in only)])))


def _package(pin: str) -> str:
    return re.split(r"[\[=<>!~; ]", pin)[0].lower().replace("_", "-")


@cache
def fashion_mnist() -> str:
    """The hash of the unpacked data set where this machine has it; "absent" where it would be downloaded."""
    from cluster.training.data import PREFIX, find

    content = hashlib.sha256()
    for split, prefix in PREFIX.items():
        folder = find(split)
        if folder is None:
            return "absent"
        for kind in ("images-idx3", "labels-idx1"):
            packed = (folder / f"{prefix}-{kind}-ubyte.gz").read_bytes()
            try:
                content.update(gzip.decompress(packed))
            except (OSError, EOFError, zlib.error):  # damaged, so at least not what was used before
                content.update(packed)
    return content.hexdigest()[:16]
