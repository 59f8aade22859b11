"""Writes constraints.txt: the pins of pyproject.toml resolved for the oldest Python the course allows.

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


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {name: pins for name, pins in project["optional-dependencies"].items() if name != "compiled"}
    pins = sum(groups.values(), project["dependencies"])
    with tempfile.TemporaryDirectory() as nowhere:
        report = Path(nowhere, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--python-version", OLDEST, "--only-binary=:all:", "--target", nowhere]
        subprocess.run([*command, "--report", str(report), *pins], check=True)
        found = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    lines = sorted((f"{p['name']}=={p['version']}\n" for p in found), key=str.lower)
    beside = ROOT / "constraints.tmp"
    beside.write_text(
        HEAD + "".join(line for line in lines if not line.startswith(("setuptools==", "wheel==")))
    )
    beside.rename(ROOT / "constraints.txt")
    print(f"constraints.txt: {len(lines)} packages")


if __name__ == "__main__":
    main()
