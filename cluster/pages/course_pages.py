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
from .user_jobs import NoSuchJob, grouped

# Scripts by their nonce, because this server also serves the scripts that students have submitted.
POLICY = "default-src 'none'; script-src 'nonce-{}'; style-src 'self'; img-src 'self' data:; "
POLICY += "connect-src 'self'; base-uri 'none'; form-action 'self'"
# A fetched page has a separate origin, runs no scripts, and can be framed only by this server's pages.
ALONE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
ALONE += "frame-ancestors 'self'; base-uri 'none'; form-action 'none'; sandbox allow-scripts"


class Page(ExtensionHandlerJinjaMixin, ExtensionHandlerMixin, JupyterHandler):
    """A page of the course. Templates get the URLs they need, and the policy permits no other scripts."""

    pool = "course_pool"  # the setting with the thread that reads files

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

    async def in_thread(self, call: Any, *arguments: Any) -> Any:
        """Run a call that reads files or queries Slurm in a thread, to keep the server responsive."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.settings[self.pool], call, *arguments)
        except NoSuchJob as error:
            raise HTTPError(404, log_message=str(error), reason="No such job") from None

    def show(self, template: str, **values: Any) -> None:
        """Answer with a page; all templates get the values below in addition to `values`."""
        base = self.base_url + "course"
        self.set_header("Cache-Control", "no-store")
        self.finish(
            self.render_template(
                template, base=base, lab=self.lab, job_url=self.job_url,
                static=self.static_url, nonce=self.nonce, when=marked(when), when_text=when, until=until,
                exactly=marked(exactly), chart=drawings.chart,
                state_class=state_class, coded=coded, form=self.xsrf_form_html, receipt_url=self.receipt_url,
                feedback_url=self.feedback_url,
                class_page=self.settings["course_panel"].class_page,
                check=self.settings["course_panel"].check,
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

    def job_url(self, path: str, item: int | None = None, page: str = "job") -> str:
        """Return the URL of a job's page, or of another page about it."""
        query = {"of": path} | ({} if item is None else {"item": item})
        return f"{self.base_url}course/{page}?{urlencode(query)}"

    def receipt_url(self, assignment: str, key: str, **more: str) -> str:
        """Return the URL of a submission's receipt."""
        return f"{self.base_url}course/receipt?{urlencode({'of': assignment, 'at': key} | more)}"

    def feedback_url(self, assignment: str, page: str = "feedback") -> str:
        """Return the URL of the newest feedback on an assignment, and of the page inside its frame."""
        return f"{self.base_url}course/{page}?{urlencode({'of': assignment})}"

    def mine(self) -> list[course_map.Assignment]:
        """Return the assignments of this server's user."""
        return mine(self.settings["course_panel"], self.settings["course_jobs"].root)

    def exchange(self) -> tuple[Path, Any, str]:
        """Return (server's root, nbgrader's Assignment List or None, its folder of released assignments)."""
        manager = self.settings.get("assignment_list_manager")
        return self.settings["course_jobs"].root, manager, self.settings["course_panel"].released

    def job_of_request(self) -> tuple[str, int | None]:
        """Return (path of the requested job's folder below the root, item of a sweep)."""
        path, item = self.get_argument("of"), self.get_argument("item", None)
        if item is not None and not re.fullmatch(r"\d{1,6}", item):
            raise HTTPError(404, reason="No such job")
        return path, None if item is None else int(item)


class Start(Page):
    """The map of the course."""

    @authenticated
    async def get(self) -> None:
        if "class_page" in self.settings:  # on the grader's server, the map for instructors is the class page
            return self.redirect(f"{self.base_url}course/class")
        app, root = self.settings["course_panel"], self.settings["course_jobs"].root
        lectures, assignments, units = await self.in_thread(self.course)
        jobs, _ = await self.in_thread(self.settings["course_jobs"].lines)
        active = [job for job in jobs if not job.ended]
        self.show(
            "start.html", lectures=lectures, assignments=assignments, active=active, jobs=len(jobs),
            seen=app.progress, step=course_map.suggested(lectures, assignments),
            copies=app.copies, released=app.released, shut_out=course_map.shut_out(app.released),
            glossary=course_map.glossary(root, app.lectures),
            fetches="assignment_list_manager" in self.settings, **map_of(units, lectures, assignments),
        )  # fmt: skip

    def course(self) -> tuple[list[course_map.Lecture], list[course_map.Assignment], list[course_map.Unit]]:
        """Return the course's units, this user's progress and the schedule."""
        app, root = self.settings["course_panel"], self.settings["course_jobs"].root
        units, own = course_map.units(root / app.lectures), mine(app, root)
        hours = {unit.number: unit.hours for unit in units}
        for item in own:
            item.hours = hours.get(item.number, "")
        return course_map.lectures(root, app.lectures, app.copies), own, units


def map_of(
    units: list[course_map.Unit],
    lectures: list[course_map.Lecture],
    assignments: list[course_map.Assignment],
) -> dict[str, Any]:
    """Return the drawing of the units, and the units whose lecture is not released yet."""
    here = {lecture.number for lecture in lectures}
    done = {item.number for item in assignments if item.last}
    to_come = [unit for unit in units if unit.number not in here]
    return {"units": units, "unit_map": drawings.unit_map(units, here, done), "to_come": to_come}


class Receipt(Page):
    """A submission: when the course's server received it, whether it was on time, and its files' hashes."""

    @authenticated
    async def get(self) -> None:
        facts = await self.in_thread(self.receipt, self.get_argument("of"), self.get_argument("at"))
        if not facts:
            raise HTTPError(404, reason="No such submission")
        if self.get_argument("as", "") == "text":
            self.set_header("Content-Type", "text/plain; charset=UTF-8")
            self.set_header(
                "Content-Disposition", f'attachment; filename="receipt-{facts["one"].number}.txt"'
            )
            self.finish(self.render_template("receipt.txt", exactly=exactly, **facts))
            return
        notebooks = [row for row in facts["files"] if row[0].endswith(".ipynb")]
        others = [row for row in facts["files"] if row not in notebooks]
        self.show("receipt.html", notebooks=notebooks, others=others, **facts)

    def receipt(self, assignment: str, key: str) -> dict[str, Any] | None:
        """Return the page's data on one submission, or None if it is not this user's."""
        for one in self.mine():
            for n, hand_in in enumerate(one.hand_ins, 1):
                if (one.name, hand_in.key) == (assignment, key):
                    facts = {"one": one, "hand_in": hand_in, "n": n, "user": shared_folder.person()}
                    return facts | {"files": receipts.files(hand_in)}
        return None


class Feedback(Page):
    """A page that shows the newest feedback on an assignment in a frame."""

    @property
    def content_security_policy(self) -> str:
        return super().content_security_policy + "; frame-src 'self'"

    def found(self) -> tuple[course_map.Assignment, Path]:
        """Return (the assignment, its feedback page), or raise 404."""
        name = self.get_argument("of")
        one = next((item for item in self.mine() if item.name == name and item.feedback), None)
        if one is None:
            raise HTTPError(404, reason="No feedback has been fetched")
        return one, self.settings["course_jobs"].root / one.feedback


class FeedbackAlone(Feedback):
    """The course's feedback page. Nothing in it runs, and only pages of this server can frame it."""

    @property
    def content_security_policy(self) -> str:
        return ALONE

    @authenticated
    async def get(self) -> None:
        _, path = await self.in_thread(self.found)
        self.set_header("Cache-Control", "no-store")
        self.finish(await self.in_thread(path.read_bytes))


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

    @authenticated
    async def get(self) -> None:
        jobs, unreadable = await self.in_thread(self.settings["course_jobs"].lines)
        self.show("jobs.html", groups=grouped(jobs), unreadable=unreadable, summary=summary(jobs))


class Job(Page):
    """One job, or one sweep with its items."""

    @authenticated
    async def get(self) -> None:
        path, item = self.job_of_request()
        self.show("job.html", path=path, item=item, **await self.in_thread(self.facts, path, item))

    def facts(self, path: str, item: int | None) -> dict[str, Any]:
        """Return the page's data on a job, a sweep, or an item of a sweep."""
        work = self.settings["course_jobs"]
        job = work.job(path, item)
        view, items = work.view(job)
        sweep = hasattr(job, "statuses")
        return {
            "job": job,
            "sweep": sweep,
            "status": job.status,
            "view": view,
            "items": items,
            "command": job.spec.get("command", ""),
            "script": "" if sweep else job.script(),
        }


class Cancel(Page):
    """Ask whether to cancel a job, and cancel it."""

    @authenticated
    async def get(self) -> None:
        path, item = self.job_of_request()
        job, status = await self.in_thread(self.job_and_status, path, item)
        self.show("cancel.html", path=path, item=item, job=job, status=status, trouble="")

    @authenticated
    async def post(self) -> None:
        path, item = self.job_of_request()
        job, status, trouble = await self.in_thread(self.end, path, item)
        if trouble:
            self.set_status(503)
            return self.show("cancel.html", path=path, item=item, job=job, status=status, trouble=trouble)
        self.redirect(self.job_url(path, item))

    def job_and_status(self, path: str, item: int | None) -> tuple[Any, Any]:
        """Return the job and its current status."""
        job = self.settings["course_jobs"].job(path, item)
        return job, job.status

    def end(self, path: str, item: int | None) -> tuple[Any, Any, str]:
        """Cancel a job. Return the job, its status, and the reason if it could not be cancelled."""
        from cluster.jobs.errors import JobError

        job = self.settings["course_jobs"].job(path, item)
        try:
            job.cancel(wait=False)
        except JobError as error:
            return job, job.status, str(error)
        return job, job.status, ""


class Nowhere(Page):
    """Answer 404, with a link back, for unknown addresses below the start page."""

    @authenticated
    def get(self) -> None:
        raise HTTPError(404, reason="No such page")


PAGES = [
    (r"/course/?", Start), (r"/course/receipt", Receipt), (r"/course/jobs/?", Jobs), (r"/course/job", Job),
    (r"/course/cancel", Cancel), (r"/course/feedback/page", FeedbackAlone),
]  # fmt: skip


def summary(jobs: list) -> str:
    """Return '1 running, 2 pending, 7 ended.', which a screen reader announces on a change."""
    if not jobs:
        return "No jobs so far."
    running = sum(job.state == "running" for job in jobs)
    pending = sum(job.state == "pending" for job in jobs)
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
