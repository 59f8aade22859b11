"""Create checks from AUTOTEST directives as nbgrader's step does, with progress reports and early stops."""

import time
from typing import Any
from unittest import mock

from jupyter_client import BlockingKernelClient, KernelManager
from nbformat import NotebookNode
from nbgrader.preprocessors import InstantiateTests, SaveCells, instantiatetests

REFUSED = "Refused: "  # begins a line of the log that says why
FAILED = "The solution failed in the cell"  # begins a line of the log, followed by its name
EVERY = 15.0  # seconds between two progress lines
STARTING = 300  # seconds for a kernel to start


class Instantiate(InstantiateTests):
    """Execute a solution, as nbgrader's own step does, regularly reporting which cell is running."""

    last = cells = -1  # index of the last cell that is executed; number of cells

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Return the notebook with its directives replaced."""
        self.cells, self.last = len(nb.cells), self.end(nb)
        self.told = time.monotonic()
        with mock.patch.object(instantiatetests, "start_new_kernel", self.start_kernel):
            return super().preprocess(nb, resources)

    def start_kernel(self, kernel_name: str, **options: Any) -> tuple[KernelManager, BlockingKernelClient]:
        """Start a kernel like jupyter_client's start_new_kernel, but with the course's configuration.

        That function takes no configuration. Its kernels use TCP, where two of them can choose the same port.
        """
        manager = KernelManager(kernel_name=kernel_name, config=self.config)
        manager.start_kernel(**options)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=STARTING)
        except RuntimeError:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            raise
        return manager, client

    def end(self, nb: NotebookNode) -> int:
        """Return the index of the last cell to execute."""
        return len(nb.cells) - 1

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Return the cell, executed and with its directives replaced unless it comes after the last one."""
        if index > self.last:
            return cell, resources
        if time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            number = f"cell {index + 1} of {self.last + 1}"
            print(f"  executing the solution, including its jobs: {number}", flush=True)
        try:
            return super().preprocess_cell(cell, resources, index)
        except Exception:
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "without a name")
            self.log.error("%s %s (cell %s)", FAILED, name, index + 1)
            raise


class UpToTheLast(Instantiate):
    """Execute a notebook up to its last directive, but no further.

    nbgrader's own step executes the whole notebook in a kernel. Later cells cannot change a value before
    them, so the release is the same, but errors of the solution in these cells are not found.
    """

    def end(self, nb: NotebookNode) -> int:
        """Return the index of the last cell with a directive; -1 if there is none."""
        directives = (
            i
            for i, cell in enumerate(nb.cells)
            if cell.cell_type == "code" and self.autotest_delimiter in cell.source
        )
        return max(directives, default=-1)


class Save(SaveCells):
    """Save the cells in the gradebook, and refuse changes that affect grades in the gradebook."""

    adds = False  # whether cells may be added to an assignment that has been graded

    def _create_notebook(self, nb: NotebookNode) -> None:
        """Save a notebook's cells. To remove one from a graded assignment would remove grades."""
        kinds = ("grade", "solution", "task", "source")
        try:
            super()._create_notebook(nb)
            return
        except RuntimeError:  # cells were added or removed
            new, old = (
                set[str]().union(*(getattr(self, f"{when}_{kind}_cells") for kind in kinds))
                for when in ("new", "old")
            )
            added, removed = sorted(new - old), sorted(old - new)
        if removed or not added:
            names = f"has no {', '.join(removed)}" if removed else "changes the kind of a cell"
            self.log.error(
                f"{REFUSED}it {names}, but students have grades for it in the gradebook, which would be lost."
                " Keep the cell; a check that shall not count gets 0 points"
            )
            raise
        if not self.adds:
            self.log.error(
                f"{REFUSED}it adds {', '.join(added)} to an assignment that has been graded. All grades are"
                " kept, and new checks have no points until `grade run` grades the class again. To go on, use"
                " `release --add-cells`"
            )
            raise
        for kind in kinds:
            save = getattr(self.gradebook, f"update_or_create_{kind}_cell")
            for name, facts in getattr(self, f"new_{kind}_cells").items():
                save(name, self.notebook_id, self.assignment_id, **facts)
        super()._create_notebook(nb)


class SaveAll(Save):
    """Do what Save does, and add cells to an assignment that has been graded."""

    adds = True
