"""The assignments' mutants, and the command that grades them and reports defects in the checks."""

import copy
import os
import shutil

import nbformat
import pytest

from cluster.staff.course import assignments
from cluster.staff.engine import Engine
from cluster.staff.grading import prove_checks
from cluster.staff.release import release, wrong_solutions
from cluster.staff.release.twins import notebook
from cluster.staff.results import feedback, misconceptions

from .. import ALL, ROOT
from .courses import TWIN, write_mutant


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


def run(course, only=None):
    return prove_checks.prove(course, "99", only)


def test_caught_mutants_unsolved_version_and_solution(course, capsys):
    """Does the command accept mutants that lose the declared points, an unsolved version that loses all and a
    solution that loses none, even if a check prints to stderr?"""
    write_mutant(course, "squares", {"double-of-others"}, "x * x + x * (x == 1)")
    write_mutant(course, "memorised", {"double-of-others"}, "2 if x == 1 else 0.6")
    assert run(course) == []
    printed = capsys.readouterr().out
    for name, points in [
        ("stub", "0 / 3"),
        ("solution", "3 / 3"),
        ("squares", "1 / 3"),
        ("memorised", "1 / 3"),
    ]:
        line = next(line for line in printed.splitlines() if line.split()[:1] == [name])
        assert points in line, line


def test_an_uncaught_mutant_is_a_defect(course, capsys):
    """Does the command fail if a mutant keeps the points of a check that it should fail?"""
    write_mutant(course, "right_after_all", {"double-of-others"}, "x + x")
    assert run(course) == ["99_doubling: mutant right_after_all keeps the points of double-of-others"]
    assert "NOT AS IT SHOULD BE" in capsys.readouterr().out


def test_losing_more_than_declared_is_a_defect(course, capsys):
    """If a mutant fails a check that it does not declare, does the table name this check, and does the
    command fail? Is the failure accepted if `may_fail` lists the check?"""
    write_mutant(course, "nothing", {"double-of-one"}, "None")
    assert run(course, ["nothing"]) == ["99_doubling: mutant nothing loses double-of-others"]
    path = wrong_solutions.file_of(course, wrong_solutions.WRONG, "99")
    path.write_text(path.read_text() + 'may_fail = ["double-of-others"]\n')
    source = notebook(course / "solutions" / "99_doubling" / "doubling.py")
    lost = {"double-of-one": (0, 1), "double-of-others": (0, 2)}
    [lucky] = wrong_solutions.load_all(course, "99", source)
    assert (
        prove_checks.defects(lucky, prove_checks.verdict(lucky, lost, wrong_solutions.points(source))) == []
    )
    assert "also loses double-of-others" in capsys.readouterr().out


def test_an_alternative_solution_that_loses_points_is_a_defect(course):
    """Is an alternative solution that loses points reported with its failed checks? Is an entry refused if
    its format is invalid or its name is used twice?"""
    path = wrong_solutions.file_of(course, wrong_solutions.ALTERNATIVE, "99")
    path.parent.mkdir(parents=True)
    entry = "[{}]\ndescription = 'Another way.'\ncells.double = 'return {}'\n"
    by_a_sum = entry.format("by_a_sum", "sum([x, x])")
    path.write_text(by_a_sum + entry.format("by_a_shift", "int(x) << 1"))
    assert run(course) == ["99_doubling: alternative solution by_a_shift loses double-of-others"]
    path.write_text(by_a_sum + "fails = ['double-of-one']\n")
    with pytest.raises(wrong_solutions.MutantError, match=r"by_a_sum has.*an entry has.*cells"):
        run(course)
    path.write_text(by_a_sum)
    write_mutant(course, "by_a_sum", {"double-of-one"}, "0")
    with pytest.raises(wrong_solutions.MutantError, match="two submissions called by_a_sum"):
        run(course)


def test_an_unsolved_version_with_points_is_a_defect(course, monkeypatch):
    """Is a check reported if it passes on the unsolved release, or if the solution fails it?"""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)  # nbgrader sets it in the process that grades
    twin = course / "solutions" / "99_doubling" / "doubling.py"
    free = TWIN.replace("assert double(1) == 2", "assert True")
    twin.write_text(
        free.replace("assert double(17) == 34", "assert double(17) == __import__('os').getpid() * 0")
    )
    write_mutant(course, "squares", {"double-of-others"}, "x * x")
    result = "\n".join(mutants_of_broken(course))
    assert "the stub keeps the points of double-of-one" in result
    assert "the solution loses double-of-others" in result


def mutants_of_broken(course):
    # The hidden test is wrong only during grading, because a release cannot be generated if the solution
    # fails a test.
    twin = course / "solutions" / "99_doubling" / "doubling.py"
    graded = "assert double(17) == (0 if __import__('os').environ.get('NBGRADER_EXECUTION') else 34)"
    twin.write_text(twin.read_text().replace("assert double(17) == __import__('os').getpid() * 0", graded))
    return run(course, ["stub", "solution"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fails = ['x']\ncells.double = ''", r"fails names \['x'\].*double-of-one"),
        ("fails = ['double-of-one']\nmay_fail = ['x']\ncells.double = ''", r"may_fail names \['x'\]"),
        ("fails = ['double-of-one']\ncells.x = ''", r"cells names \['x'\].*double"),
        ("fails = []\ncells.double = ''", "fails is empty"),
        ("fails = ['double-of-one']\ncells = {}", "cells is empty"),
        ("cells.double = ''", "an entry has.*fails"),
        ("fail = ['double-of-one']\ncells.double = ''", "an entry has.*fails"),
        (
            "fails = ['double-of-one']\ncells.double = ['3 * x', 'x']",
            "cells.double: the solution has changed.*0 times",
        ),
        ("fails = ['double-of-one']\ncells.double = ['twice_the', 'x']", "the solution has changed.*2 times"),
        ("fails = ['double-of-one']\ncells.double = ['2 * x']", "has 1 texts, but a patch has pairs"),
        ("fails = ['double-of-one']\ncells.double = ['= 2', '= 3', '2 * x', 'x']", "two patches overlap"),
    ],
)
def test_a_mutant_with_unknown_names_or_texts_is_refused(course, text, message):
    """Is a mutant refused if it names an unknown check or cell, or if its patch does not fit the solution?
    Such a mutant would test nothing."""
    path = wrong_solutions.file_of(course, wrong_solutions.WRONG, "99")
    path.parent.mkdir(parents=True)
    path.write_text(f"[broken]\nmisconception = 'a'\n{text}\n")
    source = notebook(course / "solutions" / "99_doubling" / "doubling.py")
    with pytest.raises(wrong_solutions.MutantError, match=f"(?s)99.toml: broken.*{message}"):
        wrong_solutions.load_all(course, "99", source)


def test_a_file_that_is_no_table_of_entries_is_refused(course):
    """Are a syntax error, a value outside an entry and a duplicate name reported with the file's name?"""
    path = wrong_solutions.file_of(course, wrong_solutions.WRONG, "99")
    path.parent.mkdir(parents=True)
    source = notebook(course / "solutions" / "99_doubling" / "doubling.py")
    for text in ("[broken", "broken = 1", "[broken]\n[broken]"):
        path.write_text(text)
        with pytest.raises(wrong_solutions.MutantError, match=r"99\.toml: "):
            wrong_solutions.load_all(course, "99", source)


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


def test_fill_keeps_everything_but_the_blank(course):
    """Is an answer inserted into a blank with its indentation, and are the provided lines around it kept?"""
    source = notebook(course / "solutions" / "99_doubling" / "doubling.py")
    cell = wrong_solutions.cells_of(source, "solution")["double"]
    text = wrong_solutions.refill(cell.source, "\nif x:\n    return 3 * x\nreturn 0\n")
    assert text == 'def double(x):\n    """Twice x."""\n    if x:\n        return 3 * x\n    return 0'
    assert wrong_solutions.refill(cell.source) == (
        'def double(x):\n    """Twice x."""\n    twice_the_number = 2 * x\n    return twice_the_number'
    )


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_every_assignment_has_five_mutants(assignment):
    """Does each assignment have at least five well-formed mutants? Does each check, except for
    `recorded-run`, catch at least one of them?"""
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    table = wrong_solutions.load_all(ROOT, assignment, source)
    assert len(table) >= 5
    uncaught = set(wrong_solutions.points(source)) - set().union(*(mutant.fails for mutant in table))
    assert uncaught <= {"recorded-run"}, f"no mutant fails {sorted(uncaught)}"


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_alternative_solutions_are_well_formed(assignment):
    """Does an assignment have either no alternative solutions or at least five well-formed ones?"""
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    table = wrong_solutions.load_all_unusual(ROOT, assignment, source)
    assert len(table) >= 5 or not table


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
    """Do the chosen mutants fail every check that any mutant fails? Are the same ones chosen whatever the
    mutants' order?"""
    fails = {"a": {"1", "2"}, "b": {"2", "3", "4"}, "c": {"1"}, "d": {"5", "1"}, "e": {"3"}}
    table = [wrong_solutions.Mutant(name, fails=checks) for name, checks in fails.items()]
    assert [mutant.name for mutant in witnesses(table)] == ["b", "d"]
    assert witnesses(table) == witnesses(table[::-1])


def test_witnesses_of_different_cells_are_one_submission():
    """Does each combination contain all cells and checks of its parts, and no others?"""
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
    with Engine(len(os.sched_getaffinity(0))) as engine:
        yield engine


@pytest.mark.notebook
@pytest.mark.ranks
@pytest.mark.timeout(7200)  # eight submissions took more than half an hour at three times the usual load
@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_all_mutants_are_caught(assignment, engine, releases, monkeypatch):
    """Does each mutant lose the declared points, the unsolved version all, and the solution none?

    Only the witnesses are graded; `make test-all` grades all mutants and alternative solutions.
    """
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    if not ALL:
        ranks = any(call in cell.source for cell in source.cells for call in ("on_ranks(", "submit("))
        few = witnesses(wrong_solutions.load_all(ROOT, assignment, source))
        few = together(few, wrong_solutions.points(source), alone=0 if ranks else 1)
        print(*(f"{mutant.name}: {mutant.misunderstanding}" for mutant in few), sep="\n")
        monkeypatch.setattr(prove_checks, "load_all", lambda *_: few)
        monkeypatch.setattr(prove_checks, "load_all_unusual", lambda *_: [])
    monkeypatch.setattr(prove_checks, "generate", releases.keep)
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
    if path.stem.startswith("combined_"):
        return
    failed = dict(feedback.failed_checks(shown))
    mutants = misconceptions.mutants_of(ROOT, assignment)
    assert path.stem not in (wrong_solutions.STUB, wrong_solutions.SOLUTION) or not misconceptions.find(
        failed, mutants
    ), path
