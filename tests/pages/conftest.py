"""Fixtures: a student's folder, its jobs, and a Jupyter server with the course's pages for this folder."""

import json
import time

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from .servers import notebook, people, serving, solution

FEEDBACK = """<html><head><title>Assignment 01: 4.5 of 7 points</title></head><body>
<table class="checks">
<tr class="lost"><td>✗</td><td><a href="#loops-right">The <code>loops</code> are right</a></td></tr>
<tr class="got"><td>✓</td><td><a href="#fast">Fast &amp; small</a></td></tr>
</table><main><tr class="got"><td>✓</td><td><a href="#no">None</a></td></tr></main></body></html>"""
EVIL = "net <img src=x onerror=alert(1)>"


def steps(epochs, pause):
    """Log metrics, print text with a script tag, and wait. The tests submit this function as a job."""
    import time

    from cluster.jobs import log

    for epoch in range(epochs):
        log(step=epoch + 1, steps=epochs, loss=1.0 / (epoch + 1))
        print(f"epoch {epoch} <script>alert(1)</script>", flush=True)
        time.sleep(pause)


def fails(why):
    """Raise ValueError. The tests submit this function as a job that fails."""
    raise ValueError(why)


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """A student's folder (a lecture, two assignments, feedback), with the course's notices to the student
    next to it.
    """
    root = tmp_path_factory.mktemp("student") / "work"
    lecture = root / "lectures" / "01_convolution.ipynb"
    first = root / "exercises" / "01_loops" / "loops.ipynb"
    second = root / "exercises" / "07_ranks" / "ranks.ipynb"
    page = first.parent / "feedback" / "2026-01-29 08:00:00.1 UTC" / "loops.html"
    for path in (lecture, first, second, page):
        path.parent.mkdir(parents=True)
    lecture.write_text(
        notebook(new_markdown_cell("# 1 · From <b>loops</b> to GEMM\n\n**Why so slow?**\n\nText."))
    )
    units = (
        '[01]\ntitle = "Loops"\nhours = "2 to 3"\n[07]\ntitle = "<i>Ranks</i>"\nneeds = ["01"]\nhours = "4"\n'
    )
    (lecture.parent / "units.toml").write_text(units)
    filled, stub = solution("y = x"), solution("# YOUR CODE HERE\nraise NotImplementedError")
    first.write_text(notebook(new_markdown_cell("# Assignment 01: loops"), filled, stub, new_code_cell("1")))
    second.write_text(notebook(new_markdown_cell("# 07 Make it data-parallel"), stub))
    page.write_text(FEEDBACK)
    facts = {
        "01_loops": {"due": "2026-01-31T22:59:00+00:00", "received": "2026-01-30T20:04:11.5+00:00"},
        "07_ranks": {
            "due": "2999-02-02T22:59:00+00:00",
            "extended_from": "2999-01-31T22:59:00+00:00",
            "given_back": "2026-02-03T10:00:00+00:00",
        },
    }
    people(root).mkdir(parents=True)
    (people(root) / "notice.json").write_text(json.dumps(facts))
    return root


@pytest.fixture(scope="session")
def shared(course):
    """The folder that the course shares with the user of these tests."""
    return people(course)


@pytest.fixture(scope="session")
def jobs(course):
    """Yield {name: Job} for a job that has ended, one that has failed, and one that runs until it is
    cancelled."""
    from cluster.jobs import submit

    runs = course / "exercises" / "07_ranks" / "runs"
    options = {"folder": runs, "backend": "local", "controller": "gloo"}
    submitted = {
        "done": submit(steps, epochs=4, pause=0.0, name="short", **options),
        "failed": submit(fails, why="<b>7</b> images & no labels", name="fails", **options),
        "running": submit(steps, epochs=100_000, pause=0.05, name=EVIL, **options),
    }
    submitted["done"].wait(progress=False, timeout=600)
    submitted["failed"].wait(progress=False, timeout=600)
    while submitted["running"].status != "running":
        assert not submitted["running"].status.ended
        time.sleep(0.2)
    yield submitted
    submitted["running"].cancel()


@pytest.fixture(scope="session")
def server(course, jobs, tmp_path_factory):
    """A server for the student's folder, with two cached submissions, JupyterLab and a logged-in user."""
    home = tmp_path_factory.mktemp("home")
    cache = home / ".local/share/jupyter/nbgrader_cache/course"
    for when, receipt in (("2026-01-29 08:00:00.1", False), ("2026-01-30 20:04:10.123456", True)):
        done = cache / f"ada+01_loops+{when} UTC"
        done.mkdir(parents=True)
        (done / "loops.ipynb").write_text("{}")
        (done / "timestamp.txt").write_text(when)
        if receipt:
            sent = {"<b>.ipynb": [2, "ab" * 32], "runs/short-1/run.json": [5, "cd" * 32]}
            facts = {"received": "2026-01-30T20:04:11.5+00:00", "files": sent}
            (done / "receipt.json").write_text(json.dumps(facts))
    panel = {"people": str(people(course).parent), "progress": True, "class_page": "/services/x/course/class"}
    with serving(course, home, {"cluster.pages": True, "jupyterlab": True}, CoursePanel=panel) as server:
        yield server
