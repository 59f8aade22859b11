"""Instructors may do everything on the class page's server; graders see and grade submissions.

JupyterHub's authorizer guards only handlers with Jupyter Server's `@authorized`, which Formgrader's lack. The
rule is therefore applied where each handler determines the user. It also covers kernels and terminals.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from jupyter_server.auth import IdentityProvider, User
from tornado.web import HTTPError

REFUSED = "Graders can see and grade submissions; this is reserved for instructors"
SEEN = re.compile(
    r"(course/class|formgrader|static)(/.*)?|(course/?|favicon\.ico|logo|login|logout|oauth_callback)?"
)
CHANGED = {
    "PUT": re.compile(r"formgrader/api/(grade|comment)/[^/]+"),
    "POST": re.compile(r"formgrader/api/submitted_notebook/[^/]+/flag|course/class/(do|answer)"),
}


def instructs(user: User | None, group: str) -> bool:
    """Return whether a user has all rights: members of this group of the hub, or all users if it is ""."""
    return not group or group in getattr(user, "hub_user", {}).get("groups", ())


def permitted(method: str, path: str) -> bool:
    """Return whether a grader may make this request. path: below the base URL, without a leading slash."""
    allowed = SEEN if method in ("GET", "HEAD") else CHANGED.get(method)
    return allowed is not None and allowed.fullmatch(path) is not None


def limit(provider: IdentityProvider, group: str, base_url: str) -> None:
    """From now on, answer requests reserved for the group's members with 403 for all other users."""
    ask = provider.get_user

    async def get_user(handler: Any) -> User | None:
        answer = ask(handler)
        user = await answer if inspect.isawaitable(answer) else answer
        request = handler.request
        path = request.path.removeprefix(base_url) if request.path.startswith(base_url) else "/"
        if user is not None and not instructs(user, group) and not permitted(request.method, path):
            handler.current_user = user  # needed by the page that shows the error
            raise HTTPError(403, reason=REFUSED)
        return user

    provider.get_user = get_user  # type: ignore[method-assign]
