"""The book contains every lecture, has no dead link and no image without alternative text, and loads nothing
from elsewhere.
"""

import dataclasses
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import numpy as np
import pytest

from cluster.staff import guesses

from .. import ALL, ROOT
from ..browser import FOCUS, browser, keyboard_faults, moving, needs_browser, overflows, spaced, violations
from ..modules import module_of
from .definitions import defined

BOOK = ROOT / "lectures" / "book"
LECTURES = sorted((ROOT / "lectures").glob("[0-9][0-9]_*.ipynb"))
LOADING = {"src", "data", "poster", "srcset"}


class Page(HTMLParser):
    """The references of a page: links, loaded files, anchors, images and formulas."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.ids, self.pictures, self.formulas = [], [], set(), [], 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        result = dict(attrs)
        self.ids |= {result.get("id"), result.get("name")}
        self.formulas += tag == "math"
        if tag == "a" and result.get("href"):
            self.links.append(result["href"])
        if tag == "img":
            self.pictures.append((result.get("src"), result.get("alt")))
        if tag == "link" and "canonical" not in result.get("rel", ""):
            self.loads.append(result["href"])
        self.loads += [value for name, value in attrs if name in LOADING and value]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The site built from the current lectures and assignments: (its folder, {path: Page})."""
    target = tmp_path_factory.mktemp("site") / "book"
    done = subprocess.run([sys.executable, BOOK, "--to", target], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return target, {path: Page(path) for path in target.rglob("*.html") if "_static" not in path.parts}


def test_every_lecture_and_assignment_is_in_the_contents(book):
    """Does the first page link to each lecture, each assignment, the glossary and the claims table?"""
    target, pages = book
    linked = {urlsplit(link).path for link in pages[target / "index.html"].links}
    notebooks = [*(ROOT / "lectures").glob("*.ipynb"), *(ROOT / "exercises").glob("*/*.ipynb")]
    wanted = {str(path.relative_to(ROOT).with_suffix(".html")) for path in notebooks}
    assert notebooks and wanted | {"lectures/CLAIMS.html", "lectures/GLOSSARY.html"} <= linked


def test_internal_links_lead_somewhere(book):
    """Does each link within the book lead to an existing file, and to an existing anchor in it?"""
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
    assert checked > 80


def test_nothing_is_loaded_from_another_host(book):
    """Do pages and style sheets load only the book's own files?"""
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
    """Does each image have meaningful alternative text?"""
    _, pages = book
    pictures = [(path.name, *picture) for path, page in pages.items() for picture in page.pictures]
    assert len(pictures) > 15
    for name, source, text in pictures:
        assert text and len(text) > 20 and not text.endswith((".png", ".svg")), f"{name}: {source}"


def test_formulas_are_drawn_without_a_script(book):
    """Are all formulas MathML, with no TeX left over?"""
    target, pages = book
    first = target / "lectures" / "01_convolution_as_gemm.html"
    assert pages[first].formulas > 20
    for path in pages:
        formulas = re.findall(r"<math.*?</math>", path.read_text(), re.DOTALL)
        left = [formula for formula in formulas if re.search(r"\\[a-zA-Z]+", formula)]
        assert not left, f"{path.name}: {left[0]}"


KINDS = {  # {kind: a page of this kind}
    "contents": "index.html",
    "lecture": "lectures/01_convolution_as_gemm.html",
    "lecture with a form above each output": "lectures/06_all_reduce.html",
    "assignment": "exercises/06_all_reduce/all_reduce.html",
    "ledger": "lectures/CLAIMS.html",
    "search": "search.html",
}


# thousands of similar elements; the code's colours are from a11y-pygments
MANY = (".highlight pre", "math", ".dataframe td", ".ledger td")


@pytest.mark.servers
@needs_browser
@pytest.mark.parametrize("path", KINDS.values(), ids=KINDS)
def test_pages_are_accessible(book, path):
    """Does a page pass axe's checks? Does Tab lead through the page, with each stop visible? Is it free of
    animations if reduced motion is requested? Does it fit into 320 pixels with the text spacing of WCAG?
    """
    target, _ = book
    with browser() as page:
        for scheme in ("dark", "light") if ALL else ("light",):
            page.emulate_media(color_scheme=scheme)
            page.goto((target / path).as_uri())
            assert violations(page, MANY) == [], scheme
        assert keyboard_faults(page) == [] and moving(page) == []
        page.set_viewport_size({"width": 320, "height": 640})  # 1280 pixels at a zoom of 400%
        page.goto((target / path).as_uri())
        spaced(page)
        assert overflows(page) <= 0


@pytest.mark.servers
@needs_browser
def test_no_page_is_wider_than_a_narrow_window(book):
    """Does every page, with its longest names and formulas, fit into a window 320 pixels wide?"""
    _, pages = book
    with browser(width=320, height=640) as page:
        for path in pages:
            page.goto(path.as_uri())
            assert overflows(page) <= 0, path.name


def test_no_solution_is_in_the_book(book):
    """Are the assignments' pages the students' versions, with blanks and without solutions?"""
    target, _ = book
    text = "".join(path.read_text() for path in target.rglob("*.html"))
    assert "YOUR CODE HERE" in text
    assert "BEGIN SOLUTION" not in text and "BEGIN HIDDEN TESTS" not in text


@pytest.fixture
def sources():
    return module_of("lectures/book/sources.py")


def test_picture_without_description_is_refused(sources):
    """Is the description after a figure used as its alternative text? Is the build refused if the next figure
    comes before a description?
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

    drawn = [new_output("display_data", {"image/png": ""})]
    cells = [
        new_code_cell("plot(1)", outputs=drawn),
        new_code_cell("plot(2)", outputs=drawn),
        new_markdown_cell("*(Figure: the **second** $x^2$ only. More.)*"),
    ]
    output = sources.alternative(cells, 1, Path("a.ipynb"))
    assert output == "Figure: the second x^2 only. The text below describes it further."
    with pytest.raises(sources.BookError, match=r"a\.ipynb: no description .* 'plot\(1\)'"):
        sources.alternative(cells, 0, Path("a.ipynb"))


def test_the_state_of_widgets_is_not_metadata_of_a_page(sources, tmp_path):
    """Is the state of a notebook's widgets removed from the metadata of its page?"""
    page = tmp_path / "01_topic.ipynb"
    nbformat.write(nbformat.v4.new_notebook(metadata={"widgets": {"key": "1"}, "title": "x"}), page)
    assert set(sources.prepared(page, str).metadata) == {"title"}


def test_each_lecture_has_its_question_in_the_contents(sources, tmp_path):
    """Does the table of contents show each lecture's question, even one of two lines?"""
    pages = sources.assemble(ROOT, tmp_path / "book")
    lectures = [page for page in pages if str(page).startswith("lectures/") and str(page).endswith(".ipynb")]
    text = (tmp_path / "book" / "index.md").read_text()
    assert lectures and all(re.search(rf"\({re.escape(str(page))}\)  \n  .+\?\n", text) for page in lectures)


def test_no_other_folder_is_replaced(tmp_path):
    """Is a folder that is not a book left unchanged, with a message?"""
    (tmp_path / "thesis.txt").write_text("kept")
    done = subprocess.run([sys.executable, BOOK, "--to", tmp_path], capture_output=True, text=True)
    assert done.returncode and str(tmp_path) in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "kept"


@pytest.mark.servers
@needs_browser
def test_guess_then_reveal(book):
    """Is an output hidden until a number has been entered? Does the keyboard suffice for this? Is the number
    kept when the page is reloaded?
    """
    target, _ = book
    address = (target / "lectures" / "06_all_reduce.html").as_uri()
    question = "parameter server, 512 ranks"
    with browser() as page:
        page.goto(address)
        output = page.locator(".cell_output", has_text=f"{question}:")
        assert output.count() == 1 and output.is_hidden()
        form = page.locator("form.guess-box", has_text=question)
        assert form.is_hidden(), "the question's text reveals the answer to the previous one"
        before = page.locator("form.guess-box", has_text="largest error on sizes held out")
        before.get_by_role("button", name="Show it").click()
        assert form.is_visible() and output.is_hidden()
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
        assert "visible" in page.locator("div[role=status]").inner_text()
        assert violations(page, within=".guess-box", looked=3) == []
        page.reload()
        output.wait_for()  # is_visible() is also false while the new page replaces the old one
        assert fields.first.input_value() == "1,200"
        form.get_by_role("button", name="Guess again").click()
        assert output.is_hidden()
        shut = page.locator(".shut").count()
        page.locator("div.guess-box", has_text="guess above").locator("visible=true").first.get_by_role(
            "button"
        ).click()
        assert page.locator(".shut").count() < shut


def told(cells, asked_at, answered_at):
    """Yield beginnings of the paragraphs that give an answer away. These are the paragraphs from the answer,
    or from a figure before it, to the next heading.
    """
    heading = re.compile(r"^#{1,6} ", re.MULTILINE)
    between = cells[asked_at:answered_at]
    begin = answered_at
    if not any(cell.cell_type == "markdown" and heading.search(cell.source) for cell in between):
        for index, cell in enumerate(between, asked_at):
            kinds = {kind for output in cell.get("outputs", ()) for kind in output.get("data", ())}
            if kinds & {"image/png", "text/html"}:
                begin = index
                break
    for cell in cells[begin + 1 :]:
        if cell.cell_type == "markdown":
            source = re.sub(r"(?s)<details>.*?</details>", "", cell.source)  # the lecture itself folds it
            first = heading.search(source)
            for paragraph in re.split(r"\n\s*\n", source[: first.start()] if first else source):
                plain = re.match(r"[A-Z][A-Za-z, ]{20,60}", " ".join(paragraph.split()))
                if plain:
                    yield plain.group().strip(" ,")
            if first:
                return


@pytest.mark.servers
@needs_browser
@pytest.mark.parametrize("lecture", LECTURES if ALL else LECTURES[5:6], ids=lambda path: path.stem)
def test_what_gives_an_answer_away_is_shut(book, lecture):
    """Does each question have a form, and are results and the text about them hidden until all questions are
    answered?

    On paper and without JavaScript, everything is visible.
    """
    target, _ = book
    cells = nbformat.read(lecture, as_version=4).cells
    answered, asked_at = guesses.answers(cells), {}
    for index, cell in enumerate(cells):
        for question in guesses.questions(cell.source, answered):
            asked_at.setdefault(question, index)
    later = {phrase for q, at in asked_at.items() for phrase in told(cells, at, answered[q][1])}
    assert later
    address = (target / "lectures" / f"{lecture.stem}.html").as_uri()
    with browser() as page:
        plain = page.context.browser.new_context(java_script_enabled=False).new_page()
        plain.goto(address)
        assert plain.locator(".shut, .guess-box").count() == 0 and missing(plain, later) == []
        page.goto(address)
        labels = page.locator("form.guess-box label span").all_text_contents()
        assert sorted(labels) == sorted(asked_at)
        results = page.locator(".cell_output", has_text="you wrote down no guess")
        assert results.count() == len({answered[q][1] for q in asked_at}) > 0
        assert not any(one.is_visible() for one in results.all())
        assert sorted(missing(page, later)) == sorted(later)
        page.emulate_media(media="print")
        assert missing(page, later) == []
        page.emulate_media(media="screen")
        forms = page.locator("form.guess-box:visible:has(button[type=submit]:visible)")
        for _ in range(len(asked_at)):  # each answer reveals the next question
            if forms.count():
                for field in forms.first.locator("input").all():
                    field.fill("1")
                forms.first.get_by_role("button", name="Write it down").click()
        assert page.locator(".shut").count() == 0 and missing(page, later) == []


def missing(page, message):
    """Return the given texts that are not visible on the page."""
    shown = " ".join(page.locator("article.bd-article").inner_text().split())
    return [text for text in message if text not in shown]


@pytest.mark.servers
@needs_browser
def test_everything_opens_at_once(book):
    """Does one button reveal everything on a page, and is this remembered when the page is reloaded?"""
    target, _ = book
    with browser() as page:
        page.goto((target / "lectures" / "09_asynchronous_sgd.html").as_uri())
        assert page.locator(".shut").count() > 20
        page.get_by_role("button", name="Show everything").focus()
        page.keyboard.press("Enter")
        assert page.locator(".shut").count() == 0
        assert "Everything is open" in page.locator("div[role=status]").inner_text()
        page.reload()
        page.get_by_role("button", name="Show everything").wait_for(state="hidden")
        assert page.locator(".shut").count() == 0


CALL = "([path, values]) => path.split('.').reduce((of, name) => of[name], whatIf)(...values)"
EXPLORERS = {
    "01": "a layer under the roofline",
    "02": "rate and momentum in a valley",
    "03": "the same maps by another convolution",
    "04": "the input pipeline",
    "05": "Amdahl",
    "06": "ring against tree",
    "07": "weak and strong scaling",
    "08": "noise scale and batch",
    "09": "stale gradient",
    "10": "how often to save",
    "11": "gathered weights",
}


def leaves(found):
    """Return the values of a formula's result as a flat list. The result may be a single value, a list, or
    {name: value}, which is sorted by name.
    """
    if isinstance(found, dict):
        found = [found[name] for name in sorted(found)]
    return [leaf for part in found for leaf in leaves(part)] if isinstance(found, list) else [found]


def numbers(value):
    return [leaf for leaf in leaves(value) if not isinstance(leaf, str)]


def words(value):
    return [leaf for leaf in leaves(value) if isinstance(leaf, str)]


def layers_of_lecture_01():
    """Return test cases for FLOPs, bytes, outputs and ceilings, from lecture 01's own code."""
    of = defined("01", {"THREADS", "blas", "pool", "rng", "LAYERS", "N", "SQUARE", "OF_THE_TIME"})
    layers = [*of["LAYERS"], of["Layer"]("odd", C=3, H=17, W=29, K=4, k=3, stride=2, pad=1)]
    cases = []
    for layer in layers:
        for N in (1, 8, 256):
            shape = dataclasses.asdict(layer) | {"N": N}
            rows = {rung: of["traffic"](layer, rung, N) for rung in ("least", "im2col", "shifted")}
            cases.append(("layer", [shape], {"out": [*layer.out, layer.K], "flops": layer.flops(N)} | rows))
            for machine in of["OF_THE_TIME"].values():
                at = layer.flops(N) / rows["least"]
                cases.append(("roofline", [at, *machine], float(of["roofline"](at, *machine))))
    for name, machine in of["OF_THE_TIME"].items():
        cases.append(("machineOf", [name], list(machine)))
    shapes = {layer.name: dataclasses.asdict(layer) for layer in of["LAYERS"]}
    cases += [("shapeOf", [name], {k: v for k, v in s.items() if k != "name"}) for name, s in shapes.items()]
    return cases


def rates_of_lecture_08():
    """Return test cases for the learning-rate factor, from lecture 08's own function, and for steps and
    images to a target."""
    of, cases = defined("08"), []
    for B, n, k in ((34.2, 32, 32), (300.0, 32, 32), (5175.0, 1, 7), (20.0, 256, 1000)):
        of["n"] = n
        cases.append(("factor", [B, n, k], of["allowed"](B, k)))
    # By hand: if the batch size is the noise scale, steps and images are both twice their minimum.
    # In general, (S - 1)(E - 1) = 1 (McCandlish et al. 2018).
    cases += [("steps", [300, 300], 2.0), ("examples", [300, 300], 2.0), ("steps", [300, 100], 4.0)]
    return [*cases, ("examples", [300, 100], 1 + 1 / (4.0 - 1))]


def pipelines_of_lecture_04():
    """Return test cases for the seconds per image, from lecture 04's own function."""
    of = defined("04", {"PLAIN", "IMAGES", "N"})
    cases = []
    for w, d, a, s, c, k, p in ((2.09, 0.14, 0.19, 0.8, 1.36, 16, 2), (40, 3, 5, 0.1, 0.2, 2, 8)):
        values = {"w": w, "d": d, "a": a, "s": s, "c": c, "k": k, "p": p}
        for name, expected in of["predicted"](**values).items():
            cases.append((f"pipelines.{name}", [values], expected))
    return cases


def valleys_of_lecture_02():
    """Return test cases for SGD on a parabola: from lecture 02's own loop, from Keras' momentum, and from
    numpy's roots."""
    import keras

    of = defined("02", {"T"})
    cases, updates = [], 40
    for m, rate, curvatures in (  # these are exact in float32, which Keras uses for learning rates
        (0.0, 0.125, [1.5, 0.05]),
        (0.0, 0.125, [15.0, 0.5]),  # jumps across the valley
        (0.0, 0.125, [17.0, 0.5]),  # above the largest stable learning rate
        (0.875, 0.0078125, [1.5, 0.05]),
        (0.5, 0.25, [8.0, 1.0]),
        (0.5, 0.25, [13.0, 1.0]),  # above the largest stable learning rate
    ):
        lam = np.array(curvatures)
        of["random_weights"] = lambda rng, bias: [np.ones(2)]
        of["loss_and_gradients"] = lambda w, x, y, lam=lam: (np.sum(lam * w[0] ** 2) / 2, [lam * w[0]])
        if m:
            w, losses = keras.Variable(np.ones(2), dtype="float64"), []
            optimizer = keras.optimizers.SGD(rate, momentum=m)
            optimizer.build([w])
            for _ in range(updates):
                losses.append(float(np.sum(lam * w.numpy() ** 2) / 2))
                optimizer.apply([keras.ops.convert_to_tensor(lam * w.numpy())])
        else:
            _, losses = of["sgd"](np.zeros(1), np.zeros(1), rate, updates=updates)
        cases.append(("losses", [rate, m, curvatures, updates], losses))
        assert (losses[-1] > losses[0]) == (rate > 2 * (1 + m) / curvatures[0])
        cases.append(("largestRate", [m, curvatures[0]], edge(m, curvatures[0])))
    for rate, m, curvature, way in (
        (0.1, 0.0, 1.5, "creeps"),
        (1.0, 0.0, 1.5, "jumps across"),
        (0.01, 0.9, 1.5, "swings"),
        (0.01, 0.9, 0.05, "creeps"),
        (2.6, 0.9, 1.5, "jumps across"),
    ):
        length = float(np.abs(np.roots([1, rate * curvature - 1 - m, m])).max())
        cases.append(("decay", [rate, m, curvature], {"factor": length, "way": way}))
    return cases


def edge(m, curvature):
    """Find by bisection the largest stable learning rate of SGD with momentum m: the absolute values of its
    recurrence's roots are at most 1.
    """
    low, high = 0.0, 100.0
    for _ in range(60):
        rate = (low + high) / 2
        inside = np.abs(np.roots([1, rate * curvature - 1 - m, m])).max() < 1
        low, high = (rate, high) if inside else (low, rate)
    return low


def blocks_of_lecture_03():
    """Return test cases for the cost of convolutions, from lecture 03's own counter of Keras layers."""
    import keras
    from keras import layers

    settings = {"WEIGHTED", "COUNTED", "POOLING", "KEPT", "VGG", "RESNETS", "MODULES"}
    of = defined("03", settings, cross_entropy=None)

    def chain(side, C, *convolutions):
        x = image = keras.Input((side, side, C))
        for layer in convolutions:
            x = layer(x)
        return keras.Model(image, x)

    def conv(maps, k=1, stride=1, groups=1):
        return layers.Conv2D(maps, k, stride, padding="same", groups=groups)

    cases = []
    # cut: a number of groups that divides C and K; inside: one that divides R
    for side, C, K, k, stride, R, g, cut, inside in (
        (28, 192, 32, 5, 1, 16, 4, 4, 4),
        (27, 96, 256, 5, 1, 48, 2, 2, 2),
        (56, 256, 256, 3, 1, 128, 32, 32, 32),
        (15, 12, 18, 3, 2, 8, 5, 3, 4),
        (7, 5, 7, 1, 4, 3, 100, 1, 3),
    ):
        ways = [
            [conv(K, k, stride)],
            [conv(K, k, stride, cut)],
            [layers.DepthwiseConv2D(k, stride, padding="same"), conv(K)],
            [conv(R), conv(K, k, stride)],
            [conv(R), conv(R, k, stride), conv(K)],
            [conv(R), conv(R, k, stride, inside), conv(K)],
        ]
        results = []
        for way in ways:
            table = of["count"](of["sketch"](chain, side, C, *way))
            sums = table[["parameters", "multiply-adds", "kept"]].sum()
            results.append(dict(zip(("parameters", "products", "kept"), map(int, sums), strict=True)))
        shape = {"side": side, "C": C, "K": K, "k": k, "stride": stride, "R": R, "g": g}
        cases.append(("counted", [shape], results))
    return cases


def parts(of, p, n):
    """Return the parts of a step on p GPUs, with the page's names, from three calls of lecture 07's
    step_time."""
    whole, seen = (float(of["step_time"](p, n, overlap, of["gpus"])) for overlap in (False, True))
    alone = float(of["step_time"](1, n))
    return {"compute": alone, "ring": whole - alone, "hidden": whole - seen, "time": seen}


def steps_of_lecture_07():
    """Return test cases for the time of a step and for weak and strong scaling, from lecture 07's own
    step_time."""
    cases = []
    for M, link, alpha, bucket, compute, gpus in ((102, 6.25, 20, 25, 5.625, 8), (550, 1.5, 300, 5, 0.9, 3)):
        of = defined("07", {"M", "BACKWARD", "EPOCHS"}, gpus=gpus)
        constants = {"M": 1e6 * M, "LINK": 1e9 * link, "ALPHA": 1e-6 * alpha, "BUCKET": 1e6 * bucket}
        constants |= {"BACKWARD": 1e-3 * compute * 2 / 3, "FORWARD": 1e-3 * compute / 3}
        of |= constants
        sliders = {"M": M, "link": link, "alpha": alpha, "bucket": bucket, "compute": compute, "gpus": gpus}
        named = {name if name == "M" else name.lower(): value for name, value in constants.items()}
        for p, n, N in ((1, 32, 256), (8, 32, 256), (256, 32, 256), (512, 1, 4096), (100, 7, 256)):
            most = math.ceil(N / p)
            cases.append(("step", [named | {"p": p, "n": n, "gpus": gpus}], parts(of, p, n)))
            for mode, each, faster in (
                ("weak", n, p * parts(of, 1, n)["time"] / parts(of, p, n)["time"]),
                ("strong", most, parts(of, 1, N)["time"] / parts(of, p, most)["time"]),
            ):
                expected = parts(of, p, each) | {"n": each, "faster": faster}
                cases.append((mode, [sliders | {"n": n, "N": N}, p], expected))
    return cases


def gathers_of_lecture_11():
    """Return test cases for the time of a gather and of a sharded step, from lecture 11's own functions."""
    of = defined("11", {"ALPHA", "F", "WIDTH", "PSI", "STATE"})
    cases = [
        ("gatherTime", [size, p, rate, 20e-6], of["gather_seconds"](size, p, rate))
        for size, p, rate in ((200e6, 64, 50e9), (0.5e6, 8, 450e9))
    ]
    return cases + [
        ("shardedStep", [layers, c, 2.0], of["step_seconds"](layers, c, 2.0))
        for layers, c in ((3, 1.0), (32, 1.5), (8, 5.0))
    ]


@pytest.mark.servers
@needs_browser
@pytest.mark.skipif(not ALL, reason="a minute: make test-all (CLUSTER_TEST_ALL=1)")
def test_explorers_have_the_formulas_of_the_lectures(book):
    """Do the widgets' formulas give the same values as the lectures' Python code? Do the arrow keys change
    what a widget shows?
    """
    from cluster.network import Network, closed_forms

    target, _ = book
    of = defined("10")
    cases = layers_of_lecture_01() + rates_of_lecture_08() + pipelines_of_lecture_04()
    cases += valleys_of_lecture_02() + blocks_of_lecture_03() + steps_of_lecture_07()
    limit = defined("09", script=None)["limit"]
    cases += [("staleLimit", [s], limit(s)) for s in (0, 1, 7, 63)]
    cases += [("amdahl", [s, p], 1 / (s + (1 - s) / p)) for s in (0.01, 0.4) for p in (1, 7, 1000)]
    cases += [("gustafson", [0.25, 8], 6.25)]  # by hand: 0.25 + 0.75 · 8
    for p, n, alpha, beta in ((2, 64, 1e-6, 1e-9), (6, 1e6, 2e-5, 1.6e-10), (512, 1e8, 2e-5, 1.6e-10)):
        network = Network(latency=alpha, time_per_byte=beta)
        for name, f in (("ring", "ring"), ("tree", "tree"), ("halving", "halving_doubling")):
            cases.append((name, [p, n, alpha, beta], getattr(closed_forms, f)(p, n, network)))
    for C, M, R in ((2.0, 474.0, 10.0), (5.0, 10.0, 1.0), (30.0, 10.0, 1.0)):
        cases += [(name, [C, M], float(of[name](C, M))) for name in ("young", "daly", "best")]
        cases.append(("goodput", [7.0, C, M, R], float(of["exact"](7.0, C, M, R))))
    cases += gathers_of_lecture_11()
    with browser() as page:
        for number, law in EXPLORERS.items():
            (path,) = (target / "lectures").glob(f"{number}_*.html")
            page.goto(path.as_uri())
            # once, because all pages have the same script
            for name, values, expected in cases if number == "01" else ():
                result = page.evaluate(CALL, [name, values])
                assert words(result) == words(expected), (name, values)
                assert numbers(result) == pytest.approx(numbers(expected), rel=1e-9), (name, values)
            explorer = page.locator(".explorer")
            assert law in explorer.locator("h3").inner_text()
            before = explorer.locator("table").inner_text()
            slider = explorer.locator("input[type=range]").first
            slider.focus()
            for _ in range(30):
                page.keyboard.press("ArrowRight")
            assert explorer.locator("table").inner_text() != before
            assert slider.get_attribute("aria-valuetext") == explorer.locator("output").first.inner_text()
            assert explorer.locator("polyline, .bar").count()
            assert violations(page, within=".explorer", looked=3) == []


CUT = """one => [...one.querySelectorAll("*:not(svg *)")]
    .filter(part => part.getBoundingClientRect().right > one.getBoundingClientRect().right)
    .map(part => part.outerHTML)"""


@pytest.mark.servers
@needs_browser
@pytest.mark.parametrize("number", EXPLORERS if ALL else ["02", "07"])
def test_explorers_in_a_narrow_window_and_dark(book, number):
    """In dark mode and a window 390 pixels wide, are all parts of a widget visible, and its controls
    reachable with Tab? Does the widget show finite numbers at both ends of each slider?
    """
    target, _ = book
    (path,) = (target / "lectures").glob(f"{number}_*.html")
    with browser(width=390, height=844) as page:
        page.emulate_media(color_scheme="dark")
        page.goto(path.as_uri())
        explorer = page.locator(".explorer")
        assert violations(page, within=".explorer", looked=3) == []
        assert overflows(page) <= 0 and explorer.evaluate(CUT) == []
        page.set_viewport_size({"width": 320, "height": 844})  # 1280 pixels at a zoom of 400%
        assert overflows(page) <= 0 and explorer.evaluate(CUT) == []
        page.set_viewport_size({"width": 390, "height": 844})
        controls = explorer.locator("input, select")
        controls.first.focus()
        for control in controls.all():
            assert control.evaluate("one => one === document.activeElement")
            assert control.evaluate(FOCUS)["fault"] == ""
            if control.get_attribute("type") == "range":
                start = control.input_value()
                for key in ("Home", "End"):
                    page.keyboard.press(key)
                    shown = explorer.evaluate("one => one.innerHTML + one.innerText")
                    assert not re.search("NaN|Infinity|undefined|∞", shown), (
                        key,
                        control.get_attribute("aria-valuetext"),
                    )
                    assert overflows(page) <= 0
                control.fill(start)
            page.keyboard.press("Tab")
