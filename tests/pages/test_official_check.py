"""The page of the official check, with a fake service: what it sends, and what it shows."""

import html
import io
import json
import re
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from .. import ROOT
from ..browser import LOOKS, browser, log_in, look, needs_browser, overflows, violations
from .servers import notebook, serving, solution

pytestmark = pytest.mark.servers
HOSTILE = "<img src=x onerror=alert(1)>"
PAGE = "course/check?of=01_loops"


def row(name, state, got, most, explanation="", misunderstanding=""):
    return {"name": name, "title": f"The title of {name}", "points": got, "of": most, "state": state,
            "words": explanation, "misunderstanding": misunderstanding}  # fmt: skip


ANSWER = {
    "points": 3.0, "of": 7.0, "trouble": "",
    "checks": [
        row("one", "passed", 3.0, 3.0),
        row("two", "shown", 0.0, 2.0, "Validate shows how.", f"Padding is added on one side only {HOSTILE}"),
        row("three", "hidden", 0.0, 1.0, "A hidden test has another result, or ends in an error."),
        row("four", "to do", 0.0, 1.0, "You have not filled this in yet."),
        row("six", "to do", 0.0, 1.0, "You have not filled this in yet."),
        row("five", "by hand", 0.0, 2.0, "This answer is graded manually."),
    ],
}  # fmt: skip


class StandIn(ThreadingHTTPServer):
    """A fake service; `state` and `status` determine the next answer."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked, self.status = [], 200
        self.state = {"an_hour": 3, "in_all": 30, "left": 3, "tried": 0, "opens": time.time(), "answer": None,
                      "answered": None}  # fmt: skip


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization"), body))
        text = json.dumps(self.server.state).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *_):
        """Do nothing."""


@pytest.fixture(scope="module")
def stand_in():
    instance = StandIn()
    threading.Thread(target=instance.serve_forever, daemon=True).start()
    yield instance
    instance.shutdown()
    instance.server_close()


@pytest.fixture(scope="module")
def server(stand_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    path = folder / "work/exercises/01_loops/loops.ipynb"
    path.parent.mkdir(parents=True)
    role = {"nbgrader": {"grade_id": "two", "grade": True, "solution": False, "locked": True, "points": 2}}
    check = new_code_cell("assert y == 1", metadata=role)
    path.write_text(notebook(new_markdown_cell("# Assignment 01: loops"), solution("y = 1"), check))
    (path.parent / "runs").mkdir()
    (path.parent / "runs/run.json").write_text("1")
    (folder / "home").mkdir()
    panel = {"check": f"http://127.0.0.1:{stand_in.server_port}/services/check/"}
    with serving(
        folder / "work", folder / "home", {"cluster.pages": True, "jupyterlab": True}, CoursePanel=panel
    ) as server:
        yield server


def form(server):
    text = server.get(PAGE)[1]
    return {"_xsrf": re.search(r'name="_xsrf" value="([^"]+)"', text)[1]}


def test_what_is_sent_and_shown(server, stand_in):
    """Does the page send the assignment's folder with the server's token? Does it show points, explanations
    and remaining checks, with hostile text escaped?
    """
    assert PAGE in html.unescape(server.get("course")[1])
    assert "0 of 30" in server.get(PAGE)[1]
    stand_in.state |= {"answer": ANSWER, "answered": time.time(), "left": 2, "tried": 1}
    status, text, _ = server.get(PAGE, data=form(server))
    assert status == 200 and "3 of 7 points" in text and "Padding is added" in text
    assert HOSTILE not in text and html.escape(HOSTILE) in text
    assert text.count(ANSWER["checks"][3]["words"]) == 1, "an explanation of several checks is shown once"
    _, path, token, body = next(request for request in stand_in.asked if request[0] == "POST")
    assert path == "/services/check/01_loops" and token.startswith("token")
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert set(archive.namelist()) == {"loops.ipynb", "runs/run.json"}


def test_no_attempt_is_available(server, stand_in):
    """If no check is available now, does the page show when the next one is, or that none are left, without a
    button?
    """
    later = stand_in.state | {"left": 0, "tried": 3, "opens": time.time() + 1800, "words": "They are used."}
    before, stand_in.state, stand_in.status = stand_in.state, later, 429
    try:
        text = " ".join(server.get(PAGE, data=form(server))[1].split())
        assert "They are used." in text and 'id="check-now"' not in text
        stand_in.state = later | {"opens": None}
        assert server.get(PAGE)[1].count("<time") == text.count("<time") - 1
    finally:
        stand_in.state, stand_in.status = before, 200


@pytest.mark.parametrize("status, state", [(500, {}), (200, [1]), (502, "x")])
def test_a_service_that_says_something_else(server, stand_in, status, state):
    """If the service gives an unexpected answer, does the page report that the service does not answer,
    without a traceback?"""
    before, stand_in.state, stand_in.status = stand_in.state, state, status
    try:
        result = server.get(PAGE)
        assert result[0] == 503 and 'id="trouble"' in result[1] and "Traceback" not in result[1]
    finally:
        stand_in.state, stand_in.status = before, 200


def test_strangers_and_odd_names(server):
    """Is the page refused without a login and for an unknown assignment? Is a check refused without the
    XSRF token?
    """
    assert server.get(PAGE, server.stranger)[0] in (403, 200)  # 200: the login page
    assert "checks open" not in server.get(PAGE, server.stranger)[1]
    assert server.get("course/check?of=../secret")[0] == 404
    assert server.get(PAGE, data={})[0] == 403, "a POST needs the token"


@needs_browser
def test_the_page_is_accessible(server, stand_in):
    """Does the page pass axe's checks and fit into the window before a check, after one and when none are
    left, at 320 pixels in dark mode, and in `make test-all` at 1200 pixels in light mode?
    """
    folder = ROOT / "build" / "screens" / "check"
    folder.mkdir(parents=True, exist_ok=True)
    none = {"answer": None, "answered": None, "left": 3, "tried": 0}
    states = {"before": none, "after": {"answer": ANSWER, "answered": time.time(), "left": 2, "tried": 1},
              "used": {"answer": ANSWER, "answered": time.time(), "left": 0, "tried": 3}}  # fmt: skip
    with browser() as page:
        log_in(page, server)
        for state, facts in states.items():
            stand_in.state |= facts
            for scheme, width in LOOKS:
                look(page, server.url + PAGE, scheme, width)
                page.screenshot(path=folder / f"{state}-{scheme}.png", full_page=True)
                assert violations(page) == [], f"{state}, {scheme}"
                assert overflows(page) <= 0, f"{state} at {width} pixels"


@needs_browser
def test_the_button_above_a_notebook(server, stand_in):
    """In JupyterLab, does the Check button open the page next to the notebook? Does the page's own button
    show the result there, with links to the notebook's cells?
    """
    stand_in.state |= {"answer": None, "answered": None, "left": 3, "tried": 0}
    with browser(1400, 900) as page:
        log_in(page, server)
        page.goto(server.url + "lab/tree/exercises/01_loops/loops.ipynb?reset")
        # accept the offered kernel, because the notebook names none
        page.locator(".jp-Dialog .jp-mod-accept").click()
        page.locator(".jp-Dialog").wait_for(state="detached")
        buttons = page.locator(".jp-NotebookPanel-toolbar .jp-ToolbarButton[class*=course-]")
        for phrase in ("Validate", "Check", "Submit"):
            buttons.filter(has_text=phrase).wait_for()
        assert [" ".join(text.split()) for text in buttons.all_inner_texts()] == [
            "Validate",
            "Check",
            "Submit",
        ]
        page.locator(".jp-NotebookPanel .course-check").click()
        page.locator("#check-now").wait_for()
        stand_in.state |= {"answer": ANSWER, "answered": time.time(), "left": 2, "tried": 1}
        page.click("#check-now")
        page.locator("#counts").wait_for()
        assert "3 of 7 points" in page.locator("#counts").inner_text()
        page.screenshot(path=ROOT / "build" / "screens" / "check" / "lab.png")
        page.click("#failed a:has-text('The title of two')")
        page.wait_for_selector(".jp-Cell.jp-mod-active:has-text('assert y == 1')")
        page.click("#passed a:has-text('The title of one')")  # the cell is missing, so nothing happens
        assert page.locator(".jp-Cell.jp-mod-active:has-text('assert y == 1')").count() == 1
        page.click("#jp-MainMenu .lm-MenuBar-itemLabel:text-is('Course')")
        items = page.locator(".lm-Menu-itemLabel").all_inner_texts()
        assert [text for text in items if text.strip()] == ["Start Page", "Jobs"], "no class page here"
        assert page.locator(".jp-NotebookPanel .validate-button").count() == 0, "nbgrader's own is gone"
