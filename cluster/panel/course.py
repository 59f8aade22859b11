"""The map of the course: which lectures and assignments are there, and how far their user has come.

All is read from files: titles from the notebooks, progress from the cells still to be filled, due dates from
the course's file of dates, hand-ins from nbgrader's own cache, points from the feedback that was fetched.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

HEADING = re.compile(r"^# +(.+?)\s*$", re.MULTILINE)
QUESTION = re.compile(r"^\*\*(.+?\?)\*\*\s*$", re.MULTILINE)
POINTS = re.compile(r"<title>[^<]*?(\d+(?:\.\d+)?) of (\d+(?:\.\d+)?) points</title>")
STUB = "raise NotImplementedError"
EMPTY = "YOUR ANSWER HERE"


@dataclass
class Lecture:
    number: str
    title: str
    question: str
    path: str  # below the server's root


@dataclass
class Assignment:
    """One assignment. path: of its notebook, "" while it is not fetched; dates are aware, None if unknown."""

    name: str
    number: str
    title: str
    path: str
    filled: int = 0
    cells: int = 0
    due: datetime.datetime | None = None
    handed_in: datetime.datetime | None = None
    hand_ins: int = 0
    points: str = ""
    feedback: str = ""

    @property
    def late(self) -> bool:
        """Whether the due date is over and nothing was handed in."""
        return bool(self.due and not self.handed_in and self.due < datetime.datetime.now(datetime.UTC))


def lectures(root: Path, folder: str) -> list[Lecture]:
    """The lectures in their order; a notebook that cannot be read is named by its file."""
    found = []
    for path in sorted((root / folder).glob("[0-9][0-9]_*.ipynb")):
        title, question, _, _ = head(path)
        found.append(Lecture(path.stem[:2], bare(title) or spoken(path.stem), question, below(root, path)))
    return found


def assignments(root: Path, folders: list[str], released: str, dates: str, cache: Path) -> list[Assignment]:
    """The assignments that are here or released, in their order."""
    found: dict[str, Assignment] = {}
    for folder in folders:
        for place in sorted((root / folder).glob("[0-9][0-9]_*/")):
            notebooks = sorted(place.glob("*.ipynb"))
            if notebooks and place.name not in found:
                title, _, filled, cells = head(notebooks[0])
                title, path = bare(title) or spoken(place.name), below(root, notebooks[0])
                one = Assignment(place.name, place.name[:2], title, path, filled, cells)
                one.points, one.feedback = feedback(root, place)
                found[place.name] = one
    for place in sorted(Path(released).glob("[0-9][0-9]_*/")) if released else ():
        found.setdefault(place.name, Assignment(place.name, place.name[:2], spoken(place.name), ""))
    due = load(root / dates)
    for one in found.values():
        one.due = moment(due.get(one.name)) if isinstance(due, dict) else None
        stamps = sorted(stamp for p in cache.glob(f"*/*+{one.name}+*") if (stamp := stamped(p.name)))
        one.hand_ins, one.handed_in = len(stamps), stamps[-1] if stamps else None
    return [found[name] for name in sorted(found)]


def head(path: Path) -> tuple[str, str, int, int]:
    """(title, question, cells filled, cells to fill) of a notebook; empty and 0 where it cannot be read."""
    try:
        status = path.stat()
        return _head(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", "", 0, 0


@lru_cache(256)
def _head(path: Path, _changed: int, _size: int) -> tuple[str, str, int, int]:
    cells = json.loads(path.read_text())["cells"]
    sources = [(c, "".join(c["source"])) for c in cells]
    text = "\n\n".join(source for c, source in sources if c["cell_type"] == "markdown")
    roles = [(source, c["metadata"].get("nbgrader", {})) for c, source in sources]
    to_fill = [source for source, role in roles if role.get("solution")]
    title, question = HEADING.search(text), QUESTION.search(text)
    open_cells = sum(STUB in source or EMPTY in source for source in to_fill)
    words = title[1] if title else "", question[1] if question else ""
    return *words, len(to_fill) - open_cells, len(to_fill)


def feedback(root: Path, assignment: Path) -> tuple[str, str]:
    """('11 of 16', path of the page) of the newest feedback that was fetched, or two empty texts."""
    for page in sorted(assignment.glob("feedback/*/*.html"), reverse=True):
        try:
            with open(page, errors="replace") as f:
                found = POINTS.search(f.read(4000))
        except OSError:
            continue
        return f"{found[1]} of {found[2]}" if found else "", below(root, page)
    return "", ""


def moment(text: Any) -> datetime.datetime | None:
    """An ISO date with its zone; None for anything else."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else None


def stamped(name: str) -> datetime.datetime | None:
    """The time in the name of a folder of nbgrader's, in UTC: user+assignment+2026-11-21 20:04:10.123 UTC."""
    found = re.search(r"\+(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)? UTC$", name)
    return moment(f"{found[1]}+00:00") if found else None


def load(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def below(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def bare(title: str) -> str:
    """A title without its number: 'Assignment 01: convolution as GEMM' -> 'Convolution as GEMM'."""
    words = re.sub(r"^(Assignment )?\d+\s*[:·.]?\s*", "", title)
    return words[:1].upper() + words[1:]


def spoken(name: str) -> str:
    """'01_convolution_as_gemm' -> 'Convolution as gemm'."""
    return name[3:].replace("_", " ").capitalize()
