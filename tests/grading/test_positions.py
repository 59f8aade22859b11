"""Each check is judged against the notebook's state at its position, and nothing hidden leaves a grading."""

import copy

import nbformat
import pytest
from nbclient import NotebookClient

from cluster.staff.engine import Limits
from cluster.staff.grading import gradebook
from cluster.staff.hidden import hidden_lines, in_parts, without_hidden
from cluster.staff.results import feedback

from .. import ROOT
from .sandboxes import PatientEngine, cell, hidden, need, parts, tiny, twins

LIMITS = Limits(cell=8, check=20, total=240, memory=2**30, output=500_000, disk=2**25)

# {kind of state: (cell that makes it 2, expression for it, cell below the checks that changes it)}
KINDS = {
    "name": ("two = 2", "two", "two = 3"),
    "deleted name": ("gone = 2", "gone", "del gone"),
    "name of a library": ("import math as maths", "maths.gcd(2, 4)", "maths = None"),
    "dict": ("table = {'n': 2}", "table['n']", "table['n'] = 3"),
    "emptied dict": ("full = {'n': 2}", "full['n']", "full.clear()"),
    "list": ("items = [1, 1]", "len(items)", "items.append(1)"),
    "set": ("members = {1, 2}", "len(members)", "members.add(3)"),
    "array": ("a = np.array([2, 2])", "int(a[0])", "a[:] = 3"),
    "class attribute": ("class Kind:\n    n = 2", "Kind.n", "Kind.n = 3"),
    "method": ("class Made:\n    def n(self): return 2", "Made().n()", "Made.n = lambda self: 3"),
    "object's attribute": ("import types\nmade = types.SimpleNamespace(n=2)", "made.n", "made.n = 3"),
    "function's attribute": ("def marked(): pass\nmarked.n = 2", "marked.n", "marked.n = 3"),
    "default argument": ("def given(n=[2]): return n[0]", "given()", "given.__defaults__[0][0] = 3"),
    "code of a function": ("def coded(): return 2", "coded()", "coded.__code__ = (lambda: 3).__code__"),
    "closure": (
        "def counter():\n    n = [2]\n    return lambda: n[0], n.append, n.pop\nread, add, drop = counter()",
        "read()",
        "drop()\nadd(3)",
    ),
    "cache": (
        "import functools\nsource = [2]\n@functools.cache\ndef cached(): return source[0]",
        "cached()",
        "source[0] = 3\ncached.cache_clear()",
    ),
    "attribute of numpy": ("np.factor = 2", "np.factor", "np.factor = 3"),
    "function of numpy": ("", "int(np.prod([1, 2]))", "np.prod = lambda x: 3"),
    "built-in": ("import builtins\nbuiltins.factor = 2", "factor", "builtins.factor = 3"),
    "print options": (
        "",
        "len(np.array2string(np.array([0.25]))) - 4",
        "np.set_printoptions(formatter={'float': lambda x: 'a number'})",
    ),
    "error state": (
        "",
        "2 + 0 * int(np.isfinite(np.float64(1) / np.float64(0)))",
        "np.seterr(all='raise')",
    ),
    "environment variable": (
        "import os\nos.environ['FACTOR'] = '2'",
        "int(os.environ['FACTOR'])",
        "os.environ['FACTOR'] = '3'",
    ),
    "file": ("open('n.txt', 'w').write('2')", "int(open('n.txt').read())", "open('n.txt', 'w').write('3')"),
    "deleted file": ("open('m.txt', 'w').write('2')", "int(open('m.txt').read())", "os.remove('m.txt')"),
    "file in /tmp": (
        "open('/tmp/n', 'w').write('2')",
        "int(open('/tmp/n').read())",
        "open('/tmp/n', 'w').write('3')",
    ),
    "open file": ("log = open('log', 'w+')", "2 + 0 * log.tell()", "log.close()"),
    "working directory": (
        "os.makedirs('inside')\nopen('here.txt', 'w').write('2')",
        "int(open('here.txt').read())",
        "os.chdir('inside')",
    ),
    "module on the path": (
        "import sys\nopen('own.py', 'w').write('n = 2')\nimport own",
        "__import__('own').n",
        "sys.modules['own'].n = 3",
    ),
    "warnings as errors": (
        "import warnings",
        "(warnings.warn('x'), 2)[1]",
        "warnings.simplefilter('error')",
    ),
    "recursion limit": ("import sys", "2 * (sys.getrecursionlimit() > 500)", "sys.setrecursionlimit(400)"),
}


def of_kinds(kinds):
    """Return a notebook with an answer and a check for each kind of state; below them, cells change it."""
    notebook = tiny("answers = 0", "assert answers == 0")
    changes = []
    for i, (make, read, change) in enumerate(kinds):
        answer = f"def double_{i}(x):\n    return ({read}) * x"
        check = f"assert double_{i}(21) == 42\n" + hidden(f"assert double_{i}(3) == 6")
        notebook.cells += [
            cell(make),
            cell(answer, f"answer-{i}", solution=True),
            cell(check, f"check-{i}", locked=True, grade=True, points=1),
        ]
        changes.append(cell(change))
    notebook.cells += changes
    return notebook


def visible(notebook):
    """Return {check: its error, or ""} if Jupyter runs the visible parts."""
    notebook = nbformat.from_dict(notebook)
    for each in notebook.cells:
        each.source = without_hidden(each.source)
    NotebookClient(notebook, allow_errors=True, timeout=60).execute()
    return {
        name: "".join(o.ename for o in each.outputs if o.output_type == "error")
        for each in notebook.cells
        if (name := each.metadata.get("nbgrader", {}).get("grade_id")) and each.metadata.nbgrader.grade
    }


@pytest.fixture(scope="module")
def engine():
    need()
    with PatientEngine(workers=1, limits=LIMITS) as engine:
        yield engine


def test_a_check_sees_the_state_at_its_position(engine, tmp_path, monkeypatch):
    """If cells below the checks change state of any kind, do right answers pass in Jupyter and in grading?"""
    monkeypatch.chdir(tmp_path)
    notebook = of_kinds(KINDS.values())
    assert set(visible(notebook).values()) == {""}
    checks = engine.grade(notebook).checks
    assert {list(KINDS)[int(n[6:])]: c.error for n, c in checks.items() if c.score != c.max_score} == {}


def test_a_check_sees_what_cells_above_it_have_changed(engine):
    """Does a check fail if a cell above it has changed the state, and a later check see the new state?"""
    for make, read, change in (KINDS["dict"], KINDS["file"], KINDS["attribute of numpy"]):
        answer = f"{make}\ndef double(x):\n    return {read} * x"
        notebook = tiny(answer, "assert double(2) == 4\n" + hidden("assert double(4) == 8"))
        later = "assert double(2) == 6\n" + hidden("assert double(4) == 12")
        notebook.cells += [cell(change), cell(later, "later", locked=True, grade=True, points=1)]
        assert [check.error for check in engine.grade(notebook).checks.values()] == ["", ""]
        notebook.cells.insert(3, cell(change))
        checks = engine.grade(notebook).checks
        assert not checks["check"].hidden and checks["check"].score == 0 and checks["later"].score == 1


SPY = """
import atexit, sys, threading
seen = []
def double(x):
    seen.append(x)
    for place in ("/tmp/seen", "seen.txt"):
        with open(place, "a") as file:
            print(x, file=file)
    print("called with", seen)
    print("called with", seen, file=sys.stderr)
    if x in (3, 4713):
        raise ValueError(f"seen {seen} {open('/tmp/seen').read()}")
    return 2 * x * (x != 4712)
"""
TELL = """
import time
from IPython.display import HTML, display
import matplotlib.pyplot as plt
time.sleep(0.2)
print(seen, open("/tmp/seen").read(), open("seen.txt").read())
display(HTML(str(seen)))
plt.title(str(seen))
plt.show()
threading.Thread(target=lambda: print("thread", seen)).start()
raise ValueError(f"seen {seen}")
"""


def told(verdict):
    """Return everything that a student is told about a verdict."""
    texts = [str(gradebook.notes_to_student(verdict.to_json()))]
    shown, _ = feedback.HideHiddenTests().preprocess(copy.deepcopy(verdict.notebook), {})
    texts += [str(o) for each in shown.cells for o in each.get("outputs", ())]
    texts += [check.error for check in verdict.checks.values() if not check.hidden]
    return "\n".join(texts)


@pytest.mark.parametrize(
    ("secret", "end"),
    [(4711, ""), (4712, ""), (4713, ""), (4711, "import os\nos._exit(1)"), (4712, "while True: pass")],
    ids=["right", "wrong", "error", "ends", "hangs"],
)
def test_nothing_that_a_student_sees_depends_on_a_hidden_value(engine, secret, end):
    """If a notebook puts every value that it has ever received into its outputs, figures, files and errors,
    does a hidden value reach no text for the student? Is this so if the check is judged a second time?"""
    check = "assert double(1) == 2\n" + hidden(f"assert double({secret}) == 2 * {secret}, double(3)")
    notebook = tiny(SPY, check)
    names = ("same", "other", "last")
    for name, text in zip(names, ("double(2)", "double(3)", "assert double(2) == 5, double(2)"), strict=True):
        notebook.cells += [cell(TELL), cell(text, name, locked=True, grade=True, points=1), cell(TELL)]
    notebook.cells += [cell(end)] * bool(end)
    verdict = engine.grade(notebook)
    assert verdict.outcome == "graded" and verdict.checks["same"].score == 1
    assert verdict.checks["check"].hidden == (secret != 4711)
    text = told(verdict)
    assert "4711" not in text and "4712" not in text and "4713" not in text
    assert "seen [1, 2, 3" in verdict.checks["other"].error and "seen [1, 2" in text


def test_calls_of_hidden_parts_are_not_seen_by_cells_and_visible_parts(engine):
    """If a function counts its calls, do later cells and checks count only the calls of visible parts, as in
    Jupyter?"""
    answer = "calls = []\ndef double(x):\n    calls.append(x)\n    return 2 * x"
    notebook = tiny(answer, "assert double(1) == 2\n" + hidden("assert double(4) == 8"))
    later = "assert len(calls) == 1 and double(2) == 4\n" + hidden("assert double(5) == 10")
    notebook.cells += [cell("print(len(calls))"), cell(later, "later", locked=True, grade=True, points=1)]
    verdict = engine.grade(notebook)
    assert [check.error for check in verdict.checks.values()] == ["", ""]
    assert verdict.notebook.cells[-2].outputs[0].text == "1\n"


@pytest.mark.parametrize("end", ["import os\nos._exit(3)", "import ctypes\nctypes.string_at(0)"])
def test_the_checks_above_the_end_of_a_process_keep_their_points(engine, end):
    """If the notebook's process ends in a cell, is a check above it judged, with its hidden part, and does a
    check below it fail with the cell as the reason?"""
    for answer, points in [("return 2 * x", 2), ("return 2 * x * (x != 4)", 0)]:
        notebook = tiny(
            f"def double(x):\n    {answer}", "assert double(2) == 4\n" + hidden("assert double(4) == 8")
        )
        below = cell("assert double(2) == 4", "below", locked=True, grade=True, points=1)
        notebook.cells += [cell("a = 1"), cell(end), cell("b = 1"), below]
        checks = engine.grade(notebook).checks
        assert (checks["check"].score, checks["check"].hidden) == (points, not points)
        assert (checks["below"].score, checks["below"].kind) == (0, "limit") and checks["below"].error


def test_a_check_that_ends_the_process_costs_what_is_below_it(engine):
    """If a visible part ends the process, do checks above it keep their points? If a hidden part does, do all
    others?"""
    answer = "import os\ndef double(x):\n    return os._exit(1) if x == 5 else 2 * x"
    for visible, rest, expected in [
        ("double(2)", "double(5)", [2, 0, 1]),
        ("double(5)", "double(2)", [2, 0, 0]),
    ]:
        notebook = tiny(answer, "assert double(2) == 4\n" + hidden("assert double(4) == 8"))
        for name, text in (
            ("ends", visible + "\n" + hidden(rest)),
            ("below", "double(2)\n" + hidden("double(3)")),
        ):
            notebook.cells += [cell("a = 1"), cell(text, name, locked=True, grade=True, points=1)]
        assert [check.score for check in engine.grade(notebook).checks.values()] == expected


def test_a_visible_part_runs_once(engine):
    """Does a hidden part continue with the names of the visible part, which is not run again?"""
    answer = (
        "calls = []\ndef double(x):\n    calls.append(x)\n    return 2 * x\ndef count(): return len(calls)"
    )
    check = "values = iter([1, 2])\nassert double(next(values)) == 2\n" + hidden(
        "assert next(values) == 2 and count() == 1"
    )
    assert [check.error for check in engine.grade(tiny(answer, check)).checks.values()] == [""]


@pytest.mark.parametrize(
    ("check", "continues"),
    [
        ("assert double(1) == 2\n" + hidden("assert double(2) == 4"), True),
        (hidden("x = 3\nassert double(x) == 6") + "\nx = 1\n" + hidden("assert double(x) == 2"), False),
        ("for x in 1, 2:\n    assert double(x)\n" + hidden("    assert double(x) == 2 * x"), False),
        ("for x in ():\n    pass\n" + hidden("else:\n    assert double(3) == 6"), False),
        ("@staticmethod\n" + hidden("def f(): pass") + "\ndef g(): pass", False),
        ("text = '''\n" + hidden("secret") + "\n'''\nassert double(1) == 2", False),
        (hidden("x = 1") + "\nx = 2\nassert double(x) == 4", False),
        ("x = 1\r\n" + hidden("assert double(x) == 2"), True),
    ],
)
def test_where_a_check_is_cut(engine, check, continues):
    """Is a check run in two parts only if both together are its statements in their order, and as a whole
    otherwise?"""
    shown, rest, goes_on = in_parts(check)
    assert (shown, goes_on) == (without_hidden(check), continues) and (goes_on or rest == check)
    assert [
        c.error for c in engine.grade(tiny("def double(x):\n    return 2 * x", check)).checks.values()
    ] == [""]


def test_what_has_failed_is_known_in_every_part(engine):
    """If a check fails in its hidden part only, does a check that asks for it in its visible part know it?"""
    given = "from cluster.checks import has_failed"
    for below in ("", "\n" + hidden("assert double(3) == 6")):
        for wrong, points in [(0, [2, 1]), (4, [0, 0])]:
            notebook = tiny(
                f"def double(x):\n    return 2 * x * (x != {wrong})",
                "assert double(2) == 4\n" + hidden("assert double(4) == 8"),
                given=given,
            )
            text = "assert not has_failed('check') and double(1) == 2" + below
            notebook.cells.append(cell(text, "medal", locked=True, grade=True, points=1))
            assert [check.score for check in engine.grade(notebook).checks.values()] == points


def test_every_check_of_the_course_is_cut():
    """Does the hidden part of nearly every check continue its visible part?"""
    whole = []
    for path in sorted((ROOT / "solutions").glob("*/*.py")):
        for name, text in parts(twins.notebook(path))[1]:
            if any(hidden_lines(text)) and not in_parts(text)[2]:
                whole.append(name)
    assert len(whole) <= 2, whole
