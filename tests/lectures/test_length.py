"""Can a lecture of the second edition be taught in 90 minutes? The build refuses longer lectures of the third
edition.

The limit is 4,000 words and 45 code cells before the section *Further*.

A word is anything between blanks in the Markdown, including formulas, tables and the text of figures.
"""

import re

import jupytext
import pytest

from .. import ROOT

TEXTS = sorted((ROOT / "lectures" / "text").glob("[0-9][0-9]_*.py"))
WORDS, CELLS = 4_000, 45


def taught(text: str) -> tuple[int, int]:
    """Return (words, code cells) of a lecture in Jupytext's percent format, up to its heading `##
    Further`."""
    words = cells = 0
    for cell in jupytext.reads(text, fmt="py:percent").cells:
        if cell.cell_type == "code":
            cells += 1
            continue
        prose, *further = re.split(r"(?m)^## Further$", cell.source)
        words += len(prose.split())
        if further:
            break
    return words, cells


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_lecture_can_be_taught_in_90_minutes(path):
    words, cells = taught(path.read_text(encoding="utf-8"))
    assert words <= WORDS and cells <= CELLS, f"{words} words, {cells} code cells before *Further*"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_no_prose_stands_in_the_marker_of_a_cell(path):
    """Are all cell markers free of prose? With `# %% [markdown] A sentence`, the sentence would become a
    title in the metadata, which no reader sees."""
    cells = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent").cells
    assert [cell.metadata["title"] for cell in cells if "title" in cell.metadata] == []


def test_what_counts():
    """Do the counts include all text between blanks and each code cell, but nothing under *Further*?"""
    text = """\
# %% [markdown]
# # One $x$ [two](http://a/b)
#
# $$y$$
#
# ![a text
# for it](c.svg) three 4 ·
#
# *(Figure: a line
# that rises.)*

# %%
x = 1

# %% [markdown]
# ## Further
#
# five

# %%
y = 2
"""
    assert taught(text) == (17, 1)
