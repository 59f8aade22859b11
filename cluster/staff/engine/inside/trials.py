"""The functions of given cells that need the student's: run apart from the notebook's process.

What a check calls here is made from the text of the cells (`ranks.notebook`), as ranks make theirs. The
names that a blank binds are the blank's, whatever other cells do with them: if all blanks are unsolved, no
statement of the student's runs here.
"""

from __future__ import annotations

import select
import sys
from typing import Any

from ..sandbox import namespaces
from .channel import Channel
from .messages import NotebookTask
from .ranks import explained, notebook
from .student import Server, limit, warm_ranks, within


def main(fds: list[int]) -> None:
    channel = Channel.of_this_process()
    sys.displayhook, sys.excepthook = sys.__displayhook__, sys.__excepthook__
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    channel.send({"hello": True})
    task = channel.receive()
    limit(**task["limits"])
    namespaces.deny_own_kill()
    if "tensorflow" in sys.modules:
        warm_ranks()
    select.select([channel.source], [], [])
    known = {}
    with within(task["cell"]):
        known = notebook(task["provided"], task["cells"])
    TrialServer(channel, known, task).serve()


class TrialServer(Server):
    """Answers the test process with the functions of a task (a NotebookTask) that are `known` by name."""

    def __init__(self, channel: Channel, known: dict[str, Any], task: NotebookTask):
        super().__init__(channel, known)
        self.task = task

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        with explained(self.task["provided"], self.task["cells"]):
            return super().call(request)


if __name__ == "__main__":
    main(list(map(int, sys.argv[1:])))
