"""Numbers of a student's own: the same task for all, with other constants for each.

    draw = variant("03")          # in the given cell that is called "variant"
    width = draw.choice([48, 64, 96])

A student's code stands in variant.txt beside the notebook. Where there is none, the numbers are the sample's,
with which the solution and the checks were made. Grading writes the right code into the cell instead.
"""

from __future__ import annotations

import base64
import hashlib
import random
from pathlib import Path

FILE, SAMPLE = "variant.txt", "sample"
READ_AS = str.maketrans("018", "olb", "- \n\r\t")  # digits that no code has, for the letters they look like


def variant(assignment: str, code: str | None = None) -> random.Random:
    """A random.Random whose draws are this student's: the same each time for the same code.

    assignment: its number, as "03". code: instead of the one in variant.txt. Raises ValueError for what is
    no code of this assignment.
    """
    if code is None:
        path = Path(FILE)
        code = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else SAMPLE
    plain = code.lower().translate(READ_AS)
    if plain == SAMPLE:
        print(
            f"Sample numbers. For your own, save the code that you were given as {FILE} beside this notebook."
        )
    elif plain != with_check(assignment, plain[:-2]):
        raise ValueError(
            f"{code.strip()[:40]!r} is no code of assignment {assignment}: copy it anew into {FILE}"
        )
    return random.Random(f"variant of {assignment}: {plain}")


def with_check(assignment: str, body: str) -> str:
    """A code: its body and two letters that tell a slip of the pen."""
    digest = hashlib.sha256(f"{assignment} {body}".encode()).digest()
    return body + base64.b32encode(digest).decode().lower()[:2]
