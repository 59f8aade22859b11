"""python -m cluster.grading: release assignments, prove their checks, grade a class, show the whole loop."""

import argparse
import sys

from cluster.grading.classrun import cli, cli_giving
from cluster.grading.course import CourseError, find_root


def parser(prog="python -m cluster.grading"):
    text = __doc__.split(": ")[1]
    main = argparse.ArgumentParser(prog=prog, description=text[0].upper() + text[1:])
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
    exploits = command("exploits", "grade a class of attacks on grading; print what each got")
    exploits.add_argument("--only", nargs="+", metavar="NAME", help="these attacks only")
    exploits.add_argument(
        "--stock", nargs="*", metavar="NAME", help="these, or all, against nbgrader's own grading too"
    )
    exploits.add_argument("--report", metavar="FILE", help="write the report, Markdown, to this file")
    cli_giving.add(commands, command)
    cli.add(commands, command)
    command("demo", "the whole loop: release, three students, jobs on two ranks, grades, feedback")
    student = command("student", "make the folder student/: lectures, exercises and what they need")
    student.add_argument("--to", help="the folder (default: student/ in the course root)")
    student.add_argument(
        "--after", metavar="NN", help="the last assignment whose answers the package may hold, as 07"
    )
    return main


def main(argv=None, prog="python -m cluster.grading"):
    options = parser(prog).parse_args(argv)
    from cluster.grading import demo, exploits, mutants, release, student

    try:
        root = find_root()
        if "run" in options:
            wrong = options.run(root, options)
        elif options.command == "release":
            release.release(root, options.assignment)
            wrong = []
        elif options.command == "check-release":
            wrong = release.check(root, options.assignment)
        elif options.command == "mutants":
            wrong = mutants.run(root, options.assignment, options.only, options.workers)
        elif options.command == "exploits":
            wrong = exploits.run(root, options.only, options.stock, options.report)
        elif options.command == "demo":
            wrong = demo.run(root)
        else:
            wrong = student.make(root, options.to, options.after)
    except (CourseError, mutants.MutantError) as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        wrong = ["interrupted; nothing is lost: the same command goes on where this one was"]
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
