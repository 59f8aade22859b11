"""The bubblewrap around a process: no network, only the files it needs, and nothing remains when it ends."""

from __future__ import annotations

import compileall
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import IO

import cluster

from ...course import CourseError
from ..verdict import Limits
from . import leftovers, unprivileged
from .cgroups import Group
from .namespaces import ARCHITECTURES, STUDENT, UNREADABLE, WRITABLE

# The modules of the autograder that run inside a sandbox.
ENGINE = ("cluster", "staff", "engine")
INSIDE = ("inside/*.py", "sandbox/__init__.py", "sandbox/fork_server.py", "sandbox/namespaces.py")
SYSTEM = [
    *("--unshare-all", "--unshare-user", "--hostname", "sandbox", "--die-with-parent", "--new-session"),
    *("--clearenv", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"),
]
ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}  # of bubblewrap itself
UNCHECKED = PycInvalidationMode.UNCHECKED_HASH
LINKS = ("bin", "lib", "lib32", "lib64", "sbin")
TAKEN = ("/proc", "/sys", "/dev", "/etc", "/course", "/submission")  # Python cannot be mounted below these
CONFIG = ("ld.so.cache", "alternatives", "fonts", "localtime")
NAMES = {  # the minimum for resolving user names and connecting ranks on 127.0.0.1
    "hosts": "127.0.0.1 localhost sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "passwd": "root:x:0:0::/tmp:/bin/sh\nstudent:x:65534:65534::/tmp:/bin/sh\n",
    "group": "root:x:0:\nstudent:x:65534:\n",
}
VARIABLES = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONPATH": "/course",
    "PYTHONSAFEPATH": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONWARNINGS": "ignore",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NBGRADER_EXECUTION": "autograde",
}


def missing() -> str:
    """Return why this machine cannot create a sandbox and how to fix that, or ""."""
    if not shutil.which("bwrap"):
        return "bubblewrap is missing (Debian: apt-get install bubblewrap); without it nothing is graded"
    if os.uname().machine not in ARCHITECTURES:
        return f"there is no filter of system calls for {os.uname().machine}; without it nothing is graded"
    become = unprivileged.become() if unprivileged.droppable() else []
    command = [*become, "bwrap", *SYSTEM, *links(), "/usr/bin/true"]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)
    if trial.returncode:
        return (
            f"bubblewrap cannot create a sandbox: {trial.stderr.strip()}. Unprivileged user namespaces must"
            " be allowed (sysctl kernel.unprivileged_userns_clone=1, or =0 for"
            " kernel.apparmor_restrict_unprivileged_userns)"
        )
    return ""


def within(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is in one of the folders."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def links() -> list[str]:
    """Return the options that mount /bin, /lib etc. as on this machine: as links into /usr or as folders."""
    options = []
    for name in LINKS:
        path = Path("/", name)
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), f"/{name}"]
        elif path.is_dir():
            options += ["--ro-bind", f"/{name}", f"/{name}"]
    return options


class Sandbox:
    """Create the folder that all sandboxes see as /course, and start processes, each in its own sandbox.

    package: the files of this package that the folder contains, besides the autograder's own.
    Raises CourseError if this machine cannot create a sandbox.
    """

    def __init__(self, package: Iterable[Path], limits: Limits):
        if why := missing():
            raise CourseError(why)
        self.limits = limits
        for path in unprivileged.prefixes():
            if within(path, TAKEN) and not within(path, ("/dev/shm",)):
                raise CourseError(
                    f"Python is installed in {path}, which each sandbox replaces",
                    "Create the environment in another folder (make setup VENV=FOLDER)",
                )
        leftovers.sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=leftovers.PREFIX))
        self.claim, self.users = leftovers.claim(self.folder), unprivileged.Users()
        try:
            self._copy(package)
            self.python = unprivileged.words(self.folder)[1]
            for target in self.python.values():
                Path(target).mkdir(exist_ok=True)
            unprivileged.hand_over(self.folder)
        except BaseException:
            self.close()
            raise

    def _copy(self, package: Iterable[Path]) -> None:
        """Copy these files of the package, and the modules of the autograder that run inside."""
        root, course = Path(cluster.__file__).parents[1], self.folder / "course"
        own = (path for pattern in INSIDE for path in root.joinpath(*ENGINE).glob(pattern))
        for path in (*package, *own):
            copy = course / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        for folder in (course.joinpath(*ENGINE), course.joinpath(*ENGINE[:-1])):
            (folder / "__init__.py").touch()
        # Sandboxes cannot write to the folder, so without this, each rank of a job would compile everything.
        compileall.compile_dir(
            course, quiet=2, stripdir=course, prependdir="/course", invalidation_mode=UNCHECKED
        )
        (self.folder / "etc").mkdir()
        for name, text in NAMES.items():
            (self.folder / "etc" / name).write_text(text)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.claim.close()

    def command(
        self, module: str, *arguments: str | int, options: Sequence[str], user: int | None = None
    ) -> list[str]:
        """Return the command that runs `python -m module` in a sandbox, with these options of bubblewrap.

        user: a place of `self.users`, which only root can give to a single sandbox.
        """
        python = [sys.executable, "-m", module, *map(str, arguments)]
        before, _ = unprivileged.words(self.folder, unprivileged.host(user))
        memory = f"--data={self.limits.memory}"  # of each process; `limit` of inside/student.py sets more
        return [*before, "prlimit", memory, "bwrap", *self._words(), *options, *python]

    def start(self, module: str, fds: Sequence[int] = (), first: bool = False) -> Child:
        """Run `main(fds)` of a module of inside/ in a new sandbox.

        first: run it as process 1, which is otherwise bubblewrap.
        """
        user = self.users.take() if unprivileged.droppable() else None
        options = ["--disable-userns", "--uid", str(STUDENT), "--gid", str(STUDENT)]
        for path in filter(os.path.exists, UNREADABLE):
            options += ["--ro-bind", "/dev/null", path]
        options += ["--as-pid-1"] * first
        command = self.command("cluster.staff.engine.inside", module, *fds, options=options, user=user)
        group = Group.make(self.limits)
        process = subprocess.Popen(
            [*group.words(), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=fds,
            bufsize=0,
            env=ENVIRONMENT,
        )
        return Child(process, group, lambda: self.users.free(user))

    def _words(self) -> list[str]:
        options = [*SYSTEM, *links()]
        places = ("/etc/hosts", *self.python)  # bubblewrap hides folders that it creates for other reasons
        for parent in (parent for place in places for parent in reversed(Path(place).parents)):
            options += ["--dir", str(parent)]
        for name in CONFIG:
            options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        options += ["--ro-bind", str(self.folder / "course"), "/course"]
        for name in NAMES:
            options += ["--ro-bind", str(self.folder / "etc" / name), f"/etc/{name}"]
        for writable in WRITABLE:
            options += ["--size", str(self.limits.disk), "--tmpfs", writable]
        for path, source in self.python.items():  # after /tmp and /dev/shm, which may contain it
            options += ["--ro-bind", source, path]
        for name, value in VARIABLES.items():
            options += ["--setenv", name, value]
        options += ["--setenv", "PATH", f"{sys.prefix}/bin:/usr/bin:/bin", "--chdir", "/submission"]
        return [*options, "--remount-ro", "/dev", "--remount-ro", "/"]


class Started:
    """A sandbox; `stdin`, `stdout` and `stderr` are the autograder's ends of the pipes of its process 1."""

    def __init__(self, pid: int, streams: Sequence[IO[bytes]], group: Group, free: Callable[[], None]):
        """free: called when all processes of the sandbox have ended."""
        self.pid, self.group, self.free = pid, group, free
        self.stdin, self.stdout, self.stderr = streams

    def killed(self) -> bool:
        """Return whether a signal from outside ended the sandbox; inside, process 1 cannot be killed."""
        raise NotImplementedError

    def stop_now(self) -> None:
        """Kill all processes of the sandbox; their output can still be read."""
        raise NotImplementedError

    def stop(self) -> None:
        """Kill all processes of the sandbox, and release its resources."""
        self.stop_now()
        for stream in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                stream.close()
        self.group.remove()
        self.free()


class Child(Started):
    """A process in a bubblewrap of its own."""

    def __init__(self, process: subprocess.Popen[bytes], group: Group, free: Callable[[], None]):
        assert process.stdin and process.stdout and process.stderr  # they are pipes
        super().__init__(process.pid, (process.stdin, process.stdout, process.stderr), group, free)
        self.process = process

    def killed(self) -> bool:
        try:
            return self.process.wait(1) < 0
        except subprocess.TimeoutExpired:
            return False

    def stop_now(self) -> None:
        self.process.kill()
        self.process.wait()
