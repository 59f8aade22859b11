"""Markdown, formulas, code and outputs as HTML for slides: MathML and colours, without a network."""

import re
from functools import cache
from html import escape

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

FORMATTER = HtmlFormatter(style="a11y-high-contrast-light", nowrap=True)
OF_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
OF_MARKDOWN.use(
    dollarmath_plugin,
    renderer=lambda tex, options: convert(
        tex.strip(), display="block" if options["display_mode"] else "inline"
    ),
)
END = re.compile(r"(?<=[.?!])(?<!al\.)(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)(?<! [A-Z]\.)\s+(?=[A-Z\x00“*])")
SPAN = re.compile(r"\$[^$]+\$|`[^`]+`|\([^()]*\)|\*\*[^*]+\*\*")


def whole(text):
    """Return Markdown in which each inline formula is on one line, because a line that begins with + would
    start a list."""
    return re.sub(r"(?<![$\\])\$(?!\$)[^$]+\$", lambda found: " ".join(found.group().split()), text)


@cache
def html(text):
    """Return Markdown as HTML; links keep only their text, because slides have nothing to link to."""
    text = whole(text)
    text = re.sub(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()\s]*(?:\([^()]*\))?[^()\s]*\)", r"\1", text)
    return OF_MARKDOWN.render(text)


def line(text):
    """Return inline Markdown as HTML, without a paragraph around it."""
    return re.sub(r"^<p>|</p>$", "", html(" ".join(text.split())).strip())


@cache
def blocks(text):
    """Return [(kind, source)] of the blocks in Markdown: heading, paragraph, list, table, formula, html,
    fence."""
    text = whole(text)
    kinds = {"bullet_list": "list", "ordered_list": "list", "math_block": "formula", "html_block": "html"}
    lines, found = text.splitlines(), []
    for token in OF_MARKDOWN.parse(text):
        if token.level == 0 and token.map and token.nesting >= 0:
            kind = token.type.removesuffix("_open")
            found.append((kinds.get(kind, kind), "\n".join(lines[slice(*token.map)]).strip()))
    return found


def sentences(text):
    """Return the sentences of a paragraph, without splitting formulas, code, brackets and bold text."""
    held = []

    def hold(found):
        held.append(found.group())
        return f"\x00{len(held) - 1}\x01"

    text, covered = " ".join(text.split()), None
    while covered != text:
        covered, text = text, SPAN.sub(hold, text)
    parts = END.split(text)
    for number in reversed(range(len(held))):
        parts = [part.replace(f"\x00{number}\x01", held[number]) for part in parts]
    return [part.strip() for part in parts if part.strip()]


@cache
def code(source):
    """Return Python code with syntax colours."""
    return f'<pre class="code" tabindex="0"><code>{highlight(source, PythonLexer(), FORMATTER)}</code></pre>'


def printed(text):
    """Return the printed output of a cell."""
    return f'<pre class="printed" tabindex="0">{escape(text.rstrip())}</pre>'


def table(markup):
    """Return a pandas table without its style and frame."""
    markup = re.sub(r"(?s)<style.*?</style>", "", markup)
    return markup.replace("<th></th>", "<td></td>").replace(' border="1"', "")


def folded(title, inside):
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"
