"""Start parts that are not running, repair broken ones, and apply the roster."""

from __future__ import annotations

import contextlib
import json
import pwd
from pathlib import Path

from cluster.system import processes

from .. import services
from ..services import Say, start_group, step
from . import (
    COURSE,
    config_files,
    course_files,
    daemons,
    environment,
    lti,
    neighbours,
    postgres,
    preflight,
    sync,
    users,
)
from . import state as states
from .api import Api
from .hub_settings import HubError, Settings
from .roster import Person

# the parts written in Python, and the prefixes of the generated files that each reads when it starts
READ = {
    "servers": ("etc/prefork.py",),
    "hub": (
        "etc/jupyterhub_config.py",
        "etc/spawner.py",
        "etc/slurm_spawner.py",
        "etc/lti_login.py",
        "etc/passwords.py",
    ),
    "formgrader": ("etc/grader/",),
    "check": ("etc/check.json",),
    "culler": (),
}
AWAITED = ("proxy", "hub", "formgrader")  # these serve the login, all pages, and the class page


def start_hub(
    settings: Settings, state: Path, root: Path, list_: Path, say: Say = print, yes: bool = False
) -> None:
    """Start the hub in `state`, with the course at `root` and the people in the roster file `list_`.

    Repetition does not affect students' servers or kernels. yes: accept a roster that removes many people.
    """
    if why := daemons.missing():
        raise HubError(f"The hub cannot be started here: {why}.")
    if settings.lti and (why := lti.missing()):
        raise HubError(f"{why}.")
    # recorded first: a failure from here on is not a deliberate stop, so the watch timer tries again
    states.wanted(state)
    people = preflight.check(settings, state, root, list_)
    if not yes:
        sync.check_departures(state, people)
    daemons.proxy_program()
    states.begin(state)
    with states.locked(state, say):
        _same(state, settings)
        neighbours.check(state, settings, people)
        with step("environment of the hub", say) as note:
            fresh = environment.make(state)
            note("created" if fresh else "unchanged")
        ensure_grader(state, settings)
        before = _placed(settings)
        with step("course", say) as note:
            note(place_course(root, state, settings))
        if settings.lti:
            lti.prepare(state, settings, _keys(state, settings))
        changed = states.configure(state, settings, root)
        # These parts have old configuration or packages; restarting them does not affect students' servers.
        stale = {
            part for part, read in READ.items() if fresh or any(name.startswith(read) for name in changed)
        }
        # These parts run the grader's copy of the course.
        stale |= {"formgrader", "check"} if _placed(settings) != before else set()
        sync.keep(state, list_)
        if not settings.checks and (old := services.process_ledger(state).all().get("check")):
            processes.end([old])
        neighbours.note(state)
        for part in daemons.all_daemons(settings, state):
            record = services.process_ledger(state).all().get(part.name)
            if part.name == "postgres" and not processes.alive(record):
                stale.add("hub")  # it does not recover when its database ends
            if processes.alive(record) and part.name in stale:
                processes.end([record])
            start_group([part], state, say)
            if part.name in AWAITED:
                _prefer(services.process_ledger(state).all()[part.name]["pid"])
            if part.name == "postgres":
                postgres.roles(state)
        Api(settings, daemons.tokens(state, settings)["sync"]).routes()
        with step("roster", say) as note:
            changes = sync.sync(state, settings, people, say)
            note(f"{len(people)} people, {len(changes)} changes")


def _same(state: Path, settings: Settings) -> None:
    """Raise HubError if ports, users or databases of a running hub would change."""
    last = states.record(state)
    running = [n for n, r in services.process_ledger(state).all().items() if processes.alive(r)]
    old = states.settings(state) if last else settings
    moved = [
        k
        for k in ("port", "grader", "database", "homes", "folder", "slurm")
        if getattr(old, k) != getattr(settings, k)
    ]
    if running and moved:
        raise HubError(
            f"{', '.join(running)} are running with other values of {' and '.join(moved)}. Stop them first: "
            f"python -m cluster.staff.hub stop --state {state}"
        )


def ensure_grader(state: Path, settings: Settings) -> None:
    """Create the user of the gradebook, without a password, so it cannot log in."""
    book = states.accounts(state, settings)
    if settings.grader not in book.all() and (there := users.unix_user(settings.grader)):
        course_files.free(Path(there.pw_dir) / "course", state, settings.grader)
    book.ensure(Person("Grader of the course", settings.grader, "instructor"), password=False)
    home = Path(pwd.getpwnam(settings.grader).pw_dir)
    if home.stat().st_mode & 0o077:
        raise HubError(
            f"{home} contains solutions and scores, but other users can enter it. Run chmod 700 '{home}'"
        )


def _prefer(pid: int) -> None:
    """Give a process nine times the CPU share of a student's server, if Linux shares the CPU by session.

    Otherwise the class page gets one share in 61 while 60 students work. Processes that it starts in a
    separate session, such as a grading, have an ordinary share.
    """
    with contextlib.suppress(OSError):  # this kernel shares the CPU by process
        Path(f"/proc/{pid}/autogroup").write_text("-10")


def _keys(state: Path, settings: Settings) -> object:
    """Return the public keys of the course; the grader creates the keys and keeps the private one."""
    result = sync.grader(state, settings, ["-m", "cluster.staff.lti.grade_passback"])
    if result.returncode:
        raise HubError(f"The course's key for LTI could not be created:\n{result.stderr[-800:]}")
    return json.loads(result.stdout)


def _placed(settings: Settings) -> str:
    """Return the manifest of the grader's copy of the course, which lists the files placed by `start`."""
    path = daemons.course_root(settings) / course_files.MANIFEST
    return path.read_text() if path.exists() else ""


def place_course(root: Path, state: Path, settings: Settings) -> str:
    """Place the course for students, grader and exchange, and return a description."""
    if settings.database == "postgresql":
        postgres.prepare(state, settings.grader)
    site = config_files.site(settings, state, postgres.url(settings, state, "gradebook"))
    new = course_files.students(root, state, settings)
    kept = course_files.grader(root, daemons.course_root(settings), settings, site)
    course_files.exchange(state, settings, COURSE)
    description = "updated" if new else "unchanged"
    return description + (
        f"; changed files in the grader's copy were kept: {', '.join(kept)}" if kept else ""
    )
