"""The location of a rank that makes no progress: its Python stack, and since when it has waited.

The rank registers a signal handler that writes its stack (`register`). Its parent process checks once per
second (`Watch.look`). If a rank neither prints, logs nor computes for `QUIET` seconds, its stack is written
to `stacks-R.txt` and kept there. The same applies to a rank that uses a core without output, because it may
be polling for messages in a collective. A summary is in `location-R.json` while the rank makes no progress;
ranks that compute while others wait write theirs, too. A request file in the run's folder requests the stacks
of all ranks, so no signal from another machine is needed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from cluster.system import files

from ..code.modules import PACKAGE, installed
from ..run.run_folder import Run
from ..run.waiting import Location, waiting_ranks

SIGNAL = signal.SIGRTMIN + 10  # otherwise unused: USR1 is NCCL's, USR2 is the warning before a time limit
QUIET = 10.0  # seconds without progress after which a rank counts as waiting
WINDOW = 5.0  # seconds over which the use of a core is measured
BUSY = 0.25  # fraction of a core; a rank that uses less does not compute
SWITCHES = 20  # waits of the main thread within WINDOW; with more, the thread is not inside a single call

FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)')
COLLECTIVES = re.compile(r"allreduce|allgather|alltoall|broadcast|reducescatter|barrier|synchronize|join")
NETWORK, MESSAGES = f"{PACKAGE}/network/", {"send", "receive", "sendreceive", "wait", "wait_for_all"}
KERAS = ("evaluate", "predict", "fit")
KERAS_CALL = re.compile(rf"\.({'|'.join(KERAS)})\(")

DATA = re.compile(r"tensorflow/python/(?:ops/script_ops|data/)|keras/src/trainers/data_adapters/")
RUNNER = re.compile(rf'  File "(?:{re.escape(PACKAGE)}/jobs/|<frozen runpy>).*", line ')

Frame = tuple[str, int, str]  # file, line, function


def register(run: Run, rank: int) -> None:
    """Install a handler that writes the stacks of this process's threads on `SIGNAL`.

    Without a handler to chain to, faulthandler would not restore `errno`. A system call that fails at this
    moment, such as a check for a missing file, would then fail with "[Errno 0] Error".
    """
    file = open(run.stacks(rank), "a")  # noqa: SIM115 (as long as the process lives)
    signal.signal(SIGNAL, signal.SIG_IGN)
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=True)


class Watch:
    """The progress of a rank, as observed by its parent process.

    child: the rank's process. printed: returns the number of bytes that it has printed.
    """

    def __init__(self, run: Run, rank: int, ranks: int, child: int, printed: Callable[[], int]):
        self._printed_bytes = printed
        self._files, self._rank, self._child, self._alone = run, rank, child, ranks == 1
        self._printed = self._since = self._at = time.time()  # last output, progress, measurement
        self._seen: tuple[int, int] = (0, 0)
        self._cpu, self._waits, self._busy = 0.0, 0, False
        self._others_wait = False
        self._threads: list[int] | None = None  # the communication threads, after the rank has reported them
        self._asked = 0.0  # time of the last stack request to the rank
        self._pending = False  # whether a requested stack has not been read yet
        self._collective: list[Frame] = []  # the rank's collective operation at the last request
        self._switches = 0
        self._noted: Location | None = None
        self._stopped = False

    def stop(self) -> None:
        """Stop checking, and keep the files: the rank is being terminated, so its output is not progress."""
        self._stopped = True

    def look(self) -> None:
        """Check the rank. Call this about once per second."""
        if self._stopped:
            return
        with contextlib.suppress(OSError, ValueError, IndexError):
            self._look()

    def _look(self) -> None:
        now, metrics = time.time(), self._files.metrics(self._rank)
        if self._does_not_run():
            if not (self._noted and self._noted.get("stopped")):
                self._note(
                    {"since": now, "where": "", "calls": [], "computing": False, "stopped": self._child}
                )
            return
        if self._noted and self._noted.get("stopped"):
            self._forget()
            self._since = now
        logged = metrics.stat().st_size if metrics.exists() else 0
        seen = self._printed_bytes(), logged
        if not self._files.ready(self._rank).exists():  # the rank imports libraries, or is waiting to connect
            self._printed = self._since = self._at = now
        if seen != self._seen:
            self._seen, self._printed = seen, now
            self._progressed(now)
        if self._pending:
            self._judge(now)
        quiet, measured = now - self._printed >= QUIET, now - self._at >= WINDOW
        if measured:
            self._measure(now)
            if self._busy and (self._alone or not quiet):
                self._progressed(now)
        waits = now - self._since >= QUIET
        unknown = waits and (self._noted is None or self._noted["computing"])
        unsure = measured and self._busy and quiet and not self._alone
        asked_about = measured and self._others_wait and not waits
        request = self._files.stacks_request
        requested = request.stat().st_mtime if request.exists() else 0.0
        if unknown or unsure or asked_about or requested > self._asked:
            self._ask(now, judge=waits or unsure or asked_about)

    def _measure(self, now: float) -> None:
        """Measure the rank's activity since the last measurement, and whether other ranks wait for it.

        A rank that mostly communicates computes little, but its main thread begins to wait many times.
        """
        cpu, switches = self._cpu_seconds(), self._main_switches()
        self._busy = cpu - self._cpu > BUSY * (now - self._at) or switches - self._waits >= SWITCHES
        self._at, self._cpu, self._waits = now, cpu, switches
        self._others_wait = bool(waiting_ranks(self._files) - {self._rank})
        if self._noted and self._noted["computing"] and not self._others_wait:
            self._forget()

    def _progressed(self, now: float) -> None:
        self._since = now
        if self._noted and not self._noted["computing"]:
            self._forget()

    def _ask(self, now: float, judge: bool) -> None:
        with contextlib.suppress(FileNotFoundError):  # the handler is not registered yet
            os.truncate(self._files.stacks(self._rank), 0)
            os.kill(self._child, SIGNAL)
            self._asked, self._pending = now, judge

    def _judge(self, now: float) -> None:
        """Decide whether the rank waits or computes, from the stack that it wrote a second ago.

        A rank in a collective may use a whole core while it waits there, as MPI does. It counts as waiting if
        others wait, too, or if it has been in the same collective since the previous request.
        """
        self._pending = False
        *others, frames = threads_of(self._files.stacks(self._rank).read_text(errors="replace"))
        collective, switches = collective_of(frames), self._main_switches()
        # the calls of cluster.network poll for messages and sleep in between
        polls = collective and collective[0][0].startswith(NETWORK)
        stays = collective == self._collective and (polls or switches - self._switches < SWITCHES)
        self._collective, self._switches = collective, switches
        computing = self._busy and not (collective and (stays or self._others_wait))
        if computing:
            self._since = now
        if computing and not self._others_wait:
            self._forget()
            return
        self._note(location(frames, self._since, computing, others=others))

    def _note(self, noted: Location) -> None:
        self._noted = noted
        files.write_json(self._files.location(self._rank), noted)

    def _does_not_run(self) -> bool:
        """Return whether a signal has stopped the rank's process, which then does not answer either."""
        return Path(f"/proc/{self._child}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"

    def _forget(self) -> None:
        self._files.location(self._rank).unlink(missing_ok=True)
        self._noted = None

    def _cpu_seconds(self) -> float:
        """Return the processor time of all computing threads, and the main thread's time in the run queue.

        On a busy machine a computing rank gets less than a core, but is always ready to run. The
        communication threads of Horovod and MPI poll for messages all the time, even while the rank waits.
        """
        process = Path(f"/proc/{self._child}")
        if self._threads is None and (ready := files.read_json(self._files.ready(self._rank))):
            self._threads = ready.get("communication_threads", [])
        used = _ticks(process / "stat")
        for thread in self._threads or ():
            with contextlib.suppress(OSError):  # Horovod was shut down
                used -= _ticks(process / "task" / str(thread) / "stat")
        seconds = used / os.sysconf("SC_CLK_TCK")
        with contextlib.suppress(OSError, IndexError):  # a kernel without scheduling statistics
            seconds += int((process / "schedstat").read_text().split()[1]) / 1e9
        return seconds

    def _main_switches(self) -> int:
        status = Path(f"/proc/{self._child}/status").read_text()
        return int((status.partition("\nvoluntary_ctxt_switches:")[2].split() or ["0"])[0])


def _ticks(stat: Path) -> int:
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def threads_of(text: str) -> list[list[Frame]]:
    """Return the frames of each thread, innermost first; `faulthandler` writes the main thread last."""
    threads = [part.splitlines() for part in text.rstrip().split("most recent call first):\n")]
    found = [[m for m in map(FRAME.match, lines) if m] for lines in threads[1:] or [[]]]
    return [[(m["file"], int(m["line"]), m["function"]) for m in thread] for thread in found]


def frames_of(text: str) -> list[Frame]:
    """Return the frames of the main thread, innermost first."""
    return threads_of(text)[-1]


def without_runner(text: str) -> str:
    """Return stacks without the frames of the code that runs a job, and threads that have no others."""
    parts = re.split(r"(?m)^(?=(?:Current thread|Thread) 0x)", text)
    lines = [[x for x in part.splitlines() if not RUNNER.match(x)] for part in parts]
    return "\n".join("\n".join(kept) for kept in lines if any(map(FRAME.match, kept)))


def of_traceback(tb: TracebackType | None) -> tuple[list[Frame], str]:
    """Return (frames, innermost first; the student's innermost line as text) of an exception."""
    frames = traceback.extract_tb(tb)[::-1]
    line = next((f.line or "" for f in frames if own(f.filename)), "")
    return [(f.filename, f.lineno or 0, f.name) for f in frames], line


def location(
    frames: list[Frame],
    since: float,
    computing: bool = False,
    text: str = "",
    others: Sequence[list[Frame]] = (),
) -> Location:
    """Return the location of a rank: the line of the student's code, and the call made there.

    text: that line, which names the call of Keras if tracebacks hide its frames. others: the frames of the
    other threads, one of them may be in a generator that the main thread waits for.

    >>> location([("/home/me/train.py", 14, "train")], since=0.0)["where"]
    'line 14 of your cell, in train'
    """
    mine = next((f for f in frames if own(f[0])), None)
    where = _line(mine) if mine else "code of a library"
    called = frames[: frames.index(mine)] if mine else frames
    collective = next((name for *_, name in collective_of(called)), "").removeprefix("horovod_").strip("_")
    keras = next((function for _, _, function in called[::-1] if function in KERAS), "")
    if not keras and (named := KERAS_CALL.search(text)):
        keras = named[1]
    calls = [name for name in (keras, collective) if name]
    # a compiled step shows none of its operations, and some of them may be collectives
    in_step = bool(called) and "tensorflow/python/eager/" in called[0][0]
    if not collective and called and (source := next(filter(None, map(_generator, others)), None)):
        where, calls, in_step = f"{_line(source)}, which provides data for {keras or where}", [], False
    found: Location = {"since": since, "where": where, "calls": calls, "computing": computing}
    return found | {"collective": bool(collective or in_step)}


def _line(frame: Frame) -> str:
    file, line, function = frame
    known = "ipykernel" not in file and (Path(file).exists() or "/" not in file)
    return f"line {line} of {Path(file).name if known else 'your cell'}, in {function}"


def _generator(frames: list[Frame]) -> Frame | None:
    """Return the student's innermost line in a thread that reads data for TensorFlow or Keras."""
    mine = next((i for i, f in enumerate(frames) if own(f[0])), None)
    data = mine is not None and any(DATA.search(file) for file, *_ in frames[mine:])
    return frames[mine] if data and mine is not None else None


def collective_of(frames: list[Frame]) -> list[Frame]:
    """Return the frames from the rank's collective operation outwards, or [] if it is in none.

    It is Horovod's innermost frame, or the call of `cluster.network` that exchanges messages between ranks.
    """
    for i, (file, _, function) in enumerate(frames):
        if "horovod" in file + function and COLLECTIVES.search(function) and not own(file):
            return frames[i:]
    calls = [i for i, (file, _, name) in enumerate(frames) if file.startswith(NETWORK) and name in MESSAGES]
    return frames[calls[-1] :] if calls else []


def own(file: str) -> bool:
    """Return whether a file is the student's own: a script, a module, or a cell of a notebook."""
    return not file.startswith("<") and not installed(file)
