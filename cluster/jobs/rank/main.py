"""The process of each rank, on every backend: `python -m cluster.jobs.rank.main FOLDER`.

The process forks at once. The child does the work. The parent records its output, forwards signals and
records how it ended, so each rank's exit code, signal and memory are known without a scheduler.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import json
import linecache
import os
import pickle
import re
import signal
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster.system import files, settings
from cluster.system.processes import die_with_parent

from ..code import reads
from ..code.modules import Submitted
from ..errors import JobError, NotYours
from ..run import attempts, private, rank_log, results, shared
from ..run.run_folder import CALL, RUN_JSON, Run
from . import horovod_trace, on_end, rendezvous, stacks

# TensorFlow's additions to an exception's message.
GRAPH = re.compile(
    r"Graph execution error:\s+Detected at node \S+ defined at \(most recent call last\):\n"
    r"(?:\s*(?:File \".*|<stack traces unavailable>)\n)*\s*"
)
NODES = re.compile(r"\{\{function_node \S+\}\} |\s*\[\[\{\{node \S+\}\}\]\]|\s*\[Op:\w+\]( name: \S*)?")
FENCE = 1.0  # seconds between checks whether a later attempt has started elsewhere
HERE = str(Path(__file__).resolve().parents[1])  # frames in cluster/jobs do not help a student


def main(folder: Path) -> int:
    """Run one rank of the job in `folder`; returns its exit code (128 + n for signal n)."""
    die_with_parent()
    try:
        private.check_folder(folder)
    except NotYours as e:
        print(f"NotYours: {e}", file=sys.stderr)
        return 1
    run, here = Run(folder), rendezvous.position(os.environ)
    os.environ.update(CLUSTER_JOB=str(folder), CLUSTER_RANK=str(here.rank))
    log = rank_log.Log(run.log(here.rank), rank_log.cap())
    record = {"rank": here.rank, "node": here.node, "host": socket.gethostname(), "started": time.time()}
    if attempts.current() > 1:
        record["attempt"] = attempts.current()
        log.write(f"{attempts.MARK}{attempts.current()} on {record['host']}\n".encode())
    files.write_json(run.rank(here.rank), record)
    pipe, printed = os.pipe()
    child = os.fork()
    if child == 0:
        die_with_parent()
        os.close(pipe)
        empty = os.open(os.devnull, os.O_RDONLY)  # no launcher's terminal or pipe is the ranks' input
        os.dup2(empty, 0)
        if empty:
            os.close(empty)
        for fd in (1, 2):  # also the output of C++ libraries and children
            os.dup2(printed, fd)
        os.close(printed)
        return _work(run, here)
    os.close(printed)
    watch = stacks.Watch(run, here.rank, here.size, child, log.printed)

    def send(number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    def pass_on(number: int, _: Any) -> None:
        if number != signal.SIGUSR2:  # the warning before a time limit does not end the rank
            watch.stop()
        send(number)

    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(s, pass_on)

    def look(*_: Any) -> None:
        if attempts.superseded(run):
            send(signal.SIGKILL)
        else:
            watch.look()

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, FENCE, FENCE)
    status, usage = rank_log.attend(child, pipe, log)
    signal.setitimer(signal.ITIMER_REAL, 0)
    log.close()
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and not run.result(here.rank).exists() and not attempts.superseded(run):
        code = 1  # the process says that all is well, but the function has not returned
        files.write_json(run.error(here.rank), _unreturned(here.rank))
    record |= {"ended": time.time(), "exit_code": code, "max_memory_bytes": 1024 * usage.ru_maxrss}
    record["cpu_seconds"] = round(usage.ru_utime + usage.ru_stime, 3)
    if not attempts.superseded(run):
        files.write_json(run.rank(here.rank), record)
        # launchers other than Slurm's notice the end of the ranks at once
        if code == 0 and settings.text("CLUSTER_LAUNCHER") == "slurm":
            on_end.last_rank(run)
    return code if code >= 0 else 128 - code


def _work(run: Run, here: rendezvous.Position) -> int:
    faulthandler.enable()  # makes a crash inside a library report its location
    stacks.register(run, here.rank)
    call: dict[str, Any] = {"cells": {}}
    try:
        record = json.loads(private.read_file(run.path, RUN_JSON))
        call = pickle.loads(private.read_file(run.path, CALL))
        os.chdir(call["cwd"])
        sys.path[:] = call["path"] + [p for p in sys.path if p not in call["path"]]
        sys.meta_path.insert(0, Submitted(call["modules"]))
        reads.prepare(run, call)
        for name, text in call["cells"].items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        given, timeline = set(record["env"]), record["options"].get("timeline")
        rendezvous.hide_gpus(record["options"], given)
        stop = None
        if record["controller"] == "gloo":
            stop = rendezvous.meet(run, here, given)
        else:
            os.environ.setdefault("HOROVOD_CONTROLLER", "mpi")
            os.environ.setdefault("HOROVOD_CPU_OPERATIONS", "mpi")
        if timeline:
            traced = horovod_trace.variables(run)
            os.environ.update({k: v for k, v in traced.items() if k not in given})
        threads = rendezvous.start_horovod(record["ranks"]) if record["ranks"] > 1 else []
        if stop:
            stop()
        ready = {"time": time.time(), "communication_threads": threads}
        files.write_json(run.ready(here.rank), ready)
        _keep(run, here.rank, _call(call, run))
        if timeline:
            time.sleep(0.2)  # at its end, Horovod drops events that it has not written yet
    except BaseException as e:
        if not isinstance(e, SystemExit) or not (e.code is None or (isinstance(e.code, int) and e.code == 0)):
            return _fail(run, here.rank, e, call["cells"])
        results.save(run, here.rank, None)
    # MPI must be finalized by the process that initialized it
    return 0 if record["controller"] == "mpi" else _leave()


def _keep(run: Run, rank: int, value: Any) -> None:
    """Record what the function returned, and print what of it is only text."""
    for part in results.save(run, rank, value)[:10]:
        print(f"Not stored: {part.place} ({part.type}): {part.why}.", file=sys.stderr, flush=True)


def _unreturned(rank: int) -> dict[str, Any]:
    """Return the error of a rank whose process ended with exit code 0 while the function was running."""
    what = f"The process of rank {rank} ended with exit code 0 before its function had returned."
    step = (
        f"Something called os._exit, or replaced the process: look at job.logs({rank}), and return instead."
    )
    error = {"type": "RankFailed", "message": what, "traceback": "", "time": time.time()}
    return error | {"what": what, "next_step": step}


def _leave() -> int:
    """End like Python, but without destroying TensorFlow's objects one by one, which takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]  # private, and what Python itself calls here
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # the stream may be closed or replaced
            stream.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)


def _call(call: dict[str, Any], run: Run) -> Any:
    if call["script"] is None:
        arrays = shared.load(run, call.get("arrays", []))
        sys.argv[:] = [run.record["name"]]  # as of a script without arguments
        function, args, kwargs = pickle.loads(call["function"], buffers=arrays)
        return function(*args, **kwargs)
    path, text, sys.argv[:] = call["script"], call["text"], [call["script"], *call["argv"]]
    sys.path.insert(0, str(Path(path).parent))
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    exec(compile(text, path, "exec"), module.__dict__)
    return None


def _fail(run: Run, rank: int, e: BaseException, cells: Iterable[str]) -> int:
    """Record the exception and exit at once; a normal exit would wait for ranks that wait for this one."""
    code = e.code if isinstance(e, SystemExit) and isinstance(e.code, int) and 0 < e.code < 126 else 1
    try:
        tb = e.__traceback__
        while tb and tb.tb_frame.f_code.co_filename.startswith(HERE):
            tb = tb.tb_next
        message = _str(e)
        try:
            text = "".join(traceback.TracebackException(type(e), e, tb).format())
        except Exception:  # whatever the exception's own methods raise
            text = "".join(traceback.format_tb(tb)) + f"{type(e).__name__}: {message}\n"
        for name in cells:
            text = text.replace(f'File "{name}"', "Notebook cell")
        if "node " in message or "[Op:" in message:
            text = text.replace(message, plain(message))
            message = NODES.sub("", GRAPH.sub("", message)).strip()
        text, message = rank_log.clip(text), rank_log.clip(message)
        error: dict[str, Any] = {"type": type(e).__name__, "message": message, "traceback": text}
        error["time"] = time.time()
        frames, line = stacks.of_traceback(tb)
        error["location"] = stacks.location(frames, error["time"], text=line)
        if isinstance(e, JobError):
            error |= {"what": rank_log.clip(str(e.what)), "next_step": str(e.next_step)}
        if not attempts.superseded(run):
            files.write_json(run.error(rank), error)
        with contextlib.suppress(Exception):  # the streams may be closed or replaced
            print(text, file=sys.stderr, flush=True)
            sys.stdout.flush()
    finally:
        os._exit(code)


def _str(e: BaseException) -> str:
    """Return an exception's message, whatever its `__str__` does."""
    try:
        return str.__str__(str(e))
    except BaseException as error:
        return f"<its __str__ raises {type(error).__name__}>"


def plain(message: str) -> str:
    """Return a TensorFlow message without the lines of libraries and the numbers of graph nodes."""
    lines = [x for x in message.splitlines() if x.strip()]
    files = [re.match(r'\s*File "(.*)", line \d+, in ', x) for x in lines]
    kept = (x for x, m in zip(lines, files, strict=True) if not m or stacks.own(m[1]))
    return NODES.sub("", "\n".join(kept))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
