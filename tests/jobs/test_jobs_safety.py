"""Many users on one machine: other users' files are neither run nor trusted, and no shell interprets any
text."""

import json
import os
import pickle
import py_compile
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import cluster
from cluster.doctor import checkup
from cluster.doctor.findings import Report
from cluster.jobs import attach, errors, submit
from cluster.jobs.run import layout, private
from cluster.jobs.run.run_folder import Run
from cluster.system import files

from . import programs

OTHER = 12345  # the ID of another user
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make what belongs to another user")


def one():
    return 1


def modes(folder):
    return {p.name: stat.S_IMODE(p.stat().st_mode) for p in (folder.parent, folder)}


@pytest.fixture
def open_umask():
    """Set a umask that lets all users read and write new files."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run that has ended."""
    return submit(one, folder=tmp_path_factory.mktemp("runs"), backend="local").wait().folder


@pytest.fixture
def recorded(original, runs):
    """A copy of the `original` run in the folder of runs."""
    runs.mkdir(mode=0o700)
    return attach(shutil.copytree(original, runs / original.name))


def test_folders_are_private_whatever_the_umask(backend, open_umask, tmp_path):
    """Are the folder of runs and the job's folder private, even while the job is being created?"""
    job = submit(one, folder=tmp_path / "runs")
    assert modes(job.folder) == {"runs": 0o700, job.id: 0o700}
    assert job.result() == 1 and modes(job.folder) == {"runs": 0o700, job.id: 0o700}
    assert not list((tmp_path / "runs").glob(".new-*"))


@as_root
def test_another_user_sees_nothing_of_a_run(recorded, tmp_path):
    for folder in [*tmp_path.parents][:-1]:
        if stat.S_IMODE(folder.stat().st_mode) == 0o700:  # a folder of pytest
            folder.chmod(0o711)
    tmp_path.chmod(0o711)
    recorded.folder.parent.chmod(0o755)
    for path in (recorded.folder, recorded.folder / "code.py", recorded.folder / "call.pkl"):
        tried = subprocess.run(["cat", str(path)], user=OTHER, capture_output=True, text=True)
        assert tried.returncode and "Permission denied" in tried.stderr


class Evil:
    """An object that runs a command when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def planted(folder, run, trace):
    """Create a run's folder as another user might: with a successful run, and a pickle that runs code."""
    folder.mkdir(parents=True)
    files.write_json(folder / "run.json", run)
    (folder / "call.pkl").write_bytes(pickle.dumps(Evil(trace)))
    (folder / "job.sh").write_text(f"#!/bin/bash\nmkdir {trace}\n")
    files.write_json(folder / "backend.json", {"backend": "local", "host": "here", "pid": 1})
    (folder / "result-0.json").write_text("666")
    end = {"ending": "Done", "what": "Done.", "next_step": "", "started": 1, "ended": 2}
    files.write_json(folder / "end.json", end | {"hashes": Run(folder).hashes(), "ranks": []})
    for path in (folder, *folder.iterdir()):
        os.chown(path, OTHER, OTHER)


@as_root
@pytest.mark.parametrize("how", ["folder", "link to it", "link to a run of mine"])
def test_an_injected_run_is_neither_run_nor_reused(recorded, tmp_path, how):
    """If another user who knows a run's cache key has created a run under its name, is that run refused, and
    none of its code executed?"""
    runs, trace = recorded.folder.parent, tmp_path / "trace"
    place = runs / recorded.id
    os.rename(place, tmp_path / "mine")
    if how == "folder":
        planted(place, recorded.spec, trace)
    else:
        planted(tmp_path / "theirs", recorded.spec, trace)
        place.symlink_to(tmp_path / ("theirs" if how == "link to it" else "mine"))
        os.lchown(place, OTHER, OTHER)
    for use in (lambda: submit(one), lambda: submit(one, rerun=True), lambda: attach(place)):
        with pytest.raises(errors.NotYours, match=f"{place} .*{OTHER}.*\n→ .*copy"):
            use()
    assert cluster.jobs().unreadable[0][0] == place.name and not len(cluster.jobs())
    env = os.environ | {"CLUSTER_LAUNCHER": "local", "CLUSTER_RANK": "0", "CLUSTER_LAYOUT": "1"}
    rank = subprocess.run(
        [sys.executable, "-P", "-m", "cluster.jobs.rank.main", str(place)],
        env=env,
        capture_output=True,
        text=True,
    )
    assert rank.returncode == 1 and "NotYours" in rank.stderr and not trace.exists()
    assert how == "link to a run of mine" or not (place / "out-0.log").exists()


def test_a_link_of_mine_to_another_run_is_not_taken_for_this_one(recorded, tmp_path):
    """If a run's folder is a link to another run, is the run refused?"""
    other = submit(programs.counts_calls, str(tmp_path / "calls")).wait()
    os.rename(recorded.folder, tmp_path / "aside")
    recorded._run.path.symlink_to(other.folder)
    with pytest.raises(errors.Damaged, match=recorded.id):
        submit(one)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_job_folder_that_others_can_write_to_is_not_loaded(recorded, mode):
    if mode == 0o770:
        os.chown(recorded.folder, -1, 1)  # a group that other users belong to
    recorded.folder.chmod(mode)
    with pytest.raises(errors.NotYours, match=f"{recorded.folder}.*\n→ .*chmod"):
        attach(recorded.folder)
    recorded.folder.chmod(0o755)  # read access is harmless
    assert attach(recorded.folder).result() == 1


@as_root
@pytest.mark.parametrize("how", ["its owner", "its link", "its mode", "a group", "a folder above"])
def test_a_folder_of_runs_that_others_can_fill_is_refused(tmp_path, monkeypatch, how):
    """If CLUSTER_RUNS is below a folder such as /tmp, and another user created or can change a part of its
    path, is it refused, and is nothing written there?"""
    monkeypatch.setenv("CLUSTER_BACKEND", "local")
    above = tmp_path / "shared"
    above.mkdir()
    above.chmod(0o1777)
    runs = above / "runs"
    (tmp_path / "other").mkdir()
    if how == "its link":
        runs.symlink_to(tmp_path / "other")
        os.lchown(runs, OTHER, OTHER)
    else:
        runs.mkdir()
        runs.chmod({"its mode": 0o1777, "a group": 0o775}.get(how, 0o755))
        os.chown(runs, OTHER if how == "its owner" else -1, 1)
    if how == "a folder above":
        above.chmod(0o777)
    monkeypatch.setenv("CLUSTER_RUNS", str(runs))
    for use in (lambda: submit(one), cluster.jobs, lambda: attach("one")):
        with pytest.raises(errors.NotYours) as caught:
            use()
        assert str(runs) in caught.value.what
        assert "CLUSTER_RUNS" in caught.value.next_step or "chmod" in caught.value.next_step
    report = Report()
    checkup._folder(report, slurm=False)
    assert report.item("runs").mark == "bad" and str(runs) in report.item("runs").finding
    assert not list(runs.iterdir())


def test_a_folder_of_ones_own_under_one_for_all_serves(tmp_path, monkeypatch):
    """Is a folder of runs below a shared folder accepted if the shared folder's sticky bit prevents users
    from replacing others' files, or if the working directory is in the shared folder?"""
    tmp_path.chmod(0o1777)
    assert private.check_runs(tmp_path / "runs") == tmp_path / "runs"
    (tmp_path / "runs").mkdir(mode=0o755)
    assert private.check_runs(tmp_path / "runs")
    tmp_path.chmod(0o777)
    with pytest.raises(errors.NotYours):
        private.check_runs(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    assert private.check_runs(tmp_path / "runs")
    tmp_path.chmod(0o755)


@as_root
@pytest.mark.parametrize("opened", ["the file", "the folder above"])
def test_a_pickle_that_others_can_write_is_not_loaded(recorded, opened):
    """Is a run's pickle refused if other users can write to the file, or to the folder that contains the
    run's folder?"""
    assert (recorded.folder / "call.pkl").stat().st_mode & 0o777 == 0o600
    recorded.folder.chmod(0o755)
    path = recorded.folder / "call.pkl" if opened == "the file" else recorded.folder.parent
    before = path.stat().st_mode
    path.chmod(before | 0o666 if opened == "the file" else 0o777)
    try:
        with pytest.raises(errors.NotYours, match="chmod"):
            private.check_folder(recorded.folder)
            private.read_file(recorded.folder, "call.pkl")
    finally:
        path.chmod(before)
        recorded.folder.chmod(0o700)


@as_root
def test_what_is_checked_is_what_is_read(recorded, tmp_path):
    """Is a file in a run's folder refused if it is a link or belongs to another user? Is a named pipe read as
    empty?"""
    path = recorded.folder / "call.pkl"
    kept = private.read_file(recorded.folder, "call.pkl")
    assert kept == path.read_bytes()
    os.chown(path, OTHER, -1)
    with pytest.raises(errors.NotYours, match=r"call\.pkl belongs to user 12345"):
        private.read_file(recorded.folder, "call.pkl")
    path.unlink()
    path.symlink_to(tmp_path / "anything")
    with pytest.raises(OSError):
        private.read_file(recorded.folder, "call.pkl")
    path.unlink()
    os.mkfifo(path)
    assert private.read_file(recorded.folder, "call.pkl") == b""


def test_an_injected_cache_of_a_module_is_not_used(runs, tmp_path, monkeypatch):
    """If an injected .pyc file is marked as valid without a check of its source, do ranks still use the
    submitted source?"""
    (tmp_path / "planted.py").write_text("K = 3\n")
    (tmp_path / "evil.py").write_text("K = 666\n")
    target = Path(py_compile.compile(str(tmp_path / "planted.py")))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(tmp_path / "evil.py"), cfile=str(target), invalidation_mode=unchecked)
    monkeypatch.chdir(tmp_path)
    assert subprocess.check_output([sys.executable, "-c", "import planted; print(planted.K)"]) == b"666\n"
    (tmp_path / "main.py").write_text("import planted, json\nprint(json.dumps(planted.K))\n")
    job = submit(tmp_path / "main.py").wait()
    assert job.logs(0) == "3\n"


HOSTILE = "-x $(touch gone) `touch gone` \"a\" 'b' ; touch gone & # %j %% ü→ *"
SCRIPT = """
import json, os, sys
from pathlib import Path
print(json.dumps([sys.argv[1:], os.environ["HOSTILE"], Path.cwd().name, Path(__file__).name]))
"""


def test_hostile_texts_come_through_whole_and_reach_no_shell(backend, tmp_path, monkeypatch):
    """Are names, paths, arguments, variables and options preserved with all characters that are special to a
    shell or to Slurm?"""
    here = tmp_path / HOSTILE
    here.mkdir()
    monkeypatch.chdir(here)
    script = here / f"{HOSTILE}.py"
    script.write_text(SCRIPT)
    arguments = [
        HOSTILE,
        "--rerun",
        "",
        "a\\b\\",
        "two\nlines",
        "\n#SBATCH --comment=evil\n",
        "$(touch gone)",
        "-rf /",
    ]
    variable = f"{HOSTILE}\n$(touch gone)\n"
    job = submit(
        script, *arguments, name=HOSTILE, folder=here / HOSTILE, env={"HOSTILE": variable},
        sbatch={"comment": HOSTILE},
    )  # fmt: skip
    assert job.wait(120).result() is None
    assert json.loads(job.logs(0)) == [arguments, variable, HOSTILE, f"{HOSTILE}.py"]
    assert job.folder.parent == here / HOSTILE and not list(tmp_path.rglob("gone"))
    assert attach(job.id, folder=here / HOSTILE).status == "done"
    text = job.script("slurm")
    heads = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    assert "evil" not in text and "#SBATCH --job-name=x-touch-gone-touch-gone-a-b-touch-gone-j" in heads


@pytest.mark.parametrize("name", ["two\nlines", "a\0b", "\x1b[31m", "", "x" * 201])
def test_texts_on_more_than_one_line_are_refused(runs, name):
    for options in ({"name": name}, {"partition": name}, {"sbatch": {"comment": name}}):
        with pytest.raises(errors.OptionValueError):
            submit(one, **options)
    assert not runs.exists()


@pytest.mark.parametrize("name", ["two\nlines", "a\u2028b", "\udcff", "a\\b"])
def test_a_folder_that_slurm_cannot_take_is_refused(tmp_path, monkeypatch, name):
    """Is a folder refused if its path contains a line break, a backslash or invalid UTF-8? (Slurm lists
    working directories one per line, and interprets a backslash in a log's name.)"""
    monkeypatch.setenv("CLUSTER_BACKEND", "local")
    with pytest.raises(errors.OptionValueError, match="Slurm"):
        submit(one, folder=tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_name_of_a_function_is_any_text(runs):
    """Is any function name shown unchanged, while script and folder names contain only permitted
    characters?"""

    def f():
        return 2

    f.__name__ = "x\n#SBATCH --account=root\n$(touch gone)"
    job = submit(f)
    assert job.result() == 2 and "account" not in job.script("slurm").replace("x-SBATCH-account-root", "")
    assert job.folder.name.startswith("x-SBATCH-account-root-touch-gone-")


def test_runs_of_read_only_lectures_are_in_the_home(tmp_path, monkeypatch):
    """If the lectures' folder is read-only, as on a course server, are runs stored in the home folder? Is
    another folder that was named explicitly used as given?"""
    lectures, home = tmp_path / "course" / "lectures", tmp_path / "home"
    lectures.mkdir(parents=True)
    monkeypatch.chdir(lectures)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(layout.os, "access", lambda path, mode: "course" not in Path(path).parts)
    for name in ("runs", "../runs"):
        monkeypatch.setenv("CLUSTER_RUNS", name)
        assert layout.root() == home / "runs"
        assert layout.root(name) == lectures / name
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "course" / "absent"))
    assert layout.root() == tmp_path / "course" / "absent"
    (lectures / "runs").mkdir()  # recorded runs, which are only read
    monkeypatch.delenv("CLUSTER_RUNS")
    assert layout.root() == lectures / "runs"
