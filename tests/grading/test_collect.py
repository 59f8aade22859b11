"""Submissions are collected from a folder that students can write to, and manipulated ones are refused."""

import datetime
import json
import os
import pwd
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from cluster.staff import work_files
from cluster.staff.course import Course, CourseError
from cluster.staff.hub import users
from cluster.staff.services import HubError
from cluster.staff.submissions import collect, exchange

NAME = "99_doubling"
ME = pwd.getpwuid(os.getuid()).pw_name


class Inbox:
    """An inbound folder, and a course that collects from it."""

    def __init__(self, course, folder):
        self.course, self.folder = Course(course), folder
        folder.mkdir()

    def submit(self, student=ME, time="2001-01-01 00:00:00 UTC", text="{}", extra=""):
        target = self.folder / f"{student}+{NAME}+{time}{extra}"
        target.mkdir()
        (target / "doubling.ipynb").write_text(text)
        (target / "timestamp.txt").write_text(time)
        return target

    def collect(self, **more):
        return collect.collect(self.course.coursedir, NAME, self.folder, **more)

    def submitted(self, student=ME):
        return self.course.folder("submitted", student, NAME)


@pytest.fixture
def inbox(course, tmp_path):
    return Inbox(course, tmp_path / "inbound")


def test_the_servers_time_and_nothing_for_others(inbox):
    """Is a forged submission time ignored? Is the collected copy private, whatever permissions the submission
    had?"""
    target = inbox.submit()
    (target / "runs").mkdir()
    (target / "runs" / "run.json").write_text("1")
    for path in (target, *target.rglob("*")):
        path.chmod(0o777)
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    new, same, refused, _ = inbox.collect()
    assert list(new) == [ME] and not same and not refused and new[ME].when > before
    when = inbox.course.coursedir.get_existing_timestamp(str(inbox.submitted()))
    assert abs(when - new[ME].when.replace(tzinfo=None)) < datetime.timedelta(seconds=1)
    for path in (inbox.submitted().parent, inbox.submitted(), *inbox.submitted().rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (inbox.submitted() / "runs" / "run.json").read_text() == "1"
    assert inbox.collect()[1] == [ME]


def test_the_newest_submission_on_time_counts(inbox):
    """Does a later submission replace the first, unless only the first was on time?"""
    inbox.submit(text="first")
    first = inbox.collect()[0][ME]
    while datetime.datetime.now(datetime.UTC) <= first.when + datetime.timedelta(milliseconds=50):
        pass
    inbox.submit(time="1999-01-01 00:00:00 UTC", text="second")
    limit = first.when.replace(tzinfo=None) + datetime.timedelta(milliseconds=20)
    assert inbox.collect(due=lambda student: limit)[1] == [ME]
    assert list(inbox.collect()[0]) == [ME] and (inbox.submitted() / "doubling.ipynb").read_text() == "second"


def later():
    """Wait until the clock has advanced visibly."""
    time.sleep(0.02)


@pytest.mark.parametrize("how", ["removed", "linked", "overwritten by the older one"])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_collected_submission_is_not_replaced_by_an_older_one(inbox, how, legacy):
    """If a student withdraws the newest submission after it was collected, does it stay?"""
    inbox.submit(text="older")
    later()
    newer = inbox.submit(time="2002-01-01 00:00:00 UTC", text="newer")
    assert inbox.collect().new[ME].folder == newer
    facts = json.loads((inbox.submitted() / "received.json").read_text())
    if legacy:
        for name in ("digest", "seen"):
            facts.pop(name)
        (inbox.submitted() / "received.json").write_text(json.dumps(facts))
    if how == "removed":
        shutil.rmtree(newer)
    elif how == "linked":
        os.link(newer / "doubling.ipynb", inbox.folder / "link")
    else:
        shutil.rmtree(newer)
        newer.mkdir()
        os.utime(newer)
        (newer / "doubling.ipynb").write_text("older")
    for _ in range(2):
        new, same, _, notes = inbox.collect()
        assert not new and same == [ME] and newer.name in notes[ME][0]
        assert (inbox.submitted() / "doubling.ipynb").read_text() == "newer"
        assert json.loads((inbox.submitted() / "received.json").read_text())["received"] == facts["received"]
    later()
    newest = inbox.submit(time="2003-01-01 00:00:00 UTC", text="newest")
    assert inbox.collect().new[ME].folder == newest


@pytest.mark.parametrize("collected_again", [1, 3])
def test_a_change_of_permissions_leaves_time_and_order(inbox, collected_again):
    """An administrator's `chmod -R` changes the times of all folders, in any order. Does each keep the time
    at which its files were received? Does a change of its files make it a new submission?"""
    older = inbox.submit(text="older")
    later()
    newer = inbox.submit(time="2002-01-01 00:00:00 UTC", text="newer")
    when = inbox.collect().new[ME].when
    due = when.replace(tzinfo=None)
    for _ in range(collected_again):
        later()
        for folder in (newer, older):
            for path in (folder, *folder.rglob("*")):
                path.chmod(0o700)
        new, same, _, notes = inbox.collect(due=lambda student: due)
        assert not new and same == [ME] and len(notes[ME]) == 2
        assert json.loads((inbox.submitted() / "received.json").read_text())["received"] == when.isoformat()
        assert not inbox.collect().notes
    later()
    (older / "doubling.ipynb").write_text("changed afterwards")
    assert inbox.collect(due=lambda student: due).same == [ME]
    new = inbox.collect().new[ME]
    assert new.when > when and (inbox.submitted() / "doubling.ipynb").read_text() == "changed afterwards"


def test_what_a_due_date_replaces_is_kept(inbox):
    """If the due date makes an earlier submission count, is the later one kept?"""
    first = inbox.submit(text="on time")
    on_time = collect.examine(first, NAME, True).when.replace(tzinfo=None)
    later()
    inbox.submit(time="2002-01-01 00:00:00 UTC", text="late")
    assert (inbox.collect().new[ME].folder) != first
    assert inbox.collect(due=lambda student: on_time).new[ME].folder == first
    kept = list((inbox.course.private / "replaced").rglob("doubling.ipynb"))
    assert [path.read_text() for path in kept] == ["late"]


def test_a_folder_with_too_many_files_is_collected_without_them(inbox, monkeypatch):
    """Are the notebook, recorded runs and the assignment's own files taken, and is the rest named?"""
    monkeypatch.setattr(work_files, "MOST", 20)
    (inbox.course.root / "exercises" / NAME).mkdir(parents=True, exist_ok=True)
    (inbox.course.root / "exercises" / NAME / "data.csv").touch()
    made = inbox.submit(text="{}")
    for name in (
        "venv/lib/x.py",
        "runs/a/run.json",
        "data.csv",
        "helper.py",
        *(f"venv/{i}" for i in range(30)),
    ):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("1")
    new, _, refused, notes = inbox.collect()
    assert not refused and new[ME].left_out == ("helper.py", "venv") and "venv" in notes[ME][0]
    names = {path.relative_to(inbox.submitted()).as_posix() for path in inbox.submitted().rglob("*.*")}
    assert names == {"doubling.ipynb", "runs/a/run.json", "data.csv", "timestamp.txt", "received.json"}
    assert inbox.collect().same == [ME]
    for i in range(30):
        (made / f"runs/{i}").write_text("1")
    assert "20" in inbox.collect().refused[made.name]


@pytest.mark.parametrize("state", ["no timestamp", "empty timestamp", "still being written"])
def test_an_incomplete_submission_replaces_no_complete_one(inbox, state):
    """If the latest submission is truncated or still being written, does the last complete one count?"""
    inbox.submit(text="complete")
    assert list(inbox.collect()[0]) == [ME]
    cut = inbox.submit(time="2030-01-01 00:00:00 UTC", text="cut o")
    if state == "empty timestamp":
        (cut / "timestamp.txt").write_text("")
    else:
        (cut / "timestamp.txt").unlink()
    if state == "still being written":
        cut.rename(cut.with_name(f".{cut.name}"))
    new, same, refused, _ = inbox.collect()
    assert (new, same) == ({}, [ME])
    assert (inbox.submitted() / "doubling.ipynb").read_text() == "complete"
    assert list(refused) == [cut.name] * (state != "still being written")
    assert all("timestamp.txt" in why for why in refused.values())


def link(made, secret):
    (made / "x").symlink_to(secret)


def folder_link(made, secret):
    (made / "runs").symlink_to(secret.parent)


def second_name(made, secret):
    os.link(secret, made / "x")


def pipe(made, secret):
    os.mkfifo(made / "x")


def as_link(made, secret):
    aside = made.rename(made.with_name("aside"))
    made.symlink_to(aside)


@pytest.mark.parametrize("trick", [link, folder_link, second_name, pipe, as_link])
def test_tricks_are_refused(inbox, tmp_path, trick):
    """Is a submission refused completely if it contains a link or a special file?"""
    secret = tmp_path / "secret"
    secret.write_text("the solutions")
    trick(inbox.submit(), secret)
    new, _, refused, _ = inbox.collect()
    assert not new and len(refused) == 1 and not inbox.submitted().exists()


def test_the_owner_is_the_student(inbox):
    """Is a submission refused if it does not belong to the student in its name, unless the owner check is
    switched off?"""
    inbox.submit("ada")
    new, _, refused, _ = inbox.collect()
    [why] = refused.values()
    assert not new and "ada" in why and ME in why
    assert list(inbox.collect(check_owner=False)[0]) == ["ada"]


@pytest.mark.skipif(os.getuid() != 0, reason="gives files away")
def test_a_file_of_anothers_is_refused(inbox):
    """Is a submission refused if it contains another user's file?"""
    os.chown(inbox.submit() / "doubling.ipynb", 65534, 65534)
    assert "nobody" in next(iter(inbox.collect()[2].values()))


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "-x"])
def test_invalid_folder_names_are_refused(inbox, name):
    """Is a submission refused if its folder's name does not begin with a valid user name?"""
    inbox.submit(name)
    assert not inbox.collect(check_owner=False)[0]


def test_nbgraders_own_command_obeys_the_same_rules(inbox, tmp_path, monkeypatch):
    """Does Formgrader's Collect button refuse a submission with a link, as `grade collect` does? Does it name
    a folder that the grader cannot enter?"""
    from nbgrader.apps.api import NbGraderAPI

    inbox.course.config.Exchange.root = str(tmp_path / "exchange")
    folder = tmp_path / "exchange" / inbox.course.coursedir.course_id / "inbound"
    folder.parent.mkdir(parents=True)
    inbox.folder.rename(folder)
    inbox.folder = folder
    inbox.submit()
    (inbox.submit("ada") / "x").symlink_to("/etc/passwd")
    answer = NbGraderAPI(inbox.course.coursedir, config=inbox.course.config).collect(NAME)
    assert answer["success"] and "1 collected, 0 unchanged, 1 refused" in answer["log"], answer
    assert inbox.submitted().is_dir() and not inbox.submitted("ada").exists()
    monkeypatch.setattr(exchange, "shut", lambda path: f"{path} is shut")
    answer = NbGraderAPI(inbox.course.coursedir, config=inbox.course.config).collect(NAME)
    assert not answer["success"] and answer["log"].startswith(f"[CRITICAL] {folder} is shut")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("closed", ["exchange", "exchange/course", "exchange/course/inbound"])
def test_what_keeps_the_grader_out_is_named(closed):
    """If a folder of the exchange is closed to the grader, does the error name the folder and the grader? Can
    the grader collect if all folders are open?"""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        inbox = Path(top, "exchange/course/inbound")
        inbox.mkdir(parents=True)
        os.chmod(top, 0o755)
        assert users.acting("nobody", lambda: exchange.shut(inbox)) == ""
        assert users.acting("nobody", lambda: collect.found(inbox, NAME)) == [[], {}]
        os.chmod(f"{top}/{closed}", 0o700)
        with pytest.raises(HubError, match=f"CourseError: {top}/{closed} .*nobody"):
            users.acting("nobody", lambda: collect.found(inbox, NAME))


def test_a_missing_inbound_folder_is_reported(inbox, tmp_path):
    """Does the error for a missing inbound folder name the option that sets this folder?"""
    with pytest.raises(CourseError, match="--inbox"):
        collect.collect(inbox.course.coursedir, NAME, tmp_path / "none")
