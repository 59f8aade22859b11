"""The kind of a check's failure, in one word, which decides what feedback and report may conclude.

The autograder knows the process that raised an error, and its verdict contains the kind. A notebook
that was rerun in Jupyter has only the error's text, and the kind is derived from it as far as possible.
"""

import re

VALUE = "value"  # the check itself has found a wrong value, or a forbidden call
FORM = "form"  # a different shape, dtype, length or kind of object: the values were not compared
CRASH = "crash"  # the student's code, or a check that uses its result, raised an error
EMPTY = "empty"  # a blank that is still empty, or a function that calls one
HIDDEN = "hidden"  # for students: a hidden test failed, in whatever way
LIMIT = "limit"  # no answer, or none in time; also a submission that could not be graded at all

ENGINES = ("TimeLimit", "NoAnswer", "NotGraded")  # the autograder's names for failures without an exception
HOLE = "NotImplementedError"
LATE = "reached its time limit"  # in the error of a job that a check has started
# A check of a job's results, or of trials on ranks, contains the error that ended a rank.
_ERROR = r"\w*(Error|Exception|Exit|Interrupt)"
ENDED = re.compile(rf"\bended with (an? )?{_ERROR}\b|\brank \d+: {_ERROR} in ")
# The messages of checks/compare.py, and any mention of a shape or a dtype in a check's own message; also
# the autograder's message about a changed argument, which does not depend on the values.
OF_FORM = re.compile(
    r"\bshapes?\b|\bdtypes?\b|; it should (be|have) |expected keys|elements too many"
    r"|(is|holds) a float; an exact value|has changed its argument",
)


def kind(error: str, students: bool = False) -> str:
    """Return the kind of a failure from its error ("Name: text"); "" for no error.

    students: the error was raised in the student process, so an AssertionError is not the check's.
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
