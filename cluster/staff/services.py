"""Daemons of the single-host Slurm and of the hub: start, wait for, record, and list them."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster.system import files, processes
from cluster.system.errors import ClusterError


@dataclass(frozen=True)
class Daemon:
    """One process. `answers` tests it; `port` is its port, if it uses the network."""

    name: str
    argv: list[str]
    env: dict[str, str]
    log: Path
    answers: Callable[[], bool]
    port: int | None = None
    patience: float = 30.0  # maximum seconds without an answer and without computing


def port_taken(port: int) -> bool:
    """Return whether a process is listening on a loopback port."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


class HubError(ClusterError):
    """An error of the hub or of the single-host Slurm, for the administrator."""


Say = Callable[[str], None]
PATIENCE = 600.0  # seconds that a command waits for another one, longer than any of them takes
CLOSING = 10.0  # seconds that an ending process may still hold a port
LONGEST = 600.0  # maximum seconds for a daemon to answer, even if it is computing
SILENT = 30.0  # seconds after which a wait is explained


def start_group(group: list[Daemon], state: Path, say: Say) -> None:
    """Start the dead daemons of a group, then wait until all of the group answer."""
    title = group[0].name if len(group) == 1 else f"{group[0].name} … {group[-1].name}"
    ledger, fresh = process_ledger(state), []
    records = ledger.all()
    if group[0].name == "munged" and group[0].answers() and not processes.alive(records.get("munged")):
        say(f"  ✓ {title}: using the one that is already running")
        return
    with step(title, say) as note:
        await_ports(group, state)
        for d in group:
            if not processes.alive(records.get(d.name)):
                records[d.name] = processes.spawn(d.argv, d.env, d.log)
                ledger.put(d.name, records[d.name])
                fresh.append(d.name)
        for d in group:
            await_answer(d, records[d.name], say)
        partly = 0 < len(fresh) < len(group)
        note(f"started {', '.join(fresh)}" if partly else "" if fresh else "runs already")


@contextlib.contextmanager
def step(title: str, say: Say) -> Iterator[Callable[[str], None]]:
    """Show one line of progress, with the seconds it took; the body may `note` a message."""
    notes: list[str] = []
    began = time.monotonic()
    yield notes.append
    note_text = f": {notes[-1]}" if notes and notes[-1] else ""
    say(f"  ✓ {title}{note_text} ({time.monotonic() - began:.1f} s)")


def await_ports(some: Iterable[Daemon], state: Path) -> None:
    """Wait until the ports of dead daemons are free, as `await_free`."""
    records = process_ledger(state).all()
    await_free({d.port: d.name for d in some if d.port and not processes.alive(records.get(d.name))})


def await_free(ports: dict[int, str]) -> None:
    """Wait until ports are free, since a process that has just ended may keep one for a moment.

    ports: {port: who needs it}. Raises HubError, which names all that stay in use.
    """
    deadline = time.monotonic() + CLOSING
    while taken := [port for port in ports if port_taken(port)]:
        if time.monotonic() > deadline:
            lines = "; ".join(f"{ports[port]} cannot listen on 127.0.0.1:{port}" for port in taken)
            which = " or ".join(f"sport = :{port}" for port in taken)
            raise HubError(
                f"{lines}: another process is using the port (`ss -ltnp {which}` shows it). End it, or set "
                "another `port`."
            )
        time.sleep(0.1)


def await_answer(d: Daemon, record: processes.Record, say: Say) -> None:
    """Wait for an answer as long as the daemon uses CPU time, since a busy machine may take minutes."""
    began = time.monotonic()
    until, next_report, worked = began + d.patience, began + SILENT, 0.0
    while not d.answers():
        now, dead, computed = time.monotonic(), not processes.alive(record), _computed(record)
        if computed >= worked + d.patience / 100:
            until, worked = min(now + d.patience, began + LONGEST), computed
        if dead or now > until:
            what = f"ended after {now - began:.0f} s"
            if not dead:
                what = f"did not answer within {now - began:.0f} s (CPU time: {computed:.1f} s)"
            raise HubError(f"{d.name} {what}. The last lines of {d.log}:\n{tail(d.log)}")
        if now > next_report:
            next_report = now + SILENT
            say(
                f"  … {d.name}: no answer after {now - began:.0f} s, with {computed:.1f} s of CPU time so far"
            )
        time.sleep(0.1)


def _computed(record: processes.Record) -> float:
    """Return the seconds of processor time that a process and its children have used; 0 if it has ended."""
    import psutil

    try:
        process = psutil.Process(record["pid"])
        every = [one.cpu_times() for one in (process, *process.children())]
    except psutil.Error:
        return 0.0
    return sum(times.user + times.system for times in every)


def tail(path: Path, lines: int = 12) -> str:
    """Return the last lines of a log, indented."""
    text = path.read_text(errors="replace").splitlines() if path.exists() else []
    return "\n".join(f"    {line}" for line in text[-lines:]) or "    (empty)"


@contextlib.contextmanager
def locked(state: Path, say: Say = print, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of a state folder while the body runs, after waiting for other commands.

    Only the folder's owner can open the lock, so students cannot hold it. A waiting process reports who
    holds it, at once and then every minute. Raises HubError after `patience` seconds.
    """
    path, began, reports = state / "lock", time.monotonic(), 0
    if path.exists() and path.lstat().st_mode & 0o077:  # others may have opened it
        path.unlink()
    while True:
        with files.lock_file(path, wait=False, mode=0o600) as held:
            if held is not None:
                command = " ".join(sys.orig_argv[1:])
                path.write_text(f"process {os.getpid()} ({command}) since {time.strftime('%H:%M:%S')}")
                yield
                return
        waited, holder = time.monotonic() - began, path.read_text(errors="replace") or "another command"
        if waited >= patience:
            raise HubError(
                f"{state} is in use by {holder}. This command has waited {waited / 60:.0f} minutes and gives "
                "up. Nothing was changed. If that process hangs, end it and run this command again."
            )
        if waited >= 60 * reports:
            reports += 1
            say(f"  … {state} is in use by {holder}; waiting for it to finish")
        time.sleep(0.2)


def check_folder(state: Path, longest: int) -> None:
    """Raise HubError if a state folder cannot serve, whether it exists or not.

    longest: maximum length of its path, because it contains sockets, whose paths are limited to 107.
    """
    if not re.fullmatch(r"/[/A-Za-z0-9._-]*", str(state)) or len(str(state)) > longest:
        raise HubError(
            f"The state folder {str(state)!r} must be an absolute path of letters, digits, '.', '_' and '-', "
            f"at most {longest} characters long."
        )
    for folder in state.parents:
        if folder.exists() and not folder.stat().st_mode & 0o001:
            raise HubError(
                f"The state folder {state} is in {folder}, which other users cannot enter (mode "
                f"{folder.stat().st_mode & 0o777:04o}); set --state (make: STATE=) or CLUSTER_STATE."
            )


def process_ledger(state: Path) -> processes.Ledger:
    """Return the ledger of the processes that were started in a state folder."""
    return processes.Ledger(state / "processes.json")
