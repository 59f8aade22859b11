"""Attacks on the import of a platform's download: names that a student chooses look like another student's.

Each archive of an attack is imported into a separate course, with `grade import`, and with nbgrader's
`zip_collect` and the regular expression of its documentation. The attack gains something if a folder contains
another student's work.
"""

import subprocess
import sys
import zipfile

from cluster.staff import platforms
from cluster.staff.course import Course
from cluster.staff.submissions import import_zip as platform_zip
from tests.attacks import corpus, judge
from tests.attacks.corpus import ASSIGNMENT

REGEXP = r".*_(?P<student_id>\w+)_attempt_(?P<timestamp>[0-9\-]+)_(?P<file_id>\w+)"


def write(path, members):
    """Write a download: {name: owner}; the owner's name is the content of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, owner in members.items():
            archive.writestr(name, owner)


def judged(course, number, gains):
    """Add to `gains` whose submission contains another student's work."""
    for path in sorted(course.glob(f"*/{ASSIGNMENT}/*.ipynb")):
        student, owner = path.parents[1].name, path.read_text()
        if student != owner:
            gains.append(f"archive {number}: {owner}'s work is submitted as {student}'s")


def ours(attack, root, workspace):
    """Import the attack's archives with `grade import`; return the Outcome."""
    outcome = judge.Outcome(0, 4)
    for number, (table, members) in enumerate(attack.archives, 1):
        folder = workspace / str(number)
        course = Course(corpus.make_course(root, folder, (root / "nbgrader_config.py").read_text())[0])
        write(folder / "all.zip", members)
        people = platform_zip.People([], platforms.table(table, "table.csv"))
        result = platform_zip.import_zip(course, ASSIGNMENT, "doubling.ipynb", folder / "all.zip", people)
        judged(course.folder("submitted", "*", ASSIGNMENT).parents[1], number, outcome.gains)
        outcome.message = outcome.message or next(iter(result.refused.values()), "")
    return outcome


def stock(attack, workspace):
    """Collect the attack's archives with `nbgrader zip_collect`; return the Outcome."""
    outcome = judge.Outcome(0, 4)
    for number, (_, members) in enumerate(attack.archives, 1):
        course = workspace / str(number)
        write(course / "downloaded" / ASSIGNMENT / "archive" / "all.zip", members)
        config = f"c = get_config()\nc.CourseDirectory.root = {str(course)!r}\n"
        (course / "nbgrader_config.py").write_text(
            f"{config}c.FileNameCollectorPlugin.named_regexp = {REGEXP!r}\n"
        )
        command = [sys.executable, "-m", "nbgrader", "zip_collect", ASSIGNMENT, "--force"]
        outcome.message = subprocess.run(command, cwd=course, capture_output=True, text=True).stderr[-200:]
        judged(course / "submitted", number, outcome.gains)
    return outcome
