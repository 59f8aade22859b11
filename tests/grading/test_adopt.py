"""An assignment of plain nbgrader becomes one of the course."""

import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from cluster.staff import __main__ as staff
from cluster.staff.course import CourseError, assignments
from cluster.staff.grading import prove_release
from cluster.staff.release import adopt, release, student_folder, twins

from .. import ROOT
from ..verify import digests
from .sandboxes import need

SQUARES = """def squares(n):
    ### BEGIN SOLUTION
    return [i**2 for i in range(1, n + 1)]
    ### END SOLUTION"""
FIRST = "from numpy.testing import assert_array_equal\nassert squares(2) == [1, 4]"
CELLS = {  # {grade_id: (text, grade, solution, locked, points)}
    "": ("%matplotlib inline\nimport numpy as np", False, False, False, None),
    "intro": ("# Squares\n\n![](a.png)", False, False, True, None),
    "squares": (SQUARES, False, True, False, None),
    "right": (FIRST, True, False, False, 1),
    "array": ("assert_array_equal(np.array(squares(2)), [1, 4])", True, False, False, 0.5),
    "formula": ("$n^2$", True, True, False, 2),
    "use": ("def cubes(n):\n    return n * squares(n)", True, True, False, 2),
}


def plain(path, version=3, cells=CELLS, **extra):
    """Write an assignment of plain nbgrader, with its metadata in one of its versions; return its path."""
    made = []
    for name, (text, grade, solution, locked, points) in (cells | extra).items():
        cell = (new_markdown_cell if text.startswith(("#", "$")) else new_code_cell)(text)
        cell.metadata = {"collapsed": False}
        if name:
            role = {"grade_id": name, "grade": grade, "solution": solution, "locked": locked}
            role |= {"schema_version": version} | ({"points": points} if grade else {})
            cell.metadata["nbgrader"] = role
        elif version == 1:
            none = {"grade": False, "solution": False, "locked": False}
            cell.metadata["nbgrader"] = {"schema_version": 1} | none
        made.append(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.write_text(nbformat.writes(new_notebook(cells=made, metadata=kernel)))
    return path


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_notebook_of_nbgrader_becomes_an_assignment(course, tmp_path, monkeypatch, capsys, version):
    """Does a notebook, whatever the version of its metadata, become a script with the same cells and roles,
    with the files beside it, and can it be released?"""
    path = plain(tmp_path / "ps1" / "Problem 1.ipynb", version)
    (path.parent / "a.png").write_bytes(b"png")
    monkeypatch.chdir(course)
    assert staff.main(["adopt", str(path)]) == 0
    told = capsys.readouterr().out
    assert "'formula'" in told and "'use'" in told and "'right'" not in told
    script = course / "solutions" / "01_problem_1" / "problem_1.py"
    made = twins.notebook(script)
    assert [cell.source for cell in made.cells] == [text for text, *_ in CELLS.values()]
    for cell in made.cells[1:]:
        role = cell.metadata.nbgrader
        _, grade, solution, _, points = CELLS[role.grade_id]
        assert (role.grade, role.solution, role.get("points")) == (grade, solution, points)
    assert (script.parent / "a.png").read_bytes() == b"png"
    if version == 1:
        need()
        release.release(course, "01", faults=prove_release.faults)
        assert (course / "exercises" / "01_problem_1" / "a.png").exists()
    with pytest.raises(CourseError, match=r"problem_1\.py"):
        adopt.adopt(course, path, "01_problem_1")


def test_what_differs_from_nbgrader_is_told(course, tmp_path):
    """Are a magic, a missing module and a look at the student's code in a check reported with its name?"""
    more = {
        "magic": ("%timeit squares(2)", True, False, True, 1),
        "module": ("from no_such_module.tools import f", True, False, True, 1),
        "source": ("import inspect\nassert 'for' in inspect.getsource(squares)", True, False, True, 1),
    }
    _, notes = adopt.adopt(course, plain(tmp_path / "ps1" / "a.ipynb", **more))
    for name in more:
        assert [note for note in notes if repr(name) in note], name
    assert not [note for note in notes if "'array'" in note]


def test_a_notebook_without_its_script_names_the_remedy(course, tmp_path):
    """Does a command for an assignment whose folder has only a notebook name the command that converts it?
    Does this leave the files where they are?"""
    path = plain(course / "solutions" / "12_own" / "own.ipynb")
    with pytest.raises(CourseError, match=rf"adopt {path}"):
        assignments(course, "12")
    script, _ = adopt.adopt(course, path)
    assert script == path.with_suffix(".py") and assignments(course, "12") == ["12_own"]
    (tmp_path / "bad.ipynb").write_text("{}")
    with pytest.raises(CourseError, match=r"bad\.ipynb"):
        adopt.adopt(course, tmp_path / "bad.ipynb")


def test_two_notebooks_in_an_assignment_are_refused_when_it_is_released(course):
    """Is an assignment with two notebooks refused at once, and not when it is graded?"""
    folder = course / "solutions" / "99_doubling"
    (folder / "second.py").write_text('# %% solution="two"\ntwo = 2\n')
    with pytest.raises(CourseError, match=r"doubling\.ipynb, second\.ipynb"):
        release.release(course)
    assert not (course / "exercises" / "99_doubling").exists()


def test_an_assignment_without_a_lecture(released_course):
    """Can an assignment without a lecture be given to students, and verified?"""
    assert "99_doubling" in student_folder.table_of_assignments(released_course)
    (released_course / "lectures").mkdir(exist_ok=True)
    (released_course / "lectures" / "units.toml").write_text('[01]\nhours = "2"\n')
    assert "99_doubling" in student_folder.table_of_assignments(released_course)
    shutil.copy(ROOT / "constraints.txt", released_course)
    assert any("doubling.py" in name for name in digests(released_course, "99"))
