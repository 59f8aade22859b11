"""The command line of a service in a state folder: a table of commands, each with its options beside it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .services import HubError

Run = Callable[[argparse.Namespace, Path], int]
Option = tuple[tuple[str, ...], dict[str, Any]]


class Command(NamedTuple):
    """One command: its name, the function that runs it in a state folder, its description, its options."""

    name: str
    run: Run
    words: str
    options: tuple[Option, ...] = ()


def option(*flags: str, **values: Any) -> Option:
    """Return an option of a command, with the parameters of `add_argument`."""
    return flags, values


def run(
    program: str, words: str | None, default: Path, commands: tuple[Command, ...], argv: list[str] | None
) -> int:
    """Run the command that argv names and return the exit status: the command's own, or 1 for an error.

    default: the state folder, unless --state names another.
    """
    parser = argparse.ArgumentParser(program, description=words)
    parsers = parser.add_subparsers(dest="command", required=True)
    for command in commands:
        one = parsers.add_parser(command.name, help=command.words, description=command.words)
        one.add_argument("--state", type=Path, default=default, help="state folder (default %(default)s)")
        one.set_defaults(run=command.run)
        for flags, values in command.options:
            one.add_argument(*flags, **values)
    args = parser.parse_args(argv)
    try:
        return args.run(args, args.state.absolute())
    except HubError as e:
        print(e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return 130
    except OSError as e:  # a full disk, or a missing folder
        print(f"{e.filename or args.command}: {e.strerror}.", file=sys.stderr)
        return 1


def say(line: str) -> None:
    """Print a line for the administrator and flush."""
    print(line, flush=True)
