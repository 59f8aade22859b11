"""Distribution of written answers among graders, without overlap."""

from __future__ import annotations

import hashlib


def shares(assignment: str, students: dict[str, str], graders: dict[str, str]) -> dict[str, str]:
    """Return {student: grader}. students and graders are {user: section, or "" for none}.

    A section's students are shared among its graders, or among all if it has none. The shares depend only on
    these names, so they stay the same while submissions arrive and are graded. No grader gets more than an
    equal share of a section, rounded up, and a change of the roster reassigns few students.
    """
    result: dict[str, str] = {}
    for section in set(students.values()) if graders else ():
        members = [student for student, own in students.items() if own == section]
        pool = sorted(name for name, own in graders.items() if own == section) or sorted(graders)
        result |= deal(assignment, members, pool)
    return result


def deal(assignment: str, students: list[str], graders: list[str]) -> dict[str, str]:
    """Assign each student to the grader with the highest hash, among those whose share is not full."""
    left = dict.fromkeys(graders, -(-len(students) // len(graders)))
    result = {}
    for student in sorted(students, key=lambda student: digest(assignment, student)):
        free = [grader for grader in graders if left[grader]]
        ranks = {digest(assignment, student, grader): grader for grader in free}
        result[student] = ranks[max(ranks)]
        left[result[student]] -= 1
    return result


def digest(*names: str) -> bytes:
    """Return a hash of several names."""
    return hashlib.sha256("\0".join(names).encode()).digest()
