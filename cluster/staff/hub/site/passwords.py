"""The hub's page where an instructor can reset a student's password.

The hub, which runs as root, loads it as a separate file in the state folder, without importing this package.
"""

from __future__ import annotations

import asyncio
import json
import pwd
import secrets
from pathlib import Path
from typing import Any

from jupyterhub.auth import PAMAuthenticator
from jupyterhub.handlers.base import BaseHandler
from tornado.web import HTTPError, authenticated

PAGE = "/course/passwords"
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters that look like digits


def configure(c: Any, settings: dict[str, Any]) -> None:
    """Let people log in with their Unix passwords, and instructors give new ones."""
    given = {name: settings[name] for name in ("students", "instructors")}
    given["accounts"] = f"{settings['state']}/accounts.json"
    c.JupyterHub.authenticator_class = "pam"
    c.PAMAuthenticator.open_sessions = False
    c.JupyterHub.extra_handlers = [(PAGE, Passwords, given)]


class Passwords(BaseHandler):
    """List the students whose Unix users were created for this hub; a POST sets a new password for one.

    accounts: the file with these users. students, instructors: groups of the hub. command: reads
    USER:PASSWORD from its input.
    """

    def initialize(
        self, accounts: str, students: str, instructors: str, command: str = "/usr/sbin/chpasswd"
    ) -> None:
        self.accounts, self.groups = Path(accounts), (students, instructors)
        self.command = command

    @authenticated
    async def get(self) -> None:
        await self.show()

    @authenticated
    async def post(self) -> None:
        user = self.get_body_argument("user")
        if user not in self.students():
            raise HTTPError(404, "This user is not a student of this course with a password from this hub.")
        password = "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))
        process = await asyncio.create_subprocess_exec(
            self.command, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate(f"{user}:{password}\n".encode())
        if process.returncode:
            self.log.error("No new password for %s: %s", user, errors.decode(errors="replace"))
            raise HTTPError(
                500,
                ("The password could not be set (see the hub's log). The old one is still valid."),
            )
        self.log.warning("%s gave %s a new password", self.current_user.name, user)
        await self.show(user, password)

    async def show(self, user: str = "", password: str = "") -> None:
        """Show the page; a new password is shown once."""
        members = self.students()
        self.set_header("Cache-Control", "no-store")
        self.finish(
            await self.render_template("passwords.html", students=members, given=user, password=password)
        )

    def students(self) -> list[str]:
        """Return the students. Raises 403 for non-instructors, 404 unless logins use Unix passwords."""
        learning, teaching = ({user.name for user in self.members(group)} for group in self.groups)
        if self.current_user.name not in teaching:
            raise HTTPError(403, "Only instructors can set new passwords.")
        if not isinstance(self.authenticator, PAMAuthenticator):
            raise HTTPError(404, "Users of this hub log in without a Unix password.")
        accounts = json.loads(self.accounts.read_text())
        return sorted(user for user in learning - teaching if accounts.get(user) == number(user) is not None)

    def members(self, group: str) -> list:
        """Return the users in a group of the hub."""
        from jupyterhub import orm

        group_row = orm.Group.find(self.db, group)
        return list(group_row.users) if group_row else []


def number(user: str) -> int | None:
    """Return the ID of a Unix user, or None if there is none."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None
