"""Plug-ins that give nbgrader's commands and Formgrader the rules of `grade collect` and `grade hand-out`."""

from __future__ import annotations

from nbgrader.api import Gradebook
from nbgrader.exchange.default import ExchangeCollect

from ..course import Course
from . import collect, exchange, notices


class Collect(ExchangeCollect):
    """nbgrader's plug-in for collecting, set as ExchangeFactory.collect in nbgrader_config.py."""

    def init_src(self) -> None:
        if not self.coursedir.assignment_id:
            self.fail("No assignment id specified: nbgrader collect ASSIGNMENT")
        self.inbox = exchange.inbox(self.coursedir, self.config)
        if not self.inbox.is_dir():
            self.fail(f"Course not found: {self.inbox}")

    def ensure_root(self) -> None:
        """Report inaccessible folders by name, because nbgrader would name only the topmost one."""
        if why := exchange.shut(exchange.inbox(self.coursedir, self.config)):
            self.fail(why)
        super().ensure_root()

    def copy_files(self) -> None:
        student = self.coursedir.student_id
        new, same, refused, notes = collect.collect(
            self.coursedir,
            self.coursedir.assignment_id,
            self.inbox,
            student=None if student in ("", "*") else student,
            check_owner=self.check_owner,
        )
        for name, one in new.items():
            self.log.info("Collected %s, submitted %s by the server's clock", name, one.when)
        self.log.info("%d collected, %d unchanged, %d refused", len(new), len(same), len(refused))
        for name, remarks in notes.items():
            self.log.warning("%s: %s", name, "; ".join(remarks))
        for folder, why in refused.items():
            self.log.error("Refused %s: %s", folder, why)
        course = Course(self.coursedir.root)
        with Gradebook(course.coursedir.db_url, course.coursedir.course_id) as book:
            for name, why in notices.tell(course, book).items():
                self.log.warning("%s: %s", name, why)
