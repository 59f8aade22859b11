"""What runs, what is dead, who is logged in."""

from __future__ import annotations

import os
from pathlib import Path

from cluster.system import processes

from .. import services
from ..one_machine_slurm.status import report as slurm_report
from . import COURSE, backup, course_files, daemons, lti, slurm_accounts
from . import state as states
from .api import Api
from .settings import Trouble


def report(state: Path) -> tuple[int, str]:
    """(0 when all of it answers, 1 when a part is dead, 3 when nothing runs; the report)."""
    if os.getuid():
        raise Trouble("Only root can read the hub's state (sudo).")
    if states.record(state) is None:
        return 3, f"No hub was started in {state}."
    settings = states.settings(state)
    records, rows, good, lives = services.process_ledger(state).all(), [], 0, 0
    whole = daemons.all_daemons(settings, state)
    gone = "dead" if any(processes.alive(records.get(part.name)) for part in whole) else "stopped"
    for part in whole:
        record = records.get(part.name)
        here = processes.alive(record)
        answers = here and part.answers()
        lives, good = lives + here, good + answers
        words = "answers" if answers else "lives, but does not answer" if here else gone
        rows.append(
            f"  {part.name:10} {words}"
            + (f" ({'' if here else 'was '}process {record['pid']})" if record else "")
        )
    if troubles := course_files.exchange_troubles(state, settings, COURSE):
        rows += [f"  exchange   {words}" for words in troubles]
    if lost := backup.gradebook_loss(state, settings):
        rows.append(f"  gradebook  {lost} Put back the last backup (restore FILE).")
        troubles.append(lost)
    if good == len(whole):
        people = Api(settings, daemons.tokens(state, settings)["sync"])("GET", "/users?limit=100000")
        servers = sorted(p["name"] for p in people if p["server"])
        rows.append(f"  {len(people)} people; servers: {', '.join(servers) or 'none'}")
    if settings.lti:
        rows += [f"  log-in     {words}" for words in lti.refused(state)]
    if settings.slurm == "machine":
        slurm, text = slurm_report(slurm_accounts.slurm_state(state))
        rows.append("  Slurm, the one of this machine:")
        rows += [f"  {line}" for line in text.splitlines() if line.startswith("  ")]
        good, lives = good - (slurm != 0), lives + (slurm != 3)
    code = 0 if good == len(whole) and not troubles else 1 if lives else 3
    hint = {0: "", 1: "\nTo mend it: start it again.", 3: "\nIt is stopped."}[code]
    return code, "\n".join([f"The hub in {state}: {settings.public}", *rows]) + hint
