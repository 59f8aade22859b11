"""Does the feedback teach without giving the hidden checks away, and without a network?"""

import re

import nbformat
import pytest
from conftest import ROOT, write_mutant

from cluster.grading import explain, feedback, markdown
from cluster.grading.course import Course, assignments
from cluster.grading.mutants import fill
from cluster.grading.release import release


@pytest.mark.notebook
@pytest.mark.parametrize("answer, failed", [("return 2 * x", False), ("return 2.0 * min(x, 5)", True)])
def test_feedback_hides_hidden_checks(course, answer, failed):
    """Are source and failures of hidden checks blanked, while points and visible checks stay?"""
    write_mutant(course, "at_most_five", {"double-of-others"}, "2.0 * min(x, 5)")
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
    assert ("Perhaps you think:" in text and "at_most_five" in text) == failed
    assert ('<a href="#Doubling">“Doubling” above</a>' in text) == failed
    assert 'id="Doubling"' in text
    got = ("✗", "0 of 2", "1 of 3") if failed else ("✓", "2 of 2", "3 of 3")
    row = re.search(r'<a href="#double-of-others">Other numbers</a>.*?</tr>', text, re.DOTALL).group()
    assert got[1] in row and f"{got[2]} points</title>" in text and "Test cell" not in text
    assert f"{got[0]} Other numbers" in text and 'id="double-of-others"' in text
    assert "<script" not in text.lower() and "Content-Security-Policy" in text
    assert not re.search(r"(src|href)=.https?:", text)
    instructors = nbformat.read(graded.folder("autograded", "student", "99_doubling") / "doubling.ipynb", 4)
    assert any("double(17) == 34" in cell.source for cell in instructors.cells)


def test_a_check_is_called_by_what_it_asks():
    """Is it the first line of its docstring without points, else its name, whatever the cell holds?"""
    for source, role, words in [
        ('"""Rows of `x` (2.5 points)."""\nassert x', {"grade": True}, "Rows of x"),
        ("%timeit x", {"grade": True}, "rows"),
        ('"""Mine."""', {"grade": True, "solution": True}, "Written answer"),
        ("", {"solution": True}, "Your answer"),
    ]:
        cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": role | {"grade_id": "rows"}})
        assert feedback.title(cell) == words


def test_a_hidden_failure_shows_nothing_of_itself():
    """Neither its error, which may hold a value the student's code was given, nor what was printed?"""
    source = "### BEGIN HIDDEN TESTS\nassert double(17) == 34\n### END HIDDEN TESTS"
    cell = nbformat.v4.new_code_cell(source, metadata={"hidden_failure": True})
    new = nbformat.v4.new_output
    cell.outputs = [
        new("stream", name="stdout", text="17"),
        new("error", ename="E", evalue="17", traceback=["17"]),
    ]
    shown, _ = feedback.HideHiddenTests().preprocess_cell(cell, {}, 0)
    assert "17" not in str(shown.outputs) and shown.outputs[1].ename == "HiddenCheck"


def test_what_fits_best_is_said():
    """Is it the mutant that explains most of the failed checks, and nothing where too many fit?"""
    name = "01_convolution_as_gemm"
    mutants = {m.name: m for m in explain.mutants_of(ROOT, name)}
    wrong = mutants["dw_averaged_over_batch"]
    found = explain.likely(ROOT, name, "bias-gradient", frozenset(wrong.fails))
    assert [m.name for m in found] == ["dw_averaged_over_batch"]
    said = explain.explain(ROOT, name, "bias-gradient", frozenset(wrong.fails), "HiddenCheck: …")
    assert wrong.misunderstanding in said and "lecture 01, section “1.5 Backward" in said
    assert "1.5" in explain.explain(ROOT, name, "bias-gradient", frozenset(), "NotImplementedError: ")
    every = frozenset().union(*(m.fails for m in mutants.values()))
    assert explain.likely(ROOT, name, "forward-is-a-gemm", every) == [mutants["windows_column_by_column"]]
    assert "Perhaps" not in explain.explain(ROOT, name, "bias-gradient", every, "TimeLimit: it took long")


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_places_exist(assignment):
    """Does each check lead to a section of its notebook, and each `see` to one of a lecture?"""
    source = explain.source_of(ROOT, assignment)
    if source is None:
        pytest.skip("its notebook has not been made yet")
    for cell in source.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            assert "above" in explain.where(ROOT, assignment, cell.metadata.nbgrader.grade_id)


def test_markdown_is_cleaned_and_formulas_can_be_read():
    """No script, no picture from elsewhere, TeX as MathML but not inside code?"""
    text = "# a\n\n<script>x</script><img src='http://a/b.png' onerror='y'> $\\frac{1}{p}$ and `$HOME`\n"
    html = markdown.markdown(text + "\n$$\n\\sum_i a_i < b\n$$\n\n| a |\n|---|\n| 1 |\n")
    assert (
        "<script" not in html
        and "http" not in html.replace("http://www.w3.org", "")
        and "onerror" not in html
    )
    table = markdown.markdown("| a | b |\n|---|--:|\n| 1 | 2 |\n")
    assert '<td align="right">2' in table and "style" not in table
    assert html.count("<math") == 2 and "<mfrac>" in html and "$HOME" in html and "<table class=" in html
