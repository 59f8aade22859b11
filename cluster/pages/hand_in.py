"""Submitting: what prevents it, what students should know before it, and the page that submits."""

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

MOST = 5000  # files and folders that the course takes (cluster.staff.work_files)
NOWHERE = "This server cannot submit it to a course. Submit it on your course's JupyterHub."
KEPT = "A previous submission still counts."
TOO_MUCH = (
    "Run the notebook from top to bottom and save it: runs that it no longer names are then left out. "
    "If that is not enough, delete files that you do not need."
)
DELETE = "Delete files that you do not need, then submit again."
REASONS = {  # nbgrader's error: the message shown instead
    "Directory size is too big": "Its folder is too large.",
    "write permissions": "The course's submission folder is not writable now. Tell your instructor.",
    "Inbound directory doesn't exist": "The course's submission folder does not exist. Tell your instructor.",
    "Assignment not found": "The course has taken this assignment back. Ask your instructor.",
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
        return {"one": None, "hinders": [], "twins": [], "old": old_runs.measure([]), "rename": None}
    folder = (root / one.path).parent
    old = old_runs.old_runs(folder, Path(released, one.name) if released else None)
    found = {"one": one, "twins": twins(root / one.path), "old": old_runs.measure(old)}
    found["rename"] = to_rename(folder, released)
    if manager is None or not released:
        return found | {"hinders": [NOWHERE]}
    if not os.access(Path(released).parent / "inbound", os.W_OK | os.X_OK):
        return found | {"hinders": [REASONS["write permissions"]]}
    from nbgrader.coursedir import CourseDirectory

    limits = CourseDirectory(config=manager.load_config())
    most = 1000 * limits.max_file_size, 1000 * limits.max_dir_size  # bytes; nbgrader counts in kilobytes
    return found | {"hinders": hindrances(folder, Path(released, one.name), *most, old=old)}


def to_rename(folder: Path, released: str) -> tuple[str, str] | None:
    """(its name, the released name) of an assignment's only notebook, if it has another name."""
    original = course_map.released_notebook(released, folder.name)
    notebooks = sorted(path.name for path in folder.glob("*.ipynb"))
    if original is None or len(notebooks) != 1 or notebooks[0] == original.name:
        return None
    return notebooks[0], original.name


def twins(notebook: Path) -> list[str]:
    """Return how grading treats copies of the course's cells; empty if the notebook is unreadable."""
    from . import validate

    try:
        found = validate.set_apart(nbformat.read(notebook, as_version=4))
    except Exception:  # any content is possible; `hindrances` reports that it is not a notebook
        return []
    return [pasted_cells.sentence(name, what) for name, what in found.items()]


def hindrances(folder: Path, released: Path, largest: int, whole: int, old: Sequence[Path] = ()) -> list[str]:
    """Return why the files in `folder` would not arrive unchanged. largest: maximum bytes of a file. whole:
    maximum bytes of all.

    old: runs that are left out.
    """
    found = []
    for name in sorted(path.name for path in released.glob("*.ipynb")):
        if not (folder / name).is_file():
            found.append(
                f"{name} is not in the assignment's folder any more. Give your notebook this name again."
            )
        elif not readable(folder / name):
            found.append(
                f"{name} cannot be read as a notebook any more. Move it away and fetch the assignment again."
            )
    size, count = 0, 0
    for path in old_runs.submitted(folder, old):
        bytes_ = path.stat().st_size if path.is_file() else 0
        size, count = size + bytes_, count + 1
        if bytes_ > largest:
            name = printable(str(path.relative_to(folder)))
            limit = f"a file may have {mb(largest)}"
            found.append(f"{name} has {mb(bytes_)}; {limit}. Delete it, or move it elsewhere.")
    if size > whole:
        found.append(f"All files have {mb(size)}; a submission may have {mb(whole)}. {TOO_MUCH}")
    if count > MOST:
        found.append(f"There are {count:,} files and folders; a submission may have {MOST:,}. {TOO_MUCH}")
    return found


def readable(notebook: Path) -> bool:
    """Whether a file is a notebook."""
    try:
        nbformat.validate(found := nbformat.read(notebook, as_version=4))
    except Exception:  # whatever it holds, it is not ours to take
        return False
    return bool(found.cells)


def in_words(error: str) -> str:
    """Explain nbgrader's error, a traceback, to the student."""
    known = next((words for part, words in REASONS.items() if part in error), "")
    return known or (
        "nbgrader could not submit it; the reason is in the server's log. Try again, then tell your "
        "instructor."
    )


def mb(size: int) -> str:
    """'12.3 MB'."""
    return f"{size / 1e6:,.1f} MB"


class HandIn(Page):
    """course/hand-in: show what would be submitted and its state; a POST submits it."""

    @authenticated
    async def get(self) -> None:
        self.show("hand_in.html", trouble="", **await self.in_thread(self.about))

    @authenticated
    async def post(self) -> None:
        found = await self.in_thread(self.about)
        if found["rename"] and self.get_argument("rename", "") == found["rename"][0]:
            folder = (self.settings["course_jobs"].root / found["one"].path).parent
            old, new = (folder / name for name in found["rename"])
            os.link(old, new)  # fails if a file of that name has appeared
            old.unlink()
            return self.redirect(
                f"{self.base_url}course/hand-in?{urlencode({'of': found['one'].name})}", status=303
            )
        if found["hinders"]:
            self.set_status(409)
            return self.show("hand_in.html", trouble="", **found)
        before = found["one"].last
        _, manager, released = self.exchange()
        # In this thread, as nbgrader's own button: it changes the working directory.
        answer = manager.submit_assignment(Path(released).parent.name, found["one"].name)
        found = await self.in_thread(self.about)
        if not answer["success"] or found["one"].last == before:
            self.log.error("Submitting %s: %s", found["one"].name, answer.get("value", "nothing has come"))
            self.set_status(503)
            return self.show("hand_in.html", trouble=in_words(answer.get("value", "")), **found)
        self.redirect(self.receipt_url(found["one"].name, found["one"].last.key), status=303)

    def about(self) -> dict[str, Any]:
        """Return what the page shows. Raise 404 if the assignment does not exist or was not fetched."""
        name = self.get_argument("of")
        found = next((one for one in self.mine() if one.name == name and one.path), None)
        if found is None:
            raise HTTPError(404, reason="No such assignment")
        return facts(found, *self.exchange())


class OldRuns(Page):
    """course/old-runs: ask whether to remove the runs that no notebook names, and remove them."""

    @authenticated
    async def get(self) -> None:
        self.show("old_runs.html", kept=[], **await self.in_thread(self.about))

    @authenticated
    async def post(self) -> None:
        found = await self.in_thread(self.about)
        gone, kept = await self.in_thread(old_runs.remove, found["old"])
        self.log.info("%d old runs of %s removed", len(gone), found["one"].name)
        if kept:
            self.set_status(409)
            return self.show("old_runs.html", kept=kept, **await self.in_thread(self.about))
        self.redirect(f"{self.base_url}course/hand-in?of={quote(found['one'].name)}", status=303)

    def about(self) -> dict[str, Any]:
        """The assignment, its old runs, and how many and how large they are."""
        name = self.get_argument("of")
        one = next((one for one in self.mine() if one.name == name and one.path), None)
        if one is None:
            raise HTTPError(404, reason="No such assignment")
        root, _, released = self.exchange()
        old = old_runs.old_runs((root / one.path).parent, Path(released, name) if released else None)
        return {"one": one, "old": old, "size": old_runs.measure(old), "mb": mb}


PAGES = [(r"/course/hand-in", HandIn), (r"/course/old-runs", OldRuns)]
