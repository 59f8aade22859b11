"""The hub's log-in by LTI 1.3: people of the roster alone, each under the account that came first.

The hub reads it as a file of its own in the state folder; it imports nothing of this package. State, nonce
and signature are checked by jupyterhub-ltiauthenticator; what is added here is who somebody is, and what is
written down for the marks:

    people.json     {what the platform calls somebody: {"user", "role"}}, made by `sync` (read)
    links.json      {"issuer", "people": {user: the platform's number}, "contexts": {course: its line items}}
    refused.json    {what the platform calls somebody: {"why", "when"}}, the last LONGEST_LIST of them
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
LONGEST_NAME = 254  # characters of what a platform calls somebody; of an e-mail address there are no more
AGAIN = "Open the course's link on the learning platform again, in a window of its own"


class LoginRefused(Exception):
    """Somebody may not log in: `why` is for the administrator, the message for the person."""

    def __init__(self, called: str, why: str, words: str):
        super().__init__(words)
        self.called, self.why = called, why


class Begin(LTI13LoginInitHandler):
    """The platform sends a browser here first (its login initiation URL)."""

    def authorize_redirect(self, **asked: Any) -> None:
        """Back to the platform, which may have left out the client ID that it knows this hub by."""
        (asked["client_id"],) = self.authenticator.client_id
        super().authorize_redirect(**asked)

    def _set_oauth_cookie(self, key: str, value: str) -> None:
        """A launch is a form that another site's page sends, with which browsers send no other cookie."""
        more = {"samesite": "None", "secure": True} if self.request.protocol == "https" else {}
        self._set_cookie(key, value, expires_days=1, httponly=True, encrypted=True, **more)


class Launch(LTI13CallbackHandler):
    """The platform sends the browser here with what it has signed (its redirection URI)."""

    def check_state(self) -> None:
        """The library's check; the error says what to do."""
        try:
            super().check_state()
        except HTTPError as error:
            raise HTTPError(
                error.status_code,
                f"{error.log_message}. {AGAIN}, and let the browser keep the hub's cookies.",
            ) from None


class Keys(BaseHandler):
    """The keys by which the platform knows that marks come from this course (the public keyset URL)."""

    def get(self) -> None:
        """Anybody may read them."""
        self.set_header("Content-Type", "application/json")
        try:
            self.finish((Path(self.authenticator.folder) / "jwks.json").read_text())
        except FileNotFoundError:
            raise HTTPError(404, "This hub has no keys yet: start it again.") from None


class RosterAuthenticator(LTI13Authenticator):
    """LTI 1.3 for the people of the roster."""

    login_handler, callback_handler = Begin, Launch
    folder = Unicode(help="the folder of people.json, links.json and refused.json").tag(config=True)
    deployments = List(Unicode(), help="deployment IDs from which people may come").tag(config=True)

    def get_handlers(self, app: object) -> list[tuple[str, type]]:
        """Log-in, launch, keys. The library's file for Canvas would ask for rights that are not needed."""
        found = {self.login_url(""): Begin, self.callback_url(""): Launch, self.keys_url(""): Keys}
        return list(found.items())

    def keys_url(self, base_url: str) -> str:
        """Where the public keys are."""
        return f"{base_url.rstrip('/')}/lti13/jwks"

    def get_custom_html(self, base_url: str) -> str:
        """What the hub's log-in page shows in the place of a form."""
        where = html.escape(self.issuer)
        link = f'<a href="{where}">{where}</a>'
        words = (
            f"You come by the learning platform: open the course there ({link}), and in it the hub's link."
        )
        return f"<h1>Log in</h1><p>{words}</p>"

    async def authenticate(self, handler: BaseHandler, data: dict[str, Any] | None = None) -> dict[str, str]:
        """{"name": user} for somebody whose log-in the platform has signed. Raises HTTPError (403)."""
        # The form of the hub's log-in page comes here as well, with whatever anybody has put into it.
        if not isinstance(handler, LTI13CallbackHandler) or not data:
            raise HTTPError(403, f"There is no log-in by a form here. {AGAIN}.")
        try:
            return {"name": self.user_of(data)}
        except LoginRefused as refused:
            self.log.warning("LoginRefused %r of the platform: %s", refused.called, refused.why)
            self._note(refused)
            raise HTTPError(403, str(refused)) from None

    def user_of(self, claims: dict[str, Any]) -> str:
        """The roster's user whom these claims of a checked log-in name. Raises LoginRefused."""
        called, number = self._called(claims), claims.get("sub")
        deployment = claims.get(f"{CLAIM}/deployment_id")
        if deployment not in self.deployments:
            why = f"deployment {deployment!r}: not in lti.deployments of the hub's settings"
            raise LoginRefused(called, why, f"This hub is not registered for deployment {deployment!r}.")
        if not called or not isinstance(number, str) or not number:
            lacks = self.username_key if not called else "sub"
            why = f"the platform does not send {lacks!r}: let it share that with this tool, or set lti.claim"
            raise LoginRefused(
                called, why, f"The platform did not say who you are ({lacks!r}). Tell your instructor."
            )
        person = self._read("people.json").get(called.casefold())
        if person is None:
            why = "not on the roster: add a line (column platform or user), then sync"
            words = f"{called!r} is not on the roster of this course. Tell your instructor, who can add you."
            raise LoginRefused(called, why, words)
        self._link(person, number, called, claims)
        return person["user"]

    def _called(self, claims: dict[str, Any]) -> str:
        """What the platform calls somebody, "" where it does not say; never another claim in its place."""
        custom, key = claims.get(f"{CLAIM}/custom"), self.username_key
        if key.startswith("custom_"):
            claims, key = custom if isinstance(custom, dict) else {}, key.removeprefix("custom_")
        value = claims.get(key)
        # A platform that knows no such variable sends its name: $User.username
        if isinstance(value, str) and value.isprintable() and not value.startswith("$"):
            return value.strip()[:LONGEST_NAME]
        return ""

    def _link(self, person: dict[str, str], number: str, called: str, claims: dict[str, Any]) -> None:
        """Hold a user to the account that came first: marks go there. Instructors' launches name the course.

        Raises LoginRefused.
        """
        links = self._read("links.json")
        if links.get("issuer") != self.issuer:
            links = {"issuer": self.issuer, "people": {}, "contexts": {}}
        before, user = json.dumps(links), person["user"]
        other = next((u for u, n in links["people"].items() if n == number and u != user), None)
        known = links["people"].setdefault(user, number)
        if other or known != number:
            free = other or user
            why = f"for {user} " + (
                f"comes the account by which {other} came" if other else "another account came before"
            )
            raise LoginRefused(
                called,
                f"{why}: if that is right, python -m cluster.staff.hub lti --forget {free}",
                f"{called!r} is known here by another account of the platform. Tell your instructor.",
            )
        context, service = claims.get(f"{CLAIM}/context"), claims.get(ENDPOINT)
        if person["role"] == "instructor" and isinstance(context, dict) and isinstance(service, dict):
            links["contexts"][str(context.get("id"))] = {
                "title": str(context.get("title") or context.get("label") or ""),
                "lineitems": str(service.get("lineitems") or ""),
                "scope": [one for one in service.get("scope") or [] if isinstance(one, str)],
            }
        if json.dumps(links) != before:
            self._write("links.json", links)

    def _note(self, refused: LoginRefused) -> None:
        """For `status`: who was refused, and why."""
        found = self._read("refused.json")
        found.pop(refused.called, None)
        found[refused.called] = {"why": refused.why, "when": time.time()}
        with contextlib.suppress(OSError):  # a full disk: it is in the log
            self._write("refused.json", dict(list(found.items())[-LONGEST_LIST:]))

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return json.loads((Path(self.folder) / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def _write(self, name: str, value: dict[str, Any]) -> None:
        """Beside, and renamed; for root, and the group of the folder, which is the grader's."""
        fd, beside = tempfile.mkstemp(dir=self.folder, prefix=f".{name}.")
        try:
            with open(fd, "w", encoding="utf-8") as file:
                os.fchmod(fd, 0o640)
                json.dump(value, file, indent=1)
            os.replace(beside, Path(self.folder) / name)
        except BaseException:
            os.unlink(beside)
            raise
