"""PostgreSQL for hub and gradebook: in the state folder, without ports and passwords, or a site's server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from cluster.system import files

from ..services import Daemon
from .hub_settings import HubError, Settings

OWNER = "postgres"  # Debian's package creates this user
ROLES = ("hub", "gradebook")  # each role has a database of the same name


def url(settings: Settings, state: Path, name: str) -> str | None:
    """Return SQLAlchemy's URL of a database, or None if SQLite is used."""
    if settings.database == "sqlite":
        return None
    if settings.database == "postgresql":
        return f"postgresql+psycopg://{name}@/{name}?host={state}/database.run"
    return f"postgresql+psycopg://{settings.database.partition('://')[2]}/{name}"


def programs() -> Path:
    """Return the folder of PostgreSQL's newest programs, which Debian does not put on the path."""
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: float(p.parts[-3]))
    if paths:
        return paths[-1].parent
    if there := shutil.which("postgres"):
        return Path(there).resolve().parent
    raise HubError("database = 'postgresql', but PostgreSQL is not installed: apt-get install postgresql")


def prepare(state: Path, grader: str) -> None:
    """Create an empty cluster once; root may use the hub's role, and the grader the gradebook's."""
    data, run = state / "database", state / "database.run"
    run.mkdir(mode=0o755, exist_ok=True)
    shutil.chown(run, OWNER, OWNER)
    if not data.exists():
        temp = state / "database.new"
        shutil.rmtree(temp, ignore_errors=True)
        temp.mkdir(mode=0o700)
        shutil.chown(temp, OWNER, OWNER)
        _as(
            OWNER,
            str(programs() / "initdb"),
            "--auth=peer",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "-D",
            str(temp),
        )
        temp.rename(data)
    files.write(data / "pg_hba.conf", "local all all peer map=course\n", mode=0o644)
    maps = [(OWNER, OWNER), ("root", "hub"), ("root", "gradebook"), (grader, "gradebook")]
    files.write(data / "pg_ident.conf", "".join(f"course {user} {role}\n" for user, role in maps), mode=0o644)


def daemon(state: Path) -> Daemon:
    """Return the daemon postgres, which listens only on a socket in the state folder."""
    data, run = state / "database", state / "database.run"
    argv = [
        *_setpriv(OWNER),
        str(programs() / "postgres"),
        "-D",
        str(data),
        "-k",
        str(run),
        "-c",
        "listen_addresses=",
    ]
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    ready = lambda: subprocess.run(  # noqa: E731
        [str(programs() / "pg_isready"), "-q", "-h", str(run)], env=env, capture_output=True
    ).returncode == 0  # fmt: skip
    return Daemon("postgres", argv, env, state / "logs/postgres.out", ready)


def roles(state: Path) -> None:
    """Create the two roles and their databases."""
    databases = ask(state, OWNER, "postgres", "SELECT datname FROM pg_database")
    for name in ROLES:
        if name not in databases.split():
            ask(state, OWNER, "postgres", f"CREATE ROLE {name} LOGIN")
            ask(state, OWNER, "postgres", f"CREATE DATABASE {name} OWNER {name}")


def ask(state: Path, user: str, database: str, statement: str) -> str:
    """Return psql's answer to one statement, as plain rows."""
    arguments = [
        "-h",
        f"{state}/database.run",
        "-d",
        database,
        "-AtX",
        "-v",
        "ON_ERROR_STOP=1",
        "-c",
        statement,
    ]
    return _as(user, str(programs() / "psql"), *arguments)


def dump(settings: Settings, state: Path, name: str) -> bytes:
    """Dump one database as SQL that recreates it."""
    return _pipe("pg_dump", ["--clean", "--if-exists", "--no-owner", _plain(settings, state, name)])


def load(settings: Settings, state: Path, name: str, text: bytes) -> None:
    """Replace a database by a dump in one transaction."""
    _pipe(
        "psql", ["-qX", "-v", "ON_ERROR_STOP=1", "--single-transaction", _plain(settings, state, name)], text
    )


def _plain(settings: Settings, state: Path, name: str) -> str:
    return str(url(settings, state, name)).replace("+psycopg", "")


def _pipe(program: str, words: list[str], given: bytes = b"") -> bytes:
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    result = subprocess.run(
        [str(programs() / program), *words], input=given, capture_output=True, env=env, cwd="/"
    )
    if result.returncode:
        raise HubError(f"{program}: {result.stderr.decode(errors='replace').strip()[-500:]}")
    return result.stdout


def _as(user: str, *command: str) -> str:
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    result = subprocess.run([*_setpriv(user), *command], capture_output=True, text=True, env=env, cwd="/")
    if result.returncode:
        raise HubError(f"{os.path.basename(command[0])}: {(result.stderr or result.stdout).strip()[-500:]}")
    return result.stdout


def _setpriv(user: str) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]
