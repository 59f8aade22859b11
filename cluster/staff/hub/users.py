"""Unix users for the roster. Missing ones are created, and only these are ever locked or removed."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cluster.system import files

from . import environment
from .hub_settings import HubError
from .roster import Person

LOWEST, NOBODY = 1000, 65534  # lowest ID of an ordinary user, and the ID of `nobody`
SHADOW, EXPIRES, LOCKED = Path("/etc/shadow"), 7, "1"  # file, its field for the expiry day, a past day
T = TypeVar("T")
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters that look like digits


class Accounts:
    """The users created here, with their IDs: accounts.json in the state folder."""

    def __init__(self, state: Path, homes: Path):
        self.path, self.homes = state / "accounts.json", homes
        self.passwords = state / "passwords.csv"

    def all(self) -> dict[str, int | None]:
        """Return {user: ID}, with None for an interrupted creation."""
        return files.read_json(self.path) or {}

    def ensure(self, person: Person, password: bool = True) -> bool:
        """Create a missing user, or unlock one that was locked here; return whether it is new."""
        there, mine = unix_user(person.user), self.all()
        if there and person.user not in mine:
            if is_system(person.user):
                raise HubError(
                    f"The roster names {person.user!r}, a user of the system: choose another name."
                )
            return False
        if there and mine[person.user] is not None:
            self._same(person.user, there)
            if is_locked(person.user):
                _do("usermod", "--expiredate", "", person.user)
            return False
        self._note(mine | {person.user: None})  # recorded before creation, to resume after an interruption
        if not there:
            home = self.homes / person.user
            command = [
                "--create-home",
                "--home-dir",
                str(home),
                "--shell",
                "/bin/bash",
                "--comment",
                person.name,
            ]
            _do("useradd", "--user-group", *command, person.user)
            home.chmod(0o700)
        if password:
            self._password(person)
        self._note(mine | {person.user: pwd.getpwnam(person.user).pw_uid})
        return True

    def lock(self, user: str) -> bool:
        """Keep user and home, but prevent logins. Return False if already locked or not created here."""
        there = unix_user(user)
        if there is None or user not in self.all() or is_locked(user):
            return False
        self._same(user, there)
        _do("usermod", "--expiredate", LOCKED, user)
        return True

    def remove(self) -> list[str]:
        """Remove the users created here, with their homes."""
        gone = []
        for user, number in self.all().items():
            there = unix_user(user)
            if there and number in (None, there.pw_uid):
                _do("userdel", user)
                gone.append(user)
            shutil.rmtree(self.homes / user, ignore_errors=True)
            self._note({name: n for name, n in self.all().items() if name != user})
        return gone

    def _same(self, user: str, there: pwd.struct_passwd) -> None:
        if there.pw_uid != self.all()[user]:
            raise HubError(
                f"The user {user!r} was created here with the user ID {self.all()[user]} but now has "
                f"{there.pw_uid}, so it has been recreated. Remove its line from {self.path} to use it "
                "unchanged."
            )

    def _password(self, person: Person) -> None:
        word = "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))
        _do("chpasswd", given=f"{person.user}:{word}\n")
        old = self.passwords.read_text() if self.passwords.exists() else "user,password\n"
        kept = [line for line in old.splitlines() if not line.startswith(f"{person.user},")]
        files.write(self.passwords, "\n".join([*kept, f"{person.user},{word}"]) + "\n", mode=0o600)

    def _note(self, accounts: dict[str, int | None]) -> None:
        files.write_json(self.path, accounts, mode=0o600)


def is_system(user: str) -> bool:
    """Return whether this user exists and is one of the system's own."""
    there = unix_user(user)
    return there is not None and (there.pw_uid < LOWEST or there.pw_uid == NOBODY)


def is_locked(user: str) -> bool:
    """Return whether `Accounts.lock` has expired the account. Called for all users, so it runs no command."""
    entries = (line.split(":") for line in SHADOW.read_text().splitlines())
    return any(entry[0] == user and entry[EXPIRES : EXPIRES + 1] == [LOCKED] for entry in entries)


def unix_user(user: str) -> pwd.struct_passwd | None:
    """Return the machine's passwd entry of a user, or None."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(user)
    return None


def acting(user: str, work: Callable[[], T]) -> T:
    """Return the result of `work()` (plain data), run as that user, so that root does not follow others'
    links. Raises HubError if it fails."""
    who = pwd.getpwnam(user)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(out)
            os.setgroups([])
            os.initgroups(user, who.pw_gid)
            os.setgid(who.pw_gid)
            os.setuid(who.pw_uid)
            os.umask(0o077)
            answer: dict[str, Any] = {"value": work()}
        except BaseException as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        with open(into, "w") as f:
            json.dump(answer, f)
        os._exit(0)
    os.close(into)
    with open(out) as f:
        text = f.read()
    os.waitpid(child, 0)
    answer = json.loads(text or '{"error": "it ended without a message"}')
    if "error" in answer:
        raise HubError(f"As the user {user}: {answer['error']}")
    return answer["value"]


def command_prefix(user: str) -> list[str]:
    """Return the prefix of a command that runs as another user."""
    who = pwd.getpwnam(user)
    return ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--init-groups", "--"]


def course_root(grader: str) -> Path:
    """Return the course in the grader's home."""
    return Path(pwd.getpwnam(grader).pw_dir) / "course"


def run_as_grader(
    state: Path, grader: str, words: list[str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the Python of the hub in `state` as the grader, in the course's root."""
    root, python = course_root(grader), environment.python(state)
    env = {"PATH": f"{python.parent}:/usr/bin:/bin", "LANG": "C.UTF-8", "TF_CPP_MIN_LOG_LEVEL": "3"}
    env |= {"HOME": str(root.parent), "PYTHONPATH": str(root), "CLUSTER_STATE": str(state.parent)}
    command = [*command_prefix(grader), str(python), *words]
    return subprocess.run(command, cwd=root, env=env, input=given, capture_output=True, text=True)


def _do(*command: str, given: str = "") -> None:
    result = subprocess.run(command, input=given, capture_output=True, text=True)
    if result.returncode:
        raise HubError(f"{' '.join(command)}: {(result.stderr or result.stdout).strip()}")
