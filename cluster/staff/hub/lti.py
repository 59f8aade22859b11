"""LTI 1.3: the files used by the hub's login and by sending scores, and the settings needed by the
platform.

    <state>/lti/    root's; the grader may read
        platform.json    the settings [lti], and the folder of the course's key
        jwks.json        the public key, which the hub publishes
        people.json, links.json, refused.json: see lti_login

The private key is the grader's, `.grading/lti/private.pem` (0600) in the grader's course.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import pwd
import time
from pathlib import Path

from cluster.system import files
from cluster.system.text import printable

from ..lti import grade_passback
from .hub_settings import HubError, Settings
from .roster import Person

PACKAGES = ("jwcrypto", "ltiauthenticator", "pylti1p3")
MODE = 0o640  # mode of the files that the grader may read


def folder(state: Path) -> Path:
    """Return the folder of all files except the private key."""
    return state / "lti"


def missing() -> str | None:
    """Return why LTI cannot be used here, or None."""
    lacks = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"[lti] requires {', '.join(lacks)}, installed by cluster/setup.sh hub" if lacks else None


def prepare(state: Path, settings: Settings, keys: object) -> None:
    """Create the folder with the files for hub and grader. keys: the course's public keys."""
    place = folder(state)
    place.mkdir(mode=0o750, exist_ok=True)
    os.chown(place, 0, pwd.getpwnam(settings.grader).pw_gid)
    place.chmod(0o2750)
    files.write_json(place / "jwks.json", keys, mode=MODE)
    assert settings.lti is not None
    files.write_json(place / grade_passback.PLATFORM, dataclasses.asdict(settings.lti), mode=MODE)


def enrol(state: Path, people: list[Person]) -> None:
    """Store the people on the roster for the login."""
    table = {p.called: {"user": p.user, "role": p.role} for p in people}
    files.write_json(folder(state) / "people.json", table, mode=MODE)


def urls(base: str) -> dict[str, str]:
    """Return the URLs of the hub at `base` that the platform needs, by their names in LTI 1.3."""
    base = base.rstrip("/")
    return {
        "Tool URL, target link URI": f"{base}/hub",
        "Initiate login URL (OIDC)": f"{base}/hub/lti13/oauth_login",
        "Redirection URI": f"{base}/hub/lti13/oauth_callback",
        "Public keyset URL (JWKS)": f"{base}/hub/lti13/jwks",
    }


def report(state: Path, settings: Settings, base: str) -> str:
    """Report URLs for the platform, who logged in from it, from which courses, and refused logins."""
    lines = [
        ("The learning platform needs these settings:"),
        *(f"  {name:26} {url}" for name, url in urls(base).items()),
    ]
    if settings.lti is None:
        return "\n".join([*lines, "LTI is off. Copy the platform's values to [lti] in the settings."])
    links = files.read_json(folder(state) / grade_passback.LINKS) or {}
    lines.append(f"{len(links.get('people', {}))} people have logged in from {settings.lti.issuer}")
    for number, context in links.get("contexts", {}).items():
        marks = "accepts scores" if context["lineitems"] else "does not accept scores"
        lines.append(f"  course {printable(number)} ({printable(context['title'])}): {marks}")
    return "\n".join([*lines, *(f"  {line}" for line in refused(state))])


def refused(state: Path) -> list[str]:
    """Return the logins refused in the last week, with person, time and reason, newest first."""
    entries = files.read_json(folder(state) / "refused.json") or {}
    entries = {name: one for name, one in entries.items() if one["when"] > time.time() - 7 * 86400}
    return [
        f"refused {time.strftime('%d %b %H:%M', time.localtime(one['when']))}: "
        f"{printable(name) or 'unknown'}: {printable(one['why'], 400)}"
        for name, one in reversed(entries.items())
    ]


def forget(state: Path, user: str) -> None:
    """Unbind a user from the platform's account; the next account that logs in is bound instead."""
    path = folder(state) / grade_passback.LINKS
    links = files.read_json(path) or {}
    if user not in links.get("people", {}):
        known = ", ".join(sorted(links.get("people", {}))) or "none"
        raise HubError(f"--forget {user!r}: this user has not logged in by LTI; those who have are {known}.")
    del links["people"][user]
    files.write_json(path, links, mode=MODE)
