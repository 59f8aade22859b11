"""Validate, Check, Submit and grading agree about a notebook in each of its possible states."""

import pytest

from .. import ALL
from . import states
from .sandboxes import need

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]
WITNESSES = [
    "one answer wrong in hidden tests only",
    "additional last cell: `forward = time.time() - t0`",
    "no cell has nbgrader's metadata",
    "notebook renamed",
    "check of a wrong answer deleted",
    "not JSON",
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    need()
    with states.desk(tmp_path_factory.mktemp("states")) as instance:
        yield instance


@pytest.mark.parametrize("name", states.STATES if ALL else WITNESSES)
def test_all_places_agree(desk, name):
    """Do Validate, Check, Submit and grading agree about this state, with the expected points?"""
    result = desk.examine(name)
    assert (result.grading, result.disagreements()) == (states.STATES[name][0], [])
