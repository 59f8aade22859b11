"""Do the lectures run from top to bottom, and are the notebooks those of their texts?"""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
TEXTS = sorted((ROOT / "lectures" / "text").glob("[0-9][0-9]_*.py"))


@pytest.mark.notebook
@pytest.mark.timeout(900)
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_lecture_runs(text):
    """Does the lecture execute without error or noise, and is the committed notebook of this text?"""
    command = [sys.executable, "lectures/build.py", text.stem[:2], "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_notebook_has_a_text():
    """Is no lecture left that no text makes?"""
    notebooks = {path.stem for path in (ROOT / "lectures").glob("*.ipynb")}
    assert notebooks and notebooks == {path.stem for path in TEXTS}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_figures_have_a_text_for_those_who_cannot_see(text):
    """Does every picture in the prose carry alternative text?"""
    notebook = nbformat.read(ROOT / "lectures" / f"{text.stem}.ipynb", as_version=4)
    for cell in notebook.cells:
        assert "![](" not in cell.source, cell.source
        assert "<img" not in cell.source or "alt=" in cell.source, cell.source
