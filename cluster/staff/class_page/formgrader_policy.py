"""Formgrader's pages: only the scripts in its templates run, whatever a student's text contains.

It is a separate server extension, because Formgrader also runs on a laptop, without the class page. nbgrader
offers no place for a policy, a nonce or another exporter, so its handlers' base class is extended.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

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
    from nbgrader.server_extensions.formgrader.base import BaseHandler

    if hasattr(BaseHandler, "nonce"):
        return
    BaseHandler.nonce = property(nonce)
    BaseHandler.exporter = property(exporter)
    BaseHandler.content_security_policy = property(
        functools.partial(policy, BaseHandler.content_security_policy.fget)
    )
    BaseHandler.render = functools.partialmethod(render, BaseHandler.render)


def nonce(handler: Any) -> str:
    """Return the nonce of a response, the same in its policy and its page."""
    return handler.__dict__.setdefault("_nonce", secrets.token_urlsafe(18))


def exporter(handler: Any) -> Any:
    """Return what converts a graded notebook to Formgrader's page."""
    from .submission_page import SubmissionPage

    config = handler.settings["nbgrader_exporter"].config
    return SubmissionPage(config, Path(handler.coursedir.root), handler.nonce)


def policy(server: Any, handler: Any) -> str:
    """Return the policy of a response. server: the getter of the server's own policy."""
    return f"{server(handler)}; {POLICY.format(nonce=handler.nonce, handlers=handlers())}"


def render(handler: Any, original: Any, name: str, **values: Any) -> str:
    """Render a template of Formgrader's, whose scripts carry the nonce; everything it prints is escaped."""
    from ..feedback.student_page import WithNonces

    environment = handler.settings["nbgrader_jinja2_env"]
    if not environment.autoescape:  # the first page
        environment.loader, environment.autoescape = WithNonces(environment.loader), True
    return original(handler, name, nonce=handler.nonce, **values)


@functools.cache
def handlers() -> str:
    """Return the hashes of the event handlers in Formgrader's templates, which no nonce can mark."""
    from nbgrader.server_extensions.formgrader.handlers import template_path

    texts = [path.read_text() for path in Path(template_path).rglob("*.*") if path.is_file()]
    found = sorted({code for text in texts for code in HANDLER.findall(text)})
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in found]
    return " ".join(f"'sha256-{digest}'" for digest in hashes)
