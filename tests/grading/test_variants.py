"""Numbers of a student's own: the same for ever, of no use to others, proven before they are given out."""

import csv
import random
import shutil

import nbformat
import pytest

from cluster.checks.variant import variant
from cluster.staff import __main__ as command
from cluster.staff.classes import grade, grading_folder, prepare, regrade, variants
from cluster.staff.course import Course, CourseError
from cluster.staff.feedback import class_report
from cluster.staff.release import variant_codes
from cluster.staff.release.release import release
from cluster.staff.release.wrong_solutions import fill

from .courses import make_course
from .sandboxes import need

NAME = "99_doubling"
TWIN = '''# %% given="variant"
from cluster.checks import variant

draw = variant("99")
width = draw.randint(1000, 10**9)

# %% solution="area"
def area(n):
    """Pixels of n square images, `width` pixels wide."""
    ### BEGIN SOLUTION
    return n * width**2
    ### END SOLUTION


# %% solution="by-hand"
### BEGIN SOLUTION
one = width**2
### END SOLUTION

# %% check="one-image" points=1
"""The pixels of one image (1 point)."""
assert one == width**2

# %% check="some-images" points=2
"""The pixels of several (2 points)."""
### BEGIN HIDDEN TESTS
assert area(3) == 3 * width**2
### END HIDDEN TESTS
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = make_course(tmp_path_factory.mktemp("variants"))
    (root / "solutions" / NAME / "doubling.py").write_text(TWIN)
    release(root)
    return root


@pytest.fixture
def root(made, tmp_path, monkeypatch):
    root = shutil.copytree(made, tmp_path / "course")
    monkeypatch.chdir(root)
    return root


def width_of(code):
    return variant("99", code).randint(1000, 10**9)


def hand_in(root, student, code=None, one=None, text=None):
    """The reference's work with a typed number, and optionally another text in the given cell."""
    source = nbformat.read(root / "solutions" / NAME / "doubling.ipynb", as_version=4)
    book = nbformat.read(root / "exercises" / NAME / "doubling.ipynb", as_version=4)
    book = fill(book, source, {"by-hand": f"one = {one}"} if one else None)
    if text:
        book.cells[0].source = text
    folder = Course(root).folder("submitted", student, NAME)
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, folder / "doubling.ipynb")
    if code:
        (folder / "variant.txt").write_text(f"{code}\n")


def test_a_code_draws_the_same_numbers_and_a_slip_is_told(tmp_path, monkeypatch, capsys):
    """Are they the same for the same code, also in capitals and with zeros for o, and is another refused?"""
    known = variant_codes.Codes(tmp_path, NAME)
    known.make_key()
    ada, bob = known.code_of("ada"), known.code_of("bob")
    known.make_key()
    assert known.file.stat().st_mode & 0o777 == 0o600
    assert variant_codes.Codes(tmp_path, NAME).code_of("ada") == ada != bob and width_of(ada) != width_of(bob)
    assert variant_codes.Codes(tmp_path, "98_other").code_of("ada")[:10] != ada[:10]
    assert width_of(ada.upper().replace("O", "0") + "\n") == width_of(f"{ada[:4]}-{ada[4:]}") == width_of(ada)
    monkeypatch.chdir(tmp_path)
    assert isinstance(variant("99"), random.Random) and "variant.txt" in capsys.readouterr().out
    (tmp_path / "variant.txt").write_text(ada)
    assert variant("99").randint(1000, 10**9) == width_of(ada) and not capsys.readouterr().out
    other = ada[:3] + ("b" if ada[3] == "a" else "a") + ada[4:]
    for code in (other, "", "hello", known.complete("x") * 9):
        with pytest.raises(ValueError, match="no code of assignment 99"):
            variant("99", code)
    with pytest.raises(ValueError, match="no code of assignment 98"):
        variant("98", ada)


def test_without_its_key_nothing_is_graded(root):
    """Is a missing key, or one that others may read, an error instead of other numbers?"""
    hand_in(root, "ada")
    with pytest.raises(CourseError, match=r"variants\.key.*backup"):
        grade.grade_class(root, NAME)
    (root / ".grading" / "variants.key").write_text("0" * 64)
    (root / ".grading" / "variants.key").chmod(0o644)
    with pytest.raises(CourseError, match="read by others"):
        grade.grade_class(root, NAME)


def test_a_copied_answer_loses_the_points(root):
    """Are the numbers those of the student who handed in, whatever code or given cell they worked with?"""
    need()
    course = Course(root)
    known = variant_codes.Codes(course.private, NAME)
    known.make_key()
    ada, bob = known.code_of("ada"), known.code_of("bob")
    hand_in(root, "ada", ada, width_of(ada) ** 2)
    hand_in(root, "bob", bob, width_of(ada) ** 2)
    hand_in(
        root, "cyd", ada, width_of(ada) ** 2, text=f'draw = variant("99", "{ada}")\nwidth = {width_of(ada)}'
    )
    hand_in(root, "dan")
    result = grade.grade_class(root, NAME, backend=grade.Local(2))
    assert sorted(result.graded) == ["ada", "bob", "cyd", "dan"]
    got = {name: [score for score, _ in course.scores(NAME, name).values()] for name in result.graded}
    assert got == {"ada": [1, 2], "bob": [0, 2], "cyd": [0, 2], "dan": [1, 2]}
    assert "holds the code of ada" in "".join(result.notes["cyd"]) and "ada" not in result.notes
    assert "sample's numbers" in "".join(result.notes["dan"])
    where = grading_folder.GradingFolder(grading_folder.runs(course.coursedir), NAME)
    assert where.recorded("ada")["key"] != where.recorded("bob")["key"]
    staged = [path.read_text() for path in where.folder.rglob("*") if path.is_file()]
    assert not any(known.key.decode() in text for text in staged) and any(ada in text for text in staged)
    assert grade.grade_class(root, NAME).unchanged == result.students
    again, _ = regrade.regrade(grade.Head(course, NAME, grade.Local(2)), "one-image")
    assert again.unchanged == result.students
    found = class_report.facts(root, course, NAME)
    rows = list(csv.DictReader(class_report.tables(found)["students.csv"].splitlines()))
    assert [row["variant"] for row in rows][:2] == [ada, bob]


def test_nbgraders_own_command_takes_the_same_numbers(root):
    """Is the sanitised notebook the same for the plug-in as for `grade run`?"""
    course = Course(root)
    known = variant_codes.Codes(course.private, NAME)
    known.make_key()
    hand_in(root, "ada")
    source = prepare.Source.from_gradebook(course.coursedir, NAME)
    sanitiser = prepare.Sanitiser(course.config, source)
    found = prepare.read_submission("ada", course.folder("submitted", "ada", NAME), source, sanitiser)
    assert f'variant("99", "{known.code_of("ada")}")' in found.notebook.cells[0].source
    assert 'variant("99")' in sanitiser(found.notebook).cells[0].source


def test_codes_are_given_out_once_they_are_proven(root, capsys):
    """Is a check that fits the sample's numbers alone refused, and are codes written for the class else?"""
    need()
    twin = root / "solutions" / NAME / "doubling.py"
    twin.write_text(TWIN.replace("assert area(3) ==", f"assert area(3) == {3 * width_of('sample') ** 2} or"))
    assert command.main(["variants", "99", "--student", "ada", "--samples", "1"]) == 0
    printed = capsys.readouterr().out
    [row] = csv.DictReader((root / ".grading/variants" / f"{NAME}.csv").read_text().splitlines())
    assert (
        row["code"] == variant_codes.Codes(root / ".grading", NAME).code_of("ada") and "4 gradings" in printed
    )
    twin.write_text(TWIN.replace("assert one ==", f"assert one == {width_of('sample') ** 2} #"))
    assert command.main(["variants", "99", "--student", "bob", "--samples", "1"]) == 1
    printed = capsys.readouterr().err
    assert "solution loses one-image" in printed and "no codes were written" in printed
    assert "bob" not in (root / ".grading/variants" / f"{NAME}.csv").read_text()


def test_a_cell_that_does_not_draw_is_refused(tmp_path):
    """Is a given cell `variant` without its one call an error that names it?"""
    cell = nbformat.v4.new_code_cell("x = 1", metadata={"nbgrader": {"grade_id": "variant"}})
    with pytest.raises(CourseError, match="'variant' calls"):
        variant_codes.stamp(nbformat.v4.new_notebook(cells=[cell]), "abc")
    assert not variants.has_variants(nbformat.v4.new_notebook())
