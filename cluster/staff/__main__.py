"""python -m cluster.staff: release assignments, prove their checks, grade a class, show the whole loop."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import commands as class_commands
from .course import CourseError, find_root
from .release import wrong_solutions

ANOTHER_GRADEBOOK = (
    "the class of the hub in {state} is graded on its class page, or by this command in a terminal of"
    " Formgrader's Lab; here it works on another gradebook, in {private}"
)


def parser(prog: str = "python -m cluster.staff") -> argparse.ArgumentParser:
    text = __doc__.split(": ")[1]
    main = argparse.ArgumentParser(prog=prog, description=text[0].upper() + text[1:])
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")

    one = "the assignment, by the beginning of its name: 01 (default: all)"
    release = command("release", "generate exercises/ from solutions/, swapped in only when complete")
    release.add_argument("assignment", nargs="?", help=one)
    check = command("check-release", "generate again, compare with exercises/ and look for solutions in it")
    check.add_argument("assignment", nargs="?", help=one)
    prove_checks = command(
        "mutants", "grade stub, solution and wrong solutions; print mutants against checks"
    )
    prove_checks.add_argument("assignment", nargs="?", help=one)
    prove_checks.add_argument(
        "--only", nargs="+", metavar="NAME", help="these submissions only (stub, solution, …)"
    )
    prove_checks.add_argument("--workers", type=int, help="processes that grade (default: one a core)")
    class_commands.add(command)
    command("demo", "the whole loop: release, three students, jobs on two ranks, grades, feedback")
    student_folder = command("student", "make the folder student/: lectures, exercises and what they need")
    student_folder.add_argument("--to", help="the folder (default: student/ in the course root)")
    student_folder.add_argument(
        "--after", metavar="NN", help="the last assignment whose answers the package may hold, as 07"
    )
    return main


def main(argv: Sequence[str] | None = None, prog: str = "python -m cluster.staff") -> int:
    options = parser(prog).parse_args(argv)
    from . import demo
    from .classes import prove_checks
    from .hub import neighbours
    from .release import release, student_folder

    try:
        root = find_root()
        if "run" in options:
            for state in neighbours.started_from(root):
                note = ANOTHER_GRADEBOOK.format(state=state, private=root / ".grading")
                print(f"note: {note}", file=sys.stderr)
            wrong = options.run(root, options)
        elif options.command == "release":
            release.release(root, options.assignment)
            wrong = []
        elif options.command == "check-release":
            wrong = release.check(root, options.assignment)
        elif options.command == "mutants":
            wrong = prove_checks.prove(root, options.assignment, options.only, options.workers)
        elif options.command == "demo":
            wrong = demo.run_demo(root)
        else:
            wrong = student_folder.make(root, options.to, options.after)
    except (CourseError, wrong_solutions.MutantError) as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        wrong = ["interrupted; nothing is lost: the same command goes on where this one was"]
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
