"""Values as expressions, and their cache keys.

Two expressions that differ in a letter have different values, so their keys must differ.
"""

# ruff: noqa: E501, F401, SIM905  (the expressions refer to these modules)
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import operator
import pathlib
import re
import sys
import types

import numpy as np
from hypothesis import strategies as st

from cluster.jobs.code.fingerprint import Closure, digest

Pair = collections.namedtuple("Pair", "first second")
Colour = enum.Enum("Colour", "RED GREEN BLUE")


@dataclasses.dataclass
class Data:
    value: object


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Held:
    def __init__(self, value):
        self.value = value

    def method(self):
        return self.value


def closing(value):
    """Return a function that refers to a value."""
    return lambda: value


def key(expression):
    """Return the cache key of a function that refers to the value of an expression; None if unstable."""
    closure = Closure(closing(eval(expression, globals())), {})
    return None if closure.unstable else digest(closure.form)


def many(inside, least=0):
    """Return lists of expressions, joined by commas."""
    return st.lists(inside, min_size=least, max_size=3).map(", ".join)


NUMBERS = st.integers(-(2**70), 2**70).map(repr) | st.floats().map(lambda x: f"float({str(x)!r})")
SMALL = st.integers(0, 9).map(str)
PLAIN = st.one_of(
    NUMBERS, st.sampled_from(["None", "True", "False", "..."]), st.text(max_size=5).map(repr),
    st.binary(max_size=5).map(repr), st.complex_numbers().map(lambda z: f"complex({str(z)!r})"),
)  # fmt: skip
NAMED = st.sampled_from(
    [f"np.{name}" for name in ("tanh", "sin", "add", "add.reduce", "float32", "dtype('f4')", "linalg.norm")]
    + [
        "len",
        "abs",
        "'a'.join",
        "str.join",
        "operator.add",
        "Pair",
        "Held",
        "Colour.RED",
        "Colour.BLUE",
        "int",
    ]
)
MADE = st.sampled_from(
    "re.compile('{0}') re.compile('{0}',re.I) re.compile('{0}').match memoryview(b'{0}') bytearray(b'{0}') "
    "range({0}) slice({0},None) decimal.Decimal('{0}') decimal.Decimal('{0}.0') fractions.Fraction(1,{0}+1) "
    "pathlib.Path('{0}') pathlib.PureWindowsPath('{0}') datetime.timedelta({0}) itertools.count({0}) "
    "operator.itemgetter({0}) operator.attrgetter('a{0}') operator.methodcaller('a',{0}) np.arange({0}) "
    "np.full(2,{0},'f4') np.ma.array([1,{0}],mask=[0,1]) np.ma.array([1,{0}],mask=[1,0]) np.int8({0}) "
    "np.random.default_rng({0}) np.array(['a',{0}],object) np.arange({0},{0}+4)[::2] np.datetime64({0},'D')".split()
).flatmap(lambda form: SMALL.map(form.format))
SETS = st.sets(st.integers(0, 9), min_size=1).map(lambda s: ", ".join(map(str, sorted(s))))


def containers(inside):
    """Return expressions of containers of these expressions."""
    items = many(inside)
    pairs = st.lists(st.tuples(SMALL, inside), max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda pairs: ", ".join(f"{k}: {v}" for k, v in pairs)
    )
    of_one = (
        "Data({0}) Slots({0}) Held({0}) Held({0}).method closing({0}) functools.partial(max,{0}) [{0}] ({0},) "
        "functools.partial(max,key={0}) types.SimpleNamespace(a={0}) enumerate([{0}]) zip([{0}]) map(abs,[{0}]) "
        "map(len,[{0}]) iter([{0}]) iter(({0},)) staticmethod({0}) (lambda:{0}) collections.UserList([{0}])"
    ).split()
    of_many = ("[{0}]", "({0},)", "collections.deque([{0}])", "reversed([{0}])", "itertools.chain([{0}])")
    of_pairs = (
        "{{{0}}} collections.OrderedDict({{{0}}}) collections.defaultdict(int,{{{0}}}) {{{0}}}.keys() "
        "collections.defaultdict(list,{{{0}}}) types.MappingProxyType({{{0}}}) {{{0}}}.items() {{{0}}}.values() "
        "collections.ChainMap({{{0}}})".split()
    )
    return st.one_of(
        st.sampled_from(of_one).flatmap(lambda form: inside.map(form.format)),
        st.sampled_from(of_many[2:]).flatmap(lambda form: items.map(form.format)),
        st.tuples(inside, inside).map(lambda two: f"[{two[0]}, {two[1]}]"),
        st.tuples(inside, inside).map(lambda two: f"Pair({two[0]}, {two[1]})"),
        st.sampled_from(of_pairs).flatmap(lambda form: pairs.map(form.format)),
        st.sampled_from(["{{{0}}}", "frozenset([{0}])"]).flatmap(lambda form: SETS.map(form.format)),
    )


VALUES = st.recursive(PLAIN | NAMED | MADE, containers, max_leaves=4)


def answer():
    """Answer each line of the input with its key."""
    for line in sys.stdin:
        print(key(line), flush=True)
