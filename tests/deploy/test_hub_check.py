"""Test the official check on a real hub: its responses and limits, who may use it, and what the instructor
sees."""

import html
import os
import re

import pytest
import requests

from tests.deploy.classroom import ASSIGNMENT, tiny

from .hub import DO, PAGE, kill, person, started, wait

pytestmark = [pytest.mark.hub, pytest.mark.servers, pytest.mark.timeout(1200)]
WORKS_WHERE_SEEN = "return 2 * x if x < 10 else 0"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Yield a hub that permits two checks per hour, with two students and an instructor."""

    def enrol(hub):
        hub.enrol(ada="student", ben="student", ines="instructor")

    with started(tiny(tmp_path_factory.mktemp("repository")), enrol, checks=2, checks_in_all=9) as instance:
        instance.ines = person(instance, "ines")
        instance.ines.release()
        yield instance


@pytest.fixture(scope="module")
def ada(hub):
    ada = hub.person("ada")
    ada.log_in()
    return ada.spawn()


def text_of(answer):
    """Return the text of a page, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def test_a_student_checks_and_the_limit_holds(hub, ada):
    """Does a check show the points but no hidden values? Is an unchanged submission checked again without
    using up an attempt? After the last permitted check, does the page show the limit and when the next check
    is available?"""
    page = f"/course/check?of={ASSIGNMENT}"
    ada.solve(WORKS_WHERE_SEEN)
    assert f"course/check?of={ASSIGNMENT}" in ada.mine("GET", "/course").text
    before = text_of(ada.mine("GET", page))
    assert re.search(r"\b2 checks .*\b0 of 9\b", before)
    result = text_of(ada.mine("POST", page))
    assert "1 of 3 points" in result, result
    assert not {"17", "34"} & set(re.findall(r"\d+", re.sub(r"\d\d:\d\d|\d+ [A-Z][a-z]{2}", "", result)))
    assert "1 of 3 points" in text_of(ada.mine("POST", page)), "the same work costs no try"
    ada.solve("return 2 * x")
    assert "3 of 3 points" in text_of(ada.mine("POST", page))
    ada.solve("return x + x")
    refused = text_of(ada.mine("POST", page))
    assert "2 of 9" in refused and re.search(r"\d\d:\d\d", refused), "when the next check is available"


def test_no_user_can_query_for_another(hub, ada):
    """Are requests without a valid token refused? Does a student's token return that student's own record,
    and is the grader's home, which has all records, closed to students?"""
    url = f"http://127.0.0.1:{hub.port}/services/check/{ASSIGNMENT}"
    for headers in ({}, {"Authorization": "token " + "0" * 32}):
        answer = requests.get(url, headers=headers, timeout=30)
        assert answer.status_code == 403 or "/hub/login" in answer.url
    code = "import os; print(os.environ['JUPYTERHUB_API_TOKEN'])"
    token = ada.cell(code)[1].strip()
    answer = requests.get(url, headers={"Authorization": f"token {token}"}, timeout=30).json()
    assert answer["tried"] == 2 and answer["left"] == 0 and answer["answer"]["points"] == 3
    listing = hub.run(ada.user, "ls", os.path.expanduser(f"~{hub.grader}"), check=False)
    assert listing.returncode != 0, "the record is not accessible to students"


def test_the_instructor_sees_and_sets(hub, ada):
    """Does the class page show how many checks were made, and by how many students? Does a limit that the
    instructor changes apply to students without a restart?"""
    page = PAGE
    seen = hub.ines.formgrader("GET", page)
    assert re.search(r"\b2 .*\b1 of 2 students", text_of(seen)) and 'class="chart"' not in seen.text
    token = re.search(r'name="_xsrf" value="([^"]+)"', seen.text)[1]
    form = {"_xsrf": token, "do": "checks", "an_hour": "5", "in_all": "9"}
    assert hub.ines.formgrader("POST", DO, data=form).ok

    def open_again():
        page = text_of(ada.mine("GET", f"/course/check?of={ASSIGNMENT}"))
        return re.search(r"\b3 checks .*\b5 ", page)

    wait("the new limit", open_again, 60)


def test_a_dead_service_is_reported_and_repaired(hub, ada):
    """If the service of the official check dies, does `status` report it, and does the student see a message?
    Does the hub start it again, with the record of earlier checks?"""
    kill(hub, "check")
    code, page = hub.do("status", status=1), ada.mine("GET", f"/course/check?of={ASSIGNMENT}")
    assert re.search(r"check +dead", code) and page.status_code == 503
    hub.start()
    assert "2 of 9 used" in text_of(ada.mine("GET", f"/course/check?of={ASSIGNMENT}"))
