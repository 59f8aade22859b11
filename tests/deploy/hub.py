"""The real hub that the tests start, with its users, in a folder under /var/tmp; tests can kill its parts."""

import contextlib
import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from cluster.staff.hub import daemons
from tests.deploy.classroom import ASSIGNMENT, COURSE, PREFIX, ROOT, Hub, Person, ports, wait

__all__ = ["COURSE", "PREFIX", "ROOT", "STUDENTS", "Hub", "Person"]
__all__ += ["CLASS", "DO", "HAND_IN", "LECTURE", "MANAGE", "PAGE", "REPORT", "WORK"]
__all__ += [
    "grading",
    "kill",
    "mended",
    "opened",
    "person",
    "pid_of",
    "ports",
    "skip_or_fail",
    "started",
    "wait",
]

STUDENTS = ("ada", "ben", "cem")
# URLs in the grader's server, and in a student's
MANAGE, CLASS = "/formgrader/manage_assignments", "/course/class"
PAGE, DO = f"{CLASS}/assignment?of={ASSIGNMENT}", f"{CLASS}/do?of={ASSIGNMENT}"
REPORT, WORK = f"{CLASS}/report?of={ASSIGNMENT}", f"/formgrader/api/submitted_notebooks/{ASSIGNMENT}/doubling"
HAND_IN, LECTURE = f"/course/hand-in?of={ASSIGNMENT}", "lectures/01_convolution_as_gemm.ipynb"


def skip_or_fail(why):
    """Skip the test if `why` is a reason why no hub can be started here; in CI, fail instead."""
    if why and os.environ.get("CI") == "true":
        pytest.fail(f"the hub is part of CI: {why}")
    if why:
        pytest.skip(f"no such hub can be started here: {why}")


@contextlib.contextmanager
def started(course, enrol, why=None, **settings):
    """Yield a hub. `enrol(hub)` writes its roster. If no hub can be started, skip the test; in CI, fail."""
    skip_or_fail(why or daemons.missing())
    hub = Hub(course, **settings)
    try:
        enrol(hub)
        hub.start()
        yield hub
    finally:
        hub.remove()


@contextlib.contextmanager
def opened(course, why=None, **settings):
    """Yield a hub with a class and a released assignment, as `started`."""

    def enrol(hub):
        hub.enrol(**dict.fromkeys(STUDENTS, "student"), ines="instructor")

    with started(course, enrol, why, **settings) as hub:
        person(hub, "ines").release()
        yield hub


def person(hub, name):
    person = hub.person(name)
    assert person.log_in().url.endswith("/hub/home")
    return person


def pid_of(hub, name):
    """Return the process ID of a part of the hub, or of a service that the hub has started."""
    recorded = json.loads((hub.state / "processes.json").read_text())
    if name in recorded:
        return recorded[name]["pid"]
    words = {"formgrader": "jupyterhub.singleuser", "check": "cluster.staff.official_check.service"}
    of_the_hub = psutil.Process(recorded["hub"]["pid"]).children()
    [service] = [process.pid for process in of_the_hub if words[name] in process.cmdline()]
    return service


def kill(hub, name):
    """Kill a part of the hub with SIGKILL; return its process ID."""
    pid = pid_of(hub, name)
    os.kill(pid, signal.SIGKILL)
    wait(f"end of {name}", lambda: not Path(f"/proc/{pid}").exists())
    return pid


def mended(hub, *names):
    """Check that `status` lists exactly these parts as dead, run `start`, and return the names of the parts
    that it restarted."""
    answer = hub.do("status", status=1)
    dead = {line.split()[0] for line in answer.splitlines() if "  dead" in line or " dead (" in line}
    assert dead == set(names), answer
    before = json.loads((hub.state / "processes.json").read_text())
    hub.start()
    after = json.loads((hub.state / "processes.json").read_text())
    assert "dead" not in hub.do("status")
    return {name for name in after if after[name] != before.get(name)}


def grading(ines):
    """Start a grading run in Formgrader's terminal; return the terminal's web socket."""
    line = f"python -m cluster grade run {ASSIGNMENT} --backend local"
    return ines.type(line, lambda text: "/3 [" in text)[0]
