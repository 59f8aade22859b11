"""Test a real hub with 450 people, who have accounts, submissions and gradebook entries but no running
servers."""

import json
import os
import secrets
import shutil
import time

import pytest

from cluster.staff.hub import daemons
from tests.deploy.classroom import ASSIGNMENT, tiny

from .hub import COURSE, PAGE, PREFIX, Hub, skip_or_fail

pytestmark = [pytest.mark.hub, pytest.mark.servers, pytest.mark.timeout(3000)]
FULL_SCORES = """
import sys
from cluster.staff.course import Course, opened
with opened(Course(".")) as book:
    for student in list(book.students):
        row = book.update_or_create_submission(sys.argv[1], student.id)
        for grade in (grade for work in row.notebooks for grade in work.grades):
            grade.auto_score, grade.needs_manual_grade = grade.cell.max_score, False
    book.db.commit()
"""
# class sizes: if a step takes longer per person in the larger class, its time grows faster than linearly
SIZES = 90, 450


def submit(hub, students):
    """Submit a solved assignment for each student by writing it to the inbound folder, as nbgrader does."""
    released = hub.state / "exchange" / COURSE / "outbound" / ASSIGNMENT
    notebook = json.loads((released / "doubling.ipynb").read_text())
    [cell] = [cell for cell in notebook["cells"] if "def double" in "".join(cell["source"])]
    cell["source"] = "def double(x):\n    return 2 * x\n"
    for name in students:
        now = time.strftime("%Y-%m-%d %H:%M:%S.000000 UTC", time.gmtime())
        target = released.parents[1] / "inbound" / f"{PREFIX}{name}+{ASSIGNMENT}+{now}+{secrets.token_hex(6)}"
        shutil.copytree(released, target)
        (target / "doubling.ipynb").write_text(json.dumps(notebook))
        (target / "submission_secret.txt").write_text(secrets.token_hex(64))
        (target / "timestamp.txt").write_text(now)
        for path in (target, *target.iterdir()):
            shutil.chown(path, PREFIX + name, PREFIX + name)


def test_a_class_of_450(tmp_path, capsys):
    """Do start, sync, collect, class page, export, removal from the roster, and stop work for 450 people?
    (The time of each step is printed.)"""
    skip_or_fail(daemons.missing())
    hub, size = Hub(tiny(tmp_path)), 0
    students = [f"s{n:03}" for n in range(SIZES[-1] - 1)]
    page = PAGE

    def timed(step, people, call, *arguments, **more):
        began, before = time.monotonic(), os.times()
        result, after = call(*arguments, **more), os.times()
        cpu = sum(after[2:4]) - sum(before[2:4])  # the CPU time of all child processes
        seconds = time.monotonic() - began
        with capsys.disabled():
            print(f"\n  {step:24} {people:4} people {seconds:8.2f} s, CPU {cpu:6.2f} s", end="", flush=True)
        return result

    def sync(names, **roles):
        hub.enrol(**dict.fromkeys(names, "student") | {"ines": "instructor"} | roles)
        return hub.do("sync", hub.roster, "--yes")

    try:
        for people in SIZES:
            before, size = size, people
            some = students[: size - 1]
            hub.enrol(**dict.fromkeys(some, "student"), ines="instructor")
            if not before:
                timed("start: a new hub", size, hub.start)
                ines = hub.person("ines")
                ines.log_in()
                ines.release()
            else:
                timed("sync: new people", size - before, sync, some)
            assert f"{size} people, 0 changes" in timed("start: nothing new", size, hub.start)
            assert "s000: now instructor" in timed("sync: a new role", size, sync, some, s000="instructor")
            assert "s000: now student" in sync(some)
            submit(hub, some)
            assert f"{len(some)} collected" in timed("collect", size, hub.grade, "collect", ASSIGNMENT)
            # written directly into the gradebook, because the time of grading is not the question
            hub.run(hub.grader, "python", "-c", FULL_SCORES, ASSIGNMENT)
            shown = timed("class page", size, ines.formgrader, "GET", page).text
            assert all(f"{PREFIX}{name}" in shown for name in some)
            assert timed("export", size, hub.marks) == {PREFIX + name: 3 for name in some}
        dropped, kept = students[: 2 * size // 3], students[2 * size // 3 :]
        gone = timed("sync: people dropped", len(dropped), sync, kept)
        assert all(gone.count(why) == len(dropped) for why in (": removed", ": locked"))
        timed("stop", size, hub.do, "stop")
        assert f"{len(kept) + 1} people, 0 changes" in timed("start: after stop", len(kept) + 1, hub.start)
        back = timed("sync: people back", len(dropped), sync, students)
        assert back.count(": student") == len(dropped) and len(hub.marks()) == len(students)
    finally:
        timed("stop --purge", size, hub.remove)
