"""Write simgrid.json: the times of twelve cases in virtual time and in SimGrid.

Run it with `python -m tests.network.simgrid_table`. It needs Debian's python3-simgrid, which belongs to the
system's Python. TCP's effects are disabled, so that SimGrid uses the model with α and β; see CONFIGURATION in
simgrid_side.py.
"""

from __future__ import annotations

import datetime
import functools
import json
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np

from cluster.network import Placeholder, simulate
from cluster.system import files

from . import cases, simgrid_side

TABLE = Path(__file__).with_name("simgrid.json")
PYTHON = "/usr/bin/python3"


@functools.cache
def version() -> str | None:
    """Return SimGrid's version, or None if the system's Python does not have it."""
    code = "import simgrid; print('.'.join(map(str, simgrid.simgrid_version)))"
    try:
        done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.split()[-1] if done.returncode == 0 else None


def ask(*args: str) -> dict[str, float]:
    """Return the output of simgrid_side.py: `seconds` in SimGrid's time, and `busy`, the CPU time of the
    simulation."""
    done = subprocess.run([PYTHON, simgrid_side.__file__, *args], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def virtual(name: str) -> float:
    """Return the seconds of a case in virtual time."""
    program, ranks, size, network, further = cases.CASES[name]
    x = Placeholder(size, np.uint8)
    return simulate(cases.function(program), x, *further, ranks=ranks, network=network).time


def main() -> None:
    """Run all cases and write the table."""
    result = version()
    if result is None:
        sys.exit(f"{PYTHON} has no simgrid: apt-get install python3-simgrid")
    rows = {name: {"virtual": virtual(name), "simgrid": ask(name)["seconds"]} for name in cases.CASES}
    for name, row in rows.items():
        row["difference"] = row["virtual"] / row["simgrid"] - 1
        print(f"{name:35} {row['virtual']:.9f} s  {row['simgrid']:.9f} s  {row['difference']:+.1e}")
    record = {
        "command": "python -m tests.network.simgrid_table",
        "date": datetime.date.today().isoformat(),
        "versions": {"simgrid": result, "python": platform.python_version(), "numpy": np.__version__},
        "configuration": simgrid_side.CONFIGURATION,
        "seconds": rows,
    }
    files.write_json(TABLE, record)


if __name__ == "__main__":
    main()
