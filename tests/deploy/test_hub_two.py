"""Test two hubs on one machine, for two courses or two terms, with people who are on both rosters."""

import os

import pytest

from cluster.staff.hub import daemons
from tests.deploy.classroom import ASSIGNMENT, Person, tiny

from .hub import COURSE, PREFIX, Hub, ports

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200), pytest.mark.hub]
FOLDER = "autumn"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def first(course):
    """Yield the first hub, which creates the users ada, ben and ines. If it cannot be started, skip the
    tests; in CI, fail."""
    if why := daemons.missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"the hub is part of CI: {why}")
        pytest.skip(f"no hub can be started here: {why}")
    hub = Hub(course)
    try:
        hub.enrol(ada="student", ben="student", ines="instructor")
        hub.start()
        yield hub
    finally:
        hub.remove()


@pytest.fixture(scope="module")
def second(course, first):
    """Yield the hub of another course, for ada and ines from the first hub and for cem, who is only on this
    one."""
    hub = Hub(course, port=ports(8) + 4, grader=f"{PREFIX}grader2", folder=FOLDER)
    try:
        hub.enrol(ada="student", cem="student", ines="instructor")
        hub.start()
        yield hub
    finally:
        hub.remove()


def ada_of(hub, first):
    """Log in to a hub as ada, with the password from the first hub; return the logged-in person."""
    ada = Person(hub, f"{PREFIX}ada", first.password("ada"))
    ada.home = ada.home / (FOLDER if hub is not first else "")
    assert ada.log_in().url.endswith("/hub/home")
    return ada


def released(hub, first):
    ines = Person(hub, f"{PREFIX}ines", first.password("ines"))
    ines.log_in()
    ines.release()


def refused(hub, setting):
    """Run `start` with a changed setting, which it must refuse; restore the settings and return the error
    message."""
    settings = hub.folder / "settings.toml"
    before, key = settings.read_text(), setting.partition(" =")[0]
    lines = [line for line in before.splitlines() if not line.startswith(f"{key} =")]
    settings.write_text("\n".join([*lines, setting]))
    more = ["--roster", hub.roster, "--settings", settings, "--course", hub.course]
    try:
        return hub.do("start", *more, status=1)
    finally:
        settings.write_text(before)


def test_what_both_would_use_is_refused(course, first):
    """Is a second hub refused if it uses the first one's ports, grader or home folder, and does the message
    say how to fix it?"""
    hub = Hub(course, port=ports(8) + 4, grader=f"{PREFIX}grader2", folder=FOLDER)
    try:
        hub.enrol(ada="student", ines="instructor")
        assert f"the hub in {first.state} has {first.port}" in refused(hub, f"port = {first.port + 2}")
        assert f"{PREFIX}ada is on the roster of the hub in {first.state}, too" in refused(hub, 'folder = ""')
        assert "is used by another hub" in refused(hub, f'grader = "{first.grader}"')
        assert os.readlink(os.path.expanduser(f"~{PREFIX}ada/course")) == str(first.state / "course")
    finally:
        hub.remove()


def test_submissions_and_scores_are_separate(first, second):
    """If a student submits different answers in two courses, are files, submissions, scores and start pages
    separate?"""
    marks = {}
    for hub, answer in ((first, "return 2 * x"), (second, "return 3 * x")):
        released(hub, first)
        ada = ada_of(hub, first).begin()
        assert "<li>submitted" not in ada.mine("GET", "/course").text
        ada.solve(answer)
        ada.assignment("submit", ASSIGNMENT)
        listed = ada.mine("GET", "/assignments", params={"course_id": COURSE}).json()["value"]
        [one] = [entry for entry in listed if entry["status"] == "submitted"]
        assert len(one["submissions"]) == 1
        shown = [entry["name"] for entry in ada.mine("GET", "/api/contents/").json()["content"]]
        assert {"assignments", "course"} <= set(shown)
        assert (FOLDER in shown) == (hub is first), "the first shows the home, as ever"
        assert ada.cell("import cluster; print(cluster.__file__)")[1].startswith(f"{hub.state}/course/")
        assert "1 collected" in hub.grade("collect", ASSIGNMENT)
        hub.grade("run", ASSIGNMENT, "--backend", "local")
        marks[hub] = hub.marks()
    assert marks == {first: {f"{PREFIX}ada": 3}, second: {f"{PREFIX}ada": 0}}
    assert first.marks() == marks[first]


def test_off_one_roster_and_not_off_the_other(first, second):
    """If a student is removed from one hub's roster, are server and login closed on that hub only?"""
    there, here = ada_of(second, first).begin(), ada_of(first, first).begin()
    kernel, _ = there.cell("kept = 17")
    first.enrol(ben="student", ines="instructor")
    first.do("sync", first.roster)
    assert not here.server() and here.log_in().status_code == 403
    assert there.cell("print(kept)", kernel)[1] == "17\n"
    assert ada_of(second, first).ready()
    first.enrol(ada="student", ben="student", ines="instructor")
    first.do("sync", first.roster)
    second.enrol(ines="instructor", cem="student")
    second.do("sync", second.roster)
    assert ada_of(first, first).user
    second.enrol(ada="student", cem="student", ines="instructor")
    second.do("sync", second.roster)


def test_the_first_is_stopped_and_kept(first, second):
    """If the first hub is stopped, do the second hub's servers continue, and is a purge of the first refused?
    Does the first hub still have its scores when it is started again?"""
    there = ada_of(second, first).begin()
    kernel, _ = there.cell("kept = 17")
    marks = first.marks()
    ada_of(first, first).begin()
    first.do("stop")
    assert there.cell("print(kept)", kernel)[1] == "17\n"
    assert "on the roster of the hub in" in first.do("stop", "--purge", "--yes", status=1)
    assert there.cell("print(kept)", kernel)[1] == "17\n" and there.home.is_dir()
    first.start()
    assert first.marks() == marks
