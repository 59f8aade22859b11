"""Tests that share daemons run in one worker, and a test starts only what its marks declare."""

import itertools
import os
import re
import subprocess
import sys

import pytest

from cluster.jobs import errors, submit

from . import ALL, ROOT, marks


@pytest.mark.skipif(not ALL, reason="runs pytest in pytest: make test-all")
def test_several_workers_give_one_result():
    """With several workers, is there one summary, with test IDs that pytest accepts? Do tests that share a
    module's fixture run in the same worker?
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n2",
        "--dist=loadgroup",
        "-vv",
    ]
    command += ["-rA", "tests/training/test_data.py", "tests/jobs/test_jobs_results.py"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and "passed" in lines[-1]
    names = [line.split()[1] for line in lines if line.startswith("PASSED")]
    assert len(names) == int(re.search(r"(\d+) passed", lines[-1])[1]) and not any("@" in n for n in names)
    shared = ("test_the_test_split_is_fashion_mnist", "test_limit_takes_the_first")  # share a fixture
    passed = [line for line in lines if line.startswith("[gw") and "PASSED" in line]
    workers = [line.split()[0] for line in passed if line.split("::")[1].startswith(shared)]
    assert len(workers) == 2 and len(set(workers)) == 1
    assert {line.split()[0] for line in passed} == {"[gw0]", "[gw1]"}


class Item:
    """A fake test item with the attributes that marks.py uses."""

    nodeid = "test_x.py::test_x"

    def __init__(self, *names):
        self.names = names

    def iter_markers(self):
        return [getattr(pytest.mark, name).mark for name in self.names]


@pytest.mark.parametrize("mark, program", [("slurm", "slurmd"), ("servers", "jupyterhub")])
def test_what_is_started_has_its_mark(tmp_path, mark, program):
    """If a test without the required mark starts a daemon, does the error name the mark? Can a test with the
    mark start it?
    """
    (tmp_path / program).write_text("#!/bin/sh\n")
    (tmp_path / program).chmod(0o755)
    for item in (Item(), Item("ranks")):
        with marks.held_to_its_marks(item), pytest.raises(AssertionError, match=f"mark it {mark}$"):
            subprocess.run([tmp_path / program])
    for item in (Item(mark), Item("hub")):
        with marks.held_to_its_marks(item):
            subprocess.run([tmp_path / program], check=True)


def test_commands_of_the_course_are_known():
    """Is a command that starts a daemon by `python -m` distinguished from a status query and from a command
    that only contains a daemon's name?
    """
    needs = {
        "python -m cluster.staff.one_machine_slurm start --state x": {"slurm"},
        "python -m cluster.staff.one_machine_slurm status": set(),
        "python -m cluster.staff.hub start": {"servers"},
        "python lectures/build.py 01 --check": {"notebook"},
        "grep -r slurmd_ .": set(),
    }
    assert {line: marks.missing(line.split(), set()) for line in needs} == needs


def test_ranks_have_their_mark(tmp_path):
    """Is a job of two ranks refused in a test that is not marked `ranks`?"""
    with pytest.raises(errors.TooManyRanks, match="2 ranks"):
        submit(print, ranks_per_node=2, backend="local", folder=tmp_path)


def test_groups(request):
    """If a test has marks from two rows of GROUPS, does it belong to the first row's group?"""
    assert marks.group(request.node) is None
    for first, second in itertools.pairwise(marks.GROUPS):
        item = Item(marks.GROUPS[second][0], marks.GROUPS[first][0])
        assert marks.group(item) == first
