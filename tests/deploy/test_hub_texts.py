"""Test the hub's settings, its roster and generated files, and that users' own files are left alone. No hub
is started."""

import asyncio
import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import types
from pathlib import Path

import pandas
import pytest
from traitlets.config.loader import PyFileConfigLoader

from cluster.staff import __main__ as staff
from cluster.staff import work_files
from cluster.staff.course import CourseError
from cluster.staff.hub import (
    COURSE,
    GRADERS,
    INSTRUCTORS,
    backup,
    config_files,
    course_files,
    environment,
    hub_settings,
    roster,
    start_hub,
    stop_hub,
    sync,
    users,
)
from cluster.staff.hub import __main__ as hub_commands
from cluster.staff.hub import state as states
from cluster.staff.hub.hub_settings import HubError, Settings
from cluster.staff.submissions import grading_folder

HEAD = "name,user,role,extension\n"
STATE, PYTHON = Path("/state/hub"), Path("/state/hub/python/bin/python")
SITE = config_files.SITE
GRADER = {"grader": "daemon"}  # a user that exists in every Debian
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


def placed(state, **values):
    """Write the files that `start` generates; return {path: text}."""
    made = config_files.files(Settings(**GRADER | values), state, PYTHON)
    for name, text in made.items():
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text(text)
    (state / "hub").mkdir(exist_ok=True)
    secrets = {"proxy": "p", "sync": "s", "database": "sqlite://"}
    (state / "hub/secrets.json").write_text(json.dumps(secrets))
    return made


@pytest.fixture
def loaded(monkeypatch, tmp_path):
    """Return a function that reads a configuration file in a state folder as Jupyter does."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("CLUSTER_HUB", str(tmp_path))

    def load(path):
        for name in ("course_on_hub", "passwords", "spawner", "slurm_spawner", "lti_login"):
            sys.modules.pop(name, None)
        return PyFileConfigLoader(path.name, path=str(path.parent)).load_config()

    return load


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
    with pytest.raises(HubError, match="hub roster"):
        roster.people_in(EXPORTS[platform])
    before = people.read_bytes()
    assert hub_commands.main(["roster", str(export), "--to", str(people)]) == 1
    assert str(people) in capsys.readouterr().err and people.read_bytes() == before


CLASS = [
    (f"Zoë {first}", f"O'{last}-Öz", f"s{i}", f"Lab {i % 5}")
    for i, (first, last) in enumerate((f"Ada{i}", f"Łęcki{i}") for i in range(450))
]
MOODLES = {  # {language: first name, last name, username, email, groups}
    "de": "Vorname,Nachname,Anmeldename,E-Mail-Adresse,Gruppen",
    "fr": "Prénom,Nom de famille,Nom d\u2019utilisateur,Adresse de courriel,Groupes",
    "es": "Nombre,Apellido(s),Nombre de usuario,Dirección de correo,Grupos",
    "it": "Nome,Cognome,Username,Indirizzo email,Gruppi",
    "pt": "Nome,Apelido,Nome de utilizador,E-mail,Grupos",
    "nl": "Voornaam,Achternaam,Gebruikersnaam,E-mailadres,Groepen",
}


def saved(rows, separator=",", head="", ends="\n"):
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator=ends).writerows(rows)
    return head + buffer.getvalue()


def written_class(how):
    """Return (whether it is a roster, bytes) of the 450 people, as one program saves them."""
    own = [
        ("name", "user", "role", "section"),
        *((f"{first} {last}", u, "student", s) for first, last, u, s in CLASS),
    ]
    if how == "pandas":
        return True, pandas.DataFrame(own[1:], columns=own[0]).to_csv(index=False).encode()
    if how == "Excel, separator named":
        return True, ("\ufeff" + saved(own, ";", "sep=;\r\n", "\r\n")).encode()
    if how == "Excel, separator named and quoted":
        return True, saved([(*row, "", "") for row in own], ",", '"sep=,",,\r\n', "\r\n").encode("utf-16")
    if how == "Excel, columns and rows left empty":
        rows = [(*own[0], "", ""), *((*row, "", "") if i % 2 else row for i, row in enumerate(own[1:]))]
        return True, saved([*rows, ("",) * 6, ("",) * 6], ",", "", "\r\n").encode()
    if how == "Excel, Windows-1252":
        return True, saved(own, ";", "", "\r\n").replace("Łę", "Ö").encode("cp1252")
    if how == "LibreOffice, tabs":
        return True, saved(own, "\t").encode()
    if how == "LibreOffice, all quoted":
        return True, "".join(",".join(f'"{x}"' for x in row) + "\n" for row in own).encode()
    if how == "Canvas":
        rows = [(f"{last}, {first}", i, u, s, 3) for i, (first, last, u, s) in enumerate(CLASS)]
        head = [("Student", "ID", "SIS Login ID", "Section", "01 (7)"), ("  Points Possible", "", "", "", 9)]
        return False, ("\ufeff" + saved([*head, *rows])).encode()
    if how == "grading worksheet":
        rows = [
            (f"Teilnehmer/in{i}", f"{first} {last}", u, s, "-") for i, (first, last, u, s) in enumerate(CLASS)
        ]
        head = ("ID", "Vollständiger Name", "Anmeldename", "Gruppen", "Bewertung")
        return False, ("\ufeff" + saved([head, *rows])).encode()
    rows = [(first, last, u, f"{u}@uni.example", s) for first, last, u, s in CLASS]
    return False, ("\ufeff" + saved([MOODLES[how].split(","), *rows])).encode()


@pytest.mark.parametrize(
    "how",
    ["pandas", "Excel, separator named", "Excel, separator named and quoted",
     "Excel, columns and rows left empty", "Excel, Windows-1252", "LibreOffice, tabs",
     "LibreOffice, all quoted", "Canvas", "grading worksheet", *MOODLES],
)  # fmt: skip
def test_a_class_has_the_same_people_however_it_was_saved(tmp_path, how):
    is_roster, content = written_class(how)
    file = tmp_path / "file.csv"
    file.write_bytes(content)
    if not is_roster:
        file = tmp_path / "people.csv"
        file.write_text(roster.of_platform(tmp_path / "file.csv"))
    wanted = [(f"{first} {last}", user, section) for first, last, user, section in CLASS]
    if "1252" in how:
        wanted = [(name.replace("Łę", "Ö"), user, section) for name, user, section in wanted]
    assert [(p.name, p.user, p.section) for p in roster.read_people(file)] == wanted


def test_columns_with_other_headings_are_named_by_the_instructor(tmp_path, capsys):
    export = tmp_path / "export.csv"
    export.write_text("Kennung;Person;Tutorium\nada;Ada Öz;Mo 10\n")
    command = ["roster", str(export), "--state", str(tmp_path / "state")]
    assert hub_commands.main(command) == 1 and "--columns" in capsys.readouterr().err
    named = "username=Kennung, Full name=Person, section=tutorium"
    assert hub_commands.main([*command, "--columns", named]) == 0
    [ada] = roster.people_in(capsys.readouterr().out)
    assert (ada.name, ada.user, ada.section) == ("Ada Öz", "ada", "Mo 10")
    for wrong, value in (("username=Kenung,full name=Person", "kenung"), ("login=Kennung", "login")):
        assert hub_commands.main([*command, "--columns", wrong]) == 1
        assert value in capsys.readouterr().err


def test_users_of_the_system_are_refused_with_all_other_faults(tmp_path, capsys):
    """Do `roster` and `start` name users of the system with all other faults, in one message?"""
    people, export = tmp_path / "people.csv", tmp_path / "export.csv"
    logins = ["root", "ada", "a&b", "daemon", "ada"]
    people.write_text("name,user,role\n" + "".join(f"A B,{login},student\n" for login in logins))
    export.write_text("Username,First name,Last name\n" + "".join(f"{login},A,B\n" for login in logins))
    for command in (["start", "--check", "--roster", str(people)], ["roster", str(export)]):
        assert hub_commands.main([*command, "--state", str(tmp_path / "state")]) == 1
        error = capsys.readouterr().err
        assert set(re.findall(r"line (\d)", error)) == {"2", "4", "5", "6"}, error


def test_invalid_logins_of_an_export_are_reported(tmp_path):
    """Are all invalid and duplicate logins of an export reported, with their lines in the export?"""
    (tmp_path / "export.csv").write_text(
        "Username,First name,Last name\nada,A,B\n\na&b,C,D\nben,E,F\n12,G,H\nADA,I,J\n"
    )
    with pytest.raises(HubError) as caught:
        roster.of_platform(tmp_path / "export.csv")
    lines = {int(number): text for number, text in re.findall(r"line (\d): (.*)", str(caught.value))}
    assert lines.keys() == {4, 6, 7}
    assert (
        "'a&b'" in lines[4] and "'12'" in lines[6] and "'ada'" in lines[7] and "--prefix" in f"{caught.value}"
    )


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
    ("text", "named"),
    [
        ("name,role\nAda,student\n", "user"),
        (HEAD + "Ada, Countess,ada,student,\n", "line 2"),
        (HEAD + "Ada,ada\n", "line 2"),
        (HEAD + "A:da,ada,student,\n", "':'"),
        (HEAD + "Ada <script>alert(1)</script>,ada,student,\n", "name = 'Ada <script>alert(1)</script>'"),
        (HEAD + "Ada \u202eecnI,ada,student,\n", r"name = 'Ada \u202eecnI'"),
        (HEAD + "A\x1b[2Jda,ada,student,\n", r"\x1b"),
        (HEAD + " ,ada,student,\n", "name = ''"),
        ("name,user,role,grade\n", "'grade'"),
        ("name,user,role,role\nAda,ada,student,instructor\n", "'role'"),
        ("Name,user,role,NAME\nAda,ada,student,Ben\n", "'name'"),
        (HEAD + '"Ada,ada,student,\n' + "Ben,ben,student,\n" * 9000, "up to line"),
        (HEAD + "Ada,ada,student,,,x\n", "line 2"),
        (HEAD.strip() + ",platform\nA,a,student,,c@x.y\nB,b,student,,C@X.y\n", "'c@x.y'"),
        (HEAD.strip() + ",platform\nA,a,student,,b\nB,b,student,,\n", "'b'"),
    ],
)
def test_a_wrong_roster_is_refused(text, named):
    """Is an invalid roster refused with the offending value? Is it also refused if two people have the same
    name on the platform?"""
    with pytest.raises(HubError, match=re.escape(named)):
        roster.people_in(text)


LTI = {
    "issuer": "https://lms.example.org", "client_id": "x1", "deployments": ["1"],
    "authorize_url": "https://lms.example.org/auth", "jwks_url": "https://lms.example.org/certs",
}  # fmt: skip
WRONG = [
    {"port": "8000"}, {"port": 80}, {"spawner": "docker"}, {"database": "mysql"}, {"database": "postgresql"},
    {"database": "postgresql://host/hub"}, {"homes": "home"}, {"folder": "../ada"}, {"folder": "a b"},
    {"extra": "/not/there.py"}, {"grader": "Root"}, {"progress": "yes"}, {"memory_gib": 0.1}, {"checks": -1},
    {"memory_gib": "4G"}, {"hub_address": ""}, {"user_prefix": "1"}, {"lti": "moodle"},
]  # fmt: skip
WRONG_LTI = [
    {"issuer": "http://lms.example.org"}, {"token_url": "https://a b"}, {"jwks_url": "https://x/'\n"},
    {"deployments": "1"}, {"deployments": []}, {"client_id": 7}, {"claim": ""}, {"context": 3},
]  # fmt: skip


@pytest.mark.parametrize("values", [*WRONG, *({"lti": LTI | one} for one in WRONG_LTI)], ids=repr)
def test_a_wrong_setting_is_refused(values):
    """Is an invalid setting refused, with its name and its value?"""
    [(key, value)] = values.items()
    if isinstance(value, dict):
        [(key, value)] = [(f"lti.{name}", one) for name, one in value.items() if LTI.get(name) != one]
    with pytest.raises(HubError, match=re.escape(f"{key} = {value!r}")):
        hub_settings.from_values(values)


def test_all_wrong_settings_are_named_at_once(tmp_path):
    """Are all faults of a settings file reported at once: unknown, missing and invalid values, also in its
    table? Is the nearest name of a setting suggested?"""
    (tmp_path / "hub.toml").write_text('memory_gb = 4\nport = 80\nspawner = "x"\n[lti]\nissuer = "y"\n')
    with pytest.raises(HubError) as caught:
        hub_settings.from_toml(tmp_path / "hub.toml")
    lines = str(caught.value).splitlines()[1:]
    names = ["memory_gb", "port", "spawner", "lti.issuer", "lti.client_id", "lti.authorize_url"]
    assert [line.split()[0] for line in lines] == [*names, "lti.jwks_url", "lti.deployments"]
    assert "memory_gib" in lines[0]
    with pytest.raises(HubError, match="slurm = 'machine'"):
        hub_settings.from_values({"spawner": "slurm"})


@pytest.mark.parametrize(
    ("address", "refused"), [("127.0.0.1", True), ("localhost", True), ("10.0.0.5", False)]
)
def test_a_loopback_address_is_refused_with_a_sites_slurm(address, refused):
    """If servers run on a site's Slurm, is a loopback address of the hub refused? Is it accepted if the
    servers run on this machine?"""
    far = Settings(spawner="slurm", slurm="site", hub_address=address)
    with pytest.raises(HubError, match="hub_address") if refused else contextlib.nullcontext():
        start_hub._check_address(far)
    for near in (Settings(slurm="site"), Settings(spawner="slurm", slurm="machine")):
        start_hub._check_address(near)
    assert far.hub == f"http://{address}:8002"


def test_settings_survive_the_state_folder():
    """Are settings unchanged after they are saved as JSON and read back, also with the table [lti]?"""
    chosen = hub_settings.from_values({"port": 9000, "slurm": "machine", "spawner": "slurm", "lti": LTI})
    assert hub_settings.from_values(json.loads(json.dumps(hub_settings.as_values(chosen)))) == chosen
    assert chosen.lti.claim == "email" and Settings().lti is None
    site = Settings(database="postgresql://user:word@db.example.org:5432")
    at = "postgresql+psycopg://user:word@db.example.org:5432"
    assert [site.database_url(name) for name in ("hub", "gradebook")] == [f"{at}/hub", f"{at}/gradebook"]
    assert repr(f"{at}/gradebook") in config_files.site(site, STATE)


@pytest.mark.parametrize("checks", [0, 2])
@pytest.mark.parametrize("values", [{}, {"spawner": "slurm", "slurm": "site"}], ids=["local", "slurm"])
def test_the_configuration_listens_on_loopback(loaded, tmp_path, values, checks):
    """Does the hub's configuration listen only on loopback addresses, keep servers running when the hub
    stops, and give admin rights only to the service `sync`? Is the check left out if `checks` is 0?"""
    pytest.importorskip("batchspawner")
    made = placed(tmp_path, port=9000, checks=checks, **values)
    c = loaded(tmp_path / "etc/jupyterhub_config.py")
    urls = [c.JupyterHub.bind_url, c.JupyterHub.hub_bind_url, c.ConfigurableHTTPProxy.api_url]
    urls += [s["url"].partition("/services")[0] for s in c.JupyterHub.services if "url" in s]
    ports = (9000, 9002, 9001, 9003, *([9004] if checks else []))
    assert urls == [f"http://127.0.0.1:{port}" for port in ports]
    services = {COURSE, "sync", "idle-culler"} | ({"check"} if checks else set())
    assert {s["name"] for s in c.JupyterHub.services} == services
    assert not (c.JupyterHub.cleanup_servers or c.JupyterHub.cleanup_proxy or c.Authenticator.admin_users)
    assert c.JupyterHub.spawner_class.__name__ == ("QueuedSpawner" if values else "ForkedSpawner")
    assert c.JupyterHub.authenticator_class == "pam"
    scopes = {role["name"]: role["scopes"] for role in c.JupyterHub.load_roles}
    assert [name for name, some in scopes.items() if any(s.startswith("admin:") for s in some)] == ["sync"]
    called = "access:services!service=check"
    assert (called in c.Spawner.server_token_scopes) == bool(checks) == (called in scopes.get("check", []))
    panel = json.loads(made["etc/student/jupyter_course_panel_config.json"])["CoursePanel"]
    assert panel["check"] == ("http://127.0.0.1:9000/services/check/" if checks else "")
    limits = json.loads(made.get("etc/check.json", "{}"))
    assert limits == ({"an_hour": 2, "in_all": 30} if checks else {})


@pytest.mark.parametrize("there", [False, True])
def test_lti_is_configured_if_it_is_set(loaded, tmp_path, there):
    """With [lti], does the platform log people in, and do scores find its folder? Without it, is nothing of
    LTI generated?"""
    pytest.importorskip("ltiauthenticator")
    made = placed(tmp_path, **({"lti": hub_settings.from_values({"lti": LTI}).lti} if there else {}))
    c = loaded(tmp_path / "etc/jupyterhub_config.py")
    assert ("etc/lti_login.py" in made) == there == ("etc/passwords.py" not in made)
    assert (c.JupyterHub.authenticator_class != "pam") == there
    if there:
        assert c.RosterAuthenticator.client_id == {"x1"} and c.RosterAuthenticator.deployments == ["1"]
    chosen = hub_settings.from_values({"lti": LTI} if there else {})
    assert ("Lti.folder" in config_files.site(chosen, STATE)) == there


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
    placed(tmp_path)
    env = os.environ | {"HOME": str(tmp_path), "CLUSTER_HUB": str(tmp_path)}
    env |= {"JUPYTER_CONFIG_PATH": str(tmp_path / "etc/student")}
    command = [sys.executable, "-W", "ignore", "-c", OWN, str(SITE)]
    result = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    imported, extensions = map(str.split, result.stdout.splitlines())
    assert set(imported) <= {"async_lru", "cluster", "jupyterhub", "jupyterlab_jupytext", "notebook"}
    assert "jupyterlab" in extensions and "jupyter_lsp" not in extensions


@pytest.mark.parametrize("seconds", [90, 900])
def test_a_server_that_is_slow_to_stop_is_waited_for(seconds, monkeypatch):
    """Does the API client wait until a user's server has stopped, and report an error after 180 s?"""
    now, calls = [0.0], []

    class Slow(sync.Api):
        def __call__(self, method, path, body=None, missing=None):
            calls.append((method, path))
            return {"pending": "stop" if now[0] < seconds else None}

    clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(sync, "time", clock)
    patience = pytest.raises(HubError, match=r"ada .* 180 s")
    with patience if seconds > 180 else contextlib.nullcontext():
        Slow("http://hub", "token").end("ada")
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


def test_what_servers_fork_from_keeps_nothing_of_one_user():
    """Is the memory of the process that servers are forked from free of the values of its home folder and
    environment variables? All users' servers would share these values."""
    names = GIVEN + [f"JUPYTERHUB_{name}" for name in OF_THE_HUB]
    env = {"PATH": os.environ["PATH"]} | {name: f"/of-whom/{name}" for name in names}
    command = [sys.executable, "-W", "ignore", "-c", KEPT, str(SITE), "/of-w" + "hom"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, cwd="/")
    assert result.returncode == 0, result.stderr
    modules, *kept = result.stdout.splitlines()
    assert len(modules.split()) > 1000 and "jupyter_server.serverapp" in modules and not kept, kept
    assert not [name for name in modules.split() if name.startswith(("jupyterhub", "jupyterlab.labapp"))]


def test_pages_and_extensions_follow_the_role():
    """Are Formgrader and the class page enabled only on the grader's server, nbgrader's course list and the
    link to the class only on instructors' servers, and the record of progress only on students' servers?"""
    files = config_files.files(Settings(progress=True, slurm="site", idle_minutes=2, **GRADER), STATE, PYTHON)
    read = {name: json.loads(text) for name, text in files.items() if name.endswith(".json")}
    on, off, panel = {}, {}, {}
    for role in ("student", "instructor", "grader"):
        server = read[f"etc/{role}/jupyter_server_config.json"]
        enabled = server["ServerApp"]["jpserver_extensions"]
        on[role] = {name.rpartition(".")[2] for name, yes in enabled.items() if yes}
        disabled = read[f"etc/{role}/labconfig/page_config.json"]["disabledExtensions"]
        off[role] = {name.partition("nbgrader:")[2] for name in disabled} - {""}
        panel[role] = read.get(f"etc/{role}/jupyter_course_panel_config.json", {}).get("CoursePanel", {})
        culled = {"cull_idle_timeout": 120, "cull_connected": True}
        assert server.get("MappingKernelManager") == (None if role == "grader" else culled)
    assert {"assignment_list", "validate_assignment", "pages", "jupyterlab"} <= on["student"]
    of_the_grader = {"formgrader", "class_page"}
    assert [role for role in on if of_the_grader & on[role]] == ["grader"] and of_the_grader <= on["grader"]
    assert [role for role in on if "course_list" in on[role]] == ["instructor"]
    assert off["student"] == {"formgrader", "create-assignment", "course-list", "validate-assignment"}
    assert off["grader"] == {"assignment-list", "course-list", "validate-assignment"}
    assert panel["student"]["progress"] and not panel["instructor"]["progress"]
    assert panel["instructor"]["class_page"] == f"/services/{COURSE}/course/class"
    assert "class_page" not in panel["student"] and panel["student"]["people"] == "/state/hub/people"
    page = {"people": "/state/hub/people", "progress": True, "instructors": INSTRUCTORS}
    assert read["etc/grader/jupyter_class_page_config.json"]["ClassPage"] == page


@as_root
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
    with pytest.raises(HubError, match="nobody"):
        course_files.people(tmp_path, settings, [ada])


@pytest.mark.parametrize("folder", ["", "autumn"])
def test_a_server_follows_role_and_folder(loaded, tmp_path, monkeypatch, folder):
    """Does the spawner's hook choose a server's configuration by the groups of its user? If `folder` is set,
    are JupyterLab, assignments, data and workspaces in it, otherwise in the home?"""
    placed(tmp_path, folder=folder)
    hook = loaded(tmp_path / "etc/jupyterhub_config.py").Spawner.pre_spawn_hook

    def spawned(*groups):
        user = types.SimpleNamespace(groups=[types.SimpleNamespace(name=g) for g in groups], name="root")
        spawner = types.SimpleNamespace(user=user, environment={"A": "1"}, notebook_dir="")
        asyncio.run(hook(spawner))
        return spawner

    student, instructor, grader = map(spawned, (f"nbgrader-{COURSE}", INSTRUCTORS, GRADERS))
    roles = [Path(one.environment["JUPYTER_CONFIG_PATH"]).name for one in (student, instructor, grader)]
    assert roles == ["student", "instructor", "instructor"]
    assert spawned().environment == {"A": "1"}, "a guest"
    own = os.path.expanduser("~root/autumn/.jupyter")
    assert student.notebook_dir == (f"~/{folder}" if folder else "")
    assert student.environment.get("JUPYTER_DATA_DIR") == (own if folder else None)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / "autumn").mkdir()
    c = loaded(tmp_path / "etc/student/nbgrader_config.py")
    assert c.Exchange.assignment_dir == str(tmp_path / folder / "assignments")
    assert c.ExchangeFactory.submit.startswith("cluster.pages.")


@pytest.fixture
def other(tmp_path):
    """Return the state folder of another hub."""
    (tmp_path / "other/course").mkdir(parents=True)
    (tmp_path / "other" / states.RECORD).write_text("{}")
    return tmp_path / "other"


def test_a_home_with_the_course_of_another_hub_is_refused(tmp_path, other, monkeypatch):
    """Is a person refused whose home has the course of another hub, unless the settings name another folder
    or that hub is gone? Is a purge refused that would remove such a home?"""
    home = tmp_path / "home/ada"
    home.mkdir(parents=True)
    (home / "course").symlink_to(other / "course")
    (tmp_path / "accounts.json").write_text('{"ada": 1}')
    with pytest.raises(HubError, match=str(other)):
        sync._link(home, tmp_path, Settings())
    with pytest.raises(HubError, match=str(other)):
        stop_hub._used_elsewhere(tmp_path, Settings())
    sync._link(home, tmp_path, Settings(folder="autumn"))
    assert os.readlink(home / "autumn/course") == str(tmp_path / "course")
    (other / states.RECORD).unlink()
    sync._link(home, tmp_path, Settings())
    stop_hub._used_elsewhere(tmp_path, Settings())
    assert os.readlink(home / "course") == str(tmp_path / "course")


def test_grading_next_to_a_hub_is_reported(tmp_path, monkeypatch, capsys):
    """If a class command runs in the hub's repository, does a note name the hub?"""
    monkeypatch.setenv("CLUSTER_STATE", str(tmp_path))
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / states.RECORD).write_text('{"root": "/course"}')
    for where, noted in [("/course", True), ("/another", False)]:
        monkeypatch.setattr(staff, "find_root", lambda where=where: Path(where))
        assert staff.main(["due", "01"]) == 1
        assert (f"{tmp_path}/hub" in capsys.readouterr().err) == noted


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
    with pytest.raises(HubError, match="nbgrader_config"):
        course_files.check(tmp_path)


def test_names_of_real_people_are_read():
    """Does a roster accept names with apostrophes, hyphens, accents, and letters and zero-width characters of
    other scripts?"""
    names = ["Seán O’Néill", "O'Brien-Łukasz", "Nguyễn Thị Ánh", "मीरा", "می‌نو", "李明"]
    people = roster.people_in(HEAD + "".join(f"{name},u{i},student,\n" for i, name in enumerate(names)))
    assert [person.name for person in people] == names


def test_checkpoints_of_a_read_only_notebook_are_in_the_home(loaded, tmp_path, monkeypatch):
    """Are the checkpoints of a read-only notebook saved in the user's home? In /tmp, they would belong to the
    first user who opened the lecture."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/course").mkdir(parents=True)
    c = loaded(SITE / "jupyter_server_config.py")
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


def test_a_notebook_opens_on_a_full_disk(loaded, tmp_path, monkeypatch):
    """If a notebook's signature cannot be saved because the disk is full, can existing signatures still be
    checked, without an error?"""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    store = loaded(SITE / "jupyter_server_config.py").NotebookNotary.store_factory()
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
    with pytest.raises(HubError, match=r"lectures/leak\.ipynb"):
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
    with pytest.raises(HubError, match=str(tmp_path / "text")):
        backup._opened(tmp_path / "text")
    subprocess.run(["tar", "czf", tmp_path / "other.tar.gz", "-C", tmp_path, "text"], check=True)
    with (
        backup._opened(tmp_path / "other.tar.gz") as tar,
        pytest.raises(HubError, match=r"other\.tar\.gz"),
    ):
        backup._about(tar, tmp_path / "other.tar.gz")


@as_root
def test_acting_as_another_user_follows_no_link_of_theirs(tmp_path):
    """Does code that root runs as another user have only that user's rights, and are its exceptions reported
    as errors of the hub?"""
    assert users.acting("nobody", os.getuid) == users.unix_user("nobody").pw_uid
    (tmp_path / "secret").write_text("root's")
    (tmp_path / "secret").chmod(0o600)
    with pytest.raises(HubError, match="nobody: PermissionError"):
        users.acting("nobody", lambda: (tmp_path / "secret").read_text())


def test_a_system_user_is_never_a_student(tmp_path):
    """If a person on the roster has the name of a system user, is this user refused and left unchanged?"""
    book = users.Accounts(tmp_path, tmp_path)
    with pytest.raises(HubError, match="'daemon'"):
        book.ensure(roster.Person("D", "daemon", "student"))
    assert not book.all() and not book.lock("daemon")


def test_a_course_of_another_hub_is_not_taken_over(tmp_path):
    """Is a user refused as the grader if their home contains another hub's course, with a message that names
    that hub? Does that hub itself accept the user?"""
    course, other = tmp_path / "course", Path("/var/lib/first/hub")
    course_files.free(course, STATE, "grader")
    course_files.update(course, {course_files.SITE: config_files.site(Settings(), other).encode()})
    with pytest.raises(HubError, match=r"'grader'.* /var/lib/first/hub"):
        course_files.free(course, STATE, "grader")
    course_files.free(course, other, "grader")


def test_a_truncated_roster_locks_no_user_out(tmp_path):
    """Is a roster refused if it is empty, names no instructor or removes a fifth of the class? Does the
    message name the removed people, and is a roster accepted that removes only a few?"""
    head, ines = "name,user,role,extension", "Ines,ines,instructor,"
    rows = [f"S {i},s{i},student," for i in range(39)]
    (tmp_path / states.ROSTER).write_text("\n".join([head, ines, *rows]))

    def check(*lines):
        sync.check_departures(tmp_path, roster.people_in("\n".join([head, *lines])))

    check(ines, *rows, "New,new,student,")
    check(ines, *rows[5:])
    with pytest.raises(HubError, match="roster"):
        check()
    with pytest.raises(HubError, match=r"1 of 40 .*\(ines\).*--yes"):
        check(*rows)
    with pytest.raises(HubError, match=r"8 of 40 .*\(s0, s1,"):
        check(ines, *rows[8:])


@as_root
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
    assert str(state) in result.stdout and "1 users" in result.stdout
    (state / states.BACKED_UP).write_text(json.dumps({"file": "/b.tar.gz", "time": time.time() - 3 * 86400}))
    leader, terminal = os.openpty()
    os.write(leader, b"hub\n")
    result = subprocess.run(command, capture_output=True, text=True, stdin=terminal)
    assert "/b.tar.gz, 3 days" in result.stdout and result.stderr and state.exists()
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
        pytest.raises(HubError, match="01_loops"),
    ):
        backup._no_grading(tmp_path / "runs", 0, lines.append, stack)
    grading = contextlib.ExitStack()
    grading.enter_context(runs.alone())
    with contextlib.ExitStack() as stack:
        backup._no_grading(tmp_path / "runs", 5, lambda line: (lines.append(line), grading.close()), stack)
        assert f"process {os.getpid()}" in lines[0]
        with pytest.raises(CourseError, match="01_loops"), runs.alone():
            pass
    with runs.alone():
        pass
