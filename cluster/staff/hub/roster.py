"""The roster of participants: a CSV file that an instructor edits in a spreadsheet."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .. import platforms, spreadsheet
from ..course import CourseError
from .hub_settings import HubError

COLUMNS = ("name", "user", "role", "extension", "platform", "section")
ROLES = ("student", "grader", "instructor")
# as accepted by the single-host Slurm, which rejects a leading digit
USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
USERS = (
    "a lower-case letter (a to z) or '_', then also digits, '-' and '.', at most 32 characters in all."
    " Logins that begin with a digit: user_prefix in the hub's settings, or `hub roster --prefix s`."
)
# Unicode's embeddings and overrides of text direction
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
EXAMPLE = """\
name,user,role,extension
Ada Example,ada,student,
Ben Example,ben,student,2
Ines Example,ines,instructor,
"""


@dataclass(frozen=True)
class Person:
    """One line: the full name, the Unix user, the role, and the additional days for each assignment.

    platform: the login of this person on a learning management system, for LTI; empty if it is the same as
    the user. section: the part of the class that a student belongs to, or that a grader grades first.
    line: the line number in the file, for messages.
    """

    name: str
    user: str
    role: str
    extension: int = 0
    platform: str = ""
    section: str = ""
    line: int = field(default=0, compare=False)

    @property
    def names(self) -> tuple[str, str]:
        """First name and last name, as in nbgrader."""
        first, _, last = self.name.rpartition(" ")
        return first, last

    @property
    def called(self) -> str:
        """This person's login on a learning management system, in lower case."""
        return (self.platform or self.user).casefold()


Rule = Callable[[str], str]  # what is wrong with a user's name on this machine; "" if nothing is


def read_people(path: Path, rule: Rule = lambda user: "") -> list[Person]:
    """Return the people in a roster file. Raises HubError, which quotes each invalid line."""
    try:
        return people_in(spreadsheet.decoded(path.read_bytes(), str(path)), str(path), rule)
    except FileNotFoundError:
        raise HubError(f"{path} does not exist. A roster looks like this:\n{EXAMPLE}") from None
    except (OSError, CourseError) as e:
        raise HubError(str(e)) from None


def people_in(text: str, where: str = "the roster", rule: Rule = lambda user: "") -> list[Person]:
    """Return the people in a roster, separated by commas, semicolons or tabs."""
    try:
        sheet = spreadsheet.sheet(text, where)
        spreadsheet.refuse_twice(sheet.header, where)
    except CourseError as error:
        raise HubError(str(error)) from None
    header = [name.lower() for name in sheet.header]
    if absent := [c for c in COLUMNS[:3] if c not in header]:
        if {"role", "user"}.isdisjoint(header) and is_an_export(text):
            raise HubError(
                f"{where} is an export of Moodle, Canvas or Blackboard, which names no instructor. Make a"
                f" roster from it: python -m cluster.staff.hub roster {where} --to people.csv"
            )
        raise HubError(
            f"{where}: the first line lacks {', '.join(absent)}. A roster looks like this:\n{EXAMPLE}"
        )
    if odd := [h for h in header if h not in COLUMNS]:
        raise HubError(
            f"{where}: unknown column {', '.join(map(repr, odd))}; the columns are {', '.join(COLUMNS)}."
        )
    return _people(((line, dict(zip(header, row, strict=True))) for line, row in sheet.rows), where, rule)


def refuse(where: str, faults: list[tuple[int, str, str]]) -> None:
    """Raise HubError with all (line, content, rule), if any; each rule is named once."""
    reported, lines = set(), []
    for line, value, rule in sorted(faults, key=lambda fault: fault[0]):
        lines.append(f"line {line}: {value}" + (f": {rule}" if rule and rule not in reported else ""))
        reported.add(rule)
    if len(lines) == 1:
        raise HubError(f"{where}, {lines[0]}")
    if lines:
        raise HubError("\n  ".join([f"{where} cannot be used as it is:", *lines]))


def is_an_export(text: str) -> bool:
    """Return whether this table was exported by a learning management system."""
    try:
        return bool(platforms.table(text, "").people)
    except CourseError:
        return False


def of_platform(
    path: Path, prefix: str = "", columns: Mapping[str, str] | None = None, rule: Rule = lambda user: ""
) -> str:
    """Convert an export of Moodle, Canvas or Blackboard to a roster in CSV, with all people as students.

    The column platform contains each login that is not a valid user name: numbers, which get the prefix,
    names with capitals, and e-mail addresses. Addresses that differ only after the @ become users in full.
    columns: {heading of Moodle or Canvas: the export's heading for it}.
    """
    try:
        table = platforms.read(path, columns)
    except (CourseError, OSError) as error:
        raise HubError(str(error)) from None
    users = [platforms.user(entry.login, prefix) for entry in table.people]
    several = {user for user, count in Counter(users).items() if count > 1}
    users = [
        re.sub("[^a-z0-9_.-]", ".", entry.login.lower()) if user in several and "@" in entry.login else user
        for user, entry in zip(users, table.people, strict=True)
    ]
    rows = [
        [" ".join(filter(None, e.names)), user, "student", "", "" if e.login == user else e.login, e.section]
        for user, e in zip(users, table.people, strict=True)
    ]
    lines = [e.line for e in table.people]
    _people(
        ((line, dict(zip(COLUMNS, row, strict=True))) for line, row in zip(lines, rows, strict=True)),
        str(path),
        rule,
    )
    return spreadsheet.text([COLUMNS, *rows])


def _people(rows: Iterable[tuple[int, dict[str, str]]], where: str, rule: Rule) -> list[Person]:
    """Return the people for (line, {column: text}). Raises HubError, which names all invalid fields."""
    people: dict[str, Person] = {}
    called: dict[str, str] = {}
    faults = []
    for line, value in rows:
        wrong = list(_faults(value))
        if not wrong and (why := rule(value["user"])):
            wrong = [(f"user = {value['user']!r}", why)]
        faults += [(line, *fault) for fault in wrong]
        if value["user"] in people:
            faults.append((line, f"the user {value['user']!r} is listed twice.", ""))
        if wrong or value["user"] in people:
            continue
        days, platform = int(value.get("extension") or 0), value.get("platform", "")
        role, section = value["role"].lower(), value.get("section", "")
        person = Person(value["name"], value["user"], role, days, platform, section, line)
        people[person.user] = person
        if (other := called.setdefault(person.called, person.user)) != person.user:
            reason = f"the platform calls both {other} and {person.user} {person.called!r}"
            faults.append((line, reason, "give each a different name in the column platform."))
    refuse(where, faults)
    return list(people.values())


def _odd(c: str) -> bool:
    """Return whether a name must not have `c`: a Unix or HTML special, a control or direction character."""
    return c in ":<>" or unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") or c in TURNING


def _faults(value: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (content, rule) for each invalid field."""
    if not USER.fullmatch(value["user"]):
        yield f"user = {value['user']!r}", USERS
    if not value["name"]:
        yield "name = ''", "a name is required."
    if odd := sorted(set(filter(_odd, value["name"]))):
        these = ", ".join(map(ascii, odd))
        yield f"name = {value['name']!a}", f"{these} cannot be in a name."
    if value["role"].lower() not in ROLES:
        yield f"role = {value['role']!r}", f"must be one of {', '.join(ROLES)}."
    days = value.get("extension") or "0"
    if not days.isdecimal() or int(days) > 366:
        yield f"extension = {days!r}", "must be the additional days for each assignment, from 0 to 366."
    platform = value.get("platform", "")
    if len(platform) > 254 or not platform.isprintable():
        yield f"platform = {platform!a}", "must be an e-mail address or a user name on the platform."
    section = value.get("section", "")
    if len(section) > 40 or not section.isprintable() or "|" in section:
        yield f"section = {section!a}", "must have at most 40 characters and no '|'."
