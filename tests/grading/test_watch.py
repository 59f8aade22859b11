"""watched() and unchanged() in a single process, as students run their checks."""

import numpy as np
import pytest

from cluster.checks import in_place, unchanged, watched


def helper(x):
    return x + 1


def twice(x):
    return helper(helper(x))


def test_calls_are_counted_and_the_function_is_put_back():
    """Does watched() count calls, and restore the function even if the block raises an error?"""
    before = helper
    with watched("helper") as calls:
        assert twice(1) == 3
    assert calls.count == 2 and helper is before
    with pytest.raises(ZeroDivisionError), watched("helper"):
        1 / 0  # noqa: B018
    assert helper is before
    with in_place():
        assert twice(0) == 2


def test_another_answer_is_seen_in_the_result():
    """Does a replacement that is passed to watched() determine the result?"""
    with watched("helper", lambda x: 10 * x) as calls:
        assert twice(1) == 100
    assert calls.count == 2 and twice(1) == 3


def test_a_changed_array_is_named():
    """Does unchanged() name the array that changed, and no other?"""
    x, w = np.zeros(2), np.ones(2)
    with unchanged(x=x, w=w):
        x + w
    with pytest.raises(AssertionError, match=r"\bw\b"), unchanged(x=x, w=w):
        w += x + 1


def test_a_name_that_is_not_there_is_an_error():
    """Does watched() raise a NameError for an undefined name, rather than count zero calls?"""
    with pytest.raises(NameError, match="nothing_such"), watched("nothing_such"):
        pass
