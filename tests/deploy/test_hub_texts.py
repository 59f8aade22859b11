"""Test the hub's settings, its roster and generated files, and that users' own files are left alone. No hub
is started."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import types
from pathlib import Path

import jinja2
import pytest

from cluster.staff import __main__ as staff
from cluster.staff import services, work_files
from cluster.staff.course import CourseError
from cluster.staff.hub import (
    COURSE,
    GRADERS,
    INSTRUCTORS,
    api,
    backup,
    config_files,
    course_files,
    environment,
    hub_settings,
    neighbours,
    preflight,
    roster,
    sync,
    units,
    users,
)
from cluster.staff.hub import __main__ as hub_commands
from cluster.staff.hub import state as states
from cluster.staff.hub.hub_settings import HubError, Settings
from cluster.staff.submissions import grading_folder
from cluster.system import processes

HEAD = "name,user,role,extension\n"
STATE, PYTHON = Path("/state/hub"), Path("/state/hub/python/bin/python")


class Config(dict):
    """A configuration object `c` that creates its sections on access."""

    def __getattr__(self, name):
        return self.setdefault(name, types.SimpleNamespace())


def executed(text, **names):
    """Return the sections that a configuration file sets."""
    c = Config()
    exec(
        compile(text, "generated", "exec"),
        {"get_config": lambda: c, "load_subconfig": lambda path: None, **names},
    )
    return c


def test_a_roster_is_read_as_spreadsheets_write_it(tmp_path):
    """Does the roster's reader accept semicolons, a byte order mark, Windows line ends, capital letters, an
    empty line and a name with a comma?"""
    people = tmp_path / "people.csv"
    text = "Name;User;Role;Extension\r\nAda Maria Example;ada;Student;\r\n;;;\r\n"
    text += '"Example, Ines";ines;instructor;2\r\n'
    people.write_bytes(b"\xef\xbb\xbf" + text.encode())
    ada, ines = roster.read_people(people)
    assert (ada.user, ada.role, ada.extension, ada.names) == ("ada", "student", 0, ("Ada Maria", "Example"))
    assert (ines.name, ines.role, ines.extension) == ("Example, Ines", "instructor", 2)


EXPORTS = {
    "Moodle": "First name,Last name,Email address,Groups\nAda,Öz,Ada@uni.edu,\nBen,O'Neill,ben@uni.edu,\n",
    "Canvas": "Student,ID,SIS Login ID,Section,01 (7)\n  Points Possible,,,,9\n"
    '"Öz, Ada",1,ada,A,\n"O\'Neill, Ben",2,ben,A,3\n"Student, Test",3,5e1f,A,\n',
    "Blackboard": '"Last Name"\t"First Name"\t"Username"\t"Student ID"\n'
    '"Öz"\t"Ada"\t"ada"\t"7"\n"O\'Neill"\t"Ben"\t"ben"\t"8"\n',
}


@pytest.mark.parametrize("platform", EXPORTS)
def test_a_roster_is_made_of_a_platforms_export(tmp_path, capsys, platform):
    """Does a roster made from a platform's export list its people as students with their logins? Is the
    export itself refused as a roster?"""
    export, people = tmp_path / "export.csv", tmp_path / "people.csv"
    export.write_bytes(EXPORTS[platform].encode("utf-16" if platform == "Blackboard" else "utf-8"))
    assert hub_commands.main(["roster", str(export), "--to", str(people)]) == 0
    persons = roster.read_people(people)
    assert [(p.name, p.user, p.role) for p in persons] == [
        ("Ada Öz", "ada", "student"), ("Ben O'Neill", "ben", "student")
    ]  # fmt: skip
    with pytest.raises(HubError, match=r"names no instructor.*hub roster"):
        roster.people_in(EXPORTS[platform])
    assert hub_commands.main(["roster", str(export), "--to", str(people)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_invalid_logins_of_an_export_are_reported(tmp_path):
    """Are duplicate logins in an export reported, and logins that are not valid Unix user names?"""
    for text, words in [
        ("Username,First name,Last name\nada,A,B\nADA,C,D\n", "'ada' is listed twice"),
        ("Username,First name,Last name\n1234,A,B\n", "user = '1234'.*--prefix"),
        ("Username,First name,Last name\na&b,A,B\n", "user = 'a&b'"),
    ]:
        (tmp_path / "export.csv").write_text(text)
        with pytest.raises(HubError, match=words):
            roster.of_platform(tmp_path / "export.csv")


def test_logins_that_are_numbers_addresses_and_capitals_become_users(tmp_path, capsys):
    """Do platform logins that are numbers or e-mail addresses or contain capitals become distinct user names?
    Does the roster keep each login as the name on the platform?"""
    export, people = tmp_path / "export.csv", tmp_path / "people.csv"
    logins = ["1234567", "Ada.L@uni.example", "bob@a.example", "Bob@b.example", "EVE"]
    export.write_text("Username,First name,Last name\n" + "".join(f"{login},A,B\n" for login in logins))
    command = ["roster", str(export), "--state", str(tmp_path), "--prefix", "s", "--to", str(people)]
    assert hub_commands.main(command) == 0, capsys.readouterr().err
    users = ["s1234567", "ada.l", "bob.a.example", "bob.b.example", "eve"]
    persons = roster.read_people(people)
    assert [p.user for p in persons] == users
    assert [p.called for p in persons] == [login.casefold() for login in logins]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,role\nAda,student\n", "lacks user"),
        (HEAD + "Ada,ada,tutor,\n", "line 2: role = 'tutor'"),
        (HEAD + "Ada,Ada!,student,\n", "line 2: user = 'Ada!'"),
        (HEAD + "Ada,ada,student,soon\n", "line 2: extension = 'soon'"),
        (HEAD + "Ada,ada,student,-1\n", "extension = '-1'"),
        (HEAD + "Ada,ada,student,\nBen,ada,student,\n", "line 3: the user 'ada' is listed twice"),
        (HEAD + "Ada, Countess,ada,student,\n", "line 2: it has more or fewer fields"),
        (HEAD + "Ada,ada\n", "line 2: it has more or fewer fields"),
        (HEAD + "A:da,ada,student,\n", "':' cannot be in a name"),
        (
            HEAD + "Ada <script>alert(1)</script>,ada,student,\n",
            "line 2: name = 'Ada <script>.*'<', '>' cannot",
        ),
        (HEAD + "Ada \u202eecnI,ada,student,\n", r"name = 'Ada \\u202eecnI'"),
        (HEAD + "A\x1b[2Jda,ada,student,\n", "cannot be in a name"),
        (HEAD + " ,ada,student,\n", "a name is required"),
        ("name,user,role,grade\n", "unknown column 'grade'"),
    ],
)
def test_a_wrong_roster_is_refused_by_line(text, message):
    """Is an invalid roster refused, with the line, the value and the reason?"""
    with pytest.raises(HubError, match=message.replace("(", r"\(")):
        roster.people_in(text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": "red"}, "unknown settings: colour. Known settings: port"),
        ({"memory_gb": 4}, "unknown settings: memory_gb. Did you mean memory_gib?"),
        ({"port": "8000"}, "port = '8000'"),
        ({"port": 80}, "from 1024"),
        ({"spawner": "docker"}, "'local' or 'slurm'"),
        ({"spawner": "slurm"}, "needs a Slurm"),
        ({"database": "mysql"}, "database = 'mysql'"),
        ({"database": "postgresql://host/hub"}, "database ="),
        ({"homes": "home"}, "a full path"),
        ({"folder": "../ada"}, "folder = '../ada'"),
        ({"folder": "a b"}, "folder = 'a b'"),
        ({"extra": "/not/there.py"}, "no such file"),
        ({"grader": "Root"}, "grader = 'Root'"),
        ({"progress": "yes"}, "progress = 'yes' must be true or false"),
        ({"memory_gib": 0.1}, "memory_gib = 0.1"),
        ({"memory_gib": "4G"}, "memory_gib = '4G'"),
    ],
)
def test_a_wrong_setting_is_refused(values, message):
    """Is an invalid setting refused, and does the message contain its name or value and what is valid?"""
    with pytest.raises(HubError, match=message.replace("(", r"\(")):
        hub_settings.from_values(values)


@pytest.mark.parametrize(
    ("address", "refused"), [("127.0.0.1", True), ("localhost", True), ("10.0.0.5", False)]
)
def test_a_loopback_address_is_refused_with_a_sites_slurm(address, refused):
    """If servers run on a site's Slurm, is a loopback address of the hub refused? Is it accepted if the
    servers run on this machine?"""
    far = Settings(spawner="slurm", slurm="site", hub_address=address)
    with pytest.raises(HubError, match="Set hub_address to") if refused else contextlib.nullcontext():
        preflight.check_address(far)
    for near in (Settings(slurm="site"), Settings(spawner="slurm", slurm="machine")):
        preflight.check_address(near)
    assert far.hub == f"http://{address}:8002"


def test_idle_kernels_are_culled_with_a_tab_open():
    """Do the settings stop a kernel that has been idle for idle_minutes, even if its tab is open? Does 0
    disable this?"""
    for minutes in (120, 0):
        settings = config_files.jupyter("student", ("assignment_list",), Settings(idle_minutes=minutes))
        lines = settings["jupyter_server_config.py"].splitlines()
        c = executed(
            "\n".join(["c = get_config()", *(line for line in lines if line.startswith("c.MappingKernel"))])
        )
        assert vars(c.MappingKernelManager) == {"cull_idle_timeout": 60 * minutes, "cull_connected": True}


def test_settings_survive_the_state_folder():
    """Are settings unchanged after they are saved as JSON and read back?"""
    chosen = Settings(port=9000, database="postgresql", slurm="machine", spawner="slurm")
    assert hub_settings.from_values(json.loads(json.dumps(hub_settings.as_values(chosen)))) == chosen


@pytest.fixture
def spawner_module(monkeypatch):
    """Replace the modules that the generated configuration imports with stand-ins."""
    queued = types.SimpleNamespace(QueuedSpawner="of Slurm")
    monkeypatch.setitem(sys.modules, "slurm_spawner", queued)
    monkeypatch.setitem(sys.modules, "passwords", types.SimpleNamespace(Passwords="page"))
    monkeypatch.setitem(sys.modules, "spawner", types.SimpleNamespace(ForkedSpawner="forked"))
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.mark.parametrize("spawner", ["local", "slurm"])
def test_the_configuration_is_python_and_listens_on_loopback(spawner, tmp_path, spawner_module):
    """Is the generated configuration valid Python that listens only on loopback addresses? Does it keep
    servers running when the hub stops, and give admin rights only to the service `sync`?"""
    (tmp_path / "hub").mkdir()
    secrets = {
        "proxy": "p",
        "formgrader": "f",
        "sync": "s",
        "culler": "c",
        "check": "k",
        "database": "sqlite://",
    }
    (tmp_path / "hub/secrets.json").write_text(json.dumps(secrets))
    text = config_files.hub(Settings(port=9000, spawner=spawner, slurm="site"), tmp_path, PYTHON)
    c = executed(text)
    urls = [c.JupyterHub.bind_url, c.JupyterHub.hub_bind_url, c.ConfigurableHTTPProxy.api_url]
    urls += [s["url"] for s in c.JupyterHub.services if "url" in s]
    assert urls == [f"http://127.0.0.1:{port}" for port in (9000, 9002, 9001, 9003, 9004)]
    assert {s["name"] for s in c.JupyterHub.services} == {COURSE, "sync", "idle-culler", "check"}
    assert not (c.JupyterHub.cleanup_servers or c.JupyterHub.cleanup_proxy or c.Authenticator.admin_users)
    assert ("Slurm" in c.JupyterHub.spawner_class) == (spawner == "slurm")
    admins = [r["name"] for r in c.JupyterHub.load_roles if any(s.startswith("admin:") for s in r["scopes"])]
    assert admins == ["sync"], "one service alone may change users"


KEPT = """
import gc, os, sys
sys.path.insert(0, sys.argv[1])
import prefork
prefork.load(prefork.MODULES)
gc.unfreeze()
os.environ.clear()
os.environ["HOME"] = "/of-a-student"
prefork.settle()
print(*sys.modules)
for thing in gc.get_objects():
    parts = list(thing.items()) if isinstance(thing, dict) else []
    parts = list(thing) if isinstance(thing, (list, tuple, set)) else parts
    if thing is not sys.argv and thing is not sys.orig_argv:
        for part in parts:
            for one in part if isinstance(part, tuple) else [part]:
                if isinstance(one, (str, bytes, os.PathLike)) and sys.argv[2] in str(one):
                    print("kept:", part)
"""
OWN = """
import sys
sys.path.insert(0, sys.argv[1])
import prefork
prefork.load(prefork.MODULES)
held, clients = {name.partition(".")[0] for name in sys.modules}, []
import httpx
from jupyter_server.serverapp import ServerApp
httpx.AsyncClient.__init__ = lambda self, *_, **__: clients.append(self)
server = ServerApp.instance()
server.initialize(argv=["--port=0", "--allow-root", "--no-browser"])
print(*sorted({name.partition(".")[0] for name in sys.modules} - held), *clients)
print(*(name for name, one in server.extension_manager.extensions.items() if one.enabled))
"""
GIVEN = ["HOME", "USER", "CLUSTER_STATE", "JUPYTER_CONFIG_PATH"]
OF_THE_HUB = ["USER", "SERVICE_PREFIX", "API_TOKEN", "API_URL", "BASE_URL", "SERVICE_URL", "CLIENT_ID"]


@pytest.mark.servers
def test_a_server_start_imports_nothing_superfluous(tmp_path):
    """Does a student's server import only a few packages in addition to the preloaded ones? Does it start
    without creating an HTTP client and without the extension jupyter_lsp?"""
    for name, text in config_files.files(Settings(), tmp_path, PYTHON).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    env = os.environ | {"HOME": str(tmp_path), "CLUSTER_HUB": str(tmp_path)}
    env |= {"JUPYTER_CONFIG_PATH": str(tmp_path / "etc/student")}
    command = [sys.executable, "-W", "ignore", "-c", OWN, str(Path(units.__file__).parent)]
    result = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    imported, extensions = map(str.split, result.stdout.splitlines())
    assert set(imported) <= {"async_lru", "cluster", "jupyterhub", "jupyterlab_jupytext", "notebook"}
    assert "jupyterlab" in extensions and "jupyter_lsp" not in extensions


@pytest.mark.parametrize("seconds", [90, 900])
def test_a_server_that_is_slow_to_stop_is_waited_for(seconds, monkeypatch):
    """Does the API client wait until a user's server has stopped, and report an error after 180 s?"""
    now, calls = [0.0], []

    class Slow(api.Api):
        def __call__(self, method, path, body=None, missing=None):
            calls.append((method, path))
            return {"pending": "stop" if now[0] < seconds else None}

    clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(api, "time", clock)
    patience = pytest.raises(HubError, match="server of ada has not stopped within 180 s")
    with patience if seconds > 180 else contextlib.nullcontext():
        Slow(Settings(), "token").end("ada")
    assert now[0] >= min(seconds, 180) and calls[0] == ("DELETE", "/users/ada/server")


def test_each_page_of_the_hub_has_a_heading():
    """Does each page of the hub have an <h1> heading, from JupyterHub's templates or the course's?"""
    stock = Path(sys.prefix) / "share/jupyterhub/templates"
    if not stock.is_dir():
        pytest.skip("JupyterHub is not installed: cluster/setup.sh hub")
    frame = ("page.html", "admin.html")  # the frame of all pages, and a page created by a script
    shown = {page.name: page.read_text() for page in stock.glob("*.html") if page.name not in frame}
    for page in config_files.TEMPLATES.glob("*.html"):
        kept = "" if re.search("block (main|message)", page.read_text()) else shown.get(page.name, "")
        shown[page.name] = page.read_text() + kept
    assert {"stop_pending.html", "logout.html", "login.html"} <= shown.keys()
    assert [name for name in sorted(shown) if "<h1" not in shown[name] and name not in frame] == []


def test_the_hubs_home_page_links_instructors_to_the_class():
    """Does the hub's home page link to the class page and the password page only for users who may open
    them?"""
    stock = jinja2.DictLoader({"templates/home.html": "{% block main %}{% endblock %}"})
    loader = jinja2.ChoiceLoader([jinja2.FileSystemLoader(config_files.TEMPLATES), stock])
    home = jinja2.Environment(loader=loader, enable_async=True).get_template("home.html")
    own, other = (types.SimpleNamespace(name=n, href=f"/services/{n}/") for n in (COURSE, "other"))
    values = {"default_server": {}, "url": "/lab", "course": COURSE, "passwords": True}
    for group, seen, links in (
        (f"nbgrader-{COURSE}", [], 0),
        (f"nbgrader-{COURSE}", [other], 0),
        (GRADERS, [other, own], 1),
        (INSTRUCTORS, [other, own], 2),
    ):
        user = types.SimpleNamespace(groups=[types.SimpleNamespace(name=group)])
        text = asyncio.run(home.render_async(user=user, services=seen, **values))
        assert text.count("href=") == 1 + links and "Your server" in text
        assert text.count(f'href="/services/{COURSE}/course/class"') == (links > 0)
        assert text.count('id="passwords"') == (links > 1)
    assert f'"course": "{COURSE}"' in config_files.hub(Settings(), STATE, PYTHON)


def test_what_servers_fork_from_keeps_nothing_of_one_user():
    """Is the memory of the process that servers are forked from free of the values of its home folder and
    environment variables? All users' servers would share these values."""
    names = GIVEN + [f"JUPYTERHUB_{name}" for name in OF_THE_HUB]
    env = {"PATH": os.environ["PATH"]} | {name: f"/of-whom/{name}" for name in names}
    command = [sys.executable, "-W", "ignore", "-c", KEPT, str(Path(units.__file__).parent), "/of-w" + "hom"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, cwd="/")
    assert result.returncode == 0, result.stderr
    modules, *kept = result.stdout.splitlines()
    assert len(modules.split()) > 1000 and "jupyter_server.serverapp" in modules and not kept, kept
    assert not [name for name in modules.split() if name.startswith(("jupyterhub", "jupyterlab.labapp"))]


def test_extensions_follow_the_role():
    """Is Formgrader enabled only on the grader's server, and nbgrader's course list only on instructors'
    servers?"""
    files = config_files.files(Settings(), STATE, PYTHON)

    def parts(role):
        server = json.loads(files[f"etc/{role}/jupyter_server_config.json"])["ServerApp"][
            "jpserver_extensions"
        ]
        page = json.loads(files[f"etc/{role}/labconfig/page_config.json"])["disabledExtensions"]
        return {n.rpartition(".")[2] for n, on in server.items() if on}, {
            n.partition("nbgrader:")[2] for n in page
        } - {""}

    on, off = parts("student")
    assert {"assignment_list", "validate_assignment", "pages", "jupyterlab"} <= on
    assert not {"formgrader", "course_list"} & on
    assert off == {"formgrader", "create-assignment", "course-list", "validate-assignment"}
    on, off = parts("instructor")
    assert "course_list" in on and "formgrader" not in on and "create-assignment" in off
    on, off = parts("grader")
    assert "formgrader" in on and off == {"assignment-list", "course-list", "validate-assignment"}


def test_checks_can_be_switched_off(tmp_path, spawner_module):
    """If the setting `checks` is 0, are the official check's service, scopes and settings left out?
    Otherwise, does the configuration contain its URL and limits?"""
    (tmp_path / "hub").mkdir()
    names = ("proxy", "formgrader", "sync", "culler", "check", "database")
    (tmp_path / "hub/secrets.json").write_text(json.dumps(dict.fromkeys(names, "x")))
    for checks in (0, 2):
        c = executed(config_files.hub(Settings(checks=checks), tmp_path, PYTHON))
        rights = [scope for role in c.JupyterHub.load_roles for scope in role["scopes"]]
        there = "access:services!service=check" in c.Spawner.server_token_scopes
        assert there == bool(checks) == ("access:services!service=check" in rights)
        assert ("check" in [service["name"] for service in c.JupyterHub.services]) == bool(checks)
        files = config_files.files(Settings(checks=checks), tmp_path, PYTHON)
        panel = json.loads(files["etc/student/jupyter_course_panel_config.json"])["CoursePanel"]
        assert panel["check"] == ("http://127.0.0.1:8000/services/check/" if checks else "")
        assert files.get("etc/check.json", "") == ('{"an_hour": 2, "in_all": 30}\n' if checks else "")
    with pytest.raises(HubError, match="checks = -1 must be a whole number"):
        Settings(checks=-1)


def test_the_pages_are_told_what_their_role_may_know():
    """Is the class page enabled only on the grader's server, its link only on instructors' servers, and the
    recording of progress only on students' servers?"""
    files = config_files.files(Settings(progress=True, slurm="site"), STATE, PYTHON)

    def told(role, name):
        return json.loads(files.get(f"etc/{role}/jupyter_{name}_config.json", "{}"))

    student, instructor = (told(role, "course_panel")["CoursePanel"] for role in ("student", "instructor"))
    assert student["progress"] and not instructor["progress"]
    assert "class_page" not in student and instructor["class_page"] == f"/services/{COURSE}/course/class"
    assert student["people"] == "/state/hub/people" and not told("student", "class_page")
    page = told("grader", "class_page")["ClassPage"]
    page_settings = {"people": "/state/hub/people", "progress": True}
    assert page == page_settings | {"instructors": INSTRUCTORS}
    on = [role for role in ("student", "instructor", "grader")
          if "cluster.staff.class_page" in files[f"etc/{role}/jupyter_server_config.json"]]  # fmt: skip
    assert on == ["grader"]
    assert "cluster.pages.nbgrader_submit" in files["etc/student/nbgrader_config.py"]
    assert 'c.Notices.folder = "/state/hub/people"' in config_files.site(Settings(), STATE, None)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
def test_a_persons_folder_is_closed_to_others(tmp_path, monkeypatch):
    """Does a student's folder belong to the student and the grader's group, closed to all others? Is the
    progress file deleted if the setting `progress` is off? Is a student in the grader's group refused?"""
    settings = Settings(grader="daemon")
    ada = roster.Person("Ada", "nobody", "student")
    course_files.people(tmp_path, settings, [ada])
    about, all_ = (tmp_path / "people/nobody").stat(), (tmp_path / "people").stat()
    assert about.st_mode & 0o7777 == 0o2770 and all_.st_mode & 0o777 == 0o711
    assert (about.st_uid, about.st_gid) == (
        users.unix_user("nobody").pw_uid,
        users.unix_user("daemon").pw_gid,
    )
    (tmp_path / "people/nobody/progress.json").write_text("{}")
    course_files.people(tmp_path, Settings(grader="daemon", progress=True), [ada])
    assert (tmp_path / "people/nobody/progress.json").exists()
    course_files.people(tmp_path, settings, [ada])
    assert not (tmp_path / "people/nobody/progress.json").exists()
    monkeypatch.setattr(os, "getgrouplist", lambda user, group: [group, users.unix_user("daemon").pw_gid])
    with pytest.raises(HubError, match="is in the group of daemon"):
        course_files.people(tmp_path, settings, [ada])


def test_the_role_is_the_groups(tmp_path, spawner_module):
    """Does the spawner's hook choose a server's configuration by the groups of its user?"""
    (tmp_path / "hub").mkdir()
    names = ("proxy", "formgrader", "sync", "culler", "check", "database")
    (tmp_path / "hub/secrets.json").write_text(json.dumps(dict.fromkeys(names, "x")))
    hook = executed(config_files.hub(Settings(), tmp_path, PYTHON)).Spawner.pre_spawn_hook

    def role(*groups):
        user = types.SimpleNamespace(groups=[types.SimpleNamespace(name=g) for g in groups])
        spawner = types.SimpleNamespace(user=user, environment={"A": "1"})
        hook(spawner)
        return Path(spawner.environment["JUPYTER_CONFIG_PATH"]).name

    assert [role(INSTRUCTORS), role(), role(f"nbgrader-{COURSE}")] == ["instructor", "student", "student"]
    assert role(GRADERS) == "instructor", "graders have the link to the class page"


def test_a_course_with_a_folder_keeps_to_it(tmp_path, spawner_module, monkeypatch):
    """If the setting `folder` is given, does JupyterLab open in this folder and keep assignments, data and
    workspaces there? Otherwise, does it open in the home folder?"""
    (tmp_path / "hub").mkdir()
    names = ("proxy", "formgrader", "sync", "culler", "database", "check")
    (tmp_path / "hub/secrets.json").write_text(json.dumps(dict.fromkeys(names, "x")))
    (tmp_path / "autumn").mkdir()
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for folder in ("autumn", ""):
        chosen = Settings(folder=folder)
        hook = executed(config_files.hub(chosen, tmp_path, PYTHON)).Spawner.pre_spawn_hook
        user = types.SimpleNamespace(groups=[], name="root")
        spawner = types.SimpleNamespace(user=user, environment={}, notebook_dir="")
        hook(spawner)
        own = os.path.expanduser("~root/autumn/.jupyter")
        data = {"JUPYTER_DATA_DIR": own, "JUPYTERLAB_WORKSPACES_DIR": f"{own}/workspaces"} if folder else {}
        assert spawner.notebook_dir == ("~/autumn" if folder else "")
        del spawner.environment["JUPYTER_CONFIG_PATH"]
        assert spawner.environment == data
        text = config_files.files(chosen, STATE, PYTHON)["etc/student/nbgrader_config.py"]
        assert executed(text).Exchange.assignment_dir == str(tmp_path / folder / "assignments")


@pytest.fixture
def hubs(tmp_path, monkeypatch):
    """Return a function make(name, users, **settings) that creates the state folder of a hub that was once
    started."""
    monkeypatch.setenv("CLUSTER_STATE", str(tmp_path))

    def make(name, users, **values):
        state = tmp_path / name
        state.mkdir()
        about = {"settings": hub_settings.as_values(Settings(**values)), "root": "/"}
        (state / states.RECORD).write_text(json.dumps(about))
        (state / states.ROSTER).write_text(HEAD + "".join(f"{u.title()},{u},student,\n" for u in users))
        (state / "accounts.json").write_text(json.dumps(dict.fromkeys(users, 1)))
        neighbours.note(state)
        return state

    return make


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"port": 8004, "folder": "b"}, "port = 8004: the hub in .*/first has 8000 and the next 4"),
        (
            {"port": 8005},
            "ada is on the roster of the hub in .*/first, too, .* the home itself. Set folder =",
        ),
        ({"port": 8005, "folder": "b", "slurm": "machine"}, "slurm = 'machine': the single-host Slurm has"),
    ],
)
def test_what_two_hubs_would_both_use_is_refused(hubs, values, message):
    """Is a second hub refused if it would share ports, folders or a single-host Slurm with another? Does the
    error name that hub and the setting to change?"""
    first = hubs("first", ["ada", "ben"], port=8000, slurm="machine")
    services.process_ledger(first).put("hub", processes.identify(os.getpid()))
    people = roster.people_in(HEAD + "Ada,ada,student,\n")
    second = Path("/state/second")
    with pytest.raises(HubError, match=message):
        neighbours.check(second, Settings(**values), people)
    neighbours.check(second, Settings(port=8005, folder="b"), people)
    neighbours.check(second, Settings(port=8005), roster.people_in(HEAD + "Cem,cem,student,\n"))
    services.process_ledger(first).drop("hub")  # last term's hub has stopped: its ports are free
    neighbours.check(second, Settings(port=8000, folder="b", slurm="machine"), people)


def test_other_hubs_are_known_until_they_are_gone(hubs):
    """Does a hub know the other hubs on this machine and their users, until these hubs are purged or their
    state folders are gone?"""
    first, second = hubs("first", ["ada"]), hubs("second", ["ada", "cem"], port=9000, folder="b")
    assert neighbours.others(first) == [second] and neighbours.others(second) == [first]
    assert neighbours.of_others(first) == {"ada": second, "cem": second}
    assert neighbours.made_by_others(second) == {"ada": first}
    (first / states.RECORD).unlink()
    assert neighbours.others(second) == []
    neighbours.forget(second)
    assert neighbours.others(first) == []


def test_grading_next_to_a_hub_is_reported(hubs, monkeypatch, capsys):
    """If a class command runs in a hub's repository, does a note say that the class is graded on the hub's
    class page?"""
    state, root, elsewhere = hubs("first", []), Path("/course"), Path("/another")
    about = states.record(state) | {"root": str(root)}
    (state / states.RECORD).write_text(json.dumps(about))
    message = f"the class of the hub in {state} is graded on its class page"
    for where, hint in [(root, message), (elsewhere, "")]:
        monkeypatch.setattr(staff, "find_root", lambda where=where: where)
        assert staff.main(["due", "01"]) == 1
        errors = capsys.readouterr().err
        assert hint in errors and ("note:" in errors) == bool(hint) and "error: '01' is no" in errors
    monkeypatch.setattr(neighbours, "_list", lambda: Path("/nowhere"))
    assert neighbours.started_from(root) == []


def test_nbgraders_own_settings_name_the_same_course():
    """Does nbgrader_config.py name the same course as the hub? Formgrader's service must have that name."""
    assert f'course_id = "{COURSE}"' in (Path(__file__).parents[2] / "nbgrader_config.py").read_text()


def test_the_graders_changes_are_kept(tmp_path):
    """Does an update of the grader's copy of the course keep the files that were edited there, and replace or
    delete the others?"""
    course = tmp_path / "course"
    assert course_files.update(course, {"a/1.txt": b"one", "b.txt": b"two", "c.txt": b"three"}) == []
    (course / "b.txt").write_text("mine")
    (course / "own.txt").write_text("own")
    assert course_files.update(course, {"a/1.txt": b"ONE", "b.txt": b"TWO"}) == ["b.txt"]
    assert (course / "a/1.txt").read_text() == "ONE" and (course / "b.txt").read_text() == "mine"
    assert not (course / "c.txt").exists() and (course / "own.txt").exists()
    assert course.stat().st_mode & 0o777 == 0o700


def test_a_folder_without_a_course_is_refused_first(tmp_path):
    """Is a folder that is not a course's repository refused, with the name of a missing file?"""
    with pytest.raises(HubError, match="not the course's repository: it has no nbgrader_config"):
        course_files.check(tmp_path)


def test_a_course_that_students_can_enter_is_refused():
    """Is a course with world-readable solutions refused, with the command that closes it?"""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for name in ("nbgrader_config.py", "solutions", "lectures", "cluster/__init__.py"):
            Path(folder, name).mkdir(parents=True)
        os.chmod(folder, 0o755)
        with pytest.raises(HubError, match=f"could read {folder}/solutions.*chmod o-rwx '{folder}'"):
            course_files.check(Path(folder))
        os.chmod(folder, 0o750)
        course_files.check(Path(folder))


def test_names_of_real_people_are_read():
    """Does a roster accept names with apostrophes, hyphens, accents, and letters and zero-width characters of
    other scripts?"""
    names = ["Seán O’Néill", "O'Brien-Łukasz", "Nguyễn Thị Ánh", "मीरा", "می‌نو", "李明"]
    people = roster.people_in(HEAD + "".join(f"{name},u{i},student,\n" for i, name in enumerate(names)))
    assert [person.name for person in people] == names


def test_checkpoints_of_a_read_only_notebook_are_in_the_home(tmp_path, monkeypatch):
    """Are the checkpoints of a read-only notebook saved in the user's home? In /tmp, they would belong to the
    first user who opened the lecture."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLUSTER_HUB", str(tmp_path))
    (tmp_path / "home/course").mkdir(parents=True)
    c = executed(config_files.SERVER)
    checkpoints = c.ContentsManager.checkpoints_class(root_dir=str(tmp_path / "home"))
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "course" not in str(path) and access(path, mode))
    home = tmp_path / "home"
    assert (
        checkpoints.checkpoint_path("checkpoint", "mine.ipynb")
        == f"{home}/.ipynb_checkpoints/mine-checkpoint.ipynb"
    )
    path = checkpoints.checkpoint_path("checkpoint", "course/01.ipynb")
    assert path == f"{home}/.local/share/jupyter/checkpoints/course/01-checkpoint.ipynb"
    assert Path(path).parent.is_dir()


def test_a_notebook_opens_on_a_full_disk(tmp_path, monkeypatch):
    """If a notebook's signature cannot be saved because the disk is full, can existing signatures still be
    checked, without an error?"""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CLUSTER_HUB", str(tmp_path))
    store = executed(config_files.SERVER).NotebookNotary.store_factory()
    store.store_signature("known", "sha256")
    store.db.execute("PRAGMA query_only = ON")  # like a full disk, whose files can still be read
    assert store.check_signature("known", "sha256") and not store.check_signature("new", "sha256")
    store.store_signature("new", "sha256")
    assert not store.check_signature("new", "sha256")
    store.db.execute("PRAGMA query_only = OFF")
    store.store_signature("new", "sha256")
    assert store.check_signature("new", "sha256")


def test_students_would_see_a_solution(tmp_path):
    """If a file for students contains a solution, is this file reported before anything is installed?"""
    root = Path(__file__).parents[2]
    course = tmp_path / "repository"
    for part in ("cluster", "lectures", "exercises", "solutions"):
        (course / part).mkdir(parents=True)
    (course / "lectures/leak.ipynb").write_text('{"cells": ["### BEGIN SOLUTION"]}')
    (course / "cluster/__init__.py").write_text("")
    (course / "nbgrader_config.py").write_text((root / "nbgrader_config.py").read_text())
    with pytest.raises(HubError, match=r"lectures/leak.ipynb: has BEGIN SOLUTION"):
        course_files.students(course, tmp_path, Settings())
    assert not (tmp_path / "course").exists() and not (tmp_path / "course.new").exists()


def test_the_environment_is_one_that_others_can_run(tmp_path):
    """Is a Python interpreter rejected if other users cannot enter its folder?"""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").touch(mode=0o755)
    assert not environment.open_to_all(closed / "python")
    assert environment.open_to_all(Path("/bin/sh").resolve())


def test_an_invalid_backup_is_refused(tmp_path):
    """Is a text file refused as unreadable, and an archive of something else as an incomplete backup?"""
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(HubError, match="not a readable backup"):
        backup._opened(tmp_path / "text")
    subprocess.run(["tar", "czf", tmp_path / "other.tar.gz", "-C", tmp_path, "text"], check=True)
    with (
        backup._opened(tmp_path / "other.tar.gz") as tar,
        pytest.raises(HubError, match="not a complete backup"),
    ):
        backup._about(tar, tmp_path / "other.tar.gz")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_acting_as_another_user_follows_no_link_of_theirs(tmp_path):
    """Does code that root runs as another user have only that user's rights, and are its exceptions reported
    as errors of the hub?"""
    assert users.acting("nobody", os.getuid) == users.unix_user("nobody").pw_uid
    (tmp_path / "secret").write_text("root's")
    (tmp_path / "secret").chmod(0o600)
    with pytest.raises(HubError, match="As the user nobody: PermissionError"):
        users.acting("nobody", lambda: (tmp_path / "secret").read_text())


def test_a_system_user_is_never_a_student(tmp_path):
    """If a person on the roster has the name of a system user, is this user refused and left unchanged?"""
    book = users.Accounts(tmp_path, tmp_path)
    with pytest.raises(HubError, match="'daemon', a user of the system"):
        book.ensure(roster.Person("D", "daemon", "student"))
    assert not book.all() and not book.lock("daemon")


def test_a_course_of_another_hub_is_not_taken_over(tmp_path):
    """Is a user refused as the grader if their home contains another hub's course, with a message that names
    that hub? Does that hub itself accept the user?"""
    course, other = tmp_path / "course", Path("/var/lib/first/hub")
    course_files.free(course, STATE, "grader")
    course_files.update(course, {course_files.SITE: config_files.site(Settings(), other, None).encode()})
    with pytest.raises(
        HubError, match=r"'grader' is used by another hub at /var/lib/first/hub.*grader = '…'"
    ):
        course_files.free(course, STATE, "grader")
    course_files.free(course, other, "grader")


def test_a_truncated_roster_locks_no_user_out(tmp_path):
    """Is a roster refused if it is empty, names no instructor or removes a fifth of the class? Does the
    message name the removed people, and is a roster accepted that removes only a few?"""
    head, ines = "name,user,role,extension", "Ines,ines,instructor,"
    rows = [f"S {i},s{i},student," for i in range(39)]
    (tmp_path / sync.KEPT).write_text("\n".join([head, ines, *rows]))

    def check(*lines):
        sync.check_departures(tmp_path, roster.people_in("\n".join([head, *lines])))

    check(ines, *rows, "New,new,student,")
    check(ines, *rows[5:])
    with pytest.raises(HubError, match="roster is empty"):
        check()
    with pytest.raises(HubError, match=r"removes 1 of 40 people \(ines\) and names no instructor.*--yes"):
        check(*rows)
    with pytest.raises(HubError, match=r"removes 8 of 40 people \(s0, s1,"):
        check(ines, *rows[8:])


@pytest.mark.skipif(os.getuid() != 0, reason="only root purges")
def test_a_purge_asks(tmp_path):
    """Without a terminal and without --yes, does a purge only list what it would remove? On a terminal, does
    it continue only after the state folder's path is typed?"""
    state = tmp_path / "hub"
    state.mkdir()
    about = {"settings": hub_settings.as_values(Settings(grader="nobody-like-that")), "root": "/"}
    (state / "started.json").write_text(json.dumps(about))
    (state / "accounts.json").write_text('{"ada-who-is-not": 1}')
    command = [sys.executable, "-m", "cluster.staff.hub", "stop", "--purge", "--state", str(state)]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 1 and "--yes" in result.stderr
    assert f"removes {state}" in result.stdout and "1 users" in result.stdout and "no backup" in result.stdout
    (state / states.BACKED_UP).write_text(json.dumps({"file": "/b.tar.gz", "time": time.time() - 3 * 86400}))
    leader, terminal = os.openpty()
    os.write(leader, b"hub\n")
    result = subprocess.run(command, capture_output=True, text=True, stdin=terminal)
    assert "/b.tar.gz, 3 days old" in result.stdout and "Nothing was done" in result.stderr and state.exists()
    os.write(leader, f"{state}\n".encode())
    subprocess.run(command, capture_output=True, text=True, stdin=terminal, check=True)
    assert not state.exists()


def test_a_backup_contains_the_collectable_submissions(tmp_path, monkeypatch):
    """Does a backup of the inbound folder contain only submissions that can be collected? Are submissions
    that are too large or have too many files left out, and also pipes and links inside others?"""
    inbox = tmp_path / "inbound"
    for name in ("ada+1", "ben+1", "cem+1"):
        (inbox / name).mkdir(parents=True)
    (inbox / "ada+1/a.ipynb").write_text("ada's")
    os.link(inbox / "ada+1/a.ipynb", inbox / "ada+1/again.ipynb")
    os.mkfifo(inbox / "ada+1/pipe")
    (inbox / "ada+1/link").symlink_to("/etc/passwd")
    Path(os.fsdecode(os.fsencode(inbox) + b"/ada+1/bad\xff.txt")).write_text("x")
    with open(inbox / "ben+1/hole", "wb") as file:
        file.truncate(4 * 10**12)
    for i in range(4):
        (inbox / f"cem+1/{i}").touch()
    os.mkfifo(inbox / "dora\n+1")
    monkeypatch.setattr(work_files, "MOST", 3)
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as tar:
        left_out = backup._inbox(tar, inbox, "inbound")
    assert [line.split(":")[0] for line in left_out] == ["ben+1", "cem+1", "dora\\n+1"]
    assert "500 MiB" in left_out[0]
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        held = {m.name: m.isfile() and tar.extractfile(m).read() for m in tar}
    assert held == {
        "inbound": False,
        "inbound/ada+1/a.ipynb": b"ada's",
        "inbound/ada+1/again.ipynb": b"ada's",
        "inbound/ada+1/bad\udcff.txt": b"x",
    }


def test_a_backup_waits_for_a_grading(tmp_path):
    """Does a backup refuse to start during a grading run, or wait for its end on request? Is a grading run
    refused while a backup is written?"""
    runs = grading_folder.GradingFolder(tmp_path / "runs", "01_loops")
    lines = []
    with (
        runs.alone(),
        contextlib.ExitStack() as stack,
        pytest.raises(HubError, match="01_loops is being"),
    ):
        backup._no_grading(tmp_path / "runs", 0, lines.append, stack)
    grading = contextlib.ExitStack()
    grading.enter_context(runs.alone())
    with contextlib.ExitStack() as stack:
        backup._no_grading(tmp_path / "runs", 5, lambda line: (lines.append(line), grading.close()), stack)
        assert f"process {os.getpid()}" in lines[0]
        with pytest.raises(CourseError, match="is being graded"), runs.alone():
            pass
    with runs.alone():
        pass
