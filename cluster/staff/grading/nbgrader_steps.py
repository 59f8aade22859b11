"""`grade run` behind nbgrader's own command and Formgrader's button, through nbgrader's plug-in points.

nbgrader_config.py names these classes: Autograde's reader of submissions, and the step that replaces its own.
"""

from __future__ import annotations

from typing import Any, TextIO

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.preprocessors import NbGraderPreprocessor

from ..course import Course, CourseError
from . import grade


class Blank(NotebookExporter):
    """An empty notebook instead of the student's, which `Judge` reads with the course's precautions."""

    def from_file(
        self, file_stream: TextIO, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        return self.from_notebook_node(nbformat.v4.new_notebook(), resources=resources, **kw)


class Judge(NbGraderPreprocessor):
    """Grade one student as `grade run` does, and continue with the graded notebook."""

    def preprocess(
        self, notebook: nbformat.NotebookNode, resources: dict[str, Any]
    ) -> tuple[nbformat.NotebookNode, dict[str, Any]]:
        """Return the graded notebook. Raises CourseError if there is no verdict, before any score changes."""
        context = resources["nbgrader"]
        student = context["student"]
        coursedir = self.parent.parent.coursedir  # of the Autograde whose exporter contains this step
        course = Course(coursedir.root)
        course.coursedir, course.config = coursedir, self.config
        head = grade.Coordinator(course, context["assignment"], grade.Local(1), engine=grade.ENGINE)
        path = course.folder("autograded", student, head.assignment) / f"{context['notebook']}.ipynb"
        path.unlink()  # what Blank returned, which must not be taken for the graded notebook
        result = head.grade([student])
        if why := result.ungraded.get(student):
            raise CourseError(f"{student} was not graded and has lost no points: {why}. Grade again")
        if problem := result.unreadable.get(student):
            text = "%s: %s → 0 points for now, marked for manual grading"
            self.log.warning(text, student, problem)
        for note in result.notes.get(student, ()):
            self.log.warning("%s: %s", student, note)
        return nbformat.read(path, as_version=4), resources
