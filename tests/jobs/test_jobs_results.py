"""Results are restored with their types, nothing of them is lost, and only plain data is read."""

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import pathlib
import pickle
import re
import sys
import tempfile
import threading
import time
import types
import zipfile
import zoneinfo

import hypothesis
import hypothesis.extra.numpy
import ml_dtypes
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from cluster.jobs.errors import Damaged, ResultError, ResultTooLarge
from cluster.jobs.run import results
from cluster.jobs.run.run_folder import Run

from .. import ALL


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -0.5, "text", [], {}, [1, [2, {"a": None}]], (1, (2, 3)), {3: "a", 2.5: "b"},
        {"__tuple__": [1]}, {"__array__": "a0"}, {"a": (1, [2])}, float("inf"), "ä\n",
    ],
)  # fmt: skip
def test_plain_values_come_back_equal_and_of_the_same_type(tmp_path, value):
    results.save(Run(tmp_path), 0, value)
    assert repr(results.load(Run(tmp_path), 0)) == repr(value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "complex64", "U3"])
def test_arrays_keep_dtype_and_shape(tmp_path, dtype):
    value = {"w": [np.zeros((2, 0, 3), dtype), np.ones(2, dtype)], "s": np.ones((), dtype)[()]}
    results.save(Run(tmp_path), 1, value)
    back = results.load(Run(tmp_path), 1)
    assert back["w"][0].shape == (2, 0, 3) and back["w"][1].dtype == dtype
    assert type(back["s"]) is type(value["s"])


Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: object


@dataclasses.dataclass
class Config:
    rate: object
    parts: list


zones = st.sampled_from([None, datetime.UTC, zoneinfo.ZoneInfo("Europe/Berlin")])
keys = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
    | st.decimals().filter(lambda d: not d.is_snan()) | st.fractions() | st.dates()
    | st.datetimes(timezones=zones) | st.timedeltas()
    | st.sampled_from([Colour.RED, Colour.BLUE, Access.READ, Access.READ | Access.WRITE])
    | st.text("ab/.", min_size=1, max_size=5).map(pathlib.Path) | st.complex_numbers(),
    lambda inside: st.lists(inside, max_size=3).map(tuple) | st.frozensets(inside, max_size=3)
    | st.builds(Point, inside, inside) | st.builds(Frozen, inside),
    max_leaves=4,
)  # fmt: skip
arrays = hypothesis.extra.numpy.arrays(
    st.one_of(
        hypothesis.extra.numpy.scalar_dtypes(),
        st.sampled_from([np.dtype("i4,f8"), np.dtype([("a", "U3", 2)])]),
    ),
    hypothesis.extra.numpy.array_shapes(min_dims=0, min_side=0, max_side=3),
    elements={"allow_subnormal": False},
)
values = st.recursive(
    keys | arrays | st.just(np.array([1.5, -0.0], ml_dtypes.bfloat16))
    | arrays.filter(lambda a: a.size).map(lambda a: a.ravel()[0])
    | st.integers(-(10**5000), 10**5000)
    | st.just(range(1, 9, 2)),
    lambda inside: st.lists(inside, max_size=3) | st.lists(inside, max_size=3).map(tuple)
    | st.sets(keys, max_size=3)
    | st.dictionaries(keys | st.just("__tuple__"), inside, max_size=3)
    | st.dictionaries(keys, inside, max_size=3).map(collections.OrderedDict)
    | st.dictionaries(keys, inside, max_size=3).map(lambda d: collections.defaultdict(list, d))
    | st.dictionaries(keys, st.integers(), max_size=3).map(collections.Counter)
    | st.lists(inside, max_size=3).map(lambda x: collections.deque(x, 5)) | st.builds(Point, inside, inside)
    | st.builds(Config, inside, st.lists(inside, max_size=2))
    | st.lists(inside, max_size=3).map(lambda x: np.array([*x, None], object)[:-1]),
    max_leaves=12,
)  # fmt: skip


def same(a, b):
    """Return whether two values are equal, with the same types at every depth; nan equals nan."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return same(a.ravel().tolist(), b.ravel().tolist())
    if isinstance(a, dict):
        return getattr(a, "default_factory", 0) is getattr(b, "default_factory", 0) and same(
            [*a.items()], [*b.items()]
        )
    if isinstance(a, (set, frozenset)):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a):
        names = [f.name for f in dataclasses.fields(a)]
        return all(same(getattr(a, n), getattr(b, n)) for n in names)
    if isinstance(a, np.generic):
        return (a.dtype == b.dtype and a.tobytes() == b.tobytes()) or bool(a != a and b != b)
    if isinstance(a, complex):
        return same([a.real, a.imag], [b.real, b.imag])
    if isinstance(a, (float, decimal.Decimal)):
        return repr(a) == repr(b)
    return a == b and getattr(a, "tzinfo", 0) == getattr(b, "tzinfo", 0)


def restored(value, **options):
    with tempfile.TemporaryDirectory() as folder:
        results.save(Run(pathlib.Path(folder)), 0, value)
        return results.load(Run(pathlib.Path(folder)), 0, **options)


@hypothesis.settings(max_examples=10_000 if ALL else 100, deadline=None)
@hypothesis.given(values)
def test_what_has_an_encoding_comes_back_equal_with_the_same_types(value):
    assert same(restored(value), value)


@pytest.mark.parametrize(
    "value",
    [
        types.SimpleNamespace(a=[1]), bytearray(b"a"), np.str_("a\0"), np.array([1, None], object),
    ],
    ids=repr,
)  # fmt: skip
def test_other_kinds_come_back(value):
    back = restored(value)
    assert type(back) is type(value) and repr(back) == repr(value)


def test_tensors_come_back_as_arrays():
    keras = pytest.importorskip("keras")
    value = [keras.ops.ones((2, 3)), keras.Variable([1.0]), keras.ops.cast([1.0], "bfloat16")]
    back = restored(value)
    assert [type(x) for x in back] == [np.ndarray] * 3
    assert [str(x.dtype) for x in back] == ["float32", "float32", "bfloat16"]


def test_a_class_that_is_not_loaded_here_is_replaced_by_one_with_its_fields(monkeypatch):
    """Does a value of a class that only the ranks had come back with that class's name and fields?"""
    value = [Config(1, [2]), Point(1, 2), Colour.RED, Access.READ | Access.WRITE]
    value.append({Frozen(1): 2, Colour.BLUE: 3})
    with tempfile.TemporaryDirectory() as folder:
        run = Run(pathlib.Path(folder))
        results.save(run, 0, value)
        monkeypatch.delitem(sys.modules, __name__)
        config, point, red, both, d = results.load(run, 0)
        again = results.load(run, 0)
    assert (type(config).__name__, config.rate, config.parts) == ("Config", 1, [2])
    assert point == (1, 2) and point.y == 2 and point._fields == ("x", "y")
    assert (red.name, red.value, both.value) == ("RED", 1, 3)
    assert {getattr(k, "a", 0) or k.value for k in d} == {1, "blue"} and again[4] == d and again[2] == red


class Sub(dict):
    pass


class Own:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Unprintable:
    def __repr__(self):
        raise SystemExit(3)


class Unreadable:
    def __getattr__(self, name):
        raise RuntimeError(name)

    def __reduce__(self):
        raise KeyError("never")


def cyclic():
    value = Own(history={"loss": [0.5]})
    vars(value)["me"] = value
    return value


def in_itself():
    value = [1]
    value.append({"a": value})
    return value


def deep():
    value = []
    for _ in range(3000):
        value = [value]
    return value


def unstored():
    """Yield values without an encoding: functions, as pytest keeps the values themselves."""
    yield from (object, lambda: sum, lambda: Sub(a=1), cyclic, in_itself, deep, Unprintable, Unreadable)
    yield from (threading.Lock, lambda: (x for x in "a"), lambda: map(str, [1]), lambda: enumerate([1]))
    yield from (lambda: {"a": 1}.keys(), lambda: sys, lambda: np.sin, time.localtime, lambda: ValueError("x"))
    yield from (
        lambda: memoryview(b"a"),
        lambda: types.MappingProxyType({"a": 1}),
        lambda: collections.ChainMap(),
    )
    yield from (lambda: np.random.default_rng(1), lambda: np.dtype("f4"), lambda: re.match("a", "a"))
    yield from (lambda: iter([1]), lambda: functools.partial(max, 1), lambda: Own, lambda: sys.__stdin__)
    yield from (lambda: datetime.datetime(2020, 1, 1, tzinfo=Zone()), lambda: pd.Period("2020-01"))
    yield from (
        lambda: pd.DataFrame({"a": [1]}),
        lambda: np.ma.array([1, 2], mask=[0, 1]),
        lambda: type("Text", (str,), {})("text"),
    )
    yield from (lambda: np.array([1.0]).view(type("Array", (np.ndarray,), {})),)


class Zone(datetime.tzinfo):
    def utcoffset(self, when):
        return datetime.timedelta(hours=1)

    dst = utcoffset

    def tzname(self, when):
        return "mine"


@pytest.mark.parametrize("make", list(unstored()))
def test_the_rest_is_text_and_nothing_around_it_is_lost(tmp_path, make):
    """If a part of a result has no encoding, does the error name it, and is all else still returned?"""
    run, value = Run(tmp_path), make()
    results.save(run, 0, {"history": [{"model": value}], "loss": (0.5, np.ones(2)), "after": {1: {2}}})
    with pytest.raises(ResultError) as caught:
        results.load(run, 0)
    assert (
        "['history'][0]['model']" in caught.value.what and str(run.result_text(0)) in caught.value.next_step
    )
    assert "partial=True" in caught.value.next_step
    back = results.load(run, 0, partial=True)
    assert back["loss"][0] == 0.5 and type(back["loss"]) is tuple and back["loss"][1].tolist() == [1, 1]
    assert back["after"] == {1: {2}} and "['history'][0]['model']" in run.result_text(0).read_text()


def test_the_content_of_an_object_can_be_read(tmp_path):
    run = Run(tmp_path)
    results.save(run, 0, [cyclic(), Sub(a=np.ones(2)), pd.DataFrame({"a": [1, 2]}), pd.Series([0.5])])
    history, sub, table, column = (part.content for part in results.load(run, 0, partial=True))
    assert history["history"] == {"loss": [0.5]} and sub["a"].tolist() == [1, 1]
    assert table == {"a": [1, 2]} and column == [0.5]


def test_the_history_of_keras_can_be_read(tmp_path):
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history, run = model.fit(np.ones((4, 1)), np.ones((4, 1)), verbose=0), Run(tmp_path)
    results.save(run, 0, {"model": model, "history": history})
    back = results.load(run, 0, partial=True)
    assert back["history"].content["history"] == history.history
    with open(run.result_copy(0), "rb") as f:  # the owner's own copy
        copy = pickle.load(f)
    np.testing.assert_array_equal(copy["model"].get_weights()[0], model.get_weights()[0])


def test_the_owner_keeps_what_can_be_pickled(tmp_path):
    run = Run(tmp_path)
    results.save(run, 0, {"lock": threading.Lock(), "text": Own(x=[1, 2])})
    with open(run.result_copy(0), "rb") as f:
        assert pickle.load(f)["the result['text']"].x == [1, 2]
    assert run.result_copy(0).stat().st_mode & 0o777 == 0o600


def test_a_copy_is_never_loaded(tmp_path):
    run = Run(tmp_path)
    results.save(run, 0, [object()])
    run.result_copy(0).write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    run.result_copy(0).chmod(0)
    assert len(results.load(run, 0, partial=True)) == 1


def test_results_over_the_cap_keep_what_fits(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTER_MAX_RESULT", "10000")
    run = Run(tmp_path)
    results.save(run, 0, {"w": np.zeros(1260), "loss": [0.5, 0.25], "text": "x" * 9000, "end": {1}})
    with pytest.raises(ResultTooLarge):
        results.load(run, 0)
    back = results.load(run, 0, partial=True)
    assert back["loss"] == [0.5, 0.25] and back["end"] == {1} and "array" in back["w"].text
    with open(run.result_copy(0), "rb") as f:
        assert pickle.load(f)["w"].shape == (1260,)
    results.save(Run(tmp_path), 0, np.zeros(1000))
    assert results.load(run, 0).shape == (1000,)


def test_results_recorded_before_tags_had_kinds_stay_readable(tmp_path):
    np.savez(tmp_path / "result-0.npz", a0=np.float32(0.5), a1=np.ones(2))
    text = '{"a": {"__tuple__": [1, {"__dict__": [[3, "x"], [2.5, {"__scalar__": "a0"}]]}]}, '
    text += '"b": {"__array__": "a1"}}'
    (tmp_path / "result-0.json").write_text(text)
    back = results.load(Run(tmp_path), 0)
    assert back["a"] == (1, {3: "x", 2.5: np.float32(0.5)}) and type(back["a"][1][2.5]) is np.float32
    assert back["b"].tolist() == [1, 1]


def test_nothing_is_unpickled(tmp_path):
    """Is an npz file refused if it contains a pickle, which an attacker could have put there?"""
    np.savez(tmp_path / "result-0.npz", a0=np.array([{"a": 1}], dtype=object))
    (tmp_path / "result-0.json").write_text(json.dumps({"__array__": "a0"}))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        results.load(Run(tmp_path), 0)


def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTER_MAX_RESULT", "1000")
    (tmp_path / "result-0.json").write_text("{}")
    with zipfile.ZipFile(tmp_path / "result-0.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a0.npy", b"0" * 3_000_000)
    with pytest.raises(ResultTooLarge):
        results.load(Run(tmp_path), 0)


def test_a_result_changed_afterwards_is_noticed(tmp_path):
    results.save(Run(tmp_path), 0, {"accuracy": 0.5})
    before = Run(tmp_path).hashes()
    assert results.load(Run(tmp_path), 0, before) == {"accuracy": 0.5}
    (tmp_path / "result-0.json").write_text('{"accuracy": 0.9}')
    with pytest.raises(Damaged):
        results.load(Run(tmp_path), 0, before)
