"""Final points as a table for a learning management system."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ..platforms import PLATFORMS
from ..spreadsheet import is_formula, text
from ..submissions.roster_file import user_of

if TYPE_CHECKING:
    from nbgrader.api import Gradebook, Student

    from ..platforms import Table
    from ..submissions.roster_file import Member

    Row = tuple[Student, list[float | None]]  # a student, and the points of each assignment

POSSIBLE = "    Points Possible"  # the first field of Canvas's second row, which contains the maximum points
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
    platform, at = PLATFORMS[form], {name: like.column(name) if like else None for name in worth}
    fresh = {name: platform.points.format(name=name, most=most) for name, most in worth.items()}
    here = {person.id: final for person, final in rows}
    if like:
        identity = [like.header[i] for i in like.identity]
        heads = [fresh[name] if i is None else like.header[i] for name, i in at.items()]
        warnings += [
            f"{name}: no column has this name or only its number; {platform.new_column}"
            for name, i in at.items()
            if i is None
        ]
        users, more = in_both(like, people, here)
    else:
        identity, heads = [*platform.columns], [*fresh.values()]
        users = {one.id: [facts(one)[fact] for fact in platform.columns.values()] for one, _ in rows}
        more = [
            f"{user!a}: this would be a formula in a spreadsheet, so it is written as '{user}, which is"
            " unknown to the platform; enter their points by hand"
            for user in here
            if form != "plain" and is_formula(user)
        ]
    table: list[list[object]] = [[*identity, *heads]]
    if form == "canvas":
        table.append([POSSIBLE, *[""] * (len(identity) - 1), *worth.values()])
    for user, about in users.items():
        table.append([*about, *(platform.no_points if x is None else x for x in here[user])])
    return text(table, quote_all=form == "blackboard"), warnings + more


def in_both(
    like: Table, people: dict[str, Member] | None, here: Collection[str]
) -> tuple[dict[str, list[str | None]], list[str]]:
    """Return ({user: what the platform's export says about the user}, [warnings]) for the users in both.

    The others have no row: Canvas clears grades for empty fields, and Moodle rejects files with unknown
    names.
    """
    users: dict[str, list[str | None]] = {}
    warnings = []
    for entry in like.people:
        user = user_of(entry, people)
        if user in here and user not in users:
            users[user] = [entry.fields[i] for i in like.identity]
        else:
            warnings.append(f"{user}: not in the gradebook, so left out")
    left = [user for user in here if user not in users]
    return users, warnings + [f"{user}: not in the platform's export, so left out" for user in left]


def facts(person: Student) -> dict[str, str | None]:
    """Return the facts about a student that a table of points can contain, by the names in PLATFORMS."""
    whole = ", ".join(filter(None, [person.last_name, person.first_name])) or person.id
    known = {"user": person.id, "last": person.last_name, "first": person.first_name, "whole": whole}
    return known | {"email": person.email, "number": person.lms_user_id or "", "": ""}


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
