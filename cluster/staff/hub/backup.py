"""Backup of gradebook, submissions, grades and feedback into one file, and restoring it.

Collecting trusts the time of the last change according to the file system, which no backup can restore.
Therefore `backup` collects first, which stores the true time of each submission in the grader's folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import itertools
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from cluster.system import files, processes
from cluster.system.settings import given

from .. import services, work_files
from ..services import Say, step
from . import COURSE, course_files, daemons, users
from . import state as states
from .hub_settings import HubError, Settings
from .roster import read_people

FORMAT = 1
BOOK = "gradebook.db"
OURS = ("outbound", "feedback")  # the parts of the exchange that the grader writes


def write_backup(state: Path, settings: Settings, file: Path, say: Say = print, wait: float = 0) -> None:
    """Write `file` (.tar.gz, readable only by root). The hub may be running and in use. A running `grade run`
    has `wait` minutes to end, otherwise HubError is raised; meanwhile no other grading starts."""
    private, exchange = users.course_root(settings.grader) / ".grading", state / "exchange" / COURSE
    if not file.parent.is_dir():
        raise HubError(f"{file.parent} is not a folder. Create it for root only (mkdir -m 700).")
    if file.exists():
        raise HubError(
            f"{file} exists already and may be your only good backup: choose another name. Nothing was done."
        )
    with contextlib.ExitStack() as last:
        _no_grading(private / "runs", wait, say, last)
        last.enter_context(states.locked(state, say))
        if why := gradebook_loss(state, settings):
            raise HubError(
                f"{why} A backup of it would only seem complete. Restore the last backup (restore FILE). "
                "No backup was written."
            )
        course_files.remove_cut_off(exchange / "inbound")
        with step("collecting submissions", say) as note:
            note("; ".join(_collect(state, settings, exchange)))
        with step(str(file), say):
            about = {"format": FORMAT, "time": time.time(), "inbound": _inbound(exchange / "inbound")}
            with (
                files.writing(file, mode=0o600, sync=True) as f,
                tarfile.open(fileobj=f, mode="w:gz") as tar,
            ):
                _text(tar, "backup.json", json.dumps(about, indent=1).encode())
                _text(tar, states.ROSTER, (state / states.ROSTER).read_bytes())
                _text(tar, *_book(state, settings, private))
                tar.add(private, "grading", filter=_kept)
                for name in OURS:
                    tar.add(exchange / name, f"exchange/{name}", filter=_kept)
                for line in _inbox(tar, exchange / "inbound", "exchange/inbound"):
                    say(f"    left out: {line}")
            noted = {"file": str(file), "time": time.time()}
            files.write_json(state / states.BACKED_UP, noted, mode=0o600)


def restore_backup(state: Path, settings: Settings, file: Path, say: Say = print) -> None:
    """Replace gradebook, submissions, scores and feedback by the contents of `file`.

    Previous files are kept as .grading.before-TIME. The exchange keeps later submissions for `grade collect`.
    """
    with states.locked(state, say):
        with _opened(file) as tar:
            about = _about(tar, file)
            book = _member(tar, about["book"]).read()
        if (about["book"] == BOOK) != (settings.database == "sqlite"):
            raise HubError(
                f"{file} contains the gradebook as {about['book']}, which does not fit database = "
                f"{settings.database.partition(':')[0]!r} of the settings. Nothing was changed."
            )
        running = _formgrader(state)
        processes.end(running)  # the hub starts it again
        root, exchange = users.course_root(settings.grader), state / "exchange" / COURSE
        before = root / time.strftime(".grading.before-%Y-%m-%dT%H%M%S")
        with step("submissions, scores and feedback", say), open(file, "rb") as f:
            users.acting(settings.grader, lambda: _replace(f, root, exchange, about, book, before))
        if about["book"] != BOOK:
            with step("gradebook", say):
                words = ["-qX", "-v", "ON_ERROR_STOP=1", "--single-transaction"]
                _postgresql(settings, "psql", words, book)
        processes.end(_formgrader(state))
        hub = services.process_ledger(state).all().get("hub")
        if running and processes.alive(hub):
            services.await_answer(daemons.services(settings, state)[0], hub, say)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(about["time"]))
    say(f"Restored to the state of {when}. The previous files are in {before}")


def _formgrader(state: Path) -> list[processes.Record]:
    """Return the process of Formgrader, without those that it has started."""
    return processes.with_environment(
        lambda process, env: (
            given("CLUSTER_HUB", env) == str(state) and "jupyterhub.singleuser" in process.cmdline()
        )
    )


def gradebook_loss(state: Path, settings: Settings) -> str:
    """Describe what the gradebook has lost: itself, students in the roster, or graded submissions; '' if
    nothing.

    A gradebook that is configured as a URL is not checked.
    """
    if settings.database != "sqlite" or not users.unix_user(settings.grader):
        return ""
    private, roster = users.course_root(settings.grader) / ".grading", state / states.ROSTER
    wanted = sum(p.role == "student" for p in read_people(roster)) if roster.exists() else 0
    students, graded, folders = users.acting(settings.grader, lambda: _counts(private))
    if students is None:
        return f"The gradebook {private / BOOK} is missing or cannot be read." if wanted else ""
    if students < wanted:
        return f"The gradebook {private / BOOK} has {students} students, but the roster has {wanted}."
    if folders and not graded:
        return f"The gradebook {private / BOOK} contains none of the {folders} graded submissions."
    return ""


def _counts(private: Path) -> tuple[int | None, int, int]:
    """Return numbers: students (None if unreadable) and submissions in the gradebook, and graded folders."""
    folders = len(list((private / "autograded").glob("*/*")))
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{private / BOOK}?mode=ro", uri=True, timeout=60)
        ) as book:
            students, graded = (
                book.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("student", "submitted_assignment")
            )
    except sqlite3.Error:
        return None, 0, folders
    return students, graded, folders


def _no_grading(runs: Path, wait: float, say: Say, stack: contextlib.ExitStack) -> None:
    """Hold the lock of each assignment's grading until `stack` ends. Raises HubError after `wait` minutes."""
    until = time.monotonic() + 60 * wait
    for path in sorted(runs.glob("*/lock")):
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        stack.callback(os.close, lock)
        announced = False
        while not _held(lock):
            reason = f"{path.parent.name} is being graded (process {os.pread(lock, 20, 0).decode() or '?'})"
            if time.monotonic() >= until:
                raise HubError(
                    f"{reason}, and a backup must not contain partial results. Try again later, or "
                    "set the minutes to wait, such as --wait 240. No backup was written."
                )
            if not announced:
                say(f"  {reason}; waiting up to {wait:g} minutes for grading to finish")
            announced = True
            time.sleep(1)


def _held(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _collect(state: Path, settings: Settings, exchange: Path) -> list[str]:
    """Collect every released assignment by the rules of `grade collect`, and return the messages."""
    lines = []
    for name in sorted(os.listdir(exchange / "outbound")):
        done = users.run_as_grader(state, settings.grader, ["-m", "cluster", "grade", "collect", name])
        lines += [(done.stdout or done.stderr).strip().splitlines()[0] if done.stdout + done.stderr else name]
    return lines or ["no assignment has been released"]


def _inbound(folder: Path) -> dict[str, dict]:
    """Return each inbound submission's owner and time, which an archive cannot preserve."""
    result = {}
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):
            about = entry.stat(follow_symlinks=False)
            result[entry.name] = {"owner": about.st_uid, "changed": about.st_ctime}
    return result


def _book(state: Path, settings: Settings, private: Path) -> tuple[str, bytes]:
    """Return (name in the archive, bytes) of a consistent snapshot of the gradebook, even during a write."""
    if settings.database != "sqlite":
        return "gradebook.sql", _postgresql(settings, "pg_dump", ["--clean", "--if-exists", "--no-owner"])
    copy = private / ".gradebook.copy"
    users.acting(settings.grader, lambda: _copy(private / BOOK, copy))
    try:
        return BOOK, copy.read_bytes()
    finally:
        copy.unlink()


def _postgresql(settings: Settings, program: str, options: list[str], given: bytes = b"") -> bytes:
    """Return the output of a program of PostgreSQL for the gradebook on the site's server."""
    if not shutil.which(program):
        raise HubError(
            f"{program} is missing for the gradebook on a PostgreSQL server: apt install postgresql-client"
        )
    url = str(settings.database_url("gradebook")).replace("+psycopg", "")
    result = subprocess.run([program, *options, url], input=given, capture_output=True, cwd="/")
    if result.returncode:
        raise HubError(f"{program}: {result.stderr.decode(errors='replace').strip()[-500:]}")
    return result.stdout


def _copy(book: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    reading, writing = sqlite3.connect(book, timeout=60), sqlite3.connect(copy)
    with contextlib.closing(reading) as old, contextlib.closing(writing) as new:
        old.backup(new)


def _kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Yield files and folders, except links and the gradebook, which may be in use."""
    name = Path(info.name).name
    kind = info.isreg() or info.isdir()
    return info if kind and not name.startswith((BOOK, ".gradebook.copy")) else None


def _inbox(tar: tarfile.TarFile, inbox: Path, name: str) -> list[str]:
    """Add the students' submitted folders that can be collected; return what is left out and why.

    Students may change them meanwhile: links are not followed, pipes not opened, files read as when opened.
    """
    left_out = []
    tar.add(inbox, name, recursive=False)
    for entry in sorted(os.scandir(inbox), key=lambda entry: entry.name):
        shown = ascii(entry.name)[1:-1]
        if not entry.is_dir(follow_symlinks=False):
            left_out.append(f"{shown}: not a folder")
            continue
        if _cannot_be_collected(Path(entry)):
            left_out.append(
                f"{shown}: more than {work_files.LARGEST // 2**20} MiB or {work_files.MOST} files, which "
                "cannot be collected either"
            )
            continue
        room = work_files.LARGEST
        for path, file in itertools.islice(_regular(Path(entry)), work_files.MOST):
            info = tar.gettarinfo(arcname=f"{name}/{path.relative_to(inbox)}", fileobj=file)
            with tempfile.TemporaryFile() as copy:  # has a fixed size even if the file grows meanwhile
                left = min(os.fstat(file.fileno()).st_size, room)
                while left > 0 and (block := file.read(min(left, 2**20))):
                    copy.write(block)
                    left -= len(block)
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", copy.tell()
                room -= info.size
                copy.seek(0)
                tar.addfile(info, copy)
    return left_out


def _cannot_be_collected(folder: Path) -> bool:
    """Return whether a file exceeds the limits of `collect`; holes in sparse files count in full."""
    entries = itertools.islice(_regular(folder), work_files.MOST + 1)
    sizes = [os.fstat(file.fileno()).st_size for _, file in entries]
    return len(sizes) > work_files.MOST or sum(sizes) > work_files.LARGEST


def _regular(folder: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield each regular file below a folder, opened; files that vanish or cannot be opened are skipped."""
    for root, folders, names, here in os.fwalk(folder):
        folders.sort()
        for name in sorted(names):
            with contextlib.suppress(OSError):
                number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
                with open(number, "rb") as file:
                    if stat.S_ISREG(os.fstat(number).st_mode):
                        yield Path(root, name), file


def _text(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
    tar.addfile(info, io.BytesIO(data))


def _opened(file: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(file, "r:gz")
    except (OSError, tarfile.TarError) as e:
        raise HubError(f"{file} is not a readable backup: {e}.") from None


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    """Return a file in the archive. Raises KeyError if it does not exist."""
    member = tar.extractfile(name)
    if member is None:
        raise KeyError(name)
    return member


def _about(tar: tarfile.TarFile, file: Path) -> dict[str, Any]:
    try:
        names = tar.getnames()  # reads it to the end, so that a truncated file is detected here
        about = json.load(_member(tar, "backup.json"))
        about["book"] = next(n for n in (BOOK, "gradebook.sql") if n in names)
    except (KeyError, StopIteration, EOFError, OSError, ValueError, tarfile.TarError) as e:
        raise HubError(
            f"{file} is not a complete backup of this hub: {e or 'it is truncated'}. Nothing was changed."
        ) from None
    if about["format"] != FORMAT:
        raise HubError(f"{file} has format {about['format']} instead of {FORMAT}. Nothing was changed.")
    return about


def _replace(f: BinaryIO, root: Path, exchange: Path, about: dict, book: bytes, before: Path) -> None:
    """Unpack next to the folder as the grader, then rename; the existing folder is kept as `before`."""
    new = root / ".grading.restored"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    with tarfile.open(fileobj=f, mode="r:gz") as tar:
        tar.extractall(new, filter="data")
    if about["book"] == BOOK:
        (new / "grading" / BOOK).write_bytes(book)
    for path in (new / "grading").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (new / "grading").chmod(0o700)
    if (root / ".grading").exists():
        (root / ".grading").rename(before)
    (new / "grading").rename(root / ".grading")
    for name in OURS:
        for entry in (new / "exchange" / name).iterdir():
            target = exchange / name / entry.name
            if not target.exists():
                shutil.move(entry, target)
                _open(target)
    inbox = root / ".grading" / "inbound-of-backup"
    inbox.mkdir(mode=0o700, exist_ok=True)  # already exists if the backup was made after a restore
    for entry in (new / "exchange/inbound").iterdir():
        if not (inbox / entry.name).exists():
            entry.rename(inbox / entry.name)
    shutil.rmtree(new)


def _open(path: Path) -> None:
    """Set the permissions of folders that students fetch from, as nbgrader does."""
    for p in [path, *path.rglob("*")]:
        p.chmod(0o755 if p.is_dir() else 0o644)
