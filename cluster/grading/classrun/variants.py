"""Gives out the codes of an assignment's variants, once they are proven to be equally hard."""

from __future__ import annotations

import copy

from cluster.grading import mutants, store
from cluster.grading.classrun.report import text
from cluster.grading.codes import Codes, has_variants, stamp
from cluster.grading.course import CourseError


def prove(root, assignment, place, samples):
    """Grade stub, solution and wrong solutions with the sample's numbers and with `samples` random variants.

    place: an empty folder. Returns (number of gradings, what is not as it should be, in words): in a variant
    in which the solution loses a point, or a wrong solution keeps one, the checks do not fit the numbers.
    """
    table, books, worth = mutants.submissions(root, assignment, place)
    if not has_variants(books[mutants.SOLUTION]):
        raise CourseError(
            f"{assignment} has no given cell called variant: all students have the same numbers"
        )
    codes = Codes(place, assignment)
    for code in [codes.any() for _ in range(samples)]:
        for name in table:
            books[f"{name}, variant {code}"] = stamp(copy.deepcopy(books[name]), code)
    found = []
    for name, scores in sorted(mutants.grade_all(place, books).items()):
        mutant = table[name.partition(", variant ")[0]]
        said = mutants.defects(mutant, mutants.verdict(mutant, scores, worth))
        found += [f"{assignment}, {name}: {words}" for words in said]
    return len(books), found


def give(course, book, assignment, students, target):
    """Write the codes of the class, or of `students`, as CSV for its owner only; returns how many."""
    people = {person.id: person.email for person in book.students}
    names = sorted(students or people)
    if not names:
        raise CourseError(
            "the gradebook knows no students: `nbgrader db student import FILE`, or name them with --student"
        )
    codes = Codes(store.runs(course.coursedir).parent, assignment)
    codes.make_key()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rows = [[name, people.get(name), codes.of(name)] for name in names]
    store.write(target, text([["student", "email", "code"], *rows]))
    return len(names)
