"""A headless Chromium for tests, and an automatic accessibility checker for its pages."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import ALL

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium (Debian: apt-get install chromium)")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


# (theme, width in pixels); both only in `make test-all`
LOOKS = [("dark", 320), ("light", 1200)] if ALL else [("dark", 320)]


def look(page, url, scheme, width):
    """Open a page with this theme and width."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(url)


def log_in(page, server):
    """Give the page the cookie of the server's logged-in client."""
    token = next(cookie for cookie in server.cookies if cookie.name.startswith("username"))
    page.context.add_cookies([{"name": token.name, "value": token.value, "url": server.url}])


@contextlib.contextmanager
def browser(width=1200, height=900) -> Iterator:
    """Yield a page in a new browser; at the end, fail on script errors and on loads from other hosts."""
    from playwright.sync_api import sync_playwright

    wrong = []
    with sync_playwright() as driver:
        # Chromium has no sandbox when run as root, but the pages are the tests' own. Other hosts cannot be
        # reached.
        alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
        args = ["--no-sandbox", "--disable-gpu", alone]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=args)
        context = chromium.new_context(viewport={"width": width, "height": height})
        # long enough for a slow, busy machine; only something that hangs takes longer
        context.set_default_timeout(240_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"threw {error}"))
        page.on("request", lambda request: foreign(request.url) and wrong.append(f"asked for {request.url}"))
        yield page
        chromium.close()
    assert not wrong, wrong


def kernel_ready(page, timeout=180_000):
    """Wait until the kernel of the notebook open in JupyterLab is ready; a cell that is run earlier is
    ignored.

    timeout: in milliseconds, long enough for a busy server.
    """
    page.locator(".jp-NotebookPanel:visible .jp-Cell").first.wait_for(timeout=timeout)
    page.wait_for_selector("#jp-main-statusbar >> text=/\\| Idle/", timeout=timeout)


def foreign(url):
    return not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:", "http://localhost:"))


# Wait until transitions have ended, because colours change during them.
ENDED = """() => Promise.allSettled(document.getAnimations()
    .filter(one => one.playState === 'running' && one.effect.getComputedTiming().endTime < Infinity)
    .map(one => one.finished))"""


def violations(page, without=(), within=None, rules=RULES, looked=10) -> list[str]:
    """Return axe-core's complaints about the page, one line each, with the location; [] if there are none.

    without: selectors of elements to leave out, if there are so many of one kind that checking them would
    take minutes. within: selector of our part of the page. rules: tags of rules, or their names. looked: more
    rules than this must have passed, as evidence that the checker had something to check.
    """
    import axe_playwright_python

    page.evaluate(ENDED)
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text())
    where = {"exclude": [[item] for item in without]} | ({"include": [[within]]} if within else {})
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    if rules is RULES:
        options["rules"] = {
            "target-size": {"enabled": True}
        }  # a rule of WCAG 2.2, which axe applies only if requested by name
    result = page.evaluate("asked => axe.run(...asked)", [where, options])
    assert len(result["passes"]) > looked, "axe has looked at nothing"
    return [
        f"{v['id']} ({v['help']}): {node['html'][:200]}" for v in result["violations"] for node in v["nodes"]
    ]


def overflows(page) -> int:
    """Return by how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


# The focused element: its number in the order of first visits, its name, and its fault.
FOCUS = """() => {
  const part = document.activeElement, known = window.tabbed ??= new Map();
  if (!part || part === document.body || part === document.documentElement) return {name: ""};
  if (!known.has(part)) known.set(part, known.size);
  const words = part.ariaLabel || part.textContent || part.title || part.name || "";
  const found = {number: known.get(part), name: `${part.tagName.toLowerCase()} ${words.trim().slice(0, 60)}`};
  const box = [...part.getClientRects()].find((one) => one.width > 1 && one.height > 1);
  if (!box) return {...found, fault: "has the focus and no place on the page"};
  const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
  const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
  const at = (x, y) => document.elementFromPoint(left + x * (right - left), top + y * (bottom - top));
  const hit = (one) => part.contains(one) || one?.contains(part) || one?.closest("label")?.contains(part);
  const places = [0.5, 0.1, 0.9];
  if (right <= left || bottom <= top || !places.some((x) => places.some((y) => hit(at(x, y)))))
    return {...found, fault: "has the focus out of sight"};
  const ring = (one) => {
    const style = getComputedStyle(one);
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none";
  };
  return {...found, fault: [part, ...part.labels ?? []].some(ring) ? "" : "shows no focus"};
}"""

MOVING = """() => [
  ...document.getAnimations().filter((one) => one.playState === "running")
    .map((one) => `animation of ${one.effect.target?.outerHTML.slice(0, 100)}`),
  ...(getComputedStyle(document.documentElement).scrollBehavior === "smooth" ? ["scrolling"] : []),
]"""


def keyboard_faults(page, most=600) -> list[str]:
    """Return faults found while walking through the page with the Tab key, one line each; [] if there are
    none.

    A fault is an element that traps the keyboard, has the focus without showing it, or is out of sight. The
    walk must end at the end of the page. A walk that has not ended after `most` steps counts as a trap.
    """
    from playwright import sync_api as playwright

    faults, before, stays = [], -1, 0
    page.evaluate("window.tabbed = new Map(); document.activeElement?.blur(); scrollTo(0, 0)")
    for _ in range(most):
        page.keyboard.press("Tab")
        result = page.evaluate(FOCUS)
        if not result["name"] or (result["number"] == 0 and before > 0):
            assert before >= 0, "the Tab key has led to nothing"
            return faults
        stays = stays + 1 if result["number"] == before else 0
        if result["number"] < before or stays > 6:  # day, month and year of a date are stops in one element
            return [*faults, f"{result['name']}: keeps the keyboard, or leads back"]
        before = result["number"]
        if result["fault"]:
            with contextlib.suppress(playwright.TimeoutError):  # elements that fade in are fully visible now
                page.wait_for_function(f"() => !({FOCUS})().fault", timeout=5_000)
            result = page.evaluate(FOCUS)
        if result["fault"]:
            faults.append(f"{result['name']}: {result['fault']}")
    return [*faults, f"{most} steps with Tab, and no end of the page"]


def moving(page) -> list[str]:
    """Return animations that run although reduced motion is requested; [] if there are none."""
    page.emulate_media(reduced_motion="reduce")
    result = page.evaluate(MOVING)
    page.emulate_media(reduced_motion="no-preference")
    return result


def spaced(page):
    """Set the text spacing of WCAG 1.4.12, which must not make any content disappear."""
    everywhere = (
        "line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important"
    )
    page.add_style_tag(content=f"* {{ {everywhere}; }} p {{ margin-bottom: 2em !important; }}")
