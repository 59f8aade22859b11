"""Test the cycle from release to feedback in a browser on a real hub, with an instructor and two students.

Screenshots of the pages are saved in build/screens/. CI runs TestSmall, with the small course of the tests.
`make test-hub` runs TestWhole, too, with lecture 01, assignment 01 and a real Slurm.
"""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from cluster.staff.hub import daemons
from cluster.staff.release.release import release
from cluster.staff.release.wrong_solutions import fill

from .. import ROOT
from ..browser import needs_browser, overflows, violations
from . import small_course
from .desk import START, Album, sits
from .hub import COURSE, PREFIX, Hub, skip_or_fail

pytestmark = [needs_browser, pytest.mark.servers, pytest.mark.timeout(1200)]
CONTENT = ["heading-order", "empty-heading", "image-alt", "svg-img-alt", "link-name", "table-duplicate-name"]
JOB = """\
import time
from pathlib import Path

from cluster import submit
from cluster.jobs import log


def train(steps):
    for step in range(steps):
        log(step=step + 1, steps=steps, loss=1 / (step + 1))
    until = time.monotonic() + 240
    while time.monotonic() < until and not Path("~/seen").expanduser().exists():
        time.sleep(0.1)


job = submit(train, steps=40)
"""


class TheWay:
    """The steps from release to feedback, in order. Each subclass runs them with another course."""

    def test_an_instructor_releases(self, hub, album):
        """Does an instructor see the course in JupyterLab's course list? Can they generate and release an
        assignment with Formgrader's buttons?"""
        with sits(hub, "ines", album) as ines:
            ines.log_in()
            ines.shot("start")
            ines.menu("Nbgrader", "Course List")
            ines.page.wait_for_selector(f"a:has-text('{COURSE}')")
            ines.shot("course-list")
            ines.formgrader()
            ines.page.wait_for_selector(f"tr:has-text('{self.assignment}') .assign a")
            ines.shot("assignments")
            link = ines.page.locator(f".name a:has-text('{self.assignment}')").get_attribute("href")
            assert link == f"/services/{COURSE}/lab/tree/solutions/{self.assignment}"
            ines.press(self.assignment, "assign", 300)
            ines.press(self.assignment, "release")
            ines.page.wait_for_selector(f"tr:has-text('{self.assignment}') .label-success")
            ines.shot("released")

    def test_a_student_runs_the_first_lecture(self, hub, album):
        """After login, can a student open the first lecture from the start page and run it to its end? Are
        its figures shown?"""
        with sits(hub, "ada", album) as ada:
            ada.log_in()
            ada.shot("start")
            ada.page.click("a[data-open$='.ipynb']")
            ada.opened()
            ada.page.wait_for_timeout(2000)  # time for the kernel's information to arrive
            assert not ada.page.locator(".lm-TabBar-tab.jp-mod-dirty").count()
            ada.shot("lecture")
            assert ada.pictures() > 0
            ada.run_all(self.patience, self.last_words)
            ada.shot("lecture-end")
            assert violations(ada.page, within=".jp-Notebook", rules=CONTENT, looked=2) == []

    def test_a_student_watches_a_job(self, hub, album):
        """Does the jobs page show a notebook's job while it runs, with its curve, and after its end? Are the
        start page and the jobs page free of accessibility violations?"""
        with sits(hub, "ada", album) as ada:
            ada.log_in()
            ada.new_notebook()
            ada.fill(0, JOB)
            ada.page.keyboard.press("Shift+Enter")
            ada.menu("Course", "Jobs")
            ada.page.click("a:has-text('train')", timeout=START)
            ada.page.wait_for_selector("#summary .state.running", timeout=START)
            ada.page.wait_for_selector("#curves svg.chart")
            ada.shot("job-running")
            seen = Path(os.path.expanduser(f"~{ada.user}/seen"))
            seen.touch()
            ada.page.wait_for_selector("#summary .state.done", timeout=START)
            ada.shot("job-done")
            for path in ("course", "course/jobs"):
                assert ada.go(f"/user/{ada.user}/{path}") == 200
                ada.shot(path.replace("/", "-"))
                assert violations(ada.page) == []

    def test_a_student_works_and_submits(self, hub, album):
        """Can a student fetch an assignment, validate it before and after filling it in, and submit it both
        from the notebook and from the assignment list?"""
        with sits(hub, "ada", album) as ada:
            ada.log_in()
            ada.page.click(f"#fetch-{self.assignment[:2]}")
            ada.opened()
            ada.page.wait_for_timeout(2000)  # time for the kernel's information to arrive
            assert not ada.page.locator(".lm-TabBar-tab.jp-mod-dirty").count()
            ada.shot("assignment")
            assert self.notebook in ada.page.url
            buttons = ada.notebook.locator(".jp-NotebookPanel-toolbar").get_by_text("Validate", exact=True)
            buttons.first.wait_for()
            assert buttons.count() == 1
            assert ada.validate(self.patience).startswith(f"0 failed, {self.checks} still to do")
            ada.page.click("#to-do .quiet a")
            ada.page.wait_for_selector(".jp-Cell.jp-mod-active:has-text('NotImplementedError')")
            for number, text in answers(hub, ada.user, self.assignment, self.notebook):
                ada.fill(number, text)
            ada.shot("assignment-filled")
            ada.run_all(self.patience)
            assert ada.validate(self.patience).startswith("0 failed, 0 still to do")
            assert "Submitted by" in ada.hand_in()
            ada.assignments()
            ada.submit(self.assignment)
            ada.page.wait_for_selector(
                f".Toastify__toast:has-text('Assignment {self.assignment[:2]} is submitted')",
                state="attached",  # the notification may disappear at any time
            )
            ada.shot("list-submitted")
            ada.menu("Course", "Start Page")
            ada.page.wait_for_selector("#progress >> text=/submitted/")
            ada.shot("start-handed-in")

    def test_an_instructor_grades(self, hub, album):
        """Can an instructor collect, grade, view a submission and release the feedback with buttons only?"""
        with sits(hub, "ines", album) as ines:
            ines.log_in()
            self.collect_and_grade(ines)
            ines.formgrader(f"gradebook/{self.assignment}/{self.notebook}")
            ines.page.click("td a:has-text('Submission #1')")
            ines.page.wait_for_selector(".nbgrader_cell")
            ines.shot("submission")
            self.give_back(ines)

    def test_the_student_reads_the_feedback(self, hub, album):
        """Does the feedback open in JupyterLab and in a separate tab, with rendered formulas? Are hidden
        tests left out?"""
        with sits(hub, "ada", album) as ada:
            ada.log_in()
            frame = self.fetch_feedback(ada)
            frame.locator("h1").first.wait_for()
            ada.shot("feedback-in-lab")
            self.read(frame)
            ada.menu("Course", "Start Page")
            ada.page.click(f"#feedback-{self.assignment[:2]}")
            ada.page.frame_locator("iframe.feedback").locator("h1").first.wait_for()
            ada.page.click("main a:has-text('My notebook')")
            ada.opened()
            assert self.notebook in ada.page.url
            for path in ("feedback", "feedback/page"):
                assert ada.go(f"/user/{ada.user}/course/{path}?of={self.assignment}") == 200
                ada.shot(path.replace("/", "-"))
                assert violations(ada.page) == []
            self.read(ada.page)
            ada.go(f"/user/{ada.user}/course/feedback?of={self.assignment}")
            ada.page.click("main a:has-text('start page')")
            ada.page.wait_for_selector("h1:has-text('Where you are')")

    def fetch_feedback(self, ada):
        """Fetch the feedback with the assignment list's button and open the page from its folder; return the
        page's frame."""
        ada.assignments()
        ada.row("submitted", self.assignment).locator("button:text-is('Fetch Feedback')").click()
        ada.page.click("a:has-text('view feedback')")
        page = ada.page.locator(f".jp-DirListing-item:has-text('{self.notebook}.html')")
        page.wait_for()
        ada.shot("feedback-fetched")
        page.dblclick()
        return ada.page.frame_locator(".jp-HTMLViewer iframe")

    def read(self, page):
        """Check that the feedback page shows the points, rendered formulas and working links to checks, and
        no hidden test."""
        text = page.locator("body").inner_text()
        assert re.search(rf"{self.points} (of|/) {self.of}", text), text[:2000]
        assert self.hidden not in text
        assert "$" not in text
        if self.formulas:
            assert page.locator("math").first.bounding_box()["width"] > 5
        for folded in page.locator("details.passed:not([open]) > summary").all():
            folded.click()
        page.locator(".checks a").first.click()  # follow the link to the check, on the same page
        page.locator("summary", has_text=page.locator(".checks a").first.inner_text()).wait_for()

    def test_another_student_sees_nothing_of_it(self, hub, album):
        """Are the first student's submission and server, and the grader's pages, inaccessible to another
        student?"""
        with sits(hub, "ben", album) as ben:
            ben.log_in()
            ben.shot("start")
            ben.assignments()
            ben.row("released", self.assignment).wait_for()
            assert ben.page.locator("#submitted_assignments_list > .list_item").count() == 0
            for name, path in {
                "server": f"/user/{PREFIX}ada/lab",
                "work": f"/user/{PREFIX}ada/files/assignments/{self.assignment}/{self.notebook}.ipynb",
                "jobs": f"/user/{PREFIX}ada/course/jobs",
                "formgrader": f"/services/{COURSE}/formgrader/manage_assignments",
            }.items():
                assert ben.go(path) in (403, 404), path
                ben.shot(f"closed-{name}")


class TestSmall(TheWay):
    """Run the steps with the course of small_course.py. The instructor grades on the class page."""

    number, assignment, notebook, hidden = "99", "99_doubling", "doubling", "double(17) == 34"
    points, of, checks = 3, 3, 2
    last_words, patience, formulas = "the answer is 42", 120, True

    @pytest.fixture(scope="class")
    @classmethod
    def album(cls):
        return Album("small")

    @pytest.fixture(scope="class")
    @classmethod
    def hub(cls, tmp_path_factory):
        root = tmp_path_factory.mktemp("repository")
        small_course.write(root)
        release(root)
        yield from running(Hub(root))

    def collect_and_grade(self, ines):
        ines.class_page(self.number)
        ines.act("collect", "Collect")
        ines.act("grade", "Grade")
        ines.page.wait_for_selector(f"tr:has-text('Ada'):has-text('{self.points}')")
        ines.shot("class-graded")
        assert violations(ines.page) == []

    def give_back(self, ines):
        ines.class_page(self.number)
        ines.act("give-back", "Release feedback")
        ines.shot("class-given-back")

    def fetch_feedback(self, ada):
        """Fetch the feedback with the start page's button; return the page's frame."""
        ada.shot("feedback-is-there")
        ada.page.click(f"#fetch-feedback-{self.number}")
        return ada.page.frame_locator("iframe.feedback")

    def test_the_hubs_own_pages(self, hub, album):
        """Are the pages of the hub and of the course free of accessibility violations, in light and dark
        colours? Does each page fit into windows 1280 and 320 pixels wide?"""
        import playwright.sync_api as playwright

        with sits(hub, "ada", album) as ada:

            def looked(name):
                for scheme, width in (("light", 1280), ("dark", 320)):
                    ada.page.emulate_media(color_scheme=scheme)
                    ada.page.set_viewport_size({"width": width, "height": 844})
                    ada.page.wait_for_timeout(300)  # wait for colour transitions
                    ada.shot(f"{name}-{scheme}")
                    assert violations(ada.page) == [], f"{name}, {scheme}"
                    assert overflows(ada.page) <= 0, f"{name} at {width} pixels"

            ada.go("/hub/login?next=%2Fhub%2Fhome")
            looked("hub-log-in")
            for password in ("not the password", ada.password):
                ada.page.fill("#username_input", ada.user)
                ada.page.fill("#password_input", password)
                ada.page.click("#login_submit")
                if password != ada.password:
                    ada.page.wait_for_selector(".login_error")
                    looked("hub-refused")
            ada.page.wait_for_url("**/hub/home")
            looked("hub-home")
            ada.page.click("#stop")
            ada.page.wait_for_selector("#stop", state="hidden")
            ada.go(f"/user/{ada.user}/lab")
            with contextlib.suppress(playwright.Error):  # the page may reload during the check
                looked("hub-stopping")  # or a later page, if the server has already stopped
            ada.page.wait_for_selector("h1:has-text('not running')", timeout=START)  # appears without a click
            looked("hub-not-running")
            assert ada.go("/hub/nothing") == 404
            looked("hub-error")
            ada.page.click("a:has-text('your own pages')")
            ada.page.click("a:has-text('Start it')", no_wait_after=True)
            with contextlib.suppress(playwright.Error):  # the page may redirect during the screenshot
                ada.shot("hub-start")
            ada.page.wait_for_url(re.compile(f"/user/{ada.user}/lab"), timeout=START)
            ada.go(f"/user/{ada.user}/course")
            ada.page.click(f"#receipt-{self.number}")
            ada.page.wait_for_selector("h1:has-text('Receipt')")
            looked("receipt")
            notebook = f"assignments/{self.assignment}/{self.notebook}.ipynb"
            pages = {"start": "", "jobs": "/jobs", "validate": f"/validate?of={notebook}"}
            pages |= {
                "feedback": f"/feedback?of={self.assignment}",
                "hand-in": f"/hand-in?of={self.assignment}",
            }
            for name, path in pages.items():
                assert ada.go(f"/user/{ada.user}/course{path}") == 200
                looked(f"course-{name}")

    def test_a_copy_of_a_lecture(self, hub, album):
        """Does a student's copy of a lecture open with its figures, run to its end, and save its jobs in the
        student's home folder? Does the start page then link to the copy?"""
        with sits(hub, "ben", album) as ben:
            ben.log_in()
            ben.page.click("#copy-01")
            ben.opened()
            assert ben.pictures() > 0
            ben.run_all(self.patience, self.last_words)
            ben.shot("lecture-copy")
            assert list(Path(os.path.expanduser(f"~{ben.user}/lectures")).glob("runs/double-*"))
            ben.menu("Course", "Start Page")
            ben.page.wait_for_selector("a#copy-01:has-text('my copy')")
            ben.go(f"/user/{ben.user}/lab")  # JupyterLab restores other tabs, in front of the start page
            ben.page.wait_for_selector("#jupyterlab-splash", state="detached")
            ben.page.wait_for_selector(".lm-TabBar-tabLabel:text-is('Start')", timeout=START)
            ben.shot("come-back")


@pytest.mark.hub
class TestWhole(TheWay):
    """Run the steps with lecture 01 and assignment 01. The instructor grades in Formgrader."""

    assignment, notebook = "01_convolution_as_gemm", "convolution_as_gemm"
    points, of = 18, 20  # the written answer needs manual grading
    checks = 16
    hidden = "not square, one column of pixels left over"
    last_words, patience, formulas = "every third", 600, False

    @pytest.fixture(scope="class")
    @classmethod
    def album(cls):
        return Album("whole")

    @pytest.fixture(scope="class")
    @classmethod
    def hub(cls):
        slurm = {"slurm": "machine"} if os.environ.get("CLUSTER_TEST_HUB_SLURM") else {}
        mode = ROOT.stat().st_mode & 0o777
        ROOT.chmod(mode & ~0o007)  # otherwise students could read the solutions
        try:
            yield from running(Hub(ROOT, **slurm))
        finally:
            ROOT.chmod(mode)

    def collect_and_grade(self, ines):
        ines.formgrader()
        ines.page.wait_for_selector(f"tr:has-text('{self.assignment}') .collect a")
        ines.press(self.assignment, "collect")
        ines.formgrader(f"manage_submissions/{self.assignment}")
        ines.page.wait_for_selector("tr:has-text('Ada') .autograde a")
        ines.shot("submissions")
        ines.press("Ada", "autograde", 300)
        row = ines.page.locator("tr:has-text('Ada')")
        row.filter(has_text=f"{self.points} / {self.of}").filter(has_text="needs manual grading").wait_for()
        ines.shot("submissions-graded")

    def give_back(self, ines):
        ines.formgrader()
        ines.page.wait_for_selector(f"tr:has-text('{self.assignment}') .generate-feedback a")
        ines.press(self.assignment, "generate-feedback")
        ines.press(self.assignment, "release-feedback")


def running(own):
    """Start a hub with its users and yield it, for use in a fixture. If no hub can be started, skip the
    tests; in CI, fail."""
    skip_or_fail(daemons.missing())
    try:
        own.enrol(ada="student", ben="student", ines="instructor")
        own.start()
        yield own
    finally:
        own.remove()
        if (own.folder / "slurm").exists():
            command = [sys.executable, "-m", "cluster.staff.one_machine_slurm", "stop", "--purge"]
            subprocess.run([*command, "--state", str(own.folder / "slurm")], check=True, timeout=240)


def answers(hub, user, assignment, notebook):
    """Return (cell number, cell text with the answer) for each cell to be filled in."""
    home = Path(os.path.expanduser(f"~{user}"))
    fetched = nbformat.read(home / "assignments" / assignment / f"{notebook}.ipynb", as_version=4)
    source = nbformat.read(hub.course / "solutions" / assignment / f"{notebook}.ipynb", as_version=4)
    before = [cell.source for cell in fetched.cells]
    after = [cell.source for cell in fill(fetched, source).cells]
    return [(number, text) for number, text in enumerate(after) if text != before[number]]
