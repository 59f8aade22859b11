"""Kill a process at its n-th step: a change of a file below a folder, or the start of another process.

Python imports this file at startup if its folder is on PYTHONPATH, so the processes of a job can be killed,
too. KILL_FOLDER is the folder whose changes count as steps. KILL_WHO names a module and `first` for the
process that was started with it, or `forked` for a process forked from that one, for example
"cluster.jobs.backends.local_launcher first". KILL_AT is the number of the step and `before`, `half` or
`after`, for example "3 half". KILL_LOG is the file to which the process writes its steps.
"""

import os
import signal
import subprocess
import sys

CHANGES = {"os.rename", "os.mkdir", "os.link", "os.remove", "os.rmdir", "os.truncate", "subprocess.Popen"}
HALF = b'{"half'


def arm(folder, log=None, at=None, how="before"):
    """Arrange for this process to be killed at step `at` (from 1): before it, half-way through its write, or
    after."""
    me, count, busy = os.getpid(), 0, False

    def end():
        os.kill(os.getpid(), signal.SIGKILL)

    def step(event, args):
        nonlocal count, busy
        if busy or os.getpid() != me:
            return
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if not writes and event not in CHANGES:
            return
        path = os.fsdecode(args[0]) if isinstance(args[0], (str, bytes, os.PathLike)) else ""
        if event != "subprocess.Popen" and (not path.startswith(folder) or path.endswith("lock")):
            return  # a lock is opened at every check, and its content is never read
        count += 1
        if log:
            busy = True
            with open(log, "a") as f:
                f.write(f"{event if not writes else 'write'} {os.path.basename(path)}\n")
            busy = False
        if count == at and how == "half" and writes and not args[2] & os.O_APPEND:
            busy = True
            with open(path, "wb") as f:
                f.write(HALF)
        if count == at and how != "after":
            end()

    if how == "after":
        start = subprocess.Popen.__init__

        def started(self, *args, **kwargs):
            start(self, *args, **kwargs)
            if count == at and os.getpid() == me:
                end()

        subprocess.Popen.__init__ = started
    sys.addaudithook(step)


def ways(steps):
    """Yield (step, how) for all ways to kill a process that takes these steps, which are lines logged by
    `arm`."""
    for n, step in enumerate(steps, 1):
        yield n, "before"
        if step.startswith("write"):
            yield n, "half"
        if step.startswith("subprocess"):
            yield n, "after"


def _of_a_job():
    module, which = os.environ["KILL_WHO"].split()
    if module not in sys.orig_argv:
        return
    at, how = os.environ.get("KILL_AT", "0 before").split()
    choices = (os.environ["KILL_FOLDER"], os.environ["KILL_LOG"], int(at), how)
    if which == "first":
        arm(*choices)
    else:
        os.register_at_fork(after_in_child=lambda: arm(*choices))


if "KILL_WHO" in os.environ:
    _of_a_job()
