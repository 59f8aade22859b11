"""A hub of one's own for benches and tests, with the tiny course."""

from __future__ import annotations

import csv
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster.deploy.hub import COURSE

from .people import ASSIGNMENT, Person, wait

__all__ = ["ASSIGNMENT", "COURSE", "PREFIX", "ROOT", "Hub", "Person", "ports", "tiny", "wait"]

ROOT = Path(__file__).parents[2]
PREFIX = f"t{os.getpid() % 100000}-"  # of the Unix users that are made, and removed again


def tiny(place: Path) -> Path:
    """A repository like ours in `place`, with one lecture and one tiny assignment, released; its root."""
    from cluster.grading.release import release

    spec = importlib.util.spec_from_file_location("tiny", ROOT / "tests/grading/conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    root = module.make_course(place)
    shutil.copytree(ROOT / "cluster", root / "cluster", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "lectures").mkdir()
    shutil.copy(ROOT / "lectures/01_convolution_as_gemm.ipynb", root / "lectures")
    shutil.copytree(ROOT / "lectures/figures", root / "lectures/figures")
    release(root)
    return root


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

    def marks(self):
        """{user: points} of what is graded."""
        file = Path(os.path.expanduser(f"~{self.grader}")) / "marks.csv"
        self.grade("export", "--to", file)
        with open(file) as f:
            rows = list(csv.reader(f))[1:]  # student, names, mail, then the one assignment
        return {row[0]: float(row[-1]) for row in rows if row[-1]}

    def remove(self):
        if self.state.exists():
            self.do("stop", "--purge", "--yes")
        shutil.rmtree(self.folder)


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
