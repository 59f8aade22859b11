"""Does the solution of each unit that submits jobs run on the project's own Slurm, as a student would run it?

Each notebook is executed from the first cell to the last, in a copy of its folder. Slurm queues, starts and
ends its jobs, and all visible tests must pass. The hidden tests are left out: students do not have them, and
some need the autograder. A unit takes minutes, so only `make test-all` runs these tests.
"""

import re
import shutil

import jupytext
import pytest
from nbclient import NotebookClient

from cluster.slurm import client
from cluster.system import files

from .. import ALL, ROOT

SUBMITS = re.compile(r"\b(submit|jobs\.map)\(")
HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS$.*?^### END HIDDEN TESTS$", re.M | re.S)
SOLUTIONS = sorted(p for p in (ROOT / "solutions").glob("*/*.py") if SUBMITS.search(p.read_text()))

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.ranks,  # the trial runs of assignments 07 and 10 start ranks on this machine
    pytest.mark.skipif(not ALL, reason="minutes per unit: make test-all (CLUSTER_TEST_ALL=1)"),
]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("twin", SOLUTIONS, ids=lambda p: p.parent.name[:2])
def test_a_solution_runs_on_slurm(cluster, twin, tmp_path, monkeypatch):
    cluster.enter(monkeypatch)
    for name in ("CLUSTER_BACKEND", "CLUSTER_RUNS"):
        monkeypatch.delenv(name, raising=False)
    client.forget()
    folder = shutil.copytree(twin.parent, tmp_path / twin.parent.name)
    notebook = jupytext.read(twin)
    for cell in notebook.cells:
        cell.source = HIDDEN.sub("", cell.source)
    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()
    wrote = [files.read_json(path) for path in folder.rglob("backend.json")]
    assert wrote and {job["backend"] for job in wrote} == {"slurm"}


def test_the_units_that_submit_jobs_are_all_found():
    assert [p.parent.name[:2] for p in SOLUTIONS] == ["05", "07", "08", "10"]
