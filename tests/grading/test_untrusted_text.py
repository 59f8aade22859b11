"""Whatever a student writes stays text: fragments of HTML, TeX and Markdown in any order, and whole pages."""

import base64
import io
import json
import re

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cluster.staff.class_page import submission_page
from cluster.staff.course import SubmissionError
from cluster.staff.results import student_page
from cluster.staff.results.clean import COLOUR, TABLE, clean
from cluster.staff.results.markdown import in_line, markdown

from .. import ALL, formgrader_page, payloads

MANY = settings(max_examples=20_000 if ALL else 200, deadline=None, database=None, derandomize=not ALL)
KINDS = ["text/html", "text/markdown", "text/latex", "text/plain", "image/svg+xml", "image/png", "image/jpeg"]
texts = st.lists(st.sampled_from(payloads.PARTS) | st.text(max_size=3), max_size=30).map("".join)
images = st.dictionaries(
    st.sampled_from(["a.png", "x"]), st.dictionaries(texts, texts, max_size=1), max_size=2
)


def faults(html, kind):
    """Return what is wrong with cleaned HTML: what runs, what looks like the page, and what cleaning would
    change."""
    found = list(payloads.faults(html))
    found += [f"{element} id={name}" for element, name in payloads.attributes(html, "id")]
    found += [
        f"{element} class={name!r}"
        for element, name in payloads.attributes(html, "class")
        if not (name == TABLE if element == "table" else COLOUR[element].fullmatch(name))
    ]
    again, html = (re.sub("<pre>\n+", "<pre>", one) for one in (clean(html, kind), html))  # HTML ignores one
    return found + (["not cleaned last"] if again != html else [])


@pytest.mark.parametrize("text", payloads.ALL.values(), ids=payloads.ALL)
def test_a_payload_is_text(text):
    """Is nothing left of a payload that could run, as Markdown, as a title and as HTML of an output?"""
    for kind, html in (
        ("text", markdown(text, course=False)),
        ("line", in_line(text)),
        ("output", clean(text)),
    ):
        assert faults(html, kind) == []
    assert list(payloads.faults(markdown(text, course=True, boxes=True))) == []


def test_the_search_for_faults_finds_them():
    """Are the payloads in HTML found if nothing cleans them? If not, the other tests would mean nothing."""
    missed = [name for name, text in payloads.HTML.items() if not list(payloads.faults(text))]
    assert missed == ["attribute"], "which only runs on a page that changes cleaned HTML"


@MANY
@given(texts, images)
def test_any_text_is_cleaned(text, attachments):
    """Is nothing left that could run, load or look like the page, in whichever way fragments are combined?"""
    assert faults(markdown(text, attachments, course=False), "text") == []
    assert faults(in_line(text), "line") == []
    assert faults(clean(text), "output") == []


def formgrader(notebook):
    """Return Formgrader's page of a notebook."""
    exporter = student_page.StudentPage("word", config=formgrader_page.config())
    return exporter.from_notebook_node(notebook, resources=dict(formgrader_page.ABOUT))[0]


def own(html):
    """Return what could run in a page besides what its templates bring."""
    return [fault for fault in payloads.faults(html) if "toggle_name" not in fault]


def test_formgraders_page_adds_nothing_of_a_students():
    """Does Formgrader's page of all payloads, in all places of a notebook, have the same scripts as the page
    of an empty one? Does each of them have the nonce?"""
    empty, full = (formgrader(nbformat.v4.new_notebook(cells=cells)) for cells in ([], payloads.cells()))
    assert own(full) == own(empty)
    assert full.count("<script") == full.count('<script nonce="word"') == empty.count("<script") > 5


def about(text):
    """Return metadata of an output in which each place that a page could look at has this text."""
    kinds = dict.fromkeys(("image/png", "image/jpeg", "image/svg+xml", "text/html", "text/markdown"))
    each = {"alt": text, "width": text, "height": text, "unconfined": text, "isolated": text}
    return {kind: each for kind in kinds} | {"filenames": {kind: text for kind in kinds}}


@pytest.fixture(scope="module")
def without():
    """What could run in Formgrader's page of an empty cell."""
    empty = nbformat.v4.new_code_cell("", metadata={"nbgrader": {"grade_id": "x", "solution": True}})
    return own(formgrader(nbformat.v4.new_notebook(cells=[empty])))


@settings(MANY, max_examples=2000 if ALL else 25)
@given(texts, st.sampled_from(KINDS), texts)
def test_any_output_is_cleaned(without, text, kind, name):
    """Does Formgrader's page stay the same apart from text, whatever a cell of a student's prints and is
    called?"""
    cell = nbformat.v4.new_code_cell(text, metadata={"nbgrader": {"grade_id": name, "solution": True}})
    cell.outputs = [
        nbformat.v4.new_output("display_data", {kind: text}, metadata=about(name)),
        nbformat.v4.new_output("stream", name="stdout", text=text),
    ]
    assert own(formgrader(nbformat.v4.new_notebook(cells=[cell]))) == without


def test_the_page_is_rendered_in_another_process(tmp_path):
    """Does the page that Formgrader sends carry the nonce that it was given?"""
    nbformat.write(nbformat.v4.new_notebook(cells=payloads.cells()[:3]), tmp_path / "a.ipynb")
    page = submission_page.SubmissionPage(formgrader_page.config(), tmp_path, "word")
    about = formgrader_page.ABOUT | {"student": "<b>", "last_name": ""}
    html, _ = page.from_filename(str(tmp_path / "a.ipynb"), about)
    assert html.count("<script") == html.count('<script nonce="word"') > 5 and "&lt;b&gt;" in html


HARD = {
    "a sequence of a terminal": ("text/plain", "\x1b[38m and \x1b[48;2m"),
    "a drawing": ("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
    "no image": ("image/png", "x"),
    "no text": ("text/html", ["a"]),
}


@pytest.mark.parametrize("kind, data", HARD.values(), ids=HARD)
def test_a_hard_output_hides_nothing_else(kind, data):
    """Does a page show the other outputs if one cannot be converted?"""
    cell = nbformat.v4.new_code_cell("x = 1")
    for one in ({kind: data}, {"text/plain": "what came later"}):
        cell.outputs.append(nbformat.from_dict({"output_type": "display_data", "data": one, "metadata": {}}))
    html = formgrader(nbformat.v4.new_notebook(cells=[cell]))
    assert "what came later" in html and "<svg" not in html and "image/svg" not in html


@pytest.mark.parametrize("limit", ["MOST", "LARGEST"])
@pytest.mark.parametrize("text", ["$x$ ", "`a` "])
def test_a_page_that_no_browser_can_show_is_refused(monkeypatch, text, limit):
    """Is a page refused that has far more elements or characters than a browser shows?"""
    few, many = (nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text * n)]) for n in (1, 999))
    page = formgrader(few)
    most = {"MOST": page.count("<"), "LARGEST": len(page)}[limit]
    monkeypatch.setattr(student_page, limit, most + 999)
    formgrader(few)
    with pytest.raises(SubmissionError):
        formgrader(many)


def test_names_arrive_in_the_pages_scripts():
    """Does a script of Formgrader's get a name with quotes as it is, without a way out of the string?"""
    name = "o'brien\"</script><script>"
    about = formgrader_page.ABOUT | {"notebook_id": name, "base_url": "/x"}
    exporter = student_page.StudentPage("w", config=formgrader_page.config())
    html, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(), resources=about)
    assert html.count("<script") == formgrader(nbformat.v4.new_notebook()).count("<script")
    [value] = re.findall("var notebook_id = (.*);", html)
    assert json.loads(value.removesuffix(' + ""')) == name and 'var base_url = "/x" + "/formgrader"' in html


@pytest.mark.parametrize("name", ["aligned", "gathered"])
def test_a_formula_that_cannot_be_converted_stays_tex(name):
    """Is TeX shown if the converter does not know an environment?"""
    html = markdown(f"$$\\begin{{{name}}}a &= b\\\\ c &= d\\end{{{name}}}$$")
    assert "<math" not in html and f"begin{{{name}}}" in html


def test_a_picture_of_many_pixels_is_left_out():
    """Is a small file that a browser would need gigabytes for not in the page, and an ordinary one in it?"""
    for side, shown in ((16_000, False), (100, True)):
        file = io.BytesIO()
        Image.new("1", (side, side)).save(file, "PNG")
        data = base64.b64encode(file.getvalue()).decode()
        assert (data in clean(f'<img src="data:image/png;base64,{data}">')) == shown
