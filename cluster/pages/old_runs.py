"""Old runs: runs in an assignment's folder that its notebooks no longer name.

They are left out of a submission and of the official check, and a button removes them. A run is named

- if its ID occurs in a notebook or script of the folder (`submit` and `map` print it below the cell), or was
  printed when Validate last ran the notebook, or
- if all lines of its code still exist, unless another run of that function is named in this way, too.

If a cell was not run or hides its output, IDs may be missing; then all runs whose code exists are named.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from cluster.system import files

RUNS, VALIDATED = "runs", ".validated"
NOT_SUBMITTED = (".ipynb_checkpoints", "__pycache__", "feedback")  # folders that nbgrader leaves out, too
TEXTS = (".ipynb", ".py", ".md", ".txt")  # files that may name a run
LARGEST = 50 * 2**20  # maximum bytes of a file that is searched for IDs
HIDES = re.compile(r"%%capture|clear_output|redirect_stdout|capture_output")
CONSTANT = re.compile(r"\w+ = ")  # a line of code.py that may be the value of a global name


def old_runs(folder: Path, released: Path | None = None) -> list[Path]:
    """Return the runs that no notebook names. released: the folder with the assignment as released."""
    from cluster.jobs.errors import JobError
    from cluster.jobs.run import layout

    try:
        runs = layout.folders(folder / RUNS)
    except (JobError, OSError):  # the folder belongs to another user
        return []
    if not runs:
        return []
    texts, lines, complete = _texts(folder)
    lines |= _texts(released)[1] if released else set()  # because grading restores read-only cells
    with contextlib.suppress(OSError):
        texts += (folder / RUNS / VALIDATED).read_text(errors="replace")
    named = {run for run in runs if _names(texts, run.name)}
    present = {run: _target(run) for run in runs if _code(run) <= lines}
    known = {target for run, target in present.items() if run in named} if complete else set()
    named |= {run for run, target in present.items() if target not in known}
    return [run for run in runs if run not in named]


def keep_names(folder: Path, executed: Any) -> None:
    """Store the output of a notebook's cells from Validate, because it names runs, too."""
    printed = [output.get("text", "") for cell in executed.cells for output in cell.get("outputs", [])]
    if (folder / RUNS).is_dir():
        with contextlib.suppress(OSError):  # the disk is full: the older list is kept
            files.write(folder / RUNS / VALIDATED, "\n".join(printed), mode=0o600)


def submitted(folder: Path, old: Iterable[Path]) -> Iterator[Path]:
    """Yield all submitted files and folders below `folder`, without following links."""
    leaves = left_out(folder, old)
    for above, folders, names in os.walk(folder):
        skipped = leaves(above, [*folders, *names])
        folders[:] = sorted(name for name in folders if name not in skipped)
        yield from (Path(above, name) for name in [*folders, *sorted(names)] if name not in skipped)


def left_out(folder: Path, old: Iterable[Path]) -> Callable[[str, list[str]], set[str]]:
    """Return the function for `shutil.copytree` that returns the names to omit in a folder."""
    skipped, runs = {str(run) for run in old}, Path(folder, RUNS)

    def names_left_out(above: str, names: list[str]) -> set[str]:
        omitted = {name for name in names if name in NOT_SUBMITTED or str(Path(above, name)) in skipped}
        hidden = Path(above) == runs  # locks, and incomplete runs
        return omitted | {name for name in names if hidden and name.startswith(".")}

    return names_left_out


def measure(folders: Iterable[Path]) -> dict[str, int]:
    """Return the numbers of runs, files and bytes in these folders of runs."""
    totals = {"runs": 0, "files": 0, "bytes": 0}
    for folder in folders:
        totals["runs"] += 1
        for above, inside, names in os.walk(folder):
            totals["files"] += len(inside) + len(names)
            totals["bytes"] += sum(os.lstat(Path(above, name)).st_size for name in names)
    return totals


def remove(folders: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """Remove runs that have ended. Returns the removed ones, and the reason for each that stays."""
    from cluster.jobs.errors import JobError
    from cluster.jobs.find import handle
    from cluster.jobs.run import layout
    from cluster.jobs.run.run_folder import Run

    gone, kept = [], []
    for folder in folders:
        try:
            with Run(folder).claim() as free:
                if not free or not handle(folder).status.ended:
                    kept.append(f"{folder.name} is still running.")
                    continue
                layout.discard(folder)
        except (JobError, OSError, ValueError) as error:
            kept.append(f"{folder.name}: {error}")
            continue
        gone.append(folder)
    return gone, kept


def _texts(folder: Path) -> tuple[str, set[str], bool]:
    """Return (source of files that may name a run, their lines of code, whether all cells show output)."""
    texts, lines, complete = [], set(), True
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.suffix not in TEXTS or not path.is_file() or path.stat().st_size > LARGEST:
            continue
        text = path.read_text(errors="replace")
        texts.append(text)
        if path.suffix == ".ipynb":
            cells = _cells(text)
            sources = [source for source, _ in cells]
            complete = complete and all(ran and not HIDES.search(source) for source, ran in cells)
        else:
            sources = [text]
        lines |= set().union(*map(_lines, sources))
    return "\n".join(texts), lines, complete


def _cells(text: str) -> list[tuple[str, bool]]:
    """Return (source, whether it was run) of a notebook's code cells; none if the file is not a notebook."""
    try:
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        result = [("".join(cell["source"]), cell.get("execution_count") is not None) for cell in cells]
    except (ValueError, LookupError, TypeError):
        return []
    return [(source, ran) for source, ran in result if source.strip()]


def _names(text: str, run: str) -> bool:
    """Return whether a text names a run, and not only one whose ID begins with the same characters.

    >>> _names("train-0123456789ab: recorded", "train-0123456789ab")
    True
    >>> _names("kept as train-0123456789ab.1.", "train-0123456789ab")
    False
    """
    return re.search(rf"(?<![\w.-]){re.escape(run)}(?!\.\d)(?![\w-])", text) is not None


def _code(run: Path) -> set[str]:
    """Return the lines of a run's code, without the values of global names."""
    from cluster.jobs.run.run_folder import RunFolder

    try:
        text = RunFolder(run).code.read_text(errors="replace")
    except OSError:  # for a sweep, the code of its first item
        rounds = RunFolder(run).rounds().values()
        return next((_code(item) for round in rounds for item in RunFolder(round).items().values()), set())
    return _lines(text)


def _lines(text: str) -> set[str]:
    """Return the lines of code in a text, without the values of global names."""
    return {line.strip() for line in text.splitlines() if line.strip() and not CONSTANT.match(line)}


def _target(run: Path) -> Any:
    """Return the name of the function or script of a run."""
    from cluster.jobs.run.run_folder import RunFolder

    try:
        facts = files.read_json(RunFolder(run).run_json)
    except (OSError, ValueError):
        return None
    return facts.get("target") if isinstance(facts, dict) else None
