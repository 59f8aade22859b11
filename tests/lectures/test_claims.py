"""The claims table: each reference in it exists, each status is consistent, and the generated table is up to
date.
"""

import copy
import subprocess
import sys
import tomllib

import pytest

from .. import ROOT
from ..modules import module_of

claims = module_of("lectures/claims.py")

DATA = tomllib.loads(claims.DATA.read_text())


def test_no_row_is_broken_and_the_table_is_current():
    done = subprocess.run(
        [sys.executable, "lectures/claims.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(DATA["claim"])


@pytest.mark.parametrize("deck", ["000", "001", "002", "003", "004"])
def test_every_deck_has_rows(deck):
    assert [c for c in DATA["claim"] if c["source"] == deck]


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ({"shown": ["tests/lectures/test_claims_arithmetic.py::test_gone"]}, "test_gone"),
        ({"shown": ["lectures/text/01_convolution_as_gemm.py#9.9 Gone"]}, "9.9 Gone"),
        ({"shown": ["lectures/text/99_gone.py"]}, "99_gone.py"),
        ({"shown": []}, "nothing"),
        ({"status": "not yet"}, "'not yet'"),
        ({"shown": [], "status": "out of reach", "note": ""}, "no note"),
        ({"status": "out of reach", "note": "a GPU"}, "shown by"),
        ({"status": "proven"}, "'proven'"),
        ({"lecture": "12"}, "'12'"),
        ({"source": "005"}, "'005'"),
        ({"notes": ""}, "field notes"),
    ],
)
def test_a_broken_row_is_named(change, value):
    """Is a row with one fault the only one that is reported, with the faulty value?"""
    data = copy.deepcopy(DATA)
    row = next(c for c in data["claim"] if c["status"] == "reproduced")
    row |= change
    [fault] = claims.faults(data)
    assert value in fault and row["says"][:20] in fault
