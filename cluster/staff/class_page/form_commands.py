"""Translate buttons and forms into the arguments of one `grade` command, after validating the input."""

from __future__ import annotations

from dataclasses import dataclass

from .actions import Action, ActionError
from .sheets import Sheet


@dataclass(frozen=True)
class Button:
    """An action on one assignment. asks: the text of the confirmation, empty if the action is harmless."""

    label: str
    command: str
    about: str
    asks: str = ""


BUTTONS = {
    "hand-out": Button(
        "Release", "hand-out", "generate and verify the release, and let students fetch it",
        "Students can fetch it from then on. Those who have fetched an earlier version keep it.",
    ),
    "collect": Button("Collect", "collect", (
        "take new submissions from the course's submission folder, as often as you like"
    )),
    "grade": Button("Grade", "run", "grade collected submissions that are not graded yet; you can stop this"),
    "give-back": Button(
        "Release feedback", "give-back",
        "write the feedback on all graded submissions, and let students fetch it",
        "Students with a graded submission can read points and feedback from then on.",
    ),
    "report": Button("Report", "report", "report points, checks and misconceptions of the class"),
    "similar": Button("Compare", "similar", "find similar submissions: a reason to look, not a verdict"),
}  # fmt: skip


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
    waits = {
        "collect": sheet.count("waiting"),
        "grade": sheet.ungraded,
        "give-back": sheet.count("graded") - sheet.count("given_back"),
    }
    return next((do for do, n in waits.items() if n > 0), "")


def grade_command(sheet: Sheet, form: dict[str, str]) -> tuple[str, list[str]]:
    """Return (the action's name, the arguments of `grade`). Raises ActionError."""
    action = form["do"]
    if action in BUTTONS:
        return BUTTONS[action].label, [BUTTONS[action].command, sheet.name]
    if action == "due":
        return "Due date", ["due", sheet.name, moment(form)]
    if action == "no-due":
        return "No due date", ["due", sheet.name, "none"]
    if action == "checks":
        return "Limits of the check", ["checks", sheet.name, *limit_words(form)]
    if action != "extend":
        raise ActionError(f"{action!r} is not an action.")
    if form["student"] not in {row.student for row in sheet.rows}:
        raise ActionError(
            "Choose a student."
            if not form["student"]
            else f"{form['student']!r} is not a student of this course."
        )
    if sheet.due is None:
        raise ActionError("There is no due date to extend. Set it first.")
    return "Extension", ["extend", form["student"], sheet.name, *extension_words(sheet, form)]


def limit_words(form: dict[str, str]) -> list[str]:
    """Return the arguments that set the limits of the official check, per hour and in total."""
    arguments = []
    for name in ("an_hour", "in_all"):
        if not form[name].isdecimal() or int(form[name]) > 10_000:
            raise ActionError(f"Checks {form[name]!r}: must be a whole number from 0 to 10000.")
        arguments += [f"--{name.replace('_', '-')}", form[name]]
    return arguments


def extension_words(sheet: Sheet, form: dict[str, str]) -> list[str]:
    """Return the arguments for additional days or a date."""
    from ..submissions import due_dates

    if form["days"] and form["date"]:
        raise ActionError("Enter either days or a date, not both.")
    if form["days"]:
        if not form["days"].isdecimal() or int(form["days"]) > 366:
            raise ActionError(f"Days {form['days']!r}: must be a whole number from 0 (no extension) to 366.")
        return ["--days", form["days"]]
    until = moment(form)
    if sheet.due and due_dates.moment(until) <= sheet.due.replace(tzinfo=None):
        raise ActionError(f"{until} is not after the due date. Choose a later date.")
    return ["--until", until]


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
