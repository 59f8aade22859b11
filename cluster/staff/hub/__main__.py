"""The commands: start, stop, status, roster, sync, lti, backup, restore, units, own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from cluster.system import files

from .. import platforms
from ..command_table import Command, option, run, say
from ..lti import platform_login
from . import daemons, default_state, hub_settings, roster, start_hub, stop_hub, sync, units
from . import state as states
from .hub_settings import HubError, Settings

CHECKOUT = Path(__file__).parents[3]
NAMED = "sudo make hub ROSTER=people.csv, or start --roster people.csv."
DEPARTURES = option(
    "--yes", action="store_true", help="accept a roster that removes many people, or all instructors"
)
BACKUP = option("file", type=Path, metavar="FILE", help="the backup, a .tar.gz file")


def _start(args: argparse.Namespace, state: Path) -> int:
    chosen = _settings(args, state)
    if args.slurm:
        chosen = hub_settings.from_values(hub_settings.as_values(chosen) | {"slurm": "machine"})
    people, course = (args.roster or state / states.ROSTER).absolute(), args.course.absolute()
    if args.roster is None and os.getuid() == 0 and not people.exists():
        raise HubError(f"No roster is given. Use {NAMED} Example:\n{roster.EXAMPLE}")
    if args.check:
        start_hub.check(chosen, state, course, people)
        return 0
    say(f"The course on JupyterHub, in {state}")
    start_hub.start_hub(chosen, state, course, people, say, args.yes)
    say(f"The hub is running at {chosen.public}")
    say(f"  class page: {chosen.class_page}")
    passwords = states.accounts(state, chosen).passwords
    if passwords.exists():
        say(f"  initial passwords of the users created here: {passwords}")
    return 0


def _stop(args: argparse.Namespace, state: Path) -> int:
    if args.purge and not args.yes:
        stop_hub.confirm_purge(state)
    stop_hub.stop_hub(state, say, args.purge)
    return 0


def _status(args: argparse.Namespace, state: Path) -> int:
    from .hub_status import report

    code, text = report(state)
    print(text)
    return code


def _roster(args: argparse.Namespace, state: Path) -> int:
    chosen = states.settings(state)
    columns = dict(pair.strip().partition("=")[::2] for pair in args.columns.split(",") if pair.strip())
    if odd := [name for name in columns if platforms.english(name) not in platforms.NAMED]:
        raise HubError(f"--columns: {odd[0]!r} is none of {', '.join(platforms.NAMED)}")
    columns = {platforms.english(name): theirs for name, theirs in columns.items()}
    rule = start_hub.user_rule(chosen, state)
    text = roster.of_platform(args.export, args.prefix or chosen.user_prefix, columns, rule)
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
    chosen = _started(state)
    people = roster.read_people(args.roster, start_hub.user_rule(chosen, state))
    if not args.yes:
        sync.check_departures(state, people)
    with states.locked(state, say):
        changed = sync.sync(daemons.api(chosen, state), state, chosen, people, say)
        sync.keep(state, args.roster.absolute())
    say(f"{len(people)} people, {len(changed)} changes")
    return 0


def _lti(args: argparse.Namespace, state: Path) -> int:
    chosen = _started(state) if args.forget else states.settings(state)
    if args.forget:
        with states.locked(state, say):
            platform_login.forget(state, args.forget)
        say(f"{args.forget}: the next account of the platform that comes as {args.forget} is held to")
    say(platform_login.report(state, chosen.lti, args.url or chosen.public))
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
    for name, text in unit_texts.items():
        files.write(args.into / name, text)
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
    fragment = place(_settings(args, state), state, CHECKOUT, args.roster.absolute(), say)
    say("Add this at the end of your jupyterhub_config.py, and restart your hub:")
    say(f"\n  exec(open({str(fragment)!r}).read())")
    return 0


def _settings(args: argparse.Namespace, state: Path) -> Settings:
    return hub_settings.from_toml(args.settings) if args.settings else states.settings(state)


def _started(state: Path) -> Settings:
    if why := daemons.missing():
        raise HubError(why)
    if states.record(state) is None:
        raise HubError(f"No hub was started in {state}; name the hub's state folder with --state.")
    return states.settings(state)


COMMANDS = (
    Command(
        "start",
        _start,
        "start the hub, or restart dead parts of it, and apply the roster",
        (
            option(
                "--roster",
                type=Path,
                metavar="FILE",
                help="CSV file (name, user, role, extension, platform); by default, the last roster",
            ),
            option(
                "--settings",
                type=Path,
                metavar="FILE",
                help="TOML file of settings (keys: hub_settings.py); by default, the last settings",
            ),
            option(
                "--course",
                type=Path,
                metavar="FOLDER",
                default=CHECKOUT,
                help="the course's repository (default: the one that contains this command)",
            ),
            option(
                "--slurm", action="store_true", help="also start the single-host Slurm (slurm = 'machine')"
            ),
            option(
                "--check",
                action="store_true",
                help="only check roster, settings, folders and ports, without starting anything",
            ),
            DEPARTURES,
        ),
    ),
    Command(
        "stop",
        _stop,
        "stop exactly what start has started, including students' servers; keep all files",
        (
            option(
                "--purge",
                action="store_true",
                help="remove the state folder and the users created here, with all their files",
            ),
            option("--yes", action="store_true", help="purge without confirmation"),
        ),
    ),
    Command(
        "status",
        _status,
        "show which parts are running (exit status: 0 all running, 1 a part is dead, 3 stopped)",
    ),
    Command(
        "roster",
        _roster,
        "make a roster from an export of Moodle, Canvas or Blackboard",
        (
            option("export", type=Path, metavar="EXPORT", help="exported file (CSV or tabs)"),
            option(
                "--prefix",
                default="",
                metavar="LETTER",
                help="prefix for the name of a user whose login begins with a digit (default: user_prefix)",
            ),
            option(
                "--columns",
                default="",
                metavar="'NAME=HEADING,…'",
                help="what the export calls Username, Full name and others, such as 'Username=Kennung'",
            ),
            option("--to", type=Path, metavar="FILE", help="file to write (default: print the roster)"),
        ),
    ),
    Command(
        "sync",
        _sync,
        "apply a roster: Unix users, hub, gradebook, Slurm accounts",
        (
            option("roster", type=Path, metavar="ROSTER", help="CSV file of the people"),
            DEPARTURES,
        ),
    ),
    Command(
        "lti",
        _lti,
        "show the settings that a learning platform needs for LTI 1.3, and all recent logins",
        (
            option("--url", metavar="URL", help="public address of the hub, as in https://hub.example.org"),
            option(
                "--forget", metavar="USER", help="let another account of the platform log in as this user"
            ),
        ),
    ),
    Command(
        "backup",
        _backup,
        "write gradebook, submissions, scores, feedback, exchange and roster into one file",
        (
            BACKUP,
            option(
                "--wait",
                type=int,
                default=0,
                metavar="N",
                help="minutes to wait for a running `grade run` to finish (default: %(default)s)",
            ),
        ),
    ),
    Command(
        "restore",
        _restore,
        "replace gradebook, submissions and scores with those from a backup",
        (BACKUP,),
    ),
    Command(
        "units",
        _units,
        "print systemd units: start at boot, repair every five minutes, back up every night",
        (
            option(
                "--into",
                type=Path,
                metavar="FOLDER",
                help="write the units to this folder, such as /etc/systemd/system, instead of printing them",
            ),
            option(
                "--backups",
                type=Path,
                default=Path("/srv/backup"),
                metavar="FOLDER",
                help="folder for the backups (default: %(default)s)",
            ),
        ),
    ),
    Command(
        "own",
        _own,
        "place the course for a JupyterHub that you run yourself (OWN_HUB.md)",
        (
            option("--roster", type=Path, metavar="FILE", required=True, help="CSV file of the people"),
            option("--settings", type=Path, metavar="FILE", help="TOML file of settings"),
        ),
    ),
)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 for an error, or the one of `status`."""
    return run("python -m cluster.staff.hub", __doc__, default_state(), COMMANDS, argv)


if __name__ == "__main__":
    sys.exit(main())
