"""The search for similar submissions finds inserted copies but no independent pairs, and always finishes."""

import re

import nbformat
import pytest

from cluster.staff import __main__ as command
from cluster.staff.course import CourseError
from cluster.staff.results import similarity, similarity_page
from tests import ALL
from tests.grading import planted

from .classes import NAME

SOME = ["01_convolution_as_gemm", "08_large_batches"] if ALL else ["08_large_batches"]
LONG = """\
def smooth(values, width):
    kept = []
    for start in range(0, len(values) - width + 1, 2):
        window = [v * v for v in values[start : start + width]]
        if max(window) > 3 and min(window) < 1:
            kept.append(sum(window) / max(1, len(window) - 1))
        elif start % 7 == 3:
            kept.insert(0, abs(window[-1] - window[0]) ** 0.5)
    return sorted(kept, key=lambda one: -one)[: width // 2]
x = smooth([1, 2, 3], 2)
"""


@pytest.mark.parametrize("assignment", SOME)
def test_copies_are_found_and_independent_submissions_are_not(assignment):
    """Is each disguised copy of an alternative solution found, and no pair of independent submissions
    reported?"""
    copies, alone = planted.measured(assignment, "unusual")
    assert all(hit == judged > 0 for hit, judged in copies.values()), copies
    assert alone == []


@pytest.mark.parametrize("change", planted.CHANGES)
def test_a_change_changes_the_text(change):
    """Does each disguise change the text or the order of the cells? Is the result still valid Python?"""
    cells = [("a", LONG), ("b", "y = {'one': (1 + 2)}  # two\nz = y\n")]
    changed = planted.CHANGES[change](cells)
    assert (changed == cells) == (change == "unchanged") and len(changed) == 2
    for _, source in changed:
        compile(source, "cell", "exec")


def test_what_makes_no_difference():
    """Does the comparison ignore names, comments, docstrings, quotes, brackets and the notation of numbers,
    but no other differences?"""
    code = 'def f(a):\n    """Words."""\n    b = a.sum(1e-3)  # why\n    return g(b, "x")\n'
    same = "def f(other):\n    c = (other.sum(0.001,))\n\n    return g(c, 'yy')\n"
    assert similarity.cell("", code).tokens == similarity.cell("", same).tokens
    for other in (same.replace("sum", "max"), same.replace("0.001", "0.01"), same.replace("return", "yield")):
        assert similarity.cell("", other).tokens != similarity.cell("", code).tokens
    assert (
        similarity.cell("", code).lines[-1] == 3 and len(similarity.cell("", "for (:\n  'open").tokens) >= 3
    )


def works(*sources):
    return [similarity.Work(f"s{i}", [similarity.cell("hole", text)]) for i, text in enumerate(sources)]


def test_common_and_provided_code_is_ignored():
    """Does the comparison ignore text that is in the release, in the solution, or shared by more than N
    students?"""
    known = [[similarity.cell("given", LONG)]]
    assert similarity.compare(works(LONG, LONG), known) == ([], ["s0", "s1"])
    assert len(similarity.compare(works(*[LONG] * 5), [])[0]) == 10  # up to five students may share it
    assert similarity.compare(works(*[LONG] * 6), [])[0] == []
    assert len(similarity.compare(works(*[LONG] * 6), [], common=6)[0]) == 15


def hand_in(many, odd=True):
    """Submit an original, a disguised copy, an independent notebook and, if `odd`, unreadable notebooks."""
    many.hand_in("ada", LONG)
    many.hand_in("ben", planted.commented(planted.reformatted(planted.renamed(LONG))))
    many.hand_in("cem", "x = 1")
    if odd:
        many.hand_in("<dan>", LONG.replace("]", "", 3) + "\nfor (:\n  '''open")
        many.hand_in("eve", text="{")
        many.hand_in("fay", text="")
        many.hand_in("gus", text=nbformat.writes(nbformat.v4.new_notebook()))
        folder = many.course.folder("submitted", "hal", NAME)
        folder.mkdir(parents=True)
        many.hand_in("ida", LONG, name="another.ipynb")
        (many.course.folder("submitted", "ida", NAME) / "another.ipynb").write_bytes(b'{"cells": "\xff\xfe')


def test_a_class_is_compared(many, monkeypatch, capsys):
    """Is the one similar pair listed in the terminal, and shown with both sources on the page?"""
    hand_in(many, odd=False)
    monkeypatch.chdir(many.root)
    assert command.main(["similar", "99"]) == 0
    output = capsys.readouterr().out
    assert re.findall(r"^  (\w+) +(\w+) +\d+ +100% +100%$", output, re.M) == [("ada", "ben")]
    path = many.root / ".grading" / "reports" / NAME / "similar.html"
    text = path.read_text()
    assert path.stat().st_mode & 0o77 == 0
    assert text.count("<mark>") >= 2 * 9 and "<h2>1. ada and ben</h2>" in text and "ym_" not in text
    assert "my_seulav" in text and "for start in range" in text  # both sources, as they were written
    assert not re.search(r'(src|href)="|<script|@import|url[(]', text)
    assert command.main(["similar", "99", "--common", "1"]) == 0
    assert "ada" not in capsys.readouterr().out


def test_no_submission_ends_the_command(many, monkeypatch, capsys):
    """Is each student without a readable notebook named? Are all others compared, even if their code is not
    valid Python?"""
    hand_in(many)
    monkeypatch.chdir(many.root)
    assert command.main(["similar", "99"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"^  ada +ben ", output, re.M)
    unread = dict(re.findall(r"^  (\w+) is not \w+: (.+)$", output, re.M))
    assert sorted(unread) == ["eve", "fay", "gus", "hal", "ida"] and "empty" in unread["fay"]
    text = (many.root / ".grading" / "reports" / NAME / "similar.html").read_text()
    assert "<dan>" not in text and ("&lt;dan&gt;" in text) == ("<dan>" in output)


def test_no_submissions(many):
    """If no submissions have been collected, does the error name the command that collects them?"""
    with pytest.raises(CourseError, match="grade collect 99"):
        similarity.of_class(many.root, many.course, NAME)


def test_a_page_of_many_pairs_stays_short():
    """Does the page list all pairs in its table, but show the sources of only the first ones?"""
    pairs, _ = similarity.compare(works(*[LONG] * 12), [], common=12)
    result = similarity.Comparison(12, pairs, [], {}, 12)
    assert similarity_page.page("99", result).count("<h2>") == similarity_page.SHOWN
    assert f"and {66 - 20} more" in "\n".join(similarity_page.terminal(result))
