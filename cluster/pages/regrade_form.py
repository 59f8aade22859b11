"""The feedback page, with regrade requests: a student's reason goes to the course, and an answer comes back.

Both are files in the folder that the course and the student share (`shared_folder`):

    requests.json    {key: {"reason", "at"}}         written by the student's server
    answers.json     {key: {"answer", "by", "at"}}   written by the course

A key consists of assignment, submission and check. There is one request per key.
"""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from typing import Any

from tornado.web import HTTPError, authenticated

from cluster.system import files

from . import course_map, shared_folder
from .course_pages import Page
from .receipts import json_or_empty

REQUESTS, ANSWERS = "requests.json", "answers.json"
LONGEST = 2000  # maximum characters of a reason, and of an answer
# A fetched page has a separate origin, runs no scripts, and can be framed only by this server's pages.
ALONE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
ALONE += "frame-ancestors 'self'; base-uri 'none'; form-action 'none'; sandbox allow-scripts"
ROW = re.compile(r'<tr class="\w*">\s*<td>.*?</td>\s*<td><a href="#([^"]+)">(.*?)</a>', re.DOTALL)
TAG = re.compile(r"<annotation.*?</annotation>|<[^>]+>", re.DOTALL)


def key(assignment: str, submission: str, check: str) -> str:
    """Return the name of a request in the files."""
    return f"{assignment}+{submission}+{check}"


def checks(page: Path) -> dict[str, str]:
    """Return the {check: title} listed on a feedback page, or {} if it is unreadable."""
    try:
        text = page.read_text(encoding="utf-8", errors="replace").partition("<main>")[0]
    except OSError:
        return {}
    return {html.unescape(name): html.unescape(TAG.sub("", title)) for name, title in ROW.findall(text)}


def requests(own: Path | None, assignment: str, page: Path) -> list[dict[str, Any]]:
    """Return the requests about the submission on a feedback page, in the order of its checks.

    at, answered: seconds since the epoch. answer: "" until there is one.
    """
    sent, answers = (entries(own / name) if own else {} for name in (REQUESTS, ANSWERS))
    result = []
    for check, title in checks(page).items():
        name = key(assignment, page.parent.name, check)
        if asked := sent.get(name):
            answer = answers.get(name) or {"answer": "", "by": "", "at": 0.0}
            request = {"check": check, "title": title, "reason": asked["reason"], "at": asked["at"]}
            request |= {"answer": answer["answer"], "by": answer["by"], "answered": answer["at"]}
            result.append(request)
    return result


def entries(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of one of the files; {} if it is missing or unreadable."""
    data = json_or_empty(path)
    return data if isinstance(data, dict) and all(isinstance(item, dict) for item in data.values()) else {}


def write(own: Path, name: str, reason: str) -> None:
    """Add a request to the student's file, which is replaced atomically. Raises OSError."""
    sent = entries(own / REQUESTS) | {name: {"reason": reason, "at": time.time()}}
    files.write_json(own / REQUESTS, sent, mode=0o640, sync=True)


def found(page: Page) -> tuple[course_map.Assignment, Path]:
    """Return (the requested assignment, its feedback page), or raise 404."""
    one = page.assignment()
    if not one.feedback:
        raise HTTPError(404, reason="No feedback has been fetched")
    return one, page.root / one.feedback


class Feedback(Page):
    """The newest feedback on an assignment in a frame, with this student's regrade requests and a form."""

    template = "feedback.html"

    @property
    def content_security_policy(self) -> str:
        return super().content_security_policy + "; frame-src 'self'"

    @authenticated
    async def post(self) -> None:
        given = {name: self.get_body_argument(name, "") for name in ("check", "reason")}
        facts = await self.in_thread(self.facts)
        if trouble := await self.in_thread(self.ask, facts, given):
            await self.answer(400, trouble=trouble, given=given)
        else:
            self.redirect(self.url("feedback", of=facts["one"].name) + "#requests", status=303)

    def facts(self) -> dict[str, Any]:
        """Return the assignment, the requests, and the checks without one."""
        one, page = found(self)
        own = self.shared()
        sent = requests(own, one.name, page)
        asked = {request["check"] for request in sent}
        left = {check: title for check, title in checks(page).items() if check not in asked}
        return {"one": one, "requests": sent, "left": left if own else {}, "longest": LONGEST, "given": {}}

    def ask(self, facts: dict[str, Any], given: dict[str, str]) -> str:
        """Make a request; return why it could not be made, or "" if it was."""
        one: course_map.Assignment = facts["one"]
        reason, own = given["reason"].strip().replace("\r\n", "\n"), self.shared()
        if own is None:
            raise HTTPError(404, reason="This course does not accept regrade requests")
        if given["check"] not in facts["left"]:
            known = given["check"] in {request["check"] for request in facts["requests"]}
            return "You have already made a request for this check." if known else "Choose a check."
        if not reason or len(reason) > LONGEST:
            return f"Give a reason of at most {LONGEST:,} characters; yours has {len(reason):,}."
        submission = Path(one.feedback).parent.name
        try:
            write(own, key(one.name, submission, given["check"]), reason)
        except OSError as error:
            return f"The request could not be saved: {error.strerror}. Try again."
        return ""

    def shared(self) -> Path | None:
        """Return the folder that is shared with the course, or None if there is none."""
        own = shared_folder.folder(self.panel.people)
        return own if own and own.is_dir() else None


class FeedbackAlone(Page):
    """The course's feedback page. Nothing in it runs, and only pages of this server can frame it."""

    @property
    def content_security_policy(self) -> str:
        return ALONE

    @authenticated
    async def get(self) -> None:
        _, path = await self.in_thread(found, self)
        self.set_header("Cache-Control", "no-store")
        self.finish(await self.in_thread(path.read_bytes))


PAGES = [(r"/course/feedback", Feedback), (r"/course/feedback/page", FeedbackAlone)]
