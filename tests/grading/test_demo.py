"""The demo's expectations: they follow from the mutants, and a difference is said."""

import subprocess
import sys

import nbformat
import pytest
from conftest import ROOT

from cluster.grading import demo
from cluster.grading.course import CourseError, alone
from cluster.grading.mutants import MutantError, cells_of, points


@pytest.mark.parametrize("assignment", demo.HALF)
def test_half_right_student_has_some_points(assignment):
    """Does the half-right student fill real holes with wrong answers, and lose some points, not all?"""
    path = next((ROOT / "solutions" / assignment).glob("*.ipynb"))
    source = nbformat.read(path, as_version=4)
    answers, lost = demo.half_right(ROOT, assignment, source)
    worth = points(source)
    assert set(answers) <= set(cells_of(source, "solution")) and lost < set(worth)
    assert 0.25 <= sum(worth[check] for check in lost) / sum(worth.values()) <= 0.75


def test_two_mutants_in_one_hole_are_refused(monkeypatch):
    """Is a half-right student whose answers would overwrite each other an error?"""
    assignment = "01_convolution_as_gemm"
    source = nbformat.read(ROOT / f"solutions/{assignment}/convolution_as_gemm.ipynb", as_version=4)
    monkeypatch.setitem(demo.HALF, assignment, ["padding_only_one_side", "stride_ignored"])
    with pytest.raises(MutantError, match="fill the same hole"):
        demo.half_right(ROOT, assignment, source)
    monkeypatch.setitem(demo.HALF, assignment, ["no_such_mutant"])
    with pytest.raises(MutantError, match="no_such_mutant"):
        demo.half_right(ROOT, assignment, source)


class Nowhere:
    """A course whose autograded notebooks are not there."""

    def __init__(self, folder):
        self.place = folder

    def folder(self, step, student, assignment):
        return self.place


def test_another_score_than_expected_is_said(tmp_path, capsys):
    """Does the demo fail when a check has more or fewer points than expected, even where the sums agree?"""
    expected = {("01", "right"): {"a": 1, "b": 2}, ("01", "half"): {"a": 0, "b": 2}, ("01", "empty"): {}}
    same = {key: {c: (want.get(c, 0), m) for c, m in (("a", 1), ("b", 2))} for key, want in expected.items()}
    assert demo.table(expected, same, Nowhere(tmp_path)) == []
    same["01", "empty"] = {"a": (1, 1), "b": (0, 2)}
    same["01", "right"] = {"a": (1, 1), "b": (None, 2)}
    wrong = "\n".join(demo.table(expected, same, Nowhere(tmp_path)))
    assert "empty, 01: a has not" in wrong and "right, 01: b has not" in wrong and "half" not in wrong


def test_a_second_run_at_the_same_time_is_refused(tmp_path):
    """Do two runs of a command not delete each other's work?"""
    with alone(tmp_path / "demo") as place:
        (place / "work").touch()
        with pytest.raises(CourseError, match="in use"), alone(tmp_path / "demo"):
            pass
        assert (place / "work").exists()


@pytest.mark.parametrize("command", [[], ["release"], ["check-release"], ["mutants"], ["demo"], ["student"]])
def test_help(command):
    """Does each command say what it does?"""
    run = [sys.executable, "-m", "cluster.grading", *command, "--help"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "usage: python -m cluster.grading" in done.stdout
