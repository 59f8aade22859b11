"""Inject faults into copies of the repository, one fault per copy, and report which test of the real hub
detects each.

    python -m tests.deploy.planted [NAME …] as root; prints the table in tests/README.md

In each copy, the tests of test_hub.py run in order, up to the one that must fail. If that test passes for any
of the faults, the exit status is 1.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import ROOT

TESTS = "tests/deploy/test_hub.py"
LEFT_OUT = (".git", ".venv", "build", "runs", "shared", "__pycache__")


@dataclasses.dataclass(frozen=True)
class Fault:
    """An injected fault: with `old` replaced with `new` in the file `path`, the test `test` must fail."""

    what: str
    path: str
    old: str
    new: str
    test: str


FAULTS = {
    "lock": Fault(
        "all users can open the lock of the state folder",
        "cluster/staff/services.py",
        "wait=False, mode=0o600) as held:\n",
        "wait=False) as held:\n            os.chmod(path, 0o666)\n",
        "test_files_of_others_are_inaccessible",
    ),
    "names": Fault(
        "a name from outside is shown as it is",
        "cluster/system/text.py",
        "    shown = ",
        "    return str(text)\n    shown = ",
        "test_invalid_folders_in_the_inbound_folder_are_reported",
    ),
    "hole": Fault(
        "the backup reads each file of the inbound folder to its end",
        "cluster/staff/hub/backup.py",
        "for line in _inbox(tar, ",
        'tar.add(exchange / "inbound", "exchange/inbound", filter=_kept)\n'
        "                for line in () and _inbox(tar, ",
        "test_backup_and_restore",
    ),
    "markup": Fault(
        "the roster takes a display name with markup",
        "cluster/staff/hub/roster.py",
        'return c in ":<>" or',
        'return c in ":" or',
        "test_a_name_with_markup_is_shown_as_text",
    ),
    "inbox": Fault(
        "an inbound folder that cannot be entered counts as empty",
        "cluster/staff/submissions/exchange.py",
        "    for path in [*reversed",
        '    return ""\n    for path in [*reversed',
        "test_a_closed_inbound_folder_is_named[inbound]",
    ),
    "copied cell": Fault(
        "each of several cells with the same name keeps it",
        "cluster/pasted_cells.py",
        "    twins: dict",
        "    return {}\n    twins: dict",
        "test_a_submission_with_a_copied_cell_and_an_unencodable_name",
    ),
    "open course": Fault(
        "a world-readable repository is accepted",
        "cluster/staff/hub/course_files.py",
        "    if all(folder.stat()",
        "    if () and all(folder.stat()",
        "test_solutions_that_students_could_read_are_refused",
    ),
}


def failed(fault: Fault) -> list[str]:
    """Return the tests that fail in a copy with this fault, running them up to the one that must fail."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Path(folder, "repository")
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        path = copy / fault.path
        text = path.read_text()
        assert text.count(fault.old) == 1, f"{fault.path} has {fault.old!r} {text.count(fault.old)} times"
        path.write_text(text.replace(fault.old, fault.new))
        base = fault.test.partition("[")[0]
        names = re.findall(r"^def (test_\w+)", (copy / TESTS).read_text(), re.M)
        chosen = [f"{TESTS}::{name}" for name in names[: names.index(base)]] + [f"{TESTS}::{fault.test}"]
        argv = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *chosen]
        env = os.environ | {"PYTHONPATH": str(copy)}
        done = subprocess.run(argv, cwd=copy, env=env, capture_output=True, text=True)
        matches = re.findall(r"^(?:FAILED|ERROR) \S+?::(test_\S+)", done.stdout, re.M)
        if done.returncode and not matches:
            raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
        return matches


def main(names: list[str]) -> int:
    """Print a row of the table for each fault; return 1 if a fault was not detected."""
    missed = 0
    print("| fault | fails |\n|---|---|")
    for name in names or FAULTS:
        fault = FAULTS[name]
        result = failed(fault)
        missed += fault.test not in result
        others = [one for one in result if one != fault.test]
        caught = f"`{fault.test}`" if fault.test in result else "**nothing of what should**"
        print(
            f"| {fault.what} | {caught}{' and before it ' + ', '.join(others) if others else ''} |",
            flush=True,
        )
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
