"""Does the feedback teach without giving the hidden checks away?"""

import nbformat
import pytest

from cluster.grading.course import Course
from cluster.grading.mutants import fill
from cluster.grading.release import release


@pytest.mark.notebook
@pytest.mark.parametrize("answer, failed", [("return 2 * x", False), ("return 2.0 * min(x, 5)", True)])
def test_feedback_hides_hidden_checks(course, answer, failed):
    """Are source and failures of hidden checks blanked, while points and visible checks stay?"""
    release(course)
    source = nbformat.read(course / "solutions/99_doubling/doubling.ipynb", as_version=4)
    book = fill(nbformat.read(course / "exercises/99_doubling/doubling.ipynb", 4), source, {"double": answer})
    graded = Course(course)
    folder = graded.folder("submitted", "student", "99_doubling")
    folder.mkdir(parents=True)
    nbformat.write(book, folder / "doubling.ipynb")
    graded.autograde("99_doubling", "student")
    points = graded.scores("99_doubling", "student")
    assert points["double-of-others"] == ((0, 2) if failed else (2, 2))
    (page,) = graded.feedback("99_doubling", "student")
    text = page.read_text()
    assert "HIDDEN TESTS" not in text and ">17<" not in text and ">34<" not in text
    assert "(hidden checks)" in text
    assert ("A hidden check failed" in text) == failed
    instructors = nbformat.read(graded.folder("autograded", "student", "99_doubling") / "doubling.ipynb", 4)
    assert any("double(17) == 34" in cell.source for cell in instructors.cells)
