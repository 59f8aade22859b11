"""The rounds of a sweep, made: which items run, which are recorded elsewhere, which go on."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING

from . import attempts, backends, ledger, rounds, state
from .errors import JobError
from .plan import now

if TYPE_CHECKING:
    from .mapping import Asked

DAMAGED = (JobError, OSError, ValueError, LookupError, TypeError)  # what reading a damaged folder raises


def make(asked: Asked, backend: str) -> tuple[Path, BufferedWriter, list[int]]:
    """(the sweep's folder, its lock, items to run): a new round, to be started by who holds the lock.

    One process at a time may call it for a sweep. Killed at any moment, it leaves a whole round or none.
    """
    run = asked.run(backend)
    place = ledger.find(asked.runs, asked.key) or asked.runs / ledger.name(run["name"], asked.key)
    former = place.is_dir()
    number = rounds.latest(place) + 1 if former else 1
    for folder in (asked.runs, place):
        ledger.sweep(folder)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=place if former else asked.runs))
    inside = made if former else _folder(made / "round-1")
    todo = _compose(asked, backend, inside, place / f"round-{number}", number)
    if former:
        held = ledger.hold(place)
        os.rename(made, place / f"round-{number}")
        begun = ledger.read(place / "run.json")["submitted"]
        ledger.write(place / "run.json", run | {"submitted": begun, "resumed": run["submitted"]})
    else:
        (made / "run.json").write_text(json.dumps(run, indent=1) + "\n")
        held = ledger.hold(made)
        os.rename(made, place)
    return place, held, todo


def _compose(asked: Asked, backend: str, made: Path, place: Path, number: int) -> list[int]:
    """Fill a round's folder, which will lie at `place`; returns the items that are to run."""
    options, runner = asked.plans[0].options, backends.get(backend)
    keys = [p.key for p in asked.plans]
    there = rounds.items(place.parent, number - 1)
    elsewhere = {} if asked.rerun else _done(asked.runs, set(keys))
    todo = []
    for i, first in enumerate(rounds.first(keys)):
        old = there.get(i)
        if first != i or (old and not asked.rerun and state.of(old) == "done"):
            continue
        run, item = asked.plans[i].run(backend, item=i), made / str(i)
        if keys[i] in elsewhere:
            shutil.copytree(
                elsewhere[keys[i]], item, copy_function=_link, ignore=shutil.ignore_patterns("lock")
            )
            continue
        todo.append(i)
        if old and options.requeue and not options.rerun and attempts.goes_on(old):
            shutil.copytree(old, item, ignore=shutil.ignore_patterns("lock"))
            run = attempts.following(old, run)
            attempts.resume(item, asked.plans[i].files(run, place / str(i), runner)).close()
            continue
        _folder(item)
        for name, content in asked.plans[i].files(run, place / str(i), runner).items():
            (item / name).write_bytes(content.encode() if isinstance(content, str) else content)
    if todo:
        run = asked.run(backend)
        at_once = runner.at_once(run, asked.max_parallel)
        (made / "job.sh").write_text(runner.array(run, place, todo, at_once))
        facts = {"items": todo, "at_once": at_once, "submitted": now()}
        (made / "round.json").write_text(json.dumps(facts, indent=1) + "\n")
    return todo


def _done(runs: Path, keys: set[str]) -> dict[str, Path]:
    """{key: a job folder in which a run with this key is recorded as done}, alone or in another sweep."""
    short = {k[:12]: k for k in keys}
    found: dict[str, Path] = {}
    for folder in ledger.folders(runs):
        try:
            run = ledger.read(ledger.check_owner(folder) / "run.json")
            if "items" in run:
                jobs = rounds.items(folder, rounds.latest(folder))
                at = {k: jobs[i] for i, k in enumerate(run["keys"]) if k in keys and i in jobs}
            else:
                at = {run["key"]: folder} if folder.name[-12:] in short and run["key"] in keys else {}
            ends = {k: ledger.read(p / "end.json") or {} for k, p in at.items()}
            found |= {k: p for k, p in at.items() if ends[k].get("ending") == "Done"}
        except DAMAGED:  # or another's: jobs() names it
            continue
    return found


def _link(source: str, target: str) -> None:
    """A second name for a file that changes no more, or a copy where the file system has none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _folder(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path
