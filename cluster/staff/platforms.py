"""Moodle, Canvas, Blackboard: what differs between them, and their exported tables, for rosters and scores.

Headings of Moodle in German, French, Spanish, Italian, Portuguese and Dutch are read as the English ones.

Moodle      First name, Last name, Username or Email address       participants, or its grade export
            Identifier, Full name, Username or Email address       an assignment's grading worksheet
Canvas      Student, ID, SIS User ID, SIS Login ID, Section        gradebook export; `Title (123)`
Blackboard  Last Name, First Name, Username, Student ID            grade download; `Title [Total Pts: …] |123`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from . import spreadsheet
from .course import CourseError

# columns that name the user; the first existing one counts
LOGINS = ("username", "sis login id", "email address")
LAST = ("last name", "lastname", "surname")
FIRST = ("first name", "firstname")
FULL = ("full name", "student")  # columns that contain the first and the last name
# other identifiers of people on a platform
OTHERS = ("id", "identifier", "id number", "sis user id", "student id", "section")
TITLE = re.compile(r"(?P<title>.*?)\s*(?:\[Total Pts:[^\]]*\]\s*\|\s*\d+|\(\d+\))\s*")
PARTS = ("section", "groups")  # columns that name a person's part of the class
NAMED = (*LOGINS, *LAST, *FIRST, *FULL, *OTHERS, *PARTS)
# Moodle's headings: its language packs (de, fr, es, it, pt, nl), and what earlier ones or forks had
TRANSLATED = {
    "username": "anmeldename, benutzername, nom d'utilisateur, nombre de usuario, nome de utilizador,"
    " nome de usuário, gebruikersnaam",
    "first name": "vorname, prénom, nombre, nome, voornaam",
    "last name": "nachname, nom de famille, nom, apellido(s), apellidos, cognome, apelido, sobrenome,"
    " achternaam",
    "full name": "vollständiger name, nom complet, nombre completo, nome completo, volledige naam",
    "email address": "e-mail-adresse, adresse de courriel, dirección de correo, indirizzo email, e-mail,"
    " email, e-mailadres",
    "id number": "id-nummer, numéro d'identification, número de id, codice identificativo,"
    " número de identificação (id), nummer (id)",
    "identifier": "identifiant, identificador, identificativo, identificatie",
    "groups": "gruppen, groupes, grupos, gruppi, groepen",
}
ENGLISH = {word.strip(): english for english, words in TRANSLATED.items() for word in words.split(",")}


@dataclass(frozen=True)
class Platform:
    """What a platform names people by, and the table of points that it imports.

    columns: {heading: fact about the student}, see `export.facts`. points: the heading of an assignment's
    points. no_points: its mark for no grade. new_column: what it does with an unknown heading.
    """

    called: str
    number: str = ""  # the column of its exports with the number that it writes into names of files
    number_of: str = "login"
    exports: str = "table"  # what such an export is called
    columns: dict[str, str] = field(default_factory=dict)
    points: str = "{name}"
    no_points: str | None = None
    new_column: str = ""


PLATFORMS = {
    "plain": Platform(
        "CSV",
        columns={"student": "user", "last name": "last", "first name": "first", "email": "email"},
        points="{name} (of {most:g})",
    ),
    "moodle": Platform(
        "Moodle",
        number="identifier",
        number_of="participant",
        exports="grading worksheet of this assignment",
        columns={"username": "user", "email": "email"},
        no_points="-",  # it would store an empty field
        new_column="in Moodle, map it to a new grade item",
    ),
    "canvas": Platform(
        "Canvas",
        number="id",
        number_of="ID",
        exports="gradebook",
        columns={
            "Student": "whole",
            "ID": "",
            "SIS User ID": "number",
            "SIS Login ID": "user",
            "Section": "",
        },
        new_column="Canvas creates a new assignment for it",
    ),
    "blackboard": Platform(
        "Blackboard",
        exports="grade download",
        columns={"Last Name": "last", "First Name": "first", "Username": "user"},
        points="{name} [Total Pts: {most:g} Score]",
        new_column="Blackboard creates a text column worth 0 points for it",
    ),
    "logins": Platform("folders or zip files named by the login"),
}


@dataclass(frozen=True)
class Entry:
    """A row: the user's name in the course and on the platform, first and last name, the original fields.

    id: the number in the names of files. In Canvas it is the person's ID, in Moodle of the person's
    participation in one assignment.
    """

    user: str
    login: str
    names: tuple[str, str]
    fields: tuple[str, ...]
    line: int
    id: str = ""
    section: str = ""


@dataclass(frozen=True)
class Table:
    """An export: its first row, the columns that identify people, the rows of people, and the platform if its
    columns are typical."""

    header: tuple[str, ...]
    identity: tuple[int, ...]
    people: tuple[Entry, ...]
    platform: str

    def column(self, assignment: str) -> int | None:
        """Return an assignment's column: the one with its name, or the only one beginning with its number."""
        titles = {i: title(name) for i, name in enumerate(self.header) if i not in self.identity}
        whole = [i for i, name in titles.items() if name == assignment]
        number = [i for i, name in titles.items() if re.match(rf"{assignment[:2]}(?!\d)", name)]
        column_index = whole or number
        return column_index[0] if len(column_index) == 1 else None


def title(column: str) -> str:
    """Return the title of a column of scores, without the platform's ID."""
    return match["title"] if (match := TITLE.fullmatch(column)) else column.strip()


def read(path: Path, columns: Mapping[str, str] | None = None) -> Table:
    """Return a file's table, as `table` does. Raises CourseError or OSError."""
    return table(spreadsheet.decoded(path.read_bytes(), str(path)), str(path), columns)


def table(text: str, where: str, columns: Mapping[str, str] | None = None) -> Table:
    """Return the table of an export; columns: {heading of Moodle or Canvas: the export's heading for it}."""
    sheet = spreadsheet.sheet(text, where)
    header = sheet.header
    theirs_for = {theirs.casefold(): called for called, theirs in (columns or {}).items()}
    if absent := sorted(theirs_for.keys() - {name.casefold() for name in header}):
        raise CourseError(f"{where} has no column {absent[0]!r}. Columns: {', '.join(header)}")
    called = [theirs_for.get(name.casefold()) or english(name) for name in header]
    spreadsheet.refuse_twice([name for name in called if name in NAMED], where)
    at = {name: i for i, name in reversed(list(enumerate(called)))}
    login, last, first_name, full = (
        next((at[name] for name in names if name in at), None) for names in (LOGINS, LAST, FIRST, FULL)
    )
    if full is None and last is None:  # Moodle in Italian calls both "Nome"
        full = first_name
    if login is None or (full is None and None in (last, first_name)):
        raise CourseError(
            f"{where} is not a Moodle, Canvas or Blackboard export. Columns: {', '.join(header) or 'none'};"
            " needed are Username, SIS Login ID or Email address, and First name with Last name, Full name or"
            " Student. If yours are called otherwise: --columns 'Username=YOURS,Full name=YOURS'"
        )
    named = [full, last, first_name, login, *(at.get(name) for name in (*LOGINS, *OTHERS))]
    identity = tuple(sorted({i for i in named if i is not None}))
    canvas, moodle = ({"student", "sis login id"} & at.keys(), {"identifier", "email address"} & at.keys())
    platform = "canvas" if canvas else "moodle" if moodle else ""
    if header[:3] == ("Last Name", "First Name", "Username"):
        platform = "blackboard"
    number = at.get(PLATFORMS[platform].number) if platform else None
    people = []
    for line, row in sheet.rows:
        if last is not None and first_name is not None:
            last_name, given = row[last], row[first_name]
        elif "student" in at:
            last_name, _, given = (part.strip() for part in row[at["student"]].partition(","))
        else:  # Moodle writes the last name last
            given, _, last_name = row[full or 0].rpartition(" ")
        of_canvas = last_name == "Points Possible" or (last_name, given) == ("Student", "Test")
        if row[login] and not of_canvas:
            own = "" if number is None else re.sub("^[^0-9]+", "", row[number])
            part = next((row[at[name]] for name in PARTS if name in at), "")
            people.append(Entry(user(row[login]), row[login], (given, last_name), row, line, own, part))
    return Table(header, identity, tuple(people), platform)


def english(heading: str) -> str:
    """Return a heading in lower case, and in English if Moodle writes it in one of six other languages."""
    name = heading.strip().casefold().replace("\u2019", "'")
    return ENGLISH.get(name, name)


def user(login: str, prefix: str = "") -> str:
    """Return the user's name in the course: the login in lower case, without the @ and domain of an e-mail
    address. prefix: inserted before a name that begins with a digit."""
    name = login.strip().lower().partition("@")[0]
    return prefix + name if name[:1].isdigit() else name


def is_encrypted(url: str) -> bool:
    """Return whether connections to this URL are private: https, or this machine itself."""
    parts = urlsplit(url)
    here = parts.hostname in ("127.0.0.1", "localhost")
    return parts.scheme == "https" or (parts.scheme == "http" and here)
