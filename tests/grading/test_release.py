"""The release is generated from the solutions, is reproducible, and contains no secrets."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import grimp
import nbformat
import numpy as np
import pytest
from jupyter_client import KernelManager
from nbgrader.api import Gradebook

from cluster.checks import compare
from cluster.jobs.backends import forked_ranks
from cluster.staff import autotest_step, hidden
from cluster.staff.course import Course, CourseError, assignments
from cluster.staff.grading import gradebook
from cluster.staff.release import release, student_files, student_folder, wrong_solutions
from cluster.staff.release.twins import notebook, write_notebooks
from cluster.staff.submissions.prepare import Source

from .. import ROOT
from ..verify import is_due, modules_of
from .courses import TWIN

SETTINGS = "nbgrader_config.py"
BEGIN, END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"


def twin_of(course):
    return course / "solutions" / "99_doubling" / "doubling.py"


@pytest.mark.notebook
@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_committed_release_is_what_the_solution_generates(assignment):
    """Does exercises/ equal the generated release, except for the last bits of numbers? Is it free of
    solutions?"""
    for twin in (ROOT / "solutions" / assignment).glob("*.py"):
        committed = nbformat.read(ROOT / "exercises" / assignment / f"{twin.stem}.ipynb", as_version=4)
        assert prose(committed) == prose(notebook(twin)), "run `make exercises`"
    if is_due(assignment[:2]):
        assert release.check(ROOT, assignment) == []


def prose(book):
    """Return the texts that are not for the student to write."""
    cells = [cell for cell in book.cells if cell.cell_type == "markdown"]
    return [cell.source for cell in cells if not cell.metadata.get("nbgrader", {}).get("solution")]


def test_release_holds_the_notebook_only(released):
    """Does the release contain the blank, but no paired script, reference runs, solution or hidden tests?"""
    files = [p.relative_to(released) for p in (released / "exercises").rglob("*") if p.is_file()]
    assert [str(f) for f in files] == ["exercises/99_doubling/doubling.ipynb"]
    text = (released / files[0]).read_text()
    assert "raise NotImplementedError" in text and "autotest(double(0.1 + 0.2)).matches(" in text
    for secret in ("twice_the_number", "== 34", "HIDDEN", "BEGIN SOLUTION", "AUTOTEST"):
        assert secret not in text
    assert oct((released / ".grading").stat().st_mode & 0o777) == "0o700"


def test_no_kernel_of_a_release_listens_on_a_port(course, monkeypatch):
    """Do all kernels communicate through Unix sockets while a release is generated? If two kernels chose the
    same port, one would end, and the generation would wait for it."""
    transports, connect = [], KernelManager.client
    monkeypatch.setattr(
        KernelManager,
        "client",
        lambda manager, **k: transports.append(manager.transport) or connect(manager, **k),
    )
    release.generate(course, "99_doubling", course / "part", course / "private", whole=False)
    assert set(transports) == {"ipc"}


BELOW = "\n\n# %%\nfrom pathlib import Path\n\nPath('executed.txt').write_text('to its end')\n"


def test_cells_below_the_last_directive_change_nothing(course):
    """Does a partial generation write the same release as a complete one, without executing the cells below
    the last directive? Does a complete one execute them?"""
    twin_of(course).write_text(TWIN + BELOW)
    executed = twin_of(course).with_name("executed.txt")
    part = release.generate(course, "99_doubling", course / "part", course / "private", whole=False)
    assert not executed.exists()
    text = (part / "doubling.ipynb").read_text()
    assert "autotest(double(0.1 + 0.2)).matches(" in text and "executed.txt" in text
    whole = release.generate(course, "99_doubling", course / "whole", course / "private")
    assert executed.read_text() == "to its end"
    assert (whole / "doubling.ipynb").read_text() == text


def test_an_unchanged_release_is_not_executed_to_its_end_again(course, monkeypatch, capsys):
    """When an assignment is released that has changed, is its solution executed to its end, with progress
    messages? Is this skipped if it has not changed?"""
    monkeypatch.setattr(autotest_step, "EVERY", -1.0)
    twin_of(course).write_text(TWIN + BELOW)
    executed = twin_of(course).with_name("executed.txt")
    release.release(course, private=course / "private", whole=None)
    assert executed.exists() and "cell 1 of" in capsys.readouterr().out
    executed.unlink()
    release.release(course, private=course / "private", whole=None)
    assert not executed.exists()


JOB = """

# %%
import sys  # not horovod
from cluster import submit

def held():
    return "wave" in sys.modules

submit(held, backend="local").result()
"""


def test_the_ranks_of_a_solution_are_forked(course, monkeypatch):
    """Are the ranks of a Horovod solution forked from one process that has imported the libraries?"""
    monkeypatch.setattr(forked_ranks, "LIBRARIES", ("wave",))
    monkeypatch.delenv("CLUSTER_RUNS", raising=False)
    twin_of(course).write_text(TWIN + JOB)
    release.generate(course, "99_doubling", course / "new", course / "private")
    (result,) = (course / "solutions/99_doubling/runs").glob("held-*/result-0.json")
    assert json.loads(result.read_text()) is True


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (TWIN + "\n\n# %%\nraise ValueError('at the very end')\n", "at the very end"),
        (TWIN.replace("twice_the_number = 2 * x", "twice_the_number = 2 * undefined"), "undefined"),
    ],
)
def test_failed_generation_leaves_the_old_release(released_course, text, value):
    """If a solution raises an error, below the last directive, too, is exercises/ unchanged, and is the error
    reported with the path of the log?"""
    course = released_course
    before = (course / "exercises/99_doubling/doubling.ipynb").read_bytes()
    twin_of(course).write_text(text)
    with pytest.raises(CourseError, match=rf"(?s){value}.*nbgrader\.log"):
        release.release(course)
    assert (course / "exercises/99_doubling/doubling.ipynb").read_bytes() == before
    assert [p.name for p in (course / "exercises").iterdir()] == ["99_doubling"]


def test_a_new_database_needs_no_command(course, monkeypatch):
    """Does a new database get the version that nbgrader's command would write, without running that
    command?"""
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    code = "from nbgrader.api import get_alembic_version; print(get_alembic_version())"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    monkeypatch.setattr(subprocess, "Popen", None)  # starting a process fails from here on
    instance = Course(course, course / "private")
    with Gradebook(instance.coursedir.db_url, instance.coursedir.course_id):
        pass
    with sqlite3.connect(course / "private" / "gradebook.db") as book:
        assert book.execute("SELECT version_num FROM alembic_version").fetchall() == [(done.stdout.strip(),)]


@pytest.mark.parametrize(
    ("added", "value"),
    [
        ("\n    twice_the_number = 2 * x", "twice_the_number"),
        ("\n  assert double(17) == 34", "17"),
        ("\n### END SOLUTION", "END SOLUTION"),
        ("", "cell double"),
    ],
)
def test_a_leak_is_found(released_course, added, value):
    """Does the search for leaks find a secret line, a mark, an output and a paired script, each with its
    file, and nothing in a clean release?"""
    folder = released_course / "exercises" / "99_doubling"
    secrets = release.secrets(released_course, "99_doubling")
    assert release.find_leaks(folder, secrets) == []
    path = folder / "doubling.ipynb"
    book = nbformat.read(path, as_version=4)
    book.cells[1].source += added
    book.cells[1].outputs = [] if added else [nbformat.v4.new_output("stream", text="2")]
    nbformat.write(book, path)
    [leak] = release.find_leaks(folder, secrets)
    assert str(path) in leak and value in leak
    (folder / "doubling.py").write_text(twin_of(released_course).read_text())
    assert any(line.startswith(f"{folder / 'doubling.py'}: ") for line in release.find_leaks(folder, secrets))


MARKED = [
    ("### BEGIN HIDDEN TESTS ", "### END HIDDEN TESTS"),
    ("###BEGIN HIDDEN TESTS", "# the END HIDDEN TESTS of this check"),
    ("#   BEGIN HIDDEN TESTS: others", "  # END HIDDEN TESTS"),
]


@pytest.mark.parametrize(("begin", "end"), MARKED)
def test_hidden_regions_are_those_of_nbgrader(begin, end):
    """Are exactly the lines that nbgrader removes considered hidden, in every form of its marks?"""
    from nbgrader.preprocessors import ClearHiddenTests

    text = f"a = 1\n{begin}\nb = 2\n  {end}\nc = 3\n{end}\nd = 4\n{begin}\n\n{end}"
    cell = nbformat.v4.new_code_cell(text, metadata={"nbgrader": {"grade": True}})
    theirs, _ = ClearHiddenTests().preprocess_cell(cell, {}, 0)
    assert theirs.source == "a = 1\nc = 3\nd = 4"
    assert hidden.as_released(text) == theirs.source
    assert hidden.without_hidden(text) == "a = 1\n\n\n\nc = 3\n\nd = 4\n\n\n"
    assert hidden.replaced(text, "…") == "a = 1\n…\nc = 3\n…\nd = 4\n…"
    open_ended = f"a\n{begin}\nb"  # nbgrader refuses to release this
    assert hidden.replaced(open_ended, "…") == "a\n…" and not hidden.has_hidden("a\nb")


@pytest.mark.parametrize(("begin", "end"), MARKED)
def test_a_leak_is_found_however_the_hidden_region_is_marked(course, begin, end):
    """Are hidden lines treated as secret, in every form of the mark that nbgrader recognises?"""
    twin_of(course).write_text(TWIN.replace(BEGIN, begin).replace(END, end))
    assert "assert double(17) == 34" in release.secrets(course, "99_doubling")
    assert "assert double(1) == 2" not in release.secrets(course, "99_doubling")


def test_a_check_that_feedback_could_not_hide_is_not_released(course):
    """Is an assignment refused if the release hides lines of a check that the feedback would show?"""
    settings = course / SETTINGS
    settings.write_text(settings.read_text() + '\nc.ClearHiddenTests.begin_test_delimeter = "# SECRET"\n')
    twin_of(course).write_text(TWIN.replace(BEGIN, "# SECRET"))
    with pytest.raises(CourseError, match="'double-of-others'"):
        release.release(course)
    assert not list((course / "exercises").iterdir())


def test_a_stale_release_is_found(released_course):
    """Is a changed or missing solution reported? Is the folder that a killed release left behind ignored?"""
    course = released_course
    assert release.check(course) == []
    (course / "exercises" / "98_gone").mkdir()
    (course / "exercises" / ".release-killed").mkdir()
    twin_of(course).write_text(TWIN.replace("# # Doubling", "# # Twice"))
    changed, gone = release.check(course)
    assert "make exercises" in changed and "99_doubling" in changed and "98_gone" in gone


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (compare.close(np.float32([1, 3 + 1e-6]), 1e-3), True),
        (compare.close(np.float32([1, 3 + 1e-4]), 1e-3), False),  # more than a hundredth of the tolerance
        (compare.close(np.float32([1, 3]), 1e-2), False),  # another tolerance
        (compare.close(np.array([1, 3.0]), 1e-3), False),  # another dtype
        (compare.close(np.float32([1, 3, 3]), 1e-3), False),
        (np.float32([1, 3]), False),
    ],
)
def test_only_the_last_bits_of_a_number_may_differ(released_course, tmp_path, value, same):
    """Does a release match the committed one if only the last bits of numbers differ, but not if anything
    else does?"""
    committed, other = released_course / "exercises", tmp_path / "other"
    path = next(committed.rglob("*.ipynb"))
    stored = compare.autotest(compare.close(np.float32([1, 3]), 1e-3))
    path.write_text(release.STORED.sub(str(stored), path.read_text()))
    shutil.copytree(committed, other)
    path = next(other.rglob("*.ipynb"))
    path.write_text(release.STORED.sub(str(compare.autotest(value)), path.read_text()))
    assert not release.same_files(committed, other) and release.same_release(committed, other) == same
    path.write_text(path.read_text().replace("# Doubling", "# Twice"))
    assert not release.same_release(committed, other)


def test_a_release_of_other_files_or_hashes_is_another(released_course, tmp_path):
    """Are an additional file, a different file next to the notebook, and a different hash of an exact value
    detected?"""
    committed, other = released_course / "exercises", tmp_path / "other"
    path = next(committed.rglob("*.ipynb"))
    path.write_text(release.STORED.sub("0" * 40, path.read_text()))
    shutil.copytree(committed, other)
    assert release.same_release(committed, other)
    (other / "more.txt").write_text("more")
    assert not release.same_release(committed, other)
    (committed / "more.txt").write_text("less")
    assert not release.same_release(committed, other)
    (committed / "more.txt").write_text("more")
    path.write_text(release.STORED.sub("1" * 40, path.read_text()))
    assert not release.same_release(committed, other)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ('# %% check="double-of-one"', "'double-of-one'.*points"),
        ('# %% solution="x" points=2', "'x'.*points"),
        ('# %% solution="x" check="y" points=2', "solution.*check"),
        ('# %% [markdown] explain="x"', "'x'.*points"),
        ('# %% explain="x" points=2', "'x'.*code"),
        ('# %% [markdown] check="x" points=2', "'x'.*markdown"),
        ("# %% points=2", "points=2"),
        ('# %% check="double-of-others" points=1', "'double-of-others'"),
    ],
)
def test_a_wrong_header_is_refused(course, header, value):
    """If a cell's header is invalid, is the file refused with its name and the value?"""
    twin_of(course).write_text(TWIN.replace('# %% check="double-of-one" points=1', header))
    with pytest.raises(CourseError, match=f"doubling.py.*{value}"):
        notebook(twin_of(course))


WRITTEN = """
# %% [markdown] explain="why" points=2
# ### BEGIN SOLUTION
# One point for each half of the reason: a number has two halves.
# ### END SOLUTION
"""


def test_a_written_answer_needs_manual_grading(course):
    """Is the rubric of a written answer kept from students? Does an unchanged cell get 0 points, and does an
    answer wait for manual grading?"""
    twin_of(course).write_text(TWIN + WRITTEN)
    release.release(course, private=course / ".grading")
    [path] = (course / "exercises" / "99_doubling").glob("*.ipynb")
    source, released = notebook(twin_of(course)), nbformat.read(path, as_version=4)
    assert wrong_solutions.points(source) == {"double-of-one": 1, "double-of-others": 2}
    assert wrong_solutions.written(source) == {"why"}
    assert "half" not in path.read_text() and "BEGIN" not in path.read_text()
    prepared = Source.from_gradebook(Course(course, course / ".grading").coursedir, "99_doubling")
    verdict = {"checks": {"double-of-one": {"score": 1.0}, "double-of-others": {"score": 2.0}}}
    earned = gradebook.marks(prepared, released, verdict)
    assert earned == {"double-of-one": 1, "double-of-others": 2, "why": 0}  # as released, so not an answer
    answered = wrong_solutions.fill(released, source)
    assert answered.cells[-1].source.startswith("One point for each half")
    assert gradebook.marks(prepared, answered, verdict)["why"] is None  # needs manual grading


def test_cell_ids_are_stable(course):
    """If a cell is inserted, do all other cells keep their IDs? This keeps diffs small and scores in
    place."""
    before = [cell.id for cell in notebook(twin_of(course)).cells]
    twin_of(course).write_text("# %% [markdown]\n# New.\n\n# %% [markdown]\n# New.\n\n" + TWIN)
    after = [cell.id for cell in notebook(twin_of(course)).cells]
    assert after[2:] == before and after[0] + "-2" == after[1]


@pytest.mark.parametrize("pattern", student_files.FILES)
def test_students_folder_names_what_is_there(pattern):
    """Does each pattern that selects the students' files name an existing file or folder?"""
    folder = re.match(r"(?:[^*]*/)?", pattern)[0]
    assert (ROOT / folder).is_dir() and ("*" in pattern or (ROOT / pattern).is_file())


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    """The students' folder, which a test may not change."""
    folder = tmp_path_factory.mktemp("made") / "student"
    assert student_folder.make(ROOT, folder) == []
    return folder


def test_students_folder_holds_no_solution(students):
    """Does `make student` include lectures, exercises and the package, but no solutions, tests or grading
    code?"""
    tops = {path.name for path in students.iterdir()}
    assert {"README.md", "AGENTS.md", "cluster", "exercises", "lectures", "pyproject.toml"} <= tops
    assert not tops & {"solutions", "tests", "Makefile", SETTINGS, "autotests.yml", ".git", ".grading"}
    assert not (students / "cluster/staff").exists()
    for name in assignments(ROOT):
        assert release.same_files(students / "exercises" / name, ROOT / "exercises" / name)
    for notebook_file in students.rglob("*.ipynb"):
        json.loads(notebook_file.read_text())
    code = "import cluster.checks, cluster.jobs; print(cluster.checks.__file__)"
    run = subprocess.run([sys.executable, "-c", code], cwd=students, capture_output=True, text=True)
    assert run.stdout.strip().startswith(str(students)), run.stderr


def test_students_readme_states_hours_and_how_to_submit(students):
    """Does the students' README list the points and hours of each assignment? Does its `tar` command pack an
    assignment's complete folder?"""
    text = (students / "README.md").read_text()
    for name in assignments(ROOT):
        line = next(line for line in text.splitlines() if f"exercises/{name}/" in line)
        assert len(re.findall(r"\d+", line.rpartition("](")[2].partition(")")[2])) == 3, line
    command = re.search(r"czf (\S+)\.tar\S+ -C \S+ (\S+)", text)
    assert command[1] == command[2] and command[2] in assignments(ROOT)


OF_07 = {"cluster/training/distributed.py", "cluster/training/shards.py"}
OF_08 = {"cluster/training/optimizers.py", "cluster/training/schedules.py"}


@pytest.mark.parametrize(("after", "held"), [(None, set()), ("07", OF_07), ("08", OF_07 | OF_08)])
def test_package_holds_no_answers_before_its_time(students, tmp_path, after, held):
    """Is a module that contains an assignment's answer included only after that assignment? Are all modules
    that it needs included, too?"""
    folder = students
    if after:
        folder = tmp_path / "student"
        assert student_folder.make(ROOT, folder, after) == []
    assert {name for name in OF_07 | OF_08 if (folder / name).exists()} == held
    modules, graph = modules_of(ROOT), grimp.build_graph("cluster", cache_dir=None)
    there = {name for name, path in modules.items() if (folder / path.relative_to(ROOT)).exists()}
    lacking = {(a, b) for a in there for b in graph.find_modules_directly_imported_by(a) - there}
    # the command itself reports that this module is missing
    assert lacking == {("cluster.__main__", "cluster.staff.__main__")}


def test_a_leak_in_the_students_folder_is_found(students, tmp_path):
    """Is a solution found in the exercises and in the package, and another part of the repository?"""
    folder = shutil.copytree(students, tmp_path / "student")
    assert student_folder.leaks(ROOT, folder) == []
    (folder / "solutions").mkdir()
    name = next(name for name in assignments(ROOT) if name.startswith("07"))
    secret = max(release.secrets(ROOT, name), key=len)
    planted = [folder / "exercises" / name / "hint.txt"]
    planted += [folder / "cluster" / room / "planted.py" for room in ("training", "network")]
    for path in planted:
        path.write_text(f"\n{secret}\n")
    leaks = student_folder.leaks(ROOT, folder)
    assert len(leaks) == 4 and leaks[-1].startswith("solutions: ")
    assert all(any(line.startswith(f"{path}: ") for line in leaks) for path in planted)


def test_students_folder_replaces_only_its_own(tmp_path):
    """Does `make student` refuse to replace a folder that it did not create, or that contains work, and the
    number of an unknown assignment?"""
    folder = tmp_path / "student"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(CourseError, match=str(folder)):
        student_folder.make(ROOT, folder)
    assert (folder / "thesis.txt").read_text() == "years of work"
    shutil.rmtree(folder)
    assert student_folder.make(ROOT, folder) == student_folder.make(ROOT, folder) == []
    work = folder / "exercises" / "runs" / "train-1" / "result-0.json"
    work.parent.mkdir(parents=True)
    work.write_text("1")
    with pytest.raises(CourseError, match=r"result-0\.json"):
        student_folder.make(ROOT, folder)
    assert work.read_text() == "1"
    with pytest.raises(CourseError, match="'7'"):
        student_folder.make(ROOT, folder, "7")


def test_notebooks_of_newer_scripts_are_written(course):
    """Is a notebook in solutions/ written if it is missing or older than its script, and otherwise left as it
    is?"""
    twin = twin_of(course)
    target = twin.with_suffix(".ipynb")
    target.unlink(missing_ok=True)
    write_notebooks(course)
    assert target.read_text() and target.stat().st_mtime >= twin.stat().st_mtime
    target.write_text("mine")
    write_notebooks(course)
    assert target.read_text() == "mine"
    os.utime(target, (0, 0))
    write_notebooks(course)
    assert "twice_the_number" in target.read_text()
