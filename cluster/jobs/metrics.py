"""Functions for the code of a rank: logging metrics during a run, and the folder for a run's files."""

from __future__ import annotations

import atexit
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cluster.system import settings

from .run import rank_log
from .run.run_folder import METRICS, Run

OWN = ("rank", "time", "attempt")  # columns that every line has; all others were logged

_calls: Counter[str] = Counter()  # number of calls of `log`, and of those whose line was not kept


def log(**values: Any) -> None:
    """Append one line of numbers to the rank's metrics; `job.metrics()` returns all lines as a DataFrame.

    `step` (done so far) and `steps` (in all) drive the progress bar of `job.wait()`. Tensors and NumPy
    scalars are converted to numbers. Outside a job nothing happens, so the same function runs anywhere. After
    the file has reached half of the job's `max_output`, lines are kept less and less often.

    Raises ValueError for `rank`, `time` and `attempt`, which every line already contains.

    >>> log(step=3, steps=100, loss=0.25)
    """
    for name in OWN:
        if name in values:
            raise ValueError(
                f"log({name}=...): the name {name} is reserved, because every line already has it; use "
                "another name."
            )
    folder = settings.text("CLUSTER_JOB")
    if not folder:
        return
    rank = int(settings.required("CLUSTER_RANK"))
    line = {"rank": rank, "time": time.time(), **{k: _plain(v) for k, v in values.items()}}
    if (attempt := settings.whole_number("CLUSTER_ATTEMPT")) > 1:
        line["attempt"] = attempt
    with open(Run(Path(folder)).metrics(rank), "a") as f:
        text = json.dumps(line) + "\n"
        if _kept(f.tell(), len(text), rank_log.cap()):
            f.write(text)  # one write per line, so readers see complete lines


def _kept(at: int, more: int, cap: int) -> bool:
    """Return whether to keep a line: all in the first half, then every 2nd, 4th, …, preserving the curves."""
    _calls["all"] += 1
    thin = 2 ** (max(0, 2 * at - cap) * 8 // cap)
    if at + more <= cap and _calls["all"] % thin == 0:
        return True
    if not _calls["left out"]:
        _say(f"Half of the {cap} bytes for metrics (max_output) are used; some later lines are omitted.")
        atexit.register(lambda: _say("Lines of metrics left out: {left out} of {all}.".format(**_calls)))
    _calls["left out"] += 1
    return False


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run_folder() -> Path:
    """Return the job's folder, for checkpoints and other files, or the current directory outside a job.

    All ranks share the folder, so only one rank should write to it.
    """
    return Path(settings.text("CLUSTER_JOB") or ".")


def last(path: Path, having: str = "") -> dict[str, Any]:
    """Return the last complete line of a metrics file, however long it is; {} if there is none.

    having: return the last line that contains this name, among the lines in the file's last MiB.
    """
    size, block = path.stat().st_size if path.is_file() else 0, 4096
    while size:
        with open(path, "rb") as f:
            f.seek(max(0, size - block))
            lines = f.read(size).split(b"\n")[:-1]  # the part after the last newline is incomplete
        rows = (_row(line, {}) for line in reversed(lines if block >= size else lines[1:]))
        if match := next((row for row in rows if row and (not having or having in row)), None):
            return match
        if block >= size or (having and block >= 2**20):
            return {}
        block *= 8
    return {}


class Tail:
    """The metrics of a run as they grow: each `new_rows()` returns the lines added since the last one."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._at: dict[Path, int] = {}
        self._time: dict[Path, float] = {}  # of the last row

    def new_rows(self) -> list[dict[str, Any]]:
        """Return new lines of all ranks in chronological order; an incomplete line is left for later."""
        rows = []
        for path in Run(self._folder).all_metrics():
            with open(path, "rb") as f:
                f.seek(self._at.get(path, 0))
                whole = f.read().rpartition(b"\n")[0]
            if whole:
                self._at[path] = self._at.get(path, 0) + len(whole) + 1
                usual = {"rank": int(path.stem.removeprefix(METRICS)), "time": self._time.get(path, 0.0)}
                for line in whole.splitlines():
                    if row := _row(line, usual):
                        rows.append(row)
                        usual["time"] = self._time[path] = row["time"]
        return sorted(rows, key=lambda r: r["time"])


def whole(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows without those that a later attempt computed again: one curve per rank.

    If a later attempt begins with step s (or, if no steps were logged, epoch s), the rank's earlier rows
    count up to the first at s or beyond. Rows with neither step nor epoch count only for the last attempt.
    """
    attempts: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for r in rows:
        attempts.setdefault((r.get("attempt", 1), r["rank"]), []).append(r)
    kept: dict[int, list[dict[str, Any]]] = {}
    for (_, rank), new in sorted(attempts.items()):
        old = kept.get(rank, [])
        name = next((n for n in ("step", "epoch") for r in new if number(r.get(n))), "")
        begin = next((r[name] for r in new if number(r.get(name))), 0)
        again = (i for i, r in enumerate(old) if number(r.get(name)) and r[name] >= begin)
        kept[rank] = old[: next(again, len(old))] * bool(name) + new
    return sorted((r for of_rank in kept.values() for r in of_rank), key=lambda r: r["time"])


def number(v: Any) -> bool:
    """Return whether a logged value is a number that a curve can show."""
    return isinstance(v, float) or (type(v) is int and abs(v) < 2**63)


def _row(line: bytes, usual: dict[str, Any]) -> dict[str, Any] | None:
    """Return a line of metrics with `usual` in place of missing values; None if it is damaged."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    row |= {name: v for name, v in usual.items() if not number(row.get(name))}
    if not isinstance(row.get("attempt", 1), int):
        del row["attempt"]
    return row


def _plain(v: Any) -> Any:
    if v is None or isinstance(v, (bool, int, float, str)):
        return v
    if hasattr(v, "numpy"):
        v = v.numpy()
    return v.tolist() if hasattr(v, "tolist") else str(v)
