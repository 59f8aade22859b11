"""Attacks on the import of a platform's download: names that a student chooses look like another student's.

Each archive of an attack is imported into a separate course, with `grade import`. The attack gains something
if a folder contains another student's work.
"""

import zipfile

from cluster.staff import platforms
from cluster.staff.course import Course
from cluster.staff.submissions import import_zip as platform_zip
from tests.attacks import corpus, judge
from tests.attacks.corpus import ASSIGNMENT


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
