"""Validate: the course's page, and nbgrader's URL. Each run has a separate process."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado.web import HTTPError, authenticated

from . import course_map, course_pages, hand_in


class Run(JupyterHandler):
    """Run the requested notebook with `cluster.pages.validate` while the server continues."""

    process: asyncio.subprocess.Process | None = None

    def notebook(self, path: str) -> Path:
        """Return the notebook at a path below the server's root. Raises HTTPError 403 or 404."""
        root = self._root().resolve()
        resolved = (root / path).resolve()
        if not resolved.is_relative_to(root):
            raise HTTPError(403, reason="The path is outside the server's folder")
        if resolved.suffix != ".ipynb" or not resolved.is_file():
            raise HTTPError(404, reason="No such notebook")
        return resolved

    async def answer(self, notebook: Path) -> bytes:
        """Return the output of the command, or raise 500 if it fails."""
        released = course_map.released_notebook(self.settings["course_panel"].released, notebook.parent.name)
        command = [sys.executable, "-P", "-m", "cluster.pages.validate", str(notebook)]
        command += [str(released)] if released else []
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *command, stdout=pipe, stderr=pipe, cwd=self._root()
        )
        answer, errors = await self.process.communicate()
        if self.process.returncode:
            self.log.error("Validate: %s", errors.decode(errors="replace"))
            raise HTTPError(500, reason="The notebook could not be run; the reason is in the server's log")
        return answer

    def _root(self) -> Path:
        assert self.serverapp is not None
        return Path(self.serverapp.root_dir)

    def on_connection_close(self) -> None:
        """Stop the run and its kernel, because the client has disconnected."""
        if self.process and self.process.returncode is None:
            self.process.terminate()


class Validate(Run, APIHandler):
    """POST assignments/validate, instead of nbgrader's handler: extensions load in alphabetical order."""

    @authenticated
    async def post(self) -> None:
        path = self.get_argument("path", None) or (self.get_json_body() or {}).get("path", "")
        answer = await self.answer(self.notebook(path))
        self.set_header("Content-Type", "application/json")
        self.finish(answer)


class Checked(Run, course_pages.Page):
    """course/validate: a POST runs the notebook and shows its checks, with a form to submit it."""

    @authenticated
    async def get(self) -> None:
        self.notebook(path := self.get_argument("of"))
        self.show("validate.html", path=path, answer=None, **await self.in_thread(self.about, path))

    @authenticated
    async def post(self) -> None:
        answer = json.loads(await self.answer(self.notebook(path := self.get_argument("of"))))
        self.show("validate.html", path=path, answer=answer, **await self.in_thread(self.about, path))

    def about(self, path: str) -> dict[str, Any]:
        """Return what the page shows about submitting the notebook's assignment."""
        assignment = next((item for item in self.mine() if item.path == path), None)
        return hand_in.facts(assignment, *self.exchange())


PAGES = [(r"/course/validate", Checked), (r"/assignments/validate", Validate)]
