"""The hub's processes: PostgreSQL if enabled, proxy, fork server, hub, Formgrader, culler."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from cluster.system import files

from ..services import Daemon
from . import COURSE, config_files, environment, postgres, users
from .hub_settings import HubError, Settings

# The environment variables that a hub sets for services that it starts itself.
OF_THE_HUB = {
    f"JUPYTERHUB_{name}"
    for name in ("API_TOKEN", "API_URL", "BASE_URL", "CLIENT_ID", "OAUTH_ACCESS_SCOPES", "OAUTH_CALLBACK_URL",
                 "OAUTH_SCOPES", "SERVICE_NAME", "SERVICE_PREFIX", "SERVICE_URL")
}  # fmt: skip
TOKENS = ("proxy", "formgrader", "sync", "culler", "check")


def tokens(state: Path, settings: Settings) -> dict[str, str]:
    """Return the hub's secrets, created once: hub/secrets.json, readable only by root."""
    path = state / "hub" / "secrets.json"
    known = files.read_json(path) or {}
    new = {name: known.get(name) or secrets.token_hex(32) for name in TOKENS}
    new["database"] = postgres.url(settings, state, "hub") or f"sqlite:///{state}/hub/jupyterhub.sqlite"
    if new != known:
        files.write_json(path, new, mode=0o600)
    return new


def all_daemons(settings: Settings, state: Path) -> list[Daemon]:
    """Return the daemons in starting order."""
    keys, python = tokens(state, settings), str(environment.python(state))
    small = config_files.environment(settings, state, Path(python)) | {"HOME": "/"}
    grading = as_grader(settings)
    # daemons are recorded one by one; CLUSTER_HUB marks only the processes that the hub starts
    small.pop("CLUSTER_HUB")

    def daemon(
        name: str,
        argv: list[str],
        port: int | None,
        answers: Callable[[], bool],
        env: dict[str, str] | None = None,
    ) -> Daemon:
        log = state / "logs" / f"{name}.out"
        return Daemon(name, argv, small | (env or {}), log, answers, port, patience=60.0)

    proxy = [
        "node", str(proxy_program()), "--ip", "127.0.0.1", "--port", str(settings.port),
        "--api-ip", "127.0.0.1", "--api-port", str(settings.port + 1),
        "--default-target", settings.hub, "--error-path", str(state / "etc" / "proxy"),
        "--no-x-forward",  # so the hub learns from the web server in front of it that TLS is used
    ]  # fmt: skip
    path = f"{Path(shutil.which('node') or '/usr/bin/node').parent}:{small['PATH']}"
    configuration = str(state / "etc" / "jupyterhub_config.py")
    result = [
        daemon("proxy", proxy, settings.port, lambda: routes(settings, keys["proxy"]) is not None,
               {"CONFIGPROXY_AUTH_TOKEN": keys["proxy"], "PATH": path}),
        daemon("hub", [python, "-m", "jupyterhub", "-f", configuration], settings.port + 2,
               lambda: answers(f"{settings.hub}/hub/api/"), {"HOME": str(state / "hub")}),
        daemon("formgrader", [*grading, python, "-m", "jupyterhub.singleuser"],
               settings.port + 3, lambda: answers(f"{settings.formgrader}/services/{COURSE}/api"),
               formgrader(settings, state, keys["formgrader"])),
    ]  # fmt: skip
    if settings.checks:
        url = f"{settings.check}/services/check/"
        argv = ["-m", "cluster.staff.official_check.service", str(state / "etc" / "check.json")]
        result.append(daemon("check", [*grading, python, *argv], settings.port + 4, lambda: answers(url),
                            checking(settings, keys["check"], url)))  # fmt: skip
    if settings.spawner == "local":
        door = str(state / "hub" / "servers.socket")
        argv = [python, str(state / "etc" / "prefork.py"), door]
        mark = {"CLUSTER_HUB": str(state)}  # inherited by all servers forked from it
        result.insert(1, daemon("servers", argv, None, lambda: knocks(door), mark))
    if settings.idle_minutes:
        cull = [
            "-m",
            "jupyterhub_idle_culler",
            f"--timeout={settings.idle_minutes * 60}",
            f"--url={settings.hub}/hub/api",
        ]
        culler = daemon(
            "culler", [python, *cull], None, lambda: True, {"JUPYTERHUB_API_TOKEN": keys["culler"]}
        )
        result.append(culler)
    return ([postgres.daemon(state)] if settings.database == "postgresql" else []) + result


def as_grader(settings: Settings) -> list[str]:
    """Return a command prefix to run as the grader, with the course's settings for nbgrader."""
    return [*users.command_prefix(settings.grader), "env", f"--chdir={course_root(settings)}"]


def formgrader(settings: Settings, state: Path, token: str) -> dict[str, str]:
    """Return Formgrader's environment: the variables that the hub gives to services it manages itself."""
    home = pwd.getpwnam(settings.grader).pw_dir
    course = course_root(settings)
    prefix = f"/services/{COURSE}/"
    return {
        "HOME": home,
        "USER": settings.grader,
        "PYTHONPATH": str(course),  # the whole package, before the students' version
        "CLUSTER_HUB": str(state),
        "JUPYTER_CONFIG_PATH": str(state / "etc/grader"),
        "JUPYTERHUB_API_TOKEN": token,
        "JUPYTERHUB_API_URL": f"{settings.hub}/hub/api",
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_CLIENT_ID": f"service-{COURSE}",
        "JUPYTERHUB_DEFAULT_URL": "/formgrader/manage_assignments",
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps([f"access:services!service={COURSE}"]),
        "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{prefix}oauth_callback",
        "JUPYTERHUB_OAUTH_SCOPES": json.dumps([f"access:services!service={COURSE}"]),
        "JUPYTERHUB_ROOT_DIR": str(course),
        "JUPYTERHUB_SERVICE_NAME": COURSE,
        "JUPYTERHUB_SERVICE_PREFIX": prefix,
        "JUPYTERHUB_SERVICE_URL": f"{settings.formgrader}{prefix}",
        "JUPYTERHUB_USER": settings.grader,
    }


def checking(settings: Settings, token: str, url: str) -> dict[str, str]:
    """Return the environment of the official check's service: the grader's course, and access to the hub."""
    return {
        "HOME": pwd.getpwnam(settings.grader).pw_dir,
        "USER": settings.grader,
        "PYTHONPATH": str(course_root(settings)),
        "JUPYTERHUB_API_TOKEN": token,
        "JUPYTERHUB_API_URL": f"{settings.hub}/hub/api",
        "JUPYTERHUB_SERVICE_URL": url,
    }


def course_root(settings: Settings) -> Path:
    """Return the grader's course."""
    return Path(pwd.getpwnam(settings.grader).pw_dir) / "course"


def proxy_program() -> Path:
    """Return configurable-http-proxy, as installed by npm next to the packages of this environment."""
    program = Path(sys.prefix) / "proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy"
    if not program.exists():
        raise HubError(f"The hub's proxy {program} is missing. Run cluster/setup.sh hub to install it.")
    return program


def answers(url: str) -> bool:
    """Return whether a server answers with anything but a server error."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError as e:
        with e:
            return e.code < 500
    except OSError:
        return False


def knocks(door: str) -> bool:
    """Return whether a process accepts connections on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        try:
            s.connect(door)
            return bool(s.recv(16))
        except OSError:
            return False


def routes(settings: Settings, token: str) -> dict | None:
    """Return the proxy's routing table, or None if it does not answer."""
    request = urllib.request.Request(
        f"{settings.proxy_api}/api/routes", headers={"Authorization": f"token {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)
    except OSError:
        return None


def missing() -> str | None:
    """Return why a hub cannot be started here, or None."""
    lacks = [name for name in ("node", "setpriv", "useradd", "bwrap") if not shutil.which(name)]
    if lacks:
        return f"not installed: {', '.join(lacks)} (as root, cluster/setup.sh hub installs them)"
    return None if os.getuid() == 0 else "only root can start servers under other users' names (sudo)"
