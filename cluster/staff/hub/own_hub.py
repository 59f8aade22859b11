"""Files for a JupyterHub that the site runs itself: the course's folders, and a fragment for the hub's
configuration.

Nothing of that hub is started, stopped or changed here; OWN_HUB.md is for its administrator.
"""

from __future__ import annotations

import pwd
from pathlib import Path

from cluster.system import files

from .. import services
from ..services import Say, step
from . import (
    COURSE,
    GRADERS,
    GROUPS,
    INSTRUCTORS,
    STUDENTS,
    config_files,
    course_files,
    daemons,
    environment,
    roster,
    sync,
)
from . import state as states
from .hub_settings import HubError, Settings

FRAGMENT = "etc/course_hub.py"


def place(settings: Settings, state: Path, root: Path, list_: Path, say: Say = print) -> Path:
    """Place the course in `state` for the people in the roster file; return the path of the fragment.

    Repeating it updates course and roster. All people need a Unix user on this machine.
    """
    from . import start_hub

    people = roster.read_people(list_)
    if absent := [person.user for person in people if not _exists(person.user)]:
        raise HubError(
            f"{list_} contains people without a Unix user on this machine: {', '.join(absent)}. The exchange "
            "identifies students by the owner of their files, so each person needs a Unix user."
        )
    course_files.check(root)
    states.begin(state)
    with services.locked(state, say):
        with step("environment of the course", say) as note:
            note("created" if environment.make(state) else "unchanged")
        start_hub.ensure_grader(state, settings)
        with step("course", say) as note:
            note(start_hub.place_course(root, state, settings))
        states.configure(state, settings, root)
        (state / "etc/jupyterhub_config.py").unlink()  # the site's hub has its own configuration
        sync.unix(state, settings, people)
        sync.gradebook(state, settings, people)
        sync.keep(state, list_)
        groups: dict[str, list[str]] = {group: [] for group in GROUPS.values()}
        for person in people:
            groups[GROUPS[person.role]].append(person.user)
        files.write(state / FRAGMENT, fragment(settings, state, groups), mode=0o644)
    return state / FRAGMENT


def fragment(settings: Settings, state: Path, groups: dict[str, list[str]]) -> str:
    """Return the text that jupyterhub_config.py loads. groups: {group of the hub: its users}."""
    python = environment.python(state)
    servers = config_files.environment(settings, state, python)
    commands = {
        COURSE: (
            settings.formgrader,
            ["-m", "jupyterhub.singleuser"],
            daemons.formgrader(settings, state, ""),
        ),
    }
    if settings.checks:
        argv = ["-m", "cluster.staff.official_check.service", f"{state}/etc/check.json"]
        commands["check"] = (settings.check, argv, daemons.checking(settings, "", ""))
    added = []
    for name, (url, argv, env) in commands.items():
        own = {key: value for key, value in env.items() if value and key not in daemons.OF_THE_HUB}
        added.append({
            "name": name, "url": url, "oauth_no_confirm": True, "display": name == COURSE,
            "command": [*daemons.as_grader(settings), str(python), *argv], "environment": servers | own,
        })  # fmt: skip
    scopes = [f"access:services!service={name}" for name in commands]
    roles = [
        {"name": "formgrade", "groups": [INSTRUCTORS, GRADERS],
         "scopes": [scopes[0], "list:services", f"read:services!service={COURSE}"]},
        *({"name": "check", "groups": [*GROUPS.values()], "scopes": [scope]} for scope in scopes[1:]),
    ]  # fmt: skip
    return TEXT.format(
        state=state, python=python, servers=servers, services=added, roles=roles, course=COURSE,
        groups={name: {"users": users} for name, users in groups.items()}, students=STUDENTS,
        teaching={INSTRUCTORS, GRADERS}, scopes=[*scopes, "list:services", f"read:services!service={COURSE}"],
        folder=config_files.FOLDER.format(folder=settings.folder) if settings.folder else "",
    )  # fmt: skip


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


TEXT = '''\
"""Made by `python -m cluster.staff.hub own`: the course on this JupyterHub. At the end of its configuration:

    exec(open("{state}/etc/course_hub.py").read())  # not load_subconfig, which hides what was set before

Servers of people in none of the three groups start as before.
"""
import os
from pathlib import Path

c = get_config()  # noqa: F821
state = Path("{state}")
servers = {servers}
other_hook = c.Spawner.get("pre_spawn_hook")


async def course(spawner):
    """Set the environment and the pages of the course, by role, for its people."""
    if other_hook:
        done = other_hook(spawner)
        if hasattr(done, "__await__"):
            await done
    groups = {{group.name for group in spawner.user.groups}}
    if not groups & {{"{students}", *{teaching}}}:
        return
    role = "instructor" if groups & {teaching} else "student"
    spawner.environment = spawner.environment | servers | {{"JUPYTER_CONFIG_PATH": f"{{state}}/etc/{{role}}"}}
    spawner.cmd = ["{python.parent}/jupyterhub-singleuser"]
    spawner.default_url = "/lab"
{folder}

c.Spawner.pre_spawn_hook = course
scopes = c.Spawner.get("server_token_scopes") or ["users:activity!user", "access:servers!server"]
c.Spawner.server_token_scopes = [*scopes, "read:users:name!user", "read:users:groups!user", *{scopes}]
c.JupyterHub.load_groups.update({groups})
c.JupyterHub.services.extend({services})
c.JupyterHub.load_roles.extend({roles})
'''
