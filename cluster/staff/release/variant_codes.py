"""Whose numbers are whose: a code for each student and assignment, from a key that only the instructor has.

A code is an HMAC of assignment and student. Without the key nobody can work out another's code, and a code
tells nothing of the key or of other codes. Grading does not ask a student which numbers are theirs: it works
the code out again and writes it into the given cell `variant`, for the student's process and for the checks.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import re
import secrets
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.checks.variant import FILE, READ_AS, SAMPLE, with_check

from ..course import CourseError
from ..work_files import work_files

if TYPE_CHECKING:
    from nbformat import NotebookNode

CELL = "variant"  # the name of the given cell that draws the numbers
CALL = re.compile(r"""\bvariant\((["'])(\w+)\1\)""")
LETTERS = 10  # of a code, 50 bits, and two that check it


class Codes:
    """The codes of one assignment; `private` is the folder of the instructor's files, .grading/."""

    def __init__(self, private: Path | str, assignment: str):
        self.file, self.assignment = Path(private) / "variants.key", assignment

    def make_key(self) -> None:
        """Make the key where there is none. It is never changed: codes that were given out depend on it."""
        with (
            contextlib.suppress(FileExistsError),
            open(self.file, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as file,
        ):
            file.write(secrets.token_hex(32) + "\n")

    @cached_property
    def key(self) -> bytes:
        """The key as bytes. Raises CourseError where there is none, or others could have read it."""
        try:
            about, text = self.file.stat(), self.file.read_text().strip()
        except OSError as error:
            raise CourseError(
                f"{self.file}: {error.strerror}. It is the key of the students' variants: restore it from a"
                f" backup where codes were given out already, else `grade variants {self.assignment[:2]}`"
            ) from None
        if about.st_mode & 0o077 or len(text) < 32:
            raise CourseError(f"{self.file} can be read by others, or is too short: chmod 600, or a new key")
        return text.encode()

    def code_of(self, student: str) -> str:
        """The code of a student, always the same."""
        message = f"{self.assignment}\0{student}".encode()
        digest = hmac.new(self.key, message, hashlib.sha256).digest()
        return self.complete(base64.b32encode(digest).decode().lower()[:LETTERS])

    def any(self) -> str:
        """A code drawn at random, for trials."""
        return self.complete(base64.b32encode(secrets.token_bytes(10)).decode().lower()[:LETTERS])

    def complete(self, body: str) -> str:
        return with_check(self.assignment[:2], body)

    def entered(self, student: str, folder: Path) -> str:
        """What is to be said of the code that the student of this submission worked with, or ""."""
        path = work_files(folder).get(FILE)
        text = path.read_text(errors="replace")[:100] if path else SAMPLE
        plain = text.lower().translate(READ_AS)
        if plain == self.code_of(student):
            return ""
        if plain == SAMPLE:
            return f"worked with the sample's numbers, no code in {FILE}; graded with their own numbers"
        others = sorted(other.name for other in folder.parents[1].iterdir() if other.is_dir())
        whose = [name for name in others if plain == self.code_of(name)]
        whom = f"the code of {whose[0]}" if whose else "a code that is not theirs"
        return f"{FILE} holds {whom}; graded with their own numbers"


def stamp(notebook: NotebookNode, code: str) -> NotebookNode:
    """Write a code into the notebook's given cell `variant`. Raises CourseError where it does not draw."""
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == CELL:
            cell.source, count = CALL.subn(rf'variant("\2", "{code}")', cell.source)
            if count != 1:
                raise CourseError(
                    f'the given cell {CELL!r} calls variant("NN") {count} times; it has to once'
                )
    return notebook


def has_variants(notebook: NotebookNode) -> bool:
    """Has this notebook a cell that draws a student's numbers?"""
    return any(cell.metadata.get("nbgrader", {}).get("grade_id") == CELL for cell in notebook.cells)
