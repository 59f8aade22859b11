"""Where nbgrader's exchange lies, and what students find there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..course import Course, CourseError
from . import store

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config


def inbox(coursedir: CourseDirectory, config: Config) -> Path:
    """The folder of nbgrader's exchange that this course's students submit to."""
    from nbgrader.exchange.default import ExchangeCollect

    root = ExchangeCollect(coursedir=coursedir, config=config).root
    return Path(root) / coursedir.course_id / "inbound"


def course_folder(course: Course) -> Path:
    """The course's folder in the exchange. Raises CourseError where there is no exchange."""
    if lacking := no_exchange(course):
        raise CourseError(lacking)
    return exchange_root(course) / course.coursedir.course_id


def exchange_root(course: Course) -> Path:
    """Where the exchange should lie."""
    from nbgrader.exchange.default import ExchangeCollect

    return Path(ExchangeCollect(coursedir=course.coursedir, config=course.config).root)


def no_exchange(course: Course) -> str:
    """What is missing for an exchange, and the remedy, in words; "" where there is one."""
    root = exchange_root(course)
    if root.is_dir():
        return ""
    return (
        f"there is no exchange at {root}: make the folder, or name it in nbgrader_site.py with"
        " c.Exchange.root = …"
    )


def given(course: Course, student: str, assignment: str, notebooks: list[str]) -> bool:
    """Can the student fetch feedback that is not older than the marks?"""
    from nbgrader.utils import notebook_hash

    marks = store.Store(store.runs(course.coursedir), assignment).recorded(student).get("time", 0)
    path = course.folder("autograded", student, assignment) / "submission_secret.txt"
    try:
        secret, folder = path.read_text(errors="replace"), course_folder(course) / "feedback"
        pages = [folder / f"{notebook_hash(secret=secret, notebook_id=name)}.html" for name in notebooks]
        return bool(pages) and all(page.stat().st_mtime >= marks for page in pages)
    except (OSError, CourseError):
        return False
