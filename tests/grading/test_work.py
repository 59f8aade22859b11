"""Submissions are read, sanitised and dispatched by the coordinator, and graded by workers."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from traitlets.config import Config

from cluster.staff.course import Course, CourseError
from cluster.staff.grading import worker
from cluster.staff.submissions import grading_folder, prepare
from cluster.staff.work_files import work_files

from .classes import ENGINE, NAME


@pytest.fixture
def work(released, tmp_path):
    """Return the tuple (course, its Source, a sanitiser, the released notebook) of a released assignment."""
    from nbgrader.api import Gradebook

    course = shutil.copytree(released, tmp_path / "course")
    ours = Course(course)
    with Gradebook(ours.coursedir.db_url, ours.coursedir.course_id) as book:
        source = prepare.Source(book, NAME)
    source.know_release(course / "exercises" / NAME)
    released = nbformat.read(course / "exercises" / NAME / "doubling.ipynb", as_version=4)
    return ours, source, prepare.Sanitiser(ours.config, source), released


def hand_in(work, student, notebook=None, name="doubling.ipynb"):
    """Write a submission and read it as the coordinator does."""
    ours, source, sanitiser, _ = work
    folder = ours.folder("submitted", student, NAME)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(notebook, str):
        (folder / name).write_text(notebook)
    elif notebook is not None:
        nbformat.write(notebook, folder / name)
    return prepare.read_submission(student, folder, source, sanitiser)


def test_sanitised_as_nbgrader_does_it(work, monkeypatch):
    """Does the sanitised notebook equal the one that nbgrader's own Autograde would execute, cell by cell?"""
    ours, _, _, released = work
    released.cells[-1].source = "assert True"  # a changed check is restored
    result = hand_in(work, "ada", released)
    monkeypatch.setattr(ours.config, "Autograde", Config(autograde_preprocessors=[]))
    ours.autograde(NAME, "ada")
    theirs = nbformat.read(ours.folder("autograded", "ada", NAME) / "doubling.ipynb", as_version=4)
    cells = [[(cell.cell_type, cell.source) for cell in book.cells] for book in (theirs, result.notebook)]
    assert cells[0] == cells[1] and "double(17) == 34" in theirs.cells[-1].source
    assert [note.partition(": ")[2] for note in result.notes] == ["double-of-others"]


def test_an_honest_submission_has_no_notes(work):
    """Does an honest submission get no notes? The release lacks hidden tests, which must not count as
    tampering."""
    result = hand_in(work, "ada", work[3])
    assert result.notes == [] and result.problem == "" and result.notebook is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "doubling.ipynb is missing"),
        ("", "empty (0 bytes)"),
        ("{", "not a notebook"),
        ("[]", "not a notebook"),
        ("{}", "not a notebook"),
        (
            '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code"}]}',
            "not a notebook",
        ),
        ("[" * 100_000, "not a notebook"),
    ],
)
def test_what_is_no_notebook_is_said(work, text, message):
    """Is each kind of unreadable submission reported, without an exception that would stop the class?"""
    result = hand_in(work, "ada", text)
    assert result.notebook is None and message in result.problem


def test_another_name_is_graded_and_two_are_not_guessed(work):
    """Is a single notebook with another name graded, with a note? If there are two, are both named and
    neither graded?"""
    value = hand_in(work, "ada", work[3], "mine.ipynb")
    assert value.notebook is not None and ["mine.ipynb" in note for note in value.notes] == [True]
    value = hand_in(work, "ada", work[3], "other.ipynb")
    assert value.notebook is None and "mine.ipynb, other.ipynb" in value.problem


def test_a_duplicated_cell_is_reported(work):
    """Is a cell that was copied with its metadata reported to student and instructor, without costing
    points?"""
    released = work[3]
    released.cells[1].source = "mine = 1"
    for original in [released.cells[n] for n in (0, 1, -1)]:  # a text cell, an answer, a check
        twin = copy.deepcopy(original)
        twin["id"], twin.source = f"{original['id']}-again", twin.source + "\ncopied = 1"
        released.cells.append(twin)
    result = hand_in(work, "ada", released)
    [note] = result.notes
    assert result.problem == "" and note.endswith(": double, double-of-others")
    assert [re.search("“(.*?)”", text)[1] for text in result.for_student] == ["double", "double-of-others"]
    named = [
        (cell.metadata.nbgrader.grade_id, "copied" in cell.source)
        for cell in result.notebook.cells
        if "nbgrader" in cell.metadata
    ]
    # Of copies of an answer, the last changed one counts. Checks are the course's own, at their own
    # positions.
    assert named == [("double-of-one", False), ("double-of-others", False), ("double", True)]
    assert sum("copied" in cell.source for cell in result.notebook.cells) == 3, "nothing of theirs is lost"


def test_unreleased_assignment_is_an_error(work):
    """If an assignment is not in the gradebook, does the error name the command that releases it?"""
    from nbgrader.api import Gradebook

    ours = work[0]
    with (
        Gradebook(ours.coursedir.db_url, ours.coursedir.course_id) as book,
        pytest.raises(CourseError, match="grade release 98"),
    ):
        prepare.Source(book, "98_none")


def test_the_key_changes_with_all_that_counts(work):
    """Does the cache key change with the answer, the submitted files, the assignment's own files and the
    library versions, but not with the submission's timestamp?"""
    result = hand_in(work, "ada", work[3])
    env = {"numpy": "1"}
    first = grading_folder.key(result, {}, env)
    (result.folder / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    result.files = work_files(result.folder)
    assert grading_folder.key(result, {}, env) == first
    keys = {first, grading_folder.key(result, {}, {"numpy": "2"})}
    data = result.folder.parent / "data.csv"
    data.write_text("1")
    keys.add(grading_folder.key(result, {"data.csv": data}, env))
    (result.folder / "run.json").write_text("{}")
    result.files = work_files(result.folder)
    keys.add(grading_folder.key(result, {}, env))
    result.notebook.cells[1].source += "\n"
    keys.add(grading_folder.key(result, {}, env))
    assert len(keys) == 5


def test_the_seed_of_the_hidden_inputs_belongs_to_the_students_work(work, tmp_path):
    """Do a changed check and a new version leave the seed the same, and a student's change not? Does another
    course have other seeds?"""
    kept, result = grading_folder.GradingFolder(tmp_path / "runs", NAME), hand_in(work, "ada", work[3])
    first = kept.seed(result, {})
    locked = next(c for c in result.notebook.cells if c.metadata.get("nbgrader", {}).get("locked"))
    locked.source += "  # changed by the instructor"
    assert grading_folder.GradingFolder(tmp_path / "runs", NAME).seed(result, {}) == first
    seeds = {first, kept.seed(hand_in(work, "bob", work[3]), {})}
    seeds.add(grading_folder.GradingFolder(tmp_path / "others", NAME).seed(result, {}))
    seeds.add(grading_folder.GradingFolder(tmp_path / "runs", "another").seed(result, {}))
    (result.folder / "leaked.txt").write_text("1")
    result.files = work_files(result.folder)
    seeds.add(kept.seed(result, {}))
    result.notebook.cells[1].source += "  # the same answer"
    seeds.add(kept.seed(result, {}))
    assert len(seeds) == 6 and max(seeds) < 2**128


def test_the_secret_of_the_seeds_is_made_once_for_its_owner(tmp_path):
    """Do processes that start together get one secret? Is it never overwritten, even if it is damaged?"""
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: grading_folder.secret(tmp_path), range(32)))
    path = tmp_path / "secret"
    assert found == {path.read_bytes()} and path.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [path]
    path.write_bytes(b"short")
    with pytest.raises(CourseError, match=r"5 bytes"):
        grading_folder.secret(tmp_path)
    assert path.read_bytes() == b"short"


def dispatch(work, tmp_path, answers):
    """Stage one submission per answer; return the grading folder, the dispatch's folder and the items."""
    kept, staged = grading_folder.GradingFolder(tmp_path / "runs", NAME), []
    for i, answer in enumerate(answers):
        work[3].cells[1].source = answer
        result = hand_in(work, f"s{i}", work[3])
        (result.folder / "mine.csv").write_text("1")
        result.files = work_files(result.folder)
        staged.append(kept.stage(result, grading_folder.key(result, {}, {}), {}))
    folder = kept.dispatches / "one"
    folder.mkdir()
    parts = [[[item.parent.name, item.name] for item in staged]]
    plan = {"parts": parts, "engine": ENGINE, "workers": 2, "limits": None}
    grading_folder.write(folder / "plan.json", json.dumps(plan))
    return kept, folder, staged


def test_a_worker_writes_verdicts_and_what_breaks_is_again(work, tmp_path):
    """Does each item get a verdict, even if the autograder raises an error? Does a second worker reuse all
    verdicts?"""
    kept, folder, staged = dispatch(work, tmp_path, ["x = 1", "AGAIN", "BROKEN"])
    worker.work(folder, 0)
    verdicts = [kept.verdict(item.parent.name, item.name) for item in staged]
    assert [v["outcome"] for v in verdicts] == ["graded", "again", "again"]
    assert verdicts[0]["seed"] == json.loads((staged[0] / "item.json").read_text())["seed"] > 0
    points = {name: check["score"] for name, check in verdicts[0]["checks"].items()}
    assert points == {"double-of-one": 1, "double-of-others": 2}
    assert verdicts[0]["files"] == ["mine.csv"] and "no space left" in verdicts[2]["why"]
    times = [(item / "verdict.json").stat().st_mtime_ns for item in staged]
    worker.work(folder, 0)
    assert [(item / "verdict.json").stat().st_mtime_ns for item in staged] == times


def test_a_cancelled_dispatch_is_not_graded(work, tmp_path):
    """Does a worker that starts late do nothing if the coordinator has cancelled its dispatch?"""
    _, folder, staged = dispatch(work, tmp_path, ["x = 1"])
    shutil.rmtree(folder)
    worker.work(folder, 0)
    assert not (staged[0] / "verdict.json").exists()


def test_a_worker_ends_with_its_coordinator(tmp_path):
    """If its coordinator is killed, does a worker end, however long its submission would take?"""
    text = "import sys, threading, time; from cluster.staff.grading import worker\n"
    text += "threading.Thread(target=worker.watch, args=(sys.stdin,), daemon=True).start(); time.sleep(200)"
    process = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE)
    process.stdin.close()
    assert process.wait(60) == 3


def test_a_second_coordinator_is_refused(tmp_path):
    """If an assignment is being graded, is a second coordinator refused, with the first one's process ID?"""
    folder = grading_folder.GradingFolder(Path(tmp_path), NAME)
    with folder.alone(), pytest.raises(CourseError, match=str(os.getpid())), folder.alone():
        pass
