"""The table of mutants: it must itself be able to fail."""

import copy
import json
import shutil

import nbformat
import pytest

from cluster.staff import keys
from cluster.staff.classes import prove_checks
from cluster.staff.course import assignments
from cluster.staff.feedback import explain, feedback
from cluster.staff.release import release, wrong_solutions
from cluster.staff.release.twins import notebook

from .. import ROOT, sample
from .courses import TWIN, write_mutant


@pytest.fixture
def course(released, released_course, monkeypatch):
    """The tiny course. Its release, where no test has changed the text, is the one that was made before."""

    def generate(root, assignment, into, private):
        if (root / "solutions" / "99_doubling" / "doubling.py").read_text() != TWIN:
            return release.generate(root, assignment, into, private)
        shutil.copytree(released / ".grading", private, dirs_exist_ok=True)
        return shutil.copytree(released / "exercises" / assignment, into / assignment)

    monkeypatch.setattr(prove_checks, "generate", generate)
    return released_course


def run(course, only=None):
    return prove_checks.prove(course, "99", only)


def test_caught_mutants_stub_and_solution(course, capsys):
    """Are right checks reported as right, and does a warning on stderr cost the solution nothing?"""
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
    """Does a wrong solution that keeps its points make the command fail?"""
    write_mutant(course, "right_after_all", {"double-of-others"}, "x + x")
    assert run(course) == ["99_doubling: mutant right_after_all keeps the points of double-of-others"]
    assert "NOT AS IT SHOULD BE" in capsys.readouterr().out


def test_losing_more_than_declared_is_a_defect(course, capsys):
    """Does the table name the checks that a mutant loses beyond those it must, and the command fail?"""
    write_mutant(course, "nothing", {"double-of-one"}, "None")
    assert run(course, ["nothing"]) == ["99_doubling: mutant nothing loses double-of-others"]
    path = course / "tests" / "mutants" / "99" / "nothing.py"
    path.write_text(path.read_text() + 'MAY_FAIL = {"double-of-others"}\n')
    source = notebook(course / "solutions" / "99_doubling" / "doubling.py")
    lost = {"double-of-one": (0, 1), "double-of-others": (0, 2)}
    lucky = wrong_solutions.load(path, source)
    assert (
        prove_checks.defects(lucky, prove_checks.verdict(lucky, lost, wrong_solutions.points(source))) == []
    )
    assert "also loses double-of-others" in capsys.readouterr().out


def test_an_unusual_right_solution_that_loses_points_is_a_defect(course):
    """Is it graded beside the mutants, and said what it lost; is one that is no such file refused?"""
    folder = course / "tests" / "unusual" / "99"
    folder.mkdir(parents=True)
    text = 'UNUSUAL = "{}"\nREPLACE = {{"double": "return {}"}}\n'
    (folder / "by_a_sum.py").write_text(text.format("A sum.", "sum([x, x])"))
    (folder / "by_a_shift.py").write_text(text.format("Bits are shifted.", "int(x) << 1"))
    assert run(course) == ["99_doubling: unusual solution by_a_shift loses double-of-others"]
    (folder / "by_a_shift.py").write_text('UNUSUAL = "It fails."\nFAILS = {"double-of-one"}\nREPLACE = {}\n')
    with pytest.raises(wrong_solutions.MutantError, match="an unusual solution defines"):
        run(course)
    (folder / "by_a_shift.py").unlink()
    write_mutant(course, "by_a_sum", {"double-of-one"}, "0")
    with pytest.raises(wrong_solutions.MutantError, match="two submissions called by_a_sum"):
        run(course)


def test_a_stub_with_points_and_a_wrong_solution_are_defects(course):
    """Are a check that passes on the empty release, and one that the solution fails, found?"""
    twin = course / "solutions" / "99_doubling" / "doubling.py"
    free = TWIN.replace("assert double(1) == 2", "assert True")
    twin.write_text(
        free.replace("assert double(17) == 34", "assert double(17) == __import__('os').getpid() * 0")
    )
    write_mutant(course, "squares", {"double-of-others"}, "x * x")
    found = "\n".join(mutants_of_broken(course))
    assert "the stub keeps the points of double-of-one" in found
    assert "the solution loses double-of-others" in found


def mutants_of_broken(course):
    # Generation would refuse a reference that raises, so the hidden test is only wrong where it is graded.
    twin = course / "solutions" / "99_doubling" / "doubling.py"
    graded = "assert double(17) == (0 if __import__('os').environ.get('NBGRADER_EXECUTION') else 34)"
    twin.write_text(twin.read_text().replace("assert double(17) == __import__('os').getpid() * 0", graded))
    return run(course, ["stub", "solution"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'MISUNDERSTANDING = "a"\nFAILS = {"x"}\nREPLACE = {"double": ""}',
            r"FAILS names \['x'\].*double-of-one",
        ),
        ('MISUNDERSTANDING = "a"\nFAILS = {"double-of-one"}\nREPLACE = {"x": ""}', r"REPLACE names \['x'\]"),
        ('MISUNDERSTANDING = "a"\nFAILS = set()\nREPLACE = {"double": ""}', "FAILS is empty"),
        ('MISUNDERSTANDING = "a"\nFAILS = {"double-of-one"}\nREPLACE = {}', "REPLACE is empty"),
        ('FAILS = {"double-of-one"}\nREPLACE = {"double": ""}', "a mutant defines"),
        ('MISUNDERSTANDING = "a"\nFAIL = {"x"}\nREPLACE = {"double": ""}', "a mutant defines"),
    ],
)
def test_a_mutant_with_unknown_names_is_refused(course, text, words):
    """Is a misspelt check or hole an error, and not a mutant that tests nothing?"""
    path = write_mutant(course, "broken", set(), "x")
    path.write_text(text)
    source = notebook(course / "solutions" / "99_doubling" / "doubling.py")
    with pytest.raises(wrong_solutions.MutantError, match=f"broken.py.*{words}"):
        wrong_solutions.load(path, source)


def test_fill_keeps_everything_but_the_hole(course):
    """Does an answer stand in the hole, indented, with the given lines around it?"""
    source = notebook(course / "solutions" / "99_doubling" / "doubling.py")
    cell = wrong_solutions.cells_of(source, "solution")["double"]
    text = wrong_solutions.refill(cell.source, "\nif x:\n    return 3 * x\nreturn 0\n")
    assert text == 'def double(x):\n    """Twice x."""\n    if x:\n        return 3 * x\n    return 0'
    assert wrong_solutions.refill(cell.source) == (
        'def double(x):\n    """Twice x."""\n    twice_the_number = 2 * x\n    return twice_the_number'
    )


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_every_assignment_has_five_mutants(assignment):
    """Are there at least five wrong solutions, all well formed, and has each check one that it catches?"""
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    table = wrong_solutions.load_all(ROOT, assignment, source)
    assert len(table) >= 5
    uncaught = set(wrong_solutions.points(source)) - set().union(*(mutant.fails for mutant in table))
    assert uncaught <= {"recorded-run"}, f"no mutant fails {sorted(uncaught)}"


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_unusual_solutions_are_well_formed(assignment):
    """Are there, where there are any, at least five right but unusual solutions, of holes that exist?"""
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    table = wrong_solutions.load_all_unusual(ROOT, assignment, source)
    assert len(table) >= 5 or not table


def chosen(assignment):
    """({submission: why it is graded}, what is left): of those with another key so many, else one mutant in
    ten; and stub and solution, or one of them."""
    shared, own = keys.mutants(sample.tree(), assignment)
    table = prove_checks.table_of(ROOT, assignment)
    why = {name: table.why(name, shared, own[name]) for name in own}
    ends = {name: why.pop(name) for name in (wrong_solutions.STUB, wrong_solutions.SOLUTION)}
    redo = sample.to_redo(why, most=sample.MOST)
    return redo | sample.to_redo(ends), sample.due(why, redo)


@pytest.mark.notebook
@pytest.mark.ranks
@pytest.mark.timeout(7200)  # half an hour was too short for a sample of eight under three times the load
@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_all_mutants_are_caught(assignment, releases, record_property, monkeypatch):
    """Does each wrong solution in tests/mutants lose what it should, the stub all, the solution nothing?"""
    redo, left = chosen(assignment)
    sample.note(record_property, assignment, left)
    for name, why in redo.items():
        sample.note(record_property, f"{assignment}, {name}", why)
    monkeypatch.setattr(prove_checks, "generate", releases.keep)
    assert prove_checks.prove(ROOT, assignment, list(redo), keep=sample.ALL) == []
    for path in sorted((ROOT / ".grading" / "mutants" / assignment).glob("*.ipynb")):
        feedback_is_true(assignment, path)


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_recorded_results_are_as_they_should_be(assignment):
    """Has, by the table, the stub no point, the solution all, and each mutant lost its own checks?"""
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    worth = wrong_solutions.points(source)
    table = [wrong_solutions.Mutant("stub", fails=set(worth)), wrong_solutions.Mutant("solution")]
    recorded = prove_checks.table_of(ROOT, assignment).results
    table += wrong_solutions.load_all(ROOT, assignment, source)
    for mutant in [*table, *wrong_solutions.load_all_unusual(ROOT, assignment, source)]:
        if found := recorded.get(mutant.name):
            assert set(found["failed"]) - mutant.may_fail == mutant.fails - mutant.may_fail
            assert mutant.may_fail or found["points"] <= sum(worth[c] for c in set(worth) - mutant.fails)


def test_another_result_than_the_recorded_is_a_defect(course):
    """Does a result that differs from the recorded one fail, and say how; is luck left out?"""
    write_mutant(course, "squares", {"double-of-others"}, "x * x + x * (x == 1)")
    path = prove_checks.table_of(course, "99_doubling").path
    own = {name: {} for name in ("squares", "solution")}
    made = {"squares": {"points": 1, "failed": ["double-of-others"]}, "solution": {"points": 3, "failed": []}}
    prove_checks.table_of(course, "99_doubling").keep({}, own, made)
    assert run(course, ["squares", "solution"]) == []
    path.write_text(path.read_text().replace('"points": 3', '"points": 2').replace("-of-others", "-of-one"))
    assert run(course, ["squares", "solution"]) == [
        "99_doubling: solution has 3 points, recorded are 2",
        "99_doubling: squares loses double-of-others, which is recorded as kept",
        "99_doubling: squares keeps double-of-one, which is recorded as lost",
    ]
    lucky = wrong_solutions.Mutant("squares", may_fail={"double-of-others", "double-of-one"})
    assert prove_checks.differences(lucky, made["squares"], {"points": 0, "failed": ["double-of-one"]}) == []


def test_a_recorded_result_is_replaced_where_its_key_is_another(course):
    """Does make test-all record what it makes under a new key, but not what is wrong or contradicts it?"""
    for name in ("pyproject.toml", "constraints.txt"):
        (course / name).write_text((ROOT / name).read_text())
    (course / "cluster").symlink_to(ROOT / "cluster")
    write_mutant(course, "squares", {"double-of-others"}, "x * x + x * (x == 1)")
    table = prove_checks.table_of(course, "99_doubling")
    write_mutant(course, "right_after_all", {"double-of-others"}, "x + x")
    table.keep({}, {"solution": {}}, {"solution": {"points": 2, "failed": []}})
    kept = "99_doubling: mutant right_after_all keeps the points of double-of-others"
    assert prove_checks.prove(course, keep=True) == [kept]
    (course / "tests" / "mutants" / "99" / "right_after_all.py").unlink()
    recorded = table.path.read_text()
    assert {name: made["points"] for name, made in json.loads(recorded)["results"].items()} == {
        "solution": 3, "squares": 1, "stub": 0,
    }  # fmt: skip
    table.path.write_text(recorded.replace('"points": 3', '"points": 2'))
    assert prove_checks.prove(course, keep=True) == ["99_doubling: solution has 3 points, recorded are 2"]
    assert table.path.read_text() == recorded.replace('"points": 3', '"points": 2')


def feedback_is_true(assignment, path):
    """Of a graded wrong solution: each visible failure is as it was, no hidden one, and no other belief."""
    graded = nbformat.read(path, as_version=4)
    shown, _ = feedback.HideHiddenTests().preprocess(copy.deepcopy(graded), {})
    for before, after in zip(graded.cells, shown.cells, strict=True):
        if before.metadata.get("hidden_failure"):
            assert [o.ename for o in after.outputs if o.output_type == "error"] == ["HiddenCheck"]
        else:
            assert after.get("outputs") == before.get("outputs"), path
    failed = dict(feedback.failed_checks(shown))
    mutants = explain.mutants_of(ROOT, assignment)
    believes = [mutant.misunderstanding.rstrip(".") for mutant in mutants if mutant.name == path.stem]
    for found in explain.misunderstandings(failed, mutants):  # of the stub and the solution, none at all
        assert (found.told and path.stem != wrong_solutions.STUB) or [found.words] == believes, path
