"""Final points as a table for a learning management system."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..spreadsheet import text

if TYPE_CHECKING:
    from nbgrader.api import Gradebook, Student

    Field = str | float | None
    Row = tuple[Student, list[float | None]]  # a student, and the points of each assignment

FORMS = ("plain", "canvas", "moodle")


def export(book: Gradebook, names: Iterable[str], form: str = "plain") -> tuple[str, list[str]]:
    """(CSV, [warnings]) of the final points of all students in these assignments, lateness taken off.

    Who handed nothing in has an empty field, not 0: what that is worth, the course decides.
    """
    from nbgrader.api import MissingEntry

    worth = {name: book.find_assignment(name).max_score for name in names}
    rows, warnings = [], []
    for person in sorted(book.students, key=lambda person: person.id):
        final = []
        for name in names:
            try:
                submitted = book.find_submission(name, person.id)
            except MissingEntry:
                final.append(None)
                continue
            penalty = submitted.late_submission_penalty or 0.0
            final.append(round(max(0.0, submitted.score - penalty), 4))
            if submitted.needs_manual_grade:
                warnings.append(f"{person.id}, {name}: a person has to look at it before it counts")
        rows.append((person, final))
    return text(FORMAT[form](rows, worth)), warnings


def plain(rows: list[Row], worth: dict[str, float]) -> list[list[Field]]:
    head = ["student", "last name", "first name", "email", *(f"{n} (of {w:g})" for n, w in worth.items())]
    return [head, *([p.id, p.last_name, p.first_name, p.email, *final] for p, final in rows)]


def canvas(rows: list[Row], worth: dict[str, float]) -> list[list[Field]]:
    """Canvas's gradebook import; its second row says how many points there are."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *worth]
    possible = ["    Points Possible", "", "", "", "", *worth.values()]
    return [head, possible, *([whole(p), "", p.lms_user_id or "", p.id, "", *f] for p, f in rows)]


def moodle(rows: list[Row], worth: dict[str, float]) -> list[list[Field]]:
    """Moodle's grade import: map `username` to the user, and each column to its grade item."""
    return [["username", "email", *worth], *([p.id, p.email, *final] for p, final in rows)]


def whole(person: Student) -> str:
    """Last name, first name, or the login where none is known."""
    return ", ".join(filter(None, [person.last_name, person.first_name])) or person.id


FORMAT = {"plain": plain, "canvas": canvas, "moodle": moodle}
