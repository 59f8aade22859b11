"""Grade the attacks and some honest students as one class, as `grade run` does."""

import hashlib
import os
import site
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from cluster.staff.course import Course, say
from tests import formgrader_page
from tests.attacks import corpus, imports, judge
from tests.attacks.corpus import ASSIGNMENT

LIMITS = {
    "cell": 10, "check": 10, "total": 60, "memory": 2**30, "processes": 64, "disk": 2**26, "output": 500_000,
}  # fmt: skip
RIGHT = "def double(x):\n    return 2 * x"
# student: points; in alphabetical order, the attackers (mallory-…) come between bob and wanda
HONEST = {"aaron": 4, "bob": 4, "wanda": 0, "zoe": 4}


@dataclass
class Submission:
    """An honest student's submission and the points that it deserves.

    add: a function that changes the submitted folder afterwards, for example by adding a file of some size.
    """

    answer: str
    points: float
    add: Callable[[Path], object] = lambda folder: None


def plain_submission(points):
    """Return a submission that deserves these points: a correct one, or an incorrect one for 0 points."""
    return Submission(RIGHT if points else corpus.WRONG, points)


def grade_attacks(root, attacks, workspace, honest=None):
    """Grade the attacks and the honest submissions; return {attack: Outcome}. Effects that cannot be
    attributed to one attack are under "the class".

    honest: {student: Submission}, by default HONEST.
    """
    honest = honest or {name: plain_submission(points) for name, points in HONEST.items()}
    imported = {n: imports.ours(a, root, workspace / n) for n, a in attacks.items() if a.archives}
    attacks = {name: attack for name, attack in attacks.items() if name not in imported}
    config = (root / "nbgrader_config.py").read_text()
    course, home = corpus.make_course(root, workspace, config)
    variables = {"HOME": str(home), "JUPYTERHUB_API_TOKEN": "canary-token"}
    with judge.Service() as service, mock.patch.dict(os.environ, variables):
        released = release(course)
        ours = Course(course)
        corpus.mark_gradebook(ours.coursedir.db_url, "bob")
        for student, submission in honest.items():
            folder = ours.folder("submitted", student, ASSIGNMENT)
            corpus.honest(released, folder, submission.answer, "canary-work")
            submission.add(folder)
        for name, attack in attacks.items():
            folder = ours.folder("submitted", f"mallory-{name}", ASSIGNMENT)
            corpus.hand_in(attack, released, folder, course, home, service.port)
        before = fingerprint(ours, honest)
        say(f"grading {len(attacks)} attacks and {len(honest)} honest students …")
        result = grade(course)
        ours.feedback(ASSIGNMENT, "*")
        found = {name: outcome(ours, attack, result) for name, attack in attacks.items()}
        folders = [*site.getsitepackages(), course, home, "/tmp", "/dev/shm", "/var/tmp"]
        for name, paths in corpus.traces(attacks, folders).items():
            found[name].gains.append(f"left {', '.join(paths)}")
        for name, pids in judge.left_over(attacks).items():
            found[name].gains.append(f"left process {pids}")
        found |= of_the_class(ours, honest, before, service)
    return found | imported


def release(course):
    from cluster.staff.release import release as releases

    releases.release(course)
    return next((course / "exercises" / ASSIGNMENT).glob("*.ipynb"))


def grade(course):
    from cluster.staff.grading import grade as head
    from cluster.staff.grading.on_this_machine import Local

    return head.grade_class(course, ASSIGNMENT, backend=Local(), limits=LIMITS)


def scores(course, student):
    """Return (score, maximum) from the gradebook, or (None, 0) without a score."""
    from nbgrader.api import Gradebook, MissingEntry

    with Gradebook(course.coursedir.db_url, course.coursedir.course_id) as book:
        try:
            submission = book.find_submission(ASSIGNMENT, student)
            return submission.score, submission.max_score
        except MissingEntry:
            return None, 0


def outcome(course, attack, result):
    import nbformat

    student = f"mallory-{attack.name}"
    score, largest = scores(course, student)
    graded = course.folder("autograded", student, ASSIGNMENT) / "doubling.ipynb"
    page = course.folder("feedback", student, ASSIGNMENT) / "doubling.html"
    notebook = nbformat.read(graded, as_version=4) if graded.exists() else None
    text = page.read_text() if page.exists() else ""
    shown = formgrader_page.of_course(graded, course) if graded.exists() else ""
    explanation = result.unreadable.get(student) or result.ungraded.get(student) or why(notebook)
    return judge.judge(attack, score, largest, explanation, judge.outputs_of(notebook), text, shown)


def why(notebook):
    """Return the message of the first check that failed."""
    for cell in notebook.cells if notebook else ():
        if cell.metadata.get("nbgrader", {}).get("grade"):
            for output in cell.get("outputs", ()):
                if output.output_type == "error":
                    return " ".join(f"{output.ename}: {output.evalue}".split())
    return ""


def of_the_class(course, honest, before, service):
    """Return {"the class": Outcome} with the effects that cannot be attributed to one attack, or {} if there
    are none."""
    outcome = judge.Outcome(None, 0)
    for student, submission in honest.items():
        score, largest = scores(course, student)
        if (score, largest) != (submission.points, 4):
            text = f"{student} has {score} of {largest} points instead of {submission.points} of 4"
            outcome.gains.append(text)
    after = fingerprint(course, honest)
    outcome.gains += [f"{path} was changed" for path in sorted(before) if after.get(path) != before[path]]
    outcome.gains += ["the network was reached"] if service.reached else []
    return {"the class": outcome} if outcome.gains else {}


def fingerprint(course, honest):
    """Return {path: hash} of the files that no student may change."""
    folders = [course.root / "solutions", course.root / "exercises", course.root / "nbgrader_config.py"]
    folders += [course.folder("submitted", student, ASSIGNMENT) for student in honest]
    files = [p for folder in folders for p in ([folder] if folder.is_file() else folder.rglob("*"))]
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files if p.is_file()}
