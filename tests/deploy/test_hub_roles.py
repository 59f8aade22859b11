"""Test graders on a real hub, over HTTP: what they can see and change, and what the server refuses."""

import html
import re

import pytest
import requests

from cluster.staff.class_page import roles
from tests.deploy.classroom import ASSIGNMENT, COURSE, PREFIX, tiny

from .hub import CLASS, DO, PAGE, REPORT, WORK, started
from .test_hub import press

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200)]

ROSTER = f"""\
name,user,role,extension,section
Ada Example,{PREFIX}ada,student,,Monday
Ben Example,{PREFIX}ben,student,,Friday
Gus Example,{PREFIX}gus,grader,,Friday
Gaby Example,{PREFIX}gaby,grader,,Monday
Ines Example,{PREFIX}ines,instructor,,
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Yield a hub with an instructor, two students who have submitted, and a grader for each student's
    section."""
    course = tiny(tmp_path_factory.mktemp("repository"))
    with started(course, lambda hub: hub.roster.write_text(ROSTER)) as instance:
        ines = logged_in(instance, "ines")
        ines.release()
        for name in ("ada", "ben"):
            student = logged_in(instance, name).spawn()
            student.solve("return 2 * x if x < 10 else 0")
            student.assignment("submit", ASSIGNMENT)
        yield instance


def logged_in(hub, name):
    person = hub.person(name)
    assert person.log_in().url.endswith("/hub/home")
    assert name in ("ada", "ben") or person.formgrader("GET", CLASS).ok
    return person


@pytest.fixture(scope="module")
def ines(hub):
    return logged_in(hub, "ines")


@pytest.fixture(scope="module")
def gus(hub):
    return logged_in(hub, "gus")


def acting(person, **form):
    """Press a button on the class page; return the HTTP status."""
    form["_xsrf"] = xsrf(person.formgrader("GET", PAGE).text)
    return person.formgrader("POST", DO, data=form).status_code


def xsrf(text):
    """Return the XSRF token in a page's forms."""
    return re.search(r'name="_xsrf" value="([^"]+)"', text)[1]


def test_a_grader_collects_and_grades(gus):
    """Can a grader collect submissions, grade them and create the report on the class page?"""
    press(gus, "collect")
    press(gus, "grade")
    text = press(gus, "report")
    assert "begun" in text and gus.user in text
    assert gus.formgrader("GET", REPORT).ok


def test_a_grader_marks_in_formgrader(gus):
    """Can a grader open each page of Formgrader, and change points and comments?"""
    pages = ("manage_assignments", "gradebook", f"gradebook/{ASSIGNMENT}", "manage_students")
    for page in (*pages, f"manage_submissions/{ASSIGNMENT}"):
        assert gus.formgrader("GET", f"/formgrader/{page}").ok, page
    [ada] = [item for item in gus.formgrader("GET", WORK).json() if item["student"].endswith("ada")]
    assert gus.formgrader("GET", f"/formgrader/submissions/{ada['id']}/").ok
    query = {"params": {"submission_id": ada["id"]}}
    grade = gus.formgrader("GET", "/formgrader/api/grades", **query).json()[0]
    answer = gus.formgrader("PUT", f"/formgrader/api/grade/{grade['id']}", json={"manual_score": 0.5})
    assert answer.ok and answer.json()["manual_score"] == 0.5
    gus.formgrader("PUT", f"/formgrader/api/grade/{grade['id']}", json={"manual_score": None})
    comment = gus.formgrader("GET", "/formgrader/api/comments", **query).json()[0]
    answer = gus.formgrader(
        "PUT", f"/formgrader/api/comment/{comment['id']}", json={"manual_comment": "Good"}
    )
    assert answer.ok and answer.json()["manual_comment"] == "Good"


FORBIDDEN = (
    ("POST", f"assignment/{ASSIGNMENT}/assign"),
    ("POST", f"assignment/{ASSIGNMENT}/release"),
    ("POST", f"assignment/{ASSIGNMENT}/unrelease"),
    ("POST", f"assignment/{ASSIGNMENT}/generate_feedback"),
    ("POST", f"assignment/{ASSIGNMENT}/release_feedback"),
    ("POST", f"assignment/{ASSIGNMENT}/ADA/release_feedback"),
    ("PUT", f"assignment/{ASSIGNMENT}"),
    ("PUT", "student/ADA"),
    ("PUT", "student/somebody"),
)


@pytest.mark.parametrize(("method", "path"), FORBIDDEN)
def test_formgraders_other_changes_are_refused(gus, method, path):
    """Does the server answer 403 if a grader requests a change of the roster, a date or a release from
    Formgrader's API?"""
    body = {"duedate_notimezone": "2030-01-01T00:00", "duedate_timezone": "+0000", "first_name": "A"}
    path = path.replace("ADA", f"{PREFIX}ada")  # PREFIX differs between workers, but a test's ID must not
    answer = gus.formgrader(method, f"/formgrader/api/{path}", json=body)
    assert (answer.status_code, answer.reason) == (403, roles.REFUSED), answer.text


@pytest.mark.parametrize(
    "form",
    [
        {"do": "hand-out"},
        {"do": "give-back"},
        {"do": "due", "date": "2099-12-01", "time": "12:00", "zone": "UTC"},
        {"do": "no-due"},
        {"do": "extend", "student": f"{PREFIX}ada", "days": "3"},
        {"do": "checks", "an_hour": "0", "in_all": "0"},
        {"do": "anything"},
    ],
    ids=lambda form: form["do"],
)
def test_the_class_pages_other_actions_are_refused(gus, form):
    """Does the server answer 403 if a grader requests an instructor's action on the class page? Does the page
    hide the forms of these actions from graders?"""
    assert acting(gus, **form) == 403
    text = gus.formgrader("GET", PAGE).text
    assert f'value="{form["do"]}"' not in text and f'id="do-{form["do"]}"' not in text


def test_the_question_before_a_release_is_refused(gus, ines):
    """Is the confirmation page for releasing feedback refused to graders, and available to instructors?"""
    page = f"/course/class/ask?of={ASSIGNMENT}&do=give-back"
    assert (gus.formgrader("GET", page).status_code, ines.formgrader("GET", page).status_code) == (403, 200)


def test_the_graders_files_are_closed(gus, ines):
    """Are JupyterLab, files, kernels and terminals of the course's Unix user closed to a grader?"""
    pages = (
        "/lab",
        "/api/contents",
        "/api/contents/nbgrader_config.py",
        "/files/nbgrader_config.py",
    )
    pages += (
        "/api/terminals",
        "/api/kernels",
        "/api/sessions",
        "/view/a",
        "/lab/api/settings",
        "/course/jobs",
    )
    for page in pages:
        assert gus.formgrader("GET", page).status_code == 403, page
    for page in ("/api/terminals", "/api/kernels", "/api/sessions", "/api/contents", "/api/shutdown"):
        assert gus.formgrader("POST", page, json={}).status_code == 403, page
    terminal = ines.formgrader("POST", "/api/terminals").json()["name"]
    ines.connect(f"/services/{COURSE}/terminals/websocket/{terminal}").close()
    with pytest.raises(Exception, match="403"):
        gus.connect(f"/services/{COURSE}/terminals/websocket/{terminal}")
    assert ines.formgrader("DELETE", f"/api/terminals/{terminal}").ok


def test_a_graders_token_is_a_graders(hub, gus):
    """Does the token of a grader's own server have the same limits as the grader's login?"""
    _, printed = gus.spawn().cell("import os; print(os.environ['JUPYTERHUB_API_TOKEN'])")
    token = printed.strip()

    def asked(method, path):
        url = f"{gus.base}/services/{COURSE}{path}"
        return requests.request(
            method, url, headers={"Authorization": f"token {token}"}, timeout=60
        ).status_code

    assert asked("GET", CLASS) == 200
    assert asked("GET", "/api/contents") == 403
    assert asked("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/release") == 403


def test_a_graders_pages_have_no_links_that_are_refused(gus):
    """For a grader, do the hub's home page and the class page contain only links that the grader may
    follow?"""
    home = gus.get(f"{gus.base}/hub/home").text
    assert 'id="class-page"' in home and 'id="passwords"' not in home
    assert gus.get(f"{gus.base}/hub/course/passwords").status_code == 403
    text = "".join(gus.formgrader("GET", page).text for page in (CLASS, PAGE))
    for link in sorted(set(re.findall(rf'href="(/services/{COURSE}/[^"#]*)"', text))):
        assert gus.get(gus.base + link.replace("&amp;", "&")).ok, link


def test_a_graders_section_comes_first(gus, ines):
    """Does the class page list the grader's own section first, with a filter for each section?"""
    results = {person: person.formgrader("GET", PAGE).text for person in (gus, ines)}
    for text in results.values():
        assert {'value="section Monday"', 'value="section Friday"'} <= set(
            re.findall('value="section [^"]*"', text)
        )
    rows = re.findall(r'<tr data-find="(\w+) ', results[gus])
    assert rows == ["ben", "ada"], "gus has the section Friday"


def test_a_regrade_request_is_answered_by_a_grader(hub, gus, ines):
    """Does a student's regrade request appear on the class page, and a grader's answer in the student's
    feedback? Are both inaccessible to other students?"""
    press(ines, "give-back", sure="1")
    ada, ben = (logged_in(hub, name).spawn() for name in ("ada", "ben"))
    ada.assignment("fetch_feedback", ASSIGNMENT)
    page = f"/course/feedback?of={ASSIGNMENT}"
    form = {"_xsrf": xsrf(ada.mine("GET", page).text), "check": "double-of-others", "reason": "17 is <odd>"}
    answer = ada.mine("POST", page, data=form)
    assert answer.ok, answer.text
    text = gus.formgrader("GET", PAGE).text
    assert "17 is &lt;odd&gt;" in text and "double-of-others" in text
    key = html.unescape(re.search(r'name="key" value="([^"]+)"', text)[1])
    form = {"_xsrf": xsrf(text), "student": ada.user, "key": key, "answer": "34 was asked"}
    answer = gus.formgrader("POST", f"/course/class/answer?of={ASSIGNMENT}", data=form)
    assert answer.ok and "1 answered" in answer.text, answer.text
    text = ada.mine("GET", page).text
    assert "34 was asked" in text and f"by {gus.user}" in text
    shared = hub.state / "people" / ada.user
    for name in ("requests.json", "answers.json"):
        assert hub.run(ben.user, "cat", shared / name, check=False).returncode
        assert hub.run(ben.user, "cp", "/etc/hostname", shared / name, check=False).returncode


def test_a_student_who_becomes_a_grader(hub, gus):
    """If a user's role on the roster changes from grader to student and back, does `sync` report both
    changes?"""
    hub.roster.write_text(ROSTER.replace("gus,grader", "gus,student"))
    assert f"{PREFIX}gus: now student" in hub.do("sync", hub.roster)
    hub.roster.write_text(ROSTER)
    assert f"{PREFIX}gus: now grader" in hub.do("sync", hub.roster)
