"""Make text from outside, such as a file's name or a student's output, safe to show and to store.

To store (`encodable`): a file's name on Linux is bytes, and JSON can contain unpaired surrogates. Python
keeps both as surrogates, which files, pages and databases do not accept. To show (`printable`): text that can
be stored may still mislead a terminal or a reader by escape sequences, line breaks, or characters that change
the writing direction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

LONGEST = 200  # maximum characters of a name: file systems allow 255 bytes
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
SURROGATE = re.compile("[\ud800-\udfff]")
BYTES = range(0xDC80, 0xDD00)  # surrogates that represent a byte that is not UTF-8


def printable(text: str | PurePath, longest: int = LONGEST) -> str:
    r"""Return a name from outside for display: one line without invisible characters, such as
    `bad\xff.txt`.

    Unprintable characters, such as controls and direction characters, are escaped. Text beyond `longest`
    characters is cut. The function is idempotent.
    """
    shown = "".join(char if char.isprintable() else _escaped(char) for char in str(text)[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _escaped(char: str) -> str:
    number = ord(char)
    return f"\\x{number - 0xDC00:02x}" if number in BYTES else char.encode("unicode_escape").decode()


def encodable(text: str) -> str:
    """Replace unpaired surrogates, which cannot be encoded, by �."""
    return SURROGATE.sub(REPLACEMENT, text)


def encodable_tree(value: Any) -> Any:
    """Apply `encodable` to all texts and keys of a JSON value. Raises RecursionError for a very deep one."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable_tree(key): encodable_tree(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encodable_tree(item) for item in value]
    return value


def named(ranks: Sequence[int]) -> str:
    """Return some ranks as text, only the first three if there are many.

    >>> named([1]), named([0, 2, 3]), named(range(8))
    ('rank 1', 'ranks 0, 2 and 3', 'ranks 0, 1, 2 and 5 more')
    """
    if len(ranks) > 4:
        return f"ranks {', '.join(map(str, ranks[:3]))} and {len(ranks) - 3} more"
    *first, last = map(str, ranks)
    return f"ranks {', '.join(first)} and {last}" if first else f"rank {last}"
