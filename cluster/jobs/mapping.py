"""`map`: run one function on many items as one sweep, which is a Slurm array or a queue on this machine."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path
from typing import Any

from cluster.system import files

from . import backends
from .code import fingerprint
from .errors import JobError, NotPicklable, OptionError, OptionValueError, Refused, StillRunning
from .job import say
from .run import attempts, layout, provenance, shared, sweeps
from .run.run_folder import LOCK, RunFolder, RunRecord
from .run.status import settled_status, status_of
from .submission import FORMAT, Plan, discard, now, plan, say_large
from .sweep import Sweep

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
    requested = survey(target, items, max_parallel, keywords)
    existing = recorded(requested)
    if existing:
        return existing
    options = requested.plans[0].options
    backend, why = backends.choose(options.backend)
    runner = backends.get(backend)
    runner.check(requested.plans[0].run_json(backend))
    runner.check_round(range(len(requested.plans)))
    with layout.lock(requested.runs, requested.key):
        existing = recorded(requested)  # another process may have just submitted it
        if existing:
            return existing
        folder, held, run = make(requested, backend)
    with held:
        sweep = Sweep(folder)
        round_folder = RunFolder(folder).round(sweep.last)
        try:
            note = runner.start_round(round_folder, provenance.environment(options), held) if run else ""
        except Refused:
            discard(round_folder if sweep.last > 1 else folder)
            raise
    say(f"{sweep.id}: {_told(requested, sweep, run)} on the {backend} backend{why}{note}")
    if run:
        say_large(requested.plans[run[0]], len(run))
    return sweep


@dataclass(frozen=True)
class SweepPlan:
    """A requested sweep: a plan for each item, and the sweep's cache key."""

    plans: list[Plan]
    items: list[Any]  # the items as JSON values
    max_parallel: int | None
    key: str
    runs: Path

    @property
    def rerun(self) -> bool:
        return self.plans[0].options.rerun

    def run_json(self, backend: str) -> RunRecord:
        """Return the sweep's run.json."""
        first = self.plans[0]
        given = [f"max_parallel={self.max_parallel}"] if self.max_parallel else []
        one = first.run_json(backend)
        (parameter, _), *others = first.arguments.items()  # the first argument is the item
        rest = provenance.keywords(dict(others), one["options"])
        one["key"] = self.key
        one["items"], one["keys"] = self.items, [p.key for p in self.plans]
        one["parameter"] = parameter if isinstance(parameter, str) and parameter.isidentifier() else "item"
        one["command"] = f"map({', '.join([first.name, provenance.short(self.items), *given, *rest])})"
        return one


def survey(target: Any, items: Any, max_parallel: int | None, keywords: dict[str, Any]) -> SweepPlan:
    """Return the sweep requested by a call of `map`, without writing anything."""
    whole = max_parallel is None or (isinstance(max_parallel, int) and not isinstance(max_parallel, bool))
    if not whole or max_parallel == 0 or (max_parallel or 1) < 1:
        raise OptionValueError(
            f"max_parallel={max_parallel!r} is not valid.",
            "max_parallel must be a whole number, 1 or more, or None.",
        )
    plans = []
    for i, item in enumerate(_listed(items)):
        try:
            plans.append(plan(target, (item,), keywords, "map", ("max_parallel",)))
        except NotPicklable as e:
            raise NotPicklable(f"items[{i}]: {e.what}", e.next_step) from None
    key = fingerprint.digest([FORMAT, "map", [p.key for p in plans]])
    return SweepPlan(plans, [_plain(v) for v in items], max_parallel, key, plans[0].runs)


def recorded(requested: SweepPlan) -> Sweep | None:
    """Return the sweep with this cache key if it is running, or is done and need not be rerun, or None."""
    folder = layout.find(requested.runs, requested.key)
    if folder is None:
        return None
    sweep = Sweep(folder)
    for item in sweeps.items(folder, sweep.last).values():
        settled_status(item)
    now = sweep.status
    if not now.ended:
        if requested.rerun:
            raise StillRunning(
                f"{sweep.id} is {now}; it cannot be rerun yet.", "Wait for it, or cancel it: sweep.cancel()."
            )
        say(f"{sweep.id} is {now} ({now.what}), so it was not submitted again.")
        return sweep
    if now == "done" and not requested.rerun:
        say(f"{sweep.id}: recorded on {sweep.spec['submitted'][:10]}, not run again (rerun=True runs it).")
        return sweep
    return None


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


def _told(requested: SweepPlan, sweep: Sweep, run: list[int]) -> str:
    """Describe a sweep: '8 items of 2 ranks (3 are recorded), 2 at a time,'."""
    n, p = len(sweep), sweep.ranks
    text = f"{n} item{'s' * (n > 1)}" + (f" of {p} ranks" if p > 1 else "")
    equal = n - len(set(sweep.spec["keys"]))
    counts = [(equal, "equal to others"), (n - equal - len(run), "recorded")]
    known = [f"{k} {'are' if k > 1 else 'is'} {what}" for k, what in counts if k]
    text += f" ({', '.join(known)})" if known else ""
    at_once = backends.get(sweep.backend).at_once(sweep.spec, requested.max_parallel)
    return f"{text}, {at_once} at a time," if run and at_once and at_once < len(run) else text


def make(requested: SweepPlan, backend: str) -> tuple[Path, BufferedWriter, list[int]]:
    """Return (the sweep's folder, its lock, the items to run): a new round, which the lock's holder starts.

    One process at a time may call it for a sweep. Killed at any moment, it leaves a complete round or none.
    """
    run = requested.run_json(backend)
    target = layout.find(requested.runs, requested.key) or requested.runs / layout.name(
        run["name"], requested.key
    )
    former = target.is_dir()
    number = sweeps.latest(target) + 1 if former else 1
    for folder in (requested.runs, target):
        layout.remove_half_made(folder)
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=target if former else requested.runs))
    inside = temporary if former else _folder(RunFolder(temporary).round(1))
    todo = _compose(requested, backend, inside, RunFolder(target).round(number), number)
    for item in (requested.plans[i] for i in todo):
        shared.store(target if former else temporary, item.call.get("arrays", []), item.arrays)
    if former:
        held = layout.hold(target)
        os.rename(temporary, RunFolder(target).round(number))
        begun = RunFolder(target).read_run()["submitted"]
        files.write_json(RunFolder(target).run_json, run | {"submitted": begun, "resumed": run["submitted"]})
    else:
        RunFolder(temporary).run_json.write_text(json.dumps(run, indent=1) + "\n")
        held = layout.hold(temporary)
        os.rename(temporary, target)
    return target, held, todo


def _compose(requested: SweepPlan, backend: str, made: Path, target: Path, number: int) -> list[int]:
    """Fill a round's folder, to be moved to `target`, and return the items that must run."""
    options, runner = requested.plans[0].options, backends.get(backend)
    keys = [p.key for p in requested.plans]
    there = sweeps.items(target.parent, number - 1)
    elsewhere = {} if requested.rerun else _done(requested.runs, set(keys))
    todo = []
    for i, first in enumerate(sweeps.first(keys)):
        old = there.get(i)
        if first != i or (old and not requested.rerun and status_of(old) == "done"):
            continue
        run, item = requested.plans[i].run_json(backend, item=i), made / str(i)
        if keys[i] in elsewhere:
            shutil.copytree(
                elsewhere[keys[i]], item, copy_function=_link, ignore=shutil.ignore_patterns(LOCK)
            )
            continue
        todo.append(i)
        if old and options.requeue and not options.rerun and attempts.goes_on(old):
            shutil.copytree(old, item, ignore=shutil.ignore_patterns(LOCK))
            run = attempts.following(old, run)
            attempts.resume(item, requested.plans[i].files(run, target / str(i), runner)).close()
            continue
        _folder(item)
        for name, content in requested.plans[i].files(run, target / str(i), runner).items():
            layout.write_private(item / name, content)
    if todo:
        run = requested.run_json(backend)
        at_once = runner.at_once(run, requested.max_parallel)
        RunFolder(made).script.write_text(runner.array(run, target, todo, at_once))
        facts = {"items": todo, "at_once": at_once, "submitted": now()}
        RunFolder(made).round_json.write_text(json.dumps(facts, indent=1) + "\n")
    return todo


def _done(runs: Path, keys: set[str]) -> dict[str, Path]:
    """Return {key: a job folder with a successful recorded run}, from single jobs and other sweeps."""
    short = {k[:12]: k for k in keys}
    done: dict[str, Path] = {}
    for folder in layout.folders(runs):
        try:
            run = RunFolder(layout.check_owner(folder)).read_run()
            if "items" in run:
                jobs = sweeps.items(folder, sweeps.latest(folder))
                at = {k: jobs[i] for i, k in enumerate(run["keys"]) if k in keys and i in jobs}
            else:
                at = {run["key"]: folder} if folder.name[-12:] in short and run["key"] in keys else {}
            ends = {k: files.read_json(RunFolder(p).end) or {} for k, p in at.items()}
            done |= {k: p for k, p in at.items() if ends[k].get("ending") == "Done"}
        except DAMAGED:  # or owned by another user; jobs() reports such folders
            continue
    return done


def _link(source: str, target: str) -> None:
    """Hard-link a file that no longer changes, or copy it if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _folder(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path
