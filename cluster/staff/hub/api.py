"""The hub's own interface, as `sync` and `stop` use it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request

from . import INSTRUCTORS, STUDENTS
from .roster import Person
from .settings import HubError, Settings

STOPPING = 180.0  # seconds: the hub takes 20 on a machine at rest where a server heeds no signal
GROUPS = {"student": STUDENTS, "instructor": INSTRUCTORS}


class Api:
    """Calls to a hub that runs. `token` is that of its service `sync`."""

    def __init__(self, settings: Settings, token: str):
        self.base, self.token = f"{settings.hub}/hub/api", token

    def __call__(self, method: str, path: str, body: object = None, missing: object = None) -> object:
        """The answer. Raises HubError for a refusal; `missing` is returned for what is not there."""
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as e:
            with e:
                if e.code == 404:
                    return missing
                raise HubError(
                    f"The hub refused {method} {path}: {e.code} {e.read().decode()[:300]}"
                ) from None
        except OSError as e:
            raise HubError(f"The hub does not answer at {self.base} ({e}); start it again.") from None

    def people(self) -> dict[str, set[str]]:
        """{user: groups} of the hub."""
        return {u["name"]: set(u["groups"]) for u in self("GET", "/users?limit=100000")}

    def apply(self, people: list[Person]) -> list[str]:
        """Bring the hub's users and groups to the roster; returns what was changed, in words."""
        there, changes = self.people(), []
        if new := [p.user for p in people if p.user not in there]:
            self("POST", "/users", {"usernames": new})
        for person in people:
            group = GROUPS[person.role]
            old = there.get(person.user, set()) & set(GROUPS.values())
            if old == {group}:
                continue
            for other in old - {group}:
                self("DELETE", f"/groups/{other}/users", {"users": [person.user]})
            self("POST", f"/groups/{group}/users", {"users": [person.user]})
            changes.append(f"{person.user}: {'now ' if old else ''}{person.role}")
            if old:
                self.end(person.user)  # the next server has the extensions of the new role
        for user in sorted(there.keys() - {p.user for p in people}):
            self.end(user)
            self("DELETE", f"/users/{urllib.parse.quote(user)}")
            changes.append(f"{user}: out of the hub")
        return changes

    def routes(self) -> None:
        """Have the hub tell a proxy that was started anew where each server listens."""
        self("POST", "/proxy")

    def end(self, user: str) -> None:
        """Stop a user's server, where one runs; returns when it has ended, or raises HubError."""
        path, deadline = f"/users/{urllib.parse.quote(user)}", time.monotonic() + STOPPING
        self("DELETE", f"{path}/server")
        while (self("GET", path) or {}).get("pending"):
            if time.monotonic() >= deadline:
                raise HubError(
                    f"The server of {user} has not stopped within {STOPPING:.0f} s. Give the same command "
                    "again; if it still does not, end that user's processes."
                )
            time.sleep(0.1)
