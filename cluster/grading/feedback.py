"""What a student's feedback shows: never a hidden check, nor how one failed; where to look again.

Its parts are named in nbgrader_config.py: preprocessors that read the marks, hide, list the checks and
explain, and the exporter. Its pages (templates/teach) work without a network: no script, mathematics as
MathML, and a policy that lets nothing be loaded.
"""

import ast
import re
from pathlib import Path

from nbconvert.exporters import HTMLExporter
from nbconvert.preprocessors import Preprocessor
from nbgrader.preprocessors import GetGrades
from traitlets import Bool

from cluster.grading.engine.outputs import HIDDEN

INSTEAD = "# (hidden checks)"
NOT_GRADED = "NotGraded: "
NOTHING = "No response."  # what nbgrader says of an empty answer
POINTS = re.compile(r"\s*\(\d+(\.\d+)? points?\)\.?")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
SCRIPTS = re.compile(r"<script\b.*?</script\s*>|<link\b[^>]*>", re.DOTALL | re.IGNORECASE)
# JupyterLab's viewer gives the page a base of its own, in the <base> that it finds, and with that a link to a
# check would leave the page: here, after the policy, a base counts for nothing.
POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;'
    " style-src 'unsafe-inline'; base-uri 'none'\">\n<base target=\"_self\">"
)


class Marks(GetGrades):
    """nbgrader's step that reads the marks, and whether a person has to look at one before it counts."""

    def _get_score(self, cell, resources):
        super()._get_score(cell, resources)
        name = cell.metadata.nbgrader["grade_id"]
        grade = self.gradebook.find_grade(name, self.notebook_id, self.assignment_id, self.student_id)
        cell.metadata.nbgrader["waiting"] = bool(grade.needs_manual_grade)


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
    # A line of a traceback may have been broken, that of the error's value is whole.
    shown = ANSI.sub("", "\n".join([*traceback, output.get("evalue", ""), output.get("text", "")]))
    if secret and output.output_type == "stream":
        return type(output)(output_type="stream", name="stdout", text="")
    if not secret and not any(line in shown for line in lines):
        return output
    said = "A hidden check failed: the visible cases are right, another shape, size or value is not."
    return type(output)(output_type="error", ename="HiddenCheck", evalue=said, traceback=[said])


class Contents(Preprocessor):
    """The list of checks and comments that heads the page, and what is to be said of the whole submission."""

    enabled = Bool(True, help="Whether the page has a list of checks.").tag(config=True)

    def preprocess(self, notebook, resources):
        about = resources["nbgrader"]
        about["checks"] = [listed(cell) for cell in notebook.cells if worth_a_line(cell)]
        about["banners"] = sorted(
            {said[11:] for _, said in failures(notebook) if said.startswith(NOT_GRADED)}
        )
        about["whole"] = not notebook.metadata.get("unreadable")
        about["title"] = heading(notebook.cells) or about["assignment"]
        if not about["whole"]:  # there is no work to show, only the checks' text
            notebook.cells = []
            about["banners"].append("It could not be graded so far; a person will look at it.")
        return notebook, resources


def worth_a_line(cell):
    """Is this cell one with points, or one with a comment that a person wrote?"""
    role = cell.metadata.get("nbgrader", {})
    return role.get("grade") or role.get("task") or role.get("comment", NOTHING) not in (None, "", NOTHING)


def listed(cell):
    """What the template shows of a cell: nbgrader's metadata and a title."""
    role = cell.metadata.nbgrader
    role["title"] = title(cell)
    return role


def title(cell):
    """The first line of a check's docstring, without its points; else what kind of cell it is."""
    role = cell.metadata.nbgrader
    if not role.get("solution") and cell.cell_type == "code":
        try:
            words = ast.get_docstring(ast.parse(cell.source)) or ""
        except SyntaxError:  # a magic of IPython's
            words = ""
        return POINTS.sub("", words.partition("\n")[0]).replace("`", "").rstrip(".") or role["grade_id"]
    return "Written answer" if role.get("grade") else "Task" if role.get("task") else "Your answer"


def heading(cells):
    """The first heading of the first order in a notebook's texts, or ""."""
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = re.search(r"^# +(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


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
                    cells.append(new_markdown_cell(words, metadata={"hint": True}))
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
    """A page of its own, without what needs a network or could run."""

    def __init__(self, **kw):
        # Given as arguments, these count more than the template that nbgrader names in the configuration.
        folder = str(Path(__file__).with_name("templates"))
        super().__init__(**kw | {"template_name": "teach", "extra_template_basedirs": [folder]})

    def from_notebook_node(self, nb, resources=None, **kw):
        page, resources = super().from_notebook_node(nb, resources, **kw)
        page = SCRIPTS.sub("", page)
        return page.replace("<head>", f"<head>\n{POLICY}", 1), resources
