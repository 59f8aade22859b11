"""Operate the hub's pages, JupyterLab, nbgrader's lists and Formgrader in a browser, as a user does, and take
screenshots."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from .. import ROOT
from ..browser import browser, kernel_ready
from .hub import COURSE, PREFIX

LAPTOP = {"width": 1280, "height": 720}
START = 120_000  # ms; enough for a server, or a kernel with TensorFlow, to start on a busy machine
CELLS = """() => {
  const panel = [...document.querySelectorAll('.jp-NotebookPanel')].find(one => one.offsetParent);
  const texts = what => [...(panel ?? document).querySelectorAll(what)].map(one => one.textContent);
  return {prompts: texts('.jp-CodeCell .jp-InputPrompt'),
          errors: texts('[data-mime-type="application/vnd.jupyter.error"]')};
}"""
RAN = f"""() => {{
  const {{prompts, errors}} = ({CELLS})();
  return errors.length > 0 || (prompts.length > 0 && prompts.every(text => /\\[\\d+\\]/.test(text)));
}}"""


class Album:
    """The screenshots of one test class, saved as build/screens/WAY/NN-name.png."""

    def __init__(self, way: str):
        self.folder, self.taken = ROOT / "build" / "screens" / way, 0
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def next(self, name: str) -> Path:
        self.taken += 1
        return self.folder / f"{self.taken:02}-{name}.png"


@contextlib.contextmanager
def sits(hub, name: str, album: Album):
    """Yield a Desk for a person on the roster. After a failure, save a screenshot of the last page, and add
    the page's text and the hub's logs to the error."""
    with browser(LAPTOP["width"], LAPTOP["height"]) as page:
        desk = Desk(hub, name, page, album)
        try:
            yield desk
        except BaseException as failure:
            with contextlib.suppress(Exception):
                page.screenshot(path=album.next(f"FAILED-{name}"))
                failure.add_note(f"{page.url} of {name} shows:\n{page.inner_text('body')[:6000]}")
            failure.add_note(hub.logs())
            raise


class Desk:
    """One user's actions in a browser, with mouse and keyboard."""

    def __init__(self, hub, name, page, album):
        self.hub, self.name, self.page, self.album = hub, name, page, album
        self.user, self.password = PREFIX + name, hub.password(name)
        self.base = f"http://127.0.0.1:{hub.port}"

    def shot(self, name):
        """Take a screenshot."""
        self.page.screenshot(path=self.album.next(f"{self.name}-{name}"), animations="disabled")

    def go(self, path):
        """Open a URL of the hub in this tab; return the HTTP status."""
        return self.page.goto(self.base + path).status

    # The hub and JupyterLab

    def log_in(self):
        """Log in to the hub and wait until JupyterLab shows the course's start page and no other tabs."""
        self.go("/hub/login")
        self.page.fill("#username_input", self.user)
        self.page.fill("#password_input", self.password)
        self.shot("log-in")
        self.page.click("#login_submit")
        self.page.wait_for_url(re.compile(f"/user/{self.user}/lab"), timeout=START)
        self.go(f"/user/{self.user}/lab?reset")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=START)
        self.page.wait_for_selector("h1:has-text('Where you are')")
        self.page.locator(".jp-DirListing-item").first.wait_for()

    def menu(self, bar, item):
        self.page.click(f"#jp-MainMenu .lm-MenuBar-itemLabel:text-is('{bar}')")
        self.page.click(f".lm-Menu-itemLabel:text-is('{item}')")

    def dismiss(self):
        """Accept JupyterLab's open dialog; return its text."""
        box = self.page.locator(".jp-Dialog")
        text = box.inner_text()
        box.locator(".jp-mod-accept").click()
        box.wait_for(state="detached")
        return text

    # Notebooks

    @property
    def notebook(self):
        return self.page.locator(".jp-NotebookPanel:visible")

    def opened(self):
        """Wait until the kernel of the visible notebook is ready."""
        kernel_ready(self.page)

    def pictures(self):
        """Return the number of figures in the notebook's text; fail if one of them has not loaded."""
        images = self.notebook.locator(".jp-RenderedMarkdown img")
        images.first.wait_for(state="attached")
        for result in images.all():
            result.evaluate("one => one.decode()")
            assert result.evaluate("one => one.naturalWidth") > 0, result.get_attribute("src")
        return images.count()

    def new_notebook(self):
        self.page.click("#jp-MainMenu .lm-MenuBar-itemLabel:text-is('File')")
        self.page.hover(".lm-Menu-itemLabel:text-is('New')")
        self.page.click(".lm-Menu-itemLabel:text-is('Notebook')")
        self.dismiss()  # accept the kernel that the dialog offers
        self.opened()

    def fill(self, number, text):
        """Replace the contents of cell `number` with `text`."""
        cell = self.notebook.locator(".jp-Cell").nth(number)
        cell.scroll_into_view_if_needed()
        if "jp-MarkdownCell" in cell.get_attribute("class"):
            cell.locator(".jp-RenderedMarkdown").dblclick()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(text)

    def run_all(self, seconds, last=""):
        """Run all cells and wait until the last code cell's output contains `last`; fail if a cell raises an
        error."""
        self.menu("Run", "Run All Cells")
        self.page.wait_for_function(RAN, timeout=1000 * seconds)
        assert not (wrong := self.page.evaluate(CELLS)["errors"]), wrong[0]
        cell = self.notebook.locator(".jp-CodeCell").last
        cell.scroll_into_view_if_needed()
        cell.filter(has_text=last).locator(".jp-OutputArea-output").last.wait_for()

    def validate(self, seconds):
        """Press Validate; return the summary in the panel, such as “0 failed, 2 still to do”."""
        self.notebook.locator(".course-validate").click()
        self.page.wait_for_selector("#end")  # the validation runs; its previous result is gone
        counts = self.page.locator("#counts")
        counts.wait_for(timeout=1000 * seconds)
        self.shot("validate")
        return counts.inner_text()

    def hand_in(self):
        """Press Submit in the notebook's toolbar and then in the panel; return the receipt's text."""
        self.notebook.locator(".course-hand-in").click()
        self.page.wait_for_selector("h1:text-is('Submit')")
        self.shot("hand-in")
        self.page.click("#hand-in-now")
        receipt = self.page.locator("#convolution-to-cluster-side main:has(h1:has-text('Receipt'))")
        receipt.wait_for()
        self.shot("receipt")
        return receipt.inner_text()

    # Assignments

    def assignments(self):
        self.menu("Nbgrader", "Assignment List")
        self.page.wait_for_selector("#released_assignments_list_loading", state="hidden")

    def row(self, part, assignment):
        """Return an assignment's row in one part of nbgrader's assignment list: released, fetched or
        submitted."""
        return self.page.locator(f"#{part}_assignments_list > .list_item", has_text=assignment)

    def fetch(self, assignment):
        self.row("released", assignment).locator("button:text-is('Fetch')").click()
        self.row("fetched", assignment).wait_for()

    def open_fetched(self, assignment, notebook):
        row = self.row("fetched", assignment)
        if not row.locator(f"a:text-is('{notebook}')").is_visible():
            row.locator(f"a:has-text('{assignment}')").click()
        row.locator(f"a:text-is('{notebook}')").click()
        self.opened()

    def submit(self, assignment):
        before = self.row("submitted", assignment).locator(".nested_list_item").count()
        self.row("fetched", assignment).locator("button:text-is('Submit')").click()
        self.row("submitted", assignment).locator(".nested_list_item").nth(before).wait_for(state="attached")

    # Formgrader

    def formgrader(self, page="manage_assignments"):
        assert self.go(f"/services/{COURSE}/formgrader/{page}") == 200

    def press(self, row, button, seconds=120):
        """Press a button in a row of Formgrader's table; return the text of the dialog that follows, which
        must report success."""
        self.page.locator("tr", has_text=row).locator(f".{button} a").click()
        box = self.page.locator(".modal.in")
        box.wait_for(timeout=1000 * seconds)
        text = box.inner_text()
        self.shot(button)
        box.locator(".modal-footer button").click()
        box.wait_for(state="detached")
        assert text.lstrip("×\n ").startswith("Success"), text
        return text

    # The class page

    def class_page(self, number):
        """Open an assignment's page from the class page."""
        assert self.go(f"/services/{COURSE}/course/class") == 200
        self.page.wait_for_selector(f"#sheet-{number}")
        self.shot("class")
        self.page.click(f"#sheet-{number}")
        self.page.wait_for_selector("#to-do")

    def act(self, do, label, seconds=120):
        """Press a button on the class page, confirm if necessary, and wait for the action to finish."""
        self.page.click(f"#do-{do}")
        yes = self.page.locator("button:has-text('Yes')")
        ended = self.page.locator(f"#action-now .state:text-matches('{label}: (done|was|ended)')")
        yes.or_(ended).first.wait_for(timeout=1000 * seconds)
        if yes.is_visible():
            self.shot(f"class-{do}")
            yes.click()
        ended.wait_for(timeout=1000 * seconds)
        assert "done" in ended.inner_text(), self.page.inner_text("#log")
