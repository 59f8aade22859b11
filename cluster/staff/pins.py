"""Write the locked versions: the ranges of pyproject.toml, resolved for the oldest Python that the course
supports.

They are written to constraints.txt, constraints-gpu.txt and environment.yml.

    make lock

The oldest Python decides, because packages for a newer one may not be installable there (Debian 12 has
3.11.2). Horovod keeps its version in constraints.txt, because it is compiled from source on the machine.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
OLDEST = "3.11.0"
HEAD = f"# Made by `make lock` from the ranges of pyproject.toml, resolved for Python {OLDEST}.\n"
HEAD_GPU = HEAD + "# What `make setup GPU=1` installs in addition to, or instead of, constraints.txt.\n"
APART = ("compiled", "gpu")  # groups not resolved with the others: built from source, another TensorFlow


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = project["optional-dependencies"]
    lines = resolved(sum((groups[name] for name in groups if name not in APART), project["dependencies"]))
    kept = locked((ROOT / "constraints.txt").read_text())
    lines += [f"{name}=={kept[name]}\n" for name in map(name_of, groups["compiled"])]
    write(ROOT / "constraints.txt", HEAD, sorted(lines, key=str.lower))
    conda = ROOT / "environment.yml"
    write(conda, with_versions(conda.read_text(), locked("".join(lines))), [])
    pins = resolved(groups["gpu"], "--constraint", str(ROOT / "constraints.txt"))
    write(ROOT / "constraints-gpu.txt", HEAD_GPU, [line for line in pins if line not in lines])


def resolved(ranges: list[str], *options: str) -> list[str]:
    """Return the lines 'name==version' of all packages that these ranges need, sorted."""
    with tempfile.TemporaryDirectory() as nowhere:
        report = Path(nowhere, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--python-version", OLDEST, "--only-binary=:all:", "--target", nowhere, *options]
        subprocess.run([*command, "--report", str(report), *ranges], check=True)
        packages = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    lines = sorted((f"{p['name']}=={p['version']}\n" for p in packages), key=str.lower)
    return [line for line in lines if not line.startswith(("setuptools==", "wheel=="))]


def name_of(requirement: str) -> str:
    """Return the name at the beginning of a requirement or a locked line, normalised as in pip."""
    return re.split(r"[^\w.-]", requirement.strip())[0].lower().replace("_", "-")


def locked(text: str) -> dict[str, str]:
    """Return {name: version} from the lines of constraints.txt."""
    lines = (line.split("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))
    return {name_of(name): version for name, version in lines}


def with_versions(conda: str, versions: dict[str, str]) -> str:
    """Return environment.yml with these versions; TensorFlow's is the same for all processors."""
    versions = {"tensorflow": versions["tensorflow-cpu"], **versions}
    return re.sub(
        r"(?m)^( +- )([\w.-]+)==[\w.]+", lambda m: f"{m[1]}{m[2]}=={versions[name_of(m[2])]}", conda
    )


def write(path: Path, head: str, lines: list[str]) -> None:
    """Write to another file first, then rename it."""
    temp = path.with_suffix(".tmp")
    temp.write_text(head + "".join(lines))
    temp.rename(path)
    print(f"{path.name}: {len(lines)} packages")


if __name__ == "__main__":
    main()
