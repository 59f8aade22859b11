"""A fake autograder that runs nothing and gives full points, to test the code around it.

Words in a notebook change how it is graded. AGAIN reports an infrastructure failure, BROKEN raises an
exception, CRASH kills the grading process, and HALF fails the last check. STARVED reaches a limit unless its
process has a single worker and has graded nothing else. HANG waits while the file `hang` exists in $STANDIN,
the folder where each grading leaves a file. A file `slow` in this folder delays each grading, and a file
`again` makes each grading report an infrastructure failure.
"""

import copy
import os
import signal
import tempfile
import time
from pathlib import Path


class Verdict(dict):
    """A verdict as plain data."""

    def to_json(self):
        return dict(self)


class Engine:
    """A fake Engine that gives full points for each check, unless a notebook contains one of these words."""

    def __init__(self, package, workers):
        self.workers, self.graded = workers, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def grade(self, notebook, files, on_step=lambda what, limit, budget: None, seed=0):
        on_step("code cell 1 of 2", 60, 180)
        text = "".join(cell.source for cell in notebook.cells)
        seen = os.environ.get("STANDIN")
        self.graded += 1
        starved = "STARVED" in text and (self.workers > 1 or self.graded > 1)
        if "CRASH" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "BROKEN" in text:
            raise OSError("no space left on device")
        if seen and (Path(seen) / "slow").exists():
            time.sleep(0.3)
        while "HANG" in text and (Path(seen) / "hang").exists():
            time.sleep(0.05)
        if seen:
            tempfile.mkstemp(prefix=f"{files.parent.parent.name}-", dir=seen)
        again = "AGAIN" in text or bool(seen and (Path(seen) / "again").exists())
        graded = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
        worth = {cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points for cell in graded}
        passed = {"error": "", "kind": "", "hidden": False}
        checks = {name: passed | {"score": points} for name, points in worth.items()}
        if "HALF" in text:
            error = "AssertionError: it is 9, which is not the expected value. Likely: it was tripled."
            checks[list(worth)[-1]] |= {"score": 0.0, "error": error, "kind": "value"}
        return Verdict(
            outcome="again" if again or starved else "graded",
            alone=starved,
            why="the machine is tired" if again else "",
            checks=checks,
            notebook=copy.deepcopy(notebook),
            seconds=0.5,
            seed=seed,
            files=sorted(path.name for path in files.iterdir()),
        )
