"""The pairs of similar submissions: a table for the terminal, and one HTML file that shows both sides."""

from __future__ import annotations

from cluster.system.text import printable

from .report_page import render
from .similarity import SHARE, TOKENS, Comparison

SHOWN = 50  # maximum number of pairs shown on the page
COLUMNS = ["student", "student", "tokens", "of the first", "of the second"]


def rows(found: Comparison) -> list[list[str | int]]:
    """Return a row per pair: both students, shared tokens, and their fraction of each one's own tokens."""
    return [
        [printable(p.one.student), printable(p.other.student), p.tokens, *(f"{s:.0%}" for s in p.shares)]
        for p in found.pairs
    ]


def terminal(found: Comparison, most: int = 20) -> list[str]:
    """Return lines for the terminal: the pairs, the most similar first."""
    lines = [f"{found.students} compared; {len(found.pairs)} pairs are similar beyond the provided code"]
    if found.pairs:
        shown = [COLUMNS]
        shown += [[str(value) for value in row] for row in rows(found)[:most]]
        width = [max(map(len, column)) for column in zip(*shown, strict=True)]
        for row in shown:
            names = "  ".join(text.ljust(w) for text, w in zip(row[:2], width[:2], strict=True))
            numbers = "  ".join(text.rjust(w) for text, w in zip(row[2:], width[2:], strict=True))
            lines.append(f"  {names}  {numbers}")
    if len(found.pairs) > most:
        lines.append(f"  and {len(found.pairs) - most} more, on the page")
    if found.without:
        lines.append(f"  too little code to be judged: {len(found.without)}")
    lines += [f"  {printable(name)} is not compared: {why}" for name, why in sorted(found.unreadable.items())]
    return lines


def page(assignment: str, found: Comparison) -> str:
    """Return the HTML."""
    return render(
        "similar.html",
        title=f"{assignment}: similar submissions",
        found=found,
        columns=COLUMNS,
        rows=rows(found),
        unreadable=[[printable(name), why] for name, why in found.unreadable.items()],
        tokens=TOKENS,
        share=f"{SHARE:.0%}",
        most=SHOWN,
    )
