"""Do a student's texts run anything in the browser of whoever reads them? Formgrader, feedback, class page,
similarity."""

import contextlib
import datetime
import json
import re

import nbformat
import pytest

from cluster.staff.results.student_page import StudentPage

from .. import ALL, formgrader_page, payloads
from ..browser import browser, needs_browser
from . import classes

pytestmark = [pytest.mark.servers, needs_browser]

NAME = classes.NAME
NAMED = "HTML: image"  # as the student's name
POLICY = "cluster.staff.class_page.formgrader_policy"
SUBMISSION = "formgrader/submissions/{}/"
PAGES = [
    "course/class",
    f"course/class/assignment?of={NAME}",
    f"course/class/similar?of={NAME}",
    SUBMISSION,
    "formgrader/manage_assignments",
    f"formgrader/manage_submissions/{NAME}",
    "formgrader/manage_students",
    "formgrader/manage_students/eve",
    f"formgrader/manage_students/eve/{NAME}",
    "formgrader/gradebook",
    f"formgrader/gradebook/{NAME}",
    f"formgrader/gradebook/{NAME}/doubling",
]
# What a reader may do: move over everything, focus it, press it, and submit forms.
TOUCH = """() => {
  for (const one of document.querySelectorAll("body *")) {
    for (const kind of ["pointerover", "mouseover", "focus"]) one.dispatchEvent(new Event(kind));
    const to = one.href?.baseVal ?? one.href ?? one.getAttribute("action") ?? "";
    if (!/^(javascript|data):/i.test(to)) continue;
    if (one.submit) one.submit();
    else one.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
  }
}"""


@contextlib.contextmanager
def reader(server=None):
    """Yield (page, the numbers of payloads that ran) of a browser that is logged in to a server."""
    ran = set()
    with classes.logged_in(server) if server else browser() as page:
        page.expose_function("ran", lambda number: ran.add(number))  # in frames, too
        page.on("dialog", lambda dialog: ran.add(dialog.message))
        yield page, ran


def touch(page):
    """Do what a reader may do, once the page has settled."""
    page.wait_for_load_state("networkidle")
    page.evaluate(TOUCH)
    page.wait_for_timeout(300)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with the graded submission of a student whose name, texts, code and outputs are payloads."""
    from cluster.staff.__main__ import main
    from cluster.staff.course import opened
    from cluster.staff.grading import gradebook
    from cluster.staff.submissions.prepare import Source

    folder = tmp_path_factory.mktemp("hostile")
    course = classes.make_class(folder)
    root, notebook, when = course.root, classes.released(course), datetime.datetime(2026, 1, 2, 12)
    [hole] = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    comments = "\n".join(f"# {text}" for text in " \n".join(payloads.numbered().values()).split("\n"))
    steps = "".join(f"    if x % {i} == {i // 2}:\n        return x // {i} - {i} * x\n" for i in range(3, 30))
    hole.source = f"{comments}\ndef double(x):\n{steps}"
    notebook.cells += payloads.cells()
    for student in ("ada", "eve"):
        classes.collected(course, student, notebook, when)
    graded = course.folder("autograded", "eve", NAME)
    graded.mkdir(parents=True)
    nbformat.write(notebook, graded / "doubling.ipynb")
    source = Source.from_gradebook(course.coursedir, NAME)
    name = payloads.ALL[NAMED].replace("RUN", "ran(99)")
    with opened(course) as book:
        book.add_student("eve", first_name=name, last_name=name)
        gradebook.record(book, source, "eve", source.points, notebook, when=when)
        number = book.find_submission_notebook("doubling", NAME, "eve").id
    requests = {f"{NAME}+1+double-of-one": {"reason": name, "at": 1_790_000_000.0}}
    (root / ".grading/requests").mkdir()
    (root / ".grading/requests/eve.json").write_text(json.dumps(requests))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert main(["similar", "99"]) == 0
    course.feedback(NAME, "eve")
    return folder, root, number


@pytest.fixture(scope="module")
def graders(course):
    """The grader's server, with the class page."""
    folder, root, _ = course
    with classes.graders_server(root, folder / "home") as server:
        yield server


@pytest.mark.skipif(not ALL, reason="judges the other tests: make test-all (CLUSTER_TEST_ALL=1)")
def test_payloads_run_where_nothing_protects():
    """Do at least 20 of the payloads run in a page that shows them as they are? If not, the other tests would
    mean nothing."""
    from nbconvert.filters import markdown2html_mistune, strip_files_prefix

    with reader() as (page, ran):
        for text in payloads.numbered().values():
            page.set_content(strip_files_prefix(markdown2html_mistune(text)))
            touch(page)
    assert len(ran) >= 20, ran


@pytest.mark.parametrize("address", PAGES)
def test_no_payload_runs(course, graders, address):
    """Does none of the payloads run, whatever a reader touches on the page? Does the page's policy forbid
    scripts without the nonce of this answer, and does the page itself work under it?"""
    address, complaints = address.format(course[2]), []
    one, two = (graders.get(address)[2]["Content-Security-Policy"] for _ in range(2))
    nonces = [re.findall(r"'nonce-([^']+)'", policy) for policy in (one, two)]
    assert "default-src 'none'" in one and "script-src 'self'" not in one
    assert "similar" in address or (nonces[0] and nonces[0][0] != nonces[1][0])
    with reader(graders) as (page, ran):
        page.on(
            "console", lambda said: "Content Security Policy" in said.text and complaints.append(said.text)
        )
        page.goto(graders.url + address)
        if address.startswith("formgrader/manage_") or "gradebook" in address:
            page.get_by_text("Loading, please wait").wait_for(state="hidden")
        touch(page)
        assert page.evaluate("document.body.innerText.length") > 100
    assert ran == set()
    assert complaints == [], "the page's own scripts and styles are allowed"


@pytest.mark.parametrize("address", [SUBMISSION, f"course/class/assignment?of={NAME}", PAGES[2]])
def test_the_policy_alone_stops_them(course, graders, address):
    """If a page contained the payloads as they are, would its policy stop them?"""
    raw = "".join(payloads.numbered().values())

    def insert(route):
        answer = route.fetch()
        route.fulfill(
            response=answer,
            body=re.sub(r"<body[^>]*>", lambda tag: tag[0] + raw, answer.text(), count=1)
            if "<body" in answer.text()
            else answer.text().replace("<main>", f"<main>{raw}"),
        )

    with reader(graders) as (page, ran):
        page.route(graders.url + address.format(course[2]), insert)
        page.goto(graders.url + address.format(course[2]))
        touch(page)
        assert "ontoggle" in page.content()
    assert ran == set()


def test_no_link_executes_a_submitted_file(course, graders):
    """Does Formgrader's address that names a folder leave its configuration, which is Python, unread?"""
    _, root, number = course
    folder = root / f".grading/autograded/eve/{NAME}"
    (folder / "nbgrader_config.py").write_text(f"open({str(root / 'ran')!r}, 'w')\n")
    (folder / "report.html").write_text("<link rel=stylesheet href=own.css><img src='../../?path=x'>")
    status, _, _ = graders.get(f"formgrader/?path=.grading/autograded/eve/{NAME}")
    assert status == 200 and not (root / "ran").exists()
    _, _, headers = graders.get(f"formgrader/submissions/{number}/report.html")
    assert "sandbox" in headers["Content-Security-Policy"] and headers["Content-Disposition"] == "attachment"
    assert graders.get(SUBMISSION.format(number))[0] == 200


CLIP = "contain: paint; overflow: auto hidden;"
WIDE = f"<table><tr>{'<td>wide_column</td>' * 200}<td>the last column</td></tr></table>"
# Whether a text can be scrolled into its frame.
REACHED = """(text) => [...document.querySelectorAll("td")].every((one) => {
  if (one.textContent !== text) return true;
  one.scrollIntoView({inline: "end"});
  const box = one.getBoundingClientRect();
  return document.elementFromPoint(box.right - 3, (box.top + box.bottom) / 2) === one;
})"""
COVER = """<a href="https://example.org"><math><mpadded voffset="99px" width="0" height="0" depth="0">{}
<mstyle mathsize="9em"><mstyle mathsize="9em"><mtext>MMMMMMMM</mtext></mstyle></mstyle>{}</mpadded></math></a>
"""
# Elements of others at a place where a student's element is drawn.
COVERED = """() => {
  const own = [...document.querySelectorAll(".text_cell_render, .output_area, .input_area, .own, .theirs")];
  const faults = [];
  for (let y = 5; y < innerHeight; y += 15) for (let x = 5; x < innerWidth; x += 40) {
    const hit = document.elementFromPoint(x, y), frame = hit && own.find((one) => one.contains(hit));
    if (!frame) continue;
    const box = frame.getBoundingClientRect();
    const beside = x < box.left - 1 || x > box.right + 1 || y < box.top - 1 || y > box.bottom + 1;
    if (beside) faults.push(hit.outerHTML);
  }
  return faults;
}"""


@pytest.mark.parametrize("page_of", ["formgrader", "feedback"])
def test_nothing_of_a_students_covers_the_page(tmp_path, page_of):
    """Do lengths in formulas, which add up, draw nothing outside of the student's own place?"""
    up = COVER.format("<mpadded voffset='99px' height='0'>" * 8, "</mpadded>" * 8)
    cell = nbformat.v4.new_code_cell("x = 1")
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": up})]
    role = {"grade_id": "why", "grade": True, "solution": True, "points": 2, "score": 0, "title": "Why"}
    answer = nbformat.v4.new_markdown_cell(up, metadata={"nbgrader": role | {"comment": "", "waiting": True}})
    table = nbformat.v4.new_code_cell("x")
    table.outputs = [nbformat.v4.new_output("display_data", {"text/html": WIDE})]
    wide = nbformat.v4.new_markdown_cell(WIDE, metadata=answer.metadata)
    cells = [nbformat.v4.new_markdown_cell("text\n\n" * 30), wide, table, answer, cell]
    notebook = nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_raw_cell(up)])
    if page_of == "formgrader":
        exporter, about = StudentPage("w", config=formgrader_page.config()), dict(formgrader_page.ABOUT)
    else:
        about = {"nbgrader": {"passed": [], "open": [], "banners": [], "title": "", "heading": "", "score": 0,
                              "max_score": 0, "late_penalty": 0, "student": "x", "whole": True}}  # fmt: skip
        exporter = StudentPage("w", template_name="teach")
    html, _ = exporter.from_notebook_node(notebook, resources=about)
    html = re.sub("<script.*?</script>", "", html, flags=re.DOTALL)  # Formgrader's, which need its server
    with reader() as (page, _):
        for clipped in (True, False):
            (tmp_path / "page.html").write_text(html if clipped else html.replace(CLIP, ""))
            page.goto((tmp_path / "page.html").as_uri())
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            assert (page.evaluate(COVERED) == []) == clipped
            if clipped:
                assert page.evaluate(f"({REACHED})('the last column')"), "wide tables can be scrolled"


def test_feedback_runs_nothing(course):
    """Does the feedback page run none of the payloads, opened as a file?"""
    from cluster.staff.course import Course

    [path] = Course(course[1]).folder("feedback", "eve", NAME).glob("*.html")
    assert list(payloads.faults(path.read_text().partition("<body>")[2])) == []
    with reader() as (page, ran):
        page.goto(path.as_uri())
        touch(page)
        assert page.locator(".own").count() > 100
    assert ran == set()


def test_formgrader_of_a_laptop_has_the_policy(course):
    """Is Formgrader protected in a server without the class page, as `make lab` starts it?"""
    folder, root, number = course
    with classes.graders_server(root, folder / "laptop", POLICY) as server:
        for address in (SUBMISSION.format(number), "formgrader/manage_assignments"):
            status, text, headers = server.get(address)
            nonce = re.search("script-src 'nonce-([^']+)'", headers["Content-Security-Policy"])[1]
            assert status == 200 and text.count("<script") == text.count(f'<script nonce="{nonce}"') > 5
