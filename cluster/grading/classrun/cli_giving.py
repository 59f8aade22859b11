"""The commands for what students are given: assignments, time, feedback. Arguments, and what is printed."""

from __future__ import annotations

from cluster.grading.classrun.cli import ONE, opened
from cluster.grading.course import Course, assignments, say


def add(commands, command):
    """Add the commands to a parser; `command(name, text)` makes one."""
    c = command("hand-out", "generate an assignment, examine it, and give it to students by the exchange")
    c.add_argument("assignment", help=ONE)
    c.set_defaults(run=hand_out)

    c = command("due", "set the due date of an assignment, or show it")
    c.add_argument("assignment", help=ONE)
    c.add_argument("when", nargs="?", help="as '2026-12-01 23:59 Europe/Berlin'; 'none' takes it back")
    c.set_defaults(run=due)

    c = command("extend", "give a student more time for an assignment")
    c.add_argument("student", help="the student's name")
    c.add_argument("assignment", help=ONE)
    more = c.add_mutually_exclusive_group(required=True)
    more.add_argument(
        "--days", type=int, metavar="N", help="so many days after the due date; 0 takes it back"
    )
    more.add_argument("--until", metavar="WHEN", help="as '2026-12-03 12:00 Europe/Berlin'")
    c.set_defaults(run=extend)

    c = command("give-back", "write the feedback of all that is graded, and let students fetch it")
    c.add_argument("assignment", help=ONE)
    c.add_argument("--student", action="append", metavar="NAME", help="only this student; may be repeated")
    c.set_defaults(run=give_back)


def hand_out(root, options):
    """Generate and release an assignment."""
    from cluster.grading.classrun import giving

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    say(f"{assignment}: {giving.hand_out(course, assignment)}")
    return told(course)


def give_back(root, options):
    """Generate and release feedback."""
    from cluster.grading.classrun import giving

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    given, failed, notes = giving.give_back(course, assignment, options.student)
    say(f"{assignment}: feedback for {given} student{'s' * (given != 1)} to fetch", *notes, sep="\n  ")
    return told(course) + [f"{student} was given nothing: {why}" for student, why in sorted(failed.items())]


def due(root, options):
    """Set or show a due date."""
    from cluster.grading.classrun import late

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    with opened(course) as book:
        if options.when:
            late.set_due(book, course, assignment, options.when)
        say(late.told(book, course, assignment))
    return told(course) if options.when else []


def extend(root, options):
    """Give an extension."""
    from cluster.grading.classrun import late

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    with opened(course) as book:
        say(late.extend(book, course, options.student, assignment, days=options.days, until=options.until))
    return told(course)


def told(course):
    """Bring students' own notices up to date; returns what could not be written, line by line."""
    from cluster.grading.classrun import notices

    with opened(course) as book:
        return [f"{student}: {why}" for student, why in sorted(notices.tell(course, book).items())]
