"""Apply the roster to nbgrader's gradebook; run as the grader, in the course's root.

    python -m cluster.staff.hub.enrol < roster.json

Students who left the roster without a submission are removed; those with submissions stay, with their scores.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def enrol(root: Path, people: list[dict]) -> list[str]:
    """Apply the roster to the gradebook; return a description of the changes.

    people: dicts of user, role, first, last, days (extension for each assignment), platform, section.
    """
    from nbgrader.api import Gradebook

    from ..course import Course
    from ..submissions import due_dates, notices, roster_file

    course, changes = Course(root), []
    roster_file.write(course, people)
    wanted = {p["user"]: p for p in people if p["role"] == "student"}
    with Gradebook(course.coursedir.db_url, course.coursedir.course_id) as book:
        there = {s.id: (s.first_name or "", s.last_name or "") for s in book.students}
        for user, person in wanted.items():
            if there.get(user) != (person["first"], person["last"]):
                book.update_or_create_student(user, first_name=person["first"], last_name=person["last"])
                changes.append(f"{user}: {'renamed' if user in there else 'added to the gradebook'}")
        for user in sorted(there.keys() - wanted.keys()):
            if not book.student_submissions(user):
                book.remove_student(user)
                changes.append(f"{user}: removed from the gradebook")
        changes += due_dates.extend_each(
            book, course, {user: person["days"] for user, person in wanted.items()}
        )
        changes += [f"{user}: {why}" for user, why in notices.tell(course, book).items()]
    return changes


if __name__ == "__main__":
    print(json.dumps(enrol(Path.cwd(), json.load(sys.stdin))))
