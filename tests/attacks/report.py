"""Format the results of the attacks, for printing and as a report."""

import datetime
import importlib.metadata
import os
import platform

FAILS, SAID = "fails", 110
MORE = "\n## Against earlier code"  # below this line, the report is handwritten


def verdict(outcome):
    return f"SUCCEEDS: {outcome.won}" if outcome.won else FAILS


def table(attacks, outcomes, theirs):
    """Return a table of the attacks as text."""
    lines = []
    for name in [*attacks, *(set(outcomes) - set(attacks))]:
        ours = outcomes[name]
        says = (
            attacks[name].says if name in attacks else ("Effects that are not attributed to a single attack.")
        )
        points = "no score" if ours.score is None else f"{ours.score:g} of {ours.largest:g} points"
        lines += [f"\n{name}: {says}", f"    engine         {verdict(ours)} ({points})"]
        if ours.message:
            lines.append(f"                   {short(ours.message)}")
        if name in theirs:
            lines.append(f"    stock nbgrader {verdict(theirs[name])}")
    lines.append(f"\nengine: {count(outcomes)}")
    if theirs:
        lines.append(f"stock nbgrader: {count(theirs)}")
    return "\n".join(lines)


def count(outcomes):
    return f"{sum(bool(o.won) for o in outcomes.values())} of {len(outcomes)} attacks succeed"


def short(text):
    text = " ".join(text.split())
    return text if len(text) <= SAID else f"{text[: SAID - 1]}…"


def document(attacks, outcomes, theirs):
    """Return the report, as Markdown."""
    head = f"""# Results of attacks on grading

`make exploits` had these results on {datetime.date.today():%d %B %Y}, with {machine()}; {versions()}.

Each attack is a file in this folder. The autograder graded the attacks and some honest students as one
class. Afterwards, we compared the honest students' scores, the files and the gradebook. For comparison,
nbgrader with its default settings graded each attack in a separate course, followed by one honest
student. These courses were in a sandbox with limited memory and processes, and with everything outside
read-only. An attack that sees only what an honest student's feedback shows, such as nbgrader's hidden
tests, does not count as successful.

Autograder: **{count(outcomes)}**.{f" Stock nbgrader: **{count(theirs)}**." if theirs else ""}

| attack | attempt | autograder | autograder's message |{" stock nbgrader |" if theirs else ""}
|---|---|---|---|{"---|" if theirs else ""}
"""
    rows = []
    for name, ours in outcomes.items():
        says = attacks[name].says if name in attacks else "what no single attack is known to have done"
        cells = [f"`{name}`", says, verdict(ours), short(ours.message)]
        cells += [verdict(theirs[name]) if name in theirs else "not run"] if theirs else []
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |")
    return head + "\n".join(rows) + "\n"


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    return f"{len(os.sched_getaffinity(0))} cores ({model}), Linux {platform.release()}"


def versions():
    names = ("nbgrader", "nbconvert", "ipython", "numpy")
    results = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return ", ".join([f"Python {platform.python_version()}", *results])
