"""Translate buttons and forms into the arguments of one `grade` command, after validating the input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .actions import Action, ActionError
from .sheets import Sheet


def name_only(sheet: Sheet, form: dict[str, str]) -> list[str]:
    return [sheet.name]


def due_words(sheet: Sheet, form: dict[str, str]) -> list[str]:
    return [sheet.name, "none" if form["do"] == "no-due" else moment(form)]


def limit_words(sheet: Sheet, form: dict[str, str]) -> list[str]:
    """Return the arguments that set the limits of the official check, per hour and in total."""
    arguments = [sheet.name]
    for name in ("an_hour", "in_all"):
        if not form[name].isdecimal() or int(form[name]) > 10_000:
            raise ActionError(f"Checks {form[name]!r}: must be a whole number from 0 to 10000.")
        arguments += [f"--{name.replace('_', '-')}", form[name]]
    return arguments


def extension_words(sheet: Sheet, form: dict[str, str]) -> list[str]:
    """Return the arguments for one student's additional days or date."""
    from ..submissions import due_dates

    if not form["student"]:
        raise ActionError("Choose a student.")
    if sheet.row(form["student"]) is None:
        raise ActionError(f"{form['student']!r} is not a student of this course.")
    if sheet.due is None:
        raise ActionError("There is no due date to extend. Set it first.")
    if form["days"] and form["date"]:
        raise ActionError("Enter either days or a date, not both.")
    if form["days"]:
        if not form["days"].isdecimal() or int(form["days"]) > 366:
            raise ActionError(f"Days {form['days']!r}: must be a whole number from 0 (no extension) to 366.")
        return [form["student"], sheet.name, "--days", form["days"]]
    until = moment(form)
    if due_dates.moment(until) <= sheet.due.replace(tzinfo=None):
        raise ActionError(f"{until} is not after the due date. Choose a later date.")
    return [form["student"], sheet.name, "--until", until]


@dataclass(frozen=True)
class Button:
    """An action on one assignment, which runs the command `grade COMMAND WORDS`.

    about: shown beside the button; empty if the action has a form instead. asks: the text of the
    confirmation, empty if the action is harmless. graders: whether graders may do it.
    """

    label: str
    command: str
    about: str = ""
    asks: str = ""
    graders: bool = False
    words: Callable[[Sheet, dict[str, str]], list[str]] = name_only


ACTIONS = {
    "hand-out": Button(
        "Release",
        "hand-out",
        "generate and verify the release, and let students fetch it",
        "Students can fetch it from then on. Those who have fetched an earlier version keep it.",
    ),
    "collect": Button(
        "Collect",
        "collect",
        "take new submissions from the course's submission folder, as often as you like",
        graders=True,
    ),
    "grade": Button(
        "Grade",
        "run",
        "grade collected submissions that are not graded yet; you can stop this",
        graders=True,
    ),
    "give-back": Button(
        "Release feedback",
        "give-back",
        "write the feedback on all graded submissions, and let students fetch it",
        "Students with a graded submission can read points and feedback from then on.",
    ),
    "report": Button(
        "Report", "report", "report points, checks and misconceptions of the class", graders=True
    ),
    "similar": Button(
        "Compare", "similar", "find similar submissions: a reason to look, not a verdict", graders=True
    ),
    "due": Button("Due date", "due", words=due_words),
    "no-due": Button("No due date", "due", words=due_words),
    "extend": Button("Extension", "extend", words=extension_words),
    "checks": Button("Limits of the check", "checks", words=limit_words),
}
BUTTONS = {do: action for do, action in ACTIONS.items() if action.about}


def graders_may(do: str) -> bool:
    """Return whether graders may do this; they may also stop a grading."""
    return do == "stop" or (do in ACTIONS and ACTIONS[do].graders)


def blocker(sheet: Sheet, do: str, last: Action | None = None) -> str:
    """Return why this button is disabled, or an empty string. last: the assignment's last action."""
    if last and last.running:
        return f"available once {last.name} has ended"
    if do == "grade" and sheet.grading:
        return "a grading run that was started in a terminal is still running"
    if do == "collect" and not (sheet.handed_out or sheet.handed_in or sheet.refused):
        return "not yet: release it first"
    if do == "grade" and not sheet.count("collected"):
        return "not yet: no submission has been collected"
    if do in ("give-back", "report") and not sheet.count("graded"):
        return "not yet: no submission has been graded"
    if do == "similar" and sheet.count("collected") < 2:
        return "not yet: fewer than two submissions have been collected"
    return ""


def next_step(sheet: Sheet) -> str:
    """Return the recommended next button, or an empty string."""
    if not sheet.handed_out and not sheet.handed_in:
        return "hand-out"
    return next((do for do, n in sheet.to_do.items() if n > 0), "")


def grade_command(sheet: Sheet, form: dict[str, str]) -> tuple[str, list[str]]:
    """Return (the action's name, the arguments of `grade`). Raises ActionError."""
    action = ACTIONS.get(form["do"])
    if action is None:
        raise ActionError(f"{form['do']!r} is not an action.")
    return action.label, [action.command, *action.words(sheet, form)]


def moment(form: dict[str, str]) -> str:
    """Return a form's date as text that the `grade` commands accept, checked by their rules."""
    from ..course import CourseError
    from ..submissions import due_dates

    if not form["date"]:
        raise ActionError("Enter a date.")
    text = f"{form['date']} {form['time'] or '23:59'} {form['zone'] or 'UTC'}"
    try:
        due_dates.moment(text)
    except CourseError as error:
        raise ActionError(f"{error}.") from None
    return text
