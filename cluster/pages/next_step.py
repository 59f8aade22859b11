"""The next step of a student, from what is known of lectures and assignments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .course_map import Assignment, Lecture


@dataclass
class Step:
    """do: what it is (feedback, go on, hand in, fetch, read, nothing); subject: the lecture or assignment."""

    do: str
    subject: Any = None


def waits(one: Assignment) -> bool:
    """Whether it waits for a hand-in: the first, or before its due date one with fewer empty cells."""
    better = one.due and one.path and not one.feedback
    return not one.last or bool(better and one.last_filled < one.cells)


def suggested(lectures: list[Lecture], assignments: list[Assignment]) -> Step:
    """Feedback first; then the first assignment that can still be in time; then the next lecture."""
    back = [one for one in assignments if one.to_fetch]
    if back:
        return Step("feedback", back[-1])
    begun = bool([one for one in assignments if one.path])
    to_do = [one for one in assignments if not one.over and waits(one)]
    if not begun and lectures:
        return Step("read", lectures[0])
    if to_do:
        one = to_do[0]
        if not one.path:
            return Step("fetch", one)
        return Step("hand in" if one.cells and one.filled == one.cells else "go on", one)
    done = max((one.number for one in assignments if one.last), default="")
    later = [lecture for lecture in lectures if lecture.number > done]
    return Step("read", later[0]) if later else Step("nothing")
