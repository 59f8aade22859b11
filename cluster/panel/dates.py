"""Writes the due dates where the start page reads them:  python -m cluster.panel.dates --to FILE

Run by the instructor in the course's root, or by what brings the course to students: the dates are in
nbgrader's gradebook, which no student may read. Extensions are the students' own matter and are left out.
"""

import argparse
import datetime
import json
import sys
from pathlib import Path


def known(course):
    """{assignment: due date in ISO form, UTC} of those that have one."""
    from nbgrader.api import Gradebook

    with Gradebook(course.coursedir.db_url) as book:
        due = {one.name: one.duedate for one in book.assignments if one.duedate}
    return {name: when.replace(tzinfo=datetime.UTC).isoformat() for name, when in sorted(due.items())}


def write(course, path):
    """Write the dates of a course to a file, at once; returns them."""
    found = known(course)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps(found, indent=1) + "\n")
    beside.chmod(0o644)
    beside.replace(path)
    return found


def main():
    from cluster.grading.course import Course, CourseError, find_root

    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--to", type=Path, required=True, help="a file all students can read, dates.json")
    path = parser.parse_args().to.absolute()
    try:
        found = write(Course(find_root()), path)
    except (CourseError, OSError) as error:
        sys.exit(str(error))
    print(f"{path}: {len(found)} due date{'s' * (len(found) != 1)}")


if __name__ == "__main__":
    main()
