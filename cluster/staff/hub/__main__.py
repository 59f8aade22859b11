"""The commands: start, stop, status, roster, sync, lti, backup, restore, units, own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from cluster.system import files

from . import daemons, default_state, hub_settings, preflight, roster, units
from . import state as states
from .hub_settings import HubError, Settings

CHECKOUT = Path(__file__).parents[3]
NAMED = "sudo make hub ROSTER=people.csv, or start --roster people.csv."


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 for an error, or the one of `status`."""
    args = _parser().parse_args(argv)
    try:
        state = (args.state or default_state()).absolute()
        commands = {"start": _start, "stop": _stop, "status": _status}
        commands |= {
            "roster": _roster,
            "sync": _sync,
            "lti": _lti,
            "backup": _backup,
            "restore": _restore,
            "units": _units,
            "own": _own,
        }
        return commands[args.command](args, state)
    except HubError as e:
        print(e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return 130
    except OSError as e:  # a full disk, or a missing folder
        print(f"{e.filename or args.command}: {e.strerror}.", file=sys.stderr)
        return 1


def _start(args: argparse.Namespace, state: Path) -> int:
    chosen = hub_settings.from_toml(args.settings) if args.settings else states.settings(state)
    if args.slurm:
        chosen = hub_settings.from_values(hub_settings.as_values(chosen) | {"slurm": "machine"})
    people, course = (args.roster or state / states.ROSTER).absolute(), (args.course or CHECKOUT).absolute()
    if args.roster is None and os.getuid() == 0 and not people.exists():
        raise HubError(f"No roster is given. Use {NAMED} Example:\n{roster.EXAMPLE}")
    if args.check:
        preflight.check(chosen, state, course, people)
        return 0
    from .start_hub import start_hub  # imported late, because it needs the course's packages

    say(f"The course on JupyterHub, in {state}")
    start_hub(chosen, state, course, people, say, args.yes)
    say(f"The hub is running at {chosen.public}")
    say(f"  class page: {chosen.class_page}")
    say(f"  Formgrader: {chosen.pages}")
    book = states.accounts(state, chosen)
    if book.passwords.exists():
        say(f"  initial passwords of the users created here: {book.passwords}")
    return 0


def _stop(args: argparse.Namespace, state: Path) -> int:
    from .stop_hub import confirm_purge, stop_hub

    if args.purge and not args.yes:
        confirm_purge(state)
    stop_hub(state, say, args.purge)
    return 0


def _status(args: argparse.Namespace, state: Path) -> int:
    from .hub_status import report

    code, text = report(state)
    print(text)
    return code


def _roster(args: argparse.Namespace, state: Path) -> int:
    text = roster.of_platform(args.export, args.prefix or states.settings(state).user_prefix)
    if args.to is None:
        sys.stdout.write(text)
        return 0
    if args.to.exists():
        raise HubError(f"{args.to} exists already and may contain instructors and extensions: change --to")
    files.write(args.to, text)
    count = text.count("\n") - 1
    say(f"{args.to}: {count} students. Add a line for each instructor, then run sync or start.")
    return 0


def _sync(args: argparse.Namespace, state: Path) -> int:
    from . import sync

    chosen = _started(state)
    people = roster.read_people(args.roster)
    preflight.check_users(chosen, state, people, str(args.roster))
    if not args.yes:
        sync.check_departures(state, people)
    with states.locked(state, say):
        changed = sync.sync(state, chosen, people, say)
        sync.keep(state, args.roster.absolute())
    say(f"{len(people)} people, {len(changed)} changes")
    return 0


def _lti(args: argparse.Namespace, state: Path) -> int:
    from . import lti

    chosen = _started(state) if args.forget else states.settings(state)
    if args.forget:
        with states.locked(state, say):
            lti.forget(state, args.forget)
        say(f"{args.forget}: the next account of the platform that comes as {args.forget} is held to")
    say(lti.report(state, chosen, args.url or chosen.public))
    return 0


def _backup(args: argparse.Namespace, state: Path) -> int:
    from .backup import write_backup

    write_backup(state, _started(state), args.file.absolute(), say, args.wait)
    return 0


def _restore(args: argparse.Namespace, state: Path) -> int:
    from .backup import restore_backup

    restore_backup(state, _started(state), args.file.absolute(), say)
    return 0


def _units(args: argparse.Namespace, state: Path) -> int:
    unit_texts = units.unit_files(CHECKOUT, state, args.backups.absolute())
    if args.into is None:
        print("\n".join(f"# {name}\n{text}" for name, text in unit_texts.items()))
        return 0
    if not args.into.is_dir():
        raise HubError(f"--into {args.into}: this folder does not exist (systemd uses /etc/systemd/system).")
    units.write(args.into, unit_texts)
    rotate = args.into / f"{units.NAME}.logrotate"
    timers = " ".join(name for name in unit_texts if name.endswith(".timer"))
    say(f"Written to {args.into}: {', '.join(unit_texts)}. Then, as root:")
    say(f"  systemctl daemon-reload && systemctl enable --now {units.NAME}.service {timers}")
    say(f"  mv {rotate} /etc/logrotate.d/{units.NAME}")
    return 0


def _own(args: argparse.Namespace, state: Path) -> int:
    from .own_hub import place

    if os.getuid() != 0:
        raise HubError("Only root can place the course for other users (sudo).")
    chosen = hub_settings.from_toml(args.settings) if args.settings else states.settings(state)
    fragment = place(chosen, state, CHECKOUT, args.roster.absolute(), say)
    say("Add this at the end of your jupyterhub_config.py, and restart your hub:")
    say(f"\n  exec(open({str(fragment)!r}).read())")
    return 0


def _started(state: Path) -> Settings:
    if why := daemons.missing():
        raise HubError(why)
    if states.record(state) is None:
        raise HubError(f"No hub was started in {state}; name the hub's state folder with --state.")
    return states.settings(state)


def say(line: str) -> None:
    """Print a line for the administrator and flush."""
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m cluster.staff.hub", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in {
        "start": "start the hub, or restart dead parts of it, and apply the roster",
        "stop": "stop exactly what start has started, including students' servers; keep all files",
        "status": "show which parts are running (exit status: 0 all running, 1 a part is dead, 3 stopped)",
        "roster": "make a roster from an export of Moodle, Canvas or Blackboard",
        "sync": "apply a roster: Unix users, hub, gradebook, Slurm accounts",
        "lti": "show the settings that a learning platform needs for LTI 1.3, and all recent logins",
        "backup": "write gradebook, submissions, scores, feedback, exchange and roster into one file",
        "restore": "replace gradebook, submissions and scores with those from a backup",
        "own": "place the course for a JupyterHub that you run yourself (OWN_HUB.md)",
        "units": "print systemd units: start at boot, repair every five minutes, back up every night",
    }.items():
        command = commands.add_parser(name, help=words, description=words)
        command.add_argument("--state", type=Path, help=f"state folder (default {default_state()})")
        if name == "start":
            text = "CSV file (name, user, role, extension, platform); by default, the last roster"
            command.add_argument("--roster", type=Path, metavar="FILE", help=text)
            text = "TOML file of settings (for the keys, see hub_settings.py); by default, the last settings"
            command.add_argument("--settings", type=Path, metavar="FILE", help=text)
            text = "the course's repository (default: the one that contains this command)"
            command.add_argument("--course", type=Path, metavar="FOLDER", help=text)
            command.add_argument(
                "--slurm", action="store_true", help="also start the single-host Slurm (slurm = 'machine')"
            )
            text = "only check roster, settings, folders and ports, without starting anything"
            command.add_argument("--check", action="store_true", help=text)
        if name in ("start", "sync"):
            text = "accept a roster that removes many people, or all instructors"
            command.add_argument("--yes", action="store_true", help=text)
        if name == "stop":
            text = "remove the state folder and the users created here, with all their files"
            command.add_argument("--purge", action="store_true", help=text)
            command.add_argument("--yes", action="store_true", help="purge without confirmation")
        if name == "units":
            text = "write the units to this folder, such as /etc/systemd/system, instead of printing them"
            command.add_argument("--into", type=Path, metavar="FOLDER", help=text)
            text = "folder for the backups (default: %(default)s)"
            command.add_argument(
                "--backups", type=Path, default=Path("/srv/backup"), metavar="FOLDER", help=text
            )
        if name == "roster":
            command.add_argument("export", type=Path, metavar="EXPORT", help="exported file (CSV or tabs)")
            text = "prefix for the name of a user whose login begins with a digit (default: user_prefix)"
            command.add_argument("--prefix", default="", metavar="LETTER", help=text)
            text = "file to write (default: print the roster)"
            command.add_argument("--to", type=Path, metavar="FILE", help=text)
        if name == "own":
            command.add_argument(
                "--roster", type=Path, metavar="FILE", required=True, help="CSV file of the people"
            )
            command.add_argument("--settings", type=Path, metavar="FILE", help="TOML file of settings")
        if name == "sync":
            command.add_argument("roster", type=Path, metavar="ROSTER", help="CSV file of the people")
        if name == "backup":
            text = "minutes to wait for a running `grade run` to finish (default: %(default)s)"
            command.add_argument("--wait", type=int, default=0, metavar="N", help=text)
        if name == "lti":
            text = "public address of the hub, such as https://hub.example.org"
            command.add_argument("--url", metavar="URL", help=text)
            text = "let another account of the platform log in as this user"
            command.add_argument("--forget", metavar="USER", help=text)
        if name in ("backup", "restore"):
            command.add_argument("file", type=Path, metavar="FILE", help="the backup, a .tar.gz file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
