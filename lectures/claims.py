"""The claims table: `make claims` prints lectures/claims.toml as a table and writes it to CLAIMS.md.

python lectures/claims.py            print what became of each figure, write CLAIMS.md
python lectures/claims.py --check    write nothing; fail if a row refers to nothing or CLAIMS.md is old
"""

import argparse
import collections
import os
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).parents[1]
DATA, TABLE = ROOT / "lectures" / "claims.toml", ROOT / "lectures" / "CLAIMS.md"
STATUSES = (
    "reproduced",
    "reproduced at small scale",
    "arithmetic only",
    "not seen at small scale",
    "contradicted",
    "out of reach",
    "not yet",
)
UNSHOWN = ("out of reach", "not yet")
FIELDS = {"source", "says", "lecture", "status", "shown", "note"}


def faults(data, root=ROOT):
    """List the faults of the claims table, one line each; [] if every row is complete and refers to something
    that exists."""
    found = []
    for claim in data["claim"]:
        row = f"{claim.get('source')}: {claim.get('says', '')[:50]}…"
        if odd := sorted(claim.keys() - FIELDS):
            found.append(f"{row} has no field {', '.join(odd)}; there are {', '.join(sorted(FIELDS))}")
        if missing := sorted({"source", "says", "lecture", "status"} - claim.keys()):
            found.append(f"{row} lacks {', '.join(missing)}")
            continue
        if claim["source"] not in data["sources"]:
            found.append(f"{row}: source {claim['source']!r} is not listed in [sources]")
        if not re.fullmatch(r"0[1-9]|1[01]", claim["lecture"]):
            found.append(f"{row}: lecture {claim['lecture']!r} is not one of 01 to 11")
        if claim["status"] not in STATUSES:
            found.append(f"{row}: status {claim['status']!r} is not one of {', '.join(STATUSES)}")
        shown = claim.get("shown", [])
        if (claim["status"] in UNSHOWN) == bool(shown):
            found.append(f"{row} is {claim['status']!r} and is shown by {shown or 'nothing'}")
        if claim["status"] == "out of reach" and not claim.get("note"):
            found.append(f"{row} is 'out of reach' and has no note that says what it would take")
        found += [f"{row} points to {p!r}, which is not there" for p in shown if not exists(p, root)]
    seen = collections.Counter((c.get("source"), c.get("says")) for c in data["claim"])
    return found + [f"{source}: {says[:50]}… occurs {n} times" for (source, says), n in seen.items() if n > 1]


def exists(pointer, root=ROOT):
    """Return whether a test function (`path::name`), heading (`path#heading`) or file exists."""
    path, test, name = pointer.partition("::")
    path, mark, heading = path.partition("#")
    if not (root / path).is_file():
        return False
    text = (root / path).read_text()
    if test:
        return re.search(rf"^def {re.escape(name)}\(", text, re.M) is not None
    return not mark or re.search(rf"^# #+ {re.escape(heading)}$", text, re.M) is not None


def table(data):
    """Return the claims table as Markdown, by lecture."""
    claims = sorted(data["claim"], key=lambda c: c["lecture"])
    counts = collections.Counter(c["status"] for c in claims)
    lines = [
        "# The claims table",
        "",
        "Every figure of the five slide decks that the course was created from, and of the papers behind",
        "them, with its status here. Generated from [claims.toml](claims.toml) by `make claims`.",
        "",
        " · ".join(f"{counts[status]} {status}" for status in STATUSES) + f" · {len(claims)} in all",
        "",
        "| lecture | source | claim | status | shown by | note |",
        "|---|---|---|---|---|---|",
    ]
    for c in claims:
        shown = ", ".join(link(p) for p in c.get("shown", []))
        cells = [c["lecture"], c["source"], c["says"], f"**{c['status']}**", shown, c.get("note", "")]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    sources = [f"- {name}: {title}" for name, title in data["sources"].items()]
    return "\n".join([*lines, "", "## Sources", "", *sources]) + "\n"


def link(pointer):
    """Return a reference as a link from lectures/; a lecture's text is represented by its notebook."""
    path, _, name = pointer.partition("::")
    path, _, heading = path.partition("#")
    notebook = re.sub(r"lectures/text/(.*)\.py", r"lectures/\1.ipynb", path)
    target = os.path.relpath(notebook, "lectures")
    return f"[{name or heading or pathlib.Path(path).stem}]({target})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the table is out of date"
    )
    check = parser.parse_args().check
    data = tomllib.loads(DATA.read_text())
    wrong = faults(data)
    text = "" if wrong else table(data)
    if check and not wrong and (not TABLE.exists() or TABLE.read_text() != text):
        wrong = [f"{TABLE.relative_to(ROOT)} is not the table of claims.toml: run `make claims`"]
    if wrong:
        sys.exit("\n".join(wrong))
    if not check:
        TABLE.write_text(text)
    width = max(map(len, STATUSES))
    for c in sorted(data["claim"], key=lambda c: (c["lecture"], STATUSES.index(c["status"]))):
        print(f"{c['lecture']}  {c['status']:{width}}  {c['source']:10}  {c['says'][:90]}")


if __name__ == "__main__":
    main()
