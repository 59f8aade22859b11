"""Requests from a check (`cluster.checks.on_ranks`) to the ranks' sandbox; `rank_sandbox` answers them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from cluster.checks.ranks import SLOWEST, Outcome

from .channel import Channel, Message
from .codec import pack, unpack
from .errors import ChannelError, NoAnswerError, RanksNotMetError

MEETING = 120  # time limit for the ranks to connect, in s
INVALID = "RankEnded: the rank's process sent an invalid value"


class Ranks:
    """Call functions of the notebook on ranks; results are cached for later checks.

    name_of: returns the name in the notebook for a function passed to a check.
    """

    def __init__(self, channel: Channel, name_of: Callable[[Callable], str]):
        self.channel, self.name_of, self.gone = channel, name_of, ""
        self.known: dict[str, Any] = {}  # {request as JSON: result}

    def __call__(
        self, function: Callable, inputs: list[Message], seconds: float, again: bool, instead: str
    ) -> list[Outcome]:
        """Do what `on_ranks` documents. Raises NoAnswerError, or TypeError if data is not plain."""
        given = [self.message(each) for each in inputs]
        request = self.request(function, len(inputs), seconds, instead)
        key = json.dumps([request, given])
        if again or key not in self.known:
            results = self.ask(request, given, outcomes)
            if all(result.unfinished for result in results):  # the machine may have been too slow
                results = self.ask(request, given, outcomes)
            self.known[key] = results
        return self.known[key]

    def relayed(
        self,
        function: Callable,
        cases: list[list[list[Any]]],
        seconds: float,
        instead: str,
        kept: Sequence[Sequence[Sequence[Any]]] = (),
    ) -> tuple[list[dict[int, Message]], list[list[str]]]:
        """Do what `recorded_on_ranks` documents; each case is a call, with the arguments for each rank.

        Returns {rank: {"value" or "error", "notes"}} for each call, and the names of each rank's files.
        """
        sizes = [len(case) for case in cases]
        given = [
            self.message({"calls": [[c, len(x), x[rank]] for c, x in enumerate(cases) if rank < len(x)]})
            for rank in range(max(sizes))
        ]
        request = self.request(function, max(sizes), seconds, instead, sizes)
        given.append({"kept": [[[pack(x, no_data) for x in of_rank] for of_rank in case] for case in kept]})
        key = json.dumps([request, given])
        if key not in self.known:
            self.known[key] = self.ask(request, given, functools.partial(calls, sizes))
        return self.known[key]

    def request(
        self, function: Callable, ranks: int, seconds: float, instead: str, sizes: Sequence[int] = ()
    ) -> Message:
        """Return the request to call a function; sizes: the number of ranks of each call with a relay."""
        name = self.name_of(function)
        return {"function": name, "ranks": ranks, "seconds": seconds, "instead": instead, "sizes": sizes}

    def message(self, inputs: Message) -> Message:
        """Encode the inputs of one rank; functions are sent as their names in the notebook."""
        functions = {name: self.name_of(value) for name, value in inputs.items() if callable(value)}
        data = {name: value for name, value in inputs.items() if not callable(value)}
        return {"inputs": pack(data, no_data), "functions": functions}

    def ask(self, request: Message, given: list[Message], read: Callable[[Callable[[], Any]], Any]) -> Any:
        """Send a request and return `read(receive)`, where each call of `receive` returns one reply.

        If the ranks do not answer, this request and all later ones raise NoAnswerError.
        """
        if self.gone:
            raise NoAnswerError(self.gone)
        self.gone = "the previous check was stopped while its ranks were running"
        try:
            self.channel.send(request)
            for message in given:
                self.channel.send(message)
            result = read(functools.partial(self.reply, MEETING + 2 * SLOWEST * request["seconds"] + 60))
        except (ChannelError, KeyError, TypeError, ValueError) as error:
            self.gone = f"the ranks' process no longer answers: {error}"
            raise NoAnswerError(self.gone) from error
        self.gone = ""
        return result

    def reply(self, seconds: float) -> Any:
        reply = self.channel.receive(seconds)
        if "unmet" in reply:
            raise RanksNotMetError(reply["unmet"])
        return reply


def outcomes(reply: Callable[[], Any]) -> list[Outcome]:
    return [outcome(answer) for answer in reply()["ranks"]]


def calls(sizes: list[int], reply: Callable[[], Any]) -> tuple[list[dict[int, Message]], list[list[str]]]:
    results = [{rank: of_rank(reply()) for rank in range(size)} for size in sizes]
    return results, [sorted(files) for files in reply()["files"]]


def of_rank(answer: Message) -> Message:
    """Decode a rank's result of a call with a relay."""
    try:
        notes = [[name, *(unpack(x, no_data) for x in rest)] for name, *rest in answer["notes"]]
    except (ValueError, TypeError):
        return {"error": INVALID, "notes": []}
    return decoded(answer) | {"notes": notes}


def outcome(answer: Message) -> Outcome:
    """Decode a rank's Outcome."""
    files = {str(name): tuple(about) for name, about in answer["files"].items()}
    return Outcome(**decoded(answer), files=files)


def decoded(answer: Message) -> Message:
    """Return {"value"}, {"error"} or {"unfinished"} of an answer, which the student may have forged."""
    try:
        if "value" in answer:
            return {"value": unpack(answer["value"], no_data)}
    except (ValueError, TypeError):
        return {"error": INVALID}
    for name, most in (("error", 2000), ("unfinished", 100)):
        if name in answer:
            return {name: str(answer[name])[:most]}
    return {"error": "RankEnded: no answer"}


def no_data(value: Any) -> NoReturn:
    raise TypeError(f"a rank sent or returned a {type(value).__name__}, not numbers, text, arrays or lists")
