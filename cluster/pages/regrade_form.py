"""Regrade requests: a student's reason is sent to the course, and a grader's answer comes back.

Both are files in the folder that the course and the student share (`shared_folder`):

    requests.json    {key: {"reason", "at"}}         written by the student's server
    answers.json     {key: {"answer", "by", "at"}}   written by the course

A key consists of assignment, submission and check. There is one request per key.
"""

from __future__ import annotations

import html
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tornado.web import HTTPError, authenticated

from cluster.system import files

from . import course_map, shared_folder
from .course_pages import Feedback
from .receipts import json_or_empty

REQUESTS, ANSWERS = "requests.json", "answers.json"
LONGEST = 2000  # maximum characters of a reason, and of an answer
ROW = re.compile(r'<tr class="\w*">\s*<td>.*?</td>\s*<td><a href="#([^"]+)">(.*?)</a>', re.DOTALL)
TAG = re.compile(r"<annotation.*?</annotation>|<[^>]+>", re.DOTALL)


@dataclass
class Request:
    """One request. at, answered: seconds since the epoch. answer: "" until there is one."""

    check: str
    title: str
    reason: str
    at: float
    answer: str = ""
    by: str = ""
    answered: float = 0.0


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


def requests(own: Path | None, assignment: str, page: Path) -> list[Request]:
    """Return the requests about the submission on a feedback page, in the order of its checks."""
    sent, answers = (entries(own / name) if own else {} for name in (REQUESTS, ANSWERS))
    result = []
    for check, title in checks(page).items():
        name = key(assignment, page.parent.name, check)
        if asked := sent.get(name):
            answer = answers.get(name) or {"answer": "", "by": "", "at": 0.0}
            about = answer["answer"], answer["by"], answer["at"]
            result.append(Request(check, title, asked["reason"], asked["at"], *about))
    return result


def entries(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of one of the files; {} if it is missing or unreadable."""
    data = json_or_empty(path)
    return data if isinstance(data, dict) and all(isinstance(item, dict) for item in data.values()) else {}


def write(own: Path, name: str, reason: str) -> None:
    """Add a request to the student's file, which is replaced atomically. Raises OSError."""
    sent = entries(own / REQUESTS) | {name: {"reason": reason, "at": time.time()}}
    files.write_json(own / REQUESTS, sent, mode=0o640, sync=True)


class FeedbackPage(Feedback):
    """The newest feedback on an assignment, with this student's regrade requests and a form for another."""

    @authenticated
    async def get(self) -> None:
        self.show("feedback.html", trouble="", given={}, **await self.in_thread(self.facts))

    @authenticated
    async def post(self) -> None:
        given = {name: self.get_body_argument(name, "") for name in ("check", "reason")}
        facts = await self.in_thread(self.facts)
        trouble = await self.in_thread(self.asked, facts, given)
        if trouble:
            self.set_status(400)
            return self.show("feedback.html", trouble=trouble, given=given, **facts)
        self.redirect(f"{self.feedback_url(facts['one'].name)}#requests", status=303)

    def facts(self) -> dict[str, Any]:
        """Return the page's data."""
        one, page = self.found()
        own = self.shared()
        sent = requests(own, one.name, page)
        asked = {request.check for request in sent}
        left = {check: title for check, title in checks(page).items() if check not in asked}
        return {"one": one, "requests": sent, "left": left if own else {}, "longest": LONGEST}

    def asked(self, facts: dict[str, Any], given: dict[str, str]) -> str:
        """Make a request; return why it could not be made, or "" if it was."""
        one: course_map.Assignment = facts["one"]
        reason, own = given["reason"].strip().replace("\r\n", "\n"), self.shared()
        if own is None:
            raise HTTPError(404, reason="This course does not accept regrade requests")
        if given["check"] not in facts["left"]:
            known = given["check"] in {request.check for request in facts["requests"]}
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
        own = shared_folder.folder(self.settings["course_panel"].people)
        return own if own and own.is_dir() else None


PAGES = [(r"/course/feedback", FeedbackPage)]
