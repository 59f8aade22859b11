"""The table of mutants: it must itself be able to fail."""

import nbformat
import pytest
from conftest import ROOT, TWIN, write_mutant

from cluster.grading import mutants
from cluster.grading.course import assignments
from cluster.grading.twins import notebook


def run(course, only=None):
    return mutants.run(course, "99", only)


def test_caught_mutants_stub_and_solution(course, capsys):
    """Are right checks reported as right, and does a warning on stderr cost the solution nothing?"""
    write_mutant(course, "squares", {"double-of-others"}, "x * x + x * (x == 1)")
    write_mutant(course, "memorised", {"double-of-others"}, "2 if x == 1 else 0.6")
    assert run(course) == []
    said = capsys.readouterr().out
    for name, points in [
        ("stub", "0 / 3"),
        ("solution", "3 / 3"),
        ("squares", "1 / 3"),
        ("memorised", "1 / 3"),
    ]:
        line = next(line for line in said.splitlines() if line.split()[:1] == [name])
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
    lucky = mutants.load(path, source)
    assert mutants.defects(lucky, mutants.verdict(lucky, lost, mutants.points(source))) == []
    assert "also loses double-of-others" in capsys.readouterr().out


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
    with pytest.raises(mutants.MutantError, match=f"broken.py.*{words}"):
        mutants.load(path, source)


def test_fill_keeps_everything_but_the_hole(course):
    """Does an answer stand in the hole, indented, with the given lines around it?"""
    source = notebook(course / "solutions" / "99_doubling" / "doubling.py")
    cell = mutants.cells_of(source, "solution")["double"]
    text = mutants.refill(cell.source, "\nif x:\n    return 3 * x\nreturn 0\n")
    assert text == 'def double(x):\n    """Twice x."""\n    if x:\n        return 3 * x\n    return 0'
    assert mutants.refill(cell.source) == (
        'def double(x):\n    """Twice x."""\n    twice_the_number = 2 * x\n    return twice_the_number'
    )


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_every_assignment_has_five_mutants(assignment):
    """Are there at least five wrong solutions, all well formed, and has each check one that it catches?"""
    source = nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)
    table = mutants.load_all(ROOT, assignment, source)
    assert len(table) >= 5
    uncaught = set(mutants.points(source)) - set().union(*(mutant.fails for mutant in table))
    assert uncaught <= {"recorded-run"}, f"no mutant fails {sorted(uncaught)}"


@pytest.mark.notebook
@pytest.mark.ranks
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_all_mutants_are_caught(assignment):
    """Does each wrong solution in tests/mutants lose what it should, the stub all, the solution nothing?"""
    assert mutants.run(ROOT, assignment) == []
