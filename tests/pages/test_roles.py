"""What graders may request from the class page's server, however the request is spelt."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from jupyter_server.base.handlers import AuthenticatedFileHandler
from jupyter_server.services.contents.handlers import ContentsHandler
from nbgrader.server_extensions.formgrader import apihandlers, handlers

from cluster.pages import course_pages
from cluster.staff.class_page import handlers as class_page
from cluster.staff.class_page import permissions

from .. import ROOT

PAGES = ("nbgrader.server_extensions.formgrader.", "cluster.staff.class_page.")
AROUND = {
    "Start",
    "FileFindHandler",
    "TrailingSlashHandler",
    "LoginFormHandler",
    "MainHandler",
    "Template404",
}
CHANGES = {
    ("PUT", "GradeHandler"), ("PUT", "CommentHandler"), ("POST", "FlagSubmissionHandler"), ("POST", "Do"),
    ("POST", "Answer"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "handler", "may"),
    [
        ("GET", course_pages.Start, True),
        ("GET", class_page.Points, True),
        ("HEAD", handlers.GradebookNotebooksHandler, True),
        ("GET", apihandlers.GradeCollectionHandler, True),
        ("PUT", apihandlers.GradeHandler, True),
        ("PUT", apihandlers.CommentHandler, True),
        ("POST", class_page.Answer, True),
        ("GET", course_pages.Jobs, False),
        ("GET", ContentsHandler, False),
        ("GET", AuthenticatedFileHandler, False),
        ("POST", apihandlers.GradeHandler, False),
        ("PUT", apihandlers.StudentHandler, False),
        ("POST", apihandlers.ReleaseHandler, False),
        ("DELETE", apihandlers.GradeHandler, False),
        ("OPTIONS", ContentsHandler, False),
        (None, class_page.Class, False),
    ],
)
def test_what_a_grader_may_ask_for(method, handler, may):
    """May a grader make exactly the requests that show or grade submissions?"""
    assert permissions.permitted(method, handler) == may


def test_no_spelling_of_a_path_leads_further(tmp_path):
    """Does a grader reach no other handler of the server, whatever the request's path and method? Does an
    instructor reach the others with the same requests?"""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    env = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")}
    env |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.pages.grader_routes", "1500"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    reached = Counter(map(tuple, json.loads(done.stdout.splitlines()[-1])))
    print(*sorted(reached.items()), sep="\n")
    more = set()
    for user, method, module, name in reached:
        page = module.startswith(PAGES) or name in AROUND
        if (method in ("GET", "HEAD") and page) or (method, name) in CHANGES:
            continue
        more.add((user, name))
    assert not [name for user, name in more if user == "gus"]
    assert len({name for user, name in more if user == "ines"}) > 15
    assert any(user == "gus" for user, *_ in reached)
