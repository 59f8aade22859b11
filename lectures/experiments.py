"""Generate the recorded runs of the lectures: lectures/runs/NN_topic.py -> lectures/runs/NN_topic.json

    python lectures/experiments.py           all that this machine can make
    python lectures/experiments.py 08        one

Each script submits its runs as jobs. A job that is already in the run log (the folder runs/, or
$CLUSTER_RUNS) is not repeated. An interrupted call resumes where it stopped; if all runs exist, the call ends
after seconds. A new clone has an empty run log, so it trains everything.
"""

import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import time

from cluster.staff.one_machine_slurm import machine

RUNS = pathlib.Path(__file__).parent / "runs"
NEEDS = {"01": "torch"}  # requirements beyond the course's environment: a GPU with PyTorch
SLURM = {"05_slurm_tour", "10_failures"}  # these start a single-host Slurm
NETWORKS = {"06_slow_network", "09_iterations"}  # these create networks: as root, with iproute2


def missing(script):
    """Return what this machine lacks for a script, or None."""
    module = NEEDS.get(script.stem[:2])
    if module and importlib.util.find_spec(module) is None:
        return f"needs {module} and a GPU; its first lines say how to run it there"
    if script.stem in SLURM and (why := machine.missing()):
        return f"needs a Slurm that it can start: {why}"
    if script.stem in NETWORKS:
        absent = [command for command in ("ip", "tc", "unshare", "mpirun") if not shutil.which(command)]
        if os.geteuid() or absent:
            return f"needs {'root' if os.geteuid() else ' and '.join(absent)} to create networks"
    return None


def bar(done, total, width=20):
    """Return a progress bar, [#####-----], for `done` of `total` scripts."""
    filled = width * done // total
    return f"[{'#' * filled}{'-' * (width - filled)}] {done} of {total}"


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument(
        "numbers", nargs="*", metavar="NN", help="experiments to run, such as 08 (default: all)"
    )
    wanted = parser.parse_args().numbers
    scripts = sorted(RUNS.glob("[0-9][0-9]_*.py"))
    known = sorted({script.stem[:2] for script in scripts})
    for number in wanted:
        if number not in known:
            sys.exit(f"There is no experiment {number!r}; there are: {', '.join(known)}")
    scripts = [script for script in scripts if not wanted or script.stem[:2] in wanted]
    failed, skipped = [], []
    for done, script in enumerate(scripts):
        if lacks := missing(script):
            print(f"{script.stem}: not made here, it {lacks}", flush=True)
            skipped.append(script.stem)
            continue
        print(f"{bar(done, len(scripts))}  {script.stem}", flush=True)
        start = time.perf_counter()
        if subprocess.run([sys.executable, script, "--out", script.with_suffix(".json")]).returncode:
            failed.append(script.stem)
        else:
            print(f"{script.stem}: made in {(time.perf_counter() - start) / 60:.0f} min", flush=True)
    print(bar(len(scripts), len(scripts)))
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}. Completed runs are kept, and the same command resumes.")
    if wanted and skipped:
        sys.exit(f"Not made: {', '.join(skipped)}")


if __name__ == "__main__":
    main()
