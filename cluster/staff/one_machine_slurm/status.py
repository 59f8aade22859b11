"""What runs, what is dead, how memory is limited."""

from __future__ import annotations

import os
from pathlib import Path

from cluster.system import processes

from .. import services
from . import daemons
from . import state as states
from .description import from_values
from .machine import Machine


def report(state: Path) -> tuple[int, str]:
    """(0 when all of it answers, 1 when a part is dead, 3 when nothing runs; the report)."""
    last = states.record(state)
    if last is None:
        return 3, f"No one-machine Slurm was started in {state}."
    cluster = from_values(last["cluster"])
    records = services.process_ledger(state).all()
    rows, good, lives, ruled = [], 0, 0, False
    whole = daemons.all_daemons(cluster, Machine(state, last["host"], last["memory"]))
    for d in whole:
        record = records.get(d.name)
        here = processes.alive(record)
        # Only root may knock at MariaDB's door; for others it counts that it lives.
        if d.name == "mariadbd" and os.getuid():
            answers = here
        else:
            answers = (ruled or d.name not in cluster.node_names) and d.answers()
        ruled |= d.name == "slurmctld" and answers  # a node is seen through slurmctld alone
        lives += here
        good += answers
        seen = daemons.node_state(state, d.name) if answers and d.name in cluster.node_names else None
        rows.append(f"  {d.name:10} {_words(record, here, answers)}" + (f", {seen}" if seen else ""))
    how = f"memory limits: {last['memory']}" + (f" ({last['why']})" if last["why"] else "")
    if last["memory"] == "polling":
        how += ": looked at once a second; a task over its limit ends as FAILED, not OUT_OF_MEMORY"
    net = "" if last["host"] is None else "\nnetwork: the daemons listen on all addresses (no namespaces)"
    head = f"One-machine Slurm {cluster.name!r} in {state}: {cluster}"
    code = 0 if good == len(whole) else 1 if lives else 3
    hint = {0: "", 1: "\nTo mend it: start it again.", 3: "\nIt is stopped."}[code]
    return code, "\n".join([head, *rows, how]) + net + hint + f"\n{export(state)}"


def export(state: Path) -> str:
    """The line a user needs."""
    return f"export SLURM_CONF={state}/slurm.conf"


def _words(record: processes.Record | None, here: bool, answers: bool) -> str:
    if answers:
        return f"answers (process {record['pid']})" if here else "answers (not started here, and left alone)"
    if here:
        return f"lives, but does not answer or is not seen (process {record['pid']})"
    return f"dead (was process {record['pid']})" if record else "not started"
