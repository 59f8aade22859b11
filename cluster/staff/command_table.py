"""The command line of a service in a state folder: each command is declared with its options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .services import HubError

Command = Callable[[argparse.Namespace, Path], int]


def option(*flags: str, **values: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return an argument of a command, with the parameters of `add_argument`."""
    return flags, values


class CommandTable:
    """The commands of one program. `default` returns its state folder, unless --state names another."""

    def __init__(self, program: str, words: str | None, default: Callable[[], Path]):
        self.program, self.words, self.default = program, words, default
        self.commands: dict[str, tuple[Command, str, tuple]] = {}

    def command(self, name: str, words: str, *options: tuple) -> Callable[[Command], Command]:
        """Register the function that follows as a command, with its description and its options."""

        def register(function: Command) -> Command:
            self.commands[name] = function, words, options
            return function

        return register

    def run(self, argv: list[str] | None = None) -> int:
        """Run one command and return the exit status: the command's own, or 1 for an error."""
        parser = argparse.ArgumentParser(self.program, description=self.words)
        commands = parser.add_subparsers(dest="command", required=True)
        for name, (_, words, options) in self.commands.items():
            command = commands.add_parser(name, help=words, description=words)
            command.add_argument("--state", type=Path, help=f"state folder (default {self.default()})")
            for flags, values in options:
                command.add_argument(*flags, **values)
        args = parser.parse_args(argv)
        try:
            return self.commands[args.command][0](args, (args.state or self.default()).absolute())
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
