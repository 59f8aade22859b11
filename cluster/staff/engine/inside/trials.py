"""Provided functions that depend on student code, in a separate process from the notebook's.

They are created from the source of the cells (`rank_sandbox.notebook`), as in the ranks. Names that a blank
binds come from the blank, even if other cells bind them, too. If all blanks are unsolved, no student code
runs.
"""

from __future__ import annotations

import select
import sys
from typing import Any

from ..sandbox import namespaces
from .channel import Channel, Message
from .rank_sandbox import explained, notebook
from .student import Server, limit, warm_ranks, within


def main(fds: list[int]) -> None:
    channel = Channel.of_this_process()
    sys.displayhook, sys.excepthook = sys.__displayhook__, sys.__excepthook__
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    channel.send({"hello": True})
    task = channel.receive_task()
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
    """Answer the test process with the functions `known` (by name) of a task."""

    def __init__(self, channel: Channel, known: dict[str, Any], task: Message):
        super().__init__(channel, known)
        self.task = task

    def call(self, request: Message) -> Message:
        with explained(self.task["provided"], self.task["cells"]):
            return super().call(request)
