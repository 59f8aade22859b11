"""Texts of a student's that would run a script in the browser of whoever reads them, and how to find them.
`RUN` stands for the script."""

import re
from collections.abc import Iterator

import html5lib
import nbformat

HTML = {
    "image": "<img src=x onerror=RUN>",
    "script": "<script>RUN</script>",
    "svg": "<svg onload=RUN></svg>",
    "details": "<details open ontoggle=RUN>fold</details>",
    "link": '<a href="javascript:RUN">click</a>',
    "link to a file": '<a href="files/javascript:RUN">click</a>',
    "frame": '<iframe srcdoc="<script>RUN</script>"></iframe>',
    "field": "<input autofocus onfocus=RUN>",
    "form": '<form action="javascript:RUN"><button>click</button></form>',
    "link in a drawing": '<svg><a xlink:href="javascript:RUN"><text y=9>click</text></a></svg>',
    "video": "<video><source onerror=RUN></video>",
    "animation": "<style>@keyframes x{}</style><b style='animation:x 1s' onanimationstart=RUN>b</b>",
    "pointer": "<div onpointerover=RUN>hover</div>",
    "object": '<object data="data:text/html,<script>RUN</script>"></object>',
    "mutation": "<math><mtext><table><mglyph><style><!--</style><b title='&lt;img src onerror=RUN&gt;'>",
    "annotation": '<math><annotation-xml encoding="text/html"><img src=x onerror=RUN></annotation-xml>',
    "attribute": '<b title="<table> onmouseover=RUN x=">hover</b>',
    "link into the server": '<a href="../?path=.grading">a</a><a href="//x/y">b</a><a href="\\x">c</a>',
    "drawing": '<img src="data:image/svg+xml,<svg/>">',
    "data with a control": '<a href="da&#9;ta:text/html,<script>RUN</script>">click</a>',
    "template": "<template><img src=x onerror=RUN></template><img src=x onerror=RUN>",
}
TEX = {
    "text": r"$\text{<img/src/onerror=RUN>}$",
    "text on a line": "$$\n\\text{<svg/onload=RUN>}\n$$",
    "operator": r"$\operatorname{<img/src/onerror=RUN>}$",
    "box": r"$\mbox{<details/open/ontoggle=RUN>}$",
    "references": r"$\text{&lt;img/src/onerror=RUN&gt;}$",
    "link in a formula": r"$\href{javascript:RUN}{click}$",
    "style": r'$\style{x" onpointerover="RUN}{hover}$',
    "class": r'$\class{x" onpointerover="RUN}{hover}$',
    "colour": r'$\color{red"onpointerover="RUN}hover$',
    "delimiter": r"$\left<img/src/onerror=RUN> x\right)$",
    "tag": r"$\tag{<img/src/onerror=RUN>} x$",
    "attribute of an image": r'<img alt="$\text{x}$" src="data:," title="$\mathrm{"onerror=RUN //}$">',
    "heading": "# $\\text{<img/src/onerror=RUN>}$",
    "table": "| a |\n|---|\n| $\\text{<img/src/onerror=RUN>}$ |",
    "environment": "\\begin{align}\\text{<img/src/onerror=RUN>}\\end{align}",
}
MARKDOWN = {
    "link": "[click](javascript:RUN)",
    "link to a file": "[click](files/javascript:RUN)",
    "data": "[click](data:text/html,<script>RUN</script>)",
    "alternative text": '![" onerror=RUN x="](x)',
    "title": '![a](x "\\" onerror=RUN x=\\"")',
    "language": '```" onpointerover=RUN x="\nx\n```',
    "diagram": "```mermaid\n</pre><img src=x onerror=RUN>\n```",
    "reference": '<javascript:RUN>\n\n[click][a]\n\n[a]: javascript:RUN "x"',
}
ALL = {
    f"{kind}: {name}": text
    for kind, texts in (("HTML", HTML), ("TeX", TEX), ("Markdown", MARKDOWN))
    for name, text in texts.items()
}
PARTS = sorted(
    {*ALL.values(), *(part for text in ALL.values() for part in re.split(r"([<>$\"'`{}\s])", text) if part)}
)
SVG, MATH = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1998/Math/MathML}"
RUNS = {
    "script",
    "iframe",
    "object",
    "embed",
    "base",
    "meta",
    "link",
    "form",
    "style",
    "template",
    "svg",
    "foreignobject",
}


def numbered() -> dict[str, str]:
    """Return {number: payload}; the script of each calls `ran` with its number."""
    return {str(number): text.replace("RUN", f"ran({number})") for number, text in enumerate(ALL.values())}


def faults(html: str) -> Iterator[str]:
    """Yield what could run, load something or lead into the page's server."""
    for element in html5lib.parseFragment(html).iter():
        name = str(element.tag).rpartition("}")[2].lower()
        if name in RUNS:
            yield f"<{name}>"
        for attribute, value in element.attrib.items():
            attribute = str(attribute).rpartition("}")[2].lower()
            address = re.sub(r"[\x00-\x20]", "", value).lower()
            if attribute.startswith("on") or attribute in ("style", "srcdoc", "name", "action", "formaction"):
                yield f"{attribute}={value!r}"
            if attribute in ("href", "xlink:href") and not re.match(r"https?://[^/\\?#]|mailto:|#", address):
                yield f"{attribute}={value!r}"
            if attribute in ("src", "data") and not re.match(
                "data:image/(png|jpeg|gif|webp);base64,", address
            ):
                yield f"{attribute}={value!r}"


def cells() -> list[nbformat.NotebookNode]:
    """Return cells of a student's, with the payloads as text, code, outputs, names of images and metadata."""
    new, found = nbformat.v4, numbered()
    made = [new.new_markdown_cell(text) for text in found.values()]
    made += [new.new_raw_cell(text) for text in found.values()]
    for text in found.values():
        cell = new.new_code_cell(f"# {text}", metadata={"tags": [text.replace(",", "")], "alt": text})
        cell.outputs = [
            new.new_output("display_data", {"text/plain": text, kind: text})
            for kind in (
                "text/html",
                "text/markdown",
                "text/latex",
                "text/plain",
                "image/svg+xml",
                "image/png",
                "application/javascript",
                "application/vnd.jupyter.widget-view+json",
            )
        ]
        cell.outputs += [
            new.new_output(
                "stream", name="stdout", text=f"\x1b[31m{text}\x1b[0m \x1b]8;;javascript:alert(1)\x07x"
            ),
            new.new_output("error", ename=text, evalue=text, traceback=[text, f"\x1b[38;5;{text}m"]),
            new.new_output(
                "display_data", {"image/png": "AA"}, metadata={"image/png": {"alt": text, "width": text}}
            ),
            new.new_output("display_data", {"text/html": text}, metadata={"text/html": {"isolated": True}}),
        ]
        made.append(cell)
    pasted = new.new_markdown_cell("![a](attachment:a.png)")
    pasted["attachments"] = {"a.png": {'image/png"onerror="ran(0)': 'x" onerror="ran(0)'}}
    return [*made, pasted]


def attributes(html: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield (element, value) of an attribute in a part of a page."""
    for element in html5lib.parseFragment(html).iter():
        if name in element.attrib:
            yield str(element.tag).rpartition("}")[2], element.attrib[name]
