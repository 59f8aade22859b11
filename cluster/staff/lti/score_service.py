"""A learning management system's line items and scores, over HTTP (LTI 1.3, Assignment and Grade Services).

PyLTI1p3 signs and sends requests, and requests access tokens. This module unifies its errors, retries, and
never follows redirects with the course's token.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import requests

from cluster.system.errors import ClusterError
from cluster.system.text import printable

from ..course import CourseError
from ..platforms import is_encrypted

if TYPE_CHECKING:
    from pylti1p3.lineitem import LineItem

TAG = "points"  # tag of the line items
SCOPE = "https://purl.imsglobal.org/spec/lti-ags/scope"
ITEMS, SCORE = f"{SCOPE}/lineitem", f"{SCOPE}/score"
PATIENCE = 30.0  # seconds to wait for an answer
WAITS = (2.0, 10.0)  # seconds before the second and the third attempt, unless the platform specifies them
LONGEST_WAIT = 60.0  # maximum seconds, whatever the platform specifies
# HTTP statuses after which a later request may succeed; 409: a score sent in the same second as another
AGAIN = (409, 429, 500, 502, 503, 504)
ANSWER = 300  # maximum number of characters shown of a platform's answer
# Canvas's extension for a score without a submission
CANVAS = {"https://canvas.instructure.com/lti/submission": {"new_submission": False}}
NEEDED = "PyLTI1p3 is not installed; run pip install -c constraints.txt PyLTI1p3, or cluster/setup.sh hub"


class PlatformError(ClusterError):
    """The platform rejected a request; the message contains its answer. status: HTTP status, 0 without an
    answer. wait: seconds until the platform accepts the next request."""

    def __init__(self, words: str, status: int = 0, wait: float = 0.0):
        super().__init__(words)
        self.status, self.wait = status, wait


@dataclass(frozen=True)
class Score:
    """A student's score on the platform. user: the platform's ID of the person."""

    user: str
    points: float
    of: float


@dataclass(frozen=True)
class Registration:
    """The platform's data, from the settings and instructors' logins. context: its ID of the course."""

    issuer: str
    client_id: str
    token_url: str
    audience: str
    context: str
    title: str
    lineitems: str
    people: dict[str, str]  # {user in the roster: the platform's ID}


def public_key(private: str) -> str:
    """Return the public half of a private key (both PEM)."""
    from jwcrypto.jwk import JWK

    return JWK.from_pem(private.encode()).export_to_pem().decode()


class _Session(requests.Session):
    """A session that waits PATIENCE for an answer and does not follow redirects with the course's token."""

    def request(self, method: Any, url: Any, *args: Any, **more: Any) -> requests.Response:
        answer = super().request(method, url, *args, **more | {"timeout": PATIENCE, "allow_redirects": False})
        page = answer.headers.get("Content-Type", "").partition(";")[0] == "text/html"
        if answer.is_redirect or (answer.ok and answer.content and page):
            raise PlatformError(
                f"{url} answered {answer.status_code} with an HTML page instead of JSON", answer.status_code
            )
        return answer


class ScoreService:
    """A platform's line items and scores; a request that may succeed later is retried.

    private: the course's key (PEM). Raises CourseError if PyLTI1p3 is not installed.
    """

    def __init__(self, where: Registration, private: str):
        try:
            from pylti1p3.registration import Registration as Tool
        except ModuleNotFoundError:
            raise CourseError(NEEDED) from None
        tool = Tool().set_issuer(where.issuer).set_client_id(where.client_id).set_tool_private_key(private)
        tool.set_tool_public_key(public_key(private)).set_auth_token_url(where.token_url)
        self.tool = tool.set_auth_audience(where.audience) if where.audience else tool
        self.data: Any = {"scope": [ITEMS, SCORE], "lineitems": where.lineitems}
        self.session = _Session()
        self._open()

    def close(self) -> None:
        """Close the connections."""
        self.session.close()

    def line_item(self, assignment: str, points: float) -> LineItem:
        """Return the assignment's line item, created if the platform has none. Raises PlatformError."""
        from pylti1p3.lineitem import LineItem

        # Only this assignment's items, because PyLTI1p3 2.0 lower-cases the URL of a further page.
        mark = "&" if "?" in self.data["lineitems"] else "?"
        page: str | None = f"{self.data['lineitems']}{mark}resource_id={quote(assignment)}"
        while page:
            items, page = self._try(partial(self.service.get_lineitems_page, page))
            for item in items:
                if isinstance(item, dict) and item.get("resourceId") == assignment:
                    return _usable(LineItem(cast(Any, item)))
        new = LineItem().set_resource_id(assignment).set_tag(TAG).set_score_maximum(points)
        new.set_label(assignment.replace("_", " "))
        scope, kind = self.data["scope"], "application/vnd.ims.lis.v2.lineitem+json"
        ask: dict[str, Any] = {"is_post": True, "data": new.get_value(), "content_type": kind, "accept": kind}
        answer = self._try(lambda: self.connector.make_service_request(scope, self.data["lineitems"], **ask))
        return _usable(LineItem(cast(Any, answer["body"] if isinstance(answer["body"], dict) else {})))

    def put(self, item: LineItem, score: Score) -> str:
        """Send one score and return its timestamp. Raises PlatformError."""
        from pylti1p3.grade import Grade

        grade = Grade().set_score_given(score.points).set_score_maximum(score.of).set_user_id(score.user)
        grade.set_activity_progress("Completed").set_grading_progress("FullyGraded").set_extra_claims(CANVAS)

        def post() -> str:
            when = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
            # accepted (2xx), with a body that is not JSON
            with contextlib.suppress(requests.JSONDecodeError):
                self.service.put_grade(grade.set_timestamp(when), item)
            return when

        return self._try(post)

    def _open(self) -> None:
        """Connect again, since a token lasts for minutes and a connector keeps its first one."""
        from pylti1p3.assignments_grades import AssignmentsGradesService
        from pylti1p3.service_connector import ServiceConnector

        self.connector = ServiceConnector(self.tool, self.session)
        self.service = AssignmentsGradesService(self.connector, self.data)

    def _try(self, ask: Callable[[], Any]) -> Any:
        """Return the platform's answer, after retries if they may help. Raises PlatformError."""
        renewed, waits = False, list(WAITS)
        while True:
            try:
                self._token()
                return _asked(ask)
            except PlatformError as error:
                if error.status == 401 and not renewed:  # the token may have expired
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
            raise PlatformError(f"{self.tool.get_auth_token_url()} did not return a token", 400) from None
        except PlatformError as error:
            raise PlatformError(f"no access to the platform: {error}", error.status, error.wait) from None


def _asked(ask: Callable[[], Any]) -> Any:
    """Return the result of a call to PyLTI1p3; its errors and network errors become PlatformError."""
    from pylti1p3.exception import LtiException, LtiServiceException

    try:
        return ask()
    except LtiServiceException as error:
        answer = error.response
        body = printable(" ".join(answer.text.split()), ANSWER)
        wait = answer.headers.get("Retry-After", "")
        raise PlatformError(
            f"{answer.url} answered {answer.status_code}{f' ({body})' if body else ''}",
            answer.status_code,
            float(wait) if wait.isdecimal() else 0.0,
        ) from None
    except requests.JSONDecodeError:
        raise
    except requests.RequestException as error:
        raise PlatformError(f"the platform does not answer: {printable(str(error), ANSWER)}") from None
    except LtiException as error:
        raise PlatformError(printable(str(error), ANSWER), 400) from None


def _usable(item: LineItem) -> LineItem:
    """Return a line item to which scores can be sent safely, or raise PlatformError."""
    if not is_encrypted(str(item.get_id())):
        raise PlatformError(
            f"the URL of the platform's line item, {item.get_id()!r}, is not encrypted (https)", 400
        )
    return item
