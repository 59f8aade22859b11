"""The extension: its settings, its pages, and its registration with JupyterLab."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jupyter_server.extension.application import ExtensionApp, ExtensionAppJinjaMixin
from jupyter_server.serverapp import ServerApp
from traitlets import Bool, List, Unicode

from . import buttons, course_pages, hand_in, official_check, regrade_form
from .user_jobs import UserJobs

HERE = Path(__file__).parent


class CoursePanel(ExtensionAppJinjaMixin, ExtensionApp):
    """Start page and jobs, at <base_url>/course. Paths are relative to the server's root unless absolute."""

    name = "course_panel"
    extension_url = "/course"
    static_paths = [str(HERE / "static")]  # noqa: RUF012 (a trait's value)
    template_paths = [str(HERE / "templates")]  # noqa: RUF012

    lectures = Unicode("lectures", help="the folder of the lectures").tag(config=True)
    copies = Unicode(
        "", help="folder for a user's own copies of lectures, if the lectures are read-only"
    ).tag(config=True)
    assignments = List(
        Unicode(), ["exercises", "assignments"], help="folders that hold one folder per assignment"
    ).tag(config=True)
    released = Unicode(
        "", help="nbgrader's folder of released assignments, EXCHANGE/COURSE/outbound; empty if there is none"
    ).tag(config=True)
    people = Unicode(
        "",
        help="the parent of the folders that each user shares with the course (cluster.pages.shared_folder)",
    ).tag(config=True)
    progress = Bool(
        False, help="write each assignment's number of filled-in cells to the shared folder, for instructors"
    ).tag(config=True)
    check = Unicode(
        "", help="address of the official check service, ending in /; empty if there is none"
    ).tag(config=True)
    class_page = Unicode("", help="address of the class page, for instructors").tag(config=True)

    def _link_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        """Register JupyterLab's part of this extension before JupyterLab is set up."""
        super()._link_jupyter_server_extension(serverapp)
        lab = serverapp.config.LabApp
        lab.extra_labextensions_path = [*lab.get("extra_labextensions_path", []), str(HERE / "labextension")]

    def initialize_settings(self) -> None:
        """Start the single thread that queries jobs, so a Slurm without an answer never blocks the server."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="course-pages")
        assert self.serverapp is not None
        self.settings |= {"course_jobs": UserJobs(Path(self.serverapp.root_dir)), "course_pool": pool}

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        """Run after other extensions, to keep their pages accessible and use jupytext's contents manager."""
        rest = re.escape(serverapp.base_url) + "course/.*"
        serverapp.web_app.add_handlers(".*$", [(rest, course_pages.Nowhere, {"name": self.name})])
        if self.progress:
            serverapp.contents_manager.register_post_save_hook(self.saved)

    def saved(self, model: dict[str, Any], **_: Any) -> None:
        """Update the progress after a notebook was saved."""
        if model["type"] == "notebook" and self.serverapp is not None:
            root = Path(self.serverapp.root_dir)
            self.settings["course_pool"].submit(course_pages.mine, self, root)

    def initialize_handlers(self) -> None:
        """Register the pages, including nbgrader's own URL of Validate."""
        for part in (course_pages, buttons, hand_in, official_check, regrade_form):
            self.handlers.extend(part.PAGES)

    async def stop_extension(self) -> None:
        """End the thread when the server ends."""
        self.settings["course_pool"].shutdown(wait=False, cancel_futures=True)
