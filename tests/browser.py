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
        # Root has no sandbox of Chromium's; the pages are the tests' own.
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
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


def violations(page, without=()) -> list[str]:
    """What axe-core has against the page, a line each, with where; [] for nothing.

    without: selectors of what is left out, where there is so much of one kind that it would take minutes.
    """
    import axe_playwright_python

    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text())
    asked = {"runOnly": RULES, "resultTypes": ["violations"]}
    found = page.evaluate("asked => axe.run(...asked)", [{"exclude": [[one] for one in without]}, asked])
    assert len(found["passes"]) > 10, "axe has looked at nothing"
    return [
        f"{v['id']} ({v['help']}): {node['html'][:200]}" for v in found["violations"] for node in v["nodes"]
    ]


def overflows(page) -> int:
    """By how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
