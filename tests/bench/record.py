"""The record of a benchmark: JSON with everything needed to judge and repeat it, and the table made from
it."""

from __future__ import annotations

import datetime
import math
import re
from pathlib import Path
from typing import Any

from cluster.jobs.run import provenance
from cluster.system import files

from .measure import Found

HERE = Path(__file__).parent


def record_path(part: str) -> Path:
    """Return the path of a part's record."""
    return HERE / "results" / f"{part}.json"


def record_section(part: str, section: str, found: Found, command: str, versions: dict[str, str]) -> None:
    """Write a section into the record of its part and into the table; the other sections are kept."""
    entry = {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": provenance.machine(),
        "versions": provenance.versions() | versions,
        "aims": [{"aim": text, "holds": bool(holds)} for text, holds in found.aims],
        "remarks": found.remarks,
        "rows": [row.summary() for row in found.rows],
    }
    path = record_path(part)
    path.parent.mkdir(exist_ok=True)
    record = (files.read_json(path) or {}) | {section: entry}
    files.write_json(path, record)
    readme = HERE / "README.md"
    files.write(readme, with_table(readme.read_text(), part, table(part, record)))


def table(part: str, record: dict[str, Any]) -> str:
    """Return the record of a part as Markdown."""
    lines = []
    for section, e in record.items():
        m, v = e["machine"], e["versions"]
        lines += [f"### {part}: {section}", ""]
        lines += ["| what | side | median | quartiles | repeats |", "|---|---|---:|---:|---:|"]
        for r in e["rows"]:
            low, high = (number(x) for x in r["quartiles"])
            spread = f"{low} … {high}" if r["n"] > 1 else ""
            lines.append(
                f"| {r['what']} | {r['side']} | {number(r['median'])} {r['unit']} | {spread} | {r['n']} |"
            )
        lines += [""] + [f"- {'Holds' if a['holds'] else '**Does not hold**'}: {a['aim']}" for a in e["aims"]]
        lines += [f"- {text}" for text in e["remarks"]]
        where = f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']:g} GiB"
        with_ = ", ".join(f"{k} {v[k]}" for k in v if k not in ("tensorflow", "keras", "numpy"))
        lines += [f"- {e['date'][:10]}, {where}; {with_}. To repeat: `{e['command']}`", ""]
    return "\n".join(lines).rstrip()


def number(x: float) -> str:
    """Format a number with three significant digits, never with an exponent.

    >>> number(0.012345), number(1234.5), number(0)
    ('0.0123', '1234', '0')
    """
    if not x:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(x))))
    return f"{x:.{digits}f}"


def with_table(text: str, part: str, table: str) -> str:
    """Return a page with a part's table between its markers, or at the end if there are no markers."""
    begin, end = f"<!-- {part}: made by python -m tests.bench {part} -->", f"<!-- end of {part} -->"
    block = f"{begin}\n{table}\n{end}"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    return pattern.sub(lambda _: block, text) if pattern.search(text) else f"{text.rstrip()}\n\n{block}\n"
