"""Provenance of a run besides its code, without secrets: versions, machine, the command that repeats it."""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import os
import platform
import subprocess
import tokenize
from pathlib import Path
from typing import Any

# Ranks need no hub or notebook keys; variables of an enclosing job would mislead mpirun, srun and sbatch.
# MPLBACKEND is the notebook's plotting backend, which ranks do not have.
DROPPED: tuple[str, ...] = (
    "JUPYTERHUB_",
    "JPY_",
    "JUPYTER_TOKEN",
    "SLURM_",
    "SBATCH_",
    "OMPI_",
    "PMIX_",
    "PMI_",
    "HOROVOD_",
)
DROPPED += ("MPLBACKEND",)

# Horovod's variables that place a rank; its others tune it.
PLACED: tuple[str, ...] = (
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_",
    "HOROVOD_CROSS_",
    "HOROVOD_HOSTNAME",
)
PLACED += ("HOROVOD_GLOO_", "HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS")
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL",
    "PYTHONHASHSEED",
}  # do not change results, or are the same for all runs on purpose


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, without importing them."""
    import importlib.metadata  # slow to import, and only needed here

    result = {"python": platform.python_version()}
    for name in ("tensorflow-cpu", "tensorflow", "keras", "horovod", "numpy"):
        try:
            result[name.removesuffix("-cpu")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    commit = _git_commit()
    return result | ({"cluster": commit} if commit else {})


@functools.cache
def machine() -> dict[str, Any]:
    """Return the processor, cores and memory (GiB) of the submitting machine."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    model = next(
        (x.partition(":")[2].strip() for x in lines if x.startswith("model name")), platform.machine()
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": platform.system(),
    }


def code_digest(text: str) -> str:
    """Return the SHA-256 of Python source without its comments, docstrings and blank lines, in hexadecimal.

    A record can therefore name the script that made it, although its documentation has changed since.

    >>> code_digest("x = 1  # one") == code_digest("x = 1")
    True
    """
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            first, last = node.body[0].lineno - 1, node.body[0].end_lineno or 0
            lines[first:last] = [""] * (last - first)
    return hashlib.sha256("\n".join(line.rstrip() for line in lines if line.strip()).encode()).hexdigest()


def environment(options: Any) -> dict[str, str]:
    """Return the ranks' environment: this process's, without keys, and with one thread pool per rank.

    TensorFlow and BLAS get `cpus_per_rank` threads, operations run one after another, and hashes are equal in
    all processes. Variables in `env` take precedence.
    """
    threads = str(options.cpus_per_rank)
    env = {k: v for k, v in os.environ.items() if k == "SLURM_CONF" or not k.startswith(DROPPED)}
    path = [str(Path(__file__).resolve().parents[3]), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(p for p in path if p)
    output = {"CLUSTER_MAX_OUTPUT": options.max_output} if options.max_output else {}
    return env | variables(threads) | output | (options.env or {})


def not_passed_on(options: Any) -> list[str]:
    """Return a line for each variable set here that the ranks get with another value, or not at all."""
    ranks, given = environment(options), options.env or {}
    tuning = [k for k in os.environ if k.startswith("HOROVOD_") and not k.startswith(PLACED)]
    lines = []
    for name in [*variables(""), *tuning]:
        here, there = os.environ.get(name), ranks.get(name)
        if here is not None and here != there and name not in given and name not in QUIET:
            value = f"{there!r}" if there else "no value"
            lines.append(
                f"{name}={here} is set here, but has {value} on the ranks: give env={{{name!r}: {here!r}}}."
            )
    return lines


def variables(threads: str) -> dict[str, str]:
    """Return the variables that every rank gets on every backend."""
    pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    fixed = {"TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONHASHSEED": "0"}
    return dict.fromkeys(pools, threads) | fixed


def command(name: str, arguments: dict[str, Any], options: dict[str, Any]) -> str:
    """Return the call of submit that repeats the run; `options` are the checked options."""
    return f"submit({', '.join([name, *keywords(arguments, options)])})"


def keywords(arguments: dict[str, Any], options: dict[str, Any]) -> list[str]:
    """Return the arguments and the options that are not defaults, such as ['epochs=3', 'nodes=2']."""
    from cluster.slurm.words import clock

    from ..options import check_options

    usual = vars(check_options({}))
    given = {k: v for k, v in options.items() if v != usual[k] and k not in ("rerun", "folder")}
    forms = {"memory": lambda mib: mib and f"{mib}M", "time": clock}
    given = {k: forms[k](v) if k in forms else v for k, v in given.items()}
    return [f"{k}={short(v)}" for k, v in (arguments | given).items()]


def short(v: Any) -> str:
    """Return a value as text of at most 80 characters."""
    text = repr(v)
    return text if len(text) <= 80 else text[:60] + " ... " + text[-15:]


def _git_commit() -> str | None:
    here = Path(__file__).resolve().parents[3]
    if not (here / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True, text=True, timeout=5,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
