"""The benchmarks' arithmetic and records: the order of calls, quartiles, and the sections of a record."""

import argparse
import json
import re

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests import bench
from tests.bench import __main__ as command
from tests.bench import flips, measure, record


def test_each_side_runs_once_a_round_and_the_order_turns():
    """With a warm-up and two rounds, are three sides called in rotated order, and are only the values of the
    two rounds kept?
    """
    called = []
    sides = {n: lambda n=n: (called.append(n), {"time": float(len(called))})[1] for n in "abc"}
    values = measure.interleaved(sides, repeats=2, warmup=1)
    assert "".join(called) == "cab" + "abc" + "bca"
    assert values == {("time", "a"): [4.0, 9.0], ("time", "b"): [5.0, 7.0], ("time", "c"): [6.0, 8.0]}


def test_spread_by_hand():
    """Are the quartiles of 1, 2, 3, 4, 5 equal to 2 and 4? Are both quartiles of a single value that value,
    and is an empty list an error?
    """
    assert measure.spread([5.0, 1.0, 4.0, 2.0, 3.0])["quartiles"] == [2.0, 4.0]
    assert measure.spread([7.0]) == {
        "n": 1, "median": 7.0, "quartiles": [7.0, 7.0], "least": 7.0, "greatest": 7.0, "values": [7.0],
    }  # fmt: skip
    with pytest.raises(ValueError, match="Nothing was measured"):
        measure.spread([])


@pytest.fixture
def part(tmp_path, monkeypatch):
    """A part with two sections, recorded in a temporary folder. One section misses its target."""
    (tmp_path / "README.md").write_text("# bench\n")
    monkeypatch.setattr(record, "HERE", tmp_path)
    monkeypatch.setattr(record, "README", tmp_path / "README.md")

    class Part:
        """A part for tests."""

        ABOUT = "for tests"
        value = 2.0

        @staticmethod
        def arguments(parser):
            parser.add_argument("--n", type=int, default=3)

        @staticmethod
        def good(options):
            return measure.Found(
                [measure.Row("time", "ours", "s", [Part.value] * options.n)], [("fast", True)]
            )

        @staticmethod
        def bad(options):
            return measure.Found([measure.Row("time", "ours", "s", [9.0])], [("also fast", False)])

    monkeypatch.setattr(Part, "SECTIONS", {"good": Part.good, "bad": Part.bad}, raising=False)
    monkeypatch.setattr(command, "parts", lambda: ["jobs"])
    monkeypatch.setattr(command, "part", lambda name: Part)
    return Part


def test_a_section_is_recorded_beside_the_others_and_the_table_follows(part, tmp_path, capsys):
    assert command.main(["jobs"]) == 1  # a target is missed
    part.value = 3.0
    assert command.main(["jobs", "--sections", "good", "--n", "2"]) == 0
    data = json.loads((tmp_path / "results/jobs.json").read_text())
    assert data["good"]["rows"][0]["values"] == [3.0, 3.0] and data["bad"]["rows"][0]["median"] == 9.0
    assert data["good"]["arguments"] == {"repeats": None, "n": 2}
    assert data["good"]["command"].endswith("jobs --sections good --n 2")
    assert {"date", "machine", "versions"} <= data["good"].keys()
    assert re.fullmatch(r"The load was [\d.]+ on \d+ cores at the beginning\.", data["good"]["remarks"][0])
    text = (tmp_path / "README.md").read_text()
    assert text.count("<!-- jobs:") == 1 and "| time | ours | 3.00 s |" in text and "2.00 s" not in text
    assert "**Does not hold**: also fast" in text and "DOES NOT HOLD: also fast" in capsys.readouterr().out


def test_without_a_record_nothing_is_written(part, tmp_path):
    command.main(["jobs", "--no-record"])
    assert not (tmp_path / "results").exists() and (tmp_path / "README.md").read_text() == "# bench\n"


def test_every_part_keeps_the_form():
    """Does each part have ABOUT, a docstring, SECTIONS and arguments()? Every module in the folder that is
    not listed as a helper counts as a part.
    """
    assert "jobs" in bench.parts()
    for name in bench.parts():
        part = bench.part(name)
        assert part.ABOUT and part.__doc__ and all(callable(f) for f in part.SECTIONS.values())
        part.arguments(argparse.ArgumentParser())


@pytest.mark.parametrize("name", bench.parts())
def test_the_tables_are_those_of_the_record(name):
    """Does README.md show the recorded values, as `python -m tests.bench PART --table` would write them?"""
    entries = record.recorded(name)
    readme = getattr(bench.part(name), "README", record.README)
    assert not entries or record.table(name) in readme.read_text()
    for section, entry in entries.items():
        assert section in bench.part(name).SECTIONS
        assert all(r["median"] == measure.spread(r["values"])["median"] for r in entry["rows"])


def test_a_round_has_each_check_once_and_forgets_the_one_before():
    """Does each round contain both checks, with numbered names from the second round on? Does only the first
    check of a round run the code that forgets earlier rounds?
    """

    def cell(name, source, **own):
        role = {"grade_id": name, "grade": True, "locked": True, "solution": False} | own
        return new_code_cell(source, metadata={"nbgrader": role})

    hole = cell("hole", "x = 1", grade=False, locked=False, solution=True)
    checks = [cell("a", f"assert x\n{flips.HIDDEN}assert x > 0\n"), cell("b", "assert x")]
    book = new_notebook(cells=[hole, *checks])
    rows = [(c.metadata.nbgrader.grade_id, c.source) for c in flips.in_rounds(book, 2, "f()\n").cells]
    first = f"f()\nassert x\n{flips.HIDDEN}f()\nassert x > 0\n"
    assert rows == [("hole", "x = 1"), ("a", first), ("b", "assert x"), ("a 2", first), ("b 2", "assert x")]
    assert [c.metadata.nbgrader.grade_id for c in book.cells] == ["hole", "a", "b"]
