"""Releases whose checks take points from the solution or give them away, and files beside a notebook."""

import json

import nbformat
import pytest

from cluster.staff import __main__ as staff
from cluster.staff.course import Course, CourseError
from cluster.staff.grading import grade, prove_release
from cluster.staff.release import release
from cluster.staff.results import give

from .. import ROOT
from .classes import FULL, NAME
from .courses import TWIN, add_exchange
from .sample_class import points
from .sandboxes import need

DATA = """
# %% given="data"
import json

factor = json.load(open("data/factor.json"))

# %% given="trial"
def tripled(x):
    return double(x) * json.load(open("data/factor.json")) / 2

"""
READS = """
# %% check="reads" points=1
assert json.load(open("data/factor.json")) == factor == 3 and double(3) == 2 * factor
assert tripled(2) == 6
"""


@pytest.fixture
def course(course):
    need()
    return course


def twin(course):
    return course / "solutions" / NAME / "doubling.py"


def released(course, **more):
    release.release(course, faults=prove_release.faults, **more)


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("double(17) == 34", "double(17) == 35", "double-of-others"),  # a wrong hidden value
        ("assert double(1) == 2", "pass", "double-of-one"),  # the unsolved version passes
        ("# AUTOTEST double(0.1 + 0.2)", "assert double == double", "double-of-others"),
    ],
)
def test_a_release_whose_solution_loses_points_is_refused(course, old, new, check):
    """Is a release refused with the name of the check if its solution loses a point, or the unsolved version
    gets one? Is the previous one kept?"""
    twin(course).write_text(TWIN.replace(old, new))
    with pytest.raises(CourseError, match=check):
        released(course)
    assert not (course / "exercises" / NAME).exists()


@pytest.mark.parametrize("call", ["submit(double, 3).result()", "cluster.submit(double, 3).result()"])
def test_a_check_that_submits_a_job_is_refused(course, call):
    """Is a check that submits a job refused at once, and a mention of this in a text not?"""
    mentions = "expect(1, 1, name='what submit() returns')  # not submit(double)\nassert double(1) == 2"
    twin(course).write_text(TWIN.replace("assert double(1) == 2", mentions))
    assert release.submits(course, NAME) == []
    twin(course).write_text(TWIN.replace("double(1) == 2", call))
    with pytest.raises(CourseError, match="double-of-one"):
        release.release(course)


def test_an_unchanged_release_is_graded_once(course, monkeypatch, capsys):
    """Is a release graded again only if its source, a hidden test or a file changes?"""
    graded, grade_all = [], prove_release.grade_all
    monkeypatch.setattr(prove_release, "grade_all", lambda *a, **k: graded.append(1) or grade_all(*a, **k))
    for _ in range(2):
        released(course)
    assert len(graded) == 1
    twin(course).write_text(TWIN.replace("double(17) == 34", "double(18) == 36"))
    released(course)
    (twin(course).parent / "table.csv").write_text("1")
    released(course)
    assert len(graded) == 3


def test_the_commands_refuse_too(course, tmp_path, monkeypatch, capsys):
    """Do the commands refuse such a release, unless they are told not to grade it?"""
    add_exchange(course, tmp_path / "exchange")
    twin(course).write_text(TWIN.replace("double(17) == 34", "double(17) == 35").replace("AUTOTEST", ""))
    monkeypatch.chdir(course)
    assert staff.main(["release", "99"]) == 1 and "double-of-others" in capsys.readouterr().err
    with pytest.raises(CourseError, match="double-of-others"):
        give.hand_out(Course(course), NAME)
    assert staff.main(["release", "99", "--no-grade"]) == 0


def test_checks_and_provided_cells_read_the_assignments_files(course):
    """Do provided cells, provided functions that use the student's, and checks find the assignment's files
    beside the notebook, and not those that a student submits under the same name?"""
    folder = twin(course).parent / "data"
    folder.mkdir()
    (folder / "factor.json").write_text("3")
    text = TWIN.replace("# %% solution", DATA + "# %% solution") + READS
    twin(course).write_text(text)
    released(course)
    book = nbformat.read(course / "exercises" / NAME / "doubling.ipynb", as_version=4)
    for cell in book.cells:
        if "NotImplementedError" in cell.source:
            cell.source = "def double(x):\n    return 2 * x"
    theirs = Course(course).folder("submitted", "ada", NAME)
    (theirs / "data").mkdir(parents=True)
    (theirs / "data" / "factor.json").write_text(json.dumps(7))
    (theirs / "data" / "other.json").write_text(json.dumps(7))
    (theirs / "doubling.ipynb").write_text(nbformat.writes(book))
    result = grade.grade_class(course, NAME)
    assert result.graded == ["ada"]
    assert points(Course(course), NAME)["ada"] == FULL | {"reads": 1.0}


def test_a_check_is_added_after_grading_only_if_that_is_wanted(many):
    """If a check is added to a graded assignment, does the release name it and what it means, and go on if
    asked to, with all grades kept? Is a check with grades never removed?"""
    many.hand_in("ada")
    many.run()
    script, full = twin(many.root), TWIN + '\n# %% check="of-three" points=1\nassert double(3) == 6\n'
    script.write_text(full)
    with pytest.raises(CourseError, match="of-three") as refused:
        release.release(many.root)
    assert "Traceback" not in str(refused.value) and many.run().unchanged == ["ada"]
    release.release(many.root, add=True)
    assert many.points()["ada"].items() >= FULL.items()
    assert many.run().graded == ["ada"] and set(many.points()["ada"]) == {*FULL, "of-three"}
    script.write_text(TWIN)
    with pytest.raises(CourseError, match="of-three"):
        release.release(many.root, add=True)


def test_feedback_on_an_imported_submission(many, tmp_path):
    """If there is an exchange, is the feedback on submissions that did not come through it written, too?"""
    add_exchange(many.root, tmp_path / "exchange")
    many.hand_in("ada")
    many.run()
    given, failed, notes = give.give_back(Course(many.root), NAME)
    assert (given, failed) == (1, {}) and any("ada" in note for note in notes)
    assert list(many.course.folder("feedback", "ada", NAME).glob("*.html"))


def test_the_example_of_the_readme(course):
    """Is the example in solutions/README.md released, and does only its solution get points?"""
    text = (ROOT / "solutions" / "README.md").read_text()
    example = text.partition("```python\n")[2].partition("```")[0]
    folder = course / "solutions" / "12_centre"
    (folder / "data").mkdir(parents=True)
    (folder / "centre.py").write_text(example)
    (folder / "data" / "heights.csv").write_text("1\n2\n6\n")
    release.release(course, "12", faults=prove_release.faults)
    assert (course / "exercises" / "12_centre" / "data" / "heights.csv").exists()
