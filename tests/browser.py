"""A headless Chromium for tests, and what an automatic checker of accessibility finds on its pages."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium (Debian: apt-get install chromium)")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@contextlib.contextmanager
def browser(width=1200, height=900) -> Iterator:
    """A page in a new browser; at the end, what its pages threw or loaded from other hosts is a failure."""
    from playwright.sync_api import sync_playwright

    wrong = []
    with sync_playwright() as driver:
        # Root has no sandbox of Chromium's; the pages are the tests' own. There is no other host to reach.
        alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
        args = ["--no-sandbox", "--disable-gpu", alone]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=args)
        context = chromium.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"threw {error}"))
        page.on("request", lambda request: foreign(request.url) and wrong.append(f"asked for {request.url}"))
        yield page
        chromium.close()
    assert not wrong, wrong


def foreign(url):
    return not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:", "http://localhost:"))


def violations(page, without=(), within=None, rules=RULES, looked=10) -> list[str]:
    """What axe-core has against the page, a line each, with where; [] for nothing.

    without: selectors of what is left out, where there is so much of one kind that it would take minutes.
    within: selector of the part of the page that is ours. rules: tags of rules, or their names.
    looked: more rules than so many must have found something to look at.
    """
    import axe_playwright_python

    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text())
    where = {"exclude": [[one] for one in without]} | ({"include": [[within]]} if within else {})
    asked = {"runOnly": rules, "resultTypes": ["violations"]}
    found = page.evaluate("asked => axe.run(...asked)", [where, asked])
    assert len(found["passes"]) > looked, "axe has looked at nothing"
    return [
        f"{v['id']} ({v['help']}): {node['html'][:200]}" for v in found["violations"] for node in v["nodes"]
    ]


def overflows(page) -> int:
    """By how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
