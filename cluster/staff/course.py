"""nbgrader's steps as function calls in one process: generate, autograde, generate feedback, read scores.

They use nbgrader_config.py of the course root, like nbgrader's own commands there. With `private` in a folder
other than .grading/, the instructor's gradebook is not affected.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.system import files
from cluster.system.errors import ClusterError

if TYPE_CHECKING:
    from nbgrader.api import Gradebook
    from nbgrader.converters.base import BaseConverter
    from nbgrader.exchange.default import Exchange
    from traitlets.config import Config


class CourseError(ClusterError):
    """A command for the class failed, or was given invalid arguments."""


class SubmissionError(ClusterError):
    """A submission cannot be collected, read or graded. The message follows its folder's or file's name."""


def find_root(start: Path | str | None = None) -> Path:
    """Return the course root: the nearest folder from here upwards that contains nbgrader_config.py."""
    here = Path(start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "nbgrader_config.py").exists():
            return folder
    raise CourseError(f"no nbgrader_config.py in {here} or above it: run this inside the course's repository")


def assignments(root: Path, wanted: str | None = None) -> list[str]:
    """Return the names of the assignments (folders of solutions/ with a paired script), or the one that
    starts with `wanted`.

    Leading zeros may be omitted: 1 is 01. Raises CourseError unless exactly one matches.
    """
    names = sorted({twin.parent.name for twin in (root / "solutions").glob("*/*.py")})
    if wanted is None:
        return names
    start = wanted.zfill(2) if wanted.isdecimal() else wanted
    chosen = [name for name in names if name.startswith(start)]
    if len(chosen) != 1:
        problem = f"is ambiguous: it matches {' and '.join(chosen)}" if chosen else "is not an assignment"
        for path in sorted((root / "solutions").glob(f"{start}*/*.ipynb")):
            if not chosen:
                raise CourseError(
                    f"{path} has no script, and assignments are generated from scripts: write one with"
                    f" `python -m cluster grade adopt {path}`"
                )
        raise CourseError(f"{wanted!r} {problem}; there are {', '.join(names) or 'none'}")
    return chosen


class Course:
    """The course at `root`, with its private files under `private` (default: .grading/ of the root)."""

    def __init__(self, root: Path | str, private: Path | str | None = None, **directories: Path | str):
        import nbgrader.api
        from nbgrader.coursedir import CourseDirectory
        from traitlets.config import PyFileConfigLoader

        self.root = Path(root)
        self.private = Path(private or self.root / ".grading")
        self.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        nbgrader.api.get_alembic_version = newest_schema
        self.log_file = self.private / "nbgrader.log"
        self.config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        settings = self.config.CourseDirectory
        if private:
            # nbgrader joins these to the root; an absolute path stays unchanged.
            settings.submitted_directory = str(self.private / "submitted")
            settings.autograded_directory = str(self.private / "autograded")
            settings.feedback_directory = str(self.private / "feedback")
            settings.db_url = f"sqlite:///{self.private}/gradebook.db?timeout=60"
        for name, path in directories.items():
            settings[name] = str(path)
        self.coursedir = CourseDirectory(config=self.config)

    def folder(self, step: str, student: str, assignment: str) -> Path:
        """Return nbgrader's folder of a student's assignment; step: submitted, autograded or feedback."""
        return Path(
            self.coursedir.format_path(getattr(self.coursedir, f"{step}_directory"), student, assignment)
        )

    def generate(self, assignment: str, whole: bool = True, add: bool = False) -> None:
        """Write the release of one assignment and put its cells and hidden tests into the gradebook.

        whole: execute the solution to its end, to find all errors. Otherwise the same release is written, but
        cells below the last AUTOTEST directive are not executed. add: cells may be added although the
        assignment has been graded.
        """
        from nbgrader.converters import GenerateAssignment
        from nbgrader.preprocessors import InstantiateTests, SaveCells
        from traitlets.config import Config

        from .autotest_step import Instantiate, Save, SaveAll, UpToTheLast

        ours = {InstantiateTests: Instantiate if whole else UpToTheLast, SaveCells: SaveAll if add else Save}
        steps = GenerateAssignment(coursedir=self.coursedir, config=self.config).preprocessors
        steps = [ours.get(step, step) for step in steps]
        self._run(GenerateAssignment, assignment, ".", Config(GenerateAssignment={"preprocessors": steps}))

    def autograde(self, assignment: str, student: str) -> None:
        from nbgrader.converters import Autograde

        self._run(Autograde, assignment, student)

    def feedback(self, assignment: str, student: str) -> list[Path]:
        """Write the feedback as HTML and return its paths."""
        from nbgrader.converters import GenerateFeedback
        from traitlets.config import Config

        extra = Config(HTMLExporter={"template_name": "feedback"})
        self._run(GenerateFeedback, assignment, student, extra)
        return sorted(self.folder("feedback", student, assignment).glob("*.html"))

    def give(self, step: type[Exchange], assignment: str, student: str = "*") -> None:
        """Run a step of nbgrader's exchange, such as ExchangeReleaseFeedback."""
        self._run(step, assignment, student)

    def scores(self, assignment: str, student: str) -> dict[str, tuple[float | None, float]]:
        """Return {check: (points, maximum points)} of a graded submission, in the notebook's order."""
        from nbgrader.api import Gradebook

        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as book:
            submission = book.find_submission(assignment, student)
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            return {grade.name: (grade.score, grade.max_score) for grade in grades}

    def _run(
        self, step: type[BaseConverter | Exchange], assignment: str, student: str, extra: Config | None = None
    ) -> None:
        handler = logging.FileHandler(self.log_file)
        log = logging.getLogger("traitlets")
        level, propagate, start = log.level, log.propagate, self.log_file.stat().st_size
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
        self.coursedir.assignment_id, self.coursedir.student_id = assignment, student
        try:
            with (
                warnings.catch_warnings(),
                quiet_stderr(self.log_file),
                tempfile.TemporaryDirectory(prefix="kernel-") as sockets,
            ):
                warnings.simplefilter("ignore")  # nbgrader 0.9.6 warns about its own use of datetime.utcnow
                config = copy.deepcopy(self.config)
                # Not TCP: if two kernels start at once, one may take the other's port and fail.
                config.KernelManager.update(transport="ipc", ip=f"{sockets}/kernel")
                converter = step(coursedir=self.coursedir, config=config)
                if extra:
                    converter.update_config(extra)
                converter.force = True
                try:
                    converter.start()
                finally:
                    del converter
                    if (
                        student == "."
                    ):  # only generating runs kernels; their open sockets would cause warnings
                        gc.collect()
        except (Exception, SystemExit) as error:
            log_lines = self.log_file.read_bytes()[start:].decode(errors="replace").splitlines()
            who = "" if student == "." else f", student {student}"
            words = telling(log_lines) or [f"{type(error).__name__}: {error}"]
            lines = "\n  ".join([f"nbgrader's {step.__name__} failed for {assignment}{who}:", *words])
            raise CourseError(f"{lines}\nThe complete log is in {self.log_file}") from error
        finally:
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate
            handler.close()


def newest_schema() -> str:
    """Return the version of nbgrader's database schema that new databases are marked with.

    nbgrader runs the command `alembic` for this, a separate process per new database, which takes two seconds
    for imports alone and requires the environment's commands on the path.
    """
    from alembic.script import ScriptDirectory
    from nbgrader.dbutil import ALEMBIC_DIR

    return ScriptDirectory(ALEMBIC_DIR).get_current_head() or ""


def telling(log: list[str]) -> list[str]:
    """Return the lines of nbgrader's log that explain a failure: the notebook's error, or the last lines."""
    from .autotest_step import FAILED, REFUSED

    if refused := [line.removeprefix(REFUSED) for line in log if line.startswith(REFUSED)]:
        return refused[:1]
    for i, line in enumerate(log):
        if line.startswith("Runtime error from the kernel"):
            # the exception's name and message follow, and then a long traceback
            return [line for line in log if line.startswith(FAILED)] + log[i : i + 3]
    return log[-25:]


@contextlib.contextmanager
def quiet_stderr(log_file: Path) -> Iterator[None]:
    """Redirect stderr of this process and its kernels to `log_file`."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(log_file, "ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[Path]:
    """Create an empty private folder for one run of a command, and refuse a second run at the same time."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with files.lock(folder.with_name(folder.name + ".lock"), wait=False) as held:
        if not held:
            raise CourseError(f"{folder} is in use by another run of this command; wait until it ends")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        yield folder


def say(*parts: object, **how: Any) -> None:
    """Print progress at once, even through a pipe."""
    print(*parts, **how, flush=True)


def gradebook_error(error: Exception) -> str:
    """Return what a failing gradebook reports, and the remedy (sqlalchemy's DatabaseError)."""
    what, usual = str(getattr(error, "orig", error)).strip(), type(error).__name__ == "OperationalError"
    if usual and "no such" not in what:  # locked by another process, or a full disk
        return f"{what}. Nothing is lost. Fix this and run the command again"
    return (
        f"the gradebook is damaged ({what}). The verdicts are stored elsewhere: make it again from them with"
        " `python -m cluster grade rebuild`, which keeps the damaged file, or restore the last backup"
    )


def opened(course: Course) -> Gradebook:
    """Open nbgrader's database of a course, as a context manager."""
    from nbgrader.api import Gradebook

    return Gradebook(course.coursedir.db_url, course.coursedir.course_id)


def scored(
    root: Path | str, assignment: str, private: Path | str | None = None
) -> dict[str, tuple[float, float]]:
    """Return {student: (points, maximum)} from nbgrader's database, without late penalties."""
    with opened(Course(root, private)) as book:
        submissions = book.assignment_submissions(assignment)
        return {row.student_id: (row.score, row.max_score) for row in submissions}
