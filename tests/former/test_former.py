"""What was recorded before the package had its present layout is still read.

Made with commit 607bdd3, in which grading lay in cluster/grading: `runs` by `train.py`; `grading` and
`exercises` from the course of the tests of grading, with a class of two, graded without the engine. The files
of a run that hold paths (job.sh, call.pkl) are left out, and the gradebook is written as SQL.
"""

import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.staff.classes import grading_folder
from cluster.staff.feedback import class_report, export

from .. import ROOT
from ..grading.classes import FULL, NAME, Class
from ..grading.courses import make_course

HERE = Path(__file__).parent
RUN = "former-37839cb28984"
MARKS = {"ada": FULL, "bob": FULL | {"double-of-others": 0.0}}


def test_a_former_run_is_found_and_not_run_anew(tmp_path):
    """Has the function the key that it had, and are result, metrics, output and state of its run read?"""
    shutil.copytree(HERE / "runs", tmp_path / "runs")
    before = {path: path.read_bytes() for path in (tmp_path / "runs" / RUN).iterdir()}
    done = subprocess.run(
        [sys.executable, HERE / "train.py", "runs"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.partition("FOUND ")[2])
    assert found == {
        "result": {"steps": 3, "loss": 1.0},
        "loss": [4.0, 2.0, 1.0],
        "logs": "--- rank 0\ntrained 3 steps",
        "folder": RUN,
        "jobs": [[RUN, "done"]],
    }
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()] == [RUN]
    assert {path: path.read_bytes() for path in before} == before


@pytest.fixture
def former(tmp_path, monkeypatch):
    """The course with its former exercises, gradebook and verdicts."""
    root = make_course(tmp_path)
    shutil.copytree(HERE / "exercises", root / "exercises")
    shutil.copytree(HERE / "grading", root / ".grading")
    with sqlite3.connect(root / ".grading" / "gradebook.db") as book:
        book.executescript((HERE / "grading" / "gradebook.sql").read_text())
    book.close()
    (tmp_path / "seen").mkdir()
    monkeypatch.setenv("STANDIN", str(tmp_path / "seen"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return Class(root, tmp_path / "seen")


def test_former_marks_are_exported_and_reported(former):
    """Are the marks those that were given, and do the verdicts still say how the checks ended?"""
    assert former.points() == MARKS
    with former.book() as book:
        text, warnings = export.export(book, [NAME], "plain")
    rows = list(csv.reader(io.StringIO(text)))
    assert [(row[0], row[-1]) for row in rows[1:]] == [("ada", "3.0"), ("bob", "1.0")] and not warnings
    facts = class_report.facts(former.root, former.course, NAME)
    assert [(row["student"], row["points"]) for row in facts["students"]] == [("ada", 3.0), ("bob", 1.0)]
    where = grading_folder.GradingFolder(grading_folder.runs(former.course.coursedir), NAME)
    verdict = where.verdict("bob", where.recorded("bob")["key"])
    assert verdict["checks"]["double-of-others"] == {"score": 0.0, "error": "AssertionError"}


def test_a_former_class_is_graded_anew(former):
    """Can what was handed in then be graded now, and does a mark of an instructor's stay?"""
    with former.book() as book:
        book.find_grade("double-of-others", "doubling", NAME, "bob").manual_score = 1.5
        book.db.commit()
    result = former.run()
    assert sorted([*result.graded, *result.unchanged]) == ["ada", "bob"] and not result.notes
    assert former.points() == MARKS
    assert former.course.scores(NAME, "bob")["double-of-others"] == (1.5, 2.0)
