"""Determine what an attack gained."""

import os
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

import html5lib
from bs4 import BeautifulSoup

from tests.attacks.corpus import SECRETS

MARK = "exploit-ran"  # in each script of an attack


@dataclass
class Outcome:
    """The outcome of one attack. `won` is "" if the attack gained nothing; `message` is the autograder's
    message about the submission."""

    score: float | None
    largest: float
    message: str = ""
    gains: list[str] = field(default_factory=list)

    @property
    def won(self):
        return "; ".join(self.gains)


def judge(attack, score, largest, message, outputs, page, formgrader=""):
    """Return the Outcome from the score in the gradebook, the outputs of the student's cells, the feedback
    and Formgrader's page."""
    outcome = Outcome(score, largest, message)
    if (score or 0) > attack.fair:
        outcome.gains.append(f"{score:g} of {largest:g} points instead of {attack.fair:g}")
    if largest != 4 and score is not None:
        outcome.gains.append(f"the assignment has {largest:g} points instead of 4")
    for secret in secrets_in(outputs + page) - secrets_in(attack.answer):
        outcome.gains.append(f"saw {secret}")
    if runs(page):
        outcome.gains.append("its script is in the feedback")
    if runs(formgrader):
        outcome.gains.append("its script runs in Formgrader")
    if imitated(page):
        outcome.gains.append("its HTML looks like the page's own points")
    return outcome


def runs(page):
    """Return whether a page, parsed as by a browser, has a script of an attack: as an element, as an event
    handler, as an address, or as a file that nbgrader executes at an address."""
    for element in html5lib.parse(page).iter() if MARK in page else ():
        if str(element.tag).endswith("script") and MARK in (element.text or ""):
            return True
        for name, value in element.attrib.items():
            executes = "?path=" in value  # GET /formgrader/?path=FOLDER
            handler = str(name).startswith("on") or value.strip().lower().startswith(
                ("javascript:", "data:text")
            )
            if (handler or executes) and MARK in value:
                return True
    return False


def imitated(page):
    """Return whether a page has a second total or table of checks, or two elements with the same id."""
    soup = BeautifulSoup(page, "html.parser")
    ids = [element["id"] for element in soup.select("[id]")]
    return max(len(soup.select(kind)) for kind in (".total", ".checks")) > 1 or len(set(ids)) < len(ids)


def secrets_in(text):
    return {what for what, phrases in SECRETS.items() if any(word in text for word in phrases)}


def outputs_of(notebook):
    """Return all output of the cells in a graded notebook, except for the output of checks, which only the
    instructor reads."""
    shown = []
    for cell in notebook.cells if notebook else ():
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade"):
            shown += [str(output) for output in cell.outputs]
    return "\n".join(shown)


def left_over(attacks):
    """Return {attack: [pids]} of processes with an attack's mark in their command line."""
    results = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        for name, attack in attacks.items():
            if attack.mark in command:
                results.setdefault(name, []).append(int(pid))
    return results


class Service:
    """A service on the grader's machine that no student should reach; `reached` tells whether a student
    did."""

    def __enter__(self):
        self.server, self.reached = socket.create_server(("127.0.0.1", 0)), False
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._wait, daemon=True).start()
        return self

    def _wait(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.reached = True
            connection.close()

    def __exit__(self, *_):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
