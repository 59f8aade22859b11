"""Results are restored unchanged, and only plain data is accepted."""

import json
import zipfile

import numpy as np
import pytest

from cluster.jobs.errors import Damaged, ResultError, ResultTooLarge
from cluster.jobs.run import results
from cluster.jobs.run.run_folder import Run


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


class Sub(dict):
    pass


@pytest.mark.parametrize(
    ("value", "where", "kind"),
    [
        ({"a": [0, object()]}, "the result['a'][1]", "object"),
        (lambda: 1, "the result", "function"),
        ({(1, 2): 3}, "a key of the result", "tuple"),
        (np.array([object()]), "the result", "numpy.ndarray of dtype object"),
        ([b"bytes"], "the result[0]", "bytes"),
        ({1}, "the result", "set"),
        (Sub(), "the result", f"{__name__}.Sub"),
    ],
)
def test_anything_else_is_refused_with_place_and_type(tmp_path, value, where, kind):
    with pytest.raises(ResultError) as caught:
        results.save(Run(tmp_path), 0, value)
    assert caught.value.what.startswith(f"{where} ") and f" {kind}," in caught.value.what
    assert not list(tmp_path.iterdir())


def test_results_over_the_cap_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTER_MAX_RESULT", "1000")
    with pytest.raises(ResultTooLarge):
        results.save(Run(tmp_path), 0, np.zeros(126))
    results.save(Run(tmp_path), 0, np.zeros(100))
    with pytest.raises(ResultTooLarge):
        results.save(Run(tmp_path), 0, "x" * 1001)


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
