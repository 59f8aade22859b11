"""The demo derives the expected scores from the mutants, and reports any difference."""

import subprocess
import sys
from types import SimpleNamespace

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

NUMPY, DOUBLING = "01_convolution_as_gemm", "99_doubling"
WRONG = "as_it_is"  # a mutant of the tiny course


def solution(assignment):
    """Return the notebook of an assignment's solution."""
    return nbformat.read(next((ROOT / "solutions" / assignment).glob("*.ipynb")), as_version=4)


@pytest.mark.parametrize("assignment", demo.HALF)
def test_half_right_student_has_some_points(assignment):
    """Does the half-right student fill in existing blanks incorrectly, and lose between a quarter and three
    quarters of the points?"""
    source = solution(assignment)
    answers, lost = demo.half_right(ROOT, assignment, source)
    worth = points(source)
    assert set(answers) <= set(cells_of(source, "solution")) and lost < set(worth)
    assert 0.25 <= sum(worth[check] for check in lost) / sum(worth.values()) <= 0.75


@pytest.mark.parametrize(
    ("names", "value"), [([*demo.HALF[NUMPY], "stride_ignored"], "im2col"), (["no_such"], "no_such")]
)
def test_two_mutants_in_one_blank_are_refused(monkeypatch, names, value):
    """Is it an error if two of the half-right student's mutants fill the same blank, or if a mutant does not
    exist?"""
    monkeypatch.setitem(demo.HALF, NUMPY, names)
    with pytest.raises(MutantError, match=value):
        demo.half_right(ROOT, NUMPY, solution(NUMPY))


def test_an_unexpected_score_is_reported(tmp_path, capsys):
    """Does the demo report each submission with more or fewer points than expected, with the checks, and
    print the points that need manual grading?"""
    course = SimpleNamespace(folder=lambda *_: tmp_path)
    expected = {("01", "right"): {"a": 1, "b": 2}, ("01", "half"): {"a": 0, "b": 2}, ("01", "empty"): {}}
    same = {key: {c: (want.get(c, 0), m) for c, m in (("a", 1), ("b", 2))} for key, want in expected.items()}
    assert demo.table(expected, same, course) == []
    assert "manual" not in capsys.readouterr().out
    same["01", "empty"] = {"a": (1, 1), "b": (0, 2)}
    same["01", "right"] = {"a": (1, 1), "b": (None, 2)}
    right, empty = demo.table(expected, same, course)
    assert "2 need manual" in capsys.readouterr().out
    assert "right, 01" in right and " b;" in right and "empty, 01" in empty and " a;" in empty


def test_a_second_run_at_the_same_time_is_refused(tmp_path):
    """Is a second demo refused while one is running, so that they do not delete each other's files?"""
    with alone(tmp_path / "demo") as folder:
        (folder / "work").touch()
        with pytest.raises(CourseError, match=str(folder)), alone(tmp_path / "demo"):
            pass
        assert (folder / "work").exists()


@pytest.mark.parametrize("command", [[], ["release"], ["check-release"], ["mutants"], ["demo"], ["student"]])
def test_help(command):
    """Does each command print its usage?"""
    run = [sys.executable, "-m", "cluster.staff", *command, "--help"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and done.stdout.startswith("usage: ")


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


@pytest.fixture
def tiny(course, monkeypatch):
    """The tiny course as the only one of the demo, whose notebooks draw no curve."""
    monkeypatch.setattr(demo, "HALF", {DOUBLING: [WRONG]})
    monkeypatch.setattr(forked_ranks, "LIBRARIES", ())
    monkeypatch.setattr(demo, "training_curve", lambda folder, place: place / "none")
    write_mutant(course, WRONG, {"double-of-one", "double-of-others"}, "x")
    return course


def test_the_demo_does_nothing_twice(tiny, monkeypatch, tmp_path, capsys):
    """Does the demo start one kernel per notebook, run the students' notebooks at the same time, and fork the
    ranks of their jobs?"""
    need()
    (meet := tmp_path / "meet").mkdir()
    monkeypatch.setenv("DEMO_MEETS", str(meet))
    # as a user may have set it
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(forked_ranks, "LIBRARIES", ("wave",))
    started, launch = [], KernelManager._async_launch_kernel
    monkeypatch.setattr(
        KernelManager,
        "_async_launch_kernel",
        lambda self, *args, **kw: started.append(self) or launch(self, *args, **kw),
    )
    (tiny / "solutions/99_doubling/doubling.py").write_text(TWIN + WORK)
    assert demo.run_demo(tiny) == []
    students = tiny / ".grading" / "demo" / "students"
    scores = {name: demo.shown(students / name / DOUBLING) for name in demo.STUDENTS}
    for name in demo.STUDENTS[:2]:
        assert "forked: True" in scores[name] and "met: 2" in scores[name]
    assert scores[demo.STUDENTS[2]] == "" and len(started) == 3  # one for the release, two for the students
    assert capsys.readouterr().out.count("1 of them") == 2


def test_the_demo_says_why_nothing_was_graded(tiny, monkeypatch):
    """If submissions could not be graded, does the demo report the reason, rather than fail with another
    error?"""

    async def nobody_works(tasks):
        pass

    monkeypatch.setattr(demo, "work_all", nobody_works)
    ungraded = dict.fromkeys(demo.STUDENTS, "the sun is up")
    monkeypatch.setattr(demo.grade, "grade_class", lambda *args, **kw: demo.grade.Result(ungraded=ungraded))
    found = demo.run_demo(tiny)
    assert [line.partition(":")[0] for line in found] == list(demo.STUDENTS)
    assert all("sun" in line for line in found)


def test_without_a_sandbox_nothing_is_begun(tmp_path, monkeypatch):
    """If no sandbox can be created, does the demo name the missing package before it starts any student's
    job?"""
    monkeypatch.setattr(demo.bubblewrap, "missing", lambda: "no bubblewrap")
    with pytest.raises(CourseError, match="no bubblewrap"):
        demo.run_demo(tmp_path)
    assert not any(tmp_path.iterdir())
