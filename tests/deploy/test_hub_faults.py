"""Parts of the hub are killed in the middle of the loop: `status` names them, `start` mends, nothing is lost.

The quick ones share a hub; those with a Slurm and with PostgreSQL have a hub of their own (make test-hub).
"""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from cluster.staff.hub import daemons, postgres
from cluster.staff.hub.settings import Trouble
from cluster.staff.one_machine_slurm import machine
from cluster.system import processes
from tests.bench.classroom import ASSIGNMENT, tiny

from .hub import COURSE, PREFIX, Hub, wait

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]
STUDENTS = ("ada", "ben", "cem")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("repository"))


@contextlib.contextmanager
def opened(course, why=None, **settings):
    """A hub with a class whose assignment is released. Skipped where none can be; in CI it is a failure."""
    if why := why or daemons.missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"the hub is part of CI: {why}")
        pytest.skip(f"no such hub can be started here: {why}")
    hub = Hub(course, **settings)
    try:
        hub.enrol(**dict.fromkeys(STUDENTS, "student"), ines="instructor")
        hub.start()
        person(hub, "ines").release()
        yield hub
    finally:
        hub.remove()


def person(hub, name):
    found = hub.person(name)
    assert found.log_in().url.endswith("/hub/home")
    return found


def kill(hub, name):
    """kill -9 of a part; its process number."""
    pid = json.loads((hub.state / "processes.json").read_text())[name]["pid"]
    os.kill(pid, signal.SIGKILL)
    wait(f"end of {name}", lambda: not Path(f"/proc/{pid}").exists())
    return pid


def mended(hub, *names):
    """`status` names what is dead, and only that; `start` starts it, and only it."""
    answer = hub.do("status", status=1)
    dead = {line.split()[0] for line in answer.splitlines() if "  dead" in line or " dead (" in line}
    assert dead == set(names), answer
    before = json.loads((hub.state / "processes.json").read_text())
    hub.start()
    after = json.loads((hub.state / "processes.json").read_text())
    assert "dead" not in hub.do("status")
    return {name for name in after if after[name] != before.get(name)}


def handed_in(hub, who):
    return [
        p.name for p in (hub.state / "exchange" / COURSE / "inbound").iterdir() if p.name.startswith(who.user)
    ]


def grading(ines):
    """A run in Formgrader's terminal that has begun; the terminal's web socket."""
    line = f"python -m cluster grade run {ASSIGNMENT} --backend local"
    return ines.type(line, lambda text: "/3 [" in text)[0]


# --- a hub for the quick ones -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub(course):
    with opened(course) as own:
        yield own


@pytest.fixture(scope="module")
def ada(hub):
    return person(hub, "ada").begin()


def test_the_proxy_is_killed(hub, ada):
    """Is a page there again as soon as `start` returns, the server the same, and a kernel's memory kept?"""
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
    """Does the hub notice, do its kernels end, is saved work in the next server, and can it be handed in?"""
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
    """Does a server start from nothing then, do those that run go on, and is it forked again when mended?"""
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
    """A run typed in Formgrader's terminal dies with it: are all graded once by the next, none twice?"""
    ines = person(hub, "ines")
    assert ines.formgrader("GET", "/formgrader/manage_assignments").ok
    answer = ines.formgrader("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/collect").json()
    assert answer["success"] and "3 collected" in answer["log"], answer
    terminal = grading(ines)
    kill(hub, "formgrader")
    terminal.close()
    assert mended(hub, "formgrader") == {"formgrader"}
    again = hub.grade("run", ASSIGNMENT, "--backend", "local")
    assert hub.marks() == {f"{PREFIX}ada": 3, f"{PREFIX}ben": 3, f"{PREFIX}cem": 0}, again
    assert ines.formgrader("GET", "/formgrader/manage_assignments").ok, "still logged in"
    rows = ines.formgrader("GET", f"/formgrader/api/submissions/{ASSIGNMENT}").json()
    assert sorted(r["student"] for r in rows if r["autograded"]) == sorted(hub.marks())


# --- with a Slurm: make test-hub ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_slurm(course):
    with opened(course, machine.missing(), slurm="machine") as own:
        yield own


def slurm_of(hub):
    """(the state folder of its Slurm, what Slurm's commands have to be given)."""
    slurm = hub.state.parent / "slurm"
    return slurm, {"CLUSTER_STATE": str(slurm.parent), "SLURM_CONF": f"{slurm}/slurm.conf"}


@pytest.mark.hub
def test_slurmctld_is_killed_while_a_job_runs(with_slurm):
    """Does a job outlive it, does the notebook get its result, and is it handed in and graded on Slurm?"""
    hub = with_slurm
    ada = person(hub, "ada").begin()
    ada.solve("return 2 * x")
    kernel, answer = ada.cell(SUBMIT)
    slurm, given = slurm_of(hub)
    begun, file = time.time(), slurm / "controller/job_state"
    wait("slurmctld's note of the job", lambda: file.exists() and file.stat().st_mtime > begun)
    pid = json.loads((slurm / "processes.json").read_text())["slurmctld"]["pid"]
    os.kill(pid, signal.SIGKILL)
    answer = hub.do("status", status=1)
    assert [line.split()[0] for line in answer.splitlines() if " dead " in line] == ["slurmctld"], answer
    hub.start()
    assert "dead" not in hub.do("status")
    assert ada.cell("print(job.wait(120, progress=False).result())", kernel)[1].strip() == "42"
    ada.assignment("submit", ASSIGNMENT)
    assert "1 collected" in hub.grade("collect", ASSIGNMENT)
    argv = ["python", "-m", "cluster", "grade", "run", ASSIGNMENT, "--backend", "slurm"]
    hub.run(hub.grader, *argv, **given)  # as in Formgrader's terminals
    assert hub.marks()[ada.user] == 3


@pytest.mark.hub
def test_jobs_of_others_are_private_and_ranks_end_with_slurmstepd(with_slurm):
    """Does a student see nothing of another's job, nor reach Slurm's lock; and is no rank left behind?"""
    hub = with_slurm
    ada, (slurm, given) = person(hub, "ada").begin(), slurm_of(hub)
    ada.cell(SUBMIT.replace("30", "300"))
    own = hub.run(ada.user, "squeue", "--noheader", "--format=%i %u", **given).stdout.split()
    assert own[1::2] == [ada.user], own
    for words in (["squeue", "--noheader"], ["sacct", "--noheader", "--allusers"], ["sacct", "-nj", own[0]]):
        seen = hub.run(f"{PREFIX}ben", *words, check=False, **given)
        assert not seen.stdout.strip(), (words, seen.stdout)
    seen = hub.run(f"{PREFIX}ben", "scontrol", "show", "job", own[0], check=False, **given)
    assert ada.user not in seen.stdout, seen.stdout
    refused = hub.run(f"{PREFIX}ben", "flock", "-n", slurm / "lock", "true", check=False)
    assert refused.returncode and "ermission denied" in refused.stderr
    left = ranks(ada.user)
    assert left, "a rank runs"
    of_slurm = [psutil.Process(one["pid"]) for one in processes.slurm_processes(slurm / "slurm.conf")]
    steps = [process for process in of_slurm if process.name() == "slurmstepd"]
    assert steps
    for process in steps:
        process.kill()
    wait("end of the ranks", lambda: not ranks(ada.user))


def ranks(user):
    """The processes of a user's jobs that are ranks."""
    found = psutil.process_iter(["username", "cmdline", "status"])
    mine = [p.info for p in found if p.info["username"] == user and p.info["status"] != psutil.STATUS_ZOMBIE]
    return [info for info in mine if "cluster.jobs.rank.main" in " ".join(info["cmdline"] or ())]


SUBMIT = """
import time
import cluster

def slow(seconds):
    time.sleep(seconds)
    return 42

job = cluster.submit(slow, 30)
while job.status != "running":
    time.sleep(0.5)
"""


# --- with PostgreSQL: make test-hub ------------------------------------------------------------------


def no_postgres():
    try:
        postgres.programs()
    except Trouble as e:
        return str(e)


@pytest.mark.hub
def test_the_database_is_killed_while_a_class_is_graded(course):
    """PostgreSQL for hub and gradebook: from log-in to feedback, killed in a run, with backup and restore."""
    with opened(course, no_postgres(), database="postgresql") as hub:
        people = [person(hub, name).begin() for name in STUDENTS]
        for one in people:
            one.solve("return 2 * x")
            one.assignment("submit", ASSIGNMENT)
        assert "3 collected" in hub.grade("collect", ASSIGNMENT)
        ines = person(hub, "ines")
        assert ines.formgrader("GET", "/formgrader/manage_assignments").ok
        terminal = grading(ines)
        kill(hub, "postgres")
        assert mended(hub, "postgres") == {"postgres", "hub"}
        terminal.close()
        hub.grade("run", ASSIGNMENT, "--backend", "local")
        whole = {one.user: 3 for one in people}
        assert hub.marks() == whole
        assert people[0].cell("print(1)")[1] == "1\n", "servers go on"
        assert person(hub, "ada").ready(), "log-in, and what the hub knows of servers"
        file = hub.folder / "backup.tar.gz"
        hub.do("backup", file)
        postgres.ask(hub.state, postgres.OWNER, "gradebook", "DELETE FROM grade")
        assert hub.marks() != whole
        hub.do("restore", file)
        assert hub.marks() == whole
        for step in ("generate_feedback", "release_feedback"):
            answer = ines.formgrader("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/{step}").json()
            assert answer["success"], answer
        people[0].assignment("fetch_feedback", ASSIGNMENT)
        assert len(list(people[0].home.glob(f"assignments/{ASSIGNMENT}/feedback/*/doubling.html"))) == 1
