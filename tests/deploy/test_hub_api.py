"""Test the API client with a class that is larger than one page of JupyterHub's API, on a real JupyterHub
without servers."""

import pytest
import requests

from cluster.staff.hub import INSTRUCTORS, STUDENTS
from cluster.staff.hub.hub_settings import Settings
from cluster.staff.hub.roster import Person
from cluster.staff.hub.sync import Api

from .. import ports
from . import bare_hub

pytestmark = pytest.mark.servers

SYNC = """
c.JupyterHub.load_groups = {{"{instructors}": {{"users": []}}, "{students}": {{"users": []}}}}
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_existing_users = True
c.JupyterHub.services = [{{"name": "sync", "api_token": "secret-of-sync"}}]
c.JupyterHub.load_roles = [{{"name": "sync", "services": ["sync"], "scopes": [
    "admin:users", "admin:groups", "admin:servers", "list:users", "list:groups", "read:hub", "proxy"]}}]
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """Yield the API client of a newly started JupyterHub without users."""
    folder, port = tmp_path_factory.mktemp("hub"), ports.free()
    settings = Settings(port=port - 2)  # the hub itself listens on settings.port + 2
    text = SYNC.format(instructors=INSTRUCTORS, students=STUDENTS)
    with bare_hub.running(folder, settings.hub, text):
        yield Api(settings.hub, "secret-of-sync")


def test_450_people(api):
    """Does the API client list all users of a class of 450? Does applying the same roster twice change
    nothing, and are changed roles and removals applied?"""
    people = [Person(f"Student {n}", f"s{n:03}", "student") for n in range(445)]
    people += [Person(f"Instructor {n}", f"i{n}", "instructor") for n in range(5)]
    groups = {p.user: {STUDENTS if p.role == "student" else INSTRUCTORS} for p in people}

    def listed():
        return {user["name"]: set(user["groups"]) for user in api.users()}

    assert len(api.apply(people)) == 450
    assert listed() == groups
    assert api.apply(people) == []
    promoted = Person("Student 444", "s444", "instructor")
    assert api.apply([*people[:444], promoted, *people[445:]]) == ["s444: now instructor"]
    assert listed()["s444"] == {INSTRUCTORS}
    gone = api.apply(people[300:])
    assert len(gone) == 301 and gone[-1].startswith("s299: ") and "s444: now student" in gone
    assert listed() == {p.user: groups[p.user] for p in people[300:]}


def test_one_answer_lists_200_at_most(api):
    """Does JupyterHub still return at most 200 users per request, whatever limit is requested?"""
    api("POST", "/users", {"usernames": [f"more{n:03}" for n in range(250)]})
    headers = {"Authorization": "token secret-of-sync"}
    result = requests.get(f"{api.base}/users?limit=100000", headers=headers, timeout=60).json()
    assert len(result) == 200 < len(api.users())
