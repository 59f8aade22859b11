"""Test hubs with a site's changes: servers as Slurm jobs, a full disk, TLS by nginx, another authenticator,
culling, memory limits and systemd units."""

import contextlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import requests

from cluster.staff.hub import units
from cluster.staff.one_machine_slurm import machine
from tests.deploy.classroom import ASSIGNMENT, tiny

from .. import ROOT
from .hub import COURSE, ports, started, wait

README = ROOT / "cluster/staff/hub/README.md"


def opened(course, why=None, **settings):
    """Yield a hub with a student and an instructor."""
    return started(course, lambda hub: hub.enrol(ada="student", ines="instructor"), why, **settings)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("repository"))


# --- servers as Slurm jobs ----------------------------------------------------------------------------


def reach(hub):
    """Return the environment that Slurm's commands need."""
    return {"SLURM_CONF": f"{hub.state.parent}/slurm/slurm.conf", "PATH": os.environ["PATH"]}


def squeue(hub, user):
    """Return [(job, name, state)] for a user's jobs."""
    command = ["squeue", "-h", "-u", user, "-o", "%i %j %T"]
    result = subprocess.run(command, env=reach(hub), capture_output=True, text=True, check=True).stdout
    return [tuple(line.split()) for line in result.splitlines()]


SUBMIT = """
import cluster

def answer():
    return 42

job = cluster.submit(answer)
print(job.wait(120, progress=False).result(progress=False))
"""


@pytest.mark.hub
@pytest.mark.timeout(1200)
def test_a_server_is_a_slurm_job(course):
    """If a server is a Slurm job, can its cells run and submit jobs? Does the job end when the server is
    stopped, and does the hub notice when the job is cancelled?"""
    with opened(course, machine.missing(), spawner="slurm", slurm="machine") as hub:
        ada = hub.person("ada")
        ada.log_in()
        ada.begin()
        (server,) = squeue(hub, ada.user)
        assert server[1:] == ("spawner-jupyterhub", "RUNNING")
        assert ada.cell("import os; print('SLURM_JOB_ID' in os.environ)")[1] == "True\n"
        assert ada.cell(SUBMIT)[1].strip().endswith("42")
        ada.end()
        wait("end of the job", lambda: not squeue(hub, ada.user))
        ada.begin()
        ((job, *_),) = squeue(hub, ada.user)
        subprocess.run(["scancel", job], env=reach(hub), check=True)
        wait("the hub's notice", lambda: not ada.server(), 90)
        ada.begin()
        assert ada.cell("print(1)")[1] == "1\n"
        ada.end()
        wait("an empty queue", lambda: not squeue(hub, ada.user))


# --- a full disk --------------------------------------------------------------------------------------


@pytest.fixture
def small(course, tmp_path):
    """Yield a hub with the home folders on a separate file system of 128 MiB."""
    image, folder = tmp_path / "disk", Path(tempfile.mkdtemp(prefix="homes-", dir="/var/tmp"))
    with open(image, "wb") as f:
        f.truncate(128 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    result = subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, text=True)
    if result.returncode:
        folder.rmdir()
        pytest.skip(f"no file system can be mounted here: {result.stderr.strip()}")
    try:
        folder.chmod(0o755)
        with opened(course, homes=str(folder)) as hub:
            yield hub
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


@pytest.mark.hub
@pytest.mark.timeout(1200)
def test_a_full_disk(small):
    """If the disk is full, does saving a notebook fail with this reason and leave the saved file unchanged?
    Can the server still be restarted? Once there is space, can the notebook be submitted and graded?"""
    ines, ada = small.person("ines"), small.person("ada")
    ines.log_in()
    ines.release()
    ada.log_in()
    ada.begin()
    ada.solve("return 2 * x")
    small.run(ada.user, "sh", "-c", "cat /dev/zero > ballast", check=False)
    path = f"/api/contents/assignments/{ASSIGNMENT}/doubling.ipynb"
    before = (ada.home / f"assignments/{ASSIGNMENT}/doubling.ipynb").read_bytes()
    answer = ada.mine("GET", path)
    assert answer.ok, answer.text
    notebook = answer.json()["content"]
    notebook["cells"][0]["source"] = "x" * 10**6
    result = ada.mine("PUT", path, json={"type": "notebook", "content": notebook})
    assert not result.ok and "No space left" in result.text
    assert (ada.home / f"assignments/{ASSIGNMENT}/doubling.ipynb").read_bytes() == before
    ada.end()
    ada.begin()
    result = ada.mine("POST", "/assignments/submit", json={"course_id": COURSE, "assignment_id": ASSIGNMENT})
    print(result.status_code, result.text)
    result = ada.mine("DELETE", "/api/contents/ballast")  # as the file browser does
    assert result.ok, result.text
    ada.assignment("submit", ASSIGNMENT)
    assert "1 collected" in small.grade("collect", ASSIGNMENT)
    small.grade("run", ASSIGNMENT, "--backend", "local")
    assert small.marks()[ada.user] == 3


# --- TLS, another authenticator, culling, a memory limit: one hub -------------------------------------

EXTRA = """
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "the class's own"
"""


@pytest.fixture(scope="module")
def site(course, tmp_path_factory):
    extra = tmp_path_factory.mktemp("etc") / "hub.py"
    extra.write_text(EXTRA)
    with opened(course, extra=str(extra), idle_minutes=1, memory_gib=1) as hub:
        yield hub


def documented(port, plain, backend, folder):
    """Return nginx's configuration from the README, with this test's ports and certificate."""
    (text,) = re.findall(r"```nginx\n(.*?)```", README.read_text(), re.S)
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "127.0.0.1:8000": f"127.0.0.1:{backend}",
        "/etc/ssl/hub.crt": f"{folder}/hub.crt",
        "/etc/ssl/hub.key": f"{folder}/hub.key",
        "hub.example.org": "127.0.0.1",
    }.items():
        assert old in text, f"the README's configuration has no {old!r}"
        text = text.replace(old, new)
    paths = "".join(
        f"{n}_temp_path {folder}/{n};\n" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    around = f"daemon off; pid {folder}/pid; error_log {folder}/log; events {{}}\n"
    return f"{around}http {{ access_log off;\n{paths}{text}}}\n"


@contextlib.contextmanager
def fronted(backend, folder):
    """Run nginx with the README's configuration in front of a port; yield its URL and the path of its
    certificate."""
    if not (nginx := shutil.which("nginx", path=f"/usr/sbin:{os.environ['PATH']}")):
        pytest.skip("there is no nginx: apt-get install nginx-light")
    certificate = ["-keyout", folder / "hub.key", "-out", folder / "hub.crt", "-days", "2", "-nodes"]
    about = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", *map(str, certificate), *about]
    subprocess.run(command, check=True, capture_output=True)
    port = ports(2)
    (folder / "nginx.conf").write_text(documented(port, port + 1, backend, folder))
    process = subprocess.Popen([nginx, "-p", folder, "-c", folder / "nginx.conf"])
    try:
        wait("nginx", (folder / "pid").exists)
        yield f"https://127.0.0.1:{port}", str(folder / "hub.crt")
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def tls(site, tmp_path):
    """Yield the URL of an nginx in front of the hub, and the path of its certificate."""
    with fronted(site.port, tmp_path) as address:
        yield address


class Echo(http.server.BaseHTTPRequestHandler):
    """A request handler that responds with the request's Host header."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Host"].encode())

    do_POST = do_GET

    def log_message(self, *arguments):
        pass


@pytest.mark.servers
def test_passwords_cannot_be_tried_without_end(tmp_path):
    """With the documented nginx, can a whole class log in at once, and are further attempts refused? Are
    other requests unlimited?"""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as backend:
        threading.Thread(target=backend.serve_forever, daemon=True).start()
        with fronted(backend.server_port, tmp_path) as (address, certificate), requests.Session() as browser:
            browser.verify, browser.trust_env = certificate, False
            began, taken = time.monotonic(), 0
            while (answer := browser.post(f"{address}/hub/login?next=/")).ok and taken < 200:
                assert answer.text == address.removeprefix("https://")
                taken += 1
            minutes = (time.monotonic() - began) / 60
            assert answer.status_code == 429 and 41 <= taken <= 42 + 10 * minutes
            for path in ("/hub/login", "/hub/home", "/user/ada/lab"):
                assert [browser.get(address + path).status_code for _ in range(60)] == [200] * 60
            assert browser.post(f"{address}/user/ada/api/kernels").status_code == 200
        backend.shutdown()


def through(person, tls):
    """Return the same person, connected through nginx."""
    person.base, person.verify = tls
    person.trust_env = False  # otherwise a certificate bundle named in the environment would take precedence
    return person


@pytest.mark.hub
@pytest.mark.timeout(1200)
def test_tls_and_another_authenticator(site, tls):
    """With the documented nginx and another authenticator, does a kernel answer over wss, and are all cookies
    sent only over TLS? Is a login refused for a wrong password, or for a user who is not on the roster?"""
    ada = site.person("ada")
    through(ada, tls)
    assert ada.log_in("not it").status_code == 403
    assert ada.log_in("the class's own").url == f"{ada.base}/hub/home"
    ada.begin()
    assert ada.cell("print(6 * 7)")[1] == "42\n"
    cookies = {c.name: c.secure for c in ada.cookies if not c.name.startswith("_xsrf")}
    assert cookies and all(cookies.values()), cookies
    stranger = site.person("ines")
    through(stranger, tls).user = "nobody"
    assert stranger.log_in("the class's own").status_code == 403


@pytest.mark.hub
@pytest.mark.timeout(1200)
def test_a_kernel_over_the_memory_limit(site):
    """Does a cell that exceeds the memory limit get a MemoryError, and does its kernel survive?"""
    ada = site.person("ada")
    ada.log_in("the class's own")
    ada.begin()
    tried = "import numpy\ntry:\n    numpy.ones(2**30 // 4)\nexcept MemoryError as e:\n    print('refused')"
    kernel, result = ada.cell(tried)
    assert result == "refused\n"
    assert ada.cell("print(numpy.ones(10).sum())", kernel)[1] == "10.0\n"


@pytest.mark.hub
@pytest.mark.timeout(1200)
def test_idle_servers_are_stopped_and_busy_ones_kept(site):
    """After idle_minutes, is an idle server stopped, and a server that computes without output kept?"""
    ada, ines = site.person("ada"), site.person("ines")
    for person in (ada, ines):
        person.log_in("the class's own")
        person.begin()
    kernel, _ = ada.cell("import time")
    ines.cell("1")
    ada.start_cell("time.sleep(150)", kernel)
    wait("end of the idle server", lambda: not ines.ready(), 180)
    assert ada.ready()
    assert ada.cell("print('kept')", kernel, 300)[1] == "kept\n"


# --- units --------------------------------------------------------------------------------------------


def test_the_units_are_what_systemd_reads(tmp_path):
    """Does `systemd-analyze verify` accept the generated units and reject a broken one?"""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    (tmp_path / "backups").mkdir()
    argv = [
        sys.executable,
        "-m",
        "cluster.staff.hub",
        "units",
        "--into",
        tmp_path,
        "--state",
        "/var/lib/hub",
    ]
    result = subprocess.run(
        [*argv, "--backups", tmp_path / "backups"], capture_output=True, text=True, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    paths = [p for p in tmp_path.iterdir() if p.is_file()]
    assert {p.name for p in paths} == set(units.unit_files(ROOT, Path("/var/lib/hub"), tmp_path))
    assert all(p.name in result.stdout for p in paths)

    paths = [p for p in paths if p.suffix != ".logrotate"]

    def verified():
        command = ["systemd-analyze", "verify", *map(str, paths)]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.returncode, "".join(
            line for line in result.stderr.splitlines() if str(tmp_path) in line
        )

    assert verified() == (0, "")
    service = tmp_path / f"{units.NAME}.service"
    service.write_text(service.read_text().replace("Type=oneshot", "Type=sometimes"))
    assert verified() != (0, "")
