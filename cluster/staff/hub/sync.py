"""Synchronise Unix users, hub (by its REST API), gradebook and Slurm with the roster."""

from __future__ import annotations

import json
import os
import pwd
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cluster.system import files

from .. import spreadsheet
from . import GROUPS, course_files, slurm_accounts, users
from . import state as states
from .hub_settings import HubError, Settings
from .roster import Person, read_people

STOPPING = 180.0  # maximum seconds for a server to stop; one that ignores signals takes 20 s
PAGE = 200  # users per response; the hub's maximum
PAGED = "application/jupyterhub-pagination+json"


class Api:
    """Calls to the REST API of a running hub. hub: its address. token: the token of its service `sync`."""

    def __init__(self, hub: str, token: str):
        self.base, self.token = f"{hub}/hub/api", token

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        missing: Any = None,
        accept: str = "application/json",
    ) -> Any:
        """Return the response, or None for a missing object. Raises HubError if the request is rejected."""
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        headers["Accept"] = accept
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as e:
            with e:
                if e.code == 404:
                    return None
                raise HubError(
                    f"The hub rejected {method} {path}: {e.code} {e.read().decode()[:300]}"
                ) from None
        except OSError as e:
            raise HubError(f"The hub does not answer at {self.base} ({e}). Start it again.") from None

    def users(self) -> list[dict[str, Any]]:
        """Return all users of the hub, page by page, because a response lists at most 200."""
        result: list[dict[str, Any]] = []
        offset: int | None = 0
        while offset is not None:
            page = self("GET", f"/users?offset={offset}&limit={PAGE}", accept=PAGED)
            result += page["items"]
            following = page["_pagination"]["next"]
            offset = following and following["offset"]
        return result

    def apply(self, people: list[Person]) -> list[str]:
        """Apply the roster to the hub's users and groups; return a description of the changes."""
        listed, changes = self.users(), []
        there = {user["name"]: set(user["groups"]) for user in listed}
        with_server = {user["name"] for user in listed if user["server"] or user["pending"]}
        if new := [p.user for p in people if p.user not in there]:
            self("POST", "/users", {"usernames": new})
        joining: dict[str, list[str]] = {}
        leaving: dict[str, list[str]] = {}
        changed_role = []
        for person in people:
            group = GROUPS[person.role]
            old = there.get(person.user, set()) & set(GROUPS.values())
            if old == {group}:
                continue
            joining.setdefault(group, []).append(person.user)
            for other in old - {group}:
                leaving.setdefault(other, []).append(person.user)
            changed_role += [person.user] * bool(old)
            changes.append(f"{person.user}: {'now ' if old else ''}{person.role}")
        for method, groups in (("DELETE", leaving), ("POST", joining)):
            for group, names in groups.items():
                self(method, f"/groups/{group}/users", {"users": names})
        for user in changed_role:
            self.end(user)  # so that the user's next server has the extensions of the new role
        for user in sorted(there.keys() - {p.user for p in people}):
            if user in with_server:
                self.end(user)
            self("DELETE", f"/users/{urllib.parse.quote(user)}")
            changes.append(f"{user}: removed from the hub")
        return changes

    def routes(self) -> None:
        """Have the hub tell a restarted proxy where each server listens."""
        self("POST", "/proxy")

    def end(self, user: str) -> None:
        """Stop a user's server, if one is running, and wait until it has ended. Raises HubError."""
        path, deadline = f"/users/{urllib.parse.quote(user)}", time.monotonic() + STOPPING
        self("DELETE", f"{path}/server")
        while (self("GET", path) or {}).get("pending"):
            if time.monotonic() >= deadline:
                raise HubError(
                    f"The server of {user} has not stopped within {STOPPING:.0f} s. Run the same command "
                    "again; if it fails again, kill that user's processes."
                )
            time.sleep(0.1)


def sync(
    api: Api, state: Path, settings: Settings, people: list[Person], say: Callable[[str], None]
) -> list[str]:
    """Apply the roster everywhere and return a description of the changes. The hub must be running."""
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
    if not (state / states.ROSTER).exists():
        return
    last, users_now = read_people(state / states.ROSTER), {p.user for p in people}
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
    words = ["-m", "cluster.staff.hub.enrol"]
    result = users.run_as_grader(state, settings.grader, words, json.dumps(rows))
    if result.returncode:
        raise HubError(f"The gradebook was not updated from the roster:\n{result.stderr[-800:]}")
    return json.loads(result.stdout.splitlines()[-1])


def keep(state: Path, roster: Path) -> None:
    """Copy the roster, which remains the administrator's file, for a `start` without a roster."""
    if roster != state / states.ROSTER:
        text = spreadsheet.decoded(roster.read_bytes(), str(roster))
        files.write(state / states.ROSTER, text, mode=0o600)


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
