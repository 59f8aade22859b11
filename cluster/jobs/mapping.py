"""`map`: run one function on many items as one sweep, which is a Slurm array or a queue on this machine."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.system import files

from . import backends
from .code import fingerprint, reads
from .errors import JobError, NotPicklable, OptionError, OptionValueError
from .run import attempts, layout, provenance, shared
from .run.run_folder import LOCK, Run, RunRecord
from .submission import FORMAT, Made, Plan, launch, now, plan, reused
from .sweep import Sweep, first_of_equals

DAMAGED = (JobError, OSError, ValueError, LookupError, TypeError)  # raised when a damaged folder is read


def map(
    target: Callable | str | os.PathLike,
    items: Sequence[Any],
    *,
    max_parallel: int | None = None,
    **keywords: Any,
) -> Sweep:
    """Run a function once for each item as a separate job, and return a `Sweep` at once.

    target: a function, which is called with an item as its first argument, or the path of a .py script,
    which gets the item as its only argument. items: a list, tuple, range, array, or any other object with a
    length and an order. If a call needs several values, make each item a tuple or a dictionary. max_parallel:
    the maximum number of items that run at the same time. The default on Slurm is no limit. On this machine
    it is one item per set of cores, and all items together have at most as many ranks as a single job may.

    All options of `submit` are accepted. They apply to each item: with nodes=2, each item runs on two nodes.
    Any other keyword is an argument of the function, with the same value for all items.

    On Slurm the sweep is one array, so a single command submits or queries it. On this machine a queue runs
    the items in their order, and continues without the notebook.

    The same function with the same items is the same sweep. While it runs you get the running sweep. When
    called again later, it reruns only the items that have failed. With requeue=True interrupted items
    resume from their checkpoints. An item that is already recorded, by another sweep or by `submit`, is not
    rerun. A list of items can therefore grow. Equal items are one run. rerun=True runs all of them.

    Raises the same errors as `submit`; no item is then run.

    >>> from cluster import jobs
    >>> def train(rate, epochs):
    ...     import keras
    ...     from cluster.training import data
    ...     keras.utils.set_random_seed(1)
    ...     x, y = data.fashion_mnist("train", limit=1000)
    ...     model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, "softmax")])
    ...     loss = "sparse_categorical_crossentropy"
    ...     model.compile(keras.optimizers.SGD(rate), loss, metrics=["accuracy"])
    ...     history = model.fit(x, y, batch_size=50, epochs=epochs, verbose=0).history
    ...     return {name: values[-1] for name, values in history.items()}
    >>> sweep = jobs.map(train, [0.001, 0.1, 10.0], epochs=2)                       # doctest: +SKIP
    >>> best = min(sweep.results(), key=lambda r: r["loss"])                        # doctest: +SKIP
    >>> table = sweep.table()          # rate, status, accuracy, loss, ... as a DataFrame    # doctest: +SKIP
    >>> figure = sweep.figure("loss")  # loss against rate, as a picture                     # doctest: +SKIP
    """
    return launch(survey(target, items, max_parallel, keywords))


@dataclass(frozen=True)
class SweepPlan(Plan):
    """A requested sweep: a plan for each item, and the sweep's cache key. `program` is the first item's."""

    plans: list[Plan]
    items: list[Any]  # the items as JSON values
    max_parallel: int | None

    def recorded(self) -> Sweep | None:
        folder = layout.find(self.runs, self.key)
        if folder is None:
            return None
        sweep = Sweep(folder)
        for run in sweep.newest.values():
            backends.settled_status(run)
        status = sweep.status
        changed = [file for run in sweep.newest.values() for file in reads.changed(run)]
        return reused(sweep, status, self.options.rerun, f" ({status.what})", changed)

    def run_json(self, backend: str, item: int | None = None) -> RunRecord:
        record = super().run_json(backend, item)
        (parameter, _), *others = self.program.arguments.items()  # the first argument is the item
        named = isinstance(parameter, str) and parameter.isidentifier()
        record["items"], record["keys"] = self.items, [p.key for p in self.plans]
        record["parameter"] = parameter if named else "item"
        record["bases"] = [p.base for p in self.plans]
        record["files"] = {path: state for p in self.plans for path, state in p.files.items()}
        call = [self.program.name, provenance.short(self.items)]
        call += [f"max_parallel={self.max_parallel}"] if self.max_parallel else []
        record["command"] = f"map({', '.join(call + provenance.keywords(dict(others), record['options']))})"
        return record

    def check(self, backend: backends.Backend, record: RunRecord) -> None:
        super().check(backend, record)
        backend.check_items(len(self.plans))

    def make(self, backend: backends.Backend, record: RunRecord) -> Made:
        """Make a new round."""
        found = layout.find(self.runs, self.key)
        target = Run(found or self.runs / layout.name(record["name"], self.key))
        number = max(target.rounds(), default=0) + 1 if found else 1
        layout.remove_half_made(target.path)
        temporary = Run(Path(tempfile.mkdtemp(prefix=".new-", dir=target.path if found else self.runs)))
        made = temporary if found else Run(temporary.round(1))
        made.path.mkdir(mode=0o700, exist_ok=True)
        todo = self._fill(backend, record, made, target, number)
        for sent in (self.plans[i].program for i in todo):
            shared.store(target if found else temporary, sent.call.get("arrays", []), sent.arrays)
        if found:
            held = target.hold()
            os.rename(temporary.path, target.round(number))
            begun = {"submitted": target.record["submitted"], "resumed": record["submitted"]}
            files.write_json(target.run_json, record | begun)
        else:
            temporary.run_json.write_text(json.dumps(record, indent=1) + "\n")
            held = temporary.hold()
            os.rename(temporary.path, target.path)
        round_folder = target.round(number)
        return Made(
            Sweep(target.path), Run(round_folder) if todo else None, held,
            round_folder if found else target.path, self._described(backend, record, len(todo)),
            self.plans[todo[0]].program if todo else None, len(todo),
        )  # fmt: skip

    def _fill(
        self, backend: backends.Backend, record: RunRecord, made: Run, target: Run, number: int
    ) -> list[int]:
        """Fill the folder of round `number` of `target`, and return the items that must run."""
        keys, final = [p.key for p in self.plans], target.round(number)
        there = target.newest_items(number - 1)
        elsewhere = {} if self.options.rerun else _done(self.runs, set(keys))
        todo = []
        for i, first in enumerate(first_of_equals(keys)):
            old, item, one = there.get(i), made.path / str(i), self.plans[i]
            if first != i or (old and not self.options.rerun and _is_final(old)):
                continue
            if keys[i] in elsewhere:
                ignored = shutil.ignore_patterns(LOCK)
                shutil.copytree(elsewhere[keys[i]].path, item, copy_function=_link, ignore=ignored)
                continue
            todo.append(i)
            again = one.run_json(record["backend"], item=i)
            if old and one.resumes(old):
                shutil.copytree(old.path, item, ignore=shutil.ignore_patterns(LOCK))
                again = attempts.following(old, again)
                attempts.resume(Run(item), one.contents(backend, again, final / str(i))).close()
            else:
                item.mkdir(mode=0o700)
                layout.write_private(item, one.contents(backend, again, final / str(i)))
        if todo:
            made.script.write_text(backend.array(record, final, todo, self.max_parallel))
            facts = {"items": todo, "at_once": backend.at_once(record, self.max_parallel), "submitted": now()}
            made.round_json.write_text(json.dumps(facts, indent=1) + "\n")
        return todo

    def _described(self, backend: backends.Backend, record: RunRecord, running: int) -> str:
        """Describe the sweep: '8 items of 2 ranks (3 are recorded), 2 at a time,'."""
        n, p = len(self.plans), record["ranks"]
        text = f"{n} item{'s' * (n > 1)}" + (f" of {p} ranks" if p > 1 else "")
        equal = n - len(set(record["keys"]))
        counts = [(equal, "equal to others"), (n - equal - running, "recorded")]
        known = [f"{k} {'are' if k > 1 else 'is'} {what}" for k, what in counts if k]
        text += f" ({', '.join(known)})" if known else ""
        at_once = backend.at_once(record, self.max_parallel)
        return f"{text}, {at_once} at a time," if at_once and at_once < running else text


def survey(target: Any, items: Any, max_parallel: int | None, keywords: dict[str, Any]) -> SweepPlan:
    """Return the sweep requested by a call of `map`, without writing anything."""
    whole = isinstance(max_parallel, int) and not isinstance(max_parallel, bool)
    if max_parallel is not None and (not whole or max_parallel < 1):
        raise OptionValueError(
            f"max_parallel={max_parallel!r} is not valid.",
            "max_parallel must be a whole number, 1 or more, or None.",
        )
    plans: list[Plan] = []
    index = None
    for i, item in enumerate(_listed(items)):
        try:
            plans.append(plan(target, (item,), keywords, "map", ("max_parallel",), index))
            if plans[-1].files and index is None:
                index = reads.recorded(plans[-1].runs)
        except NotPicklable as e:
            raise NotPicklable(f"items[{i}]: {e.what}", e.next_step) from None
    key = fingerprint.digest([FORMAT, "map", [p.key for p in plans]])
    first, plain = plans[0], [_plain(v) for v in items]
    notes = list(dict.fromkeys(note for p in plans for note in p.notes))
    return SweepPlan(
        first.options, first.program, first.runs, key, key, {}, {}, notes, plans, plain, max_parallel
    )  # fmt: skip


def _listed(items: Any) -> list[Any]:
    """Return the items as a list; raises OptionError or OptionValueError if they are not a sequence."""
    hint = "Give a list, a tuple, a range or an array."
    if isinstance(items, (str, bytes, dict, set, frozenset)) or hasattr(items, "columns"):
        if isinstance(items, dict):
            hint = "Give list(d.items()) or list(d.values())."
        if hasattr(items, "columns"):
            hint = "Give df.to_dict('records'): each item is then a row."
        raise OptionError(f"map() takes a list of items, not a {type(items).__name__}.", hint)
    try:
        n = len(items)
    except TypeError:
        hint = "Give list(...) of it." if hasattr(items, "__next__") else hint
        raise OptionError(f"map() takes a list of items, not {provenance.short(items)}.", hint) from None
    if n == 0:
        raise OptionValueError(f"items={provenance.short(items)} is empty.", "Give at least one item.")
    return list(items)


def _plain(v: Any) -> Any:
    """Return an item as a JSON value: numbers and strings unchanged, anything else as its text."""
    if type(v).__module__ == "numpy" and hasattr(v, "item") and not getattr(v, "shape", (1,)):
        v = v.item()
    if v is None or isinstance(v, (bool, int, float)) or (isinstance(v, str) and len(v) <= 80):
        return v
    if isinstance(v, dict) and all(isinstance(k, str) for k in v):
        return {k: _plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)) and len(v) <= 20:
        return [_plain(x) for x in v]
    return provenance.short(v)


def _done(runs: Path, keys: set[str]) -> dict[str, Run]:
    done: dict[str, Run] = {}
    for folder in layout.folders(runs):
        try:
            run = Run(folder).check_owner()
            at = {run.record["key"]: run}
            if "items" in run.record:
                jobs = run.newest_items(max(run.rounds(), default=0))
                at = {k: jobs[i] for i, k in enumerate(run.record["keys"]) if i in jobs}
            ends = {k: item.ending() or {} for k, item in at.items() if k in keys}
            done |= {
                k: at[k]
                for k, end in ends.items()
                if end.get("ending") == "Done" and not reads.changed(at[k])
            }
        except DAMAGED:  # or owned by another user; jobs() reports such folders
            continue
    return done


def _is_final(run: Run) -> bool:
    return backends.status_of(run) == "done" and not reads.changed(run)


def _link(source: str, target: str) -> None:
    """Hard-link a file that no longer changes, or copy it if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
