"""The class page's handlers. All need access to the grader's server; actions are POSTs with an XSRF token."""

from __future__ import annotations

import datetime
import math
import time
import zoneinfo
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup
from tornado.web import HTTPError, authenticated

from cluster.pages import drawings
from cluster.pages.course_pages import Page

from ..course import gradebook_error
from ..official_check.attempt_limits import Records, curve
from ..platforms import PLATFORMS
from . import roles
from .actions import Action, ActionError, Actions, duration
from .form_commands import BUTTONS, Button, blocker, grade_command, graders_may, moment, next_step
from .regrade_requests import Request
from .sheets import REPORT_FILES, Sheet, Sheets

FORMS = {name: platform for name, platform in PLATFORMS.items() if platform.columns}
FEWEST = 4  # minimum number of checks to draw a curve
LONG = 96  # hours; above this, a curve's axis is in days
REPORTS = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class ClassHandler(Page):
    """A page of the class: its facts are read in a thread of the class pages."""

    pool = "class_pool"

    @property
    def instructs(self) -> bool:
        """Whether the user has more rights than a grader."""
        return roles.instructs(self.current_user, self.settings["class_instructors"])

    @property
    def me(self) -> str:
        """The user's name."""
        return getattr(self.current_user, "username", "")

    def write_error(self, status_code: int, **about: Any) -> None:
        """Show an error as a page; a damaged gradebook with the remedy."""
        from sqlalchemy.exc import DatabaseError

        error = about.get("exc_info", (None, None))[1]
        if not isinstance(error, DatabaseError):
            return super().write_error(status_code, **about)
        self.set_status(503)
        Page.show(self, "damaged.html", words=gradebook_error(error))

    def buttons(self) -> dict[str, Button]:
        """Return the buttons that the user may press."""
        return {do: button for do, button in BUTTONS.items() if self.instructs or button.graders}

    def show(self, template: str, **values: Any) -> None:
        """Answer with a page of the class."""
        super().show(
            template,
            buttons=self.buttons(),
            instructs=self.instructs,
            me=self.me,
            blocker=blocker,
            next_step=next_step,
            sheet_url=self.sheet_url,
            formgrader=self.formgrader,
            below=self.below,
            due_fields=due_fields,
            duration=duration,
            elapsed=lambda since: duration(time.time() - since),
            **values,
        )

    def check_role(self, do: str) -> None:
        """Raise HTTPError 403 if a grader requests an instructor's action."""
        if not self.instructs and not graders_may(do):
            raise HTTPError(403, reason=roles.REFUSED)

    def sheet_url(self, name: str, page: str = "assignment", **more: str) -> str:
        """Return the URL of an assignment's page, or of another page about it."""
        return f"{self.base_url}course/class/{page}?{urlencode({'of': name} | more)}"

    def below(self, path: str) -> str:
        """Return a URL below this server's own."""
        return self.base_url + path

    def formgrader(self, page: str, name: str = "") -> str:
        """Return the URL of a page in Formgrader."""
        return f"{self.base_url}formgrader/{page}" + (f"/{quote(name)}" if name else "")

    async def sheet(self) -> tuple[Sheet, Action | None]:
        """Return the requested assignment and its last action, or raise 404."""
        view, last = await self.in_thread(self.look, self.get_argument("of"))
        if view is None:
            raise HTTPError(404, reason="No such assignment")
        return view, last

    async def show_assignment(
        self, sheet: Sheet, last: Action | None, given: dict[str, str], trouble: str = ""
    ) -> None:
        """Answer with an assignment's page. given: the form that could not be used, because of `trouble`."""
        about = await self.in_thread(self.about, sheet)
        when = {"zone": zone(), "today": time.strftime("%Y-%m-%d")}
        self.show("assignment.html", sheet=sheet, last=last, given=given, trouble=trouble, **about, **when)

    def checks(self, name: str) -> dict[str, Any]:
        """Return data on the use of the official check: its limits, attempts, the class's curves."""
        records = Records(self.settings["class_sheets"].root / ".grading" / "checks", name)
        tries = {student: own for student, own in records.all().items() if own}
        counted, shares = curve(tries)
        charts = check_charts(some(counted), some(shares)) if len(counted) >= FEWEST else []
        return {"limits": records.limits, "tries": tries, "charts": charts}

    def about(self, sheet: Sheet) -> dict[str, Any]:
        """Return what the assignment's page shows besides its table: official checks and regrade requests."""
        requests = [request for request in self.requests([sheet]) if request.assignment == sheet.name]
        return self.checks(sheet.name) | {"requests": requests}

    def requests(self, sheets: list[Sheet]) -> list[Request]:
        """Return all regrade requests, including those that students have just submitted."""
        kept = self.settings["class_requests"]
        kept.take({row.student for sheet in sheets for row in sheet.rows})
        return kept.all()

    def fresh(self) -> tuple[Sheets, Actions]:
        """Return the assignments, read again if an action has ended, and their actions."""
        sheets, actions = self.settings["class_sheets"], self.settings["class_actions"]
        if actions.ended():
            sheets.renew()
        return sheets, actions

    def look(self, name: str) -> tuple[Sheet | None, Action | None]:
        """Return the assignment with this name and its last action, or (None, None) if there is none."""
        sheets, actions = self.fresh()
        view = sheets.one(name)
        return view, actions.last(name) if view else None


class Class(ClassHandler):
    """All assignments."""

    @authenticated
    async def get(self) -> None:
        sheets, last = await self.in_thread(self.sheets_and_actions)
        requests = await self.in_thread(self.requests, sheets)
        waiting = Counter(request.assignment for request in requests if not request.answer)
        self.show(
            "class.html",
            sheets=sheets,
            last=last,
            waiting=waiting,
            forms=FORMS,
            any_graded=any(sheet.points for sheet in sheets),
            to_look_at=sum(sheet.count("look") for sheet in sheets),
        )

    def sheets_and_actions(self) -> tuple[list[Sheet], dict[str, Action | None]]:
        """Return all assignments, and the last action of each by its name."""
        known, actions = self.fresh()
        sheets = known.all()
        return sheets, {sheet.name: actions.last(sheet.name) for sheet in sheets}


class Assignment(ClassHandler):
    """One assignment: its students, its dates, the available actions."""

    @authenticated
    async def get(self) -> None:
        await self.show_assignment(*await self.sheet(), {})


class Ask(ClassHandler):
    """Ask for confirmation before something is released to students."""

    @authenticated
    async def get(self) -> None:
        sheet, last = await self.sheet()
        button = BUTTONS.get(self.get_argument("do"))
        if button is None or not button.asks:
            raise HTTPError(404, reason="No such action")
        self.check_role(self.get_argument("do"))
        self.show("ask.html", sheet=sheet, last=last, button=button, do=self.get_argument("do"))


class Do(ClassHandler):
    """Start an action, and show the assignment's page with its log."""

    @authenticated
    async def post(self) -> None:
        sheet, last = await self.sheet()
        form = {
            name: self.get_body_argument(name, "")
            for name in ("do", "date", "time", "zone", "student", "days", "an_hour", "in_all", "sure")
        }
        self.check_role(form["do"])
        who = self.me or "an instructor"
        try:
            if form["do"] == "stop":
                await self.in_thread(self.settings["class_actions"].stop, sheet.name, who)
                return self.redirect(self.sheet_url(sheet.name) + "#action", status=303)
            title, command = grade_command(sheet, form)
            if past := past_due_date(form):
                button = Button("Set the past due date of", "due", asks="The due date is in the past.")
                return self.show(
                    "ask.html", sheet=sheet, last=last, button=button, do="due", past=past, given=form
                )
            await self.in_thread(self.settings["class_actions"].start, sheet.name, title, command, who)
        except ActionError as error:
            self.set_status(error.status)
            return await self.show_assignment(sheet, last, form, str(error))
        self.settings["class_sheets"].renew()
        self.redirect(self.sheet_url(sheet.name) + "#action", status=303)


class Answer(ClassHandler):
    """Answer a regrade request, and show the assignment's page."""

    @authenticated
    async def post(self) -> None:
        sheet, last = await self.sheet()
        form = {name: self.get_body_argument(name, "") for name in ("student", "key", "answer")}
        answer = self.settings["class_requests"].answer
        try:
            await self.in_thread(answer, *form.values(), self.me or "an instructor")
        except ActionError as error:
            self.set_status(error.status)
            return await self.show_assignment(sheet, last, form | {"do": "answer"}, str(error))
        self.redirect(self.sheet_url(sheet.name) + "#requests-head", status=303)


class Report(ClassHandler):
    """A report written by `grade report` or `grade similar`: figures and tables without scripts."""

    @property
    def content_security_policy(self) -> str:
        return f"frame-ancestors 'self'; {REPORTS}"

    @authenticated
    async def get(self, report: str) -> None:
        sheet, _ = await self.sheet()
        path = self.settings["class_sheets"].root / ".grading/reports" / sheet.name / REPORT_FILES[report]
        if not path.is_file():
            raise HTTPError(404, reason="No report yet")
        self.set_header("Cache-Control", "no-store")
        self.finish(await self.in_thread(path.read_bytes))


class Points(ClassHandler):
    """The final points of all assignments as a file, as `grade export` writes it."""

    @authenticated
    async def get(self) -> None:
        form = self.get_argument("for")
        if form not in FORMS:
            raise HTTPError(404, reason="No such file")
        text = await self.in_thread(self.table, form)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", "text/csv; charset=UTF-8")
        self.set_header("Content-Disposition", f'attachment; filename="grades-{form}.csv"')
        self.finish(text)

    def table(self, form: str) -> str:
        """Return all points in the gradebook as CSV."""
        from ..course import Course, opened
        from ..results.export import export

        with opened(Course(self.settings["class_sheets"].root)) as book:
            return export(book, sorted(row.name for row in book.assignments), form)[0]


def check_charts(counted: list[tuple[float, float]], shares: list[tuple[float, float]]) -> list[Markup]:
    """Return the curves of `limits.curve` as two drawings with the same horizontal axis."""
    unit, scale = ("days", 24) if counted[-1][0] > LONG else ("hours", 1)
    across = (0, max(1, math.ceil(counted[-1][0] / scale)))
    drawn = []
    for caption, points, top in (
        ("checks so far", counted, counted[-1][1]),
        ("median of the best scores, %", shares, 100),
    ):
        line = [(x / scale, y) for x, y in points]
        axis = f"{unit} since the first check"
        drawn.append(drawings.chart(axis, caption, {caption: line}, across=across, up=(0, top)))
    return [chart for chart in drawn if chart]


def some(points: list[tuple[float, float]], most: int = 300) -> list[tuple[float, float]]:
    """Thin out a curve to about `most` points, always including the last."""
    step = -(-len(points) // most)
    return points[::step] + (points[-1:] if (len(points) - 1) % step else []) if points else []


def due_fields(due: datetime.datetime | None) -> dict[str, str]:
    """Return the initial values of the due date's form: the current one, in this machine's time zone."""
    if due is None:
        return {"date": "", "time": "23:59", "zone": zone()}
    local = due.astimezone(zoneinfo.ZoneInfo(zone()))
    return {"date": f"{local:%Y-%m-%d}", "time": f"{local:%H:%M}", "zone": zone()}


def past_due_date(form: dict[str, str]) -> datetime.datetime | None:
    """Return the due date of a form if it is in the past and the instructor has not confirmed it yet."""
    from ..submissions import due_dates

    if form["do"] != "due" or form["sure"]:
        return None
    due = due_dates.moment(moment(form)).replace(tzinfo=datetime.UTC)
    return due if due < datetime.datetime.now(datetime.UTC) else None


def zone() -> str:
    """Return the name of this machine's time zone, which due dates use."""
    name = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
    return name if "/" in name and not name.startswith("Etc/") else "UTC"


PAGES = [
    (r"/course/class/?", Class), (r"/course/class/assignment", Assignment), (r"/course/class/ask", Ask),
    (r"/course/class/do", Do), (r"/course/class/answer", Answer), (r"/course/class/points", Points),
    (r"/course/class/(report|similar)", Report),
]  # fmt: skip
