"""Test the hub's page for new passwords: who may set whose password? A real JupyterHub serves the page,
without servers for users."""

import json
import re

import pytest
import requests

from cluster.staff.hub import INSTRUCTORS, STUDENTS, config_files

from .. import ports
from . import bare_hub

pytestmark = pytest.mark.servers
PAGES = """
from jupyterhub.auth import PAMAuthenticator

class Anybody(PAMAuthenticator):
    async def authenticate(self, handler, data):
        return data["username"]

    def system_user_exists(self, user):
        return True

c.JupyterHub.authenticator_class = {authenticator}
c.Authenticator.allow_all = True
c.JupyterHub.load_groups = {{
    "{students}": {{"users": ["nobody", "daemon", "ada", "ines"]}}, "{instructors}": {{"users": ["ines"]}}
}}
c.JupyterHub.template_paths = ["{templates}"]
given = {{"accounts": "{folder}/accounts.json", "students": "{students}", "instructors": "{instructors}",
         "command": "{folder}/chpasswd"}}
import passwords
c.JupyterHub.extra_handlers = [("/course/passwords", passwords.Passwords, given)]
c.JupyterHub.template_vars = {{"passwords": True, "course": "", "queued": False}}
"""
SET = """#!/bin/sh
[ -e {folder}/fails ] && {{ echo "cannot lock /etc/passwd" >&2; exit 1; }}
cat >>{folder}/set
"""


@pytest.fixture(scope="module", params=["Anybody", '"dummy"'])
def hub(request, tmp_path_factory):
    """Yield (URL, folder, whether people log in with a Unix password)."""
    folder, url = tmp_path_factory.mktemp("hub"), f"http://127.0.0.1:{ports.free()}"
    (folder / "accounts.json").write_text(json.dumps({"nobody": 65534, "ada": 1001, "ines": None}))
    (folder / "chpasswd").write_text(SET.format(folder=folder))
    (folder / "chpasswd").chmod(0o755)
    values = {"folder": folder, "students": STUDENTS, "instructors": INSTRUCTORS}
    values |= {"templates": config_files.TEMPLATES}
    text = PAGES.format(authenticator=request.param, **values)
    with bare_hub.running(folder, url, text, config_files.SITE):
        yield f"{url}/hub", folder, request.param == "Anybody"


def logged_in(url, user):
    """Return a browser session that is logged in as this user."""
    browser = requests.Session()
    page = browser.get(f"{url}/login", timeout=60)
    form = {"username": user, "password": "x", "_xsrf": browser.cookies.get("_xsrf", path="/hub/")}
    assert page.ok and browser.post(f"{url}/login?next=/hub/token", data=form, timeout=60).ok
    return browser


def ask(browser, url, **form):
    """Open the page for new passwords, or submit its form; return the response."""
    token = {"_xsrf": browser.cookies.get("_xsrf", path="/hub/")}
    if form:
        return browser.post(f"{url}/course/passwords", data=token | form, timeout=60)
    return browser.get(f"{url}/course/passwords", timeout=60)


def test_an_instructor_gives_a_student_a_new_password(hub):
    """Can an instructor set a new password only for students whose users the hub created? Does the form need
    an XSRF token, and is the password shown only once?"""
    url, folder, by_password = hub
    ines = logged_in(url, "ines")
    page = ask(ines, url)
    if not by_password:
        assert page.status_code == 404 and ask(ines, url, user="nobody").status_code == 404
        return
    assert re.findall(r'<option value="(.+?)">', page.text) == ["nobody"], page.text
    for user in ("daemon", "ada", "ines", "root", "nobody:x\nroot"):
        assert ask(ines, url, user=user).status_code == 404
    assert (
        ines.post(f"{url}/course/passwords", data={"user": "nobody", "_xsrf": "x"}, timeout=60).status_code
        == 403
    )
    assert not (folder / "set").exists()
    answer = ask(ines, url, user="nobody")
    (password,) = re.findall(r"<code>([a-z2-9-]{14})</code>", answer.text)
    assert (folder / "set").read_text() == f"nobody:{password}\n"
    assert answer.headers["Cache-Control"] == "no-store" and password not in ask(ines, url).text
    log = (folder / "log").read_text()
    assert re.search("ines .* nobody", log) and password not in log
    (folder / "fails").touch()
    assert ask(ines, url, user="nobody").status_code == 500


def test_only_instructors_set_passwords(hub):
    """Is the page for new passwords refused to a student and to a user who is not logged in?"""
    url, folder, _ = hub
    before = (folder / "set").read_text() if (folder / "set").exists() else ""
    student = logged_in(url, "ada")
    assert ask(student, url).status_code == 403 and ask(student, url, user="nobody").status_code == 403
    stranger = requests.Session()
    assert "/login" in ask(stranger, url).url
    assert ask(stranger, url, user="nobody").status_code == 403
    assert ((folder / "set").read_text() if (folder / "set").exists() else "") == before


def test_the_login_page_names_nobody(hub):
    """Everybody can open the login page. Does it give no name of a user away?"""
    page = requests.get(f"{hub[0]}/login", timeout=60).text
    assert "password" in page and not {"ines", "ada"} & set(page.lower().split())
