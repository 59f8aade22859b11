"""The commands for a class: their arguments and output."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .course import Course, CourseError, assignments, opened, say, scored
from .submissions import exchange, grading_folder

if TYPE_CHECKING:
    from . import platforms
    from .grading.driver import Backend
    from .grading.grade import Result

# A command, which returns error messages, and its arguments, each of which is a call of an argparse parser.
Command = tuple[Callable[[Any, argparse.Namespace], list[str]], tuple[Callable, ...]]
COMMANDS: dict[str, Command] = {}


def command(name: str, *arguments: Callable, table: dict[str, Command] = COMMANDS) -> Callable:
    """Register a function as the command `name`. Its help text is its docstring.

    The functions in COMMANDS get the Course, and the complete name in `options.assignment`.
    """

    def register(run: Callable) -> Callable:
        table[name] = run, arguments
        return run

    return register


def argument(*names: str, **about: Any) -> Callable:
    """Return an argument of a command; see argparse's `add_argument`."""
    return methodcaller("add_argument", *names, **about)


def one_of(*arguments: Callable, required: bool = False) -> Callable:
    """Return arguments that exclude each other."""

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for each in arguments:
            each(group)

    return add


def whole_number(text: str, least: int = 1) -> int:
    n = int(text) if text.isdecimal() else -1
    if not least <= n <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to 10000")
    return n


def limit(text: str) -> tuple[str, float]:
    """Return (name, value) of a limit, in seconds, or in bytes with suffix K, M, G."""
    from .grading import grading_limits

    name, _, value = text.partition("=")
    try:
        return name, grading_limits.limit(name, value)
    except CourseError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


ONE = "the assignment, by the beginning of its name: 01"
ASSIGNMENT = argument("assignment", help=ONE)
STUDENTS = argument("--student", action="append", metavar="NAME", help="only this student; may be repeated")
NO_GRADE = argument("--no-grade", action="store_true", help="do not grade the solution before")
WHERE = (  # where submissions are graded, and with which limits
    argument("--backend", choices=["auto", "local", "slurm"], default="auto",
             help="grade on this machine, on Slurm, or on Slurm if it answers (auto)"),
    argument("--jobs", type=whole_number, metavar="N",
             help="local: submissions graded at a time (default: one per core)"),
    argument("--account", metavar="NAME", help="Slurm: account of the job array"),
    argument("--partition", metavar="NAME", help="Slurm: partition of the job array"),
    argument("--cpus", type=whole_number, default=2, metavar="N",
             help="Slurm: cores per task, and submissions graded at a time per task (2)"),
    argument("--tasks", type=whole_number, default=32, metavar="N",
             help="Slurm: tasks running at a time (32)"),
    argument("--limit", action="append", default=[], metavar="NAME=VALUE", type=limit,
             help="a limit, instead of nbgrader_config.py's: cell=120, total=900 (seconds), memory=2G, …"),
)  # fmt: skip
TO = argument("--to", metavar="FOLDER", help="where to write (.grading/reports/ASSIGNMENT)")


@command(
    "run",
    ASSIGNMENT,
    STUDENTS,
    *WHERE,
)
def grade_class(course: Course, options: argparse.Namespace) -> list[str]:
    """Grade a class: all submissions, on this machine or as one Slurm array."""
    from .grading import grade

    limits, backend = dict(options.limit), chosen_backend(course, options)
    try:
        result = grade.grade_class(
            course.root, options.assignment, options.student, backend=backend, limits=limits
        )
    except OSError as error:  # a full disk
        raise CourseError(f"{error}. Nothing is lost. Fix this and run the command again") from error
    tell(course, options.assignment, result)
    return lines("{} was not graded ({}); run it again", result.ungraded)


def chosen_backend(course: Course, options: argparse.Namespace) -> Backend:
    """Return the backend for the workers, and say which limits differ from those in nbgrader_config.py."""
    from cluster.jobs import backends
    from cluster.jobs.errors import BackendError

    from .engine import Limits
    from .engine.sandbox import bubblewrap, unprivileged
    from .grading import grading_limits
    from .grading.on_slurm import Array
    from .grading.on_this_machine import Local

    usual = grading_limits.of(course, options.assignment)
    limits = grading_limits.of(course, options.assignment, dict(options.limit))
    if limits != usual:
        say(
            f"  limits of this command: {grading_limits.described(limits)}. Formgrader and commands without"
            f" --limit use {grading_limits.described(usual)} (Grading.limits in nbgrader_config.py)"
        )
    try:
        chosen, why = backends.choose(options.backend)
    except BackendError as error:
        raise CourseError(f"{error.what} Grade here with --backend local, or run `make doctor`") from None
    if chosen == "slurm":
        whole = Limits(**limits)  # type: ignore[arg-type]  # ints for the fields that are ints
        memory = -(-whole.memory // 2**20)
        return Array(options.account, options.partition, options.cpus, options.tasks, memory, whole.total)
    if options.account or options.partition:
        raise CourseError(f"--account and --partition apply only to Slurm, which is not used{why}")
    if missing := bubblewrap.missing():
        raise CourseError(missing)
    if shared := unprivileged.shared():
        say(f"all sandboxes have one user, because {shared}")
    return Local(options.jobs)


def tell(course: Course, assignment: str, result: Result) -> None:
    """Print the outcome for a class."""
    counts = [
        (len(result.graded), "graded now"),
        (len(result.unchanged), "unchanged since last graded"),
        (len(result.unreadable), "unreadable"),
        (len(result.ungraded), "not graded"),
        (result.stopped, "left for the next run, because grading was stopped"),
    ]
    say(f"{assignment}: {len(result.students)} submitted; " + ", ".join(f"{n} {w}" for n, w in counts if n))
    for student, problem in result.unreadable.items():
        say(f"  {student}: {problem} → 0 points for now, marked for manual grading in Formgrader")
    say_notes(result.notes)
    if scores := scored(course.root, assignment):
        got = [score for score, _ in scores.values()]
        most = max(most for _, most in scores.values())
        say(f"  points: median {statistics.median(got):g}, {min(got):g} … {max(got):g} of {most:g}")


def say_notes(notes: Mapping[str, Iterable[str]]) -> None:
    """Print {student: notes}, one per line."""
    for student, own in notes.items():
        for note in own:
            say(f"  {student}: {note}")


def lines(form: str, reasons: Mapping[str, str]) -> list[str]:
    """Return an error message, such as "{}: {}", for each name and its reason."""
    return [form.format(name, why) for name, why in sorted(reasons.items())]


@command(
    "collect",
    ASSIGNMENT,
    argument("--inbox", metavar="FOLDER", help="where students submit (default: the exchange)"),
    argument("--student", metavar="NAME", help="collect only this student's submission"),
    argument("--in-time", action="store_true", help="of several submissions, the newest on time"),
    argument("--any-owner", action="store_true",
             help=(
                 "do not check that a folder is owned by the student; only for a submission folder that only"
                 " you can write to"
             )),
)  # fmt: skip
def collect(course: Course, options: argparse.Namespace) -> list[str]:
    """Collect students' submissions. Links are refused, the owner is verified, and times are the server's."""
    from .submissions import collect as collecting
    from .submissions import due_dates

    where = options.inbox or exchange.inbox(course.coursedir, course.config)
    with opened(course) as book:
        limits = due_dates.deadlines(book, course, options.assignment) if options.in_time else None
    new, same, refused, notes = collecting.collect(
        course.coursedir, options.assignment, where,
        student=options.student, check_owner=not options.any_owner, due=limits,
    )  # fmt: skip
    counts = f"{len(new)} collected, {len(same)} unchanged, {len(refused)} refused"
    say(f"{options.assignment}: {counts}, from {where}")
    for student, one in new.items():
        say(f"  {student}: submitted {one.when:%Y-%m-%d %H:%M:%S} UTC")
    say_notes(notes)
    return lines("{} was refused: {}", refused) + tell_students(course)


def tell_students(course: Course) -> list[str]:
    """Update students' notices; return an error message for each that could not be written."""
    from .submissions import notices

    with opened(course) as book:
        return lines("{}: {}", notices.tell(course, book))


@command(
    "import",
    ASSIGNMENT,
    argument("zip", help="zip file as downloaded from the platform"),
    argument("--like", metavar="FILE",
             help=(
                 "the platform's own table of the class (CSV): Moodle's grading worksheet, Canvas's or"
                 " Blackboard's gradebook"
             )),
    argument("--platform", choices=["moodle", "canvas", "blackboard", "logins"],
             help="where the zip file is from (default: recognised from the files' names)"),
)  # fmt: skip
def import_submissions(course: Course, options: argparse.Namespace) -> list[str]:
    """Import submissions from the bulk download (zip) of Moodle, Canvas or Blackboard."""
    from .submissions import import_zip as platform_zip
    from .submissions import prepare

    assignment, like = options.assignment, read_table(options.like)
    wanted = prepare.Source.from_gradebook(course.coursedir, assignment).name + ".ipynb"
    with opened(course) as book:
        known = [(row.id, " ".join(filter(None, [row.first_name, row.last_name]))) for row in book.students]
    people = platform_zip.People(known, like)
    result = platform_zip.import_zip(course, assignment, wanted, Path(options.zip), people, options.platform)
    names, entries = dict(known), like.people if like else ()
    rows = Counter(entry.user for entry in entries)  # several can claim one user
    with opened(course) as book:  # Formgrader and the report show names, not logins
        for entry in entries:
            certain = entry.user in result.students and rows[entry.user] == 1
            new = certain and sorted(" ".join(entry.names).split())
            if new and new != sorted(names.get(entry.user, "").split()):
                first, last = entry.names
                book.update_or_create_student(entry.user, first_name=first, last_name=last)
    imported, unchanged, refused = map(len, (result.students, result.unchanged, result.refused))
    counts = f"{imported} imported, {unchanged} of them unchanged, {refused} refused, from {options.zip}"
    say(f"{assignment}: {counts}", *(f"  note: {remark}" for remark in result.remarks), sep="\n")
    say_notes(result.notes)
    return lines("{} was refused: {}", result.refused)


def read_table(path: str | None) -> platforms.Table | None:
    """Return the platform's table given by --like. Raises CourseError."""
    from . import platforms

    try:
        return platforms.read(Path(path)) if path else None
    except (CourseError, OSError) as error:
        raise CourseError(f"--like: {error}") from None


@command(
    "feedback-zip",
    ASSIGNMENT,
    argument("--to", metavar="FILE", help="where to write (.grading/feedback-ASSIGNMENT.zip)"),
)
def feedback_zip(course: Course, options: argparse.Namespace) -> list[str]:
    """Write the feedback on imported submissions as a zip file for the platform."""
    from .submissions import import_zip as platform_zip

    target = Path(options.to or course.private / f"feedback-{options.assignment}.zip")
    given, left = platform_zip.feedback_zip(course, options.assignment, target)
    say(f"{target}: feedback of {len(given)}")
    return lines("{} {}", left)


@command(
    "regrade",
    ASSIGNMENT,
    argument("--check", required=True, metavar="NAME", help="name of the check in the notebook"),
    one_of(
        STUDENTS,
        argument("--void", action="store_const", const=True, help="count it as passed for all students"),
        argument("--count", dest="void", action="store_const", const=False, help="undo --void"),
    ),
    *WHERE,
)
def regrade(course: Course, options: argparse.Namespace) -> list[str]:
    """Regrade one check that was wrong, or whose points or text have changed."""
    from .grading import grade
    from .grading import regrade as again

    limits, backend = dict(options.limit), chosen_backend(course, options)
    this = grade.Coordinator(course, options.assignment, backend, limits=limits)
    result, rerun = again.regrade(this, options.check, options.void, options.student)
    executed = len(set(result.graded) - set(rerun))
    counts = f"{len(result.students)} students; {executed} executed again"
    say(f"{options.assignment}, {options.check}: {counts}")
    say_notes(result.notes)
    return lines("{} was not graded ({}); run it again", result.ungraded)


@command("rebuild")
def rebuild(course: Course, options: argparse.Namespace) -> list[str]:
    """Make a damaged gradebook again from the stored verdicts. Nothing is executed; the old file is kept."""
    from .grading import rebuild as again

    result = again.rebuild(course)
    for name, students in result.points.items():
        say(f"{name}: points of {len(students)} submissions")
    say(f"the damaged gradebook is kept in {result.kept}")
    if result.unread:
        say(f"  not readable in it: {', '.join(result.unread)}. Enter again what is missing")
    wrong = [f"{name}: {student}: {why}; use `grade run`"
             for name, left in result.left.items() for student, why in left.items()]  # fmt: skip
    return wrong + tell_students(course)


@command("report", ASSIGNMENT, TO)
def report(course: Course, options: argparse.Namespace) -> list[str]:
    """Write the class report: points, checks, misconceptions, time (HTML and CSV)."""
    from .results import class_report, report_page

    facts = class_report.facts(course.root, course, options.assignment)
    folder = Path(options.to or reports(course, options))
    for name, text in (class_report.tables(facts) | {"report.html": report_page.page(facts)}).items():
        write_report(folder / name, text)
        say(f"{folder / name}")
    return []


def reports(course: Course, options: argparse.Namespace) -> Path:
    """Return the folder of an assignment's reports."""
    return course.private / "reports" / options.assignment


def write_report(path: Path, text: str) -> None:
    """Write a report that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    grading_folder.write(path, text)


@command(
    "leaderboard",
    argument("assignment", nargs="?", default="10", help=f"{ONE} (10)"),
    argument("--to", metavar="FILE", help="where to write (.grading/reports/ASSIGNMENT/leaderboard.html)"),
)
def leaderboard(course: Course, options: argparse.Namespace) -> list[str]:
    """Write the class's leaderboard of students who opted in, sorted by modelled cost (HTML)."""
    from cluster.system.text import printable

    from .results import leaderboard as board

    entries = board.entries(course, options.assignment)
    target = Path(options.to or reports(course, options) / "leaderboard.html")
    write_report(target, board.page(course.root, options.assignment, entries))
    say(f"{target}: {len(entries)} entries, {sum(bool(e.numbers) for e in entries)} of them verified")
    for entry in entries:
        say(f"  {entry.rank or '-'}  {entry.shown}  (account {printable(entry.student)})")
    return []


@command(
    "similar",
    ASSIGNMENT,
    argument("--common", type=whole_number, metavar="N",
             help="ignore code that more than N students share (5, and a tenth of them)"),
    TO,
)  # fmt: skip
def similar(course: Course, options: argparse.Namespace) -> list[str]:
    """Compare submissions with each other and report similar pairs (HTML, and a table)."""
    from .results import similarity, similarity_page

    assignment = options.assignment
    comparison = similarity.of_class(course.root, course, assignment, options.common)
    target = Path(options.to or reports(course, options)) / "similar.html"
    write_report(target, similarity_page.page(assignment, comparison))
    say(f"{assignment}:", *similarity_page.terminal(comparison), f"{target}", sep="\n")
    return []


@command(
    "export",
    argument("assignment", nargs="*", help="assignments to export (default: all in the gradebook)"),
    argument("--for", "--format", dest="format", default="plain",
             choices=["plain", "canvas", "moodle", "blackboard"], help="format (plain)"),
    argument("--like", metavar="FILE", help="the platform's own export, whose rows and columns are kept"),
    argument("--partial", action="store_true",
             help="write the points so far instead of nothing if manual grading is needed"),
    argument("--to", metavar="FILE", help="where to write (.grading/grades-FORMAT.csv)"),
)  # fmt: skip
def export(course: Course, options: argparse.Namespace) -> list[str]:
    """Write the final points as CSV for a learning management system."""
    from .results import export as exporting
    from .submissions import roster_file

    if options.like and options.format == "plain":
        raise CourseError(
            "--like requires the platform of the export: add --for canvas, --for moodle or --for blackboard"
        )
    like = read_table(options.like)
    with opened(course) as book:
        known = sorted(row.name for row in book.assignments)
        names = [name for given in options.assignment for name in assignments(course.root, given)] or known
        if unknown := sorted(set(names) - set(known)):
            raise CourseError(f"{', '.join(unknown)}: not in the gradebook, which has {', '.join(known)}")
        people = roster_file.read(course)
        text, warnings = exporting.export(book, names, options.format, like, options.partial, people)
    target = Path(options.to or course.private / f"grades-{options.format}.csv")
    grading_folder.write(target, text)
    say(f"{target}: {', '.join(names)}", *(f"  note: {warning}" for warning in warnings), sep="\n")
    return []


@command(
    "lti",
    ASSIGNMENT,
    STUDENTS,
    argument(
        "--dry-run", action="store_true", help="show what would be sent, without contacting the platform"
    ),
)
def lti(course: Course, options: argparse.Namespace) -> list[str]:
    """Send the final points of an assignment to the learning platform (LTI 1.3)."""
    from .lti import grade_passback

    assignment, where = options.assignment, grade_passback.registration(course)
    with opened(course) as book:
        if assignment not in {row.name for row in book.assignments}:
            raise CourseError(f"{assignment} is not in the gradebook, so it has no graded submissions")
        plan = grade_passback.plan(course, book, assignment, where, options.student)
    say(f"{assignment} to {where.issuer}, course {where.context!r} ({where.title!r}):")
    left = lines("{} is left out: {}", plan.left)
    if options.dry_run:
        for student, score in sorted(plan.send.items()):
            before = f" (the platform has {plan.before[student]:g})" if student in plan.before else ""
            say(f"  {student}: {score.points:g} of {score.of:g}{before}")
        say(f"  {len(plan.send)} would be sent, {len(plan.same)} were sent before, {len(left)} left out")
        return left
    outcome = grade_passback.send(course, plan, where, say)
    counts = {"sent": outcome.done, "sent before": plan.same, "left out": left, "rejected": outcome.failed}
    say("  " + ", ".join(f"{len(found)} {words}" for words, found in counts.items()))
    return [*left, *lines("{} was rejected: {}", outcome.failed), *filter(None, [outcome.stopped])]


@command("hand-out", ASSIGNMENT, NO_GRADE)
def hand_out(course: Course, options: argparse.Namespace) -> list[str]:
    """Generate an assignment, verify it, and release it to students through the exchange."""
    from .results import give

    say(f"{options.assignment}: {give.hand_out(course, options.assignment, grade=not options.no_grade)}")
    return tell_students(course)


@command(
    "due",
    ASSIGNMENT,
    argument("when", nargs="?", help="date, such as '2026-12-01 23:59 Europe/Berlin', or 'none'"),
)
def due(course: Course, options: argparse.Namespace) -> list[str]:
    """Set the due date of an assignment, or show it."""
    from .submissions import due_dates

    with opened(course) as book:
        if options.when:
            due_dates.set_due(book, course, options.assignment, options.when)
        say(due_dates.describe_due_date(book, course, options.assignment))
    return tell_students(course) if options.when else []


@command(
    "extend",
    argument("student", help="the student's user name"),
    ASSIGNMENT,
    one_of(
        argument("--days", type=int, metavar="N", help="days after the due date; 0 revokes them"),
        argument("--until", metavar="WHEN", help="such as '2026-12-03 12:00 Europe/Berlin'"),
        required=True,
    ),
)
def extend(course: Course, options: argparse.Namespace) -> list[str]:
    """Give a student more time for an assignment."""
    from .submissions import due_dates

    student, assignment = options.student, options.assignment
    with opened(course) as book:
        say(due_dates.extend(book, course, student, assignment, days=options.days, until=options.until))
    return tell_students(course)


@command(
    "checks",
    ASSIGNMENT,
    argument("--an-hour", type=partial(whole_number, least=0), metavar="N",
             help="checks per student in 60 minutes (0: none)"),
    argument("--in-all", type=partial(whole_number, least=0), metavar="N",
             help="checks per student in total"),
)  # fmt: skip
def checks(course: Course, options: argparse.Namespace) -> list[str]:
    """Limit how often students may use the official check of an assignment, and show how often they have used
    it."""
    from .official_check.attempt_limits import Records

    records = Records(course.private / "checks", options.assignment)
    new = {"an_hour": options.an_hour, "in_all": options.in_all}
    if new := {name: n for name, n in new.items() if n is not None}:
        records.set_limits(dataclasses.replace(records.limits, **new))
    limits, tries = records.limits, records.all()
    each = f"{limits.an_hour} official checks per hour, {limits.in_all} in total, for each student"
    say(f"{options.assignment}: {each}")
    say(f"  {sum(map(len, tries.values()))} used so far, by {len(tries)} students")
    return []


@command("give-back", ASSIGNMENT, STUDENTS)
def give_back(course: Course, options: argparse.Namespace) -> list[str]:
    """Write the feedback on all graded submissions, and release it to students."""
    from .results import give

    given, failed, notes = give.give_back(course, options.assignment, options.student)
    where = f"student{'s' * (given != 1)} {give.to_fetch(course, options.assignment)}"
    say(f"{options.assignment}: feedback for {given} {where}", *notes, sep="\n  ")
    return tell_students(course) + lines("{} got no feedback: {}", failed)
