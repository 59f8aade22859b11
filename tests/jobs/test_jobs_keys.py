"""Different values never share a cache key, and the same program has the same key in each process."""

import os
import pathlib
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from cluster.jobs import submit
from cluster.jobs.code import program, reads

from .. import ALL, ROOT
from . import keys


@pytest.fixture(scope="module")
def elsewhere():
    """A function that returns the key of an expression, computed in another process."""
    command = [sys.executable, "-c", "from tests.jobs import keys; keys.answer()"]
    env = os.environ | {"PYTHONHASHSEED": "7"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, cwd=ROOT, **pipes) as process:

        def ask(expression):
            process.stdin.write(expression + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield ask
        process.stdin.close()


@hypothesis.settings(max_examples=10_000 if ALL else 150, deadline=None)
@hypothesis.given(st.lists(keys.VALUES, min_size=2, max_size=2, unique=True))
def test_different_values_have_different_keys_the_same_in_each_process(elsewhere, pair):
    first, second = map(keys.key, pair)
    assert first is None or first != second
    assert elsewhere(pair[0]) == str(first) and keys.key(pair[0]) == first


@pytest.mark.parametrize(
    ("some", "other"),
    [
        ("np.tanh", "np.sin"),
        ("np.frompyfunc(lambda x: x, 1, 1)", "np.frompyfunc(lambda x: -x, 1, 1)"),
        ("np.vectorize(lambda x: x)", "np.vectorize(lambda x: -x)"),
        ("np.random.Generator(np.random.PCG64(1))", "np.random.Generator(np.random.MT19937(1))"),
        ("re.match('a', 'ab')", "re.match('a', 'ac')"),
        ("(x for x in 'ab')", "(x for x in 'ac')"),
    ],
)
def test_what_has_no_value_is_never_equal_to_anything(some, other):
    first, second = keys.key(some), keys.key(other)
    assert first is None or second is None or first != second


def uses(path):
    return path, os.environ.get("RATE"), os.getenv("CUDA_VISIBLE_DEVICES")


def test_variables_that_code_names_count_but_not_those_of_each_rank():
    sent = program.of_function(uses, ("x",), {}, {"path": "x"}, False)
    environment = {"RATE": "1", "CUDA_VISIBLE_DEVICES": "3", "OTHER": "1"}
    assert reads.variables(sent.strings, environment) == {"RATE": "1"}


def given(*args, **options):
    return args, options


NAMES = [
    "x",
    b"x",
    {"x": 1},
    {"a": ["x"]},
    {"x"},
    ("a", "x"),
    pathlib.Path("x"),
    keys.Data("x"),
    keys.Held("x"),
]


@pytest.mark.parametrize("name", NAMES, ids=lambda v: type(v).__name__)
def test_a_file_counts_however_an_argument_names_it(name):
    assert "x" in program.of_function(given, (name,), {}, {"name": name}, False).paths


def test_a_file_counts_in_the_options_of_a_script(tmp_path):
    (script := tmp_path / "s.py").write_text("")
    assert {"in.csv", "data"} <= program.of_script(str(script), ("--in=in.csv", "data")).paths


def reads_folder(text, place):
    with open(f"{place}/inside", "a") as file:
        file.write(text)
    return os.environ.get("RATE"), sorted(os.listdir(place))


def test_what_the_same_function_wrote_in_a_folder_is_output(runs, tmp_path, capsys):
    """Is a run replayed if it, or other calls of its function, wrote into the folder that it names? Does it
    run again if someone else did?"""
    (place := tmp_path / "place").mkdir()
    first = submit(reads_folder, "a", str(place))
    assert first.result() == (None, ["inside"])
    submit(reads_folder, "b", str(place)).result()
    again = submit(reads_folder, "a", str(place))
    assert again.id == first.id and (place / "inside").read_text() == "ab"
    (place / "other").touch()
    assert submit(reads_folder, "a", str(place)).result() == (None, ["inside", "other"])


def test_a_variable_that_the_node_sets_stays_and_the_run_is_not_replayed(tmp_path, monkeypatch):
    monkeypatch.setenv("RATE", "of the node")
    run = type("Run", (), {"changed": tmp_path / "changed"})
    reads.prepare(run, {"environment": {"RATE": "submitted", "NEW": "1"}})
    assert os.environ.pop("NEW") == "1" and os.environ["RATE"] == "of the node"
    assert reads.changed(run) == ["RATE"]


def test_a_model_that_keras_makes_again_otherwise_is_refused(runs):
    """Keras records the default values of the parameters of a model's class, whatever was given."""
    import keras

    class Net(keras.Model):
        def __init__(self, n=2):
            super().__init__()
            self.dense = keras.layers.Dense(n)

        def call(self, x):
            return self.dense(x)

    class Saved(Net):
        def get_config(self):
            return {"n": self.dense.units}

    def of(net):
        return program.of_function(keys.closing(net), (), {}, {}, False)

    assert of(Saved(2)).form != of(Saved(3)).form
    with pytest.raises(program.NotPicklable, match="value"):
        of(Net(3))


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"# coding: latin-1\n"])
def test_sources_in_other_encodings_are_submitted_as_python_reads_them(runs, tmp_path, start):
    text = "ä" if b"coding" not in start else "ä".encode().decode("latin-1")
    (tmp_path / "helper.py").write_bytes(start + 'TEXT = "ä"\n'.encode())
    script = tmp_path / "main.py"
    script.write_bytes(start + 'import helper\nprint(ascii(helper.TEXT), ascii("ä"))\n'.encode())
    assert submit(script).wait(progress=False).logs().split("\n")[1] == f"{text!a} {text!a}"


def test_arrays_that_differ_in_what_an_operation_sees_have_different_keys():
    x = np.arange(4.0).reshape(2, 2)
    values = [x, x.T, x.T.copy("F"), x.astype(">f8"), x.view(np.matrix), np.ma.array(x), x.tolist()]
    found = {program.of_function(keys.closing(v), (), {}, {}, False).form.__repr__() for v in values}
    assert len(found) >= len(values) - 1
