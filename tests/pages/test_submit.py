"""Submitting: what the exchange and the cache contain afterwards, including after a full disk."""

import os
import signal
import subprocess
import sys

import pytest

from cluster.pages import hand_in, receipts
from cluster.staff.hub import course_files

COURSE = "course"
SUBMIT = """
import os, resource, signal, sys
from nbgrader.auth import Authenticator
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config
from cluster.pages.nbgrader_submit import Submit

c = Config()
c.CourseDirectory.course_id, c.CourseDirectory.assignment_id = "course", "01_loops"
c.Exchange.root, c.Exchange.cache, c.Exchange.assignment_dir = sys.argv[1:4]
if sys.argv[4] == "killed":
    Submit.set_perms = lambda self, dirname, **modes: os.kill(os.getpid(), signal.SIGKILL)
elif sys.argv[4] != "0":
    limit = int(sys.argv[4])
    copy = Submit.write_copy
    def write_copy(self, target, secret):
        full = str(target).startswith(sys.argv[5])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit if full else -1, -1))
        try:
            copy(self, target, secret)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    Submit.write_copy = write_copy
Submit(coursedir=CourseDirectory(config=c), authenticator=Authenticator(config=c), config=c).start()
"""


@pytest.fixture
def exchange(tmp_path):
    """An exchange with one released assignment, which has been fetched."""
    for name in ("inbound", "outbound", "feedback"):
        (tmp_path / "exchange" / COURSE / name).mkdir(parents=True)
    (tmp_path / "exchange").chmod(0o777)
    for folder in (tmp_path / "exchange" / COURSE / "outbound", tmp_path / "work"):
        (folder / "01_loops").mkdir(parents=True)
        (folder / "01_loops" / "loops.ipynb").write_text("x" * 60_000)
    return tmp_path


def submit(top, full="", killed=False):
    """Submit once in a separate process. full: the folder whose disk counts as full, which limits files to
    40,960 bytes.

    killed: whether the process is killed before the copy in the exchange gets its name.
    """
    command = [sys.executable, "-c", SUBMIT, *(str(top / name) for name in ("exchange", "cache", "work"))]
    command += ["killed" if killed else "40960" if full else "0", str(top / full)]
    env = os.environ | {"HOME": str(top), "JUPYTER_CONFIG_DIR": str(top / "none")}
    return subprocess.run(command, cwd=top, env=env, capture_output=True, text=True, timeout=300)


def arrived(top):
    """Return {name: size of its notebook in bytes} for the exchange's inbound folder, including unfinished
    copies."""
    inbound = top / "exchange" / COURSE / "inbound"
    return {path.name: (path / "loops.ipynb").stat().st_size for path in inbound.iterdir()}


def test_a_submission_and_its_receipt(exchange):
    """Is a submission in the exchange and in the cache, with a timestamp and a receipt that lists its
    files?"""
    done = submit(exchange)
    assert done.returncode == 0, done.stderr
    (name,) = arrived(exchange)
    there = exchange / "exchange" / COURSE / "inbound" / name
    assert there.stat().st_mode & 0o777 == 0o777 and (there / "loops.ipynb").stat().st_mode & 0o777 == 0o644
    (submission,) = receipts.hand_ins(exchange / "cache", "01_loops")
    assert submission.exact and [row[0] for row in receipts.files(submission)] == ["loops.ipynb"]
    for file in ("timestamp.txt", "submission_secret.txt", "loops.ipynb"):
        assert (there / file).read_bytes() == (submission.folder / file).read_bytes()
    assert submission.folder.name == name.rpartition("+")[0]


@pytest.mark.parametrize(
    ("full", "message"),
    [("exchange", receipts.COURSE_FULL), ("cache", hand_in.in_words("unknown"))],
)
def test_a_full_disk_leaves_the_previous_submission(exchange, full, message):
    """If the exchange's disk or the student's own is full, do the exchange and the cache remain unchanged?
    Does the message name the right disk?
    """
    assert submit(exchange).returncode == 0
    before, cached = arrived(exchange), sorted(path.name for path in (exchange / "cache").rglob("*"))
    done = submit(exchange, full)
    assert done.returncode != 0
    assert hand_in.in_words(done.stderr).startswith(message), done.stderr
    assert arrived(exchange) == before
    assert sorted(path.name for path in (exchange / "cache").rglob("*")) == cached
    assert len(receipts.hand_ins(exchange / "cache", "01_loops")) == 1


def test_a_submission_that_was_killed_leaves_nothing_for_long(exchange):
    """If submitting is killed, does the incomplete copy have a name that is never collected, and is it
    removed when the same student submits again?
    """
    assert submit(exchange, killed=True).returncode == -signal.SIGKILL
    (half,) = arrived(exchange)
    assert half.startswith(".") and half.endswith(".partial")
    assert submit(exchange).returncode == 0
    (name,) = arrived(exchange)
    assert "+01_loops+" in name and not list((exchange / "cache" / COURSE).glob("*.partial"))


def test_the_hub_removes_what_was_left_of_others(tmp_path):
    """Does the hub's `start` remove old incomplete copies, but no recent ones and no submissions, without
    following links?
    """
    inbound, elsewhere = tmp_path / "exchange" / COURSE / "inbound", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("")
    for name in (".old.partial", ".new.partial", "ada+01_loops+2026"):
        (inbound / name / "runs").mkdir(parents=True)
        (inbound / name / "link").symlink_to(elsewhere)
    (inbound / ".link.partial").symlink_to(elsewhere)
    os.utime(inbound / ".old.partial", (1, 1))
    os.utime(inbound / "ada+01_loops+2026", (1, 1))
    os.utime(inbound / ".link.partial", (1, 1), follow_symlinks=False)
    course_files.remove_cut_off(inbound)
    assert {path.name for path in inbound.iterdir()} == {".new.partial", "ada+01_loops+2026", ".link.partial"}
    assert (elsewhere / "kept").exists()
