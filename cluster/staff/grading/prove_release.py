"""Grade the solution and the unsolved version of a release, before students get it.

The solution must get all points and the unsolved version none; otherwise the checks would take points from
correct submissions, or give them away. A release that was proved is graded again only if its source, its
files or the limits change.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from ..course import Course, CourseError, alone, say
from ..engine.sandbox import bubblewrap
from ..release.wrong_solutions import SOLUTION, STUB, fill
from ..submissions import grading_folder
from ..submissions.prepare import Sanitiser, Source
from . import grading_limits
from .grade import source_files
from .on_this_machine import Local
from .prove_checks import grade_all


def faults(root: Path, assignment: str, release: Path, private: Path | None = None) -> list[str]:
    """Return what is wrong with the points of a generated release in the folder `release`, line by line.

    private: as in `release.generate`.
    """
    import nbformat

    if missing := bubblewrap.missing():
        say(f"{assignment}: its checks are not tried, because {missing}")
        return []
    course = Course(root, private, release_directory=release.parent)
    note, limits = course.private / "proved" / f"{assignment}.json", grading_limits.of(course, assignment)
    data = source_files(course.coursedir, assignment)
    source = Source.from_gradebook(course.coursedir, assignment)
    solved = root / "solutions" / assignment / f"{source.name}.ipynb"
    parts = [solved, *sorted(release.rglob("*")), *data.values()]
    digest = hashlib.sha256(json.dumps([limits, *data], sort_keys=True).encode())
    for path in filter(Path.is_file, parts):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    if grading_folder.load(note) == {"digest": digest.hexdigest()}:
        return []
    paths, sanitise = release / f"{source.name}.ipynb", Sanitiser(course.config, source)
    stub, filled = (nbformat.read(paths, as_version=4) for _ in range(2))
    books = {STUB: stub, SOLUTION: fill(filled, nbformat.read(solved, as_version=4))}
    say(f"{assignment}: grading the solution and the unsolved version")
    with alone(course.private / "proof" / assignment) as folder:
        if (runs := solved.with_name("runs")).is_dir():
            shutil.copytree(runs, folder / "files" / "runs")
        books = {name: sanitise(book) for name, book in books.items()}
        try:
            graded = grade_all(folder, books, Local(), limits, data, say=lambda _: None)
        except CourseError as error:
            return [str(error)]
        shutil.rmtree(folder)
    wrong = [
        f"the solution gets {one['score']:g} of {one['max_score']:g} points of check {name!r}: {one['error']}"
        for name, one in graded[SOLUTION].items()
        if one["score"] != one["max_score"]
    ]
    wrong += [
        f"the unsolved version gets {one['score']:g} points of check {name!r}"
        for name, one in graded[STUB].items()
        if one["score"]
    ]
    if not wrong:
        note.parent.mkdir(mode=0o700, exist_ok=True)
        grading_folder.write(note, json.dumps({"digest": digest.hexdigest()}))
    return wrong
