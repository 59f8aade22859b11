"""Instructors may do everything on the class page's server; graders see and grade submissions."""

from __future__ import annotations

from jupyter_server.auth import User

REFUSED = "Graders can see and grade submissions; this is reserved for instructors"


def instructs(user: User | None, group: str) -> bool:
    """Return whether a user has all rights: members of this group of the hub, or all users if it is ""."""
    return not group or group in getattr(user, "hub_user", {}).get("groups", ())
