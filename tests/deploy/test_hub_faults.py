"""Kill parts of a hub that a class is using. `status` must name them, `start` must restart them, and nothing
may be lost.

The tests share one hub. test_hub_slurm.py tests a hub with Slurm, test_hub_postgres.py one with PostgreSQL.
All hubs use the same user names, so each module removes its hub before the next one starts.
"""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.deploy.classroom import ASSIGNMENT, tiny

from .hub import COURSE, MANAGE, PREFIX, grading, kill, mended, opened, person, wait

pytestmark = [pytest.mark.hub, pytest.mark.servers, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("repository"))


def handed_in(hub, who):
    return [
        p.name for p in (hub.state / "exchange" / COURSE / "inbound").iterdir() if p.name.startswith(who.user)
    ]


@pytest.fixture(scope="module")
def hub(course):
    with opened(course) as instance:
        yield instance


@pytest.fixture(scope="module")
def ada(hub):
    return person(hub, "ada").begin()


def test_the_proxy_is_killed(hub, ada):
    """After the proxy was killed, does `start` restart only the proxy? Are a student's server and the
    kernel's variables then as before, and can the student submit?"""
    ada.solve("return 2 * x")
    kernel, _ = ada.cell("kept = 17")
    kill(hub, "proxy")
    with pytest.raises(OSError):
        ada.mine("GET", "/api/contents/")
    assert mended(hub, "proxy") == {"proxy"}
    assert ada.cell("print(kept)", kernel)[1] == "17\n"
    ada.assignment("submit", ASSIGNMENT)
    assert len(handed_in(hub, ada)) == 1


def test_a_students_server_is_killed(hub):
    """After a student's server is killed, do its kernels end, and does the hub notice? Does the next server
    have the saved notebook, and can the student submit it?"""
    ben = person(hub, "ben").begin()
    ben.solve("""__import__("time").sleep(1)  # so that grading can be met in the middle
    return x + x""")
    _, answer = ben.cell("import os; print(os.getppid(), os.getpid())")
    server, kernel = map(int, answer.split())
    os.kill(server, signal.SIGKILL)
    wait("end of the kernel", lambda: not Path(f"/proc/{kernel}").exists())
    wait("the hub's notice", lambda: not ben.ready())
    assert "/hub/" in ben.get(f"{ben.base}/user/{ben.user}/lab").url, "its page offers a new start"
    ben.begin()
    saved = ben.mine("GET", f"/api/contents/assignments/{ASSIGNMENT}/doubling.ipynb").json()
    assert any("return x + x" in c["source"] for c in saved["content"]["cells"])
    ben.assignment("submit", ASSIGNMENT)
    assert len(handed_in(hub, ben)) == 1


def test_what_servers_fork_from_is_killed(hub, ada):
    """If the process that servers are forked from is killed, do running servers continue, and do new ones
    start without it? Are servers forked again after `start` has restarted it?"""
    cem = person(hub, "cem")
    origin = kill(hub, "servers")
    assert ada.cell("print(1)")[1] == "1\n"
    cem.begin()
    cem.end()
    assert mended(hub, "servers") == {"servers"}
    cem.begin()
    _, answer = cem.cell("import os; print(os.getppid())")
    parent = int(Path(f"/proc/{int(answer)}/stat").read_text().rpartition(")")[2].split()[1])
    assert parent == json.loads((hub.state / "processes.json").read_text())["servers"]["pid"] != origin
    paths = {c.path for c in cem.cookies if c.name == f"jupyterhub-user-{cem.user}"}
    assert paths == {f"/user/{cem.user}/"}, "a fork's log-in is for its own user's pages"
    cem.solve("return x ** 2")
    cem.assignment("submit", ASSIGNMENT)


def test_formgrader_is_killed_while_it_grades(hub):
    """If Formgrader dies during a grading run in its terminal, does the next run grade each submission
    exactly once?"""
    ines = person(hub, "ines")
    assert ines.formgrader("GET", MANAGE).ok
    answer = ines.formgrader("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/collect").json()
    assert answer["success"] and "3 collected" in answer["log"], answer
    terminal = grading(ines)
    kill(hub, "formgrader")
    terminal.close()
    hub.start()  # waits for the hub, which starts it again
    hub.do("status")
    again = hub.grade("run", ASSIGNMENT, "--backend", "local")
    assert hub.marks() == {f"{PREFIX}ada": 3, f"{PREFIX}ben": 3, f"{PREFIX}cem": 0}, again
    assert ines.formgrader("GET", MANAGE).ok, "still logged in"
    rows = ines.formgrader("GET", f"/formgrader/api/submissions/{ASSIGNMENT}").json()
    assert sorted(r["student"] for r in rows if r["autograded"]) == sorted(hub.marks())
