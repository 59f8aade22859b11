"""Outputs for the graded notebook: from a student's process only what nbformat allows, up to a size."""

import json

import nbformat

MOST = 1000  # outputs of one cell


class Outputs:
    """Counts the bytes of all cells together."""

    def __init__(self, room):
        self.room, self.cut = 2 * room, False

    def take(self, message):
        """The outputs in a student's message, less what is none and what does not fit."""
        found = message.get("outputs") if isinstance(message, dict) else None
        if not isinstance(found, list):
            return []
        self.cut = self.cut or bool(message.get("cut")) or len(found) > MOST
        kept = []
        for output in found[:MOST]:
            self.room -= len(json.dumps(output))
            if self.room < 0:
                self.cut = True
                break
            if isinstance(output, dict):
                kept += valid(output)
        return kept

    def of_check(self, printed, error):
        """The outputs of a check: what it printed, and its error."""
        found = [nbformat.v4.new_output("stream", name="stdout", text=printed)] if printed else []
        if error:
            kind, _, text = error.partition(": ")
            found.append(nbformat.v4.new_output("error", ename=kind, evalue=text, traceback=[error]))
        return found


def valid(output):
    """[output] if nbformat says that it is one, else []."""
    try:
        node = nbformat.from_dict(output)
        nbformat.validate(node, ref="output", version=4, version_minor=5)
    except Exception:  # whatever a forged output brings up
        return []
    return [node]
