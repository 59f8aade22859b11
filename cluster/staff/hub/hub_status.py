"""Status: running parts, dead parts, active users."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cluster.system import processes

from .. import services
from ..one_machine_slurm.operate import report as slurm_report
from . import COURSE, backup, course_files, daemons, slurm_accounts
from . import state as states
from .hub_settings import HubError


def report(state: Path) -> tuple[int, str]:
    """Return (0 if all parts answer, 1 if one died, 3 if stopped on purpose; the report)."""
    if os.getuid():
        raise HubError("Only root can read the hub's state (sudo).")
    if states.record(state) is None:
        return 3, f"No hub was started in {state}."
    settings = states.settings(state)
    living: list[str] = []
    records, rows, good = services.process_ledger(state).all(), [], 0
    whole = daemons.all_daemons(settings, state)
    parts = len(whole) + len(daemons.services(settings, state))
    stopped = states.stopped(state)
    gone = "stopped" if stopped else "dead"
    for part in whole:
        record = records.get(part.name)
        here = processes.alive(record)
        answers = here and part.answers()
        living, good = living + [part.name] * here, good + answers
        description = "answers" if answers else "is running, but does not answer" if here else gone
        rows.append(
            f"  {part.name:10} {description}"
            + (f" ({'' if here else 'was '}process {record['pid']})" if record else "")
        )
    for service in daemons.services(settings, state):
        answers = service.answers()
        good += answers
        rows.append(f"  {service.name:10} {'answers' if answers else gone}")
    if troubles := course_files.exchange_troubles(state, settings, COURSE):
        rows += [f"  exchange   {description}" for description in troubles]
    if lost := backup.gradebook_loss(state, settings):
        rows.append(
            f"  gradebook  {lost} Rebuild it from the stored verdicts (`grade rebuild` in a terminal of the"
            " class page's JupyterLab), or restore the last backup (restore FILE)."
        )
        troubles.append(lost)
    if good == parts:
        people = daemons.api(settings, state).users()
        servers = sorted(p["name"] for p in people if p["server"])
        rows.append(f"  {len(people)} people, servers: {', '.join(servers) or 'none'}")
    if settings.lti:
        rows += [f"  log-in     {description}" for description in settings.lti.refused(state)]
    if settings.slurm == "machine":
        slurm, text = slurm_report(slurm_accounts.slurm_state(state))
        rows.append("  Slurm on this machine:")
        rows += [f"  {line}" for line in text.splitlines() if line.startswith("  ")]
        good -= slurm != 0
    code = 3 if stopped else 0 if good == parts and not troubles else 1
    if code == 1:
        rows.append("Start it again to repair it.")
    if stopped:
        when = time.strftime("%Y-%m-%d at %H:%M", time.localtime(stopped))
        still = f" But {', '.join(living)} are still running: stop it again, or start it." if living else ""
        rows.append(f"It was stopped on purpose on {when}.{still}")
    return code, "\n".join([f"The hub in {state}: {settings.public}", *rows])
