"""python -m cluster.grading: release the assignments, prove their checks, show the whole loop."""

import argparse
import sys

from cluster.grading.course import CourseError, find_root


def parser():
    main = argparse.ArgumentParser(prog="python -m cluster.grading", description=__doc__.split(": ")[1])
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, text):
        return commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")

    one = "the assignment, by the beginning of its name: 01 (default: all)"
    release = command("release", "generate exercises/ from solutions/, swapped in only when complete")
    release.add_argument("assignment", nargs="?", help=one)
    check = command("check-release", "generate again, compare with exercises/ and look for solutions in it")
    check.add_argument("assignment", nargs="?", help=one)
    mutants = command("mutants", "grade stub, solution and wrong solutions; print mutants against checks")
    mutants.add_argument("assignment", nargs="?", help=one)
    mutants.add_argument(
        "--only", nargs="+", metavar="NAME", help="these submissions only (stub, solution, …)"
    )
    mutants.add_argument("--workers", type=int, help="processes that grade (default: one a core)")
    command("demo", "the whole loop: release, three students, jobs on two ranks, grades, feedback")
    student = command("student", "make the folder student/: lectures, exercises and what they need")
    student.add_argument("--to", help="the folder (default: student/ in the course root)")
    student.add_argument(
        "--after", metavar="NN", help="the last assignment whose answers the package may hold, as 07"
    )
    return main


def main(argv=None):
    options = parser().parse_args(argv)
    from cluster.grading import demo, mutants, release, student

    try:
        root = find_root()
        if options.command == "release":
            release.release(root, options.assignment)
            wrong = []
        elif options.command == "check-release":
            wrong = release.check(root, options.assignment)
        elif options.command == "mutants":
            wrong = mutants.run(root, options.assignment, options.only, options.workers)
        elif options.command == "demo":
            wrong = demo.run(root)
        else:
            wrong = student.make(root, options.to, options.after)
    except (CourseError, mutants.MutantError) as error:
        wrong = [str(error)]
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
