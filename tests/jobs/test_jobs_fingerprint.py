"""What changes the key of a run, and what does not."""

import subprocess
import sys
import textwrap

import pytest

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

TAIL = """
from cluster.jobs import fingerprint, spec
arguments = spec.bind(train, ({args}), {{}})
print(fingerprint.digest(fingerprint.Closure(train, arguments).form))
"""


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """The key of `train` in a fresh process, after one change of the program's text."""

    def of(old="", new="", args="3,"):
        assert old in PROGRAM
        path = tmp_path_factory.mktemp("program") / "p.py"
        path.write_text(PROGRAM.replace(old, new) + TAIL.format(args=args))
        said = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
        return said.stdout

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
    assert key(args="4,") != original
    assert key(args="3, 0") == original


def test_values_are_told_apart_by_type_and_content():
    from cluster.jobs.fingerprint import Closure, digest

    values = [1, 1.0, True, "1", [1], (1,), {1}, {"a": 1}, None, b"1", [1, [2]], range(3), 1 + 0j]
    assert len({digest(Closure(v).form) for v in values}) == len(values)
    assert digest(Closure({"a": 1, "b": 2}).form) == digest(Closure({"b": 2, "a": 1}).form)


def test_recursion_and_cycles_end():
    from cluster.jobs.fingerprint import Closure

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    loop = []
    loop.append(loop)
    assert len(Closure(even, loop).sources) == 2


def test_lambdas_in_one_statement_are_told_apart():
    from cluster.jobs.fingerprint import Closure, digest

    first, second = (lambda: 1), (lambda: 2)
    assert digest(Closure(first).form) != digest(Closure(second).form)


def test_a_script_counts_with_the_modules_beside_it(tmp_path):
    from cluster.jobs.fingerprint import digest, script_form

    def key(script, beside):
        (tmp_path / "s.py").write_text(script)
        (tmp_path / "beside.py").write_text(beside)
        return digest(script_form(tmp_path / "s.py"))

    original = key("import beside\nprint(1)", "A = 1")
    assert key("import beside  # used\nprint( 1 )", "A = 1  # one") == original
    assert key("import beside\nprint(2)", "A = 1") != original
    assert key("import beside\nprint(1)", "A = 2") != original


def test_a_fresh_process_gets_the_recorded_run(runs, tmp_path):
    """The same text in another process, as after a kernel's restart, replays and does not run."""
    program = textwrap.dedent(
        """
        import os
        from cluster.jobs import submit
        def work(n):
            return {"n": n, "pid": os.getpid()}
        print(submit(work, 3, name="NAME").result()["pid"])
        """
    )
    said = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.py"
        path.write_text(program.replace("NAME", name))
        run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
        said.append(run.stdout.splitlines())
    assert said[0][-1] == said[1][-1] and "not run again" in said[1][0]
    assert len(list(runs.iterdir())) == 1
