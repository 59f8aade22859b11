"""What a failed check says about its author: the misunderstanding behind it, and where to read again.

Misunderstandings are those of the mutants: each file of tests/mutants/ names the checks that fail together
when somebody believes this. Places are the section of the assignment, and the section of the lecture that the
check's `see` names.
"""

import re
from functools import cache
from urllib.parse import quote

EMPTY = "NotImplementedError"
NOT_THEIRS = ("TimeLimit", "NoAnswer")  # the engine's words, which say what happened
MARKS = "?/:@!$&'()*+,;="  # that nbconvert leaves as they are in the id of a heading
MOST = 2  # misunderstandings that fit equally well


def explain(root, assignment, check, failed, said):
    """Markdown, or "" where there is nothing to say.

    failed: the names of all checks that failed (frozenset); said: the error of this one.
    """
    lines = []
    if said.startswith("NotGraded"):
        return ""
    if said.startswith(EMPTY):
        lines.append("**The hole is still empty**, or calls a function whose hole is.")
    elif not said.startswith(NOT_THEIRS) and "Likely:" not in said:
        words = [mutant.misunderstanding.rstrip(".") for mutant in likely(root, assignment, check, failed)]
        if words:
            lines.append("**Perhaps you think:** " + " *Or:* ".join(f"{word}." for word in words))
    if places := where(root, assignment, check):
        lines.append(f"**Read again:** {places}.")
    return "\n\n".join(lines)


def likely(root, assignment, check, failed):
    """The mutants that best explain why this check failed together with the others, at most two.

    One explains it when all its checks failed; the best explains most of them. Where more than two are
    equally good, nothing is known.
    """
    fitting = [m for m in mutants_of(root, assignment) if check in m.fails and m.fails <= failed]
    best = max((len(m.fails) for m in fitting), default=0)
    found = [m for m in fitting if len(m.fails) == best]
    return found if len(found) <= MOST else []


@cache
def mutants_of(root, assignment):
    from cluster.grading.mutants import load_all

    notebook = source_of(root, assignment)
    return tuple(load_all(root, assignment, notebook)) if notebook else ()


@cache
def source_of(root, assignment):
    """The instructor's notebook of an assignment, or None."""
    import nbformat

    paths = sorted((root / "solutions" / assignment).glob("*.ipynb"))
    return nbformat.read(paths[0], as_version=4) if len(paths) == 1 else None


@cache
def where(root, assignment, check):
    """The places to read again, in words, or ""."""
    notebook, heading = source_of(root, assignment), ""
    for cell in notebook.cells if notebook else ():
        if cell.cell_type == "markdown":
            heading = next(iter(re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)[-1:]), heading)
        elif cell.metadata.get("nbgrader", {}).get("grade_id") == check:
            section = lecture_section(root, assignment, cell.metadata.get("see"))
            return ", and ".join(filter(None, [heading and above(heading), section]))
    return ""


def above(heading):
    """A link to a heading of the page, by nbconvert's id for it; only words where it has formulas or code."""
    words = f"“{heading}” above"
    if re.search(r"[`$*_<>&\[\]]", heading):
        return words
    return f"[{words}](<#{quote(heading.replace(' ', '-'), safe=MARKS)}>)"


def lecture_section(root, assignment, see):
    """The section of the lecture that see="1.3" names, in words; "" without one. Raises ValueError."""
    import nbformat

    if not see:
        return ""
    number = f"{int(see.split('.')[0]):02}"
    for path in sorted((root / "lectures").glob(f"{number}_*.ipynb")):
        text = "\n".join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown")
        if found := re.search(rf"^#+ ({re.escape(see)}(?:\s|:).*)$", text, re.MULTILINE):
            return f"lecture {number}, section “{found.group(1).strip()}”"
    raise ValueError(f"see={see!r} of {assignment} names no section of lectures/{number}_*.ipynb")
