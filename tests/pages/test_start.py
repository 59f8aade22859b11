"""The start page's suggestion of the next step, and its buttons for copying lectures and fetching
assignments.
"""

import datetime
import re

import pytest
from nbformat.v4 import new_markdown_cell

from cluster.pages import buttons, course_map, course_pages
from cluster.pages.course_map import Assignment, Lecture
from cluster.pages.receipts import HandIn

from .servers import notebook, serving

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def one(number, path="a.ipynb", filled=0, due=NOW + DAY, handed_in=None, **more):
    """Return an assignment with three cells to fill in. handed_in: how many of them were filled in the latest
    submission, or None if there is no submission.
    """
    hand_ins = [HandIn(None, NOW, True)] if handed_in is not None else []
    kind = type("Given", (Assignment,), {"last_filled": handed_in}) if hand_ins else Assignment
    return kind(f"{number}_x", number, "X", path, filled, 3, due=due, hand_ins=hand_ins, **more)


LECTURES = [Lecture(number, "", "", "") for number in ("01", "03")]


@pytest.mark.parametrize(
    "expected, assignments",
    [
        (("read", "01"), []),
        (("read", "01"), [one("01", path="")]),
        (("go on", "01"), [one("01", filled=1), one("03", path="")]),
        (("submit", "01"), [one("01", filled=3)]),
        (("fetch", "03"), [one("01", handed_in=3), one("03", path="")]),
        (("go on", "01"), [one("01", filled=1, handed_in=1), one("03", path="")]),
        (("submit", "01"), [one("01", filled=3, handed_in=1)]),
        (("fetch", "03"), [one("01", filled=1, handed_in=1, due=None), one("03", path="")]),
        (("read", "03"), [one("01", filled=1, handed_in=1, due=NOW - DAY)]),
        (("read", "03"), [one("01", filled=1, handed_in=1, feedback="f", fetched=NOW)]),
        (("fetch", "03"), [one("01", due=NOW - DAY), one("03", path="")]),
        (("feedback", "01"), [one("01", handed_in=3, given_back=NOW), one("03")]),
        (("feedback", "01"), [one("01", handed_in=3, given_back=NOW, feedback="f", fetched=NOW - DAY)]),
        (("read", "03"), [one("01", handed_in=3, given_back=NOW, feedback="f", fetched=NOW + DAY)]),
        (("read", "01"), [one("03", handed_in=3)]),
        (("nothing", None), [one("01", handed_in=3), one("03", handed_in=3)]),
        (("nothing", None), [one("01", due=NOW - DAY), one("03", handed_in=3)]),
    ],
)
def test_next_step(expected, assignments):
    """Does the page suggest the right next step for each state of the assignments?"""
    step = course_map.suggested(LECTURES, assignments)
    assert (step.do, getattr(step.subject, "number", None)) == expected


def test_a_question_may_have_two_lines(tmp_path):
    """Does the start page show each lecture's question, even one of two lines, and no other bold text?"""
    text = "# 4 · One\n\n**Many are possible. Where does\nthe rest go?**\n\n**Bold** words. Why **not**?"
    (tmp_path / "04_one.ipynb").write_text(notebook(new_markdown_cell(text)))
    (tmp_path / "05_two.ipynb").write_text(notebook(new_markdown_cell("# 5\n\n**Bold** words. Why **not**?")))
    lectures = course_map.lectures(tmp_path, "")
    assert [lecture.question for lecture in lectures] == ["Many are possible. Where does the rest go?", ""]


def test_names_in_a_title_are_code():
    """Does a check's title show `names` as code, and markup as text?"""
    assert course_pages.coded("Every `k`-th <b>") == "Every <code>k</code>-th &lt;b&gt;"


def test_a_copy_never_overwrites(tmp_path):
    """Does copying a lecture also copy its figures and records, all writable, and leave existing files
    unchanged?"""
    there, home = tmp_path / "course", tmp_path / "home" / "lectures"
    for name in ("01_loops.ipynb", "figures/01_a.svg", "runs/08_large/job.json", "other/x"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text("course")
        (there / name).chmod(0o444)
    (home / "runs").mkdir(parents=True)
    assert buttons.copy_lecture(there / "01_loops.ipynb", home) == home / "01_loops.ipynb"
    results = {p.relative_to(home).as_posix(): p for p in home.rglob("*") if p.is_file()}
    assert set(results) == {"01_loops.ipynb", "figures/01_a.svg", "runs/08_large/job.json"}
    assert all(p.stat().st_mode & 0o200 for p in results.values())
    results["01_loops.ipynb"].write_text("mine")
    buttons.copy_lecture(there / "01_loops.ipynb", home)
    assert results["01_loops.ipynb"].read_text() == "mine"


FETCHING = '''
from pathlib import Path


class Fetches:
    """Stands for nbgrader's Assignment List; its own is tried in the browser's way on a hub."""

    def fetch_assignment(self, course, name):
        assert course == "conv"
        folder = Path("assignments", name)
        folder.mkdir(parents=True)
        (folder / "x.ipynb").write_text('{"cells": []}')
        return {"success": True}

    def fetch_feedback(self, course, name):
        return {"success": False, "value": "no feedback"}


def _load_jupyter_server_extension(app):
    app.web_app.settings["assignment_list_manager"] = Fetches()


def _jupyter_server_extension_points():
    return [{"module": "fetching"}]
'''


@pytest.mark.servers
def test_buttons(tmp_path, monkeypatch):
    """Do the buttons require the XSRF token, copy and fetch only what the course offers, and then let the
    page open the new file?
    """
    root, released = tmp_path / "home" / "work", tmp_path / "exchange" / "conv" / "outbound"
    (released / "01_loops").mkdir(parents=True)
    (root / "course" / "lectures").mkdir(parents=True)
    (root / "course" / "lectures" / "01_loops.ipynb").write_text(notebook(new_markdown_cell("# 1 Loops")))
    (root / "course" / "lectures" / "GLOSSARY.md").write_text("# Glossary\n")
    (root / "fetching.py").write_text(FETCHING)
    panel = {"lectures": "course/lectures", "copies": "lectures", "released": str(released)}
    extensions = {"cluster.pages": True, "jupyterlab": True, "fetching": True}
    extensions["nbgrader.server_extensions.assignment_list"] = False
    monkeypatch.chdir(root)
    with serving(root, tmp_path / "home", extensions, CoursePanel=panel) as server:
        _, text, _ = server.get("course")
        assert '/GLOSSARY.md"' in text and 'value="course/lectures/01_loops.ipynb"' in text
        token = re.search(r'name="_xsrf" value="([^"]+)"', text)[1]

        def act(**what):
            status, text, _ = server.get("course/act", data={"_xsrf": token} | what)
            return status, text

        copy = {"copy": "course/lectures/01_loops.ipynb"}
        assert server.get("course/act", data=copy)[0] == 403
        assert not (root / "lectures").exists()
        assert act(**copy)[0] == 200 and (root / "lectures" / "01_loops.ipynb").is_file()
        assert 'data-open="lectures/01_loops.ipynb"' in server.get("course")[1]
        assert act(copy="lectures/01_loops.ipynb")[0] == 404
        assert act(fetch="../01_loops")[0] == 404 and act()[0] == 400
        assert act(feedback="01_loops")[0] == 503
        assert act(fetch="01_loops")[0] == 200
        assert 'data-open="assignments/01_loops/x.ipynb"' in server.get("course")[1]
