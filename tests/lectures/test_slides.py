"""There is a deck for each lecture, with all of its text, nothing cut off, and nothing loaded from
elsewhere.
"""

import importlib
import re
import subprocess
import sys
from html import unescape

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from .. import ALL, ROOT
from ..browser import browser, keyboard_faults, moving, needs_browser, overflows, violations

SLIDES = ROOT / "lectures" / "slides"
LECTURES = sorted((ROOT / "lectures").glob("[0-9][0-9]_*.ipynb"))
SIZES = [(1280, 720), (1920, 1080)] if ALL else [(1280, 720)]
# the smallest font sizes of text, and of code and tables, in pixels on a slide 720 pixels high
TEXT, EVIDENCE = 20, 13

# Return the elements that extend beyond an edge of the current slide or over another element, or that are too
# small to read.
MEASURE = """([text, evidence]) => {
  const page = Reveal.getCurrentSlide().querySelector(".page"), wrong = [];
  const scale = page.getBoundingClientRect().height / 720;
  const name = (part) => `${part.tagName} ${part.className} ${part.textContent.trim().slice(0, 50)}`;
  const seen = [page, ...page.querySelectorAll("*")].filter((part) => part.getClientRects().length);
  for (const part of seen) {
    const box = part.getBoundingClientRect();
    if (box.left < -1 || box.top < -1 || box.right > innerWidth + 1 || box.bottom > innerHeight + 1)
      wrong.push(`over the edge: ${name(part)}`);
    // Inline formulas and spanning cells report another scroll height, although nothing is cut off.
    const high = part.matches(".page, .evidence, .figure, .table, pre") ? 8
      : part.matches(".points, li") ? 24 : 1000;
    if (part instanceof HTMLElement && getComputedStyle(part).display != "inline" && part.clientWidth &&
        (part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + high))
      wrong.push(`cut off: ${name(part)}`);
    const own = [...part.childNodes].some((node) => node.nodeType == 3 && node.data.trim());
    const size = parseFloat(getComputedStyle(part).fontSize);
    const least = part.closest(".evidence, table, .slide-number") ? evidence * 0.85 : text * 0.85;
    if (own && !part.closest("math, svg") && size < least) wrong.push(`${size} px: ${name(part)}`);
    if (part.tagName == "IMG" && (!part.naturalWidth || box.height < 150 * scale))
      wrong.push(`no picture, or a small one: ${part.alt}`);
  }
  const parts = [...page.children].map((part) => part.getBoundingClientRect()).filter((box) => box.height);
  parts.forEach((box, i) => {
    if (i && box.top < parts[i - 1].bottom - 1) wrong.push(`part ${i} lies over another`);
  });
  if (!page.textContent.trim()) wrong.push("an empty slide");
  return wrong;
}"""


@pytest.fixture(scope="module")
def decks(tmp_path_factory):
    """The folder of the decks, made from the current lectures."""
    target = tmp_path_factory.mktemp("decks") / "slides"
    done = subprocess.run([sys.executable, SLIDES, "--to", target], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture
def rule(monkeypatch):
    """Return the module deck.py of the slides' script."""
    monkeypatch.syspath_prepend(SLIDES)
    return importlib.import_module("deck")


def opened(page, path):
    """Open a deck, wait until its slides are laid out, and return their number."""
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    return page.evaluate("Reveal.getTotalSlides()")


def show(page, kind):
    """Go to the first slide of a kind."""
    find = "[...document.querySelectorAll('.slides > section')].findIndex(s => s.classList.contains(kind))"
    page.evaluate(f"kind => Reveal.slide({find})", kind)


@pytest.mark.servers
@pytest.mark.timeout(900)  # it checks some 370 slides, which takes two minutes under load
@needs_browser
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_nothing_runs_over_an_edge(decks, size):
    """Does each slide of each deck fit into the window, in a readable font size? Does a deck have 25 to 40
    slides?"""
    wrong = []
    with browser(*size) as page:
        for lecture in LECTURES:
            total = opened(page, decks / f"{lecture.stem}.html")
            assert 25 <= total <= 40, f"{lecture.stem}: {total} slides"
            for number in range(total):
                page.evaluate("number => Reveal.slide(number)", number)
                result = page.evaluate(MEASURE, [TEXT, EVIDENCE])
                wrong += [f"{lecture.stem[:2]}, slide {number + 1}: {fault}" for fault in result]
    assert not wrong, "\n".join(wrong)


@pytest.mark.servers
@needs_browser
def test_the_measure_finds_what_is_too_long(decks):
    """Does the measurement detect elements beyond an edge, texts that are too long, and letters that are too
    small?
    """
    spoil = {
        "over the edge": "page.querySelector('header').style.cssText = 'position: relative; left: 900px'",
        "cut off": "page.querySelector('header').innerHTML += '<p>more</p>'.repeat(40)",
        "px": "page.querySelector('h1').style.fontSize = '9px'",
    }
    for words, change in spoil.items():
        with browser(*SIZES[0]) as page:
            opened(page, decks / f"{LECTURES[0].stem}.html")
            assert page.evaluate(MEASURE, [TEXT, EVIDENCE]) == []
            page.evaluate("const page = Reveal.getCurrentSlide().querySelector('.page'); " + change)
            assert any(words in fault for fault in page.evaluate(MEASURE, [TEXT, EVIDENCE])), words


@pytest.mark.servers
@needs_browser
def test_polls_and_notes_live(decks):
    """Does the slide after a poll show the class's answer next to the measured one? Do the speaker's notes
    open?
    """
    with browser(*SIZES[0]) as page:
        opened(page, decks / "06_all_reduce.html")
        show(page, "of-poll")
        field = page.locator("section.present input").first
        question = field.get_attribute("data-asked")
        field.fill("12")
        field.press("Enter")
        page.evaluate("Reveal.next()")
        images = page.locator("section.present .found div").first.inner_text()
        assert question in images and "you said 12" in images
        with page.context.expect_page() as popup:
            page.locator("body").press("s")
        speaker = popup.value
        notes = "document.querySelector('.speaker-controls-notes .value')?.innerText.length > 40"
        speaker.wait_for_function(notes)


@pytest.mark.servers
@needs_browser
def test_slides_are_accessible(decks):
    """Do the list of decks, and slides with a title, a poll, a figure and code, pass axe's checks? Are the
    list and a poll usable with only the keyboard?
    """
    with browser(*SIZES[0]) as page:
        page.goto((decks / "index.html").as_uri())
        assert page.locator("a").count() == len(LECTURES)
        assert violations(page) == [] and keyboard_faults(page) == []
        page.set_viewport_size({"width": 320, "height": 640})
        assert overflows(page) <= 0
        page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
        opened(page, decks / f"{LECTURES[0].stem}.html")
        for kind in ("of-title", "of-poll", "of-figure", "of-code"):
            show(page, kind)
            assert violations(page, within="section.present", looked=2) == [], kind
            assert moving(page) == [], kind
        show(page, "of-poll")
        assert keyboard_faults(page) == []


def words_of(text):
    """Return the words of HTML or Markdown, without formulas and links."""
    if "<!DOCTYPE" in text:
        text = re.sub(r"(?s)<math.*?</math>", " ", text)
    else:
        text = re.sub(r"(?s)\$\$.*?\$\$|\$[^$]*\$", " ", text)
    text = re.sub(r"(?s)\]\([^)\s]*\)|<style.*?</style>|<script.*?</script>", "]", text)
    text = re.sub(r"(?m)^```\w+$", "", text)
    return re.findall(r"[A-Za-z]{3,}", unescape(re.sub(r"</?[a-z][^>]*>", "", text)))


@pytest.mark.parametrize("lecture", LECTURES, ids=lambda path: path.stem)
def test_nothing_of_a_lecture_is_lost(decks, lecture):
    """Does a deck contain each paragraph of its lecture, on a slide or in the notes, and each figure once?
    Does each poll's answer follow it directly?
    """
    text = (decks / f"{lecture.stem}.html").read_text(encoding="utf-8")
    said = " ".join(words_of(text))
    figures = 0
    for cell in nbformat.read(lecture, as_version=4).cells:
        if cell.cell_type == "code":
            figures += sum("image/png" in output.get("data", {}) for output in cell.outputs)
            continue
        taught, *further = re.split(r"(?m)^## Further$", cell.source)
        for paragraph in re.split(r"\n\s*\n", taught):
            words = " ".join(words_of(paragraph)[:8])
            assert words in said or "(figures/" in paragraph, paragraph
        if further:
            break
    assert text.count("data:image/png") == figures
    kinds = re.findall(r'<section class="([^"]+)">', text)
    polls = [number for number, kind in enumerate(kinds) if kind == "of-poll"]
    assert len(polls) >= 3 and all(kinds[number + 1] == "of-reveal-numbers" for number in polls)
    assert kinds.count("of-reveal-numbers") == len(polls)
    assert not re.search(r"(src|href)=\"(https?:)?//", text)


def notebook(*cells):
    """Return a notebook whose cells are given as Markdown or as pairs (source, outputs)."""
    nodes = [new_markdown_cell(c) if isinstance(c, str) else new_code_cell(c[0], outputs=c[1]) for c in cells]
    return new_notebook(cells=nodes)


def test_rule_on_a_small_lecture(rule):
    """Does a small lecture give a title, a section, a poll, its result and code, each with the expected
    content on the slide or in the notes?
    """
    result = new_output("stream", text="speed-up: 3.1×; you wrote down no guess\n")
    figure = new_output("display_data", {"image/png": "AAAA"})
    slides = rule.Maker(
        notebook(
            "# 1 · Topic\n\n**Why?**",
            "## 1.1 A law\n\nFirst sentence, e.g. this. Second one. **Guess** how fast it is.",
            ("guess('speed-up', unit='×')", []),
            ("compare('speed-up', 3.1)", [result, figure]),
            "*(Figure: a line that rises. Steeply.)*\n\nIt rises. It would.",
            ("def f(x):\n    return x", []),
            ("def long():\n" + "    pass\n" * 40, []),
            "## Further\n\nNot taught.",
        )
    ).slides()
    assert [s.layout or s.kind for s in slides] == ["title", "section", "poll", "reveal-numbers", "code"]
    assert slides[1].points == ["<p>First sentence, e.g. this.</p>"]
    assert "<strong>Guess</strong> how fast" in slides[2].points[0] and "speed-up" in slides[2].evidence[0]
    assert slides[2].notes == ["<p>Found: speed-up: 3.1×.</p>"]
    assert "3.1×" in slides[3].points[0] and slides[3].title == "It rises."
    assert 'alt="a line that rises."' in slides[3].evidence[0]
    assert "def" in slides[4].evidence[0] and any("Code" in note for note in slides[4].notes)
    assert not any("Not taught" in note for slide in slides for note in slide.notes)


def test_a_poll_asks_what_is_asked(rule):
    """Does a poll show only the paragraph that asks for the guess, or the preceding paragraph if none
    asks?
    """
    result = new_output("stream", text="speed-up: 3.1×; you wrote down no guess\n")
    cells = [("guess('speed-up', unit='×')", []), ("compare('speed-up', 3.1)", [result])]
    told, asks = "It is what was predicted minus what is.", "**Guess** how fast it is."
    for said, kept in ((f"{told}\n\n{asks}", [asks]), (told, [told])):
        slides = rule.Maker(notebook("# 1 · Topic\n\n**Why?**", f"## 1.1 A law\n\n{said}", *cells)).slides()
        (poll,) = [slide for slide in slides if slide.layout == "poll"]
        words = [re.sub("</?(p|strong)>", "", point) for point in poll.points]
        assert words == [sentence.replace("*", "") for sentence in kept]


def test_sentences(rule):
    """Are abbreviations, formulas, brackets and code not mistaken for the end of a sentence?"""
    split = importlib.import_module("markup").sentences
    assert split("By Goyal et al. It is (so. And so) said $a. B$ here. `x. Y` ends. **Bold.** Then.") == [
        "By Goyal et al. It is (so. And so) said $a. B$ here.",
        "`x. Y` ends.",
        "**Bold.** Then.",
    ]


def test_too_few_slides_are_refused(rule):
    """Is a lecture refused if it yields too few slides for a deck?"""
    with pytest.raises(rule.DeckError, match="1 slides"):
        rule.slides_of(notebook("# 1 · Topic"))


def test_no_other_folder_is_replaced(tmp_path):
    """Is a folder that is not a folder of slides left unchanged, and is an unknown lecture reported?"""
    (tmp_path / "thesis.txt").write_text("kept")
    done = subprocess.run([sys.executable, SLIDES, "--to", tmp_path], capture_output=True, text=True)
    assert done.returncode and str(tmp_path) in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "kept"
    done = subprocess.run(
        [sys.executable, SLIDES, "99", "--to", tmp_path / "new"], capture_output=True, text=True
    )
    assert done.returncode and all(number in done.stderr for number in ("'99'", "01", "02"))
