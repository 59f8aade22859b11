"""Tables of spreadsheets: read however they were saved, written without a student's text as a formula."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .course import CourseError

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
SEPARATORS = ",;\t"
LONGEST = 10_000  # characters in a field; a quote without its partner reads the rest of a file as one field

FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"  # first characters of a formula; East Asian keyboards have wide ones
HARMLESS = ("-",)  # Moodle's mark for no grade


@dataclass(frozen=True)
class Sheet:
    """A table: its headings, and (line number in the file, as many fields as headings) of each row."""

    header: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]


def decoded(raw: bytes, where: str) -> str:
    """Return a file's text: UTF-16 with a byte order mark, UTF-8, or Windows-1252, as Excel writes them."""
    for encoding in ["utf-16"] if raw.startswith(UTF_16) else ["utf-8-sig", "cp1252"]:
        try:
            if "\0" not in (text := raw.decode(encoding)):
                return text
        except UnicodeDecodeError:
            continue
    raise CourseError(f"{where} is not text in UTF-8, UTF-16 or Windows-1252; save it as CSV (UTF-8)")


def sheet(text: str, where: str) -> Sheet:
    """Return the table in a text separated by commas, semicolons or tabs. Raises CourseError.

    Excel's line `sep=;`, empty rows, and empty columns on the right are left out. A row without its last
    fields is filled up, as spreadsheets leave them out.
    """
    lines = text.removeprefix("\ufeff")
    skipped = 0
    if named := re.match(r"\"?sep=(.)\"?[,;\t]*\r?\n", lines, re.IGNORECASE):
        lines, skipped = lines[named.end() :], 1
    first = lines.lstrip("\r\n").partition("\n")[0]
    separator = named[1] if named else max(SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=separator)
    rows = []
    try:
        for row in reader:
            rows.append((reader.line_num + skipped, [field.strip() for field in row]))
            if len(longest := max(row, key=len, default="")) > LONGEST:
                raise csv.Error(f"a field of {len(longest)} characters")
    except csv.Error as error:
        line = reader.line_num + skipped
        raise CourseError(f"{where}, up to line {line}: {error}; is a quote missing?") from None
    filled = [(line, row) for line, row in rows if any(row)]
    header = filled[0][1] if filled else []
    while header and not header[-1]:
        header.pop()
    faults = []
    for line, row in filled[1:]:
        if any(row[len(header) :]):
            faults.append(f"line {line} has {len(row)} fields, but there are {len(header)} headings")
        row[:] = [*row, *[""] * len(header)][: len(header)]
    if faults:
        raise CourseError(f"{where}: {'; '.join(faults)} (a comma in a name needs quotes)")
    return Sheet(tuple(header), tuple((line, tuple(row)) for line, row in filled[1:]))


def refuse_twice(names: Iterable[str], where: str) -> None:
    """Raise CourseError if two columns have the same heading, apart from empty ones."""
    for name, count in Counter(map(str.casefold, filter(None, names))).items():
        if count > 1:
            raise CourseError(f"{where}: the heading {name!r} occurs twice; remove or rename one column")


def text(rows: Iterable[Iterable[object]], quote_all: bool = False) -> str:
    """Return CSV that a spreadsheet opens without interpreting a student's text as a formula."""
    buffer = io.StringIO()
    writer = csv.writer(
        buffer, lineterminator="\n", quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    )
    for row in rows:
        writer.writerow([f"'{x}" if isinstance(x, str) and is_formula(x) else x for x in row])
    return buffer.getvalue()


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet might execute a text, also without its leading invisible characters."""
    seen = "".join(char for char in text if char.isprintable()).lstrip()
    return text[:1] in ("\t", "\r", "\n") or (seen[:1] in FORMULA and seen != "" and text not in HARMLESS)
