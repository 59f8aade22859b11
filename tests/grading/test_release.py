"""The release: made from the solutions, the same bytes each time, with nothing secret in it."""

import json
import subprocess
import sys

import nbformat
import pytest
from conftest import ROOT, TWIN

from cluster.grading import release, student
from cluster.grading.course import CourseError, assignments
from cluster.grading.twins import notebook, write_notebook


def twin_of(course):
    return course / "solutions" / "99_doubling" / "doubling.py"


@pytest.mark.notebook
@pytest.mark.parametrize("assignment", assignments(ROOT))
def test_committed_release_is_what_the_solution_generates(assignment):
    """Is exercises/ generated, byte for byte, and is nothing of a solution or a hidden test in it?"""
    assert release.check(ROOT, assignment) == []


def test_committed_notebooks_are_those_of_their_twins(tmp_path):
    """Are the notebooks in solutions/ generated from their text, byte for byte?"""
    for twin in (ROOT / "solutions").glob("*/*.py"):
        there = twin.with_suffix(".ipynb").read_bytes()
        made = write_notebook(twin, tmp_path / f"{twin.stem}.ipynb")
        assert made.read_bytes() == there, f"{twin}: run `make exercises`"


def test_release_holds_the_notebook_only(course):
    """Do twin, reference runs, solution and hidden tests stay behind, and is the hole there?"""
    release.release(course)
    files = [p.relative_to(course) for p in (course / "exercises").rglob("*") if p.is_file()]
    assert [str(f) for f in files] == ["exercises/99_doubling/doubling.ipynb"]
    text = (course / files[0]).read_text()
    assert "raise NotImplementedError" in text and "autotest(double(0.1 + 0.2)).matches(" in text
    for secret in ("twice_the_number", "34", "HIDDEN", "BEGIN SOLUTION", "AUTOTEST"):
        assert secret not in text
    assert oct((course / ".grading").stat().st_mode & 0o777) == "0o700"


def test_failed_generation_leaves_the_old_release(course):
    """Does a solution that raises leave exercises/ as it was, and say what went wrong?"""
    release.release(course)
    before = (course / "exercises/99_doubling/doubling.ipynb").read_bytes()
    twin_of(course).write_text(TWIN.replace("twice_the_number = 2 * x", "twice_the_number = 2 * undefined"))
    with pytest.raises(CourseError, match=r"(?s)GenerateAssignment failed.*undefined.*nbgrader\.log"):
        release.release(course)
    assert (course / "exercises/99_doubling/doubling.ipynb").read_bytes() == before
    assert [p.name for p in (course / "exercises").iterdir()] == ["99_doubling"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("twin", "a text twin"),
        ("line", "the secret line 'twice_the_number = 2 \\* x'"),
        ("hidden", "the secret line 'assert double\\(17\\) == 34'"),
        ("mark", "nbgrader's mark"),
        ("output", "has outputs"),
    ],
)
def test_a_leak_is_found(course, what, words):
    """Does the search find each way in which a solution can get out? (And nothing in a clean release.)"""
    folder = release.generate(course, "99_doubling", course / "new", course / "private")
    secrets = release.secrets(course, "99_doubling")
    assert release.find_leaks(folder, secrets) == []
    path = folder / "doubling.ipynb"
    book = nbformat.read(path, as_version=4)
    if what == "twin":
        (folder / "doubling.py").write_text(twin_of(course).read_text())
    else:
        book.cells[1].source += {
            "line": "\n    twice_the_number = 2 * x",
            "hidden": "\n  assert double(17) == 34",
            "mark": "\n### END SOLUTION",
            "output": "",
        }[what]
        if what == "output":
            book.cells[1].outputs = [nbformat.v4.new_output("stream", text="2")]
        nbformat.write(book, path)
    with pytest.raises(AssertionError, match=words):
        assert not release.find_leaks(folder, secrets), release.find_leaks(folder, secrets)


def test_a_stale_release_is_found(course):
    """Does the comparison fail when the solution has changed, or a folder has lost its solution?"""
    release.release(course)
    assert release.check(course) == []
    (course / "exercises" / "98_gone").mkdir()
    twin_of(course).write_text(TWIN.replace("# # Doubling", "# # Twice"))
    wrong = release.check(course)
    assert len(wrong) == 2 and "make exercises" in wrong[0] and "98_gone has no solution" in wrong[1]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ('# %% check="double-of-one"', "points belong to"),
        ('# %% solution="x" points=2', "points belong to"),
        ('# %% solution="x" check="y" points=2', "one role only"),
        ("# %% points=2", "no check"),
        ('# %% check="double-of-others" points=1', "two cells are called"),
    ],
)
def test_a_wrong_header_is_refused(course, header, words):
    """Does a cell with a mistaken role stop the generation, with the file's name and what is wrong?"""
    twin_of(course).write_text(TWIN.replace('# %% check="double-of-one" points=1', header))
    with pytest.raises(CourseError, match=f"doubling.py.*{words}"):
        notebook(twin_of(course))


def test_cell_ids_are_stable(course):
    """Does a new cell leave all other ids alone, so that diffs are small and marks stay where they were?"""
    before = [cell.id for cell in notebook(twin_of(course)).cells]
    twin_of(course).write_text("# %% [markdown]\n# New.\n\n# %% [markdown]\n# New.\n\n" + TWIN)
    after = [cell.id for cell in notebook(twin_of(course)).cells]
    assert after[2:] == before and after[0] + "-2" == after[1]


def test_students_folder_holds_no_solution(tmp_path):
    """Does `make student` give lectures, exercises and the package, and no solutions, tests or grading?"""
    folder = tmp_path / "student"
    assert student.make(ROOT, folder) == []
    tops = {path.name for path in folder.iterdir()}
    assert {"README.md", "cluster", "exercises", "lectures", "pyproject.toml"} <= tops
    assert not tops & {
        "solutions",
        "tests",
        "Makefile",
        "nbgrader_config.py",
        "autotests.yml",
        ".git",
        ".grading",
    }
    assert sorted(p.name for p in (folder / "cluster/grading").iterdir()) == [
        "__init__.py",
        "values.py",
        "variant.py",
        "watch.py",
    ]
    for name in assignments(ROOT):
        assert release.same_files(folder / "exercises" / name, ROOT / "exercises" / name)
    for notebook_file in folder.rglob("*.ipynb"):
        json.loads(notebook_file.read_text())
    code = "import cluster.grading, cluster.jobs; print(cluster.grading.__file__)"
    run = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert run.stdout.strip().startswith(str(folder)), run.stderr


def test_package_holds_no_answers_before_its_time(tmp_path):
    """Do the modules that answer an assignment come only after it, and would an answer be found?"""
    answers = {
        "cluster/training/distributed.py",
        "cluster/training/schedules.py",
        "cluster/training/shards.py",
    }
    for after, held in [(None, set()), ("01", set()), ("07", answers)]:
        assert student.make(ROOT, tmp_path / "student", after) == []
        assert {a for a in answers if (tmp_path / "student" / a).exists()} == held
    found = student.leaks(ROOT, tmp_path / "student")
    assert any("cluster/training" in line and "the secret line" in line for line in found), found
    with pytest.raises(CourseError, match="'7'"):
        student.make(ROOT, tmp_path / "student", "7")


def test_students_folder_replaces_only_its_own(tmp_path):
    """Is a folder that holds something else left alone?"""
    folder = tmp_path / "student"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(CourseError, match="was not made by this command"):
        student.make(ROOT, folder)
    assert (folder / "thesis.txt").read_text() == "years of work"


def test_students_folder_with_work_in_it_is_kept(tmp_path):
    """Is an untouched folder made anew, and one that somebody has worked in left alone?"""
    folder = tmp_path / "student"
    assert student.make(ROOT, folder) == student.make(ROOT, folder) == []
    work = folder / "exercises" / "07_data_parallel_training" / "runs" / "train-1" / "result-0.json"
    work.parent.mkdir(parents=True)
    work.write_text("1")
    with pytest.raises(CourseError, match=r"holds work of its user: .*result-0\.json"):
        student.make(ROOT, folder)
    assert work.read_text() == "1"


def test_leak_in_students_folder_is_found(tmp_path):
    """Does a solution among the exercises, or a part of the repository, stop the students' folder?"""
    student.make(ROOT, tmp_path / "student")
    (tmp_path / "student" / "solutions").mkdir()
    twin = next((ROOT / "solutions" / "01_convolution_as_gemm").glob("*.py"))
    (tmp_path / "student/exercises/01_convolution_as_gemm/hint.txt").write_text(twin.read_text())
    found = "\n".join(student.leaks(ROOT, tmp_path / "student"))
    assert (
        "solutions: this part of the repository is not for students" in found and "the secret line" in found
    )
