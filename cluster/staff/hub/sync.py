"""Synchronise Unix users, hub, gradebook and Slurm with the roster: new people, departures, changed roles."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cluster.system import files

from . import course_files, daemons, environment, slurm_accounts, users
from . import state as states
from .api import Api
from .hub_settings import HubError, Settings
from .roster import Person, read_people

KEPT = states.ROSTER


def sync(state: Path, settings: Settings, people: list[Person], say: Callable[[str], None]) -> list[str]:
    """Apply the roster everywhere and return a description of the changes. The hub must be running."""
    api = Api(settings, daemons.tokens(state, settings)["sync"])
    api.users()  # check that the hub answers before anything is changed
    changed = unix(state, settings, people)
    if settings.lti:
        settings.lti.enrol(state, {p.called: {"user": p.user, "role": p.role} for p in people})
    changed += api.apply(people)
    changed += gradebook(state, settings, people)
    if settings.slurm != "none":
        if settings.slurm == "machine":  # after the Unix users, whose IDs Slurm stores
            slurm_accounts.start_for(state, settings, people, lambda line: None)
        changed += slurm_accounts.apply_roster(state, settings, people)
    for line in changed:
        say(f"    {line}")
    return changed


def check_departures(state: Path, people: list[Person]) -> None:
    """Raise HubError if a roster removes too many people, because it may be truncated."""
    if not people:
        raise HubError("The roster is empty, so everyone would be locked out. Nothing was changed.")
    if not (state / KEPT).exists():
        return
    last, users_now = read_people(state / KEPT), {p.user for p in people}
    gone = [p.user for p in last if p.user not in users_now]
    instructors = [any(p.role == "instructor" for p in some) for some in (last, people)]
    if len(gone) > max(5, len(last) // 10) or instructors == [True, False]:
        who = f"{len(gone)} of {len(last)} people ({', '.join(gone[:10])}{', …' if gone[10:] else ''})"
        none = " and names no instructor" if instructors == [True, False] else ""
        raise HubError(
            f"This roster removes {who}{none}; they would be logged out at once. Nothing was changed. If "
            "this is intended, use --yes (with make: HUB_ARGS=--yes)."
        )


def unix(state: Path, settings: Settings, people: list[Person]) -> list[str]:
    """Create missing users, lock those who have left, and link the course in each home."""
    book, changes = states.accounts(state, settings), []
    if settings.grader in {p.user for p in people}:
        raise HubError(f"The roster contains {settings.grader!r}, which owns the gradebook.")
    for person in people:
        if book.ensure(person):
            changes.append(f"{person.user}: a new Unix user, password in {book.passwords}")
        home = Path(pwd.getpwnam(person.user).pw_dir)
        users.acting(person.user, partial(_link, home, state, settings))
    course_files.people(state, settings, people)
    instructors = [person.name for person in people if person.role == "instructor"]
    files.write_json(state / "etc" / "instructors.json", instructors, mode=0o644)
    gone = sorted(book.all().keys() - {p.user for p in people} - {settings.grader})
    locked = [user for user in gone if book.lock(user)]
    if gone:
        states.end_users(gone)
    return changes + [f"{user}: locked, the home is kept" for user in locked]


def gradebook(state: Path, settings: Settings, people: list[Person]) -> list[str]:
    """Add the students, with names and extensions, to nbgrader's gradebook."""
    rows = [
        {"user": p.user, "first": p.names[0], "last": p.names[1], "days": p.extension}
        | {"role": p.role, "platform": p.platform, "section": p.section}
        for p in people
    ]
    result = grader(state, settings, ["-m", "cluster.staff.hub.enrol"], json.dumps(rows))
    if result.returncode:
        raise HubError(f"The gradebook was not updated from the roster:\n{result.stderr[-800:]}")
    return json.loads(result.stdout.splitlines()[-1])


def grader(state: Path, settings: Settings, words: list[str], given: str = "") -> subprocess.CompletedProcess:
    """Run this hub's Python as the grader, in the course's root."""
    root, python = users.course_root(settings.grader), environment.python(state)
    env = {"PATH": f"{python.parent}:/usr/bin:/bin", "LANG": "C.UTF-8", "TF_CPP_MIN_LOG_LEVEL": "3"}
    env |= {
        "HOME": pwd.getpwnam(settings.grader).pw_dir,
        "PYTHONPATH": str(root),
        "CLUSTER_STATE": str(state.parent),
    }
    command = [*users.command_prefix(settings.grader), str(python), *words]
    return subprocess.run(command, cwd=root, env=env, input=given, capture_output=True, text=True)


def keep(state: Path, roster: Path) -> None:
    """Copy the roster, which remains the administrator's file, for a `start` without a roster."""
    if roster != state / KEPT:
        files.write(state / KEPT, roster.read_text(encoding="utf-8-sig"), mode=0o600)


def _link(home: Path, state: Path, settings: Settings) -> None:
    """Create the course's folder in a home, with a link to the files that students may read."""
    folder = home / settings.folder
    folder.mkdir(mode=0o700, exist_ok=True)
    link = folder / "course"
    if other := states.other_hub(link, state):
        raise HubError(
            f"{link} leads to the hub in {other}. Purge that hub, or set another `folder` in the settings."
        )
    if link.is_symlink() and os.readlink(link) != str(state / "course"):
        link.unlink()
    if not os.path.lexists(link):
        link.symlink_to(state / "course")
