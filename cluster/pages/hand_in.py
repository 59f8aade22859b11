"""Submission of an assignment: what prevents it, advice to students beforehand, and the pages that submit and
validate it. Each validation has a separate process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado.web import HTTPError, authenticated

from cluster import pasted_cells
from cluster.system.text import printable

from . import course_map, old_runs, receipts
from .course_map import Assignment
from .course_pages import Page

MOST = 5000  # maximum number of files and folders that the course collects (cluster.staff.work_files)
NOWHERE = "This server is not connected to a course. Submit the assignment on your course's JupyterHub."
KEPT = "A previous submission still counts."
TOO_MUCH = (
    "Run the notebook from top to bottom and save it: runs that it no longer names are then left out. "
    "If that is not enough, delete files that you do not need."
)
DELETE = "Delete files that you do not need, then submit again."
REASONS = {  # {nbgrader's error: the message shown instead}
    "Directory size is too big": "Its folder is too large.",
    "write permissions": "The course's submission folder is not writable now. Tell your instructor.",
    "Inbound directory doesn't exist": "The course's submission folder does not exist. Tell your instructor.",
    "Assignment not found": "The course has withdrawn this assignment. Ask your instructor.",
    receipts.COURSE_FULL: "The course's disk is full, so nothing was submitted. "
    + KEPT
    + " Tell your instructor.",
    "No space left": f"Your disk is full, so nothing was submitted. {KEPT} {DELETE}",
    "Disk quota exceeded": f"Your disk quota is used up, so nothing was submitted. {KEPT} {DELETE}",
}


def facts(one: Assignment | None, root: Path, manager: Any, released: str) -> dict[str, Any]:
    """Return {one, blockers, duplicates, old, rename}: the assignment; why it cannot be submitted now; how
    pasted copies of cells are treated, a sentence each; {runs, files, bytes} of the old runs, which are
    left out; and the (old, new) name of a notebook that can be renamed.

    manager: nbgrader's Assignment List manager. released: its folder of released assignments.
    """
    if one is None:
        return {"one": None, "blockers": [], "duplicates": [], "old": old_runs.measure([]), "rename": None}
    folder = (root / one.path).parent
    old = old_runs.old_runs(folder, Path(released, one.name) if released else None)
    context = {"one": one, "duplicates": duplicates(root / one.path), "old": old_runs.measure(old)}
    context["rename"] = to_rename(folder, released)
    if manager is None or not released:
        return context | {"blockers": [NOWHERE]}
    if not os.access(Path(released).parent / "inbound", os.W_OK | os.X_OK):
        return context | {"blockers": [REASONS["write permissions"]]}
    from nbgrader.coursedir import CourseDirectory

    limits = CourseDirectory(config=manager.load_config())
    most = 1000 * limits.max_file_size, 1000 * limits.max_dir_size  # in bytes; nbgrader counts in kilobytes
    return context | {"blockers": blockers(folder, Path(released, one.name), *most, old=old)}


def to_rename(folder: Path, released: str) -> tuple[str, str] | None:
    """Return (its name, the released name) of an assignment's only notebook, if the names differ."""
    original = course_map.released_notebook(released, folder.name)
    notebooks = sorted(path.name for path in folder.glob("*.ipynb"))
    if original is None or len(notebooks) != 1 or notebooks[0] == original.name:
        return None
    return notebooks[0], original.name


def duplicates(notebook: Path) -> list[str]:
    """Return how grading treats copies of the course's cells; empty if the notebook is unreadable."""
    from . import validate

    try:
        copies = validate.set_apart(nbformat.read(notebook, as_version=4))
    except Exception:  # the file may contain anything; `blockers` reports files that are not notebooks
        return []
    return [pasted_cells.sentence(name, what) for name, what in copies.items()]


def blockers(folder: Path, released: Path, largest: int, whole: int, old: Sequence[Path] = ()) -> list[str]:
    """Return why the files in `folder` would not arrive unchanged. largest: maximum bytes per file. whole:
    maximum bytes of all files. old: runs that are left out."""
    reasons = []
    for name in sorted(path.name for path in released.glob("*.ipynb")):
        if not (folder / name).is_file():
            reasons.append(f"{name} is no longer in the assignment's folder. Rename your notebook to {name}.")
        elif not readable(folder / name):
            reasons.append(
                f"{name} can no longer be read as a notebook. Move it away and fetch the assignment again."
            )
    size, count = 0, 0
    for path in old_runs.submitted(folder, old):
        bytes_ = path.stat().st_size if path.is_file() else 0
        size, count = size + bytes_, count + 1
        if bytes_ > largest:
            name = printable(str(path.relative_to(folder)))
            limit = f"the limit for a file is {mb(largest)}"
            reasons.append(f"{name} takes up {mb(bytes_)}; {limit}. Delete it, or move it elsewhere.")
    if size > whole:
        reasons.append(f"The files take up {mb(size)}; the limit for a submission is {mb(whole)}. {TOO_MUCH}")
    if count > MOST:
        reasons.append(f"There are {count:,} files and folders; a submission may have {MOST:,}. {TOO_MUCH}")
    return reasons


def readable(notebook: Path) -> bool:
    """Return whether a file is a notebook."""
    try:
        nbformat.validate(notebook_node := nbformat.read(notebook, as_version=4))
    except Exception:  # the file may contain anything
        return False
    return bool(notebook_node.cells)


def in_words(error: str) -> str:
    """Explain one of nbgrader's errors, given as a traceback, to the student."""
    known = next((message for part, message in REASONS.items() if part in error), "")
    return known or (
        "nbgrader could not submit it; the reason is in the server's log. Try again; if that fails, "
        "tell your instructor."
    )


def mb(size: int) -> str:
    """Format bytes as '12.3 MB'."""
    return f"{size / 1e6:,.1f} MB"


class HandIn(Page):
    """course/hand-in: show the files to submit and their state; a POST submits them."""

    template = "hand_in.html"

    @authenticated
    async def post(self) -> None:
        context = await self.in_thread(self.facts)
        one = context["one"]
        if context["rename"] and self.get_argument("rename", "") == context["rename"][0]:
            folder = (self.root / one.path).parent
            old, new = (folder / name for name in context["rename"])
            os.link(old, new)  # fails if a file with that name has appeared
            old.unlink()
            return self.redirect(self.url("hand-in", of=one.name), status=303)
        if context["blockers"]:
            return await self.answer(409)
        # In this thread, like nbgrader's own button, because it changes the working directory.
        course = Path(self.panel.released).parent.name
        answer = self.manager.submit_assignment(course, one.name)
        last = (await self.in_thread(self.assignment)).last
        if answer["success"] and last != one.last:
            return self.redirect(self.url("receipt", of=one.name, at=last.key), status=303)
        self.log.error("Submitting %s: %s", one.name, answer.get("value", "nothing arrived"))
        await self.answer(503, trouble=in_words(answer.get("value", "")))

    def facts(self) -> dict[str, Any]:
        """Return the page's data. Raises 404 if the assignment does not exist or has not been fetched."""
        return facts(self.assignment(), self.root, self.manager, self.panel.released)


class OldRuns(Page):
    """course/old-runs: ask whether to remove the runs that no notebook names, and remove them."""

    template = "old_runs.html"

    @authenticated
    async def post(self) -> None:
        context = await self.in_thread(self.facts)
        gone, kept = await self.in_thread(old_runs.remove, context["old"])
        self.log.info("%d old runs of %s removed", len(gone), context["one"].name)
        if kept:
            return await self.answer(409, kept=kept)
        self.redirect(self.url("hand-in", of=context["one"].name), status=303)

    def facts(self) -> dict[str, Any]:
        """Return the assignment, its old runs, and their number and size."""
        one, released = self.assignment(), self.panel.released
        old = old_runs.old_runs((self.root / one.path).parent, Path(released, one.name) if released else None)
        return {"one": one, "old": old, "size": old_runs.measure(old), "mb": mb}


class Run(JupyterHandler):
    """Run the requested notebook with `cluster.pages.validate` while the server continues."""

    process: asyncio.subprocess.Process | None = None

    async def run(self, path: str) -> bytes:
        """Return the output of the command for the notebook at a path below the server's root.

        Raises HTTPError 403 or 404, or 500 if the command fails.
        """
        notebook, root = self.notebook(path)
        released = course_map.released_notebook(self.settings["course_panel"].released, notebook.parent.name)
        command = [sys.executable, "-P", "-m", "cluster.pages.validate", str(notebook)]
        command += [str(released)] if released else []
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, cwd=root)
        answer, errors = await self.process.communicate()
        if self.process.returncode:
            self.log.error("Validate: %s", errors.decode(errors="replace"))
            raise HTTPError(500, reason="The notebook could not be run; the reason is in the server's log")
        return answer

    def notebook(self, path: str) -> tuple[Path, Path]:
        """Return (the notebook, the server's root). Raises HTTPError 403 or 404."""
        root = self.settings["course_jobs"].root.resolve()
        notebook = (root / path).resolve()
        if not notebook.is_relative_to(root):
            raise HTTPError(403, reason="The path is outside the server's folder")
        if notebook.suffix != ".ipynb" or not notebook.is_file():
            raise HTTPError(404, reason="No such notebook")
        return notebook, root

    def on_connection_close(self) -> None:
        """Stop the run and its kernel, because the client has disconnected."""
        if self.process and self.process.returncode is None:
            self.process.terminate()


class NbgradersValidate(Run, APIHandler):
    """POST assignments/validate, instead of nbgrader's handler: extensions load in alphabetical order."""

    @authenticated
    async def post(self) -> None:
        path = self.get_argument("path", None) or (self.get_json_body() or {}).get("path", "")
        answer = await self.run(path)
        self.set_header("Content-Type", "application/json")
        self.finish(answer)


class Validate(Run, Page):
    """course/validate: a POST runs the notebook and shows its checks, with a form to submit it."""

    template = "validate.html"

    @authenticated
    async def post(self) -> None:
        await self.answer(answer=json.loads(await self.run(self.get_argument("of"))))

    def facts(self) -> dict[str, Any]:
        """Return what the page shows about submitting the notebook's assignment."""
        self.notebook(path := self.get_argument("of"))
        one = next((item for item in self.mine() if item.path == path), None)
        about = facts(one, self.root, self.manager, self.panel.released)
        return about | {"path": path, "answer": None}


PAGES = [
    (r"/course/hand-in", HandIn), (r"/course/old-runs", OldRuns), (r"/course/validate", Validate),
    (r"/assignments/validate", NbgradersValidate),
]  # fmt: skip
