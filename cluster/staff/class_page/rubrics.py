"""In Formgrader, below each written answer, its rubric and sample answers from the solution.

They are inserted into the instructor's page, not into the graded notebook, so feedback does not contain them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..course import CourseError
from ..release import twins, wrong_solutions

if TYPE_CHECKING:
    from nbformat import NotebookNode

MARKS = re.compile(r"^.*\b(BEGIN|END) SOLUTION\b.*\n?", re.MULTILINE)
PANEL = """<div class="panel panel-info rubric">
<div class="panel-heading">Rubric and sample answers: visible only to instructors</div>
<div class="panel-body">

{}

</div></div>"""


def of(root: Path, assignment: str, notebook: str) -> dict[str, str]:
    """Return {written answer: its sample solution}, as Markdown; {} if no solution is readable."""
    try:
        source = twins.notebook(root / "solutions" / assignment / f"{notebook}.py")
    except (OSError, CourseError):
        return {}
    written = wrong_solutions.written(source)
    texts = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in source.cells}
    return {name: MARKS.sub("", texts[name]).strip() for name in written}


def shown(
    root: Path, notebook: NotebookNode, resources: dict[str, Any]
) -> tuple[NotebookNode, dict[str, Any]]:
    """Add the rubrics below the answers on Formgrader's page of a submission."""
    from nbformat.v4 import new_markdown_cell

    rubrics = of(root, resources["assignment_id"], resources["notebook_id"])
    resources["rubrics"] = {PANEL.format(text) for text in rubrics.values()}
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if text := rubrics.get(cell.metadata.get("nbgrader", {}).get("grade_id", "")):
            cells.append(new_markdown_cell(PANEL.format(text)))
    notebook.cells = cells
    return notebook, resources
