"""Place the course: lectures and package for students, read-only, and the whole root for the grader."""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import json
import os
import pwd
import re
import shutil
import time
from pathlib import Path

from cluster.system import files

from .hub_settings import HubError, Settings
from .roster import Person
from .users import acting

GRADERS = (
    "solutions/**/*",
    "exercises/**/*",
    "lectures/**/*",
    "cluster/**/*",
    "tests/wrong_solutions/*.toml",
    "autotests.yml",
    "nbgrader_config.py",
    "pyproject.toml",
    "constraints.txt",
    "LICENSE*",
)
SKIPPED = {"__pycache__", ".ipynb_checkpoints", ".nbgrader.log"}
NOT_FOR_READING = {
    "exercises",
    "pyproject.toml",
    "constraints.txt",
    "environment.yml",
}  # fetched, or for make
MANIFEST = ".placed.json"
SITE = "nbgrader_site.py"
PASSWORD = "To change your password, run `passwd` in a terminal (menu *File*, *New*)."
LINK = "To log in, open the course's link on the learning platform, which also shows your scores."
README = """\
# From Convolution to Cluster

- `lectures/`: open a lecture and run it, cell by cell. This folder is read-only. To keep your changes, press
  *Make my copy* on the start page (menu *Course*). `lectures/GLOSSARY.md` explains the terms.
- {log_in}
- The start page fetches assignments into `assignments/`. Their notebooks have the buttons *Validate* (runs
  the visible tests, as often as you like), *Check* (shows the current points, including hidden tests, a few
  times per hour) and *Submit*, which ends with a receipt.
- `cluster/` is the package that notebooks import.
"""


def check(root: Path) -> None:
    """Raise HubError if a folder is not the course, before anything is replaced."""
    needed = ("nbgrader_config.py", "solutions", "lectures", "cluster/__init__.py")
    if absent := [name for name in needed if not (root / name).exists()]:
        raise HubError(f"{root} is not the course's repository: it has no {', '.join(absent)} (--course).")
    if all(folder.stat().st_mode & 0o001 for folder in (root, *root.parents)):
        raise HubError(
            f"Every user of this machine can enter {root}, so students could read {root}/solutions. "
            f"Remove this access (chmod o-rwx '{root}') and run the same command again."
        )


def students(root: Path, state: Path, settings: Settings) -> bool:
    """Update state/course to the files of the course at `root` that students may see. Returns True if it has
    changed.

    Raises HubError if it would contain solutions or hidden tests.
    """
    from ..release import student_files, student_folder

    chosen = [p for p in student_files.chosen(root, settings.after or None) if _read(root, p)]
    readme = README.format(log_in=LINK if settings.lti else PASSWORD)
    texts = {str(p.relative_to(root)): p.read_bytes() for p in chosen} | {"README.md": readme.encode()}
    target, new = state / "course", state / "course.new"
    if _hashes(texts) == _manifest(target):
        return False
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o755)
    for name, data in texts.items():
        path = new / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o644)
    if leaks := student_folder.leaks(root, new, settings.after or None):
        shutil.rmtree(new)
        raise HubError("Students would see confidential files:\n  " + "\n  ".join(leaks))
    (new / MANIFEST).write_text(json.dumps(_hashes(texts)))
    compileall.compile_dir(new, quiet=2, stripdir=str(new), prependdir=str(target))
    files.replace_folder(new, target)
    return True


def grader(root: Path, course: Path, settings: Settings, site: str) -> tuple[list[str], bool]:
    """Update the grader's copy. Return edited files, which are kept, and whether the course has changed.

    site: text of nbgrader_site.py.
    """
    paths = sorted(
        {p for pattern in GRADERS for p in root.glob(pattern) if p.is_file() and not p.is_symlink()}
    )
    chosen = [p for p in paths if not SKIPPED & set(p.relative_to(root).parts) and p.suffix != ".pyc"]
    texts = {str(p.relative_to(root)): p.read_bytes() for p in chosen} | {SITE: site.encode()}
    moved = _manifest(course) != _hashes(texts)
    return acting(settings.grader, lambda: update(course, texts)), moved


def free(course: Path, state: Path, user: str) -> None:
    """Raise HubError if the course of a user who was not created here belongs to another hub."""
    site, own = course / SITE, f'"{state}/exchange"'
    if not (course / MANIFEST).exists() or not site.exists() or own in site.read_text():
        return
    match = re.search(r'Exchange\.root = "(.+)/exchange"', site.read_text())
    raise HubError(
        f"The user {user!r} is used by another hub{f' at {match[1]}' if match else ''}, whose solutions "
        f"and gradebook are in {course}. Set grader = '…' in the settings to an unused name (or, if that "
        f"hub no longer exists, move {course} away)."
    )


def update(course: Path, texts: dict[str, bytes]) -> list[str]:
    """Write new files. Files that were changed in the folder are kept, and their names returned."""
    course.mkdir(mode=0o700, parents=True, exist_ok=True)
    known, new, kept = _manifest(course), _hashes(texts), []
    for name in [*texts, *(known.keys() - texts.keys())]:
        path = course / name
        there = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        if there == new.get(name):
            continue
        if there not in (None, known.get(name)):
            kept.append(name)
        elif name not in texts:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write(path, texts[name])
    files.write(course / MANIFEST, json.dumps(new))
    return sorted(kept)


def exchange(state: Path, settings: Settings, course: str) -> None:
    """Create nbgrader's exchange, writable for all; sticky bits protect folders from other users."""
    for path, owner, mode in exchange_folders(state, settings, course):
        path.mkdir(exist_ok=True)
        shutil.chown(path, owner, owner)
        path.chmod(mode)
    remove_cut_off(state / "exchange" / course / "inbound")


def remove_cut_off(inbound: Path, age: float = 86400) -> None:
    """Remove files left by killed submissions: copies that have no name yet, older than `age` seconds.

    The student's next submission removes them, too (`cluster.pages.nbgrader_submit`).
    """
    for path in inbound.glob(".*.partial"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > age:
                shutil.rmtree(path)  # never a link, nor through a link


def exchange_folders(state: Path, settings: Settings, course: str) -> list[tuple[Path, str, int]]:
    """Return (folder, owner, mode) for each folder of the exchange."""
    root, owner = state / "exchange", settings.grader
    inside = (("", 0o755), ("inbound", 0o1733), ("outbound", 0o755), ("feedback", 0o711))
    return [(root, "root", 0o1777), *((root / course / name, owner, mode) for name, mode in inside)]


def exchange_troubles(state: Path, settings: Settings, course: str) -> list[str]:
    """Describe the exchange's folders that differ from those of `exchange` and could lock users out."""
    result = []
    for path, owner, mode in exchange_folders(state, settings, course):
        if not path.is_dir():
            result.append(f"{path} does not exist")
        elif (has := path.stat().st_mode & 0o7777) != mode:
            result.append(f"{path} has mode {has:04o} instead of {mode:04o}")
        elif path.owner() != owner:
            result.append(f"{path} belongs to {path.owner()} instead of {owner}")
    return result


def people(state: Path, settings: Settings, everybody: list[Person]) -> None:
    """Create a folder for each person, shared by that person and the grader and closed to all others.

    The grader writes messages for this person there and, if the course has enabled it, the person's server
    writes the progress. Raises HubError if the grader's group would give others access.
    """
    root, grader = state / "people", pwd.getpwnam(settings.grader)
    root.mkdir(exist_ok=True)
    root.chmod(0o711)
    for person in everybody:
        who = pwd.getpwnam(person.user)
        if person.role != "instructor" and grader.pw_gid in os.getgrouplist(person.user, who.pw_gid):
            raise HubError(
                f"{person.user} is in the group of {settings.grader} ({grader.pw_gid}), and could read "
                f"other people's files. Give {settings.grader} a separate group (usermod -g)."
            )
        own = root / person.user
        own.mkdir(mode=0o700, exist_ok=True)
        os.chown(own, who.pw_uid, grader.pw_gid)
        own.chmod(0o2770)
        if not settings.progress:
            with contextlib.suppress(OSError):
                (own / "progress.json").unlink()


def _read(root: Path, path: Path) -> bool:
    inside = path.relative_to(root)
    return inside.parts[0] not in NOT_FOR_READING and inside != Path("cluster/setup.sh")


def _hashes(texts: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(texts.items())}


def _manifest(folder: Path) -> dict[str, str]:
    return files.read_json(folder / MANIFEST) or {}
