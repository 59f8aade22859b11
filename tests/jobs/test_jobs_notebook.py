"""Jobs as a student uses them: in a notebook's cells, and after a restart of its kernel."""

from xml.etree import ElementTree

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

pytestmark = pytest.mark.notebook

FIRST = [
    "from cluster import submit, jobs\nfrom cluster.jobs import log",
    "RATE = 0.5\ndef half(x):\n    return x * RATE",
    "def work(steps, wrong=False):\n"
    "    import time\n"
    "    for step in range(steps):\n"
    "        log(step=step + 1, steps=steps, loss=half(step))\n"
    "        time.sleep(0.2)\n"
    "    if wrong:\n"
    "        raise ValueError('wrong shape')\n"
    "    return half(steps)",
    "job = submit(work, 4)\njob.wait()",
    "job.result()",
    "submit(work, 4).result()",
    "submit(work, 1, wrong=True).result()",
    "submit(work, steps=2, memroy='2G')",
    "submit(work, 3).watch()",
    "def late(steps):\n"
    "    import os, time\n"
    "    while not os.path.exists('go'):\n"
    "        time.sleep(0.05)\n"
    "    return half(steps)",
    "long = submit(late, 25)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
]
SECOND = [
    "from cluster import attach, jobs\njob = jobs(active=True)[0]\nprint(job.status)",
    "open('go', 'w').close()\njob.result()",
]


def execute(cells, folder):
    """Return the outputs of each cell, executed in a separate kernel that works in `folder`."""
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    client = NotebookClient(nb, timeout=240, allow_errors=True, resources={"metadata": {"path": str(folder)}})
    try:
        client.execute()
    except DeadKernelError:
        assert "SIGKILL" in cells[-1]
    return [cell.outputs for cell in nb.cells]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_BACKEND", "local")
        patch.delenv("CLUSTER_RUNS", raising=False)
        return execute(FIRST, folder), execute(SECOND, folder)


def test_nothing_is_written_to_stderr(outputs):
    """Do these cells leave stderr empty? nbgrader gives no points for a graded cell that writes to it."""
    assert not [o for cells in outputs for out in cells for o in out if o.get("name") == "stderr"]


def test_waiting_shows_one_bar_and_then_the_card(outputs):
    bar, card = outputs[0][3][1:]
    assert all(part in bar.data["text/plain"] for part in ("work: done", "100 %", "4 of 4"))
    assert "done" in card.data["text/html"] and "4 of 4" in card.data["text/html"]


def test_watching_leaves_one_display_with_the_last_picture(outputs):
    *_, shown = outputs[0][8]
    assert sum(out.output_type == "display_data" for out in outputs[0][8]) == 1
    page = ElementTree.fromstring(shown.data["text/html"])
    assert {e.tag for e in page.iter()} <= {"div", "b", "span", "table", "tr", "td", "img"}
    assert "from 0 at 1 to 1 at 3" in page.find("img").get("alt")
    assert "done" in shown.data["text/plain"] and "3 of 3 steps" in shown.data["text/plain"]


def test_results_are_shown_and_replayed(outputs):
    assert outputs[0][4][-1].data["text/plain"] == "2.0"
    replay = outputs[0][5]
    assert "rerun=True" in replay[0].text and replay[1].data["text/plain"] == "2.0"


def test_errors_are_the_message_and_the_students_own_lines(outputs):
    error = outputs[0][6][-1]
    assert error.ename == "RankFailed" and "line 7, in work" in error.evalue
    assert "raise ValueError('wrong shape')" in error.evalue
    assert "cluster/jobs" not in "".join(error.traceback)
    misspelt = outputs[0][7][-1]
    assert misspelt.ename == "OptionError" and "'memory'" in misspelt.evalue


def test_a_job_outlives_its_kernel(outputs):
    assert outputs[1][0][0].text == "running\n"
    assert outputs[1][1][-1].data["text/plain"] == "12.5"
