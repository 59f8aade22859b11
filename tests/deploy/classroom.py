"""A separate hub for tests, with a tiny course and simulated users."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
import websocket

from cluster.staff.hub import COURSE

__all__ = ["ASSIGNMENT", "COURSE", "PREFIX", "ROOT", "Hub", "Person", "ports", "tiny", "wait"]

ROOT = Path(__file__).parents[2]
ASSIGNMENT = "99_doubling"  # the tiny course's assignment
CONNECT = 180  # timeout in seconds, long enough for 30 kernels that start at the same moment on two cores
PREFIX = f"t{os.getpid() % 100000}-"  # prefix of the Unix users that are created and later removed


def tiny(folder: Path) -> Path:
    """Create in `folder` a repository like ours with one lecture and one tiny assignment, release the
    assignment, and return the repository's root.
    """
    from cluster.staff.release.release import release
    from tests.grading.courses import make_course

    root = make_course(folder)
    shutil.copytree(ROOT / "cluster", root / "cluster", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "lectures").mkdir()
    shutil.copy(ROOT / "lectures/01_convolution_as_gemm.ipynb", root / "lectures")
    shutil.copytree(ROOT / "lectures/figures", root / "lectures/figures")
    release(root)
    return root


class Hub:
    """A hub that is started, stopped and queried with its own commands, in a state folder under /var/tmp."""

    def __init__(self, course: Path, **settings: str | int | dict[str, object]):
        self.folder = Path(tempfile.mkdtemp(prefix="hub-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.state, self.course = self.folder / "hub", course
        values = {"port": ports(5), "grader": f"{PREFIX}grader", **settings}
        self.port, self.grader = values["port"], values["grader"]
        (self.folder / "settings.toml").write_text(_toml(values))
        self.roster = self.folder / "people.csv"

    def enrol(self, **people: str | tuple[str, int]) -> None:
        """Write the roster from name=role or name=(role, days of extension)."""
        lines = ["name,user,role,extension"]
        for name, role in people.items():
            role, days = role if isinstance(role, tuple) else (role, "")
            lines.append(f"{name.title()} Example,{PREFIX}{name},{role},{days}")
        self.roster.write_text("\n".join(lines) + "\n")

    def do(self, command: str, *more: object, status: int = 0) -> str:
        """Run one of the hub's commands, verify that its exit status is `status`, and return its output."""
        argv = [
            sys.executable,
            "-m",
            "cluster.staff.hub",
            command,
            *map(str, more),
            "--state",
            str(self.state),
        ]
        result = subprocess.run(argv, capture_output=True, text=True, timeout=600)
        assert result.returncode == status, result.stdout + result.stderr + self.logs()
        return result.stdout + result.stderr

    def start(self) -> str:
        """Start the parts that are not running; return the command's output."""
        more = ["--roster", self.roster, "--settings", self.folder / "settings.toml", "--course", self.course]
        return self.do("start", *more)

    def logs(self) -> str:
        """Return the last 3,000 characters of each log."""
        return "".join(f"\n== {p}\n{p.read_text()[-3000:]}" for p in (self.state / "logs").glob("*.out"))

    def password(self, name: str) -> str:
        """Return the initial password of a person on the roster."""
        with open(self.state / "passwords.csv") as f:
            return {row["user"]: row["password"] for row in csv.DictReader(f)}[PREFIX + name]

    def person(self, name: str) -> Person:
        """Return a simulated user for a person on the roster."""
        return Person(self, PREFIX + name, self.password(name))

    def run(
        self, user: str, *command: object, check: bool = True, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess:
        """Run a command of the hub's Python as a Unix user, as in a terminal of JupyterLab.

        cwd: the working folder, by default the user's home, or the course if the user is the grader.
        """
        home = Path(os.path.expanduser(f"~{user}"))
        env = {"PATH": f"{self.state}/python/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", **env}
        where = cwd or (home / "course" if user == self.grader else home)
        argv = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--", *map(str, command)]
        result = subprocess.run(argv, cwd=where, env=env, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0 or not check, result.stdout + result.stderr
        return result

    def grade(self, *command: object) -> str:
        """Run `python -m cluster grade …` as the grader would."""
        return self.run(self.grader, "python", "-m", "cluster", "grade", *command).stdout

    def marks(self) -> dict[str, float]:
        """Return {user: points} for graded submissions."""
        file = Path(os.path.expanduser(f"~{self.grader}")) / "marks.csv"
        self.grade("export", "--to", file)
        with open(file) as f:
            rows = list(csv.reader(f))[1:]  # student, names, e-mail, then the only assignment
        return {row[0]: float(row[-1]) for row in rows if row[-1]}

    def remove(self) -> None:
        """Stop the hub and remove everything that it has created. (If a start was refused, there are only
        files.)"""
        if (self.state / "started.json").exists():
            self.do("stop", "--purge", "--yes")
        shutil.rmtree(self.folder)


def _toml(values: dict[str, object]) -> str:
    """Return settings as TOML, with tables at the end. JSON's syntax for strings, numbers and lists is valid
    TOML."""
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items() if name not in tables]
    return "".join([*lines, *(f"[{name}]\n{_toml(table)}" for name, table in tables.items())])


def ports(n: int) -> int:
    """Return the first of n consecutive free loopback ports."""
    for first in range(21000 + os.getpid() % 2000 * 5, 32000, 5):
        with_all = []
        try:
            for port in range(first, first + n):
                s = socket.socket()
                with_all.append(s)
                s.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for s in with_all:
                s.close()
    raise RuntimeError("no free ports")


class Person(requests.Session):
    """A simulated user: a browser's session with its cookies, and the actions of the pages' buttons."""

    def __init__(self, hub: Hub, user: str, password: str):
        super().__init__()
        self.hub, self.user, self.password = hub, user, password
        self.base = f"http://127.0.0.1:{hub.port}"
        self.home = Path(os.path.expanduser(f"~{user}"))

    def log_in(self, password: str | None = None) -> requests.Response:
        """Submit the login form and return the final page."""
        page = self.get(f"{self.base}/hub/login")
        form = {"username": self.user, "password": password or self.password, "_xsrf": self.xsrf("/hub/")}
        assert page.ok, page.text
        return self.post(f"{self.base}/hub/login", data=form, params={"next": "/hub/home"})

    def xsrf(self, path: str) -> str:
        """Return the token for a page's path, from the cookie that the page's own script would send back."""
        results = [
            c.value for c in self.cookies if c.name == "_xsrf" and c.path.rstrip("/") == path.rstrip("/")
        ]
        return results[-1] if results else ""

    def spawn(self) -> Person:
        """Start the person's server and wait until it responds."""
        answer = self.post(f"{self.base}/hub/api/users/{self.user}/server", headers=self._headers("/hub/"))
        assert answer.status_code in (201, 202) or "already running" in answer.text, answer.text
        wait(f"server of {self.user}", self.ready, 300)
        page = self.get(f"{self.base}/user/{self.user}/lab")  # through the hub, which identifies the user
        assert page.ok and f"/user/{self.user}/lab" in page.url, (page.status_code, page.url)
        return self

    def begin(self) -> Person:
        """Start the person's server and wait for progress events, as the hub's page does, without polling."""
        answer = self.post(f"{self.base}/hub/api/users/{self.user}/server", headers=self._headers("/hub/"))
        assert answer.status_code in (201, 202) or "already running" in answer.text, answer.text
        news = f"{self.base}/hub/api/users/{self.user}/server/progress"
        with self.get(news, headers=self._headers("/hub/"), stream=True, timeout=180) as answer:
            for line in answer.iter_lines():
                event = json.loads(line[5:]) if line.startswith(b"data:") else {}
                assert not event.get("failed"), event
                if event.get("ready"):
                    break
        page = self.get(f"{self.base}/user/{self.user}/lab")
        assert page.ok and f"/user/{self.user}/lab" in page.url, (page.status_code, page.url)
        return self

    def end(self) -> None:
        """Stop the person's server, and wait until it has ended."""
        answer = self.delete(f"{self.base}/hub/api/users/{self.user}/server", headers=self._headers("/hub/"))
        assert answer.status_code in (202, 204), answer.text
        wait(f"end of the server of {self.user}", lambda: not self.server())

    def release(self, name: str = ASSIGNMENT) -> None:
        """Press Formgrader's buttons Generate and Release, as an instructor."""
        assert self.formgrader("GET", "/formgrader/manage_assignments").ok
        for step in ("assign", "release"):
            answer = self.formgrader("POST", f"/formgrader/api/assignment/{name}/{step}")
            assert answer.ok and answer.json()["success"], answer.text

    def ready(self) -> bool:
        """Return whether the hub reports the person's server as ready."""
        return bool(self.server().get("ready"))

    def server(self) -> dict[str, Any]:
        """Return the hub's record of the person's server, or {}."""
        answer = self.get(f"{self.base}/hub/api/users/{self.user}", headers=self._headers("/hub/"))
        return (answer.json().get("servers") or {}).get("", {}) if answer.ok else {}

    def mine(self, method: str, path: str, **more: Any) -> requests.Response:
        """Send a request to the person's server."""
        return self.at(f"/user/{self.user}", method, path, **more)

    def cell(self, code: str, kernel: str | None = None, seconds: float = 120) -> tuple[str, str]:
        """Run a cell in a kernel of the person's server, by default a new one; return (kernel ID, output)."""
        if kernel is None:
            answer = self.mine("POST", "/api/kernels", json={"name": "python3"})
            assert answer.status_code == 201, answer.text
            kernel = answer.json()["id"]
        with contextlib.closing(self._kernel(kernel)) as ws:
            ws.settimeout(seconds)
            return kernel, self._answer(ws, self._ask(ws, code))

    def start_cell(self, code: str, kernel: str) -> None:
        """Run a cell, and wait only until the kernel has started it."""
        with contextlib.closing(self._kernel(kernel)) as ws:
            sent, state = self._ask(ws, code), ""
            while state != "busy":
                message = json.loads(ws.recv())
                mine = message["parent_header"].get("msg_id") == sent
                state = message["content"].get("execution_state") if mine else ""

    def _kernel(self, kernel: str) -> websocket.WebSocket:
        return self.connect(f"/user/{self.user}/api/kernels/{kernel}/channels")

    def _ask(self, ws: websocket.WebSocket, code: str) -> str:
        """Send a cell; return the id of the message."""
        head = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
        head |= {"username": self.user, "session": uuid.uuid4().hex}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        empty = {"parent_header": {}, "metadata": {}, "buffers": []}
        ws.send(json.dumps({"header": head, "content": content, "channel": "shell", **empty}))
        return head["msg_id"]

    def _answer(self, ws: websocket.WebSocket, sent: str) -> str:
        printed = ""
        while True:
            message = json.loads(ws.recv())
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            assert message["msg_type"] != "error", "\n".join(content["traceback"])
            printed += content["text"] if message["msg_type"] == "stream" else ""
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed

    def type(
        self, line: str, done: Callable[[str], bool], seconds: float = 600
    ) -> tuple[websocket.WebSocket, str]:
        """Type a line into a terminal of Formgrader's Lab, and wait until `done` of the terminal's text is
        true; return (the terminal's web socket, the text).
        """
        answer = self.formgrader("POST", "/api/terminals")
        assert answer.ok, answer.text
        ws = self.connect(f"/services/{COURSE}/terminals/websocket/{answer.json()['name']}")
        ws.settimeout(600)
        ws.send(json.dumps(["stdin", line + "\n"]))
        text, deadline = "", time.monotonic() + seconds
        while not done(text):
            assert time.monotonic() < deadline, f"the terminal says:\n{text}"
            kind, *more = json.loads(ws.recv())
            text += more[0] if kind == "stdout" else ""
        return ws, text

    def connect(self, path: str) -> websocket.WebSocket:
        """Open a page's web socket, with the cookies that a browser would send."""
        host = f"{'wss' if self.base.startswith('https') else 'ws'}://{self.base.partition('://')[2]}"
        url = requests.Request("GET", f"{self.base}{path}")
        sent = self.prepare_request(url).headers.get("Cookie", "")
        trust = {"ca_certs": self.verify} if isinstance(self.verify, str) else {}
        return websocket.create_connection(f"{host}{path}", cookie=sent, timeout=CONNECT, sslopt=trust)

    def formgrader(self, method: str, path: str, **more: Any) -> requests.Response:
        """Send a request to the grader's server."""
        return self.at(f"/services/{COURSE}", method, path, **more)

    def at(self, prefix: str, method: str, path: str, **more: Any) -> requests.Response:
        """Send a request to a URL below a prefix of the hub."""
        return self.request(
            method, f"{self.base}{prefix}{path}", headers=self._headers(prefix), timeout=120, **more
        )

    def solve(self, answer: str) -> None:
        """Fetch the tiny assignment if it has not been fetched yet, and save an answer in its cell."""
        if not (self.home / "assignments" / ASSIGNMENT).exists():
            self.assignment("fetch", ASSIGNMENT)
        path = f"/api/contents/assignments/{ASSIGNMENT}/doubling.ipynb"
        notebook = self.mine("GET", path).json()["content"]
        cell = next(c for c in notebook["cells"] if "def double" in c["source"])
        cell["source"] = f'def double(x):\n    """Twice x."""\n    {answer}\n'
        saved = self.mine("PUT", path, json={"type": "notebook", "content": notebook})
        assert saved.ok, saved.text

    def assignment(self, action: str, name: str) -> Any:
        """Press a button in the assignment list and return the response."""
        answer = self.mine(
            "POST", f"/assignments/{action}", json={"course_id": COURSE, "assignment_id": name}
        )
        assert answer.ok, answer.text
        found = answer.json()
        assert found["success"], found
        return found["value"]

    def _headers(self, prefix: str) -> dict[str, str]:
        return {"X-XSRFToken": self.xsrf(prefix), "Referer": self.base + prefix}


def wait(what: str, true: Callable[[], Any], seconds: float = 240) -> Any:
    """Wait until `true()` returns a true value, and return this value."""
    deadline = time.monotonic() + seconds
    while not (result := true()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.2)
    return result
