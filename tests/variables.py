"""Every test and every test module must restore the environment, because the next one in the same worker
would see a change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Variables that pytest sets for each test, or that a session fixture, libraries or nbgrader (which runs in
# this process) set.
NOT_COMPARED = {
    "PYTEST_CURRENT_TEST", "CLUSTER_MAX_RANKS", "CLUSTER_STATE", "NBGRADER_EXECUTION", "KMP_DUPLICATE_LIB_OK",
    "ENABLE_RUNTIME_UPTIME_TELEMETRY", "TF2_BEHAVIOR", "TPU_ML_PLATFORM", "TPU_ML_PLATFORM_VERSION",
}  # fmt: skip

# the module whose tests are running, and the environment at its beginning
_module: tuple[str, dict[str, str]] = "", {}


def now() -> dict[str, str]:
    """Return the environment without the variables that a test may change."""
    return {name: value for name, value in os.environ.items() if name not in NOT_COMPARED}


@contextmanager
def kept(what: str) -> Iterator[None]:
    """If the block changes environment variables, restore them and raise AssertionError with their names."""
    before = now()
    yield
    put_back(before, what)


def put_back(before: dict[str, str], what: str) -> None:
    """If the environment differs from `before`, restore it and raise AssertionError with the variables'
    names."""
    after = now()
    left = sorted(name for name in before | after if before.get(name) != after.get(name))
    for name in left:
        os.environ.pop(name, None)
        if name in before:
            os.environ[name] = before[name]
    assert not left, f"{what} leaves other values in os.environ of {', '.join(left)}: use monkeypatch"


def begin(module: str) -> None:
    """If the next test is the first one of this module, store the environment before the test's fixtures are
    created.
    """
    global _module
    if _module[0] != module:
        _module = module, now()


def end(module: str) -> None:
    """If this module's tests and fixtures changed the environment, restore it and raise AssertionError."""
    global _module
    before, _module = _module[1], ("", {})
    put_back(before, module)
