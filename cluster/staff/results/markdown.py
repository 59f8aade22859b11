"""HTML of untrusted Markdown: contains no scripts and loads nothing; formulas are MathML."""

from __future__ import annotations

import re
from functools import cache
from html import escape, unescape
from typing import Any
from xml.etree.ElementTree import tostring

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath, MathInlineParser

from .clean import clean

TAG = re.compile(r"(<[^<>]*>)")
ALIGN = re.compile(r'(<t[hd]) style="text-align: ?(left|right|center)"')


class Attachments(dict):
    """The images pasted into a cell; a missing one becomes an empty image with its alternative text."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, str]:
        return {"image/png": ""}


class Inline(MathInlineParser):
    """The parser of a paragraph. Two prices, $5 and $6, are not a formula."""

    INLINE = r"(?<![$\\])\$(?!\s)(?P<math_inline_tex>(?:\\\$|[^$`])+?)(?<![\s\\])\$(?!\d)"
    SPECIFICATION = MathInlineParser.SPECIFICATION | {"inline_math_tex": INLINE}


FORMULA = re.compile(rf"\$\$(?P<block>.+?)\$\$|{Inline.INLINE}", re.DOTALL)


class Renderer(IPythonRenderer):
    """The HTML of a text, with formulas as MathML."""

    def inline_math(self, body: str) -> str:
        """Return a formula in a line."""
        return formula(body, "inline")

    def block_math(self, body: str) -> str:
        """Return a formula on a separate line."""
        return formula(body, "block")

    def block_html(self, html: str) -> str:
        """Return a block of HTML, with the formulas between its tags."""
        parts = TAG.split(html)
        parts[::2] = [FORMULA.sub(in_html, text) for text in parts[::2]]
        return "".join(parts)

    def latex_environment(self, name: str, body: str) -> str:
        r"""Return a formula written as \begin{name} … \end{name}."""
        return formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block")


@pass_context
def in_cell(context: Context, source: str) -> Markup:
    """Convert the current cell's text to HTML: the filter `markdown2html` of a page.

    resources["rubrics"]: course texts whose boxes keep their classes.
    """
    cell = context.get("cell") or {}
    course = bool(cell.get("metadata", {}).get("course"))
    rubric = source in (context.get("resources") or {}).get("rubrics", ())
    try:
        return Markup(markdown(source, cell.get("attachments"), course, rubric))
    except Exception:  # whatever a parser fails on, because the text is readable as it is, too
        return Markup(f"<pre>{escape(source)}</pre>")


def markdown(
    source: str,
    attachments: dict[str, dict[str, str]] | None = None,
    course: bool = True,
    boxes: bool = False,
) -> str:
    """Convert untrusted Markdown to HTML: no scripts, and formulas as MathML.

    attachments: {name: {kind: base64}} of images pasted into it. course: whether it is the course's own text.
    boxes: whether its boxes keep their classes.
    """
    renderer = Renderer(escape=False, attachments=Attachments(attachments or {}))
    parser = MarkdownWithMath(renderer=renderer, inline=Inline(hard_wrap=False))
    html = ALIGN.sub(r'\1 align="\2"', parser.render(source))  # the only style that a table has
    return clean(html, "text", ids=course, boxes=boxes)


def in_line(source: str) -> Markup:
    """Convert a line of Markdown, such as a title, to HTML: emphasis, code, formulas; no links or blocks."""
    text = source.strip()
    html = markdown(text).strip()
    paragraph = html.startswith("<p>") and html.endswith("</p>") and html.count("<p>") == 1
    if not paragraph:  # "1. …" would begin a list
        html = escape(text, quote=False)
    return Markup(clean(html.removeprefix("<p>").removesuffix("</p>"), "line"))


def formula(tex: str, display: str) -> str:
    """Return a formula as MathML, or as TeX if it cannot be converted."""
    try:
        return mathml(tex, display)
    except Exception:  # whatever the converter fails on, because TeX itself is readable, too
        mark = "$" if display == "inline" else "$$"
        return f"<code>{escape(f'{mark}{tex}{mark}')}</code>"


def in_html(found: re.Match[str]) -> str:
    """Return a formula that stands between tags."""
    tex = found["block"] or found["math_inline_tex"]
    return formula(unescape(tex), "block" if found["block"] else "inline")


@cache
def mathml(tex: str, display: str) -> str:
    """Return a formula as MathML. Text stays text.

    latex2mathml's own `convert` writes symbols as references and then resolves all references, also those of
    tags in the argument of \\text.
    """
    from latex2mathml.converter import convert_to_element

    element: Any = convert_to_element(tex, display=display)
    del element.attrib["xmlns"]  # nbconvert parses headings as XML, which would rename <math>
    for part in element.iter():
        part.text = unescape(part.text) if part.text else part.text
        if part.text == "&":  # of an environment that it does not know, such as aligned
            raise ValueError(tex)
    return tostring(element, encoding="unicode")
