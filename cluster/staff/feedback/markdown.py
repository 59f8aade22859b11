"""HTML of untrusted Markdown: contains no scripts and loads nothing; formulas are MathML."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import pass_context
from jinja2.runtime import Context

TAGS = frozenset(
    re.findall(
        r"\w+",
        "a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img li ol p pre s span strong"
        " sub sup table tbody td th thead tr ul",
    )
)
ALIGN = re.compile(r'(<t[hd]) style="text-align: ?(left|right|center)"')
CODE = re.compile(r"(<pre\b.*?</pre>|<code\b.*?</code>)", re.DOTALL)
NO_TEXT = re.compile(r"<(style|script)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
COLOUR = {"span": re.compile(r"[a-z][a-z0-9]?"), "div": re.compile(r"highlight( hl-[a-z0-9]+)?")}
MATH = re.compile(r"(<math\b.*?</math>)", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?!\s)([^$\n]+?)(?<!\s)\$(?!\d)", re.DOTALL)


class Attachments(dict):
    """The images pasted into a cell; a missing one becomes an empty image with its alternative text."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, str]:
        return {"image/png": ""}


@pass_context
def in_cell(context: Context, source: str) -> str:
    """Convert the current cell's text to HTML: the filter `markdown2html` of a page. Links lead only to
    headings of the course's cells. resources["rubrics"]: course texts whose boxes keep their classes."""
    cell = context.get("cell") or {}
    course = bool(cell.get("metadata", {}).get("course"))
    rubric = source in (context.get("resources") or {}).get("rubrics", ())
    return markdown(source, cell.get("attachments"), course, rubric)


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
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    renderer = IPythonRenderer(escape=False, attachments=Attachments(attachments or {}))
    html = ALIGN.sub(r'\1 align="\2"', MarkdownWithMath(renderer=renderer).render(source))
    html = cleaned(html, ids=course, boxes=boxes)  # alignment is the only style that a table has
    # Formgrader's own tables have no padding
    html = html.replace("<table>", '<table class="table table-condensed">')
    parts = CODE.split(html)
    return "".join(part if CODE.match(part) else FORMULA.sub(formula, part) for part in parts)


def cleaned(html: str, ids: bool = False, boxes: bool = False) -> str:
    """Clean untrusted HTML, such as a table in an output: only the tags that text uses, no scripts.

    The result has none of the page's classes or ids, which could be used to imitate the page's own text.
    Colours of code are kept. ids: keep the ids of headings. boxes: keep the classes of boxes.
    """
    import bleach

    attributes = {"*": ["title", "align"], "a": ["href"], "img": picture, "span": coloured, "div": coloured}
    attributes |= {"div": ["class", "title", "align"]} if boxes else {}
    attributes |= {f"h{level}": ["title", "align", "id"] for level in range(1, 7)} if ids else {}
    protocols = ["http", "https", "mailto", "data"]
    return bleach.clean(NO_TEXT.sub("", html), TAGS, attributes, protocols=protocols, strip=True)


def coloured(tag: str, name: str, value: str) -> bool:
    """Return whether this attribute belongs to highlighted code, or is allowed on every tag."""
    return name in ("title", "align") or (name == "class" and bool(COLOUR[tag].fullmatch(value)))


def in_line(source: str) -> str:
    """Convert a line of Markdown, such as a title, to HTML: emphasis, code, formulas; no links or blocks."""
    import bleach

    text = source.strip()
    html = markdown(text).strip()
    paragraph = html.startswith("<p>") and html.endswith("</p>") and html.count("<p>") == 1
    if not paragraph:  # "1. …" would begin a list
        return bleach.clean(text)
    parts = MATH.split(html.removeprefix("<p>").removesuffix("</p>"))
    return "".join(
        part if MATH.match(part) else bleach.clean(part, ("code", "em", "i", "strong", "b"), strip=True)
        for part in parts
    )


def picture(tag: str, name: str, value: str) -> bool:
    """Return whether this attribute of an <img> is allowed. An external image would reveal who views it."""
    return name in ("alt", "title", "width", "height") or (name == "src" and value.startswith("data:image/"))


@cache
def mathml(text: str, display: str) -> str:
    from latex2mathml.converter import convert

    return convert(text, display=display)


def formula(found: re.Match[str]) -> str:
    """Return a formula as MathML, or unchanged if it is not a formula."""
    from html import unescape

    block, inline = found.groups()
    try:
        return mathml(unescape(block or inline), "block" if block else "inline")
    except Exception:  # whatever the converter fails on, because TeX itself is readable, too
        return f"<code>{found.group()}</code>"
