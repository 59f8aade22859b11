"""The course on a JupyterHub: its groups, its services, and the environment and pages of people's servers.

The course's own hub loads it, and a hub that a site runs itself (`python -m cluster.staff.hub own`).
"""

from __future__ import annotations

import os
from typing import Any

# The rights of a server without configuration
SCOPES = ("users:activity!user", "access:servers!server")


def configure(c: Any, settings: dict[str, Any]) -> None:
    """Add the course to a hub's configuration. What is configured already is kept."""
    course, teaching, state = settings["course"], settings["teaching"], settings["state"]
    other_hook = c.Spawner.get("pre_spawn_hook")

    async def prepare(spawner: Any) -> None:
        """Set the environment and the pages by role; servers of people in no group start as before."""
        if other_hook:
            done = other_hook(spawner)
            if hasattr(done, "__await__"):
                await done
        groups = {group.name for group in spawner.user.groups} & settings["groups"].keys()
        if not groups:
            return
        role = "instructor" if groups & set(teaching) else "student"
        pages = {"JUPYTER_CONFIG_PATH": f"{state}/etc/{role}"}
        spawner.environment = spawner.environment | settings["environment"] | pages
        spawner.cmd = [settings["program"]]
        spawner.default_url = "/lab"
        if settings["folder"]:
            # A server that shows only this folder has its own list of submissions, and open tabs.
            spawner.notebook_dir = f"~/{settings['folder']}"
            own = os.path.expanduser(f"~{spawner.user.name}/{settings['folder']}/.jupyter")
            spawner.environment |= {"JUPYTER_DATA_DIR": own, "JUPYTERLAB_WORKSPACES_DIR": f"{own}/workspaces"}

    c.Spawner.pre_spawn_hook = prepare
    c.JupyterHub.load_groups.update({name: {"users": users} for name, users in settings["groups"].items()})
    # Formgrader is a server of the grader. Instructors and graders may enter it; the class page limits what
    # graders may do there. Students' servers may call the official check.
    entered = {course: teaching, "check": [*settings["groups"]]}
    entered = {name: entered[name] for name in settings["services"]}
    listed = ["list:services", f"read:services!service={course}"]
    access = [f"access:services!service={name}" for name in entered]
    scopes = c.Spawner.get("server_token_scopes") or SCOPES
    c.Spawner.server_token_scopes = [
        *scopes, "read:users:name!user", "read:users:groups!user", *access, *listed
    ]  # fmt: skip
    for (name, groups), scope in zip(entered.items(), access, strict=True):
        service = {"name": name, "oauth_no_confirm": True, "display": name == course}
        c.JupyterHub.services.extend([service | settings["services"][name]])
        role = {"name": "formgrade" if name == course else name, "groups": groups}
        c.JupyterHub.load_roles.extend([role | {"scopes": [scope, *(listed if name == course else [])]}])
