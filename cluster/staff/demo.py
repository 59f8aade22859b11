"""The whole cycle without a browser: release, solve, submit, grade, release feedback; every score is known in
advance.

Three students take both assignments. One solves everything. One has a few of the misconceptions in
tests/wrong_solutions, which also lists the points that these cost. One submits the release unchanged. Their
notebooks are executed like in JupyterLab, including jobs, and submitted with the recorded runs. Everything is
in .grading/demo, and the instructor's gradebook is not affected.

On two cores it takes minutes, because all notebooks are executed at the same time, and their jobs' ranks are
forked from one process that has imported TensorFlow (`forked_ranks`). The students' notebooks already show
that the solution runs to its end, so the release executes it only as far as necessary.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import os
import shutil
import time
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.jobs.backends import forked_ranks

from .course import Course, CourseError, alone, quiet_stderr, say
from .engine.sandbox import bubblewrap
from .grading import grade
from .release.release import release
from .release.wrong_solutions import MutantError, fill, load_all, points

if TYPE_CHECKING:
    from nbformat import NotebookNode

# The misconceptions of the half-right student: names of entries in tests/wrong_solutions/NN.toml.
HALF = {
    "01_convolution_as_gemm": ["padding_only_one_side", "bias_for_every_product"],
    "07_data_parallel_training": ["mean_of_means", "named_by_the_symptom", "nothing_divided"],
}
Work = tuple[str, str]  # (assignment, student)

STUDENTS = ("student_right", "student_half", "student_empty")


def run_demo(root: Path) -> list[str]:
    """Run the cycle, print the score table and the results' location; return unexpected results."""
    if why := bubblewrap.missing():  # otherwise the grading would report this two minutes later
        raise CourseError(why)
    with alone(root / ".grading" / "demo") as private:
        return loop(root, private)


def loop(root: Path, private: Path) -> list[str]:
    """Do what `run_demo` does, in the empty folder `private`."""
    import nbformat

    start = time.monotonic()
    course = Course(root, private)
    expected: dict[Work, dict[str, float]] = {}
    tasks = []
    with forked_ranks.offered(forked_ranks.LIBRARIES):
        with stage("release both assignments"):
            for assignment in HALF:
                release(root, assignment, private / "exercises", private, whole=False)
        for assignment in HALF:
            released = next((private / "exercises" / assignment).glob("*.ipynb"))
            source = nbformat.read(root / "solutions" / assignment / released.name, as_version=4)
            answers, lost = half_right(root, assignment, source)
            worth = points(source)
            for student, half in zip(STUDENTS, ({}, answers, None), strict=True):
                folder = private / "students" / student / assignment
                shutil.copytree(released.parent, folder)
                expected[assignment, student] = {}
                if half is not None:
                    missed = lost if half else ()
                    expected[assignment, student] = {c: 0 if c in missed else worth[c] for c in worth}
                    tasks.append((folder / released.name, source, half))
        with stage("two students solve both, with jobs on two ranks"), quiet_stderr(private / "students.log"):
            asyncio.run(work_all(tasks))
    for assignment, student in expected:
        hand_in(course, private / "students" / student / assignment, assignment, student)

    got, pages, wrong = {}, [], []
    for assignment in HALF:
        with stage(f"grade the class, {assignment}"):
            result = grade.grade_class(root, assignment, private=private)
        wrong += [f"{who}: {assignment} was not graded: {why}" for who, why in result.ungraded.items()]
        for student in [name for name in STUDENTS if name not in result.ungraded]:
            with stage(f"feedback for {student}, {assignment}"):
                got[assignment, student] = course.scores(assignment, student)
                pages += course.feedback(assignment, student)

    wrong += table({work: expected[work] for work in got}, got, course)
    say("\nFeedback:")
    say(*(f"  {page.relative_to(root)}" for page in pages), sep="\n")
    say("\nRecorded runs:")
    wrong += replayed(course, got)
    curve = training_curve(private / "students" / STUDENTS[0] / "07_data_parallel_training", private)
    say(f"Training curve of {STUDENTS[0]}: {curve.relative_to(root)}")
    say(f"\n{time.monotonic() - start:.0f} s in all; everything is in {private.relative_to(root)}/")
    return wrong


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Print a step's name and, at its end, how long it took; drop the output of the step itself."""
    say(f"{name:<56}", end=" ")
    start = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()):
        yield
    say(f"{time.monotonic() - start:5.1f} s")


def half_right(root: Path, assignment: str, source: NotebookNode) -> tuple[dict[str, str], set[str]]:
    """Return the half-right student's answers {blank: source} and the checks that must fail."""
    mutants = {mutant.name: mutant for mutant in load_all(root, assignment, source)}
    answers: dict[str, str] = {}
    lost: set[str] = set()
    for name in HALF[assignment]:
        if name not in mutants:
            raise MutantError(f"{assignment} has no mutant {name!r}; its mutants are {sorted(mutants)}")
        if twice := set(answers) & set(mutants[name].replace):
            raise MutantError(f"two mutants of the demo fill the same blank of {assignment}: {sorted(twice)}")
        answers |= mutants[name].replace
        lost |= mutants[name].fails
    return answers, lost


async def work_all(tasks: list[tuple[Path, NotebookNode, dict[str, str]]]) -> None:
    """Run `work` for all tasks at the same time."""
    await asyncio.gather(*(work(*task) for task in tasks))


async def work(path: Path, source: NotebookNode, answers: dict[str, str]) -> None:
    """Fill in the blanks of a released notebook and execute it in place, as a student would."""
    import nbformat
    from nbclient import NotebookClient

    notebook = fill(nbformat.read(path, as_version=4), source, answers)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    # Without CLUSTER_RUNS: recorded runs are submitted with the notebook next to them.
    await client.async_execute(env={k: v for k, v in os.environ.items() if k != "CLUSTER_RUNS"})
    nbformat.write(notebook, path)


def hand_in(course: Course, folder: Path, assignment: str, student: str) -> None:
    """Create what `collect` would: the student's folder, with recorded runs, and the time of submission."""
    target = course.folder("submitted", student, assignment)
    shutil.copytree(folder, target)
    (target / "timestamp.txt").write_text(datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))


def table(
    expected: dict[Work, dict[str, float]],
    got: dict[Work, dict[str, tuple[float | None, float]]],
    course: Course,
) -> list[str]:
    """Print expected and obtained points; return the submissions with any difference."""
    wrong = []
    say(f"\n  {'assignment':28}{'student':16}{'expected':>9}{'got':>6}{'of':>5}")
    for (assignment, student), want in expected.items():
        scores = got[assignment, student]
        total = [sum(want.values()), sum(score or 0 for score, _ in scores.values())]
        most = sum(points for _, points in scores.values())
        manual = sum(points for score, points in scores.values() if score is None)
        note = f"  {manual:g} need manual grading" if manual else ""
        say(f"  {assignment:28}{student:16}{total[0]:9g}{total[1]:6g}{most:5g}{note}")
        differ = [check for check, (score, _) in scores.items() if (score or 0) != want.get(check, 0)]
        if differ:
            graded = course.folder("autograded", student, assignment)
            names = ", ".join(differ)
            wrong.append(
                f"{student}, {assignment}: unexpected points for {names}; see the checks in {graded}"
            )
    return wrong


def replayed(course: Course, graded: Collection[Work]) -> list[str]:
    """Print how many recorded runs grading replayed, and return an error for each submission without any."""
    wrong, submitted = [], False
    for assignment, student in graded:
        handed_in = course.folder("submitted", student, assignment) / "runs"
        runs = [run.name for run in handed_in.glob("*") if run.is_dir()]
        if not runs:
            continue
        submitted = True
        replays = shown(course.folder("autograded", student, assignment)).count("not run again")
        if replays:
            say(f"  {student}, {assignment}: {len(runs)} recorded runs submitted, {replays} of them replayed")
        else:
            wrong.append(f"{student}, {assignment}: grading ran the jobs instead of replaying {sorted(runs)}")
    if graded and not submitted:
        wrong.append("no recorded runs were submitted, because there are none next to the notebooks")
    return wrong


def outputs(folder: Path) -> Iterator[tuple[NotebookNode, NotebookNode]]:
    """Yield (cell, output) for all outputs of the notebooks in a folder."""
    import nbformat

    for path in sorted(folder.glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for output in cell.get("outputs", ()):
                yield cell, output


def shown(folder: Path) -> str:
    """Return the printed output of the notebooks in a folder."""
    return "".join(output.get("text", "") for _, output in outputs(folder))


def training_curve(folder: Path, private: Path) -> Path:
    """Return the figure that the student's notebook drew from the metrics of its jobs, as a PNG file."""
    for cell, output in outputs(folder):
        if ".metrics()" in cell.source and "image/png" in output.get("data", {}):
            png = private / "training_curve.png"
            png.write_bytes(base64.b64decode(output.data["image/png"]))
            return png
    raise CourseError(f"no cell of the notebooks in {folder} drew a figure from a job's metrics()")
