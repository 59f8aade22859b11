"""A class of the tiny course: its submissions, their grading by the autograder in standin.py, and the
results."""

import subprocess
import sys

import nbformat

from cluster.staff.course import Course
from cluster.staff.grading import grade
from tests.grading import sample_class

NAME, ENGINE = "99_doubling", "tests.grading.standin:Engine"
FULL = {"double-of-one": 1.0, "double-of-others": 2.0}


class Class:
    """A copy of the released course, with methods that submit, grade and read the results."""

    def __init__(self, root, seen):
        self.root, self.seen = root, seen
        self.course = Course(root)
        self.released = nbformat.read(root / "exercises" / NAME / "doubling.ipynb", as_version=4)

    def hand_in(self, student, answer="x = 1", name="doubling.ipynb", text=None, when="2026-01-01 00:00:00"):
        folder = self.course.folder("submitted", student, NAME)
        folder.mkdir(parents=True, exist_ok=True)
        self.released.cells[1].source = answer
        (folder / name).write_text(nbformat.writes(self.released) if text is None else text)
        (folder / "timestamp.txt").write_text(f"{when} UTC")

    def run(self, *students, **more):
        return grade.grade_class(
            self.root, NAME, students or None, backend=grade.Local(2), engine=ENGINE, **more
        )

    def points(self):
        return sample_class.points(self.course, NAME)

    def executed(self):
        """Return how often each student's submission was executed."""
        names = [
            path.name.rpartition("-")[0] for path in self.seen.iterdir() if path.name not in ("slow", "again")
        ]
        return {name: names.count(name) for name in names}

    def book(self):
        from nbgrader.api import Gradebook

        return Gradebook(self.course.coursedir.db_url, self.course.coursedir.course_id)

    def change_check(self, name, change):
        """Change a check's text and checksum in the gradebook, as a new release would."""
        from nbgrader.utils import compute_checksum

        with self.book() as book:
            cell = book.find_source_cell(name, "doubling", NAME)
            points = book.find_grade_cell(name, "doubling", NAME).max_score
            cell.source = change(cell.source)
            role = {"grade": True, "solution": False, "locked": True, "grade_id": name, "points": points}
            node = nbformat.v4.new_code_cell(cell.source, metadata={"nbgrader": role})
            cell.checksum = compute_checksum(node)
            book.db.commit()

    def start(self):
        """Start a grading run as `run` does, but in a separate process, which a test can kill."""
        code = "import sys; from pathlib import Path; from cluster.staff.grading import grade;"
        code += f"grade.grade_class(Path(sys.argv[1]), {NAME!r}, backend=grade.Local(2), engine={ENGINE!r})"
        return subprocess.Popen([sys.executable, "-c", code, self.root], stdout=subprocess.DEVNULL)
