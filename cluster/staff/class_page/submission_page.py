"""Formgrader's page of a submission, rendered in a process with limits.

Formgrader shows all submissions and shares the class page's process, so a student's text must not delay it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import limited
from ..course import SubmissionError
from . import rubrics

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from traitlets.config import Config

SECONDS = 20  # seconds of CPU time per page


class SubmissionPage:
    """A replacement for the HTMLExporter of Formgrader's pages. config: that exporter's configuration.

    nonce: of the policy that the page is sent with.
    """

    def __init__(self, config: Config, root: Path, nonce: str = "", seconds: int = SECONDS):
        self.given, self.seconds = (config, root, nonce), seconds

    def from_filename(self, filename: str, resources: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the page (HTML) of a graded notebook, without the student's text if a limit is reached."""
        limited.preload(__name__, "nbconvert.exporters")
        try:
            page = limited.call(rendered, *self.given, filename, resources, seconds=self.seconds)
        except SubmissionError as why:
            page = limited.call(rendered, *self.given, filename, resources, str(why))
        return page, resources


def rendered(
    config: Config, root: Path, nonce: str, filename: str, resources: dict[str, Any], left_out: str = ""
) -> str:
    """Return a graded notebook's page. left_out: why the student's text and outputs are missing, or ""."""
    import nbformat

    from ..results.student_page import StudentPage

    exporter = StudentPage(config=config, nonce=nonce)
    notebook = nbformat.read(filename, as_version=4)
    if left_out:
        for cell in notebook.cells:
            leave_out(cell, f"Not shown here: the page with this cell {left_out}. Open the notebook itself.")
    notebook, resources = rubrics.shown(root, notebook, resources)
    return exporter.from_notebook_node(notebook, resources=resources)[0]


def leave_out(cell: NotebookNode, instead: str) -> None:
    """Replace the student's text and the output of the student's code."""
    role = cell.metadata.get("nbgrader", {})
    if not role.get("locked") or role.get("solution"):
        cell.source = f"# {instead}" if cell.cell_type == "code" else instead
        cell.pop("attachments", None)
    if cell.cell_type == "code":
        cell.outputs = []
