"""Test a hub whose settings name a PostgreSQL server, which the test starts."""

import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from cluster.staff.hub import backup, users
from cluster.staff.hub.hub_settings import HubError, Settings
from tests.deploy.classroom import ASSIGNMENT, tiny

from .hub import opened, person, ports, skip_or_fail, wait

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@contextlib.contextmanager
def server():
    """Yield (URL, a function that runs a statement in a database) of an empty server on loopback."""
    as_postgres = [*users.command_prefix("postgres"), "env", "-i", "PATH=/usr/bin:/bin"]

    def run(program, *words):
        command = [*as_postgres, PROGRAMS[-1] / program, *words]
        return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout

    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        number, port = users.unix_user("postgres").pw_uid, str(ports(1))
        os.chown(folder, number, number)
        run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "-D", f"{folder}/data")
        options = ["-D", f"{folder}/data", "-k", folder, "-p", port, "-c", "listen_addresses=127.0.0.1"]
        process = subprocess.Popen([*as_postgres, PROGRAMS[-1] / "postgres", *options], cwd="/")
        try:
            wait("PostgreSQL", Path(folder, f".s.PGSQL.{port}").exists)

            def ask(database, statement):
                return run("psql", "-h", folder, "-p", port, "-AtX", "-d", database, "-c", statement)

            for name in ("hub", "gradebook"):
                ask("postgres", f"CREATE DATABASE {name}")
            yield f"postgresql://postgres@127.0.0.1:{port}", ask
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.hub
@pytest.mark.servers
@pytest.mark.timeout(1200)
def test_a_class_is_graded_with_postgresql(tmp_path):
    """If the settings name a PostgreSQL server, do grading, backup, restore and feedback use it?"""
    skip_or_fail("no PostgreSQL" if not PROGRAMS else os.getuid() and "not root")
    with server() as (url, ask), opened(tiny(tmp_path), database=url) as hub:
        ada = person(hub, "ada").begin()
        ada.solve("return 2 * x")
        ada.assignment("submit", ASSIGNMENT)
        hub.grade("collect", ASSIGNMENT)
        hub.grade("run", ASSIGNMENT, "--backend", "local")
        assert hub.marks() == {ada.user: 3}
        file = hub.folder / "backup.tar.gz"
        hub.do("backup", file)
        ask("gradebook", "DELETE FROM grade")
        assert hub.marks() != {ada.user: 3}
        hub.do("restore", file)
        assert hub.marks() == {ada.user: 3} and re.search("ada", ask("hub", "SELECT name FROM users"))
        hub.grade("give-back", ASSIGNMENT)
        ada.assignment("fetch_feedback", ASSIGNMENT)
        assert len(list(ada.home.glob(f"assignments/{ASSIGNMENT}/feedback/*/doubling.html"))) == 1


def test_without_its_programs_there_is_no_backup(monkeypatch, tmp_path):
    """If pg_dump is missing, does the error name it?"""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HubError, match="pg_dump"):
        backup._book(tmp_path, Settings(database="postgresql://x@127.0.0.1"), tmp_path)
