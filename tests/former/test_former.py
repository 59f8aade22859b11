"""A run that an earlier version recorded (commit 607bdd3, by `train.py`) can still be read.

The run's files that contain paths (job.sh, call.pkl) are left out.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .. import ROOT

HERE = Path(__file__).parent
RUN = "former-37839cb28984"


def test_a_former_run_is_found_and_not_run_anew(tmp_path):
    """Does the function still have the same cache key? Are result, metrics, output and state of its run
    read?"""
    shutil.copytree(HERE / "runs", tmp_path / "runs")
    before = {path: path.read_bytes() for path in (tmp_path / "runs" / RUN).iterdir()}
    done = subprocess.run(
        [sys.executable, HERE / "train.py", "runs"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.partition("FOUND ")[2])
    assert found == {
        "result": {"steps": 3, "loss": 1.0},
        "loss": [4.0, 2.0, 1.0],
        "logs": "--- rank 0\ntrained 3 steps",
        "folder": RUN,
        "jobs": [[RUN, "done"]],
    }
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()] == [RUN]
    assert {path: path.read_bytes() for path in before} == before
