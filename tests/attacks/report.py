"""What is printed about the attacks, and the report that is kept."""

import datetime
import importlib.metadata
import os
import platform

FAILS, SAID = "fails", 110
MORE = "\n## Against earlier code"  # from here on a report is written by hand


def verdict(outcome):
    return f"SUCCEEDS: {outcome.won}" if outcome.won else FAILS


def table(attacks, found, theirs):
    """Attack by attack, as text."""
    lines = []
    for name in [*attacks, *(set(found) - set(attacks))]:
        ours = found[name]
        says = attacks[name].says if name in attacks else "What no single attack is known to have done."
        points = "no score" if ours.score is None else f"{ours.score:g} of {ours.largest:g} points"
        lines += [f"\n{name}: {says}", f"    engine         {verdict(ours)} ({points})"]
        if ours.said:
            lines.append(f"                   {short(ours.said)}")
        if name in theirs:
            lines.append(f"    stock nbgrader {verdict(theirs[name])}")
    lines.append(f"\nengine: {count(found)}")
    if theirs:
        lines.append(f"stock nbgrader: {count(theirs)}")
    return "\n".join(lines)


def count(outcomes):
    return f"{sum(bool(o.won) for o in outcomes.values())} of {len(outcomes)} attacks succeed"


def short(text):
    text = " ".join(text.split())
    return text if len(text) <= SAID else f"{text[: SAID - 1]}…"


def document(attacks, found, theirs):
    """The report, Markdown."""
    head = f"""# Attacks on grading: what happened

`make exploits` on {datetime.date.today():%d %B %Y}: {machine()}; {versions()}.

Each attack is a file of this folder. The engine graded them as one class between honest students, whose
scores, files and gradebook were compared afterwards. Stock nbgrader, for comparison, graded each in a course
of its own with nbgrader's default settings and one honest student behind it. So that the comparison does no
harm, that course lay in a sandbox: all outside it read-only, memory and processes limited. What an honest
student's feedback shows as well (stock feedback shows the hidden checks) does not count as seen by an attack.

Engine: **{count(found)}**.{f" Stock nbgrader: **{count(theirs)}**." if theirs else ""}

| attack | what it tries | engine | what the engine says |{" stock nbgrader |" if theirs else ""}
|---|---|---|---|{"---|" if theirs else ""}
"""
    rows = []
    for name, ours in found.items():
        says = attacks[name].says if name in attacks else "what no single attack is known to have done"
        cells = [f"`{name}`", says, verdict(ours), short(ours.said)]
        cells += [verdict(theirs[name]) if name in theirs else "not run"] if theirs else []
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |")
    return head + "\n".join(rows) + "\n"


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    return f"{len(os.sched_getaffinity(0))} cores ({model}), Linux {platform.release()}"


def versions():
    names = ("nbgrader", "nbconvert", "ipython", "numpy")
    found = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return ", ".join([f"Python {platform.python_version()}", *found])
