"""Atomic files and locks, which all packages use for writing."""

import os
import subprocess
import sys

import pytest

from cluster.system import files


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "result.npz"
    path.write_bytes(b"old")
    with files.writing(path, sync=True) as f:
        f.write(b"new, ")
        f.flush()
        assert path.read_bytes() == b"old"
        f.write(b"and whole")
    assert path.read_bytes() == b"new, and whole" and os.listdir(tmp_path) == ["result.npz"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "result.npz"
    path.write_bytes(b"old")
    with pytest.raises(type(error)), files.writing(path) as f:
        f.write(b"half")
        raise error
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["result.npz"]


def write(path):
    with files.writing(path, sync=True) as f:
        f.write(b"new")


def move(path):
    (made := path.with_name("made")).write_bytes(b"new")
    files.move_into_place(made, path)


@pytest.mark.parametrize("put", [write, move])
def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, put):
    """Is a file synced before it is renamed, and the folder afterwards?"""
    calls, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(os.fstat(fd).st_ino) or fsync(fd))
    monkeypatch.setattr(os, "replace", lambda *paths: calls.append("replace") or replace(*paths))
    put(tmp_path / "result")
    inode, folder = (path.stat().st_ino for path in (tmp_path / "result", tmp_path))
    assert calls == [inode, "replace", folder]


def test_the_permissions_are_those_that_were_asked_for(tmp_path):
    before = os.umask(0o077)
    try:
        files.write(tmp_path / "shared", "", mode=0o644)
        files.write(tmp_path / "own", "")
    finally:
        os.umask(before)
    assert [(tmp_path / n).stat().st_mode & 0o777 for n in ("shared", "own")] == [0o644, 0o600]


HOLDER = """
import sys
from pathlib import Path
from cluster.system import files
held = files.hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_held_for_as_long_as_its_file_is_open_anywhere(tmp_path):
    """If a process passes a lock's open file to another, does the lock hold until both have closed it?"""
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        assert files.is_held(path) and files.is_held(path)
        with files.lock(path, wait=False) as got:
            assert not got
        other.communicate("")
    assert not files.is_held(path)
    held = files.hold(path)
    child = subprocess.Popen(["sleep", "60"], pass_fds=[held.fileno()])
    held.close()
    assert files.is_held(path)
    child.kill()
    child.wait()
    with files.lock(path, wait=False) as got:
        assert got and files.is_held(path)
    assert not files.is_held(path)
