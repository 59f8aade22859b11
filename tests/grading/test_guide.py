"""The instructor's guide matches the course and is kept from students."""

import re
import tomllib

import nbformat
import pytest

from cluster.staff.course import assignments
from cluster.staff.release import student_files
from cluster.staff.release.wrong_solutions import cells_of, points, written

from .. import ROOT
from ..modules import module_of

GUIDE = ROOT / "cluster" / "staff" / "GUIDE.md"
TEXT = GUIDE.read_text(encoding="utf-8")
UNITS = {text[:2]: text for text in re.split(r"^### ", TEXT, flags=re.M)[1:] if text[:2].isdecimal()}
QUOTED = re.compile(r"^\| \[(\w+)\]\(\.\./\.\./(tests/wrong_solutions/(\d\d)\.toml)\): \"(.+?)\" \| \S", re.M)


def test_students_do_not_get_it():
    """Is the instructor's guide excluded from the students' files, whichever answers are released?"""
    assert GUIDE.is_file()
    for after in (None, "08"):
        chosen = student_files.chosen(ROOT, after)
        assert chosen and not [path for path in chosen if "GUIDE" in path.name or path == GUIDE]


def test_each_unit_has_what_it_needs():
    """Does the guide have aims, prerequisites, three misconceptions and two questions for each unit?"""
    assert sorted(UNITS) == [name[:2] for name in assignments(ROOT)]
    for number, text in UNITS.items():
        assert "*Aims.*" in text and "*Before:*" in text and "*Exam.* (a)" in text and "(b)" in text, number
        assert len([matches for matches in QUOTED.finditer(text) if matches[3] == number]) == 3, number
        assert text.count("*Sketch:*") == 2, number


def test_misconceptions_are_quoted_as_grading_names_them():
    """Does the guide quote each misconception as the linked mutant states it?"""
    matches = list(QUOTED.finditer(TEXT))
    assert len(matches) == 3 * len(UNITS)
    for name, path, _, text in (match.groups() for match in matches):
        assert tomllib.loads((ROOT / path).read_text(encoding="utf-8"))[name]["misconception"] == text


@pytest.mark.parametrize("name", assignments(ROOT))
def test_hours_points_and_written_answers_are_those_of_the_course(name):
    """Does the guide's table match units.toml and the assignments, and name each written answer?"""
    units = tomllib.loads((ROOT / "lectures" / "units.toml").read_text(encoding="utf-8"))
    notebook = nbformat.read(next((ROOT / "solutions" / name).glob("*.ipynb")), 4)
    unit, text = units[name[:2]], written(notebook)
    checks = sum(points(notebook).values())
    person = sum(cells_of(notebook, "grade")[word].metadata.nbgrader.points for word in text)
    row = f"| {name[:2]} {unit['title']} | 90 minutes | {unit['hours']} | {checks:g} | {person:g} |"
    assert row in TEXT
    assert {word for word in text if f"| {name[:2]} [{word}](" in TEXT} == text


def test_links_lead_somewhere():
    """Do all files exist that the guide links to, and all blanks that its workshop names?"""
    for address in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", TEXT):
        assert (GUIDE.parent / address).exists(), address
    holes = {name for path in ROOT.glob("solutions/*/*.py")
             for name in re.findall(r'solution="([\w-]+)"', path.read_text())}  # fmt: skip
    workshop = TEXT.partition("## A workshop")[2].partition("\n## ")[0]
    named = {
        word
        for line in workshop.splitlines()
        if line.startswith("| ")
        for word in re.findall(r"`([\w-]+)`", line)
    }
    assert len(named) > 10 and named <= holes


def test_the_book_has_it_for_staff_only(tmp_path):
    """Does the book contain the guide with --staff, and only then?"""
    sources = module_of(ROOT / "lectures" / "book" / "sources.py")
    for staff in (False, True):
        pages = sources.assemble(ROOT, tmp_path / str(staff), staff)
        assert (sources.GUIDE in pages) == staff == (tmp_path / str(staff) / sources.GUIDE).exists()
        assert ("GUIDE" in (tmp_path / str(staff) / "index.md").read_text()) == staff
