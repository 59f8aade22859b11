"""Instructors may do everything on the class page's server; graders see and grade submissions.

JupyterHub's authorizer guards only handlers with Jupyter Server's `@authorized`, which Formgrader's lack.
The rule is therefore checked where each handler asks who the user is. It covers kernels and terminals, too.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from jupyter_server.auth import IdentityProvider, User
from tornado.web import HTTPError

ACTIONS = frozenset({"collect", "grade", "regrade", "report", "similar", "stop"})  # of the class page
REFUSED = "Graders see and grade submissions; this is for instructors"
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
    """Return whether a grader may make this request. path: below the server's address, without a slash."""
    allowed = SEEN if method in ("GET", "HEAD") else CHANGED.get(method)
    return allowed is not None and allowed.fullmatch(path) is not None


def limit(provider: IdentityProvider, group: str, base_url: str) -> None:
    """From now on, answer requests that only the group's members may make with 403 for others."""
    ask = provider.get_user

    async def get_user(handler: Any) -> User | None:
        answer = ask(handler)
        user = await answer if inspect.isawaitable(answer) else answer
        request = handler.request
        path = request.path.removeprefix(base_url) if request.path.startswith(base_url) else "/"
        if user is not None and not instructs(user, group) and not permitted(request.method, path):
            handler.current_user = user  # the page that shows the error asks for it
            raise HTTPError(403, reason=REFUSED)
        return user

    provider.get_user = get_user  # type: ignore[method-assign]
