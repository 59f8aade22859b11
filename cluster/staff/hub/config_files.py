"""Generated configuration files: the hub's, and Jupyter's and nbgrader's by role. All functions are pure."""

from __future__ import annotations

import json
from pathlib import Path

from . import COURSE, GRADERS, GROUPS, INSTRUCTORS, STUDENTS
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
TEMPLATES = Path(__file__).parent / "templates"  # the hub's own pages, in the course's colours and wording


def files(settings: Settings, state: Path, python: Path) -> dict[str, str]:
    """Return {path in the state folder: text}."""
    result = {"etc/jupyterhub_config.py": hub(settings, state, python)}
    result |= {f"etc/templates/{path.name}": path.read_text() for path in sorted(TEMPLATES.glob("*.html"))}
    result["etc/proxy/error.html"] = result.pop("etc/templates/unavailable.html")
    for role, names in EXTENSIONS.items():
        result |= {f"etc/{role}/{name}": text for name, text in jupyter(role, names, settings).items()}
        name = "class_page" if role == "grader" else "course_panel"
        text = json.dumps(pages(role, settings, state), indent=1) + "\n"
        result[f"etc/{role}/jupyter_{name}_config.json"] = text
    limits = {"an_hour": settings.checks, "in_all": settings.checks_in_all}
    result |= {"etc/check.json": json.dumps(limits) + "\n"} if settings.checks else {}
    own = (
        "prefork.py",
        "spawner.py",
        "slurm_spawner.py",
        "../lti/lti_login.py" if settings.lti else "passwords.py",
    )
    for path in (Path(__file__).parent / name for name in own):  # the hub's Python does not have `cluster`
        result[f"etc/{path.name}"] = path.read_text()
    exchange = f'c.Exchange.root = "{state}/exchange"\n'
    for role in ("student", "instructor"):
        text = STUDENT.format(course=COURSE, exchange=exchange, folder=settings.folder)
        result[f"etc/{role}/nbgrader_config.py"] = text
    result["etc/instructor/nbgrader_config.py"] += COURSES
    return result


def jupyter(role: str, names: tuple[str, ...], settings: Settings) -> dict[str, str]:
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
    result = {
        "jupyter_server_config.json": {
            "ServerApp": {"jpserver_extensions": on, "terminado_settings": SHELL},
            # PyPI's manager creates a TLS client at each start of a server
            "LabApp": {"extension_manager": "readonly"},
        },
        "labconfig/page_config.json": {"disabledExtensions": off},
        "labconfig/default_setting_overrides.json": LAB_SETTINGS,
    }
    texts = {name: json.dumps(value, indent=1) + "\n" for name, value in result.items()}
    own = FRAMES if role == "grader" else SERVER + CULLED.format(seconds=60 * settings.idle_minutes)
    return texts | {"jupyter_server_config.py": own}


def pages(role: str, settings: Settings, state: Path) -> dict[str, dict]:
    """Return the pages' configuration: the grader's server has the class page, others the start page."""
    if role == "grader":
        own = {"people": f"{state}/people", "progress": settings.progress}
        return {"ClassPage": own | {"instructors": INSTRUCTORS}}
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
    return {"CoursePanel": panel | link}


def site(settings: Settings, state: Path, gradebook: str | None) -> str:
    """Return nbgrader_site.py for the grader's course: the exchange, and any gradebook that is not a file."""
    lines = ["c = get_config()  # noqa: F821", f'c.Exchange.root = "{state}/exchange"']
    lines += [f'c.Notices.folder = "{state}/people"']
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
    }


def news(settings: Settings) -> int:
    """Return the seconds between reports of activity: several fit before a server counts as idle."""
    return min(300, settings.idle_minutes * 20) or 300


def hub(settings: Settings, state: Path, python: Path) -> str:
    """Return jupyterhub_config.py."""
    values = {
        "settings": settings,
        "check": CHECK.format(settings=settings) if settings.checks else "",
        "checks": CHECKS if settings.checks else "",
        "checking": CHECKING.format(groups=json.dumps([*GROUPS.values()])) if settings.checks else "",
        "state": str(state),
        "python": python,
        "queued": settings.spawner == "slurm",
        "passwords": ""
        if settings.lti
        else PASSWORDS.format(state=state, students=STUDENTS, instructors=INSTRUCTORS),
        "with_passwords": settings.lti is None,
        "authenticator": LTI.format(state=state, lti=settings.lti) if settings.lti else PAM,
        "env": environment(settings, state, python) | {"JUPYTERHUB_ACTIVITY_INTERVAL": str(news(settings))},
        "news": news(settings),
        "course": COURSE,
        "teaching": json.dumps([INSTRUCTORS, GRADERS]),
        "groups": json.dumps({group: {"users": []} for group in GROUPS.values()}),
        "spawner": SPAWNERS[settings.spawner].format(
            account=settings.account,
            ip="0.0.0.0" if settings.slurm == "site" else "127.0.0.1",
            state=state,
            program=f"{python.parent}/jupyterhub-singleuser",
            memory=settings.memory_gib,
        )
        + (HERE if settings.spawner == "slurm" and settings.slurm == "machine" else ""),
        "folder": FOLDER.format(folder=settings.folder) if settings.folder else "",
        "extra": f"\nload_subconfig({settings.extra!r})\n" if settings.extra else "",
    }
    return HUB.format(**values)


HUB = '''\
"""Made by `python -m cluster.staff.hub start`: change the settings, not this file."""
import json
import os
from pathlib import Path

c = get_config()  # noqa: F821
state = Path("{state}")
secrets = json.loads((state / "hub/secrets.json").read_text())

# The proxy is a separate process, so open pages and running kernels survive a restart of the hub.
c.JupyterHub.bind_url = "{settings.public}"
c.JupyterHub.hub_bind_url = "{settings.hub}"
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = "{settings.proxy_api}"
c.ConfigurableHTTPProxy.auth_token = secrets["proxy"]
c.JupyterHub.cleanup_servers = False
c.JupyterHub.cleanup_proxy = False
c.JupyterHub.db_url = secrets["database"]
c.JupyterHub.cookie_secret_file = f"{{state}}/hub/cookie_secret"
c.JupyterHub.last_activity_interval = {news}
c.JupyterHub.active_server_limit = {settings.servers}
c.JupyterHub.concurrent_spawn_limit = 0  # a whole class may start at one time

# The users that `sync` has added to the hub from the roster may log in.
{authenticator}c.Authenticator.allow_existing_users = True
c.Authenticator.allow_all = False  # the default of some authenticators
c.Authenticator.admin_users = set()

c.Spawner.start_timeout = c.Spawner.http_timeout = 180
{spawner}
c.Spawner.cmd = ["{python.parent}/jupyterhub-singleuser"]
c.Spawner.environment = {env}
c.Spawner.env_keep = ["TZ"]  # nothing of root's own environment
c.Spawner.default_url = "/lab"


def instructors(user):
    """Return the names shown publicly on the login page; `sync` writes them."""
    try:
        return json.loads((state / "etc/instructors.json").read_text())
    except FileNotFoundError:
        return []


c.JupyterHub.template_paths = ["{state}/etc/templates"]
c.JupyterHub.template_vars = {{
    "course": "{course}", "queued": {queued}, "passwords": {with_passwords}, "instructors": instructors
}}
{passwords}

def role(spawner):
    """Select nbgrader's extensions by role."""
    teaches = any(group.name in {teaching} for group in spawner.user.groups)
    path = state / "etc" / ("instructor" if teaches else "student")
    spawner.environment = spawner.environment | {{"JUPYTER_CONFIG_PATH": str(path)}}
{folder}

c.Spawner.pre_spawn_hook = role
c.Spawner.server_token_scopes = [
    "users:activity!user", "access:servers!server",
    "read:users:name!user", "read:users:groups!user", "list:services", "read:services!service={course}",
    "access:services!service={course}",{checks}
]

# Formgrader is a server of the user {settings.grader}. Instructors and graders may enter it; the class page
# limits what graders may do there.
c.JupyterHub.load_groups = {groups}
c.JupyterHub.services = [
    {{"name": "{course}", "url": "{settings.formgrader}", "api_token": secrets["formgrader"],
     "oauth_no_confirm": True}},{check}
    {{"name": "sync", "api_token": secrets["sync"]}},
    {{"name": "idle-culler", "api_token": secrets["culler"]}},
]
c.JupyterHub.load_roles = [
    {{"name": "formgrade", "groups": {teaching},
     "scopes": ["access:services!service={course}", "list:services", "read:services!service={course}"]}},
    {{"name": "sync", "services": ["sync"],
     "scopes": ["admin:users", "admin:groups", "admin:servers", "list:users", "list:groups", "read:hub",
                "proxy"]}},
    {{"name": "idle-culler", "services": ["idle-culler"],
     "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"]}},{checking}
]
{extra}'''

PAM = """\
c.JupyterHub.authenticator_class = "pam"  # with their Unix password
c.PAMAuthenticator.open_sessions = False
"""
LTI = """\
import sys

sys.path.insert(0, "{state}/etc")
import lti_login

c.JupyterHub.authenticator_class = lti_login.RosterAuthenticator
c.RosterAuthenticator.folder = "{state}/lti"
c.RosterAuthenticator.deployments = {lti.deployments!r}
c.RosterAuthenticator.issuer = {lti.issuer!r}
c.RosterAuthenticator.client_id = {{{lti.client_id!r}}}
c.RosterAuthenticator.authorize_url = {lti.authorize_url!r}
c.RosterAuthenticator.jwks_endpoint = {lti.jwks_url!r}
c.RosterAuthenticator.username_key = {lti.claim!r}
c.LTI13LaunchValidator.time_leeway = 60  # seconds that the clocks of platform and hub may differ
"""

PASSWORDS = """
import sys

sys.path.insert(0, "{state}/etc")
import passwords

given = {{"accounts": "{state}/accounts.json", "students": "{students}", "instructors": "{instructors}"}}
c.JupyterHub.extra_handlers = [("/course/passwords", passwords.Passwords, given)]
"""

# The parts for the official check, if it is enabled: students' servers may call the service.
CHECK = """
    {{"name": "check", "url": "{settings.check}", "api_token": secrets["check"], "display": False}},"""
CHECKS = """
    "access:services!service=check","""
CHECKING = """
    {{"name": "check", "groups": {groups},
      "scopes": ["access:services!service=check"]}},"""
FOLDER = """\
    # A server of the same user in another hub has its own folder, list of submissions, and open tabs.
    spawner.notebook_dir = "~/{folder}"
    own = os.path.expanduser(f"~{{spawner.user.name}}/{folder}/.jupyter")
    spawner.environment |= {{"JUPYTER_DATA_DIR": own, "JUPYTERLAB_WORKSPACES_DIR": f"{{own}}/workspaces"}}
"""

SPAWNERS = {
    "local": """\
import sys

sys.path.insert(0, "{state}/etc")
import spawner

c.JupyterHub.spawner_class = spawner.ForkedSpawner
c.ForkedSpawner.door = "{state}/hub/servers.socket"
c.ForkedSpawner.program = "{program}"
c.ForkedSpawner.memory_gib = {memory}
c.Spawner.poll_interval = 5  # seconds until the hub knows of a server that was killed
""",
    "slurm": """\
import sys

sys.path.insert(0, "{state}/etc")
import slurm_spawner  # and batchspawner, with the page that a job calls to report its server's address

c.JupyterHub.spawner_class = slurm_spawner.QueuedSpawner
c.Spawner.ip = {ip!r}
c.Spawner.start_timeout = 86400  # seconds, including the queue; see QueuedSpawner.starts_within for the rest
c.BatchSpawnerBase.exec_prefix = "/usr/sbin/runuser -u {{username}} --"
c.BatchSpawnerBase.req_account = "{account}"
c.BatchSpawnerBase.req_memory = "2G"
c.BatchSpawnerBase.req_nprocs = "1"
c.BatchSpawnerBase.req_runtime = "8:00:00"
c.BatchSpawnerBase.req_partition = "long"
""",
}

HERE = """\
# The single-host Slurm's node names are unknown to this machine.
c.BatchSpawnerRegexStates.state_exechost_exp = "127.0.0.1"
"""

FRAMES = """\
c = get_config()  # noqa: F821
# Former instructors lose access after this many seconds instead of the default of five minutes.
c.HubOAuth.cache_max_age = 10
# Lab shows Formgrader in a frame, which the hub's default forbids.
c.ServerApp.tornado_settings = {"headers": {"Content-Security-Policy": "frame-ancestors 'self'"}}
# Formgrader's pages link to graded notebooks in .grading; this server belongs to their owner.
c.ContentsManager.allow_hidden = True
"""

SERVER = '''\
import os
import sqlite3

from jupyter_core.paths import jupyter_data_dir
from jupyter_server._tz import utcnow
from jupyter_server.base.handlers import AuthenticatedFileHandler
from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from nbformat.sign import SQLiteSignatureStore


class Kernels(AsyncMappingKernelManager):
    """Count a running cell as activity even if it prints nothing, so its server is not idle."""

    @property
    def last_kernel_activity(self):
        busy = any(getattr(k, "execution_state", "") == "busy" for k in self._kernels.values())
        return utcnow() if busy else self.__dict__.setdefault("seen", utcnow())

    @last_kernel_activity.setter
    def last_kernel_activity(self, when):
        self.__dict__["seen"] = when


class Files(AuthenticatedFileHandler):
    """Serve figures of the lectures: ~/course is a link out of the home, which Jupyter would not follow."""

    course = os.path.realpath(os.path.join(os.environ["CLUSTER_HUB"], "course"))

    def validate_absolute_path(self, root, absolute_path):
        real = os.path.realpath(absolute_path)
        if real.startswith(self.course + os.sep):
            root, absolute_path = self.course, real
        return super().validate_absolute_path(root, absolute_path)


class Checkpoints(AsyncFileCheckpoints):
    """Keep checkpoints of read-only notebooks at home; Jupyter would use one folder in /tmp for all users."""

    def checkpoint_path(self, checkpoint_id, path):
        folder, _, name = path.strip("/").rpartition("/")
        if os.access(self._get_os_path(folder), os.W_OK):
            return super().checkpoint_path(checkpoint_id, path)
        kept = os.path.expanduser(os.path.join("~/.local/share/jupyter/checkpoints", folder))
        os.makedirs(kept, mode=0o700, exist_ok=True)
        stem, kind = os.path.splitext(name)
        return os.path.join(kept, f"{stem}-{checkpoint_id}{kind}")


class Signatures(SQLiteSignatureStore):
    """Opening a notebook records the time. On a full disk it opens all the same, unsigned."""

    def check_signature(self, digest, algorithm):
        try:
            return super().check_signature(digest, algorithm)
        except sqlite3.OperationalError:
            self.db.rollback()
            words = "SELECT 1 FROM nbsignatures WHERE algorithm = ? AND signature = ?"
            return self.db.execute(words, (algorithm, digest)).fetchone() is not None

    def store_signature(self, digest, algorithm):
        try:
            super().store_signature(digest, algorithm)
        except sqlite3.OperationalError:
            self.db.rollback()


c = get_config()  # noqa: F821
c.ServerApp.kernel_manager_class = Kernels
c.ContentsManager.files_handler_class = Files
c.ContentsManager.checkpoints_class = Checkpoints
c.FileContentsManager.delete_to_trash = False  # it is invisible and counts against the quota
c.NotebookNotary.store_factory = lambda: Signatures(os.path.join(jupyter_data_dir(), "nbsignatures.db"))
'''

CULLED = """
# An idle kernel is stopped after this time even if its notebook is open in a tab; 0 for never.
c.MappingKernelManager.cull_idle_timeout = {seconds}
c.MappingKernelManager.cull_connected = True
"""

STUDENT = """\
from pathlib import Path

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "{course}"
{exchange}
mine = Path.home() / "{folder}" / "assignments"
mine.mkdir(exist_ok=True)
c.Exchange.assignment_dir = str(mine)
c.ExchangeFactory.submit = "cluster.pages.nbgrader_submit.Submit"
"""

COURSES = """
import os

if os.environ.get("JUPYTERHUB_API_TOKEN"):  # Course List asks the hub which courses one may grade
    from nbgrader.auth import JupyterHubAuthPlugin

    c.Authenticator.plugin_class = JupyterHubAuthPlugin
"""
