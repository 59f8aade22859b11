"""python -m cluster.staff: release assignments, verify checks, grade a class, demonstrate the whole cycle."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .commands import COMMANDS, NO_GRADE, ONE, Command, argument, command
from .course import Course, CourseError, assignments, find_root, gradebook_error, say
from .release import wrong_solutions

ANOTHER_GRADEBOOK = (
    "the class of the hub in {state} is graded on its class page, or with this command in a terminal of"
    " Formgrader's JupyterLab; this run uses a different gradebook, in {private}"
)


ASSIGNMENT = argument("assignment", nargs="?", help=f"{ONE} (default: all)")
TOOLS: dict[str, Command] = {}  # commands that need no gradebook of a class


@command(
    "release",
    ASSIGNMENT,
    NO_GRADE,
    argument("--add-cells", action="store_true", help="add cells to an assignment that has been graded"),
    table=TOOLS,
)
def release(root: Path, options: argparse.Namespace) -> list[str]:
    """Generate exercises/ from solutions/, and replace it only when the new one is complete, and only its
    solution gets points, all of them."""
    from .grading.prove_release import faults
    from .release.release import release

    release(root, options.assignment, faults=None if options.no_grade else faults, add=options.add_cells)
    return []


@command(
    "adopt",
    argument("notebook", help="an assignment of plain nbgrader, with its solution and tests"),
    argument("--name", help="the assignment's name, such as 12_truth_tables (default: from the notebook's)"),
    table=TOOLS,
)
def adopt(root: Path, options: argparse.Namespace) -> list[str]:
    """Make an assignment from a notebook of plain nbgrader, and list what will differ."""
    from .release.adopt import adopt

    script, notes = adopt(root, Path(options.notebook), options.name)
    say(f"{script.relative_to(root)} is written", *(f"  {note}" for note in notes), sep="\n")
    say(f"Next: python -m cluster grade release {script.parent.name}, which grades its solution, too")
    return []


@command("check-release", ASSIGNMENT, table=TOOLS)
def check_release(root: Path, options: argparse.Namespace) -> list[str]:
    """Generate the release again, compare it with exercises/ and search it for solutions."""
    from .release.release import check

    return check(root, options.assignment)


@command(
    "mutants",
    ASSIGNMENT,
    argument("--only", nargs="+", metavar="NAME", help="grade only these (stub, solution, …)"),
    argument("--workers", type=int, help="number of grading processes (default: one per core)"),
    table=TOOLS,
)
def mutants(root: Path, options: argparse.Namespace) -> list[str]:
    """Grade the unsolved assignment, the solution and the mutants, and print the mutation results."""
    from .grading.on_this_machine import Local
    from .grading.prove_checks import prove

    return prove(root, options.assignment, options.only, Local(options.workers))


@command("demo", table=TOOLS)
def demo(root: Path, options: argparse.Namespace) -> list[str]:
    """Run the whole cycle: release, three students, jobs on two ranks, grades, feedback."""
    from .demo import run_demo

    return run_demo(root)


@command(
    "student",
    argument("--to", help="folder to write the package to (default: student/ in the course root)"),
    argument("--after", metavar="NN",
             help="the last assignment whose answers the package may contain, such as 07"),
    table=TOOLS,
)  # fmt: skip
def student(root: Path, options: argparse.Namespace) -> list[str]:
    """Create the folder student/: lectures, exercises and the files that they need."""
    from .release.student_folder import make

    return make(root, options.to, options.after)


def parser(prog: str) -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(prog=prog, description=__doc__.split(": ")[1].capitalize())
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (run, arguments) in (TOOLS | COMMANDS).items():
        text = run.__doc__ or ""
        about = commands.add_parser(name, help=text[:1].lower() + text[1:].rstrip("."), description=text)
        for add_to in arguments:
            add_to(about)
    return main


def main(argv: Sequence[str] | None = None, prog: str = "python -m cluster.staff") -> int:
    options = parser(prog).parse_args(argv)
    try:
        wrong = run(find_root(), options)
    except (CourseError, wrong_solutions.MutantError) as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        wrong = ["interrupted; nothing is lost, and the same command resumes here"]
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


def run(root: Path, options: argparse.Namespace) -> list[str]:
    """Run a command and return its error messages."""
    if options.command in TOOLS:
        return TOOLS[options.command][0](root, options)
    note_other_gradebook(root)
    if isinstance(given := getattr(options, "assignment", None), str):
        [options.assignment] = assignments(root, given)
    from sqlalchemy.exc import DatabaseError

    try:
        return COMMANDS[options.command][0](Course(root), options)
    except DatabaseError as error:
        raise CourseError(gradebook_error(error)) from error


def note_other_gradebook(root: Path) -> None:
    """Mention the hub's gradebook, if root runs a command in the repository that the hub was started from."""
    from .hub import default_state, state

    readable = os.access(default_state() / state.RECORD, os.R_OK)  # by root
    if readable and (state.record(default_state()) or {}).get("root") == str(root):
        note = ANOTHER_GRADEBOOK.format(state=default_state(), private=root / ".grading")
        print(f"note: {note}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
