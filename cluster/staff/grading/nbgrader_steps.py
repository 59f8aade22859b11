"""The autograder behind nbgrader's own command and Formgrader's button, through nbgrader's plug-in points.

nbgrader_config.py names these classes: Autograde's reader of submissions, and two steps that replace Execute
and SaveAutoGrades. They share prepared submissions and verdicts with `grade run`, in both directions.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TextIO

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from ..course import CourseError, SubmissionError
from ..submissions import due_dates, grading_folder, prepare
from ..work_files import work_files
from . import grade, gradebook, worker


class Step(NbGraderPreprocessor):
    """A step of Autograde that knows the course and the assignment."""

    def open(self, resources: dict[str, Any]) -> None:
        context = resources["nbgrader"]
        self.assignment, self.student, self.name = (
            context[name] for name in ("assignment", "student", "notebook")
        )
        self.coursedir = self.parent.parent.coursedir  # of the Autograde whose exporter contains this step
        self.source = prepare.Source.from_gradebook(self.coursedir, self.assignment)

    def work(self, notebook: nbformat.NotebookNode) -> prepare.Submission:
        """Return the submission that this step processes."""
        folder = self.coursedir.format_path(self.coursedir.submitted_directory, self.student, self.assignment)
        submission = prepare.Submission(self.student, Path(folder), self.name, notebook)
        try:
            submission.files = work_files(submission.folder)
        except SubmissionError as why:
            raise CourseError(f"{self.student} was not graded: {why}") from None
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

    def preprocess(
        self, notebook: nbformat.NotebookNode, resources: dict[str, Any]
    ) -> tuple[nbformat.NotebookNode, dict[str, Any]]:
        self.open(resources)
        work = self.work(notebook)
        if problem := not notebook.cells and notebook.metadata.get("unreadable"):
            work.problem = problem
            self.log.warning("%s: %s → 0 points for now, marked for manual grading", self.student, problem)
            return gradebook.unreadable(work, prepare.Sanitiser(self.config, self.source)), resources
        work.for_student += notebook.metadata.get("told", [])
        for remark in prepare.remarks(notebook, self.source, work):
            self.log.warning("%s: %s", self.student, remark)
        sanitised = prepare.Sanitiser(self.config, self.source)(notebook)
        sanitised.metadata["told"] = work.for_student
        return sanitised, resources


class Judge(Step):
    """The autograder's verdict, either existing or new. Writes the scores into the gradebook."""

    def preprocess(
        self, notebook: nbformat.NotebookNode, resources: dict[str, Any]
    ) -> tuple[nbformat.NotebookNode, dict[str, Any]]:
        """Return the graded notebook. Raises CourseError if there is no verdict, before any score changes."""
        self.open(resources)
        work, problem = self.work(notebook), notebook.metadata.get("unreadable", "")
        where = grading_folder.GradingFolder(grading_folder.runs(self.coursedir), self.assignment)
        with where.alone(), Gradebook(self.coursedir.db_url, self.coursedir.course_id) as book:
            if problem:
                key, graded = None, None
                points: dict[str, float | None] = dict.fromkeys(self.source.points, 0.0)
            else:
                key, verdict = self.verdict(work, where, book)
                notes = notebook.metadata.get("told", [])
                notebook = graded = gradebook.wrapped(nbformat.from_dict(verdict["notebook"]))
                gradebook.show_figures(graded, work.folder / f"{work.name}.ipynb")
                graded.metadata["told"] = notes + gradebook.notes_to_student(verdict)
                points = gradebook.marks(self.source, graded, verdict, where.void())
            mark, old = {"key": key, "problem": problem}, where.recorded(self.student)
            when, _ = gradebook.handed_in(work.folder)
            gradebook.record(
                book, self.source, self.student, points, graded,
                when=when, extension=due_dates.extension(self.coursedir, book, self.student, self.assignment),
                new={name: old.get(name) for name in mark} != mark, look=bool(problem),
            )  # fmt: skip
            where.note(self.student, mark | {"time": time.time()})
            if key:
                where.tidy(self.student, key)
        return notebook, resources

    def verdict(
        self, work: prepare.Submission, where: grading_folder.GradingFolder, book: Gradebook
    ) -> tuple[str, dict[str, Any]]:
        """Return (key, verdict) of a submission, grading it first if there is no verdict."""
        files = grade.source_files(self.coursedir, self.assignment)
        key = grading_folder.key(work, files, grade.environment(grade.ENGINE, None))
        result = where.verdict(work.student, key)
        if not result or result["outcome"] != "graded":
            where.again(work.student, key)
            with worker.make_engine(grade.ENGINE, 1, None) as engine:
                worker.grade(engine, where.stage(work, key, files))
            result = where.verdict(work.student, key)
        if not result or result["outcome"] != "graded":
            why = (result and where.again(work.student, key)) or "grading produced no result"
            gradebook.withdraw(book, self.source, where, work)
            raise CourseError(f"{work.student} was not graded and has lost no points: {why}. Grade again")
        return key, result
