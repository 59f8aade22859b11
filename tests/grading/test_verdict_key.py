"""The key of a verdict: it changes with everything that can change the verdict, and with nothing else."""

import copy
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import cluster
from cluster.staff.course import Course, CourseError
from cluster.staff.grading import grade, grading_limits, regrade
from cluster.staff.release import release
from cluster.staff.submissions import grading_folder
from cluster.staff.submissions.prepare import Submission

from .courses import make_course

CLUSTER = Path(cluster.__file__).parent
STANDIN = "tests.grading.standin:Engine"
GRADED = """
import json, sys
from cluster.staff.grading import worker
from pathlib import Path
worker.work(Path(sys.argv[1]), 0)
modules = (m for name, m in list(sys.modules.items()) if name.partition(".")[0] == "cluster")
print(json.dumps(sorted(m.__file__ for m in modules if getattr(m, "__file__", None))))
"""
KEYS = """
import json, sys
from cluster.staff.submissions import grading_folder
before, changed = grading_folder.environment(), []
for names, text in json.loads(sys.argv[1]):
    for name in names:
        with open(grading_folder.CLUSTER / name, "a") as file:
            file.write(text)
    now = grading_folder.environment()
    changed.append(now != before)
    before = now
print(json.dumps(changed))
"""
COUNTS = [
    "network/virtual.py", "network/resnet50.csv", "checks/compare.py", "training/data.py", "jobs/job.py",
    "system/text.py", "slurm/states.py", "pasted_cells.py", "course.mplstyle", "staff/hidden.py",
    "staff/failures.py", "staff/engine/engine.py", "staff/engine/inside/student.py",
    "staff/engine/sandbox/fork_server.py", "staff/grading/worker.py", "training/new.py",
]  # fmt: skip
DOES_NOT = [
    "staff/class_page/handlers.py", "staff/hub/sync.py", "staff/results/feedback.py", "staff/guesses.py",
    "staff/official_check/answers.py", "staff/lti/score_service.py", "pages/templates/start.html",
    "pages/validate.py", "staff/GUIDE.md", "staff/engine/README.md", "README.md", "rooms.svg",
]  # fmt: skip


def keys_after(tmp_path, changes):
    """Return whether each change, ([names], text to append), changes the key, in a copy of the package."""
    shutil.copytree(CLUSTER, tmp_path / "cluster", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-P", "-c", KEYS, json.dumps(changes)]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, check=False
    )
    assert not done.returncode, done.stderr.decode()
    return json.loads(done.stdout)


def test_each_module_imported_while_grading_is_in_the_key(tmp_path):
    """Is each module of the package that a worker imports while it grades in the key, and no module for
    pages, reports or the hub?"""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(1)")])
    where = grading_folder.GradingFolder(tmp_path / "runs", "01")
    where.stage(Submission("ada", tmp_path, "one", book), "k", {})
    (folder := where.dispatches / "d").mkdir()
    plan = {"parts": [[["ada", "k"]]], "engine": grade.ENGINE, "workers": 1, "limits": None}
    grading_folder.write(folder / "plan.json", json.dumps(plan))
    command = [sys.executable, "-P", "-c", GRADED, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert where.verdict("ada", "k")["outcome"] == "graded", done.stderr
    judging = set(grading_folder.judging())
    assert {Path(name) for name in json.loads(done.stdout)} <= judging
    kept = {"hub", "results", "class_page", "official_check", "lti", "one_machine_slurm"}
    assert not [path for path in judging if kept & set(path.relative_to(CLUSTER).parts)]
    assert not [path for path in judging if path.relative_to(CLUSTER).parts[0] == "pages"]


def test_a_change_changes_the_key_where_it_can_change_a_verdict(tmp_path):
    """Does a change of any part that judges, or that a sandbox contains, change the key, and a change of a
    page or a document not? Is a module in the key as soon as the autograder imports it?"""
    text = "\n# changed\n"
    imports = [[["staff/engine/outputs.py"], "from ..guesses import x\n"], [["staff/guesses.py"], text]]
    changes = [[DOES_NOT, text], *([[name], text] for name in COUNTS), *imports]
    assert keys_after(tmp_path, changes) == [False] + [True] * (len(COUNTS) + 2)


def test_each_installed_package_is_in_the_key(monkeypatch):
    """Does the key change with the version of any installed package, since a submission can import it?"""
    before, found = grading_folder.environment(), list(grading_folder.importlib.metadata.distributions())
    for number in (0, len(found) // 2, -1):
        one = type("Package", (), {"name": found[number].name, "version": "0"})
        changed = [each for each in found if each is not found[number]] + [one]
        monkeypatch.setattr(grading_folder.importlib.metadata, "distributions", lambda new=changed: new)
        grading_folder._environment.cache_clear()
        assert grading_folder.environment() != before
    grading_folder._environment.cache_clear()


def test_all_of_a_notebook_that_grading_uses_is_in_the_key(tmp_path):
    """Does the key change with a picture pasted into an answer, the cells that are not run, the figures that
    are not drawn, and points, but not with the ids of cells that are restored?"""
    cells = [nbformat.v4.new_markdown_cell("an answer"), nbformat.v4.new_code_cell("1")]
    book = nbformat.v4.new_notebook(cells=cells, metadata={"undrawn": {}, "measured": []})
    base = Submission("ada", tmp_path, "one", book)

    def key(change):
        one = copy.deepcopy(book)
        change(one)
        return grading_folder.key(dataclasses.replace(base, notebook=one), {}, {})

    first = key(lambda one: None)
    assert key(lambda one: one.cells[0].update(id="other")) == first
    changes = [
        lambda one: one.cells[0].update(attachments={"a.png": {"image/png": "AA=="}}),
        lambda one: one.metadata.update(measured=[one.cells[1].id]),
        lambda one: one.metadata.update(undrawn={one.cells[1].id: 1}),
        lambda one: one.cells[1].metadata.update(nbgrader={"points": 2}),
    ]
    assert len({first, *map(key, changes)}) == len(changes) + 1


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course whose assignment 99 is released, and one student's submission."""
    root = make_course(tmp_path_factory.mktemp("key"))
    release.release(root, "99_doubling")
    course = Course(root)
    work = course.folder("submitted", "ada", "99_doubling")
    shutil.copytree(root / "exercises" / "99_doubling", work)
    return root


def settings(root, text):
    (root / "nbgrader_site.py").write_text(f"c = get_config()\n{text}\n")


def coordinator(root, **limits):
    return grade.Coordinator(Course(root), "99_doubling", grade.Local(1), engine=STANDIN, limits=limits)


def test_limits_of_a_course_hold_in_every_way_to_grade(graded):
    """Do the configured limits hold without an option, does an assignment's replace the course's, and an
    option's both? Does a verdict count only for the same limits, however they were set?"""
    environments = []
    both = "c.Grading.limits = {'cell': 9}\nc.Grading.limits_of = {'99_doubling': {'cell': 90.0}}"
    of_one = "c.Grading.limits_of = {'99': {'cell': '90'}}"
    for text in ("", "c.Grading.limits = {'cell': 90}", of_one, both):
        settings(graded, text)
        environments.append(coordinator(graded).environment)
    settings(graded, "c.Grading.limits_of = {'99_d': {'cell': 9}}")
    environments += [coordinator(graded, cell=90).environment, coordinator(graded, cell=60).environment]
    default, *same, last = environments
    assert [one["limits"]["cell"] for one in environments] == [60, 90, 90, 90, 90, 60]
    assert all(one == same[0] for one in same) and default == last != same[0]
    settings(graded, "")


@pytest.mark.parametrize("text", [
    "c.Grading.limits = {'cells': 9}", "c.Grading.limits = {'cell': -1}", "c.Grading.limits = {'cell': True}",
    "c.Grading.limits_of = {'77': {'cell': 9}}", "c.Grading.limits = {'memory': '2X'}",
    "c.Grading.limits = 3",
    "c.Grading.limits_of = {'99': 'fast'}",
])  # fmt: skip
def test_a_wrong_limit_is_named(graded, text):
    """Is an unknown limit, assignment or value refused before anything is graded, and named?"""
    settings(graded, text)
    with pytest.raises(CourseError):
        grading_limits.of(Course(graded), "99_doubling")
    settings(graded, "")


def test_points_alone_are_recounted_but_not_with_other_code(graded, monkeypatch):
    """If only points have changed, is the verdict recounted? If the course's code has changed, too, is the
    submission graded again?"""
    assert coordinator(graded).grade().graded == ["ada"]
    twin = graded / "solutions" / "99_doubling" / "doubling.py"
    for points in (5, 6):
        twin.write_text(re.sub(r"points=\d", f"points={points}", twin.read_text(), count=1))
        release.release(graded, "99_doubling")
        result, recounted = regrade.regrade(coordinator(graded), "double-of-one")
        assert (result.graded, recounted) == (([], ["ada"]) if points == 5 else (["ada"], []))
        now = grading_folder.environment()
        monkeypatch.setattr(grading_folder, "environment", lambda now=now: now | {"code": "another"})
