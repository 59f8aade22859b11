"""nbgrader's steps as function calls in one process: generate, autograde, give feedback, read the scores.

They run with nbgrader_config.py of the course root, so that they do what nbgrader's own commands do there.
With `private` another folder than .grading/ the instructor's gradebook is not touched.
"""

import contextlib
import fcntl
import gc
import logging
import os
import shutil
import sys
import warnings
from pathlib import Path


class CourseError(Exception):
    """A step of nbgrader failed; the message holds what it said last and where the whole log lies."""


def find_root(start=None):
    """The course root: the nearest folder from here upwards that holds nbgrader_config.py."""
    here = Path(start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "nbgrader_config.py").exists():
            return folder
    raise CourseError(f"no nbgrader_config.py in {here} or above it: run this inside the course's repository")


def assignments(root, wanted=None):
    """Names of the assignments (folders of solutions/ with a text twin), or the one that `wanted` begins.

    A number may lack its zero: 1 is 01. Raises CourseError where none, or more than one, begins so.
    """
    found = sorted({twin.parent.name for twin in (root / "solutions").glob("*/*.py")})
    if wanted is None:
        return found
    start = wanted.zfill(2) if wanted.isdecimal() else wanted
    chosen = [name for name in found if name.startswith(start)]
    if len(chosen) != 1:
        said = f"begins {' and '.join(chosen)}" if chosen else "is no assignment"
        raise CourseError(f"{wanted!r} {said}; there are {', '.join(found) or 'none'}")
    return chosen


class Course:
    """The course at `root`, with its private files under `private` (default: .grading/ of the root)."""

    def __init__(self, root, private=None, **directories):
        from nbgrader.coursedir import CourseDirectory
        from traitlets.config import PyFileConfigLoader

        self.root = Path(root)
        self.private = Path(private or self.root / ".grading")
        self.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        # nbgrader starts `alembic` by name, so the environment of this Python must be on the path.
        here = str(Path(sys.executable).parent)
        if here not in os.environ.get("PATH", "").split(os.pathsep):
            os.environ["PATH"] = os.pathsep.join([here, os.environ.get("PATH", os.defpath)])
        self.log_file = self.private / "nbgrader.log"
        self.config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        settings = self.config.CourseDirectory
        if private:
            # nbgrader joins these to the root; an absolute folder stays what it is.
            settings.submitted_directory = str(self.private / "submitted")
            settings.autograded_directory = str(self.private / "autograded")
            settings.feedback_directory = str(self.private / "feedback")
            settings.db_url = f"sqlite:///{self.private}/gradebook.db?timeout=60"
        for name, path in directories.items():
            settings[name] = str(path)
        self.coursedir = CourseDirectory(config=self.config)

    def folder(self, step, student, assignment):
        """Where nbgrader keeps `step` ("submitted", "autograded", "feedback") of one student's assignment."""
        return Path(
            self.coursedir.format_path(getattr(self.coursedir, f"{step}_directory"), student, assignment)
        )

    def generate(self, assignment):
        """Write the release of one assignment and put its cells and hidden tests into the gradebook."""
        from nbgrader.converters import GenerateAssignment

        self._run(GenerateAssignment, assignment, ".")

    def autograde(self, assignment, student):
        from nbgrader.converters import Autograde

        self._run(Autograde, assignment, student)

    def feedback(self, assignment, student):
        """Write the feedback as HTML; returns its paths."""
        from nbgrader.converters import GenerateFeedback
        from traitlets.config import Config

        extra = Config(HTMLExporter={"template_name": "feedback"})
        self._run(GenerateFeedback, assignment, student, extra)
        return sorted(self.folder("feedback", student, assignment).glob("*.html"))

    def give(self, step, assignment, student="*"):
        """Run a step of nbgrader's exchange, such as ExchangeReleaseFeedback."""
        self._run(step, assignment, student)

    def scores(self, assignment, student):
        """{check: (points got, points to get)} of one graded submission, in the order of the notebook."""
        from nbgrader.api import Gradebook

        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as book:
            submission = book.find_submission(assignment, student)
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            return {grade.name: (grade.score, grade.max_score) for grade in grades}

    def _run(self, step, assignment, student, extra=None):
        handler = logging.FileHandler(self.log_file)
        log = logging.getLogger("traitlets")
        level, propagate, start = log.level, log.propagate, self.log_file.stat().st_size
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
        self.coursedir.assignment_id, self.coursedir.student_id = assignment, student
        try:
            with warnings.catch_warnings(), quiet_stderr(self.log_file):
                warnings.simplefilter("ignore")  # nbgrader 0.9.6 warns of its own use of datetime.utcnow
                converter = step(coursedir=self.coursedir, config=self.config)
                if extra:
                    converter.update_config(extra)
                converter.force = True
                try:
                    converter.start()
                finally:
                    del converter
                    gc.collect()  # nbgrader leaves its kernels' sockets open; found later, they would warn
        except (Exception, SystemExit) as error:
            said = self.log_file.read_bytes()[start:].decode(errors="replace").splitlines()
            who = "" if student == "." else f", student {student}"
            words = telling(said) or [f"{type(error).__name__}: {error}"]
            lines = "\n  ".join([f"nbgrader's {step.__name__} failed for {assignment}{who}:", *words])
            raise CourseError(f"{lines}\nThe whole log: {self.log_file}") from error
        finally:
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate
            handler.close()


def telling(log):
    """The lines of nbgrader's log that say what went wrong: the notebook's own error, or the last lines."""
    for i, line in enumerate(log):
        if line.startswith("Runtime error from the kernel"):
            return log[i : i + 3]  # the exception's name and message follow; then comes a long traceback
    return log[-25:]


@contextlib.contextmanager
def quiet_stderr(log_file):
    """Send what this process and its kernels write to stderr into `log_file` instead."""
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
def alone(place):
    """An empty private folder for one run of a command; a second run at the same time is refused."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(place.with_name(place.name + ".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CourseError(
                f"{place} is in use by another run of this command; wait until it ends"
            ) from None
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700)
        yield place


def say(*words, **how):
    """Progress goes to the terminal at once, also through a pipe."""
    print(*words, **how, flush=True)
