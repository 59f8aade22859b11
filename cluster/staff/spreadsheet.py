"""Tables for spreadsheets that never interpret a student's text as a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"  # first characters of a formula; East Asian keyboards have wide ones
HARMLESS = ("-",)  # Moodle's mark for no grade


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
