"""Generated configuration files: the hub's, and Jupyter's and nbgrader's by role."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from . import COURSE, GRADERS, GROUPS, INSTRUCTORS, STUDENTS, users
from .hub_settings import Settings

EXTENSIONS = {  # Jupyter's server extensions, by role
    "student": ("assignment_list", "validate_assignment"),
    "instructor": ("assignment_list", "validate_assignment", "course_list"),
    "grader": ("formgrader", "validate_assignment"),
}
LAB = {"assignment_list": "assignment-list", "validate_assignment": "validate-assignment"}
LAB |= {"course_list": "course-list", "formgrader": "formgrader", "create_assignment": "create-assignment"}
# No login shell in terminals: /etc/profile would take the course's Python from PATH again.
SHELL = {"shell_command": ["/bin/bash"]}
LAB_SETTINGS = {  # JupyterLab's defaults, which users can change
    # A course's machine may be unable to reach other hosts, and its users install nothing.
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/apputils-extension:themes": {"adaptive-theme": True},  # light or dark, like the system
}
LAB_OFF = (
    "@jupyterlab/extensionmanager-extension",
    # Language servers: none is installed, and each login would query them in vain.
    "@jupyterlab/lsp-extension",
    "@jupyterlab/notebook-extension:language-server",
    "@jupyterlab/fileeditor-extension:language-server",
)
SITE = Path(__file__).parent / "site"  # the hub's Python does not have `cluster`, so these files are copied
TEMPLATES = Path(__file__).parent / "templates"  # the hub's own pages, in the course's colours and wording
LOADED = ("jupyterhub_config.py", "course_on_hub.py", "prefork.py", "spawner.py", "slurm_spawner.py")
WITH_HUB = ["setpriv", "--pdeathsig=TERM"]  # a service of a killed hub ends, too, so the next can start it
# Nine times the CPU share of a student's server, as `start_hub.prefer`
PREFERRED = ["sh", "-c", '{ echo -10 >/proc/self/autogroup; } 2>/dev/null; exec "$@"', "sh"]


def files(
    settings: Settings, state: Path, python: Path, groups: dict[str, list[str]] | None = None
) -> dict[str, str]:
    """Return {path in the state folder: text}. groups: {group of the hub: its users}, if `sync` adds none."""
    login = SITE / "../../lti/lti_login.py" if settings.lti else SITE / "passwords.py"
    result = {f"etc/{path.name}": path.read_text() for path in (*(SITE / name for name in LOADED), login)}
    result["etc/settings.json"] = _json(facts(settings, state, python, groups or {}))
    result |= {f"etc/templates/{path.name}": path.read_text() for path in sorted(TEMPLATES.glob("*.html"))}
    result["etc/proxy/error.html"] = result.pop("etc/templates/unavailable.html")
    for role, names in EXTENSIONS.items():
        own = jupyter(role, names, settings) | pages(role, settings, state)
        result |= {f"etc/{role}/{name}": _json(value) for name, value in own.items()}
        for name in ("jupyter_server_config.py", "nbgrader_config.py") if role != "grader" else ():
            result[f"etc/{role}/{name}"] = (SITE / name).read_text()
    limits = {"an_hour": settings.checks, "in_all": settings.checks_in_all}
    return result | ({"etc/check.json": json.dumps(limits) + "\n"} if settings.checks else {})


def _json(value: object) -> str:
    return json.dumps(value, indent=1) + "\n"


def facts(settings: Settings, state: Path, python: Path, groups: dict[str, list[str]]) -> dict[str, Any]:
    """Return settings.json, which the files in site/ read. All users can read it, so it has no secrets."""
    return {
        "course": COURSE,
        "state": str(state),
        "python": str(python),
        "program": f"{python.parent}/jupyterhub-singleuser",
        "public": settings.public,
        "hub": settings.hub,
        "proxy_api": settings.address(1),
        "login": "lti_login" if settings.lti else "passwords",
        "lti": settings.lti and dataclasses.asdict(settings.lti),
        "spawner": "slurm_spawner" if settings.spawner == "slurm" else "spawner",
        "slurm": settings.slurm,
        "account": settings.account,
        "memory_gib": settings.memory_gib,
        "servers": settings.servers,
        "idle_seconds": 60 * settings.idle_minutes,
        "news": news(settings),
        "students": STUDENTS,
        "instructors": INSTRUCTORS,
        "teaching": [INSTRUCTORS, GRADERS],
        "groups": {name: groups.get(name, []) for name in GROUPS.values()},
        "environment": environment(settings, state, python),
        "folder": settings.folder,
        "extra": settings.extra,
        "with_hub": [*WITH_HUB, "--"],
        "services": services(settings, state, python),
    }


def services(settings: Settings, state: Path, python: Path) -> dict[str, dict[str, Any]]:
    """Return {name: the hub's specification} of Formgrader and the official check, run as the grader."""
    course = users.course_root(settings.grader)
    own = environment(settings, state, python) | {
        "HOME": str(course.parent),
        "USER": settings.grader,
        "PYTHONPATH": str(course),  # the whole package, before the students' version
    }
    command = [*WITH_HUB, *users.command_prefix(settings.grader)[1:]]
    command += ["env", f"--chdir={course}", str(python), "-m"]
    pages = {
        "JUPYTER_CONFIG_PATH": f"{state}/etc/grader",
        "JUPYTERHUB_DEFAULT_URL": "/formgrader/manage_assignments",
        "JUPYTERHUB_ROOT_DIR": str(course),
        "JUPYTERHUB_USER": settings.grader,
    }
    formgrader = {
        "url": f"{settings.address(3)}/services/{COURSE}/",
        "command": [*PREFERRED, *command, "jupyterhub.singleuser"],
    }
    result = {COURSE: formgrader | {"environment": own | pages}}
    if settings.checks:
        argv = ["cluster.staff.official_check.service", f"{state}/etc/check.json"]
        url = f"{settings.address(4)}/services/check/"  # the service answers below this path
        result["check"] = {"url": url, "command": [*command, *argv], "environment": own}
    return result


def jupyter(role: str, names: tuple[str, ...], settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the parts of nbgrader that run in the servers of a role, and those that JupyterLab shows."""
    shown = {*names, "create_assignment"} if role == "grader" else set(names)
    shown -= {"validate_assignment"}  # the course has its own button with that name
    on = {"jupyterlab": True, "jupyter_server_terminals": True, "jupyterlab_jupytext": True}
    on |= {f"nbgrader.server_extensions.{name}": name in names for name in LAB if name != "create_assignment"}
    on |= {"jupyter_lsp": False}  # jupyter_lsp would look for 20 language servers at each start
    on |= {"cluster.pages": True}
    on |= {"cluster.staff.class_page": True} if role == "grader" else {}
    off = {f"@jupyter/nbgrader:{word}": True for name, word in LAB.items() if name not in shown}
    off |= dict.fromkeys(LAB_OFF, True)
    server: dict[str, dict[str, Any]] = {
        "ServerApp": {"jpserver_extensions": on, "terminado_settings": SHELL},
        # PyPI's manager creates a TLS client at each start of a server
        "LabApp": {"extension_manager": "readonly"},
    }
    if role == "grader":
        # Lab shows Formgrader in a frame, which the hub's default forbids.
        headers = {"Content-Security-Policy": "frame-ancestors 'self'"}
        server["ServerApp"]["tornado_settings"] = {"headers": headers}
        # Former instructors lose access after this many seconds instead of the default of five minutes.
        server["HubOAuth"] = {"cache_max_age": 10}
        # Formgrader's pages link to graded notebooks in .grading; this server belongs to their owner.
        server["ContentsManager"] = {"allow_hidden": True}
    else:
        # An idle kernel is stopped after this time even if its notebook is open in a tab; 0 for never.
        culling = {"cull_idle_timeout": 60 * settings.idle_minutes, "cull_connected": True}
        server["MappingKernelManager"] = culling
    return {
        "jupyter_server_config.json": server,
        "labconfig/page_config.json": {"disabledExtensions": off},
        "labconfig/default_setting_overrides.json": LAB_SETTINGS,
    }


def pages(role: str, settings: Settings, state: Path) -> dict[str, dict[str, Any]]:
    """Return the pages' configuration: the grader's server has the class page, others the start page."""
    if role == "grader":
        own = {"people": f"{state}/people", "progress": settings.progress}
        return {"jupyter_class_page_config.json": {"ClassPage": own | {"instructors": INSTRUCTORS}}}
    panel = {
        "lectures": "course/lectures",
        "copies": "lectures",
        "assignments": ["assignments"],
        "released": f"{state}/exchange/{COURSE}/outbound",
        "people": f"{state}/people",
        "progress": settings.progress and role == "student",
    }
    panel["check"] = f"{settings.public}/services/check/" if settings.checks else ""
    link = {"class_page": f"/services/{COURSE}/course/class"} if role == "instructor" else {}
    return {"jupyter_course_panel_config.json": {"CoursePanel": panel | link}}


def site(settings: Settings, state: Path) -> str:
    """Return nbgrader_site.py for the grader's course: the exchange, and any gradebook that is not a file."""
    lines = ["c = get_config()  # noqa: F821", f'c.Exchange.root = "{state}/exchange"']
    lines += [f'c.Notices.folder = "{state}/people"']
    gradebook = settings.database_url("gradebook")
    lines += [f"c.CourseDirectory.db_url = {gradebook!r}"] if gradebook else []
    lines += [f'c.Lti.folder = "{state}/lti"'] if settings.lti else []
    return "\n".join(lines) + "\n"


def environment(settings: Settings, state: Path, python: Path) -> dict[str, str]:
    """Return the environment of this hub's servers; CLUSTER_HUB identifies their processes for `stop`."""
    own = {"SLURM_CONF": f"{state.parent}/slurm/slurm.conf"} if settings.slurm == "machine" else {}
    return own | {
        "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "CLUSTER_HUB": str(state),
        "CLUSTER_STATE": str(state.parent),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "JUPYTERHUB_ACTIVITY_INTERVAL": str(news(settings)),
    }


def news(settings: Settings) -> int:
    """Return the seconds between reports of activity: several fit before a server counts as idle."""
    return min(300, settings.idle_minutes * 20) or 300
