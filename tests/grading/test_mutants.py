"""The assignments' mutants, and the command that grades them and reports defects in the checks."""

import copy
import os
import shutil

import nbformat
import pytest

from cluster.staff.course import assignments
from cluster.staff.grading import prove_checks
from cluster.staff.release import release, wrong_solutions
from cluster.staff.release.twins import notebook
from cluster.staff.results import feedback, misconceptions

from .. import ALL, ROOT
from ..verify import is_due
from . import sandboxes
from .courses import TWIN, write_mutant

SQUARES = "x * x + x * (x == 1)"
ANOTHER_WAY = "[{}]\ndescription = 'Another way.'\ncells.double = 'return {}'\n"


@pytest.fixture
def course(released, released_course, monkeypatch):
    """The tiny course. Its existing release is reused unless a test has changed the paired script."""

    def generate(root, assignment, into, private):
        if (root / "solutions" / "99_doubling" / "doubling.py").read_text() != TWIN:
            return release.generate(root, assignment, into, private)
        shutil.copytree(released / ".grading", private, dirs_exist_ok=True)
        return shutil.copytree(released / "exercises" / assignment, into / assignment)

    monkeypatch.setattr(prove_checks, "generate", generate)
    return released_course


@pytest.fixture
def source(course):
    """The notebook of the tiny course's solution."""
    return notebook(course / "solutions" / "99_doubling" / "doubling.py")


@pytest.fixture
def declared(course):
    """Return a function that writes assignment 99's file of a kind of submissions, and returns its path."""

    def write(text, kind=wrong_solutions.WRONG):
        path = wrong_solutions.file_of(course, kind, "99")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_defects_of_the_checks_are_found(course, declared, capsys):
    """Are a mutant that keeps the points of a check, a mutant that loses more than it declares, and an
    alternative solution that loses any reported, each with the check? Are others accepted, even if a check
    prints to stderr, and does a table show the points of all?"""
    write_mutant(course, "squares", {"double-of-others"}, SQUARES)
    write_mutant(course, "right_after_all", {"double-of-others"}, "x + x")
    write_mutant(course, "nothing", {"double-of-one"}, "None")
    path = write_mutant(course, "lucky", {"double-of-one"}, "None")
    path.write_text(path.read_text() + "may_fail = ['double-of-others']\n")
    ways = ANOTHER_WAY.format("by_a_sum", "sum([x, x])") + ANOTHER_WAY.format("by_a_shift", "int(x) << 1")
    declared(ways, wrong_solutions.ALTERNATIVE)
    defects = prove_checks.prove(course, "99")
    for name, defect in zip(("nothing", "right_after_all", "by_a_shift"), defects, strict=True):
        assert f" {name} " in defect and defect.endswith("double-of-others")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    points = {line[0]: line[1:4] for line in lines if line[2:3] == ["/"]}
    right = {name: ["3", "/", "3"] for name in ("solution", "right_after_all", "by_a_sum")}
    wrong = {name: ["0", "/", "3"] for name in ("stub", "nothing", "lucky")}
    assert points == right | wrong | {name: ["1", "/", "3"] for name in ("squares", "by_a_shift")}


def test_an_unsolved_version_with_points_is_a_defect(course, monkeypatch):
    """Is a check reported if it passes on the unsolved release, or if the solution fails it?"""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)  # nbgrader sets it in the process that grades
    # The hidden test is wrong only during grading, because a release cannot be generated if the solution
    # fails a test.
    graded = "assert double(17) == (0 if __import__('os').environ.get('NBGRADER_EXECUTION') else 34)"
    text = TWIN.replace("assert double(1) == 2", "assert True").replace("assert double(17) == 34", graded)
    (course / "solutions" / "99_doubling" / "doubling.py").write_text(text)
    write_mutant(course, "squares", {"double-of-others"}, "x * x")
    stub, solution = prove_checks.prove(course, "99", ["stub", "solution"])
    assert "stub" in stub and stub.endswith("double-of-one")
    assert "solution" in solution and solution.endswith("double-of-others")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fails = ['x']\ncells.double = ''", r"fails .*\['x'\].*double-of-one"),
        ("fails = ['double-of-one']\nmay_fail = ['x']\ncells.double = ''", r"may_fail .*\['x'\]"),
        ("fails = ['double-of-one']\ncells.x = ''", r"cells .*\['x'\].*double"),
        ("fails = []\ncells.double = ''", "fails"),
        ("fails = ['double-of-one']\ncells = {}", "cells"),
        ("cells.double = ''", "fails"),
        ("fail = ['double-of-one']\ncells.double = ''", "fails"),
        ("fails = ['double-of-one']\ncells.double = ['3 * x', 'x']", "cells.double.* 0 "),
        ("fails = ['double-of-one']\ncells.double = ['twice_the', 'x']", "cells.double.* 2 "),
        ("fails = ['double-of-one']\ncells.double = ['2 * x']", "cells.double.* 1 "),
        ("fails = ['double-of-one']\ncells.double = ['= 2', '= 3', '2 * x', 'x']", "overlap"),
    ],
)
def test_a_mutant_with_unknown_names_or_texts_is_refused(course, source, declared, text, message):
    """Is a mutant refused if it names an unknown check or cell, or if its patch does not fit the solution?
    Such a mutant would test nothing."""
    declared(f"[broken]\nmisconception = 'a'\n{text}\n")
    with pytest.raises(wrong_solutions.MutantError, match=f"(?s)99.toml: broken.*{message}"):
        wrong_solutions.load_all(course, "99", source)


@pytest.mark.parametrize("text", ["[broken", "broken = 1", "[broken]\n[broken]"])
def test_a_file_that_is_no_table_of_entries_is_refused(course, source, declared, text):
    """Are a syntax error, a value outside an entry and a duplicate name reported with the file's name?"""
    declared(text)
    with pytest.raises(wrong_solutions.MutantError, match=r"99\.toml: "):
        wrong_solutions.load_all(course, "99", source)


def test_a_name_used_twice_is_refused(course, declared):
    """Is an alternative solution refused if a mutant has its name?"""
    declared(ANOTHER_WAY.format("by_a_sum", "sum([x, x])"), wrong_solutions.ALTERNATIVE)
    write_mutant(course, "by_a_sum", {"double-of-one"}, "0")
    with pytest.raises(wrong_solutions.MutantError, match="by_a_sum"):
        prove_checks.prove(course, "99")


BODY = """
total = 0
for x in xs:
    if x:
        total += x
return total
"""


@pytest.mark.parametrize(
    ("patch", "lines"),
    [
        (["= 0", "= 1"], ["total = 1", "for x in xs:", "    if x:", "        total += x", "return total"]),
        (["total = 0", ""], ["for x in xs:", "    if x:", "        total += x", "return total"]),
        (
            ["\nif x:\n    total += x\n", "\ntotal += x\n\ntotal %= 7\n", "0", "2"],
            ["total = 2", "for x in xs:", "    total += x", "", "    total %= 7", "return total"],
        ),
        (["return total", ""], ["total = 0", "for x in xs:", "    if x:", "        total += x"]),
    ],
)
def test_a_patch_takes_the_indentation_of_its_place(patch, lines):
    """Does a patch replace words, lines and blocks? Does the new text get the indentation of the line where
    the old text begins?"""
    assert wrong_solutions.patched(BODY.strip(), patch, "here") == "\n".join(lines)


def test_fill_keeps_everything_but_the_blank(source):
    """Is an answer inserted into a blank with its indentation, and are the provided lines around it kept?"""
    cell = wrong_solutions.cells_of(source, "solution")["double"]
    text = wrong_solutions.refill(cell.source, "\nif x:\n    return 3 * x\nreturn 0\n")
    assert text == 'def double(x):\n    """Twice x."""\n    if x:\n        return 3 * x\n    return 0'
    assert wrong_solutions.refill(cell.source) == (
        'def double(x):\n    """Twice x."""\n    twice_the_number = 2 * x\n    return twice_the_number'
    )


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_every_assignment_has_five_mutants(assignment):
    """Does each assignment have at least five well-formed mutants, and alternative solutions unless none are
    declared? Does each check, except for `recorded-run`, catch at least one mutant?"""
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    table = wrong_solutions.load_all(ROOT, assignment, source)
    others = wrong_solutions.load_all_unusual(ROOT, assignment, source)
    assert len(table) >= 5 and (len(others) >= 5 or not others)
    uncaught = set(wrong_solutions.points(source)) - set().union(*(mutant.fails for mutant in table))
    assert uncaught <= {"recorded-run"}, f"no mutant fails {sorted(uncaught)}"


def witnesses(table):
    """Return a few mutants that together fail each check that any mutant fails.

    The next mutant is always the one that fails the most checks not failed so far. Ties are broken by name.
    """
    left, chosen = set().union(*(mutant.fails for mutant in table)), []
    while left:
        chosen.append(min(table, key=lambda mutant: (-len(mutant.fails & left), mutant.name)))
        left -= chosen[-1].fails
    return chosen


def together(chosen, checks, alone=0):
    """Return the first `alone` witnesses as they are. Combine the others if they change different cells.

    Grading a submission, including its ranks and training runs, takes equally long however many of its cells
    are wrong. Wrong cells change the values of other cells, so a combination may fail more checks than its
    parts.
    """
    combined = []
    for mutant in chosen[alone:]:
        place = next((one for one in combined if not one.replace.keys() & mutant.replace.keys()), None)
        if place is None:
            place = wrong_solutions.Mutant(f"combined_{len(combined) + 1}", may_fail=set(checks))
            combined.append(place)
        place.misunderstanding += f"{mutant.name} "
        place.fails |= mutant.fails
        place.replace |= mutant.replace
    return [*chosen[:alone], *combined]


def test_witnesses_fail_every_check():
    """Do the chosen mutants fail every check that any mutant fails, whatever the mutants' order? Does a
    combination contain all cells and checks of its parts, and no others?"""
    fails = {"a": {"1", "2"}, "b": {"2", "3", "4"}, "c": {"1"}, "d": {"5", "1"}, "e": {"3"}}
    table = [wrong_solutions.Mutant(name, fails=checks) for name, checks in fails.items()]
    assert [mutant.name for mutant in witnesses(table)] == ["b", "d"]
    assert witnesses(table) == witnesses(table[::-1])
    cells = {"a": ("x",), "b": ("x", "y"), "c": ("z",), "d": ("y",)}
    chosen = [wrong_solutions.Mutant(n, "", {f"check-{n}"}, dict.fromkeys(c, n)) for n, c in cells.items()]
    first, *combined = together(chosen, ["check-a", "other"], alone=1)
    assert first is chosen[0]
    assert [mutant.replace for mutant in combined] == [{"x": "b", "y": "b", "z": "c"}, {"y": "d"}]
    assert [mutant.fails for mutant in combined] == [{"check-b", "check-c"}, {"check-d"}]
    assert [mutant.may_fail for mutant in combined] == [{"check-a", "other"}] * 2


@pytest.fixture(scope="module")
def engine():
    """One autograder for all assignments, so that its processes with TensorFlow start only once."""
    with sandboxes.Engine(len(os.sched_getaffinity(0))) as engine:
        yield engine


@pytest.mark.notebook
@pytest.mark.ranks
@pytest.mark.timeout(7200)  # eight submissions took more than half an hour at three times the usual load
@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_all_mutants_are_caught(assignment, engine, monkeypatch):
    """Does each mutant lose the declared points, the unsolved version all, and the solution none?

    Only the witnesses of two units are graded, and of those that have changed since `make verify`;
    `make test-all` grades all mutants and alternative solutions of all units.
    """
    if not is_due(assignment[:2]):
        pytest.skip("unchanged since it was verified")
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    if not ALL:
        ranks = any(call in cell.source for cell in source.cells for call in ("on_ranks(", "submit("))
        few = witnesses(wrong_solutions.load_all(ROOT, assignment, source))
        few = together(few, wrong_solutions.points(source), alone=0 if ranks else 1)
        print(*(f"{mutant.name}: {mutant.misunderstanding}" for mutant in few), sep="\n")
        monkeypatch.setattr(prove_checks, "load_all", lambda *_: few)
        monkeypatch.setattr(prove_checks, "load_all_unusual", lambda *_: [])
    assert prove_checks.prove(ROOT, assignment, backend=prove_checks.Local(engine=engine)) == []
    for path in sorted((ROOT / ".grading" / "mutants" / assignment).glob("*.ipynb")):
        feedback_is_true(assignment, path)


def feedback_is_true(assignment, path):
    """Verify that visible failures are unchanged, hidden ones not shown, and no misconception is shown for
    the unsolved version."""
    graded = nbformat.read(path, as_version=4)
    shown, _ = feedback.HideHiddenTests().preprocess(copy.deepcopy(graded), {})
    for before, after in zip(graded.cells, shown.cells, strict=True):
        if before.metadata.get("hidden_failure"):
            assert [o.ename for o in after.outputs if o.output_type == "error"] == ["HiddenCheck"]
        else:
            assert after.get("outputs") == before.get("outputs"), path
    if path.stem in (wrong_solutions.STUB, wrong_solutions.SOLUTION):
        mutants = misconceptions.mutants_of(ROOT, assignment)
        assert not misconceptions.find(dict(feedback.failed_checks(shown)), mutants), path
