"""A learning management system for the tests, with LTI 1.3 core, OAuth 2 with signed assertions, and AGS 2.0.

It follows the specifications (1EdTech Security Framework 1.0, LTI 1.3, AGS 2.0), with two refusals as in
Moodle's source: a score that is not newer than the previous one (409), and a score for a person who is not in
the course (400). It listens on loopback, and checks the tool's signatures with the tool's own key set, over
HTTP.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
import threading
import time
import uuid
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import requests
from jwcrypto.jwk import JWK

from . import ports

CLAIM = "https://purl.imsglobal.org/spec/lti/claim"
AGS = "https://purl.imsglobal.org/spec/lti-ags"
ITEMS, SCORE = f"{AGS}/scope/lineitem", f"{AGS}/scope/score"
ROLE = "http://purl.imsglobal.org/vocab/lis/v2/membership#"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ITEM, ITEM_LIST, SCORE_TYPE = (
    f"application/vnd.ims.lis.v{n}+json" for n in ("2.lineitem", "2.lineitemcontainer", "1.score")
)


@cache
def _key(whose: str) -> JWK:
    """Return an RSA key, created once per process."""
    return JWK.generate(kty="RSA", size=2048, kid="site", alg="RS256")


class Refusal(Exception):
    """An error response: HTTP status and text."""


class Platform:
    """One site with one course, one registered tool at `tool` (the hub's URL), and its people.

    people: {login: {"sub", "email", "role", …}}. A test can change `claims`, a function of the claims, for
    the next logins. faults: for the next score requests, each an HTTP status, "cut" (the connection ends
    without an answer), "late" (the score is accepted, and then the connection ends), or None.
    """

    def __init__(self, tool: str = ""):
        self.tool, self.client_id, self.deployment = tool, "tool-7", "3"
        self.key, self.forged = _key("own"), _key("another's")
        self.people: dict[str, dict] = {}
        self.granted = [ITEMS, SCORE]
        self.claims = lambda claims: claims
        self.sign_with = self.key
        self.items: dict[str, dict] = {}
        self.scores: dict[tuple[str, str], list[dict]] = {}  # {(item, user): all accepted scores}
        self.faults: list[int | str | None] = []
        self.tokens: dict[str, tuple[set[str], float]] = {}
        self.lifetime = 3600.0  # lifetime of a token in seconds
        # number of characters of a timestamp that are compared: 23 for milliseconds, or 19 for seconds, as in
        # Moodle
        self.digits = 23
        self.asked: list[str] = []  # method and path of each request
        self.hints: dict[str, str] = {}
        self.tool_keys: dict | None = None  # the tool's key set, if no hub publishes it
        self.port = ports.free()
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict:
        """Return the table [lti] of the hub's settings for this platform."""
        return {
            "issuer": self.url,
            "client_id": self.client_id,
            "authorize_url": f"{self.url}/auth",
            "jwks_url": f"{self.url}/jwks",
            "token_url": f"{self.url}/token",
            "deployments": [self.deployment],
        }

    @contextlib.contextmanager
    def running(self):
        handler = type("Handler", (Handler,), {"platform": self})
        server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def enrol(self, login: str, role: str = "Learner", **more: str) -> None:
        person = {"sub": uuid.uuid4().hex[:8], "email": f"{login}@uni.example", "role": role}
        self.people[login] = person | more

    def link(self, login: str, target: str = "") -> str:
        """Return the URL that a click on the tool's link opens for a logged-in user."""
        hint = uuid.uuid4().hex
        self.hints[hint] = login
        asked = {"iss": self.url, "login_hint": hint, "target_link_uri": target or f"{self.tool}/hub"}
        asked |= {
            "lti_message_hint": "m-1",
            "client_id": self.client_id,
            "lti_deployment_id": self.deployment,
        }
        return f"{self.tool}/hub/lti13/oauth_login?{urlencode(asked)}"

    def launch(self, browser: requests.Session, login: str, target: str = "") -> requests.Response:
        """Click on the link as a user, follow the pages, and return the last response.

        Only the platform's own form is followed, not the hub's redirects after it.
        """
        page = browser.get(self.link(login, target), timeout=30)
        if page.status_code != 200 or "<form" not in page.text:
            return page
        return browser.post(*self.form(page.text), allow_redirects=False, timeout=60)

    def form(self, page: str) -> tuple[str, dict[str, str]]:
        """Return the URL and the fields of the form on the platform's page."""
        fields = re.findall(r'name="([^"]+)" value="([^"]*)"', page)
        address = re.search(r'action="([^"]+)"', page)[1]
        return html.unescape(address), {k: html.unescape(v) for k, v in fields}

    def latest(self) -> dict[str, dict]:
        """Return {login: the last accepted score}, taken from the last line item if there are several."""
        names = {person["sub"]: login for login, person in self.people.items()}
        return {names[user]: taken[-1] for (_, user), taken in self.scores.items() if user in names}

    # responses of the endpoints: (status, content type, body)

    def auth(self, asked: dict[str, str]) -> str:
        wanted = {
            "scope": "openid", "response_type": "id_token", "response_mode": "form_post", "prompt": "none",
            "client_id": self.client_id, "redirect_uri": f"{self.tool}/hub/lti13/oauth_callback",
            "lti_message_hint": "m-1",
        }  # fmt: skip
        for name, value in wanted.items():
            if asked.get(name) != value:
                raise Refusal(400, f"{name} is {asked.get(name)!r}, not {value!r}")
        if not asked.get("nonce") or not asked.get("state") or asked.get("login_hint") not in self.hints:
            raise Refusal(400, "nonce, state or login_hint is missing")
        person, now = self.people[self.hints[asked["login_hint"]]], int(time.time())
        claims = {
            "iss": self.url, "aud": self.client_id, "sub": person["sub"], "nonce": asked["nonce"],
            "iat": now, "exp": now + 300, "email": person["email"],
            f"{CLAIM}/message_type": "LtiResourceLinkRequest", f"{CLAIM}/version": "1.3.0",
            f"{CLAIM}/deployment_id": self.deployment, f"{CLAIM}/target_link_uri": f"{self.tool}/hub",
            f"{CLAIM}/resource_link": {"id": "r-1", "title": "The hub"},
            f"{CLAIM}/roles": [f"{ROLE}{person['role']}"],
            f"{CLAIM}/context": {"id": "c-1", "label": "HPDL", "title": "Deep learning on a cluster"},
            f"{AGS}/claim/endpoint": {"scope": self.granted, "lineitems": f"{self.url}/c/1/lineitems?type=9"},
            f"{CLAIM}/custom": {"login": person.get("login", "$User.username")},
        }  # fmt: skip
        signed = jwt.encode(
            self.claims(claims), self.sign_with.export_to_pem(True, None), "RS256", {"kid": "site"}
        )
        fields = {"id_token": signed, "state": asked["state"]}
        inputs = "".join(f'<input name="{k}" value="{html.escape(v)}">' for k, v in fields.items())
        address = html.escape(asked["redirect_uri"])
        script = "<script>document.forms[0].submit()</script>"
        return f'<form action="{address}" method="post">{inputs}</form>{script}'

    def token(self, form: dict[str, str]) -> dict:
        if form.get("grant_type") != "client_credentials" or form.get("client_assertion_type") != ASSERTION:
            raise Refusal(400, "unsupported_grant_type")
        try:
            keys = jwt.PyJWKSet.from_dict(requests.get(f"{self.tool}/hub/lti13/jwks", timeout=10).json())
            kid = jwt.get_unverified_header(form["client_assertion"])["kid"]
            jwt.decode(
                form["client_assertion"], keys[kid].key, algorithms=["RS256"], audience=f"{self.url}/token",
                issuer=self.client_id, options={"require": ["exp", "iat", "jti", "sub"]},
            )  # fmt: skip
        except (jwt.PyJWTError, KeyError, ValueError, requests.RequestException) as error:
            raise Refusal(401, f"invalid_client: {type(error).__name__}") from None
        wanted = set(form.get("scope", "").split())
        if not wanted or not wanted <= set(self.granted):
            raise Refusal(400, "invalid_scope")
        name = uuid.uuid4().hex
        self.tokens[name] = (wanted, time.time() + self.lifetime)
        return {"access_token": name, "token_type": "Bearer", "expires_in": 3600, "scope": " ".join(wanted)}

    def allowed(self, headers, scope: str) -> None:
        name = headers.get("Authorization", "").removeprefix("Bearer ")
        scopes, until = self.tokens.get(name, (set(), 0.0))
        if time.time() > until:
            raise Refusal(401, "invalid_token")
        if scope not in scopes:
            raise Refusal(403, "insufficient_scope")

    def line_items(self, asked: dict[str, str]) -> list[dict]:
        result = self.items.values()
        return [i for i in result if asked.get("resource_id") in (None, i.get("resourceId"))]

    def create(self, item: dict) -> dict:
        if not item.get("label") or not item.get("scoreMaximum", 0) > 0 or "id" in item:
            raise Refusal(400, "a line item has a label and a scoreMaximum")
        line_item = item | {"id": f"{self.url}/c/1/lineitems/{len(self.items) + 1}/lineitem?type=9"}
        self.items[line_item["id"]] = line_item
        return line_item

    def take(self, item: str, score: dict) -> None:
        if item not in self.items:
            raise Refusal(404, "no such line item")
        known = {person["sub"] for person in self.people.values()}
        when = score.get("timestamp", "")
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)", when):
            raise Refusal(400, "the timestamp has no zone or no fraction of a second")
        if score.get("userId") not in known or score.get("activityProgress") != "Completed":
            raise Refusal(400, f"Incorrect score received {json.dumps(score)}")
        if score.get("gradingProgress") != "FullyGraded" or not score["scoreMaximum"] > 0:
            raise Refusal(400, "not fully graded")
        taken = self.scores.setdefault((item, score["userId"]), [])
        if taken and taken[-1]["timestamp"][: self.digits] >= when[: self.digits]:
            raise Refusal(409, "Refusing score with an earlier timestamp")
        taken.append(score)


class Handler(BaseHTTPRequestHandler):
    platform: Platform

    def do_GET(self):
        self.answer(self.get)

    def do_POST(self):
        self.answer(self.post)

    def answer(self, work):
        self.platform.asked.append(f"{self.command} {self.path}")
        parts = urlsplit(self.path)
        try:
            submission = work(parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})
        except Refusal as refusal:
            status, message = refusal.args
            submission = (status, "application/json", json.dumps({"error": message}))
        if submission is None:
            self.close_connection = True
            return
        status, kind, text = submission
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        if status == 302:
            self.send_header("Location", f"{self.platform.url}/log-in")
        self.end_headers()
        self.wfile.write(text.encode())

    def get(self, path, asked):
        here = self.platform
        if path == "/auth":
            return 200, "text/html; charset=utf-8", here.auth(asked)
        if path == "/jwks":
            return 200, "application/json", json.dumps({"keys": [here.key.export_public(as_dict=True)]})
        if path == "/hub/lti13/jwks" and here.tool_keys:
            return 200, "application/json", json.dumps(here.tool_keys)
        if path == "/c/1/lineitems":
            here.allowed(self.headers, ITEMS)
            return 200, ITEM_LIST, json.dumps(here.line_items(asked))
        if path == "/log-in":
            return 200, "text/html", "<h1>Log in</h1>"
        raise Refusal(404, path)

    def post(self, path, asked):
        here = self.platform
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if path == "/token":
            form = {k: v[0] for k, v in parse_qs(body).items()}
            return 200, "application/json", json.dumps(here.token(form))
        if path == "/c/1/lineitems":
            here.allowed(self.headers, ITEMS)
            if self.headers["Content-Type"] != ITEM:
                raise Refusal(415, "no line item")
            return 201, ITEM, json.dumps(here.create(json.loads(body)))
        if path.endswith("/lineitem/scores"):
            fault = here.faults.pop(0) if here.faults else None
            if fault == "cut":
                return None
            if isinstance(fault, int):
                return (
                    fault,
                    "text/html" if fault == 302 else "application/json",
                    json.dumps({"error": "planted"}),
                )
            here.allowed(self.headers, SCORE)
            if self.headers["Content-Type"] != SCORE_TYPE:
                raise Refusal(415, "no score")
            here.take(f"{here.url}{path.removesuffix('/scores')}?type={asked.get('type')}", json.loads(body))
            return None if fault == "late" else (200, "application/json", "")
        raise Refusal(404, path)

    def log_message(self, *arguments):
        pass
