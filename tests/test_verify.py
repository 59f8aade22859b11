"""Each unit was verified in its current form, and a change makes only those units out of date that depend on
it.
"""

import datetime
import json

import pytest

from . import ALL, ROOT, verify
from .grading.courses import make_course, write_mutant

SENTENCE = '    raise ValueError(f"{x} is no number")\n'
TYPES = """\
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .distributed import RANKS
"""
COURSE = {  # a second unit, and a package; unit 99 is the assignment of `make_course`
    "lectures/text/98_other.py": "# %% [markdown]\n# # Other\n\n# %%\nimport cluster.training.data as data\n",
    "lectures/text/99_topic.py": "# %% [markdown]\n# # Topic\n\n# %%\n%matplotlib inline\n"
    'from cluster.lecture import guess\n\nrecord = open("runs/99_record.json")  # of a large machine\n',
    "lectures/runs/99_record.json": '{"seconds": 1}',
    "lectures/runs/98_unused.json": "{}",
    "solutions/98_other/other.py": '# %% solution="other"\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n',
    "cluster/lecture.py": "from cluster.system import processes\n\n\ndef guess(): ...\n",
    "cluster/checks/__init__.py": "from .compare import close\n",
    "cluster/checks/compare.py": f"def close(x):\n    return x\n    # as is\n{SENTENCE}",
    "cluster/training/__init__.py": "",
    "cluster/training/data.py": "from cluster.jobs import log\n\nSIZE = 28\n\n\n"
    "def load(n=1): ...\n\n\nclass Part:\n    size: int\n    start: int = 0\n",
    "cluster/training/distributed.py": "RANKS = 2\n",
    "cluster/network/__init__.py": "",
    "cluster/jobs/__init__.py": "def log(): ...\n",
    "cluster/system/processes.py": "SECONDS = 1\n",
    "cluster/staff/engine/engine.py": "LIMIT = 1\n",
    "cluster/pages/style.css": "a {}\n",
    "constraints.txt": "keras==3.15.1\nkeras-tuner==1.0\nnumpy==2.0\ntensorflow_cpu==2.18.1\ntqdm==4.67.1\n",
}
DOUBLING = "solutions/99_doubling/doubling.py"
CHANGES = [  # file, old text, new text, units that this makes out of date
    ("cluster/checks/compare.py", "# as is", "# unchanged", ""),
    ("cluster/checks/compare.py", "is no number", "is not a number", ""),
    ("cluster/checks/compare.py", "return x", "return 2 * x", "99"),
    ("cluster/training/data.py", "28", "32", "98"),
    ("cluster/training/data.py", "SIZE = 28", "SIZE: int = 28", ""),
    ("cluster/training/data.py", "load(n=1)", "load(n: int = 1) -> None", ""),
    ("cluster/training/data.py", "load(n=1)", "load(n=2)", "98"),
    ("cluster/training/data.py", "size: int", "size: float", ""),
    ("cluster/training/data.py", "size: int", "length: int", "98"),
    ("cluster/training/data.py", "start: int = 0", "start = 0", "98"),  # no longer a field
    ("cluster/training/data.py", "start: int = 0", "start: ClassVar[int] = 0", "98"),
    ("cluster/training/data.py", "SIZE =", f"{TYPES}\nSIZE =", ""),
    ("cluster/training/distributed.py", "2", "3", ""),  # no unit imports it
    ("cluster/lecture.py", "guess(): ...", "guess(n): ...", "99"),
    ("cluster/system/processes.py", "1", "2", ""),
    ("cluster/jobs/__init__.py", "log()", "log(x)", ""),
    ("cluster/staff/engine/engine.py", "1", "2", ""),
    ("cluster/pages/style.css", "{}", "{color: red}", ""),
    ("nbgrader_config.py", "c = get_config()", "c = get_config()\nx = 1", ""),
    (DOUBLING, "# # Doubling", "# # Twice a number", ""),
    (DOUBLING, "Twice x.", "The double of x.", ""),
    (DOUBLING, "2 * x", "x + x", "99"),
    (DOUBLING, "points=2", "points=3", "99"),
    (DOUBLING, "# AUTOTEST double(0.1 + 0.2)", "# AUTOTEST double(0.1)", "99"),
    (DOUBLING, "### BEGIN HIDDEN TESTS\nassert", "assert", "99"),
    ("tests/wrong_solutions/99.toml", "x * x", "x ** 3", "99"),
    ("tests/wrong_solutions/99.toml", "double-of-others", "double-of-one", "99"),
    ("lectures/text/99_topic.py", "# # Topic", "# # Subject", ""),
    ("lectures/text/99_topic.py", "of a large machine", "from a large machine", ""),
    ("lectures/text/99_topic.py", "%matplotlib inline", "%matplotlib agg", "99"),
    ("lectures/runs/99_record.json", "1", "2", "99"),
    ("lectures/runs/98_unused.json", "{}", "[]", ""),
    ("constraints.txt", "tqdm==4.67.1", "tqdm==4.67.2", ""),
    ("constraints.txt", "keras-tuner==1.0", "keras-tuner==1.1", ""),
    ("constraints.txt", "tensorflow_cpu==2.18.1", "tensorflow_cpu==2.19.0", "98 99"),
    ("constraints.txt", "keras==3.15.1", "keras==3.16.0", "98 99"),
]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A small course with two units, which are both verified."""
    root = make_course(tmp_path_factory.mktemp("verify"))
    write_mutant(root, "squares", {"double-of-others"}, "x * x + x * (x == 1)")
    text = root / DOUBLING
    text.write_text(text.read_text() + "\n# %%\nfrom cluster.checks import close\n")
    for name, content in COURSE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    for unit in verify.units(root):
        verify.write(root, unit, entry(root, unit))
    return root


def entry(root, unit, minutes=0):
    results = {"commit": "1234567", "date": datetime.date(2026, 11, 1), "minutes": minutes, "graded": 3}
    return results | {"digests": verify.digests(root, unit)}


def test_every_unit_is_verified():
    """Are all units unchanged since they were verified? Before a release they must be: `make verify`."""
    due = verify.out_of_date(ROOT)
    if due and not ALL:
        pytest.skip(f"units {', '.join(due)} have changed since they were verified")
    assert due == {}


@pytest.mark.parametrize(("name", "old", "new", "units"), CHANGES)
def test_what_a_change_makes_out_of_date(course, name, old, new, units):
    """Does a change make those units out of date whose results it can affect, and only those?"""
    path = course / name
    before = path.read_text()
    assert before.count(old) >= 1
    path.write_text(before.replace(old, new))
    verify.package.cache_clear()
    found = verify.out_of_date(course)
    path.write_text(before)
    verify.package.cache_clear()
    assert " ".join(found) == units
    assert verify.out_of_date(course) == {}


def test_a_message_names_what_has_changed_and_the_command(course):
    """Does the message name the changed paths and pins, and the command with its minutes? Does it say if a
    unit was never verified?"""
    original = (course / verify.FILE).read_text()
    changed = entry(course, "99", minutes=12.5)
    changed["digests"] |= {"keras": "3.0.0", "cluster/checks/gone.py": "0"}
    verify.write(course, "99", changed)
    told = verify.out_of_date(course)["99"]
    assert all(part in told for part in ("cluster/checks/gone.py", "keras", "2026-11-01", "UNIT=99", "12.5"))
    (course / verify.FILE).write_text(original.partition("\n[99]")[0])
    assert "UNIT=99" in verify.out_of_date(course)["99"]
    verify.write(course, "99", entry(course, "99"))
    assert (course / verify.FILE).read_text() == original


@pytest.mark.parametrize("failure", ["failed", "skipped", "changed"])
def test_only_a_unit_that_is_as_declared_gets_an_entry(course, monkeypatch, failure):
    """If a test fails or is skipped, or a file changes during the verification, does the entry remain
    unchanged and the message give the reason?
    """

    def run(command, **options):
        report = next(word for word in command if word.startswith("--junitxml=")).partition("=")[2]
        skipped = int(failure == "skipped")
        with open(report, "w") as file:
            file.write(f'<testsuites><testsuite tests="4" skipped="{skipped}"/></testsuites>')
        assert options["env"]["CLUSTER_TEST_ALL"] == "1"
        if failure == "changed":
            text = (course / DOUBLING).read_text()
            (course / DOUBLING).write_text(text.replace("2 * x", "x + x"))
        return type("Done", (), {"returncode": int(failure == "failed")})

    original, text = (course / verify.FILE).read_text(), (course / DOUBLING).read_text()
    monkeypatch.setattr(verify.subprocess, "run", run)
    wrong = verify.verify(course, "99")
    (course / DOUBLING).write_text(text)
    assert "99" in wrong
    assert (course / verify.FILE).read_text() == original


def test_a_syntax_tree_is_plain():
    """Can the syntax tree of any source be written as JSON, even with magics, invalid Python and unusual
    constants? Do different comments in invalid Python give different trees?
    """
    for source in ("%time x = 1\n!ls", "def f(:", "x = [1.5, 2j, b'a', None, True, ...]"):
        assert json.dumps(verify.tree_of(source))
    assert verify.tree_of("def f(:  # a") != verify.tree_of("def f(:  # b")
