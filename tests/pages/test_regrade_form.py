"""Regrade requests: from the feedback page to a grader, and the answer back to the student."""

import getpass
import html
import json
import os
import re
import stat

import pytest

from cluster.pages import regrade_form as pages
from cluster.staff.class_page import regrade_requests
from cluster.staff.class_page.actions import ActionError

ME = getpass.getuser()
PAGE = "course/feedback?of=01_loops"
SUBMISSION = "2026-01-29 08:00:00.1 UTC"
KEY = f"01_loops+{SUBMISSION}+loops-right"
REASON = "The loops <b>are</b> right:\nsee cell 3"


@pytest.fixture
def kept(tmp_path):
    """The course's folder for requests, with this user as a student."""
    (tmp_path / "people" / ME).mkdir(parents=True)
    return regrade_requests.Requests(tmp_path, tmp_path / "people")


def given(kept, made, student=ME):
    """Write this content to a student's file of requests, and return all requests that the course then
    has.
    """
    text = made if isinstance(made, str) else json.dumps(made)
    (kept.people / student / pages.REQUESTS).write_text(text)
    kept.take([student])
    return kept.all()


@pytest.mark.servers
def test_a_request_and_its_answer(server, shared, kept):
    """Is a request on the feedback page saved as plain text, copied by the course once, and answered only
    once? Does the feedback page show the answer?
    """
    _, text, _ = server.get(PAGE)
    assert re.findall(r'<option value="([^"]+)"', text) == ["loops-right", "fast"]
    form = {"_xsrf": re.search(r'name="_xsrf" value="([^"]+)"', text)[1]}
    for check, reason, why in (
        ("loops-right", " \n", "has 0"),
        ("loops-right", "x" * 2001, "has 2,001"),
        ("no", REASON, "trouble"),
        ("", REASON, "trouble"),
    ):
        status, text, _ = server.get(PAGE, data=form | {"check": check, "reason": reason})
        assert status == 400 and why in text and not (shared / pages.REQUESTS).exists(), why
    assert server.get(PAGE, data={"check": "fast", "reason": REASON})[0] == 403, "without the token"
    status, text, _ = server.get(PAGE, data=form | {"check": "loops-right", "reason": REASON})
    assert status == 200 and html.escape(REASON) in text and "<b>are" not in text and "state pending" in text
    assert stat.S_IMODE((shared / pages.REQUESTS).stat().st_mode) == 0o640
    status, text, _ = server.get(PAGE, data=form | {"check": "loops-right", "reason": "again"})
    assert status == 400 and "again" not in json.loads((shared / pages.REQUESTS).read_text())[KEY]["reason"]
    server.get(PAGE, data=form | {"check": "fast", "reason": "x" * 2000})

    kept.people = shared.parent
    for _ in range(2):
        kept.take([ME])
    assert [(row.student, row.assignment, row.check) for row in kept.all()] == [
        (ME, "01_loops", "fast"),
        (ME, "01_loops", "loops-right"),
    ]
    kept.answer(ME, KEY, " You are right:\n+1 & <i>sorry</i>", "gus")
    with pytest.raises(ActionError, match="gus"):
        kept.answer(ME, KEY, "No", "gaby")
    for text, words in (("  ", "has 0"), ("x" * 2001, "has 2,001")):
        with pytest.raises(ActionError, match=words):
            kept.answer(ME, KEY.replace("loops-right", "fast"), text, "gus")
    with pytest.raises(ActionError):
        kept.answer("eve", KEY, "Yes", "gus")
    assert [row.answer for row in kept.all()] == ["", "You are right:\n+1 & <i>sorry</i>"], "open ones first"
    _, text, _ = server.get(PAGE)
    assert "+1 &amp; &lt;i&gt;sorry" in text and "by gus" in text and text.count("state pending") == 1
    assert 'id="request"' not in text, "no check is left"


def test_a_request_that_was_taken_stays(kept):
    """Does the course keep a request that its student later changes, removes or damages?"""
    assert len(given(kept, {KEY: {"reason": "first", "at": 5.0}})) == 1
    given(kept, {KEY: {"reason": "second", "at": 6.0}})
    given(kept, "{")
    (kept.people / ME / pages.REQUESTS).unlink()
    kept.take([ME])
    assert [(request.reason, request.at) for request in kept.all()] == [("first", 5.0)]
    kept.answer(ME, KEY, "Yes", "gus")
    (kept.people / ME / pages.ANSWERS).unlink()
    kept.deliver_all()
    assert json.loads((kept.people / ME / pages.ANSWERS).read_text())[KEY]["answer"] == "Yes"


@pytest.mark.parametrize(
    "made",
    [
        "[]", "3", "[[[", '{"a": 1}', {KEY: {}}, {KEY: {"reason": ""}}, {KEY: {"reason": 3}},
        {KEY: {"reason": "x" * 2001}}, {"a+b": {"reason": "x"}}, {f"{KEY}\n": {"reason": "x"}},
        {KEY + "x" * 300: {"reason": "x"}}, {KEY: {"reason": "x", "more": "x" * 2**20}},
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_not_a_request_is_left_alone(kept, made):
    """Is a student's file of requests ignored without an error if its contents could not come from the
    feedback page?
    """
    assert given(kept, made) == []


def test_a_student_cannot_read_or_write_anothers(kept, tmp_path):
    """Is a file of requests ignored if it is a link or belongs to another user? Is a link replaced by the
    answers, instead of followed?
    """
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({KEY: {"reason": "x"}}))
    folder = kept.people / ME
    (folder / pages.REQUESTS).symlink_to(secret)
    kept.take([ME])
    assert kept.all() == []
    (folder / pages.REQUESTS).unlink()
    if os.getuid() == 0:
        given(kept, {KEY: {"reason": "x"}})
        kept.folder.joinpath(f"{ME}.json").unlink()
        os.chown(folder / pages.REQUESTS, 65534, 65534)
        kept.take([ME])
        assert kept.all() == []
        os.chown(folder / pages.REQUESTS, 0, 0)
    given(kept, {KEY: {"reason": "x"}})
    (folder / pages.ANSWERS).symlink_to(secret)
    before = secret.read_text()
    kept.answer(ME, KEY, "Yes", "gus")
    assert secret.read_text() == before and not (folder / pages.ANSWERS).is_symlink()


def test_twenty_open_requests_are_enough(kept):
    """Does the course copy at most twenty open requests of a student, and further ones once some are
    answered?
    """
    keys = [f"{KEY}-{n:02}" for n in range(25)]
    assert len(given(kept, {key: {"reason": "x"} for key in keys})) == regrade_requests.MOST
    for key in keys[:3]:
        kept.answer(ME, key, "Yes", "gus")
    kept.take([ME])
    assert [request.key for request in kept.all() if not request.answer] and len(kept.all()) == 23


def test_an_answer_that_cannot_be_delivered_is_kept(kept, monkeypatch):
    """If an answer cannot be delivered, is this reported, and does the next start deliver it?"""
    given(kept, {KEY: {"reason": "x"}})

    def full(*_):
        raise OSError(28, "full")

    with monkeypatch.context() as patched:
        patched.setattr(regrade_requests.notices, "put", full)
        with pytest.raises(ActionError, match="full"):
            kept.answer(ME, KEY, "Yes", "gus")
    assert kept.all()[0].answer == "Yes"
    kept.deliver_all()
    assert (kept.people / ME / pages.ANSWERS).is_file()
