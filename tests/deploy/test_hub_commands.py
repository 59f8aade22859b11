"""Test the hub's commands without starting a hub: responses to an administrator's mistakes, and the states
that `status` distinguishes."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.staff import services
from cluster.staff.hub import __main__ as hub_commands
from cluster.staff.hub import (
    backup,
    daemons,
    hub_settings,
    hub_status,
    roster,
    start_hub,
    stop_hub,
    units,
    users,
)
from cluster.staff.hub import state as states
from cluster.staff.hub.hub_settings import HubError, Settings
from cluster.staff.one_machine_slurm import description
from cluster.system import processes

from .. import ROOT
from .hub import ports

HEAD = "name,user,role,extension\n"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root starts and stops a hub")


# --- the roster ---------------------------------------------------------------------------------------


def test_all_bad_lines_of_a_roster_are_named_at_once():
    """Are all faults of a roster reported at once, with line number and value, and is each rule stated only
    once?"""
    lines = ["Ada,Ada!,tutor,", "Ben,ben,student,", "Cem,123,student,", "Dora,ben,student,-1", "Eve,eve"]
    with pytest.raises(HubError) as caught:
        roster.people_in(HEAD + "\n".join(lines) + "\n", "people.csv")
    first, *rest = str(caught.value).splitlines()
    assert "people.csv" in first
    output = [re.match(r"  line (\d): .*?('.*?'|$)", line).groups() for line in rest]
    named = ["'Ada!'", "'tutor'", "'123'", "'-1'", "'ben'", "''"]
    assert output == list(zip("224556", named, strict=True))
    assert str(caught.value).count(roster.USERS) == 1


USERS = {"ada": True, "ada.example": True, "s1234567": True, "_a-b": True, "a" * 32: True}
USERS |= {"123": False, "1ada": False, ".ada": False, "-ada": False, "a" * 33: False, "a b": False, "": False}
USERS |= {"Ada": False, "ä": False, "a/b": False, "a+b": False}


@pytest.mark.parametrize("user", USERS)
def test_one_rule_for_users(user):
    """Does the roster accept a user name if and only if it satisfies the rule in the error message?"""
    text = HEAD + f'Ada,"{user}",student,\n'
    if USERS[user]:
        assert roster.people_in(text)[0].user == user
        assert description.from_values({"students": [user]}).students == (user,), "Slurm takes it, too"
        return
    with pytest.raises(HubError) as caught:
        roster.people_in(text)
    assert f"user = {user!r}: {roster.USERS}" in str(caught.value)


@as_root
def test_a_user_with_a_dot_can_be_made(tmp_path, monkeypatch):
    """Do this system's useradd and related commands accept a user name with a dot? Are these commands run
    only if necessary?"""
    user = f"t{os.getpid() % 100000}.x-1"
    assert roster.USER.fullmatch(user)
    book = users.Accounts(tmp_path, tmp_path)
    try:
        assert book.ensure(roster.Person("A", user, "student"))
        assert users.acting(user, os.getuid) == users.unix_user(user).pw_uid == book.all()[user]
        assert book.lock(user) and users.is_locked(user) and not book.lock(user)
        assert not book.ensure(roster.Person("A", user, "student")) and not users.is_locked(user)
        with monkeypatch.context() as here:
            here.setattr(users, "_do", lambda *command, given="": pytest.fail(" ".join(command)))
            assert not book.ensure(roster.Person("A", user, "student"))
        assert users.unix_user(user).pw_dir == str(tmp_path / user)
    finally:
        book.remove()
    assert users.unix_user(user) is None


# --- before anything is built -------------------------------------------------------------------------


@pytest.fixture
def course():
    """Yield the folder of a course repository that `start` accepts, closed to students."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for name in ("nbgrader_config.py", "solutions", "lectures", "cluster/__init__.py"):
            Path(folder, name).mkdir(parents=True)
        yield Path(folder)


@pytest.fixture
def place():
    """Yield a folder where `start` accepts a state folder."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def people(folder, *lines):
    (folder / "people.csv").write_text(HEAD + "".join(f"{line}\n" for line in lines))
    return folder / "people.csv"


def test_users_of_the_system_are_found_before_anything_is_made(place, course):
    """Before anything is created, are system users and the grader's own user on the roster reported with
    their line numbers? Are users that the hub created accepted, even if they have the names of system
    users?"""
    state, free = place / "hub", ports(5)
    rows = ["Ada,ada-who-is-not,student,", "R,root,student,", "D,daemon,instructor,", "N,nobody,student,"]
    listed = people(place, *rows, "G,course-grader,instructor,")
    with pytest.raises(HubError) as caught:
        start_hub.check(Settings(port=free), state, course, listed)
    text = str(caught.value)
    assert re.findall(r"line (\d): user = '([a-z-]+)'", text) == [
        ("3", "root"),
        ("4", "daemon"),
        ("5", "nobody"),
        ("6", "course-grader"),
    ]
    assert not state.exists()
    state.mkdir()
    (state / "accounts.json").write_text('{"daemon": 1}')
    listed = people(place, "Ada,ada-who-is-not,student,", "D,daemon,instructor,")
    assert len(start_hub.check(Settings(port=free), state, course, listed)) == 2


@pytest.mark.servers
def test_the_check_needs_no_package(place, course):
    """Does `start --check` run without installed packages, report invalid settings and rosters, and create
    nothing?"""

    def checked(*args):
        argv = [sys.executable, "-S", "-E", "-m", "cluster.staff.hub", "start", "--check", *map(str, args)]
        result = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)
        assert "Traceback" not in result.stderr, result.stderr
        return result.returncode, result.stderr

    (place / "wrong.toml").write_text("prot = 8000\nservers = 0\n")
    (place / "right.toml").write_text(f"port = {ports(5)}\n")
    state = ["--state", place / "hub"]
    listed = people(place, "Ada,ada-who-is-not,student,")
    code, text = checked(*state, "--roster", listed, "--settings", place / "wrong.toml")
    assert code == 1 and "port?" in text and "servers = 0" in text
    code, text = checked(*state, "--settings", place / "right.toml")
    assert code == 1 and (roster.EXAMPLE in text or os.getuid())
    code, text = checked(*state, "--roster", people(place, "R,root,student,"))
    assert code == 1 and "line 2: user = 'root'" in text
    good = ["--course", course, "--roster", people(place, "Ada,ada-who-is-not,student,")]
    code, text = checked(*good, "--state", "/tmp/hub")
    assert code == 1 and "/tmp/hub" in text
    assert checked(*good, *state, "--settings", place / "right.toml") == (0, "")
    assert not (place / "hub").exists() and not Path("/tmp/hub").exists()


@as_root
def test_make_looks_before_it_builds(place):
    """If the roster is missing, or the roster or a setting is invalid, does `make hub` stop before it creates
    an environment?"""
    (place / "hub.toml").write_text("port = 80\n")
    for command, output in [
        ([f"ROSTER={people(place, 'R,root,student,')}"], "line 2: user = 'root'"),
        (
            [
                f"ROSTER={people(place, 'R,root,student,')}",
                f"HUB_ARGS=--slurm --settings {place}/hub.toml",
            ],
            "port = 80 ",
        ),
        ([], roster.EXAMPLE),
    ]:
        argv = ["make", "hub", f"VENV={place}/venv", f"STATE={place}/hub", *command]
        result = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=60)
        assert result.returncode and output in result.stdout + result.stderr, result.stdout + result.stderr
        assert not (place / "venv").exists() and not (place / "hub").exists()


def test_ports_in_use_are_named(tmp_path, monkeypatch):
    """Does the error name all of the hub's five ports that other programs use, and suggest other ports? Are
    ports accepted that the hub's own parts use, or that a hub without official checks does not need?"""
    monkeypatch.setattr(services, "CLOSING", 0.2)
    port = ports(5)
    with contextlib.ExitStack() as stack:
        for number in (port + 1, port + 3, port + 4):
            stack.enter_context(socket.create_server(("127.0.0.1", number)))
        with pytest.raises(HubError) as caught:
            start_hub.check_ports(Settings(port=port), tmp_path)
        text = str(caught.value)
        assert re.findall(r"127\.0\.0\.1:(\d+)", text) == [f"{port + n}" for n in (1, 3, 4)]
        [command] = re.findall("`(ss .*?)`", text)
        if shutil.which("ss"):
            listed = subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout
            assert all(f"127.0.0.1:{one}" in listed for one in (port + 1, port + 3))
        services.process_ledger(tmp_path).put("proxy", processes.identify(os.getpid()))
        with pytest.raises(HubError, match=rf":{port + 3}: "):
            start_hub.check_ports(Settings(port=port, checks=0), tmp_path)
        services.process_ledger(tmp_path).put("hub", processes.identify(os.getpid()))
        start_hub.check_ports(Settings(port=port), tmp_path)


# --- stopped, or dead ---------------------------------------------------------------------------------


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Yield a state folder as `start` leaves it. The hub has two parts, `proxy` and `hub`, which are sleeping
    processes."""
    state = tmp_path / "hub"
    state.mkdir()
    about = {"settings": hub_settings.as_values(Settings(grader="nobody-like-that")), "root": "/"}
    (state / states.RECORD).write_text(json.dumps(about))
    parts = [
        services.Daemon(name, ["sleep", "600"], {}, state / f"{name}.out", lambda: True)
        for name in ("proxy", "hub")
    ]
    monkeypatch.setattr(daemons, "all_daemons", lambda settings, state: parts)
    monkeypatch.setattr(daemons, "services", lambda settings, state: [])
    monkeypatch.setattr(hub_status.course_files, "exchange_troubles", lambda *words: [])
    monkeypatch.setattr(daemons, "api", lambda *words: SimpleNamespace(users=list))
    ledger = services.process_ledger(state)
    for part in parts:
        ledger.put(part.name, processes.spawn(part.argv, {"PATH": os.environ["PATH"]}, part.log))
    yield state
    processes.end(list(services.process_ledger(state).all().values()))


@as_root
def test_died_is_not_stopped(started, monkeypatch):
    """Does `status` return 1, which makes the watch restart the hub, if some or all parts are dead? Does it
    return 3 and show the date if the hub was stopped on purpose?"""
    assert hub_status.report(started)[0] == 0
    ledger = services.process_ledger(started)
    for name in ("hub", "proxy"):
        processes.end([ledger.all()[name]])
        code, text = hub_status.report(started)
        assert code == 1 and re.search(rf"{name} +dead", text), text
    for name in ("hub", "proxy"):  # as after a `start` that failed at its first part
        ledger.drop(name)
    assert hub_status.report(started)[0] == 1
    stop_hub.stop_hub(started, lambda line: None)
    code, text = hub_status.report(started)
    assert code == 3 and re.search(r"hub +stopped", text) and "dead" not in text
    assert time.strftime("%Y-%m-%d") in text
    assert states.settings(started).grader == "nobody-like-that"
    monkeypatch.setattr(daemons, "missing", lambda: None)
    with pytest.raises(HubError, match=r"people\.csv"):  # as at boot, after a stop during shutdown
        start_hub.start_hub(states.settings(started), started, started, started / "people.csv")
    assert hub_status.report(started)[0] == 1


@as_root
def test_an_interrupted_stop_counts_as_a_stop(started, monkeypatch):
    """If `stop` is interrupted, does `status` name the remaining processes? Does it return 3, so that the
    watch does not restart the hub?"""
    monkeypatch.setattr(stop_hub, "_end", lambda *words: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        stop_hub.stop_hub(started, lambda line: None)
    code, text = hub_status.report(started)
    assert code == 3 and "proxy, hub" in text.splitlines()[-1]


@pytest.mark.parametrize(("code", "calls"), [(0, ""), (1, "reload-or-restart course-hub.service\n"), (3, "")])
def test_the_watch_repairs_dead_parts_but_not_stopped_ones(tmp_path, code, calls):
    """If parts are dead, does the watch call `systemctl reload-or-restart`, which also starts an inactive
    unit? Does it leave a running or stopped hub alone?"""
    unit = units.unit_files(ROOT, Path("/var/lib/hub"), tmp_path)["course-hub-watch.service"]
    line = re.search(r"^ExecStart=(.*)$", unit, re.M)[1].replace("$$", "$")
    command = line.replace(f"{sys.executable} -m cluster.staff.hub status", f"exit_{code}")
    assert command != line
    for name, text in {
        f"exit_{code}": f"exit {code}",
        "systemctl": f'echo "$@" >>{tmp_path}/calls',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "calls").touch()
    subprocess.run(["sh", "-c", command], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    assert (tmp_path / "calls").read_text() == calls


@as_root
def test_a_stop_of_no_hub_is_an_error(tmp_path, capsys):
    """If no hub was started in a folder, do `stop` and `stop --purge` report this and keep the folder's
    content? If the folder does not exist, does `stop` suggest the option --state?"""
    (tmp_path / "home").mkdir()
    for more in ([], ["--purge", "--yes"]):
        assert hub_commands.main(["stop", "--state", str(tmp_path), *more]) == 1
        assert str(tmp_path) in capsys.readouterr().err
    assert hub_commands.main(["stop", "--state", str(tmp_path / "none")]) == 1
    assert "--state" in capsys.readouterr().err
    assert (tmp_path / "home").is_dir()


# --- a backup of what was restored --------------------------------------------------------------------


def test_what_was_restored_can_be_backed_up_and_restored(tmp_path):
    """Can a backup be restored twice if it contains an inbound folder from an earlier restore? Does the
    result contain the submissions of both inbound folders?"""
    root, exchange, kept = tmp_path / "course", tmp_path / "exchange", tmp_path / "kept"
    root.mkdir()
    for name in ("grading/inbound-of-backup/ada+1", "exchange/inbound/ada+1", "exchange/inbound/ben+2"):
        (kept / name).mkdir(parents=True)
        (kept / name / "work").write_text(name)
    for name in backup.OURS:
        (kept / "exchange" / name).mkdir()
        (exchange / name).mkdir(parents=True)
    file = tmp_path / "backup.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for part in ("grading", "exchange"):
            tar.add(kept / part, part)
    for _ in range(2):
        before = root / f".grading.before-{_}"
        with open(file, "rb") as f:
            backup._replace(f, root, exchange, {"book": backup.BOOK}, b"book", before)
        grading = root / ".grading"
        results = {p.parent.name: p.read_text() for p in grading.glob("inbound-of-backup/*/work")}
        assert results == {"ada+1": "grading/inbound-of-backup/ada+1", "ben+2": "exchange/inbound/ben+2"}
        assert (grading / backup.BOOK).read_bytes() == b"book" and not (root / ".grading.restored").exists()
    assert (root / ".grading.before-1").is_dir()


def test_the_settings_of_the_readme_are_settings(tmp_path):
    """Do all settings in the README's example exist and have valid values?"""
    readme = (ROOT / "cluster/staff/hub/README.md").read_text()
    text = next(
        block for block in re.findall(r"^```toml\n(.*?)^```", readme, re.S | re.M) if "servers" in block
    )
    text = text.replace("/etc/course/hub.py", str(ROOT / "nbgrader_config.py"))
    (tmp_path / "hub.toml").write_text(text.partition("[lti]")[0])
    assert hub_settings.from_toml(tmp_path / "hub.toml").servers == Settings().servers
