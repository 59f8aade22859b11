"""Test the API client with a class that is larger than one page of JupyterHub's API, on a real JupyterHub
without servers."""

import subprocess
import sys
import time

import pytest
import requests

from cluster.staff.hub import INSTRUCTORS, STUDENTS
from cluster.staff.hub.api import Api
from cluster.staff.hub.hub_settings import Settings
from cluster.staff.hub.roster import Person

from .. import ports
from .test_lti_login import CONFIG, up

pytestmark = pytest.mark.servers

SYNC = """
c.JupyterHub.load_groups = {{"{instructors}": {{"users": []}}, "{students}": {{"users": []}}}}
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_existing_users = True
c.Authenticator.allowed_users = set()
c.JupyterHub.services = [{{"name": "sync", "api_token": "secret-of-sync"}}]
c.JupyterHub.load_roles = [{{"name": "sync", "services": ["sync"], "scopes": [
    "admin:users", "admin:groups", "admin:servers", "list:users", "list:groups", "read:hub", "proxy"]}}]
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """Yield the API client of a newly started JupyterHub without users."""
    folder, port = tmp_path_factory.mktemp("hub"), ports.free()
    settings = Settings(port=port - 2)  # the hub itself listens on settings.port + 2
    text = CONFIG.format(lti="", url=settings.hub)
    (folder / "config.py").write_text(text + SYNC.format(instructors=INSTRUCTORS, students=STUDENTS))
    with open(folder / "log", "wb") as log:
        command = [sys.executable, "-m", "jupyterhub", "-f", str(folder / "config.py")]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 600
        while not up(settings.hub):
            assert process.poll() is None and time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.3)
        yield Api(settings, "secret-of-sync")
    finally:
        process.terminate()
        process.wait(30)


def test_450_people(api, record_property):
    """Does the API client list all users of a class of 450? Does applying the same roster twice change
    nothing, and are changed roles and removals applied?"""
    people = [Person(f"Student {n}", f"s{n:03}", "student") for n in range(445)]
    people += [Person(f"Instructor {n}", f"i{n}", "instructor") for n in range(5)]
    groups = {p.user: {STUDENTS if p.role == "student" else INSTRUCTORS} for p in people}

    def listed():
        return {user["name"]: set(user["groups"]) for user in api.users()}

    def timed(step, roster):
        began = time.monotonic()
        changes = api.apply(roster)
        record_property(step, round(time.monotonic() - began, 1))
        print(f"{step}: {time.monotonic() - began:.1f} s")
        return changes

    assert len(timed("first start", people)) == 450
    assert listed() == groups
    assert timed("second start", people) == []
    promoted = Person("Student 444", "s444", "instructor")
    assert timed("sync of one role", [*people[:444], promoted, *people[445:]]) == ["s444: now instructor"]
    assert listed()["s444"] == {INSTRUCTORS}
    gone = timed("drop of 300", people[300:])
    assert len(gone) == 301 and gone[-1] == "s299: removed from the hub" and "s444: now student" in gone
    assert listed() == {p.user: groups[p.user] for p in people[300:]}


def test_one_answer_lists_200_at_most(api):
    """Does JupyterHub still return at most 200 users per request, whatever limit is requested?"""
    api("POST", "/users", {"usernames": [f"more{n:03}" for n in range(250)]})
    headers = {"Authorization": "token secret-of-sync"}
    result = requests.get(f"{api.base}/users?limit=100000", headers=headers, timeout=60).json()
    assert len(result) == 200 < len(api.users())
