"""A class that arrives all at once: 30 students log in, start servers, run a cell and submit. `make test-hub`
runs this test."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster.staff.hub import daemons
from tests.deploy.classroom import ASSIGNMENT, COURSE, tiny

from .hub import Hub, skip_or_fail

STUDENTS = 30


@pytest.mark.hub
@pytest.mark.timeout(900)
def test_a_whole_class_at_one_time(tmp_path_factory, capsys):
    """If 30 students arrive at once, are all of them served? Is every submission in the exchange, collected,
    and graded with the right points?"""
    skip_or_fail(daemons.missing())
    names = [f"s{n:02}" for n in range(STUDENTS)]
    hub = Hub(tiny(tmp_path_factory.mktemp("load")))
    try:
        hub.enrol(**dict.fromkeys(names, "student"), ines="instructor")
        hub.start()
        ines = hub.person("ines")
        ines.log_in()
        ines.release()
        people, ready, began = (
            [hub.person(name) for name in names],
            threading.Barrier(STUDENTS),
            time.monotonic(),
        )
        with ThreadPoolExecutor(STUDENTS) as pool:
            list(pool.map(lambda person: goes_through(person, ready), people))
        with capsys.disabled():  # not checked, because it depends on the machine
            print(f"\n  until all {STUDENTS} have submitted: {time.monotonic() - began:.0f} s")
        assert len(list((hub.state / "exchange" / COURSE / "inbound").iterdir())) == STUDENTS
        hub.grade("collect", ASSIGNMENT)
        hub.grade("run", ASSIGNMENT, "--backend", "local")
        assert hub.marks() == {person.user: 3 for person in people}
    finally:
        hub.remove()


def goes_through(person, ready):
    """Go through all steps of a student, together with the others."""
    ready.wait()
    assert person.log_in().url.endswith("/hub/home")
    person.begin()
    assert person.cell("print(sum(range(10)))")[1] == "45\n"
    person.solve("return 2 * x")
    person.assignment("submit", ASSIGNMENT)
