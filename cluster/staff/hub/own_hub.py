"""Files for a JupyterHub that the site runs itself: the course's folders, and a line for its configuration.

Nothing of that hub is started, stopped or changed here; OWN_HUB.md is for its administrator.
"""

from __future__ import annotations

from pathlib import Path

from cluster.system import files

from .. import services
from ..services import Say
from . import GROUPS, course_files, roster, start_hub, sync, users
from . import state as states
from .hub_settings import HubError, Settings

FRAGMENT = "etc/course_hub.py"
TEXT = '''\
"""Made by `python -m cluster.staff.hub own`: the course on this JupyterHub. At the end of its configuration:

    exec(open("{etc}/course_hub.py").read())  # not load_subconfig, which hides what was set before
"""
import json
import pathlib
import sys

sys.path.insert(0, "{etc}")
import course_on_hub

settings = json.loads(pathlib.Path("{etc}/settings.json").read_text())
course_on_hub.configure(get_config(), settings)  # noqa: F821
'''


def place(settings: Settings, state: Path, root: Path, list_: Path, say: Say = print) -> Path:
    """Place the course in `state` for the people in the roster file; return the path of the fragment.

    Repeating it updates course and roster. All people need a Unix user on this machine.
    """
    people = roster.read_people(list_)
    if absent := [person.user for person in people if not users.unix_user(person.user)]:
        raise HubError(
            f"{list_} contains people without a Unix user on this machine: {', '.join(absent)}. The exchange "
            "identifies students by the owner of their files, so each person needs a Unix user."
        )
    course_files.check(root)
    states.begin(state)
    with services.locked(state, say):
        start_hub.place(settings, state, root, say)
        groups = {
            group: [person.user for person in people if person.role == role] for role, group in GROUPS.items()
        }
        states.configure(state, settings, root, groups)
        (state / "etc/jupyterhub_config.py").unlink()  # the site's hub has its own configuration
        files.write(state / FRAGMENT, TEXT.format(etc=state / "etc"), mode=0o644)
        sync.unix(state, settings, people)
        sync.gradebook(state, settings, people)
        sync.keep(state, list_)
    return state / FRAGMENT
