"""Where a rank stands when it makes no progress: its Python stack, and since when it has waited.

The rank registers a signal at which it writes its stack (`register`). Its parent process looks once a second
(`Watch.look`): a rank that neither prints, logs nor computes for `QUIET` seconds writes its stack, which
stays in `stacks-R.txt`. A summary is in `location-R.json` for as long as it makes no progress; ranks that
compute while others wait write theirs, too. A request file in the run's folder asks all ranks for their
stacks, so this needs no signal from another machine.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import time
import traceback
from pathlib import Path
from types import TracebackType

from cluster.system import files

from ..code.modules import installed
from ..folder.run_folder import RunFolder
from ..state.waiting import Location, waiting_ranks

SIGNAL = signal.SIGRTMIN + 10  # used by nothing else: USR1 is NCCL's, USR2 is the warning before a time limit
QUIET = 10.0  # seconds without progress until a rank counts as waiting
WINDOW = 5.0  # seconds over which the use of a core is measured
BUSY = 0.25  # of a core: a rank that uses less does not compute (Horovod's own thread takes a few percent)

FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)')
COLLECTIVES = re.compile(r"allreduce|allgather|alltoall|broadcast|reducescatter|barrier|synchronize|join")
KERAS = ("evaluate", "predict", "fit")
KERAS_CALL = re.compile(rf"\.({'|'.join(KERAS)})\(")

Frame = tuple[str, int, str]  # file, line, function


def register(folder: Path, rank: int) -> None:
    """Have this process write the stacks of its threads at `SIGNAL`."""
    file = open(RunFolder(folder).stacks(rank), "a")  # noqa: SIM115 (as long as the process lives)
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)


class Watch:
    """The progress of a rank, as its parent process sees it."""

    def __init__(self, folder: Path, rank: int, child: int):
        self._files, self._rank, self._child = RunFolder(folder), rank, child
        self._since = self._at = time.time()
        self._seen: tuple[int, int] = (0, 0)
        self._cpu = 0.0
        self._asked = 0.0  # when the rank was last asked for its stack
        self._pending = False  # whether what it then wrote has not been read yet
        self._noted: Location | None = None
        self._stopped = False

    def stop(self) -> None:
        """Keep what is written: from here on the rank is being ended, and what it prints is no progress."""
        self._stopped = True

    def look(self) -> None:
        """To be called about once a second."""
        if self._stopped:
            return
        with contextlib.suppress(OSError, ValueError, IndexError):
            self._look()

    def _look(self) -> None:
        now, seen = time.time(), self._sizes()
        if not self._files.ready(self._rank).exists():  # it imports libraries, or meets the others
            self._since = self._at = now
        progress, self._seen = seen != self._seen, seen
        others_wait = False
        if now - self._at >= WINDOW:
            cpu = self._cpu_seconds()
            progress = progress or (cpu - self._cpu) > BUSY * (now - self._at)
            self._at, self._cpu = now, cpu
            others_wait = bool(waiting_ranks(self._files.path) - {self._rank})
            if self._noted and self._noted["computing"] and not others_wait:
                self._forget()
        if progress:
            self._since = now
            if self._noted and not self._noted["computing"]:
                self._forget()
        waits = now - self._since >= QUIET
        if self._pending:
            self._note(not waits)
        request = self._files.stacks_request
        requested = request.stat().st_mtime if request.exists() else 0.0
        unknown = waits and (self._noted is None or self._noted["computing"])
        if unknown or requested > self._asked or (others_wait and not waits):
            self._ask(now, note=waits or others_wait)

    def _ask(self, now: float, note: bool) -> None:
        with contextlib.suppress(FileNotFoundError):  # not registered yet
            os.truncate(self._files.stacks(self._rank), 0)
            os.kill(self._child, SIGNAL)
            self._asked, self._pending = now, note

    def _note(self, computing: bool) -> None:
        """Write down where the rank stands; it was asked for its stack a second ago."""
        frames = frames_of(self._files.stacks(self._rank).read_text(errors="replace"))
        self._noted, self._pending = location(frames, self._since, computing), False
        files.write_json(self._files.location(self._rank), self._noted)

    def _forget(self) -> None:
        self._files.location(self._rank).unlink(missing_ok=True)
        self._noted = None

    def _sizes(self) -> tuple[int, int]:
        paths = (self._files.log(self._rank), self._files.metrics(self._rank))
        log, metrics = (p.stat().st_size if p.exists() else 0 for p in paths)
        return log, metrics

    def _cpu_seconds(self) -> float:
        """Processor time of all threads, and the time for which the main thread waited for a processor.

        On a busy machine a rank that computes gets less of a core, but it is always ready to run.
        """
        fields = Path(f"/proc/{self._child}/stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        with contextlib.suppress(OSError, IndexError):  # a kernel without scheduling statistics
            used += int(Path(f"/proc/{self._child}/schedstat").read_text().split()[1]) / 1e9
        return used


def frames_of(text: str) -> list[Frame]:
    """The frames of the main thread, innermost first, from what `faulthandler` wrote: it writes it last."""
    lines = text.rstrip().rpartition("most recent call first):\n")[2].splitlines()
    return [(m["file"], int(m["line"]), m["function"]) for m in map(FRAME.match, lines) if m]


def of_traceback(tb: TracebackType | None) -> tuple[list[Frame], str]:
    """(frames, innermost first; the student's innermost line as text) of an exception."""
    found = traceback.extract_tb(tb)[::-1]
    line = next((f.line or "" for f in found if own(f.filename)), "")
    return [(f.filename, f.lineno or 0, f.name) for f in found], line


def location(frames: list[Frame], since: float, computing: bool = False, text: str = "") -> Location:
    """Where a rank stands: the student's own line, and what it calls there.

    text: that line, which names the call of Keras where its frames are left out, as in its tracebacks.

    >>> location([("/home/me/train.py", 14, "train")], since=0.0)["where"]
    'line 14 of your cell, in train'
    """
    mine = next((f for f in frames if own(f[0])), None)
    where = _line(*mine) if mine else "code of a library"
    called = frames[: frames.index(mine)] if mine else frames
    names = (function for file, _, function in called if "horovod" in file + function)
    collective = next(filter(COLLECTIVES.search, names), "").removeprefix("horovod_").strip("_")
    keras = next((function for _, _, function in called[::-1] if function in KERAS), "")
    if not keras and (named := KERAS_CALL.search(text)):
        keras = named[1]
    calls = [name for name in (keras, collective) if name]
    return {"since": since, "where": where, "calls": calls, "computing": computing}


def own(file: str) -> bool:
    """Whether a file is the student's: a script, a module, a cell of a notebook."""
    return not file.startswith("<") and not installed(file)


def _line(file: str, line: int, function: str) -> str:
    known = "ipykernel" not in file and (Path(file).exists() or "/" not in file)
    return f"line {line} of {Path(file).name if known else 'your cell'}, in {function}"
