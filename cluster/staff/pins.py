"""Writes constraints.txt and constraints-gpu.txt: the pins of pyproject.toml resolved for the oldest Python
the course allows.

    make lock

The oldest Python decides: a newer one may be given packages that the older cannot install (Debian 12 has
3.11.2). Horovod is left out: it is compiled on the machine, and only from source.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
OLDEST = "3.11.0"
HEAD = f"# Made by `make lock` from the pins of pyproject.toml, resolved for Python {OLDEST}.\n"
HEAD_GPU = HEAD + "# What `make setup GPU=1` installs beside, or in place of, what is in constraints.txt.\n"
APART = ("compiled", "gpu")  # groups: from source, on the machine; and another TensorFlow


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = project["optional-dependencies"]
    lines = resolved(sum((groups[name] for name in groups if name not in APART), project["dependencies"]))
    write(ROOT / "constraints.txt", HEAD, lines)
    beside = resolved(groups["gpu"], "--constraint", str(ROOT / "constraints.txt"))
    write(ROOT / "constraints-gpu.txt", HEAD_GPU, [line for line in beside if line not in lines])


def resolved(pins: list[str], *options: str) -> list[str]:
    """The lines 'name==version' of all that these pins need, sorted."""
    with tempfile.TemporaryDirectory() as nowhere:
        report = Path(nowhere, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--python-version", OLDEST, "--only-binary=:all:", "--target", nowhere, *options]
        subprocess.run([*command, "--report", str(report), *pins], check=True)
        found = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    lines = sorted((f"{p['name']}=={p['version']}\n" for p in found), key=str.lower)
    return [line for line in lines if not line.startswith(("setuptools==", "wheel=="))]


def write(path: Path, head: str, lines: list[str]) -> None:
    """Beside it, and renamed."""
    beside = path.with_suffix(".tmp")
    beside.write_text(head + "".join(lines))
    beside.rename(path)
    print(f"{path.name}: {len(lines)} packages")


if __name__ == "__main__":
    main()
