"""`python -m tests.attacks`: grade a class of attackers, and print the result of each attack."""

import argparse
import sys
import tempfile
from pathlib import Path

from cluster.staff.course import CourseError, find_root, say

from . import corpus, ours


def grade_attacks(root, only=None):
    """Run all attacks, or those in `only`; print the results and return the successful attacks as text."""
    attacks = corpus.load_all(root / "tests" / "exploits")
    if unknown := sorted({*(only or ())} - set(attacks)):
        raise CourseError(f"no attack is called {', '.join(unknown)}; there are {', '.join(attacks)}")
    attacks = {name: attack for name, attack in attacks.items() if not only or name in only}
    with tempfile.TemporaryDirectory(prefix="exploits-") as scratch:
        outcomes = ours.grade_attacks(root, attacks, Path(scratch) / "ours")
    for name, outcome in outcomes.items():
        says = attacks[name].says if name in attacks else "effects that are not attributed to a single attack"
        points = "no score" if outcome.score is None else f"{outcome.score:g} of {outcome.largest:g} points"
        result = f"SUCCEEDS: {outcome.won}" if outcome.won else "fails"
        say(f"\n{name}: {says}\n    {result} ({points})\n    {' '.join(outcome.message.split())[:110]}")
    return [f"{name} succeeds: {outcome.won}" for name, outcome in outcomes.items() if outcome.won]


def main(argv: list[str] | None = None) -> int:
    """Run the attacks; return 1 if one of them succeeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__.partition(": ")[2])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these attacks only")
    options = parser.parse_args(argv)
    try:
        wrong = grade_attacks(find_root(), options.only)
    except CourseError as error:
        wrong = [str(error)]
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
