"""Formgrader's pages: only the scripts in its templates run, whatever a student's text contains.

It is a separate server extension, because Formgrader also runs on a laptop, without the class page. nbgrader
offers no place for a policy, a nonce or another exporter, so its handlers' base class is extended.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import re
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado.web import authenticated

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

POOL = ThreadPoolExecutor(2, thread_name_prefix="formgrader")
FILES = "default-src 'none'; sandbox; frame-ancestors 'self'"
HANDLER = re.compile(r'\son\w+="([^"]*)"', re.IGNORECASE)
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-hashes' {handlers};"
    " style-src 'self' 'nonce-{nonce}'; style-src-attr 'unsafe-inline'; img-src 'self' data:;"
    " font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'"
)


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    protect()


def protect() -> None:
    """From now on, send Formgrader's pages with the policy, and render submissions by `SubmissionPage`."""
    from nbgrader.server_extensions.formgrader import handlers
    from nbgrader.server_extensions.formgrader.base import BaseHandler

    if hasattr(BaseHandler, "nonce"):
        return
    handlers.FormgraderHandler.get = authenticated(begin)
    handlers.SubmissionHandler.get = functools.partialmethod(submission, handlers.SubmissionHandler.get)
    handlers.SubmissionFilesHandler.content_security_policy = FILES
    handlers.SubmissionFilesHandler.set_extra_headers = download
    BaseHandler.nonce = property(nonce)
    BaseHandler.exporter = property(exporter)
    BaseHandler.content_security_policy = property(
        functools.partial(policy, BaseHandler.content_security_policy.fget)
    )
    BaseHandler.render = functools.partialmethod(render, BaseHandler.render)


def nonce(handler: Any) -> str:
    """Return the nonce of a response, the same in its policy and its page."""
    return handler.__dict__.setdefault("_nonce", secrets.token_urlsafe(18))


def begin(handler: Any) -> None:
    """Lead to the assignments. nbgrader's own handler executes the configuration in a folder that the address
    names, for which a link to a submitted file is enough."""
    handler.redirect(f"{handler.base_url}/formgrader/manage_assignments")


def download(handler: Any, path: str) -> None:
    """Have a browser save a submitted file, which could be a page that looks like Formgrader's."""
    handler.set_header("Content-Disposition", "attachment")


class Noted:
    """In place of an exporter: notes what is to be rendered."""

    def __init__(self) -> None:
        self.asked: tuple[str, dict[str, Any]] | None = None

    def from_filename(self, filename: str, resources: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Note a file instead of rendering it."""
        self.asked = filename, resources
        return "", resources


async def submission(handler: Any, original: Callable, number: str) -> None:
    """Answer with the page of a submission, rendered while the server answers others."""
    from .submission_page import SubmissionPage

    noted = handler.__dict__["_exporter"] = Noted()
    original(handler, number)
    if noted.asked:
        config, root = handler.settings["nbgrader_exporter"].config, Path(handler.coursedir.root)
        page = SubmissionPage(config, root, handler.nonce)
        html, _ = await asyncio.get_running_loop().run_in_executor(POOL, page.from_filename, *noted.asked)
        handler.write(html)


def exporter(handler: Any) -> Any:
    """Return what a handler takes for an exporter."""
    return handler.__dict__.get("_exporter") or handler.settings["nbgrader_exporter"]


def policy(server: Any, handler: Any) -> str:
    """Return the policy of a response. server: the getter of the server's own policy."""
    return f"{server(handler)}; {POLICY.format(nonce=handler.nonce, handlers=hashes())}"


def render(handler: Any, original: Any, name: str, **values: Any) -> str:
    """Render a template of Formgrader's, whose scripts carry the nonce; everything it prints is escaped."""
    from ..results.student_page import WithNonces

    environment = handler.settings["nbgrader_jinja2_env"]
    if not environment.autoescape:  # the first page
        environment.loader, environment.autoescape = WithNonces(environment.loader), True
    return original(handler, name, nonce=handler.nonce, **values)


@functools.cache
def hashes() -> str:
    """Return the hashes of the event handlers in Formgrader's templates, which no nonce can mark."""
    from nbgrader.server_extensions.formgrader.handlers import template_path

    texts = [path.read_text() for path in Path(template_path).rglob("*.*") if path.is_file()]
    found = sorted({code for text in texts for code in HANDLER.findall(text)})
    digests = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in found]
    return " ".join(f"'sha256-{digest}'" for digest in digests)
