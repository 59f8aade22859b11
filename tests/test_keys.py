"""The keys of slow results: does each change reach the keys of what depends on it, and no other?"""

import gzip
import textwrap
from pathlib import Path

import pytest

from cluster.staff import keys, reach, results, syntax

from . import sample

ROOT = Path(__file__).parents[1]


def path_of(module):
    return f"{module.replace('.', '/')}.py"


# A course in small. Lecture 01 reads data and a recorded run; lecture 02 submits jobs and runs a script.
FILES = {
    "cluster/__init__.py": """
        from importlib import import_module
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from . import jobs, only_types
        def __getattr__(name):
            return getattr(import_module("cluster.jobs"), name)
        """,
    "cluster/only_types.py": "x = 1",
    "cluster/unrelated.py": "x = 1",
    "cluster/README.md": "Read me.",
    "cluster/course.mplstyle": "lines.linewidth: 2",
    "cluster/jobs/__init__.py": "from .submission import submit",
    "cluster/jobs/submission.py": """
        from . import launch
        def submit():
            from cluster.jobs.inside import a_function
        """,
    "cluster/jobs/inside.py": "x = 1",
    "cluster/jobs/launch.py": """
        def command(python, backend):
            module = f"cluster.jobs.backends.{backend}"
            return [python, "-m", "cluster.jobs.runner", module]
        """,
    "cluster/jobs/runner.py": "from ..relative import x",
    "cluster/relative.py": "x = 1",
    "cluster/jobs/backends/__init__.py": "",
    "cluster/jobs/backends/local.py": "x = 1",
    "cluster/training/__init__.py": "",
    "cluster/training/data.py": "from cluster.training import shapes",
    "cluster/training/shapes.py": "import cluster.training.steps as steps",
    "cluster/training/steps.py": "from .helper import three",
    "cluster/training/helper.py": "three = 3  # steps away",
    "cluster/checks.py": "def expect(x): return x",
    "cluster/engine.py": "def grade():\n    return import_module('cluster.sandbox')",
    "cluster/sandbox.py": "x = 1",
    "cluster/plugin.py": "from cluster.feedback import write",
    "cluster/feedback/__init__.py": "write = FOLDER / 'templates' / 'page.html'",
    "cluster/feedback/templates/page.html": "<html>",
    path_of(keys.__name__): f"import cluster.unrelated, {reach.__name__}",
    path_of(reach.__name__): f"import {syntax.__name__}",
    path_of(syntax.__name__): "x = 1",
    path_of(keys.RELEASE): f"from {keys.__name__} import key",
    path_of(keys.MUTANTS): "from cluster import engine",
    path_of(keys.ATTACKS): "import cluster.engine as engine",
    "lectures/build.py": "import cluster.unrelated",
    "lectures/text/01_reads.py": """
        # %% [markdown]
        # Prose.

        # %%
        import json
        from cluster.training.data import fashion_mnist
        plt.style.use("cluster.course")
        record = json.loads(open("runs/01_run.json").read())
        """,
    "lectures/text/02_submits.py": """
        # %%
        %matplotlib inline
        from cluster import submit
        runs = runpy.run_path("runs/02_experiment.py")["runs"]
        """,
    "lectures/01_reads.ipynb": '{"outputs": 1}',
    "lectures/runs/01_run.json": "1",
    "lectures/runs/02_experiment.py": "import beside_it",
    "lectures/runs/beside_it.py": "x = 1",
    "lectures/runs/02_experiment/train.py": "x = 1",
    "solutions/01_one/one.py": """
        # %% [markdown]
        # Prose.

        # %% check="a" points=1
        from cluster.checks import expect
        """,
    "solutions/01_one/table.csv": "1, 2",
    "solutions/01_one/one.ipynb": "{}",
    "solutions/02_two/two.py": "# %%\nx = 1",
    "tests/mutants/01/flipped.py": 'REPLACE = {"a": "from cluster.forbidden import x"}',
    "tests/mutants/01/turned.py": 'REPLACE = {"a": "x"}',
    "tests/unusual/01/by_hand.py": 'UNUSUAL = "By hand."\nREPLACE = {"a": "x + 0"}',
    "tests/mutants/02/dropped.py": 'REPLACE = {"b": "y"}',
    "cluster/forbidden.py": "x = 1",
    "tests/exploits/first.py": '"""Reads."""\nANSWER = "open(\'cluster.unrelated\')"',
    "tests/exploits/second.py": '"""Imports."""\nANSWER = "from cluster.checks import expect"',
    "tests/exploits/course/doubling.py": "# %%\nx = 1",
    "tests/exploits/01/by_heart.py": '"""Known by heart."""\nANSWER = "a = 1"',
    "nbgrader_config.py": 'c.Autograde.plugin = "cluster.plugin.Judge"',
    "autotests.yml": "python3: 1",
    "pyproject.toml": """
        [project]
        dependencies = ["numpy==2.0.2"]
        [project.optional-dependencies]
        compiled = ["horovod==0.28.1"]
        gpu = ["numpy[cuda]==2.0.2"]
        test = ["pytest==9.2.0"]
        """,
    "constraints.txt": "# resolved\nabsl-py==2.5.1\nnumpy==2.0.2\npytest==9.2.0\n",
    "data/train-images-idx3-ubyte.gz": "a",
    "data/train-labels-idx1-ubyte.gz": "b",
    "data/t10k-images-idx3-ubyte.gz": "c",
    "data/t10k-labels-idx1-ubyte.gz": "d",
}
L1, L2 = {"lecture 01"}, {"lecture 02"}
R1, R2 = {"release 01"}, {"release 02"}
M1 = {"01 stub", "01 solution", "01 flipped", "01 turned", "01 by_hand"}
M2 = {"02 stub", "02 solution", "02 dropped"}
A1, A2, F1 = {"attack first"}, {"attack second"}, {"forgery 01 by_heart"}
ALL = L1 | L2 | R1 | R2 | M1 | M2 | A1 | A2 | F1
GRADED = M1 | M2 | A1 | A2 | F1
TWIN, TEXT = "solutions/01_one/one.py", "lectures/text/01_reads.py"


def text_of(name):
    """A file's text as it is written, without the indentation that it has above."""
    return textwrap.dedent(FILES[name]).strip("\n") + "\n"


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode())


def make(root):
    for name in FILES:
        write(root, name, text_of(name))
    return root


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The course in small; its data set is of its own."""
    monkeypatch.setenv("CLUSTER_DATA", str(tmp_path / "data"))
    return make(tmp_path)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """The parts of all keys in a copy elsewhere that nobody changes."""
    root = make(tmp_path_factory.mktemp("unchanged"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_DATA", str(root / "data"))
        return all_parts(root)


def all_parts(root):
    """{result: parts of its key} of the small course."""
    keys.fashion_mnist.cache_clear()
    tree, found = keys.Tree(root), {}
    for text in sorted((root / "lectures" / "text").glob("*.py")):
        found[f"lecture {text.stem[:2]}"] = keys.lecture(tree, text)
    for assignment in ("01_one", "02_two"):
        found[f"release {assignment[:2]}"] = keys.release(tree, assignment)
        shared, own = keys.mutants(tree, assignment)
        found |= {f"{assignment[:2]} {name}": shared | parts for name, parts in own.items()}
        shared, own = keys.forgeries(tree, assignment)
        found |= {f"forgery {assignment[:2]} {name}": shared | parts for name, parts in own.items()}
    shared, own = keys.attacks(tree)
    found |= {f"attack {name}": shared | parts for name, parts in own.items()}
    keys.fashion_mnist.cache_clear()
    return found


CHANGES = [
    # file, what is replaced (None: the file is new), by what, the results whose keys change
    ("cluster/training/helper.py", "three = 3", "three = 4", L1),  # imported four steps away
    ("cluster/training/helper.py", "steps away", "steps off", L1),  # a comment counts
    ("cluster/training/__init__.py", "", "x = 1", L1),  # a package on the way
    ("cluster/course.mplstyle", "2", "3", L1),  # a style
    ("data/t10k-labels-idx1-ubyte.gz", "d", "e", L1),  # the data set
    ("lectures/runs/01_run.json", "1", "2", L1),  # a recorded run
    (TEXT, "import json", "import json, sys", L1),  # a code cell
    (TEXT, "# %%\nimport", '# %% tags=["measured"]\nimport', L1),  # its header
    (TEXT, "# Prose.", "# Other prose.", set()),  # a Markdown cell
    ("lectures/01_reads.ipynb", "1", "2", set()),  # an output
    ("lectures/build.py", "import", "import sys, ", L1 | L2),  # how lectures are executed
    ("cluster/jobs/submission.py", "submit()", "submit(*x)", L2),  # asked of a lazy package
    ("cluster/jobs/inside.py", "1", "2", L2),  # imported inside a function
    ("cluster/jobs/runner.py", "import x", "import x, y", L2),  # only started with -m
    ("cluster/relative.py", "1", "2", L2),  # by a relative import from there
    ("cluster/jobs/backends/local.py", "1", "2", L2),  # by an f-string's beginning
    ("cluster/only_types.py", "1", "2", set()),  # only for types
    ("cluster/__init__.py", "getattr(", "(getattr)(", ALL),
    ("cluster/unrelated.py", "1", "2", set()),  # named by a file that is executed for other ends
    (path_of(keys.__name__), "import", "import sys, ", set()),  # takes no part in a result
    (path_of(syntax.__name__), "1", "2", set()),
    ("cluster/README.md", "Read", "Do read", set()),
    ("lectures/runs/02_experiment.py", "beside_it", "beside_it  # x", L2),  # a script that is run by path
    ("lectures/runs/beside_it.py", "1", "2", L2),  # a helper beside it
    ("lectures/runs/02_experiment/train.py", "1", "2", L2),  # in its own folder
    ("lectures/runs/03_other.json", None, "1", set()),
    ("cluster/checks.py", "return x", "return 2 * x", R1 | M1 | A2 | F1),  # a check
    (TWIN, "points=1", "points=2", R1 | M1 | F1),  # a check's points
    (TWIN, "# Prose.", "# Other prose.", R1),  # Markdown is released, and not graded
    ("solutions/01_one/table.csv", "2", "3", R1 | M1 | F1),  # a file that is released with it
    ("solutions/01_one/one.ipynb", "{}", "{ }", set()),  # made of its text
    ("solutions/01_one/runs/a/result.json", None, "1", set()),  # made by running it
    ("solutions/02_two/two.py", "1", "2", R2 | M2),
    ("cluster/engine.py", "grade()", "grade(x)", GRADED),
    ("cluster/sandbox.py", "1", "2", GRADED),  # import_module("…")
    ("tests/mutants/01/flipped.py", "import x", "import x, y", {"01 flipped"}),  # a mutant's text
    ("cluster/forbidden.py", "1", "2", {"01 flipped"}),  # imported in a mutant's text
    ("tests/mutants/02/dropped.py", "y", "z", {"02 dropped"}),
    ("tests/unusual/01/by_hand.py", "x + 0", "0 + x", {"01 by_hand"}),  # a right solution's text
    ("tests/exploits/first.py", "open", "read", A1),
    ("tests/exploits/01/by_heart.py", "1", "2", F1),  # a forgery's text
    ("tests/exploits/course/doubling.py", "1", "2", A1 | A2),  # the attacked assignment
    (
        "cluster/feedback/templates/page.html",
        "html",
        "xml",
        A1 | A2,
    ),  # a template, by a plug-in of nbgrader's
    ("cluster/plugin.py", "write", "write, read", A1 | A2),  # the plug-in, that only settings name
    ("nbgrader_config.py", "Judge", "Judges", R1 | R2 | GRADED),
    ("autotests.yml", "1", "2", R1 | R2 | GRADED),
    ("constraints.txt", "absl-py==2.5.1", "absl-py==2.5.2", ALL),  # a pin that another one asks for
    ("pyproject.toml", "numpy==2.0.2", "numpy==2.0.3", ALL),
    ("pyproject.toml", "horovod==0.28.1", "horovod==0.28.2", ALL),
    ("constraints.txt", "pytest==9.2.0", "pytest==9.3.0", set()),  # a tool of the tests
    ("pyproject.toml", "[cuda]==2.0.2", "[cuda]==2.0.3", set()),  # for GPUs, in place of another
    ("cluster/new.py", None, "x = 1", set()),
    ("cluster/jobs/backends/new.py", None, "x = 1", L2),
    ("lectures/helper.py", None, "x = 1", set()),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"), CHANGES, ids=[f"{c[0]}: {c[2]}" for c in CHANGES]
)
def test_a_change_changes_the_keys_that_it_should(small, unchanged, name, old, new, expected):
    """Has each result that depends on the change another key, and says which part, and has no other?"""
    assert set(unchanged) == ALL
    if old is not None:
        assert old in text_of(name)
        new = text_of(name).replace(old, new, 1)
    write(small, name, new)
    found = all_parts(small)
    changed = {result for result in ALL if keys.key(unchanged[result]) != keys.key(found[result])}
    assert changed == expected
    part = {"pyproject.toml": "pins", "constraints.txt": "pins", TEXT: "code cells"}.get(name, name)
    part = "data: Fashion-MNIST" if name.startswith("data/") else part
    for result in changed:
        words = keys.changed(unchanged[result], found[result])
        assert words == [f"{part} is new" if old is None else f"{part} has changed"]


def test_a_key_says_nothing_of_the_place(small, unchanged):
    """Has a copy of the course elsewhere the same keys?"""
    assert all_parts(small) == unchanged
    assert not [part for parts in unchanged.values() for part in parts if part.startswith("/")]


def test_what_is_no_python_is_refused(small):
    """Does a cell that cannot be read stop the key, and not leave its imports out?"""
    write(small, TEXT, "# %%\nfrom cluster import (")
    with pytest.raises(ValueError, match=r"01_reads.py, code cell 1 is not Python"):
        all_parts(small)


def test_table_keeps_what_shares_its_parts(tmp_path):
    """Does a table believe a result only under its key, forget those of other parts, and say why?"""
    table = results.Table(tmp_path / "table.json")
    own = {"a": {"a.py": "1"}, "b": {"b.py": "1"}}
    assert table.why("a", {"shared.py": "1"}, own["a"]) == "no result is recorded"
    table.keep({"shared.py": "1"}, own, {"a": {"points": 1}})
    table.keep({"shared.py": "1"}, own, {"b": {"points": 2}})
    table = results.Table(tmp_path / "table.json")
    assert [table.why(name, {"shared.py": "1"}, own[name]) for name in own] == ["", ""]
    assert table.why("a", {"shared.py": "2"}, own["a"]) == "shared.py has changed"
    assert table.why("b", {"shared.py": "1"}, {"b.py": "2"}) == "b.py has changed"
    assert (
        table.why("b", {}, {"c.py": "1"})
        == "c.py is new; shared.py is no longer read; b.py is no longer read"
    )
    table.keep({"shared.py": "2"}, own, {"b": {"points": 3}})
    assert {name: found["points"] for name, found in table.results.items()} == {"b": 3}
    table.keep({"shared.py": "2"}, {"a": {}}, {})
    assert table.results == {} and [p.name for p in tmp_path.iterdir()] == ["table.json"]


def test_the_commit_chooses_the_sample(monkeypatch):
    """One in ten, at least one, the same for one commit, in time each; and all where all are wanted?"""
    names = [f"mutant {i}" for i in range(24)]
    assert sample.sample(names, seed="a") == sample.sample(names[::-1], seed="a")
    assert len(sample.sample(names, seed="a")) == 3 and len(sample.sample(names[:1], seed="a")) == 1
    assert set().union(*(sample.sample(names, seed=str(i)) for i in range(60))) == set(names)
    why = {"a": "", "b": "b.py has changed"} | dict.fromkeys(names, "")
    monkeypatch.setattr(sample, "ALL", False)
    redo = sample.to_redo(why)
    assert redo["b"] == "b.py has changed" and len(redo) in (3, 4) and set(redo.values()) >= {"sample"}
    assert sample.due(why, redo) == ""
    why |= dict.fromkeys(names, "shared.py has changed")
    some = sample.to_redo(why, most=4)
    assert len(some) == 4 and set(some) <= {"b", *names} and len(sample.to_redo(why)) >= 25
    assert sample.due(why, some) == "21 more have another key and are left to make test-all"
    monkeypatch.setattr(sample, "ALL", True)
    assert set(sample.to_redo(why)) == set(why)


@pytest.fixture(scope="module")
def course():
    """({result: its parts} of the course itself, the files that were parsed for them, once for each time)."""
    parsed, found = [], {}

    def counted(text, package=(), where=""):
        parsed.append(where)
        return syntax.names_in(text, package, where)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach, "names_in", counted)
        tree = keys.Tree(ROOT)
        for text in sorted((ROOT / "lectures" / "text").glob("[0-9]*.py")):
            found[f"lecture {text.stem}"] = keys.lecture(tree, text)
        for folder in sorted(p for p in (ROOT / "solutions").iterdir() if p.is_dir()):
            found[f"release {folder.name}"] = keys.release(tree, folder.name)
            shared, own = keys.mutants(tree, folder.name)
            found |= {f"mutant {folder.name} {name}": shared | parts for name, parts in own.items()}
            shared, own = keys.forgeries(tree, folder.name)
            found |= {f"forgery {folder.name} {name}": shared | parts for name, parts in own.items()}
        shared, own = keys.attacks(tree)
        found |= {f"attack {name}": shared | parts for name, parts in own.items()}
    return found, parsed


def test_keys_are_quickly_computed(course):
    """All keys of the course: is each file parsed once, without TensorFlow, and has each key its parts?"""
    found, parsed = course
    modules = [where for where in parsed if where.endswith(".py")]  # not cells, not code in strings
    assert len(modules) == len(set(modules)) > 100
    assert {name.partition(" ")[0] for name in found} == {
        "lecture", "release", "mutant", "forgery", "attack",
    }  # fmt: skip
    assert all({"pins", "python", "machine"} < set(parts) for parts in found.values())


# What students and instructors click on, and what puts the course on a hub: no point depends on it.
NO_POINT = ("cluster/pages/", "cluster/staff/class_page/", "cluster/staff/hub/", "cluster/staff/feedback/")


def test_no_page_takes_part_in_a_mutants_key(course):
    """Do the tables of mutants stay of today when a page of the course, the hub or feedback changes?"""
    assert all(any((ROOT / folder).rglob("*.py")) for folder in NO_POINT)
    mutants = {name: parts for name, parts in course[0].items() if name.startswith("mutant ")}
    assert {part for parts in mutants.values() for part in parts if part.startswith(NO_POINT)} == set()
    engine = "cluster/staff/engine/engine.py"  # what grades is among the parts, so that none could be missed
    assert mutants and all(engine in parts for parts in mutants.values())
