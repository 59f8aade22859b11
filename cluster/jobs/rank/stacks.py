"""Where a rank stands when it makes no progress: its Python stack, and since when it has waited.

The rank registers a signal at which it writes its stack (`register`). Its parent process looks once a second
(`Watch.look`): a rank that neither prints, logs nor computes for `QUIET` seconds writes its stack, which
stays in `stacks-R.txt`. As long as it makes no progress, a summary is in `quiet-R.json`. A request file in
the run's folder asks all ranks for their stacks, so this needs no signal from another machine.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import time
from pathlib import Path

from cluster.system import files

from ..code.modules import installed
from ..folder.run_folder import RunFolder

SIGNAL = signal.SIGRTMIN + 10  # used by nothing else: USR1 is NCCL's, USR2 is the warning before a time limit
QUIET = 10.0  # seconds without progress until a rank counts as waiting
WINDOW = 5.0  # seconds over which the use of a core is measured
BUSY = 0.25  # of a core: a rank that uses less does not compute (Horovod's own thread takes a few percent)

FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)')
COLLECTIVES = re.compile(r"allreduce|allgather|alltoall|broadcast|reducescatter|barrier|synchronize|join")
KERAS = ("evaluate", "predict", "fit")


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
        self._written = self._stopped = False

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
        if now - self._at >= WINDOW:
            cpu = self._cpu_seconds()
            progress = progress or (cpu - self._cpu) > BUSY * (now - self._at)
            self._at, self._cpu = now, cpu
        if progress:
            self._since = now
            if self._written:
                self._files.quiet(self._rank).unlink(missing_ok=True)
                self._written = False
        request = self._files.stacks_request
        requested = request.stat().st_mtime if request.exists() else 0.0
        if now - self._since >= QUIET and self._asked > self._since and not self._written:
            self._note()
        if requested > self._asked or (now - self._since >= QUIET and self._asked <= self._since):
            self._ask(now)

    def _ask(self, now: float) -> None:
        with contextlib.suppress(FileNotFoundError):  # not registered yet
            os.truncate(self._files.stacks(self._rank), 0)
            os.kill(self._child, SIGNAL)
            self._asked = now

    def _note(self) -> None:
        """Write down since when the rank has waited, and where; the stack was asked for a second ago."""
        where = summary(self._files.stacks(self._rank).read_text(errors="replace"))
        files.write_json(self._files.quiet(self._rank), {"since": self._since, "where": where})
        self._written = True

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


def summary(text: str) -> str:
    """Where the main thread stands, in a line, from what `faulthandler` wrote: innermost call first.

    >>> summary('Thread 0x1 (most recent call first):\\n  File "/home/me/train.py", line 14 in train\\n')
    'line 14 of train.py, in train'
    """
    frames = [m.groupdict() for m in map(FRAME.match, _main_thread(text)) if m]
    own = next((f for f in frames if not f["file"].startswith("<") and not installed(f["file"])), None)
    if own is None:
        return "code of a library"
    file = Path(own["file"]).name if Path(own["file"]).exists() or "/" not in own["file"] else ""
    where = f"line {own['line']} of {file or 'your cell'}, in {own['function']}"
    if "ipykernel" in own["file"]:
        where = f"line {own['line']} of your cell, in {own['function']}"
    called = frames[: frames.index(own)]
    collectives = (f["function"] for f in called if "horovod" in f["file"] + f["function"])
    name = next((n for n in collectives if COLLECTIVES.search(n)), "").removeprefix("horovod_").strip("_")
    name = name or next((f["function"] for f in called if f["function"] in KERAS), "")
    return f"`{name}` ({where})" if name else where


def _main_thread(text: str) -> list[str]:
    """The lines of the main thread: faulthandler writes it last."""
    return text.rstrip().rpartition("most recent call first):\n")[2].splitlines()
