"""Gives out the codes of an assignment's variants, once they are proven to be equally hard."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ..course import Course, CourseError
from ..release import wrong_solutions
from ..release.variant_codes import Codes, has_variants, stamp
from ..spreadsheet import text
from . import grading_folder, prove_checks

if TYPE_CHECKING:
    from nbgrader.api import Gradebook


def prove(root: Path, assignment: str, folder: Path, samples: int) -> tuple[int, list[str]]:
    """Grade stub, solution and wrong solutions with the sample's numbers and with `samples` random variants.

    folder: an empty one. Returns (number of gradings, what is not as it should be, in words): in a variant
    in which the solution loses a point, or a wrong solution keeps one, the checks do not fit the numbers.
    """
    table, books, worth = prove_checks.submissions(root, assignment, folder)
    if not has_variants(books[wrong_solutions.SOLUTION]):
        raise CourseError(
            f"{assignment} has no given cell called variant: all students have the same numbers"
        )
    codes = Codes(folder, assignment)
    for code in [codes.any() for _ in range(samples)]:
        for name in table:
            books[f"{name}, variant {code}"] = stamp(copy.deepcopy(books[name]), code)
    found = []
    for name, scores in sorted(prove_checks.grade_all(folder, books)):
        mutant = table[name.partition(", variant ")[0]]
        defects = prove_checks.defects(mutant, prove_checks.verdict(mutant, scores, worth))
        found += [f"{assignment}, {name}: {words}" for words in defects]
    return len(books), found


def give(
    course: Course, book: Gradebook, assignment: str, students: Collection[str] | None, target: Path
) -> int:
    """Write the codes of the class, or of `students`, as CSV for its owner only; returns how many."""
    people = {person.id: person.email for person in book.students}
    names = sorted(students or people)
    if not names:
        raise CourseError(
            "the gradebook knows no students: `nbgrader db student import FILE`, or name them with --student"
        )
    codes = Codes(grading_folder.runs(course.coursedir).parent, assignment)
    codes.make_key()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rows = [[name, people.get(name), codes.code_of(name)] for name in names]
    grading_folder.write(target, text([["student", "email", "code"], *rows]))
    return len(names)
