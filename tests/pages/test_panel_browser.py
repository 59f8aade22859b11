"""The pages in a browser, in JupyterLab and in a tab: accessible, and usable with only the keyboard."""

import html
from pathlib import Path

import pygments.formatters
import pytest

from cluster import pages as panel
from cluster.jobs import submit

from .. import ROOT
from ..browser import browser, kernel_ready, needs_browser, overflows, violations

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
    into the window, at 1200 pixels in light mode and at 320 pixels in dark mode?
    """
    token = next(cookie for cookie in server.cookies if cookie.name.startswith("username"))
    with browser() as page:
        page.context.add_cookies([{"name": token.name, "value": token.value, "url": server.url}])
        for path in ("course", "course/jobs", f"course/job?of={of(job)}", f"course/cancel?of={of(job)}"):
            for scheme, width in (("light", 1200), ("dark", 320)):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 800})
                page.goto(server.url + path)
                assert violations(page) == [], f"{path}, {scheme}"
                assert overflows(page) <= 0, f"{path} at {width} pixels"


def test_a_table_in_a_narrow_panel_is_read_whole():
    """Does a receipt's table, with its long hash, fit into a panel 340 pixels wide?"""
    css = (Path(panel.__file__).parent / "static" / "panel.css").read_text()
    size = '<td class="right whole" data-label="bytes">60,851</td>'
    digest = f'<td data-label="SHA-256"><code class="hash">{"8f" * 32}</code></td>'
    head = "<thead><tr><th>file</th><th>bytes</th><th>SHA-256</th></tr></thead>"
    row = f"<tr><th>convolution_as_gemm.ipynb</th>{size}{digest}</tr>"
    table = f'<table class="cards">{head}<tbody>{row}</tbody></table>'
    with browser() as page:
        page.set_content(
            f'<style>{css}</style><div class="course side" style="width: 340px"><main>'
            f'<div class="scrolled">{table}</div></main></div>'
        )
        edge = page.eval_on_selector(".hash", "one => one.getBoundingClientRect().right")
        assert edge <= 340, f"the hash ends at {edge} of 340 pixels"


def test_jobs_on_a_phone_are_read_whole(server, jobs, job):
    """In a window 390 pixels wide, does every cell of the jobs table fit?"""
    token = next(cookie for cookie in server.cookies if cookie.name.startswith("username"))
    with browser(390, 844) as page:
        page.context.add_cookies([{"name": token.name, "value": token.value, "url": server.url}])
        page.goto(f"{server.url}course/jobs")
        edges = "all => all.map(one => one.getBoundingClientRect().right)"
        assert max(page.eval_on_selector_all("tbody :is(th, td, td *)", edges)) <= 390


def test_feedback_on_a_phone_shows_the_points():
    """In a window 390 pixels wide, does the feedback's table of checks fit, with most of its width for the
    checks' titles?
    """
    css = (ROOT / "cluster/staff/results/templates/teach/style.css").read_text()
    text = "<td>✗</td><td>One convolution of dy with turned filters; nothing is added in place</td>"
    table = f'<table class="checks"><tr>{text}<td class="n">0 of 1</td></tr></table>'
    with browser(390, 844) as page:
        page.set_content(f"<style>{css}</style><header>{table}</header>")
        assert overflows(page) <= 0
        widths = "all => all.map(one => one.getBoundingClientRect().width)"
        _, text, points = page.eval_on_selector_all("td", widths)
        assert text > 3 * points, "the room is for the words"


FEEDBACK = """\
<header><h1>1 of 3</h1><p class="banner">Late <span class="who">ada</span></p><table class="checks">
<tr class="lost"><td>✗</td><td><a href="#a">One</a></td><td><code>a</code></td></tr></table></header>
<main><details class="check lost" id="a" open><summary>One</summary><pre class="error">wrong</pre>
<div class="hint"><p>Read <a href="#a">again</a></p></div><div class="highlight"><pre>
<span class="k">def</span> <span class="nf">f</span><span class="p">():</span> <span class="c1"># c</span>
<span class="s2">"s"</span> <span class="ow">is</span> <span class="mi">1</span> <span class="nb">len</span>
<span class="nn">np</span> <span class="ne">E</span> <span class="nd">@d</span></pre></div></details>
</main>"""


def test_feedback_is_dark_where_the_page_around_it_is():
    """Does the feedback follow the system's theme in a tab, and JupyterLab's theme inside JupyterLab, with
    readable colours?"""
    css = (ROOT / "cluster/staff/results/templates/teach/style.css").read_text()
    around = (Path(panel.__file__).parent / "static" / "panel.css").read_text()
    css = f"<style>{pygments.formatters.HtmlFormatter().get_style_defs('.highlight')}\n{css}</style>"
    text = f'<!DOCTYPE html><html lang="en"><title>1 of 3</title>{css}{FEEDBACK}'
    back = "() => getComputedStyle(document.body).backgroundColor"
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
    frame = f'<iframe class="feedback" srcdoc="{html.escape(text)}"></iframe>'
    with browser() as page:
        for scheme, colour in colours.items():
            page.emulate_media(color_scheme=scheme)
            page.set_content(text)
            assert page.evaluate(back) == colour
            assert violations(page) == [], scheme
        page.emulate_media(color_scheme="null")  # an emulated colour scheme would also apply in frames
        for theme, colour in colours.items():
            page.set_content(f'<style>{around}</style><div class="course {theme}">{frame}</div>')
            page.frame_locator("iframe").locator("h1").wait_for()
            assert page.frames[1].evaluate(back) == colour


def test_jupyterlab_on_a_phone_leaves_room_for_the_start_page(server):
    """In a window 390 pixels wide, does JupyterLab leave more than 250 pixels for the start page?"""
    with browser(390, 844) as page:
        page.goto(f"{server.url}lab?token=secret&reset")
        page.wait_for_selector("h1:has-text('Where you are')", timeout=120_000)
        page.wait_for_function(
            "() => document.querySelector('#convolution-to-cluster').getBoundingClientRect().width > 250"
        )


def test_the_panel_beside_a_notebook_on_a_phone(server):
    """In a window 390 pixels wide, is the tab that closes the panel inside the window? Does an open panel
    follow JupyterLab's change between light and dark mode?
    """
    with browser(390, 844) as page:
        page.goto(f"{server.url}lab/tree/exercises/01_loops/loops.ipynb?token=secret&reset")
        page.click(".jp-Dialog .jp-mod-accept")  # accept the offered kernel, because the notebook names none
        kernel_ready(page)
        page.locator(".course-hand-in:visible").click()
        panel = page.locator("#convolution-to-cluster-side .course")
        panel.locator("h1").wait_for()
        tab = page.locator(".jp-SideBar.jp-mod-right .lm-mod-current")
        assert tab.evaluate("one => one.getBoundingClientRect().right") <= 390
        for light, dark in (("false", True), ("true", False)):
            page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
            assert ("dark" in panel.get_attribute("class").split()) == dark
        sessions = f"{server.url}api/sessions"  # end the kernel, because the next test starts one
        for session in page.request.get(f"{sessions}?token=secret").json():
            assert page.request.delete(f"{sessions}/{session['id']}?token=secret").ok


def test_in_jupyterlab_with_keys_alone(server, job):
    """Does JupyterLab open with the start page, and can a job be found, watched and cancelled using only the
    keyboard?"""
    with browser() as page:
        page.goto(f"{server.url}lab?token=secret&reset")
        page.wait_for_selector("text=Where you are", timeout=120_000)
        press_on(page, "Jobs", "Shift+Tab")  # from the content back to the page's header
        page.wait_for_selector(r"text=/\d running/")
        press_on(page, "waits")
        seen = page.wait_for_selector("text=Output of the ranks") and steps(page)
        page.wait_for_function(f"({STEPS}) > {seen}")  # the page has updated itself
        press_on(page, "Cancel this job…")
        page.wait_for_selector("text=Cancel waits?")
        press_on(page, "Yes, cancel it")
        page.wait_for_selector("text=The job was cancelled.")
    assert job.status == "cancelled"


def test_a_notebook_is_unsaved_once_a_cell_has_changed(server):
    """Is a newly fetched notebook still unchanged once its kernel is connected, and marked as unsaved after a
    keystroke?"""
    with browser() as page:
        page.goto(f"{server.url}lab/tree/exercises/01_loops/loops.ipynb?token=secret&reset")
        page.click(".jp-Dialog .jp-mod-accept")  # accept the offered kernel, because the notebook names none
        kernel_ready(page)
        page.wait_for_timeout(2000)  # the kernel's information has arrived
        unsaved = page.locator(".lm-TabBar-tab.jp-mod-dirty")
        assert not unsaved.count(), "nothing was changed yet"
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.type("x")
        unsaved.wait_for()
        page.keyboard.press("ControlOrMeta+s")
        unsaved.wait_for(state="detached")


def test_the_menu_links_instructors_to_the_class(server):
    """For an instructor, does JupyterLab's Course menu open the class page in a separate tab?"""
    with browser() as page:
        page.goto(f"{server.url}lab?token=secret&reset")
        page.wait_for_selector("h1:has-text('Where you are')", timeout=120_000)
        page.click("#jp-MainMenu .lm-MenuBar-itemLabel:text-is('Course')")
        with page.context.expect_page() as opened:
            page.click(".lm-Menu-itemLabel:text-is('Class Page')")
        opened.value.wait_for_url("**/services/x/course/class")


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
