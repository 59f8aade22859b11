"""The map of the course: its lectures and assignments, and the user's progress.

Everything is read from files: titles from the notebooks, progress from the cells still to be filled in, due
dates from the course's notice to the user, submissions from nbgrader's cache, points from fetched feedback.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from glob import escape, glob
from pathlib import Path
from typing import Any

from . import corrections, receipts
from .receipts import moment

HEADING = re.compile(r"^# +(.+?)\s*$", re.MULTILINE)
QUESTION = re.compile(r"^\*\*([^*]+?\?)\*\*\s*$", re.MULTILINE)  # the question may have a line break
POINTS = re.compile(r"<title>[^<]*?(\d+(?:\.\d+)?) of (\d+(?:\.\d+)?) points</title>")
STUB = "raise NotImplementedError"
EMPTY = "YOUR ANSWER HERE"


@dataclass
class Unit:
    """A lecture and its assignment, from lectures/units.toml: prerequisites, and the assignment's hours."""

    number: str
    title: str
    needs: list[str] = field(default_factory=list)
    hours: str = ""


@dataclass
class Lecture:
    number: str
    title: str
    question: str
    path: str  # below the server's root
    copy: str = ""  # the user's own copy


@dataclass
class Assignment:
    """An assignment. path: its notebook, "" until fetched. Dates are timezone-aware, or None if unknown."""

    name: str
    number: str
    title: str
    path: str
    filled: int = 0
    cells: int = 0
    due: datetime.datetime | None = None
    extended_from: datetime.datetime | None = None  # the due date for students without an extension
    received: datetime.datetime | None = None  # time of the submission that the course has collected
    corrected: datetime.datetime | None = None  # when a correction that is not in the notebook was released
    given_back: datetime.datetime | None = None  # when feedback was last released
    hand_ins: list[receipts.HandIn] = field(default_factory=list)
    points: str = ""
    feedback: str = ""  # path of the newest fetched feedback page
    fetched: datetime.datetime | None = None  # when that page was fetched
    about: receipts.HandIn | None = None  # the submission that the feedback refers to; None if unknown
    hours: str = ""  # planned hours, as text

    @property
    def over(self) -> bool:
        """Whether the due date has passed."""
        return bool(self.due and self.due < datetime.datetime.now(datetime.UTC))

    @property
    def last(self) -> receipts.HandIn | None:
        """Return the newest submission, which is the one that counts."""
        return self.hand_ins[-1] if self.hand_ins else None

    @property
    def last_filled(self) -> int:
        """Return how many cells were filled in the newest submission."""
        notebooks = sorted(self.last.folder.glob("*.ipynb")) if self.last else []
        return head(notebooks[0])[2] if notebooks else 0

    @property
    def to_fetch(self) -> bool:
        """Whether feedback has been released that the user has not fetched yet."""
        return bool(self.given_back and (self.fetched is None or self.fetched < self.given_back))

    @property
    def state(self) -> str:
        """Return the state: not fetched, not started, started, submitted, graded, or not submitted."""
        if self.feedback and self.about in (None, self.last):
            return "graded"
        if self.last:
            return "submitted"
        if self.over:
            return "not submitted"
        if not self.path:
            return "not fetched"
        return "started" if self.filled else "not started"

    def late(self, one: receipts.HandIn) -> bool:
        """Return whether a submission came after the due date."""
        return bool(self.due and one.at > self.due)


def lectures(root: Path, folder: str, copies: str = "") -> list[Lecture]:
    """Return the lectures in order, with the user's copies. An unreadable notebook's title is its name."""
    result = []
    for path in sorted((root / folder).glob("[0-9][0-9]_*.ipynb")):
        title, question, _, _ = head(path)
        own = root / copies / path.name if copies else None
        copy = below(root, own) if own and own.is_file() else ""
        heading = bare(title) or spoken(path.stem)
        result.append(Lecture(path.stem[:2], heading, question, below(root, path), copy))
    return result


def glossary(root: Path, folder: str) -> str:
    """Return the path of the lectures' glossary below the root, or "" if there is none."""
    path = root / folder / "GLOSSARY.md"
    return below(root, path) if path.is_file() else ""


def units(folder: Path) -> list[Unit]:
    """Return the course's units in order; none if units.toml cannot be read."""
    try:
        table = tomllib.loads((folder / "units.toml").read_text(encoding="utf-8"))
        return [Unit(number, **facts) for number, facts in sorted(table.items())]
    except (OSError, ValueError, TypeError):
        return []


def assignments(
    root: Path, folders: list[str], released: str, notice: dict[str, dict], cache: Path
) -> list[Assignment]:
    """Return the fetched or released assignments in order. notice: the course's data on each."""
    result: dict[str, Assignment] = {}
    for folder in folders:
        for given in sorted((root / folder).glob("[0-9][0-9]_*/")):
            if given.name not in result and (notebook := graded_notebook(given, released)):
                title, _, filled, cells = head(notebook)
                title, path = bare(title) or spoken(given.name), below(root, notebook)
                one = Assignment(given.name, given.name[:2], title, path, filled, cells)
                original = released_notebook(released, given.name)
                one.corrected = corrections.corrected(notebook, original, given.name)
                result[given.name] = one
    for given in handed_out(released) or []:
        if given.name not in result:
            title = next((bare(head(path)[0]) for path in sorted(given.glob("*.ipynb"))), "")
            result[given.name] = Assignment(given.name, given.name[:2], title or spoken(given.name), "")
    for one in result.values():
        facts = notice.get(one.name, {})
        for key in ("due", "extended_from", "received", "given_back"):
            setattr(one, key, moment(facts.get(key)))
        one.hand_ins = receipts.hand_ins(cache, one.name)
        if one.path and (page := newest_feedback((root / one.path).parent)):
            one.points, one.feedback = points_of(page), below(root, page)
            one.fetched = datetime.datetime.fromtimestamp(page.stat().st_mtime, datetime.UTC)
            one.about = next((h for h in one.hand_ins if h.key == page.parent.name), None)
    return [result[name] for name in sorted(result)]


def released_notebook(released: str, assignment: str) -> Path | None:
    """Return an assignment's notebook as released; None if it is unreadable or there are several."""
    if not (released and assignment):
        return None
    # Path.glob would raise on EACCES.
    matches = glob(os.path.join(escape(released), escape(assignment), "*.ipynb"))
    return Path(matches[0]) if len(matches) == 1 else None


def graded_notebook(folder: Path, released: str) -> Path | None:
    """Return the notebook that grading takes from a fetched assignment; None if there is none.

    It has the released name. If no notebook has it, or the name is unknown, it is the one with the shortest
    name: copies, such as x-Copy1.ipynb, have longer ones.
    """
    original = released_notebook(released, folder.name)
    if original and (folder / original.name).is_file():
        return folder / original.name
    return min(folder.glob("*.ipynb"), key=lambda path: (len(path.name), path.name), default=None)


def handed_out(released: str) -> list[Path] | None:
    """Return the folders of released assignments, in order; None if this user may not read them."""
    try:
        names = sorted(os.listdir(released)) if released else []
    except PermissionError:
        return None
    except OSError:
        return []
    folders = [Path(released, name) for name in names if re.match(r"\d\d_", name)]
    return [folder for folder in folders if os.path.isdir(folder)]


def head(path: Path) -> tuple[str, str, int, int]:
    """Return a notebook's (title, question, cells filled in, cells to fill in); '' and 0 if unreadable."""
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
    heading = title[1] if title else "", " ".join(question[1].split()) if question else ""
    return *heading, len(to_fill) - open_cells, len(to_fill)


def newest_feedback(assignment: Path) -> Path | None:
    """Return the newest submission's feedback page; nbgrader names the folder after the submission."""
    return next(iter(sorted(assignment.glob("feedback/*/*.html"), reverse=True)), None)


def points_of(page: Path) -> str:
    """Return the points on a feedback page, such as '11 of 16', or "" if it has none or is unreadable."""
    try:
        with open(page, errors="replace") as f:
            match = POINTS.search(f.read(4000))
    except OSError:
        return ""
    return f"{match[1]} of {match[2]}" if match else ""


def below(root: Path, path: Path) -> str:
    """Return a path in the form of the server's URLs: below its root, with '/'."""
    return path.relative_to(root).as_posix()


def bare(title: str) -> str:
    """Remove a title's number: 'Assignment 01: convolution as GEMM' becomes 'Convolution as GEMM'."""
    text = re.sub(r"^(Assignment )?\d+\s*[:·.]?\s*", "", title)
    return text[:1].upper() + text[1:]


def spoken(name: str) -> str:
    """Turn '01_convolution_as_gemm' into 'Convolution as gemm'."""
    return name[3:].replace("_", " ").capitalize()


@dataclass
class Step:
    """The next step. do: feedback, go on, submit, fetch, read, or nothing. subject: lecture or assignment."""

    do: str
    subject: Any = None


def waits(one: Assignment) -> bool:
    """Return whether an assignment still needs a submission: it has none, or the due date has not passed and
    the notebook has fewer empty cells than the submission."""
    better = one.due and one.path and not one.feedback
    return not one.last or bool(better and one.last_filled < one.cells)


def suggested(lectures: list[Lecture], assignments: list[Assignment]) -> Step:
    """Suggest new feedback first, then the first assignment that can still be on time, then the next lecture.

    The next lecture is the first one in course order whose assignment is not submitted.
    """
    back = [item for item in assignments if item.to_fetch]
    if back:
        return Step("feedback", back[-1])
    begun = bool([item for item in assignments if item.path])
    to_do = [item for item in assignments if not item.over and waits(item)]
    if not begun and lectures:
        return Step("read", lectures[0])
    if to_do:
        one = to_do[0]
        if not one.path:
            return Step("fetch", one)
        return Step("submit" if one.cells and one.filled == one.cells else "go on", one)
    done = {item.number for item in assignments if item.last or item.over}
    to_read = [lecture for lecture in lectures if lecture.number not in done]
    return Step("read", to_read[0]) if to_read else Step("nothing")
