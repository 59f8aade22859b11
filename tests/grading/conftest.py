"""The tiny course: made for a test, released once for all, and with a class."""

import shutil

import pytest

from .. import ROOT
from .classes import Class
from .courses import make_course


@pytest.fixture
def course(tmp_path):
    """The root of a course with the settings of ours and the assignment 99_doubling."""
    return make_course(tmp_path)


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """The root of a course whose assignment is released: made once, copied by each test."""
    from cluster.staff.release.release import release

    root = make_course(tmp_path_factory.mktemp("released"))
    release(root)
    return root


@pytest.fixture
def released_course(released, tmp_path):
    """The root of a course as `course`, whose assignment is released: a copy for one test."""
    return shutil.copytree(released, tmp_path / "course")


@pytest.fixture
def many(released_course, tmp_path, monkeypatch):
    """The course, with nothing handed in yet."""
    (tmp_path / "seen").mkdir()
    monkeypatch.setenv("STANDIN", str(tmp_path / "seen"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return Class(released_course, tmp_path / "seen")
