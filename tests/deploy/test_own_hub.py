"""Test a class on a JupyterHub that a site runs itself and extends with the course's configuration
fragment."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from cluster.staff.hub import config_files, daemons, own_hub, users
from cluster.staff.hub.hub_settings import HubError, Settings
from cluster.staff.hub.roster import Person as OnRoster
from cluster.system import processes
from tests.deploy.classroom import ASSIGNMENT, COURSE, PREFIX, Person, ports, tiny, wait

from .hub import CLASS, LECTURE, PAGE, skip_or_fail

CONFIG = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = ["node", "{proxy}"]
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie"
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.DummyAuthenticator.password = "of all"
c.Authenticator.allow_all = True
c.Spawner.start_timeout = c.Spawner.http_timeout = 180


def hook(spawner):
    spawner.environment |= {{"OF_THE_SITE": "kept"}}


c.Spawner.pre_spawn_hook = hook
exec(open("{fragment}").read())
"""


def answers(url):
    """Return whether the hub's page responds. Before the hub is up, the proxy returns an error."""
    try:
        return requests.get(url, timeout=60).ok
    except requests.ConnectionError:
        return False


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Yield a site's own hub with the fragment. Three people of the course and a guest are Unix users on
    it."""
    skip_or_fail(daemons.missing())
    folder = Path(tempfile.mkdtemp(prefix="own-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "site").mkdir(mode=0o755)
    book = users.Accounts(folder / "site", folder / "site")
    people = {"ada": "student", "ben": "student", "ines": "instructor", "guest": "student"}
    root = tiny(tmp_path_factory.mktemp("repository"))
    port = ports(5)
    settings = Settings(port=port, grader=f"{PREFIX}own", progress=True)
    state, list_ = folder / "course", folder / "people.csv"
    lines = [
        f"{name.title()} Example,{PREFIX}{name},{role},," for name, role in people.items() if name != "guest"
    ]
    list_.write_text("name,user,role,extension,platform\n" + "\n".join(lines) + "\n")
    process = None
    try:
        with pytest.raises(HubError, match=f"{PREFIX}ada, "):
            own_hub.place(settings, state, root, list_)
        for name in people:
            book.ensure(OnRoster(name, PREFIX + name, "student"), password=False)
        fragment = own_hub.place(settings, state, root, list_)
        facts = {"port": port, "api": port + 1, "hub": port + 2, "folder": folder, "fragment": fragment}
        (folder / "jupyterhub_config.py").write_text(CONFIG.format(proxy=daemons.proxy_program(), **facts))
        command = [sys.executable, "-m", "jupyterhub", "-f", folder / "jupyterhub_config.py"]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "CLUSTER", "PYTHONPATH"))}
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
            )
        found = SimpleNamespace(port=port, folder=folder, state=state, grader=settings.grader)
        found.log = lambda: (folder / "log").read_text()[-6000:]
        found.person = lambda name: Person(found, PREFIX + name, "of all")
        wait("hub", lambda: answers(f"http://127.0.0.1:{port}/hub/login"))
        yield found
    finally:
        if process:
            process.terminate()
            try:
                process.wait(120)  # the hub stops the servers that it has started
            finally:
                process.kill()
                process.wait()
        numbers = {there.pw_uid for name in [*people, "own"] if (there := users.unix_user(PREFIX + name))}
        processes.end(processes.with_environment(lambda one, env: one.uids().effective in numbers), 3)
        book.remove()
        users.Accounts(state, state / "home").remove()
        shutil.rmtree(folder)


@pytest.mark.hub
@pytest.mark.servers
@pytest.mark.timeout(1200)
def test_a_class_on_another_hub(hub):
    """Does the course work on a site's own hub, from the release to a submission and the class page? Does the
    site's own spawn hook still run?"""
    ines, ada = hub.person("ines"), hub.person("ada")
    assert ines.log_in().ok, hub.log()
    wait("class page", lambda: ines.formgrader("GET", CLASS).ok)
    ines.release()
    assert ada.log_in().ok
    ada.begin()
    start = ada.mine("GET", "/course").text
    assert "Where you are" in start and LECTURE in start, start
    assert ada.cell("import os; print(os.environ['OF_THE_SITE'])")[1] == "kept\n"
    ada.solve("return 2 * x")
    ada.assignment("submit", ASSIGNMENT)
    assert "on time" in ada.mine("GET", "/course").text or "submitted" in ada.mine("GET", "/course").text
    page = ines.formgrader("GET", PAGE).text
    assert "Ada" in page and "Ben" in page, page
    assert ada.formgrader("GET", CLASS).status_code == 403


@pytest.mark.hub
@pytest.mark.servers
@pytest.mark.timeout(600)
def test_users_outside_the_course_see_no_difference(hub):
    """Does a user of the hub who is not on the roster get a server without the course?"""
    guest = hub.person("guest")
    assert guest.log_in().ok
    guest.begin()
    assert guest.cell("import os; print('CLUSTER_HUB' in os.environ)")[1] == "False\n"
    assert guest.formgrader("GET", CLASS).status_code == 403


def test_the_fragment_keeps_what_is_there_and_holds_no_secret(tmp_path, monkeypatch):
    """Does the fragment add the course to a site's services, groups and scopes and keep the existing ones? Is
    it free of API tokens?"""
    from traitlets.config import Config

    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("course_on_hub", None)
    settings, python = Settings(grader="daemon"), tmp_path / "bin/python"
    groups = {f"nbgrader-{COURSE}": ["ada"], f"formgrade-{COURSE}": ["ines"]}
    (tmp_path / "etc").mkdir()
    for name in ("settings.json", "course_on_hub.py"):
        text = config_files.files(settings, tmp_path, python, groups)[f"etc/{name}"]
        (tmp_path / "etc" / name).write_text(text)
    c = Config()
    c.JupyterHub.services = [{"name": "other"}]
    c.JupyterHub.load_groups = {"others": {"users": ["kim"]}}
    c.Spawner.server_token_scopes = ["read:hub"]
    exec(own_hub.TEXT.format(etc=tmp_path / "etc"), {"get_config": lambda: c})
    assert [service["name"] for service in c.JupyterHub.services] == ["other", COURSE, "check"]
    there = c.JupyterHub.load_groups
    assert there[f"formgrade-{COURSE}"] == {"users": ["ines"]} and "others" in there
    assert "read:hub" in c.Spawner.server_token_scopes
    assert not [key for one in c.JupyterHub.services for key in one.get("environment", {}) if "TOKEN" in key]
    assert json.dumps(c.JupyterHub.services)
