"""The pages in a browser, in JupyterLab and in a tab: accessible, and usable with only the keyboard."""

import html
from pathlib import Path

import pygments.formatters
import pytest

from cluster import pages as panel
from cluster.jobs import submit

from .. import ROOT
from ..browser import LOOKS, browser, kernel_ready, log_in, look, needs_browser, overflows, violations

pytestmark = [needs_browser, pytest.mark.servers]


def waits(seconds):
    """Log metrics for this many seconds. The tests submit this function as a job."""
    import time

    from cluster.jobs import log

    for second in range(seconds):
        for step in range(2):
            log(step=2 * second + step, steps=2 * seconds, loss=1.0 / (second + step + 1))
        time.sleep(1)


@pytest.fixture
def job(course):
    """A running job."""
    runs = course / "exercises" / "07_ranks" / "runs"
    job = submit(waits, seconds=600, folder=runs, backend="local", controller="gloo", rerun=True)
    yield job
    job.cancel()


def test_pages_are_accessible(server, jobs, job):
    """Do the start page, the list of jobs, a job's page and the confirmation page pass axe's checks and fit
    into the window, at 320 pixels in dark mode, and in `make test-all` at 1200 pixels in light mode? Does
    every cell of the jobs table fit into a phone's 390 pixels?
    """
    with browser() as page:
        log_in(page, server)
        for path in ("course", "course/jobs", f"course/job?of={of(job)}", f"course/cancel?of={of(job)}"):
            for scheme, width in LOOKS:
                look(page, server.url + path, scheme, width)
                assert violations(page) == [], f"{path}, {scheme}"
                assert overflows(page) <= 0, f"{path} at {width} pixels"
        look(page, f"{server.url}course/jobs", "light", 390)
        edges = "all => all.map(one => one.getBoundingClientRect().right)"
        assert max(page.eval_on_selector_all("tbody :is(th, td, td *)", edges)) <= 390


FEEDBACK = """\
<header><h1>1 of 3</h1><p class="banner">Late <span class="who">ada</span></p><table class="checks">
<tr class="lost"><td>✗</td><td><a href="#a">One</a></td><td><code>a</code></td></tr></table></header>
<main><details class="check lost" id="a" open><summary>One</summary><pre class="error">wrong</pre>
<div class="hint"><p>Read <a href="#a">again</a></p></div><div class="highlight"><pre>
<span class="k">def</span> <span class="nf">f</span><span class="p">():</span> <span class="c1"># c</span>
<span class="s2">"s"</span> <span class="ow">is</span> <span class="mi">1</span> <span class="nb">len</span>
<span class="nn">np</span> <span class="ne">E</span> <span class="nd">@d</span></pre></div></details>
</main>"""


TABLE = f"""<table class="cards"><thead><tr><th>file</th><th>bytes</th><th>SHA-256</th></tr></thead><tbody>
<tr><th>convolution_as_gemm.ipynb</th><td class="right whole" data-label="bytes">60,851</td>
<td data-label="SHA-256"><code class="hash">{"8f" * 32}</code></td></tr></tbody></table>"""
FEEDBACK_PAGE = '<!DOCTYPE html><html lang="en"><title>1 of 3</title><style>{}\n{}</style>' + FEEDBACK


def test_feedback_and_tables_in_a_narrow_panel():
    """Does the feedback follow the system's theme in a tab, and JupyterLab's theme inside JupyterLab, with
    readable colours? Does a receipt's table, with its long hash, fit into a panel 340 pixels wide?"""
    css = (ROOT / "cluster/staff/results/templates/teach/style.css").read_text()
    around = (Path(panel.__file__).parent / "static" / "panel.css").read_text()
    text = FEEDBACK_PAGE.format(pygments.formatters.HtmlFormatter().get_style_defs(".highlight"), css)
    back = "() => getComputedStyle(document.body).backgroundColor"
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
    frame = f'<iframe class="feedback" srcdoc="{html.escape(text)}"></iframe>'
    with browser(390, 844) as page:
        for scheme, colour in colours.items():
            page.emulate_media(color_scheme=scheme)
            page.set_content(text)
            assert page.evaluate(back) == colour
            assert overflows(page) <= 0 and violations(page) == [], scheme
        page.emulate_media(color_scheme="null")  # an emulated colour scheme would also apply in frames
        for theme, colour in colours.items():
            page.set_content(f'<style>{around}</style><div class="course {theme}">{frame}</div>')
            page.frame_locator("iframe").locator("h1").wait_for()
            assert page.frames[1].evaluate(back) == colour
        side = f'<main><div class="scrolled">{TABLE}</div></main>'
        page.set_content(f'<style>{around}</style><div class="course side" style="width: 340px">{side}</div>')
        edge = page.eval_on_selector(".hash", "one => one.getBoundingClientRect().right")
        assert edge <= 340, f"the hash ends at {edge} of 340 pixels"


def test_the_panel_beside_a_notebook_on_a_phone(server):
    """In a window 390 pixels wide, does JupyterLab leave room for the start page, and is the tab that closes
    the panel inside the window? Does an open panel follow JupyterLab's change between light and dark mode? Is
    a notebook unchanged once its kernel is connected, and marked as unsaved after a keystroke?
    """
    with browser(390, 844) as page:
        page.goto(f"{server.url}lab?token=secret&reset")
        page.wait_for_selector("h1:has-text('Where you are')", timeout=120_000)
        page.wait_for_function(
            "() => document.querySelector('#convolution-to-cluster').getBoundingClientRect().width > 250"
        )
        page.goto(f"{server.url}lab/tree/exercises/01_loops/loops.ipynb?reset")
        page.click(".jp-Dialog .jp-mod-accept")  # accept the offered kernel, because the notebook names none
        kernel_ready(page)
        page.wait_for_timeout(2000)  # the kernel's information has arrived
        unsaved = page.locator(".lm-TabBar-tab.jp-mod-dirty")
        assert not unsaved.count()
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.type("x")
        unsaved.first.wait_for(state="attached")
        page.keyboard.press("ControlOrMeta+s")
        unsaved.first.wait_for(state="detached")
        page.locator(".course-hand-in:visible").click()
        panel = page.locator("#convolution-to-cluster-side .course")
        panel.locator("h1").wait_for()
        tab = page.locator(".jp-SideBar.jp-mod-right .lm-mod-current")
        assert tab.evaluate("one => one.getBoundingClientRect().right") <= 390
        for light, dark in (("false", True), ("true", False)):
            page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
            assert ("dark" in panel.get_attribute("class").split()) == dark


def test_in_jupyterlab_with_keys_alone(server, job):
    """Does JupyterLab open with the start page, and can a job be found, watched and cancelled using only the
    keyboard? Does an instructor's Course menu open the class page in a separate tab?"""
    with browser() as page:
        page.goto(f"{server.url}lab?token=secret&reset")
        page.wait_for_selector("text=Where you are", timeout=120_000)
        press_on(page, "Jobs", "Shift+Tab")  # from the content back to the page's header
        page.wait_for_selector(r"text=/\d running/")
        press_on(page, "waits")
        seen = page.wait_for_selector("#log") and steps(page)
        page.wait_for_function(f"({STEPS}) > {seen}")  # the page has updated itself
        press_on(page, "Cancel this job…")
        page.wait_for_selector("text=Cancel waits?")
        press_on(page, "Yes, cancel it")
        page.wait_for_selector(".state.bad:has-text('cancelled')")
        page.click("#jp-MainMenu .lm-MenuBar-itemLabel:text-is('Course')")
        with page.context.expect_page() as opened:
            page.click(".lm-Menu-itemLabel:text-is('Class Page')")
        opened.value.wait_for_url("**/services/x/course/class")
    assert job.status == "cancelled"


TREE = "[...document.querySelectorAll('#convolution-to-cluster div')].map(n => n.shadowRoot).find(Boolean)"
STEPS = f"parseInt({TREE}.querySelector('#ranks td:last-child')?.textContent ?? '-1')"


def of(job):
    return f"exercises/07_ranks/runs/{job.folder.name}"


def steps(page):
    return page.evaluate(STEPS)


def press_on(page, name, key="Tab"):
    """Press `key` until the link or button of this name has the focus, then press Enter."""
    page.wait_for_function(f"{TREE}.activeElement?.id === 'content'")
    for _ in range(40):
        page.keyboard.press(key)
        if page.evaluate(f"{TREE}.activeElement?.textContent") == name:
            return page.keyboard.press("Enter")
    raise AssertionError(f"no key leads to {name!r}")
