"""Test the course's own hub with LTI 1.3: users log in from a learning platform, and their scores are sent
back to it."""

import os
import re
import stat
from pathlib import Path
from urllib.parse import urljoin

import pytest

pytest.importorskip("ltiauthenticator", reason="cluster/setup.sh hub")

from cluster.staff.lti import platform_login
from tests.deploy.classroom import ASSIGNMENT, tiny

from ..lti_platform import Platform
from .hub import PREFIX, started

pytestmark = [pytest.mark.hub, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def platform():
    with Platform().running() as site:
        yield site


@pytest.fixture(scope="module")
def hub(platform, tmp_path_factory):
    """Yield a hub whose roster contains the users' e-mail addresses on the platform."""

    def enrol(hub):
        platform.tool = f"http://127.0.0.1:{hub.port}"
        for name in ("ada", "ben", "zoe"):
            platform.enrol(name)
        platform.enrol("ines", "Instructor")
        hub.enrol(ada="student", ben="student", cem="student", ines="instructor")
        lines = hub.roster.read_text().splitlines()
        named = [f"{line},{line.split(',')[1].removeprefix(PREFIX)}@uni.example" for line in lines[1:]]
        hub.roster.write_text("\n".join([f"{lines[0]},platform", *named]) + "\n")

    course = tiny(tmp_path_factory.mktemp("repository"))
    with started(course, enrol, lti=platform.settings) as instance:
        yield instance


def come(hub, platform, name):
    """Log in as a user through the platform's link, and open the hub's home page; return the logged-in
    person."""
    person = hub.person(name)
    page = platform.launch(person, name)
    assert page.status_code == 302, page.text
    assert person.get(urljoin(hub_url(hub), page.headers["Location"])).ok
    assert person.get(f"{hub_url(hub)}/hub/home", allow_redirects=False).status_code == 200
    return person


def hub_url(hub):
    return f"http://127.0.0.1:{hub.port}"


def test_from_the_platform_to_a_mark_on_it(hub, platform):
    """If users from the platform submit and their scores are sent, does the platform have exactly these
    scores? Does a dry run send nothing, and is no score sent twice?"""
    ines = come(hub, platform, "ines")
    ines.release()
    for name, answer in {"ada": "return 2 * x", "ben": "return x + 1"}.items():
        person = come(hub, platform, name)
        person.begin()
        person.solve(answer)
        person.assignment("submit", ASSIGNMENT)
        person.end()
    hub.grade("collect", ASSIGNMENT)
    hub.grade("run", ASSIGNMENT, "--backend", "local")
    dry = hub.grade("lti", ASSIGNMENT, "--dry-run")
    assert f"{PREFIX}ada: 3 of 3" in dry and re.search("^ *2 ", dry, re.M) and platform.scores == {}
    assert re.findall(r"\d+", hub.grade("lti", ASSIGNMENT).splitlines()[-1]) == ["2", "0", "0", "0"]
    marks = hub.marks()
    rows = {name: score["scoreGiven"] for name, score in platform.latest().items()}
    assert rows == {name: marks[PREFIX + name] for name in ("ada", "ben")} and rows["ada"] == 3 > rows["ben"]
    assert re.findall(r"\d+", hub.grade("lti", ASSIGNMENT).splitlines()[-1])[:2] == ["0", "2"]


def test_a_user_who_is_not_on_the_roster_is_refused(hub, platform):
    """If a user of the platform is not on the roster, is the login refused, and do `status` and `lti` name
    the user? Is the login accepted only as long as the user is on the roster?"""
    person = hub.person("ada")
    assert platform.launch(person, "zoe").status_code == 403
    for output in (hub.do("status"), hub.do("lti", "--url", "https://hub.example.org")):
        assert "zoe@uni.example: " in output
    assert all(url in output for url in platform_login.urls("https://hub.example.org").values())
    assert "c-1 (Deep learning on a cluster)" in output
    before = hub.roster.read_text()
    hub.roster.write_text(f"{before}Zoe Example,{PREFIX}zoe,student,,zoe@uni.example\n")
    hub.do("sync", hub.roster)
    come(hub, platform, "zoe")
    hub.roster.write_text(before)
    hub.do("sync", hub.roster)
    assert platform.launch(person, "zoe").status_code == 403


def test_passwords_do_not_log_in(hub, platform):
    """Does the login page lead to the platform, without a password field? Is a login with a Unix password
    refused?"""
    person = hub.person("ada")
    page = person.get(f"{hub_url(hub)}/hub/login")
    assert platform.url in page.text and 'type="password"' not in page.text
    form = {"username": person.user, "password": person.password, "email": "ines@uni.example"}
    answer = person.post(f"{hub_url(hub)}/hub/login", data=form | {"_xsrf": person.xsrf("/hub/")})
    assert answer.status_code == 403


def test_secrets_are_the_graders_and_roots(hub, platform):
    """Are the private key and the platform's user IDs unreadable for students? Does the hub publish only the
    public key?"""
    key = Path(os.path.expanduser(f"~{hub.grader}")) / "course/.grading/lti/private.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and key.owner() == hub.grader
    (shown,) = hub.person("ada").get(f"{hub_url(hub)}/hub/lti13/jwks").json()["keys"]
    assert set(shown) <= {"kty", "n", "e", "kid", "alg", "use"}
    for path in (hub.state / "lti", hub.state / "lti/links.json", hub.state / "lti/people.json"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o007 == 0 and path.owner() == "root"
    listing = hub.run(f"{PREFIX}ada", "ls", str(hub.state / "lti"), check=False)
    assert listing.returncode != 0


def test_the_key_and_the_accounts_outlive_a_restart(hub, platform):
    """After a stop and a start, is the key the same, and is a user still bound to the platform account that
    logged in first? Does `lti --forget` delete this binding?"""
    before = hub.person("ada").get(f"{hub_url(hub)}/hub/lti13/jwks").json()
    hub.do("stop")
    hub.start()
    assert hub.person("ada").get(f"{hub_url(hub)}/hub/lti13/jwks").json() == before
    come(hub, platform, "ada")
    platform.enrol("ada")  # another account with the same address
    assert platform.launch(hub.person("ada"), "ada").status_code == 403
    assert f"--forget {PREFIX}ada" in hub.do("status")
    hub.do("lti", "--forget", f"{PREFIX}ada")
    come(hub, platform, "ada")
