"""Outputs for the graded notebook: from a student's process only what nbformat allows, up to a size."""

from __future__ import annotations

import json
from typing import Any

import nbformat
from nbformat import NotebookNode

from cluster.system.text import encodable_tree

MOST = 1000  # outputs of one cell
DEEPEST = 30  # lists and dicts within each other
LARGEST = 20_000  # values in one output: each is looked at several times, in Python


class Outputs:
    """Counts the bytes of all cells together."""

    def __init__(self, room: int):
        self.room, self.cut, self.replaced = 2 * room, False, False

    def take(self, message: Any) -> list[NotebookNode]:
        """The outputs in a student's message, less what is none and what does not fit."""
        found = message.get("outputs") if isinstance(message, dict) else None
        if not isinstance(found, list):
            return []
        self.cut = self.cut or bool(message.get("cut")) or len(found) > MOST
        kept = []
        for output in found[:MOST]:
            if not (small := of_few_parts(output)):
                self.cut = self.cut or small is None
                continue
            self.room -= len(json.dumps(output))
            if self.room < 0:
                self.cut = True
                break
            if isinstance(output, dict):
                kept += self.valid(output)
        return kept

    def of_check(self, printed: str, error: str) -> list[NotebookNode]:
        """The outputs of a check: what it printed, and its error."""
        printed, error = self.encodable(printed), self.encodable(error)
        found = [nbformat.v4.new_output("stream", name="stdout", text=printed)] if printed else []
        if error:
            kind, _, text = error.partition(": ")
            found.append(nbformat.v4.new_output("error", ename=kind, evalue=text, traceback=[error]))
        return found

    def valid(self, output: Any) -> list[NotebookNode]:
        """[output] if nbformat says that it is one, else []; text that is in no encoding is replaced."""
        try:
            node = nbformat.from_dict(self.encodable(output))
            nbformat.validate(node, ref="output", version=4, version_minor=5)
        except Exception:  # whatever a forged output brings up
            return []
        return [node]

    def encodable(self, value: Any) -> Any:
        """The value with each text as every file takes it."""
        made = encodable_tree(value)
        self.replaced = self.replaced or made != value
        return made


def of_few_parts(value: Any) -> bool | None:
    """Can this be copied, checked and written at once? False if nested too deep, None with too many parts."""
    level, count = [value], 0
    for _ in range(DEEPEST):
        count += len(level)
        if count > LARGEST:
            return None
        level = [
            item
            for one in level
            if isinstance(one, dict | list)
            for item in (one.values() if isinstance(one, dict) else one)
        ]
    return not level
