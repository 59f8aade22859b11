"""The demo derives the expected scores from the mutants, and reports any difference."""

import subprocess
import sys

import nbformat
import pytest
from jupyter_client.manager import KernelManager

from cluster.jobs.backends import forked_ranks
from cluster.staff import demo
from cluster.staff.course import CourseError, alone
from cluster.staff.release.wrong_solutions import MutantError, cells_of, points

from .. import ROOT
from .courses import TWIN, write_mutant
from .sandboxes import need


@pytest.mark.parametrize("assignment", demo.HALF)
def test_half_right_student_has_some_points(assignment):
    """Does the half-right student fill in existing blanks incorrectly, and lose between a quarter and three
    quarters of the points?"""
    path = next((ROOT / "solutions" / assignment).glob("*.ipynb"))
    source = nbformat.read(path, as_version=4)
    answers, lost = demo.half_right(ROOT, assignment, source)
    worth = points(source)
    assert set(answers) <= set(cells_of(source, "solution")) and lost < set(worth)
    assert 0.25 <= sum(worth[check] for check in lost) / sum(worth.values()) <= 0.75


def test_two_mutants_in_one_blank_are_refused(monkeypatch):
    """Is it an error if two of the half-right student's mutants fill the same blank, or if a mutant does not
    exist?"""
    assignment = "01_convolution_as_gemm"
    source = nbformat.read(ROOT / f"solutions/{assignment}/convolution_as_gemm.ipynb", as_version=4)
    monkeypatch.setitem(demo.HALF, assignment, ["padding_only_one_side", "stride_ignored"])
    with pytest.raises(MutantError, match="fill the same blank"):
        demo.half_right(ROOT, assignment, source)
    monkeypatch.setitem(demo.HALF, assignment, ["no_such_mutant"])
    with pytest.raises(MutantError, match="no_such_mutant"):
        demo.half_right(ROOT, assignment, source)


class Nowhere:
    """A course whose autograded notebooks do not exist."""

    def __init__(self, folder):
        self.place = folder

    def folder(self, step, student, assignment):
        return self.place


def test_an_unexpected_score_is_reported(tmp_path, capsys):
    """Does the demo report each check with more or fewer points than expected, and print the points that need
    manual grading?"""
    expected = {("01", "right"): {"a": 1, "b": 2}, ("01", "half"): {"a": 0, "b": 2}, ("01", "empty"): {}}
    same = {key: {c: (want.get(c, 0), m) for c, m in (("a", 1), ("b", 2))} for key, want in expected.items()}
    assert demo.table(expected, same, Nowhere(tmp_path)) == []
    assert "manual" not in capsys.readouterr().out
    same["01", "empty"] = {"a": (1, 1), "b": (0, 2)}
    same["01", "right"] = {"a": (1, 1), "b": (None, 2)}
    wrong = "\n".join(demo.table(expected, same, Nowhere(tmp_path)))
    assert "2 need manual grading" in capsys.readouterr().out
    assert "empty, 01: a did not" in wrong and "right, 01: b did not" in wrong and "half" not in wrong


def test_a_second_run_at_the_same_time_is_refused(tmp_path):
    """Is a second demo refused while one is running, so that they do not delete each other's files?"""
    with alone(tmp_path / "demo") as folder:
        (folder / "work").touch()
        with pytest.raises(CourseError, match="in use"), alone(tmp_path / "demo"):
            pass
        assert (folder / "work").exists()


@pytest.mark.parametrize("command", [[], ["release"], ["check-release"], ["mutants"], ["demo"], ["student"]])
def test_help(command):
    """Does each command print its usage?"""
    run = [sys.executable, "-m", "cluster.staff", *command, "--help"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "usage: python -m cluster.staff" in done.stdout


# Cells below the last directive: a job that reports whether its rank was forked, and a cell that waits until
# the other student's notebook reaches the same cell.
WORK = """

# %%
import os, sys, time
from pathlib import Path
from cluster import submit

def held():
    return "wave" in sys.modules

print("forked:", submit(held, backend="local").result())

# %%
if meet := os.environ.get("DEMO_MEETS"):
    Path(meet, str(os.getpid())).touch()
    end = time.monotonic() + 120
    while len(os.listdir(meet)) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    print("met:", len(os.listdir(meet)))
"""


def test_the_demo_does_nothing_twice(course, monkeypatch, tmp_path, capsys):
    """Does the demo start one kernel per notebook, run the students' notebooks at the same time, and fork the
    ranks of their jobs?"""
    need()
    (meet := tmp_path / "meet").mkdir()
    monkeypatch.setenv("DEMO_MEETS", str(meet))
    # as a user may have set it
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(demo, "HALF", {"99_doubling": ["as_it_is"]})
    monkeypatch.setattr(forked_ranks, "LIBRARIES", ("wave",))
    monkeypatch.setattr(demo, "training_curve", lambda folder, place: place / "no curve")
    started, launch = [], KernelManager._async_launch_kernel
    monkeypatch.setattr(
        KernelManager,
        "_async_launch_kernel",
        lambda self, *args, **kw: started.append(self) or launch(self, *args, **kw),
    )
    (course / "solutions/99_doubling/doubling.py").write_text(TWIN + WORK)
    write_mutant(course, "as_it_is", {"double-of-one", "double-of-others"}, "x")
    assert demo.run_demo(course) == []
    students = course / ".grading" / "demo" / "students"
    scores = {name: demo.shown(students / name / "99_doubling") for name in demo.STUDENTS}
    for name in demo.STUDENTS[:2]:
        assert "forked: True" in scores[name] and "met: 2" in scores[name]
    assert scores[demo.STUDENTS[2]] == "" and len(started) == 3  # one for the release, two for the students
    assert "1 recorded runs submitted, 1 of them replayed" in capsys.readouterr().out


def test_the_demo_says_why_nothing_was_graded(course, monkeypatch):
    """If submissions could not be graded, does the demo report the reason, rather than fail with another
    error?"""

    async def nobody_works(tasks):
        pass

    monkeypatch.setattr(demo, "HALF", {"99_doubling": ["as_it_is"]})
    monkeypatch.setattr(forked_ranks, "LIBRARIES", ())
    monkeypatch.setattr(demo, "work_all", nobody_works)
    monkeypatch.setattr(demo, "training_curve", lambda folder, place: place / "no curve")
    ungraded = dict.fromkeys(demo.STUDENTS, "no sandbox can be made")
    monkeypatch.setattr(demo.grade, "grade_class", lambda *args, **kw: demo.grade.Result(ungraded=ungraded))
    write_mutant(course, "as_it_is", {"double-of-one", "double-of-others"}, "x")
    assert demo.run_demo(course) == [
        f"{who}: 99_doubling was not graded: no sandbox can be made" for who in demo.STUDENTS
    ]


def test_without_a_sandbox_nothing_is_begun(tmp_path, monkeypatch):
    """If no sandbox can be created, does the demo name the missing package before it starts any student's
    job?"""
    monkeypatch.setattr(demo.bubblewrap, "missing", lambda: "bubblewrap is missing (Debian: apt-get …)")
    with pytest.raises(CourseError, match="bubblewrap is missing"):
        demo.run_demo(tmp_path)
    assert not any(tmp_path.iterdir())
