"""People who use a hub over HTTP and web sockets, as a browser does."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import requests
import websocket

from cluster.deploy.hub import COURSE

if TYPE_CHECKING:
    from .classroom import Hub

ASSIGNMENT = "99_doubling"  # of the tiny course


class Person(requests.Session):
    """Somebody with a browser: cookies, and nbgrader's buttons."""

    def __init__(self, hub: Hub, user: str, password: str):
        super().__init__()
        self.hub, self.user, self.password = hub, user, password
        self.base = f"http://127.0.0.1:{hub.port}"
        self.home = Path(os.path.expanduser(f"~{user}"))

    def log_in(self, password=None):
        """The answer to the form; its last page."""
        page = self.get(f"{self.base}/hub/login")
        form = {"username": self.user, "password": password or self.password, "_xsrf": self.xsrf("/hub/")}
        assert page.ok, page.text
        return self.post(f"{self.base}/hub/login", data=form, params={"next": "/hub/home"})

    def xsrf(self, path):
        """The cookie of a page's own path, as its script sends it back."""
        found = [
            c.value for c in self.cookies if c.name == "_xsrf" and c.path.rstrip("/") == path.rstrip("/")
        ]
        return found[-1] if found else ""

    def spawn(self):
        """Start the own server and wait until it answers."""
        said = self.post(f"{self.base}/hub/api/users/{self.user}/server", headers=self._headers("/hub/"))
        assert said.status_code in (201, 202) or "already running" in said.text, said.text
        wait(f"server of {self.user}", self.ready, 120)
        page = self.get(f"{self.base}/user/{self.user}/lab")  # by way of the hub, which says who it is
        assert page.ok and f"/user/{self.user}/lab" in page.url, (page.status_code, page.url)
        return self

    def begin(self):
        """Start the own server and wait as the hub's page does: for news of its progress, not by asking."""
        said = self.post(f"{self.base}/hub/api/users/{self.user}/server", headers=self._headers("/hub/"))
        assert said.status_code in (201, 202) or "already running" in said.text, said.text
        news = f"{self.base}/hub/api/users/{self.user}/server/progress"
        with self.get(news, headers=self._headers("/hub/"), stream=True, timeout=180) as said:
            for line in said.iter_lines():
                event = json.loads(line[5:]) if line.startswith(b"data:") else {}
                assert not event.get("failed"), event
                if event.get("ready"):
                    break
        page = self.get(f"{self.base}/user/{self.user}/lab")
        assert page.ok and f"/user/{self.user}/lab" in page.url, (page.status_code, page.url)
        return self

    def end(self):
        """Stop the own server, and wait until it has ended."""
        said = self.delete(f"{self.base}/hub/api/users/{self.user}/server", headers=self._headers("/hub/"))
        assert said.status_code in (202, 204), said.text
        wait(f"end of the server of {self.user}", lambda: not self.server())

    def release(self, name=ASSIGNMENT):
        """As an instructor: Formgrader's buttons Generate and Release."""
        assert self.formgrader("GET", "/formgrader/manage_assignments").ok
        for step in ("assign", "release"):
            said = self.formgrader("POST", f"/formgrader/api/assignment/{name}/{step}")
            assert said.ok and said.json()["success"], said.text

    def ready(self):
        return self.server().get("ready")

    def server(self):
        """What the hub says of the own server; {} where there is none."""
        said = self.get(f"{self.base}/hub/api/users/{self.user}", headers=self._headers("/hub/"))
        return (said.json().get("servers") or {}).get("", {}) if said.ok else {}

    def mine(self, method, path, **more):
        """A request to the own server."""
        return self.at(f"/user/{self.user}", method, path, **more)

    def cell(self, code, kernel=None, seconds=120):
        """Run a cell in a kernel of the own server, by default a new one; returns (id, what it printed)."""
        if kernel is None:
            said = self.mine("POST", "/api/kernels", json={"name": "python3"})
            assert said.status_code == 201, said.text
            kernel = said.json()["id"]
        with contextlib.closing(self._kernel(kernel)) as ws:
            ws.settimeout(seconds)
            return kernel, self._answer(ws, self._ask(ws, code))

    def start_cell(self, code, kernel):
        """Run a cell, and wait only until the kernel is at it."""
        with contextlib.closing(self._kernel(kernel)) as ws:
            asked, state = self._ask(ws, code), ""
            while state != "busy":
                said = json.loads(ws.recv())
                mine = said["parent_header"].get("msg_id") == asked
                state = said["content"].get("execution_state") if mine else ""

    def _kernel(self, kernel):
        return self.connect(f"/user/{self.user}/api/kernels/{kernel}/channels")

    def _ask(self, ws, code):
        """Send a cell; the id of the message."""
        head = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
        head |= {"username": self.user, "session": uuid.uuid4().hex}
        asked = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        asked |= {"allow_stdin": False, "stop_on_error": True}
        empty = {"parent_header": {}, "metadata": {}, "buffers": []}
        ws.send(json.dumps({"header": head, "content": asked, "channel": "shell", **empty}))
        return head["msg_id"]

    def _answer(self, ws, asked):
        printed = ""
        while True:
            said = json.loads(ws.recv())
            if said["parent_header"].get("msg_id") != asked:
                continue
            content = said["content"]
            assert said["msg_type"] != "error", "\n".join(content["traceback"])
            printed += content["text"] if said["msg_type"] == "stream" else ""
            if said["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed

    def type(self, line, done, seconds=90):
        """Type a line into a terminal of Formgrader's Lab; (its web socket, its text) once `done(text)`."""
        said = self.formgrader("POST", "/api/terminals")
        assert said.ok, said.text
        ws = self.connect(f"/services/{COURSE}/terminals/websocket/{said.json()['name']}")
        ws.settimeout(60)
        ws.send(json.dumps(["stdin", line + "\n"]))
        text, deadline = "", time.monotonic() + seconds
        while not done(text):
            assert time.monotonic() < deadline, f"the terminal says:\n{text}"
            kind, *more = json.loads(ws.recv())
            text += more[0] if kind == "stdout" else ""
        return ws, text

    def connect(self, path):
        """A web socket of a page's, with the cookies that a browser would send along."""
        host = f"{'wss' if self.base.startswith('https') else 'ws'}://{self.base.partition('://')[2]}"
        url = requests.Request("GET", f"{self.base}{path}")
        sent = self.prepare_request(url).headers.get("Cookie", "")
        trust = {"ca_certs": self.verify} if isinstance(self.verify, str) else {}
        return websocket.create_connection(f"{host}{path}", cookie=sent, timeout=60, sslopt=trust)

    def formgrader(self, method, path, **more):
        return self.at(f"/services/{COURSE}", method, path, **more)

    def at(self, prefix, method, path, **more):
        return self.request(
            method, f"{self.base}{prefix}{path}", headers=self._headers(prefix), timeout=120, **more
        )

    def solve(self, answer):
        """Fetch the tiny assignment, where it is not there yet, and save an answer in its cell."""
        if not (self.home / "assignments" / ASSIGNMENT).exists():
            self.assignment("fetch", ASSIGNMENT)
        path = f"/api/contents/assignments/{ASSIGNMENT}/doubling.ipynb"
        notebook = self.mine("GET", path).json()["content"]
        cell = next(c for c in notebook["cells"] if "def double" in c["source"])
        cell["source"] = f'def double(x):\n    """Twice x."""\n    {answer}\n'
        said = self.mine("PUT", path, json={"type": "notebook", "content": notebook})
        assert said.ok, said.text

    def assignment(self, action, name):
        """A button of the assignment list; what it answers."""
        said = self.mine("POST", f"/assignments/{action}", json={"course_id": COURSE, "assignment_id": name})
        assert said.ok, said.text
        found = said.json()
        assert found["success"], found
        return found["value"]

    def _headers(self, prefix):
        return {"X-XSRFToken": self.xsrf(prefix), "Referer": self.base + prefix}


def wait(what, true, seconds=60):
    """Wait until `true()`; returns what it returned."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.2)
    return found
