"""The options of a job: defaults, validation, and the assignment of keywords to options or arguments."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, NoReturn

from cluster.slurm import site, words
from cluster.system import settings

from .errors import OptionError, OptionValueError

UNITS = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}  # in MiB, Slurm's unit


@dataclass(frozen=True)
class Options:
    """Resources and options of a job. Once checked, `memory` is in MiB per rank and `time` in seconds."""

    nodes: int = 1
    ranks_per_node: int = 1
    cpus_per_rank: int = 1
    gpus_per_rank: int = 0
    memory: int | str | None = "2G"
    time: int | str = "00:10:00"
    name: str | None = None
    controller: str = "auto"
    backend: str = "auto"
    rerun: bool = False
    requeue: bool = False
    timeline: bool = False
    max_output: str | None = None
    env: dict[str, str] | None = None
    folder: str | None = None
    partition: str | None = None
    sbatch: dict[str, Any] | None = None

    @property
    def ranks(self) -> int:
        """Number of ranks, p."""
        return self.nodes * self.ranks_per_node

    def resources(self) -> dict[str, Any]:
        """Return the options that can change a result and are therefore part of a run's cache key."""
        names = ["nodes", "ranks_per_node", "cpus_per_rank", "gpus_per_rank", "controller"]
        return {n: getattr(self, n) for n in names} | ({"env": self.env} if self.env else {})


NAMES = [f.name for f in fields(Options)]
CHOICES = {"controller": ("auto", "gloo", "mpi"), "backend": ("auto", "local", "slurm")}
CHOICES |= dict.fromkeys(("rerun", "requeue", "timeline"), (True, False))  # type: ignore[arg-type]


def check_options(given: dict[str, Any]) -> Options:
    """Return options from keywords, with each value validated and converted to one unit.

    Raises OptionValueError, which quotes the value and the expected form.

    >>> check_options({"memory": "1.5G", "time": "01:00:00"}).memory
    1536
    """
    o = asdict(Options()) | given
    for name, least in [("nodes", 1), ("ranks_per_node", 1), ("cpus_per_rank", 1), ("gpus_per_rank", 0)]:
        if isinstance(o[name], bool) or not isinstance(o[name], int) or o[name] < least:
            _bad(name, o[name], f"a whole number, {least} or more")
    for name, choices in CHOICES.items():
        if o[name] not in choices or type(o[name]) is not type(choices[0]):
            _bad(name, o[name], "one of " + ", ".join(repr(c) for c in choices))
    for name in ("name", "partition"):
        if o[name] is not None:
            _text(name, o[name])
    most = settings.text("CLUSTER_MAX_OUTPUT") if o["max_output"] is None else o["max_output"]
    if size(most) < 4096:
        name = "CLUSTER_MAX_OUTPUT" if o["max_output"] is None else "max_output"
        _bad(name, most, "a number and a unit, '4K' or more: '50M', '1G'")
    if o["memory"] is not None:  # None leaves it to the site
        if size(o["memory"]) < 2**20:
            _bad("memory", o["memory"], "a number and a unit, for each rank: '2G' or '512M' (G is GiB)")
        o["memory"] = size(o["memory"]) // 2**20
    if not isinstance(o["time"], str) or not words.unclock(o["time"]):
        _bad("time", o["time"], "hours:minutes:seconds such as '00:10:00', or with days '1-12:00:00'")
    o["time"] = words.unclock(o["time"])
    o["env"] = None if o["env"] is None else _env(o["env"])
    o["sbatch"] = None if o["sbatch"] is None else _sbatch(o["sbatch"])
    o["folder"] = None if o["folder"] is None else str(o["folder"])
    return Options(**o)


def read_call(
    target: Callable | str,
    args: tuple,
    keywords: dict[str, Any],
    caller: str = "submit",
    own: tuple[str, ...] = (),
) -> tuple[Options, dict[str, Any], dict[str, Any]]:
    """Return (options, keywords for the target, all its arguments by name) of a call of `submit` or `map`.

    own: further options, which that call has already removed. The arguments by name include the defaults, so
    f(3) and f(n=3) are the same run. Raises OptionError for an unknown keyword, with the nearest valid one,
    for a parameter of the function that has the name of an option, and for arguments that do not fit.
    """
    names = [*own, *NAMES]
    signature = _signature(target) if callable(target) else None
    parameters = signature.parameters.values() if signature else []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    name = getattr(target, "__name__", "the function")
    label = f"{name}()" if callable(target) else f"the script {target}"
    both = [n for n in named if n in names]
    if both:
        raise OptionError(
            f"{label} has a parameter {both[0]!r}, which is also an option of {caller}().",
            f"Rename the parameter of {label}, for example to {both[0] + '_'!r}.",
        )
    for k in keywords:
        if k not in NAMES and k not in named and not takes_any:
            near = difflib.get_close_matches(k, names + named, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise OptionError(
                f"{caller}() has no option {k!r}, and {label} has no such parameter.",
                f"{hint}Options: {', '.join(names)}. Parameters of {label}: {', '.join(named) or 'none'}.",
            )
    options = check_options({k: v for k, v in keywords.items() if k in NAMES})
    given = {k: v for k, v in keywords.items() if k not in NAMES}
    if signature is None:
        return options, given, {f"argument {i}": a for i, a in enumerate(args)}
    try:
        bound = signature.bind(*args, **given)
    except TypeError as e:
        raise OptionError(
            f"{name}{signature} cannot be called with these arguments: {e}.",
            f"Give its arguments after the function: {caller}({name}, ...).",
        ) from None
    bound.apply_defaults()
    return options, given, dict(bound.arguments)


def _signature(function: Callable) -> inspect.Signature | None:
    """Return the signature, or None for functions written in C that do not expose their parameters."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def size(v: Any) -> int:
    """Convert text such as '50M' or '1.5G' to bytes; return 0 if it is not a size.

    >>> size("1.5K"), size("many")
    (1536, 0)
    """
    m = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B)?", v.strip(), re.I) if isinstance(v, str) else None
    return int(float(m[1]) * UNITS[m[2].upper()] * 2**20) if m else 0


def number_set(name: str, least: int = 0) -> int:
    """Return the value of a numeric CLUSTER_... variable, or its default. Raises OptionValueError."""
    try:
        return settings.whole_number(name, least)
    except settings.SettingError as e:
        raise OptionValueError(e.what, e.next_step) from None


def _bad(name: str, value: Any, form: str) -> NoReturn:
    raise OptionValueError(f"{name}={value!r} is not valid.", f"{name} must be {form}.")


def _text(name: str, v: Any) -> str:
    if not isinstance(v, str) or not v or len(v) > 200 or any(ord(c) < 32 or ord(c) == 127 for c in v):
        _bad(name, v, "a string of 1 to 200 characters on one line")
    return v


def _env(env: Any) -> dict[str, str]:
    if not isinstance(env, dict):
        _bad("env", env, "a dictionary such as {'HOROVOD_TIMELINE': 'trace.json'}")
    for k, v in env.items():
        if not isinstance(k, str) or not re.fullmatch(r"[A-Za-z_]\w*", k, re.A):
            _bad("env", k, "a dictionary whose keys are names of environment variables")
        if isinstance(v, bool) or not isinstance(v, (str, int, float)) or "\0" in str(v):
            _bad(f"env[{k!r}]", v, "a string or a number")
    return {k: str(v) for k, v in env.items()}


def _sbatch(extra: Any) -> dict[str, Any]:
    if not isinstance(extra, dict):
        _bad("sbatch", extra, "a dictionary such as {'account': 'course', 'constraint': 'v100'}")
    out: dict[str, Any] = {}
    for k, v in extra.items():
        key = str(k).replace("_", "-")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", key, re.A):
            _bad("sbatch", k, "a dictionary whose keys are long options of sbatch, without the dashes")
        if key in site.OWN | {"partition"}:
            _bad("sbatch", k, f"without {key!r}, which submit writes itself from its own options")
        out[key] = None if v is True else v  # None: an option without a value
        if not isinstance(v, (bool, type(None))):  # False removes an option that the site sets
            out[key] = _text(f"sbatch[{k!r}]", str(v))
    return out
