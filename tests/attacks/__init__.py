"""Attack the autograder with a class of attackers; tests/exploits/ has one file per attack.

corpus   reads the attacks and submits them
judge    determines what an attack gained: points, a secret, a trace, or a grading run that stopped
ours     grades the class as `grade run` does
stock    grades each attack in a separate course with nbgrader's default settings, for comparison
report   prints the results and writes the report
"""

import tempfile
import time
from pathlib import Path

from cluster.staff.course import CourseError, say


def grade_attacks(root, only=None, stock=None, report=None):
    """Run all attacks, or those in `only`; print the results and return the successful attacks as text.

    stock: names of the attacks to run against nbgrader's own grading, too ([] for all, None for none).
    report: path of the Markdown file to write.
    """
    from . import corpus, ours
    from . import report as reports
    from . import stock as stocks

    attacks = corpus.load_all(root / "tests" / "exploits")
    if unknown := sorted({*(only or ()), *(stock or ())} - set(attacks)):
        raise CourseError(f"no attack is called {', '.join(unknown)}; there are {', '.join(attacks)}")
    attacks = {name: attack for name, attack in attacks.items() if not only or name in only}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="exploits-") as scratch:
        outcomes = ours.grade_attacks(root, attacks, Path(scratch) / "ours")
        chosen = {n: a for n, a in attacks.items() if stock == [] or n in (stock or ())}
        theirs = stocks.grade_attacks(root, chosen, Path(scratch) / "stock") if chosen else {}
    say(reports.table(attacks, outcomes, theirs))
    if report:
        path = Path(report)
        more = path.read_text().partition(reports.MORE) if path.exists() else ("", "", "")
        path.write_text(reports.document(attacks, outcomes, theirs) + "".join(more[1:]))
    say(f"{len(attacks)} attacks, {time.monotonic() - start:.0f} s")
    return [f"{name} succeeds: {outcome.won}" for name, outcome in outcomes.items() if outcome.won]
