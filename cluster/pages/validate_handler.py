"""The answer to Validate, in place of nbgrader's: in a process of its own, so that the server goes on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, authenticated


class Validate(APIHandler):
    """POST assignments/validate, as nbgrader's pages call it; `cluster.pages` comes first, by its name."""

    process: asyncio.subprocess.Process | None = None

    @authenticated
    async def post(self) -> None:
        path = self.get_argument("path", None) or (self.get_json_body() or {}).get("path", "")
        root = Path(self.serverapp.root_dir).resolve()
        notebook = (root / path).resolve()
        if not notebook.is_relative_to(root):
            raise HTTPError(403, reason="That path leads out of the server's folder")
        if notebook.suffix != ".ipynb" or not notebook.is_file():
            raise HTTPError(404, reason="No such notebook")
        command = [sys.executable, "-P", "-m", "cluster.pages.validate", str(notebook)]
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, cwd=root)
        answer, errors = await self.process.communicate()
        if self.process.returncode:
            self.log.error("Validate: %s", errors.decode(errors="replace"))
            raise HTTPError(500, reason="The notebook could not be run; the server's log says why")
        self.set_header("Content-Type", "application/json")
        self.finish(answer)

    def on_connection_close(self) -> None:
        """Whoever asked has gone: so does the run, and with it its kernel."""
        if self.process and self.process.returncode is None:
            self.process.terminate()
