"""A hub of the tests' own, and people who use it over HTTP as a browser does."""

from __future__ import annotations

import csv
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import requests

from cluster.deploy.hub import COURSE

ROOT = Path(__file__).parents[2]
PREFIX = f"t{os.getpid() % 100000}-"  # of the Unix users that are made, and removed again


class Hub:
    """Start, stop and ask it by its own commands, in a state folder under /var/tmp."""

    def __init__(self, course: Path, **settings):
        self.folder = Path(tempfile.mkdtemp(prefix="hub-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.state, self.course = self.folder / "hub", course
        self.port, self.grader = ports(4), f"{PREFIX}grader"
        values = {"port": self.port, "grader": self.grader, **settings}
        lines = [f"{k} = {v}" if isinstance(v, int) else f'{k} = "{v}"' for k, v in values.items()]
        (self.folder / "settings.toml").write_text("\n".join(lines))
        self.roster = self.folder / "people.csv"

    def enrol(self, **people: str):
        """Write the roster: name=role or name=(role, days)."""
        lines = ["name,user,role,extension"]
        for name, role in people.items():
            role, days = role if isinstance(role, tuple) else (role, "")
            lines.append(f"{name.title()} Example,{PREFIX}{name},{role},{days}")
        self.roster.write_text("\n".join(lines) + "\n")

    def do(self, command, *more, status=0):
        argv = [
            sys.executable,
            "-m",
            "cluster.deploy.hub",
            command,
            *map(str, more),
            "--state",
            str(self.state),
        ]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=240)
        assert said.returncode == status, said.stdout + said.stderr + self.logs()
        return said.stdout + said.stderr

    def start(self):
        more = ["--roster", self.roster, "--settings", self.folder / "settings.toml", "--course", self.course]
        return self.do("start", *more)

    def logs(self):
        return "".join(f"\n== {p}\n{p.read_text()[-3000:]}" for p in (self.state / "logs").glob("*.out"))

    def password(self, name):
        with open(self.state / "passwords.csv") as f:
            return {row["user"]: row["password"] for row in csv.DictReader(f)}[PREFIX + name]

    def person(self, name):
        return Person(self, PREFIX + name, self.password(name))

    def run(self, user, *command, check=True, **env):
        """Run a command of the hub's Python as a Unix user, as in a terminal of JupyterLab."""
        home = Path(os.path.expanduser(f"~{user}"))
        env = {"PATH": f"{self.state}/python/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", **env}
        where = home / "course" if user == self.grader else home
        argv = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--", *map(str, command)]
        said = subprocess.run(argv, cwd=where, env=env, capture_output=True, text=True, timeout=120)
        assert said.returncode == 0 or not check, said.stdout + said.stderr
        return said

    def grade(self, *command):
        """`python -m cluster grade …` as the grader types it."""
        return self.run(self.grader, "python", "-m", "cluster", "grade", *command).stdout

    def remove(self):
        if self.state.exists():
            self.do("stop", "--purge")
        shutil.rmtree(self.folder)


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

    def ready(self):
        said = self.get(f"{self.base}/hub/api/users/{self.user}", headers=self._headers("/hub/"))
        return said.ok and (said.json().get("servers") or {}).get("", {}).get("ready")

    def mine(self, method, path, **more):
        """A request to the own server."""
        return self.at(f"/user/{self.user}", method, path, **more)

    def formgrader(self, method, path, **more):
        return self.at(f"/services/{COURSE}", method, path, **more)

    def at(self, prefix, method, path, **more):
        return self.request(
            method, f"{self.base}{prefix}{path}", headers=self._headers(prefix), timeout=120, **more
        )

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


def ports(n):
    """The first of n neighbouring ports of loopback that are free."""
    for first in range(21000 + os.getpid() % 2000 * 4, 32000, 4):
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
