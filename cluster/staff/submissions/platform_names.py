"""Identify the student of each file in a platform's bulk download. The platform wrote the name's beginning:

    Moodle      Ada Lovelace_123456_assignsubmission_file_/…   or …_file_NAME without folders
    Canvas      lovelaceada_LATE_123_4567_NAME                 user and attachment, LATE only for late ones
    Blackboard  TITLE_ada_attempt_2026-11-01-12-30-00_NAME     and its summary TITLE_ada_attempt_….txt
    others      ada/… or ada.zip                               by the login

One platform wrote the whole archive. A student is identified by its number or login. Students choose NAME,
often also the name and sometimes the e-mail address that the platform shows. Such text only confirms a
number, and never selects a person alone, except in Moodle without a grading worksheet. A file that could
belong to two people is refused, and the message contains both.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from cluster.system.text import printable

from ..course import CourseError, SubmissionError
from ..platforms import PLATFORMS, Table
from ..work_files import LONGEST

MOODLE = re.compile(
    r"(?P<name>[^_]*)_(?P<id>[0-9]+)_assignsubmission_(?:file|onlinetext)(?:_(?P<rest>.*))?", re.DOTALL
)
CANVAS = re.compile(r"_(?=(?P<id>[1-9][0-9]*)_[0-9]+_(?P<rest>.+))", re.DOTALL)
WAYS = 10  # maximum ways to read a name of Canvas's
BLACKBOARD = re.compile(
    r"(?P<who>.+?)_attempt_(?P<when>[0-9]{4}(?:-[0-9]{2}){5})(?P<rest>_.*|\.txt)?", re.DOTALL
)
LATE = re.compile(r"_late$", re.IGNORECASE)
REMOVED = re.compile(r"[\x00-\x1f\x7f&<>\"`|':\\/]")  # characters that Moodle removes from names
FOLDER = re.compile(r"[^\s./*?[]([^/*?[]*[^\s/*?[])?")  # a name for nbgrader's folders, which it also globs
BY_LOGIN = "put the files into one folder per student, named by the login, and import a zip of these folders"


@dataclass(frozen=True)
class Reading:
    """A name, as a platform would have written it.

    id: number or login of the student. name: the text before it. prefix: the platform's identifier of the
    submission. rest: the student's own file name. order: time of the attempt, in Blackboard's names.
    """

    id: str
    name: str
    prefix: str
    rest: str
    order: str = ""
    late: bool = False


@dataclass(frozen=True)
class Person:
    """A student according to the gradebook, or to a row of the platform's table."""

    user: str
    login: str
    name: str
    id: str = ""
    line: int = field(default=0, compare=False)  # 0 in the gradebook

    def __str__(self) -> str:
        where = f"line {self.line} of the table" if self.line else "the gradebook"
        number = f", ID {self.id}" if self.id else ""
        return f"{printable(self.name, 60) or 'unnamed'} ({printable(self.login, 60)}{number}, in {where})"


class People:
    """Students by login, platform number and name; the logins are from the gradebook or an export."""

    def __init__(self, known: Iterable[tuple[str, str]], like: Table | None):
        self.platform = like.platform if like else ""
        self.users: dict[str, set[Person]] = defaultdict(set)
        self.logins: dict[str, set[Person]] = defaultdict(set)
        self.numbers: dict[str, set[Person]] = defaultdict(set)
        self.names: dict[str, set[Person]] = defaultdict(set)
        everyone = [Person(login, login, name) for login, name in known]
        spelled = {folded(one.user): one.user for one in everyone}
        for entry in like.people if like else ():
            user = spelled.get(folded(entry.user), entry.user)
            everyone.append(Person(user, entry.login, " ".join(entry.names), entry.id, entry.line))
        for one in everyone:
            self.users[folded(one.user)].add(one)
            for login in (one.user, one.login):
                self.logins[folded(login)].add(one)
            if one.id:
                self.numbers[one.id].add(one)
        for one in everyone:  # the names of the gradebook are older than those of the table
            newer = any(claim.line for claim in self.users[folded(one.user)])
            if plain(one.name) and (one.line or not newer):
                self.names[plain(one.name)].add(one)

    def knows(self, login: str) -> bool:
        return folded(login) in self.logins

    def numbered(self, platform: str) -> bool:
        """Return whether the table contains this platform's numbers."""
        return self.platform == platform and bool(self.numbers)

    def find(self, platform: str, reading: Reading) -> str:
        """Return the user that a name belongs to. Raises SubmissionError, which states what is missing."""
        if platform in ("blackboard", "logins"):
            if not self.knows(reading.id):
                hint = "give Blackboard's grade download with --like"
                if platform == "logins":
                    hint = (
                        "give a table of the class with --like, and zip the folders without one around them"
                    )
                raise SubmissionError(f"no student has the login {printable(reading.id, 60)}; {hint}")
            return self.only(self.logins[folded(reading.id)])
        if platform == "moodle" and not self.numbered(platform):
            return self.by_name(reading.name)
        found = self.numbers.get(reading.id, set()) if self.numbered(platform) else set()
        if not found:
            about = PLATFORMS[platform]
            raise SubmissionError(
                f"no student has the number {reading.id} in {about.called}; give its {about.exports} with"
                " --like, exported at the same time as the download"
            )
        user = self.only(found)
        if not any(confirms(reading, one) for one in found):
            raise SubmissionError(
                f"the number {reading.id} belongs to {listed(found)}, but the file's name says"
                f" {printable(reading.name, 60)!r}: export the table again, at the same time as the download"
            )
        return user

    def by_name(self, name: str) -> str:
        """Return the only user with a name, for Moodle without the worksheet that contains its numbers."""
        found = self.names.get(plain(name), set())
        users = {one.user for one in found}
        if len(users) > 1:
            raise SubmissionError(
                f"{len(users)} people are called {printable(name, 60)}: {listed(found)}; {remedy('moodle')}"
            )
        if not users:
            raise SubmissionError(f"no student is called {printable(name, 60)}; {remedy('moodle')}")
        return self.only(found)

    def only(self, found: Collection[Person]) -> str:
        """Return the user of these rows. Raises SubmissionError if they, or the user's rows, contradict each
        other."""
        claims = {claim for one in found for claim in self.users[folded(one.user)]}
        user = next(iter(claims)).user
        names = [one.name for one in claims if not one.line and one.name.strip()]
        rows = {(folded(one.login), one.id, plain(one.name)): one for one in claims if one.line}
        if len(rows) > 1:  # the gradebook can know which of them is the student
            right = [one for one in rows.values() if any(agree(one.name, name) for name in names)]
            if len(right) == 1 and right[0] in found and not any(one.line for one in {*found} - {*right}):
                claims = {one for one in claims if not one.line or one == right[0]}
        if len({one.user for one in claims}) > 1 or len({*rows.values()} & claims) > 1:
            raise SubmissionError(
                f"these rows contradict each other: {listed(claims)}. Correct the table, for example with a"
                f" column Username, or {BY_LOGIN}"
            )
        if not FOLDER.fullmatch(user) or not user.isprintable():
            raise SubmissionError(
                f"{listed(claims)} has the user name {user!a}, which cannot name a folder: correct the table"
            )
        addresses = [one for one in claims if one.line and "@" in one.login]
        if any(not agree(one.name, name) for one in addresses for name in names):
            raise SubmissionError(
                f"the e-mail address gives the user {user!r}, whose name differs: {listed(claims)}. Correct"
                " the table, or the name in Formgrader › Manage Students"
            )
        return user


def folded(login: str) -> str:
    """Return a login without differences of case and of composed letters."""
    return unicodedata.normalize("NFC", login).casefold()


def listed(people: Collection[Person]) -> str:
    return " and ".join(sorted(map(str, people)))


def plain(name: str) -> str:
    """Return a name as Moodle writes it into a file's name, without the order of its words."""
    text = re.sub(r"\s{2,}", " ", unicodedata.normalize("NFC", name).replace("_", " "), flags=re.ASCII)
    return " ".join(sorted(filter(None, REMOVED.sub("", text).split(" "))))


def letters(name: str) -> list[str]:
    """Return a name's letters and digits without order, case and accents.

    Two spellings of one name have the same ones. This confirms a number, and is too weak to find a person.
    """
    kept = "".join(c for c in unicodedata.normalize("NFC", name) if c.isalpha() or c.isdecimal())
    return sorted(c for c in unicodedata.normalize("NFKD", kept.casefold()) if c.isalnum())


def agree(one: str, other: str) -> bool:
    """Return whether two names can be of one person: one has all words of the other and perhaps more."""
    words = [{"".join(letters(word)) for word in name.split()} - {""} for name in (one, other)]
    fewer, more = sorted(words, key=len)
    return letters(one) == letters(other) or (len(fewer) > 1 and fewer <= more)


def moodle(word: str, below: str) -> list[Reading]:
    """Read Moodle's form. Moodle replaces _ in the names of people, so theirs ends at the first one."""
    if not (match := MOODLE.fullmatch(word)):
        return []
    prefix = word[: match.start("rest")] if match["rest"] else word
    return [Reading(match["id"], match["name"], prefix, match["rest"] or "")]


def canvas(word: str, below: str) -> list[Reading]:
    """Read Canvas's form, in all ways.

    Canvas removes _ around digits from people's names, and afterwards other characters such as hyphens. The
    name x_1-2_3-4_ thus becomes x_12_34_, and only the next numbers are from Canvas. No ID begins with 0.
    """
    result = []
    matches = list(itertools.islice(CANVAS.finditer(word), WAYS + 1))
    for match in matches if len(matches) <= WAYS else ():
        name, late = LATE.subn("", word[: match.start()])
        prefix = word[: match.start("rest") - 1]
        result.append(Reading(match["id"], name, prefix, match["rest"], late=bool(late)))
    return result


def blackboard(word: str, below: str) -> list[Reading]:
    """Read Blackboard's form, up to the title and login, which `with_login` separates."""
    if not (match := BLACKBOARD.match(word)) or not match["rest"] or match.end() < len(word):
        return []
    is_summary = match["rest"] == ".txt"
    rest = "" if is_summary else match["rest"][1:]
    if is_summary == bool(rest or below):  # a summary is a file without a further name
        return []
    return [Reading(match["who"], match["who"], word[: match.start("rest")], rest, match["when"])]


def logins(word: str, below: str) -> list[Reading]:
    """Read a folder, or a zip file, that is named by the login."""
    if below:
        return [Reading(word, word, word, "")]
    login = word.removesuffix(".zip")
    return [Reading(login, login, login, word)] if login != word else []


FORMS: dict[str, Callable[[str, str], list[Reading]]] = {
    "moodle": moodle, "canvas": canvas, "blackboard": blackboard, "logins": logins
}  # fmt: skip


def read(platform: str, parts: Sequence[str], depth: int) -> list[Reading]:
    """Return the ways to read a path in a platform's form: only the part of the path at `depth` counts."""
    if len(parts) <= depth or len(parts[depth]) > LONGEST:
        return []
    return FORMS[platform](parts[depth], "/".join(parts[depth + 1 :]))


def recognise(paths: Collection[Sequence[str]], people: People, chosen: str | None) -> tuple[str, int]:
    """Return (the platform that wrote an archive, the folders around all its files: 0 or 1). Raises
    CourseError.

    The platform wrote all names, so its form matches most of them. A folder around all files could be the
    folder of an unknown login, unless the platform is known from the table or `chosen`.
    """
    candidates = [chosen] if chosen else list(FORMS)
    tops = {top for parts in paths for top in parts[:1]}
    wrapped = len(tops) == 1 and len(min(tops)) <= LONGEST and all(len(parts) > 1 for parts in paths)
    for depth in range(1 + wrapped):
        counts = {name: sum(fits(name, parts, depth, people) for parts in paths) for name in candidates}
        most = max(counts.values())
        best = [name for name in candidates if counts[name] == most > 0]
        if people.platform in best:
            best = [people.platform]
        if depth and best and not {chosen, people.platform} & set(best):
            raise CourseError(
                f"all files are in the folder {printable(min(tops), 60)}, either of an unknown login or"
                f" around a download of {names(best)}: add --platform logins or --platform {best[0]}"
            )
        if len(best) > 1:
            raise CourseError(
                f"the names of all {most} files are in the form of {names(best)}: add --platform and the one"
                f" that wrote this archive ({', '.join(best)})"
            )
        if best:
            return best[0], depth
    return chosen or "logins", 0


def fits(platform: str, parts: Sequence[str], depth: int, people: People) -> bool:
    readings = read(platform, parts, depth)
    if platform == "logins":
        return depth == 0 and any(people.knows(one.id) for one in readings)
    return bool(readings)


def names(platforms: Iterable[str]) -> str:
    return " and ".join(PLATFORMS[name].called for name in platforms)


def identify(
    platform: str, found: list[list[Reading]], summaries: dict[str, set[str]], people: People
) -> list[tuple[Reading, str, str]]:
    """Return (reading, user, "") or (reading, "", why it is refused) for each name and its possible readings.

    Two numbers or logins that lead to one user are refused, and so is one that leads to two users. summaries:
    {TITLE_login: logins according to Blackboard's own summaries}, with "" for one that cannot be read.
    """
    if platform == "canvas":
        read = settle(found, people)
    elif platform == "blackboard":
        read = [with_login(one, summaries.get(one.name, set())) for [one] in found]
    else:
        read = [(one, "") for [one] in found]
    users: dict[tuple[str, str], str] = {}
    reasons: dict[tuple[str, str], str] = {}
    same: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for key, one in {(one.id, one.name): one for one, why in read if not why}.items():
        try:
            users[key] = people.find(platform, one)
        except SubmissionError as why:
            reasons[key] = str(why)
        else:
            same[f"id {one.id}"].add(key)
            same[f"user {users[key]}"].add(key)
    for keys in same.values():
        if len(keys) > 1:
            files = " and ".join(shown(platform, *key) for key in sorted(keys))
            owners = " and ".join(sorted({users[key] for key in keys}))
            reasons |= dict.fromkeys(
                keys, f"{files} lead to {owners}, which is ambiguous: {remedy(platform)}"
            )
    result = []
    for one, unclear in read:
        reason = unclear or reasons.get((one.id, one.name), "")
        result.append((one, "" if reason else users[one.id, one.name], reason))
    return result


def settle(found: list[list[Reading]], people: People) -> list[tuple[Reading, str]]:
    """Return (reading, "") or (a reading, why none is certain) for each name in Canvas's form.

    Only IDs of the table count, if there are any. Canvas writes one name per person, so a name that has a
    single reading, and agrees with the table, excludes other names of the same ID.
    """
    possible = [[one for one in ways if one.id in people.numbers] or ways[:1] for ways in found]
    called: dict[str, set[str]] = defaultdict(set)
    for ways in possible:
        owners = people.numbers.get(ways[0].id, ())
        if len({one.id for one in ways}) == 1 and any(confirms(ways[0], one) for one in owners):
            called[ways[0].id].add(ways[0].name)
    result = []
    for ways in possible:
        left = [one for one in ways if one.name in called.get(one.id, {one.name})]
        if len({one.id for one in left}) == 1:
            result.append((left[0], ""))
        else:
            owners = {person for one in ways for person in people.numbers.get(one.id, ())}
            why = f"Canvas could have given this name to a file of {listed(owners)}: {remedy('canvas')}"
            result.append((ways[0], why))
    return result


def confirms(reading: Reading, person: Person) -> bool:
    """Return whether the name in a file's name is a person's."""
    names = [reading.name, f"{reading.name} late" if reading.late else reading.name]
    # older versions of Moodle write the name of the group before it: Group A-Ada Lovelace
    names += [reading.name[match.end() :] for match in re.finditer("-", reading.name)]
    return any(letters(name) == letters(person.name) for name in names)


def with_login(one: Reading, logins: set[str]) -> tuple[Reading, str]:
    """Return (reading with the login as its ID, "") or (reading, why not) for a name in Blackboard's form.

    Only Blackboard's own summary of the attempt shows where the title ends and the login begins.
    """
    if not logins:
        why = "Blackboard's own summary (.txt) of this attempt is missing: import the download as it is"
        return one, f"{why}, or {BY_LOGIN}"
    login = min(logins)
    match = re.fullmatch(f".+_({re.escape(login)})", one.name, re.IGNORECASE | re.DOTALL)
    if login and match and len({each.casefold() for each in logins}) == 1:
        return replace(one, id=match[1]), ""
    said = " or ".join(printable(each, 60) or "an unreadable login" for each in sorted(logins))
    why = f"Blackboard's own summary says {said}, but the name says {printable(one.name, 80)}"
    return one, f"{why}: import the download as it is"


def shown(platform: str, number: str, name: str) -> str:
    return f"{printable(name, 60)} ({PLATFORMS[platform].number_of} {printable(number, 60)})"


def remedy(platform: str) -> str:
    if platform == "moodle":
        return f"give Moodle's grading worksheet of this assignment with --like, or {BY_LOGIN}"
    return BY_LOGIN
