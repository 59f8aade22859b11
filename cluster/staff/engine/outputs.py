"""Outputs of the graded notebook: the valid ones from a student process, up to a total size."""

from __future__ import annotations

import json
from typing import Any

import nbformat
from nbformat import NotebookNode

from cluster.system.text import encodable_tree

MOST = 1000  # maximum outputs per cell
DEEPEST = 30  # maximum levels of nested lists and dicts
LARGEST = 20_000  # maximum values in one output; Python code visits each of them several times


class Outputs:
    """Accept outputs until all cells together have used up their bytes."""

    def __init__(self, room: int):
        self.room, self.cut, self.replaced = 2 * room, False, False

    def take(self, message: Any) -> list[NotebookNode]:
        """Return the outputs in a student's message, without invalid ones and those that do not fit."""
        outputs = message.get("outputs") if isinstance(message, dict) else None
        if not isinstance(outputs, list):
            return []
        self.cut = self.cut or bool(message.get("cut")) or len(outputs) > MOST
        accepted = []
        for output in outputs[:MOST]:
            if not (small := of_few_parts(output)):
                self.cut = self.cut or small is None
                continue
            self.room -= len(json.dumps(output))
            if self.room < 0:
                self.cut = True
                break
            if isinstance(output, dict):
                accepted += self.valid(output)
        return accepted

    def of_check(self, printed: str, error: str) -> list[NotebookNode]:
        """Return the outputs of a check: the printed text and the error."""
        printed, error = self.encodable(printed), self.encodable(error)
        outputs = [nbformat.v4.new_output("stream", name="stdout", text=printed)] if printed else []
        if error:
            kind, _, text = error.partition(": ")
            outputs.append(nbformat.v4.new_output("error", ename=kind, evalue=text, traceback=[error]))
        return outputs

    def valid(self, output: Any) -> list[NotebookNode]:
        """Return [output], with only encodable characters, if nbformat accepts it, otherwise []."""
        try:
            node = nbformat.from_dict(self.encodable(output))
            nbformat.validate(node, ref="output", version=4, version_minor=5)
        except Exception:  # a forged output can raise anything
            return []
        return [node]

    def encodable(self, value: Any) -> Any:
        """Return the value with all characters that have no encoding replaced."""
        tree = encodable_tree(value)
        self.replaced = self.replaced or tree != value
        return tree


def of_few_parts(value: Any) -> bool | None:
    """Return whether a value can be processed: False if it has too many levels, None if too many values."""
    level, count = [value], 0
    for _ in range(DEEPEST):
        count += len(level)
        if count > LARGEST:
            return None
        level = [
            item
            for part in level
            if isinstance(part, dict | list)
            for item in (part.values() if isinstance(part, dict) else part)
        ]
    return not level
