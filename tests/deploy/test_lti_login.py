"""Test login by LTI 1.3: who is admitted, as which user, and who is refused.

The first tests use the authenticator alone. The last ones use a real JupyterHub with the course's login, but
without a proxy and servers. The learning platform is tests/lti_platform.py. test_hub_lti.py tests LTI on the
course's own hub.
"""

import json
import re

import pytest
import requests

pytest.importorskip("ltiauthenticator", reason="cluster/setup.sh hub")

from ltiauthenticator.lti13.handlers import LTI13CallbackHandler
from tornado.web import HTTPError

from cluster.staff.hub import roster
from cluster.staff.hub.hub_settings import HubError
from cluster.staff.lti import lti_login, platform_login

from .. import ROOT, ports
from ..lti_platform import CLAIM, Platform
from . import bare_hub

PEOPLE = "name,user,role,extension,platform\nAda E,ada,student,,Ada@Uni.example\nBen E,ben,student,,\n"
PEOPLE += "Ines E,ines,instructor,,ines@uni.example\n"
SERVICE = "https://purl.imsglobal.org/spec/lti-ags/claim/endpoint"


REGISTERED = platform_login.Lti(*["https://uni.example"] * 4, deployments=("3",))


def enrolled(state):
    """Write the files of LTI for the people in PEOPLE."""
    REGISTERED.enrol(state, {p.called: {"user": p.user, "role": p.role} for p in roster.people_in(PEOPLE)})


@pytest.fixture
def log_in(tmp_path):
    """Return the authenticator of a hub with a roster."""
    (tmp_path / "lti").mkdir()
    enrolled(tmp_path)
    return lti_login.RosterAuthenticator(
        folder=str(tmp_path / "lti"), deployments=["3"], issuer="https://uni.example", client_id={"t"}
    )


def claims(email="ada@uni.example", sub="11", **more):
    return {f"{CLAIM}/deployment_id": "3", "email": email, "sub": sub, **more}


def refused(log_in, given):
    with pytest.raises(lti_login.LoginRefused) as error:
        log_in.user_of(given)
    return f"{error.value} | {error.value.why}"


@pytest.mark.parametrize(
    ("claim", "given", "user"),
    [
        ("email", claims(), "ada"),
        ("email", claims(" ADA@uni.EXAMPLE "), "ada"),
        ("email", claims("ben"), "ben"),
        ("custom_login", claims("", **{f"{CLAIM}/custom": {"login": "BEN"}}), "ben"),
    ],
)
def test_people_of_the_roster_are_known(log_in, claim, given, user):
    """Are people on the roster recognised by the column `platform`, or by the user name if that is empty,
    ignoring case and blanks?"""
    log_in.username_key = claim
    assert log_in.user_of(given) == user


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (claims("zoe@uni.example"), "'zoe@uni.example'.* sync"),
        (claims("ada@elsewhere.example"), "'ada@elsewhere.example'"),  # the same name at another domain
        (claims("ada"), "'ada'"),  # the user name, although the platform has another name for her
        (claims(None), "'email'.*lti.claim"),
        (claims("$Person.email.primary"), "'email'"),
        (claims(["ada@uni.example"]), "'email'"),
        (claims(None, "ada"), "'email'"),  # the platform's ID is never used as a name
        (claims(sub=None), "'sub'"),
        (claims() | {f"{CLAIM}/deployment_id": "4"}, "deployment '4'.*lti.deployments"),
        (claims() | {f"{CLAIM}/deployment_id": None}, "deployment None"),
    ],
)
def test_others_are_refused(log_in, given, message):
    """Is a login refused if its claims are incomplete, or name nobody on the roster or another deployment? Do
    the messages to the user and the administrator contain the reason?"""
    assert re.search(message, refused(log_in, given))


def test_a_user_is_bound_to_the_first_account(log_in, tmp_path):
    """Once a user has logged in, is another platform account with the same address refused until the binding
    is deleted? Is the same account refused for another user?"""
    assert log_in.user_of(claims()) == "ada"
    assert "--forget ada" in refused(log_in, claims(sub="12"))
    assert re.search("'ben'.* --forget ada", refused(log_in, claims("ben")))
    with pytest.raises(HubError, match=r"'ben'.* ada"):
        platform_login.forget(tmp_path, "ben")
    platform_login.forget(tmp_path, "ada")
    assert log_in.user_of(claims(sub="12")) == "ada"
    log_in.issuer = "https://new.example"  # another platform, whose IDs belong to other people
    assert log_in.user_of(claims(sub="13")) == "ada"


def test_only_instructors_determine_the_course(log_in, tmp_path):
    """Does only an instructor's launch, not a student's, set the course on the platform that receives the
    scores?"""
    service = {SERVICE: {"lineitems": "https://uni.example/2/items", "scope": ["s"]}}
    course = {f"{CLAIM}/context": {"id": "2", "title": "Deep"}}
    log_in.user_of(claims(**service, **course))
    assert json.loads((tmp_path / "lti/links.json").read_text())["contexts"] == {}
    log_in.user_of(claims("ines@uni.example", "20", **service, **course))
    links = json.loads((tmp_path / "lti/links.json").read_text())
    assert links["contexts"] == {
        "2": {"title": "Deep", "lineitems": "https://uni.example/2/items", "scope": ["s"]}
    }
    assert links["people"] == {"ada": "11", "ines": "20"}
    log_in.user_of(claims("ines@uni.example", "20"))  # a launch without a course changes nothing
    assert json.loads((tmp_path / "lti/links.json").read_text()) == links


async def answer(log_in, handler, data):
    try:
        return await log_in.authenticate(handler.__new__(handler), data)
    except HTTPError as error:
        return error.status_code, error.log_message


def test_refused_logins_are_kept_for_the_administrator(log_in, tmp_path):
    """Does the administrator's list of refused logins show each one once, newest first? Does the list have a
    maximum length?"""
    import asyncio

    for name in [*map(str, range(lti_login.LONGEST_LIST)), "zoe\x1b[2J", "<b>", "zoe", "1"]:
        code, text = asyncio.run(answer(log_in, LTI13CallbackHandler, claims(name)))
        assert code == 403 and text
    refusals = REGISTERED.refused(tmp_path)
    assert len(refusals) == lti_login.LONGEST_LIST and ": 1: " in refusals[0]
    assert not any("\x1b" in line for line in refusals)


def test_the_urls_for_the_platform_are_those_that_answer():
    """Are the URLs that are printed for the platform the ones that the authenticator serves?"""
    log_in = lti_login.RosterAuthenticator()
    printed = set(platform_login.urls("https://hub.example.org/").values())
    urls = (log_in.login_url("/hub"), log_in.callback_url("/hub"), log_in.keys_url("/hub"), "/hub")
    assert printed == {f"https://hub.example.org{path}" for path in urls}


# --- a JupyterHub -------------------------------------------------------------------------------------

CONFIG = """
import lti_login

c.Authenticator.allowed_users = {{"ada", "ben", "ines"}}
lti_login.configure(c, {facts!r})
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Yield a platform with a JupyterHub that is registered with it. The attribute `folder` is the hub's
    folder for LTI."""
    state = tmp_path_factory.mktemp("state")
    (state / "lti").mkdir()
    enrolled(state)
    (state / "lti/jwks.json").write_text('{"keys": []}')
    with Platform(f"http://127.0.0.1:{ports.free()}").running() as platform:
        for login, role in {"ada": "Learner", "ines": "Instructor", "zoe": "Learner"}.items():
            platform.enrol(login, role)
        facts = {"state": str(state), "lti": platform.settings | {"claim": "email"}}
        with bare_hub.running(state, platform.tool, CONFIG.format(facts=facts), ROOT / "cluster/staff/lti"):
            platform.folder = state / "lti"
            yield platform


@pytest.fixture(autouse=True)
def as_it_was(request):
    """Restore the platform's claims and signing key after each test."""
    yield
    if "site" in request.fixturenames:
        site = request.getfixturevalue("site")
        site.claims, site.sign_with = lambda given: given, site.key


def who(browser, site):
    """Return the name of the user logged in with this browser, or None."""
    page = browser.get(f"{site.tool}/hub/token", allow_redirects=False, timeout=60)
    match = re.search(r'user: "([^"]+)"', page.text)
    return match[1] if page.ok and match else None


def shown(page):
    """Return the text of an error page."""
    import html

    return " ".join(html.unescape(re.sub(r"<script.*?</script>|<[^>]+>", " ", page.text, flags=re.S)).split())


servers = pytest.mark.servers


@servers
@pytest.mark.timeout(1200)
def test_a_launch_logs_in(site):
    """Does the platform's signed form log a user in, and is the instructor's course recorded? Does the hub
    publish its keys?"""
    for login in ("ada", "ines"):
        with requests.Session() as browser:
            page = site.launch(browser, login)
            assert page.status_code == 302 and page.headers["Location"].startswith("/hub"), shown(page)
            assert who(browser, site) == login
    links = json.loads((site.folder / "links.json").read_text())
    assert links["people"] == {name: site.people[name]["sub"] for name in ("ada", "ines")}
    assert links["contexts"]["c-1"]["lineitems"] == f"{site.url}/c/1/lineitems?type=9"
    assert requests.get(f"{site.tool}/hub/lti13/jwks", timeout=60).json() == {"keys": []}
    assert requests.get(f"{site.tool}/hub/lti13/config", timeout=60).status_code == 404


@servers
def test_a_stranger_reads_why(site):
    """If a user of the platform is not on the roster, is the login refused, with the reason on the page?"""
    with requests.Session() as browser:
        page = site.launch(browser, "zoe")
        assert page.status_code == 403
        assert "'zoe@uni.example'" in shown(page)
        assert who(browser, site) is None


CHANGES = {
    "another audience": lambda c: c | {"aud": "another-tool"},
    "another issuer": lambda c: c | {"iss": "https://evil.example"},
    "another deployment": lambda c: c | {f"{CLAIM}/deployment_id": "9"},
    "another nonce": lambda c: c | {"nonce": "0" * 64},
    "expired": lambda c: c | {"exp": c["exp"] - 900, "iat": c["iat"] - 900},
    "of last week": lambda c: c | {"iat": c["iat"] - 7 * 86400},
    "of tomorrow": lambda c: c | {"iat": c["iat"] + 86400},
    "another version": lambda c: c | {f"{CLAIM}/version": "1.1"},
}


@servers
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_for_this_hub_is_refused(site, change):
    """Is a signed login refused if it is for another tool, deployment, request or LTI version, comes from
    another platform, or is not valid now?"""
    site.claims = CHANGES[change]
    with requests.Session() as browser:
        page = site.launch(browser, "ines")
        assert page.status_code in (400, 401, 403), shown(page)
        assert who(browser, site) is None


@servers
def test_signature_and_state_are_checked(site):
    """Is a login refused if its signature is forged, if it is sent from another browser, or if it is sent
    twice?"""
    site.sign_with = site.forged
    with requests.Session() as browser:
        assert site.launch(browser, "ines").status_code == 400 and who(browser, site) is None
    site.sign_with = site.key
    with requests.Session() as session, requests.Session() as theirs:
        address, fields = site.form(session.get(site.link("ines"), timeout=60).text)
        page = theirs.post(address, data=fields, allow_redirects=False, timeout=60)
        assert page.status_code == 400 and lti_login.AGAIN in shown(page)
        assert session.post(address, data=fields, allow_redirects=False, timeout=60).status_code == 302
        again = session.post(address, data=fields, allow_redirects=False, timeout=60)
        assert again.status_code == 400 and who(theirs, site) is None and who(session, site) == "ines"


@servers
def test_a_form_with_claims_logs_nobody_in(site):
    """If the claims of an instructor are posted to /hub/login with a valid XSRF token, is the login
    refused?"""
    with requests.Session() as browser:
        page = browser.get(f"{site.tool}/hub/login", timeout=60)
        assert site.url in page.text and "password" not in page.text
        form = {"email": "ines@uni.example", "sub": site.people["ines"]["sub"], "username": "ines"}
        form |= {"_xsrf": next(c.value for c in browser.cookies if c.name == "_xsrf")}
        form |= {f"{CLAIM}/deployment_id": site.deployment}
        page = browser.post(f"{site.tool}/hub/login", data=form, allow_redirects=False, timeout=60)
        assert page.status_code == 403 and site.url in page.text
        assert who(browser, site) is None


@servers
@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/hub/lab", "//evil.example/x", "https://hub/hub?next=https://evil.example/",
        "https://hub/hub?next=%2F%2Fevil.example", "https://hub/hub?next=%2F%5Cevil.example",
        "/\\evil.example", "javascript:alert(1)",
    ],
)  # fmt: skip
def test_links_never_leave_the_hub(site, target):
    """After a login, is the browser redirected to a page of the hub, even if the link's target is on another
    site?"""
    from urllib.parse import urljoin, urlsplit

    with requests.Session() as browser:
        page = site.launch(browser, "ada", target)
        assert page.status_code == 302
        place = page.headers["Location"]
        assert place.startswith("/") and not place.startswith(("//", "/\\"))
        assert urlsplit(urljoin(site.tool, place)).netloc == urlsplit(site.tool).netloc


@servers
def test_behind_tls_the_cookies_come_with_a_form_of_another_site(site):
    """Behind TLS, are the cookies for state and nonce marked Secure and SameSite=None, so that they are sent
    with the platform's form? Are all other cookies without SameSite=None?"""
    options = {"headers": {"X-Forwarded-Proto": "https"}, "allow_redirects": False, "timeout": 60}
    page = requests.get(site.link("ada"), **options)
    headers = page.raw.headers.getlist("Set-Cookie")
    own = [header for header in headers if header.startswith("lti13authenticator-")]
    assert len(own) == 2 and all(
        {"Secure", "SameSite=None", "HttpOnly"} <= set(header.split("; ")) for header in own
    )
    assert page.headers["Location"].startswith(f"{site.url}/auth?")
    assert "redirect_uri=https%3A%2F%2F127.0.0.1" in page.headers["Location"]
    assert not [header for header in headers if header not in own and "SameSite=None" in header]
