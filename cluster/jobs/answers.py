"""What Slurm's commands say of an array, read. Pure: texts in, dictionaries out."""

from __future__ import annotations

import re


def shown(text: str) -> dict[str, str]:
    """{task: state} from `scontrol show job --oneliner`; of a job that is no array the task is ''."""
    found = {}
    for line in text.splitlines():
        values = dict(re.findall(r"(ArrayTaskId|JobState)=(\S+)", line))
        if "JobState" in values:
            found |= dict.fromkeys(numbers(values.get("ArrayTaskId", "")), values["JobState"])
    return found


def accounted(text: str) -> dict[str, str]:
    """{task: state} from `sacct --parsable2 --format=JobID,State`: the last word on each."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        job, sign, state = line.partition("|")
        if sign and state:
            tasks = numbers(job.partition("_")[2].strip("[]"))
            found |= dict.fromkeys(tasks, state.split()[0].rstrip("+"))
    return found


def numbers(text: str) -> list[str]:
    """The reverse of `ranges`, as texts; a limit after % is left out.

    >>> numbers("0-2,5%4")
    ['0', '1', '2', '5']
    """
    found: list[str] = []
    for part in text.partition("%")[0].split(","):
        first, _, last = part.partition("-")
        found += map(str, range(int(first), int(last) + 1)) if last else [first]
    return found
