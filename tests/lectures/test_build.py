"""The lectures run from top to bottom, and the notebooks match their texts."""

import base64
import io
import subprocess
import sys

import jupytext
import nbformat
import numpy as np
import pytest
from PIL import Image

from cluster.lecture import claim

from .. import ALL, ROOT
from ..modules import module_of

build = module_of("lectures/build.py")
TEXTS = sorted((ROOT / "lectures" / "text").glob("[0-9][0-9]_*.py"))
# The only lecture that is executed by default, because it submits jobs. make test-all executes every lecture.
[WITNESS] = (text for text in TEXTS if text.stem.startswith("05"))


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_committed_notebook_is_of_its_text(text):
    """Does the committed notebook match its text, and has it been executed?"""
    build.check_committed(text, ROOT / "lectures" / f"{text.stem}.ipynb")


@pytest.mark.notebook
@pytest.mark.timeout(900)
@pytest.mark.parametrize("text", TEXTS if ALL else [WITNESS], ids=lambda text: text.stem)
def test_lecture_runs(text):
    """Does the lecture run without errors or output on stderr, and give the same outputs as the committed
    notebook?
    """
    command = [sys.executable, "lectures/build.py", text.stem[:2], "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_a_change_of_code_executes_a_lecture(tmp_path, monkeypatch):
    """Does a new sentence leave the outputs unchanged, and does a new line of code update them?"""
    text, target = tmp_path / "text" / "01_topic.py", tmp_path / "01_topic.ipynb"
    text.parent.mkdir()
    monkeypatch.setattr(build, "LECTURES", tmp_path)

    def outputs():
        return [o.text for cell in nbformat.read(target, as_version=4).cells for o in cell.get("outputs", ())]

    text.write_text("# %% [markdown]\n# One.\n\n# %%\nimport os\n\nprint(os.getpid())\n")
    assert build.build(text) > 0
    first = outputs()
    text.write_text(text.read_text().replace("# One.", "# Two.\n\n# %% [markdown]\n# Three."))
    assert build.build(text) is None and outputs() == first
    assert [cell.source for cell in nbformat.read(target, as_version=4).cells][:2] == ["Two.", "Three."]
    build.check_committed(text, target)
    text.write_text(text.read_text() + "print(1)\n")
    assert build.build(text) > 0 and outputs() != first
    first = outputs()
    assert build.build(text, again=True) > 0 and outputs() != first


def test_every_notebook_has_a_text():
    """Is each committed lecture notebook generated from a text?"""
    notebooks = {path.stem for path in (ROOT / "lectures").glob("*.ipynb")}
    assert notebooks and notebooks == {path.stem for path in TEXTS}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_figures_have_a_text_for_those_who_cannot_see(text):
    """Does each image in the prose have alternative text?"""
    notebook = nbformat.read(ROOT / "lectures" / f"{text.stem}.ipynb", as_version=4)
    for cell in notebook.cells:
        assert "![](" not in cell.source, cell.source
        assert "<img" not in cell.source or "alt=" in cell.source, cell.source


def book(*cells):
    """Return a notebook of code cells, each given as (tags, *outputs)."""
    made = []
    for tags, *outputs in cells:
        cell = nbformat.v4.new_code_cell("1", metadata={"tags": tags} if tags else {})
        cell.outputs = [
            nbformat.v4.new_output("stream", name="stdout", text=output)
            if isinstance(output, str)
            else nbformat.v4.new_output("display_data", output)
            for output in outputs
        ]
        made.append(cell)
    return nbformat.v4.new_notebook(cells=made)


def lecture(prose, *lines, code="claim(…)"):
    """Return a lecture whose second section has this prose and a code cell that has printed these lines."""
    cell = nbformat.v4.new_code_cell(code)
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text="\n".join(lines))]
    return nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("## 1.1 One\n\nAnother is smaller."),
            nbformat.v4.new_markdown_cell(f"## 1.2 Two\n\n{prose}"),
            cell,
        ]
    )


LARGEST = "The ring is the **fastest of\nthree** at 100 MB."


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (lecture(LARGEST, "✓ the ring is the fastest of three"), ""),
        (lecture(LARGEST, "✓ the ring is the slowest of three"), "slowest"),
        (lecture(LARGEST, "✓ another is smaller"), "smaller"),  # the sentence is in another section
        (lecture(LARGEST, "✗ not on this machine: the ring is the fastest of three"), "✗"),
        (lecture(LARGEST, "WARNING: the machine is busy."), "WARNING"),
        (lecture("word " * 3_200), "3209 words"),
        (lecture("one", code="x = 1\n" * 21), "21 lines"),
        (lecture("one", code="x" * 89), "89 characters"),
        (lecture("one", code="guess('q')\n" * 13), "13 guesses"),
        (lecture("word " * 3_000 + "\n## Further\n" + "word " * 900), ""),
    ],
)
def test_a_lecture_with_a_fault_is_refused(made, value):
    """Is a lecture refused if a claim is false or missing from its section's prose, if a warning was printed,
    or if it has too many words, lines, characters or guesses?
    """
    if not value:
        return build.refuse_faults("10_topic", made)
    with pytest.raises(build.BuildError, match=value):
        build.refuse_faults("10_topic", made)


def test_figures_are_small():
    """Does a figure keep its size with few colours, once and for all, and is too large a figure refused?"""
    pixels = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    notebook = book(([], {"image/png": base64.b64encode(written.getvalue()).decode()}))
    build.limit_colours(notebook)
    [data] = build.figures(notebook)
    once = data["image/png"]
    image = Image.open(io.BytesIO(base64.b64decode(once)))
    assert image.size == (800, 600) and len(image.getcolors()) <= build.COLOURS
    build.limit_colours(notebook)
    assert data["image/png"] == once
    with pytest.raises(build.BuildError, match=str(build.FIGURES)):
        build.refuse_faults("10_topic", notebook)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_no_prose_stands_in_the_marker_of_a_cell(text):
    """Are all cell markers free of prose? With `# %% [markdown] A sentence`, the sentence would become a
    title in the metadata, which no reader sees."""
    cells = jupytext.reads(text.read_text(encoding="utf-8"), fmt="py:percent").cells
    assert [cell.metadata["title"] for cell in cells if "title" in cell.metadata] == []


def test_a_claim_prints_whether_it_holds(capsys):
    claim("one is less than two", 1 < 2)
    claim("two is less than one", 2 < 1)
    assert capsys.readouterr().out.splitlines() == [
        "✓ one is less than two",
        "✗ not on this machine: two is less than one",
    ]


PICTURE = {"image/png": "…", "text/plain": "<Figure size 640x480 with 1 Axes>"}
TABLE = '<style>#T_{0} {{}}</style><table id="T_{0}"><tr><td>loss</td><td>{1}</td></tr></table>'


@pytest.mark.parametrize(
    ("committed", "executed", "message"),
    [
        (([], "loss 0.52\n"), ([], "loss 0.52\n"), ""),
        (([], "loss 0.52\n"), ([], "loss 0.53\n"), ""),  # one unit in the last digit
        (([], "loss 0.52\n"), ([], "loss 0.54\n"), "0.52, now 0.54"),
        (([], "norm 123.45\n"), ([], "norm 124.45\n"), ""),  # less than one percent
        (([], "61,706 weights\n"), ([], "61,707 weights\n"), "61,706, now 61,707"),
        (([], "2.6e-16\n"), ([], "3e-15\n"), "2.6e-16, now 3e-15"),
        (([], "it holds\n"), ([], "it hangs\n"), "it hangs"),
        (([], "a\n", "b\n"), ([], "a\nb\n"), ""),  # a stream in two parts
        (([], "a\n"), ([], "a\n", PICTURE), "puts out"),
        (([], PICTURE), ([], PICTURE | {"image/png": "another"}), ""),  # images are not compared
        (([], {"text/html": TABLE.format("f3a", 1.25)}), ([], {"text/html": TABLE.format("b71", 1.25)}), ""),
        (
            ([], {"text/html": TABLE.format("f", 1.25)}),
            ([], {"text/html": TABLE.format("f", 2.25)}),
            "now 2.25",
        ),
        ((["measured"], "3.1 ms, slow\n"), (["measured"], "0.2 s, fast\n"), ""),
        ((["measured"], "✓ fast\n"), (["measured"], "✗ not on this machine: fast\n"), ""),
        (([], "✓ fast\n"), ([], "✗ not on this machine: fast\n"), "✗ not on this"),
        ((["measured"], "3.1 ms\n"), (["measured"],), "puts out nothing"),
        ((["measured"], "3 ms\n"), ([], "4 ms\n"), "3, now 4"),  # the tags in the lecture's text decide
    ],
)
def test_what_is_compared(committed, executed, message):
    """Are outputs compared by their kinds, words and numbers? Are small rounding differences, the contents of
    images, and measurements ignored?
    """
    result = build.differences(book(committed), book(executed))
    assert message in "".join(result) and bool(result) == bool(message), result
