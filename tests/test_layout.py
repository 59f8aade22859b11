"""What the package's layers do not show: the students' copy, and the figure of the packages.

The order of imports is a contract in pyproject.toml, which `make lint` verifies.
"""

import html

from cluster.staff.release import student_files

from . import ROOT, rooms


def test_students_get_what_lies_outside_staff():
    """Does the students' folder contain every module of `cluster` outside staff, and no file of staff?"""
    files = {path.relative_to(ROOT).as_posix() for path in student_files.chosen(ROOT, after="10")}
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "cluster").rglob("*.py")}
    assert not any(name.startswith("cluster/staff") for name in files)
    assert {name for name in modules if not name.startswith("cluster/staff")} <= files


def test_the_picture_is_of_today():
    """Do the packages and arrows in cluster/rooms.svg match the current imports (`python -m tests.rooms`)?"""
    assert html.escape(rooms.text(), quote=False) in rooms.PICTURE.read_text(encoding="utf-8")
