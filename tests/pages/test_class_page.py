"""The class page in a server without a hub: access, contents, and when its buttons can be used."""

import datetime
import html
import json
import re
import time

import nbformat
import pytest

from cluster.staff.class_page.sheets import Row, Sheet
from cluster.staff.course import Course, opened
from cluster.staff.grading import gradebook
from cluster.staff.official_check.attempt_limits import Records
from cluster.staff.submissions.prepare import Source

from ..browser import needs_browser, overflows, violations
from . import classes

pytestmark = pytest.mark.servers

NAME = classes.NAME
# Table cells that extend beyond the right edge of their scrolling area.
HIDDEN = """() => [...document.querySelectorAll('.scrolled')].flatMap(one =>
  [...one.querySelectorAll('th, td')]
  .filter(cell => cell.getBoundingClientRect().right > one.getBoundingClientRect().right + 1)
  .map(cell => cell.textContent.trim()))"""
# Show an older state in a new element: the page does not compare a known element with the server's again.
OLDER = """() => {
  const part = document.querySelector("#checks"), older = part.cloneNode(true);
  older.querySelector("p").textContent = "older";
  part.replaceWith(older);
}"""
HOSTILE = "<img src=x onerror=alert(1)>"
WRITTEN = """
# %% [markdown] explain="why" points=2
# ### BEGIN SOLUTION
# **Rubric.** One point for *each half* of the reason.
# ### END SOLUTION
"""


@pytest.fixture(scope="module")
def graders(tmp_path_factory):
    """The grader's server in a course with one assignment and two students, one with a hostile name."""
    folder = tmp_path_factory.mktemp("graders")
    course = classes.make_class(folder, WRITTEN)
    root = course.root
    with opened(course) as book:
        book.add_student("ada", first_name="Ada", last_name="Example")
        book.add_student("eve", first_name=HOSTILE, last_name="Example")
    collected = root / ".grading/submitted/ada" / NAME
    collected.mkdir(parents=True)
    (collected / "doubling.ipynb").write_text("{}")
    records, hour = Records(root / ".grading/checks", NAME), 3600
    for student, at, points in (("ada", 0, 1.0), (HOSTILE, 1, 0.0), ("ada", 2, 3.0), (HOSTILE, 5, 1.0)):
        records.begin(student, 1_790_000_000 + at * hour)
        records.end(student, "key", {"points": points, "of": 3.0, "checks": []}, 1_790_000_001 + at * hour)
    with classes.graders_server(root, folder / "home") as server:
        yield server


PAGES = ["course/class", f"course/class/assignment?of={NAME}", f"course/class/ask?of={NAME}&do=hand-out"]


def post(server, **data):
    """Send the form of an action; return (status, text)."""
    token = re.search(r'name="_xsrf" value="([^"]+)"', server.get(PAGES[1])[1])[1]
    return server.get(f"course/class/do?of={NAME}", data={"_xsrf": token} | data)[:2]


def test_strangers_see_nothing_and_do_nothing(graders):
    """Is each page refused without a login, and each action without a login or without the XSRF token?"""
    for page in [*PAGES, *(f"course/class/{report}?of={NAME}" for report in ("report", "similar"))]:
        assert "Doubling" not in graders.get(page, graders.stranger)[1]
    address = f"course/class/do?of={NAME}"
    assert graders.get(address, graders.stranger, data={"do": "collect"})[0] == 403
    for data in ({"do": "collect"}, {"do": "collect", "_xsrf": "guessed"}):
        assert graders.get(address, data=data)[0] == 403
    assert not (graders.root / ".grading/actions").exists()


def test_pages_say_what_is_there_as_text(graders):
    """Do the pages show the assignment, and why a button is missing, with a hostile name
    escaped? Are only the server's own scripts permitted, and do wrong URLs lead to an error page?
    """
    status, text, headers = graders.get("course/class")
    assert status == 200 and "Doubling" in text and "of 2" not in text
    assert "default-src 'none'; script-src 'nonce-" in headers["Content-Security-Policy"]
    _, text, _ = graders.get(PAGES[1])
    assert html.escape(HOSTILE) in text and HOSTILE not in text and "not released" in text
    assert f'href="/user/ada/lab/tree/.grading/submitted/ada/{NAME}/doubling.ipynb"' in text
    for do in ("collect", "grade"):
        assert re.search(f'id="why-{do}">[^<]', text) and f'id="do-{do}"' not in text
    assert 'class="button primary" id="do-hand-out"' in text
    start, class_page = (re.sub('nonce="[^"]+"', "", graders.get(of)[1]) for of in ("course", "course/class"))
    assert start == class_page, "here the start page is the class"
    for page in (
        "assignment?of=../x",
        "assignment?of=98_none",
        f"ask?of={NAME}&do=collect",
        f"report?of={NAME}",
        f"similar?of={NAME}",
        "nothing",
    ):
        status, text, _ = graders.get(f"course/class/{page}")
        assert status == 404 and "Back to the class" in text, page


def test_a_wrong_form_is_named_and_runs_nothing(graders):
    """After an invalid due date, does the form show the error and the input, and is no command run?"""
    status, text = post(graders, do="due", date="2026-03-29", time="02:30", zone="PST")
    assert status == 400 and 'role="alert"' in text and "PST' is not" in html.unescape(text)
    assert 'value="PST"' in text
    places = [text.index(f'id="{name}"') for name in ("due-head", "trouble", "limits-head")]
    assert places == sorted(places), "it is in the form"
    assert f"do?of={NAME}#dates-head" in text, "and is in sight"
    assert not (graders.root / ".grading/actions").exists()


def test_a_button_runs_its_command(graders):
    """While a button's command is running, does the page refuse another one? Does it show the result and the
    duration afterwards?
    """
    assert post(graders, do="due", date="2026-12-01", zone="Europe/Berlin")[0] == 200
    status, text = post(graders, do="collect")
    assert status == 409 and "Due date" in re.search('id="trouble">([^<]*)<', text)[1]
    text = classes.wait_for(graders, PAGES[1], "Due date: done")
    assert "2026-12-01 23:59 Europe/Berlin (2026-12-01 22:59 UTC)" in text
    assert re.search(r", took (\d+ min )?\d+ s<", text)
    assert "Due Tue 1 Dec, 22:59 UTC" in text and 'name="date" value="2026-12-01"' in text
    assert 'name="time" value="22:59"' in text
    assert 'id="due-now" data-live' in text and 'id="due-buttons" data-live' in text, "no older date stays"
    begun = json.loads((graders.root / f".grading/actions/{NAME}/action.json").read_text())
    assert begun["name"] == "Due date"


def test_points_are_a_file(graders):
    """Can the table of `grade export` be downloaded for Moodle, only with a login, and not for an unknown
    platform?
    """
    page = "course/class/points?for="
    status, text, headers = graders.get(page + "moodle")
    assert status == 200 and text.splitlines()[0].startswith("username,email") and "\nada," in text
    assert headers["Content-Disposition"] == 'attachment; filename="grades-moodle.csv"'
    assert graders.get(page + "excel")[0] == 404
    assert "\nada," not in graders.get(page + "moodle", graders.stranger)[1]


def test_submissions_are_compared_by_a_button(graders):
    """Is the Compare button missing while there is only one submission? With two, does it lead to a page that
    shows the similar pair, with hostile code escaped?
    """
    assert 'id="do-similar"' not in graders.get(PAGES[1])[1]
    course = Course(graders.root)
    notebook = classes.released(course)
    hole = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution"))
    hole.source = f"# {HOSTILE}\ndef double(x):\n    found = []\n" + "".join(
        f"    if x % {i} == {i // 2}:\n        found.append(x // {i} - {i} * len(found))\n"
        for i in range(3, 12)
    )
    for student in ("ada", "eve"):
        classes.collected(course, student, notebook, datetime.datetime(2026, 1, 2, 12))
    assert post(graders, do="similar")[0] == 200
    classes.wait_for(graders, PAGES[1], "Compare: done", f"similar?of={NAME}", 'id="do-similar"')
    status, text, headers = graders.get(f"course/class/similar?of={NAME}")
    assert status == 200 and "100%" in text and "<mark>" in text
    assert HOSTILE not in text and html.escape(HOSTILE) in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_official_checks_are_shown_and_limited(graders):
    """Does the page show the number of official checks, their curves and each student's best result? Is an
    invalid limit refused, and a valid one saved?
    """
    text = graders.get(PAGES[1])[1]
    assert "from 1 at 0 to 4 at 5" in text, "the checks"
    assert "from 33.33 at 0 to 66.67 at 5" in text, "the median of 3 of 3 and 1 of 3"
    assert HOSTILE not in text and "3 of 3" in text
    status, text = post(graders, do="checks", an_hour="many", in_all="9")
    assert status == 400 and "10000" in text and 'value="many"' in text
    post(graders, do="checks", an_hour="0", in_all="9")
    path = graders.root / f".grading/checks/{NAME}/limits.json"
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.2)
    assert json.loads(path.read_text()) == {"an_hour": 0, "in_all": 9}


def waits(graders):
    """Wait until the page shows that ada's submission needs manual grading; return the link in its row."""
    # the page reuses facts for 20 times as long as reading them took
    text = classes.wait_for(graders, PAGES[1], 'id="look-ada"', seconds=300)
    [address] = re.findall(r'id="look-ada" href="/user/ada/(formgrader/submissions/[^"]+)"', text)
    return address


def test_rows_lead_to_answers_that_need_manual_grading(graders):
    """Does a row link to the answer in Formgrader, with the rubric below the answer? Do students never see
    the rubric?"""
    course = Course(graders.root)
    notebook = classes.released(course)
    notebook.cells[-1].source = "Because it is **so**."
    graded = course.folder("autograded", "ada", NAME)
    graded.mkdir(parents=True)
    nbformat.write(notebook, graded / "doubling.ipynb")
    source = Source.from_gradebook(course.coursedir, NAME)
    when = datetime.datetime(2026, 1, 2, 12)
    classes.collected(course, "ada", notebook, when)
    with opened(course) as book:
        gradebook.record(book, source, "ada", source.points | {"why": None}, notebook, when=when)
        number = book.find_submission_notebook("doubling", NAME, "ada").id
    address = waits(graders)
    assert address == f"formgrader/submissions/{number}/#why"
    status, page, _ = graders.get(address.partition("#")[0])
    assert status == 200 and "One point for <em>each half</em>" in page
    assert page.index("Because it is") < page.index("One point for") and "BEGIN SOLUTION" not in page
    assert 'id="why"' in page, "the address leads to the points of the answer"
    assert 'id="look-99"' in graders.get("course/class")[1]
    for path in (graders.root / "exercises" / NAME / "doubling.ipynb", graded / "doubling.ipynb"):
        assert "One point for" not in path.read_text()
    course.feedback(NAME, "ada")
    [feedback] = course.folder("feedback", "ada", NAME).glob("*.html")
    assert "Because it is" in feedback.read_text() and "One point for" not in feedback.read_text()


@needs_browser
def test_formgrader_opens_at_the_score_that_needs_grading(graders):
    """Does Formgrader open with the focus in the answer's points field, which is visible with the rubric
    below it?"""
    address = waits(graders)
    with classes.logged_in(graders) as page:
        page.goto(graders.url + address)
        page.wait_for_function("document.activeElement.id === 'why'")
        page.wait_for_function("scrollY > 0 || innerHeight >= document.body.scrollHeight")
        rubric = page.locator(".rubric")
        assert "One point for each half" in rubric.inner_text()
        tops = "['#why', '.rubric'].map(one => document.querySelector(one).getBoundingClientRect().top)"
        mine, rubrics = page.evaluate(tops)  # measured at once, because the page may still scroll
        assert mine < rubrics


@needs_browser
def test_forms_begin_with_the_browsers_time_zone(graders):
    """Do the forms start with the browser's time zone, and is the due date shown in it, even after the page
    has updated itself?
    """
    with classes.logged_in(graders) as page:
        page.context.new_cdp_session(page).send(
            "Emulation.setTimezoneOverride", {"timezoneId": "Europe/Berlin"}
        )
        page.goto(graders.url + PAGES[1])
        page.wait_for_function("document.querySelectorAll('input[name=zone]').length == 2")
        page.wait_for_function(
            "[...document.querySelectorAll('[name=zone]')].every(one => one.value == 'Europe/Berlin')"
        )
        form = page.locator("form[aria-labelledby=due-head]")  # the due date set by the previous test
        assert form.locator("[name=date]").input_value() == "2026-12-01"
        assert form.locator("[name=time]").input_value() == "23:59"
        page.wait_for_function("() => document.querySelector('#due-now time').textContent != ''")
        assert "Due Tue 1 Dec, 23:59 CET (22:59 UTC)." in page.locator("#due-now").inner_text()
        page.evaluate("document.querySelector('#due-now').textContent = 'older'")
        page.wait_for_function("() => document.querySelector('#due-now').textContent.includes('23:59 CET')")


@needs_browser
def test_pages_are_accessible(graders):
    """Do the class's pages pass axe's checks and fit into the window, at 1280 pixels in light mode and at 320
    pixels in dark mode?
    """
    with classes.logged_in(graders) as page:
        for path in PAGES:
            for scheme, width in (("light", 1280), ("dark", 320)):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 800})
                page.goto(graders.url + path)
                page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
                assert violations(page) == [], f"{path}, {scheme}"
                assert overflows(page) <= 0, f"{path} at {width} pixels"
                hidden = page.evaluate(HIDDEN)
                assert not hidden, f"{path} at {width} pixels has cells out of sight: {hidden}"


def test_a_due_date_in_the_past_is_asked_for(graders):
    """Is a past due date set only after a confirmation page that shows the date and keeps the form's
    input?
    """
    data = {"do": "due", "date": "2026-01-05", "time": "12:00", "zone": "UTC"}
    action = graders.root / f".grading/actions/{NAME}/action.json"
    before = action.read_text() if action.exists() else ""
    status, text = post(graders, **data)
    assert status == 200 and "Mon 5 Jan, 12:00 UTC" in text and 'name="sure" value="yes"' in text
    assert all(f'name="{name}" value="{data[name]}"' in text for name in ("date", "time", "zone"))
    assert (action.read_text() if action.exists() else "") == before, "nothing was begun"
    assert post(graders, **data, sure="yes")[0] == 200
    assert action.read_text() != before


def test_feedback_before_the_due_date_is_asked_for():
    """Does the assignment view list the students whose due date has not passed, the latest date last?"""
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    rows = [Row("ada", "Ada", now + 2 * day), Row("ben", "Ben", now - day), Row("cem", "Cem", now + day)]
    assert [row.student for row in Sheet(NAME, "Doubling", rows=rows).still_open] == ["cem", "ada"]
    assert Sheet(NAME, "Doubling", rows=[Row("ada", "Ada")]).still_open == []


SHOWN = "() => [...document.querySelectorAll('#students tbody tr')].filter(row => !row.hidden)"
NAMES = f"{SHOWN}.map(row => row.dataset.find.split(' ')[1])"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The grader's server in a course with 205 students. Some have submitted, some late, and one failed a
    check."""
    folder = tmp_path_factory.mktemp("large")
    course = classes.make_class(folder)
    released = classes.released(course)
    source = Source.from_gradebook(course.coursedir, NAME)
    due = datetime.datetime(2026, 1, 3)
    with opened(course) as book:
        for n in range(205):
            book.add_student(f"s{n:03}", first_name="Student", last_name=f"{(n * 7) % 205:03}")
        book.find_assignment(NAME).duedate = due
        book.db.commit()
        for n in range(180):
            when = due + datetime.timedelta(hours=n - 170)
            classes.collected(course, f"s{n:03}", released, when)
            if n < 100:
                points = source.points | ({"double-of-one": 0.0} if n == 42 else {})
                gradebook.record(book, source, f"s{n:03}", points, released, when=when)
    Records(course.root / ".grading/checks", NAME).begin("s000", 1_790_000_000)
    with classes.graders_server(course.root, folder / "home") as server:
        yield server


@needs_browser
def test_a_class_of_205_is_searched_filtered_and_sorted(large):
    """In a class of 205, do search, filters and sorting show the right rows, even after the page has updated
    itself? Does a row's button open the extension form for this student?
    """
    began = time.monotonic()
    assert large.get(PAGES[1])[0] == 200
    print(f"the first answer with 205 students: {time.monotonic() - began:.1f} s")
    with classes.logged_in(large) as page:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(large.url + PAGES[1])
        assert page.evaluate(f"({SHOWN})().length") == 205
        height = page.evaluate("document.body.scrollHeight")
        print(f"height: {height} pixels")
        assert page.locator("#dates-head").evaluate("one => one.getBoundingClientRect().top") < 800
        page.fill("#find", "student 042")
        assert page.evaluate(f"({NAMES})()") == ["042"]
        page.fill("#find", "")
        counts = {"none": 25, "late": 9, "grade": 80, "failed double-of-one": 1}
        for choice, count in counts.items():
            page.select_option("#show", choice)
            assert page.evaluate(f"({SHOWN})().length") == count, choice
            assert f"{count} of 205" in page.locator("#shown").inner_text()
        page.select_option("#show", "late")
        page.evaluate("document.querySelector('#students').replaceChildren("
                      "...document.querySelector('#students').cloneNode(true).childNodes)")  # fmt: skip
        page.wait_for_function(f"({SHOWN})().length == 9")
        page.select_option("#show", "")
        page.click("#students th button[data-column='0']")
        assert page.evaluate(f"({NAMES})()") == [f"{n:03}" for n in range(205)]
        page.click("#students th button[data-column='0']")
        assert page.evaluate(f"({NAMES})()")[0] == "204"
        page.click("#by-student summary")
        page.evaluate(OLDER)
        page.wait_for_function("() => document.querySelector('#checks > p').textContent != 'older'")
        assert page.locator("#by-student").evaluate("one => one.open"), (
            "it stays open when the page renews itself"
        )
        page.locator("#students tbody tr:visible button[data-extend]").first.click()
        assert page.locator("#extension [name=student]").input_value() == "s117"
        assert page.locator("#extension").evaluate("one => one.matches(':modal')")
        page.click("#no-extension")
        assert page.locator("#extension").is_hidden()
        for scheme, width in (("light", 1280), ("dark", 390)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            assert violations(page) == [] and overflows(page) <= 0
