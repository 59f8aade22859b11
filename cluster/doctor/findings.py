"""The doctor's findings, and a function that runs a command for them."""

from __future__ import annotations

import functools
import html
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster.jobs.show.card import BAD, COLOURS
from cluster.slurm import client

ADMINISTRATOR = "Show this line to your administrator."

MARKS = {"ok": "ok  ", "warn": "note", "bad": "BAD "}


NOT_SHARED = "On a cluster of several machines, set CLUSTER_RUNS to a folder that all nodes see."


@dataclass(frozen=True)
class Item:
    """One finding: its `mark` ('ok', 'warn' or 'bad') and actions for the student and the administrator."""

    mark: str
    subject: str
    finding: str
    student: str = ""
    administrator: str = ""


@dataclass
class Report:
    """The findings of `doctor`, one `Item` each; `ok` is true if no item is bad."""

    items: list[Item] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(i.mark != "bad" for i in self.items)

    def add(self, mark: str, subject: str, finding: str, student: str = "", administrator: str = "") -> None:
        """Append an item. Every problem has an action for the student and for the administrator."""
        self.items.append(Item(mark, subject, finding, student, administrator))

    def item(self, subject: str) -> Item:
        """Return the item with this subject; raises LookupError, which lists the existing subjects."""
        match = next((i for i in self.items if i.subject == subject), None)
        if match is None:
            raise LookupError(f"{subject!r} is not one of {[i.subject for i in self.items]}.")
        return match

    def __repr__(self) -> str:
        width = max(len(i.subject) for i in self.items)
        rows = []
        for i in self.items:
            rows.append(f"{MARKS[i.mark]} {i.subject:{width}}  {i.finding}")
            steps = [("→", i.student), ("→ administrator:", i.administrator)]
            rows += [f"{'':{width + 7}}{who} {step}" for who, step in steps if step]
        return "\n".join([*rows, self._sum()])

    def _repr_html_(self) -> str:
        colours = {"ok": COLOURS["done"], "warn": COLOURS["pending"], "bad": BAD}
        rows = []
        for i in self.items:
            text = html.escape(i.finding)
            text += f"<br>&rarr; {html.escape(i.student)}" if i.student else ""
            text += (
                f"<br>&rarr; <i>administrator:</i> {html.escape(i.administrator)}" if i.administrator else ""
            )
            dot = f'<span style="color:{colours[i.mark]}">&#9679;</span> {html.escape(i.subject)}'
            rows.append("".join(f'<td style="text-align:left">{c}</td>' for c in (dot, text)))
        return f"<table>{''.join(f'<tr>{r}</tr>' for r in rows)}</table><div>{html.escape(self._sum())}</div>"

    def _sum(self) -> str:
        counts = {m: sum(i.mark == m for i in self.items) for m in MARKS}
        return f"{counts['ok']} ok, {counts['warn']} to note, {counts['bad']} bad."


@functools.cache
def built() -> tuple[bool, bool]:
    """Return (whether Horovod supports Gloo, whether it supports MPI), from a process that imports it."""
    code = "import horovod.tensorflow as hvd; print(hvd.gloo_built(), hvd.mpi_built())"
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    gloo, mpi = [*done.stdout.split(), "False", "False"][:2]
    return gloo == "True", mpi == "True"


def file_system(path: Path) -> str:
    """Return the type of a path's file system, such as 'nfs', or 'unknown'."""
    good, kind = ask("stat", "--file-system", "--format=%T", str(path))
    return kind.strip() if good else "unknown"


def ask(
    *command: str, text: str | None = None, env: Mapping[str, str] = os.environ, stderr: bool = False
) -> tuple[bool, str]:
    """Return (whether a command succeeded, its output or, if it failed, the last line of stderr).

    The time limit is client.ANSWER seconds. text: standard input. stderr: return stdout and stderr.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=client.ANSWER, input=text,
            env=client.environment(env),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"{command[0]} did not answer within {client.ANSWER} s"
    except OSError as e:
        return False, f"{command[0]}: {e.strerror}"
    if stderr:
        return done.returncode == 0, done.stdout + done.stderr
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        return False, lines[-1] if lines else f"{command[0]} ended with exit code {done.returncode}"
    return True, done.stdout


def slurm_missing() -> str | None:
    """Return why Slurm cannot be used, or None. Unlike the result for jobs, this one is not cached."""
    return client.no_slurm(remembered=False)
