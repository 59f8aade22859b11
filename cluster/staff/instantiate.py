"""The step of nbgrader that turns AUTOTEST directives into checks, where cells below the last do not run."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import InstantiateTests


class UpToTheLast(InstantiateTests):
    """Executes a notebook up to its last directive and leaves the rest alone.

    nbgrader's own step executes the whole notebook in a kernel. What stands below the last directive cannot
    change a value above it, so the text that is written is the same; the solution's own errors below it are
    not found.
    """

    last = -1  # the index of the last cell with a directive

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """The notebook with its directives replaced."""
        found = [
            i
            for i, cell in enumerate(nb.cells)
            if cell.cell_type == "code" and self.autotest_delimiter in cell.source
        ]
        self.last = max(found, default=-1)
        return super().preprocess(nb, resources)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """The cell, executed and with its directives replaced where it stands above the last or holds it."""
        if index > self.last:
            return cell, resources
        return super().preprocess_cell(cell, resources, index)
