"""A test's marks decide which worker runs it. A test fails if it starts something that its marks do not
declare.

With several workers (`make test`), the tests of one row of GROUPS run in one worker, one after another,
because they share daemons, or because each uses all cores. Tests that share a fixture of their module stay
together, too. All others go to whichever worker is free.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from _pytest.nodeid import NodeId

GROUPS = {  # of marks; if a test has marks of two rows, the first row counts
    "slurm": ("slurm",),
    "servers": ("hub", "servers"),
    "cores": ("ranks", "notebook", "timing"),
}
# The groups are started in this order, so that tests that compute overlap with tests that wait for Slurm.
ORDER = ("cores", "slurm", "servers")
STARTS = {  # {mark: commands that require it}, each as words that the command line contains
    "slurm": [
        {"slurmctld"}, {"slurmdbd"}, {"slurmd"}, {"mariadbd"},
        {"cluster.staff.one_machine_slurm", "start"},
    ],
    "servers": [
        {"cluster.staff.hub", "start"}, {"jupyterhub"}, {"jupyter_server"}, {"postgres"}, {"initdb"},
        {"make", "lab"}, {"run-driver"},
    ],
    "notebook": [{"lectures/build.py"}],
}  # fmt: skip
ALLOWS = {"hub": {"hub", "servers", "slurm", "ranks", "notebook"}}  # {mark: all marks that it implies}
MAX_RANKS = "CLUSTER_MAX_RANKS"

_running: pytest.Item | None = None


def group(item: pytest.Item) -> str | None:
    """Return the name of a test's group, which must run in a single worker, or None if any worker can run the
    test.
    """
    marks = {mark.name for mark in item.iter_markers()}
    for name, those in GROUPS.items():
        if marks & set(those):
            return name
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    shared = any(result.scope in ("module", "class", "package") for defined in fixtures for result in defined)
    return item.location[0] if shared else None


def divide(items: list[pytest.Item]) -> None:
    """Sort the tests by the order of their groups, and write the groups where pytest-xdist reads them.

    xdist 3.8 reads the group from the end of a test's ID, "...@group", but writes it to a place that pytest
    9.2 ignores, so this function writes it.
    """
    places = {}
    for item in items:
        name = group(item)
        if name:
            item._id = NodeId.parse(f"{item.nodeid}@{name}")
        places[item] = ORDER.index(name) if name in ORDER else len(ORDER) + (name is None)
    items.sort(key=places.__getitem__)


def own_id(nodeid: str) -> str:
    """Return a test's ID as pytest accepts it, without the group.

    >>> own_id("tests/test_x.py::test_y[a@b]@cores")
    'tests/test_x.py::test_y[a@b]'
    """
    name, sign, word = nodeid.rpartition("@")
    return name if sign and "]" not in word else nodeid


def missing(command: Iterable[str], marks: set[str]) -> set[str]:
    """Return the marks that a test lacks for starting this command.

    >>> missing(["/usr/sbin/slurmd", "-D"], {"ranks"})
    {'slurm'}
    """
    allowed = marks.union(*(ALLOWS.get(mark, ()) for mark in marks))
    words = {part for word in map(str, command) for part in (word, os.path.basename(word))}
    return {
        mark for mark, commands in STARTS.items() if mark not in allowed and any(w <= words for w in commands)
    }


@contextmanager
def held_to_its_marks(item: pytest.Item) -> Iterator[None]:
    """While a test runs with its fixtures, raise an error if it starts something that its marks do not
    declare.

    Jobs of more than one rank on this machine are refused through $CLUSTER_MAX_RANKS, so the refusal also
    applies to processes and notebooks that the test starts.
    """
    global _running
    marks = {mark.name for mark in item.iter_markers()}
    with pytest.MonkeyPatch.context() as patch:
        if not marks & {"ranks", "notebook", "hub"}:
            patch.setenv(MAX_RANKS, "1")
        _running = item
        try:
            yield
        finally:
            _running = None


def _look(event: str, args: tuple) -> None:
    if event != "subprocess.Popen" or _running is None:
        return
    command = (
        [os.fsdecode(word) for word in args[1]] if not isinstance(args[1], (str, bytes)) else [str(args[1])]
    )
    lacking = missing(command, {mark.name for mark in _running.iter_markers()})
    if lacking:
        raise AssertionError(f"{_running.nodeid} starts {command[:6]}: mark it {', '.join(sorted(lacking))}")


sys.addaudithook(_look)
