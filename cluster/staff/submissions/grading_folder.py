"""The grading folder of an assignment, shared by coordinator and workers: prepared submissions and
verdicts.

All writes are atomic.

    <runs>/secret                                 32 random bytes of the course: see `GradingFolder.seed`
    <runs>/<assignment>/lock                      held by the coordinator
    <runs>/<assignment>/items/<student>/<key>/    prepared.ipynb, files/, item.json; at the end verdict.json
    <runs>/<assignment>/items/<student>/recorded.json   which results of the student are in the gradebook
    <runs>/<assignment>/dispatches/<id>/          plan.json: who works on what; a worker stops when it is gone
    <runs>/<assignment>/void.json                 names of checks that count as passed for everybody
    <runs>/<assignment>/journal.jsonl             resources used by the parts of a dispatch

The cache key of an item is a hash of everything that affects its verdict: the prepared notebook, its files,
the limits, the contents of a sandbox (the students' part of this package, all installed packages), and the
modules that a worker imports. A verdict therefore never has to be trusted: a changed notebook, file, check,
limit or version has a different key.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import importlib.metadata
import json
import os
import platform
import secrets
import shutil
import uuid
from collections.abc import Iterator
from functools import lru_cache
from modulefinder import ModuleFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cluster
from cluster.system import files

from ..course import CourseError
from ..release.student_files import package
from ..work_files import beside_notebook, copy_work

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from nbgrader.coursedir import CourseDirectory

    from .prepare import Submission

SECRET = 32  # bytes
CLUSTER = Path(cluster.__file__).parent
WORKER = "cluster.staff.grading.worker"  # all that runs in it can affect a verdict

MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE
)  # fmt: skip


Item = tuple[str, str]  # (student, key)


def write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, atomically even if the machine crashes."""
    files.write(path, text, mode=0o600, sync=True)


def load(path: Path | str) -> Any:
    """Return the JSON of a file, or None if it does not exist or cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def of_the_machine(error: BaseException) -> bool:
    """Return whether this failure would affect the next submission as well, such as a full disk."""
    return isinstance(error, OSError) and error.errno in MACHINE


def runs(coursedir: CourseDirectory) -> Path:
    """Return the folder <runs>, next to a course's graded notebooks; only its owner can enter it."""
    return Path(coursedir.format_path(coursedir.autograded_directory, "-", "-")).parents[2] / "runs"


class GradingFolder:
    """The folder of one assignment's grading."""

    def __init__(self, runs: Path | str, assignment: str):
        self.folder = Path(runs) / assignment
        self.items = self.folder / "items"
        self.dispatches = self.folder / "dispatches"
        for folder in (self.items, self.dispatches):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def item(self, student: str, key: str) -> Path:
        return self.items / student / key

    def verdict(self, student: str, key: str) -> dict[str, Any] | None:
        """Return the verdict of an item as plain data, or None."""
        data = load(self.item(student, key) / "verdict.json")
        return data["verdict"] if data and data.get("key") == key else None

    def again(self, student: str, key: str) -> str:
        """Return why an item must be graded again, or "". The verdict with the reason is removed."""
        verdict = self.verdict(student, key)
        if not verdict or verdict["outcome"] == "graded":
            return ""
        (self.item(student, key) / "verdict.json").unlink(missing_ok=True)
        return verdict["why"] or "the grading infrastructure failed"

    def prepared(self, student: str, key: str | None) -> NotebookNode | None:
        """Return the notebook that an item's verdict refers to, or None if it no longer exists."""
        import nbformat

        try:
            return nbformat.read(self.item(student, key) / "prepared.ipynb", as_version=4) if key else None
        except (OSError, ValueError):
            return None

    def recorded(self, student: str) -> dict[str, Any]:
        """Return the last facts written by `note` for a student, or {}."""
        return load(self.items / student / "recorded.json") or {}

    def note(self, student: str, facts: dict[str, Any]) -> None:
        """Record which of a student's results are in the gradebook: the submission's key or its problem."""
        (self.items / student).mkdir(mode=0o700, exist_ok=True)
        write(self.items / student / "recorded.json", json.dumps(facts))

    def void(self) -> list[str]:
        """Return the names of the checks that count as passed for all students."""
        return load(self.folder / "void.json") or []

    def journal(self, facts: dict[str, Any]) -> None:
        """Append an entry about the resources used for grading this assignment."""
        with open(self.folder / "journal.jsonl", "a", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(json.dumps(facts) + "\n")

    def stage(self, submission: Submission, key: str, source_files: dict[str, Path]) -> Path:
        """Write a worker's input for one submission atomically. Returns its folder."""
        import nbformat

        target = self.item(submission.student, key)
        if (target / "item.json").exists() and (target / "files").is_dir():
            return target
        target.parent.mkdir(mode=0o700, exist_ok=True)
        new = target.with_name(f".{key}.{os.getpid()}")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        copy_work(submission.files, new / "files", source_files)
        assert submission.notebook is not None
        submission.notebook.metadata["data"] = sorted(source_files)  # files that checks can read, too
        (new / "prepared.ipynb").write_text(nbformat.writes(submission.notebook), encoding="utf-8")
        facts = {"student": submission.student, "key": key, "name": submission.name}
        write(new / "item.json", json.dumps(facts | {"seed": self.seed(submission, source_files)}))
        files.replace_folder(new, target)
        return target

    def seed(self, submission: Submission, source_files: dict[str, Path]) -> int:
        """Return the seed of the hidden tests' inputs (checks/draws.py): the same until the student changes
        a cell or a file."""
        assert submission.notebook is not None
        facts = [self.folder.name, submission.student, theirs(submission.notebook)]
        digest = hmac.new(secret(self.folder.parent), json.dumps(facts).encode(), "sha256")
        add_files(digest, submission, source_files)
        return int.from_bytes(digest.digest()[:16])

    def tidy(self, student: str, key: str) -> None:
        """Remove older items and staged files, which are unused once a verdict is in the gradebook."""
        for old in (self.items / student).iterdir():
            if old.name != key and old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(self.item(student, key) / "files", ignore_errors=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of the assignment; raise CourseError if another coordinator holds it."""
        path = self.folder / "lock"
        with files.lock(path, wait=False) as held:
            if not held:
                raise CourseError(
                    f"{self.folder.name} is being graded by process {path.read_text().strip() or '?'}; "
                    "wait until it ends, or kill it (no results are lost)"
                )
            path.write_text(str(os.getpid()))
            yield


def key(submission: Submission, source_files: dict[str, Path], environment: dict[str, Any]) -> str:
    """Return the hash of a prepared submission: notebook, files, the assignment's files, the environment."""
    notebook = submission.notebook
    assert notebook is not None  # a submission without a notebook is not graded
    named = {*notebook.metadata.get("undrawn", ()), *notebook.metadata.get("measured", ())}
    # a restored cell has a new id each time
    cells = [
        dict(cell) | {"id": cell.get("id") if cell.get("id") in named else ""} for cell in notebook.cells
    ]
    about = {word: value for word, value in notebook.metadata.items() if word != "data"}  # see add_files
    whole = [environment, about, cells]
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode())
    add_files(digest, submission, source_files)
    return digest.hexdigest()[:32]


def add_files(digest: Any, submission: Submission, source_files: dict[str, Path]) -> None:
    """Add the names and contents of a submission's other files to a digest."""
    for name, path in sorted(beside_notebook(submission.files, source_files).items()):
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        digest.update(os.fsencode(name) + b"\0" + content)


def theirs(notebook: NotebookNode) -> list[tuple[str, str]]:
    """Return kind and source of the student's own cells."""
    cells = [cell for cell in notebook.cells if not cell.metadata.get("nbgrader", {}).get("locked")]
    return [(cell.cell_type, cell.source) for cell in cells]


def secret(runs: Path) -> bytes:
    """Return the secret of a course, the key of its seeds; the first call makes it. No sandbox has it.

    Raises CourseError if the file is damaged: another secret would give a regrade other inputs.
    """
    path = runs / "secret"
    if not path.exists():
        new = path.with_name(f".secret.{uuid.uuid4().hex}")
        files.write(new, secrets.token_bytes(SECRET), mode=0o600, sync=True)
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(new, path)
        new.unlink()
    found = path.read_bytes()
    if len(found) != SECRET:
        raise CourseError(
            f"{path} has {len(found)} bytes instead of {SECRET}: restore it from a backup. If there is none, "
            "remove it; submissions that are graded again then get other hidden inputs"
        )
    return found


def environment() -> dict[str, Any]:
    """Return all that affects a verdict besides the submission and the limits, as it is on disk now."""
    files = [path for path in CLUSTER.rglob("*") if "__pycache__" not in path.parts]
    return _environment(tuple((str(path), path.stat().st_mtime_ns) for path in files))


@lru_cache(1)
def _environment(files: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    """Return the versions of all packages, and the digest of the judging files of this one."""
    digest = hashlib.sha256()
    for path in judging():
        digest.update(f"{path.relative_to(CLUSTER)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    packages = {(package.name, package.version) for package in importlib.metadata.distributions()}
    return {"python": platform.python_version(), "packages": sorted(packages), "code": digest.hexdigest()}


def judging() -> list[Path]:
    """Return the files of this package that can affect a verdict: what a sandbox contains, the autograder's
    folder, and each module of staff that a worker or the autograder imports, anywhere in its code."""
    own = set((CLUSTER / "staff" / "engine").rglob("*.py"))
    others = [f"cluster.{path.stem}" for path in CLUSTER.iterdir() if path.stem not in ("__init__", "staff")]
    finder = ModuleFinder([str(CLUSTER.parent)], excludes=others)  # all of these are in a sandbox
    for path in sorted(own):
        parts = path.relative_to(CLUSTER.parent).with_suffix("").parts
        finder.import_hook(".".join(parts).removesuffix(".__init__"))
    finder.import_hook(WORKER)
    imported = {Path(found) for one in finder.modules.values() if (found := getattr(one, "__file__", None))}
    return sorted({*package(), *own, *imported})
