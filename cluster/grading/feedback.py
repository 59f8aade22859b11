"""What of the checks a student's feedback shows: never a hidden check, nor how one failed in detail."""

import re

from nbconvert.preprocessors import Preprocessor
from traitlets import Bool

HIDDEN = re.compile(r"[ \t]*### BEGIN HIDDEN TESTS\n(.*?)[ \t]*### END HIDDEN TESTS[^\n]*", re.DOTALL)
INSTEAD = "# (hidden checks)"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


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
            cell.outputs = [hide(output, lines) for output in cell.outputs]
        return cell, resources


def hide(output, lines):
    """The output, or a short error in its place where it quotes one of the hidden `lines`."""
    traceback = output.get("traceback", [])
    shown = ANSI.sub("", "\n".join([*traceback, output.get("text", "")]))
    if not any(line in shown for line in lines):
        return output
    said = "A hidden check failed: the visible cases are right, another shape, size or value is not."
    return type(output)(output_type="error", ename="HiddenCheck", evalue=said, traceback=[said])
