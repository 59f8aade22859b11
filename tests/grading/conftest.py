"""Fixtures: the tiny course, its release, and a class."""

import shutil

import pytest

from cluster.staff.grading import driver
from cluster.staff.release.release import release

from .. import ROOT
from .classes import Class
from .courses import make_course


@pytest.fixture
def course(tmp_path):
    """The root of a course with this repository's settings and one assignment, 99_doubling."""
    return make_course(tmp_path)


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """The root of a shared course whose assignment is released. Tests work on copies of it."""
    root = make_course(tmp_path_factory.mktemp("released"))
    release(root)
    return root


@pytest.fixture
def released_course(released, tmp_path):
    """A test's own copy of a course whose assignment is released."""
    return shutil.copytree(released, tmp_path / "course")


def a_class(folder, patch):
    """Return the class of the course in a folder, graded by the fake autograder in standin.py."""
    (folder / "seen").mkdir(exist_ok=True)
    patch.setenv("STANDIN", str(folder / "seen"))
    patch.setenv("PYTHONPATH", str(ROOT))
    patch.setattr(driver, "LAST_WORD", 60.0)  # enough for a worker that ends slowly
    return Class(folder / "course", folder / "seen")


@pytest.fixture
def many(released_course, tmp_path, monkeypatch):
    """A class without submissions, graded by the fake autograder in standin.py."""
    return a_class(tmp_path, monkeypatch)
