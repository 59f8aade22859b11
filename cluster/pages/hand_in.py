"""Submission of an assignment: what prevents it, advice to students beforehand, and its page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import nbformat
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

    @authenticated
    async def get(self) -> None:
        self.show("hand_in.html", trouble="", **await self.in_thread(self.about))

    @authenticated
    async def post(self) -> None:
        context = await self.in_thread(self.about)
        if context["rename"] and self.get_argument("rename", "") == context["rename"][0]:
            folder = (self.settings["course_jobs"].root / context["one"].path).parent
            old, new = (folder / name for name in context["rename"])
            os.link(old, new)  # fails if a file with that name has appeared
            old.unlink()
            return self.redirect(
                f"{self.base_url}course/hand-in?{urlencode({'of': context['one'].name})}", status=303
            )
        if context["blockers"]:
            self.set_status(409)
            return self.show("hand_in.html", trouble="", **context)
        before = context["one"].last
        _, manager, released = self.exchange()
        # In this thread, like nbgrader's own button, because it changes the working directory.
        answer = manager.submit_assignment(Path(released).parent.name, context["one"].name)
        context = await self.in_thread(self.about)
        if not answer["success"] or context["one"].last == before:
            self.log.error("Submitting %s: %s", context["one"].name, answer.get("value", "nothing arrived"))
            self.set_status(503)
            return self.show("hand_in.html", trouble=in_words(answer.get("value", "")), **context)
        self.redirect(self.receipt_url(context["one"].name, context["one"].last.key), status=303)

    def about(self) -> dict[str, Any]:
        """Return the page's data. Raises 404 if the assignment does not exist or has not been fetched."""
        name = self.get_argument("of")
        assignment = next((item for item in self.mine() if item.name == name and item.path), None)
        if assignment is None:
            raise HTTPError(404, reason="No such assignment")
        return facts(assignment, *self.exchange())


class OldRuns(Page):
    """course/old-runs: ask whether to remove the runs that no notebook names, and remove them."""

    @authenticated
    async def get(self) -> None:
        self.show("old_runs.html", kept=[], **await self.in_thread(self.about))

    @authenticated
    async def post(self) -> None:
        context = await self.in_thread(self.about)
        gone, kept = await self.in_thread(old_runs.remove, context["old"])
        self.log.info("%d old runs of %s removed", len(gone), context["one"].name)
        if kept:
            self.set_status(409)
            return self.show("old_runs.html", kept=kept, **await self.in_thread(self.about))
        self.redirect(f"{self.base_url}course/hand-in?of={quote(context['one'].name)}", status=303)

    def about(self) -> dict[str, Any]:
        """Return the assignment, its old runs, and their number and size."""
        name = self.get_argument("of")
        one = next((item for item in self.mine() if item.name == name and item.path), None)
        if one is None:
            raise HTTPError(404, reason="No such assignment")
        root, _, released = self.exchange()
        old = old_runs.old_runs((root / one.path).parent, Path(released, name) if released else None)
        return {"one": one, "old": old, "size": old_runs.measure(old), "mb": mb}


PAGES = [(r"/course/hand-in", HandIn), (r"/course/old-runs", OldRuns)]
