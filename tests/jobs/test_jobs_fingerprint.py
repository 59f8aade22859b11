"""The changes that affect a run's cache key, and those that do not."""

import runpy
import subprocess
import sys
import textwrap

import pytest

import cluster
from cluster.jobs import errors, options, submit
from cluster.jobs.code import fingerprint
from cluster.jobs.code.fingerprint import Closure, digest, script_form

PROGRAM = '''
import numpy as np
RATE = 0.1
TABLE = np.arange(4)
def helper(x):
    return x * RATE
class Model:
    width = 3
    def forward(self, x):
        return helper(x) + self.width + TABLE.sum()
def train(epochs, seed=0):
    """Doc."""
    return Model().forward(epochs) + seed
'''


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """A function that returns the cache key of `train`, after a change to the program."""

    def of(old="", new="", args=(3,)):
        assert old in PROGRAM
        path = tmp_path_factory.mktemp("program") / "p.py"
        path.write_text(PROGRAM.replace(old, new))
        train = runpy.run_path(str(path), run_name="__main__")["train"]
        arguments = options.read_call(train, args, {})[2]
        return fingerprint.digest(fingerprint.Closure(train, arguments).form)

    return of


@pytest.fixture(scope="module")
def original(key):
    return key()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x * RATE", "return (x  *  RATE)  # faster"),
        ('"""Doc."""', '"""Another text."""'),
        ("RATE = 0.1", "UNUSED = 5\nRATE = 0.1"),
        ("    width = 3\n", "\n    width = 3  # wide\n\n"),
        ("RATE = 0.1", "RATE = 0.1\nforward = 17  # the name of an attribute"),
    ],
)
def test_form_and_what_is_not_used_do_not_count(key, original, old, new):
    assert key(old, new) == original


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE = 0.1", "RATE = 0.2"),
        ("return x * RATE", "return x / RATE"),
        ("width = 3", "width = 4"),
        ("helper(x) +", "helper(x) -"),
        ("np.arange(4)", "np.arange(4.0)"),
        ("np.arange(4)", "np.array([0, 1, 3, 2])"),
        ("seed=0", "seed=1"),
        ("+ seed", "- seed"),
    ],
)
def test_code_and_constants_count_wherever_they_are(key, original, old, new):
    assert key(old, new) != original


def test_arguments_count_by_value(key, original):
    assert key(args=(4,)) != original
    assert key(args=(3, 0)) == original


def test_values_are_told_apart_by_type_and_content():
    values = [1, 1.0, True, "1", [1], (1,), {1}, {"a": 1}, None, b"1", [1, [2]], range(3), 1 + 0j]
    assert len({digest(Closure(v).form) for v in values}) == len(values)
    assert digest(Closure({"a": 1, "b": 2}).form) != digest(Closure({"b": 2, "a": 1}).form)


def test_recursion_and_cycles_end():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    loop = []
    loop.append(loop)
    assert len(Closure(even, {"loop": loop}).sources) == 2


def test_lambdas_in_one_statement_are_told_apart():
    first, second = (lambda: 1), (lambda: 2)
    assert digest(Closure(first).form) != digest(Closure(second).form)


def test_a_script_counts_with_the_modules_beside_it(tmp_path):
    def key(script, beside):
        (tmp_path / "s.py").write_text(script)
        (tmp_path / "beside.py").write_text(beside)
        return digest(script_form(tmp_path / "s.py")[0])

    original = key("import beside\nprint(1)", "A = 1")
    assert key("import beside  # used\nprint( 1 )", "A = 1  # one") == original
    assert key("import beside\nprint(2)", "A = 1") != original
    assert key("import beside\nprint(1)", "A = 2") != original


FILES = {
    "helper.py": "import nested\ndef f():\n    return 10 * nested.K\n",
    "nested.py": "K = 3\n",
    "pkg/__init__.py": "",
    "pkg/part.py": "from . import deep\n",
    "pkg/deep.py": "K = 4\n",
    "main.py": """
import functools
import os
import time
import helper
import pkg.part

def times(factor):
    def decorate(f):
        @functools.wraps(f)
        def wrapped(*args):
            return 2 * f(*args)
        return wrapped
    return decorate

@times(2)
def decorated():
    return 1

def inside():
    import helper as h
    from pkg.part import deep
    return h.f() + deep.K

def outside():
    return helper.f() + pkg.part.deep.K

def late(go):
    while not os.path.exists(go):
        time.sleep(0.05)
    return outside() + inside()

if __name__ == "__main__":
    from cluster.jobs.code import fingerprint
    forms = [fingerprint.Closure(f).form for f in (decorated, inside, outside)]
    forms.append(fingerprint.script_form(fingerprint.Path("main.py").absolute())[0])
    print(*map(fingerprint.digest, forms))
""",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A function that edits one file of a project, and returns the cache keys of its three functions and its
    script."""
    (tmp_path / "pkg").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    def keys(name=None, old="", new=""):
        if name:
            assert old in FILES[name]
            (tmp_path / name).write_text(FILES[name].replace(old, new))
        output = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True, check=True)
        return output.stdout.split()

    return keys


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (("nested.py", "3", "5"), [False, True, True, True]),
        (("helper.py", "10", "11"), [False, True, True, True]),
        (("pkg/deep.py", "4", "5"), [False, True, True, True]),
        (("main.py", "2 * f", "3 * f"), [True, False, False, True]),
        (("main.py", "return 1", "return 7"), [True, False, False, True]),
        (("helper.py", "import nested", "import nested  # unchanged"), [False] * 4),
    ],
)
def test_modules_and_decorators_count_however_they_are_reached(project, edit, changed):
    """Does an edit change the cache keys of exactly those functions and scripts that depend on the edited
    code?"""
    before = project()
    assert [a != b for a, b in zip(before, project(*edit), strict=True)] == changed


def test_an_edit_after_the_submission_does_not_change_the_job(project, tmp_path, runs):
    """If modules are edited after a submission, do the ranks still import the submitted versions?"""
    code = "from cluster import submit; import main; print(submit(main.late, 'go').folder)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)
    project("nested.py", "3", "500")
    project("pkg/deep.py", "4", "500")
    (tmp_path / "go").write_text("")
    (job,) = cluster.jobs()
    assert job.result() == 2 * (10 * 3 + 4)


def test_a_module_that_cannot_be_read_is_named(project, tmp_path):
    (tmp_path / "nested.py").write_text("K = \n")
    with pytest.raises(errors.OptionError, match=r"nested\.py, line 1"):
        submit(tmp_path / "main.py")


def test_a_fresh_process_gets_the_recorded_run(runs, tmp_path):
    """Is a recorded run reused if another process submits the same source, as after a kernel's restart?"""
    program = textwrap.dedent(
        """
        import os
        from cluster.jobs import submit
        def work(n):
            return {"n": n, "pid": os.getpid()}
        print(submit(work, 3, name="NAME").result()["pid"])
        """
    )
    output = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.py"
        path.write_text(program.replace("NAME", name))
        run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
        output.append(run.stdout.splitlines())
    assert output[0][-1] == output[1][-1] and len(output[1]) == 2
    assert len(cluster.jobs()) == 1


def made_with_keras(kind, change=0.0):
    """Return a function that uses a new model, optimizer or loss. `change` is added to a weight or a
    setting."""
    import keras

    keras.utils.set_random_seed(3)
    if kind == "model":
        net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        net.compile("sgd", "mse")
        if change:
            net.layers[0].bias.assign_add([change] * 3)
    elif kind == "optimizer":
        net = keras.optimizers.SGD(0.1 + change)
    else:
        net = keras.losses.Huber(1.0 + change)

    def f():
        return net

    return f


@pytest.mark.parametrize("kind", ["model", "optimizer", "loss"])
def test_what_keras_made_has_a_key_of_its_own(kind):
    """Do functions that use equal Keras objects have the same cache key? Do other weights or settings change
    it?"""
    import time

    first = fingerprint.digest(fingerprint.Closure(made_with_keras(kind)).form)
    time.sleep(1.1)  # a pickled model is a ZIP file, which contains the time
    again = fingerprint.digest(fingerprint.Closure(made_with_keras(kind)).form)
    other = fingerprint.digest(fingerprint.Closure(made_with_keras(kind, change=0.5)).form)
    assert first == again and first != other
