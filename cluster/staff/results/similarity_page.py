"""The pairs of similar submissions: a table for the terminal, and one HTML file that shows both sides."""

from __future__ import annotations

import html

from cluster.system.text import printable

from .report_page import head, table
from .similarity import SHARE, TOKENS, Comparison, Pair, Work

SHOWN = 50  # maximum number of pairs shown on the page
LOOK = """
main { max-width: none; } body { max-width: 90rem; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
.sides > div { min-width: 0; }
pre { overflow-x: auto; border: 1px solid #ddd; padding: 0.5rem; font-size: 0.8rem; line-height: 1.35; }
mark { background: #fff3bf; color: inherit; border-left: 3px solid #d55e00; display: inline-block;
  min-width: 100%; }
h3 { margin-bottom: 0; } .cell { margin: 0.6rem 0 0; font-size: 0.85rem; }
"""
ABOUT = (
    "A pair is a reason for a closer look, not a verdict: students are taught alike and may work together."
    " Marked lines agree in both, apart from variable names, comments, strings and brackets."
)


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
        shown: list[list[str | int]] = [
            ["student", "student", "tokens", "of the first", "of the second"],
            *rows(found)[:most],
        ]
        width = [max(len(str(row[i])) for row in shown) for i in range(5)]
        for row in shown:
            names = "  ".join(str(x).ljust(w) for x, w in zip(row[:2], width[:2], strict=True))
            numbers = "  ".join(str(x).rjust(w) for x, w in zip(row[2:], width[2:], strict=True))
            lines.append(f"  {names}  {numbers}")
    if len(found.pairs) > most:
        lines.append(f"  and {len(found.pairs) - most} more, on the page")
    if found.without:
        lines.append(f"  too little code to be judged: {len(found.without)}")
    lines += [f"  {printable(name)} is not compared: {why}" for name, why in sorted(found.unreadable.items())]
    return lines


def page(assignment: str, found: Comparison) -> str:
    """Return the HTML, which loads nothing and contains no scripts."""
    parts = [
        f"<h1>{html.escape(assignment)}: similar submissions</h1>",
        f"<p>{found.students} submissions were compared. A pair is shown if it shares at least {TOKENS}"
        f" tokens that occur neither in the release or the solution nor in the code of more than {found.most}"
        f" students, and these are at least {SHARE:.0%} of one student's own code. {ABOUT}</p>",
        table(["student", "student", "tokens", "of the first", "of the second"], rows(found)),
    ]
    if found.without:
        names = ", ".join(map(printable, found.without))
        parts.append(f"<p><b>Too little code to be judged:</b> {html.escape(names)}</p>")
    if found.unreadable:
        why = table(["student", "not compared"], [[printable(n), w] for n, w in found.unreadable.items()])
        parts.append(why)
    parts += [sides(number, pair) for number, pair in enumerate(found.pairs[:SHOWN], 1)]
    if len(found.pairs) > SHOWN:
        parts.append(f"<p>Only the first {SHOWN} pairs are shown side by side.</p>")
    beginning = head(f"{assignment}: similar submissions", LOOK)
    return f"{beginning}<main>" + "\n".join(parts) + "</main></html>\n"


def sides(number: int, pair: Pair) -> str:
    """Render both sides of a pair next to each other, with only the cells that contain shared code."""
    one, other = (html.escape(printable(work.student)) for work in (pair.one, pair.other))
    head = f"<h2>{number}. {one} and {other}</h2>"
    columns = [f"<div><h3>{name}</h3>{side(pair, i)}</div>" for i, name in enumerate((one, other))]
    return f'{head}<div class="sides">{"".join(columns)}</div>'


def side(pair: Pair, which: int) -> str:
    """Return the cells of one side that contain shared code, with the shared lines marked."""
    work: Work = (pair.one, pair.other)[which]
    shared = pair.lines(which)
    parts = []
    for number, cell in enumerate(work.cells):
        marked = {line for at, line in shared if at == number}
        if not marked:
            continue
        lines = [html.escape(line) for line in cell.source.split("\n")]
        lines = [f"<mark>{line or ' '}</mark>" if i in marked else line for i, line in enumerate(lines)]
        parts.append(f'<p class="cell">{html.escape(printable(cell.name))}</p><pre tabindex="0">')
        parts.append("\n".join(lines) + "</pre>")
    return "".join(parts)
