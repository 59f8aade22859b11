"""python -m cluster.staff: release assignments, verify checks, grade a class, demonstrate the whole cycle."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import commands as class_commands
from .course import CourseError, find_root
from .release import wrong_solutions

ANOTHER_GRADEBOOK = (
    "the class of the hub in {state} is graded on its class page, or with this command in a terminal of"
    " Formgrader's JupyterLab; this run uses a different gradebook, in {private}"
)


def parser(prog: str = "python -m cluster.staff") -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(prog=prog, description=__doc__.split(": ")[1].capitalize())
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: class_commands.Run, assignment: bool = True) -> argparse.ArgumentParser:
        text = run.__doc__ or ""
        subparser = commands.add_parser(name, help=text[:1].lower() + text[1:].rstrip("."), description=text)
        subparser.set_defaults(run=run)
        if assignment:
            subparser.add_argument("assignment", help=class_commands.ONE)
        return subparser

    one = f"{class_commands.ONE} (default: all)"
    command("release", release, assignment=False).add_argument("assignment", nargs="?", help=one)
    command("check-release", check_release, assignment=False).add_argument("assignment", nargs="?", help=one)
    c = command("mutants", mutants, assignment=False)
    c.add_argument("assignment", nargs="?", help=one)
    c.add_argument("--only", nargs="+", metavar="NAME", help="grade only these (unsolved, solution, …)")
    c.add_argument("--workers", type=int, help="submissions to grade at a time (default: one per core)")
    class_commands.add(command)
    command("demo", demo, assignment=False)
    c = command("student", student, assignment=False)
    c.add_argument("--to", help="folder to write the package to (default: student/ in the course root)")
    c.add_argument(
        "--after", metavar="NN", help="the last assignment whose answers the package may contain, such as 07"
    )
    return main


def release(root: Path, options: argparse.Namespace) -> list[str]:
    """Generate exercises/ from solutions/, and replace it only when the new one is complete."""
    from .release.release import release

    release(root, options.assignment)
    return []


def check_release(root: Path, options: argparse.Namespace) -> list[str]:
    """Generate the release again, compare it with exercises/ and search it for solutions."""
    from .release.release import check

    return check(root, options.assignment)


def mutants(root: Path, options: argparse.Namespace) -> list[str]:
    """Grade the unsolved assignment, the solution and the mutants, and print the mutation results."""
    from .grading.on_this_machine import Local
    from .grading.prove_checks import prove

    return prove(root, options.assignment, options.only, Local(options.workers))


def demo(root: Path, options: argparse.Namespace) -> list[str]:
    """Run the whole cycle: release, three students, jobs on two ranks, grades, feedback."""
    from .demo import run_demo

    return run_demo(root)


def student(root: Path, options: argparse.Namespace) -> list[str]:
    """Create the folder student/: lectures, exercises and the files that they need."""
    from .release.student_folder import make

    return make(root, options.to, options.after)


def main(argv: Sequence[str] | None = None, prog: str = "python -m cluster.staff") -> int:
    options = parser(prog).parse_args(argv)
    try:
        root = find_root()
        if options.run.__module__ == class_commands.__name__:
            note_other_gradebooks(root)
        wrong = options.run(root, options)
    except (CourseError, wrong_solutions.MutantError) as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        wrong = ["interrupted; nothing is lost, and the same command resumes here"]
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


def note_other_gradebooks(root: Path) -> None:
    """Mention the other gradebooks, if the class is graded elsewhere."""
    from .hub import neighbours

    for state in neighbours.started_from(root):
        note = ANOTHER_GRADEBOOK.format(state=state, private=root / ".grading")
        print(f"note: {note}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
