"""The hidden lines of a check: exactly the lines that nbgrader removes from the release.

nbgrader looks for its delimiters anywhere in a line, so `###BEGIN HIDDEN TESTS`, or a space after the hash
marks, begins a hidden region, too. The autograder's first phase and the feedback must use the same lines.
"""

import ast

BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"  # the delimiters of nbgrader's ClearHiddenTests
# all that a student is told of a hidden test that failed, whatever the cause
FAILED = (
    "A hidden test failed: what it tries is wrong in at least one case, ends in an error or takes too long. "
    "The cases that you can see are not all that it tries."
)
LATE = "grading took longer"  # in the autograder's words about checks that it has not reached in time


def between(lines: list[str], begin: str = BEGIN, end: str = END) -> list[bool]:
    """Return for each line whether it is one of nbgrader's delimiters or lies between a pair of them.

    A region that is never closed, which nbgrader refuses to release, extends to the end of the text.
    """
    found, inside = [], False
    for line in lines:
        inside = begin in line or (inside and end not in line)
        found.append(inside or end in line)
    return found


def hidden_lines(text: str) -> list[bool]:
    """Return for each line of a cell, split at "\\n" as in nbgrader, whether it is hidden from students."""
    return between(text.split("\n"))


def has_hidden(text: str) -> bool:
    """Return whether this cell contains hidden tests."""
    return any(hidden_lines(text))


def only_failed(text: str, error: str, hidden: bool) -> bool:
    """Return whether a student may learn only that this check has failed, not how.

    text: the check. error: what it ended with. hidden: one of its hidden tests failed. If the time was over
    before the check, the hidden tests of other checks may have used it up.
    """
    return hidden or (has_hidden(text) and LATE in error)


def as_released(text: str) -> str:
    """Return the cell as nbgrader releases it, without the hidden lines."""
    return "\n".join(
        line for line, secret in zip(text.split("\n"), hidden_lines(text), strict=True) if not secret
    )


def without_hidden(text: str) -> str:
    """Return a check without the hidden lines, with line numbers unchanged."""
    return replaced(text, "", every=True)


def replaced(text: str, instead: str, every: bool = False) -> str:
    """Return the cell with `instead` replacing each hidden region, or every line of it."""
    lines, before = [], False
    for line, secret in zip(text.split("\n"), hidden_lines(text), strict=True):
        if not secret:
            lines.append(line)
        elif every or not before:
            lines.append(instead)
        before = secret
    return "\n".join(lines)


def in_parts(text: str) -> tuple[str, str, bool]:
    """Return (visible part, hidden part or "", whether the hidden part continues the visible one) of a check.

    If the check consists of the statements of one part followed by the other's, the hidden part continues
    the visible one. Otherwise it is the whole check, which has to run from its beginning.
    """
    shown, secret = without_hidden(text), hidden_lines(text)
    if not any(secret):
        return shown, "", False
    lines = zip(text.split("\n"), secret, strict=True)
    rest = "\n".join(line if is_hidden else "" for line, is_hidden in lines)
    try:
        body, first, last = (list(map(ast.dump, ast.parse(part).body)) for part in (text, shown, rest))
    except SyntaxError:
        return shown, text, False
    return (shown, rest, True) if body == first + last else (shown, text, False)
