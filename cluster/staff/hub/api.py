"""The hub's REST API, as used by `sync` and `stop`."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from . import GROUPS
from .hub_settings import HubError, Settings
from .roster import Person

STOPPING = 180.0  # maximum seconds for a server to stop; one that ignores signals takes 20 s
PAGE = 200  # users per response; the hub's maximum
PAGED = "application/jupyterhub-pagination+json"


class Api:
    """Calls to a running hub. `token` is the token of its service `sync`."""

    def __init__(self, settings: Settings, token: str):
        self.base, self.token = f"{settings.hub}/hub/api", token

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
            for group, users in groups.items():
                self(method, f"/groups/{group}/users", {"users": users})
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
