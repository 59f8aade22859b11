"""Pages that show a student's notebook: nbconvert's HTML, with everything of the student's cleaned last.

Three rules hold for each page, whatever its template. A filter that makes HTML cleans it as its last step,
and nothing changes the result. Everything else that a template prints is escaped. Only the templates' own
scripts and styles carry the nonce without which the page's policy forbids them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import BaseLoader, Environment
from markupsafe import Markup, escape
from nbconvert.exporters import HTMLExporter, TemplateExporter
from nbconvert.filters import DataTypeFilter, ansi2html
from nbconvert.filters.highlight import Highlight2HTML
from traitlets.config import Config

from ..course import SubmissionError
from .clean import clean, is_picture
from .markdown import in_cell

if TYPE_CHECKING:
    from nbformat import NotebookNode

TEMPLATES = str(Path(__file__).with_name("templates"))
LARGEST = 40 * 2**20  # maximum characters of a page
MOST = 300_000  # maximum tags of a page
OUTPUT = ("output_type", "name", "text", "data", "execution_count", "ename", "evalue", "traceback")
WIDGET = "application/vnd.jupyter.widget-view+json"
TAG = re.compile(r"<(script|style)\b")
# in a template's script: var a = "{{ a }}/b"
STRING = re.compile(r'(var \w+ = )"\{\{ ([\w.]+) \}\}([^"{]*)"')


class WithNonces(BaseLoader):
    """Templates whose scripts and styles carry the variable `nonce`, and whose scripts get values as JSON."""

    def __init__(self, loader: BaseLoader):
        self.loader = loader

    def get_source(self, environment: Environment, template: str) -> tuple:
        """Return a template's source."""
        source, *rest = self.loader.get_source(environment, template)
        source = STRING.sub(r'\1{{ \2 | tojson }} + "\3"', source)
        return TAG.sub(r'<\1 nonce="{{ nonce }}"', source), *rest


def cleaned(text: str | bytes) -> Markup:
    """Return cleaned HTML: the filter `clean_html` of a page."""
    return Markup(clean(text.decode(errors="replace") if isinstance(text, bytes) else str(text)))


def coloured(convert: Callable[..., str]) -> Callable[..., Markup]:
    """Return a filter that converts text by this function and cleans the result."""

    def apply(text: str, **more: Any) -> Markup:
        try:
            return cleaned(convert(text, **more))
        except Exception:  # nbconvert fails on some sequences of a terminal, which are readable as text
            return Markup(f"<pre>{escape(text)}</pre>")

    return apply


def known(output: NotebookNode) -> NotebookNode:
    """Return an output without what a page does not need: nbconvert prints the width of an image without
    quotes, takes images from files that an output names, and shows an output in a frame if it asks for it."""
    kept = {name: output[name] for name in OUTPUT if name in output}
    if "data" in kept:
        shown = {k: v for k, v in kept["data"].items() if not k.startswith("image/") or is_picture(v)}
        if len(shown) < len(kept["data"]) and not any(kind.startswith("image/") for kind in shown):
            why = "(an image that is not shown here: SVG, broken or too large)"
            shown["text/plain"] = f"{shown.get('text/plain', '')} {why}".lstrip()
        kept["data"] = type(output)(shown)
    about: dict[str, Any] = {}
    for kind, found in output.get("metadata", {}).items():
        if isinstance(found, dict):
            sizes = {k: found[k] for k in ("width", "height") if isinstance(found.get(k), int | float)}
            about[kind] = sizes | ({"alt": found["alt"]} if isinstance(found.get("alt"), str) else {})
    return type(output)(kept | {"metadata": type(output)(about)})


class StudentPage(HTMLExporter):
    """An HTMLExporter for pages with a student's text. nonce: of the policy that the page is sent with."""

    def __init__(self, nonce: str = "", config: Config | None = None, **kw: Any):
        self.nonce, config = nonce or secrets.token_urlsafe(18), config or Config()
        folders = [*config.HTMLExporter.get("extra_template_basedirs", ()), TEMPLATES]
        kw |= {"extra_template_basedirs": folders, "sanitize_html": True}  # else templates print scripts
        super().__init__(config=config, **kw)

    def default_filters(self) -> Iterator[tuple[str, Callable]]:
        yield from super().default_filters()
        yield "clean_html", cleaned
        yield "markdown2html", in_cell
        yield "ansi2html", coloured(ansi2html)
        yield "strip_files_prefix", lambda text: text  # nbconvert's own makes "files/javascript:…" a script
        yield "escape_html", escape
        yield "escape_html_keep_quotes", escape

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.autoescape = True
        environment.loader = WithNonces(environment.loader)
        environment.globals["nonce"] = self.nonce
        return environment

    def _preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        nb, resources = super()._preprocess(nb, resources)
        styles = resources.get("inlining", {})
        styles["css"] = [Markup(style) for style in styles.get("css", ())]
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.execution_count = cell.execution_count or " "
                cell.metadata.setdefault("alt", "A figure without a description")
                cell.outputs = [known(output) for output in cell.outputs]
            if cell.cell_type == "raw":  # the template puts it into the page without a frame
                cell.source = f"<pre>{escape(cell.source)}</pre>"
        return nb, resources

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Return the page. HTMLExporter's own method would parse and print it again, after its parts were
        cleaned."""
        resources = self._init_resources(resources or {})
        about = nb.metadata.get("language_info", {})
        colour = Highlight2HTML(pygments_lexer=about.get("pygments_lexer", about.get("name")), parent=self)
        kinds = DataTypeFilter(parent=self)
        self.register_filter("highlight_code", coloured(colour))
        # Widgets need scripts. nbconvert's filter for them fails on data that only look like one.
        self.register_filter(
            "filter_data_type", lambda data: kinds({k: data[k] for k in data if k != WIDGET})
        )
        page, resources = TemplateExporter.from_notebook_node(self, nb, resources, **kw)
        if len(page) > LARGEST or page.count("<") > MOST:
            raise SubmissionError("is too large for a browser")
        return page, resources
