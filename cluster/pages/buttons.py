"""The buttons of the start page: copy a lecture, or fetch an assignment or its feedback, and open it."""

from __future__ import annotations

from pathlib import Path

from tornado.web import HTTPError, authenticated

from cluster.system import files

from . import corrections, course_map
from .course_pages import Page

BESIDE = ("figures", "runs")  # folders of images in a lecture, and of records that its cells read


class Act(Page):
    """POST course/act with copy=LECTURE, or fetch=, again= or feedback=ASSIGNMENT. Returns a URL."""

    @authenticated
    async def post(self) -> None:
        form = {key: self.get_argument(key, "") for key in ("copy", "fetch", "again", "feedback")}
        (do, name), *more = [(key, value) for key, value in form.items() if value] or [("", "")]
        if more or not do:
            raise HTTPError(400, reason="One action at a time")
        self.redirect(await getattr(self, do)(name))

    async def copy(self, path: str) -> str:
        """Return the URL of the user's own copy of a lecture, copying it if needed."""
        app, root = self.panel, self.root
        if not app.copies or path not in [x.path for x in course_map.lectures(root, app.lectures)]:
            raise HTTPError(404, reason="No such lecture")
        try:
            target = await self.in_thread(copy_lecture, root / path, root / app.copies)
        except OSError as error:
            self.log.error("The lecture could not be copied: %s", error)
            raise HTTPError(507, reason=f"The lecture could not be copied: {error.strerror}") from None
        return self.lab(course_map.below(root, target))

    async def fetch(self, name: str) -> str:
        """Return the URL of an assignment's notebook, after fetching it like Assignment List."""
        path = self.by_nbgrader("fetch_assignment", name).path
        if original := course_map.released_notebook(self.panel.released, name):
            await self.in_thread(corrections.keep_release, original, name)
        return self.lab(path)

    async def again(self, name: str) -> str:
        """Return the URL of a corrected assignment's notebook, with the answers kept."""
        root, released = self.root, self.panel.released
        assignment = next((item for item in self.mine() if item.name == name and item.corrected), None)
        original = course_map.released_notebook(released, name)
        if assignment is None or original is None:
            raise HTTPError(404, reason="This assignment has not been corrected")
        try:
            await self.in_thread(corrections.fetch_again, root / assignment.path, original, name)
        except OSError as error:
            self.log.error("%s could not be fetched again: %s", name, error)
            raise HTTPError(507, reason=f"Nothing was changed: {error.strerror}") from None
        return self.lab(course_map.below(root, (root / assignment.path).with_name(original.name)))

    async def feedback(self, name: str) -> str:
        """Return the URL of the newest feedback on an assignment."""
        return self.url("feedback", of=self.by_nbgrader("fetch_feedback", name).name)

    def by_nbgrader(self, call: str, name: str) -> course_map.Assignment:
        """Return the assignment after a step of nbgrader, which must run in this thread (it uses chdir)."""
        manager, released = self.manager, self.panel.released
        if manager is None or not released or name not in [item.name for item in self.mine()]:
            raise HTTPError(404, reason="No such assignment")
        answer = getattr(manager, call)(Path(released).parent.name, name)
        assignment = next(item for item in self.mine() if item.name == name)
        if not (assignment.path if call == "fetch_assignment" else assignment.feedback):
            self.log.error("%s of %s: %s", call, name, answer.get("value", "nothing was fetched"))
            raise HTTPError(503, reason=f"{name} could not be fetched; try Nbgrader, Assignment List")
        return assignment


def copy_lecture(lecture: Path, folder: Path) -> Path:
    """Copy a lecture and the files next to it to `folder`, without overwriting existing files. Returns the
    copy.

    Raises OSError, for example if the disk is full; no incomplete file is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in BESIDE:
        for path in sorted((lecture.parent / name).rglob("*")):
            if path.is_file():
                copy_file(path, folder / path.relative_to(lecture.parent))
    return copy_file(lecture, folder / lecture.name)


def copy_file(path: Path, target: Path) -> Path:
    """Copy one file so that its user can write it; existing files are never overwritten."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write(target, path.read_bytes())
    return target


PAGES = [(r"/course/act", Act)]
