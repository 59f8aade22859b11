"""The last step for everything on a page that a student has written: HTML with an allow-list of tags and
attributes. Whatever changes HTML of a student's must run before it."""

from __future__ import annotations

import base64
import io
import re
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import nh3


Kind = Literal["output", "text", "line"]


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


TEXT = names(
    "a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img li ol p pre s span strong"
    " sub sup table tbody td th thead tr ul"
)
# MathML's elements for presentation; not annotations, which can contain HTML, and actions.
FORMULA = names(
    "math merror mfrac menclose mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms"
    " mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover"
)
FORMULA_ATTRIBUTES = names(
    "accent accentunder columnalign columnlines columnspacing columnspan depth display displaystyle fence"
    " form frame height largeop linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize"
    " minsize movablelimits notation rowalign rowlines rowspacing rowspan rspace scriptlevel separator"
    " stretchy symmetric voffset width"
)
# Words, colours and lengths. (Pages clip what a student has written, because lengths add up.)
WORD = r"[a-z][a-z-]{0,30}|#[0-9a-f]{3,8}"
LENGTH = r"[+-]?(?:\d(?:\.\d{1,4})?|\.\d{1,4})(?:em|ex)?|[+-]?\d{1,2}(?:\.\d{1,4})?(?:px|pt|mu)"
FORMULA_VALUE = re.compile(rf"(?:{WORD}|{LENGTH})(?: (?:{WORD}|{LENGTH})){{0,20}}", re.IGNORECASE)
LINE = frozenset({"b", "code", "em", "i", "strong"})
# The colours of highlighted code and of output with terminal colours.
COLOUR = {
    "span": re.compile(r"[a-z][a-z0-9]?|ansi-[a-z-]+(?: ansi-[a-z-]+)*"),
    "div": re.compile(r"highlight(?: hl-[a-z0-9]+)?"),
}
# No links into the server of the page, whose addresses can do something, and none with a script.
LINK = re.compile(r"(?:https?://[^/\\?#\s]|mailto:|#)[^\x00-\x20\x7f]*", re.IGNORECASE)
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,([A-Za-z0-9+/=\s]+)")  # SVG can freeze a page
PIXELS = 50_000_000  # maximum of a picture
SIZE = re.compile(r"\d{1,4}%?")
TABLE = "table table-condensed"  # without these classes, Formgrader's tables have no padding


def clean(html: str, kind: Kind = "output", *, ids: bool = False, boxes: bool = False) -> str:
    """Return HTML without anything of a student's that can run, load, or look like the page's own text.

    kind: a "line" keeps only what a title has (emphasis, code and formulas), and the tables of a "text" get
    the look of Formgrader's. Classes are removed except for colours. ids: keep the ids of headings. boxes:
    keep the classes of boxes (<div>).
    """
    return cleaner(kind, ids, boxes).clean(html)


@cache
def cleaner(kind: Kind, ids: bool, boxes: bool) -> nh3.Cleaner:
    import nh3

    def kept(tag: str, name: str, value: str) -> str | None:
        try:
            return value if allowed(tag, name, value, boxes) else None
        except Exception:  # nh3 would keep the attribute
            return None

    attributes = {tag: set(FORMULA_ATTRIBUTES) for tag in FORMULA}
    if kind != "line":
        attributes |= {"*": {"title", "align"}, "a": {"href"}, "span": {"class"}, "div": {"class"}}
        attributes |= {"img": {"alt", "width", "height", "src"}}
        attributes |= {f"h{level}": {"id"} for level in range(1, 7)} if ids else {}
    return nh3.Cleaner(
        tags=FORMULA | (LINE if kind == "line" else TEXT),
        attributes=attributes,
        attribute_filter=kept,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel=None,
        set_tag_attribute_values={"table": {"class": TABLE}} if kind == "text" else {},
    )


def allowed(tag: str, name: str, value: str, boxes: bool) -> bool:
    """Return whether an attribute of the allow-list may have this value."""
    if tag in FORMULA:
        return FORMULA_VALUE.fullmatch(value) is not None
    if name == "class":
        if tag == "table":
            return value == TABLE
        return (boxes and tag == "div") or COLOUR[tag].fullmatch(value) is not None
    if name == "src":  # an external image would reveal who views the page
        return (found := PICTURE.fullmatch(value)) is not None and is_picture(found[1])
    if name == "href":
        return LINK.fullmatch(value) is not None
    return name not in ("width", "height") or SIZE.fullmatch(value) is not None


def is_picture(data: object) -> bool:
    """Return whether this is the base64 of a picture that a browser can draw quickly."""
    from PIL import Image

    try:
        file = io.BytesIO(base64.b64decode(str(data)))
        with Image.open(file, formats=("PNG", "JPEG", "GIF", "WEBP")) as picture:  # without decoding it
            return picture.width * picture.height <= PIXELS
    except Exception:  # a broken or hostile file can raise anything
        return False
