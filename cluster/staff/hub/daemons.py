"""The hub's processes: proxy, fork server, and the hub, which runs Formgrader, the check and the culler."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cluster.system import files

from ..services import Daemon
from . import COURSE, config_files, environment
from .hub_settings import HubError, Settings
from .sync import Api

PATIENCE = 60.0  # seconds without an answer and without computing
TOKENS = ("proxy", "sync")


def tokens(state: Path, settings: Settings) -> dict[str, str]:
    """Return the hub's secrets, created once: hub/secrets.json, readable only by root."""
    path = state / "hub" / "secrets.json"
    known = files.read_json(path) or {}
    new = {name: known.get(name) or secrets.token_hex(32) for name in TOKENS}
    new["database"] = settings.database_url("hub") or f"sqlite:///{state}/hub/jupyterhub.sqlite"
    if new != known:
        files.write_json(path, new, mode=0o600)
    return new


def all_daemons(settings: Settings, state: Path) -> list[Daemon]:
    """Return the daemons in starting order. The hub itself starts its `services`."""
    keys, python = tokens(state, settings), str(environment.python(state))
    small = config_files.environment(settings, state, Path(python)) | {"HOME": "/"}
    # daemons are recorded one by one; CLUSTER_HUB marks only the processes that the hub starts
    small.pop("CLUSTER_HUB")

    def daemon(
        name: str, argv: list[str], port: int | None, answers: Callable[[], bool], **env: str
    ) -> Daemon:
        log = state / "logs" / f"{name}.out"
        return Daemon(name, argv, small | env, log, answers, port, patience=PATIENCE)

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
               CONFIGPROXY_AUTH_TOKEN=keys["proxy"], PATH=path),
        daemon("hub", [python, "-m", "jupyterhub", "-f", configuration], settings.port + 2,
               lambda: answers(f"{settings.hub}/hub/api/"), HOME=str(state / "hub")),
    ]  # fmt: skip
    if settings.spawner == "local":
        door = str(state / "hub" / "servers.socket")
        argv = [python, str(state / "etc" / "prefork.py"), door]
        # CLUSTER_HUB is inherited by all servers forked from it
        result.insert(1, daemon("servers", argv, None, lambda: knocks(door), CLUSTER_HUB=str(state)))
    return result


def api(settings: Settings, state: Path) -> Api:
    """Return the REST API of the running hub."""
    return Api(settings.hub, tokens(state, settings)["sync"])


def services(settings: Settings, state: Path) -> list[Daemon]:
    """Return the services that the hub starts, and starts again within 30 s if they end, to test them."""
    urls = {"formgrader": f"{settings.address(3)}/services/{COURSE}/api"}
    urls |= {"check": f"{settings.address(4)}/services/check/"} if settings.checks else {}
    log = state / "logs" / "hub.out"
    return [Daemon(name, [], {}, log, partial(answers, url), patience=PATIENCE) for name, url in urls.items()]


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
        f"{settings.address(1)}/api/routes", headers={"Authorization": f"token {token}"}
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
