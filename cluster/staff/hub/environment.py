"""The hub's Python: the course's packages as hard links, in a place that students can access.

The environment built by `make hub` may be in a folder closed to other users (which contains the solutions),
or use a Python in root's home. Hard links work in both cases and take no space. The package `cluster` is
deliberately missing: students import the copy placed for them, the grader the one in the course root.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cluster.system import files

from .hub_settings import HubError

STAMP = "made-of.json"
LEFT_OUT = (
    "__editable__",  # pip's reference to the checkout, which contains the solutions
    "from_convolution_to_cluster",
    # optional for jsonschema; each import parses a grammar, which takes seconds of CPU time
    "rfc3987_syntax",
)


def python(state: Path) -> Path:
    """Return the Python interpreter of all servers and of the grader."""
    return state / "python" / "bin" / "python"


def make(state: Path) -> bool:
    """Create the environment, or recreate it after changes of packages; return whether it was created."""
    source, base = Path(sys.prefix), reachable()
    facts: dict[str, Any] = {
        "source": str(source),
        "base": base,
        "packages": _packages(source),
        "path": str(state),
    }
    facts["without"] = list(LEFT_OUT)
    stamp = state / "python" / STAMP
    if files.read_json(stamp) == facts:
        return False
    target = state / "python.new"
    remove(target)
    _output(base, "-m", "venv", "--without-pip", "--symlinks", str(target))
    inside = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    _link(source / inside, target / inside)
    _link(source / "share", target / "share")
    _scripts(source, target, state / "python")
    (target / inside / "course.pth").write_text(f"{state / 'course'}\n")
    (target / STAMP).write_text(json.dumps(facts, indent=1))
    files.replace_folder(target, state / "python")
    return True


def reachable() -> str:
    """Return a Python of this version that every user can run. Raises HubError if there is none."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for path in (os.path.realpath(sys.executable), f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        if os.path.exists(path) and open_to_all(Path(os.path.realpath(path))):
            return path
    raise HubError(
        f"This environment uses {os.path.realpath(sys.executable)}, which other users cannot reach, and "
        f"there is no {version} in /usr/bin. Install Debian's {version} with its venv module, or build "
        f"the environment on another Python: make hub VENV=FOLDER PYTHON=/path/to/{version}"
    )


def open_to_all(path: Path) -> bool:
    """Return whether every user can enter all folders above the file, and read it."""
    return all(p.stat().st_mode & 0o001 for p in path.parents) and bool(path.stat().st_mode & 0o004)


def _packages(source: Path) -> str:
    """Return a hash of the packages' names and times, which changes when pip installs something."""
    records = sorted(
        (p.parent.name, p.stat().st_mtime_ns) for p in source.glob("lib/*/site-packages/*.dist-info/RECORD")
    )
    return hashlib.sha256(json.dumps(records).encode()).hexdigest()


def _link(source: Path, target: Path) -> None:
    """Copy a folder with hard links; on another file system the copy needs additional space."""
    remove(target)
    try:
        _output("cp", "-al", str(source), str(target))
    except HubError:
        remove(target)
        _output("cp", "-a", str(source), str(target))
    for path in target.iterdir():
        if path.name.startswith(LEFT_OUT):
            remove(path)
    _output("find", str(target), "-type", "d", "-exec", "chmod", "755", "{}", "+")
    closed = _output("find", str(target), "-type", "f", "-not", "-perm", "-004", "-print", "-quit").strip()
    if closed:
        raise HubError(
            f"{closed.replace(str(target), str(source))} is not public. Run chmod -R a+rX '{source}'"
        )


def _scripts(source: Path, target: Path, final: Path) -> None:
    """Create the packages' commands (jupyter, nbgrader, alembic) for the copy's Python."""
    for script in (source / "bin").iterdir():
        if script.is_symlink() or not script.is_file() or (target / "bin" / script.name).exists():
            continue
        first, _, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!" + os.fsencode(source / "bin" / "python")):
            copy = target / "bin" / script.name
            copy.write_bytes(b"#!" + os.fsencode(final / "bin" / "python") + b"\n" + rest)
            copy.chmod(0o755)


def remove(path: Path) -> None:
    """Delete a file, or a folder of many files, quickly."""
    _output("rm", "-rf", str(path))


def _output(*command: str) -> str:
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    result = subprocess.run(command, capture_output=True, text=True, env=env, cwd="/")
    if result.returncode:
        raise HubError(f"{' '.join(command)} failed:\n{(result.stdout + result.stderr)[-800:]}")
    return result.stdout
