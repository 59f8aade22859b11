"""Validate reports what grading would, and nothing else."""

import html
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes
from nbgrader.utils import compute_checksum

from cluster.pages import hand_in
from cluster.pages.validate import TO_DO, is_empty
from cluster.staff import failures, work_files
from cluster.staff.release.wrong_solutions import fill

ROOT = Path(__file__).parents[2]
POLICY = "Content-Security-Policy"
RIGHT = {
    "warns": "import sys\nprint('TensorFlow says hello', file=sys.stderr)\nassert double(1) == 2",
    "ends-in-a-number": "assert double(1) == 2\ndouble(0.25)",
    "draws": "import warnings\nwarnings.warn('deprecated')\nlen([double(1)])",
}
HOLE = "# YOUR CODE HERE"
WRONG = {
    "says-why": '"""Other numbers (2 points)."""\nassert double(3) == 6, "3 was <b>not</b> doubled"',
    "hits-a-bug": "double('x', 1)",
    "asserts-dumbly": "assert double(3) == 6",
}


def cell(name, source, **role):
    facts = {"grade_id": name, "locked": True, "grade": False, "solution": False, "task": False}
    node = new_code_cell(source, metadata={"nbgrader": facts | {"schema_version": 3} | role})
    node.metadata.nbgrader["cell_type"] = "code"
    if not role.get("solution") or role.get("grade"):
        node.metadata.nbgrader["checksum"] = compute_checksum(node)
    return node


def graded(checks):
    return [cell(name, source, grade=True, points=2) for name, source in checks.items()]


def double(code):
    return cell("double", f"def double(x):\n    {code}", solution=True, locked=False)


def printed(notebook):
    command = [sys.executable, "-P", "-m", "cluster.pages.validate", str(notebook)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def answered(folder, *cells):
    """Validate a notebook of these cells, and return the command's complete output."""
    (folder / "notebook.ipynb").write_text(json.dumps(new_notebook(cells=list(cells))))
    answer = printed(folder / "notebook.ipynb")
    assert answer["success"], answer
    return answer


def validated(folder, *cells):
    """Validate a notebook of these cells, and return the part of the output that nbgrader's page shows."""
    return answered(folder, *cells)["value"]


def test_a_correct_solution_passes(tmp_path):
    """Does a correct solution pass despite warnings, a value at a check's end, and output from native
    code?
    """
    chatty = new_code_cell("import os\nos.write(1, b'native code prints')\n1 / 0")  # a scratch cell may fail
    assert validated(tmp_path, double("return 2 * x"), chatty, *graded(RIGHT)) == {}


def test_failed_checks_give_reasons(tmp_path):
    """Is each failing check listed by its first sentence, or else its first line, with the error's message?
    Are a changed read-only cell and a missing answer listed, too?
    """
    given = cell("given", "size = 3")
    given.source = "size = 4"
    answer = cell("answer", HOLE, grade=True, points=1, solution=True, locked=False)
    failures = validated(tmp_path, given, double("return x + 1"), *graded(RIGHT | WRONG), answer)["failed"]
    answer = {check["source"].splitlines()[0]: check for check in failures}
    count, *rest = answer
    assert re.findall(r"\d+", count) == ["4", "1", "3"]
    assert rest == [
        "size = 4",
        "Other numbers (2 points).",
        "double('x', 1)",
        "assert double(3) == 6",
        TO_DO,
    ]
    assert answer[TO_DO]["raw_error"] == "- The answer answer"
    assert "read-only" in answer["size = 4"]["raw_error"]
    assert answer["Other numbers (2 points)."]["raw_error"] == "3 was <b>not</b> doubled"
    assert "<b>" not in answer["Other numbers (2 points)."]["error"]
    assert answer["double('x', 1)"]["raw_error"].endswith("takes 1 positional argument but 2 were given")
    assert "AssertionError" in answer["assert double(3) == 6"]["raw_error"]


def test_what_is_still_to_do(tmp_path):
    """Are the checks of an empty function listed together as still to do, without a traceback?"""
    checks = graded({"says-why": WRONG["says-why"], "draws": RIGHT["draws"]})
    count, to_do = validated(tmp_path, double("raise NotImplementedError"), *checks)["failed"]
    assert re.findall(r"\d+", count["source"]) == ["0", "2", "0"]
    assert (to_do["source"], to_do["raw_error"]) == (TO_DO, "- Other numbers (2 points).\n- import warnings")


OF_RANKS = "rank 0 ended with NotImplementedError in average():"


def test_an_empty_function_on_a_rank_is_to_do(tmp_path):
    """If a check fails because a rank calls an empty function, is it reported as still to do, with the
    numbers of the check's cell and of the cell to fill in?
    """
    stub = cell("hole", "def average(x):\n    raise NotImplementedError", solution=True, locked=False)
    checks = graded(
        {
            "ranks": f'"""Ranks agree (2 points)."""\nassert False, "{OF_RANKS}"',
            "here": '"""Here (2 points)."""\naverage(1)',
            "wrong": '"""Doubled (2 points)."""\nassert double(1) == 3, "average() is NotImplementedError"',
            "right": '"""Is there (2 points)."""\nassert double(1) == 2',
        }
    )
    answer = answered(tmp_path, new_markdown_cell("text"), double("return 2 * x"), stub, *checks)
    results = [(item["state"], item["name"], item["cell"], item["fill_name"]) for item in answer["checks"]]
    assert results == [
        ("to do", "ranks", 3, "hole"),
        ("to do", "here", 4, "hole"),
        ("failed", "wrong", 5, ""),
        ("passed", "right", 6, ""),
    ]
    assert [item["fill"] for item in answer["checks"]] == [2, 2, None, None]


def test_what_an_empty_function_leaves_behind_is_to_do(tmp_path):
    """Is a check reported as "to do" if an empty function makes it fail indirectly: through ranks, a name
    that was never set, or failing calls? Is it reported as failed if a name is misspelt or a filled-in
    function is wrong?
    """
    stub = cell("hole", "def average(x):\n    raise NotImplementedError", solution=True, locked=False)
    checks = graded(
        {
            "listed": 'assert False, "2 ranks, 6 elements: rank 0: NotImplementedError in average():"',
            "unset": "assert 2 * means == [2]",
            "unset-further": "assert doubled == [2]",
            "calls-fail": 'average\nassert False, "all calls fail"',
            "own-name": "assert menas == [1]",
            "filled": "assert double(1) == 3",
        }
    )
    run = [new_code_cell("means = average([1])"), new_code_cell("doubled = 2 * means")]
    answer = answered(tmp_path, double("return 2 * x"), stub, *run, *checks)
    results = {check["name"]: (check["state"], check["fill_name"]) for check in answer["checks"]}
    to_do = dict.fromkeys(["listed", "unset", "unset-further", "calls-fail"], ("to do", "hole"))
    assert results == to_do | dict.fromkeys(["own-name", "filled"], ("failed", ""))


ERRORS = [
    ("NotImplementedError", ""),
    ("AssertionError", OF_RANKS),
    ("AssertionError", "rank 1 ended with ValueError in average():"),
    ("AssertionError", "5 numbers on 3 ranks: rank 0: NotImplementedError in reduce_scatter()"),
    ("AssertionError", "5 numbers on 3 ranks: rank 0: ValueError in reduce_scatter()"),
    ("AssertionError", "3 is not 4"),
    ("JobFailed", "rank 0 failed\n  raise NotImplementedError\nNotImplementedError"),
    ("TypeError", "average() takes 1 argument"),
]


@pytest.mark.parametrize("name, text", ERRORS)
def test_empty_is_what_grading_calls_empty(name, text):
    """Do Validate and feedback agree on which errors come from an empty function?"""
    assert is_empty(name, text, []) == (failures.kind(f"{name}: {text}") == failures.EMPTY)


def test_a_cell_of_another_kind_and_a_broken_file_are_said(tmp_path):
    """Are a cell that was turned into text, and a file that is not a notebook, reported?"""
    turned = double("return 2 * x")
    turned.cell_type = "markdown"
    del turned["outputs"], turned["execution_count"]
    (note,) = answered(tmp_path, turned)["notes"]
    assert "“double”" in note
    (tmp_path / "broken.ipynb").write_text('{"cells": [')
    answer = printed(tmp_path / "broken.ipynb")
    assert not answer["success"] and "Fetch" in answer["value"]


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda folder: None, []),
        (lambda folder: (folder / "x.ipynb").rename(folder / "y.ipynb"), ["x.ipynb"]),
        (lambda folder: (folder / "x.ipynb").write_text("{"), ["x.ipynb"]),
        (lambda folder: (folder / "big").write_bytes(b"0" * 30_000), ["big"]),
        (lambda folder: [(folder / f"runs-{n}").write_bytes(b"0" * 9_000) for n in range(9)], ["0.1 MB"]),
    ],
)
def test_blockers_of_a_submission(tmp_path, spoil, message):
    """Is everything reported that prevents a submission: a missing or invalid notebook, a file that is too
    large, and files that are too large in total?
    """
    mine, released = tmp_path / "mine", tmp_path / "released"
    for folder in (mine, released):
        folder.mkdir()
        (folder / "x.ipynb").write_text(writes(new_notebook(cells=[new_markdown_cell("text")])))
    spoil(mine)
    blockers = hand_in.blockers(mine, released, 20_000, 50_000)
    assert len(blockers) == len(message)
    assert all(word in blocker for blocker, word in zip(blockers, message, strict=True))


def test_limits_are_the_courses():
    """Do the submission page and the course's server have the same limit for the number of files?"""
    assert hand_in.MOST == work_files.MOST


def test_a_copied_cell_is_reported_before_submission(tmp_path):
    """Is a cell reported that was copied together with its nbgrader name? Is the notebook still run as in
    grading?
    """
    checks = graded({"draws": RIGHT["draws"]})
    stub, filled = double("raise NotImplementedError"), double("return 2 * x  # \ud800")
    count, *text = validated(tmp_path, filled, *checks, stub, *graded({"draws": RIGHT["draws"]}))["failed"]
    assert re.findall(r"\d+", count["source"]) == ["0", "0", "1"]
    named = zip(text, ("“double”", "“draws”", "�"), strict=True)
    assert all(what in failure["source"] for failure, what in named)


@pytest.mark.servers
def test_the_button_asks_us(server, course):
    """Does the course's code answer nbgrader's Validate button, and only for notebooks below the server's
    root?
    """
    notebook = course / "validated.ipynb"
    cells = [double("return 2 * x"), new_markdown_cell("text"), *graded({"warns": RIGHT["warns"]})]
    notebook.write_text(writes(new_notebook(cells=cells)))
    try:
        status, answer = answer_of(server, "validated.ipynb")
        assert status == 200 and answer["success"] and answer["value"] == {}
        assert [(check["name"], check["state"]) for check in answer["checks"]] == [("warns", "passed")]
        assert answer_of(server, "../validated.ipynb")[0] == 403
        assert answer_of(server, "absent.ipynb")[0] == 404
    finally:
        notebook.unlink()


@pytest.mark.servers
def test_the_panels_page(server, course):
    """Does the page run the notebook only when its form is sent with the XSRF token? Does it then link to
    each check's cell and report what prevents a submission?
    """
    notebook = course / "exercises" / "01_loops" / "loops.ipynb"
    before = notebook.read_text()
    answer = cell("why-so", "# YOUR ANSWER", grade=True, points=1, solution=True, locked=False)
    answer.source = "# It is twice x."
    cells = [double("return x + 1"), *graded({"warns": RIGHT["warns"], "why": WRONG["says-why"]}), answer]
    page = "course/validate?of=exercises/01_loops/loops.ipynb"
    try:
        notebook.write_text(writes(new_notebook(cells=cells)))
        status, text, _ = server.get(page)
        assert status == 200 and "Validate now" in text and 'id="counts"' not in text
        assert server.get(page, data={})[0] == 403, "without the token"
        token = re.search(r'name="_xsrf" value="([^"]+)"', text)[1]
        _, text, _ = server.get(page, data={"_xsrf": token})
        counts = re.search(r'id="counts">(.*?)</p>', text)[1]
        assert re.findall(r"\d+", counts) == ["1", "0", "1", "1"], "no program passes an answer"
        assert 'data-cell="1" data-name="warns"' in text and "3 was &lt;b&gt;not&lt;/b&gt; doubled" in text
        assert hand_in.NOWHERE in html.unescape(text) and 'id="hand-in-now"' not in text
        assert server.get("course/hand-in?of=01_loops", data={"_xsrf": token})[0] == 409
        assert server.get("course/hand-in?of=98_none")[0] == 404
        assert server.get("course/validate?of=../x.ipynb")[0] == 403
        assert server.get("course/feedback?of=01_loops")[0] == 200
        _, text, headers = server.get("course/feedback/page?of=01_loops")
        assert "4.5 of 7 points" in text and "form-action 'none'" in headers[POLICY]
        assert server.get("course/feedback?of=07_ranks")[0] == 404
    finally:
        notebook.write_text(before)


@pytest.mark.hub
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "exercises").glob("[0-9]*")))
def test_the_assignments_of_the_course(name, tmp_path):
    """Does the solution pass Validate, and are all failures of the unsolved release reported as still to
    do?
    """
    (released,) = (ROOT / "exercises" / name).glob("*.ipynb")
    source = nbformat.read(ROOT / "solutions" / name / released.name, as_version=4)
    assert validated(tmp_path, *fill(nbformat.read(released, as_version=4), source).cells) == {}
    failures = validated(tmp_path, *nbformat.read(released, as_version=4).cells)["failed"]
    assert len(failures) == 2 and failures[1]["source"] == TO_DO


def answer_of(server, path):
    body = json.dumps({"path": path}).encode()
    headers = {"Authorization": "token secret", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.url}assignments/validate", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=240) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
