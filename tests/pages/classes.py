"""The grader's server in the tiny course, with an exchange, and a browser that is logged in to it."""

import contextlib
import datetime
import json
import time

import nbformat

from cluster.staff.course import Course
from cluster.staff.release.release import release

from ..browser import browser
from ..grading.courses import add_exchange, make_course
from .servers import serving

NAME = "99_doubling"
FORMGRADER = "nbgrader.server_extensions.formgrader"


def make_class(folder, more=""):
    """Release the tiny course in `folder`, with an exchange; return the Course. more: the end of its twin."""
    root = make_course(folder)
    with open(root / "solutions" / NAME / "doubling.py", "a") as twin:
        twin.write(more)
    add_exchange(root, folder / "exchange")
    release(root)
    return Course(root)


def released(course):
    return nbformat.read(course.root / "exercises" / NAME / "doubling.ipynb", as_version=4)


def collected(course, student, notebook, when):
    """Put a notebook in place as `grade collect` does. when: naive UTC."""
    folder = course.folder("submitted", student, NAME)
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / "doubling.ipynb")
    received = {"received": when.replace(tzinfo=datetime.UTC).isoformat()}
    (folder / "received.json").write_text(json.dumps(received))


@contextlib.contextmanager
def graders_server(root, home, class_page="cluster.staff.class_page"):
    """Yield the grader's Server, with the class page and Formgrader."""
    home.mkdir()
    with serving(root, home, {"cluster.pages": True, class_page: True, FORMGRADER: True}) as server:
        server.root = root
        yield server


@contextlib.contextmanager
def logged_in(server):
    """Yield a page of a browser that is logged in to a server."""
    cookie = next(cookie for cookie in server.cookies if cookie.name.startswith("username"))
    with browser() as page:
        page.context.add_cookies([{"name": cookie.name, "value": cookie.value, "url": server.url}])
        yield page


def wait_for(server, address, *phrases, seconds=120):
    """Request a page until it contains these phrases; return its text."""
    until = time.monotonic() + seconds
    while not all(phrase in (text := server.get(address)[1]) for phrase in phrases):
        assert time.monotonic() < until, text
        time.sleep(0.2)
    return text
