"""The extension: its settings, its pages, and the link to them in Formgrader's menu."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jinja2 import BaseLoader, Environment
from jupyter_server.extension.application import ExtensionApp, ExtensionAppJinjaMixin
from jupyter_server.serverapp import ServerApp
from traitlets import Bool, Unicode

from cluster import pages

from . import formgrader_links, formgrader_policy, handlers, permissions
from .actions import Actions
from .regrade_requests import Requests
from .sheets import Sheets

HERE = Path(__file__).parent
SIDEBAR = "{%- block sidebar -%}"
LINK = '<li role="presentation"><a href="{{ base_url }}/course/class">Class Page</a></li>'


class ClassPage(ExtensionAppJinjaMixin, ExtensionApp):
    """The class page: submissions, grading, feedback and actions. The course is the server's root."""

    name = "class_page"
    extension_url = "/course/class"
    template_paths = [str(HERE / "templates"), str(Path(pages.__file__).parent / "templates")]  # noqa: RUF012

    people = Unicode("", help="the parent of the folders that students share with the course").tag(
        config=True
    )
    instructors = Unicode("", help=("the hub's group with all rights; if empty, all users have them")).tag(
        config=True
    )
    progress = Bool(False, help="show how many cells students have filled").tag(config=True)

    def initialize_settings(self) -> None:
        """Start a separate thread, to keep a large class or a long query from delaying other pages."""
        assert self.serverapp is not None
        root = Path(self.serverapp.root_dir)
        self.settings |= {
            "class_pool": ThreadPoolExecutor(1, thread_name_prefix="class-page"),
            "class_sheets": Sheets(root, Path(self.people) if self.people and self.progress else None),
            "class_actions": Actions(root),
            "class_requests": Requests(root, Path(self.people) if self.people else None),
            "class_instructors": self.instructors,
        }
        formgrader_policy.protect()
        if self.instructors:
            permissions.limit(self.serverapp.identity_provider, self.instructors)

    def initialize_handlers(self) -> None:
        """Register the class's pages, and one script of Formgrader's."""
        self.handlers.extend(handlers.PAGES)
        self.handlers.append((r"/formgrader/static/js/utils\.js", formgrader_links.Links))

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        """Extend the loaded Formgrader: a menu link, rubrics on submission pages, and names as text."""
        # read in advance, to shorten the wait for the first page
        self.settings["class_pool"].submit(self.settings["class_sheets"].all)
        self.settings["class_pool"].submit(tell_students, Path(serverapp.root_dir), self.log)
        self.settings["class_pool"].submit(self.settings["class_requests"].deliver_all)
        settings = serverapp.web_app.settings
        if environment := settings.get("nbgrader_jinja2_env"):
            environment.loader = WithLink(environment.loader)

    async def stop_extension(self) -> None:
        """End the extension's threads when the server ends."""
        for pool in (self.settings["class_pool"], self.settings["class_sheets"].pool):
            pool.shutdown(wait=False, cancel_futures=True)


def tell_students(root: Path, log: logging.Logger) -> None:
    """Write the students' notices when the server starts, because a restored hub has none."""
    from ..course import Course, opened
    from ..submissions import notices

    try:
        course = Course(root)
        with opened(course) as book:
            failed = notices.tell(course, book)
    except Exception:  # the class page works without notices
        log.warning("The students' notices could not be written", exc_info=True)
    else:
        for student, why in failed.items():
            log.warning("%s: %s", student, why)


class WithLink(BaseLoader):
    """Formgrader's templates, with a link to the class page in each menu."""

    def __init__(self, loader: BaseLoader):
        self.loader = loader

    def get_source(self, environment: Environment, template: str) -> tuple:
        """Return a template's source, with the link to the class page if it is the menu's."""
        source, *rest = self.loader.get_source(environment, template)
        return source.replace(SIDEBAR, LINK + SIDEBAR, 1) if template == "base.tpl" else source, *rest
