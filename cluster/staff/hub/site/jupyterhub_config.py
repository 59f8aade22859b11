"""The hub's configuration. `start` copies it next to settings.json: change the settings, not this file."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

ETC = Path(__file__).parent
sys.path.insert(0, str(ETC))
c = get_config()  # type: ignore[name-defined]  # noqa: F821
settings = json.loads((ETC / "settings.json").read_text())
secrets = json.loads((ETC.parent / "hub/secrets.json").read_text())

# The proxy is a separate process, so open pages and running kernels survive a restart of the hub.
c.JupyterHub.bind_url = settings["public"]
c.JupyterHub.hub_bind_url = settings["hub"]
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = settings["proxy_api"]
c.ConfigurableHTTPProxy.auth_token = secrets["proxy"]
c.JupyterHub.cleanup_servers = False
c.JupyterHub.cleanup_proxy = False
c.JupyterHub.db_url = secrets["database"]
c.JupyterHub.cookie_secret_file = str(ETC.parent / "hub/cookie_secret")
c.JupyterHub.last_activity_interval = settings["news"]
c.JupyterHub.active_server_limit = settings["servers"]
c.JupyterHub.concurrent_spawn_limit = 0  # a whole class may start at one time

# The users that `sync` has added to the hub from the roster may log in.
c.Authenticator.allow_existing_users = True
c.Authenticator.allow_all = False  # the default of some authenticators
c.Authenticator.admin_users = set()


c.JupyterHub.template_paths = [str(ETC / "templates")]
c.JupyterHub.template_vars = {
    "course": settings["course"],
    "queued": settings["spawner"] == "slurm_spawner",
    "passwords": settings["login"] == "passwords",
}
c.Spawner.start_timeout = c.Spawner.http_timeout = 180
c.Spawner.env_keep = ["TZ"]  # nothing of root's own environment
c.JupyterHub.services = [{"name": "sync", "api_token": secrets["sync"]}]
c.JupyterHub.load_groups = {}
c.JupyterHub.load_roles = [
    {
        "name": "sync",
        "services": ["sync"],
        "scopes": [
            "admin:users",
            "admin:groups",
            "admin:servers",
            "list:users",
            "list:groups",
            "read:hub",
            "proxy",
        ],
    },
]
if settings["idle_seconds"]:
    culler = ["-m", "jupyterhub_idle_culler", f"--timeout={settings['idle_seconds']}"]
    c.JupyterHub.services.append(
        {"name": "idle-culler", "command": [*settings["with_hub"], settings["python"], *culler]}
    )
    scopes = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
    c.JupyterHub.load_roles.append({"name": "idle-culler", "services": ["idle-culler"], "scopes": scopes})

for module in (settings["login"], settings["spawner"], "course_on_hub"):
    importlib.import_module(module).configure(c, settings)
for service in c.JupyterHub.services:
    service["timeout"] = 600  # seconds to answer on a busy machine
if settings["extra"]:
    load_subconfig(settings["extra"])  # type: ignore[name-defined]  # noqa: F821
