"""Checks before the start of a hub, and before minutes are spent on creating its environment.

`make hub` runs them by `start --check`, with any Python and no packages; `start` runs them again.
"""

from __future__ import annotations

import time
from pathlib import Path

from cluster.system import processes

from .. import services
from . import course_files, neighbours, roster, users
from . import state as states
from .hub_settings import HubError, Settings
from .neighbours import PORTS
from .roster import Person


def check(settings: Settings, state: Path, root: Path, list_: Path) -> list[Person]:
    """Return the people of the roster file, without changes. Raises HubError if the hub cannot start."""
    people = roster.read_people(list_)
    check_users(settings, state, people, str(list_))
    course_files.check(root)
    states.check(state)
    neighbours.check(state, settings, people)
    check_address(settings)
    check_ports(settings, state)
    return people


def check_users(settings: Settings, state: Path, people: list[Person], where: str) -> None:
    """Raise HubError, which names all system users, or the grader, on the roster."""
    accounts = states.accounts(state, settings).all()
    faults = []
    for person in people:
        shown = f"user = {person.user!r}"
        if person.user == settings.grader:
            faults.append((person.line, shown, "the owner of the gradebook (setting grader)."))
        elif person.user not in accounts and users.is_system(person.user):
            faults.append((person.line, shown, "a user of the system; choose another name."))
    roster.refuse(where, faults)


def check_address(settings: Settings) -> None:
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
    port, last = settings.port, settings.port + PORTS - 1
    needed = {port: "proxy", port + 1: "proxy", port + 2: "hub", port + 3: "formgrader"}
    if settings.checks:
        needed[last] = "check"
    ledger = services.process_ledger(state).all()
    wanted = [number for number, part in needed.items() if not processes.alive(ledger.get(part))]
    until = time.monotonic() + services.CLOSING
    while taken := [number for number in wanted if services.port_taken(number)]:
        if time.monotonic() > until:
            raise HubError(
                f"port = {port}: the hub needs the ports {port} to {last} of 127.0.0.1. In use: "
                f"{', '.join(map(str, taken))} ({services.listener(taken)} shows by what). End that, or set "
                f"another, such as port = {_free(port)}."
            )
        time.sleep(0.1)


def _free(port: int) -> int:
    """Return the next port, in steps of ten, with free ports for all parts of a hub."""
    tens = range(port + 10, 65536 - PORTS, 10)
    return next((n for n in tens if not any(map(services.port_taken, range(n, n + PORTS)))), 8000)
