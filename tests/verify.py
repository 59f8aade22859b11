"""Verification of units: `make verify UNIT=07` executes a lecture and grades its assignment's submissions.

Only if everything is as declared does the unit get its entry in tests/verified.toml, with date, commit,
minutes, and a digest of everything that affects its results:

    its own files           the lecture's text, the assignment, its wrong, alternative and forged submissions,
                            and the recorded runs that they name
    what student code uses  modules of cluster/checks, cluster/training and cluster/network, and
                            cluster/lecture.py, as far as the unit imports them
    pins                    of LIBRARIES

The platform (jobs, slurm, system, pages, staff) and the machine are left out. They have separate tests, and
`make test` grades a few submissions of each unit on them. Comments, docstrings, Markdown cells, type
annotations and the messages of assertions and errors are not part of a digest of code, because they change no
result.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jupytext

from cluster.staff.course import assignments
from cluster.staff.release import twins, wrong_solutions

from . import ALL, ROOT

WITNESSES = ("01", "05")  # units that `make test` grades even if nothing has changed: without and with jobs
LIBRARIES = ("horovod", "keras", "nbgrader", "numpy", "tensorflow")
ROOMS = re.compile(r"cluster\.(checks|training|network)(\.|$)|cluster\.lecture$")
RUN = re.compile(r"\bruns/([\w.-]+\.\w+)")
# lines that are not Python, and comments that are markers; both become statements in the tree
MEANT = r"AUTOTEST|BEGIN (?:SOLUTION|HIDDEN)|END (?:SOLUTION|HIDDEN)|Runs in the notebook's process"
MARK = re.compile(rf"(?m)^(\s*)([%!?].*|#.*(?:{MEANT}).*)$")
TYPING = ("__future__", "collections.abc", "types", "typing")  # imported only for annotations
READ = re.compile(r"\b(ClassVar|InitVar|KW_ONLY)\b")  # annotations with a meaning in dataclasses
FILE = Path("tests", "verified.toml")
HEAD = """\
# The units that were verified as a whole, with a digest of each thing that they depend on (tests/verify.py).
# `make verify UNIT=07` writes the entry of a unit. minutes: on the machine that verified it; 0 if unknown.
# note: how the digests of another commit came to be written here.
"""
TESTS = (  # tests of `make test-all`; those with the unit's number in their IDs are run
    "tests/lectures/test_build.py::test_lecture_runs",
    "tests/grading/test_mutants.py::test_all_mutants_are_caught",
    "tests/grading/test_release.py::test_committed_release_is_what_the_solution_generates",
    "tests/grading/test_forgeries.py::test_a_forgery_gains_nothing",
)

Digests = dict[str, str]  # {path, or name of a library: digest, or pinned version}


def units(root: Path) -> list[str]:
    """Return the numbers of all units."""
    return [assignment[:2] for assignment in assignments(root)]


def digests(root: Path, unit: str) -> Digests:
    """Return everything that affects a unit's results, each with its digest."""
    [assignment] = assignments(root, unit)
    results, code = dict[str, str](), list[str]()
    for text in (root / "lectures" / "text").glob(f"{unit}_*.py"):  # an assignment can have no lecture
        code += [c.source for c in jupytext.read(text, fmt="py:percent").cells if c.cell_type == "code"]
        results[name_of(root, text)] = digest(map(tree_of, code))
    for path in sorted((root / "solutions" / assignment).iterdir()):
        if path.suffix == ".py":
            notebook = twins.notebook(path)
            results[name_of(root, path)] = digest(map(cell_of, notebook.cells))
            code += [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        elif path.is_file() and path.suffix != ".ipynb":  # notebooks are generated from texts
            results[name_of(root, path)] = digest([path.read_bytes().hex()])
    for kind, entries in submissions(root, assignment, notebook).items():
        if entries:
            results[f"tests/{kind}/{unit}.toml"] = digest(entries)
    for name in sorted({name for source in code for name in RUN.findall(source)}):
        path = root / "lectures" / "runs" / name
        if path.is_file():
            content = tree_of(path.read_text()) if path.suffix == ".py" else path.read_bytes().hex()
            results[name_of(root, path)] = digest([content])
    results |= {name_of(root, path): digest([tree_of(path.read_text())]) for path in modules(root, code)}
    return results | pins(root)


def submissions(root: Path, assignment: str, notebook: Any) -> dict[str, list[Any]]:
    """Return {kind: all declared submissions of this kind}, with the code of their cells and the checks that
    they are expected to fail.

    Whether the code is given as a patch of the solution or completely makes no difference.
    """
    answers = wrong_solutions.cells_of(notebook, "solution")

    def entry(mutant: wrong_solutions.Mutant) -> list[Any]:
        cells = {n: tree_of(wrong_solutions.refill(answers[n].source, t)) for n, t in mutant.replace.items()}
        return [mutant.name, sorted(mutant.fails), sorted(mutant.may_fail), sorted(cells.items())]

    return {
        "wrong_solutions": [entry(m) for m in wrong_solutions.load_all(root, assignment, notebook)],
        "alternative_solutions": [
            entry(m) for m in wrong_solutions.load_all_unusual(root, assignment, notebook)
        ],
        "forgeries": [
            [forgery.name, forgery.fair, tree_of(forgery.answer)]
            for forgery in wrong_solutions.load_forgeries(root, assignment)
        ],
    }


def modules(root: Path, code: Iterable[str]) -> list[Path]:
    """Return the files of the modules matching ROOMS that code imports, directly or through other such
    modules.
    """
    files, targets = package(root)
    todo = [name for source in code for name in imported(_without_types(_marked(source)), "", files)]
    results: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in results and ROOMS.match(name):
            results.add(name)
            todo += [*targets.get(name, ()), name.rpartition(".")[0]]
    return sorted(files[name] for name in results)


@cache
def package(root: Path) -> tuple[dict[str, Path], dict[str, list[str]]]:
    """Return ({module: file}, {module: modules that it imports when it runs}) for the package."""
    files, targets = modules_of(root), {}
    for name, path in files.items():
        parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
        targets[name] = [*imported(_without_types(path.read_text()), parent, files)]
    return files, targets


def modules_of(root: Path) -> dict[str, Path]:
    """Return {full name: file} of the package's modules; a package is represented by its `__init__`."""
    results = {}
    for path in sorted((root / "cluster").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        results[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return results


def imported(tree: ast.AST, package: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the modules among `known` that code imports. package: where relative imports start."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            targets = [full if (full := f"{base}.{alias.name}") in known else base for alias in node.names]
            yield from (target for target in targets if target in known)


def pins(root: Path) -> Digests:
    """Return {library: locked version} for LIBRARIES; tensorflow-cpu counts as tensorflow."""
    text = (root / "constraints.txt").read_text(encoding="utf-8")
    results = {}
    for name in LIBRARIES:
        versions = re.findall(rf"(?m)^{name}(?:[-_]cpu)?==([\w.]+)", text)
        results[name] = ", ".join(sorted(set(versions)))
    return results


def cell_of(cell: Any) -> Any:
    """Return the part of an assignment's cell that affects results: the code of a code cell, and any cell's
    nbgrader role."""
    role = cell.metadata.get("nbgrader", {})
    role = (
        {name: role.get(name) for name in ("grade_id", "grade", "solution", "locked", "points")}
        if role
        else {}
    )
    return [role, tree_of(cell.source) if cell.cell_type == "code" else ""]


def tree_of(source: str) -> Any:
    """Return Python source as a tree without docstrings, messages and types. Invalid Python becomes its
    lines."""
    try:
        return _plain(_without_types(_marked(source)))
    except SyntaxError:
        return source.splitlines()


def _marked(source: str) -> str:
    return MARK.sub(lambda line: f"{line[1]}__line__({line[2]!r})", source)


def _without_types(source: str) -> ast.AST:
    return _TypesRemover().visit(ast.parse(source))


class _TypesRemover(ast.NodeTransformer):
    """Remove annotations, and imports that are used only by annotations.

    A class keeps the names that it annotates, because they are the fields of a dataclass or a named tuple.
    """

    in_class = False

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self._visit_body(node, in_class=False)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._visit_body(node, in_class=True)

    def _visit_body(self, node: ast.AST, in_class: bool) -> ast.AST:
        before, self.in_class = self.in_class, in_class
        self.generic_visit(node)
        self.in_class = before
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        if self.in_class:
            if not READ.search(ast.unparse(node.annotation)):
                node.annotation = ast.Constant(None)
            return node
        return ast.Assign([node.target], node.value, lineno=node.lineno) if node.value else None

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test).endswith("TYPE_CHECKING") else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module in TYPING and not node.level else node


def _plain(node: Any) -> Any:
    """Return a syntax tree as lists that are identical for every version of Python."""
    if isinstance(node, list):
        return [_plain(child) for child in node if not _is_text(child)]
    if not isinstance(node, ast.AST):
        return node if isinstance(node, (str, int, type(None))) else repr(node)
    if isinstance(node, ast.Assert):
        node.msg = None
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        node.exc.args = [arg for arg in node.exc.args if not _is_message(arg)]
    fields = [(name, _plain(child)) for name, child in ast.iter_fields(node) if child not in (None, [])]
    return [type(node).__name__, *fields]


def _is_text(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_message(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def digest(parts: Iterable[Any]) -> str:
    """Return 12 hex digits that identify parts that can be written as JSON."""
    return hashlib.sha256(json.dumps(list(parts), sort_keys=True).encode()).hexdigest()[:12]


def name_of(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def verified(root: Path) -> dict[str, dict[str, Any]]:
    """Return {unit: its entry in tests/verified.toml}."""
    path = root / FILE
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def changes(before: Digests, now: Digests) -> list[str]:
    """Return the names whose digests differ, or that only one of the two mappings contains."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def is_due(unit: str) -> bool:
    """Return whether a unit is graded: all in `make test-all`, else WITNESSES and those with changed files.

    The package's own tests and the witnesses judge its changes, until `make verify` grades all units.
    """
    former = verified(ROOT).get(unit, {"digests": {}})["digests"]
    own = ("solutions/", "tests/")
    return (
        ALL or unit in WITNESSES or any(name.startswith(own) for name in changes(former, digests(ROOT, unit)))
    )


def out_of_date(root: Path) -> dict[str, str]:
    """Return {unit: what has changed since it was verified, and the command that verifies it}."""
    found, entries = {}, verified(root)
    for unit in units(root):
        entry = entries.get(unit, {"digests": {}})
        if changed := changes(entry["digests"], digests(root, unit)):
            what = f"{', '.join(changed)} changed since it was verified on {entry.get('date')}"
            minutes = f" ({entry['minutes']:g} minutes)" if entry.get("minutes") else ""
            what = what if unit in entries else "was never verified"
            found[unit] = f"{what}; run `make verify UNIT={unit}`{minutes}"
    return found


def write(root: Path, unit: str, entry: dict[str, Any]) -> None:
    """Replace the entry of a unit."""
    lines = [HEAD.rstrip("\n")]
    for number, each in sorted((verified(root) | {unit: entry}).items()):
        lines += ["", f"[{number}]", f'commit = "{each["commit"]}"', f"date = {each['date']}"]
        lines += [f"minutes = {each['minutes']:g}", f"graded = {each['graded']}"]
        lines += [f'note = "{each["note"]}"'] if "note" in each else []
        lines += [f"[{number}.digests]"]
        lines += [f'"{name}" = "{value}"' for name, value in sorted(each["digests"].items())]
    beside = root / FILE.with_suffix(".tmp")
    beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    beside.replace(root / FILE)


def graded(root: Path, unit: str) -> int:
    """Count the submissions of a unit, including the solution and the unsolved version."""
    [assignment] = assignments(root, unit)
    notebook = twins.notebook(next((root / "solutions" / assignment).glob("*.py")))
    return 2 + sum(map(len, submissions(root, assignment, notebook).values()))


def commit(root: Path) -> str:
    """Return the commit that is checked out; uncommitted changes show up in the digests."""
    command = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def verify(root: Path, unit: str) -> str:
    """Execute the lecture, grade all submissions and write the entry; return what is wrong, or ""."""
    before, start = digests(root, unit), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="verify-") as scratch:
        report = Path(scratch) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-v",  # a line per test even if the output is a file, because some tests take minutes
            "-s",
            "-k",
            f"{unit}_",
            f"--junitxml={report}",
            *TESTS,
        ]
        done = subprocess.run(command, cwd=root, env=os.environ | {"CLUSTER_TEST_ALL": "1"})
        if done.returncode:
            return f"unit {unit} is not as declared: see the failures above"
        suites = ElementTree.parse(report).getroot().iter("testsuite")
        if skipped := sum(int(suite.get("skipped", 0)) for suite in suites):
            return f"unit {unit} is not verified: {skipped} tests were skipped; -rs shows why"
    if changed := changes(before, digests(root, unit)):
        return f"unit {unit} is not verified: {', '.join(changed)} changed meanwhile; run the command again"
    entry = {"commit": commit(root), "date": datetime.date.today(), "digests": before}
    entry |= {"minutes": round((time.monotonic() - start) / 60, 1), "graded": graded(root, unit)}
    write(root, unit, entry)
    print(
        f"unit {unit} is verified: {entry['graded']} submissions, {entry['minutes']:g} minutes; commit {FILE}"
    )
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make verify", description=__doc__.partition(":")[0])
    parser.add_argument(
        "units", nargs="*", metavar="NN", help="units, as 07 (default: all that are out of date)"
    )
    parser.add_argument("--list", action="store_true", help="only say which units are out of date")
    options = parser.parse_args()
    if unknown := sorted({*options.units} - {*units(ROOT)}):
        sys.exit(f"There is no unit {', '.join(unknown)}; there are {', '.join(units(ROOT))}")
    stale = out_of_date(ROOT)
    if options.list or not (options.units or stale):
        print("\n".join(f"{unit}: {what}" for unit, what in stale.items()) or "All units are verified.")
        return 0
    wrong = [what for unit in options.units or stale if (what := verify(ROOT, unit))]
    for what in wrong:
        print(f"error: {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
