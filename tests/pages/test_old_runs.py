"""Old runs, which a notebook no longer names: how they are recognised, omitted from a submission, and removed
by a button.
"""

import hashlib
import json
import re
import subprocess
import sys

import pytest
from nbformat.v4 import new_code_cell, new_output

from cluster.jobs.run import layout
from cluster.pages import hand_in, official_check, old_runs

from .servers import notebook, serving
from .test_submit import arrived, exchange, submit  # noqa: F401 (a fixture)

SUBMIT_PAGE, OLD_PAGE = "course/hand-in?of=05_jobs", "course/old-runs?of=05_jobs"
TRAIN = "def train(rate):\n    return rate * STEPS"


def record(runs, name, code=TRAIN, ended=True, files=0):
    """Create an ended run of the function `name` in the folder `runs`, and return its folder. If `ended` is
    false, create a running one, and return (folder, lock).
    """
    key = hashlib.sha256(f"{name} {code} {len(list(runs.glob('*')))}".encode()).hexdigest()
    run = {"format": 1, "key": key, "name": name, "target": name, "ranks": 1, "backend": "local"}
    contents = {"run.json": json.dumps(run), "code.py": f"STEPS = 7\n\n\n{code}\n"}
    if ended:
        contents["end.json"] = json.dumps({"ending": "Done", "what": "", "next_step": "", "ended": 1.0})
    contents |= {f"out-{n}.log": "x" * 1000 for n in range(files)}
    folder, lock = layout.create(runs, name, key, contents)
    if ended:
        lock.close()
    return (folder, lock) if not ended else folder


def cell(source, prints="", ran=True):
    """Return a code cell, with `prints` as its output."""
    outputs = [new_output("stream", name="stdout", text=prints)] if prints else []
    return new_code_cell(source, outputs=outputs, execution_count=1 if ran else None)


@pytest.fixture
def work(tmp_path):
    """Return the empty folder of an assignment."""
    folder = tmp_path / "assignments" / "05_jobs"
    folder.mkdir(parents=True)
    return folder


def old(folder, *cells):
    """Write a notebook of these cells into the folder, and return the folder's old runs."""
    (folder / "jobs.ipynb").write_text(notebook(*cells))
    return old_runs.old_runs(folder)


def test_a_run_that_a_cell_has_printed_is_named(work):
    """Of three runs of the same code, are those old whose IDs occur in no cell, no output and no other
    file?
    """
    first, second, third = (record(work / "runs", "train") for _ in range(3))
    cells = [cell(TRAIN), cell("job = submit(train, 3)", f"{third.name}: recorded")]
    assert old(work, *cells) == sorted([first, second])
    assert old(work, *cells, cell(f"attach('{first.name}')")) == [second]
    (work / "again.py").write_text(f"# {second.name}\n")
    assert old(work, *cells, cell(f"attach('{first.name}')")) == []


@pytest.mark.parametrize(
    "last",
    [
        cell("other = submit(train, 4)", ran=False),
        cell("%%capture\nsubmit(train, 4)"),
        cell("clear_output()"),
    ],
)
def test_a_cell_without_its_output_keeps_the_runs_of_its_code(work, last):
    """If a cell's output may be missing, are all runs of code in the notebook kept, and only runs of other
    code old?
    """
    named, same = record(work / "runs", "train"), record(work / "runs", "train")
    former = record(work / "runs", "train", TRAIN.replace("*", "+"))
    assert old(work, cell(TRAIN), cell("submit(train, 3)", f"{named.name}: recorded"), last) == [former]
    assert old(work, cell(TRAIN), cell("submit(train, 3)", f"{named.name}: recorded")) == sorted(
        [former, same]
    )


def test_the_code_counts_more_than_the_output(work):
    """If code was reverted without running its cell again, is the run of the current code kept?"""
    present, tried = record(work / "runs", "train"), record(work / "runs", "train", TRAIN.replace("*", "+"))
    assert old(work, cell(TRAIN), cell("submit(train, 3)", f"{tried.name}: 1 rank")) == []
    assert old(work, cell(TRAIN), cell("submit(train, 3)", f"{present.name}: 1 rank")) == [tried]


def test_code_that_grading_puts_back_is_there(work, tmp_path):
    """If a read-only cell was changed, are the runs of the released cell, which grading restores, kept?"""
    run = record(work / "runs", "train")
    (work / "jobs.ipynb").write_text(notebook(cell(TRAIN.replace("*", "+"))))
    (tmp_path / "released").mkdir()
    (tmp_path / "released" / "jobs.ipynb").write_text(notebook(cell(TRAIN, ran=False)))
    assert old_runs.old_runs(work) == [run] and old_runs.old_runs(work, tmp_path / "released") == []


def test_runs_set_aside_and_sweeps(work):
    """Is a run old if a later run has replaced it, and a sweep if its items' code is no longer in the
    notebook?
    """
    train, former = record(work / "runs", "train"), record(work / "runs", "sweep", TRAIN.replace("*", "+"))
    aside = layout.set_aside(record(work / "runs", "train"))
    for sweep in (former, record(work / "runs", "sweep")):
        (item := sweep / "round-1" / "0").mkdir(parents=True)
        (sweep / "code.py").rename(item / "code.py")
    cells = cell(TRAIN), cell("submit(train, 3)", f"{train.name}: recorded")
    assert old(work, *cells) == sorted([former, aside])


def test_what_validate_has_run_is_named(work):
    """If a run's ID was printed only during Validate, is the run kept?"""
    shown, asked = record(work / "runs", "train"), record(work / "runs", "train")
    cells = cell(TRAIN), cell("submit(train, 3)", f"{shown.name}: 1 rank")
    assert old(work, *cells) == [asked]
    text = notebook(cell("submit(train, 4)", f"{asked.name}: recorded"))
    (work / "executed.json").write_text(text)
    import nbformat

    old_runs.keep_names(work, nbformat.reads(text, as_version=4))
    assert old(work, *cells) == []


def test_an_unreadable_notebook_or_run_keeps_what_it_can(work):
    """If the notebook and a run are damaged, is the run kept if the notebook's text contains its ID, and old
    otherwise?
    """
    run = record(work / "runs", "train")
    (run / "run.json").write_text("{")
    (work / "jobs.ipynb").write_text("{")
    assert old_runs.old_runs(work) == [run]
    (work / "jobs.ipynb").write_text(f"{{ {run.name} {TRAIN}")
    assert old_runs.old_runs(work) == []
    assert old_runs.old_runs(work.parent) == []


def test_old_runs_do_not_count(work, tmp_path):
    """Can an assignment be submitted despite 6,000 files of old runs? Does the archive for an official check
    omit the same files?
    """
    (released := tmp_path / "released").mkdir()
    (released / "jobs.ipynb").write_text(notebook())
    for _ in range(6):
        record(work / "runs", "train", TRAIN.replace("*", "-"), files=1000)
    named = record(work / "runs", "train", files=2)
    (work / "runs" / ".0123456789ab.lock").write_text("")
    result = old(work, cell(TRAIN), cell("submit(train, 3)", f"{named.name}: 1 rank"))
    assert len(result) == 6
    assert hand_in.blockers(work, released, 10**6, 10**6, old=result) == []
    (why,) = hand_in.blockers(work, released, 10**6, 10**8)
    assert "6,0" in why and f"{hand_in.MOST:,}" in why
    names = {str(path.relative_to(work)) for path in old_runs.submitted(work, result) if path.is_file()}
    assert names == {"jobs.ipynb"} | {f"runs/{named.name}/{path.name}" for path in named.iterdir()}
    (tmp_path / "a.zip").write_bytes(official_check.pack(work, released))
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", tmp_path / "a.zip"], capture_output=True, text=True
    )
    assert {line.split()[0] for line in listed.stdout.splitlines()[1:]} == names


def test_a_submission_has_named_runs_alone(exchange):  # noqa: F811
    """Are old runs left out of both the exchange and the cache, even if one exceeds the size limit?"""
    folder = exchange / "work" / "01_loops"
    gone, named = (record(folder / "runs", "train", files=3) for _ in range(2))
    with open(gone / "large", "wb") as file:
        file.truncate(200 * 10**6)  # more than nbgrader's limit
    cells = cell(TRAIN), cell("submit(train, 3)", f"{named.name}: 1 rank")
    (folder / "loops.ipynb").write_text(notebook(*cells))
    done = submit(exchange)
    assert done.returncode == 0, done.stderr
    (name,) = arrived(exchange)
    for there in (
        exchange / "exchange" / "course" / "inbound" / name,
        *(exchange / "cache").glob("course/*01_loops*"),
    ):
        assert sorted(path.name for path in (there / "runs").iterdir()) == [named.name]
        assert (there / "runs" / named.name / "out-2.log").exists()


@pytest.mark.servers
def test_the_button_removes_old_runs_that_have_ended(work, tmp_path):
    """Does the page show the number and size of the old runs before removing them, and remove only those that
    have ended?
    """
    old_one, named = record(work / "runs", "train", files=20), record(work / "runs", "train")
    running, lock = record(work / "runs", "train", TRAIN.replace("*", "+"), ended=False)
    cells = cell(TRAIN), cell("submit(train, 3)", f"{named.name}: 1 rank")
    (work / "jobs.ipynb").write_text(notebook(*cells))
    (tmp_path / "home").mkdir()
    with lock, serving(tmp_path, tmp_path / "home", {"cluster.pages": True}) as server:
        assert "2 runs (27 files, 0.0 MB)" in " ".join(server.get(SUBMIT_PAGE)[1].split())
        page = OLD_PAGE
        status, text, _ = server.get(page)
        assert status == 200 and "<b>2 runs</b> with 27 files" in text and old_one.name in text
        assert named.name not in text and all(run.exists() for run in (old_one, named, running))
        assert server.get(page, data={"_xsrf": "guessed"})[0] == 403 and old_one.exists()
        data = {"_xsrf": re.search(r'name="_xsrf" value="([^"]+)"', text)[1]}
        status, text, _ = server.get(page, data=data)
        assert status == 409 and running.name in text
        assert not old_one.exists() and running.exists() and named.exists()
        lock.close()
        (running / "end.json").write_text((named / "end.json").read_text())
        status, text, _ = server.get(page, data=data)
        assert status == 200 and "old-runs" not in text and "Submit assignment 05" in text
        assert [path.name for path in (work / "runs").iterdir()] == [named.name]
        assert server.get(OLD_PAGE.replace("05", "06"))[0] == 404
