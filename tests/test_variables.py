"""A test that leaves a changed environment fails, and the next test does not see the change."""

import os
import subprocess
import sys

import pytest

from . import ROOT, variables

NAME = "A_VARIABLE_OF_THE_TESTS"


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("after", [None, "new"])
def test_what_is_left_in_the_environment_is_an_error(before, after):
    """If a variable is set, changed or removed, does the error name it, and is its earlier value restored?"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME, before) if before else patch.delenv(NAME, raising=False)
        if before == after:
            with variables.kept("this test"):
                pass
            return
        text = f"this test leaves .* of {NAME}:"
        with pytest.raises(AssertionError, match=text), variables.kept("this test"):
            os.environ.update({NAME: after}) if after else os.environ.pop(NAME)
        assert os.environ.get(NAME) == before


LEAVES = """
import os

import pytest


@pytest.fixture(scope="module", autouse=True)
def {0}_module():
    os.environ["{1}_OF_A_MODULE"] = "left"


def test_{0}_leaves():
    assert "A_OF_A_TEST" not in os.environ and ("A_OF_A_MODULE" in os.environ) == ({0!r} == "a")
    os.environ["{1}_OF_A_TEST"] = "left"


def test_{0}_is_next():
    assert "{1}_OF_A_TEST" not in os.environ
"""


def test_the_hooks_find_a_test_and_a_module_that_leave_a_variable(tmp_path):
    """If a test or a module leaves a changed variable, do the hooks report one error for it and restore the
    variable before the next test or module?
    """
    hooks = "environment, pytest_runtest_setup, pytest_runtest_teardown"
    (tmp_path / "conftest.py").write_text(f"from tests.conftest import {hooks}\n")
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(LEAVES.format(name, name.upper()))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=env | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert "4 passed, 4 errors" in done.stdout, done.stdout
    for name in ("A_OF_A_TEST", "B_OF_A_TEST", "A_OF_A_MODULE", "B_OF_A_MODULE"):
        assert f"in os.environ of {name}:" in done.stdout, name
