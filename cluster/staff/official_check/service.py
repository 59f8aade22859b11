"""The hub's service `check`: `python -m cluster.staff.official_check.service`, run as the grader.

    GET  /services/check/<assignment>    the limits, the number of attempts left, the last answer
    POST /services/check/<assignment>    a ZIP archive of the assignment's folder: checks it, then as GET

The hub identifies the user by the token. The number of submissions graded at a time is at most the number of
cores; others wait in order. A student can run only one check at a time. An answer is given when it is due
(fixed_time.py), because the duration of hidden tests depends on the student's code. Until then, GET returns
the previous state.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tornado.ioloop import PeriodicCallback
from tornado.log import app_log, enable_pretty_logging
from tornado.web import Application, HTTPError, RequestHandler, stream_request_body

from cluster.system import files

from .. import limited
from ..course import SubmissionError
from .attempt_limits import Limits, Records, Refused
from .checker import Attempt, Checker

SERVICE = "check"
SCOPE = f"access:services!service={SERVICE}"
SENT = 32 * 2**20  # maximum bytes of an upload
IDLE = 600.0  # seconds without a check after which the processes with loaded libraries end
STRANGER = "Only people on the course's roster can use the check, from a server started after it was set up"
BUSY = "One of your checks, of this or another assignment, is still running. Wait until it ends."


@stream_request_body
class Check(RequestHandler):
    """One assignment of one student."""

    def initialize(self, service: Service) -> None:
        self.service, self.data, self.student = service, bytearray(), ""

    def set_default_headers(self) -> None:
        """Tornado closes the connection if it answers before the request is read, and announces this only if
        configured. Otherwise the proxy would send the next request on it and answer 503."""
        self.set_header("Connection", "close")

    async def prepare(self) -> None:
        """Identify the user and the assignment before the body is read."""
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.set_header("Cache-Control", "no-store")
        self.request.connection.set_max_body_size(SENT)  # type: ignore[union-attr]  # HTTP/1
        self.student = await self.service.who(self.request.headers.get("Authorization", ""))
        if not await self.service.known(assignment := self.path_args[0]):
            raise HTTPError(404, reason="No assignment of this name has been released")
        if self.request.method != "POST":
            return
        self.refuse_above(int(self.request.headers.get("Content-Length") or 0))
        if self.student in self.service.busy:
            self.say(409, assignment, BUSY)

    def data_received(self, chunk: bytes) -> None:
        """Receive a part of the archive."""
        self.data += chunk
        self.refuse_above(len(self.data))

    def refuse_above(self, size: int) -> None:
        if size > SENT:
            raise HTTPError(413, reason=f"The upload has more than {SENT >> 20} MiB")

    def get(self, assignment: str) -> None:
        self.say(200, assignment)

    async def post(self, assignment: str) -> None:
        if self.student in self.service.busy:
            return self.say(409, assignment, BUSY)
        data, self.data = bytes(self.data), bytearray()
        self.service.busy[self.student] = assignment, self.standing(assignment)
        attempt = Attempt()
        try:
            status, message = await self.checked(assignment, data, attempt)
            await asyncio.sleep(attempt.wait())
        finally:
            del self.service.busy[self.student]
            self.service.last = time.monotonic()
        self.say(status, assignment, message)

    async def checked(self, assignment: str, data: bytes, attempt: Attempt) -> tuple[int, str]:
        """Return the status, and a message if there is one."""
        try:
            loop, check = asyncio.get_running_loop(), self.service.checker.check
            await loop.run_in_executor(self.service.graders, check, self.student, assignment, data, attempt)
            return 200, ""
        except Refused as why:
            return 429, str(why)
        except SubmissionError as why:
            return 422, str(why)
        except Exception:
            app_log.exception("the check of %s for %r failed", assignment, self.student)
            return (
                503,
                "The check could not be run, for a reason outside your submission. Tell your instructor.",
            )

    def standing(self, assignment: str) -> dict[str, Any]:
        """Return the student's record; while a check is running, the record from before that check."""
        at_work, before = self.service.busy.get(self.student, ("", {}))
        if at_work == assignment:
            return before
        return self.service.records(assignment).standing(self.student, time.time())

    def say(self, status: int, assignment: str, words: str = "") -> None:
        """Answer with the student's state, and a message if there is one."""
        self.set_status(status)
        self.finish(json.dumps(self.standing(assignment) | ({"words": words} if words else {})))

    def write_error(self, status_code: int, **_: Any) -> None:
        """Answer with a sentence instead of a traceback."""
        self.finish(json.dumps({"words": f"{self._reason}."}))


class Service:
    """The queue: `checker` grades in as many threads as it has workers, in order of arrival."""

    def __init__(self, hub: Any, checker: Checker):
        """hub: identifies the user of a token (jupyterhub.services.auth.HubAuth)."""
        self.hub, self.checker = hub, checker
        # students with a running check: the assignment, and the record before it
        self.busy: dict[str, tuple[str, dict[str, Any]]] = {}
        self.graders = ThreadPoolExecutor(checker.workers, thread_name_prefix="check")
        self.readers = ThreadPoolExecutor(2, thread_name_prefix="question")
        self.last = time.monotonic()
        self._known: dict[str, float] = {}

    def application(self, prefix: str) -> Application:
        """Return the service's pages below its prefix."""
        name = r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})"
        return Application([(prefix, Alive), (prefix + name, Check, {"service": self})])

    async def who(self, header: str) -> str:
        """Return the name of the token's user. Raises HTTPError 403."""
        word, _, token = header.partition(" ")
        if word.lower() not in ("token", "bearer") or not token:
            raise HTTPError(403, reason="Log in to the hub")
        loop = asyncio.get_running_loop()
        user = await loop.run_in_executor(self.readers, self.hub.user_for_token, token.strip())
        if not user or user.get("kind", "user") != "user" or SCOPE not in user.get("scopes", ()):
            raise HTTPError(403, reason=STRANGER)
        return user["name"]

    async def known(self, assignment: str) -> bool:
        """Return whether this is a released assignment. A positive answer is reused for a minute."""
        if self._known.get(assignment, 0.0) < time.monotonic():
            loop = asyncio.get_running_loop()
            if not await loop.run_in_executor(self.readers, self.checker.known, assignment):
                return False
            self._known[assignment] = time.monotonic() + 60
        return True

    def records(self, assignment: str) -> Records:
        return Records(self.checker.checks, assignment)

    async def rest(self) -> None:
        """Release the memory after some time without checks."""
        if not self.busy and time.monotonic() - self.last > IDLE:
            self.last = time.monotonic()
            await asyncio.get_running_loop().run_in_executor(self.readers, self.checker.close)


class Alive(RequestHandler):
    """Report that the service answers."""

    def get(self) -> None:
        self.finish("check")


async def serve(service: Service, url: str) -> None:
    """Answer at the address used by the hub's proxy, until the process is terminated."""
    where = urlsplit(url)
    assert where.port and where.hostname  # set by the hub
    service.application(where.path).listen(where.port, where.hostname, max_body_size=SENT)
    PeriodicCallback(service.rest, 60_000).start()
    await asyncio.Event().wait()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the service, with the hub's environment variables for a service."""
    from jupyterhub.services.auth import HubAuth

    parser = argparse.ArgumentParser(prog="python -m cluster.staff.official_check.service")
    parser.add_argument("limits", type=Path, help="JSON file with the limits {an_hour, in_all}")
    options = parser.parse_args(argv)
    enable_pretty_logging()
    os.umask(0o077)
    limited.preload(__spec__.name)  # otherwise each process that unpacks an upload would import it
    checker = Checker(Path.cwd(), len(os.sched_getaffinity(0)))
    limits = dataclasses.asdict(Limits(**json.loads(options.limits.read_text())))
    files.write_json(checker.checks / "default.json", limits, mode=0o600)
    hub = HubAuth(cache_max_age=10)
    asyncio.run(serve(Service(hub, checker), os.environ["JUPYTERHUB_SERVICE_URL"]))


if __name__ == "__main__":
    main()
