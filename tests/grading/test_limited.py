"""Students' data are parsed, unpacked and rendered only in processes on which no other submission depends."""

import io
import json
import lzma
import os
import signal
import time
import zipfile

import nbformat
import psutil
import pytest

from cluster.staff import limited
from cluster.staff.course import CourseError, SubmissionError
from cluster.staff.results import similarity
from cluster.staff.submissions import notebook_file, safe_zip

from .. import formgrader_page

MIB = 2**20
CODE = {"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": [], "execution_count": None}


def test_the_value_arrives_and_the_caller_stays():
    """Is a call's value computed in a separate process, which then ends?"""
    assert limited.call(sorted, [3, 1, 2]) == [1, 2, 3]
    pid = limited.call(os.getpid)
    assert pid != os.getpid() and pid != limited.call(os.getpid)


def refuse(kind, message):
    raise kind(message)


@pytest.mark.parametrize("kind", [SubmissionError, CourseError])
def test_errors_of_the_course_are_raised_again(kind):
    """Does the caller get the SubmissionError or CourseError that the called function raised?"""
    with pytest.raises(kind, match="word 4711"):
        limited.call(refuse, kind, "word 4711")


def test_other_errors_are_the_submissions_or_the_machines():
    """Is an error of the operating system raised again, and any other one attributed to the submission?"""
    with pytest.raises(SubmissionError, match="ZeroDivisionError"):
        limited.call(divmod, 1, 0)
    with pytest.raises(FileNotFoundError, match="not-there"):
        limited.call(os.listdir, "/not-there")
    with pytest.raises(OSError, match="killed"):
        limited.call(signal.raise_signal, signal.SIGKILL)


def test_time_and_memory_are_limited(monkeypatch):
    """If a call exceeds its time or memory, or ends its process, does it fail with a message and leave its
    caller unaffected?"""
    with pytest.raises(SubmissionError, match="1 s"):
        limited.call(max, range(10**12), seconds=1)
    rest, _ = limited.call(signal.getitimer, signal.ITIMER_REAL, seconds=1)
    assert 0 < rest <= limited.STRETCH
    with pytest.raises(SubmissionError, match="7 s"):
        limited.call(signal.raise_signal, signal.SIGALRM, seconds=7)
    with pytest.raises(SubmissionError, match="300 MiB"):
        limited.call(bytes, 2**29, memory=300 * MIB)
    with pytest.raises(SubmissionError, match="status 3"):
        limited.call(os._exit, 3)
    with monkeypatch.context() as patch:
        patch.setattr(limited, "LARGEST", 100)
        with pytest.raises(SubmissionError):
            limited.call(str, "x" * 100)
    assert limited.call(sum, [1, 2]) == 3


def test_a_killed_server_is_started_again():
    """Is the server that runs the calls restarted after it was killed?"""
    server = psutil.Process(limited.call(os.getppid))
    server.kill()
    while server.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert limited.call(os.getppid) != server.pid


# --- callers ------------------------------------------------------------------------------------------------


def written(path, cells, **more):
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells} | more))
    return path


@pytest.fixture
def parsed(monkeypatch):
    """Return a list that collects the sizes of the texts that this process itself parses as JSON."""
    sizes, loads = [], json.loads

    def note(text, **more):
        sizes.append(len(text))
        return loads(text, **more)

    monkeypatch.setattr(notebook_file.json, "loads", note)
    return sizes


def test_a_large_notebook_is_parsed_in_a_process_of_its_own(tmp_path, parsed):
    """Is a notebook of ordinary size parsed in this process, and a larger one in another process, which
    returns a small result?"""
    notebook, _ = notebook_file.read(written(tmp_path / "a.ipynb", [CODE]))
    assert notebook.cells[0].source == "x = 1" and len(parsed) == 1
    flood = CODE | {"outputs": [{"output_type": "stream", "name": "stdout", "text": "x" * 30 * MIB}]}
    notebook, _ = notebook_file.read(written(tmp_path / "b.ipynb", [flood]))
    assert notebook.cells[0].outputs == [] and max(parsed) <= notebook_file.SMALL


def test_honest_figures_and_pasted_pictures_of_many_mib_are_read(tmp_path):
    """Are figures and attachments, which can make an honest notebook large, kept?"""
    figure = "iVBORw0KGgo" + "A" * MIB
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {"image/png": figure}}] * 20
    text = {"cell_type": "markdown", "source": "![](attachment:a.png)", "metadata": {}}
    text["attachments"] = {"a.png": {"image/png": figure * 5}}
    path = written(tmp_path / "a.ipynb", [CODE | {"outputs": outputs}, text])
    notebook, changed = notebook_file.read(path)
    assert len(notebook.cells[0].metadata.figures) == 20 and changed == []
    assert notebook.cells[1].attachments["a.png"]["image/png"] == figure * 5


FLOODS = {
    "dicts": [{}] * MIB,
    "deep lists": "[" * 2 * MIB,
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_of_small_parts_costs_its_own_submission(tmp_path, parsed, what):
    """Is a notebook with millions of tiny values refused with a message, without being parsed by this
    process?"""
    path = tmp_path / "a.ipynb"
    flood = FLOODS[what]
    if isinstance(flood, str):
        path.write_text(flood)
    else:
        written(path, [CODE], nbformat=3, worksheets=[{"cells": flood}])
    with pytest.raises(SubmissionError, match=r"notebook|process"):
        notebook_file.read(path)
    assert max(parsed, default=0) <= notebook_file.SMALL


def test_names_in_metadata_are_bounded(tmp_path):
    """Is a cell name of a megabyte ignored? Are a thousand attachments reduced to a hundred?"""
    long = CODE | {"metadata": {"nbgrader": {"grade_id": "a" * MIB, "grade": True}}}
    text = {"cell_type": "markdown", "source": "", "metadata": {}}
    text["attachments"] = {f"{i}.png": {"image/png": "a"} for i in range(1000)}
    notebook, _ = notebook_file.read(written(tmp_path / "a.ipynb", [long, text]))
    assert notebook.cells[0].metadata == {} and len(notebook.cells[1].attachments) == 100


def test_an_archive_that_wants_all_memory_is_refused(tmp_path):
    """LZMA allocates as much memory as the archive declares. Is this memory limited?"""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", "x" * 1000)
    data = bytearray(buffer.getvalue())
    at = data.index(b"\x09\x04\x05\x00") + 5  # after version, property size and lc/lp/pb: dictionary size
    data[at : at + 4] = (2**32 - 1).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises((SubmissionError, lzma.LZMAError)):
        safe_zip.unpack(tmp_path / "a.zip", tmp_path / "sent", largest=10**6, most=10)


def test_code_too_long_to_be_compared_is_reported():
    """Is a submission with far more code than an assignment needs reported, and not compared?"""
    long = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1\n" * 50_000)])
    with pytest.raises(SubmissionError, match="100,000"):
        similarity.cells_of_student(long, nbformat.v4.new_notebook())


def test_formgraders_page_of_a_submission_has_limits(tmp_path):
    """If a submission's page in Formgrader takes too long, is it shown without the student's text, but with
    all fields for points?"""
    from cluster.staff.class_page.submission_page import SubmissionPage

    answer = nbformat.v4.new_markdown_cell("Because it is **so**.")
    answer.metadata.nbgrader = {
        "grade_id": "why", "grade": True, "solution": True, "locked": False, "points": 2, "schema_version": 3,
    }  # fmt: skip
    notebook, path = nbformat.v4.new_notebook(cells=[answer]), tmp_path / "doubling.ipynb"
    about = formgrader_page.ABOUT | {"student": "<b>"}
    page = SubmissionPage(formgrader_page.config(), tmp_path, seconds=5)
    nbformat.write(notebook, path)
    shown, _ = page.from_filename(str(path), dict(about))
    assert "Because it is" in shown and 'id="why"' in shown
    notebook.cells.append(nbformat.v4.new_markdown_cell("<div>" * 60_000))
    nbformat.write(notebook, path)
    began = time.process_time()
    shown, _ = page.from_filename(str(path), dict(about))
    assert 'id="why"' in shown and "Because it is" not in shown
    assert time.process_time() - began < 4  # it is not rendered in this process
