"""The class page's statuses, forms and actions, without a server."""

import datetime
import getpass
import logging
import os
import re
import time
import types
from pathlib import Path

import pytest

from cluster.staff import __main__ as command
from cluster.staff.class_page import actions, app, form_commands, roles, sheets
from cluster.staff.class_page.shares import shares
from cluster.staff.course import Course, CourseError
from cluster.staff.grading import grading_progress
from cluster.staff.release import release
from cluster.staff.results import give
from cluster.staff.results.give import HandOut
from cluster.staff.submissions import due_dates, notices, roster_file
from cluster.staff.submissions import exchange as exchange_
from cluster.system import files

from .. import ROOT
from .classes import FULL, NAME
from .courses import add_exchange

ME = getpass.getuser()
WHEN = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.fixture
def exchange(many, tmp_path):
    """A class with an exchange and three students. One of them has a folder for notices, and one is this
    process's user."""
    (tmp_path / "people/ada").mkdir(parents=True)
    more = f"c.Notices.folder = {str(tmp_path / 'people')!r}\n"
    add_exchange(many.root, tmp_path / "exchange", more)
    many.course = Course(many.root)
    with many.book() as book:
        for name in ("ada", "bob", ME):
            book.add_student(name, first_name=name.title(), last_name="Example")
    return many


def submitted(many, student):
    """Put a submission of this student into the inbound folder."""
    folder = exchange_.course_folder(many.course) / "inbound" / f"{student}+{NAME}+2026-01-01 00:00:00 UTC+x"
    folder.mkdir()
    (folder / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    (folder / "doubling.ipynb").write_text("{}")


def rows(many):
    return {row.student: row for row in sheets.Sheets(many.root, None).one(NAME).rows}


def test_a_students_way(exchange):
    """Does the class page show whether a submission is missing, waiting in the inbound folder, late or
    graded?"""
    with exchange.book() as book:
        due_dates.set_due(book, exchange.course, NAME, "2026-01-02 00:00 UTC")
        due_dates.extend(book, exchange.course, "ada", NAME, days=1)
    submitted(exchange, ME)
    table = rows(exchange)
    assert [table[n].status for n in ("ada", "bob", ME)] == ["not yet", "not yet", "late"]
    assert table[ME].waiting and not table[ME].collected
    assert table["ada"].extended and table["ada"].due == WHEN + datetime.timedelta(days=1)
    assert table["bob"].due == WHEN and not table["bob"].extended
    exchange.hand_in("ada", when="2026-01-02 12:00:00")
    exchange.hand_in("bob", when="2026-01-02 12:00:00")
    assert rows(exchange)["bob"].work == f"lab/tree/.grading/submitted/bob/{NAME}/doubling.ipynb"
    exchange.run()
    table = rows(exchange)
    with exchange.book() as book:
        graded = book.find_submission_notebook("doubling", NAME, "bob").id
    assert table["bob"].work == f"formgrader/submissions/{graded}/" and table[ME].work == ""
    assert [table[n].status for n in ("ada", "bob")] == ["in time", "late"]
    assert table["ada"].graded and table["ada"].points == sum(FULL.values()) and not table["ada"].given_back
    view = sheets.Sheets(exchange.root, None).one(NAME)
    assert (view.handed_in, view.count("graded"), view.count("waiting")) == (3, 2, 1)
    assert view.points == (sum(FULL.values()), sum(FULL.values())) and view.max_points == sum(FULL.values())
    assert [row.student for row in view.rows] == ["bob", ME, "ada"], "late before in time"


def test_members_of_the_group_are_instructors():
    """Are exactly the instructors' group's members instructors? If no group is set, are all users?"""
    ines, gus = (types.SimpleNamespace(hub_user={"groups": groups}) for groups in (["a", "x"], ["a"]))
    assert [roles.instructs(user, "x") for user in (ines, gus, object(), None)] == [True, False, False, False]
    assert roles.instructs(None, "") and roles.instructs(gus, "")


def test_written_answers_are_shared_among_graders():
    """Are each student's written answers assigned to one grader, from the student's section if there is one?
    Do the graders' shares differ by at most one, and hardly change when a student is added?"""
    students = {f"s{n:02}": ("A", "B", "")[n % 3] for n in range(60)}
    graders = {"gus": "A", "gaby": "B", "gil": "B"}
    found = shares("01_x", students, graders)
    assert found.keys() == students.keys()
    for section, pool in (("A", ["gus"]), ("B", ["gaby", "gil"]), ("", ["gaby", "gil", "gus"])):
        those = [found[student] for student, own in students.items() if own == section]
        assert sorted(set(those)) == pool
        assert max(those.count(grader) for grader in pool) <= -(-len(those) // len(pool))
    assert found == shares("01_x", dict(reversed(students.items())), dict(reversed(graders.items())))
    assert found != shares("02_x", students, graders), "not always the same students"
    later = shares("01_x", students | {"late": "B"}, graders)
    assert sum(later[student] != grader for student, grader in found.items()) <= 3
    assert shares("01_x", students, {}) == {} == shares("01_x", {}, graders)


def test_a_graders_section_and_share(exchange):
    """Does the page list the rows of a grader's own section first, and show who grades the written
    answers?"""
    people = [
        {"user": name, "role": "student", "section": section}
        for name, section in (("ada", "A"), ("bob", "B"))
    ]
    people += [
        {"user": "gus", "role": "grader", "section": "B"},
        {"user": "gaby", "role": "grader", "section": "A"},
    ]
    roster_file.write(exchange.course, people)
    for name in ("ada", "bob"):
        exchange.hand_in(name)
    exchange.run()
    view = sheets.Sheets(exchange.root, None).one(NAME)
    for row in view.rows:
        row.look = True
    assert view.ordered("gus")[0].student == "bob"
    assert view.ordered("gaby")[0].student == "ada"
    assert view.ordered("ines") == view.rows and view.student_sections == ["A", "B"]
    graders = {row.student: row.grader for row in view.rows}
    assert graders["ada"] == "gaby" and graders["bob"] == "gus" and graders[ME] in ("gus", "gaby")
    assert view.looks("gus") + view.looks("gaby") == 3
    [bob] = [row for row in view.rows if row.student == "bob"]
    assert {"look gus", "section B"} <= set(bob.facts)


def test_duration_and_progress_of_an_action(monkeypatch):
    """Does an action show its duration as text, and the latest valid progress count of its log?"""
    log = "  graded:  50%|██▌  | 1/2 [00:01<00:01]\n  graded: 100%|█████| 2/2 [00:02<00:00]\nada 3/4 [x\n"
    ended = actions.Action("Grade", "ines", 100.0, 0, log, ended=300.4)
    assert (ended.took, ended.progress) == ("3 min 20 s", (3, 4))
    assert actions.Action("Grade", "ines", 100.0, -1, "5/4 [\n").took == ""
    assert actions.Action("Grade", "ines", 100.0, -1, "5/4 [\n").progress is None
    monkeypatch.setattr(actions.time, "time", lambda: 107.0)
    running = actions.Action("Grade", "ines", 100.0, None, "")
    assert running.took == "7 s" and running.progress is None


def test_feedback_is_released_and_becomes_outdated(exchange):
    """Can students fetch feedback after its release, and is it marked as outdated once points are newer? Are
    students who cannot fetch it named?"""
    for name in ("ada", "bob"):
        exchange.hand_in(name)
    (exchange.course.folder("submitted", "ada", NAME) / "submission_secret.txt").write_text("s" * 128)
    exchange.run()
    given, failed, remarks = give.give_back(exchange.course, NAME)
    assert (given, failed) == (2, {}) and any("bob" in remark for remark in remarks)
    assert rows(exchange)["ada"].given_back and not rows(exchange)["bob"].given_back
    with exchange.book() as book:
        entries = notices.notices(exchange.course, book)
    [page] = (exchange_.course_folder(exchange.course) / "feedback").iterdir()
    since = datetime.datetime.fromtimestamp(page.stat().st_mtime, datetime.UTC).isoformat()
    assert entries["ada"][NAME] == {"given_back": since} and entries["bob"] == {}
    os.utime(page, (0, 0))
    assert not rows(exchange)["ada"].given_back
    with pytest.raises(CourseError, match="eve: not graded"):
        give.give_back(exchange.course, NAME, ["eve"])


def test_a_release_is_atomic(exchange, capsys):
    """Does releasing again change nothing if the assignment is unchanged, and replace everything otherwise?
    If the new release would leak a solution, does the old one stay?"""
    out = exchange_.course_folder(exchange.course) / "outbound"
    capsys.readouterr()
    first, again = (give.hand_out(exchange.course, NAME) for _ in range(2))
    assert f"1 file in {out / NAME}" in first and "unchanged" not in first and "unchanged" in again
    assert capsys.readouterr().out == "", "nothing about exercises/"
    before = (out / NAME / "doubling.ipynb").read_bytes()
    twin = exchange.root / "solutions" / NAME / "doubling.py"
    text = twin.read_text()
    (twin.parent / "notes.txt").write_text("### BEGIN SOLUTION")
    with pytest.raises(CourseError, match="refused"):
        give.hand_out(exchange.course, NAME)
    assert (out / NAME / "doubling.ipynb").read_bytes() == before
    (twin.parent / "notes.txt").unlink()
    twin.write_text(text.replace("# # Doubling", "# # Doubling numbers"))
    assert "released again" in give.hand_out(exchange.course, NAME)
    assert b"Doubling numbers" in (out / NAME / "doubling.ipynb").read_bytes()
    assert [p.name for p in out.iterdir()] == [NAME]


def test_a_check_that_feedback_would_show_is_not_released(exchange):
    """Does nbgrader's own release command also refuse a check with hidden tests that the feedback could not
    hide?"""
    settings = exchange.root / "nbgrader_config.py"
    settings.write_text(settings.read_text() + '\nc.ClearHiddenTests.begin_test_delimeter = "# SECRET"\n')
    twin = exchange.root / "solutions" / NAME / "doubling.py"
    twin.write_text(twin.read_text().replace("### BEGIN HIDDEN TESTS", "# SECRET"))
    course = Course(exchange.root)
    release.generate(exchange.root, NAME, exchange.root / "exercises")
    with pytest.raises(CourseError, match="double-of-others"):
        course.give(HandOut, NAME)
    assert not (exchange_.course_folder(course) / "outbound" / NAME).exists()


def test_without_an_exchange(many):
    """If there is no exchange, does the error name the missing folder and say how to fix it?"""
    many.course.config.Exchange.root = "/not/there"
    with pytest.raises(CourseError, match=r"/not/there.*Exchange\.root"):
        give.hand_out(many.course, NAME)


def test_feedback_without_an_exchange_is_written_and_its_place_is_said(many, monkeypatch, capsys):
    """If students cannot fetch feedback, is it still written, with a message about where it is and what is
    missing?"""
    (many.root / "nbgrader_site.py").write_text("c = get_config()\nc.Exchange.root = '/not/there'\n")
    for name in ("ada", "bob"):
        many.hand_in(name)
    many.run()
    monkeypatch.chdir(many.root)
    assert command.main(["give-back", "99"]) == 0
    output = capsys.readouterr().out
    assert "2 students" in output and "/not/there" in output and "Exchange.root" in output
    folder = re.search(r"(/\S+STUDENT\S*)", output)[1]
    for name in ("ada", "bob"):
        [page] = Path(folder.replace("STUDENT", name)).glob("*.html")
        assert "double-of-one" in page.read_text()
    with many.book() as book:
        assert not exchange_.given_back_at(many.course, "ada", NAME, ["doubling"])
        assert "given_back" not in str(notices.notices(many.course, book))


def test_a_notice_is_for_one_student(exchange, tmp_path):
    """Does a notice show only its student's due date? If the student has put a link in its place, is the link
    replaced and not followed? Is a folder in its place reported?"""
    own, secret = tmp_path / "people/ada", tmp_path / "secret"
    secret.write_text("the grader's")
    (own / "notice.json").symlink_to(secret)
    with exchange.book() as book:
        due_dates.set_due(book, exchange.course, NAME, "2026-01-02 00:00 UTC")
        due_dates.extend(book, exchange.course, "ada", NAME, days=1)
        due_dates.extend(book, exchange.course, "bob", NAME, days=5)
        assert notices.tell(exchange.course, book) == {}
        assert secret.read_text() == "the grader's" and not (own / "notice.json").is_symlink()
        text = (own / "notice.json").read_text()
        assert '"due": "2026-01-03T00:00:00+00:00"' in text and "bob" not in text and "01-07" not in text
        (own / "notice.json").unlink()
        (own / "notice.json").mkdir()
        assert str(own) in notices.tell(exchange.course, book)["ada"]
    assert [p.name for p in own.iterdir()] == ["notice.json"]


def test_a_restored_hub_shows_due_dates_at_once(exchange, tmp_path, caplog):
    """When the class page's server starts, does it write the notices that a restored hub lacks?"""
    folder = tmp_path / "people/ada"
    with exchange.book() as book:
        due_dates.set_due(book, exchange.course, NAME, "2026-01-02 00:00 UTC")
    assert not (folder / "notice.json").exists()
    app.tell_students(exchange.root, logging.getLogger("class page"))
    assert '"due": "2026-01-02T00:00:00+00:00"' in (folder / "notice.json").read_text()
    (exchange.root / "nbgrader_config.py").write_text("no Python")
    app.tell_students(exchange.root, logging.getLogger("class page"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_rosters_extension_holds_for_each_assignment(exchange):
    """Does the roster's extension also apply to an assignment whose due date is set later? If a student has
    two extensions, does the longer one apply?"""
    with exchange.book() as book:
        [changed] = due_dates.extend_each(book, exchange.course, {"ada": 2, "bob": 0})
        assert changed.startswith("ada: 2 days")
        assert due_dates.extend_each(book, exchange.course, {"ada": 2}) == []
        assert [rows(exchange)[name].days for name in ("ada", "bob")] == [2, 0], "also before a due date"
        due_dates.set_due(book, exchange.course, NAME, "2026-01-02 00:00 UTC")
        until = due_dates.deadlines(book, exchange.course, NAME)
        assert until("ada").day == 4 and until("bob").day == 2
        assert "until 2026-01-07" in due_dates.extend(book, exchange.course, "ada", NAME, days=5)
        assert "until 2026-01-04" in due_dates.extend(book, exchange.course, "ada", NAME, days=1)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_progress_files_of_others_are_ignored(tmp_path):
    """Are progress files ignored if they are links, belong to another user or have invalid content?"""
    folder = tmp_path / "nobody"
    folder.mkdir()
    file = folder / "progress.json"

    def said(text, owner=65534):
        file.unlink(missing_ok=True)
        file.write_text(text)
        os.chown(file, owner, owner)
        return sheets.filled(tmp_path, "nobody", NAME)

    good = f'{{"{NAME}": [1, 2]}}'
    assert said(good) == (1, 2) and said(good, owner=0) is None
    for text in (
        "",
        "[]",
        f'{{"{NAME}": [3, 2]}}',
        f'{{"{NAME}": ["<b>", 2]}}',
        f'{{"{NAME}": 1}}',
        " " * 70000,
    ):
        assert said(text) is None, text[:20]
    (tmp_path / "other").write_text(good)
    file.unlink()
    file.symlink_to(tmp_path / "other")
    assert sheets.filled(tmp_path, "nobody", NAME) is None
    assert sheets.filled(tmp_path, "nobody-like-that", NAME) is None


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"do": "rm -rf"}, "not an action"),
        ({"do": "due"}, "Enter a date"),
        ({"do": "due", "date": "2026-02-30"}, "day"),
        ({"do": "due", "date": "2026-03-29", "time": "02:30", "zone": "Europe/Berlin"}, "does not exist"),
        ({"do": "due", "date": "2026-03-29", "zone": "PST"}, "not a time zone"),
        ({"do": "extend", "days": "2"}, "Choose a student"),
        ({"do": "extend", "student": "--until", "days": "2"}, "not a student"),
        ({"do": "extend", "student": "ada", "days": "400"}, "to 366"),
        ({"do": "extend", "student": "ada", "days": "1", "date": "2026-01-09"}, "either days or a date"),
        ({"do": "extend", "student": "ada", "date": "2026-01-01"}, "not after the due date"),
    ],
)
def test_invalid_form_input_is_named(form, message):
    """Is invalid form input refused with a message before any command runs?"""
    view = sheets.Sheet(NAME, "Doubling", due=WHEN, rows=[sheets.Row("ada", "Ada")])
    empty = dict.fromkeys(("do", "date", "time", "zone", "student", "days"), "")
    with pytest.raises(actions.ActionError, match=message):
        form_commands.grade_command(view, empty | form)


def test_the_next_step_is_named():
    """At each stage from release to feedback, does the page highlight the button for the next step, and
    disable those that have nothing to do yet?"""
    row = sheets.Row("ada", "Ada")
    view = sheets.Sheet(NAME, "Doubling", rows=[row])

    def said():
        off = [do for do in form_commands.BUTTONS if form_commands.blocker(view, do)]
        return form_commands.next_step(view), off

    assert said() == ("hand-out", ["collect", "grade", "give-back", "report", "similar"])
    view.handed_out = True
    assert said() == ("", ["grade", "give-back", "report", "similar"])
    row.at, row.waiting = WHEN, True
    assert said() == ("collect", ["grade", "give-back", "report", "similar"])
    row.waiting, row.collected = False, True
    assert said() == ("grade", ["give-back", "report", "similar"])
    row.graded = True
    assert said() == ("give-back", ["similar"]), "one work alone is like no other"
    row.given_back = True
    assert said() == ("", ["similar"])
    view.rows.append(sheets.Row("bob", "Bob", collected=True))
    assert "similar" not in said()[1]


def test_an_action_is_a_process_of_its_own(many, monkeypatch):
    """Can at most one action run per assignment? Does even a restarted server show an action's output, its
    end and its failure?"""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (many.root / "nbgrader_site.py").write_text('c = get_config()\nc.Exchange.root = "/not/there"\n')
    desk = actions.Actions(many.root)
    assert desk.last(NAME) is None
    desk.start(NAME, "Due date", ["due", NAME, "2026-01-02 00:00 UTC"], "ines")
    with pytest.raises(actions.ActionError, match="Due date"):
        desk.start(NAME, "Collect", ["collect", NAME], "ines")
    assert desk.last(NAME).running and actions.Actions(many.root).last(NAME).running
    done = ended(actions.Actions(many.root))
    assert done.status == 0 and "is due 2026-01-02 00:00 UTC" in done.log and done.by == "ines"
    desk.start(NAME, "Release", ["hand-out", NAME], "ines")
    failed = ended(desk)
    assert failed.status == 1 and "/not/there" in failed.log
    assert (many.root / ".grading/actions" / NAME / "log").stat().st_mode & 0o077 == 0


def test_a_grading_that_runs_says_how_far_it_is(tmp_path):
    """Does a grading run report its progress to other processes? Is this report gone once the run has ended
    or was killed?"""
    path = tmp_path / "progress.json"
    with grading_progress.Progress(3, path=path) as shown:
        shown.done = 2
        shown.show()
        assert (grading_progress.running(path).done, grading_progress.running(path).total) == (2, 3)
        path.write_text(path.read_text().replace('"start": ', '"start": 1'))  # another process has this ID
        assert grading_progress.running(path) is None
    assert not path.exists() and grading_progress.running(path) is None


def test_a_grading_is_stopped_by_the_page(many, monkeypatch):
    """Does the page name the running submission and its limits? Does Stop keep finished results, and does the
    next run grade the other submissions?"""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    names = [f"s{n}" for n in range(6)]
    for name in names:
        many.hand_in(name, "HANG" if name > "s2" else "x = 1")
    (many.seen / "hang").touch()
    desk, path = actions.Actions(many.root), many.root / ".grading/runs" / NAME / "progress.json"
    with pytest.raises(actions.ActionError) as error:
        desk.stop(NAME, "ines")
    assert error.value.status == 409
    process, until = many.start(), time.monotonic() + 300
    while not (
        (found := grading_progress.running(path))
        and [step.student for step in found.steps] in (["s3", "s4"], ["s4", "s3"])
    ):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    view = sheets.Sheets(many.root, None).one(NAME)
    assert (view.grading.done, view.grading.total, view.step.what) == (3, 6, "code cell 1 of 2")
    assert (view.step.limit, view.step.budget) == (60, 180) and view.step.began <= time.time()
    assert "terminal" in form_commands.blocker(view, "grade")
    desk.stop(NAME, "ines")
    assert process.wait(120) == 0 and grading_progress.running(path) is None
    assert many.points() == {name: FULL for name in names[:3]}
    assert not list((path.parent / "dispatches").iterdir()), "no worker is left"
    (many.seen / "hang").unlink()
    result = many.run()
    assert (sorted(result.unchanged), sorted(result.graded), result.stopped) == (names[:3], names[3:], 0)
    assert many.points() == {name: FULL for name in names} and set(many.executed().values()) == {1}


def test_a_stopped_action_says_who_stopped_it(many, monkeypatch):
    """Does the page name the user who stopped an action, even after the action has ended?"""
    monkeypatch.setattr(actions.grading_progress, "stop", lambda path: True)
    desk = actions.Actions(many.root)
    folder = many.root / ".grading/actions" / NAME
    folder.mkdir(parents=True)
    (folder / "action.json").write_text('{"name": "Grade", "by": "ines", "began": 0}')
    with files.lock(folder / "lock"):
        desk.stop(NAME, "jan")
        assert desk.last(NAME).running and desk.last(NAME).stopped_by == "jan"
    assert not desk.last(NAME).running and desk.last(NAME).stopped_by == "jan"


def ended(desk):
    until = time.monotonic() + 120
    while (last := desk.last(NAME)).running:
        assert time.monotonic() < until
        time.sleep(0.1)
    return last


def test_people_are_sorted_like_in_a_list_of_a_class(many):
    """Are students sorted by last name, whatever the capitals and accents, and by first name among equals?"""
    people = [("Zoe", "Ångström"), ("Ben", "baker"), ("Ada", "Öztürk"), ("Cem", "Özil"), ("Ann", "Baker")]
    people += [("Eve", "Zorn"), ("Max", "Ázul"), ("Liu", "")]
    with many.book() as book:
        for n, (first, last) in enumerate(people):
            book.add_student(f"s{n}", first_name=first, last_name=last)
    rows = sheets.Sheets(many.root, None).one(NAME).rows
    names = "Liu, Zoe Ångström, Max Ázul, Ann Baker, Ben baker, Cem Özil, Ada Öztürk, Eve Zorn"
    assert [row.name for row in rows] == names.split(", ")
