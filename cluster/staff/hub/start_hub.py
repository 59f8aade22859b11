"""Start parts that are not running, repair broken ones, and apply the roster.

`make hub` runs the checks by `start --check`, with any Python and no packages, before minutes are spent on
creating the environment; `start` runs them again.
"""

from __future__ import annotations

import contextlib
import json
import pwd
from pathlib import Path

from cluster.system import processes

from .. import services
from ..services import Say, start_group, step
from . import COURSE, config_files, course_files, daemons, environment, roster, sync, users
from . import state as states
from .hub_settings import PORTS, HubError, Settings
from .roster import Person

# generated files that no running part has read: pages and people's servers read them at the next request
LATER = ("etc/student/", "etc/instructor/", "etc/templates/", "etc/proxy/", "etc/prefork.py")


def check(settings: Settings, state: Path, root: Path, list_: Path) -> list[Person]:
    """Return the people of the roster file, without changes. Raises HubError if the hub cannot start."""
    people = roster.read_people(list_, user_rule(settings, state))
    course_files.check(root)
    states.check(state)
    _check_address(settings)
    check_ports(settings, state)
    return people


def user_rule(settings: Settings, state: Path) -> roster.Rule:
    """Return what tells why a name cannot be a user of the hub: the grader, and users of the system."""
    accounts = states.accounts(state, settings).all()

    def rule(user: str) -> str:
        if user == settings.grader:
            return "the owner of the gradebook (setting grader)."
        return "a user of the system." if user not in accounts and users.is_system(user) else ""

    return rule


def _check_address(settings: Settings) -> None:
    """Raise HubError if servers on the nodes of a site's Slurm could not reach the hub."""
    if settings.spawner != "slurm" or settings.slurm != "site":
        return
    if settings.hub_address == "localhost" or settings.hub_address.startswith("127."):
        raise HubError(
            f"hub_address = {settings.hub_address!r}: servers run on the nodes of the site's Slurm "
            "(spawner = 'slurm', slurm = 'site'), where this address means the node itself. "
            "Set hub_address to this machine's address in the nodes' network, such as '10.0.0.5'."
        )


def check_ports(settings: Settings, state: Path) -> None:
    """Raise HubError that names all ports of stopped parts that other processes use."""
    living = {n for n, record in services.process_ledger(state).all().items() if processes.alive(record)}
    port, last = settings.port, settings.port + PORTS - 1
    needed = {} if "proxy" in living else dict.fromkeys((port, port + 1), "the proxy")
    # the ports of the hub and its services; an earlier version started these itself
    if not living & {"hub", "formgrader"}:
        needed |= dict.fromkeys(range(port + 2, last + bool(settings.checks)), "the hub")
    services.await_free(needed)


def start_hub(
    settings: Settings, state: Path, root: Path, list_: Path, say: Say = print, yes: bool = False
) -> None:
    """Start the hub in `state`, with the course at `root` and the people in the roster file `list_`.

    Repetition does not affect students' servers or kernels. yes: accept a roster that removes many people.
    """
    if why := daemons.missing() or (settings.lti and settings.lti.missing()):
        raise HubError(f"The hub cannot be started here: {why}.")
    # recorded first: a failure from here on is not a deliberate stop, so the watch timer tries again
    states.wanted(state)
    people = check(settings, state, root, list_)
    if not yes:
        sync.check_departures(state, people)
    daemons.proxy_program()
    states.begin(state)
    with states.locked(state, say):
        _same(state, settings)
        fresh, moved = place(settings, state, root, say)
        if settings.lti:
            settings.lti.prepare(state, pwd.getpwnam(settings.grader).pw_gid, _keys(state, settings))
        changed = states.configure(state, settings, root)
        # These parts have old configuration or packages; restarting them does not affect students' servers.
        stale = {"servers"} if fresh or "etc/prefork.py" in changed else set()
        if fresh or moved or any(not name.startswith(LATER) for name in changed):
            stale.add("hub")
        sync.keep(state, list_)
        parts, ledger = daemons.all_daemons(settings, state), services.process_ledger(state)
        # Earlier versions started Formgrader and others themselves.
        for name in (ledger.all().keys() - {part.name for part in parts}) | (stale & ledger.all().keys()):
            processes.end([ledger.all()[name]], daemons.PATIENCE)
            ledger.drop(name)
        for part in parts:
            start_group([part], state, say)
            if part.name != "servers":  # the others serve the login and all pages
                _prefer(ledger.all()[part.name]["pid"])
        for service in daemons.services(settings, state):
            with step(service.name, say):
                services.await_answer(service, ledger.all()["hub"], say)
        api = daemons.api(settings, state)
        api.routes()
        with step("roster", say) as note:
            changes = sync.sync(api, state, settings, people, say)
            note(f"{len(people)} people, {len(changes)} changes")


def place(settings: Settings, state: Path, root: Path, say: Say) -> tuple[bool, bool]:
    """Create environment and grader, and place the course for students, grader and exchange.

    Return whether the environment is new, and whether the grader's copy has changed.
    """
    with step("environment of the hub", say) as note:
        fresh = environment.make(state)
        note("created" if fresh else "unchanged")
    _ensure_grader(state, settings)
    course = users.course_root(settings.grader)
    with step("course", say) as note:
        new = course_files.students(root, state, settings)
        kept, moved = course_files.grader(root, course, settings, config_files.site(settings, state))
        course_files.exchange(state, settings, COURSE)
        changed = f"; changed files in the grader's copy were kept: {', '.join(kept)}" if kept else ""
        note(("updated" if new else "unchanged") + changed)
    return fresh, moved


def _same(state: Path, settings: Settings) -> None:
    """Raise HubError if ports, users or databases of a running hub would change."""
    running = [n for n, r in services.process_ledger(state).all().items() if processes.alive(r)]
    old = states.settings(state) if states.record(state) else settings
    kept = ("port", "grader", "database", "homes", "folder", "slurm")
    moved = [key for key in kept if getattr(old, key) != getattr(settings, key)]
    if running and moved:
        raise HubError(
            f"{', '.join(running)} are running with other values of {' and '.join(moved)}. Stop them first: "
            f"python -m cluster.staff.hub stop --state {state}"
        )


def _ensure_grader(state: Path, settings: Settings) -> None:
    """Create the user of the gradebook, without a password, so it cannot log in."""
    book = states.accounts(state, settings)
    if settings.grader not in book.all() and users.unix_user(settings.grader):
        course_files.free(users.course_root(settings.grader), state, settings.grader)
    book.ensure(Person("Grader of the course", settings.grader, "instructor"), password=False)
    home = users.course_root(settings.grader).parent
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
    assert settings.lti is not None
    result = users.run_as_grader(state, settings.grader, ["-m", settings.lti.KEYS])
    if result.returncode:
        raise HubError(f"The course's key for LTI could not be created:\n{result.stderr[-800:]}")
    return json.loads(result.stdout)
