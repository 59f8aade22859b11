"""The hub's login by LTI 1.3, only for people on the roster, each bound to the first account that logs in.

The hub loads it as a separate file in the state folder, without importing this package.
jupyterhub-ltiauthenticator checks state, nonce and signature. This module adds the mapping to users, and the
records for sending scores:

    people.json     {the platform's name for a person: {"user", "role"}}, made by `sync` (read)
    links.json      {"issuer", "people": {user: the platform's number}, "contexts": {course: its line items}}
    refused.json    {the platform's name for a person: {"why", "when"}}, the last LONGEST_LIST of them
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from jupyterhub.handlers import BaseHandler
from ltiauthenticator.lti13.auth import LTI13Authenticator
from ltiauthenticator.lti13.handlers import LTI13CallbackHandler, LTI13LoginInitHandler
from tornado.web import HTTPError
from traitlets import List, Unicode

CLAIM = "https://purl.imsglobal.org/spec/lti/claim"
ENDPOINT = "https://purl.imsglobal.org/spec/lti-ags/claim/endpoint"
LONGEST_LIST = 200
LONGEST_NAME = 254  # maximum length of a platform's name for a person; e-mail addresses are not longer
AGAIN = "Open the course's link on the learning platform again, in a separate window"


def configure(c: Any, settings: dict[str, Any]) -> None:
    """Let people log in from the platform of the hub's settings."""
    platform = settings["lti"]
    c.JupyterHub.authenticator_class = RosterAuthenticator
    c.RosterAuthenticator.folder = f"{settings['state']}/lti"
    c.RosterAuthenticator.client_id = {platform["client_id"]}
    for name in ("deployments", "issuer", "authorize_url"):
        c.RosterAuthenticator[name] = platform[name]
    c.RosterAuthenticator.jwks_endpoint = platform["jwks_url"]
    c.RosterAuthenticator.username_key = platform["claim"]
    c.LTI13LaunchValidator.time_leeway = 60  # seconds that the clocks of platform and hub may differ


class LoginRefused(Exception):
    """A refused login: `why` is for the administrator, the message for the user."""

    def __init__(self, called: str, why: str, words: str):
        super().__init__(words)
        self.called, self.why = called, why


class Begin(LTI13LoginInitHandler):
    """The handler of the platform's first request (its login initiation URL)."""

    def authorize_redirect(self, **asked: Any) -> None:
        """Redirect to the platform, even if it has left out the client ID of this hub."""
        (asked["client_id"],) = self.authenticator.client_id
        super().authorize_redirect(**asked)

    def _set_oauth_cookie(self, key: str, value: str) -> None:
        """Set a cookie that survives a launch: browsers send no others with a form posted by another site."""
        more = {"samesite": "None", "secure": True} if self.request.protocol == "https" else {}
        self._set_cookie(key, value, expires_days=1, httponly=True, encrypted=True, **more)


class Launch(LTI13CallbackHandler):
    """The handler of the platform's signed request (its redirection URI)."""

    def check_state(self) -> None:
        """Run the library's check, with an error message that includes the solution."""
        try:
            super().check_state()
        except HTTPError as error:
            raise HTTPError(
                error.status_code,
                f"{error.log_message}. {AGAIN}, and let the browser keep the hub's cookies.",
            ) from None


class Keys(BaseHandler):
    """The public keyset URL, with the keys that prove to the platform that scores come from this course."""

    def get(self) -> None:
        """Send the keys, which are public."""
        self.set_header("Content-Type", "application/json")
        try:
            self.finish((Path(self.authenticator.folder) / "jwks.json").read_text())
        except FileNotFoundError:
            raise HTTPError(404, "This hub has no LTI keys yet. Start it again to create them.") from None


class RosterAuthenticator(LTI13Authenticator):
    """LTI 1.3 for the people on the roster."""

    login_handler, callback_handler = Begin, Launch
    folder = Unicode(help="folder of people.json, links.json and refused.json").tag(config=True)
    deployments = List(Unicode(), help="deployment IDs whose users are admitted").tag(config=True)

    def get_handlers(self, app: object) -> list[tuple[str, type]]:
        """Return handlers for login, launch, keys. The library's file for Canvas requests needless rights."""
        handlers = {self.login_url(""): Begin, self.callback_url(""): Launch, self.keys_url(""): Keys}
        return list(handlers.items())

    def keys_url(self, base_url: str) -> str:
        """Return the URL of the public keys."""
        return f"{base_url.rstrip('/')}/lti13/jwks"

    def get_custom_html(self, base_url: str) -> str:
        """Return the HTML that replaces the form on the hub's login page."""
        where = html.escape(self.issuer)
        link = f'<a href="{where}">{where}</a>'
        text = f"Log in from the learning platform: open your course at {link} and follow its hub link."
        return f"<h1>Log in</h1><p>{text}</p>"

    async def authenticate(self, handler: BaseHandler, data: dict[str, Any] | None = None) -> dict[str, str]:
        """Return {"name": user} for a login signed by the platform. Raises HTTPError (403)."""
        # The form of the hub's login page also arrives here, with arbitrary contents.
        if not isinstance(handler, LTI13CallbackHandler) or not data:
            raise HTTPError(403, f"Login with a form is disabled. {AGAIN}.")
        try:
            return {"name": self.user_of(data)}
        except LoginRefused as refused:
            self.log.warning("LoginRefused %r of the platform: %s", refused.called, refused.why)
            self._note(refused)
            raise HTTPError(403, str(refused)) from None

    def user_of(self, claims: dict[str, Any]) -> str:
        """Return the user on the roster that the claims of a verified login name. Raises LoginRefused."""
        called, number = self._called(claims), claims.get("sub")
        deployment = claims.get(f"{CLAIM}/deployment_id")
        if deployment not in self.deployments:
            why = f"deployment {deployment!r}: not in lti.deployments in the hub's settings"
            raise LoginRefused(called, why, f"This hub is not registered for deployment {deployment!r}.")
        if not called or not isinstance(number, str) or not number:
            lacks = self.username_key if not called else "sub"
            why = f"the platform does not send {lacks!r}: let it send this claim to the hub, or set lti.claim"
            raise LoginRefused(
                called, why, f"The platform did not say who you are ({lacks!r}). Tell your instructor."
            )
        person = self._read("people.json").get(called.casefold())
        if person is None:
            why = "not on the roster: add a line (column platform or user), then run sync"
            message = (
                f"{called!r} is not on the roster of this course. Tell your instructor, who can add you."
            )
            raise LoginRefused(called, why, message)
        self._link(person, number, called, claims)
        return person["user"]

    def _called(self, claims: dict[str, Any]) -> str:
        """Return the platform's name for a person, or "" if it is missing; no other claim is used instead."""
        custom, key = claims.get(f"{CLAIM}/custom"), self.username_key
        if key.startswith("custom_"):
            claims, key = custom if isinstance(custom, dict) else {}, key.removeprefix("custom_")
        value = claims.get(key)
        # A platform that does not know the variable sends its name, such as $User.username
        if isinstance(value, str) and value.isprintable() and not value.startswith("$"):
            return value.strip()[:LONGEST_NAME]
        return ""

    def _link(self, person: dict[str, str], number: str, called: str, claims: dict[str, Any]) -> None:
        """Bind a user to the first account, to which scores are sent; an instructor's launch identifies the
        course. Raises LoginRefused."""
        links = self._read("links.json")
        if links.get("issuer") != self.issuer:
            links = {"issuer": self.issuer, "people": {}, "contexts": {}}
        before, user = json.dumps(links), person["user"]
        other = next((u for u, n in links["people"].items() if n == number and u != user), None)
        known = links["people"].setdefault(user, number)
        if other or known != number:
            free = other or user
            why = f"for {user} " + (
                f"logs in with the account of {other}" if other else "another account logged in first"
            )
            raise LoginRefused(
                called,
                f"{why}: if that is right, python -m cluster.staff.hub lti --forget {free}",
                f"{called!r} is bound to another account of the platform on this hub. Tell your instructor.",
            )
        context, service = claims.get(f"{CLAIM}/context"), claims.get(ENDPOINT)
        if person["role"] == "instructor" and isinstance(context, dict) and isinstance(service, dict):
            links["contexts"][str(context.get("id"))] = {
                "title": str(context.get("title") or context.get("label") or ""),
                "lineitems": str(service.get("lineitems") or ""),
                "scope": [item for item in service.get("scope") or [] if isinstance(item, str)],
            }
        if json.dumps(links) != before:
            self._write("links.json", links)

    def _note(self, refused: LoginRefused) -> None:
        """Record a refused login and the reason, for `status`."""
        entries = self._read("refused.json")
        entries.pop(refused.called, None)
        entries[refused.called] = {"why": refused.why, "when": time.time()}
        with contextlib.suppress(OSError):  # a full disk: the reason is also in the log
            self._write("refused.json", dict(list(entries.items())[-LONGEST_LIST:]))

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return json.loads((Path(self.folder) / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def _write(self, name: str, value: dict[str, Any]) -> None:
        """Write a temporary file and rename it; root and the folder's group, the grader's, can read it."""
        fd, temp = tempfile.mkstemp(dir=self.folder, prefix=f".{name}.")
        try:
            with open(fd, "w", encoding="utf-8") as file:
                os.fchmod(fd, 0o640)
                json.dump(value, file, indent=1)
            os.replace(temp, Path(self.folder) / name)
        except BaseException:
            os.unlink(temp)
            raise
