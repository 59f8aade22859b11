"""Feedback teaches without revealing hidden tests, and can be read offline."""

import contextlib
import copy
import io
import itertools
import json
import re

import nbformat
import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from cluster.checks import compare
from cluster.pages import regrade_form
from cluster.staff import failures, hidden
from cluster.staff.course import Course, SubmissionError, assignments
from cluster.staff.engine import Check, Verdict
from cluster.staff.engine.outputs import Outputs
from cluster.staff.grading import gradebook
from cluster.staff.hidden import hidden_lines
from cluster.staff.official_check import answers
from cluster.staff.release.wrong_solutions import fill, points
from cluster.staff.results import feedback, markdown, misconceptions
from cluster.staff.results.misconceptions import Failure
from cluster.staff.submissions.prepare import Submission

from .. import ROOT
from .courses import write_mutant


@pytest.mark.notebook
@pytest.mark.parametrize(
    "answer, secret, thinks",
    [("2.0 * min(x, 5)", True, False), ("3 * x", False, True)],
)
def test_feedback_hides_hidden_checks(released_course, answer, secret, thinks):
    """Does the feedback blank the source and failures of hidden tests, and keep points and visible
    failures?"""
    course = released_course
    write_mutant(course, "at_most_five", {"double-of-others"}, "2.0 * min(x, 5)")
    write_mutant(course, "thrice", {"double-of-one", "double-of-others"}, "3 * x")
    source = nbformat.read(course / "solutions/99_doubling/doubling.ipynb", as_version=4)
    book = fill(
        nbformat.read(course / "exercises/99_doubling/doubling.ipynb", 4),
        source,
        {"double": f"return {answer}"},
    )
    graded = Course(course)
    folder = graded.folder("submitted", "student", "99_doubling")
    folder.mkdir(parents=True)
    nbformat.write(book, folder / "doubling.ipynb")
    graded.autograde("99_doubling", "student")
    points = graded.scores("99_doubling", "student")
    assert points["double-of-others"] == (0, 2)
    (page,) = graded.feedback("99_doubling", "student")
    text = page.read_text()
    assert "HIDDEN TESTS" not in text and ">17<" not in text and ">34<" not in text
    assert feedback.INSTEAD in text
    assert (hidden.FAILED in text) == secret
    assert "thrice" not in text and "at_most_five" not in text
    assert '<a href="#Doubling">“Doubling” above</a>' in text and 'id="Doubling"' in text
    row = re.search(r'<a href="#double-of-others">Other numbers</a>.*?</tr>', text, re.DOTALL).group()
    assert "0 of 2" in row and f"{0 if thinks else 1} of 3 points</title>" in text
    assert "✗ Other numbers" in text and 'id="double-of-others"' in text
    check = re.search(
        r'<details class="check \w+" id="double-of-others".*?</details>', text, re.DOTALL
    ).group()
    positions = [check.find(part) for part in ('<pre class="error">', "Read again:", feedback.INSTEAD)]
    assert positions == sorted(positions) and positions[0] > 0, "the error comes first"
    assert 'output_error">' not in text and "…" in check and not re.search(r"[\w+/=]{24,}", check)
    assert "<script" not in text.lower() and "Content-Security-Policy" in text
    assert not re.search(r"(src|href)=.https?:", text)
    instructors = nbformat.read(graded.folder("autograded", "student", "99_doubling") / "doubling.ipynb", 4)
    assert any("double(17) == 34" in cell.source for cell in instructors.cells)


def test_a_table_in_an_output_is_a_table():
    """Does a data frame appear as a table with header and rows, without its style sheet as text? Are scripts
    and event handlers removed from outputs?"""
    clean = feedback.Feedback().environment.filters["clean_html"]
    text = clean(pd.DataFrame({"loss": [0.5]}, index=["first"])._repr_html_())
    assert all(part in text for part in ("<thead>", "<th>loss</th>", "<th>first</th>", "<td>0.5</td>"))
    assert "&lt;" not in text and "vertical-align" not in text
    odd = '<b onclick="x()">a</b><img src=x onerror=x()><a href="javascript:x()">b</a><script>x()</script>'
    assert clean(odd) == "<b>a</b><img><a>b</a>"
    lines = clean('<div class="highlight"><pre><span class="k">if</span> a &lt; b</pre></div>')
    assert lines == '<div class="highlight"><pre><span class="k">if</span> a &lt; b</pre></div>'


def test_a_check_is_called_by_what_it_asks():
    """Is a check's title the first line of its docstring, without the points? Without a docstring, is it the
    check's name?"""
    for source, role, text in [
        ('"""Rows of `x` (2.5 points)."""\nassert x', {"grade": True}, "Rows of `x`"),
        ("%timeit x", {"grade": True}, "rows"),
        ('"""Mine."""', {"grade": True, "solution": True}, "Written answer"),
        ("", {"solution": True}, "Your answer"),
    ]:
        cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": role | {"grade_id": "rows"}})
        assert feedback.title(cell) == text


def test_a_students_heading_is_not_taken_for_the_title():
    """Is the page's title taken from the course's cell, even if a student's heading is above it? Does that
    heading stay?"""
    cells = [nbformat.v4.new_markdown_cell(text) for text in ("# Mine", "# Doubling\n\nText.")]
    cells[1].metadata["course"] = True
    resources = {"nbgrader": {"assignment": "99_doubling"}}
    notebook, _ = feedback.Contents().preprocess(nbformat.v4.new_notebook(cells=cells), resources)
    assert resources["nbgrader"]["title"] == "Doubling"
    assert [cell.source for cell in notebook.cells] == ["# Mine", "Text."]


def test_a_hidden_failure_shows_nothing_of_itself():
    """Does the feedback hide both the output and the error of a hidden failure? The error may contain a value
    that was passed to the student's code."""
    source = "### BEGIN HIDDEN TESTS\nassert double(17) == 34\n### END HIDDEN TESTS"
    cell = nbformat.v4.new_code_cell(source, metadata={"hidden_failure": True})
    new = nbformat.v4.new_output
    cell.outputs = [
        new("stream", name="stdout", text="17"),
        new("error", ename="E", evalue="17", traceback=["17"]),
    ]
    shown, _ = feedback.HideHiddenTests().preprocess_cell(cell, {}, 0)
    assert "17" not in str(shown.outputs) and [one.ename for one in shown.outputs] == ["HiddenCheck"]


def failing(source, message, **metadata):
    """Return a check that has failed with this message, as in a graded notebook."""
    error = f"AssertionError: {message}"
    output = nbformat.v4.new_output("error", ename="AssertionError", evalue=message, traceback=[error])
    role = {"grade": True, "solution": False, "locked": True, "grade_id": "it"}
    cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": role} | metadata)
    cell.outputs = [output]
    return cell


def in_feedback(cell):
    """Return a cell as Formgrader shows it, and the same cell as the feedback shows it."""
    cell = gradebook.wrapped(nbformat.v4.new_notebook(cells=[cell])).cells[0]
    return cell, feedback.HideHiddenTests().preprocess_cell(copy.deepcopy(cell), {}, 0)[0]


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_a_visible_failure_survives_whatever_it_says(assignment):
    """Is a visible error kept even if it quotes a hidden line or contains an unmatched bracket? Is every
    hidden error replaced?"""
    forms = itertools.cycle(["{}", "your code says '{}'", "first\n{}\nlast ) "])
    tried = 0
    for check in misconceptions.source_of(ROOT, assignment).cells:
        lines = zip(check.source.split("\n"), hidden_lines(check.source), strict=True)
        for line in sorted({text.strip() for text, secret in lines if secret} - {""}):
            message = next(forms).format(line)
            cell, shown = in_feedback(failing(check.source, message))
            assert shown.outputs == cell.outputs
            _, shown = in_feedback(failing(check.source, message, hidden_failure=True))
            assert [output.ename for output in shown.outputs] == ["HiddenCheck"]
            assert "HIDDEN TESTS" not in str(shown)
            tried += 1
    assert tried > 16


@pytest.mark.parametrize("answer", [{1: 2}, {1: 3, 17: 34}, {1: 2, 17: 35, 5: 10}, {1: 2, 17: 34, 5: 9}])
def test_a_notebook_that_was_run_again_hides_by_the_line(answer):
    """If an error comes from a run in Jupyter, does the feedback hide it exactly if the failing line is
    hidden? Does it leave out the lines around the failing line?"""
    cell = failing(
        "assert double(1) == 2, ')'\n### BEGIN HIDDEN TESTS\nassert double(17) == 34, (\n    'b'\n)\n"
        "### END HIDDEN TESTS\nassert double(5) == 10, ')'",
        "",
    )
    shell = InteractiveShell.instance()
    shell.user_ns["double"] = answer.get
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        error = shell.run_cell(cell.source).error_in_exec
    assert isinstance(error, AssertionError) and "----> " in printed.getvalue()
    traceback = printed.getvalue().split("\n")
    cell.outputs = [
        nbformat.v4.new_output("error", ename="AssertionError", evalue=str(error), traceback=traceback)
    ]
    shown, _ = feedback.HideHiddenTests().preprocess_cell(cell, {}, 0)
    hidden = answer.get(1) == 2 and answer.get(17) != 34
    assert shown.outputs[0].ename == ("HiddenCheck" if hidden else "AssertionError")
    assert "17" not in str(shown.outputs) and "HIDDEN TESTS" not in str(shown)


ENDS = {  # how a hidden test can fail: the error, its kind, and other facts of the verdict
    "wrong value": ("AssertionError: it is 35. Likely: it was added", failures.VALUE, {}),
    "wrong form": ("AssertionError: its shape is (17,)", failures.FORM, {}),
    "error": ("ValueError: 17", failures.CRASH, {}),
    "many lines": ("ValueError: " + "17\n" * 40, failures.CRASH, {}),
    "no text": ("ValueError: ", failures.CRASH, {}),
    "says it is empty": ("NotImplementedError: ", failures.EMPTY, {}),
    "time limit": (
        "TimeLimit: the check took longer than 180 s", failures.LIMIT,
        {"slow": ["check double-of-others reached its limit of 180 s"]},
    ),
    "no answer": ("NoAnswer: your notebook's process ended", failures.LIMIT, {}),
    "no call": ("AssertionError: no", failures.VALUE, {"called": False}),
    "prints": ("AssertionError: no", failures.VALUE, {"printed": "17"}),
    "strange characters": ("ValueError: \ufffd", failures.CRASH, {"output_replaced": True}),
    "not reached": (
        "NotGraded: grading took longer than 300 s, the limit for a submission; before that check x",
        failures.LIMIT, {"hidden": False},
    ),
    "slow": ("AssertionError: no", failures.VALUE, {"seconds": 170.0}),
}  # fmt: skip


def failed_hidden(released, end):
    """Return a verdict on a submission whose hidden test `double-of-others` has ended so."""
    error, kind, more = end
    book = nbformat.read(released / "solutions" / "99_doubling" / "doubling.ipynb", as_version=4)
    checks = {}
    for cell in (one for one in book.cells if one.metadata.get("nbgrader", {}).get("grade")):
        name, most = cell.metadata.nbgrader.grade_id, float(cell.metadata.nbgrader.points)
        checks[name] = {
            "score": most,
            "max_score": most,
            "error": "",
            "hidden": False,
            "seconds": 0.1,
            "kind": "",
        }
        cell.outputs = []
        if name == "double-of-others":
            secret = more.get("hidden", True)
            seconds = more.get("seconds", 0.1)
            checks[name] |= {"score": 0.0, "error": error, "kind": kind, "hidden": secret, "seconds": seconds}
            cell.outputs = Outputs(10**6).of_check(more.get("printed", ""), error)
            cell.metadata["failure"] = {"kind": kind, "called": more.get("called", True)}
            cell.metadata |= {"hidden_failure": True} if secret else {}
    facts = {name: more[name] for name in ("slow", "output_replaced") if name in more}
    return {"outcome": "graded", "checks": checks, "notebook": book, "seconds": sum(map(len, end))} | facts


def test_all_failures_of_hidden_tests_look_the_same(released, tmp_path):
    """Whatever a hidden test ends with, are the page's data and the answer of the official check the same?
    Does the graded notebook, for instructors, keep the error?"""
    course = Course(released)
    pages, official = {}, {}
    for name, end in ENDS.items():
        verdict = failed_hidden(released, end)
        notebook = gradebook.graded(Submission("ada", tmp_path, "doubling"), verdict)
        assert end[0].partition(": ")[0] in str(notebook), name
        resources = {"nbgrader": {"assignment": "99_doubling", "notebook": "doubling", "student": "ada"}}
        for cell in notebook.cells:  # as `Marks` does
            if (role := cell.metadata.get("nbgrader", {})).get("grade"):
                role.update(score=verdict["checks"][role.grade_id]["score"], waiting=False)
        feedback.mark_course(notebook, released, "99_doubling")
        for step in (feedback.HideHiddenTests, feedback.Contents, feedback.Explain):
            notebook, resources = step(config=course.config).preprocess(notebook, resources)
        for cell in notebook.cells:
            cell.metadata.pop("hidden_failure", None)  # no template prints it
        pages[name] = str((notebook, resources))
        checks = {check: Check(**facts) for check, facts in verdict["checks"].items()}
        graded = Verdict("graded", checks=checks, notebook=verdict["notebook"])
        official[name] = json.dumps(answers.answer(graded))
    assert len(set(pages.values())) == 1, [name for name in pages if pages[name] != pages["wrong value"]]
    assert len(set(official.values())) == 1, official
    assert "17" not in pages["wrong value"] and hidden.FAILED in pages["wrong value"]
    assert hidden.FAILED in official["wrong value"]


@pytest.mark.parametrize("kind", ["code", "markdown"])
@pytest.mark.parametrize("begin", ["### BEGIN HIDDEN TESTS ", "#BEGIN HIDDEN TESTS", "BEGIN HIDDEN TESTS: b"])
def test_a_hidden_region_is_what_nbgrader_takes_for_one(begin, kind):
    """Does the feedback blank exactly the lines that the release lacks, in every form of nbgrader's mark?"""
    source = f"assert double(1) == 2\n{begin}\nassert double(17) == 34\n  # END HIDDEN TESTS\n"
    cell = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}[kind](source)
    shown, _ = feedback.HideHiddenTests().preprocess_cell(cell, {}, 0)
    assert shown.source == f"assert double(1) == 2\n{feedback.INSTEAD}\n"


FIRST, THIRD = "01_convolution_as_gemm", "03_from_lenet_to_resnet"
VALUE = "AssertionError: dw has 3 of 9 values wrong, the first at [0, 0], where it is 1.0."
LIKELY = VALUE + " Likely: db was averaged over all windows; the loss is a sum."
FILTERS, BIAS = "filter-gradient", "bias-gradient"


def explained(assignment, errors, hidden=()):
    """Return {check: its explanation} for failed checks {check: error}."""
    failed = {name: Failure.from_error(error, hidden=name in hidden) for name, error in errors.items()}
    return {name: misconceptions.explain(ROOT, assignment, name, failed) for name in failed}


def test_a_pattern_of_failed_checks_is_not_diagnosed():
    """If checks fail as with exactly one mutant, does the explanation name the lecture's section, but not
    this mutant's misconception?"""
    wrong = {m.name: m for m in misconceptions.mutants_of(ROOT, THIRD)}["relu_before_the_block"]
    failed = {name: Failure.from_error(VALUE) for name in wrong.fails}
    assert misconceptions.find(failed, misconceptions.mutants_of(ROOT, THIRD)) == []
    result = explained(THIRD, dict.fromkeys(wrong.fails, VALUE), hidden={"block-changes-shape"})
    assert all("lecture 03, section “3.8" in phrase for phrase in result.values())
    assert "1.5" in explained(FIRST, {"bias-gradient": "NotImplementedError: "})["bias-gradient"]


def test_what_a_check_has_recognised_is_found():
    """Is a misconception that a check recognises reported once, together with the other failed checks of its
    mutant?"""
    failed = {FILTERS: Failure.from_error(VALUE), BIAS: Failure.from_error(LIKELY)}
    [found] = misconceptions.find(failed, misconceptions.mutants_of(ROOT, FIRST))
    assert f" Likely: {found.words}." in LIKELY and BIAS in found.checks


@pytest.mark.parametrize(
    ("got", "want", "kind"),
    [
        (1, 2, "value"),
        ([1, 2.5], [1, 3.5], "value"),
        (np.ones(3), np.zeros(3), "value"),
        ({1}, {2}, "value"),
        (1.0, 1, "form"),
        (None, 1, "form"),
        (np.ones(3, np.float32), np.ones(3), "form"),
        (np.ones(3), np.ones((3, 1)), "form"),
        ([1, 2], [1], "form"),
        ([1, np.ones(2)], [1, np.ones(3)], "form"),
        ({"a": 1}, {"b": 1}, "form"),
        ({1, 2}, {1}, "form"),
    ],
)
def test_a_wrong_value_is_told_from_a_wrong_form(got, want, kind):
    """Can the kind of failure (wrong value or wrong form) be derived from the message of `expect`, for every
    type that it compares?"""
    with pytest.raises(AssertionError) as raised:
        compare.expect(got, want, name="y")
    assert failures.kind(f"AssertionError: {raised.value}") == kind
    assert failures.kind(f"AssertionError: {raised.value}", students=True) == "crash"


@pytest.mark.parametrize("error, kind", [("NotImplementedError", "empty"), ("ZeroDivisionError", "crash")])
@pytest.mark.parametrize("text", ["5 numbers on 3 ranks: rank 0: {} in f()", "rank 1 ended with {} in f():"])
def test_what_a_rank_ended_with_is_no_wrong_value(text, error, kind):
    """If a check's AssertionError quotes an error from a rank, is the failure of the same kind as in a single
    process?"""
    assert failures.kind(f"AssertionError: {text.format(error)}") == kind


def test_a_hash_says_that_a_float_has_the_wrong_form():
    """If a hashed check gets a float instead of an exact value, is this distinguished from a wrong number?"""
    for got, kind in ((4.0, "form"), ([1, 2.0], "form"), (5, "value")):
        with pytest.raises(AssertionError) as raised:
            compare.autotest(got).hashed("salt").matches("0" * 40, "f(1)")
        assert failures.kind(f"AssertionError: {raised.value}") == kind


@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_places_exist(assignment):
    """Does the feedback on each check refer to a section of its notebook, and each `see` to an existing
    section of a lecture?"""
    source = misconceptions.source_of(ROOT, assignment)
    if source is None:
        pytest.skip("its notebook has not been made yet")
    for check in points(source):
        assert "above" in misconceptions.where(ROOT, assignment, check)


@pytest.mark.parametrize(
    ("message", "html"),
    [
        ("Rows of `x`, *and* columns", "Rows of <code>x</code>, <em>and</em> columns"),
        ("**Bold** with [a link](http://a/b)", "<strong>Bold</strong> with a link"),
        ("1. first & <script>x</script>", "1. first &amp; &lt;script&gt;x&lt;/script&gt;"),
        ("N * H_out * W_out < 3 · 4", "N * H_out * W_out &lt; 3 · 4"),
        ("⟨im2col(x), c⟩ = ⟨x, col2im(c)⟩", "⟨im2col(x), c⟩ = ⟨x, col2im(c)⟩"),
    ],
)
def test_a_title_is_one_line_of_html(message, html):
    """Is a title rendered with its emphasis, on one line, and without links, lists or injected tags?"""
    assert markdown.in_line(message) == html
    assert "<math" in markdown.in_line("$\\frac{1}{p}$ *of* it") and "<em>of</em>" in markdown.in_line(
        "$a$ *of*"
    )


def test_markdown_is_cleaned_and_formulas_can_be_read():
    """Are scripts and external images removed, and is TeX converted to MathML, except inside code?"""
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


# --- what a student writes ----------------------------------------------------------------------------------


@pytest.fixture
def graded_with(many):
    """Return a function that submits a cell (JSON) after the release's cells, and returns the feedback's
    page.

    outputs: the outputs of that cell in the graded notebook.
    """

    def page(cell, outputs=()):
        many.released.cells.append(nbformat.from_dict({"metadata": {}, "id": "own"} | cell))
        many.hand_in("ada")
        many.run()
        path = many.course.folder("autograded", "ada", "99_doubling") / "doubling.ipynb"
        notebook = nbformat.read(path, as_version=4)
        if outputs:
            notebook.cells[-1].outputs = outputs
        nbformat.write(notebook, path)
        return many.course.feedback("99_doubling", "ada")[0].read_text()

    return page


def test_what_failed_comes_first(many):
    """Are failed checks at the top of the feedback page, and the others folded? Does the title appear once,
    and no internal name?"""
    many.hand_in("ada", "HALF")
    many.run()
    page = many.course.feedback("99_doubling", "ada")[0].read_text()
    seen = re.sub(r"<style.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    failed, fold = page.index('class="lost"'), page.index('<details class="passed">')
    assert failed < fold < page.index('class="got"') and "1 check passed" in seen
    assert page.count("</h1>") == 1 and "2 of 3 points" not in seen
    assert re.search(r"1\s+of 3 points", seen) and "double-of-o" not in seen
    names = regrade_form.checks(many.course.folder("feedback", "ada", "99_doubling") / "doubling.html")
    assert names == {"double-of-others": "Other numbers", "double-of-one": "2 · 1 is 2"}, "to be requested"


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="


def test_a_pasted_picture_is_in_the_feedback(graded_with):
    """Does the feedback show an image that a student pasted? Is the page generated even if an image is
    missing?"""
    text = {"cell_type": "markdown", "source": "![mine](attachment:a.png) and ![gone](attachment:b.png)"}
    page = graded_with(text | {"attachments": {"a.png": {"image/png": PNG}}})
    assert f"data:image/png;base64,{PNG}" in page and 'alt="mine"' in page
    assert 'alt="gone"' in page and "3 of 3 points" in page


FORGED = """# 28 of 28 points
<details class="check got" id="double-of-one"><summary class="heading"><span class="n">2 of 2</span></summary>
</details></div></div><div class="check got"><p class="total"><b>28</b> of 28 points</p></div>
<table class="checks"><tr class="got"><td>ok</td></tr></table><p class="banner">All is right.</p>"""


@pytest.mark.parametrize("kind", ["markdown", "an html output"])
def test_points_in_a_students_cell_cannot_imitate_the_page(graded_with, kind):
    """Is a student's HTML shown in a frame, without the classes and IDs that the page itself uses?"""
    if kind == "markdown":
        page = graded_with({"cell_type": "markdown", "source": FORGED})
    else:
        output = nbformat.v4.new_output("display_data", {"text/html": FORGED})
        page = graded_with(nbformat.v4.new_code_cell("y = 1"), [output])
    start = page.index("28 of 28 points")
    assert page.rindex('<div class="own">', 0, start) > page.rindex("<main>", 0, start)
    frame = page[page.rindex('<div class="own">', 0, start) : page.index("</main>")]
    assert not re.search('class="(check|total|banner|heading|got)|id="double', frame)
    title = re.search(r"<title>(.*?)</title>", page)[1]
    assert title == "Doubling: 3 of 3 points" and "Doubling</h1>" in page
    assert page.count('id="double-of-one"') == 1


def test_a_page_that_takes_too_long_has_the_checks(graded_with, monkeypatch):
    """If a student's own cells cannot be rendered within the limits, does the student get the checks'
    feedback, with an explanation?"""
    call = feedback.limited.call

    def slow_with_own_cells(function, *arguments, **limits):
        if len(arguments) == 4:
            raise SubmissionError("is slow")
        return call(function, *arguments, **limits)

    monkeypatch.setattr(feedback.limited, "call", slow_with_own_cells)
    page = graded_with({"cell_type": "markdown", "source": "my own words"})
    assert "is slow" in page and "my own words" not in page
    assert "3 of 3 points" in page and 'id="double-of-one"' in page
