"""The commands for a class and for releasing to students: their arguments and output."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .course import Course, CourseError, assignments, opened, say, scored
from .submissions import exchange

if TYPE_CHECKING:
    from . import platforms
    from .grading.driver import Backend
    from .grading.grade import Result

ONE = "the assignment, by the beginning of its name: 01"


Run = Callable[[Path, argparse.Namespace], list[str]]  # a command, which returns error messages


class AddCommand(Protocol):
    """A function that creates the parser of a command. Its help text is the docstring of `run`."""

    def __call__(self, name: str, run: Run, assignment: bool = True) -> argparse.ArgumentParser: ...


def add(command: AddCommand) -> None:
    """Add the commands for a class."""
    c = command("run", grade_class)
    c.add_argument("--student", action="append", metavar="NAME", help="only this student; may be repeated")
    c.add_argument("--backend", choices=["auto", "local", "slurm"], default="auto",
                   help="grade on this machine, on Slurm, or on Slurm if it answers (auto)")  # fmt: skip
    c.add_argument(
        "--jobs", type=number, metavar="N", help="local: submissions graded at a time (default: one per core)"
    )
    slurm = c.add_argument_group("on Slurm")
    slurm.add_argument("--account", metavar="NAME", help="Slurm account of the job array")
    slurm.add_argument("--partition", metavar="NAME", help="Slurm partition of the job array")
    slurm.add_argument("--cpus", type=number, default=2, metavar="N",
                       help="cores per task, and submissions graded at a time per task (2)")  # fmt: skip
    slurm.add_argument("--tasks", type=number, default=32, metavar="N", help="tasks running at a time (32)")
    c.add_argument("--limit", action="append", default=[], metavar="NAME=VALUE", type=limit,
                   help="set a sandbox limit: cell=120, total=900 (seconds), memory=2G, …")  # fmt: skip

    c = command("collect", collect)
    c.add_argument("--inbox", metavar="FOLDER", help="where students submit (default: the exchange)")
    c.add_argument("--student", metavar="NAME", help="collect only this student's submission")
    c.add_argument("--in-time", action="store_true", help="of several submissions, the newest on time")
    c.add_argument("--any-owner", action="store_true",
                   help=(
                       "do not check that a folder is owned by the student; only for a submission folder "
                       "that only you can write to"
                   ))  # fmt: skip

    c = command("import", import_submissions)
    c.add_argument("zip", help="zip file as downloaded from the platform")
    c.add_argument("--like", metavar="FILE",
                   help=(
                       "the platform's own table of the class (CSV): Moodle's grading worksheet, Canvas's or "
                       "Blackboard's gradebook"
                   ))  # fmt: skip
    c.add_argument("--platform", choices=["moodle", "canvas", "blackboard", "logins"],
                   help="where the zip file is from (default: recognised from the files' names)")  # fmt: skip

    c = command("feedback-zip", feedback_zip)
    c.add_argument("--to", metavar="FILE", help="where to write (.grading/feedback-ASSIGNMENT.zip)")

    c = command("regrade", regrade)
    c.add_argument("--check", required=True, metavar="NAME", help="name of the check in the notebook")
    void = c.add_mutually_exclusive_group()
    void.add_argument("--student", action="append", metavar="NAME", help="only this student; may be repeated")
    void.add_argument("--void", action="store_const", const=True, help="count it as passed for all students")
    void.add_argument("--count", dest="void", action="store_const", const=False, help="undo --void")
    c.set_defaults(backend="auto", jobs=None, account=None, partition=None, cpus=2, tasks=32)

    c = command("report", report)
    c.add_argument("--to", metavar="FOLDER", help="where to write (.grading/reports/ASSIGNMENT)")

    c = command("leaderboard", leaderboard, assignment=False)
    c.add_argument("assignment", nargs="?", default="10", help=f"{ONE} (10)")
    c.add_argument(
        "--to", metavar="FILE", help="where to write (.grading/reports/ASSIGNMENT/leaderboard.html)"
    )

    c = command("similar", similar)
    c.add_argument("--common", type=number, metavar="N",
                   help="ignore code that more than N students share (5, and a tenth of them)")  # fmt: skip
    c.add_argument("--to", metavar="FOLDER", help="where to write (.grading/reports/ASSIGNMENT)")

    c = command("export", export, assignment=False)
    c.add_argument("assignment", nargs="*", help="assignments to export (default: all in the gradebook)")
    c.add_argument("--for", "--format", dest="format", default="plain",
                   choices=["plain", "canvas", "moodle", "blackboard"], help="format (plain)")  # fmt: skip
    c.add_argument("--like", metavar="FILE",
                   help="the platform's own export, whose rows and columns are kept")  # fmt: skip
    c.add_argument("--partial", action="store_true",
                   help="write the points so far instead of nothing if manual grading is needed")  # fmt: skip
    c.add_argument("--to", metavar="FILE", help="where to write (.grading/grades-FORMAT.csv)")

    c = command("lti", lti)
    c.add_argument("--student", action="append", metavar="NAME", help="only this student; may be repeated")
    c.add_argument(
        "--dry-run", action="store_true", help="show what would be sent, without contacting the platform"
    )

    command("hand-out", hand_out)

    c = command("due", due)
    c.add_argument("when", nargs="?", help="date, such as '2026-12-01 23:59 Europe/Berlin', or 'none'")

    c = command("extend", extend, assignment=False)
    c.add_argument("student", help="the student's user name")
    c.add_argument("assignment", help=ONE)
    more = c.add_mutually_exclusive_group(required=True)
    more.add_argument("--days", type=int, metavar="N", help="days after the due date; 0 revokes them")
    more.add_argument("--until", metavar="WHEN", help="such as '2026-12-03 12:00 Europe/Berlin'")

    c = command("checks", checks)
    c.add_argument("--an-hour", type=whole, metavar="N", help="checks per student in 60 minutes (0: none)")
    c.add_argument("--in-all", type=whole, metavar="N", help="checks per student in total")

    c = command("give-back", give_back)
    c.add_argument("--student", action="append", metavar="NAME", help="only this student; may be repeated")


def number(text: str) -> int:
    n = int(text) if text.isdecimal() else 0
    if n < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return n


def whole(text: str) -> int:
    n = int(text) if text.isdecimal() else -1
    if not 0 <= n <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 10000")
    return n


def limit(text: str) -> tuple[str, float]:
    """Return (name, value) of a limit, in seconds, or in bytes with suffix K, M, G."""
    from .engine import Limits

    name, _, value = text.partition("=")
    known = {field.name: field.default for field in dataclasses.fields(Limits)}
    if name not in known:
        raise argparse.ArgumentTypeError(f"{name!r} is not a known limit; the limits are {', '.join(known)}")
    unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(value[-1:].upper(), 0)
    try:
        number = float(value[:-1]) * unit if unit else float(value)
    except ValueError:
        number = 0
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text!r}: give a positive number, for bytes with K, M or G")
    return name, int(number) if isinstance(known[name], int) else number


def grade_class(root: Path, options: argparse.Namespace) -> list[str]:
    """Grade a class: all submissions, on this machine or as one Slurm array."""
    from sqlalchemy.exc import OperationalError

    from .grading import grade

    [assignment] = assignments(root, options.assignment)
    limits = dict(options.limit) or None
    backend = chosen_backend(options, limits or {})
    try:
        result = grade.grade_class(root, assignment, options.student, backend=backend, limits=limits)
    except (OSError, OperationalError) as error:  # a full disk, or a gradebook locked by another process
        message = str(getattr(error, "orig", error))
        raise CourseError(f"{message}. Nothing is lost. Fix this and run the command again") from error
    tell(root, assignment, result)
    return [
        (f"{student} was not graded ({why}); run it again")
        for student, why in sorted(result.ungraded.items())
    ]


def chosen_backend(options: argparse.Namespace, limits: Mapping[str, Any]) -> Backend:
    """Return the backend for the workers."""
    from cluster.jobs import backends
    from cluster.jobs.errors import BackendError

    from .engine import Limits
    from .engine.sandbox import bubblewrap
    from .grading.on_slurm import Array
    from .grading.on_this_machine import Local

    try:
        chosen, why = backends.choose(options.backend)
    except BackendError as error:
        raise CourseError(f"{error.what} Grade here with --backend local, or run `make doctor`") from None
    if chosen == "slurm":
        whole = Limits(**limits)
        memory = -(-whole.memory // 2**20)
        return Array(options.account, options.partition, options.cpus, options.tasks, memory, whole.total)
    if options.account or options.partition:
        raise CourseError(f"--account and --partition apply only to Slurm, which is not used{why}")
    if missing := bubblewrap.missing():
        raise CourseError(missing)
    return Local(options.jobs)


def tell(root: Path, assignment: str, result: Result) -> None:
    """Print the outcome for a class."""
    counts = [
        (len(result.graded), "graded now"),
        (len(result.unchanged), "unchanged since last graded"),
        (len(result.unreadable), "unreadable"),
        (len(result.ungraded), "not graded"),
    ]
    counts.append((result.stopped, "left for the next run, because grading was stopped"))
    say(f"{assignment}: {len(result.students)} submitted; " + ", ".join(f"{n} {w}" for n, w in counts if n))
    for student, problem in result.unreadable.items():
        say(f"  {student}: {problem} → 0 points for now, marked for manual grading in Formgrader")
    for student, notes in result.notes.items():
        say(*(f"  {student}: {note}" for note in notes), sep="\n")
    scores = scored(root, assignment)
    if scores:
        import statistics

        got = [score for score, _ in scores.values()]
        most = max(most for _, most in scores.values())
        say(f"  points: median {statistics.median(got):g}, {min(got):g} … {max(got):g} of {most:g}")


def collect(root: Path, options: argparse.Namespace) -> list[str]:
    """Collect students' submissions. Links are refused, the owner is verified, and times are the server's."""
    from .submissions import collect as collecting
    from .submissions import due_dates, notices

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    where = options.inbox or exchange.inbox(course.coursedir, course.config)
    with opened(course) as book:
        limits = due_dates.deadlines(book, course, assignment) if options.in_time else None
    new, same, refused = collecting.collect(
        course.coursedir, assignment, where,
        student=options.student, check_owner=not options.any_owner, due=limits,
    )  # fmt: skip
    say(f"{assignment}: {len(new)} collected, {len(same)} unchanged, {len(refused)} refused, from {where}")
    for student, one in new.items():
        say(f"  {student}: submitted {one.when:%Y-%m-%d %H:%M:%S} UTC")
    with opened(course) as book:
        untold = notices.tell(course, book)
    wrong = [f"{folder} was refused: {why}" for folder, why in sorted(refused.items())]
    return wrong + [f"{student}: {why}" for student, why in sorted(untold.items())]


def import_submissions(root: Path, options: argparse.Namespace) -> list[str]:
    """Import submissions from the bulk download (zip) of Moodle, Canvas or Blackboard."""
    from .submissions import import_zip as platform_zip
    from .submissions import prepare

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    like = read_table(options.like)
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
    say(*(f"  {student}: {note}" for student, notes in result.notes.items() for note in notes), sep="\n")
    return [f"{name} was refused: {why}" for name, why in sorted(result.refused.items())]


def feedback_zip(root: Path, options: argparse.Namespace) -> list[str]:
    """Write the feedback on imported submissions as a zip file for the platform."""
    from .submissions import import_zip as platform_zip

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    target = Path(options.to or course.private / f"feedback-{assignment}.zip")
    given, left = platform_zip.feedback_zip(course, assignment, target)
    say(f"{target}: feedback of {len(given)}")
    return [f"{student} {why}" for student, why in sorted(left.items())]


def read_table(path: str | None) -> platforms.Table | None:
    """Return the platform's table given by --like. Raises CourseError."""
    from . import platforms

    try:
        return platforms.read(Path(path)) if path else None
    except (CourseError, OSError) as error:
        raise CourseError(f"--like: {error}") from None


def regrade(root: Path, options: argparse.Namespace) -> list[str]:
    """Regrade one check that was wrong, or whose points or text have changed."""
    from .grading import grade
    from .grading import regrade as again

    [assignment] = assignments(root, options.assignment)
    this = grade.Coordinator(Course(root), assignment, chosen_backend(options, {}))
    result, rerun = again.regrade(this, options.check, options.void, options.student)
    executed = [name for name in result.graded if name not in rerun]
    say(f"{assignment}, {options.check}: {len(result.students)} students; {len(executed)} executed again")
    say(*(f"  {student}: {note}" for student, notes in result.notes.items() for note in notes), sep="\n")
    return [
        (f"{student} was not graded ({why}); run it again")
        for student, why in sorted(result.ungraded.items())
    ]


def report(root: Path, options: argparse.Namespace) -> list[str]:
    """Write the class report: points, checks, misconceptions, time (HTML and CSV)."""
    from .results import class_report, report_page
    from .submissions import grading_folder

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    facts = class_report.facts(root, course, assignment)
    folder = Path(options.to or course.private / "reports" / assignment)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in (class_report.tables(facts) | {"report.html": report_page.page(facts)}).items():
        grading_folder.write(folder / name, text)
        say(f"{folder / name}")
    return []


def leaderboard(root: Path, options: argparse.Namespace) -> list[str]:
    """Write the class's leaderboard of students who opted in, sorted by modelled cost (HTML)."""
    from cluster.system.text import printable

    from .results import leaderboard as board
    from .submissions import grading_folder

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    entries = board.entries(course, assignment)
    target = Path(options.to or course.private / "reports" / assignment / "leaderboard.html")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    grading_folder.write(target, board.page(root, assignment, entries))
    lines = [f"  {e.rank or '-'}  {e.shown}  (account {printable(e.student)})" for e in entries]
    say(
        f"{target}: {len(entries)} entries, {sum(bool(e.numbers) for e in entries)} of them verified",
        *lines,
        sep="\n",
    )
    return []


def similar(root: Path, options: argparse.Namespace) -> list[str]:
    """Compare submissions with each other and report similar pairs (HTML, and a table)."""
    from .results import similarity, similarity_page
    from .submissions import grading_folder

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    comparison = similarity.of_class(root, course, assignment, options.common)
    folder = Path(options.to or course.private / "reports" / assignment)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    grading_folder.write(folder / "similar.html", similarity_page.page(assignment, comparison))
    say(f"{assignment}:", *similarity_page.terminal(comparison), f"{folder / 'similar.html'}", sep="\n")
    return []


def export(root: Path, options: argparse.Namespace) -> list[str]:
    """Write the final points as CSV for a learning management system."""
    from .results import export as exporting
    from .submissions import grading_folder, roster_file

    if options.like and options.format == "plain":
        raise CourseError(
            "--like requires the platform of the export: add --for canvas, --for moodle or --for blackboard"
        )
    like = read_table(options.like)
    course = Course(root)
    with opened(course) as book:
        known = sorted(row.name for row in book.assignments)
        names = [name for wanted in options.assignment for name in assignments(root, wanted)] or known
        if unknown := sorted(set(names) - set(known)):
            raise CourseError(f"{', '.join(unknown)}: not in the gradebook, which has {', '.join(known)}")
        people = roster_file.read(course)
        text, warnings = exporting.export(book, names, options.format, like, options.partial, people)
    target = Path(options.to or course.private / f"grades-{options.format}.csv")
    grading_folder.write(target, text)
    say(f"{target}: {', '.join(names)}", *(f"  note: {warning}" for warning in warnings), sep="\n")
    return []


def lti(root: Path, options: argparse.Namespace) -> list[str]:
    """Send the final points of an assignment to the learning platform (LTI 1.3)."""
    from .lti import grade_passback

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    where = grade_passback.registration(course)
    with opened(course) as book:
        if assignment not in {row.name for row in book.assignments}:
            raise CourseError(f"{assignment} is not in the gradebook, so it has no graded submissions")
        plan = grade_passback.plan(course, book, assignment, where, options.student)
    say(f"{assignment} to {where.issuer}, course {where.context!r} ({where.title!r}):")
    left = [f"{student} is left out: {why}" for student, why in sorted(plan.left.items())]
    if options.dry_run:
        for student, score in sorted(plan.send.items()):
            before = f" (the platform has {plan.before[student]:g})" if student in plan.before else ""
            say(f"  {student}: {score.points:g} of {score.of:g}{before}")
        say(f"  {len(plan.send)} would be sent, {len(plan.same)} were sent before, {len(left)} left out")
        return left
    outcome = grade_passback.send(course, plan, where, say)
    counts = {"sent": outcome.done, "sent before": plan.same, "left out": left, "rejected": outcome.failed}
    say("  " + ", ".join(f"{len(found)} {words}" for words, found in counts.items()))
    failed = [f"{student} was rejected: {why}" for student, why in sorted(outcome.failed.items())]
    return [*left, *failed, *filter(None, [outcome.stopped])]


def hand_out(root: Path, options: argparse.Namespace) -> list[str]:
    """Generate an assignment, verify it, and release it to students through the exchange."""
    from .results import give

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    say(f"{assignment}: {give.hand_out(course, assignment)}")
    return tell_students(course)


def checks(root: Path, options: argparse.Namespace) -> list[str]:
    """Limit how often students may use the official check of an assignment, and show how often they have used
    it."""
    from .official_check.attempt_limits import Records

    [assignment] = assignments(root, options.assignment)
    records = Records(Course(root).private / "checks", assignment)
    new = {"an_hour": options.an_hour, "in_all": options.in_all}
    if new := {name: n for name, n in new.items() if n is not None}:
        records.set_limits(dataclasses.replace(records.limits, **new))
    limits, tries = records.limits, records.all()
    say(
        f"{assignment}: {limits.an_hour} official checks per hour, {limits.in_all} in total, for each student"
    )
    say(f"  {sum(map(len, tries.values()))} used so far, by {len(tries)} students")
    return []


def give_back(root: Path, options: argparse.Namespace) -> list[str]:
    """Write the feedback on all graded submissions, and release it to students."""
    from .results import give

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    given, failed, notes = give.give_back(course, assignment, options.student)
    where = give.to_fetch(course, assignment)
    say(f"{assignment}: feedback for {given} student{'s' * (given != 1)} {where}", *notes, sep="\n  ")
    return tell_students(course) + [
        f"{student} got no feedback: {why}" for student, why in sorted(failed.items())
    ]


def due(root: Path, options: argparse.Namespace) -> list[str]:
    """Set the due date of an assignment, or show it."""
    from .submissions import due_dates

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    with opened(course) as book:
        if options.when:
            due_dates.set_due(book, course, assignment, options.when)
        say(due_dates.describe_due_date(book, course, assignment))
    return tell_students(course) if options.when else []


def extend(root: Path, options: argparse.Namespace) -> list[str]:
    """Give a student more time for an assignment."""
    from .submissions import due_dates

    [assignment] = assignments(root, options.assignment)
    course = Course(root)
    with opened(course) as book:
        say(
            due_dates.extend(
                book, course, options.student, assignment, days=options.days, until=options.until
            )
        )
    return tell_students(course)


def tell_students(course: Course) -> list[str]:
    """Update students' notices; return an error message for each that could not be written."""
    from .submissions import notices

    with opened(course) as book:
        return [f"{student}: {why}" for student, why in sorted(notices.tell(course, book).items())]
