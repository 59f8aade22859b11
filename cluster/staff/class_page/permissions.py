"""What graders may request from the class page's server: an allow-list of its handlers.

JupyterHub's authorizer guards only handlers with Jupyter Server's `@authorized`, which Formgrader's lack. The
rule is therefore applied where each handler determines the user. It also covers kernels and terminals. It
depends on the handler that the server has chosen, never on the path, so no spelling of a path can mislead it.
A handler that is not listed is reserved for instructors.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from jupyter_server.auth import IdentityProvider, User
from tornado.web import HTTPError

from .roles import REFUSED, instructs


@cache
def seen() -> frozenset[type]:
    """Return the handlers whose pages graders may see: class page, Formgrader, what surrounds them."""
    from jupyter_server.auth.login import LoginFormHandler
    from jupyter_server.auth.logout import LogoutHandler
    from jupyter_server.base import handlers as server
    from nbgrader.server_extensions.formgrader import apihandlers
    from nbgrader.server_extensions.formgrader import handlers as formgrader

    from cluster.pages.course_pages import Start

    from . import formgrader_links, handlers

    around = {server.FileFindHandler, server.PublicStaticFileHandler, server.MainHandler, server.Template404}
    around |= {server.TrailingSlashHandler, LoginFormHandler, LogoutHandler, Start, formgrader.Template404}
    rules = (*handlers.PAGES, *formgrader.default_handlers, *apihandlers.default_handlers)
    return frozenset({rule[1] for rule in rules} | around | {formgrader_links.Links})


@cache
def changed() -> dict[str, set[type]]:
    """Return the handlers of the changes that graders may make, by the request's method."""
    from nbgrader.server_extensions.formgrader import apihandlers as api

    from .handlers import Answer, Do

    return {"PUT": {api.GradeHandler, api.CommentHandler}, "POST": {api.FlagSubmissionHandler, Do, Answer}}


def permitted(method: str | None, handler: type) -> bool:
    """Return whether a grader may make a request that the server answers by this class of handlers."""
    return handler in (seen() if method in ("GET", "HEAD") else changed().get(method or "", ()))


def limit(provider: IdentityProvider, group: str) -> None:
    """From now on, answer requests reserved for the group's members with 403 for all other users."""
    ask, own = provider.get_user, {provider.login_handler_class, provider.logout_handler_class}

    async def get_user(handler: Any) -> User | None:
        answer = ask(handler)
        user = await answer if inspect.isawaitable(answer) else answer
        method, kind = handler.request.method, type(handler)
        if user is None or instructs(user, group) or kind in own or permitted(method, kind):
            return user
        handler.current_user = user  # needed by the page that shows the error
        raise HTTPError(403, reason=REFUSED)

    provider.get_user = get_user  # type: ignore[method-assign]
