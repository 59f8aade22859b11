"""Tables that a spreadsheet opens, with no text of a student's taken for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable


def text(rows: Iterable[Iterable[object]]) -> str:
    """CSV that a spreadsheet opens without taking a student's text for a formula."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    for row in rows:
        writer.writerow([f"'{x}" if isinstance(x, str) and x[:1] in "=+-@\t" and x else x for x in row])
    return made.getvalue()
