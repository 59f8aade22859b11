"""The ranks' sandbox as a check asks for it (`cluster.checks.on_ranks`); see `ranks` for the other side."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, NoReturn

from cluster.checks.ranks import SLOWEST, Outcome

from .channel import Channel
from .codec import pack, unpack
from .errors import ChannelError, NoAnswerError, RanksNotMetError
from .messages import RankAnswer, RankInputs, RankRequest, RankResult

MEETING = 120  # seconds that ranks have to find each other


class Ranks:
    """Calls functions of the notebook on ranks; what was found stays known for the checks that follow."""

    def __init__(self, channel: Channel, name_of: Callable[[Callable], str]):
        """name_of: the name in the notebook of a function that a check has."""
        self.channel, self.name_of, self.gone = channel, name_of, ""
        self.known: dict[str, Any] = {}  # by what was asked for, as JSON

    def __call__(
        self, function: Callable, inputs: list[dict[str, Any]], seconds: float, again: bool, instead: str
    ) -> list[Outcome]:
        """As `on_ranks` says. Raises NoAnswerError, or TypeError if data is not plain."""
        given = [self.message(each) for each in inputs]
        request = RankRequest(
            function=self.name_of(function), ranks=len(inputs), seconds=seconds, instead=instead, sizes=[]
        )
        key = json.dumps([request, given])
        if again or key not in self.known:
            found = self.ask(request, given, outcomes)
            if all(one.unfinished for one in found):  # nobody has left: the machine may have been too slow
                found = self.ask(request, given, outcomes)
            self.known[key] = found
        return self.known[key]

    def relayed(
        self, function: Callable, cases: list[list[list[Any]]], seconds: float, instead: str
    ) -> tuple[list[dict[int, RankResult]], list[list[str]]]:
        """What `recorded_on_ranks` asks for: each case is a call, with its arguments on each of its ranks.

        Returns of each call {rank: {"value" or "error", "notes"}}, and the names of each rank's files.
        """
        sizes = [len(case) for case in cases]
        given = [
            self.message({"calls": [[c, len(x), x[rank]] for c, x in enumerate(cases) if rank < len(x)]})
            for rank in range(max(sizes))
        ]
        name = self.name_of(function)
        request = RankRequest(function=name, ranks=max(sizes), seconds=seconds, instead=instead, sizes=sizes)
        key = json.dumps([request, given])
        if key not in self.known:
            self.known[key] = self.ask(request, given, functools.partial(calls, sizes))
        return self.known[key]

    def message(self, inputs: dict[str, Any]) -> RankInputs:
        """The inputs of one rank."""
        functions = {name: self.name_of(value) for name, value in inputs.items() if callable(value)}
        data = {name: value for name, value in inputs.items() if not callable(value)}
        return {"inputs": pack(data, no_data), "functions": functions}

    def ask(
        self,
        request: RankRequest,
        given: list[RankInputs],
        read: Callable[[Callable[[], Any]], Any],
    ) -> Any:
        """What `read` makes of the replies, of which it gets one by each call of a function."""
        if self.gone:
            raise NoAnswerError(self.gone)
        self.gone = "the check before this one was stopped while ranks worked for it"
        try:
            self.channel.send(request)
            for message in given:
                self.channel.send(message)
            found = read(functools.partial(self.reply, MEETING + SLOWEST * request["seconds"] + 60))
        except (ChannelError, KeyError, TypeError, ValueError) as error:
            self.gone = f"the ranks' process cannot be asked any more: {error}"
            raise NoAnswerError(self.gone) from error
        self.gone = ""
        return found

    def reply(self, seconds: float) -> Any:
        reply = self.channel.receive(seconds)
        if "unmet" in reply:
            raise RanksNotMetError(reply["unmet"])
        return reply


def outcomes(reply: Callable[[], Any]) -> list[Outcome]:
    return [outcome(one) for one in reply()["ranks"]]


def calls(sizes: list[int], reply: Callable[[], Any]) -> tuple[list[dict[int, RankResult]], list[list[str]]]:
    found = [{rank: of_rank(reply()) for rank in range(size)} for size in sizes]
    return found, [sorted(files) for files in reply()["files"]]


def of_rank(answer: RankAnswer) -> RankResult:
    """A rank's part of a call, whatever the student made of that rank."""
    try:
        notes = [[name, *(unpack(x, no_data) for x in rest)] for name, *rest in answer["notes"]]
        if "value" in answer:
            return {"value": unpack(answer["value"], no_data), "notes": notes}
        return {"error": str(answer["error"])[:2000], "notes": notes}
    except (ValueError, TypeError):
        return {"error": "RankEnded: what the rank's process sent is no value", "notes": []}


def outcome(answer: RankAnswer) -> Outcome:
    """The Outcome that a rank's answer says, whatever the student made of that rank."""
    files = {str(name): tuple(about) for name, about in answer["files"].items()}
    if "value" in answer:
        try:
            return Outcome(value=unpack(answer["value"], no_data), files=files)
        except (ValueError, TypeError):
            return Outcome(error="RankEnded: what the rank's process sent is no value", files=files)
    if "unfinished" in answer:
        return Outcome(unfinished=str(answer["unfinished"])[:100], files=files)
    return Outcome(error=str(answer.get("error", "RankEnded: no answer"))[:2000], files=files)


def no_data(value: Any) -> NoReturn:
    raise TypeError(
        f"a {type(value).__name__} cannot leave its rank: numbers, text, arrays and lists of them can"
    )
