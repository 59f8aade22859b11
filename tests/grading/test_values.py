"""Equality in AUTOTEST, with tables of pairs that must pass and pairs that must fail."""

import base64
import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from cluster import checks
from cluster.checks import autotest, close, draws, expect

from .. import ROOT

ONE, DOUBLE = np.float32, np.float64
LONG = np.arange(1000, dtype=ONE)

# (the reference's value, the student's value)
EQUAL = {
    "floats that differ by rounding": (0.3, 0.1 + 0.2),
    "a list of them": ([0.3, 1.0], [0.1 + 0.2, 1.0]),
    "minus zero": (0.0, -0.0),
    "zero and what rounding leaves of it": (0.0, 6e-17),
    "and the other way round": (6e-17, 0.0),
    "NaN and infinities": ([float("nan"), float("inf")], [float("nan"), float("inf")]),
    "NumPy's scalars": (3, np.int64(3)),
    "a float32 scalar": (0.1, np.float32(0.1)),
    "a NumPy bool": (True, np.bool_(True)),
    "sums in another order": (np.float32([1e-6, 1.0]), np.float32([1.00000001e-6, 1.0000005])),
    "rounding next to large values": (np.array([1e6, 0.0]), np.array([1e6, 1e-4])),
    "integers of another width": (np.arange(3, dtype=np.int64), np.arange(3, dtype=np.int32)),
    "a transposed copy": (np.ones((2, 3)), np.asfortranarray(np.ones((2, 3)))),
    "another byte order": (np.ones(3, ONE), np.ones(3, ">f4")),
    "an empty array": (np.empty((0, 3)), np.empty((0, 3))),
    "long arrays": (LONG, LONG.copy()),
    "arrays of text": (np.array(["relu", "tanh"]), np.array(["relu", "tanh"], dtype="U10")),
    "half precision": (np.float16([0.1]), np.float16([0.1003])),
    "complex numbers": (1 + 2j, 1 + (2 + 1e-12) * 1j),
    "dicts in another order": ({"a": 1, "b": 2.0}, {"b": 2.0, "a": 1}),
    "sets of text": ({"relu", "tanh", "elu"}, {"elu", "tanh", "relu"}),
    "sets of floats": ({0.3, 1.0}, {1.0, 0.1 + 0.2}),
    "text with quotes": ('"it\'s"', '"it\'s"'),
    "nested": (
        {"shape": (2, 3), "values": [np.ones(2), None]},
        {"values": [np.ones(2), None], "shape": (2, 3)},
    ),
    "bytes": (b"\x00\xff", b"\x00\xff"),
    "dtypes": (np.dtype("float32"), np.float32),
    "an own tolerance": (close([1.0, 2.0], rtol=0.1), [1.05, 1.9]),
    "an own absolute tolerance": (close(0.0, atol=1e-3), 5e-4),
}
DIFFERENT = {
    "floats in the sixth digit": (1.0, 1.00001),
    "small floats": (1e-12, 2e-12),
    "near zero": (0.0, -0.001),
    "an int for a float": (5.0, 5),
    "a float for an int": (5, 5.0),
    "a bool for an int": (1, True),
    "text for a number": (1, "1"),
    "None": (1.0, None),
    "NaN for a number": (1.0, float("nan")),
    "a number for NaN": (float("nan"), 1.0),
    "minus infinity": (float("inf"), float("-inf")),
    "a number for infinity": (float("inf"), 1e308),
    "double for single precision": (np.ones(3, ONE), np.ones(3, DOUBLE)),
    "single for double precision": (np.ones(3, DOUBLE), np.ones(3, ONE)),
    "integers for floats": (np.ones(3), np.ones(3, int)),
    "another shape": (np.ones((2, 3)), np.ones((3, 2))),
    "a scalar for an array of one": (np.ones(1), 1.0),
    "one value of many, in the middle": (LONG, np.where(np.arange(1000) == 500, -1, LONG).astype(ONE)),
    "all but the ends of a long array": (LONG, np.where((LONG > 3) & (LONG < 996), 0, LONG).astype(ONE)),
    "float32 beyond its tolerance": (np.float32([1.0]), np.float32([1.001])),
    "zeros": (np.ones((4, 4)), np.zeros((4, 4))),
    "a list for a tuple": ((1, 2), [1, 2]),
    "a list for an array": (np.ones(2), [1.0, 1.0]),
    "an element more": ([1, 2], [1, 2, 3]),
    "another order of a list": ([1, 2], [2, 1]),
    "another key": ({"a": 1}, {"b": 1}),
    "a key less": ({"a": 1, "b": 2}, {"a": 1}),
    "a value of a dict": ({"a": 1.0}, {"a": 1.1}),
    "a set's element": ({1, 2}, {1, 3}),
    "a larger set": ({1, 2}, {1, 2, 3}),
    "text": ("relu", "Relu"),
    "quotes around text": ("relu", "'relu'"),
    "complex parts": (1 + 2j, 1 - 2j),
    "dtypes": (np.dtype("float32"), np.float64),
    "the text of a dtype": (np.dtype("float32"), "float32"),
    "beyond an own tolerance": (close([1.0, 2.0], rtol=0.1), [1.2, 2.0]),
}


def passes(want, got):
    """Return whether the released check for `want` passes for `got`."""
    try:
        autotest(got).matches(repr(autotest(want)), "x")
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("case", EQUAL)
def test_must_pass(case):
    """Does an answer pass if it differs from the reference only in permitted ways, such as rounding?"""
    assert passes(*EQUAL[case])


@pytest.mark.parametrize("case", DIFFERENT)
def test_must_fail(case):
    """Is an incorrect answer detected?"""
    assert not passes(*DIFFERENT[case])


def test_every_value_passes_against_itself():
    """Does the reference pass its own check?"""
    for want, got in [*EQUAL.values(), *DIFFERENT.values()]:
        assert passes(want, want) and passes(got, got)


@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_hash_seed_changes_nothing(seed):
    """Are all encoded expected values and all verdicts the same for every hash seed?"""
    code = (
        "from tests.grading.test_values import *\n"
        "texts = [repr(autotest(want)) for want, _ in [*EQUAL.values(), *DIFFERENT.values()]]\n"
        "verdicts = [passes(*pair) for pair in [*EQUAL.values(), *DIFFERENT.values()]]\n"
        "print(hashlib.sha256(''.join(texts).encode()).hexdigest(), sum(verdicts), verdicts.index(False))"
    )
    texts = [repr(autotest(want)) for want, _ in [*EQUAL.values(), *DIFFERENT.values()]]
    here = [hashlib.sha256("".join(texts).encode()).hexdigest(), str(len(EQUAL)), str(len(EQUAL))]
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert there.stdout.split() == here, there.stderr


def test_tensors():
    """Are tensors and variables compared by dtype, shape and value, and only with each other?"""
    tf = pytest.importorskip("tensorflow")
    ones = tf.ones((2, 2))
    assert passes(ones, tf.Variable(ones))
    assert not passes(ones, tf.ones((2, 2), tf.float64))
    assert not passes(ones, tf.ones((4,)))
    assert not passes(ones, tf.zeros((2, 2)))
    assert not passes(ones, ones.numpy())
    assert passes(tf.cast(ones, tf.bfloat16), tf.cast(ones, tf.bfloat16))
    assert passes(tf.float32, tf.float32) and not passes(tf.float32, tf.float64)


def test_the_text_gives_nothing_away_at_sight():
    """Is the expected value in a release unreadable at a glance, and safe inside quotes and templates?"""
    text = repr(autotest({"answer": 1387264, "word": '"""{{x}}'}))
    assert "1387264" not in text and "answer" not in text
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    assert json.loads(base64.b64decode(text)), "and it is only encoded: it can be decoded and read"


def test_the_message_names_the_place_but_not_the_expected_value():
    """Does the message of a failed check show where the result is wrong, without the expected value?"""
    want, got = np.array([[1.0, 2.0], [3.0, 777.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(AssertionError) as error:
        autotest(got).matches(repr(autotest(want)), "forward(x)")
    assert str(error.value).startswith("forward(x)") and "[1, 1]" in str(error.value)
    assert "4.0" in str(error.value) and "777" not in str(error.value)


def test_hashed_values_are_exact_only():
    """Does HASHED AUTOTEST accept exactly the expected value?"""
    text = repr(autotest((3, "same")).hashed("5f"))
    autotest((3, "same")).hashed("5f").matches(text, "x")
    for wrong in [(4, "same"), [3, "same"], (3, "valid")]:
        with pytest.raises(AssertionError, match="x "):
            autotest(wrong).hashed("5f").matches(text, "x")
    assert repr(autotest((3, "same")).hashed("60")) != text, "the salt changes nothing"
    autotest("float").hashed("5f")  # the text, not the type


@pytest.mark.parametrize("floats", [0.5, {"a": [0.5]}, np.ones(2), 1j])
def test_floats_behind_a_hash(floats):
    """Is a float in HASHED AUTOTEST refused, with a message that names the alternatives?"""
    with pytest.raises(AssertionError, match=r"float.*int.*AUTOTEST"):
        autotest(floats).hashed("5f")


@pytest.mark.parametrize("value", [print, object(), np.array([None]), {"f": lambda: 0}])
def test_what_cannot_be_compared_is_refused(value):
    """Is an expected value refused if AUTOTEST cannot compare its type?"""
    with pytest.raises(TypeError, match="AUTOTEST"):
        autotest(value)


def test_a_huge_value_is_refused():
    """Is an expected value refused if its text would exceed the limit?"""
    with pytest.raises(ValueError, match="limit 20000"):
        repr(autotest(np.ones(5000)))


def test_drawn_inputs_follow_from_the_seed_and_the_numbers(monkeypatch):
    """In a notebook, are the inputs the same in each run, others for other numbers, and others for another
    seed?"""

    def draw(*numbers):
        return checks.fresh_rng(*numbers).integers(2**62)

    notebook = [draw(), draw(0), draw(1), draw(1, 2)]
    assert [draw(), draw(0), draw(1), draw(1, 2)] == notebook
    monkeypatch.setattr(draws, "SEED", 2**100)
    assert len({*notebook, draw(), draw(0), draw(1), draw(1, 2)}) == 8


def test_expect_names_the_misconception():
    """Does `expect` name a misconception exactly if the value of this misconception equals the result?"""
    hints = {"the batch was averaged.": 5.0, "the sign is wrong.": -10.0}
    expect(10.0, 10.0, hints)
    with pytest.raises(AssertionError, match=r"dw is 5,.*Likely: the batch was averaged\.$"):
        expect(5.0, 10.0, hints, "dw")
    with pytest.raises(AssertionError, match="is 6") as error:
        expect(6.0, 10.0, hints, "dw")
    assert "Likely" not in str(error.value)
