"""Regrade one check for the whole class, without executing students' code again if possible.

- Only its points have changed. The verdicts record who passed, so the points are recounted. Nothing is
executed.
- It was wrong and counts as passed for all students (--void). Nothing is executed.
- Its text has changed. It calls the students' functions, whose process has ended. The students' cells are
  therefore executed again, but the points of all other checks are kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..course import CourseError
from ..submissions import grading_folder, prepare
from ..submissions.grading_folder import theirs

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from .grade import Coordinator, Result


def regrade(
    head: Coordinator, check: str, void: bool | None = None, students: Collection[str] | None = None
) -> tuple[Result, list[str]]:
    """Regrade one check and return (Result, students whose verdict was recounted).

    head: a new coordinator. void: whether the check counts as passed for all students from now on; None
    changes nothing. students: only these (default: all), if their current submission is graded.
    """
    known = head.source.points
    if check not in known:
        raise CourseError(f"{head.assignment} has no check {check!r}; its checks are {', '.join(known)}")
    head.only = check
    rerun: list[str] = []

    def before(head: Coordinator) -> list[str]:
        if void is not None:
            names = set(head.on_disk.void()) - {check} | ({check} if void else set())
            grading_folder.write(head.on_disk.folder / "void.json", json.dumps(sorted(names)))
        regraded = []
        for student in head.chosen(students):
            with head.record_errors(student):
                old = head.on_disk.recorded(student).get("key")
                submission = head.read(student)
                if not old or not submission.notebook or not same_answers(head, submission, old):
                    head.result.notes[student] = ["not graded yet, or submitted again since; use `grade run`"]
                    continue
                regraded.append(student)
                if recount(head, submission, old):
                    rerun.append(student)
        return regraded

    return head.grade(before=before), rerun


def same_answers(head: Coordinator, found: prepare.Submission, key: str) -> bool:
    """Return whether the student's answers are unchanged since the verdict with this key."""
    now, before = found.notebook, head.on_disk.prepared(found.student, key)
    return now is not None and before is not None and theirs(now) == theirs(before)


def recount(head: Coordinator, found: prepare.Submission, old: str) -> bool:
    """Return whether the cells differ only in points; if so, write verdict `old` under the current key."""
    key = head.key(found)
    verdict = head.on_disk.verdict(found.student, old)
    now, before = found.notebook, head.on_disk.prepared(found.student, old)
    if key == old or not verdict or now is None or before is None or texts(now) != texts(before):
        return False
    worth = head.source.points
    for name, outcome in verdict["checks"].items():
        outcome |= {"score": 0.0 if outcome["error"] else worth[name], "max_score": worth[name]}
    for cell in verdict["notebook"]["cells"]:
        role = cell["metadata"].get("nbgrader", {})
        if role.get("grade") and role.get("grade_id") in worth:
            role["points"] = worth[role["grade_id"]]
    folder = head.on_disk.stage(found, key, head.files)
    grading_folder.write(folder / "verdict.json", json.dumps({"key": key, "verdict": verdict}))
    return True


def texts(notebook: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]
