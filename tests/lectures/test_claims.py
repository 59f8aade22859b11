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
    ("change", "message"),
    [
        ({"shown": ["tests/lectures/test_claims_arithmetic.py::test_gone"]}, "which is not there"),
        ({"shown": ["lectures/text/01_convolution_as_gemm.py#9.9 Gone"]}, "which is not there"),
        ({"shown": ["lectures/text/99_gone.py"]}, "which is not there"),
        ({"shown": []}, "shown by nothing"),
        ({"status": "not yet"}, "is 'not yet' and is shown by"),
        ({"shown": [], "status": "out of reach", "note": ""}, "has no note"),
        ({"status": "out of reach", "note": "a GPU"}, "is 'out of reach' and is shown by"),
        ({"status": "proven"}, "status 'proven' is not one of"),
        ({"lecture": "12"}, "is not one of 01 to 11"),
        ({"source": "005"}, "is not listed in [sources]"),
        ({"notes": ""}, "has no field notes"),
    ],
)
def test_a_broken_row_is_named(change, message):
    data = copy.deepcopy(DATA)
    whole = next(c for c in data["claim"] if c["status"] == "reproduced")
    whole |= change
    result = claims.faults(data)
    assert len(result) == 1 and message in result[0] and whole["says"][:20] in result[0]
