"""Test a class on a real hub over HTTP, from the first login to the feedback. Its Unix users are removed
afterwards.

The tests share one hub and run in order. One of the students, Eve, submits invalid data, which the hub must
not trust and which must not affect other students.
"""

import hashlib
import html
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from cluster.staff.services import locked
from tests.deploy.classroom import ASSIGNMENT, tiny

from .hub import (
    CLASS,
    COURSE,
    DO,
    HAND_IN,
    LECTURE,
    MANAGE,
    PAGE,
    PREFIX,
    REPORT,
    ROOT,
    WORK,
    Person,
    pid_of,
    started,
    wait,
)

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200)]

EVE, CEM = "eve.2", "c.em"  # user names with a dot
README = (ROOT / "cluster/staff/hub/README.md").read_text()


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Return a course repository with one lecture and one tiny assignment, whose student version is
    generated."""
    return tiny(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def hub(course):
    """Yield a hub with three students and an instructor. If no hub can be started, skip the tests; in CI,
    fail."""

    def enrol(hub):
        hub.enrol(**dict.fromkeys(("ada", "ben", EVE), "student"), ines="instructor")

    with started(course, enrol, progress=True) as instance:
        yield instance


@pytest.fixture(scope="module")
def ada(hub):
    ada = hub.person("ada")
    assert ada.log_in().url.endswith("/hub/home")
    return ada.spawn()


@pytest.fixture(scope="module")
def ben(hub):
    ben = hub.person("ben")
    ben.log_in()
    return ben.spawn()


@pytest.fixture(scope="module")
def eve(hub):
    eve = hub.person(EVE)
    eve.log_in()
    return eve.spawn()


@pytest.fixture(scope="module")
def ines(hub):
    ines = hub.person("ines")
    ines.log_in()
    assert ines.formgrader("GET", MANAGE).ok
    return ines


def listed(person, status):
    """Return {assignment: entry} for the entries of a person's assignment list that have this status."""
    answer = person.mine("GET", "/assignments", params={"course_id": COURSE}).json()
    assert answer["success"], answer
    return {e["assignment_id"]: e for e in answer["value"] if e["status"] == status}


def receipt(person):
    """Return the URL of the newest receipt on the start page."""
    match = re.search(r'href="(/user/[^"]+/course/receipt[^"]+)"', person.mine("GET", "/course").text)
    return html.unescape(match[1])


def press(ines, do, meanwhile=lambda: None, **form):
    """Press a button on the class page; return the page's text after the action has succeeded."""
    page = PAGE
    token = re.search(r'name="_xsrf" value="([^"]+)"', ines.formgrader("GET", page).text)[1]
    form = {"_xsrf": token, "do": do, **form}
    answer = ines.formgrader("POST", DO, data=form)
    assert answer.ok and page in answer.url, (answer.status_code, answer.text)

    def ended():
        text = ines.formgrader("GET", page).text
        meanwhile()
        return text if 'class="state running"' not in text else None

    text = wait(f"end of {do}", ended, 120)
    assert ": done</span>" in text, text
    return text


def test_a_wrong_password_lets_nobody_in(hub):
    """Is a login with a wrong password refused, and does the user's JupyterLab URL still lead to the login
    page?"""
    stranger = hub.person("ben")
    page = stranger.log_in("not the password")
    assert page.status_code == 403 and "Invalid username or password" in page.text
    assert stranger.get(f"{stranger.base}/user/{stranger.user}/lab").url.startswith(
        f"{stranger.base}/hub/login"
    )


def test_starting_twice_is_harmless(hub):
    """Does a second `start` keep all processes running and report that nothing has changed?"""
    before = json.loads((hub.state / "processes.json").read_text())
    answer = hub.start()
    assert json.loads((hub.state / "processes.json").read_text()) == before
    assert answer.count("unchanged") >= 2 and "0 changes" in answer


def test_solutions_that_students_could_read_are_refused(hub, course):
    """Does `start` refuse a world-readable course, print the `chmod` command that fixes this, and leave the
    record of the last start unchanged?"""
    before = json.loads((hub.state / "started.json").read_text())
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(course, Path(folder, "course"))
        os.chmod(f"{folder}/course", 0o755)
        command = ["--roster", hub.roster, "--settings", hub.folder / "settings.toml"]
        answer = hub.do("start", *command, "--course", f"{folder}/course", status=1)
        assert f"'{folder}/course'" in answer
    assert json.loads((hub.state / "started.json").read_text()) == before


def test_a_waiting_command_names_the_holder(hub):
    """If the state folder is locked, does a waiting command report which process holds the lock, and since
    when? Does the command continue once the lock is released?"""
    argv = [sys.executable, "-m", "cluster.staff.hub", "sync", hub.roster, "--state", hub.state]
    with locked(hub.state):
        waiting = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        line = waiting.stdout.readline()
    rest = waiting.communicate(timeout=600)[0]
    assert waiting.returncode == 0, rest
    assert f"process {os.getpid()} (" in line, line


def test_lectures_can_be_read_and_not_written(hub, ada):
    """Is a lecture read-only in JupyterLab, and are its figures shown? Does a student's Python import the
    course's installed package?"""
    path = f"/api/contents/course/{LECTURE}"
    lecture = ada.mine("GET", path).json()
    assert lecture["content"]["cells"] and not lecture["writable"]
    figure = ada.mine("GET", "/files/course/lectures/figures/01_im2col.svg")
    assert figure.ok and "<svg" in figure.text, "although ~/course leads out of the home"
    placed = hub.state / "course" / LECTURE
    before = placed.read_bytes()
    lecture["content"]["cells"] = []
    assert not ada.mine("PUT", path, json=lecture).ok and placed.read_bytes() == before
    answer = hub.run(ada.user, "python", "-c", "import cluster; print(cluster.__file__)").stdout
    assert answer.startswith(f"{hub.state}/course/cluster/")


def test_instructors_release(ines, ada):
    """After an instructor generates and releases an assignment with Formgrader, does the students' assignment
    list show it?"""
    assert listed(ada, "released") == {}
    for step in ("assign", "release"):
        answer = ines.formgrader("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/{step}")
        assert answer.ok and answer.json()["success"], answer.text
    assert list(listed(ada, "released")) == [ASSIGNMENT]


def test_a_student_fetches_and_submits(ada, ben):
    """Can two students fetch an assignment, fill it in and submit it? Does the assignment list then show one
    submission for each of them?"""
    for person, answer in ((ada, "return 2 * x"), (ben, "return x + x + 1")):
        person.assignment("fetch", ASSIGNMENT)
        person.solve(answer)
        person.assignment("submit", ASSIGNMENT)
        assert len(listed(person, "submitted")[ASSIGNMENT]["submissions"]) == 1


def test_invalid_folders_in_the_inbound_folder_are_reported(hub, eve, ines):
    """If the inbound folder contains submissions with invalid names, another student's name, a symbolic link
    or a sparse file of 4 TB, does the class page still load and report them?"""
    inbox = hub.state / "exchange" / COURSE / "inbound"
    hub.run(eve.user, "python", "-c", LITTER, inbox, eve.user, eve.user.replace(EVE, "ada"))
    assert len(list(inbox.iterdir())) == 2 + 6
    page = ines.formgrader("GET", PAGE)
    assert page.status_code == 200 and page.text.count("<b>not collected</b>") == 3
    assert ines.formgrader("GET", CLASS).status_code == 200
    text = html.unescape(page.text)
    for value in (r"“bad\xff”", r"“two\nlines”", f"{PREFIX}ada", "500 MiB", "/etc/passwd"):
        assert value in text, value


LITTER = r"""
import os, sys

inbox, eve, ada = map(os.fsencode, sys.argv[1:])


def hand_in(student, when):
    folder = os.path.join(inbox, student + b"+99_doubling+" + when)
    os.mkdir(folder)
    with open(os.path.join(folder, b"timestamp.txt"), "w") as file:
        file.write("2026-01-01 00:00:00 UTC")
    return folder


hand_in(b"bad\xff", b"2026-01-01 00:00:00 UTC")
hand_in(b"two\nlines", b"2026-01-01 00:00:00 UTC")
hand_in(ada, b"2026-01-01 00:00:00 UTC")
hand_in(eve, b"bad\xff")
os.symlink("/etc/passwd", os.path.join(hand_in(eve, b"link"), b"link"))
with open(os.path.join(hand_in(eve, b"hole"), b"hole"), "wb") as file:
    file.truncate(4 * 10**12)
"""


def test_a_submission_with_a_copied_cell_and_an_unencodable_name(hub, eve):
    """If a submission contains a copy of a check and a file name that is not valid UTF-8, is the student
    warned of the copy? Is the submission accepted, with the file name escaped in the receipt?"""
    eve.assignment("fetch", ASSIGNMENT)
    path = f"assignments/{ASSIGNMENT}/doubling.ipynb"
    notebook = eve.mine("GET", f"/api/contents/{path}").json()["content"]
    cell = next(c for c in notebook["cells"] if "raise NotImplementedError" in c["source"])
    cell["source"] = cell["source"].replace("raise NotImplementedError", "return 2 * x")
    check = next(c for c in notebook["cells"] if "double(1) == 2" in c["source"])
    copied = json.loads(json.dumps(check)) | {"id": "copied", "source": "assert double(1) == 3"}
    del copied["metadata"]["nbgrader"]["schema_version"]  # as older versions of nbgrader wrote the cell
    notebook["cells"].insert(0, copied)
    saved = eve.mine("PUT", f"/api/contents/{path}", json={"type": "notebook", "content": notebook})
    assert saved.ok, saved.text
    folder = eve.home / "assignments" / ASSIGNMENT
    hub.run(eve.user, "python", "-c", r"open(b'bad\xff.txt', 'w')", cwd=folder)
    answer = eve.mine("POST", "/course/validate", params={"of": path})
    assert re.search(r"\b0 failed.*\b2 passed", answer.text)
    for page in (answer, eve.mine("GET", HAND_IN)):
        assert f"“{copied['metadata']['nbgrader']['grade_id']}”" in html.unescape(page.text), "a warning"
    answer = eve.mine("POST", "/course/hand-in", params={"of": ASSIGNMENT})
    assert answer.ok and "Receipt" in answer.text and r"bad\xff.txt" in answer.text, answer.text


def test_each_student_sees_their_own_receipt_and_dates(hub, ada, ben, ines):
    """Does the start page show the due date, and an extension only to the student who has it? Does the
    receipt contain the notebook's hash, and is it closed to other students?"""
    press(ines, "due", date="2099-12-01", time="23:59", zone="Europe/Berlin")
    press(ines, "extend", student=ben.user, days="3")
    text = ada.mine("GET", "/course").text
    assert "extension" not in text
    assert "Tue 1 Dec 2099, 22:59 UTC" in text and "on time" in text
    answer = ada.get(ada.base + receipt(ada)).text
    work = (ada.home / "assignments" / ASSIGNMENT / "doubling.ipynb").read_bytes()
    assert hashlib.sha256(work).hexdigest() in answer
    assert ben.get(ben.base + receipt(ada)).status_code in (403, 404), "a receipt is its student's"
    assert "Fri 4 Dec 2099" in ben.mine("GET", "/course").text

    def seen():
        view = ines.formgrader("GET", PAGE).text
        return view.count("<b>not collected</b>") == 3 and view.count("1 of 1") == 3

    wait("submissions and progress", seen)


def test_the_class_page_is_for_instructors(ben, ines):
    """Are the class page and its actions refused to students? Are actions without an XSRF token refused even
    to instructors?"""
    do = DO
    for page in ("", f"/assignment?of={ASSIGNMENT}", f"/report?of={ASSIGNMENT}"):
        assert ben.formgrader("GET", f"/course/class{page}").status_code == 403
        assert ben.mine("GET", f"/course/class{page}").status_code == 404, "not in a student's own server"
    assert ben.formgrader("POST", do, data={"do": "collect"}).status_code == 403
    url = f"{ines.base}/services/{COURSE}{do}"
    assert ines.post(url, data={"do": "collect"}).status_code == 403
    assert "Class Page" in ines.formgrader("GET", MANAGE).text
    link = f'href="/services/{COURSE}/course/class"'
    homes = [person.get(f"{person.base}/hub/home").text for person in (ines, ben)]
    assert [link in text for text in homes] == [True, False]
    assert ['id="passwords"' in text for text in homes] == [True, False]


def test_a_computing_class_does_not_delay_the_pages(hub, ada):
    """Do the hub, the proxy and the class page get a larger share of the CPU than a student's kernel?"""
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("CPU is shared by process")
    parts = [pid_of(hub, name) for name in ("proxy", "hub", "formgrader")]
    shares = [Path(f"/proc/{pid}/autogroup").read_text() for pid in parts]
    assert all(share.endswith(" nice -10\n") for share in shares), shares
    assert ada.cell("print(open('/proc/self/autogroup').read())")[1].endswith(" nice 0\n\n")


def test_files_of_others_are_inaccessible(hub, ada, ben, ines):
    """Are other students' files, the grader's files and pages, and the hub's state closed to a student? Are
    the installed course files free of solutions?"""
    page = ben.formgrader("GET", MANAGE)
    assert page.status_code == 403
    assert ben.at(f"/user/{ada.user}", "GET", "/api/contents/").status_code in (403, 404)
    assert ben.mine("GET", "/formgrader/api/assignments").status_code == 404, (
        "no Formgrader in a student's server"
    )
    exchange, grader = hub.state / "exchange", hub.state / "home" / hub.grader
    assert any((exchange / COURSE / "inbound").iterdir())
    closed = [
        f"ls {exchange}/{COURSE}/inbound",
        f"ls {ada.home}",
        f"cat {grader}/course/solutions/{ASSIGNMENT}/doubling.ipynb",
        f"cat {hub.state}/hub/secrets.json",
        f"cat {hub.state}/passwords.csv",
        f"mv {exchange}/{COURSE} {exchange}/another",
        f"touch {hub.state}/course/lectures/x {hub.state}/python/x",
        f"flock -n {hub.state}/lock true",
        f"rm {hub.state}/lock",
        f"ls {hub.state}/logs",
        f"ls {hub.state}/people",
        f"cat {hub.state}/people/{ada.user}/notice.json",
        f"cat {hub.state}/people/{ada.user}/progress.json",
        f"touch {hub.state}/people/{ada.user}/notice.json",
    ]
    for command in closed:
        answer = hub.run(ben.user, "sh", "-c", command, check=False)
        refused = "ermission denied" in answer.stderr or "not permitted" in answer.stderr
        assert answer.returncode and refused, (command, answer.stderr)
    placed = [p for p in (hub.state / "course").rglob("*") if p.is_file() and p.suffix != ".pyc"]
    assert not [p for p in placed if "twice_the_number" in p.read_text(errors="replace")], "the solution"


def test_the_hub_is_killed_and_nothing_is_lost(hub, ben):
    """After the hub's process is killed, do running servers continue, and can students still submit? Does a
    restarted hub find the servers again?"""
    ada = hub.person("ada")  # log in again, because her server caches her groups for five minutes
    ada.log_in()
    ada.spawn()
    servers = running(hub, ada.user)
    os.kill(json.loads((hub.state / "processes.json").read_text())["hub"]["pid"], signal.SIGKILL)
    assert ada.mine("GET", "/api/contents/").ok
    ada.assignment("submit", ASSIGNMENT)
    assert hub.do("status", status=1)
    hub.start()
    assert running(hub, ada.user) == servers
    assert ben.ready(), "ben's browser is still logged in"
    assert len(listed(ada, "submitted")[ASSIGNMENT]["submissions"]) == 2


def test_collect_grade_and_release_feedback(hub, ada, ben, eve, ines):
    """Does Formgrader's collect button refuse the invalid submissions? Does Formgrader respond while the
    others are graded? Does each student fetch the feedback on their own submission?"""
    answer = ines.formgrader("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/collect").json()
    assert answer["success"] and "3 collected" in answer["log"] and "5 refused" in answer["log"], answer
    answers = []
    pages = lambda: answers.append(ines.formgrader("GET", MANAGE).ok)  # noqa: E731
    assert "3 graded now" in press(ines, "grade", meanwhile=pages)
    assert len(answers) > 2 and all(answers), "Formgrader answers while a class is graded"
    students = ines.formgrader("GET", f"/formgrader/api/submissions/{ASSIGNMENT}").json()
    marks = {row["student"]: (row["score"], row["first_name"]) for row in students}
    assert marks == {ada.user: (3.0, "Ada"), ben.user: (0.0, "Ben"), eve.user: (3.0, EVE.title())}
    assert "feedback for 3 students to fetch" in press(ines, "give-back")
    press(ines, "hand-out")
    assert f'id="fetch-feedback-{ASSIGNMENT[:2]}"' in ada.mine("GET", "/course").text
    for person, points in ((ada, "3"), (ben, "0"), (eve, "3")):
        person.assignment("fetch_feedback", ASSIGNMENT)
        pages = list(person.home.glob(f"assignments/{ASSIGNMENT}/feedback/*/doubling.html"))
        assert len(pages) == 1, pages
        answer = pages[0].read_text()
        assert re.search(rf"\b{points}(\.0)?(</b>)? (of|/) 3", answer), answer[:3000]


@pytest.mark.parametrize("which", ["inbound", "all"])
def test_a_closed_inbound_folder_is_named(hub, ada, ines, which):
    """If the grader cannot enter the inbound folder or the whole exchange, do commands and pages name this
    folder? Does the students' start page still list the lectures?"""
    exchange = hub.state / "exchange"
    closed = exchange / COURSE / "inbound" if which == "inbound" else exchange
    who = str(closed)
    os.chown(closed, 0, 0)
    closed.chmod(0o700)
    try:
        words = ["python", "-m", "cluster", "grade", "collect", ASSIGNMENT]
        command = hub.run(hub.grader, *words, check=False)
        assert command.returncode == 1 and who in command.stderr and hub.grader in command.stderr, (
            command.stderr
        )
        assert "Traceback" not in command.stderr
        button = ines.formgrader("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/collect").json()
        assert not button["success"] and who in button["log"].splitlines()[0], button
        for page in ("", f"/assignment?of={ASSIGNMENT}"):
            said = lambda page=page: who in ines.formgrader("GET", f"/course/class{page}").text  # noqa: E731
            wait("its name, on a page that is cached for a moment", said)
        start = ada.mine("GET", "/course")
        assert start.ok and Path(LECTURE).name in start.text
        answer = ada.mine("GET", HAND_IN)
        assert answer.ok and "hand-in-now" not in answer.text, answer.text
        assert f"{closed} has mode 0700" in hub.do("status", status=1)
    finally:
        hub.start()
    assert closed.stat().st_mode & 0o7000 == 0o1000
    hub.do("status")
    assert "0 collected, 3 unchanged" in hub.run(hub.grader, *words, check=False).stdout


def test_a_name_with_markup_is_shown_as_text(hub, eve, ines):
    """If a name with HTML markup is added directly to the gradebook, do all pages escape it? Is a roster with
    such a name refused?"""
    markup = "<img src=x onerror=alert(1)>"
    hub.run(
        hub.grader, "nbgrader", "db", "student", "add", eve.user, f"--last-name={markup}", "--first-name=E"
    )
    path = WORK
    [one] = [row for row in ines.formgrader("GET", path).json() if row["student"] == eve.user]
    assert one["last_name"] == markup
    hub.grade("report", ASSIGNMENT)
    pages = [
        f"/formgrader/submissions/{one['id']}/",
        CLASS,
        PAGE,
    ]
    for page in (*pages, REPORT):
        answer = ines.formgrader("GET", page)
        assert answer.ok and markup not in answer.text, page
        assert page == pages[1] or html.escape(markup) in answer.text, page
    enrolled = hub.roster.read_text()
    hub.roster.write_text(enrolled.replace(f"{EVE.title()} Example", f"Eve {markup}"))
    assert "line 4: name = " in hub.do("sync", hub.roster, status=1)
    hub.roster.write_text(enrolled)


def test_formgraders_links_open_in_its_lab(ines):
    """Do Formgrader's links to the source, released and graded notebooks open in the grader's JupyterLab?"""
    lab = f"/services/{COURSE}/lab/tree/"
    script = ines.formgrader("GET", "/formgrader/static/js/utils.js").text
    assert "var linkTo" in script and f'"{lab}" + words' in script
    [row] = ines.formgrader("GET", "/formgrader/api/assignments").json()
    graded = f".grading/autograded/{ines.user.replace('ines', 'ada')}/{ASSIGNMENT}/doubling.ipynb"
    for path in (row["source_path"], row["release_path"], graded):
        assert ines.get(f"{ines.base}{lab}{path}").status_code == 200, path
        assert ines.formgrader("GET", f"/api/contents/{path}").ok, path
    assert ines.formgrader("GET", "/api/contents/solutions/99_not_there").status_code == 404


def test_backup_and_restore(hub, ines):
    """Does restoring a backup bring back a lost gradebook and lost submissions? Is a truncated backup refused
    without any change?"""
    file, grading = hub.folder / "backup.tar.gz", hub.state / "home" / hub.grader / "course/.grading"
    assert "left out: " in hub.do("backup", file) and file.stat().st_size < 20e6, "the hole of 4 TB"
    assert file.stat().st_mode & 0o777 == 0o600
    submitted = {p.name: p.read_bytes() for p in (grading / "submitted").rglob("*") if p.is_file()}
    marks = hub.state / "home" / hub.grader / "marks.csv"
    hub.grade("export", "--to", marks)
    before = marks.read_text()
    assert "3" in before
    (hub.folder / "half.tar.gz").write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert "half.tar.gz" in hub.do("restore", hub.folder / "half.tar.gz", status=1)
    assert (grading / "gradebook.db").exists() and str(file) in hub.do("backup", file, status=1)
    (grading / "gradebook.db").rename(grading / "lost.db")
    assert "gradebook.db" in hub.do("status", status=1)
    other = hub.folder / "other.tar.gz"
    assert "gradebook.db" in hub.do("backup", other, status=1) and not other.exists()
    shutil.rmtree(grading)
    hub.do("restore", file)
    hub.grade("export", "--to", marks)
    assert marks.read_text() == before
    hub.do("restore", file)  # a second restore removes nothing
    hub.do("restore", file)
    assert len(list(grading.parent.glob(".grading.before-*"))) == 2
    hub.do("status")
    assert {p.name: p.read_bytes() for p in (grading / "submitted").rglob("*") if p.is_file()} == submitted
    assert grading.stat().st_mode & 0o777 == 0o700 and grading.owner() == hub.grader
    answer = ines.formgrader("POST", f"/formgrader/api/assignment/{ASSIGNMENT}/collect").json()
    assert "3 unchanged" in answer["log"], "the restored submissions are the ones in the exchange"


def test_the_roster_changes(hub, ben, ines):
    """If a student is removed from the roster, is the server stopped and the login refused, and are the home
    folder and the gradebook entry kept? Does a student who becomes an instructor get access to Formgrader?"""
    hub.enrol(ada="instructor", **{CEM: ("student", 3)}, ines="instructor")
    answer = hub.do("sync", hub.roster)
    for line in ("ben: locked", "ben: removed", "ada: now instructor", f"{CEM}: added"):
        assert f"{PREFIX}{line}" in answer, line
    assert running(hub, ben.user) == [] and ben.home.is_dir()
    assert hub.person("ben").log_in().status_code == 403
    ada = hub.person("ada")
    ada.log_in()
    assert ada.formgrader("GET", MANAGE).ok
    names = {s["id"] for s in ines.formgrader("GET", "/formgrader/api/students").json()}
    assert {f"{PREFIX}ben", f"{PREFIX}{CEM}"} <= names
    assert "0 changes" in hub.do("sync", hub.roster)
    hub.enrol(**dict.fromkeys(("ada", "ben", CEM), "student"), ines="instructor")
    hub.do("sync", hub.roster)
    assert hub.person("ben").log_in().ok, "with the old password"
    closed = lambda: ada.formgrader("GET", "/formgrader/api/assignments").status_code == 403  # noqa: E731
    wait("end of the instructor's rights", closed, 40)


def test_stop_leaves_nothing_behind(hub):
    """Does `stop` end the students' servers and kernels, close the hub's ports, and keep the hub's files?"""
    cem = hub.person(CEM)
    cem.log_in()
    cem.spawn()
    kernel = cem.mine("POST", "/api/kernels", json={"name": "python3"})
    assert kernel.status_code == 201, kernel.text
    wait("kernel", lambda: len(running(hub, cem.user)) >= 2)
    hub.do("stop")
    assert running(hub, cem.user) == [] and not [c for c in psutil.net_connections() if mine(hub, c)]
    text = hub.do("status", status=3)
    assert "dead" not in text and (hub.state / "passwords.csv").exists()
    hub.do("stop")


@pytest.mark.timeout(1200)
def test_the_machine_is_lost(hub, tmp_path):
    """If the machine is lost, do the README's instructions restore user IDs, passwords, home folders and
    scores? Can submissions from the backup's inbound folder be collected again?"""
    keep, back, again = re.findall(
        r"^```bash\n(.*?)^```", README.partition("\n## The machine")[2], re.S | re.M
    )
    ada, state, password = f"{PREFIX}ada", str(hub.state), hub.password("ada")
    number, marks = pwd.getpwnam(ada).pw_uid, hub.marks()
    work = hub.state / "home" / ada / "assignments" / ASSIGNMENT / "doubling.ipynb"
    text, backup = work.read_bytes(), tmp_path / "backup.tar.gz"

    def shell(command, **options):
        options = {"/var/lib/convolution-to-cluster/hub": state, "/srv/backup": tmp_path} | options
        for old, new in options.items():
            command = command.replace(old, str(new))
        subprocess.run(["bash", "-euc", command], cwd=tmp_path, check=True)

    hub.do("backup", backup)
    shell(keep)
    hub.do("stop", "--purge", "--yes")
    assert ada not in {user.pw_name for user in pwd.getpwall()} and not hub.state.exists()
    (homes,) = tmp_path.glob("homes-*.tar.gz")
    assert homes.stat().st_mode & 0o777 == 0o600
    before = re.fullmatch(r"(.*)\nmake hub [^\n]*\n[^\n]* restore BACKUP.tar.gz\n", back, re.S)[1]
    shell(before, **{"HOMES.tar.gz": homes, "BACKUP.tar.gz": backup})
    assert (tmp_path / "people.csv").read_text() == hub.roster.read_text()
    assert f"{ada}: a new" not in hub.start()
    hub.do("restore", backup)
    assert pwd.getpwnam(ada).pw_uid == number and work.read_bytes() == text and work.owner() == ada
    assert hub.marks() == marks
    assert Person(hub, ada, password).log_in().url.endswith("/hub/home")
    course = hub.state / "home" / hub.grader / "course"
    first = min(path.name for path in (course / ".grading/inbound-of-backup").glob(f"{ada}+*"))
    shell(again, **{"~course-grader": course.parent, "ada+01_…": first, "chown -R ada": f"chown -R {ada}"})
    assert "1 collected" in hub.grade("collect", ASSIGNMENT)
    hub.do("status")


def running(hub, user):
    """Return the running processes of a user, without zombies."""
    processes = [p for p in psutil.process_iter(["username", "status"]) if p.info["username"] == user]
    return sorted(p.pid for p in processes if p.info["status"] != psutil.STATUS_ZOMBIE)


def mine(hub, connection):
    return connection.status == "LISTEN" and hub.port <= connection.laddr.port < hub.port + 5
