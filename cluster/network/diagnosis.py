"""Error messages for students: ranks that wait for each other, unmatched messages, with their lines."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from .run import Message

OWN = {str(Path(__file__).with_name(f"{name}.py")) for name in ("communicator", "diagnosis", "virtual")}
SHOWN = 8  # maximum number of ranks, or messages, that an error names
Line = tuple[CodeType, int]  # (code, offset of the instruction that called a communicator)


class Wait(NamedTuple):
    """A rank that waits in `line` for a message: to receive it, or until its receiver is ready."""

    rank: int
    message: Message
    receives: bool
    line: Line


def deadlock(waits: Sequence[Wait], ranks: int, time: float) -> str:
    """Describe the ranks that wait for each other at `time` (s), where, any cycle, and what to do."""
    lines, other = [], {w.rank: w.message.source if w.receives else w.message.dest for w in waits}
    for w in waits:
        does = "receives from" if w.receives else f"sends {w.message.size} bytes to"
        ended = "" if other[w.rank] in other else ", which has ended"
        lines.append(f"rank {w.rank} {does} rank {other[w.rank]}{ended}, {line_text(w.line)}")
    if circle := _circle(other):
        sends = not any(w.receives for w in waits if w.rank in circle)
        way = " → ".join(map(str, [*circle, circle[0]])) if len(circle) <= SHOWN else f"{len(circle)} ranks"
        advice = (
            "All of these send, and none receives: use sendreceive, or let some receive first."
            if sends
            else "Each of these waits for the next: change the order on one of them, or use sendreceive."
        )
        advice = f"They wait in a circle, {way}. {advice}"
    else:
        advice = "A rank that has ended cannot answer: count the sends and receives of each rank."
    head = f"{len(waits)} of {ranks} ranks wait forever, at {time:.6g} s:"
    return "\n".join([head, *lines[:SHOWN], *more(len(lines)), f"→ {advice}"])


def _circle(other: dict[int, int]) -> list[int]:
    """Return the ranks of a cycle in {waiting rank: the rank it waits for}, or [] if there is none."""
    for start in other:
        path, rank = [], start
        while rank in other and rank not in path:
            path.append(rank)
            rank = other[rank]
        if rank in path:
            return path[path.index(rank) :]
    return []


def left_over(message: Message) -> str:
    """Describe a message that was never sent or never received."""
    if message.expected is None:
        return (
            f"rank {message.source} sent {message.size} bytes to rank {message.dest}, which did not receive "
            f"them, {line_text(message.source_line)}"
        )
    return (
        f"rank {message.dest} expected a message from rank {message.source}, which sent none, "
        f"{line_text(message.dest_line)}"
    )


def more(n: int) -> list[str]:
    """Return a line with the number of items (of n) that are not shown."""
    return [f"… and {n - SHOWN} more"] if n > SHOWN else []


def elements(x: Any) -> str:
    """Describe the size of an array."""
    shape = np.shape(x)
    if len(shape) == 1:
        return f"{shape[0]} element{'s' * (shape[0] != 1)}"
    return f"an array of shape {shape}"


def calling_line() -> Line:
    """Return the location of the call of a communicator: the nearest frame outside the network's own code."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename in OWN:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def line_text(line: Line) -> str:
    """Describe a line: its number in its file or cell, and its source."""
    code, instruction = line
    found = [n for start, end, n in code.co_lines() if start <= instruction < end and n]
    number = found[0] if found else code.co_firstlineno
    source = linecache.getline(code.co_filename, number).strip()
    return f"line {number} of {code.co_name}" + (f": {source}" if source else "")
