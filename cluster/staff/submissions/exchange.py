"""The location of nbgrader's exchange and its contents."""

from __future__ import annotations

import datetime
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

from ..course import Course, CourseError
from . import grading_folder

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config


def inbox(coursedir: CourseDirectory, config: Config) -> Path:
    """Return the folder of nbgrader's exchange that this course's students submit to."""
    return exchange_root(coursedir, config) / coursedir.course_id / "inbound"


def course_folder(course: Course) -> Path:
    """Return the course's folder in the exchange. Raises CourseError if there is no exchange."""
    if lacking := no_exchange(course):
        raise CourseError(lacking)
    return exchange_root(course.coursedir, course.config) / course.coursedir.course_id


def exchange_root(coursedir: CourseDirectory, config: Config) -> Path:
    """Return the configured location of the exchange."""
    from nbgrader.exchange.default import ExchangeCollect

    return Path(ExchangeCollect(coursedir=coursedir, config=config).root)


def shut(folder: Path) -> str:
    """Describe the first folder on the path to `folder` that this process cannot enter, or return ""."""
    for path in [*reversed(folder.absolute().parents), folder.absolute()]:
        wanted = os.X_OK | (os.R_OK if path == folder.absolute() else 0)
        if os.access(path, wanted):
            continue
        if not os.path.lexists(path):
            return ""
        who, remedy = user(os.geteuid()), "its owner must grant access (on a hub, run `make hub` again)"
        return f"{path} cannot be entered by {who}: {remedy}"
    return ""


def user(number: int) -> str:
    """Return the name of a Unix user, or the user ID as text."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def no_exchange(course: Course) -> str:
    """Describe why there is no exchange and what to do, or return "". Raises CourseError if it is shut."""
    root = exchange_root(course.coursedir, course.config)
    if why := shut(root / course.coursedir.course_id):
        raise CourseError(why)
    if root.is_dir():
        return ""
    return (
        f"there is no exchange at {root}: make the folder, or name it in nbgrader_site.py with"
        " c.Exchange.root = …"
    )


def given_back_at(
    course: Course, student: str, assignment: str, notebooks: list[str]
) -> datetime.datetime | None:
    """Return when feedback on the current points was released to the student, or None if it was not."""
    from nbgrader.utils import notebook_hash

    on_disk = grading_folder.GradingFolder(grading_folder.runs(course.coursedir), assignment)
    marks = on_disk.recorded(student).get("time", 0)
    path = course.folder("autograded", student, assignment) / "submission_secret.txt"
    try:
        secret, folder = path.read_text(errors="replace"), course_folder(course) / "feedback"
        pages = [folder / f"{notebook_hash(secret=secret, notebook_id=name)}.html" for name in notebooks]
        put = [page.stat().st_mtime for page in pages]
    except (OSError, CourseError):
        return None
    return datetime.datetime.fromtimestamp(max(put), datetime.UTC) if put and min(put) >= marks else None
