"""The benchmarks' arithmetic and records: the order of calls, quartiles, and the sections of a record."""

import json
import types

import pytest

from tests import bench
from tests.bench import __main__ as command
from tests.bench import grading, measure, record


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
    part = types.SimpleNamespace(ABOUT="for tests", __doc__="For tests.", value=2.0, versions=dict)
    part.arguments = lambda parser: parser.add_argument("--n", type=int, default=3)

    def section(name, holds):
        def measured(options):
            return measure.Found(
                [measure.Row("time", "ours", "s", [part.value] * options.n)], [(name, holds)]
            )

        return measured

    part.SECTIONS = {"good": section("fast", True), "bad": section("also fast", False)}
    monkeypatch.setattr(command, "modules", lambda: {"jobs": part})
    return part


def test_a_section_is_recorded_beside_the_others_and_the_table_follows(part, tmp_path):
    """Does a missed target give the exit status 1? Is a section replaced in the record and in the table, and
    the other one kept?"""
    assert command.main(["jobs"]) == 1
    part.value = 3.0
    assert command.main(["jobs", "--sections", "good", "--n", "2"]) == 0
    data = json.loads((tmp_path / "results/jobs.json").read_text())
    assert data["good"]["rows"][0]["values"] == [3.0, 3.0] and data["bad"]["rows"][0]["median"] == 2.0
    assert data["good"]["command"].endswith("jobs --sections good --n 2")
    assert {"date", "machine", "versions"} <= data["good"].keys()
    text = (tmp_path / "README.md").read_text()
    assert text.count("<!-- jobs:") == 1 and "| time | ours | 3.00 s |" in text and "also fast" in text


def test_without_a_record_nothing_is_written(part, tmp_path):
    """Does --no-record leave record and table as they are?"""
    command.main(["jobs", "--no-record"])
    assert not (tmp_path / "results").exists() and (tmp_path / "README.md").read_text() == "# bench\n"


@pytest.mark.parametrize("name", bench.PARTS)
def test_the_tables_are_those_of_the_record(name):
    """Does README.md show the recorded values, of sections that exist?"""
    entries = json.loads(record.record_path(name).read_text())
    readme = (record.HERE / "README.md").read_text()
    assert record.with_table(readme, name, record.table(name, entries)) == readme
    assert entries.keys() <= command.modules()[name].SECTIONS.keys()


def test_points_may_differ_only_where_a_reason_is_named():
    """Are the variants returned whose points may differ, and is a difference of any other an error?"""
    variant = next(iter(grading.APART))
    ours, theirs = {"ada": {"check": 0.0}}, {"ada": {"check": 1.0}}
    assert grading.compared(ours, ours, {"ada": variant}) == []
    assert grading.compared(ours, theirs, {"ada": variant}) == [variant]
    with pytest.raises(RuntimeError, match="solution"):
        grading.compared(ours, theirs, {"ada": "solution"})
