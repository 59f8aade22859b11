"""Is the book whole: every lecture, no dead link, no picture without words, nothing from outside?"""

import ast
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import numpy as np
import pytest

from .. import ROOT
from ..browser import browser, needs_browser, overflows, violations
from ..modules import module_of

BOOK = ROOT / "lectures" / "book"
LOADING = {"src", "data", "poster", "srcset"}


class Page(HTMLParser):
    """What a page refers to: links, what it loads, its anchors, its pictures, its formulas."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.ids, self.pictures, self.formulas = [], [], set(), [], 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found.get("id"), found.get("name")}
        self.formulas += tag == "math"
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "img":
            self.pictures.append((found.get("src"), found.get("alt")))
        if tag == "link" and "canonical" not in found.get("rel", ""):
            self.loads.append(found["href"])
        self.loads += [value for name, value in attrs if name in LOADING and value]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The site, built from the lectures and assignments as they are: {path: Page}, and its folder."""
    target = tmp_path_factory.mktemp("site") / "book"
    done = subprocess.run([sys.executable, BOOK, "--to", target], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return target, {path: Page(path) for path in target.rglob("*.html") if "_static" not in path.parts}


def test_every_lecture_and_assignment_is_in_the_contents(book):
    """Does the first page link each lecture, each assignment and the ledger?"""
    target, pages = book
    linked = {urlsplit(link).path for link in pages[target / "index.html"].links}
    notebooks = [*(ROOT / "lectures").glob("*.ipynb"), *(ROOT / "exercises").glob("*/*.ipynb")]
    wanted = {str(path.relative_to(ROOT).with_suffix(".html")) for path in notebooks}
    assert notebooks and wanted | {"lectures/CLAIMS.html"} <= linked


def test_internal_links_lead_somewhere(book):
    """Does each link within the book lead to a file that is there, and to an anchor that is in it?"""
    _, pages = book
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert there.is_file(), f"{path.name}: {link}"
            if parts.fragment and there in pages:
                assert unquote(parts.fragment) in pages[there].ids, f"{path.name}: {link}"
            checked += 1
    assert checked > 100


def test_nothing_is_loaded_from_another_host(book):
    """Do pages and style sheets load only files of the book's own?"""
    target, pages = book
    for path, page in pages.items():
        assert page.loads
        for address in page.loads:
            parts = urlsplit(address)
            assert parts.scheme == "data" or not (parts.scheme or parts.netloc), f"{path.name}: {address}"
            assert parts.scheme or (path.parent / parts.path).exists(), f"{path.name}: {address}"
    for path in target.rglob("*.css"):
        assert not re.search(r"(url\(\s*|@import\s+)['\"]?(https?:)?//", path.read_text()), path


def test_every_picture_has_words(book):
    """Has each picture an alternative text that says something?"""
    _, pages = book
    pictures = [(path.name, *picture) for path, page in pages.items() for picture in page.pictures]
    assert len(pictures) > 15
    for name, source, words in pictures:
        assert words and len(words) > 20 and not words.endswith((".png", ".svg")), f"{name}: {source}"


def test_formulas_are_drawn_without_a_script(book):
    """Is mathematics MathML, with no TeX left over?"""
    target, pages = book
    first = target / "lectures" / "01_convolution_as_gemm.html"
    assert pages[first].formulas > 20
    for path in pages:
        formulas = re.findall(r"<math.*?</math>", path.read_text(), re.DOTALL)
        left = [formula for formula in formulas if re.search(r"\\[a-zA-Z]+", formula)]
        assert not left, f"{path.name}: {left[0]}"


@pytest.mark.servers
@needs_browser
def test_lecture_page_is_accessible(book):
    """Has axe nothing against the contents and a lecture's page, and does a narrow window cut nothing off?"""
    target, _ = book
    many = (
        ".highlight pre",
        "math",
        ".dataframe td",
    )  # thousands, alike; the code's colours are a11y-pygments'
    with browser() as page:
        for path in ("index.html", "lectures/01_convolution_as_gemm.html"):
            page.goto((target / path).as_uri())
            assert violations(page, many) == [], path
            page.set_viewport_size({"width": 380, "height": 900})
            assert overflows(page) <= 0, path
            page.set_viewport_size({"width": 1200, "height": 900})


def test_no_solution_is_in_the_book(book):
    """Are the pages of assignments those that students get, holes and all?"""
    target, _ = book
    text = "".join(path.read_text() for path in target.rglob("*.html"))
    assert "YOUR CODE HERE" in text
    assert "BEGIN SOLUTION" not in text and "BEGIN HIDDEN TESTS" not in text


@pytest.fixture
def sources():
    return module_of("lectures/book/sources.py")


def test_picture_without_description_is_refused(sources):
    """Is a cell that draws, with no description before the next picture, named with what to do?"""
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

    drawn = [new_output("display_data", {"image/png": ""})]
    cells = [
        new_code_cell("plot(1)", outputs=drawn),
        new_code_cell("plot(2)", outputs=drawn),
        new_markdown_cell("*(Figure: the **second** $x^2$ only. More.)*"),
    ]
    said = sources.alternative(cells, 1, Path("a.ipynb"))
    assert said == "Figure: the second x^2 only. The text below describes it further."
    with pytest.raises(sources.BookError, match=r"a\.ipynb: no description .* 'plot\(1\)'"):
        sources.alternative(cells, 0, Path("a.ipynb"))


def test_what_a_lecture_was_made_of_is_no_fact_of_its_page(sources, tmp_path):
    """Do the key and its parts in a notebook's metadata stay out of the page?"""
    page = tmp_path / "01_topic.ipynb"
    nbformat.write(nbformat.v4.new_notebook(metadata={"made_of": {"key": "1"}, "title": "x"}), page)
    assert set(sources.prepared(page, str).metadata) == {"title"}


def test_no_other_folder_is_replaced(tmp_path):
    """Does a folder that is no book stay as it is, with a word that says so?"""
    (tmp_path / "thesis.txt").write_text("kept")
    done = subprocess.run([sys.executable, BOOK, "--to", tmp_path], capture_output=True, text=True)
    assert done.returncode and "is no book" in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "kept"


@pytest.mark.servers
@needs_browser
def test_guess_then_reveal(book):
    """Does an output stay shut until a number is written down, by keyboard alone, and is it kept?"""
    target, _ = book
    address = (target / "lectures" / "06_all_reduce.html").as_uri()
    question = "parameter server, 512 ranks"
    with browser() as page:
        page.goto(address)
        output = page.locator(".cell_output", has_text=f"{question}:")
        assert output.count() == 1 and output.is_hidden()
        form = page.locator("form.guess-box", has_text=question)
        fields = form.locator("input")
        fields.first.focus()
        page.keyboard.type("many")
        page.keyboard.press("Enter")
        assert "A number, please" in form.get_by_role("alert").inner_text() and output.is_hidden()
        fields.first.fill("1,200")
        page.keyboard.press("Tab")
        page.keyboard.type("3e-2")
        page.keyboard.press("Enter")
        assert output.is_visible() and f"{question}: 16.8 s; you guessed 1,200" in output.inner_text()
        assert output.evaluate("output => output === document.activeElement")
        assert "open" in page.locator("div[role=status]").inner_text()
        assert violations(page, within=".guess-box", looked=3) == []
        page.reload()
        assert output.is_visible() and fields.first.input_value() == "1,200"
        form.get_by_role("button", name="Guess again").click()
        assert output.is_hidden()
        page.locator(".guess-box", has_text="opens when").locator("visible=true").last.get_by_role(
            "button"
        ).click()
        assert page.locator(".cell_output:visible").count() > 0


@pytest.mark.servers
@needs_browser
def test_every_question_has_its_form(book):
    """Has each answered question a field and a shut output, and is all open without JavaScript?"""
    from cluster.staff import guesses

    target, _ = book
    with browser() as page:
        plain = page.context.browser.new_context(java_script_enabled=False)
        for lecture in sorted((ROOT / "lectures").glob("[0-9][0-9]_*.ipynb")):
            cells = nbformat.read(lecture, as_version=4).cells
            answered = guesses.answers(cells)
            asked = {q for cell in cells for q in guesses.questions(cell.source, answered)}
            address = (target / "lectures" / f"{lecture.stem}.html").as_uri()
            page.goto(address)
            labels = page.locator("form.guess-box label span").all_inner_texts()
            assert sorted(labels) == sorted(asked), lecture.stem
            shut = page.locator(".cell_output[hidden]").count()
            assert shut == len({answered[q][1] for q in asked}) > 0, lecture.stem
            without = plain.new_page()
            without.goto(address)
            assert without.locator(".cell_output[hidden], .guess-box").count() == 0
            without.close()


@pytest.mark.servers
@needs_browser
def test_explorers_have_the_formulas_of_the_lectures(book):
    """Do the sliders' formulas give what Python's give, and do the arrow keys move what is shown?"""
    from cluster.network import Network, closed_forms

    target, _ = book
    source = (ROOT / "lectures" / "text" / "10_running_at_scale.py").read_text()
    wanted = ("young", "daly", "best", "exact")
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    of = {"np": np}
    exec(compile(ast.Module(functions, []), "lecture 10", "exec"), of)
    cases = [("amdahl", [s, p], 1 / (s + (1 - s) / p)) for s in (0.01, 0.4) for p in (1, 7, 1000)]
    cases += [("gustafson", [0.25, 8], 6.25)]  # by hand: 0.25 + 0.75 · 8
    for p, n, alpha, beta in ((2, 64, 1e-6, 1e-9), (6, 1e6, 2e-5, 1.6e-10), (512, 1e8, 2e-5, 1.6e-10)):
        network = Network(latency=alpha, time_per_byte=beta)
        for name, f in (("ring", "ring"), ("tree", "tree"), ("halving", "halving_doubling")):
            cases.append((name, [p, n, alpha, beta], getattr(closed_forms, f)(p, n, network)))
    for C, M, R in ((2.0, 474.0, 10.0), (5.0, 10.0, 1.0), (30.0, 10.0, 1.0)):
        cases += [(name, [C, M], float(of[name](C, M))) for name in ("young", "daly", "best")]
        cases.append(("goodput", [7.0, C, M, R], float(of["exact"](7.0, C, M, R))))
    with browser() as page:
        for number, law in (("05", "Amdahl"), ("06", "ring against tree"), ("10", "how often to save")):
            (path,) = (target / "lectures").glob(f"{number}_*.html")
            page.goto(path.as_uri())
            for name, values, expected in cases:
                found = page.evaluate("([name, values]) => whatIf[name](...values)", [name, values])
                assert found == pytest.approx(expected, rel=1e-9), (name, values)
            explorer = page.locator(".explorer")
            assert law in explorer.locator("h3").inner_text()
            before = explorer.locator("table").inner_text()
            slider = explorer.locator("input").first
            slider.focus()
            for _ in range(30):
                page.keyboard.press("ArrowRight")
            assert explorer.locator("table").inner_text() != before
            assert slider.get_attribute("aria-valuetext") == explorer.locator("output").first.inner_text()
            drawn = explorer.locator("polyline").first.get_attribute("points")
            assert drawn and "NaN" not in drawn and "Infinity" not in drawn
            assert violations(page, within=".explorer", looked=3) == []
