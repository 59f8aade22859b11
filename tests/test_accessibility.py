"""The accessibility statement: the tests that it names exist, and they use the widths that it claims."""

import re

from . import ROOT

TEXT = (ROOT / "ACCESSIBILITY.md").read_text(encoding="utf-8")
FILE = re.compile(r"\]\((tests/[\w/]+\.py)\)")


def rows():
    """Return [(row, source of its test's file)] for the table of pages. A row without a file belongs to the
    file above.
    """
    found, text = [], ""
    table = TEXT.partition("## Tested pages")[2].partition("\n- ")[0]
    for row in table.splitlines()[4:]:
        if row.startswith("| "):
            if name := FILE.search(row):
                text = (ROOT / name[1]).read_text(encoding="utf-8")
            found.append((row, text))
    return found


def test_each_test_that_it_names_is_there():
    """Does each test that the statement names exist, and each test in the table in the file of its row?"""
    named = [(name, text) for row, text in rows() for name in re.findall(r"`(test_\w+)`", row)]
    assert len(named) > 7
    for name, text in named:
        assert f"def {name}(" in text, name
    there = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", TEXT):
        assert f"def {name}(" in there, name


def test_the_widths_are_those_of_the_tests():
    """If a row claims a test at a width of 320 pixels, does its test file contain this width?"""
    for row, text in rows():
        narrow = row.split("|")[3].strip()
        assert narrow in ("yes", "every page", "list of decks", "no"), row
        assert narrow == "no" or re.search(r"\b320\b", text), row
