"""Send final points to a learning management system: LTI 1.3, Assignment and Grade Services (1EdTech, AGS
2.0).

An assignment is one line item of the platform's course, identified by a resource ID, which is the
assignment's name. Accepted scores are recorded after each student, so the same command sends only new ones:

    <private>/lti/private.pem          the key by which the platform knows this course (0600)
    <private>/lti/<assignment>.json    {"line item", "scores": {student: {"user", "points", "of", "when"}}}

`python -m cluster.staff.lti.grade_passback`, in the course's root, creates the key if there is none and
prints the public key (a JSON Web Key Set). The hub's login records a user's ID on the platform, and the URL
of the platform's line items (`c.Lti.folder` names that folder). score_service sends the scores.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.system import files
from cluster.system.text import printable

from ..course import Course, CourseError
from ..platforms import is_encrypted
from ..results.export import finals
from ..submissions import grading_folder
from .platform_login import LINKS, PLATFORM
from .score_service import ITEMS, SCORE, PlatformError, Registration, Score, ScoreService, public_key

if TYPE_CHECKING:
    from nbgrader.api import Gradebook

KEY = "private.pem"
BITS = 2048  # bits of an RSA key; LTI 1.3 signs with RS256
# consecutive rejected scores after which sending stops, because the error does not depend on the student
STOP = 3


@dataclass
class Plan:
    """The scores to send, the unchanged ones, and the students left out, with the reason and what to do."""

    assignment: str
    of: float
    send: dict[str, Score] = field(default_factory=dict)
    same: dict[str, Score] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    # the platform's current points for the scores in `send`
    before: dict[str, float] = field(default_factory=dict)


@dataclass
class Outcome:
    """What was sent. done: students. failed: {student: the platform's answer}. stopped: the reason, or ""."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: str = ""


def folder(private: Path) -> Path:
    """Return the folder with key and records, accessible only to their owner."""
    path = private / "lti"
    private.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def private_key(private: Path) -> str:
    """Return the course's key (PEM), created if there is none."""
    from jwcrypto.jwk import JWK

    path = folder(private) / KEY
    if not path.exists():
        key = JWK.generate(kty="RSA", size=BITS).export_to_pem(private_key=True, password=None)
        files.write(path, key, mode=0o600, sync=True)
    return path.read_text()


def public_keys(private: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Return the JSON Web Key Set that the platform checks signatures with."""
    from pylti1p3.registration import Registration as Tool

    return {"keys": Tool().set_tool_public_key(public_key(private_key(private))).get_jwks()}


def registration(course: Course) -> Registration:
    """Return where to send scores. Raises CourseError, which states what is missing and how to fix it."""
    named = course.config.get("Lti", {}).get("folder")
    if not named:
        raise CourseError(
            "this course is not registered with a learning management system, because the hub's settings "
            "have no [lti] (cluster/staff/hub/README.md, LTI); `grade export` writes files to import"
        )
    platform, links = (files.read_json(Path(named) / name) or {} for name in (PLATFORM, LINKS))
    if not platform.get("token_url"):
        raise CourseError(
            "the hub's settings have no lti.token_url, so no scores can be sent; set it, and restart the hub"
        )
    if links.get("issuer") != platform["issuer"]:
        links = {}
    contexts = {
        number: context for number, context in links.get("contexts", {}).items()
        if platform["context"] in ("", number)
    }  # fmt: skip
    if not contexts:
        which = f" {platform['context']!r} (lti.context)" if platform["context"] else ""
        raise CourseError(
            f"no instructor has opened the hub from a course{which} of {platform['issuer']} yet, so "
            "the destination of scores is unknown; open the hub's link there once as an instructor"
        )
    if len(contexts) > 1:
        known = ", ".join(f"{n!r} ({printable(c['title'])})" for n, c in contexts.items())
        raise CourseError(
            f"instructors have opened the hub from {len(contexts)} courses of the platform: {known}. Set "
            "lti.context in the hub's settings to one of them, and restart the hub"
        )
    [(number, context)] = contexts.items()
    if not context["lineitems"] or not {ITEMS, SCORE} <= set(context["scope"]):
        raise CourseError(
            f"the platform's course {number!r} ({printable(context['title'])}) does not let this tool "
            "send scores. Let it manage grade items and send scores (Moodle: IMS LTI Assignment and "
            "Grade Services, grade sync and column management), then open the hub's link there once as "
            "an instructor"
        )
    if not is_encrypted(context["lineitems"]):
        raise CourseError(
            f"the platform accepts scores at {context['lineitems']!r}, which is not encrypted (https)"
        )
    return Registration(
        platform["issuer"], platform["client_id"], platform["token_url"], platform["audience"],
        number, context["title"], context["lineitems"], links["people"],
    )  # fmt: skip


def plan(
    course: Course, book: Gradebook, assignment: str, where: Registration, only: list[str] | None
) -> Plan:
    """Return what must be sent. No request is sent. only: these students. Raises CourseError."""
    worth, rows, waiting = finals(book, [assignment])
    known = {person.id for person, _ in rows}
    if unknown := sorted(set(only or []) - known):
        raise CourseError(
            f"--student {', '.join(unknown)}: not in the gradebook, which has {', '.join(sorted(known))}"
        )
    result, sent = Plan(assignment, worth[assignment]), _sent(course, assignment)["scores"]
    if not result.of > 0:
        raise CourseError(
            f"{assignment} has {result.of:g} points in total, and a platform accepts only positive scores"
        )
    for person, (points,) in rows:
        if points is None or (only and person.id not in only):
            continue
        if (person.id, assignment) in waiting:
            result.left[person.id] = (
                "the submission needs manual grading in Formgrader › Manual Grading before it counts"
            )
        elif person.id not in where.people:
            result.left[person.id] = (
                "has never logged in to the hub from the platform: ask them to open its link there once"
            )
        else:
            score = Score(where.people[person.id], points, result.of)
            last = sent.get(person.id)
            unchanged = last is not None and Score(last["user"], last["points"], last["of"]) == score
            (result.same if unchanged else result.send)[person.id] = score
            if last and not unchanged:
                result.before[person.id] = last["points"]
    return result


def send(course: Course, made: Plan, where: Registration, say: Callable[[str], None]) -> Outcome:
    """Send the scores. An error of one student does not affect the others.

    If it is interrupted (by an error, a kill or a full disk), the same call resumes after the last student
    whose score was recorded. A score that is sent again replaces the previous one on the platform.
    Raises CourseError if nothing can be sent at all.
    """
    if not made.send and not made.same:
        return Outcome()  # avoids an empty column on the platform
    path = folder(course.private) / f"{made.assignment}.json"
    with _alone(path.with_suffix(".lock")), contextlib.closing(_service(course, where)) as service:
        try:
            item = service.line_item(made.assignment, made.of)
        except PlatformError as error:
            raise CourseError(f"{error}. Nothing was sent; {_remedy(error)}") from None
        record = _sent(course, made.assignment)
        # another course, or the item was deleted on the platform with its scores
        if record["line item"] != item.get_id():
            record = {"line item": item.get_id(), "scores": {}}
            made.send, made.same = made.same | made.send, {}
        if (most := item.get_score_maximum()) and most != made.of:
            say(
                f"  note: the platform's column has {most:g} points, not {made.of:g}, so it scales the scores"
            )
        outcome, in_a_row = Outcome(), 0
        for student, score in sorted(made.send.items()):
            try:
                when = service.put(item, score)
            except PlatformError as error:
                outcome.failed[student] = str(error)
                in_a_row += 1
                if error.status in (0, 401) or in_a_row == STOP:
                    count = f"{len(outcome.done)} of {len(made.send)} sent"
                    outcome.stopped = f"stopped at {student} with {count}; {_remedy(error)}"
                    break
                continue
            in_a_row = 0
            record["scores"][student] = {
                "user": score.user, "points": score.points, "of": score.of, "when": when
            }  # fmt: skip
            grading_folder.write(path, json.dumps(record, indent=1))
            outcome.done.append(student)
        return outcome


def _service(course: Course, where: Registration) -> ScoreService:
    """Return the platform's service, authenticated with the course's key."""
    if not (folder(course.private) / KEY).exists():
        raise CourseError(
            "the course's key is missing: start the hub, which creates it and publishes it for the platform"
        )
    return ScoreService(where, private_key(course.private))


def _remedy(error: PlatformError) -> str:
    """Return what to do about an error that affects all students."""
    if error.status in (400, 401, 403):
        return (
            "check that client_id, token_url and audience of the hub's [lti] are the platform's, that it "
            "knows the hub's public keyset URL and lets this tool send scores; then run the same command "
            "again"
        )
    return "the same command resumes sending"


def _sent(course: Course, assignment: str) -> dict[str, Any]:
    """Return the record of an assignment's sent scores."""
    record = grading_folder.load(folder(course.private) / f"{assignment}.json")
    return record or {"line item": None, "scores": {}}


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with files.lock(path, wait=False) as held:
        if not held:
            raise CourseError(f"{path.stem} is being sent by another `grade lti`; wait until that ends")
        yield


if __name__ == "__main__":
    print(json.dumps(public_keys(Path.cwd() / ".grading")))
