"""The roster: who takes part, as a CSV file that an instructor keeps in a spreadsheet."""

from __future__ import annotations

import csv
import io
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from .. import platforms, spreadsheet
from .settings import NAME, Trouble

COLUMNS = ("name", "user", "role", "extension", "platform")
ROLES = ("student", "instructor")
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # Unicode's embeddings and overrides
EXAMPLE = """\
name,user,role,extension
Ada Example,ada,student,
Ben Example,ben,student,2
Ines Example,ines,instructor,
"""


@dataclass(frozen=True)
class Person:
    """One line: the name as people write it, the Unix user, the role, days more for each assignment.

    platform: what a learning management system calls this person, by LTI; empty: as the user.
    """

    name: str
    user: str
    role: str
    extension: int = 0
    platform: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """First name and last name, as nbgrader keeps them."""
        first, _, last = self.name.rpartition(" ")
        return first, last

    @property
    def called(self) -> str:
        """What a learning management system calls this person, in small letters."""
        return (self.platform or self.user).casefold()


def read_people(path: Path) -> list[Person]:
    """The people of a roster file. Raises Trouble that names the line and what is wrong with it."""
    try:
        return people_in(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError:
        raise Trouble(f"{path} is not there. A roster looks like this:\n{EXAMPLE}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise Trouble(f"{path} cannot be read as UTF-8 text: {e}. Save it as CSV (UTF-8).") from None


def people_in(text: str, where: str = "the roster") -> list[Person]:
    """The people of a roster; `;` serves as the separator too, as some spreadsheets write it."""
    first = text.partition("\n")[0]
    rows = csv.DictReader(io.StringIO(text), delimiter=";" if ";" in first else ",")
    header = [h.strip().lower() for h in rows.fieldnames or []]
    if absent := [c for c in COLUMNS[:3] if c not in header]:
        if {"role", "user"}.isdisjoint(header) and is_an_export(text):
            raise Trouble(
                f"{where} is an export of Moodle, Canvas or Blackboard, which names no instructor. Make a"
                f" roster of it: python -m cluster.staff.hub roster {where} --to people.csv"
            )
        raise Trouble(
            f"{where}: the first line lacks {', '.join(absent)}. A roster looks like this:\n{EXAMPLE}"
        )
    if odd := [h for h in header if h not in COLUMNS]:
        raise Trouble(
            f"{where}: no column {', '.join(map(repr, odd))} is known; known are {', '.join(COLUMNS)}."
        )
    rows.fieldnames = header
    people: dict[str, Person] = {}
    called: dict[str, str] = {}
    for row in rows:
        if not any(row.values()):
            continue
        person = _person(row, f"{where}, line {rows.line_num}")
        if person.user in people:
            raise Trouble(f"{where}, line {rows.line_num}: the user {person.user!r} is there twice.")
        people[person.user] = person
        if (other := called.setdefault(person.called, person.user)) != person.user:
            raise Trouble(
                f"{where}, line {rows.line_num}: the platform calls both {other} and {person.user}"
                f" {person.called!r}: give each their own in the column platform."
            )
    return list(people.values())


def is_an_export(text: str) -> bool:
    """Is this a table that a learning management system wrote?"""
    try:
        return bool(platforms.table(text, "").people)
    except platforms.Unknown:
        return False


def of_platform(path: Path) -> str:
    """The roster, as CSV, of an export of Moodle, Canvas or Blackboard: everybody in it is a student."""
    try:
        table = platforms.read(path)
    except (platforms.Unknown, OSError) as error:
        raise Trouble(str(error)) from None
    rows = [
        [" ".join(filter(None, e.names)), e.user, "student", "", "" if e.login == e.user else e.login]
        for e in table.people
    ]
    people_in(as_csv(rows), "the roster made of it")  # what a roster may not hold is named now
    return spreadsheet.text([COLUMNS, *rows])


def as_csv(rows: list[list[str]]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows([COLUMNS, *rows])
    return made.getvalue()


def _odd(c: str) -> bool:
    """Whether a character is none of a name's: a mark of Unix or HTML, a control, one that turns the line."""
    return c in ":<>" or unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") or c in TURNING


def _person(row: dict, line: str) -> Person:
    if None in row or None in row.values():
        raise Trouble(
            f"{line}: it has more or fewer fields than the first line (a comma in a name needs quotes)."
        )
    value = {key: text.strip() for key, text in row.items()}
    if not NAME.fullmatch(value["user"]):
        raise Trouble(
            f"{line}: user = {value['user']!r}: lower-case letters, digits, '_' and '-', at most 32."
        )
    if not value["name"]:
        raise Trouble(f"{line}: name = '': a name is wanted.")
    if odd := sorted(set(filter(_odd, value["name"]))):
        these = ", ".join(map(ascii, odd))
        raise Trouble(f"{line}: name = {value['name']!a}: {these} cannot be in a name.")
    role = value["role"].lower()
    if role not in ROLES:
        raise Trouble(f"{line}: role = {value['role']!r}: one of {', '.join(ROLES)}.")
    days = value.get("extension") or "0"
    if not days.isdecimal() or int(days) > 366:
        raise Trouble(f"{line}: extension = {days!r}: days more for each assignment, 0 to 366.")
    platform = value.get("platform", "")
    if len(platform) > 254 or not platform.isprintable():
        raise Trouble(f"{line}: platform = {platform!a}: an e-mail address or a user name of the platform.")
    return Person(value["name"], value["user"], role, int(days), platform)
