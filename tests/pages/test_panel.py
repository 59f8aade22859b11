"""The start page and the jobs page show current data, only to their user, and with markup escaped."""

import datetime
import getpass
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import pytest

from cluster.pages import course_map, course_pages, drawings, hand_in, receipts, shared_folder, user_jobs
from cluster.staff.hub import users

PAGES = [
    "course",
    "course/",
    "course/jobs",
    "course/job?of=a",
    "course/cancel?of=a",
    "course/receipt?of=a&at=b",
]
POLICY = "Content-Security-Policy"
BACK = 'class="button" href="/user/ada/course"'  # on an error's page
SCRIPTS = re.compile(
    r"<script(?! type=\"module\" nonce=\"[\w-]+\" src=\"/user/ada/static/course_panel/page\.js\")"
    r"|<img|onerror=[^a]"
)


def of(course, job):
    """Return the path that identifies a job on the pages."""
    return str(job.folder.relative_to(course))


def link(course, job, page="job"):
    return f"course/{page}?{urllib.parse.urlencode({'of': of(course, job)})}"


@pytest.mark.servers
@pytest.mark.parametrize("page", PAGES)
def test_login_is_needed(server, page):
    """Is a user who is not logged in redirected to the login, and refused any change?"""
    _, text, _ = server.get(page, server.stranger)
    assert "<title>Jupyter Server" in text and "From Convolution" not in text
    if "cancel" in page:
        assert server.get(page, server.stranger, data={})[0] == 403


@pytest.mark.servers
def test_start_page_shows_the_progress(server):
    """Does the start page show lectures, assignments, progress, dates, submissions and points?"""
    status, text, _ = server.get("course")
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())
    assert status == 200
    assert "From <b>loops</b> to GEMM Why so slow?" in words
    assert "Loops submitted with 0 of 2 cells filled 50 % 1 of 2 cells filled was due Sat 31 Jan" in words
    assert "submitted Fri 30 Jan, 20:04 UTC , on time ; 2 submissions, receipt of assignment 01" in words
    assert "4.5 of 7 points for the submission of Thu 29 Jan, 08:00 UTC , feedback" in words
    assert "Make it data-parallel not started 0 % 0 of 1 cells filled 4 hours your extension: until" in words
    assert words.count("feedback is available") == 1, "of what was not fetched"
    assert "assignment 07" in words[words.index("Next:") :][:60]
    assert words.index("Make it data-parallel") < words.index("Why so slow?"), "assignments come first"
    assert "07 builds on 01." in text and "To come: 07 " in words
    assert text.count('<circle class="unit') == 2 and 'd="M34 20H46"' in text, "neighbours are joined"
    assert "<i>Ranks" not in text
    assert "Thu 31 Jan 2999" in words
    assert 'href="/services/x/course/class"' in text
    assert 'href="/user/ada/lab/tree/lectures/01_convolution.ipynb"' in text


@pytest.mark.servers
def test_jobs_are_listed_and_escaped(server, jobs):
    """Are the jobs listed with state and reason, running jobs first, and with hostile names as plain text?"""
    _, text, _ = server.get("course/jobs")
    rows = re.findall(r"<tr>.*?</tr>", text, re.DOTALL)[1:]
    assert len(rows) == 3 and html.escape(jobs["running"].name) in rows[0] and "running" in rows[0]
    assert "&lt;b&gt;7&lt;/b&gt; images &amp; no labels" in text and "100 %" in text
    assert "1 running, 2 ended." in text
    for job in jobs.values():
        assert job.folder.name.rpartition("-")[2] in text
    assert '<h2 id="group-1">Assignment 07</h2>' in text and text.count("<h2") == 1
    assert "epochs=4, pause=0.0" in text
    assert not SCRIPTS.search(text), SCRIPTS.search(text)


@pytest.mark.parametrize(
    "written, shown",
    [
        ("<function train at 0x7f12ab>", "f=train"),
        ("<function outer.<locals>.train at 0x7f12ab>", "f=outer.<locals>.train"),
        ("<bound method Model.fit of <Model at 0x7f>>", "f=<bound method Model.fit of Model>"),
        ("[1, 2]", "f=[1, 2]"),
        ("'a < b at 0xab'", "f='a < b at 0xab'"),
    ],
)
def test_arguments_are_shown_as_written(written, shown):
    """Are functions among a job's arguments shown by name, rather than by memory address?"""
    assert user_jobs.arguments({"arguments": {"f": written}}) == shown


@pytest.mark.servers
def test_job_page(server, course, jobs):
    """Does a job's page show its curve, its log and its call, all of it escaped?"""
    _, text, headers = server.get(link(course, jobs["done"]))
    assert (
        "&lt;script&gt;alert(1)" in text
        and 'aria-label="loss by step: rank 0 from 1 at 1 to 0.25 at 4."' in text
    )
    assert "4 of 4 steps" in text and "submit(steps, epochs=4" in text and "Cancel this job" not in text
    assert not SCRIPTS.search(text), SCRIPTS.search(text)
    assert "'nonce-" in headers[POLICY] and re.search("frame-ancestors .self.", headers[POLICY])
    _, text, _ = server.get(link(course, jobs["failed"]))
    assert "ValueError: &lt;b&gt;7" in text and "<b>7</b>" not in text


@pytest.mark.parametrize(
    "named",
    [
        "",
        "a",
        "../../etc",
        "exercises/07_ranks/runs/..",
        "exercises/07_ranks/runs/",
        "/etc/passwd",
        "runs/x\0",
    ],
)
@pytest.mark.servers
def test_nothing_else_is_opened(server, jobs, named):
    """If a path is not one of the user's jobs, is it refused?"""
    status, text, _ = server.get("course/job?" + urllib.parse.urlencode({"of": named}))
    assert status in (400, 404) and BACK in text


@pytest.mark.servers
@pytest.mark.parametrize("path", ["nothing", "class", "class/nothing", "jobs/1", "receipt"])
def test_what_is_no_page_leads_back(server, path):
    """Does a wrong URL below the start page's lead to the course's error page, but only for a logged-in
    user?
    """
    status, text, _ = server.get(f"course/{path}")
    assert status == (400 if path == "receipt" else 404)
    assert BACK in text and BACK not in server.get(f"course/{path}", server.stranger)[1]


@pytest.mark.servers
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
def test_jobs_of_others_are_not_read(server, course, jobs):
    """Is a job folder of another user listed as unreadable, and never opened?"""
    folder = jobs["failed"].folder
    os.chown(folder, 65534, 65534)
    try:
        text = server.get("course/jobs")[1]
        assert "1 could not be read" in text and folder.name in text
        assert server.get(link(course, jobs["failed"]))[0] == 404
    finally:
        os.chown(folder, 0, 0)


@pytest.mark.servers
def test_cancel_asks_and_needs_the_token(server, course, jobs):
    """Is a job cancelled only after a confirmation, by a POST with the XSRF token, and does the page then
    show this?"""
    job = jobs["running"]
    address = link(course, job, "cancel")
    status, text, _ = server.get(address)
    assert status == 200 and f"Cancel {html.escape(jobs['running'].name)}?" in text
    assert server.get(address, data={})[0] == 403 and not job.status.ended
    assert server.get(address, data={"_xsrf": "guessed"})[0] == 403 and not job.status.ended
    token = re.search(r'name="_xsrf" value="([^"]+)"', text)[1]
    status, text, _ = server.get(address, data={"_xsrf": token})
    assert status == 200 and f"<h1>{html.escape(jobs['running'].name)}</h1>" in text
    job.wait(progress=False, timeout=240)
    assert job.status == "cancelled"
    assert "cancelled" in server.get(link(course, job))[1]
    assert 'type="submit"' not in server.get(address)[1]


def test_server_stays_light():
    """Can the pages be imported without TensorFlow, NumPy or other heavy libraries, so that each student's
    server stays small?
    """
    heavy = ("tensorflow", "keras", "horovod", "pandas", "matplotlib", "numpy", "nbgrader")
    code = "import sys, cluster.pages.extension, cluster.jobs.show.watch, cluster.jobs.job_table\n"
    code += f"print(*(m for m in {heavy} if m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == []


def test_chart_draws_each_line():
    """Is each point of a chart at its position, and a hostile name escaped?"""
    picture = drawings.chart("step", "<b>loss</b>", {"rank 0": [(0, 0.0), (10, 2.0)]})
    left, right, top, bottom = (
        drawings.LEFT,
        drawings.WIDTH - drawings.RIGHT,
        drawings.TOP,
        drawings.HEIGHT - drawings.BOTTOM,
    )
    assert f'd="M{left:.1f} {bottom:.1f}L{right:.1f} {top:.1f}"' in picture
    assert "<b>" not in picture and "rank 0 from 0 at 0 to 2 at 10." in picture
    assert drawings.chart("step", "loss", {"rank 0": []}) == ""


@pytest.mark.parametrize("low, high", [(0, 10), (0.001, 0.0021), (-3.3, 4e6), (5, 5), (1e-12, 1)])
def test_ticks_are_few_and_inside(low, high):
    """Does an axis have one to eight ticks, in order, between its ends?"""
    ticks = drawings.ticks(low, high)
    assert 1 <= len(ticks) <= 8 and ticks == sorted(ticks)
    assert all(low - 1e-9 * abs(high) <= tick <= high * (1 + 1e-9) for tick in ticks)


def test_search_is_bounded(tmp_path):
    """Are folders of runs found down to four levels, but not through links, in hidden folders or inside each
    other?
    """
    for path in ("runs", "a/runs", "a/b/c/runs", "a/b/c/d/runs", ".hidden/runs", "a/runs/x/runs"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert {str(p.relative_to(tmp_path)) for p in user_jobs.search(tmp_path)} == {
        "runs",
        "a/runs",
        "a/b/c/runs",
    }


def test_damaged_notebook_does_not_hide_the_others(tmp_path):
    """If a lecture's notebook is invalid JSON, is the lecture listed with its file name as its title?"""
    (tmp_path / "lectures").mkdir()
    (tmp_path / "lectures" / "02_networks_that_learn.ipynb").write_text("{")
    (lecture,) = course_map.lectures(tmp_path, "lectures")
    assert lecture.title == "Networks that learn"


def test_dates_in_words():
    """Are dates without a time zone refused, and time differences rounded down?"""
    assert course_map.moment("2026-01-31 23:59") is None and course_map.moment(7) is None
    now = datetime.datetime.now(datetime.UTC)
    assert course_pages.until(now + datetime.timedelta(days=3, seconds=5)) == "in 3 days"
    assert course_pages.until(now - datetime.timedelta(hours=1, seconds=5)) == "1 hour ago"
    assert receipts.stamped("ada+01_loops+2026-01-30 20:04:10.123456 UTC").hour == 20
    assert receipts.stamped("ada+01_loops+yesterday") is None


@pytest.mark.servers
def test_receipt_says_what_the_server_had(server):
    """Does the receipt show time, lateness, collection and hashes, escaped as text?"""
    _, start, _ = server.get("course")
    address = html.unescape(re.search(r'href="/user/ada/(course/receipt[^"]+)"', start)[1])
    status, text, _ = server.get(address)
    assert status == 200 and "Fri 30 Jan 2026, 20:04:11 UTC" in text and "on time" in text
    assert "yes, with this time" in text and "2 of 2" in text and "ab" * 32 in text
    assert "&lt;b&gt;.ipynb" in text and not SCRIPTS.search(text)
    assert (
        text.index("&lt;b&gt;.ipynb")
        < text.index("1 other file, such as recorded runs")
        < text.index("run.json")
    )
    status, plain, headers = server.get(f"{address}&as=text")
    assert plain.count("ab" * 32) == 1 and "<b>.ipynb" in plain
    assert headers["Content-Type"].startswith("text/plain") and "attachment" in headers["Content-Disposition"]
    older = html.unescape(re.findall(r'href="/user/ada/(course/receipt[^"]+)"', text)[-1])
    _, text, _ = server.get(older)
    assert "1 of 2" in text and "a later submission was" in text and hashlib.sha256(b"{}").hexdigest() in text
    assert server.get("course/receipt?of=01_loops&at=../../x")[0] == 404


@pytest.mark.servers
def test_progress_is_written_for_the_course_alone(server, shared):
    """Is the number of filled cells recorded in the shared folder, in a file that other users cannot read,
    and updated when a notebook is saved?
    """
    server.get("course")
    told = shared / "progress.json"
    assert json.loads(told.read_text()) == {"01_loops": [1, 2], "07_ranks": [0, 1]}
    assert told.stat().st_mode & 0o777 == 0o640
    path = "exercises/01_loops/loops.ipynb"
    content = json.loads(server.get(f"api/contents/{path}")[1])["content"]
    stub = next(cell for cell in content["cells"] if "NotImplementedError" in cell["source"])
    before, stub["source"] = stub["source"], "y = 2 * x"
    for source, filled in (("y = 2 * x", 2), (before, 1)):
        stub["source"] = source
        server.put(f"api/contents/{path}", {"type": "notebook", "content": content})
        until = time.monotonic() + 30
        while json.loads(told.read_text())["01_loops"] != [filled, 2]:
            assert time.monotonic() < until, "saving a notebook tells the progress"
            time.sleep(0.05)


def test_progress_is_not_written_where_it_cannot(tmp_path):
    """If the shared folder is missing or not configured, are writing the progress and reading notices skipped
    without an error?
    """
    assignment = course_map.Assignment("01_loops", "01", "Loops", "x.ipynb", 1, 2)
    shared_folder.write_progress(None, [assignment])
    shared_folder.write_progress(tmp_path / "gone", [assignment])
    assert (
        shared_folder.read_notice(None) == {}
        and shared_folder.read_notice(tmp_path / "gone") == {}
        and not list(tmp_path.iterdir())
    )


def test_a_receipt_is_what_collecting_reads(tmp_path):
    """Does a receipt show the time that `grade collect` reads from the same folder, and all submitted files,
    even with unusual names?
    """
    from cluster.staff.submissions import collect

    folder = tmp_path / f"{getpass.getuser()}+01_loops+2026-01-30 20:04:10.1 UTC+random"
    (folder / "runs").mkdir(parents=True)
    for name in ("loops.ipynb", "runs/record.json", "timestamp.txt", "submission_secret.txt"):
        (folder / name).write_text(name)
    seen = receipts.facts_of(folder)
    assert seen["received"] == collect.examine(folder, "01_loops", True).when.isoformat()
    assert sorted(seen["files"]) == ["loops.ipynb", "runs/record.json"]
    assert seen["files"]["loops.ipynb"] == (11, hashlib.sha256(b"loops.ipynb").hexdigest())
    (folder / "bad\udcff\n.txt").write_text("")
    listed = [name for name, _, _ in receipts.files(receipts.HandIn(folder, None, False))]
    assert listed == ["loops.ipynb", r"bad\xff\n.txt", "runs/record.json"], "each is a line of a page"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("closed", ["exchange", "exchange/course/outbound", "exchange/course/inbound"])
def test_a_closed_exchange_does_not_hide_fetched_assignments(closed):
    """If the student cannot enter the exchange, are fetched assignments still listed, and is the problem
    reported before submitting?"""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        released = Path(top, "exchange/course/outbound")
        for folder in (released / "02_nets", released.parent / "inbound", Path(top, "work/01_loops")):
            folder.mkdir(parents=True)
        Path(top, "work/01_loops/loops.ipynb").write_text(json.dumps({"cells": []}))
        os.chmod(top, 0o755)
        os.chmod(released.parent / "inbound", 0o733)

        def seen():
            home, given = Path(top), str(released)
            assignments = course_map.assignments(home, ["work"], given, {}, home / "cache")
            blockers = hand_in.facts(assignments[0], home, None, given)["blockers"]
            return (
                [assignment.name for assignment in assignments],
                course_map.handed_out(given) is None,
                blockers,
            )

        seen()  # imports what it needs now, because the other user may not be able to read it
        assert users.acting("nobody", seen) == [["01_loops", "02_nets"], False, [hand_in.NOWHERE]]
        os.chmod(f"{top}/{closed}", 0o700)
        names, shut_out, _ = users.acting("nobody", seen)
        assert names == (["01_loops", "02_nets"] if "inbound" in closed else ["01_loops"])
        assert shut_out == ("inbound" not in closed)
        if "outbound" not in closed:
            assignment = course_map.Assignment("01_loops", "01", "Loops", "work/01_loops/loops.ipynb")
            blockers = lambda: hand_in.facts(assignment, Path(top), object(), str(released))["blockers"]  # noqa: E731
            assert users.acting("nobody", blockers) == [hand_in.REASONS["write permissions"]]


def test_what_is_released_and_not_fetched_has_its_title(tmp_path):
    """If an assignment has not been fetched, is it listed by its notebook's heading, or else by its folder's
    name?"""
    for name, text in (("01_loops", "# Assignment 01: From loops to GEMM"), ("02_nets", "no heading")):
        (tmp_path / name).mkdir()
        cell = {"cell_type": "markdown", "source": text, "metadata": {}}
        (tmp_path / name / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    rows = course_map.assignments(tmp_path / "home", ["assignments"], str(tmp_path), {}, tmp_path / "cache")
    assert [(row.title, row.path) for row in rows] == [("From loops to GEMM", ""), ("Nets", "")]
