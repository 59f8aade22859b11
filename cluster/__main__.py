"""The jobs of the course from a shell: `python -m cluster --help`."""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .jobs import Job, Sweep, attach, submit, watch
from .jobs.errors import OptionError
from .system.errors import ClusterError

EXAMPLES = """\
examples:
  python -m cluster submit --ranks-per-node 2 train.py 10 0.1     a script and its arguments
  python -m cluster submit --nodes 2 train:main epochs=10         a function of a module, with arguments
  python -m cluster list --active
  python -m cluster watch train-3fa9                               live view of its ranks, curves and reasons
  python -m cluster logs train-3fa9 --follow
  python -m cluster doctor --run

A job is identified by its id, the beginning of its id, its folder, or its Slurm job id. So is
a sweep (the result of jobs.map()); train-3fa9/4 is item 4 of the sweep train-3fa9.
Job folders are in `runs` under the current directory, or in the folder that CLUSTER_RUNS names.
"""

# What other programs call these commands.
SYNONYMS = dict.fromkeys(("jobs", "ls", "ps", "queue", "squeue", "sacct", "table", "history"), "list")
SYNONYMS |= dict.fromkeys(("run", "start", "sbatch", "srun", "launch", "train", "map", "rerun"), "submit")
SYNONYMS |= dict.fromkeys(("kill", "stop", "scancel", "delete", "remove", "rm", "abort", "end"), "cancel")
SYNONYMS |= dict.fromkeys(("log", "output", "tail", "print", "cat", "out", "stdout"), "logs")
SYNONYMS |= dict.fromkeys(("state", "info", "result", "results", "error", "job", "describe"), "show")
SYNONYMS |= dict.fromkeys(("monitor", "top", "follow", "progress", "attach", "live"), "watch")
SYNONYMS |= dict.fromkeys(("check", "test", "checkup", "diagnose", "gpu", "site"), "doctor")
SYNONYMS |= dict.fromkeys(("reasons", "explain"), "states") | {"help": "--help"}

Argument = tuple[tuple[str, ...], dict[str, Any]]
COMMANDS: list[tuple[Callable, str, tuple[str, ...], tuple[Argument, ...]]] = []


def argument(*names: str, **options: Any) -> Argument:
    """Return what `add_argument` gets for an argument of a command."""
    return names, options


def command(text: str, *arguments: Argument, aliases: tuple[str, ...] = ()) -> Callable:
    """Make a function the command of its name. It gets the arguments by their names; None returns 0."""

    def register(run: Callable) -> Callable:
        COMMANDS.append((run, text, aliases, arguments))
        return run

    return register


JOB = argument("job", help="id, beginning of an id, folder, or Slurm job id")


@command(
    "submit a script or a function",
    argument("--nodes", type=int, help="number of nodes (1)"),
    argument("--ranks-per-node", type=int, help="number of ranks per node (1)"),
    argument("--cpus-per-rank", type=int, help="number of threads per rank (1)"),
    argument("--gpus-per-rank", type=int, help="number of GPUs per rank (0)"),
    argument("--memory", help="memory per rank, such as 512M or 2G (2G)"),
    argument("--time", help="time limit, hours:minutes:seconds (00:10:00)"),
    argument("--name", help="name of the job"),
    argument("--controller", help="Horovod's controller: auto, gloo or mpi (auto, which is gloo)"),
    argument("--backend", help="auto, local or slurm (auto: slurm if it answers, else local)"),
    argument("--partition", help="Slurm's partition"),
    argument("--max-output", help="maximum output kept per rank, such as 50M (50M)"),
    argument("--sbatch", action="append", metavar="NAME=VALUE", help="additional option of sbatch"),
    argument("--env", action="append", metavar="NAME=VALUE", help="environment variable for the ranks"),
    argument("--rerun", action="store_true", help="run again even if the run is recorded"),
    argument("--wait", action="store_true", help="wait until the job ends and print rank 0's output"),
    argument("target", help="script.py, or module:function"),
    argument("arguments", nargs=argparse.REMAINDER, help="of the target; for a function also name=value"),
)
def _submit(target: str, arguments: list[str], rerun: bool, wait: bool, **options: Any) -> int:
    given = {name: value for name, value in options.items() if value is not None}
    for name in {"sbatch", "env"} & given.keys():
        given[name] = dict(_pair(text) for text in given[name])
    if target.endswith(".py"):
        job = submit(target, *arguments, rerun=rerun, **given)
    else:
        args = [_value(a) for a in arguments if not _is_pair(a)]
        kwargs = {k: _value(v) for k, v in (_pair(a) for a in arguments if _is_pair(a))}
        if twice := sorted(given.keys() & kwargs.keys()):
            what = f"{twice[0]!r} is given twice, as an option and as an argument."
            raise OptionError(what, "Give it once.")
        job = submit(_function(target), *args, rerun=rerun, **given, **kwargs)
    if not wait:
        return 0
    job.wait()
    print(job.logs(0), end="")
    failed = _tell(job)
    if not failed and job.result() is not None:
        print(job.result())
    return failed


@command(
    "list the recorded jobs",
    argument("--active", action="store_true", default=None, help="list only jobs that have not ended"),
    argument("--name", help="list only jobs whose name contains NAME"),
    argument("--state", action="append", help="list only jobs in this state (repeatable)"),
    argument("--backend", help="list only jobs of this backend, local or slurm"),
    argument("--since", help="list only jobs of the last '30 min', '2 h' or '3 days', or since a date"),
    argument("--limit", type=int, metavar="N", help="list only the newest N jobs"),
)
def _list(**chosen: Any) -> None:
    from .jobs.job_table import JobTable

    print(JobTable(**chosen))


@command("show a job's state and error", JOB, aliases=("status",))
def _show(job: str) -> int:
    found = attach(job)
    print(f"{found!r}\n{found.status.what}\n{found.folder}\n{found.spec['command']}")
    return _tell(found)


@command(
    "wait until a job has ended", JOB,
    argument("--timeout", type=float, metavar="SECONDS", help="stop waiting after this time"),
)  # fmt: skip
def _wait(job: str, timeout: float | None) -> int:
    return _tell(attach(job).wait(timeout))


@command("cancel a job", JOB)
def _cancel(job: str) -> None:
    print(attach(job).cancel())


@command(
    "print the script that runs a job", JOB,
    argument("--backend", choices=["local", "slurm"], help="print this backend's script"),
)  # fmt: skip
def _script(job: str, backend: str | None) -> None:
    print(attach(job).script(backend), end="")


@command(
    "print the output of a job's ranks", JOB,
    argument("--rank", type=int, help="print only the output of this rank"),
    argument("--follow", action="store_true", help="print new output until the job ends"),
)  # fmt: skip
def _logs(job: str, rank: int | None, follow: bool) -> None:
    found = attach(job)
    if isinstance(found, Sweep) and (follow or rank is not None):
        step = f"Name an item, such as {found.id}/0, or watch {found.id}."
        raise OptionError(f"{found.id} is a sweep.", step)
    if follow:
        found.follow(rank)
    else:
        print((found.logs() if rank is None else found.logs(rank)).rstrip())


@command(
    "show jobs live until they end; Ctrl-C ends only the display",
    argument("jobs", nargs="+", metavar="job", help="ids, beginnings of ids, folders, or Slurm job ids"),
    argument("--logs", type=int, default=0, metavar="N", help="also show the last N lines of output"),
)
def _watch(jobs: list[str], logs: int) -> int:
    found = [attach(name) for name in jobs]
    watch(found[0] if len(found) == 1 else found, logs)
    return 1 if any(job.status.ended and job.error() for job in found) else 0


@command(
    "print what Slurm's states and reasons mean, and what to do",
    argument("--write", action="store_true", help="write cluster/slurm/STATES.md instead"),
)
def _states(write: bool) -> None:
    from .slurm import states

    if write:
        Path(states.__file__).with_name("STATES.md").write_text(states.markdown())
    else:
        print(states.text())


@command("grade a class: collect, run, report, … (for instructors; see `grade --help`)")
def _grade(*arguments: str) -> int:
    try:
        from .staff.__main__ import main as grade
    except ImportError:
        print("Grading is for instructors: it is not part of this copy of the package.", file=sys.stderr)
        return 2
    return grade(list(arguments), prog="python -m cluster grade")


@command(
    "report what is available to run jobs, and what is missing",
    argument("--run", dest="try_it", action="store_true", help="also run jobs with two ranks"),
    argument("--site", action="store_true", help="instead, show the batch script of this site's jobs"),
    argument("--gpu", action="store_true", help="instead, time all-reduce and training on two GPUs"),
    argument("--small", action="store_true", help="with --gpu: measure small sizes on two CPU ranks"),
)
def _doctor(try_it: bool, site: bool, gpu: bool, small: bool) -> int:
    from .doctor import checkup, gpu_check, site_check

    if gpu:
        missing = None if small else gpu_check.missing()
        if missing:
            print(missing, file=sys.stderr)
            return 1
        report, tables = gpu_check.doctor(small)
        text, good = "\n\n".join([*tables, str(report)]), report.ok
    elif site:
        text, good = site_check.check()
    else:
        report = checkup.doctor(try_it)
        text, good = str(report), report.ok
    print(text)
    return 0 if good else 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="python -m cluster", description="Submit and manage jobs.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for run, text, aliases, arguments in COMMANDS:
        subparser = commands.add_parser(run.__name__.strip("_"), help=text, description=text, aliases=aliases)
        subparser.set_defaults(run=run)
        for names, options in arguments:
            subparser.add_argument(*names, **options)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run a command and return 0, 1 if the job failed or the doctor found a fault, or 2 for an error."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["grade"]:  # the command has a separate parser
        return _grade(*given[1:])
    if given and not given[0].startswith("-") and (advice := _unknown(given[0])):
        print(advice, file=sys.stderr)
        return 2
    options = vars(parser().parse_args(given))
    try:
        return options.pop("run")(**options) or 0
    except ClusterError as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted; the job continues.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _unknown(name: str) -> str:
    """Return what to type instead of an unknown command, or "" for a known one."""
    known = {n for run, _, aliases, _ in COMMANDS for n in (run.__name__.strip("_"), *aliases)}
    if name in known:
        return ""
    near = [name] * (name in SYNONYMS) + difflib.get_close_matches(name.lower(), known, n=1)
    near += difflib.get_close_matches(name.lower(), SYNONYMS, n=1)
    meant = SYNONYMS.get(near[0], near[0]) if near else ""
    what = f"To submit it: python -m cluster submit {name}" if name.endswith(".py") or ":" in name else ""
    return f"There is no command {name!r}. {what or f'Did you mean {meant!r}?' * bool(meant)}".rstrip() + (
        f"\nCommands: {', '.join(sorted(known))}. See python -m cluster --help."
    )


def _tell(job: Job | Sweep) -> int:
    """Print the job's error, if it has one, and return the matching exit status."""
    error = job.error()
    if error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 1 if error else 0


def _function(text: str) -> Callable:
    module, _, name = text.partition(":")
    if not name:
        raise OptionError(f"{text!r} is not a script or a function.", "Write script.py or module:function.")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as e:
        step = "Check the names of the module and the function."
        raise OptionError(f"{text!r} could not be imported: {e}.", step) from None


def _is_pair(text: str) -> bool:
    return text.partition("=")[0].isidentifier() and "=" in text


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise OptionError(f"{text!r} has no value.", "Write NAME=VALUE.")
    return name, value


def _value(text: str) -> object:
    with contextlib.suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    return text


if __name__ == "__main__":
    sys.exit(main())
