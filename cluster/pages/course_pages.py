"""The course's pages. All require a login; actions that change something are POSTs with the XSRF token."""

from __future__ import annotations

import asyncio
import datetime
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.extension.handler import ExtensionHandlerJinjaMixin, ExtensionHandlerMixin
from markupsafe import Markup, escape
from tornado.web import HTTPError, authenticated

from . import course_map, drawings, receipts, shared_folder
from .user_jobs import grouped

# Scripts by their nonce, because this server also serves the scripts that students have submitted.
POLICY = "default-src 'none'; script-src 'nonce-{}'; style-src 'self'; img-src 'self' data:; "
POLICY += "connect-src 'self'; base-uri 'none'; form-action 'self'"


class Page(ExtensionHandlerJinjaMixin, ExtensionHandlerMixin, JupyterHandler):
    """A page of the course. Templates get the URLs they need, and the policy permits no other scripts."""

    pool = "course_pool"  # the setting with the thread that reads files
    template = ""

    @property
    def root(self) -> Path:
        """The server's root."""
        return self.settings["course_jobs"].root

    @property
    def panel(self) -> Any:
        """The extension's settings."""
        return self.settings["course_panel"]

    @property
    def manager(self) -> Any:
        """nbgrader's Assignment List, or None."""
        return self.settings.get("assignment_list_manager")

    @property
    def content_security_policy(self) -> str:
        return f"{super().content_security_policy}; {POLICY.format(self.nonce)}"

    @property
    def nonce(self) -> str:
        """The word that the scripts of this response carry."""
        return self.__dict__.setdefault("_nonce", secrets.token_urlsafe(18))

    def get_template(self, name: str) -> Any:
        """Return a template of the page's own extension."""
        return self.settings[f"{self.name}_jinja2_env"].get_template(name)

    @authenticated
    async def get(self) -> None:
        if not self.template:
            raise HTTPError(405)
        await self.answer()

    async def answer(self, status: int = 200, **values: Any) -> None:
        """Answer with the page's template, its facts, and further values, which replace facts."""
        facts = await self.in_thread(self.facts)
        self.set_status(status)
        self.show(self.template, **facts | values)

    def facts(self) -> dict[str, Any]:
        """Return the page's data. It runs in a thread, so it may read files and query Slurm."""
        return {}

    async def in_thread(self, call: Any, *arguments: Any) -> Any:
        """Run a call that reads files or queries Slurm in a thread, to keep the server responsive."""
        return await asyncio.get_running_loop().run_in_executor(self.settings[self.pool], call, *arguments)

    def show(self, template: str, **values: Any) -> None:
        """Answer with a page; all templates get the values below in addition to `values`."""
        base = self.base_url + "course"
        self.set_header("Cache-Control", "no-store")
        self.finish(
            self.render_template(
                template, base=base, lab=self.lab, url=self.url,
                static=self.static_url, nonce=self.nonce, when=marked(when), when_text=when, until=until,
                exactly=marked(exactly), chart=drawings.chart,
                state_class=state_class, coded=coded, form=self.xsrf_form_html,
                class_page=self.panel.class_page, check=self.panel.check,
                teaching="class_page" in self.settings,
                hub=self.settings.get("page_config_data", {}).get("hubPrefix", ""), **values,
            )
        )  # fmt: skip

    def write_error(self, status_code: int, **_: Any) -> None:
        """Show an error as a page of the course."""
        self.show("error.html", code=status_code, reason=self._reason)

    def static_url(self, path: str, *_: Any, **__: Any) -> str:
        """Return the URL of a file in static/."""
        return f"{self.base_url}static/course_panel/{path}"

    def lab(self, path: str = "") -> str:
        """Return the URL of JupyterLab, with a file open."""
        return f"{self.base_url}lab" + (f"/tree/{quote(path)}" if path else "")

    def url(self, page: str, **query: Any) -> str:
        """Return the URL of one of these pages; parts of the query that are None are left out."""
        return f"{self.base_url}course/{page}?{urlencode({k: v for k, v in query.items() if v is not None})}"

    def mine(self) -> list[course_map.Assignment]:
        """Return the assignments of this server's user."""
        return mine(self.panel, self.root)

    def assignment(self) -> course_map.Assignment:
        """Return the requested assignment. Raises 404 if it does not exist or has not been fetched."""
        name = self.get_argument("of")
        for one in self.mine():
            if one.name == name and one.path:
                return one
        raise HTTPError(404, reason="No such assignment")


class Start(Page):
    """The map of the course."""

    template = "start.html"

    @authenticated
    async def get(self) -> None:
        if "class_page" in self.settings:  # on the grader's server, the map for instructors is the class page
            self.redirect(f"{self.base_url}course/class")
        else:
            await self.answer()

    def facts(self) -> dict[str, Any]:
        """Return the course's units, this user's progress, and the running jobs."""
        app, root = self.panel, self.root
        units, assignments = course_map.units(root / app.lectures), self.mine()
        hours = {unit.number: unit.hours for unit in units}
        for one in assignments:
            one.hours = hours.get(one.number, "")
        lectures = course_map.lectures(root, app.lectures, app.copies)
        jobs, _ = self.settings["course_jobs"].lines()
        return {
            "lectures": lectures,
            "assignments": assignments,
            "step": course_map.suggested(lectures, assignments),
            "active": [job for job in jobs if not job["ended"]],
            "jobs": len(jobs),
            "seen": app.progress,
            "copies": app.copies,
            "released": app.released,
            "shut_out": course_map.handed_out(app.released) is None,
            "fetches": self.manager is not None,
            "glossary": course_map.glossary(root, app.lectures),
            "units": units,
            "given": {lecture.number for lecture in lectures},
            "done": {one.number for one in assignments if one.last},
        }


class Receipt(Page):
    """A submission: when the course's server received it, whether it was on time, and its files' hashes."""

    template = "receipt.html"

    @authenticated
    async def get(self) -> None:
        if self.get_argument("as", "") != "text":
            return await self.answer()
        facts = await self.in_thread(self.facts)
        self.set_header("Content-Type", "text/plain; charset=UTF-8")
        self.set_header("Content-Disposition", f'attachment; filename="receipt-{facts["one"].number}.txt"')
        self.finish(self.render_template("receipt.txt", exactly=exactly, **facts))

    def facts(self) -> dict[str, Any]:
        """Return the data on a submission of this user, or raise 404."""
        asked = self.get_argument("of"), self.get_argument("at")
        for one in self.mine():
            for n, hand_in in enumerate(one.hand_ins, 1):
                if (one.name, hand_in.key) == asked:
                    rows = receipts.files(hand_in)
                    facts = {"one": one, "hand_in": hand_in, "n": n, "user": shared_folder.person()}
                    notebooks = [row for row in rows if row[0].endswith(".ipynb")]
                    others = [row for row in rows if row not in notebooks]
                    return facts | {"files": rows, "notebooks": notebooks, "others": others}
        raise HTTPError(404, reason="No such submission")


def mine(app: Any, root: Path) -> list[course_map.Assignment]:
    """Return this user's assignments, and report the progress to the course if it uses progress reports."""
    cache, shared = Path(jupyter_data_dir(), "nbgrader_cache"), shared_folder.folder(app.people)
    notice = shared_folder.read_notice(shared)
    assignments = course_map.assignments(root, app.assignments, app.released, notice, cache)
    if app.progress:
        shared_folder.write_progress(shared, assignments)
    return assignments


class Jobs(Page):
    """The list of jobs."""

    template = "jobs.html"

    def facts(self) -> dict[str, Any]:
        """Return the groups of jobs, and what could not be read."""
        jobs, unreadable = self.settings["course_jobs"].lines()
        return {"groups": grouped(jobs), "unreadable": unreadable, "summary": summary(jobs)}


class Job(Page):
    """One job, or one sweep with its items."""

    template = "job.html"

    def named(self) -> tuple[str, int | None]:
        """Return (path of the requested job's folder below the root, item of a sweep)."""
        path, item = self.get_argument("of"), self.get_argument("item", None)
        if item is not None and not re.fullmatch(r"\d{1,6}", item):
            raise HTTPError(404, reason="No such job")
        return path, None if item is None else int(item)

    def facts(self) -> dict[str, Any]:
        """Return the page's data on a job, a sweep, or an item of a sweep."""
        path, item = self.named()
        work = self.settings["course_jobs"]
        job = work.job(path, item)
        view, items = work.view(job)
        sweep = hasattr(job, "statuses")
        return {
            "path": path,
            "item": item,
            "job": job,
            "sweep": sweep,
            "status": job.status,
            "view": view,
            "items": items,
            "curves": [(axis, name, points(curves)) for axis, name, curves in view.metrics] if view else [],
            "command": job.spec.get("command", ""),
            "script": "" if sweep else job.script(),
        }


class Cancel(Job):
    """Ask whether to cancel a job, and cancel it."""

    template = "cancel.html"

    @authenticated
    async def post(self) -> None:
        if trouble := await self.in_thread(self.cancel):
            await self.answer(503, trouble=trouble)
        else:
            path, item = self.named()
            self.redirect(self.url("job", of=path, item=item))

    def facts(self) -> dict[str, Any]:
        """Return the job and its current status."""
        path, item = self.named()
        job = self.settings["course_jobs"].job(path, item)
        return {"path": path, "item": item, "job": job, "status": job.status}

    def cancel(self) -> str:
        """Cancel the job; return why it could not be cancelled, or ""."""
        from cluster.jobs.errors import JobError

        try:
            self.settings["course_jobs"].job(*self.named()).cancel(wait=False)
        except JobError as error:
            return str(error)
        return ""


class Nowhere(Page):
    """Answer 404, with a link back, for unknown addresses below the start page."""

    @authenticated
    def get(self) -> None:
        raise HTTPError(404, reason="No such page")


PAGES = [
    (r"/course/?", Start), (r"/course/receipt", Receipt), (r"/course/jobs/?", Jobs), (r"/course/job", Job),
    (r"/course/cancel", Cancel),
]  # fmt: skip


def points(curves: dict[str, Any]) -> drawings.Curves:
    """Return {label: [(x, y)]} for some curves of `cluster.jobs.show`."""
    return {label: curve.points() for label, curve in curves.items()}


def summary(jobs: list) -> str:
    """Return '1 running, 2 pending, 7 ended.', which a screen reader announces on a change."""
    if not jobs:
        return "No jobs so far."
    running = sum(job["state"] == "running" for job in jobs)
    pending = sum(job["state"] == "pending" for job in jobs)
    counts = {"running": running, "pending": pending, "ended": len(jobs) - running - pending}
    return ", ".join(f"{n} {state}" for state, n in counts.items() if n) + "."


def coded(text: str) -> Markup:
    """Return a sentence as HTML, with the `names` in it as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def state_class(state: str) -> str:
    """Return the style of a state."""
    return state if state in ("pending", "running", "done") else "bad"


def when(moment: datetime.datetime | float) -> str:
    """Format a local time, such as 'Sat 21 Nov, 20:04 UTC', with the year unless it is the current one."""
    if isinstance(moment, (int, float)):
        moment = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    local = moment.astimezone()
    year = "" if local.year == datetime.date.today().year else f" {local.year}"
    return f"{local:%a} {local.day} {local:%b}{year}, {local:%H:%M %Z}"


def marked(write: Callable[..., str]) -> Callable[..., Markup]:
    """Return a function that formats a time with `write`, and marks it for live.js to add the local time."""

    def with_mark(moment: datetime.datetime | float) -> Markup:
        if isinstance(moment, (int, float)):
            moment = datetime.datetime.fromtimestamp(moment, datetime.UTC)
        return Markup('{}<time datetime="{}"></time>').format(write(moment), moment.isoformat())

    return with_mark


def exactly(moment: datetime.datetime) -> str:
    """Format a time to the second, with its year, such as 'Sat 21 Nov 2026, 20:04:10 UTC'."""
    local = moment.astimezone()
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M:%S %Z}"


def until(moment: datetime.datetime) -> str:
    """Format the time to or since a due date, such as 'in 3 days' or '5 hours ago'."""
    seconds = (moment - datetime.datetime.now(datetime.UTC)).total_seconds()
    for name, unit in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if (n := int(abs(seconds) // unit)) or name == "minute":
            break
    text = f"{n} {name}{'s' * (n != 1)}"
    return f"in {text}" if seconds > 0 else f"{text} ago"
