"""Final points to a learning management system: LTI 1.3, Assignment and Grade Services (1EdTech, AGS 2.0).

An assignment is one line item of the platform's course, which is found again by its resource ID, the
assignment's name. What was sent is written down after each student, so the same command sends what is new:

    <private>/lti/private.pem          the key by which the platform knows this course (0600)
    <private>/lti/<assignment>.json    {"line item", "scores": {student: {"user", "points", "of", "when"}}}

`python -m cluster.staff.feedback.grade_passback`, in the course's root, makes the key where there is none
and prints the public one (a JSON Web Key Set). The hub's log-in writes down who somebody is on the
platform, and where its line items are (`c.Lti.folder` names that folder). PyLTI1p3 signs, asks for access
and sends.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import requests

from cluster.system import files
from cluster.system.text import printable

from ..classes import grading_folder
from ..course import Course, CourseError
from ..platforms import is_encrypted
from .export import finals

if TYPE_CHECKING:
    from nbgrader.api import Gradebook
    from pylti1p3.lineitem import LineItem

PLATFORM, LINKS = "platform.json", "links.json"
KEY = "private.pem"
TAG = "points"  # of the line items
BITS = 2048  # of an RSA key; LTI 1.3 signs with RS256
SCOPE = "https://purl.imsglobal.org/spec/lti-ags/scope"
ITEMS, SCORE = f"{SCOPE}/lineitem", f"{SCOPE}/score"
PATIENCE = 30.0  # seconds for an answer
WAITS = (2.0, 10.0)  # seconds before the second and the third try, where the platform names no other
LONGEST_WAIT = 60.0  # seconds, whatever the platform names
STOP = 3  # students in a row whose points are not taken: then it is not about them
AGAIN = (409, 429, 500, 502, 503, 504)  # after which a later request may succeed; 409: of the same second
ANSWER = 300  # characters of a platform's answer that are shown
CANVAS = {
    "https://canvas.instructure.com/lti/submission": {"new_submission": False}
}  # points, and no hand-in
NEEDED = "PyLTI1p3 is not installed: pip install -c constraints.txt PyLTI1p3, or cluster/setup.sh hub"


class PlatformError(Exception):
    """The platform did not take it; the message says what it answered.

    status: of HTTP, 0 without an answer. wait: seconds that it wants to be left alone.
    """

    def __init__(self, words: str, status: int = 0, wait: float = 0.0):
        super().__init__(words)
        self.status, self.wait = status, wait


@dataclass(frozen=True)
class Score:
    """What a student is to have on the platform. user: the platform's number of the person."""

    user: str
    points: float
    of: float


@dataclass
class Plan:
    """What is to be sent, what the platform has as it is, and who is left out, with reason and remedy."""

    assignment: str
    of: float
    send: dict[str, Score] = field(default_factory=dict)
    same: dict[str, Score] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)  # points that the platform has of those in `send`


@dataclass
class Outcome:
    """Whose points the platform has taken now; {student: its answer} of others; why it was stopped, or ""."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: str = ""


@dataclass(frozen=True)
class Registration:
    """The platform, as settings and instructors' log-ins have it. context: its course's number."""

    issuer: str
    client_id: str
    token_url: str
    audience: str
    context: str
    title: str
    lineitems: str
    people: dict[str, str]  # {user of the roster: the platform's number}


def folder(private: Path) -> Path:
    """Where key and records lie, for their owner alone."""
    found = private / "lti"
    private.mkdir(mode=0o700, exist_ok=True)
    found.mkdir(mode=0o700, exist_ok=True)
    return found


def private_key(private: Path) -> str:
    """The course's key (PEM), made where there is none."""
    from jwcrypto.jwk import JWK

    path = folder(private) / KEY
    if not path.exists():
        made = JWK.generate(kty="RSA", size=BITS).export_to_pem(private_key=True, password=None)
        files.write(path, made, mode=0o600, sync=True)
    return path.read_text()


def public_keys(private: Path) -> dict[str, list[dict[str, str]]]:
    """The JSON Web Key Set that the platform checks signatures with."""
    from pylti1p3.registration import Registration as Tool

    return {"keys": Tool().set_tool_public_key(_public(private_key(private))).get_jwks()}


def _public(private: str) -> str:
    from jwcrypto.jwk import JWK

    return JWK.from_pem(private.encode()).export_to_pem().decode()


def registration(course: Course) -> Registration:
    """Where the marks go. Raises CourseError that says what is missing, and what brings it."""
    named = course.config.get("Lti", {}).get("folder")
    if not named:
        raise CourseError(
            "this course is registered with no learning management system: the hub's settings have no [lti]"
            " (cluster/staff/hub/README.md, LTI); `grade export` writes files to import"
        )
    platform, links = (files.read_json(Path(named) / name) or {} for name in (PLATFORM, LINKS))
    if not platform.get("token_url"):
        raise CourseError(
            "the hub's settings have no lti.token_url, so no marks can be sent: set it, and start the hub"
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
            f"no instructor of the roster has come from a course{which} of {platform['issuer']} yet, so it is"
            " not known where marks go: open the hub's link there once as an instructor"
        )
    if len(contexts) > 1:
        known = ", ".join(f"{n!r} ({printable(c['title'])})" for n, c in contexts.items())
        raise CourseError(
            f"instructors have come from {len(contexts)} courses of the platform: {known}. Set lti.context of"
            " the hub's settings to one, and start the hub"
        )
    [(number, context)] = contexts.items()
    if not context["lineitems"] or not {ITEMS, SCORE} <= set(context["scope"]):
        raise CourseError(
            f"the platform's course {number!r} ({printable(context['title'])}) lets this tool send no marks."
            " Let it manage grade items and send scores (Moodle: IMS LTI Assignment and Grade Services, grade"
            " sync and column management), then open the hub's link there once as an instructor"
        )
    if not is_encrypted(context["lineitems"]):
        raise CourseError(
            f"the platform takes marks at {context['lineitems']!r}, which is not encrypted (https)"
        )
    return Registration(
        platform["issuer"], platform["client_id"], platform["token_url"], platform["audience"],
        number, context["title"], context["lineitems"], links["people"],
    )  # fmt: skip


def plan(
    course: Course, book: Gradebook, assignment: str, where: Registration, only: list[str] | None
) -> Plan:
    """What there is to send. Nobody is asked, nothing is sent. only: these students; Raises CourseError."""
    worth, rows, waiting = finals(book, [assignment])
    known = {person.id for person, _ in rows}
    if unknown := sorted(set(only or []) - known):
        raise CourseError(
            f"--student {', '.join(unknown)}: not in the gradebook, which has {', '.join(sorted(known))}"
        )
    made, sent = Plan(assignment, worth[assignment]), _sent(course, assignment)["scores"]
    if not made.of > 0:
        raise CourseError(f"{assignment} has {made.of:g} points in all: a platform takes none of that")
    for person, (points,) in rows:
        if points is None or (only and person.id not in only):
            continue
        if (person.id, assignment) in waiting:
            made.left[person.id] = (
                "a person has to look at it, in Formgrader › Manual Grading, before it counts"
            )
        elif person.id not in where.people:
            made.left[person.id] = (
                "has never come to the hub from the platform: let them open its link there once"
            )
        else:
            score = Score(where.people[person.id], points, made.of)
            last = sent.get(person.id)
            unchanged = last is not None and Score(last["user"], last["points"], last["of"]) == score
            (made.same if unchanged else made.send)[person.id] = score
            if last and not unchanged:
                made.before[person.id] = last["points"]
    return made


def send(course: Course, made: Plan, where: Registration, say: Callable[[str], None]) -> Outcome:
    """Send it. What concerns one student does not keep it from the others.

    What the platform has taken is written down at once: after an error, a kill or a full disk the same call
    goes on from there, and a score that is sent again takes the place of the one that was there.
    Raises CourseError where nothing can be sent at all.
    """
    if not made.send and not made.same:
        return Outcome()  # no empty column on the platform
    path = folder(course.private) / f"{made.assignment}.json"
    with _alone(path.with_suffix(".lock")), contextlib.closing(_Service(course, where)) as service:
        try:
            item = service.line_item(made)
        except PlatformError as error:
            raise CourseError(f"{error}. Nothing was sent; {_remedy(error)}") from None
        record = _sent(course, made.assignment)
        if record["line item"] != item.get_id():  # another course; or it was deleted there, with what it had
            record = {"line item": item.get_id(), "scores": {}}
            made.send, made.same = made.same | made.send, {}
        if (most := item.get_score_maximum()) and most != made.of:
            say(f"  note: the platform's column has {most:g} points, not {made.of:g}: it scales what is sent")
        outcome, in_a_row = Outcome(), 0
        for student, score in sorted(made.send.items()):
            try:
                when = service.put(item, score)
            except PlatformError as error:
                outcome.failed[student] = str(error)
                in_a_row += 1
                if error.status in (0, 401) or in_a_row == STOP:
                    count = f"{len(outcome.done)} of {len(made.send)} were sent"
                    outcome.stopped = f"stopped at {student}: {count}; {_remedy(error)}"
                    break
                continue
            in_a_row = 0
            record["scores"][student] = {
                "user": score.user, "points": score.points, "of": score.of, "when": when
            }  # fmt: skip
            grading_folder.write(path, json.dumps(record, indent=1))
            outcome.done.append(student)
        return outcome


def _remedy(error: PlatformError) -> str:
    """What is to be done about what concerns everybody."""
    if error.status in (400, 401, 403):
        return (
            "see that client_id, token_url and audience of the hub's [lti] are the platform's, that it knows"
            " the hub's public keyset URL and lets this tool send scores; then the same command goes on"
        )
    return "the same command goes on from there"


def _sent(course: Course, assignment: str) -> dict[str, Any]:
    """What was sent of an assignment."""
    found = grading_folder.load(folder(course.private) / f"{assignment}.json")
    return found or {"line item": None, "scores": {}}


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with files.lock(path, wait=False) as held:
        if not held:
            raise CourseError(f"{path.stem}: another `grade lti` is sending it; wait until that ends")
        yield


class _Session(requests.Session):
    """Waits PATIENCE for an answer; follows nobody to another place with the course's token."""

    def request(self, method: str, url: str, **more: Any) -> requests.Response:
        answer = super().request(method, url, **more | {"timeout": PATIENCE, "allow_redirects": False})
        page = answer.headers.get("Content-Type", "").partition(";")[0] == "text/html"
        if answer.is_redirect or (answer.ok and answer.content and page):
            raise PlatformError(
                f"{url} answered {answer.status_code} with a page for people", answer.status_code
            )
        return answer


class _Service:
    """The platform's line items and scores, by PyLTI1p3; a request that may succeed later is tried again."""

    def __init__(self, course: Course, where: Registration):
        try:
            from pylti1p3.registration import Registration as Tool
        except ModuleNotFoundError:
            raise CourseError(NEEDED) from None
        if not (folder(course.private) / KEY).exists():
            raise CourseError(
                "the course's key is not there: start the hub, which makes it and shows it to the platform"
            )
        key = private_key(course.private)
        tool = Tool().set_issuer(where.issuer).set_client_id(where.client_id).set_tool_private_key(key)
        tool.set_tool_public_key(_public(key)).set_auth_token_url(where.token_url)
        self.tool = tool.set_auth_audience(where.audience) if where.audience else tool
        self.data = {"scope": [ITEMS, SCORE], "lineitems": where.lineitems}
        self.session = _Session()
        self._open()

    def close(self) -> None:
        """Close the connections."""
        self.session.close()

    def line_item(self, made: Plan) -> LineItem:
        """The assignment's line item, made where the platform has none. Raises PlatformError."""
        from pylti1p3.lineitem import LineItem

        # Only those of this assignment: PyLTI1p3 2.0 writes the address of a further page in small letters.
        mark = "&" if "?" in self.data["lineitems"] else "?"
        page: str | None = f"{self.data['lineitems']}{mark}resource_id={quote(made.assignment)}"
        while page:
            found, page = self._try(lambda page=page: self.service.get_lineitems_page(page))
            for one in found:
                if isinstance(one, dict) and one.get("resourceId") == made.assignment:
                    return _usable(LineItem(one))
        new = LineItem().set_resource_id(made.assignment).set_tag(TAG).set_score_maximum(made.of)
        new.set_label(made.assignment.replace("_", " "))
        scope, kind = self.data["scope"], "application/vnd.ims.lis.v2.lineitem+json"
        ask = {"is_post": True, "data": new.get_value(), "content_type": kind, "accept": kind}
        answer = self._try(lambda: self.connector.make_service_request(scope, self.data["lineitems"], **ask))
        return _usable(LineItem(answer["body"] if isinstance(answer["body"], dict) else {}))

    def put(self, item: LineItem, score: Score) -> str:
        """Send one score; the moment that it has. Raises PlatformError."""
        from pylti1p3.grade import Grade

        grade = Grade().set_score_given(score.points).set_score_maximum(score.of).set_user_id(score.user)
        grade.set_activity_progress("Completed").set_grading_progress("FullyGraded").set_extra_claims(CANVAS)

        def post() -> str:
            when = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
            with contextlib.suppress(requests.JSONDecodeError):  # taken (2xx), in words that are no JSON
                self.service.put_grade(grade.set_timestamp(when), item)
            return when

        return self._try(post)

    def _open(self) -> None:
        """A token lasts for minutes, and a connector keeps its first one."""
        from pylti1p3.assignments_grades import AssignmentsGradesService
        from pylti1p3.service_connector import ServiceConnector

        self.connector = ServiceConnector(self.tool, self.session)
        self.service = AssignmentsGradesService(self.connector, self.data)

    def _try(self, ask: Callable[[], Any]) -> Any:
        """What the platform answers, after further tries where these may help. Raises PlatformError."""
        renewed, waits = False, list(WAITS)
        while True:
            try:
                self._token()
                return _asked(ask)
            except PlatformError as error:
                if error.status == 401 and not renewed:  # the token has expired, perhaps
                    renewed = True
                    self._open()
                elif (error.status in AGAIN or not error.status) and waits:
                    time.sleep(min(max(waits.pop(0), error.wait), LONGEST_WAIT))
                else:
                    raise

    def _token(self) -> None:
        try:
            _asked(lambda: self.connector.get_access_token(self.data["scope"]))
        except (requests.JSONDecodeError, KeyError, TypeError):
            raise PlatformError(
                f"{self.tool.get_auth_token_url()} gave no token, but another answer", 400
            ) from None
        except PlatformError as error:
            raise PlatformError(f"no access to the platform: {error}", error.status, error.wait) from None


def _asked(ask: Callable[[], Any]) -> Any:
    """What a call of PyLTI1p3's returns; its errors, and those of the network, as PlatformError."""
    from pylti1p3.exception import LtiException, LtiServiceException

    try:
        return ask()
    except LtiServiceException as error:
        answer = error.response
        words = printable(" ".join(answer.text.split()), ANSWER)
        wait = answer.headers.get("Retry-After", "")
        raise PlatformError(
            f"{answer.url} answered {answer.status_code}{f' ({words})' if words else ''}",
            answer.status_code,
            float(wait) if wait.isdecimal() else 0.0,
        ) from None
    except requests.JSONDecodeError:
        raise
    except requests.RequestException as error:
        raise PlatformError(f"the platform does not answer: {printable(error, ANSWER)}") from None
    except LtiException as error:
        raise PlatformError(printable(error, ANSWER), 400) from None


def _usable(item: LineItem) -> LineItem:
    """A line item that scores can be sent to."""
    if not is_encrypted(str(item.get_id())):
        raise PlatformError(
            f"the platform's line item is no encrypted URL (https), but {item.get_id()!r}", 400
        )
    return item


if __name__ == "__main__":
    print(json.dumps(public_keys(Path.cwd() / ".grading")))
