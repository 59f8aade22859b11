"""Each submission, however malformed, is graded or refused with a message, without affecting others."""

import json
import os
import random
import time

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator

from cluster.staff.engine.outputs import Outputs
from cluster.staff.results import give
from cluster.staff.submissions import collect, grading_folder, prepare
from cluster.system.text import encodable, printable

from .. import ALL
from . import malformed
from .classes import FULL, NAME
from .sandboxes import Engine, need

SEED = 20261122
NOTEBOOKS, NAMES = 1000 if ALL else 300, 3000


@pytest.fixture
def reader(many):
    """Return (the released notebook as JSON, its Source, a function that reads a folder as the coordinator
    does)."""
    from nbgrader.api import Gradebook

    with Gradebook(many.course.coursedir.db_url, many.course.coursedir.course_id) as book:
        source = prepare.Source(book, NAME)
    source.know_release(many.root / "exercises" / NAME)
    sanitiser = prepare.Sanitiser(many.course.config, source)
    notebook = json.loads((many.root / "exercises" / NAME / "doubling.ipynb").read_text())
    return notebook, source, lambda folder: prepare.read_submission("ada", folder, source, sanitiser)


def faults(result, source):
    """Describe what is wrong with the result of reading a submission."""
    notes = [result.problem, *result.notes, *result.for_student]
    wrong = [f"raw text is shown: {phrase!r}" for phrase in notes if printable(phrase, 10**6) != phrase]
    if result.problem or result.notebook is None:
        return wrong + ([] if result.problem and result.notebook is None else ["neither graded nor refused"])
    nbformat.validate(result.notebook)
    MetadataValidator().validate_nb(result.notebook)
    nbformat.writes(result.notebook).encode()
    grading_folder.key(result, {}, {})
    names = [cell.metadata.nbgrader.grade_id for cell in result.notebook.cells if "nbgrader" in cell.metadata]
    if len(set(names)) < len(names) or not set(names) >= set(source.points):
        wrong.append(f"the checks are {names}")
    given = {name for name, cell in source.cells.items() if cell.locked}
    texts = {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in result.notebook.cells
        if "nbgrader" in cell.metadata
    }
    return wrong + [
        f"{name} is not the course's" for name in given if not texts[name].endswith(source.cells[name].source)
    ]


def test_malformed_submissions_are_read_or_refused(reader, tmp_path):
    """Is each malformed submission either read, or refused with a printable message, within two seconds?"""
    notebook, source, read = reader
    graded, longest = 0, 0.0
    for number in range(NOTEBOOKS):
        folder = tmp_path / "in" / str(number)
        malformed.hand_in(folder, notebook, random.Random(SEED + number))
        began = time.process_time()
        result = read(folder)
        longest = max(longest, time.process_time() - began)
        assert faults(result, source) == [], f"seed {SEED + number}"
        graded += result.notebook is not None
    assert NOTEBOOKS / 5 < graded < NOTEBOOKS * 4 / 5, "both ends are met"
    assert longest < 2


def test_malformed_submissions_among_others(many, capfd):
    """Does a grading run either grade or refuse each malformed submission? Are an honest student's points
    correct, and do the feedback and the report work, also for files with odd names?"""
    from cluster.staff.results import class_report

    many.hand_in("ada")
    odd = [os.fsdecode(name) for name in malformed.NAMES]
    for name in odd:
        (many.course.folder("submitted", "ada", NAME) / name).write_bytes(b"1")
    notebook = json.loads((many.root / "exercises" / NAME / "doubling.ipynb").read_text())
    folder = many.course.folder("submitted", "ada", NAME).parents[1]
    for number in range(40):
        malformed.hand_in(folder / f"s{number:02}" / NAME, notebook, random.Random(SEED + number))
    (folder / "bad\udcff" / NAME).mkdir(parents=True)
    (folder / ("n" * 200) / NAME).mkdir(parents=True)
    (folder / "file").write_text("")
    result = many.run()
    assert set(result.ungraded) == {r"bad\xff", printable("n" * 200)}
    assert len(result.graded) + len(result.unreadable) == 41 and "ada" in result.graded
    points = many.points()
    assert points["ada"] == FULL and set(points) == {*result.graded, *result.unreadable}
    for student in ("ada", result.graded[-1], next(iter(result.unreadable))):
        assert many.course.feedback(NAME, student)
    assert many.run().graded == []
    _, _, notes = give.give_back(many.course, NAME, ["ada"])
    assert any(r"bad\xff" in phrase for phrase in notes)
    assert set(odd) < set(os.listdir(many.course.folder("autograded", "ada", NAME)))
    assert len(class_report.facts(many.root, many.course, NAME)["students"]) == len(points)


def test_malformed_submissions_in_the_engine(reader, tmp_path):
    """Does the autograder give each malformed submission a verdict that can be stored?"""
    from cluster.staff.engine import Limits

    need()
    notebook, _, read = reader
    ended = 0
    with Engine(workers=1, limits=Limits(cell=20, check=20, total=240)) as engine:
        for number in range(NOTEBOOKS):
            folder = tmp_path / "in" / str(number)
            malformed.hand_in(folder, notebook, random.Random(SEED - number))
            result = read(folder)
            if result.notebook is None:
                continue
            os.makedirs(folder / "more")
            (folder / "more" / "bad\udcff.txt").write_text("1")
            verdict = engine.grade(result.notebook, folder)
            assert verdict.outcome == "graded", verdict.why
            nbformat.writes(verdict.notebook).encode()
            ended += 1
            if ended == 6:
                return


def test_forged_outputs_are_brought_into_form():
    """Is an output omitted if it is nested too deeply, whatever its kind? Are characters that cannot be
    encoded replaced, and is this recorded?"""
    deep = "x"
    for _ in range(900):
        deep = {"a": [deep]}
    outputs = Outputs(10**6)
    shown = {"output_type": "display_data", "data": {"application/json": deep}, "metadata": {}}
    printed = {"output_type": "stream", "name": "stdout", "text": "half \ud83d"}
    result = outputs.take({"outputs": [shown, printed, deep, {"output_type": deep}]})
    assert [output.text for output in result] == ["half \N{REPLACEMENT CHARACTER}"] and outputs.replaced


def test_text_in_no_encoding_is_graded_and_said(many):
    """Is an unpaired surrogate in a text cell, an answer or an output replaced, and is the student told?"""
    many.released.cells[0].source += " \ud800"
    many.hand_in("ada", "x = '\ud83d'", text=json.dumps(many.released | {"cells": many.released.cells}))
    result = many.run()
    assert result.graded == ["ada"] and "encoding" in result.notes["ada"][0]
    assert "encoding" in many.course.feedback(NAME, "ada")[0].read_text()


def names(draw):
    """Return a file name that a student could create: any bytes except / and 0."""
    parts = [
        b"\xff",
        b"\xed\xa0\x80",
        b"\n",
        b"\x1b[31m",
        "\u202e".encode(),
        "ü".encode(),
        b"a",
        b" ",
        b"\\",
        b"+",
    ]
    raw = b"".join(draw.choice([*parts, draw.randbytes(1)]) for _ in range(draw.choice([1, 5, 40, 255])))
    return os.fsdecode(raw.replace(b"/", b"").replace(b"\0", b"")[:255] or b"a")


def test_thousands_of_names_can_be_shown():
    """Is each file name shown as one line of text that any terminal, page or file can contain? Are different
    names shown differently?"""
    draw, shown = random.Random(SEED), {}
    for _ in range(NAMES):
        name = names(draw)
        text = printable(name, 2000)
        assert text.isprintable() and text.encode() and printable(text, 2000) == text
        assert len(printable(name)) <= 200 and encodable(name).encode()
        assert shown.setdefault(text, name) == name or "\\" in name
    assert printable("bad\udcff.txt") == r"bad\xff.txt" and printable("a\nb") == r"a\nb"


def test_an_inbound_folder_of_odd_names(many, tmp_path):
    """Is each folder with an odd name refused with a printable message? Is each folder with odd files either
    collected or refused?"""
    draw, inbox = random.Random(SEED), tmp_path / "inbound"
    inbox.mkdir()
    for number in range(60):
        name = names(draw)
        if draw.random() < 0.5 and len(os.fsencode(name)) < 100:
            (inbox / f"{name}+{NAME}+{number}").mkdir()
        folder = inbox / f"s{number}+{NAME}+2026-01-01 00:00:00 UTC"
        folder.mkdir()
        (folder / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
        (folder / name).write_text("1")
    deep = inbox / f"deep+{NAME}+1"
    for level in range(400):
        deep.mkdir()
        if level == 0:
            (deep / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
            (deep / "doubling.ipynb").write_text("{}")
        deep = deep / "d"
    new, _, refused, _ = collect.collect(many.course.coursedir, NAME, inbox, check_owner=False)
    assert len(new) >= 60 and new["deep"].left_out
    for phrase in (*refused, *refused.values()):
        assert printable(phrase) == phrase


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n: n["cells"].extend([{"cell_type": "code", "source": ""}] * 50_000), "50004 cells"),
        (lambda n: n["cells"][1].update(source="x" * 2**22), "2 MiB of text"),
        (lambda n: n["metadata"].update(blob=["\ud800" * 10] * 200_000), ""),
        (lambda n: n["cells"][1].update(metadata={"nbgrader": {"grade_id": [[]] * 2**20}}), ""),
        (lambda n: n["cells"][1].update(outputs=[{"output_type": "stream", "text": ""}] * 500_000), ""),
    ],
)
def test_large_notebooks_are_bounded(reader, tmp_path, change, message):
    """Is a notebook with too many cells or too much text refused with a message? Are excessive outputs and
    metadata dropped within seconds?"""
    notebook, _, read = reader
    change(notebook)
    (tmp_path / "doubling.ipynb").write_text(json.dumps(notebook))
    began = time.process_time()
    result = read(tmp_path)
    assert time.process_time() - began < 10
    assert message in result.problem and bool(message) == bool(result.problem) == (result.notebook is None)
