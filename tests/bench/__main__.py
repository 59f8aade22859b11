"""`python -m tests.bench PART`: measure, record, and update the table in README.md."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from types import ModuleType

from . import PARTS, record


def modules() -> dict[str, ModuleType]:
    """Return {name: module} of the parts."""
    return {name: importlib.import_module(f".{name}", __package__) for name in PARTS}


def main(argv: list[str] | None = None) -> int:
    """Measure a part and record the results; return 1 if a target is missed."""
    parts = modules()
    top = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    commands = top.add_subparsers(dest="part", required=True, metavar="PART", title="parts")
    for name, module in parts.items():
        c = commands.add_parser(name, help=module.ABOUT, description=module.__doc__)
        c.add_argument(
            "--sections", nargs="+", choices=list(module.SECTIONS), metavar="SECTION",
            default=list(module.SECTIONS), help=f"only these of: {', '.join(module.SECTIONS)}",
        )  # fmt: skip
        c.add_argument("--repeats", type=int, help="rounds that count (each section's own number)")
        c.add_argument("--no-record", action="store_true", help="print only: write neither record nor table")
        module.arguments(c)
    options = top.parse_args(argv)
    module, bad = parts[options.part], 0
    command = shlex.join(["python", "-m", "tests.bench", *(sys.argv[1:] if argv is None else argv)])
    for section in options.sections:
        print(f"{options.part}: {section}", flush=True)
        load = os.getloadavg()[0]
        result = module.SECTIONS[section](options)
        result.remarks.append(f"The load was {load:.1f} on {os.cpu_count()} cores at the beginning.")
        for row in result.rows:
            s = row.summary()
            low, high = s["quartiles"]
            spread = f"{low:.4g} … {high:.4g}, n={s['n']}"
            print(f"  {row.what:34} {row.side:24} {s['median']:.4g} {row.unit} ({spread})")
        for aim, holds in result.aims:
            print(f"  {'holds' if holds else 'DOES NOT HOLD'}: {aim}")
            bad += not holds
        print("".join(f"  {text}\n" for text in result.remarks), end="", flush=True)
        if not options.no_record:
            record.record_section(options.part, section, result, command, module.versions())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
