"""The jobs of the course from a shell: `python -m cluster --help`."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from .jobs import Job, JobError, Sweep, attach, submit, watch
from .jobs.errors import OptionError

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


def parser() -> argparse.ArgumentParser:
    """Return the commands and their options."""
    top = argparse.ArgumentParser(
        prog="python -m cluster", description="Submit and manage jobs.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, text: str, run: Callable, *aliases: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(name, help=text, description=text, aliases=aliases)
        subparser.set_defaults(run=run)
        return subparser

    c = command("submit", "submit a script or a function", _submit)
    for option, kind, text in [
        ("--nodes", int, "number of nodes (1)"),
        ("--ranks-per-node", int, "number of ranks per node (1)"),
        ("--cpus-per-rank", int, "number of threads per rank (1)"),
        ("--gpus-per-rank", int, "number of GPUs per rank (0)"),
        ("--memory", str, "memory per rank, such as 512M or 2G (2G)"),
        ("--time", str, "time limit, hours:minutes:seconds (00:10:00)"),
        ("--name", str, "name of the job"),
        ("--controller", str, "Horovod's controller: auto, gloo or mpi (auto, which is gloo)"),
        ("--backend", str, "auto, local or slurm (auto: slurm if it answers, else local)"),
        ("--partition", str, "Slurm's partition"),
        ("--max-output", str, "maximum output kept per rank, such as 50M (50M)"),
    ]:
        c.add_argument(option, type=kind, help=text, metavar=option.rpartition("-")[2].upper())
    c.add_argument("--sbatch", action="append", metavar="NAME=VALUE", help="additional option of sbatch")
    c.add_argument("--env", action="append", metavar="NAME=VALUE", help="environment variable for the ranks")
    c.add_argument("--rerun", action="store_true", help="run again even if the run is recorded")
    c.add_argument("--wait", action="store_true", help="wait until the job ends and print rank 0's output")
    c.add_argument("target", help="script.py, or module:function")
    c.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="arguments of the target; for a function also name=value"
    )

    c = command("list", "list the recorded jobs", _list)
    c.add_argument("--active", action="store_true", help="list only jobs that have not ended")
    c.add_argument("--name", help="list only jobs whose name contains NAME")
    c.add_argument("--state", action="append", help="list only jobs in this state (repeatable)")
    c.add_argument("--backend", help="list only jobs of this backend, local or slurm")
    c.add_argument("--since", help="list only jobs of the last '30 min', '2 h' or '3 days', or since a date")
    c.add_argument("--limit", type=int, metavar="N", help="list only the newest N jobs")

    for name, text, run, aliases in [
        ("show", "show a job's state and error", _show, ["status"]),
        ("wait", "wait until a job has ended", _wait, []),
        ("cancel", "cancel a job", _cancel, []),
        ("script", "print the script that runs a job", _script, []),
        ("logs", "print the output of a job's ranks", _logs, []),
    ]:
        c = command(name, text, run, *aliases)
        c.add_argument("job", help="id, beginning of an id, folder, or Slurm job id")
        if name == "logs":
            c.add_argument("--rank", type=int, help="print only the output of this rank")
            c.add_argument("--follow", action="store_true", help="print new output until the job ends")
        if name == "wait":
            c.add_argument("--timeout", type=float, metavar="SECONDS", help="stop waiting after this time")
        if name == "script":
            c.add_argument("--backend", choices=["local", "slurm"], help="print this backend's script")

    c = command("watch", "show jobs live until they end; Ctrl-C ends only the display", _watch)
    c.add_argument("jobs", nargs="+", metavar="job", help="ids, beginnings of ids, folders, or Slurm job ids")
    c.add_argument("--logs", type=int, default=0, metavar="N", help="also show the last N lines of output")

    c = command("states", "print what Slurm's states and reasons mean, and what to do", _states)
    c.add_argument("--write", action="store_true", help="write cluster/slurm/STATES.md instead")

    command("grade", "grade a class: collect, run, report, … (for instructors; see `grade --help`)", _grade)

    c = command("doctor", "report what is available to run jobs, and what is missing", _doctor)
    c.add_argument("--run", dest="try_it", action="store_true", help="also run jobs with two ranks")
    c.add_argument("--site", action="store_true", help="instead, show the batch script of this site's jobs")
    c.add_argument("--gpu", action="store_true", help="instead, time all-reduce and training on two GPUs")
    c.add_argument("--small", action="store_true", help="with --gpu: measure small sizes on two CPU ranks")
    return top


def main(argv: list[str] | None = None) -> int:
    """Run a command and return 0, 1 if the job failed or the doctor found a fault, or 2 for an error."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["grade"]:  # the command has a separate parser
        return _grade(given[1:])
    options = parser().parse_args(given)
    try:
        return options.run(options) or 0
    except JobError as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted; the job continues.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _submit(o: argparse.Namespace) -> int:
    names = ["nodes", "ranks_per_node", "cpus_per_rank", "gpus_per_rank", "memory", "time", "name"]
    names += ["controller", "backend", "partition", "max_output"]
    given = {n: getattr(o, n) for n in names if getattr(o, n) is not None}
    for n in ("sbatch", "env"):
        if getattr(o, n):
            given[n] = dict(_pair(text) for text in getattr(o, n))
    if o.target.endswith(".py"):
        job = submit(o.target, *o.arguments, rerun=o.rerun, **given)
    else:
        args = [_value(a) for a in o.arguments if not _is_pair(a)]
        kwargs = {k: _value(v) for k, v in (_pair(a) for a in o.arguments if _is_pair(a))}
        twice = sorted(set(given) & set(kwargs))
        if twice:
            raise OptionError(
                f"{twice[0]!r} is given twice, as an option and as an argument.", "Give it once."
            )
        job = submit(_function(o.target), *args, rerun=o.rerun, **given, **kwargs)
    if not o.wait:
        return 0
    job.wait()
    print(job.logs(0), end="")
    failed = _tell(job)
    if not failed and job.result() is not None:
        print(job.result())
    return failed


def _list(o: argparse.Namespace) -> None:
    from .jobs.job_table import JobTable

    active = True if o.active else None
    print(JobTable(active, o.name, state=o.state, backend=o.backend, since=o.since, limit=o.limit))


def _show(o: argparse.Namespace) -> int:
    job = attach(o.job)
    print(f"{job!r}\n{job.status.what}\n{job.folder}\n{job.spec['command']}")
    return _tell(job)


def _wait(o: argparse.Namespace) -> int:
    return _tell(attach(o.job).wait(o.timeout))


def _cancel(o: argparse.Namespace) -> None:
    print(attach(o.job).cancel())


def _script(o: argparse.Namespace) -> None:
    print(attach(o.job).script(o.backend), end="")


def _logs(o: argparse.Namespace) -> None:
    job = attach(o.job)
    if isinstance(job, Sweep) and (o.follow or o.rank is not None):
        raise OptionError(f"{job.id} is a sweep.", f"Name an item, such as {job.id}/0, or watch {job.id}.")
    if o.follow:
        job.follow(o.rank)
    else:
        print((job.logs() if o.rank is None else job.logs(o.rank)).rstrip())


def _watch(o: argparse.Namespace) -> int:
    jobs_to_watch = [attach(name) for name in o.jobs]
    watch(jobs_to_watch[0] if len(jobs_to_watch) == 1 else jobs_to_watch, o.logs)
    return 1 if any(job.status.ended and job.error() for job in jobs_to_watch) else 0


def _states(o: argparse.Namespace) -> None:
    from .slurm import states

    if o.write:
        Path(states.__file__).with_name("STATES.md").write_text(states.markdown())
    else:
        print(states.text())


def _doctor(o: argparse.Namespace) -> int:
    if o.gpu:
        return _doctor_gpu(o.small)
    if o.site:
        return _doctor_site()
    from cluster.doctor.checkup import doctor

    report = doctor(o.try_it)
    print(report)
    return 0 if report.ok else 1


def _doctor_gpu(small: bool) -> int:
    from cluster.doctor import gpu_check, gpu_steps

    missing = None if small else gpu_check.missing()
    if missing:
        print(missing, file=sys.stderr)
        return 1
    report, tables = gpu_check.doctor(small)
    tables.append(gpu_steps.doctor(report, next(iter(gpu_check.layouts(small).values())), small))
    print("\n\n".join([*filter(None, tables), str(report)]))
    return 0 if report.ok else 1


def _doctor_site() -> int:
    from cluster.doctor import site_check

    text, good = site_check.check()
    print(text)
    return 0 if good else 1


def _grade(arguments: list[str]) -> int:
    try:
        from .staff.__main__ import main as grade
    except ImportError:
        print("Grading is for instructors: it is not part of this copy of the package.", file=sys.stderr)
        return 2
    return grade(arguments, prog="python -m cluster grade")


def _tell(job: Job | Sweep) -> int:
    """Print the job's error, if it has one, and return the matching exit status."""
    error = job.error()
    if error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 1 if error else 0


def _function(text: str) -> Callable:
    module, _, name = text.partition(":")
    if not name:
        raise OptionError(
            f"{text!r} is neither a script nor a function.", "Write script.py or module:function."
        )
    sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as e:
        raise OptionError(
            f"{text!r} could not be imported: {e}.", "Check the names of the module and the function."
        ) from None
    return function


def _is_pair(text: str) -> bool:
    return text.partition("=")[0].isidentifier() and "=" in text


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise OptionError(f"{text!r} has no value.", "Write NAME=VALUE.")
    return name, value


def _value(text: str) -> object:
    """Return a text as a Python literal if it is one, otherwise unchanged."""
    with contextlib.suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    return text


if __name__ == "__main__":
    sys.exit(main())
