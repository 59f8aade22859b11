"""The bubblewrap around a process: no network, no files but what it needs, and nothing of it outlives it."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cluster
from cluster.grading.course import CourseError
from cluster.grading.student import chosen

# Of the engine itself only what runs inside; the rest would tell a student nothing, but is not needed.
INSIDE = ("channel", "codec", "names", "remote", "referee", "student", "shell")
CGROUPS = Path("/sys/fs/cgroup")
SYSTEM = [
    *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"),
    *("--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"),
]
LINKS = ("bin", "lib", "lib32", "lib64", "sbin")
CONFIG = ("ld.so.cache", "alternatives", "fonts", "localtime")
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


def missing():
    """Why no sandbox can be made on this machine, with the remedy, or ""."""
    if not shutil.which("bwrap"):
        return "bubblewrap is missing (Debian: apt-get install bubblewrap); without it nothing is graded"
    tried = subprocess.run(
        ["bwrap", *SYSTEM, *links(), "/usr/bin/true"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return (
            f"bubblewrap cannot make a sandbox: {tried.stderr.strip()}. Unprivileged user namespaces must be"
            " allowed (sysctl kernel.unprivileged_userns_clone=1, or =0 for"
            " kernel.apparmor_restrict_unprivileged_userns)"
        )
    return ""


def links():
    """/bin and its like as on this machine: links into /usr, or folders of their own."""
    words = []
    for name in LINKS:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), f"/{name}"]
        elif path.is_dir():
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    return words


class Sandbox:
    """Makes the folder that all sandboxes see as /course, and starts processes in sandboxes of their own."""

    def __init__(self, limits):
        if why := missing():
            raise CourseError(why)
        self.limits = limits
        self.place = Path(tempfile.mkdtemp(prefix="grading-"))
        try:
            self._copy_package(Path(cluster.__file__).parents[1])
        except BaseException:
            self.close()
            raise

    def _copy_package(self, root):
        """The part of the package that students have, and the modules that run inside."""
        package = self.place / "course"
        for path in chosen(root):
            inside = path.relative_to(root)
            if inside.parts[0] == "cluster":
                (package / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, package / inside)
        engine = package / "cluster" / "grading" / "engine"
        engine.mkdir()
        (engine / "__init__.py").touch()
        for name in INSIDE:
            shutil.copyfile(Path(__file__).with_name(f"{name}.py"), engine / f"{name}.py")

    def close(self):
        shutil.rmtree(self.place, ignore_errors=True)

    def start(self, module, *arguments, files=None, fds=()):
        """A Popen of `python -m module` in a sandbox; talk to it through stdin and stdout."""
        python = [sys.executable, "-m", module, *map(str, arguments)]
        group = Group.make(self.limits)
        process = subprocess.Popen(
            [*(group.enter() if group else ()), "bwrap", *self._words(files), *python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=fds,
            bufsize=0,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        process.group = group
        return process

    def _words(self, files):
        words = [*SYSTEM, *links()]
        for name in CONFIG:
            words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for path in dict.fromkeys((sys.prefix, sys.base_prefix)):
            if not Path(path).is_relative_to("/usr"):
                words += ["--ro-bind", path, path]
        words += ["--ro-bind", str(self.place / "course"), "/course"]
        if files:
            words += ["--ro-bind", str(files), "/handed-in"]
        for place in ("/dev/shm", "/tmp", "/submission"):
            words += ["--size", str(self.limits.disk), "--tmpfs", place]
        for name, value in VARIABLES.items():
            words += ["--setenv", name, value]
        words += ["--setenv", "PATH", f"{sys.prefix}/bin:/usr/bin:/bin", "--chdir", "/submission"]
        return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]


def stop(process):
    """End a sandbox and all in it. True where somebody else had killed it."""
    outside = process.poll() is not None and process.returncode < 0
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            stream.close()
    if process.group:
        process.group.remove()
    return outside


class Group:
    """Control groups of one sandbox: memory and processes of all in it together."""

    def __init__(self, folders):
        self.folders = folders

    @classmethod
    def make(cls, limits):
        """A group where this process may make one (as root, or where it was given a part), else None.

        Without it the limits of each process hold; the number of processes is then not limited for root.
        """
        name = f"grading-{os.getpid()}-{time.monotonic_ns()}"
        new = {"memory.max": limits.memory + 2 * limits.disk, "pids.max": limits.processes}
        old = {"memory.limit_in_bytes": new["memory.max"], "pids.max": limits.processes}
        unified = (CGROUPS / "cgroup.controllers").exists()
        wanted = {CGROUPS: new} if unified else {CGROUPS / "pids": old, CGROUPS / "memory": old}
        made = cls([])
        for parent, values in wanted.items():
            if not os.access(parent, os.W_OK):
                continue
            folder = parent / name
            try:
                folder.mkdir()
                made.folders.append(folder)
                for file, value in values.items():
                    if (folder / file).exists():
                        (folder / file).write_text(str(value))
            except OSError:
                continue
        return made if made.folders else None

    def enter(self):
        """The beginning of a command that joins the group and becomes the rest of the command."""
        joins = " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in self.folders)
        return ["/bin/sh", "-c", f'{joins} && exec "$@"', "sh"]

    def remove(self):
        """Wait until the last process has gone, then remove the folders."""
        end = time.monotonic() + 10
        for folder in self.folders:
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > end:
                        break
                    time.sleep(0.01)
