"""Access to Slurm: few queries, one at a time, with shared answers.

A controller that does not answer gives no information, neither "done" nor "gone".
"""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cluster.system import files, processes, settings
from cluster.system.errors import ClusterError

COURSE = Path(__file__).resolve().parents[2]  # the folder of this copy of the package
PLACES = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")
ANSWER = 30  # seconds for Slurm to answer; Slurm itself gives up after its MessageTimeout, usually 10 s
FRESH = 1.0  # lifetime of an answer in seconds; ten times as long if the queue has not changed for a while

PING = 30.0  # lifetime of the information whether a controller answers, in seconds

calls: collections.Counter[str] = collections.Counter()  # number of calls of each Slurm command

# After these messages of sbatch, Slurm may have the job nevertheless; after others it does not.
NO_ANSWER = re.compile(
    r"did not answer|timed out|unable to contact|connection|communication|zero bytes|transport endpoint"
    r"|standby mode|ended with -",
    re.I,
)
# Only with these words does Slurm state that it does not know a job.
UNKNOWN = re.compile(
    r"invalid job id|already complet|accounting storage is disabled|^sacct: no such file", re.I
)

_answers: dict[str, tuple[float, Any]] = {}
_changed: dict[str, float] = {}  # when an answer last differed from the previous one
_one_at_a_time = threading.Lock()


class SlurmError(ClusterError):
    """A Slurm command failed or did not answer; `what` contains Slurm's message."""

    @property
    def answered(self) -> bool:
        """Whether Slurm answered, so the request was rejected. If it did not answer, it may have the job."""
        return not NO_ANSWER.search(self.what)


def one_machine_state() -> Path:
    """Return the folder of the single-host Slurm: `$CLUSTER_STATE/slurm`.

    The user `slurm` and the students must be able to access it, so it is not in root's home.
    """
    return Path(settings.text("CLUSTER_STATE")) / "slurm"


def foreign(record: dict[str, Any] | None) -> str:
    """Return the course folder that started a single-host Slurm if this package is not in it, otherwise "".

    record: its started.json.
    """
    course = (record or {}).get("course")
    return "" if not course or COURSE.is_relative_to(course) else course


def one_machine_conf() -> Path | None:
    """Return the slurm.conf of the single-host Slurm if it is running, trusted, and of this course's folder.
    It counts as running while its slurmctld is alive. Otherwise, the result is None.

    Another folder's jobs would end with its stop, so they need SLURM_CONF to use it. A state folder that
    belongs neither to root nor to this user, or that others can write to, is ignored, because its slurm.conf
    can name plugins that every Slurm command loads.
    """
    state = one_machine_state()
    path = state / "slurm.conf"
    if foreign(files.read_json(state / "started.json")):
        return None
    try:
        seen = [os.stat(p) for p in (state, path, state / "processes.json")]
        if any(s.st_uid not in (0, os.getuid()) or s.st_mode & 0o022 for s in seen):
            return None
        controller = processes.Ledger(state / "processes.json").all().get("slurmctld")
    except (OSError, ValueError):
        return None
    return path if processes.alive(controller) else None


def no_slurm(remembered: bool = True) -> str | None:
    """Return why Slurm cannot be used, or None if it answers; remembered: accept answers up to 30 s old."""
    env, sbatch = environment(), shutil.which("sbatch")
    if not sbatch:
        return "no sbatch on PATH"
    path = env.get("SLURM_CONF")
    if path and not os.path.exists(path):  # Slurm's commands would look for it for 60 s
        return f"SLURM_CONF is {path}, which does not exist"
    question = f"ping {sbatch} {path}"
    if not remembered:
        forget(question)
    return shared_answer(question, lambda: _ping(env), PING)


def environment(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a Slurm command, with SLURM_CONF for the single-host Slurm if applicable."""
    one = None if env.get("SLURM_CONF") or _usual() else one_machine_conf()
    return {**env, "SLURM_CONF": str(one)} if one else dict(env)


def conf() -> str | None:
    """Return the path of the slurm.conf that Slurm's commands use, or None if it is unknown."""
    path = os.environ.get("SLURM_CONF") or _usual() or one_machine_conf()
    return str(path) if path else None


def _usual() -> str | None:
    return next((p for p in PLACES if Path(p).is_file()), None)


def _ping(env: dict[str, str]) -> str | None:
    try:
        done = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=ANSWER, env=env)
    except subprocess.TimeoutExpired:
        return f"Slurm's controller did not answer within {ANSWER} s"
    except OSError:
        return "sbatch is on PATH, but scontrol is not"
    if done.returncode == 0 and " UP" in done.stdout:
        return None
    if not conf() and (course := foreign(files.read_json(one_machine_state() / "started.json"))):
        return f"the Slurm of {course} needs SLURM_CONF={one_machine_state() / 'slurm.conf'}"
    # What scontrol prints is for administrators, and this stands behind the name of each local job.
    return "no Slurm controller answers"


def shared_answer(question: str, ask: Callable[[], Any], fresh: float | None = None) -> Any:
    """Return the answer to a query, shared by all jobs and threads; repeat the query if it is too old.

    fresh: lifetime of an answer in seconds. The default is FRESH, and up to ten times as long for an
    answer that has not changed for a while, to avoid a query per second during hours of waiting.
    """
    with _one_at_a_time:
        at, answer = _answers.get(question, (float("-inf"), None))
        quiet = time.monotonic() - _changed.get(question, time.monotonic())  # seconds without a change
        if time.monotonic() - at > (FRESH * min(10, 1 + quiet / 20) if fresh is None else fresh):
            new = ask()
            if new != answer or question not in _changed:
                _changed[question] = time.monotonic()
            _answers[question] = time.monotonic(), new
            return new
    return answer


def answered_at(question: str) -> float:
    """Return when the current answer was received, in Unix seconds."""
    return time.time() - time.monotonic() + _answers[question][0] if question in _answers else time.time()


def forget(question: str | None = None) -> None:
    """Discard cached answers because something has changed: those to one query, or all."""
    if question is None:
        _answers.clear()
    else:
        _answers.pop(question, None)


def ask_or_none(*command: str) -> str | None:
    """Return the output of a command, or None if it fails."""
    try:
        return ask(*command)
    except SlurmError:
        return None


def ask(*command: str, timeout: float | None = None, **options: Any) -> str:
    """Return the output of a command. Raises SlurmError with its message, or if it does not answer.

    timeout: its time limit in seconds, by default ANSWER. options: of `subprocess.run`.
    """
    timeout = ANSWER if timeout is None else timeout
    calls[command[0]] += 1
    env = environment(options.pop("env", os.environ))
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    try:
        done = subprocess.run(command, text=True, timeout=timeout, env=env, **streams)
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} did not answer within {timeout} s.") from None
    except OSError as e:
        raise SlurmError(f"{command[0]}: {e.strerror}.") from None
    if done.returncode:
        said = done.stderr or (done.stdout if done.returncode > 0 else "")
        raise SlurmError(said.strip() or f"{command[0]} ended with {done.returncode}.")
    return done.stdout
