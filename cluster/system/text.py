"""Makes text from outside, such as a file's name or a student's output, safe to show and to store.

To store (`encodable`): a file's name on Linux is bytes, and JSON can hold halves of characters. Python keeps
both as surrogates, which no file, page or database takes.
To show (`printable`): what can be stored may still be a trap for a terminal or a reader: escape sequences,
new lines, marks that turn the direction of writing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

LONGEST = 200  # characters of a name: file systems allow 255 bytes
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
SURROGATE = re.compile("[\ud800-\udfff]")
BYTES = range(0xDC80, 0xDD00)  # surrogates that stand for a byte which is no UTF-8


def printable(text: str | PurePath, longest: int = LONGEST) -> str:
    r"""A name from outside as it is shown: one line in which nothing is invisible, `bad\xff.txt`.

    What cannot be printed, controls and marks of direction among it, is escaped; more than `longest`
    characters are cut. Shown twice it stays the same.
    """
    shown = "".join(char if char.isprintable() else _escaped(char) for char in str(text)[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _escaped(char: str) -> str:
    number = ord(char)
    return f"\\x{number - 0xDC00:02x}" if number in BYTES else char.encode("unicode_escape").decode()


def encodable(text: str) -> str:
    """A text that every file takes: halves of characters, which are in no encoding, are replaced by �."""
    return SURROGATE.sub(REPLACEMENT, text)


def encodable_tree(value: Any) -> Any:
    """`encodable` for all texts, keys included, of a value that JSON can hold. Raises RecursionError."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable_tree(key): encodable_tree(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encodable_tree(item) for item in value]
    return value


def named(ranks: Sequence[int]) -> str:
    """Some ranks as text; of many the first three.

    >>> named([1]), named([0, 2, 3]), named(range(8))
    ('rank 1', 'ranks 0, 2 and 3', 'ranks 0, 1, 2 and 5 more')
    """
    if len(ranks) > 4:
        return f"ranks {', '.join(map(str, ranks[:3]))} and {len(ranks) - 3} more"
    *first, last = map(str, ranks)
    return f"ranks {', '.join(first)} and {last}" if first else f"rank {last}"
