"""The cost of the hub: of a student's server, forked or started from scratch, of a whole class that works at
the same time, and of official checks.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import psutil

from cluster.staff import services
from cluster.staff.hub import daemons

from . import classroom
from .classroom import ASSIGNMENT, PREFIX, Hub, Person
from .measure import Found, Row, interleaved, rows

ABOUT = "CPU and memory of a student's server, and 30 students who log in, run and submit at one time"
README = Path(__file__).parents[2] / "cluster" / "staff" / "hub" / "README.md"
WITHIN = 60.0  # s, the target for the class
ANSWERED = 30.0  # s, the target for the official check
PAGE_WITHIN = 3.0  # s, the target for the class page while the class is working
CHECKED = "01_convolution_as_gemm"  # the assignment of the official checks, one of the course's own
AT_ONCE = (1, 10, 30)  # students who press Check at the same moment
CELL = "print(sum(range(10)))"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--students", type=int, default=30, help="of the class (default 30)")


def versions() -> dict[str, str]:
    """Return the versions of the measured software."""
    return {
        name: metadata.version(name) for name in ("jupyterhub", "jupyterlab", "jupyter_server", "nbgrader")
    }


@contextlib.contextmanager
def opened(students: list[str], assignment: str = ASSIGNMENT, **settings: str | int) -> Iterator[Hub]:
    """Yield a hub with the tiny course, or one of our assignments, released to these students; remove it
    afterwards."""
    if why := daemons.missing():
        raise SystemExit(f"No hub can be measured here: {why}.")
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    make = classroom.tiny if assignment == ASSIGNMENT else lambda into: classroom.real(into, assignment)
    hub = Hub(make(folder), **settings)
    try:
        hub.enrol(**dict.fromkeys(students, "student"), ines="instructor")
        hub.start()
        ines = hub.person("ines")
        ines.log_in()
        ines.release(assignment)
        yield hub
    finally:
        hub.remove()
        shutil.rmtree(folder)


def server(options: argparse.Namespace) -> Found:
    """Measure one student's server and kernel, forked and started from scratch in turn."""
    measured, values = Found(), {}
    with opened(["ada"]) as hub:
        ada = hub.person("ada")
        ada.log_in()
        door = hub.state / "hub" / "servers.socket"

        def side(forked: bool) -> dict[str, float]:
            if not forked:
                door.rename(door.with_suffix(".off"))
            try:
                return _one(hub, ada)
            finally:
                if not forked:
                    door.with_suffix(".off").rename(door)

        sides = {"forked": lambda: side(True), "from nothing": lambda: side(False)}
        values = interleaved(sides, options.repeats or 5, say=lambda line: print(f"  {line}", flush=True))
    units = {what: "MiB" if "memory" in what else "s" for what, _ in values}
    for unit in ("s", "MiB"):
        measured.rows += rows({k: v for k, v in values.items() if units[k[0]] == unit}, unit)
    measured.remarks.append(
        "CPU time is counted for a server until JupyterLab's page has arrived, and for a kernel until one "
        "cell has run."
    )
    measured.remarks.append("Memory is the unshared memory of the process. Forked servers share the rest.")
    return measured


def _one(hub: Hub, person: Person) -> dict[str, float]:
    """Start one server and one kernel, and stop both again; return {name: seconds or MiB}."""
    began = time.monotonic()
    person.begin()
    took = time.monotonic() - began
    (process,) = _processes(person.user)
    cost = {"server, CPU": _cpu(process), "server, until its page": took}
    began = time.monotonic()
    kernel, printed = person.cell(CELL)
    assert printed == "45\n", printed
    cost["kernel, until a cell has run"] = time.monotonic() - began
    (new,) = [p for p in _processes(person.user) if p.pid != process.pid]
    cost |= {"kernel, CPU": _cpu(new)}
    cost |= {"server, memory": _private(process), "kernel, memory": _private(new)}
    assert person.mine("DELETE", f"/api/kernels/{kernel}").ok
    person.end()
    return cost


def crowd(options: argparse.Namespace) -> Found:
    """Measure a class whose students all log in at the same moment, start servers, run a cell, fetch, solve
    and submit.
    """
    names = [f"s{n:02}" for n in range(options.students)]
    with opened(names) as hub:
        before, marks = _by_part(hub), {}
        people = [hub.person(name) for name in names]
        ready = threading.Barrier(len(people))
        most = [0.0]
        ines, pages = hub.person("ines"), []
        ines.log_in()
        alone = [_class_page(ines) for _ in range(3)]
        with (
            _watching(lambda: most.append(_memory(hub))),
            _watching(lambda: pages.append(_class_page(ines)), every=1.0),
            ThreadPoolExecutor(len(people)) as pool,
        ):
            began = time.monotonic()
            done = list(pool.map(lambda p: _goes_through(p, ready), people))
            whole = time.monotonic() - began
        after = _by_part(hub)
        submitted = len(list((hub.state / "exchange" / classroom.COURSE / "inbound").iterdir()))
        collected = hub.grade("collect", ASSIGNMENT)
        began = time.monotonic()
        hub.grade("run", ASSIGNMENT, "--backend", "local")
        graded = time.monotonic() - began
        marks = hub.marks()
    measured = Found()
    measured.rows.append(Row("the class, until all have submitted", f"{len(names)} students", "s", [whole]))
    for what in done[0]:
        measured.rows.append(
            Row(f"a student, {what}", f"{len(names)} at one time", "s", [d[what] for d in done])
        )
    for part in sorted(after, key=lambda p: before.get(p, 0) - after[p]):
        measured.rows.append(Row("CPU", part, "s", [after[part] - before.get(part, 0)]))
    measured.rows.append(Row("memory at its most", "all of the hub's", "MiB", [max(most)]))
    measured.rows.append(Row("the class page", "before that", "s", alone))
    measured.rows.append(Row("the class page", "meanwhile", "s", pages))
    measured.rows.append(Row("grade run", f"{len(names)} submissions", "s", [graded]))
    right = [user for user, points in marks.items() if points == 3]
    n = len(names)
    measured.aims.append(
        (
            f"{n} students log in, start a server and a kernel, run and submit within {WITHIN:g} s",
            whole <= WITHIN,
        )
    )
    measured.aims.append((f"the class page answers within {PAGE_WITHIN:g} s", max(pages) <= PAGE_WITHIN))
    measured.aims.append(
        (
            f"{n} submissions are in the exchange, and {n} are collected and graded, each with its points",
            submitted == n and f"{n} collected" in collected and len(right) == n,
        )
    )
    measured.remarks.append(
        "All students begin in the first second, over HTTP and web sockets, without the pages' scripts and "
        "images. The measuring process runs on the same cores."
    )
    return measured


def _class_page(person: Person) -> float:
    """Return the seconds until the assignment's page has loaded."""
    began = time.monotonic()
    assert person.formgrader("GET", f"/course/class/assignment?of={ASSIGNMENT}").ok
    return time.monotonic() - began


def _goes_through(person: Person, ready: threading.Barrier) -> dict[str, float]:
    """Return {step: seconds since the beginning} for one student who goes through all steps."""
    ready.wait()
    began, times = time.monotonic(), {}

    def past(step: str) -> None:
        times[step] = time.monotonic() - began

    assert person.log_in().url.endswith("/hub/home")
    past("logged in")
    person.begin()
    past("JupyterLab's page has come")
    assert person.cell(CELL)[1] == "45\n"
    past("a cell has run")
    person.solve("return 2 * x")
    person.assignment("submit", ASSIGNMENT)
    past("submitted")
    return times


def _processes(user: str) -> list[psutil.Process]:
    processes = psutil.process_iter(["username", "status"])
    return [p for p in processes if p.info["username"] == user and p.info["status"] != psutil.STATUS_ZOMBIE]


def _cpu(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    return sum(process.cpu_times()[:4])


def _private(process: psutil.Process) -> float:
    """Return a process's unshared memory in MiB."""
    return process.memory_full_info().uss / 2**20


def _all(hub: Hub) -> dict[int, str]:
    """Return {process ID: part of the hub} for all processes of this hub."""
    known = {r["pid"]: name for name, r in services.process_ledger(hub.state).all().items()}
    for p in psutil.process_iter(["username", "cmdline", "status"]):
        if (p.info["username"] or "").startswith(PREFIX) and p.pid not in known and p.info["cmdline"]:
            known[p.pid] = "kernels" if "ipykernel_launcher" in p.info["cmdline"] else "students' servers"
    return known


def _by_part(hub: Hub) -> dict[str, float]:
    """Return {part: CPU seconds so far}, including the measuring process."""
    total = {"the students of this measurement": sum(os.times()[:2])}
    for pid, part in _all(hub).items():
        with contextlib.suppress(psutil.Error):
            total[part] = total.get(part, 0) + _cpu(psutil.Process(pid))
    return total


def _memory(hub: Hub) -> float:
    """Return the memory of all processes of this hub in MiB, counting shared memory once."""
    total = 0
    for pid in _all(hub):
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(pid).memory_full_info().pss
    return total / 2**20


@contextlib.contextmanager
def _watching(look: Callable[[], object], every: float = 5.0) -> Iterator[None]:
    """Call `look` at intervals while the body runs, and once at its end."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(every):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
        look()
    finally:
        over.set()
        thread.join()


def checks(options: argparse.Namespace) -> Found:
    """Measure official checks: in turn, 1, 10 and 30 students press Check at the same moment, each with a
    correct solution and a different comment.
    """
    measured, names = Found(), [f"s{n:02}" for n in range(max(AT_ONCE))]
    took: dict[int, list[float]] = {}
    with opened(names, CHECKED, checks=100, checks_in_all=1000) as hub:
        people = [hub.person(name) for name in names]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(_fetches, people))
        for n in (1, *AT_ONCE):  # the first check starts the autograder, and is recorded separately
            ready, some = threading.Barrier(n), people[:n]
            for person in some:
                _solves(hub, person, f"{n}, {time.monotonic()}")
            with ThreadPoolExecutor(n) as pool:
                seconds = list(pool.map(lambda person, ready=ready: _checks(person, ready), some))
            took.setdefault(n if took else 0, []).extend(seconds)
    for n, seconds in took.items():
        side = f"{n} at the same moment" if n else "the first, which starts the autograder"
        measured.rows.append(Row(f"official check of {CHECKED[:2]}, until its page", side, "s", seconds))
    last = max(took[max(AT_ONCE)])
    measured.aims.append(
        (f"{max(AT_ONCE)} students at one time each get all points of {CHECKED[:2]} within {ANSWERED:g} s",
         last <= ANSWERED)
    )  # fmt: skip
    measured.remarks.append(
        f"The slowest of {max(AT_ONCE)} takes {last:.1f} s. Answers are given at multiples of 5 s."
    )
    return measured


def _fetches(person: Person) -> None:
    person.log_in()
    person.begin()
    person.assignment("fetch", CHECKED)


def _solves(hub: Hub, person: Person, comment: str) -> None:
    """Save the course's solution in a version that differs from other students' and from earlier ones."""
    import nbformat

    from cluster.staff.release.wrong_solutions import fill

    (path,) = (hub.course / "exercises" / CHECKED).glob("*.ipynb")
    (source,) = (hub.course / "solutions" / CHECKED).glob("*.ipynb")
    copy = fill(nbformat.read(path, as_version=4), nbformat.read(source, as_version=4))
    copy.cells.append(nbformat.v4.new_code_cell(f"# {person.user}, {comment}"))
    saved = person.mine(
        "PUT",
        f"/api/contents/assignments/{CHECKED}/{path.name}",
        json={"type": "notebook", "content": copy},
    )
    assert saved.ok, saved.text


def _checks(person: Person, ready: threading.Barrier) -> float:
    """Press Check; return the seconds until its page shows all automatically graded points."""
    ready.wait()
    began = time.monotonic()
    page = person.mine("POST", f"/course/check?of={CHECKED}").text
    took = time.monotonic() - began
    match = re.search(r"<b>([\d.]+) of ([\d.]+) points</b>", page)
    assert match and match[1] == match[2], page
    return took


SECTIONS = {"server": server, "class": crowd, "check": checks}
