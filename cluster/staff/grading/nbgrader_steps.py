"""The autograder behind nbgrader's own command and Formgrader's button, through nbgrader's plug-in points.

nbgrader_config.py names these classes: Autograde's reader of submissions, and two steps that replace Execute
and SaveAutoGrades. They share prepared submissions and verdicts with `grade run`, in both directions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from ..course import CourseError, SubmissionError
from ..submissions import due_dates, grading_folder, prepare
from ..work_files import work_files
from . import grade, gradebook
from .driver import drive_one

Prepared = tuple[nbformat.NotebookNode, dict[str, Any]]  # (notebook, resources), as nbconvert requires


class Step(NbGraderPreprocessor):
    """A step of Autograde that knows the course and the assignment."""

    def open(self, notebook: nbformat.NotebookNode, resources: dict[str, Any]) -> prepare.Submission:
        """Return the submission that this step processes, with `problem` if Reader could not read it."""
        context = resources["nbgrader"]
        self.assignment, student = context["assignment"], context["student"]
        self.coursedir = self.parent.parent.coursedir  # of the Autograde whose exporter contains this step
        self.source = prepare.Source.from_gradebook(self.coursedir, self.assignment)
        folder = Path(
            self.coursedir.format_path(self.coursedir.submitted_directory, student, self.assignment)
        )
        submission = prepare.Submission(student, folder, context["notebook"], notebook)
        submission.path = folder / f"{submission.name}.ipynb"
        submission.problem = notebook.metadata.get("unreadable", "")
        submission.for_student = list(notebook.metadata.get("told", ()))
        try:
            submission.files = work_files(folder)
        except SubmissionError as why:
            raise CourseError(f"{student} was not graded: {why}") from None
        return submission


class Reader(NotebookExporter):
    """Read a notebook, or return an empty one that states the reason if it cannot be read.

    The output of Sanitise, which nbgrader keeps on disk until it is graded, is read unchanged.
    """

    def from_file(
        self, file_stream: TextIO, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        assert self.parent is not None
        path, folders = Path(file_stream.name), self.parent.coursedir
        if Path(folders.format_path(folders.autograded_directory, "-", "-")).parents[1] in path.parents:
            return super().from_file(file_stream, resources=resources, **kw)
        submission = prepare.Submission("", path.parent, path.stem)
        notebook = prepare.parse(submission, path)
        if notebook is None:
            notebook = nbformat.v4.new_notebook(metadata={"unreadable": submission.problem})
        notebook.metadata["told"] = submission.for_student
        return self.from_notebook_node(notebook, resources=resources, **kw)


class Sanitise(Step):
    """Prepare a notebook for grading, with the same steps as `grade run`."""

    def preprocess(self, notebook: nbformat.NotebookNode, resources: dict[str, Any]) -> Prepared:
        work = self.open(notebook, resources)
        sanitiser = prepare.Sanitiser(self.config, self.source)
        if work.problem and not notebook.cells:
            problem = f"{work.problem} → 0 points for now, marked for manual grading"
            self.log.warning("%s: %s", work.student, problem)
            return gradebook.unreadable(work, sanitiser), resources
        for remark in prepare.remarks(notebook, self.source, work):
            self.log.warning("%s: %s", work.student, remark)
        sanitised = sanitiser(notebook)
        sanitised.metadata["told"] = work.for_student
        return sanitised, resources


class Judge(Step):
    """The autograder's verdict, either existing or new. Writes the scores into the gradebook."""

    def preprocess(self, notebook: nbformat.NotebookNode, resources: dict[str, Any]) -> Prepared:
        """Return the graded notebook. Raises CourseError if there is no verdict, before any score changes."""
        work = self.open(notebook, resources)
        where = grading_folder.GradingFolder(grading_folder.runs(self.coursedir), self.assignment)
        with where.alone(), Gradebook(self.coursedir.db_url, self.coursedir.course_id) as book:
            work.when, _ = gradebook.handed_in(work.folder)
            work.extension = due_dates.extension(self.coursedir, book, work.student, self.assignment)
            if work.problem:
                points: dict[str, float | None] = dict.fromkeys(self.source.points, 0.0)
                gradebook.enter(book, self.source, where, work, points)
                return notebook, resources
            key, verdict = self.verdict(work, where, book)
            graded = gradebook.graded(work, verdict)
            points = gradebook.marks(self.source, graded, verdict, where.void())
            gradebook.enter(book, self.source, where, work, points, key, graded)
        return graded, resources

    def verdict(
        self, work: prepare.Submission, where: grading_folder.GradingFolder, book: Gradebook
    ) -> tuple[str, dict[str, Any]]:
        """Return (key, verdict) of a submission, grading it first if there is no verdict."""
        files = grade.source_files(self.coursedir, self.assignment)
        key = grading_folder.key(work, files, grade.environment(grade.ENGINE, None))
        result = where.verdict(work.student, key)
        if not result or result["outcome"] != "graded":
            where.again(work.student, key)
            where.stage(work, key, files)
            result = drive_one(where, grade.Local(1), (work.student, key), grade.ENGINE)
        if result["outcome"] != "graded":
            gradebook.withdraw(book, self.source, where, work)
            why = result["why"]
            raise CourseError(f"{work.student} was not graded and has lost no points: {why}. Grade again")
        return key, result
