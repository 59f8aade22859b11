"""watched() and forbidden() in a notebook of one process, as students run their checks."""

import pytest

from cluster.checks import forbidden, in_place, watched


def helper(x):
    return x + 1


def twice(x):
    return helper(helper(x))


def test_calls_are_counted_and_the_function_is_put_back():
    """Also when the block raises?"""
    before = helper
    with watched("helper") as calls:
        assert twice(1) == 3
    assert calls.count == 2 and helper is before
    with pytest.raises(AssertionError, match="no helper"), forbidden("helper", "no helper"):
        twice(1)
    assert helper is before
    with in_place():
        assert twice(0) == 2


def test_a_name_that_is_not_there_is_an_error():
    """And not a count of zero?"""
    with pytest.raises(NameError, match="nothing_such"), watched("nothing_such"):
        pass
