"""The grammar of Slurm's answers and options: tasks, ranges, durations, GPUs. All functions are pure."""

from __future__ import annotations

import math
import re


def shown(text: str) -> dict[str, str]:
    """Return {task: state} from `scontrol show job --oneliner`; the task of a job without an array is ''."""
    states: dict[str, str] = {}
    for line in text.splitlines():
        values = dict(re.findall(r"(ArrayTaskId|JobState)=(\S+)", line))
        if "JobState" in values:
            for task in numbers(values.get("ArrayTaskId", "")):
                states[task] = values["JobState"]
    return states


def accounted(text: str) -> dict[str, str]:
    """Return {task: state} from `sacct --parsable2 --format=JobID,State`, the last entry for each."""
    states: dict[str, str] = {}
    for line in text.splitlines():
        job, sign, state = line.partition("|")
        if sign and state:
            tasks = numbers(job.partition("_")[2].strip("[]"))
            states |= dict.fromkeys(tasks, state.split()[0].rstrip("+"))
    return states


def numbers(text: str) -> list[str]:
    """Expand numbers in Slurm's notation (see `ranges`) to strings; a limit after % is left out.

    >>> numbers("0-2,5%4")
    ['0', '1', '2', '5']
    """
    result: list[str] = []
    for part in text.partition("%")[0].split(","):
        first, _, last = part.partition("-")
        result += map(str, range(int(first), int(last) + 1)) if last else [first]
    return result


def seconds(text: str) -> float:
    """Convert one of Slurm's time limits, in any of Slurm's forms, to seconds; infinity for `infinite`.

    >>> seconds("1-02:03:04"), seconds("30:00"), seconds("90"), seconds("2-12"), seconds("infinite")
    (93784.0, 1800.0, 5400.0, 216000.0, inf)
    """
    days, dash, clock = text.strip().rpartition("-")
    parts = [days or "0", *clock.split(":")]
    if not all(p.isdecimal() for p in parts) or len(parts) > 4:
        return math.inf
    day, *rest = map(int, parts)
    if not dash:  # minutes, minutes:seconds or hours:minutes:seconds
        rest = [0] * (len(rest) < 3) + rest
    hours, minutes, secs = [*rest, 0, 0][:3]
    return float(((day * 24 + hours) * 60 + minutes) * 60 + secs)


def unclock(text: str) -> int:
    """Convert a time as written by `clock` to seconds; 0 if it is not [days-]hours:minutes:seconds.

    >>> unclock("1-12:00:00"), unclock("0:10:00"), unclock("00:90:00")
    (129600, 600, 0)
    """
    form = r"(?:\d+-)?\d{1,3}:[0-5]?\d:[0-5]?\d"
    return int(seconds(text)) if re.fullmatch(form, text.strip(), re.A) else 0


def gpus(text: str) -> int:
    """Return the number of GPUs among generic resources, as `sinfo` and `squeue` print them.

    >>> gpus("gpu:a100:4(S:0-1),gpu:2,tmp:50"), gpus("(null)")
    (6, 0)
    """
    return sum(int(n) for n in re.findall(r"gpu(?::[^:,()]+)*?:(\d+)", text))


def expand(text: str) -> tuple[int, ...]:
    """Expand Slurm's short form of the number of tasks on each node.

    >>> expand("2(x3),1")
    (2, 2, 2, 1)
    """
    out: list[int] = []
    for part in text.split(","):
        tasks, _, times = part.partition("(x")
        out += [int(tasks)] * int(times.rstrip(")") or 1)
    return tuple(out)


def ranges(numbers: list[int]) -> str:
    """Return ascending numbers in Slurm's notation.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1][1:] = [n]
        else:
            parts.append([n])
    return ",".join("-".join(map(str, p)) for p in parts)


def clock(seconds: float) -> str:
    """Return seconds in Slurm's notation for time limits.

    >>> clock(3690)
    '01:01:30'
    """
    days, s = divmod(int(seconds), 86400)
    return (f"{days}-" if days else "") + f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}"
