"""`python -m tests.attacks`: grade a class of attackers, and print the result of each attack."""

import argparse
import sys

from cluster.staff.course import CourseError, find_root

from . import grade_attacks


def main(argv: list[str] | None = None) -> int:
    """Run the attacks; return 1 if one of them succeeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__.partition(": ")[2])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these attacks only")
    parser.add_argument(
        "--stock", nargs="*", metavar="NAME", help="these, or all, against nbgrader's own grading too"
    )
    parser.add_argument("--report", metavar="FILE", help="write the report, Markdown, to this file")
    options = parser.parse_args(argv)
    try:
        wrong = grade_attacks(find_root(), options.only, options.stock, options.report)
    except CourseError as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        wrong = ["interrupted; nothing is lost, and the same command resumes here"]
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
