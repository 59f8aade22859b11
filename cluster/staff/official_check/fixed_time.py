"""An autograder whose hidden tests take a time that is fixed before they begin, whatever happens in them.

Until its hidden tests begin, a submission has seen no hidden value, so the time until then reveals nothing.
From it follows how long the hidden tests may take, all together, and when the answer is due: this long after
they have begun, also if they end sooner. What they have not decided by then has failed.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import failures
from ..engine import Check, Engine, Verdict
from ..engine.inside.errors import InfrastructureError
from ..hidden import has_hidden

if TYPE_CHECKING:
    from ..engine.submission import GradedNotebook

LEAST = 3.0  # seconds for the hidden tests
TIMES = 2.0  # as a multiple of the time until they begin; right answers need 0.5 to 0.9 of it, once 1.4
MARGIN = 1.0  # seconds to end the sandboxes and to write the answer
STEP = 5.0  # seconds; an answer that is not ready when it is due is shown a multiple of this time later


@dataclass
class Hidden:
    """The hidden tests of a submission. ends: their last moment, on the monotonic clock. known: the verdict
    if they decide nothing."""

    ends: float
    known: Verdict

    @property
    def due(self) -> float:
        """When the answer is due, on the monotonic clock."""
        return self.ends + MARGIN


def shown_at(due: float, now: float, step: float = STEP) -> float:
    """Return when to show an answer that is ready at `now` and due at `due`."""
    return due + max(0, math.ceil((now - due) / step)) * step


class FixedTime(Engine):
    """`hidden`: {folder of submitted files: Hidden} of all submissions whose hidden tests have begun."""

    def __init__(self, *arguments: Any, **more: Any):
        super().__init__(*arguments, **more)
        self.hidden: dict[str, Hidden] = {}

    def _grade(self, work: GradedNotebook, files: Path | str | None) -> None:
        """Grade, and end when the time of the hidden tests is over. They begin only once."""
        if str(files) in self.hidden:
            raise InfrastructureError("its hidden tests have begun before")
        tell, began, seen = work.on_step, time.monotonic(), set[str]()

        def on_step(what: str, limit: float, budget: float) -> None:
            # the visible parts of all checks come first, so the second visit to a check is to a hidden part
            if what in seen and what.startswith("check ") and str(files) not in self.hidden:
                self.hidden[str(files)] = begin(work, began)
            seen.add(what)
            tell(what, limit, budget)

        work.on_step = on_step
        super()._grade(work, files)


def begin(work: GradedNotebook, began: float) -> Hidden:
    """Limit the time of the hidden tests that begin now. began: when grading began."""
    now = time.monotonic()
    work.end = min(work.end, now + max(LEAST, TIMES * (now - began)))
    work.more_time = lambda: max(0.0, work.end - time.monotonic())  # type: ignore[method-assign]
    checks = {
        name: undecided(check) if is_open(work, name) else replace(check)
        for name, check in work.checks.items()
    }
    return Hidden(work.end, Verdict("graded", checks=checks, notebook=work.notebook))


def is_open(work: GradedNotebook, name: str) -> bool:
    """Return whether the hidden tests of a check decide, because its visible ones have passed."""
    return not work.checks[name].error and has_hidden(work.graded[name].source)


def undecided(check: Check) -> Check:
    return Check(0.0, check.max_score, "HiddenTest", True, kind=failures.LIMIT)
