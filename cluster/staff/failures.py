"""How a check failed, in one word: what feedback and report may conclude from a failure depends on it.

The engine knows in which process an error was raised, and its verdict says the kind. A notebook that
somebody has run again in Jupyter has only the error's text, from which the same is read as far as possible.
"""

import re

VALUE = "value"  # the check itself has found a wrong value, or a call that should not be
FORM = "form"  # another shape, dtype, length or kind of object: nothing is known of the values
CRASH = "crash"  # the student's code, or a check that works with its result, raised an error
EMPTY = "empty"  # a hole that is still empty, or a function that calls one
LIMIT = "limit"  # no answer, or none in time; also what could not be graded at all

ENGINES = ("TimeLimit", "NoAnswer", "NotGraded")  # the engine's words for what is no exception
HOLE = "NotImplementedError"
LATE = "reached its time limit"  # of a job that a check has started
# A check of a job's results, or of what was tried on ranks, says with which error a rank ended.
_ERROR = r"\w*(Error|Exception|Exit|Interrupt)"
ENDED = re.compile(rf"\bended with (an? )?{_ERROR}\b|\brank \d+: {_ERROR} in ")
# The words of checks/compare.py, and any mention of a shape or a dtype by a check of its own words; also what
# the engine says of a changed argument, which is right or wrong whatever the values are.
OF_FORM = re.compile(
    r"\bshapes?\b|\bdtypes?\b|; it should (be|have) |expected keys|elements too many"
    r"|(is|holds) a float; an exact value|has changed .+, which it was given",
)


def kind(error: str, students: bool = False) -> str:
    """The kind of a failure from its error ("Name: text"); "" for no error.

    students: it was raised in the student's process, so that an AssertionError is none of the check's.
    """
    name, _, text = error.partition(": ")
    if not error:
        return ""
    if name in ENGINES or LATE in text:
        return LIMIT
    if name == HOLE or (HOLE in text and (name != "AssertionError" or ENDED.search(text))):
        return EMPTY
    if students or name != "AssertionError" or ENDED.search(text):
        return CRASH
    return FORM if OF_FORM.search(text) else VALUE
