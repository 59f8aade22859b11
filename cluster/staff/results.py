"""Tables of slow results, committed with their keys: tests/results/NAME.json.

    parts     what all keys of the table share, {part: hash}: see keys
    results   {name: {"key": …, "parts": what its key has beyond the shared, and the result itself}}

What a table does not have, or has under another key, has to be made again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from . import keys
from .keys import Parts

FOLDER = Path("tests", "results")
MOST = 3  # reasons that are said


def are_kept(root: Path) -> bool:
    """Whether the course at `root` has such tables: the repository has, a grader's copy of it has not."""
    return (root / FOLDER).is_dir()


class Table:
    """The table at a path; `results` is {name: result}, empty where there is no file."""

    def __init__(self, path: Path):
        self.path = path
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.parts: Parts = found.get("parts", {})
        self.results: dict[str, dict[str, Any]] = found.get("results", {})

    def why(self, name: str, shared: Parts, own: Parts) -> str:
        """Why a result has to be made again, in words; "" where its key is that of these parts."""
        if name not in self.results:
            return "no result is recorded"
        found, parts = self.results[name], shared | own
        if found["key"] == keys.key(parts):
            return ""
        return in_words(self.parts | found["parts"], parts)

    def keep(self, shared: Parts, own: dict[str, Parts], made: dict[str, dict[str, Any]]) -> None:
        """Write the results that were made. What was recorded of others stays where it shares these parts.

        own: {name: its own parts}, of all that there is now; made: {name: its result}.
        """
        former = self.results if shared == self.parts else {}
        new = {name: {"key": keys.key(shared | own[name]), "parts": own[name]} | made[name] for name in made}
        self.parts = shared
        self.results = {name: found for name, found in sorted((former | new).items()) if name in own}
        text = json.dumps({"parts": self.parts, "results": self.results}, indent=1, ensure_ascii=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".json.tmp")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, self.path)


def in_words(before: Parts, after: Parts) -> str:
    """Why a key is another: the first parts that differ, and how many more there are."""
    words = keys.changed(before, after) or ["its key was made otherwise"]
    return "; ".join([*words[:MOST], *([f"and {len(words) - MOST} more"] if len(words) > MOST else [])])
