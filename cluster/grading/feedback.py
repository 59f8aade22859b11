"""What a student's feedback shows: never a hidden check, nor how one failed; where to look again.

Three parts, named in nbgrader_config.py: a preprocessor that hides, one that explains, and the exporter. Its
pages work without a network: no script, mathematics as MathML, and a policy that lets nothing be loaded.
"""

import re
from functools import cache
from pathlib import Path

from nbconvert.exporters import HTMLExporter
from nbconvert.preprocessors import Preprocessor
from traitlets import Bool

from cluster.grading.engine.outputs import HIDDEN

INSTEAD = "# (hidden checks)"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
SCRIPTS = re.compile(r"<script\b.*?</script\s*>|<link\b[^>]*>", re.DOTALL | re.IGNORECASE)
POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;'
    " style-src 'unsafe-inline'\">"
)


class HideHiddenTests(Preprocessor):
    """Blanks the hidden checks of a graded notebook, and the outputs that quote them, for the feedback.

    Whatever a cell with hidden checks prints stays, unless it shows one of their lines; an error that comes
    out of them is reduced to the fact. The autograded notebook keeps everything, for the instructor.
    """

    enabled = Bool(True, help="Whether hidden checks are blanked.").tag(config=True)

    def preprocess_cell(self, cell, resources, index):
        lines = {line.strip() for region in HIDDEN.findall(cell.source) for line in region.splitlines()}
        lines -= {""}
        if cell.cell_type == "code" and lines:
            cell.source = HIDDEN.sub(INSTEAD, cell.source)
            secret = cell.metadata.get("hidden_failure", False)
            cell.outputs = [hide(output, lines, secret) for output in cell.outputs]
        return cell, resources


def hide(output, lines, secret=False):
    """The output, or a short error in its place where it quotes one of the hidden `lines`.

    secret: the hidden part has run and failed, so that what the cell shows may hold any hidden value.
    """
    traceback = output.get("traceback", [])
    shown = ANSI.sub("", "\n".join([*traceback, output.get("text", "")]))
    if secret and output.output_type == "stream":
        return type(output)(output_type="stream", name="stdout", text="")
    if not secret and not any(line in shown for line in lines):
        return output
    said = "A hidden check failed: the visible cases are right, another shape, size or value is not."
    return type(output)(output_type="error", ename="HiddenCheck", evalue=said, traceback=[said])


class Explain(Preprocessor):
    """Puts below each failed check which misunderstanding it may show, and where to read again."""

    enabled = Bool(True, help="Whether failed checks are explained.").tag(config=True)

    def preprocess(self, notebook, resources):
        from nbformat.v4 import new_markdown_cell

        root = Path(self.config.CourseDirectory.root)
        assignment = resources["nbgrader"]["assignment"]
        failed = frozenset(name for name, _ in failures(notebook))
        said = dict(failures(notebook))
        cells = []
        for cell in notebook.cells:
            cells.append(cell)
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in failed:
                from cluster.grading.explain import explain

                if words := explain(root, assignment, name, failed, said[name]):
                    cells.append(new_markdown_cell(words))
        notebook.cells = cells
        return notebook, resources


def failures(notebook):
    """(name, what its error says) of each check that failed."""
    for cell in notebook.cells:
        role = cell.metadata.get("nbgrader", {})
        errors = [o for o in cell.get("outputs", ()) if o.output_type == "error"]
        if role.get("grade") and errors:
            yield role["grade_id"], f"{errors[0].ename}: {errors[0].evalue}"


class Feedback(HTMLExporter):
    """nbgrader's page, without what needs a network or could run."""

    def from_notebook_node(self, nb, resources=None, **kw):
        page, resources = super().from_notebook_node(nb, resources, **kw)
        page = SCRIPTS.sub("", page)
        return page.replace("<head>", f"<head>\n{POLICY}", 1), resources


TAGS = [
    *("a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3"),
    *(
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "img",
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "span",
        "strong",
        "sub",
        "sup",
        "table",
    ),
    *("tbody", "td", "th", "thead", "tr", "ul"),
]
CODE = re.compile(r"(<pre\b.*?</pre>|<code\b.*?</code>)", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?!\s)([^$\n]+?)(?<!\s)\$(?!\d)", re.DOTALL)


def markdown(source):
    """HTML of a Markdown text that anybody may have written: no script, formulas as MathML."""
    import bleach
    from nbconvert.filters import markdown2html

    attributes = {"*": ["class", "id", "title", "align"], "a": ["href"], "img": picture}
    html = bleach.clean(
        markdown2html(source), TAGS, attributes, protocols=["http", "https", "mailto", "data"], strip=True
    )
    parts = CODE.split(html)
    return "".join(part if CODE.match(part) else FORMULA.sub(formula, part) for part in parts)


def picture(tag, name, value):
    """Is this attribute of an <img> allowed? A picture from elsewhere would tell who looks at it."""
    return name in ("alt", "title", "width", "height") or (name == "src" and value.startswith("data:image/"))


@cache
def mathml(text, display):
    from latex2mathml.converter import convert

    return convert(text, display=display)


def formula(found):
    """A formula as MathML, or as it was written where it is none."""
    from html import unescape

    block, inline = found.groups()
    try:
        return mathml(unescape(block or inline), "block" if block else "inline")
    except Exception:  # whatever the converter stumbles over: TeX can be read, too
        return f"<code>{found.group()}</code>"
