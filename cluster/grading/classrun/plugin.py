"""The engine behind nbgrader's own command and Formgrader's button, through nbgrader's plug-in points.

nbgrader_config.py names these two classes as the steps of Autograde, in the place of nbgrader's Execute and
SaveAutoGrades. They share prepared work and verdicts with `grade run`: what one has graded, the other takes.
"""

from __future__ import annotations

from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from cluster.grading import prepare, store, worker
from cluster.grading.classrun import gradebook, head, late
from cluster.grading.course import CourseError


class Step(NbGraderPreprocessor):
    """A step of Autograde that knows the course and the assignment."""

    def open(self, resources):
        found = resources["nbgrader"]
        self.assignment, self.student, self.name = (
            found[name] for name in ("assignment", "student", "notebook")
        )
        self.coursedir = self.parent.parent.coursedir  # of the Autograde whose exporter this is a part of
        self.source = prepare.Source.of(self.coursedir, self.assignment)


class Sanitise(Step):
    """What is graded of a notebook: the very steps of `grade run`."""

    def preprocess(self, notebook, resources):
        self.open(resources)
        return prepare.Sanitiser(self.config, self.source)(notebook, self.student), resources


class Judge(Step):
    """The engine's verdict: the one that is there, or a new one. Writes the marks into the gradebook."""

    def preprocess(self, notebook, resources):
        """The graded notebook. Raises CourseError, and leaves the marks alone, where none could be had."""
        import nbformat

        self.open(resources)
        folder = self.coursedir.format_path(self.coursedir.submitted_directory, self.student, self.assignment)
        work = prepare.Submission(self.student, Path(folder), self.name, notebook)
        where = store.Store(store.runs(self.coursedir), self.assignment)
        with where.alone(), Gradebook(self.coursedir.db_url, self.coursedir.course_id) as book:
            key, verdict = self.verdict(work, where)
            notebook = nbformat.from_dict(verdict["notebook"])
            when, _ = gradebook.handed_in(folder)
            points = gradebook.marks(self.source, notebook, verdict, where.void())
            gradebook.record(
                book, self.source, self.student, points, notebook,
                when=when, extension=late.extension(self.coursedir, book, self.student, self.assignment),
                new=where.recorded(self.student).get("key") != key,
            )  # fmt: skip
            where.note(self.student, {"key": key, "problem": ""})
            where.tidy(self.student, key)
        return notebook, resources

    def verdict(self, work, where):
        """(key, verdict) of a submission, executed here where there is none."""
        files = head.source_files(self.coursedir, self.assignment)
        key = store.key(work, files, head.environment(head.ENGINE, None))
        found = where.verdict(work.student, key)
        if not found or found["outcome"] != "graded":
            where.again(work.student, key)
            with worker.make_engine(head.ENGINE, 1, None) as engine:
                worker.grade(engine, where.stage(work, key, files))
            found = where.verdict(work.student, key)
        if not found or found["outcome"] != "graded":
            why = (found and where.again(work.student, key)) or "there is no verdict"
            raise CourseError(f"{work.student} was not graded, which costs nothing: {why}. Grade again")
        return key, found
