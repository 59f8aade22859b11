"""The record of a benchmark: JSON with everything needed to judge and repeat it, and the table made from
it."""

from __future__ import annotations

import datetime
import math
import re
from pathlib import Path
from typing import Any

from cluster.jobs.run import provenance as runs
from cluster.system import files

from .measure import Found

HERE = Path(__file__).parent
README = HERE / "README.md"


def record_path(part: str) -> Path:
    """Return the path of a part's record."""
    return HERE / "results" / f"{part}.json"


def recorded(part: str) -> dict[str, Any]:
    """Return {section: results, time, machine, versions}, or {} if nothing is recorded."""
    return files.read_json(record_path(part)) or {}


def record_section(
    part: str, section: str, found: Found, command: str, arguments: dict[str, Any], versions: dict
) -> None:
    """Write a section into the record of its part; the other sections keep their measurements."""
    entry = {
        "command": command,
        "arguments": arguments,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": runs.machine(),
        "versions": runs.versions() | versions,
        "aims": [{"aim": text, "holds": bool(holds)} for text, holds in found.aims],
        "remarks": found.remarks,
        "rows": [row.summary() for row in found.rows],
    }
    record_path(part).parent.mkdir(exist_ok=True)
    files.write_json(record_path(part), recorded(part) | {section: entry})


def table(part: str) -> str:
    """Return the record of a part as Markdown."""
    lines = []
    for section, e in recorded(part).items():
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


def publish(part: str, readme: Path = README) -> None:
    """Write the table of a part between its markers in a README.md, or at the end if there are no markers."""
    text = readme.read_text()
    begin, end = f"<!-- {part}: made by python -m tests.bench {part} -->", f"<!-- end of {part} -->"
    block = f"{begin}\n{table(part)}\n{end}"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    new = pattern.sub(lambda _: block, text) if pattern.search(text) else f"{text.rstrip()}\n\n{block}\n"
    files.write(readme, new)
