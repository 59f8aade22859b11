"""The official check, student's side: packs the folder, queries the hub's service, and shows the answer.

The hub's service `check` runs the sandboxed autograder as another user and sends only points and messages.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.web import HTTPError, authenticated

from cluster.system.errors import ClusterError

from . import old_runs
from .course_pages import Page

LARGEST = 200 * 2**20  # maximum total bytes of the files, as in the autograder
MOST = 5000  # maximum number of files
SENT = 32 * 2**20  # maximum bytes of the packed folder
PATIENCE = 600.0  # maximum seconds to wait for an answer; other students' checks may be first
SILENT = "The check service does not answer. Try again in a minute; if that fails, tell your instructor."


class FolderTooLarge(ClusterError):
    """An assignment's folder is larger than the service accepts."""

    def __init__(self, limit: str):
        super().__init__(
            f"The assignment's folder has more than {limit}.", "Delete files that you do not need."
        )


def pack(folder: Path, released: Path | None = None) -> bytes:
    """Pack the files of an assignment's folder that would be submitted into a ZIP archive. released: the
    folder with the assignment as released. Raises FolderTooLarge, OSError."""
    buffer, size, count = io.BytesIO(), 0, 0
    with zipfile.ZipFile(
        buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False
    ) as archive:
        for path in old_runs.submitted(folder, old_runs.old_runs(folder, released)):
            if path.is_symlink() or not path.is_file():
                continue
            size, count = size + path.stat().st_size, count + 1
            if size > LARGEST or count > MOST:
                raise FolderTooLarge(f"{LARGEST >> 20} MiB or {MOST:,} files")
            archive.write(path, path.relative_to(folder))
    if buffer.tell() > SENT:
        raise FolderTooLarge(f"{SENT >> 20} MiB when packed")
    return buffer.getvalue()


class Check(Page):
    """course/check: show how many attempts are left and the last result; a POST starts one."""

    @authenticated
    async def get(self) -> None:
        one = await self.in_thread(self.one)
        self.show_standing(one, await self.ask(one.name))

    @authenticated
    async def post(self) -> None:
        one, released = await self.in_thread(self.one), self.panel.released
        folder = (self.root / one.path).parent
        try:
            body = await self.in_thread(pack, folder, Path(released, one.name) if released else None)
        except FolderTooLarge as why:
            self.set_status(413)
            return self.show_standing(one, await self.ask(one.name), f"{why.what} {why.next_step}")
        except (OSError, ValueError) as error:
            self.log.error("The folder of %s could not be read: %s", one.name, error)
            self.set_status(500)
            return self.show_standing(one, await self.ask(one.name), "The folder could not be read.")
        answer = await self.ask(one.name, body)
        self.show_standing(one, answer, answer.get("words", ""))

    def show_standing(self, one: Any, standing: dict[str, Any], trouble: str = "") -> None:
        """Show the page; if the service does not answer, the page reports this."""
        if "left" not in standing:
            self.set_status(503)
            trouble = trouble or standing.get("words", SILENT)
        self.show("check.html", one=one, standing=standing, trouble=trouble)

    def one(self) -> Any:
        """Return the requested assignment. Raises 404 if it has not been fetched or there is no service."""
        if not self.panel.check:
            raise HTTPError(404, reason="This course has no check")
        return self.assignment()

    async def ask(self, name: str, body: bytes | None = None) -> dict[str, Any]:
        """Query the service about an assignment or, with a packed folder, have it checked."""
        request = HTTPRequest(
            self.panel.check + quote(name),
            method="GET" if body is None else "POST",
            body=body,
            headers={"Authorization": f"token {os.environ.get('JUPYTERHUB_API_TOKEN', '')}"},
            connect_timeout=10.0,
            request_timeout=20.0 if body is None else PATIENCE,
            follow_redirects=False,
        )
        try:
            response: HTTPResponse = await AsyncHTTPClient().fetch(request, raise_error=False)
            answer = json.loads(response.body or b"")
        except (OSError, ValueError) as error:
            self.log.error("The official-check service failed: %s", error)
            return {}
        if not isinstance(answer, dict) or response.code not in (200, 403, 404, 409, 413, 422, 429, 503):
            self.log.error("The official-check service answered with status %s", response.code)
            return {}
        return answer


PAGES = [(r"/course/check", Check)]
