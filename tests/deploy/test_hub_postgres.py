"""Test PostgreSQL in the state folder: the gradebook, access rights, dumping and loading, and a hub that uses
it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cluster.staff import services
from cluster.staff.hub import config_files, postgres, users
from cluster.staff.hub.hub_settings import HubError, Settings
from cluster.staff.services import start_group
from cluster.system import processes
from tests.deploy.classroom import ASSIGNMENT, tiny

from .hub import STUDENTS, grading, kill, mended, opened, person

SETTINGS = Settings(database="postgresql", grader="nobody")  # a Unix user that exists in every Debian


def missing():
    """Return why PostgreSQL cannot be started here, or None."""
    if os.getuid():
        return "only root can start PostgreSQL as its own user"
    try:
        postgres.programs()
    except HubError as e:
        return str(e)
    return None


@pytest.fixture(scope="module")
def state():
    """Yield the folder of a running PostgreSQL. If it cannot be started, skip the tests; in CI as root,
    fail."""
    if why := missing():
        if os.environ.get("CI") == "true" and os.getuid() == 0:
            pytest.fail(f"PostgreSQL is part of CI: {why}")
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "logs").mkdir()
    try:
        postgres.prepare(folder, SETTINGS.grader)
        start_group([postgres.daemon(folder)], folder, lambda line: None)
        postgres.roles(folder)
        yield folder
    finally:
        processes.end([r for r in services.process_ledger(folder).all().values() if processes.alive(r)])
        shutil.rmtree(folder)


BOOK = """
import sys
from nbgrader.api import Gradebook
with Gradebook(sys.argv[1], "course") as book:
    for name in sys.argv[2:]:
        book.update_or_create_student(name, last_name="Example")
    print(*sorted(f"{s.id}:{s.last_name}" for s in book.students))
"""


def book(state, *students):
    """Add students to the gradebook as root, with this Python's programs on PATH; return all students in
    it."""
    url = postgres.url(SETTINGS, state, "gradebook")
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    command = [sys.executable, "-W", "ignore", "-c", BOOK, url, *students]
    result = subprocess.run(command, env=env, capture_output=True, text=True, cwd=state)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.split()


def psql(state, user, role, database):
    words = [
        postgres.programs() / "psql",
        "-h",
        state / "database.run",
        "-U",
        role,
        "-d",
        database,
        "-c",
        "SELECT 1",
    ]
    command = [*users.command_prefix(user), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env={"PATH": "/usr/bin:/bin"})


@pytest.mark.servers
def test_the_gradebook_is_in_it(state):
    """Does nbgrader create its tables in PostgreSQL and read back what it wrote? Does the site's settings
    file name this database?"""
    assert book(state, "ada") == ["ada:Example"]
    assert book(state, "ben") == ["ada:Example", "ben:Example"]
    url = postgres.url(SETTINGS, state, "gradebook")
    assert f"db_url = {url!r}" in config_files.site(SETTINGS, state, url)


@pytest.mark.servers
def test_only_its_users_may_enter(state):
    """Is the hub's database open only to root, and the gradebook only to the grader? Is PostgreSQL closed to
    TCP connections?"""
    assert psql(state, "root", "hub", "hub").returncode == 0
    assert psql(state, SETTINGS.grader, "gradebook", "gradebook").returncode == 0
    for user, role in (
        (SETTINGS.grader, "hub"),
        ("games", "gradebook"),
        ("games", "hub"),
        ("games", "postgres"),
    ):
        result = psql(state, user, role, "hub")
        assert result.returncode and "authentication failed" in result.stderr, (user, role, result.stderr)
    assert postgres.ask(state, postgres.OWNER, "postgres", "SHOW listen_addresses").strip() == ""


@pytest.mark.servers
def test_a_dump_brings_it_back(state):
    """Does loading a dump undo later changes of the gradebook? Does loading an incomplete dump change
    nothing?"""
    before = book(state)
    text = postgres.dump(SETTINGS, state, "gradebook")
    book(state, "cem")
    postgres.load(SETTINGS, state, "gradebook", text)
    assert book(state) == before
    with pytest.raises(HubError, match="psql"):
        postgres.load(SETTINGS, state, "gradebook", text[: len(text) // 2] + b"\nSELECT nothing;\n")
    assert book(state) == before


@pytest.mark.servers
def test_preparing_twice_keeps_what_is_there(state):
    """Does a second start of PostgreSQL keep the gradebook's contents?"""
    before = book(state)
    postgres.prepare(state, SETTINGS.grader)
    start_group([postgres.daemon(state)], state, lambda line: None)
    postgres.roles(state)
    assert book(state) == before


def test_a_sites_own_server():
    """If the settings name a site's own PostgreSQL server, are its databases `hub` and `gradebook` used?"""
    site = Settings(database="postgresql://user:word@db.example.org:5432")
    at = "postgresql+psycopg://user:word@db.example.org:5432"
    assert [postgres.url(site, Path("/s"), n) for n in postgres.ROLES] == [f"{at}/hub", f"{at}/gradebook"]


@pytest.mark.hub
@pytest.mark.servers
@pytest.mark.timeout(1200)
def test_the_database_is_killed_while_a_class_is_graded(tmp_path):
    """If PostgreSQL is killed during a grading run, do servers continue, and do grading, backup, restore and
    feedback work after `start` has repaired it?"""
    with opened(tiny(tmp_path), missing(), database="postgresql") as hub:
        people = [person(hub, name).begin() for name in STUDENTS]
        for one in people:
            one.solve("return 2 * x")
            one.assignment("submit", ASSIGNMENT)
        assert "3 collected" in hub.grade("collect", ASSIGNMENT)
        ines = person(hub, "ines")
        assert ines.formgrader("GET", "/formgrader/manage_assignments").ok
        terminal = grading(ines)
        kill(hub, "postgres")
        assert mended(hub, "postgres") == {"postgres", "hub"}
        terminal.close()
        hub.grade("run", ASSIGNMENT, "--backend", "local")
        whole = {person.user: 3 for person in people}
        assert hub.marks() == whole
        assert people[0].cell("print(1)")[1] == "1\n", "servers go on"
        assert person(hub, "ada").ready(), "log-in, and what the hub knows of servers"
        file = hub.folder / "backup.tar.gz"
        hub.do("backup", file)
        postgres.ask(hub.state, postgres.OWNER, "gradebook", "DELETE FROM grade")
        assert hub.marks() != whole
        hub.do("restore", file)
        assert hub.marks() == whole
        for step in ("generate_feedback", "release_feedback"):
            answer = ines.formgrader("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/{step}").json()
            assert answer["success"], answer
        people[0].assignment("fetch_feedback", ASSIGNMENT)
        assert len(list(people[0].home.glob(f"assignments/{ASSIGNMENT}/feedback/*/doubling.html"))) == 1
