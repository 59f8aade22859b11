"""Login from a learning platform: the table [lti] of the hub's settings, and what the hub does if it is set.

    <state>/lti/    root's; the grader may read
        platform.json    the settings [lti]
        jwks.json        the public key, which the hub publishes
        people.json, links.json, refused.json: see lti_login

The private key is the grader's, `.grading/lti/private.pem` (0600) in the grader's course.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cluster.system import files
from cluster.system.text import printable

from ..declared import setting, text
from ..platforms import is_encrypted
from ..services import HubError

PACKAGES = ("jwcrypto", "ltiauthenticator", "pylti1p3")
PLATFORM, LINKS = "platform.json", "links.json"
MODE = 0o640  # mode of the files that the grader may read
GIVEN = text(r".*\S.*", "a string, as shown by the platform")
ANY = text(".*", "a string")
ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?@!$&()*+,;=%\[\]-]+")
URL = (
    lambda v: isinstance(v, str) and ADDRESS.fullmatch(v) and is_encrypted(v),
    "a URL that begins with https://, as shown by the platform",
)
IDS = (
    lambda v: isinstance(v, list | tuple) and v and all(isinstance(item, str) and item for item in v),
    'a list of deployment IDs, such as ["1"]',
)


@dataclass(frozen=True)
class Lti:
    """The learning management system that people log in from (LTI 1.3), as it describes itself to a tool."""

    issuer: str = setting(URL)  # the platform ID
    client_id: str = setting(GIVEN)
    authorize_url: str = setting(URL)  # the authentication request URL (OIDC)
    jwks_url: str = setting(URL)  # the public keyset URL
    deployments: tuple[str, ...] = setting(IDS)  # deployment IDs whose users are admitted
    # the access token URL; if empty, no scores are sent
    token_url: str = setting((lambda v: v == "" or URL[0](v), URL[1]), "")
    audience: str = setting(ANY, "")  # audience of a token request, if the platform expects another value
    # how the platform identifies a person: a claim of the login, or custom_NAME, a custom parameter
    claim: str = setting(GIVEN, "email")
    context: str = setting(ANY, "")  # the platform's ID of the course, if instructors use several courses

    KEYS: ClassVar = "cluster.staff.lti.grade_passback"  # run by the grader, it prints the public keys

    def missing(self) -> str | None:
        """Return why LTI cannot be used here, or None."""
        lacks = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        return f"[lti] requires {', '.join(lacks)}, installed by cluster/setup.sh hub" if lacks else None

    def prepare(self, state: Path, group: int, keys: object) -> None:
        """Create the files for the hub and for the grader's group. keys: the course's public keys."""
        place = state / "lti"
        place.mkdir(mode=0o750, exist_ok=True)
        os.chown(place, 0, group)
        place.chmod(0o2750)
        files.write_json(place / "jwks.json", keys, mode=MODE)
        files.write_json(place / PLATFORM, dataclasses.asdict(self), mode=MODE)

    def enrol(self, state: Path, people: dict[str, dict[str, str]]) -> None:
        """Store {the platform's name for a person: {"user", "role"}} for the login."""
        files.write_json(state / "lti" / "people.json", people, mode=MODE)

    def refused(self, state: Path) -> list[str]:
        """Return the logins refused in the last week, with person, time and reason, newest first."""
        entries = files.read_json(state / "lti" / "refused.json") or {}
        recent = {name: one for name, one in entries.items() if one["when"] > time.time() - 7 * 86400}
        return [
            f"refused {time.strftime('%d %b %H:%M', time.localtime(one['when']))}: "
            f"{printable(name) or 'unknown'}: {printable(one['why'], 400)}"
            for name, one in reversed(recent.items())
        ]


def urls(base: str) -> dict[str, str]:
    """Return the URLs of the hub at `base` that the platform needs, by their names in LTI 1.3."""
    base = base.rstrip("/")
    return {
        "Tool URL, target link URI": f"{base}/hub",
        "Initiate login URL (OIDC)": f"{base}/hub/lti13/oauth_login",
        "Redirection URI": f"{base}/hub/lti13/oauth_callback",
        "Public keyset URL (JWKS)": f"{base}/hub/lti13/jwks",
    }


def report(state: Path, platform: Lti | None, base: str) -> str:
    """Report URLs for the platform, who logged in from it, from which courses, and refused logins."""
    lines = [
        ("The learning platform needs these settings:"),
        *(f"  {name:26} {url}" for name, url in urls(base).items()),
    ]
    if platform is None:
        return "\n".join([*lines, "LTI is off. Copy the platform's values to [lti] in the settings."])
    links = files.read_json(state / "lti" / LINKS) or {}
    lines.append(f"{len(links.get('people', {}))} people have logged in from {platform.issuer}")
    for number, context in links.get("contexts", {}).items():
        marks = "accepts scores" if context["lineitems"] else "does not accept scores"
        lines.append(f"  course {printable(number)} ({printable(context['title'])}): {marks}")
    return "\n".join([*lines, *(f"  {line}" for line in platform.refused(state))])


def forget(state: Path, user: str) -> None:
    """Unbind a user from the platform's account; the next account that logs in is bound instead."""
    path = state / "lti" / LINKS
    links = files.read_json(path) or {}
    if user not in links.get("people", {}):
        known = ", ".join(sorted(links.get("people", {}))) or "none"
        raise HubError(f"--forget {user!r}: this user has not logged in by LTI; those who have are {known}.")
    del links["people"][user]
    files.write_json(path, links, mode=MODE)
