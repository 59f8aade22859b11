"""Final points as a table for a learning management system."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..spreadsheet import is_formula, text
from ..submissions.roster_file import user_of

if TYPE_CHECKING:
    from nbgrader.api import Gradebook, Student

    from ..platforms import Table
    from ..submissions.roster_file import Member

    Field = str | float | None
    Row = tuple[Student, list[float | None]]  # a student, and the points of each assignment

FORMS = ("plain", "canvas", "moodle", "blackboard")
NOTHING = {"moodle": "-"}  # Moodle's mark for no grade; it would store an empty field
NEW_COLUMN = {
    "canvas": "Canvas creates a new assignment for it",
    "moodle": "in Moodle, map it to a new grade item",
    "blackboard": "Blackboard creates a text column worth 0 points for it",
}
MOODLES_MOST = 100.0  # maximum points of an item, unless the site has set unlimitedgrades


def export(
    book: Gradebook,
    names: Iterable[str],
    form: str = "plain",
    like: Table | None = None,
    partial: bool = False,
    people: dict[str, Member] | None = None,
) -> tuple[str, list[str]]:
    """Return (CSV, [warnings]) of all students' final points in these assignments, after late penalties.

    Students without a submission have an empty field (Moodle: a dash), not 0, because the course decides how
    to count it. partial: write the preliminary points of submissions that need manual grading. Otherwise
    their field is empty, so that partial points are not taken for the grade. like: the platform's own export,
    whose people and columns the table then keeps. people: the roster, or None without one; students who are
    no longer on it are left out.
    """
    worth, rows, waiting = finals(book, names)
    dropped = dict.fromkeys(one.id for one, _ in rows if people is not None and one.id not in people)
    rows = [(one, final) for one, final in rows if one.id not in dropped]
    waiting = [(user, name) for user, name in waiting if user not in dropped]
    field = "the file has the points so far" if partial else "its field is empty (--partial: points so far)"
    warnings = [
        f"{user}, {name}: needs manual grading in Formgrader › Manual Grading; {field}"
        for user, name in waiting
    ]
    warnings += [f"{user}: no longer on the roster, so left out" for user in dropped]
    if not partial:
        unknown = set(waiting)
        rows = [
            (one, [None if (one.id, name) in unknown else x for name, x in zip(worth, final, strict=True)])
            for one, final in rows
        ]
    if form == "moodle":
        warnings += [
            f"{name}: {most:g} points, but Moodle refuses more than {MOODLES_MOST:g} until "
            "unlimitedgrades is set"
            for name, most in worth.items()
            if most > MOODLES_MOST
        ]
    if like:
        table, more = filled(rows, worth, form, like, people)
        warnings += more
    else:
        table = FORMAT[form](rows, worth)
        if form != "plain":
            warnings += [
                f"{person.id!a}: this would be a formula in a spreadsheet, so it is written as '{person.id}, "
                "which is unknown to the platform; enter their points by hand"
                for person, _ in rows
                if is_formula(person.id)
            ]
    return text(table, quote_all=form == "blackboard"), warnings


def finals(
    book: Gradebook, names: Iterable[str]
) -> tuple[dict[str, float], list[Row], list[tuple[str, str]]]:
    """Return ({assignment: maximum points}, final points, [(student, assignment) that need manual
    grading]).

    Late penalties are subtracted; None for no submission.
    """
    from nbgrader.api import MissingEntry

    worth = {name: book.find_assignment(name).max_score for name in names}
    rows, waiting = [], []
    for person in sorted(book.students, key=lambda person: person.id):
        final: list[float | None] = []
        for name in worth:
            try:
                submitted = book.find_submission(name, person.id)
            except MissingEntry:
                final.append(None)
                continue
            penalty = submitted.late_submission_penalty or 0.0
            final.append(round(max(0.0, submitted.score - penalty), 4))
            if submitted.needs_manual_grade:
                waiting.append((person.id, name))
        rows.append((person, final))
    return worth, rows, waiting


def plain(rows: list[Row], worth: dict[str, float]) -> list[list[Field]]:
    head = ["student", "last name", "first name", "email", *(f"{n} (of {w:g})" for n, w in worth.items())]
    return [head, *([p.id, p.last_name, p.first_name, p.email, *final] for p, final in rows)]


def canvas(rows: list[Row], worth: dict[str, float]) -> list[list[Field]]:
    """Return Canvas's gradebook import; its second row contains the maximum points."""
    head: list[Field] = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *worth]
    possible: list[Field] = ["    Points Possible", "", "", "", "", *worth.values()]
    return [head, possible, *([whole(p), "", p.lms_user_id or "", p.id, "", *f] for p, f in rows)]


def moodle(rows: list[Row], worth: dict[str, float]) -> list[list[Field]]:
    """Return Moodle's grade import; map `username` to the user and each column to its grade item."""
    none = NOTHING["moodle"]
    marks = ([p.id, p.email, *(none if x is None else x for x in final)] for p, final in rows)
    return [["username", "email", *worth], *marks]


def blackboard(rows: list[Row], worth: dict[str, float]) -> list[list[Field]]:
    """Return Blackboard's upload, which identifies people by Username; columns without a number are new."""
    head = [
        "Last Name",
        "First Name",
        "Username",
        *(f"{n} [Total Pts: {w:g} Score]" for n, w in worth.items()),
    ]
    return [head, *([p.last_name, p.first_name, p.id, *final] for p, final in rows)]


def filled(
    rows: list[Row],
    worth: dict[str, float],
    form: str,
    like: Table,
    people: dict[str, Member] | None = None,
) -> tuple[list[list[Field]], list[str]]:
    """Return (the platform's own table with these points, [warnings]); other columns stay. Only people in
    both have a row: Canvas clears grades for empty fields, and Moodle rejects files with unknown names."""
    fresh = [f"{n} [Total Pts: {w:g} Score]" if form == "blackboard" else n for n, w in worth.items()]
    at = {name: like.column(name) for name in worth}
    heads = [
        new if (i := at[name]) is None else like.header[i] for name, new in zip(worth, fresh, strict=True)
    ]
    warnings = [
        f"{name}: no column has this name or only its number; {NEW_COLUMN[form]}"
        for name, i in at.items()
        if i is None
    ]
    table: list[list[Field]] = [[*(like.header[i] for i in like.identity), *heads]]
    if form == "canvas":
        first = ["    Points Possible", *[""] * (len(like.identity) - 1)]
        table.append([*first, *worth.values()])
    here = {person.id: final for person, final in rows}
    for entry in like.people:
        if (user := user_of(entry, people)) not in here:
            warnings.append(f"{user}: not in the gradebook, so left out")
            continue
        none = NOTHING.get(form)
        marks = [none if x is None else x for x in here.pop(user)]
        table.append([*(entry.fields[i] for i in like.identity), *marks])
    warnings += [f"{name}: not in the platform's export, so left out" for name in sorted(here)]
    return table, warnings


def whole(person: Student) -> str:
    """Return "last name, first name", or the login if no name is known."""
    return ", ".join(filter(None, [person.last_name, person.first_name])) or person.id


FORMAT = {"plain": plain, "canvas": canvas, "moodle": moodle, "blackboard": blackboard}
