"""A class whose scores are known: copies of the solution, of the unsolved assignment and of the mutants."""

from __future__ import annotations

import shutil

from cluster.staff.course import Course
from cluster.staff.release.release import release
from cluster.staff.release.wrong_solutions import fill, load_all

RIGHT, STUB = "solution", "stub"


def variants(root, assignment, released):
    """Return {name: notebook}: the solution, the unsolved assignment and each mutant, filled into a
    released notebook."""
    import nbformat

    source = nbformat.read(root / "solutions" / assignment / released.name, as_version=4)
    wrong = {mutant.name: mutant.replace for mutant in load_all(root, assignment, source)}
    copy = {RIGHT: fill(nbformat.read(released, as_version=4), source)}
    copy[STUB] = nbformat.read(released, as_version=4)
    return copy | {
        name: fill(nbformat.read(released, as_version=4), source, replace) for name, replace in wrong.items()
    }


def make(root, assignment, private, students):
    """Release an assignment into the folder `private`, and submit a variant for each of `students` students.

    Return (the Course in `private`, {student: name of the variant}).
    """
    import nbformat

    release(root, assignment, private / "exercises", private)
    course = Course(root, private, release_directory=private / "exercises")
    released = next((private / "exercises" / assignment).glob("*.ipynb"))
    texts = {name: nbformat.writes(book) for name, book in variants(root, assignment, released).items()}
    names, handed = list(texts), {}
    for i in range(students):
        student, variant = f"student{i:03}", names[i % len(names)]
        folder = course.folder("submitted", student, assignment)
        shutil.copytree(released.parent, folder, ignore=shutil.ignore_patterns("*.ipynb"))
        (folder / released.name).write_text(texts[variant])
        (folder / "timestamp.txt").write_text(f"2026-01-01 00:{i // 60:02}:{i % 60:02} UTC")
        handed[student] = variant
    return course, handed


def points(course, assignment):
    """Return {student: {check: points}} from the gradebook."""
    from nbgrader.api import Gradebook

    with Gradebook(course.coursedir.db_url, course.coursedir.course_id) as book:
        return {
            submitted.student_id: {
                grade.name: grade.auto_score for work in submitted.notebooks for grade in work.grades
            }
            for submitted in book.assignment_submissions(assignment)
        }
