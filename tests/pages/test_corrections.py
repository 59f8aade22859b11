"""A corrected assignment: students who have fetched it learn of the correction, and keep their answers."""

import copy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.utils import compute_checksum

from cluster.pages import corrections, course_map

NAME = "01_loops"


def cell(name, text, **role):
    facts = {"grade_id": name, "locked": True, "grade": False, "solution": False, "task": False}
    node = new_code_cell(text, metadata={"nbgrader": facts | {"schema_version": 3} | role})
    node.metadata.nbgrader["cell_type"] = "code"
    if node.metadata.nbgrader["locked"]:
        node.metadata.nbgrader["checksum"] = compute_checksum(node)
    return node


def release(check, prose="Twice a number."):
    return new_notebook(
        cells=[
            new_markdown_cell("# Assignment 01: loops"),
            new_markdown_cell(prose),
            cell("double", "def double(x):\n    raise NotImplementedError", solution=True, locked=False),
            cell("check", check, grade=True, points=1),
        ]
    )


@pytest.fixture
def student(tmp_path, monkeypatch):
    """A student's home and the folder of releases. The notebook contains an answer and two of the student's
    own cells."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    mine, given = tmp_path / "home" / "work" / NAME, tmp_path / "given" / NAME
    for folder in (mine, given):
        folder.mkdir(parents=True)
    first = release("assert double(1) == 3")
    nbformat.write(first, given / "loops.ipynb")
    notebook = copy.deepcopy(first)
    notebook.cells[2].source = "def double(x):\n    return 2 * x"
    notebook.cells.insert(3, new_code_cell("double(5)"))
    notebook.cells.append(new_markdown_cell("My notes."))
    nbformat.write(notebook, mine / "loops.ipynb")
    (mine / "runs").mkdir()
    (mine / "runs" / "own.json").write_text("{}")
    return tmp_path


def seen(student):
    [assignment] = course_map.assignments(
        student / "home", ["work"], str(student / "given"), {}, student / "home" / "cache"
    )
    return assignment


@pytest.mark.parametrize("kept", [False, True])
def test_a_correction_is_seen_and_answers_are_kept(student, kept):
    """Is a correction announced from its release until it is fetched? Does fetching keep the student's
    answers, own cells, runs and previous notebook?
    """
    released = student / "given" / NAME / "loops.ipynb"
    if kept:
        corrections.keep_release(released, NAME)
    assert seen(student).corrected is None
    nbformat.write(release("assert double(1) == 2"), released)
    (released.parent / "data.csv").write_text("1,2")
    assignment = seen(student)
    assert assignment.corrected is not None
    notebook = student / "home" / assignment.path
    before = notebook.read_text()
    corrections.fetch_again(notebook, released, NAME)
    copy = nbformat.read(notebook, as_version=4)
    nbformat.validate(copy)
    assert [c.source for c in copy.cells[1:]] == [
        "Twice a number.",
        "def double(x):\n    return 2 * x",
        "double(5)",
        "assert double(1) == 2",
        "My notes.",
    ]
    assert seen(student).corrected is None
    assert (notebook.parent / "runs" / "own.json").is_file() and (notebook.parent / "data.csv").is_file()
    [old] = notebook.parent.glob(f"{corrections.BEFORE}/*/loops.ipynb")
    assert old.read_text() == before


def test_corrected_prose_is_seen_where_the_release_was_kept(student):
    released = student / "given" / NAME / "loops.ipynb"
    corrections.keep_release(released, NAME)
    nbformat.write(release("assert double(1) == 3", prose="Two times a number."), released)
    assignment = seen(student)
    assert assignment.corrected is not None
    corrections.fetch_again(student / "home" / assignment.path, released, NAME)
    texts = [c.source for c in nbformat.read(student / "home" / assignment.path, as_version=4).cells]
    assert "Two times a number." in texts and "Twice a number." not in texts and "double(5)" in texts


def test_a_notebook_that_cannot_be_written_stays(student, monkeypatch):
    """If the disk is full while a correction is fetched, does the notebook remain unchanged?"""
    released = student / "given" / NAME / "loops.ipynb"
    nbformat.write(release("assert double(1) == 2"), released)
    notebook = student / "home" / seen(student).path
    before = notebook.read_text()

    def full(*_, **__):
        raise OSError(28, "full")

    monkeypatch.setattr(corrections.files, "write", full)
    with pytest.raises(OSError, match="full"):
        corrections.fetch_again(notebook, released, NAME)
    assert notebook.read_text() == before and seen(student).corrected is not None
