"""Records as text, and their insertion into the source of assignment 05."""

import hashlib
import json
import re
from pathlib import Path

from tests import ROOT
from tests.verify import tree_of

HERE = Path(__file__).parent
RECORDS, TWIN = HERE / "records.json", ROOT / "solutions" / "05_first_job" / "first_job.py"
# The six records that students get, and the hidden ones by kind.
SIX = {
    "A": "key-error",
    "B": "forty-nodes",
    "C": "makes-room",
    "D": "takes",
    "E": "alone",
    "F": "a-minute",
}
HIDDEN = {
    "out of memory": ["takes-on-rank-1", "takes-on-rank-0"],
    "never runs": ["five-hours", "over-the-account", "after-a-failure"],
    "wrong world size": ["starts-anew", "alone-of-three"],
    "dead rank": ["segfault", "killed", "exit-code", "says-memory"],
    "out of time": ["a-minute-together"],
    "preempted": ["makes-room-together", "waits-to-go-on"],
    "nothing wrong": [
        "well",
        "well-together",
        "more-than-its-share",
        "resources",
        "priority",
        "dependency",
        "begin-time",
    ],
}
LONGEST = 110  # characters of a line (pyproject.toml)
SHOWN = {"A, B": "AB", "C, D": "CD", "E, F": "EF"}  # the provided cells of the six jobs


def digest():
    """Return the SHA-256 of the code that makes the records, without comments and docstrings."""
    trees = [tree_of((HERE / name).read_text()) for name in ("__main__.py", "programs.py")]
    return hashlib.sha256(json.dumps(trees).encode()).hexdigest()


def lines_of(record, indent=""):
    """Return a record as lines of JSON, with one line for each part of a long value."""
    lines = []
    for key, value in record.items():
        if isinstance(value, list) and value:
            parts = [f"{indent}  {json.dumps(part)}" for part in value]
            lines += [
                f"{indent} {json.dumps(key)}: [",
                *(f"{part}," for part in parts[:-1]),
                f"{parts[-1]}],",
            ]
        else:
            lines.append(f"{indent} {json.dumps(key)}: {json.dumps(value)},")
    lines[0] = f"{indent}{{{lines[0][len(indent) + 1 :]}"
    lines[-1] = f"{lines[-1][:-1]}}}"
    return lines


def listed(records):
    """Return records as the text of a JSON list."""
    return "[" + ",\n".join("\n".join(lines_of(record)) for record in records) + "]"


def named(records):
    """Return {letter: record} as the text of a JSON object."""
    texts = [f'"{letter}": ' + "\n".join(lines_of(record)) for letter, record in records.items()]
    return "{" + ",\n".join(texts) + "}"


def filled(text, records):
    """Return the assignment's text with the records {name: record} in their cells."""
    parts = {
        key: named({letter: records[SIX[letter]] for letter in letters}) for key, letters in SHOWN.items()
    }
    parts |= {kind: listed([records[name] for name in names]) for kind, names in HIDDEN.items()}
    for key, lines in parts.items():
        mark = "  # noqa: E501" if max(map(len, lines.splitlines())) > LONGEST else ""
        pattern = re.compile(rf'(json\.loads\(  # {key}\n    r""").*?""".*?$', re.S | re.M)
        text, count = pattern.subn(lambda found, new=f'{lines}"""{mark}': f"{found[1]}{new}", text)
        assert count == 1, f"the assignment has {count} places for the records of {key!r}"
    return text
